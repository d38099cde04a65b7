/* The operations that compiled programs call instead of carrying code for them. All are reentrant,
 * allocate nothing and keep no state: what they need besides their arrays is `scratch`, aligned to
 * 64 bytes and of the size that the function beside each says, one for every thread.
 *
 * Arrays are row-major and come results first, then operands. [begin, end) is the share of the
 * independent units (rows, matrices, ...) that this call computes. `config` is a table of numbers
 * that the compiler writes as a constant; each function says what it holds. */
#ifndef RUNTIME_CPU_KERNELS_H
#define RUNTIME_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

typedef void hlocc_rt_routine(const int64_t *config, void *const *arrays, void *scratch,
                              int64_t begin, int64_t end);

static inline int64_t hlocc_rt_align(int64_t bytes) {
    return (bytes + 63) & ~(int64_t)63;
}

/* ---- sort.c ---- */

/* Whether element a of the rows belongs before element b. rows[j] is operand j's row. */
typedef bool hlocc_rt_before(void *const *rows, int64_t a, int64_t b);
/* Writes the elements' keys, numbers whose order is that of the elements. False where the keys do
 * not say it all (a NaN in an order that has no place for it): then the comparator decides. */
typedef bool hlocc_rt_keys(void *const *rows, int64_t count, uint64_t *keys);

/* The first numbers of sort's config; the sizes of the operands' elements in bytes follow. */
enum hlocc_rt_sort_config {
    SORT_LENGTH,   /* of a row */
    SORT_INNER,    /* distance of a row's neighbours, in elements */
    SORT_OPERANDS, /* 1 .. */
    SORT_KEY_BITS, /* of the keys: 8, 16, 32 or 64 */
    SORT_SIZES
};

/* Sorts rows; a unit is a row. Stable, and the result is that of a merge sort bottom up, whatever
 * the comparator is. `keys` may be NULL. Results may be the operands' memory. */
void hlocc_rt_sort(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                   int64_t end, hlocc_rt_before *before, hlocc_rt_keys *keys);
int64_t hlocc_rt_sort_scratch(const int64_t *config);

enum hlocc_rt_topk_config {
    TOPK_LENGTH, /* of a row */
    TOPK_COUNT,  /* of results a row */
    TOPK_SIZE,   /* of an element in bytes */
    TOPK_INDEX_SIZE,
    TOPK_NUMBERS
};

/* Arrays: values, indices (signed integers), operand. The first TOPK_COUNT elements of each row in
 * the order of their keys; equal keys stay in their order. A unit is a row. */
void hlocc_rt_topk(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                   int64_t end, hlocc_rt_keys *keys);
int64_t hlocc_rt_topk_scratch(const int64_t *config);

/* ---- fft.c ---- */

enum hlocc_rt_fft_kind { FFT_FORWARD, FFT_INVERSE, FFT_REAL, FFT_REAL_INVERSE };

enum hlocc_rt_fft_config {
    FFT_KIND,
    FFT_DOUBLE, /* 1: f64 and c128, 0: f32 and c64 */
    FFT_AXES,   /* 1 .. 3 innermost dimensions */
    FFT_COUNT,  /* elements of the dimensions before the axes */
    FFT_PHASE,  /* which step this call is of */
    FFT_FILLED, /* 1: tables follow these numbers, aligned to 64 bytes; 0: they are made in scratch
                 */
    FFT_LENGTHS,
    FFT_NUMBERS = 16
};

/* Discrete Fourier transforms of any lengths; inverse ones are divided by the length. Arrays:
 * result, operand. Several axes take two phases, the second of which begins when the first has
 * ended. */
hlocc_rt_routine hlocc_rt_fft;
int hlocc_rt_fft_phases(const int64_t *config);
/* Of a phase: */
int64_t hlocc_rt_fft_units(const int64_t *config);
int64_t hlocc_rt_fft_scratch(const int64_t *config);
/* Bytes of the tables; writes them, with scratch of the size that FFT_FILLED asks for. */
int64_t hlocc_rt_fft_tables(const int64_t *config);
void hlocc_rt_fft_fill(const int64_t *config, void *tables, void *scratch);

/* ---- linalg.c ---- */

enum hlocc_rt_type { RT_F32, RT_F64, RT_C64, RT_C128, RT_F16, RT_BF16 };

/* Everything here computes in double or complex double and rounds once, but f32 and c64 matrices of
 * 16384 elements and more in their own type, as LAPACK does. A unit is a matrix. */
