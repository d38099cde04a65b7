/* Literals: the text inside constant(...). Numbers are most of the bytes of a large module, so
 * common ones are read without a library call; the rest goes through strtod. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/number.h"
#include "ir/parse_internal.h"

struct literal_reader {
    struct reader reader;
    struct literal *literal;
    int64_t next; /* element to write */
};

static void skip(struct literal_reader *r) {
    const char *p = r->reader.p, *end = r->reader.end;
    for (;;) {
        while (p < end && (*p == ' ' || *p == ',' || *p == '\n'))
            p++;
        const char *behind = parse_skip_blanks(p, end);
        if (behind == p) break;
        p = behind;
    }
    r->reader.p = p;
}

static bool is_word(const char *p, const char *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - p) >= length && memcmp(p, word, length) == 0;
}

/* nan, nan(0x7fc00001) and -nan: the payload's bits as they stand in the type. */
static void put_nan(struct literal_reader *r, bool negative, int part) {
    enum element_type type = element_type_real_part(r->literal->shape->type);
    const struct element_type_info *info = element_type_info(type);
    uint64_t payload = info->mantissa_bits ? 1ull << (info->mantissa_bits - 1) : 0;
    bool given = false;
    if (r->reader.p < r->reader.end && *r->reader.p == '(') {
        char digits[32];
        size_t length = 0;
        for (r->reader.p++; r->reader.p < r->reader.end && *r->reader.p != ')' && length < 31;)
            digits[length++] = *r->reader.p++;
        digits[length] = '\0';
        char *stop;
        payload = strtoull(digits, &stop, 16);
        given = true;
        if (*stop || strncmp(digits, "0x", 2) != 0 || payload == 0 ||
            !number_has_nan_payloads(type) || payload >> info->mantissa_bits) {
            reader_fail(&r->reader, "'%s' is no payload of a NaN of %s", digits, info->name);
            return;
        }
        reader_expect(&r->reader, ')');
    }
    uint64_t bits = number_encode(type, negative ? -(double)NAN : (double)NAN);
    if (type == TYPE_F32 || type == TYPE_F64 || given) {
        uint64_t ones = ((1ull << info->exponent_bits) - 1) << info->mantissa_bits;
        bits = ones | payload | (uint64_t)negative << (info->exponent_bits + info->mantissa_bits);
    }
    size_t size = (size_t)info->size;
    size_t stride = (size_t)element_type_size(r->literal->shape->type);
    memcpy((char *)r->literal->data + (size_t)r->next * stride + (size_t)part * size, &bits, size);
}

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Whether eight bytes (the first the lowest) are digits: their high halves are 3, and stay so when
 * 6 is added to the low ones. */
static bool eight_digits(uint64_t bytes) {
    const uint64_t high = 0xf0f0f0f0f0f0f0f0u, threes = 0x3030303030303030u;
    return (bytes & high) == threes && ((bytes + 0x0606060606060606u) & high) == threes;
}

/* Their value: neighbours are joined to pairs, pairs to fours, fours to all eight. */
static uint64_t eight_digits_value(uint64_t bytes) {
    bytes = (bytes & 0x0f0f0f0f0f0f0f0fu) * (10 * 256 + 1) >> 8;
    bytes = (bytes & 0x00ff00ff00ff00ffu) * (100 * 65536 + 1) >> 16;
    return (bytes & 0x0000ffff0000ffffu) * ((10000ull << 32) + 1) >> 32;
}

/* Appends the digits at p to *digits, which wraps where there are too many; returns their end. */
static const char *read_digits(const char *p, const char *end, uint64_t *digits) {
    uint64_t value = *digits, bytes;
    while (end - p >= 8) {
        memcpy(&bytes, p, sizeof bytes);
        if (!eight_digits(bytes)) break;
        value = value * 100000000 + eight_digits_value(bytes);
        p += 8;
    }
    for (; p < end && is_digit(*p); p++)
        value = value * 10 + (uint64_t)(*p - '0');
    *digits = value;
    return p;
}

