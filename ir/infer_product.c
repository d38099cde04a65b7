/* Shapes of products, and of operations whose written shape is taken. */
#include <inttypes.h>

#include "ir/infer_internal.h"

static bool side_dims(struct hlo_instr *instr, struct diag *diag, const struct shape *shape,
                      struct int_list batch, struct int_list contracting, uint64_t *used)
{
    for (int i = 0; i < batch.count + contracting.count; i++) {
        int64_t dim = i < batch.count ? batch.v[i] : contracting.v[i - batch.count];

        if (dim < 0 || dim >= shape->rank || *used >> dim & 1) {
            diag_instr_error(diag, instr, "dimension %" PRId64 " of an operand %s, expected "
                             "distinct ones below %d", dim, infer_text(instr, shape),
                             shape->rank);
            return false;
        }
        *used |= (uint64_t)1 << dim;
    }
    return true;
}

static bool sizes_match(struct hlo_instr *instr, struct diag *diag, struct int_list lhs,
                        struct int_list rhs)
{
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;

    if (lhs.count != rhs.count) {
        diag_instr_error(diag, instr, "%d dimensions on the left and %d on the right, expected "
                         "as many", lhs.count, rhs.count);
        return false;
    }
    for (int i = 0; i < lhs.count; i++)
        if (a->dims[lhs.v[i]] != b->dims[rhs.v[i]]) {
            diag_instr_error(diag, instr, "dimension %" PRId64 " of %s is paired with %" PRId64
                             " of %s, expected equal sizes", lhs.v[i], infer_text(instr, a),
                             rhs.v[i], infer_text(instr, b));
            return false;
        }
    return true;
}

const struct shape *infer_dot(struct hlo_instr *instr, struct diag *diag)
{
    struct int_list lb = instr_ints(instr, ATTR_LHS_BATCH_DIMS);
    struct int_list rb = instr_ints(instr, ATTR_RHS_BATCH_DIMS);
    struct int_list lc = instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS);
    struct int_list rc = instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS);
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;
    int64_t sizes[2 * SHAPE_MAX_RANK];
    uint64_t a_used = 0, b_used = 0;
    int rank = 0;

    if (!infer_array_operand(instr, diag, 0) || !infer_array_operand(instr, diag, 1) ||
        !side_dims(instr, diag, a, lb, lc, &a_used) ||
        !side_dims(instr, diag, b, rb, rc, &b_used) || !sizes_match(instr, diag, lb, rb) ||
        !sizes_match(instr, diag, lc, rc))
        return NULL;
    if (instr_attr(instr, ATTR_SPARSITY))
        return instr->shape;
    for (int i = 0; i < lb.count; i++)
        sizes[rank++] = a->dims[lb.v[i]];
    for (int i = 0; i < a->rank; i++)
        if (!(a_used >> i & 1))
            sizes[rank++] = a->dims[i];
    for (int i = 0; i < b->rank; i++)
        if (!(b_used >> i & 1))
            sizes[rank++] = b->dims[i];
    return infer_array(instr, diag, instr->shape ? instr->shape->type : a->type, rank, sizes);
}

const struct shape *infer_cholesky(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = infer_array_operand(instr, diag, 0);

    if (!a)
        return NULL;
    if (a->rank < 2 || a->dims[a->rank - 1] != a->dims[a->rank - 2])
        return INFER_FAIL(instr, diag, "operand 0 is %s, expected square matrices",
                          infer_text(instr, a));
    return a->plain;
}

const struct shape *infer_map(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_ragged_dot(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_convolution(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_reduce_window(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_select_and_scatter(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_scan(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_topk(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_fft(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_triangular_solve(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_batch_norm(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_rng(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

const struct shape *infer_rng_bit_generator(struct hlo_instr *instr, struct diag *diag)
{
    return infer_written(instr, diag);
}

/* One result an operand pair: the arrays without the reduced dimensions. */
const struct shape *infer_reduce(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = infer_array_operand(instr, diag, 0);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *result = infer_written(instr, diag);
    int64_t sizes[SHAPE_MAX_RANK];
    int rank = 0;

    if (!a || !result || !infer_check_dims(instr, diag, "dimensions", dims, a->rank))
        return NULL;
    if (instr->noperands % 2)
        return INFER_FAIL(instr, diag, "has %d operands, expected an even number",
                          instr->noperands);
    for (int i = 0; i < a->rank; i++)
        if (!infer_contains(dims, i))
            sizes[rank++] = a->dims[i];
    if (instr->noperands == 2)
        return infer_array(instr, diag, a->type, rank, sizes);
    for (int i = 1; i < instr->noperands / 2; i++)
        if (!infer_same_dims(a, infer_operand(instr, i)))
            return INFER_FAIL(instr, diag, "operand %d is %s, expected the sizes of %s", i,
                              infer_text(instr, infer_operand(instr, i)), infer_text(instr, a));
    if (!shape_is_tuple(result) || result->ntuple != instr->noperands / 2)
        return INFER_FAIL(instr, diag, "result is %s, expected a tuple of %d",
                          infer_text(instr, result), instr->noperands / 2);
    return result;
}

const struct shape *infer_sort(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = infer_array_operand(instr, diag, 0);
    const struct shape *order = infer_root(instr, 0);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);

    if (!a || !infer_check_dims(instr, diag, "dimensions", dims, a->rank))
        return NULL;
    if (order && (!shape_is_scalar(order) || order->type != TYPE_PRED))
        return INFER_FAIL(instr, diag, "%s returns %s, expected pred[]", instr->called[0]->name,
                          infer_text(instr, order));
    for (int i = 1; i < instr->noperands; i++)
        if (!infer_same_dims(a, infer_operand(instr, i)))
            return INFER_FAIL(instr, diag, "operand %d is %s, expected the sizes of %s", i,
                              infer_text(instr, infer_operand(instr, i)), infer_text(instr, a));
    return instr->noperands == 1 ? a->plain : infer_written(instr, diag);
}
