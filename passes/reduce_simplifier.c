/* Reduces: of transposed arrays, over dims of size 1, of nothing, of numbers that are all the same,
 * of reduces, and over a few elements, which are plain operations then that fuse with anything.
 * Windows of one element, also where zeros are between them, and of all; padding in front of
 * windows. */
#include <math.h>

#include "passes/rewrite.h"

enum { MOST_UNROLLED = 4, MOST_JOINED = 16, LEAST_RESULTS = 1024 };

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
    struct hlo_instr *from = reduce->operands[0];
    if (dim < 0) return rewrite_unary(reduce, OP_RESHAPE, reduce->shape, from);
    struct hlo_instr *slice = rewrite_slice_at(reduce, from, dim, k);
    return rewrite_unary(reduce, OP_RESHAPE, reduce->shape, slice);
}

/* Single elements that were put side by side for this reduce alone. */
static bool is_joined_for(const struct hlo_instr *reduce, int dim) {
    const struct hlo_instr *joined = reduce->operands[0];
    struct int_list along = instr_ints(joined, ATTR_DIMENSIONS);
    return joined->opcode == OP_CONCATENATE && along.count == 1 && along.v[0] == dim &&
           joined->noperands == joined->shape->dims[dim] && instr_has_one_user(joined);
}

/* Over a few elements, where there are many results, or where they need not be put side by side
 * then: one operation an element, in order. */
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
    if (operation == OPCODE_INVALID) return NULL;
    bool joined = length > 1 && length <= MOST_JOINED && is_joined_for(reduce, dim);
    if (!joined && length > MOST_UNROLLED) return NULL;
    if (!joined && length > 1 && reduce->shape->count < LEAST_RESULTS) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *result = initial(reduce);
    for (int64_t k = 0; k < length; k++)
        result = rewrite_binary(reduce, operation, reduce->shape, result, element(reduce, dim, k));
    return result;
}

/* ---- reduces of what is the same everywhere ---- */

/* What does not change the other operand, of any type that it is used for. */
static bool is_identity(enum hlo_opcode operation, const struct hlo_instr *init) {
    switch (operation) {
    case OP_ADD: return instr_is_splat(init, 0);
    case OP_MULTIPLY: return instr_is_splat(init, 1);
    case OP_MAXIMUM: return is_real_float(init) && instr_is_splat(init, -INFINITY);
    case OP_MINIMUM: return is_real_float(init) && instr_is_splat(init, INFINITY);
    case OP_OR: return instr_is_splat(init, 0);
    case OP_AND: return is_pred(init) && instr_is_splat(init, 1);
    default: return false;
    }
}

/* The broadcast's operand in the dims that are left, where all reduced dims are the broadcast's. */
static struct hlo_instr *spread_rest(struct hlo_instr *reduce, struct int_list reduced) {
    const struct hlo_instr *broadcast = reduce->operands[0];
    struct int_list mapped = instr_ints(broadcast, ATTR_DIMENSIONS);
    int64_t places[SHAPE_MAX_RANK];
    for (int i = 0; i < mapped.count; i++) {
        places[i] = mapped.v[i];
        for (int k = 0; k < reduced.count; k++)
            places[i] -= reduced.v[k] < mapped.v[i];
    }
    return rewrite_broadcast(reduce, reduce->shape, broadcast->operands[0], mapped.count, places);
}

/* The sum of n equal numbers is n times the number; the largest of them is the number. */
static struct hlo_instr *reduce_of_broadcast(struct pass_context *context,
                                             struct hlo_instr *reduce) {
    const struct hlo_instr *broadcast = reduce->operands[0];
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    enum element_type type = reduce->shape->type;
    int64_t count = 1;
    if (!is_plain_reduce(reduce) || broadcast->opcode != OP_BROADCAST ||
        broadcast->shape->count == 0 || broadcast->shape->type != type)
        return NULL;
    struct int_list mapped = instr_ints(broadcast, ATTR_DIMENSIONS);
    for (int i = 0; i < dims.count; i++) {
        if (int_list_has(mapped, (int)dims.v[i])) return NULL;
        count *= broadcast->shape->dims[dims.v[i]];
    }
    enum hlo_opcode operation = reducer_operation(reduce->called[0]);
    bool exact = type == TYPE_F32 || type == TYPE_F64 || is_integer(reduce);
    bool same = operation == OP_MAXIMUM || operation == OP_MINIMUM || operation == OP_OR ||
                operation == OP_AND;
    if (!same && !(operation == OP_ADD && exact)) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *x = spread_rest(reduce, dims);
    if (!same) {
        struct hlo_instr *times = instr_new_splat(reduce, reduce->shape, (double)count);
        x = rewrite_binary(reduce, OP_MULTIPLY, reduce->shape, x, times);
    }
    return rewrite_binary(reduce, operation, reduce->shape, initial(reduce), x);
}

