/* Which element of a dot or convolution is which of a matrix product. */
#include "backend/tpu/product.h"

enum { MOST_GROUPS = 16 };

static struct int_list contracting(const struct hlo_instr *dot, int operand) {
    return instr_ints(dot, operand ? ATTR_RHS_CONTRACTING_DIMS : ATTR_LHS_CONTRACTING_DIMS);
}

static struct int_list batch_dims(const struct hlo_instr *dot, int operand) {
    return instr_ints(dot, operand ? ATTR_RHS_BATCH_DIMS : ATTR_LHS_BATCH_DIMS);
}

int product_operand(const struct product *p, int free) {
    return (free == AXIS_N) != p->swapped;
}

/* ---- axes ---- */

static void add_part(struct axis *axis, int part, int64_t size) {
    axis->part[axis->count] = part;
    axis->size[axis->count++] = size;
}

/* Brings a part to the end; no such part: nothing changes. */
static void make_minor(struct axis *axis, int part) {
    int at = 0;
    while (at < axis->count && axis->part[at] != part)
        at++;
    if (at == axis->count) return;
    int64_t size = axis->size[at];
    for (; at + 1 < axis->count; at++) {
        axis->part[at] = axis->part[at + 1];
        axis->size[at] = axis->size[at + 1];
    }
    axis->part[at] = part;
    axis->size[at] = size;
}

/* Lanes: a power of two, or whole tiles; rows alone: groups of 8. */
static void finish_axis(struct axis *axis, bool lanes) {
    int64_t minor = axis->count ? axis->size[axis->count - 1] : 1, padded = 1;
    while (padded < minor && padded < TPU_LANES)
        padded *= 2;
    if (minor > TPU_LANES) padded = (minor + TPU_LANES - 1) / TPU_LANES * TPU_LANES;
    if (!lanes) padded = (minor + TPU_SUBLANES - 1) / TPU_SUBLANES * TPU_SUBLANES;
    axis->padded = padded;
    axis->outer = 1;
    for (int i = 0; i + 1 < axis->count; i++)
        axis->outer *= axis->size[i];
    axis->total = axis->outer * axis->padded;
}

/* ---- dots ---- */

/* The i-th free dimension of an operand; -1 past the last. */
static int free_dim(const struct product *p, int operand, int number) {
    struct int_list c = contracting(p->instr, operand), b = batch_dims(p->instr, operand);
    for (int d = 0; d < p->instr->operands[operand]->shape->rank; d++)
        if (!int_list_has(c, d) && !int_list_has(b, d) && number-- == 0) return d;
    return -1;
}

static int dim_of_part(const struct product *p, int operand, int axis, int part) {
    if (axis == AXIS_K) return (int)contracting(p->instr, operand).v[part];
    return free_dim(p, operand, part);
}

static void find_dot(struct product *p) {
    struct int_list c = contracting(p->instr, 0), b = batch_dims(p->instr, 0);
    const struct shape *lhs = p->instr->operands[0]->shape;
    p->batches = 1;
    for (int i = 0; i < b.count; i++)
        p->batches *= lhs->dims[b.v[i]];
    /* The result's lanes are the right operand's free dimensions, unless it has none. */
    p->swapped = free_dim(p, 1, 0) < 0 && free_dim(p, 0, 0) >= 0;
    for (int i = 0; i < c.count; i++)
        add_part(&p->axis[AXIS_K], i, lhs->dims[c.v[i]]);
    for (int free = AXIS_M; free <= AXIS_N; free++) {
        int operand = product_operand(p, free);
        for (int i = 0, d; (d = free_dim(p, operand, i)) >= 0; i++)
            add_part(&p->axis[free], i, p->instr->operands[operand]->shape->dims[d]);
    }
}

/* ---- convolutions ---- */

static const struct dim_labels *labels_of(const struct product *p) {
    return instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
}

static int64_t groups_of(const struct hlo_instr *instr) {
    return instr_int(instr, ATTR_FEATURE_GROUP_COUNT, 1) *
           instr_int(instr, ATTR_BATCH_GROUP_COUNT, 1);
}

