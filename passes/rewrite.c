#include "passes/rewrite.h"

bool same_array(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (a->shape == b->shape) return true;
    if (!shape_is_array(a->shape) || !shape_compatible(a->shape, b->shape)) return false;
    for (int i = 0; i < a->shape->rank; i++)
        if (shape_minor_to_major(a->shape, i) != shape_minor_to_major(b->shape, i)) return false;
    return true;
}

struct hlo_instr *rewrite_unary(struct hlo_instr *before, enum hlo_opcode opcode,
                                const struct shape *shape, struct hlo_instr *operand) {
    struct hlo_instr *result = instr_new(before->parent, before, opcode, shape, NULL, 1, &operand);
    result->metadata = before->metadata;
    return result;
}

struct hlo_instr *rewrite_binary(struct hlo_instr *before, enum hlo_opcode opcode,
                                 const struct shape *shape, struct hlo_instr *a,
                                 struct hlo_instr *b) {
    struct hlo_instr *operands[2] = {a, b};
    struct hlo_instr *result = instr_new(before->parent, before, opcode, shape, NULL, 2, operands);
    result->metadata = before->metadata;
    return result;
}

struct hlo_instr *rewrite_broadcast(struct hlo_instr *before, const struct shape *shape,
                                    struct hlo_instr *operand, int count, const int64_t *dims) {
    struct hlo_instr *result = rewrite_unary(before, OP_BROADCAST, shape, operand);
    instr_set_ints(result, ATTR_DIMENSIONS, count, dims);
    return result;
}

bool is_scalar_broadcast(const struct hlo_instr *instr) {
    return instr->opcode == OP_BROADCAST && instr->operands[0]->shape->rank == 0;
}

static struct hlo_instr *apply(struct pass_context *context, struct hlo_instr *instr,
                               const struct rewrite *rewrites, int count) {
    if (instr->ncontrol || instr->is_control_predecessor) return NULL;
    for (int i = 0; i < count; i++) {
        if (rewrites[i].opcode != instr->opcode) continue;
        struct hlo_instr *with = rewrites[i].apply(context, instr);
        if (with) return with;
    }
    return NULL;
}

/* What replaces an instruction may be rewritten again; each step makes it smaller, and a handful is
 * all that there can be. */
static bool rewrite_instr(struct pass_context *context, struct hlo_instr *instr,
                          const struct rewrite *rewrites, int count) {
    enum { MOST_STEPS = 16 };
    bool changed = false;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct hlo_instr *with = apply(context, instr, rewrites, count);
        if (!with || with == instr || !same_array(instr, with)) break;
        bool is_new = !instr_has_users(with);
        instr_replace_uses(instr, with);
        changed = true;
        if (!is_new) break;
        instr = with;
    }
    return changed;
}

bool rewrites_run(struct pass_context *context, struct hlo_module *module,
                  const struct rewrite *rewrites, int count) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr_has_users(instr) || computation->root == instr)
        changed |= rewrite_instr(context, instr, rewrites, count);
    return changed;
}
