/* Shapes of operations that move elements and leave them as they are. */
#include "ir/infer_internal.h"

const struct shape *infer_iota(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_written(instr, diag);
    if (!shape) return NULL;
    int64_t dim = instr_int(instr, ATTR_IOTA_DIMENSION, 0);
    if (!shape_is_array(shape) || shape->type == TYPE_PRED)
        return INFER_FAIL(instr, diag, "shape %s given, an array of numbers expected",
                          infer_text(instr, shape));
    if (dim < 0 || dim >= shape->rank)
        return INFER_FAIL(instr, diag, "iota_dimension=%lld given, a dimension of %s expected",
                          (long long)dim, infer_text(instr, shape));
    return shape;
}

const struct shape *infer_id(struct hlo_instr *instr, struct diag *diag) {
    return infer_array(instr, diag, TYPE_U32, 0, NULL);
}

const struct shape *infer_constant(struct hlo_instr *instr, struct diag *diag) {
    return infer_written(instr, diag);
}

const struct shape *infer_make_tuple(struct hlo_instr *instr, struct diag *diag) {
    const struct shape **elements =
        arena_array(instr->parent->module->arena, (size_t)instr->noperands + 1, sizeof *elements);
    for (int i = 0; i < instr->noperands; i++)
        elements[i] = infer_operand(instr, i)->plain;
    return infer_tuple(instr, diag, instr->noperands, elements);
}

const struct shape *infer_get_tuple_element(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_operand(instr, 0);
    int64_t index = instr_int(instr, ATTR_INDEX, -1);
    if (!shape_is_tuple(shape))
        return INFER_FAIL(instr, diag, "operand has shape %s, a tuple expected",
                          infer_text(instr, shape));
    if (index < 0 || index >= shape->ntuple)
        return INFER_FAIL(instr, diag, "index=%lld given, an element of a tuple of %d expected",
                          (long long)index, shape->ntuple);
    return shape->tuple[index];
}

const struct shape *infer_bitcast(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *from = infer_array_operand(instr, diag, 0);
    const struct shape *to = from ? infer_written(instr, diag) : NULL;
    if (!to) return NULL;
    if (!shape_is_array(to) || to->bytes != from->bytes)
        return INFER_FAIL(instr, diag,
                          "%s given for operand %s, an array of as many bytes "
                          "expected",
                          infer_text(instr, to), infer_text(instr, from));
    return to;
}

const struct shape *infer_reshape(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *from = infer_array_operand(instr, diag, 0);
    const struct shape *to = from ? infer_written(instr, diag) : NULL;
    if (!to) return NULL;
    if (!shape_is_array(to) || to->count != from->count || to->type != from->type)
        return INFER_FAIL(instr, diag,
                          "%s given for operand %s, an array of its type and %lld "
                          "elements expected",
                          infer_text(instr, to), infer_text(instr, from), (long long)from->count);
    return to;
}

const struct shape *infer_dynamic_reshape(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *to = infer_reshape(instr, diag);
    if (to && instr->noperands != to->rank + 1)
        return INFER_FAIL(instr, diag, "%d sizes given, %d for %s expected", instr->noperands - 1,
                          to->rank, infer_text(instr, to));
    for (int i = 1; to && i < instr->noperands; i++)
        if (!shape_is_scalar(infer_operand(instr, i)) || infer_operand(instr, i)->type != TYPE_S32)
            return INFER_FAIL(instr, diag, "operand %d has shape %s, s32[] expected", i,
                              infer_text(instr, infer_operand(instr, i)));
    return to;
}

