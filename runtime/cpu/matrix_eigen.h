/* Reductions to two diagonals, Hermitian eigenproblems and singular values, for the number type of
 * matrix_number.h. What remains, real, is spectrum.h's. */
#ifndef RUNTIME_CPU_MATRIX_EIGEN_H
#define RUNTIME_CPU_MATRIX_EIGEN_H

#include "runtime/cpu/matrix_reflections.h"
#include "runtime/cpu/spectrum.h"

/* The reductions go over four rows at a time, in whole vectors: rows and columns of matrices are
 * padded with zeros to SQUARE, and vectors are zero where the matrix is done with. */
enum { GROUP = 4, SQUARE = NUMBERS > GROUP ? NUMBERS : GROUP };

/* ---- Hermitian eigenproblem ---- */

/* h -= x y^H + y x^H, and h v. */
struct update {
    NUM *x, *y, *v, *cx, *cy, *cv; /* c: conjugates */
    NUM *p;                        /* sums of conj(h) conj(v) that rows give to rows above */
};

/* In GROUP rows from `row` on, columns `from` to `to`; `across`: what is there counts for the rows
 * above too. */
INLINE void update_group(const struct update *u, NUM *row, int64_t stride, int64_t at, int64_t from,
                         int64_t to, struct sum *sums, bool across) {
    struct factor x[GROUP], y[GROUP], v[GROUP];
    for (int r = 0; r < GROUP; r++) {
        x[r] = factor_of(u->x[at + r]);
        y[r] = factor_of(u->y[at + r]);
        v[r] = factor_of(u->cv[at + r]);
    }
    for (int64_t j = from; j < to; j += NUMBERS) {
        lanes cx = get(u->cx + j), cy = get(u->cy + j), cv = get(u->cv + j), p = get(u->p + j);
        for (int r = 0; r < GROUP; r++) {
            NUM *place = row + r * stride + j;
            lanes h = get(place) - scaled(cy, x[r]) - scaled(cx, y[r]);
            put(place, h);
            sum_add(&sums[r], h, cv);
            if (across) p += scaled(h, v[r]);
        }
        if (across) put(u->p + j, p);
    }
}

/* out = h v after the update, for the rows and columns from `from` to n, multiples of SQUARE. Of h
 * the lower triangle and the squares on the diagonal count. */
CLONES static void update_and_multiply(const struct update *u, NUM *h, int64_t stride, int64_t from,
                                       int64_t n, NUM *out) {
    memset((void *)(u->p + from), 0, (size_t)(n - from) * sizeof *u->p);
    for (int64_t i = from; i < n; i += GROUP) {
        struct sum sums[GROUP] = {0};
        int64_t diagonal = i / SQUARE * SQUARE;
        update_group(u, h + i * stride, stride, i, from, diagonal, sums, true);
        update_group(u, h + i * stride, stride, i, diagonal, diagonal + SQUARE, sums, false);
        for (int r = 0; r < GROUP; r++)
            out[i + r] = sum_up(&sums[r], true);
    }
    for (int64_t i = from; i < n; i++)
        out[i] += CONJ(u->p[i]);
}

/* y = p - (tau p^H v / 2) v for p = tau out, from k + 1 on; x = v. */
CLONES static void next_update(const struct update *u, const NUM *out, int64_t k, int64_t n,
                               NUM tau) {
    NUM half = 0;
    for (int64_t i = k + 1; i < n; i++)
        u->y[i] = MUL(tau, out[i]);
    half = MUL(product(u->v + k + 1, u->y + k + 1, n - k - 1), tau) / 2;
    subtract(u->y + k + 1, u->v + k + 1, half, n - k - 1);
    for (int64_t i = k + 1; i < n; i++) {
        u->x[i] = u->v[i];
        u->cx[i] = u->cv[i];
        u->cy[i] = CONJ(u->y[i]);
    }
}

/* Reduces the Hermitian matrix, of which the lower triangle counts and rows are `stride` apart, to
 * tridiagonal form: d the diagonal, e the real numbers below it; vectors of the reflections stay
 * below that, tau beside. The update that follows from one reflection is made on the way through
 * the matrix that the next one needs anyway. room: 8 stride. */
CLONES static void tridiagonalise(NUM *a, int64_t n, int64_t stride, double *d, double *e, NUM *tau,
                                  NUM *room) {
    struct update u;
    NUM **parts[] = {&u.x, &u.y, &u.v, &u.cx, &u.cy, &u.cv, &u.p};
    NUM *out = room + 7 * stride;
    memset((void *)room, 0, (size_t)(8 * stride) * sizeof *room);
    for (int i = 0; i < 7; i++)
        *parts[i] = room + i * stride;
    for (int64_t i = 0; i < stride; i++)
        for (int64_t j = i + 1; j < i / SQUARE * SQUARE + SQUARE; j++)
            a[i * stride + j] = CONJ(a[j * stride + i]);
    for (int64_t k = 0; k < n; k++) {
        NUM cx = u.cx[k], cy = u.cy[k], *v = u.v + k + 1;
        u.v[k] = u.cv[k] = 0;
        d[k] = (double)(RE(a[k * stride + k]) - RE(MUL(u.x[k], cy)) - RE(MUL(u.y[k], cx)));
        u.x[k] = u.y[k] = u.cx[k] = u.cy[k] = 0;
        if (k + 1 == n) break;
        for (int64_t i = k + 1; i < n; i++)
            u.v[i] = a[i * stride + k] - MUL(u.x[i], cy) - MUL(u.y[i], cx);
        tau[k] = reflection(v, n - k - 1, 1);
        e[k] = (double)RE(v[0]);
        v[0] = 1;
        for (int64_t i = k + 1; i < n; i++) {
            a[i * stride + k] = u.v[i];
            u.cv[i] = CONJ(u.v[i]);
        }
        update_and_multiply(&u, a, stride, (k + 1) / SQUARE * SQUARE, stride, out);
        next_update(&u, out, k, n, tau[k]);
    }
}

