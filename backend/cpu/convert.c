/* Element types: their LLVM types, loads and stores, constants, and conversions between them.
 * Narrow floats are converted in integer arithmetic, so that no run-time library is needed and
 * loops vectorise. */
#include <math.h>
#include <string.h>

#include "backend/cpu/emit.h"
#include "backend/cpu/half.h"
#include "ir/number.h"

/* Where a small float format differs from the IEEE pattern. */
enum small_rule {
    SMALL_IEEE,     /* infinities, NaNs */
    SMALL_FN,       /* no infinity, all ones is NaN */
    SMALL_FNUZ,     /* no infinity, no -0; its bits are NaN */
    SMALL_SATURATE, /* neither; NaN becomes -0 */
};

struct small_format {
    int bits, mantissa, bias;
    enum small_rule rule;
};

/* False for types that are not 8-bit or narrower floats of this kind (f8e8m0fnu is its own). */
static bool small_format_of(enum element_type type, struct small_format *format) {
    switch (type) {
    case TYPE_F4E2M1FN: *format = (struct small_format){4, 1, 1, SMALL_SATURATE}; return true;
    case TYPE_F8E3M4: *format = (struct small_format){8, 4, 3, SMALL_IEEE}; return true;
    case TYPE_F8E4M3: *format = (struct small_format){8, 3, 7, SMALL_IEEE}; return true;
    case TYPE_F8E5M2: *format = (struct small_format){8, 2, 15, SMALL_IEEE}; return true;
    case TYPE_F8E4M3FN: *format = (struct small_format){8, 3, 7, SMALL_FN}; return true;
    case TYPE_F8E4M3FNUZ: *format = (struct small_format){8, 3, 8, SMALL_FNUZ}; return true;
    case TYPE_F8E4M3B11FNUZ: *format = (struct small_format){8, 3, 11, SMALL_FNUZ}; return true;
    case TYPE_F8E5M2FNUZ: *format = (struct small_format){8, 2, 16, SMALL_FNUZ}; return true;
    default: return false;
    }
}

/* ---- types, loads and stores ---- */

LLVMTypeRef cpu_value_type(struct cpu_builder *b, enum element_type type) {
    switch (type) {
    case TYPE_PRED: return int_type(b, 1);
    case TYPE_F32: return LLVMFloatTypeInContext(b->context);
    case TYPE_F64: return LLVMDoubleTypeInContext(b->context);
    case TYPE_C64:
    case TYPE_C128: {
        LLVMTypeRef part = cpu_value_type(b, element_type_real_part(type));
        return LLVMStructTypeInContext(b->context, (LLVMTypeRef[]){part, part}, 2, false);
    }
    default: return int_type(b, 8 * element_type_size(type));
    }
}

LLVMTypeRef cpu_memory_type(struct cpu_builder *b, enum element_type type) {
    return type == TYPE_PRED ? int_type(b, 8) : cpu_value_type(b, type);
}

static LLVMValueRef load_part(struct cpu_builder *b, LLVMTypeRef type, LLVMValueRef pointer,
                              int alignment) {
    LLVMValueRef value = LLVMBuildLoad2(b->builder, type, pointer, "");
    LLVMSetAlignment(value, (unsigned)alignment);
    return value;
}

void cpu_mark_function(struct cpu_builder *b, LLVMValueRef function) {
    static const char name[] = "denormal-fp-math", mode[] = "preserve-sign,preserve-sign";
    LLVMAttributeRef attribute =
        LLVMCreateStringAttribute(b->context, name, sizeof name - 1, mode, sizeof mode - 1);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
    if (!b->root_estimates) return;
    /* As they are, without steps of LLVM's: math_rsqrt has better ones. */
    static const char key[] = "reciprocal-estimates", how[] = "sqrtf:0,vec-sqrtf:0";
    attribute = LLVMCreateStringAttribute(b->context, key, sizeof key - 1, how, sizeof how - 1);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
}

LLVMValueRef cpu_load(struct cpu_builder *b, enum element_type type, LLVMValueRef pointer,
                      LLVMValueRef *access) {
    int size = element_type_size(type);
    if (element_type_is_complex(type)) size /= 2;
    LLVMValueRef value = load_part(b, cpu_memory_type(b, type), pointer, size);
    if (access) *access = value;
    return type == TYPE_PRED ? i_cmpk(b, LLVMIntNE, value, 0) : value;
}

