/* Tables, modules, instructions, edges, attributes, diagnostics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo.h"

static int setup(void **state) {
    struct hlo_module *module = module_new("m");
    module->entry = computation_new(module, "main", true);
    *state = module;
    return 0;
}

static int teardown(void **state) {
    module_free(*state);
    return 0;
}

static const struct shape *scalar(struct hlo_module *module) {
    return shape_scalar(module->shapes, TYPE_F32);
}

static struct hlo_instr *unary(struct hlo_computation *c, enum hlo_opcode opcode,
                               struct hlo_instr *x) {
    return instr_new(c, NULL, opcode, x->shape, NULL, 1, &x);
}

static struct hlo_instr *parameter(struct hlo_computation *c, int64_t number) {
    return instr_new_parameter(c, number, scalar(c->module), "p");
}

/* ---- tables ---- */

static void test_opcodes(void **state) {
    (void)state;
    for (int i = OPCODE_INVALID + 1; i < OPCODE_COUNT; i++) {
        const char *name = opcode_name((enum hlo_opcode)i);
        assert_int_equal(opcode_from_name(name, strlen(name)), i);
        char longer[64];
        snprintf(longer, sizeof longer, "%sx", name);
        assert_int_equal(opcode_from_name(longer, strlen(name)), i);
        assert_int_equal(opcode_from_name(longer, strlen(longer)), OPCODE_INVALID);
        const struct opcode_info *info = opcode_info((enum hlo_opcode)i);
        assert_true(info->most_operands == -1 || info->least_operands <= info->most_operands);
    }
    assert_int_equal(opcode_from_name("", 0), OPCODE_INVALID);
    assert_int_equal(opcode_from_name("invalid", 7), OPCODE_INVALID);
    for (int i = ATTR_NONE + 1; i < ATTR_UNKNOWN; i++) {
        const char *name = attr_name((enum attr_key)i);
        assert_int_equal(attr_from_name(name, strlen(name)), i);
    }
    assert_int_equal(attr_from_name("dimension", 9), ATTR_NONE);
    assert_int_equal(attr_from_name("", 0), ATTR_NONE);
    assert_int_equal(opcode_takes_attr(OP_COMPARE, ATTR_DIRECTION), 2);
    assert_int_equal(opcode_takes_attr(OP_COMPARE, ATTR_COMPARE_TYPE), 1);
    assert_int_equal(opcode_takes_attr(OP_COMPARE, ATTR_WINDOW), 0);
    assert_int_equal(opcode_takes_attr(OP_ADD, ATTR_METADATA), 1);
}

static void test_words(void **state) {
    (void)state;
    int gt = enum_word_from_name(OP_COMPARE, ATTR_DIRECTION, "GT", 2);
    assert_int_equal(gt, ENUM_DIRECTION_GT);
    assert_string_equal(enum_word_name(gt), "GT");
    assert_int_equal(enum_word_from_name(OP_COMPARE, ATTR_DIRECTION, "XX", 2), -1);
    assert_int_equal(enum_word_from_name(OP_RNG_BIT_GENERATOR, ATTR_ALGORITHM, "rng_philox", 10),
                     ENUM_RNG_ALGORITHM_PHILOX);
    assert_int_equal(enum_word_from_name(OP_DOT, ATTR_ALGORITHM, "rng_philox", 10), -1);
    assert_int_equal(enum_word_from_name(OP_DOT, ATTR_ALGORITHM, "dot_f32_f32_f32", 15),
                     ENUM_DOT_ALGORITHM_F32_F32_F32);
    assert_int_equal(enum_precision_from_name("highest", 7), ENUM_PRECISION_HIGHEST);
    assert_int_equal(enum_precision_from_name("lowest", 6), -1);
}

/* ---- names ---- */

static void test_unique_names(void **state) {
    struct hlo_module *module = *state;
    assert_string_equal(module_unique_name(module, "add"), "add");
    const char *second = module_unique_name(module, "add");
    const char *third = module_unique_name(module, second);
    assert_string_not_equal(second, "add");
    assert_string_not_equal(second, third);
    assert_int_equal(strncmp(third, "add.", 4), 0);
    assert_null(strchr(third + 4, '.')); /* no add.1.1 */
    module_note_name(module, "taken");
    assert_string_not_equal(module_unique_name(module, "taken"), "taken");
    assert_string_equal(module_unique_name(module, "v1.2.3"), "v1.2.3");
    for (int i = 0; i < 200000; i++) /* would take minutes if it were quadratic */
        module_unique_name(module, "many");
}

/* ---- edges ---- */

