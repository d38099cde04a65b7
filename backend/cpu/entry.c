#include "backend/cpu/entry.h"

#include <string.h>

#include "backend/cpu/debug_info.h"
#include "backend/cpu/operand_parts.h"
#include "passes/dataflow.h"
#include "runtime/cpu/custom_call.h"

enum { ALIGNMENT = 64 };
/* Work (operations, elements) that a second thread is worth, and that code in place is worth. */
enum { SHARE_WORK = 1 << 16, INLINE_WORK = 8 };
enum { MOST_OPTIMISED = 300 }; /* calls of kernels in an entry function that LLVM improves */
enum { CHECKED_APART = 4 };    /* pointers; more are checked by a loop over the array */

struct entry {
    struct cpu_gen *g;
    const struct buffer_assignment *assignment;
    struct kernel_set kernels;
    LLVMValueRef inputs, outputs;  /* arrays of pointers, by flat number */
    LLVMValueRef workspace, array; /* array: pointers for the call at hand */
    int array_size;
    int64_t scratch; /* bytes, the most that a call needs */
    int64_t moved;   /* bytes that the calls read and write */
    int calls;
    int loops;          /* around the place at hand */
    bool has_loop_code; /* some work of a loop is done in place */
    /* by buffer: its place in the call at hand where stamp says so */
    int *place, *stamp, now;
    LLVMValueRef parallel; /* hlocc_rt_parallel_kernel */
};

/* ---- buffers ---- */

/* Where it is needed: kept in registers, thousands of them would be in each other's way. */
static LLVMValueRef load_pointer(struct entry *e, LLVMValueRef array, int index) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(e->g->b.context, 0);
    LLVMValueRef at = gen_i64(e->g, index);
    at = LLVMBuildInBoundsGEP2(e->g->b.builder, pointer, array, &at, 1, "");
    return LLVMBuildLoad2(e->g->b.builder, pointer, at, "");
}

static LLVMValueRef pointer_of(struct entry *e, const struct buffer *buffer) {
    switch (buffer->kind) {
    case BUFFER_INPUT: return load_pointer(e, e->inputs, buffer->index);
    case BUFFER_OUTPUT: return load_pointer(e, e->outputs, buffer->index);
    case BUFFER_ARENA: return gen_offset(e->g, e->workspace, buffer->offset);
    case BUFFER_CONSTANT: return gen_constant(e->g, buffer->instr, buffer->index);
    default: return LLVMConstNull(LLVMPointerTypeInContext(e->g->b.context, 0));
    }
}

static LLVMValueRef leaf_pointer(struct entry *e, const struct hlo_instr *instr, int leaf) {
    return pointer_of(e, buffer_of(e->assignment, instr, leaf));
}

static void add_leaves(struct entry *e, struct kernel_call *call, const struct hlo_instr *instr,
                       const struct buffer **buffers) {
    for (int i = 0; i < instr->shape->nleaves; i++) {
        const struct buffer *buffer = buffer_of(e->assignment, instr, i);
        int *number = &call->buffer[call->nleaves++];
        *number = -1;
        if (buffer->kind == BUFFER_NONE) continue;
        if (e->stamp[buffer->id] != e->now) {
            e->stamp[buffer->id] = e->now;
            e->place[buffer->id] = call->nbuffers;
            buffers[call->nbuffers++] = buffer;
            e->moved += shape_leaf(instr->shape, i)->bytes;
        }
        *number = e->place[buffer->id];
    }
}

/* ---- calls of kernels ---- */

static void store_pointers(struct entry *e, int count, LLVMValueRef const *pointers) {
    struct cpu_gen *g = e->g;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    if (count > e->array_size) {
        e->array_size = 2 * count + 16;
        e->array = gen_alloca(g, pointer, e->array_size);
    }
    for (int i = 0; i < count; i++) {
        LLVMValueRef at = gen_i64(g, i);
        at = LLVMBuildInBoundsGEP2(g->b.builder, pointer, e->array, &at, 1, "");
        LLVMBuildStore(g->b.builder, pointers[i], at);
    }
}

