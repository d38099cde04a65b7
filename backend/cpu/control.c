#include "backend/cpu/gen.h"

#include <string.h>

enum { MAX_CHAIN = 24 };

static LLVMValueRef allocate(struct cpu_gen *g, int64_t bytes) {
    LLVMValueRef at = gen_i64(g, g->workspace_size);
    g->workspace_size += (bytes + 63) & ~(int64_t)63;
    return LLVMBuildInBoundsGEP2(g->b.builder, LLVMInt8TypeInContext(g->b.context), g->workspace,
                                 &at, 1, "");
}

static LLVMValueRef *allocate_leaves(struct cpu_gen *g, const struct shape *shape) {
    LLVMValueRef *leaves = arena_array(g->arena, (size_t)shape->nleaves + 1, sizeof *leaves);
    for (int i = 0; i < shape->nleaves; i++)
        leaves[i] = allocate(g, shape_leaf(shape, i)->bytes);
    return leaves;
}

static void copy_leaves(struct cpu_gen *g, const struct shape *shape, LLVMValueRef *to,
                        LLVMValueRef *from) {
    for (int i = 0; i < shape->nleaves; i++) {
        int64_t bytes = shape_leaf(shape, i)->bytes;
        if (bytes > 0 && to[i] != from[i])
            LLVMBuildMemMove(g->b.builder, to[i], 1, from[i], 1, gen_i64(g, bytes));
    }
}

static bool is_cheap(const struct hlo_instr *instr) {
    if (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) return true;
    switch (instr->opcode) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_REVERSE:
    case OP_IOTA:
    case OP_COPY:
    case OP_BITCAST_CONVERT: return true;
    default: return false;
    }
}

/* Whether the instruction's elements are computed where its only user needs them. */
static bool stays_inside(struct cpu_gen *g, const struct hlo_instr *instr) {
    if (instr->parent->root == instr || !is_cheap(instr) || instr_user_count(instr) != 1)
        return false;
    int depth = 0;
    for (int i = 0; i < instr->noperands; i++)
        depth += g->frame->depth[instr->operands[i]->id];
    if (depth >= MAX_CHAIN) return false;
    const struct hlo_instr *user = instr->users->user;
    if (!is_cheap(user) && user->opcode != OP_REDUCE) return false;
    if (user->opcode == OP_BROADCAST && instr->shape->count > 1) return false;
    g->frame->depth[instr->id] = depth + 1;
    return true;
}

static LLVMValueRef global_constant(struct cpu_gen *g, const struct literal *literal) {
    LLVMValueRef data = LLVMConstStringInContext2(g->b.context, literal->data, literal->size, true);
    LLVMValueRef global = LLVMAddGlobal(g->b.module, LLVMTypeOf(data), "constant");
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetAlignment(global, 64);
    return global;
}

static int constant_leaves(struct cpu_gen *g, const struct literal *literal, LLVMValueRef *out) {
    if (!shape_is_tuple(literal->shape)) {
        out[0] = literal->size ? global_constant(g, literal) : g->workspace;
        return 1;
    }
    int n = 0;
    for (int i = 0; i < literal->shape->ntuple; i++)
        n += constant_leaves(g, literal->elements[i], out + n);
    return n;
}

static LLVMValueRef *tuple_leaves(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMValueRef *leaves = arena_array(g->arena, (size_t)instr->shape->nleaves + 1, sizeof *leaves);
    int n = 0;
    for (int i = 0; i < instr->noperands; i++) {
        int count = instr->operands[i]->shape->nleaves;
        memcpy(leaves + n, g->frame->leaves[instr->operands[i]->id],
               (size_t)count * sizeof *leaves);
        n += count;
    }
    return leaves;
}

static LLVMValueRef *run_loops(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMValueRef *leaves = allocate_leaves(g, instr->shape);
    const struct shape *shape = shape_leaf(instr->shape, 0);
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef index[SHAPE_MAX_RANK], out[64];
    gen_nest_begin(g, shape->rank, shape->dims, loops, index);
    gen_elements(g, instr, index, out);
    for (int i = 0; i < instr->shape->nleaves; i++) {
        const struct shape *leaf = shape_leaf(instr->shape, i);
        cpu_store(&g->b, leaf->type, out[i], gen_address(g, leaf, leaves[i], index));
    }
    gen_nest_end(g, shape->rank, loops);
    return leaves;
}

