/* The kernels of linalg.c for one kind of number; included after matrix.h, twice. */

CLONES static void FN(load)(const struct matrix *m, NUM *out, const void *in, int64_t first,
                            int64_t count) {
    const float *f = (const float *)in + first;
    const double *d = (const double *)in + first;
    switch (m->type) {
    case RT_F32:
        for (int64_t k = 0; k < count; k++)
            out[k] = (NUM)f[k];
        break;
    case RT_F64:
        for (int64_t k = 0; k < count; k++)
            out[k] = (NUM)d[k];
        break;
    default:
        for (int64_t k = 0; k < count; k++)
            out[k] = (NUM)TAKE(number_get(m->type, in, first + k));
    }
}

CLONES static void FN(store)(const struct matrix *m, void *out, int64_t first, const NUM *in,
                             int64_t count) {
    float *f = (float *)out + first;
    double *d = (double *)out + first;
    switch (m->type) {
    case RT_F32:
        for (int64_t k = 0; k < count; k++)
            f[k] = (float)RE(in[k]);
        break;
    case RT_F64:
        for (int64_t k = 0; k < count; k++)
            d[k] = (double)RE(in[k]);
        break;
    default:
        for (int64_t k = 0; k < count; k++)
            number_set(m->type, out, first + k, in[k]);
    }
}

static void FN(run_cholesky)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t n = m->columns, count = n * n, info = m->flags & LINALG_INFO ? 1 : 0;
    bool lower = m->flags & LINALG_LOWER;
    FN(load)(m, a, arrays[1 + info], unit * count, count);
    if (!lower) /* work on the lower triangle */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                a[i * n + j] = CONJ(a[j * n + i]);
    bool good = FN(cholesky)(a, n, a + count);
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
        for (int64_t k = 0; k < n * n && conjugate; k++)
            matrix[k] = CONJ(a[k]);
    FN(load)(m, left ? b : spare, arrays[2], unit * n * others, n * others);
    if (!left) FN(transpose)(b, spare, others, n, false);
    const NUM *op = transpose || conjugate ? matrix : a;
    bool unit_diagonal = m->flags & LINALG_UNIT;
#ifdef VECTOR
    if (others == 1)
        FN(solve_vector)(op, n, b, 1, n, lower != transpose, unit_diagonal, spare);
    else
#endif
        FN(solve)(op, n, b, others, n, others, lower != transpose, unit_diagonal);
    if (!left) FN(transpose)(spare, b, n, others, false);
    FN(store)(m, arrays[0], unit * n * others, left ? b : spare, n * others);
}

static void FN(run_getrf)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    FN(load)(m, a, arrays[3], unit * count, count);
    ((int32_t *)arrays[2])[unit] =
        (int32_t)FN(lu)(a, m->columns, m->rows, m->columns, (int32_t *)arrays[1] + unit * least);
    FN(store)(m, arrays[0], unit * count, a, count);
}

static void FN(run_geqrf)(const struct matrix *m, void *const *arrays, NUM *a, int64_t unit) {
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    NUM *tau = a + count;
    FN(load)(m, a, arrays[2], unit * count, count);
    FN(qr)(a, m->columns, m->rows, m->columns, tau, tau + least);
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
    NUM *spare = sums + block_room(rows, columns);
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
    int64_t n = m->columns, count = n * n, info = m->flags & LINALG_INFO ? 1 : 0;
    bool vectors = !(m->flags & LINALG_VALUES);
    NUM *q = a + count, *w = q + count, *tau = w + count, *room = tau + n;
    double *d = doubles_after(room + block_room(n, n)), *e = d + n;
    int64_t *order = (int64_t *)(e + n);
    struct LOG(log) log = LOG(log_at)(order + n, (void *)q, n, n * PARTS);
    FN(load)(m, a, arrays[2 + info], unit * count, count);
    if (!(m->flags & LINALG_LOWER))
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                a[i * n + j] = CONJ(a[j * n + i]);
    FN(tridiagonalise)(a, n, d, e, tau, room);
    if (vectors) FN(tridiagonal_q)(a, n, tau, q, w, room);
    int64_t failed = FN(ql)(d, e, n, vectors ? &log : NULL);
    if (info) ((int32_t *)arrays[2])[unit] = (int32_t)failed;
    sort_values(d, order, n, false);
    for (int64_t j = 0; j < n; j++) {
        number_set(m->real_type, arrays[1], unit * n + j, d[order[j]]);
        for (int64_t i = 0; i < n; i++)
            w[j * n + i] = vectors ? q[order[j] * n + i] : 0;
    }
    FN(transpose)(a, w, n, n, false);
    FN(store)(m, arrays[0], unit * count, a, count);
}

/* A tall matrix or the adjoint of a wide one, rows x n, of which U S V^H is wanted: `width` columns
 * of U, at least n where any are. */
