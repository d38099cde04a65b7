/* Runs programs instruction by instruction in the memory that buffer assignment gives them, where a
 * value overwritten too early shows as a wrong result. With file names as arguments: runs those. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/eval.h"
#include "ir/parse.h"
#include "passes/buffer_assignment.h"
#include "passes/buffer_packing.h"
#include "passes/dataflow.h"
#include "passes/pass.h"
#include "passes/util.h"

struct machine {
    struct arena *arena;
    struct diag *diag;
    const struct buffer_assignment *memory;
    char *workspace;
    char **inputs, **outputs;
    int64_t steps;
};

static char *place(struct machine *m, const struct hlo_instr *instr, int leaf) {
    const struct buffer *buffer = buffer_of(m->memory, instr, leaf);
    switch (buffer->kind) {
    case BUFFER_INPUT: return m->inputs[buffer->index];
    case BUFFER_OUTPUT: return m->outputs[buffer->index];
    case BUFFER_ARENA: return m->workspace + buffer->offset;
    case BUFFER_CONSTANT: return literal_leaf(buffer->instr->literal, buffer->index)->data;
    case BUFFER_NONE: break;
    }
    return NULL;
}

static struct literal *load(struct machine *m, const struct hlo_instr *instr,
                            const struct shape *shape, int leaf) {
    if (!shape_is_tuple(shape)) {
        struct literal *literal = literal_new(shape);
        char *from = place(m, instr, leaf);
        if (from && literal->size) memcpy(literal->data, from, literal->size);
        return literal;
    }
    struct literal **elements = arena_array(m->arena, (size_t)shape->ntuple + 1, sizeof *elements);
    for (int i = 0; i < shape->ntuple; i++) {
        elements[i] = load(m, instr, shape->tuple[i], leaf);
        leaf += shape->tuple[i]->nleaves;
    }
    return literal_new_tuple(shape, elements);
}

static void store(struct machine *m, const struct hlo_instr *instr, const struct literal *value) {
    for (int leaf = 0; leaf < instr->shape->nleaves; leaf++) {
        const struct literal *from = literal_leaf(value, leaf);
        char *to = place(m, instr, leaf);
        if (to && from->size) memcpy(to, from->data, from->size);
    }
}

static bool run(struct machine *m, const struct hlo_computation *computation);

static int64_t load_int(struct machine *m, const struct hlo_instr *instr) {
    struct literal *literal = load(m, instr, instr->shape, 0);
    int64_t value = literal_get_int(literal, 0);
    literal_unref(literal);
    return value;
}

static bool run_callees(struct machine *m, const struct hlo_instr *instr) {
    if (instr->opcode == OP_CALL) return run(m, instr->called[0]);
    if (instr->opcode == OP_CONDITIONAL) {
        int64_t index = load_int(m, instr->operands[0]);
        if (instr->operands[0]->shape->type == TYPE_PRED) index = !index;
        if (index < 0 || index >= instr->ncalled) index = instr->ncalled - 1;
        return run(m, instr->called[index]);
    }
    for (;;) {
        if (++m->steps > 2000) return false;
        if (!run(m, instr->called[0])) return false;
        if (!load_int(m, instr->called[0]->root)) return true;
        if (!run(m, instr->called[1])) return false;
    }
}

static bool run_instr(struct machine *m, const struct hlo_instr *instr) {
    if (instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT || instr_is_alias(instr))
        return true;
    if (instr_runs_callees(instr)) return run_callees(m, instr);
    struct literal **operands =
        arena_array(m->arena, (size_t)instr->noperands + 1, sizeof *operands);
    for (int i = 0; i < instr->noperands; i++)
        operands[i] = load(m, instr->operands[i], instr->operands[i]->shape, 0);
    struct literal *result = instr_evaluate(instr, operands, &(struct eval_options){0}, m->diag);
    for (int i = 0; i < instr->noperands; i++)
        literal_unref(operands[i]);
    /* What partitions would make local is the whole array to the evaluator: not for this memory. */
    bool fits = result && shape_compatible(result->shape, instr->shape);
    if (fits) store(m, instr, result);
    literal_unref(result);
    return fits;
}

