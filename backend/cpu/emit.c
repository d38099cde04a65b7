#include "backend/cpu/gen.h"

#include <string.h>

LLVMValueRef gen_i64(struct cpu_gen *g, int64_t value) {
    return LLVMConstInt(LLVMInt64TypeInContext(g->b.context), (uint64_t)value, true);
}

struct cpu_loop gen_loop_begin(struct cpu_gen *g, LLVMValueRef limit) {
    LLVMBuilderRef b = g->b.builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    struct cpu_loop loop = {.limit = limit};
    loop.header = LLVMAppendBasicBlockInContext(g->b.context, g->function, "loop");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(g->b.context, g->function, "body");
    loop.exit = LLVMAppendBasicBlockInContext(g->b.context, g->function, "exit");
    LLVMBuildBr(b, loop.header);
    LLVMPositionBuilderAtEnd(b, loop.header);
    loop.i = LLVMBuildPhi(b, LLVMInt64TypeInContext(g->b.context), "i");
    LLVMValueRef zero = gen_i64(g, 0);
    LLVMAddIncoming(loop.i, &zero, &before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, loop.i, limit, ""), body, loop.exit);
    LLVMPositionBuilderAtEnd(b, body);
    return loop;
}

void gen_loop_end(struct cpu_gen *g, struct cpu_loop *loop) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef next = LLVMBuildNSWAdd(b, loop->i, gen_i64(g, 1), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(loop->i, &next, &latch, 1);
    LLVMBuildBr(b, loop->header);
    LLVMPositionBuilderAtEnd(b, loop->exit);
}

void gen_nest_begin(struct cpu_gen *g, int rank, const int64_t *dims, struct cpu_loop *loops,
                    LLVMValueRef *index) {
    for (int d = 0; d < rank; d++) {
        loops[d] = gen_loop_begin(g, gen_i64(g, dims[d]));
        index[d] = loops[d].i;
    }
}

void gen_nest_end(struct cpu_gen *g, int rank, struct cpu_loop *loops) {
    for (int d = rank - 1; d >= 0; d--)
        gen_loop_end(g, &loops[d]);
}

static LLVMValueRef linear(struct cpu_gen *g, int rank, const int64_t *strides,
                           const LLVMValueRef *index) {
    LLVMValueRef sum = gen_i64(g, 0);
    for (int d = 0; d < rank; d++)
        sum = LLVMBuildNSWAdd(g->b.builder, sum,
                              LLVMBuildNSWMul(g->b.builder, index[d], gen_i64(g, strides[d]), ""),
                              "");
    return sum;
}

static void row_major(const struct shape *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

LLVMValueRef gen_address(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
                         const LLVMValueRef *index) {
    int64_t strides[SHAPE_MAX_RANK];
    row_major(shape, strides);
    LLVMValueRef at = linear(g, shape->rank, strides, index);
    return LLVMBuildInBoundsGEP2(g->b.builder, cpu_memory_type(&g->b, shape->type), base, &at, 1,
                                 "");
}

/* A variable in the function's entry block, so that it becomes a register. */
LLVMValueRef gen_slot(struct cpu_gen *g, enum element_type type) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b.builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(g->function);
    LLVMPositionBuilderBefore(g->b.builder, LLVMGetFirstInstruction(entry));
    LLVMValueRef slot = LLVMBuildAlloca(g->b.builder, cpu_value_type(&g->b, type), "");
    LLVMPositionBuilderAtEnd(g->b.builder, here);
    return slot;
}

/* The index into `from` of the element at place `at` of its memory order (layout or row-major). */
static void delinear(struct cpu_gen *g, const struct shape *from, bool physical, LLVMValueRef at,
                     LLVMValueRef *index) {
    LLVMBuilderRef b = g->b.builder;
    for (int i = 0; i < from->rank; i++) {
        int d = physical ? shape_minor_to_major(from, i) : from->rank - 1 - i;
        LLVMValueRef size = gen_i64(g, from->dims[d] ? from->dims[d] : 1);
        index[d] = LLVMBuildURem(b, at, size, "");
        at = LLVMBuildUDiv(b, at, size, "");
    }
}