static void test_edges(void **state) {
    struct hlo_module *module = *state;
    struct hlo_computation *c = module->entry;
    struct hlo_instr *x = parameter(c, 0), *y = parameter(c, 1);
    struct hlo_instr *sum =
        instr_new(c, NULL, OP_ADD, x->shape, "sum", 2, (struct hlo_instr *[]){x, x});
    computation_set_root(c, sum);
    assert_int_equal(instr_user_count(x), 2);
    assert_false(instr_has_users(y));
    instr_set_operand(sum, 1, y);
    assert_int_equal(instr_user_count(x), 1);
    assert_ptr_equal(y->users->user, sum);
    assert_int_equal(y->users->index, 1);
    instr_replace_uses(x, y);
    assert_false(instr_has_users(x));
    assert_int_equal(instr_user_count(y), 2);
    struct hlo_instr *copy = unary(c, OP_COPY, sum);
    instr_replace_uses(sum, copy); /* also the root; the copy keeps its operand */
    assert_ptr_equal(c->root, copy);
    assert_ptr_equal(copy->operands[0], sum);
    assert_int_equal(c->count, 4);
    instr_remove(x);
    assert_int_equal(c->count, 3);
    assert_ptr_equal(c->first, y);
    assert_true(computation_index_parameters(c) == false); /* number 0 is gone */
    y->parameter = 0;
    assert_true(computation_index_parameters(c));
    assert_int_equal(c->nparameters, 1);
    assert_ptr_equal(c->parameters[0], y);
}

static void test_order(void **state) {
    struct hlo_module *module = *state;
    struct hlo_computation *c = module->entry;
    struct hlo_instr *x = parameter(c, 0);
    struct hlo_instr *a = unary(c, OP_NEGATE, x), *b = unary(c, OP_ABS, x);
    struct hlo_instr *y = parameter(c, 1); /* stands before all that might use it */
    assert_ptr_equal(x->next, y);
    assert_ptr_equal(y->next, a);
    instr_move_before(b, a);
    assert_ptr_equal(y->next, b);
    assert_ptr_equal(b->next, a);
    assert_ptr_equal(c->last, a);
    instr_move_before(b, NULL);
    assert_ptr_equal(c->last, b);
    instr_move_before(b, b);
    int seen = 0;
    FOR_EACH_INSTR(instr, c) {
        seen++;
        if (instr != x && !instr_has_users(instr)) instr_remove(instr);
    }
    assert_int_equal(seen, 4);
    assert_int_equal(c->count, 1);
}

static void test_control_outlives_removal(void **state) {
    struct hlo_module *module = *state;
    struct hlo_computation *c = module->entry;
    struct hlo_instr *x = parameter(c, 0);
    struct hlo_instr *a = unary(c, OP_ABS, x), *b = unary(c, OP_ABS, x), *d = unary(c, OP_ABS, x);
    instr_add_control(b, a);
    instr_add_control(d, b);
    instr_remove(b);
    assert_int_equal(d->ncontrol, 1);
    assert_ptr_equal(d->control[0], a);
}

/* ---- attributes ---- */

static void test_attributes(void **state) {
    struct hlo_module *module = *state;
    struct hlo_computation *c = module->entry;
    struct hlo_instr *x = parameter(c, 0);
    struct hlo_instr *t = unary(c, OP_TRANSPOSE, x), *u = unary(c, OP_TRANSPOSE, x);
    assert_int_equal(instr_ints(t, ATTR_DIMENSIONS).count, 0);
    assert_null(instr_text(t, ATTR_CUSTOM_CALL_TARGET));
    assert_null(instr_window(t));
    assert_int_equal(instr_int(t, ATTR_INDEX, 42), 42);
    instr_set_ints(t, ATTR_DIMENSIONS, 2, (int64_t[]){1, 0});
    instr_set_ints(u, ATTR_DIMENSIONS, 2, (int64_t[]){1, 0});
    assert_true(attr_equal(instr_attr(t, ATTR_DIMENSIONS), instr_attr(u, ATTR_DIMENSIONS)));
    instr_set_ints(u, ATTR_DIMENSIONS, 2, (int64_t[]){0, 1});
    assert_int_equal(u->nattrs, 1);
    assert_false(attr_equal(instr_attr(t, ATTR_DIMENSIONS), instr_attr(u, ATTR_DIMENSIONS)));
    instr_set_int(t, ATTR_IS_STABLE, 1);
    assert_true(instr_bool(t, ATTR_IS_STABLE, false));
    instr_remove_attr(t, ATTR_DIMENSIONS);
    assert_null(instr_attr(t, ATTR_DIMENSIONS));
    assert_true(instr_bool(t, ATTR_IS_STABLE, false));
    instr_remove_attr(t, ATTR_WINDOW);
    struct hlo_attr a = {.key = ATTR_UNKNOWN, .name = "new_thing", .text = "1"};
    struct hlo_attr b = {.key = ATTR_UNKNOWN, .name = "other_thing", .text = "1"};
    instr_set_attr(t, &a);
    instr_set_attr(t, &b);
    assert_int_equal(t->nattrs, 3);
    assert_false(attr_equal(&a, &b));
}

