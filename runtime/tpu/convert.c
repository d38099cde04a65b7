/* Narrow float formats, in integer arithmetic. Rules: the OCP 8-bit formats as XLA converts them.
 */
#include "runtime/tpu/lanes.h"

struct format {
    int exponent, mantissa, bias;
    enum { IEEE, NAN_ONES, NAN_NEG0, SATURATES } edge; /* what the top codes and -0 mean */
};
static const struct format f16 = {5, 10, 15, IEEE};
static const struct format e3m4 = {3, 4, 3, IEEE};
static const struct format e4m3 = {4, 3, 7, IEEE};
static const struct format e4m3fn = {4, 3, 7, NAN_ONES};
static const struct format e4m3b11 = {4, 3, 11, NAN_NEG0};
static const struct format e4m3fnuz = {4, 3, 8, NAN_NEG0};
static const struct format e5m2 = {5, 2, 15, IEEE};
static const struct format e5m2fnuz = {5, 2, 16, NAN_NEG0};
static const struct format e2m1 = {2, 1, 1, SATURATES};

static inline uint32_t nan_code(struct format f, uint32_t sign) {
    uint32_t top = ((1u << f.exponent) - 1) << f.mantissa;
    switch (f.edge) {
    case IEEE: return sign | top | 1u << (f.mantissa - 1);
    case NAN_ONES: return sign | top | ((1u << f.mantissa) - 1);
    default: return 1u << (f.exponent + f.mantissa);
    }
}

/* Codes of positive values are in order, so a carry out of the mantissa is right by itself. */
static inline uint32_t to_narrow(struct format f, uint32_t word) {
    uint32_t sign = word >> 31 << (f.exponent + f.mantissa), size = word & 0x7fffffff;
    if (size > 0x7f800000) return nan_code(f, sign);
    int biased = (int)(size >> 23) - 127 + f.bias;
    int shift = 23 - f.mantissa + (biased < 1 ? 1 - biased : 0);
    uint32_t significand = (size & 0x7fffff) | 0x800000, code = 0;
    if (size < 0x00800000) shift = 32; /* below every format's smallest value */
    if (shift < 26) {
        uint32_t rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
        code = significand >> shift;
        code += rest > half || (rest == half && (code & 1));
        if (biased > 1) code += (uint32_t)(biased - 1) << f.mantissa;
    }
    uint32_t top = ((1u << f.exponent) - 1) << f.mantissa, ones = (1u << f.mantissa) - 1;
    uint32_t largest = f.edge == IEEE ? top - 1 : f.edge == NAN_ONES ? top + ones - 1 : top + ones;
    if (code > largest) {
        if (f.edge == SATURATES) return sign | largest;
        return f.edge == IEEE ? sign | top : nan_code(f, sign);
    }
    return code == 0 && f.edge == NAN_NEG0 ? 0 : sign | code;
}

static inline uint32_t from_narrow(struct format f, uint32_t code) {
    uint32_t ones = (1u << f.mantissa) - 1, top = (1u << f.exponent) - 1;
    uint32_t mantissa = code & ones, exponent = code >> f.mantissa & top;
    uint32_t sign = (code >> (f.exponent + f.mantissa) & 1) << 31;
    if (f.edge == NAN_NEG0 && sign && !exponent && !mantissa) return 0x7fc00000;
    if (f.edge == NAN_ONES && exponent == top && mantissa == ones) return sign | 0x7fc00000;
    if (f.edge == IEEE && exponent == top) return sign | 0x7f800000 | mantissa << (23 - f.mantissa);
    uint32_t scale = (uint32_t)(127 + 1 - f.bias - f.mantissa) << 23;
    uint32_t small = lane_bits((float)mantissa * lane_float(scale));
    uint32_t normal = (exponent + 127 - (uint32_t)f.bias) << 23 | mantissa << (23 - f.mantissa);
    return sign | (exponent ? normal : small);
}

/* Powers of two: nearest, ties up; what has no code is NaN (255). */
static inline uint32_t to_e8m0(uint32_t word) {
    if (word - 1 >= 0x7f7fffff) return 255; /* zero, negative, infinite, NaN */
    uint32_t code = (word >> 23) + (word >> 22 & 1);
    if (word < 0x00800000) code = word > 0x00600000; /* 2^-127 is 0x00400000 */
    return code;
}
static inline uint32_t from_e8m0(uint32_t code) {
    code &= 255;
    return code == 255 ? 0x7fc00000 : code ? code << 23 : 0x00400000;
}

/* Exponent and mantissa bits of b; below the normal range: zero, above: infinity, NaN as it is. */
static inline uint32_t reduce_precision(uint32_t word, uint32_t b) {
    uint32_t mantissa = b & 255, exponent = b >> 8 & 255, sign = word & 0x80000000;
    uint32_t size = word & 0x7fffffff;
    if (size > 0x7f800000) return word;
    if (mantissa < 23) {
        uint32_t drop = 23 - mantissa;
        size += (1u << (drop - 1)) - 1 + (size >> drop & 1);
        size &= ~((1u << drop) - 1);
    }
    if (exponent < 8) {
        int bias = exponent ? (1 << (exponent - 1)) - 1 : 0, value = (int)(size >> 23) - 127;
        if (value > bias) size = 0x7f800000;
        if (value < 1 - bias) size = 0;
    }
    if (size < 0x00800000) size = 0;
    return sign | size;
}

#define CONVERT(name, expression)                                                                  \
    static void name(uint32_t *d, const uint32_t *a, const uint32_t *b) {                          \
        uint32_t y = *b;                                                                           \
        (void)y;                                                                                   \
        for (int i = 0; i < TPU_REG_WORDS; i++) {                                                  \
            uint32_t x = a[i];                                                                     \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }
#define BOTH(format)                                                                               \
    CONVERT(to_##format, to_narrow(format, x))                                                     \
    CONVERT(from_##format, from_narrow(format, x))
BOTH(f16)
BOTH(e3m4)
BOTH(e4m3)
BOTH(e4m3fn)
BOTH(e4m3b11)
BOTH(e4m3fnuz)
BOTH(e5m2)
BOTH(e5m2fnuz)
BOTH(e2m1)
CONVERT(to_power, to_e8m0(x))
CONVERT(from_power, from_e8m0(x))
CONVERT(redp_s, reduce_precision(x, y))
static void redp_v(uint32_t *d, const uint32_t *a, const uint32_t *b) {
    for (int i = 0; i < TPU_REG_WORDS; i++)
        d[i] = reduce_precision(a[i], b[i]);
}

#define PAIR(op, format)                                                                           \
    [TPU_VF2##op] = {to_##format, to_##format}, [TPU_V##op##2F] = {from_##format, from_##format}
static const struct tpu_vector_fns table[TPU_OPS] = {
    PAIR(H, f16),
    PAIR(E3M4, e3m4),
    PAIR(E4M3, e4m3),
    PAIR(E4M3FN, e4m3fn),
    PAIR(E4M3B11, e4m3b11),
    PAIR(E4M3FNUZ, e4m3fnuz),
    PAIR(E5M2, e5m2),
    PAIR(E5M2FNUZ, e5m2fnuz),
    PAIR(E8M0, power),
    PAIR(E2M1, e2m1),
    [TPU_VREDP] = {redp_v, redp_s},
};

struct tpu_vector_fns tpu_convert_fns(enum tpu_op op) {
    return table[op];
}
