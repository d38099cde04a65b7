#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tpu/chip.h"

static void built_in_chips(void **state) {
    (void)state;
    struct tpu_chip chip;
    char why[200];
    static const struct {
        const char *name;
        int64_t clock, mxus, hbm_gib;
    } want[] = {{"v2", 700, 1, 8}, {"v3", 940, 2, 16}, {"v4", 1050, 4, 16}, {"v5e", 1500, 4, 16}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_true(tpu_chip_load(&chip, want[i].name, why, sizeof why));
        assert_string_equal(chip.name, want[i].name);
        assert_int_equal(chip.clock_mhz, want[i].clock);
        assert_int_equal(chip.mxus, want[i].mxus);
        assert_int_equal(chip.hbm_bytes, want[i].hbm_gib << 30);
    }
}

static void refused(const char *text, const char *expected) {
    struct tpu_chip chip;
    char why[200] = "";
    assert_false(tpu_chip_parse(&chip, text, strlen(text), why, sizeof why));
    if (!strstr(why, expected)) fail_msg("'%s' does not say '%s'", why, expected);
}

static void damaged_chips(void **state) {
    (void)state;
    refused("", "JSON object");
    refused("[1]", "JSON object");
    refused("{}", "missing");
    refused("{\"name\": 3}", "name must be");
    refused("{\"cores\": 0}", "cores must be a whole number from 1 to 64");
    refused("{\"cores\": 1.5}", "cores must be");
    refused("{\"cores\": 1e300}", "cores must be");
    refused("{\"cores\": 1, \"cores\": 1}", "two of field cores");
    refused("{\"wings\": 2}", "no field wings");
}

static void missing_file(void **state) {
    (void)state;
    struct tpu_chip chip;
    char why[200];
    assert_false(tpu_chip_load(&chip, "/nonexistent/chip.json", why, sizeof why));
    assert_non_null(strstr(why, "No such file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(built_in_chips),
                                       cmocka_unit_test(damaged_chips),
                                       cmocka_unit_test(missing_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
