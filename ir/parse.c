/* From tokens to a module: names, scopes, computations, instructions. */
#include "ir/parse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parse_internal.h"
#include "ir/parser.h"
#include "ir/verify.h"

int hlo_yylex_init_extra(struct parse_context *context, void **scanner);
int hlo_yylex_destroy(void *scanner);

/* ---- places ---- */

/* Whether a line ends behind byte `at`; a CR that an LF follows is part of that end. */
static bool ends_line(const struct parse_context *context, size_t at) {
    char c = context->source[at];
    if (c != '\r') return c == '\n';
    return at + 1 == context->size || context->source[at + 1] != '\n';
}

/* Offset behind the line that starts at `begin`. */
static uint32_t line_end(const struct parse_context *context, uint32_t begin) {
    if (!context->has_cr) {
        const char *line = memchr(context->source + begin, '\n', context->size - begin);
        return line ? (uint32_t)(line + 1 - context->source) : UINT32_MAX;
    }
    for (uint32_t at = begin; at < context->size; at++)
        if (ends_line(context, at)) return at + 1;
    return UINT32_MAX;
}

struct src_loc parse_loc(struct parse_context *context, size_t offset) {
    struct span *line = &context->line_bytes;
    if (context->line == 0) {
        context->line = 1;
        context->has_cr = memchr(context->source, '\r', context->size) != NULL;
        *line = (struct span){0, line_end(context, 0)};
    }
    while (offset >= line->end) {
        *line = (struct span){line->end, line_end(context, line->end)};
        context->line++;
    }
    while (offset < line->begin) {
        line->end = line->begin--;
        while (line->begin > 0 && !ends_line(context, line->begin - 1))
            line->begin--;
        context->line--;
    }
    return (struct src_loc){context->line, (uint32_t)(offset - line->begin) + 1};
}

void parse_error(struct parse_context *context, struct span where, const char *format, ...) {
    context->bad = true;
    if (context->diag->errors >= DIAG_MAX_ERRORS) { /* it will only be counted */
        diag_error(context->diag, (struct src_loc){0, 0}, "more");
        return;
    }
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    diag_error(context->diag, parse_loc(context, where.begin), "%s", message);
}

/* ---- scopes ---- */

static void *find(const struct name_table *table, const char *name, size_t length) {
    const struct name_entry *entry = name_table_find(table, name, length);
    return entry ? entry->value : NULL;
}

static void leave_scope(struct parse_context *context) {
    struct name_scope *scope = context->scope;
    context->scope = scope->outer;
    context->computation = scope->outer ? scope->outer->computation : NULL;
    name_table_clear(&scope->instrs);
    free(scope);
}

const char *parse_bare_name(const struct parse_context *context, struct span span, size_t *length) {
    const char *text = context->source + span.begin;
    *length = span.end - span.begin;
    if (*length && *text == '%') {
        text++;
        --*length;
    }
    return text;
}

struct hlo_instr *parse_find_instr(struct parse_context *context, const char *name, size_t length) {
    return context->scope ? find(&context->scope->instrs, name, length) : NULL;
}

/* ---- computations ---- */

void parse_start_module(struct parse_context *context, struct span name) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    context->module->name = arena_strndup(context->module->arena, text, length);
}

void parse_leave_unnamed(struct parse_context *context, struct hlo_instr *instr) {
    context->unnamed_instrs =
        arena_grow(context->module->arena, context->unnamed_instrs, &context->instr_capacity,
                   context->nunnamed_instrs + 1, sizeof(struct hlo_instr *));
    context->unnamed_instrs[context->nunnamed_instrs++] = instr;
}

struct hlo_computation *parse_new_computation(struct parse_context *context, const char *base) {
    context->unnamed_computations = arena_grow(
        context->module->arena, context->unnamed_computations, &context->computation_capacity,
        context->nunnamed_computations + 1, sizeof(struct hlo_computation *));
    struct hlo_computation *computation = computation_new(context->module, base, false);
    context->unnamed_computations[context->nunnamed_computations++] = computation;
    return computation;
}

