/* Element types, shapes, layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ir/shape.h"

struct fixture {
    struct arena *arena;
    struct shape_table *shapes;
};

static int setup(void **state) {
    static const struct fixture empty;
    struct arena *arena = arena_new();
    struct fixture *fixture = arena_copy(arena, &empty, sizeof empty);
    fixture->arena = arena;
    fixture->shapes = shape_table_new(arena);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    arena_free(((struct fixture *)*state)->arena);
    return 0;
}

static const struct shape *array(struct fixture *f, enum element_type type, int rank,
                                 const int64_t *dims) {
    const struct shape *shape = shape_array(f->shapes, type, rank, dims);
    assert_non_null(shape);
    return shape;
}

static const struct shape *laid_out(struct fixture *f, const struct shape *shape,
                                    const int64_t *order) {
    struct layout layout = {.rank = shape->rank, .minor_to_major = order};
    return shape_with_layout(f->shapes, shape, &layout);
}

static void test_element_types(void **state) {
    (void)state;
    for (int i = TYPE_INVALID + 1; i < TYPE_COUNT; i++) {
        const char *name = element_type_name((enum element_type)i);
        assert_int_equal(element_type_from_name(name, strlen(name)), i);
    }
    assert_int_equal(element_type_from_name("f32x", 3), TYPE_F32);
    assert_int_equal(element_type_from_name("f3", 2), TYPE_INVALID);
    assert_int_equal(element_type_from_name("", 0), TYPE_INVALID);
    assert_int_equal(element_type_size(TYPE_S4), 1);
    assert_int_equal(element_type_size(TYPE_C128), 16);
    assert_int_equal(element_type_size(TYPE_TUPLE), 0);
    assert_int_equal(element_type_real_part(TYPE_C64), TYPE_F32);
    assert_true(element_type_is_integral(TYPE_U1));
    assert_false(element_type_is_integral(TYPE_PRED));
    assert_true(element_type_is_array(TYPE_PRED));
    assert_false(element_type_is_array(TYPE_TOKEN));
}

static void test_interning(void **state) {
    struct fixture *f = *state;
    int64_t dims[] = {2, 3};
    const struct shape *a = array(f, TYPE_F32, 2, dims);
    assert_ptr_equal(a, array(f, TYPE_F32, 2, (int64_t[]){2, 3}));
    assert_ptr_not_equal(a, array(f, TYPE_F32, 2, (int64_t[]){3, 2}));
    assert_ptr_not_equal(a, array(f, TYPE_S32, 2, dims));
    dims[0] = 9; /* the table has its own copy */
    assert_int_equal(a->dims[0], 2);
    assert_int_equal(a->count, 6);
    assert_int_equal(a->bytes, 24);
    assert_ptr_equal(a->plain, a);

    const struct shape *row = laid_out(f, a, (int64_t[]){1, 0});
    const struct shape *column = laid_out(f, a, (int64_t[]){0, 1});
    assert_ptr_not_equal(row, a);
    assert_ptr_not_equal(row, column);
    assert_ptr_equal(row->plain, a);
    assert_ptr_equal(column->plain, a);
    assert_true(shape_compatible(row, column));
    assert_true(shape_layout_is_default(row));
    assert_false(shape_layout_is_default(column));
    assert_ptr_equal(shape_with_layout(f->shapes, column, NULL), a);
    assert_int_equal(shape_with_type(f->shapes, column, TYPE_F64)->layout->minor_to_major[0], 0);
}

static void test_many(void **state) {
    struct fixture *f = *state;
    enum { MANY = 5000 };
    static const struct shape *kept[MANY];
    for (int64_t i = 0; i < MANY; i++)
        kept[i] = array(f, TYPE_F32, 2, (int64_t[]){i, i % 7});
    for (int64_t i = 0; i < MANY; i++)
        assert_ptr_equal(kept[i], array(f, TYPE_F32, 2, (int64_t[]){i, i % 7}));
}

static void test_tuples(void **state) {
    struct fixture *f = *state;
    const struct shape *x = shape_scalar(f->shapes, TYPE_F32);
    const struct shape *y = array(f, TYPE_S32, 1, (int64_t[]){4});
    const struct shape *token = shape_token(f->shapes);
    const struct shape *none = shape_tuple(f->shapes, 0, NULL);
    const struct shape *inner = shape_tuple(f->shapes, 3, (const struct shape *[]){y, none, token});
    const struct shape *t = shape_tuple(f->shapes, 4, (const struct shape *[]){none, x, inner, y});
    assert_int_equal(none->nleaves, 0);
    assert_int_equal(t->nleaves, 4);
    assert_int_equal(t->bytes, 4 + 16 + 16);
    assert_int_equal(t->count, -1);
    assert_ptr_equal(shape_leaf(t, 0), x);
    assert_ptr_equal(shape_leaf(t, 1), y);
    assert_ptr_equal(shape_leaf(t, 2), token);
    assert_ptr_equal(shape_leaf(t, 3), y);
    assert_ptr_equal(shape_leaf(x, 0), x);
    assert_int_equal(shape_tuple_first_leaf(t, 2), 1);
    assert_int_equal(shape_tuple_first_leaf(t, 3), 3);
    assert_true(shape_is_tuple(t));
    assert_false(shape_same_dims(t, x));

    const struct shape *with = shape_with_default_layouts(f->shapes, t);
    assert_ptr_not_equal(with, t);
    assert_ptr_equal(with->plain, t);
    assert_non_null(shape_leaf(with, 1)->layout);
    assert_true(shape_compatible(with, t));
}

