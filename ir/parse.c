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
struct yy_buffer_state *hlo_yy_scan_bytes(const char *bytes, int length, void *scanner);

/* ---- places ---- */

static void find_lines(struct parse_context *context) {
    int capacity = 1024;
    context->lines = malloc((size_t)capacity * sizeof *context->lines);
    if (!context->lines) abort();
    context->lines[context->nlines++] = 0;
    /* Without CRs, as almost always, the next end of line is one fast search away. */
    bool has_cr = memchr(context->source, '\r', context->size) != NULL;
    for (size_t i = 0; i < context->size; i++) {
        if (!has_cr) {
            const char *line = memchr(context->source + i, '\n', context->size - i);
            if (!line) break;
            i = (size_t)(line - context->source);
        }
        char c = context->source[i];
        if (c != '\n' && c != '\r') continue;
        if (c == '\r' && i + 1 < context->size && context->source[i + 1] == '\n') continue;
        if (context->nlines == capacity) {
            capacity *= 2;
            context->lines = realloc(context->lines, (size_t)capacity * sizeof *context->lines);
            if (!context->lines) abort();
        }
        context->lines[context->nlines++] = i + 1;
    }
}

struct src_loc parse_loc(const struct parse_context *context, size_t offset) {
    int low = 0, high = context->nlines;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (context->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (struct src_loc){(uint32_t)low + 1, (uint32_t)(offset - context->lines[low]) + 1};
}

void parse_error(struct parse_context *context, struct span where, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    context->bad = true;
    diag_error(context->diag, parse_loc(context, where.begin), "%s", message);
}

/* ---- scopes ---- */

struct scope_entry {
    const char *name;
    uint64_t hash;
    void *value;
};

struct name_scope {
    struct name_scope *outer; /* of the computation that holds this one in place */
    struct hlo_computation *computation;
    struct scope_entry *entries;
    size_t capacity, count;
};

static struct name_scope *scope_new(void) {
    struct name_scope *scope = calloc(1, sizeof *scope);
    if (!scope) abort();
    return scope;
}

static void scope_free(struct name_scope *scope) {
    free(scope->entries);
    free(scope);
}

static uint64_t hash_bytes(const char *bytes, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash ^ (hash >> 31);
}

static struct scope_entry *scope_slot(const struct name_scope *scope, const char *name,
                                      size_t length, uint64_t hash) {
    size_t at = hash & (scope->capacity - 1);
    for (; scope->entries[at].name; at = (at + 1) & (scope->capacity - 1))
        if (scope->entries[at].hash == hash &&
            strncmp(scope->entries[at].name, name, length) == 0 &&
            scope->entries[at].name[length] == '\0')
            break;
    return &scope->entries[at];
}

static void *scope_find(const struct name_scope *scope, const char *name, size_t length) {
    if (!scope->capacity) return NULL;
    return scope_slot(scope, name, length, hash_bytes(name, length))->value;
}

static void scope_add(struct name_scope *scope, const char *name, void *value) {
    if (2 * (scope->count + 1) > scope->capacity) {
        struct name_scope old = *scope;
        scope->capacity = old.capacity ? 2 * old.capacity : 16;
        scope->entries = calloc(scope->capacity, sizeof *scope->entries);
        if (!scope->entries) abort();
        for (size_t i = 0; i < old.capacity; i++) {
            const struct scope_entry *entry = &old.entries[i];
            if (entry->name)
                *scope_slot(scope, entry->name, strlen(entry->name), entry->hash) = *entry;
        }
        free(old.entries);
    }
    uint64_t hash = hash_bytes(name, strlen(name));
    *scope_slot(scope, name, strlen(name), hash) = (struct scope_entry){name, hash, value};
    scope->count++;
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
    return context->scope ? scope_find(context->scope, name, length) : NULL;
}

/* ---- computations ---- */

void parse_start_module(struct parse_context *context, struct span name) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    context->module->name = arena_strndup(context->module->arena, text, length);
}

void parse_begin_computation(struct parse_context *context, struct span name, bool entry,
                             bool named) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    char *copy = arena_strndup(context->module->arena, text, length);
    if (named && scope_find(context->computations, text, length))
        parse_error(context, name, "computation '%s' is defined twice", copy);
    if (entry && context->entry)
        parse_error(context, name, "a second ENTRY computation; the first is '%s'",
                    context->entry->name);
    struct name_scope *scope = scope_new();
    scope->outer = context->scope;
    context->scope = scope;
    if (++context->depth > PARSE_MAX_DEPTH)
        parse_error(context, name, "computations are nested too deeply");
    scope->computation = computation_new(context->module,
                                         named   ? copy
                                         : entry ? "main"
                                                 : "inline",
                                         !named);
    context->computation = scope->computation;
    context->computation->loc = parse_loc(context, name.begin);
    if (entry && !context->entry) context->entry = context->computation;
}