LLVMValueRef cpu_store(struct cpu_builder *b, enum element_type type, LLVMValueRef value,
                       LLVMValueRef pointer) {
    int size = element_type_size(type);
    if (element_type_is_complex(type)) size /= 2;
    if (type == TYPE_PRED) value = LLVMBuildZExt(b->builder, value, int_type(b, 8), "");
    LLVMValueRef store = LLVMBuildStore(b->builder, value, pointer);
    LLVMSetAlignment(store, (unsigned)size);
    return store;
}

/* ---- constants ---- */

static LLVMValueRef complex_constant(LLVMValueRef real, LLVMValueRef imaginary,
                                     struct cpu_builder *b) {
    return LLVMConstStructInContext(b->context, (LLVMValueRef[]){real, imaginary}, 2, false);
}

/* From the bits, so that NaN payloads survive. */
static LLVMValueRef real_constant(struct cpu_builder *b, enum element_type type, uint64_t bits) {
    LLVMValueRef value = LLVMConstInt(int_type(b, type == TYPE_F64 ? 64 : 32), bits, false);
    return LLVMConstBitCast(value, cpu_value_type(b, type));
}

LLVMValueRef cpu_constant(struct cpu_builder *b, enum element_type type, double value) {
    if (element_type_is_complex(type)) {
        enum element_type part = element_type_real_part(type);
        return complex_constant(cpu_constant(b, part, value), cpu_constant(b, part, 0), b);
    }
    if (type == TYPE_F32 || type == TYPE_F64) return LLVMConstReal(cpu_value_type(b, type), value);
    if (element_type_is_float(type))
        return LLVMConstInt(cpu_value_type(b, type), number_encode(type, value), false);
    if (type == TYPE_PRED) return LLVMConstInt(int_type(b, 1), value != 0, false);
    if (!(value > -0x1p63 && value < 0x1p64)) value = 0;
    int64_t whole = value >= 0x1p63 ? (int64_t)(uint64_t)value : (int64_t)value;
    return cpu_constant_int(b, type, whole);
}

LLVMValueRef cpu_constant_int(struct cpu_builder *b, enum element_type type, int64_t value) {
    if (type == TYPE_PRED) return LLVMConstInt(int_type(b, 1), value != 0, false);
    if (!element_type_is_integral(type)) return cpu_constant(b, type, (double)value);
    return LLVMConstInt(cpu_value_type(b, type), (uint64_t)number_wrap(type, value), true);
}

LLVMValueRef cpu_constant_element(struct cpu_builder *b, const struct literal *literal,
                                  int64_t index) {
    enum element_type type = literal->shape->type;
    int size = element_type_size(type);
    const char *at = (const char *)literal->data + index * size;
    uint64_t bits[2] = {0, 0};
    memcpy(bits, at, (size_t)size);
    if (type == TYPE_PRED) return LLVMConstInt(int_type(b, 1), bits[0] != 0, false);
    if (type == TYPE_F32 || type == TYPE_F64) return real_constant(b, type, bits[0]);
    if (type == TYPE_C64)
        return complex_constant(real_constant(b, TYPE_F32, bits[0] & 0xffffffff),
                                real_constant(b, TYPE_F32, bits[0] >> 32), b);
    if (type == TYPE_C128)
        return complex_constant(real_constant(b, TYPE_F64, bits[0]),
                                real_constant(b, TYPE_F64, bits[1]), b);
    return LLVMConstInt(cpu_value_type(b, type), bits[0], false);
}

/* ---- narrow floats to f32 ---- */

static LLVMValueRef decode_small(struct cpu_builder *b, LLVMValueRef v,
                                 const struct small_format *f) {
    int shift = 23 - f->mantissa;
    uint64_t mantissa_mask = (1u << f->mantissa) - 1, magnitude = (1u << (f->bits - 1)) - 1;
    v = LLVMBuildZExt(b->builder, v, int_type(b, 32), "");
    LLVMValueRef sign = i_shlk(b, i_lshrk(b, v, (uint64_t)f->bits - 1), 31);
    LLVMValueRef a = i_andk(b, v, magnitude);
    LLVMValueRef normal = i_addk(b, i_shlk(b, a, (uint64_t)shift), (uint64_t)(127 - f->bias) << 23);
    LLVMTypeRef real = LLVMFloatTypeInContext(b->context);
    LLVMValueRef low = LLVMBuildSIToFP(b->builder, a, real, "");
    low = bits_of(b, f_mulk(b, low, ldexp(1, 1 - f->bias - f->mantissa)));
    LLVMValueRef value = select_of(b, i_cmpk(b, LLVMIntULE, a, mantissa_mask), low, normal);
    if (f->rule == SMALL_IEEE) {
        uint64_t infinity = magnitude & ~mantissa_mask;
        LLVMValueRef special = i_ork(b, i_shlk(b, a, (uint64_t)shift), 0x7f800000);
        value = select_of(b, i_cmpk(b, LLVMIntUGE, a, infinity), special, value);
    } else if (f->rule == SMALL_FN) {
        value = select_of(b, i_cmpk(b, LLVMIntEQ, a, magnitude), ik(a, 0x7fc00000), value);
    }
    value = i_or(b, value, sign);
    if (f->rule == SMALL_FNUZ) /* a NaN of no sign */
        value = select_of(b, i_cmpk(b, LLVMIntEQ, v, magnitude + 1), ik(a, 0x7fc00000), value);
    return float_of(b, value);
}

