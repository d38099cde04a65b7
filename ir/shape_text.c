/* Shapes as text: `(f32[2,<=3]{1,0:T(8,128)S(1)}, token[])`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/shape.h"

/* Text that grows in an arena: abandoned halves cost at most as much again. */
struct text {
    struct arena *arena;
    char *bytes;
    size_t length, capacity;
};

static void put(struct text *text, const char *bytes) {
    size_t length = strlen(bytes);
    if (text->length + length + 1 > text->capacity) {
        size_t capacity = 2 * (text->length + length + 1);
        char *grown = arena_alloc(text->arena, capacity);
        if (text->length) memcpy(grown, text->bytes, text->length);
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->length, bytes, length + 1);
    text->length += length;
}

static void put_int(struct text *text, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    put(text, digits);
}

static void put_ints(struct text *text, const int64_t *values, int count) {
    for (int i = 0; i < count; i++) {
        if (i) put(text, ",");
        put_int(text, values[i]);
    }
}

static void put_call(struct text *text, const char *name, int64_t value) {
    put(text, name);
    put(text, "(");
    put_int(text, value);
    put(text, ")");
}

static void put_tiles(struct text *text, const struct layout *layout) {
    for (int i = 0; i < layout->ntiles; i++) {
        put(text, i == 0 ? "T(" : "(");
        for (int j = 0; j < layout->tiles[i].rank; j++) {
            if (j) put(text, ",");
            if (layout->tiles[i].dims[j] == TILE_COMBINE_DIM)
                put(text, "*");
            else
                put_int(text, layout->tiles[i].dims[j]);
        }
        put(text, ")");
    }
}

static void put_wrapped(struct text *text, const char *before, const char *inside) {
    put(text, before);
    put(text, inside);
    put(text, ")");
}

static void put_layout(struct text *text, const struct layout *layout) {
    put(text, "{");
    put_ints(text, layout->minor_to_major, layout->rank);
    struct text rest = {.arena = text->arena};
    if (layout->dim_types) put_wrapped(&rest, "D(", layout->dim_types);
    put_tiles(&rest, layout);
    if (layout->tail_padding > 1) put_call(&rest, "L", layout->tail_padding);
    if (layout->index_type) put_wrapped(&rest, "#(", element_type_name(layout->index_type));
    if (layout->pointer_type) put_wrapped(&rest, "*(", element_type_name(layout->pointer_type));
    if (layout->element_bits) put_call(&rest, "E", layout->element_bits);
    if (layout->memory_space) put_call(&rest, "S", layout->memory_space);
    for (int i = 0; i < layout->nsplits; i++) {
        put(&rest, i == 0 ? "SC(" : "(");
        put_int(&rest, layout->splits[i].dim);
        put(&rest, ":");
        put_ints(&rest, layout->splits[i].indices, layout->splits[i].count);
        put(&rest, ")");
    }
    if (layout->physical) put_wrapped(&rest, "P(", layout->physical);
    if (layout->dynamic_metadata_prefix) put_call(&rest, "M", layout->dynamic_metadata_prefix);
    if (rest.length) {
        put(text, ":");
        put(text, rest.bytes);
    }
    put(text, "}");
}

static void put_shape(struct text *text, const struct shape *shape, bool with_layout) {
    if (shape->type == TYPE_TUPLE || shape->type == TYPE_BUFFER) {
        put(text, shape->type == TYPE_BUFFER ? "b(" : "(");
        for (int i = 0; i < shape->ntuple; i++) {
            /* XLA marks every fifth element of a long tuple. */
            if (i && i % 5 == 0) {
                put(text, ", /*index=");
                put_int(text, i);
                put(text, "*/");
            } else if (i) {
                put(text, ", ");
            }
            put_shape(text, shape->tuple[i], with_layout);
        }
        put(text, ")");
        return;
    }
    put(text, element_type_name(shape->type));
    put(text, "[");
    for (int i = 0; i < shape->rank; i++) {
        if (i) put(text, ",");
        if (shape->dims[i] == SHAPE_UNBOUNDED) {
            put(text, "?");
            continue;
        }
        if (shape->dynamic && shape->dynamic[i]) put(text, "<=");
        put_int(text, shape->dims[i]);
    }
    put(text, "]");
    /* A scalar's empty layout says nothing unless it has a memory space or the like. */
    if (!with_layout || !shape->layout) return;
    const struct layout *layout = shape->layout;
    if (shape->rank || layout->ntiles || layout->memory_space || layout->element_bits)
        put_layout(text, layout);
}

char *shape_to_string(struct arena *arena, const struct shape *shape, bool with_layout) {
    struct text text = {.arena = arena};
    put_shape(&text, shape, with_layout);
    return text.bytes;
}
