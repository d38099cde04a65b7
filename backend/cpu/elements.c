/* One element of an instruction's result, from its operands' elements. */
#include <string.h>

#include "backend/cpu/debug_info.h"
#include "backend/cpu/emit.h"
#include "backend/cpu/index_walk.h"
#include "backend/cpu/lowering.h"

enum { KEY_ELEMENT = 5, KEY_DELEGATE = 6, MOST_DEPTH = 600 };

/* ---- activations ---- */

uint64_t gen_frame_enter(struct cpu_gen *g) {
    uint64_t outer = g->frame;
    g->frame = ++g->nframes;
    return outer;
}

void gen_frame_leave(struct cpu_gen *g, uint64_t outer) {
    g->frame = outer;
}

/* A parameter whose elements are those of an instruction of another activation. */
struct delegate {
    uint64_t frame;
    const struct hlo_instr *instr;
};

static void bind_delegate(struct cpu_gen *g, const struct hlo_instr *parameter,
                          struct delegate delegate) {
    uint64_t key[3] = {KEY_DELEGATE, g->frame, (uintptr_t)parameter};
    scope_add(&g->seen, key, 3, arena_copy(g->arena, &delegate, sizeof delegate));
}

static int element_key(const struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                       const LLVMValueRef *index, uint64_t *key) {
    int n = 0, rank = shape_leaf(instr->shape, leaf)->rank;
    key[n++] = KEY_ELEMENT + ((uint64_t)leaf << 8);
    key[n++] = g->frame;
    key[n++] = (uintptr_t)instr;
    for (int d = 0; d < rank; d++)
        key[n++] = (uintptr_t)index[d];
    return n;
}

void gen_bind_leaf(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                   const LLVMValueRef *index, LLVMValueRef value) {
    uint64_t key[3 + SHAPE_MAX_RANK];
    scope_add(&g->seen, key, element_key(g, instr, leaf, index, key), value);
}

void gen_bind_element(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                      LLVMValueRef value) {
    gen_bind_leaf(g, instr, 0, index, value);
}

/* ---- operations that rename indices ---- */

static LLVMValueRef reshaped(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index) {
    const struct shape *from = instr->operands[0]->shape;
    LLVMValueRef inner[SHAPE_MAX_RANK];
    gen_delinear(g, from, gen_linear(g, instr->shape, index), inner);
    LLVMValueRef value = gen_element(g, instr->operands[0], inner);
    return from->type == instr->shape->type
               ? value
               : cpu_emit_bitcast(&g->b, value, from->type, instr->shape->type);
}

/* ---- operations that compute indices ---- */

static LLVMValueRef clamp(struct cpu_gen *g, LLVMValueRef x, int64_t low, int64_t high) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef lo = gen_i64(g, low), hi = gen_i64(g, high);
    x = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, x, lo, ""), lo, x, "");
    x = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, x, hi, ""), hi, x, "");
    gen_index_bound(g, x, high + 1);
    return x;
}

LLVMValueRef gen_start_index(struct cpu_gen *g, const struct hlo_instr *from,
                             const LLVMValueRef *index, int64_t high) {
    LLVMBuilderRef b = g->b.builder;
    if (high == 0) return gen_i64(g, 0);
    LLVMValueRef x = gen_element(g, from, index);
    LLVMTypeRef wide = LLVMInt64TypeInContext(g->b.context);
    if (!element_type_is_unsigned(from->shape->type))
        return clamp(g, LLVMBuildSExt(b, x, wide, ""), 0, high);
    x = LLVMBuildZExt(b, x, wide, "");
    LLVMValueRef top = gen_i64(g, high);
    x = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, x, top, ""), top, x, "");
    gen_index_bound(g, x, high + 1);
    return x;
}

/* Whether the index is known to be in from .. from + size - 1, or not to be. */
static bool surely_in(struct cpu_gen *g, LLVMValueRef index, int64_t from, int64_t size) {
    int64_t low, limit;
    gen_index_range(g, index, &low, &limit);
    return low >= from && limit - from <= size;
}

static bool surely_out(struct cpu_gen *g, LLVMValueRef index, int64_t from, int64_t size) {
    int64_t low, limit;
    gen_index_range(g, index, &low, &limit);
    return limit <= from || low - from >= size;
}

