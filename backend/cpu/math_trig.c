/* Trigonometric and hyperbolic functions and their inverses as branch-free IR. Those of float that
 * are rare go through the double ones. */
#include <math.h>

#include "backend/cpu/emit.h"

/* ---- reduction of float arguments ---- */

static LLVMTypeRef double_type(struct cpu_builder *b) {
    return LLVMDoubleTypeInContext(b->context);
}

/* The 32-bit word number `index` + `first` of 2 / pi = 0.w0 w1 ..., index 0 to 3, as 64 bits. */
static LLVMValueRef word_of_two_over_pi(struct cpu_builder *b, LLVMValueRef index, int first) {
    static const uint32_t words[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                     0xdb629599, 0x3c439041, 0xfe5163ab};
    LLVMValueRef w = ik(index, words[first + 3]);
    for (int i = 2; i >= 0; i--)
        w = select_of(b, i_cmpk(b, LLVMIntEQ, index, (uint64_t)i), ik(index, words[first + i]), w);
    return w;
}

/* |x| >= 2^30: |x| mod pi/2 by the product of its 24-bit significand with the bits of 2 / pi that
 * matter for its exponent (Payne and Hanek). `bits` are those of |x|, as 64. */
static LLVMValueRef reduce_huge(struct cpu_builder *b, LLVMValueRef bits, LLVMValueRef *quadrant) {
    LLVMTypeRef i32 = int_type(b, 32);
    LLVMValueRef m = i_ork(b, i_andk(b, bits, 0x7fffff), 0x800000);
    /* x = m 2^k; bits of 2 / pi before number k - 1 contribute multiples of 4. */
    LLVMValueRef offset = i_subk(b, i_lshrk(b, bits, 23), 152);
    LLVMValueRef index = i_andk(b, i_lshrk(b, offset, 5), 3), shift = i_andk(b, offset, 31);
    LLVMValueRef product = NULL, w[3], next = word_of_two_over_pi(b, index, 0);
    for (int i = 0; i < 3; i++) {
        LLVMValueRef high = next;
        next = word_of_two_over_pi(b, index, i + 1);
        LLVMValueRef both = i_or(b, i_shlk(b, high, 32), next);
        w[i] = i_mul(b, i_lshrk(b, i_shl(b, both, shift), 32), m);
    }
    product = i_add(b, i_add(b, i_shlk(b, w[0], 32), w[1]), i_lshrk(b, w[2], 32));
    *quadrant = LLVMBuildTrunc(b->builder, i_lshrk(b, i_addk(b, product, 1ull << 61), 62), i32, "");
    /* The fraction, in [-1/2, 1/2), as 32 + 31 bits: those convert in vector units. */
    LLVMValueRef fraction = i_shlk(b, product, 2);
    LLVMValueRef high = LLVMBuildTrunc(b->builder, i_lshrk(b, fraction, 32), i32, "");
    LLVMValueRef low = i_lshrk(b, LLVMBuildTrunc(b->builder, fraction, i32, ""), 1);
    high = LLVMBuildSIToFP(b->builder, high, double_type(b), "");
    low = LLVMBuildSIToFP(b->builder, low, double_type(b), "");
    return f_mulk(b, f_fma(b, low, fk(low, 0x1p-31), high), 0x1.921fb54442d18p-32);
}

/* x = q pi/2 + r, |r| <= pi/4 (a little more at the edge): r as double, q modulo 4 as i32.
 * Infinite and NaN arguments are left to the caller. */
static LLVMValueRef reduce_float(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef *quadrant) {
    LLVMValueRef d = to_double(b, x);
    LLVMValueRef shifted = f_fma(b, d, fk(d, 0x1.45f306dc9c883p-1), fk(d, 0x1.8p52));
    LLVMValueRef count = f_sub(b, shifted, fk(d, 0x1.8p52));
    /* 33 + 53 bits of pi/2. Counts of up to 2^20 have exact products with the first part; those up
     * to 2^30 leave an error of 2^-40, below what a float argument there can show. */
    LLVMValueRef r = f_fma(b, count, fk(d, -0x1.921fb544p0), d);
    r = f_fma(b, count, fk(d, -0x1.0b4611a6p-34), r);
    r = f_fma(b, count, fk(d, -0x1.3198a2e037073p-69), r);
    LLVMValueRef q = LLVMBuildTrunc(b->builder, bits_of(b, shifted), int_type(b, 32), "");

    LLVMValueRef bits = bits_of(b, x), sign = i_cmpk(b, LLVMIntSLT, bits, 0), huge_q;
    bits = LLVMBuildZExt(b->builder, i_andk(b, bits, 0x7fffffff), int_type(b, 64), "");
    LLVMValueRef huge_r = reduce_huge(b, bits, &huge_q);
    huge_r = select_of(b, sign, f_neg(b, huge_r), huge_r);
    huge_q = select_of(b, sign, i_sub(b, ik(huge_q, 0), huge_q), huge_q);
    LLVMValueRef huge = f_cmpk(b, LLVMRealOGE, f_abs(b, x), 0x1p30);
    *quadrant = select_of(b, huge, huge_q, q);
    return select_of(b, huge, huge_r, r);
}