static LLVMValueRef reshaped(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index) {
    const struct shape *from = instr->operands[0]->shape;
    int64_t strides[SHAPE_MAX_RANK];
    LLVMValueRef inner[SHAPE_MAX_RANK];
    bool physical = instr->opcode == OP_BITCAST;
    if (physical)
        shape_strides(instr->shape, strides);
    else
        row_major(instr->shape, strides);
    delinear(g, from, physical, linear(g, instr->shape->rank, strides, index), inner);
    LLVMValueRef value = gen_element(g, instr->operands[0], inner);
    return from->type == instr->shape->type
               ? value
               : cpu_emit_bitcast(&g->b, value, from->type, instr->shape->type);
}

static LLVMValueRef clamp(struct cpu_gen *g, LLVMValueRef x, int64_t low, int64_t high) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef lo = gen_i64(g, low), hi = gen_i64(g, high);
    x = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, x, lo, ""), lo, x, "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, x, hi, ""), hi, x, "");
}

LLVMValueRef gen_start_index(struct cpu_gen *g, const struct hlo_instr *from,
                             const LLVMValueRef *index, int64_t high) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef x = gen_element(g, from, index);
    LLVMTypeRef wide = LLVMInt64TypeInContext(g->b.context);
    if (!element_type_is_unsigned(from->shape->type))
        return clamp(g, LLVMBuildSExt(b, x, wide, ""), 0, high);
    x = LLVMBuildZExt(b, x, wide, "");
    LLVMValueRef top = gen_i64(g, high);
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, x, top, ""), top, x, "");
}

static LLVMValueRef padded(struct cpu_gen *g, const struct hlo_instr *instr,
                           const LLVMValueRef *index) {
    LLVMBuilderRef b = g->b.builder;
    const struct shape *from = instr->operands[0]->shape;
    const struct padding_config *padding = instr_attr(instr, ATTR_PADDING)->padding;
    LLVMValueRef fill = gen_element(g, instr->operands[1], NULL), inner[SHAPE_MAX_RANK];
    if (from->count == 0) return fill;
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 1, false);
    for (int d = 0; d < from->rank; d++) {
        int64_t step = padding->v[d].interior + 1;
        LLVMValueRef at = LLVMBuildSub(b, index[d], gen_i64(g, padding->v[d].low), "");
        inner[d] = clamp(g, LLVMBuildSDiv(b, at, gen_i64(g, step), ""), 0, from->dims[d] - 1);
        LLVMValueRef back = LLVMBuildMul(b, inner[d], gen_i64(g, step), "");
        inside = LLVMBuildAnd(b, inside, LLVMBuildICmp(b, LLVMIntEQ, back, at, ""), "");
    }
    return LLVMBuildSelect(b, inside, gen_element(g, instr->operands[0], inner), fill, "");
}

static LLVMValueRef joined(struct cpu_gen *g, const struct hlo_instr *instr,
                           const LLVMValueRef *index) {
    LLVMBuilderRef b = g->b.builder;
    int dim = (int)instr_ints(instr, ATTR_DIMENSIONS).v[0];
    LLVMValueRef value = NULL, inner[SHAPE_MAX_RANK];
    memcpy(inner, index, sizeof *inner * (size_t)instr->shape->rank);
    int64_t start = 0;
    for (int i = 0; i < instr->noperands; i++) {
        int64_t size = instr->operands[i]->shape->dims[dim];
        if (instr->operands[i]->shape->count > 0) {
            inner[dim] = clamp(g, LLVMBuildSub(b, index[dim], gen_i64(g, start), ""), 0, size - 1);
            LLVMValueRef here = gen_element(g, instr->operands[i], inner);
            LLVMValueRef past = LLVMBuildICmp(b, LLVMIntSGE, index[dim], gen_i64(g, start), "");
            value = value ? LLVMBuildSelect(b, past, here, value, "") : here;
        }
        start += size;
    }
    return value ? value : cpu_constant(&g->b, instr->shape->type, 0);
}