static int64_t shares_of(const struct entry *e, const struct kernel *kernel, int64_t work) {
    int64_t shares = work / SHARE_WORK;
    if (shares > e->g->threads) shares = e->g->threads;
    if (shares > kernel->units) shares = kernel->units;
    return shares > 1 ? shares : 1;
}

/* void hlocc_rt_parallel_kernel(kernel, buffers, scratch, i64 scratch_stride, i64 units,
 * i64 shares, i64 work) */
static LLVMTypeRef parallel_type(struct cpu_gen *g) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMTypeRef parameters[7] = {pointer, pointer, pointer, i64, i64, i64, i64};
    return LLVMFunctionType(LLVMVoidTypeInContext(g->b.context), parameters, 7, false);
}

static void call_kernel(struct entry *e, const struct kernel *kernel, int64_t work, int count,
                        LLVMValueRef const *pointers) {
    struct cpu_gen *g = e->g;
    LLVMBuilderRef b = g->b.builder;
    store_pointers(e, count, pointers);
    LLVMValueRef scratch = gen_offset(g, e->workspace, e->assignment->arena_size);
    LLVMValueRef zero = gen_i64(g, 0), units = gen_i64(g, kernel->units);
    LLVMValueRef array =
        e->array ? e->array : LLVMConstNull(LLVMPointerTypeInContext(g->b.context, 0));
    int64_t shares = shares_of(e, kernel, work);
    if (kernel->scratch * shares > e->scratch) e->scratch = kernel->scratch * shares;
    if (shares == 1) {
        LLVMValueRef args[4] = {array, scratch, zero, units};
        LLVMBuildCall2(b, kernel_type(g), kernel->function, args, 4, "");
        return;
    }
    if (!e->parallel)
        e->parallel = LLVMAddFunction(g->b.module, "hlocc_rt_parallel_kernel", parallel_type(g));
    LLVMValueRef args[7] = {
        kernel->function,   array,           scratch, gen_i64(g, kernel->scratch), units,
        gen_i64(g, shares), gen_i64(g, work)};
    LLVMBuildCall2(b, parallel_type(g), e->parallel, args, 7, "");
}

static bool has_elements(const struct hlo_instr *instr) {
    for (int i = 0; i < instr->shape->nleaves; i++)
        if (shape_is_array(shape_leaf(instr->shape, i)) && shape_leaf(instr->shape, i)->count > 0)
            return true;
    if (instr->opcode == OP_CUSTOM_CALL)
        return instr_bool(instr, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, false);
    return (opcode_info(instr->opcode)->flags & OP_FLAG_SIDE_EFFECT) != 0;
}

/* No loop, and little code: cheaper in place than a call. */
static bool is_one_element(const struct hlo_instr *instr) {
    return instr->opcode != OP_FUSION && shape_is_array(instr->shape) && instr->shape->count == 1;
}

/* The buffers of a call: numbers by leaf, and what they are. */
static const struct buffer **find_buffers(struct entry *e, struct kernel_call *call) {
    struct arena *arena = e->g->arena;
    const struct hlo_instr *instr = call->instr;
    int nleaves = instr->shape->nleaves;
    for (int i = 0; i < instr->noperands; i++)
        nleaves += instr->operands[i]->shape->nleaves;
    call->buffer = arena_array(arena, (size_t)nleaves + 1, sizeof *call->buffer);
    const struct buffer **buffers = arena_array(arena, (size_t)nleaves + 1, sizeof *buffers);
    e->now++;
    add_leaves(e, call, instr, buffers);
    for (int i = 0; i < instr->noperands; i++)
        add_leaves(e, call, instr->operands[i], buffers);
    return buffers;
}

/* Operands that are alone in their buffer are cut to what the fusion reads, where that makes it
 * equal to others. `pointers` are the buffers'. */
