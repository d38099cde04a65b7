/* Shapes of operations that move elements. */
#include <inttypes.h>

#include "ir/infer_internal.h"

/* Distinct dimensions in 0..rank-1. */
static bool dims_valid(struct hlo_instr *instr, struct diag *diag, struct int_list dims, int rank)
{
    uint64_t seen = 0;

    for (int i = 0; i < dims.count; i++) {
        if (dims.v[i] < 0 || dims.v[i] >= rank || seen >> dims.v[i] & 1) {
            diag_instr_error(diag, instr,
                             "dimension %" PRId64 " in dimensions, expected distinct ones below %d",
                             dims.v[i], rank);
            return false;
        }
        seen |= (uint64_t)1 << dims.v[i];
    }
    return true;
}

static bool count_is(struct hlo_instr *instr, struct diag *diag, const char *what, int count,
                     int expected)
{
    if (count == expected)
        return true;
    diag_instr_error(diag, instr, "%s has %d entries, expected %d", what, count, expected);
    return false;
}

const struct shape *infer_reverse(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;

    if (!infer_needs_array(instr, diag, 0) ||
        !dims_valid(instr, diag, instr_ints(instr, ATTR_DIMENSIONS), a->rank))
        return NULL;
    return a->plain;
}

const struct shape *infer_transpose(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t sizes[SHAPE_MAX_RANK];
    bool dynamic[SHAPE_MAX_RANK];

    if (!infer_needs_array(instr, diag, 0) ||
        !count_is(instr, diag, "dimensions", dims.count, a->rank) ||
        !dims_valid(instr, diag, dims, a->rank))
        return NULL;
    for (int i = 0; i < a->rank; i++) {
        sizes[i] = a->dims[dims.v[i]];
        dynamic[i] = a->dynamic && a->dynamic[dims.v[i]];
    }
    return infer_array(instr, diag, a->type, a->rank, sizes, a->dynamic ? dynamic : NULL);
}

const struct shape *infer_broadcast(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape, *out = instr->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);

    if (!out) {
        diag_instr_error(diag, instr, "its result shape cannot be inferred: it must be written");
        return NULL;
    }
    if (!infer_needs_array(instr, diag, 0) ||
        !count_is(instr, diag, "dimensions", dims.count, a->rank) ||
        !dims_valid(instr, diag, dims, out->rank))
        return NULL;
    if (out->type != a->type) {
        diag_instr_error(diag, instr, "result is %s, expected element type %s",
                         infer_text(instr, out), element_type_name(a->type));
        return NULL;
    }
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != out->dims[dims.v[i]]) {
            diag_instr_error(diag, instr,
                             "operand dimension %d has size %" PRId64 ", expected %" PRId64
                             " as in result dimension %" PRId64, i, a->dims[i],
                             out->dims[dims.v[i]], dims.v[i]);
            return NULL;
        }
    return out;
}

const struct shape *infer_slice(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    const struct hlo_attr *attr = instr_attr(instr, ATTR_SLICE);
    int64_t sizes[SHAPE_MAX_RANK];

    if (!infer_needs_array(instr, diag, 0) ||
        !count_is(instr, diag, "slice", attr ? attr->slices->count : 0, a->rank))
        return NULL;
    for (int i = 0; i < a->rank; i++) {
        const struct slice_dim *d = &attr->slices->v[i];

        if (d->start < 0 || d->limit < d->start || d->limit > a->dims[i] || d->stride < 1) {
            diag_instr_error(diag, instr,
                             "slice [%" PRId64 ":%" PRId64 ":%" PRId64
                             "] of dimension %d, expected bounds within 0 and %" PRId64
                             " and a positive stride", d->start, d->limit, d->stride, i,
                             a->dims[i]);
            return NULL;
        }
        sizes[i] = d->limit == d->start ? 0 : (d->limit - d->start - 1) / d->stride + 1;
    }
    return infer_array(instr, diag, a->type, a->rank, sizes, a->dynamic);
}