static bool listed(struct int_list list, int64_t value) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] == value) return true;
    return false;
}

static LLVMValueRef gathered(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index) {
    const struct hlo_instr *operand = instr->operands[0], *starts = instr->operands[1];
    struct int_list offset = instr_ints(instr, ATTR_OFFSET_DIMS);
    struct int_list collapsed = instr_ints(instr, ATTR_COLLAPSED_SLICE_DIMS);
    struct int_list map = instr_ints(instr, ATTR_START_INDEX_MAP);
    struct int_list sizes = instr_ints(instr, ATTR_SLICE_SIZES);
    struct int_list batch = instr_ints(instr, ATTR_OPERAND_BATCHING_DIMS);
    struct int_list start_batch = instr_ints(instr, ATTR_START_INDICES_BATCHING_DIMS);
    int vector = (int)instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0), s = 0, o = 0;
    LLVMValueRef at[SHAPE_MAX_RANK + 1], inner[SHAPE_MAX_RANK];
    for (int d = 0; d < instr->shape->rank; d++) {
        if (listed(offset, d)) continue;
        if (s == vector) s++;
        at[s++] = index[d];
    }
    for (int d = 0; d < operand->shape->rank; d++) {
        bool drop = listed(collapsed, d) || listed(batch, d);
        inner[d] = drop ? gen_i64(g, 0) : index[offset.v[o++]];
        for (int i = 0; i < batch.count; i++)
            if (batch.v[i] == d) inner[d] = at[start_batch.v[i]];
    }
    for (int i = 0; i < map.count; i++) {
        int d = (int)map.v[i];
        if (vector < starts->shape->rank) at[vector] = gen_i64(g, i);
        LLVMValueRef start = gen_start_index(g, starts, at, operand->shape->dims[d] - sizes.v[d]);
        inner[d] = LLVMBuildAdd(g->b.builder, inner[d], start, "");
    }
    return gen_element(g, operand, inner);
}

/* Operations that only rename indices. */
static LLVMValueRef moved(struct cpu_gen *g, const struct hlo_instr *instr,
                          const LLVMValueRef *index) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef inner[SHAPE_MAX_RANK];
    const struct shape *from = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    for (int d = 0; d < from->rank; d++) {
        inner[d] = index[instr->opcode == OP_BROADCAST ? 0 : d];
        if (instr->opcode == OP_BROADCAST) inner[d] = index[dims.v[d]];
        if (instr->opcode == OP_REVERSE && listed(dims, d))
            inner[d] = LLVMBuildSub(b, gen_i64(g, from->dims[d] - 1), index[d], "");
        if (instr->opcode == OP_SLICE) {
            struct slice_dim s = instr_attr(instr, ATTR_SLICE)->slices->v[d];
            inner[d] = LLVMBuildMul(b, index[d], gen_i64(g, s.stride), "");
            inner[d] = LLVMBuildAdd(b, inner[d], gen_i64(g, s.start), "");
        }
        if (instr->opcode == OP_DYNAMIC_SLICE) {
            int64_t high = from->dims[d] - instr->shape->dims[d];
            inner[d] = LLVMBuildAdd(b, index[d],
                                    gen_start_index(g, instr->operands[1 + d], NULL, high), "");
        }
    }
    if (instr->opcode == OP_TRANSPOSE)
        for (int d = 0; d < from->rank; d++)
            inner[dims.v[d]] = index[d];
    return gen_element(g, instr->operands[0], inner);
}

static LLVMValueRef counted(struct cpu_gen *g, const struct hlo_instr *instr,
                            const LLVMValueRef *index) {
    int64_t dim = instr_int(instr, ATTR_IOTA_DIMENSION, 0);
    return cpu_emit_convert(&g->b, index[dim], TYPE_S64, instr->shape->type);
}