static void cut_operands(struct entry *e, struct kernel_call *call, LLVMValueRef *pointers) {
    struct arena *arena = e->g->arena;
    const struct hlo_instr *instr = call->instr;
    const char *why;
    if (instr->opcode != OP_FUSION && instr->opcode != OP_SLICE) return;
    int *leaves = arena_array(arena, (size_t)call->nbuffers + 1, sizeof *leaves);
    int *first = arena_array(arena, (size_t)instr->noperands + 1, sizeof *first);
    bool *alone = arena_array(arena, (size_t)instr->noperands + 1, sizeof *alone);
    int64_t *offset = arena_array(arena, (size_t)instr->noperands + 1, sizeof *offset);
    for (int i = 0; i < call->nleaves; i++)
        if (call->buffer[i] >= 0) leaves[call->buffer[i]]++;
    for (int i = 0, leaf = instr->shape->nleaves; i < instr->noperands; i++) {
        first[i] = call->buffer[leaf];
        alone[i] =
            instr->operands[i]->shape->nleaves == 1 && first[i] >= 0 && leaves[first[i]] == 1;
        leaf += instr->operands[i]->shape->nleaves;
    }
    const struct hlo_instr *cut = operand_parts(arena, instr, alone, offset);
    const struct cpu_lowering *lowering = cut == instr ? NULL : cpu_lowering_of(cut, &why);
    if (!lowering) return;
    call->instr = cut;
    call->lowering = lowering;
    for (int i = 0; i < instr->noperands; i++)
        if (offset[i]) pointers[first[i]] = gen_offset(e->g, pointers[first[i]], offset[i]);
}

static void run_kernel(struct entry *e, const struct hlo_instr *instr) {
    const char *why;
    if (!has_elements(instr)) return;
    struct kernel_call call = {.instr = instr, .lowering = cpu_lowering_of(instr, &why)};
    if (!call.lowering) {
        diag_instr_error(e->g->diag, instr, "%s", why);
        return;
    }
    const struct buffer **buffers = find_buffers(e, &call);
    LLVMValueRef *pointers = arena_array(e->g->arena, (size_t)call.nbuffers + 1, sizeof *pointers);
    for (int i = 0; i < call.nbuffers; i++)
        pointers[i] = pointer_of(e, buffers[i]);
    cut_operands(e, &call, pointers);
    int64_t work = cpu_work_of(call.instr);
    bool small = is_one_element(instr) && work <= INLINE_WORK && !call.lowering->scratch &&
                 !call.lowering->plan_phase;
    if (call.lowering->in_entry || small) {
        int64_t scratch = call.lowering->scratch ? call.lowering->scratch(call.instr) : 0;
        if (scratch > e->scratch) e->scratch = scratch;
        if (e->loops > 0) e->has_loop_code = true;
        kernel_emit_inline(e->g, &call, pointers);
        return;
    }
    int phases = call.lowering->phases ? call.lowering->phases(call.instr) : 1;
    for (; call.phase < phases; call.phase++) {
        const struct kernel *kernel = kernel_get(&e->kernels, &call);
        if (kernel) call_kernel(e, kernel, work / phases, call.nbuffers, pointers);
        e->calls++;
    }
}

/* ---- control flow ---- */

static LLVMBasicBlockRef new_block(struct entry *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->g->b.context, e->g->function, name);
}

static void run_computation(struct entry *e, const struct hlo_computation *computation);

static void run_while(struct entry *e, const struct hlo_instr *instr) {
    struct cpu_gen *g = e->g;
    LLVMBuilderRef b = g->b.builder;
    const struct hlo_computation *condition = instr->called[0], *body = instr->called[1];
    LLVMBasicBlockRef test = new_block(e, "while"), again = new_block(e, "do");
    LLVMBasicBlockRef done = new_block(e, "done");
    e->loops++;
    LLVMBuildBr(b, test);
    LLVMPositionBuilderAtEnd(b, test);
    run_computation(e, condition);
    LLVMValueRef more = cpu_load(&g->b, TYPE_PRED, leaf_pointer(e, condition->root, 0), NULL);
    LLVMBuildCondBr(b, more, again, done);
    LLVMPositionBuilderAtEnd(b, again);
    run_computation(e, body);
    LLVMBuildBr(b, test);
    e->loops--;
    LLVMPositionBuilderAtEnd(b, done);
}

