/* Random programs for tests. Values are small integers held in f32, with some NaN, infinities and
 * zeros of both signs among the inputs: sums and products of them are exact in any order, so that
 * what a pass changes shows in the bits. */
#ifndef PASSES_RANDOM_PROGRAM_H
#define PASSES_RANDOM_PROGRAM_H

#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "ir/hlo.h"
#include "ir/print.h"

enum { RANDOM_POOL = 48, RANDOM_DEPTH = 2, RANDOM_INPUTS = 4 };

struct random_source {
    struct hlo_module *module;
    uint64_t state;
    struct hlo_computation *sum, *most, *less, *set;
};

/* What may be used in a computation. */
struct random_pool {
    struct random_source *g;
    struct hlo_computation *computation;
    struct hlo_instr *values[RANDOM_POOL], *index;
    int count;
};

static inline int random_draw(struct random_source *g, int below) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((g->state >> 33) % (uint64_t)below);
}

static inline const struct shape *random_dims(struct random_source *g, enum element_type type,
                                              int rank, const int64_t *dims) {
    return shape_with_default_layouts(g->module->shapes,
                                      shape_array(g->module->shapes, type, rank, dims));
}

static inline const struct shape *random_scalar(struct random_source *g, enum element_type type) {
    return random_dims(g, type, 0, NULL);
}

static inline struct hlo_instr *random_pick(struct random_pool *p) {
    return p->values[random_draw(p->g, p->count)];
}

static inline struct hlo_instr *random_put(struct random_pool *p, struct hlo_instr *value) {
    if (p->count < RANDOM_POOL) return p->values[p->count++] = value;
    return p->values[random_draw(p->g, RANDOM_POOL)] = value;
}

static inline struct hlo_instr *random_build(struct random_pool *p, enum hlo_opcode opcode,
                                             const struct shape *shape, int n,
                                             struct hlo_instr *const *operands) {
    return instr_new(p->computation, NULL, opcode, shape, NULL, n, operands);
}

static inline struct hlo_instr *random_number(struct random_pool *p, enum element_type type,
                                              int value) {
    struct literal *literal = literal_new(random_scalar(p->g, type));
    if (type == TYPE_F32)
        literal_set_double(literal, 0, value);
    else
        literal_set_int(literal, 0, value);
    return instr_new_constant(p->computation, NULL, literal);
}

static inline struct hlo_instr *random_spread(struct random_pool *p, struct hlo_instr *from,
                                              const struct shape *to, int n, const int64_t *dims) {
    struct hlo_instr *result = random_build(p, OP_BROADCAST, to, 1, &from);
    instr_set_ints(result, ATTR_DIMENSIONS, n, dims);
    return result;
}

/* Keeps numbers small. */
static inline struct hlo_instr *random_clamp(struct random_pool *p, struct hlo_instr *x) {
    struct hlo_instr *low = random_number(p, TYPE_F32, -8), *high = random_number(p, TYPE_F32, 8);
    if (x->shape->rank > 0) {
        low = random_spread(p, low, x->shape, 0, NULL);
        high = random_spread(p, high, x->shape, 0, NULL);
    }
    struct hlo_instr *operands[3] = {low, x, high};
    return random_build(p, OP_CLAMP, x->shape, 3, operands);
}

/* A value of that shape, made from x by what it takes. */
static inline struct hlo_instr *random_fit(struct random_pool *p, struct hlo_instr *x,
                                           const struct shape *shape) {
    if (x->shape == shape) return x;
    if (x->shape->count == shape->count) return random_build(p, OP_RESHAPE, shape, 1, &x);
    int64_t dims[SHAPE_MAX_RANK];
    if (x->shape->rank == 1 && shape->rank == 2)
        for (int64_t d = 0; d < 2; d++)
            if (shape->dims[d] == x->shape->dims[0]) return random_spread(p, x, shape, 1, &d);
    if (x->shape->rank == 0) return random_spread(p, x, shape, 0, NULL);
    for (int i = 0; i < x->shape->rank; i++)
        dims[i] = i;
    struct hlo_instr *operands[2] = {x, random_number(p, TYPE_F32, 0)};
    struct hlo_instr *sum = random_build(p, OP_REDUCE, random_scalar(p->g, TYPE_F32), 2, operands);
    instr_set_ints(sum, ATTR_DIMENSIONS, x->shape->rank, dims);
    instr_set_called(sum, 1, &p->g->sum);
    sum = random_clamp(p, sum);
    return shape->rank == 0 ? sum : random_spread(p, sum, shape, 0, NULL);
}

