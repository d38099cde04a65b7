/* Integers of 64 bits as (low, high) and complex numbers as (real, imaginary). */
#include "backend/tpu/element.h"

#define PAIR(a, b) ((struct tval){{a, b}})

static treg v2(struct kernel *k, enum tpu_op op, treg a, treg b) {
    return k_binary(k, op, a, b);
}

static treg one_if(struct kernel *k, treg mask) {
    return k_select(k, mask, k_const(k, 1), k_const(k, 0));
}

/* ---- 64-bit integers ---- */

static struct tval add(struct kernel *k, struct tval a, struct tval b) {
    treg low = v2(k, TPU_VADD, a.v[0], b.v[0]);
    treg carry = one_if(k, v2(k, TPU_VLTU, low, a.v[0]));
    return PAIR(low, v2(k, TPU_VADD, v2(k, TPU_VADD, a.v[1], b.v[1]), carry));
}

static struct tval subtract(struct kernel *k, struct tval a, struct tval b) {
    treg borrow = one_if(k, v2(k, TPU_VLTU, a.v[0], b.v[0]));
    treg high = v2(k, TPU_VSUB, v2(k, TPU_VSUB, a.v[1], b.v[1]), borrow);
    return PAIR(v2(k, TPU_VSUB, a.v[0], b.v[0]), high);
}

static struct tval negate(struct kernel *k, struct tval a) {
    return subtract(k, PAIR(k_const(k, 0), k_const(k, 0)), a);
}

static struct tval multiply(struct kernel *k, struct tval a, struct tval b) {
    treg high = v2(k, TPU_VMULHU, a.v[0], b.v[0]);
    high = v2(k, TPU_VADD, high, v2(k, TPU_VMUL, a.v[0], b.v[1]));
    high = v2(k, TPU_VADD, high, v2(k, TPU_VMUL, a.v[1], b.v[0]));
    return PAIR(v2(k, TPU_VMUL, a.v[0], b.v[0]), high);
}

static treg less(struct kernel *k, bool is_signed, struct tval a, struct tval b) {
    treg high = v2(k, is_signed ? TPU_VLTS : TPU_VLTU, a.v[1], b.v[1]);
    treg low = m_and(k, v2(k, TPU_VEQ, a.v[1], b.v[1]), v2(k, TPU_VLTU, a.v[0], b.v[0]));
    return m_or(k, high, low);
}

treg wide_compare(struct kernel *k, int direction, bool is_signed, struct tval a, struct tval b) {
    treg equal;
    switch (direction) {
    case ENUM_DIRECTION_LT: return less(k, is_signed, a, b);
    case ENUM_DIRECTION_GT: return less(k, is_signed, b, a);
    case ENUM_DIRECTION_LE: return m_not(k, less(k, is_signed, b, a));
    case ENUM_DIRECTION_GE: return m_not(k, less(k, is_signed, a, b));
    default:
        equal = m_and(k, v2(k, TPU_VEQ, a.v[0], b.v[0]), v2(k, TPU_VEQ, a.v[1], b.v[1]));
        return direction == ENUM_DIRECTION_NE ? m_not(k, equal) : equal;
    }
}

/* Counts of 64 and more (negative ones are large) count as 64; the shifts of words give 0, or the
 * sign, past 31. */
static struct tval shift(struct kernel *k, enum hlo_opcode opcode, struct tval a, struct tval b) {
    treg count = k_select(k, k_binary_i(k, TPU_VNE, b.v[1], 0), k_const(k, 64),
                          k_binary_i(k, TPU_VMINU, b.v[0], 64));
    treg over = k_binary_i(k, TPU_VSUB, count, 32), back = k_binary_i(k, TPU_VRSUB, count, 32);
    treg is_far = k_binary_i(k, TPU_VGES, count, 32);
    if (opcode == OP_SHIFT_LEFT) {
        treg near = v2(k, TPU_VOR, v2(k, TPU_VSHL, a.v[1], count), v2(k, TPU_VSHR, a.v[0], back));
        return PAIR(v2(k, TPU_VSHL, a.v[0], count),
                    k_select(k, is_far, v2(k, TPU_VSHL, a.v[0], over), near));
    }
    enum tpu_op right = opcode == OP_SHIFT_RIGHT_LOGICAL ? TPU_VSHR : TPU_VSAR;
    treg near = v2(k, TPU_VOR, v2(k, TPU_VSHR, a.v[0], count), v2(k, TPU_VSHL, a.v[1], back));
    return PAIR(k_select(k, is_far, v2(k, right, a.v[1], over), near), v2(k, right, a.v[1], count));
}

