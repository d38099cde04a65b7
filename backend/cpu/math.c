/* Elementary functions as branch-free IR: exponentials, logarithms and what follows from them, for
 * float and double. Coefficients are weighted least-maximum fits over the reduced range; the
 * reductions are the textbook ones (Muller, Elementary Functions, chapters 9 to 11). */
#include <math.h>
#include <string.h>

#include "backend/cpu/emit.h"

LLVMValueRef emit_intrinsic(struct cpu_builder *b, const char *name, int count,
                            const LLVMValueRef *arguments) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef type = LLVMTypeOf(arguments[0]);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(b->module, id, &type, 1);
    LLVMTypeRef function_type = LLVMIntrinsicGetType(b->context, id, &type, 1);
    return LLVMBuildCall2(b->builder, function_type, callee, (LLVMValueRef *)arguments,
                          (unsigned)count, "");
}

/* Marks a declared libm function as one that only computes, so that calls can move and merge. */
static void mark_pure(struct cpu_builder *b, LLVMValueRef function) {
    static const char *const names[] = {"nounwind", "willreturn", "nofree", "nosync"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(names[i], strlen(names[i]));
        LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(b->context, kind, 0));
    }
    /* memory(none): errno is nobody's business here. */
    unsigned memory = LLVMGetEnumAttributeKindForName("memory", 6);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(b->context, memory, 0));
}

LLVMValueRef emit_libm(struct cpu_builder *b, const char *name, int count,
                       const LLVMValueRef *arguments) {
    LLVMTypeRef type = LLVMTypeOf(arguments[0]);
    LLVMTypeRef parameters[2] = {type, type};
    LLVMTypeRef function_type = LLVMFunctionType(type, parameters, (unsigned)count, false);
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (!function) {
        function = LLVMAddFunction(b->module, name, function_type);
        mark_pure(b, function);
    }
    return LLVMBuildCall2(b->builder, function_type, function, (LLVMValueRef *)arguments,
                          (unsigned)count, "");
}

/* ---- the exponential ---- */