/* ---- one operation each; x is any value ---- */

static inline struct hlo_instr *random_unary(struct random_pool *p, struct hlo_instr *x) {
    static const enum hlo_opcode ops[] = {OP_NEGATE, OP_ABS, OP_SIGN, OP_FLOOR, OP_COPY};
    return random_build(p, ops[random_draw(p->g, 5)], x->shape, 1, &x);
}

static inline struct hlo_instr *random_binary(struct random_pool *p, struct hlo_instr *x) {
    static const enum hlo_opcode ops[] = {OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_MAXIMUM, OP_MINIMUM};
    struct hlo_instr *y = random_draw(p->g, 5) == 0
                              ? random_number(p, TYPE_F32, random_draw(p->g, 3) - 1)
                              : random_pick(p);
    struct hlo_instr *operands[2] = {x, random_fit(p, y, x->shape)};
    return random_clamp(p, random_build(p, ops[random_draw(p->g, 5)], x->shape, 2, operands));
}

static inline struct hlo_instr *random_select(struct random_pool *p, struct hlo_instr *x) {
    static const int64_t ways[] = {ENUM_DIRECTION_LT, ENUM_DIRECTION_GE, ENUM_DIRECTION_EQ};
    struct hlo_instr *y = random_fit(p, random_pick(p), x->shape), *compared[2] = {x, y};
    const struct shape *pred = shape_with_type(p->g->module->shapes, x->shape, TYPE_PRED);
    struct hlo_instr *which = random_build(p, OP_COMPARE, pred, 2, compared);
    struct hlo_attr way = {.key = ATTR_DIRECTION, .i = ways[random_draw(p->g, 3)]};
    instr_set_attr(which, &way);
    struct hlo_instr *operands[3] = {which, y, random_draw(p->g, 2) ? x : y};
    return random_build(p, OP_SELECT, x->shape, 3, operands);
}

static inline struct hlo_instr *random_reduce(struct random_pool *p, struct hlo_instr *x) {
    if (x->shape->rank == 0) return random_unary(p, x);
    int64_t dim = random_draw(p->g, x->shape->rank), rest[2];
    int n = 0;
    bool most = random_draw(p->g, 2);
    for (int i = 0; i < x->shape->rank; i++)
        if (i != dim) rest[n++] = x->shape->dims[i];
    struct hlo_instr *operands[2] = {x, random_number(p, TYPE_F32, most ? -8 : 0)};
    struct hlo_instr *result =
        random_build(p, OP_REDUCE, random_dims(p->g, TYPE_F32, n, rest), 2, operands);
    instr_set_ints(result, ATTR_DIMENSIONS, 1, &dim);
    instr_set_called(result, 1, most ? &p->g->most : &p->g->sum);
    return random_clamp(p, result);
}

static inline struct hlo_instr *random_dot(struct random_pool *p, struct hlo_instr *x) {
    struct hlo_instr *y = random_pick(p);
    if (x->shape->rank != 2 || y->shape->rank != 2) return random_reduce(p, x);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t k = 0; k < 2; k++) {
            if (x->shape->dims[i] != y->shape->dims[k]) continue;
            int64_t dims[2] = {x->shape->dims[1 - i], y->shape->dims[1 - k]};
            struct hlo_instr *operands[2] = {x, y};
            struct hlo_instr *dot =
                random_build(p, OP_DOT, random_dims(p->g, TYPE_F32, 2, dims), 2, operands);
            instr_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, 1, &i);
            instr_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, 1, &k);
            return random_clamp(p, dot);
        }
    return random_reduce(p, x);
}

