/* Factorisations multiplied back, over sizes, types and shapes. */
#include <math.h>

#include "runtime/cpu/linalg_testing.h"

enum { N = 12, MAX = N * N };

static double tolerance(int64_t type) {
    return type == RT_F32 || type == RT_C64 ? 2e-5 : 1e-12;
}

/* A matrix stored in its type; the values read back are what the checks use. */
struct array {
    int64_t type;
    double memory[2 * MAX];
};

static cplx get(const struct array *a, int64_t at) {
    return number_get(a->type, a->memory, at);
}

static void fill(struct array *a, int64_t type, int64_t count, unsigned seed) {
    a->type = type;
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        double re = (double)(seed >> 8) / (1 << 24) - 0.5;
        seed = seed * 1664525 + 1013904223;
        number_set(type, a->memory, i, CMPLX(re, (double)(seed >> 8) / (1 << 24) - 0.5));
    }
}

/* h + h^H, with `more` on the diagonal. */
static void make_hermitian(struct array *a, int64_t n, double more) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            cplx x = get(a, i * n + j) + conj(get(a, j * n + i)) + (i == j ? more : 0);
            number_set(a->type, a->memory, i * n + j, x);
            number_set(a->type, a->memory, j * n + i, conj(x));
        }
}

static void near(cplx a, cplx b, int64_t type) {
    assert_true(cabs(a - b) < tolerance(type) * N);
}

static void test_cholesky(void **state) {
    (void)state;
    for (int64_t n = 1; n <= N; n++)
        for (int t = 0; t < 4; t++)
            for (int lower = 0; lower < 2; lower++) {
                struct array a, l = {types[t], {0}};
                int32_t info = -1;
                fill(&a, types[t], n * n, (unsigned)n);
                make_hermitian(&a, n, 2 * N);
                int64_t config[LINALG_NUMBERS] = {types[t], n, n, lower | LINALG_INFO};
                RUN(cholesky, config, l.memory, &info, a.memory);
                assert_int_equal(info, 0);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < n; j++) {
                        cplx sum = 0;
                        for (int64_t k = 0; k < n; k++)
                            sum += lower ? get(&l, i * n + k) * conj(get(&l, j * n + k))
                                         : conj(get(&l, k * n + i)) * get(&l, k * n + j);
                        near(sum, get(&a, i * n + j), types[t]);
                        if (lower ? j > i : j < i) assert_true(get(&l, i * n + j) == 0);
                    }
                make_hermitian(&a, n, -9 * N);
                RUN(cholesky, config, l.memory, &info, a.memory);
                assert_int_equal(info, 1);
                assert_true(isnan(creal(get(&l, n * n - 1))));
            }
}

static cplx entry(const struct array *a, int64_t n, int64_t flags, int64_t i, int64_t j) {
    int64_t r = flags & LINALG_TRANSPOSE ? j : i, c = flags & LINALG_TRANSPOSE ? i : j;
    if (r == c && flags & LINALG_UNIT) return 1;
    if (flags & LINALG_LOWER ? c > r : c < r) return 0;
    cplx x = get(a, r * n + c);
    return flags & LINALG_CONJUGATE ? conj(x) : x;
}

static void test_solve(void **state) {
    const int64_t n = 7, others = 3;
    (void)state;
    for (int64_t flags = 0; flags < 32; flags++)
        for (int t = 0; t < 4; t++) {
            struct array a, b, x = {types[t], {0}};
            bool left = flags & LINALG_LEFT;
            fill(&a, types[t], n * n, 3);
            make_hermitian(&a, n, 3);
            fill(&b, types[t], n * others, 4);
            int64_t config[LINALG_NUMBERS] = {types[t], left ? n : others, left ? others : n,
                                              flags};
            RUN(solve, config, x.memory, a.memory, b.memory);
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = 0; k < others; k++) {
                    cplx sum = 0;
                    for (int64_t j = 0; j < n; j++)
                        sum += left ? entry(&a, n, flags, i, j) * get(&x, j * others + k)
                                    : get(&x, k * n + j) * entry(&a, n, flags, j, i);
                    near(sum, get(&b, left ? i * others + k : k * n + i), types[t]);
                }
        }
}