static void find_convolution(struct product *p) {
    const struct dim_labels *labels = labels_of(p);
    const struct shape *kernel = p->instr->operands[1]->shape, *out = p->instr->shape;
    p->batches = groups_of(p->instr);
    p->swapped = shape_minor_to_major(out, 0) != labels->output_feature;
    struct axis *places = &p->axis[p->swapped ? AXIS_N : AXIS_M];
    struct axis *features = &p->axis[p->swapped ? AXIS_M : AXIS_N], *sum = &p->axis[AXIS_K];
    add_part(places, 0, out->dims[labels->output_batch]);
    add_part(features, 0, out->dims[labels->output_feature] / p->batches);
    for (int s = 0; s < labels->spatial; s++) {
        add_part(places, 1 + s, out->dims[labels->output_spatial[s]]);
        add_part(sum, 1 + s, kernel->dims[labels->kernel_spatial[s]]);
    }
    add_part(sum, 0, kernel->dims[labels->kernel_input]);
}

/* ---- dimensions ---- */

int product_operand_dim(const struct product *p, int operand, int axis, int part) {
    if (p->instr->opcode == OP_DOT) return dim_of_part(p, operand, axis, part);
    const struct dim_labels *labels = labels_of(p);
    if (operand == 1) {
        if (axis != AXIS_K) return labels->kernel_output;
        return part ? labels->kernel_spatial[part - 1] : labels->kernel_input;
    }
    if (axis == AXIS_K && part == 0) return labels->input_feature;
    return part ? labels->input_spatial[part - 1] : labels->input_batch;
}

int product_result_dim(const struct product *p, int axis, int part) {
    if (p->instr->opcode == OP_DOT) {
        int batches = batch_dims(p->instr, 0).count, before = 0;
        if (product_operand(p, axis) == 1)
            while (free_dim(p, 0, before) >= 0)
                before++;
        return batches + before + part;
    }
    const struct dim_labels *labels = labels_of(p);
    if (product_operand(p, axis) == 1) return labels->output_feature;
    return part ? labels->output_spatial[part - 1] : labels->output_batch;
}

/* ---- which part is minor ---- */

/* The part of an axis that runs along dimension `d` of an operand, one to one; -1: none. */
static int part_along(const struct product *p, int operand, int axis, int d) {
    if (p->instr->opcode == OP_DOT) {
        for (int i = 0; i < p->axis[axis].count; i++)
            if (dim_of_part(p, operand, axis, i) == d) return i;
        return -1;
    }
    const struct dim_labels *labels = labels_of(p);
    if (operand == 1) {
        if (axis != AXIS_K) return d == labels->kernel_output ? 0 : -1;
        for (int s = 0; s < labels->spatial; s++)
            if (labels->kernel_spatial[s] == d) return 1 + s;
        return d == labels->kernel_input ? 0 : -1;
    }
    if (axis == AXIS_K) return d == labels->input_feature ? 0 : -1;
    for (int s = 0; s < labels->spatial; s++)
        if (labels->input_spatial[s] == d) return 1 + s;
    return d == labels->input_batch ? 0 : -1;
}

static int lane_dim(const struct hlo_instr *instr) {
    return instr->shape->rank ? shape_minor_to_major(instr->shape, 0) : -1;
}

/* Along the operands' lanes first of all. */
static void choose_minor(struct product *p) {
    int a = product_operand(p, AXIS_M), b = product_operand(p, AXIS_N);
    int a_lanes = lane_dim(p->instr->operands[a]), b_lanes = lane_dim(p->instr->operands[b]);
    int a_k = part_along(p, a, AXIS_K, a_lanes), b_k = part_along(p, b, AXIS_K, b_lanes);
    int a_m = part_along(p, a, AXIS_M, a_lanes), b_n = part_along(p, b, AXIS_N, b_lanes);
    p->a_turned = a_k < 0 && a_m >= 0;
    p->b_turned = b_k >= 0 && b_n < 0;
    if (a_m >= 0) make_minor(&p->axis[AXIS_M], a_m);
    if (b_n >= 0) make_minor(&p->axis[AXIS_N], b_n);
    make_minor(&p->axis[AXIS_K], a_k >= 0 ? a_k : b_k);
    finish_axis(&p->axis[AXIS_M], p->a_turned);
    finish_axis(&p->axis[AXIS_N], true);
    finish_axis(&p->axis[AXIS_K], true);
}

