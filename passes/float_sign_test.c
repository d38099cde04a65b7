/* The sign of floats, from how they are computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"
#include "passes/float_sign.h"

#define HEAD                                                                                       \
    "HloModule m\n"                                                                                \
    "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }\n"       \
    "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"           \
    "ENTRY f {\n"                                                                                  \
    "  x = f32[4,4] parameter(0)  y = f32[4,4] parameter(1)  z = f32[] constant(0)\n"              \
    "  n = f32[4,4] negate(x)  q = f32[4,4] multiply(x, x)  e = f32[4,4] exponential(y)\n"         \
    "  rows = f32[4] reduce(x, z), dimensions={1}, to_apply=max\n"                                 \
    "  sums = f32[4] reduce(x, z), dimensions={1}, to_apply=sum\n"                                 \
    "  row = f32[4,4] broadcast(rows), dimensions={0}\n"                                           \
    "  column = f32[4,4] broadcast(rows), dimensions={1}\n"                                        \
    "  total = f32[4,4] broadcast(sums), dimensions={0}\n"

/* The root of the entry: '-' never positive, '+' never negative, '0' neither known, '=' both. */
static const struct {
    const char *root;
    char sign;
} cases[] = {
    {"exponential(x)", '+'},      {"negate(e)", '-'},
    {"multiply(x, x)", '+'},      {"multiply(n, x)", '-'},
    {"multiply(x, y)", '0'},      {"multiply(e, q)", '+'},
    {"divide(n, e)", '0'},        {"add(e, q)", '+'},
    {"add(e, x)", '0'},           {"subtract(e, q)", '0'},
    {"maximum(x, e)", '+'},       {"minimum(x, e)", '0'},
    {"subtract(x, row)", '-'},    {"subtract(row, x)", '+'},
    {"subtract(x, column)", '0'}, /* of other rows */
    {"subtract(y, row)", '0'},    /* of something else */
    {"subtract(x, total)", '0'},  {"broadcast(z), dimensions={}", '='},
};

/* Of the head and the rest. */
static struct hlo_module *parse(const char *rest, struct diag *diag) {
    static char text[4096]; /* the diagnostics point into it */
    snprintf(text, sizeof text, HEAD "%s", rest);
    diag_init(diag, "test", text, strlen(text));
    struct hlo_module *module = hlo_parse(diag);
    assert_non_null(module);
    return module;
}

static void test_signs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rest[2048];
        struct diag diag;
        snprintf(rest, sizeof rest, "ROOT r = f32[4,4] %s }", cases[i].root);
        struct hlo_module *module = parse(rest, &diag);
        const struct hlo_instr *root = module->entry->root;
        bool positive = !instr_is_never_positive(root), negative = !instr_is_never_negative(root);
        char sign = positive && negative ? '0' : positive ? '+' : negative ? '-' : '=';
        if (sign != cases[i].sign) fail_msg("%s: %c", cases[i].root, sign);
        module_free(module);
        diag_clear(&diag);
    }
}

/* Quotients, and whether their divisor's reciprocal will do. */
static const struct {
    const char *rest;
    bool tame;
} quotients[] = {
    {"h = f32[] constant(255)  hs = f32[4,4] broadcast(h), dimensions={}\n"
     "i = u8[4,4] parameter(2)  f = f32[4,4] convert(i)  ROOT r = f32[4,4] divide(f, hs) }",
     true},
    {"h = f32[] constant(-3)  hs = f32[4,4] broadcast(h), dimensions={}\n" /* the sign of 0 */
     "i = u8[4,4] parameter(2)  f = f32[4,4] convert(i)  ROOT r = f32[4,4] divide(f, hs) }",
     false},
    {"h = f32[] constant(255)  hs = f32[4,4] broadcast(h), dimensions={}\n" /* x may be infinite */
     "ROOT r = f32[4,4] divide(x, hs) }",
     false},
    {"d = f32[4,4] subtract(x, row)  w = f32[4,4] exponential(d)\n"
     "t = f32[4] reduce(w, z), dimensions={1}, to_apply=sum\n"
     "u = f32[4,4] broadcast(t), dimensions={0}  ROOT r = f32[4,4] divide(w, u) }",
     true},
    {"t = f32[4] reduce(e, z), dimensions={1}, to_apply=sum\n" /* may be infinite */
     "u = f32[4,4] broadcast(t), dimensions={0}  ROOT r = f32[4,4] divide(e, u) }",
     false},
};

static void test_quotients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof quotients / sizeof *quotients; i++) {
        struct diag diag;
        struct hlo_module *module = parse(quotients[i].rest, &diag);
        if (divide_is_tame(module->entry->root) != quotients[i].tame)
            fail_msg("%s", quotients[i].rest);
        module_free(module);
        diag_clear(&diag);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signs),
                                       cmocka_unit_test(test_quotients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
