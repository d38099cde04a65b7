/* Householder reflections: QR, products with Q, Hessenberg form, for the number type of
 * matrix_number.h. */
#ifndef RUNTIME_CPU_MATRIX_REFLECTIONS_H
#define RUNTIME_CPU_MATRIX_REFLECTIONS_H

#include "runtime/cpu/matrix_product.h"

/* Reflections that are applied as one; of these, so many are made one by one. */
enum { REFLECTION_BLOCK = 32, PANEL_COLUMNS = 16 };

/* Numbers that a block of reflections, as one, and its application to so many columns take, or its
 * making. */
static inline int64_t block_room(int64_t rows, int64_t columns) {
    int64_t width = larger(columns, REFLECTION_BLOCK);
    return REFLECTION_BLOCK * (rows + REFLECTION_BLOCK + width) + 4 * LANES;
}

INLINE double norm(const NUM *x, int64_t count, int64_t stride) {
    double squares = 0, sum = 0;
    if (stride == 1) {
        squares = (double)RE(product(x, x, count));
    } else {
        for (int64_t i = 0; i < count; i++) {
            double re = (double)RE(x[i * stride]), im = (double)IM(x[i * stride]);
            squares += re * re + im * im;
        }
    }
    /* Where no square has left the range of numbers. */
    if (squares > REAL_SMALL && squares < REAL_LARGE) return sqrt(squares);
    for (int64_t i = 0; i < count; i++) {
        NUM y = x[i * stride];
        sum = hypot(sum, hypot((double)RE(y), (double)IM(y)));
    }
    return sum;
}

/* For x[0], x[stride], ..., x[(count - 1) stride] finds H = 1 - tau v v^H, v[0] = 1, with
 * H^H x = (beta, 0, ...). Leaves beta and the rest of v in x. */
INLINE NUM reflection(NUM *x, int64_t count, int64_t stride) {
    NUM alpha = x[0];
    double re = (double)RE(alpha), im = (double)IM(alpha),
           rest = norm(x + stride, count - 1, stride);
    if (rest == 0 && im == 0) return 0;
    double beta = -copysign(hypot(hypot(re, im), rest), re);
    NUM head = alpha - (REAL)beta;
    if (fabs(beta) > REAL_SMALL) {
        NUM inverse = 1 / head;
        for (int64_t i = 1; i < count; i++)
            x[i * stride] = MUL(x[i * stride], inverse);
    } else {
        for (int64_t i = 1; i < count; i++)
            x[i * stride] /= head;
    }
    x[0] = (REAL)beta;
    return MAKE((beta - re) / beta, -im / beta);
}

/* ---- reflections as one ---- */

/* Reflections k = 0 .. count - 1, v_k in column k of `vectors` below an implied 1 in row k, as one:
 * 1 - V T V^H (Schreiber and Van Loan, A storage-efficient WY representation for products of
 * Householder transformations, 1989). */
struct block {
    int64_t rows, count;
    NUM *v; /* rows x count, with the ones and zeros */
    NUM *t; /* count x count, upper triangle */
    NUM *w; /* room: count times the columns that are reflected, at least count */
};

/* T, from V. */
CLONES static void make_t(struct block *b, const NUM *tau) {
    int64_t count = b->count;
    struct product gram = adjoint_a(product_of(count, count, b->rows, count, count, count));
    negative_product(b->w, b->v, b->v, &gram); /* -V^H V */
    for (int64_t k = 0; k < count; k++) {
        for (int64_t i = 0; i < k; i++) {
            NUM sum = 0;
            for (int64_t j = i; j < k; j++)
                sum += MUL(b->t[i * count + j], b->w[j * count + k]);
            b->t[i * count + k] = MUL(sum, tau[k]);
        }
        b->t[k * count + k] = tau[k];
    }
}

static struct block block_of(const NUM *vectors, int64_t stride, int64_t rows, int64_t count,
                             const NUM *tau, NUM *room) {
    struct block b = {rows, count, room, room + rows * count, room + (rows + count) * count};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < count; k++)
            b.v[i * count + k] = i > k ? vectors[i * stride + k] : i == k;
    make_t(&b, tau);
    return b;
}

/* Row i of w becomes minus the sum of t[i][j] w[j], or of conj(t[j][i]) w[j]. */
CLONES static void times_t(const struct block *b, int64_t columns, bool adjoint) {
    for (int64_t s = 0; s < b->count; s++) {
        int64_t i = adjoint ? b->count - 1 - s : s;
        NUM *row = b->w + i * columns, own = b->t[i * b->count + i];
        own = -(adjoint ? CONJ(own) : own);
        for (int64_t k = 0; k < columns; k++)
            row[k] = MUL(own, row[k]);
        for (int64_t j = adjoint ? 0 : i + 1; j < (adjoint ? i : b->count); j++)
            subtract(row, b->w + j * columns,
                     adjoint ? CONJ(b->t[j * b->count + i]) : b->t[i * b->count + j], columns);
    }
}

