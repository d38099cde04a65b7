/* Complex numbers. Sums and products are computed in the parts' own type; everything else in
 * double, which for c64 makes the intermediate results neither overflow nor lose what matters.
 * Formulas: Kahan, Branch Cuts for Complex Elementary Functions. */
#include <math.h>

#include "backend/cpu/emit.h"

struct complex_value {
    LLVMValueRef re, im;
    bool narrow; /* the parts come from floats: float sines are exact enough */
};

static struct complex_value make(LLVMValueRef re, LLVMValueRef im, bool narrow) {
    return (struct complex_value){re, im, narrow};
}

static struct complex_value take_apart(struct cpu_builder *b, LLVMValueRef pair) {
    LLVMValueRef re = LLVMBuildExtractValue(b->builder, pair, 0, "");
    LLVMValueRef im = LLVMBuildExtractValue(b->builder, pair, 1, "");
    return make(re, im, !is_double(re));
}

static LLVMValueRef put_together(struct cpu_builder *b, enum element_type type,
                                 struct complex_value z) {
    if (type == TYPE_C64) z = make(to_float(b, z.re), to_float(b, z.im), true);
    LLVMValueRef pair = LLVMGetUndef(cpu_value_type(b, type));
    pair = LLVMBuildInsertValue(b->builder, pair, z.re, 0, "");
    return LLVMBuildInsertValue(b->builder, pair, z.im, 1, "");
}

static struct complex_value widen(struct cpu_builder *b, struct complex_value z) {
    return make(to_double(b, z.re), to_double(b, z.im), z.narrow);
}

static struct complex_value choose(struct cpu_builder *b, LLVMValueRef condition,
                                   struct complex_value yes, struct complex_value no) {
    return make(select_of(b, condition, yes.re, no.re), select_of(b, condition, yes.im, no.im),
                no.narrow);
}

/* A function of a double whose argument and result matter to float precision only, if `narrow`. */
static LLVMValueRef trig(struct cpu_builder *b, math_function *function, LLVMValueRef x,
                         bool narrow) {
    return narrow ? to_double(b, function(b, to_float(b, x))) : function(b, x);
}

/* ---- arithmetic ---- */

static struct complex_value add(struct cpu_builder *b, struct complex_value x,
                                struct complex_value y) {
    return make(f_add(b, x.re, y.re), f_add(b, x.im, y.im), x.narrow);
}

static struct complex_value negate(struct cpu_builder *b, struct complex_value z) {
    return make(f_neg(b, z.re), f_neg(b, z.im), z.narrow);
}

static struct complex_value multiply(struct cpu_builder *b, struct complex_value x,
                                     struct complex_value y) {
    return make(f_sub(b, f_mul(b, x.re, y.re), f_mul(b, x.im, y.im)),
                f_add(b, f_mul(b, x.re, y.im), f_mul(b, x.im, y.re)), x.narrow);
}

static struct complex_value plus(struct cpu_builder *b, struct complex_value z, double k) {
    return make(f_addk(b, z.re, k), z.im, z.narrow);
}

static struct complex_value times_i(struct cpu_builder *b, struct complex_value z) {
    return make(f_neg(b, z.im), z.re, z.narrow);
}

static struct complex_value times_minus_i(struct cpu_builder *b, struct complex_value z) {
    return make(z.im, f_neg(b, z.re), z.narrow);
}

/* Of values from floats, as doubles: their squares stay in range. */
static struct complex_value plain_quotient(struct cpu_builder *b, struct complex_value x,
                                           struct complex_value y) {
    LLVMValueRef size = f_fma(b, y.re, y.re, f_mul(b, y.im, y.im));
    LLVMValueRef inverse = f_div(b, fk(size, 1), size);
    LLVMValueRef re = f_add(b, f_mul(b, x.re, y.re), f_mul(b, x.im, y.im));
    LLVMValueRef im = f_sub(b, f_mul(b, x.im, y.re), f_mul(b, x.re, y.im));
    return make(f_mul(b, re, inverse), f_mul(b, im, inverse), x.narrow);
}

/* Scaled by the divisor's larger part. */
static struct complex_value scaled_quotient(struct cpu_builder *b, struct complex_value x,
                                            struct complex_value y, LLVMValueRef scale) {
    LLVMValueRef r = f_div(b, y.re, scale), i = f_div(b, y.im, scale);
    LLVMValueRef size = f_add(b, f_mul(b, r, r), f_mul(b, i, i));
    LLVMValueRef re = f_add(b, f_mul(b, x.re, r), f_mul(b, x.im, i));
    LLVMValueRef im = f_sub(b, f_mul(b, x.im, r), f_mul(b, x.re, i));
    return make(f_div(b, f_div(b, re, size), scale), f_div(b, f_div(b, im, size), scale), x.narrow);
}

