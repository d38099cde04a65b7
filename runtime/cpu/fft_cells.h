/* Fourier transforms of four lines at once, one in each lane of a vector. Private to fft.c. */
#ifndef RUNTIME_CPU_FFT_CELLS_H
#define RUNTIME_CPU_FFT_CELLS_H

#include <stdbool.h>
#include <stdint.h>

enum { FFT_LANES = 4, FFT_LARGEST_FACTOR = 31, FFT_MOST_FACTORS = 64 };

struct fft_root {
    double re, im;
};

typedef double fft_lanes __attribute__((vector_size(8 * FFT_LANES)));

/* One element of each of the lines. */
struct fft_cell {
    fft_lanes re, im;
};

/* A length with small prime factors only: their product, and e^(-2 pi i k / n). */
struct fft_length {
    int64_t n;
    int count, factors[FFT_MOST_FACTORS];
    const struct fft_root *roots;
};

enum fft_kind { FFT_COMPLEX_F32, FFT_COMPLEX_F64, FFT_REAL_F32, FFT_REAL_F64 };

/* Numbers in memory. */
struct fft_view {
    void *data;
    enum fft_kind kind;
    bool swapped; /* real and imaginary parts change places: what makes a transform inverse */
    double scale; /* of what is stored */
};

/* Factors of n; what is left is 1, or has primes above the largest. */
int64_t fft_factorise(int64_t n, struct fft_length *length);

/* Transforms of `count` <= 4 lines that stand side by side: element k of the first is at
 * at + k * step. `x` and `work` have room for a line of cells each,
 * rounded up to whole vectors. */
void fft_beside(const struct fft_length *length, const struct fft_view *from, int64_t at,
                int64_t step, const struct fft_view *to, int64_t to_at, int64_t to_step, int count,
                struct fft_cell *x, struct fft_cell *work);
/* The same of lines that are `gap` elements apart, whose elements are neighbours. */
void fft_apart(const struct fft_length *length, const struct fft_view *from, int64_t at,
               int64_t gap, const struct fft_view *to, int64_t to_at, int64_t to_gap, int count,
               struct fft_cell *x, struct fft_cell *work);

/* A line of down.n * across.n as a matrix with rows of across.n: transforms of columns, turns,
 * transforms of rows (Bailey, FFTs in external or hierarchical memory, 1990), so that what is at
 * hand stays small. turns: for each four columns a cell for each row r, whose lane for column c is
 * e^(-2 pi i r c / n). */
struct fft_split {
    struct fft_length down, across;
    const struct fft_cell *turns;
};
/* Cells from row to row of the grid, which has down.n rows, rounded up. */
int64_t fft_grid_stride(int64_t columns);
/* One line of neighbours; the line at `next` will be the next. x and work have room for the longer
 * of both lengths. */
void fft_line(const struct fft_split *split, const struct fft_view *from, int64_t at,
              const struct fft_view *to, int64_t to_at, int64_t next, struct fft_cell *grid,
              struct fft_cell *x, struct fft_cell *work);

#endif
