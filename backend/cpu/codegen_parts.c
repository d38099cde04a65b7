/* A module as several objects, whose code is made at the same time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>

#include "backend/cpu/codegen.h"
#include "backend/cpu/machine.h"

enum {
    MOST_PARTS = 16,
    LEAST_INSTRUCTIONS = 100, /* that a part is worth: it needs a module and passes of its own */
};

static const struct src_loc nowhere = {0};

/* ---- the functions of a part ---- */

/* Some functions of the module: those whose number in `part_of` is this part's. */
struct part {
    struct cpu_options options; /* the program's, at the level of the part */
    int number;
    struct cpu_code code;
    struct diag diag;
    bool ok;
};

/* Another part has the body. */
static void make_declaration(LLVMModuleRef module, LLVMValueRef function) {
    size_t length;
    char *name = strdup(LLVMGetValueName2(function, &length));
    LLVMValueRef declared = LLVMAddFunction(module, "", LLVMGlobalGetValueType(function));
    LLVMReplaceAllUsesWith(function, declared);
    LLVMDeleteFunction(function);
    LLVMSetValueName2(declared, name, length);
    LLVMSetVisibility(declared, LLVMHiddenVisibility);
    free(name);
}

/* Reads the bodies that are left of a module that is read on demand. The one way to that in LLVM's
 * C interface is to have passes, none here, run over a function. */
static void read_bodies(LLVMModuleRef module) {
    LLVMPassManagerRef none = LLVMCreateFunctionPassManagerForModule(module);
    LLVMValueRef f;
    for (f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) LLVMRunFunctionPassManager(none, f);
    LLVMDisposePassManager(none);
}

static void keep_own_functions(LLVMModuleRef module, const int *part_of, int number) {
    LLVMValueRef next, function = LLVMGetFirstFunction(module);
    for (int i = 0; function; function = next) {
        next = LLVMGetNextFunction(function);
        if (LLVMIsDeclaration(function)) continue;
        if (part_of[i++] != number) make_declaration(module, function);
    }
    read_bodies(module);
    LLVMValueRef global = LLVMGetFirstGlobal(module);
    for (; global; global = next) {
        next = LLVMGetNextGlobal(global);
        bool shared = LLVMGetLinkage(global) != LLVMPrivateLinkage;
        if (shared && number == 0) continue; /* the first part has these */
        if (!LLVMGetFirstUse(global))
            LLVMDeleteGlobal(global);
        else if (shared)
            LLVMSetInitializer(global, NULL);
    }
}

/* ---- the threads ---- */

/* Threads that are there before the module is: what each of them needs of LLVM's machine takes as
 * long as a small kernel. The caller of codegen_parts is one of them. */
struct codegen_crew {
    struct cpu_options options;
    pthread_t threads[MOST_PARTS];
    int count; /* of threads, without the caller */
    pthread_mutex_t lock;
    pthread_cond_t change;
    /* Guarded by the lock: */
    bool ready; /* the rest is there, or there will be none */
    LLVMMemoryBufferRef bitcode;
    const int *part_of;
    struct part *parts;
    int nparts, next;
};

static struct part *take_part(struct codegen_crew *crew) {
    pthread_mutex_lock(&crew->lock);
    while (!crew->ready)
        pthread_cond_wait(&crew->change, &crew->lock);
    struct part *part = crew->next < crew->nparts ? &crew->parts[crew->next++] : NULL;
    pthread_mutex_unlock(&crew->lock);
    return part;
}

static void generate(const struct codegen_crew *crew, struct part *part, LLVMModuleRef module,
                     LLVMTargetMachineRef machine) {
    keep_own_functions(module, crew->part_of, part->number);
    part->ok = codegen_module(module, machine, &part->options, CPU_OBJ, &part->code, &part->diag);
}

/* From the bitcode of the whole module. `machine` is of the program's level. */
static void generate_part(const struct codegen_crew *crew, struct part *part,
                          LLVMTargetMachineRef machine) {
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = NULL;
    LLVMMemoryBufferRef bitcode = LLVMCreateMemoryBufferWithMemoryRange(
        LLVMGetBufferStart(crew->bitcode), LLVMGetBufferSize(crew->bitcode), "", false);
    struct cpu_machine other = {0};
    LLVMContextSetDiagnosticHandler(context, codegen_ignore_remark, NULL);
    if (part->options.opt_level != crew->options.opt_level)
        machine = cpu_machine_new(&part->options, &other, &part->diag) ? other.llvm : NULL;
    /* Bodies are read on demand; the module takes the buffer. */
    if (LLVMGetBitcodeModuleInContext2(context, bitcode, &module)) module = NULL;
    if (module && machine) generate(crew, part, module, machine);
    if (module) LLVMDisposeModule(module);
    if (other.llvm) LLVMDisposeTargetMachine(other.llvm);
    LLVMContextDispose(context);
}

