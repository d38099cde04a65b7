/* Rewrites by opcode. None changes NaN, infinity or the sign of zero: x + 0 stays for floats (-0 +
 * 0 is +0), x * 0 stays, x - x stays. A rule returns what stands for the instruction, which may be
 * new and then stands before it, or NULL. Rules ask pass_may_rewrite once they are sure. */
#include <math.h>
#include <string.h>

#include "passes/pass.h"
#include "passes/util.h"

#define MAY_REWRITE(context)                                                                       \
    do {                                                                                           \
        if (!pass_may_rewrite(context)) return NULL;                                               \
    } while (0)

typedef struct hlo_instr *rule(struct pass_context *context, struct hlo_instr *instr);

static bool is_real_float(const struct hlo_instr *instr) {
    return element_type_is_float(instr->shape->type);
}

/* Integers; pred counts where its operation is the bitwise one. */
static bool is_integer(const struct hlo_instr *instr) {
    return element_type_is_integral(instr->shape->type);
}

static bool is_pred(const struct hlo_instr *instr) {
    return instr->shape->type == TYPE_PRED;
}

/* The same array in the same bytes. */
static bool same_array(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (a->shape == b->shape) return true;
    if (!shape_is_array(a->shape) || !shape_compatible(a->shape, b->shape)) return false;
    for (int i = 0; i < a->shape->rank; i++)
        if (shape_minor_to_major(a->shape, i) != shape_minor_to_major(b->shape, i)) return false;
    return true;
}

/* The operand that is not a splat of `value`, where one of the two is. */
static struct hlo_instr *other_than(const struct hlo_instr *instr, double value) {
    if (instr_is_splat(instr->operands[1], value)) return instr->operands[0];
    if (instr_is_splat(instr->operands[0], value)) return instr->operands[1];
    return NULL;
}

static struct hlo_instr *binary(struct hlo_instr *before, enum hlo_opcode opcode,
                                struct hlo_instr *a, struct hlo_instr *b) {
    struct hlo_instr *operands[2] = {a, b};
    struct hlo_instr *result =
        instr_new(before->parent, before, opcode, before->shape, NULL, 2, operands);
    result->metadata = before->metadata;
    return result;
}

/* ---- arithmetic ---- */

/* x + 0 of integers; x + -0 of floats. */
static struct hlo_instr *add_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_real_float(instr)) return NULL;
    struct hlo_instr *x = other_than(instr, is_real_float(instr) ? -0.0 : 0.0);
    if (x) MAY_REWRITE(context);
    return x;
}

/* x - 0; x - x of integers is 0. */
static struct hlo_instr *subtract_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_real_float(instr)) return NULL;
    if (instr_is_splat(instr->operands[1], 0.0)) {
        MAY_REWRITE(context);
        return instr->operands[0];
    }
    if (!is_integer(instr) || instr->operands[0] != instr->operands[1]) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 0);
}

/* x * 1; x * 0 of integers is 0. */
static struct hlo_instr *multiply_one(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_real_float(instr)) return NULL;
    struct hlo_instr *x = other_than(instr, 1.0);
    if (x) {
        MAY_REWRITE(context);
        return x;
    }
    if (!is_integer(instr) || !other_than(instr, 0.0)) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 0);
}

/* The value of a splat constant; false where it is none. */
static bool splat_value(const struct hlo_instr *instr, double *value) {
    const struct hlo_instr *constant = instr->opcode == OP_BROADCAST ? instr->operands[0] : instr;
    if (!instr_is_constant(constant) || constant->shape->count < 1) return false;
    if (!element_type_is_float(constant->shape->type)) return false;
    *value = literal_get_double(constant->literal, 0);
    return instr_is_splat(instr, *value);
}

/* x / 1; x / 2^k is x * 2^-k, which is exact. */
static struct hlo_instr *divide_by_constant(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_real_float(instr)) return NULL;
    if (instr_is_splat(instr->operands[1], 1.0)) {
        MAY_REWRITE(context);
        return instr->operands[0];
    }
    double value;
    int exponent;
    enum element_type type = instr->shape->type;
    if ((type != TYPE_F32 && type != TYPE_F64) || !splat_value(instr->operands[1], &value))
        return NULL;
    if (!isfinite(value) || fabs(frexp(value, &exponent)) != 0.5) return NULL;
    if (exponent < -100 || exponent > 100) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *factor = instr_new_splat(instr, instr->shape, 1.0 / value);
    return factor ? binary(instr, OP_MULTIPLY, instr->operands[0], factor) : NULL;
}

