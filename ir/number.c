#include "ir/number.h"

#include <math.h>
#include <string.h>

/* What a narrow float format does at its edges; widths are in element_type.def. */
struct format {
    int bias;
    bool has_inf;   /* all-ones exponent holds infinity and NaNs, as in IEEE 754 */
    bool nan_ones;  /* NaN is all ones (sign apart); the rest of that exponent are numbers */
    bool nan_neg0;  /* fnuz: NaN is the code of -0, and there is no -0 */
    bool saturates; /* overflow gives the largest value; NaN gives -0 (f4e2m1fn) */
};

static const struct format formats[TYPE_COUNT] = {
    [TYPE_F4E2M1FN] = {.bias = 1, .saturates = true},
    [TYPE_F8E3M4] = {.bias = 3, .has_inf = true},
    [TYPE_F8E4M3] = {.bias = 7, .has_inf = true},
    [TYPE_F8E4M3FN] = {.bias = 7, .nan_ones = true},
    [TYPE_F8E4M3B11FNUZ] = {.bias = 11, .nan_neg0 = true},
    [TYPE_F8E4M3FNUZ] = {.bias = 8, .nan_neg0 = true},
    [TYPE_F8E5M2] = {.bias = 15, .has_inf = true},
    [TYPE_F8E5M2FNUZ] = {.bias = 16, .nan_neg0 = true},
    [TYPE_F16] = {.bias = 15, .has_inf = true},
    [TYPE_BF16] = {.bias = 127, .has_inf = true},
};

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_from(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A NaN with the sign and the narrow format's payload kept at the top of the mantissa. */
static double nan_from(bool negative, uint64_t payload, int mantissa_bits) {
    uint64_t bits = 0x7ff0000000000000u | payload << (52 - mantissa_bits);
    if (negative) bits |= 1ull << 63;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double decode_e8m0(uint64_t bits) {
    return (bits & 0xff) == 0xff ? (double)NAN : ldexp(1.0, (int)(bits & 0xff) - 127);
}

double number_decode(enum element_type type, uint64_t bits) {
    if (type == TYPE_F64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (type == TYPE_F32) {
        float value = float_from((uint32_t)bits);
        if (value != value) return nan_from(bits >> 31 & 1, bits & 0x7fffff, 23);
        return value;
    }
    if (type == TYPE_F8E8M0FNU) return decode_e8m0(bits);
    const struct format *format = &formats[type];
    const struct element_type_info *info = element_type_info(type);
    int exponent_bits = info->exponent_bits, mantissa_bits = info->mantissa_bits;
    uint64_t mantissa = bits & ((1ull << mantissa_bits) - 1);
    int exponent = (int)(bits >> mantissa_bits & ((1ull << exponent_bits) - 1));
    bool negative = bits >> (mantissa_bits + exponent_bits) & 1;
    int top = (1 << exponent_bits) - 1;
    if (format->nan_neg0 && negative && exponent == 0 && mantissa == 0) return NAN;
    if (format->nan_ones && exponent == top && mantissa == (1ull << mantissa_bits) - 1)
        return negative ? -(double)NAN : (double)NAN;
    if (format->has_inf && exponent == top) {
        if (mantissa) return nan_from(negative, mantissa, mantissa_bits);
        return negative ? -INFINITY : INFINITY;
    }
    double magnitude = exponent == 0 ? ldexp((double)mantissa, 1 - format->bias - mantissa_bits)
                                     : ldexp((double)(mantissa | 1ull << mantissa_bits),
                                             exponent - format->bias - mantissa_bits);
    return negative ? -magnitude : magnitude;
}

/* Powers of two only: the significand rounds to nearest, and a tie goes up; zero, negative values
 * and infinities have no code and give NaN. */
static uint64_t encode_e8m0(double value) {
    if (!(value > 0) || isinf(value)) return 0xff;
    int exponent;
    double fraction = frexp(value, &exponent); /* in [0.5, 1) */
    int code = exponent - 1 + 127 + (fraction >= 0.75);
    /* 2^-127 is the smallest code; what is below rounds to it. */
    return code < 0 ? 0 : code > 254 ? 0xff : (uint64_t)code;
}

static uint64_t encode_nan(enum element_type type, bool negative) {
    const struct format *format = &formats[type];
    const struct element_type_info *info = element_type_info(type);
    uint64_t sign = (uint64_t)negative << (info->exponent_bits + info->mantissa_bits);
    if (format->saturates) return 1ull << (info->exponent_bits + info->mantissa_bits);
    if (format->nan_neg0) return 1ull << (info->exponent_bits + info->mantissa_bits);
    uint64_t top = ((1ull << info->exponent_bits) - 1) << info->mantissa_bits;
    if (format->nan_ones) return sign | top | ((1ull << info->mantissa_bits) - 1);
    return sign | top | 1ull << (info->mantissa_bits - 1);
}

/* Codes of positive values are monotonic, so rounding is that of the code: the value is scaled to
 * units of its last place, rounded to even, and an overflow carries into the exponent by itself. */
static uint64_t encode_narrow(enum element_type type, double value) {
    const struct format *format = &formats[type];
    const struct element_type_info *info = element_type_info(type);
    int mantissa_bits = info->mantissa_bits;
    bool negative = signbit(value);
    uint64_t sign = (uint64_t)negative << (info->exponent_bits + mantissa_bits);
    uint64_t infinity = ((1ull << info->exponent_bits) - 1) << mantissa_bits;
    uint64_t largest = format->has_inf    ? infinity - 1
                       : format->nan_ones ? infinity + (1ull << mantissa_bits) - 2
                                          : infinity + (1ull << mantissa_bits) - 1;
    uint64_t code = UINT64_MAX;
    double magnitude = fabs(value);
    if (!isinf(magnitude)) {
        int exponent;
        frexp(magnitude, &exponent);
        int biased = exponent - 1 + format->bias;
        if (magnitude == 0 || biased < 1) biased = 1;
        double units = ldexp(magnitude, mantissa_bits + format->bias - biased);
        uint64_t rounded = (uint64_t)nearbyint(units);
        if (biased <= 1 << info->exponent_bits)
            code = ((uint64_t)(biased - 1) << mantissa_bits) + rounded;
    }
    if (code > largest) {
        if (format->saturates) return sign | largest;
        return format->has_inf ? sign | infinity : encode_nan(type, negative);
    }
    if (code == 0 && format->nan_neg0) return 0;
    return sign | code;
}

uint64_t number_encode(enum element_type type, double value) {
    if (type == TYPE_F64) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    if (type == TYPE_F32) {
        if (value == value) return float_bits((float)value);
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint32_t payload = (uint32_t)(bits >> 29) & 0x7fffff;
        return (uint32_t)(bits >> 32 & 0x80000000u) | 0x7f800000u | (payload ? payload : 0x400000);
    }
    if (type == TYPE_F8E8M0FNU) return encode_e8m0(value);
    if (value != value) return encode_nan(type, signbit(value));
    return encode_narrow(type, value);
}

bool number_has_nan_payloads(enum element_type type) {
    return type == TYPE_F32 || type == TYPE_F64 || formats[type].has_inf;
}

float number_bf16_to_float(uint16_t bits) {
    return float_from((uint32_t)bits << 16);
}

uint16_t number_float_to_bf16(float value) {
    uint32_t bits = float_bits(value);
    if (value != value) return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float number_f16_to_float(uint16_t bits) {
    return (float)number_decode(TYPE_F16, bits);
}

uint16_t number_float_to_f16(float value) {
    return (uint16_t)number_encode(TYPE_F16, value);
}

int64_t number_wrap(enum element_type type, int64_t value) {
    const struct element_type_info *info = element_type_info(type);
    if (info->bits >= 64) return value;
    int shift = 64 - info->bits;
    uint64_t up = (uint64_t)value << shift;
    return info->kind == KIND_SIGNED ? (int64_t)up >> shift : (int64_t)(up >> shift);
}

int64_t number_int_max(enum element_type type) {
    const struct element_type_info *info = element_type_info(type);
    if (info->kind != KIND_SIGNED) return number_wrap(type, -1);
    return (int64_t)((1ull << (info->bits - 1)) - 1);
}

int64_t number_int_min(enum element_type type) {
    const struct element_type_info *info = element_type_info(type);
    return info->kind == KIND_SIGNED ? -1 - number_int_max(type) : 0;
}
