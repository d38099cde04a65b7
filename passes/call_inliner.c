/* Call inlining. The program may grow (a callee with many callers), which is bounded. */
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

/* Computations that run by other means than calls which will be gone: where to inline into. */
static void mark_roots(struct hlo_module *module) {
    FOR_EACH_COMPUTATION(computation, module) computation->mark = computation == module->entry;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    for (int i = 0; i < instr->ncalled && !may_inline(instr); i++)
        instr->called[i]->mark = 1;
}

/* Callers first: a callee's own calls are inlined where its instructions end up, so that a chain
 * of calls is copied once and not once a link. */
bool call_inliner_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    mark_roots(module);
    int64_t size = module_instruction_count(module);
    FOR_EACH_COMPUTATION(computation, module) {
        struct hlo_instr *next, *instr = computation->mark ? computation->first : NULL;
        for (; instr; instr = next) {
            next = instr->next;
            if (!may_inline(instr)) continue;
            size += instr->called[0]->count;
            if (size > MOST_INSTRUCTIONS || !pass_may_rewrite(context)) return changed;
            struct hlo_instr *before = instr->prev;
            instr_inline_called(instr);
            next = before ? before->next : computation->first;
            changed = true;
        }
    }
    return changed;
}