static LLVMValueRef *run_update(struct cpu_gen *g, const struct hlo_instr *instr) {
    const struct shape *shape = instr->shape, *part = instr->operands[1]->shape;
    LLVMValueRef *leaves = allocate_leaves(g, shape);
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef index[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK], start[SHAPE_MAX_RANK];
    copy_leaves(g, shape, leaves, g->frame->leaves[instr->operands[0]->id]);
    for (int d = 0; d < shape->rank; d++)
        start[d] = gen_start_index(g, instr->operands[2 + d], NULL, shape->dims[d] - part->dims[d]);
    gen_nest_begin(g, part->rank, part->dims, loops, index);
    for (int d = 0; d < part->rank; d++)
        at[d] = LLVMBuildAdd(g->b.builder, index[d], start[d], "");
    cpu_store(&g->b, shape->type, gen_element(g, instr->operands[1], index),
              gen_address(g, shape, leaves[0], at));
    gen_nest_end(g, part->rank, loops);
    return leaves;
}

static LLVMValueRef *run_scatter(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMValueRef *leaves = allocate_leaves(g, instr->shape);
    for (int k = 0; k < (instr->noperands - 1) / 2; k++)
        copy_leaves(g, instr->operands[k]->shape, leaves + k,
                    g->frame->leaves[instr->operands[k]->id]);
    gen_scatter(g, instr, leaves);
    return leaves;
}

static LLVMValueRef load_scalar(struct cpu_gen *g, enum element_type type, LLVMValueRef pointer) {
    return cpu_load(&g->b, type, pointer, NULL);
}

/* The state lives in buffers of its own; a body's results reach them through a second set, since
 * they may be parts of the old state in another order. */
static LLVMValueRef *run_while(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef *state = allocate_leaves(g, instr->shape);
    LLVMValueRef *spare = allocate_leaves(g, instr->shape);
    copy_leaves(g, instr->shape, state, g->frame->leaves[instr->operands[0]->id]);
    LLVMBasicBlockRef test = LLVMAppendBasicBlockInContext(g->b.context, g->function, "while");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(g->b.context, g->function, "do");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(g->b.context, g->function, "done");
    LLVMBuildBr(b, test);
    LLVMPositionBuilderAtEnd(b, test);
    LLVMValueRef *more = gen_computation(g, instr->called[0], &state);
    LLVMBuildCondBr(b, load_scalar(g, TYPE_PRED, more[0]), body, done);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef *next = gen_computation(g, instr->called[1], &state);
    copy_leaves(g, instr->shape, spare, next);
    copy_leaves(g, instr->shape, state, spare);
    LLVMBuildBr(b, test);
    LLVMPositionBuilderAtEnd(b, done);
    return state;
}

static LLVMValueRef *run_conditional(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMBuilderRef b = g->b.builder;
    const struct hlo_instr *which = instr->operands[0];
    LLVMValueRef *out = allocate_leaves(g, instr->shape);
    LLVMValueRef on = load_scalar(g, which->shape->type, g->frame->leaves[which->id][0]);
    bool pred = which->shape->type == TYPE_PRED;
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(g->b.context, g->function, "join");
    LLVMBasicBlockRef last = LLVMAppendBasicBlockInContext(g->b.context, g->function, "branch");
    LLVMValueRef jump = LLVMBuildSwitch(b, on, last, (unsigned)instr->ncalled);
    for (int i = 0; i < instr->ncalled; i++) {
        LLVMBasicBlockRef here = last;
        if (i + 1 < instr->ncalled) {
            here = LLVMAppendBasicBlockInContext(g->b.context, g->function, "branch");
            uint64_t value = pred ? 1 : (uint64_t)i;
            LLVMAddCase(jump, LLVMConstInt(LLVMTypeOf(on), value, false), here);
        }
        LLVMPositionBuilderAtEnd(b, here);
        LLVMValueRef *arg = g->frame->leaves[instr->operands[1 + i]->id];
        copy_leaves(g, instr->shape, out, gen_computation(g, instr->called[i], &arg));
        LLVMBuildBr(b, done);
    }
    LLVMPositionBuilderAtEnd(b, done);
    return out;
}

