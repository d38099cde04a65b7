/* Fused computations and the kernels that they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"
#include "passes/fusion_shape.h"

#define SUM                                                                                        \
    "HloModule m\n"                                                                                \
    "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"           \
    "ENTRY f {\n"                                                                                  \
    "  x = f32[4,8] parameter(0)  z = f32[] constant(0)\n"

/* The entry computation of the text, taken as a fused one; the levels, by name, in the order in
 * which the instructions stand: f(ree), F(ull), r(ow), u(pdate). */
static const struct {
    const char *text;
    enum fusion_shape shape;
    const char *levels;
} cases[] = {
    {SUM "n = f32[4,8] negate(x)  t = f32[8,4] transpose(n), dimensions={1,0}\n"
         "ROOT e = f32[8,4] exponential(t) }",
     FUSION_SHAPE_LOOP, "fffff"},
    {SUM "n = f32[4,8] negate(x)  e = f32[4,8] exponential(x)\n"
         "ROOT t = (f32[4,8], f32[4,8]) tuple(n, e) }",
     FUSION_SHAPE_LOOP, "ffff"},
    {SUM "n = f32[4,8] negate(x)  t = f32[8,4] transpose(x), dimensions={1,0}\n"
         "ROOT r = (f32[4,8], f32[8,4]) tuple(n, t) }",
     FUSION_SHAPE_NONE, NULL}, /* outputs of different dims */
    {SUM "n = f32[4,8] negate(x)  r = f32[8] reduce(n, z), dimensions={0}, to_apply=sum\n"
         "ROOT e = f32[8] exponential(r) }",
     FUSION_SHAPE_REDUCE, "fffrr"},
    {SUM "r = f32[8] reduce(x, z), dimensions={0}, to_apply=sum\n"
         "s = f32[4] reduce(x, z), dimensions={1}, to_apply=sum\n"
         "ROOT t = (f32[8], f32[4]) tuple(r, s) }",
     FUSION_SHAPE_NONE, NULL}, /* different reductions */
    {SUM "r = f32[4] reduce(x, z), dimensions={1}, to_apply=sum\n"
         "b = f32[4,8] broadcast(r), dimensions={0}  ROOT d = f32[4,8] divide(x, b) }",
     FUSION_SHAPE_ROWS, "ffrFF"},
    {SUM
     "r = f32[4] reduce(x, z), dimensions={1}, to_apply=sum  q = f32[4,1] reshape(r)\n"
     "h = f32[4,1] negate(q)  p = f32[4] reshape(h)  b = f32[4,8] broadcast(p), dimensions={0}\n"
     "d = f32[4,8] subtract(x, b)  e = f32[4,8] multiply(d, d)\n"
     "ROOT v = f32[4] reduce(e, z), dimensions={1}, to_apply=sum }",
     FUSION_SHAPE_ROWS, "ffrrrrFFFr"},
    {SUM "r = f32[8] reduce(x, z), dimensions={0}, to_apply=sum\n"
         "b = f32[4,8] broadcast(r), dimensions={1}  ROOT d = f32[4,8] divide(x, b) }",
     FUSION_SHAPE_NONE, NULL}, /* spread along what is no row */
    {SUM "y = f32[4,8] parameter(1)  c = f32[4] parameter(2)  yt = f32[8,4] transpose(y), "
         "dimensions={1,0}\n"
         "d = f32[4,4] dot(x, yt), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "b = f32[4,4] broadcast(c), dimensions={1}  a = f32[4,4] add(d, b)\n"
         "ROOT r = f32[16] reshape(a) }",
     FUSION_SHAPE_PRODUCT, "fffffFfFF"},
    {SUM "n = f32[4,8] negate(x)\n"
         "ROOT d = f32[4,4] dot(n, x), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
     FUSION_SHAPE_NONE, NULL}, /* an operand that is computed */
    {SUM "i = s32[] parameter(1)  v = f32[1,8] parameter(2)  k = s32[] constant(0)\n"
         "n = f32[1,8] negate(v)  ROOT u = f32[4,8] dynamic-update-slice(x, n, i, k) }",
     FUSION_SHAPE_UPDATE, "ffffffu"},
    {SUM "i = s32[] parameter(1)  k = s32[] constant(0)\n"
         "o = f32[1,8] dynamic-slice(x, i, k), dynamic_slice_sizes={1,8}  n = f32[1,8] negate(o)\n"
         "ROOT u = f32[4,8] dynamic-update-slice(x, n, i, k) }",
     FUSION_SHAPE_UPDATE, "ffffffu"},
    {SUM "i = s32[] parameter(1)  k = s32[] constant(0)\n"
         "o = f32[1,8] dynamic-slice(x, k, k), dynamic_slice_sizes={1,8}\n"
         "ROOT u = f32[4,8] dynamic-update-slice(x, o, i, k) }",
     FUSION_SHAPE_NONE, NULL}, /* reads what may be replaced elsewhere */
    {SUM "w = f32[4,8] reduce-window(x, z), window={size=1x3 pad=0_0x1_1}, to_apply=sum\n"
         "ROOT n = f32[4,8] negate(w) }",
     FUSION_SHAPE_NONE, NULL},
};

static char letter(enum fusion_level level) {
    return "fFru"[level];
}

static void check(const char *text, enum fusion_shape shape, const char *levels) {
    struct diag diag;
    struct arena *arena = arena_new();
    diag_init(&diag, "test", text, strlen(text));
    struct hlo_module *module = hlo_parse(&diag);
    if (!module) diag_print(&diag, stderr, false);
    assert_non_null(module);
    const struct fusion_info *info = fusion_analyse(arena, module->entry);
    if (info->shape != shape) print_message("%s\n", text);
    assert_string_equal(fusion_shape_name(info->shape), fusion_shape_name(shape));
    assert_int_equal(fusion_shape(module->entry), shape);
    int at = 0;
    for (const struct hlo_instr *i = module->entry->first; levels && i; i = i->next)
        if (i->opcode != OP_TUPLE) assert_int_equal(letter(fusion_level_of(info, i)), levels[at++]);
    if (levels) assert_int_equal(levels[at], 0);
    arena_free(arena);
    module_free(module);
    diag_clear(&diag);
}

static void test_shapes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].text, cases[i].shape, cases[i].levels);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
