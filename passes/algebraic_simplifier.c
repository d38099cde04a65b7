/* Rewrites of arithmetic. None changes NaN, infinity or the sign of zero: x + 0 stays for floats,
 * since -0 + 0 is +0; x * 0 stays, x - x stays. */
#include <math.h>
#include <string.h>

#include "passes/rewrite.h"

/* ---- arithmetic ---- */

/* x + 0 of integers; x + -0 of floats. */
static struct hlo_instr *add_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_real_float(instr)) return NULL;
    struct hlo_instr *x = operand_beside(instr, is_real_float(instr) ? -0.0 : 0.0);
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
    struct hlo_instr *x = operand_beside(instr, 1.0);
    if (x) {
        MAY_REWRITE(context);
        return x;
    }
    if (!is_integer(instr) || !operand_beside(instr, 0.0)) return NULL;
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

/* -(-x). */
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

/* ---- signs ----
 * Of integers: a NaN keeps its sign in x - y and turns it in x + -y, which a sort by the total
 * order tells apart. */

static struct hlo_instr *negated(const struct hlo_instr *instr) {
    return instr->opcode == OP_NEGATE ? instr->operands[0] : NULL;
}

/* x + -y is x - y. */
static struct hlo_instr *add_negated(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr)) return NULL;
    for (int i = 0; i < 2; i++) {
        struct hlo_instr *y = negated(instr->operands[i]);
        if (!y) continue;
        MAY_REWRITE(context);
        return rewrite_binary(instr, OP_SUBTRACT, instr->shape, instr->operands[1 - i], y);
    }
    return NULL;
}

/* x - -y is x + y; 0 - x is -x. */
static struct hlo_instr *subtract_negated(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *y = negated(instr->operands[1]);
    if (!is_integer(instr)) return NULL;
    if (y) {
        MAY_REWRITE(context);
        return rewrite_binary(instr, OP_ADD, instr->shape, instr->operands[0], y);
    }
    if (!instr_is_splat(instr->operands[0], 0)) return NULL;
    MAY_REWRITE(context);
    return rewrite_unary(instr, OP_NEGATE, instr->shape, instr->operands[1]);
}

/* -x * -y is x * y. */
static struct hlo_instr *both_negated(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *x = negated(instr->operands[0]), *y = negated(instr->operands[1]);
    if (!x || !y || !is_integer(instr)) return NULL;
    MAY_REWRITE(context);
    return rewrite_binary(instr, instr->opcode, instr->shape, x, y);
}

/* x * -1 is -x. */
static struct hlo_instr *times_minus_one(struct pass_context *context, struct hlo_instr *instr) {
    bool has_it = element_type_is_signed(instr->shape->type);
    struct hlo_instr *x = has_it ? operand_beside(instr, -1.0) : NULL;
    if (!x) return NULL;
    MAY_REWRITE(context);
    return rewrite_unary(instr, OP_NEGATE, instr->shape, x);
}

/* |-x| is |x|, of floats: there is no sign left. */
static struct hlo_instr *abs_of_negated(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *x = negated(instr->operands[0]);
    if (!x || !is_real_float(instr) || !same_array(instr, x)) return NULL;
    MAY_REWRITE(context);
    return rewrite_unary(instr, OP_ABS, instr->shape, x);
}

/* Of integers, (x - y) + y is x, (x + y) - y is x. */
static struct hlo_instr *undo_sum(struct pass_context *context, struct hlo_instr *instr) {
    bool adds = instr->opcode == OP_ADD;
    if (!is_integer(instr)) return NULL;
    for (int i = 0; i < (adds ? 2 : 1); i++) {
        struct hlo_instr *inner = instr->operands[i], *y = instr->operands[1 - i], *x = NULL;
        if (inner->opcode != (adds ? OP_SUBTRACT : OP_ADD)) continue;
        if (inner->operands[1] == y) x = inner->operands[0];
        if (!adds && inner->operands[0] == y) x = inner->operands[1];
        if (!x) continue;
        MAY_REWRITE(context);
        return x;
    }
    return NULL;
}

/* Of integers: nothing remains of a division by 1 or -1. */
static struct hlo_instr *remainder_of_one(struct pass_context *context, struct hlo_instr *instr) {
    int64_t by;
    if (!is_integer(instr) || !splat_integer(instr->operands[1], &by)) return NULL;
    if (by != 1 && !(by == -1 && element_type_is_signed(instr->shape->type))) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 0);
}

/* What is rounded to an integer already. */
static struct hlo_instr *round_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    switch (operand->opcode) {
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND_NEAREST_AFZ:
    case OP_ROUND_NEAREST_EVEN: break;
    default: return NULL;
    }
    MAY_REWRITE(context);
    return operand;
}

/* ---- complex numbers ---- */

