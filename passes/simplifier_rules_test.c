/* Each row of the tables of algebraic_simplifier and logic_simplifier by itself: it does what it
 * says, and on every pair of values of small types, and of special values of the others, the
 * program computes the same as before: NaN, infinities and the sign of zero too. What arithmetic
 * on subnormals flushes to zero counts as that zero: a rewrite may leave the arithmetic out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "ir/eval.h"
#include "ir/parse.h"
#include "passes/pass.h"

/* ---- types: each with the letters of the classes that it is in ----
 * f: floats with a zero of either sign; n: those that have NaN, or one zero only, in another way;
 * b: with infinities; w: f32 and f64; s, u: integers; p: pred; c: complex */
static const struct {
    const char *name, *classes;
} types[] = {
    {"f64", "fbw"},    {"f32", "fbw"},      {"bf16", "fb"},      {"f16", "fb"},
    {"f8e5m2", "fb"},  {"f8e4m3", "fb"},    {"f8e3m4", "fb"},    {"f8e4m3fn", "f"},
    {"f4e2m1fn", "f"}, {"f8e4m3fnuz", "n"}, {"f8e5m2fnuz", "n"}, {"f8e4m3b11fnuz", "n"},
    {"s4", "s"},       {"s8", "s"},         {"s16", "s"},        {"s32", "s"},
    {"s64", "s"},      {"u4", "u"},         {"u8", "u"},         {"u16", "u"},
    {"u32", "u"},      {"u64", "u"},        {"pred", "p"},       {"c64", "c"},
};

/* The rule, the classes of types it is for (NULL: of one, where y does not matter), the program,
 * and the root's opcode afterwards. In the program $ is the array type of x and y, ? the array of
 * pred of that size, @ the element type; p and q are x < y and x = y, zero, one and minus are 0, 1
 * and -1 everywhere, where named. */
struct row {
    const char *name, *classes, *body, *want;
};

