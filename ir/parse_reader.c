/* Reading inside a span of the source: numbers, words, strings, lists, shapes. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/parse_internal.h"

const uint8_t parse_byte_class[256] = {
    ['a' ... 'z'] = BYTE_KEY | BYTE_WORD,
    ['A' ... 'Z'] = BYTE_KEY | BYTE_WORD,
    ['0' ... '9'] = BYTE_KEY | BYTE_WORD,
    ['_'] = BYTE_KEY | BYTE_WORD,
    ['-'] = BYTE_KEY | BYTE_WORD,
    ['.'] = BYTE_WORD,
    ['"'] = BYTE_MARK,
    ['\''] = BYTE_MARK,
    ['{'] = BYTE_MARK,
    ['}'] = BYTE_MARK,
    ['('] = BYTE_MARK,
    [')'] = BYTE_MARK,
    ['['] = BYTE_MARK,
    [']'] = BYTE_MARK,
    [','] = BYTE_MARK,
    [' '] = BYTE_MARK | BYTE_SKIP,
    ['\t'] = BYTE_MARK | BYTE_SKIP,
    ['\r'] = BYTE_MARK | BYTE_SKIP,
    ['\n'] = BYTE_MARK | BYTE_SKIP,
    ['/'] = BYTE_MARK | BYTE_SKIP,
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Behind the comment at p; p where none stands there, or none that ends. */
static const char *behind_comment(const char *p, const char *end) {
    if (end - p < 2 || *p != '/') return p;
    if (p[1] == '/') {
        while (p < end && *p != '\n' && *p != '\r')
            p++;
        return p;
    }
    if (p[1] != '*') return p;
    for (const char *at = p + 2; (at = memchr(at, '*', (size_t)(end - at))); at++)
        if (at + 1 < end && at[1] == '/') return at + 2;
    return p;
}

const char *parse_behind_blanks(const char *p, const char *end) {
    for (;;) {
        while (p < end && is_blank(*p))
            p++;
        if (p == end || *p != '/') return p;
        const char *behind = behind_comment(p, end);
        if (behind == p) return p;
        p = behind;
    }
}

/* The quote that ends the string whose quote is at p, or NULL. */
static const char *string_end(const char *p, const char *end) {
    char quote = *p++;
    while ((p = memchr(p, quote, (size_t)(end - p)))) {
        const char *back = p;
        while (back[-1] == '\\')
            back--;
        if ((p - back) % 2 == 0) return p;
        p++;
    }
    return NULL;
}

size_t parse_value_length(const char *p, const char *end, bool *open) {
    const char *start = p;
    int depth = 0;
    *open = false;
    p = parse_skip_blanks(p, end);
    const char *first = p;
    for (; p < end; p++) {
        if (!parse_has_class(*p, BYTE_MARK)) continue;
        switch (*p) {
        case '"':
        case '\'':
            p = string_end(p, end);
            if (!p) {
                *open = true;
                return (size_t)(end - start);
            }
            break;
        case '{':
        case '(':
        case '[': depth++; break;
        case '}':
        case ')':
        case ']':
            if (depth == 0) return (size_t)(p - start);
            /* A literal in parentheses is one bracketed group: it ends with it. */
            if (--depth == 0 && *p == ')' && *first == '(') return (size_t)(p + 1 - start);
            break;
        case '/':
            if (depth) {
                const char *behind = behind_comment(p, end);
                *open = behind == p && end - p > 1 && p[1] == '*';
                if (*open) return (size_t)(end - start);
                if (behind > p) p = behind - 1;
            }
            break;
        default: /* a comma or a blank */
            if (depth == 0) return (size_t)(p - start);
            break;
        }
    }
    *open = depth > 0;
    return (size_t)(p - start);
}

/* Numbers are most of a large module: the search jumps from one bracket or comment to the next. */
bool parse_group_end(const struct parse_context *context, size_t at, size_t *group_end) {
    const char *p = context->source + at, *end = context->source + context->size;
    /* The first of each kind from p on; open and slash: or close, where none stands before it. */
    const char *close = NULL, *open = NULL, *slash = NULL;
    int64_t depth = 0;
    *group_end = context->size;
    for (;;) {
        if (!close || close < p) close = memchr(p, ')', (size_t)(end - p));
        if (!close) return false;
        if (!open || open < p) open = memchr(p, '(', (size_t)(close - p));
        if (!open) open = close;
        if (!slash || slash < p) slash = memchr(p, '/', (size_t)(close - p));
        if (!slash) slash = close;
        if (open < slash) {
            depth++;
            p = open + 1;
        } else if (slash < open) {
            const char *behind = behind_comment(slash, end);
            p = behind > slash ? behind : slash + 1;
        } else {
            p = close + 1;
            if (--depth > 0) continue;
            *group_end = (size_t)(p - context->source);
            return true;
        }
    }
}

