#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/compare.h"
#include "compiler/npy.h"

struct fixture {
    struct arena *arena;
    struct shape_table *shapes;
};

static struct shape_table *shapes(void **state) {
    return ((struct fixture *)*state)->shapes;
}

/* A version 1 file around the header text and data. */
static struct bytes make_file(const char *header, const void *data, size_t size) {
    size_t length = strlen(header);
    struct bytes file = {malloc(10 + length + size + 1), 10 + length + size};
    memcpy(file.data, "\x93NUMPY\1\0", 8);
    file.data[8] = (uint8_t)length;
    file.data[9] = (uint8_t)(length >> 8);
    memcpy(file.data + 10, header, length);
    if (size) memcpy(file.data + 10 + length, data, size);
    return file;
}

static struct literal *decode(const char *header, const void *data, size_t size,
                              const struct shape *shape, struct fault *fault) {
    struct bytes file = make_file(header, data, size);
    struct literal *literal = npy_decode(file.data, file.size, shape, fault);
    free(file.data);
    return literal;
}

static void test_rows_and_columns(void **state) {
    int64_t dims[] = {2, 3};
    const struct shape *shape = shape_array(shapes(state), TYPE_F32, 2, dims);
    float rows[] = {0, 1, 2, 3, 4, 5}, columns[] = {0, 3, 1, 4, 2, 5};
    struct fault fault;
    struct literal *a = decode("{\"shape\": (2L, 3L), 'fortran_order': False, 'descr': '<f4'}",
                               rows, sizeof rows, shape, &fault);
    struct literal *b = decode("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }  \n",
                               columns, sizeof columns, shape, &fault);
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a->data, rows, sizeof rows);
    assert_memory_equal(b->data, rows, sizeof rows);
    literal_unref(a);
    literal_unref(b);
}

static void test_every_prefix_is_refused(void **state) {
    int64_t dims[] = {2};
    const struct shape *shape = shape_array(shapes(state), TYPE_F32, 1, dims);
    float data[] = {1, 2};
    struct bytes file =
        make_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", data, sizeof data);
    for (size_t size = 0; size < file.size; size++) {
        struct fault fault;
        uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees reads past it */
        memcpy(exact, file.data, size);
        assert_null(npy_decode(exact, size, shape, &fault));
        free(exact);
    }
    free(file.data);
}

static void test_refusals(void **state) {
    const struct shape *scalar = shape_scalar(shapes(state), TYPE_F32);
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (), }",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
        "{'descr': '>f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4",
        "",
    };
    float value = 1;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct fault fault = {""};
        assert_null(decode(headers[i], &value, sizeof value, scalar, &fault));
        assert_true(fault.text[0] != 0);
    }
}

static void test_round_trip(void **state) {
    static const enum element_type types[] = {TYPE_PRED, TYPE_S4,  TYPE_U8,  TYPE_S64,
                                              TYPE_BF16, TYPE_F16, TYPE_F64, TYPE_C64};
    int64_t dims[] = {3, 0, 2};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int rank = 0; rank <= 3; rank++) {
            const struct shape *shape = shape_array(shapes(state), types[i], rank, dims);
            struct literal *literal = literal_new(shape);
            for (int64_t n = 0; n < shape->count; n++)
                literal_set_int(literal, n, n % 2);
            char path[] = "/tmp/npy_test_XXXXXX";
            close(mkstemp(path));
            struct fault fault = {""};
            assert_true(npy_write(path, literal, &fault));
            struct literal *back = npy_read(path, shape, &fault);
            unlink(path);
            assert_non_null(back);
            assert_true(literal_equal(literal, back));
            literal_unref(back);
            literal_unref(literal);
        }
    }
}

static struct literal *floats(void **state, int count, const float *values) {
    int64_t dims[] = {count};
    struct literal *literal = literal_new(shape_array(shapes(state), TYPE_F32, 1, dims));
    memcpy(literal->data, values, (size_t)count * sizeof *values);
    return literal;
}

static bool close_enough(void **state, int count, const float *got, const float *want) {
    struct literal *a = floats(state, count, got), *b = floats(state, count, want);
    struct comparison result = compare_arrays(a, b, -1);
    literal_unref(a);
    literal_unref(b);
    return result.equal;
}

static void test_comparison(void **state) {
    float nan = __builtin_nanf(""), inf = __builtin_inff();
#define CLOSE(expected, g0, g1, w0, w1)                                                            \
    assert_int_equal(expected, close_enough(state, 2, (float[]){g0, g1}, (float[]){w0, w1}))
    CLOSE(true, 1, 100, 1.000009f, 100);
    CLOSE(false, 1, 100, 1.00002f, 100);
    CLOSE(true, 0.000009f, 1, 0, 1);       /* against 1, the largest */
    CLOSE(false, 0.00009f, 0.1f, 0, 0.1f); /* small arrays get no slack */
    CLOSE(true, 9e-7f, 0, 0, 0);
    CLOSE(false, 2e-6f, 0, 0, 0);
    CLOSE(true, nan, inf, nan, inf);
    CLOSE(false, nan, 1, 1, 1);
    CLOSE(false, inf, 1, -inf, 1);
    CLOSE(false, 3e38f, 1, inf, 1);
#undef CLOSE
}

static int setup(void **state) {
    struct arena *arena = arena_new();
    struct fixture *fixture = arena_alloc(arena, sizeof *fixture);
    *fixture = (struct fixture){arena, shape_table_new(arena)};
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    arena_free(((struct fixture *)*state)->arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_and_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_prefix_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_comparison, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
