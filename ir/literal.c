#include "ir/literal.h"

#include <stdlib.h>
#include <string.h>

#include "ir/number.h"

static struct literal *allocate(const struct shape *shape) {
    struct literal *literal = calloc(1, sizeof *literal);
    if (!literal) return NULL;
    literal->shape = shape;
    literal->refs = 1;
    return literal;
}

static void *data_new(size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    size_t padded = (size + 63) & ~(size_t)63;
    void *data = aligned_alloc(64, padded ? padded : 64);
    if (data) memory_prefer_huge_pages(data, padded);
    return data;
}

struct literal *literal_new_uninit(const struct shape *shape) {
    struct literal *literal = allocate(shape);
    if (!literal) return NULL;
    if (shape_is_array(shape)) {
        literal->size = (size_t)shape->bytes;
        literal->data = data_new(literal->size);
        if (!literal->data) {
            free(literal);
            return NULL;
        }
    } else if (shape->ntuple && shape->type == TYPE_TUPLE) {
        literal->elements = calloc((size_t)shape->ntuple, sizeof *literal->elements);
        for (int i = 0; i < shape->ntuple; i++) {
            if (literal->elements) literal->elements[i] = literal_new(shape->tuple[i]);
            if (!literal->elements || !literal->elements[i]) {
                literal_unref(literal);
                return NULL;
            }
        }
    }
    return literal;
}

struct literal *literal_new(const struct shape *shape) {
    struct literal *literal = literal_new_uninit(shape);
    if (literal && literal->data) memset(literal->data, 0, literal->size);
    return literal;
}

struct literal *literal_new_elided(const struct shape *shape) {
    struct literal *literal = allocate(shape);
    if (literal) literal->elided = true;
    return literal;
}

struct literal *literal_new_tuple(const struct shape *shape, struct literal *const *elements) {
    struct literal *literal = allocate(shape);
    if (!literal || shape->ntuple == 0) return literal;
    literal->elements = malloc((size_t)shape->ntuple * sizeof *literal->elements);
    if (!literal->elements) {
        free(literal);
        return NULL;
    }
    memcpy(literal->elements, elements, (size_t)shape->ntuple * sizeof *elements);
    return literal;
}

struct literal *literal_ref(struct literal *literal) {
    literal->refs++;
    return literal;
}

void literal_unref(struct literal *literal) {
    if (!literal || --literal->refs > 0) return;
    for (int i = 0; literal->elements && i < literal->shape->ntuple; i++)
        literal_unref(literal->elements[i]);
    free(literal->elements);
    free(literal->dynamic_sizes);
    free(literal->data);
    free(literal);
}

/* Copies data and live sizes of an array into `to`; false where memory is short. */
static bool copy_contents(struct literal *to, const struct literal *from) {
    if (to->data) memcpy(to->data, from->data, from->size);
    if (!from->dynamic_sizes) return true;
    size_t bytes = (size_t)from->shape->rank * sizeof(int64_t);
    to->dynamic_sizes = malloc(bytes ? bytes : 1);
    if (to->dynamic_sizes) memcpy(to->dynamic_sizes, from->dynamic_sizes, bytes);
    return to->dynamic_sizes != NULL;
}

struct literal *literal_copy(const struct literal *from) {
    if (from->elided) return literal_new_elided(from->shape);
    struct literal *literal = allocate(from->shape);
    if (!literal) return NULL;
    literal->size = from->size;
    if (from->data && !(literal->data = data_new(from->size))) goto fail;
    if (!copy_contents(literal, from)) goto fail;
    if (from->elements) {
        literal->elements = calloc((size_t)from->shape->ntuple, sizeof *literal->elements);
        if (!literal->elements) goto fail;
        for (int i = 0; i < from->shape->ntuple; i++)
            if (!(literal->elements[i] = literal_copy(from->elements[i]))) goto fail;
    }
    return literal;
fail:
    literal_unref(literal);
    return NULL;
}

struct literal *literal_with_shape(const struct literal *from, const struct shape *shape) {
    if (from->elided) return literal_new_elided(shape);
    struct literal *literal = literal_copy(from);
    if (!literal) return NULL;
    if (shape->rank != from->shape->rank) {
        free(literal->dynamic_sizes);
        literal->dynamic_sizes = NULL;
    }
    literal->shape = shape;
    return literal;
}

static int64_t live_size(const struct literal *literal, int dim) {
    return literal->dynamic_sizes ? literal->dynamic_sizes[dim] : literal->shape->dims[dim];
}

static bool same_live_sizes(const struct literal *a, const struct literal *b) {
    for (int i = 0; i < a->shape->rank; i++)
        if (live_size(a, i) != live_size(b, i)) return false;
    return true;
}

bool literal_equal(const struct literal *a, const struct literal *b) {
    if (a == b) return true;
    if (a->elided || b->elided || a->size != b->size || a->shape->rank != b->shape->rank ||
        a->shape->type != b->shape->type || a->shape->ntuple != b->shape->ntuple)
        return false;
    for (int i = 0; i < a->shape->rank; i++)
        if (a->shape->dims[i] != b->shape->dims[i]) return false;
    for (int i = 0; a->elements && i < a->shape->ntuple; i++)
        if (!literal_equal(a->elements[i], b->elements[i])) return false;
    if (!same_live_sizes(a, b)) return false;
    return a->size == 0 || memcmp(a->data, b->data, a->size) == 0;
}

