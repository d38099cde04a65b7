/* Discrete Fourier transforms in double. Lengths with small prime factors go through Stockham's
 * passes (one a factor, no reordering); others become a circular convolution of a power of two
 * (Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970).
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "runtime/cpu/kernels.h"

typedef double complex cplx;

enum { LARGEST_FACTOR = 31, MAX_FACTORS = 64 };

static inline cplx times(cplx a, cplx b) {
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}

static inline cplx times_i(cplx a, double sign) {
    return CMPLX(-sign * cimag(a), sign * creal(a));
}

/* Factors of n, radix 4 first; what is left when only primes above the largest remain. */
static int64_t factorise(int64_t n, int *factors, int *count) {
    *count = 0;
    for (int p = 4; p <= LARGEST_FACTOR && n > 1; p = p == 4 ? 2 : p == 2 ? 3 : p + 2)
        while (n % p == 0) {
            factors[(*count)++] = p;
            n /= p;
        }
    return n;
}

static bool is_smooth(int64_t n) {
    int factors[MAX_FACTORS], count;
    return factorise(n, factors, &count) == 1;
}

/* Length of the convolution for a length that is not smooth. */
static int64_t padded_length(int64_t n) {
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

/* roots[k] = e^(-2 pi i k / n), exact to a unit or so: angles are reduced to an eighth. */
static cplx root(int64_t k, int64_t n) {
    int64_t octant = 8 * k / n; /* 0 .. 7 */
    int64_t rest = 8 * k - octant * n;
    double turn = 2 * M_PI / (double)n;
    bool odd = octant & 1;
    double x = turn * (double)(odd ? n - rest : rest) / 8, c = cos(x), s = sin(x);
    if (odd) { /* mirrored at the diagonal */
        double swap = c;
        c = s;
        s = swap;
    }
    switch (octant >> 1) {
    case 0: return CMPLX(c, -s);
    case 1: return CMPLX(-s, -c);
    case 2: return CMPLX(-c, s);
    default: return CMPLX(s, c);
    }
}

/* Products of two short tables: few sines, and no error that grows. */
static void fill_roots(cplx *roots, int64_t n) {
    cplx fine[256];
    int64_t step = 256;
    for (int64_t k = 0; k < step && k < n; k++)
        fine[k] = root(k, n);
    for (int64_t base = 0; base < n; base += step) {
        cplx coarse = root(base, n);
        for (int64_t k = 0; k < step && base + k < n; k++)
            roots[base + k] = base == 0 ? fine[k] : times(coarse, fine[k]);
    }
}

/* ---- passes ---- */

/* One pass: n = factor * m * s, where s transforms of length factor * m stand interleaved. From
 * in[q + s (k + m r)] to out[q + s (r + factor k)], r < factor, k < m, q < s. */
struct pass {
    int64_t factor, m, s, n;
    const cplx *roots; /* of the whole length n */
    double sign;       /* -1 forward, 1 inverse */
};

static inline cplx twiddle(const struct pass *p, int64_t k) {
    cplx w = p->roots[k];
    return p->sign < 0 ? w : conj(w);
}

static void pass2(const struct pass *p, cplx *out, const cplx *in) {
    for (int64_t k = 0; k < p->m; k++) {
        cplx w = twiddle(p, k * p->s);
        const cplx *x = in + k * p->s, *y = x + p->m * p->s;
        cplx *to = out + 2 * k * p->s;
        for (int64_t q = 0; q < p->s; q++) {
            to[q] = x[q] + y[q];
            to[q + p->s] = times(w, x[q] - y[q]);
        }
    }
}

static void pass4(const struct pass *p, cplx *out, const cplx *in) {
    int64_t s = p->s, far = p->m * s;
    for (int64_t k = 0; k < p->m; k++) {
        cplx w1 = twiddle(p, k * s), w2 = twiddle(p, 2 * k * s), w3 = twiddle(p, 3 * k * s);
        const cplx *x = in + k * s;
        cplx *to = out + 4 * k * s;
        for (int64_t q = 0; q < s; q++) {
            cplx a = x[q], b = x[q + far], c = x[q + 2 * far], d = x[q + 3 * far];
            cplx sum = a + c, difference = a - c, sum2 = b + d, turned = times_i(b - d, p->sign);
            to[q] = sum + sum2;
            to[q + s] = times(w1, difference + turned);
            to[q + 2 * s] = times(w2, sum - sum2);
            to[q + 3 * s] = times(w3, difference - turned);
        }
    }
}

static void pass_any(const struct pass *p, cplx *out, const cplx *in) {
    int64_t s = p->s, far = p->m * s, f = p->factor, turn = p->n / f;
    cplx w[LARGEST_FACTOR];
    for (int64_t j = 0; j < f; j++)
        w[j] = twiddle(p, j * turn);
    for (int64_t k = 0; k < p->m; k++)
        for (int64_t r = 0; r < f; r++) {
            cplx by = twiddle(p, r * k * s);
            const cplx *x = in + k * s;
            cplx *to = out + (f * k + r) * s;
            for (int64_t q = 0; q < s; q++) {
                cplx sum = x[q];
                for (int64_t j = 1; j < f; j++)
                    sum += times(w[r * j % f], x[q + j * far]);
                to[q] = times(by, sum);
            }
        }
}

/* Transforms x in place, n of it; work holds n more. */
static void smooth_transform(cplx *x, cplx *work, int64_t n, const cplx *roots, double sign) {
    int factors[MAX_FACTORS], count;
    cplx *from = x, *to = work;
    struct pass p = {.s = 1, .n = n, .m = n, .roots = roots, .sign = sign};
    factorise(n, factors, &count);
    for (int i = 0; i < count; i++) {
        p.factor = factors[i];
        p.m /= p.factor;
        (p.factor == 2 ? pass2 : p.factor == 4 ? pass4 : pass_any)(&p, to, from);
        p.s *= p.factor;
        cplx *swap = from;
        from = to;
        to = swap;
    }
    if (from != x) memcpy(x, from, (size_t)n * sizeof *x);
}

/* ---- any length ---- */

/* What transforms of one length share. */
struct plan {
    int64_t n, m;               /* m: of the convolution, or 0 */
    cplx *roots;                /* of n, or of m */
    cplx *chirp, *filter, *pad; /* e^(-pi i k^2 / n); its transform; m of room */
    cplx *work;
};

static int64_t plan_size(int64_t n) { /* in complex numbers */
    return is_smooth(n) ? 2 * n : n + 4 * padded_length(n);
}

/* chirp[k] = e^(-pi i k^2 / n) = root(k^2 mod 2n, 2n) */
static void plan_convolution(struct plan *p) {
    for (int64_t k = 0; k < p->n; k++)
        p->chirp[k] =
            root((int64_t)((unsigned __int128)k * (uint64_t)k % (uint64_t)(2 * p->n)), 2 * p->n);
    memset(p->filter, 0, (size_t)p->m * sizeof *p->filter);
    for (int64_t k = 0; k < p->n; k++)
        p->filter[k] = p->filter[k ? p->m - k : 0] = conj(p->chirp[k]);
    smooth_transform(p->filter, p->work, p->m, p->roots, -1);
}

static cplx *plan_init(struct plan *p, int64_t n, cplx *memory) {
    p->n = n;
    p->m = is_smooth(n) ? 0 : padded_length(n);
    int64_t length = p->m ? p->m : n;
    p->roots = memory;
    p->work = memory + length;
    memory += 2 * length;
    fill_roots(p->roots, length);
    if (!p->m) return memory;
    p->filter = memory;
    p->pad = memory + p->m;
    p->chirp = memory + 2 * p->m;
    plan_convolution(p);
    return p->chirp + n;
}

static void transform(const struct plan *p, cplx *x, bool inverse) {
    if (!p->m) {
        smooth_transform(x, p->work, p->n, p->roots, inverse ? 1 : -1);
        return;
    }
    memset(p->pad, 0, (size_t)p->m * sizeof *p->pad);
    for (int64_t k = 0; k < p->n; k++) /* the inverse transform: conjugate before and after */
        p->pad[k] = times(inverse ? conj(x[k]) : x[k], p->chirp[k]);
    smooth_transform(p->pad, p->work, p->m, p->roots, -1);
    for (int64_t k = 0; k < p->m; k++)
        p->pad[k] = times(p->pad[k], p->filter[k]);
    smooth_transform(p->pad, p->work, p->m, p->roots, 1);
    for (int64_t k = 0; k < p->n; k++) {
        cplx value = times(p->pad[k], p->chirp[k]) / (double)p->m;
        x[k] = inverse ? conj(value) : value;
    }
}

/* ---- boxes ---- */

/* Transforms every line of the box along one axis. */
static void transform_axis(cplx *box, int64_t count, const int64_t *lengths, int axes, int axis,
                           bool inverse, cplx *memory) {
    int64_t n = lengths[axis], inner = 1;
    struct plan plan = {0};
    for (int i = axis + 1; i < axes; i++)
        inner *= lengths[i];
    if (n == 1) return;
    cplx *line = plan_init(&plan, n, memory);
    for (int64_t l = 0; l < count / n; l++) {
        cplx *first = box + l / inner * n * inner + l % inner;
        for (int64_t k = 0; k < n; k++)
            line[k] = first[k * inner];
        transform(&plan, line, inverse);
        for (int64_t k = 0; k < n; k++)
            first[k * inner] = inverse ? line[k] / (double)n : line[k];
    }
}

/* Values past the half of each line follow from those before it; the values that are their own
 * mirror are real. */
static void complete_lines(cplx *box, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++) {
        cplx *line = box + r * width;
        line[0] = creal(line[0]);
        if (width % 2 == 0) line[width / 2] = creal(line[width / 2]);
        for (int64_t k = width / 2 + 1; k < width; k++)
            line[k] = conj(line[width - k]);
    }
}

