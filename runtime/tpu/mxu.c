/* The matrix unit's arithmetic: rows of 128 values times 128 x 128 weights, every lane summed in
 * the order of k. */
#include <string.h>

#include "runtime/tpu/lanes.h"

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
enum { WIDTH = 8, ROWS = 4 };

static inline uint32_t rounded(uint32_t x) {
    uint32_t near = (x + 0x7fff + (x >> 16 & 1)) & 0xffff0000;
    return (x & 0x7fffffff) > 0x7f800000 ? x | 0x00400000 : near;
}

/* Three parts, each the nearest bf16 to what the parts before leave; they add up to the whole. The
 * high part of what is not finite is all of it; the others are 0. A high part that would round to
 * infinity is cut instead. */
static inline uint32_t high_bits(uint32_t word) {
    uint32_t near = rounded(word), cut = word & 0xffff0000;
    uint32_t part = (near & 0x7f800000) == 0x7f800000 ? cut : near;
    return (word & 0x7f800000) == 0x7f800000 ? word : part;
}
static inline float after_high(uint32_t word) {
    bool finite = (word & 0x7f800000) != 0x7f800000;
    return lane_float(finite ? word : 0) - lane_float(finite ? high_bits(word) : 0);
}
static inline float high_part(uint32_t word) {
    return lane_float(high_bits(word));
}
static inline float middle_part(uint32_t word) {
    return lane_float(rounded(lane_bits(after_high(word))));
}
static inline float low_part(uint32_t word) {
    return after_high(word) - middle_part(word);
}

#define ROWS_OF(name, expression)                                                                  \
    TPU_CLONES static void name(float *rows, const uint32_t *v, const uint32_t *mask) {            \
        for (int i = 0; i < TPU_REG_WORDS; i++) {                                                  \
            uint32_t x = v[i] & mask[i];                                                           \
            rows[i] = (expression);                                                                \
        }                                                                                          \
    }
ROWS_OF(rounded_rows, lane_float(rounded(x)))
ROWS_OF(high_rows, high_part(x))
ROWS_OF(middle_rows, middle_part(x))
ROWS_OF(low_rows, low_part(x))

TPU_CLONES static void packed_rows(float (*rows)[TPU_MXU_DIM], const uint32_t *v,
                                   const uint32_t *mask) {
    for (int s = 0; s < TPU_SUBLANES; s++) {
        float *low = rows[2 * s], *high = rows[2 * s + 1];
        for (int l = 0; l < TPU_LANES; l++) {
            uint32_t x = v[s * TPU_LANES + l] & mask[s * TPU_LANES + l];
            low[l] = lane_float(x << 16);
            high[l] = lane_float(x & 0xffff0000);
        }
    }
}

int tpu_mxu_rows(enum tpu_op op, const uint32_t *v, const uint32_t *mask,
                 float (*rows)[TPU_MXU_DIM]) {
    switch (op) {
    case TPU_MPUSHBF:
    case TPU_WPUSHBF: packed_rows(rows, v, mask); return 16;
    case TPU_MPUSHF:
    case TPU_WPUSHF: rounded_rows(rows[0], v, mask); return 8;
    case TPU_MPUSHHI:
    case TPU_WPUSHHI: high_rows(rows[0], v, mask); return 8;
    case TPU_MPUSHMID:
    case TPU_WPUSHMID: middle_rows(rows[0], v, mask); return 8;
    default: low_rows(rows[0], v, mask); return 8;
    }
}

TPU_CLONES bool tpu_mxu_nonfinite(const float (*rows)[TPU_MXU_DIM], int count) {
    const float *all = rows[0];
    uint32_t found = 0;
    for (int i = 0; i < count * TPU_MXU_DIM; i++)
        found |= (lane_bits(all[i]) & 0x7f800000) == 0x7f800000;
    return found;
}

/* Four rows by sixteen lanes at a time: eight accumulators, two loads of weights and four
 * broadcasts for eight multiply-adds. */
TPU_CLONES void tpu_mxu_product(int rows, const float (*data)[TPU_MXU_DIM],
                                const float (*weights)[TPU_MXU_DIM], float (*out)[TPU_MXU_DIM]) {
    for (int n = 0; n < TPU_MXU_DIM; n += 2 * WIDTH) {
        for (int r = 0; r < rows; r += ROWS) {
            vec sum[ROWS][2] = {0};
            for (int k = 0; k < TPU_MXU_DIM; k++) {
                vec left = *(const vec *)&weights[k][n],
                    right = *(const vec *)&weights[k][n + WIDTH];
                for (int i = 0; i < ROWS; i++) {
                    sum[i][0] += data[r + i][k] * left;
                    sum[i][1] += data[r + i][k] * right;
                }
            }
            for (int i = 0; i < ROWS; i++) {
                *(vec *)&out[r + i][n] = sum[i][0];
                *(vec *)&out[r + i][n + WIDTH] = sum[i][1];
            }
        }
    }
}
