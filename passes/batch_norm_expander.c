/* Batch normalisation in elementary operations, by XLA's formulas. With E the mean over everything
 * but the feature dimension:
 *     training:   mean = E[x], variance = E[x x] - mean mean,
 *                 y = (x - mean) rsqrt(variance + epsilon) scale + offset
 *     inference:  y as above from the given mean and variance
 *     gradient g: offset's = sum g, scale's = rsqrt(variance + epsilon) sum g (x - mean),
 *                 x's = scale rsqrt(variance + epsilon)
 *                       (g - E[g] - (x - mean) E[g (x - mean)] / (variance + epsilon))
 * f16 and bf16 are computed in f32. */
#include "passes/pass.h"
#include "passes/util.h"

struct expander {
    struct hlo_instr *norm; /* being replaced; new instructions stand before it */
    struct hlo_module *module;
    const struct shape *full, *feature; /* in the type that is computed in */
    int64_t dim;
    struct hlo_computation *sum;
};

static struct hlo_instr *named(struct expander *e, struct hlo_instr *instr) {
    instr->metadata = e->norm->metadata;
    return instr;
}

static struct hlo_instr *binary(struct expander *e, enum hlo_opcode opcode, struct hlo_instr *a,
                                struct hlo_instr *b) {
    struct hlo_instr *operands[2] = {a, b};
    return named(e, instr_new(e->norm->parent, e->norm, opcode, a->shape, NULL, 2, operands));
}

static struct hlo_instr *unary(struct expander *e, enum hlo_opcode opcode,
                               const struct shape *shape, struct hlo_instr *a) {
    return named(e, instr_new(e->norm->parent, e->norm, opcode, shape, NULL, 1, &a));
}

static struct hlo_instr *in_type(struct expander *e, struct hlo_instr *value,
                                 enum element_type type) {
    if (value->shape->type == type) return value;
    return unary(e, OP_CONVERT, shape_with_type(e->module->shapes, value->shape, type), value);
}

static struct hlo_instr *operand(struct expander *e, int index) {
    return in_type(e, e->norm->operands[index], e->full->type);
}

/* A feature's number for each of its elements. */
static struct hlo_instr *spread(struct expander *e, struct hlo_instr *feature) {
    struct hlo_instr *result = unary(e, OP_BROADCAST, e->full, feature);
    instr_set_ints(result, ATTR_DIMENSIONS, 1, &e->dim);
    return result;
}

static struct hlo_instr *number(struct expander *e, double value) {
    return instr_new_splat(e->norm, e->feature, value);
}

static struct hlo_computation *sum_computation(struct hlo_module *module, enum element_type type) {
    struct hlo_computation *sum = computation_new(module, "sum", true);
    const struct shape *scalar = shape_scalar(module->shapes, type);
    struct hlo_instr *operands[2];
    for (int i = 0; i < 2; i++)
        operands[i] = instr_new_parameter(sum, i, scalar, "a");
    computation_index_parameters(sum);
    computation_set_root(sum, instr_new(sum, NULL, OP_ADD, scalar, NULL, 2, operands));
    return sum;
}

static struct hlo_instr *sum_of(struct expander *e, struct hlo_instr *value) {
    int64_t dims[SHAPE_MAX_RANK];
    int count = 0;
    for (int i = 0; i < e->full->rank; i++)
        if (i != e->dim) dims[count++] = i;
    const struct shape *scalar = shape_scalar(e->module->shapes, e->full->type);
    struct hlo_instr *operands[2] = {value, instr_new_splat(e->norm, scalar, 0)};
    struct hlo_instr *sum =
        instr_new(e->norm->parent, e->norm, OP_REDUCE, e->feature, NULL, 2, operands);
    instr_set_ints(sum, ATTR_DIMENSIONS, count, dims);
    instr_set_called(sum, 1, &e->sum);
    return named(e, sum);
}

static struct hlo_instr *mean_of(struct expander *e, struct hlo_instr *value) {
    int64_t features = e->full->dims[e->dim];
    double count = features > 0 ? (double)(e->full->count / features) : 0;
    return binary(e, OP_DIVIDE, sum_of(e, value), number(e, count));
}

static struct hlo_instr *with_epsilon(struct expander *e, struct hlo_instr *variance) {
    return binary(e, OP_ADD, variance, number(e, instr_float(e->norm, ATTR_EPSILON, 0)));
}

static struct hlo_instr *normalise(struct expander *e, struct hlo_instr *mean,
                                   struct hlo_instr *variance) {
    struct hlo_instr *scale = unary(e, OP_RSQRT, e->feature, with_epsilon(e, variance));
    struct hlo_instr *centred = binary(e, OP_SUBTRACT, operand(e, 0), spread(e, mean));
    struct hlo_instr *normal = binary(e, OP_MULTIPLY, centred, spread(e, scale));
    normal = binary(e, OP_MULTIPLY, normal, spread(e, operand(e, 1)));
    return binary(e, OP_ADD, normal, spread(e, operand(e, 2)));
}

