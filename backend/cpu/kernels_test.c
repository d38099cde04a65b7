/* Each kind of kernel at sizes that do not fit its tiles, blocks and shares, against the evaluator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "ir/eval.h"
#include "ir/parse.h"
#include "passes/pass.h"

enum { MOST_ARGS = 4, MOST_LEAVES = 8 };

#define SUM "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"

static const char *const programs[] = {
    /* transposes: by themselves, and with more fused to them */
    "ENTRY e { p = f32[131,300] parameter(0) ROOT t = f32[300,131] transpose(p), dimensions={1,0} "
    "}",
    "ENTRY e { p = s64[5,37,41,3] parameter(0)\n"
    "  ROOT t = s64[41,5,3,37] transpose(p), dimensions={2,0,3,1} }",
    "ENTRY e { p = u8[2,600,2,50] parameter(0)\n"
    "  ROOT t = u8[50,2,2,600] transpose(p), dimensions={3,0,2,1} }",
    "ENTRY e { p = f32[3,70,300] parameter(0) q = f32[3,300,70] parameter(1)\n"
    "  r = f32[3,70,300] parameter(2)\n"
    "  t = f32[3,300,70] transpose(p), dimensions={0,2,1}\n"
    "  u = f32[3,300,70] transpose(r), dimensions={0,2,1}\n"
    "  a = f32[3,300,70] add(t, q) m = f32[3,300,70] multiply(a, u)\n"
    "  ROOT x = (f32[3,300,70], f32[3,300,70]) tuple(a, m) }",
    /* reductions: rows, columns in several blocks, middle dims, many results, parts */
    SUM "ENTRY e { p = f32[7,1030] parameter(0) z = f32[] constant(1)\n"
        "  ROOT r = f32[7] reduce(p, z), dimensions={1}, to_apply=s }",
    SUM "ENTRY e { p = f32[5,9,700] parameter(0) z = f32[] constant(0)\n"
        "  ROOT r = f32[5,700] reduce(p, z), dimensions={1}, to_apply=s }",
    SUM "ENTRY e { p = f32[6,7,8,9] parameter(0) z = f32[] constant(0)\n"
        "  ROOT r = f32[7,9] reduce(p, z), dimensions={2,0}, to_apply=s }",
    SUM "ENTRY e { p = f32[6,7,8,9] parameter(0) z = f32[] constant(0)\n"
        "  ROOT r = f32[7] reduce(p, z), dimensions={3,0,2}, to_apply=s }",
    SUM "ENTRY e { p = f32[512,1024] parameter(0) z = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(p, z), dimensions={0,1}, to_apply=s }",
    SUM "ENTRY e { p = f32[8192,40] parameter(0) z = f32[] constant(0)\n"
        "  ROOT r = f32[40] reduce(p, z), dimensions={0}, to_apply=s }",
    SUM "ENTRY e { p = f32[5,700,3] parameter(0) z = f32[] constant(0)\n"
        "  x = f32[5,700,3] multiply(p, p) a = f32[5,3] reduce(x, z), dimensions={1}, to_apply=s\n"
        "  b = f32[5,3] reduce(p, z), dimensions={1}, to_apply=s\n"
        "  ROOT t = (f32[5,3], f32[5,3]) tuple(a, b) }",
    /* a row with two stages and values kept between them */
    SUM "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
        "ENTRY e { p = f32[3,5,77] parameter(0) z = f32[] constant(0) i = f32[] constant(-inf)\n"
        "  h = f32[3,5] reduce(p, i), dimensions={2}, to_apply=m\n"
        "  hb = f32[3,5,77] broadcast(h), dimensions={0,1} d = f32[3,5,77] subtract(p, hb)\n"
        "  x = f32[3,5,77] exponential(d) w = f32[3,5] reduce(x, z), dimensions={2}, to_apply=s\n"
        "  sb = f32[3,5,77] broadcast(w), dimensions={0,1}\n"
        "  ROOT q = f32[3,5,77] divide(x, sb) }",
    /* rows of several dims, of which some values know one only; short last dims; complex sums */
    SUM "ENTRY e { p = f32[3,5,77] parameter(0) q = f32[5] parameter(1) z = f32[] constant(0)\n"
        "  c = f32[3,5,77] broadcast(q), dimensions={1} d = f32[3,5,77] multiply(p, c)\n"
        "  w = f32[3] reduce(d, z), dimensions={1,2}, to_apply=s\n"
        "  sb = f32[3,5,77] broadcast(w), dimensions={0}\n"
        "  ROOT a = f32[3,5,77] add(d, sb) }",
    SUM "ENTRY e { p = f32[40,33,5] parameter(0) q = f32[33] parameter(1) z = f32[] constant(2)\n"
        "  c = f32[40,33,5] broadcast(q), dimensions={1} d = f32[40,33,5] multiply(p, c)\n"
        "  ROOT w = f32[33] reduce(d, z), dimensions={2,0}, to_apply=s }",
    "s { a = c64[] parameter(0) b = c64[] parameter(1) ROOT r = c64[] add(a, b) }\n"
    "ENTRY e { p = c64[7,301] parameter(0) z = c64[] constant((1, -2))\n"
    "  a = c64[7] reduce(p, z), dimensions={1}, to_apply=s\n"
    "  b = c64[301] reduce(p, z), dimensions={0}, to_apply=s\n"
    "  ROOT t = (c64[7], c64[301]) tuple(a, b) }",
    /* dims that one loop goes over, with what knows all of them, some, or none */
    SUM "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
        "ENTRY e { p = f32[6,5,11,13] parameter(0) q = f32[11,13] parameter(1)\n"
        "  u = f32[5] parameter(2) v = f32[5,13] parameter(3)\n"
        "  z = f32[] constant(3) i = f32[] constant(-inf)\n"
        "  qb = f32[6,5,11,13] broadcast(q), dimensions={2,3}\n"
        "  ub = f32[6,5,11,13] broadcast(u), dimensions={1}\n"
        "  vb = f32[6,5,11,13] broadcast(v), dimensions={1,3}\n"
        "  a = f32[6,5,11,13] multiply(p, qb) b = f32[6,5,11,13] subtract(a, ub)\n"
        "  c = f32[6,5,11,13] add(b, vb)\n"
        "  x = f32[5] reduce(b, z), dimensions={0,2,3}, to_apply=s\n"
        "  y = f32[5] reduce(b, i), dimensions={3,2,0}, to_apply=m\n"
        "  w = f32[5] reduce(c, z), dimensions={0,2,3}, to_apply=s\n"
        "  ROOT t = (f32[5], f32[5], f32[5]) tuple(x, y, w) }",
    /* quotients by a constant, to the last bit */
    "ENTRY e { p = s16[5000] parameter(0) c = f32[] constant(3.7) d = f32[] constant(255)\n"
    "  x = f32[5000] convert(p) cb = f32[5000] broadcast(c), dimensions={}\n"
    "  db = f32[5000] broadcast(d), dimensions={} n = f32[5000] negate(x)\n"
    "  y = f32[5000] divide(n, cb) z = f32[5000] divide(x, db)\n"
    "  a = s32[5000] bitcast-convert(y) b = s32[5000] bitcast-convert(z)\n"
    "  ROOT t = (s32[5000], s32[5000]) tuple(a, b) }",
    /* kept dims as one; those a value knows apart; the last dim reduced with others before kept
       ones */
    SUM
    "ENTRY e { p = f32[3,9,41,20] parameter(0) q = f32[41,20] parameter(1) z = f32[] constant(2)\n"
    "  c = f32[3,9,41,20] broadcast(q), dimensions={2,3} d = f32[3,9,41,20] multiply(p, c)\n"
    "  a = f32[3,41,20] reduce(d, z), dimensions={1}, to_apply=s\n"
    "  b = f32[41,20] reduce(d, z), dimensions={0,1}, to_apply=s\n"
    "  ROOT t = (f32[3,41,20], f32[41,20]) tuple(a, b) }",
    SUM "ENTRY e { p = f32[3,9,41,20] parameter(0) q = f32[41] parameter(1) z = f32[] constant(0)\n"
        "  c = f32[3,9,41,20] broadcast(q), dimensions={2} d = f32[3,9,41,20] multiply(p, c)\n"
        "  ROOT a = f32[3,41,20] reduce(d, z), dimensions={1}, to_apply=s }",
    SUM "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
        "ENTRY e { p = f32[4,9,43,40] parameter(0) z = f32[] constant(0) i = f32[] constant(-inf)\n"
        "  a = f32[4,43] reduce(p, z), dimensions={1,3}, to_apply=s\n"
        "  b = f32[9,43] reduce(p, i), dimensions={0,3}, to_apply=m\n"
        "  c = f32[4,43] negate(a)\n"
        "  ROOT t = (f32[4,43], f32[9,43]) tuple(c, b) }",
    SUM "ENTRY e { p = f32[4,9,43,40] parameter(0) q = f32[43] parameter(1) z = f32[] constant(0)\n"
        "  c = f32[4,9,43,40] broadcast(q), dimensions={2} d = f32[4,9,43,40] multiply(p, c)\n"
        "  ROOT a = f32[9,43] reduce(d, z), dimensions={0,3}, to_apply=s }",
    SUM "ENTRY e { p = f32[6,5,43,4,10] parameter(0) z = f32[] constant(0)\n"
        "  d = f32[6,5,43,4,10] multiply(p, p)\n"
        "  ROOT a = f32[5,43] reduce(d, z), dimensions={0,3,4}, to_apply=s }",
    /* running sums both ways, along each dim; windows */
    SUM "ENTRY e { p = f32[6,300] parameter(0) z = f32[] constant(0)\n"
        "  a = f32[6,300] reduce-window(p, z), window={size=1x300 pad=0_0x299_0}, to_apply=s\n"
        "  b = f32[6,300] reduce-window(p, z), window={size=6x1 pad=0_5x0_0}, to_apply=s\n"
        "  ROOT t = (f32[6,300], f32[6,300]) tuple(a, b) }",
    SUM "ENTRY e { p = f32[2,9,11,270] parameter(0) z = f32[] constant(0)\n"
        "  ROOT a = f32[2,5,5,270] reduce-window(p, z),\n"
        "      window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x0_0x0_0}, to_apply=s }",
    /* convolutions: bands whose rows are no whole tiles, low tiles at their ends */
    "ENTRY e { p = f32[1,56,9,16] parameter(0) w = f32[3,3,16,16] parameter(1)\n"
    "  ROOT c = f32[1,56,9,16] convolution(p, w), window={size=3x3 pad=1_1x1_1},\n"
    "      dim_labels=b01f_01io->b01f }",
    "ENTRY e { p = f32[2,14,14,16] parameter(0) w = f32[3,3,16,20] parameter(1)\n"
    "  q = f32[2,14,14,20] parameter(2) b = f32[20] parameter(3)\n"
    "  c = f32[2,14,14,20] convolution(p, w), window={size=3x3 pad=1_1x1_1},\n"
    "      dim_labels=b01f_01io->b01f\n"
    "  bb = f32[2,14,14,20] broadcast(b), dimensions={3} d = f32[2,14,14,20] add(c, bb)\n"
    "  ROOT r = f32[2,14,14,20] add(d, q) }",
    /* windows along the last dim: short rows, padding, long windows, blocks, few channels */
    SUM "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
        "ENTRY e { p = f32[3,5,24,26] parameter(0) z = f32[] constant(0.5)\n"
        "  i = f32[] constant(-inf)\n"
        "  a = f32[3,5,12,13] reduce-window(p, i), window={size=1x1x2x2 stride=1x1x2x2},\n"
        "      to_apply=m\n"
        "  b = f32[3,5,12,13] reduce-window(p, z),\n"
        "      window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x0_1x1_0}, to_apply=s\n"
        "  c = f32[3,5,22,27] reduce-window(p, z),\n"
        "      window={size=1x1x5x5 pad=0_0x0_0x1_1x3_2 rhs_reversal=0x0x1x1}, to_apply=s\n"
        "  ROOT t = (f32[3,5,12,13], f32[3,5,12,13], f32[3,5,22,27]) tuple(a, b, c) }",
    SUM "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
        "ENTRY e { p = f32[2,9001] parameter(0) z = f32[] constant(0) i = f32[] constant(-inf)\n"
        "  a = f32[2,8977] reduce-window(p, z), window={size=1x25}, to_apply=s\n"
        "  b = f32[2,9033] reduce-window(p, i), window={size=1x33 pad=0_0x40_24}, to_apply=m\n"
        "  c = f32[2,8984] reduce-window(p, z), window={size=1x18 rhs_dilate=1x2 pad=0_0x20_-3},\n"
        "      to_apply=s\n"
        "  d = f32[2,2248] reduce-window(p, z), window={size=1x23 stride=1x4 pad=0_0x11_-1},\n"
        "      to_apply=s\n"
        "  ROOT t = (f32[2,8977], f32[2,9033], f32[2,8984], f32[2,2248]) tuple(a, b, c, d) }",
    SUM "ENTRY e { p = f32[2,30,31,3] parameter(0)\n"
        "  z = f32[] constant(0)\n"
        "  a = f32[2,15,16,3] reduce-window(p, z),\n"
        "      window={size=1x2x2x1 stride=1x2x2x1 pad=0_0x0_0x0_1x0_0}, to_apply=s\n"
        "  c = f32[2,30,31,3] reduce-window(p, z),\n"
        "      window={size=1x1x17x1 pad=0_0x0_0x8_8x0_0}, to_apply=s\n"
        "  ROOT t = (f32[2,15,16,3], f32[2,30,31,3]) tuple(a, c) }",
    /* joins: more and fewer elements than parts, along each dim, of composed operands */
    "ENTRY e { p = f32[70,9] parameter(0) q = f32[3,9] parameter(1) r = f32[70,5] parameter(2)\n"
    "  n = f32[70,9] negate(p) a = f32[146,9] concatenate(p, q, q, n), dimensions={0}\n"
    "  b = f32[70,23] concatenate(n, r, p), dimensions={1}\n"
    "  ROOT t = (f32[146,9], f32[70,23]) tuple(a, b) }",
    /* an update in place and not, with starts out of range */
    "ENTRY e { p = f32[9,40] parameter(0) u = f32[2,7] parameter(1) i = s32[] constant(30)\n"
    "  j = s32[] constant(-3) d = f32[9,40] dynamic-update-slice(p, u, i, j)\n"
    "  n = f32[9,40] negate(p) ROOT t = (f32[9,40], f32[9,40]) tuple(d, n) }",
    /* Pads and tiles whose elements repeat along rows. */
    "HloModule periods\n"
    "ENTRY e {\n"
    "  p = f32[40,33] parameter(0)\n"
    "  q = f32[3,2000] parameter(1)\n"
    "  z = f32[] constant(1.5)\n"
    "  a = f32[81,100] pad(p, z), padding=1_1_1x0_3_2\n"
    "  b = f32[3,6001] pad(q, z), padding=0_0_0x0_3_2\n"
    "  b1 = f32[3,6001] negate(b)\n"
    "  c = f32[3,5998] pad(q, z), padding=0_0_0x0_0_2\n"
    "  d = f32[41,64] pad(p, z), padding=0_1_0x0_-1_1\n"
    "  t = f32[4,40,3,33] broadcast(p), dimensions={1,3}\n"
    "  t1 = f32[160,99] reshape(t)\n"
    "  v = f32[2,3,5,40] iota(), iota_dimension=3\n"
    "  v1 = f32[6,200] reshape(v)\n"
    "  v2 = f32[6,200] sine(v1)\n"
    "  ROOT r = (f32[81,100], f32[3,6001], f32[3,5998], f32[41,64], f32[160,99], f32[6,200]) "
    "tuple(a, b1, c, d, t1, v2)\n"
    "}\n",
    /* Rows side by side. */
    "HloModule short_rows\n"
    "max { x = f32[] parameter(0)\n"
    "  y = f32[] parameter(1)\n"
    "  ROOT m = f32[] maximum(x, y) }\n"
    "min { x = f32[] parameter(0)\n"
    "  y = f32[] parameter(1)\n"
    "  ROOT m = f32[] minimum(x, y) }\n"
    "sum { x = f32[] parameter(0)\n"
    "  y = f32[] parameter(1)\n"
    "  ROOT m = f32[] add(x, y) }\n"
    "pick { a = f32[] parameter(0)\n"
    "  i = s32[] parameter(1)\n"
    "  b = f32[] parameter(2)\n"
    "  j = s32[] parameter(3)\n"
    "  gt = pred[] compare(a, b), direction=GT\n"
    "  eq = pred[] compare(a, b), direction=EQ\n"
    "  lt = pred[] compare(i, j), direction=LT\n"
    "  both = pred[] and(eq, lt)\n"
    "  first = pred[] or(gt, both)\n"
    "  v = f32[] select(first, a, b)\n"
    "  k = s32[] select(first, i, j)\n"
    "  ROOT t = (f32[], s32[]) tuple(v, k) }\n"
    "ENTRY e { p = f32[133,10] parameter(0)\n"
    "  q = f32[70,31] parameter(1)\n"
    "  low = f32[] constant(-inf)\n"
    "  high = f32[] constant(inf)\n"
    "  zero = f32[] constant(0)\n"
    "  none = s32[] constant(0)\n"
    "  m = f32[133] reduce(p, low), dimensions={1}, to_apply=max\n"
    "  mb = f32[133,10] broadcast(m), dimensions={0}\n"
    "  d = f32[133,10] subtract(p, mb)\n"
    "  x = f32[133,10] exponential(d)\n"
    "  s = f32[133] reduce(x, zero), dimensions={1}, to_apply=sum\n"
    "  sb = f32[133,10] broadcast(s), dimensions={0}\n"
    "  y = f32[133,10] divide(x, sb)\n"
    "  n = f32[70] reduce(q, high), dimensions={1}, to_apply=min\n"
    "  c = s32[70,31] iota(), iota_dimension=1\n"
    "  w = (f32[70], s32[70]) reduce(q, c, low, none), dimensions={1}, to_apply=pick\n"
    "  k = s32[70] get-tuple-element(w), index=1\n"
    "  ROOT r = (f32[133,10], f32[133], f32[70], s32[70]) tuple(y, s, n, k) }\n",
    /* Results that go past the caches, whole lines and what is left of them. */
    "HloModule stream\n"
    "ENTRY e { p = f64[2064,2064] parameter(0)\n"
    "  ROOT r = f64[2064,2064] transpose(p), dimensions={1,0} }\n",
    "HloModule stream\n"
    "ENTRY e { p = f32[2064,4112] parameter(0)\n"
    "  b = f32[4112] parameter(1)\n"
    "  bb = f32[4112,2064] broadcast(b), dimensions={0}\n"
    "  t = f32[4112,2064] transpose(p), dimensions={1,0}\n"
    "  ROOT r = f32[4112,2064] add(t, bb) }\n",
    "HloModule stream\n"
    "ENTRY e { p = f32[8400123] parameter(0)\n"
    "  q = f32[8400123] negate(p)\n"
    "  s = f32[8400123] multiply(p, p)\n"
    "  ROOT r = (f32[8400123], f32[8400123]) tuple(q, s) }\n",
};

