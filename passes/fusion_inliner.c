/* Fusions that the program came with (an optimised dump, the result of an earlier run) become their
 * instructions again, so that fusion decides for this target. */
#include "passes/pass.h"
#include "passes/util.h"

static bool may_inline(const struct hlo_instr *fusion) {
    return fusion->opcode == OP_FUSION && fusion->ncalled == 1 && !fusion->ncontrol &&
           !fusion->is_control_predecessor && fusion->called[0]->root &&
           fusion->called[0]->nparameters == fusion->noperands;
}

bool fusion_inliner_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (!may_inline(instr)) continue;
            if (!pass_may_rewrite(context)) return changed;
            instr_inline_called(instr);
            changed = true;
        }
    }
    return changed;
}
