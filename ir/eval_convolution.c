/* Convolution in full generality: any number of spatial dimensions, strides, dilations of both
 * sides, reversal, negative padding, feature and batch groups. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"

/* Packed operands: input [batch][spatial][feature], kernel [spatial][in][out],
 * result [batch][spatial][feature]. */
struct convolution {
    int spatial;
    struct window_dim dim[SHAPE_MAX_RANK];
    int64_t in[SHAPE_MAX_RANK], window[SHAPE_MAX_RANK], out[SHAPE_MAX_RANK];
    int64_t batch, out_batch, features, depth, out_features;
    int64_t feature_groups, batch_groups;
    int lhs_order[SHAPE_MAX_RANK], rhs_order[SHAPE_MAX_RANK], out_order[SHAPE_MAX_RANK];
};

static bool is_dim(const struct shape *shape, int dim) {
    return dim >= 0 && dim < shape->rank;
}

static struct window_dim spatial_window(const struct hlo_instr *instr, int dim) {
    const struct window *window = instr_window(instr);
    struct window_dim w = {1, 1, 0, 0, 1, 1, false};

    if (window && dim < window->count) w = window->v[dim];
    if (w.stride < 1) w.stride = 1;
    if (w.lhs_dilate < 1) w.lhs_dilate = 1;
    if (w.rhs_dilate < 1) w.rhs_dilate = 1;
    return w;
}

static bool labels_fit(const struct dim_labels *l, const struct shape *lhs, const struct shape *rhs,
                       const struct shape *out) {
    if (lhs->rank != l->spatial + 2 || rhs->rank != l->spatial + 2 || out->rank != l->spatial + 2 ||
        !is_dim(lhs, l->input_batch) || !is_dim(lhs, l->input_feature) ||
        !is_dim(rhs, l->kernel_input) || !is_dim(rhs, l->kernel_output) ||
        !is_dim(out, l->output_batch) || !is_dim(out, l->output_feature))
        return false;
    for (int i = 0; i < l->spatial; i++)
        if (!is_dim(lhs, l->input_spatial[i]) || !is_dim(rhs, l->kernel_spatial[i]) ||
            !is_dim(out, l->output_spatial[i]))
            return false;
    return true;
}

static bool convolution_init(struct convolution *c, const struct hlo_instr *instr,
                             struct literal **ops) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_DIM_LABELS);
    const struct shape *lhs = ops[0]->shape, *rhs = ops[1]->shape, *out = instr->shape;
    const struct dim_labels *l = attr ? attr->dim_labels : NULL;
    int n;

    if (!l || !labels_fit(l, lhs, rhs, out)) return false;
    n = c->spatial = l->spatial;
    for (int i = 0; i < n; i++) {
        c->dim[i] = spatial_window(instr, i);
        c->lhs_order[1 + i] = l->input_spatial[i];
        c->rhs_order[i] = l->kernel_spatial[i];
        c->out_order[1 + i] = l->output_spatial[i];
        c->in[i] = lhs->dims[l->input_spatial[i]];
        c->window[i] = rhs->dims[l->kernel_spatial[i]];
        c->out[i] = out->dims[l->output_spatial[i]];
    }
    c->lhs_order[0] = l->input_batch;
    c->lhs_order[n + 1] = l->input_feature;
    c->rhs_order[n] = l->kernel_input;
    c->rhs_order[n + 1] = l->kernel_output;
    c->out_order[0] = l->output_batch;
    c->out_order[n + 1] = l->output_feature;
    c->batch = lhs->dims[l->input_batch];
    c->features = lhs->dims[l->input_feature];
    c->depth = rhs->dims[l->kernel_input];
    c->out_features = rhs->dims[l->kernel_output];
    c->out_batch = out->dims[l->output_batch];
    c->feature_groups = instr_int(instr, ATTR_FEATURE_GROUP_COUNT, 1);
    c->batch_groups = instr_int(instr, ATTR_BATCH_GROUP_COUNT, 1);
    return c->feature_groups >= 1 && c->batch_groups >= 1 && c->features % c->feature_groups == 0 &&
           c->features / c->feature_groups == c->depth &&
           c->out_features % c->feature_groups == 0 && c->out_features % c->batch_groups == 0 &&
           c->batch % c->batch_groups == 0 && c->batch / c->batch_groups == c->out_batch &&
           out->dims[l->output_feature] == c->out_features;
}

/* Flat spatial place in the input that a window element reads; -1 in padding and gaps. */
static int64_t input_place(const struct convolution *c, const int64_t *out,
                           const int64_t *position) {
    int64_t at = 0;

    for (int i = 0; i < c->spatial; i++) {
        const struct window_dim *d = &c->dim[i];
        int64_t x = out[i] * d->stride + position[i] * d->rhs_dilate - d->pad_low;

        if (x < 0 || x % d->lhs_dilate || (x /= d->lhs_dilate) >= c->in[i]) return -1;
        at = at * c->in[i] + x;
    }
    return at;
}