static void lu_case(int64_t type, int64_t rows, int64_t columns) {
    struct array a, f = {type, {0}};
    int32_t exchanges[N], info = -1;
    int64_t least = rows < columns ? rows : columns, order[N];
    fill(&a, type, rows * columns, (unsigned)(rows * 16 + columns));
    int64_t config[LINALG_NUMBERS] = {type, rows, columns};
    RUN(getrf, config, f.memory, exchanges, &info, a.memory);
    assert_int_equal(info, 0);
    for (int64_t i = 0; i < rows; i++)
        order[i] = i;
    for (int64_t k = 0; k < least; k++) {
        int64_t with = exchanges[k] - 1, keep = order[k];
        order[k] = order[with];
        order[with] = keep;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            cplx sum = i <= j ? get(&f, i * columns + j) : 0;
            for (int64_t k = 0; k < i && k <= j && k < least; k++)
                sum += get(&f, i * columns + k) * get(&f, k * columns + j);
            near(sum, get(&a, order[i] * columns + j), type);
        }
}

static void qr_case(int64_t type, int64_t rows, int64_t columns) {
    struct array a, r = {type, {0}}, tau = {type, {0}}, q = {type, {0}};
    int64_t least = rows < columns ? rows : columns;
    fill(&a, type, rows * columns, (unsigned)(rows * 16 + columns));
    int64_t config[LINALG_NUMBERS] = {type, rows, columns};
    RUN(geqrf, config, r.memory, tau.memory, a.memory);
    if (rows < columns) return;
    config[LINALG_EXTRA] = least;
    RUN(orgqr, config, q.memory, r.memory, tau.memory);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            cplx sum = 0;
            for (int64_t k = 0; k <= j; k++)
                sum += get(&q, i * columns + k) * get(&r, k * columns + j);
            near(sum, get(&a, i * columns + j), type);
        }
    for (int64_t i = 0; i < columns; i++) {
        assert_true(cimag(get(&r, i * columns + i)) == 0);
        for (int64_t j = 0; j < columns; j++) {
            cplx sum = 0;
            for (int64_t k = 0; k < rows; k++)
                sum += conj(get(&q, k * columns + i)) * get(&q, k * columns + j);
            near(sum, i == j, type);
        }
    }
}

static void test_lu_and_qr(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= N; rows++)
        for (int64_t columns = 1; columns <= N; columns++)
            for (int t = 0; t < 4; t++) {
                lu_case(types[t], rows, columns);
                qr_case(types[t], rows, columns);
            }
}

/* a[:, order] = q r, and the diagonal of r shrinks; column `front` comes first. */
static void pivoted_case(int64_t type, int64_t rows, int64_t columns) {
    struct array a, r = {type, {0}}, tau = {type, {0}}, q = {type, {0}};
    int32_t wish[N] = {0}, order[N];
    fill(&a, type, rows * columns, (unsigned)(rows * 16 + columns));
    int64_t config[LINALG_NUMBERS] = {type, rows, columns}, front = columns / 2;
    wish[front] = 1;
    RUN(geqp3, config, r.memory, order, tau.memory, a.memory, wish);
    assert_int_equal(order[0], front + 1);
    for (int64_t k = 2; k < rows && k < columns; k++)
        assert_true(cabs(get(&r, k * columns + k)) <=
                    cabs(get(&r, (k - 1) * columns + k - 1)) * (1 + 1e-6));
    if (rows < columns) return;
    config[LINALG_EXTRA] = columns;
    RUN(orgqr, config, q.memory, r.memory, tau.memory);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            cplx sum = 0;
            for (int64_t k = 0; k <= j; k++)
                sum += get(&q, i * columns + k) * get(&r, k * columns + j);
            near(sum, get(&a, i * columns + order[j] - 1), type);
        }
}

/* Q from orgqr, and the same by ormqr on the unit matrix from either side. */
static void apply_case(int64_t type, int64_t rows, int64_t columns) {
    struct array a, r = {type, {0}}, tau = {type, {0}}, q = {type, {0}}, unit = {type, {0}};
    struct array out = {type, {0}};
    fill(&a, type, rows * columns, (unsigned)(rows * 16 + columns));
    int64_t config[LINALG_NUMBERS] = {type, rows, columns, 0, columns};
    RUN(geqrf, config, r.memory, tau.memory, a.memory);
    RUN(orgqr, config, q.memory, r.memory, tau.memory);
    for (int64_t i = 0; i < rows; i++)
        number_set(type, unit.memory, i * rows + i, 1);
    for (int64_t flags = 0; flags < 4; flags++) {
        bool adjoint = flags & 2;
        int64_t apply[LINALG_NUMBERS] = {
            type, rows, rows, (flags & 1 ? LINALG_LEFT : 0) | (adjoint ? LINALG_CONJUGATE : 0),
            columns};
        RUN(ormqr, apply, out.memory, r.memory, tau.memory, unit.memory);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                near(adjoint ? conj(get(&out, j * rows + i)) : get(&out, i * rows + j),
                     get(&q, i * columns + j), type);
    }
}