const struct shape *infer_broadcast(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *from = infer_array_operand(instr, diag, 0);
    const struct shape *to = from ? infer_written(instr, diag) : NULL;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (!to) return NULL;
    if (!shape_is_array(to))
        return INFER_FAIL(instr, diag, "result shape %s given, an array expected",
                          infer_text(instr, to));
    if (dims.count != from->rank)
        return INFER_FAIL(instr, diag, "%d dimensions given, %d for operand %s expected",
                          dims.count, from->rank, infer_text(instr, from));
    if (!infer_check_dims(instr, diag, "dimensions", dims, to->rank)) return NULL;
    for (int i = 0; i < from->rank; i++)
        if (to->dims[dims.v[i]] != from->dims[i])
            return INFER_FAIL(instr, diag,
                              "dimension %lld of the result has size %lld, %lld "
                              "expected (dimension %d of the operand)",
                              (long long)dims.v[i], (long long)to->dims[dims.v[i]],
                              (long long)from->dims[i], i);
    return shape_with_type(infer_table(instr), to, from->type);
}

const struct shape *infer_transpose(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t sizes[SHAPE_MAX_RANK];
    if (!shape) return NULL;
    if (dims.count != shape->rank)
        return INFER_FAIL(instr, diag, "%d dimensions given, %d for operand %s expected",
                          dims.count, shape->rank, infer_text(instr, shape));
    if (!infer_check_dims(instr, diag, "dimensions", dims, shape->rank)) return NULL;
    for (int i = 0; i < dims.count; i++)
        sizes[i] = shape->dims[dims.v[i]];
    return infer_array(instr, diag, shape->type, shape->rank, sizes);
}

const struct shape *infer_reverse(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (!shape || !infer_check_dims(instr, diag, "dimensions", dims, shape->rank)) return NULL;
    return shape;
}

const struct shape *infer_concatenate(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *first = infer_array_operand(instr, diag, 0);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t sizes[SHAPE_MAX_RANK];
    if (!first || !infer_check_dims(instr, diag, "dimensions", dims, first->rank)) return NULL;
    if (dims.count != 1)
        return INFER_FAIL(instr, diag, "%d dimensions given, 1 expected", dims.count);
    for (int i = 0; i < first->rank; i++)
        sizes[i] = first->dims[i];
    for (int k = 1; k < instr->noperands; k++) {
        const struct shape *next = infer_operand(instr, k);
        bool fits = next->type == first->type && next->rank == first->rank;
        for (int i = 0; fits && i < first->rank; i++)
            fits = i == dims.v[0] || next->dims[i] == first->dims[i];
        if (!fits)
            return INFER_FAIL(instr, diag,
                              "operand %d has shape %s, %s but for dimension %lld "
                              "expected",
                              k, infer_text(instr, next), infer_text(instr, first),
                              (long long)dims.v[0]);
        if (__builtin_add_overflow(sizes[dims.v[0]], next->dims[dims.v[0]], &sizes[dims.v[0]]))
            return INFER_FAIL(instr, diag,
                              "sizes of the operands given, a sum below 2^62 "
                              "expected");
    }
    return infer_array(instr, diag, first->type, first->rank, sizes);
}

/* size + low + high + (size - 1) * interior, not below 0; false where out of range. */
static bool padded_size(int64_t size, const struct padding_dim *pad, int64_t *result) {
    int64_t holes;
    if (pad->interior < 0 ||
        __builtin_mul_overflow(size > 0 ? size - 1 : 0, pad->interior, &holes) ||
        __builtin_add_overflow(size, holes, &size) ||
        __builtin_add_overflow(size, pad->low, &size) ||
        __builtin_add_overflow(size, pad->high, &size))
        return false;
    *result = size;
    return size >= 0;
}

const struct shape *infer_pad(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    const struct shape *value = infer_operand(instr, 1);
    const struct padding_config *padding = instr_attr(instr, ATTR_PADDING)->padding;
    int64_t sizes[SHAPE_MAX_RANK];
    if (!shape) return NULL;
    if (!shape_is_scalar(value) || value->type != shape->type)
        return INFER_FAIL(instr, diag, "padding value has shape %s, a scalar %s expected",
                          infer_text(instr, value), element_type_name(shape->type));
    if (padding->count != shape->rank)
        return INFER_FAIL(instr, diag, "padding of %d dimensions given, %d expected",
                          padding->count, shape->rank);
    for (int i = 0; i < shape->rank; i++)
        if (!padded_size(shape->dims[i], &padding->v[i], &sizes[i]))
            return INFER_FAIL(instr, diag,
                              "padding %lld_%lld_%lld given for size %lld, a result "
                              "of size 0 to 2^62 expected",
                              (long long)padding->v[i].low, (long long)padding->v[i].high,
                              (long long)padding->v[i].interior, (long long)shape->dims[i]);
    return infer_array(instr, diag, shape->type, shape->rank, sizes);
}

