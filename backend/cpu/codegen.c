#include "backend/cpu/codegen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backend/cpu/machine.h"

static const struct src_loc nowhere = {0};

/* LLVM's remarks are for people who write kernels by hand; its errors come back from the calls. */
void codegen_ignore_remark(LLVMDiagnosticInfoRef info, void *data) {
    (void)info;
    (void)data;
}

/* Kernels are loops over code that is already simple: what they need is registers for variables,
 * invariants out of loops, and vectors. */
static const char *const pipelines[] = {
    "function(sroa)",
    "function(sroa,early-cse)",
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,loop-mssa(licm),loop-"
    "vectorize,"
    "instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)",
    "default<O3>",
};

static bool run_passes(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes,
                       struct diag *diag) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return true;
    char *text = LLVMGetErrorMessage(error);
    diag_error(diag, nowhere, "internal error: LLVM passes: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static bool optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int level,
                     struct diag *diag) {
    char *why = NULL;
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &why)) {
        diag_error(diag, nowhere, "internal error: invalid LLVM IR: %s", why);
        LLVMDisposeMessage(why);
        return false;
    }
    LLVMDisposeMessage(why);
    return run_passes(module, machine, pipelines[level < 0 ? 0 : level > 3 ? 3 : level], diag);
}

static bool write_code(LLVMModuleRef module, LLVMTargetMachineRef machine, enum cpu_output output,
                       struct cpu_code *code, struct diag *diag) {
    LLVMMemoryBufferRef buffer = NULL;
    char *why = NULL;
    if (output == CPU_LLVM_IR) {
        char *text = LLVMPrintModuleToString(module);
        code->data = strdup(text);
        code->size = strlen(text);
        LLVMDisposeMessage(text);
    } else {
        if (output == CPU_LLVM_BC) {
            buffer = LLVMWriteBitcodeToMemoryBuffer(module);
        } else if (LLVMTargetMachineEmitToMemoryBuffer(
                       machine, module, output == CPU_ASM ? LLVMAssemblyFile : LLVMObjectFile, &why,
                       &buffer)) {
            diag_error(diag, nowhere, "internal error: code generation: %s", why);
            LLVMDisposeMessage(why);
            return false;
        }
        code->size = LLVMGetBufferSize(buffer);
        code->data = malloc(code->size + 1);
        if (code->data) {
            memcpy(code->data, LLVMGetBufferStart(buffer), code->size);
            ((char *)code->data)[code->size] = 0;
        }
        LLVMDisposeMemoryBuffer(buffer);
    }
    if (!code->data) diag_error(diag, nowhere, "out of memory");
    return code->data != NULL;
}

/* A compiler that is built to check its own accesses checks those of the code it runs, too: the
 * report functions are in the process. */
#ifdef __SANITIZE_ADDRESS__
static bool add_checks(LLVMModuleRef module, LLVMTargetMachineRef machine, struct diag *diag) {
    unsigned kind = LLVMGetEnumAttributeKindForName("sanitize_address", 16);
    LLVMAttributeRef checked = LLVMCreateEnumAttribute(LLVMGetModuleContext(module), kind, 0);
    LLVMValueRef f;
    for (f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, checked);
    return run_passes(module, machine, "asan", diag);
}
#else
static bool add_checks(LLVMModuleRef module, LLVMTargetMachineRef machine, struct diag *diag) {
    (void)module;
    (void)machine;
    (void)diag;
    return true;
}
#endif

bool codegen_module(LLVMModuleRef module, LLVMTargetMachineRef machine,
                    const struct cpu_options *options, enum cpu_output output,
                    struct cpu_code *code, struct diag *diag) {
    return optimise(module, machine, options->opt_level, diag) &&
           (!options->in_parts || add_checks(module, machine, diag)) &&
           write_code(module, machine, output, code, diag);
}

/* ---- parts ---- */

enum {
    MOST_PARTS = 16,
    LEAST_INSTRUCTIONS = 250, /* that a part is worth: it needs a machine and a module of its own */
};

