/* Which instructions can write their result over an operand. */
#include "passes/buffer_assignment.h"

static bool same_elements(const struct shape *a, const struct shape *b) {
    if (!shape_is_array(a) || !shape_is_array(b) || !shape_same_dims(a, b)) return false;
    if (element_type_size(a->type) != element_type_size(b->type)) return false;
    if (a->layout == b->layout) return true;
    for (int i = 0; i < a->rank; i++)
        if (shape_minor_to_major(a, i) != shape_minor_to_major(b, i)) return false;
    return true;
}

static const struct shape *result_leaf(const struct hlo_instr *instr, int leaf) {
    return shape_leaf(instr->shape, leaf);
}

/* All that happens to the parameter, down to the roots, happens at the element's own index. */
static bool used_elementwise(const struct hlo_instr *instr, const struct shape *dims) {
    for (const struct hlo_use *use = instr->users; use; use = use->next) {
        const struct hlo_instr *user = use->user;
        if (user->opcode == OP_TUPLE && user == user->parent->root) continue;
        if (!(opcode_info(user->opcode)->flags & OP_FLAG_ELEMENTWISE)) return false;
        if (!shape_same_dims(user->shape, dims)) return false;
    }
    return true;
}

/* A loop fusion that is elementwise throughout: every element of the result is computed from the
 * same elements of the operands, so the operand may be overwritten as it is read. */
static bool fusion_is_elementwise(const struct hlo_instr *fusion, const struct shape *dims) {
    const struct hlo_computation *body = fusion->called[0];
    enum { MOST = 64 };
    if (body->count > MOST) return false;
    for (const struct hlo_instr *i = body->first; i; i = i->next) {
        if (!shape_is_array(i->shape) || i->opcode == OP_CONSTANT) continue;
        if (!shape_same_dims(i->shape, dims)) continue; /* comes in through a broadcast only */
        if (!used_elementwise(i, dims)) return false;
    }
    return true;
}

static bool fusion_can_share(const struct hlo_instr *fusion, int operand, int leaf) {
    const struct shape *result = result_leaf(fusion, leaf);
    if (instr_int(fusion, ATTR_FUSION_KIND, 0) != ENUM_FUSION_KIND_LOOP) return false;
    if (!same_elements(result, fusion->operands[operand]->shape)) return false;
    return fusion_is_elementwise(fusion, result);
}

bool instr_can_share(const struct hlo_instr *instr, int operand, int leaf) {
    const struct shape *from = instr->operands[operand]->shape;
    if (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE)
        return same_elements(from, instr->shape);
    switch (instr->opcode) {
    case OP_DYNAMIC_UPDATE_SLICE: return operand == 0 && same_elements(from, instr->shape);
    case OP_SCATTER: /* operands first, as many as there are results; then indices, updates */
        return operand == leaf && operand < instr->noperands / 2 &&
               same_elements(from, result_leaf(instr, leaf));
    case OP_SORT: return operand == leaf && same_elements(from, result_leaf(instr, leaf));
    case OP_FUSION: return fusion_can_share(instr, operand, leaf);
    default: return false;
    }
}
