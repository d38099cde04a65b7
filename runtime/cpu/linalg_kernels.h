/* The kernels for one number type: linalg_f32.c and its kind include this with KERNELS, the table's
 * name, defined. */
#include "runtime/cpu/matrix.h"
#include "runtime/cpu/matrix_eigen.h"
#include "runtime/cpu/matrix_reflections.h"

static int64_t bytes_of(int64_t numbers) {
    return hlocc_rt_align(numbers * (int64_t)sizeof(NUM));
}

/* Memory for so many numbers of the type. */
#define NUMBERS_OF(room, count) ((NUM *)take(room, count, sizeof(NUM)))

/* Whether the arrays' numbers are of the type computed with. */
static bool same_type(const struct matrix *m) {
    return number_is_complex(m->type) == (PARTS == 2) && m->real_type == (SINGLE ? RT_F32 : RT_F64);
}

CLONES static void load(const struct matrix *m, NUM *out, const void *in, int64_t first,
                        int64_t count) {
    const float *f = (const float *)in + first;
    const double *d = (const double *)in + first;
    if (same_type(m)) {
        memcpy((void *)out, (const NUM *)in + first, (size_t)count * sizeof *out);
        return;
    }
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
            out[k] = TAKE(number_get(m->type, in, first + k));
    }
}

/* A matrix that is only read: in its place, or in the room. */
static const NUM *matrix_at(const struct matrix *m, const void *in, int64_t first, int64_t count,
                            NUM *room) {
    if (same_type(m)) return (const NUM *)in + first;
    load(m, room, in, first, count);
    return room;
}

CLONES static void store(const struct matrix *m, void *out, int64_t first, const NUM *in,
                         int64_t count) {
    float *f = (float *)out + first;
    double *d = (double *)out + first;
    if (same_type(m)) {
        memcpy((NUM *)out + first, in, (size_t)count * sizeof *in);
        return;
    }
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
            number_set(m->type, out, first + k, GIVE(in[k]));
    }
}

static int64_t cholesky_bytes(const struct matrix *m) {
    return bytes_of((m->rows + CHOLESKY_BLOCK) * m->columns);
}

static void run_cholesky(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *a = memory;
    int64_t n = m->columns, count = n * n, info = m->flags & LINALG_INFO ? 1 : 0;
    bool lower = m->flags & LINALG_LOWER;
    load(m, a, arrays[1 + info], unit * count, count);
    if (!lower) /* work on the lower triangle */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                a[i * n + j] = CONJ(a[j * n + i]);
    bool good = cholesky(a, n, a + count);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            a[i * n + j] = lower ? 0 : CONJ(a[j * n + i]);
            if (!lower) a[j * n + i] = 0;
        }
    for (int64_t k = 0; k < count && !good; k++)
        a[k] = MAKE((double)NAN, (double)NAN);
    store(m, arrays[0], unit * count, a, count);
    if (info) ((int32_t *)arrays[1])[unit] = !good;
}

static int64_t solve_bytes(const struct matrix *m) {
    int64_t n = m->flags & LINALG_LEFT ? m->rows : m->columns;
    return bytes_of(n * n + 2 * m->rows * m->columns);
}

static void run_solve(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    bool left = m->flags & LINALG_LEFT, lower = m->flags & LINALG_LOWER;
    int64_t n = left ? m->rows : m->columns, others = left ? m->columns : m->rows;
    /* x op(a) = b is op(a)^T x^T = b^T */
    bool turned = !(m->flags & LINALG_TRANSPOSE) == !left;
    NUM *room = memory, *b = room + n * n, *spare = b + n * others;
    const NUM *a = matrix_at(m, arrays[1], unit * n * n, n * n, room);
    struct triangle t = {a,
                         turned ? 1 : n,
                         turned ? n : 1,
                         lower != turned,
                         m->flags & LINALG_UNIT,
                         m->flags & LINALG_CONJUGATE};
    load(m, left ? b : spare, arrays[2], unit * n * others, n * others);
    if (!left) transpose(b, spare, others, n, false);
    if (others == 1)
        solve_vector(&t, b, n);
    else
        solve(t, b, others, n, others);
    if (!left) transpose(spare, b, n, others, false);
    store(m, arrays[0], unit * n * others, left ? b : spare, n * others);
}

static int64_t getrf_bytes(const struct matrix *m) {
    return bytes_of(m->rows * m->columns);
}

