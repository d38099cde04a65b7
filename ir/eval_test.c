/* The evaluator: corners of the numerics, limits, and operands changed in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "ir/eval.h"

struct fixture {
    struct hlo_module *module;
    struct hlo_computation *computation;
    struct diag diag;
};

static void begin(struct fixture *f) {
    f->module = module_new("test");
    f->computation = computation_new(f->module, "entry", true);
    f->module->entry = f->computation;
    diag_init(&f->diag, "test", NULL, 0);
}

static void end(struct fixture *f) {
    diag_clear(&f->diag);
    module_free(f->module);
}

static struct hlo_instr *parameter(struct fixture *f, int64_t number, enum element_type type,
                                   int64_t count) {
    return instr_new_parameter(f->computation, number,
                               shape_array(f->module->shapes, type, 1, &count), "p");
}

/* op(a, b) on vectors, by doubles. */
static void run_binary(enum hlo_opcode opcode, enum element_type type, int n, const double *a,
                       const double *b, double *out) {
    struct fixture f;
    struct hlo_instr *operands[2];
    struct literal *args[2], *result;

    begin(&f);
    operands[0] = parameter(&f, 0, type, n);
    operands[1] = parameter(&f, 1, type, n);
    computation_set_root(f.computation, instr_new(f.computation, NULL, opcode, operands[0]->shape,
                                                  NULL, 2, operands));
    assert_true(computation_index_parameters(f.computation));
    args[0] = literal_new(operands[0]->shape);
    args[1] = literal_new(operands[1]->shape);
    for (int k = 0; k < n; k++) {
        literal_set_double(args[0], k, a[k]);
        literal_set_double(args[1], k, b[k]);
    }
    result = module_evaluate(f.module, args, NULL, &f.diag);
    assert_non_null(result);
    for (int k = 0; k < n; k++)
        out[k] = literal_get_double(result, k);
    literal_unref(result);
    literal_unref(args[0]);
    literal_unref(args[1]);
    end(&f);
}

static void test_integer_corners(void **state) {
    const double a[] = {7, -2147483648.0, 5, -2147483648.0}, b[] = {0, -1, 0, -1};
    double out[4];

    (void)state;
    run_binary(OP_DIVIDE, TYPE_S32, 2, a, b, out);
    assert_true(out[0] == -1 && out[1] == -2147483648.0);
    run_binary(OP_REMAINDER, TYPE_S32, 2, a + 2, b + 2, out);
    assert_true(out[0] == 5 && out[1] == 0);
}

static void test_float_corners(void **state) {
    const double a[] = {-0.0, NAN, 1e-40}, b[] = {0.0, 1.0, 1e-40};
    double out[3];

    (void)state;
    run_binary(OP_MAXIMUM, TYPE_F32, 2, a, b, out);
    assert_true(out[0] == 0 && !signbit(out[0]) && isnan(out[1]));
    run_binary(OP_MINIMUM, TYPE_F32, 2, a, b, out);
    assert_true(signbit(out[0]) && isnan(out[1]));
    run_binary(OP_ADD, TYPE_F32, 3, a, b, out);
    assert_true(out[2] == 0);
}

static void test_limits(void **state) {
    struct eval_options few_bytes = {.max_bytes = 64}, few_steps = {.max_steps = 10};
    const struct eval_options *limits[] = {&few_bytes, &few_steps};
    struct fixture f;
    struct hlo_instr *p, *operands[2];
    struct literal *arg;

    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(&f);
        p = operands[0] = operands[1] = parameter(&f, 0, TYPE_F32, 1000);
        computation_set_root(f.computation,
                             instr_new(f.computation, NULL, OP_ADD, p->shape, NULL, 2, operands));
        assert_true(computation_index_parameters(f.computation));
        arg = literal_new(p->shape);
        assert_null(module_evaluate(f.module, &arg, limits[k], &f.diag));
        assert_int_equal(f.diag.errors, 1);
        assert_int_equal(arg->refs, 1);
        literal_unref(arg);
        end(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integer_corners),
        cmocka_unit_test(test_float_corners),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