static bool is_integer(const struct shape *shape) {
    return element_type_is_integral(shape->type) && element_type_size(shape->type) <= 4;
}

/* Integers go through the units byte by byte: every sum of 128 products of bytes is below 2^24, so
 * f32 holds it exactly (255 * 255 * 128 = 8323200), and what is added up of them is s32. */
static bool find_types(struct product *p, const struct tpu_compile_options *options) {
    const struct shape *a = p->instr->operands[0]->shape, *b = p->instr->operands[1]->shape;
    const struct shape *result = p->instr->shape;
    if (!shape_is_array(result) || !a->count || !b->count || !result->count) return false;
    p->integer = is_integer(a) && is_integer(b) && is_integer(result);
    if (p->integer) {
        int bytes_a = element_type_size(a->type), bytes_b = element_type_size(b->type);
        p->parts = bytes_a > bytes_b ? bytes_a : bytes_b;
        return true;
    }
    p->parts = value_product_parts(p->instr, options->matmul_precision);
    return element_type_is_float(a->type) && element_type_is_float(b->type) &&
           element_type_is_float(result->type);
}

bool product_find(struct product *p, const struct hlo_instr *instr,
                  const struct tpu_compile_options *options) {
    *p = (struct product){.instr = instr};
    if (instr->noperands != 2 || !find_types(p, options)) return false;
    if (instr->opcode == OP_DOT)
        find_dot(p);
    else if (instr->opcode == OP_CONVOLUTION && groups_of(instr) <= MOST_GROUPS)
        find_convolution(p);
    else
        return false;
    choose_minor(p);
    return true;
}

/* ---- indices ---- */

static struct ix join(struct kernel *k, struct ix place, int64_t size, struct ix at) {
    return ix_add(k, ix_muli(k, place, (int32_t)size), at);
}

void product_axis_parts(struct kernel *k, const struct axis *axis, struct place_of_axis at,
                        struct ix *parts, treg *inside) {
    int last = axis->count - 1;
    int32_t minor = last < 0 ? 1 : (int32_t)axis->size[last];
    *inside = m_and(k, *inside, ix_within(k, at.minor, 0, minor - 1));
    *inside = m_and(k, *inside, ix_within(k, at.outer, 0, (int32_t)axis->outer - 1));
    if (last < 0) return;
    parts[axis->part[last]] = at.minor;
    struct ix outer = at.outer;
    for (int i = last - 1; i >= 0; i--) {
        parts[axis->part[i]] = i ? ix_mod(k, outer, (int32_t)axis->size[i]) : outer;
        if (i) outer = ix_div(k, outer, (int32_t)axis->size[i]);
    }
}

static void dot_index(struct kernel *k, const struct product *p, int operand, int free,
                      struct ix batch, const struct ix *at, const struct ix *sum,
                      struct ix *index) {
    const struct shape *shape = p->instr->operands[operand]->shape;
    struct int_list b = batch_dims(p->instr, operand);
    for (int i = b.count - 1; i >= 0; i--) {
        int32_t size = (int32_t)shape->dims[b.v[i]];
        index[b.v[i]] = i ? ix_mod(k, batch, size) : batch;
        if (i) batch = ix_div(k, batch, size);
    }
    for (int i = 0; i < p->axis[free].count; i++)
        index[dim_of_part(p, operand, free, i)] = at[i];
    for (int i = 0; i < p->axis[AXIS_K].count; i++)
        index[dim_of_part(p, operand, AXIS_K, i)] = sum[i];
}

static struct ix input_place(struct kernel *k, const struct window_dim *window, struct ix out,
                             struct ix w, int64_t size, treg *inside) {
    if (window->reversed) w = ix_addi(ix_muli(k, w, -1), (int32_t)window->size - 1);
    int32_t step = (int32_t)window->lhs_dilate, last = (int32_t)(size - 1) * step;
    struct ix at = ix_add(k, ix_muli(k, out, (int32_t)window->stride),
                          ix_muli(k, w, (int32_t)window->rhs_dilate));
    at = ix_addi(at, -(int32_t)window->pad_low);
    return ix_unstride(k, at, step, last, inside);
}