/* ---- sine, cosine, tangent ---- */

static LLVMValueRef sine_poly(struct cpu_builder *b, LLVMValueRef r) {
    LLVMValueRef z = f_mul(b, r, r), p;
    if (is_double(r))
        p = POLY(b, z, -0.16666666666666632, 0.0083333333333224027, -0.00019841269829799251,
                 2.7557313689022735e-06, -2.50507576679918e-08, 1.5896769912706869e-10);
    else
        p = POLY(b, z, -0.166666672, 0.00833332911, -0.000198393333, 2.71830186e-06);
    return f_fma(b, f_mul(b, z, p), r, r);
}

static LLVMValueRef cosine_poly(struct cpu_builder *b, LLVMValueRef r) {
    LLVMValueRef z = f_mul(b, r, r), p;
    if (is_double(r))
        p = POLY(b, z, 0.041666666666666602, -0.001388888888887401, 2.4801587289412314e-05,
                 -2.7557314332541877e-07, 2.0875720631986898e-09, -1.1359513364430549e-11);
    else
        p = POLY(b, z, 0.0416666456, -0.00138873665, 2.44383536e-05);
    return f_fma(b, f_mul(b, z, z), p, f_fma(b, z, fk(z, -0.5), fk(z, 1)));
}

/* x itself where it is infinite or NaN would be no answer: NaN then. */
static LLVMValueRef nan_unless_finite(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef finite = f_cmpk(b, LLVMRealOLT, f_abs(b, x), INFINITY);
    return select_of(b, finite, y, f_sub(b, x, x));
}

/* sin(x + turns pi/2) of a float. */
static LLVMValueRef sine_float(struct cpu_builder *b, LLVMValueRef x, int turns) {
    LLVMValueRef q, r = to_float(b, reduce_float(b, x, &q));
    if (turns) q = i_addk(b, q, (uint64_t)turns);
    LLVMValueRef odd = i_cmpk(b, LLVMIntNE, i_andk(b, q, 1), 0);
    LLVMValueRef y = select_of(b, odd, cosine_poly(b, r), sine_poly(b, r));
    LLVMValueRef sign = i_shlk(b, i_andk(b, q, 2), 30);
    return nan_unless_finite(b, x, float_of(b, i_xor(b, bits_of(b, y), sign)));
}

LLVMValueRef math_sin(struct cpu_builder *b, LLVMValueRef x) {
    if (is_double(x)) return emit_libm(b, "sin", 1, &x);
    LLVMValueRef tiny = f_cmpk(b, LLVMRealOLT, f_abs(b, x), 0x1p-13);
    return select_of(b, tiny, f_flush(b, x), sine_float(b, x, 0));
}

LLVMValueRef math_cos(struct cpu_builder *b, LLVMValueRef x) {
    return is_double(x) ? emit_libm(b, "cos", 1, &x) : sine_float(b, x, 1);
}

LLVMValueRef math_tan(struct cpu_builder *b, LLVMValueRef x) {
    if (is_double(x)) return emit_libm(b, "tan", 1, &x);
    LLVMValueRef q, r = reduce_float(b, x, &q);
    LLVMValueRef s = sine_poly(b, r), c = cosine_poly(b, r);
    LLVMValueRef odd = i_cmpk(b, LLVMIntNE, i_andk(b, q, 1), 0);
    LLVMValueRef y = f_div(b, select_of(b, odd, f_neg(b, c), s), select_of(b, odd, s, c));
    LLVMValueRef tiny = f_cmpk(b, LLVMRealOLT, f_abs(b, x), 0x1p-13);
    return select_of(b, tiny, f_flush(b, x), nan_unless_finite(b, x, to_float(b, y)));
}

