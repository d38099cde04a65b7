/* Short names for the LLVM instructions that elementwise code is made of. Private to the files
 * that emit scalar arithmetic. Every helper keeps NaN, infinities and signed zeros; the only
 * relaxation, on sums and products, is that the two may contract. */
#ifndef BACKEND_CPU_EMIT_H
#define BACKEND_CPU_EMIT_H

#include "backend/cpu/builder.h"
#include "backend/cpu/math.h"

static inline LLVMValueRef contract(LLVMValueRef value) {
    if (LLVMIsAInstruction(value) && LLVMCanValueUseFastMathFlags(value))
        LLVMSetFastMathFlags(value, LLVMFastMathAllowContract);
    return value;
}

/* ---- constants of the type of `like` ---- */

static inline LLVMValueRef fk(LLVMValueRef like, double value) {
    return LLVMConstReal(LLVMTypeOf(like), value);
}

static inline LLVMValueRef ik(LLVMValueRef like, uint64_t value) {
    return LLVMConstInt(LLVMTypeOf(like), value, false);
}

/* ---- floats ---- */

#define EMIT_F2(name, build)                                                                       \
    static inline LLVMValueRef name(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {       \
        return contract(build(b->builder, x, y, ""));                                              \
    }
EMIT_F2(f_add, LLVMBuildFAdd)
EMIT_F2(f_sub, LLVMBuildFSub)
EMIT_F2(f_mul, LLVMBuildFMul)
EMIT_F2(f_div, LLVMBuildFDiv)
#undef EMIT_F2

static inline LLVMValueRef f_neg(struct cpu_builder *b, LLVMValueRef x) {
    return LLVMBuildFNeg(b->builder, x, "");
}

/* Multiply with a constant; add a constant. */
static inline LLVMValueRef f_mulk(struct cpu_builder *b, LLVMValueRef x, double k) {
    return f_mul(b, x, fk(x, k));
}

static inline LLVMValueRef f_addk(struct cpu_builder *b, LLVMValueRef x, double k) {
    return f_add(b, x, fk(x, k));
}

/* Calls the overloaded intrinsic `name` on values of one type. */
LLVMValueRef emit_intrinsic(struct cpu_builder *b, const char *name, int count,
                            const LLVMValueRef *arguments);
/* Calls a function of libm, `double name(double[, double])` (or the same of float). */
LLVMValueRef emit_libm(struct cpu_builder *b, const char *name, int count,
                       const LLVMValueRef *arguments);

static inline LLVMValueRef f_fma(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y,
                                 LLVMValueRef z) {
    return emit_intrinsic(b, "llvm.fmuladd", 3, (LLVMValueRef[]){x, y, z});
}

/* x with subnormals flushed, which a mere copy would keep: x + x * 2^-60. */
static inline LLVMValueRef f_flush(struct cpu_builder *b, LLVMValueRef x) {
    return f_fma(b, x, LLVMConstReal(LLVMTypeOf(x), 0x1p-60), x);
}

static inline LLVMValueRef f_abs(struct cpu_builder *b, LLVMValueRef x) {
    return emit_intrinsic(b, "llvm.fabs", 1, &x);
}

static inline LLVMValueRef f_copysign(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef sign) {
    return emit_intrinsic(b, "llvm.copysign", 2, (LLVMValueRef[]){x, sign});
}

static inline LLVMValueRef f_sqrt(struct cpu_builder *b, LLVMValueRef x) {
    return emit_intrinsic(b, "llvm.sqrt", 1, &x);
}

static inline LLVMValueRef f_cmp(struct cpu_builder *b, LLVMRealPredicate how, LLVMValueRef x,
                                 LLVMValueRef y) {
    return LLVMBuildFCmp(b->builder, how, x, y, "");
}

static inline LLVMValueRef f_cmpk(struct cpu_builder *b, LLVMRealPredicate how, LLVMValueRef x,
                                  double k) {
    return f_cmp(b, how, x, fk(x, k));
}

static inline LLVMValueRef f_is_nan(struct cpu_builder *b, LLVMValueRef x) {
    return f_cmp(b, LLVMRealUNO, x, x);
}

/* c[0] + x c[1] + x^2 c[2] ... by Horner's rule. */
static inline LLVMValueRef f_poly(struct cpu_builder *b, LLVMValueRef x, int count,
                                  const double *c) {
    LLVMValueRef sum = fk(x, c[count - 1]);
    for (int i = count - 2; i >= 0; i--)
        sum = f_fma(b, sum, x, fk(x, c[i]));
    return sum;
}
#define POLY(b, x, ...)                                                                            \
    f_poly(b, x, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)),                    \
           (const double[]){__VA_ARGS__})

/* The same where x^2 is at hand: pairs of terms, by Horner's rule in x^2, so that half as many
 * multiply-adds wait for each other. */
static inline LLVMValueRef f_poly_pairs(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef square,
                                        int count, const double *c) {
    LLVMValueRef sum = NULL;
    for (int i = (count - 1) / 2 * 2; i >= 0; i -= 2) {
        LLVMValueRef pair = fk(x, c[i]);
        if (i + 1 < count) pair = f_fma(b, fk(x, c[i + 1]), x, pair);
        sum = sum ? f_fma(b, sum, square, pair) : pair;
    }
    return sum;
}
#define POLY_PAIRS(b, x, square, ...)                                                              \
    f_poly_pairs(b, x, square, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)),      \
                 (const double[]){__VA_ARGS__})

