#include "passes/util.h"

#include <math.h>
#include <string.h>

static bool has_own_side_effect(const struct hlo_instr *instr) {
    if (opcode_info(instr->opcode)->flags & (OP_FLAG_SIDE_EFFECT | OP_FLAG_COLLECTIVE)) return true;
    if (instr->opcode == OP_CUSTOM_CALL)
        return instr_bool(instr, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, false);
    return false;
}

bool instr_has_side_effect(const struct hlo_instr *instr) {
    if (has_own_side_effect(instr)) return true;
    for (int i = 0; i < instr->ncalled; i++)
        if (instr->called[i]->mark) return true;
    return false;
}

void mark_side_effects(struct hlo_module *module) {
    FOR_EACH_COMPUTATION(computation, module) {
        computation->mark = 0;
        FOR_EACH_INSTR(instr, computation) {
            if (!instr_has_side_effect(instr)) continue;
            computation->mark = 1;
            break;
        }
    }
}

/* Attributes may stand in any order; names and metadata do not count. */
bool instr_same_operation(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (a->opcode != b->opcode || a->shape != b->shape || a->noperands != b->noperands ||
        a->ncalled != b->ncalled || a->nattrs != b->nattrs)
        return false;
    for (int i = 0; i < a->nattrs; i++) {
        bool found = false;
        for (int j = 0; j < b->nattrs && !found; j++)
            found = a->attrs[i].key == b->attrs[j].key && attr_equal(&a->attrs[i], &b->attrs[j]);
        if (!found) return false;
    }
    return true;
}

bool instr_same_but_operands(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (!instr_same_operation(a, b)) return false;
    for (int i = 0; i < a->ncalled; i++)
        if (a->called[i] != b->called[i]) return false;
    return true;
}

bool instr_has_one_user(const struct hlo_instr *instr) {
    return instr->users && !instr->users->next && instr != instr->parent->root;
}

bool instr_is_constant(const struct hlo_instr *instr) {
    return instr->opcode == OP_CONSTANT && instr->literal && !literal_has_elided(instr->literal);
}

static bool element_is(const struct literal *literal, int64_t index, double value) {
    enum element_type type = literal->shape->type;
    if (element_type_is_complex(type)) {
        double got[2];
        literal_get_complex(literal, index, got);
        return got[0] == value && signbit(got[0]) == signbit(value) && got[1] == 0 &&
               !signbit(got[1]);
    }
    if (!element_type_is_float(type)) return literal_get_int(literal, index) == (int64_t)value;
    double got = literal_get_double(literal, index);
    return got == value && signbit(got) == signbit(value);
}

bool instr_is_splat(const struct hlo_instr *instr, double value) {
    if (instr->opcode == OP_BROADCAST) instr = instr->operands[0];
    if (!instr_is_constant(instr) || !shape_is_array(instr->shape)) return false;
    if (shape_is_dynamic(instr->shape)) return false;
    int64_t count = instr->shape->count;
    enum { MOST = 4096 }; /* large constants are seldom one number; do not look far */
    if (count < 1 || count > MOST) return false;
    for (int64_t i = 0; i < count; i++)
        if (!element_is(instr->literal, i, value)) return false;
    return true;
}

struct hlo_instr *instr_new_splat(struct hlo_instr *before, const struct shape *shape,
                                  double value) {
    struct shape_table *shapes = before->parent->module->shapes;
    const struct shape *scalar = shape_scalar(shapes, shape->type);
    struct literal *literal = literal_new(scalar);
    if (!literal) return NULL;
    if (element_type_is_float(shape->type))
        literal_set_double(literal, 0, value);
    else if (element_type_is_complex(shape->type))
        literal_set_complex(literal, 0, value, 0);
    else
        literal_set_int(literal, 0, (int64_t)value);
    struct hlo_instr *constant = instr_new_constant(before->parent, before, literal);
    if (shape->rank == 0) return constant;
    struct hlo_instr *splat =
        instr_new(before->parent, before, OP_BROADCAST, shape, NULL, 1, &constant);
    instr_set_ints(splat, ATTR_DIMENSIONS, 0, NULL);
    return splat;
}