/* Something by zero is infinite, by infinity zero. `plain`: the parts come from floats. */
static struct complex_value divide(struct cpu_builder *b, struct complex_value x,
                                   struct complex_value y, bool plain) {
    LLVMValueRef ar = f_abs(b, y.re), ai = f_abs(b, y.im);
    LLVMValueRef scale = select_of(b, f_cmp(b, LLVMRealOGT, ai, ar), ai, ar);
    struct complex_value q = plain ? plain_quotient(b, x, y) : scaled_quotient(b, x, y, scale);
    LLVMValueRef infinity = f_copysign(b, fk(y.re, INFINITY), y.re);
    struct complex_value by_zero =
        make(f_mul(b, infinity, x.re), f_mul(b, infinity, x.im), x.narrow);
    q = choose(b, f_cmpk(b, LLVMRealOEQ, scale, 0), by_zero, q);
    LLVMValueRef one = fk(scale, 1), zero = fk(scale, 0);
    LLVMValueRef r =
        f_copysign(b, select_of(b, f_cmpk(b, LLVMRealOEQ, ar, INFINITY), one, zero), y.re);
    LLVMValueRef i =
        f_copysign(b, select_of(b, f_cmpk(b, LLVMRealOEQ, ai, INFINITY), one, zero), y.im);
    LLVMValueRef re = f_add(b, f_mul(b, x.re, r), f_mul(b, x.im, i));
    LLVMValueRef im = f_sub(b, f_mul(b, x.im, r), f_mul(b, x.re, i));
    struct complex_value by_infinity = make(f_mulk(b, re, 0), f_mulk(b, im, 0), x.narrow);
    LLVMValueRef infinite =
        i_or(b, f_cmpk(b, LLVMRealOEQ, ar, INFINITY), f_cmpk(b, LLVMRealOEQ, ai, INFINITY));
    return choose(b, infinite, by_infinity, q);
}

static struct complex_value reciprocal(struct cpu_builder *b, struct complex_value z) {
    return divide(b, make(fk(z.re, 1), fk(z.re, 0), z.narrow), z, false);
}

/* ---- exponential, logarithm, root ---- */

static struct complex_value exponential(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef half = math_exp_scaled(b, z.re, -1);
    LLVMValueRef re = f_mul(b, half, trig(b, math_cos, z.im, z.narrow));
    LLVMValueRef im = f_mul(b, half, trig(b, math_sin, z.im, z.narrow));
    im = select_of(b, f_cmpk(b, LLVMRealOEQ, z.im, 0), z.im, f_add(b, im, im));
    re = f_add(b, re, re);
    /* e^-inf is 0 whatever the angle. */
    LLVMValueRef vanishes = f_cmpk(b, LLVMRealOEQ, z.re, -INFINITY);
    struct complex_value zero = make(fk(re, 0), fk(im, 0), z.narrow);
    return choose(b, vanishes, zero, make(re, im, z.narrow));
}

static struct complex_value exponential_minus_one(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef c = trig(b, math_cos, z.im, z.narrow);
    LLVMValueRef s = trig(b, math_sin, f_mulk(b, z.im, 0.5), z.narrow);
    LLVMValueRef re = f_mul(b, math_expm1(b, z.re), c);
    re = f_sub(b, re, f_mulk(b, f_mul(b, s, s), 2));
    return make(re, exponential(b, z).im, z.narrow);
}

static struct complex_value logarithm(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef ax = f_abs(b, z.re), ay = f_abs(b, z.im);
    LLVMValueRef swap = f_cmp(b, LLVMRealOGT, ay, ax);
    LLVMValueRef big = select_of(b, swap, ay, ax), small = select_of(b, swap, ax, ay);
    /* Near the unit circle from |z|^2 - 1, which does not cancel so badly. */
    LLVMValueRef excess = f_fma(b, small, small, f_mul(b, f_addk(b, big, -1), f_addk(b, big, 1)));
    LLVMValueRef near = i_and(b, f_cmpk(b, LLVMRealOGT, big, 0.5), f_cmpk(b, LLVMRealOLT, big, 2));
    LLVMValueRef re = select_of(b, near, f_mulk(b, math_log1p(b, excess), 0.5),
                                math_log(b, math_hypot(b, z.re, z.im)));
    return make(re, math_atan2(b, z.im, z.re), z.narrow);
}

