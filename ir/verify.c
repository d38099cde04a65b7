/* The verifier: structure first, then the shape of each instruction. */
#include <inttypes.h>
#include <stdlib.h>

#include "ir/infer_internal.h"

/* Compatible, but that element types of floats may differ (mixed precision) and dynamic
 * dimensions may be written as static ones. */
static bool shapes_agree(const struct shape *got, const struct shape *want)
{
    if (got->plain == want->plain)
        return true;
    if (shape_is_tuple(got) && shape_is_tuple(want) && got->ntuple == want->ntuple) {
        for (int i = 0; i < got->ntuple; i++)
            if (!shapes_agree(got->tuple[i], want->tuple[i]))
                return false;
        return true;
    }
    if (!shape_is_array(got) || !shape_is_array(want) || got->rank != want->rank)
        return false;
    if (got->type != want->type &&
        !(element_type_is_float(got->type) && element_type_is_float(want->type)))
        return false;
    for (int i = 0; i < got->rank; i++)
        if (got->dims[i] != want->dims[i])
            return shape_is_dynamic(got) || shape_is_dynamic(want);
    return true;
}

static bool layout_valid(const struct shape *shape)
{
    uint64_t seen = 0;

    if (shape_is_tuple(shape)) {
        for (int i = 0; i < shape->ntuple; i++)
            if (!layout_valid(shape->tuple[i]))
                return false;
        return true;
    }
    if (!shape->layout)
        return true;
    if (shape->layout->rank != shape->rank)
        return false;
    for (int i = 0; i < shape->rank; i++) {
        int64_t dim = shape->layout->minor_to_major[i];

        if (dim < 0 || dim >= shape->rank || seen >> dim & 1)
            return false;
        seen |= (uint64_t)1 << dim;
    }
    return true;
}

static bool verify_attrs(struct hlo_instr *instr, struct diag *diag)
{
    const struct opcode_attr *attr = opcode_info(instr->opcode)->attrs;

    for (; attr && attr->key != ATTR_NONE; attr++)
        if (attr->required && !instr_attr(instr, attr->key)) {
            diag_instr_error(diag, instr, "has no %s, which it must have", attr_name(attr->key));
            return false;
        }
    return true;
}

/* Marks are the positions in the list: an operand must have one, lower than its user's. */
static bool verify_order(struct hlo_instr *instr, struct diag *diag)
{
    for (int i = 0; i < instr->noperands + instr->ncontrol; i++) {
        struct hlo_instr *before =
            i < instr->noperands ? instr->operands[i] : instr->control[i - instr->noperands];

        if (!before) {
            diag_instr_error(diag, instr, "operand %d is missing", i);
            return false;
        }
        if (before->parent != instr->parent || before->mark >= instr->mark) {
            diag_instr_error(diag, instr, "uses %s, expected an instruction that stands before "
                             "it in the same computation", before->name);
            return false;
        }
    }
    return true;
}

static bool called_count_valid(struct hlo_instr *instr, struct diag *diag)
{
    unsigned flags = opcode_info(instr->opcode)->flags;
    int expected = flags & (OP_FLAG_CALLS_WHILE | OP_FLAG_CALLS_SELECT_SCATTER)  ? 2
                   : flags & (OP_FLAG_CALLS_ONE | OP_FLAG_CALLS_FUSION)          ? 1
                   : flags & OP_FLAG_CALLS_BRANCHES ? instr->noperands - 1
                                                    : instr->ncalled;

    if (instr->ncalled == expected)
        return true;
    diag_instr_error(diag, instr, "calls %d computations, expected %d", instr->ncalled, expected);
    return false;
}

