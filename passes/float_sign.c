#include "passes/float_sign.h"

#include <math.h>

#include "ir/literal.h"
#include "passes/util.h"

enum { MOST_DEPTH = 6 };

static bool never(const struct hlo_instr *instr, int sign, int depth);

/* The elements of one value, in places that do not matter. */
static const struct hlo_instr *spread_value(const struct hlo_instr *instr) {
    while (instr->opcode == OP_BROADCAST || instr->opcode == OP_RESHAPE ||
           instr->opcode == OP_BITCAST || instr->opcode == OP_COPY)
        instr = instr->operands[0];
    return instr;
}

/* of has, for each element of x, the result of a reduction among whose elements that one is. */
static const struct hlo_instr *spread_reduce(const struct hlo_instr *of,
                                             const struct hlo_instr *x) {
    if (of->opcode != OP_BROADCAST) return NULL;
    const struct hlo_instr *reduce = of->operands[0];
    if (reduce->opcode != OP_REDUCE || reduce->noperands != 2 || reduce->operands[0] != x)
        return NULL;
    struct int_list reduced = instr_ints(reduce, ATTR_DIMENSIONS);
    struct int_list kept = instr_ints(of, ATTR_DIMENSIONS);
    int n = 0;
    for (int d = 0; d < x->shape->rank; d++) {
        if (int_list_has(reduced, d)) continue;
        if (n >= kept.count || kept.v[n++] != d) return NULL;
    }
    return n == kept.count && shape_same_dims(of->shape, x->shape) ? reduce : NULL;
}

static bool is_greatest_of(const struct hlo_instr *max, const struct hlo_instr *x) {
    const struct hlo_instr *reduce = spread_reduce(max, x);
    return reduce && reducer_operation(reduce->called[0]) == OP_MAXIMUM;
}

static bool is_sum_of(const struct hlo_instr *sum, const struct hlo_instr *x) {
    const struct hlo_instr *reduce = spread_reduce(sum, x);
    return reduce && reducer_operation(reduce->called[0]) == OP_ADD &&
           reduce->operands[1]->opcode == OP_CONSTANT &&
           literal_get_double(reduce->operands[1]->literal, 0) == 0;
}

static bool is_negated(const struct hlo_instr *instr, const struct hlo_instr *of) {
    return instr->opcode == OP_NEGATE && instr->operands[0] == of;
}

static bool product_has_sign(const struct hlo_instr *instr, int sign, int depth) {
    const struct hlo_instr *x = instr->operands[0], *y = instr->operands[1];
    if (x == y) return sign > 0;
    if (is_negated(x, y) || is_negated(y, x)) return sign < 0;
    return (never(x, 1, depth) && never(y, sign, depth)) ||
           (never(x, -1, depth) && never(y, -sign, depth));
}

/* No element has the sign opposite to `sign`, 1 or -1. */
static bool never(const struct hlo_instr *instr, int sign, int depth) {
    instr = spread_value(instr);
    if (!shape_is_array(instr->shape) || !element_type_is_float(instr->shape->type)) return false;
    if (instr->opcode == OP_CONSTANT && instr->shape->count == 1)
        return literal_get_double(instr->literal, 0) * sign >= 0;
    if (depth-- == 0) return false;
    struct hlo_instr *const *of = instr->operands;
    switch (instr->opcode) {
    case OP_ABS:
    case OP_EXPONENTIAL:
    case OP_LOGISTIC: return sign > 0;
    case OP_SQRT: return sign > 0; /* of -0 it is -0 */
    case OP_NEGATE: return never(of[0], -sign, depth);
    case OP_MULTIPLY:
    case OP_DIVIDE: return product_has_sign(instr, sign, depth);
    case OP_ADD: return never(of[0], sign, depth) && never(of[1], sign, depth);
    case OP_SUBTRACT:
        if (sign < 0 && is_greatest_of(of[1], of[0])) return true;
        if (sign > 0 && is_greatest_of(of[0], of[1])) return true;
        return never(of[0], sign, depth) && never(of[1], -sign, depth);
    case OP_MAXIMUM:
    case OP_MINIMUM: {
        bool either = (instr->opcode == OP_MAXIMUM) == (sign > 0);
        bool a = never(of[0], sign, depth), b = never(of[1], sign, depth);
        return either ? a || b : a && b;
    }
    case OP_CONVERT:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_REVERSE: return never(of[0], sign, depth);
    case OP_SELECT: return never(of[1], sign, depth) && never(of[2], sign, depth);
    default: return false;
    }
}

bool instr_is_never_positive(const struct hlo_instr *instr) {
    return never(instr, -1, MOST_DEPTH);
}

bool instr_is_never_negative(const struct hlo_instr *instr) {
    return never(instr, 1, MOST_DEPTH);
}

/* What no element is larger than, whatever its sign; infinity where that does not show, or where
 * there may be NaN. */
static double bound(const struct hlo_instr *instr, int depth) {
    instr = spread_value(instr);
    if (!shape_is_array(instr->shape)) return INFINITY;
    if (instr->opcode == OP_CONSTANT && instr->shape->count == 1 &&
        element_type_is_float(instr->shape->type)) {
        double value = fabs(literal_get_double(instr->literal, 0));
        return isnan(value) ? INFINITY : value;
    }
    if (depth-- == 0) return INFINITY;
    struct hlo_instr *const *of = instr->operands;
    switch (instr->opcode) {
    case OP_CONVERT:
        if (!element_type_is_integral(of[0]->shape->type)) return bound(of[0], depth);
        return ldexp(1, element_type_info(of[0]->shape->type)->bits);
    case OP_ADD:
    case OP_SUBTRACT: return bound(of[0], depth) + bound(of[1], depth);
    case OP_MULTIPLY: {
        double x = bound(of[0], depth), y = bound(of[1], depth);
        return isinf(x) || isinf(y) ? INFINITY : x * y;
    }
    case OP_NEGATE:
    case OP_ABS: return bound(of[0], depth);
    default: return INFINITY;
    }
}

bool divide_is_tame(const struct hlo_instr *divide) {
    static const double small = 0x1p-60, large = 0x1p60;
    const struct hlo_instr *x = divide->operands[0], *y = divide->operands[1];
    if (!element_type_is_float(divide->shape->type)) return false;
    if (x->opcode == OP_EXPONENTIAL && instr_is_never_positive(x->operands[0]) && is_sum_of(y, x))
        return true;
    y = spread_value(y);
    if (y->opcode != OP_CONSTANT || y->shape->count != 1) return false;
    double value = literal_get_double(y->literal, 0);
    return value > small && value < large && bound(x, MOST_DEPTH) < large;
}
