/* Factorisations of one row-major matrix, written once for real and complex numbers: linalg.c
 * includes this file twice, with NUM, FN(name), MUL, CONJ, RE and MAKE(re, im) defined. Inner loops
 * run along rows, so that they touch memory in order. No include guard, for that reason. */

/* to[i] -= factor * from[i] */
INLINE void FN(subtract)(NUM *to, const NUM *from, NUM factor, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] -= MUL(factor, from[i]);
}

/* sum of x[i] * conj(y[i]): several sums, which is faster and more accurate than one. */
INLINE NUM FN(product)(const NUM *x, const NUM *y, int64_t count) {
    enum { SUMS = 16 };
    NUM sum[SUMS] = {0}, all = 0;
    int64_t i = 0;
    if (count < SUMS) {
        for (; i < count; i++)
            all += MUL(x[i], CONJ(y[i]));
        return all;
    }
    for (; i + SUMS <= count; i += SUMS)
        for (int k = 0; k < SUMS; k++)
            sum[k] += MUL(x[i + k], CONJ(y[i + k]));
    for (; i < count; i++)
        all += MUL(x[i], CONJ(y[i]));
    for (int k = 0; k < SUMS; k++)
        all += sum[k];
    return all;
}

#include "runtime/cpu/matrix_product.h"

static double FN(norm)(const NUM *x, int64_t count, int64_t stride) {
    double squares = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double re = (double)RE(x[i * stride]), im = (double)IM(x[i * stride]);
        squares += re * re + im * im;
    }
    /* Where no square has left the range of numbers. */
    if (squares > 1e-200 && squares < 1e200) return sqrt(squares);
    for (int64_t i = 0; i < count; i++)
        sum = hypot(sum, (double)ABS(x[i * stride]));
    return sum;
}

static void FN(transpose)(NUM *out, const NUM *in, int64_t rows, int64_t columns, bool conjugate) {
    enum { SQUARE = 16 };
    for (int64_t c = 0; c < columns; c += SQUARE)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = c; j < columns && j < c + SQUARE; j++)
                out[j * rows + i] = conjugate ? CONJ(in[i * columns + j]) : in[i * columns + j];
}

/* ---- Cholesky ---- */

/* The lower factor of a square of n, rows `stride` apart, in place; what is above the diagonal
 * stays. False where the matrix is not positive definite. */
CLONES static bool FN(small_cholesky)(NUM *a, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; i++) {
        NUM *row = a + i * stride;
        for (int64_t j = 0; j < i; j++)
            row[j] = (row[j] - FN(product)(row, a + j * stride, j)) / RE(a[j * stride + j]);
        double diagonal = (double)(RE(row[i]) - RE(FN(product)(row, row, i)));
        if (!(diagonal > 0)) return false;
        row[i] = (NUM)sqrt(diagonal);
    }
    return true;
}

/* x for x l^H = the `rows` rows at a, in place; l is lower, n x n, both have rows `stride` apart.
 * room: n * rows. */
CLONES static void FN(solve_below)(const NUM *l, NUM *a, int64_t n, int64_t rows, int64_t stride,
                                   NUM *room) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            room[j * rows + i] = a[i * stride + j];
    for (int64_t j = 0; j < n; j++) {
        NUM *x = room + j * rows, scale = 1 / RE(l[j * stride + j]);
        for (int64_t k = 0; k < j; k++)
            FN(subtract)(x, room + k * rows, CONJ(l[j * stride + k]), rows);
        for (int64_t i = 0; i < rows; i++)
            x[i] *= scale;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            a[i * stride + j] = room[j * rows + i];
}

/* The lower factor in place, by blocks of columns; what is above the diagonal becomes anything.
 * room: CHOLESKY_BLOCK * n. */
static bool FN(cholesky)(NUM *a, int64_t n, NUM *room) {
    for (int64_t j = 0; j < n; j += CHOLESKY_BLOCK) {
        int64_t width = n - j < CHOLESKY_BLOCK ? n - j : CHOLESKY_BLOCK, rest = n - j - width;
        NUM *block = a + j * n + j;
        struct product p = {.rows = n - j,
                            .columns = width,
                            .depth = j,
                            .a_row = n,
                            .a_column = 1,
                            .b_row = 1,
                            .b_column = n,
                            .c_row = n,
                            .conjugate_b = true};
        FN(subtract_product)(block, a + j * n, a + j * n, &p);
        if (!FN(small_cholesky)(block, width, n)) return false;
        FN(solve_below)(block, block + width * n, width, rest, n, room);
    }
    return true;
}

