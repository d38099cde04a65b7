/* The reader of HLO text: what it accepts, and where its errors point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"

static void accepts(const char *text) {
    struct diag diag;
    diag_init(&diag, "test.hlo", text, strlen(text));
    struct hlo_module *module = hlo_parse_unverified(&diag);
    if (!module) diag_print(&diag, stderr, false);
    assert_non_null(module);
    module_free(module);
    diag_clear(&diag);
}

static void rejects(const char *text, uint32_t line, uint32_t col) {
    struct diag diag;
    diag_init(&diag, "test.hlo", text, strlen(text));
    assert_null(hlo_parse_unverified(&diag));
    assert_true(diag.errors > 0);
    assert_int_equal(diag.messages[0].loc.line, line);
    assert_int_equal(diag.messages[0].loc.col, col);
    diag_clear(&diag);
}

static void test_forms(void **state) {
    (void)state;
    accepts("x { ROOT a = f32[] parameter(0) }");
    accepts("HloModule m:\nENTRY e { x: = f32[] parameter(0)\n ROOT r: = f32[] add(x:, x) }");
    accepts("ENTRY e { a = f32[] parameter(0)\n ROOT r = f32[] add(f32[] negate(a), a,) }");
    accepts("ENTRY e { %true = f32[] parameter(0)\n f32.1 = f32[] negate(%true)\n"
            " tuple = f32[] negate(f32.1)\n ROOT r = (f32[]) tuple(tuple) }");
    accepts("HloModule m\rENTRY e {\r a = f32[] parameter(0)\r ROOT r = f32[] add(a, a)\r}\r");
    accepts("ENTRY e { a = f32[4] constant({007, 1., -.5, nan(0x400001)})\n"
            " b = s4[3] constant({-8,7,,0,})\n ROOT c = f32[8] constant({...}) }");
}

static void test_places(void **state) {
    (void)state;
    rejects("", 1, 1);
    rejects("ENTRY e { ROOT a = f99[] parameter(0) }", 1, 20);
    rejects("ENTRY e { a = f32[] parameter(0)\n a = f32[] parameter(1) }", 2, 2);
    rejects("ENTRY e { ROOT a = f32[] parameter(0)\n ROOT b = f32[] parameter(1) }", 2, 7);
    rejects("ENTRY e { ROOT r = f32[] negate(a)\n a = f32[] parameter(0) }", 1, 33);
    rejects("c { a = f32[] parameter(0)\n ROOT r = f32[] call(a), to_apply=c }", 2, 35);
}

/* Texts that end too early: recovery must not go on at the end, nor a comment read past it. */
static void test_cut_off(void **state) {
    (void)state;
    rejects("ENTRY e { /* ", 1, 11);
    rejects("HloModule e,c=\"\"(/*", 1, 15);
    rejects("ENTRY e { ROOT r = f32[] constant({{{{", 1, 34);
    rejects("ENTRY e { ROOT r = f32[] parameter(0), metadata={op_name=\"x }", 1, 58);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_cut_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
