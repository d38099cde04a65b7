/* The elementary function unit: each function within 2 units in the last place, division and
 * square root correctly rounded. Subnormal operands and results are zero. */
#include <math.h>

#include "runtime/tpu/lanes.h"

static inline float in(uint32_t word) {
    return lane_float(word & 0x7f800000 ? word : word & 0x80000000);
}
static inline uint32_t out(float value) {
    uint32_t word = lane_bits(value);
    return word & 0x7f800000 ? word : word & 0x80000000;
}

static float sigmoid(float x) {
    return x < 0 ? expf(x) / (1 + expf(x)) : 1 / (1 + expf(-x));
}
/* The remainder of the library is exact; an infinite divisor leaves the dividend. */
static float rsqrt(float x) {
    return (float)(1 / sqrt((double)x));
}
static uint32_t divide_signed(uint32_t x, uint32_t y) {
    return tpu_scalar_compute(TPU_SDIVS, x, y);
}
static uint32_t divide_unsigned(uint32_t x, uint32_t y) {
    return tpu_scalar_compute(TPU_SDIVU, x, y);
}
static uint32_t remainder_signed(uint32_t x, uint32_t y) {
    return tpu_scalar_compute(TPU_SREMS, x, y);
}
static uint32_t remainder_unsigned(uint32_t x, uint32_t y) {
    return tpu_scalar_compute(TPU_SREMU, x, y);
}

#define LOOP(name, expression)                                                                     \
    static void name##_(uint32_t *d, const uint32_t *a, const uint32_t *b) {                       \
        for (int i = 0; i < TPU_REG_WORDS; i++) {                                                  \
            float x = in(a[i]), y = in(b[i]);                                                      \
            (void)x, (void)y;                                                                      \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }
LOOP(rcp, out(1 / x))
LOOP(rsqrt, out(rsqrt(x)))
LOOP(sqrt, out(sqrtf(x)))
LOOP(exp, out(expf(x)))
LOOP(exp2, out(exp2f(x)))
LOOP(expm1, out(expm1f(x)))
LOOP(log, out(logf(x)))
LOOP(log2, out(log2f(x)))
LOOP(log1p, out(log1pf(x)))
LOOP(tanh, out(tanhf(x)))
LOOP(sigmoid, out(sigmoid(x)))
LOOP(sin, out(sinf(x)))
LOOP(cos, out(cosf(x)))
LOOP(tan, out(tanf(x)))
LOOP(erf, out(erff(x)))
LOOP(cbrt, out(cbrtf(x)))
LOOP(div, out(x / y))
LOOP(rem, out(fmodf(x, y)))
LOOP(pow, out(powf(x, y)))
LOOP(atan2, out(atan2f(x, y)))
LOOP(divs, divide_signed(a[i], b[i]))
LOOP(divu, divide_unsigned(a[i], b[i]))
LOOP(rems, remainder_signed(a[i], b[i]))
LOOP(remu, remainder_unsigned(a[i], b[i]))

tpu_vector_fn *tpu_eup_fn(enum tpu_op op) {
    static tpu_vector_fn *const table[TPU_OPS] = {
        [TPU_ERCP] = rcp_,   [TPU_ERSQRT] = rsqrt_,     [TPU_ESQRT] = sqrt_,
        [TPU_EEXP] = exp_,   [TPU_EEXP2] = exp2_,       [TPU_EEXPM1] = expm1_,
        [TPU_ELOG] = log_,   [TPU_ELOG2] = log2_,       [TPU_ELOG1P] = log1p_,
        [TPU_ETANH] = tanh_, [TPU_ESIGMOID] = sigmoid_, [TPU_ESIN] = sin_,
        [TPU_ECOS] = cos_,   [TPU_ETAN] = tan_,         [TPU_EERF] = erf_,
        [TPU_ECBRT] = cbrt_, [TPU_EDIV] = div_,         [TPU_EREM] = rem_,
        [TPU_EPOW] = pow_,   [TPU_EATAN2] = atan2_,     [TPU_EDIVS] = divs_,
        [TPU_EDIVU] = divu_, [TPU_EREMS] = rems_,       [TPU_EREMU] = remu_,
    };
    return table[op];
}