enum hlocc_rt_linalg_config {
    LINALG_TYPE, /* enum hlocc_rt_type, of all matrices */
    LINALG_ROWS,
    LINALG_COLUMNS,
    LINALG_FLAGS,     /* LINALG_* below */
    LINALG_EXTRA,     /* orgqr, ormqr: number of tau; gesdd: columns of u; gehrd: first row */
    LINALG_EXTRA2,    /* gesdd: rows of v^H; gehrd: last row */
    LINALG_NUMBERS,   /* how many */
    LINALG_LOWER = 1, /* the lower triangle is read */
    LINALG_LEFT = 2,  /* op(a) x = b, else x op(a) = b */
    LINALG_UNIT = 4,  /* the diagonal counts as ones */
    LINALG_TRANSPOSE = 8,
    LINALG_CONJUGATE = 16,
    LINALG_VALUES = 64, /* syevd, gesdd: vectors do not count, and are zero */
    LINALG_INFO = 32,   /* cholesky, syevd: a result s32 says whether it went well */
};

/* The factor of a Hermitian matrix; the other triangle is zero. A matrix that is not positive
 * definite gives NaN everywhere. Arrays: factor, info where wanted, operand. */
hlocc_rt_routine hlocc_rt_cholesky;
/* Arrays: x, a, b; rows and columns are those of b. */
hlocc_rt_routine hlocc_rt_solve;
/* LU with row exchanges: arrays: factors, exchanges s32 (from 1), info s32 (number of the first
 * zero pivot, or 0), operand. */
hlocc_rt_routine hlocc_rt_getrf;
/* QR by reflections: arrays: vectors and R, tau, operand. */
hlocc_rt_routine hlocc_rt_geqrf;
/* The same with column exchanges: arrays: vectors and R, order s32 (from 1), tau, operand, order
 * wished s32 (not 0: to the front). */
hlocc_rt_routine hlocc_rt_geqp3;
/* Hessenberg form of rows and columns LINALG_EXTRA .. LINALG_EXTRA2 (from 1): arrays: vectors and
 * H, tau, info s32, operand. */
hlocc_rt_routine hlocc_rt_gehrd;
/* Tridiagonal systems: arrays: what is left of the diagonals below, on and above, x, info s32 (the
 * number of a zero pivot, or 0), the diagonals, b. Row i has the i-th of each diagonal. */
hlocc_rt_routine hlocc_rt_gtsv;
/* Q's first columns: arrays: Q, vectors, tau. */
hlocc_rt_routine hlocc_rt_orgqr;
/* Q c, c Q (without LINALG_LEFT), or those of Q^H (LINALG_CONJUGATE): arrays: result, vectors, tau,
 * c; rows and columns are those of c, LINALG_EXTRA says how many vectors. */
hlocc_rt_routine hlocc_rt_ormqr;
/* Hermitian eigenproblem: arrays: vectors as columns, values ascending (real), info s32
 * where wanted, operand. */
hlocc_rt_routine hlocc_rt_syevd;
/* Singular values: arrays: a copy of the operand, values descending (real), u, v^H, info s32,
 * operand. */
hlocc_rt_routine hlocc_rt_gesdd;
int64_t hlocc_rt_cholesky_scratch(const int64_t *config);
int64_t hlocc_rt_solve_scratch(const int64_t *config);
int64_t hlocc_rt_getrf_scratch(const int64_t *config);
int64_t hlocc_rt_geqrf_scratch(const int64_t *config);
int64_t hlocc_rt_geqp3_scratch(const int64_t *config);
int64_t hlocc_rt_gehrd_scratch(const int64_t *config);
int64_t hlocc_rt_gtsv_scratch(const int64_t *config);
int64_t hlocc_rt_orgqr_scratch(const int64_t *config);
int64_t hlocc_rt_ormqr_scratch(const int64_t *config);
int64_t hlocc_rt_syevd_scratch(const int64_t *config);
int64_t hlocc_rt_gesdd_scratch(const int64_t *config);

/* ---- random.c ---- */

enum hlocc_rt_random_config {
    RANDOM_STATE_WORDS, /* 2 or 3 */
    RANDOM_BITS,        /* of an element: 4, 8, 16, 32 or 64 */
    RANDOM_SIGNED,      /* 4-bit elements are sign-extended to a byte */
    RANDOM_COUNT,       /* elements of the result */
    RANDOM_SPLIT,       /* threefry: size of the dimension along which a block's words alternate */
    RANDOM_INNER,       /* product of the dimensions after it */
    RANDOM_NUMBERS
};

/* rng-bit-generator. Arrays: next state u64, bits, state u64. Units: elements (threefry), blocks of
 * 128 bits (philox). No scratch. */
hlocc_rt_routine hlocc_rt_threefry, hlocc_rt_philox;

enum hlocc_rt_rng_config {
    RNG_KIND, /* enum hlocc_rt_rng_kind */
    RNG_TYPE, /* enum hlocc_rt_type of a float result, or bits of an integer */
    RNG_SIGNED,
    RNG_COUNT,
    RNG_NUMBERS
};
enum hlocc_rt_rng_kind { RNG_UNIFORM, RNG_NORMAL, RNG_INTEGER };

/* The old rng: a Philox block an element, from state[0], the seed, and state[1], the counter, which
 * advances. Arrays: result, low or mean, high or deviation. */
void hlocc_rt_rng(const int64_t *config, void *const *arrays, uint64_t *state);

#endif