static void *work(void *data) {
    struct codegen_crew *crew = data;
    struct cpu_machine machine;
    struct diag diag;
    struct part *part;
    diag_init(&diag, "code", NULL, 0);
    bool ok = cpu_machine_new(&crew->options, &machine, &diag);
    while (ok && (part = take_part(crew)))
        generate_part(crew, part, machine.llvm);
    if (ok) LLVMDisposeTargetMachine(machine.llvm);
    diag_clear(&diag);
    return NULL;
}

struct codegen_crew *codegen_crew_new(const struct cpu_options *options, int threads) {
    struct codegen_crew *crew = calloc(1, sizeof *crew);
    if (!crew) return NULL;
    crew->options = *options;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->change, NULL);
    while (crew->count < threads - 1 && crew->count < MOST_PARTS - 2 &&
           pthread_create(&crew->threads[crew->count], NULL, work, crew) == 0)
        crew->count++;
    return crew;
}

static void start(struct codegen_crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->ready = true;
    pthread_cond_broadcast(&crew->change);
    pthread_mutex_unlock(&crew->lock);
}

static void join(struct codegen_crew *crew) {
    while (crew->count > 0)
        pthread_join(crew->threads[--crew->count], NULL);
}

void codegen_crew_free(struct codegen_crew *crew) {
    if (!crew) return;
    start(crew);
    join(crew);
    pthread_cond_destroy(&crew->change);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

/* ---- who does what ---- */

static int64_t instructions_in(LLVMValueRef function) {
    int64_t count = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            count++;
    return count;
}

/* A function of the module, by its number among those with a body. */
struct piece {
    int number;
    int64_t cost;
    bool as_emitted; /* LLVM does not improve it: code for it is made at level 0 */
};

static int by_cost(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->number - y->number;
}

static bool is_as_emitted(LLVMValueRef function) {
    unsigned kind = LLVMGetEnumAttributeKindForName("optnone", strlen("optnone"));
    return LLVMGetEnumAttributeAtIndex(function, LLVMAttributeFunctionIndex, kind) != NULL;
}

static int list_pieces(LLVMModuleRef module, struct piece *pieces) {
    int count = 0;
    LLVMValueRef f;
    for (f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f)) continue;
        pieces[count] = (struct piece){count, instructions_in(f), is_as_emitted(f)};
        count++;
    }
    return count;
}

/* How a module is divided: parts 0 to `count`, of which the last may be code as it was emitted. */
struct division {
    int *part_of; /* by function */
    int count;
    bool last_as_emitted;
};

/* The largest function first, each to the part with the least so far; what stays as it was emitted
 * to one of its own, where it is much. */
static void divide(struct division *division, struct piece *pieces, int count, int threads) {
    enum { LEAST_AS_EMITTED = 250, AS_EMITTED_SHARE = 3 }; /* it takes a third of the time */
    int64_t load[MOST_PARTS] = {0}, total = 0, plain = 0;
    for (int i = 0; i < count; i++)
        *(pieces[i].as_emitted ? &plain : &total) += pieces[i].cost;
    bool apart = plain >= LEAST_AS_EMITTED && total > 0;
    int parts = threads < MOST_PARTS - 1 ? threads : MOST_PARTS - 1;
    if (parts > total / LEAST_INSTRUCTIONS) parts = (int)(total / LEAST_INSTRUCTIONS);
    if (parts < 1) parts = 1;
    qsort(pieces, (size_t)count, sizeof *pieces, by_cost);
    for (int i = 0; i < count; i++) {
        int part = 0;
        for (int p = 1; p < parts; p++)
            if (load[p] < load[part]) part = p;
        if (apart && pieces[i].as_emitted)
            part = parts;
        else
            load[part] += pieces[i].cost / (pieces[i].as_emitted ? AS_EMITTED_SHARE : 1);
        division->part_of[pieces[i].number] = part;
    }
    division->count = parts + apart;
    division->last_as_emitted = apart;
}

