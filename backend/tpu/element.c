#include "backend/tpu/element.h"

#include <string.h>

static int32_t float_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

treg f_const_bin(struct kernel *k, enum tpu_op op, treg x, float c) {
    return k_binary_i(k, op, x, float_bits(c));
}

treg f_neg(struct kernel *k, treg x) {
    return k_binary_i(k, TPU_VXOR, x, INT32_MIN);
}

treg f_abs(struct kernel *k, treg x) {
    return k_binary_i(k, TPU_VAND, x, INT32_MAX);
}

treg element_mask(struct kernel *k, struct tval pred) {
    return k_binary_i(k, TPU_VNE, pred.v[0], 0);
}

struct tval element_pred(struct kernel *k, treg mask) {
    return (struct tval){{k_select(k, mask, k_const(k, 1), k_const(k, 0)), 0}};
}

struct tval element_select(struct kernel *k, treg mask, struct tval yes, struct tval no) {
    struct tval result = {{k_select(k, mask, yes.v[0], no.v[0]), 0}};
    if (yes.v[1]) result.v[1] = k_select(k, mask, yes.v[1], no.v[1]);
    return result;
}

struct tval element_literal(struct kernel *k, const struct literal *literal, int64_t index) {
    enum element_type type = literal->shape->type;
    double parts[2] = {0, 0};
    if (element_type_is_complex(type)) {
        literal_get_complex(literal, index, parts);
        return (struct tval){{k_fconst(k, (float)parts[0]), k_fconst(k, (float)parts[1])}};
    }
    if (element_type_is_float(type)) {
        /* f32 keeps its bits, NaN payloads too. */
        int32_t bits;
        if (type == TYPE_F32)
            memcpy(&bits, (const char *)literal->data + 4 * index, sizeof bits);
        else
            bits = float_bits((float)literal_get_double(literal, index));
        return (struct tval){{k_const(k, bits), 0}};
    }
    int64_t value = literal_get_int(literal, index);
    struct tval result = {{k_const(k, (int32_t)value), 0}};
    if (element_type_size(type) == 8) result.v[1] = k_const(k, (int32_t)(value >> 32));
    return result;
}

/* ---- floats ---- */

static const struct {
    enum hlo_opcode opcode;
    enum tpu_op op;
} float_ops[] = {
    {OP_ADD, TPU_VADDF},        {OP_SUBTRACT, TPU_VSUBF},
    {OP_MULTIPLY, TPU_VMULF},   {OP_MAXIMUM, TPU_VMAXF},
    {OP_MINIMUM, TPU_VMINF},    {OP_DIVIDE, TPU_EDIV},
    {OP_REMAINDER, TPU_EREM},   {OP_POWER, TPU_EPOW},
    {OP_ATAN2, TPU_EATAN2},     {OP_FLOOR, TPU_VFLOOR},
    {OP_CEIL, TPU_VCEIL},       {OP_ROUND_NEAREST_EVEN, TPU_VRINT},
    {OP_EXPONENTIAL, TPU_EEXP}, {OP_EXPONENTIAL_MINUS_ONE, TPU_EEXPM1},
    {OP_LOG, TPU_ELOG},         {OP_LOG_PLUS_ONE, TPU_ELOG1P},
    {OP_TANH, TPU_ETANH},       {OP_LOGISTIC, TPU_ESIGMOID},
    {OP_SINE, TPU_ESIN},        {OP_COSINE, TPU_ECOS},
    {OP_TAN, TPU_ETAN},         {OP_ERF, TPU_EERF},
    {OP_CBRT, TPU_ECBRT},       {OP_SQRT, TPU_ESQRT},
    {OP_RSQRT, TPU_ERSQRT},     {OP_ROUND_NEAREST_AFZ, TPU_VROUND},
};

static enum tpu_op float_op(enum hlo_opcode opcode) {
    for (size_t i = 0; i < sizeof float_ops / sizeof *float_ops; i++)
        if (float_ops[i].opcode == opcode) return float_ops[i].op;
    return TPU_EMPTY;
}

