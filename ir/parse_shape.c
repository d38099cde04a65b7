/* Shapes and layouts from text: f32[2,<=3]{1,0:T(8,128)(2,1)S(1)}. */
#include <string.h>

#include "ir/parse_internal.h"

static const char *inside_parentheses(struct reader *reader) {
    const char *start = reader->p;
    while (reader->p < reader->end && *reader->p != ')')
        reader->p++;
    char *text = arena_strndup(reader->context->module->arena, start, (size_t)(reader->p - start));
    reader_expect(reader, ')');
    return text;
}

/* How each dimension is stored, `D,C+~`: dense, compressed, singleton or loosely compressed, then
 * + where indices repeat and ~ where they are in no order. */
static const char *read_dim_types(struct reader *reader, bool *sparse) {
    const char *start = reader->p;
    do {
        char kind = reader->p < reader->end ? *reader->p : ' ';
        if (kind != 'D' && kind != 'C' && kind != 'S' && kind != 'H') {
            reader_fail(reader, "expected D, C, S or H for a dimension here");
            return NULL;
        }
        *sparse |= kind != 'D';
        reader->p++;
        while (reader_eat(reader, '+') || reader_eat(reader, '~')) {
        }
    } while (reader_eat(reader, ','));
    size_t length = (size_t)(reader->p - start);
    reader_expect(reader, ')');
    return parse_keep_text(reader->context, start, length);
}

static enum element_type type_inside(struct reader *reader) {
    size_t length;
    const char *word = reader_word(reader, &length);
    enum element_type type = element_type_from_name(word, length);
    if (type == TYPE_INVALID) reader_fail(reader, "unknown type '%.*s'", (int)length, word);
    reader_expect(reader, ')');
    return type;
}

static void read_tiles(struct reader *reader, struct layout *layout) {
    static const int64_t combine = TILE_COMBINE_DIM;
    struct arena *arena = reader->context->module->arena;
    int capacity = 0;
    struct tile *tiles = NULL;
    while (reader_eat(reader, '(')) {
        tiles = arena_grow(arena, tiles, &capacity, layout->ntiles + 1, sizeof *tiles);
        int dim_capacity = 0, rank = 0;
        int64_t *dims = NULL;
        while (!reader->failed && !reader_eat(reader, ')')) {
            dims = arena_grow(arena, dims, &dim_capacity, rank + 1, sizeof *dims);
            dims[rank++] = reader_eat(reader, '*') ? combine : reader_int(reader);
            if (!reader_eat(reader, ',') && !reader_peek(reader, ')'))
                reader_fail(reader, "expected ',' or ')' in a tile");
        }
        tiles[layout->ntiles++] = (struct tile){rank, dims};
    }
    layout->tiles = tiles;
}

static void read_splits(struct reader *reader, struct layout *layout) {
    struct arena *arena = reader->context->module->arena;
    int capacity = 0;
    struct split_config *splits = NULL;
    while (reader_eat(reader, '(')) {
        splits = arena_grow(arena, splits, &capacity, layout->nsplits + 1, sizeof *splits);
        int index_capacity = 0;
        int64_t *indices = NULL;
        struct split_config split = {.dim = reader_int(reader)};
        reader_expect(reader, ':');
        while (!reader->failed && !reader_eat(reader, ')')) {
            indices = arena_grow(arena, indices, &index_capacity, split.count + 1, sizeof *indices);
            indices[split.count++] = reader_int(reader);
            reader_eat(reader, ',');
        }
        split.indices = indices;
        splits[layout->nsplits++] = split;
    }
    layout->splits = splits;
}

static int64_t int_inside(struct reader *reader) {
    int64_t value = reader_int(reader);
    reader_expect(reader, ')');
    return value;
}

/* What stands behind the colon of a layout. */
static void read_layout_rest(struct reader *reader, struct layout *layout) {
    bool sparse = false;
    while (!reader->failed && !reader_peek(reader, '}')) {
        if (reader_eat(reader, 'T'))
            read_tiles(reader, layout);
        else if (reader_eat_text(reader, "SC"))
            read_splits(reader, layout);
        else if (reader_eat_text(reader, "D("))
            layout->dim_types = read_dim_types(reader, &sparse);
        else if (reader_eat_text(reader, "L("))
            layout->tail_padding = int_inside(reader);
        else if (reader_eat_text(reader, "#("))
            layout->index_type = type_inside(reader);
        else if (reader_eat_text(reader, "*("))
            layout->pointer_type = type_inside(reader);
        else if (reader_eat_text(reader, "E("))
            layout->element_bits = int_inside(reader);
        else if (reader_eat_text(reader, "S("))
            layout->memory_space = int_inside(reader);
        else if (reader_eat_text(reader, "M("))
            layout->dynamic_metadata_prefix = int_inside(reader);
        else if (!sparse && reader_peek(reader, 'P'))
            reader_fail(reader, "a physical shape, but no dimension is sparse");
        else if (reader_eat_text(reader, "P("))
            layout->physical = inside_parentheses(reader);
        else
            reader_fail(reader, "unknown part of a layout");
    }
}

static void read_layout(struct reader *reader, struct layout *layout, int64_t *order) {
    if (!reader_expect(reader, '{')) return;
    layout->minor_to_major = order;
    uint64_t seen = 0;
    while (!reader->failed && !reader_peek(reader, '}') && !reader_peek(reader, ':')) {
        if (layout->rank == SHAPE_MAX_RANK) {
            reader_fail(reader, "a layout of more than 64 dimensions");
            return;
        }
        reader_skip(reader);
        const char *at = reader->p;
        int64_t dim = reader_int(reader);
        if (dim < 0 || dim >= SHAPE_MAX_RANK || seen >> dim & 1) {
            reader->p = at;
            reader_fail(reader, "the layout is no permutation of the dimensions");
        } else
            seen |= 1ull << dim;
        order[layout->rank++] = dim;
        if (!reader_eat(reader, ',') && !reader_peek(reader, '}') && !reader_peek(reader, ':'))
            reader_fail(reader, "expected ',', ':' or '}' in a layout");
    }
    if (reader_eat(reader, ':')) read_layout_rest(reader, layout);
    reader_expect(reader, '}');
}