enum hlo_opcode reducer_operation(const struct hlo_computation *reducer) {
    const struct hlo_instr *root = reducer->root;
    unsigned flags = opcode_info(root->opcode)->flags;
    /* What the root may carry besides are annotations: the operation has no attributes of its own.
     */
    bool plain = opcode_info(root->opcode)->attrs[0].key == ATTR_NONE;
    if (reducer->nparameters != 2 || root->noperands != 2 || !(flags & OP_FLAG_ELEMENTWISE) ||
        !plain)
        return OPCODE_INVALID;
    const struct hlo_instr *a = root->operands[0], *b = root->operands[1];
    if (a->opcode != OP_PARAMETER || b->opcode != OP_PARAMETER || a == b) return OPCODE_INVALID;
    if (a->parameter != 0 && !(flags & OP_FLAG_COMMUTATIVE)) return OPCODE_INVALID;
    return root->shape == a->shape && root->shape == b->shape ? root->opcode : OPCODE_INVALID;
}

static const struct shape **add_leaves(const struct shape **next, const struct shape *shape) {
    if (!shape_is_tuple(shape)) {
        *next = shape;
        return next + 1;
    }
    for (int i = 0; i < shape->ntuple; i++)
        next = add_leaves(next, shape->tuple[i]);
    return next;
}

const struct shape **shape_leaves(struct arena *arena, const struct shape *shape) {
    const struct shape **leaves = arena_array(arena, (size_t)shape->nleaves + 1, sizeof *leaves);
    add_leaves(leaves, shape);
    return leaves;
}

bool same_starts(const struct hlo_instr *slice, const struct hlo_instr *update) {
    if (slice->noperands + 1 != update->noperands) return false;
    for (int i = 1; i < slice->noperands; i++)
        if (slice->operands[i] != update->operands[i + 1]) return false;
    return true;
}

bool reads_replaced(const struct hlo_instr *instr, const struct hlo_instr *update) {
    return instr->opcode == OP_DYNAMIC_SLICE && instr->operands[0] == update->operands[0] &&
           shape_same_dims(instr->shape, update->operands[1]->shape) && same_starts(instr, update);
}

bool ints_equal(int count, const int64_t *a, const int64_t *b) {
    return count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

void instr_inline_called(struct hlo_instr *call) {
    const struct hlo_computation *callee = call->called[0];
    struct hlo_computation *into = call->parent;
    struct arena *arena = into->module->arena;
    FOR_EACH_INSTR(instr, callee) {
        if (instr->opcode == OP_PARAMETER) {
            instr->data = call->operands[instr->parameter];
            continue;
        }
        struct hlo_instr **operands =
            arena_array(arena, (size_t)instr->noperands, sizeof *operands);
        for (int i = 0; i < instr->noperands; i++)
            operands[i] = instr->operands[i]->data;
        struct hlo_instr *copy = instr_clone(instr, into, call, NULL, operands);
        for (int i = 0; i < instr->ncontrol; i++)
            if (instr->control[i]->opcode != OP_PARAMETER)
                instr_add_control(copy, instr->control[i]->data);
        instr->data = copy;
    }
    instr_replace_uses(call, callee->root->data);
    instr_remove(call);
}

/* One of the parameters, chosen by comparisons, or joined so that seeing one twice changes nothing.
 */
static bool is_choice(const struct hlo_instr *instr, int depth) {
    enum { MOST_DEPTH = 16 };
    int first = 0;
    if (depth > MOST_DEPTH) return false;
    switch (instr->opcode) {
    case OP_PARAMETER: return true;
    case OP_SELECT: first = 1; break;
    case OP_AND:
    case OP_OR:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_TUPLE: break;
    default: return false;
    }
    for (int i = first; i < instr->noperands; i++)
        if (!is_choice(instr->operands[i], depth + 1)) return false;
    return true;
}

bool reducer_only_chooses(const struct hlo_computation *reducer) {
    return is_choice(reducer->root, 0);
}
