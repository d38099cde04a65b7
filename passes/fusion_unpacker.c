/* Takes apart the fusions that no kernel kind fits: those that other compilers made, or people. */
#include "passes/fusion_shape.h"
#include "passes/pass.h"
#include "passes/util.h"

static bool fits_no_kernel(const struct hlo_instr *instr) {
    return instr->opcode == OP_FUSION && instr->ncalled == 1 && !instr->ncontrol &&
           !instr->is_control_predecessor && fusion_shape(instr->called[0]) == FUSION_SHAPE_NONE;
}

bool fusion_unpacker_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (!fits_no_kernel(instr) || !pass_may_rewrite(context)) continue;
            instr_inline_called(instr);
            changed = true;
        }
    }
    return changed;
}
