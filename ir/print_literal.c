/* Literals as text: the fewest digits that read back to the same bits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/number.h"
#include "ir/print.h"

static void print_nan(FILE *out, enum element_type type, uint64_t bits) {
    const struct element_type_info *info = element_type_info(type);
    uint64_t payload = info->mantissa_bits ? bits & ((1ull << info->mantissa_bits) - 1) : 0;
    bool negative = bits >> (info->exponent_bits + info->mantissa_bits) & 1;
    /* Formats with one NaN have no payload, and fnuz's sign bit is part of the code. */
    bool usual = info->mantissa_bits < 2 || payload == 1ull << (info->mantissa_bits - 1) ||
                 number_encode(type, NAN) == bits || number_encode(type, -(double)NAN) == bits;
    if (number_encode(type, NAN) == number_encode(type, -(double)NAN)) negative = false;
    fputs(negative ? "-nan" : "nan", out);
    if (!usual) fprintf(out, "(0x%" PRIx64 ")", payload);
}

static void print_float(FILE *out, enum element_type type, uint64_t bits) {
    double value = number_decode(type, bits);
    if (value != value) {
        print_nan(out, type, bits);
        return;
    }
    if (isinf(value)) {
        fputs(value < 0 ? "-inf" : "inf", out);
        return;
    }
    if (value == 0) {
        fputs(signbit(value) ? "-0.0" : "0", out);
        return;
    }
    if (fabs(value) < 1e6 && value == (double)(int)value) {
        fprintf(out, "%d", (int)value);
        return;
    }
    int least = type == TYPE_F64 ? 15 : type == TYPE_F32 ? 6 : 1;
    char text[40];
    for (int digits = least; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = type == TYPE_F32 ? (double)strtof(text, NULL) : strtod(text, NULL);
        if (number_encode(type, back) == bits) break;
    }
    fputs(text, out);
}

static uint64_t bits_at(const struct literal *literal, size_t offset, size_t size) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)literal->data + offset, size);
    return bits;
}

static void print_element(FILE *out, const struct literal *literal, int64_t index) {
    enum element_type type = literal->shape->type;
    size_t size = (size_t)element_type_size(type), at = (size_t)index * size;
    switch (element_type_info(type)->kind) {
    case KIND_PRED: fputs(literal_get_int(literal, index) ? "true" : "false", out); break;
    case KIND_SIGNED: fprintf(out, "%" PRId64, literal_get_int(literal, index)); break;
    case KIND_UNSIGNED:
        fprintf(out, "%" PRIu64, (uint64_t)literal_get_int(literal, index));
        break;
    case KIND_FLOAT: print_float(out, type, bits_at(literal, at, size)); break;
    default:
        fputc('(', out);
        print_float(out, element_type_real_part(type), bits_at(literal, at, size / 2));
        fputs(", ", out);
        print_float(out, element_type_real_part(type), bits_at(literal, at + size / 2, size / 2));
        fputc(')', out);
        break;
    }
}

static void print_dim(FILE *out, const struct literal *literal, int dim, int64_t *index) {
    const struct shape *shape = literal->shape;
    if (dim == shape->rank) {
        print_element(out, literal, (*index)++);
        return;
    }
    bool inner = dim == shape->rank - 1;
    fputs(inner ? "{" : "{ ", out);
    for (int64_t i = 0; i < shape->dims[dim]; i++) {
        if (i) fputs(", ", out);
        print_dim(out, literal, dim + 1, index);
    }
    fputs(inner ? "}" : " }", out);
}

void literal_print(FILE *out, const struct literal *literal, int64_t max_elements) {
    const struct shape *shape = literal->shape;
    if (literal->elided) {
        fputs("{...}", out);
    } else if (shape->type == TYPE_TUPLE) {
        fputs("( ", out);
        for (int i = 0; i < shape->ntuple; i++) {
            if (i) fputs(", ", out);
            literal_print(out, literal->elements[i], max_elements);
        }
        fputs(" )", out);
    } else if (!shape_is_array(shape)) {
        return;
    } else if (max_elements >= 0 && shape->rank && shape->count > max_elements) {
        fputs("{...}", out);
    } else {
        int64_t index = 0;
        print_dim(out, literal, 0, &index);
    }
}