/* Over neighbouring dims: both together are one reduction. */
static struct hlo_instr *reduce_of_reduce(struct pass_context *context, struct hlo_instr *reduce) {
    struct hlo_instr *inner = reduce->operands[0];
    struct int_list outer_dims = instr_ints(reduce, ATTR_DIMENSIONS);
    if (inner->opcode != OP_REDUCE || !is_plain_reduce(reduce) || !is_plain_reduce(inner) ||
        inner->ncontrol || !instr_has_one_user(inner) ||
        inner->shape->type != reduce->shape->type ||
        inner->operands[0]->shape->type != inner->shape->type)
        return NULL;
    enum hlo_opcode operation = reducer_operation(reduce->called[0]);
    if (operation == OPCODE_INVALID || operation != reducer_operation(inner->called[0]) ||
        !is_identity(operation, inner->operands[1]))
        return NULL;
    struct int_list inner_dims = instr_ints(inner, ATTR_DIMENSIONS);
    int64_t both[SHAPE_MAX_RANK];
    int count = 0, kept = -1;
    for (int d = 0; d < inner->operands[0]->shape->rank; d++) {
        bool gone = int_list_has(inner_dims, d);
        if (!gone) kept++;
        if (gone || int_list_has(outer_dims, kept)) both[count++] = d;
    }
    if (count == 0 || both[count - 1] - both[0] != count - 1) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *operands[2] = {inner->operands[0], reduce->operands[1]};
    struct hlo_instr *with = instr_clone(reduce, reduce->parent, reduce, NULL, operands);
    instr_set_ints(with, ATTR_DIMENSIONS, count, both);
    return with;
}

/* ---- windows ---- */

static bool is_plain_window(const struct hlo_instr *instr) {
    return instr->noperands == 2 && shape_is_array(instr->shape) &&
           !shape_is_dynamic(instr->operands[0]->shape) && instr_window(instr) &&
           instr_window(instr)->count == instr->shape->rank &&
           shape_layout_is_default(instr->shape) &&
           shape_layout_is_default(instr->operands[0]->shape);
}

/* Each window is one element. */
static struct hlo_instr *window_of_one(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_plain_window(instr) || !same_array(instr, instr->operands[0])) return NULL;
    const struct window *window = instr_window(instr);
    for (int i = 0; i < window->count; i++) {
        const struct window_dim *dim = &window->v[i];
        if (dim->size != 1 || dim->stride != 1 || dim->pad_low || dim->pad_high ||
            dim->lhs_dilate > 1)
            return NULL;
    }
    enum hlo_opcode operation = reducer_operation(instr->called[0]);
    if (operation == OPCODE_INVALID) return NULL;
    MAY_REWRITE(context);
    return rewrite_binary(instr, operation, instr->shape, initial(instr), instr->operands[0]);
}

/* A window takes nothing beyond the edges: as much as numbers that change nothing. */
static struct hlo_instr *window_of_pad(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *pad = instr->operands[0];
    const struct hlo_attr *attr = pad->opcode == OP_PAD ? instr_attr(pad, ATTR_PADDING) : NULL;
    if (!attr || !is_plain_window(instr) || pad->operands[1] != instr->operands[1] ||
        !shape_layout_is_default(pad->operands[0]->shape) || pad->ncontrol ||
        !is_identity(reducer_operation(instr->called[0]), instr->operands[1]))
        return NULL;
    struct arena *arena = instr->parent->module->arena;
    const struct window *window = instr_window(instr);
    struct window *wider = arena_alloc(arena, sizeof *wider);
    struct window_dim *dims = arena_copy(arena, window->v, (size_t)window->count * sizeof *dims);
    for (int i = 0; i < window->count; i++) {
        const struct padding_dim *edge = &attr->padding->v[i];
        if (edge->interior || edge->low < 0 || edge->high < 0 || dims[i].lhs_dilate > 1)
            return NULL;
        dims[i].pad_low += edge->low;
        dims[i].pad_high += edge->high;
    }
    MAY_REWRITE(context);
    struct hlo_instr *operands[2] = {pad->operands[0], instr->operands[1]};
    struct hlo_instr *with = instr_clone(instr, instr->parent, instr, NULL, operands);
    *wider = *window;
    wider->v = dims;
    struct hlo_attr replaced = {.key = ATTR_WINDOW, .window = wider};
    instr_set_attr(with, &replaced);
    return with;
}

/* Along a dimension, how far apart the elements of the array are that the windows see, where each
 * window has one of them and it is the o / apart-th for the o-th window; 0: not so. `edge` may be
 * NULL. */