/* Names in use are taken from the nodes, so those to be named have none for that moment. */
static void name_unnamed(struct parse_context *context) {
    const char **bases =
        arena_array(context->module->arena, (size_t)context->nunnamed_computations, sizeof *bases);
    for (int i = 0; i < context->nunnamed_instrs; i++)
        context->unnamed_instrs[i]->name = NULL;
    for (int i = 0; i < context->nunnamed_computations; i++) {
        bases[i] = context->unnamed_computations[i]->name;
        context->unnamed_computations[i]->name = NULL;
    }
    for (int i = 0; i < context->nunnamed_computations; i++)
        context->unnamed_computations[i]->name = module_unique_name(context->module, bases[i]);
    for (int i = 0; i < context->nunnamed_instrs; i++) {
        struct hlo_instr *instr = context->unnamed_instrs[i];
        instr->name = module_unique_name(context->module, opcode_name(instr->opcode));
    }
}

void parse_begin_computation(struct parse_context *context, struct span name, bool entry,
                             bool named) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    char *copy = arena_strndup(context->module->arena, text, length);
    if (named && find(&context->computations, text, length))
        parse_error(context, name, "computation '%s' is defined twice", copy);
    if (entry && context->entry)
        parse_error(context, name, "a second ENTRY computation; the first is '%s'",
                    context->entry->name);
    struct name_scope *scope = calloc(1, sizeof *scope);
    if (!scope) abort();
    scope->outer = context->scope;
    scope->named = named;
    context->scope = scope;
    if (++context->depth > PARSE_MAX_DEPTH)
        parse_error(context, name, "computations are nested too deeply");
    scope->computation = named ? computation_new(context->module, copy, false)
                               : parse_new_computation(context, entry ? "main" : "inline");
    context->computation = scope->computation;
    context->computation->loc = parse_loc(context, name.begin);
    if (entry && !context->entry) context->entry = context->computation;
}

/* The list wants callees first: in the order in which they end, before the one that holds all. */
void parse_place_callee(struct parse_context *context, struct hlo_computation *computation) {
    const struct name_scope *top = context->scope;
    while (top->outer)
        top = top->outer;
    struct hlo_computation *caller = top->computation;
    computation_unlink(computation);
    computation->prev = caller->prev;
    computation->next = caller;
    if (caller->prev)
        caller->prev->next = computation;
    else
        context->module->first = computation;
    caller->prev = computation;
    context->module->ncomputations++;
}

void parse_set_result(struct parse_context *context, const struct shape *shape, struct span where) {
    context->scope->result = shape;
    context->scope->result_where = where;
}

static void set_thread(struct parse_context *context, struct hlo_computation *computation,
                       const struct raw_attr *attr) {
    struct reader reader = reader_new(context, attr->value);
    const char *name = context->source + attr->name.begin;
    size_t length = attr->name.end - attr->name.begin;
    if (length == strlen("execution_thread") && memcmp(name, "execution_thread", length) == 0)
        computation->execution_thread = reader_string(&reader);
    else
        parse_error(context, attr->name, "unknown attribute '%.*s' of a computation", (int)length,
                    name);
}