static bool run(struct machine *m, const struct hlo_computation *computation) {
    for (const struct hlo_instr *i = computation->first; i; i = i->next)
        if (!run_instr(m, i)) return false;
    return true;
}

static struct literal *make_input(const struct shape *shape, uint64_t *state) {
    struct literal *literal = literal_new(shape);
    if (!shape_is_array(shape)) {
        for (int i = 0; i < (shape_is_tuple(shape) ? shape->ntuple : 0); i++) {
            literal_unref(literal->elements[i]);
            literal->elements[i] = make_input(shape->tuple[i], state);
        }
        return literal;
    }
    for (int64_t i = 0; i < shape->count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int64_t number = (int64_t)(*state >> 60);
        if (element_type_is_integral(shape->type) || shape->type == TYPE_PRED)
            literal_set_int(literal, i, shape->type == TYPE_PRED ? number & 1 : number & 7);
        else
            literal_set_double(literal, i, (double)number / 8 + 0.125);
    }
    return literal;
}

/* The arena's ranges that are alive together are apart. */
static void check_apart(const struct buffer_assignment *memory) {
    for (int i = 0; i < memory->nbuffers && memory->nbuffers < 5000; i++) {
        const struct buffer *a = &memory->buffers[i];
        for (int j = 0; j < i; j++) {
            const struct buffer *b = &memory->buffers[j];
            if (a->kind != BUFFER_ARENA || b->kind != BUFFER_ARENA || !a->size || !b->size)
                continue;
            if (a->end < b->start || b->end < a->start) continue;
            assert_true(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
        }
    }
}

/* Outputs that may be where an input is, are: the harder case. */
static void set_places(struct machine *m, const struct hlo_module *module,
                       struct literal *const *args, const struct shape **out_shapes, int nout) {
    const struct hlo_computation *entry = module->entry;
    int nin = 0;
    for (int i = 0; i < entry->nparameters; i++)
        nin += entry->parameters[i]->shape->nleaves;
    m->inputs = arena_array(m->arena, (size_t)nin + 1, sizeof *m->inputs);
    m->outputs = arena_array(m->arena, (size_t)nout + 1, sizeof *m->outputs);
    for (int i = 0, k = 0; i < entry->nparameters; i++)
        for (int leaf = 0; leaf < entry->parameters[i]->shape->nleaves; leaf++) {
            const struct literal *from = literal_leaf(args[i], leaf);
            m->inputs[k++] = from->size ? arena_copy(m->arena, from->data, from->size) : NULL;
        }
    for (int k = 0; k < nout; k++)
        m->outputs[k] = arena_alloc(m->arena, (size_t)out_shapes[k]->bytes + 1);
    for (int i = 0; i < module->aliases.count; i++) {
        const struct alias_entry *alias = &module->aliases.v[i];
        if (alias->output_index.count != 1 || alias->parameter_index.count != 0) continue;
        int first = 0;
        for (int p = 0; p < alias->parameter; p++)
            first += entry->parameters[p]->shape->nleaves;
        if (shape_is_tuple(entry->root->shape) &&
            entry->root->shape->ntuple == entry->root->shape->nleaves)
            m->outputs[alias->output_index.v[0]] = m->inputs[first];
    }
}

enum outcome { SAME, DIFFERENT, SKIPPED };

static enum outcome compare(struct arena *arena, struct hlo_module *module, struct diag *diag,
                            struct literal *const *args, const struct literal *want) {
    struct machine m = {.arena = arena, .diag = diag};
    m.memory = buffer_assign(arena, module, NULL, diag);
    assert_non_null(m.memory);
    check_apart(m.memory);
    assert_true(m.memory->arena_size >= m.memory->lower_bound);
    const struct hlo_instr *root = module->entry->root;
    const struct shape **leaves = shape_leaves(arena, root->shape);
    m.workspace = malloc((size_t)m.memory->arena_size + 1);
    memset(m.workspace, 0x5a, (size_t)m.memory->arena_size + 1);
    set_places(&m, module, args, leaves, root->shape->nleaves);
    enum outcome outcome = run(&m, module->entry) ? SAME : SKIPPED;
    for (int k = 0; outcome == SAME && k < root->shape->nleaves; k++) {
        const struct literal *leaf = literal_leaf(want, k);
        if (leaf->size && memcmp(leaf->data, m.outputs[k], leaf->size)) outcome = DIFFERENT;
    }
    free(m.workspace);
    return outcome;
}

/* Takes the module over. */
static enum outcome check_module(struct hlo_module *module, struct diag *diag, int level) {
    struct arena *arena = arena_new();
    int n = module->entry->nparameters, count;
    struct literal **args = arena_array(arena, (size_t)n + 1, sizeof *args);
    uint64_t state = 1;
    for (int i = 0; i < n; i++)
        args[i] = make_input(module->entry->parameters[i]->shape, &state);
    struct pass_context context;
    pass_context_init(&context, diag);
    context.verify = true;
    const enum pass_id *passes = pass_pipeline(PASS_TARGET_CPU, level, &count);
    if (level == 2)
        passes = pass_list_parse(arena, "fusion,flatten_call_graph,copy_insertion", &count, diag);
    enum outcome outcome = SKIPPED;
    struct eval_options options = {.max_steps = 50 * 1000 * 1000};
    struct literal *want = module_evaluate(module, args, &options, diag);
    if (want) {
        bool ok = pass_pipeline_run(&context, module, passes, count);
        if (!ok) diag_print(diag, stderr, false);
        assert_true(ok);
        outcome = compare(arena, module, diag, args, want);
    }
    for (int i = 0; i < n; i++)
        literal_unref(args[i]);
    literal_unref(want);
    module_free(module);
    arena_free(arena);
    return outcome;
}

static enum outcome check_text(const char *name, const char *text, size_t size, int level) {
    struct diag diag;
    diag_init(&diag, name, text, size);
    struct hlo_module *module = hlo_parse(&diag);
    enum outcome outcome = SKIPPED;
    if (module)
        outcome = check_module(module, &diag, level);
    else
        diag_print(&diag, stderr, false);
    if (outcome == DIFFERENT) printf("%s: different\n", name);
    diag_clear(&diag);
    return outcome;
}

static void check_same(const char *text) {
    assert_int_equal(check_text("test", text, strlen(text), 0), SAME);
}

#define CONDITION                                                                                  \
    "cond { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0\n"   \
    "  n = s32[] constant(5)  ROOT lt = pred[] compare(i, n), direction=LT }\n"

static void test_loop_swaps(void **state) {
    (void)state;
    check_same("HloModule m\n" CONDITION "body { p = (s32[], f32[4], f32[4]) parameter(0)\n"
               "  i = s32[] get-tuple-element(p), index=0\n"
               "  a = f32[4] get-tuple-element(p), index=1\n"
               "  b = f32[4] get-tuple-element(p), index=2\n"
               "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
               "  ROOT r = (s32[], f32[4], f32[4]) tuple(j, b, a) }\n"
               "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)\n"
               "  z = s32[] constant(0)  t = (s32[], f32[4], f32[4]) tuple(z, x, y)\n"
               "  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body }\n");
}

static void test_loop_fibonacci(void **state) {
    (void)state;
    check_same("HloModule m\n" CONDITION "body { p = (s32[], f32[4], f32[4]) parameter(0)\n"
               "  i = s32[] get-tuple-element(p), index=0\n"
               "  a = f32[4] get-tuple-element(p), index=1\n"
               "  b = f32[4] get-tuple-element(p), index=2\n"
               "  one = s32[] constant(1)  j = s32[] add(i, one)  c = f32[4] add(a, b)\n"
               "  ROOT r = (s32[], f32[4], f32[4]) tuple(j, b, c) }\n"
               "ENTRY e { x = f32[4] parameter(0)  z = s32[] constant(0)\n"
               "  t = (s32[], f32[4], f32[4]) tuple(z, x, x)\n"
               "  w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body\n"
               "  q = f32[4] get-tuple-element(w), index=2  s = f32[4] subtract(q, x)\n"
               "  ROOT o = (f32[4], f32[4], f32[4], f32[4]) tuple(s, q, q, x) }\n");
}

static void test_nested_loops(void **state) {
    (void)state;
    check_same("HloModule m\n" CONDITION "inner { p = (s32[], f32[4], f32[4]) parameter(0)\n"
               "  i = s32[] get-tuple-element(p), index=0\n"
               "  a = f32[4] get-tuple-element(p), index=1\n"
               "  b = f32[4] get-tuple-element(p), index=2\n"
               "  two = s32[] constant(2)  j = s32[] add(i, two)  c = f32[4] add(a, b)\n"
               "  ROOT r = (s32[], f32[4], f32[4]) tuple(j, c, b) }\n"
               "outer { p = (s32[], f32[4], f32[4]) parameter(0)\n"
               "  i = s32[] get-tuple-element(p), index=0\n"
               "  a = f32[4] get-tuple-element(p), index=1\n"
               "  b = f32[4] get-tuple-element(p), index=2\n"
               "  one = s32[] constant(1)  j = s32[] add(i, one)  z = s32[] constant(0)\n"
               "  t = (s32[], f32[4], f32[4]) tuple(z, a, b)\n"
               "  w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=inner\n"
               "  c = f32[4] get-tuple-element(w), index=1  d = f32[4] add(b, a)\n"
               "  ROOT r = (s32[], f32[4], f32[4]) tuple(j, d, c) }\n"
               "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)\n"
               "  z = s32[] constant(0)  n = f32[4] negate(x)\n"
               "  t = (s32[], f32[4], f32[4]) tuple(z, n, y)\n"
               "  w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=outer\n"
               "  v = (s32[], f32[4], f32[4]) while(t), condition=cond, body=outer\n"
               "  ROOT o = ((s32[], f32[4], f32[4]), (s32[], f32[4], f32[4])) tuple(w, v) }\n");
}

static void test_branches(void **state) {
    (void)state;
    check_same("HloModule m\n"
               "left { p = (f32[4], f32[4]) parameter(0)\n"
               "  a = f32[4] get-tuple-element(p), index=0  n = f32[4] negate(a)\n"
               "  ROOT r = (f32[4], f32[4]) tuple(a, n) }\n"
               "right { q = f32[4] parameter(0)  c = f32[4] constant({1, 2, 3, 4})\n"
               "  n = f32[4] add(q, c)\n  ROOT r = (f32[4], f32[4]) tuple(n, n) }\n"
               "ENTRY e { x = f32[4] parameter(0)  k = s32[] parameter(1)\n"
               "  y = f32[4] exponential(x)  t = (f32[4], f32[4]) tuple(y, x)\n"
               "  w = (f32[4], f32[4]) conditional(k, t, y, t), "
               "branch_computations={left, right, left}\n"
               "  a = f32[4] get-tuple-element(w), index=0\n"
               "  b = f32[4] get-tuple-element(w), index=1  s = f32[4] multiply(a, b)\n"
               "  ROOT o = f32[4] add(s, y) }\n");
}

static void test_aliased_swap(void **state) {
    (void)state;
    check_same("HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, "
               "may-alias) }\n"
               "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)\n"
               "  s = f32[4] add(x, y)  u = f32[4] subtract(s, x)  v = f32[4] negate(y)\n"
               "  d = f32[4] multiply(u, v)\n"
               "  ROOT o = (f32[4], f32[4], f32[4]) tuple(y, x, d) }\n");
}

static void test_packing(void **state) {
    (void)state;
    struct arena *arena = arena_new();
    struct pack_item items[4] = {{64, 0, 2, 0}, {128, 1, 1, 0}, {128, 3, 5, 0}, {64, 2, 4, 0}};
    int peak;
    int64_t bound = pack_lower_bound(arena, items, 4, 6, &peak);
    assert_int_equal(bound, 192);
    assert_int_equal(pack_items(arena, items, 4, bound), 192);
    arena_free(arena);
}

static int check_files(int count, char **paths) {
    int outcomes[3] = {0};
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(paths[i], "rb");
        if (!file) continue;
        fseek(file, 0, SEEK_END);
        size_t size = (size_t)ftell(file);
        rewind(file);
        char *text = malloc(size + 1);
        size = fread(text, 1, size, file);
        fclose(file);
        outcomes[check_text(paths[i], text, size, 0)]++;
        free(text);
    }
    printf("%d same, %d different, %d skipped\n", outcomes[0], outcomes[1], outcomes[2]);
    return outcomes[DIFFERENT] != 0;
}