struct reader reader_new(struct parse_context *context, struct span span) {
    return (struct reader){context, context->source + span.begin, context->source + span.end,
                           false};
}

void reader_fail(struct reader *reader, const char *format, ...) {
    if (reader->failed) return;
    reader->failed = true;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    uint32_t at = (uint32_t)(reader->p - reader->context->source);
    parse_error(reader->context, (struct span){at, at}, "%s", message);
}

bool reader_eat_text(struct reader *reader, const char *text) {
    reader_skip(reader);
    size_t length = strlen(text);
    if (reader->failed || (size_t)(reader->end - reader->p) < length ||
        memcmp(reader->p, text, length) != 0)
        return false;
    reader->p += length;
    return true;
}

bool reader_expect(struct reader *reader, char c) {
    if (reader_eat(reader, c)) return true;
    reader_fail(reader, "expected '%c' here", c);
    return false;
}

bool reader_done(struct reader *reader) {
    reader_skip(reader);
    return reader->failed || reader->p >= reader->end;
}

int64_t reader_int(struct reader *reader) {
    reader_skip(reader);
    const char *p = reader->p;
    bool negative = p < reader->end && *p == '-';
    if (negative) p++;
    if (p >= reader->end || *p < '0' || *p > '9') {
        reader_fail(reader, "expected a number here");
        return 0;
    }
    int64_t value = 0;
    for (; p < reader->end && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *p - '0', &value)) {
            reader_fail(reader, "the number does not fit in 64 bits");
            return 0;
        }
    }
    /* Built as a negative number, whose range is the larger one. */
    if (!negative && value == INT64_MIN) {
        reader_fail(reader, "the number does not fit in 64 bits");
        return 0;
    }
    reader->p = p;
    return negative ? value : -value;
}

const char *reader_word(struct reader *reader, size_t *length) {
    reader_skip(reader);
    const char *start = reader->p, *p = start;
    while (p < reader->end && !reader->failed && parse_has_class(*p, BYTE_WORD))
        p++;
    reader->p = p;
    *length = (size_t)(p - start);
    return start;
}

const char *parse_keep_text(struct parse_context *context, const char *text, size_t length) {
    struct kept_text *kept =
        &context->texts[name_hash(text, length) % (sizeof context->texts / sizeof *kept)];
    if (!kept->text || kept->length != length || memcmp(kept->text, text, length) != 0)
        *kept = (struct kept_text){arena_strndup(context->module->arena, text, length), length};
    return kept->text;
}

static const char *unescaped(struct arena *arena, const char *p, const char *end) {
    char *out = arena_alloc(arena, (size_t)(end - p) + 1);
    for (size_t length = 0; p < end; length++) {
        char c = *p++;
        if (c == '\\' && p < end) {
            c = *p++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        out[length] = c;
    }
    return out;
}

const char *reader_string(struct reader *reader) {
    reader_skip(reader);
    if (reader->failed) return NULL;
    const char *p = reader->p;
    if (p == reader->end || (*p != '"' && *p != '\'')) {
        reader_fail(reader, "expected a quoted string here");
        return NULL;
    }
    const char *stop = string_end(p, reader->end);
    if (!stop) {
        reader_fail(reader, "the string is never closed");
        return NULL;
    }
    reader->p = stop + 1;
    size_t length = (size_t)(stop - ++p);
    if (memchr(p, '\\', length)) return unescaped(reader->context->module->arena, p, stop);
    return parse_keep_text(reader->context, p, length);
}

struct int_list reader_ints(struct reader *reader) {
    struct arena *arena = reader->context->module->arena;
    int capacity = 0, count = 0;
    int64_t *values = NULL;
    if (!reader_expect(reader, '{')) return (struct int_list){0, NULL};
    while (!reader->failed && !reader_eat(reader, '}')) {
        values = arena_grow(arena, values, &capacity, count + 1, sizeof *values);
        values[count++] = reader_int(reader);
        if (!reader_eat(reader, ',') && !reader_peek(reader, '}'))
            reader_fail(reader, "expected ',' or '}' here");
    }
    return (struct int_list){count, values};
}

struct int_lists reader_int_lists(struct reader *reader) {
    struct arena *arena = reader->context->module->arena;
    int capacity = 0, count = 0;
    struct int_list *values = NULL;
    if (!reader_expect(reader, '{')) return (struct int_lists){0, NULL};
    while (!reader->failed && !reader_eat(reader, '}')) {
        values = arena_grow(arena, values, &capacity, count + 1, sizeof *values);
        values[count++] = reader_ints(reader);
        if (!reader_eat(reader, ',') && !reader_peek(reader, '}'))
            reader_fail(reader, "expected ',' or '}' here");
    }
    return (struct int_lists){count, values};
}
