/* Cholesky, triangular systems, LU, QR, Hermitian eigenproblems and singular values of batches of
 * small and middling matrices, as HLO's operations and JAX's calls of LAPACK want them: pivots and
 * Householder vectors are LAPACK's, eigenvectors and singular vectors up to their signs. */
#include "runtime/cpu/linalg.h"

/* Matrices of f32 and c64 of so many elements are computed in their own type, smaller ones in
 * double. */
enum { SINGLE_FROM = 128 * 128 };

static struct matrix matrix_of(const int64_t *config) {
    int64_t type = config[LINALG_TYPE];
    return (struct matrix){type,
                           type == RT_C64    ? RT_F32
                           : type == RT_C128 ? RT_F64
                                             : type,
                           config[LINALG_ROWS],
                           config[LINALG_COLUMNS],
                           config[LINALG_FLAGS],
                           config[LINALG_EXTRA],
                           config[LINALG_EXTRA2]};
}

static const struct linalg_kernels *kernels_for(const struct matrix *m) {
    bool single = m->rows * m->columns >= SINGLE_FROM;
    switch (m->type) {
    case RT_C64: return single ? &hlocc_rt_linalg_c64 : &hlocc_rt_linalg_c128;
    case RT_C128: return &hlocc_rt_linalg_c128;
    case RT_F32: return single ? &hlocc_rt_linalg_f32 : &hlocc_rt_linalg_f64;
    default: return &hlocc_rt_linalg_f64;
    }
}

#define X(name)                                                                                    \
    int64_t hlocc_rt_##name##_scratch(const int64_t *config) {                                     \
        struct matrix m = matrix_of(config);                                                       \
        return kernels_for(&m)->name##_bytes(&m);                                                  \
    }                                                                                              \
    void hlocc_rt_##name(const int64_t *config, void *const *arrays, void *scratch, int64_t begin, \
                         int64_t end) {                                                            \
        struct matrix m = matrix_of(config);                                                       \
        const struct linalg_kernels *kernels = kernels_for(&m);                                    \
        for (int64_t unit = begin; unit < end; unit++)                                             \
            kernels->name(&m, arrays, scratch, unit);                                              \
    }
LINALG_KERNELS(X)
#undef X
