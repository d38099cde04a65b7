/* Shapes of map, scan, topk, fft and triangular-solve. */
#include <inttypes.h>

#include "ir/infer_internal.h"

const struct shape *infer_map(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0), *root = infer_root(instr, 0);
    const struct hlo_attr *dims = instr_attr(instr, ATTR_DIMENSIONS);

    if (!a) return NULL;
    for (int i = 1; i < instr->noperands; i++)
        if (!infer_same_dims(a, infer_operand(instr, i)))
            return INFER_FAIL(instr, diag, "operand %d is %s, expected the sizes of %s", i,
                              infer_text(instr, infer_operand(instr, i)), infer_text(instr, a));
    if (dims && dims->ints->count != a->rank)
        return INFER_FAIL(instr, diag, "%d dimensions given, all %d of %s expected",
                          dims->ints->count, a->rank, infer_text(instr, a));
    for (int i = 0; dims && i < a->rank; i++)
        if (dims->ints->v[i] != i)
            return INFER_FAIL(instr, diag,
                              "dimensions has %" PRId64 " at %d, %d expected (all in "
                              "order)",
                              dims->ints->v[i], i, i);
    if (!shape_is_scalar(root))
        return INFER_FAIL(instr, diag, "%s gives %s, a scalar expected", instr->called[0]->name,
                          infer_text(instr, root));
    return infer_array(instr, diag, root->type, a->rank, a->dims);
}

/* ---- scan: (slices, carries) to (slices of outputs, carries), along one dimension ---- */

static const struct shape *without_dim(struct hlo_instr *instr, struct diag *diag,
                                       const struct shape *shape, int64_t dim) {
    int64_t sizes[SHAPE_MAX_RANK];
    int rank = 0;

    for (int i = 0; i < shape->rank; i++)
        if (i != dim) sizes[rank++] = shape->dims[i];
    return infer_array(instr, diag, shape->type, rank, sizes);
}

/* Whether `slice` is a slice of one step: the dimension left out, or of size 1. */
static bool is_slice(const struct shape *slice, const struct shape *plain, int64_t dim) {
    if (!shape_is_array(slice) || slice->type != plain->type) return false;
    bool kept = slice->rank == plain->rank + 1;
    if (!kept && slice->rank != plain->rank) return false;
    for (int i = 0; i < slice->rank; i++) {
        int64_t size = kept && i == dim ? 1 : plain->dims[kept && i > dim ? i - 1 : i];
        if (slice->dims[i] != size) return false;
    }
    return true;
}

static bool scan_inputs(struct hlo_instr *instr, struct diag *diag, int inputs, int64_t dim) {
    const struct hlo_computation *body = instr->called[0];
    const struct shape *first = infer_operand(instr, 0);

    for (int i = 0; i < instr->noperands; i++) {
        const struct shape *a = infer_array_operand(instr, diag, i), *expected = a;
        const struct shape *given = body->parameters[i] ? body->parameters[i]->shape : NULL;

        if (!a) return false;
        if (i < inputs && (dim >= a->rank || a->dims[dim] != first->dims[dim])) {
            diag_instr_error(diag, instr,
                             "operand %d has shape %s, size %" PRId64 " of dimension %" PRId64
                             " expected",
                             i, infer_text(instr, a), first->dims[dim], dim);
            return false;
        }
        if (i < inputs) expected = without_dim(instr, diag, a, dim);
        if (!expected) return false;
        if (given && !(i < inputs ? is_slice(given, expected, dim) : infer_same(given, a))) {
            diag_instr_error(diag, instr, "parameter %d of %s has shape %s, %s expected", i,
                             body->name, infer_text(instr, given), infer_text(instr, expected));
            return false;
        }
    }
    return true;
}

/* The whole output of which the computation gives `element` a step: with the scanned dimension
 * put in, or (as written) in place of one of size 1. */
static const struct shape *scan_result(struct hlo_instr *instr, struct diag *diag,
                                       const struct shape *element, int64_t dim, int64_t length,
                                       const struct shape *written) {
    int64_t sizes[SHAPE_MAX_RANK + 1];
    int rank = 0;

    if (!shape_is_array(element) || dim > element->rank)
        return INFER_FAIL(instr, diag,
                          "%s gives %s, an array of rank %" PRId64 " or more "
                          "expected",
                          instr->called[0]->name, infer_text(instr, element), dim);
    bool kept = written && shape_is_array(written) && written->rank == element->rank &&
                dim < element->rank && element->dims[dim] == 1;
    for (int i = 0; i <= element->rank; i++) {
        if (i == dim) sizes[rank++] = length;
        if (i < element->rank && !(kept && i == dim)) sizes[rank++] = element->dims[i];
    }
    return infer_array(instr, diag, element->type, rank, sizes);
}

