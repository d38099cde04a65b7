/* Reduces: of transposed arrays, over dims of size 1, of nothing, and over a few elements, which
 * are plain operations then that fuse with anything. */
#include "passes/rewrite.h"

enum { MOST_UNROLLED = 4, LEAST_RESULTS = 1024 };

static bool is_plain_reduce(const struct hlo_instr *reduce) {
    return reduce->noperands == 2 && shape_is_array(reduce->shape) &&
           !shape_is_dynamic(reduce->operands[0]->shape) &&
           shape_layout_is_default(reduce->shape) &&
           shape_layout_is_default(reduce->operands[0]->shape);
}

/* The dims that stay must keep their order. */
static struct hlo_instr *reduce_of_transpose(struct pass_context *context,
                                             struct hlo_instr *reduce) {
    struct hlo_instr *transpose = reduce->operands[0];
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    if (!is_plain_reduce(reduce) || transpose->opcode != OP_TRANSPOSE) return NULL;
    struct int_list from = instr_ints(transpose, ATTR_DIMENSIONS);
    int64_t moved[SHAPE_MAX_RANK], last = -1;
    int count = 0;
    for (int i = 0; i < from.count; i++) {
        if (int_list_has(dims, i)) continue;
        if (from.v[i] < last) return NULL;
        last = from.v[i];
    }
    for (int d = 0; d < from.count; d++)
        for (int i = 0; i < from.count; i++)
            if (from.v[i] == d && int_list_has(dims, i)) moved[count++] = d;
    MAY_REWRITE(context);
    struct hlo_instr *operands[2] = {transpose->operands[0], reduce->operands[1]};
    struct hlo_instr *with = instr_clone(reduce, reduce->parent, reduce, NULL, operands);
    instr_set_ints(with, ATTR_DIMENSIONS, count, moved);
    return with;
}

/* The number that reducing starts with, everywhere. */
static struct hlo_instr *initial(struct hlo_instr *reduce) {
    struct hlo_instr *init = reduce->operands[1];
    if (reduce->shape->rank == 0) return init;
    return rewrite_broadcast(reduce, reduce->shape, init, 0, NULL);
}

static struct hlo_instr *reduce_of_nothing(struct pass_context *context, struct hlo_instr *reduce) {
    if (!is_plain_reduce(reduce) || reduce->operands[0]->shape->count != 0) return NULL;
    if (reduce->operands[1]->shape->type != reduce->shape->type) return NULL;
    MAY_REWRITE(context);
    return initial(reduce);
}

/* Element k of the only reduced dim that is longer than 1. */
static struct hlo_instr *element(struct hlo_instr *reduce, int dim, int64_t k) {
    struct arena *arena = reduce->parent->module->arena;
    struct shape_table *shapes = reduce->parent->module->shapes;
    struct hlo_instr *from = reduce->operands[0];
    int64_t sizes[SHAPE_MAX_RANK];
    int rank = from->shape->rank;
    if (dim < 0) return rewrite_unary(reduce, OP_RESHAPE, reduce->shape, from);
    struct slice_dim *dims = arena_array(arena, (size_t)rank, sizeof *dims);
    struct slice_list *list = arena_alloc(arena, sizeof *list);
    for (int i = 0; i < rank; i++) {
        dims[i] = (struct slice_dim){0, from->shape->dims[i], 1};
        if (i == dim) dims[i] = (struct slice_dim){k, k + 1, 1};
        sizes[i] = dims[i].limit - dims[i].start;
    }
    *list = (struct slice_list){rank, dims};
    const struct shape *shape =
        shape_with_default_layouts(shapes, shape_array(shapes, from->shape->type, rank, sizes));
    struct hlo_instr *slice = rewrite_unary(reduce, OP_SLICE, shape, from);
    struct hlo_attr attr = {.key = ATTR_SLICE, .slices = list};
    instr_set_attr(slice, &attr);
    return rewrite_unary(reduce, OP_RESHAPE, reduce->shape, slice);
}

/* Over a few elements, where there are many results: one operation an element, in order. */
static struct hlo_instr *unroll(struct pass_context *context, struct hlo_instr *reduce) {
    const struct shape *from = reduce->operands[0]->shape;
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    int64_t length = 1;
    int dim = -1;
    if (!is_plain_reduce(reduce) || from->count == 0 || from->type != reduce->shape->type)
        return NULL;
    enum hlo_opcode operation = reducer_operation(reduce->called[0]);
    for (int i = 0; i < dims.count; i++) {
        if (from->dims[dims.v[i]] == 1) continue;
        if (dim >= 0) return NULL;
        dim = (int)dims.v[i];
        length = from->dims[dim];
    }
    if (operation == OPCODE_INVALID || length > MOST_UNROLLED) return NULL;
    if (length > 1 && reduce->shape->count < LEAST_RESULTS) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *result = initial(reduce);
    for (int64_t k = 0; k < length; k++)
        result = rewrite_binary(reduce, operation, reduce->shape, result, element(reduce, dim, k));
    return result;
}

static const struct rewrite rewrites[] = {
    {OP_REDUCE, reduce_of_transpose},
    {OP_REDUCE, reduce_of_nothing},
    {OP_REDUCE, unroll},
};

bool reduce_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
