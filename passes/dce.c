/* Dead code elimination: one sweep from the end of each computation, so that what only dead
 * instructions used goes too. */
#include "passes/pass.h"
#include "passes/util.h"

static bool is_dead(const struct hlo_instr *instr) {
    if (instr->parent->root == instr || instr->opcode == OP_PARAMETER) return false;
    return !instr_has_users(instr) && !instr_has_side_effect(instr);
}

static bool sweep(struct pass_context *context, struct hlo_computation *computation) {
    bool changed = false;
    for (struct hlo_instr *instr = computation->last, *prev; instr; instr = prev) {
        prev = instr->prev;
        if (!is_dead(instr)) continue;
        if (!pass_may_rewrite(context)) return changed;
        instr_remove(instr);
        changed = true;
    }
    return changed;
}

bool dce_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    mark_side_effects(module);
    FOR_EACH_COMPUTATION(computation, module) changed |= sweep(context, computation);
    int before = module->ncomputations;
    module_sort_computations(module);
    return changed || module->ncomputations != before;
}