/* ---- random programs ---- */

struct generator {
    struct hlo_module *module;
    const struct shape *array, *number;
    uint64_t state;
};

struct pool {
    struct hlo_computation *computation;
    struct hlo_instr *values[64], *index;
    int count;
};

static int draw(struct generator *g, int below) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((g->state >> 33) % (uint64_t)below);
}

static struct hlo_instr *pick(struct generator *g, struct pool *pool) {
    return pool->values[draw(g, pool->count)];
}

static struct hlo_instr *put(struct pool *pool, struct hlo_instr *value) {
    if (pool->count < 64) pool->values[pool->count++] = value;
    return value;
}

static struct hlo_instr *build(struct pool *pool, enum hlo_opcode opcode, const struct shape *shape,
                               int n, struct hlo_instr **operands) {
    return instr_new(pool->computation, NULL, opcode, shape, NULL, n, operands);
}

static struct hlo_instr *integer(struct generator *g, struct pool *pool, int value) {
    struct literal *literal = literal_new(g->number);
    literal_set_int(literal, 0, value);
    return instr_new_constant(pool->computation, NULL, literal);
}

static struct hlo_instr *pack_tuple(struct generator *g, struct pool *pool, struct hlo_instr *index,
                                    int n) {
    struct hlo_instr *parts[16];
    const struct shape *shapes[16];
    int count = 0;
    if (index) parts[count++] = index;
    for (int i = 0; i < n; i++)
        parts[count++] = pick(g, pool);
    for (int i = 0; i < count; i++)
        shapes[i] = parts[i]->shape;
    return build(pool, OP_TUPLE, shape_tuple(g->module->shapes, count, shapes), count, parts);
}

