/* Cholesky, triangular systems, LU, QR, Hermitian eigenproblems and singular values of batches of
 * small and middling matrices, as HLO's operations and JAX's calls of LAPACK want them: pivots and
 * Householder vectors are LAPACK's, eigenvectors and singular vectors up to their signs. */
#pragma GCC optimize("O3") /* the loops along rows as vectors */

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/number.h"

/* c -= a b: distances from row to row and from column to column of each. c's columns are
 * neighbours. Conjugates are of complex numbers only. */
struct product {
    int64_t rows, columns, depth;
    int64_t a_row, a_column, b_row, b_column, c_row;
    bool conjugate_a, conjugate_b;
};

/* f32 matrices of so many elements are computed in float, smaller ones in double. */
enum { SINGLE_FROM = 128 * 128 };

enum { CHOLESKY_BLOCK = 48, REFLECTION_BLOCK = 32 };

/* A log of rotations holds LOG_ROTATIONS for each row (rotations.h). */
enum { LOG_ROTATIONS = 32, LOG_SWEEPS = 128 };

struct rotation {
    double c, s;
};

struct sweep {
    int64_t first, count;
    bool down;
};

static inline double *doubles_after(void *end) {
    return (double *)(((uintptr_t)end + 15) & ~(uintptr_t)15);
}

/* hypot, which is slow, where the squares keep their digits. */
static inline double length_of(double a, double b) {
    double square = a * a + b * b;
    return square > 1e-280 && square < 1e280 ? sqrt(square) : hypot(a, b);
}

/* Numbers that a block of reflections, as one, and its application to so many columns take. */
static int64_t block_room(int64_t rows, int64_t columns) {
    int64_t width = columns > REFLECTION_BLOCK ? columns : REFLECTION_BLOCK;
    return REFLECTION_BLOCK * (rows + REFLECTION_BLOCK + width);
}

struct matrix {
    int64_t type, real_type, rows, columns, flags, extra, extra2;
};

