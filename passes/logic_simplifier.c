/* Rewrites of comparisons, selections, extremes and bits. None changes NaN, infinity or the sign of
 * zero: the larger of x and -inf is x, NaN too, but not(a < b) is not a >= b for floats. */
#include <math.h>

#include "passes/rewrite.h"

/* ---- bits ---- */

/* x & x, x & all ones is x; x & 0 is 0. */
static struct hlo_instr *and_constant(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_pred(instr)) return NULL;
    struct hlo_instr *x = instr->operands[0];
    if (x != instr->operands[1]) {
        double ones = is_pred(instr) ? 1 : -1;
        bool has_ones = is_pred(instr) || element_type_is_signed(instr->shape->type);
        x = has_ones ? operand_beside(instr, ones) : NULL;
    }
    if (x) {
        MAY_REWRITE(context);
        return x;
    }
    if (!operand_beside(instr, 0)) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 0);
}

/* x | x, x | 0 is x; x | true is true. */
static struct hlo_instr *or_constant(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_pred(instr)) return NULL;
    struct hlo_instr *x = instr->operands[0];
    if (x != instr->operands[1]) x = operand_beside(instr, 0);
    if (x) {
        MAY_REWRITE(context);
        return x;
    }
    if (!is_pred(instr) || !operand_beside(instr, 1)) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 1);
}

/* x ^ 0 is x; x ^ x is 0. */
static struct hlo_instr *xor_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!is_integer(instr) && !is_pred(instr)) return NULL;
    if (instr->operands[0] == instr->operands[1]) {
        MAY_REWRITE(context);
        return instr_new_splat(instr, instr->shape, 0);
    }
    struct hlo_instr *x = operand_beside(instr, 0);
    if (x) MAY_REWRITE(context);
    return x;
}

/* not(not x). */
static struct hlo_instr *not_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *operand = instr->operands[0];
    if (operand->opcode != OP_NOT) return NULL;
    MAY_REWRITE(context);
    return operand->operands[0];
}

static struct hlo_instr *shift_by_zero(struct pass_context *context, struct hlo_instr *instr) {
    if (!instr_is_splat(instr->operands[1], 0)) return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

/* By the width and more nothing is left. */
static struct hlo_instr *shift_out(struct pass_context *context, struct hlo_instr *instr) {
    int64_t by;
    if (!splat_integer(instr->operands[1], &by)) return NULL;
    if (by >= 0 && by < element_type_info(instr->shape->type)->bits) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, 0);
}

/* ---- extremes ---- */

/* The larger or smaller of x and x. */
static struct hlo_instr *extreme_of_same(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->operands[0] != instr->operands[1]) return NULL;
    MAY_REWRITE(context);
    return instr->operands[0];
}

/* Every value of the type is at least, or at most, as large. */
static bool is_bound(const struct hlo_instr *instr, bool lowest) {
    enum element_type type = instr->shape->type;
    if (element_type_is_float(type)) return instr_is_splat(instr, lowest ? -INFINITY : INFINITY);
    if (!element_type_is_integral(type)) return false;
    int bits = element_type_info(type)->bits;
    bool sign = element_type_is_signed(type);
    uint64_t ones = UINT64_MAX >> (64 - bits), top = sign ? ones >> 1 : ones;
    int64_t value;
    return splat_integer(instr, &value) && value == (int64_t)(lowest ? (sign ? ~top : 0) : top);
}

/* The larger of x and the least there is. */
static struct hlo_instr *extreme_of_bound(struct pass_context *context, struct hlo_instr *instr) {
    for (int i = 0; i < 2; i++) {
        if (!is_bound(instr->operands[i], instr->opcode == OP_MAXIMUM)) continue;
        MAY_REWRITE(context);
        return instr->operands[1 - i];
    }
    return NULL;
}

static enum hlo_opcode opposite(enum hlo_opcode opcode) {
    return opcode == OP_MAXIMUM ? OP_MINIMUM : OP_MAXIMUM;
}

/* max(max(x, y), y) is max(x, y); of integers, max(min(x, y), y) is y: a NaN would win. */
static struct hlo_instr *extreme_twice(struct pass_context *context, struct hlo_instr *instr) {
    for (int i = 0; i < 2; i++) {
        struct hlo_instr *inner = instr->operands[i], *y = instr->operands[1 - i];
        bool same = inner->opcode == instr->opcode;
        if (!same && (inner->opcode != opposite(instr->opcode) || !is_integer(instr))) continue;
        if (inner->operands[0] != y && inner->operands[1] != y) continue;
        MAY_REWRITE(context);
        return same ? inner : y;
    }
    return NULL;
}

/* clamp(low, clamp(low, x, high), high). */
static struct hlo_instr *clamp_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *inner = instr->operands[1];
    if (inner->opcode != OP_CLAMP || inner->operands[0] != instr->operands[0] ||
        inner->operands[2] != instr->operands[2])
        return NULL;
    MAY_REWRITE(context);
    return inner;
}

