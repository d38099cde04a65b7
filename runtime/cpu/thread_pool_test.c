#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/thread_pool.h"

enum { COUNT = 1000 };

struct tally {
    atomic_int seen[COUNT];
    bool nested;
};

static void count_one(void *context, int64_t index) {
    struct tally *tally = context;
    atomic_fetch_add(&tally->seen[index], 1);
    if (tally->nested && index < 4) {
        struct tally inner = {.nested = false};
        hlocc_rt_parallel(count_one, &inner, 10, 3, true);
        for (int i = 0; i < 10; i++)
            assert_int_equal(inner.seen[i], 1);
    }
}

static void check_tally(int64_t count, int threads, bool nested, bool wake) {
    struct tally tally = {.nested = nested};
    hlocc_rt_parallel(count_one, &tally, count, threads, wake);
    for (int64_t i = 0; i < COUNT; i++)
        assert_int_equal(tally.seen[i], i < count);
}

static void test_every_index_once(void **state) {
    (void)state;
    for (int threads = 0; threads <= 5; threads++)
        for (int round = 0; round < 200; round++)
            check_tally(round % 7 ? round : COUNT, threads, round % 5 == 0, round % 3);
    check_tally(0, 4, false, true);
}

static void *call_often(void *argument) {
    for (int round = 0; round < 300; round++)
        check_tally(50 + round % 50, 1 + round % 4, false, round % 2);
    return argument;
}

static void test_callers_at_once(void **state) {
    pthread_t threads[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_callers_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