treg f_bin(struct kernel *k, enum hlo_opcode opcode, treg x, treg y) {
    enum tpu_op op = float_op(opcode);
    if (tpu_op_info(op)->slot == TPU_CLASS_MISC) return k_eup(k, op, x, y);
    return k_binary(k, op, x, y);
}

static treg f_sqrt(struct kernel *k, treg x) {
    return k_eup(k, TPU_ESQRT, x, 0);
}

static treg with_sign(struct kernel *k, treg x, treg sign) {
    sign = k_binary_i(k, TPU_VAND, sign, INT32_MIN);
    return k_binary(k, TPU_VOR, f_abs(k, x), sign);
}

static treg f_sign(struct kernel *k, treg x) {
    treg is_zero = f_const_bin(k, TPU_VEQF, x, 0), is_nan = k_binary(k, TPU_VNEF, x, x);
    treg one = with_sign(k, k_fconst(k, 1), x);
    /* Zeros keep their sign: a subnormal counts as one. */
    treg zero = k_binary_i(k, TPU_VAND, x, INT32_MIN);
    return k_select(k, is_nan, x, k_select(k, is_zero, zero, one));
}

/* sqrt((1 - x) (1 + x)) */
static treg f_cosine_of_asin(struct kernel *k, treg x) {
    treg one = k_fconst(k, 1);
    treg product =
        k_binary(k, TPU_VMULF, k_binary(k, TPU_VSUBF, one, x), k_binary(k, TPU_VADDF, one, x));
    return f_sqrt(k, product);
}

/* (e^|x| +- e^-|x|) / 2 by halves of the exponent, which do not overflow before the result does. */
static treg f_hyperbolic(struct kernel *k, treg x, bool sinh) {
    treg size = f_abs(k, x);
    treg root = k_eup(k, TPU_EEXP, f_const_bin(k, TPU_VMULF, size, 0.5f), 0);
    treg half = f_const_bin(k, TPU_VMULF, root, 0.5f);
    treg grown = k_binary(k, TPU_VMULF, half, root);
    if (!sinh) {
        treg shrunk = k_eup(k, TPU_EDIV, k_eup(k, TPU_EDIV, k_fconst(k, 0.5f), root), root);
        return k_binary(k, TPU_VADDF, grown, shrunk);
    }
    /* sinh = (t + t / (1 + t)) / 2 with t = e^x - 1 where that is small. */
    treg t = k_eup(k, TPU_EEXPM1, size, 0);
    treg ratio = k_eup(k, TPU_EDIV, t, f_const_bin(k, TPU_VADDF, t, 1));
    treg small = f_const_bin(k, TPU_VMULF, k_binary(k, TPU_VADDF, t, ratio), 0.5f);
    treg is_small = f_const_bin(k, TPU_VLTF, size, 10);
    return with_sign(k, k_select(k, is_small, small, grown), x);
}

static treg f_asinh(struct kernel *k, treg x) {
    treg size = f_abs(k, x), square = k_binary(k, TPU_VMULF, x, x);
    treg root = f_sqrt(k, f_const_bin(k, TPU_VADDF, square, 1));
    treg ratio = k_eup(k, TPU_EDIV, square, f_const_bin(k, TPU_VADDF, root, 1));
    treg small = k_eup(k, TPU_ELOG1P, k_binary(k, TPU_VADDF, size, ratio), 0);
    treg large = f_const_bin(k, TPU_VADDF, k_eup(k, TPU_ELOG, size, 0), 0.693147182f);
    treg is_large = f_const_bin(k, TPU_VGTF, size, 1e9f);
    return with_sign(k, k_select(k, is_large, large, small), x);
}

static treg f_acosh(struct kernel *k, treg x) {
    treg t = f_const_bin(k, TPU_VADDF, x, -1);
    treg inner = k_binary(k, TPU_VMULF, t, f_const_bin(k, TPU_VADDF, t, 2));
    treg small = k_eup(k, TPU_ELOG1P, k_binary(k, TPU_VADDF, t, f_sqrt(k, inner)), 0);
    treg large = f_const_bin(k, TPU_VADDF, k_eup(k, TPU_ELOG, x, 0), 0.693147182f);
    treg y = k_select(k, f_const_bin(k, TPU_VGTF, x, 1e9f), large, small);
    return k_select(k, f_const_bin(k, TPU_VLTF, x, 1), k_const(k, 0x7fc00000), y);
}

