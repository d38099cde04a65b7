/* Eigenproblems and singular values whose values are known: far apart, in clusters, equal, zero,
 * huge and tiny. Matrices are made of them and random reflections. */
#include <float.h>
#include <math.h>

#include "runtime/cpu/linalg_testing.h"

static double epsilon(int64_t type) {
    return type == RT_F32 || type == RT_C64 ? (double)FLT_EPSILON : DBL_EPSILON;
}

static int64_t real_type(int64_t type) {
    return type == RT_C64 ? RT_F32 : type == RT_C128 ? RT_F64 : type;
}

static void *room(int64_t count, size_t size) {
    void *memory = calloc((size_t)count + 1, size);
    assert_non_null(memory);
    return memory;
}

static double draw(unsigned *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return (double)(*seed >> 8) / (1 << 23) - 1;
}

/* ---- spectra ---- */

enum { MANY = 160 };

static double far_apart(int64_t i, int64_t n) {
    return pow(10, -12 * (double)i / (double)n); /* graded over twelve orders */
}
static double clusters(int64_t i, int64_t n) {
    return (double)(i % 3 + 1) + 1e-9 * (double)(i - n);
}
static double all_equal(int64_t i, int64_t n) {
    return 2 + 0 * (double)(i + n);
}
static double all_zero(int64_t i, int64_t n) {
    return 0 * (double)(i + n);
}
static double one_only(int64_t i, int64_t n) {
    return i == n / 2;
}
static double low_rank(int64_t i, int64_t n) {
    return i < n / 3 ? (double)(i + 1) / (double)n : 0;
}
static double signs(int64_t i, int64_t n) {
    return i % 2 ? 1 : -1 + 0 * (double)n;
}
static double spread_out(int64_t i, int64_t n) {
    return cos(3.2 * (double)i / (double)n) * (double)(i + 1);
}
static double near_zero(int64_t i, int64_t n) {
    return i < 3 ? 1 : 1e-20 * (double)(i + n);
}

static double (*const spectra[])(int64_t i, int64_t n) = {
    far_apart, clusters, all_equal, all_zero, one_only, low_rank, signs, spread_out, near_zero};
enum { SPECTRA = sizeof spectra / sizeof *spectra };

/* ---- matrices ---- */

/* Rows of x, rows x columns, reflected with a random vector, and likewise its columns. */
static void reflect_rows(cplx *x, int64_t rows, int64_t columns, int64_t row, int64_t column,
                         const cplx *v) {
    double squares = 0;
    for (int64_t i = 0; i < rows; i++)
        squares += creal(v[i] * conj(v[i]));
    for (int64_t j = 0; j < columns; j++) {
        cplx sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += conj(v[i]) * x[i * row + j * column];
        for (int64_t i = 0; i < rows; i++)
            x[i * row + j * column] -= 2 * sum * v[i] / squares;
    }
}

static void random_vector(cplx *v, int64_t n, bool complex_too, unsigned *seed) {
    for (int64_t i = 0; i < n; i++) {
        double re = draw(seed), im = draw(seed);
        v[i] = CMPLX(re, complex_too ? im : 0);
    }
}

/* P diag(values) Q^H, Q = P where Hermitian; in the type, and as it comes out of that. */
static cplx *matrix_of(int64_t type, int64_t rows, int64_t columns, const double *values,
                       bool hermitian, void *memory) {
    cplx *x = room(rows * columns, sizeof *x), v[2 * MANY], w[2 * MANY];
    unsigned seed = 17;
    for (int64_t i = 0; i < rows && i < columns; i++)
        x[i * columns + i] = values[i];
    for (int k = 0; k < 3; k++) {
        random_vector(v, rows, number_is_complex(type), &seed);
        random_vector(w, columns, number_is_complex(type), &seed);
        reflect_rows(x, rows, columns, columns, 1, v);
        for (int64_t i = 0; i < columns; i++)
            w[i] = hermitian ? conj(v[i]) : w[i];
        reflect_rows(x, columns, rows, 1, columns, w);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            cplx *at = &x[i * columns + j];
            if (hermitian && j > i) continue;
            number_set(type, memory, i * columns + j, hermitian && i == j ? creal(*at) : *at);
            *at = number_get(type, memory, i * columns + j);
            if (!hermitian) continue;
            x[j * columns + i] = conj(*at);
            number_set(type, memory, j * columns + i, conj(*at));
        }
    return x;
}

