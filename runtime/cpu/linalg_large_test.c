/* Factorisations of matrices that are larger than their blocks, multiplied back. */
#include <math.h>

#include "runtime/cpu/linalg_testing.h"

/* rows x columns numbers, in memory of a type and to compute with. */
struct array {
    int64_t type, rows, columns;
    double *memory;
    cplx *value;
};

static struct array new_array(int64_t type, int64_t rows, int64_t columns) {
    struct array a = {type, rows, columns, calloc((size_t)(rows * columns), 16),
                      calloc((size_t)(rows * columns), sizeof(cplx))};
    assert_non_null(a.memory);
    assert_non_null(a.value);
    return a;
}

static void drop(struct array *a) {
    free(a->memory);
    free(a->value);
}

static void write_back(struct array *a) {
    for (int64_t i = 0; i < a->rows * a->columns; i++) {
        number_set(a->type, a->memory, i, a->value[i]);
        a->value[i] = number_get(a->type, a->memory, i);
    }
}

static void read_in(struct array *a) {
    for (int64_t i = 0; i < a->rows * a->columns; i++)
        a->value[i] = number_get(a->type, a->memory, i);
}

/* Numbers in (-1, 1), `more` on the diagonal; a triangle of them, or a Hermitian matrix. */
enum form { FULL, LOWER, HERMITIAN };

static struct array draw(int64_t type, int64_t rows, int64_t columns, double more, enum form form) {
    struct array a = new_array(type, rows, columns);
    unsigned seed = (unsigned)(rows * 7 + columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        double part[2];
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525 + 1013904223;
            part[k] = (double)(seed >> 8) / (1 << 23) - 1;
        }
        a.value[i] = CMPLX(part[0], number_is_complex(type) ? part[1] : 0);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            if (form == LOWER && j > i) a.value[i * columns + j] = 0;
            if (form == HERMITIAN && j > i)
                a.value[i * columns + j] = conj(a.value[j * columns + i]);
            if (i == j) a.value[i * columns + j] += more;
            if (form == HERMITIAN && i == j)
                a.value[i * columns + j] = creal(a.value[i * columns + j]);
        }
    write_back(&a);
    return a;
}

/* a b, or a b^H */
static struct array times(const struct array *a, const struct array *b, bool adjoint) {
    struct array c = new_array(a->type, a->rows, adjoint ? b->rows : b->columns);
    for (int64_t i = 0; i < c.rows; i++)
        for (int64_t k = 0; k < a->columns; k++)
            for (int64_t j = 0; j < c.columns; j++)
                c.value[i * c.columns + j] +=
                    a->value[i * a->columns + k] *
                    (adjoint ? conj(b->value[j * b->columns + k]) : b->value[k * b->columns + j]);
    return c;
}

static void near(const struct array *a, const struct array *b, double size) {
    double worst = 0, tolerance = a->type == RT_F32 || a->type == RT_C64 ? 1e-5 : 1e-14;
    for (int64_t i = 0; i < a->rows * a->columns; i++)
        worst = fmax(worst, cabs(a->value[i] - b->value[i]));
    assert_true(worst < tolerance * size);
}

static void near_unit(struct array a) { /* frees a */
    for (int64_t i = 0; i < a.rows; i++)
        a.value[i * a.columns + i] -= 1;
    struct array zero = new_array(a.type, a.rows, a.columns);
    near(&a, &zero, 30);
    drop(&zero);
    drop(&a);
}

static void cholesky_case(int64_t type, int64_t n) {
    struct array a = draw(type, n, n, 2 * (double)n, HERMITIAN), l = new_array(type, n, n);
    int32_t info = -1;
    int64_t config[LINALG_NUMBERS] = {type, n, n, LINALG_LOWER | LINALG_INFO};
    RUN(cholesky, config, l.memory, &info, a.memory);
    assert_int_equal(info, 0);
    read_in(&l);
    struct array back = times(&l, &l, true);
    near(&back, &a, 4 * (double)n);
    drop(&back);
    drop(&l);
    drop(&a);
}

static void solve_case(int64_t type, int64_t n, int64_t others) {
    struct array a = draw(type, n, n, (double)n, LOWER), b = draw(type, n, others, 0, FULL);
    struct array x = new_array(type, n, others);
    int64_t config[LINALG_NUMBERS] = {type, n, others, LINALG_LOWER | LINALG_LEFT};
    RUN(solve, config, x.memory, a.memory, b.memory);
    read_in(&x);
    struct array back = times(&a, &x, false);
    near(&back, &b, 10);
    drop(&back);
    drop(&x);
    drop(&b);
    drop(&a);
}