/* Size after padding, or -1 where it is negative or overflows. */
static int64_t padded(int64_t size, const struct padding_dim *d)
{
    int64_t inner = 0;

    if (d->interior < 0 || (size > 1 && __builtin_mul_overflow(size - 1, d->interior, &inner)) ||
        __builtin_add_overflow(inner, size, &inner) ||
        __builtin_add_overflow(inner, d->low, &inner) ||
        __builtin_add_overflow(inner, d->high, &inner))
        return -1;
    return inner;
}

const struct shape *infer_pad(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape, *value = instr->operands[1]->shape;
    const struct hlo_attr *attr = instr_attr(instr, ATTR_PADDING);
    int64_t sizes[SHAPE_MAX_RANK];

    if (!infer_needs_array(instr, diag, 0))
        return NULL;
    if (!shape_is_scalar(value)) {
        diag_instr_error(diag, instr, "operand 1 is %s, expected a scalar",
                         infer_text(instr, value));
        return NULL;
    }
    if (!attr || (a->rank && !count_is(instr, diag, "padding", attr->padding->count, a->rank)))
        return attr ? NULL : a->plain;
    for (int i = 0; i < a->rank; i++) {
        sizes[i] = padded(a->dims[i], &attr->padding->v[i]);
        if (sizes[i] < 0) {
            diag_instr_error(diag, instr, "padding makes the size of dimension %d negative, or "
                             "too large", i);
            return NULL;
        }
    }
    return infer_array(instr, diag, a->type, a->rank, sizes, a->dynamic);
}

const struct shape *infer_concatenate(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t sizes[SHAPE_MAX_RANK];

    if (!infer_needs_array(instr, diag, 0) ||
        !count_is(instr, diag, "dimensions", dims.count, 1) ||
        !dims_valid(instr, diag, dims, a->rank))
        return NULL;
    for (int i = 0; i < a->rank; i++)
        sizes[i] = a->dims[i];
    for (int k = 1; k < instr->noperands; k++) {
        const struct shape *b = instr->operands[k]->shape;
        bool fits = shape_is_array(b) && b->rank == a->rank && b->type == a->type;

        for (int i = 0; fits && i < a->rank; i++)
            fits = i == dims.v[0] || b->dims[i] == a->dims[i];
        if (!fits || __builtin_add_overflow(sizes[dims.v[0]], b->dims[dims.v[0]],
                                            &sizes[dims.v[0]])) {
            diag_instr_error(diag, instr,
                             "operand %d is %s, expected %s but for dimension %" PRId64, k,
                             infer_text(instr, b), infer_text(instr, a), dims.v[0]);
            return NULL;
        }
    }
    return infer_array(instr, diag, a->type, a->rank, sizes, a->dynamic);
}

const struct shape *infer_dynamic_slice(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    struct int_list sizes = instr_ints(instr, ATTR_DYNAMIC_SLICE_SIZES);

    if (!infer_needs_array(instr, diag, 0) ||
        !count_is(instr, diag, "dynamic_slice_sizes", sizes.count, a->rank))
        return NULL;
    for (int i = 0; i < a->rank; i++)
        if (sizes.v[i] < 0 || sizes.v[i] > a->dims[i]) {
            diag_instr_error(diag, instr, "slice size %" PRId64 " in dimension %d, expected at "
                             "most %" PRId64, sizes.v[i], i, a->dims[i]);
            return NULL;
        }
    return infer_array(instr, diag, a->type, a->rank, sizes.v, a->dynamic);
}

const struct shape *infer_dynamic_update_slice(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;
    bool fits = shape_is_array(a) && shape_is_array(b) && a->rank == b->rank;

    for (int i = 0; fits && i < a->rank; i++)
        fits = b->dims[i] <= a->dims[i];
    if (fits)
        return a->plain;
    diag_instr_error(diag, instr, "the update is %s, expected an array that fits in %s",
                     infer_text(instr, b), infer_text(instr, a));
    return NULL;
}
