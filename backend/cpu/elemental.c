/* Elementwise operations on one element: dispatch by the kind of the operands' element type.
 * Corners are those of docs/numerics.md. */
#include <math.h>

#include "backend/cpu/emit.h"
#include "ir/number.h"
#include "passes/float_sign.h"

static int type_bits(enum element_type type) {
    return element_type_info(type)->bits;
}

static LLVMValueRef min_max(struct cpu_builder *b, const char *name, LLVMValueRef x,
                            LLVMValueRef y) {
    return emit_intrinsic(b, name, 2, (LLVMValueRef[]){x, y});
}

/* ---- comparison ---- */

static LLVMRealPredicate real_predicate(int64_t direction) {
    switch (direction) {
    case ENUM_DIRECTION_EQ: return LLVMRealOEQ;
    case ENUM_DIRECTION_NE: return LLVMRealUNE;
    case ENUM_DIRECTION_GE: return LLVMRealOGE;
    case ENUM_DIRECTION_GT: return LLVMRealOGT;
    case ENUM_DIRECTION_LE: return LLVMRealOLE;
    default: return LLVMRealOLT;
    }
}

static LLVMIntPredicate int_predicate(int64_t direction, bool is_signed) {
    switch (direction) {
    case ENUM_DIRECTION_EQ: return LLVMIntEQ;
    case ENUM_DIRECTION_NE: return LLVMIntNE;
    case ENUM_DIRECTION_GE: return is_signed ? LLVMIntSGE : LLVMIntUGE;
    case ENUM_DIRECTION_GT: return is_signed ? LLVMIntSGT : LLVMIntUGT;
    case ENUM_DIRECTION_LE: return is_signed ? LLVMIntSLE : LLVMIntULE;
    default: return is_signed ? LLVMIntSLT : LLVMIntULT;
    }
}

/* The bits of a float, mapped so that signed order is the total order. */
static LLVMValueRef total_order_key(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef bits = bits_of(b, x);
    uint64_t width = is_double(x) ? 64 : 32;
    return i_xor(b, bits, i_lshrk(b, i_ashrk(b, bits, width - 1), 1));
}

static LLVMValueRef emit_compare(struct cpu_builder *b, const struct hlo_instr *instr,
                                 const LLVMValueRef *v) {
    enum element_type type = instr->operands[0]->shape->type;
    int64_t direction = instr_int(instr, ATTR_DIRECTION, ENUM_DIRECTION_EQ);
    if (element_type_is_complex(type)) {
        LLVMRealPredicate how = real_predicate(direction);
        LLVMValueRef same[2];
        for (unsigned i = 0; i < 2; i++)
            same[i] = f_cmp(b, how, LLVMBuildExtractValue(b->builder, v[0], i, ""),
                            LLVMBuildExtractValue(b->builder, v[1], i, ""));
        return direction == ENUM_DIRECTION_NE ? i_or(b, same[0], same[1])
                                              : i_and(b, same[0], same[1]);
    }
    if (!element_type_is_float(type))
        return i_cmp(b, int_predicate(direction, element_type_is_signed(type)), v[0], v[1]);
    LLVMValueRef x = cpu_widen(b, v[0], type), y = cpu_widen(b, v[1], type);
    if (instr_int(instr, ATTR_COMPARE_TYPE, 0) == ENUM_COMPARE_TYPE_TOTALORDER)
        return i_cmp(b, int_predicate(direction, true), total_order_key(b, x),
                     total_order_key(b, y));
    return f_cmp(b, real_predicate(direction), x, y);
}

/* ---- integers ---- */

/* Bits of the register that the type does not use. */
static uint64_t spare_bits(LLVMValueRef x, enum element_type type) {
    return LLVMGetIntTypeWidth(LLVMTypeOf(x)) - (uint64_t)type_bits(type);
}