/* The result that was announced, and parameters numbered from 0 on, each once. */
static void check_signature(struct parse_context *context, const struct name_scope *scope) {
    struct hlo_computation *computation = scope->computation;
    const struct shape *root = computation->root->shape, *result = scope->result;
    struct arena *arena = context->module->arena;
    if (result && root && !shape_compatible(result, root) && !shape_is_dynamic(result) &&
        !shape_is_dynamic(root))
        parse_error(context, scope->result_where, "the signature gives %s, the root is %s",
                    shape_to_string(arena, result, false), shape_to_string(arena, root, false));
    if (computation_index_parameters(computation)) return;
    FOR_EACH_INSTR(instr, computation) {
        int64_t number = instr->parameter;
        if (instr->opcode != OP_PARAMETER) continue;
        bool outside = number < 0 || number >= computation->nparameters;
        if (!outside && computation->parameters[number] == instr) continue;
        context->bad = true;
        if (number < 0)
            diag_error(context->diag, instr->loc, "parameter number %lld is below zero",
                       (long long)number);
        else if (outside)
            diag_error(context->diag, instr->loc,
                       "parameter number %lld leaves a gap: computation '%s' has %d parameters",
                       (long long)number, computation->name, computation->nparameters);
        else
            diag_error(context->diag, instr->loc, "parameter number %lld is that of '%s' too",
                       (long long)number, computation->parameters[number]->name);
        return;
    }
}

void parse_end_computation(struct parse_context *context, struct pending *attrs) {
    struct name_scope *scope = context->scope;
    struct hlo_computation *computation = scope->computation;
    if (!computation->last) {
        if (!context->bad)
            diag_error(context->diag, computation->loc, "computation '%s' has no instruction",
                       computation->name);
        context->bad = true;
    } else if (!computation->root) {
        computation->root = computation->last;
    }
    for (int i = 0; attrs && i < attrs->nattrs; i++)
        set_thread(context, computation, &attrs->attrs[i]);
    if (attrs) parse_free_pending(context, attrs);
    if (!context->bad) check_signature(context, scope);
    if (scope->outer)
        parse_place_callee(context, computation);
    else if (scope->named)
        name_table_add(&context->computations, computation->name, strlen(computation->name))
            ->value = computation;
    context->depth--;
    leave_scope(context);
}

struct hlo_computation *parse_find_computation(struct parse_context *context, struct span name) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    struct hlo_computation *found = find(&context->computations, text, length);
    if (found) return found;
    for (struct name_scope *scope = context->scope; scope; scope = scope->outer) {
        if (strncmp(scope->computation->name, text, length) != 0 ||
            scope->computation->name[length])
            continue;
        parse_error(context, name, "computation '%.*s' calls itself", (int)length, text);
        return NULL;
    }
    parse_error(context, name, "computation '%.*s' is not defined before this place", (int)length,
                text);
    return NULL;
}

void parse_bind(struct parse_context *context, struct hlo_instr *instr,
                const struct pending *pending) {
    if (pending->has_name) {
        struct name_entry *entry =
            name_table_add(&context->scope->instrs, instr->name, strlen(instr->name));
        if (entry->value)
            parse_error(context, pending->name, "'%s' is defined twice in this computation",
                        instr->name);
        else
            entry->value = instr;
    }
    if (!pending->is_root) return;
    if (instr->parent->root)
        parse_error(context, pending->name, "a second ROOT in computation '%s'; the first is '%s'",
                    instr->parent->name, instr->parent->root->name);
    else
        instr->parent->root = instr;
}

/* ---- the whole text ---- */

/* Whether 64 bytes are ASCII and none is NUL. */
static bool all_plain(const unsigned char *text) {
    const uint64_t high = 0x8080808080808080u, ones = 0x0101010101010101u;
    uint64_t odd = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t word;
        memcpy(&word, text + 8 * i, sizeof word);
        odd |= word | (word - ones);
    }
    return (odd & high) == 0;
}

/* Offset of the first byte that is NUL or no UTF-8, or size. */
static size_t bad_byte(const unsigned char *text, size_t size) {
    size_t i = 0;
    while (i < size) {
        if (size - i >= 64 && all_plain(text + i)) {
            i += 64;
            continue;
        }
        unsigned char c = text[i];
        if (c == 0) return i;
        if (c < 0x80) {
            i++;
            continue;
        }
        size_t length = c >= 0xc2 && c < 0xe0   ? 2
                        : (c & 0xf0) == 0xe0    ? 3
                        : c >= 0xf0 && c < 0xf5 ? 4
                                                : 0;
        if (!length || i + length > size) return i;
        for (size_t k = 1; k < length; k++)
            if ((text[i + k] & 0xc0) != 0x80) return i;
        i += length;
    }
    return size;
}