static struct hlo_instr *element(struct pool *pool, struct hlo_instr *tuple, int i) {
    struct hlo_instr *gte = build(pool, OP_GET_TUPLE_ELEMENT, tuple->shape->tuple[i], 1, &tuple);
    instr_set_int(gte, ATTR_INDEX, i);
    return gte;
}

static void grow(struct generator *g, struct pool *pool, int n, int depth);

static struct pool open_callee(struct generator *g, const struct shape *shape, bool has_index) {
    struct pool pool = {.computation = computation_new(g->module, "callee", true)};
    struct hlo_instr *p = instr_new_parameter(pool.computation, 0, shape, "p");
    computation_index_parameters(pool.computation);
    for (int i = 0; i < shape->ntuple; i++) {
        struct hlo_instr *e = element(&pool, p, i);
        if (i == 0 && has_index)
            pool.index = e;
        else
            put(&pool, e);
    }
    return pool;
}

static void grow_loop(struct generator *g, struct pool *pool, int depth) {
    int n = 1 + draw(g, 4);
    struct hlo_instr *init = pack_tuple(g, pool, integer(g, pool, 0), n);
    struct pool condition = open_callee(g, init->shape, true);
    struct pool body = open_callee(g, init->shape, true);
    struct hlo_instr *compared[2] = {condition.index, integer(g, &condition, draw(g, 4))};
    struct hlo_instr *less =
        build(&condition, OP_COMPARE, shape_scalar(g->module->shapes, TYPE_PRED), 2, compared);
    instr_set_attr(less, &(struct hlo_attr){.key = ATTR_DIRECTION, .i = ENUM_DIRECTION_LT});
    computation_set_root(condition.computation, less);
    grow(g, &body, draw(g, 5), depth + 1);
    struct hlo_instr *added[2] = {body.index, integer(g, &body, 1)};
    struct hlo_instr *next = build(&body, OP_ADD, g->number, 2, added);
    computation_set_root(body.computation, pack_tuple(g, &body, next, n));
    struct hlo_instr *loop = build(pool, OP_WHILE, init->shape, 1, &init);
    struct hlo_computation *called[2] = {condition.computation, body.computation};
    instr_set_called(loop, 2, called);
    for (int i = 1; i <= n; i++)
        if (draw(g, 2)) put(pool, element(pool, loop, i));
}

