#include "backend/cpu/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/debug_info.h"
#include "ir/print_internal.h"

/* Each pointer names all others as disjoint from it: quadratic, so bounded. */
enum { MOST_DISJOINT = 100 };

/* ---- what a kernel computes, as text ---- */

static void describe_computation(FILE *out, const struct hlo_computation *computation, int depth);

static void describe_literal(FILE *out, const struct literal *literal) {
    if (shape_is_tuple(literal->shape)) {
        for (int i = 0; i < literal->shape->ntuple; i++)
            describe_literal(out, literal->elements[i]);
        return;
    }
    fprintf(out, "#%zu:", literal->size);
    fwrite(literal->data, 1, literal->size, out);
}

static bool changes_code(const struct hlo_instr *instr, enum attr_key key) {
    bool calls_out = instr->opcode == OP_CUSTOM_CALL;
    return calls_out || (key != ATTR_SHARDING && key != ATTR_FRONTEND_ATTRIBUTES &&
                         key != ATTR_BACKEND_CONFIG && key != ATTR_UNKNOWN);
}

static void describe_instr(FILE *out, const struct hlo_instr *instr, int depth) {
    struct print_options options = print_options_full();
    fprintf(out, "%d %p", (int)instr->opcode, (const void *)instr->shape->plain);
    if (instr->opcode == OP_PARAMETER) fprintf(out, " %lld", (long long)instr->parameter);
    for (int i = 0; i < instr->nattrs; i++)
        if (changes_code(instr, instr->attrs[i].key)) print_attr(out, &instr->attrs[i], &options);
    for (int i = 0; i < instr->ncalled; i++)
        describe_computation(out, instr->called[i], depth + 1);
}

/* Instructions carry their place in their computation in `mark`. */
static void describe_computation(FILE *out, const struct hlo_computation *computation, int depth) {
    fputc('{', out);
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        describe_instr(out, i, depth);
        if (i->literal) describe_literal(out, i->literal);
        for (int k = 0; k < i->noperands; k++)
            fprintf(out, ",%d", i->operands[k]->mark);
        fputc(i == computation->root ? '!' : ';', out);
    }
    fputc('}', out);
}

/* A scalar constant operand is part of the code; any other operand comes in memory. */
static char *describe_call(const struct kernel_call *call, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) return NULL;
    const struct hlo_instr *instr = call->instr;
    describe_instr(out, instr, 0);
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];
        fprintf(out, "|%p", (const void *)operand->shape->plain);
        if (operand->opcode == OP_CONSTANT && operand->shape->count == 1)
            describe_literal(out, operand->literal);
    }
    for (int i = 0; i < call->nleaves; i++)
        fprintf(out, " %d", call->buffer[i]);
    fprintf(out, " phase %d", call->phase);
    fclose(out);
    return text;
}

/* ---- emission ---- */

LLVMTypeRef kernel_type(struct cpu_gen *g) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMTypeRef parameters[4] = {pointer, pointer, i64, i64};
    return LLVMFunctionType(LLVMVoidTypeInContext(g->b.context), parameters, 4, false);
}

static void emit_with(struct cpu_gen *g, const struct kernel_call *call,
                      LLVMValueRef const *buffers, LLVMValueRef scratch, LLVMValueRef begin,
                      LLVMValueRef end) {
    LLVMValueRef none = LLVMConstNull(LLVMPointerTypeInContext(g->b.context, 0));
    LLVMValueRef *leaves = arena_array(g->arena, (size_t)call->nleaves + 1, sizeof *leaves);
    for (int i = 0; i < call->nleaves; i++)
        leaves[i] = call->buffer[i] < 0 ? none : buffers[call->buffer[i]];
    int nout = call->instr->shape->nleaves;
    struct cpu_kernel k = {.instr = call->instr,
                           .out = leaves,
                           .in = leaves + nout,
                           .nout = nout,
                           .nin = call->nleaves - nout,
                           .phase = call->phase,
                           .scratch = scratch,
                           .begin = begin,
                           .end = end};
    scope_push(&g->seen);
    uint64_t outer = gen_frame_enter(g);
    LLVMValueRef *pointers = arena_array(g->arena, (size_t)call->nbuffers + 1, sizeof *pointers);
    for (int i = 0; i < call->nbuffers; i++)
        pointers[i] = buffers[i];
    pointers[call->nbuffers] = scratch;
    if (call->nbuffers < MOST_DISJOINT) gen_declare_disjoint(g, call->nbuffers + 1, pointers);
    struct debug_place outside = debug_enter(g, call->instr);
    call->lowering->emit(g, &k);
    debug_restore(g, outside);
    gen_frame_leave(g, outer);
    scope_pop(&g->seen);
}

