/* Instructions from their scanned parts. */
#include <string.h>

#include "ir/parse.h"
#include "ir/parse_internal.h"
#include "ir/verify.h"
#include "ir/word.h"

struct pending *parse_new_pending(struct parse_context *context, struct span opcode) {
    struct pending *pending = context->free_pending;
    if (pending)
        context->free_pending = pending->next_free;
    else
        pending = arena_alloc(context->module->arena, sizeof *pending);
    pending->opcode = opcode;
    return pending;
}

/* The lists keep their memory for the next instruction. */
void parse_free_pending(struct parse_context *context, struct pending *pending) {
    *pending = (struct pending){
        .next_free = context->free_pending,
        .operands = pending->operands,
        .operand_capacity = pending->operand_capacity,
        .attrs = pending->attrs,
        .attr_capacity = pending->attr_capacity,
        .calls = pending->calls,
        .call_capacity = pending->call_capacity,
    };
    context->free_pending = pending;
}

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

void parse_add_call(struct parse_context *context, struct pending *pending, struct raw_call call) {
    pending->calls = arena_grow(context->module->arena, pending->calls, &pending->call_capacity,
                                pending->ncalls + 1, sizeof *pending->calls);
    pending->calls[pending->ncalls++] = call;
}

/* `f32[2]{0}` at p: behind it, or p where no array's shape stands there. */
static const char *behind_shape(const char *p, const char *end) {
    const char *at = p;
    while (at < end && parse_has_class(*at, BYTE_KEY))
        at++;
    if (at == p || at == end || *at != '[') return p;
    at = memchr(at, ']', (size_t)(end - at));
    if (at && at + 1 < end && at[1] == '{') at = memchr(at, '}', (size_t)(end - at));
    return at ? at + 1 : p;
}

static const char *read_flat_operand(struct parse_context *context, const char *p, const char *end,
                                     struct operand *operand) {
    const char *source = context->source, *behind = behind_shape(p, end);
    struct span shape = {(uint32_t)(p - source), (uint32_t)(behind - source)};
    p = parse_skip_blanks(behind, end);
    operand->where.begin = (uint32_t)(p - source);
    if (p < end && *p == '%') p++;
    while (p < end && parse_has_class(*p, BYTE_WORD))
        p++;
    operand->where.end = (uint32_t)(p - source);
    char first = source[operand->where.begin];
    if (operand->where.end == operand->where.begin || first == '-' || first == '.' ||
        (first >= '0' && first <= '9'))
        return NULL;
    if (shape.end > shape.begin) operand->shape = parse_array_shape(context, shape);
    return p < end && *p == ':' ? p + 1 : p;
}

/* The operands between p and the ')' at `end`; false where that is no list of names. */
static bool read_flat_operands(struct parse_context *context, struct pending *pending,
                               const char *p, const char *end) {
    p = parse_skip_blanks(p, end);
    if (p < end && *p >= '0' && *p <= '9') {
        struct reader reader = {context, p, end, false};
        pending->has_number = true;
        pending->number = reader_int(&reader);
        reader_eat(&reader, ',');
        return reader_done(&reader);
    }
    while (p < end) {
        struct operand operand = {NULL, {0, 0}, NULL};
        p = read_flat_operand(context, p, end, &operand);
        if (!p) return false;
        parse_add_operand(context, pending, operand);
        p = parse_skip_blanks(p, end);
        if (p < end && *p++ != ',') return false;
        p = parse_skip_blanks(p, end);
    }
    return pending->noperands > 0;
}

struct pending *parse_flat_operands(struct parse_context *context, size_t at, size_t *end) {
    const char *p = context->source + at, *stop = context->source + context->size, *close = p;
    while (close < stop && *close != ')' && *close != '(')
        close++;
    if (close == stop || *close == '(') return NULL;
    struct pending *pending = parse_new_pending(context, (struct span){0, 0});
    *end = (size_t)(close + 1 - context->source);
    if (read_flat_operands(context, pending, p, close)) return pending;
    parse_free_pending(context, pending);
    return NULL;
}

void parse_set_shape(struct parse_context *context, struct pending *pending,
                     const struct shape *shape, struct span where) {
    if (pending->shape) parse_error(context, where, "two shapes for one result");
    pending->shape = shape;
}