/* c, of the block's rows, becomes the product of the reflections, or its adjoint, and c. */
static void reflect_block(const struct block *b, NUM *c, int64_t stride, int64_t columns,
                          bool adjoint) {
    struct product down =
        adjoint_a(product_of(b->count, columns, b->rows, b->count, stride, columns));
    struct product up = product_of(b->rows, columns, b->count, b->count, columns, stride);
    if (columns <= 0) return;
    negative_product(b->w, b->v, c, &down); /* -V^H c */
    times_t(b, columns, adjoint);
    subtract_product(c, b->v, b->w, &up);
}

/* c, rows x columns, becomes Q c, or Q^H c, for Q of the `count` reflections. */
static void apply_q(NUM *c, const NUM *vectors, int64_t stride, const NUM *tau, int64_t count,
                    int64_t rows, int64_t columns, bool adjoint, NUM *room) {
    int64_t blocks = (count + REFLECTION_BLOCK - 1) / REFLECTION_BLOCK;
    for (int64_t s = 0; s < blocks; s++) {
        int64_t k = (adjoint ? s : blocks - 1 - s) * REFLECTION_BLOCK;
        int64_t width = smaller(count - k, REFLECTION_BLOCK);
        struct block b =
            block_of(vectors + k * (stride + 1), stride, rows - k, width, tau + k, room);
        reflect_block(&b, c + k * columns, columns, columns, adjoint);
    }
}

/* ---- QR ---- */

/* Rows r[0 .. count) of `length` numbers, `stride` apart, lose conj(tau) (v^H r) v; four at a time,
 * so that v is read once for them. */
INLINE void reflect_lines(NUM *r, int64_t stride, int64_t count, const NUM *v, int64_t length,
                          NUM tau) {
    for (int64_t j = 0; j < count; j += 4) {
        int64_t group = smaller(4, count - j), i = 0;
        NUM *line[4], sums[4];
        struct sum s[4];
        for (int k = 0; k < 4; k++) { /* past the last: the last once more, which is not stored */
            line[k] = r + (j + (k < group ? k : 0)) * stride;
            s[k] = (struct sum){0};
        }
        for (; i + NUMBERS <= length; i += NUMBERS)
            for (int k = 0; k < 4; k++)
                sum_add(&s[k], get(line[k] + i), get(v + i));
        for (int k = 0; k < group; k++) {
            sums[k] = sum_up(&s[k], true);
            for (int64_t t = i; t < length; t++)
                sums[k] += MUL(line[k][t], CONJ(v[t]));
            subtract(line[k], v, MUL(CONJ(tau), sums[k]), length);
        }
    }
}

/* QR of few columns, which lie in rows meanwhile; those are not multiples of 4 KB apart. room:
 * columns * (rows + 3 LANES). */
CLONES static void qr_columns(NUM *a, int64_t stride, int64_t rows, int64_t columns, NUM *tau,
                              NUM *room) {
    int64_t line = round_up(rows, LANES) + 2 * LANES;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            room[j * line + i] = a[i * stride + j];
    for (int64_t k = 0; k < columns; k++) {
        NUM *v = room + k * line + k;
        tau[k] = reflection(v, rows - k, 1);
        NUM beta = v[0];
        v[0] = 1;
        reflect_lines(v + line, line, columns - k - 1, v, rows - k, tau[k]);
        v[0] = beta;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            a[i * stride + j] = room[j * line + i];
}

/* R above vectors, of the matrix's first `columns` columns, no more than rows, by halves. */
static void qr_panel(NUM *a, int64_t stride, int64_t rows, int64_t columns, NUM *tau, NUM *room) {
    int64_t left = columns / 2;
    if (columns <= PANEL_COLUMNS) {
        qr_columns(a, stride, rows, columns, tau, room);
        return;
    }
    qr_panel(a, stride, rows, left, tau, room);
    struct block b = block_of(a, stride, rows, left, tau, room);
    reflect_block(&b, a + left, stride, columns - left, true);
    qr_panel(a + left * (stride + 1), stride, rows - left, columns - left, tau + left, room);
}

/* The same of any matrix. */
static void qr(NUM *a, int64_t stride, int64_t rows, int64_t columns, NUM *tau, NUM *room) {
    int64_t least = smaller(rows, columns);
    for (int64_t k = 0; k < least; k += REFLECTION_BLOCK) {
        int64_t width = smaller(least - k, REFLECTION_BLOCK);
        NUM *block = a + k * (stride + 1);
        qr_panel(block, stride, rows - k, width, tau + k, room);
        if (k + width >= columns) break;
        struct block b = block_of(block, stride, rows - k, width, tau + k, room);
        reflect_block(&b, block + width, stride, columns - k - width, true);
    }
}

/* The first columns of Q = H_0 H_1 ... in place of the vectors. Where a block's own columns are
 * still the unit matrix's, V^H times them is the top of V^H. */
static void form_q(NUM *a, const NUM *tau, int64_t rows, int64_t columns, int64_t count,
                   NUM *room) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = count; j < columns; j++)
            a[i * columns + j] = i == j;
    for (int64_t k = (count - 1) / REFLECTION_BLOCK * REFLECTION_BLOCK; k >= 0 && count > 0;
         k -= REFLECTION_BLOCK) {
        int64_t width = smaller(count - k, REFLECTION_BLOCK), all = columns - k;
        NUM *block = a + k * (columns + 1);
        struct block b = block_of(block, columns, rows - k, width, tau + k, room);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = k; j < k + width; j++)
                a[i * columns + j] = i == j;
        struct product down =
            adjoint_a(product_of(width, all - width, rows - k, width, columns, all));
        struct product up = product_of(rows - k, all, width, width, all, columns);
        negative_product(b.w + width, b.v, block + width, &down);
        for (int64_t i = 0; i < width; i++)
            for (int64_t j = 0; j < width; j++)
                b.w[i * all + j] = -CONJ(b.v[j * width + i]);
        times_t(&b, all, false);
        subtract_product(block, b.v, b.w, &up);
    }
}

