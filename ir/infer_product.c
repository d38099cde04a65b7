/* Shapes of products, of cholesky, and of reductions and sort. */
#include <inttypes.h>

#include "ir/infer_internal.h"

static bool side_dims(struct hlo_instr *instr, struct diag *diag, const struct shape *shape,
                      struct int_list batch, struct int_list contracting, uint64_t *used) {
    for (int i = 0; i < batch.count + contracting.count; i++) {
        int64_t dim = i < batch.count ? batch.v[i] : contracting.v[i - batch.count];

        if (dim < 0 || dim >= shape->rank || *used >> dim & 1) {
            diag_instr_error(diag, instr,
                             "dimension %" PRId64 " of an operand %s, expected "
                             "distinct ones below %d",
                             dim, infer_text(instr, shape), shape->rank);
            return false;
        }
        *used |= (uint64_t)1 << dim;
    }
    return true;
}

static bool sizes_match(struct hlo_instr *instr, struct diag *diag, struct int_list lhs,
                        struct int_list rhs) {
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;

    if (lhs.count != rhs.count) {
        diag_instr_error(diag, instr,
                         "%d dimensions on the left and %d on the right, expected "
                         "as many",
                         lhs.count, rhs.count);
        return false;
    }
    for (int i = 0; i < lhs.count; i++)
        if (a->dims[lhs.v[i]] != b->dims[rhs.v[i]]) {
            diag_instr_error(diag, instr,
                             "dimension %" PRId64 " of %s is paired with %" PRId64
                             " of %s, expected equal sizes",
                             lhs.v[i], infer_text(instr, a), rhs.v[i], infer_text(instr, b));
            return false;
        }
    return true;
}

/* Of two types the one with the higher rank holds their product, as in XLA: complex before float
 * before integer; floats by range and then precision, integers by width and then signed first. */
static int product_rank(enum element_type type) {
    static const enum element_type floats[] = {TYPE_F4E2M1FN,   TYPE_F8E3M4, TYPE_F8E4M3B11FNUZ,
                                               TYPE_F8E4M3FNUZ, TYPE_F8E4M3, TYPE_F8E4M3FN,
                                               TYPE_F8E5M2FNUZ, TYPE_F8E5M2, TYPE_F16,
                                               TYPE_F8E8M0FNU,  TYPE_BF16,   TYPE_F32,
                                               TYPE_F64};
    const struct element_type_info *info = element_type_info(type);

    if (info->kind == KIND_COMPLEX) return 2000 + info->bits;
    for (int i = 0; i < (int)(sizeof floats / sizeof *floats); i++)
        if (floats[i] == type) return 1000 + i;
    return 2 * info->bits + (info->kind == KIND_SIGNED);
}

/* The written type, where it can hold products of that kind: floats may be of any precision,
 * integers may become any type that is not narrower, complex numbers stay so. */
bool infer_product_type(struct hlo_instr *instr, struct diag *diag, enum element_type *result) {
    enum element_type a = infer_operand(instr, 0)->type, b = infer_operand(instr, 1)->type;
    enum element_type natural = product_rank(b) > product_rank(a) ? b : a;
    const struct element_type_info *from = element_type_info(natural), *to;
    bool fits;

    *result = natural;
    if (!instr->shape || !shape_is_array(instr->shape) || instr->shape->type == natural)
        return true;
    *result = instr->shape->type;
    to = element_type_info(*result);
    if (from->kind == KIND_FLOAT || from->kind == KIND_COMPLEX)
        fits = to->kind == from->kind;
    else
        fits = to->kind != KIND_PRED && to->kind != KIND_COMPLEX && to->bits >= from->bits;
    if (!fits)
        diag_instr_error(diag, instr,
                         "element type %s given for a product of %s and %s, %s or a "
                         "wider one expected",
                         element_type_name(*result), element_type_name(a), element_type_name(b),
                         element_type_name(natural));
    return fits;
}

const struct shape *infer_dot(struct hlo_instr *instr, struct diag *diag) {
    struct int_list lb = instr_ints(instr, ATTR_LHS_BATCH_DIMS);
    struct int_list rb = instr_ints(instr, ATTR_RHS_BATCH_DIMS);
    struct int_list lc = instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS);
    struct int_list rc = instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS);
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;
    int64_t sizes[2 * SHAPE_MAX_RANK];
    uint64_t a_used = 0, b_used = 0;
    enum element_type type;
    int rank = 0;

    if (!infer_array_operand(instr, diag, 0) || !infer_array_operand(instr, diag, 1) ||
        !side_dims(instr, diag, a, lb, lc, &a_used) ||
        !side_dims(instr, diag, b, rb, rc, &b_used) || !sizes_match(instr, diag, lb, rb) ||
        !infer_product_type(instr, diag, &type))
        return NULL;
    if (instr_attr(instr, ATTR_SPARSITY)) return infer_written(instr, diag);
    if (!sizes_match(instr, diag, lc, rc)) return NULL;
    for (int i = 0; i < lb.count; i++)
        sizes[rank++] = a->dims[lb.v[i]];
    for (int i = 0; i < a->rank; i++)
        if (!(a_used >> i & 1)) sizes[rank++] = a->dims[i];
    for (int i = 0; i < b->rank; i++)
        if (!(b_used >> i & 1)) sizes[rank++] = b->dims[i];
    return infer_array(instr, diag, type, rank, sizes);
}

