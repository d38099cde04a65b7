/* scan as a loop. With n inputs, c carries and o outputs,
 *     (outputs, carries) = scan(inputs, carries), dimensions={d}, to_apply=step
 * applies (output slices, carries) = step(input slices, carries) to the slices of the inputs along
 * d, first to last, or last to first with is_reverse, and puts the output slices together. */
#include "ir/literal.h"
#include "passes/pass.h"
#include "passes/util.h"

struct scan {
    struct hlo_instr *instr;
    struct hlo_module *module;
    struct hlo_computation *step;
    int ninputs, ncarries, noutputs;
    int64_t dim, length;
    bool reverse;
    const struct shape *counter, *state; /* (counter, outputs, carries, inputs) */
};

static const struct shape *part(const struct shape *shape, int index) {
    return shape_is_tuple(shape) ? shape->tuple[index] : shape;
}

static int parts(const struct shape *shape) {
    return shape_is_tuple(shape) ? shape->ntuple : 1;
}

static bool slices(const struct scan *s, const struct shape *whole, const struct shape *slice) {
    return shape_is_array(whole) && shape_is_array(slice) && s->dim < whole->rank &&
           whole->dims[s->dim] == s->length && slice->type == whole->type &&
           slice->count * s->length == whole->count;
}

/* False where the scan is not of the form above: it stays, and is named where it cannot run. */
static bool read_scan(struct scan *s) {
    struct hlo_instr *instr = s->instr;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (instr->ncalled != 1 || dims.count != 1 || dims.v[0] < 0) return false;
    s->step = instr->called[0];
    s->dim = dims.v[0];
    s->ncarries = (int)instr_int(instr, ATTR_NUM_CARRIES, instr->noperands / 2);
    s->ninputs = instr->noperands - s->ncarries;
    s->noutputs = parts(instr->shape) - s->ncarries;
    s->reverse = instr_bool(instr, ATTR_IS_REVERSE, false);
    const struct shape *first = instr->operands[0]->shape, *root = s->step->root->shape;
    if (s->ncarries < 0 || s->ninputs < 1 || s->noutputs < 0 || !shape_is_array(first) ||
        s->dim >= first->rank || s->step->nparameters != instr->noperands ||
        parts(root) != parts(instr->shape))
        return false;
    s->length = first->dims[s->dim];
    for (int k = 0; k < s->ninputs; k++)
        if (!slices(s, instr->operands[k]->shape, s->step->parameters[k]->shape)) return false;
    for (int k = 0; k < s->noutputs; k++)
        if (!slices(s, part(instr->shape, k), part(root, k))) return false;
    for (int k = 0; k < s->ncarries; k++)
        if (!shape_compatible(part(root, s->noutputs + k), instr->operands[s->ninputs + k]->shape))
            return false;
    return true;
}

/* ---- building: into `c`, at its end ---- */

static struct hlo_instr *add(struct hlo_computation *c, enum hlo_opcode opcode,
                             const struct shape *shape, int count,
                             struct hlo_instr *const *operands) {
    return instr_new(c, NULL, opcode, shape, NULL, count, operands);
}

static struct hlo_instr *element(struct hlo_computation *c, struct hlo_instr *tuple, int index) {
    struct hlo_instr *e = add(c, OP_GET_TUPLE_ELEMENT, tuple->shape->tuple[index], 1, &tuple);
    instr_set_int(e, ATTR_INDEX, index);
    return e;
}

static struct hlo_instr *number(struct hlo_computation *c, const struct shape *shape,
                                int64_t value) {
    struct literal *literal = literal_new(shape);
    if (!literal) return NULL;
    literal_set_int(literal, 0, value);
    return instr_new_constant(c, NULL, literal);
}

/* The shape with 1 in place of the scanned dimension's size. */
static const struct shape *one_slice(const struct scan *s, const struct shape *whole) {
    int64_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d < whole->rank; d++)
        dims[d] = d == s->dim ? 1 : whole->dims[d];
    return shape_array(s->module->shapes, whole->type, whole->rank, dims);
}

static struct hlo_instr *take(const struct scan *s, struct hlo_computation *c,
                              struct hlo_instr *whole, struct hlo_instr *at, struct hlo_instr *zero,
                              const struct shape *slice) {
    struct hlo_instr *operands[1 + SHAPE_MAX_RANK] = {whole};
    const struct shape *shape = one_slice(s, whole->shape);
    for (int d = 0; d < shape->rank; d++)
        operands[1 + d] = d == s->dim ? at : zero;
    struct hlo_instr *piece = add(c, OP_DYNAMIC_SLICE, shape, 1 + shape->rank, operands);
    instr_set_ints(piece, ATTR_DYNAMIC_SLICE_SIZES, shape->rank, shape->dims);
    return add(c, OP_RESHAPE, slice, 1, &piece);
}

static struct hlo_instr *put(const struct scan *s, struct hlo_computation *c,
                             struct hlo_instr *whole, struct hlo_instr *slice, struct hlo_instr *at,
                             struct hlo_instr *zero) {
    const struct shape *shape = one_slice(s, whole->shape);
    struct hlo_instr *operands[2 + SHAPE_MAX_RANK] = {whole, add(c, OP_RESHAPE, shape, 1, &slice)};
    for (int d = 0; d < shape->rank; d++)
        operands[2 + d] = d == s->dim ? at : zero;
    return add(c, OP_DYNAMIC_UPDATE_SLICE, whole->shape, 2 + shape->rank, operands);
}

