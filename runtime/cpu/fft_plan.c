#include "runtime/cpu/fft_plan.h"

#include <math.h>
#include <string.h>

void *fft_take(struct fft_room *room, int64_t count, int64_t size) {
    uintptr_t at = room->at;
    room->at += ((uintptr_t)count * (uintptr_t)size + 63) & ~(uintptr_t)63;
    return (void *)at;
}

/* ---- roots of unity ---- */

/* Angles are reduced to an eighth of a turn. */
double complex fft_root(int64_t k, int64_t n) {
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

void fft_put(void *table, bool wide, int64_t at, double complex x) {
    float *f = table;
    double *d = table;
    if (wide) {
        d[2 * at] = creal(x);
        d[2 * at + 1] = cimag(x);
    } else {
        f[2 * at] = (float)creal(x);
        f[2 * at + 1] = (float)cimag(x);
    }
}

/* All e^(-2 pi i k / n): products of two that are exact, so that there are few sines. */
enum { FINE = 1024, MOST_COARSE = 2048 };

struct roots {
    int64_t n;
    double complex fine[FINE], coarse[MOST_COARSE];
};

static void roots_begin(struct roots *roots, int64_t n) {
    roots->n = n;
    for (int64_t k = 0; k < FINE && k < n; k++)
        roots->fine[k] = fft_root(k, n);
    for (int64_t k = 0; k < MOST_COARSE && k * FINE < n; k++)
        roots->coarse[k] = fft_root(k * FINE, n);
}

static inline double complex times(double complex x, double complex y) {
    double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
    return CMPLX(a * c - b * d, a * d + b * c);
}

/* 0 <= k, r < n: number k * r. */
static double complex root_at(const struct roots *roots, int64_t k, int64_t r) {
    int64_t turn = (int64_t)((unsigned __int128)k * (uint64_t)r % (uint64_t)roots->n);
    if (turn < FINE) return roots->fine[turn];
    if (turn >= (int64_t)FINE * MOST_COARSE) return fft_root(turn, roots->n);
    return times(roots->coarse[turn / FINE], roots->fine[turn % FINE]);
}

/* ---- lengths ---- */

/* Factors of n; what is left is 1, or has primes above the largest. */
static int64_t factorise(int64_t n, struct fft_length *length) {
    int twos = 0;
    length->n = n;
    length->count = 0;
    for (; n % 2 == 0 && n > 0; n /= 2)
        twos++;
    /* Eights and fours, and a two only where it is the one. */
    for (; twos >= 5 || twos == 3; twos -= 3)
        length->factors[length->count++] = 8;
    for (; twos >= 2; twos -= 2)
        length->factors[length->count++] = 4;
    if (twos) length->factors[length->count++] = 2;
    for (int p = 3; p <= FFT_LARGEST_FACTOR && n > 1; p += 2)
        for (; n % p == 0; n /= p)
            length->factors[length->count++] = p;
    return n;
}

static bool is_smooth(int64_t n) {
    struct fft_length length;
    return factorise(n, &length) == 1;
}

static void lay_out_length(struct fft_length *length, int64_t n, int64_t size,
                           struct fft_room *tables) {
    int64_t m = n;
    factorise(n, length);
    for (int i = 0; i < length->count; i++) {
        int factor = length->factors[i];
        m /= factor;
        if (m > 1) length->turns[i] = fft_take(tables, m * (factor - 1), 2 * size);
        if (factor > 5 && factor % 2) length->units[i] = fft_take(tables, factor, 2 * size);
    }
}

static void fill_length(const struct fft_length *length, bool wide) {
    struct roots roots;
    roots_begin(&roots, length->n);
    int64_t m = length->n, s = 1;
    for (int i = 0; i < length->count; i++) {
        int factor = length->factors[i];
        m /= factor;
        for (int r = 1; r < factor && m > 1; r++)
            for (int64_t k = 0; k < m; k++)
                fft_put(length->turns[i], wide, k * (factor - 1) + r - 1,
                        root_at(&roots, k, r * s));
        for (int j = 0; j < factor && factor > 5 && factor % 2; j++)
            fft_put(length->units[i], wide, j, fft_root(j, factor));
        s *= factor;
    }
}

/* ---- the choice ---- */

static double wasted(int64_t n, int lanes) {
    return (double)(fft_blocks(n, lanes) * lanes) / (double)n;
}

/* Cost of an element on its way through the passes, in that of a pass of two. */
static double cost_of(int64_t n) {
    struct fft_length length;
    double cost = 0;
    if (factorise(n, &length) != 1) return INFINITY;
    for (int i = 0; i < length.count; i++) {
        int p = length.factors[i];
        cost += p == 8 ? 3.2 : p == 4 ? 2 : p == 2 ? 1.5 : p <= 5 ? 1 + 0.4 * p : 1.5 + 0.5 * p;
    }
    return cost;
}

/* The divisor of n that gives the cheapest split; 1 where there is none. */
static int64_t best_split(int64_t n, int lanes, double *least) {
    int64_t best = 1;
    *least = INFINITY;
    for (int64_t d = lanes; d <= n / lanes && d <= 4096; d++) {
        if (n % d || n / d > 4 * d || d > 16 * (n / d)) continue;
        double cost = (cost_of(d) + 0.5) * wasted(n / d, lanes);
        cost += (cost_of(n / d) + 1.5) * wasted(d, lanes);
        if (cost >= *least) continue;
        *least = cost;
        best = d;
    }
    return best;
}

/* Length of the convolution for a length that has large primes. */
static int64_t padded_length(int64_t n, int lanes, bool split) {
    int64_t least = 2 * n - 1, best = 0, power = 1;
    double lowest = INFINITY;
    while (power < least)
        power *= 2;
    for (int64_t odd = 1; odd <= 45; odd += 2) { /* of threes and fives */
        int64_t m = odd, part = odd, ignored;
        while (part % 3 == 0)
            part /= 3;
        while (part % 5 == 0)
            part /= 5;
        if (part != 1) continue;
        while (m < least)
            m *= 2;
        double cost = cost_of(m);
        if (split) ignored = best_split(m, lanes, &cost), (void)ignored;
        cost = (cost + 3) * (double)m;
        if (m > power || cost >= lowest) continue;
        lowest = cost;
        best = m;
    }
    return best ? best : power;
}

/* Whether lines go one at a time, as matrices. */
static bool wants_split(int64_t n, int lanes, int64_t lines, bool beside) {
    double split, together = cost_of(n) + 3;
    if (beside || best_split(n, lanes, &split) == 1) return false;
    if (lines < lanes) together *= (double)lanes / (double)lines;
    if (n * lanes > 1 << 13) together *= 1.5; /* beyond the first-level cache */
    return split < together;
}

static int64_t chirp_size(const struct fft_plan *p) {
    return fft_blocks(p->n, p->lanes) * p->lanes;
}

void fft_plan_lay_out(struct fft_plan *p, int64_t n, bool wide, int64_t lines, bool beside,
                      struct fft_room *tables, struct fft_room *buffers) {
    int64_t size = wide ? sizeof(double) : sizeof(float), longest;
    memset(p, 0, sizeof *p);
    p->n = n;
    p->wide = wide;
    p->lanes = wide ? FFT_LANES_F64 : FFT_LANES_F32;
    int64_t cell = 2 * size * p->lanes, total = n;
    if (is_smooth(n)) {
        p->split = wants_split(n, p->lanes, lines, beside);
    } else {
        p->split = !beside && (n > 160 || lines < p->lanes);
        total = p->m = padded_length(n, p->lanes, p->split);
        double cost;
        if (best_split(p->m, p->lanes, &cost) == 1) p->split = false;
        p->chirp = fft_take(tables, chirp_size(p), 2 * size);
        p->filter = fft_take(tables, p->m, 2 * size);
    }
    if (p->split) {
        double cost;
        int64_t down = best_split(total, p->lanes, &cost), across = total / down;
        int64_t blocks = fft_blocks(across, p->lanes);
        longest = down > across ? down : across;
        lay_out_length(&p->down, down, size, tables);
        lay_out_length(&p->across, across, size, tables);
        p->turns = fft_take(tables, down * blocks, cell);
        p->grid = fft_take(buffers, down * (blocks + 1), cell);
        for (int i = 0; i < 2 && p->m; i++)
            p->lines[i] = fft_take(buffers, p->m, 2 * size);
    } else {
        longest = total;
        lay_out_length(&p->length, total, size, tables);
        if (p->m) p->pad = fft_take(buffers, p->m, cell);
    }
    p->x = fft_take(buffers, longest, cell);
    p->work = fft_take(buffers, longest, cell);
    p->tile = fft_take(buffers, longest, cell);
}

enum { MOST_LANES = FFT_LANES_F32, STEPS = 32 };

/* Lanes of complex numbers. */
struct lanes {
    double re[MOST_LANES], im[MOST_LANES];
};

/* to = x * y, as a cell: a vector of real parts, then one of imaginary parts. */
static void put_product(void *to, bool wide, int lanes, const struct lanes *x,
                        const struct lanes *y) {
    struct lanes z;
    for (int i = 0; i < MOST_LANES; i++) {
        z.re[i] = x->re[i] * y->re[i] - x->im[i] * y->im[i];
        z.im[i] = x->re[i] * y->im[i] + x->im[i] * y->re[i];
    }
    float *f = to;
    double *d = to;
    for (int i = 0; i < lanes && wide; i++) {
        d[i] = z.re[i];
        d[lanes + i] = z.im[i];
    }
    for (int i = 0; i < lanes && !wide; i++) {
        f[i] = (float)z.re[i];
        f[lanes + i] = (float)z.im[i];
    }
}

/* Those of a block of columns for row r. */
static struct lanes block_turns(const struct fft_plan *p, const struct roots *roots, int64_t first,
                                int64_t r) {
    struct lanes turns = {{0}, {0}};
    for (int i = 0; i < p->lanes; i++) {
        double complex x = root_at(roots, first + fft_place(p->wide, i), r);
        turns.re[i] = creal(x);
        turns.im[i] = cimag(x);
    }
    return turns;
}

static void fill_turns(const struct fft_plan *p) {
    int64_t rows = p->down.n, columns = p->across.n;
    int64_t cell = 2 * p->lanes * (int64_t)(p->wide ? sizeof(double) : sizeof(float));
    struct roots roots;
    struct lanes steps[STEPS];
    char *to = p->turns;
    roots_begin(&roots, rows * columns);
    for (int64_t b = 0; b < fft_blocks(columns, p->lanes); b++) {
        int64_t first = fft_block(b, columns, p->lanes);
        for (int64_t r = 0; r < STEPS && r < rows; r++)
            steps[r] = block_turns(p, &roots, first, r);
        for (int64_t r = 0; r < rows; r += STEPS) {
            struct lanes base = block_turns(p, &roots, first, r);
            for (int64_t i = 0; i < STEPS && r + i < rows; i++, to += cell)
                put_product(to, p->wide, p->lanes, &base, &steps[i]);
        }
    }
}

/* chirp[k] = e^(-pi i k^2 / n); its conjugate, for both signs of k, is what is convolved with. */
static void fill_chirp(const struct fft_plan *p) {
    uint64_t turn = 2 * (uint64_t)p->n;
    for (int64_t k = 0; k < p->m; k++)
        fft_put(p->filter, p->wide, k, 0);
    for (int64_t k = 0; k < chirp_size(p); k++) {
        double complex x = 0;
        if (k < p->n) {
            x = fft_root((int64_t)((unsigned __int128)k * (uint64_t)k % turn), 2 * p->n);
            fft_put(p->filter, p->wide, k, conj(x) / (double)p->m);
            if (k) fft_put(p->filter, p->wide, p->m - k, conj(x) / (double)p->m);
        }
        fft_put(p->chirp, p->wide, k, x);
    }
}

void fft_plan_fill(const struct fft_plan *p) {
    if (p->split) {
        fill_length(&p->down, p->wide);
        fill_length(&p->across, p->wide);
        fill_turns(p);
    } else {
        fill_length(&p->length, p->wide);
    }
    if (p->m) fill_chirp(p);
}
