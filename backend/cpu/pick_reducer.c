#include "backend/cpu/pick_reducer.h"

#include <math.h>

enum { MOST_INSTRS = 32, LEAVES = 2, KINDS = 5, PLACES = 3, ELEMENTS = KINDS * PLACES };

struct element {
    double leaf[LEAVES];
};

static bool is_known(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_PARAMETER: return shape_is_array(instr->shape);
    case OP_COMPARE:
        return instr_int(instr, ATTR_COMPARE_TYPE, ENUM_COMPARE_TYPE_FLOAT) !=
               ENUM_COMPARE_TYPE_TOTALORDER;
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_NOT: return instr->shape->type == TYPE_PRED;
    case OP_SELECT: return true;
    case OP_MINIMUM:
    case OP_MAXIMUM: return element_type_is_integral(instr->shape->type);
    default: return false;
    }
}

static bool compared(int64_t direction, double x, double y) {
    switch (direction) {
    case ENUM_DIRECTION_EQ: return x == y;
    case ENUM_DIRECTION_NE: return x != y;
    case ENUM_DIRECTION_GE: return x >= y;
    case ENUM_DIRECTION_GT: return x > y;
    case ENUM_DIRECTION_LE: return x <= y;
    default: return x < y;
    }
}

static double computed(const struct hlo_instr *instr, const double *v) {
    switch (instr->opcode) {
    case OP_COMPARE:
        return compared(instr_int(instr, ATTR_DIRECTION, ENUM_DIRECTION_EQ), v[0], v[1]);
    case OP_AND: return v[0] != 0 && v[1] != 0;
    case OP_OR: return v[0] != 0 || v[1] != 0;
    case OP_XOR: return (v[0] != 0) != (v[1] != 0);
    case OP_NOT: return v[0] == 0;
    case OP_SELECT: return v[0] != 0 ? v[1] : v[2];
    case OP_MINIMUM: return fmin(v[0], v[1]);
    default: return fmax(v[0], v[1]);
    }
}

static struct element apply(const struct hlo_computation *reducer, struct element a,
                            struct element b) {
    double value[MOST_INSTRS] = {0};
    int n = 0;
    for (struct hlo_instr *i = reducer->first; i; i = i->next, n++) {
        double operands[3] = {0};
        i->mark = n;
        if (i == reducer->root) break;
        for (int k = 0; k < i->noperands; k++)
            operands[k] = value[i->operands[k]->mark];
        value[n] = i->opcode != OP_PARAMETER ? computed(i, operands)
                   : i->parameter < LEAVES   ? a.leaf[i->parameter]
                                             : b.leaf[i->parameter - LEAVES];
    }
    struct element result;
    for (int k = 0; k < LEAVES; k++)
        result.leaf[k] = value[reducer->root->operands[k]->mark];
    return result;
}

/* Zeros count as equal: which of two that tie is picked is up to the order anyway. */
static bool same(struct element a, struct element b) {
    bool first = a.leaf[0] == b.leaf[0] || (isnan(a.leaf[0]) && isnan(b.leaf[0]));
    return first && a.leaf[1] == b.leaf[1];
}

static bool has_nan(struct element a) {
    return isnan(a.leaf[0]);
}

/* All pairs and triples of elements of which the first `skip` are left out. */
static bool obeys_laws(const struct hlo_computation *reducer, const struct element *elements,
                       int skip) {
    for (int i = skip; i < ELEMENTS; i++) {
        if (!same(apply(reducer, elements[i], elements[i]), elements[i])) return false;
        for (int j = skip; j < ELEMENTS; j++) {
            struct element both = apply(reducer, elements[i], elements[j]);
            if (!same(both, apply(reducer, elements[j], elements[i]))) return false;
            for (int k = skip; k < ELEMENTS; k++)
                if (!same(apply(reducer, both, elements[k]),
                          apply(reducer, elements[i], apply(reducer, elements[j], elements[k]))))
                    return false;
        }
    }
    return true;
}

static bool keeps_nan(const struct hlo_computation *reducer, const struct element *elements) {
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < ELEMENTS; j++)
            if (!has_nan(apply(reducer, elements[i], elements[j])) ||
                !has_nan(apply(reducer, elements[j], elements[i])))
                return false;
    return true;
}

enum pick_order pick_reducer_order(const struct hlo_computation *reducer) {
    static const double kinds[KINDS] = {NAN, -1, -0.0, 0.0, 1};
    const struct hlo_instr *root = reducer->root;
    struct element elements[ELEMENTS];
    if (root->opcode != OP_TUPLE || root->noperands != LEAVES || reducer->count > MOST_INSTRS ||
        reducer->nparameters != 2 * LEAVES)
        return PICK_IN_ORDER;
    for (const struct hlo_instr *i = reducer->first; i; i = i->next)
        if (i != root && !is_known(i)) return PICK_IN_ORDER;
    if (!element_type_is_integral(reducer->parameters[1]->shape->type)) return PICK_IN_ORDER;
    for (int i = 0; i < ELEMENTS; i++)
        elements[i] = (struct element){{kinds[i / PLACES], i % PLACES}};
    if (obeys_laws(reducer, elements, 0)) return PICK_ANY_ORDER;
    bool integral = element_type_is_integral(reducer->parameters[0]->shape->type);
    if (!obeys_laws(reducer, elements, PLACES)) return PICK_IN_ORDER;
    if (integral) return PICK_ANY_ORDER; /* there is no NaN */
    return keeps_nan(reducer, elements) ? PICK_ANY_BUT_NAN : PICK_IN_ORDER;
}