static struct hlo_computation *condition_of(const struct scan *s) {
    struct hlo_computation *c = computation_new(s->module, "scan_condition", true);
    struct hlo_instr *state = instr_new_parameter(c, 0, s->state, "state");
    struct hlo_instr *operands[2] = {element(c, state, 0), number(c, s->counter, s->length)};
    struct hlo_instr *more =
        add(c, OP_COMPARE, shape_scalar(s->module->shapes, TYPE_PRED), 2, operands);
    instr_set_int(more, ATTR_DIRECTION, ENUM_DIRECTION_LT);
    computation_index_parameters(c);
    computation_set_root(c, more);
    return c;
}

/* The place of this turn's slices. */
static struct hlo_instr *place(const struct scan *s, struct hlo_computation *c,
                               struct hlo_instr *turn) {
    struct hlo_instr *operands[2] = {number(c, s->counter, s->length - 1), turn};
    return s->reverse ? add(c, OP_SUBTRACT, s->counter, 2, operands) : turn;
}

static struct hlo_computation *body_of(const struct scan *s) {
    struct hlo_computation *c = computation_new(s->module, "scan_body", true);
    struct arena *arena = s->module->arena;
    int total = s->state->ntuple, n = s->instr->noperands;
    struct hlo_instr *state = instr_new_parameter(c, 0, s->state, "state");
    struct hlo_instr **next = arena_array(arena, (size_t)total, sizeof(struct hlo_instr *));
    struct hlo_instr **args = arena_array(arena, (size_t)n, sizeof(struct hlo_instr *));
    for (int k = 0; k < total; k++)
        next[k] = element(c, state, k);
    struct hlo_instr *at = place(s, c, next[0]), *zero = number(c, s->counter, 0);
    int carries = 1 + s->noutputs, inputs = carries + s->ncarries;
    for (int k = 0; k < s->ninputs; k++)
        args[k] = take(s, c, next[inputs + k], at, zero, s->step->parameters[k]->shape);
    for (int k = 0; k < s->ncarries; k++)
        args[s->ninputs + k] = next[carries + k];
    struct hlo_instr *done = add(c, OP_CALL, s->step->root->shape, n, args);
    instr_set_called(done, 1, &s->step);
    bool tuple = shape_is_tuple(done->shape);
    for (int k = 0; k < s->noutputs + s->ncarries; k++) {
        struct hlo_instr *value = tuple ? element(c, done, k) : done;
        next[1 + k] = k < s->noutputs ? put(s, c, next[1 + k], value, at, zero) : value;
    }
    struct hlo_instr *step[2] = {next[0], number(c, s->counter, 1)};
    next[0] = add(c, OP_ADD, s->counter, 2, step);
    computation_index_parameters(c);
    computation_set_root(c, add(c, OP_TUPLE, s->state, total, next));
    return c;
}

/* The loop over start[], (counter, outputs, carries, inputs): start[] becomes its results. */
static void build_loop(struct scan *s, struct hlo_instr **start, int results, int total) {
    struct hlo_instr *instr = s->instr;
    const struct shape **shapes =
        arena_array(s->module->arena, (size_t)total, sizeof(const struct shape *));
    for (int k = 0; k < total; k++)
        shapes[k] = start[k]->shape;
    s->state = shape_tuple(s->module->shapes, total, shapes);
    struct hlo_instr *state =
        instr_new(instr->parent, instr, OP_TUPLE, s->state, NULL, total, start);
    struct hlo_instr *loop = instr_new(instr->parent, instr, OP_WHILE, s->state, NULL, 1, &state);
    struct hlo_computation *called[2] = {condition_of(s), body_of(s)};
    instr_set_called(loop, 2, called);
    for (int k = 1; k <= results; k++) {
        start[k] = instr_new(instr->parent, instr, OP_GET_TUPLE_ELEMENT, shapes[k], NULL, 1, &loop);
        instr_set_int(start[k], ATTR_INDEX, k);
    }
}

static struct hlo_instr *expand(struct scan *s) {
    struct hlo_instr *instr = s->instr;
    int results = s->noutputs + s->ncarries, total = 1 + results + s->ninputs;
    struct hlo_instr **start =
        arena_array(s->module->arena, (size_t)total, sizeof(struct hlo_instr *));
    s->counter = shape_scalar(s->module->shapes, TYPE_S64);
    start[0] = instr_new_splat(instr, s->counter, 0);
    for (int k = 0; k < s->noutputs; k++)
        start[1 + k] = instr_new_splat(instr, part(instr->shape, k), 0);
    for (int k = 0; k < s->ncarries; k++)
        start[1 + s->noutputs + k] = instr->operands[s->ninputs + k];
    for (int k = 0; k < s->ninputs; k++)
        start[1 + results + k] = instr->operands[k];
    if (s->length > 0) build_loop(s, start, results, total);
    if (!shape_is_tuple(instr->shape)) return start[1];
    return instr_new(instr->parent, instr, OP_TUPLE, instr->shape, NULL, results, start + 1);
}

bool scan_expander_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            struct scan s = {.instr = instr, .module = module};
            if (instr->opcode != OP_SCAN || instr->ncontrol || instr->is_control_predecessor ||
                !read_scan(&s) || !pass_may_rewrite(context))
                continue;
            instr_replace_uses(instr, expand(&s));
            instr_remove(instr);
            changed = true;
        }
    }
    if (changed) module_sort_computations(module);
    return changed;
}