static int64_t kernel_place(const struct convolution *c, const int64_t *position) {
    int64_t at = 0;

    for (int i = 0; i < c->spatial; i++) {
        int64_t x = c->dim[i].reversed ? c->window[i] - 1 - position[i] : position[i];

        at = at * c->window[i] + x;
    }
    return at;
}

/* Adds what one window element contributes to the features of one output place. */
static void add_element(const struct convolution *c, struct product_kind kind, char *row,
                        const char *lhs, const char *rhs, int64_t batch, int64_t in_spatial,
                        int64_t place, int64_t kernel) {
    int64_t groups = c->feature_groups * c->batch_groups, width = c->out_features / groups;

    for (int64_t g = 0; g < groups; g++) {
        int64_t b = g % c->batch_groups * c->out_batch + batch;
        int64_t feature = g / c->batch_groups * c->depth;
        const char *x = lhs + ((b * in_spatial + place) * c->features + feature) * kind.size;
        const char *w = rhs + (kernel * c->depth * c->out_features + g * width) * kind.size;

        for (int64_t i = 0; i < c->depth; i++)
            kind.row(row + g * width * kind.size, x + i * kind.size,
                     w + i * c->out_features * kind.size, width);
    }
}

static bool convolve(struct eval *e, const struct hlo_instr *instr, const struct convolution *c,
                     struct product_kind kind, char *out, const char *lhs, const char *rhs) {
    int64_t index[SHAPE_MAX_RANK] = {0}, position[SHAPE_MAX_RANK] = {0}, in_spatial = 1, cells = 1;

    for (int i = 0; i < c->spatial; i++) {
        in_spatial *= c->in[i];
        cells *= c->window[i];
    }
    if (instr->shape->count == 0 || cells == 0) return true;
    for (int64_t batch = 0; batch < c->out_batch; batch++)
        do {
            if (!eval_charge(e, instr, cells)) return false;
            do {
                int64_t place = input_place(c, index, position);

                if (place >= 0)
                    add_element(c, kind, out, lhs, rhs, batch, in_spatial, place,
                                kernel_place(c, position));
            } while (index_next(c->spatial, c->window, position));
            out += c->out_features * kind.size;
        } while (index_next(c->spatial, c->out, index));
    return true;
}

/* Products of the operands' parts, smallest first. */
static bool convolve_parts(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                           const struct convolution *c, struct product_kind kind, char *out,
                           char *lhs, char *rhs) {
    enum product_parts parts = product_parts(e, instr, ops);
    int64_t nl = ops[0]->shape->count, nr = ops[1]->shape->count;
    char *low_l = NULL, *low_r = NULL;
    bool good = true;

    if (parts == PRODUCT_SPLIT) {
        low_l = eval_scratch(e, instr, nl, sizeof(float));
        low_r = eval_scratch(e, instr, nr, sizeof(float));
        good = low_l && low_r;
    }
    if (good && parts != PRODUCT_EXACT) {
        product_split((float *)lhs, (float *)low_l, nl);
        product_split((float *)rhs, (float *)low_r, nr);
    }
    if (good && low_l)
        good = convolve(e, instr, c, kind, out, low_l, rhs) &&
               convolve(e, instr, c, kind, out, lhs, low_r);
    good = good && convolve(e, instr, c, kind, out, lhs, rhs);
    free(low_l);
    free(low_r);
    return good;
}

/* From [batch][spatial][feature] to the order of the result's dimensions. */
static void unpack(const struct convolution *c, const struct shape *shape, struct product_kind kind,
                   char *to, const char *from) {
    int64_t strides[SHAPE_MAX_RANK], stride = 1;

    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[c->out_order[i]] = stride;
        stride *= shape->dims[c->out_order[i]];
    }
    strided_copy(to, from, kind.size, shape->rank, shape->dims, 0, strides);
}

struct literal *eval_convolution(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    struct product_kind kind =
        product_kind(ops[0]->shape->type, ops[1]->shape->type, instr->shape->type);
    struct convolution c = {0};
    char *lhs, *rhs, *sums, *ordered;
    struct literal *result = NULL;

    if (!convolution_init(&c, instr, ops))
        return eval_error(e, instr, "dimension labels, groups and shapes do not fit together");
    lhs = product_pack(e, instr, ops[0], kind, c.lhs_order);
    rhs = product_pack(e, instr, ops[1], kind, c.rhs_order);
    sums = eval_scratch(e, instr, instr->shape->count, (size_t)kind.size);
    ordered = eval_scratch(e, instr, instr->shape->count, (size_t)kind.size);
    if (lhs && rhs && sums && ordered && convolve_parts(e, instr, ops, &c, kind, sums, lhs, rhs))
        result = eval_new_uninit(e, instr, instr->shape);
    if (result) {
        unpack(&c, instr->shape, kind, ordered, sums);
        product_store(result, kind, ordered);
    }
    free(lhs);
    free(rhs);
    free(sums);
    free(ordered);
    return result;
}
