/* Reductions, windows and products as loops: one element of the window, or of what is summed over,
 * at a time, in every place of the result at once. */
#include "backend/tpu/value.h"

enum { MOST_OPERANDS = 16 };

struct nest {
    struct loop loops[SHAPE_MAX_RANK];
    int count, memos;
};

static struct sx nest_loop(struct values *g, struct nest *nest, int64_t count) {
    return loop_begin(g->k, &nest->loops[nest->count++], count);
}

static void nest_end(struct values *g, struct nest *nest) {
    while (nest->count)
        loop_end(g->k, &nest->loops[--nest->count], 0);
    g->nmemos = nest->memos;
}

/* acc = computation(acc, values) where the mask is on. */
static void accumulate(struct values *g, const struct hlo_computation *computation, int n,
                       const struct tval *acc, const struct tval *values, treg mask) {
    struct tval args[2 * MOST_OPERANDS] = {{{0}}}, results[MOST_OPERANDS];
    for (int i = 0; i < n; i++) {
        args[i] = acc[i];
        args[n + i] = values[i];
    }
    value_call(g, computation, args, results);
    for (int i = 0; i < n; i++)
        value_assign(g->k, acc[i], mask, results[i]);
}

static bool start_accumulators(struct values *g, const struct hlo_instr *instr, int n,
                               struct tval *acc) {
    if (n > MOST_OPERANDS) return false;
    for (int i = 0; i < n; i++)
        acc[i] = value_variable(g->k, value_at(g, instr->operands[n + i], 0, NULL, 0));
    return true;
}

void value_reduce(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                  treg active, struct tval *values) {
    int n = instr->noperands / 2;
    const struct shape *from = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct ix inner[SHAPE_MAX_RANK];
    struct tval operands[MOST_OPERANDS];
    if (!start_accumulators(g, instr, n, values) || from->count == 0) return;
    struct nest nest = {.memos = g->nmemos};
    for (int d = 0, kept = 0; d < from->rank; d++)
        inner[d] =
            int_list_has(dims, d) ? ix_scalar(nest_loop(g, &nest, from->dims[d])) : index[kept++];
    for (int i = 0; i < n; i++)
        operands[i] = value_at(g, instr->operands[i], 0, inner, active);
    accumulate(g, instr->called[0], n, values, operands, 0);
    nest_end(g, &nest);
}

/* The operand's index under window place `w`, and whether there is an element (0: always). */
static struct ix window_index(struct kernel *k, const struct window_dim *window, struct ix out,
                              struct sx w, int64_t size, treg *inside) {
    if (window->reversed) w = sx_addi(sx_muli(k, w, -1), (int32_t)window->size - 1);
    struct ix at = ix_muli(k, out, (int32_t)window->stride);
    at = ix_add(k, at, ix_scalar(sx_muli(k, w, (int32_t)window->rhs_dilate)));
    at = ix_addi(at, -(int32_t)window->pad_low);
    int32_t step = (int32_t)window->lhs_dilate, last = (int32_t)(size - 1) * step;
    return ix_unstride(k, at, step, last, inside);
}

void value_reduce_window(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                         treg active, struct tval *values) {
    int n = instr->noperands / 2;
    const struct shape *from = instr->operands[0]->shape;
    const struct window *window = instr_window(instr);
    struct ix inner[SHAPE_MAX_RANK];
    struct tval operands[MOST_OPERANDS];
    treg inside = 0;
    if (!start_accumulators(g, instr, n, values) || from->count == 0) return;
    struct nest nest = {.memos = g->nmemos};
    struct sx at[SHAPE_MAX_RANK];
    for (int d = 0; d < from->rank; d++)
        at[d] = window ? nest_loop(g, &nest, window->v[d].size) : sx_const(0);
    for (int d = 0; d < from->rank; d++)
        inner[d] = window
                       ? window_index(g->k, &window->v[d], index[d], at[d], from->dims[d], &inside)
                       : index[d];
    for (int i = 0; i < n; i++)
        operands[i] = value_at(g, instr->operands[i], 0, inner, m_and(g->k, active, inside));
    accumulate(g, instr->called[0], n, values, operands, inside);
    nest_end(g, &nest);
}

/* ---- products ---- */