/* The value's own bits, zero-extended to its register. */
static LLVMValueRef raw_bits(struct cpu_builder *b, LLVMValueRef x, enum element_type type) {
    return spare_bits(x, type) ? i_andk(b, x, (1u << type_bits(type)) - 1) : x;
}

static LLVMValueRef int_divide(struct cpu_builder *b, enum hlo_opcode opcode, LLVMValueRef x,
                               LLVMValueRef y, bool is_signed) {
    bool remainder = opcode == OP_REMAINDER;
    LLVMValueRef zero = i_cmpk(b, LLVMIntEQ, y, 0), one = ik(y, 1), q;
    LLVMValueRef minus_one = LLVMConstAllOnes(LLVMTypeOf(y));
    if (!is_signed) {
        LLVMValueRef safe = select_of(b, zero, one, y);
        q = remainder ? LLVMBuildURem(b->builder, x, safe, "")
                      : LLVMBuildUDiv(b->builder, x, safe, "");
        return select_of(b, zero, remainder ? x : minus_one, q);
    }
    LLVMValueRef negates = i_cmp(b, LLVMIntEQ, y, minus_one);
    LLVMValueRef safe = select_of(b, i_or(b, zero, negates), one, y);
    q = remainder ? LLVMBuildSRem(b->builder, x, safe, "") : LLVMBuildSDiv(b->builder, x, safe, "");
    if (!remainder) q = select_of(b, negates, i_sub(b, ik(x, 0), x), q);
    return select_of(b, zero, remainder ? x : minus_one, q);
}

/* Square and multiply, a step for each bit of the exponent. */
static LLVMValueRef int_power(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y,
                              enum element_type type) {
    LLVMValueRef result = ik(x, 1), factor = x, rest = raw_bits(b, y, type);
    for (int i = 0; i < type_bits(type); i++) {
        LLVMValueRef set = i_cmpk(b, LLVMIntNE, i_andk(b, rest, 1), 0);
        result = select_of(b, set, i_mul(b, result, factor), result);
        factor = i_mul(b, factor, factor);
        rest = i_lshrk(b, rest, 1);
    }
    if (!element_type_is_signed(type)) return result;
    LLVMValueRef minus_one = LLVMConstAllOnes(LLVMTypeOf(x));
    LLVMValueRef odd = i_cmpk(b, LLVMIntNE, i_andk(b, y, 1), 0);
    LLVMValueRef sign = select_of(b, odd, minus_one, ik(x, 1));
    LLVMValueRef inverse = select_of(b, i_cmpk(b, LLVMIntEQ, x, 1), x, ik(x, 0));
    inverse = select_of(b, i_cmp(b, LLVMIntEQ, x, minus_one), sign, inverse);
    return select_of(b, i_cmpk(b, LLVMIntSLT, y, 0), inverse, result);
}

static LLVMValueRef int_shift(struct cpu_builder *b, enum hlo_opcode opcode, LLVMValueRef x,
                              LLVMValueRef count, enum element_type type) {
    uint64_t bits = (uint64_t)type_bits(type);
    count = raw_bits(b, count, type);
    LLVMValueRef in_range = i_cmpk(b, LLVMIntULT, count, bits);
    if (opcode == OP_SHIFT_RIGHT_ARITHMETIC) {
        uint64_t unused = spare_bits(x, type); /* sign-extend what an unsigned one masked */
        if (unused) x = i_ashrk(b, i_shlk(b, x, unused), unused);
        return i_ashr(b, x, select_of(b, in_range, count, ik(count, bits - 1)));
    }
    LLVMValueRef safe = select_of(b, in_range, count, ik(count, 0));
    LLVMValueRef y =
        opcode == OP_SHIFT_LEFT ? i_shl(b, x, safe) : i_lshr(b, raw_bits(b, x, type), safe);
    return select_of(b, in_range, y, ik(x, 0));
}