const struct shape *infer_scan(struct hlo_instr *instr, struct diag *diag) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *first = infer_array_operand(instr, diag, 0), *root = infer_root(instr, 0);
    const struct shape *written = instr->shape, **results;
    int64_t carries = instr_int(instr, ATTR_NUM_CARRIES, instr->noperands / 2);
    int count = shape_is_tuple(root) ? root->ntuple : 1;

    if (!first || !infer_check_dims(instr, diag, "dimensions", dims, first->rank) ||
        !infer_check_called(instr, diag, 0, instr->noperands, NULL))
        return NULL;
    if (dims.count != 1)
        return INFER_FAIL(instr, diag, "%d dimensions given, 1 expected", dims.count);
    if (carries < 0 || carries >= instr->noperands || carries > count)
        return INFER_FAIL(instr, diag,
                          "num_carries=%" PRId64 " given for %d operands and %d "
                          "results, fewer expected",
                          carries, instr->noperands, count);
    int inputs = instr->noperands - (int)carries, outputs = count - (int)carries;
    if (!scan_inputs(instr, diag, inputs, dims.v[0])) return NULL;
    results = arena_array(instr->parent->module->arena, (size_t)count + 1, sizeof *results);
    for (int i = 0; i < count; i++) {
        const struct shape *element = shape_is_tuple(root) ? root->tuple[i] : root;

        if (i >= outputs && !infer_same(element, infer_operand(instr, inputs + i - outputs)))
            return INFER_FAIL(instr, diag,
                              "element %d of the result of %s is %s, %s expected (its "
                              "carry)",
                              i, instr->called[0]->name, infer_text(instr, element),
                              infer_text(instr, infer_operand(instr, inputs + i - outputs)));
        const struct shape *part = !written || !shape_is_tuple(written) ? written
                                   : i < written->ntuple                ? written->tuple[i]
                                                                        : NULL;
        results[i] = i >= outputs ? element
                                  : scan_result(instr, diag, element, dims.v[0],
                                                first->dims[dims.v[0]], part);
        if (!results[i]) return NULL;
    }
    return shape_is_tuple(root) ? infer_tuple(instr, diag, count, results) : results[0];
}

/* ---- topk, fft, triangular-solve ---- */

const struct shape *infer_topk(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0), *results[2];
    int64_t k = instr_int(instr, ATTR_K, 0), sizes[SHAPE_MAX_RANK];

    if (!a) return NULL;
    if (a->rank < 1 || k < 0 || k > a->dims[a->rank - 1])
        return INFER_FAIL(instr, diag,
                          "k=%" PRId64 " given for operand %s, 0 to the size of its "
                          "last dimension expected",
                          k, infer_text(instr, a));
    for (int i = 0; i < a->rank; i++)
        sizes[i] = i == a->rank - 1 ? k : a->dims[i];
    results[0] = infer_array(instr, diag, a->type, a->rank, sizes);
    results[1] = infer_array(instr, diag, TYPE_S32, a->rank, sizes);
    return results[0] && results[1] ? infer_tuple(instr, diag, 2, results) : NULL;
}

const struct shape *infer_fft(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0);
    struct int_list lengths = instr_ints(instr, ATTR_FFT_LENGTH);
    int64_t word = instr_int(instr, ATTR_FFT_TYPE, 0), sizes[SHAPE_MAX_RANK], half;
    bool to_half = word == ENUM_FFT_TYPE_RFFT, from_half = word == ENUM_FFT_TYPE_IRFFT;
    enum element_type type;

    if (!a) return NULL;
    if (to_half ? a->type != TYPE_F32 && a->type != TYPE_F64 : !element_type_is_complex(a->type))
        return INFER_FAIL(instr, diag, "operand has shape %s, element type %s expected for %s",
                          infer_text(instr, a), to_half ? "f32 or f64" : "c64 or c128",
                          enum_word_name((int)word));
    if (lengths.count < 1 || lengths.count > 3 || lengths.count > a->rank)
        return INFER_FAIL(instr, diag,
                          "fft_length of %d sizes given for operand %s, 1 to 3 and at "
                          "most its rank expected",
                          lengths.count, infer_text(instr, a));
    for (int i = 0; i < a->rank; i++)
        sizes[i] = a->dims[i];
    half = lengths.v[lengths.count - 1] ? lengths.v[lengths.count - 1] / 2 + 1 : 0;
    for (int i = 0; i < lengths.count; i++) {
        int dim = a->rank - lengths.count + i;
        int64_t expected = from_half && i == lengths.count - 1 ? half : lengths.v[i];

        if (lengths.v[i] < 0 || a->dims[dim] != expected)
            return INFER_FAIL(instr, diag,
                              "fft_length %" PRId64 " given for dimension %d of %s, "
                              "size %" PRId64 " expected",
                              lengths.v[i], dim, infer_text(instr, a), expected);
    }
    if (to_half || from_half) sizes[a->rank - 1] = to_half ? half : lengths.v[lengths.count - 1];
    type = from_half             ? element_type_real_part(a->type)
           : a->type == TYPE_F32 ? TYPE_C64
           : a->type == TYPE_F64 ? TYPE_C128
                                 : a->type;
    return infer_array(instr, diag, type, a->rank, sizes);
}

const struct shape *infer_triangular_solve(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0);
    const struct shape *b = a ? infer_array_operand(instr, diag, 1) : NULL;
    bool left = instr_bool(instr, ATTR_LEFT_SIDE, false);

    if (!b || !infer_square_matrices(instr, diag, a)) return NULL;
    bool fits = b->type == a->type && b->rank == a->rank;
    for (int i = 0; fits && i < a->rank - 2; i++)
        fits = a->dims[i] == b->dims[i];
    if (!fits || b->dims[b->rank - (left ? 2 : 1)] != a->dims[a->rank - 1])
        return INFER_FAIL(instr, diag,
                          "operand 1 is %s, the type, batch and %s of operand 0, %s, "
                          "expected",
                          infer_text(instr, b), left ? "rows" : "columns", infer_text(instr, a));
    return b->plain;
}
