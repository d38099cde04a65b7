/* Reading inside a span of the source: numbers, words, strings, lists, shapes. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/parse_internal.h"

size_t parse_value_length(const char *p, const char *end, bool *open) {
    const char *start = p;
    int depth = 0;
    *open = false;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    const char *first = p;
    for (; p < end; p++) {
        switch (*p) {
        case '"':
        case '\'': {
            char quote = *p++;
            while (p < end && *p != quote)
                p += *p == '\\' && p + 1 < end ? 2 : 1;
            if (p >= end) {
                *open = true;
                return (size_t)(end - start);
            }
            break;
        }
        case '{':
        case '(':
        case '[': depth++; break;
        case '}':
        case ')':
        case ']':
            if (depth == 0) return (size_t)(p - start);
            /* A constant's region is one bracketed group: it ends with it. */
            if (--depth == 0 && *p == ')' && *first == '(') return (size_t)(p + 1 - start);
            break;
        case ',':
        case ' ':
        case '\t':
        case '\r':
        case '\n':
            if (depth == 0) return (size_t)(p - start);
            break;
        case '/':
            if (depth && p + 1 < end && p[1] == '*') {
                for (p += 2; p + 1 < end && !(p[0] == '*' && p[1] == '/'); p++) {
                }
                if (++p >= end) {
                    *open = true;
                    return (size_t)(end - start);
                }
            }
            break;
        default: break;
        }
    }
    *open = depth > 0;
    return (size_t)(p - start);
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
    size_t at = (size_t)(reader->p - reader->context->source);
    parse_error(reader->context, (struct span){at, at}, "%s", message);
}

void reader_skip(struct reader *reader) {
    while (reader->p < reader->end) {
        char c = *reader->p;
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            reader->p++;
        } else if (c == '/' && reader->end - reader->p > 1 && reader->p[1] == '*') {
            const char *p = reader->p + 2;
            while (p + 1 < reader->end && !(p[0] == '*' && p[1] == '/'))
                p++;
            reader->p = p + 1 < reader->end ? p + 2 : reader->end;
        } else {
            return;
        }
    }
}

bool reader_peek(struct reader *reader, char c) {
    reader_skip(reader);
    return !reader->failed && reader->p < reader->end && *reader->p == c;
}

bool reader_eat(struct reader *reader, char c) {
    if (!reader_peek(reader, c)) return false;
    reader->p++;
    return true;
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
    while (p < reader->end && !reader->failed &&
           ((*p | 32) >= 'a' ? (*p | 32) <= 'z' || *p == '_'
                             : (*p >= '0' && *p <= '9') || *p == '_' || *p == '.' || *p == '-'))
        p++;
    reader->p = p;
    *length = (size_t)(p - start);
    return start;
}

char *reader_string(struct reader *reader) {
    reader_skip(reader);
    if (reader->failed) return NULL;
    char quote = reader->p < reader->end ? *reader->p : 0;
    if (quote != '"' && quote != '\'') {
        reader_fail(reader, "expected a quoted string here");
        return NULL;
    }
    const char *p = reader->p + 1;
    char *out = arena_alloc(reader->context->module->arena, (size_t)(reader->end - p) + 1);
    size_t length = 0;
    while (p < reader->end && *p != quote) {
        char c = *p++;
        if (c == '\\' && p < reader->end) {
            c = *p++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        out[length++] = c;
    }
    if (p >= reader->end) {
        reader_fail(reader, "the string is never closed");
        return NULL;
    }
    reader->p = p + 1;
    return out;
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