/* ---- inverse functions ---- */

/* atan of t >= 0, given as the quotient of two numbers >= 0, so that infinity needs no care. */
static LLVMValueRef atan_quotient(struct cpu_builder *b, LLVMValueRef y, LLVMValueRef x) {
    /* Smaller by larger, then (t - 1) / (t + 1) where t > tan(pi/8): one division does both. */
    LLVMValueRef steep = f_cmp(b, LLVMRealOGT, y, x);
    LLVMValueRef low = select_of(b, steep, x, y), high = select_of(b, steep, y, x);
    LLVMValueRef middle = f_cmp(b, LLVMRealOGT, low, f_mulk(b, high, 0x1.a827999fcef31p-2));
    LLVMValueRef top = select_of(b, middle, f_sub(b, low, high), low);
    LLVMValueRef bottom = select_of(b, middle, f_add(b, low, high), high);
    LLVMValueRef t = f_div(b, top, bottom), z = f_mul(b, t, t);
    LLVMValueRef p = POLY(b, z, -0.33333333333333198, 0.19999999999953874, -0.14285714280227255,
                          0.11111110785052493, -0.090908978046025518, 0.076920610598188846,
                          -0.06663113705107819, 0.058479595139169088, -0.050396194527015485,
                          0.038072493398720465, -0.017915809082543747);
    LLVMValueRef a = f_fma(b, f_mul(b, z, p), t, t);
    a = select_of(b, middle, f_addk(b, f_addk(b, a, 0x1.1a62633145c07p-55), 0x1.921fb54442d18p-1),
                  a);
    LLVMValueRef complement =
        f_addk(b, f_sub(b, fk(a, 0x1.1a62633145c07p-54), a), 0x1.921fb54442d18p0);
    return select_of(b, steep, complement, a);
}

static LLVMValueRef atan2_double(struct cpu_builder *b, LLVMValueRef y, LLVMValueRef x) {
    LLVMValueRef ay = f_abs(b, y), ax = f_abs(b, x);
    LLVMValueRef inf_y = f_cmpk(b, LLVMRealOEQ, ay, INFINITY);
    LLVMValueRef inf_x = f_cmpk(b, LLVMRealOEQ, ax, INFINITY);
    LLVMValueRef any_inf = LLVMBuildOr(b->builder, inf_y, inf_x, "");
    /* Infinities count as 1 against 0 or 1 here; both zero as 0 by 1. */
    LLVMValueRef one = fk(y, 1), zero = fk(y, 0);
    LLVMValueRef ty = select_of(b, any_inf, select_of(b, inf_y, one, zero), ay);
    LLVMValueRef tx = select_of(b, any_inf, select_of(b, inf_x, one, zero), ax);
    LLVMValueRef both_zero =
        LLVMBuildAnd(b->builder, f_cmpk(b, LLVMRealOEQ, ty, 0), f_cmpk(b, LLVMRealOEQ, tx, 0), "");
    tx = select_of(b, both_zero, one, tx);
    /* Away from the ends of the range, where sums and small products would leave it. */
    LLVMValueRef top = select_of(b, f_cmp(b, LLVMRealOGT, ty, tx), ty, tx);
    LLVMValueRef scale =
        select_of(b, f_cmpk(b, LLVMRealOGT, top, 0x1p1000), fk(y, 0x1p-60),
                  select_of(b, f_cmpk(b, LLVMRealOLT, top, 0x1p-900), fk(y, 0x1p120), one));
    LLVMValueRef a = atan_quotient(b, f_mul(b, ty, scale), f_mul(b, tx, scale));
    LLVMValueRef left = i_cmpk(b, LLVMIntSLT, bits_of(b, x), 0);
    LLVMValueRef turned = f_addk(b, f_sub(b, fk(a, 0x1.1a62633145c07p-53), a), 0x1.921fb54442d18p1);
    a = f_copysign(b, select_of(b, left, turned, a), y);
    /* A NaN operand wins; the sum has it. */
    LLVMValueRef nan = f_cmp(b, LLVMRealUNO, x, y);
    return select_of(b, nan, f_add(b, x, y), a);
}

/* Computes a function of float through the one of double. */
static LLVMValueRef through_double(struct cpu_builder *b, math_function *function, LLVMValueRef x) {
    return to_float(b, function(b, to_double(b, x)));
}

LLVMValueRef math_atan2(struct cpu_builder *b, LLVMValueRef y, LLVMValueRef x) {
    if (is_double(y)) return atan2_double(b, y, x);
    return to_float(b, atan2_double(b, to_double(b, y), to_double(b, x)));
}