static const struct row rows[] = {
    {"add_zero", "su", "ROOT r = $ add(x, zero)", "parameter"},
    {"add_zero", "f",
     "m = @[] constant(-0.0)\n k = $ broadcast(m), dimensions={}\n ROOT r = $ add(k, x)",
     "parameter"},
    {"add_zero stays", "fn", "ROOT r = $ add(x, zero)", "add"},
    {"add_negated stays", "fn", "n = $ negate(y)\n ROOT r = $ add(n, x)", "add"},
    {"add_negated", "su", "n = $ negate(y)\n ROOT r = $ add(n, x)", "subtract"},
    {"undo_sum", "su", "d = $ subtract(x, y)\n ROOT r = $ add(y, d)", "parameter"},
    {"undo_sum stays", "fn", "d = $ subtract(x, y)\n ROOT r = $ add(y, d)", "add"},
    {"merge_constants", "su", "a = $ add(x, one)\n ROOT r = $ add(one, a)", "add"},
    {"subtract_zero", "fnsu", "ROOT r = $ subtract(x, zero)", "parameter"},
    {"subtract_zero", "su", "ROOT r = $ subtract(x, x)", "broadcast"},
    {"subtract_zero stays", "fn", "ROOT r = $ subtract(x, x)", "subtract"},
    {"subtract_negated", "su", "n = $ negate(y)\n ROOT r = $ subtract(x, n)", "add"},
    {"subtract_negated", "su", "ROOT r = $ subtract(zero, x)", "negate"},
    {"subtract_negated stays", "fn", "ROOT r = $ subtract(zero, x)", "subtract"},
    {"undo_sum", "su", "a = $ add(y, x)\n ROOT r = $ subtract(a, y)", "parameter"},
    {"multiply_one", "fnsu", "ROOT r = $ multiply(one, x)", "parameter"},
    {"multiply_one", "su", "ROOT r = $ multiply(x, zero)", "broadcast"},
    {"multiply_one stays", "fn", "ROOT r = $ multiply(x, zero)", "multiply"},
    {"both_negated", "su", "m = $ negate(x)\n n = $ negate(y)\n ROOT r = $ multiply(m, n)",
     "multiply"},
    {"times_minus_one stays", "fn", "ROOT r = $ multiply(x, minus)", "multiply"},
    {"times_minus_one", "s", "ROOT r = $ multiply(x, minus)", "negate"},
    {"merge_constants", "su", "a = $ multiply(x, three)\n ROOT r = $ multiply(a, three)",
     "multiply"},
    {"divide_by_constant", "fnsu", "ROOT r = $ divide(x, one)", "parameter"},
    {"divide_by_constant", "w",
     "k = @[] constant(-0.25)\n b = $ broadcast(k), dimensions={}\n"
     " ROOT r = $ divide(x, b)",
     "multiply"},
    {"divide_by_constant stays", "fn", "ROOT r = $ divide(x, three)", "divide"},
    {"remainder_of_one", "su", "ROOT r = $ remainder(x, one)", "broadcast"},
    {"remainder_of_one", "s", "ROOT r = $ remainder(x, minus)", "broadcast"},
    {"remainder_of_one stays", "fn", "ROOT r = $ remainder(x, one)", "remainder"},
    {"power_of_constant", "fn", "ROOT r = $ power(x, one)", "parameter"},
    {"power_of_constant", "fn", "ROOT r = $ power(x, zero)", "broadcast"},
    {"power_of_constant", "fn",
     "k = @[] constant(2)\n b = $ broadcast(k), dimensions={}\n"
     " ROOT r = $ power(x, b)",
     "multiply"},
    {"power_of_constant", "fn", "ROOT r = $ power(x, minus)", "divide"},
    {"undo_twice", "fnsu", "n = $ negate(x)\n ROOT r = $ negate(n)", "parameter"},
    {"same_twice", "fns", "n = $ abs(x)\n ROOT r = $ abs(n)", "abs"},
    {"abs_of_negated", "fn", "n = $ negate(x)\n ROOT r = $ abs(n)", "abs"},
    {"same_twice", "fns", "n = $ sign(x)\n ROOT r = $ sign(n)", "sign"},
    {"round_twice", "fn", "n = $ floor(x)\n ROOT r = $ ceil(n)", "floor"},
    {"round_twice", "fn", "n = $ ceil(x)\n ROOT r = $ floor(n)", "ceil"},
    {"round_twice", "fn", "n = $ round-nearest-even(x)\n ROOT r = $ round-nearest-afz(n)",
     "round-nearest-even"},
    {"round_twice", "fn", "n = $ round-nearest-afz(x)\n ROOT r = $ round-nearest-even(n)",
     "round-nearest-afz"},
    {"part_of_complex", "w", "c = complex(x, y)\n ROOT r = $ real(c)", "parameter"},
    {"part_of_complex", "w", "c = complex(x, y)\n ROOT r = $ imag(c)", "parameter"},
    {"complex_of_parts", "c", "a = real(x)\n b = imag(x)\n ROOT r = $ complex(a, b)", "parameter"},
    {"complex_of_parts stays", "c", "a = real(x)\n b = imag(y)\n ROOT r = $ complex(a, b)",
     "complex"},
    {"same_shape", "fnsupc", "c = $ copy(x)\n ROOT r = $ copy(c)", "parameter"},

    {"and_constant", "sup", "ROOT r = $ and(x, x)", "parameter"},
    {"and_constant", "s", "ROOT r = $ and(minus, x)", "parameter"},
    {"and_constant", "p", "ROOT r = $ and(one, x)", "parameter"},
    {"and_constant", "sup", "ROOT r = $ and(x, zero)", "broadcast"},
    {"merge_constants", "su", "a = $ and(x, three)\n ROOT r = $ and(a, one)", "and"},
    {"or_constant", "sup", "ROOT r = $ or(x, x)", "parameter"},
    {"or_constant", "sup", "ROOT r = $ or(zero, x)", "parameter"},
    {"or_constant", "p", "ROOT r = $ or(one, x)", "broadcast"},
    {"merge_constants", "su", "a = $ or(x, three)\n ROOT r = $ or(one, a)", "or"},
    {"xor_zero", "sup", "ROOT r = $ xor(x, zero)", "parameter"},
    {"xor_zero", "sup", "ROOT r = $ xor(x, x)", "broadcast"},
    {"merge_constants", "sup", "a = $ xor(one, x)\n ROOT r = $ xor(a, one)", "xor"},
    {"not_twice", "sup", "n = $ not(x)\n ROOT r = $ not(n)", "parameter"},
    {"not_compare", "sup", "ROOT r = ? not(p)", "compare"},
    {"not_compare", "fn", "ROOT r = ? not(q)", "compare"},
    {"not_compare stays", "fn", "ROOT r = ? not(p)", "not"},
    {"shift_by_zero", "su", "ROOT r = $ shift-left(x, zero)", "parameter"},
    {"shift_by_zero", "su", "ROOT r = $ shift-right-logical(x, zero)", "parameter"},
    {"shift_by_zero", "su", "ROOT r = $ shift-right-arithmetic(x, zero)", "parameter"},
    {"shift_out", "s", "ROOT r = $ shift-left(x, minus)", "broadcast"},
    {"shift_out", "s", "ROOT r = $ shift-right-logical(x, minus)", "broadcast"},
    {"shift_out stays", "s", "ROOT r = $ shift-right-arithmetic(x, minus)",
     "shift-right-arithmetic"},
    {"extreme_of_same", "fnsu", "ROOT r = $ maximum(x, x)", "parameter"},
    {"extreme_of_same", "fnsu", "ROOT r = $ minimum(x, x)", "parameter"},
    {"extreme_of_bound", "b",
     "k = @[] constant(-inf)\n b = $ broadcast(k), dimensions={}\n"
     " ROOT r = $ maximum(b, x)",
     "parameter"},
    {"extreme_of_bound", "b",
     "k = @[] constant(inf)\n b = $ broadcast(k), dimensions={}\n"
     " ROOT r = $ minimum(x, b)",
     "parameter"},
    {"extreme_of_bound", "u", "ROOT r = $ maximum(x, zero)", "parameter"},
    {"extreme_of_bound stays", "b",
     "k = @[] constant(inf)\n b = $ broadcast(k), dimensions={}\n"
     " ROOT r = $ maximum(b, x)",
     "maximum"},
    {"extreme_of_bound stays", "fns", "ROOT r = $ maximum(x, zero)", "maximum"},
    {"extreme_twice", "fnsu", "m = $ maximum(x, y)\n ROOT r = $ maximum(y, m)", "maximum"},
    {"extreme_twice", "fnsu", "m = $ minimum(x, y)\n ROOT r = $ minimum(y, m)", "minimum"},
    {"extreme_twice", "su", "m = $ minimum(x, y)\n ROOT r = $ maximum(y, m)", "parameter"},
    {"extreme_twice", "su", "m = $ maximum(x, y)\n ROOT r = $ minimum(y, m)", "parameter"},
    {"extreme_twice stays", "fn", "m = $ maximum(x, y)\n ROOT r = $ minimum(y, m)", "minimum"},
    {"merge_constants", "fns", "m = $ maximum(x, zero)\n ROOT r = $ maximum(m, one)", "maximum"},
    {"merge_constants", "fnsu", "m = $ minimum(one, x)\n ROOT r = $ minimum(m, three)", "minimum"},
    {"clamp_twice", "fnsu", "m = $ clamp(zero, x, one)\n ROOT r = $ clamp(zero, m, one)", "clamp"},
    {"compare_same", "sup", "ROOT r = ? compare(x, x), direction=LE", "broadcast"},
    {"compare_same stays", "fn", "ROOT r = ? compare(x, x), direction=LE", "compare"},
    {"compare_non_negative", "u", "ROOT r = ? compare(x, zero), direction=LT", "broadcast"},
    {"compare_non_negative", "u", "ROOT r = ? compare(zero, x), direction=LE", "broadcast"},
    {"compare_non_negative stays", "s", "ROOT r = ? compare(x, zero), direction=LT", "compare"},
    {"compare_non_negative", "s",
     "m = $ maximum(x, zero)\n ROOT r = ? compare(m, minus), direction=GT", "broadcast"},
    {"compare_non_negative", "s",
     "m = $ and(x, three)\n d = $ remainder(m, y)\n"
     " ROOT r = ? compare(d, zero), direction=GE",
     "broadcast"},
    {"compare_non_negative", "s",
     "m = $ shift-right-logical(x, one)\n"
     " ROOT r = ? compare(m, minus), direction=EQ",
     "broadcast"},
    {"compare_truth", "p", "ROOT r = ? compare(x, zero), direction=NE", "parameter"},
    {"compare_truth", "p", "ROOT r = ? compare(one, x), direction=NE", "not"},
    {"compare_truth", "fn", "c = $ convert(p)\n ROOT r = ? compare(c, zero), direction=EQ", "not"},
    {"compare_truth", "su", "c = $ convert(p)\n ROOT r = ? compare(c, zero), direction=EQ",
     "compare"},
    {"compare_truth", "fnsu", "c = $ convert(p)\n ROOT r = ? compare(c, one), direction=EQ",
     "compare"},
    {"select_known", "fnsupc", "ROOT r = $ select(q, x, x)", "parameter"},
    {"select_known", "fnsup",
     "t = pred[] constant(true)\n b = ? broadcast(t), dimensions={}\n"
     " ROOT r = $ select(b, x, y)",
     "parameter"},
    {"select_truth", "fnsup",
     "t = pred[] constant(true)\n f = pred[] constant(false)\n"
     " b = ? broadcast(t), dimensions={}\n c = ? broadcast(f), dimensions={}\n"
     " ROOT r = ? select(q, b, c)",
     "compare"},
    {"select_truth", "p", "ROOT r = $ select(q, zero, one)", "compare"},
    {"select_truth", "p", "ROOT r = $ select(q, x, zero)", "and"},
    {"select_truth", "p", "ROOT r = $ select(q, one, y)", "or"},
    {"select_by_not", "fnsu", "n = ? not(p)\n ROOT r = $ select(n, x, y)", "select"},
    {"select_twice", "fnsu", "s = $ select(p, x, one)\n ROOT r = $ select(p, s, y)", "select"},
    {"select_twice", "fnsu", "s = $ select(p, one, y)\n ROOT r = $ select(p, x, s)", "select"},
    {"select_equal", "su", "ROOT r = $ select(q, y, x)", "parameter"},
    {"select_equal", "su", "ROOT r = $ select(q, x, y)", "parameter"},
    {"select_equal stays", "fn", "ROOT r = $ select(q, y, x)", "select"},
};