static struct literal *draw(const struct shape *shape, uint32_t *state) {
    struct literal *literal = literal_new(shape);
    for (int64_t i = 0; i < shape->count; i++) {
        *state = *state * 1664525u + 1013904223u;
        literal_set_double(literal, i, (double)(*state >> 20) / 512 - 4);
    }
    return literal;
}

static void compare(const struct literal *got, const struct literal *want) {
    if (shape_is_tuple(got->shape)) {
        for (int i = 0; i < got->shape->ntuple; i++)
            compare(got->elements[i], want->elements[i]);
        return;
    }
    for (int64_t i = 0; i < got->shape->count; i++) {
        double x = literal_get_double(got, i), y = literal_get_double(want, i);
        double size = y < 0 ? -y : y;
        assert_float_equal(x, y, 2e-6 * (size > 100 ? size : 100));
    }
}

static void run_native(struct hlo_module *module, struct literal *const *args, int threads,
                       struct literal *into) {
    struct diag diag;
    diag_init(&diag, "test", NULL, 0);
    struct pass_context context;
    pass_context_init(&context, &diag);
    int count;
    const enum pass_id *passes = pass_pipeline(PASS_TARGET_CPU, 2, &count);
    assert_true(pass_pipeline_run(&context, module, passes, count));
    struct cpu_options options = {.opt_level = 2, .symbol = "entry", .max_threads = threads};
    struct cpu_code code;
    bool ok = cpu_compile(module, &options, CPU_OBJ, &code, &diag);
    diag_print(&diag, stderr, false);
    assert_true(ok);
    struct cpu_jit *jit = cpu_jit_new(&code, "entry", &diag);
    assert_non_null(jit);
    void *workspace = aligned_alloc(64, code.workspace_size + 64 - code.workspace_size % 64);
    const void *inputs[MOST_ARGS] = {0};
    void *outputs[MOST_LEAVES] = {into->data};
    for (int i = 0; i < module->entry->nparameters; i++)
        inputs[i] = args[i]->data;
    for (int i = 0; shape_is_tuple(into->shape) && i < into->shape->ntuple; i++)
        outputs[i] = into->elements[i]->data;
    assert_int_equal(cpu_jit_entry(jit)(inputs, outputs, workspace), 0);
    free(workspace);
    free(code.data);
    cpu_jit_free(jit);
    diag_clear(&diag);
}

static void check_program(const char *text) {
    uint32_t state = 7;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct diag diag;
        diag_init(&diag, "test", text, strlen(text));
        struct hlo_module *module = hlo_parse(&diag);
        diag_print(&diag, stderr, false);
        assert_non_null(module);
        struct literal *args[MOST_ARGS] = {0};
        for (int i = 0; i < module->entry->nparameters; i++)
            args[i] = draw(module->entry->parameters[i]->shape, &state);
        struct eval_options options = {0};
        struct literal *want = module_evaluate(module, args, &options, &diag);
        assert_non_null(want);
        struct literal *got = literal_new(want->shape);
        run_native(module, args, threads, got);
        compare(got, want);
        for (int i = 0; i < MOST_ARGS; i++)
            literal_unref(args[i]);
        literal_unref(want);
        literal_unref(got);
        module_free(module);
        diag_clear(&diag);
    }
}

static void kernels(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        check_program(programs[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
