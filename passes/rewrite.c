#include "passes/rewrite.h"

bool same_array(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (a->shape == b->shape) return true;
    if (!shape_is_array(a->shape) || !shape_compatible(a->shape, b->shape)) return false;
    for (int i = 0; i < a->shape->rank; i++)
        if (shape_minor_to_major(a->shape, i) != shape_minor_to_major(b->shape, i)) return false;
    return true;
}

const struct shape *rewrite_array(const struct hlo_instr *near, enum element_type type, int rank,
                                  const int64_t *dims) {
    struct shape_table *shapes = near->parent->module->shapes;
    return shape_with_default_layouts(shapes, shape_array(shapes, type, rank, dims));
}

struct hlo_instr *rewrite_unary(struct hlo_instr *before, enum hlo_opcode opcode,
                                const struct shape *shape, struct hlo_instr *operand) {
    struct hlo_instr *result = instr_new(before->parent, before, opcode, shape, NULL, 1, &operand);
    result->metadata = before->metadata;
    return result;
}

struct hlo_instr *rewrite_binary(struct hlo_instr *before, enum hlo_opcode opcode,
                                 const struct shape *shape, struct hlo_instr *a,
                                 struct hlo_instr *b) {
    struct hlo_instr *operands[2] = {a, b};
    struct hlo_instr *result = instr_new(before->parent, before, opcode, shape, NULL, 2, operands);
    result->metadata = before->metadata;
    return result;
}

struct hlo_instr *rewrite_broadcast(struct hlo_instr *before, const struct shape *shape,
                                    struct hlo_instr *operand, int count, const int64_t *dims) {
    struct hlo_instr *result = rewrite_unary(before, OP_BROADCAST, shape, operand);
    instr_set_ints(result, ATTR_DIMENSIONS, count, dims);
    return result;
}

struct hlo_instr *rewrite_slice(struct hlo_instr *before, const struct shape *shape,
                                struct hlo_instr *operand, const struct slice_dim *dims) {
    struct arena *arena = before->parent->module->arena;
    struct slice_list *list = arena_alloc(arena, sizeof *list);
    size_t size = (size_t)shape->rank * sizeof *dims;
    *list = (struct slice_list){shape->rank, arena_copy(arena, dims, size)};
    struct hlo_instr *slice = rewrite_unary(before, OP_SLICE, shape, operand);
    struct hlo_attr attr = {.key = ATTR_SLICE, .slices = list};
    instr_set_attr(slice, &attr);
    return slice;
}

struct hlo_instr *rewrite_slice_at(struct hlo_instr *before, struct hlo_instr *operand, int dim,
                                   int64_t place) {
    const struct shape *shape = operand->shape;
    struct slice_dim dims[SHAPE_MAX_RANK];
    int64_t sizes[SHAPE_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) {
        dims[d] = (struct slice_dim){0, shape->dims[d], 1};
        if (d == dim) dims[d] = (struct slice_dim){place, place + 1, 1};
        sizes[d] = dims[d].limit - dims[d].start;
    }
    return rewrite_slice(before, rewrite_array(before, shape->type, shape->rank, sizes), operand,
                         dims);
}

struct hlo_instr *rewrite_sum(struct hlo_instr *before, struct hlo_instr *value, int64_t dim,
                              const struct shape *shape) {
    struct hlo_module *module = before->parent->module;
    const struct shape *scalar = shape_scalar(module->shapes, shape->type);
    struct hlo_computation *sum = computation_new(module, "sum", true);
    struct hlo_instr *terms[2] = {instr_new_parameter(sum, 0, scalar, "a"),
                                  instr_new_parameter(sum, 1, scalar, "b")};
    computation_index_parameters(sum);
    computation_set_root(sum, instr_new(sum, NULL, OP_ADD, scalar, NULL, 2, terms));
    struct hlo_instr *result =
        rewrite_binary(before, OP_REDUCE, shape, value, instr_new_splat(before, scalar, 0));
    instr_set_ints(result, ATTR_DIMENSIONS, 1, &dim);
    instr_set_called(result, 1, &sum);
    return result;
}

bool is_scalar_broadcast(const struct hlo_instr *instr) {
    return instr->opcode == OP_BROADCAST && instr->operands[0]->shape->rank == 0;
}

bool is_real_float(const struct hlo_instr *instr) {
    return element_type_is_float(instr->shape->type);
}

bool is_integer(const struct hlo_instr *instr) {
    return element_type_is_integral(instr->shape->type);
}

bool is_pred(const struct hlo_instr *instr) {
    return instr->shape->type == TYPE_PRED;
}

struct hlo_instr *operand_beside(const struct hlo_instr *instr, double value) {
    if (instr_is_splat(instr->operands[1], value)) return instr->operands[0];
    if (instr_is_splat(instr->operands[0], value)) return instr->operands[1];
    return NULL;
}