bool literal_is_all(const struct literal *literal, double value) {
    if (!literal->data || element_type_is_complex(literal->shape->type)) return false;
    for (int64_t i = 0; i < literal->shape->count; i++) {
        double element = literal_get_double(literal, i);
        /* Zeros of different sign are different values here: folding x + -0 is not x + 0. */
        if (element != value || __builtin_signbit(element) != __builtin_signbit(value))
            return false;
    }
    return true;
}

const struct literal *literal_leaf(const struct literal *literal, int leaf) {
    while (shape_is_tuple(literal->shape)) {
        int i = 0;
        while (leaf >= literal->shape->tuple[i]->nleaves)
            leaf -= literal->shape->tuple[i++]->nleaves;
        literal = literal->elements[i];
    }
    return literal;
}

bool literal_has_elided(const struct literal *literal) {
    if (literal->elided) return true;
    for (int i = 0; literal->elements && i < literal->shape->ntuple; i++)
        if (literal_has_elided(literal->elements[i])) return true;
    return false;
}

/* The element's bytes (of 8 at most), zero-extended. */
static uint64_t raw_bits(const struct literal *literal, int64_t index) {
    size_t size = (size_t)element_type_size(literal->shape->type);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)literal->data + (size_t)index * size, size > 8 ? 8 : size);
    return bits;
}

static void set_raw_bits(struct literal *literal, int64_t index, uint64_t bits) {
    size_t size = (size_t)element_type_size(literal->shape->type);
    memcpy((char *)literal->data + (size_t)index * size, &bits, size > 8 ? 8 : size);
}

double literal_get_double(const struct literal *literal, int64_t index) {
    enum element_type type = literal->shape->type;
    switch (element_type_info(type)->kind) {
    case KIND_PRED: return raw_bits(literal, index) != 0;
    case KIND_SIGNED: return (double)number_wrap(type, (int64_t)raw_bits(literal, index));
    case KIND_UNSIGNED: return (double)raw_bits(literal, index);
    case KIND_FLOAT: return number_decode(type, raw_bits(literal, index));
    default: break;
    }
    double parts[2];
    literal_get_complex(literal, index, parts);
    return parts[0];
}

int64_t literal_get_int(const struct literal *literal, int64_t index) {
    enum element_type type = literal->shape->type;
    if (element_type_is_signed(type)) return number_wrap(type, (int64_t)raw_bits(literal, index));
    if (element_type_is_unsigned(type) || type == TYPE_PRED)
        return (int64_t)raw_bits(literal, index);
    double value = literal_get_double(literal, index);
    if (!(value > -0x1p63)) return value != value ? 0 : INT64_MIN;
    return value < 0x1p63 ? (int64_t)value : INT64_MAX;
}

void literal_get_complex(const struct literal *literal, int64_t index, double out[2]) {
    out[1] = 0;
    if (literal->shape->type == TYPE_C64) {
        const float *parts = (const float *)literal->data + 2 * index;
        out[0] = parts[0];
        out[1] = parts[1];
    } else if (literal->shape->type == TYPE_C128) {
        const double *parts = (const double *)literal->data + 2 * index;
        out[0] = parts[0];
        out[1] = parts[1];
    } else {
        out[0] = literal_get_double(literal, index);
    }
}

void literal_set_double(struct literal *literal, int64_t index, double value) {
    enum element_type type = literal->shape->type;
    switch (element_type_info(type)->kind) {
    case KIND_PRED: set_raw_bits(literal, index, value != 0); return;
    case KIND_FLOAT: set_raw_bits(literal, index, number_encode(type, value)); return;
    case KIND_COMPLEX: literal_set_complex(literal, index, value, 0); return;
    default: break;
    }
    /* Saturating, so that the conversion is defined; number_wrap narrows it. */
    if (type == TYPE_U64 && value >= 0x1p63)
        set_raw_bits(literal, index, value < 0x1p64 ? (uint64_t)value : UINT64_MAX);
    else if (value != value)
        literal_set_int(literal, index, 0);
    else
        literal_set_int(literal, index,
                        value >= 0x1p63    ? INT64_MAX
                        : value <= -0x1p63 ? INT64_MIN
                                           : (int64_t)value);
}

void literal_set_int(struct literal *literal, int64_t index, int64_t value) {
    enum element_type type = literal->shape->type;
    switch (element_type_info(type)->kind) {
    case KIND_PRED: set_raw_bits(literal, index, value != 0); return;
    case KIND_SIGNED:
    case KIND_UNSIGNED: set_raw_bits(literal, index, (uint64_t)number_wrap(type, value)); return;
    default: literal_set_double(literal, index, (double)value); return;
    }
}

void literal_set_complex(struct literal *literal, int64_t index, double real, double imaginary) {
    if (literal->shape->type == TYPE_C64) {
        float *parts = (float *)literal->data + 2 * index;
        parts[0] = (float)real;
        parts[1] = (float)imaginary;
    } else if (literal->shape->type == TYPE_C128) {
        double *parts = (double *)literal->data + 2 * index;
        parts[0] = real;
        parts[1] = imaginary;
    } else {
        literal_set_double(literal, index, real);
    }
}