static LLVMValueRef decode_e8m0(struct cpu_builder *b, LLVMValueRef v) {
    v = LLVMBuildZExt(b->builder, v, int_type(b, 32), "");
    LLVMValueRef bits = i_shlk(b, v, 23);
    bits = select_of(b, i_cmpk(b, LLVMIntEQ, v, 0), ik(v, 0x00400000), bits);
    return float_of(b, select_of(b, i_cmpk(b, LLVMIntEQ, v, 255), ik(v, 0x7fc00000), bits));
}

/* Any float type but f64 to float. */
static LLVMValueRef decode_float(struct cpu_builder *b, LLVMValueRef v, enum element_type type) {
    struct small_format format;
    if (type == TYPE_F32) return v;
    if (type == TYPE_BF16) {
        v = LLVMBuildZExt(b->builder, v, int_type(b, 32), "");
        return float_of(b, i_shlk(b, v, 16));
    }
    if (type == TYPE_F16) {
        half_mark(b->builder);
        v = LLVMBuildBitCast(b->builder, v, LLVMHalfTypeInContext(b->context), "");
        return LLVMBuildFPExt(b->builder, v, LLVMFloatTypeInContext(b->context), "");
    }
    if (small_format_of(type, &format)) return decode_small(b, v, &format);
    return decode_e8m0(b, v);
}

/* ---- f32 to narrow floats ---- */

static LLVMValueRef encode_bf16(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef bits = bits_of(b, x), odd = i_andk(b, i_lshrk(b, bits, 16), 1);
    LLVMValueRef rounded = i_lshrk(b, i_add(b, i_addk(b, bits, 0x7fff), odd), 16);
    LLVMValueRef nan = i_ork(b, i_andk(b, i_lshrk(b, bits, 16), 0x8000), 0x7fc0);
    rounded = select_of(b, f_is_nan(b, x), nan, rounded);
    return LLVMBuildTrunc(b->builder, rounded, int_type(b, 16), "");
}

/* The magnitude code of a NaN, and of what overflows. */
static void small_codes(const struct small_format *f, uint64_t *largest, uint64_t *overflow,
                        uint64_t *nan) {
    uint64_t all = (1u << (f->bits - 1)) - 1, infinity = all & ~((1u << f->mantissa) - 1ull);
    *largest = *overflow = *nan = all;
    if (f->rule == SMALL_IEEE) {
        *largest = infinity - 1;
        *overflow = infinity;
        *nan = infinity | 1u << (f->mantissa - 1);
    } else if (f->rule == SMALL_FN) {
        *largest = all - 1;
    }
}

static LLVMValueRef encode_small(struct cpu_builder *b, LLVMValueRef x,
                                 const struct small_format *f) {
    int shift = 23 - f->mantissa;
    uint64_t largest, overflow, nan, sign_bit = 1u << (f->bits - 1);
    small_codes(f, &largest, &overflow, &nan);
    LLVMValueRef bits = bits_of(b, x), a = i_andk(b, bits, 0x7fffffff);
    LLVMValueRef sign = i_shlk(b, i_lshrk(b, bits, 31), (uint64_t)f->bits - 1);
    LLVMValueRef odd = i_andk(b, i_lshrk(b, a, (uint64_t)shift), 1);
    LLVMValueRef r = i_add(b, i_addk(b, a, (1u << (shift - 1)) - 1), odd);
    r = i_subk(b, i_lshrk(b, r, (uint64_t)shift), (uint64_t)(127 - f->bias) << f->mantissa);
    /* Below the normal range: the addition rounds at the last place of the subnormals. */
    LLVMValueRef anchor = fk(x, ldexp(1, 24 - f->bias - f->mantissa));
    LLVMValueRef low = LLVMBuildFAdd(b->builder, float_of(b, a), anchor, "");
    low = i_sub(b, bits_of(b, low), bits_of(b, anchor));
    r = select_of(b, i_cmpk(b, LLVMIntULT, a, (uint64_t)(128 - f->bias) << 23), low, r);
    LLVMValueRef over = i_cmpk(b, LLVMIntUGT, r, largest);
    LLVMValueRef is_nan = i_cmpk(b, LLVMIntUGT, a, 0x7f800000);
    LLVMValueRef code;
    if (f->rule == SMALL_FNUZ) {
        sign = select_of(b, i_cmpk(b, LLVMIntEQ, r, 0), ik(r, 0), sign);
        code = select_of(b, over, ik(r, sign_bit), i_or(b, r, sign));
    } else {
        r = select_of(b, over, ik(r, overflow), r);
        if (f->rule != SMALL_SATURATE) r = select_of(b, is_nan, ik(r, nan), r);
        code = i_or(b, r, sign);
        if (f->rule == SMALL_SATURATE) code = select_of(b, is_nan, ik(r, sign_bit), code);
    }
    return LLVMBuildTrunc(b->builder, code, int_type(b, 8), "");
}

