/* Rewrites of what moves data: reshapes, transposes, broadcasts, slices, concatenations and so on
 * that undo each other, do nothing, or can be one. */
#include <string.h>

#include "passes/rewrite.h"

/* A scalar spread over the instruction's result. */
static struct hlo_instr *spread_scalar(struct pass_context *context, struct hlo_instr *instr,
                                       struct hlo_instr *scalar) {
    MAY_REWRITE(context);
    if (instr->shape->rank == 0) return scalar;
    struct hlo_instr *spread =
        instr_new(instr->parent, instr, OP_BROADCAST, instr->shape, NULL, 1, &scalar);
    instr_set_ints(spread, ATTR_DIMENSIONS, 0, NULL);
    spread->metadata = instr->metadata;
    return spread;
}

static struct hlo_instr *move_reshape(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (shape_is_dynamic(instr->shape) || shape_is_dynamic(operand->shape)) return NULL;
    if (same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (is_scalar_broadcast(operand)) return spread_scalar(context, instr, operand->operands[0]);
    if (operand->opcode != OP_RESHAPE) return NULL;
    MAY_REWRITE(context);
    return instr_clone(instr, instr->parent, instr, NULL, operand->operands);
}

static bool is_identity(struct int_list dims) {
    for (int i = 0; i < dims.count; i++)
        if (dims.v[i] != i) return false;
    return true;
}

/* A broadcast to other dims, as long as they stay in order. */
static struct hlo_instr *transpose_of_broadcast(struct pass_context *context,
                                                struct hlo_instr *instr, struct int_list dims) {
    struct hlo_instr *broadcast = instr->operands[0];
    struct int_list inner = instr_ints(broadcast, ATTR_DIMENSIONS);
    int64_t moved[SHAPE_MAX_RANK], last = -1;
    for (int i = 0; i < inner.count; i++) {
        for (int d = 0; d < dims.count; d++)
            if (dims.v[d] == inner.v[i]) moved[i] = d;
        if (moved[i] <= last) return NULL;
        last = moved[i];
    }
    MAY_REWRITE(context);
    return rewrite_broadcast(instr, instr->shape, broadcast->operands[0], inner.count, moved);
}

/* Only dims of size 1 change places. */
static bool keeps_order(const struct hlo_instr *transpose, struct int_list dims) {
    int64_t last = -1;
    if (shape_is_dynamic(transpose->shape) || !shape_layout_is_default(transpose->shape) ||
        !shape_layout_is_default(transpose->operands[0]->shape))
        return false;
    for (int i = 0; i < dims.count; i++) {
        if (transpose->shape->dims[i] == 1) continue;
        if (dims.v[i] < last) return false;
        last = dims.v[i];
    }
    return true;
}

static struct hlo_instr *move_transpose(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (is_identity(dims) && same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (is_scalar_broadcast(operand)) return spread_scalar(context, instr, operand->operands[0]);
    if (operand->opcode == OP_BROADCAST) return transpose_of_broadcast(context, instr, dims);
    if (keeps_order(instr, dims)) {
        MAY_REWRITE(context);
        return rewrite_unary(instr, OP_RESHAPE, instr->shape, operand);
    }
    if (operand->opcode != OP_TRANSPOSE) return NULL;
    struct int_list inner = instr_ints(operand, ATTR_DIMENSIONS);
    int64_t both[SHAPE_MAX_RANK];
    for (int i = 0; i < dims.count; i++)
        both[i] = inner.v[dims.v[i]];
    MAY_REWRITE(context);
    struct hlo_instr *with = instr_clone(instr, instr->parent, instr, NULL, operand->operands);
    instr_set_ints(with, ATTR_DIMENSIONS, dims.count, both);
    return with;
}

/* The reshape only adds dims of size 1, or takes some away: the broadcast can do without. */
static struct hlo_instr *broadcast_of_reshape(struct pass_context *context, struct hlo_instr *instr,
                                              struct int_list dims) {
    struct hlo_instr *reshape = instr->operands[0], *from = reshape->operands[0];
    int64_t mapped[SHAPE_MAX_RANK];
    int next = 0, rank = reshape->shape->rank;
    if (shape_is_dynamic(from->shape)) return NULL;
    for (int i = 0; i < from->shape->rank; i++) {
        int64_t size = from->shape->dims[i];
        if (size == 1) return NULL; /* another rule's: taken away first */
        while (next < rank && reshape->shape->dims[next] == 1)
            next++;
        if (next == rank || reshape->shape->dims[next] != size) return NULL;
        mapped[i] = dims.v[next++];
    }
    while (next < rank && reshape->shape->dims[next] == 1)
        next++;
    if (next < rank) return NULL;
    MAY_REWRITE(context);
    return rewrite_broadcast(instr, instr->shape, from, from->shape->rank, mapped);
}

static struct hlo_instr *move_broadcast(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (is_identity(dims) && same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (shape_is_dynamic(instr->shape)) return NULL;
    if (operand->opcode == OP_RESHAPE) return broadcast_of_reshape(context, instr, dims);
    if (operand->opcode != OP_BROADCAST) return NULL;
    struct int_list inner = instr_ints(operand, ATTR_DIMENSIONS);
    int64_t both[SHAPE_MAX_RANK];
    for (int i = 0; i < inner.count; i++)
        both[i] = dims.v[inner.v[i]];
    MAY_REWRITE(context);
    struct hlo_instr *with = instr_clone(instr, instr->parent, instr, NULL, operand->operands);
    instr_set_ints(with, ATTR_DIMENSIONS, inner.count, both);
    return with;
}

static bool all_static(const struct hlo_instr *instr) {
    if (!shape_is_array(instr->shape) || shape_is_dynamic(instr->shape)) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (!shape_is_array(instr->operands[i]->shape) ||
            shape_is_dynamic(instr->operands[i]->shape))
            return false;
    return true;
}

/* ---- slices ---- */

static struct hlo_instr *new_pad(struct hlo_instr *before, struct hlo_instr *operand,
                                 struct hlo_instr *value, const struct padding_dim *dims) {
    struct arena *arena = before->parent->module->arena;
    struct padding_config *padding = arena_alloc(arena, sizeof *padding);
    size_t size = (size_t)before->shape->rank * sizeof *dims;
    *padding = (struct padding_config){before->shape->rank, arena_copy(arena, dims, size)};
    struct hlo_instr *pad = rewrite_binary(before, OP_PAD, before->shape, operand, value);
    struct hlo_attr attr = {.key = ATTR_PADDING, .padding = padding};
    instr_set_attr(pad, &attr);
    return pad;
}

static const struct slice_dim *slice_dims(const struct hlo_instr *slice) {
    const struct hlo_attr *attr = instr_attr(slice, ATTR_SLICE);
    return attr && attr->slices->count == slice->shape->rank ? attr->slices->v : NULL;
}

static struct hlo_instr *slice_of_slice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    const struct slice_dim *outer = slice_dims(instr), *inner = slice_dims(operand);
    struct slice_dim both[SHAPE_MAX_RANK];
    if (!outer || !inner) return NULL;
    for (int i = 0; i < instr->shape->rank; i++) {
        int64_t last = instr->shape->dims[i] - 1;
        both[i] = (struct slice_dim){0, 0, 1}; /* of nothing */
        if (last < 0) continue;
        both[i].start = inner[i].start + outer[i].start * inner[i].stride;
        both[i].stride = last > 0 ? inner[i].stride * outer[i].stride : 1;
        both[i].limit = both[i].start + last * both[i].stride + 1;
    }
    MAY_REWRITE(context);
    return rewrite_slice(instr, instr->shape, operand->operands[0], both);
}

/* All that is taken lies in one of the operands. One with very many is left alone: each slice looks
 * at them all. */
static struct hlo_instr *slice_of_concatenate(struct pass_context *context,
                                              struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    const struct slice_dim *dims = slice_dims(instr);
    struct int_list along = instr_ints(operand, ATTR_DIMENSIONS);
    struct slice_dim moved[SHAPE_MAX_RANK];
    enum { MOST = 1024 };
    if (!dims || along.count != 1 || instr->shape->count == 0) return NULL;
    if (operand->noperands > MOST) return NULL;
    int64_t dim = along.v[0], first = 0;
    int64_t last = dims[dim].start + (instr->shape->dims[dim] - 1) * dims[dim].stride;
    for (int i = 0; i < operand->noperands; i++) {
        int64_t size = operand->operands[i]->shape->dims[dim];
        if (dims[dim].start >= first && last < first + size) {
            MAY_REWRITE(context);
            memcpy(moved, dims, (size_t)instr->shape->rank * sizeof *dims);
            moved[dim].start -= first;
            moved[dim].limit = last - first + 1;
            return rewrite_slice(instr, instr->shape, operand->operands[i], moved);
        }
        first += size;
    }
    return NULL;
}

/* What is taken of what was padded, and of its edges. */
static bool cut_pad(const struct hlo_instr *instr, struct slice_dim *inner,
                    struct padding_dim *edges) {
    const struct hlo_instr *pad = instr->operands[0];
    const struct slice_dim *dims = slice_dims(instr);
    const struct hlo_attr *attr = instr_attr(pad, ATTR_PADDING);
    if (!dims || !attr || instr->shape->count == 0) return false;
    for (int i = 0; i < instr->shape->rank; i++) {
        int64_t size = pad->operands[0]->shape->dims[i], count = instr->shape->dims[i];
        int64_t start = dims[i].start - attr->padding->v[i].low;
        int64_t end = start + (count - 1) * dims[i].stride + 1; /* of what is taken */
        bool inside = start >= 0 && end <= size;
        if (attr->padding->v[i].interior != 0 || start >= size || end <= 0) return false;
        if (!inside && dims[i].stride != 1) return false;
        edges[i] = (struct padding_dim){start < 0 ? -start : 0, end > size ? end - size : 0, 0};
        inner[i] =
            (struct slice_dim){start < 0 ? 0 : start, end > size ? size : end, dims[i].stride};
    }
    return true;
}

/* Of a padded array: a slice of the array itself, with what is left of the edges. */
static struct hlo_instr *slice_of_pad(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *pad = instr->operands[0];
    struct slice_dim inner[SHAPE_MAX_RANK];
    struct padding_dim edges[SHAPE_MAX_RANK];
    int64_t sizes[SHAPE_MAX_RANK];
    bool padded = false;
    int rank = instr->shape->rank;
    if (!cut_pad(instr, inner, edges)) return NULL;
    for (int i = 0; i < rank; i++) {
        sizes[i] = instr->shape->dims[i] - edges[i].low - edges[i].high;
        padded = padded || edges[i].low || edges[i].high;
    }
    MAY_REWRITE(context);
    const struct shape *shape = rewrite_array(instr, instr->shape->type, rank, sizes);
    if (!padded) return rewrite_slice(instr, instr->shape, pad->operands[0], inner);
    struct hlo_instr *slice = rewrite_slice(instr, shape, pad->operands[0], inner);
    return new_pad(instr, slice, pad->operands[1], edges);
}

/* Only dims that the broadcast made are cut. */
static struct hlo_instr *slice_of_broadcast(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    struct int_list dims = instr_ints(operand, ATTR_DIMENSIONS);
    for (int i = 0; i < dims.count; i++)
        if (instr->shape->dims[dims.v[i]] != operand->shape->dims[dims.v[i]]) return NULL;
    MAY_REWRITE(context);
    return rewrite_broadcast(instr, instr->shape, operand->operands[0], dims.count, dims.v);
}

static struct hlo_instr *move_slice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (!all_static(instr)) return NULL;
    if (same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    switch (operand->opcode) {
    case OP_SLICE: return slice_of_slice(context, instr);
    case OP_CONCATENATE: return slice_of_concatenate(context, instr);
    case OP_PAD: return slice_of_pad(context, instr);
    case OP_BROADCAST: return slice_of_broadcast(context, instr);
    default: return NULL;
    }
}

/* Only dims that the broadcast made are cut, wherever that is. */
static struct hlo_instr *dynamic_slice_of_broadcast(struct pass_context *context,
                                                    struct hlo_instr *instr) {
    if (!all_static(instr) || instr->operands[0]->opcode != OP_BROADCAST) return NULL;
    return slice_of_broadcast(context, instr);
}

/* Every number that is gathered is the same. */
static struct hlo_instr *gather_of_number(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (!all_static(instr) || !is_scalar_broadcast(operand)) return NULL;
    return spread_scalar(context, instr, operand->operands[0]);
}

/* What has just been written there: both starts are clamped alike. */
static struct hlo_instr *slice_of_update(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *update = instr->operands[0];
    if (update->opcode != OP_DYNAMIC_UPDATE_SLICE || !all_static(instr) || !all_static(update) ||
        !same_starts(instr, update) || !same_array(instr, update->operands[1]))
        return NULL;
    MAY_REWRITE(context);
    return update->operands[1];
}

/* What is written is what was there. */
static struct hlo_instr *update_with_slice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *slice = instr->operands[1];
    if (slice->opcode != OP_DYNAMIC_SLICE || slice->operands[0] != instr->operands[0] ||
        !all_static(instr) || !same_starts(slice, instr) || !same_array(instr, instr->operands[0]))
        return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

static bool constant_index(const struct hlo_instr *instr, int64_t *value) {
    if (!instr_is_constant(instr) || instr->shape->count != 1) return false;
    if (!element_type_is_integral(instr->shape->type)) return false;
    *value = literal_get_int(instr->literal, 0);
    if (*value < 0 && element_type_is_unsigned(instr->shape->type)) *value = INT64_MAX;
    return true;
}

/* Known starts, clamped as they would be. */
static struct hlo_instr *slice_at_constant(struct pass_context *context, struct hlo_instr *instr) {
    struct slice_dim dims[SHAPE_MAX_RANK];
    int rank = instr->shape->rank;
    if (!all_static(instr) || instr->noperands != rank + 1) return NULL;
    for (int i = 0; i < rank; i++) {
        int64_t start, most = instr->operands[0]->shape->dims[i] - instr->shape->dims[i];
        if (!constant_index(instr->operands[i + 1], &start)) return NULL;
        start = start < 0 ? 0 : start > most ? most : start;
        dims[i] = (struct slice_dim){start, start + instr->shape->dims[i], 1};
    }
    MAY_REWRITE(context);
    return rewrite_slice(instr, instr->shape, instr->operands[0], dims);
}

static bool is_plain_slice_of(const struct hlo_instr *instr, const struct hlo_instr *whole,
                              int64_t dim, int64_t start) {
    const struct slice_dim *dims = instr->opcode == OP_SLICE ? slice_dims(instr) : NULL;
    if (!dims || instr->operands[0] != whole || dims[dim].start != start) return false;
    for (int i = 0; i < instr->shape->rank; i++)
        if (dims[i].stride != 1) return false;
    return true;
}

/* Neighbouring slices of one array, put together again. */
static struct hlo_instr *concatenate_of_slices(struct pass_context *context,
                                               struct hlo_instr *instr, int64_t dim) {
    const struct hlo_instr *first = instr->operands[0];
    const struct slice_dim *dims = first->opcode == OP_SLICE ? slice_dims(first) : NULL;
    struct slice_dim all[SHAPE_MAX_RANK];
    if (!dims) return NULL;
    int64_t start = dims[dim].start;
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];
        if (!is_plain_slice_of(operand, first->operands[0], dim, start)) return NULL;
        const struct slice_dim *own = slice_dims(operand);
        for (int d = 0; d < instr->shape->rank; d++)
            if (d != dim && own[d].start != dims[d].start) return NULL;
        start += operand->shape->dims[dim];
    }
    MAY_REWRITE(context);
    memcpy(all, dims, (size_t)instr->shape->rank * sizeof *all);
    all[dim].limit = start;
    return rewrite_slice(instr, instr->shape, first->operands[0], all);
}

