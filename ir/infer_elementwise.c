/* Shapes of elementwise operations. */
#include "ir/infer_internal.h"

static bool same_dims_as_first(struct hlo_instr *instr, struct diag *diag, int index) {
    const struct shape *first = infer_operand(instr, 0), *shape = infer_operand(instr, index);
    if (infer_same_dims(first, shape)) return true;
    diag_instr_error(diag, instr,
                     "operand %d has shape %s, the dimensions of operand 0, %s, "
                     "expected",
                     index, infer_text(instr, shape), infer_text(instr, first));
    return false;
}

static bool all_arrays(struct hlo_instr *instr, struct diag *diag) {
    for (int i = 0; i < instr->noperands; i++)
        if (!infer_array_operand(instr, diag, i)) return false;
    return true;
}

static const struct shape *bad_type(struct hlo_instr *instr, struct diag *diag,
                                    const char *expected) {
    return INFER_FAIL(instr, diag, "operand 0 has element type %s, %s expected",
                      element_type_name(infer_operand(instr, 0)->type), expected);
}

static bool is_inexact(enum element_type type) {
    return element_type_is_float(type) || element_type_is_complex(type);
}

/* The kind of element that the operation works on, in words where `type` is not one; else NULL. */
static const char *wrong_operand(enum hlo_opcode opcode, enum element_type type) {
    bool integral = element_type_is_integral(type), pred = type == TYPE_PRED;
    switch (opcode) {
    case OP_ABS:
    case OP_SIGN:
        return pred || element_type_is_unsigned(type) ? "a signed, floating-point or complex type"
                                                      : NULL;
    case OP_NEGATE:
    case OP_DIVIDE:
    case OP_POWER:
    case OP_SUBTRACT:
    case OP_REMAINDER: return pred ? "an integer, floating-point or complex type" : NULL;
    case OP_CEIL:
    case OP_FLOOR:
    case OP_ROUND_NEAREST_AFZ:
    case OP_ROUND_NEAREST_EVEN:
    case OP_IS_FINITE:
    case OP_CBRT:
    case OP_ERF:
    case OP_REDUCE_PRECISION: return element_type_is_float(type) ? NULL : "a floating-point type";
    case OP_REAL:
    case OP_IMAG:
    case OP_ATAN2: return is_inexact(type) ? NULL : "a floating-point or complex type";
    case OP_COMPLEX: return type == TYPE_F32 || type == TYPE_F64 ? NULL : "f32 or f64";
    case OP_NOT:
    case OP_AND:
    case OP_OR:
    case OP_XOR: return integral || pred ? NULL : "pred or an integer type";
    case OP_COUNT_LEADING_ZEROS:
    case OP_POPCNT:
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT_ARITHMETIC:
    case OP_SHIFT_RIGHT_LOGICAL:
    case OP_MULHI: return integral ? NULL : "an integer type";
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_ADD:
    case OP_MULTIPLY: return NULL;
    default: return is_inexact(type) ? NULL : "a floating-point or complex type";
    }
}

const struct shape *infer_unary(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    if (!shape) return NULL;
    const char *expected = wrong_operand(instr->opcode, shape->type);
    if (expected) return bad_type(instr, diag, expected);
    enum element_type type = shape->type;
    if (instr->opcode == OP_IS_FINITE)
        type = TYPE_PRED;
    else if (instr->opcode == OP_ABS || instr->opcode == OP_REAL || instr->opcode == OP_IMAG)
        type = element_type_real_part(type);
    return shape_with_type(infer_table(instr), shape, type);
}

const struct shape *infer_reduce_precision(struct hlo_instr *instr, struct diag *diag) {
    int64_t exponent = instr_int(instr, ATTR_EXPONENT_BITS, 0);
    int64_t mantissa = instr_int(instr, ATTR_MANTISSA_BITS, 0);
    if (exponent < 1 || mantissa < 0)
        return INFER_FAIL(instr, diag,
                          "exponent_bits=%lld and mantissa_bits=%lld given, at least "
                          "1 and 0 expected",
                          (long long)exponent, (long long)mantissa);
    return infer_unary(instr, diag);
}

static bool check_binary(struct hlo_instr *instr, struct diag *diag) {
    if (!all_arrays(instr, diag) || !same_dims_as_first(instr, diag, 1)) return false;
    enum element_type a = infer_operand(instr, 0)->type, b = infer_operand(instr, 1)->type;
    if (a == b) return true;
    diag_instr_error(diag, instr, "operands have element types %s and %s, the same expected",
                     element_type_name(a), element_type_name(b));
    return false;
}

