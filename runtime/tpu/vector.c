/* The vector ALU's lane-by-lane functions: plain loops over 1,024 lanes that the compiler turns
 * into SIMD, in clones for what the processor offers. */
#include <math.h>
#include <string.h>

#include "runtime/tpu/lanes.h"

static inline int32_t sgn(uint32_t word) {
    return (int32_t)word;
}

/* One function with b a register, one with b a word for all lanes. */
#define LANES(name, expression)                                                                    \
    TPU_CLONES static void name##_v(uint32_t *d, const uint32_t *a, const uint32_t *b) {           \
        _Pragma("GCC ivdep") for (int i = 0; i < TPU_REG_WORDS; i++) {                             \
            uint32_t x = a[i], y = b[i];                                                           \
            (void)x, (void)y;                                                                      \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }                                                                                              \
    TPU_CLONES static void name##_s(uint32_t *d, const uint32_t *a, const uint32_t *b) {           \
        uint32_t y = *b;                                                                           \
        (void)y;                                                                                   \
        _Pragma("GCC ivdep") for (int i = 0; i < TPU_REG_WORDS; i++) {                             \
            uint32_t x = a[i];                                                                     \
            (void)x;                                                                               \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }
#define ON(condition) (0u - (uint32_t)(condition))

/* Half-way cases away from zero; what has no fraction stays. */
static inline uint32_t round_away(uint32_t x) {
    float value = lane_float(x & 0x7fffffff), down = floorf(value);
    float rounded = value - down >= 0.5f ? down + 1.0f : down;
    return value < 0x1p23f ? lane_bits(rounded) | (x & 0x80000000) : x;
}
static inline uint32_t bf16(uint32_t x) {
    uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    return (x & 0x7fffffff) > 0x7f800000 ? x >> 31 << 15 | 0x7fc0 : rounded;
}
uint32_t tpu_bf16_bits(uint32_t word) {
    return bf16(word);
}

static inline uint32_t shift_left(uint32_t x, uint32_t y) {
    return y > 31 ? 0 : x << (y & 31);
}
static inline uint32_t shift_right(uint32_t x, uint32_t y) {
    return y > 31 ? 0 : x >> (y & 31);
}
static inline uint32_t shift_sign(uint32_t x, uint32_t y) {
    return (uint32_t)(sgn(x) >> (y > 31 ? 31 : y));
}
static inline uint32_t high_signed(uint32_t x, uint32_t y) {
    return (uint32_t)((uint64_t)((int64_t)sgn(x) * sgn(y)) >> 32);
}
static inline uint32_t high_unsigned(uint32_t x, uint32_t y) {
    return (uint32_t)((uint64_t)x * y >> 32);
}
static inline uint32_t ones(uint32_t x) {
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24;
}
static inline uint32_t leading_zeros(uint32_t x) {
    for (int s = 1; s < 32; s *= 2)
        x |= x >> s;
    return 32 - ones(x);
}
static inline uint32_t to_signed(uint32_t x) {
    float value = lane_float(x);
    bool inside = value >= -0x1p31f && value < 0x1p31f;
    int32_t whole = (int32_t)(inside ? value : 0.0f);
    uint32_t outside = value != value ? 0 : value < 0 ? 0x80000000 : 0x7fffffff;
    return inside ? (uint32_t)whole : outside;
}
/* In two halves, as SIMD units convert signed numbers only. */
static inline uint32_t to_unsigned(uint32_t x) {
    float value = lane_float(x);
    bool upper = value >= 0x1p31f, inside = value >= 0 && value < 0x1p32f;
    float part = upper ? value - 0x1p31f : value;
    uint32_t whole = (uint32_t)(int32_t)(inside ? part : 0.0f) + (upper ? 0x80000000 : 0);
    uint32_t outside = value >= 0x1p32f ? 0xffffffff : 0;
    return inside ? whole : outside;
}
/* An odd bit below keeps halving from rounding twice. */
static inline uint32_t from_unsigned(uint32_t x) {
    float small = (float)sgn(x & 0x7fffffff);
    float large = 2.0f * (float)sgn(x >> 1 | (x & 1));
    return lane_bits(x >> 31 ? large : small);
}
static inline uint32_t nonzero_bytes(uint32_t x) {
    uint32_t low = ((x & 0x7f7f7f7f) + 0x7f7f7f7f) | x;
    return (low >> 7 & 0x01010101) * 255;
}

