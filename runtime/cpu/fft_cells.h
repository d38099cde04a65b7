/* Vectors of Fourier transforms, and transforms of cells: one element of LANES lines, or LANES
 * columns of a line. Included once for each type of number, by fft_f32.c and fft_f64.c, which say
 * what REAL, LANES and WIDE are. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/fft_plan.h"

/* Vectors never leave a file but through memory: how they would be passed does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

typedef REAL reals __attribute__((vector_size(sizeof(REAL) * LANES)));
/* The same in memory that has the elements' alignment only. */
typedef REAL loose_reals
    __attribute__((vector_size(sizeof(REAL) * LANES), aligned(sizeof(REAL)), may_alias));

typedef struct {
    reals re, im;
} cell;

typedef struct {
    REAL re, im;
} root;

_Static_assert(LANES == (WIDE ? FFT_LANES_F64 : FFT_LANES_F32), "plans are for these");

INLINE cell add(cell a, cell b) {
    return (cell){a.re + b.re, a.im + b.im};
}

INLINE cell sub(cell a, cell b) {
    return (cell){a.re - b.re, a.im - b.im};
}

INLINE cell scaled(cell a, REAL k) {
    return (cell){a.re * k, a.im * k};
}

/* -i a */
INLINE cell turned(cell a) {
    return (cell){a.im, -a.re};
}

INLINE cell swapped_if(bool swap, cell a) {
    return swap ? (cell){a.im, a.re} : a;
}