/* x^1 is x, x^2 is x * x, x^-1 is 1 / x, x^0 is 1 (of NaN too). */
static struct hlo_instr *power_of_constant(struct pass_context *context, struct hlo_instr *instr) {
    double value;
    if (!is_real_float(instr) || !splat_value(instr->operands[1], &value)) return NULL;
    struct hlo_instr *x = instr->operands[0];
    if (value != 0 && value != 1 && value != 2 && value != -1) return NULL;
    MAY_REWRITE(context);
    if (value == 1) return x;
    if (value == 2) return binary(instr, OP_MULTIPLY, x, x);
    struct hlo_instr *one = instr_new_splat(instr, instr->shape, 1);
    if (value == 0 || !one) return one;
    return binary(instr, OP_DIVIDE, one, x);
}

/* -(-x), not(not x). */
static struct hlo_instr *undo_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->opcode != instr->opcode) return NULL;
    MAY_REWRITE(context);
    return operand->operands[0];
}

/* abs(abs x) and the like. */
static struct hlo_instr *same_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->opcode != instr->opcode || operand->shape != instr->shape) return NULL;
    MAY_REWRITE(context);
    return operand;
}

/* x & x, x & all ones is x; x & 0 is 0. */
static struct hlo_instr *and_constant(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_pred(instr)) return NULL;
    struct hlo_instr *x = instr->operands[0];
    if (x != instr->operands[1]) {
        double ones = is_pred(instr) ? 1 : -1;
        bool has_ones = is_pred(instr) || element_type_is_signed(instr->shape->type);
        x = has_ones ? other_than(instr, ones) : NULL;
    }
    if (x) {
        MAY_REWRITE(context);
        return x;
    }
    if (!other_than(instr, 0)) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 0);
}

/* x | x, x | 0 is x; x | true is true. */
static struct hlo_instr *or_constant(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_pred(instr)) return NULL;
    struct hlo_instr *x = instr->operands[0];
    if (x != instr->operands[1]) x = other_than(instr, 0);
    if (x) {
        MAY_REWRITE(context);
        return x;
    }
    if (!is_pred(instr) || !other_than(instr, 1)) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 1);
}

static struct hlo_instr *xor_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_pred(instr)) return NULL;
    struct hlo_instr *x = other_than(instr, 0);
    if (x) MAY_REWRITE(context);
    return x;
}

/* The larger or smaller of x and x. */
static struct hlo_instr *extreme_of_same(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->operands[0] != instr->operands[1]) return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

static struct hlo_instr *shift_by_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!instr_is_splat(instr->operands[1], 0)) return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

/* x == x and its kind, of integers. */
static struct hlo_instr *compare_same(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->operands[0] != instr->operands[1]) return NULL;
    if (!is_integer(instr->operands[0]) && !is_pred(instr->operands[0])) return NULL;
    int64_t way = instr_int(instr, ATTR_DIRECTION, 0);
    bool holds = way == ENUM_DIRECTION_EQ || way == ENUM_DIRECTION_GE || way == ENUM_DIRECTION_LE;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, holds);
}

static struct hlo_instr *select_known(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *with = NULL;
    if (instr->operands[1] == instr->operands[2])
        with = instr->operands[1];
    else if (instr_is_splat(instr->operands[0], 1))
        with = instr->operands[1];
    else if (instr_is_splat(instr->operands[0], 0))
        with = instr->operands[2];
    else if (is_pred(instr) && instr_is_splat(instr->operands[1], 1) &&
             instr_is_splat(instr->operands[2], 0) && same_array(instr, instr->operands[0]))
        with = instr->operands[0];
    if (with) MAY_REWRITE(context);
    return with;
}

/* ---- conversions ---- */

