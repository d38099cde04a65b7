/* Eigenvectors of Hermitian matrices and singular vectors; included after matrix.h, like that. */

/* ---- Hermitian eigenproblem ---- */

/* p = h v for the Hermitian h of which the lower triangle of m rows `stride` apart counts, after
 * h -= x y^H + y x^H, where x is not NULL. */
CLONES static void FN(update_and_multiply)(NUM *h, int64_t stride, int64_t m, const NUM *x,
                                           const NUM *y, const NUM *cx, const NUM *cy, const NUM *v,
                                           const NUM *cv, NUM *p) {
    for (int64_t i = 0; i < m; i++)
        p[i] = 0;
    for (int64_t i = 0; i < m; i++) {
        NUM *row = h + i * stride, own = v[i];
        if (x) {
            NUM a = x[i], b = y[i];
            for (int64_t j = 0; j <= i; j++)
                row[j] -= MUL(a, cy[j]) + MUL(b, cx[j]);
        }
        for (int64_t j = 0; j < i; j++)
            p[j] += MUL(CONJ(row[j]), own);
        p[i] += FN(product)(row, cv, i) + MUL(MAKE(RE(row[i]), 0), own);
    }
}

/* Reduces the Hermitian matrix, of which the lower triangle counts, to tridiagonal form: d the
 * diagonal, e the real numbers below it; vectors of the reflections stay below that, tau beside.
 * room: 7 n. The update that follows from one reflection is made on the way through the matrix that
 * the next one needs anyway. */
static void FN(tridiagonalise)(NUM *a, int64_t n, double *d, double *e, NUM *tau, NUM *room) {
    NUM *x = room, *y = x + n, *cx = y + n, *cy = cx + n, *v = cy + n, *cv = v + n, *p = cv + n;
    bool pending = false;
    for (int64_t k = 0; k < n; k++) {
        int64_t m = n - k - 1;
        NUM *column = a + k * n + k; /* and what is below */
        for (int64_t i = 0; i <= m && pending; i++)
            column[i * n] -= MUL(x[i], cy[0]) + MUL(y[i], cx[0]);
        d[k] = (double)RE(column[0]);
        if (m == 0) break;
        tau[k] = FN(reflection)(column + n, m, n);
        e[k] = (double)RE(column[n]);
        for (int64_t i = 0; i < m; i++) {
            v[i] = i ? column[(i + 1) * n] : 1;
            cv[i] = CONJ(v[i]);
        }
        FN(update_and_multiply)(column + n + 1, n, m, pending ? x + 1 : NULL, y + 1, cx + 1, cy + 1,
                                v, cv, p);
        NUM half = 0;
        for (int64_t i = 0; i < m; i++) {
            p[i] = MUL(tau[k], p[i]);
            half += MUL(CONJ(p[i]), v[i]);
        }
        half = MUL(half, tau[k]) / 2;
        for (int64_t i = 0; i < m; i++) {
            x[i] = v[i];
            cx[i] = cv[i];
            y[i] = p[i] - MUL(half, v[i]);
            cy[i] = CONJ(y[i]);
        }
        pending = true;
    }
}

/* The rows of q become the columns of diag(1, Q), Q of the n - 1 reflections whose vectors are in
 * the columns of w, (n - 1) squared. */
static void FN(rows_of_q)(NUM *w, int64_t n, const NUM *tau, NUM *q, NUM *room) {
    int64_t m = n - 1;
    FN(form_q)(w, tau, m, m, m, room);
    for (int64_t i = 0; i < n * n; i++)
        q[i] = i == 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++)
            q[(j + 1) * n + i + 1] = w[i * m + j];
}

/* Q of the reduction, as rows that are its columns; w: n squared. */
static void FN(tridiagonal_q)(const NUM *a, int64_t n, const NUM *tau, NUM *q, NUM *w, NUM *room) {
    for (int64_t i = 1; i < n; i++)
        memcpy((void *)(w + (i - 1) * (n - 1)), a + i * n, (size_t)(n - 1) * sizeof *w);
    FN(rows_of_q)(w, n, tau, q, room);
}

/* One sweep of the implicit QL iteration over d[low .. high] (Bowdler, Martin, Reinsch, Wilkinson,
 * The QR and QL algorithms for symmetric matrices, 1968). */