static treg f_atanh(struct kernel *k, treg x) {
    treg size = f_abs(k, x);
    treg ratio = k_eup(k, TPU_EDIV, k_binary(k, TPU_VADDF, size, size),
                       k_binary(k, TPU_VSUBF, k_fconst(k, 1), size));
    treg y = f_const_bin(k, TPU_VMULF, k_eup(k, TPU_ELOG1P, ratio, 0), 0.5f);
    return with_sign(k, y, x);
}

treg f_unary(struct kernel *k, enum hlo_opcode opcode, treg x) {
    switch (opcode) {
    case OP_NEGATE: return f_neg(k, x);
    case OP_ABS: return f_abs(k, x);
    case OP_REAL:
    case OP_COPY: return x;
    case OP_IMAG: return k_const(k, 0);
    case OP_SIGN: return f_sign(k, x);
    case OP_ASIN: return k_eup(k, TPU_EATAN2, x, f_cosine_of_asin(k, x));
    case OP_ACOS: return k_eup(k, TPU_EATAN2, f_cosine_of_asin(k, x), x);
    case OP_SINH: return f_hyperbolic(k, x, true);
    case OP_COSH: return f_hyperbolic(k, x, false);
    case OP_ASINH: return f_asinh(k, x);
    case OP_ACOSH: return f_acosh(k, x);
    case OP_ATANH: return f_atanh(k, x);
    default: break;
    }
    enum tpu_op op = float_op(opcode);
    if (op == TPU_EMPTY) return 0;
    return tpu_op_info(op)->slot == TPU_CLASS_MISC ? k_eup(k, op, x, 0) : k_unary(k, op, x);
}

/* A result computed in f32, rounded to its type. */
static treg rounded(struct kernel *k, enum element_type type, treg x) {
    if (type == TYPE_F32) return x;
    if (type == TYPE_BF16) return k_unary(k, TPU_VRBF, x);
    return bits_to_value(k, type, narrow_to_bits(k, type, x));
}

static treg float_value(struct kernel *k, const struct hlo_instr *instr, enum element_type type,
                        const struct tval *v) {
    treg y;
    if (instr->opcode == OP_CLAMP) {
        y = k_binary(k, TPU_VMINF, k_binary(k, TPU_VMAXF, v[1].v[0], v[0].v[0]), v[2].v[0]);
    } else if (instr->opcode == OP_REDUCE_PRECISION) {
        int64_t exponent = instr_int(instr, ATTR_EXPONENT_BITS, 8);
        int64_t mantissa = instr_int(instr, ATTR_MANTISSA_BITS, 23);
        if (exponent > 8) exponent = 8;
        if (mantissa > 23) mantissa = 23;
        y = k_binary_i(k, TPU_VREDP, v[0].v[0], (int32_t)(exponent << 8 | mantissa));
    } else {
        y = instr->noperands == 1 ? f_unary(k, instr->opcode, v[0].v[0])
                                  : f_bin(k, instr->opcode, v[0].v[0], v[1].v[0]);
    }
    return y ? rounded(k, type, y) : 0;
}

/* ---- integers of up to 32 bits ---- */

