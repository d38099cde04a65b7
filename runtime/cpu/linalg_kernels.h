/* The kernels of linalg.c for one kind of number; included after matrix.h, twice. */

static void FN(load)(const struct matrix *m, NUM *out, const void *in, int64_t first,
                     int64_t count) {
    for (int64_t k = 0; k < count; k++)
        out[k] = TAKE(number_get(m->type, in, first + k));
}

static void FN(store)(const struct matrix *m, void *out, int64_t first, const NUM *in,
                      int64_t count) {
    for (int64_t k = 0; k < count; k++)
        number_set(m->type, out, first + k, in[k]);
}

static void FN(run_cholesky)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t n = m->columns, count = n * n, info = m->flags & LINALG_INFO ? 1 : 0;
    bool lower = m->flags & LINALG_LOWER;
    FN(load)(m, a, arrays[1 + info], unit * count, count);
    if (!lower) /* work on the lower triangle */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                a[i * n + j] = CONJ(a[j * n + i]);
    bool good = FN(cholesky)(a, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            a[i * n + j] = lower ? 0 : CONJ(a[j * n + i]);
            if (!lower) a[j * n + i] = 0;
        }
    for (int64_t k = 0; k < count && !good; k++)
        a[k] = MAKE((double)NAN, (double)NAN);
    FN(store)(m, arrays[0], unit * count, a, count);
    if (info) ((int32_t *)arrays[1])[unit] = !good;
}

static void FN(run_solve)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    bool left = m->flags & LINALG_LEFT, lower = m->flags & LINALG_LOWER;
    int64_t n = left ? m->rows : m->columns, others = left ? m->columns : m->rows;
    /* x op(a) = b is op(a)^T x^T = b^T */
    bool transpose = !(m->flags & LINALG_TRANSPOSE) == !left;
    bool conjugate = m->flags & LINALG_CONJUGATE;
    NUM *matrix = a + n * n, *b = a + 2 * n * n, *spare = b + n * others;
    FN(load)(m, a, arrays[1], unit * n * n, n * n);
    if (transpose)
        FN(transpose)(matrix, a, n, n, conjugate);
    else
        for (int64_t k = 0; k < n * n; k++)
            matrix[k] = conjugate ? CONJ(a[k]) : a[k];
    FN(load)(m, left ? b : spare, arrays[2], unit * n * others, n * others);
    if (!left) FN(transpose)(b, spare, others, n, false);
    FN(solve)(matrix, b, n, others, lower != transpose, m->flags & LINALG_UNIT);
    if (!left) FN(transpose)(spare, b, n, others, false);
    FN(store)(m, arrays[0], unit * n * others, left ? b : spare, n * others);
}

static void FN(run_getrf)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    FN(load)(m, a, arrays[3], unit * count, count);
    ((int32_t *)arrays[2])[unit] =
        (int32_t)FN(lu)(a, m->rows, m->columns, (int32_t *)arrays[1] + unit * least);
    FN(store)(m, arrays[0], unit * count, a, count);
}

static void FN(run_geqrf)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    NUM *tau = a + count;
    FN(load)(m, a, arrays[2], unit * count, count);
    FN(qr)(a, m->rows, m->columns, tau, tau + least);
    FN(store)(m, arrays[0], unit * count, a, count);
    FN(store)(m, arrays[1], unit * least, tau, least);
}

static void FN(run_geqp3)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    NUM *tau = a + count;
    int32_t *order = (int32_t *)arrays[1] + unit * m->columns;
    FN(load)(m, a, arrays[3], unit * count, count);
    memmove(order, (int32_t *)arrays[4] + unit * m->columns, (size_t)m->columns * sizeof *order);
    FN(pivoted_qr)(a, m->rows, m->columns, order, tau, tau + least);
    FN(store)(m, arrays[0], unit * count, a, count);
    FN(store)(m, arrays[2], unit * least, tau, least);
}

