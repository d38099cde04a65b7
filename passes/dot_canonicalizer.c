/* Products in the form that backends do best: transposes of operands become dimension numbers, a
 * transposed result has the operands the other way round, and a convolution with a window of one
 * element is a dot. */
#include "passes/dot_sides.h"

const enum attr_key dot_contracting[2] = {ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS};
const enum attr_key dot_batch[2] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};

void dot_renumber(struct hlo_instr *dot, int side, const int64_t *order) {
    const enum attr_key keys[2] = {dot_contracting[side], dot_batch[side]};
    for (int k = 0; k < 2; k++) {
        struct int_list dims = instr_ints(dot, keys[k]);
        int64_t moved[SHAPE_MAX_RANK];
        for (int i = 0; i < dims.count; i++)
            moved[i] = order[dims.v[i]];
        if (dims.count > 0) instr_set_ints(dot, keys[k], dims.count, moved);
    }
}

bool dot_keeps_order(const struct hlo_instr *dot, int side, const int64_t *order) {
    struct int_list c = instr_ints(dot, dot_contracting[side]);
    struct int_list b = instr_ints(dot, dot_batch[side]);
    int64_t last = -1;
    for (int d = 0; d < dot->operands[side]->shape->rank; d++) {
        if (int_list_has(c, d) || int_list_has(b, d)) continue;
        if (order[d] < last) return false;
        last = order[d];
    }
    return true;
}

struct hlo_instr *dot_of_other(struct hlo_instr *dot, int side, struct hlo_instr *operand,
                               const int64_t *order) {
    struct hlo_instr *operands[2] = {dot->operands[0], dot->operands[1]};
    operands[side] = operand;
    struct hlo_instr *with = instr_clone(dot, dot->parent, dot, NULL, operands);
    dot_renumber(with, side, order);
    return with;
}

/* The dims that are neither batch nor contracted must keep their order. */
static struct hlo_instr *fold_transpose(struct pass_context *context, struct hlo_instr *dot) {
    if (dot->noperands != 2 || instr_attr(dot, ATTR_SPARSITY)) return NULL;
    for (int side = 0; side < 2; side++) {
        struct hlo_instr *transpose = dot->operands[side];
        if (transpose->opcode != OP_TRANSPOSE || shape_is_dynamic(transpose->shape)) continue;
        if (!shape_layout_is_default(transpose->shape) ||
            !shape_layout_is_default(transpose->operands[0]->shape))
            continue;
        struct int_list order = instr_ints(transpose, ATTR_DIMENSIONS);
        if (!dot_keeps_order(dot, side, order.v)) continue;
        MAY_REWRITE(context);
        return dot_of_other(dot, side, transpose->operands[0], order.v);
    }
    return NULL;
}

/* Batch dims first, then what the right side has of its own, then the left. */
static bool swaps_sides(const struct hlo_instr *transpose, const struct hlo_instr *dot) {
    struct int_list order = instr_ints(transpose, ATTR_DIMENSIONS);
    int batch = instr_ints(dot, ATTR_LHS_BATCH_DIMS).count;
    int left =
        dot->operands[0]->shape->rank - batch - instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS).count;
    int right = order.count - batch - left;
    for (int i = 0; i < batch; i++)
        if (order.v[i] != i) return false;
    for (int i = 0; i < right; i++)
        if (order.v[batch + i] != batch + left + i) return false;
    for (int i = 0; i < left; i++)
        if (order.v[batch + right + i] != batch + i) return false;
    return left > 0 && right > 0;
}

static void swap_dims(struct hlo_instr *dot, enum attr_key a, enum attr_key b) {
    struct int_list x = instr_ints(dot, a), y = instr_ints(dot, b);
    if (x.count > 0 || y.count > 0) {
        instr_set_ints(dot, a, y.count, y.v);
        instr_set_ints(dot, b, x.count, x.v);
    }
}

bool dot_may_swap(const struct hlo_instr *dot) {
    struct int_list precision = instr_ints(dot, ATTR_OPERAND_PRECISION);
    if (dot->opcode != OP_DOT || dot->noperands != 2 || !instr_has_one_user(dot) || dot->ncontrol ||
        instr_attr(dot, ATTR_SPARSITY) ||
        (precision.count == 2 && precision.v[0] != precision.v[1]))
        return false;
    return !shape_is_dynamic(dot->shape) && shape_layout_is_default(dot->shape);
}