/* ---- concatenations and padding ---- */

/* Operands that are concatenations along the same dim give their operands; empty ones go. */
static struct hlo_instr *flatten_concatenate(struct pass_context *context, struct hlo_instr *instr,
                                             int64_t dim) {
    enum { MOST = 64 };
    struct hlo_instr *operands[MOST];
    int count = 0;
    bool flat = true;
    for (int i = 0; i < instr->noperands; i++) {
        struct hlo_instr *operand = instr->operands[i];
        bool nested = operand->opcode == OP_CONCATENATE && !operand->ncontrol &&
                      instr_ints(operand, ATTR_DIMENSIONS).v[0] == dim;
        int n = nested ? operand->noperands : 1;
        bool empty = operand->shape->dims[dim] == 0;
        flat = flat && !nested && !empty;
        if (empty) continue;
        if (count + n > MOST) return NULL;
        for (int k = 0; k < n; k++)
            operands[count++] = nested ? operand->operands[k] : operand;
    }
    if (flat || count == 0) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *with =
        instr_new(instr->parent, instr, OP_CONCATENATE, instr->shape, NULL, count, operands);
    instr_set_ints(with, ATTR_DIMENSIONS, 1, &dim);
    with->metadata = instr->metadata;
    return with;
}

/* The same number everywhere. */
static struct hlo_instr *concatenate_of_one_number(struct pass_context *context,
                                                   struct hlo_instr *instr) {
    for (int i = 0; i < instr->noperands; i++)
        if (!is_scalar_broadcast(instr->operands[i]) ||
            instr->operands[i]->operands[0] != instr->operands[0]->operands[0])
            return NULL;
    return spread_scalar(context, instr, instr->operands[0]->operands[0]);
}

