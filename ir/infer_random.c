/* Shapes of ragged-dot, batch norms and random numbers. */
#include <inttypes.h>

#include "ir/infer_internal.h"

/* ---- batch normalization: one mean, variance, ... a feature ---- */

const struct shape *infer_batch_norm(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0), *feature;
    int64_t dim = instr_int(instr, ATTR_FEATURE_INDEX, -1);
    int vectors = instr->opcode == OP_BATCH_NORM_INFERENCE ? 5
                  : instr->opcode == OP_BATCH_NORM_GRAD    ? 4
                                                           : 3;

    if (!a) return NULL;
    if (!element_type_is_float(a->type))
        return INFER_FAIL(instr, diag, "operand 0 is %s, an array of floats expected",
                          infer_text(instr, a));
    if (dim < 0 || dim >= a->rank)
        return INFER_FAIL(instr, diag,
                          "feature_index=%" PRId64 " given, a dimension of %s "
                          "expected",
                          dim, infer_text(instr, a));
    feature = infer_array(instr, diag, a->type, 1, &a->dims[dim]);
    if (!feature) return NULL;
    for (int i = 1; i < instr->noperands; i++) {
        const struct shape *expected = i < vectors ? feature : a;
        const struct shape *given = infer_operand(instr, i);

        if (!infer_same_dims(given, expected) || !element_type_is_float(given->type))
            return INFER_FAIL(instr, diag, "operand %d is %s, %s expected", i,
                              infer_text(instr, given), infer_text(instr, expected));
    }
    const struct shape *results[3] = {a->plain, feature, feature};
    return instr->opcode == OP_BATCH_NORM_INFERENCE ? a->plain
                                                    : infer_tuple(instr, diag, 3, results);
}

/* ---- random numbers: the program says of which shape ---- */

const struct shape *infer_rng(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *result = infer_written(instr, diag);
    bool normal = instr_int(instr, ATTR_DISTRIBUTION, 0) == ENUM_DISTRIBUTION_NORMAL;

    if (!result) return NULL;
    if (!shape_is_array(result) || element_type_is_complex(result->type) ||
        (normal && !element_type_is_float(result->type)))
        return INFER_FAIL(instr, diag, "result %s given, an array of %s expected",
                          infer_text(instr, result), normal ? "floats" : "numbers");
    for (int i = 0; i < 2; i++)
        if (!shape_is_scalar(infer_operand(instr, i)) ||
            infer_operand(instr, i)->type != result->type)
            return INFER_FAIL(instr, diag, "operand %d is %s, %s[] expected", i,
                              infer_text(instr, infer_operand(instr, i)),
                              element_type_name(result->type));
    return result;
}

const struct shape *infer_rng_bit_generator(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *state = infer_array_operand(instr, diag, 0);
    const struct shape *result = state ? infer_written(instr, diag) : NULL;

    if (!result) return NULL;
    if (!element_type_is_integral(state->type))
        return INFER_FAIL(instr, diag, "the state is %s, an array of integers expected",
                          infer_text(instr, state));
    if (!shape_is_tuple(result) || result->ntuple != 2 || !infer_same(result->tuple[0], state) ||
        !shape_is_array(result->tuple[1]) || element_type_is_complex(result->tuple[1]->type) ||
        result->tuple[1]->type == TYPE_PRED)
        return INFER_FAIL(instr, diag,
                          "result %s given, a tuple of the state %s and an array of "
                          "numbers expected",
                          infer_text(instr, result), infer_text(instr, state));
    return result;
}

const struct shape *infer_rng_state(struct hlo_instr *instr, struct diag *diag) {
    const int64_t size = 2;

    return infer_array(instr, diag, TYPE_U64, 1, &size);
}

/* ---- ragged-dot: rows of one dimension go in groups, each with its own right side ---- */

struct ragged {
    struct int_list lb, rb, lc, rc, group;
    int64_t dim;
    const struct shape *a, *b, *sizes;
};

static bool ragged_pairs(struct hlo_instr *instr, struct diag *diag, const struct ragged *r,
                         struct int_list lhs, struct int_list rhs) {
    if (lhs.count != rhs.count) {
        diag_instr_error(diag, instr,
                         "%d dimensions on the left and %d on the right, expected as "
                         "many",
                         lhs.count, rhs.count);
        return false;
    }
    for (int i = 0; i < lhs.count; i++)
        if (r->a->dims[lhs.v[i]] != r->b->dims[rhs.v[i]]) {
            diag_instr_error(diag, instr,
                             "dimension %" PRId64 " of %s is paired with %" PRId64
                             " of %s, expected equal sizes",
                             lhs.v[i], infer_text(instr, r->a), rhs.v[i], infer_text(instr, r->b));
            return false;
        }
    return true;
}

