/* Shape inference: one rule an opcode, found in a table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/infer_internal.h"

const struct shape *infer_array(struct hlo_instr *instr, struct diag *diag,
                                enum element_type type, int rank, const int64_t *dims,
                                const bool *dynamic)
{
    struct shape proto = {.type = type, .rank = rank, .dims = dims, .dynamic = dynamic};
    const char *why = "it is too large";
    const struct shape *shape = shape_intern(instr->parent->module->shapes, &proto, &why);

    if (!shape)
        diag_instr_error(diag, instr, "its result cannot be described: %s", why);
    return shape;
}

/* Short-lived text of a shape for messages; the module's arena owns it. */
const char *infer_text(const struct hlo_instr *instr, const struct shape *shape)
{
    return shape_to_string(instr->parent->module->arena, shape, false);
}

bool infer_needs_array(struct hlo_instr *instr, struct diag *diag, int operand)
{
    if (shape_is_array(instr->operands[operand]->shape))
        return true;
    diag_instr_error(diag, instr, "operand %d is %s, expected an array", operand,
                     infer_text(instr, instr->operands[operand]->shape));
    return false;
}

static const struct shape *infer_stated(struct hlo_instr *instr, struct diag *diag)
{
    if (!instr->shape)
        diag_instr_error(diag, instr, "its result shape cannot be inferred: it must be written");
    return instr->shape;
}

static const struct shape *infer_first(struct hlo_instr *instr, struct diag *diag)
{
    (void)diag;
    return instr->operands[0]->shape->plain;
}

static const struct shape *infer_unary(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    enum element_type type = a->type;

    if (!infer_needs_array(instr, diag, 0))
        return NULL;
    if (instr->opcode == OP_IS_FINITE)
        type = TYPE_PRED;
    else if (instr->opcode == OP_REAL || instr->opcode == OP_IMAG ||
             (instr->opcode == OP_ABS && element_type_is_complex(type)))
        type = element_type_real_part(type);
    return infer_array(instr, diag, type, a->rank, a->dims, a->dynamic);
}

static bool same_dims(struct hlo_instr *instr, struct diag *diag, int first, int other)
{
    const struct shape *a = instr->operands[first]->shape, *b = instr->operands[other]->shape;

    if (!infer_needs_array(instr, diag, first) || !infer_needs_array(instr, diag, other))
        return false;
    if (shape_same_dims(a, b) || shape_is_dynamic(a) || shape_is_dynamic(b))
        return true;
    diag_instr_error(diag, instr, "operand %d is %s and operand %d is %s, expected equal sizes",
                     first, infer_text(instr, a), other, infer_text(instr, b));
    return false;
}

static bool same_types(struct hlo_instr *instr, struct diag *diag, int first, int other)
{
    const struct shape *a = instr->operands[first]->shape, *b = instr->operands[other]->shape;

    if (a->type == b->type || (element_type_is_float(a->type) && element_type_is_float(b->type)))
        return true;
    diag_instr_error(diag, instr,
                     "operand %d is %s and operand %d is %s, expected equal element types", first,
                     infer_text(instr, a), other, infer_text(instr, b));
    return false;
}

static const struct shape *infer_binary(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    enum element_type type = a->type;

    if (!same_dims(instr, diag, 0, 1) || !same_types(instr, diag, 0, 1))
        return NULL;
    if (instr->opcode == OP_COMPARE)
        type = TYPE_PRED;
    if (instr->opcode == OP_COMPLEX) {
        if (type != TYPE_F32 && type != TYPE_F64) {
            diag_instr_error(diag, instr, "operands are %s, expected f32 or f64",
                             infer_text(instr, a));
            return NULL;
        }
        type = type == TYPE_F32 ? TYPE_C64 : TYPE_C128;
    }
    return infer_array(instr, diag, type, a->rank, a->dims, a->dynamic);
}

static const struct shape *infer_select(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *p = instr->operands[0]->shape, *a = instr->operands[1]->shape;

    if (!shape_is_array(p) || p->type != TYPE_PRED) {
        diag_instr_error(diag, instr, "operand 0 is %s, expected pred", infer_text(instr, p));
        return NULL;
    }
    if (!same_dims(instr, diag, 1, 2) || !same_types(instr, diag, 1, 2))
        return NULL;
    if (p->rank && !same_dims(instr, diag, 0, 1))
        return NULL;
    return a->plain;
}

static const struct shape *infer_clamp(struct hlo_instr *instr, struct diag *diag)
{
    for (int i = 0; i < 3; i += 2) {
        if (!infer_needs_array(instr, diag, i) || !infer_needs_array(instr, diag, 1) ||
            !same_types(instr, diag, i, 1))
            return NULL;
        if (instr->operands[i]->shape->rank && !same_dims(instr, diag, i, 1))
            return NULL;
    }
    return instr->operands[1]->shape->plain;
}