static struct hlo_instr *tuple_of(struct expander *e, struct hlo_instr *a, struct hlo_instr *b,
                                  struct hlo_instr *c) {
    struct hlo_instr *elements[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        elements[i] = in_type(e, elements[i], e->norm->shape->tuple[i]->type);
    return instr_new(e->norm->parent, e->norm, OP_TUPLE, e->norm->shape, NULL, 3, elements);
}

static struct hlo_instr *training(struct expander *e) {
    struct hlo_instr *x = operand(e, 0), *mean = mean_of(e, x);
    struct hlo_instr *squares = mean_of(e, binary(e, OP_MULTIPLY, x, x));
    struct hlo_instr *variance =
        binary(e, OP_SUBTRACT, squares, binary(e, OP_MULTIPLY, mean, mean));
    return tuple_of(e, normalise(e, mean, variance), mean, variance);
}

static struct hlo_instr *inference(struct expander *e) {
    return in_type(e, normalise(e, operand(e, 3), operand(e, 4)), e->norm->shape->type);
}

static struct hlo_instr *gradient(struct expander *e) {
    struct hlo_instr *g = operand(e, 4), *variance = with_epsilon(e, operand(e, 3));
    struct hlo_instr *inverse = unary(e, OP_RSQRT, e->feature, variance);
    struct hlo_instr *centred = binary(e, OP_SUBTRACT, operand(e, 0), spread(e, operand(e, 2)));
    struct hlo_instr *product = binary(e, OP_MULTIPLY, g, centred);
    struct hlo_instr *offset = sum_of(e, g);
    struct hlo_instr *scale = binary(e, OP_MULTIPLY, sum_of(e, product), inverse);
    struct hlo_instr *slope = binary(e, OP_DIVIDE, mean_of(e, product), variance);
    struct hlo_instr *dx = binary(e, OP_SUBTRACT, g, spread(e, mean_of(e, g)));
    dx = binary(e, OP_SUBTRACT, dx, binary(e, OP_MULTIPLY, centred, spread(e, slope)));
    struct hlo_instr *factor = binary(e, OP_MULTIPLY, operand(e, 1), inverse);
    return tuple_of(e, binary(e, OP_MULTIPLY, spread(e, factor), dx), scale, offset);
}

/* Every operand but the gradient has one number a feature; all static. */
static bool fits(const struct hlo_instr *norm) {
    const struct shape *x = norm->operands[0]->shape;
    int64_t dim = instr_int(norm, ATTR_FEATURE_INDEX, 0);
    if (norm->ncontrol || norm->is_control_predecessor || shape_is_dynamic(norm->shape))
        return false;
    if (dim < 0 || dim >= x->rank || !element_type_is_float(x->type)) return false;
    for (int i = 0; i < norm->noperands; i++) {
        const struct shape *shape = norm->operands[i]->shape;
        bool full = i == 0 || (norm->opcode == OP_BATCH_NORM_GRAD && i == 4);
        if (!shape_is_array(shape) || shape_is_dynamic(shape)) return false;
        if (full ? !shape_same_dims(shape, x) : shape->rank != 1 || shape->dims[0] != x->dims[dim])
            return false;
    }
    return true;
}

static bool is_batch_norm(const struct hlo_instr *instr) {
    return instr->opcode == OP_BATCH_NORM_TRAINING || instr->opcode == OP_BATCH_NORM_INFERENCE ||
           instr->opcode == OP_BATCH_NORM_GRAD;
}

static void expand(struct hlo_instr *norm) {
    struct hlo_module *module = norm->parent->module;
    const struct shape *x = norm->operands[0]->shape;
    int bits = element_type_info(x->type)->bits;
    enum element_type type = bits < 32 ? TYPE_F32 : x->type;
    struct expander e = {.norm = norm, .module = module};
    e.dim = instr_int(norm, ATTR_FEATURE_INDEX, 0);
    e.full = shape_with_type(module->shapes, x, type);
    e.feature = shape_with_type(module->shapes, norm->operands[1]->shape, type);
    e.sum = norm->opcode == OP_BATCH_NORM_INFERENCE ? NULL : sum_computation(module, type);
    struct hlo_instr *with = norm->opcode == OP_BATCH_NORM_TRAINING    ? training(&e)
                             : norm->opcode == OP_BATCH_NORM_INFERENCE ? inference(&e)
                                                                       : gradient(&e);
    instr_replace_uses(norm, with);
    instr_remove(norm);
}

bool batch_norm_expander_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation) {
        if (!is_batch_norm(instr) || !fits(instr) || !pass_may_rewrite(context)) continue;
        expand(instr);
        changed = true;
    }
    return changed;
}
