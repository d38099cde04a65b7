/* One merge of divide and conquer: the eigenproblem of diag(d) + rho z z^T, or the singular values
 * of a diagonal with one full row, and the vectors of both parts multiplied with its own. */
#ifndef RUNTIME_CPU_SPECTRUM_MERGE_H
#define RUNTIME_CPU_SPECTRUM_MERGE_H

#include "runtime/cpu/matrix_product.h"
#include "runtime/cpu/secular.h"
#include "runtime/cpu/spectrum.h"

/* Where a vector has numbers: of the first part, of both, of the second. */
enum kind { TOP, BOTH, BOTTOM, KINDS };

/* Vectors are rows, `stride` apart: all of them (`full`), or only first and last numbers. `left` is
 * NULL where there are none. */
struct divide {
    bool full;
    int64_t stride;
    double *d, *e;
    int64_t *order; /* within each part: its values, ascending */
    REAL *left, *right;
    REAL *of_left, *of_right; /* coefficients of merges, negative */
    REAL *copies;
    struct secular secular;
    double *weight, *line, *old;
    int64_t *row, *gone, *place, *sorted;
    uint8_t *kind;
    char *leaf;
};

struct merge {
    int64_t first, n, top; /* rows first .. first + n - 1, of which `top` are the first part's */
    int64_t columns;       /* of the rows: n, or n + 1 */
    int64_t special;       /* the row of the full row of singular values, or -1 */
    double tolerance;
    int64_t kept, gone;
    int64_t of_kind[KINDS];
};

struct range {
    int64_t from, to;
};

/* Rows p and q become c p + s q and c q - s p. */
CLONES static void turn_rows(REAL *p, REAL *q, int64_t count, double c, double s) {
    REAL a = (REAL)c, b = (REAL)s;
    for (int64_t i = 0; i < count; i++) {
        REAL x = p[i], y = q[i];
        p[i] = a * x + b * y;
        q[i] = a * y - b * x;
    }
}

static void turn_vectors(struct divide *v, const struct merge *g, int64_t p, int64_t q, double c,
                         double s) {
    int64_t from = v->full ? g->first : 0, count = v->full ? g->columns : 2;
    REAL *sides[] = {v->right, v->left};
    for (int k = 0; k < 2 && sides[k]; k++)
        turn_rows(sides[k] + (g->first + p) * v->stride + from,
                  sides[k] + (g->first + q) * v->stride + from, k ? smaller(count, g->n) : count, c,
                  s);
}

/* All rows of both parts but the special one, in ascending order of their values. */
static int64_t merge_orders(struct divide *v, const struct merge *g) {
    const double *d = v->d + g->first;
    const int64_t *order = v->order + g->first;
    int64_t second = g->special < 0 ? g->top : g->top + 1, i = 0, j = second, count = 0;
    while (i < g->top || j < g->n) {
        int64_t a = i < g->top ? order[i] : -1, b = j < g->n ? order[j] + second : -1;
        bool from_top = b < 0 || (a >= 0 && d[a] <= d[b]);
        v->sorted[count++] = from_top ? a : b;
        *(from_top ? &i : &j) += 1;
    }
    return count;
}

static void keep(struct divide *v, struct merge *g, int64_t row, double value) {
    v->secular.d[g->kept] = value;
    v->secular.z[g->kept] = v->weight[row];
    v->row[g->kept++] = row;
}

/* Whether rows p and q, neighbours in order, are as good as equal. */
static bool equal_enough(const struct divide *v, const struct merge *g, int64_t p, int64_t q) {
    double gap = v->d[g->first + q] - v->d[g->first + p];
    if (g->special >= 0) return fabs(gap) <= g->tolerance;
    double a = v->weight[p], b = v->weight[q];
    return fabs(gap * a * b) <= g->tolerance * (a * a + b * b);
}

/* Row p gives its weight to row q, with vectors turned to match. */
static void give_weight(struct divide *v, struct merge *g, int64_t p, int64_t q) {
    double *d = v->d + g->first, *w = v->weight;
    double size = length_of(w[p], w[q]), c = w[q] / size, s = -w[p] / size;
    w[q] = size;
    w[p] = 0;
    turn_vectors(v, g, p, q, c, s);
    if (v->kind[p] != v->kind[q]) v->kind[p] = v->kind[q] = BOTH;
    if (g->special >= 0) return;
    double low = d[p], high = d[q];
    d[p] = low * c * c + high * s * s;
    d[q] = low * s * s + high * c * c;
}

/* Divides the rows into those that the secular equation is about and those whose values and vectors
 * stay. scale: of a weight, against the tolerance. */
