/* Eigenproblems of real symmetric tridiagonal matrices and singular values of bidiagonal ones, by
 * divide and conquer (Cuppen, 1981; Gu and Eisenstat, 1995); small ones by QL and QR steps. Numbers
 * of a matrix that is neither tiny nor huge: about 1 at most. */
#ifndef RUNTIME_CPU_SPECTRUM_H
#define RUNTIME_CPU_SPECTRUM_H

#include "runtime/cpu/linalg.h"

/* Values come to d; order[0], order[1], ... names them ascending, and row j of the vectors, n x n,
 * belongs to d[j]. Without vectors, all NULL, there are values only. e, the numbers beside the
 * diagonal, has room for n and is used up. Return 0, or how many values did not converge. */
#define SPECTRUM_FUNCTIONS(type, real)                                                             \
    /* Rows of q become eigenvectors. */                                                           \
    int64_t hlocc_rt_tridiagonal_##type(int64_t n, double *d, double *e, real *q, int64_t *order,  \
                                        void *memory);                                             \
    /* Rows of u and v become left and right singular vectors; values are not negative. */         \
    int64_t hlocc_rt_bidiagonal_##type(int64_t n, double *d, double *e, real *u, real *v,          \
                                       int64_t *order, void *memory);                              \
    /* of memory, for either */                                                                    \
    int64_t hlocc_rt_spectrum_bytes_##type(int64_t n);
SPECTRUM_FUNCTIONS(f32, float)
SPECTRUM_FUNCTIONS(f64, double)
#undef SPECTRUM_FUNCTIONS

#endif
