#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
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

static void run_once(void) {
    char *messages;
    struct hlocc_program *program = hlocc_parse("m.hlo", text, strlen(text), &messages);
    assert_non_null(program);
    assert_null(messages);
    assert_int_equal(hlocc_input_count(program), 3);
    assert_int_equal(hlocc_output_count(program), 2);
    struct hlocc_array_type type = hlocc_input_type(program, 2);
    assert_string_equal(type.element_type, "s32");
    assert_int_equal(type.rank, 1);
    assert_int_equal(type.bytes, 12);
    assert_null(hlocc_output_type(program, 2).element_type);
    assert_int_equal(hlocc_prepare(program, HLOCC_INTERP, NULL), 0);
    float x[] = {1, 2, 3, 4}, s = 10, y[4];
    int32_t n[] = {7, 8, 9}, m[3];
    const void *inputs[] = {x, &s, n};
    void *outputs[] = {y, m};
    assert_int_equal(hlocc_run(program, inputs, outputs, &messages), 0);
    assert_memory_equal(m, n, sizeof n);
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == 10 * x[i]);
    hlocc_free(program);
}

static void test_runs(void **state) {
    (void)state;
    run_once();
}

static void *run_many(void *ignored) {
    (void)ignored;
    for (int i = 0; i < 50; i++)
        run_once();
    return NULL;
}

static void test_twice_at_once(void **state) {
    (void)state;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_many, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
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
        cmocka_unit_test(test_twice_at_once),
        cmocka_unit_test(test_errors_are_values),
        cmocka_unit_test(test_damaged_text),
        cmocka_unit_test(test_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
