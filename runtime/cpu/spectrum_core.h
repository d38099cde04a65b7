/* Divide and conquer for one type of reals: spectrum_f32.c and spectrum_f64.c include this. */
#include "runtime/cpu/spectrum_merge.h"
#include "runtime/cpu/spectrum_steps.h"

/* Parts of at most so many rows are not divided. */
enum { LEAF = 24, LEAF_SIDE = LEAF + 1 };

/* ---- parts that are not divided ---- */

/* Positions in ascending order; equal ones stay in theirs. */
static void sort_values(const double *values, int64_t *order, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t k = i;
        for (; k > 0 && values[order[k - 1]] > values[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

/* Rows of a leaf start as those of the unit matrix, or as their first and last numbers. */
static int64_t unit_rows(const struct divide *v, REAL *rows, int64_t n) {
    int64_t width = v->full ? n : 2;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++)
            rows[i * width + j] = v->full ? i == j : i == (j ? n - 1 : 0);
    return width;
}

static void place_leaf(const struct divide *v, REAL *to, const REAL *rows, int64_t first,
                       int64_t n) {
    int64_t width = v->full ? n : 2;
    to += first * v->stride + (v->full ? first : 0);
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * v->stride, rows + i * width, (size_t)width * sizeof *to);
}

static int64_t tridiagonal_leaf(struct divide *v, int64_t first, int64_t n) {
    REAL *rows = (REAL *)v->leaf;
    double e[LEAF];
    int64_t width = unit_rows(v, rows, n);
    struct log log = log_at(v->leaf + sizeof(REAL) * LEAF_SIDE * LEAF_SIDE * 2, rows, n, width);
    memcpy(e, v->e + first, (size_t)n * sizeof *e);
    int64_t failed = ql(v->d + first, e, n, &log);
    sort_values(v->d + first, v->order + first, n);
    place_leaf(v, v->right, rows, first, n);
    return failed;
}

/* The number right of the last row, e[n - 1], moves into the rows, by way of the lower bidiagonal
 * form: rows of v, n + 1, and u turn with it. */
static void absorb_last(double *d, double *e, int64_t n, struct log *u, struct log *v) {
    for (int below = 0; below < 2; below++) {
        int64_t count = below ? n - 1 : n;
        struct log *log = below ? u : v;
        struct rotation *turn = log && count ? begin_sweep(log, 0, count, false) : NULL;
        for (int64_t i = 0; i < count; i++) {
            double r = length_of(d[i], e[i]), c = r > 0 ? d[i] / r : 1, s = r > 0 ? e[i] / r : 0;
            d[i] = r;
            e[i] = 0;
            if (turn) turn[i] = (struct rotation){c, -s};
            if (i + 1 == n) break;
            e[i] = s * d[i + 1];
            d[i + 1] *= c;
        }
    }
}

/* n rows, and a column more than that where `extra` is 1. */
static int64_t bidiagonal_leaf(struct divide *v, int64_t first, int64_t n, int64_t extra) {
    REAL *right = (REAL *)v->leaf, *left = right + LEAF_SIDE * LEAF_SIDE;
    char *logs = (char *)(left + LEAF_SIDE * LEAF_SIDE);
    double *d = v->d + first, e[LEAF];
    int64_t width = unit_rows(v, right, n + extra);
    struct log v_log = log_at(logs, right, n + extra, width), u_log, *u = NULL;
    if (v->left) {
        u_log = log_at(logs + log_bytes(LEAF_SIDE), left, n, unit_rows(v, left, n));
        u = &u_log;
    }
    for (int64_t i = 0; i < n; i++)
        e[i] = i + 1 < n || extra ? v->e[first + i] : 0;
    if (extra) absorb_last(d, e, n, u, &v_log);
    bool good = bidiagonal_qr(d, e, n, u, &v_log);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < width && d[j] < 0; i++)
            right[j * width + i] = -right[j * width + i];
        d[j] = fabs(d[j]);
    }
    sort_values(d, v->order + first, n);
    place_leaf(v, v->right, right, first, n + extra);
    if (v->left) place_leaf(v, v->left, left, first, n);
    return good ? 0 : n;
}