static void lu_case(int64_t type, int64_t rows, int64_t columns) {
    int64_t least = rows < columns ? rows : columns;
    struct array a = draw(type, rows, columns, 0, FULL), f = new_array(type, rows, columns);
    struct array l = new_array(type, rows, least), u = new_array(type, least, columns);
    int32_t *exchanges = calloc((size_t)least, sizeof *exchanges), info = -1;
    int64_t config[LINALG_NUMBERS] = {type, rows, columns, LINALG_INFO};
    RUN(getrf, config, f.memory, exchanges, &info, a.memory);
    assert_int_equal(info, 0);
    read_in(&f);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            cplx x = f.value[i * columns + j];
            if (j < least) l.value[i * least + j] = i == j ? 1 : i > j ? x : 0;
            if (i < least && j >= i) u.value[i * columns + j] = x;
            if (i > j) assert_true(fabs(creal(x)) < 1.5);
        }
    for (int64_t k = 0; k < least; k++)
        for (int64_t j = 0; j < columns; j++) {
            cplx *x = &a.value[k * columns + j], *y = &a.value[(exchanges[k] - 1) * columns + j];
            cplx keep = *x;
            *x = *y;
            *y = keep;
        }
    struct array back = times(&l, &u, false);
    near(&back, &a, 100);
    drop(&back);
    drop(&u);
    drop(&l);
    drop(&f);
    drop(&a);
    free(exchanges);
}

static void qr_case(int64_t type, int64_t rows, int64_t columns) {
    struct array a = draw(type, rows, columns, 0, FULL), f = new_array(type, rows, columns);
    struct array r = new_array(type, columns, columns), q = new_array(type, rows, columns);
    struct array tau = new_array(type, 1, columns), c = draw(type, rows, 37, 0, FULL);
    struct array turned = new_array(type, rows, 37);
    int64_t config[LINALG_NUMBERS] = {type, rows, columns, 0, columns};
    RUN(geqrf, config, f.memory, tau.memory, a.memory);
    RUN(orgqr, config, q.memory, f.memory, tau.memory);
    read_in(&f);
    read_in(&q);
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = i; j < columns; j++)
            r.value[i * columns + j] = f.value[i * columns + j];
    struct array back = times(&q, &r, false);
    near(&back, &a, 100);
    /* Q (Q^H c) = c */
    int64_t apply[LINALG_NUMBERS] = {type, rows, 37, LINALG_LEFT | LINALG_CONJUGATE, columns};
    RUN(ormqr, apply, turned.memory, f.memory, tau.memory, c.memory);
    apply[LINALG_FLAGS] = LINALG_LEFT;
    struct array again = new_array(type, rows, 37);
    RUN(ormqr, apply, again.memory, f.memory, tau.memory, turned.memory);
    read_in(&again);
    near(&again, &c, 100);
    struct array *all[] = {&a, &f, &r, &q, &tau, &c, &turned, &back, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(all[i]);
}

static void scale_columns(struct array *a, const struct array *by) {
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->columns; j++)
            a->value[i * a->columns + j] *= by->value[j];
}

static void eigen_case(int64_t type, int64_t n) {
    int64_t real = type == RT_C64 ? RT_F32 : type == RT_C128 ? RT_F64 : type;
    struct array a = draw(type, n, n, 0, HERMITIAN), v = new_array(type, n, n);
    struct array d = new_array(real, 1, n);
    int32_t info = -1;
    int64_t config[LINALG_NUMBERS] = {type, n, n, LINALG_LOWER | LINALG_INFO};
    RUN(syevd, config, v.memory, d.memory, &info, a.memory);
    assert_int_equal(info, 0);
    read_in(&v);
    read_in(&d);
    near_unit(times(&v, &v, true));
    struct array left = times(&a, &v, false);
    scale_columns(&v, &d);
    near(&left, &v, 30 * sqrt((double)n));
    drop(&left);
    drop(&d);
    drop(&v);
    drop(&a);
}

static void svd_case(int64_t type, int64_t rows, int64_t columns) {
    int64_t real = type == RT_C64 ? RT_F32 : type == RT_C128 ? RT_F64 : type;
    int64_t least = rows < columns ? rows : columns;
    struct array a = draw(type, rows, columns, 0, FULL), copy = new_array(type, rows, columns);
    struct array u = new_array(type, rows, least), v = new_array(type, least, columns);
    struct array d = new_array(real, 1, least);
    int32_t info = -1;
    int64_t config[LINALG_NUMBERS] = {type, rows, columns, LINALG_INFO, least, least};
    RUN(gesdd, config, copy.memory, d.memory, u.memory, v.memory, &info, a.memory);
    assert_int_equal(info, 0);
    read_in(&u);
    read_in(&v);
    read_in(&d);
    near_unit(times(&v, &v, true));
    for (int64_t i = 1; i < least; i++)
        assert_true(creal(d.value[i - 1]) >= creal(d.value[i]));
    scale_columns(&u, &d);
    struct array back = times(&u, &v, false);
    near(&back, &a, 30 * sqrt((double)rows));
    struct array *all[] = {&a, &copy, &u, &v, &d, &back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(all[i]);
}

static void test_large(void **state) {
    static const int64_t sizes[] = {33, 70, 131};
    (void)state;
    for (int t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int64_t n = sizes[i];
            cholesky_case(types[t], n);
            solve_case(types[t], n, 40);
            solve_case(types[t], n, 1);
            solve_case(types[t], n, n);
            lu_case(types[t], n, n);
            lu_case(types[t], n, 200);
            lu_case(types[t], 200, n);
            qr_case(types[t], n, n);
            qr_case(types[t], 200, n);
            eigen_case(types[t], n);
            svd_case(types[t], n, n);
            svd_case(types[t], 150, n);
            svd_case(types[t], n, 150);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
