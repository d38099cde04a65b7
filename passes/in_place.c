/* Which instructions can write their result over an operand. */
#include "passes/buffer_assignment.h"
#include "passes/fusion_shape.h"

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

static bool is_among(const struct hlo_instr *instr, const struct hlo_instr *const *list,
                     int count) {
    for (int i = 0; i < count; i++)
        if (list[i] == instr) return true;
    return false;
}

/* All that happens to the parameter, down to the results, happens at the element's own index: it
 * may be overwritten as it is read. In a kernel over rows, reduces are done with the row by then.
 */
static bool used_in_place(const struct hlo_instr *parameter, enum fusion_shape shape) {
    enum { MOST = 300 };
    const struct hlo_computation *body = parameter->parent;
    const struct hlo_instr *reached[MOST + 1] = {parameter};
    int count = 1;
    if (body->count > MOST) return false;
    for (const struct hlo_instr *i = body->first; i; i = i->next) {
        bool reads = false;
        for (int k = 0; k < i->noperands; k++)
            reads = reads || is_among(i->operands[k], reached, count);
        if (!reads || (i->opcode == OP_TUPLE && i == body->root)) continue;
        if (shape == FUSION_SHAPE_ROWS && i->opcode == OP_REDUCE) continue;
        if (!instr_keeps_index(i)) return false;
        reached[count++] = i;
    }
    return true;
}

static const struct hlo_instr *fused_leaf(const struct hlo_computation *body, int leaf) {
    return body->root->opcode == OP_TUPLE ? body->root->operands[leaf] : body->root;
}

/* Kernels store each element once, after they have read what they need of the same elements. */
static bool fusion_can_share(const struct hlo_instr *fusion, int operand, int leaf) {
    const struct hlo_computation *body = fusion->called[0];
    const struct hlo_instr *parameter = body->parameters[operand], *to = fused_leaf(body, leaf);
    if (!same_elements(result_leaf(fusion, leaf), fusion->operands[operand]->shape)) return false;
    enum fusion_shape shape = fusion_shape(body);
    switch (shape) {
    case FUSION_SHAPE_UPDATE: return to->operands[0] == parameter;
    case FUSION_SHAPE_LOOP:
    case FUSION_SHAPE_ROWS:
    case FUSION_SHAPE_PRODUCT: return used_in_place(parameter, shape);
    default: return false;
    }
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