static const struct {
    enum hlo_opcode opcode;
    enum tpu_op is_signed, is_unsigned;
} int_ops[] = {
    {OP_ADD, TPU_VADD, TPU_VADD},
    {OP_SUBTRACT, TPU_VSUB, TPU_VSUB},
    {OP_MULTIPLY, TPU_VMUL, TPU_VMUL},
    {OP_AND, TPU_VAND, TPU_VAND},
    {OP_OR, TPU_VOR, TPU_VOR},
    {OP_XOR, TPU_VXOR, TPU_VXOR},
    {OP_MAXIMUM, TPU_VMAXS, TPU_VMAXU},
    {OP_MINIMUM, TPU_VMINS, TPU_VMINU},
    {OP_DIVIDE, TPU_EDIVS, TPU_EDIVU},
    {OP_REMAINDER, TPU_EREMS, TPU_EREMU},
    {OP_SHIFT_LEFT, TPU_VSHL, TPU_VSHL},
    {OP_SHIFT_RIGHT_LOGICAL, TPU_VSHR, TPU_VSHR},
    {OP_SHIFT_RIGHT_ARITHMETIC, TPU_VSAR, TPU_VSAR},
    {OP_MULHI, TPU_VMULHS, TPU_VMULHU},
};

static int type_bits(enum element_type type) {
    return element_type_info(type)->bits;
}

static treg zero_extended(struct kernel *k, enum element_type type, treg x) {
    int bits = type_bits(type);
    return bits == 32 ? x : k_binary_i(k, TPU_VAND, x, (int32_t)((1u << bits) - 1));
}

static treg sign_extended(struct kernel *k, int bits, treg x) {
    if (bits == 32) return x;
    return k_binary_i(k, TPU_VSAR, k_binary_i(k, TPU_VSHL, x, 32 - bits), 32 - bits);
}

static treg wrapped(struct kernel *k, enum element_type type, treg x) {
    if (type == TYPE_PRED) return k_binary_i(k, TPU_VAND, x, 1);
    if (element_type_is_signed(type)) return sign_extended(k, type_bits(type), x);
    return zero_extended(k, type, x);
}

/* By squaring, from the exponent's top bit down; a negative one gives 0, but 1 and -1 stay what
 * they are. */
static treg int_power(struct kernel *k, treg base, treg exponent, bool is_signed) {
    treg result = k_copy(k, k_const(k, 1)), left = k_copy(k, exponent);
    struct loop loop;
    loop_begin(k, &loop, 32);
    treg square = k_binary(k, TPU_VMUL, result, result);
    treg odd = k_binary_i(k, TPU_VLTS, left, 0);
    k_move(k, result, 0, k_select(k, odd, k_binary(k, TPU_VMUL, square, base), square));
    k_move(k, left, 0, k_binary_i(k, TPU_VSHL, left, 1));
    loop_end(k, &loop, 0);
    if (!is_signed) return result;
    treg negative = k_binary_i(k, TPU_VLTS, exponent, 0), zero = k_const(k, 0);
    treg is_odd = k_binary_i(k, TPU_VNE, k_binary_i(k, TPU_VAND, exponent, 1), 0);
    treg small = k_select(k, k_binary_i(k, TPU_VEQ, base, 1), k_const(k, 1), zero);
    treg minus = k_select(k, is_odd, k_const(k, -1), k_const(k, 1));
    small = k_select(k, k_binary_i(k, TPU_VEQ, base, -1), minus, small);
    return k_select(k, negative, small, result);
}

static treg int_unary(struct kernel *k, enum hlo_opcode opcode, enum element_type type, treg x) {
    bool is_signed = element_type_is_signed(type);
    treg zero, one;
    switch (opcode) {
    case OP_NOT: return k_binary_i(k, TPU_VXOR, x, -1);
    case OP_NEGATE: return k_binary_i(k, TPU_VRSUB, x, 0);
    case OP_ABS: return is_signed ? k_binary(k, TPU_VMAXS, x, k_binary_i(k, TPU_VRSUB, x, 0)) : x;
    case OP_SIGN:
        zero = k_const(k, 0), one = k_const(k, 1);
        if (!is_signed) return k_select(k, k_binary_i(k, TPU_VNE, x, 0), one, zero);
        return k_binary_i(k, TPU_VMINS, k_binary_i(k, TPU_VMAXS, x, -1), 1);
    case OP_POPCNT: return k_unary(k, TPU_VPCNT, zero_extended(k, type, x));
    case OP_COUNT_LEADING_ZEROS:
        x = k_unary(k, TPU_VCLZ, zero_extended(k, type, x));
        return k_binary_i(k, TPU_VADD, x, type_bits(type) - 32);
    case OP_REAL:
    case OP_COPY:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND_NEAREST_AFZ:
    case OP_ROUND_NEAREST_EVEN: return x;
    default: return 0;
    }
}

