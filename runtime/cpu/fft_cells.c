#include "runtime/cpu/fft_cells.h"

#include <string.h>

#include "runtime/cpu/clones.h"

/* Vectors never leave this file but through memory: how they would be passed does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

typedef struct fft_cell cell;
typedef fft_lanes lanes;
typedef int64_t picks __attribute__((vector_size(8 * FFT_LANES)));
/* The same in memory that has the elements' alignment only. */
typedef double doubles __attribute__((vector_size(8 * FFT_LANES), aligned(8), may_alias));
typedef float floats __attribute__((vector_size(4 * FFT_LANES), aligned(4), may_alias));

INLINE cell add(cell a, cell b) {
    return (cell){a.re + b.re, a.im + b.im};
}

INLINE cell sub(cell a, cell b) {
    return (cell){a.re - b.re, a.im - b.im};
}

INLINE cell scaled(cell a, double k) {
    return (cell){a.re * k, a.im * k};
}

/* -i a */
INLINE cell turned(cell a) {
    return (cell){a.im, -a.re};
}

INLINE cell times_root(cell a, struct fft_root w) {
    return (cell){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
}

INLINE cell times(cell a, cell b) {
    return (cell){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* ---- transforms of the length of a factor, in place ---- */

INLINE void small2(cell *a) {
    cell x = a[0];
    a[0] = add(x, a[1]);
    a[1] = sub(x, a[1]);
}

INLINE void small3(cell *a) {
    const double half_root3 = 0.86602540378443864676;
    cell sum = add(a[1], a[2]), side = scaled(turned(sub(a[1], a[2])), half_root3);
    cell middle = sub(a[0], scaled(sum, 0.5));
    a[0] = add(a[0], sum);
    a[1] = add(middle, side);
    a[2] = sub(middle, side);
}

INLINE void small4(cell *a) {
    cell sum = add(a[0], a[2]), difference = sub(a[0], a[2]);
    cell sum2 = add(a[1], a[3]), side = turned(sub(a[1], a[3]));
    a[0] = add(sum, sum2);
    a[1] = add(difference, side);
    a[2] = sub(sum, sum2);
    a[3] = sub(difference, side);
}

INLINE void small5(cell *a) {
    const double c1 = 0.30901699437494742410, s1 = 0.95105651629515357212;
    const double c2 = -0.80901699437494742410, s2 = 0.58778525229247312917;
    cell p1 = add(a[1], a[4]), p2 = add(a[2], a[3]);
    cell m1 = turned(sub(a[1], a[4])), m2 = turned(sub(a[2], a[3]));
    cell x1 = add(a[0], add(scaled(p1, c1), scaled(p2, c2)));
    cell x2 = add(a[0], add(scaled(p1, c2), scaled(p2, c1)));
    cell y1 = add(scaled(m1, s1), scaled(m2, s2)), y2 = sub(scaled(m1, s2), scaled(m2, s1));
    a[0] = add(a[0], add(p1, p2));
    a[1] = add(x1, y1);
    a[2] = add(x2, y2);
    a[3] = sub(x2, y2);
    a[4] = sub(x1, y1);
}

INLINE void small8(cell *a) {
    const double half_root2 = 0.70710678118654752440;
    cell even[4], odd[4];
    for (int i = 0; i < 4; i++) {
        even[i] = add(a[i], a[i + 4]);
        odd[i] = sub(a[i], a[i + 4]);
    }
    odd[1] = scaled(add(odd[1], turned(odd[1])), half_root2);
    odd[2] = turned(odd[2]);
    odd[3] = scaled(sub(turned(odd[3]), odd[3]), half_root2);
    small4(even);
    small4(odd);
    for (int i = 0; i < 4; i++) {
        a[2 * i] = even[i];
        a[2 * i + 1] = odd[i];
    }
}

INLINE void small(cell *a, int factor) {
    switch (factor) {
    case 2: small2(a); break;
    case 3: small3(a); break;
    case 4: small4(a); break;
    case 5: small5(a); break;
    default: small8(a); break;
    }
}

/* ---- passes ---- */

/* One of Stockham's passes: n = factor * m * s, where s transforms of length factor * m stand
 * interleaved. From in[q + s (k + m r)] to out[q + s (r + factor k)], r < factor, k < m, q < s. */
struct pass {
    int64_t factor, m, s, n;
    const struct fft_root *roots; /* of the whole length n */
};

INLINE void run_pass(const struct pass *p, cell *out, const cell *in, int factor) {
    int64_t far = p->m * p->s, s = p->s;
    for (int64_t k = 0; k < p->m; k++, in += s, out += factor * s) {
        struct fft_root w[8];
        for (int r = 1; r < factor; r++)
            w[r] = p->roots[r * k * s];
        for (int64_t q = 0; q < s; q++) {
            cell a[8];
            for (int r = 0; r < factor; r++)
                a[r] = in[q + r * far];
            small(a, factor);
            out[q] = a[0];
            for (int r = 1; r < factor; r++)
                out[q + r * s] = times_root(a[r], w[r]);
        }
    }
}

/* The last pass, m = 1, has no roots. */
INLINE void run_last(const struct pass *p, cell *out, const cell *in, int factor) {
    for (int64_t q = 0; q < p->s; q++) {
        cell a[8];
        for (int r = 0; r < factor; r++)
            a[r] = in[q + r * p->s];
        small(a, factor);
        for (int r = 0; r < factor; r++)
            out[q + r * p->s] = a[r];
    }
}

INLINE void run_any(const struct pass *p, cell *out, const cell *in) {
    int64_t s = p->s, far = p->m * s, f = p->factor, turn = p->n / f;
    for (int64_t k = 0; k < p->m; k++)
        for (int64_t r = 0; r < f; r++) {
            struct fft_root by = p->roots[r * k * s];
            const cell *x = in + k * s;
            cell *to = out + (f * k + r) * s;
            for (int64_t q = 0; q < s; q++) {
                cell sum = x[q];
                for (int64_t j = 1; j < f; j++)
                    sum = add(sum, times_root(x[q + j * far], p->roots[r * j % f * turn]));
                to[q] = times_root(sum, by);
            }
        }
}

#define RUN(factor)                                                                                \
    case factor:                                                                                   \
        if (p.m == 1)                                                                              \
            run_last(&p, work, x, factor);                                                         \
        else                                                                                       \
            run_pass(&p, work, x, factor);                                                         \
        break;

/* Transforms the cells in x; the result is in x or in work, and a pointer to it comes back. */
CLONES static cell *transform(const struct fft_length *length, cell *x, cell *work) {
    struct pass p = {.s = 1, .n = length->n, .m = length->n, .roots = length->roots};
    for (int i = 0; i < length->count; i++) {
        p.factor = length->factors[i];
        p.m /= p.factor;
        switch (p.factor) {
            RUN(2)
            RUN(3)
            RUN(4)
            RUN(5)
            RUN(8)
        default: run_any(&p, work, x); break;
        }
        p.s *= p.factor;
        cell *swap = x;
        x = work;
        work = swap;
    }
    return x;
}

int64_t fft_factorise(int64_t n, struct fft_length *length) {
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

/* ---- memory ---- */

INLINE lanes widened(const float *x) {
    return __builtin_convertvector(*(const floats *)x, lanes);
}

/* Real and imaginary parts that take turns. */
INLINE cell parted(const lanes *x) {
    return (cell){__builtin_shuffle(x[0], x[1], (picks){0, 2, 4, 6}),
                  __builtin_shuffle(x[0], x[1], (picks){1, 3, 5, 7})};
}

/* Four elements from `at` on. */
INLINE cell load_all(const struct fft_view *from, int64_t at) {
    cell c = {{0}, {0}};
    const float *f = from->data;
    const double *d = from->data;
    lanes both[2];
    switch (from->kind) {
    case FFT_REAL_F32: c.re = widened(f + at); break;
    case FFT_REAL_F64: c.re = *(const doubles *)(d + at); break;
    case FFT_COMPLEX_F32:
        both[0] = widened(f + 2 * at);
        both[1] = widened(f + 2 * at + 4);
        c = parted(both);
        break;
    case FFT_COMPLEX_F64:
        both[0] = *(const doubles *)(d + 2 * at);
        both[1] = *(const doubles *)(d + 2 * at + 4);
        c = parted(both);
        break;
    }
    return from->swapped ? (cell){c.im, c.re} : c;
}

INLINE void narrow(float *to, lanes x) {
    *(floats *)to = __builtin_convertvector(x, floats);
}

INLINE void store_all(const struct fft_view *to, int64_t at, cell c) {
    c = scaled(to->swapped ? (cell){c.im, c.re} : c, to->scale);
    float *f = to->data;
    double *d = to->data;
    lanes a = __builtin_shuffle(c.re, c.im, (picks){0, 4, 1, 5});
    lanes b = __builtin_shuffle(c.re, c.im, (picks){2, 6, 3, 7});
    switch (to->kind) {
    case FFT_REAL_F32: narrow(f + at, c.re); break;
    case FFT_REAL_F64: *(doubles *)(d + at) = c.re; break;
    case FFT_COMPLEX_F32:
        narrow(f + 2 * at, a);
        narrow(f + 2 * at + 4, b);
        break;
    case FFT_COMPLEX_F64:
        *(doubles *)(d + 2 * at) = a;
        *(doubles *)(d + 2 * at + 4) = b;
        break;
    }
}

INLINE bool is_real(enum fft_kind kind) {
    return kind == FFT_REAL_F32 || kind == FFT_REAL_F64;
}

INLINE double number_at(const struct fft_view *from, int64_t at) {
    return from->kind == FFT_COMPLEX_F32 || from->kind == FFT_REAL_F32
               ? (double)((const float *)from->data)[at]
               : ((const double *)from->data)[at];
}

/* Fewer than four. */
INLINE cell load_some(const struct fft_view *from, int64_t at, int count) {
    double re[FFT_LANES] = {0}, im[FFT_LANES] = {0};
    bool real = is_real(from->kind);
    for (int i = 0; i < count; i++) {
        re[i] = number_at(from, real ? at + i : 2 * (at + i));
        im[i] = real ? 0 : number_at(from, 2 * (at + i) + 1);
    }
    cell c;
    memcpy(&c.re, from->swapped ? im : re, sizeof c.re);
    memcpy(&c.im, from->swapped ? re : im, sizeof c.im);
    return c;
}

INLINE void put_number(const struct fft_view *to, int64_t at, double x) {
    if (to->kind == FFT_COMPLEX_F32 || to->kind == FFT_REAL_F32)
        ((float *)to->data)[at] = (float)x;
    else
        ((double *)to->data)[at] = x;
}

INLINE void store_some(const struct fft_view *to, int64_t at, int count, cell c) {
    bool real = is_real(to->kind);
    c = scaled(to->swapped ? (cell){c.im, c.re} : c, to->scale);
    for (int i = 0; i < count; i++) {
        put_number(to, real ? at + i : 2 * (at + i), c.re[i]);
        if (!real) put_number(to, 2 * (at + i) + 1, c.im[i]);
    }
}

INLINE cell load(const struct fft_view *from, int64_t at, int count) {
    return count == FFT_LANES ? load_all(from, at) : load_some(from, at, count);
}

INLINE void store(const struct fft_view *to, int64_t at, int count, cell c) {
    if (count == FFT_LANES)
        store_all(to, at, c);
    else
        store_some(to, at, count, c);
}

/* Of the vectors x[0], x[2], x[4] and x[6]. */
INLINE void transpose_lanes(lanes *x) {
    lanes a = __builtin_shuffle(x[0], x[2], (picks){0, 4, 2, 6});
    lanes b = __builtin_shuffle(x[0], x[2], (picks){1, 5, 3, 7});
    lanes c = __builtin_shuffle(x[4], x[6], (picks){0, 4, 2, 6});
    lanes d = __builtin_shuffle(x[4], x[6], (picks){1, 5, 3, 7});
    x[0] = __builtin_shuffle(a, c, (picks){0, 1, 4, 5});
    x[2] = __builtin_shuffle(b, d, (picks){0, 1, 4, 5});
    x[4] = __builtin_shuffle(a, c, (picks){2, 3, 6, 7});
    x[6] = __builtin_shuffle(b, d, (picks){2, 3, 6, 7});
}

/* Four cells: what was element i of line j becomes element j of line i. */
INLINE void transpose(cell *x) {
    transpose_lanes(&x[0].re);
    transpose_lanes(&x[0].im);
}

INLINE int at_most(int64_t count) {
    return count < FFT_LANES ? (int)count : FFT_LANES;
}

/* ---- lines ---- */

CLONES void fft_beside(const struct fft_length *length, const struct fft_view *from, int64_t at,
                       int64_t step, const struct fft_view *to, int64_t to_at, int64_t to_step,
                       int count, struct fft_cell *x, struct fft_cell *work) {
    for (int64_t k = 0; k < length->n; k++)
        x[k] = load(from, at + k * step, count);
    x = transform(length, x, work);
    for (int64_t k = 0; k < length->n; k++)
        store(to, to_at + k * to_step, count, x[k]);
}

CLONES void fft_apart(const struct fft_length *length, const struct fft_view *from, int64_t at,
                      int64_t gap, const struct fft_view *to, int64_t to_at, int64_t to_gap,
                      int count, struct fft_cell *x, struct fft_cell *work) {
    int64_t n = length->n;
    for (int64_t k = 0; k < n; k += FFT_LANES) {
        cell *tile = x + k;
        for (int i = 0; i < FFT_LANES; i++) /* lanes without a line take the first one's */
            tile[i] = load(from, at + (i < count ? i : 0) * gap + k, at_most(n - k));
        transpose(tile);
    }
    x = transform(length, x, work);
    for (int64_t k = 0; k < n; k += FFT_LANES) {
        cell *tile = x + k;
        transpose(tile);
        for (int i = 0; i < count; i++)
            store(to, to_at + i * to_gap + k, at_most(n - k), tile[i]);
    }
}

/* One more than there are: rows that start a power of two apart would share places in caches. */
int64_t fft_grid_stride(int64_t columns) {
    return (columns + FFT_LANES - 1) / FFT_LANES + 1;
}

/* Memory that is wanted soon, fetched piece by piece between other work. */
struct ahead {
    const char *at, *end;
    int64_t step;
};

/* A line of n elements, in `parts` pieces; none where it is longer than a cache has room for. */
INLINE struct ahead ahead_of(const struct fft_view *view, int64_t at, int64_t n, int64_t parts) {
    static const int sizes[] = {[FFT_COMPLEX_F32] = 8, [FFT_COMPLEX_F64] = 16, 4, 8};
    enum { LONGEST = 1 << 16 };
    int64_t size = sizes[view->kind], bytes = n * size;
    const char *first = (const char *)view->data + at * size;
    return (struct ahead){first, first + (bytes <= LONGEST ? bytes : 0),
                          (bytes / parts + 64) & ~(int64_t)63};
}

INLINE void fetch_piece(struct ahead *a, bool to_write) {
    const char *end = a->end - a->at < a->step ? a->end : a->at + a->step;
    for (; a->at < end; a->at += 64)
        if (to_write)
            __builtin_prefetch(a->at, 1);
        else
            __builtin_prefetch(a->at, 0);
}

CLONES void fft_line(const struct fft_split *split, const struct fft_view *from, int64_t at,
                     const struct fft_view *to, int64_t to_at, int64_t next, struct fft_cell *grid,
                     struct fft_cell *x, struct fft_cell *work) {
    int64_t rows = split->down.n, columns = split->across.n, stride = fft_grid_stride(columns);
    struct ahead result = ahead_of(to, to_at, rows * columns, columns / FFT_LANES + 1);
    struct ahead operand = ahead_of(from, next, rows * columns, rows / FFT_LANES + 1);
    const cell *turns = split->turns;
    for (int64_t c = 0; c < columns; c += FFT_LANES, turns += rows) {
        int count = at_most(columns - c);
        fetch_piece(&result, true);
        for (int64_t r = 0; r < rows; r++)
            x[r] = load(from, at + r * columns + c, count);
        const cell *done = transform(&split->down, x, work);
        for (int64_t r = 0; r < rows; r++)
            grid[r * stride + c / FFT_LANES] = times(done[r], turns[r]);
    }
    for (int64_t r = 0; r < rows; r += FFT_LANES) {
        int count = at_most(rows - r);
        fetch_piece(&operand, false);
        for (int64_t c = 0; c < columns; c += FFT_LANES) {
            cell *tile = x + c;
            for (int i = 0; i < FFT_LANES; i++)
                tile[i] = grid[(r + i) * stride + c / FFT_LANES];
            transpose(tile);
        }
        const cell *done = transform(&split->across, x, work);
        for (int64_t c = 0; c < columns; c++)
            store(to, to_at + r + c * rows, count, done[c]);
    }
}