static struct hlo_instr *move_nothing(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (shape_is_dynamic(operand->shape) || !same_array(instr, operand)) return NULL;
    MAY_REWRITE(context);
    return operand;
}

/* No padding at all: negative edges could make up for others. */
static struct hlo_instr *pad_nothing(struct pass_context *context, struct hlo_instr *instr) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_PADDING);
    for (int i = 0; attr && i < attr->padding->count; i++) {
        const struct padding_dim *dim = &attr->padding->v[i];
        if (dim->low || dim->high || dim->interior) return NULL;
    }
    return attr ? move_nothing(context, instr) : NULL;
}

/* The same number around the edges twice. */
static struct hlo_instr *pad_of_pad(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *inner = instr->operands[0];
    const struct hlo_attr *outer = instr_attr(instr, ATTR_PADDING), *attr;
    struct padding_dim dims[SHAPE_MAX_RANK];
    if (inner->opcode != OP_PAD || inner->operands[1] != instr->operands[1] || !all_static(instr) ||
        !all_static(inner) || !outer || !(attr = instr_attr(inner, ATTR_PADDING)))
        return NULL;
    for (int i = 0; i < instr->shape->rank; i++) {
        const struct padding_dim *a = &attr->padding->v[i], *b = &outer->padding->v[i];
        if (a->interior || b->interior || a->low < 0 || a->high < 0 || b->low < 0 || b->high < 0)
            return NULL;
        dims[i] = (struct padding_dim){a->low + b->low, a->high + b->high, 0};
    }
    MAY_REWRITE(context);
    return new_pad(instr, inner->operands[0], inner->operands[1], dims);
}