/* a q = q h */
static void hessenberg_case(int64_t type, int64_t n, int64_t low, int64_t high) {
    struct array a, h = {type, {0}}, tau = {type, {0}};
    int32_t info = -1;
    cplx q[MAX], v[N];
    fill(&a, type, n * n, (unsigned)n);
    for (int64_t i = 0; i < n; i++) /* outside of the range it is triangular already */
        for (int64_t j = 0; j < i; j++)
            if (j < low - 1 || i >= high) number_set(type, a.memory, i * n + j, 0);
    int64_t config[LINALG_NUMBERS] = {type, n, n, 0, low, high};
    RUN(gehrd, config, h.memory, tau.memory, &info, a.memory);
    assert_int_equal(info, 0);
    for (int64_t i = 0; i < n * n; i++)
        q[i] = i % (n + 1) == 0;
    for (int64_t k = low - 1; k + 1 < high; k++) {
        for (int64_t i = 0; i < n; i++)
            v[i] = i == k + 1 ? 1 : i > k + 1 && i < high ? get(&h, i * n + k) : 0;
        for (int64_t i = 0; i < n; i++) {
            cplx sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += q[i * n + j] * v[j];
            for (int64_t j = 0; j < n; j++)
                q[i * n + j] -= sum * get(&tau, k) * conj(v[j]);
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            cplx left = 0, right = 0;
            for (int64_t k = 0; k < n; k++) {
                left += get(&a, i * n + k) * q[k * n + j];
                if (k <= j + 1) right += q[i * n + k] * get(&h, k * n + j);
            }
            near(left, right, type);
        }
}

static void tridiagonal_case(int64_t type, int64_t n, double weight) {
    struct array low, mid, high, b, x = {type, {0}},
                                    left[3] = {{type, {0}}, {type, {0}}, {type, {0}}};
    int32_t info = -1;
    fill(&low, type, n, 1);
    fill(&mid, type, n, 2);
    fill(&high, type, n, 3);
    fill(&b, type, 2 * n, 4);
    for (int64_t i = 0; i < n; i++)
        number_set(type, mid.memory, i, weight * get(&mid, i));
    int64_t config[LINALG_NUMBERS] = {type, n, 2};
    RUN(gtsv, config, left[0].memory, left[1].memory, left[2].memory, x.memory, &info, low.memory,
        mid.memory, high.memory, b.memory);
    assert_int_equal(info, 0);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < 2; j++) {
            cplx sum = get(&mid, i) * get(&x, 2 * i + j);
            if (i > 0) sum += get(&low, i) * get(&x, 2 * (i - 1) + j);
            if (i + 1 < n) sum += get(&high, i) * get(&x, 2 * (i + 1) + j);
            assert_true(cabs(sum - get(&b, 2 * i + j)) < 100 * tolerance(type));
        }
}

static void test_other_forms(void **state) {
    (void)state;
    for (int64_t n = 1; n <= N; n++)
        for (int t = 0; t < 4; t++) {
            pivoted_case(types[t], N, n);
            pivoted_case(types[t], n, N);
            hessenberg_case(types[t], n, 1, n);
            if (n > 3) hessenberg_case(types[t], n, 2, n - 1);
            apply_case(types[t], N, n);
            apply_case(types[t], n, n);
            tridiagonal_case(types[t], n, 10);
            tridiagonal_case(types[t], n, 0.5); /* with exchanges */
        }
    double zero[3] = {0}, x[3];
    int32_t info;
    int64_t config[LINALG_NUMBERS] = {RT_F64, 3, 1};
    RUN(gtsv, config, (double[3]){0}, (double[3]){0}, (double[3]){0}, x, &info, zero, zero, zero,
        zero);
    assert_int_equal(info, 1);
}

static void test_singular_lu(void **state) {
    double a[4] = {0, 0, 0, 0}, f[4];
    int32_t exchanges[2], info;
    int64_t config[LINALG_NUMBERS] = {RT_F64, 2, 2};
    (void)state;
    RUN(getrf, config, f, exchanges, &info, a);
    assert_int_equal(info, 1);
}

