/* Tiled layouts: sizes and texts worked out by hand, and images read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/tpu/layout.h"

struct fixture {
    struct arena *arena;
    struct shape_table *shapes;
};

static int setup(void **state) {
    static struct fixture fixture;
    fixture.arena = arena_new();
    fixture.shapes = shape_table_new(fixture.arena);
    *state = &fixture;
    return 0;
}

static int teardown(void **state) {
    arena_free(((struct fixture *)*state)->arena);
    return 0;
}

static const struct {
    enum element_type type;
    int rank;
    int64_t dims[5];
    int64_t bytes;
    const char *text;
} sizes[] = {
    {TYPE_F32, 2, {16, 64}, 2 * 4096, "f32[16,64]{1,0:T(8,128)}"},
    {TYPE_F32, 2, {128, 64}, 16 * 4096, "f32[128,64]{1,0:T(8,128)}"},
    {TYPE_F32, 2, {9, 129}, 4 * 4096, "f32[9,129]{1,0:T(8,128)}"},
    {TYPE_F32, 0, {0}, 512, "f32[]{:T(128)}"},
    {TYPE_F32, 1, {10}, 512, "f32[10]{0:T(128)}"},
    {TYPE_F32, 1, {300}, 2048, "f32[300]{0:T(512)}"},
    {TYPE_F32, 1, {1025}, 8192, "f32[1025]{0:T(1024)}"},
    {TYPE_F32, 2, {3, 128}, 2048, "f32[3,128]{1,0:T(4,128)}"},
    {TYPE_BF16, 2, {16, 128}, 4096, "bf16[16,128]{1,0:T(8,128)(2,1)}"},
    {TYPE_BF16, 1, {10}, 512, "bf16[10]{0:T(256)(128)(2,1)}"},
    {TYPE_S8, 2, {33, 128}, 8192, "s8[33,128]{1,0:T(32,128)(4,1)}"},
    {TYPE_PRED, 0, {0}, 512, "pred[]{:T(512)(128)(4,1)}"},
    {TYPE_S64, 2, {8, 128}, 8192, "s64[8,128]{1,0:T(8,128)}"},
    {TYPE_F32, 2, {0, 128}, 0, "f32[0,128]{1,0:T(1,128)}"},
    /* The 16 GiB of a program that a reported failure is about: 32 times its elements. */
    {TYPE_S32,
     5,
     {2048, 1, 128, 128, 4},
     INT64_C(16) << 30,
     "s32[2048,1,128,128,4]{4,3,2,1,0:T(8,128)}"},
};

static void test_sizes(void **state) {
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tpu_layout layout;
        const struct shape *shape =
            shape_array(f->shapes, sizes[i].type, sizes[i].rank, sizes[i].dims);
        assert_true(tpu_layout_of(&layout, shape));
        assert_string_equal(tpu_layout_text(f->arena, &layout), sizes[i].text);
        assert_int_equal(layout.bytes, sizes[i].bytes);
    }
}

static void test_best(void **state) {
    struct fixture *f = *state;
    struct tpu_layout layout;
    const int64_t weight[] = {128, 64}, big[] = {2048, 1, 128, 128, 4}, even[] = {8, 128};
    assert_true(tpu_layout_best(&layout, shape_array(f->shapes, TYPE_F32, 2, weight)));
    assert_string_equal(tpu_layout_text(f->arena, &layout), "f32[128,64]{0,1:T(8,128)}");
    assert_int_equal(layout.bytes, 128 * 64 * 4);
    assert_true(tpu_layout_best(&layout, shape_array(f->shapes, TYPE_S32, 5, big)));
    assert_int_equal(layout.bytes, INT64_C(1) << 29);
    assert_true(tpu_layout_best(&layout, shape_array(f->shapes, TYPE_F32, 2, even)));
    assert_string_equal(tpu_layout_text(f->arena, &layout), "f32[8,128]{1,0:T(8,128)}");
}

static void test_refused(void **state) {
    struct fixture *f = *state;
    struct tpu_layout layout;
    const int64_t huge[] = {INT64_C(1) << 29, INT64_C(1) << 29, 1, 1};
    assert_false(tpu_layout_of(&layout, shape_array(f->shapes, TYPE_F64, 0, NULL)));
    assert_false(tpu_layout_of(&layout, shape_array(f->shapes, TYPE_C128, 0, NULL)));
    /* 2^60 bytes of elements, 2^70 with the padding of its minor dimensions. */
    assert_false(tpu_layout_of(&layout, shape_array(f->shapes, TYPE_F32, 4, huge)));
    assert_true(tpu_layout_best(&layout, shape_array(f->shapes, TYPE_F32, 4, huge)));
    assert_int_equal(layout.bytes, INT64_C(1) << 60);
}

