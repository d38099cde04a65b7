/* Splits large reductions to few results in two: to `parts` partial results each, and of these.
 * The parts are independent work for threads, and their number does not depend on how many there
 * are, so the result does not either. */
#include <math.h>

#include "passes/fusion_shape.h"
#include "passes/pass.h"
#include "passes/util.h"

enum { LEAST_ELEMENTS = 1 << 18, MOST_RESULTS = 2048, LEAST_PARTS = 8, MOST_PARTS = 64 };

/* The value that changes nothing: -0 + x is x for every x, which +0 + x is not. */
static bool set_identity(struct literal *literal, enum hlo_opcode op) {
    enum element_type type = literal->shape->type;
    if (type != TYPE_F32 && type != TYPE_F64 && type != TYPE_S32) return false;
    bool real = type != TYPE_S32;
    switch (op) {
    case OP_ADD: literal_set_double(literal, 0, real ? -0.0 : 0); return true;
    case OP_MULTIPLY: literal_set_double(literal, 0, 1); return true;
    case OP_MAXIMUM: literal_set_double(literal, 0, real ? -INFINITY : INT32_MIN); return true;
    case OP_MINIMUM: literal_set_double(literal, 0, real ? INFINITY : INT32_MAX); return true;
    default: return false;
    }
}

static int64_t parts_of(int64_t size) {
    for (int64_t parts = MOST_PARTS; parts >= LEAST_PARTS; parts--)
        if (size % parts == 0) return parts;
    return 0;
}

/* The outermost reduced dimension that splits evenly; -1: none. */
static int dimension_to_split(const struct hlo_instr *reduce, int64_t *parts) {
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    int best = -1;
    for (int i = 0; i < dims.count; i++) {
        int64_t count = parts_of(reduce->operands[0]->shape->dims[dims.v[i]]);
        if (count == 0 || (best >= 0 && dims.v[i] > best)) continue;
        best = (int)dims.v[i];
        *parts = count;
    }
    return best;
}

/* Results that are independent work: whole rows, or rows of columns that stay together. */
static int64_t units_of(const struct hlo_instr *reduce) {
    const struct shape *from = reduce->operands[0]->shape;
    int64_t last = from->rank ? from->dims[from->rank - 1] : 1;
    bool columns = !reduce_is_trailing(reduce) && reduce->shape->count % (last ? last : 1) == 0;
    return columns ? reduce->shape->count / last : reduce->shape->count;
}

static bool is_large(const struct hlo_instr *reduce) {
    if (reduce->opcode != OP_REDUCE || reduce->noperands != 2 || reduce->ncontrol ||
        reduce->is_control_predecessor || !shape_is_array(reduce->shape))
        return false;
    const struct shape *from = reduce->operands[0]->shape;
    return !shape_is_dynamic(from) && from->count >= LEAST_ELEMENTS &&
           reduce->shape->count <= MOST_RESULTS && from->rank + 1 < SHAPE_MAX_RANK &&
           from->count / (reduce->shape->count ? reduce->shape->count : 1) >= 4 * MOST_PARTS &&
           units_of(reduce) < LEAST_PARTS;
}

/* [.., size, ..] as [.., parts, size / parts, ..]. */
static struct hlo_instr *split_operand(struct hlo_instr *reduce, int dim, int64_t parts) {
    struct hlo_instr *operand = reduce->operands[0];
    const struct shape *from = operand->shape;
    int64_t sizes[SHAPE_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < from->rank; d++) {
        if (d == dim) sizes[rank++] = parts;
        sizes[rank++] = d == dim ? from->dims[d] / parts : from->dims[d];
    }
    const struct shape *to = shape_array(reduce->parent->module->shapes, from->type, rank, sizes);
    return instr_new(reduce->parent, reduce, OP_RESHAPE, to, NULL, 1, &operand);
}