/* `e-12` at p, where one stands, added to *exponent. NULL: no number behind the e. */
static const char *read_exponent(const char *p, const char *end, int *exponent) {
    p++;
    bool minus = p < end && *p == '-';
    p += minus || (p < end && *p == '+');
    int given = 0;
    const char *from = p;
    for (; p < end && is_digit(*p) && given < 10000; p++)
        given = given * 10 + (*p - '0');
    *exponent += minus ? -given : given;
    return p == from ? NULL : p;
}

/* Exact where the digits fit in 53 bits and the power of ten is exact too (Clinger's fast path).
 * Behind the number, or NULL where it is not of that kind. */
static const char *read_plain(const char *p, const char *end, double *value) {
    bool negative = p < end && *p == '-';
    p += negative || (p < end && *p == '+');
    uint64_t digits = 0;
    int exponent = 0;
    bool real = false;
    const char *start = p;
    p = read_digits(p, end, &digits);
    if (p < end && *p == '.') {
        const char *point = p;
        p = read_digits(p + 1, end, &digits);
        exponent = (int)(point + 1 - p);
        real = true;
    }
    /* No digit, or more than 18 and a point. */
    if (p - start == real || p - start > 19) return NULL;
    if (p < end && (*p | 32) == 'e') {
        real = true;
        if (!(p = read_exponent(p, end, &exponent))) return NULL;
    }
    if (digits >> 53 || exponent < -22 || exponent > 22) return NULL;
    /* XLA reads a token without point or exponent as an integer, so -0 is +0, and -0.0 is not. */
    if (digits == 0 && !real) negative = false;
    double result = (double)digits;
    result = exponent < 0 ? result / powers[-exponent] : result * powers[exponent];
    *value = negative ? -result : result;
    return p;
}

/* f32 text must round once: through double only where the double is exact or far from a tie. */
static bool slow_number(struct literal_reader *r, bool single, double *value) {
    char digits[512];
    size_t length = 0;
    const char *p = r->reader.p;
    while (p + length < r->reader.end && length < sizeof digits - 1 && p[length] &&
           strchr("+-.0123456789eExXabcdefABCDEFpP", p[length])) {
        digits[length] = p[length];
        length++;
    }
    digits[length] = '\0';
    char *stop;
    *value = single ? (double)strtof(digits, &stop) : strtod(digits, &stop);
    if (stop == digits) return false;
    if (isinf(*value))
        reader_fail(&r->reader, "%.*s is out of the range of %s", (int)(stop - digits), digits,
                    element_type_name(r->literal->shape->type));
    r->reader.p += stop - digits;
    return true;
}

/* A double rounds once more to f32 as the text would, unless it lies on a tie of floats. */
static bool is_tie(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x1fffffff) == 0x10000000;
}

/* *nan: it has been written to the literal, as part `part` of the element. */
static bool read_number(struct literal_reader *r, int part, double *value, bool *nan) {
    const char *p = r->reader.p, *end = r->reader.end;
    bool single = element_type_real_part(r->literal->shape->type) == TYPE_F32;
    *nan = false;
    const char *stop = read_plain(p, end, value);
    if (stop && !(single && is_tie(*value))) {
        r->reader.p = stop;
        return true;
    }
    bool negative = p < end && *p == '-';
    const char *word = p + (negative || (p < end && *p == '+'));
    if (is_word(word, end, "nan")) {
        r->reader.p = word + 3;
        put_nan(r, negative, part);
        *nan = true;
        return true;
    }
    if (is_word(word, end, "inf")) {
        r->reader.p = word + (is_word(word, end, "infinity") ? 8 : 3);
        *value = negative ? -INFINITY : INFINITY;
        return true;
    }
    return slow_number(r, single, value);
}

