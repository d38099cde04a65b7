/* Shapes as text: `(f32[2,<=3]{1,0:T(8,128)S(1)}, token[])`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/print.h"
#include "ir/shape.h"

static void put_int(FILE *out, int64_t value) {
    char digits[24], *end = digits + sizeof digits, *at = end;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    fwrite_unlocked(at, 1, (size_t)(end - at), out);
}

static void put_ints(FILE *out, const int64_t *values, int count) {
    for (int i = 0; i < count; i++) {
        if (i) putc_unlocked(',', out);
        put_int(out, values[i]);
    }
}

static void put_call(FILE *out, const char *name, int64_t value) {
    fputs_unlocked(name, out);
    putc_unlocked('(', out);
    put_int(out, value);
    putc_unlocked(')', out);
}

static void put_tiles(FILE *out, const struct layout *layout) {
    for (int i = 0; i < layout->ntiles; i++) {
        fputs_unlocked(i == 0 ? "T(" : "(", out);
        for (int j = 0; j < layout->tiles[i].rank; j++) {
            if (j) putc_unlocked(',', out);
            if (layout->tiles[i].dims[j] == TILE_COMBINE_DIM)
                putc_unlocked('*', out);
            else
                put_int(out, layout->tiles[i].dims[j]);
        }
        putc_unlocked(')', out);
    }
}

static void put_wrapped(FILE *out, const char *before, const char *inside) {
    fputs_unlocked(before, out);
    fputs_unlocked(inside, out);
    putc_unlocked(')', out);
}

/* Whether anything follows the order of dimensions. */
static bool has_more(const struct layout *layout) {
    return layout->dim_types || layout->ntiles || layout->tail_padding > 1 || layout->index_type ||
           layout->pointer_type || layout->element_bits || layout->memory_space ||
           layout->nsplits || layout->physical || layout->dynamic_metadata_prefix;
}

static void put_layout(FILE *out, const struct layout *layout) {
    putc_unlocked('{', out);
    put_ints(out, layout->minor_to_major, layout->rank);
    if (has_more(layout)) putc_unlocked(':', out);
    if (layout->dim_types) put_wrapped(out, "D(", layout->dim_types);
    put_tiles(out, layout);
    if (layout->tail_padding > 1) put_call(out, "L", layout->tail_padding);
    if (layout->index_type) put_wrapped(out, "#(", element_type_name(layout->index_type));
    if (layout->pointer_type) put_wrapped(out, "*(", element_type_name(layout->pointer_type));
    if (layout->element_bits) put_call(out, "E", layout->element_bits);
    if (layout->memory_space) put_call(out, "S", layout->memory_space);
    for (int i = 0; i < layout->nsplits; i++) {
        fputs_unlocked(i == 0 ? "SC(" : "(", out);
        put_int(out, layout->splits[i].dim);
        putc_unlocked(':', out);
        put_ints(out, layout->splits[i].indices, layout->splits[i].count);
        putc_unlocked(')', out);
    }
    if (layout->physical) put_wrapped(out, "P(", layout->physical);
    if (layout->dynamic_metadata_prefix) put_call(out, "M", layout->dynamic_metadata_prefix);
    putc_unlocked('}', out);
}

void shape_print(FILE *out, const struct shape *shape, bool with_layout) {
    if (shape->type == TYPE_TUPLE || shape->type == TYPE_BUFFER) {
        fputs_unlocked(shape->type == TYPE_BUFFER ? "b(" : "(", out);
        for (int i = 0; i < shape->ntuple; i++) {
            /* XLA marks every fifth element of a long tuple. */
            if (i && i % 5 == 0) {
                fputs_unlocked(", /*index=", out);
                put_int(out, i);
                fputs_unlocked("*/", out);
            } else if (i) {
                fputs_unlocked(", ", out);
            }
            shape_print(out, shape->tuple[i], with_layout);
        }
        putc_unlocked(')', out);
        return;
    }
    fputs_unlocked(element_type_name(shape->type), out);
    putc_unlocked('[', out);
    for (int i = 0; i < shape->rank; i++) {
        if (i) putc_unlocked(',', out);
        if (shape->dims[i] == SHAPE_UNBOUNDED) {
            putc_unlocked('?', out);
            continue;
        }
        if (shape->dynamic && shape->dynamic[i]) fputs_unlocked("<=", out);
        put_int(out, shape->dims[i]);
    }
    putc_unlocked(']', out);
    /* A scalar's empty layout says nothing unless it has a memory space or the like. */
    if (!with_layout || !shape->layout) return;
    const struct layout *layout = shape->layout;
    if (shape->rank || layout->ntiles || layout->memory_space || layout->element_bits)
        put_layout(out, layout);
}

char *shape_to_string(struct arena *arena, const struct shape *shape, bool with_layout) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) abort();
    shape_print(out, shape, with_layout);
    if (fclose(out) != 0) abort();
    char *result = arena_strndup(arena, text, size);
    free(text);
    return result;
}