LANES(add_f, lane_bits(lane_float(x) + lane_float(y)))
LANES(sub_f, lane_bits(lane_float(x) - lane_float(y)))
LANES(rsub_f, lane_bits(lane_float(y) - lane_float(x)))
LANES(mul_f, lane_bits(lane_float(x) * lane_float(y)))
LANES(max_f, lane_max(x, y))
LANES(min_f, lane_min(x, y))
LANES(floor_f, lane_bits(floorf(lane_float(lane_flush(x)))))
LANES(ceil_f, lane_bits(ceilf(lane_float(lane_flush(x)))))
LANES(trunc_f, lane_bits(truncf(lane_float(lane_flush(x)))))
LANES(rint_f, lane_bits(rintf(lane_float(lane_flush(x)))))
LANES(round_f, round_away(lane_flush(x)))
LANES(rbf_f, bf16(x) << 16)
LANES(add_s, x + y)
LANES(sub_s, x - y)
LANES(rsub_s, y - x)
LANES(mul_s, x *y)
LANES(mulh_s, high_signed(x, y))
LANES(mulh_u, high_unsigned(x, y))
LANES(and_, x &y)
LANES(or_, x | y)
LANES(xor_, x ^ y)
LANES(andn_, x & ~y)
LANES(shl_, shift_left(x, y))
LANES(shr_, shift_right(x, y))
LANES(sar_, shift_sign(x, y))
LANES(min_s, sgn(x) < sgn(y) ? x : y)
LANES(max_s, sgn(x) > sgn(y) ? x : y)
LANES(min_u, x < y ? x : y)
LANES(max_u, x > y ? x : y)
LANES(clz_, leading_zeros(x))
LANES(pcnt_, ones(x))
LANES(packbf_, bf16(x) | bf16(y) << 16)
LANES(packh_, (x & 0xffff) | y << 16)
LANES(packb_, (x & 0x00ff00ff) | (y & 0x00ff00ff) << 8)
LANES(f2s_, to_signed(x))
LANES(f2u_, to_unsigned(x))
LANES(s2f_, lane_bits((float)sgn(x)))
LANES(u2f_, from_unsigned(x))
LANES(f2bf_, bf16(x))
LANES(eq_f, ON(lane_float(x) == lane_float(y)))
LANES(ne_f, ON(lane_float(x) != lane_float(y)))
LANES(lt_f, ON(lane_float(x) < lane_float(y)))
LANES(le_f, ON(lane_float(x) <= lane_float(y)))
LANES(gt_f, ON(lane_float(x) > lane_float(y)))
LANES(ge_f, ON(lane_float(x) >= lane_float(y)))
LANES(eq_s, ON(x == y))
LANES(ne_s, ON(x != y))
LANES(lt_s, ON(sgn(x) < sgn(y)))
LANES(le_s, ON(sgn(x) <= sgn(y)))
LANES(gt_s, ON(sgn(x) > sgn(y)))
LANES(ge_s, ON(sgn(x) >= sgn(y)))
LANES(lt_u, ON(x < y))
LANES(le_u, ON(x <= y))
LANES(gt_u, ON(x > y))
LANES(ge_u, ON(x >= y))
LANES(v2m_, nonzero_bytes(x))
LANES(mpackh_, (x & 0xffff) | (y & 0xffff0000))
LANES(copy_, x)

#define ROW(op, name) [TPU_##op] = {name##_v, name##_s}
static const struct tpu_vector_fns table[TPU_OPS] = {
    ROW(VADDF, add_f),    ROW(VSUBF, sub_f),    ROW(VRSUBF, rsub_f),  ROW(VMULF, mul_f),
    ROW(VMAXF, max_f),    ROW(VMINF, min_f),    ROW(VFLOOR, floor_f), ROW(VCEIL, ceil_f),
    ROW(VTRUNC, trunc_f), ROW(VRINT, rint_f),   ROW(VROUND, round_f), ROW(VRBF, rbf_f),
    ROW(VADD, add_s),     ROW(VSUB, sub_s),     ROW(VRSUB, rsub_s),   ROW(VMUL, mul_s),
    ROW(VMULHS, mulh_s),  ROW(VMULHU, mulh_u),  ROW(VAND, and_),      ROW(VOR, or_),
    ROW(VXOR, xor_),      ROW(VANDN, andn_),    ROW(VSHL, shl_),      ROW(VSHR, shr_),
    ROW(VSAR, sar_),      ROW(VMINS, min_s),    ROW(VMAXS, max_s),    ROW(VMINU, min_u),
    ROW(VMAXU, max_u),    ROW(VCLZ, clz_),      ROW(VPCNT, pcnt_),    ROW(VPACKBF, packbf_),
    ROW(VPACKH, packh_),  ROW(VPACKB, packb_),  ROW(VM2V, copy_),     ROW(VF2S, f2s_),
    ROW(VF2U, f2u_),      ROW(VS2F, s2f_),      ROW(VU2F, u2f_),      ROW(VF2BF, f2bf_),
    ROW(VEQF, eq_f),      ROW(VNEF, ne_f),      ROW(VLTF, lt_f),      ROW(VLEF, le_f),
    ROW(VGTF, gt_f),      ROW(VGEF, ge_f),      ROW(VEQ, eq_s),       ROW(VNE, ne_s),
    ROW(VLTS, lt_s),      ROW(VLES, le_s),      ROW(VGTS, gt_s),      ROW(VGES, ge_s),
    ROW(VLTU, lt_u),      ROW(VLEU, le_u),      ROW(VGTU, gt_u),      ROW(VGEU, ge_u),
    ROW(VV2M, v2m_),      ROW(MAND, and_),      ROW(MOR, or_),        ROW(MXOR, xor_),
    ROW(MANDN, andn_),    ROW(MPACKH, mpackh_),
};