/* Unsigned, bit by bit: 64 steps in a loop. Quotient and remainder. */
static void divide_unsigned(struct kernel *k, struct tval a, struct tval b, struct tval *quotient,
                            struct tval *remainder) {
    treg q[2] = {k_copy(k, a.v[0]), k_copy(k, a.v[1])};
    treg r[2] = {k_copy(k, k_const(k, 0)), k_copy(k, k_const(k, 0))};
    struct loop loop;
    loop_begin(k, &loop, 64);
    treg top = k_binary_i(k, TPU_VSHR, q[1], 31), carry = k_binary_i(k, TPU_VSHR, q[0], 31);
    treg out = k_binary_i(k, TPU_VSHR, r[1], 31), up = k_binary_i(k, TPU_VSHR, r[0], 31);
    treg r1 = v2(k, TPU_VOR, k_binary_i(k, TPU_VSHL, r[1], 1), up);
    treg r0 = v2(k, TPU_VOR, k_binary_i(k, TPU_VSHL, r[0], 1), top);
    treg q1 = v2(k, TPU_VOR, k_binary_i(k, TPU_VSHL, q[1], 1), carry);
    treg q0 = k_binary_i(k, TPU_VSHL, q[0], 1);
    struct tval rest = subtract(k, PAIR(r0, r1), b);
    treg takes = m_not(k, less(k, false, PAIR(r0, r1), b));
    takes = m_or(k, takes, k_binary_i(k, TPU_VNE, out, 0));
    k_move(k, r[0], 0, k_select(k, takes, rest.v[0], r0));
    k_move(k, r[1], 0, k_select(k, takes, rest.v[1], r1));
    k_move(k, q[0], 0, k_select(k, takes, k_binary_i(k, TPU_VOR, q0, 1), q0));
    k_move(k, q[1], 0, q1);
    loop_end(k, &loop, 0);
    *quotient = PAIR(q[0], q[1]);
    *remainder = PAIR(r[0], r[1]);
}

static struct tval negate_if(struct kernel *k, treg mask, struct tval a) {
    return element_select(k, mask, negate(k, a), a);
}

/* x / 0 = -1, x % 0 = x: what the bitwise division gives for magnitudes, but for the signs. */
static struct tval divide(struct kernel *k, bool is_signed, bool want_remainder, struct tval a,
                          struct tval b) {
    struct tval q, r;
    if (!is_signed) {
        divide_unsigned(k, a, b, &q, &r);
        return want_remainder ? r : q;
    }
    treg a_negative = k_binary_i(k, TPU_VLTS, a.v[1], 0);
    treg b_negative = k_binary_i(k, TPU_VLTS, b.v[1], 0);
    divide_unsigned(k, negate_if(k, a_negative, a), negate_if(k, b_negative, b), &q, &r);
    if (want_remainder) return negate_if(k, a_negative, r);
    struct tval signed_q = negate_if(k, k_binary(k, TPU_MXOR, a_negative, b_negative), q);
    treg by_zero = k_binary_i(k, TPU_VEQ, v2(k, TPU_VOR, b.v[0], b.v[1]), 0);
    treg ones = k_const(k, -1);
    return element_select(k, by_zero, PAIR(ones, ones), signed_q);
}