/* a[i, from..to) -= tau * v_i (v^H a) for rows first .. rows - 1, v in column `first` of `vectors`
 * below an implied 1. Rows of a are `columns` apart, those of the vectors `stride`; sums has room
 * for the columns. */
CLONES static void reflect(NUM *a, const NUM *vectors, int64_t stride, int64_t first, int64_t rows,
                           int64_t columns, int64_t from, int64_t to, NUM tau, NUM *sums) {
    int64_t width = to - from;
    if (width <= 0) return;
    memcpy(sums, a + first * columns + from, (size_t)width * sizeof *sums);
    for (int64_t i = first + 1; i < rows; i++)
        subtract(sums, a + i * columns + from, -CONJ(vectors[i * stride + first]), width);
    for (int64_t j = 0; j < width; j++)
        sums[j] = MUL(tau, sums[j]);
    subtract(a + first * columns + from, sums, 1, width);
    for (int64_t i = first + 1; i < rows; i++)
        subtract(a + i * columns + from, sums, vectors[i * stride + first], width);
}

static void swap_columns(NUM *a, int64_t rows, int64_t columns, int64_t p, int64_t q) {
    for (int64_t i = 0; i < rows && p != q; i++) {
        NUM keep = a[i * columns + p];
        a[i * columns + p] = a[i * columns + q];
        a[i * columns + q] = keep;
    }
}

/* QR with column exchanges: order[j], from 1, is the column that comes to place j; columns that it
 * names as 0 at first are free, others go to the front. The longest rest is next. */
static void pivoted_qr(NUM *a, int64_t rows, int64_t columns, int32_t *order, NUM *tau, NUM *sums) {
    int64_t fixed = 0, least = rows < columns ? rows : columns;
    for (int64_t j = 0; j < columns; j++) {
        bool front = order[j] != 0;
        order[j] = (int32_t)(j + 1);
        if (!front) continue;
        swap_columns(a, rows, columns, j, fixed);
        order[j] = order[fixed];
        order[fixed++] = (int32_t)(j + 1);
    }
    for (int64_t k = 0; k < least; k++) {
        int64_t best = k;
        double longest = -1;
        for (int64_t j = k; j < columns && k >= fixed; j++) {
            double length = norm(a + k * columns + j, rows - k, columns);
            if (length > longest) {
                longest = length;
                best = j;
            }
        }
        swap_columns(a, rows, columns, k, best);
        int32_t keep = order[k];
        order[k] = order[best];
        order[best] = keep;
        tau[k] = reflection(a + k * columns + k, rows - k, columns);
        reflect(a, a, columns, k, rows, columns, k + 1, columns, CONJ(tau[k]), sums);
    }
}

/* ---- Hessenberg form ---- */

/* Rows and columns low .. high - 1 of the matrix (from 0) to upper Hessenberg form, H = Q^H a Q;
 * vectors of the reflections stay below. v and sums: n each. */
static void hessenberg(NUM *a, int64_t n, int64_t low, int64_t high, NUM *tau, NUM *v, NUM *sums) {
    for (int64_t k = 0; k + 1 < n; k++)
        tau[k] = 0;
    for (int64_t k = low; k + 1 < high; k++) {
        int64_t first = k + 1, m = high - first, width = n - first;
        tau[k] = reflection(a + first * n + k, m, n);
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
            subtract(sums, a + (first + i) * n + first, -CONJ(v[i]), width);
        for (int64_t i = 0; i < m; i++)
            subtract(a + (first + i) * n + first, sums, MUL(v[i], CONJ(tau[k])), width);
    }
}

#endif
