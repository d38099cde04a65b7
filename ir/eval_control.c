/* Operations that call computations, and those that only wait for others. */
#include <stdlib.h>
#include <string.h>

#include "ir/custom_call.h"
#include "ir/eval_linalg.h"
#include "ir/eval_mesh.h"

struct literal *eval_call(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    if (instr->ncalled != 1) return eval_error(e, instr, "no called computation");
    return eval_computation(e, instr->called[0], instr->noperands, ops);
}

struct literal *eval_while(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct literal *state = ops[0], *args[1], *condition;
    bool more;

    if (instr->ncalled != 2) return eval_error(e, instr, "no condition and body");
    ops[0] = NULL; /* so that the body may change it in place */
    for (;;) {
        args[0] = literal_ref(state);
        condition = eval_charge(e, instr, 1) ? eval_computation(e, instr->called[0], 1, args)
                                             : (eval_drop(e, args[0]), NULL);
        if (!condition) {
            eval_drop(e, state);
            return NULL;
        }
        more = literal_get_int(condition, 0) != 0;
        eval_drop(e, condition);
        if (!more) return state;
        args[0] = state;
        state = eval_computation(e, instr->called[1], 1, args);
        if (!state) return NULL;
    }
}

struct literal *eval_conditional(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    int64_t branch = literal_get_int(ops[0], 0);

    if (instr->ncalled < 1 || instr->ncalled != instr->noperands - 1)
        return eval_error(e, instr, "branches and operands differ in number");
    if (ops[0]->shape->type == TYPE_PRED) branch = branch ? 0 : 1;
    if (branch < 0 || branch >= instr->ncalled) branch = instr->ncalled - 1;
    return eval_computation(e, instr->called[branch], 1, ops + 1 + branch);
}

/* A tuple of zeros but for some elements, whose references it takes over. */
static struct literal *tuple_with(struct eval *e, const struct hlo_instr *instr, int count,
                                  struct literal **elements) {
    const struct shape *shape = instr->shape;
    struct literal **all = eval_scratch(e, instr, shape->ntuple, sizeof *all), *result = NULL;
    bool good = all && count <= shape->ntuple;

    for (int k = 0; k < count; k++) {
        if (good)
            all[k] = elements[k];
        else
            eval_drop(e, elements[k]);
    }
    for (int k = count; good && k < shape->ntuple; k++) {
        all[k] = eval_new(e, instr, shape->tuple[k]);
        if (all[k]) continue;
        good = false;
        for (int j = 0; j < k; j++)
            eval_drop(e, all[j]);
    }
    if (good) result = eval_new_tuple(e, instr, shape, all);
    free(all);
    return result;
}

/* ((operands), result, context...) */
struct literal *eval_async_start(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    const struct shape *shape = instr->shape;
    struct literal *parts[2];

    if (instr->ncalled != 1 || !shape_is_tuple(shape) || shape->ntuple < 2 ||
        !shape_is_tuple(shape->tuple[0]) || shape->tuple[0]->ntuple != instr->noperands)
        return eval_error(e, instr, "no wrapped computation, or an unexpected shape");
    for (int k = 0; k < instr->noperands; k++)
        literal_ref(ops[k]);
    parts[0] = eval_new_tuple(e, instr, shape->tuple[0], ops);
    if (!parts[0]) return NULL;
    parts[1] = eval_computation(e, instr->called[0], instr->noperands, ops);
    if (!parts[1]) {
        eval_drop(e, parts[0]);
        return NULL;
    }
    return tuple_with(e, instr, 2, parts);
}

struct literal *eval_async_pass(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops) {
    return eval_identity(e, instr, ops);
}

static struct literal *element(struct eval *e, const struct hlo_instr *instr,
                               const struct literal *tuple, int index) {
    if (!tuple->elements || tuple->shape->ntuple <= index)
        return eval_error(e, instr, "the operand does not come from a start operation");
    return literal_ref(tuple->elements[index]);
}

struct literal *eval_async_done(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops) {
    return element(e, instr, ops[0], 1);
}

/* (destination, source, context) */
struct literal *eval_copy_start(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops) {
    struct literal *parts[2] = {literal_ref(ops[0]), literal_ref(ops[0])};

    return tuple_with(e, instr, 2, parts);
}

struct literal *eval_copy_done(struct eval *e, const struct hlo_instr *instr,
                               struct literal **ops) {
    return element(e, instr, ops[0], 0);
}

/* ---- custom calls ---- */

struct literal *eval_custom_call(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    const char *target = instr_text(instr, ATTR_CUSTOM_CALL_TARGET);
    const char *routine = custom_call_lapack_routine(instr);
    struct literal *result;
    bool known = false;

    if (!target) return eval_error(e, instr, "no custom_call_target");
    if (e->mesh && eval_changes_parts(target)) return eval_change_parts(e, instr, ops);
    if (strcmp(target, "TopK") == 0 && instr->noperands == 1) return eval_topk(e, instr, ops);
    if (custom_call_is_annotation(target) && instr->noperands >= 1 &&
        instr->noperands == (shape_is_tuple(instr->shape) ? instr->shape->ntuple : 1)) {
        if (!shape_is_tuple(instr->shape) || shape_is_tuple(instr->operands[0]->shape))
            return shape_compatible(ops[0]->shape, instr->shape)
                       ? literal_ref(ops[0])
                       : eval_error(e, instr, "%s changes the shape: more than one partition",
                                    target);
        return eval_tuple(e, instr, ops);
    }
    if (routine) {
        result = eval_lapack(e, instr, routine, ops, &known);
        if (known) return result;
    }
    if (strcmp(target, "AllocateBuffer") == 0) return eval_new(e, instr, instr->shape);
    if (instr->ncalled == 1 && instr->called[0]->nparameters == instr->noperands)
        return eval_call(e, instr, ops);
    return eval_error(e, instr, "custom call target \"%s\" is unknown", target);
}
