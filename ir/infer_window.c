/* Shapes of operations that move a window: convolution, reduce-window, select-and-scatter. */
#include <inttypes.h>

#include "ir/infer_internal.h"

/* Size after dilation, (size - 1) * dilate + 1, or 0 for none; false where out of range. */
static bool dilated(int64_t size, int64_t dilate, int64_t *result) {
    *result = 0;
    return size == 0 || (!__builtin_mul_overflow(size - 1, dilate, result) &&
                         !__builtin_add_overflow(*result, 1, result));
}

static bool window_dim_good(struct hlo_instr *instr, struct diag *diag, int dim,
                            const struct window_dim *w) {
    const struct {
        const char *what;
        int64_t value;
    } fields[] = {{"size", w->size},
                  {"stride", w->stride},
                  {"lhs_dilate", w->lhs_dilate},
                  {"rhs_dilate", w->rhs_dilate}};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 1) {
            diag_instr_error(diag, instr,
                             "window dimension %d has %s %" PRId64 ", 1 or more "
                             "expected",
                             dim, fields[i].what, fields[i].value);
            return false;
        }
    return true;
}

bool infer_windowed(struct hlo_instr *instr, struct diag *diag, const struct window *window,
                    const int64_t *sizes, int64_t *result) {
    for (int i = 0; i < window->count; i++) {
        const struct window_dim *w = &window->v[i];
        int64_t base, extent;

        if (!window_dim_good(instr, diag, i, w)) return false;
        if (!dilated(sizes[i], w->lhs_dilate, &base) || !dilated(w->size, w->rhs_dilate, &extent) ||
            __builtin_add_overflow(base, w->pad_low, &base) ||
            __builtin_add_overflow(base, w->pad_high, &base) || base < 0) {
            diag_instr_error(diag, instr,
                             "window dimension %d with padding %" PRId64 "_%" PRId64
                             ", lhs_dilate %" PRId64 " and rhs_dilate %" PRId64
                             " given for size %" PRId64 ", padded sizes of 0 to 2^63 expected",
                             i, w->pad_low, w->pad_high, w->lhs_dilate, w->rhs_dilate, sizes[i]);
            return false;
        }
        result[i] = base == 0 || extent > base ? 0 : (base - extent) / w->stride + 1;
    }
    return true;
}

/* The window, with as many dimensions as the operand. */
static const struct window *window_of(struct hlo_instr *instr, struct diag *diag, int rank) {
    static const struct window none = {0, NULL};
    const struct window *window = instr_window(instr);

    if (!window) window = &none;
    if (window->count != rank)
        return INFER_FAIL(instr, diag, "window of %d dimensions given, %d expected", window->count,
                          rank);
    return window;
}

/* ---- convolution ---- */

/* Whether the two other dimensions and the spatial ones are all of a shape's, each once. */
static bool labels_good(struct hlo_instr *instr, struct diag *diag, const char *what,
                        const struct shape *shape, int rank, int first, int second,
                        const int *spatial) {
    uint64_t used = 0;

    if (shape && shape->rank != rank) {
        diag_instr_error(diag, instr, "the %s has shape %s, rank %d expected (from dim_labels)",
                         what, infer_text(instr, shape), rank);
        return false;
    }
    for (int i = 0; i < rank; i++) {
        int dim = i == 0 ? first : i == 1 ? second : spatial[i - 2];

        if (dim < 0 || dim >= rank || used >> dim & 1) {
            diag_instr_error(diag, instr,
                             "dim_labels names dimension %d of the %s, each of 0 to "
                             "%d once expected",
                             dim, what, rank - 1);
            return false;
        }
        used |= (uint64_t)1 << dim;
    }
    return true;
}

static bool all_labels_good(struct hlo_instr *instr, struct diag *diag,
                            const struct dim_labels *l) {
    int rank = l->spatial + 2;

    if (rank > SHAPE_MAX_RANK) {
        diag_instr_error(diag, instr, "dim_labels with %d dimensions given, at most %d expected",
                         rank, SHAPE_MAX_RANK);
        return false;
    }
    return labels_good(instr, diag, "input", infer_operand(instr, 0), rank, l->input_batch,
                       l->input_feature, l->input_spatial) &&
           labels_good(instr, diag, "kernel", infer_operand(instr, 1), rank, l->kernel_input,
                       l->kernel_output, l->kernel_spatial) &&
           labels_good(instr, diag, "result", NULL, rank, l->output_batch, l->output_feature,
                       l->output_spatial);
}

