/* A conditional whose branch is known is a call of that branch, which call_inliner then inlines. */
#include "passes/pass.h"
#include "passes/util.h"

/* The branch that is taken whatever the inputs are; -1: not known. Out of range is the last one. */
static int known_branch(const struct hlo_instr *instr) {
    const struct hlo_instr *index = instr->operands[0];
    if (instr->ncalled == 1) return 0;
    if (!instr_is_constant(index) || index->shape->count != 1) return -1;
    int64_t value = literal_get_int(index->literal, 0);
    if (index->shape->type == TYPE_PRED) return value ? 0 : 1;
    return value >= 0 && value < instr->ncalled ? (int)value : instr->ncalled - 1;
}

static bool simplify(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->ncontrol || instr->is_control_predecessor) return false;
    int branch = known_branch(instr);
    if (branch < 0 || branch + 1 >= instr->noperands || !pass_may_rewrite(context)) return false;
    struct hlo_instr *call = instr_new(instr->parent, instr, OP_CALL, instr->shape, NULL, 1,
                                       &instr->operands[branch + 1]);
    instr_set_called(call, 1, &instr->called[branch]);
    call->metadata = instr->metadata;
    instr_replace_uses(instr, call);
    instr_remove(instr);
    return true;
}

bool conditional_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr->opcode == OP_CONDITIONAL) changed |= simplify(context, instr);
    return changed;
}
