/* Where parameters and results have memory of their own that is far away: what a loop reads of them
 * is copied before it, and what it leaves as a result is copied after it, so that the loop itself
 * works on values of the program, which may be kept near. */
#include "passes/dataflow.h"
#include "passes/pass.h"

static const int64_t MOST_BYTES = 1 << 20; /* of an array: more would not be kept near */

static bool is_small(const struct shape *shape) {
    return shape_is_array(shape) && shape->bytes > 0 && shape->bytes <= MOST_BYTES;
}

static struct hlo_instr *copy_of(struct hlo_instr *source, struct hlo_instr *before) {
    struct hlo_instr *copy =
        instr_new(source->parent, before, OP_COPY, source->shape, NULL, 1, &source);
    copy->metadata = source->metadata;
    copy->loc = source->loc;
    return copy;
}

/* An array that is the program's own, through a tuple's element. */
static bool is_far(const struct hlo_instr *instr) {
    while (instr->opcode == OP_GET_TUPLE_ELEMENT)
        instr = instr->operands[0];
    return instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT;
}

/* The tuple that goes into a loop, with copies of what is far. */
static bool stage_operands(struct pass_context *context, struct hlo_instr *loop) {
    struct hlo_instr *tuple = loop->operands[0];
    bool changed = false;
    if (tuple->opcode != OP_TUPLE) return false;
    for (int i = 0; i < tuple->noperands; i++) {
        struct hlo_instr *operand = tuple->operands[i];
        if (!is_small(operand->shape) || !is_far(operand) || !pass_may_rewrite(context)) continue;
        instr_set_operand(tuple, i, copy_of(operand, tuple));
        changed = true;
    }
    return changed;
}

static bool comes_from_loop(const struct hlo_instr *instr) {
    return instr->opcode == OP_GET_TUPLE_ELEMENT && instr->operands[0]->opcode == OP_WHILE;
}

static bool stage_results(struct pass_context *context, struct hlo_computation *entry) {
    struct hlo_instr *root = entry->root;
    bool changed = false;
    if (comes_from_loop(root) && is_small(root->shape) && pass_may_rewrite(context)) {
        computation_set_root(entry, copy_of(root, NULL));
        return true;
    }
    if (root->opcode != OP_TUPLE) return false;
    for (int i = 0; i < root->noperands; i++) {
        struct hlo_instr *result = root->operands[i];
        if (!comes_from_loop(result) || !is_small(result->shape)) continue;
        if (!pass_may_rewrite(context)) continue;
        instr_set_operand(root, i, copy_of(result, root));
        changed = true;
    }
    return changed;
}

bool loop_staging_run(struct pass_context *context, struct hlo_module *module) {
    struct hlo_computation *entry = module->entry;
    bool changed = stage_results(context, entry);
    FOR_EACH_INSTR(instr, entry)
    if (instr->opcode == OP_WHILE) changed |= stage_operands(context, instr);
    return changed;
}