static LLVMValueRef elementwise(struct cpu_gen *g, const struct hlo_instr *instr,
                                const LLVMValueRef *index) {
    LLVMValueRef operands[3];
    for (int i = 0; i < instr->noperands && i < 3; i++)
        operands[i] =
            gen_element(g, instr->operands[i], instr->operands[i]->shape->rank ? index : NULL);
    return cpu_emit_elementwise(&g->b, instr, operands);
}

static LLVMValueRef compute(struct cpu_gen *g, const struct hlo_instr *instr,
                            const LLVMValueRef *index) {
    LLVMValueRef out[64] = {0};
    switch (instr->opcode) {
    case OP_CONSTANT: return cpu_constant_element(&g->b, instr->literal, 0);
    case OP_IOTA: return counted(g, instr, index);
    case OP_COPY: return gen_element(g, instr->operands[0], index);
    case OP_BITCAST:
    case OP_RESHAPE: return reshaped(g, instr, index);
    case OP_BITCAST_CONVERT:
        return cpu_emit_bitcast(&g->b, gen_element(g, instr->operands[0], index),
                                instr->operands[0]->shape->type, instr->shape->type);
    case OP_BROADCAST:
    case OP_REVERSE:
    case OP_SLICE:
    case OP_TRANSPOSE:
    case OP_DYNAMIC_SLICE: return moved(g, instr, index);
    case OP_PAD: return padded(g, instr, index);
    case OP_CONCATENATE: return joined(g, instr, index);
    case OP_GATHER: return gathered(g, instr, index);
    case OP_DOT: return gen_dot(g, instr, index);
    case OP_CONVOLUTION: return gen_convolution(g, instr, index);
    case OP_REDUCE: gen_reduce(g, instr, index, out); return out[0];
    case OP_REDUCE_WINDOW: gen_reduce_window(g, instr, index, out); return out[0];
    case OP_MAP:
    case OP_CALL:
    case OP_FUSION: {
        LLVMValueRef args[64];
        for (int i = 0; i < instr->noperands; i++)
            args[i] = gen_element(g, instr->operands[i], index);
        gen_scalar_call(g, instr->called[0], args, out);
        return out[0];
    }
    default: return elementwise(g, instr, index);
    }
}

LLVMValueRef gen_element(struct cpu_gen *g, const struct hlo_instr *instr,
                         const LLVMValueRef *index) {
    struct cpu_frame *frame = g->frame;
    if (frame->scalars && frame->scalars[instr->id]) return frame->scalars[instr->id];
    if (instr->opcode == OP_CONSTANT && instr->shape->rank == 0) return compute(g, instr, index);
    if (frame->leaves && frame->leaves[instr->id])
        return cpu_load(&g->b, instr->shape->type,
                        gen_address(g, instr->shape, frame->leaves[instr->id][0], index), NULL);
    LLVMValueRef value = compute(g, instr, index);
    if (frame->scalars) frame->scalars[instr->id] = value;
    return value;
}

void gen_elements(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                  LLVMValueRef *out) {
    if (instr->opcode == OP_REDUCE)
        gen_reduce(g, instr, index, out);
    else if (instr->opcode == OP_REDUCE_WINDOW)
        gen_reduce_window(g, instr, index, out);
    else
        out[0] = compute(g, instr, index);
}

void gen_scalar_call(struct cpu_gen *g, const struct hlo_computation *computation,
                     const LLVMValueRef *args, LLVMValueRef *out) {
    struct cpu_frame *outer = g->frame;
    struct cpu_frame frame = {.scalar = true};
    frame.scalars = arena_array(g->arena, (size_t)g->hlo->next_id, sizeof *frame.scalars);
    for (int i = 0; i < computation->nparameters; i++)
        frame.scalars[computation->parameters[i]->id] = args[i];
    g->frame = &frame;
    const struct hlo_instr *root = computation->root;
    if (root->opcode == OP_TUPLE) {
        for (int i = 0; i < root->noperands; i++)
            out[i] = gen_element(g, root->operands[i], NULL);
    } else {
        out[0] = gen_element(g, root, NULL);
    }
    g->frame = outer;
}
