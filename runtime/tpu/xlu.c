/* The cross-lane unit's functions. */
#include <string.h>

#include "runtime/tpu/lanes.h"

/* Every sublane folded in halves, the order that a sum is defined by; all lanes get the result. */
#define FOLD(name, expression)                                                                     \
    TPU_CLONES static void fold_##name(uint32_t *d, const uint32_t *a) {                           \
        for (int s = 0; s < TPU_SUBLANES; s++) {                                                   \
            uint32_t row[TPU_LANES];                                                               \
            memcpy(row, a + s * TPU_LANES, sizeof row);                                            \
            for (int width = TPU_LANES / 2; width > 0; width /= 2) {                               \
                for (int l = 0; l < width; l++) {                                                  \
                    uint32_t x = row[l], y = row[l + width];                                       \
                    row[l] = (expression);                                                         \
                }                                                                                  \
            }                                                                                      \
            for (int l = 0; l < TPU_LANES; l++)                                                    \
                d[s * TPU_LANES + l] = row[0];                                                     \
        }                                                                                          \
    }
FOLD(sum_f, lane_bits(lane_float(x) + lane_float(y)))
FOLD(max_f, lane_max(x, y))
FOLD(min_f, lane_min(x, y))
FOLD(sum_s, x + y)
FOLD(max_s, (int32_t)x > (int32_t)y ? x : y)
FOLD(min_s, (int32_t)x < (int32_t)y ? x : y)
FOLD(max_u, x > y ? x : y)
FOLD(min_u, x < y ? x : y)

static void fold(enum tpu_op op, uint32_t *d, const uint32_t *a) {
    switch (op) {
    case TPU_XSUMF: fold_sum_f(d, a); break;
    case TPU_XMAXF: fold_max_f(d, a); break;
    case TPU_XMINF: fold_min_f(d, a); break;
    case TPU_XSUM: fold_sum_s(d, a); break;
    case TPU_XMAXS: fold_max_s(d, a); break;
    case TPU_XMINS: fold_min_s(d, a); break;
    case TPU_XMAXU: fold_max_u(d, a); break;
    default: fold_min_u(d, a); break;
    }
}

/* d is the FIFO's, so never a or b. */
TPU_CLONES static void permute_lanes(uint32_t *d, const uint32_t *a, const uint32_t *b) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < TPU_REG_WORDS; i++)
        d[i] = a[(i & ~(TPU_LANES - 1u)) | (b[i] & (TPU_LANES - 1u))];
}

TPU_CLONES static void permute_sublanes(uint32_t *d, const uint32_t *a, const uint32_t *b) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < TPU_REG_WORDS; i++)
        d[i] = a[(b[i] & (TPU_SUBLANES - 1u)) * TPU_LANES | (i & (TPU_LANES - 1u))];
}

TPU_CLONES static void broadcast_lane(uint32_t *d, const uint32_t *a, uint32_t lane) {
    for (int s = 0; s < TPU_SUBLANES; s++) {
        uint32_t word = a[s * TPU_LANES + (int)lane];
        for (int l = 0; l < TPU_LANES; l++)
            d[s * TPU_LANES + l] = word;
    }
}

void tpu_xlu_compute(enum tpu_op op, uint32_t *d, const uint32_t *a, const uint32_t *b,
                     int32_t amount) {
    uint32_t by = (uint32_t)amount % TPU_LANES;
    switch (op) {
    case TPU_XROT:
        for (int s = 0; s < TPU_SUBLANES; s++) {
            const uint32_t *row = a + s * TPU_LANES;
            memcpy(d + s * TPU_LANES + by, row, (TPU_LANES - by) * sizeof *d);
            memcpy(d + s * TPU_LANES, row + TPU_LANES - by, by * sizeof *d);
        }
        break;
    case TPU_XBC: broadcast_lane(d, a, by); break;
    case TPU_XPERM: permute_lanes(d, a, b); break;
    case TPU_XPERMS: permute_sublanes(d, a, b); break;
    default: fold(op, d, a); break;
    }
}