/* ---- comparisons ---- */

static int64_t direction(const struct hlo_instr *compare) {
    return instr_int(compare, ATTR_DIRECTION, 0);
}

static int64_t negated(int64_t way) {
    switch (way) {
    case ENUM_DIRECTION_EQ: return ENUM_DIRECTION_NE;
    case ENUM_DIRECTION_NE: return ENUM_DIRECTION_EQ;
    case ENUM_DIRECTION_LT: return ENUM_DIRECTION_GE;
    case ENUM_DIRECTION_GE: return ENUM_DIRECTION_LT;
    case ENUM_DIRECTION_GT: return ENUM_DIRECTION_LE;
    default: return ENUM_DIRECTION_GT;
    }
}

/* x WAY y as y WAY x. */
static int64_t mirrored(int64_t way) {
    switch (way) {
    case ENUM_DIRECTION_LT: return ENUM_DIRECTION_GT;
    case ENUM_DIRECTION_GT: return ENUM_DIRECTION_LT;
    case ENUM_DIRECTION_LE: return ENUM_DIRECTION_GE;
    case ENUM_DIRECTION_GE: return ENUM_DIRECTION_LE;
    default: return way;
    }
}

/* x == x and its kind, of integers. */
static struct hlo_instr *compare_same(struct pass_context *context, struct hlo_instr *instr) {
    if (instr->operands[0] != instr->operands[1]) return NULL;
    if (!is_integer(instr->operands[0]) && !is_pred(instr->operands[0])) return NULL;
    int64_t way = direction(instr);
    bool holds = way == ENUM_DIRECTION_EQ || way == ENUM_DIRECTION_GE || way == ENUM_DIRECTION_LE;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, holds);
}

/* An integer compared with a number; the number may stand on either side. */
struct test {
    struct hlo_instr *x;
    int64_t way, number;
};

static bool compares_integer(const struct hlo_instr *instr, struct test *test) {
    if (!is_integer(instr->operands[0])) return false;
    for (int i = 0; i < 2; i++) {
        if (!splat_integer(instr->operands[1 - i], &test->number)) continue;
        test->x = instr->operands[i];
        test->way = i == 0 ? direction(instr) : mirrored(direction(instr));
        return true;
    }
    return false;
}

/* Of a value that cannot be negative: x < 0, x >= 0 and what follows for numbers below. */
static struct hlo_instr *compare_non_negative(struct pass_context *context,
                                              struct hlo_instr *instr) {
    struct test test;
    if (!compares_integer(instr, &test) || !instr_is_non_negative(test.x)) return NULL;
    if (element_type_is_unsigned(test.x->shape->type) && test.number != 0) return NULL;
    bool below = test.number < 0, known = below, holds = false;
    switch (test.way) {
    case ENUM_DIRECTION_LT: known = test.number <= 0; break;
    case ENUM_DIRECTION_GE:
        known = test.number <= 0;
        holds = true;
        break;
    case ENUM_DIRECTION_GT:
    case ENUM_DIRECTION_NE: holds = true; break;
    default: break;
    }
    if (!known) return NULL;
    MAY_REWRITE(context);
    return instr_new_splat(instr, instr->shape, holds);
}

/* Whether a truth value, or the number 0 or 1 made of it, is or is not 0 or 1. */
static struct hlo_instr *compare_truth(struct pass_context *context, struct hlo_instr *instr) {
    int64_t way = direction(instr);
    if (way != ENUM_DIRECTION_EQ && way != ENUM_DIRECTION_NE) return NULL;
    for (int i = 0; i < 2; i++) {
        struct hlo_instr *x = instr->operands[i], *number = instr->operands[1 - i];
        bool one = instr_is_splat(number, 1);
        if (!one && !instr_is_splat(number, 0)) continue;
        if (x->opcode == OP_CONVERT) x = x->operands[0];
        if (!is_pred(x) || !same_array(instr, x)) continue;
        MAY_REWRITE(context);
        if (one == (way == ENUM_DIRECTION_EQ)) return x;
        return rewrite_unary(instr, OP_NOT, instr->shape, x);
    }
    return NULL;
}

/* Of floats, where there may be NaN, only equal and unequal are each other's contrary. */
static struct hlo_instr *not_compare(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *compare = instr->operands[0];
    if (compare->opcode != OP_COMPARE) return NULL;
    int64_t way = direction(compare);
    const struct hlo_instr *x = compare->operands[0];
    bool total = is_integer(x) || is_pred(x);
    if (!total && way != ENUM_DIRECTION_EQ && way != ENUM_DIRECTION_NE) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *with = instr_clone(compare, instr->parent, instr, NULL, compare->operands);
    instr_set_int(with, ATTR_DIRECTION, negated(way));
    return with;
}

/* ---- selections ---- */

