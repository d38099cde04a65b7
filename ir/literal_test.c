/* Literals: references, tuples, elements of every type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/literal.h"

/* Read by the address sanitizer where one is built in: a failed allocation is what is tested. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

struct fixture {
    struct arena *arena;
    struct shape_table *shapes;
};

static int setup(void **state) {
    struct arena *arena = arena_new();
    struct fixture *fixture = arena_alloc(arena, sizeof *fixture);
    fixture->arena = arena;
    fixture->shapes = shape_table_new(arena);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    arena_free(((struct fixture *)*state)->arena);
    return 0;
}

static struct literal *vector(struct fixture *f, enum element_type type, int64_t size) {
    struct literal *literal = literal_new(shape_array(f->shapes, type, 1, &size));
    assert_non_null(literal);
    return literal;
}

static void test_arrays(void **state) {
    struct fixture *f = *state;
    struct literal *a = vector(f, TYPE_F32, 5);
    assert_int_equal(a->size, 20);
    assert_int_equal((uintptr_t)a->data % 64, 0);
    for (int i = 0; i < 5; i++)
        assert_true(literal_get_double(a, i) == 0);
    literal_set_double(a, 3, 0.1);
    assert_true(literal_get_double(a, 3) == (double)0.1f);
    struct literal *b = literal_copy(a);
    assert_true(literal_equal(a, b));
    literal_set_double(b, 0, -0.0);
    assert_false(literal_equal(a, b));
    struct literal *same = literal_ref(a);
    literal_unref(a);
    assert_true(literal_get_double(same, 3) != 0);
    literal_unref(same);
    literal_unref(b);
    literal_unref(NULL);
}

static void test_empty(void **state) {
    struct fixture *f = *state;
    struct literal *a = vector(f, TYPE_F32, 0), *b = literal_copy(a);
    assert_int_equal(a->size, 0);
    assert_true(literal_equal(a, b));
    literal_unref(a);
    literal_unref(b);
}

static void test_too_large(void **state) {
    struct fixture *f = *state;
    const struct shape *huge = shape_array(f->shapes, TYPE_S8, 1, &(int64_t){(int64_t)1 << 60});
    assert_null(literal_new_uninit(huge));
    assert_null(literal_new(shape_tuple(f->shapes, 1, &huge)));
}

static void test_integers_wrap(void **state) {
    struct fixture *f = *state;
    for (int type = TYPE_S1; type <= TYPE_U64; type++) {
        struct literal *a = vector(f, (enum element_type)type, 2);
        int bits = element_type_info((enum element_type)type)->bits;
        literal_set_int(a, 0, -1);
        literal_set_int(a, 1, 1);
        bool is_signed = element_type_is_signed((enum element_type)type);
        int64_t all = bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
        assert_int_equal(literal_get_int(a, 0), is_signed ? -1 : all);
        assert_int_equal(literal_get_int(a, 1), bits == 1 && is_signed ? -1 : 1);
        literal_unref(a);
    }
    struct literal *u = vector(f, TYPE_U64, 1);
    literal_set_int(u, 0, -1);
    assert_true(literal_get_double(u, 0) == 0x1p64);
    literal_set_double(u, 0, 0x1p63);
    assert_int_equal(literal_get_int(u, 0), INT64_MIN);
    literal_unref(u);
}

static void test_floats(void **state) {
    struct fixture *f = *state;
    for (int type = TYPE_F4E2M1FN; type <= TYPE_F64; type++) {
        struct literal *a = vector(f, (enum element_type)type, 3);
        literal_set_double(a, 1, 2.0);
        assert_true(literal_get_double(a, 1) == 2.0);
        assert_int_equal(literal_get_int(a, 1), 2);
        literal_unref(a);
    }
    struct literal *a = vector(f, TYPE_F32, 1);
    literal_set_double(a, 0, NAN);
    assert_int_equal(literal_get_int(a, 0), 0);
    literal_set_double(a, 0, 1e30);
    assert_int_equal(literal_get_int(a, 0), INT64_MAX);
    literal_unref(a);
}

static void test_pred_and_complex(void **state) {
    struct fixture *f = *state;
    struct literal *p = vector(f, TYPE_PRED, 2);
    literal_set_double(p, 0, 0.5);
    literal_set_int(p, 1, 256);
    assert_int_equal(literal_get_int(p, 0), 1);
    assert_int_equal(literal_get_int(p, 1), 1);
    literal_unref(p);
    enum element_type types[] = {TYPE_C64, TYPE_C128};
    for (int i = 0; i < 2; i++) {
        struct literal *c = vector(f, types[i], 2);
        double parts[2];
        literal_set_complex(c, 1, 1.5, -2.5);
        literal_get_complex(c, 1, parts);
        assert_true(parts[0] == 1.5 && parts[1] == -2.5);
        assert_true(literal_get_double(c, 1) == 1.5);
        literal_set_double(c, 1, 3);
        literal_get_complex(c, 1, parts);
        assert_true(parts[0] == 3 && parts[1] == 0);
        literal_unref(c);
    }
}

static void test_is_all(void **state) {
    struct fixture *f = *state;
    struct literal *a = vector(f, TYPE_BF16, 4);
    assert_true(literal_is_all(a, 0));
    /* x + -0 is x, x + 0 is not: zeros are told apart. */
    assert_false(literal_is_all(a, -0.0));
    for (int i = 0; i < 4; i++)
        literal_set_double(a, i, 1);
    assert_true(literal_is_all(a, 1));
    literal_set_double(a, 2, 3);
    assert_false(literal_is_all(a, 1));
    literal_unref(a);
}