static LLVMValueRef int_mulhi(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y,
                              enum element_type type) {
    int bits = type_bits(type);
    LLVMTypeRef wide = int_type(b, 2 * (int)LLVMGetIntTypeWidth(LLVMTypeOf(x)));
    bool is_signed = element_type_is_signed(type);
    LLVMValueRef (*extend)(LLVMBuilderRef, LLVMValueRef, LLVMTypeRef, const char *) =
        is_signed ? LLVMBuildSExt : LLVMBuildZExt;
    LLVMValueRef product =
        i_mul(b, extend(b->builder, x, wide, ""), extend(b->builder, y, wide, ""));
    return LLVMBuildTrunc(b->builder, i_lshrk(b, product, (uint64_t)bits), LLVMTypeOf(x), "");
}

static LLVMValueRef count_bits(struct cpu_builder *b, enum hlo_opcode opcode, LLVMValueRef x,
                               enum element_type type) {
    x = raw_bits(b, x, type);
    if (opcode == OP_POPCNT) return emit_intrinsic(b, "llvm.ctpop", 1, &x);
    LLVMTypeRef int_t = LLVMTypeOf(x);
    unsigned id = LLVMLookupIntrinsicID("llvm.ctlz", 9);
    LLVMValueRef arguments[2] = {x, LLVMConstInt(int_type(b, 1), 0, false)};
    LLVMValueRef y =
        LLVMBuildCall2(b->builder, LLVMIntrinsicGetType(b->context, id, &int_t, 1),
                       LLVMGetIntrinsicDeclaration(b->module, id, &int_t, 1), arguments, 2, "");
    return spare_bits(x, type) ? i_subk(b, y, spare_bits(x, type)) : y;
}

static LLVMValueRef int_sign(struct cpu_builder *b, LLVMValueRef x, bool is_signed) {
    LLVMValueRef some = select_of(b, i_cmpk(b, LLVMIntNE, x, 0), ik(x, 1), ik(x, 0));
    if (!is_signed) return some;
    return select_of(b, i_cmpk(b, LLVMIntSLT, x, 0), LLVMConstAllOnes(LLVMTypeOf(x)), some);
}

static LLVMValueRef emit_int(struct cpu_builder *b, enum hlo_opcode opcode, enum element_type type,
                             const LLVMValueRef *v) {
    bool is_signed = element_type_is_signed(type);
    const char *max = is_signed ? "llvm.smax" : "llvm.umax";
    const char *min = is_signed ? "llvm.smin" : "llvm.umin";
    LLVMValueRef x = v[0];
    switch (opcode) {
    case OP_ADD: return i_add(b, x, v[1]);
    case OP_SUBTRACT: return i_sub(b, x, v[1]);
    case OP_MULTIPLY: return i_mul(b, x, v[1]);
    case OP_DIVIDE:
    case OP_REMAINDER: return int_divide(b, opcode, x, v[1], is_signed);
    case OP_POWER: return int_power(b, x, v[1], type);
    case OP_MAXIMUM: return min_max(b, max, x, v[1]);
    case OP_MINIMUM: return min_max(b, min, x, v[1]);
    case OP_CLAMP: return min_max(b, min, min_max(b, max, v[1], v[0]), v[2]);
    case OP_AND: return i_and(b, x, v[1]);
    case OP_OR: return i_or(b, x, v[1]);
    case OP_XOR: return i_xor(b, x, v[1]);
    case OP_NOT: return LLVMBuildNot(b->builder, x, "");
    case OP_NEGATE: return i_sub(b, ik(x, 0), x);
    case OP_ABS:
        return is_signed ? select_of(b, i_cmpk(b, LLVMIntSLT, x, 0), i_sub(b, ik(x, 0), x), x) : x;
    case OP_SIGN: return int_sign(b, x, is_signed);
    case OP_POPCNT:
    case OP_COUNT_LEADING_ZEROS: return count_bits(b, opcode, x, type);
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT_ARITHMETIC:
    case OP_SHIFT_RIGHT_LOGICAL: return int_shift(b, opcode, x, v[1], type);
    case OP_MULHI: return int_mulhi(b, x, v[1], type);
    default: return x; /* rounding, real: identities */
    }
}

