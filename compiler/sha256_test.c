#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sha256.h"

static void expect(const char *text, size_t repeat, size_t step, const char *want) {
    struct sha256 hash;
    size_t length = strlen(text), size = length * repeat;
    char *all = malloc(size + 1), hex[65];
    uint8_t digest[32];
    for (size_t i = 0; i < repeat; i++)
        memcpy(all + i * length, text, length);
    sha256_init(&hash);
    for (size_t at = 0; at < size; at += step)
        sha256_add(&hash, all + at, at + step < size ? step : size - at);
    sha256_end(&hash, digest);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, want);
    free(all);
}

/* NIST's examples, in pieces of several sizes. */
static void test_examples(void **state) {
    (void)state;
    static const size_t steps[] = {1, 7, 55, 56, 64, 65, 1000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        expect("", 1, steps[i], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        expect("abc", 1, steps[i],
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, steps[i],
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        expect("a", 1000000, steps[i],
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