/* ---- merges ---- */

/* Weights of the rows: the first part's last numbers times a, the second's first ones times b.
 * bottom: the second's first row; where vectors are not full, ends that are no longer such go. */
static void weigh(struct divide *v, const struct merge *g, int64_t bottom, double a, double b) {
    int64_t rows = g->special < 0 ? g->n : g->columns;
    for (int64_t t = 0; t < rows; t++) {
        REAL *row = v->right + (g->first + t) * v->stride;
        int64_t at = v->full ? g->first + bottom - (t < bottom) : t < bottom;
        v->weight[t] = (t < bottom ? a : b) * (double)row[at];
        if (!v->full) row[at] = 0;
    }
}

static double largest(const double *x, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static struct range columns_of(const struct divide *v, int64_t first, int64_t from, int64_t to,
                               int side) {
    return v->full ? (struct range){first + from, first + to} : (struct range){side, side + 1};
}

static void merge_tridiagonal(struct divide *v, int64_t first, int64_t top, int64_t n,
                              double beta) {
    struct merge g = {.first = first, .n = n, .top = top, .columns = n, .special = -1};
    double rho = 2 * fabs(beta), half = sqrt(0.5);
    weigh(v, &g, top, half, copysign(half, beta));
    g.tolerance = 4 * REAL_EPSILON * fmax(largest(v->d + first, n), largest(v->weight, n));
    deflate(v, &g, rho);
    v->secular.count = g.kept;
    v->secular.rho = rho;
    secular_solve(&v->secular);
    place_rows(v, &g);
    make_coefficients(v, &g);
    multiply_rows(v, &g, v->right, v->of_right, columns_of(v, first, 0, top, 0),
                  columns_of(v, first, top, n, 1));
    merge_values(v, &g);
}

/* Between the parts is one row, alpha and beta in the last column of the first part and the first
 * of the second. */
static void merge_bidiagonal(struct divide *v, int64_t first, int64_t top, int64_t n, int64_t extra,
                             double alpha, double beta) {
    struct merge g = {first, n, top, n + extra, .special = top};
    double *weight = v->weight, *special = &weight[top];
    v->d[first + top] = 0;
    weigh(v, &g, top + 1, alpha, beta);
    g.tolerance = 4 * REAL_EPSILON * fmax(largest(v->d + first, n), fmax(fabs(alpha), fabs(beta)));
    if (extra) { /* both parts have a column that no row of theirs needs: into one */
        double size = length_of(*special, weight[n]);
        if (size > g.tolerance) {
            struct merge right = g;
            REAL *left = v->left;
            v->left = NULL;
            turn_vectors(v, &right, top, n, *special / size, weight[n] / size);
            v->left = left;
        }
        *special = size;
    }
    if (!(fabs(*special) > g.tolerance)) *special = g.tolerance;
    deflate(v, &g, 1);
    struct secular *s = &v->secular;
    s->count = g.kept;
    if (s->count > 1) s->d[1] = fmax(s->d[1], g.tolerance / 2);
    s->rho = 1;
    secular_solve(s);
    place_rows(v, &g);
    make_coefficients(v, &g);
    multiply_rows(v, &g, v->right, v->of_right, columns_of(v, first, 0, top + 1, 0),
                  columns_of(v, first, top + 1, n + extra, 1));
    if (v->left) {
        multiply_rows(v, &g, v->left, v->of_left, columns_of(v, first, 0, top, 0),
                      columns_of(v, first, top + 1, n, 1));
        for (int64_t i = 0; i < g.kept; i++)
            v->left[(first + i) * v->stride + first + top] = -v->of_left[i * g.kept + v->place[0]];
    }
    merge_values(v, &g);
}

/* ---- the whole ---- */

static int64_t solve_tridiagonal(struct divide *v, int64_t first, int64_t n) {
    if (n <= LEAF) return tridiagonal_leaf(v, first, n);
    int64_t top = n / 2, middle = first + top;
    double beta = v->e[middle - 1];
    v->d[middle - 1] -= fabs(beta);
    v->d[middle] -= fabs(beta);
    int64_t failed = solve_tridiagonal(v, first, top);
    failed += solve_tridiagonal(v, middle, n - top);
    merge_tridiagonal(v, first, top, n, beta);
    return failed;
}

static int64_t solve_bidiagonal(struct divide *v, int64_t first, int64_t n, int64_t extra) {
    if (n <= LEAF) return bidiagonal_leaf(v, first, n, extra);
    int64_t top = n / 2, middle = first + top;
    double alpha = v->d[middle], beta = v->e[middle];
    int64_t failed = solve_bidiagonal(v, first, top, 1);
    failed += solve_bidiagonal(v, middle + 1, n - top - 1, extra);
    merge_bidiagonal(v, first, top, n, extra, alpha, beta);
    return failed;
}

/* Lays the memory out; vectors that are not wanted have their ends there. */
static void lay_out(struct divide *v, int64_t n, bool two, struct room *room) {
    int64_t side = n + 1, padded = round_up(side, SECULAR_LANES) + SECULAR_LANES;
    double **numbers[] = {&v->secular.d,    &v->secular.z, &v->secular.offset, &v->secular.fitted,
                          &v->secular.pole, &v->weight,    &v->line,           &v->old};
    int64_t **places[] = {&v->secular.origin, &v->row, &v->gone, &v->place, &v->sorted};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = take(room, padded, sizeof(double));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        *places[i] = take(room, padded, sizeof(int64_t));
    v->kind = take(room, side, 1);
    v->of_right = take(room, n * n, sizeof(REAL));
    v->of_left = two ? take(room, n * n, sizeof(REAL)) : NULL;
    v->copies = take(room, side * (v->full ? side : 2) + side, sizeof(REAL));
    v->leaf =
        take(room, 1, sizeof(REAL) * LEAF_SIDE * LEAF_SIDE * 2 + (size_t)log_bytes(LEAF_SIDE) * 2);
    if (!v->full) v->right = take(room, side * 2, sizeof(REAL));
}

int64_t SPECTRUM(hlocc_rt_spectrum_bytes)(int64_t n) {
    struct divide v = {.full = true};
    struct room room = {NULL, 0};
    lay_out(&v, n, true, &room);
    return room.used + hlocc_rt_align(2 * (n + 1) * (int64_t)sizeof(REAL));
}

static struct divide divide_of(int64_t n, double *d, double *e, REAL *left, REAL *right,
                               int64_t *order, void *memory, bool squares) {
    struct divide v = {.full = right,
                       .stride = right ? n : 2,
                       .d = d,
                       .e = e,
                       .order = order,
                       .left = left,
                       .right = right};
    struct room room = {memory, 0};
    lay_out(&v, n, left, &room);
    v.secular.squares = squares;
    v.secular.tolerance = REAL_EPSILON / 2;
    for (int k = 0; k < 2 && right; k++)
        if (k || left) memset(k ? right : left, 0, (size_t)(n * n) * sizeof *right);
    return v;
}

int64_t SPECTRUM(hlocc_rt_tridiagonal)(int64_t n, double *d, double *e, REAL *q, int64_t *order,
                                       void *memory) {
    struct divide v = divide_of(n, d, e, NULL, q, order, memory, false);
    return solve_tridiagonal(&v, 0, n);
}

int64_t SPECTRUM(hlocc_rt_bidiagonal)(int64_t n, double *d, double *e, REAL *u, REAL *v,
                                      int64_t *order, void *memory) {
    struct divide all = divide_of(n, d, e, u, v, order, memory, true);
    return solve_bidiagonal(&all, 0, n, 0);
}
