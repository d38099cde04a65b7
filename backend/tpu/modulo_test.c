/* Modulo schedules of loops small enough to be worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/tpu/modulo.h"

enum { MOST = 16 };

struct loop {
    struct modulo m;
    int width; /* operations a cycle has room for */
    int group[MOST];
};

static bool fits(void *user, int row, const int *ops, int n) {
    (void)row;
    (void)ops;
    return n <= ((const struct loop *)user)->width;
}

/* Operations of one group stand at least 3 cycles apart, in all iterations. */
static bool clash(void *user, const int *cycles, int op, int cycle, int other, int ii) {
    (void)user;
    (void)op;
    int apart = ((cycle - cycles[other]) % ii + ii) % ii;
    return apart < 3 || ii - apart < 3;
}

static void begin(struct loop *l, int count, int width, const struct modulo_edge *edges, int n) {
    *l = (struct loop){.width = width};
    l->m = (struct modulo){.arena = arena_new(),
                           .count = count,
                           .edges = edges,
                           .nedges = n,
                           .fits = fits,
                           .clash = clash,
                           .group = l->group,
                           .user = l};
    for (int i = 0; i < MOST; i++)
        l->group[i] = -1;
}

/* Every edge is kept, and no row holds more than it has room for. */
static void check(const struct loop *l) {
    int rows[64] = {0};
    for (int i = 0; i < l->m.count; i++) {
        assert_true(l->m.cycle[i] >= 0);
        assert_true(++rows[l->m.cycle[i] % l->m.ii] <= l->width);
    }
    for (int e = 0; e < l->m.nedges; e++) {
        const struct modulo_edge *edge = &l->m.edges[e];
        assert_true(l->m.cycle[edge->to] + l->m.ii * edge->distance >=
                    l->m.cycle[edge->from] + edge->latency);
    }
}

static int least_ii(struct loop *l, int least) {
    for (l->m.ii = least; !modulo_schedule(&l->m); l->m.ii++)
        assert_true(l->m.ii < 64);
    check(l);
    return l->m.ii;
}

/* A chain of 5 operations, two a cycle: 5 / 2 cycles, rounded up; however long the chain is. */
static void resources(void **state) {
    (void)state;
    static const struct modulo_edge chain[] = {
        {0, 1, 6, 0}, {1, 2, 4, 0}, {2, 3, 4, 0}, {3, 4, 1, 0}};
    struct loop l;
    begin(&l, 5, 2, chain, 4);
    assert_int_equal(modulo_recurrence_ii(&l.m, 1, 40), 1);
    assert_int_equal(least_ii(&l, 1), 3);
    arena_free(l.m.arena);
}

/* 0 -> 1 takes 4 cycles, 1 -> 0 two iterations later takes 3: 7 cycles for 2 iterations, 4 for one.
 * With one iteration between them it would be 7. */
static void recurrences(void **state) {
    (void)state;
    static const struct modulo_edge circle[] = {{0, 1, 4, 0}, {1, 0, 3, 2}};
    static const struct modulo_edge narrow[] = {{0, 1, 4, 0}, {1, 0, 3, 1}};
    static const struct modulo_edge never[] = {{0, 1, 4, 0}, {1, 0, 3, 0}};
    static const struct modulo_edge own[] = {{0, 0, 6, 1}};
    const struct {
        const struct modulo_edge *edges;
        int n, ii;
    } tests[] = {{circle, 2, 4}, {narrow, 2, 7}, {own, 1, 6}};
    struct loop l;
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        begin(&l, 2, 2, tests[t].edges, tests[t].n);
        assert_int_equal(modulo_recurrence_ii(&l.m, 1, 40), tests[t].ii);
        assert_int_equal(least_ii(&l, 1), tests[t].ii);
        arena_free(l.m.arena);
    }
    begin(&l, 2, 2, never, 2);
    assert_int_equal(modulo_recurrence_ii(&l.m, 1, 40), -1);
    arena_free(l.m.arena);
}

/* Three operations that hold something for 3 cycles each: 9 cycles. */
static void held_for_long(void **state) {
    (void)state;
    struct loop l;
    begin(&l, 4, 4, NULL, 0);
    for (int i = 0; i < 3; i++)
        l.group[i] = 0;
    assert_int_equal(least_ii(&l, 1), 9);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            assert_false(clash(&l, l.m.cycle, i, l.m.cycle[i], j, 9));
    arena_free(l.m.arena);
}

/* What is used late is made late: 0 and 1 feed 3, and 1 waits for nothing but takes 2 cycles, while
 * 0 takes 10. The value of 1 need not live longer than its 2 cycles. */
static void lifetimes(void **state) {
    (void)state;
    static const struct modulo_edge edges[] = {{0, 2, 10, 0}, {1, 2, 2, 0}};
    int refs[2][2] = {{0, 2}, {1, 2}};
    struct modulo_value values[] = {{refs[0], 2, 10, 1}, {refs[1], 2, 2, 1}};
    struct loop l;
    begin(&l, 3, 3, edges, 2);
    l.m.values = values;
    l.m.nvalues = 2;
    assert_int_equal(least_ii(&l, 1), 1);
    assert_int_equal(modulo_lifetime(&l.m, &values[0]), 10);
    assert_int_equal(modulo_lifetime(&l.m, &values[1]), 2);
    arena_free(l.m.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources),
        cmocka_unit_test(recurrences),
        cmocka_unit_test(held_for_long),
        cmocka_unit_test(lifetimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
