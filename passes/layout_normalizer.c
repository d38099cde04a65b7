/* Makes every layout row-major, for backends that keep arrays so. A bitcast between other layouts
 * moves elements then, and becomes the transposes and the reshape that say so; everything else
 * computes the same values in any layout. */
#include "passes/pass.h"

static struct hlo_instr *transposed(struct hlo_instr *from, struct hlo_instr *before,
                                    const int64_t *dims) {
    struct shape_table *shapes = from->parent->module->shapes;
    const struct shape *shape = from->shape;
    int64_t sizes[SHAPE_MAX_RANK];
    bool identity = true;
    for (int i = 0; i < shape->rank; i++) {
        sizes[i] = shape->dims[dims[i]];
        identity = identity && dims[i] == i;
    }
    if (identity) return from;
    const struct shape *to = shape_array(shapes, shape->type, shape->rank, sizes);
    struct hlo_instr *instr = instr_new(before->parent, before, OP_TRANSPOSE, to, NULL, 1, &from);
    instr_set_ints(instr, ATTR_DIMENSIONS, shape->rank, dims);
    return instr;
}

/* dims[i]: the logical dimension that is the i-th from the major end in memory. */
static void major_to_minor(const struct shape *shape, int64_t *dims) {
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape_minor_to_major(shape, shape->rank - 1 - i);
}

/* *done becomes false where one stays that counts on its layout. */
static bool expand_bitcast(struct pass_context *context, struct hlo_instr *bitcast, bool *done) {
    struct shape_table *shapes = bitcast->parent->module->shapes;
    struct hlo_instr *operand = bitcast->operands[0];
    const struct shape *from = operand->shape, *to = bitcast->shape;
    if (!shape_is_array(from) || !shape_is_array(to) || from->bytes != to->bytes) return false;
    if (shape_layout_is_default(from) && shape_layout_is_default(to)) return false;
    if (!pass_may_rewrite(context)) return *done = false;
    int64_t order[SHAPE_MAX_RANK], inverse[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK];
    major_to_minor(from, order);
    struct hlo_instr *value = transposed(operand, bitcast, order);
    major_to_minor(to, order);
    for (int i = 0; i < to->rank; i++) {
        sizes[i] = to->dims[order[i]];
        inverse[order[i]] = i;
    }
    const struct shape *physical = shape_array(shapes, to->type, to->rank, sizes);
    value = instr_new(bitcast->parent, bitcast, from->type == to->type ? OP_RESHAPE : OP_BITCAST,
                      physical, NULL, 1, &value);
    value = transposed(value, bitcast, inverse);
    instr_replace_uses(bitcast, value);
    instr_remove(bitcast);
    return true;
}

static const struct shape *row_major(struct hlo_module *module, const struct shape *shape) {
    return shape_with_default_layouts(module->shapes, shape->plain);
}

static bool any_other_layout(struct hlo_module *module) {
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (row_major(module, instr->shape) != instr->shape) return true;
    return false;
}

/* What the program states of its parameters and result stays known where it says so at those alone.
 */
static void keep_entry_layout(struct hlo_module *module) {
    const struct hlo_computation *entry = module->entry;
    const struct shape *result = shape_with_default_layouts(module->shapes, entry->root->shape);
    bool other = row_major(module, result) != result;
    if (module->entry_result) return;
    const struct shape **parameters =
        arena_array(module->arena, (size_t)entry->nparameters + 1, sizeof *parameters);
    for (int i = 0; i < entry->nparameters; i++) {
        parameters[i] = shape_with_default_layouts(module->shapes, entry->parameters[i]->shape);
        other |= row_major(module, parameters[i]) != parameters[i];
    }
    if (!other) return;
    module->nentry_parameters = entry->nparameters;
    module->entry_parameters = parameters;
    module->entry_result = result;
}

/* The layouts change all at once: half of them would not go together. */
bool layout_normalizer_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false, done = true;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr->opcode == OP_BITCAST) changed |= expand_bitcast(context, instr, &done);
    if (!done || !any_other_layout(module) || !pass_may_rewrite(context)) return changed;
    keep_entry_layout(module);
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation) instr->shape = row_major(module, instr->shape);
    return true;
}