/* ---- the program ---- */

static void put(char **at, const char *text) {
    size_t length = strlen(text);
    memcpy(*at, text, length + 1);
    *at += length;
}

static void put_body(char **at, const char *text, const char *type, int count) {
    char array[64], truth[32];
    snprintf(array, sizeof array, "%s[%d]", type, count);
    snprintf(truth, sizeof truth, "pred[%d]", count);
    for (; *text; text++) {
        const char one[2] = {*text, 0};
        put(at, *text == '$' ? array : *text == '?' ? truth : *text == '@' ? type : one);
    }
}

/* A number everywhere, where the body asks for it by name. */
static void put_number(char **at, const char *body, const char *name, const char *value,
                       const char *type, int count) {
    char text[256];
    if (!strstr(body, name)) return;
    snprintf(text, sizeof text, "%s_ = @[] constant(%s)\n %s = $ broadcast(%s_), dimensions={}\n ",
             name, value, name, name);
    put_body(at, text, type, count);
}

static struct hlo_module *build(const struct row *row, const char *type, int count,
                                struct diag *diag, char *text) {
    bool truth = strcmp(type, "pred") == 0;
    bool complex = type[0] == 'c';
    char *at = text;
    put(&at, "HloModule rule\nENTRY main {\n ");
    put_body(&at, "x = $ parameter(0)\n y = $ parameter(1)\n ", type, count);
    put_number(&at, row->body, "zero", truth ? "false" : "0", type, count);
    put_number(&at, row->body, "one", truth ? "true" : "1", type, count);
    put_number(&at, row->body, "minus", "-1", type, count);
    put_number(&at, row->body, "three", "3", type, count);
    if (!complex) put_body(&at, "p = ? compare(x, y), direction=LT\n ", type, count);
    put_body(&at, "q = ? compare(x, y), direction=EQ\n ", type, count);
    put_body(&at, row->body, type, count);
    put(&at, "\n}\n");
    diag_init(diag, row->name, text, (size_t)(at - text));
    return hlo_parse(diag);
}