static struct complex_value logarithm_plus_one(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef near = i_and(b, f_cmpk(b, LLVMRealOLT, f_abs(b, z.re), 0.5),
                              f_cmpk(b, LLVMRealOLT, f_abs(b, z.im), 0.5));
    LLVMValueRef excess = f_fma(b, z.im, z.im, f_mul(b, z.re, f_addk(b, z.re, 2)));
    struct complex_value whole = logarithm(b, plus(b, z, 1));
    return make(select_of(b, near, f_mulk(b, math_log1p(b, excess), 0.5), whole.re), whole.im,
                z.narrow);
}

static struct complex_value square_root(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef size = math_hypot(b, z.re, z.im);
    LLVMValueRef t = f_sqrt(b, f_mulk(b, f_add(b, size, f_abs(b, z.re)), 0.5));
    LLVMValueRef other = f_div(b, f_abs(b, z.im), f_add(b, t, t));
    LLVMValueRef zero = f_cmpk(b, LLVMRealOEQ, t, 0);
    other = select_of(b, zero, fk(t, 0), other);
    LLVMValueRef left = f_cmpk(b, LLVMRealOLT, z.re, 0);
    LLVMValueRef re = select_of(b, left, other, t);
    LLVMValueRef im = f_copysign(b, select_of(b, left, t, other), z.im);
    LLVMValueRef tall = f_cmpk(b, LLVMRealOEQ, f_abs(b, z.im), INFINITY);
    return choose(b, tall, make(fk(t, INFINITY), z.im, z.narrow), make(re, im, z.narrow));
}

static LLVMValueRef is_zero(struct cpu_builder *b, struct complex_value z) {
    return i_and(b, f_cmpk(b, LLVMRealOEQ, z.re, 0), f_cmpk(b, LLVMRealOEQ, z.im, 0));
}

static struct complex_value power(struct cpu_builder *b, struct complex_value x,
                                  struct complex_value y) {
    LLVMValueRef zero = fk(x.re, 0), one = fk(x.re, 1);
    struct complex_value power_log = multiply(b, y, logarithm(b, x));
    power_log.narrow = false; /* the angle may be large: a float would lose it */
    struct complex_value p = exponential(b, power_log);
    LLVMValueRef vanishes = i_and(b, is_zero(b, x), f_cmpk(b, LLVMRealOGT, y.re, 0));
    p = choose(b, vanishes, make(zero, zero, x.narrow), p);
    return choose(b, is_zero(b, y), make(one, zero, x.narrow), p);
}

static struct complex_value cube_root(struct cpu_builder *b, struct complex_value z) {
    struct complex_value third = make(fk(z.re, 1.0 / 3), fk(z.re, 0), z.narrow);
    return power(b, z, third);
}

/* ---- trigonometric and hyperbolic ---- */

static struct complex_value hyperbolic_sine(struct cpu_builder *b, struct complex_value z) {
    return make(f_mul(b, math_sinh(b, z.re), trig(b, math_cos, z.im, z.narrow)),
                f_mul(b, math_cosh(b, z.re), trig(b, math_sin, z.im, z.narrow)), z.narrow);
}

static struct complex_value hyperbolic_cosine(struct cpu_builder *b, struct complex_value z) {
    return make(f_mul(b, math_cosh(b, z.re), trig(b, math_cos, z.im, z.narrow)),
                f_mul(b, math_sinh(b, z.re), trig(b, math_sin, z.im, z.narrow)), z.narrow);
}

static struct complex_value hyperbolic_tangent(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef t = trig(b, math_tan, z.im, z.narrow), s = math_sinh(b, z.re);
    LLVMValueRef beta = f_fma(b, t, t, fk(t, 1)), rho = f_sqrt(b, f_fma(b, s, s, fk(t, 1)));
    LLVMValueRef below = f_fma(b, f_mul(b, beta, s), s, fk(t, 1));
    struct complex_value y =
        make(f_div(b, f_mul(b, f_mul(b, beta, rho), s), below), f_div(b, t, below), z.narrow);
    LLVMValueRef far = f_cmpk(b, LLVMRealOGT, f_abs(b, z.re), 40);
    LLVMValueRef one = f_copysign(b, fk(t, 1), z.re), zero = f_copysign(b, fk(t, 0), t);
    return choose(b, far, make(one, zero, z.narrow), y);
}

static struct complex_value inverse_hyperbolic_sine(struct cpu_builder *b, struct complex_value z) {
    struct complex_value root = square_root(b, plus(b, multiply(b, z, z), 1));
    /* Odd: on the right half, where the sum does not cancel. */
    LLVMValueRef left = i_cmpk(b, LLVMIntSLT, bits_of(b, z.re), 0);
    struct complex_value right = choose(b, left, negate(b, z), z);
    struct complex_value y = logarithm(b, add(b, right, root));
    return choose(b, left, negate(b, y), y);
}

