/* Factorisations of one row-major matrix, written once for real and complex numbers: linalg.c
 * includes this file twice, with NUM, FN(name), MUL, CONJ, RE and MAKE(re, im) defined. Inner loops
 * run along rows, so that they touch memory in order. No include guard, for that reason. */

/* to[i] -= factor * from[i] */
static void FN(subtract)(NUM *to, const NUM *from, NUM factor, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] -= MUL(factor, from[i]);
}

/* sum of x[i] * conj(y[i]): four sums, which is faster and more accurate than one. */
static NUM FN(product)(const NUM *x, const NUM *y, int64_t count) {
    NUM sum[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += MUL(x[i + k], CONJ(y[i + k]));
    for (; i < count; i++)
        sum[0] += MUL(x[i], CONJ(y[i]));
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double FN(norm)(const NUM *x, int64_t count, int64_t stride) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum = hypot(sum, ABS(x[i * stride]));
    return sum;
}

static void FN(transpose)(NUM *out, const NUM *in, int64_t rows, int64_t columns, bool conjugate) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            out[j * rows + i] = conjugate ? CONJ(in[i * columns + j]) : in[i * columns + j];
}

/* ---- Cholesky ---- */

/* The lower factor in place; false where the matrix is not positive definite. */
static bool FN(cholesky)(NUM *a, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++)
            a[i * n + j] = (a[i * n + j] - FN(product)(a + i * n, a + j * n, j)) / RE(a[j * n + j]);
        double diagonal = RE(a[i * n + i]) - RE(FN(product)(a + i * n, a + i * n, i));
        if (!(diagonal > 0)) return false;
        a[i * n + i] = sqrt(diagonal);
    }
    return true;
}

/* ---- triangular systems ---- */

/* Solves a x = b in place for `columns` right sides: a n x n, b n x columns. */
static void FN(solve)(const NUM *a, NUM *b, int64_t n, int64_t columns, bool lower, bool unit) {
    for (int64_t s = 0; s < n; s++) {
        int64_t i = lower ? s : n - 1 - s;
        int64_t from = lower ? 0 : i + 1, to = lower ? i : n;
        NUM *row = b + i * columns;
        for (int64_t j = from; j < to; j++)
            FN(subtract)(row, b + j * columns, a[i * n + j], columns);
        for (int64_t k = 0; k < columns && !unit; k++)
            row[k] /= a[i * n + i];
    }
}

/* ---- LU ---- */

static void FN(swap_columns)(NUM *a, int64_t rows, int64_t columns, int64_t p, int64_t q) {
    for (int64_t i = 0; i < rows && p != q; i++) {
        NUM keep = a[i * columns + p];
        a[i * columns + p] = a[i * columns + q];
        a[i * columns + q] = keep;
    }
}

/* Partial pivoting by |re| + |im|, as LAPACK. Exchanges count from 1; returns the number of the
 * first zero pivot, or 0. */
