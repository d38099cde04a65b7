/* Random programs through the whole pipeline as native code, against the evaluator on the program
 * as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
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

static struct literal *compile_and_run(struct hlo_module *module, struct literal *const *args,
                                       struct diag *diag, void *user) {
    (void)user;
    struct pass_context context;
    struct cpu_options options = {.opt_level = 1, .symbol = "entry", .max_threads = 2};
    struct cpu_code code;
    struct literal *result = literal_new(module->entry->root->shape);
    int count;
    const enum pass_id *passes = pass_pipeline(PASS_TARGET_CPU, 2, &count);
    pass_context_init(&context, diag);
    bool ok = pass_pipeline_run(&context, module, passes, count) &&
              cpu_compile(module, &options, CPU_OBJ, &code, diag);
    if (ok) {
        ok = run(&code, args, result, diag);
        cpu_code_free(&code);
    }
    if (ok) return result;
    literal_unref(result);
    return NULL;
}

static void test_random_programs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
        assert_true(random_check(seed, SIZE, compile_and_run, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
