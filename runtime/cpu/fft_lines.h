/* Many lines, complex and real ones, and columns; included after fft_core.h. */
#include "runtime/cpu/fft_job.h"

/* ---- complex lines ---- */

/* Lines in memory, `gap` reals from one to the next. */
struct lines {
    struct line first;
    int64_t from_gap, to_gap;
};

/* Up to LANES lines at a time, one in each lane; lanes without a line take the first one's. */
CLONES static void lines_together(const struct fft_plan *p, const struct lines *l, int64_t count,
                                  cell *cells) {
    int64_t n = p->n, blocks = fft_blocks(n, LANES);
    cell square[LANES];
    for (int64_t b = 0; b < blocks; b++) {
        int64_t k = n < LANES ? 0 : fft_block(b, n, LANES);
        for (int i = 0; i < LANES; i++)
            square[i] = load_part(l->first.from + (i < count ? i : 0) * l->from_gap, k, n);
        transpose(square);
        for (int i = 0; i < LANES; i++)
            if (fft_place(WIDE, i) < n)
                cells[k + fft_place(WIDE, i)] = swapped_if(l->first.from_swapped, square[i]);
    }
    struct source from = {.cells = cells, .step = 1};
    struct sink to = {.cells = cells, .step = 1};
    transform_cells(p, &from, &to);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t k = n < LANES ? 0 : fft_block(b, n, LANES);
        for (int i = 0; i < LANES; i++) {
            cell a = cells[fft_place(WIDE, i) < n ? k + fft_place(WIDE, i) : 0];
            square[i] = scaled(swapped_if(l->first.to_swapped, a), l->first.scale);
        }
        transpose(square);
        for (int i = 0; i < count; i++)
            store_part(l->first.to + i * l->to_gap, k, n, square[i]);
    }
}

static void transform_lines(const struct fft_plan *p, const struct lines *l, int64_t count,
                            cell *cells) {
    struct lines rest = *l;
    int64_t step = p->split ? 1 : LANES;
    for (; count > 0; count -= step) {
        if (p->split)
            transform_line(p, &rest.first);
        else
            lines_together(p, &rest, count < LANES ? count : LANES, cells);
        rest.first.from += step * l->from_gap;
        rest.first.to += step * l->to_gap;
    }
}

/* ---- real lines of even length ---- */

/* Numbers in turn are real and imaginary parts of a line z of half the length m. Its transform Z
 * gives the one of the real line: with a = Z[k], b = conj(Z[m - k]) and w = e^(-pi i k / m), the
 * element k is (a + b) / 2 - i w (a - b) / 2. */
INLINE cell conjugate(cell a) {
    return (cell){a.re, -a.im};
}

INLINE cell number_cell(const REAL *x, int64_t at) {
    return load_some(x + 2 * at, 1);
}

INLINE void join(cell a, cell b, cell w, cell *low, cell *high) {
    cell sum = scaled(add(a, b), (REAL)0.5), difference = scaled(sub(a, b), (REAL)0.5);
    cell odd = times(turned(difference), w);
    *low = add(sum, odd);
    *high = conjugate(sub(sum, odd));
}

/* The other way, times 2. */
INLINE void part(cell a, cell b, cell w, cell *low, cell *high) {
    cell sum = add(a, b), odd = times(sub(a, b), conjugate(w));
    *low = (cell){sum.re - odd.im, sum.im + odd.re};
    *high = (cell){sum.re + odd.im, odd.re - sum.im};
}

/* For each k in 1 .. m / 2, elements k and m - k of `to` from those of `from`, which is other
 * memory: the last vector may overlap the one before. */
INLINE void mirror(const REAL *from, REAL *to, const REAL *turns, int64_t m,
                   void combine(cell a, cell b, cell w, cell *low, cell *high)) {
    cell low, high;
    int64_t k = 1, half = m / 2;
    for (int64_t b = 0; half >= LANES && b < fft_blocks(half, LANES); b++) {
        k = 1 + fft_block(b, half, LANES);
        int64_t back = m - k - LANES + 1;
        cell a = load_numbers(from + 2 * k), b = backwards(load_numbers(from + 2 * back));
        combine(a, conjugate(b), load_numbers(turns + 2 * k), &low, &high);
        store_numbers(to + 2 * k, low);
        store_numbers(to + 2 * back, backwards(high));
    }
    for (; k <= half && half < LANES; k++) {
        cell a = number_cell(from, k), b = conjugate(number_cell(from, m - k));
        combine(a, b, number_cell(turns, k), &low, &high);
        store_some(to + 2 * k, 1, low);
        store_some(to + 2 * (m - k), 1, high);
    }
}