static void FN(run_gehrd)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t n = m->columns, count = n * n;
    NUM *tau = a + count, *v = tau + n, *sums = v + n;
    FN(load)(m, a, arrays[3], unit * count, count);
    FN(hessenberg)(a, n, m->extra - 1, m->extra2, tau, v, sums);
    FN(store)(m, arrays[0], unit * count, a, count);
    if (n > 1) FN(store)(m, arrays[1], unit * (n - 1), tau, n - 1);
    ((int32_t *)arrays[2])[unit] = 0;
}

static void FN(run_gtsv)(const struct matrix *m, void *const *arrays, NUM *b, int64_t unit) {
    int64_t n = m->rows, count = n * m->columns;
    NUM *diagonals = b + count;
    FN(load)(m, b, arrays[8], unit * count, count);
    for (int k = 0; k < 3; k++)
        FN(load)(m, diagonals + k * n, arrays[5 + k], unit * n, n);
    ((int32_t *)arrays[4])[unit] =
        (int32_t)FN(tridiagonal)(diagonals, diagonals + n, diagonals + 2 * n, b, n, m->columns);
    FN(store)(m, arrays[3], unit * count, b, count);
    for (int k = 0; k < 3; k++)
        FN(store)(m, arrays[k], unit * n, diagonals + k * n, n);
}

static void FN(run_orgqr)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t count = m->rows * m->columns;
    NUM *tau = a + count;
    FN(load)(m, a, arrays[1], unit * count, count);
    FN(load)(m, tau, arrays[2], unit * m->extra, m->extra);
    FN(form_q)(a, tau, m->rows, m->columns, m->extra, tau + m->extra);
    FN(store)(m, arrays[0], unit * count, a, count);
}

/* c Q is (Q^H c^H)^H. */
static void FN(run_ormqr)(const struct matrix *m, void *const *arrays, NUM *c, int64_t unit) {
    bool left = m->flags & LINALG_LEFT, adjoint = m->flags & LINALG_CONJUGATE;
    int64_t count = m->rows * m->columns, rows = left ? m->rows : m->columns;
    int64_t columns = left ? m->columns : m->rows;
    NUM *vectors = c + count, *tau = vectors + rows * m->extra, *sums = tau + m->extra;
    NUM *spare = sums + columns;
    FN(load)(m, vectors, arrays[1], unit * rows * m->extra, rows * m->extra);
    FN(load)(m, tau, arrays[2], unit * m->extra, m->extra);
    FN(load)(m, left ? c : spare, arrays[3], unit * count, count);
    if (!left) FN(transpose)(c, spare, columns, rows, true);
    FN(apply_q)(c, vectors, m->extra, tau, m->extra, rows, columns, left ? adjoint : !adjoint,
                sums);
    if (!left) FN(transpose)(spare, c, rows, columns, true);
    FN(store)(m, arrays[0], unit * count, left ? c : spare, count);
}

static void FN(run_syevd)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t n = m->columns, count = n * n;
    NUM *q = a + count, *tau = q + count, *p = tau + n;
    double *d = (double *)(p + n), *e = d + n;
    int64_t *order = (int64_t *)(e + n);
    int64_t info = m->flags & LINALG_INFO ? 1 : 0;
    FN(load)(m, a, arrays[2 + info], unit * count, count);
    if (!(m->flags & LINALG_LOWER))
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                a[i * n + j] = CONJ(a[j * n + i]);
    FN(tridiagonalise)(a, n, d, e, tau, p);
    FN(tridiagonal_q)(a, n, tau, q);
    int64_t failed = FN(ql)(d, e, q, n);
    if (info) ((int32_t *)arrays[2])[unit] = (int32_t)failed;
    sort_values(d, order, n, false);
    for (int64_t j = 0; j < n; j++) {
        number_set(m->real_type, arrays[1], unit * n + j, d[order[j]]);
        for (int64_t i = 0; i < n; i++)
            number_set(m->type, arrays[0], unit * count + i * n + j, q[order[j] * n + i]);
    }
}

/* A tall matrix or the adjoint of a wide one, a = rows x columns, as q * blkdiag(v^H, 1) * diag(d)
 * times the rows of w; `width` columns of q are wanted. */