static LLVMValueRef emit_pred(struct cpu_builder *b, enum hlo_opcode opcode,
                              const LLVMValueRef *v) {
    switch (opcode) {
    case OP_ADD:
    case OP_MAXIMUM:
    case OP_OR: return i_or(b, v[0], v[1]);
    case OP_MULTIPLY:
    case OP_MINIMUM:
    case OP_AND: return i_and(b, v[0], v[1]);
    case OP_SUBTRACT:
    case OP_XOR: return i_xor(b, v[0], v[1]);
    case OP_NOT: return LLVMBuildNot(b->builder, v[0], "");
    case OP_CLAMP: return i_and(b, i_or(b, v[0], v[1]), v[2]);
    default: return emit_int(b, opcode, TYPE_PRED, v);
    }
}

/* ---- real numbers ---- */

static LLVMValueRef real_sign(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef zero = f_cmpk(b, LLVMRealOEQ, x, 0);
    LLVMValueRef y = f_copysign(b, select_of(b, zero, fk(x, 0), fk(x, 1)), x);
    return select_of(b, f_is_nan(b, x), x, y);
}

static LLVMValueRef real_unary(struct cpu_builder *b, enum hlo_opcode opcode, LLVMValueRef x) {
    switch (opcode) {
    case OP_ABS: return f_abs(b, x);
    case OP_ACOS: return math_acos(b, x);
    case OP_ACOSH: return math_acosh(b, x);
    case OP_ASIN: return math_asin(b, x);
    case OP_ASINH: return math_asinh(b, x);
    case OP_ATANH: return math_atanh(b, x);
    case OP_CBRT: return math_cbrt(b, x);
    case OP_CEIL: return emit_intrinsic(b, "llvm.ceil", 1, &x);
    case OP_COSINE: return math_cos(b, x);
    case OP_COSH: return math_cosh(b, x);
    case OP_ERF: return math_erf(b, x);
    case OP_EXPONENTIAL: return math_exp(b, x);
    case OP_EXPONENTIAL_MINUS_ONE: return math_expm1(b, x);
    case OP_FLOOR: return emit_intrinsic(b, "llvm.floor", 1, &x);
    case OP_IMAG: return fk(x, 0);
    case OP_LOG: return math_log(b, x);
    case OP_LOG_PLUS_ONE: return math_log1p(b, x);
    case OP_LOGISTIC: return math_logistic(b, x);
    case OP_NEGATE: return f_neg(b, x);
    case OP_ROUND_NEAREST_AFZ: return emit_intrinsic(b, "llvm.round", 1, &x);
    case OP_ROUND_NEAREST_EVEN: return emit_intrinsic(b, "llvm.roundeven", 1, &x);
    case OP_RSQRT: return math_rsqrt(b, x);
    case OP_SIGN: return real_sign(b, x);
    case OP_SINE: return math_sin(b, x);
    case OP_SINH: return math_sinh(b, x);
    case OP_SQRT: return f_sqrt(b, x);
    case OP_TAN: return math_tan(b, x);
    case OP_TANH: return math_tanh(b, x);
    default: return x;
    }
}

static LLVMValueRef real_operation(struct cpu_builder *b, enum hlo_opcode opcode,
                                   const LLVMValueRef *v) {
    LLVMValueRef x = v[0];
    switch (opcode) {
    case OP_ADD: return f_add(b, x, v[1]);
    case OP_SUBTRACT: return f_sub(b, x, v[1]);
    case OP_MULTIPLY: return f_mul(b, x, v[1]);
    case OP_DIVIDE: return f_div(b, x, v[1]);
    case OP_REMAINDER: return math_rem(b, x, v[1]);
    case OP_POWER: return math_pow(b, x, v[1]);
    case OP_ATAN2: return math_atan2(b, x, v[1]);
    case OP_MAXIMUM: return min_max(b, "llvm.maximum", x, v[1]);
    case OP_MINIMUM: return min_max(b, "llvm.minimum", x, v[1]);
    case OP_CLAMP: return min_max(b, "llvm.minimum", min_max(b, "llvm.maximum", v[1], x), v[2]);
    default: return real_unary(b, opcode, x);
    }
}