static cplx *read_matrix(int64_t type, const void *memory, int64_t count) {
    cplx *x = room(count, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = number_get(type, memory, i);
    return x;
}

/* Columns of x, n x count, are orthogonal and of length 1. */
static void orthogonal(const cplx *x, int64_t n, int64_t count, double tolerance) {
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b <= a; b++) {
            cplx sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += conj(x[i * count + a]) * x[i * count + b];
            assert_true(cabs(sum - (a == b)) < tolerance);
        }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double largest(const double *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static void make_values(double *values, int64_t n, int spectrum, double scale, bool positive) {
    for (int64_t i = 0; i < n; i++) {
        double x = scale * spectra[spectrum](i, n);
        values[i] = positive ? fabs(x) : x;
    }
}

static void eigen_case(int64_t type, int64_t n, int spectrum, double scale) {
    double values[MANY], tolerance = 8 * epsilon(type) * sqrt((double)n);
    make_values(values, n, spectrum, scale, false);
    void *memory = room(n * n, 16), *out = room(n * n, 16), *d = room(n, 8);
    cplx *a = matrix_of(type, n, n, values, true, memory);
    int32_t info = -1;
    int64_t config[LINALG_NUMBERS] = {type, n, n, LINALG_LOWER | LINALG_INFO};
    RUN(syevd, config, out, d, &info, memory);
    assert_int_equal(info, 0);
    cplx *v = read_matrix(type, out, n * n), *got = read_matrix(real_type(type), d, n);
    double size = largest(values, n);
    qsort(values, (size_t)n, sizeof *values, ascending);
    orthogonal(v, n, n, tolerance);
    for (int64_t j = 0; j < n; j++) {
        assert_true(j == 0 || creal(got[j]) >= creal(got[j - 1]));
        assert_true(cabs(got[j] - values[j]) <= tolerance * size);
        for (int64_t i = 0; i < n; i++) {
            cplx sum = -got[j] * v[i * n + j];
            for (int64_t k = 0; k < n; k++)
                sum += a[i * n + k] * v[k * n + j];
            assert_true(cabs(sum) <= tolerance * size);
        }
    }
    config[LINALG_FLAGS] |= LINALG_VALUES;
    RUN(syevd, config, out, d, &info, memory);
    for (int64_t j = 0; j < n; j++)
        assert_true(fabs(creal(number_get(real_type(type), d, j)) - values[j]) <= tolerance * size);
    void *all[] = {memory, out, d, a, v, got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* full: all columns of the square factors. */
static void svd_case(int64_t type, int64_t rows, int64_t columns, int spectrum, double scale,
                     bool full) {
    int64_t n = rows < columns ? rows : columns, left = full ? rows : n;
    int64_t right = full ? columns : n;
    double values[MANY], tolerance = 10 * epsilon(type) * sqrt((double)(rows + columns));
    make_values(values, n, spectrum, scale, true);
    void *memory = room(rows * columns, 16), *copy = room(rows * columns, 16), *d = room(n, 8);
    void *u_out = room(rows * left, 16), *v_out = room(right * columns, 16);
    cplx *a = matrix_of(type, rows, columns, values, false, memory);
    int32_t info = -1;
    int64_t config[LINALG_NUMBERS] = {type, rows, columns, LINALG_INFO, left, right};
    RUN(gesdd, config, copy, d, u_out, v_out, &info, memory);
    assert_int_equal(info, 0);
    cplx *u = read_matrix(type, u_out, rows * left), *v = room(columns * right, sizeof *v);
    for (int64_t i = 0; i < right; i++)
        for (int64_t j = 0; j < columns; j++)
            v[j * right + i] = conj(number_get(type, v_out, i * columns + j));
    double size = largest(values, n), got[MANY];
    qsort(values, (size_t)n, sizeof *values, ascending);
    orthogonal(u, rows, left, tolerance);
    orthogonal(v, columns, right, tolerance);
    for (int64_t j = 0; j < n; j++) {
        got[j] = creal(number_get(real_type(type), d, j));
        assert_true(got[j] >= 0 && (j == 0 || got[j] <= got[j - 1]));
        assert_true(fabs(got[j] - values[n - 1 - j]) <= tolerance * size);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            cplx sum = -got[j] * u[i * left + j];
            for (int64_t k = 0; k < columns; k++)
                sum += a[i * columns + k] * v[k * right + j];
            assert_true(cabs(sum) <= tolerance * size);
        }
    config[LINALG_FLAGS] |= LINALG_VALUES;
    RUN(gesdd, config, copy, d, u_out, v_out, &info, memory);
    for (int64_t j = 0; j < n; j++)
        assert_true(fabs(creal(number_get(real_type(type), d, j)) - got[j]) <= tolerance * size);
    void *all[] = {memory, copy, d, u_out, v_out, a, u, v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void test_eigen(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < SPECTRA; s++) {
            bool single = epsilon(types[t]) > 1e-10;
            eigen_case(types[t], 61, s, 1);
            eigen_case(types[t], 150, s, single ? 1e35 : 1e250);
            eigen_case(types[t], 133, s, single ? 1e-25 : 1e-250);
        }
}

static void test_svd(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < SPECTRA; s++) {
            bool single = epsilon(types[t]) > 1e-10;
            svd_case(types[t], 61, 61, s, 1, false);
            svd_case(types[t], 150, 130, s, single ? 1e35 : 1e250, true);
            svd_case(types[t], 55, 90, s, single ? 1e-25 : 1e-250, true);
            svd_case(types[t], 150, 40, s, 1, s % 2);
        }
}

/* Tridiagonal matrices with 2 on and -1 beside the diagonal have 2 - 2 cos(k pi / (n + 1));
 * bidiagonal ones with 1 and 1 have 2 cos(k pi / (2 n + 1)). */
static void test_exact(void **state) {
    (void)state;
    for (int64_t n = 1; n < 130; n += n < 10 ? 1 : 17) {
        double *a = room(n * n, 8), *out = room(n * n, 8), *d = room(n, 8), pi = acos(-1);
        double *u = room(n * n, 8), *v = room(n * n, 8);
        int32_t info = -1;
        for (int64_t i = 0; i < n; i++) {
            a[i * n + i] = 2;
            if (i > 0) a[i * n + i - 1] = -1;
        }
        int64_t config[LINALG_NUMBERS] = {RT_F64, n, n, LINALG_LOWER | LINALG_INFO, n, n};
        RUN(syevd, config, out, d, &info, a);
        for (int64_t k = 0; k < n; k++)
            assert_true(fabs(d[k] - 2 + 2 * cos((double)(k + 1) * pi / (double)(n + 1))) < 1e-14);
        for (int64_t i = 0; i < n; i++) {
            a[i * n + i] = 1;
            if (i > 0) a[i * n + i - 1] = 1;
        }
        RUN(gesdd, config, out, d, u, v, &info, a);
        for (int64_t k = 0; k < n; k++)
            assert_true(fabs(d[k] - 2 * cos((double)(k + 1) * pi / (double)(2 * n + 1))) < 1e-14);
        void *all[] = {a, out, d, u, v};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
    }
}

/* One NaN or infinity in what is read makes all results NaN, and says so. */
static void test_not_finite(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        enum { N = 40 };
        double a[N * N] = {0}, out[N * N], d[N], u[N * N], v[N * N];
        int32_t info = 0;
        a[7 * N + 3] = k ? INFINITY : (double)NAN;
        int64_t config[LINALG_NUMBERS] = {RT_F64, N, N, LINALG_LOWER | LINALG_INFO, N, N};
        RUN(syevd, config, out, d, &info, a);
        assert_int_not_equal(info, 0);
        assert_true(isnan(d[0]) && isnan(out[N * N - 1]));
        RUN(gesdd, config, out, d, u, v, &info, a);
        assert_int_not_equal(info, 0);
        assert_true(isnan(d[0]) && isnan(u[0]) && isnan(v[N * N - 1]));
        config[LINALG_FLAGS] = LINALG_INFO; /* the other triangle */
        RUN(syevd, config, out, d, &info, a);
        assert_int_equal(info, 0);
        assert_true(d[0] == 0 && d[N - 1] == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact), cmocka_unit_test(test_eigen),
                                       cmocka_unit_test(test_svd),
                                       cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
