/* Elementwise operations: one function a class of element, on blocks of scalars. Subnormal
 * operands and results of arithmetic on f32, f64 and bf16 count as zero, as on XLA's devices. */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"
#include "ir/number.h"

static inline float flush_f32(float x) {
    return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

static inline double flush_f64(double x) {
    return fabs(x) < DBL_MIN ? copysign(0.0, x) : x;
}

bool scalar_op_init(struct scalar_op *op, const struct hlo_instr *instr) {
    const struct hlo_attr *type;
    int data = instr->opcode == OP_SELECT || instr->opcode == OP_CLAMP ? 1 : 0;

    if (!(opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) ||
        instr->opcode == OP_STOCHASTIC_CONVERT || instr->noperands <= data || instr->noperands > 3)
        return false;
    memset(op, 0, sizeof *op);
    op->opcode = instr->opcode;
    op->in = instr->operands[data]->shape->type;
    op->out = instr->shape->type;
    if (scalar_class(op->in) == CLASS_NONE || scalar_class(op->out) == CLASS_NONE) return false;
    if (instr->opcode == OP_COMPARE) {
        type = instr_attr(instr, ATTR_COMPARE_TYPE);
        op->direction = (int)instr_int(instr, ATTR_DIRECTION, ENUM_DIRECTION_EQ);
        op->total_order = type && type->i == ENUM_COMPARE_TYPE_TOTALORDER;
    } else if (instr->opcode == OP_REDUCE_PRECISION) {
        op->exponent_bits = (int)clamp_int(instr_int(instr, ATTR_EXPONENT_BITS, 8), 1, 11);
        op->mantissa_bits = (int)clamp_int(instr_int(instr, ATTR_MANTISSA_BITS, 23), 0, 52);
    }
    return true;
}

/* ---- integers ---- */

static int64_t int_divide(int64_t a, int64_t b, bool is_signed) {
    if (b == 0) return -1;
    if (!is_signed) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t int_remainder(int64_t a, int64_t b, bool is_signed) {
    if (b == 0) return a;
    if (!is_signed) return (int64_t)((uint64_t)a % (uint64_t)b);
    return b == -1 ? 0 : a % b;
}

static int64_t int_power(int64_t base, int64_t exponent, bool is_signed) {
    uint64_t result = 1, factor = (uint64_t)base, left = (uint64_t)exponent;

    if (is_signed && exponent < 0) {
        if (base == 1) return 1;
        return base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    }
    for (; left; left >>= 1, factor *= factor)
        if (left & 1) result *= factor;
    return (int64_t)result;
}

static int64_t int_shift(enum hlo_opcode opcode, int64_t a, int64_t count, int bits) {
    uint64_t raw = (uint64_t)scalar_wrap(a, bits, false);
    uint64_t shift = (uint64_t)count;

    switch (opcode) {
    case OP_SHIFT_LEFT: return shift >= (uint64_t)bits ? 0 : (int64_t)(raw << shift);
    case OP_SHIFT_RIGHT_LOGICAL: return shift >= (uint64_t)bits ? 0 : (int64_t)(raw >> shift);
    default:
        a = scalar_wrap(a, bits, true);
        return a >> (shift >= (uint64_t)bits ? bits - 1 : (int)shift);
    }
}

static int64_t int_mulhi(int64_t a, int64_t b, int bits, bool is_signed) {
    if (is_signed) return (int64_t)(((__int128)a * b) >> bits);
    return (int64_t)(((unsigned __int128)(uint64_t)a * (uint64_t)b) >> bits);
}

static int64_t pred_binary(enum hlo_opcode opcode, int64_t a, int64_t b) {
    switch (opcode) {
    case OP_ADD:
    case OP_MAXIMUM:
    case OP_OR: return a | b;
    case OP_MULTIPLY:
    case OP_MINIMUM:
    case OP_AND: return a & b;
    default: return a ^ b;
    }
}

static inline int64_t int_one(enum hlo_opcode opcode, int64_t a, int64_t b, int64_t c, int bits,
                              bool is_signed) {
    bool less = is_signed ? a < b : (uint64_t)a < (uint64_t)b;

    switch (opcode) {
    case OP_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case OP_SUBTRACT: return (int64_t)((uint64_t)a - (uint64_t)b);
    case OP_MULTIPLY: return (int64_t)((uint64_t)a * (uint64_t)b);
    case OP_DIVIDE: return int_divide(a, b, is_signed);
    case OP_REMAINDER: return int_remainder(a, b, is_signed);
    case OP_POWER: return int_power(a, b, is_signed);
    case OP_MAXIMUM: return less ? b : a;
    case OP_MINIMUM: return less ? a : b;
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    case OP_XOR: return a ^ b;
    case OP_NOT: return ~a;
    case OP_NEGATE: return (int64_t)(0 - (uint64_t)a);
    case OP_ABS: return is_signed && a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case OP_SIGN: return is_signed ? (a > 0) - (a < 0) : a != 0;
    case OP_POPCNT: return __builtin_popcountll((uint64_t)scalar_wrap(a, bits, false));
    case OP_COUNT_LEADING_ZEROS:
        a = scalar_wrap(a, bits, false);
        return a ? __builtin_clzll((uint64_t)a) - (64 - bits) : bits;
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT_ARITHMETIC:
    case OP_SHIFT_RIGHT_LOGICAL:
        return int_shift(opcode, a, is_signed ? scalar_wrap(b, bits, false) : b, bits);
    case OP_MULHI: return int_mulhi(a, b, bits, is_signed);
    case OP_CLAMP: /* low, x, high */
        a = (is_signed ? a > b : (uint64_t)a > (uint64_t)b) ? a : b;
        return (is_signed ? a < c : (uint64_t)a < (uint64_t)c) ? a : c;
    default: /* rounding and the like: identities */ return a;
    }
}

static void run_int(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                    const union scalar *b, const union scalar *c) {
    int bits = element_type_info(op->out)->bits;
    bool is_signed = element_type_is_signed(op->out);

    if (op->out == TYPE_PRED && op->opcode == OP_NOT) {
        for (int k = 0; k < n; k++)
            out[k].i = !a[k].i;
        return;
    }
    if (op->out == TYPE_PRED && op->opcode != OP_CLAMP) {
        for (int k = 0; k < n; k++)
            out[k].i = pred_binary(op->opcode, a[k].i, b[k].i);
        return;
    }
    for (int k = 0; k < n; k++)
        out[k].i = scalar_wrap(int_one(op->opcode, a[k].i, b[k].i, c[k].i, bits, is_signed), bits,
                               is_signed);
}

/* ---- real numbers ---- */

static double real_unary(enum hlo_opcode opcode, double x) {
    switch (opcode) {
    case OP_ACOS: return acos(x);
    case OP_ACOSH: return acosh(x);
    case OP_ASIN: return asin(x);
    case OP_ASINH: return asinh(x);
    case OP_ATANH: return atanh(x);
    case OP_CBRT: return cbrt(x);
    case OP_CEIL: return ceil(x);
    case OP_COSINE: return cos(x);
    case OP_COSH: return cosh(x);
    case OP_ERF: return erf(x);
    case OP_EXPONENTIAL: return exp(x);
    case OP_EXPONENTIAL_MINUS_ONE: return expm1(x);
    case OP_FLOOR: return floor(x);
    case OP_LOG: return log(x);
    case OP_LOG_PLUS_ONE: return log1p(x);
    case OP_LOGISTIC: return 1.0 / (1.0 + exp(-x));
    case OP_ROUND_NEAREST_AFZ: return round(x);
    case OP_ROUND_NEAREST_EVEN: return nearbyint(x);
    case OP_RSQRT: return 1.0 / sqrt(x);
    case OP_SIGN: return isnan(x) || x == 0.0 ? x : x > 0.0 ? 1.0 : -1.0;
    case OP_SINE: return sin(x);
    case OP_SINH: return sinh(x);
    case OP_SQRT: return sqrt(x);
    case OP_TAN: return tan(x);
    case OP_TANH: return tanh(x);
    case OP_IMAG: return 0.0;
    default: return x;
    }
}

static inline double real_maximum(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

static inline double real_minimum(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double real_binary(enum hlo_opcode opcode, double a, double b) {
    switch (opcode) {
    case OP_MAXIMUM: return real_maximum(a, b);
    case OP_MINIMUM: return real_minimum(a, b);
    case OP_POWER: return pow(a, b);
    case OP_REMAINDER: return fmod(a, b);
    case OP_ATAN2: return atan2(a, b);
    default: return a;
    }
}

static bool is_unary(enum hlo_opcode opcode) {
    return opcode_info(opcode)->most_operands == 1;
}

static void run_f32(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                    const union scalar *b, const union scalar *c) {
    switch (op->opcode) {
    case OP_ADD:
        for (int k = 0; k < n; k++)
            out[k].f = flush_f32(flush_f32(a[k].f) + flush_f32(b[k].f));
        break;
    case OP_SUBTRACT:
        for (int k = 0; k < n; k++)
            out[k].f = flush_f32(flush_f32(a[k].f) - flush_f32(b[k].f));
        break;
    case OP_MULTIPLY:
        for (int k = 0; k < n; k++)
            out[k].f = flush_f32(flush_f32(a[k].f) * flush_f32(b[k].f));
        break;
    case OP_DIVIDE:
        for (int k = 0; k < n; k++)
            out[k].f = flush_f32(flush_f32(a[k].f) / flush_f32(b[k].f));
        break;
    case OP_CLAMP:
        for (int k = 0; k < n; k++)
            out[k].f = (float)real_minimum(real_maximum(flush_f32(b[k].f), flush_f32(a[k].f)),
                                           flush_f32(c[k].f));
        break;
    case OP_NEGATE:
        for (int k = 0; k < n; k++)
            out[k].f = -a[k].f;
        break;
    case OP_ABS:
        for (int k = 0; k < n; k++)
            out[k].f = fabsf(a[k].f);
        break;
    case OP_REAL: memmove(out, a, (size_t)n * sizeof *out); break;
    default:
        if (is_unary(op->opcode))
            for (int k = 0; k < n; k++)
                out[k].f = flush_f32((float)real_unary(op->opcode, flush_f32(a[k].f)));
        else
            for (int k = 0; k < n; k++)
                out[k].f =
                    flush_f32((float)real_binary(op->opcode, flush_f32(a[k].f), flush_f32(b[k].f)));
        break;
    }
    if (op->out != TYPE_F32) scalar_round(op->out, n, out);
}

static double f64_one(enum hlo_opcode opcode, double a, double b, double c) {
    switch (opcode) {
    case OP_ADD: return a + b;
    case OP_SUBTRACT: return a - b;
    case OP_MULTIPLY: return a * b;
    case OP_DIVIDE: return a / b;
    case OP_CLAMP: return real_minimum(real_maximum(b, a), c);
    default: return is_unary(opcode) ? real_unary(opcode, a) : real_binary(opcode, a, b);
    }
}

static void run_f64(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                    const union scalar *b, const union scalar *c) {
    for (int k = 0; k < n; k++) {
        if (op->opcode == OP_NEGATE)
            out[k].d = -a[k].d;
        else if (op->opcode == OP_ABS)
            out[k].d = fabs(a[k].d);
        else if (op->opcode == OP_REAL)
            out[k].d = a[k].d;
        else
            out[k].d = flush_f64(
                f64_one(op->opcode, flush_f64(a[k].d), flush_f64(b[k].d), flush_f64(c[k].d)));
    }
}

/* ---- complex numbers ---- */

static double complex quotient(double complex a, double complex b) {
    double br = creal(b), bi = cimag(b), ar = creal(a), ai = cimag(a), scale;

    scale = fmax(fabs(br), fabs(bi));
    if (scale == 0.0 || isinf(scale) || isnan(br) || isnan(bi)) return a / b;
    /* A power of two, so that scaling is exact. */
    scale = ldexp(1.0, -ilogb(scale));
    br *= scale;
    bi *= scale;
    return CMPLX((ar * br + ai * bi) / (br * br + bi * bi) * scale,
                 (ai * br - ar * bi) / (br * br + bi * bi) * scale);
}

static double complex complex_expm1(double complex z) {
    double x = creal(z), y = cimag(z), half = sin(y / 2);

    return CMPLX(expm1(x) * cos(y) - 2 * half * half, exp(x) * sin(y));
}

static double complex complex_log1p(double complex z) {
    double x = creal(z), y = cimag(z);

    if (fabs(x) < 0.5 && fabs(y) < 0.5)
        return CMPLX(0.5 * log1p(x * (2 + x) + y * y), atan2(y, 1 + x));
    return CMPLX(log(hypot(1 + x, y)), atan2(y, 1 + x));
}

static double complex complex_power(double complex a, double complex b) {
    if (creal(b) == 0 && cimag(b) == 0) return 1;
    if (creal(a) == 0 && cimag(a) == 0) return creal(b) > 0 ? 0 : cpow(a, b);
    return cpow(a, b);
}

static double complex complex_sign(double complex z) {
    double size = hypot(creal(z), cimag(z));

    return size == 0 || isnan(size) ? z : CMPLX(creal(z) / size, cimag(z) / size);
}

static double complex complex_one(enum hlo_opcode opcode, double complex a, double complex b) {
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);

    switch (opcode) {
    case OP_ADD: return CMPLX(ar + br, ai + bi);
    case OP_SUBTRACT: return CMPLX(ar - br, ai - bi);
    case OP_MULTIPLY: return CMPLX(ar * br - ai * bi, ar * bi + ai * br);
    case OP_DIVIDE: return quotient(a, b);
    case OP_POWER: return complex_power(a, b);
    case OP_ATAN2: { /* -i log((b + i a) / sqrt(a^2 + b^2)) */
        double complex l = clog((b + CMPLX(-ai, ar)) / csqrt(a * a + b * b));

        return CMPLX(cimag(l), -creal(l));
    }
    case OP_NEGATE: return CMPLX(-ar, -ai);
    case OP_EXPONENTIAL: return cexp(a);
    case OP_EXPONENTIAL_MINUS_ONE: return complex_expm1(a);
    case OP_LOG: return clog(a);
    case OP_LOG_PLUS_ONE: return complex_log1p(a);
    case OP_LOGISTIC: return 1.0 / (1.0 + cexp(-a));
    case OP_SQRT: return csqrt(a);
    case OP_RSQRT: return quotient(1.0, csqrt(a));
    case OP_CBRT: return cpow(a, 1.0 / 3.0);
    case OP_SINE: return csin(a);
    case OP_COSINE: return ccos(a);
    case OP_TAN: return ctan(a);
    case OP_TANH: return ctanh(a);
    case OP_SINH: return csinh(a);
    case OP_COSH: return ccosh(a);
    case OP_ASIN: return casin(a);
    case OP_ACOS: return cacos(a);
    case OP_ASINH: return casinh(a);
    case OP_ACOSH: return cacosh(a);
    case OP_ATANH: return catanh(a);
    case OP_SIGN: return complex_sign(a);
    default: return a;
    }
}

static double complex get_complex(enum scalar_class class, const union scalar *x) {
    switch (class) {
    case CLASS_C64: return CMPLX(x->cf[0], x->cf[1]);
    case CLASS_C128: return CMPLX(x->cd[0], x->cd[1]);
    case CLASS_F64: return CMPLX(x->d, 0.0);
    default: return CMPLX(x->f, 0.0);
    }
}

static void put_complex(enum scalar_class class, union scalar *x, double complex z) {
    if (class == CLASS_C64) {
        x->cf[0] = (float)creal(z);
        x->cf[1] = (float)cimag(z);
    } else {
        x->cd[0] = creal(z);
        x->cd[1] = cimag(z);
    }
}

/* real, imag and abs of complex operands. */
static void run_complex_to_real(const struct scalar_op *op, int n, union scalar *out,
                                const union scalar *a) {
    enum scalar_class class = scalar_class(op->in);

    for (int k = 0; k < n; k++) {
        double complex z = get_complex(class, &a[k]);
        double x = op->opcode == OP_REAL   ? creal(z)
                   : op->opcode == OP_IMAG ? cimag(z)
                                           : hypot(creal(z), cimag(z));

        if (class == CLASS_C64)
            out[k].f = (float)x;
        else
            out[k].d = x;
    }
}

static void run_complex(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                        const union scalar *b) {
    enum scalar_class in = scalar_class(op->in), class = scalar_class(op->out);

    for (int k = 0; k < n; k++) {
        if (op->opcode == OP_COMPLEX)
            put_complex(class, &out[k],
                        in == CLASS_F64 ? CMPLX(a[k].d, b[k].d) : CMPLX(a[k].f, b[k].f));
        else if (op->opcode == OP_MULTIPLY && class == CLASS_C64)
            out[k] = (union scalar){.cf = {a[k].cf[0] * b[k].cf[0] - a[k].cf[1] * b[k].cf[1],
                                           a[k].cf[0] * b[k].cf[1] + a[k].cf[1] * b[k].cf[0]}};
        else
            put_complex(
                class, &out[k],
                complex_one(op->opcode, get_complex(class, &a[k]), get_complex(class, &b[k])));
    }
}

/* ---- comparison ---- */

/* -1, 0, 1, or 2 where unordered. */
static int order_real(double a, double b) {
    if (isnan(a) || isnan(b)) return 2;
    return (a > b) - (a < b);
}

static int order_total(double a, double b) {
    int64_t x, y;

    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x ^= (int64_t)((uint64_t)(x >> 63) >> 1);
    y ^= (int64_t)((uint64_t)(y >> 63) >> 1);
    return (x > y) - (x < y);
}

static int order(const struct scalar_op *op, enum scalar_class class, bool is_signed,
                 const union scalar *a, const union scalar *b) {
    double complex x, y;

    switch (class) {
    case CLASS_INT:
        return is_signed ? (a->i > b->i) - (a->i < b->i) : (a->u > b->u) - (a->u < b->u);
    case CLASS_F32:
        return op->total_order ? order_total(a->f, b->f)
                               : order_real(flush_f32(a->f), flush_f32(b->f));
    case CLASS_F64:
        return op->total_order ? order_total(a->d, b->d)
                               : order_real(flush_f64(a->d), flush_f64(b->d));
    default:
        x = get_complex(class, a);
        y = get_complex(class, b);
        if (isnan(creal(x)) || isnan(creal(y)) || isnan(cimag(x)) || isnan(cimag(y))) return 2;
        return creal(x) == creal(y) && cimag(x) == cimag(y) ? 0 : 1;
    }
}

static void run_compare(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                        const union scalar *b) {
    enum scalar_class class = scalar_class(op->in);
    bool is_signed = element_type_is_signed(op->in);

    for (int k = 0; k < n; k++) {
        int o = order(op, class, is_signed, &a[k], &b[k]);

        switch (op->direction) {
        case ENUM_DIRECTION_EQ: out[k].i = o == 0; break;
        case ENUM_DIRECTION_NE: out[k].i = o != 0; break;
        case ENUM_DIRECTION_GE: out[k].i = o == 0 || o == 1; break;
        case ENUM_DIRECTION_GT: out[k].i = o == 1; break;
        case ENUM_DIRECTION_LE: out[k].i = o == 0 || o == -1; break;
        default: out[k].i = o == -1; break;
        }
    }
}

/* ---- reduce-precision ---- */

/* Bits of a float of `exponent` and `mantissa` bits, rounded to fewer of either (XLA's rule). */
static uint64_t reduce_bits(uint64_t bits, int exponent, int mantissa, int to_exponent,
                            int to_mantissa) {
    uint64_t sign = bits & (1ull << (exponent + mantissa));
    uint64_t exponent_mask = ((1ull << exponent) - 1) << mantissa;
    uint64_t infinity = exponent_mask, magnitude = bits ^ sign;
    int bias = (1 << (exponent - 1)) - 1, to_bias, drop = mantissa - to_mantissa;
    uint64_t high, low;

    if (magnitude > infinity) /* NaN: payload kept where any of it is left */
        return bits;
    if (drop > 0) {
        uint64_t last = magnitude >> drop & 1;

        magnitude += (1ull << (drop - 1)) - 1 + last;
        magnitude &= ~((1ull << drop) - 1);
    }
    if (to_exponent < exponent) {
        to_bias = (1 << (to_exponent - 1)) - 1;
        high = (uint64_t)(bias + to_bias) << mantissa;
        low = (uint64_t)(bias - to_bias) << mantissa;
        if ((magnitude & exponent_mask) > high)
            magnitude = infinity;
        else if ((magnitude & exponent_mask) <= low)
            magnitude = 0;
    }
    return sign | magnitude;
}

static void run_reduce_precision(const struct scalar_op *op, int n, union scalar *out,
                                 const union scalar *a) {
    const struct element_type_info *info = element_type_info(op->in);

    for (int k = 0; k < n; k++) {
        if (scalar_class(op->in) == CLASS_F64) {
            uint64_t bits;

            memcpy(&bits, &a[k].d, sizeof bits);
            bits = reduce_bits(bits, 11, 52, op->exponent_bits, op->mantissa_bits);
            memcpy(&out[k].d, &bits, sizeof bits);
        } else {
            uint64_t bits = op->in == TYPE_F32 || op->in == TYPE_BF16 ? 0 : 1;
            uint32_t word;

            if (bits == 0) { /* f32 itself, or bf16 as the f32 that it is */
                memcpy(&word, &a[k].f, sizeof word);
                word = (uint32_t)reduce_bits(word, 8, 23, op->exponent_bits, op->mantissa_bits);
                memcpy(&out[k].f, &word, sizeof word);
            } else {
                bits = number_encode(op->in, a[k].f);
                bits = reduce_bits(bits, info->exponent_bits, info->mantissa_bits,
                                   op->exponent_bits, op->mantissa_bits);
                out[k].f = (float)number_decode(op->in, bits);
            }
        }
    }
    scalar_round(op->out, n, out);
}

/* ---- conversion ---- */

static int64_t saturate(enum element_type to, double x) {
    const struct element_type_info *info = element_type_info(to);
    bool is_signed = element_type_is_signed(to);
    double low = is_signed ? -ldexp(1.0, info->bits - 1) : 0.0;
    double high = ldexp(1.0, is_signed ? info->bits - 1 : info->bits); /* exclusive */

    if (isnan(x)) return 0;
    if (x <= low) return number_int_min(to);
    if (x >= high - (info->bits < 53 ? 1.0 : 0.0)) return number_int_max(to);
    return is_signed ? (int64_t)x : (int64_t)(uint64_t)x;
}

static void convert_to_int(enum element_type from, enum element_type to, const union scalar *in,
                           union scalar *out) {
    double x;

    switch (scalar_class(from)) {
    case CLASS_INT:
        out->i = to == TYPE_PRED
                     ? in->i != 0
                     : scalar_wrap(in->i, element_type_info(to)->bits, element_type_is_signed(to));
        return;
    case CLASS_F32: x = flush_f32(in->f); break;
    case CLASS_F64: x = flush_f64(in->d); break;
    default: x = creal(get_complex(scalar_class(from), in)); break;
    }
    out->i = to == TYPE_PRED ? x != 0.0 : saturate(to, x);
}

static void convert_to_real(enum element_type from, enum element_type to, const union scalar *in,
                            union scalar *out) {
    bool wide = scalar_class(to) == CLASS_F64;

    switch (scalar_class(from)) {
    case CLASS_INT:
        if (wide)
            out->d = from == TYPE_U64 ? (double)in->u : (double)in->i;
        else
            out->f = from == TYPE_U64 ? (float)in->u : (float)in->i;
        break;
    case CLASS_F32:
        if (wide)
            out->d = flush_f32(in->f);
        else
            out->f = in->f;
        break;
    case CLASS_F64:
        if (wide)
            out->d = in->d;
        else
            out->f = flush_f32((float)in->d);
        break;
    default:
        if (wide)
            out->d = creal(get_complex(scalar_class(from), in));
        else
            out->f = (float)creal(get_complex(scalar_class(from), in));
        break;
    }
}

void scalar_convert(enum element_type from, enum element_type to, int n, union scalar *out,
                    const union scalar *in) {
    enum scalar_class source = scalar_class(from), class = scalar_class(to);
    union scalar x;

    for (int k = 0; k < n; k++) {
        switch (class) {
        case CLASS_INT: convert_to_int(from, to, &in[k], &x); break;
        case CLASS_C64:
        case CLASS_C128:
            if (source == CLASS_C64 || source == CLASS_C128) {
                put_complex(class, &x, get_complex(source, &in[k]));
            } else {
                convert_to_real(from, TYPE_F64, &in[k], &x);
                put_complex(class, &x, CMPLX(x.d, 0.0));
            }
            break;
        default: convert_to_real(from, to, &in[k], &x); break;
        }
        out[k] = x;
    }
    if (from != to) scalar_round(to, n, out);
}

/* ---- dispatch ---- */

static void run_select(int n, union scalar *out, const union scalar *a, const union scalar *b,
                       const union scalar *c) {
    for (int k = 0; k < n; k++)
        out[k] = a[k].i ? b[k] : c[k];
}

static void run_is_finite(enum element_type type, int n, union scalar *out, const union scalar *a) {
    for (int k = 0; k < n; k++)
        out[k].i = scalar_class(type) == CLASS_F64 ? isfinite(a[k].d) != 0 : isfinite(a[k].f) != 0;
}

void scalar_op_run(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                   const union scalar *b, const union scalar *c) {
    enum scalar_class in = scalar_class(op->in), class = scalar_class(op->out);

    switch (op->opcode) {
    case OP_SELECT: run_select(n, out, a, b, c); return;
    case OP_COMPARE: run_compare(op, n, out, a, b); return;
    case OP_CONVERT: scalar_convert(op->in, op->out, n, out, a); return;
    case OP_REDUCE_PRECISION: run_reduce_precision(op, n, out, a); return;
    case OP_IS_FINITE: run_is_finite(op->in, n, out, a); return;
    default: break;
    }
    if ((in == CLASS_C64 || in == CLASS_C128) && class != in) {
        run_complex_to_real(op, n, out, a);
        return;
    }
    switch (class) {
    case CLASS_INT: run_int(op, n, out, a, b, c); break;
    case CLASS_F32: run_f32(op, n, out, a, b, c); break;
    case CLASS_F64: run_f64(op, n, out, a, b, c); break;
    default: run_complex(op, n, out, a, b); break;
    }
}

static void run_array(const struct scalar_op *op, int noperands, struct literal **ops,
                      struct literal *result) {
    union scalar buffer[3][EVAL_BLOCK], out[EVAL_BLOCK];
    bool fixed[3] = {false, false, false};
    int64_t count = result->shape->count;

    for (int j = 0; j < noperands; j++) {
        fixed[j] = ops[j]->shape->count == 1 && count != 1;
        if (!fixed[j]) continue;
        scalar_load(ops[j]->shape->type, ops[j]->data, 0, 1, buffer[j]);
        for (int k = 1; k < EVAL_BLOCK; k++)
            buffer[j][k] = buffer[j][0];
    }
    for (int64_t start = 0; start < count; start += EVAL_BLOCK) {
        int n = (int)(count - start < EVAL_BLOCK ? count - start : EVAL_BLOCK);

        for (int j = 0; j < noperands; j++)
            if (!fixed[j]) scalar_load(ops[j]->shape->type, ops[j]->data, start, n, buffer[j]);
        scalar_op_run(op, n, out, buffer[0], buffer[noperands > 1 ? 1 : 0],
                      buffer[noperands > 2 ? 2 : 0]);
        scalar_store(op->out, result->data, start, n, out);
    }
}

struct literal *eval_elementwise(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    struct scalar_op op;
    struct literal *result;

    if (!scalar_op_init(&op, instr))
        return eval_error(e, instr, "no evaluation for these operand types");
    for (int j = 0; j < instr->noperands; j++)
        if ((!ops[j]->data && ops[j]->shape->count > 0) ||
            (ops[j]->shape->count != instr->shape->count && ops[j]->shape->count != 1))
            return eval_error(e, instr, "operand %d does not have the result's size", j);
    result = eval_new_uninit(e, instr, instr->shape);
    if (result) run_array(&op, instr->noperands, ops, result);
    return result;
}

static int64_t type_bits(enum element_type type) {
    int bits = element_type_info(type)->bits;

    return bits == 1 ? 8 : bits;
}

/* Elements of the wider type are sequences of the narrower one, low bits first. */
struct literal *eval_bitcast_convert(struct eval *e, const struct hlo_instr *instr,
                                     struct literal **ops) {
    enum element_type from = ops[0]->shape->type, to = instr->shape->type;
    int64_t in_bits = type_bits(from), out_bits = type_bits(to);
    int64_t in_count = ops[0]->shape->count, out_count = instr->shape->count;
    struct literal *result;
    uint8_t *out;
    const uint8_t *in = ops[0]->data;

    if (in_count * in_bits != out_count * out_bits)
        return eval_error(e, instr, "operand and result differ in bits");
    result = eval_new(e, instr, instr->shape);
    if (!result) return NULL;
    if (in_bits >= 8 && out_bits >= 8) {
        memcpy(result->data, ops[0]->data, (size_t)(in_count * in_bits / 8));
        return result;
    }
    out = result->data;
    for (int64_t bit = 0; bit < in_count * in_bits; bit++) {
        int64_t i = bit / in_bits, o = bit / out_bits;
        int in_size = element_type_size(from), out_size = element_type_size(to);
        int64_t in_at = bit % in_bits, out_at = bit % out_bits;

        out[o * out_size + out_at / 8] |=
            (uint8_t)((in[i * in_size + in_at / 8] >> (in_at % 8) & 1) << (out_at % 8));
    }
    if (element_type_is_signed(to) && out_bits < 8)
        for (int64_t o = 0; o < out_count; o++)
            out[o] = (uint8_t)scalar_wrap(out[o], (int)out_bits, true);
    return result;
}