struct tpu_vector_fns tpu_vector_fns(enum tpu_op op) {
    return table[op];
}

TPU_CLONES void tpu_blend(uint32_t *d, const uint32_t *old, const uint32_t *value,
                          const uint32_t *mask) {
#pragma GCC ivdep
    for (int i = 0; i < TPU_REG_WORDS; i++)
        d[i] = (old[i] & ~mask[i]) | (value[i] & mask[i]);
}

TPU_CLONES void tpu_fill(uint32_t *d, uint32_t value) {
    for (int i = 0; i < TPU_REG_WORDS; i++)
        d[i] = value;
}

TPU_CLONES void tpu_sublane_compute(enum tpu_op op, uint32_t *d, const uint32_t *a, uint32_t b) {
    tpu_vreg copy;
    if (d == a) a = memcpy(copy, a, sizeof copy);
    for (uint32_t s = 0; s < TPU_SUBLANES; s++) {
        const uint32_t *from = a + (op == TPU_VROTS ? (s - b) & 7 : b & 7) * TPU_LANES;
#pragma GCC ivdep
        for (int l = 0; l < TPU_LANES; l++)
            d[s * TPU_LANES + l] = from[l];
    }
}

uint32_t tpu_scalar_compute(enum tpu_op op, uint32_t a, uint32_t b) {
    int32_t x = sgn(a), y = sgn(b);
    bool wraps = a == 0x80000000 && b == 0xffffffff;
    switch (op) {
    case TPU_SADD: return a + b;
    case TPU_SSUB: return a - b;
    case TPU_SRSUB: return b - a;
    case TPU_SMUL: return a * b;
    case TPU_SMULHS: return high_signed(a, b);
    case TPU_SMULHU: return high_unsigned(a, b);
    case TPU_SDIVS: return !b ? 0xffffffff : wraps ? a : (uint32_t)(x / y);
    case TPU_SDIVU: return !b ? 0xffffffff : a / b;
    case TPU_SREMS: return !b ? a : wraps ? 0 : (uint32_t)(x % y);
    case TPU_SREMU: return !b ? a : a % b;
    case TPU_SAND: return a & b;
    case TPU_SOR: return a | b;
    case TPU_SXOR: return a ^ b;
    case TPU_SANDN: return a & ~b;
    case TPU_SSHL: return shift_left(a, b);
    case TPU_SSHR: return shift_right(a, b);
    case TPU_SSAR: return shift_sign(a, b);
    case TPU_SMINS: return x < y ? a : b;
    case TPU_SMAXS: return x > y ? a : b;
    case TPU_SMINU: return a < b ? a : b;
    case TPU_SMAXU: return a > b ? a : b;
    case TPU_SCLZ: return leading_zeros(a);
    case TPU_SPCNT: return ones(a);
    case TPU_SMOV: return b;
    case TPU_SP2S: return a;
    case TPU_SEQ: return a == b;
    case TPU_SNE: return a != b;
    case TPU_SLTS: return x < y;
    case TPU_SLES: return x <= y;
    case TPU_SGTS: return x > y;
    case TPU_SGES: return x >= y;
    case TPU_SLTU: return a < b;
    case TPU_SLEU: return a <= b;
    case TPU_SGTU: return a > b;
    case TPU_SGEU: return a >= b;
    case TPU_PAND: return a & b;
    case TPU_POR: return a | b;
    case TPU_PXOR: return a ^ b;
    case TPU_PANDN: return a & !b;
    default: return 0;
    }
}
