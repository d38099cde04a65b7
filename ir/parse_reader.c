/* Reading inside a span of the source: words, numbers, strings, lists, shapes with layouts. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/parse_internal.h"

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

/* End of the comment that begins at p, or NULL where none does. */
static const char *comment_end(const char *p, const char *end) {
    if (end - p < 2 || p[0] != '/') return NULL;
    if (p[1] == '/') {
        while (p < end && *p != '\n' && *p != '\r')
            p++;
        return p;
    }
    if (p[1] != '*') return NULL;
    for (p += 2; p + 1 < end; p++)
        if (p[0] == '*' && p[1] == '/') return p + 2;
    return end;
}

void reader_skip(struct reader *reader) {
    while (reader->p < reader->end) {
        char c = *reader->p;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            reader->p++;
            continue;
        }
        const char *behind = comment_end(reader->p, reader->end);
        if (!behind) return;
        reader->p = behind;
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
    return reader->failed || reader->p == reader->end;
}

int64_t reader_int(struct reader *reader) {
    reader_skip(reader);
    if (reader->failed) return 0;
    const char *p = reader->p;
    bool negative = p < reader->end && *p == '-';
    p += negative;
    const char *digits = p;
    uint64_t value = 0, limit = (uint64_t)INT64_MAX + negative;
    for (; p < reader->end && *p >= '0' && *p <= '9'; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (value > (limit - digit) / 10) {
            reader_fail(reader, "number out of range");
            return 0;
        }
        value = value * 10 + digit;
    }
    if (p == digits) {
        reader_fail(reader, "expected a whole number");
        return 0;
    }
    reader->p = p;
    return (int64_t)(negative ? 0 - value : value);
}

static bool is_word_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '.' || c == '-';
}

const char *reader_word(struct reader *reader, size_t *length) {
    reader_skip(reader);
    const char *word = reader->p;
    while (!reader->failed && reader->p < reader->end && is_word_byte(*reader->p))
        reader->p++;
    *length = (size_t)(reader->p - word);
    return word;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int octal_digits(const char *p, const char *end, int *value) {
    int n = 0;
    for (*value = 0; n < 3 && p + n < end && p[n] >= '0' && p[n] <= '7'; n++)
        *value = *value * 8 + (p[n] - '0');
    return n;
}

/* One escape behind its backslash; moves *p behind it. C's escapes; others stand for themselves. */
static char unescape(const char **p, const char *end) {
    static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
    char c = **p;
    const char *known = memchr(from, c, sizeof from - 1);
    int value, digits = octal_digits(*p, end, &value);
    if (digits) {
        *p += digits;
        return (char)value;
    }
    ++*p;
    if (known) return to[known - from];
    if ((c == 'x' || c == 'X') && *p < end && hex_digit(**p) >= 0) {
        value = 0;
        for (int i = 0; i < 2 && *p < end && hex_digit(**p) >= 0; i++, ++*p)
            value = value * 16 + hex_digit(**p);
        return (char)value;
    }
    return c;
}

char *reader_string(struct reader *reader) {
    reader_skip(reader);
    if (reader->failed || reader->p == reader->end ||
        (*reader->p != '"' && *reader->p != '\'')) {
        reader_fail(reader, "expected a string");
        return NULL;
    }
    char quote = *reader->p;
    const char *p = reader->p + 1, *close = p;
    while (close < reader->end && *close != quote)
        close += *close == '\\' && close + 1 < reader->end ? 2 : 1;
    if (close >= reader->end) {
        reader_fail(reader, "string is never closed");
        return NULL;
    }
    char *text = arena_alloc(reader->context->module->arena, (size_t)(close - p) + 1), *out = text;
    while (p < close) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        p++;
        char c = unescape(&p, close);
        /* Strings are C strings everywhere: a NUL would cut them short. */
        if (c == '\0') {
            reader_fail(reader, "a string with a NUL byte in it");
            return NULL;
        }
        *out++ = c;
    }
    reader->p = close + 1;
    return text;
}

struct int_list reader_ints(struct reader *reader) {
    struct int_list list = {0};
    int64_t *values = NULL;
    int capacity = 0;
    if (!reader_expect(reader, '{')) return list;
    while (!reader->failed && !reader_eat(reader, '}')) {
        values = arena_grow(reader->context->module->arena, values, &capacity, list.count + 1,
                            sizeof *values);
        values[list.count++] = reader_int(reader);
        if (!reader_eat(reader, ',') && !reader_peek(reader, '}')) reader_expect(reader, '}');
    }
    list.v = values;
    return list;
}

struct int_lists reader_int_lists(struct reader *reader) {
    struct int_lists lists = {0};
    struct int_list *values = NULL;
    int capacity = 0;
    if (!reader_expect(reader, '{')) return lists;
    while (!reader->failed && !reader_eat(reader, '}')) {
        values = arena_grow(reader->context->module->arena, values, &capacity, lists.count + 1,
                            sizeof *values);
        values[lists.count++] = reader_ints(reader);
        if (!reader_eat(reader, ',') && !reader_peek(reader, '}')) reader_expect(reader, '}');
    }
    lists.v = values;
    return lists;
}

/* A quote opens a string except within a word, as in raw text that says "don't". */
static bool opens_string(const char *p, const char *start) {
    return *p == '"' || (*p == '\'' && (p == start || !is_word_byte(p[-1])));
}

size_t parse_value_length(const char *start, const char *end, bool *open) {
    static const char special[256] = {['('] = 1, ['['] = 1, ['{'] = 1, [')'] = 2, [']'] = 2,
                                      ['}'] = 2, ['"'] = 3, ['\''] = 3, ['/'] = 4, [','] = 5,
                                      [' '] = 5, ['\t'] = 5, ['\n'] = 5, ['\r'] = 5};
    int64_t depth = 0;
    const char *p = start;
    *open = false;
    for (; p < end; p++) {
        switch (special[(unsigned char)*p]) {
        case 1: depth++; break;
        case 2:
            if (depth == 0) return (size_t)(p - start);
            depth--;
            break;
        case 3:
            if (!opens_string(p, start)) break;
            for (char quote = *p++; p < end && *p != quote; p++)
                if (*p == '\\' && p + 1 < end) p++;
            if (p >= end) {
                *open = true;
                return (size_t)(end - start);
            }
            break;
        case 4:
            if (p + 1 < end && p[1] == '*') {
                const char *behind = comment_end(p, end);
                if (depth == 0) return (size_t)(p - start);
                p = behind - 1;
            }
            break;
        case 5:
            if (depth == 0) return (size_t)(p - start);
            break;
        }
    }
    *open = depth > 0;
    return (size_t)(p - start);
}