/* Where the whole text is one instruction, its operands are parameters that nothing declares. */
static struct hlo_instr *undeclared(struct parse_context *context, const struct operand *operand) {
    struct hlo_computation *computation = context->computation;
    size_t length;
    const char *text = parse_bare_name(context, operand->where, &length);
    int64_t number = 0;
    for (const struct hlo_instr *instr = computation->last; instr && !number; instr = instr->prev)
        if (instr->opcode == OP_PARAMETER) number = instr->parameter + 1;
    const char *name =
        length ? arena_strndup(context->module->arena, text, length) : opcode_name(OP_PARAMETER);
    struct hlo_instr *instr = instr_new_raw(computation, OP_PARAMETER, operand->shape, name, 0);
    instr->parameter = number;
    instr->loc = parse_loc(context, operand->where.begin);
    if (!length) parse_leave_unnamed(context, instr);
    parse_bind(context, instr, &(struct pending){.has_name = length > 0});
    return instr;
}

static void find_operand(struct parse_context *context, struct operand *operand) {
    if (operand->instr) return;
    const struct shape *shape = operand->shape;
    size_t length;
    const char *text = parse_bare_name(context, operand->where, &length);
    struct hlo_instr *instr = parse_find_instr(context, text, length);
    if (!instr && context->single && !context->scope->outer && shape)
        instr = undeclared(context, operand);
    if (!instr && !length)
        parse_error(context, operand->where, "an operand needs a name");
    else if (!instr)
        parse_error(context, operand->where, "'%.*s' is not defined before its use here",
                    (int)length, text);
    else if (shape && instr->shape && !shape_compatible(shape, instr->shape))
        parse_error(context, operand->where, "operand '%s' has shape %s, not %s as written here",
                    instr->name, shape_to_string(context->module->arena, instr->shape, false),
                    shape_to_string(context->module->arena, shape, false));
    operand->instr = instr;
}

#define ROLES(X)                                                                                   \
    X(ROLE_TO_APPLY, "to_apply")                                                                   \
    X(ROLE_CALLS, "calls")                                                                         \
    X(ROLE_CONDITION, "condition")                                                                 \
    X(ROLE_BODY, "body")                                                                           \
    X(ROLE_TRUE, "true_computation")                                                               \
    X(ROLE_FALSE, "false_computation")                                                             \
    X(ROLE_BRANCHES, "branch_computations")                                                        \
    X(ROLE_CALLED, "called_computations")                                                          \
    X(ROLE_SELECT, "select")                                                                       \
    X(ROLE_SCATTER, "scatter")

static const struct word role_words[ROLE_COUNT] = {[ROLE_NONE] = WORD(""),
#define X(role, text) [role] = WORD(text),
                                                   ROLES(X)
#undef X
};

static const uint8_t role_keys[ROLE_COUNT] = {
#define X(role, text) [role] = WORD_KEY(text),
    ROLES(X)
#undef X
};

const char *parse_role_word(enum call_role role) {
    return role_words[role].text;
}