static void grow_branches(struct generator *g, struct pool *pool, int depth) {
    int n = 1 + draw(g, 3), branches = 1 + draw(g, 3);
    struct hlo_instr *operands[4] = {pool->index ? pool->index : integer(g, pool, draw(g, 3))};
    struct hlo_computation *called[3];
    const struct shape *shape = NULL;
    for (int i = 0; i < branches; i++) {
        operands[1 + i] = pack_tuple(g, pool, NULL, 1 + draw(g, 3));
        struct pool branch = open_callee(g, operands[1 + i]->shape, false);
        grow(g, &branch, draw(g, 4), depth + 1);
        struct hlo_instr *root = pack_tuple(g, &branch, NULL, n);
        computation_set_root(branch.computation, root);
        called[i] = branch.computation;
        shape = root->shape;
    }
    struct hlo_instr *chosen = build(pool, OP_CONDITIONAL, shape, 1 + branches, operands);
    instr_set_called(chosen, branches, called);
    for (int i = 0; i < n; i++)
        put(pool, element(pool, chosen, i));
}

static void grow(struct generator *g, struct pool *pool, int n, int depth) {
    for (int i = 0; i < n; i++) {
        struct hlo_instr *operands[2] = {pick(g, pool), pick(g, pool)};
        int kind = draw(g, depth < 3 ? 10 : 7);
        if (kind < 3)
            put(pool, build(pool, OP_SUBTRACT, g->array, 2, operands));
        else if (kind < 5)
            put(pool, build(pool, OP_NEGATE, g->array, 1, operands));
        else if (kind == 5) {
            int64_t zero = 0;
            instr_set_ints(put(pool, build(pool, OP_REVERSE, g->array, 1, operands)),
                           ATTR_DIMENSIONS, 1, &zero);
        } else if (kind == 6) {
            struct literal *literal = literal_new(g->array);
            literal_set_double(literal, 1, draw(g, 9));
            put(pool, instr_new_constant(pool->computation, NULL, literal));
        } else if (kind < 9)
            grow_loop(g, pool, depth);
        else
            grow_branches(g, pool, depth);
    }
}