static int64_t FN(lu)(NUM *a, int64_t rows, int64_t columns, int32_t *exchanges) {
    int64_t info = 0;
    for (int64_t k = 0; k < rows && k < columns; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < rows; i++)
            if (ABS1(a[i * columns + k]) > ABS1(a[best * columns + k])) best = i;
        exchanges[k] = (int32_t)(best + 1);
        if (a[best * columns + k] == 0) {
            info = info ? info : k + 1;
            continue;
        }
        for (int64_t j = 0; j < columns && best != k; j++) {
            NUM x = a[k * columns + j];
            a[k * columns + j] = a[best * columns + j];
            a[best * columns + j] = x;
        }
        for (int64_t i = k + 1; i < rows; i++) {
            NUM factor = a[i * columns + k] /= a[k * columns + k];
            FN(subtract)(a + i * columns + k + 1, a + k * columns + k + 1, factor, columns - k - 1);
        }
    }
    return info;
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
static void FN(reflect)(NUM *a, const NUM *vectors, int64_t stride, int64_t first, int64_t rows,
                        int64_t columns, int64_t from, int64_t to, NUM tau, NUM *sums) {
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

/* c, rows x columns, becomes Q c, or Q^H c, for Q of the `count` reflections. */
static void FN(apply_q)(NUM *c, const NUM *vectors, int64_t stride, const NUM *tau, int64_t count,
                        int64_t rows, int64_t columns, bool adjoint, NUM *sums) {
    for (int64_t s = 0; s < count; s++) {
        int64_t k = adjoint ? s : count - 1 - s;
        FN(reflect)(c, vectors, stride, k, rows, columns, 0, columns,
                    adjoint ? CONJ(tau[k]) : tau[k], sums);
    }
}

static void FN(qr)(NUM *a, int64_t rows, int64_t columns, NUM *tau, NUM *sums) {
    for (int64_t k = 0; k < rows && k < columns; k++) {
        tau[k] = FN(reflection)(a + k * columns + k, rows - k, columns);
        FN(reflect)(a, a, columns, k, rows, columns, k + 1, columns, CONJ(tau[k]), sums);
    }
}

/* The first columns of Q = H_0 H_1 ... in place of the vectors; columns past `count` start as those
 * of the unit matrix. */
static void FN(form_q)(NUM *a, const NUM *tau, int64_t rows, int64_t columns, int64_t count,
                       NUM *sums) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = count; j < columns; j++)
            a[i * columns + j] = i == j;
    for (int64_t k = count - 1; k >= 0; k--) {
        FN(reflect)(a, a, columns, k, rows, columns, k + 1, columns, tau[k], sums);
        for (int64_t i = k + 1; i < rows; i++)
            a[i * columns + k] = MUL(a[i * columns + k], -tau[k]);
        a[k * columns + k] = 1 - tau[k];
        for (int64_t i = 0; i < k; i++)
            a[i * columns + k] = 0;
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

/* ---- Hermitian eigenproblem ---- */

/* Reduces the Hermitian matrix, of which the lower triangle counts, to tridiagonal form: d the
 * diagonal, e the real numbers below it; vectors of the reflections stay below that, tau beside.
 * p has room for n. */
static void FN(tridiagonalise)(NUM *a, int64_t n, double *d, double *e, NUM *tau, NUM *p) {
    for (int64_t k = 0; k + 1 < n; k++) {
        int64_t m = n - k - 1;
        NUM *x = a + (k + 1) * n + k, *rest = a + (k + 1) * n + k + 1;
        tau[k] = FN(reflection)(x, m, n);
        d[k] = RE(a[k * n + k]);
        e[k] = RE(x[0]);
        if (tau[k] == 0) continue;
        x[0] = 1;
        for (int64_t i = 0; i < m; i++)
            p[i] = 0;
        for (int64_t i = 0; i < m; i++) { /* p = rest v, from the lower triangle */
            NUM sum = MUL(MAKE(RE(rest[i * n + i]), 0), x[i * n]);
            for (int64_t j = 0; j < i; j++) {
                sum += MUL(rest[i * n + j], x[j * n]);
                p[j] += MUL(CONJ(rest[i * n + j]), x[i * n]);
            }
            p[i] += sum;
        }
        NUM half = 0;
        for (int64_t i = 0; i < m; i++) {
            p[i] = MUL(tau[k], p[i]);
            half += MUL(CONJ(p[i]), x[i * n]);
        }
        half = MUL(half, tau[k]) / 2;
        for (int64_t i = 0; i < m; i++)
            p[i] -= MUL(half, x[i * n]);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j <= i; j++)
                rest[i * n + j] -= MUL(x[i * n], CONJ(p[j])) + MUL(p[i], CONJ(x[j * n]));
        x[0] = e[k];
    }
    if (n > 0) d[n - 1] = RE(a[(n - 1) * n + n - 1]);
}

/* Q of the reduction, as rows that are its columns. */
static void FN(tridiagonal_q)(const NUM *a, int64_t n, const NUM *tau, NUM *q) {
    for (int64_t i = 0; i < n * n; i++)
        q[i] = i % (n + 1) == 0;
    for (int64_t k = n - 2; k >= 0; k--)
        for (int64_t j = k + 1; j < n; j++) { /* each column: minus tau v (v^H column) */
            NUM *column = q + j * n + k + 1, sum = column[0];
            for (int64_t i = 1; i < n - k - 1; i++)
                sum += MUL(CONJ(a[(k + 1 + i) * n + k]), column[i]);
            sum = MUL(sum, tau[k]);
            column[0] -= sum;
            for (int64_t i = 1; i < n - k - 1; i++)
                column[i] -= MUL(sum, a[(k + 1 + i) * n + k]);
        }
}

/* Rows x and y become c x - s y and s x + c y. */
static void FN(rotate)(NUM *x, NUM *y, double c, double s, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        NUM a = x[i], b = y[i];
        x[i] = c * a - s * b;
        y[i] = s * a + c * b;
    }
}

/* One sweep of the implicit QL iteration over d[low .. high] (Bowdler, Martin, Reinsch, Wilkinson,
 * The QR and QL algorithms for symmetric matrices, 1968). */