enum call_role parse_role(const char *word, size_t length) {
    return (enum call_role)word_find(role_keys, role_words, ROLE_COUNT, word, length);
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

/* A condition of pred[] chooses of two named branches, an index of a list. */
static bool suits_index(struct parse_context *context, const struct hlo_instr *instr,
                        const struct raw_call *call) {
    bool named = call->role == ROLE_TRUE || call->role == ROLE_FALSE;
    const struct hlo_instr *index = instr->noperands ? instr->operands[0] : NULL;
    if (!index || !index->shape || instr->opcode != OP_CONDITIONAL) return true;
    if (index->shape->type != (named ? TYPE_S32 : TYPE_PRED)) return true;
    parse_error(context, call->where, "%s for a condition of type %s", parse_role_word(call->role),
                element_type_name(index->shape->type));
    return false;
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
        if (!suits_index(context, instr, call)) return;
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

static void keep_unknown(struct parse_context *context, struct hlo_instr *instr,
                         const struct raw_attr *raw) {
    const char *source = context->source, *name = source + raw->name.begin;
    size_t length = raw->name.end - raw->name.begin;
    struct arena *arena = context->module->arena;
    diag_warning(context->diag, parse_loc(context, raw->name.begin),
                 "unknown attribute '%.*s' is kept but means nothing", (int)length, name);
    instr_set_attr(instr,
                   &(struct hlo_attr){.key = ATTR_UNKNOWN,
                                      .name = arena_strndup(arena, name, length),
                                      .text = arena_strndup(arena, source + raw->value.begin,
                                                            raw->value.end - raw->value.begin)});
}

/* An operation's own attributes go to `wrapped`: the instruction itself, or what it wraps. */
static void set_attrs(struct parse_context *context, struct hlo_instr *instr,
                      struct hlo_instr *wrapped, const struct pending *pending) {
    for (int i = 0; i < pending->nattrs; i++) {
        const struct raw_attr *raw = &pending->attrs[i];
        const char *name = context->source + raw->name.begin;
        size_t length = raw->name.end - raw->name.begin;
        enum attr_key key = attr_from_name(name, length);
        if (key == ATTR_NONE) {
            keep_unknown(context, instr, raw);
            continue;
        }
        struct hlo_instr *holder = opcode_takes_attr(instr->opcode, key) ? instr : wrapped;
        if (!opcode_takes_attr(holder->opcode, key))
            parse_error(context, raw->name, "%s takes no attribute '%.*s'",
                        opcode_name(holder->opcode), (int)length, name);
        else if (instr_attr(holder, key))
            parse_error(context, raw->name, "attribute '%.*s' given twice", (int)length, name);
        else
            parse_attr_into(context, holder, key, raw);
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

static bool is_keyword(const char *text, size_t length) {
    static const struct word keywords[] = {WORD("ROOT"), WORD("ENTRY"), WORD("HloModule")};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (keywords[i].length == length && memcmp(keywords[i].text, text, length) == 0)
            return true;
    return false;
}

static const char *new_name(struct parse_context *context, const struct pending *pending,
                            enum hlo_opcode opcode) {
    if (!pending->has_name) return opcode_name(opcode);
    size_t length;
    const char *text = parse_bare_name(context, pending->name, &length);
    bool bare = text == context->source + pending->name.begin;
    if (bare && element_type_is_array(element_type_from_name(text, length)))
        parse_error(context, pending->name, "'%.*s' is a type, not a name", (int)length, text);
    if (bare && is_keyword(text, length))
        parse_error(context, pending->name, "'%.*s' is a keyword, not a name", (int)length, text);
    return arena_strndup(context->module->arena, text, length);
}

struct hlo_instr *parse_finish_instr(struct parse_context *context, struct pending *pending) {
    const char *text = context->source + pending->opcode.begin;
    size_t length = pending->opcode.end - pending->opcode.begin;
    enum hlo_opcode async, opcode = parse_opcode(text, length, &async);
    if (opcode == OPCODE_INVALID) {
        parse_error(context, pending->opcode, "unknown opcode '%.*s'", (int)length, text);
        /* The name stays known, so that its uses are no errors of their own. */
        opcode = OP_TUPLE;
    }
    for (int i = 0; i < pending->noperands; i++)
        find_operand(context, &pending->operands[i]);
    const char *name = new_name(context, pending, opcode);
    struct hlo_instr *instr =
        instr_new_raw(context->computation, opcode, pending->shape, name, pending->noperands);
    instr->loc =
        parse_loc(context, pending->has_name ? pending->name.begin : pending->opcode.begin);
    if (!pending->has_name) parse_leave_unnamed(context, instr);
    parse_bind(context, instr, pending);
    bool bad = context->bad;
    for (int i = 0; i < pending->noperands; i++)
        if (pending->operands[i].instr) instr_set_operand(instr, i, pending->operands[i].instr);
    set_contents(context, instr, pending);
    struct hlo_instr *wrapped = parse_wrapped(context, instr, async, pending->opcode);
    set_called(context, wrapped, pending);
    set_attrs(context, instr, wrapped, pending);
    instr->metadata = wrapped->metadata = pending->metadata;
    parse_check_thread(context, instr);
    if (!instr->shape && !bad && !context->bad) {
        instr->shape = instr_infer_shape(instr, context->diag);
        if (!instr->shape) context->bad = true;
    }
    parse_free_pending(context, pending);
    return instr;
}