static LLVMValueRef emit_real(struct cpu_builder *b, const struct hlo_instr *instr,
                              enum element_type type, const LLVMValueRef *v) {
    LLVMValueRef wide[3];
    /* Half-width signs are bits: no way through float, no NaN changed. */
    if (type_bits(type) == 16 && instr->opcode == OP_NEGATE) return i_xork(b, v[0], 0x8000);
    if (type_bits(type) == 16 && instr->opcode == OP_ABS) return i_andk(b, v[0], 0x7fff);
    if (instr->opcode == OP_REAL) return v[0];
    for (int i = 0; i < instr->noperands && i < 3; i++)
        wide[i] = cpu_widen(b, v[i], type);
    if (instr->opcode == OP_EXPONENTIAL && instr_is_never_positive(instr->operands[0]))
        return cpu_narrow(b, math_exp_small(b, wide[0]), type);
    if (instr->opcode == OP_DIVIDE && divide_is_tame(instr))
        return cpu_narrow(b, math_divide_tame(b, wide[0], wide[1]), type);
    return cpu_narrow(b, real_operation(b, instr->opcode, wide), type);
}

/* ---- rounding to fewer bits ---- */

struct bit_format {
    int exponent, mantissa;
};

/* An IEEE pattern in an integer, with exponent and significand cut to `to`. */
static LLVMValueRef reduce_bits(struct cpu_builder *b, LLVMValueRef bits, struct bit_format from,
                                struct bit_format to) {
    int width = 1 + from.exponent + from.mantissa, drop = from.mantissa - to.mantissa;
    uint64_t sign_bit = 1ull << (width - 1), exponents = (1ull << from.exponent) - 1;
    uint64_t infinity = exponents << from.mantissa;
    LLVMValueRef sign = i_andk(b, bits, sign_bit), a = i_andk(b, bits, sign_bit - 1), r = a;
    if (drop > 0) {
        LLVMValueRef odd = i_andk(b, i_lshrk(b, r, (uint64_t)drop), 1);
        r = i_add(b, i_addk(b, r, (1ull << (drop - 1)) - 1), odd);
        r = i_andk(b, r, ~((1ull << drop) - 1));
    }
    if (to.exponent < from.exponent) {
        uint64_t bias = exponents >> 1, to_bias = (1ull << (to.exponent - 1)) - 1;
        LLVMValueRef exponent = i_andk(b, r, infinity);
        LLVMValueRef over = i_cmpk(b, LLVMIntUGT, exponent, (bias + to_bias) << from.mantissa);
        LLVMValueRef under = i_cmpk(b, LLVMIntULE, exponent, (bias - to_bias) << from.mantissa);
        r = select_of(b, over, ik(r, infinity), r);
        r = select_of(b, under, ik(r, 0), r);
    }
    LLVMValueRef nan = i_cmpk(b, LLVMIntUGT, a, infinity);
    return select_of(b, nan, bits, i_or(b, r, sign));
}

static int bounded(int64_t value, int low, int high) {
    return value < low ? low : value > high ? high : (int)value;
}

static LLVMValueRef emit_reduce_precision(struct cpu_builder *b, const struct hlo_instr *instr,
                                          LLVMValueRef x) {
    enum element_type type = instr->operands[0]->shape->type;
    const struct element_type_info *info = element_type_info(type);
    struct bit_format from = {info->exponent_bits, info->mantissa_bits};
    struct bit_format to = {bounded(instr_int(instr, ATTR_EXPONENT_BITS, 8), 1, 11),
                            bounded(instr_int(instr, ATTR_MANTISSA_BITS, 23), 0, 52)};
    if (type_bits(type) == 16) return reduce_bits(b, x, from, to);
    if (type == TYPE_F64 || type == TYPE_F32)
        return float_of(b, reduce_bits(b, bits_of(b, x), from, to));
    from = (struct bit_format){8, 23};
    LLVMValueRef bits = bits_of(b, cpu_widen(b, x, type));
    return cpu_narrow(b, float_of(b, reduce_bits(b, bits, from, to)), type);
}

