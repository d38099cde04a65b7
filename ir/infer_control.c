/* Shapes of operations that call, wait or talk to other devices. */
#include "ir/infer_internal.h"

const struct shape *infer_same_as_operand(struct hlo_instr *instr, struct diag *diag) {
    (void)diag;
    return infer_operand(instr, 0);
}

static const struct shape **operand_shapes(const struct hlo_instr *instr, int first) {
    int count = instr->noperands - first;
    const struct shape **shapes =
        arena_array(instr->parent->module->arena, (size_t)(count > 0 ? count : 1), sizeof *shapes);
    for (int i = 0; i < count; i++)
        shapes[i] = infer_operand(instr, first + i);
    return shapes;
}

const struct shape *infer_call(struct hlo_instr *instr, struct diag *diag) {
    if (!infer_check_called(instr, diag, 0, instr->noperands, operand_shapes(instr, 0)))
        return NULL;
    return infer_root(instr, 0);
}

const struct shape *infer_while(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *state = infer_operand(instr, 0);
    if (!infer_check_called(instr, diag, 0, 1, &state) ||
        !infer_check_called(instr, diag, 1, 1, &state))
        return NULL;
    const struct shape *test = infer_root(instr, 0), *next = infer_root(instr, 1);
    if (!shape_is_scalar(test) || test->type != TYPE_PRED)
        return INFER_FAIL(instr, diag, "the condition gives %s, pred[] expected",
                          infer_text(instr, test));
    if (!infer_same(next, state))
        return INFER_FAIL(instr, diag, "the body gives %s, the operand's shape %s expected",
                          infer_text(instr, next), infer_text(instr, state));
    return state;
}

const struct shape *infer_conditional(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *selector = infer_operand(instr, 0);
    bool pred = shape_is_scalar(selector) && selector->type == TYPE_PRED;
    if (!pred && !(shape_is_scalar(selector) && selector->type == TYPE_S32))
        return INFER_FAIL(instr, diag, "selector has shape %s, pred[] or s32[] expected",
                          infer_text(instr, selector));
    if (instr->ncalled < 1 || instr->ncalled != instr->noperands - 1)
        return INFER_FAIL(instr, diag, "%d branches given, %d (one an operand) expected",
                          instr->ncalled, instr->noperands - 1);
    if (pred && instr->ncalled != 2)
        return INFER_FAIL(instr, diag, "%d branches given for a pred selector, 2 expected",
                          instr->ncalled);
    const struct shape *first = infer_root(instr, 0);
    for (int i = 0; i < instr->ncalled; i++) {
        const struct shape *operand = infer_operand(instr, i + 1);
        if (!infer_check_called(instr, diag, i, 1, &operand)) return NULL;
        if (!infer_same(infer_root(instr, i), first))
            return INFER_FAIL(instr, diag, "branch %d gives %s, %s (that of branch 0) expected", i,
                              infer_text(instr, infer_root(instr, i)), infer_text(instr, first));
    }
    return first;
}

const struct shape *infer_after_all(struct hlo_instr *instr, struct diag *diag) {
    for (int i = 0; i < instr->noperands; i++)
        if (!shape_is_token(infer_operand(instr, i)))
            return INFER_FAIL(instr, diag, "operand %d has shape %s, token[] expected", i,
                              infer_text(instr, infer_operand(instr, i)));
    return shape_token(infer_table(instr));
}

/* One array as it is; more as a tuple. */
static const struct shape *operands_or_tuple(struct hlo_instr *instr, struct diag *diag) {
    for (int i = 0; i < instr->noperands; i++)
        if (!infer_array_operand(instr, diag, i)) return NULL;
    if (instr->noperands == 1) {
        /* A tuple of one is written by some programs. */
        const struct shape *shape = infer_operand(instr, 0);
        if (instr->shape && shape_is_tuple(instr->shape))
            return infer_tuple(instr, diag, 1, &shape);
        return shape;
    }
    return infer_tuple(instr, diag, instr->noperands, operand_shapes(instr, 0));
}

const struct shape *infer_all_reduce(struct hlo_instr *instr, struct diag *diag) {
    if (instr->opcode == OP_ALL_REDUCE && !infer_check_called(instr, diag, 0, 2, NULL)) return NULL;
    return operands_or_tuple(instr, diag);
}

const struct shape *infer_collective_permute(struct hlo_instr *instr, struct diag *diag) {
    if (instr_attr(instr, ATTR_SLICE_SIZES)) return infer_written(instr, diag);
    return operands_or_tuple(instr, diag);
}