static struct tval power(struct kernel *k, bool is_signed, struct tval base, struct tval exponent) {
    treg r[2] = {k_copy(k, k_const(k, 1)), k_copy(k, k_const(k, 0))};
    treg e[2] = {k_copy(k, exponent.v[0]), k_copy(k, exponent.v[1])};
    struct loop loop;
    loop_begin(k, &loop, 64);
    struct tval square = multiply(k, PAIR(r[0], r[1]), PAIR(r[0], r[1]));
    treg odd = k_binary_i(k, TPU_VLTS, e[1], 0);
    struct tval next = element_select(k, odd, multiply(k, square, base), square);
    treg up = k_binary_i(k, TPU_VSHR, e[0], 31);
    k_move(k, r[0], 0, next.v[0]);
    k_move(k, r[1], 0, next.v[1]);
    k_move(k, e[1], 0, v2(k, TPU_VOR, k_binary_i(k, TPU_VSHL, e[1], 1), up));
    k_move(k, e[0], 0, k_binary_i(k, TPU_VSHL, e[0], 1));
    loop_end(k, &loop, 0);
    struct tval result = PAIR(r[0], r[1]);
    if (!is_signed) return result;
    treg zero = k_const(k, 0), one = k_const(k, 1), ones = k_const(k, -1);
    treg is_odd = k_binary_i(k, TPU_VNE, k_binary_i(k, TPU_VAND, exponent.v[0], 1), 0);
    treg is_one = m_and(k, v2(k, TPU_VEQ, base.v[0], one), v2(k, TPU_VEQ, base.v[1], zero));
    treg is_minus = m_and(k, v2(k, TPU_VEQ, base.v[0], ones), v2(k, TPU_VEQ, base.v[1], ones));
    struct tval small = element_select(k, is_one, PAIR(one, zero), PAIR(zero, zero));
    struct tval minus = element_select(k, is_odd, PAIR(ones, ones), PAIR(one, zero));
    small = element_select(k, is_minus, minus, small);
    return element_select(k, k_binary_i(k, TPU_VLTS, exponent.v[1], 0), small, result);
}

static struct tval wide_unary(struct kernel *k, enum hlo_opcode opcode, bool is_signed,
                              struct tval a) {
    treg zero = k_const(k, 0), ones = k_const(k, -1), negative, some;
    switch (opcode) {
    case OP_NOT:
        return PAIR(k_binary_i(k, TPU_VXOR, a.v[0], -1), k_binary_i(k, TPU_VXOR, a.v[1], -1));
    case OP_NEGATE: return negate(k, a);
    case OP_ABS: return is_signed ? negate_if(k, k_binary_i(k, TPU_VLTS, a.v[1], 0), a) : a;
    case OP_SIGN:
        some = k_binary_i(k, TPU_VNE, v2(k, TPU_VOR, a.v[0], a.v[1]), 0);
        struct tval sign = PAIR(one_if(k, some), zero);
        negative = k_binary_i(k, TPU_VLTS, a.v[1], 0);
        return is_signed ? element_select(k, negative, PAIR(ones, ones), sign) : sign;
    case OP_POPCNT:
        return PAIR(v2(k, TPU_VADD, k_unary(k, TPU_VPCNT, a.v[0]), k_unary(k, TPU_VPCNT, a.v[1])),
                    zero);
    case OP_COUNT_LEADING_ZEROS:
        some = k_binary_i(k, TPU_VNE, a.v[1], 0);
        treg far = k_binary_i(k, TPU_VADD, k_unary(k, TPU_VCLZ, a.v[0]), 32);
        return PAIR(k_select(k, some, k_unary(k, TPU_VCLZ, a.v[1]), far), zero);
    case OP_COPY:
    case OP_REAL: return a;
    default: return PAIR(0, 0);
    }
}

struct tval wide_int_value(struct kernel *k, const struct hlo_instr *instr, enum element_type type,
                           const struct tval *v) {
    bool is_signed = element_type_is_signed(type);
    struct tval a = v[0], b = v[1];
    switch (instr->opcode) {
    case OP_ADD: return add(k, a, b);
    case OP_SUBTRACT: return subtract(k, a, b);
    case OP_MULTIPLY: return multiply(k, a, b);
    case OP_DIVIDE: return divide(k, is_signed, false, a, b);
    case OP_REMAINDER: return divide(k, is_signed, true, a, b);
    case OP_POWER: return power(k, is_signed, a, b);
    case OP_AND: return PAIR(v2(k, TPU_VAND, a.v[0], b.v[0]), v2(k, TPU_VAND, a.v[1], b.v[1]));
    case OP_OR: return PAIR(v2(k, TPU_VOR, a.v[0], b.v[0]), v2(k, TPU_VOR, a.v[1], b.v[1]));
    case OP_XOR: return PAIR(v2(k, TPU_VXOR, a.v[0], b.v[0]), v2(k, TPU_VXOR, a.v[1], b.v[1]));
    case OP_MAXIMUM: return element_select(k, less(k, is_signed, a, b), b, a);
    case OP_MINIMUM: return element_select(k, less(k, is_signed, a, b), a, b);
    case OP_CLAMP:
        a = element_select(k, less(k, is_signed, v[1], v[0]), v[0], v[1]);
        return element_select(k, less(k, is_signed, v[2], a), v[2], a);
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT_LOGICAL:
    case OP_SHIFT_RIGHT_ARITHMETIC: return shift(k, instr->opcode, a, b);
    default: return wide_unary(k, instr->opcode, is_signed, a);
    }
}

