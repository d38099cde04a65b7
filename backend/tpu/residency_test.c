#include "backend/tpu/residency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { POSITIONS = 8 };

static int64_t plan(struct residency_item *items, int count, int64_t rows) {
    int64_t capacity[POSITIONS];
    struct arena *arena = arena_new();
    for (int p = 0; p < POSITIONS; p++)
        capacity[p] = rows;
    int64_t used = residency_plan(arena, items, count, capacity, POSITIONS);
    arena_free(arena);
    return used;
}

/* Values that are not alive together share rows. */
static void shares_rows(void **state) {
    (void)state;
    struct residency_item items[] = {{100, 0, 2, 0}, {100, 3, 5, 0}, {50, 0, 5, 0}};
    assert_int_equal(plan(items, 3, 150), 150);
    assert_int_equal(items[0].at, items[1].at);
    assert_true(items[2].at == 0 || items[2].at == 100);
    assert_true(items[0].at == 50 || items[0].at == 0);
    assert_int_not_equal(items[0].at, items[2].at);
}

/* Three of 60 rows that meet at position 2 do not fit in 128: one stays out. */
static void leaves_out(void **state) {
    (void)state;
    struct residency_item items[] = {{60, 0, 2, 0}, {60, 2, 4, 0}, {60, 1, 3, 0}};
    int inside = 0;
    assert_int_equal(plan(items, 3, 128), 120);
    for (int i = 0; i < 3; i++)
        inside += items[i].at >= 0;
    assert_int_equal(inside, 2);
}

/* Small ones first: 8 + 16 + 100 fit, and the one of 120 rows does not any more. */
static void small_first(void **state) {
    (void)state;
    struct residency_item items[] = {{120, 0, 7, 0}, {16, 0, 7, 0}, {100, 0, 7, 0}, {8, 0, 7, 0}};
    assert_int_equal(plan(items, 4, 130), 124);
    assert_int_equal(items[0].at, -1);
    assert_true(items[1].at >= 0 && items[2].at >= 0 && items[3].at >= 0);
}

/* Where a kernel leaves 40 rows only, what is alive there ends within them. */
static void respects_positions(void **state) {
    (void)state;
    int64_t capacity[POSITIONS] = {100, 100, 100, 40, 100, 100, 100, 100};
    struct residency_item items[] = {{30, 2, 4, 0}, {30, 3, 5, 0}, {90, 0, 2, 0}, {64, 4, 7, 0}};
    struct arena *arena = arena_new();
    residency_plan(arena, items, 4, capacity, POSITIONS);
    arena_free(arena);
    int at_three = (items[0].at >= 0) + (items[1].at >= 0);
    assert_int_equal(at_three, 1);
    for (int i = 0; i < 2; i++)
        if (items[i].at >= 0) assert_true(items[i].at + 30 <= 40);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) {
            bool together = items[i].start <= items[k].end && items[k].start <= items[i].end;
            if (!together || items[i].at < 0 || items[k].at < 0) continue;
            assert_true(items[i].at + items[i].rows <= items[k].at ||
                        items[k].at + items[k].rows <= items[i].at);
        }
}

static void nothing(void **state) {
    (void)state;
    struct residency_item items[] = {{8, 0, 7, 0}};
    assert_int_equal(plan(items, 1, 0), 0);
    assert_int_equal(items[0].at, -1);
    assert_int_equal(plan(items, 0, 100), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_rows), cmocka_unit_test(leaves_out),
        cmocka_unit_test(small_first), cmocka_unit_test(respects_positions),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