/* One thread's work: the functions of the module whose number in `part_of` is this part's. */
struct part {
    struct cpu_options options;  /* the program's, at the level of the part */
    LLVMMemoryBufferRef bitcode; /* of the whole module; shared, only read */
    const int *part_of;
    int number;
    struct cpu_code code;
    struct diag diag;
    bool ok;
    pthread_t thread;
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

static void keep_own_functions(LLVMModuleRef module, const struct part *part) {
    LLVMValueRef next, function = LLVMGetFirstFunction(module);
    for (int i = 0; function; function = next) {
        next = LLVMGetNextFunction(function);
        if (LLVMIsDeclaration(function)) continue;
        if (part->part_of[i++] != part->number) make_declaration(module, function);
    }
    LLVMValueRef global = LLVMGetFirstGlobal(module);
    for (; global; global = next) {
        next = LLVMGetNextGlobal(global);
        bool shared = LLVMGetLinkage(global) != LLVMPrivateLinkage;
        if (shared && part->number == 0) continue; /* the first part has these */
        if (!LLVMGetFirstUse(global))
            LLVMDeleteGlobal(global);
        else if (shared)
            LLVMSetInitializer(global, NULL);
    }
}

static void *generate_part(void *data) {
    struct part *part = data;
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = NULL;
    LLVMContextSetDiagnosticHandler(context, codegen_ignore_remark, NULL);
    struct cpu_machine target;
    bool ok = cpu_machine_new(&part->options, &target, &part->diag);
    LLVMTargetMachineRef machine = target.llvm;
    if (ok && !LLVMParseBitcodeInContext2(context, part->bitcode, &module)) {
        keep_own_functions(module, part);
        part->ok =
            codegen_module(module, machine, &part->options, CPU_OBJ, &part->code, &part->diag);
    }
    if (module) LLVMDisposeModule(module);
    if (ok) LLVMDisposeTargetMachine(machine);
    LLVMContextDispose(context);
    return NULL;
}

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
    int64_t load[MOST_PARTS] = {0}, total = 0, plain = 0;
    for (int i = 0; i < count; i++)
        *(pieces[i].as_emitted ? &plain : &total) += pieces[i].cost;
    bool apart = plain >= LEAST_INSTRUCTIONS && total > 0;
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
            load[part] += pieces[i].cost;
        division->part_of[pieces[i].number] = part;
    }
    division->count = parts + apart;
    division->last_as_emitted = apart;
}

static bool run_parts(struct part *parts, int count, struct cpu_code *code, struct diag *diag) {
    bool started[MOST_PARTS] = {false};
    for (int p = 1; p < count; p++)
        started[p] = pthread_create(&parts[p].thread, NULL, generate_part, &parts[p]) == 0;
    for (int p = 0; p < count; p++)
        if (!started[p]) generate_part(&parts[p]);
    bool ok = true;
    code->more = calloc((size_t)count, sizeof *code->more);
    for (int p = 0; p < count; p++) {
        if (started[p]) pthread_join(parts[p].thread, NULL);
        ok = ok && parts[p].ok && code->more;
    }
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

bool codegen_parts(LLVMModuleRef module, LLVMTargetMachineRef machine,
                   const struct cpu_options *options, int threads, struct cpu_code *code,
                   struct diag *diag) {
    int functions = count_functions(module);
    struct division division = {.part_of = calloc((size_t)functions + 1, sizeof(int)), .count = 1};
    struct piece *pieces = calloc((size_t)functions + 1, sizeof *pieces);
    if (division.part_of && pieces) divide(&division, pieces, list_pieces(module, pieces), threads);
    bool ok;
    if (division.count < 2) {
        ok = codegen_module(module, machine, options, CPU_OBJ, code, diag);
    } else {
        LLVMMemoryBufferRef bitcode = LLVMWriteBitcodeToMemoryBuffer(module);
        struct part parts[MOST_PARTS];
        memset(parts, 0, sizeof parts);
        for (int p = 0; p < division.count; p++) {
            parts[p] = (struct part){
                .options = *options, .bitcode = bitcode, .part_of = division.part_of, .number = p};
            diag_init(&parts[p].diag, "code", NULL, 0);
        }
        if (division.last_as_emitted) parts[division.count - 1].options.opt_level = 0;
        ok = run_parts(parts, division.count, code, diag);
        LLVMDisposeMemoryBuffer(bitcode);
    }
    free(pieces);
    free(division.part_of);
    return ok;
}