/* Away from zero with a probability of the fraction: where the random word is below it. */
static LLVMValueRef emit_stochastic_convert(struct cpu_builder *b, const struct hlo_instr *instr,
                                            const LLVMValueRef *v) {
    enum element_type from = instr->operands[0]->shape->type, to = instr->shape->type;
    enum element_type word = instr->operands[1]->shape->type;
    if (!element_type_is_float(from) || !element_type_is_integral(to) ||
        !element_type_is_integral(word))
        return cpu_emit_convert(b, v[0], from, to);
    LLVMValueRef x = to_double(b, cpu_widen(b, v[0], from)), a = f_abs(b, x);
    LLVMValueRef whole = emit_intrinsic(b, "llvm.trunc", 1, &a);
    LLVMValueRef chance = f_mulk(b, f_sub(b, a, whole), ldexp(1, type_bits(word)));
    LLVMValueRef random = LLVMBuildUIToFP(b->builder, raw_bits(b, v[1], word), LLVMTypeOf(x), "");
    LLVMValueRef up = f_addk(b, whole, 1);
    LLVMValueRef y = select_of(b, f_cmp(b, LLVMRealOLT, random, chance), up, whole);
    return cpu_emit_convert(b, f_copysign(b, y, x), TYPE_F64, to);
}

/* ---- dispatch ---- */

static LLVMValueRef is_finite(struct cpu_builder *b, LLVMValueRef x, enum element_type type) {
    if (!element_type_is_float(type)) return LLVMConstInt(int_type(b, 1), 1, false);
    x = cpu_widen(b, x, type);
    return f_cmpk(b, LLVMRealOLT, f_abs(b, x), INFINITY);
}

LLVMValueRef cpu_emit_bitcast(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                              enum element_type to) {
    if (from == to || element_type_is_complex(from) || element_type_is_complex(to)) return value;
    if (from == TYPE_PRED) value = LLVMBuildZExt(b->builder, value, int_type(b, 8), "");
    if (to == TYPE_PRED) return i_cmpk(b, LLVMIntNE, value, 0);
    value = LLVMBuildBitCast(b->builder, value, cpu_value_type(b, to), "");
    return cpu_wrap(b, value, to);
}

LLVMValueRef cpu_emit_elementwise(struct cpu_builder *b, const struct hlo_instr *instr,
                                  const LLVMValueRef *operands) {
    enum element_type type = instr->operands[0]->shape->type;
    LLVMValueRef y;
    switch (instr->opcode) {
    case OP_COMPARE: return emit_compare(b, instr, operands);
    case OP_CONVERT: return cpu_emit_convert(b, operands[0], type, instr->shape->type);
    case OP_SELECT: return select_of(b, operands[0], operands[1], operands[2]);
    case OP_IS_FINITE: return is_finite(b, operands[0], type);
    case OP_REDUCE_PRECISION: return emit_reduce_precision(b, instr, operands[0]);
    case OP_STOCHASTIC_CONVERT: return emit_stochastic_convert(b, instr, operands);
    default: break;
    }
    if (instr->opcode == OP_COMPLEX || element_type_is_complex(type))
        return math_complex(b, instr, operands);
    if (instr->opcode == OP_CLAMP) type = instr->operands[1]->shape->type;
    if (element_type_is_float(type)) return emit_real(b, instr, type, operands);
    y = type == TYPE_PRED ? emit_pred(b, instr->opcode, operands)
                          : emit_int(b, instr->opcode, type, operands);
    return cpu_wrap(b, y, type);
}