static inline void random_set_slice(struct random_pool *p, struct hlo_instr *slice,
                                    const struct slice_dim *dims) {
    struct arena *arena = p->g->module->arena;
    int rank = slice->shape->rank;
    struct slice_list *list = arena_alloc(arena, sizeof *list);
    *list = (struct slice_list){rank, arena_copy(arena, dims, (size_t)rank * sizeof *dims)};
    struct hlo_attr attr = {.key = ATTR_SLICE, .slices = list};
    instr_set_attr(slice, &attr);
}

static inline struct hlo_instr *random_slice(struct random_pool *p, struct hlo_instr *x) {
    struct slice_dim cut[2];
    int64_t dims[2];
    if (x->shape->rank == 0) return random_unary(p, x);
    for (int i = 0; i < x->shape->rank; i++) {
        int size = (int)x->shape->dims[i], start = random_draw(p->g, size);
        cut[i] = (struct slice_dim){start, start + 1 + random_draw(p->g, size - start),
                                    1 + random_draw(p->g, 2)};
        dims[i] = (cut[i].limit - cut[i].start + cut[i].stride - 1) / cut[i].stride;
    }
    struct hlo_instr *slice =
        random_build(p, OP_SLICE, random_dims(p->g, TYPE_F32, x->shape->rank, dims), 1, &x);
    random_set_slice(p, slice, cut);
    return slice;
}

static inline struct hlo_instr *random_pad(struct random_pool *p, struct hlo_instr *x) {
    struct arena *arena = p->g->module->arena;
    struct padding_config *config = arena_alloc(arena, sizeof *config);
    struct padding_dim *pads = arena_array(arena, 2, sizeof *pads);
    int64_t dims[2];
    if (x->shape->rank == 0) return random_unary(p, x);
    for (int i = 0; i < x->shape->rank; i++) {
        bool cuts = x->shape->dims[i] > 2;
        pads[i] = (struct padding_dim){random_draw(p->g, 3) - cuts, random_draw(p->g, 3) - cuts,
                                       random_draw(p->g, 2)};
        dims[i] = x->shape->dims[i] + pads[i].low + pads[i].high +
                  (x->shape->dims[i] - 1) * pads[i].interior;
    }
    *config = (struct padding_config){x->shape->rank, pads};
    struct hlo_instr *operands[2] = {x, random_number(p, TYPE_F32, random_draw(p->g, 2))};
    struct hlo_instr *result =
        random_build(p, OP_PAD, random_dims(p->g, TYPE_F32, x->shape->rank, dims), 2, operands);
    struct hlo_attr attr = {.key = ATTR_PADDING, .padding = config};
    instr_set_attr(result, &attr);
    return result;
}

static inline struct hlo_instr *random_move(struct random_pool *p, struct hlo_instr *x) {
    struct hlo_instr *result;
    if (x->shape->rank == 0) return random_unary(p, x);
    int64_t swap[2] = {1, 0}, dim = random_draw(p->g, x->shape->rank), dims[2];
    memcpy(dims, x->shape->dims, (size_t)x->shape->rank * sizeof *dims);
    struct hlo_instr *operands[2] = {
        x, random_draw(p->g, 2) ? x : random_fit(p, random_pick(p), x->shape)};
    switch (random_draw(p->g, 4)) {
    case 0:
        result = random_build(p, OP_REVERSE, x->shape, 1, &x);
        instr_set_ints(result, ATTR_DIMENSIONS, 1, &dim);
        return result;
    case 1:
        if (x->shape->dims[dim] > 12) return random_slice(p, x);
        dims[dim] *= 2;
        result = random_build(p, OP_CONCATENATE, random_dims(p->g, TYPE_F32, x->shape->rank, dims),
                              2, operands);
        instr_set_ints(result, ATTR_DIMENSIONS, 1, &dim);
        return result;
    default:
        if (x->shape->rank != 2) {
            dims[1] = 1 + random_draw(p->g, 4);
            dim = 0;
            return random_spread(p, x, random_dims(p->g, TYPE_F32, 2, dims), 1, &dim);
        }
        dims[0] = x->shape->dims[1];
        dims[1] = x->shape->dims[0];
        result = random_build(p, OP_TRANSPOSE, random_dims(p->g, TYPE_F32, 2, dims), 1, &x);
        instr_set_ints(result, ATTR_DIMENSIONS, 2, swap);
        return result;
    }
}