static void deflate(struct divide *v, struct merge *g, double scale) {
    int64_t count = merge_orders(v, g), pending = -1;
    double *d = v->d + g->first;
    for (int64_t t = 0; t < g->n; t++)
        v->kind[t] = t < g->top ? TOP : t == g->special ? BOTH : BOTTOM;
    if (g->special >= 0) keep(v, g, g->special, 0);
    for (int64_t i = 0; i < count; i++) {
        int64_t t = v->sorted[i];
        if (!(fabs(v->weight[t]) * scale > g->tolerance)) {
            v->gone[g->gone++] = t;
            continue;
        }
        if (pending >= 0 && equal_enough(v, g, pending, t)) {
            give_weight(v, g, pending, t);
            v->gone[g->gone++] = pending;
        } else if (pending >= 0) {
            keep(v, g, pending, d[pending]);
        }
        pending = t;
    }
    if (pending >= 0) keep(v, g, pending, d[pending]);
    for (int64_t i = 1; i < g->gone; i++) { /* all but in order */
        int64_t t = v->gone[i], k = i;
        for (; k > 0 && d[v->gone[k - 1]] > d[t]; k--)
            v->gone[k] = v->gone[k - 1];
        v->gone[k] = t;
    }
}

/* Rows that are kept are multiplied in the order of their kinds: place[j] is that of the j-th. */
static void place_rows(struct divide *v, struct merge *g) {
    int64_t at[KINDS] = {0};
    for (int64_t j = 0; j < g->kept; j++)
        g->of_kind[v->kind[v->row[j]]]++;
    for (int k = 1; k < KINDS; k++)
        at[k] = at[k - 1] + g->of_kind[k - 1];
    for (int64_t j = 0; j < g->kept; j++)
        v->place[j] = at[v->kind[v->row[j]]]++;
}

static void store_coefficients(const struct divide *v, int64_t count, REAL *to) {
    double squares = 0;
    for (int64_t j = 0; j < count; j++)
        squares += v->line[j] * v->line[j];
    double factor = -1 / sqrt(squares);
    for (int64_t j = 0; j < count; j++)
        to[v->place[j]] = (REAL)(factor * v->line[j]);
}

/* Eigenvectors, or right and left singular vectors, of the secular equation; with the sign that
 * negative_product takes away. */
static void make_coefficients(struct divide *v, const struct merge *g) {
    int64_t k = g->kept;
    for (int64_t i = 0; i < k; i++) {
        secular_vector(&v->secular, i, v->line);
        store_coefficients(v, k, v->of_right + i * k);
        if (!v->left) continue;
        for (int64_t j = 0; j < k; j++)
            v->line[j] = j ? v->line[j] * v->secular.d[j] : -1;
        store_coefficients(v, k, v->of_left + i * k);
    }
}

/* The kept rows become their products with the coefficients, those that are gone come after them;
 * the first part's rows have numbers in the columns `top`, the second's in `bottom`. */
static void multiply_rows(struct divide *v, const struct merge *g, REAL *rows, const REAL *of,
                          struct range top, struct range bottom) {
    int64_t k = g->kept, stride = v->stride, tops = g->of_kind[TOP] + g->of_kind[BOTH];
    int64_t bottoms = g->of_kind[BOTH] + g->of_kind[BOTTOM], skip = g->of_kind[TOP];
    int64_t wide = top.to - top.from, narrow = bottom.to - bottom.from;
    int64_t all = bottom.to - top.from;
    REAL *first = v->copies, *second = first + tops * wide, *rest = second + bottoms * narrow;
    rows += g->first * stride;
    for (int64_t j = 0; j < k; j++) {
        const REAL *row = rows + v->row[j] * stride;
        int64_t at = v->place[j];
        if (at < tops) memcpy(first + at * wide, row + top.from, (size_t)wide * sizeof *row);
        if (at >= skip)
            memcpy(second + (at - skip) * narrow, row + bottom.from, (size_t)narrow * sizeof *row);
    }
    for (int64_t j = 0; j < g->gone; j++)
        memcpy(rest + j * all, rows + v->gone[j] * stride + top.from, (size_t)all * sizeof *rows);
    struct product p = product_of(k, wide, tops, k, wide, stride);
    negative_product(rows + top.from, of, first, &p);
    p = product_of(k, narrow, bottoms, k, narrow, stride);
    negative_product(rows + bottom.from, of + skip, second, &p);
    for (int64_t j = 0; j < g->gone; j++)
        memcpy(rows + (k + j) * stride + top.from, rest + j * all, (size_t)all * sizeof *rows);
}

/* Values and their order; those of the equation come first. */
static void merge_values(struct divide *v, const struct merge *g) {
    double *d = v->d + g->first;
    int64_t *order = v->order + g->first, i = 0, j = 0;
    for (int64_t t = 0; t < g->gone; t++)
        v->old[t] = d[v->gone[t]];
    for (int64_t t = 0; t < g->kept; t++)
        d[t] = secular_value(&v->secular, t);
    memcpy(d + g->kept, v->old, (size_t)g->gone * sizeof *d);
    for (int64_t t = 0; t < g->n; t++) {
        bool root = j == g->gone || (i < g->kept && d[i] <= d[g->kept + j]);
        order[t] = root ? i : g->kept + j;
        *(root ? &i : &j) += 1;
    }
}

#endif