static cplx load(const void *in, int64_t at, bool is_double, bool is_real) {
    if (is_double) {
        const double *x = in;
        return is_real ? x[at] : CMPLX(x[2 * at], x[2 * at + 1]);
    }
    const float *x = in;
    return is_real ? (double)x[at] : CMPLX((double)x[2 * at], (double)x[2 * at + 1]);
}

static void store(void *out, int64_t at, cplx x, bool is_double, bool is_real) {
    int64_t step = is_real ? 1 : 2;
    if (is_double) {
        ((double *)out)[at * step] = creal(x);
        if (!is_real) ((double *)out)[2 * at + 1] = cimag(x);
    } else {
        ((float *)out)[at * step] = (float)creal(x);
        if (!is_real) ((float *)out)[2 * at + 1] = (float)cimag(x);
    }
}

static int64_t box_count(const int64_t *config) {
    int64_t count = 1;
    for (int64_t i = 0; i < config[FFT_AXES]; i++)
        count *= config[FFT_LENGTHS + i];
    return count;
}

int64_t hlocc_rt_fft_scratch(const int64_t *config) {
    int64_t most = 0;
    for (int64_t i = 0; i < config[FFT_AXES]; i++) {
        int64_t n = config[FFT_LENGTHS + i], size = n ? plan_size(n) + n : 0;
        most = size > most ? size : most;
    }
    return hlocc_rt_align((box_count(config) + most) * (int64_t)sizeof(cplx));
}