static bool ragged_dims(struct hlo_instr *instr, struct diag *diag, const struct ragged *r) {
    if (!infer_check_dims(instr, diag, "lhs_batch_dims", r->lb, r->a->rank) ||
        !infer_check_dims(instr, diag, "lhs_contracting_dims", r->lc, r->a->rank) ||
        !infer_check_dims(instr, diag, "rhs_batch_dims", r->rb, r->b->rank) ||
        !infer_check_dims(instr, diag, "rhs_contracting_dims", r->rc, r->b->rank) ||
        !infer_check_dims(instr, diag, "rhs_group_dims", r->group, r->b->rank))
        return false;
    for (int i = 0; i < r->lc.count; i++)
        if (int_list_has(r->lb, r->lc.v[i])) {
            diag_instr_error(diag, instr,
                             "lhs_contracting_dims has %" PRId64 ", one outside of "
                             "lhs_batch_dims expected",
                             r->lc.v[i]);
            return false;
        }
    for (int i = 0; i < r->b->rank; i++)
        if (int_list_has(r->rc, i) + int_list_has(r->rb, i) + int_list_has(r->group, i) > 1) {
            diag_instr_error(diag, instr,
                             "dimension %d of the right side named twice, once "
                             "expected of batch, contracting and group",
                             i);
            return false;
        }
    return ragged_pairs(instr, diag, r, r->lb, r->rb) && ragged_pairs(instr, diag, r, r->lc, r->rc);
}

const struct shape *infer_ragged_dot(struct hlo_instr *instr, struct diag *diag) {
    struct int_list ragged = instr_ints(instr, ATTR_LHS_RAGGED_DIMS);
    struct ragged r = {instr_ints(instr, ATTR_LHS_BATCH_DIMS),
                       instr_ints(instr, ATTR_RHS_BATCH_DIMS),
                       instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS),
                       instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS),
                       instr_ints(instr, ATTR_RHS_GROUP_DIMS),
                       0,
                       infer_array_operand(instr, diag, 0),
                       NULL,
                       NULL};
    int64_t sizes[2 * SHAPE_MAX_RANK + 1], groups;
    enum element_type type;
    int rank = 0;

    r.b = r.a ? infer_array_operand(instr, diag, 1) : NULL;
    r.sizes = r.b ? infer_array_operand(instr, diag, 2) : NULL;
    if (!r.sizes || !ragged_dims(instr, diag, &r) ||
        !infer_check_dims(instr, diag, "lhs_ragged_dims", ragged, r.a->rank) ||
        !infer_product_type(instr, diag, &type))
        return NULL;
    if (ragged.count != 1)
        return INFER_FAIL(instr, diag, "%d lhs_ragged_dims given, 1 expected", ragged.count);
    r.dim = ragged.v[0];
    bool contracting = int_list_has(r.lc, r.dim), batch = int_list_has(r.lb, r.dim);
    if (r.group.count != (contracting || batch ? 0 : 1))
        return INFER_FAIL(instr, diag, "%d rhs_group_dims given, %d expected", r.group.count,
                          contracting || batch ? 0 : 1);
    if (r.sizes->rank < 1 || !element_type_is_integral(r.sizes->type))
        return INFER_FAIL(instr, diag, "group sizes %s given, an array of integers expected",
                          infer_text(instr, r.sizes));
    groups = r.sizes->dims[r.sizes->rank - 1];
    if (r.group.count && r.b->dims[r.group.v[0]] != groups)
        return INFER_FAIL(instr, diag,
                          "%" PRId64 " group sizes given, %" PRId64 " expected (of "
                          "%s)",
                          groups, r.b->dims[r.group.v[0]], infer_text(instr, r.b));
    if (contracting) sizes[rank++] = groups;
    for (int i = 0; i < r.lb.count; i++)
        sizes[rank++] = r.a->dims[r.lb.v[i]];
    for (int i = 0; i < r.a->rank; i++)
        if (!int_list_has(r.lb, i) && !int_list_has(r.lc, i)) sizes[rank++] = r.a->dims[i];
    for (int i = 0; i < r.b->rank; i++)
        if (!int_list_has(r.rb, i) && !int_list_has(r.rc, i) && !int_list_has(r.group, i))
            sizes[rank++] = r.b->dims[i];
    return infer_array(instr, diag, type, rank, sizes);
}