/* A number everywhere, and the same around it. */
static struct hlo_instr *pad_of_number(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (!all_static(instr) || !is_scalar_broadcast(operand) ||
        operand->operands[0] != instr->operands[1])
        return NULL;
    return spread_scalar(context, instr, operand->operands[0]);
}

/* Nothing is added, some is cut off. */
static struct hlo_instr *pad_that_cuts(struct pass_context *context, struct hlo_instr *instr) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_PADDING);
    struct slice_dim dims[SHAPE_MAX_RANK];
    if (!attr || !all_static(instr)) return NULL;
    for (int i = 0; i < instr->shape->rank; i++) {
        const struct padding_dim *pad = &attr->padding->v[i];
        if (pad->interior != 0 || pad->low > 0 || pad->high > 0) return NULL;
        dims[i] = (struct slice_dim){-pad->low, instr->operands[0]->shape->dims[i] + pad->high, 1};
    }
    MAY_REWRITE(context);
    return rewrite_slice(instr, instr->shape, instr->operands[0], dims);
}

static struct hlo_instr *move_concatenate(struct pass_context *context, struct hlo_instr *instr) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (!all_static(instr) || dims.count != 1 || instr->shape->count == 0) return NULL;
    if (instr->noperands == 1) return move_nothing(context, instr);
    struct hlo_instr *with = flatten_concatenate(context, instr, dims.v[0]);
    if (!with) with = concatenate_of_slices(context, instr, dims.v[0]);
    return with ? with : concatenate_of_one_number(context, instr);
}

