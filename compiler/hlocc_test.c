#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/hlocc.h"
#include "runtime/cpu/custom_call.h"

static const char text[] = "HloModule m\n"
                           "ENTRY e {\n"
                           "  x = f32[2,2] parameter(0)\n"
                           "  p = (f32[], s32[3]) parameter(1)\n"
                           "  s = f32[] get-tuple-element(p), index=0\n"
                           "  n = s32[3] get-tuple-element(p), index=1\n"
                           "  b = f32[2,2] broadcast(s), dimensions={}\n"
                           "  y = f32[2,2] multiply(x, b)\n"
                           "  ROOT t = (f32[2,2], s32[3]) tuple(y, n)\n"
                           "}\n";

static struct hlocc_program *parse(void) {
    char *messages;
    struct hlocc_program *program = hlocc_parse("m.hlo", text, strlen(text), &messages);
    assert_non_null(program);
    assert_null(messages);
    return program;
}

/* cmocka's assertions are for its own thread: others return whether all went well. */
static bool run_prepared(struct hlocc_program *program, float scale) {
    float x[] = {1, 2, 3, 4}, y[4] = {0};
    int32_t n[] = {7, 8, 9}, m[3] = {0};
    const void *inputs[] = {x, &scale, n};
    void *outputs[] = {y, m};
    bool ok = hlocc_run(program, inputs, outputs, NULL) == 0 && memcmp(m, n, sizeof n) == 0;
    for (int i = 0; i < 4; i++)
        ok = ok && y[i] == scale * x[i];
    return ok;
}

static void test_runs(void **state) {
    (void)state;
    struct hlocc_program *program = parse();
    assert_int_equal(hlocc_input_count(program), 3);
    assert_int_equal(hlocc_output_count(program), 2);
    struct hlocc_array_type type = hlocc_input_type(program, 2);
    assert_string_equal(type.element_type, "s32");
    assert_int_equal(type.rank, 1);
    assert_int_equal(type.bytes, 12);
    assert_null(hlocc_output_type(program, 2).element_type);
    assert_null(hlocc_output_type(program, -1).element_type);
    /* Each target in turn; what is prepared leaves the program as it was parsed. */
    char *before = hlocc_print(program);
    static const enum hlocc_target targets[] = {HLOCC_INTERP, HLOCC_CPU, HLOCC_TPU, HLOCC_CPU};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(hlocc_prepare(program, targets[i], NULL), 0);
        assert_true(run_prepared(program, 10));
    }
    char *after = hlocc_print(program);
    assert_string_equal(before, after);
    free(before);
    free(after);
    hlocc_free(program);
}

/* ---- several threads ---- */

enum { THREADS = 4, ROUNDS = 2, RUNS = 200, TPU_RUNS = 5 };

static void *compile_many(void *result) {
    static const enum hlocc_target targets[] = {HLOCC_INTERP, HLOCC_CPU, HLOCC_TPU};
    bool ok = true;
    for (int i = 0; i < ROUNDS * 3; i++) {
        struct hlocc_program *program = hlocc_parse("m.hlo", text, strlen(text), NULL);
        ok = ok && program && hlocc_prepare(program, targets[i % 3], NULL) == 0 &&
             run_prepared(program, (float)i);
        hlocc_free(program);
    }
    *(bool *)result = ok;
    return NULL;
}

struct shared_run {
    struct hlocc_program *program;
    int first, count;
    bool ok;
};

static void *run_many(void *data) {
    struct shared_run *run = data;
    run->ok = true;
    for (int i = 0; i < run->count; i++)
        run->ok = run->ok && run_prepared(run->program, (float)(run->first + i));
    return NULL;
}

static void test_compiles_at_once(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    bool ok[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, compile_many, &ok[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ok[i]);
    }
}