struct hlo_instr *dot_swapped(struct hlo_instr *dot, struct hlo_instr *before,
                              const struct shape *shape) {
    struct hlo_instr *operands[2] = {dot->operands[1], dot->operands[0]};
    struct hlo_instr *with = instr_clone(dot, before->parent, before, shape, operands);
    swap_dims(with, ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS);
    swap_dims(with, ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS);
    return with;
}

static struct hlo_instr *transpose_of_dot(struct pass_context *context,
                                          struct hlo_instr *transpose) {
    struct hlo_instr *dot = transpose->operands[0];
    if (!dot_may_swap(dot) || !shape_layout_is_default(transpose->shape) ||
        !swaps_sides(transpose, dot))
        return NULL;
    MAY_REWRITE(context);
    return dot_swapped(dot, transpose, transpose->shape);
}

/* ---- convolutions ---- */

static bool window_is_one(const struct hlo_instr *convolution) {
    const struct window *window = instr_window(convolution);
    for (int i = 0; window && i < window->count; i++) {
        const struct window_dim *dim = &window->v[i];
        if (dim->size != 1 || dim->stride != 1 || dim->pad_low || dim->pad_high ||
            dim->lhs_dilate > 1)
            return false;
    }
    return true;
}

/* Batch, then space, then features; the kernel's features last, in first. */
static bool labels_are_plain(const struct dim_labels *labels) {
    int n = labels->spatial;
    if (labels->input_batch != 0 || labels->output_batch != 0) return false;
    if (labels->input_feature != n + 1 || labels->output_feature != n + 1) return false;
    if (labels->kernel_input != n || labels->kernel_output != n + 1) return false;
    for (int i = 0; i < n; i++)
        if (labels->input_spatial[i] != i + 1 || labels->output_spatial[i] != i + 1) return false;
    return true;
}

static struct hlo_instr *convolution_as_dot(struct pass_context *context,
                                            struct hlo_instr *convolution) {
    const struct hlo_attr *labels = instr_attr(convolution, ATTR_DIM_LABELS);
    struct hlo_instr *input = convolution->operands[0], *kernel = convolution->operands[1];
    struct shape_table *shapes = convolution->parent->module->shapes;
    if (!labels || !labels_are_plain(labels->dim_labels) || !window_is_one(convolution))
        return NULL;
    if (instr_int(convolution, ATTR_FEATURE_GROUP_COUNT, 1) != 1 ||
        instr_int(convolution, ATTR_BATCH_GROUP_COUNT, 1) != 1)
        return NULL;
    if (shape_is_dynamic(input->shape) || shape_is_dynamic(kernel->shape) ||
        !shape_layout_is_default(convolution->shape) || !shape_layout_is_default(input->shape) ||
        !shape_layout_is_default(kernel->shape))
        return NULL;
    MAY_REWRITE(context);
    int rank = kernel->shape->rank;
    const struct shape *matrix = shape_with_default_layouts(
        shapes, shape_array(shapes, kernel->shape->type, 2, kernel->shape->dims + rank - 2));
    struct hlo_instr *operands[2] = {input, rewrite_unary(convolution, OP_RESHAPE, matrix, kernel)};
    struct hlo_instr *dot =
        instr_new(convolution->parent, convolution, OP_DOT, convolution->shape, NULL, 2, operands);
    int64_t last = input->shape->rank - 1, first = 0;
    instr_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, 1, &last);
    instr_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, 1, &first);
    const struct hlo_attr *precision = instr_attr(convolution, ATTR_OPERAND_PRECISION);
    if (precision) instr_set_attr(dot, precision);
    dot->metadata = convolution->metadata;
    return dot;
}

static const struct rewrite rewrites[] = {
    {OP_DOT, fold_transpose},
    {OP_TRANSPOSE, transpose_of_dot},
    {OP_CONVOLUTION, convolution_as_dot},
};

bool dot_canonicalizer_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