/* A called computation's parameters are the operands from `first` on. */
static bool takes_operands(struct hlo_instr *instr, struct diag *diag,
                           const struct hlo_computation *called, int first, int count)
{
    if (called->nparameters != count) {
        diag_instr_error(diag, instr, "%s has %d parameters, expected %d", called->name,
                         called->nparameters, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        const struct shape *got = instr->operands[first + i]->shape;
        const struct shape *want = called->parameters[i]->shape;

        if (!shapes_agree(got, want)) {
            diag_instr_error(diag, instr, "operand %d is %s, expected %s as parameter %d of %s",
                             first + i, infer_text(instr, got), infer_text(instr, want), i,
                             called->name);
            return false;
        }
    }
    return true;
}

static bool returns(struct hlo_instr *instr, struct diag *diag,
                    const struct hlo_computation *called, const struct shape *want)
{
    if (shapes_agree(called->root->shape, want))
        return true;
    diag_instr_error(diag, instr, "%s returns %s, expected %s", called->name,
                     infer_text(instr, called->root->shape), infer_text(instr, want));
    return false;
}

static bool returns_pred(struct hlo_instr *instr, struct diag *diag,
                         const struct hlo_computation *called)
{
    const struct shape *shape = called->root->shape;

    if (shape_is_scalar(shape) && shape->type == TYPE_PRED)
        return true;
    diag_instr_error(diag, instr, "%s returns %s, expected pred[]", called->name,
                     infer_text(instr, shape));
    return false;
}

static bool verify_calls(struct hlo_instr *instr, struct diag *diag)
{
    struct hlo_computation **called = instr->called;

    for (int i = 0; i < instr->ncalled; i++)
        if (!called[i]->root || !called[i]->root->shape)
            return false;
    switch (instr->opcode) {
    case OP_CALL:
    case OP_FUSION:
        return takes_operands(instr, diag, called[0], 0, instr->noperands) &&
               returns(instr, diag, called[0], instr->shape);
    case OP_WHILE:
        return takes_operands(instr, diag, called[0], 0, 1) &&
               takes_operands(instr, diag, called[1], 0, 1) &&
               returns_pred(instr, diag, called[0]) &&
               returns(instr, diag, called[1], instr->shape);
    case OP_CONDITIONAL:
        for (int i = 0; i < instr->ncalled; i++)
            if (!takes_operands(instr, diag, called[i], i + 1, 1) ||
                !returns(instr, diag, called[i], instr->shape))
                return false;
        return true;
    case OP_SORT:
        if (called[0]->nparameters != 2 * instr->noperands) {
            diag_instr_error(diag, instr, "%s has %d parameters, expected %d", called[0]->name,
                             called[0]->nparameters, 2 * instr->noperands);
            return false;
        }
        return returns_pred(instr, diag, called[0]);
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
        if (instr->noperands % 2 == 0 && called[0]->nparameters == instr->noperands)
            return true;
        diag_instr_error(diag, instr, "%s has %d parameters and there are %d operands, expected "
                         "as many of both, and an even number", called[0]->name,
                         called[0]->nparameters, instr->noperands);
        return false;
    default:
        return true;
    }
}

static bool verify_instr(struct hlo_instr *instr, struct diag *diag)
{
    const struct shape *want;

    if (!verify_order(instr, diag) || !verify_attrs(instr, diag) ||
        !called_count_valid(instr, diag))
        return false;
    if (instr->shape && !layout_valid(instr->shape)) {
        diag_instr_error(diag, instr, "the layout of its shape is no permutation of its "
                         "dimensions");
        return false;
    }
    want = instr_infer_shape(instr, diag);
    if (!want)
        return false;
    if (!instr->shape)
        instr->shape = want;
    if (!shapes_agree(instr->shape, want)) {
        diag_instr_error(diag, instr, "result is written as %s, expected %s",
                         infer_text(instr, instr->shape), infer_text(instr, want));
        return false;
    }
    return verify_calls(instr, diag);
}

bool computation_verify(struct hlo_computation *computation, struct diag *diag)
{
    int errors = diag->errors, mark = 0;

    if (!computation->root || computation->root->parent != computation) {
        diag_error(diag, computation->loc, "%s has no root", computation->name);
        return false;
    }
    if (!computation_index_parameters(computation)) {
        diag_error(diag, computation->loc,
                   "the parameter numbers of %s have gaps or repeat, expected 0, 1, 2, ...",
                   computation->name);
        return false;
    }
    FOR_EACH_INSTR(instr, computation)
        instr->mark = mark++;
    FOR_EACH_INSTR(instr, computation)
        verify_instr(instr, diag);
    return diag->errors == errors;
}

/* Kahn's algorithm over calls: what is left over calls itself. */
static bool verify_no_recursion(struct hlo_module *module, struct diag *diag)
{
    struct hlo_computation **ready = calloc(module->ncomputations + 1, sizeof *ready);
    int count = 0, done = 0, total = 0;

    if (!ready)
        abort();
    FOR_EACH_COMPUTATION(c, module)
        c->mark = 0;
    FOR_EACH_COMPUTATION(c, module)
        FOR_EACH_INSTR(i, c)
            for (int k = 0; k < i->ncalled; k++)
                i->called[k]->mark++;
    FOR_EACH_COMPUTATION(c, module) {
        total++;
        if (!c->mark && count < module->ncomputations)
            ready[count++] = c;
    }
    while (done < count) {
        FOR_EACH_INSTR(i, ready[done])
            for (int k = 0; k < i->ncalled; k++)
                if (--i->called[k]->mark == 0 && count < module->ncomputations)
                    ready[count++] = i->called[k];
        done++;
    }
    free(ready);
    if (count == total)
        return true;
    FOR_EACH_COMPUTATION(c, module)
        if (c->mark) {
            diag_error(diag, c->loc, "%s is part of a cycle of calls, expected none", c->name);
            break;
        }
    return false;
}

static void verify_entry_layout(struct hlo_module *module, struct diag *diag)
{
    const struct hlo_computation *entry = module->entry;

    if (!module->entry_result || !entry->root || !entry->root->shape)
        return;
    if (module->nentry_parameters != entry->nparameters) {
        diag_error(diag, entry->loc,
                   "entry_computation_layout has %d parameters, expected %d as %s has",
                   module->nentry_parameters, entry->nparameters, entry->name);
        return;
    }
    for (int i = 0; i < entry->nparameters; i++)
        if (!shapes_agree(module->entry_parameters[i], entry->parameters[i]->shape))
            diag_instr_error(diag, entry->parameters[i], "entry_computation_layout has %s, "
                             "expected %s", infer_text(entry->root, module->entry_parameters[i]),
                             infer_text(entry->root, entry->parameters[i]->shape));
    if (!shapes_agree(module->entry_result, entry->root->shape))
        diag_instr_error(diag, entry->root, "entry_computation_layout has result %s, expected %s",
                         infer_text(entry->root, module->entry_result),
                         infer_text(entry->root, entry->root->shape));
}

bool module_verify(struct hlo_module *module, struct diag *diag)
{
    int errors = diag->errors;

    if (!module->entry) {
        diag_error(diag, (struct src_loc){1, 1}, "the module has no entry computation");
        return false;
    }
    if (!verify_no_recursion(module, diag))
        return false;
    FOR_EACH_COMPUTATION(c, module)
        computation_verify(c, diag);
    if (diag->errors == errors)
        verify_entry_layout(module, diag);
    return diag->errors == errors;
}