/* What was made in parts, as one. */
static bool collect(struct part *parts, int count, struct cpu_code *code, struct diag *diag) {
    code->more = calloc((size_t)count, sizeof *code->more);
    bool ok = code->more != NULL;
    for (int p = 0; p < count; p++)
        ok = ok && parts[p].ok;
    for (int p = 0; p < count; p++) {
        struct cpu_code *from = &parts[p].code;
        if (!ok) {
            free(from->data);
        } else if (p == 0) {
            code->data = from->data;
            code->size = from->size;
        } else {
            code->more[code->nmore++] = (struct cpu_part){from->data, from->size};
        }
        if (!parts[p].ok) diag_error(diag, nowhere, "internal error: a part has no code");
        diag_clear(&parts[p].diag);
    }
    return ok;
}

static int count_functions(LLVMModuleRef module) {
    int count = 0;
    LLVMValueRef function;
    for (function = LLVMGetFirstFunction(module); function;
         function = LLVMGetNextFunction(function))
        if (!LLVMIsDeclaration(function) && count++ > 0) {
            LLVMSetLinkage(function, LLVMExternalLinkage);
            LLVMSetVisibility(function, LLVMHiddenVisibility);
        }
    return count;
}

/* Numbers are slow to write and to read as bitcode: large arrays are the first part's, which is
 * not read from it, and the others' by name. These get at them through a pointer, as code does at
 * what may be anywhere, since objects need not lie near each other. */
static bool is_large(LLVMValueRef global) {
    enum { LARGE = 4096 };
    LLVMTypeRef type = LLVMGlobalGetValueType(global);
    return LLVMGetInitializer(global) && LLVMGetTypeKind(type) == LLVMArrayTypeKind &&
           LLVMGetArrayLength2(type) >= LARGE;
}

/* What the parts after the first read. NULL where there is no memory. */
static LLVMMemoryBufferRef write_bitcode(LLVMModuleRef module) {
    LLVMValueRef g;
    size_t count = 0, i = 0;
    for (g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g))
        count++;
    LLVMValueRef *values = calloc(count + 1, sizeof(LLVMValueRef));
    if (!values) return NULL;
    for (g = LLVMGetFirstGlobal(module), i = 0; g; g = LLVMGetNextGlobal(g), i++)
        if (is_large(g)) {
            values[i] = LLVMGetInitializer(g);
            LLVMSetInitializer(g, NULL);
            LLVMSetLinkage(g, LLVMExternalLinkage);
        }
    LLVMMemoryBufferRef bitcode = LLVMWriteBitcodeToMemoryBuffer(module);
    for (g = LLVMGetFirstGlobal(module), i = 0; g; g = LLVMGetNextGlobal(g), i++)
        if (values[i]) LLVMSetInitializer(g, values[i]);
    free(values);
    return bitcode;
}

/* The first part in place, the others by whoever has time. */
static bool run_parts(struct codegen_crew *crew, const struct division *division,
                      LLVMModuleRef module, LLVMTargetMachineRef machine, struct cpu_code *code,
                      struct diag *diag) {
    struct part parts[MOST_PARTS], *part;
    memset(parts, 0, sizeof parts);
    for (int p = 0; p < division->count; p++) {
        parts[p] = (struct part){.options = crew->options, .number = p};
        diag_init(&parts[p].diag, "code", NULL, 0);
    }
    if (division->last_as_emitted) parts[division->count - 1].options.opt_level = 0;
    crew->bitcode = write_bitcode(module);
    if (!crew->bitcode) {
        diag_error(diag, nowhere, "out of memory");
        return false;
    }
    crew->part_of = division->part_of;
    crew->parts = parts;
    crew->nparts = division->count;
    crew->next = 1;
    start(crew);
    generate(crew, &parts[0], module, machine);
    while ((part = take_part(crew)))
        generate_part(crew, part, machine);
    join(crew);
    LLVMDisposeMemoryBuffer(crew->bitcode);
    return collect(parts, division->count, code, diag);
}

bool codegen_parts(struct codegen_crew *crew, LLVMModuleRef module, LLVMTargetMachineRef machine,
                   struct cpu_code *code, struct diag *diag) {
    int functions = count_functions(module);
    struct division division = {.part_of = calloc((size_t)functions + 1, sizeof(int)), .count = 1};
    struct piece *pieces = calloc((size_t)functions + 1, sizeof *pieces);
    if (division.part_of && pieces)
        divide(&division, pieces, list_pieces(module, pieces), crew->count + 1);
    bool ok = division.count < 2
                  ? codegen_module(module, machine, &crew->options, CPU_OBJ, code, diag)
                  : run_parts(crew, &division, module, machine, code, diag);
    free(pieces);
    free(division.part_of);
    return ok;
}
