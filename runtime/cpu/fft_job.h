/* The two kinds of work that Fourier transforms are made of, for either type of numbers. */
#ifndef RUNTIME_CPU_FFT_JOB_H
#define RUNTIME_CPU_FFT_JOB_H

#include "runtime/cpu/fft_plan.h"

/* Lines of n numbers, which are neighbours. Real ones of an even length are complex ones of half of
 * it, whose parts are their elements in turn; of an odd length two go together, as parts of complex
 * ones. Half a line is the elements 0 .. n / 2 of a transform that the others mirror. */
enum fft_rows_kind { ROWS_COMPLEX, ROWS_HALVES, ROWS_PAIRS };

struct fft_rows {
    enum fft_rows_kind kind;
    int64_t n, lines; /* lines in all: the last of an odd number of real ones is without a pair */
    bool inverse;
    bool packed; /* inverse of reals: half lines lie as fft_columns leaves them */
    struct fft_plan plan;
    void *turns; /* ROWS_HALVES: e^(-pi i k / m), 0 <= k <= m / 2, m = n / 2 */
    /* Buffers: complex lines as the plan transforms them, a vector's lanes of them; what has been
     * made of them; cells. */
    void *lines_in, *lines_out, *cells;
};

/* Lines along one or two dims in front of the last one, which has `inner` complex numbers. */
struct fft_columns {
    int axes;
    int64_t inner;
    bool inverse;
    /* 0, or the length of the real lines that rows are halves of: then a row of the result has that
     * many reals: the real part of number 0, for an even length that of the last one, and then
     * numbers 1, 2, ... The other parts do not count. */
    int64_t packed;
    struct fft_plan plans[2]; /* of the dim before the last one, and the one before that */
    void *box;                /* buffer: a cell a row */
};

typedef void fft_rows_run(const struct fft_rows *rows, const void *from, void *to, int64_t begin,
                          int64_t end);
typedef void fft_columns_run(const struct fft_columns *columns, const void *from, void *to,
                             int64_t begin, int64_t end);
typedef void fft_plan_finish(const struct fft_plan *plan);

/* Units: lines, or pairs of lines. */
fft_rows_run fft_rows_f32, fft_rows_f64;
/* Units: for each element of the dims in front, the vectors of columns. The result may be the
 * operand, where not packed. */
fft_columns_run fft_columns_f32, fft_columns_f64;
/* What fft_plan_fill leaves to be done. */
fft_plan_finish fft_finish_f32, fft_finish_f64;

#endif