/* Positions in ascending or descending order; equal ones stay in theirs. */
static void sort_values(const double *values, int64_t *order, int64_t count, bool descending) {
    for (int64_t i = 0; i < count; i++) {
        int64_t k = i;
        for (; k > 0 &&
               (descending ? values[order[k - 1]] < values[i] : values[order[k - 1]] > values[i]);
             k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

static inline double complex times(double complex a, double complex b) {
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}

#define NUM double
#define VECTOR 4
#define FN(name) real_##name
#define MUL(a, b) ((a) * (b))
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) 0.0
#define ABS(x) fabs(x)
#define ABS1(x) fabs(x)
#define MAKE(re, im) (re)
#define TAKE(x) creal(x)
#define LOG(name) real_##name
#define PARTS 1
#include "runtime/cpu/matrix.h"

#include "runtime/cpu/rotations.h"

#include "runtime/cpu/matrix_eigen.h"

#include "runtime/cpu/linalg_kernels.h"
#undef NUM
#undef VECTOR
#undef FN
#undef MUL
#undef CONJ
#undef RE
#undef IM
#undef ABS
#undef ABS1
#undef MAKE
#undef TAKE
#undef PARTS

#define NUM double complex
#define FN(name) complex_##name
#define MUL(a, b) times(a, b)
#define CONJ(x) conj(x)
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define ABS(x) cabs(x)
#define ABS1(x) (fabs(creal(x)) + fabs(cimag(x)))
#define MAKE(re, im) CMPLX(re, im)
#define TAKE(x) (x)
#define PARTS 2
#include "runtime/cpu/matrix.h"

#include "runtime/cpu/matrix_eigen.h"

#include "runtime/cpu/linalg_kernels.h"

#undef NUM
#undef FN
#undef MUL
#undef CONJ
#undef RE
#undef IM
#undef ABS
#undef ABS1
#undef MAKE
#undef TAKE
#undef PARTS
#undef LOG

#define NUM float
#define VECTOR 8
#define FN(name) single_##name
#define MUL(a, b) ((a) * (b))
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) 0.0f
#define ABS(x) fabsf(x)
#define ABS1(x) fabsf(x)
#define MAKE(re, im) ((float)(re))
#define TAKE(x) ((float)creal(x))
#define LOG(name) single_##name
#define PARTS 1
#include "runtime/cpu/matrix.h"

#include "runtime/cpu/rotations.h"

#include "runtime/cpu/matrix_eigen.h"

#include "runtime/cpu/linalg_kernels.h"

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t bytes_of(const int64_t *config, int64_t numbers, int64_t words) {
    int64_t size = number_is_complex(config[LINALG_TYPE]) ? 16 : 8;
    return hlocc_rt_align(numbers * size + 8 * words + 16);
}

#define SIDES(config) int64_t rows = config[LINALG_ROWS], columns = config[LINALG_COLUMNS]

int64_t hlocc_rt_cholesky_scratch(const int64_t *config) {
    SIDES(config);
    return bytes_of(config, (rows + CHOLESKY_BLOCK) * columns, 0);
}

int64_t hlocc_rt_solve_scratch(const int64_t *config) {
    SIDES(config);
    int64_t n = config[LINALG_FLAGS] & LINALG_LEFT ? rows : columns;
    return bytes_of(config, 2 * n * n + 2 * rows * columns, 0);
}

int64_t hlocc_rt_getrf_scratch(const int64_t *config) {
    SIDES(config);
    return bytes_of(config, rows * columns, 0);
}

int64_t hlocc_rt_geqrf_scratch(const int64_t *config) {
    SIDES(config);
    int64_t room = block_room(rows, columns);
    return bytes_of(config, rows * columns + smaller(rows, columns) + room, 0);
}

int64_t hlocc_rt_geqp3_scratch(const int64_t *config) {
    return hlocc_rt_geqrf_scratch(config);
}

int64_t hlocc_rt_gehrd_scratch(const int64_t *config) {
    SIDES(config);
    return bytes_of(config, rows * columns + 3 * columns, 0);
}

int64_t hlocc_rt_gtsv_scratch(const int64_t *config) {
    SIDES(config);
    return bytes_of(config, rows * columns + 3 * rows, 0);
}

int64_t hlocc_rt_orgqr_scratch(const int64_t *config) {
    SIDES(config);
    int64_t room = block_room(rows, columns);
    return bytes_of(config, rows * columns + config[LINALG_EXTRA] + room, 0);
}

int64_t hlocc_rt_ormqr_scratch(const int64_t *config) {
    SIDES(config);
    int64_t count = config[LINALG_EXTRA], side = larger(rows, columns);
    int64_t room = block_room(side, side);
    return bytes_of(config, 2 * rows * columns + side * count + count + room, 0);
}

int64_t hlocc_rt_syevd_scratch(const int64_t *config) {
    SIDES(config);
    int64_t numbers = 3 * rows * columns + columns + block_room(columns, columns);
    return bytes_of(config, numbers, 3 * columns) + real_log_bytes(columns);
}

int64_t hlocc_rt_gesdd_scratch(const int64_t *config) {
    SIDES(config);
    int64_t n = smaller(rows, columns);
    int64_t left = rows < columns ? config[LINALG_EXTRA2] : config[LINALG_EXTRA];
    int64_t numbers = real_svd_room(larger(rows, columns), n, larger(left, n));
    return bytes_of(config, numbers, 3 * n) + 2 * real_log_bytes(n);
}

#define LINALG_KERNEL(name)                                                                        \
    void hlocc_rt_##name(const int64_t *config, void *const *arrays, void *scratch, int64_t begin, \
                         int64_t end) {                                                            \
        int64_t type = config[LINALG_TYPE];                                                        \
        struct matrix m = {type,                                                                   \
                           type == RT_C64    ? RT_F32                                              \
                           : type == RT_C128 ? RT_F64                                              \
                                             : type,                                               \
                           config[LINALG_ROWS],                                                    \
                           config[LINALG_COLUMNS],                                                 \
                           config[LINALG_FLAGS],                                                   \
                           config[LINALG_EXTRA],                                                   \
                           config[LINALG_EXTRA2]};                                                 \
        for (int64_t unit = begin; unit < end; unit++) {                                           \
            if (number_is_complex(type))                                                           \
                complex_run_##name(&m, arrays, scratch, unit);                                     \
            else if (type == RT_F32 && m.rows * m.columns >= SINGLE_FROM)                          \
                single_run_##name(&m, arrays, scratch, unit);                                      \
            else                                                                                   \
                real_run_##name(&m, arrays, scratch, unit);                                        \
        }                                                                                          \
    }
LINALG_KERNEL(cholesky)
LINALG_KERNEL(solve)
LINALG_KERNEL(getrf)
LINALG_KERNEL(geqrf)
LINALG_KERNEL(geqp3)
LINALG_KERNEL(gehrd)
LINALG_KERNEL(gtsv)
LINALG_KERNEL(orgqr)
LINALG_KERNEL(ormqr)
LINALG_KERNEL(syevd)
LINALG_KERNEL(gesdd)