int value_product_parts(const struct hlo_instr *instr, int matmul_precision) {
    int precision = matmul_precision ? matmul_precision : ENUM_PRECISION_DEFAULT;
    struct int_list asked = instr_ints(instr, ATTR_OPERAND_PRECISION);
    bool exact = true;
    for (int i = 0; i < 2; i++) {
        enum element_type type = instr->operands[i]->shape->type;
        /* f16 has 11 significant bits: more than one part holds, whatever is asked for. */
        if (type == TYPE_F16) return 3;
        exact &= type != TYPE_F32;
    }
    if (exact) return 1;
    switch (instr_int(instr, ATTR_ALGORITHM, ENUM_DOT_ALGORITHM_UNSET)) {
    case ENUM_DOT_ALGORITHM_BF16_BF16_BF16:
    case ENUM_DOT_ALGORITHM_BF16_BF16_F32: return 1;
    case ENUM_DOT_ALGORITHM_BF16_BF16_F32_X3: return 2;
    default: break;
    }
    for (int i = 0; i < asked.count; i++) {
        int64_t word = asked.v[i];
        if (word == ENUM_PRECISION_HIGHEST ||
            (word == ENUM_PRECISION_HIGH && precision == ENUM_PRECISION_DEFAULT))
            precision = (int)word;
    }
    return precision == ENUM_PRECISION_HIGHEST ? 3 : precision == ENUM_PRECISION_HIGH ? 2 : 1;
}

/* a * b as the matrix units have it: of `parts` bf16 parts of either operand, three being all. */
static treg product_of_parts(struct kernel *k, int parts, treg a, treg b) {
    if (parts == 3) return k_binary(k, TPU_VMULF, a, b);
    treg high_a = k_unary(k, TPU_VRBF, a), high_b = k_unary(k, TPU_VRBF, b);
    treg product = k_binary(k, TPU_VMULF, high_a, high_b);
    if (parts == 1) return product;
    treg low_a = k_unary(k, TPU_VRBF, k_binary(k, TPU_VSUBF, a, high_a));
    treg low_b = k_unary(k, TPU_VRBF, k_binary(k, TPU_VSUBF, b, high_b));
    treg cross = k_binary(k, TPU_VADDF, k_binary(k, TPU_VMULF, high_a, low_b),
                          k_binary(k, TPU_VMULF, low_a, high_b));
    /* What is not finite has no parts: infinity less infinity is NaN. */
    treg finite = k_binary(k, TPU_VEQF, cross, cross);
    return k_binary(k, TPU_VADDF, product, k_select(k, finite, cross, k_const(k, 0)));
}

/* sum += a * b, in the element type that sums have: f32 for narrow floats, the result's else. */
static void multiply_add(struct values *g, const struct hlo_instr *instr, struct tval sum,
                         const struct tval *operands, treg inside) {
    struct kernel *k = g->k;
    enum element_type type = instr->shape->type;
    struct tval v[2], product, next;
    if (element_type_is_float(type)) type = TYPE_F32;
    for (int i = 0; i < 2; i++)
        v[i] = element_convert(k, operands[i], instr->operands[i]->shape->type, type);
    if (type == TYPE_F32) {
        int parts = value_product_parts(instr, g->matmul_precision);
        product = (struct tval){{product_of_parts(k, parts, v[0].v[0], v[1].v[0]), 0}};
        next = (struct tval){{f_bin(k, OP_ADD, sum.v[0], product.v[0]), 0}};
    } else {
        /* Operations of the result's type, made of instructions that are not in the program. */
        struct hlo_instr operand = {.shape = instr->shape}, *both[2] = {&operand, &operand};
        struct hlo_instr op = {
            .opcode = OP_MULTIPLY, .shape = instr->shape, .noperands = 2, .operands = both};
        product = element_value(k, &op, v);
        op.opcode = OP_ADD;
        next = element_value(k, &op, (struct tval[]){sum, product});
    }
    value_assign(k, sum, inside, next);
}

static struct tval zero_sum(struct values *g, enum element_type type) {
    struct tval zero = {{k_const(g->k, 0), 0}};
    if (element_type_is_complex(type) || element_type_size(type) == 8) zero.v[1] = k_const(g->k, 0);
    return value_variable(g->k, zero);
}

static struct tval finish_sum(struct values *g, struct tval sum, enum element_type type) {
    return element_type_is_float(type) ? element_convert(g->k, sum, TYPE_F32, type) : sum;
}