static void run_getrf(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *a = memory;
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    load(m, a, arrays[3], unit * count, count);
    ((int32_t *)arrays[2])[unit] =
        (int32_t)lu(a, m->columns, m->rows, m->columns, (int32_t *)arrays[1] + unit * least);
    store(m, arrays[0], unit * count, a, count);
}

static int64_t geqrf_bytes(const struct matrix *m) {
    int64_t rows = m->rows, columns = m->columns;
    return bytes_of(rows * columns + smaller(rows, columns) + block_room(rows, columns));
}

static void run_geqrf(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *a = memory;
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    NUM *tau = a + count;
    load(m, a, arrays[2], unit * count, count);
    qr(a, m->columns, m->rows, m->columns, tau, tau + least);
    store(m, arrays[0], unit * count, a, count);
    store(m, arrays[1], unit * least, tau, least);
}

static int64_t geqp3_bytes(const struct matrix *m) {
    return geqrf_bytes(m);
}

static void run_geqp3(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *a = memory;
    int64_t count = m->rows * m->columns, least = m->rows < m->columns ? m->rows : m->columns;
    NUM *tau = a + count;
    int32_t *order = (int32_t *)arrays[1] + unit * m->columns;
    load(m, a, arrays[3], unit * count, count);
    memmove(order, (int32_t *)arrays[4] + unit * m->columns, (size_t)m->columns * sizeof *order);
    pivoted_qr(a, m->rows, m->columns, order, tau, tau + least);
    store(m, arrays[0], unit * count, a, count);
    store(m, arrays[2], unit * least, tau, least);
}

static int64_t gehrd_bytes(const struct matrix *m) {
    return bytes_of(m->rows * m->columns + 3 * m->columns);
}

static void run_gehrd(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *a = memory;
    int64_t n = m->columns, count = n * n;
    NUM *tau = a + count, *v = tau + n, *sums = v + n;
    load(m, a, arrays[3], unit * count, count);
    hessenberg(a, n, m->extra - 1, m->extra2, tau, v, sums);
    store(m, arrays[0], unit * count, a, count);
    if (n > 1) store(m, arrays[1], unit * (n - 1), tau, n - 1);
    ((int32_t *)arrays[2])[unit] = 0;
}

static int64_t gtsv_bytes(const struct matrix *m) {
    return bytes_of(m->rows * m->columns + 3 * m->rows);
}

static void run_gtsv(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *b = memory;
    int64_t n = m->rows, count = n * m->columns;
    NUM *diagonals = b + count;
    load(m, b, arrays[8], unit * count, count);
    for (int k = 0; k < 3; k++)
        load(m, diagonals + k * n, arrays[5 + k], unit * n, n);
    ((int32_t *)arrays[4])[unit] =
        (int32_t)tridiagonal(diagonals, diagonals + n, diagonals + 2 * n, b, n, m->columns);
    store(m, arrays[3], unit * count, b, count);
    for (int k = 0; k < 3; k++)
        store(m, arrays[k], unit * n, diagonals + k * n, n);
}

static int64_t orgqr_bytes(const struct matrix *m) {
    int64_t rows = m->rows, columns = m->columns;
    return bytes_of(rows * columns + m->extra + block_room(rows, columns));
}

static void run_orgqr(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *a = memory;
    int64_t count = m->rows * m->columns;
    NUM *tau = a + count;
    load(m, a, arrays[1], unit * count, count);
    load(m, tau, arrays[2], unit * m->extra, m->extra);
    form_q(a, tau, m->rows, m->columns, m->extra, tau + m->extra);
    store(m, arrays[0], unit * count, a, count);
}

static int64_t ormqr_bytes(const struct matrix *m) {
    int64_t side = larger(m->rows, m->columns), count = m->extra;
    return bytes_of(2 * m->rows * m->columns + side * count + count + block_room(side, side));
}