static LLVMValueRef *run(struct cpu_gen *g, const struct hlo_instr *instr) {
    LLVMValueRef **values = g->frame->leaves;
    switch (instr->opcode) {
    case OP_CONSTANT: {
        LLVMValueRef *leaves =
            arena_array(g->arena, (size_t)instr->shape->nleaves + 1, sizeof *leaves);
        constant_leaves(g, instr->literal, leaves);
        return leaves;
    }
    case OP_TUPLE: return tuple_leaves(g, instr);
    case OP_GET_TUPLE_ELEMENT: {
        const struct hlo_instr *from = instr->operands[0];
        int element = (int)instr_int(instr, ATTR_INDEX, 0);
        return values[from->id] + shape_tuple_first_leaf(from->shape, element);
    }
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY: return values[instr->operands[0]->id];
    case OP_AFTER_ALL: return allocate_leaves(g, instr->shape);
    case OP_WHILE: return run_while(g, instr);
    case OP_CONDITIONAL: return run_conditional(g, instr);
    case OP_DYNAMIC_UPDATE_SLICE: return run_update(g, instr);
    case OP_SCATTER: return run_scatter(g, instr);
    case OP_CALL:
    case OP_FUSION: {
        LLVMValueRef **args = arena_array(g->arena, (size_t)instr->noperands + 1, sizeof *args);
        for (int i = 0; i < instr->noperands; i++)
            args[i] = values[instr->operands[i]->id];
        return gen_computation(g, instr->called[0], args);
    }
    default: return run_loops(g, instr);
    }
}

LLVMValueRef *gen_computation(struct cpu_gen *g, const struct hlo_computation *computation,
                              LLVMValueRef *const *args) {
    struct cpu_frame *outer = g->frame;
    struct cpu_frame frame = {0};
    frame.leaves = arena_array(g->arena, (size_t)g->hlo->next_id, sizeof *frame.leaves);
    frame.depth = arena_array(g->arena, (size_t)g->hlo->next_id, sizeof *frame.depth);
    g->frame = &frame;
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        if (i->opcode == OP_PARAMETER)
            frame.leaves[i->id] = args[i->parameter];
        else if (!stays_inside(g, i))
            frame.leaves[i->id] = run(g, i);
    }
    g->frame = outer;
    return frame.leaves[computation->root->id];
}

bool gen_supported(const struct hlo_instr *instr, bool scalar, const char **why) {
    *why = "the CPU target has no code for this operation";
    if (shape_is_dynamic(instr->shape)) {
        *why = "the CPU target needs static sizes: pad to the bound";
        return false;
    }
    if (instr->noperands > 60) return instr->opcode == OP_TUPLE || instr->opcode == OP_CALL;
    if (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) return true;
    switch (instr->opcode) {
    case OP_BITCAST_CONVERT:
        return element_type_size(instr->shape->type) ==
               element_type_size(instr->operands[0]->shape->type);
    case OP_CONSTANT:
    case OP_PARAMETER:
    case OP_TUPLE:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_COPY:
    case OP_CALL:
    case OP_FUSION:
    case OP_MAP: return true;
    case OP_DOT: return !instr_attr(instr, ATTR_SPARSITY) && !scalar;
    case OP_IOTA:
    case OP_TRANSPOSE:
    case OP_REVERSE:
    case OP_CONCATENATE:
    case OP_PAD:
    case OP_SLICE:
    case OP_GATHER:
    case OP_CONVOLUTION:
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_WHILE:
    case OP_CONDITIONAL:
    case OP_GET_TUPLE_ELEMENT:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
    case OP_AFTER_ALL:
    case OP_SCATTER: return !scalar;
    case OP_DYNAMIC_SLICE: return !scalar && instr->noperands == 1 + instr->shape->rank;
    case OP_DYNAMIC_UPDATE_SLICE: return !scalar && instr->noperands == 2 + instr->shape->rank;
    default: return false;
    }
}
