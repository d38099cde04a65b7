#include "backend/cpu/operand_parts.h"

#include <stdlib.h>

/* Places `first` to `end` of dimension `dim`, whose places are `stride` bytes apart. */
struct part {
    int dim;
    int64_t first, end, stride;
};

static int outermost_dim(const struct shape *shape) {
    int dim = 0;
    while (dim < shape->rank && shape->dims[dim] == 1)
        dim++;
    return dim;
}

static const struct slice_list *slice_of(const struct hlo_instr *instr) {
    const struct hlo_attr *attr = instr->opcode == OP_SLICE ? instr_attr(instr, ATTR_SLICE) : NULL;
    return attr && attr->slices->count == instr->shape->rank ? attr->slices : NULL;
}

/* Whether the instruction is a result of its computation. */
static bool is_result(const struct hlo_instr *instr) {
    const struct hlo_instr *root = instr->parent->root;
    if (instr == root) return true;
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (use->user == root && root->opcode == OP_TUPLE) return true;
    return false;
}

static struct part no_part(const struct shape *shape, int dim) {
    int64_t size = shape->dims[dim];
    return (struct part){dim, size, 0, size ? shape->bytes / size : 0};
}

/* What the slice reads is in the part, too; false for anything else. */
static bool widen(struct part *part, const struct hlo_instr *slice) {
    const struct slice_list *slices = slice_of(slice);
    if (!slices || slice->shape->count == 0) return false;
    struct slice_dim s = slices->v[part->dim];
    int64_t last = s.start + (slice->shape->dims[part->dim] - 1) * s.stride;
    if (s.start < part->first) part->first = s.start;
    if (last + 1 > part->end) part->end = last + 1;
    return true;
}

/* False where all of the parameter is read, or anything but a slice reads it. */
static bool find_part(const struct hlo_instr *parameter, struct part *part) {
    const struct shape *shape = parameter->shape;
    if (!shape_is_array(shape) || shape_is_dynamic(shape) || !parameter->users) return false;
    int dim = outermost_dim(shape);
    if (dim == shape->rank || is_result(parameter)) return false;
    *part = no_part(shape, dim);
    for (const struct hlo_use *use = parameter->users; use; use = use->next)
        if (is_result(use->user) || !widen(part, use->user)) return false;
    return part->end - part->first < shape->dims[dim];
}

static const struct shape *cut_shape(struct hlo_module *module, const struct shape *shape,
                                     const struct part *part) {
    int64_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d < shape->rank; d++)
        dims[d] = shape->dims[d];
    dims[part->dim] = part->end - part->first;
    const struct shape *cut = shape_array(module->shapes, shape->type, shape->rank, dims);
    return shape_with_layout(module->shapes, cut, shape->layout);
}

/* The slice's places are counted from the first of the part. */
static void count_from(struct hlo_instr *slice, const struct part *part) {
    struct arena *arena = slice->parent->module->arena;
    const struct hlo_instr *operand = slice->operands[0];
    const struct slice_list *old = slice_of(slice);
    struct slice_dim *dims = arena_copy(arena, old->v, (size_t)old->count * sizeof *dims);
    dims[part->dim].start -= part->first;
    dims[part->dim].limit -= part->first;
    if (dims[part->dim].limit > operand->shape->dims[part->dim])
        dims[part->dim].limit = operand->shape->dims[part->dim];
    struct slice_list *list = arena_alloc(arena, sizeof *list);
    *list = (struct slice_list){old->count, dims};
    struct hlo_attr attr = {.key = ATTR_SLICE, .slices = list};
    instr_set_attr(slice, &attr);
}

/* One of all there is goes away. */
static void move_slice(struct hlo_instr *slice, const struct part *part) {
    struct hlo_instr *operand = slice->operands[0];
    if (slice->shape->plain != operand->shape->plain) {
        count_from(slice, part);
        return;
    }
    instr_replace_uses(slice, operand);
    instr_remove(slice);
}

static void cut_parameter(struct hlo_instr *parameter, const struct part *part) {
    parameter->shape = cut_shape(parameter->parent->module, parameter->shape, part);
    for (struct hlo_use *use = parameter->users, *next; use; use = next) {
        next = use->next;
        move_slice(use->user, part);
    }
}

/* What stands for the operand: as a parameter is, memory of the shape. */
static struct hlo_instr *stand_in(struct arena *arena, const struct hlo_instr *operand,
                                  const struct shape *shape) {
    struct hlo_instr *copy = arena_copy(arena, operand, sizeof *operand);
    copy->opcode = OP_PARAMETER;
    copy->shape = shape;
    copy->literal = NULL;
    return copy;
}

static void number(struct hlo_computation *computation) {
    int n = 0;
    FOR_EACH_INSTR(instr, computation) instr->mark = n++;
}

/* The same for a slice by itself. */
static const struct hlo_instr *part_of_slice(struct arena *arena, const struct hlo_instr *slice,
                                             bool may_move, int64_t *offset) {
    const struct shape *shape = slice->operands[0]->shape;
    int dim = outermost_dim(shape);
    *offset = 0;
    if (!may_move || dim == shape->rank) return slice;
    struct part part = no_part(shape, dim);
    if (!widen(&part, slice) || part.end - part.first == shape->dims[dim]) return slice;
    struct hlo_instr *view = arena_copy(arena, slice, sizeof *slice);
    view->attrs = arena_copy(arena, slice->attrs, (size_t)slice->nattrs * sizeof *view->attrs);
    view->operands = arena_alloc(arena, sizeof *view->operands);
    view->operands[0] =
        stand_in(arena, slice->operands[0], cut_shape(slice->parent->module, shape, &part));
    count_from(view, &part);
    *offset = part.first * part.stride;
    return view;
}

const struct hlo_instr *operand_parts(struct arena *arena, const struct hlo_instr *fusion,
                                      const bool *may_move, int64_t *offset) {
    if (fusion->opcode == OP_SLICE) return part_of_slice(arena, fusion, *may_move, offset);
    struct hlo_instr *view = NULL;
    for (int i = 0; i < fusion->noperands; i++) {
        struct part part;
        offset[i] = 0;
        if (!may_move[i] || !find_part(fusion->called[0]->parameters[i], &part)) continue;
        if (!view) {
            view = arena_copy(arena, fusion, sizeof *fusion);
            view->operands = arena_copy(arena, fusion->operands,
                                        (size_t)fusion->noperands * sizeof *view->operands);
            view->called = arena_alloc(arena, sizeof *view->called);
            view->called[0] = computation_clone(fusion->called[0], NULL);
            computation_unlink(view->called[0]);
        }
        struct hlo_instr *parameter = view->called[0]->parameters[i];
        cut_parameter(parameter, &part);
        view->operands[i] = stand_in(arena, fusion->operands[i], parameter->shape);
        offset[i] = part.first * part.stride;
    }
    if (view) number(view->called[0]);
    return view ? view : fusion;
}