/* ---- modules ---- */

static struct hlo_computation *negating(struct hlo_module *module, const char *name) {
    struct hlo_computation *c = computation_new(module, name, true);
    computation_set_root(c, unary(c, OP_NEGATE, parameter(c, 0)));
    computation_index_parameters(c);
    return c;
}

static void test_sort_computations(void **state) {
    struct hlo_module *module = *state;
    struct hlo_computation *entry = module->entry;
    struct hlo_computation *outer = negating(module, "outer"), *unused = negating(module, "unused");
    struct hlo_computation *inner = negating(module, "inner");
    struct hlo_instr *x = parameter(outer, 0);
    instr_set_called(unary(outer, OP_CALL, x), 1, &inner);
    struct hlo_instr *call = unary(entry, OP_CALL, parameter(entry, 0));
    instr_set_called(call, 1, &outer);
    computation_set_root(entry, call);
    module_sort_computations(module);
    assert_int_equal(module->ncomputations, 3);
    assert_ptr_equal(module->first, inner);
    assert_ptr_equal(inner->next, outer);
    assert_ptr_equal(module->last, entry);
    FOR_EACH_COMPUTATION(c, module)
    assert_ptr_not_equal(c, unused);
    assert_int_equal(module_instruction_count(module), 2 + 4 + 2);
}

static void test_sort_long_chain(void **state) {
    struct hlo_module *module = *state;
    struct hlo_computation *callee = negating(module, "f");
    for (int i = 0; i < 100000; i++) { /* recursion would run out of stack */
        struct hlo_computation *c = computation_new(module, "f", true);
        struct hlo_instr *call = unary(c, OP_CALL, parameter(c, 0));
        instr_set_called(call, 1, &callee);
        callee = c;
    }
    instr_set_called(unary(module->entry, OP_CALL, parameter(module->entry, 0)), 1, &callee);
    module_sort_computations(module);
    assert_int_equal(module->ncomputations, 100002);
}

static void test_clone(void **state) {
    (void)state;
    struct hlo_module *module = module_new("m");
    struct hlo_computation *entry = module->entry = computation_new(module, "main", false);
    struct hlo_computation *f = negating(module, "f");
    struct literal *seven = literal_new(scalar(module));
    literal_set_double(seven, 0, 7);
    struct hlo_instr *constant = instr_new_constant(entry, NULL, seven);
    struct hlo_instr *call = unary(entry, OP_CALL, constant);
    instr_set_called(call, 1, &f);
    struct hlo_instr *last = unary(entry, OP_NEGATE, call);
    instr_add_control(last, constant);
    struct literal *held = literal_new(scalar(module));
    module_own_literal(module, held);
    instr_set_attr(last, &(struct hlo_attr){.key = ATTR_LITERAL, .literal = held});
    computation_set_root(entry, last);

    struct hlo_module *copy = module_clone(module);
    module_free(module); /* the copy lives on */
    assert_int_equal(copy->ncomputations, 2);
    struct hlo_instr *root = copy->entry->root;
    assert_int_equal(root->opcode, OP_NEGATE);
    assert_int_equal(root->operands[0]->opcode, OP_CALL);
    assert_ptr_equal(root->operands[0]->called[0]->module, copy);
    assert_string_equal(root->operands[0]->called[0]->name, "f");
    assert_ptr_equal(root->control[0], root->operands[0]->operands[0]);
    assert_true(literal_get_double(root->control[0]->literal, 0) == 7);
    assert_true(literal_get_double(instr_attr(root, ATTR_LITERAL)->literal, 0) == 0);
    struct hlo_computation *again = computation_clone(copy->entry, "again");
    assert_int_equal(again->count, copy->entry->count);
    assert_ptr_equal(again->root->operands[0]->called[0], root->operands[0]->called[0]);
    struct hlo_module *second = module_clone(copy);
    module_free(copy);
    assert_int_equal(second->entry->root->opcode, OP_NEGATE);
    assert_true(literal_get_double(second->entry->root->control[0]->literal, 0) == 7);
    module_free(second);
}

/* ---- where things came from, and messages about them ---- */

