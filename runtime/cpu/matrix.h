/* Cholesky, triangular systems, LU and tridiagonal systems of one row-major matrix, for the number
 * type of matrix_number.h. Inner loops run along rows, so that they touch memory in order. */
#ifndef RUNTIME_CPU_MATRIX_H
#define RUNTIME_CPU_MATRIX_H

#include "runtime/cpu/matrix_product.h"

enum { CHOLESKY_BLOCK = 48 };

static void transpose(NUM *out, const NUM *in, int64_t rows, int64_t columns, bool conjugate) {
    enum { SQUARE = 16 };
    for (int64_t c = 0; c < columns; c += SQUARE)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = c; j < columns && j < c + SQUARE; j++)
                out[j * rows + i] = conjugate ? CONJ(in[i * columns + j]) : in[i * columns + j];
}

/* ---- Cholesky ---- */

/* The lower factor of a square of n <= CHOLESKY_BLOCK, rows `stride` apart, in place; what is above
 * the diagonal stays. False where the matrix is not positive definite. */
CLONES static bool small_cholesky(NUM *a, int64_t n, int64_t stride) {
    REAL inverse[CHOLESKY_BLOCK];
    for (int64_t i = 0; i < n; i++) {
        NUM *row = a + i * stride;
        for (int64_t j = 0; j < i; j++)
            row[j] = (row[j] - product(row, a + j * stride, j)) * inverse[j];
        double diagonal = (double)(RE(row[i]) - RE(product(row, row, i)));
        if (!(diagonal > 0)) return false;
        row[i] = (NUM)sqrt(diagonal);
        inverse[i] = 1 / RE(row[i]);
    }
    return true;
}

/* x for x l^H = the `rows` rows at a, in place; l is lower, n x n, both have rows `stride` apart.
 * room: n * rows. */
CLONES static void solve_below(const NUM *l, NUM *a, int64_t n, int64_t rows, int64_t stride,
                               NUM *room) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            room[j * rows + i] = a[i * stride + j];
    for (int64_t j = 0; j < n; j++) {
        NUM *x = room + j * rows;
        REAL scale = 1 / RE(l[j * stride + j]);
        for (int64_t k = 0; k < j; k++)
            subtract(x, room + k * rows, CONJ(l[j * stride + k]), rows);
        for (int64_t i = 0; i < rows; i++)
            x[i] *= scale;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            a[i * stride + j] = room[j * rows + i];
}

/* The lower factor in place, by blocks of columns; what is above the diagonal becomes anything.
 * room: CHOLESKY_BLOCK * n. */
static bool cholesky(NUM *a, int64_t n, NUM *room) {
    for (int64_t j = 0; j < n; j += CHOLESKY_BLOCK) {
        int64_t width = n - j < CHOLESKY_BLOCK ? n - j : CHOLESKY_BLOCK, rest = n - j - width;
        NUM *block = a + j * n + j;
        struct product p = adjoint_b(product_of(n - j, width, j, n, n, n));
        subtract_product(block, a + j * n, a + j * n, &p);
        if (!small_cholesky(block, width, n)) return false;
        solve_below(block, block + width * n, width, rest, n, room);
    }
    return true;
}

/* ---- triangular systems ---- */

CLONES static void small_solve(const NUM *a, int64_t stride, NUM *b, int64_t b_stride, int64_t n,
                               int64_t columns, bool lower, bool unit) {
    enum { WIDTH = 64 };
    for (int64_t c = 0; c < columns; c += WIDTH) {
        int64_t width = columns - c < WIDTH ? columns - c : WIDTH;
        for (int64_t s = 0; s < n; s++) {
            int64_t i = lower ? s : n - 1 - s;
            int64_t from = lower ? 0 : i + 1, to = lower ? i : n;
            NUM *row = b + i * b_stride + c;
            for (int64_t j = from; j < to; j++)
                subtract(row, b + j * b_stride + c, a[i * stride + j], width);
            for (int64_t k = 0; k < width && !unit; k++)
                row[k] /= a[i * stride + i];
        }
    }
}

/* One right side: along the rows of the matrix. x: room for it. */
CLONES static void solve_vector(const NUM *a, int64_t stride, NUM *b, int64_t b_stride, int64_t n,
                                bool lower, bool unit, NUM *x) {
    for (int64_t s = 0; s < n; s++) {
        int64_t i = lower ? s : n - 1 - s;
        const NUM *row = a + i * stride;
        int64_t from = lower ? 0 : i + 1, count = lower ? i : n - 1 - i;
        NUM value = b[i * b_stride] - plain_product(x + from, row + from, count);
        x[i] = unit ? value : value / row[i];
    }
    for (int64_t i = 0; i < n; i++)
        b[i * b_stride] = x[i];
}