/* Ordered comparisons, so that NaN passes. */
static LLVMValueRef clamp_to(struct cpu_builder *b, LLVMValueRef x, double low, double high) {
    x = select_of(b, f_cmpk(b, LLVMRealOLT, x, low), fk(x, low), x);
    return select_of(b, f_cmpk(b, LLVMRealOGT, x, high), fk(x, high), x);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2. Returns r; the low bits of the integer *n, as wide as x, are
 * n + bias, and all bits above those that an exponent takes are cleared by a shift to its place.
 * The sum with 1.5 * 2^p rounds to an integer that stands there; unlike fptosi it is defined for
 * NaN. */
static LLVMValueRef exp_reduce(struct cpu_builder *b, LLVMValueRef x, int bias, LLVMValueRef *n) {
    bool wide = is_double(x);
    double magic = (wide ? 0x1.8p52 : 0x1.8p23) + bias;
    LLVMValueRef shifted = f_fma(b, x, fk(x, 0x1.71547652b82fep0), fk(x, magic));
    LLVMValueRef count = f_sub(b, shifted, fk(x, magic));
    *n = bits_of(b, shifted);
    /* The high part of ln 2 has so few bits that its product with n is exact. */
    LLVMValueRef r = f_fma(b, count, fk(x, wide ? -0x1.62e42feep-1 : -0x1.63p-1), x);
    return f_fma(b, count, fk(x, wide ? -0x1.a39ef35793c76p-33 : 0x1.bd0105c610ca8p-13), r);
}

/* e^r - 1 for |r| <= ln 2 / 2. */
static LLVMValueRef expm1_poly(struct cpu_builder *b, LLVMValueRef r) {
    LLVMValueRef p, square = f_mul(b, r, r);
    if (is_double(r))
        p = POLY_PAIRS(b, r, square, 0.5, 0.16666666666666685, 0.04166666666666681,
                       0.0083333333333160328, 0.0013888888888820066, 0.0001984126989875884,
                       2.4801587446684482e-05, 2.7557232597752011e-06, 2.7557172889319036e-07,
                       2.5112788652839245e-08, 2.0945104998365857e-09);
    else
        p = POLY_PAIRS(b, r, square, 0.49999994, 0.166665211, 0.0416682623, 0.00836867187,
                       0.00138210331);
    return f_fma(b, square, p, r);
}

/* The low bits of n in the place of the exponent. */
static LLVMValueRef to_exponent(struct cpu_builder *b, LLVMValueRef n) {
    return i_shlk(b, n, LLVMGetIntTypeWidth(LLVMTypeOf(n)) == 64 ? 52 : 23);
}

/* 2^n for n within the exponent's range. */
static LLVMValueRef power_of_two(struct cpu_builder *b, LLVMValueRef n) {
    bool wide = LLVMGetIntTypeWidth(LLVMTypeOf(n)) == 64;
    return float_of(b, to_exponent(b, i_addk(b, n, wide ? 1023 : 127)));
}

/* 0 where x is so small that e^x is subnormal. */
static LLVMValueRef exp_flushed(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    double low = is_double(x) ? -0x1.6232bdd7abcd2p9 : -0x1.5d589ep6;
    return select_of(b, f_cmpk(b, LLVMRealOLT, x, low), fk(x, 0), y);
}

LLVMValueRef math_exp_small(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef n, r = exp_reduce(b, x, 0, &n), p = f_addk(b, expm1_poly(b, r), 1);
    /* n added to the exponent of p: 2^n itself may be out of range where the result is not. */
    LLVMValueRef y = float_of(b, i_add(b, bits_of(b, p), to_exponent(b, n)));
    return exp_flushed(b, x, y);
}

LLVMValueRef math_exp(struct cpu_builder *b, LLVMValueRef x) {
    double high = is_double(x) ? 0x1.62e42fefa39efp9 : 0x1.62e42ep6;
    return select_of(b, f_cmpk(b, LLVMRealOLE, x, high), math_exp_small(b, x),
                     f_addk(b, x, INFINITY));
}

/* e^x for x <= 0 or NaN. */
static LLVMValueRef exp_of_negative(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef n, r = exp_reduce(b, x, is_double(x) ? 1023 : 127, &n);
    LLVMValueRef scale = float_of(b, to_exponent(b, n));
    return exp_flushed(b, x, f_fma(b, scale, expm1_poly(b, r), scale));
}

LLVMValueRef math_exp_scaled(struct cpu_builder *b, LLVMValueRef x, int shift) {
    LLVMValueRef n;
    bool wide = is_double(x);
    x = wide ? clamp_to(b, x, -747, 713) : clamp_to(b, x, -105, 91);
    LLVMValueRef r = exp_reduce(b, x, shift, &n);
    LLVMValueRef p = f_addk(b, expm1_poly(b, r), 1);
    /* In two steps: 2^n itself may be out of range where the result is not. */
    n = i_sub(b, n, bits_of(b, fk(x, wide ? 0x1.8p52 : 0x1.8p23)));
    LLVMValueRef half = i_ashrk(b, n, 1);
    p = f_mul(b, p, power_of_two(b, half));
    return f_mul(b, p, power_of_two(b, i_sub(b, n, half)));
}

LLVMValueRef math_half_exp_rough(struct cpu_builder *b, LLVMValueRef x) {
    static const double magic = 0x1.8p52 + 1022; /* as in exp_reduce */
    LLVMValueRef n = f_fma(b, x, fk(x, 0x1.71547652b82fep0), fk(x, magic));
    LLVMValueRef r = f_fma(b, f_addk(b, n, -magic), fk(x, -0x1.62e42fefa39efp-1), x);
    LLVMValueRef square = f_mul(b, r, r), scale = float_of(b, to_exponent(b, bits_of(b, n)));
    LLVMValueRef p = POLY_PAIRS(b, r, square, 0.49999993443853386, 0.16666520573407848,
                                0.041668388735641132, 0.0083687239492258904, 0.0013814583556708583);
    return f_fma(b, scale, f_fma(b, square, p, r), scale);
}

/* e^x - 1 for |x| that is not so small that half of it underflows. */
static LLVMValueRef expm1_core(struct cpu_builder *b, LLVMValueRef x) {
    /* Half of the scale, as 2^n may be just out of range. */
    LLVMValueRef n, r = exp_reduce(b, x, is_double(x) ? 1022 : 126, &n);
    LLVMValueRef scale = float_of(b, to_exponent(b, n));
    LLVMValueRef sum = f_fma(b, scale, expm1_poly(b, r), f_addk(b, scale, -0.5));
    return f_add(b, sum, sum);
}

LLVMValueRef math_expm1(struct cpu_builder *b, LLVMValueRef x) {
    bool wide = is_double(x);
    LLVMValueRef y = expm1_core(b, clamp_to(b, x, wide ? -50 : -40, wide ? 710 : 89));
    LLVMValueRef tiny = f_cmpk(b, LLVMRealOLT, f_abs(b, x), wide ? 0x1p-54 : 0x1p-25);
    return select_of(b, tiny, f_flush(b, x), y);
}

LLVMValueRef math_divide_tame(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    if (!b->fma) return f_div(b, x, y);
    LLVMValueRef reciprocal = f_div(b, fk(x, 1), y);
    LLVMValueRef q = f_mul(b, x, reciprocal);
    /* Signs are such that a quotient of -0 stays one. */
    LLVMValueRef excess = f_fma(b, q, y, f_neg(b, x));
    return f_fma(b, excess, f_neg(b, reciprocal), q);
}

/* tanh of f32: m / d with m = 1 - e^y, d = 1 + e^y, y = -2 |x| = n ln 2 + r, all halved. As n is
 * rounded up, r is in -ln 2 .. 0, and m loses no digits. */
static LLVMValueRef tanh_f32(struct cpu_builder *b, LLVMValueRef x) {
    static const double magic = 0x1.8p23 + 126; /* as in exp_reduce */
    LLVMValueRef a = f_abs(b, x), y = f_neg(b, f_add(b, a, a));
    y = select_of(b, f_cmpk(b, LLVMRealOLT, y, -20), fk(x, -20), y);
    LLVMValueRef n = f_addk(b, f_fma(b, y, fk(x, 0x1.71547652b82fep0), fk(x, 0.5)), magic);
    LLVMValueRef scale = float_of(b, to_exponent(b, bits_of(b, n)));
    LLVMValueRef r = f_fma(b, f_addk(b, n, -magic), fk(x, -0x1.62e42fefa39efp-1), y);
    LLVMValueRef square = f_mul(b, r, r);
    LLVMValueRef p = POLY_PAIRS(b, r, square, 0.499998987, 0.166648701, 0.0415601656, 0.0080469707,
                                0.00102142221);
    p = f_fma(b, square, p, r); /* e^r - 1 */
    LLVMValueRef m = f_fma(b, f_neg(b, scale), p, f_sub(b, fk(x, 0.5), scale));
    LLVMValueRef d = f_fma(b, scale, p, f_addk(b, scale, 0.5)), q = f_div(b, m, d);
    /* What the quotient lacks, and what d does: that m + d is to be 1 tells. */
    LLVMValueRef lost = f_sub(b, f_sub(b, fk(x, 1), d), m), less = f_neg(b, q);
    lost = f_fma(b, less, lost, f_fma(b, less, d, m));
    return f_copysign(b, f_fma(b, lost, f_addk(b, q, 1), q), x);
}

LLVMValueRef math_tanh(struct cpu_builder *b, LLVMValueRef x) {
    if (!is_double(x)) return tanh_f32(b, x);
    LLVMValueRef a = f_abs(b, x), y = f_add(b, a, a);
    y = select_of(b, f_cmpk(b, LLVMRealOGT, y, 60), fk(x, 60), y);
    LLVMValueRef e = expm1_core(b, y);
    return f_copysign(b, f_div(b, e, f_addk(b, e, 2)), x);
}

LLVMValueRef math_logistic(struct cpu_builder *b, LLVMValueRef x) {
    /* Of e^-|x|, so that the error of the exponential counts half where the result is large. */
    LLVMValueRef e = exp_of_negative(b, f_neg(b, f_abs(b, x)));
    LLVMValueRef below = f_cmpk(b, LLVMRealOLT, x, 0);
    LLVMValueRef q = f_div(b, select_of(b, below, e, fk(x, 1)), f_addk(b, e, 1));
    /* Where e is small, e - e q has the lesser error. */
    LLVMValueRef tiny = i_and(b, below, f_cmpk(b, LLVMRealOLT, e, 0.25));
    return select_of(b, tiny, f_fma(b, f_neg(b, e), q, e), q);
}

/* ---- the logarithm ---- */

/* u = 2^e m with m in [sqrt(1/2), sqrt(2)); for positive normal numbers. Returns m. */
static LLVMValueRef split_exponent(struct cpu_builder *b, LLVMValueRef u, LLVMValueRef *e) {
    bool wide = is_double(u);
    LLVMValueRef bits = bits_of(b, u);
    LLVMValueRef above = i_subk(b, bits, wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
    *e = i_ashrk(b, above, wide ? 52 : 23);
    return float_of(b, i_sub(b, bits, i_shlk(b, *e, wide ? 52 : 23)));
}

/* Exponents as floats. Of 64 bits by way of 32: vector units lack the direct conversion. */
static LLVMValueRef exponent_to_float(struct cpu_builder *b, LLVMValueRef e, LLVMValueRef like) {
    if (LLVMGetIntTypeWidth(LLVMTypeOf(e)) == 64)
        e = LLVMBuildTrunc(b->builder, e, int_type(b, 32), "");
    return LLVMBuildSIToFP(b->builder, e, LLVMTypeOf(like), "");
}

/* log(1 + f) + e ln 2. */
static LLVMValueRef log_core(struct cpu_builder *b, LLVMValueRef f, LLVMValueRef e) {
    LLVMValueRef square = f_mul(b, f, f);
    if (!is_double(f)) {
        LLVMValueRef p =
            POLY_PAIRS(b, f, square, 0.333333105, -0.249999866, 0.200022265, -0.166692495,
                       0.142186552, -0.12384367, 0.118730098, -0.117897138, 0.0691518262);
        LLVMValueRef rest = f_mul(b, square, f_fma(b, p, f, fk(f, -0.5)));
        rest = f_fma(b, e, fk(f, -0x1.bd0105c610ca8p-13), rest);
        return f_fma(b, e, fk(f, 0x1.63p-1), f_add(b, f, rest));
    }
    LLVMValueRef s = f_div(b, f, f_addk(b, f, 2)), z = f_mul(b, s, s);
    LLVMValueRef p = POLY(b, z, 0.66666666666666663, 0.40000000000006225, 0.28571428569076657,
                          0.22222222650511461, 0.18181775200691933, 0.15387117460643057,
                          0.13249393777531429, 0.13258847325547357);
    LLVMValueRef half = f_mulk(b, square, 0.5);
    LLVMValueRef rest = f_mul(b, s, f_fma(b, z, p, half));
    rest = f_fma(b, e, fk(f, 0x1.a39ef35793c76p-33), rest);
    return f_fma(b, e, fk(f, 0x1.62e42feep-1), f_sub(b, f, f_sub(b, half, rest)));
}

/* The corners of log(u): 0, negative, infinite and NaN. */
static LLVMValueRef log_corners(struct cpu_builder *b, LLVMValueRef u, LLVMValueRef y) {
    y = select_of(b, f_cmpk(b, LLVMRealOEQ, u, INFINITY), u, y);
    y = select_of(b, f_cmpk(b, LLVMRealOEQ, u, 0), fk(u, -INFINITY), y);
    y = select_of(b, f_cmpk(b, LLVMRealOLT, u, 0), fk(u, NAN), y);
    return select_of(b, f_is_nan(b, u), u, y);
}

LLVMValueRef math_log(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef e, m = split_exponent(b, x, &e);
    LLVMValueRef y = log_core(b, f_addk(b, m, -1), exponent_to_float(b, e, x));
    return log_corners(b, x, y);
}

LLVMValueRef math_log1p(struct cpu_builder *b, LLVMValueRef x) {
    bool wide = is_double(x);
    LLVMValueRef u = f_addk(b, x, 1), e, m = split_exponent(b, u, &e);
    /* What the sum 1 + x lost, exactly, brought to the scale of m. */
    LLVMValueRef big = f_cmpk(b, LLVMRealOGE, x, 1);
    LLVMValueRef lost =
        select_of(b, big, f_sub(b, fk(x, 1), f_sub(b, u, x)), f_sub(b, x, f_addk(b, u, -1)));
    LLVMValueRef scale = power_of_two(b, i_sub(b, ik(e, 0), e));
    LLVMValueRef huge = f_cmpk(b, LLVMRealOGE, x, wide ? 0x1p60 : 0x1p30);
    lost = select_of(b, huge, fk(x, 0), f_mul(b, lost, scale));
    LLVMValueRef f = f_add(b, f_addk(b, m, -1), lost);
    LLVMValueRef y = log_corners(b, u, log_core(b, f, exponent_to_float(b, e, x)));
    LLVMValueRef tiny = f_cmpk(b, LLVMRealOLT, f_abs(b, x), wide ? 0x1p-54 : 0x1p-25);
    return select_of(b, tiny, f_flush(b, x), y);
}

/* ---- roots and the error function ---- */

/* 1 / sqrt(x). Where the machine has estimates (cpu_mark_function asks for them as they are), one
 * of Halley's steps, with the rounding of a multiply-add where it counts. */
LLVMValueRef math_rsqrt(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef y = f_div(b, fk(x, 1), f_sqrt(b, x));
    if (is_double(x) || !b->root_estimates || !LLVMIsAInstruction(y)) return y;
    LLVMSetFastMathFlags(y, LLVMFastMathAllowReciprocal);
    LLVMValueRef error = f_fma(b, f_neg(b, f_mul(b, x, y)), y, fk(x, 1));
    LLVMValueRef change = f_mul(b, y, error);
    LLVMValueRef exact = f_fma(b, change, f_fma(b, error, fk(x, 0.375), fk(x, 0.5)), y);
    /* Of 0 and infinity the estimate is right, and the step is 0 * inf. */
    return select_of(b, f_is_nan(b, exact), y, exact);
}

/* 1 - 2^x of float for x in -100 .. 0 or NaN. */
static LLVMValueRef one_minus_exp2(struct cpu_builder *b, LLVMValueRef x) {
    static const double magic = 0x1.8p23 + 127; /* as in exp_reduce */
    LLVMValueRef shifted = f_addk(b, x, magic), r = f_sub(b, x, f_addk(b, shifted, -magic));
    LLVMValueRef p = POLY_PAIRS(b, r, f_mul(b, r, r), 1.00000007, 0.693146967, 0.240221197,
                                0.0555071328, 0.00967554133, 0.00132764714);
    LLVMValueRef scale = float_of(b, to_exponent(b, bits_of(b, shifted)));
    return f_fma(b, f_neg(b, p), scale, fk(x, 1));
}

LLVMValueRef math_erf(struct cpu_builder *b, LLVMValueRef x) {
    if (is_double(x)) return emit_libm(b, "erf", 1, &x);
    LLVMValueRef a = f_abs(b, x), z = f_mul(b, x, x);
    /* Below 1 a series in x^2; above, 1 - 2^-p(x), where the error of 2^ hardly shows. */
    LLVMValueRef p =
        POLY_PAIRS(b, z, f_mul(b, z, z), 0x1.06eba8214db68p-3, -0.376126258, 0.112835851,
                   -0.0268538119, 0.00518832759, -0.00080101928, 7.85385863e-05);
    LLVMValueRef near = f_fma(b, a, p, a);
    LLVMValueRef c = select_of(b, f_cmpk(b, LLVMRealOGT, a, 4), fk(x, 4), a);
    p = POLY_PAIRS(b, c, f_mul(b, c, c), -0.000510304751, -1.62597509, -0.920764989, -0.148651528,
                   0.0314584374, -0.00424096003, 0.00026772702);
    LLVMValueRef far = one_minus_exp2(b, p);
    LLVMValueRef y = select_of(b, f_cmpk(b, LLVMRealOLT, a, 1), near, far);
    return f_copysign(b, y, x);
}