/* ---- complex numbers ---- */

static treg f1(struct kernel *k, enum hlo_opcode opcode, treg x) {
    return f_unary(k, opcode, x);
}

static treg f2(struct kernel *k, enum hlo_opcode opcode, treg x, treg y) {
    return f_bin(k, opcode, x, y);
}

static struct tval complex_multiply(struct kernel *k, struct tval a, struct tval b) {
    treg real =
        f2(k, OP_SUBTRACT, f2(k, OP_MULTIPLY, a.v[0], b.v[0]), f2(k, OP_MULTIPLY, a.v[1], b.v[1]));
    treg imag =
        f2(k, OP_ADD, f2(k, OP_MULTIPLY, a.v[0], b.v[1]), f2(k, OP_MULTIPLY, a.v[1], b.v[0]));
    return PAIR(real, imag);
}

/* sqrt(x^2 + y^2), scaled by the larger one so that squares do not overflow. */
static treg hypotenuse(struct kernel *k, treg x, treg y) {
    treg a = f_abs(k, x), b = f_abs(k, y);
    treg large = f2(k, OP_MAXIMUM, a, b), small = f2(k, OP_MINIMUM, a, b);
    treg ratio = f2(k, OP_DIVIDE, small, large);
    treg root = f1(k, OP_SQRT, f_const_bin(k, TPU_VADDF, f2(k, OP_MULTIPLY, ratio, ratio), 1));
    treg y0 = f2(k, OP_MULTIPLY, large, root);
    /* 0 / 0 and infinity / infinity are no ratio. */
    treg plain =
        m_or(k, f_const_bin(k, TPU_VEQF, small, 0), k_binary_i(k, TPU_VEQ, large, 0x7f800000));
    plain = m_or(k, plain, k_binary_i(k, TPU_VEQ, small, 0x7f800000));
    treg inf = k_const(k, 0x7f800000);
    treg either =
        m_or(k, k_binary_i(k, TPU_VEQ, a, 0x7f800000), k_binary_i(k, TPU_VEQ, b, 0x7f800000));
    return k_select(k, either, inf, k_select(k, plain, large, y0));
}

/* Both parts of the divisor scaled by a power of two that brings the larger one near 1. */
static struct tval complex_divide(struct kernel *k, struct tval a, struct tval b) {
    treg large = f2(k, OP_MAXIMUM, f_abs(k, b.v[0]), f_abs(k, b.v[1]));
    treg exponent = k_binary_i(k, TPU_VAND, large, 0x7f800000);
    treg scale = k_binary_i(k, TPU_VRSUB, exponent, 254 << 23);
    treg usable = m_and(k, k_binary_i(k, TPU_VGTS, exponent, 1 << 23),
                        k_binary_i(k, TPU_VLTS, exponent, 253 << 23));
    scale = k_select(k, usable, scale, k_fconst(k, 1));
    struct tval c = PAIR(f2(k, OP_MULTIPLY, b.v[0], scale), f2(k, OP_MULTIPLY, b.v[1], scale));
    struct tval top = complex_multiply(k, a, PAIR(c.v[0], f_neg(k, c.v[1])));
    treg size =
        f2(k, OP_ADD, f2(k, OP_MULTIPLY, c.v[0], c.v[0]), f2(k, OP_MULTIPLY, c.v[1], c.v[1]));
    treg real = f2(k, OP_MULTIPLY, f2(k, OP_DIVIDE, top.v[0], size), scale);
    treg imag = f2(k, OP_MULTIPLY, f2(k, OP_DIVIDE, top.v[1], size), scale);
    return PAIR(real, imag);
}

static struct tval polar(struct kernel *k, treg size, treg angle) {
    treg zero = f_const_bin(k, TPU_VEQF, angle, 0);
    treg real = f2(k, OP_MULTIPLY, size, f1(k, OP_COSINE, angle));
    treg imag = f2(k, OP_MULTIPLY, size, f1(k, OP_SINE, angle));
    return PAIR(k_select(k, zero, size, real), k_select(k, zero, angle, imag));
}

static struct tval complex_exp(struct kernel *k, struct tval z) {
    return polar(k, f1(k, OP_EXPONENTIAL, z.v[0]), z.v[1]);
}

