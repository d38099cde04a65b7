/* Programs built by hand, compiled and run, against the evaluator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "ir/eval.h"
#include "ir/parse.h"

/* `largest`: of the program's objects but the first. */
static void agree(struct hlo_module *module, struct literal *const *args, bool in_parts,
                  size_t *largest) {
    struct diag diag;
    diag_init(&diag, "test", NULL, 0);
    struct eval_options eval = {0};
    struct literal *want = module_evaluate(module, args, &eval, &diag);
    assert_non_null(want);
    struct cpu_options options = {.opt_level = 2, .symbol = "entry", .in_parts = in_parts};
    struct cpu_code code;
    bool ok = cpu_compile(module, &options, CPU_OBJ, &code, &diag);
    diag_print(&diag, stderr, false);
    assert_true(ok);
    struct cpu_jit *jit = cpu_jit_new(&code, "entry", &diag);
    diag_print(&diag, stderr, false);
    assert_non_null(jit);
    struct literal *got = literal_new(module->entry->root->shape);
    void *workspace = aligned_alloc(64, code.workspace_size + 64);
    const void *inputs[4] = {0};
    for (int i = 0; i < module->entry->nparameters; i++)
        inputs[i] = args[i]->data;
    assert_int_equal(cpu_jit_entry(jit)(inputs, (void *[]){got->data}, workspace), 0);
    for (int64_t i = 0; i < got->shape->count; i++)
        assert_float_equal(literal_get_double(got, i), literal_get_double(want, i), 1e-4);
    *largest = 0;
    for (int i = 0; i < code.nmore; i++)
        if (code.more[i].size > *largest) *largest = code.more[i].size;
    free(workspace);
    cpu_code_free(&code);
    cpu_jit_free(jit);
    literal_unref(got);
    literal_unref(want);
    diag_clear(&diag);
}

static struct literal *ramp(const struct shape *shape) {
    struct literal *literal = literal_new(shape);
    for (int64_t i = 0; i < shape->count; i++)
        literal_set_double(literal, i, (double)(i % 7) * 0.25 - 0.5);
    return literal;
}

static const struct shape *f32(struct hlo_module *m, int rank, int64_t a, int64_t b) {
    return shape_array(m->shapes, TYPE_F32, rank, (int64_t[]){a, b});
}

/* reduce(tanh(dot(x, transpose(y))) + broadcast(z)) over the columns */
static void products_and_sums(void **state) {
    (void)state;
    struct hlo_module *m = module_new("m");
    struct hlo_computation *sum = computation_new(m, "sum", true);
    const struct shape *scalar = shape_scalar(m->shapes, TYPE_F32);
    struct hlo_instr *p = instr_new_parameter(sum, 0, scalar, "a");
    struct hlo_instr *q = instr_new_parameter(sum, 1, scalar, "b");
    computation_set_root(
        sum, instr_new(sum, NULL, OP_ADD, scalar, NULL, 2, (struct hlo_instr *[]){p, q}));
    computation_index_parameters(sum);
    struct hlo_computation *c = computation_new(m, "main", true);
    m->entry = c;
    struct hlo_instr *x = instr_new_parameter(c, 0, f32(m, 2, 5, 9), "x");
    struct hlo_instr *y = instr_new_parameter(c, 1, f32(m, 2, 4, 9), "y");
    struct hlo_instr *z = instr_new_parameter(c, 2, f32(m, 1, 4, 0), "z");
    struct hlo_instr *t = instr_new(c, NULL, OP_TRANSPOSE, f32(m, 2, 9, 4), NULL, 1, &y);
    instr_set_ints(t, ATTR_DIMENSIONS, 2, (int64_t[]){1, 0});
    struct hlo_instr *dot =
        instr_new(c, NULL, OP_DOT, f32(m, 2, 5, 4), NULL, 2, (struct hlo_instr *[]){x, t});
    instr_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, 1, (int64_t[]){1});
    instr_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, 1, (int64_t[]){0});
    struct hlo_instr *h = instr_new(c, NULL, OP_TANH, dot->shape, NULL, 1, &dot);
    struct hlo_instr *w = instr_new(c, NULL, OP_BROADCAST, dot->shape, NULL, 1, &z);
    instr_set_ints(w, ATTR_DIMENSIONS, 1, (int64_t[]){1});
    struct hlo_instr *s =
        instr_new(c, NULL, OP_ADD, dot->shape, NULL, 2, (struct hlo_instr *[]){h, w});
    struct literal *zero = literal_new(scalar);
    struct hlo_instr *init = instr_new_constant(c, NULL, zero);
    struct hlo_instr *r =
        instr_new(c, NULL, OP_REDUCE, f32(m, 1, 5, 0), NULL, 2, (struct hlo_instr *[]){s, init});
    instr_set_ints(r, ATTR_DIMENSIONS, 1, (int64_t[]){1});
    instr_set_called(r, 1, &sum);
    computation_set_root(c, r);
    computation_index_parameters(c);
    struct literal *args[] = {ramp(x->shape), ramp(y->shape), ramp(z->shape)};
    size_t largest;
    agree(m, args, false, &largest);
    agree(m, args, true, &largest);
    for (int i = 0; i < 3; i++)
        literal_unref(args[i]);
    module_free(m);
}

/* Kernels that read large constants, of which the first object alone has all. */
static void constants_in_parts(void **state) {
    (void)state;
    static const char *const operations[] = {"add", "atan2", "power", "subtract", "multiply"};
    enum { OPERATIONS = sizeof operations / sizeof *operations, COUNT = 8192 };
    char *text = NULL;
    size_t size = 0, largest;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int i = 0; i < OPERATIONS; i++) {
        fprintf(out, "f%d { p = f32[%d] parameter(0) c = f32[%d] constant({", i, COUNT, COUNT);
        for (int k = 0; k < COUNT; k++)
            fprintf(out, "%s%d.5", k ? "," : "", k % (5 + i));
        fprintf(out, "}) t = f32[%d] tanh(p) s = f32[%d] abs(t)\n", COUNT, COUNT);
        fprintf(out, " ROOT r = f32[%d] %s(s, c) }\n", COUNT, operations[i]);
    }
    fprintf(out, "ENTRY e { v0 = f32[%d] parameter(0)\n", COUNT);
    for (int i = 0; i < OPERATIONS; i++)
        fprintf(out, " %s v%d = f32[%d] fusion(v%d), kind=kLoop, calls=f%d\n",
                i + 1 == OPERATIONS ? "ROOT" : "", i + 1, COUNT, i, i);
    fputs("}\n", out);
    fclose(out);
    struct diag diag;
    diag_init(&diag, "test", text, size);
    struct hlo_module *module = hlo_parse(&diag);
    assert_non_null(module);
    struct literal *argument = ramp(module->entry->root->shape);
    agree(module, &argument, true, &largest);
    assert_in_range(largest, 0, COUNT * sizeof(float) - 1);
    literal_unref(argument);
    module_free(module);
    diag_clear(&diag);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_sums),
        cmocka_unit_test(constants_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
