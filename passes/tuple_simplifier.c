/* get-tuple-element(tuple(a, b), 1) is b; tuple(gte(t, 0), ..., gte(t, n - 1)) is t. */
#include "passes/pass.h"

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

bool tuple_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (!instr_has_users(instr) && computation->root != instr) continue;
            if (instr->opcode == OP_GET_TUPLE_ELEMENT)
                changed |= take_apart(context, instr);
            else if (instr->opcode == OP_TUPLE)
                changed |= rebuild(context, instr);
        }
    }
    return changed;
}