/* c Q is (Q^H c^H)^H. */
static void run_ormqr(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    NUM *c = memory;
    bool left = m->flags & LINALG_LEFT, adjoint = m->flags & LINALG_CONJUGATE;
    int64_t count = m->rows * m->columns, rows = left ? m->rows : m->columns;
    int64_t columns = left ? m->columns : m->rows;
    NUM *vectors = c + count, *tau = vectors + rows * m->extra, *sums = tau + m->extra;
    NUM *spare = sums + block_room(rows, columns);
    load(m, vectors, arrays[1], unit * rows * m->extra, rows * m->extra);
    load(m, tau, arrays[2], unit * m->extra, m->extra);
    load(m, left ? c : spare, arrays[3], unit * count, count);
    if (!left) transpose(c, spare, columns, rows, true);
    apply_q(c, vectors, m->extra, tau, m->extra, rows, columns, left ? adjoint : !adjoint, sums);
    if (!left) transpose(spare, c, rows, columns, true);
    store(m, arrays[0], unit * count, left ? c : spare, count);
}

/* ---- eigenvalues and singular values ---- */

/* The largest part of any number; NaN where one is. */
CLONES static double largest_part(const NUM *x, int64_t count) {
    const REAL *parts = (const REAL *)x;
    REAL most = 0, sum = 0;
    for (int64_t i = 0; i < PARTS * count; i++) {
        REAL size = parts[i] < 0 ? -parts[i] : parts[i];
        most = size > most ? size : most;
        sum += size - size; /* NaN of infinities too */
    }
    return (double)(most + sum);
}

/* What to divide a matrix by so that its numbers are neither huge nor tiny: a power of two. */
static double scale_for(double largest) {
    double least = sizeof(REAL) == 4 ? 0x1p-30 : 0x1p-200;
    double most = sizeof(REAL) == 4 ? 0x1p20 : 0x1p200;
    if (!(largest > 0) || (largest > least && largest < most)) return 1;
    return ldexp(1, ilogb(largest));
}

CLONES static void divide_by(NUM *x, int64_t count, double scale) {
    REAL *parts = (REAL *)x;
    REAL half = (REAL)(1 / sqrt(scale)), other = (REAL)(1 / scale / (double)half);
    for (int64_t i = 0; i < PARTS * count && scale != 1; i++)
        parts[i] = parts[i] * half * other;
}

/* Rows of x, rows x columns, become those of out, `stride` apart, or the adjoint does. */
static void spread(NUM *out, int64_t stride, const NUM *x, int64_t rows, int64_t columns,
                   bool adjoint) {
    enum { PART = 16 };
    for (int64_t c = 0; c < columns && adjoint; c += PART)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = c; j < columns && j < c + PART; j++)
                out[j * stride + i] = CONJ(x[i * columns + j]);
    for (int64_t i = 0; i < rows && !adjoint; i++)
        memcpy((void *)(out + i * stride), x + i * columns, (size_t)columns * sizeof *x);
}

/* Columns of out, rows x width, become the rows of x, n x n, which `order` names, backwards or not;
 * what is left of out is that of the unit matrix. */
static void columns_of_rows(NUM *out, int64_t rows, int64_t width, const REAL *x, int64_t n,
                            const int64_t *order, bool backwards) {
    enum { PART = 16 };
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < n ? n : 0; j < width; j++)
            out[i * width + j] = i == j;
    for (int64_t c = 0; c < n && c < width; c += PART)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = c; j < n && j < width && j < c + PART; j++)
                out[i * width + j] = x[order[backwards ? n - 1 - j : j] * n + i];
}

static void fill(int64_t type, void *out, int64_t first, int64_t count, double value) {
    for (int64_t i = 0; i < count; i++)
        number_set(type, out, first + i, CMPLX(value, number_is_complex(type) ? value : 0));
}

struct eigen {
    NUM *a, *c, *tau, *room;
    REAL *q;
    double *d, *e;
    int64_t *order;
    void *memory;
};

static struct eigen lay_out_eigen(const struct matrix *m, struct room *room) {
    int64_t n = m->columns, stride = round_up(n, SQUARE);
    bool vectors = !(m->flags & LINALG_VALUES);
    return (struct eigen){
        .a = NUMBERS_OF(room, stride * stride),
        .c = NUMBERS_OF(room, n * n),
        .tau = NUMBERS_OF(room, n),
        .room = NUMBERS_OF(room, larger(block_room(n, n), 8 * stride)),
        .q = vectors ? take(room, n * n, sizeof(REAL)) : NULL,
        .d = take(room, n, sizeof(double)),
        .e = take(room, n, sizeof(double)),
        .order = take(room, n, sizeof(int64_t)),
        .memory = take(room, SPECTRUM(hlocc_rt_spectrum_bytes)(n), 1),
    };
}