static struct hlo_instr *select_known(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *with = NULL;
    if (instr->operands[1] == instr->operands[2])
        with = instr->operands[1];
    else if (instr_is_splat(instr->operands[0], 1))
        with = instr->operands[1];
    else if (instr_is_splat(instr->operands[0], 0))
        with = instr->operands[2];
    if (with) MAY_REWRITE(context);
    return with;
}

/* Of truth values: p ? true : false is p, p ? x : false is p & x, and so on. */
static struct hlo_instr *select_truth(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *p = instr->operands[0], *x = instr->operands[1], *y = instr->operands[2];
    if (!is_pred(instr) || !same_array(instr, p)) return NULL;
    bool yes = instr_is_splat(x, 1), no = instr_is_splat(y, 0);
    if (yes && no) {
        MAY_REWRITE(context);
        return p;
    }
    if (instr_is_splat(x, 0) && instr_is_splat(y, 1)) {
        MAY_REWRITE(context);
        return rewrite_unary(instr, OP_NOT, instr->shape, p);
    }
    if (!yes && !no) return NULL;
    MAY_REWRITE(context);
    return yes ? rewrite_binary(instr, OP_OR, instr->shape, p, y)
               : rewrite_binary(instr, OP_AND, instr->shape, p, x);
}

static struct hlo_instr *select_of(struct hlo_instr *instr, struct hlo_instr *p,
                                   struct hlo_instr *x, struct hlo_instr *y) {
    struct hlo_instr *operands[3] = {p, x, y};
    return instr_clone(instr, instr->parent, instr, NULL, operands);
}

/* not p ? x : y. */
static struct hlo_instr *select_by_not(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *p = instr->operands[0];
    if (p->opcode != OP_NOT) return NULL;
    MAY_REWRITE(context);
    return select_of(instr, p->operands[0], instr->operands[2], instr->operands[1]);
}

/* p ? (p ? x : z) : y, and p ? x : (p ? z : y). */
static struct hlo_instr *select_twice(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *p = instr->operands[0];
    for (int side = 1; side <= 2; side++) {
        struct hlo_instr *inner = instr->operands[side];
        if (inner->opcode != OP_SELECT || inner->operands[0] != p) continue;
        MAY_REWRITE(context);
        return side == 1 ? select_of(instr, p, inner->operands[1], instr->operands[2])
                         : select_of(instr, p, instr->operands[1], inner->operands[2]);
    }
    return NULL;
}

/* x == y ? y : x and x != y ? x : y are x; of integers: a zero has two signs. */
static struct hlo_instr *select_equal(struct pass_context *context, struct hlo_instr *instr) {
    struct hlo_instr *compare = instr->operands[0];
    if (compare->opcode != OP_COMPARE || !is_integer(instr)) return NULL;
    int64_t way = direction(compare);
    if (way != ENUM_DIRECTION_EQ && way != ENUM_DIRECTION_NE) return NULL;
    struct hlo_instr *other = instr->operands[way == ENUM_DIRECTION_EQ ? 2 : 1];
    struct hlo_instr *equal = instr->operands[way == ENUM_DIRECTION_EQ ? 1 : 2];
    struct hlo_instr *x = compare->operands[0], *y = compare->operands[1];
    if (!(x == other && y == equal) && !(x == equal && y == other)) return NULL;
    MAY_REWRITE(context);
    return other;
}

/* ---- the table ---- */

static const struct rewrite rewrites[] = {
    {OP_AND, and_constant},
    {OP_AND, rewrite_merge_constants},
    {OP_OR, or_constant},
    {OP_OR, rewrite_merge_constants},
    {OP_XOR, xor_zero},
    {OP_XOR, rewrite_merge_constants},
    {OP_NOT, not_twice},
    {OP_NOT, not_compare},
    {OP_SHIFT_LEFT, shift_by_zero},
    {OP_SHIFT_LEFT, shift_out},
    {OP_SHIFT_RIGHT_LOGICAL, shift_by_zero},
    {OP_SHIFT_RIGHT_LOGICAL, shift_out},
    {OP_SHIFT_RIGHT_ARITHMETIC, shift_by_zero},
    {OP_MAXIMUM, extreme_of_same},
    {OP_MAXIMUM, extreme_of_bound},
    {OP_MAXIMUM, extreme_twice},
    {OP_MAXIMUM, rewrite_merge_constants},
    {OP_MINIMUM, extreme_of_same},
    {OP_MINIMUM, extreme_of_bound},
    {OP_MINIMUM, extreme_twice},
    {OP_MINIMUM, rewrite_merge_constants},
    {OP_CLAMP, clamp_twice},
    {OP_COMPARE, compare_same},
    {OP_COMPARE, compare_non_negative},
    {OP_COMPARE, compare_truth},
    {OP_SELECT, select_known},
    {OP_SELECT, select_truth},
    {OP_SELECT, select_by_not},
    {OP_SELECT, select_twice},
    {OP_SELECT, select_equal},
};

bool logic_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