static void input_index(struct kernel *k, const struct product *p, struct ix group,
                        const struct ix *at, const struct ix *sum, struct ix *index, treg *inside) {
    const struct dim_labels *labels = labels_of(p);
    const struct window *window = instr_window(p->instr);
    const struct shape *input = p->instr->operands[0]->shape;
    for (int s = 0; s < labels->spatial; s++) {
        int d = labels->input_spatial[s];
        index[d] = input_place(k, &window->v[s], at[1 + s], sum[1 + s], input->dims[d], inside);
    }
    index[labels->input_batch] = at[0];
    index[labels->input_feature] = sum[0];
    if (p->batches == 1) return;
    int batch_groups = (int)instr_int(p->instr, ATTR_BATCH_GROUP_COUNT, 1);
    int d = batch_groups > 1 ? labels->input_batch : labels->input_feature;
    index[d] = join(k, group, input->dims[d] / p->batches, index[d]);
}

static void filter_index(struct kernel *k, const struct product *p, struct ix group,
                         const struct ix *at, const struct ix *sum, struct ix *index) {
    const struct dim_labels *labels = labels_of(p);
    int64_t each = p->instr->operands[1]->shape->dims[labels->kernel_output] / p->batches;
    for (int s = 0; s < labels->spatial; s++)
        index[labels->kernel_spatial[s]] = sum[1 + s];
    index[labels->kernel_input] = sum[0];
    index[labels->kernel_output] = p->batches > 1 ? join(k, group, each, at[0]) : at[0];
}

void product_operand_index(struct kernel *k, const struct product *p, int free, struct ix batch,
                           const struct ix *at, const struct ix *sum, struct ix *index,
                           treg *inside) {
    int operand = product_operand(p, free);
    if (p->instr->opcode == OP_DOT)
        dot_index(k, p, operand, free, batch, at, sum, index);
    else if (operand == 0)
        input_index(k, p, batch, at, sum, index, inside);
    else
        filter_index(k, p, batch, at, sum, index);
}

/* The number of a place in an axis, from its parts. */
static struct ix number(struct kernel *k, const struct axis *axis, const struct ix *parts) {
    struct ix place = ix_const(0);
    for (int i = 0; i < axis->count; i++) {
        bool minor = i + 1 == axis->count;
        place = join(k, place, minor ? axis->padded : axis->size[i], parts[axis->part[i]]);
    }
    return place;
}

static void dot_parts(struct kernel *k, const struct product *p, const struct ix *index,
                      struct ix *batch, struct ix parts[2][SHAPE_MAX_RANK]) {
    int b = batch_dims(p->instr, 0).count, rank = p->instr->shape->rank;
    int first = p->instr->operands[0]->shape->rank - contracting(p->instr, 0).count;
    for (int d = 0; d < rank; d++) {
        if (d < b)
            *batch = join(k, *batch, p->instr->shape->dims[d], index[d]);
        else if (d < first)
            parts[0][d - b] = index[d];
        else
            parts[1][d - first] = index[d];
    }
}

void product_result_place(struct kernel *k, const struct product *p, const struct ix *index,
                          struct ix *batch, struct ix *m, struct ix *n) {
    struct ix parts[2][SHAPE_MAX_RANK]; /* of operand 0's and 1's free dimensions */
    *batch = ix_const(0);
    if (p->instr->opcode == OP_DOT) {
        dot_parts(k, p, index, batch, parts);
    } else {
        const struct dim_labels *labels = labels_of(p);
        int64_t features = p->instr->shape->dims[labels->output_feature];
        struct ix feature = index[labels->output_feature];
        int32_t each = (int32_t)(features / p->batches);
        if (p->batches > 1) *batch = ix_div(k, feature, each);
        parts[1][0] = p->batches > 1 ? ix_mod(k, feature, each) : feature;
        parts[0][0] = index[labels->output_batch];
        for (int s = 0; s < labels->spatial; s++)
            parts[0][1 + s] = index[labels->output_spatial[s]];
    }
    *m = number(k, &p->axis[AXIS_M], parts[product_operand(p, AXIS_M)]);
    *n = number(k, &p->axis[AXIS_N], parts[product_operand(p, AXIS_N)]);
}