/* ---- the values ---- */

static const double specials[] = {
    0.0,    -0.0,   1,       -1,       2,       -2,       0.5,       -0.5,    1.5,
    -1.5,   2.5,    -2.5,    3,        -3,      INFINITY, -INFINITY, NAN,     -NAN,
    1e-3,   -1e-3,  7,       127,      -128,    128,      255,       -255,    32767,
    -32768, 65504,  -65504,  1e30,     -1e30,   FLT_MAX,  -FLT_MAX,  FLT_MIN, -FLT_MIN,
    1e-40,  -1e-40, DBL_MAX, -DBL_MAX, DBL_MIN, -DBL_MIN};
static const int64_t numbers[] = {0,         1,         -1,         2,         -2,
                                  3,         7,         8,          -8,        100,
                                  -100,      INT16_MIN, INT16_MAX,  INT32_MIN, INT32_MAX,
                                  INT64_MIN, INT64_MAX, UINT16_MAX, UINT32_MAX};
enum { SPECIALS = sizeof specials / sizeof *specials, NUMBERS = sizeof numbers / sizeof *numbers };

static int value_count(enum element_type type) {
    int bits = element_type_info(type)->bits;
    if (bits <= 8) return 1 << bits;
    return element_type_is_integral(type) ? NUMBERS : SPECIALS;
}