/* Every value of `narrow` comes back unchanged from `wide`. */
static bool holds_exactly(enum element_type wide, enum element_type narrow) {
    const struct element_type_info *w = element_type_info(wide), *n = element_type_info(narrow);
    if (narrow == TYPE_F16 || narrow == TYPE_BF16) return wide == TYPE_F32 || wide == TYPE_F64;
    if (narrow == TYPE_F32) return wide == TYPE_F64;
    if (element_type_is_integral(narrow) && element_type_is_integral(wide))
        return w->kind == n->kind && w->bits >= n->bits;
    return narrow == TYPE_PRED && element_type_is_integral(wide) && w->bits >= 8;
}

static struct hlo_instr *convert_back(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->shape->type == instr->shape->type) {
        MAY_REWRITE(context);
        return operand;
    }
    if (operand->opcode != OP_CONVERT) return NULL;
    struct hlo_instr *x = operand->operands[0];
    if (x->shape->type != instr->shape->type) return NULL;
    if (!holds_exactly(operand->shape->type, x->shape->type)) return NULL;
    MAY_REWRITE(context);
    return x;
}

/* What changes nothing. */
static struct hlo_instr *same_shape(struct pass_context *context, struct hlo_instr *instr) {
    if (!same_array(instr, instr->operands[0])) return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

/* ---- moving data ---- */

static bool is_scalar_broadcast(const struct hlo_instr *instr) {
    return instr->opcode == OP_BROADCAST && instr->operands[0]->shape->rank == 0;
}

/* A scalar spread over the instruction's result. */
static struct hlo_instr *spread_scalar(struct pass_context *context, struct hlo_instr *instr,
                                       struct hlo_instr *scalar) {
    MAY_REWRITE(context);
    if (instr->shape->rank == 0) return scalar;
    struct hlo_instr *spread =
        instr_new(instr->parent, instr, OP_BROADCAST, instr->shape, NULL, 1, &scalar);
    instr_set_ints(spread, ATTR_DIMENSIONS, 0, NULL);
    spread->metadata = instr->metadata;
    return spread;
}

static struct hlo_instr *move_reshape(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (shape_is_dynamic(instr->shape) || shape_is_dynamic(operand->shape)) return NULL;
    if (same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (is_scalar_broadcast(operand)) return spread_scalar(context, instr, operand->operands[0]);
    if (operand->opcode != OP_RESHAPE) return NULL;
    MAY_REWRITE(context);
    return instr_clone(instr, instr->parent, instr, NULL, operand->operands);
}

static bool is_identity(struct int_list dims) {
    for (int i = 0; i < dims.count; i++)
        if (dims.v[i] != i) return false;
    return true;
}

static struct hlo_instr *move_transpose(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (is_identity(dims) && same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (is_scalar_broadcast(operand)) return spread_scalar(context, instr, operand->operands[0]);
    if (operand->opcode != OP_TRANSPOSE) return NULL;
    struct int_list inner = instr_ints(operand, ATTR_DIMENSIONS);
    int64_t both[SHAPE_MAX_RANK];
    for (int i = 0; i < dims.count; i++)
        both[i] = inner.v[dims.v[i]];
    MAY_REWRITE(context);
    struct hlo_instr *with = instr_clone(instr, instr->parent, instr, NULL, operand->operands);
    instr_set_ints(with, ATTR_DIMENSIONS, dims.count, both);
    return with;
}

static struct hlo_instr *move_broadcast(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (is_identity(dims) && same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (operand->opcode != OP_BROADCAST || shape_is_dynamic(instr->shape)) return NULL;
    struct int_list inner = instr_ints(operand, ATTR_DIMENSIONS);
    int64_t both[SHAPE_MAX_RANK];
    for (int i = 0; i < inner.count; i++)
        both[i] = dims.v[inner.v[i]];
    MAY_REWRITE(context);
    struct hlo_instr *with = instr_clone(instr, instr->parent, instr, NULL, operand->operands);
    instr_set_ints(with, ATTR_DIMENSIONS, inner.count, both);
    return with;
}

/* A slice of everything, or of one number spread out. */
static struct hlo_instr *move_slice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (shape_is_dynamic(operand->shape)) return NULL;
    if (same_array(instr, operand)) {
        MAY_REWRITE(context);
        return operand;
    }
    if (is_scalar_broadcast(operand)) return spread_scalar(context, instr, operand->operands[0]);
    return NULL;
}

static struct hlo_instr *move_nothing(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (shape_is_dynamic(operand->shape) || !same_array(instr, operand)) return NULL;
    MAY_REWRITE(context);
    return operand;
}

/* No padding at all: negative edges could make up for others. */
static struct hlo_instr *pad_nothing(struct pass_context *context, struct hlo_instr *instr) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_PADDING);
    for (int i = 0; attr && i < attr->padding->count; i++) {
        const struct padding_dim *dim = &attr->padding->v[i];
        if (dim->low || dim->high || dim->interior) return NULL;
    }
    return attr ? move_nothing(context, instr) : NULL;
}

static struct hlo_instr *concatenate_one(struct pass_context *context, struct hlo_instr *instr) {
    return instr->noperands == 1 ? move_nothing(context, instr) : NULL;
}

/* The update covers everything, wherever it starts: starts are clamped. */
static struct hlo_instr *update_all(struct pass_context *context, struct hlo_instr *instr) {
    if (shape_is_dynamic(instr->shape) || !same_array(instr, instr->operands[1])) return NULL;
    MAY_REWRITE(context);
    return instr->operands[1];
}

static struct hlo_instr *reverse_nothing(struct pass_context *context, struct hlo_instr *instr) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    for (int i = 0; i < dims.count; i++)
        if (instr->shape->dims[dims.v[i]] > 1) return NULL;
    return move_nothing(context, instr);
}

