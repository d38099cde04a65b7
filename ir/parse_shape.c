/* Shapes and layouts from their text. */
#include <string.h>

#include "ir/parse_internal.h"

enum { MAX_TILES = 16, MAX_SPLITS = 16 };

static struct arena *arena_of(const struct reader *reader) {
    return reader->context->module->arena;
}

/* (8,128), with * for a dimension that joins the next one. */
static struct tile read_tile(struct reader *reader) {
    int64_t dims[SHAPE_MAX_RANK];
    int rank = 0;
    reader_expect(reader, '(');
    while (!reader->failed && !reader_eat(reader, ')')) {
        if (rank == SHAPE_MAX_RANK) {
            reader_fail(reader, "a tile of too many dimensions");
            break;
        }
        if (reader_eat(reader, '*')) {
            dims[rank++] = TILE_COMBINE_DIM;
        } else {
            dims[rank++] = reader_int(reader);
            if (!reader->failed && dims[rank - 1] < 0) reader_fail(reader, "a negative tile size");
        }
        if (!reader_eat(reader, ',') && !reader_peek(reader, ')')) reader_expect(reader, ')');
    }
    return (struct tile){rank,
                         rank ? arena_copy(arena_of(reader), dims, (size_t)rank * sizeof *dims)
                              : NULL};
}

static int64_t read_number(struct reader *reader) {
    reader_expect(reader, '(');
    int64_t value = reader_int(reader);
    reader_expect(reader, ')');
    return value;
}

static enum element_type read_type(struct reader *reader) {
    reader_expect(reader, '(');
    size_t length;
    const char *word = reader_word(reader, &length);
    enum element_type type = element_type_from_name(word, length);
    if (type == TYPE_INVALID) reader_fail(reader, "expected an element type");
    reader_expect(reader, ')');
    return type;
}

static const char *read_text(struct reader *reader) {
    reader_expect(reader, '(');
    const char *begin = reader->p;
    int depth = 1;
    for (; reader->p < reader->end; reader->p++) {
        depth += (*reader->p == '(') - (*reader->p == ')');
        if (depth == 0) break;
    }
    char *text = arena_strndup(arena_of(reader), begin, (size_t)(reader->p - begin));
    reader_expect(reader, ')');
    return text;
}

/* SC(dim:i,j,...) */
static struct split_config read_split(struct reader *reader) {
    int64_t *indices = NULL;
    int count = 0, capacity = 0;
    reader_expect(reader, '(');
    int64_t dim = reader_int(reader);
    reader_expect(reader, ':');
    do {
        indices = arena_grow(arena_of(reader), indices, &capacity, count + 1, sizeof *indices);
        indices[count++] = reader_int(reader);
    } while (reader_eat(reader, ','));
    reader_expect(reader, ')');
    return (struct split_config){dim, count, indices};
}

static void read_tiles(struct reader *reader, struct layout *layout) {
    struct tile tiles[MAX_TILES];
    while (reader_peek(reader, '(')) {
        if (layout->ntiles == MAX_TILES) {
            reader_fail(reader, "too many tiles");
            return;
        }
        tiles[layout->ntiles++] = read_tile(reader);
    }
    if (layout->ntiles)
        layout->tiles =
            arena_copy(arena_of(reader), tiles, (size_t)layout->ntiles * sizeof *tiles);
}

/* What follows the colon. */
static void read_layout_rest(struct reader *reader, struct layout *layout) {
    struct split_config splits[MAX_SPLITS];
    while (!reader->failed && !reader_peek(reader, '}')) {
        if (reader_eat_text(reader, "SC")) {
            if (layout->nsplits == MAX_SPLITS) {
                reader_fail(reader, "too many split configurations");
                return;
            }
            splits[layout->nsplits++] = read_split(reader);
        } else if (reader_eat(reader, 'T')) {
            read_tiles(reader, layout);
        } else if (reader_eat(reader, 'L')) {
            layout->tail_padding = read_number(reader);
        } else if (reader_eat(reader, '#')) {
            layout->index_type = read_type(reader);
        } else if (reader_eat(reader, '*')) {
            layout->pointer_type = read_type(reader);
        } else if (reader_eat(reader, 'E')) {
            layout->element_bits = read_number(reader);
        } else if (reader_eat(reader, 'S')) {
            layout->memory_space = read_number(reader);
        } else if (reader_eat(reader, 'M')) {
            layout->dynamic_metadata_prefix = read_number(reader);
        } else if (reader_eat(reader, 'D')) {
            layout->dim_types = read_text(reader);
        } else if (reader_eat(reader, 'P')) {
            layout->physical = read_text(reader);
        } else {
            reader_fail(reader, "unknown part of a layout");
        }
    }
    if (layout->nsplits)
        layout->splits =
            arena_copy(arena_of(reader), splits, (size_t)layout->nsplits * sizeof *splits);
}