/* The array leaf that the written result has for operand `index`; NULL where it is no such. */
static const struct shape *written_part(const struct hlo_instr *instr, int index) {
    const struct shape *shape = instr->shape;
    if (shape_is_array(shape)) return instr->noperands == 1 ? shape : NULL;
    if (!shape_is_tuple(shape) || shape->ntuple != instr->noperands) return NULL;
    return shape_is_array(shape->tuple[index]) ? shape->tuple[index] : NULL;
}

/* Result and operand differ in one dimension only, which the number of devices in a group (known
 * only when run) multiplies or, for `divided`, divides. */
static const struct shape *scaled(struct hlo_instr *instr, struct diag *diag, bool divided) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (!infer_written(instr, diag)) return NULL;
    if (dims.count != 1)
        return INFER_FAIL(instr, diag, "%d dimensions given, 1 expected", dims.count);
    for (int k = 0; k < instr->noperands; k++) {
        const struct shape *from = infer_array_operand(instr, diag, k);
        const struct shape *to = written_part(instr, k);
        if (!from || !infer_check_dims(instr, diag, "dimensions", dims, from->rank)) return NULL;
        bool fits = to && to->type == from->type && to->rank == from->rank;
        for (int i = 0; fits && i < from->rank; i++) {
            int64_t small = divided ? to->dims[i] : from->dims[i];
            int64_t large = divided ? from->dims[i] : to->dims[i];
            fits = i == dims.v[0] ? (small ? large % small == 0 : large == 0) : small == large;
        }
        if (!fits)
            return INFER_FAIL(instr, diag,
                              "result %s given for operand %s, its shape with "
                              "dimension %lld %s by the group size expected",
                              infer_text(instr, instr->shape), infer_text(instr, from),
                              (long long)dims.v[0], divided ? "divided" : "multiplied");
    }
    return instr->shape;
}

const struct shape *infer_all_gather(struct hlo_instr *instr, struct diag *diag) {
    return scaled(instr, diag, false);
}

const struct shape *infer_reduce_scatter(struct hlo_instr *instr, struct diag *diag) {
    if (!infer_check_called(instr, diag, 0, 2, NULL)) return NULL;
    return scaled(instr, diag, true);
}

const struct shape *infer_all_to_all(struct hlo_instr *instr, struct diag *diag) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *first = infer_array_operand(instr, diag, 0);
    if (!first || !infer_check_dims(instr, diag, "dimensions", dims, first->rank)) return NULL;
    for (int i = 1; i < instr->noperands; i++)
        if (!infer_same(first, infer_operand(instr, i)))
            return INFER_FAIL(instr, diag,
                              "operand %d has shape %s, %s (that of operand 0) "
                              "expected",
                              i, infer_text(instr, infer_operand(instr, i)),
                              infer_text(instr, first));
    return operands_or_tuple(instr, diag);
}

const struct shape *infer_copy_done(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_operand(instr, 0);
    if (!shape_is_tuple(shape) || shape->ntuple < 2)
        return INFER_FAIL(instr, diag, "operand has shape %s, the tuple of a copy-start expected",
                          infer_text(instr, shape));
    return shape->tuple[0];
}

const struct shape *infer_async(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_written(instr, diag);
    if (!shape) return NULL;
    if (!shape_is_tuple(shape) || shape->ntuple < 2 || !shape_is_tuple(shape->tuple[0]) ||
        shape->tuple[0]->ntuple != instr->noperands)
        return INFER_FAIL(instr, diag,
                          "shape %s given, a tuple of the %d operands' shapes and "
                          "the result expected",
                          infer_text(instr, shape), instr->noperands);
    for (int i = 0; i < instr->noperands; i++)
        if (!infer_same(shape->tuple[0]->tuple[i], infer_operand(instr, i)))
            return INFER_FAIL(instr, diag, "shape %s given for operand %d, its shape %s expected",
                              infer_text(instr, shape->tuple[0]->tuple[i]), i,
                              infer_text(instr, infer_operand(instr, i)));
    if (instr->ncalled == 1 && !infer_same(shape->tuple[1], infer_root(instr, 0)))
        return INFER_FAIL(instr, diag, "result %s given, %s (the root of %s) expected",
                          infer_text(instr, shape->tuple[1]),
                          infer_text(instr, infer_root(instr, 0)), instr->called[0]->name);
    return shape;
}

const struct shape *infer_async_done(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_operand(instr, 0);
    if (!shape_is_tuple(shape) || shape->ntuple < 2)
        return INFER_FAIL(instr, diag,
                          "operand has shape %s, the tuple of an async start "
                          "expected",
                          infer_text(instr, shape));
    return shape->tuple[1];
}