CLONES static void join_line(const REAL *z, REAL *to, const REAL *turns, int64_t m) {
    mirror(z, to, turns, m, join);
    to[0] = z[0] + z[1];
    to[2 * m] = z[0] - z[1];
    to[1] = to[2 * m + 1] = 0;
}

CLONES static void part_line(const REAL *from, REAL *z, const REAL *turns, int64_t m, bool packed) {
    REAL first = from[0], last = from[packed ? 1 : 2 * m];
    mirror(from, z, turns, m, part);
    z[0] = first + last;
    z[1] = first - last;
}

/* ---- pairs of real lines of odd length ---- */

/* z = a + i b; without a second line b = 0. */
CLONES static void pair_reals(const REAL *a, const REAL *b, REAL *z, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        z[2 * k] = a[k];
        z[2 * k + 1] = b ? b[k] : 0;
    }
}

CLONES static void unpair_reals(const REAL *z, REAL *a, REAL *b, int64_t n, REAL scale) {
    for (int64_t k = 0; k < n; k++) {
        a[k] = z[2 * k] * scale;
        if (b) b[k] = z[2 * k + 1] * scale;
    }
}

INLINE void unpair(cell x, cell y, cell *a, cell *b) {
    *a = scaled(add(x, y), (REAL)0.5);
    *b = scaled(turned(sub(x, y)), (REAL)0.5);
}

/* The transforms of a and of b, up to the half, from that of a + i b. */
CLONES static void unpair_halves(const REAL *z, REAL *a, REAL *b, int64_t n) {
    int64_t half = n / 2;
    cell of_a, of_b;
    for (int64_t i = 0; half >= LANES && i < fft_blocks(half, LANES); i++) {
        int64_t k = 1 + fft_block(i, half, LANES);
        cell mirrored = backwards(load_numbers(z + 2 * (n - k - LANES + 1)));
        unpair(load_numbers(z + 2 * k), conjugate(mirrored), &of_a, &of_b);
        store_numbers(a + 2 * k, of_a);
        if (b) store_numbers(b + 2 * k, of_b);
    }
    for (int64_t k = 1; k <= half && half < LANES; k++) {
        unpair(number_cell(z, k), conjugate(number_cell(z, n - k)), &of_a, &of_b);
        store_some(a + 2 * k, 1, of_a);
        if (b) store_some(b + 2 * k, 1, of_b);
    }
    a[0] = z[0];
    a[1] = 0;
    if (!b) return;
    b[0] = z[1];
    b[1] = 0;
}

/* The other way. Element k > 0 of a half line is at 2 k. */
CLONES static void pair_halves(REAL first_a, const REAL *a, REAL first_b, const REAL *b, REAL *z,
                               int64_t n) {
    z[0] = first_a;
    z[1] = first_b;
    for (int64_t k = 1; k <= n / 2; k++) {
        REAL c = b ? b[2 * k] : 0, d = b ? b[2 * k + 1] : 0;
        z[2 * k] = a[2 * k] - d;
        z[2 * k + 1] = a[2 * k + 1] + c;
        z[2 * (n - k)] = a[2 * k] + d;
        z[2 * (n - k) + 1] = c - a[2 * k + 1];
    }
}

/* ---- rows ---- */

/* Reals from one half line to the next. */
static int64_t half_gap(const struct fft_rows *r) {
    return r->packed ? r->n : 2 * (r->n / 2 + 1);
}

/* What is transformed: units [begin, begin + count). */
static void prepare(const struct fft_rows *r, const REAL *from, int64_t begin, int64_t count) {
    int64_t n = r->n, gap = half_gap(r), m = r->plan.n;
    REAL *z = r->lines_in;
    for (int64_t i = begin; i < begin + count; i++, z += 2 * m) {
        bool alone = 2 * i + 1 >= r->lines;
        if (r->kind == ROWS_HALVES) {
            part_line(from + i * gap, z, r->turns, m, r->packed);
        } else if (!r->inverse) {
            pair_reals(from + 2 * i * n, alone ? NULL : from + (2 * i + 1) * n, z, n);
        } else {
            const REAL *a = from + 2 * i * gap, *b = alone ? NULL : a + gap;
            int64_t before = r->packed ? 1 : 0;
            pair_halves(*a, a - before, b ? *b : 0, b ? b - before : NULL, z, n);
        }
    }
}

