/* Triangular systems, for the number type of matrix_number.h. */
#ifndef RUNTIME_CPU_MATRIX_SOLVE_H
#define RUNTIME_CPU_MATRIX_SOLVE_H

#include "runtime/cpu/matrix_product.h"

/* A triangle of n rows whose element (i, j) is at a[i * row + j * column], conjugated or not. */
struct triangle {
    const NUM *a;
    int64_t row, column;
    bool lower, unit, conjugate;
};

static inline struct triangle rows_of(const NUM *a, int64_t stride, bool lower, bool unit) {
    return (struct triangle){a, stride, 1, lower, unit, false};
}

/* The triangle from row and column k on. */
static inline struct triangle from_row(struct triangle t, int64_t k) {
    t.a += k * (t.row + t.column);
    return t;
}

static inline NUM element(const struct triangle *t, int64_t i, int64_t j) {
    NUM x = t->a[i * t->row + j * t->column];
    return t->conjugate ? CONJ(x) : x;
}

enum { TRIANGLE = 16, SOLVE_ROWS = 4, SOLVE_VECTORS = 2 };

/* A triangle of up to TRIANGLE rows in the order in which it is solved: lower. */
struct small_triangle {
    int64_t n;
    bool backwards, divide;     /* divide: where inverses leave the range of numbers */
    NUM l[TRIANGLE * TRIANGLE]; /* below the diagonal */
    NUM on[TRIANGLE], inverse[TRIANGLE];
};

INLINE void take_triangle(struct small_triangle *s, const struct triangle *t, int64_t n) {
    s->n = n;
    s->backwards = !t->lower;
    s->divide = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = t->lower ? i : n - 1 - i;
        for (int64_t j = 0; j < i; j++)
            s->l[i * TRIANGLE + j] = element(t, row, t->lower ? j : n - 1 - j);
        s->on[i] = t->unit ? 1 : element(t, row, row);
        s->inverse[i] = 1 / s->on[i];
        double size = (double)ABS1(s->on[i]);
        if (size > REAL_LARGE || (size < REAL_SMALL && size > 0)) s->divide = true;
    }
}

/* Rows i .. i + rows - 1 of the solution, in `vectors` vectors, from those before. b: the first row
 * that is solved; the next is `step` on. */
INLINE void solve_rows(const struct small_triangle *s, NUM *b, int64_t step, int64_t i, int rows,
                       int vectors) {
    lanes x[SOLVE_ROWS][SOLVE_VECTORS];
    NUM *to = b + i * step;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            x[r][v] = get(to + r * step + v * NUMBERS);
    for (int64_t j = 0; j < i; j++)
        for (int r = 0; r < rows; r++) {
            struct factor f = factor_of(s->l[(i + r) * TRIANGLE + j]);
            for (int v = 0; v < vectors; v++)
                x[r][v] -= scaled(get(b + j * step + v * NUMBERS), f);
        }
    for (int r = 0; r < rows; r++) {
        for (int q = 0; q < r; q++) {
            struct factor f = factor_of(s->l[(i + r) * TRIANGLE + i + q]);
            for (int v = 0; v < vectors; v++)
                x[r][v] -= scaled(x[q][v], f);
        }
        struct factor f = factor_of(s->inverse[i + r]);
        for (int v = 0; v < vectors; v++) {
            x[r][v] = scaled(x[r][v], f);
            put(to + r * step + v * NUMBERS, x[r][v]);
        }
    }
}

INLINE void solve_vectors(const struct small_triangle *s, NUM *b, int64_t step, int vectors) {
    int64_t i = 0;
    for (; i + SOLVE_ROWS <= s->n; i += SOLVE_ROWS)
        solve_rows(s, b, step, i, SOLVE_ROWS, vectors);
    for (; i < s->n; i++)
        solve_rows(s, b, step, i, 1, vectors);
}

/* One column after the other, with divisions. */
static void solve_by_division(const struct small_triangle *s, NUM *b, int64_t step,
                              int64_t columns) {
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t c = 0; c < columns; c++) {
            NUM x = b[i * step + c];
            for (int64_t j = 0; j < i; j++)
                x -= MUL(s->l[i * TRIANGLE + j], b[j * step + c]);
            b[i * step + c] = x / s->on[i];
        }
}

CLONES static void small_solve(const struct triangle *t, NUM *b, int64_t stride, int64_t n,
                               int64_t columns) {
    struct small_triangle s;
    NUM part[TRIANGLE * NUMBERS];
    take_triangle(&s, t, n);
    int64_t step = s.backwards ? -stride : stride, c = 0;
    if (s.backwards) b += (n - 1) * stride;
    if (s.divide) {
        solve_by_division(&s, b, step, columns);
        return;
    }
    for (; c + SOLVE_VECTORS * NUMBERS <= columns; c += SOLVE_VECTORS * NUMBERS)
        solve_vectors(&s, b + c, step, SOLVE_VECTORS);
    for (; c + NUMBERS <= columns; c += NUMBERS)
        solve_vectors(&s, b + c, step, 1);
    if (c == columns) return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < NUMBERS; k++)
            part[i * NUMBERS + k] = c + k < columns ? b[i * step + c + k] : 0;
    solve_vectors(&s, part, NUMBERS, 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; c + k < columns; k++)
            b[i * step + c + k] = part[i * NUMBERS + k];
}

/* Solves t x = b in place for `columns` right sides, b n x columns. */
static void solve(struct triangle t, NUM *b, int64_t stride, int64_t n, int64_t columns) {
    int64_t half = round_up(n / 2, SOLVE_ROWS), rest = n - half;
    if (n <= TRIANGLE) {
        small_solve(&t, b, stride, n, columns);
        return;
    }
    struct triangle lower = from_row(t, half);
    const NUM *between = t.a + half * (t.lower ? t.row : t.column);
    struct product p = {
        t.lower ? rest : half, columns, t.lower ? half : rest, t.row, t.column, stride, 1, stride,
        t.conjugate,           false};
    if (t.lower) {
        solve(t, b, stride, half, columns);
        subtract_product(b + half * stride, between, b, &p);
        solve(lower, b + half * stride, stride, rest, columns);
    } else {
        solve(lower, b + half * stride, stride, rest, columns);
        subtract_product(b, between, b + half * stride, &p);
        solve(t, b, stride, half, columns);
    }
}

/* One right side, b of n neighbours: along rows or columns of the matrix, whichever are memory's.
 */
CLONES static void solve_vector(const struct triangle *t, NUM *b, int64_t n) {
    for (int64_t s = 0; s < n; s++) {
        int64_t i = t->lower ? s : n - 1 - s, before = t->lower ? 0 : i + 1;
        int64_t count = s, after = t->lower ? i + 1 : 0;
        if (t->column == 1 && count) {
            const NUM *row = t->a + i * t->row + before;
            NUM sum = t->conjugate ? product(b + before, row, count)
                                   : plain_product(b + before, row, count);
            b[i] -= sum;
        }
        if (!t->unit) b[i] /= element(t, i, i);
        if (t->column == 1) continue;
        const NUM *column = t->a + i * t->column + after;
        for (int64_t j = 0; j < n - 1 - s && t->conjugate; j++)
            b[after + j] -= MUL(b[i], CONJ(column[j]));
        if (!t->conjugate) subtract(b + after, column, b[i], n - 1 - s);
    }
}

#endif