/* index - from, within 0 .. size - 1 where it is not there already. */
static LLVMValueRef index_within(struct cpu_gen *g, LLVMValueRef index, int64_t from,
                                 int64_t size) {
    LLVMValueRef x = from ? LLVMBuildSub(g->b.builder, index, gen_i64(g, from), "") : index;
    if (!surely_in(g, index, from, size)) return clamp(g, x, 0, size - 1);
    gen_index_bound(g, x, size);
    return x;
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
        if (step == 1 && padding->v[d].low == 0 && padding->v[d].high == 0) {
            inner[d] = index[d];
            continue;
        }
        int64_t low = padding->v[d].low, size = from->dims[d];
        if (surely_out(g, index[d], low, (size - 1) * step + 1)) return fill;
        if (step == 1 && surely_in(g, index[d], low, size)) {
            inner[d] = index_within(g, index[d], low, size);
            continue;
        }
        LLVMValueRef at = LLVMBuildSub(b, index[d], gen_i64(g, low), "");
        LLVMValueRef place = step == 1  ? at
                             : low == 0 ? gen_index_div(g, at, step)
                                        : LLVMBuildSDiv(b, at, gen_i64(g, step), "");
        inner[d] = clamp(g, place, 0, from->dims[d] - 1);
        LLVMValueRef back = gen_index_mul(g, inner[d], step);
        inside = LLVMBuildAnd(b, inside, LLVMBuildICmp(b, LLVMIntEQ, back, at, ""), "");
    }
    return select_of(&g->b, inside, gen_element(g, instr->operands[0], inner), fill);
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
        if (instr->operands[i]->shape->count > 0 && !surely_out(g, index[dim], start, size)) {
            inner[dim] = index_within(g, index[dim], start, size);
            LLVMValueRef here = gen_element(g, instr->operands[i], inner);
            LLVMValueRef past = LLVMBuildICmp(b, LLVMIntSGE, index[dim], gen_i64(g, start), "");
            value = value ? select_of(&g->b, past, here, value) : here;
        }
        start += size;
    }
    return value ? value : cpu_constant(&g->b, instr->shape->type, 0);
}

static LLVMValueRef gathered(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index) {
    const struct hlo_instr *operand = instr->operands[0];
    struct index_walk walk = index_walk_of(instr);
    struct int_list sizes = instr_ints(instr, ATTR_SLICE_SIZES);
    LLVMValueRef which[SHAPE_MAX_RANK + 1], at[SHAPE_MAX_RANK];
    index_walk_vector(&walk, instr->shape->rank, index, which);
    index_walk_offset(g, &walk, index, which, at);
    for (int i = 0; i < walk.map.count; i++) {
        int d = (int)walk.map.v[i];
        index_walk_component(g, &walk, i, which);
        int64_t high = operand->shape->dims[d] - sizes.v[d];
        at[d] = gen_index_add(g, at[d], gen_start_index(g, walk.indices, which, high));
    }
    return gen_element(g, operand, at);
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
        if (instr->opcode == OP_REVERSE && int_list_has(dims, d)) {
            inner[d] = LLVMBuildSub(b, gen_i64(g, from->dims[d] - 1), index[d], "");
            gen_index_bound(g, inner[d], from->dims[d]);
        }
        if (instr->opcode == OP_SLICE) {
            struct slice_dim s = instr_attr(instr, ATTR_SLICE)->slices->v[d];
            inner[d] = gen_index_mul(g, index[d], s.stride);
            inner[d] = gen_index_add(g, inner[d], gen_i64(g, s.start));
        }
        if (instr->opcode == OP_DYNAMIC_SLICE) {
            int64_t high = from->dims[d] - instr->shape->dims[d];
            inner[d] =
                gen_index_add(g, index[d], gen_start_index(g, instr->operands[1 + d], NULL, high));
        }
    }
    if (instr->opcode == OP_TRANSPOSE)
        for (int d = 0; d < from->rank; d++)
            inner[dims.v[d]] = index[d];
    return gen_element(g, instr->operands[0], inner);
}

/* The low 32 bits of an index. Sums part by part, so that a loop's counter is counted in 32 bits.
 */
static LLVMValueRef narrow_index(struct cpu_gen *g, LLVMValueRef index, int depth) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    bool sum = LLVMIsAInstruction(index) && LLVMGetInstructionOpcode(index) == LLVMAdd;
    if (!sum || depth == 0) return LLVMBuildTrunc(g->b.builder, index, i32, "");
    return i_add(&g->b, narrow_index(g, LLVMGetOperand(index, 0), depth - 1),
                 narrow_index(g, LLVMGetOperand(index, 1), depth - 1));
}

