#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/operand_parts.h"
#include "ir/parse.h"

/* The fusion that is the entry's root, asked for with all operands but those of `fixed`. */
static const struct hlo_instr *parts_of(struct hlo_module *module, struct arena *arena, int fixed,
                                        int64_t *offset) {
    const struct hlo_instr *fusion = module->entry->root;
    bool may_move[4];
    for (int i = 0; i < 4; i++)
        may_move[i] = i != fixed;
    return operand_parts(arena, fusion, may_move, offset);
}

static struct hlo_module *parse(const char *text) {
    struct diag diag;
    diag_init(&diag, "test", text, strlen(text));
    struct hlo_module *module = hlo_parse(&diag);
    assert_non_null(module);
    diag_clear(&diag);
    return module;
}

static const char two_slices[] =
    "f { p = f32[1,10,4] parameter(0) q = f32[2,4] parameter(1)\n"
    "  a = f32[1,2,4] slice(p), slice={[0:1], [3:5], [0:4]}\n"
    "  b = f32[1,2,4] slice(p), slice={[0:1], [4:8:2], [0:4]}\n"
    "  s = f32[1,2,4] add(a, b) r = f32[2,4] reshape(s) ROOT m = f32[2,4] multiply(r, q) }\n"
    "ENTRY e { p = f32[1,10,4] parameter(0) q = f32[2,4] parameter(1)\n"
    "  ROOT f = f32[2,4] fusion(p, q), kind=kLoop, calls=f }";

/* From the first place that any slice reads to the last: 3 to 6, of 16 bytes each. */
static void test_range(void **state) {
    (void)state;
    struct hlo_module *module = parse(two_slices);
    struct arena *arena = arena_new();
    int64_t offset[4];
    const struct hlo_instr *cut = parts_of(module, arena, -1, offset);
    assert_ptr_not_equal(cut, module->entry->root);
    assert_int_equal(offset[0], 3 * 16);
    assert_int_equal(offset[1], 0);
    const struct hlo_instr *p = cut->called[0]->parameters[0];
    assert_int_equal(p->shape->dims[1], 4);
    assert_ptr_equal(cut->operands[0]->shape, p->shape);
    assert_ptr_equal(cut->operands[1], module->entry->root->operands[1]);
    const struct hlo_instr *sum = cut->called[0]->root->operands[0]->operands[0];
    const struct slice_dim *a = instr_attr(sum->operands[0], ATTR_SLICE)->slices->v;
    const struct slice_dim *b = instr_attr(sum->operands[1], ATTR_SLICE)->slices->v;
    assert_true(a[1].start == 0 && a[1].limit == 2 && a[1].stride == 1);
    assert_true(b[1].start == 1 && b[1].limit == 4 && b[1].stride == 2);
    /* The module is what it was. */
    assert_int_equal(module->ncomputations, 2);
    assert_int_equal(module->entry->root->called[0]->parameters[0]->shape->dims[1], 10);
    arena_free(arena);
    module_free(module);
}

/* What may not move stays: nothing is left to do here. */
static void test_fixed(void **state) {
    (void)state;
    struct hlo_module *module = parse(two_slices);
    struct arena *arena = arena_new();
    int64_t offset[4];
    assert_ptr_equal(parts_of(module, arena, 0, offset), module->entry->root);
    arena_free(arena);
    module_free(module);
}

/* A slice of all that is left of the operand is the operand. */
static void test_whole(void **state) {
    (void)state;
    struct hlo_module *module =
        parse("f { p = s8[5,4] parameter(0) a = s8[1,4] slice(p), slice={[2:3], [0:4]}\n"
              "  ROOT n = s8[1,4] negate(a) }\n"
              "ENTRY e { p = s8[5,4] parameter(0)\n"
              "  ROOT f = s8[1,4] fusion(p), kind=kLoop, calls=f }");
    struct arena *arena = arena_new();
    int64_t offset[4];
    const struct hlo_instr *cut = parts_of(module, arena, -1, offset);
    assert_int_equal(offset[0], 8);
    assert_ptr_equal(cut->called[0]->root->operands[0], cut->called[0]->parameters[0]);
    assert_int_equal(cut->called[0]->count, 2);
    arena_free(arena);
    module_free(module);
}

/* Slices by themselves, two of which are equal then; the module's own keep their places. */
static void test_slice(void **state) {
    (void)state;
    struct hlo_module *module =
        parse("ENTRY e { p = s16[1,9,4] parameter(0)\n"
              "  ROOT s = s16[1,2,3] slice(p), slice={[0:1], [5:8:2], [1:4]} }");
    struct arena *arena = arena_new();
    int64_t offset[4];
    const struct hlo_instr *cut = parts_of(module, arena, -1, offset);
    const struct slice_dim *dims = instr_attr(cut, ATTR_SLICE)->slices->v;
    assert_int_equal(offset[0], 5 * 8);
    assert_int_equal(cut->operands[0]->shape->dims[1], 3);
    assert_true(dims[1].start == 0 && dims[1].limit == 3 && dims[1].stride == 2);
    assert_true(dims[2].start == 1 && dims[2].limit == 4);
    assert_int_equal(instr_attr(module->entry->root, ATTR_SLICE)->slices->v[1].start, 5);
    assert_ptr_equal(parts_of(module, arena, 0, offset), module->entry->root);
    arena_free(arena);
    module_free(module);
}

/* Operands that something else reads, slices of inner dimensions, and slices that are results. */
static void test_nothing(void **state) {
    (void)state;
    static const char *const programs[] = {
        "f { p = f32[5,4] parameter(0) a = f32[5,2] slice(p), slice={[0:5], [1:3]}\n"
        "  ROOT n = f32[5,2] negate(a) }\n"
        "ENTRY e { p = f32[5,4] parameter(0)\n"
        "  ROOT f = f32[5,2] fusion(p), kind=kLoop, calls=f }",
        "f { p = f32[5,4] parameter(0) a = f32[1,4] slice(p), slice={[1:2], [0:4]}\n"
        "  n = f32[1,4] negate(a) m = f32[5,4] negate(p)\n"
        "  ROOT t = (f32[1,4], f32[5,4]) tuple(n, m) }\n"
        "ENTRY e { p = f32[5,4] parameter(0)\n"
        "  ROOT f = (f32[1,4], f32[5,4]) fusion(p), kind=kLoop, calls=f }",
        "f { p = f32[5,4] parameter(0) a = f32[1,4] slice(p), slice={[1:2], [0:4]}\n"
        "  n = f32[1,4] negate(a) ROOT t = (f32[1,4], f32[1,4]) tuple(n, a) }\n"
        "ENTRY e { p = f32[5,4] parameter(0)\n"
        "  ROOT f = (f32[1,4], f32[1,4]) fusion(p), kind=kLoop, calls=f }",
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct hlo_module *module = parse(programs[i]);
        struct arena *arena = arena_new();
        int64_t offset[4];
        assert_ptr_equal(parts_of(module, arena, -1, offset), module->entry->root);
        arena_free(arena);
        module_free(module);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range), cmocka_unit_test(test_fixed),   cmocka_unit_test(test_whole),
        cmocka_unit_test(test_slice), cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