static int64_t one_each(const struct window_dim *dim, const struct padding_dim *edge,
                        int64_t elements, int64_t windows) {
    int64_t apart = edge ? edge->interior + 1 : dim->lhs_dilate, low = dim->pad_low;
    if (edge && dim->lhs_dilate > 1) return 0;
    if (edge) low += edge->low;
    if (dim->size != apart || dim->stride != 1 || dim->rhs_dilate > 1) return 0;
    return low == apart - 1 && windows == elements * apart ? apart : 0;
}

/* Each element `apart[d]` times along each dimension. */
static struct hlo_instr *repeat(struct hlo_instr *near, struct hlo_instr *x, const int64_t *apart) {
    int64_t sizes[SHAPE_MAX_RANK], mapped[SHAPE_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < x->shape->rank; d++) {
        mapped[d] = rank;
        sizes[rank++] = x->shape->dims[d];
        if (apart[d] > 1 && rank < SHAPE_MAX_RANK) sizes[rank++] = apart[d];
    }
    const struct shape *wide = rewrite_array(near, x->shape->type, rank, sizes);
    return rewrite_unary(near, OP_RESHAPE, near->shape,
                         rewrite_broadcast(near, wide, x, x->shape->rank, mapped));
}

/* Windows over elements that are as far apart as the windows are wide (the gradient of an average
 * over windows that do not overlap). */
static struct hlo_instr *window_of_spread(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *x = instr->operands[0];
    const struct hlo_attr *attr = NULL;
    int64_t apart[SHAPE_MAX_RANK];
    int more = 0;
    if (!is_plain_window(instr) || instr->shape->type != x->shape->type) return NULL;
    enum hlo_opcode operation = reducer_operation(instr->called[0]);
    if (!is_identity(operation, instr->operands[1])) return NULL;
    if (x->opcode == OP_PAD && x->operands[1] == instr->operands[1] && !x->ncontrol) {
        attr = instr_attr(x, ATTR_PADDING);
        x = x->operands[0];
    }
    if (shape_is_dynamic(x->shape) || !shape_layout_is_default(x->shape)) return NULL;
    for (int d = 0; d < instr->shape->rank; d++) {
        apart[d] = one_each(&instr_window(instr)->v[d], attr ? &attr->padding->v[d] : NULL,
                            x->shape->dims[d], instr->shape->dims[d]);
        if (apart[d] == 0) return NULL;
        more += apart[d] > 1;
    }
    if (more == 0 || instr->shape->rank + more > SHAPE_MAX_RANK) return NULL;
    MAY_REWRITE(context);
    x = repeat(instr, x, apart);
    return rewrite_binary(instr, operation, instr->shape, initial(instr), x);
}

/* One window along each dimension, of all of it or of its elements by themselves. */
static struct hlo_instr *window_of_all(struct pass_context *context, struct hlo_instr *instr) {
    int64_t over[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK];
    int count = 0, rest = 0;
    if (!is_plain_window(instr) || instr->shape->type != instr->operands[0]->shape->type)
        return NULL;
    if (reducer_operation(instr->called[0]) == OPCODE_INVALID) return NULL;
    for (int d = 0; d < instr->shape->rank; d++) {
        const struct window_dim *dim = &instr_window(instr)->v[d];
        int64_t size = instr->operands[0]->shape->dims[d];
        if (dim->pad_low || dim->pad_high || dim->lhs_dilate > 1) return NULL;
        if (dim->size == 1 && dim->stride == 1) {
            sizes[rest++] = size;
            continue;
        }
        if (dim->size != size || dim->rhs_dilate > 1) return NULL;
        over[count++] = d;
    }
    if (count == 0) return NULL;
    MAY_REWRITE(context);
    const struct shape *shape = rewrite_array(instr, instr->shape->type, rest, sizes);
    struct hlo_instr *operands[2] = {instr->operands[0], instr->operands[1]};
    struct hlo_instr *reduce = instr_new(instr->parent, instr, OP_REDUCE, shape, NULL, 2, operands);
    instr_set_called(reduce, 1, instr->called);
    instr_set_ints(reduce, ATTR_DIMENSIONS, count, over);
    return rewrite_unary(instr, OP_RESHAPE, instr->shape, reduce);
}

static const struct rewrite rewrites[] = {
    {OP_REDUCE, reduce_of_transpose},
    {OP_REDUCE, reduce_of_nothing},
    {OP_REDUCE, reduce_of_broadcast},
    {OP_REDUCE, reduce_of_reduce},
    {OP_REDUCE, unroll},
    {OP_REDUCE_WINDOW, window_of_one},
    {OP_REDUCE_WINDOW, window_of_all},
    {OP_REDUCE_WINDOW, window_of_spread},
    {OP_REDUCE_WINDOW, window_of_pad},
};

bool reduce_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