void hlocc_rt_fft(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                  int64_t end) {
    int axes = (int)config[FFT_AXES];
    int64_t kind = config[FFT_KIND], have = config[FFT_WIDTH], count = box_count(config);
    const int64_t *lengths = config + FFT_LENGTHS;
    int64_t width = lengths[axes - 1], rows = width ? count / width : 0;
    int64_t out_width = kind == FFT_REAL ? width / 2 + 1 : width;
    bool wide = config[FFT_DOUBLE], inverse = kind == FFT_INVERSE || kind == FFT_REAL_INVERSE;
    cplx *box = scratch, *memory = box + count;
    for (int64_t unit = begin; unit < end; unit++) {
        memset(box, 0, (size_t)count * sizeof *box);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < have && k < width; k++)
                box[r * width + k] =
                    load(arrays[1], (unit * rows + r) * have + k, wide, kind == FFT_REAL);
        if (kind == FFT_REAL_INVERSE) {
            for (int i = 0; i < axes - 1; i++)
                transform_axis(box, count, lengths, axes, i, true, memory);
            complete_lines(box, rows, width);
            transform_axis(box, count, lengths, axes, axes - 1, true, memory);
        } else {
            for (int i = axes - 1; i >= 0; i--)
                transform_axis(box, count, lengths, axes, i, inverse, memory);
        }
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < out_width; k++)
                store(arrays[0], (unit * rows + r) * out_width + k, box[r * width + k], wide,
                      kind == FFT_REAL_INVERSE);
    }
}
