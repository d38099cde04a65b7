/* Eigenvalues of tridiagonal and singular values of bidiagonal matrices by implicit QL and QR
 * steps: what divide and conquer (spectrum_core.h) ends at. */
#ifndef RUNTIME_CPU_SPECTRUM_STEPS_H
#define RUNTIME_CPU_SPECTRUM_STEPS_H

#include "runtime/cpu/rotations.h"

/* One sweep of the implicit QL iteration over d[low .. high] (Bowdler, Martin, Reinsch, Wilkinson,
 * The QR and QL algorithms for symmetric matrices, 1968). */
static void ql_sweep(double *d, double *e, struct log *log, int64_t low, int64_t high) {
    struct rotation *turn = log ? begin_sweep(log, high - 1, high - low, true) : NULL;
    double g = (d[low + 1] - d[low]) / (2 * e[low]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[high] - d[low] + e[low] / (g + copysign(r, g));
    for (int64_t i = high - 1; i >= low; i--) {
        double f = s * e[i], b = c * e[i];
        r = length_of(f, g);
        e[i + 1] = r;
        if (r == 0) { /* split here */
            d[i + 1] -= p;
            e[high] = 0;
            if (log) cut_sweep(log, high - 1 - i);
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
static int64_t ql(double *d, double *e, int64_t n, struct log *log) {
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
            ql_sweep(d, e, log, low, high);
        }
    if (log) flush(log);
    return failed;
}

/* Row `at` of the bidiagonal matrix, whose diagonal is zero, loses e[at] to the rows below. */
static void chase_row(double *d, double *e, int64_t at, int64_t high, struct log *u) {
    double f = e[at];
    e[at] = 0;
    for (int64_t j = at + 1; j <= high && f != 0; j++) {
        double r = length_of(d[j], f), c = d[j] / r, s = f / r;
        d[j] = r;
        f = j < high ? -s * e[j] : 0;
        if (j < high) e[j] *= c;
        if (u) turn_pair(u, at, j, c, s);
    }
}

/* The same for the last column, up to row `low`. */
static void chase_column(double *d, double *e, int64_t low, int64_t high, struct log *v) {
    double f = e[high - 1];
    e[high - 1] = 0;
    for (int64_t j = high - 1; j >= low && f != 0; j--) {
        double r = length_of(d[j], f), c = d[j] / r, s = f / r;
        d[j] = r;
        f = j > low ? -s * e[j - 1] : 0;
        if (j > low) e[j - 1] *= c;
        if (v) turn_pair(v, high, j, c, s);
    }
}

/* One implicit QR step over d[low .. high] (Golub and Kahan, Calculating the singular values and
 * pseudo-inverse of a matrix, 1965), with the shift of Wilkinson. */
static void bidiagonal_step(double *d, double *e, int64_t low, int64_t high, struct log *u,
                            struct log *v) {
    struct rotation *left = u ? begin_sweep(u, low, high - low, false) : NULL;
    struct rotation *right = v ? begin_sweep(v, low, high - low, false) : NULL;
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
static bool bidiagonal_qr(double *d, double *e, int64_t n, struct log *u, struct log *v) {
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
            chase_row(d, e, zero, high, u);
        else if (zero >= 0)
            chase_column(d, e, low, high, v);
        else
            bidiagonal_step(d, e, low, high, u, v);
    }
    if (u) flush(u);
    if (v) flush(v);
    return true;
}

#endif