static struct hlo_instr *part_of_complex(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->opcode != OP_COMPLEX) return NULL;
    MAY_REWRITE(context);
    return operand->operands[instr->opcode == OP_IMAG];
}

static struct hlo_instr *complex_of_parts(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *real = instr->operands[0], *imag = instr->operands[1];
    if (real->opcode != OP_REAL || imag->opcode != OP_IMAG ||
        real->operands[0] != imag->operands[0])
        return NULL;
    MAY_REWRITE(context);
    return real->operands[0];
}

/* ---- conversions ---- */

/* Bits of an integer that a float type holds without rounding. */
static int integer_bits(enum element_type type) {
    switch (type) {
    case TYPE_F64: return 53;
    case TYPE_F32: return 24;
    case TYPE_F16: return 11;
    case TYPE_BF16: return 8;
    default: return 0;
    }
}

/* Every value of `narrow` comes back unchanged from `wide`. */
static bool holds_exactly(enum element_type wide, enum element_type narrow) {
    const struct element_type_info *w = element_type_info(wide), *n = element_type_info(narrow);
    if (narrow == TYPE_F16 || narrow == TYPE_BF16) return wide == TYPE_F32 || wide == TYPE_F64;
    if (narrow == TYPE_F32) return wide == TYPE_F64;
    if (narrow == TYPE_PRED)
        return integer_bits(wide) > 0 || (element_type_is_integral(wide) && w->bits >= 8);
    if (!element_type_is_integral(narrow)) return false;
    bool sign = element_type_is_signed(narrow);
    if (element_type_is_float(wide)) return n->bits - sign <= integer_bits(wide);
    if (!element_type_is_integral(wide)) return false;
    return w->kind == n->kind ? w->bits >= n->bits : !sign && w->bits > n->bits;
}

/* A number that went through a float is rounded, or cut to the range of integers, as from there:
 * not where that takes another way from the type it had before. */
static bool converts_alike(enum element_type from, enum element_type by, enum element_type to) {
    if (!element_type_is_float(by) || element_type_is_float(from) || from == to) return true;
    if (element_type_is_float(to)) return by == TYPE_F32 || to == TYPE_F32 || to == TYPE_F64;
    return to == TYPE_PRED || holds_exactly(to, from);
}

/* There and back is nothing; by way of a type that holds every value is straight there. */
static struct hlo_instr *convert_back(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    enum element_type to = instr->shape->type, by = operand->shape->type;
    if (by == to) {
        MAY_REWRITE(context);
        return operand;
    }
    if (operand->opcode != OP_CONVERT) return NULL;
    struct hlo_instr *x = operand->operands[0];
    enum element_type from = x->shape->type;
    if (!holds_exactly(by, from) || !converts_alike(from, by, to)) return NULL;
    MAY_REWRITE(context);
    return from == to ? x : rewrite_unary(instr, OP_CONVERT, instr->shape, x);
}

/* The bits of one type seen as another and then as a third, element by element. */
static struct hlo_instr *bitcast_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->opcode != OP_BITCAST_CONVERT) return NULL;
    struct hlo_instr *x = operand->operands[0];
    if (!shape_same_dims(instr->shape, operand->shape) || !shape_same_dims(instr->shape, x->shape))
        return NULL;
    MAY_REWRITE(context);
    if (same_array(instr, x)) return x;
    return rewrite_unary(instr, OP_BITCAST_CONVERT, instr->shape, x);
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
    {OP_ADD, add_negated},
    {OP_ADD, undo_sum},
    {OP_ADD, rewrite_merge_constants},
    {OP_SUBTRACT, subtract_zero},
    {OP_SUBTRACT, subtract_negated},
    {OP_SUBTRACT, undo_sum},
    {OP_MULTIPLY, multiply_one},
    {OP_MULTIPLY, both_negated},
    {OP_MULTIPLY, times_minus_one},
    {OP_MULTIPLY, rewrite_merge_constants},
    {OP_DIVIDE, divide_by_constant},
    {OP_REMAINDER, remainder_of_one},
    {OP_POWER, power_of_constant},
    {OP_NEGATE, undo_twice},
    {OP_ABS, same_twice},
    {OP_ABS, abs_of_negated},
    {OP_SIGN, same_twice},
    {OP_FLOOR, round_twice},
    {OP_CEIL, round_twice},
    {OP_ROUND_NEAREST_AFZ, round_twice},
    {OP_ROUND_NEAREST_EVEN, round_twice},
    {OP_REAL, part_of_complex},
    {OP_IMAG, part_of_complex},
    {OP_COMPLEX, complex_of_parts},
    {OP_CONVERT, convert_back},
    {OP_BITCAST_CONVERT, same_shape},
    {OP_BITCAST_CONVERT, bitcast_twice},
    {OP_COPY, same_shape},
    {OP_BITCAST, same_shape},
};

bool algebraic_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