/* Of complex numbers part by part: loops with selections of structures get no vectors. */
static inline LLVMValueRef select_of(struct cpu_builder *b, LLVMValueRef condition,
                                     LLVMValueRef yes, LLVMValueRef no) {
    LLVMTypeRef type = LLVMTypeOf(yes);
    if (LLVMGetTypeKind(type) != LLVMStructTypeKind)
        return LLVMBuildSelect(b->builder, condition, yes, no, "");
    LLVMValueRef pair = LLVMGetUndef(type);
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef part =
            LLVMBuildSelect(b->builder, condition, LLVMBuildExtractValue(b->builder, yes, i, ""),
                            LLVMBuildExtractValue(b->builder, no, i, ""), "");
        pair = LLVMBuildInsertValue(b->builder, pair, part, i, "");
    }
    return pair;
}

/* ---- integers ---- */

#define EMIT_I2(name, build)                                                                       \
    static inline LLVMValueRef name(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {       \
        return build(b->builder, x, y, "");                                                        \
    }                                                                                              \
    static inline LLVMValueRef name##k(struct cpu_builder *b, LLVMValueRef x, uint64_t k) {        \
        return build(b->builder, x, ik(x, k), "");                                                 \
    }
EMIT_I2(i_add, LLVMBuildAdd)
EMIT_I2(i_sub, LLVMBuildSub)
EMIT_I2(i_mul, LLVMBuildMul)
EMIT_I2(i_and, LLVMBuildAnd)
EMIT_I2(i_or, LLVMBuildOr)
EMIT_I2(i_xor, LLVMBuildXor)
EMIT_I2(i_shl, LLVMBuildShl)
EMIT_I2(i_lshr, LLVMBuildLShr)
EMIT_I2(i_ashr, LLVMBuildAShr)
#undef EMIT_I2

static inline LLVMValueRef i_cmp(struct cpu_builder *b, LLVMIntPredicate how, LLVMValueRef x,
                                 LLVMValueRef y) {
    return LLVMBuildICmp(b->builder, how, x, y, "");
}

static inline LLVMValueRef i_cmpk(struct cpu_builder *b, LLVMIntPredicate how, LLVMValueRef x,
                                  uint64_t k) {
    return i_cmp(b, how, x, ik(x, k));
}

/* ---- bits ---- */

static inline LLVMTypeRef int_type(struct cpu_builder *b, int bits) {
    return LLVMIntTypeInContext(b->context, (unsigned)bits);
}

static inline bool is_double(LLVMValueRef x) {
    return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMDoubleTypeKind;
}

/* A float or double as an integer of its width, and back. */
static inline LLVMValueRef bits_of(struct cpu_builder *b, LLVMValueRef x) {
    return LLVMBuildBitCast(b->builder, x, int_type(b, is_double(x) ? 64 : 32), "");
}

static inline LLVMValueRef float_of(struct cpu_builder *b, LLVMValueRef bits) {
    bool wide = LLVMGetIntTypeWidth(LLVMTypeOf(bits)) == 64;
    return LLVMBuildBitCast(
        b->builder, bits,
        wide ? LLVMDoubleTypeInContext(b->context) : LLVMFloatTypeInContext(b->context), "");
}

static inline LLVMValueRef to_double(struct cpu_builder *b, LLVMValueRef x) {
    return is_double(x) ? x
                        : LLVMBuildFPExt(b->builder, x, LLVMDoubleTypeInContext(b->context), "");
}

static inline LLVMValueRef to_float(struct cpu_builder *b, LLVMValueRef x) {
    return is_double(x) ? LLVMBuildFPTrunc(b->builder, x, LLVMFloatTypeInContext(b->context), "")
                        : x;
}

/* ---- element types (convert.c) ---- */

/* An integer element brought back to its type's range: types of less than 8 bits wrap. */
LLVMValueRef cpu_wrap(struct cpu_builder *b, LLVMValueRef x, enum element_type type);
/* A float element as the float or double that it is computed in, and back (one rounding; double
 * values of narrow types are rounded to float first). */
LLVMValueRef cpu_widen(struct cpu_builder *b, LLVMValueRef value, enum element_type type);
LLVMValueRef cpu_narrow(struct cpu_builder *b, LLVMValueRef value, enum element_type type);

/* ---- functions of real numbers, for float and double values (math*.c) ---- */

typedef LLVMValueRef math_function(struct cpu_builder *b, LLVMValueRef x);
math_function math_exp, math_expm1, math_log, math_log1p, math_tanh, math_logistic, math_sin,
    math_cos, math_tan, math_erf, math_cbrt, math_rsqrt, math_asin, math_acos, math_atan, math_sinh,
    math_cosh, math_asinh, math_acosh, math_atanh;
/* x / y for y > 0 that loops do not change, within the range of divide_is_tame: one division a
 * loop, and a product with the reciprocal that is corrected once, which rounds as a division does
 * (Markstein, IA-64 and Elementary Functions, 2000). */
LLVMValueRef math_divide_tame(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y);
/* e^x for x that is far from overflow. */
math_function math_exp_small;
LLVMValueRef math_pow(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef math_atan2(struct cpu_builder *b, LLVMValueRef y, LLVMValueRef x);
LLVMValueRef math_rem(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef math_hypot(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y);
/* e^x / 2 of double to 2^-28, for |x| of up to 700: what functions of float need. */
math_function math_half_exp_rough;
/* e^x * 2^shift without the overflow that e^x alone would have. */
LLVMValueRef math_exp_scaled(struct cpu_builder *b, LLVMValueRef x, int shift);

/* ---- complex numbers (math_complex.c) ---- */

/* One elementwise operation whose first operand, or result, is complex. NULL: not one of them. */
LLVMValueRef math_complex(struct cpu_builder *b, const struct hlo_instr *instr,
                          const LLVMValueRef *operands);

#endif
