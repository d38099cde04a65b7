/* On a machine whose arrays lie in tiles a reshape moves elements. What takes reshapes for another
 * name of the same memory leaves those alone that stand in fusions of their own. */
#include "passes/dataflow.h"
#include "passes/pass.h"

static bool is_reshape(const struct hlo_instr *instr) {
    return (instr->opcode == OP_RESHAPE || instr->opcode == OP_BITCAST) &&
           shape_is_array(instr->shape) && shape_is_array(instr->operands[0]->shape);
}

static void wrap(struct hlo_instr *instr) {
    struct hlo_module *module = instr->parent->module;
    struct hlo_computation *body = computation_new(module, "reshape_computation", true);
    struct hlo_instr *operand = instr_new_parameter(body, 0, instr->operands[0]->shape, "param");
    computation_index_parameters(body);
    computation_set_root(body, instr_clone(instr, body, NULL, NULL, &operand));
    struct hlo_instr *fused =
        instr_new(instr->parent, instr, OP_FUSION, instr->shape, "reshape", 1, &instr->operands[0]);
    instr_set_called(fused, 1, &body);
    struct hlo_attr kind = {.key = ATTR_FUSION_KIND, .i = ENUM_FUSION_KIND_LOOP};
    instr_set_attr(fused, &kind);
    fused->metadata = instr->metadata;
    fused->loc = instr->loc;
    instr_replace_uses(instr, fused);
    instr_remove(instr);
}

bool reshape_materializer_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    mark_running_computations(module);
    FOR_EACH_COMPUTATION(computation, module) {
        if (!computation->mark) continue;
        FOR_EACH_INSTR(instr, computation) {
            if (!is_reshape(instr) || !pass_may_rewrite(context)) continue;
            wrap(instr);
            changed = true;
        }
    }
    return changed;
}
