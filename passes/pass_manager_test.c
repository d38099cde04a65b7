#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/pass.h"

static struct hlo_module *chain(int length) {
    struct hlo_module *module = module_new("chain");
    struct hlo_computation *main = computation_new(module, "main", true);
    module->entry = main;
    int64_t four = 4;
    const struct shape *shape = shape_array(module->shapes, TYPE_F32, 1, &four);
    struct hlo_instr *value = instr_new_parameter(main, 0, shape, "x");
    computation_index_parameters(main);
    for (int i = 0; i < length; i++)
        instr_new(main, NULL, OP_NEGATE, shape, NULL, 1, &value);
    computation_set_root(main, instr_new(main, NULL, OP_ABS, shape, NULL, 1, &value));
    return module;
}

static void test_names(void **state) {
    (void)state;
    assert_int_equal(pass_from_name("call-inliner", 12), PASS_call_inliner);
    assert_int_equal(pass_from_name("dce", 3), PASS_dce);
    assert_int_equal(pass_from_name("dc", 2), PASS_COUNT);
    struct arena *arena = arena_new();
    struct diag diag;
    diag_init(&diag, "test", NULL, 0);
    int count;
    const enum pass_id *list = pass_list_parse(arena, "dce,,cse,", &count, &diag);
    assert_int_equal(count, 2);
    assert_int_equal(list[1], PASS_cse);
    assert_null(pass_list_parse(arena, "dce,nothing", &count, &diag));
    assert_int_equal(diag.errors, 1);
    diag_clear(&diag);
    arena_free(arena);
}

/* Ten dead instructions; a limit of three rewrites leaves seven. */
static void test_rewrite_limit(void **state) {
    (void)state;
    struct hlo_module *module = chain(10);
    struct diag diag;
    diag_init(&diag, "test", NULL, 0);
    struct pass_context context;
    pass_context_init(&context, &diag);
    context.rewrite_limit = 3;
    enum pass_id passes[2] = {PASS_dce, PASS_cse};
    context.disabled[PASS_cse] = true;
    assert_true(pass_pipeline_run(&context, module, passes, 2));
    assert_int_equal(module->entry->count, 9);
    assert_int_equal(context.stats[PASS_dce].rewrites, 3);
    assert_int_equal(context.stats[PASS_cse].runs, 0);
    diag_clear(&diag);
    module_free(module);
}

static void count_call(void *user, const char *pass, int number, bool changed,
                       const struct hlo_module *module) {
    (void)module;
    assert_string_equal(pass, "dce");
    assert_int_equal(number, 1);
    *(int *)user += changed ? 1 : 10;
}

static void test_hooks(void **state) {
    (void)state;
    struct hlo_module *module = chain(2);
    struct diag diag;
    diag_init(&diag, "test", NULL, 0);
    int calls = 0;
    struct pass_hooks hooks = {.user = &calls, .after = count_call};
    struct pass_context context;
    pass_context_init(&context, &diag);
    context.hooks = &hooks;
    enum pass_id passes[2] = {PASS_dce, PASS_dce};
    assert_true(pass_pipeline_run(&context, module, passes, 2));
    assert_int_equal(calls, 11);
    diag_clear(&diag);
    module_free(module);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_rewrite_limit),
                                       cmocka_unit_test(test_hooks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