/* ---- triangular systems ---- */

CLONES static void FN(small_solve)(const NUM *a, int64_t stride, NUM *b, int64_t b_stride,
                                   int64_t n, int64_t columns, bool lower, bool unit) {
    enum { WIDTH = 64 };
    for (int64_t c = 0; c < columns; c += WIDTH) {
        int64_t width = columns - c < WIDTH ? columns - c : WIDTH;
        for (int64_t s = 0; s < n; s++) {
            int64_t i = lower ? s : n - 1 - s;
            int64_t from = lower ? 0 : i + 1, to = lower ? i : n;
            NUM *row = b + i * b_stride + c;
            for (int64_t j = from; j < to; j++)
                FN(subtract)(row, b + j * b_stride + c, a[i * stride + j], width);
            for (int64_t k = 0; k < width && !unit; k++)
                row[k] /= a[i * stride + i];
        }
    }
}

#ifdef VECTOR
/* One right side: along the rows of the matrix. x: room for it. */
CLONES static void FN(solve_vector)(const NUM *a, int64_t stride, NUM *b, int64_t b_stride,
                                    int64_t n, bool lower, bool unit, NUM *x) {
    for (int64_t s = 0; s < n; s++) {
        int64_t i = lower ? s : n - 1 - s;
        const NUM *row = a + i * stride;
        int64_t from = lower ? 0 : i + 1, count = lower ? i : n - 1 - i;
        NUM value = b[i * b_stride] - FN(product)(x + from, row + from, count);
        x[i] = unit ? value : value / row[i];
    }
    for (int64_t i = 0; i < n; i++)
        b[i * b_stride] = x[i];
}
#endif

/* Solves a x = b in place for `columns` right sides: a n x n, b n x columns. */
static void FN(solve)(const NUM *a, int64_t stride, NUM *b, int64_t b_stride, int64_t n,
                      int64_t columns, bool lower, bool unit) {
    enum { SMALL = 16 };
    int64_t half = n / 2, first = lower ? 0 : half, other = lower ? half : 0;
    if (n <= SMALL) {
        FN(small_solve)(a, stride, b, b_stride, n, columns, lower, unit);
        return;
    }
    int64_t size = lower ? half : n - half, rest = n - size;
    FN(solve)(a + first * (stride + 1), stride, b + first * b_stride, b_stride, size, columns,
              lower, unit);
    struct product p = {.rows = rest,
                        .columns = columns,
                        .depth = size,
                        .a_row = stride,
                        .a_column = 1,
                        .b_row = b_stride,
                        .b_column = 1,
                        .c_row = b_stride};
    FN(subtract_product)(b + other * b_stride, a + other * stride + first, b + first * b_stride,
                         &p);
    FN(solve)(a + other * (stride + 1), stride, b + other * b_stride, b_stride, rest, columns,
              lower, unit);
}

/* ---- LU ---- */

static void FN(swap_columns)(NUM *a, int64_t rows, int64_t columns, int64_t p, int64_t q) {
    for (int64_t i = 0; i < rows && p != q; i++) {
        NUM keep = a[i * columns + p];
        a[i * columns + p] = a[i * columns + q];
        a[i * columns + q] = keep;
    }
}

static void FN(swap_rows)(NUM *a, int64_t stride, int64_t columns, const int32_t *exchanges,
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

CLONES static int64_t FN(small_lu)(NUM *a, int64_t stride, int64_t rows, int64_t columns,
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
            FN(subtract)(a + i * stride + k + 1, row + k + 1, factor, columns - k - 1);
        }
    }
    return info;
}

/* Partial pivoting by |re| + |im|, as LAPACK. Exchanges count from 1; returns the number of the
 * first zero pivot, or 0. The left half of the columns first (Toledo, Locality of reference in LU
 * decomposition with partial pivoting, 1997). */
static int64_t FN(lu)(NUM *a, int64_t stride, int64_t rows, int64_t columns, int32_t *exchanges) {
    enum { SMALL = 8 };
    int64_t left = columns / 2, done = left < rows ? left : rows, right = columns - left;
    if (columns <= SMALL) return FN(small_lu)(a, stride, rows, columns, exchanges);
    int64_t info = FN(lu)(a, stride, rows, left, exchanges);
    FN(swap_rows)(a + left, stride, right, exchanges, done);
    FN(solve)(a, stride, a + left, stride, done, right, true, true);
    if (rows <= left) return info;
    struct product p = {.rows = rows - left,
                        .columns = right,
                        .depth = left,
                        .a_row = stride,
                        .a_column = 1,
                        .b_row = stride,
                        .b_column = 1,
                        .c_row = stride};
    NUM *rest = a + left * stride + left;
    FN(subtract_product)(rest, a + left * stride, a + left, &p);
    int64_t later = FN(lu)(rest, stride, rows - left, right, exchanges + left);
    int64_t least = rows < columns ? rows : columns;
    FN(swap_rows)(a + left * stride, stride, left, exchanges + left, least - left);
    for (int64_t k = left; k < least; k++)
        exchanges[k] += (int32_t)left;
    return info ? info : later ? later + left : 0;
}

