/* Elementwise operations move before broadcasts (less work) and before reshapes and transposes that
 * all their operands have in common (fewer of them):
 *     op(broadcast(a), broadcast(b)) is broadcast(op(a, b)), likewise for the others.
 * A number that is spread out (broadcast of a scalar) goes with any of them; of such numbers alone
 * there is one result. */
#include "passes/rewrite.h"

static bool is_mover(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_BROADCAST: return instr->operands[0]->shape->rank > 0;
    case OP_RESHAPE:
    case OP_TRANSPOSE: return true;
    default: return false;
    }
}

static bool same_movement(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (a->opcode != b->opcode) return false;
    if (!shape_same_dims(a->operands[0]->shape, b->operands[0]->shape)) return false;
    if (a->opcode == OP_RESHAPE) return true;
    struct int_list x = instr_ints(a, ATTR_DIMENSIONS), y = instr_ints(b, ATTR_DIMENSIONS);
    return x.count == y.count && ints_equal(x.count, x.v, y.v);
}

/* The one movement of all operands but numbers; NULL where there is none. */
static struct hlo_instr *common_mover(const struct hlo_instr *instr, int *movers) {
    struct hlo_instr *mover = NULL;
    *movers = 0;
    for (int i = 0; i < instr->noperands; i++) {
        struct hlo_instr *operand = instr->operands[i];
        if (is_scalar_broadcast(operand)) continue;
        if (!is_mover(operand) || operand->ncontrol) return NULL;
        if (mover && !same_movement(mover, operand)) return NULL;
        if (mover != operand) (*movers)++;
        mover = operand;
    }
    return mover;
}

/* Nobody but this instruction has the operand moved. */
static bool is_last_user(const struct hlo_instr *mover, const struct hlo_instr *user) {
    for (const struct hlo_use *use = mover->users; use; use = use->next)
        if (use->user != user) return false;
    return mover != mover->parent->root;
}

static bool movement_pays(const struct hlo_instr *instr, const struct hlo_instr *mover,
                          int movers) {
    if (mover->opcode == OP_BROADCAST)
        return mover->operands[0]->shape->count < instr->shape->count;
    if (movers < 2) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (!is_scalar_broadcast(instr->operands[i]) && !is_last_user(instr->operands[i], instr))
            return false;
    return true;
}

static struct hlo_instr *operand_before(struct hlo_instr *instr, struct hlo_instr *operand,
                                        const struct shape *dims) {
    if (!is_scalar_broadcast(operand)) return operand->operands[0];
    const struct shape *shape =
        shape_with_type(instr->parent->module->shapes, dims, operand->shape->type);
    return rewrite_broadcast(instr, shape, operand->operands[0], 0, NULL);
}

static bool all_static(const struct hlo_instr *instr) {
    if (shape_is_dynamic(instr->shape)) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (shape_is_dynamic(instr->operands[i]->shape) ||
            !shape_same_dims(instr->operands[i]->shape, instr->shape))
            return false;
    return true;
}

enum { MOST = 4 }; /* operands */

static bool all_numbers(const struct hlo_instr *instr) {
    for (int i = 0; i < instr->noperands; i++)
        if (!is_scalar_broadcast(instr->operands[i]) || instr->operands[i]->ncontrol) return false;
    return instr->noperands > 0 && instr->shape->rank > 0;
}

/* Of numbers alone there is one result, spread out. */
static bool compute_number(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operands[MOST];
    if (!pass_may_rewrite(context)) return false;
    for (int i = 0; i < instr->noperands; i++)
        operands[i] = instr->operands[i]->operands[0];
    const struct shape *scalar = shape_scalar(instr->parent->module->shapes, instr->shape->type);
    struct hlo_instr *number = instr_clone(instr, instr->parent, instr, scalar, operands);
    instr_replace_uses(instr, rewrite_broadcast(instr, instr->shape, number, 0, NULL));
    return true;
}

static bool move(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operands[MOST];
    int movers;
    if (instr->ncontrol || instr->is_control_predecessor || instr->noperands > MOST) return false;
    if (!(opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || !all_static(instr))
        return false;
    if (all_numbers(instr)) return compute_number(context, instr);
    struct hlo_instr *mover = common_mover(instr, &movers);
    if (!mover || !movement_pays(instr, mover, movers)) return false;
    if (!shape_layout_is_default(instr->shape) ||
        !shape_layout_is_default(mover->operands[0]->shape) || !pass_may_rewrite(context))
        return false;
    const struct shape *from = mover->operands[0]->shape;
    for (int i = 0; i < instr->noperands; i++)
        operands[i] = operand_before(instr, instr->operands[i], from);
    const struct shape *shape =
        shape_with_type(instr->parent->module->shapes, from, instr->shape->type);
    struct hlo_instr *done = instr_clone(instr, instr->parent, instr, shape, operands);
    struct hlo_instr *moved = instr_clone(mover, instr->parent, instr, instr->shape, &done);
    moved->metadata = instr->metadata;
    instr_replace_uses(instr, moved);
    return true;
}

bool operation_mover_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr_has_users(instr) || computation->root == instr) changed |= move(context, instr);
    return changed;
}
