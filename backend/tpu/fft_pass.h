/* One pass of a Fourier transform over rows of VMEM: row i of a plane has number i of 128
 * transforms. With n = r m s, Stockham's form of Cooley and Tukey's step is
 *     y[q + s (r p + k)] = w^(s p k) sum over j of x[q + s (p + m j)] w^(n/r j k),
 * w = exp(-+2 pi i / n), for q < s, p < m, k < r; s begins as 1 and grows by r, so that the last
 * pass leaves the numbers in order. A register takes 8 p, or 8 q. */
#ifndef BACKEND_TPU_FFT_PASS_H
#define BACKEND_TPU_FFT_PASS_H

#include "backend/tpu/kernel.h"

/* Planes (real, imaginary) of consecutive rows. */
struct fft_rows {
    int64_t row[2];
    int tag;
};

struct fft_pass {
    int64_t n, r, m, s;
    bool inverse;
    struct fft_rows from, to;
    struct fft_rows table; /* row p: w^p in all lanes */
};

enum { FFT_MOST_FACTORS = 32, FFT_LARGEST_PRIME = 127 };

/* The radices of a transform; 0 where n has a prime factor past FFT_LARGEST_PRIME. */
int fft_radices(int64_t n, int64_t radices[FFT_MOST_FACTORS]);
void fft_emit_pass(struct kernel *k, const struct fft_pass *pass);

#endif