static void test_eigen(void **state) {
    (void)state;
    for (int64_t n = 1; n <= N; n++)
        for (int t = 0; t < 4; t++)
            for (int lower = 0; lower < 2; lower++) {
                bool wide = types[t] == RT_F64 || types[t] == RT_C128;
                struct array a, v = {types[t], {0}}, d = {wide ? RT_F64 : RT_F32, {0}};
                int32_t info = -1;
                fill(&a, types[t], n * n, (unsigned)n);
                make_hermitian(&a, n, 0);
                int64_t config[LINALG_NUMBERS] = {types[t], n, n, lower | LINALG_INFO};
                RUN(syevd, config, v.memory, d.memory, &info, a.memory);
                assert_int_equal(info, 0);
                for (int64_t j = 0; j < n; j++) {
                    if (j > 0) assert_true(creal(get(&d, j - 1)) <= creal(get(&d, j)));
                    double size = 0;
                    for (int64_t i = 0; i < n; i++) {
                        cplx sum = 0;
                        for (int64_t k = 0; k < n; k++)
                            sum += get(&a, i * n + k) * get(&v, k * n + j);
                        near(sum, get(&d, j) * get(&v, i * n + j), types[t]);
                        size += creal(get(&v, i * n + j) * conj(get(&v, i * n + j)));
                    }
                    near(size, 1, types[t]);
                }
            }
}

/* rank: columns past it repeat earlier ones. */
static void svd_case(int64_t type, int64_t rows, int64_t columns, bool full, int64_t rank) {
    bool is_wide = type == RT_F64 || type == RT_C128;
    int64_t n = rows < columns ? rows : columns, uc = full ? rows : n, vr = full ? columns : n;
    struct array a, copy = {type, {0}}, s = {is_wide ? RT_F64 : RT_F32, {0}}, u = {type, {0}},
                    vt = {type, {0}};
    int32_t info = -1;
    fill(&a, type, rows * columns, (unsigned)(rows * 16 + columns));
    for (int64_t j = rank; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            number_set(type, a.memory, i * columns + j, rank ? get(&a, i * columns + j % rank) : 0);
    int64_t config[LINALG_NUMBERS] = {type, rows, columns, 0, uc, vr};
    RUN(gesdd, config, copy.memory, s.memory, u.memory, vt.memory, &info, a.memory);
    assert_int_equal(info, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            cplx sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += get(&u, i * uc + k) * get(&s, k) * get(&vt, k * columns + j);
            near(sum, get(&a, i * columns + j), type);
        }
    for (int64_t i = 0; i < uc; i++)
        for (int64_t j = 0; j < uc; j++) {
            cplx sum = 0;
            for (int64_t k = 0; k < rows; k++)
                sum += conj(get(&u, k * uc + i)) * get(&u, k * uc + j);
            near(sum, i == j, type);
        }
    for (int64_t i = 0; i < vr; i++)
        for (int64_t j = 0; j < vr; j++) {
            cplx sum = 0;
            for (int64_t k = 0; k < columns; k++)
                sum += get(&vt, i * columns + k) * conj(get(&vt, j * columns + k));
            near(sum, i == j, type);
        }
    for (int64_t k = 1; k < n; k++)
        assert_true(creal(get(&s, k)) <= creal(get(&s, k - 1)));
    for (int64_t k = rank; k < n; k++)
        near(get(&s, k), 0, type);
}

static void test_svd(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= N; rows += 2)
        for (int64_t columns = 1; columns <= N; columns += 3)
            for (int how = 0; how < 8; how++) {
                svd_case(types[how % 4], rows, columns, how & 4, N);
                if (columns > 2) svd_case(types[how % 4], rows, columns, how & 4, columns / 2);
                svd_case(types[how % 4], rows, columns, how & 4, 0);
            }
}

/* NaN goes through and nothing loops for ever. */
static void test_nan(void **state) {
    double a[16], v[16], d[4], u[16], vt[16], copy[16];
    int32_t info;
    (void)state;
    for (int i = 0; i < 16; i++)
        a[i] = (double)NAN;
    int64_t config[LINALG_NUMBERS] = {RT_F64, 4, 4, LINALG_INFO, 4, 4};
    RUN(syevd, config, v, d, &info, a);
    assert_true(isnan(d[0]));
    RUN(gesdd, config, copy, d, u, vt, &info, a);
    assert_true(isnan(d[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cholesky),    cmocka_unit_test(test_solve),
        cmocka_unit_test(test_lu_and_qr),   cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_singular_lu), cmocka_unit_test(test_eigen),
        cmocka_unit_test(test_svd),         cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