static struct tval complex_log(struct kernel *k, struct tval z) {
    treg size = hypotenuse(k, z.v[0], z.v[1]);
    return PAIR(f1(k, OP_LOG, size), f2(k, OP_ATAN2, z.v[1], z.v[0]));
}

static struct tval complex_power(struct kernel *k, struct tval a, struct tval b) {
    struct tval y = complex_exp(k, complex_multiply(k, b, complex_log(k, a)));
    treg zero = k_const(k, 0), one = k_fconst(k, 1);
    treg base_zero =
        m_and(k, f_const_bin(k, TPU_VEQF, a.v[0], 0), f_const_bin(k, TPU_VEQF, a.v[1], 0));
    treg grows = f_const_bin(k, TPU_VGTF, b.v[0], 0);
    y = element_select(k, m_and(k, base_zero, grows), PAIR(zero, zero), y);
    treg exponent_zero =
        m_and(k, f_const_bin(k, TPU_VEQF, b.v[0], 0), f_const_bin(k, TPU_VEQF, b.v[1], 0));
    return element_select(k, exponent_zero, PAIR(one, zero), y);
}

/* sqrt((|z| + |x|) / 2) is the larger part; the other one is y / 2 by it. */
static struct tval complex_sqrt(struct kernel *k, struct tval z) {
    treg half = k_fconst(k, 0.5f), size = hypotenuse(k, z.v[0], z.v[1]);
    treg sum =
        f2(k, OP_ADD, f2(k, OP_MULTIPLY, size, half), f2(k, OP_MULTIPLY, f_abs(k, z.v[0]), half));
    treg large = f1(k, OP_SQRT, sum);
    treg small = f2(k, OP_DIVIDE, f2(k, OP_MULTIPLY, f_abs(k, z.v[1]), half), large);
    treg is_zero = f_const_bin(k, TPU_VEQF, large, 0);
    small = k_select(k, is_zero, k_const(k, 0), small);
    treg right = f_const_bin(k, TPU_VGEF, z.v[0], 0);
    treg real = k_select(k, right, large, small), imag = k_select(k, right, small, large);
    treg sign = k_binary_i(k, TPU_VAND, z.v[1], INT32_MIN);
    return PAIR(real, k_binary(k, TPU_VOR, imag, sign));
}

static struct tval complex_sin_cos(struct kernel *k, enum hlo_opcode opcode, struct tval z) {
    treg s = f1(k, OP_SINE, z.v[0]), c = f1(k, OP_COSINE, z.v[0]);
    treg sh = f1(k, OP_SINH, z.v[1]), ch = f1(k, OP_COSH, z.v[1]);
    if (opcode == OP_SINE) return PAIR(f2(k, OP_MULTIPLY, s, ch), f2(k, OP_MULTIPLY, c, sh));
    return PAIR(f2(k, OP_MULTIPLY, c, ch), f_neg(k, f2(k, OP_MULTIPLY, s, sh)));
}

/* (tanh x + i tan y) / (1 + i tanh x tan y) */
static struct tval complex_tanh(struct kernel *k, struct tval z) {
    treg t = f1(k, OP_TANH, z.v[0]), u = f1(k, OP_TAN, z.v[1]);
    struct tval low = PAIR(k_fconst(k, 1), f2(k, OP_MULTIPLY, t, u));
    return complex_divide(k, PAIR(t, u), low);
}

static struct tval by_i(struct kernel *k, struct tval z) {
    return PAIR(f_neg(k, z.v[1]), z.v[0]);
}

static struct tval by_minus_i(struct kernel *k, struct tval z) {
    return PAIR(z.v[1], f_neg(k, z.v[0]));
}

static struct tval complex_add(struct kernel *k, struct tval a, struct tval b) {
    return PAIR(f2(k, OP_ADD, a.v[0], b.v[0]), f2(k, OP_ADD, a.v[1], b.v[1]));
}

static struct tval complex_expm1(struct kernel *k, struct tval z) {
    treg half = f1(k, OP_SINE, f_const_bin(k, TPU_VMULF, z.v[1], 0.5f));
    treg square = f2(k, OP_MULTIPLY, half, half);
    treg real =
        f2(k, OP_MULTIPLY, f1(k, OP_EXPONENTIAL_MINUS_ONE, z.v[0]), f1(k, OP_COSINE, z.v[1]));
    real = f2(k, OP_SUBTRACT, real, f2(k, OP_ADD, square, square));
    treg imag = f2(k, OP_MULTIPLY, f1(k, OP_EXPONENTIAL, z.v[0]), f1(k, OP_SINE, z.v[1]));
    return PAIR(real, imag);
}