struct FN(svd) {
    int64_t rows, columns, width;
    NUM *q, *w, *v, *tau, *p, *sums;
    double *d, *e;
    int64_t *order;
};

static int64_t FN(decompose)(struct FN(svd) * s) {
    int64_t n = s->columns, width = s->width;
    /* a lies in q, rows of `width` numbers of which the first n count */
    for (int64_t k = 0; k < n; k++) {
        s->tau[k] = FN(reflection)(s->q + k * width + k, s->rows - k, width);
        FN(reflect)(s->q, s->q, width, k, s->rows, width, k + 1, n, CONJ(s->tau[k]), s->sums);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            s->w[i * n + j] = j < i ? 0 : s->q[i * width + j];
            s->v[i * n + j] = i == j;
        }
    FN(form_q)(s->q, s->tau, s->rows, width, n, s->sums);
    double least = (double)n * DBL_EPSILON * FN(norm)(s->w, n * n, 1);
    FN(turn_rows)(s->w, s->v, n, n, s->sums, s->d, s->e, s->tau, s->p);
    bool good = FN(orthogonalise)(s->w, s->v, n, n, least, s->e);
    for (int64_t j = 0; j < n; j++)
        s->d[j] = FN(norm)(s->w + j * n, n, 1);
    sort_values(s->d, s->order, n, true);
    for (int64_t j = 0; j < n; j++) { /* sorted rows of unit length, in a */
        NUM *row = s->sums + j * n;
        const NUM *from = s->w + s->order[j] * n;
        double size = s->d[s->order[j]];
        for (int64_t i = 0; i < n; i++)
            row[i] = from[i] / size;
        if (size <= least) FN(complete)(s->sums, j, n);
    }
    return good ? 0 : 1;
}

/* Column j of the left factor at row i. */
static NUM FN(left)(const struct FN(svd) * s, int64_t i, int64_t j) {
    const NUM *row = s->q + i * s->width;
    if (j >= s->columns) return row[j];
    return FN(product)(row, s->v + s->order[j] * s->columns, s->columns);
}

static void FN(run_gesdd)(const struct matrix *m, void *const *arrays, NUM *memory, int64_t unit) {
    bool wide = m->rows < m->columns;
    int64_t rows = wide ? m->columns : m->rows, n = wide ? m->rows : m->columns;
    int64_t left = wide ? m->extra2 : m->extra, right = wide ? m->extra : m->extra2;
    int64_t width = left > n ? left : n, count = rows * n;
    struct FN(svd) s = {.rows = rows, .columns = n, .width = width, .q = memory};
    s.w = s.q + rows * width;
    s.v = s.w + n * n;
    s.tau = s.v + n * n;
    s.p = s.tau + n;
    s.sums = s.p + n;
    s.d = (double *)(s.sums + n * n + width);
    s.e = s.d + n;
    s.order = (int64_t *)(s.e + n);
    memset(s.q, 0, (size_t)(rows * width) * sizeof *s.q);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = wide ? j * m->columns + i : i * m->columns + j;
            NUM x = TAKE(number_get(m->type, arrays[5], unit * count + at));
            number_set(m->type, arrays[0], unit * count + at, x);
            s.q[i * width + j] = wide ? CONJ(x) : x;
        }
    ((int32_t *)arrays[4])[unit] = (int32_t)FN(decompose)(&s);
    for (int64_t j = 0; j < n; j++)
        number_set(m->real_type, arrays[1], unit * n + j, s.d[s.order[j]]);
    void *u = arrays[wide ? 3 : 2], *vt = arrays[wide ? 2 : 3];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < left; j++) {
            NUM x = FN(left)(&s, i, j);
            int64_t at = wide ? j * rows + i : i * left + j;
            number_set(m->type, u, unit * rows * left + at, wide ? CONJ(x) : x);
        }
    for (int64_t i = 0; i < right; i++)
        for (int64_t j = 0; j < n; j++) {
            NUM x = s.sums[i * n + j];
            int64_t at = wide ? j * right + i : i * n + j;
            number_set(m->type, vt, unit * right * n + at, wide ? CONJ(x) : x);
        }
}