const struct shape *infer_slice(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    const struct slice_list *slices = instr_attr(instr, ATTR_SLICE)->slices;
    int64_t sizes[SHAPE_MAX_RANK];
    if (!shape) return NULL;
    if (slices->count != shape->rank)
        return INFER_FAIL(instr, diag, "slice of %d dimensions given, %d expected", slices->count,
                          shape->rank);
    for (int i = 0; i < shape->rank; i++) {
        const struct slice_dim *s = &slices->v[i];
        if (s->start < 0 || s->limit < s->start || s->limit > shape->dims[i] || s->stride < 1)
            return INFER_FAIL(instr, diag,
                              "slice [%lld:%lld:%lld] given for dimension %d, one "
                              "inside of 0 to %lld with a positive stride expected",
                              (long long)s->start, (long long)s->limit, (long long)s->stride, i,
                              (long long)shape->dims[i]);
        sizes[i] = s->limit == s->start ? 0 : (s->limit - s->start - 1) / s->stride + 1;
    }
    return infer_array(instr, diag, shape->type, shape->rank, sizes);
}

/* Operands of a dynamic slice before its start indices. */
enum { SLICE_OPERANDS = 1 };

/* Start indices: a scalar for each dimension, or (the old form) one vector. */
static bool check_starts(struct hlo_instr *instr, struct diag *diag, int first, int rank) {
    int count = instr->noperands - first;
    const struct shape *vector = count == 1 ? infer_operand(instr, first) : NULL;
    if (vector && vector->rank == 1 && vector->dims[0] == rank &&
        element_type_is_integral(vector->type))
        return true;
    if (count != rank) {
        diag_instr_error(diag, instr, "%d start indices given, %d expected", count, rank);
        return false;
    }
    for (int i = first; i < instr->noperands; i++) {
        const struct shape *start = infer_operand(instr, i);
        enum element_type type = infer_operand(instr, first)->type;
        if (shape_is_scalar(start) && element_type_is_integral(start->type) && start->type == type)
            continue;
        diag_instr_error(diag, instr,
                         "operand %d has shape %s, an integer scalar (the same for all indices) "
                         "expected",
                         i, infer_text(instr, start));
        return false;
    }
    return true;
}

const struct shape *infer_dynamic_slice(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    struct int_list sizes = instr_ints(instr, ATTR_DYNAMIC_SLICE_SIZES);
    if (!shape || !check_starts(instr, diag, SLICE_OPERANDS, shape->rank)) return NULL;
    if (sizes.count != shape->rank)
        return INFER_FAIL(instr, diag, "%d dynamic_slice_sizes given, %d expected", sizes.count,
                          shape->rank);
    for (int i = 0; i < shape->rank; i++)
        if (sizes.v[i] < 0 || sizes.v[i] > shape->dims[i])
            return INFER_FAIL(instr, diag,
                              "slice size %lld given for dimension %d, 0 to %lld "
                              "expected",
                              (long long)sizes.v[i], i, (long long)shape->dims[i]);
    return infer_array(instr, diag, shape->type, shape->rank, sizes.v);
}

const struct shape *infer_dynamic_update_slice(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    const struct shape *update = shape ? infer_array_operand(instr, diag, 1) : NULL;
    if (!update || !check_starts(instr, diag, SLICE_OPERANDS + 1, shape->rank)) return NULL;
    bool fits = update->type == shape->type && update->rank == shape->rank;
    for (int i = 0; fits && i < shape->rank; i++)
        fits = update->dims[i] <= shape->dims[i];
    if (!fits)
        return INFER_FAIL(instr, diag, "update of shape %s given, one that fits into %s expected",
                          infer_text(instr, update), infer_text(instr, shape));
    return shape;
}
