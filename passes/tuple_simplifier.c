/* get-tuple-element(tuple(a, b), 1) is b; tuple(gte(t, 0), ..., gte(t, n - 1)) is t. A barrier
 * keeps only the elements of a tuple that are read behind it. */
#include "passes/rewrite.h"

static bool take_apart(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *tuple = instr->operands[0];
    int64_t index = instr_int(instr, ATTR_INDEX, 0);
    if (tuple->opcode != OP_TUPLE || index < 0 || index >= tuple->noperands) return false;
    struct hlo_instr *element = tuple->operands[index];
    if (!shape_compatible(element->shape, instr->shape) || element == instr) return false;
    if (instr->ncontrol || !pass_may_rewrite(context)) return false;
    instr_replace_uses(instr, element);
    return true;
}

static bool rebuild(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->noperands == 0 || instr->ncontrol) return false;
    struct hlo_instr *whole = NULL;
    for (int i = 0; i < instr->noperands; i++) {
        struct hlo_instr *operand = instr->operands[i];
        if (operand->opcode != OP_GET_TUPLE_ELEMENT) return false;
        if (instr_int(operand, ATTR_INDEX, -1) != i) return false;
        if (whole && whole != operand->operands[0]) return false;
        whole = operand->operands[0];
    }
    if (!shape_compatible(whole->shape, instr->shape)) return false;
    if (!pass_may_rewrite(context)) return false;
    instr_replace_uses(instr, whole);
    return true;
}

/* ---- barriers ---- */

/* Sets keep[] for the elements that somebody reads; -1 where the tuple is read as a whole. */
static int count_read(const struct hlo_instr *barrier, bool *keep) {
    int count = 0;
    if (barrier == barrier->parent->root) return -1;
    for (const struct hlo_use *use = barrier->users; use; use = use->next) {
        const struct hlo_instr *user = use->user;
        if (user->opcode != OP_GET_TUPLE_ELEMENT || user->ncontrol) return -1;
        if (!instr_has_users(user) && user != user->parent->root) continue;
        bool *one = &keep[instr_int(user, ATTR_INDEX, 0)];
        count += !*one;
        *one = true;
    }
    return count;
}

static void keep_elements(struct hlo_instr *barrier, const bool *keep, int count,
                          struct arena *arena) {
    const struct hlo_instr *tuple = barrier->operands[0];
    struct shape_table *shapes = barrier->parent->module->shapes;
    struct hlo_instr **operands = arena_array(arena, (size_t)count, sizeof *operands);
    const struct shape **elements = arena_array(arena, (size_t)count, sizeof *elements);
    int *places = arena_array(arena, (size_t)tuple->noperands, sizeof *places);
    for (int i = 0, n = 0; i < tuple->noperands; i++) {
        if (!keep[i]) continue;
        places[i] = n;
        operands[n] = tuple->operands[i];
        elements[n++] = tuple->shape->tuple[i];
    }
    const struct shape *shape = shape_tuple(shapes, count, elements);
    struct hlo_instr *fewer =
        instr_new(barrier->parent, barrier, OP_TUPLE, shape, NULL, count, operands);
    struct hlo_instr *with = instr_clone(barrier, barrier->parent, barrier, shape, &fewer);
    for (struct hlo_use *use = barrier->users; use; use = use->next) {
        int64_t index = instr_int(use->user, ATTR_INDEX, 0);
        if (!keep[index]) continue;
        struct hlo_instr *element =
            rewrite_unary(use->user, OP_GET_TUPLE_ELEMENT, use->user->shape, with);
        instr_set_int(element, ATTR_INDEX, places[index]);
        instr_replace_uses(use->user, element);
    }
}

static bool narrow_barrier(struct pass_context *context, struct hlo_instr *barrier) {
    const struct hlo_instr *tuple = barrier->operands[0];
    if (tuple->opcode != OP_TUPLE || barrier->ncontrol || barrier->is_control_predecessor)
        return false;
    struct arena *arena = arena_new();
    bool *keep = arena_array(arena, (size_t)tuple->noperands + 1, sizeof *keep);
    int count = count_read(barrier, keep);
    bool changes = count > 0 && count < tuple->noperands && pass_may_rewrite(context);
    if (changes) keep_elements(barrier, keep, count, arena);
    arena_free(arena);
    return changes;
}

bool tuple_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (!instr_has_users(instr) && computation->root != instr) continue;
            if (instr->opcode == OP_GET_TUPLE_ELEMENT)
                changed |= take_apart(context, instr);
            else if (instr->opcode == OP_TUPLE)
                changed |= rebuild(context, instr);
            else if (instr->opcode == OP_OPT_BARRIER)
                changed |= narrow_barrier(context, instr);
        }
    }
    return changed;
}
