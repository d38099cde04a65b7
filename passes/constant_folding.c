/* Constant folding: the evaluator runs on instructions whose operands are all constants, where
 * result and work are small. Broadcasts and iotas are left: they are cheaper than their values. */
#include "ir/eval.h"
#include "passes/pass.h"
#include "passes/util.h"

static bool may_fold(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_CONSTANT:
    case OP_PARAMETER:
    case OP_BROADCAST:
    case OP_IOTA:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_COPY:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
    case OP_FUSION:
    case OP_CALL:
    case OP_WHILE:
    case OP_CUSTOM_CALL:
    case OP_BITCAST: /* depends on layouts */
    case OP_RNG_BIT_GENERATOR: return false;
    default: break;
    }
    if (!opcode_has_evaluation(instr->opcode) || instr->ncontrol) return false;
    return shape_is_array(instr->shape) && !shape_is_dynamic(instr->shape) &&
           shape_layout_is_default(instr->shape) && !instr_has_side_effect(instr);
}

static bool operands_are_constant(const struct hlo_instr *instr) {
    if (instr->noperands == 0) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (!instr_is_constant(instr->operands[i])) return false;
    return true;
}

/* The result may be as large as what it came from (a convert or reshape of a large constant), or
 * else as the bound; the evaluator counts the work. */
static bool within_bounds(const struct pass_context *context, const struct hlo_instr *instr) {
    int64_t in = 0;
    for (int i = 0; i < instr->noperands; i++)
        if (instr->operands[i]->shape->bytes > in) in = instr->operands[i]->shape->bytes;
    if (in > 64 * context->fold_max_bytes) return false;
    return instr->shape->bytes <= context->fold_max_bytes;
}

static struct literal *evaluate(struct pass_context *context, const struct hlo_instr *instr) {
    enum { FEW = 8 };
    struct literal *few[FEW], **operands = few;
    if (instr->noperands > FEW)
        operands =
            arena_array(instr->parent->module->arena, (size_t)instr->noperands, sizeof *operands);
    for (int i = 0; i < instr->noperands; i++)
        operands[i] = instr->operands[i]->literal;
    struct eval_options options = {.max_bytes = 256 * context->fold_max_bytes,
                                   .max_steps = context->fold_max_steps};
    struct diag quiet; /* what cannot be evaluated now stays as it is */
    diag_init(&quiet, "", NULL, 0);
    struct literal *result = instr_evaluate(instr, operands, &options, &quiet);
    diag_clear(&quiet);
    return result;
}

static bool fold(struct pass_context *context, struct hlo_instr *instr) {
    if (!may_fold(instr) || !operands_are_constant(instr)) return false;
    if (!within_bounds(context, instr)) return false;
    struct literal *result = evaluate(context, instr);
    if (!result) return false;
    if (!pass_may_rewrite(context)) {
        literal_unref(result);
        return false;
    }
    struct hlo_instr *constant = instr_new_constant(instr->parent, instr, result);
    constant->shape = instr->shape;
    constant->metadata = instr->metadata;
    instr_replace_uses(instr, constant);
    if (!instr->users) instr_remove(instr);
    return true;
}

bool constant_folding_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    mark_side_effects(module);
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation)
        if (instr_has_users(instr) || computation->root == instr) changed |= fold(context, instr);
    }
    return changed;
}