struct tval value_dot(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                      treg active) {
    static const enum attr_key contracting[] = {ATTR_LHS_CONTRACTING_DIMS,
                                                ATTR_RHS_CONTRACTING_DIMS};
    static const enum attr_key batch[] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};
    struct tval sum = zero_sum(g, instr->shape->type), operands[2];
    struct ix inner[2][SHAPE_MAX_RANK];
    struct nest nest = {.memos = g->nmemos};
    if (instr->noperands != 2) return (struct tval){{0, 0}};
    struct int_list summed = instr_ints(instr, contracting[0]);
    struct sx at[SHAPE_MAX_RANK];
    for (int i = 0; i < summed.count; i++) {
        int64_t size = instr->operands[0]->shape->dims[summed.v[i]];
        if (size == 0) return finish_sum(g, sum, instr->shape->type);
    }
    for (int i = 0; i < summed.count; i++)
        at[i] = nest_loop(g, &nest, instr->operands[0]->shape->dims[summed.v[i]]);
    int place = instr_ints(instr, batch[0]).count;
    for (int o = 0; o < 2; o++) {
        struct int_list c = instr_ints(instr, contracting[o]), b = instr_ints(instr, batch[o]);
        for (int i = 0; i < c.count; i++)
            inner[o][c.v[i]] = ix_scalar(at[i]);
        for (int i = 0; i < b.count; i++)
            inner[o][b.v[i]] = index[i];
        for (int d = 0; d < instr->operands[o]->shape->rank; d++)
            if (!int_list_has(c, d) && !int_list_has(b, d)) inner[o][d] = index[place++];
        operands[o] = value_at(g, instr->operands[o], 0, inner[o], active);
    }
    multiply_add(g, instr, sum, operands, 0);
    nest_end(g, &nest);
    return finish_sum(g, sum, instr->shape->type);
}

struct tval value_convolution(struct values *g, const struct hlo_instr *instr,
                              const struct ix *index, treg active) {
    struct kernel *k = g->k;
    const struct dim_labels *labels = instr_attr(instr, ATTR_DIM_LABELS)->dim_labels;
    const struct window *window = instr_window(instr);
    const struct shape *input = instr->operands[0]->shape, *kernel = instr->operands[1]->shape;
    struct tval sum = zero_sum(g, instr->shape->type), operands[2];
    struct ix in[SHAPE_MAX_RANK], w[SHAPE_MAX_RANK];
    int32_t groups = (int32_t)instr_int(instr, ATTR_FEATURE_GROUP_COUNT, 1);
    int32_t batch_groups = (int32_t)instr_int(instr, ATTR_BATCH_GROUP_COUNT, 1);
    if (input->count == 0 || kernel->count == 0) return finish_sum(g, sum, instr->shape->type);
    struct nest nest = {.memos = g->nmemos};
    struct sx at[SHAPE_MAX_RANK];
    treg inside = 0;
    for (int s = 0; s < labels->spatial; s++)
        at[s] = nest_loop(g, &nest, kernel->dims[labels->kernel_spatial[s]]);
    struct sx feature = nest_loop(g, &nest, kernel->dims[labels->kernel_input]);
    for (int s = 0; s < labels->spatial; s++) {
        int d = labels->input_spatial[s];
        w[labels->kernel_spatial[s]] = ix_scalar(at[s]);
        in[d] = window_index(k, &window->v[s], index[labels->output_spatial[s]], at[s],
                             input->dims[d], &inside);
    }
    struct ix out = index[labels->output_feature];
    int32_t features = (int32_t)kernel->dims[labels->kernel_output];
    struct ix group = ix_div(k, out, features / (groups * batch_groups));
    w[labels->kernel_output] = out;
    w[labels->kernel_input] = ix_scalar(feature);
    in[labels->input_feature] = ix_scalar(feature);
    in[labels->input_batch] = index[labels->output_batch];
    if (groups > 1) {
        struct ix first = ix_muli(k, group, (int32_t)kernel->dims[labels->kernel_input]);
        in[labels->input_feature] = ix_add(k, first, ix_scalar(feature));
    }
    if (batch_groups > 1) {
        int32_t each = (int32_t)(input->dims[labels->input_batch] / batch_groups);
        in[labels->input_batch] = ix_add(k, ix_muli(k, group, each), in[labels->input_batch]);
    }
    operands[0] = value_at(g, instr->operands[0], 0, in, m_and(k, active, inside));
    operands[1] = value_at(g, instr->operands[1], 0, w, active);
    multiply_add(g, instr, sum, operands, inside);
    nest_end(g, &nest);
    return finish_sum(g, sum, instr->shape->type);
}
