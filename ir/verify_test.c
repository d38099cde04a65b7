/* Shape rules and the verifier: programs that are wrong in one place, and what is said of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"
#include "ir/verify.h"

#define SUM "sum { l = f32[] parameter(0)\n r = f32[] parameter(1)\n ROOT x = f32[] add(l, r) }\n"
#define GE                                                                                         \
    "ge { l = f32[] parameter(0)\n r = f32[] parameter(1)\n"                                       \
    " ROOT x = pred[] compare(l, r), direction=GE }\n"

static bool says(const struct diag *diag, const char *fragment) {
    for (int i = 0; i < diag->count; i++)
        if (diag->messages[i].severity == DIAG_ERROR && strstr(diag->messages[i].text, fragment))
            return true;
    return false;
}

static void rejects(const char *text, const char *fragment) {
    struct diag diag;

    diag_init(&diag, "test.hlo", text, strlen(text));
    assert_null(hlo_parse(&diag));
    if (!says(&diag, fragment)) {
        diag_print(&diag, stderr, false);
        fail_msg("expected: %s", fragment);
    }
    diag_clear(&diag);
}

static void accepts(const char *text) {
    struct diag diag;
    struct hlo_module *module;

    diag_init(&diag, "test.hlo", text, strlen(text));
    module = hlo_parse(&diag);
    if (!module) diag_print(&diag, stderr, false);
    assert_non_null(module);
    module_free(module);
    diag_clear(&diag);
}

/* An entry with a = f32[2,3], b = f32[3,4], z = f32[], s = s8[3,3], i = s32[2,1], c = c64[4,8],
 * x = f32[1,8,8,2] and k = f32[3,3,2,4], and one more instruction. */
static const char *entry(const char *before, const char *last) {
    static char text[4096];

    snprintf(text, sizeof text,
             "HloModule m\n%sENTRY e { a = f32[2,3] parameter(0)\n b = f32[3,4] parameter(1)\n"
             " z = f32[] parameter(2)\n s = s8[3,3] parameter(3)\n i = s32[2,1] parameter(4)\n"
             " c = c64[4,8] parameter(5)\n x = f32[1,8,8,2] parameter(6)\n"
             " k = f32[3,3,2,4] parameter(7)\n ROOT r = %s }",
             before, last);
    return text;
}

static void test_structure(void **state) {
    (void)state;
    accepts(entry("", "f32[3,2] reshape(a)"));
    rejects(entry("", "f32[4,2] reshape(a)"), "f32[4,2] given for operand f32[2,3], an array of "
                                              "its type and 6 elements expected");
    rejects(entry("", "s32[3,2] reshape(a)"), "s32[3,2] given for operand f32[2,3]");
    rejects(entry("", "f32[4,3] broadcast(a), dimensions={0,1}"),
            "dimension 0 of the result has size 4, 2 expected");
    rejects(entry("", "f32[2,3,4] broadcast(a), dimensions={0}"),
            "1 dimensions given, 2 for operand f32[2,3] expected");
    rejects(entry("", "f32[5,3] concatenate(a, b), dimensions={0}"),
            "operand 1 has shape f32[3,4], f32[2,3] but for dimension 0 expected");
    rejects(entry("", "f32[2,3] concatenate(a, a), dimensions={2}"),
            "dimensions has dimension 2, one from 0 to 1 expected");
    rejects(entry("", "f32[3,2] negate(a)"),
            "the shape is written as f32[3,2], but the operands give f32[2,3]");
    rejects("ENTRY e { a = (f32[], s32[2]) parameter(0)\n"
            " ROOT r = f32[] get-tuple-element(a), index=2 }",
            "index=2 given, an element of a tuple of 2 expected");
    rejects(entry("", "f32[] get-tuple-element(z), index=0"), "a tuple expected");
}