/* Element (r, c) of an array lies where the tile says, and comes back. */
static void test_places(void **state) {
    struct fixture *f = *state;
    struct tpu_layout layout;
    const int64_t dims[] = {2, 18, 130};
    static const enum element_type types[] = {TYPE_F32, TYPE_BF16, TYPE_U8, TYPE_C64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const struct shape *shape = shape_array(f->shapes, types[t], 3, dims);
        assert_true(tpu_layout_of(&layout, shape));
        unsigned char *dense = malloc((size_t)shape->bytes), *back = malloc((size_t)shape->bytes);
        unsigned char *image = malloc((size_t)layout.bytes);
        for (int64_t i = 0; i < shape->bytes; i++)
            dense[i] = (unsigned char)(i * 7 + i / 251);
        tpu_layout_store(&layout, dense, image);
        tpu_layout_load(&layout, image, back);
        assert_memory_equal(dense, back, shape->bytes);
        free(dense), free(back), free(image);
    }
    uint16_t half[16 * 128], image[16 * 128];
    const int64_t square[] = {16, 128};
    for (int i = 0; i < 16 * 128; i++)
        half[i] = (uint16_t)i;
    assert_true(tpu_layout_of(&layout, shape_array(f->shapes, TYPE_BF16, 2, square)));
    tpu_layout_store(&layout, half, image);
    /* Lane 5 of memory row 1 holds rows 2 and 3 of elements, the even one in the low half. */
    assert_int_equal(image[256 + 10], 2 * 128 + 5);
    assert_int_equal(image[256 + 11], 3 * 128 + 5);
    assert_int_equal(image[4 * 256 + 1], 9 * 128);
}

/* All orders of all shapes that have the same number of elements: equal places are those where the
 * same elements make the same image. */
static const int64_t factors[][4] = {
    {16, 1, 128, 1}, {2, 8, 128, 1},  {16, 128, 1, 1}, {2048, 1, 1, 1}, {8, 2, 128, 1},
    {2, 8, 16, 8},   {1, 1, 1, 2048}, {1, 16, 1, 128}, {4, 4, 64, 2},   {2, 1, 1024, 1},
    {1, 8, 256, 1},  {8, 256, 1, 1},  {1, 4, 512, 1},  {4, 1, 512, 1},
};

static void make_image(const struct tpu_layout *layout, const struct shape *shape,
                       uint16_t *image) {
    uint16_t *dense = calloc((size_t)shape->bytes, 1);
    size_t step = (size_t)element_type_size(shape->type) / 2;
    for (int64_t i = 0; i < shape->count; i++)
        dense[(size_t)i * step] = (uint16_t)(i + 1);
    tpu_layout_store(layout, dense, image);
    free(dense);
}

static void compare_places(const struct shape *x, const int *x_order, const struct shape *y,
                           const int *y_order) {
    struct tpu_layout a, b;
    assert_true(tpu_layout_with_order(&a, x, x_order));
    assert_true(tpu_layout_with_order(&b, y, y_order));
    uint16_t *x_image = calloc((size_t)a.bytes, 1), *y_image = calloc((size_t)b.bytes, 1);
    make_image(&a, x, x_image);
    make_image(&b, y, y_image);
    bool same = b.bytes <= a.bytes && memcmp(x_image, y_image, (size_t)b.bytes) == 0;
    assert_int_equal(tpu_layout_same_places(&a, NULL, &b, NULL), same);
    free(x_image), free(y_image);
}

static void test_same_places(void **state) {
    struct fixture *f = *state;
    static const int orders[][4] = {{3, 2, 1, 0}, {2, 3, 1, 0}, {0, 3, 2, 1}, {3, 1, 2, 0}};
    static const enum element_type types[] = {TYPE_F32, TYPE_BF16};
    size_t shapes = sizeof factors / sizeof *factors, n = sizeof orders / sizeof *orders;
    for (size_t i = 0; i < 2 * shapes * shapes * n * n; i++) {
        enum element_type type = types[i % 2];
        const struct shape *x = shape_array(f->shapes, type, 4, factors[i / 2 % shapes]);
        const struct shape *y = shape_array(f->shapes, type, 4, factors[i / 2 / shapes % shapes]);
        size_t order = i / 2 / shapes / shapes;
        compare_places(x, orders[order % n], y, orders[order / n]);
    }
}

/* A vector is the column of a matrix whose long side is minor, and a turned matrix its transpose.
 */
static void test_other_names(void **state) {
    struct fixture *f = *state;
    struct tpu_layout a, b;
    const int64_t vector[] = {300}, column[] = {300, 1}, wide[] = {4, 256}, tall[] = {256, 4};
    const int64_t turned[] = {1, 4}; /* the same, of the operand in the result */
    const int minor_first[] = {0, 1};
    assert_true(tpu_layout_of(&a, shape_array(f->shapes, TYPE_F32, 1, vector)));
    assert_true(
        tpu_layout_with_order(&b, shape_array(f->shapes, TYPE_F32, 2, column), minor_first));
    assert_true(tpu_layout_same_places(&a, NULL, &b, NULL));
    assert_false(tpu_layout_same_places(&b, NULL, &a, NULL)); /* 3 rows are no 4 */
    assert_true(tpu_layout_of(&a, shape_array(f->shapes, TYPE_F32, 2, wide)));
    assert_true(tpu_layout_with_order(&b, shape_array(f->shapes, TYPE_F32, 2, tall), minor_first));
    assert_false(tpu_layout_same_places(&a, NULL, &b, NULL));
    const int64_t strides[] = {1, 256}; /* of element (i, j) of the transpose, in the operand */
    assert_true(tpu_layout_same_places(&a, NULL, &b, strides));
    assert_true(tpu_layout_same_places(&a, turned, &b, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_best),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_places),
        cmocka_unit_test(test_same_places), cmocka_unit_test(test_other_names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