static void test_tuples(void **state) {
    struct fixture *f = *state;
    struct literal *a = vector(f, TYPE_S32, 2), *e = literal_new_elided(a->shape);
    const struct shape *shape =
        shape_tuple(f->shapes, 2, (const struct shape *[]){a->shape, e->shape});
    struct literal *t = literal_new_tuple(shape, (struct literal *[]){literal_ref(a), e});
    assert_true(literal_has_elided(t));
    assert_false(literal_has_elided(a));
    struct literal *copy = literal_copy(t);
    assert_true(literal_has_elided(copy));
    literal_set_int(a, 0, 7);
    assert_int_equal(literal_get_int(t->elements[0], 0), 7);
    assert_int_equal(literal_get_int(copy->elements[0], 0), 0);
    literal_unref(t);
    literal_unref(copy);
    literal_unref(a);
    struct literal *zero = literal_new(shape);
    assert_int_equal(literal_get_int(zero->elements[1], 1), 0);
    literal_unref(zero);
}

static void test_with_shape(void **state) {
    struct fixture *f = *state;
    struct literal *a = vector(f, TYPE_S32, 6);
    for (int i = 0; i < 6; i++)
        literal_set_int(a, i, i);
    const struct shape *matrix = shape_array(f->shapes, TYPE_S32, 2, (int64_t[]){2, 3});
    struct literal *b = literal_with_shape(a, matrix);
    assert_ptr_equal(b->shape, matrix);
    assert_int_equal(literal_get_int(b, 5), 5);
    assert_false(literal_equal(a, b));
    literal_unref(a);
    literal_unref(b);
}

static void test_live_sizes(void **state) {
    struct fixture *f = *state;
    struct shape proto = {
        .type = TYPE_S32, .rank = 1, .dims = (int64_t[]){4}, .dynamic = (bool[]){true}};
    struct literal *a = literal_new(shape_intern(f->shapes, &proto, NULL));
    struct literal *b = literal_copy(a);
    assert_true(literal_equal(a, b));
    b->dynamic_sizes = malloc(sizeof(int64_t));
    b->dynamic_sizes[0] = 4;
    assert_true(literal_equal(a, b));
    b->dynamic_sizes[0] = 3;
    assert_false(literal_equal(a, b));
    struct literal *c = literal_copy(b);
    assert_true(literal_equal(b, c));
    literal_unref(a);
    literal_unref(b);
    literal_unref(c);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_arrays),        CASE(test_empty),  CASE(test_too_large),
        CASE(test_integers_wrap), CASE(test_floats), CASE(test_pred_and_complex),
        CASE(test_is_all),        CASE(test_tuples), CASE(test_with_shape),
        CASE(test_live_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