bool splat_integer(const struct hlo_instr *instr, int64_t *value) {
    if (is_scalar_broadcast(instr)) instr = instr->operands[0];
    if (!instr_is_constant(instr) || instr->shape->count != 1 || !is_integer(instr)) return false;
    *value = literal_get_int(instr->literal, 0);
    return true;
}

static bool is_non_negative(const struct hlo_instr *instr, int depth) {
    enum element_type type = instr->shape->type;
    int64_t value;
    if (element_type_is_unsigned(type) || type == TYPE_PRED) return true;
    if (!element_type_is_signed(type) || depth == 0) return false;
    if (splat_integer(instr, &value)) return value >= 0;
    int bits = element_type_info(type)->bits;
    struct hlo_instr *const *of = instr->operands;
    switch (instr->opcode) {
    case OP_IOTA: {
        int64_t size = instr->shape->dims[instr_int(instr, ATTR_IOTA_DIMENSION, 0)];
        return bits >= 32 || size <= INT64_C(1) << (bits - 1);
    }
    case OP_CONVERT: {
        enum element_type from = of[0]->shape->type;
        bool widens = from == TYPE_PRED ||
                      (element_type_is_unsigned(from) && element_type_info(from)->bits < bits);
        bool same = element_type_is_signed(from) && element_type_info(from)->bits <= bits;
        return widens || (same && is_non_negative(of[0], depth - 1));
    }
    case OP_AND:
    case OP_MAXIMUM: return is_non_negative(of[0], depth - 1) || is_non_negative(of[1], depth - 1);
    case OP_OR:
    case OP_MINIMUM: return is_non_negative(of[0], depth - 1) && is_non_negative(of[1], depth - 1);
    case OP_CLAMP: return is_non_negative(of[0], depth - 1) && is_non_negative(of[2], depth - 1);
    case OP_SELECT: return is_non_negative(of[1], depth - 1) && is_non_negative(of[2], depth - 1);
    case OP_SHIFT_RIGHT_LOGICAL: return splat_integer(of[1], &value) && value != 0;
    case OP_REMAINDER:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_REVERSE:
    case OP_DYNAMIC_SLICE:
    case OP_GATHER:
    case OP_COPY: return is_non_negative(of[0], depth - 1);
    default: return false;
    }
}

bool instr_is_non_negative(const struct hlo_instr *instr) {
    enum { MOST_DEPTH = 5 };
    return is_non_negative(instr, MOST_DEPTH);
}

static bool is_spread_constant(const struct hlo_instr *instr) {
    return instr_is_constant(instr) ||
           (is_scalar_broadcast(instr) && instr_is_constant(instr->operands[0]));
}

struct hlo_instr *rewrite_merge_constants(struct pass_context *context, struct hlo_instr *instr) {
    bool extreme = instr->opcode == OP_MAXIMUM || instr->opcode == OP_MINIMUM;
    if (!is_integer(instr) && !is_pred(instr) && !(extreme && is_real_float(instr))) return NULL;
    for (int i = 0; i < 4; i++) {
        struct hlo_instr *inner = instr->operands[i / 2], *d = instr->operands[1 - i / 2];
        if (inner->opcode != instr->opcode || !is_spread_constant(d)) continue;
        struct hlo_instr *x = inner->operands[i % 2], *c = inner->operands[1 - i % 2];
        if (!is_spread_constant(c) || is_spread_constant(x)) continue;
        MAY_REWRITE(context);
        struct hlo_instr *both = rewrite_binary(instr, instr->opcode, instr->shape, c, d);
        return rewrite_binary(instr, instr->opcode, instr->shape, x, both);
    }
    return NULL;
}

static struct hlo_instr *apply(struct pass_context *context, struct hlo_instr *instr,
                               const struct rewrite *rewrites, int count) {
    if (instr->ncontrol || instr->is_control_predecessor) return NULL;
    for (int i = 0; i < count; i++) {
        if (rewrites[i].opcode != instr->opcode) continue;
        struct hlo_instr *with = rewrites[i].apply(context, instr);
        if (with) return with;
    }
    return NULL;
}

/* What replaces an instruction may be rewritten again; each step makes it smaller, and a handful is
 * all that there can be. */
static bool rewrite_instr(struct pass_context *context, struct hlo_instr *instr,
                          const struct rewrite *rewrites, int count) {
    enum { MOST_STEPS = 16 };
    bool changed = false;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct hlo_instr *with = apply(context, instr, rewrites, count);
        if (!with || with == instr || !same_array(instr, with)) break;
        bool is_new = !instr_has_users(with);
        instr_replace_uses(instr, with);
        changed = true;
        if (!is_new) break;
        instr = with;
    }
    return changed;
}

bool rewrites_run(struct pass_context *context, struct hlo_module *module,
                  const struct rewrite *rewrites, int count) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr_has_users(instr) || computation->root == instr)
        changed |= rewrite_instr(context, instr, rewrites, count);
    return changed;
}