/* A constant that the reduction may start from any number of times; NULL where there is none. */
static struct hlo_instr *new_identity(struct pass_context *context, struct hlo_instr *reduce) {
    enum hlo_opcode op = reducer_operation(reduce->called[0]);
    struct literal *one =
        literal_new(shape_scalar(reduce->parent->module->shapes, reduce->shape->type));
    if (one && op && set_identity(one, op) && pass_may_rewrite(context))
        return instr_new_constant(reduce->parent, reduce, one);
    literal_unref(one);
    return NULL;
}

/* The reduction becomes one over dims of `operand`, whose results it then reduces over `places`. */
static void reduce_in_two(struct hlo_instr *reduce, struct hlo_instr *operand,
                          struct hlo_instr *identity, struct int_list dims,
                          struct int_list places) {
    int64_t sizes[SHAPE_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < operand->shape->rank; d++)
        if (!int_list_has(dims, d)) sizes[rank++] = operand->shape->dims[d];
    const struct shape *partial =
        shape_array(reduce->parent->module->shapes, reduce->shape->type, rank, sizes);
    struct hlo_instr *operands[2] = {operand, identity};
    struct hlo_instr *first = instr_clone(reduce, reduce->parent, reduce, partial, operands);
    instr_set_ints(first, ATTR_DIMENSIONS, dims.count, dims.v);
    instr_set_operand(reduce, 0, first);
    instr_set_ints(reduce, ATTR_DIMENSIONS, places.count, places.v);
}

static bool split(struct pass_context *context, struct hlo_instr *reduce) {
    int64_t parts = 0, dims[SHAPE_MAX_RANK], place = 0;
    if (!is_large(reduce)) return false;
    int dim = dimension_to_split(reduce, &parts);
    struct hlo_instr *identity = dim >= 0 ? new_identity(context, reduce) : NULL;
    if (!identity) return false;
    struct int_list old = instr_ints(reduce, ATTR_DIMENSIONS);
    for (int d = 0; d < dim; d++)
        place += !int_list_has(old, d);
    for (int i = 0; i < old.count; i++)
        dims[i] = old.v[i] >= dim ? old.v[i] + 1 : old.v[i];
    reduce_in_two(reduce, split_operand(reduce, dim, parts), identity,
                  (struct int_list){old.count, dims}, (struct int_list){1, &place});
    return true;
}

/* Where a short last dim is reduced and so are others, with kept ones in between: the others first,
 * row by row in vectors. */
static bool split_last(struct pass_context *context, struct hlo_instr *reduce) {
    enum { LEAST_SIZE = 1 << 12, SHORT = 32, LEAST_OTHERS = 8 };
    if (reduce->opcode != OP_REDUCE || reduce->noperands != 2 || reduce->ncontrol ||
        reduce->is_control_predecessor || !shape_is_array(reduce->shape))
        return false;
    const struct shape *from = reduce->operands[0]->shape;
    struct int_list old = instr_ints(reduce, ATTR_DIMENSIONS);
    if (shape_is_dynamic(from) || from->count < LEAST_SIZE || reduce_is_trailing(reduce))
        return false;
    int64_t last = 1, others = 1, dims[SHAPE_MAX_RANK], places[SHAPE_MAX_RANK];
    int d = from->rank - 1, nothers = 0, nlast = 0;
    for (; d >= 0 && int_list_has(old, d); d--)
        last *= from->dims[d];
    if (last <= 1 || last >= SHORT) return false;
    for (int i = 0; i < old.count; i++) {
        if (old.v[i] > d) continue;
        dims[nothers++] = old.v[i];
        others *= from->dims[old.v[i]];
    }
    if (others < LEAST_OTHERS) return false;
    struct hlo_instr *identity = new_identity(context, reduce);
    if (!identity) return false;
    for (int k = d + 1; k < from->rank; k++)
        places[nlast++] = k - nothers;
    reduce_in_two(reduce, reduce->operands[0], identity, (struct int_list){nothers, dims},
                  (struct int_list){nlast, places});
    return true;
}

bool reduction_splitter_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    changed |= split(context, instr) || split_last(context, instr);
    return changed;
}