static void run_syevd(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    struct room room = {memory, 0};
    struct eigen s = lay_out_eigen(m, &room);
    int64_t n = m->columns, stride = round_up(n, SQUARE), count = n * n;
    int64_t info = m->flags & LINALG_INFO ? 1 : 0;
    load(m, s.c, arrays[2 + info], unit * count, count);
    memset((void *)s.a, 0, (size_t)(stride * stride) * sizeof *s.a);
    spread(s.a, stride, s.c, n, n, !(m->flags & LINALG_LOWER));
    for (int64_t i = 0; i < n; i++) /* only one triangle counts */
        memset((void *)(s.a + i * stride + i + 1), 0, (size_t)(n - i - 1) * sizeof *s.a);
    double largest = largest_part(s.a, stride * stride), scale = scale_for(largest);
    if (!isfinite(largest)) {
        fill(m->type, arrays[0], unit * count, count, NAN);
        fill(m->real_type, arrays[1], unit * n, n, NAN);
        if (info) ((int32_t *)arrays[2])[unit] = (int32_t)n;
        return;
    }
    divide_by(s.a, stride * stride, scale);
    tridiagonalise(s.a, n, stride, s.d, s.e, s.tau, s.room);
    int64_t failed = SPECTRUM(hlocc_rt_tridiagonal)(n, s.d, s.e, s.q, s.order, s.memory);
    if (info) ((int32_t *)arrays[2])[unit] = (int32_t)failed;
    for (int64_t j = 0; j < n; j++)
        number_set(m->real_type, arrays[1], unit * n + j, s.d[s.order[j]] * scale);
    if (s.q) {
        columns_of_rows(s.c, n, n, s.q, n, s.order, false);
        apply_q(s.c + n, s.a + stride, stride, s.tau, n - 1, n - 1, n, false, s.room);
        store(m, arrays[0], unit * count, s.c, count);
    } else {
        fill(m->type, arrays[0], unit * count, count, 0);
    }
}

static int64_t syevd_bytes(const struct matrix *m) {
    struct room room = {NULL, 0};
    lay_out_eigen(m, &room);
    return room.used;
}

/* A tall matrix or the adjoint of a wide one, rows x n, of which U S V^H is wanted: `width` columns
 * of U, `height` rows of V^H. Much taller ones are reduced to R first. */
struct svd {
    int64_t rows, n, width, height, stride;
    bool vectors, first_qr;
    NUM *a;              /* rows of `stride` numbers: what is reduced to two diagonals */
    NUM *q;              /* rows x n: what QR leaves; in the end room for all of U */
    NUM *left;           /* rows x width */
    NUM *right, *across; /* n x n: V, and vectors of the reflections from the right */
    NUM *tau, *tau_right, *tau_first, *room;
    REAL *u, *v;
    double *d, *e;
    int64_t *order;
    void *memory;
};

static struct svd lay_out_svd(const struct matrix *m, struct room *room) {
    bool wide = m->rows < m->columns;
    struct svd s = {.rows = larger(m->rows, m->columns), .n = smaller(m->rows, m->columns)};
    int64_t n = s.n, rows = s.rows;
    s.width = wide ? m->extra2 : m->extra;
    s.height = wide ? m->extra : m->extra2;
    s.stride = round_up(n, SQUARE);
    s.vectors = !(m->flags & LINALG_VALUES);
    s.first_qr = rows > n + n / 2;
    s.a = NUMBERS_OF(room, (s.first_qr ? n : rows) * s.stride);
    s.q = NUMBERS_OF(room, rows * larger(s.width, n));
    s.tau = NUMBERS_OF(room, n);
    s.tau_right = NUMBERS_OF(room, n);
    s.tau_first = NUMBERS_OF(room, n);
    s.room = NUMBERS_OF(room, larger(block_room(rows, larger(s.width, n)), 3 * s.stride + rows));
    s.left = NUMBERS_OF(room, rows * larger(s.width, n));
    s.right = NUMBERS_OF(room, n * n);
    s.across = NUMBERS_OF(room, n * n);
    s.u = s.vectors ? take(room, n * n, sizeof(REAL)) : NULL;
    s.v = s.vectors ? take(room, n * n, sizeof(REAL)) : NULL;
    s.d = take(room, n, sizeof(double));
    s.e = take(room, n, sizeof(double));
    s.order = take(room, n, sizeof(int64_t));
    s.memory = take(room, SPECTRUM(hlocc_rt_spectrum_bytes)(n), 1);
    return s;
}