static void run_conditional(struct entry *e, const struct hlo_instr *instr) {
    LLVMBuilderRef b = e->g->b.builder;
    enum element_type type = instr->operands[0]->shape->type;
    LLVMValueRef on = cpu_load(&e->g->b, type, leaf_pointer(e, instr->operands[0], 0), NULL);
    LLVMBasicBlockRef done = new_block(e, "join"), last = new_block(e, "branch");
    LLVMValueRef jump = LLVMBuildSwitch(b, on, last, (unsigned)instr->ncalled);
    for (int i = 0; i < instr->ncalled; i++) {
        LLVMBasicBlockRef here = last;
        if (i + 1 < instr->ncalled) {
            here = new_block(e, "branch");
            uint64_t value = type == TYPE_PRED ? 1 : (uint64_t)i;
            LLVMAddCase(jump, LLVMConstInt(LLVMTypeOf(on), value, false), here);
        }
        LLVMPositionBuilderAtEnd(b, here);
        run_computation(e, instr->called[i]);
        LLVMBuildBr(b, done);
    }
    LLVMPositionBuilderAtEnd(b, done);
}

static void run_computation(struct entry *e, const struct hlo_computation *computation) {
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        struct debug_place outer = debug_line(e->g, i);
        switch (i->opcode) {
        case OP_PARAMETER:
        case OP_CONSTANT:
        case OP_AFTER_ALL: break;
        case OP_WHILE: run_while(e, i); break;
        case OP_CONDITIONAL: run_conditional(e, i); break;
        case OP_CALL: run_computation(e, i->called[0]); break;
        default:
            if (!instr_is_alias(i)) run_kernel(e, i);
        }
        debug_restore(e->g, outer);
    }
}

/* ---- the function ---- */

static void return_if(struct entry *e, LLVMValueRef bad, int status) {
    LLVMBuilderRef b = e->g->b.builder;
    LLVMBasicBlockRef yes = new_block(e, "bad"), no = new_block(e, "good");
    LLVMBuildCondBr(b, bad, yes, no);
    LLVMPositionBuilderAtEnd(b, yes);
    LLVMBuildRet(b, LLVMConstInt(LLVMInt32TypeInContext(e->g->b.context), (uint64_t)status, true));
    LLVMPositionBuilderAtEnd(b, no);
}

/* Whether a pointer of the array from `begin` to `end` is NULL, by a loop. */
static LLVMValueRef null_between(struct entry *e, LLVMValueRef array, int begin, int end) {
    LLVMBuilderRef b = e->g->b.builder;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(e->g->b.context, 0);
    LLVMTypeRef bit = LLVMInt1TypeInContext(e->g->b.context);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    struct cpu_loop loop = gen_range_begin(e->g, gen_i64(e->g, begin), gen_i64(e->g, end));
    LLVMValueRef bad = LLVMBuildPhi(b, bit, ""), no = LLVMConstInt(bit, 0, false);
    LLVMValueRef at = LLVMBuildInBoundsGEP2(b, pointer, array, &loop.i, 1, "");
    LLVMValueRef null = LLVMBuildIsNull(b, LLVMBuildLoad2(b, pointer, at, ""), "");
    null = LLVMBuildOr(b, bad, null, "");
    LLVMAddIncoming(bad, (LLVMValueRef[]){no, null},
                    (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(b)}, 2);
    gen_loop_end(e->g, &loop);
    return null;
}

/* bad, or that a pointer of the array which is needed is NULL. */
static LLVMValueRef any_null(struct entry *e, LLVMValueRef array, int count, const bool *needed,
                             LLVMValueRef bad) {
    LLVMBuilderRef b = e->g->b.builder;
    for (int i = 0, end = 0; i < count; i = end) {
        for (end = i; end < count && needed[end];)
            end++;
        if (end - i > CHECKED_APART) {
            bad = LLVMBuildOr(b, bad, null_between(e, array, i, end), "");
        } else if (end > i) {
            bad = LLVMBuildOr(b, bad, LLVMBuildIsNull(b, load_pointer(e, array, i), ""), "");
            end = i + 1;
        } else {
            end++;
        }
    }
    return bad;
}