static struct hlo_module *random_program(uint64_t seed) {
    struct generator g = {.module = module_new("random"), .state = seed};
    int64_t four = 4;
    g.array = shape_array(g.module->shapes, TYPE_F32, 1, &four);
    g.number = shape_scalar(g.module->shapes, TYPE_S32);
    struct pool pool = {.computation = computation_new(g.module, "main", true)};
    g.module->entry = pool.computation;
    for (int i = 0; i < 3; i++)
        put(&pool, instr_new_parameter(pool.computation, i, g.array, "x"));
    computation_index_parameters(pool.computation);
    grow(&g, &pool, 2 + draw(&g, 8), 0);
    computation_set_root(pool.computation, pack_tuple(&g, &pool, NULL, 3));
    int64_t *index = arena_array(g.module->arena, 3, sizeof *index);
    struct alias_entry *aliases = arena_array(g.module->arena, 3, sizeof *aliases);
    for (int i = 0; i < 3; i++) {
        index[i] = i;
        aliases[i].output_index = (struct int_list){1, &index[i]};
        aliases[i].parameter = (i + draw(&g, 2)) % 3;
    }
    int64_t a = aliases[0].parameter, b = aliases[1].parameter, c = aliases[2].parameter;
    if (a == b || b == c || a == c) return g.module;
    g.module->aliases = (struct alias_list){draw(&g, 4), aliases};
    return g.module;
}

static void test_random_programs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        for (int level = 0; level < 3; level++) {
            struct diag diag;
            diag_init(&diag, "random", NULL, 0);
            enum outcome outcome = check_module(random_program(seed), &diag, level);
            if (outcome != SAME) diag_print(&diag, stderr, false);
            if (outcome != SAME) print_message("seed %d level %d\n", (int)seed, level);
            diag_clear(&diag);
            assert_int_equal(outcome, SAME);
        }
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return check_files(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_swaps),      cmocka_unit_test(test_loop_fibonacci),
        cmocka_unit_test(test_nested_loops),    cmocka_unit_test(test_branches),
        cmocka_unit_test(test_aliased_swap),    cmocka_unit_test(test_packing),
        cmocka_unit_test(test_random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