/* ---- reflections ---- */

/* For x[0], x[stride], ..., x[(count - 1) stride] finds H = 1 - tau v v^H, v[0] = 1, with
 * H^H x = (beta, 0, ...). Leaves beta and the rest of v in x. */
static NUM FN(reflection)(NUM *x, int64_t count, int64_t stride) {
    NUM alpha = x[0];
    double rest = FN(norm)(x + stride, count - 1, stride);
    if (rest == 0 && IM(alpha) == 0) return 0;
    double beta = -copysign(hypot(ABS(alpha), rest), RE(alpha));
    NUM tau = MAKE((beta - RE(alpha)) / beta, -IM(alpha) / beta), head = alpha - beta;
    for (int64_t i = 1; i < count; i++)
        x[i * stride] /= head;
    x[0] = beta;
    return tau;
}

/* a[i, from..to) -= tau * v_i (v^H a) for rows first .. rows - 1, v in column `first` of `vectors`
 * below an implied 1. Rows of a are `columns` apart, those of the vectors `stride`; sums has room
 * for the columns. */
CLONES static void FN(reflect)(NUM *a, const NUM *vectors, int64_t stride, int64_t first,
                               int64_t rows, int64_t columns, int64_t from, int64_t to, NUM tau,
                               NUM *sums) {
    int64_t width = to - from;
    if (width <= 0) return;
    memcpy(sums, a + first * columns + from, (size_t)width * sizeof *sums);
    for (int64_t i = first + 1; i < rows; i++)
        FN(subtract)(sums, a + i * columns + from, -CONJ(vectors[i * stride + first]), width);
    for (int64_t j = 0; j < width; j++)
        sums[j] = MUL(tau, sums[j]);
    FN(subtract)(a + first * columns + from, sums, 1, width);
    for (int64_t i = first + 1; i < rows; i++)
        FN(subtract)(a + i * columns + from, sums, vectors[i * stride + first], width);
}

/* Reflections k = 0 .. count - 1, v_k in column k of `vectors` below an implied 1 in row k, as one:
 * 1 - V T V^H (Schreiber and Van Loan, A storage-efficient WY representation for products of
 * Householder transformations, 1989). */
struct FN(block) {
    int64_t rows, count;
    NUM *v; /* rows x count, with the ones and zeros */
    NUM *t; /* count x count, upper triangle */
    NUM *w; /* room: count times the columns that are reflected, at least count */
};

CLONES static struct FN(block) FN(block_of)(const NUM *vectors, int64_t stride, int64_t rows,
                                            int64_t count, const NUM *tau, NUM *room) {
    struct FN(block) b = {rows, count, room, room + rows * count, room + (rows + count) * count};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < count; k++)
            b.v[i * count + k] = i > k ? vectors[i * stride + k] : i == k;
    struct product gram = {.rows = count,
                           .columns = count,
                           .depth = rows,
                           .a_row = 1,
                           .a_column = count,
                           .b_row = count,
                           .b_column = 1,
                           .c_row = count,
                           .conjugate_a = true};
    memset((void *)b.w, 0, (size_t)(count * count) * sizeof *b.w);
    FN(subtract_product)(b.w, b.v, b.v, &gram); /* -V^H V */
    for (int64_t k = 0; k < count; k++) {
        for (int64_t i = 0; i < k; i++) {
            NUM sum = 0;
            for (int64_t j = i; j < k; j++)
                sum += MUL(b.t[i * count + j], b.w[j * count + k]);
            b.t[i * count + k] = MUL(sum, tau[k]);
        }
        b.t[k * count + k] = tau[k];
    }
    return b;
}

/* Row i of w becomes minus the sum of t[i][j] w[j], or of conj(t[j][i]) w[j]. */
CLONES static void FN(times_t)(const struct FN(block) * b, int64_t columns, bool adjoint) {
    for (int64_t s = 0; s < b->count; s++) {
        int64_t i = adjoint ? b->count - 1 - s : s;
        NUM *row = b->w + i * columns, own = b->t[i * b->count + i];
        own = adjoint ? CONJ(own) : own;
        for (int64_t k = 0; k < columns; k++)
            row[k] = -MUL(own, row[k]);
        for (int64_t j = adjoint ? 0 : i + 1; j < (adjoint ? i : b->count); j++)
            FN(subtract)(row, b->w + j * columns,
                         adjoint ? CONJ(b->t[j * b->count + i]) : b->t[i * b->count + j], columns);
    }
}