static LLVMValueRef emit_function(struct cpu_gen *g, const struct kernel_call *call) {
    LLVMBuilderRef b = g->b.builder;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMValueRef outer = g->function;
    const char *name = arena_printf(g->arena, "%s.kernel", call->instr->name);
    g->function = LLVMAddFunction(g->b.module, name, kernel_type(g));
    LLVMSetLinkage(g->function, LLVMInternalLinkage);
    cpu_mark_function(&g->b, g->function);
    struct debug_place outside = debug_function(g, g->function, call->instr);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(g->b.context, g->function, "entry"));
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMValueRef *buffers = arena_array(g->arena, (size_t)call->nbuffers + 1, sizeof *buffers);
    for (int i = 0; i < call->nbuffers; i++) {
        LLVMValueRef at = gen_i64(g, i);
        at = LLVMBuildInBoundsGEP2(b, pointer, LLVMGetParam(g->function, 0), &at, 1, "");
        buffers[i] = LLVMBuildLoad2(b, pointer, at, "");
    }
    LLVMValueRef function = g->function;
    emit_with(g, call, buffers, LLVMGetParam(function, 1), LLVMGetParam(function, 2),
              LLVMGetParam(function, 3));
    LLVMBuildRetVoid(b);
    debug_restore(g, outside);
    g->function = outer;
    if (here) LLVMPositionBuilderAtEnd(b, here);
    return function;
}

/* Each result lies where the operand of its number does. */
static bool is_in_place(const struct kernel_call *call) {
    int nout = call->instr->shape->nleaves;
    for (int i = 0; i < nout; i++)
        if (call->buffer[i] != call->buffer[nout + i]) return false;
    return true;
}

static int64_t units_of(const struct kernel_call *call) {
    if (!call->lowering->units) return 1;
    if (call->lowering->splits_in_place && !is_in_place(call)) return 1;
    return call->lowering->units(call->instr);
}

void kernel_emit_inline(struct cpu_gen *g, const struct kernel_call *call,
                        LLVMValueRef const *buffers) {
    LLVMValueRef none = LLVMConstNull(LLVMPointerTypeInContext(g->b.context, 0));
    emit_with(g, call, buffers, none, gen_i64(g, 0), gen_i64(g, units_of(call)));
}

/* ---- one of each ---- */

void kernel_set_init(struct kernel_set *set, struct cpu_gen *g) {
    memset(set, 0, sizeof *set);
    set->g = g;
}

static uint64_t hash_text(const char *text, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

struct sized_key {
    size_t size;
    char text[];
};

static bool same_key(const char *key, const char *text, size_t size) {
    const struct sized_key *stored = (const void *)key;
    return stored->size == size && memcmp(stored->text, text, size) == 0;
}

static int *find_slot(struct kernel_set *set, const char *text, size_t size) {
    uint64_t at = hash_text(text, size);
    for (;; at++) {
        int *slot = &set->slots[at & (uint64_t)(set->nslots - 1)];
        if (*slot < 0 || same_key(set->kernels[*slot].key, text, size)) return slot;
    }
}

static void grow(struct kernel_set *set) {
    set->nslots = set->nslots ? set->nslots * 2 : 256;
    size_t bytes = (size_t)set->nslots * sizeof *set->slots;
    set->slots = arena_alloc(set->g->arena, bytes);
    memset(set->slots, -1, bytes);
    for (int i = 0; i < set->count; i++) {
        const struct sized_key *key = (const void *)set->kernels[i].key;
        *find_slot(set, key->text, key->size) = i;
    }
}

const struct kernel *kernel_get(struct kernel_set *set, const struct kernel_call *call) {
    size_t size = 0;
    char *text = describe_call(call, &size);
    if (!text) {
        diag_instr_error(set->g->diag, call->instr, "out of memory");
        return NULL;
    }
    if (2 * (set->count + 1) > set->nslots) grow(set);
    int *slot = find_slot(set, text, size);
    if (*slot < 0) {
        struct sized_key *key = arena_alloc(set->g->arena, sizeof *key + size);
        key->size = size;
        memcpy(key->text, text, size);
        set->kernels = arena_grow(set->g->arena, set->kernels, &set->capacity, set->count + 1,
                                  sizeof *set->kernels);
        *slot = set->count++;
        struct kernel *kernel = &set->kernels[*slot];
        *kernel = (struct kernel){.key = (const char *)key, .units = units_of(call)};
        if (call->lowering->scratch) kernel->scratch = call->lowering->scratch(call->instr);
        if (call->lowering->plan)
            call->lowering->plan(set->g, call->instr, &kernel->units, &kernel->scratch);
        if (call->lowering->plan_phase)
            call->lowering->plan_phase(call->instr, call->phase, &kernel->units, &kernel->scratch);
        LLVMValueRef function = emit_function(set->g, call);
        set->kernels[*slot].function = function;
    }
    free(text);
    return &set->kernels[*slot];
}