static void put_float(struct literal_reader *r) {
    enum element_type type = r->literal->shape->type;
    const char *start = r->reader.p;
    double value, stored;
    bool nan;
    if (!read_number(r, 0, &value, &nan)) {
        bool boolean = is_word(r->reader.p, r->reader.end, "true") ||
                       is_word(r->reader.p, r->reader.end, "false");
        reader_fail(&r->reader,
                    boolean ? "a boolean in a literal of %s" : "expected a number of %s",
                    element_type_name(type));
        return;
    }
    if (nan) return;
    if (type == TYPE_F32) {
        stored = ((float *)r->literal->data)[r->next] = (float)value;
    } else if (type == TYPE_F64) {
        stored = ((double *)r->literal->data)[r->next] = value;
    } else {
        literal_set_double(r->literal, r->next, value);
        stored = literal_get_double(r->literal, r->next);
    }
    if (!isfinite(stored) && isfinite(value) && type != TYPE_F8E8M0FNU) {
        r->reader.p = start;
        reader_fail(&r->reader, "%g is out of the range of %s", value, element_type_name(type));
    }
}

static void put_complex(struct literal_reader *r) {
    double parts[2] = {0, 0};
    bool nan[2] = {false, false};
    bool pair = reader_eat(&r->reader, '(');
    for (int i = 0; i < (pair ? 2 : 1); i++) {
        skip(r);
        const char *start = r->reader.p;
        if (!read_number(r, i, &parts[i], &nan[i])) {
            reader_fail(&r->reader, "expected a number here");
            return;
        }
        if (r->literal->shape->type == TYPE_C64 && isfinite(parts[i]) && isinf((float)parts[i])) {
            r->reader.p = start;
            reader_fail(&r->reader, "%g is out of the range of c64", parts[i]);
        }
    }
    if (pair) reader_expect(&r->reader, ')');
    for (int i = 0; i < 2; i++) {
        if (nan[i]) continue;
        if (r->literal->shape->type == TYPE_C64)
            ((float *)r->literal->data)[2 * r->next + i] = (float)parts[i];
        else
            ((double *)r->literal->data)[2 * r->next + i] = parts[i];
    }
}

static void put_int(struct literal_reader *r) {
    enum element_type type = r->literal->shape->type;
    const char *p = r->reader.p, *end = r->reader.end;
    bool negative = p < end && *p == '-';
    p += negative || (p < end && *p == '+');
    uint64_t value = 0;
    const char *start = p;
    bool over = false;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        over |= __builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
    if (p == start) {
        bool yes = is_word(p, end, "true");
        if (type != TYPE_PRED || (!yes && !is_word(p, end, "false"))) {
            reader_fail(&r->reader, "expected %s here",
                        type == TYPE_PRED ? "true or false" : "an integer");
            return;
        }
        value = yes;
        p += yes ? 4 : 5;
    }
    if (p < end && (*p == '.' || (*p | 32) == 'e')) {
        reader_fail(&r->reader, "expected an integer here");
        return;
    }
    uint64_t largest = type == TYPE_PRED ? 1 : (uint64_t)number_int_max(type);
    /* XLA reads a negative u64 as the bits of an s64. */
    if (negative)
        largest = element_type_is_signed(type) ? largest + 1 : type == TYPE_U64 ? 1ull << 63 : 0;
    if (over || value > largest) {
        reader_fail(&r->reader, "the number is out of the range of %s", element_type_name(type));
        return;
    }
    r->reader.p = p;
    literal_set_int(r->literal, r->next, negative ? (int64_t)(0 - value) : (int64_t)value);
}

static void read_element(struct literal_reader *r) {
    switch (element_type_info(r->literal->shape->type)->kind) {
    case KIND_FLOAT: put_float(r); break;
    case KIND_COMPLEX: put_complex(r); break;
    default: put_int(r); break;
    }
    r->next++;
}