/* {1,0:T(8,128)}; the brace is at hand. */
static const struct layout *read_layout(struct reader *reader, int rank) {
    struct layout *layout = arena_alloc(arena_of(reader), sizeof *layout);
    int64_t order[SHAPE_MAX_RANK];
    uint64_t seen = 0;
    const char *begin = reader->p;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_peek(reader, '}') && !reader_peek(reader, ':')) {
        int64_t dim = reader_int(reader);
        if (reader->failed) return NULL;
        if (layout->rank == rank || dim < 0 || dim >= rank || (seen >> dim & 1)) {
            reader->p = begin;
            reader_fail(reader, "the layout is no permutation of the %d dimensions", rank);
            return NULL;
        }
        seen |= (uint64_t)1 << dim;
        order[layout->rank++] = dim;
        if (!reader_eat(reader, ',') && !reader_peek(reader, '}') && !reader_peek(reader, ':'))
            reader_expect(reader, '}');
    }
    bool order_given = layout->rank > 0 || !reader_peek(reader, ':');
    if (reader_eat(reader, ':')) read_layout_rest(reader, layout);
    reader_expect(reader, '}');
    /* {:T(128)} leaves the order to the default. */
    if (!order_given)
        for (; layout->rank < rank; layout->rank++)
            order[layout->rank] = rank - 1 - layout->rank;
    if (!reader->failed && layout->rank != rank) {
        reader->p = begin;
        reader_fail(reader, "the layout names %d of %d dimensions", layout->rank, rank);
    }
    if (rank) layout->minor_to_major = arena_copy(arena_of(reader), order, (size_t)rank * 8);
    return reader->failed ? NULL : layout;
}

static const struct shape *intern(struct reader *reader, const char *begin,
                                  const struct shape *proto) {
    if (reader->failed) return NULL;
    const char *why = "bad shape";
    const struct shape *shape = shape_intern(reader->context->module->shapes, proto, &why);
    if (shape) return shape;
    reader->p = begin;
    reader_fail(reader, "%s", why);
    return NULL;
}

static void read_dim(struct reader *reader, int64_t *size, bool *dynamic) {
    *dynamic = false;
    if (reader_eat(reader, '?')) {
        *dynamic = true;
        *size = SHAPE_UNBOUNDED;
        return;
    }
    if (reader_eat_text(reader, "<=")) *dynamic = true;
    *size = reader_int(reader);
    if (!reader->failed && *size < 0) reader_fail(reader, "a negative dimension");
}

static bool layout_ahead(struct reader *reader) {
    if (reader->failed || reader->p == reader->end || *reader->p != '{') return false;
    struct reader ahead = *reader;
    ahead.p++;
    reader_skip(&ahead);
    if (ahead.p == ahead.end) return false;
    return (*ahead.p >= '0' && *ahead.p <= '9') || *ahead.p == '}' || *ahead.p == ':';
}

static const struct shape *read_array(struct reader *reader) {
    reader_skip(reader);
    const char *begin = reader->p;
    size_t length;
    const char *word = reader_word(reader, &length);
    struct shape proto = {.type = element_type_from_name(word, length)};
    if (!reader->failed && (proto.type == TYPE_INVALID || proto.type == TYPE_TUPLE)) {
        reader->p = begin;
        reader_fail(reader, "'%.*s' is no element type", length < 60 ? (int)length : 60, word);
        return NULL;
    }
    int64_t dims[SHAPE_MAX_RANK];
    bool dynamic[SHAPE_MAX_RANK], any = false;
    reader_expect(reader, '[');
    while (!reader->failed && !reader_eat(reader, ']')) {
        if (proto.rank == SHAPE_MAX_RANK) {
            reader_fail(reader, "more than %d dimensions", SHAPE_MAX_RANK);
            return NULL;
        }
        read_dim(reader, &dims[proto.rank], &dynamic[proto.rank]);
        any |= dynamic[proto.rank++];
        if (!reader_eat(reader, ',') && !reader_peek(reader, ']')) reader_expect(reader, ']');
    }
    proto.dims = dims;
    proto.dynamic = any ? dynamic : NULL;
    if (layout_ahead(reader)) proto.layout = read_layout(reader, proto.rank);
    return intern(reader, begin, &proto);
}

static const struct shape *read_shape(struct reader *reader, int depth);

static const struct shape *read_tuple(struct reader *reader, int depth) {
    const char *begin = reader->p;
    const struct shape **items = NULL;
    int count = 0, capacity = 0;
    reader_expect(reader, '(');
    while (!reader->failed && !reader_eat(reader, ')')) {
        const struct shape *item = read_shape(reader, depth + 1);
        items = arena_grow(arena_of(reader), items, &capacity, count + 1, sizeof *items);
        items[count++] = item;
        if (!reader_eat(reader, ',') && !reader_peek(reader, ')')) reader_expect(reader, ')');
    }
    return intern(reader, begin,
                  &(struct shape){.type = TYPE_TUPLE, .ntuple = count, .tuple = items});
}

static const struct shape *read_shape(struct reader *reader, int depth) {
    if (depth >= PARSE_MAX_DEPTH) {
        reader_fail(reader, "tuples are nested too deeply");
        return NULL;
    }
    if (reader_peek(reader, '(')) return read_tuple(reader, depth);
    const char *begin = reader->p;
    if (!reader_eat_text(reader, "b(")) return read_array(reader);
    const struct shape *inner = read_shape(reader, depth + 1);
    reader_expect(reader, ')');
    return intern(reader, begin,
                  &(struct shape){.type = TYPE_BUFFER, .ntuple = 1, .tuple = &inner});
}

const struct shape *parse_array_shape(struct parse_context *context, struct span text) {
    struct reader reader = reader_new(context, text);
    const struct shape *shape = read_array(&reader);
    if (shape && !reader_done(&reader)) {
        reader_fail(&reader, "unexpected text behind the shape");
        return NULL;
    }
    return shape;
}

const struct shape *parse_shape_at(struct parse_context *context, size_t *at, size_t end,
                                   int depth) {
    struct reader reader = reader_new(context, (struct span){*at, end});
    const struct shape *shape = read_shape(&reader, depth);
    *at = (size_t)(reader.p - context->source);
    return shape;
}
