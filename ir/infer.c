/* Shape inference: the checks that go for every opcode, and the way to each one's rule. */
#include "ir/infer_internal.h"

struct shape_table *infer_table(const struct hlo_instr *instr) {
    return instr->parent->module->shapes;
}

const char *infer_text(const struct hlo_instr *instr, const struct shape *shape) {
    return shape_to_string(instr->parent->module->arena, shape, false);
}

bool infer_same_dims(const struct shape *a, const struct shape *b) {
    if (!shape_is_array(a) || !shape_is_array(b) || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool infer_same(const struct shape *a, const struct shape *b) {
    if (a == b || a->plain == b->plain) return true;
    if (a->type != b->type || a->ntuple != b->ntuple) return false;
    if (shape_is_array(a)) return infer_same_dims(a, b);
    for (int i = 0; i < a->ntuple; i++)
        if (!infer_same(a->tuple[i], b->tuple[i])) return false;
    return true;
}

const struct shape *infer_array(struct hlo_instr *instr, struct diag *diag, enum element_type type,
                                int rank, const int64_t *dims) {
    const struct shape *shape = NULL;
    if (rank <= SHAPE_MAX_RANK) shape = shape_array(infer_table(instr), type, rank, dims);
    if (!shape)
        return INFER_FAIL(instr, diag,
                          "the result, %s of rank %d, is out of range: at most rank %d and a size "
                          "in bytes below 2^62 expected",
                          element_type_name(type), rank, SHAPE_MAX_RANK);
    return shape;
}

const struct shape *infer_tuple(struct hlo_instr *instr, struct diag *diag, int count,
                                const struct shape *const *elements) {
    const struct shape *shape = shape_tuple(infer_table(instr), count, elements);
    if (!shape)
        return INFER_FAIL(instr, diag,
                          "the result, a tuple of %d elements, is out of range: a "
                          "size in bytes below 2^62 and a depth of at most %d expected",
                          count, SHAPE_MAX_DEPTH);
    return shape;
}

const struct shape *infer_written(struct hlo_instr *instr, struct diag *diag) {
    if (!instr->shape)
        return INFER_FAIL(instr, diag, "no shape given: the shape of %s must be written",
                          opcode_name(instr->opcode));
    return instr->shape;
}

const struct shape *infer_array_operand(struct hlo_instr *instr, struct diag *diag, int index) {
    const struct shape *shape = infer_operand(instr, index);
    if (!shape_is_array(shape))
        return INFER_FAIL(instr, diag, "operand %d has shape %s, an array expected", index,
                          infer_text(instr, shape));
    return shape;
}

bool infer_check_dims(struct hlo_instr *instr, struct diag *diag, const char *what,
                      struct int_list dims, int rank) {
    for (int i = 0; i < dims.count; i++) {
        struct int_list before = {i, dims.v};
        if (dims.v[i] < 0 || dims.v[i] >= rank) {
            diag_instr_error(diag, instr, "%s has dimension %lld, one from 0 to %d expected", what,
                             (long long)dims.v[i], rank - 1);
            return false;
        }
        if (int_list_has(before, dims.v[i])) {
            diag_instr_error(diag, instr, "%s has dimension %lld twice, each once expected", what,
                             (long long)dims.v[i]);
            return false;
        }
    }
    return true;
}

const struct shape *infer_root(const struct hlo_instr *instr, int index) {
    return instr->called[index]->root->shape;
}

bool infer_check_called(struct hlo_instr *instr, struct diag *diag, int index, int count,
                        const struct shape *const *parameters) {
    const struct hlo_computation *called = instr->called[index];
    if (called->nparameters != count) {
        diag_instr_error(diag, instr, "%s takes %d parameters, %d expected", called->name,
                         called->nparameters, count);
        return false;
    }
    for (int i = 0; i < count && parameters; i++) {
        const struct hlo_instr *parameter = called->parameters[i];
        if (!parameter || !parameter->shape || !parameters[i]) continue;
        if (!infer_same(parameter->shape, parameters[i])) {
            diag_instr_error(diag, instr, "parameter %d of %s has shape %s, %s expected", i,
                             called->name, infer_text(instr, parameter->shape),
                             infer_text(instr, parameters[i]));
            return false;
        }
    }
    return true;
}

static bool check_operands(struct hlo_instr *instr, struct diag *diag) {
    const struct opcode_info *info = opcode_info(instr->opcode);
    int least = info->least_operands, most = info->most_operands;
    if (instr->noperands < least || (most >= 0 && instr->noperands > most)) {
        if (most == least)
            diag_instr_error(diag, instr, "%d operands given, %d expected", instr->noperands,
                             least);
        else if (most < 0)
            diag_instr_error(diag, instr, "%d operands given, at least %d expected",
                             instr->noperands, least);
        else
            diag_instr_error(diag, instr, "%d operands given, %d to %d expected", instr->noperands,
                             least, most);
        return false;
    }
    for (int i = 0; i < instr->noperands; i++) {
        if (instr->operands[i] && instr->operands[i]->shape) continue;
        diag_instr_error(diag, instr, "operand %d has no shape, one expected", i);
        return false;
    }
    return true;
}

static bool check_attrs(struct hlo_instr *instr, struct diag *diag) {
    const struct opcode_attr *attrs = opcode_info(instr->opcode)->attrs;
    for (; attrs && attrs->key != ATTR_NONE; attrs++) {
        if (!attrs->required || instr_attr(instr, attrs->key)) continue;
        diag_instr_error(diag, instr, "no attribute %s given, one expected", attr_name(attrs->key));
        return false;
    }
    return true;
}

static bool check_called(struct hlo_instr *instr, struct diag *diag) {
    unsigned flags = opcode_info(instr->opcode)->flags;
    int expected = 0;
    if (flags & (OP_FLAG_CALLS_ONE | OP_FLAG_CALLS_FUSION))
        expected = 1;
    else if (flags & (OP_FLAG_CALLS_WHILE | OP_FLAG_CALLS_SELECT_SCATTER))
        expected = 2;
    if (expected && instr->ncalled != expected) {
        diag_instr_error(diag, instr, "%d called computations given, %d expected", instr->ncalled,
                         expected);
        return false;
    }
    for (int i = 0; i < instr->ncalled; i++) {
        const struct hlo_computation *called = instr->called[i];
        if (called && called->root && called->root->shape) continue;
        diag_instr_error(diag, instr,
                         "called computation %d has no root with a shape, one "
                         "expected",
                         i);
        return false;
    }
    return true;
}

static bool has_unbounded(const struct shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] == SHAPE_UNBOUNDED) return true;
    for (int i = 0; i < shape->ntuple; i++)
        if (has_unbounded(shape->tuple[i])) return true;
    return false;
}

static infer_function *find_function(enum hlo_opcode opcode);

const struct shape *instr_infer_shape(struct hlo_instr *instr, struct diag *diag) {
    if (!check_operands(instr, diag) || !check_attrs(instr, diag) || !check_called(instr, diag))
        return NULL;
    bool dynamic = instr->shape && shape_is_dynamic(instr->shape);
    bool unbounded = instr->shape && has_unbounded(instr->shape);
    for (int i = 0; i < instr->noperands; i++) {
        dynamic |= shape_is_dynamic(infer_operand(instr, i));
        unbounded |= has_unbounded(infer_operand(instr, i));
    }
    if (unbounded) return infer_written(instr, diag);
    infer_function *function = find_function(instr->opcode);
    const struct shape *shape = function(instr, diag);
    if (!shape) return NULL;
    /* Which dimensions of the result are dynamic is the program's word. */
    if (dynamic && instr->shape && infer_same(shape, instr->shape)) return instr->shape->plain;
    return shape->plain ? shape->plain : shape;
}

#include "ir/infer_table.h"