/* Powers of two, halves up; zero, negative, infinite and too large values have no code but NaN. */
static LLVMValueRef encode_e8m0(struct cpu_builder *b, LLVMValueRef x) {
    LLVMValueRef bits = bits_of(b, x);
    LLVMValueRef code = i_lshrk(b, i_addk(b, bits, 0x400000), 23);
    LLVMValueRef good = LLVMBuildAnd(b->builder, i_cmpk(b, LLVMIntULT, code, 255),
                                     i_cmpk(b, LLVMIntSGT, bits, 0), "");
    return LLVMBuildTrunc(b->builder, select_of(b, good, code, ik(code, 255)), int_type(b, 8), "");
}

/* Float to any float type but f64. */
static LLVMValueRef encode_float(struct cpu_builder *b, LLVMValueRef x, enum element_type type) {
    struct small_format format;
    if (type == TYPE_F32) return x;
    if (type == TYPE_BF16) return encode_bf16(b, x);
    if (type == TYPE_F16) {
        x = LLVMBuildFPTrunc(b->builder, x, LLVMHalfTypeInContext(b->context), "");
        return LLVMBuildBitCast(b->builder, x, int_type(b, 16), "");
    }
    if (small_format_of(type, &format)) return encode_small(b, x, &format);
    return encode_e8m0(b, x);
}

/* ---- integers ---- */

/* Integers of a byte back to the few bits that their type has. */
static LLVMValueRef wrap_small(struct cpu_builder *b, LLVMValueRef x, enum element_type type) {
    int bits = element_type_info(type)->bits;
    if (bits >= 8) return x;
    if (element_type_is_unsigned(type)) return i_andk(b, x, (1u << bits) - 1);
    return i_ashrk(b, i_shlk(b, x, (uint64_t)(8 - bits)), (uint64_t)(8 - bits));
}

LLVMValueRef cpu_wrap(struct cpu_builder *b, LLVMValueRef x, enum element_type type) {
    return element_type_is_integral(type) ? wrap_small(b, x, type) : x;
}

/* Integer or pred to integer. */
static LLVMValueRef resize_int(struct cpu_builder *b, LLVMValueRef x, enum element_type from,
                               enum element_type to) {
    LLVMTypeRef type = cpu_value_type(b, to);
    unsigned have = LLVMGetIntTypeWidth(LLVMTypeOf(x)), want = LLVMGetIntTypeWidth(type);
    if (want < have)
        x = LLVMBuildTrunc(b->builder, x, type, "");
    else if (want > have && element_type_is_signed(from))
        x = LLVMBuildSExt(b->builder, x, type, "");
    else if (want > have)
        x = LLVMBuildZExt(b->builder, x, type, "");
    return from == TYPE_PRED && element_type_info(to)->bits > 1 ? x : wrap_small(b, x, to);
}

/* The same by the machine's instruction for one number: there is none for vectors. */
static LLVMValueRef float_to_int64(struct cpu_builder *b, LLVMValueRef x, bool is_signed) {
    const char *name = is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    LLVMTypeRef types[2] = {int_type(b, 64), LLVMTypeOf(x)};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    return LLVMBuildCall2(b->builder, LLVMIntrinsicGetType(b->context, id, types, 2),
                          LLVMGetIntrinsicDeclaration(b->module, id, types, 2), &x, 1, "");
}

/* Float or double to a saturated integer; NaN becomes 0. Bounds are kept before the conversion,
 * which is of 32 bits, as vector units have it. */