/* The update covers everything, wherever it starts: starts are clamped. */
static struct hlo_instr *update_all(struct pass_context *context, struct hlo_instr *instr) {
    if (shape_is_dynamic(instr->shape) || !same_array(instr, instr->operands[1])) return NULL;
    MAY_REWRITE(context);
    return instr->operands[1];
}

/* Dims that only one of them turns round. */
static struct hlo_instr *reverse_of_reverse(struct pass_context *context, struct hlo_instr *instr,
                                            struct int_list dims) {
    struct hlo_instr *inner = instr->operands[0];
    struct int_list before = instr_ints(inner, ATTR_DIMENSIONS);
    int64_t once[SHAPE_MAX_RANK];
    int count = 0;
    for (int i = 0; i < instr->shape->rank; i++)
        if (int_list_has(dims, i) != int_list_has(before, i)) once[count++] = i;
    MAY_REWRITE(context);
    if (count == 0) return inner->operands[0];
    struct hlo_instr *with = instr_clone(instr, instr->parent, instr, NULL, inner->operands);
    instr_set_ints(with, ATTR_DIMENSIONS, count, once);
    return with;
}

static struct hlo_instr *move_reverse(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    bool nothing = true;
    if (!all_static(instr)) return NULL;
    for (int i = 0; i < dims.count; i++)
        nothing = nothing && instr->shape->dims[dims.v[i]] <= 1;
    if (nothing) return move_nothing(context, instr);
    if (is_scalar_broadcast(operand)) return move_nothing(context, instr);
    if (operand->opcode != OP_REVERSE) return NULL;
    return reverse_of_reverse(context, instr, dims);
}