static void test_runs_at_once(void **state) {
    (void)state;
    static const enum hlocc_target targets[] = {HLOCC_INTERP, HLOCC_CPU, HLOCC_TPU};
    struct hlocc_program *program = parse();
    for (int k = 0; k < 3; k++) {
        pthread_t threads[THREADS];
        struct shared_run runs[THREADS];
        assert_int_equal(hlocc_prepare(program, targets[k], NULL), 0);
        for (int i = 0; i < THREADS; i++) {
            runs[i] = (struct shared_run){program, 1000 * i,
                                          targets[k] == HLOCC_TPU ? TPU_RUNS : RUNS, false};
            pthread_create(&threads[i], NULL, run_many, &runs[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_true(runs[i].ok);
        }
    }
    hlocc_free(program);
}

/* ---- compiling to take away ---- */

static void test_compiles(void **state) {
    (void)state;
    struct hlocc_program *program = parse();
    struct hlocc_options options;
    hlocc_options_init(&options);
    void *data[2];
    size_t size[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            hlocc_compile(program, "model", HLOCC_OBJECT, &options, &data[i], &size[i], NULL), 0);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    assert_memory_equal(data[0], "\177ELF", 4);
    free(data[0]);
    free(data[1]);
    options.triple = "aarch64";
    assert_int_equal(
        hlocc_compile(program, "model", HLOCC_ASSEMBLY, &options, &data[0], &size[0], NULL), 0);
    assert_non_null(strstr(data[0], "\nmodel:"));
    free(data[0]);
    assert_int_equal(hlocc_compile(program, "model", HLOCC_HLO, &options, &data[0], &size[0], NULL),
                     0);
    hlocc_free(hlocc_parse("again", data[0], size[0], NULL));
    free(data[0]);
    char *header = hlocc_header(program, "model");
    assert_non_null(strstr(header, "int model(const void *const *inputs"));
    free(header);
    assert_int_equal(hlocc_prepare(program, HLOCC_CPU, NULL), 0);
    assert_true(run_prepared(program, 3));
    hlocc_free(program);
}

static void expect_no_code(struct hlocc_program *program, const char *symbol,
                           const struct hlocc_options *options, const char *message) {
    void *data;
    size_t size;
    char *messages;
    assert_int_equal(hlocc_compile(program, symbol, HLOCC_OBJECT, options, &data, &size, &messages),
                     -1);
    assert_null(data);
    assert_non_null(strstr(messages, message));
    free(messages);
}

static void test_null_arrays(void **state) {
    (void)state;
    struct hlocc_program *program = parse();
    float x[4] = {0}, s = 1, y[4];
    int32_t n[3] = {0}, m[3];
    const void *inputs[] = {x, &s, n}, *lacking[] = {x, NULL, n};
    void *outputs[] = {y, m}, *short_of[] = {y, NULL};
    for (int target = HLOCC_INTERP; target <= HLOCC_CPU; target++) {
        assert_int_equal(hlocc_prepare(program, (enum hlocc_target)target, NULL), 0);
        assert_int_equal(hlocc_run(program, inputs, outputs, NULL), 0);
        assert_int_equal(hlocc_run(program, lacking, outputs, NULL), -1);
        assert_int_equal(hlocc_run(program, inputs, short_of, NULL), -1);
        assert_int_equal(hlocc_run(program, NULL, outputs, NULL), -1);
        assert_int_equal(hlocc_run(program, inputs, NULL, NULL), -1);
    }
    hlocc_free(program);
}

static void test_bad_options(void **state) {
    (void)state;
    struct hlocc_program *program = parse();
    struct hlocc_options options;
    hlocc_options_init(&options);
    expect_no_code(program, "1st", &options, "is no C name");
    expect_no_code(program, "exp", &options, "is taken");
    options.mcpu = "abacus";
    expect_no_code(program, "model", &options, "no x86_64 processor 'abacus'");
    assert_int_equal(hlocc_prepare_with(program, &options, NULL), -1);
    hlocc_options_init(&options);
    options.matmul_precision = "exact";
    expect_no_code(program, "model", &options, "no 'exact'");
    hlocc_options_init(&options);
    options.threads = -1;
    expect_no_code(program, "model", &options, "out of range");
    hlocc_options_init(&options);
    options.target = HLOCC_TPU;
    options.chip = "v99";
    assert_int_equal(hlocc_prepare_with(program, &options, NULL), -1);
    assert_int_equal(hlocc_run(program, NULL, NULL, NULL), -1);
    hlocc_free(program);
}

static void test_errors_are_values(void **state) {
    (void)state;
    static const char bad[] = "HloModule m\nENTRY e {\n  ROOT x = f32[2] add(y, y)\n}\n";
    char *messages;
    assert_null(hlocc_parse("bad.hlo", bad, strlen(bad), &messages));
    assert_non_null(messages);
    assert_non_null(strstr(messages, "bad.hlo:3:"));
    free(messages);
    assert_null(hlocc_parse("bad.hlo", bad, strlen(bad), NULL));
    struct hlocc_program *program = hlocc_parse("m.hlo", text, strlen(text), NULL);
    assert_int_equal(hlocc_run(program, NULL, NULL, &messages), -1); /* not prepared */
    assert_non_null(messages);
    free(messages);
    hlocc_free(program);
}

/* Every prefix of a program, and every program with one byte changed: an answer, never a crash. */
static void test_damaged_text(void **state) {
    (void)state;
    static const char bytes[] = "\0(){}[],=%\"/*\x80";
    for (size_t size = 0; size < sizeof text; size++) {
        char *exact = malloc(size ? size : 1);
        memcpy(exact, text, size);
        hlocc_free(hlocc_parse("prefix", exact, size, NULL));
        free(exact);
    }
    char *copy = strdup(text);
    for (size_t at = 0; copy[at]; at++) {
        char saved = copy[at];
        for (size_t i = 0; i < sizeof bytes - 1; i++) {
            copy[at] = bytes[i];
            hlocc_free(hlocc_parse("damaged", copy, sizeof text - 1, NULL));
        }
        copy[at] = saved;
    }
    free(copy);
}

static int triple(const struct hlocc_custom_call *call) {
    float x = *(const float *)call->inputs[0].data;
    if (x < 0) strcpy(call->message, "below zero");
    *(float *)call->outputs[0].data = 3 * x;
    return x < 0;
}

static int never(const struct hlocc_custom_call *call) {
    (void)call;
    return 1;
}

/* The function that was registered last runs; its failure is a message. */
static void test_registered(void **state) {
    static const char program_text[] =
        "HloModule m\nENTRY e { x = f32[] parameter(0)\n"
        "  ROOT y = f32[] custom-call(x), custom_call_target=\"triple\" }\n";
    (void)state;
    char *messages;
    struct hlocc_program *program = hlocc_parse("m.hlo", program_text, strlen(program_text), NULL);
    assert_non_null(program);
    assert_int_equal(hlocc_prepare(program, HLOCC_CPU, &messages), -1);
    assert_non_null(strstr(messages, "triple"));
    free(messages);
    assert_int_equal(hlocc_register(program, "triple", never), 0);
    assert_int_equal(hlocc_register(program, "triple", triple), 0);
    assert_int_equal(hlocc_prepare(program, HLOCC_CPU, NULL), 0);
    float x = 5, y = 0;
    const void *inputs[] = {&x};
    void *outputs[] = {&y};
    assert_int_equal(hlocc_run(program, inputs, outputs, NULL), 0);
    assert_true(y == 15);
    x = -1;
    assert_int_equal(hlocc_run(program, inputs, outputs, &messages), -1);
    assert_non_null(strstr(messages, "a custom call failed: below zero"));
    free(messages);
    hlocc_free(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_compiles_at_once),
        cmocka_unit_test(test_runs_at_once),
        cmocka_unit_test(test_compiles),
        cmocka_unit_test(test_null_arrays),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_errors_are_values),
        cmocka_unit_test(test_damaged_text),
        cmocka_unit_test(test_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