const struct shape *infer_binary(struct hlo_instr *instr, struct diag *diag) {
    if (!check_binary(instr, diag)) return NULL;
    const struct shape *shape = infer_operand(instr, 0);
    const char *expected = wrong_operand(instr->opcode, shape->type);
    if (expected) return bad_type(instr, diag, expected);
    enum element_type type = shape->type;
    if (instr->opcode == OP_COMPLEX) type = type == TYPE_F32 ? TYPE_C64 : TYPE_C128;
    return shape_with_type(infer_table(instr), shape, type);
}

const struct shape *infer_compare(struct hlo_instr *instr, struct diag *diag) {
    if (!check_binary(instr, diag)) return NULL;
    const struct shape *shape = infer_operand(instr, 0);
    int64_t direction = instr_int(instr, ATTR_DIRECTION, -1);
    if (element_type_is_complex(shape->type) && direction != ENUM_DIRECTION_EQ &&
        direction != ENUM_DIRECTION_NE)
        return INFER_FAIL(instr, diag, "direction=%s given for complex operands, EQ or NE expected",
                          enum_word_name((int)direction));
    return shape_with_type(infer_table(instr), shape, TYPE_PRED);
}

const struct shape *infer_clamp(struct hlo_instr *instr, struct diag *diag) {
    if (!all_arrays(instr, diag)) return NULL;
    const struct shape *value = infer_operand(instr, 1);
    for (int i = 0; i < 3; i += 2) {
        const struct shape *bound = infer_operand(instr, i);
        if (bound->type != value->type ||
            (!shape_is_scalar(bound) && !infer_same_dims(bound, value)))
            return INFER_FAIL(instr, diag,
                              "bound %s given, the shape of operand 1, %s, or a "
                              "scalar of its type expected",
                              infer_text(instr, bound), infer_text(instr, value));
    }
    return value;
}

const struct shape *infer_select(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *pred = infer_operand(instr, 0);
    const struct shape *a = infer_operand(instr, 1), *b = infer_operand(instr, 2);
    if (!all_arrays(instr, diag)) return NULL;
    if (!infer_same(a, b))
        return INFER_FAIL(instr, diag, "values of shape %s and %s given, the same expected",
                          infer_text(instr, a), infer_text(instr, b));
    if (pred->type != TYPE_PRED || (!shape_is_scalar(pred) && !infer_same_dims(pred, a)))
        return INFER_FAIL(instr, diag,
                          "operand 0 has shape %s, pred of the dimensions of %s "
                          "expected",
                          infer_text(instr, pred), infer_text(instr, a));
    return a;
}

static const struct shape *converted(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    const struct shape *written = shape ? infer_written(instr, diag) : NULL;
    if (!written) return NULL;
    if (!shape_is_array(written))
        return INFER_FAIL(instr, diag, "result shape %s given, an array expected",
                          infer_text(instr, written));
    return shape_with_type(infer_table(instr), shape, written->type);
}

const struct shape *infer_convert(struct hlo_instr *instr, struct diag *diag) {
    return converted(instr, diag);
}

const struct shape *infer_stochastic_convert(struct hlo_instr *instr, struct diag *diag) {
    if (!all_arrays(instr, diag) || !same_dims_as_first(instr, diag, 1)) return NULL;
    enum element_type type = infer_operand(instr, 0)->type, bits = infer_operand(instr, 1)->type;
    if (!element_type_is_float(type)) return bad_type(instr, diag, "a floating-point type");
    if (!element_type_is_unsigned(bits) || element_type_size(bits) != element_type_size(type))
        return INFER_FAIL(instr, diag,
                          "operand 1 has element type %s, unsigned of the width of "
                          "%s expected",
                          element_type_name(bits), element_type_name(type));
    return converted(instr, diag);
}

const struct shape *infer_bitcast_convert(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *from = infer_array_operand(instr, diag, 0);
    const struct shape *to = from ? infer_written(instr, diag) : NULL;
    if (!to) return NULL;
    if (!shape_is_array(to))
        return INFER_FAIL(instr, diag, "result shape %s given, an array expected",
                          infer_text(instr, to));
    int a = element_type_info(from->type)->bits, b = element_type_info(to->type)->bits;
    const struct shape *narrow = a < b ? from : to, *wide = a < b ? to : from;
    int ratio = a < b ? b / a : a / (b ? b : 1);
    bool fits = element_type_is_complex(from->type) == element_type_is_complex(to->type) && a &&
                b && (a < b ? b % a : a % b) == 0 &&
                narrow->rank == wide->rank + (ratio > 1 ? 1 : 0) &&
                (ratio == 1 || narrow->dims[wide->rank] == ratio);
    for (int i = 0; fits && i < wide->rank; i++)
        fits = narrow->dims[i] == wide->dims[i];
    if (!fits)
        return INFER_FAIL(instr, diag,
                          "%s given for operand %s, the same bits with a last "
                          "dimension for elements of another width expected",
                          infer_text(instr, to), infer_text(instr, from));
    return to;
}