static treg pred_binary(struct kernel *k, enum hlo_opcode opcode, treg a, treg b) {
    switch (opcode) {
    case OP_ADD:
    case OP_MAXIMUM:
    case OP_OR: return k_binary(k, TPU_VOR, a, b);
    case OP_MULTIPLY:
    case OP_MINIMUM:
    case OP_AND: return k_binary(k, TPU_VAND, a, b);
    default: return k_binary(k, TPU_VXOR, a, b);
    }
}

static treg int_binary(struct kernel *k, enum hlo_opcode opcode, enum element_type type, treg a,
                       treg b) {
    bool is_signed = element_type_is_signed(type);
    if (type == TYPE_PRED) return pred_binary(k, opcode, a, b);
    if (opcode == OP_POWER) return int_power(k, a, b, is_signed);
    if (opcode == OP_SHIFT_RIGHT_LOGICAL) a = zero_extended(k, type, a);
    if (opcode == OP_SHIFT_RIGHT_ARITHMETIC) a = sign_extended(k, type_bits(type), a);
    if (opcode == OP_MULHI && type_bits(type) < 32)
        return k_binary_i(k, is_signed ? TPU_VSAR : TPU_VSHR, k_binary(k, TPU_VMUL, a, b),
                          type_bits(type));
    for (size_t i = 0; i < sizeof int_ops / sizeof *int_ops; i++) {
        enum tpu_op op = is_signed ? int_ops[i].is_signed : int_ops[i].is_unsigned;
        if (int_ops[i].opcode != opcode) continue;
        return tpu_op_info(op)->slot == TPU_CLASS_MISC ? k_eup(k, op, a, b) : k_binary(k, op, a, b);
    }
    return 0;
}

static treg int_value(struct kernel *k, const struct hlo_instr *instr, enum element_type type,
                      const struct tval *v) {
    treg y;
    if (instr->opcode == OP_CLAMP) {
        bool is_signed = element_type_is_signed(type);
        y = k_binary(k, is_signed ? TPU_VMAXS : TPU_VMAXU, v[1].v[0], v[0].v[0]);
        return k_binary(k, is_signed ? TPU_VMINS : TPU_VMINU, y, v[2].v[0]);
    }
    y = instr->noperands == 1 ? int_unary(k, instr->opcode, type, v[0].v[0])
                              : int_binary(k, instr->opcode, type, v[0].v[0], v[1].v[0]);
    return y ? wrapped(k, type, y) : 0;
}

/* ---- comparisons ---- */

static enum tpu_op comparison(int direction, enum tpu_op eq) {
    /* The table has eq, ne, lt, le, gt, ge in this order, signed and float alike. */
    static const int directions[] = {ENUM_DIRECTION_EQ, ENUM_DIRECTION_NE, ENUM_DIRECTION_LT,
                                     ENUM_DIRECTION_LE, ENUM_DIRECTION_GT, ENUM_DIRECTION_GE};
    for (int i = 0; i < 6; i++)
        if (directions[i] == direction) return (enum tpu_op)((int)eq + i);
    return eq;
}

static enum tpu_op unsigned_comparison(int direction) {
    switch (direction) {
    case ENUM_DIRECTION_EQ: return TPU_VEQ;
    case ENUM_DIRECTION_NE: return TPU_VNE;
    case ENUM_DIRECTION_LT: return TPU_VLTU;
    case ENUM_DIRECTION_LE: return TPU_VLEU;
    case ENUM_DIRECTION_GT: return TPU_VGTU;
    default: return TPU_VGEU;
    }
}

/* Bits of a float as a signed number in the total order. */
static treg total_order(struct kernel *k, treg x) {
    treg flip = k_binary_i(k, TPU_VAND, k_binary_i(k, TPU_VSAR, x, 31), INT32_MAX);
    return k_binary(k, TPU_VXOR, x, flip);
}

