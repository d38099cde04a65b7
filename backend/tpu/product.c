/* Which element of a dot or convolution is which of a matrix product. */
#include "backend/tpu/product.h"

enum { MOST_GROUPS = 16 };

static bool has(struct int_list list, int64_t value) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] == value) return true;
    return false;
}

static struct int_list contracting(const struct hlo_instr *dot, int operand) {
    return instr_ints(dot, operand ? ATTR_RHS_CONTRACTING_DIMS : ATTR_LHS_CONTRACTING_DIMS);
}

static struct int_list batch_dims(const struct hlo_instr *dot, int operand) {
    return instr_ints(dot, operand ? ATTR_RHS_BATCH_DIMS : ATTR_LHS_BATCH_DIMS);
}

/* ---- sizes ---- */

static int64_t product_of(const struct shape *shape, struct int_list dims) {
    int64_t size = 1;
    for (int i = 0; i < dims.count; i++)
        size *= shape->dims[dims.v[i]];
    return size;
}

static void find_dot(struct product *p) {
    const struct shape *lhs = p->instr->operands[0]->shape, *rhs = p->instr->operands[1]->shape;
    p->batches = product_of(lhs, batch_dims(p->instr, 0));
    p->k = product_of(lhs, contracting(p->instr, 0));
    int64_t outer = p->batches * p->k;
    p->m = outer ? lhs->count / outer : 0;
    p->n = outer ? rhs->count / outer : 0;
    /* The result's lanes are the right operand's free dimensions, unless it has none. */
    p->swapped = p->n == 1 && p->m > 1;
}

static int64_t groups_of(const struct hlo_instr *instr) {
    return instr_int(instr, ATTR_FEATURE_GROUP_COUNT, 1) *
           instr_int(instr, ATTR_BATCH_GROUP_COUNT, 1);
}

static void find_convolution(struct product *p) {
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    const struct shape *kernel = p->instr->operands[1]->shape, *out = p->instr->shape;
    int64_t features = out->dims[labels->output_feature];
    p->batches = groups_of(p->instr);
    p->n = features / p->batches;
    p->m = features ? out->count / features : 0;
    p->k = kernel->dims[labels->kernel_output] ? kernel->count / kernel->dims[labels->kernel_output]
                                               : 0;
    p->swapped = shape_minor_to_major(out, 0) != labels->output_feature;
}

/* How many bf16 parts of a float number count. */
static int parts_of(const struct product *p, const struct tpu_compile_options *options) {
    int precision = options->matmul_precision ? options->matmul_precision : ENUM_PRECISION_DEFAULT;
    const struct hlo_attr *attr = instr_attr(p->instr, ATTR_OPERAND_PRECISION);
    bool exact = true;
    for (int i = 0; i < 2; i++) {
        enum element_type type = p->instr->operands[i]->shape->type;
        exact &= type != TYPE_F32 && type != TYPE_F16;
    }
    if (exact) return 1;
    for (int i = 0; attr && i < attr->ints->count; i++) {
        int64_t word = attr->ints->v[i];
        if (word == ENUM_PRECISION_HIGHEST ||
            (word == ENUM_PRECISION_HIGH && precision == ENUM_PRECISION_DEFAULT))
            precision = (int)word;
    }
    /* f16 has 11 significant bits: more than one part holds, whatever the precision asked for. */
    for (int i = 0; i < 2; i++)
        if (p->instr->operands[i]->shape->type == TYPE_F16) precision = ENUM_PRECISION_HIGHEST;
    return precision == ENUM_PRECISION_HIGHEST ? 3 : precision == ENUM_PRECISION_HIGH ? 2 : 1;
}

bool product_find(struct product *p, const struct hlo_instr *instr,
                  const struct tpu_compile_options *options) {
    *p = (struct product){.instr = instr};
    if (instr->noperands != 2 || !shape_is_array(instr->shape)) return false;
    for (int i = 0; i < 2; i++)
        if (!element_type_is_float(instr->operands[i]->shape->type)) return false;
    if (!element_type_is_float(instr->shape->type)) return false;
    if (instr->opcode == OP_DOT)
        find_dot(p);
    else if (instr->opcode == OP_CONVOLUTION && groups_of(instr) <= MOST_GROUPS)
        find_convolution(p);
    else
        return false;
    if (p->swapped) {
        int64_t m = p->m;
        p->m = p->n;
        p->n = m;
    }
    p->parts = parts_of(p, options);
    return p->batches > 0 && p->m > 0 && p->n > 0 && p->k > 0;
}

/* ---- indices ---- */

/* Splits a row-major place over the listed dimensions of a shape. */
static void split(struct kernel *k, const struct shape *shape, const int64_t *dims, int count,
                  struct ix place, struct ix *index) {
    for (int i = count - 1; i >= 0; i--) {
        int32_t size = (int32_t)shape->dims[dims[i]];
        index[dims[i]] = i == 0 ? place : ix_mod(k, place, size);
        if (i) place = ix_div(k, place, size);
    }
}

static struct ix join(struct kernel *k, struct ix place, int64_t size, struct ix at) {
    return ix_add(k, ix_muli(k, place, (int32_t)size), at);
}

static void dot_index(struct kernel *k, const struct product *p, int operand, struct ix batch,
                      struct ix free, struct ix sum, struct ix *index) {
    const struct shape *shape = p->instr->operands[operand]->shape;
    struct int_list c = contracting(p->instr, operand), b = batch_dims(p->instr, operand);
    int64_t rest[SHAPE_MAX_RANK];
    int nrest = 0;
    for (int d = 0; d < shape->rank; d++)
        if (!has(c, d) && !has(b, d)) rest[nrest++] = d;
    split(k, shape, b.v, b.count, batch, index);
    split(k, shape, c.v, c.count, sum, index);
    split(k, shape, rest, nrest, free, index);
}