/* Solves a x = b in place for `columns` right sides: a n x n, b n x columns. */
static void solve(const NUM *a, int64_t stride, NUM *b, int64_t b_stride, int64_t n,
                  int64_t columns, bool lower, bool unit) {
    enum { SMALL = 16 };
    int64_t half = n / 2, first = lower ? 0 : half, other = lower ? half : 0;
    if (n <= SMALL) {
        small_solve(a, stride, b, b_stride, n, columns, lower, unit);
        return;
    }
    int64_t size = lower ? half : n - half, rest = n - size;
    solve(a + first * (stride + 1), stride, b + first * b_stride, b_stride, size, columns, lower,
          unit);
    struct product p = product_of(rest, columns, size, stride, b_stride, b_stride);
    subtract_product(b + other * b_stride, a + other * stride + first, b + first * b_stride, &p);
    solve(a + other * (stride + 1), stride, b + other * b_stride, b_stride, rest, columns, lower,
          unit);
}

/* ---- LU ---- */

static void swap_rows(NUM *a, int64_t stride, int64_t columns, const int32_t *exchanges,
                      int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        NUM *x = a + k * stride, *y = a + (exchanges[k] - 1) * stride;
        for (int64_t j = 0; j < columns && x != y; j++) {
            NUM keep = x[j];
            x[j] = y[j];
            y[j] = keep;
        }
    }
}

CLONES static int64_t small_lu(NUM *a, int64_t stride, int64_t rows, int64_t columns,
                               int32_t *exchanges) {
    int64_t info = 0;
    for (int64_t k = 0; k < rows && k < columns; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < rows; i++)
            if (ABS1(a[i * stride + k]) > ABS1(a[best * stride + k])) best = i;
        exchanges[k] = (int32_t)(best + 1);
        if (a[best * stride + k] == 0) {
            info = info ? info : k + 1;
            continue;
        }
        NUM *row = a + k * stride, *other = a + best * stride;
        for (int64_t j = 0; j < columns && best != k; j++) {
            NUM x = row[j];
            row[j] = other[j];
            other[j] = x;
        }
        for (int64_t i = k + 1; i < rows; i++) {
            NUM factor = a[i * stride + k] /= row[k];
            subtract(a + i * stride + k + 1, row + k + 1, factor, columns - k - 1);
        }
    }
    return info;
}

/* Partial pivoting by |re| + |im|, as LAPACK. Exchanges count from 1; returns the number of the
 * first zero pivot, or 0. The left half of the columns first (Toledo, Locality of reference in LU
 * decomposition with partial pivoting, 1997). */
static int64_t lu(NUM *a, int64_t stride, int64_t rows, int64_t columns, int32_t *exchanges) {
    enum { SMALL = 8 };
    int64_t left = columns / 2, done = left < rows ? left : rows, right = columns - left;
    if (columns <= SMALL) return small_lu(a, stride, rows, columns, exchanges);
    int64_t info = lu(a, stride, rows, left, exchanges);
    swap_rows(a + left, stride, right, exchanges, done);
    solve(a, stride, a + left, stride, done, right, true, true);
    if (rows <= left) return info;
    struct product p = product_of(rows - left, right, left, stride, stride, stride);
    NUM *rest = a + left * stride + left;
    subtract_product(rest, a + left * stride, a + left, &p);
    int64_t later = lu(rest, stride, rows - left, right, exchanges + left);
    int64_t least = rows < columns ? rows : columns;
    swap_rows(a + left * stride, stride, left, exchanges + left, least - left);
    for (int64_t k = left; k < least; k++)
        exchanges[k] += (int32_t)left;
    return info ? info : later ? later + left : 0;
}

/* ---- tridiagonal systems ---- */

/* Solves for `columns` right sides in b by elimination with row exchanges. low[i], mid[i], high[i]
 * are row i's entries left of, on and right of the diagonal; they become the elimination's. Returns
 * the number of a zero pivot, or 0. */
static int64_t tridiagonal(NUM *low, NUM *mid, NUM *high, NUM *b, int64_t n, int64_t columns) {
    for (int64_t i = 0; i + 1 < n; i++) {
        NUM below = low[i + 1], *row = b + i * columns, *next = row + columns;
        low[i + 1] = 0;
        if (ABS1(mid[i]) >= ABS1(below)) {
            if (mid[i] == 0) return i + 1;
            NUM factor = below / mid[i];
            mid[i + 1] -= MUL(factor, high[i]);
            subtract(next, row, factor, columns);
            continue;
        }
        NUM factor = mid[i] / below, right = mid[i + 1];
        mid[i] = below;
        mid[i + 1] = high[i] - MUL(factor, right);
        if (i + 2 < n) {
            low[i + 1] = high[i + 1]; /* two to the right, kept here */
            high[i + 1] = -MUL(factor, high[i + 1]);
        }
        high[i] = right;
        for (int64_t j = 0; j < columns; j++) {
            NUM keep = row[j];
            row[j] = next[j];
            next[j] = keep - MUL(factor, next[j]);
        }
    }
    if (n > 0 && mid[n - 1] == 0) return n;
    for (int64_t i = n - 1; i >= 0; i--) {
        NUM *row = b + i * columns;
        if (i + 1 < n) subtract(row, row + columns, high[i], columns);
        if (i + 2 < n) subtract(row, row + 2 * columns, low[i + 1], columns);
        for (int64_t j = 0; j < columns; j++)
            row[j] /= mid[i];
    }
    return 0;
}

#endif
