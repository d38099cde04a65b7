/* Rewrites of arithmetic. None changes NaN, infinity or the sign of zero: x + 0 stays for floats
 * (-0
 * + 0 is +0), x * 0 stays, x - x stays. */
#include <math.h>
#include <string.h>

#include "passes/rewrite.h"

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

/* The operand that is not a splat of `value`, where one of the two is. */
static struct hlo_instr *other_than(const struct hlo_instr *instr, double value) {
    if (instr_is_splat(instr->operands[1], value)) return instr->operands[0];
    if (instr_is_splat(instr->operands[0], value)) return instr->operands[1];
    return NULL;
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
    return factor ? rewrite_binary(instr, OP_MULTIPLY, instr->shape, instr->operands[0], factor)
                  : NULL;
}

/* x^1 is x, x^2 is x * x, x^-1 is 1 / x, x^0 is 1 (of NaN too). */
static struct hlo_instr *power_of_constant(struct pass_context *context, struct hlo_instr *instr) {
    double value;
    if (!is_real_float(instr) || !splat_value(instr->operands[1], &value)) return NULL;
    struct hlo_instr *x = instr->operands[0];
    if (value != 0 && value != 1 && value != 2 && value != -1) return NULL;
    MAY_REWRITE(context);
    if (value == 1) return x;
    if (value == 2) return rewrite_binary(instr, OP_MULTIPLY, instr->shape, x, x);
    struct hlo_instr *one = instr_new_splat(instr, instr->shape, 1);
    if (value == 0 || !one) return one;
    return rewrite_binary(instr, OP_DIVIDE, instr->shape, one, x);
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

/* There and back is nothing; by way of a type that holds every value is straight there. */
static struct hlo_instr *convert_back(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->shape->type == instr->shape->type) {
        MAY_REWRITE(context);
        return operand;
    }
    if (operand->opcode != OP_CONVERT) return NULL;
    struct hlo_instr *x = operand->operands[0];
    if (!holds_exactly(operand->shape->type, x->shape->type)) return NULL;
    MAY_REWRITE(context);
    return x->shape->type == instr->shape->type ? x
                                                : rewrite_unary(instr, OP_CONVERT, instr->shape, x);
}

/* What changes nothing. */
static struct hlo_instr *same_shape(struct pass_context *context, struct hlo_instr *instr) {
    if (!same_array(instr, instr->operands[0])) return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

/* ---- the table ---- */

static const struct rewrite rewrites[] = {
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
};

bool algebraic_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
