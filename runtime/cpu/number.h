/* Elements of the runtime's arrays as double or complex double. */
#ifndef RUNTIME_CPU_NUMBER_H
#define RUNTIME_CPU_NUMBER_H

#include <complex.h>
#include <string.h>

#include "runtime/cpu/kernels.h"

/* bf16 and f16 in integer arithmetic: the compiler's support functions are not everywhere. */
static inline double bf16_to_double(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return (double)x;
}

static inline double f16_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    uint64_t mantissa = bits & 1023, sign = (uint64_t)(bits >> 15) << 63, word;
    double x;
    if (exponent == 0) { /* mantissa * 2^-24 */
        x = (double)mantissa * 0x1p-24;
        return sign ? -x : x;
    }
    word = sign | (uint64_t)(exponent == 31 ? 2047 : exponent + 1008) << 52 | mantissa << 42;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* Nearest even, through float. */
static inline uint16_t double_to_bf16(double value) {
    float x = (float)value;
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    if (x != x) return (uint16_t)(word >> 16 | 0x40);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static inline uint16_t double_to_f16(double value) {
    float x = (float)value;
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    uint16_t sign = (uint16_t)(word >> 16 & 0x8000);
    word &= 0x7fffffff;
    if (word > 0x7f800000) return sign | 0x7e00;
    if (word >= 0x477ff000) return sign | 0x7c00; /* 65520 and above */
    if (word < 0x38800000) {                      /* below 2^-14: units of 2^-24 */
        float y;
        memcpy(&y, &word, sizeof y);
        y += 0.5f; /* the sum has such units in its last place */
        memcpy(&word, &y, sizeof word);
        return sign | (uint16_t)(word - 0x3f000000);
    }
    word += 0xfff + (word >> 13 & 1);
    return sign | (uint16_t)((word - 0x38000000) >> 13);
}

static inline double complex number_get(int64_t type, const void *data, int64_t at) {
    switch (type) {
    case RT_F32: return (double)((const float *)data)[at];
    case RT_F64: return ((const double *)data)[at];
    case RT_C64:
        return CMPLX((double)((const float *)data)[2 * at],
                     (double)((const float *)data)[2 * at + 1]);
    case RT_C128: return CMPLX(((const double *)data)[2 * at], ((const double *)data)[2 * at + 1]);
    case RT_F16: return f16_to_double(((const uint16_t *)data)[at]);
    default: return bf16_to_double(((const uint16_t *)data)[at]);
    }
}

static inline void number_set(int64_t type, void *data, int64_t at, double complex value) {
    double re = creal(value);
    switch (type) {
    case RT_F32: ((float *)data)[at] = (float)re; break;
    case RT_F64: ((double *)data)[at] = re; break;
    case RT_C64:
        ((float *)data)[2 * at] = (float)re;
        ((float *)data)[2 * at + 1] = (float)cimag(value);
        break;
    case RT_C128:
        ((double *)data)[2 * at] = re;
        ((double *)data)[2 * at + 1] = cimag(value);
        break;
    case RT_F16: ((uint16_t *)data)[at] = double_to_f16(re); break;
    default: ((uint16_t *)data)[at] = double_to_bf16(re); break;
    }
}

static inline bool number_is_complex(int64_t type) {
    return type == RT_C64 || type == RT_C128;
}

#endif