static int64_t gesdd_bytes(const struct matrix *m) {
    struct room room = {NULL, 0};
    lay_out_svd(m, &room);
    return room.used;
}

/* U's columns and V from the singular vectors of the bidiagonal matrix. */
static void svd_vectors(const struct svd *s) {
    int64_t n = s->n, m = n - 1, rows = s->first_qr ? n : s->rows;
    columns_of_rows(s->left, s->rows, s->width, s->u, n, s->order, true);
    apply_q(s->left, s->a, s->stride, s->tau, n, rows, s->width, false, s->room);
    if (s->first_qr) apply_q(s->left, s->q, n, s->tau_first, n, s->rows, s->width, false, s->room);
    columns_of_rows(s->right, n, n, s->v, n, s->order, true);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < m; k++)
            s->across[i * m + k] = i < k ? 0 : s->a[k * s->stride + i + 1];
    apply_q(s->right + n, s->across, m, s->tau_right, m, m, n, false, s->room);
}

/* The matrix is in q. Returns how many values did not converge. */
static int64_t decompose(const struct svd *s) {
    int64_t n = s->n, rows = s->first_qr ? n : s->rows;
    if (s->first_qr) qr(s->q, n, s->rows, n, s->tau_first, s->room);
    memset((void *)s->a, 0, (size_t)(rows * s->stride) * sizeof *s->a);
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = s->first_qr ? i : 0;
        memcpy((void *)(s->a + i * s->stride + from), s->q + i * n + from,
               (size_t)(n - from) * sizeof *s->a);
    }
    bidiagonalise(s->a, rows, n, s->stride, s->d, s->e, s->tau, s->tau_right, s->room);
    int64_t failed = SPECTRUM(hlocc_rt_bidiagonal)(n, s->d, s->e, s->u, s->v, s->order, s->memory);
    if (s->vectors) svd_vectors(s);
    return failed;
}

/* The first columns of x, rows x columns, to an array, or their adjoint. */
static void store_columns(const struct matrix *m, void *out, int64_t unit, const NUM *x,
                          int64_t rows, int64_t columns, int64_t width, bool adjoint, NUM *spare) {
    for (int64_t i = 0; i < rows && width < columns; i++)
        memcpy((void *)(spare + i * width), x + i * columns, (size_t)width * sizeof *x);
    const NUM *from = width < columns ? spare : x;
    if (adjoint) spread(spare, rows, from, rows, width, true);
    store(m, out, unit * rows * width, adjoint ? spare : from, rows * width);
}

static void run_gesdd(const struct matrix *m, void *const *arrays, void *memory, int64_t unit) {
    struct room room = {memory, 0};
    struct svd s = lay_out_svd(m, &room);
    bool wide = m->rows < m->columns;
    int64_t n = s.n, count = s.rows * n;
    void *u = arrays[wide ? 3 : 2], *vt = arrays[wide ? 2 : 3];
    load(m, s.left, arrays[5], unit * count, count);
    if (arrays[0] != arrays[5]) store(m, arrays[0], unit * count, s.left, count);
    spread(s.q, n, s.left, m->rows, m->columns, wide);
    double largest = largest_part(s.q, count), scale = scale_for(largest);
    bool good = isfinite(largest);
    ((int32_t *)arrays[4])[unit] = -4; /* LAPACK's word for a NaN in the matrix */
    if (good) {
        divide_by(s.q, count, scale);
        ((int32_t *)arrays[4])[unit] = (int32_t)decompose(&s);
    }
    for (int64_t j = 0; j < n; j++)
        number_set(m->real_type, arrays[1], unit * n + j,
                   good ? s.d[s.order[n - 1 - j]] * scale : (double)NAN);
    if (!good || !s.vectors) {
        double value = good ? 0 : (double)NAN;
        fill(m->type, u, unit * s.rows * s.width, s.rows * s.width, value);
        fill(m->type, vt, unit * s.height * n, s.height * n, value);
        return;
    }
    store_columns(m, u, unit, s.left, s.rows, s.width, s.width, wide, s.q);
    store_columns(m, vt, unit, s.right, n, n, s.height, !wide, s.across);
}

/* ---- the table ---- */

const struct linalg_kernels KERNELS = {
#define X(name) .name = run_##name, .name##_bytes = name##_bytes,
    LINALG_KERNELS(X)
#undef X
};