/* The kernel's element: sum is (spatial, feature), feature minor. */
static void kernel_place(struct kernel *k, const struct product *p, struct ix sum,
                         struct ix *spatial, struct ix *feature) {
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    const struct shape *kernel = p->instr->operands[1]->shape;
    int32_t features = (int32_t)kernel->dims[labels->kernel_input];
    *feature = ix_mod(k, sum, features);
    sum = ix_div(k, sum, features);
    for (int s = labels->spatial - 1; s >= 0; s--) {
        int32_t size = (int32_t)kernel->dims[labels->kernel_spatial[s]];
        spatial[s] = s == 0 ? sum : ix_mod(k, sum, size);
        if (s) sum = ix_div(k, sum, size);
    }
}

static struct ix input_place(struct kernel *k, const struct window_dim *window, struct ix out,
                             struct ix w, int64_t size, treg *inside) {
    if (window->reversed) w = ix_addi(ix_muli(k, w, -1), (int32_t)window->size - 1);
    int32_t step = (int32_t)window->lhs_dilate, last = (int32_t)(size - 1) * step;
    struct ix at = ix_add(k, ix_muli(k, out, (int32_t)window->stride),
                          ix_muli(k, w, (int32_t)window->rhs_dilate));
    at = ix_addi(at, -(int32_t)window->pad_low);
    *inside = m_and(k, *inside, ix_within(k, at, 0, last));
    if (step == 1) return at;
    at = ix_clamp(k, at, 0, last);
    treg rest = ix_reg(k, ix_mod(k, at, step));
    *inside = m_and(k, *inside, k_binary_i(k, TPU_VEQ, rest, 0));
    return ix_div(k, at, step);
}

/* The input's element under the output place (batch, spatial...), which is row-major in `place`. */
static void input_index(struct kernel *k, const struct product *p, struct ix group, struct ix place,
                        struct ix sum, struct ix *index, treg *inside) {
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    const struct window *window = instr_window(p->instr);
    const struct shape *input = p->instr->operands[0]->shape, *out = p->instr->shape;
    struct ix w[SHAPE_MAX_RANK], feature;
    kernel_place(k, p, sum, w, &feature);
    for (int s = labels->spatial - 1; s >= 0; s--) {
        int32_t size = (int32_t)out->dims[labels->output_spatial[s]];
        int d = labels->input_spatial[s];
        index[d] =
            input_place(k, &window->v[s], ix_mod(k, place, size), w[s], input->dims[d], inside);
        place = ix_div(k, place, size);
    }
    index[labels->input_batch] = place;
    index[labels->input_feature] = feature;
    int64_t batch_groups = instr_int(p->instr, ATTR_BATCH_GROUP_COUNT, 1);
    if (p->batches == 1) return;
    if (batch_groups > 1)
        index[labels->input_batch] =
            join(k, group, input->dims[labels->input_batch] / batch_groups, place);
    else
        index[labels->input_feature] =
            join(k, group, input->dims[labels->input_feature] / p->batches, feature);
}

static void filter_index(struct kernel *k, const struct product *p, struct ix group,
                         struct ix feature_out, struct ix sum, struct ix *index) {
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    struct ix w[SHAPE_MAX_RANK], feature;
    kernel_place(k, p, sum, w, &feature);
    for (int s = 0; s < labels->spatial; s++)
        index[labels->kernel_spatial[s]] = w[s];
    index[labels->kernel_input] = feature;
    int64_t each = p->instr->operands[1]->shape->dims[labels->kernel_output] / p->batches;
    index[labels->kernel_output] = join(k, group, each, feature_out);
}

void product_operand_index(struct kernel *k, const struct product *p, int operand, struct ix batch,
                           struct ix free, struct ix sum, struct ix *index, treg *inside) {
    *inside = 0;
    if (p->instr->opcode == OP_DOT)
        dot_index(k, p, operand, batch, free, sum, index);
    else if (operand == 0)
        input_index(k, p, batch, free, sum, index, inside);
    else
        filter_index(k, p, batch, free, sum, index);
}

void product_result_place(struct kernel *k, const struct product *p, const struct ix *index,
                          struct ix *batch, struct ix *m, struct ix *n) {
    const struct shape *out = p->instr->shape;
    struct ix place[2] = {ix_const(0), ix_const(0)}; /* of operand 0 and 1 */
    *batch = ix_const(0);
    if (p->instr->opcode == OP_DOT) {
        int b = batch_dims(p->instr, 0).count, d = 0;
        int first = p->instr->operands[0]->shape->rank - contracting(p->instr, 0).count;
        for (; d < b; d++)
            *batch = join(k, *batch, out->dims[d], index[d]);
        for (; d < out->rank; d++) {
            struct ix *to = &place[d >= first];
            *to = join(k, *to, out->dims[d], index[d]);
        }
    } else {
        const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
        int32_t each = (int32_t)(out->dims[labels->output_feature] / p->batches);
        struct ix feature = index[labels->output_feature];
        *batch = p->batches > 1 ? ix_div(k, feature, each) : ix_const(0);
        place[1] = p->batches > 1 ? ix_mod(k, feature, each) : feature;
        place[0] = index[labels->output_batch];
        for (int s = 0; s < labels->spatial; s++) {
            int d = labels->output_spatial[s];
            place[0] = join(k, place[0], out->dims[d], index[d]);
        }
    }
    *m = place[p->swapped];
    *n = place[!p->swapped];
}