static LLVMValueRef float_to_int(struct cpu_builder *b, LLVMValueRef x, enum element_type to) {
    int bits = element_type_info(to)->bits;
    bool is_signed = element_type_is_signed(to);
    if (bits > 32) return float_to_int64(b, x, is_signed);
    double low = is_signed ? -ldexp(1, bits - 1) : 0, limit = ldexp(1, is_signed ? bits - 1 : bits);
    LLVMTypeRef word = int_type(b, 32);
    LLVMValueRef bounded = select_of(b, f_cmpk(b, LLVMRealOLT, x, low), fk(x, low), x);
    /* The largest integer need not be a number of x's type: what is not below the limit becomes
     * that afterwards. */
    LLVMValueRef safe = select_of(b, f_cmpk(b, LLVMRealOLT, bounded, limit), bounded, fk(x, 0));
    LLVMValueRef y = is_signed || bits < 32 ? LLVMBuildFPToSI(b->builder, safe, word, "")
                                            : LLVMBuildFPToUI(b->builder, safe, word, "");
    y = select_of(b, f_cmpk(b, LLVMRealOGE, x, limit), ik(y, (uint64_t)number_int_max(to)), y);
    return bits == 32 ? y : LLVMBuildTrunc(b->builder, y, cpu_value_type(b, to), "");
}

/* ---- all pairs ---- */

LLVMValueRef cpu_widen(struct cpu_builder *b, LLVMValueRef value, enum element_type type) {
    return type == TYPE_F64 ? value : decode_float(b, value, type);
}

LLVMValueRef cpu_narrow(struct cpu_builder *b, LLVMValueRef value, enum element_type type) {
    if (type == TYPE_F64) return to_double(b, value);
    return encode_float(b, to_float(b, value), type);
}

static LLVMValueRef convert_from_float(struct cpu_builder *b, LLVMValueRef value,
                                       enum element_type from, enum element_type to) {
    LLVMValueRef x = cpu_widen(b, value, from);
    if (to == TYPE_PRED && from == TYPE_BF16) /* subnormals are zero, whatever LLVM makes of it */
        return i_cmpk(b, LLVMIntNE, i_andk(b, value, 0x7f80), 0);
    if (to == TYPE_PRED) return f_cmpk(b, LLVMRealUNE, x, 0);
    if (element_type_is_float(to)) return cpu_narrow(b, x, to);
    return float_to_int(b, x, to);
}

static LLVMValueRef convert_from_int(struct cpu_builder *b, LLVMValueRef value,
                                     enum element_type from, enum element_type to) {
    if (to == TYPE_PRED) return i_cmpk(b, LLVMIntNE, value, 0);
    if (!element_type_is_float(to)) return resize_int(b, value, from, to);
    LLVMTypeRef wide = cpu_value_type(b, to == TYPE_F64 ? TYPE_F64 : TYPE_F32);
    if (LLVMGetIntTypeWidth(LLVMTypeOf(value)) < 32) /* what vector units convert */
        value = resize_int(b, value, from, element_type_is_signed(from) ? TYPE_S32 : TYPE_U32);
    LLVMValueRef x =
        element_type_is_signed(from) || LLVMGetIntTypeWidth(cpu_value_type(b, from)) < 32
            ? LLVMBuildSIToFP(b->builder, value, wide, "")
            : LLVMBuildUIToFP(b->builder, value, wide, "");
    return cpu_narrow(b, x, to);
}

static LLVMValueRef complex_of(struct cpu_builder *b, enum element_type type, LLVMValueRef real,
                               LLVMValueRef imaginary) {
    LLVMValueRef pair = LLVMGetUndef(cpu_value_type(b, type));
    pair = LLVMBuildInsertValue(b->builder, pair, real, 0, "");
    return LLVMBuildInsertValue(b->builder, pair, imaginary, 1, "");
}

LLVMValueRef cpu_emit_convert(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                              enum element_type to) {
    if (from == to) return value;
    enum element_type real_from = element_type_real_part(from);
    enum element_type real_to = element_type_real_part(to);
    if (element_type_is_complex(from)) {
        LLVMValueRef re = LLVMBuildExtractValue(b->builder, value, 0, "");
        LLVMValueRef im = LLVMBuildExtractValue(b->builder, value, 1, "");
        re = cpu_emit_convert(b, re, real_from, real_to);
        if (!element_type_is_complex(to)) return re;
        return complex_of(b, to, re, cpu_emit_convert(b, im, real_from, real_to));
    }
    if (element_type_is_complex(to)) {
        LLVMValueRef re = cpu_emit_convert(b, value, from, real_to);
        return complex_of(b, to, re, fk(re, 0));
    }
    if (element_type_is_float(from)) return convert_from_float(b, value, from, to);
    return convert_from_int(b, value, from, to);
}