static struct complex_value inverse_hyperbolic_cosine(struct cpu_builder *b,
                                                      struct complex_value z) {
    struct complex_value root =
        multiply(b, square_root(b, plus(b, z, 1)), square_root(b, plus(b, z, -1)));
    return logarithm(b, add(b, z, root));
}

static struct complex_value inverse_hyperbolic_tangent(struct cpu_builder *b,
                                                       struct complex_value z) {
    struct complex_value y =
        add(b, logarithm_plus_one(b, z), negate(b, logarithm_plus_one(b, negate(b, z))));
    return make(f_mulk(b, y.re, 0.5), f_mulk(b, y.im, 0.5), z.narrow);
}

static struct complex_value inverse_sine(struct cpu_builder *b, struct complex_value z) {
    return times_minus_i(b, inverse_hyperbolic_sine(b, times_i(b, z)));
}

static struct complex_value inverse_cosine(struct cpu_builder *b, struct complex_value z) {
    struct complex_value y = negate(b, inverse_sine(b, z));
    return plus(b, y, 0x1.921fb54442d18p0);
}

/* -i log((x + i y) / sqrt(x^2 + y^2)) */
static struct complex_value angle(struct cpu_builder *b, struct complex_value y,
                                  struct complex_value x) {
    struct complex_value size = square_root(b, add(b, multiply(b, x, x), multiply(b, y, y)));
    struct complex_value unit = divide(b, add(b, x, times_i(b, y)), size, false);
    return times_minus_i(b, logarithm(b, unit));
}

static struct complex_value direction(struct cpu_builder *b, struct complex_value z) {
    LLVMValueRef size = math_hypot(b, z.re, z.im);
    struct complex_value unit = make(f_div(b, z.re, size), f_div(b, z.im, size), z.narrow);
    return choose(b, f_cmpk(b, LLVMRealUEQ, size, 0), z, unit);
}

/* ---- dispatch ---- */

static struct complex_value in_double(struct cpu_builder *b, enum hlo_opcode opcode,
                                      struct complex_value z, struct complex_value w) {
    switch (opcode) {
    case OP_DIVIDE: return divide(b, z, w, z.narrow);
    case OP_POWER: return power(b, z, w);
    case OP_ATAN2: return angle(b, z, w);
    case OP_EXPONENTIAL: return exponential(b, z);
    case OP_EXPONENTIAL_MINUS_ONE: return exponential_minus_one(b, z);
    case OP_LOG: return logarithm(b, z);
    case OP_LOG_PLUS_ONE: return logarithm_plus_one(b, z);
    case OP_LOGISTIC: return reciprocal(b, plus(b, exponential(b, negate(b, z)), 1));
    case OP_SQRT: return square_root(b, z);
    case OP_RSQRT: return reciprocal(b, square_root(b, z));
    case OP_CBRT: return cube_root(b, z);
    case OP_SINH: return hyperbolic_sine(b, z);
    case OP_COSH: return hyperbolic_cosine(b, z);
    case OP_TANH: return hyperbolic_tangent(b, z);
    case OP_SINE: return times_minus_i(b, hyperbolic_sine(b, times_i(b, z)));
    case OP_COSINE: return hyperbolic_cosine(b, times_i(b, z));
    case OP_TAN: return times_minus_i(b, hyperbolic_tangent(b, times_i(b, z)));
    case OP_ASIN: return inverse_sine(b, z);
    case OP_ACOS: return inverse_cosine(b, z);
    case OP_ASINH: return inverse_hyperbolic_sine(b, z);
    case OP_ACOSH: return inverse_hyperbolic_cosine(b, z);
    case OP_ATANH: return inverse_hyperbolic_tangent(b, z);
    case OP_SIGN: return direction(b, z);
    default: return z;
    }
}

LLVMValueRef math_complex(struct cpu_builder *b, const struct hlo_instr *instr,
                          const LLVMValueRef *operands) {
    enum element_type type = instr->shape->type;
    struct complex_value z, w;
    if (instr->opcode == OP_COMPLEX)
        return put_together(b, type, make(operands[0], operands[1], false));
    z = take_apart(b, operands[0]);
    w = instr->noperands > 1 ? take_apart(b, operands[1]) : z;
    switch (instr->opcode) {
    case OP_REAL: return z.re;
    case OP_IMAG: return z.im;
    case OP_ABS: return math_hypot(b, z.re, z.im);
    case OP_ADD: return put_together(b, type, add(b, z, w));
    case OP_SUBTRACT: return put_together(b, type, add(b, z, negate(b, w)));
    case OP_NEGATE: return put_together(b, type, negate(b, z));
    case OP_MULTIPLY: return put_together(b, type, multiply(b, z, w));
    default: return put_together(b, type, in_double(b, instr->opcode, widen(b, z), widen(b, w)));
    }
}