static bool groups_good(struct hlo_instr *instr, struct diag *diag, const struct dim_labels *l,
                        int64_t features, int64_t batches) {
    const struct shape *in = infer_operand(instr, 0), *kernel = infer_operand(instr, 1);
    int64_t batch = in->dims[l->input_batch], feature = in->dims[l->input_feature];
    int64_t depth = kernel->dims[l->kernel_input], out = kernel->dims[l->kernel_output];

    if (features < 1 || batches < 1 || (features > 1 && batches > 1))
        return INFER_FAIL(instr, diag,
                          "feature_group_count=%" PRId64 " and batch_group_count=%" PRId64
                          " given, 1 or more and one of them 1 expected",
                          features, batches) != NULL;
    if (feature % features || feature / features != depth)
        return INFER_FAIL(instr, diag,
                          "%" PRId64 " input features and kernel input features %" PRId64
                          " given, the former %" PRId64 " (feature_group_count) times the "
                          "latter expected",
                          feature, depth, features) != NULL;
    if (out % features || out % batches || batch % batches)
        return INFER_FAIL(instr, diag,
                          "%" PRId64 " output features and batch %" PRId64 " given, "
                          "multiples of the group count %" PRId64 " expected",
                          out, batch, features > batches ? features : batches) != NULL;
    return true;
}

const struct shape *infer_convolution(struct hlo_instr *instr, struct diag *diag) {
    const struct dim_labels *l = instr_attr(instr, ATTR_DIM_LABELS)->dim_labels;
    const struct shape *in = infer_array_operand(instr, diag, 0);
    const struct shape *kernel = in ? infer_array_operand(instr, diag, 1) : NULL;
    int64_t bases[SHAPE_MAX_RANK], after[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK];
    int64_t features = instr_int(instr, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batches = instr_int(instr, ATTR_BATCH_GROUP_COUNT, 1);
    enum element_type type;

    if (!kernel || !all_labels_good(instr, diag, l) ||
        !groups_good(instr, diag, l, features, batches) || !infer_product_type(instr, diag, &type))
        return NULL;
    const struct window *window = window_of(instr, diag, l->spatial);
    if (!window) return NULL;
    for (int i = 0; i < l->spatial; i++) {
        int64_t size = kernel->dims[l->kernel_spatial[i]];

        if (window->v[i].size != size)
            return INFER_FAIL(instr, diag,
                              "window dimension %d has size %" PRId64 ", %" PRId64
                              " expected (that of the kernel %s)",
                              i, window->v[i].size, size, infer_text(instr, kernel));
        bases[i] = in->dims[l->input_spatial[i]];
    }
    if (!infer_windowed(instr, diag, window, bases, after)) return NULL;
    sizes[l->output_batch] = in->dims[l->input_batch] / batches;
    sizes[l->output_feature] = kernel->dims[l->kernel_output];
    for (int i = 0; i < l->spatial; i++)
        sizes[l->output_spatial[i]] = after[i];
    return infer_array(instr, diag, type, l->spatial + 2, sizes);
}

/* ---- reduce-window ---- */

const struct shape *infer_reduce_window(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *first = infer_array_operand(instr, diag, 0);
    const struct shape **results;
    int64_t sizes[SHAPE_MAX_RANK];
    int count = instr->noperands / 2;

    if (!first || !infer_reduced_operands(instr, diag)) return NULL;
    const struct window *window = window_of(instr, diag, first->rank);
    if (!window || !infer_windowed(instr, diag, window, first->dims, sizes)) return NULL;
    results = arena_array(instr->parent->module->arena, (size_t)count, sizeof *results);
    for (int i = 0; i < count; i++) {
        results[i] = infer_array(instr, diag, infer_reduced_type(instr, i), first->rank, sizes);
        if (!results[i]) return NULL;
    }
    return shape_is_tuple(infer_root(instr, 0)) ? infer_tuple(instr, diag, count, results)
                                                : results[0];
}

/* ---- select-and-scatter ---- */

const struct shape *infer_select_and_scatter(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *a = infer_array_operand(instr, diag, 0);
    const struct shape *source = a ? infer_array_operand(instr, diag, 1) : NULL;
    const struct shape *initial = infer_operand(instr, 2), *expected;
    const struct window *window = source ? window_of(instr, diag, a->rank) : NULL;
    int64_t sizes[SHAPE_MAX_RANK];

    if (!window || !infer_windowed(instr, diag, window, a->dims, sizes)) return NULL;
    expected = infer_array(instr, diag, a->type, a->rank, sizes);
    if (!expected) return NULL;
    if (!infer_same(source, expected))
        return INFER_FAIL(instr, diag, "source has shape %s, %s expected (one element a window)",
                          infer_text(instr, source), infer_text(instr, expected));
    if (!shape_is_scalar(initial) || initial->type != a->type)
        return INFER_FAIL(instr, diag, "the initial value has shape %s, %s[] expected",
                          infer_text(instr, initial), element_type_name(a->type));
    return a->plain;
}