static struct hlo_instr *known_size(struct pass_context *context, struct hlo_instr *instr) {
    const struct shape *shape = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (shape_is_dynamic(shape) || dims.count != 1) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, (double)shape->dims[dims.v[0]]);
}

/* ---- the table ---- */

static const struct rewrite rewrites[] = {
    {OP_RESHAPE, move_reshape},
    {OP_TRANSPOSE, move_transpose},
    {OP_BROADCAST, move_broadcast},
    {OP_SLICE, move_slice},
    {OP_DYNAMIC_SLICE, move_nothing},
    {OP_DYNAMIC_SLICE, dynamic_slice_of_broadcast},
    {OP_DYNAMIC_SLICE, slice_of_update},
    {OP_DYNAMIC_SLICE, slice_at_constant},
    {OP_GATHER, gather_of_number},
    {OP_PAD, pad_nothing},
    {OP_PAD, pad_of_number},
    {OP_PAD, pad_of_pad},
    {OP_PAD, pad_that_cuts},
    {OP_CONCATENATE, move_concatenate},
    {OP_DYNAMIC_UPDATE_SLICE, update_all},
    {OP_DYNAMIC_UPDATE_SLICE, update_with_slice},
    {OP_REVERSE, move_reverse},
    {OP_GET_DIMENSION_SIZE, known_size},
};

bool movement_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