INLINE cell times_root(cell a, root w) {
    return (cell){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
}

INLINE cell times(cell a, cell b) {
    return (cell){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* ---- memory ---- */

INLINE reals load_reals(const REAL *x) {
    return *(const loose_reals *)x;
}

INLINE void store_reals(REAL *to, reals x) {
    *(loose_reals *)to = x;
}

/* Shuffles within 128 bits: a cell's lanes are out of order (fft_place). */
#if LANES == 8
typedef int32_t picks __attribute__((vector_size(32)));
#define EVEN_PARTS (picks){0, 2, 8, 10, 4, 6, 12, 14}
#define ODD_PARTS (picks){1, 3, 9, 11, 5, 7, 13, 15}
#define LOW_PAIRS (picks){0, 8, 1, 9, 4, 12, 5, 13}
#define HIGH_PAIRS (picks){2, 10, 3, 11, 6, 14, 7, 15}
#define BACKWARDS (picks){7, 6, 5, 4, 3, 2, 1, 0}
#else
typedef int64_t picks __attribute__((vector_size(32)));
#define EVEN_PARTS (picks){0, 4, 2, 6}
#define ODD_PARTS (picks){1, 5, 3, 7}
#define LOW_PAIRS (picks){0, 4, 2, 6}
#define HIGH_PAIRS (picks){1, 5, 3, 7}
#define BACKWARDS (picks){3, 2, 1, 0}
#endif

/* LANES complex numbers. */
INLINE cell load_numbers(const REAL *x) {
    reals a = load_reals(x), b = load_reals(x + LANES);
    return (cell){__builtin_shuffle(a, b, EVEN_PARTS), __builtin_shuffle(a, b, ODD_PARTS)};
}

INLINE void store_numbers(REAL *to, cell a) {
    store_reals(to, __builtin_shuffle(a.re, a.im, LOW_PAIRS));
    store_reals(to + LANES, __builtin_shuffle(a.re, a.im, HIGH_PAIRS));
}

/* Fewer than LANES of them. */
INLINE cell load_some(const REAL *x, int64_t count) {
    REAL all[2 * LANES] = {0};
    memcpy(all, x, (size_t)count * 2 * sizeof(REAL));
    return load_numbers(all);
}

INLINE void store_some(REAL *to, int64_t count, cell a) {
    REAL all[2 * LANES];
    store_numbers(all, a);
    memcpy(to, all, (size_t)count * 2 * sizeof(REAL));
}

/* Numbers in the opposite order. */
INLINE cell backwards(cell a) {
    return (cell){__builtin_shuffle(a.re, BACKWARDS), __builtin_shuffle(a.im, BACKWARDS)};
}

/* Vectors as the rows of a square that changes places with its columns. */
#if LANES == 8
INLINE void transpose_reals(reals *x) {
    reals a[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = __builtin_shuffle(x[i], x[i + 1], LOW_PAIRS);
        a[i + 1] = __builtin_shuffle(x[i], x[i + 1], HIGH_PAIRS);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            reals low = a[i + j], high = a[i + j + 2];
            x[i + 2 * j] = __builtin_shuffle(low, high, (picks){0, 1, 8, 9, 4, 5, 12, 13});
            x[i + 2 * j + 1] = __builtin_shuffle(low, high, (picks){2, 3, 10, 11, 6, 7, 14, 15});
        }
    for (int i = 0; i < 4; i++) {
        reals low = x[i], high = x[i + 4];
        x[i] = __builtin_shuffle(low, high, (picks){0, 1, 2, 3, 8, 9, 10, 11});
        x[i + 4] = __builtin_shuffle(low, high, (picks){4, 5, 6, 7, 12, 13, 14, 15});
    }
}
#else
INLINE void transpose_reals(reals *x) {
    reals a = __builtin_shuffle(x[0], x[1], LOW_PAIRS);
    reals b = __builtin_shuffle(x[0], x[1], HIGH_PAIRS);
    reals c = __builtin_shuffle(x[2], x[3], LOW_PAIRS);
    reals d = __builtin_shuffle(x[2], x[3], HIGH_PAIRS);
    x[0] = __builtin_shuffle(a, c, (picks){0, 1, 4, 5});
    x[1] = __builtin_shuffle(b, d, (picks){0, 1, 4, 5});
    x[2] = __builtin_shuffle(a, c, (picks){2, 3, 6, 7});
    x[3] = __builtin_shuffle(b, d, (picks){2, 3, 6, 7});
}
#endif

/* LANES cells: what was element i of line j becomes element j of line i. */
INLINE void transpose(cell *x) {
    reals re[LANES], im[LANES];
    for (int i = 0; i < LANES; i++)
        re[i] = x[i].re;
    transpose_reals(re);
    for (int i = 0; i < LANES; i++)
        im[i] = x[i].im;
    transpose_reals(im);
    for (int i = 0; i < LANES; i++)
        x[i] = (cell){re[i], im[i]};
}

/* ---- transforms of the length of a factor, in place ---- */

INLINE void small2(cell *a) {
    cell x = a[0];
    a[0] = add(x, a[1]);
    a[1] = sub(x, a[1]);
}

INLINE void small3(cell *a) {
    const REAL half_root3 = (REAL)0.86602540378443864676;
    cell sum = add(a[1], a[2]), side = scaled(turned(sub(a[1], a[2])), half_root3);
    cell middle = sub(a[0], scaled(sum, (REAL)0.5));
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
    const REAL c1 = (REAL)0.30901699437494742410, s1 = (REAL)0.95105651629515357212;
    const REAL c2 = (REAL)-0.80901699437494742410, s2 = (REAL)0.58778525229247312917;
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
    const REAL half_root2 = (REAL)0.70710678118654752440;
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

/* Elements j and p - j of the operand go into elements k and p - k with the same cosine and with
 * opposite sines. unit[j] = e^(-2 pi i j / p). */
INLINE void small_odd(cell *a, int p, const root *unit) {
    cell even[FFT_LARGEST_FACTOR / 2 + 1], odd[FFT_LARGEST_FACTOR / 2 + 1], first = a[0];
    int half = p / 2;
    for (int j = 1; j <= half; j++) {
        even[j] = add(a[j], a[p - j]);
        odd[j] = sub(a[j], a[p - j]);
        a[0] = add(a[0], even[j]);
    }
    for (int k = 1; k <= half; k++) {
        cell x = first, y = {{0}, {0}};
        for (int j = 1, at = k; j <= half; j++) {
            x = add(x, scaled(even[j], unit[at].re));
            y = add(y, scaled(odd[j], unit[at].im));
            at += k;
            at -= at >= p ? p : 0;
        }
        y = turned(y);
        a[k] = sub(x, y);
        a[p - k] = add(x, y);
    }
}

INLINE void small(cell *a, int factor, const root *unit) {
    switch (factor) {
    case 2: small2(a); break;
    case 3: small3(a); break;
    case 4: small4(a); break;
    case 5: small5(a); break;
    case 8: small8(a); break;
    default: small_odd(a, factor, unit); break;
    }
}

/* ---- passes ---- */

/* One of Stockham's passes: n = factor * m * s, where s transforms of length factor * m stand
 * interleaved. From q + s (k + m r) to q + s (r + factor k), r < factor, k < m, q < s. The first
 * one has s = 1, the last one m = 1 and no turns. */
struct pass {
    int64_t m, s;
    const root *turns, *units;
    const cell *in;
    cell *out;
    const REAL *numbers_in;
    REAL *numbers_out;
    int64_t step; /* of numbers, in reals, and of the cells of LAST_TURNED */
    const cell *by;
    bool swapped;
    REAL scale;
};

enum mode { FIRST_NUMBERS, FIRST_CELLS, MIDDLE, LAST_CELLS, LAST_TURNED, LAST_NUMBERS };

INLINE void run_first(const struct pass *p, int factor, enum mode mode) {
    int64_t m = p->m, step = p->step;
    const root *w = p->turns, *units = p->units;
    const REAL *numbers = p->numbers_in;
    const cell *in = p->in;
    cell *out = p->out;
    bool swap = p->swapped;
    for (int64_t k = 0; k < m; k++, w += factor - 1, numbers += step, in++, out += factor) {
        cell a[FFT_LARGEST_FACTOR];
        for (int r = 0; r < factor; r++)
            a[r] = mode == FIRST_CELLS ? in[r * m]
                                       : swapped_if(swap, load_numbers(numbers + r * m * step));
        small(a, factor, units);
        out[0] = a[0];
        for (int r = 1; r < factor; r++)
            out[r] = times_root(a[r], w[r - 1]);
    }
}

INLINE void run_middle(const struct pass *p, int factor) {
    int64_t s = p->s, far = p->m * s;
    const root *w = p->turns, *units = p->units;
    const cell *in = p->in;
    cell *out = p->out;
    for (int64_t k = 0; k < p->m; k++, w += factor - 1, in += s, out += factor * s)
        for (int64_t q = 0; q < s; q++) {
            cell a[FFT_LARGEST_FACTOR];
            for (int r = 0; r < factor; r++)
                a[r] = in[q + r * far];
            small(a, factor, units);
            out[q] = a[0];
            for (int r = 1; r < factor; r++)
                out[q + r * s] = times_root(a[r], w[r - 1]);
        }
}

INLINE void run_last(const struct pass *p, int factor, enum mode mode) {
    int64_t s = p->s, step = mode == LAST_CELLS ? 1 : p->step;
    const root *units = p->units;
    const cell *in = p->in, *by = p->by;
    cell *out = p->out;
    REAL *numbers = p->numbers_out, scale = p->scale;
    bool swap = p->swapped;
    for (int64_t q = 0; q < s; q++, in++, by++, out += step, numbers += step) {
        cell a[FFT_LARGEST_FACTOR];
        for (int r = 0; r < factor; r++)
            a[r] = in[r * s];
        small(a, factor, units);
        for (int r = 0; r < factor; r++)
            if (mode == LAST_NUMBERS)
                store_numbers(numbers + r * s * step, scaled(swapped_if(swap, a[r]), scale));
            else
                out[r * s * step] = mode == LAST_TURNED ? times(a[r], by[r * s]) : a[r];
    }
}

INLINE void run_mode(const struct pass *p, int factor, enum mode mode) {
    switch (mode) {
    case FIRST_NUMBERS:
    case FIRST_CELLS: run_first(p, factor, mode); break;
    case MIDDLE: run_middle(p, factor); break;
    default: run_last(p, factor, mode); break;
    }
}

/* Code of its own for each kind of pass and factor; with sanitizers, which take minutes over that,
 * for each kind. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_CODE(factor, mode)
#else
#define OWN_CODE(factor, mode)                                                                     \
    case factor: run_mode(p, factor, mode); break;
#endif
#define PASSES(name, mode)                                                                         \
    CLONES static void name(const struct pass *p, int factor) {                                    \
        switch (factor) {                                                                          \
            OWN_CODE(2, mode)                                                                      \
            OWN_CODE(3, mode)                                                                      \
            OWN_CODE(4, mode)                                                                      \
            OWN_CODE(5, mode)                                                                      \
            OWN_CODE(7, mode)                                                                      \
            OWN_CODE(8, mode)                                                                      \
        default: run_mode(p, factor, mode); break;                                                 \
        }                                                                                          \
    }

PASSES(first_numbers, FIRST_NUMBERS)
PASSES(first_cells, FIRST_CELLS)
PASSES(middle, MIDDLE)
PASSES(last_cells, LAST_CELLS)
PASSES(last_turned, LAST_TURNED)
PASSES(last_numbers, LAST_NUMBERS)

/* ---- where lines come from and go to ---- */

/* Where the elements of lines come from: cells `step` apart; or, side by side in each place,
 * complex numbers, `count` of them, and from place to place `step` reals. */
struct source {
    const cell *cells;
    const REAL *numbers;
    int64_t step;
    int count;    /* of the numbers */
    bool swapped; /* real and imaginary parts change places: what makes a transform inverse */
};

/* Where results go; cells are multiplied by `turns` before, numbers by `scale`. */
struct sink {
    cell *cells;
    const cell *turns; /* one a place; or NULL */
    REAL *numbers;
    int64_t step;
    int count;
    bool swapped;
    REAL scale;
};

INLINE cell take(const struct source *from, int64_t at) {
    if (from->cells) return from->cells[at * from->step];
    const REAL *x = from->numbers + at * from->step;
    cell a = from->count == LANES ? load_numbers(x) : load_some(x, from->count);
    return swapped_if(from->swapped, a);
}

INLINE void put(const struct sink *to, int64_t at, cell a) {
    if (to->cells) {
        to->cells[at * to->step] = to->turns ? times(a, to->turns[at]) : a;
        return;
    }
    a = scaled(swapped_if(to->swapped, a), to->scale);
    if (to->count == LANES)
        store_numbers(to->numbers + at * to->step, a);
    else
        store_some(to->numbers + at * to->step, to->count, a);
}

CLONES static void take_all(const struct source *from, cell *x, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        x[k] = take(from, k);
}

CLONES static void put_all(const struct sink *to, const cell *x, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        put(to, k, x[k]);
}

/* The last pass, to a sink that has code of its own; false for others. */
static bool finish_pass(struct pass *p, int factor, const struct sink *to) {
    p->by = to->turns;
    p->step = to->step;
    p->out = to->cells;
    p->numbers_out = to->numbers;
    p->swapped = to->swapped;
    p->scale = to->scale;
    if (to->cells && to->turns)
        last_turned(p, factor);
    else if (to->cells && to->step == 1)
        last_cells(p, factor);
    else if (to->numbers && to->count == LANES)
        last_numbers(p, factor);
    else
        return false;
    return true;
}

/* The transform of a length with small factors, by way of three places of that many cells. The
 * source's cells may be `more`; a sink's may be the source's, but neither x nor work. */
static void transform(const struct fft_length *length, const struct source *from,
                      const struct sink *to, cell *x, cell *work, cell *more) {
    struct pass p = {.s = 1, .m = length->n, .step = from->step, .swapped = from->swapped};
    bool numbers = !from->cells && from->count == LANES && length->count > 1;
    p.numbers_in = from->numbers;
    p.in = from->cells;
    if (!numbers && !(from->cells && from->step == 1)) {
        take_all(from, more, length->n);
        p.in = more;
    }
    if (length->count == 0) {
        put_all(to, p.in, 1);
        return;
    }
    for (int i = 0; i + 1 < length->count; i++) {
        int factor = length->factors[i];
        p.m /= factor;
        p.turns = length->turns[i];
        p.units = length->units[i];
        p.out = x;
        (i ? middle : numbers ? first_numbers : first_cells)(&p, factor);
        p.s *= factor;
        p.in = x;
        x = work;
        work = (cell *)p.in;
    }
    int last = length->count - 1;
    p.m = 1;
    p.units = length->units[last];
    if (finish_pass(&p, length->factors[last], to)) return;
    struct sink between = {.cells = x, .step = 1};
    finish_pass(&p, length->factors[last], &between);
    put_all(to, x, length->n);
}