static void read_dims(struct reader *reader, struct shape *proto, int64_t *dims, bool *dynamic) {
    reader_expect(reader, '[');
    while (!reader->failed && !reader_eat(reader, ']')) {
        if (proto->rank == SHAPE_MAX_RANK) {
            reader_fail(reader, "more than 64 dimensions");
            return;
        }
        dynamic[proto->rank] = reader_eat_text(reader, "<=");
        if (reader_eat(reader, '?')) {
            dynamic[proto->rank] = true;
            dims[proto->rank++] = SHAPE_UNBOUNDED;
        } else {
            reader_skip(reader);
            const char *at = reader->p;
            dims[proto->rank] = reader_int(reader);
            if (!reader->failed && dims[proto->rank++] < 0) {
                reader->p = at;
                reader_fail(reader, "a dimension is negative");
            }
        }
        if (!reader_eat(reader, ',') && !reader_peek(reader, ']'))
            reader_fail(reader, "expected ',' or ']' in a shape");
    }
}

static const struct shape *read_array(struct reader *reader) {
    size_t length;
    const char *word = reader_word(reader, &length);
    uint32_t begin = (uint32_t)(word - reader->context->source);
    struct shape proto = {.type = element_type_from_name(word, length)};
    if (!reader->failed &&
        (proto.type == TYPE_INVALID || proto.type == TYPE_TUPLE || proto.type == TYPE_BUFFER)) {
        reader->p = word;
        reader_fail(reader, "unknown type '%.*s'", (int)length, word);
    }
    int64_t dims[SHAPE_MAX_RANK], order[SHAPE_MAX_RANK];
    bool dynamic[SHAPE_MAX_RANK];
    struct layout layout = {.rank = 0};
    read_dims(reader, &proto, dims, dynamic);
    /* `f32[2] {` opens a computation; a layout follows at once. */
    bool has_layout = reader->p < reader->end && *reader->p == '{';
    if (has_layout && !reader->failed) {
        const char *at = reader->p;
        read_layout(reader, &layout, order);
        /* {:T(128)} leaves the order to the default. */
        bool only_rest = layout.rank == 0 && at[1] == ':' && proto.rank;
        for (int i = 0; only_rest && i < proto.rank; i++)
            order[i] = proto.rank - 1 - i;
        if (only_rest) layout.rank = proto.rank;
        if (!reader->failed && layout.rank != proto.rank &&
            (layout.rank || element_type_is_array(proto.type))) {
            reader->p = at;
            reader_fail(reader, "the layout has %d dimensions, the shape %d", layout.rank,
                        proto.rank);
        }
        for (int i = 0; i < layout.rank && !reader->failed; i++)
            if (order[i] >= layout.rank) {
                reader->p = at;
                reader_fail(reader, "the layout is no permutation of the dimensions");
            }
    }
    if (reader->failed) return NULL;
    proto.dims = dims;
    proto.dynamic = dynamic;
    if (has_layout) proto.layout = &layout;
    const char *why;
    const struct shape *shape = shape_intern(reader->context->module->shapes, &proto, &why);
    if (!shape) parse_error(reader->context, (struct span){begin, begin}, "%s", why);
    return shape;
}

const struct shape *parse_array_shape(struct parse_context *context, struct span text) {
    const char *bytes = context->source + text.begin;
    size_t length = text.end - text.begin;
    struct kept_shape *kept =
        &context->shapes[name_hash(bytes, length) % (sizeof context->shapes / sizeof *kept)];
    if (kept->shape && kept->text.end - kept->text.begin == length &&
        memcmp(context->source + kept->text.begin, bytes, length) == 0)
        return kept->shape;
    struct reader reader = reader_new(context, text);
    const struct shape *shape = read_array(&reader);
    if (shape) *kept = (struct kept_shape){text, shape};
    return shape;
}

static const struct shape *read_shape(struct reader *reader, int depth) {
    struct parse_context *context = reader->context;
    bool buffer = reader_eat_text(reader, "b(");
    if (!buffer && !reader_eat(reader, '(')) return read_array(reader);
    if (depth > SHAPE_MAX_DEPTH) reader_fail(reader, "tuples are nested too deeply");
    int capacity = 0, count = 0;
    const struct shape **elements = NULL;
    while (!reader->failed && !reader_eat(reader, ')')) {
        elements =
            arena_grow(context->module->arena, elements, &capacity, count + 1, sizeof *elements);
        if (!(elements[count++] = read_shape(reader, depth + 1))) return NULL;
        if (!reader_eat(reader, ',') && !reader_peek(reader, ')'))
            reader_fail(reader, "expected ',' or ')' in a tuple shape");
    }
    if (reader->failed) return NULL;
    const char *why;
    const struct shape *shape = shape_intern(
        context->module->shapes,
        &(struct shape){
            .type = buffer ? TYPE_BUFFER : TYPE_TUPLE, .ntuple = count, .tuple = elements},
        &why);
    if (!shape) reader_fail(reader, "%s", why);
    return shape;
}

const struct shape *parse_shape_at(struct parse_context *context, size_t *at, size_t end,
                                   int depth) {
    struct reader reader = reader_new(context, (struct span){(uint32_t)*at, (uint32_t)end});
    const struct shape *shape = read_shape(&reader, depth);
    *at = (size_t)(reader.p - context->source);
    return shape;
}