/* ---- singular values ---- */

/* A step of the reduction to two diagonals, for the rows below: what both reflections take from
 * them, and what the next one from the left needs. */
struct step {
    NUM *left, *right; /* rows of the matrix to subtract, times factors of their own */
    NUM *raw;          /* conj(x)^T a for x the next column */
    NUM tau, crossed;  /* of the right one; left times conj(right) */
};

INLINE void step_group(const struct step *s, NUM *row, int64_t stride, int64_t k, int64_t from,
                       int64_t width, int rows) {
    struct sum sums[GROUP] = {0};
    struct factor below[GROUP], across[GROUP], next[GROUP];
    for (int64_t j = from; j < width; j += NUMBERS) {
        lanes right = get(s->right + j);
        for (int r = 0; r < rows; r++)
            sum_add(&sums[r], get(row + r * stride + j), right);
    }
    for (int r = 0; r < rows; r++) {
        const NUM *at = row + r * stride + k;
        NUM factor = MUL(s->tau, sum_up(&sums[r], true) - MUL(at[0], s->crossed));
        NUM x = at[1] - MUL(at[0], s->left[k + 1]) - MUL(factor, s->right[k + 1]);
        below[r] = factor_of(at[0]);
        across[r] = factor_of(factor);
        next[r] = factor_of(CONJ(x));
    }
    for (int64_t j = from; j < width; j += NUMBERS) {
        lanes left = get(s->left + j), right = get(s->right + j), raw = get(s->raw + j);
        for (int r = 0; r < rows; r++) {
            NUM *place = row + r * stride + j;
            lanes x = get(place) - scaled(left, below[r]) - scaled(right, across[r]);
            put(place, x);
            raw += scaled(x, next[r]);
        }
        put(s->raw + j, raw);
    }
}

CLONES static void step_rows(const struct step *s, NUM *a, int64_t stride, int64_t rows,
                             int64_t k) {
    int64_t from = (k + 1) / NUMBERS * NUMBERS, i = k + 1;
    memset((void *)s->raw, 0, (size_t)stride * sizeof *s->raw);
    for (; i + GROUP <= rows; i += GROUP)
        step_group(s, a + i * stride, stride, k, from, stride, GROUP);
    for (; i < rows; i++)
        step_group(s, a + i * stride, stride, k, from, stride, 1);
}

/* sums = conj(tau) v^H a for v the reflection that makes (beta, 0, ...) of column k, which was x
 * with x^H a = raw: v = (x - beta e) / head. */
CLONES static void left_sums(const struct step *s, const NUM *row, int64_t k, int64_t n, NUM beta,
                             NUM head, NUM tau) {
    NUM factor = tau == 0 ? 0 : MUL(CONJ(tau), 1 / CONJ(head));
    for (int64_t j = k + 1; j < n; j++)
        s->left[j] = MUL(factor, s->raw[j] - MUL(beta, row[j]));
}

/* Reduces the matrix, rows x n, n at most rows, its rows `stride` apart and padded with zeros, to
 * an upper bidiagonal one, d with e above: vectors of the reflections from the left stay in the
 * columns, those from the right in the rows, tau and tau_right beside. room: 3 stride + rows. */
CLONES static void bidiagonalise(NUM *a, int64_t rows, int64_t n, int64_t stride, double *d,
                                 double *e, NUM *tau, NUM *tau_right, NUM *room) {
    struct step s = {room, room + stride, room + 2 * stride, 0, 0};
    NUM *x = room + 3 * stride;
    memset((void *)room, 0, (size_t)(3 * stride) * sizeof *room);
    for (int64_t i = 0; i < rows; i++)
        subtract(s.raw, a + i * stride, -CONJ(a[i * stride]), stride);
    for (int64_t k = 0; k < n; k++) {
        int64_t m = n - k - 1; /* numbers right of the diagonal */
        NUM *row = a + k * stride;
        for (int64_t i = k; i < rows; i++)
            x[i] = a[i * stride + k];
        NUM alpha = x[k];
        tau[k] = reflection(x + k, rows - k, 1);
        for (int64_t i = k; i < rows; i++)
            a[i * stride + k] = x[i];
        d[k] = (double)RE(x[k]);
        tau_right[k] = 0;
        if (m == 0) break;
        s.left[k] = s.right[k] = 0;
        left_sums(&s, row, k, n, x[k], alpha - x[k], tau[k]);
        for (int64_t j = k + 1; j < n; j++)
            row[j] = CONJ(row[j] - s.left[j]);
        tau_right[k] = s.tau = reflection(row + k + 1, m, 1);
        e[k] = (double)RE(row[k + 1]);
        for (int64_t j = k + 1; j < n; j++)
            s.right[j] = j > k + 1 ? CONJ(row[j]) : 1;
        s.crossed = product(s.left + k + 1, s.right + k + 1, m);
        step_rows(&s, a, stride, rows, k);
    }
}

#endif
