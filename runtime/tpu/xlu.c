/* The cross-lane unit's functions. */
#include <string.h>

#include "runtime/tpu/machine.h"

typedef uint32_t combine(uint32_t x, uint32_t y);

static uint32_t one_lane(enum tpu_op op, uint32_t x, uint32_t y) {
    switch (op) {
    case TPU_XSUMF: return tpu_float_word(tpu_word_float(x) + tpu_word_float(y));
    case TPU_XSUM: return x + y;
    case TPU_XMAXS: return tpu_scalar_compute(TPU_SMAXS, x, y);
    case TPU_XMINS: return tpu_scalar_compute(TPU_SMINS, x, y);
    case TPU_XMAXU: return x > y ? x : y;
    default: return x < y ? x : y; /* XMINU */
    }
}

/* Folded in halves: the order that a sum is defined by. */
static void fold(enum tpu_op op, uint32_t *d, const uint32_t *a) {
    enum tpu_op lanes = op == TPU_XMAXF ? TPU_VMAXF : op == TPU_XMINF ? TPU_VMINF : TPU_EMPTY;
    tpu_vreg value;
    memcpy(value, a, sizeof value);
    for (int width = TPU_LANES / 2; width > 0; width /= 2) {
        if (lanes != TPU_EMPTY) {
            tpu_vreg other;
            tpu_xlu_compute(TPU_XROT, other, value, NULL, -width);
            tpu_vector_fns(lanes).vector(value, value, other);
            continue;
        }
        for (int s = 0; s < TPU_SUBLANES; s++) {
            uint32_t *row = value + s * TPU_LANES;
            for (int l = 0; l < width; l++)
                row[l] = one_lane(op, row[l], row[l + width]);
        }
    }
    for (int s = 0; s < TPU_SUBLANES; s++) {
        for (int l = 0; l < TPU_LANES; l++)
            d[s * TPU_LANES + l] = value[s * TPU_LANES];
    }
}

static void permute(enum tpu_op op, uint32_t *d, const uint32_t *a, const uint32_t *b) {
    for (uint32_t i = 0; i < TPU_REG_WORDS; i++) {
        uint32_t s = i / TPU_LANES, l = i % TPU_LANES;
        if (op == TPU_XPERM) l = b[i] % TPU_LANES;
        if (op == TPU_XPERMS) s = b[i] % TPU_SUBLANES;
        d[i] = a[s * TPU_LANES + l];
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
    case TPU_XBC:
        for (int i = 0; i < TPU_REG_WORDS; i++)
            d[i] = a[i / TPU_LANES * TPU_LANES + (int)by];
        break;
    case TPU_XPERM:
    case TPU_XPERMS: permute(op, d, a, b); break;
    default: fold(op, d, a); break;
    }
}
