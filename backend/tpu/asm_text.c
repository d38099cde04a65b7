/* The assembler's reader: blanks, words, numbers. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/asm_internal.h"

struct src_loc asm_loc(const struct assembler *as) {
    return (struct src_loc){as->line, (uint32_t)(as->at - as->line_start) + 1};
}

bool asm_error(struct assembler *as, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    diag_error(as->diag, asm_loc(as), "%s", text);
    as->failed = true;
    return false;
}

void asm_blanks(struct assembler *as) {
    while (as->at < as->end && (*as->at == ' ' || *as->at == '\t' || *as->at == '\r'))
        as->at++;
}

bool asm_peek(struct assembler *as, char c) {
    asm_blanks(as);
    return as->at < as->end && *as->at == c;
}

bool asm_accept(struct assembler *as, char c) {
    if (!asm_peek(as, c)) return false;
    as->at++;
    return true;
}

bool asm_expect(struct assembler *as, char c) {
    return asm_accept(as, c) || asm_error(as, "'%c' expected", c);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

const char *asm_word(struct assembler *as) {
    asm_blanks(as);
    const char *start = as->at;
    while (as->at < as->end && is_word(*as->at))
        as->at++;
    return as->at == start ? NULL : arena_strndup(as->arena, start, (size_t)(as->at - start));
}

/* The text of a number: a word with signs in front and after an exponent's e. */
static bool number_text(struct assembler *as, char text[64]) {
    size_t length = 0;
    asm_blanks(as);
    while (as->at < as->end && length < 63) {
        char c = *as->at, before = length ? text[length - 1] : 'e';
        bool hex = length > 1 && (text[1] == 'x' || text[2 < length ? 2 : 1] == 'x');
        bool sign = (c == '-' || c == '+') && (before == 'e' || before == 'E') && !(length && hex);
        if (!is_word(c) && !sign) break;
        text[length++] = c;
        as->at++;
    }
    text[length] = 0;
    return length > 0;
}

/* strtoll would take blanks and octal. */
static bool whole_number(const char *text, int64_t *value) {
    char *end;
    bool negative = *text == '-';
    if (negative) text++;
    if (*text < '0' || *text > '9') return false;
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    errno = 0;
    uint64_t size = strtoull(text, &end, hex ? 16 : 10);
    if (errno || *end || size > INT64_MAX) return false;
    *value = negative ? -(int64_t)size : (int64_t)size;
    return true;
}

bool asm_integer(struct assembler *as, int64_t least, int64_t most, int64_t *value) {
    char text[64];
    const char *start = as->at;
    if (number_text(as, text) && whole_number(text, value) && *value >= least && *value <= most) {
        return true;
    }
    as->at = start;
    return asm_error(as, "a whole number from %lld to %lld expected", (long long)least,
                     (long long)most);
}

bool asm_number(struct assembler *as, uint32_t *bits) {
    char text[64], *end;
    int64_t whole;
    const char *start = as->at;
    if (number_text(as, text)) {
        if (whole_number(text, &whole) && whole >= INT32_MIN && whole <= UINT32_MAX) {
            *bits = (uint32_t)whole;
            return true;
        }
        float value = strtof(text, &end);
        bool named = strstr(text, "inf") || strstr(text, "nan");
        if (end != text && !*end && (named || strchr(text, '.'))) {
            if (value != value) value = NAN;
            memcpy(bits, &value, sizeof value);
            return true;
        }
    }
    as->at = start;
    return asm_error(as, "a number expected");
}