/* Every value of a small type with these (as bytes), which have its special ones among them. */
static const uint8_t partners[] = {0,    1,    2,    3,    7,    8,    15,   0x38, 0x3c, 0x40, 0x78,
                                   0x79, 0x7a, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0xb8,
                                   0xbc, 0xc0, 0xf8, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};

static int partner_count(enum element_type type) {
    return element_type_info(type)->bits == 8 ? (int)sizeof partners : value_count(type);
}

static int partner(enum element_type type, int k) {
    return element_type_info(type)->bits == 8 ? partners[k] : k;
}

static void set_value(struct literal *literal, int64_t at, int k) {
    enum element_type type = literal->shape->type;
    if (element_type_is_complex(type))
        literal_set_complex(literal, at, specials[k], specials[(k * 5 + 3) % SPECIALS]);
    else if (element_type_is_integral(type))
        literal_set_int(literal, at, element_type_info(type)->bits <= 8 ? k : numbers[k]);
    else if (element_type_info(type)->bits <= 8)
        ((uint8_t *)literal->data)[at] = (uint8_t)k;
    else
        literal_set_double(literal, at, specials[k]);
}

/* ---- the check ---- */

/* The least positive number that arithmetic does not take for zero. */
static double least_normal(enum element_type type) {
    switch (type) {
    case TYPE_F32:
    case TYPE_C64:
    case TYPE_BF16: return FLT_MIN;
    case TYPE_F64: return DBL_MIN;
    default: return 0;
    }
}

static bool same_number(double a, double b, double least) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (fabs(a) < least) a = copysign(0, a);
    if (fabs(b) < least) b = copysign(0, b);
    return a == b && signbit(a) == signbit(b);
}

static bool same_element(const struct literal *a, const struct literal *b, int64_t i) {
    enum element_type type = a->shape->type;
    double x[2] = {0}, y[2] = {0}, least = least_normal(type);
    if (element_type_is_integral(type) || type == TYPE_PRED)
        return literal_get_int(a, i) == literal_get_int(b, i);
    if (element_type_is_complex(type)) {
        literal_get_complex(a, i, x);
        literal_get_complex(b, i, y);
    } else {
        x[0] = literal_get_double(a, i);
        y[0] = literal_get_double(b, i);
    }
    return same_number(x[0], y[0], least) && same_number(x[1], y[1], least);
}