static struct tval complex_log1p(struct kernel *k, struct tval z) {
    treg x = z.v[0], y = z.v[1], one_more = f_const_bin(k, TPU_VADDF, x, 1);
    treg inner = f2(k, OP_ADD, f2(k, OP_MULTIPLY, x, f_const_bin(k, TPU_VADDF, x, 2)),
                    f2(k, OP_MULTIPLY, y, y));
    treg small = f_const_bin(k, TPU_VMULF, f1(k, OP_LOG_PLUS_ONE, inner), 0.5f);
    treg large = f1(k, OP_LOG, hypotenuse(k, one_more, y));
    treg size = f2(k, OP_MAXIMUM, f_abs(k, x), f_abs(k, y));
    treg real = k_select(k, f_const_bin(k, TPU_VLTF, size, 0.5f), small, large);
    return PAIR(real, f2(k, OP_ATAN2, y, one_more));
}

static struct tval complex_sign(struct kernel *k, struct tval z) {
    treg size = hypotenuse(k, z.v[0], z.v[1]), is_zero = f_const_bin(k, TPU_VEQF, size, 0);
    struct tval unit = PAIR(f2(k, OP_DIVIDE, z.v[0], size), f2(k, OP_DIVIDE, z.v[1], size));
    return element_select(k, is_zero, z, unit);
}

static struct tval complex_unary(struct kernel *k, enum hlo_opcode opcode, struct tval z) {
    struct tval one = PAIR(k_fconst(k, 1), k_const(k, 0)), y;
    switch (opcode) {
    case OP_REAL: return PAIR(z.v[0], 0);
    case OP_IMAG: return PAIR(z.v[1], 0);
    case OP_ABS: return PAIR(hypotenuse(k, z.v[0], z.v[1]), 0);
    case OP_COPY: return z;
    case OP_NEGATE: return PAIR(f_neg(k, z.v[0]), f_neg(k, z.v[1]));
    case OP_EXPONENTIAL: return complex_exp(k, z);
    case OP_EXPONENTIAL_MINUS_ONE: return complex_expm1(k, z);
    case OP_LOG: return complex_log(k, z);
    case OP_LOG_PLUS_ONE: return complex_log1p(k, z);
    case OP_SQRT: return complex_sqrt(k, z);
    case OP_RSQRT: return complex_divide(k, one, complex_sqrt(k, z));
    case OP_SINE:
    case OP_COSINE: return complex_sin_cos(k, opcode, z);
    case OP_TANH: return complex_tanh(k, z);
    case OP_TAN: return by_minus_i(k, complex_tanh(k, by_i(k, z)));
    case OP_SINH: return by_minus_i(k, complex_sin_cos(k, OP_SINE, by_i(k, z)));
    case OP_COSH: return complex_sin_cos(k, OP_COSINE, by_i(k, z));
    case OP_SIGN: return complex_sign(k, z);
    case OP_CBRT: return complex_power(k, z, PAIR(k_fconst(k, 1.0f / 3), k_const(k, 0)));
    case OP_LOGISTIC:
        y = complex_exp(k, PAIR(f_neg(k, z.v[0]), f_neg(k, z.v[1])));
        return complex_divide(k, one, complex_add(k, one, y));
    default: return PAIR(0, 0);
    }
}

struct tval complex_value(struct kernel *k, const struct hlo_instr *instr, const struct tval *v) {
    switch (instr->opcode) {
    case OP_ADD: return complex_add(k, v[0], v[1]);
    case OP_SUBTRACT:
        return PAIR(f2(k, OP_SUBTRACT, v[0].v[0], v[1].v[0]),
                    f2(k, OP_SUBTRACT, v[0].v[1], v[1].v[1]));
    case OP_MULTIPLY: return complex_multiply(k, v[0], v[1]);
    case OP_DIVIDE: return complex_divide(k, v[0], v[1]);
    case OP_POWER: return complex_power(k, v[0], v[1]);
    default: return instr->noperands == 1 ? complex_unary(k, instr->opcode, v[0]) : PAIR(0, 0);
    }
}