/* What cholesky factors and triangular-solve divides by. */
bool infer_square_matrices(struct hlo_instr *instr, struct diag *diag, const struct shape *a) {
    if (a->rank >= 2 && a->dims[a->rank - 1] == a->dims[a->rank - 2] &&
        (element_type_is_float(a->type) || element_type_is_complex(a->type)))
        return true;
    diag_instr_error(diag, instr,
                     "operand 0 is %s, square matrices of floats or complex numbers expected",
                     infer_text(instr, a));
    return false;
}

const struct shape *infer_cholesky(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0);

    if (!a) return NULL;
    return infer_square_matrices(instr, diag, a) ? a->plain : NULL;
}

bool infer_same_sort(enum element_type a, enum element_type b) {
    return a == b || (element_type_is_float(a) && element_type_is_float(b));
}

/* The type that the called computation gives for operand `index`. */
enum element_type infer_reduced_type(const struct hlo_instr *instr, int index) {
    const struct shape *root = infer_root(instr, 0);

    return shape_is_tuple(root) ? root->tuple[index]->type : root->type;
}

/* n arrays of the same sizes, n scalars to start from, and a computation that gives n scalars. */
bool infer_reduced_operands(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *first = infer_operand(instr, 0), *root = infer_root(instr, 0);
    int count = instr->noperands / 2;

    if (instr->noperands % 2) {
        diag_instr_error(diag, instr, "%d operands given, an even number expected",
                         instr->noperands);
        return false;
    }
    if (shape_is_tuple(root) ? root->ntuple != count : count != 1) {
        diag_instr_error(diag, instr, "%s gives %s, %d scalars expected", instr->called[0]->name,
                         infer_text(instr, root), count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        const struct shape *a = infer_operand(instr, i), *start = infer_operand(instr, count + i);
        const struct shape *element = shape_is_tuple(root) ? root->tuple[i] : root;

        if (!infer_same_dims(a, first)) {
            diag_instr_error(diag, instr, "operand %d is %s, expected the sizes of %s", i,
                             infer_text(instr, a), infer_text(instr, first));
            return false;
        }
        if (!shape_is_scalar(start) || !infer_same_sort(start->type, a->type)) {
            diag_instr_error(diag, instr,
                             "the initial value has shape %s, %s[] expected (for "
                             "operand %d)",
                             infer_text(instr, start), element_type_name(a->type), i);
            return false;
        }
        if (!shape_is_scalar(element) || !infer_same_sort(element->type, a->type)) {
            diag_instr_error(diag, instr, "%s gives %s, %s[] expected (for operand %d)",
                             instr->called[0]->name, infer_text(instr, element),
                             element_type_name(a->type), i);
            return false;
        }
    }
    return true;
}

/* One result an operand pair: the arrays without the reduced dimensions. */
const struct shape *infer_reduce(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int count = instr->noperands / 2, rank = 0;
    const struct shape **results;
    int64_t sizes[SHAPE_MAX_RANK];

    if (!a || !infer_check_dims(instr, diag, "dimensions", dims, a->rank) ||
        !infer_reduced_operands(instr, diag))
        return NULL;
    for (int i = 0; i < a->rank; i++)
        if (!int_list_has(dims, i)) sizes[rank++] = a->dims[i];
    results = arena_array(instr->parent->module->arena, (size_t)count, sizeof *results);
    for (int i = 0; i < count; i++) {
        results[i] = infer_array(instr, diag, infer_reduced_type(instr, i), rank, sizes);
        if (!results[i]) return NULL;
    }
    return shape_is_tuple(infer_root(instr, 0)) ? infer_tuple(instr, diag, count, results)
                                                : results[0];
}

const struct shape *infer_sort(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0);
    const struct shape *order = infer_root(instr, 0), **results;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);

    if (!a || !infer_check_dims(instr, diag, "dimensions", dims, a->rank)) return NULL;
    if (dims.count != 1)
        return INFER_FAIL(instr, diag, "%d dimensions given, 1 expected", dims.count);
    if (!shape_is_scalar(order) || order->type != TYPE_PRED)
        return INFER_FAIL(instr, diag, "%s returns %s, expected pred[]", instr->called[0]->name,
                          infer_text(instr, order));
    results = arena_array(instr->parent->module->arena, (size_t)instr->noperands, sizeof *results);
    for (int i = 0; i < instr->noperands; i++) {
        results[i] = infer_operand(instr, i)->plain;
        if (!infer_same_dims(a, results[i]))
            return INFER_FAIL(instr, diag, "operand %d is %s, expected the sizes of %s", i,
                              infer_text(instr, results[i]), infer_text(instr, a));
    }
    if (instr->noperands == 1 && !(instr->shape && shape_is_tuple(instr->shape))) return a->plain;
    return infer_tuple(instr, diag, instr->noperands, results);
}