static int check_same(const struct row *row, const char *type, const struct literal *before,
                      const struct literal *after, struct literal *const *args) {
    for (int64_t i = 0; i < before->shape->count; i++) {
        if (same_element(before, after, i)) continue;
        print_message("%s of %s: f(%g, %g) was %g and is %g\n", row->name, type,
                      literal_get_double(args[0], i), literal_get_double(args[1], i),
                      literal_get_double(before, i), literal_get_double(after, i));
        return 1;
    }
    return 0;
}

/* 0 where all is as the row says. */
static int check(const struct row *row, const char *type_name) {
    static const enum pass_id passes[] = {PASS_algebraic_simplifier, PASS_logic_simplifier,
                                          PASS_constant_folding, PASS_operation_mover, PASS_dce};
    char text[4096];
    struct diag diag;
    struct pass_context context;
    struct literal *args[2];
    struct eval_options options = {0};
    enum element_type type = element_type_from_name(type_name, strlen(type_name));
    int m = !row->classes ? 1 : partner_count(type), count = value_count(type) * m, faults = 0;
    struct hlo_module *module = build(row, type_name, count, &diag, text);
    if (!module) diag_print(&diag, stderr, false);
    assert_non_null(module);
    for (int k = 0; k < 2; k++) {
        args[k] = literal_new(module->entry->parameters[k]->shape);
        for (int i = 0; i < count; i++)
            set_value(args[k], i, k == 0 ? i / m : partner(type, i % m));
    }
    struct literal *before = module_evaluate(module, args, &options, &diag);
    pass_context_init(&context, &diag);
    context.verify = true;
    assert_true(pass_pipeline_run(&context, module, passes, sizeof passes / sizeof *passes));
    struct literal *after = module_evaluate(module, args, &options, &diag);
    assert_true(before && after);
    const char *got = opcode_name(module->entry->root->opcode);
    if (row->want && strcmp(got, row->want) != 0) {
        print_message("%s of %s: the root is %s, not %s\n", row->name, type_name, got, row->want);
        faults++;
    }
    int64_t rewrites = context.stats[PASS_algebraic_simplifier].rewrites +
                       context.stats[PASS_logic_simplifier].rewrites;
    if (row->want && (rewrites == 0) != (strstr(row->name, " stays") != NULL)) {
        print_message("%s of %s: %d rewrites\n", row->name, type_name, (int)rewrites);
        faults++;
    }
    faults += check_same(row, type_name, before, after, args);
    literal_unref(before);
    literal_unref(after);
    for (int k = 0; k < 2; k++)
        literal_unref(args[k]);
    diag_clear(&diag);
    module_free(module);
    return faults;
}

static void test_rows(void **state) {
    (void)state;
    int faults = 0;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            if (strpbrk(types[t].classes, rows[r].classes))
                faults += check(&rows[r], types[t].name);
    assert_int_equal(faults, 0);
}

/* ---- conversions: every type to every other and on ---- */

static bool is_real(const char *classes) {
    return strchr(classes, 'c') == NULL;
}

static int check_conversion(const char *first, const char *second, const char *third) {
    char body[256];
    enum element_type type = element_type_from_name(first, strlen(first));
    int n = value_count(type);
    snprintf(body, sizeof body, "c = %s[%d] convert(x)\n ROOT r = %s[%d] convert(c)", second, n,
             third, n);
    int faults = check(&(struct row){.name = "convert_back", .body = body}, first);
    if (faults) print_message("  by %s to %s\n", second, third);
    return faults;
}

static void test_conversions(void **state) {
    (void)state;
    enum { TYPES = sizeof types / sizeof *types };
    int faults = 0;
    for (int i = 0; i < TYPES; i++)
        for (int j = 0; j < TYPES; j++)
            for (int k = 0; k < TYPES; k++)
                if (is_real(types[i].classes) && is_real(types[j].classes) &&
                    is_real(types[k].classes))
                    faults += check_conversion(types[i].name, types[j].name, types[k].name);
    assert_int_equal(faults, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_conversions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