/* An inline computation was begun after its caller; the list wants callees first. */
static void move_before(struct hlo_computation *computation, struct hlo_computation *caller) {
    struct hlo_module *module = computation->module;
    computation_unlink(computation);
    computation->prev = caller->prev;
    computation->next = caller;
    if (caller->prev)
        caller->prev->next = computation;
    else
        module->first = computation;
    caller->prev = computation;
    module->ncomputations++;
}

void parse_end_computation(struct parse_context *context, const struct raw_attr *attrs,
                           int nattrs) {
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
    for (int i = 0; i < nattrs; i++) {
        struct reader reader = reader_new(context, attrs[i].value);
        size_t length = attrs[i].name.end - attrs[i].name.begin;
        if (strncmp(context->source + attrs[i].name.begin, "execution_thread", length) == 0)
            computation->execution_thread = reader_string(&reader);
        else
            parse_error(context, attrs[i].name, "unknown attribute '%.*s' of a computation",
                        (int)length, context->source + attrs[i].name.begin);
    }
    if (!context->bad && !computation_index_parameters(computation)) {
        diag_error(context->diag, computation->loc,
                   "parameter numbers of computation '%s' repeat or leave gaps", computation->name);
        context->bad = true;
    }
    context->scope = scope->outer;
    context->computation = scope->outer ? scope->outer->computation : NULL;
    if (scope->outer)
        move_before(computation, scope->outer->computation);
    else
        scope_add(context->computations, computation->name, computation);
    context->depth--;
    scope_free(scope);
}

struct hlo_computation *parse_find_computation(struct parse_context *context, struct span name) {
    size_t length;
    const char *text = parse_bare_name(context, name, &length);
    struct hlo_computation *found = scope_find(context->computations, text, length);
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
    if (pending->has_name && !scope_find(context->scope, instr->name, strlen(instr->name)))
        scope_add(context->scope, instr->name, instr);
    if (!pending->is_root) return;
    if (instr->parent->root)
        parse_error(context, pending->name, "a second ROOT in computation '%s'; the first is '%s'",
                    instr->parent->name, instr->parent->root->name);
    else
        instr->parent->root = instr;
}

/* ---- the whole text ---- */

/* Offset of the first byte that is NUL or no UTF-8, or size. */
static size_t bad_byte(const unsigned char *text, size_t size) {
    size_t i = 0;
    while (i < size) {
        /* Eight bytes at once while all are ASCII and none is NUL. */
        uint64_t word;
        if (size - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            const uint64_t high = 0x8080808080808080u, ones = 0x0101010101010101u;
            if (((word | (word - ones)) & high) == 0) {
                i += sizeof word;
                continue;
            }
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

static bool finish_module(struct parse_context *context) {
    struct hlo_module *module = context->module;
    if (context->bad) return false;
    if (!module->last) {
        diag_error(context->diag, (struct src_loc){1, 1}, "no computation in this text");
        return false;
    }
    module->entry = context->entry ? context->entry : module->last;
    return true;
}

static bool run(struct parse_context *context) {
    size_t bad = bad_byte((const unsigned char *)context->source, context->size);
    if (bad < context->size) {
        parse_error(context, (struct span){bad, bad + 1},
                    context->source[bad] ? "a byte that is not UTF-8 (0x%02x)"
                                         : "a NUL byte (0x%02x)",
                    (unsigned char)context->source[bad]);
        return false;
    }
    if (context->size > INT32_MAX - 16) {
        diag_error(context->diag, (struct src_loc){0, 0}, "the text is longer than 2 GiB");
        return false;
    }
    void *scanner;
    if (hlo_yylex_init_extra(context, &scanner) != 0) abort();
    hlo_yy_scan_bytes(context->source, (int)context->size, scanner);
    if (hlo_yyparse(scanner, context) != 0) context->bad = true;
    hlo_yylex_destroy(scanner);
    return finish_module(context);
}

struct hlo_module *hlo_parse_unverified(struct diag *diag) {
    struct parse_context context = {
        .diag = diag, .source = diag->source ? diag->source : "", .size = diag->source_size};
    find_lines(&context);
    context.module = module_new("module");
    context.computations = scope_new();
    bool good = run(&context);
    while (context.scope) {
        struct name_scope *outer = context.scope->outer;
        scope_free(context.scope);
        context.scope = outer;
    }
    scope_free(context.computations);
    free(context.lines);
    if (good && !diag->errors) return context.module;
    module_free(context.module);
    return NULL;
}

struct hlo_module *hlo_parse(struct diag *diag) {
    struct hlo_module *module = hlo_parse_unverified(diag);
    if (!module || module_verify(module, diag)) return module;
    module_free(module);
    return NULL;
}

struct literal *hlo_parse_literal(struct diag *diag, const struct shape *shape) {
    struct parse_context context = {
        .diag = diag, .source = diag->source ? diag->source : "", .size = diag->source_size};
    find_lines(&context);
    context.module = module_new("literal");
    struct literal *literal = parse_literal_span(&context, (struct span){0, context.size}, shape);
    module_free(context.module);
    free(context.lines);
    return literal;
}