/* c, of the block's rows, becomes the product of the reflections, or its adjoint, and c. */
static void FN(reflect_block)(const struct FN(block) * b, NUM *c, int64_t stride, int64_t columns,
                              bool adjoint) {
    struct product down = {.rows = b->count,
                           .columns = columns,
                           .depth = b->rows,
                           .a_row = 1,
                           .a_column = b->count,
                           .b_row = stride,
                           .b_column = 1,
                           .c_row = columns,
                           .conjugate_a = true};
    struct product up = {.rows = b->rows,
                         .columns = columns,
                         .depth = b->count,
                         .a_row = b->count,
                         .a_column = 1,
                         .b_row = columns,
                         .b_column = 1,
                         .c_row = stride};
    if (columns <= 0) return;
    memset((void *)b->w, 0, (size_t)(b->count * columns) * sizeof *b->w);
    FN(subtract_product)(b->w, b->v, c, &down); /* -V^H c */
    FN(times_t)(b, columns, adjoint);
    FN(subtract_product)(c, b->v, b->w, &up);
}

/* c, rows x columns, becomes Q c, or Q^H c, for Q of the `count` reflections. */
static void FN(apply_q)(NUM *c, const NUM *vectors, int64_t stride, const NUM *tau, int64_t count,
                        int64_t rows, int64_t columns, bool adjoint, NUM *room) {
    int64_t blocks = (count + REFLECTION_BLOCK - 1) / REFLECTION_BLOCK;
    for (int64_t s = 0; s < blocks; s++) {
        int64_t k = (adjoint ? s : blocks - 1 - s) * REFLECTION_BLOCK;
        int64_t width = count - k < REFLECTION_BLOCK ? count - k : REFLECTION_BLOCK;
        struct FN(block) b =
            FN(block_of)(vectors + k * (stride + 1), stride, rows - k, width, tau + k, room);
        FN(reflect_block)(&b, c + k * columns, columns, columns, adjoint);
    }
}

/* R above vectors, of the matrix's first `columns` columns, no more than rows, by halves. */
static void FN(qr_panel)(NUM *a, int64_t stride, int64_t rows, int64_t columns, NUM *tau,
                         NUM *room) {
    enum { SMALL = 8 };
    int64_t left = columns / 2;
    if (columns <= SMALL) {
        for (int64_t i = 0; i < columns; i++) {
            tau[i] = FN(reflection)(a + i * (stride + 1), rows - i, stride);
            FN(reflect)(a, a, stride, i, rows, stride, i + 1, columns, CONJ(tau[i]), room);
        }
        return;
    }
    FN(qr_panel)(a, stride, rows, left, tau, room);
    struct FN(block) b = FN(block_of)(a, stride, rows, left, tau, room);
    FN(reflect_block)(&b, a + left, stride, columns - left, true);
    FN(qr_panel)(a + left * (stride + 1), stride, rows - left, columns - left, tau + left, room);
}

/* The same of any matrix. */
static void FN(qr)(NUM *a, int64_t stride, int64_t rows, int64_t columns, NUM *tau, NUM *room) {
    int64_t least = rows < columns ? rows : columns;
    for (int64_t k = 0; k < least; k += REFLECTION_BLOCK) {
        int64_t width = least - k < REFLECTION_BLOCK ? least - k : REFLECTION_BLOCK;
        NUM *block = a + k * (stride + 1);
        FN(qr_panel)(block, stride, rows - k, width, tau + k, room);
        if (k + width >= columns) break;
        struct FN(block) b = FN(block_of)(block, stride, rows - k, width, tau + k, room);
        FN(reflect_block)(&b, block + width, stride, columns - k - width, true);
    }
}

/* The first columns of Q = H_0 H_1 ... in place of the vectors. */
static void FN(form_q)(NUM *a, const NUM *tau, int64_t rows, int64_t columns, int64_t count,
                       NUM *room) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = count; j < columns; j++)
            a[i * columns + j] = i == j;
    for (int64_t k = (count - 1) / REFLECTION_BLOCK * REFLECTION_BLOCK; k >= 0 && count > 0;
         k -= REFLECTION_BLOCK) {
        int64_t width = count - k < REFLECTION_BLOCK ? count - k : REFLECTION_BLOCK;
        NUM *block = a + k * (columns + 1);
        struct FN(block) b = FN(block_of)(block, columns, rows - k, width, tau + k, room);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = k; j < k + width; j++)
                a[i * columns + j] = i == j;
        FN(reflect_block)(&b, block, columns, columns - k, false);
    }
}