/* Reads or writes one row at a place that is known or the loop's counter. */
static inline struct hlo_instr *random_row(struct random_pool *p, struct hlo_instr *x) {
    if (x->shape->rank != 2) return random_slice(p, x);
    int64_t dims[2] = {1, x->shape->dims[1]};
    struct hlo_instr *at = p->index && random_draw(p->g, 2)
                               ? p->index
                               : random_number(p, TYPE_S32, random_draw(p->g, 6) - 1);
    struct hlo_instr *zero = random_number(p, TYPE_S32, 0);
    const struct shape *row = random_dims(p->g, TYPE_F32, 2, dims);
    if (random_draw(p->g, 2)) {
        struct hlo_instr *operands[3] = {x, at, zero};
        struct hlo_instr *slice = random_build(p, OP_DYNAMIC_SLICE, row, 3, operands);
        instr_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, 2, dims);
        return slice;
    }
    struct hlo_instr *operands[4] = {x, random_fit(p, random_pick(p), row), at, zero};
    return random_build(p, OP_DYNAMIC_UPDATE_SLICE, x->shape, 4, operands);
}

static inline struct hlo_instr *random_sort(struct random_pool *p, struct hlo_instr *x) {
    if (x->shape->rank == 0) return random_unary(p, x);
    int64_t dim = random_draw(p->g, x->shape->rank);
    struct hlo_instr *sort = random_build(p, OP_SORT, x->shape, 1, &x);
    instr_set_ints(sort, ATTR_DIMENSIONS, 1, &dim);
    instr_set_int(sort, ATTR_IS_STABLE, 1);
    instr_set_called(sort, 1, &p->g->less);
    return sort;
}

/* ---- control flow ---- */

static inline void random_grow(struct random_pool *p, int n, int depth);

static inline struct hlo_instr *random_tuple(struct random_pool *p, struct hlo_instr *index, int n,
                                             const struct shape *const *wanted) {
    struct hlo_instr *parts[8];
    const struct shape *shapes[8];
    int count = 0;
    if (index) parts[count++] = index;
    for (int i = 0; i < n; i++) {
        struct hlo_instr *x = random_pick(p);
        parts[count++] = wanted ? random_fit(p, x, wanted[i]) : x;
    }
    for (int i = 0; i < count; i++)
        shapes[i] = parts[i]->shape;
    return random_build(p, OP_TUPLE, shape_tuple(p->g->module->shapes, count, shapes), count,
                        parts);
}

static inline struct hlo_instr *random_element(struct random_pool *p, struct hlo_instr *tuple,
                                               int i) {
    struct hlo_instr *gte =
        random_build(p, OP_GET_TUPLE_ELEMENT, tuple->shape->tuple[i], 1, &tuple);
    instr_set_int(gte, ATTR_INDEX, i);
    return gte;
}

static inline struct random_pool random_open(struct random_source *g, const struct shape *shape,
                                             bool indexed) {
    struct random_pool p = {.g = g, .computation = computation_new(g->module, "callee", true)};
    struct hlo_instr *in = instr_new_parameter(p.computation, 0, shape, "p");
    computation_index_parameters(p.computation);
    for (int i = 0; i < shape->ntuple; i++) {
        struct hlo_instr *e = random_element(&p, in, i);
        if (i == 0 && indexed)
            p.index = e;
        else
            random_put(&p, e);
    }
    return p;
}