static treg compare_complex(struct kernel *k, int direction, struct tval a, struct tval b) {
    treg equal =
        m_and(k, k_binary(k, TPU_VEQF, a.v[0], b.v[0]), k_binary(k, TPU_VEQF, a.v[1], b.v[1]));
    return direction == ENUM_DIRECTION_NE ? m_not(k, equal) : equal;
}

static treg compare(struct kernel *k, const struct hlo_instr *instr, struct tval a, struct tval b) {
    enum element_type type = instr->operands[0]->shape->type;
    int direction = (int)instr_int(instr, ATTR_DIRECTION, ENUM_DIRECTION_EQ);
    const struct hlo_attr *order = instr_attr(instr, ATTR_COMPARE_TYPE);
    if (element_type_is_complex(type)) return compare_complex(k, direction, a, b);
    if (element_type_is_float(type)) {
        if (!order || order->i != ENUM_COMPARE_TYPE_TOTALORDER)
            return k_binary(k, comparison(direction, TPU_VEQF), a.v[0], b.v[0]);
        return k_binary(k, comparison(direction, TPU_VEQ), total_order(k, a.v[0]),
                        total_order(k, b.v[0]));
    }
    bool is_signed = element_type_is_signed(type);
    if (element_type_size(type) == 8) return wide_compare(k, direction, is_signed, a, b);
    return k_binary(k, is_signed ? comparison(direction, TPU_VEQ) : unsigned_comparison(direction),
                    a.v[0], b.v[0]);
}

/* ---- conversions ---- */

static treg float_to_int(struct kernel *k, treg x, enum element_type to) {
    int bits = type_bits(to);
    bool is_signed = element_type_is_signed(to);
    treg y = k_unary(k, is_signed ? TPU_VF2S : TPU_VF2U, x);
    if (bits == 32) return y;
    if (!is_signed) return k_binary_i(k, TPU_VMINU, y, (int32_t)((1u << bits) - 1));
    y = k_binary_i(k, TPU_VMAXS, y, -(1 << (bits - 1)));
    return k_binary_i(k, TPU_VMINS, y, (1 << (bits - 1)) - 1);
}

/* f32 of a 64-bit integer: its high and low words, the low one rounded to odd into what the high
 * one leaves, so that only one rounding counts. */
static treg wide_to_float(struct kernel *k, struct tval v, bool is_signed) {
    treg low = v.v[0], high = v.v[1], negative = 0;
    if (is_signed) {
        negative = k_binary_i(k, TPU_VLTS, high, 0);
        treg low_negated = k_binary_i(k, TPU_VRSUB, low, 0);
        treg borrow = k_select(k, k_binary_i(k, TPU_VEQ, low, 0), k_const(k, 0), k_const(k, 1));
        treg high_negated = k_binary(k, TPU_VSUB, k_binary_i(k, TPU_VRSUB, high, 0), borrow);
        low = k_select(k, negative, low_negated, low);
        high = k_select(k, negative, high_negated, high);
    }
    /* Shift the top bit of (high, low) to bit 31 of one word; what falls off is sticky. */
    treg zeros = k_unary(k, TPU_VCLZ, high), back = k_binary_i(k, TPU_VRSUB, zeros, 32);
    treg top =
        k_binary(k, TPU_VOR, k_binary(k, TPU_VSHL, high, zeros), k_binary(k, TPU_VSHR, low, back));
    treg lost = k_binary(k, TPU_VSHL, low, zeros);
    treg sticky = k_select(k, k_binary_i(k, TPU_VNE, lost, 0), k_const(k, 1), k_const(k, 0));
    treg scaled = k_unary(k, TPU_VU2F, k_binary(k, TPU_VOR, top, sticky));
    /* times 2^(32 - zeros) */
    treg exponent = k_binary_i(k, TPU_VSHL, back, 23);
    treg large = k_binary(k, TPU_VADD, scaled, exponent);
    treg small = k_unary(k, TPU_VU2F, low);
    treg y = k_select(k, k_binary_i(k, TPU_VEQ, high, 0), small, large);
    return negative ? k_select(k, negative, f_neg(k, y), y) : y;
}

