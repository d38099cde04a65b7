/* Random programs through the whole pipeline as native code, against the evaluator on the program
 * as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "ir/eval.h"
#include "ir/print.h"
#include "passes/pass.h"
#include "passes/random_program.h"

enum { PROGRAMS = 120, SIZE = 24, OUTPUTS = 4 };

static bool run(const struct cpu_code *code, struct literal *const *args, struct literal *result,
                struct diag *diag) {
    struct cpu_jit *jit = cpu_jit_new(code, "entry", diag);
    const void *inputs[RANDOM_INPUTS];
    void *outputs[OUTPUTS], *workspace = aligned_alloc(64, (code->workspace_size / 64 + 1) * 64);
    for (int i = 0; i < RANDOM_INPUTS; i++)
        inputs[i] = args[i]->data;
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = result->elements[i]->data;
    bool ok = jit && workspace && cpu_jit_entry(jit)(inputs, outputs, workspace) == 0;
    free(workspace);
    cpu_jit_free(jit);
    return ok;
}

static bool compile_and_run(struct hlo_module *module, struct literal *const *args,
                            struct literal *result, struct diag *diag) {
    struct pass_context context;
    struct cpu_options options = {.opt_level = 1, .symbol = "entry", .max_threads = 2};
    struct cpu_code code;
    int count;
    const enum pass_id *passes = pass_pipeline(PASS_TARGET_CPU, 2, &count);
    pass_context_init(&context, diag);
    if (!pass_pipeline_run(&context, module, passes, count)) return false;
    if (!cpu_compile(module, &options, CPU_OBJ, &code, diag)) return false;
    bool ok = run(&code, args, result, diag);
    cpu_code_free(&code);
    return ok;
}

static void check(uint64_t seed) {
    struct diag diag;
    struct literal *args[RANDOM_INPUTS];
    struct eval_options options = {.max_steps = 50 * 1000 * 1000};
    struct hlo_module *module = random_program(seed, SIZE);
    module_sort_computations(module);
    struct hlo_module *plain = module_clone(module);
    uint64_t state = seed;
    diag_init(&diag, "random", NULL, 0);
    for (int i = 0; i < RANDOM_INPUTS; i++)
        args[i] = random_input(module->entry->parameters[i]->shape, &state);
    struct literal *want = module_evaluate(plain, args, &options, &diag);
    struct literal *got = literal_new(module->entry->root->shape);
    bool same = want && got && compile_and_run(module, args, got, &diag) && random_same(got, want);
    if (!same) {
        struct print_options print = print_options_short();
        diag_print(&diag, stderr, false);
        print_message("seed %d\n", (int)seed);
        module_print(stderr, plain, &print);
    }
    literal_unref(want);
    literal_unref(got);
    for (int i = 0; i < RANDOM_INPUTS; i++)
        literal_unref(args[i]);
    diag_clear(&diag);
    module_free(module);
    module_free(plain);
    assert_true(same);
}

static void test_random_programs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
        check(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