static int flat_leaves(struct cpu_gen *g, bool **needed) {
    const struct hlo_computation *entry = g->hlo->entry;
    int count = 0, n = 0;
    for (int i = 0; i < entry->nparameters; i++)
        count += entry->parameters[i]->shape->nleaves;
    *needed = arena_array(g->arena, (size_t)count + 1, sizeof **needed);
    for (int i = 0; i < entry->nparameters; i++)
        for (int k = 0; k < entry->parameters[i]->shape->nleaves; k++)
            (*needed)[n++] = shape_leaf(entry->parameters[i]->shape, k)->bytes > 0;
    return count;
}

static void load_arguments(struct entry *e, LLVMValueRef function, const char *symbol) {
    struct cpu_gen *g = e->g;
    LLVMBuilderRef b = g->b.builder;
    const struct shape *result = g->hlo->entry->root->shape;
    bool *needed;
    int count = flat_leaves(g, &needed);
    LLVMValueRef bad = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 0, false), null = bad;
    if (count) null = LLVMBuildIsNull(b, LLVMGetParam(function, 0), "");
    if (result->nleaves)
        null = LLVMBuildOr(b, null, LLVMBuildIsNull(b, LLVMGetParam(function, 1), ""), "");
    return_if(e, null, HLOCC_STATUS_NULL);
    e->inputs = LLVMGetParam(function, 0);
    e->outputs = LLVMGetParam(function, 1);
    bad = any_null(e, e->inputs, count, needed, bad);
    needed = arena_array(g->arena, (size_t)result->nleaves + 1, sizeof *needed);
    for (int i = 0; i < result->nleaves; i++)
        needed[i] = shape_leaf(result, i)->bytes > 0;
    bad = any_null(e, e->outputs, result->nleaves, needed, bad);
    return_if(e, bad, HLOCC_STATUS_NULL);
    /* How much scratch there is comes out at the end: the number is read from where it will be. */
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    const char *name = arena_printf(g->arena, "%s_workspace_size", symbol);
    LLVMValueRef size = LLVMBuildLoad2(b, i64, LLVMAddGlobal(g->b.module, i64, name), "");
    LLVMValueRef at = LLVMBuildPtrToInt(b, e->workspace, i64, "");
    at = LLVMBuildAnd(b, at, gen_i64(g, ALIGNMENT - 1), "");
    bad = LLVMBuildIsNull(b, e->workspace, "");
    bad = LLVMBuildOr(b, bad, LLVMBuildICmp(b, LLVMIntNE, at, gen_i64(g, 0), ""), "");
    bad = LLVMBuildAnd(b, bad, LLVMBuildICmp(b, LLVMIntNE, size, gen_i64(g, 0), ""), "");
    return_if(e, bad, HLOCC_STATUS_WORKSPACE);
}

static LLVMValueRef call_intrinsic(struct cpu_gen *g, const char *name, LLVMValueRef *args,
                                   unsigned count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(g->b.module, id, NULL, 0);
    LLVMTypeRef type = LLVMGlobalGetValueType(callee);
    return LLVMBuildCall2(g->b.builder, type, callee, args, count, "");
}

/* MXCSR: subnormals as zero, operands (bit 6) and results (bit 15). Returns where it was saved. */
static LLVMValueRef flush_x86(struct cpu_gen *g) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMValueRef saved = gen_alloca(g, i32, 1), mode = gen_alloca(g, i32, 1);
    call_intrinsic(g, "llvm.x86.sse.stmxcsr", &saved, 1);
    LLVMValueRef now = LLVMBuildLoad2(g->b.builder, i32, saved, "");
    now = LLVMBuildOr(g->b.builder, now, LLVMConstInt(i32, 0x8040, false), "");
    LLVMBuildStore(g->b.builder, now, mode);
    call_intrinsic(g, "llvm.x86.sse.ldmxcsr", &mode, 1);
    return saved;
}

static void restore_x86(struct cpu_gen *g, LLVMValueRef saved) {
    call_intrinsic(g, "llvm.x86.sse.ldmxcsr", &saved, 1);
}