/* Saturating, towards zero. */
static struct tval float_to_wide(struct kernel *k, treg x, bool is_signed) {
    treg size = f_abs(k, x), negative = k_binary_i(k, TPU_VLTS, x, 0);
    treg high_part = k_unary(k, TPU_VTRUNC, f_const_bin(k, TPU_VMULF, size, 0x1p-32f));
    treg low_part = k_binary(k, TPU_VSUBF, size, f_const_bin(k, TPU_VMULF, high_part, 0x1p32f));
    treg high = k_unary(k, TPU_VF2U, high_part), low = k_unary(k, TPU_VF2U, low_part);
    treg over = f_const_bin(k, TPU_VGEF, size, is_signed ? 0x1p63f : 0x1p64f);
    treg zero = k_const(k, 0), ones = k_const(k, -1), is_nan = k_binary(k, TPU_VNEF, x, x);
    high = k_select(k, over, is_signed ? k_const(k, INT32_MAX) : ones, high);
    low = k_select(k, over, ones, low);
    treg low_negated = k_binary_i(k, TPU_VRSUB, low, 0);
    treg borrow = k_select(k, k_binary_i(k, TPU_VEQ, low, 0), zero, k_const(k, 1));
    treg high_negated = k_binary(k, TPU_VSUB, k_binary_i(k, TPU_VRSUB, high, 0), borrow);
    if (!is_signed) low_negated = high_negated = zero;
    treg low_limit = k_select(k, over, zero, low_negated);
    treg high_limit = is_signed ? k_select(k, over, k_const(k, INT32_MIN), high_negated) : zero;
    low = k_select(k, negative, low_limit, low);
    high = k_select(k, negative, high_limit, high);
    return (struct tval){{k_select(k, is_nan, zero, low), k_select(k, is_nan, zero, high)}};
}

static struct tval from_float(struct kernel *k, treg x, enum element_type to) {
    if (to == TYPE_PRED) return element_pred(k, f_const_bin(k, TPU_VNEF, x, 0));
    if (element_type_is_complex(to)) return (struct tval){{x, k_const(k, 0)}};
    if (element_type_is_float(to)) return (struct tval){{rounded(k, to, x), 0}};
    if (element_type_size(to) == 8) return float_to_wide(k, x, element_type_is_signed(to));
    return (struct tval){{float_to_int(k, x, to), 0}};
}

static struct tval from_int(struct kernel *k, struct tval v, enum element_type from,
                            enum element_type to) {
    bool is_signed = element_type_is_signed(from), wide = element_type_size(from) == 8;
    if (to == TYPE_PRED) {
        treg any = wide ? k_binary(k, TPU_VOR, v.v[0], v.v[1]) : v.v[0];
        return element_pred(k, k_binary_i(k, TPU_VNE, any, 0));
    }
    if (element_type_is_float(to) || element_type_is_complex(to)) {
        treg x = wide ? wide_to_float(k, v, is_signed)
                      : k_unary(k, is_signed ? TPU_VS2F : TPU_VU2F, v.v[0]);
        return from_float(k, x, to);
    }
    if (element_type_size(to) < 8) return (struct tval){{wrapped(k, to, v.v[0]), 0}};
    if (!wide) v.v[1] = is_signed ? k_binary_i(k, TPU_VSAR, v.v[0], 31) : k_const(k, 0);
    return v;
}

struct tval element_convert(struct kernel *k, struct tval v, enum element_type from,
                            enum element_type to) {
    if (from == to) return v;
    if (element_type_is_complex(from)) {
        if (to == TYPE_PRED) {
            treg some =
                m_or(k, f_const_bin(k, TPU_VNEF, v.v[0], 0), f_const_bin(k, TPU_VNEF, v.v[1], 0));
            return element_pred(k, some);
        }
        return from_float(k, v.v[0], to);
    }
    return element_type_is_float(from) ? from_float(k, v.v[0], to) : from_int(k, v, from, to);
}

