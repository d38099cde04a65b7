/* Products whose second operand is packed once: the module computes the same, and packs where it
 * should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/prepack.h"
#include "ir/eval.h"
#include "ir/parse.h"
#include "ir/verify.h"

/* ---- programs ---- */

/* "{ {1,2,...}, ... }": small whole numbers. */
static void write_matrix(FILE *out, int rows, int columns) {
    fputs("{", out);
    for (int i = 0; i < rows; i++) {
        fputs(i ? ",{" : "{", out);
        for (int k = 0; k < columns; k++)
            fprintf(out, "%s%d", k ? "," : "", (i * 7 + k * 3) % 11 - 5);
        fputs("}", out);
    }
    fputs("}", out);
}

/* relu(x w), w [40, n] a constant. */
static void constant_weights(FILE *out, int n, int how) {
    (void)how;
    fprintf(out, "HloModule m\nENTRY e {\n x = f32[60,40] parameter(0)\n w = f32[40,%d] constant(",
            n);
    write_matrix(out, 40, n);
    fprintf(out,
            ")\n d = f32[60,%d] dot(x, w), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}\n"
            " z = f32[] constant(0)\n zs = f32[60,%d] broadcast(z), dimensions={}\n"
            " ROOT r = f32[60,%d] maximum(d, zs)\n}\n",
            n, n, n);
}

/* A window of 3 by 3, padded or not, and a bias. */
static void constant_kernel(FILE *out, int n, int padded) {
    int size = padded ? 9 : 7;
    fprintf(out,
            "HloModule m\nENTRY e {\n x = f32[2,9,9,20] parameter(0)\n"
            " b = f32[%d] parameter(1)\n k = f32[3,3,20,%d] constant({",
            n, n);
    for (int i = 0; i < 3; i++) {
        fputs(i ? ",{" : "{", out);
        for (int k = 0; k < 3; k++) {
            if (k) fputs(",", out);
            write_matrix(out, 20, n);
        }
        fputs("}", out);
    }
    fprintf(out,
            "})\n c = f32[2,%d,%d,%d] convolution(x, k), window={size=3x3%s}, "
            "dim_labels=b01f_01io->b01f\n"
            " bs = f32[2,%d,%d,%d] broadcast(b), dimensions={3}\n"
            " ROOT s = f32[2,%d,%d,%d] add(c, bs)\n}\n",
            size, size, n, padded ? " pad=1_1x1_1" : "", size, size, n, size, size, n);
}

