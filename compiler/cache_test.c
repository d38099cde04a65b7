#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/cache.h"

enum { SIZE = 1000 };

static struct cache_key key_of(int number) {
    struct cache_key key;
    snprintf(key.name, sizeof key.name, "%064d", number);
    return key;
}

static int make_directory(void **state) {
    static const char name[] = "/tmp/hlocc-cache-XXXXXX";
    char *path = malloc(sizeof name);
    memcpy(path, name, sizeof name);
    *state = mkdtemp(path);
    return *state == NULL;
}

static int remove_directory(void **state) {
    char *command = text_format("rm -rf '%s'", (char *)*state);
    int status = system(command);
    free(command);
    free(*state);
    return status;
}

static void store(const char *directory, int number, int64_t most) {
    static char first[SIZE], second[7] = "second";
    struct cpu_part more = {second, sizeof second};
    struct cpu_code code = {.data = first,
                            .size = sizeof first,
                            .more = &more,
                            .nmore = 1,
                            .workspace_size = 4096,
                            .stats = {.kernels = 3}};
    struct cache_key key = key_of(number);
    struct fault fault;
    memset(first, number, sizeof first);
    assert_true(cache_store(directory, &key, &code, most, &fault));
}

static bool is_there(const char *directory, int number) {
    struct cache_key key = key_of(number);
    struct cpu_code code;
    if (!cache_find(directory, &key, &code)) return false;
    assert_int_equal(code.size, SIZE);
    assert_int_equal(((char *)code.data)[SIZE - 1], number);
    assert_int_equal(code.nmore, 1);
    assert_string_equal(code.more[0].data, "second");
    assert_int_equal(code.workspace_size, 4096);
    assert_int_equal(code.stats.kernels, 3);
    cpu_code_free(&code);
    return true;
}

static void test_what_was_stored_is_found(void **state) {
    store(*state, 1, CACHE_BYTES);
    store(*state, 2, CACHE_BYTES);
    assert_true(is_there(*state, 1));
    assert_true(is_there(*state, 2));
    assert_false(is_there(*state, 3));
}

/* The one that was used last stays. */
static void test_the_oldest_goes(void **state) {
    int64_t two = 2 * (SIZE + 500);
    store(*state, 1, two);
    usleep(20000);
    store(*state, 2, two);
    usleep(20000);
    assert_true(is_there(*state, 1));
    usleep(20000);
    store(*state, 3, two);
    assert_true(is_there(*state, 1));
    assert_false(is_there(*state, 2));
    assert_true(is_there(*state, 3));
}

/* Every prefix, and every byte another one. */
static void test_damaged_entries_are_missing(void **state) {
    store(*state, 5, CACHE_BYTES);
    char *path = text_format("%s/%s.hlocc", (char *)*state, key_of(5).name);
    struct bytes entry;
    struct fault fault;
    assert_true(file_read(path, &entry, &fault));
    for (size_t size = 0; size < entry.size; size += 37) {
        assert_true(file_write(path, entry.data, size, &fault));
        assert_false(is_there(*state, 5));
    }
    for (size_t at = 0; at < entry.size; at += 7) {
        entry.data[at] ^= 0x41;
        assert_true(file_write(path, entry.data, entry.size, &fault));
        assert_false(is_there(*state, 5));
        entry.data[at] ^= 0x41;
    }
    assert_true(file_write(path, entry.data, entry.size, &fault));
    assert_true(is_there(*state, 5));
    free(entry.data);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_stored_is_found, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(test_the_oldest_goes, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_damaged_entries_are_missing, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
