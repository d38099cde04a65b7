/* Call inlining. Computations come callees first, so that what is inlined has no calls left in it
 * that could be; the program may grow (a callee with many callers), which is bounded. */
#include "passes/pass.h"

/* Copying stops once a module has this many instructions; the calls that are left stay calls. */
enum { MOST_INSTRUCTIONS = 4 * 1000 * 1000 };

static void inline_call(struct hlo_instr *call) {
    const struct hlo_computation *callee = call->called[0];
    struct hlo_computation *into = call->parent;
    struct arena *arena = into->module->arena;
    FOR_EACH_INSTR(instr, callee) {
        if (instr->opcode == OP_PARAMETER) {
            instr->data = call->operands[instr->parameter];
            continue;
        }
        struct hlo_instr **operands =
            arena_array(arena, (size_t)instr->noperands, sizeof *operands);
        for (int i = 0; i < instr->noperands; i++)
            operands[i] = instr->operands[i]->data;
        struct hlo_instr *copy = instr_clone(instr, into, call, NULL, operands);
        for (int i = 0; i < instr->ncontrol; i++)
            if (instr->control[i]->opcode != OP_PARAMETER)
                instr_add_control(copy, instr->control[i]->data);
        instr->data = copy;
    }
    instr_replace_uses(call, callee->root->data);
    instr_remove(call);
}

static bool may_inline(const struct hlo_instr *call) {
    if (call->opcode != OP_CALL || call->ncalled != 1 || call->ncontrol) return false;
    if (call->called[0] == call->parent || !call->called[0]->root) return false;
    /* Who orders itself after the call by a control edge would lose its anchor. */
    return call->called[0]->nparameters == call->noperands && !call->is_control_predecessor;
}

bool call_inliner_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    int64_t size = module_instruction_count(module);
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (!may_inline(instr)) continue;
            size += instr->called[0]->count;
            if (size > MOST_INSTRUCTIONS || !pass_may_rewrite(context)) return changed;
            inline_call(instr);
            changed = true;
        }
    }
    return changed;
}
