/* `sine-start(a)` is short for async-start of a computation that holds the sine alone; sine-update
 * and sine-done go on with it. The module has the long form only. */
#include <string.h>

#include "ir/parse_internal.h"

enum hlo_opcode parse_opcode(const char *text, size_t length, enum hlo_opcode *wrapped) {
    static const struct {
        const char *suffix;
        enum hlo_opcode opcode;
    } forms[] = {
        {"-start", OP_ASYNC_START}, {"-update", OP_ASYNC_UPDATE}, {"-done", OP_ASYNC_DONE}};
    *wrapped = OPCODE_INVALID;
    enum hlo_opcode opcode = opcode_from_name(text, length);
    for (int i = 0; opcode == OPCODE_INVALID && i < 3; i++) {
        size_t suffix = strlen(forms[i].suffix);
        if (length <= suffix || memcmp(text + length - suffix, forms[i].suffix, suffix) != 0)
            continue;
        *wrapped = opcode_from_name(text, length - suffix);
        if (*wrapped != OPCODE_INVALID) return forms[i].opcode;
    }
    return opcode;
}

/* The computation that `start` calls; returns its root, without attributes yet. */
static struct hlo_instr *wrap(struct parse_context *context, struct hlo_instr *start,
                              enum hlo_opcode wrapped) {
    struct hlo_computation *computation = parse_new_computation(context, "async_computation");
    computation->loc = start->loc;
    struct hlo_instr **parameters =
        arena_array(context->module->arena, (size_t)start->noperands, sizeof *parameters);
    for (int i = 0; i < start->noperands; i++) {
        const struct hlo_instr *operand = start->operands[i];
        parameters[i] = instr_new_raw(computation, OP_PARAMETER, operand ? operand->shape : NULL,
                                      opcode_name(OP_PARAMETER), 0);
        parameters[i]->parameter = i;
        parameters[i]->loc = start->loc;
        parse_leave_unnamed(context, parameters[i]);
    }
    struct hlo_instr *root = instr_new_raw(computation, wrapped, start->shape->tuple[1],
                                           opcode_name(wrapped), start->noperands);
    for (int i = 0; i < start->noperands; i++)
        instr_set_operand(root, i, parameters[i]);
    root->loc = start->loc;
    parse_leave_unnamed(context, root);
    computation->root = root;
    computation_index_parameters(computation);
    parse_place_callee(context, computation);
    instr_set_called(start, 1, &computation);
    return root;
}

/* The async-start that an update or done goes on with, or NULL. */
static const struct hlo_instr *start_of(const struct hlo_instr *instr) {
    while (instr && (instr->opcode == OP_ASYNC_UPDATE || instr->opcode == OP_ASYNC_DONE))
        instr = instr->noperands ? instr->operands[0] : NULL;
    return instr && instr->opcode == OP_ASYNC_START ? instr : NULL;
}

static bool starts(const struct hlo_instr *start, enum hlo_opcode wrapped) {
    return start && start->ncalled == 1 && start->called[0]->root &&
           start->called[0]->root->opcode == wrapped;
}

void parse_check_thread(struct parse_context *context, const struct hlo_instr *instr) {
    const char *thread = instr_text(instr, ATTR_ASYNC_EXECUTION_THREAD);
    const struct hlo_instr *start = thread ? start_of(instr) : NULL;
    if (!start || start == instr) return;
    const char *started = instr_text(start, ATTR_ASYNC_EXECUTION_THREAD);
    if (!started) started = "main";
    if (strcmp(thread, started) == 0) return;
    context->bad = true;
    diag_error(context->diag, instr->loc, "'%s' runs on thread '%s', but '%s' started it on '%s'",
               instr->name, thread, start->name, started);
}

struct hlo_instr *parse_wrapped(struct parse_context *context, struct hlo_instr *instr,
                                enum hlo_opcode wrapped, struct span where) {
    if (wrapped == OPCODE_INVALID) return instr;
    if (instr->opcode == OP_ASYNC_START) {
        if (instr->shape && shape_is_tuple(instr->shape) && instr->shape->ntuple >= 2)
            return wrap(context, instr, wrapped);
        parse_error(context, where, "%s-start needs its shape, ((operands), result, ...)",
                    opcode_name(wrapped));
        return instr;
    }
    const struct hlo_instr *operand = instr->noperands ? instr->operands[0] : NULL;
    if (operand && !starts(start_of(operand), wrapped))
        parse_error(context, where, "operand '%s' starts no %s", operand->name,
                    opcode_name(wrapped));
    return instr;
}
