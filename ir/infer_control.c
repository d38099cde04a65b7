/* Shapes of operations that call or wait. */
#include "ir/infer_internal.h"

const struct shape *infer_same_as_operand(struct hlo_instr *instr, struct diag *diag) {
    (void)diag;
    return infer_operand(instr, 0);
}

const struct shape **infer_operand_shapes(const struct hlo_instr *instr, int first) {
    int count = instr->noperands - first;
    const struct shape **shapes =
        arena_array(instr->parent->module->arena, (size_t)(count > 0 ? count : 1), sizeof *shapes);
    for (int i = 0; i < count; i++)
        shapes[i] = infer_operand(instr, first + i);
    return shapes;
}

const struct shape *infer_call(struct hlo_instr *instr, struct diag *diag) {
    if (!infer_check_called(instr, diag, 0, instr->noperands, infer_operand_shapes(instr, 0)))
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