static void test_source(void **state) {
    struct hlo_module *module = *state;
    struct hlo_instr *x = parameter(module->entry, 0);
    const char *file = NULL;
    int64_t line = 0;
    assert_false(instr_source(x, &file, &line));
    struct hlo_metadata metadata = {.source_file = "a.py", .source_line = 3};
    x->metadata = &metadata;
    assert_true(instr_source(x, &file, &line));
    assert_string_equal(file, "a.py");
    assert_int_equal(line, 3);
    struct hlo_metadata framed = {.stack_frame_id = 1};
    struct file_location location = {.file = 1, .line = 9};
    struct stack_frame frame = {.location = 1};
    const char *files[] = {"b.py"};
    struct stack_tables tables = {.nfiles = 1,
                                  .files = files,
                                  .nlocations = 1,
                                  .locations = &location,
                                  .nframes = 1,
                                  .frames = &frame};
    x->metadata = &framed;
    assert_false(instr_source(x, &file, &line));
    module->tables = &tables;
    assert_true(instr_source(x, &file, &line));
    assert_string_equal(file, "b.py");
    assert_int_equal(line, 9);
    frame.location = 2;
    assert_false(instr_source(x, &file, &line));
    frame.location = 1;
    framed.stack_frame_id = INT64_MIN;
    assert_false(instr_source(x, &file, &line));
}

/* Not inlined: gcc 12 takes the stream buffer of an inlined copy for a dangling one. */
static __attribute__((noinline)) char *rendered(const struct diag *diag) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    diag_print(diag, out, false);
    fclose(out);
    return text;
}

static void test_diagnostics(void **state) {
    struct hlo_module *module = *state;
    static const char source[] = "one\r\ttwo three\x1b[2J\r\nlast";
    struct diag diag;
    diag_init(&diag, "f.hlo", source, sizeof source - 1);
    diag_error(&diag, (struct src_loc){2, 6}, "no %s", "three");
    char *text = rendered(&diag);
    assert_string_equal(text, "f.hlo:2:6: error: no three\n"
                              "   two three\\x1b[2J\n"
                              "       ^\n");
    free(text);
    diag_clear(&diag);
    assert_int_equal(diag.errors, 0);
    diag_warning(&diag, (struct src_loc){3, 100}, "past\nthe end");
    diag_warning(&diag, (struct src_loc){30, 1}, "no such line");
    diag_warning(&diag, (struct src_loc){0, 0}, "nowhere");
    text = rendered(&diag);
    assert_string_equal(text, "f.hlo:3:100: warning: past the end\n"
                              "  last\n"
                              "      ^\n"
                              "f.hlo:30:1: warning: no such line\n"
                              "f.hlo: warning: nowhere\n");
    free(text);
    diag_clear(&diag);

    struct hlo_instr *x = parameter(module->entry, 0);
    struct hlo_metadata metadata = {
        .op_name = "jit(f)/add", .source_file = "a.py", .source_line = 3};
    x->metadata = &metadata;
    x->loc = (struct src_loc){1, 1};
    diag_instr_error(&diag, x, "is %d", 7);
    text = rendered(&diag);
    assert_string_equal(text, "f.hlo:1:1: error: p (parameter): is 7\n"
                              "  one\n"
                              "  ^\n"
                              "f.hlo:1:1: note: from jit(f)/add at a.py:3\n");
    free(text);
    for (int i = 0; i < 100; i++)
        diag_instr_error(&diag, x, "again");
    assert_int_equal(diag.errors, 101);
    assert_int_equal(diag.count, 2 * DIAG_MAX_ERRORS);
    diag_clear(&diag);
}

static void test_long_lines(void **state) {
    (void)state;
    char *source = malloc(100000);
    memset(source, 'x', 100000);
    struct diag diag;
    diag_init(&diag, "f", source, 100000);
    diag_error(&diag, (struct src_loc){1, 50000}, "here");
    char *text = rendered(&diag);
    assert_true(strlen(text) < 400);
    char *caret = strchr(text, '^'), *line = strchr(text, '\n') + 1;
    assert_non_null(caret);
    assert_int_equal(caret - (strchr(line, '\n') + 1), 2 + 3 + 60);
    free(text);
    diag_clear(&diag);
    free(source);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opcodes),
        cmocka_unit_test(test_words),
        CASE(test_unique_names),
        CASE(test_edges),
        CASE(test_order),
        CASE(test_control_outlives_removal),
        CASE(test_attributes),
        CASE(test_sort_computations),
        CASE(test_sort_long_chain),
        cmocka_unit_test(test_clone),
        CASE(test_source),
        CASE(test_diagnostics),
        cmocka_unit_test(test_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