static void finish(const struct fft_rows *r, REAL *to, int64_t begin, int64_t count) {
    int64_t n = r->n, gap = half_gap(r), m = r->plan.n;
    const REAL *z = r->lines_out;
    for (int64_t i = begin; i < begin + count; i++, z += 2 * m) {
        bool alone = 2 * i + 1 >= r->lines;
        REAL *a = to + 2 * i * gap, *b = alone ? NULL : a + gap;
        if (r->kind == ROWS_HALVES)
            join_line(z, to + i * gap, r->turns, m);
        else if (!r->inverse)
            unpair_halves(z, a, b, n);
        else
            unpair_reals(z, to + 2 * i * n, alone ? NULL : to + (2 * i + 1) * n, n, 1 / (REAL)n);
    }
}

void NAME(fft_rows)(const struct fft_rows *r, const void *from, void *to, int64_t begin,
                    int64_t end) {
    int64_t m = r->plan.n, group = r->plan.split ? 1 : LANES;
    bool prepared = r->kind == ROWS_PAIRS || (r->kind == ROWS_HALVES && r->inverse);
    bool finished = r->kind == ROWS_PAIRS || (r->kind == ROWS_HALVES && !r->inverse);
    if (r->kind == ROWS_COMPLEX) group = end - begin;
    for (int64_t at = begin; at < end; at += group) {
        int64_t count = end - at < group ? end - at : group;
        REAL scale = r->inverse && !finished ? 1 / (REAL)r->n : 1;
        struct line first = {(const REAL *)from + 2 * m * at, (REAL *)to + 2 * m * at, r->inverse,
                             r->inverse, scale};
        if (prepared) {
            prepare(r, from, at, count);
            first.from = r->lines_in;
        }
        if (finished) first.to = r->lines_out;
        struct lines lines = {first, 2 * m, 2 * m};
        transform_lines(&r->plan, &lines, count, r->cells);
        if (finished) finish(r, to, at, count);
    }
}

/* ---- columns ---- */

/* The block of columns from c on as rows of `packed` reals. */
static void store_packed(const struct fft_columns *f, const cell *box, int64_t rows, REAL *to,
                         int64_t c, int count, REAL scale) {
    int64_t n = f->packed, before = n % 2;
    for (int64_t r = 0; r < rows; r++, to += n) {
        REAL x[2 * LANES];
        store_numbers(x, scaled(swapped_if(f->inverse, box[r]), scale));
        for (int i = 0; i < count; i++) {
            if (c + i == 0) {
                to[0] = x[0];
            } else if (2 * (c + i) == n) {
                to[1] = x[2 * i];
            } else {
                to[2 * (c + i) - before] = x[2 * i];
                to[2 * (c + i) - before + 1] = x[2 * i + 1];
            }
        }
    }
}

/* A block of columns of one element of the dims in front. */
static void transform_columns(const struct fft_columns *f, const REAL *from, REAL *to, int64_t c) {
    int64_t rows = f->plans[0].n, outer = f->axes > 1 ? f->plans[1].n : 1, n = f->packed;
    int count = (int)(f->inner - c < LANES ? f->inner - c : LANES);
    bool edge = n && (c == 0 || 2 * (c + count - 1) == n);
    struct source in = {.step = 2 * f->inner, .count = count, .swapped = f->inverse};
    struct sink out = {.numbers = to + 2 * c - n % 2,
                       .step = n ? n : 2 * f->inner,
                       .count = count,
                       .swapped = f->inverse,
                       .scale = f->inverse ? 1 / ((REAL)rows * (REAL)outer) : 1};
    struct sink kept = {.cells = f->box, .step = 1};
    for (int64_t i = 0; i < outer; i++, kept.cells += rows) {
        in.numbers = from + 2 * (i * rows * f->inner + c);
        transform_cells(&f->plans[0], &in, f->axes > 1 || edge ? &kept : &out);
    }
    for (int64_t k = 0; k < rows && f->axes > 1; k++) {
        cell *line = (cell *)f->box + k;
        struct source across = {.cells = line, .step = rows};
        struct sink back = {.cells = line, .step = rows}, there = out;
        there.numbers += k * out.step;
        there.step *= rows;
        transform_cells(&f->plans[1], &across, edge ? &back : &there);
    }
    if (edge) store_packed(f, f->box, rows * outer, to, c, count, out.scale);
}

void NAME(fft_columns)(const struct fft_columns *f, const void *from, void *to, int64_t begin,
                       int64_t end) {
    int64_t blocks = fft_blocks(f->inner, LANES), rows = f->plans[0].n;
    if (f->axes > 1) rows *= f->plans[1].n;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t batch = unit / blocks, c = unit % blocks * LANES;
        const REAL *in = (const REAL *)from + batch * rows * f->inner * 2;
        REAL *out = (REAL *)to + batch * rows * (f->packed ? f->packed : 2 * f->inner);
        transform_columns(f, in, out, c);
    }
}

void NAME(fft_finish)(const struct fft_plan *plan) {
    if (plan->m) fill_filter(plan);
}