static inline void random_loop(struct random_pool *p, int depth) {
    struct random_source *g = p->g;
    int n = 1 + random_draw(g, 4);
    struct hlo_instr *init = random_tuple(p, random_number(p, TYPE_S32, 0), n, NULL);
    struct random_pool condition = random_open(g, init->shape, true);
    struct random_pool body = random_open(g, init->shape, true);
    struct hlo_instr *compared[2] = {condition.index,
                                     random_number(&condition, TYPE_S32, random_draw(g, 7))};
    struct hlo_instr *less =
        random_build(&condition, OP_COMPARE, random_scalar(g, TYPE_PRED), 2, compared);
    struct hlo_attr way = {.key = ATTR_DIRECTION, .i = ENUM_DIRECTION_LT};
    instr_set_attr(less, &way);
    computation_set_root(condition.computation, less);
    struct hlo_instr *carried[8];
    for (int i = 0; i < n; i++)
        carried[i] = body.values[i];
    random_grow(&body, 1 + random_draw(g, 6), depth + 1);
    struct hlo_instr *added[2] = {body.index, random_number(&body, TYPE_S32, 1)};
    struct hlo_instr *back[8] = {random_build(&body, OP_ADD, init->shape->tuple[0], 2, added)};
    for (int i = 0; i < n; i++)
        back[1 + i] = random_draw(g, 3) == 0
                          ? carried[i]
                          : random_fit(&body, random_pick(&body), init->shape->tuple[1 + i]);
    computation_set_root(body.computation, random_build(&body, OP_TUPLE, init->shape, n + 1, back));
    struct hlo_instr *loop = random_build(p, OP_WHILE, init->shape, 1, &init);
    struct hlo_computation *called[2] = {condition.computation, body.computation};
    instr_set_called(loop, 2, called);
    for (int i = 1; i <= n; i++)
        if (random_draw(g, 3)) random_put(p, random_element(p, loop, i));
}

static inline void random_branches(struct random_pool *p, int depth) {
    struct random_source *g = p->g;
    int n = 1 + random_draw(g, 2), branches = 1 + random_draw(g, 3);
    struct hlo_instr *operands[4] = {p->index ? p->index
                                              : random_number(p, TYPE_S32, random_draw(g, 3))};
    struct hlo_computation *called[3];
    const struct shape *shape = NULL;
    for (int i = 0; i < branches; i++) {
        operands[1 + i] = random_tuple(p, NULL, 1 + random_draw(g, 3), NULL);
        struct random_pool branch = random_open(g, operands[1 + i]->shape, false);
        random_grow(&branch, random_draw(g, 4), depth + 1);
        struct hlo_instr *root = random_tuple(&branch, NULL, n, shape ? shape->tuple : NULL);
        computation_set_root(branch.computation, root);
        called[i] = branch.computation;
        shape = root->shape;
    }
    struct hlo_instr *chosen = random_build(p, OP_CONDITIONAL, shape, 1 + branches, operands);
    instr_set_called(chosen, branches, called);
    for (int i = 0; i < n; i++)
        random_put(p, random_element(p, chosen, i));
}

static inline void random_grow(struct random_pool *p, int n, int depth) {
    static struct hlo_instr *(*const operations[])(struct random_pool *, struct hlo_instr *) = {
        random_unary,  random_binary, random_binary, random_binary, random_select,
        random_reduce, random_reduce, random_dot,    random_slice,  random_pad,
        random_move,   random_move,   random_row,    random_sort};
    enum { COUNT = sizeof operations / sizeof *operations };
    for (int i = 0; i < n; i++) {
        int kind = random_draw(p->g, COUNT + 2);
        if (kind < COUNT)
            random_put(p, operations[kind](p, random_pick(p)));
        else if (depth < RANDOM_DEPTH && kind == COUNT)
            random_loop(p, depth);
        else if (depth < RANDOM_DEPTH)
            random_branches(p, depth);
    }
}

/* ---- the whole ---- */

static inline struct hlo_computation *random_scalars(struct random_source *g, const char *name,
                                                     enum hlo_opcode opcode) {
    struct random_pool p = {.g = g, .computation = computation_new(g->module, name, true)};
    const struct shape *scalar = random_scalar(g, TYPE_F32);
    struct hlo_instr *operands[2];
    for (int i = 0; i < 2; i++)
        operands[i] = instr_new_parameter(p.computation, i, scalar, "a");
    computation_index_parameters(p.computation);
    const struct shape *shape = opcode == OP_COMPARE ? random_scalar(g, TYPE_PRED) : scalar;
    struct hlo_instr *root = random_build(&p, opcode, shape, 2, operands);
    struct hlo_attr way = {.key = ATTR_DIRECTION, .i = ENUM_DIRECTION_LT};
    struct hlo_attr order = {.key = ATTR_COMPARE_TYPE, .i = ENUM_COMPARE_TYPE_TOTALORDER};
    if (opcode == OP_COMPARE) instr_set_attr(root, &way);
    if (opcode == OP_COMPARE) instr_set_attr(root, &order);
    computation_set_root(p.computation, root);
    return p.computation;
}