/* `{ e, e }` at dimension `dim`; depth is bounded by the rank. */
static void read_dim(struct literal_reader *r, int dim) {
    const struct shape *shape = r->literal->shape;
    if (dim == shape->rank) {
        read_element(r);
        return;
    }
    reader_expect(&r->reader, '{');
    int64_t count = 0, size = shape->dims[dim];
    for (skip(r); !r->reader.failed && r->reader.p < r->reader.end && *r->reader.p != '}';
         skip(r)) {
        if (count++ == size) {
            reader_fail(&r->reader, "more than %lld elements in dimension %d of the literal",
                        (long long)size, dim);
            return;
        }
        read_dim(r, dim + 1);
    }
    if (!r->reader.failed && count < size)
        reader_fail(&r->reader, "%lld elements in dimension %d of the literal, expected %lld",
                    (long long)count, dim, (long long)size);
    reader_expect(&r->reader, '}');
}

static bool has_dots(const struct reader *reader) {
    for (const char *p = reader->p; p + 2 < reader->end; p++)
        if (*p == '.' && p[1] == '.' && p[2] == '.') return true;
    return false;
}

static struct literal *read_literal(struct reader *reader, const struct shape *shape, int depth) {
    reader_skip(reader);
    if (shape->type == TYPE_TUPLE) {
        if (reader_eat_text(reader, "{...}")) return literal_new_elided(shape);
        struct literal **elements = calloc((size_t)shape->ntuple + 1, sizeof *elements);
        if (!elements) abort();
        bool good = reader_expect(reader, '(') && depth < SHAPE_MAX_DEPTH;
        for (int i = 0; good && i < shape->ntuple; i++) {
            while (reader_eat(reader, ',')) {
            }
            good = (elements[i] = read_literal(reader, shape->tuple[i], depth + 1)) != NULL;
        }
        while (reader_eat(reader, ',')) {
        }
        struct literal *literal =
            good && reader_expect(reader, ')') ? literal_new_tuple(shape, elements) : NULL;
        for (int i = 0; !literal && i < shape->ntuple; i++)
            literal_unref(elements[i]);
        free(elements);
        return literal;
    }
    /* The shape may be written again before the values. */
    if (reader->p < reader->end && strchr("abcdfopsu", *reader->p)) {
        size_t at = (size_t)(reader->p - reader->context->source), length;
        struct reader probe = *reader;
        const char *word = reader_word(&probe, &length);
        if (element_type_from_name(word, length) != TYPE_INVALID) {
            if (!parse_shape_at(reader->context, &at,
                                (size_t)(reader->end - reader->context->source), 0)) {
                reader->failed = true;
                return NULL;
            }
            reader->p = reader->context->source + at;
            reader_skip(reader);
        }
    }
    if (!shape_is_array(shape)) return literal_new(shape);
    if (reader_eat_text(reader, "...") || reader_eat_text(reader, "{...}"))
        return literal_new_elided(shape);
    if (shape->rank && reader->end - reader->p < 4096 && has_dots(reader)) {
        reader->p = reader->end;
        return literal_new_elided(shape);
    }
    /* Text of n bytes holds at most n elements: no allocation for what cannot be there. */
    if (shape->count > reader->end - reader->p) {
        reader_fail(reader, "too few elements in the literal: %lld expected",
                    (long long)shape->count);
        return NULL;
    }
    struct literal_reader r = {.reader = *reader, .literal = literal_new(shape)};
    if (!r.literal) abort();
    /* Braces may be left out around a single element. */
    bool bare = shape->count == 1 && !reader_peek(reader, '{');
    read_dim(&r, bare ? shape->rank : 0);
    *reader = r.reader;
    if (!reader->failed) return r.literal;
    literal_unref(r.literal);
    return NULL;
}

struct literal *parse_literal_span(struct parse_context *context, struct span span,
                                   const struct shape *shape) {
    struct reader reader = reader_new(context, span);
    struct literal *literal = read_literal(&reader, shape, 0);
    while (reader_eat(&reader, ',')) {
    }
    if (literal && !reader_done(&reader)) {
        reader_fail(&reader, "too many elements, or text behind the literal");
        literal_unref(literal);
        return NULL;
    }
    return literal;
}