static LLVMValueRef counted(struct cpu_gen *g, const struct hlo_instr *instr,
                            const LLVMValueRef *index) {
    enum { MOST_PARTS = 3 };
    int64_t dim = instr_int(instr, ATTR_IOTA_DIMENSION, 0);
    enum element_type type = instr->shape->type;
    /* Vector units convert 32 bits to anything else. */
    bool narrow = instr->shape->dims[dim] <= INT32_MAX &&
                  (type == TYPE_F64 || element_type_info(type)->bits <= 32);
    if (narrow)
        return cpu_emit_convert(&g->b, narrow_index(g, index[dim], MOST_PARTS), TYPE_S32, type);
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

/* The update's element where the index falls in its window, else the operand's. */
static LLVMValueRef updated(struct cpu_gen *g, const struct hlo_instr *instr,
                            const LLVMValueRef *index) {
    LLVMBuilderRef b = g->b.builder;
    const struct shape *part = instr->operands[1]->shape;
    if (part->count == 0) return gen_element(g, instr->operands[0], index);
    LLVMValueRef inner[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 1, false);
    for (int d = 0; d < part->rank; d++) {
        int64_t high = instr->shape->dims[d] - part->dims[d];
        LLVMValueRef start = gen_start_index(g, instr->operands[2 + d], NULL, high);
        LLVMValueRef at = LLVMBuildSub(b, index[d], start, "");
        inner[d] = clamp(g, at, 0, part->dims[d] - 1);
        inside = LLVMBuildAnd(b, inside, LLVMBuildICmp(b, LLVMIntEQ, inner[d], at, ""), "");
    }
    return select_of(&g->b, inside, gen_element(g, instr->operands[1], inner),
                     gen_element(g, instr->operands[0], index));
}

/* ---- calls ---- */

/* Leaf `leaf` of a called computation's result; its parameters' elements are the operands'. */
static LLVMValueRef called_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                                   const LLVMValueRef *index) {
    const struct hlo_computation *callee = instr->called[0];
    struct delegate delegate = {.frame = g->frame};
    uint64_t key[3] = {KEY_DELEGATE, g->frame, (uintptr_t)instr};
    uint64_t *frame = scope_find(&g->seen, key, 3);
    uint64_t outer = g->frame;
    if (frame) {
        g->frame = *frame;
    } else {
        gen_frame_enter(g);
        for (int i = 0; i < callee->nparameters; i++) {
            delegate.instr = instr->operands[i];
            bind_delegate(g, callee->parameters[i], delegate);
        }
        scope_add(&g->seen, key, 3, arena_copy(g->arena, &g->frame, sizeof g->frame));
    }
    LLVMValueRef value = gen_leaf_element(g, callee->root, leaf, index);
    gen_frame_leave(g, outer);
    return value;
}

void gen_scalar_call(struct cpu_gen *g, const struct hlo_computation *computation,
                     const LLVMValueRef *args, LLVMValueRef *out) {
    uint64_t outer = gen_frame_enter(g);
    int arg = 0;
    for (int i = 0; i < computation->nparameters; i++)
        for (int leaf = 0; leaf < computation->parameters[i]->shape->nleaves; leaf++)
            gen_bind_leaf(g, computation->parameters[i], leaf, NULL, args[arg++]);
    /* In order, so that long chains do not nest. */
    for (const struct hlo_instr *i = computation->first; i; i = i->next)
        if (shape_is_array(i->shape) && i->opcode != OP_PARAMETER) gen_element(g, i, NULL);
    for (int leaf = 0; leaf < computation->root->shape->nleaves; leaf++)
        out[leaf] = gen_leaf_element(g, computation->root, leaf, NULL);
    gen_frame_leave(g, outer);
}

static LLVMValueRef parameter_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                                      const LLVMValueRef *index) {
    uint64_t key[3] = {KEY_DELEGATE, g->frame, (uintptr_t)instr};
    const struct delegate *delegate = scope_find(&g->seen, key, 3);
    if (!delegate) {
        diag_instr_error(g->diag, instr, "internal error: no place for this parameter");
        return cpu_constant(&g->b, shape_leaf(instr->shape, leaf)->type, 0);
    }
    uint64_t inner = g->frame;
    g->frame = delegate->frame;
    LLVMValueRef value = gen_leaf_element(g, delegate->instr, leaf, index);
    g->frame = inner;
    return value;
}

static LLVMValueRef tuple_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                                  const LLVMValueRef *index) {
    int i = 0;
    while (leaf >= instr->operands[i]->shape->nleaves)
        leaf -= instr->operands[i++]->shape->nleaves;
    return gen_leaf_element(g, instr->operands[i], leaf, index);
}