static void FN(ql_sweep)(double *d, double *e, struct LOG(log) * log, int64_t low, int64_t high) {
    struct rotation *turn = log ? LOG(begin_sweep)(log, high - 1, high - low, true) : NULL;
    double g = (d[low + 1] - d[low]) / (2 * e[low]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[high] - d[low] + e[low] / (g + copysign(r, g));
    for (int64_t i = high - 1; i >= low; i--) {
        double f = s * e[i], b = c * e[i];
        r = length_of(f, g);
        e[i + 1] = r;
        if (r == 0) { /* split here */
            d[i + 1] -= p;
            e[high] = 0;
            if (log) LOG(cut_sweep)(log, high - 1 - i);
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        if (log) turn[high - 1 - i] = (struct rotation){c, s};
    }
    d[low] -= p;
    e[low] = g;
    e[high] = 0;
}

/* Eigenvalues of the tridiagonal matrix to d, unsorted; the log's rows turn with them. Returns how
 * many values did not converge. e has room for n. */
static int64_t FN(ql)(double *d, double *e, int64_t n, struct LOG(log) * log) {
    int64_t failed = 0;
    if (n > 0) e[n - 1] = 0;
    for (int64_t low = 0; low < n && !failed; low++)
        for (int sweep = 0;; sweep++) {
            int64_t high = low;
            for (; high + 1 < n; high++)
                if (!(fabs(e[high]) > DBL_EPSILON * (fabs(d[high]) + fabs(d[high + 1])))) break;
            if (high == low) break;
            if (sweep == 60) {
                failed = n - low;
                break;
            }
            FN(ql_sweep)(d, e, log, low, high);
        }
    if (log) LOG(flush)(log);
    return failed;
}

/* ---- singular values ---- */

/* Reduces the square matrix to an upper bidiagonal one, d with e above: vectors of the reflections
 * from the left stay in the columns, those from the right in the rows, tau and tau_right beside.
 * sums, v: n each. */
CLONES static void FN(bidiagonalise)(NUM *a, int64_t n, double *d, double *e, NUM *tau,
                                     NUM *tau_right, NUM *sums, NUM *v) {
    for (int64_t k = 0; k < n; k++) {
        int64_t m = n - k - 1; /* numbers right of the diagonal, and rows below */
        NUM *row = a + k * n + k + 1;
        tau[k] = FN(reflection)(a + k * n + k, n - k, n);
        d[k] = (double)RE(a[k * n + k]);
        tau_right[k] = 0;
        if (m == 0) break;
        for (int64_t j = 0; j < m; j++)
            sums[j] = row[j];
        for (int64_t i = 0; i < m; i++)
            FN(subtract)(sums, row + (i + 1) * n, -CONJ(row[(i + 1) * n - 1]), m);
        for (int64_t j = 0; j < m; j++) {
            sums[j] = MUL(CONJ(tau[k]), sums[j]);
            row[j] = CONJ(row[j] - sums[j]);
        }
        tau_right[k] = FN(reflection)(row, m, 1);
        e[k] = (double)RE(row[0]);
        for (int64_t j = 0; j < m; j++)
            v[j] = j ? CONJ(row[j]) : 1;
        for (int64_t i = 1; i <= m; i++) { /* both reflections on the way through a row */
            NUM *at = row + i * n;
            FN(subtract)(at, sums, at[-1], m);
            NUM sum = FN(product)(at, v, m);
            FN(subtract)(at, v, MUL(sum, tau_right[k]), m);
        }
    }
}

/* Singular vectors that the reductions start from: rows of u are the columns of U, those of v the
 * columns of V, for a = U B V^H. w: n squared. */
static void FN(bidiagonal_vectors)(const NUM *a, int64_t n, const NUM *tau, const NUM *tau_right,
                                   NUM *u, NUM *v, NUM *w, NUM *room) {
    memcpy((void *)w, a, (size_t)(n * n) * sizeof *w);
    FN(form_q)(w, tau, n, n, n, room);
    FN(transpose)(u, w, n, n, false);
    int64_t m = n - 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < m; k++)
            w[i * m + k] = i < k ? 0 : a[k * n + i + 1];
    FN(rows_of_q)(w, n, tau_right, v, room);
}

/* Row `at` of the bidiagonal matrix, whose diagonal is zero, loses e[at] to the rows below. */
static void FN(chase_row)(double *d, double *e, int64_t at, int64_t high, struct LOG(log) * u) {
    double f = e[at];
    e[at] = 0;
    for (int64_t j = at + 1; j <= high && f != 0; j++) {
        double r = length_of(d[j], f), c = d[j] / r, s = f / r;
        d[j] = r;
        f = j < high ? -s * e[j] : 0;
        if (j < high) e[j] *= c;
        if (u) LOG(turn_pair)(u, at, j, c, s);
    }
}

/* The same for the last column, up to row `low`. */
static void FN(chase_column)(double *d, double *e, int64_t low, int64_t high, struct LOG(log) * v) {
    double f = e[high - 1];
    e[high - 1] = 0;
    for (int64_t j = high - 1; j >= low && f != 0; j--) {
        double r = length_of(d[j], f), c = d[j] / r, s = f / r;
        d[j] = r;
        f = j > low ? -s * e[j - 1] : 0;
        if (j > low) e[j - 1] *= c;
        if (v) LOG(turn_pair)(v, high, j, c, s);
    }
}

/* One implicit QR step over d[low .. high] (Golub and Kahan, Calculating the singular values and
 * pseudo-inverse of a matrix, 1965), with the shift of Wilkinson. */
static void FN(bidiagonal_step)(double *d, double *e, int64_t low, int64_t high,
                                struct LOG(log) * u, struct LOG(log) * v) {
    struct rotation *left = u ? LOG(begin_sweep)(u, low, high - low, false) : NULL;
    struct rotation *right = v ? LOG(begin_sweep)(v, low, high - low, false) : NULL;
    double before = high - 1 > low ? e[high - 2] : 0;
    double a = d[high - 1] * d[high - 1] + before * before, b = d[high - 1] * e[high - 1];
    double last = d[high] * d[high] + e[high - 1] * e[high - 1], half = (a - last) / 2;
    double shift = last - b * b / (half + copysign(length_of(half, b), half));
    double y = d[low] * d[low] - shift, z = d[low] * e[low];
    if (!(b != 0)) y = d[low] * d[low] - last;
    for (int64_t k = low; k < high; k++) {
        double r = length_of(y, z), c = r > 0 ? y / r : 1, s = r > 0 ? z / r : 0;
        if (k > low) e[k - 1] = r;
        y = c * d[k] + s * e[k];
        e[k] = c * e[k] - s * d[k];
        z = s * d[k + 1];
        d[k + 1] *= c;
        if (right) right[k - low] = (struct rotation){c, -s};
        r = length_of(y, z);
        c = r > 0 ? y / r : 1;
        s = r > 0 ? z / r : 0;
        d[k] = r;
        y = c * e[k] + s * d[k + 1];
        d[k + 1] = c * d[k + 1] - s * e[k];
        if (k + 1 < high) {
            z = s * e[k + 1];
            e[k + 1] *= c;
        }
        if (left) left[k - low] = (struct rotation){c, -s};
    }
    e[high - 1] = y;
}

/* Singular values of the bidiagonal matrix to d, of any sign and order; what the logs are of turns
 * with them, or they are NULL. False where it does not converge. */
static bool FN(bidiagonal_qr)(double *d, double *e, int64_t n, struct LOG(log) * u,
                              struct LOG(log) * v) {
    double size = 0;
    int64_t steps = 0, high = n - 1;
    for (int64_t i = 0; i < n; i++)
        size = fmax(size, fmax(fabs(d[i]), i + 1 < n ? fabs(e[i]) : 0));
    while (high > 0) {
        int64_t low = high, zero = -1;
        while (low > 0 && fabs(e[low - 1]) > DBL_EPSILON * (fabs(d[low - 1]) + fabs(d[low])))
            low--;
        if (low > 0) e[low - 1] = 0;
        if (low == high) {
            high--;
            continue;
        }
        if (++steps > 60 * n) return false;
        for (int64_t i = low; i <= high; i++)
            if (fabs(d[i]) <= DBL_EPSILON * size) zero = i;
        if (zero >= 0) d[zero] = 0;
        if (zero >= 0 && zero < high)
            FN(chase_row)(d, e, zero, high, u);
        else if (zero >= 0)
            FN(chase_column)(d, e, low, high, v);
        else
            FN(bidiagonal_step)(d, e, low, high, u, v);
    }
    if (u) LOG(flush)(u);
    if (v) LOG(flush)(v);
    return true;
}
