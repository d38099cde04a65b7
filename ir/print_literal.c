/* Text of constants: floats in the fewest digits that read back to the same bits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/number.h"
#include "ir/print.h"

static uint64_t load_bits(const char *data, int size) {
    uint64_t bits = 0;

    memcpy(&bits, data, size); /* little-endian hosts only, as everywhere */
    return bits;
}

/* XLA names a payload that is not the plain quiet one; formats with a single NaN have none. */
static void print_nan(FILE *out, enum element_type type, uint64_t bits) {
    const struct element_type_info *info = element_type_info(type);
    uint64_t payload = bits & (((uint64_t)1 << info->mantissa_bits) - 1);
    bool negative = bits >> (info->bits - 1) & 1;
    bool has_payload = type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F32 ||
                       type == TYPE_F64 || type == TYPE_F8E5M2 || type == TYPE_F8E4M3 ||
                       type == TYPE_F8E3M4;

    if (!has_payload) {
        fputs(type == TYPE_F8E4M3FN && negative ? "-nan" : "nan", out);
        return;
    }
    fputs(negative ? "-nan" : "nan", out);
    if (payload != (uint64_t)1 << (info->mantissa_bits - 1))
        fprintf(out, "(0x%" PRIx64 ")", payload);
}

static bool reads_back(enum element_type type, const char *text, double value) {
    if (type == TYPE_F64) return strtod(text, NULL) == value;
    if (type == TYPE_F32) return strtof(text, NULL) == (float)value;
    return number_decode(type, number_encode(type, strtod(text, NULL))) == value;
}

static void print_float_bits(FILE *out, enum element_type type, uint64_t bits) {
    double value = number_decode(type, bits);
    int first = type == TYPE_F64 ? 15 : type == TYPE_F32 ? 6 : 1;
    char text[40];

    if (isnan(value)) {
        print_nan(out, type, bits);
    } else if (isinf(value)) {
        fputs(value < 0 ? "-inf" : "inf", out);
    } else if (value == 0) {
        fputs(signbit(value) ? "-0.0" : "0", out);
    } else {
        for (int digits = first; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (reads_back(type, text, value)) break;
        }
        fputs(text, out);
    }
}

static void print_element(FILE *out, const struct literal *literal, int64_t index) {
    enum element_type type = literal->shape->type;
    const struct element_type_info *info = element_type_info(type);
    const char *data = (const char *)literal->data + index * info->size;

    switch (info->kind) {
    case KIND_PRED:
        if (literal->shape->rank == 0)
            fputs(*data ? "true" : "false", out);
        else
            putc_unlocked(*data ? '1' : '0', out);
        break;
    case KIND_SIGNED: fprintf(out, "%" PRId64, literal_get_int(literal, index)); break;
    case KIND_UNSIGNED: fprintf(out, "%" PRIu64, (uint64_t)literal_get_int(literal, index)); break;
    case KIND_FLOAT: print_float_bits(out, type, load_bits(data, info->size)); break;
    case KIND_COMPLEX: {
        enum element_type part = element_type_real_part(type);
        int size = info->size / 2;

        putc_unlocked('(', out);
        print_float_bits(out, part, load_bits(data, size));
        fputs(", ", out);
        print_float_bits(out, part, load_bits(data + size, size));
        putc_unlocked(')', out);
        break;
    }
    default: break;
    }
}

/* Prints dimension `dim` and those inside it; returns the next element's number. */
static int64_t print_dim(FILE *out, const struct literal *literal, int dim, int64_t index) {
    const struct shape *shape = literal->shape;
    bool innermost = dim == shape->rank - 1;
    int64_t size = literal->dynamic_sizes ? literal->dynamic_sizes[dim] : shape->dims[dim];

    if (innermost) {
        putc_unlocked('{', out);
        for (int64_t i = 0; i < size; i++) {
            if (i) fputs(", ", out);
            print_element(out, literal, index + i);
        }
        putc_unlocked('}', out);
        return index + shape->dims[dim];
    }
    int64_t stride = 1;

    for (int i = dim + 1; i < shape->rank; i++)
        stride *= shape->dims[i];
    fputs("{ ", out);
    for (int64_t i = 0; i < size; i++) {
        if (i) fputs(", ", out);
        print_dim(out, literal, dim + 1, index + i * stride);
    }
    fputs(" }", out);
    return index + size * stride;
}

void literal_print(FILE *out, const struct literal *literal, int64_t max_elements) {
    const struct shape *shape = literal->shape;

    if (shape_is_tuple(shape)) {
        fputs("( ", out);
        for (int i = 0; i < shape->ntuple; i++) {
            if (i) fputs(", ", out);
            literal_print(out, literal->elements[i], max_elements);
        }
        fputs(" )", out);
    } else if (!shape_is_array(shape)) {
        fputs("token", out);
    } else if (literal->elided || (max_elements >= 0 && shape->count > max_elements)) {
        fputs("{...}", out);
    } else if (shape->rank == 0) {
        print_element(out, literal, 0);
    } else {
        print_dim(out, literal, 0, 0);
    }
}