static inline struct hlo_module *random_program(uint64_t seed, int size) {
    struct random_source g = {.module = module_new("random"), .state = seed};
    g.sum = random_scalars(&g, "sum", OP_ADD);
    g.most = random_scalars(&g, "most", OP_MAXIMUM);
    g.less = random_scalars(&g, "less", OP_COMPARE);
    struct random_pool p = {.g = &g, .computation = computation_new(g.module, "main", true)};
    g.module->entry = p.computation;
    for (int i = 0; i < RANDOM_INPUTS; i++) {
        int64_t dims[2] = {1 + random_draw(&g, 5), 1 + random_draw(&g, 6)};
        const struct shape *shape = random_dims(&g, TYPE_F32, i == 0 ? 1 : 2, dims);
        random_put(&p, instr_new_parameter(p.computation, i, shape, "x"));
    }
    computation_index_parameters(p.computation);
    random_grow(&p, 3 + random_draw(&g, size), 0);
    computation_set_root(p.computation, random_tuple(&p, NULL, 4, NULL));
    return g.module;
}

static inline struct literal *random_input(const struct shape *shape, uint64_t *state) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    struct random_source g = {.state = *state};
    struct literal *literal = literal_new(shape);
    for (int64_t i = 0; literal && i < shape->count; i++)
        literal_set_double(
            literal, i, random_draw(&g, 8) ? random_draw(&g, 9) - 4 : special[random_draw(&g, 5)]);
    *state = g.state;
    return literal;
}

/* The same numbers, zeros with the same sign; NaN is NaN. */
static inline bool random_same(const struct literal *a, const struct literal *b) {
    if (shape_is_tuple(a->shape)) {
        for (int i = 0; i < a->shape->ntuple; i++)
            if (!random_same(a->elements[i], b->elements[i])) return false;
        return true;
    }
    for (int64_t i = 0; i < a->shape->count; i++) {
        double x = literal_get_double(a, i), y = literal_get_double(b, i);
        if (isnan(x) && isnan(y)) continue;
        if (x != y || signbit(x) != signbit(y)) return false;
    }
    return true;
}

/* What a test does with a program: its result, a reference, or NULL with errors in diag. */
typedef struct literal *random_runner(struct hlo_module *module, struct literal *const *args,
                                      struct diag *diag, void *user);

/* The program of that seed gives what the evaluator says of it as it was; prints it where not. */
static inline bool random_check(uint64_t seed, int size, random_runner *run, void *user) {
    struct diag diag;
    struct literal *args[RANDOM_INPUTS];
    struct eval_options options = {.max_steps = 50 * 1000 * 1000};
    struct hlo_module *module = random_program(seed, size);
    module_sort_computations(module);
    struct hlo_module *plain = module_clone(module);
    uint64_t state = seed;
    diag_init(&diag, "random", NULL, 0);
    for (int i = 0; i < RANDOM_INPUTS; i++)
        args[i] = random_input(module->entry->parameters[i]->shape, &state);
    struct literal *want = module_evaluate(plain, args, &options, &diag);
    struct literal *got = want ? run(module, args, &diag, user) : NULL;
    bool same = got && random_same(got, want);
    if (!same) {
        struct print_options print = print_options_short();
        diag_print(&diag, stderr, false);
        fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        module_print(stderr, plain, &print);
    }
    literal_unref(want);
    literal_unref(got);
    for (int i = 0; i < RANDOM_INPUTS; i++)
        literal_unref(args[i]);
    diag_clear(&diag);
    module_free(module);
    module_free(plain);
    return same;
}

#endif