static const struct shape *infer_tuple(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape **elements = calloc(instr->noperands + 1, sizeof *elements);
    const struct shape *shape;

    if (!elements)
        abort();
    for (int i = 0; i < instr->noperands; i++)
        elements[i] = instr->operands[i]->shape;
    shape = shape_tuple(instr->parent->module->shapes, instr->noperands, elements);
    free(elements);
    if (!shape)
        diag_instr_error(diag, instr, "the tuple is too large or too deeply nested");
    return shape;
}

static const struct shape *infer_element(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;
    int64_t index = instr_int(instr, ATTR_INDEX, 0);

    if (!shape_is_tuple(a)) {
        diag_instr_error(diag, instr, "operand 0 is %s, expected a tuple", infer_text(instr, a));
        return NULL;
    }
    if (index < 0 || index >= a->ntuple) {
        diag_instr_error(diag, instr, "index is %" PRId64 ", expected less than %d", index,
                         a->ntuple);
        return NULL;
    }
    return a->tuple[index];
}

static const struct shape *infer_reshape(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;

    if (!infer_stated(instr, diag) || !infer_needs_array(instr, diag, 0))
        return NULL;
    if (instr->shape->type != a->type || instr->shape->count != a->count) {
        diag_instr_error(diag, instr, "result is %s, expected as many elements of the type in %s",
                         infer_text(instr, instr->shape), infer_text(instr, a));
        return NULL;
    }
    return instr->shape;
}

static const struct shape *infer_same_dims(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *a = instr->operands[0]->shape;

    if (!infer_stated(instr, diag) || !infer_needs_array(instr, diag, 0))
        return NULL;
    if (!shape_is_array(instr->shape) || !shape_same_dims(instr->shape, a)) {
        diag_instr_error(diag, instr, "result is %s, expected the sizes of %s",
                         infer_text(instr, instr->shape), infer_text(instr, a));
        return NULL;
    }
    return instr->shape;
}

static const struct shape *infer_called_root(struct hlo_instr *instr, struct diag *diag)
{
    if (!instr->ncalled || !instr->called[0]->root || !instr->called[0]->root->shape)
        return infer_stated(instr, diag);
    return instr->called[0]->root->shape;
}

typedef const struct shape *infer_rule(struct hlo_instr *instr, struct diag *diag);

static infer_rule *const rules[OPCODE_COUNT] = {
    [OP_COMPARE] = infer_binary,
    [OP_SELECT] = infer_select,
    [OP_CLAMP] = infer_clamp,
    [OP_CONVERT] = infer_same_dims,
    [OP_STOCHASTIC_CONVERT] = infer_same_dims,
    [OP_TUPLE] = infer_tuple,
    [OP_GET_TUPLE_ELEMENT] = infer_element,
    [OP_RESHAPE] = infer_reshape,
    [OP_COPY] = infer_first,
    [OP_OPT_BARRIER] = infer_first,
    [OP_REVERSE] = infer_reverse,
    [OP_WHILE] = infer_first,
    [OP_DYNAMIC_UPDATE_SLICE] = infer_dynamic_update_slice,
    [OP_CHOLESKY] = infer_first,
    [OP_CALL] = infer_called_root,
    [OP_CONDITIONAL] = infer_called_root,
    [OP_FUSION] = infer_called_root,
    [OP_TRANSPOSE] = infer_transpose,
    [OP_BROADCAST] = infer_broadcast,
    [OP_SLICE] = infer_slice,
    [OP_PAD] = infer_pad,
    [OP_CONCATENATE] = infer_concatenate,
    [OP_DOT] = infer_dot,
    [OP_DYNAMIC_SLICE] = infer_dynamic_slice,
};

const struct shape *instr_infer_shape(struct hlo_instr *instr, struct diag *diag)
{
    const struct opcode_info *info = opcode_info(instr->opcode);
    infer_rule *rule = rules[instr->opcode];

    if (instr->noperands < info->least_operands ||
        (info->most_operands >= 0 && instr->noperands > info->most_operands)) {
        diag_instr_error(diag, instr, "has %d operands, expected %s%d", instr->noperands,
                         info->most_operands != info->least_operands ? "at least " : "",
                         instr->noperands < info->least_operands ? info->least_operands
                                                                 : info->most_operands);
        return NULL;
    }
    for (int i = 0; i < instr->noperands; i++)
        if (!instr->operands[i] || !instr->operands[i]->shape) {
            diag_instr_error(diag, instr, "operand %d has no shape", i);
            return NULL;
        }
    if (!rule && info->flags & OP_FLAG_ELEMENTWISE && info->most_operands == 1)
        rule = infer_unary;
    else if (!rule && info->flags & OP_FLAG_ELEMENTWISE && info->most_operands == 2)
        rule = infer_binary;
    return rule ? rule(instr, diag) : infer_stated(instr, diag);
}