static void FN(ql_sweep)(double *d, double *e, NUM *q, int64_t n, int64_t low, int64_t high) {
    double g = (d[low + 1] - d[low]) / (2 * e[low]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[high] - d[low] + e[low] / (g + copysign(r, g));
    for (int64_t i = high - 1; i >= low; i--) {
        double f = s * e[i], b = c * e[i];
        r = hypot(f, g);
        e[i + 1] = r;
        if (r == 0) { /* split here */
            d[i + 1] -= p;
            e[high] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        FN(rotate)(q + i * n, q + (i + 1) * n, c, s, n);
    }
    d[low] -= p;
    e[low] = g;
    e[high] = 0;
}

/* Eigenvalues of the tridiagonal matrix to d, unsorted; rows of q turn with them. Returns how many
 * values did not converge. e has room for n. */
static int64_t FN(ql)(double *d, double *e, NUM *q, int64_t n) {
    if (n > 0) e[n - 1] = 0;
    for (int64_t low = 0; low < n; low++)
        for (int sweep = 0;; sweep++) {
            int64_t high = low;
            for (; high + 1 < n; high++)
                if (!(fabs(e[high]) > DBL_EPSILON * (fabs(d[high]) + fabs(d[high + 1])))) break;
            if (high == low) break;
            if (sweep == 60) return n - low;
            FN(ql_sweep)(d, e, q, n, low, high);
        }
    return 0;
}

/* ---- singular values ---- */

/* Turns the n rows of w (m long) so that they are almost orthogonal, by the eigenvectors of their
 * products; rows of v, the unit matrix, turn with them. Small rows come out inaccurate: the rest is
 * Jacobi's, which has little to do then. gram: n * n numbers and m of room; tau, p: n each. */
static void FN(turn_rows)(NUM *w, NUM *v, int64_t n, int64_t m, NUM *gram, double *d, double *e,
                          NUM *tau, NUM *p) {
    double size = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            gram[i * n + j] = FN(product)(w + i * m, w + j * m, m);
            size += ABS1(gram[i * n + j]);
        }
    if (!(size > 0 && size < DBL_MAX)) return;
    FN(tridiagonalise)(gram, n, d, e, tau, p);
    FN(tridiagonal_q)(gram, n, tau, v);
    if (FN(ql)(d, e, v, n) != 0) { /* Jacobi does it all */
        for (int64_t i = 0; i < n * n; i++)
            v[i] = i % (n + 1) == 0;
        return;
    }
    for (int64_t i = 0; i < n * n; i++)
        v[i] = CONJ(v[i]);
    for (int64_t k = 0; k < m; k++) { /* column by column of w */
        for (int64_t i = 0; i < n; i++)
            p[i] = CONJ(w[i * m + k]);
        for (int64_t j = 0; j < n; j++)
            w[j * m + k] = FN(product)(v + j * n, p, n);
    }
}

/* One-sided Jacobi (Hestenes 1958): rotates pairs of the n rows of w (m long) until they are
 * orthogonal; rows of v turn with them. Rows no longer than `least` are rounding errors and are let
 * alone. squares: room for n squares of lengths. False where it does not converge. */
static bool FN(orthogonalise)(NUM *w, NUM *v, int64_t n, int64_t m, double least, double *squares) {
    double close = 2 * DBL_EPSILON * sqrt((double)m);
    for (int sweep = 0; sweep < 60; sweep++) {
        bool done = true;
        for (int64_t p = 0; p < n; p++)
            squares[p] = RE(FN(product)(w + p * m, w + p * m, m));
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                NUM *x = w + p * m, *y = w + q * m;
                double xx = squares[p], yy = squares[q];
                if (xx <= least * least || yy <= least * least) continue;
                NUM xy = FN(product)(x, y, m);
                double size = ABS(xy);
                if (size == 0 || !(size > close * sqrt(xx) * sqrt(yy))) continue;
                done = false;
                double zeta = (yy - xx) / (2 * size);
                double t = copysign(1, zeta) / (fabs(zeta) + hypot(zeta, 1));
                double c = 1 / hypot(t, 1), s = c * t;
                squares[p] = xx - t * size;
                squares[q] = yy + t * size;
                NUM phase = xy / size; /* x against y times it is real */
                for (int64_t i = 0; i < m; i++)
                    y[i] = MUL(y[i], phase);
                for (int64_t i = 0; i < n; i++)
                    v[q * n + i] = MUL(v[q * n + i], phase);
                FN(rotate)(x, y, c, s, m);
                FN(rotate)(v + p * n, v + q * n, c, s, n);
            }
        if (done) return true;
    }
    return false;
}

/* Makes row `at` of u a unit vector orthogonal to the rows before it. */
static void FN(complete)(NUM *u, int64_t at, int64_t n) {
    double best = -1;
    int64_t unit = 0;
    for (int64_t i = 0; i < n; i++) { /* the unit vector least covered by them */
        double left = 1;
        for (int64_t k = 0; k < at; k++)
            left -= RE(MUL(u[k * n + i], CONJ(u[k * n + i])));
        if (left > best) {
            best = left;
            unit = i;
        }
    }
    for (int64_t i = 0; i < n; i++)
        u[at * n + i] = i == unit;
    for (int pass = 0; pass < 2; pass++) { /* twice is enough */
        for (int64_t k = 0; k < at; k++)
            FN(subtract)(u + at * n, u + k * n, FN(product)(u + at * n, u + k * n, n), n);
        double size = FN(norm)(u + at * n, n, 1);
        for (int64_t i = 0; i < n; i++)
            u[at * n + i] /= size;
    }
}
