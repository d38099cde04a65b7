/* Instructions from their scanned parts. */
#include <string.h>

#include "ir/parse.h"
#include "ir/parse_internal.h"
#include "ir/verify.h"

void parse_add_operand(struct parse_context *context, struct pending *pending,
                       struct operand operand) {
    pending->operands =
        arena_grow(context->module->arena, pending->operands, &pending->operand_capacity,
                   pending->noperands + 1, sizeof *pending->operands);
    pending->operands[pending->noperands++] = operand;
}

void parse_add_attr(struct parse_context *context, struct pending *pending, struct raw_attr attr) {
    pending->attrs = arena_grow(context->module->arena, pending->attrs, &pending->attr_capacity,
                                pending->nattrs + 1, sizeof *pending->attrs);
    pending->attrs[pending->nattrs++] = attr;
}

struct operand parse_name_operand(struct parse_context *context, struct span name,
                                  const struct shape *shape) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    struct hlo_instr *instr = parse_find_instr(context, text, length);
    if (!instr)
        parse_error(context, name, "'%.*s' is not defined before its use here", (int)length, text);
    else if (shape && instr->shape && !shape_compatible(shape, instr->shape))
        parse_error(context, name, "operand '%s' has shape %s, not %s as written here", instr->name,
                    shape_to_string(context->module->arena, instr->shape, false),
                    shape_to_string(context->module->arena, shape, false));
    return (struct operand){instr, name, shape};
}

/* The opcode's number; for `sine-start` and the like, ASYNC_START and *wrapped. */
static enum hlo_opcode read_opcode(const char *text, size_t length, enum hlo_opcode *wrapped) {
    static const struct {
        const char *suffix;
        enum hlo_opcode opcode;
    } async[] = {
        {"-start", OP_ASYNC_START}, {"-update", OP_ASYNC_UPDATE}, {"-done", OP_ASYNC_DONE}};
    *wrapped = OPCODE_INVALID;
    enum hlo_opcode opcode = opcode_from_name(text, length);
    for (int i = 0; opcode == OPCODE_INVALID && i < 3; i++) {
        size_t suffix = strlen(async[i].suffix);
        if (length <= suffix || memcmp(text + length - suffix, async[i].suffix, suffix) != 0)
            continue;
        *wrapped = opcode_from_name(text, length - suffix);
        if (*wrapped != OPCODE_INVALID) return async[i].opcode;
    }
    return opcode;
}

const char *parse_role_word(enum call_role role) {
    static const char *const words[ROLE_COUNT] = {"to_apply",
                                                  "calls",
                                                  "condition",
                                                  "body",
                                                  "true_computation",
                                                  "false_computation",
                                                  "branch_computations",
                                                  "called_computations",
                                                  "select",
                                                  "scatter"};
    return words[role];
}

/* Place of a role's first computation in called[] by the opcode's flags; -1: not taken. */
static int role_place(unsigned flags, enum call_role role) {
    switch (role) {
    case ROLE_TO_APPLY:
        return flags & (OP_FLAG_CALLS_ONE | OP_FLAG_CALLS_CUSTOM | OP_FLAG_CALLS_ASYNC) ? 0 : -1;
    case ROLE_CALLS:
        return flags & (OP_FLAG_CALLS_FUSION | OP_FLAG_CALLS_ASYNC | OP_FLAG_CALLS_CUSTOM) ? 0 : -1;
    case ROLE_CALLED: return flags & (OP_FLAG_CALLS_CUSTOM | OP_FLAG_CALLS_ASYNC) ? 0 : -1;
    case ROLE_CONDITION: return flags & OP_FLAG_CALLS_WHILE ? 0 : -1;
    case ROLE_BODY: return flags & OP_FLAG_CALLS_WHILE ? 1 : -1;
    case ROLE_BRANCHES:
    case ROLE_TRUE: return flags & OP_FLAG_CALLS_BRANCHES ? 0 : -1;
    case ROLE_FALSE: return flags & OP_FLAG_CALLS_BRANCHES ? 1 : -1;
    case ROLE_SELECT: return flags & OP_FLAG_CALLS_SELECT_SCATTER ? 0 : -1;
    case ROLE_SCATTER: return flags & OP_FLAG_CALLS_SELECT_SCATTER ? 1 : -1;
    default: return -1;
    }
}

static void set_called(struct parse_context *context, struct hlo_instr *instr,
                       const struct pending *pending) {
    int count = 0;
    for (int i = 0; i < pending->ncalls; i++)
        count += pending->calls[i].count;
    if (!count) return;
    struct hlo_computation **called =
        arena_array(context->module->arena, (size_t)count, sizeof *called);
    for (int i = 0; i < pending->ncalls; i++) {
        const struct raw_call *call = &pending->calls[i];
        int place = role_place(opcode_info(instr->opcode)->flags, call->role);
        if (place < 0) {
            parse_error(context, call->where, "%s takes no %s", opcode_name(instr->opcode),
                        parse_role_word(call->role));
            return;
        }
        for (int k = 0; k < call->count; k++) {
            if (place + k >= count || called[place + k] || !call->computations[k]) {
                if (!context->bad)
                    parse_error(context, call->where, "%s given twice, or another is missing",
                                parse_role_word(call->role));
                return;
            }
            called[place + k] = call->computations[k];
        }
    }
    instr_set_called(instr, count, called);
}

