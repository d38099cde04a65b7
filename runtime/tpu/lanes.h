/* Loops over lanes, compiled several times: the loader picks what the processor offers. */
#ifndef RUNTIME_TPU_LANES_H
#define RUNTIME_TPU_LANES_H

#include <string.h>

#include "runtime/tpu/machine.h"

/* Helpers and the loops that take them in must agree on these. */
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

/* Sanitizers start later than the resolvers that clones need. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TPU_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TPU_CLONES
#endif

/* ---- one lane ---- */

static inline float lane_float(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}
static inline uint32_t lane_bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}
static inline uint32_t lane_flush(uint32_t word) {
    return word & 0x7f800000 ? word : word & 0x80000000;
}
static inline uint32_t lane_max(uint32_t x, uint32_t y) {
    uint32_t greater = lane_float(x) > lane_float(y) ? x : y, quiet = 0x00400000;
    greater = lane_float(x) == lane_float(y) ? x & y : greater;
    greater = lane_float(x) != lane_float(x) ? x | quiet : greater;
    greater = lane_float(y) != lane_float(y) ? y | quiet : greater;
    return lane_flush(greater);
}
static inline uint32_t lane_min(uint32_t x, uint32_t y) {
    uint32_t less = lane_float(x) < lane_float(y) ? x : y, quiet = 0x00400000;
    less = lane_float(x) == lane_float(y) ? x | y : less;
    less = lane_float(x) != lane_float(x) ? x | quiet : less;
    less = lane_float(y) != lane_float(y) ? y | quiet : less;
    return lane_flush(less);
}

#endif