/* Three times h = h w, w [n, n] transposed or not; in a loop of two trips around that. */
static void loops(FILE *out, int n, int transposed) {
    fprintf(out,
            "HloModule m\n"
            "inner {\n p = (s32[], f32[60,%d], f32[%d,%d]) parameter(0)\n"
            " i = s32[] get-tuple-element(p), index=0\n"
            " h = f32[60,%d] get-tuple-element(p), index=1\n"
            " w = f32[%d,%d] get-tuple-element(p), index=2\n"
            " o = s32[] constant(1)\n j = s32[] add(i, o)\n"
            " d = f32[60,%d] dot(h, w), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={%d}\n"
            " ROOT t = (s32[], f32[60,%d], f32[%d,%d]) tuple(j, d, w)\n}\n",
            n, n, n, n, n, n, n, transposed, n, n, n);
    for (int i = 0; i < 2; i++)
        fprintf(out,
                "less.%d {\n p = (s32[], f32[60,%d], f32[%d,%d]) parameter(0)\n"
                " i = s32[] get-tuple-element(p), index=0\n c = s32[] constant(3)\n"
                " ROOT l = pred[] compare(i, c), direction=LT\n}\n",
                i, n, n, n);
    fprintf(out,
            "outer {\n p = (s32[], f32[60,%d], f32[%d,%d]) parameter(0)\n"
            " i = s32[] get-tuple-element(p), index=0\n"
            " h = f32[60,%d] get-tuple-element(p), index=1\n"
            " w = f32[%d,%d] get-tuple-element(p), index=2\n"
            " z = s32[] constant(0)\n"
            " t = (s32[], f32[60,%d], f32[%d,%d]) tuple(z, h, w)\n"
            " l = (s32[], f32[60,%d], f32[%d,%d]) while(t), condition=less.0, body=inner\n"
            " g = f32[60,%d] get-tuple-element(l), index=1\n"
            " q = f32[] constant(0.0625)\n qs = f32[60,%d] broadcast(q), dimensions={}\n"
            " s = f32[60,%d] multiply(g, qs)\n"
            " o = s32[] constant(2)\n j = s32[] add(i, o)\n"
            " ROOT u = (s32[], f32[60,%d], f32[%d,%d]) tuple(j, s, w)\n}\n",
            n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
    fprintf(out,
            "ENTRY e {\n h = f32[60,%d] parameter(0)\n w = f32[%d,%d] parameter(1)\n"
            " z = s32[] constant(0)\n"
            " t = (s32[], f32[60,%d], f32[%d,%d]) tuple(z, h, w)\n"
            " l = (s32[], f32[60,%d], f32[%d,%d]) while(t), condition=less.1, body=outer\n"
            " ROOT g = f32[60,%d] get-tuple-element(l), index=1\n}\n",
            n, n, n, n, n, n, n, n, n, n);
}

/* ---- checks ---- */

static struct hlo_module *parse(const char *text, struct diag *diag) {
    diag_init(diag, "test", text, strlen(text));
    struct hlo_module *module = hlo_parse(diag);
    if (!module) diag_print(diag, stderr, false);
    assert_non_null(module);
    return module;
}

static struct literal *input(const struct shape *shape) {
    struct literal *literal = literal_new(shape);
    assert_non_null(literal);
    for (int64_t i = 0; i < shape->count; i++)
        literal_set_double(literal, i, (double)(i * 5 % 13 - 6) / 8);
    return literal;
}

static void same(const struct literal *got, const struct literal *want) {
    for (int64_t i = 0; i < want->shape->count; i++)
        assert_float_equal(literal_get_double(got, i), literal_get_double(want, i),
                           1e-4 * (1 + abs((int)literal_get_double(want, i))));
}

static int count_named(const struct hlo_computation *computation, const char *name) {
    int count = 0;
    for (const struct hlo_instr *i = computation->first; i; i = i->next)
        count += strncmp(i->name, name, strlen(name)) == 0;
    return count;
}

/* The shape of the largest constant that is used. */
static const struct shape *constant_shape(const struct hlo_computation *computation) {
    const struct shape *largest = NULL;
    for (const struct hlo_instr *i = computation->first; i; i = i->next)
        if (i->opcode == OP_CONSTANT && instr_has_users(i) &&
            (!largest || i->shape->bytes > largest->bytes))
            largest = i->shape;
    return largest;
}

static struct literal *run(struct hlo_module *module, struct literal *const *args,
                           struct diag *diag) {
    struct cpu_options options = {.opt_level = 2, .symbol = "entry", .max_threads = 2};
    struct cpu_code code;
    assert_true(cpu_compile(module, &options, CPU_OBJ, &code, diag));
    struct cpu_jit *jit = cpu_jit_new(&code, "entry", diag);
    assert_non_null(jit);
    struct literal *got = literal_new(module->entry->root->shape);
    void *workspace = aligned_alloc(64, (code.workspace_size / 64 + 1) * 64);
    const void *inputs[2] = {0};
    for (int i = 0; i < module->entry->nparameters; i++)
        inputs[i] = args[i]->data;
    assert_int_equal(cpu_jit_entry(jit)(inputs, (void *[]){got->data}, workspace), 0);
    free(workspace);
    cpu_jit_free(jit);
    cpu_code_free(&code);
    return got;
}

/* Where the packed operand stands afterwards: `packs` fusions in the entry, else a constant. */
static void check(const char *text, int packs) {
    static const struct cpu_target target = {.vector_bytes = 32,
                                             .vector_registers = 16,
                                             .fma = true,
                                             .l1 = 32 << 10,
                                             .l2 = 512 << 10,
                                             .l3 = 4 << 20};
    struct diag diag;
    struct eval_options options = {0};
    struct literal *args[2] = {NULL};
    struct hlo_module *module = parse(text, &diag), *native = parse(text, &diag);
    for (int i = 0; i < module->entry->nparameters; i++)
        args[i] = input(module->entry->parameters[i]->shape);
    struct literal *want = module_evaluate(module, args, &options, &diag);
    assert_non_null(want);
    const struct shape *as_written = constant_shape(module->entry);
    prepack_run(module, &target);
    bool ok = module_verify(module, &diag);
    diag_print(&diag, stderr, false);
    assert_true(ok);
    assert_int_equal(count_named(module->entry, "pack"), packs);
    assert_true((constant_shape(module->entry) != as_written) == (packs == 0));
    FOR_EACH_COMPUTATION(c, module)
    if (c != module->entry) assert_int_equal(count_named(c, "pack"), 0);
    struct literal *got = module_evaluate(module, args, &options, &diag);
    assert_non_null(got);
    same(got, want);
    literal_unref(got);
    got = run(native, args, &diag);
    same(got, want);
    literal_unref(got);
    literal_unref(want);
    literal_unref(args[0]);
    literal_unref(args[1]);
    module_free(module);
    module_free(native);
    diag_clear(&diag);
}

static char *text_of(void (*write)(FILE *, int, int), int n, int how) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    write(out, n, how);
    fclose(out);
    return text;
}

static void constants(void **state) {
    (void)state;
    static const int sizes[] = {64, 50, 100, 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text = text_of(constant_weights, sizes[i], 0);
        check(text, 0);
        free(text);
    }
}

static void kernels(void **state) {
    (void)state;
    static const int sizes[] = {64, 50, 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int padded = 0; padded < 2; padded++) {
            char *text = text_of(constant_kernel, sizes[i], padded);
            check(text, 0);
            free(text);
        }
}

static void invariants(void **state) {
    (void)state;
    static const int sizes[] = {64, 100, 50};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            char *text = text_of(loops, sizes[i], transposed);
            check(text, 1);
            free(text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(constants), cmocka_unit_test(kernels),
                                       cmocka_unit_test(invariants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