static void set_attrs(struct parse_context *context, struct hlo_instr *instr,
                      const struct pending *pending) {
    /* `sine-start` takes what sine takes. */
    enum hlo_opcode wrapped = instr->async_opcode ? instr->async_opcode : instr->opcode;
    for (int i = 0; i < pending->nattrs; i++) {
        const struct raw_attr *raw = &pending->attrs[i];
        const char *name = context->source + raw->name.begin;
        size_t length = raw->name.end - raw->name.begin;
        enum attr_key key = attr_from_name(name, length);
        if (key == ATTR_NONE) {
            diag_warning(context->diag, parse_loc(context, raw->name.begin),
                         "unknown attribute '%.*s' is kept but means nothing", (int)length, name);
            struct arena *arena = context->module->arena;
            instr_set_attr(instr, &(struct hlo_attr){.key = ATTR_UNKNOWN,
                                                     .name = arena_strndup(arena, name, length),
                                                     .text = arena_strndup(
                                                         arena, context->source + raw->value.begin,
                                                         raw->value.end - raw->value.begin)});
            continue;
        }
        if (!opcode_takes_attr(instr->opcode, key) && !opcode_takes_attr(wrapped, key))
            parse_error(context, raw->name, "%s takes no attribute '%.*s'",
                        opcode_name(instr->opcode), (int)length, name);
        else if (instr_attr(instr, key))
            parse_error(context, raw->name, "attribute '%.*s' given twice", (int)length, name);
        else
            parse_attr_into(context, instr, key, raw);
    }
}

static void set_contents(struct parse_context *context, struct hlo_instr *instr,
                         const struct pending *pending) {
    if (pending->has_number != (instr->opcode == OP_PARAMETER))
        parse_error(context, pending->opcode,
                    pending->has_number ? "a number is no operand of %s"
                                        : "%s needs its number, parameter(N)",
                    opcode_name(instr->opcode));
    instr->parameter = pending->number;
    if (instr->opcode != OP_CONSTANT) return;
    if (!instr->shape)
        parse_error(context, pending->opcode, "a constant needs its shape");
    else if (pending->has_literal)
        instr->literal = parse_literal_span(context, pending->literal, instr->shape);
    if (instr->literal) module_own_literal(context->module, instr->literal);
}

static const char *new_name(struct parse_context *context, const struct pending *pending,
                            enum hlo_opcode opcode) {
    if (!pending->has_name) return module_unique_name(context->module, opcode_name(opcode));
    size_t length;
    const char *text = parse_bare_name(context, pending->name, &length);
    if (text == context->source + pending->name.begin &&
        element_type_from_name(text, length) != TYPE_INVALID &&
        element_type_is_array(element_type_from_name(text, length)))
        parse_error(context, pending->name, "'%.*s' is a type, not a name", (int)length, text);
    if (parse_find_instr(context, text, length))
        parse_error(context, pending->name, "'%.*s' is defined twice in this computation",
                    (int)length, text);
    char *name = arena_strndup(context->module->arena, text, length);
    module_reserve_name(context->module, name);
    return name;
}

struct hlo_instr *parse_finish_instr(struct parse_context *context, struct pending *pending) {
    const char *text = context->source + pending->opcode.begin;
    size_t length = pending->opcode.end - pending->opcode.begin;
    enum hlo_opcode wrapped, opcode = read_opcode(text, length, &wrapped);
    if (opcode == OPCODE_INVALID) {
        parse_error(context, pending->opcode, "unknown opcode '%.*s'", (int)length, text);
        /* The name stays known, so that its uses are no errors of their own. */
        opcode = OP_TUPLE;
    }
    const char *name = new_name(context, pending, opcode);
    struct hlo_instr *instr =
        instr_new_raw(context->computation, opcode, pending->shape, name, pending->noperands);
    instr->async_opcode = wrapped;
    instr->loc =
        parse_loc(context, pending->has_name ? pending->name.begin : pending->opcode.begin);
    parse_bind(context, instr, pending);
    bool bad = context->bad;
    for (int i = 0; i < pending->noperands; i++)
        if (pending->operands[i].instr) instr_set_operand(instr, i, pending->operands[i].instr);
    set_contents(context, instr, pending);
    set_called(context, instr, pending);
    set_attrs(context, instr, pending);
    if (!instr->shape && !bad && !context->bad) {
        instr->shape = instr_infer_shape(instr, context->diag);
        if (!instr->shape) context->bad = true;
    }
    return instr;
}
