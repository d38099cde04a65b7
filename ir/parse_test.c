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

/* The text is one instruction: what it names and nothing declares becomes a parameter. */
static void test_single_instruction(void **state) {
    (void)state;
    accepts("ROOT r = f32[2] parameter(0)");
    accepts("f32[2] parameter(0)");
    accepts("%r = f32[2]{0} multiply(f32[2]{0} %x, f32[2]{0} %y)");
    accepts("f32[2] multiply(f32[2], f32[2])");
    accepts("(f32[2], s32[]) tuple(f32[2], s32[])");
    accepts("add(f32[] parameter(0), f32[] parameter(1))");
    accepts("f32[2] while(f32[2]), condition=\n{\n p = f32[2] parameter(0)\n"
            " ROOT c = pred[] constant(true)\n}, body=\n{\n p = f32[2] parameter(0)\n"
            " ROOT n = f32[2] negate(f32[2] p)\n}");
    accepts("f32[2] conditional(s32[], f32[2]), branch_computations={\n{\n"
            " p = f32[2] parameter(0)\n}\n}");
    rejects("r = f32[2] multiply(x, y)", 1, 21);
    rejects("p = f32[2] parameter(0)\nr = f32[2] negate(p)", 2, 1);
    /* Only the outermost operands are parameters. */
    rejects("r = f32[] reduce(f32[2], f32[]), dimensions={0}, to_apply={\n s = f32[] add(f32[] x, "
            "f32[] y)\n}",
            2, 22);
}

/* What stands in a signature, and the numbers of parameters. */
static void test_signatures(void **state) {
    (void)state;
    accepts("%f(p: f32[2]) -> f32[2] { ROOT p = f32[2] parameter(0) }");
    accepts("HloModule m\n%f() -> s32[] {\n ROOT c = s32[] constant(4)\n}\nENTRY %g() -> s32[] {\n"
            " ROOT c = s32[] call(), to_apply=f\n}");
    rejects("ENTRY e () -> f32[1] {\n ROOT c = f32[1,1] constant({{1}})\n}", 1, 15);
    rejects("ENTRY e {\n a = s8[] parameter(0)\n ROOT b = s8[] parameter(0)\n}", 3, 7);
    rejects("ENTRY e {\n ROOT b = s8[] parameter(3)\n}", 2, 7);
    rejects("HloModule m\n\n", 1, 12);
}

/* Names that the text leaves out are not those that it gives later. */
static void test_unnamed(void **state) {
    (void)state;
    const char *text = "HloModule m\nENTRY e {\n a = f32[] parameter(0)\n"
                       " b = f32[] add(negate(a), a)\n ROOT negate = f32[] negate(b)\n}";
    struct diag diag;
    diag_init(&diag, "test.hlo", text, strlen(text));
    struct hlo_module *module = hlo_parse(&diag);
    assert_non_null(module);
    struct hlo_instr *root = module->entry->root, *sum = root->operands[0];
    assert_string_equal(root->name, "negate");
    assert_string_not_equal(sum->operands[0]->name, "negate");
    module_free(module);
    diag_clear(&diag);
}

/* `sine-start` and its kind: the operation moves into a computation of its own. */
static void test_async(void **state) {
    (void)state;
    const char *text = "ENTRY e {\n p = f32[2] parameter(0)\n"
                       " s = ((f32[2]), f32[4,2], s32[]) broadcast-start(p), dimensions={1}\n"
                       " u = ((f32[2]), f32[4,2], s32[]) broadcast-update(s)\n"
                       " ROOT d = f32[4,2] broadcast-done(u)\n}";
    struct diag diag;
    diag_init(&diag, "test.hlo", text, strlen(text));
    struct hlo_module *module = hlo_parse(&diag);
    assert_non_null(module);
    const struct hlo_instr *start = module->entry->root->operands[0]->operands[0];
    assert_int_equal(start->opcode, OP_ASYNC_START);
    assert_int_equal(start->called[0]->root->opcode, OP_BROADCAST);
    assert_int_equal(instr_ints(start->called[0]->root, ATTR_DIMENSIONS).v[0], 1);
    assert_ptr_equal(module->first, start->called[0]);
    module_free(module);
    diag_clear(&diag);
    rejects("ENTRY e {\n p = f32[2] parameter(0)\n s = ((f32[2]), f32[2], s32[]) sine-start(p)\n"
            " ROOT d = f32[2] cosine-done(s)\n}",
            4, 18);
    rejects("ENTRY e {\n p = f32[2] parameter(0)\n s = ((f32[2]), f32[2], s32[]) sine-start(p)\n"
            " ROOT d = f32[2] sine-done(s), async_execution_thread=\"other\"\n}",
            4, 7);
}