LLVMValueRef math_atan(struct cpu_builder *b, LLVMValueRef x) {
    return math_atan2(b, x, fk(x, 1));
}

/* sqrt(1 - x^2) without cancellation. */
static LLVMValueRef other_leg(struct cpu_builder *b, LLVMValueRef x) {
    return f_sqrt(b, f_mul(b, f_sub(b, fk(x, 1), x), f_addk(b, x, 1)));
}

LLVMValueRef math_asin(struct cpu_builder *b, LLVMValueRef x) {
    return is_double(x) ? atan2_double(b, x, other_leg(b, x)) : through_double(b, math_asin, x);
}

LLVMValueRef math_acos(struct cpu_builder *b, LLVMValueRef x) {
    return is_double(x) ? atan2_double(b, other_leg(b, x), x) : through_double(b, math_acos, x);
}

/* ---- hyperbolic functions ---- */

LLVMValueRef math_sinh(struct cpu_builder *b, LLVMValueRef x) {
    if (!is_double(x)) return through_double(b, math_sinh, x);
    LLVMValueRef a = f_abs(b, x), e = math_expm1(b, a);
    LLVMValueRef sum = f_add(b, e, f_div(b, e, f_addk(b, e, 1)));
    LLVMValueRef big = f_cmpk(b, LLVMRealOGT, a, 40);
    LLVMValueRef y = select_of(b, big, math_exp_scaled(b, a, -1), f_mulk(b, sum, 0.5));
    LLVMValueRef tiny = f_cmpk(b, LLVMRealOLT, a, 0x1p-28);
    return select_of(b, tiny, f_flush(b, x), f_copysign(b, y, x));
}

LLVMValueRef math_cosh(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef a = f_abs(b, x), half;
    if (is_double(x)) {
        half = math_exp_scaled(b, a, -1);
    } else { /* from 100 on the result is infinite */
        a = select_of(b, f_cmpk(b, LLVMRealOGT, a, 100), fk(a, 100), a);
        half = math_half_exp_rough(b, to_double(b, a));
    }
    LLVMValueRef y = f_add(b, half, f_div(b, fk(half, 0.25), half));
    return is_double(x) ? y : to_float(b, y);
}

LLVMValueRef math_asinh(struct cpu_builder *b, LLVMValueRef x) {
    if (!is_double(x)) return through_double(b, math_asinh, x);
    LLVMValueRef a = f_abs(b, x), square = f_mul(b, a, a);
    LLVMValueRef root = f_sqrt(b, f_addk(b, square, 1));
    LLVMValueRef big = f_cmpk(b, LLVMRealOGT, a, 0x1p60);
    LLVMValueRef small = f_add(b, a, f_div(b, square, f_addk(b, root, 1)));
    LLVMValueRef y = math_log1p(b, select_of(b, big, a, small));
    y = select_of(b, big, f_addk(b, y, 0x1.62e42fefa39efp-1), y);
    return f_copysign(b, y, x);
}

LLVMValueRef math_acosh(struct cpu_builder *b, LLVMValueRef x) {
    if (!is_double(x)) return through_double(b, math_acosh, x);
    LLVMValueRef t = f_addk(b, x, -1);
    LLVMValueRef big = f_cmpk(b, LLVMRealOGT, x, 0x1p60);
    LLVMValueRef root = f_sqrt(b, f_mul(b, t, f_addk(b, x, 1)));
    LLVMValueRef y = math_log1p(b, select_of(b, big, x, f_add(b, t, root)));
    y = select_of(b, big, f_addk(b, y, 0x1.62e42fefa39efp-1), y);
    return select_of(b, f_cmpk(b, LLVMRealOLT, x, 1), fk(x, NAN), y);
}

LLVMValueRef math_atanh(struct cpu_builder *b, LLVMValueRef x) {
    if (!is_double(x)) return through_double(b, math_atanh, x);
    LLVMValueRef a = f_abs(b, x);
    LLVMValueRef t = f_div(b, f_add(b, a, a), f_sub(b, fk(x, 1), a));
    LLVMValueRef y = f_mulk(b, math_log1p(b, t), 0.5);
    y = select_of(b, f_cmpk(b, LLVMRealOGT, a, 1), fk(x, NAN), y);
    return select_of(b, f_is_nan(b, x), x, f_copysign(b, y, x));
}