static struct tval bitcast(struct kernel *k, struct tval v, enum element_type from,
                           enum element_type to) {
    if (element_type_size(from) != element_type_size(to)) return (struct tval){{0, 0}};
    if (element_type_size(from) >= 4) return v;
    treg bits = bits_to_value(k, to, narrow_to_bits(k, from, v.v[0]));
    /* Types of less than 8 bits fill a byte in memory, not in meaning. */
    if (element_type_is_integral(to)) bits = wrapped(k, to, bits);
    return (struct tval){{bits, 0}};
}

/* Away from zero where the random word is below the fraction, as a part of its range. */
static struct tval stochastic(struct kernel *k, const struct hlo_instr *instr,
                              const struct tval *v) {
    enum element_type from = instr->operands[0]->shape->type, to = instr->shape->type;
    enum element_type word = instr->operands[1]->shape->type;
    struct tval none = {{0, 0}};
    if (!element_type_is_float(from) || !element_type_is_integral(to) ||
        !element_type_is_integral(word) || element_type_size(word) > 4)
        return none;
    treg x = v[0].v[0], size = f_abs(k, x), whole = k_unary(k, TPU_VTRUNC, size);
    treg chance = f_const_bin(k, TPU_VMULF, k_binary(k, TPU_VSUBF, size, whole),
                              (float)(UINT64_C(1) << type_bits(word)));
    /* Whole numbers: below the fraction is below the next whole number. */
    treg bound = k_unary(k, TPU_VF2U, k_unary(k, TPU_VCEIL, chance));
    treg up = k_binary(k, TPU_VLTU, zero_extended(k, word, v[1].v[0]), bound);
    treg y = k_select(k, up, f_const_bin(k, TPU_VADDF, whole, 1), whole);
    treg is_nan = k_binary(k, TPU_VNEF, x, x);
    return from_float(k, k_select(k, is_nan, x, with_sign(k, y, x)), to);
}

/* ---- one operation ---- */

static bool is_wide(enum element_type type) {
    return type == TYPE_S64 || type == TYPE_U64;
}

struct tval element_value(struct kernel *k, const struct hlo_instr *instr, const struct tval *v) {
    enum element_type type = instr->operands[0]->shape->type, to = instr->shape->type;
    switch (instr->opcode) {
    case OP_COMPARE: return element_pred(k, compare(k, instr, v[0], v[1]));
    case OP_CONVERT: return element_convert(k, v[0], type, to);
    case OP_BITCAST_CONVERT: return bitcast(k, v[0], type, to);
    case OP_SELECT: return element_select(k, element_mask(k, v[0]), v[1], v[2]);
    case OP_IS_FINITE: {
        treg exponent = k_binary_i(k, TPU_VAND, v[0].v[0], 0x7f800000);
        return element_pred(k, k_binary_i(k, TPU_VNE, exponent, 0x7f800000));
    }
    case OP_STOCHASTIC_CONVERT: return stochastic(k, instr, v);
    case OP_COMPLEX: return (struct tval){{v[0].v[0], v[1].v[0]}};
    default: break;
    }
    if (element_type_is_complex(type)) return complex_value(k, instr, v);
    if (instr->opcode == OP_CLAMP) type = instr->operands[1]->shape->type;
    if (is_wide(type)) return wide_int_value(k, instr, type, v);
    if (element_type_is_float(type)) return (struct tval){{float_value(k, instr, type, v), 0}};
    return (struct tval){{int_value(k, instr, type, v), 0}};
}

/* Tried on a kernel that is thrown away. */
bool element_has_code(const struct hlo_instr *instr) {
    struct arena *arena = arena_new();
    struct kernel *k = kernel_new(arena);
    struct tval operands[3] = {{{0}}};
    bool ok = instr->noperands >= 1 && instr->noperands <= 3;
    for (int i = 0; ok && i < instr->noperands; i++)
        operands[i] = (struct tval){{k_const(k, 0), k_const(k, 0)}};
    ok = ok && element_value(k, instr, operands).v[0] != 0;
    arena_free(arena);
    return ok;
}