static void test_limits(void **state) {
    struct fixture *f = *state;
    int64_t big = (int64_t)1 << 40;
    assert_null(shape_array(f->shapes, TYPE_F32, 2, (int64_t[]){big, big}));
    assert_null(shape_array(f->shapes, TYPE_F32, 3, (int64_t[]){0, big, big}));
    assert_null(shape_array(f->shapes, TYPE_F64, 1, (int64_t[]){(int64_t)1 << 60}));
    assert_non_null(shape_array(f->shapes, TYPE_S8, 1, (int64_t[]){(int64_t)1 << 60}));
    assert_null(shape_array(f->shapes, TYPE_F32, 1, (int64_t[]){-1}));
    int64_t ones[SHAPE_MAX_RANK + 1];
    for (int i = 0; i <= SHAPE_MAX_RANK; i++)
        ones[i] = 1;
    assert_non_null(shape_array(f->shapes, TYPE_F32, SHAPE_MAX_RANK, ones));
    assert_null(shape_array(f->shapes, TYPE_F32, SHAPE_MAX_RANK + 1, ones));

    const char *why = NULL;
    struct shape proto = {.type = TYPE_F32, .rank = 1, .dims = (int64_t[]){-3}};
    assert_null(shape_intern(f->shapes, &proto, &why));
    assert_non_null(why);
    proto.dims = ones;
    assert_non_null(shape_intern(f->shapes, &proto, &why));
    assert_null(why);

    /* Doubling tuples is short to write and exponential to walk. */
    const struct shape *t = shape_scalar(f->shapes, TYPE_F32);
    int doubled = 0;
    for (; t && doubled < 64; doubled++)
        t = shape_tuple(f->shapes, 2, (const struct shape *[]){t, t});
    assert_null(t);
    const struct shape *deep = shape_scalar(f->shapes, TYPE_F32);
    int depth = 0;
    for (; deep && depth < 1000; depth++)
        deep = shape_tuple(f->shapes, 1, &deep);
    assert_int_equal(depth, SHAPE_MAX_DEPTH + 1);
}

static void test_bad_layouts(void **state) {
    struct fixture *f = *state;
    const struct shape *a = array(f, TYPE_F32, 2, (int64_t[]){2, 3});
    assert_null(laid_out(f, a, (int64_t[]){1, 1}));
    assert_null(laid_out(f, a, (int64_t[]){0, 2}));
    assert_null(laid_out(f, a, (int64_t[]){-1, 0}));
    struct layout narrow = {.rank = 1, .minor_to_major = (int64_t[]){0}};
    assert_null(shape_with_layout(f->shapes, a, &narrow));
    assert_null(shape_with_layout(f->shapes, shape_token(f->shapes), &narrow));
}

static void test_strides(void **state) {
    struct fixture *f = *state;
    const struct shape *a = array(f, TYPE_F32, 3, (int64_t[]){2, 3, 4});
    int64_t strides[3];
    shape_strides(a, strides);
    assert_memory_equal(strides, ((int64_t[]){12, 4, 1}), sizeof strides);
    shape_strides(laid_out(f, a, (int64_t[]){0, 2, 1}), strides);
    assert_memory_equal(strides, ((int64_t[]){1, 8, 2}), sizeof strides);
    assert_int_equal(shape_minor_to_major(a, 0), 2);
}

static void test_dynamic(void **state) {
    struct fixture *f = *state;
    struct shape proto = {
        .type = TYPE_F32, .rank = 2, .dims = (int64_t[]){8, 3}, .dynamic = (bool[]){true, false}};
    const struct shape *d = shape_intern(f->shapes, &proto, NULL);
    const struct shape *s = array(f, TYPE_F32, 2, proto.dims);
    assert_ptr_not_equal(d, s);
    assert_true(shape_is_dynamic(d));
    assert_false(shape_is_dynamic(s));
    assert_false(shape_compatible(d, s));
    proto.dynamic = (bool[]){false, false};
    assert_ptr_equal(shape_intern(f->shapes, &proto, NULL), s);
    assert_true(shape_is_dynamic(shape_tuple(f->shapes, 2, (const struct shape *[]){s, d})));
    assert_true(shape_same_dims(d, shape_with_type(f->shapes, d, TYPE_S8)));
}

static void test_text(void **state) {
    struct fixture *f = *state;
    const struct shape *a = array(f, TYPE_BF16, 2, (int64_t[]){16, 256});
    assert_string_equal(shape_to_string(f->arena, a, true), "bf16[16,256]");
    int64_t outer[] = {8, 128}, inner[] = {2, 1};
    struct tile tiles[] = {{2, outer}, {2, inner}};
    struct layout layout = {.rank = 2,
                            .minor_to_major = (int64_t[]){1, 0},
                            .ntiles = 2,
                            .tiles = tiles,
                            .element_bits = 4,
                            .memory_space = 1};
    const struct shape *tiled = shape_with_layout(f->shapes, a, &layout);
    assert_string_equal(shape_to_string(f->arena, tiled, true),
                        "bf16[16,256]{1,0:T(8,128)(2,1)E(4)S(1)}");
    assert_string_equal(shape_to_string(f->arena, tiled, false), "bf16[16,256]");
    const struct shape *t = shape_tuple(
        f->shapes, 2,
        (const struct shape *[]){shape_scalar(f->shapes, TYPE_S32), shape_token(f->shapes)});
    assert_string_equal(shape_to_string(f->arena, t, false), "(s32[], token[])");
    struct shape proto = {
        .type = TYPE_F32, .rank = 2, .dims = (int64_t[]){8, 3}, .dynamic = (bool[]){true, false}};
    assert_string_equal(shape_to_string(f->arena, shape_intern(f->shapes, &proto, NULL), false),
                        "f32[<=8,3]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_element_types),
        cmocka_unit_test_setup_teardown(test_interning, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tuples, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_layouts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dynamic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