/* Results of an instruction that makes all its leaves at once are kept for the other leaves. */
static LLVMValueRef one_of_many(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                                const LLVMValueRef *index) {
    LLVMValueRef out[GEN_MOST_LEAVES];
    if (instr->opcode == OP_REDUCE)
        gen_reduce(g, instr, index, out);
    else if (instr->opcode == OP_REDUCE_WINDOW)
        gen_reduce_window(g, instr, index, out);
    else {
        LLVMValueRef args[GEN_MOST_LEAVES];
        for (int i = 0; i < instr->noperands; i++)
            args[i] = gen_element(g, instr->operands[i], index);
        gen_scalar_call(g, instr->called[0], args, out);
    }
    for (int i = 0; i < instr->shape->nleaves; i++)
        if (i != leaf) gen_bind_leaf(g, instr, i, index, out[i]);
    return out[leaf];
}

static LLVMValueRef compute(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                            const LLVMValueRef *index) {
    switch (instr->opcode) {
    case OP_PARAMETER: return parameter_element(g, instr, leaf, index);
    case OP_CONSTANT:
        return gen_load(g, shape_leaf(instr->shape, leaf), gen_constant(g, instr, leaf), index);
    case OP_IOTA: return counted(g, instr, index);
    case OP_COPY:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY: return gen_leaf_element(g, instr->operands[0], leaf, index);
    case OP_BITCAST:
    case OP_RESHAPE: return reshaped(g, instr, index);
    case OP_BITCAST_CONVERT: return gen_bitcast_convert(g, instr, index);
    case OP_BROADCAST:
    case OP_REVERSE:
    case OP_SLICE:
    case OP_TRANSPOSE:
    case OP_DYNAMIC_SLICE: return moved(g, instr, index);
    case OP_DYNAMIC_UPDATE_SLICE: return updated(g, instr, index);
    case OP_PAD: return padded(g, instr, index);
    case OP_CONCATENATE: return joined(g, instr, index);
    case OP_GATHER: return gathered(g, instr, index);
    case OP_DOT: return gen_dot(g, instr, index);
    case OP_CONVOLUTION: return gen_convolution(g, instr, index);
    case OP_TUPLE: return tuple_element(g, instr, leaf, index);
    case OP_GET_TUPLE_ELEMENT:
        leaf +=
            shape_tuple_first_leaf(instr->operands[0]->shape, (int)instr_int(instr, ATTR_INDEX, 0));
        return gen_leaf_element(g, instr->operands[0], leaf, index);
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_MAP: return one_of_many(g, instr, leaf, index);
    case OP_CALL:
    case OP_FUSION: return called_element(g, instr, leaf, index);
    default: return elementwise(g, instr, index);
    }
}

/* A constant that has one value, and no need of memory. */
static bool is_immediate(const struct hlo_instr *instr) {
    return instr->opcode == OP_CONSTANT && shape_is_array(instr->shape) && instr->shape->count == 1;
}

LLVMValueRef gen_leaf_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                              const LLVMValueRef *index) {
    if (is_immediate(instr)) return cpu_constant_element(&g->b, instr->literal, 0);
    const struct shape *shape = shape_leaf(instr->shape, leaf);
    uint64_t key[3 + SHAPE_MAX_RANK];
    int nkey = element_key(g, instr, leaf, index, key);
    LLVMValueRef value = scope_find(&g->seen, key, nkey);
    if (value) return value;
    LLVMValueRef *leaves = gen_leaves(g, instr);
    if (leaves) {
        value = gen_load(g, shape, leaves[leaf], index);
    } else if (g->depth >= MOST_DEPTH) {
        if (!g->diag->errors)
            diag_instr_error(g->diag, instr, "fused operations nest deeper than %d", MOST_DEPTH);
        value = cpu_constant(&g->b, shape->type, 0);
    } else {
        g->depth++;
        struct debug_place outer = debug_enter(g, instr);
        value = compute(g, instr, leaf, index);
        debug_restore(g, outer);
        g->depth--;
    }
    scope_add(&g->seen, key, nkey, value);
    return value;
}

LLVMValueRef gen_element(struct cpu_gen *g, const struct hlo_instr *instr,
                         const LLVMValueRef *index) {
    return gen_leaf_element(g, instr, 0, index);
}

LLVMValueRef gen_computed_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                                  const LLVMValueRef *index) {
    struct debug_place outer = debug_enter(g, instr);
    LLVMValueRef value = compute(g, instr, leaf, index);
    debug_restore(g, outer);
    return value;
}