static struct hlo_instr *known_size(struct pass_context *context, struct hlo_instr *instr) {
    const struct shape *shape = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (shape_is_dynamic(shape) || dims.count != 1) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, (double)shape->dims[dims.v[0]]);
}

/* ---- the table ---- */

static const struct {
    enum hlo_opcode opcode;
    rule *apply;
} rules[] = {
    {OP_ADD, add_zero},
    {OP_SUBTRACT, subtract_zero},
    {OP_MULTIPLY, multiply_one},
    {OP_DIVIDE, divide_by_constant},
    {OP_POWER, power_of_constant},
    {OP_NEGATE, undo_twice},
    {OP_NOT, undo_twice},
    {OP_ABS, same_twice},
    {OP_AND, and_constant},
    {OP_OR, or_constant},
    {OP_XOR, xor_zero},
    {OP_MAXIMUM, extreme_of_same},
    {OP_MINIMUM, extreme_of_same},
    {OP_SHIFT_LEFT, shift_by_zero},
    {OP_SHIFT_RIGHT_LOGICAL, shift_by_zero},
    {OP_SHIFT_RIGHT_ARITHMETIC, shift_by_zero},
    {OP_COMPARE, compare_same},
    {OP_SELECT, select_known},
    {OP_CONVERT, convert_back},
    {OP_BITCAST_CONVERT, same_shape},
    {OP_COPY, same_shape},
    {OP_BITCAST, same_shape},
    {OP_RESHAPE, move_reshape},
    {OP_TRANSPOSE, move_transpose},
    {OP_BROADCAST, move_broadcast},
    {OP_SLICE, move_slice},
    {OP_DYNAMIC_SLICE, move_nothing},
    {OP_PAD, pad_nothing},
    {OP_CONCATENATE, concatenate_one},
    {OP_DYNAMIC_UPDATE_SLICE, update_all},
    {OP_REVERSE, reverse_nothing},
    {OP_GET_DIMENSION_SIZE, known_size},
};

static struct hlo_instr *simplify(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->ncontrol || instr->is_control_predecessor || !shape_is_array(instr->shape))
        return NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].opcode != instr->opcode) continue;
        struct hlo_instr *with = rules[i].apply(context, instr);
        if (with) return with;
    }
    return NULL;
}

/* What replaces an instruction may be simplified again; each step makes it smaller, and a handful
 * is all that there can be. */
static bool simplify_instr(struct pass_context *context, struct hlo_instr *instr) {
    enum { MOST_STEPS = 16 };
    bool changed = false;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct hlo_instr *with = simplify(context, instr);
        if (!with || with == instr || !same_array(instr, with)) break;
        bool is_new = !instr_has_users(with);
        instr_replace_uses(instr, with);
        changed = true;
        if (!is_new) break;
        instr = with;
    }
    return changed;
}

bool algebraic_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation)
        if (instr_has_users(instr) || computation->root == instr)
            changed |= simplify_instr(context, instr);
    }
    return changed;
}
