/* Random programs through the passes: what comes out computes the same, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/pass.h"
#include "passes/random_program.h"

enum { PROGRAMS = 2000, SIZE = 24 };

struct run {
    const enum pass_id *passes;
    int count, disabled; /* disabled: a pass, or -1 */
    int times;
    int64_t limit; /* of rewrites; 0: none */
};

static int count_loops(struct hlo_module *module) {
    int count = 0;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation) count += instr->opcode == OP_WHILE;
    return count;
}

/* Instructions, those inside a fusion for each fusion: two may share a computation or not. */
static int count_steps(struct hlo_module *module) {
    int count = module_instruction_count(module);
    FOR_EACH_COMPUTATION(computation, module) computation->mark = 0;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr->opcode == OP_FUSION && instr->called[0]->mark++ > 0)
        count += instr->called[0]->count;
    return count;
}

static bool transform(struct hlo_module *module, const struct run *run, struct diag *diag,
                      int *sizes) {
    for (int i = 0; i < run->times; i++) {
        int loops = i > 0 ? count_loops(module) : 0;
        struct pass_context context;
        pass_context_init(&context, diag);
        context.verify = true;
        if (run->limit) context.rewrite_limit = run->limit;
        if (run->disabled >= 0) context.disabled[run->disabled] = true;
        if (!pass_pipeline_run(&context, module, run->passes, run->count)) return false;
        sizes[i] = count_steps(module);
        if (count_loops(module) < loops) sizes[i] = 0; /* unrolled: it may be longer */
    }
    return true;
}

struct transformed {
    const struct run *run;
    int *sizes; /* instructions after each time */
};

static struct literal *run_transformed(struct hlo_module *module, struct literal *const *args,
                                       struct diag *diag, void *user) {
    struct transformed *t = user;
    struct eval_options options = {.max_steps = 50 * 1000 * 1000};
    if (!transform(module, t->run, diag, t->sizes)) return NULL;
    return module_evaluate(module, args, &options, diag);
}

static void check(uint64_t seed, const struct run *run, int *sizes) {
    struct transformed t = {run, sizes};
    if (random_check(seed, SIZE, run_transformed, &t)) return;
    print_message("pass %d disabled\n", run->disabled);
    fail();
}

static void test_pipelines(void **state) {
    (void)state;
    static const enum pass_target targets[] = {PASS_TARGET_GENERIC, PASS_TARGET_CPU,
                                               PASS_TARGET_TPU};
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct run run = {.disabled = -1, .times = 1};
        int sizes[1];
        run.passes = pass_pipeline(targets[seed % 3], 2, &run.count);
        check(seed, &run, sizes);
    }
}

/* Nothing accumulates: another time through the pipeline the program is no larger. */
static void test_again(void **state) {
    (void)state;
    for (uint64_t seed = 1001; seed <= 1000 + PROGRAMS; seed++) {
        struct run run = {.disabled = -1, .times = 3};
        int sizes[3];
        run.passes = pass_pipeline(PASS_TARGET_CPU, 2, &run.count);
        check(seed, &run, sizes);
        bool grows = sizes[1] > sizes[0] || (sizes[2] > sizes[1] && sizes[1] > 0);
        if (grows) print_message("seed %d: %d, %d, %d\n", (int)seed, sizes[0], sizes[1], sizes[2]);
        assert_false(grows);
    }
}

/* Stopped after any change, the program is right too: what bisecting counts on. */
static void test_limits(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct run run = {.disabled = -1, .times = 1, .limit = 1 + (int64_t)(seed * 37 % 80)};
        int sizes[1];
        run.passes = pass_pipeline(PASS_TARGET_CPU, 2, &run.count);
        check(seed, &run, sizes);
    }
}

static void test_each_pass_disabled(void **state) {
    (void)state;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        for (uint64_t seed = 1; seed <= PROGRAMS / 20; seed++) {
            struct run run = {.disabled = pass, .times = 1};
            int sizes[1];
            run.passes = pass_pipeline(PASS_TARGET_CPU, 2, &run.count);
            check(seed + 7919 * (uint64_t)pass, &run, sizes);
        }
}

static void test_each_pass_alone(void **state) {
    (void)state;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        for (uint64_t seed = 1; seed <= PROGRAMS / 20; seed++) {
            enum pass_id only = (enum pass_id)pass;
            struct run run = {.passes = &only, .count = 1, .disabled = -1, .times = 2};
            int sizes[2];
            check(seed + 6007 * (uint64_t)pass, &run, sizes);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipelines),
                                       cmocka_unit_test(test_again), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_each_pass_disabled),
                                       cmocka_unit_test(test_each_pass_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