/* QR with column exchanges: order[j], from 1, is the column that comes to place j; columns that it
 * names as 0 at first are free, others go to the front. The longest rest is next. */
static void FN(pivoted_qr)(NUM *a, int64_t rows, int64_t columns, int32_t *order, NUM *tau,
                           NUM *sums) {
    int64_t fixed = 0, least = rows < columns ? rows : columns;
    for (int64_t j = 0; j < columns; j++) {
        bool front = order[j] != 0;
        order[j] = (int32_t)(j + 1);
        if (!front) continue;
        FN(swap_columns)(a, rows, columns, j, fixed);
        order[j] = order[fixed];
        order[fixed++] = (int32_t)(j + 1);
    }
    for (int64_t k = 0; k < least; k++) {
        int64_t best = k;
        double longest = -1;
        for (int64_t j = k; j < columns && k >= fixed; j++) {
            double length = FN(norm)(a + k * columns + j, rows - k, columns);
            if (length > longest) {
                longest = length;
                best = j;
            }
        }
        FN(swap_columns)(a, rows, columns, k, best);
        int32_t keep = order[k];
        order[k] = order[best];
        order[best] = keep;
        tau[k] = FN(reflection)(a + k * columns + k, rows - k, columns);
        FN(reflect)(a, a, columns, k, rows, columns, k + 1, columns, CONJ(tau[k]), sums);
    }
}

/* ---- Hessenberg form ---- */

/* Rows and columns low .. high - 1 of the matrix (from 0) to upper Hessenberg form, H = Q^H a Q;
 * vectors of the reflections stay below. v and sums: n each. */
static void FN(hessenberg)(NUM *a, int64_t n, int64_t low, int64_t high, NUM *tau, NUM *v,
                           NUM *sums) {
    for (int64_t k = 0; k + 1 < n; k++)
        tau[k] = 0;
    for (int64_t k = low; k + 1 < high; k++) {
        int64_t first = k + 1, m = high - first, width = n - first;
        tau[k] = FN(reflection)(a + first * n + k, m, n);
        v[0] = 1;
        for (int64_t i = 1; i < m; i++)
            v[i] = a[(first + i) * n + k];
        for (int64_t i = 0; i < high; i++) { /* a (1 - tau v v^H) */
            NUM sum = 0;
            for (int64_t j = 0; j < m; j++)
                sum += MUL(a[i * n + first + j], v[j]);
            sum = MUL(sum, tau[k]);
            for (int64_t j = 0; j < m; j++)
                a[i * n + first + j] -= MUL(sum, CONJ(v[j]));
        }
        for (int64_t j = 0; j < width; j++) /* (1 - conj(tau) v v^H) a */
            sums[j] = 0;
        for (int64_t i = 0; i < m; i++)
            FN(subtract)(sums, a + (first + i) * n + first, -CONJ(v[i]), width);
        for (int64_t i = 0; i < m; i++)
            FN(subtract)(a + (first + i) * n + first, sums, MUL(v[i], CONJ(tau[k])), width);
    }
}

/* ---- tridiagonal systems ---- */

/* Solves for `columns` right sides in b by elimination with row exchanges. low[i], mid[i], high[i]
 * are row i's entries left of, on and right of the diagonal; they become the elimination's. Returns
 * the number of a zero pivot, or 0. */
static int64_t FN(tridiagonal)(NUM *low, NUM *mid, NUM *high, NUM *b, int64_t n, int64_t columns) {
    for (int64_t i = 0; i + 1 < n; i++) {
        NUM below = low[i + 1], *row = b + i * columns, *next = row + columns;
        low[i + 1] = 0;
        if (ABS1(mid[i]) >= ABS1(below)) {
            if (mid[i] == 0) return i + 1;
            NUM factor = below / mid[i];
            mid[i + 1] -= MUL(factor, high[i]);
            FN(subtract)(next, row, factor, columns);
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
        if (i + 1 < n) FN(subtract)(row, row + columns, high[i], columns);
        if (i + 2 < n) FN(subtract)(row, row + 2 * columns, low[i + 1], columns);
        for (int64_t j = 0; j < columns; j++)
            row[j] /= mid[i];
    }
    return 0;
}