/* Whether the text is one instruction, without a computation around it. */
static bool is_instruction(const struct parse_context *context) {
    const char *source = context->source, *end = source + context->size;
    const char *word = parse_skip_blanks(source, end), *p = word;
    while (p < end && !strchr(" \t\r\n()[]{}=:,/", *p))
        p++;
    size_t length = (size_t)(p - word);
    if (length == 0) return p < end && *p == '('; /* a tuple's shape */
    if ((length == 9 && memcmp(word, "HloModule", 9) == 0) ||
        (length == 5 && memcmp(word, "ENTRY", 5) == 0))
        return false;
    if (length == 4 && memcmp(word, "ROOT", 4) == 0) return true;
    p = parse_skip_blanks(p, end);
    if (p < end && *p == '(') {
        /* Operands, or a signature, which a result or a body follows. */
        size_t behind;
        if (!parse_group_end(context, (size_t)(p - source), &behind)) return false;
        p = parse_skip_blanks(source + behind, end);
        return !(p < end && (*p == '-' || *p == '{'));
    }
    return p < end && strchr("=:[", *p);
}

static bool finish_module(struct parse_context *context) {
    struct hlo_module *module = context->module;
    if (context->bad) return false;
    if (!module->last) {
        /* Where one could have stood: behind the last word of the text. */
        uint32_t end = (uint32_t)context->size;
        while (end > 0 && strchr(" \t\r\n", context->source[end - 1]))
            end--;
        parse_error(context, (struct span){end, end}, "no computation in this text");
        return false;
    }
    module->entry = context->entry ? context->entry : module->last;
    name_unnamed(context);
    return true;
}

static bool run(struct parse_context *context) {
    if (context->size > INT32_MAX - 16) {
        diag_error(context->diag, (struct src_loc){0, 0}, "the text is longer than 2 GiB");
        return false;
    }
    uint32_t bad = (uint32_t)bad_byte((const unsigned char *)context->source, context->size);
    if (bad < context->size) {
        parse_error(context, (struct span){bad, bad + 1},
                    context->source[bad] ? "a byte that is not UTF-8 (0x%02x)"
                                         : "a NUL byte (0x%02x)",
                    (unsigned char)context->source[bad]);
        return false;
    }
    context->single = is_instruction(context);
    context->start = context->single ? START_INSTRUCTION : START_MODULE;
    void *scanner;
    if (hlo_yylex_init_extra(context, &scanner) != 0) abort();
    if (hlo_yyparse(scanner, context) != 0) context->bad = true;
    hlo_yylex_destroy(scanner);
    return finish_module(context);
}

static struct parse_context *context_new(struct diag *diag, const char *name) {
    struct parse_context *context = calloc(1, sizeof *context);
    if (!context) abort();
    context->diag = diag;
    context->source = diag->source ? diag->source : "";
    context->size = diag->source ? diag->source_size : 0;
    context->module = module_new(name);
    return context;
}

/* Leaves the module to the caller. */
static void context_free(struct parse_context *context) {
    while (context->scope)
        leave_scope(context);
    name_table_clear(&context->computations);
    free(context);
}

struct hlo_module *hlo_parse_unverified(struct diag *diag) {
    struct parse_context *context = context_new(diag, "module");
    struct hlo_module *module = context->module;
    bool good = run(context);
    context_free(context);
    if (good && !diag->errors) return module;
    module_free(module);
    return NULL;
}

struct hlo_module *hlo_parse(struct diag *diag) {
    struct hlo_module *module = hlo_parse_unverified(diag);
    if (!module || module_verify(module, diag)) return module;
    module_free(module);
    return NULL;
}