/* FPCR: FZ (bit 24). Returns what it was. */
static LLVMValueRef flush_aarch64(struct cpu_gen *g) {
    LLVMValueRef saved = call_intrinsic(g, "llvm.aarch64.get.fpcr", NULL, 0);
    LLVMValueRef mode = LLVMBuildOr(g->b.builder, saved, gen_i64(g, 1 << 24), "");
    call_intrinsic(g, "llvm.aarch64.set.fpcr", &mode, 1);
    return saved;
}

static void restore_aarch64(struct cpu_gen *g, LLVMValueRef saved) {
    call_intrinsic(g, "llvm.aarch64.set.fpcr", &saved, 1);
}

/* How subnormals are flushed until the return; RISC-V has no such mode. */
static const struct float_mode {
    LLVMValueRef (*flush)(struct cpu_gen *g);
    void (*restore)(struct cpu_gen *g, LLVMValueRef saved);
} float_modes[CPU_ARCH_COUNT] = {
    [CPU_X86_64] = {flush_x86, restore_x86},
    [CPU_AARCH64] = {flush_aarch64, restore_aarch64},
};

/* One way out: the float mode as it was, and the status. */
static void emit_return(struct entry *e, const struct float_mode *mode, LLVMValueRef saved) {
    struct cpu_gen *g = e->g;
    LLVMBuilderRef b = g->b.builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMValueRef zero = LLVMConstInt(i32, 0, false);
    LLVMBuildBr(b, g->fail);
    LLVMPositionBuilderAtEnd(b, g->fail);
    LLVMAddIncoming(g->status, &zero, &here, 1);
    if (mode->restore) mode->restore(g, saved);
    LLVMBuildRet(b, g->status);
}

/* A list of calls gains nothing from LLVM's work on it, which grows faster than the list. */
static void keep_as_emitted(struct cpu_gen *g, LLVMValueRef function) {
    static const char *const names[2] = {"optnone", "noinline"};
    for (int i = 0; i < 2; i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(names[i], strlen(names[i]));
        LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(g->b.context, kind, 0));
    }
}

bool entry_emit(struct cpu_gen *g, const struct buffer_assignment *assignment, const char *symbol,
                enum cpu_arch arch, struct cpu_stats *stats) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef type = LLVMFunctionType(i32, (LLVMTypeRef[]){pointer, pointer, pointer}, 3, false);
    LLVMValueRef function = LLVMAddFunction(g->b.module, symbol, type);
    struct entry e = {.g = g, .assignment = assignment};
    int before = g->diag->errors;
    kernel_set_init(&e.kernels, g);
    e.place = arena_array(g->arena, (size_t)assignment->nbuffers + 1, sizeof *e.place);
    e.stamp = arena_array(g->arena, (size_t)assignment->nbuffers + 1, sizeof *e.stamp);
    g->function = function;
    cpu_mark_function(&g->b, function);
    debug_function(g, function, NULL);
    e.workspace = LLVMGetParam(function, 2);
    LLVMPositionBuilderAtEnd(g->b.builder, new_block(&e, "entry"));
    load_arguments(&e, function, symbol);
    g->fail = new_block(&e, "return");
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b.builder);
    LLVMPositionBuilderAtEnd(g->b.builder, g->fail);
    g->status = LLVMBuildPhi(g->b.builder, i32, "status");
    LLVMPositionBuilderAtEnd(g->b.builder, here);
    const struct float_mode *mode = &float_modes[arch];
    LLVMValueRef saved = mode->flush ? mode->flush(g) : NULL;
    run_computation(&e, g->hlo->entry);
    if (!e.has_loop_code || e.calls > MOST_OPTIMISED) keep_as_emitted(g, function);
    emit_return(&e, mode, saved);
    *stats = (struct cpu_stats){.kernels = e.kernels.count,
                                .calls = e.calls,
                                .moved = e.moved,
                                .arena = assignment->arena_size,
                                .least_arena = assignment->lower_bound,
                                .scratch = e.scratch};
    return g->diag->errors == before;
}