static void test_gather(void **state) {
    (void)state;
    accepts(entry("", "f32[2,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, "
                      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"));
    rejects(entry("", "f32[2,4] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, "
                      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"),
            "slice size 4 given for dimension 1, 0 to 3 expected");
    rejects(entry("", "f32[2,4] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, "
                      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"),
            "the shape is written as f32[2,4], but the operands give f32[2,3]");
}

static void test_products(void **state) {
    (void)state;
    accepts(entry("", "s32[3,3] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}"));
    accepts(entry("", "bf16[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"));
    rejects(entry("", "f32[3,3] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
            "dimension 0 of f32[2,3] is paired with 1 of f32[3,4], expected equal sizes");
    rejects(entry("", "f32[2,4] dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
            "dimension 2 of an operand f32[2,3], expected distinct ones below 2");
    accepts(entry("", "u8[3,3] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}"));
    rejects(entry("", "s4[3,3] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            "element type s4 given for a product of s8 and s8, s8 or a wider one expected");
    rejects(entry("", "pred[3,3] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            "element type pred given for a product of s8 and s8");
    rejects(entry("", "s32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            "element type s32 given for a product of f32 and f32, f32 or a wider one expected");
}

static void test_convolution(void **state) {
    (void)state;
    accepts(entry("", "f32[1,6,6,4] convolution(x, k), window={size=3x3}, "
                      "dim_labels=b01f_01io->b01f"));
    rejects(entry("", "f32[1,8,8,4] convolution(x, k), window={size=3x3}, "
                      "dim_labels=b01f_01io->b01f"),
            "but the operands give f32[1,6,6,4]");
    rejects(entry("", "f32[1,6,6,4] convolution(x, k), window={size=3x2}, "
                      "dim_labels=b01f_01io->b01f"),
            "window dimension 1 has size 2, 3 expected");
    rejects(entry("", "f32[1,6,6,4] convolution(x, k), window={size=3x3}, feature_group_count=2, "
                      "dim_labels=b01f_01io->b01f"),
            "2 input features and kernel input features 2 given");
    rejects(entry("", "f32[1,6,6,4] convolution(x, a), window={size=3x3}, "
                      "dim_labels=b01f_01io->b01f"),
            "the kernel has shape f32[2,3], rank 4");
    rejects(entry("", "f32[1,6,6,4] convolution(x, k), window={size=3x3 stride=0x1}, "
                      "dim_labels=b01f_01io->b01f"),
            "has stride 0, 1 or more expected");
    rejects(entry("", "f32[1,6,6,4] convolution(x, k), window={size=3x3 "
                      "pad=9223372036854775807_1x0_0}, dim_labels=b01f_01io->b01f"),
            "padded sizes of 0 to 2^63 expected");
}

static void test_reductions(void **state) {
    (void)state;
    accepts(entry(SUM, "f32[2] reduce(a, z), dimensions={1}, to_apply=sum"));
    rejects(entry(SUM, "f32[3] reduce(a, z), dimensions={1}, to_apply=sum"),
            "but the operands give f32[2]");
    rejects(entry(SUM, "f32[2] reduce(a, z), dimensions={2}, to_apply=sum"),
            "dimensions has dimension 2, one from 0 to 1 expected");
    rejects(entry(SUM, "f32[2] reduce(a, i), dimensions={1}, to_apply=sum"),
            "the initial value has shape s32[2,1], f32[] expected");
    rejects(entry(GE, "pred[2] reduce(a, z), dimensions={1}, to_apply=ge"),
            "ge gives pred[], f32[] expected");
    rejects(entry(SUM, "f32[2,2] reduce-window(a, z), window={size=2}, to_apply=sum"),
            "window of 1 dimensions given, 2 expected");
    rejects(entry(SUM, "f32[2,2] reduce-window(a, z), window={size=1x2 "
                       "lhs_dilate=1x9223372036854775807}, to_apply=sum"),
            "padded sizes of 0 to 2^63 expected");
    rejects(entry(SUM GE, "f32[2,3] select-and-scatter(a, a, z), window={size=1x2}, select=ge, "
                          "scatter=sum"),
            "source has shape f32[2,3], f32[2,2] expected");
    rejects(entry(GE, "(f32[2,3], f32[3,4]) sort(a, b), dimensions={0}, to_apply=ge"),
            "operand 1 is f32[3,4], expected the sizes of f32[2,3]");
}

static void test_others(void **state) {
    (void)state;
    rejects(entry(SUM, "f32[3,2] map(a, a), dimensions={0,1}, to_apply=sum"),
            "but the operands give f32[2,3]");
    rejects(entry(SUM, "f32[2,3] map(a, a), dimensions={1,0}, to_apply=sum"),
            "dimensions has 1 at 0, 0 expected");
    rejects(entry("", "(f32[2,2], f32[2,2]) topk(a), k=2, largest=true"),
            "but the operands give (f32[2,2], s32[2,2])");
    rejects(entry("", "(f32[2,4], s32[2,4]) topk(a), k=4, largest=true"), "k=4 given");
    rejects(entry("", "c64[4,8] fft(c), fft_type=FFT, fft_length={4}"),
            "fft_length 4 given for dimension 1 of c64[4,8], size 4 expected");
    rejects(entry("", "f32[4,14] fft(a), fft_type=IRFFT, fft_length={14}"),
            "element type c64 or c128 expected for IRFFT");
    rejects(entry("", "f32[3,4] triangular-solve(a, b), left_side=true, lower=true"),
            "operand 0 is f32[2,3], square matrices");
    rejects(entry("", "(f32[2,3], f32[3], f32[3]) batch-norm-training(a, z, z), epsilon=0.1, "
                      "feature_index=1"),
            "operand 1 is f32[], f32[3] expected");
    rejects(entry("", "f32[4] rng(i, z), distribution=rng_uniform"),
            "operand 0 is s32[2,1], f32[] expected");
    rejects(entry("", "(s32[2,1], f32[4]) rng-bit-generator(a), algorithm=rng_philox"),
            "the state is f32[2,3], an array of integers expected");
}

#define STEP(size)                                                                                 \
    "step { l = f32[3] parameter(0)\n c = f32[] parameter(1)\n"                                    \
    " o = f32[" size "] iota()\n"                                                                  \
    " ROOT t = (f32[" size "], f32[]) tuple(o, c) }\n"

static void test_scan(void **state) {
    (void)state;
    accepts(entry(STEP("3"), "(f32[2,3], f32[]) scan(a, z), dimensions={0}, num_carries=1, "
                             "to_apply=step"));
    accepts(entry(STEP("1"), "(f32[2], f32[]) scan(a, z), dimensions={0}, num_carries=1, "
                             "to_apply=step"));
    rejects(entry(STEP("3"), "(f32[3], f32[]) scan(a, z), dimensions={0}, num_carries=1, "
                             "to_apply=step"),
            "but the operands give (f32[2,3], f32[])");
    rejects(entry(STEP("2"), "(f32[3,2], f32[]) scan(a, z), dimensions={1}, num_carries=1, "
                             "to_apply=step"),
            "parameter 0 of step has shape f32[3], f32[2] expected");
    rejects(entry(STEP("3"), "(f32[2,3], f32[]) scan(a, z), dimensions={0}, num_carries=2, "
                             "to_apply=step"),
            "num_carries=2 given for 2 operands");
}

static void test_control(void **state) {
    (void)state;
    rejects("test { t = f32[2] parameter(0)\n ROOT r = pred[] constant(true) }\n"
            "body { u = f32[2] parameter(0)\n ROOT r = f32[4] concatenate(u, u), dimensions={0} }\n"
            "ENTRY e { a = f32[2] parameter(0)\n"
            " ROOT r = f32[2] while(a), condition=test, body=body }",
            "the body gives f32[4], the operand's shape f32[2] expected");
    rejects("test { t = f32[3] parameter(0)\n ROOT r = pred[] constant(true) }\n"
            "body { ROOT u = f32[2] parameter(0) }\n"
            "ENTRY e { a = f32[2] parameter(0)\n"
            " ROOT r = f32[2] while(a), condition=test, body=body }",
            "parameter 0 of test has shape f32[3], f32[2] expected");
    rejects("ENTRY e { a = f32[2] parameter(0)\n b = f32[2] parameter(2)\n"
            " ROOT r = f32[2] add(a, b) }",
            "parameter number 2 leaves a gap");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure),  cmocka_unit_test(test_gather),
        cmocka_unit_test(test_products),   cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_reductions), cmocka_unit_test(test_others),
        cmocka_unit_test(test_scan),       cmocka_unit_test(test_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