/* A constant in a computation of its own. */
static bool takes(const char *shape, const char *literal) {
    char text[256];
    int length = snprintf(text, sizeof text, "e { ROOT c = %s constant(%s) }", shape, literal);
    struct diag diag;
    diag_init(&diag, "test.hlo", text, (size_t)length);
    struct hlo_module *module = hlo_parse_unverified(&diag);
    module_free(module);
    diag_clear(&diag);
    return module != NULL;
}

/* Ranges and NaN payloads as XLA's parser has them. */
static void test_literal_ranges(void **state) {
    (void)state;
    static const struct {
        const char *shape, *literal;
        bool taken;
    } cases[] = {
        {"u64[]", "-1", true},
        {"u64[]", "-9223372036854775809", false},
        {"u64[]", "18446744073709551615", true},
        {"u64[]", "18446744073709551616", false},
        {"u32[]", "-1", false},
        {"u4[]", "16", false},
        {"s4[]", "-9", false},
        {"s4[]", "-8", true},
        {"f32[]", "1e39", false},
        {"f32[]", "3.40282347e+38", true},
        {"f64[]", "1.8e308", false},
        {"f16[]", "65520", false},
        {"f16[]", "65519", true},
        {"c64[]", "(0, -1e100)", false},
        {"c128[]", "(0, -1e100)", true},
        {"f32[]", ".", false},
        {"f32[]", "nan(0x1)", true},
        {"f32[]", "nan(1)", false},
        {"f32[]", "nan(0x0)", false},
        {"f32[]", "nan(0x800000)", false},
        {"bf16[]", "-nan(0x7f)", true},
        {"bf16[]", "nan(0x80)", false},
        {"f8e4m3fn[]", "nan(0x7)", false},
        {"f8e4m3b11fnuz[]", "-nan", true},
        {"f32[1,1]", "1", true},
        {"f32[2]", "1, 2", false},
        {"f32[]", "{1}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (takes(cases[i].shape, cases[i].literal) == cases[i].taken) continue;
        fail_msg("%s constant(%s)", cases[i].shape, cases[i].literal);
    }
}

/* Values of attributes that the text is kept of, and ones that must fit their instruction. */
static void test_attribute_values(void **state) {
    (void)state;
#define P "ENTRY e { p = f32[4,4] parameter(0) "
    accepts(P "ROOT r = exponential(p), result_accuracy={mode=highest} }");
    accepts(P
            "ROOT r = exponential(p), result_accuracy={tolerance={rtol=0.5, atol=1.0, ulps=2}} }");
    rejects(P "ROOT r = exponential(p), result_accuracy={mode=high} }", 1, 84);
    rejects(P "ROOT r = exponential(p), result_accuracy={0.5} }", 1, 79);
    rejects(P "ROOT r = negate(p), metadata={}, metadata={} }", 1, 70);
    rejects(P "ROOT r = f32[4] custom-call(p), custom_call_target=\"t\","
              " operand_layout_constraints={} }",
            1, 120);
    accepts(P "ROOT r = copy(p), sharding={maximal_mesh[device_id=5]} }");
    rejects(P "ROOT r = copy(p), sharding={maximal} }", 1, 72);
    accepts(
        "ENTRY e { ROOT p = (f32[], f32[4]) parameter(0), parameter_replication={true,false} }");
    rejects("ENTRY e { ROOT p = (f32[], f32[4]) parameter(0), parameter_replication={true} }", 1,
            78);
    accepts("ENTRY e { ROOT p = f32[4,4]{1,0:D(D,C+~)} parameter(0) }");
    rejects("ENTRY e { ROOT p = f32[4,4]{1,0:D(D,X)} parameter(0) }", 1, 37);
    rejects("ENTRY e { ROOT p = f32[4,4]{1,0:P(f32[4,4])} parameter(0) }", 1, 33);
#undef P
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),           cmocka_unit_test(test_places),
        cmocka_unit_test(test_cut_off),         cmocka_unit_test(test_single_instruction),
        cmocka_unit_test(test_signatures),      cmocka_unit_test(test_unnamed),
        cmocka_unit_test(test_async),           cmocka_unit_test(test_literal_ranges),
        cmocka_unit_test(test_attribute_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