struct FN(svd) {
    int64_t rows, n, width;
    bool vectors;
    NUM *q;         /* the matrix in rows of `width` numbers; then U */
    NUM *u, *v, *w; /* n squared; u, v: their rows are columns of factors of the triangle */
    NUM *tau, *tau_right, *sums, *line, *room;
    double *d, *e;
    int64_t *order;
    void *logs;
};

static int64_t FN(svd_room)(int64_t rows, int64_t n, int64_t width) {
    return rows * width + 3 * n * n + 4 * n + block_room(rows, width) + rows * n;
}

/* The columns of U in the order of the values: q times the matrix whose columns are u's rows. */
static void FN(left_vectors)(struct FN(svd) * s) {
    int64_t n = s->n, width = s->width;
    NUM *product = s->room + block_room(s->rows, width);
    struct product p = {.rows = s->rows,
                        .columns = n,
                        .depth = n,
                        .a_row = width,
                        .a_column = 1,
                        .b_row = 1,
                        .b_column = n,
                        .c_row = n};
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            s->w[j * n + i] = -s->u[s->order[j] * n + i];
    memset((void *)product, 0, (size_t)(s->rows * n) * sizeof *product);
    FN(subtract_product)(product, s->q, s->w, &p);
    for (int64_t i = 0; i < s->rows; i++)
        memcpy((void *)(s->q + i * width), product + i * n, (size_t)n * sizeof *product);
}

static int64_t FN(decompose)(struct FN(svd) * s) {
    int64_t n = s->n, width = s->width;
    struct LOG(log) left = LOG(log_at)(s->logs, (void *)s->u, n, n * PARTS);
    struct LOG(log) right =
        LOG(log_at)((char *)s->logs + LOG(log_bytes)(n), (void *)s->v, n, n * PARTS);
    FN(qr)(s->q, width, s->rows, n, s->tau, s->room);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            s->w[i * n + j] = j < i ? 0 : s->q[i * width + j];
    if (s->vectors) FN(form_q)(s->q, s->tau, s->rows, width, n, s->room);
    FN(bidiagonalise)(s->w, n, s->d, s->e, s->tau, s->tau_right, s->sums, s->line);
    if (s->vectors) {
        NUM *spare = s->room + block_room(s->rows, width); /* rows * n numbers */
        FN(bidiagonal_vectors)(s->w, n, s->tau, s->tau_right, s->u, s->v, spare, s->room);
    }
    bool good =
        FN(bidiagonal_qr)(s->d, s->e, n, s->vectors ? &left : NULL, s->vectors ? &right : NULL);
    for (int64_t j = 0; j < n; j++) {
        bool negative = s->d[j] < 0;
        for (int64_t i = 0; i < n && negative && s->vectors; i++)
            s->v[j * n + i] = -s->v[j * n + i];
        s->d[j] = fabs(s->d[j]);
    }
    sort_values(s->d, s->order, n, true);
    if (s->vectors) FN(left_vectors)(s);
    return good ? 0 : 1;
}

static void FN(run_gesdd)(const struct matrix *m, void *const *arrays, NUM *memory, int64_t unit) {
    bool wide = m->rows < m->columns;
    int64_t rows = wide ? m->columns : m->rows, n = wide ? m->rows : m->columns;
    int64_t left = wide ? m->extra2 : m->extra, right = wide ? m->extra : m->extra2;
    int64_t width = left > n ? left : n, count = rows * n;
    struct FN(svd) s = {.rows = rows, .n = n, .width = width, .q = memory};
    s.vectors = !(m->flags & LINALG_VALUES);
    s.u = s.q + rows * width;
    s.v = s.u + n * n;
    s.w = s.v + n * n;
    s.tau = s.w + n * n;
    s.tau_right = s.tau + n;
    s.sums = s.tau_right + n;
    s.line = s.sums + n;
    s.room = s.line + n;
    s.d = doubles_after(memory + FN(svd_room)(rows, n, width));
    s.e = s.d + n;
    s.order = (int64_t *)(s.e + n);
    s.logs = s.order + n;
    memset((void *)s.q, 0, (size_t)(rows * width) * sizeof *s.q);
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
            NUM x = s.vectors ? s.q[i * width + j] : 0;
            int64_t at = wide ? j * rows + i : i * left + j;
            number_set(m->type, u, unit * rows * left + at, wide ? CONJ(x) : x);
        }
    for (int64_t i = 0; i < right; i++)
        for (int64_t j = 0; j < n; j++) {
            NUM x = s.vectors ? CONJ(s.v[s.order[i] * n + j]) : 0;
            int64_t at = wide ? j * right + i : i * n + j;
            number_set(m->type, vt, unit * right * n + at, wide ? CONJ(x) : x);
        }
}
