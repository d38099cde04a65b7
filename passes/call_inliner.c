/* Call inlining. Computations come callees first, so that what is inlined has no calls left in it
 * that could be; the program may grow (a callee with many callers), which is bounded. */
#include "passes/pass.h"
#include "passes/util.h"

/* Copying stops once a module has this many instructions; the calls that are left stay calls. */
enum { MOST_INSTRUCTIONS = 4 * 1000 * 1000 };

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
            instr_inline_called(instr);
            changed = true;
        }
    }
    return changed;
}
