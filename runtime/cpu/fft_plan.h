/* How a Fourier transform of some length is done, and its tables. Private to the files fft*.c.
 * Tables and buffers are of the numbers that the transform computes in: float or double. */
#ifndef RUNTIME_CPU_FFT_PLAN_H
#define RUNTIME_CPU_FFT_PLAN_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

enum { FFT_LARGEST_FACTOR = 127, FFT_MOST_FACTORS = 40, FFT_LANES_F32 = 8, FFT_LANES_F64 = 4 };

/* Where the next piece of memory is. A plan is laid out first, which touches no memory (so that
 * sizes are known from a layout at 0), then filled. */
struct fft_room {
    uintptr_t at;
};

void *fft_take(struct fft_room *room, int64_t count, int64_t size);

/* A length with small prime factors only: Stockham's passes, one a factor. */
struct fft_length {
    int64_t n;
    int count, factors[FFT_MOST_FACTORS];
    /* e^(-2 pi i k r s / n) for r = 1 .. factor - 1, for each k, where the pass has m > k groups
     * that stand s apart; pairs of numbers. */
    void *turns[FFT_MOST_FACTORS];
    void *units[FFT_MOST_FACTORS]; /* of an odd factor p above 5: e^(-2 pi i j / p), j < p */
};

/* Transforms of length n. Those of lengths with large prime factors are circular convolutions of a
 * length m (Bluestein, A linear filtering approach to the computation of discrete Fourier
 * transform, 1970). What is transformed in the end, of length n or m, is either a line in each lane
 * of a vector, or one line as a matrix of down.n rows of across.n columns: transforms of columns,
 * turns, transforms of rows (Bailey, FFTs in external or hierarchical memory, 1990), so that what
 * is at hand stays small. */
struct fft_plan {
    int64_t n, m; /* m 0: no convolution */
    bool wide;    /* double */
    int lanes;
    bool split;               /* in down and across */
    struct fft_length length; /* where not split */
    struct fft_length down, across;
    /* For each block of columns a cell for each row r: e^(-2 pi i r c / n) for column c. */
    void *turns;
    void *chirp, *filter; /* e^(-pi i k^2 / n), rounded up to whole vectors; its transform / m */
    /* Buffers: of cells (a vector of real and one of imaginary parts). */
    void *x, *work, *tile; /* of the longest length */
    void *grid;            /* where split */
    void *pad;             /* m: where not split */
    void *lines[2];        /* m numbers each, where split */
};

/* `lines`: how many the program transforms in all; `beside`: elements of a line do not stand next
 * to each other. Tables and buffers come from two places. */
void fft_plan_lay_out(struct fft_plan *plan, int64_t n, bool wide, int64_t lines, bool beside,
                      struct fft_room *tables, struct fft_room *buffers);
/* All tables but `filter`, which is the transform of what is put there. */
void fft_plan_fill(const struct fft_plan *plan);

/* e^(-2 pi i k / n), 0 <= k < n, exact to a unit or so. */
double complex fft_root(int64_t k, int64_t n);
/* Element `at` of a table of complex numbers. */
void fft_put(void *table, bool wide, int64_t at, double complex x);

/* The first of block b of `lanes` elements of n >= lanes: the last one may overlap the one before.
 */
static inline int64_t fft_block(int64_t b, int64_t n, int lanes) {
    return b * lanes < n - lanes ? b * lanes : n - lanes;
}

static inline int64_t fft_blocks(int64_t n, int lanes) {
    return (n + lanes - 1) / lanes;
}

/* Which element the number j of a vector is, once real and imaginary parts have been told apart:
 * as the shuffles leave them that cost least. */
static inline int fft_place(bool wide, int j) {
    static const unsigned char narrow[] = {0, 1, 4, 5, 2, 3, 6, 7}, of_two[] = {0, 2, 1, 3};
    return wide ? of_two[j] : narrow[j];
}

#endif
