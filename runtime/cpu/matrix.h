/* Cholesky, LU and tridiagonal systems of one row-major matrix, for the number
 * type of matrix_number.h. Inner loops run along rows, so that they touch memory in order. */
#ifndef RUNTIME_CPU_MATRIX_H
#define RUNTIME_CPU_MATRIX_H

#include "runtime/cpu/matrix_solve.h"

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
    NUM column[CHOLESKY_BLOCK]; /* conjugates of what is below the diagonal */
    for (int64_t j = 0; j < n; j++) {
        NUM *row = a + j * stride;
        double diagonal = (double)RE(row[j]);
        if (!(diagonal > 0)) return false;
        row[j] = (NUM)sqrt(diagonal);
        REAL inverse = 1 / RE(row[j]);
        for (int64_t i = j + 1; i < n; i++) {
            NUM x = a[i * stride + j] *= inverse;
            column[i] = CONJ(x);
            subtract(a + i * stride + j + 1, column + j + 1, x, i - j);
        }
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
        if (j > 0) subtract_product(block, a + j * n, a + j * n, &p);
        if (!small_cholesky(block, width, n)) return false;
        if (rest == 0) return true;
        solve_below(block, block + width * n, width, rest, n, room);
    }
    return true;
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

/* The row, from k on, of the number of column k, its rows side by side, that is largest by |re| +
 * |im|, the first of them; NaN where one is before that. */
INLINE int64_t find_pivot(const NUM *column, int64_t k, int64_t rows) {
    int64_t best = k;
    REAL most = ABS1(column[k]);
    for (int64_t i = k + 1; i < rows; i++) {
        REAL size = ABS1(column[i]);
        if (size > most) {
            most = size;
            best = i;
        }
    }
    return best;
}

enum { LU_COLUMNS = 8, LU_ROWS = 512 };

/* LU of few columns of many rows, which lie in rows meanwhile, LU_ROWS numbers each. */
CLONES static int64_t lu_columns(NUM *a, int64_t stride, int64_t rows, int64_t columns,
                                 int32_t *exchanges) {
    NUM lines[LU_COLUMNS * LU_ROWS];
    int64_t info = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            lines[j * LU_ROWS + i] = a[i * stride + j];
    for (int64_t k = 0; k < columns; k++) {
        NUM *column = lines + k * LU_ROWS;
        int64_t best = find_pivot(column, k, rows);
        exchanges[k] = (int32_t)(best + 1);
        if (column[best] == 0) {
            info = info ? info : k + 1;
            continue;
        }
        for (int64_t j = 0; j < columns && best != k; j++) {
            NUM *x = lines + j * LU_ROWS, keep = x[k];
            x[k] = x[best];
            x[best] = keep;
        }
        NUM pivot = column[k], inverse = 1 / pivot;
        bool divide = !((double)ABS1(pivot) > REAL_SMALL && (double)ABS1(pivot) < REAL_LARGE);
        for (int64_t i = k + 1; i < rows; i++)
            column[i] = divide ? column[i] / pivot : MUL(column[i], inverse);
        for (int64_t j = k + 1; j < columns; j++) {
            NUM *x = lines + j * LU_ROWS;
            subtract(x + k + 1, column + k + 1, x[k], rows - k - 1);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            a[i * stride + j] = lines[j * LU_ROWS + i];
    return info;
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
        NUM inverse = 1 / row[k];
        bool divide = PARTS == 1 || !((double)ABS1(row[k]) > REAL_SMALL);
        for (int64_t i = k + 1; i < rows; i++) {
            NUM *at = a + i * stride + k, factor = divide ? *at / row[k] : MUL(*at, inverse);
            *at = factor;
            subtract(a + i * stride + k + 1, row + k + 1, factor, columns - k - 1);
        }
    }
    return info;
}

/* Partial pivoting by |re| + |im|, as LAPACK. Exchanges count from 1; returns the number of the
 * first zero pivot, or 0. The left half of the columns first (Toledo, Locality of reference in LU
 * decomposition with partial pivoting, 1997). */
static int64_t lu(NUM *a, int64_t stride, int64_t rows, int64_t columns, int32_t *exchanges) {
    int64_t left = columns / 2, done = left < rows ? left : rows, right = columns - left;
    if (columns <= LU_COLUMNS && rows >= 2 * columns && rows <= LU_ROWS)
        return lu_columns(a, stride, rows, columns, exchanges);
    if (columns <= LU_COLUMNS) return small_lu(a, stride, rows, columns, exchanges);
    int64_t info = lu(a, stride, rows, left, exchanges);
    swap_rows(a + left, stride, right, exchanges, done);
    solve(rows_of(a, stride, true, true), a + left, stride, done, right);
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
