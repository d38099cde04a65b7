/* The matrix unit's arithmetic: rows of 128 values times 128 x 128 weights, every lane summed in
 * the order of k. */
#include <string.h>

#include "runtime/tpu/lanes.h"

#pragma GCC optimize("O3")

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
enum { WIDTH = 8, ROWS = 4 };

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
