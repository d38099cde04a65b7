/* Custom calls of the user's functions, and what the entry says of bad arguments. */
#include "runtime/cpu/custom_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "ir/diag.h"
#include "ir/parse.h"

/* sums[i] = x[i] + y[i], and the number of elements. */
static int add_arrays(const struct hlocc_custom_call *call) {
    const float *x = call->inputs[0].data, *y = call->inputs[1].data;
    float *sums = call->outputs[0].data;
    int32_t *count = call->outputs[1].data;
    assert_int_equal(call->ninputs, 2);
    assert_int_equal(call->noutputs, 2);
    assert_string_equal(call->inputs[0].type, "f32");
    assert_string_equal(call->outputs[1].type, "s32");
    assert_int_equal(call->inputs[1].rank, 2);
    assert_int_equal(call->inputs[1].dims[1], 3);
    assert_string_equal(call->config, "plain");
    for (int i = 0; i < 6; i++)
        sums[i] = x[i] + y[i];
    *count = 6;
    return 0;
}

static int fail_above(const struct hlocc_custom_call *call) {
    const int32_t *x = call->inputs[0].data;
    *(int32_t *)call->outputs[0].data = *x + 1;
    if (*x < 5) return 0;
    snprintf(call->message, call->message_size, "%d is too much", (int)*x);
    return 7;
}

static const struct cpu_function functions[] = {{"add_arrays", add_arrays},
                                                {"fail_above", fail_above}};

struct program {
    struct hlo_module *module;
    struct cpu_code code;
    struct cpu_jit *jit;
    void *workspace;
};

/* `said`: the diagnostics as text. */
static bool program_open(struct program *p, const char *text, char *said, size_t size) {
    struct diag diag;
    diag_init(&diag, "test", text, strlen(text));
    *p = (struct program){.module = hlo_parse(&diag)};
    assert_non_null(p->module);
    struct cpu_options options = {
        .opt_level = 2, .symbol = "entry", .functions = functions, .nfunctions = 2};
    if (cpu_compile(p->module, &options, CPU_OBJ, &p->code, &diag))
        p->jit = cpu_jit_new_with(&p->code, "entry", functions, 2, &diag);
    memset(said, 0, size);
    FILE *out = fmemopen(said, size, "w");
    diag_print(&diag, out, false);
    fclose(out);
    if (p->jit) p->workspace = aligned_alloc(64, (p->code.workspace_size + 127) / 64 * 64);
    diag_clear(&diag);
    return p->jit != NULL;
}

static void program_close(struct program *p) {
    cpu_jit_free(p->jit);
    free(p->code.data);
    free(p->workspace);
    module_free(p->module);
}

static void test_results(void **state) {
    static const char text[] =
        "HloModule m\nENTRY e {\n  x = f32[2,3] parameter(0)\n  y = f32[2,3] parameter(1)\n"
        "  t = (f32[2,3], s32[]) custom-call(x, y), custom_call_target=\"add_arrays\", "
        "backend_config=\"plain\"\n  s = f32[2,3] get-tuple-element(t), index=0\n"
        "  n = f32[2,3] negate(s)\n  c = s32[] get-tuple-element(t), index=1\n"
        "  ROOT r = (f32[2,3], s32[]) tuple(n, c)\n}\n";
    struct program p;
    char said[2000];
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60}, sums[6];
    int32_t count = 0;
    (void)state;
    assert_true(program_open(&p, text, said, sizeof said));
    assert_int_equal(
        cpu_jit_entry(p.jit)((const void *[]){x, y}, (void *[]){sums, &count}, p.workspace), 0);
    assert_int_equal(count, 6);
    for (int i = 0; i < 6; i++)
        assert_true(sums[i] == -(float)(11 * (i + 1)));
    program_close(&p);
}

/* A loop that ends when the call inside of it fails; then the entry's checks of its arguments. */
static void test_failure(void **state) {
    static const char text[] =
        "HloModule m\ncond { a = s32[] parameter(0)\n  k = s32[] constant(100)\n"
        "  ROOT l = pred[] compare(a, k), direction=LT }\n"
        "body { b = s32[] parameter(0)\n"
        "  ROOT c = s32[] custom-call(b), custom_call_target=\"fail_above\" }\n"
        "ENTRY e { x = s32[] parameter(0)\n"
        "  ROOT w = s32[] while(x), condition=cond, body=body }\n";
    struct program p;
    char said[2000];
    int32_t x = 200, y = 0;
    const void *in[1] = {&x};
    void *out[1] = {&y};
    (void)state;
    assert_true(program_open(&p, text, said, sizeof said));
    cpu_entry *entry = cpu_jit_entry(p.jit);
    assert_true(p.code.workspace_size >= HLOCC_MESSAGE_SIZE);
    assert_int_equal(entry(in, out, p.workspace), HLOCC_STATUS_OK);
    assert_int_equal(y, 200);
    x = 0;
    assert_int_equal(entry(in, out, p.workspace), HLOCC_STATUS_CUSTOM_CALL);
    assert_string_equal(p.workspace, "5 is too much");
    assert_int_equal(entry(in, out, NULL), HLOCC_STATUS_WORKSPACE);
    assert_int_equal(entry(in, out, (char *)p.workspace + 8), HLOCC_STATUS_WORKSPACE);
    assert_int_equal(entry(NULL, out, p.workspace), HLOCC_STATUS_NULL);
    assert_int_equal(entry(in, NULL, p.workspace), HLOCC_STATUS_NULL);
    assert_int_equal(entry((const void *[]){NULL}, out, p.workspace), HLOCC_STATUS_NULL);
    assert_int_equal(entry(in, (void *[]){NULL}, p.workspace), HLOCC_STATUS_NULL);
    program_close(&p);
}

/* All calls that nothing is known of are named, each at its place. */
static void test_unknown(void **state) {
    static const char text[] = "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n"
                               "  a = f32[] custom-call(x), custom_call_target=\"first\"\n"
                               "  b = f32[] custom-call(a), custom_call_target=\"second\"\n"
                               "  ROOT c = f32[] add(a, b)\n}\n";
    struct program p;
    char said[4000];
    (void)state;
    assert_false(program_open(&p, text, said, sizeof said));
    assert_non_null(strstr(said, "test:4:3: error: a (custom-call): "));
    assert_non_null(strstr(said, "test:5:3: error: b (custom-call): "));
    assert_non_null(strstr(said, "second: the CPU target"));
    program_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
