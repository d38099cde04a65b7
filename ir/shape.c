#include "ir/shape.h"

#include <stdio.h>
#include <string.h>

#include "ir/word.h"

static const struct element_type_info types[TYPE_COUNT] = {
    [TYPE_INVALID] = {"invalid", 0, 0, KIND_OTHER, 0, 0},
#define X(name, text, bits, kind, exponent, mantissa)                                              \
    [TYPE_##name] = {text, bits, ((bits) + 7) / 8, kind, exponent, mantissa},
#include "ir/element_type.def"
#undef X
};

static const struct word type_words[TYPE_COUNT] = {
#define X(name, text, bits, kind, exponent, mantissa) [TYPE_##name] = WORD(text),
#include "ir/element_type.def"
#undef X
};

static const uint8_t type_keys[TYPE_COUNT] = {
#define X(name, text, bits, kind, exponent, mantissa) [TYPE_##name] = WORD_KEY(text),
#include "ir/element_type.def"
#undef X
};

const struct element_type_info *element_type_info(enum element_type type) {
    return &types[type];
}

const char *element_type_name(enum element_type type) {
    return types[type].name;
}

int element_type_size(enum element_type type) {
    return types[type].size;
}

enum element_type element_type_from_name(const char *name, size_t length) {
    return (enum element_type)word_find(type_keys, type_words, TYPE_COUNT, name, length);
}

bool element_type_is_float(enum element_type type) {
    return types[type].kind == KIND_FLOAT;
}
bool element_type_is_complex(enum element_type type) {
    return types[type].kind == KIND_COMPLEX;
}
bool element_type_is_signed(enum element_type type) {
    return types[type].kind == KIND_SIGNED;
}
bool element_type_is_unsigned(enum element_type type) {
    return types[type].kind == KIND_UNSIGNED;
}

bool element_type_is_integral(enum element_type type) {
    return types[type].kind == KIND_SIGNED || types[type].kind == KIND_UNSIGNED;
}

bool element_type_is_array(enum element_type type) {
    return types[type].kind != KIND_OTHER;
}

enum element_type element_type_real_part(enum element_type type) {
    return type == TYPE_C64 ? TYPE_F32 : type == TYPE_C128 ? TYPE_F64 : type;
}

/* Interning: an open-addressed set of shapes, and one of layouts is not needed, since a layout is
 * compared and copied with the shape it belongs to. */
/* A shape and what only this file knows of it; every interned struct shape stands in one. */
struct entry {
    struct shape shape;
    int depth;             /* of tuples around the deepest leaf */
    bool dynamic;          /* some leaf is */
    const int *first_leaf; /* tuples: the number of each element's first leaf */
};

static const struct entry *entry_of(const struct shape *shape) {
    return (const struct entry *)shape;
}

enum { MAX_LEAVES = 1 << 20 };

struct shape_table {
    struct arena *arena;
    const struct shape **slots;
    uint64_t *hashes;
    size_t capacity, count;
};

struct shape_table *shape_table_new(struct arena *arena) {
    struct shape_table *table = arena_alloc(arena, sizeof *table);
    table->arena = arena;
    table->capacity = 64;
    table->slots = arena_array(arena, table->capacity, sizeof *table->slots);
    table->hashes = arena_array(arena, table->capacity, sizeof *table->hashes);
    return table;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; text && *text; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

static uint64_t layout_hash(uint64_t hash, const struct layout *layout) {
    hash = mix(hash, (uint64_t)layout->rank + 77);
    for (int i = 0; i < layout->rank; i++)
        hash = mix(hash, (uint64_t)layout->minor_to_major[i]);
    for (int i = 0; i < layout->ntiles; i++)
        for (int j = 0; j < layout->tiles[i].rank; j++)
            hash = mix(hash, (uint64_t)layout->tiles[i].dims[j]);
    hash = mix(hash, (uint64_t)layout->memory_space * 64 + (uint64_t)layout->element_bits);
    return mix_text(hash, layout->physical);
}

static uint64_t shape_hash(const struct shape *shape) {
    uint64_t hash = mix(shape->type, (uint64_t)shape->rank);
    for (int i = 0; i < shape->rank; i++)
        hash = mix(hash, (uint64_t)shape->dims[i] * 2 + (shape->dynamic && shape->dynamic[i]));
    if (shape->layout) hash = layout_hash(hash, shape->layout);
    for (int i = 0; i < shape->ntuple; i++)
        hash = mix(hash, (uint64_t)shape->tuple[i]->id + 3);
    return hash;
}

static bool text_equal(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool ints_equal(const int64_t *a, const int64_t *b, int count) {
    return count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static bool layout_equal(const struct layout *a, const struct layout *b) {
    if (!a || !b) return a == b;
    if (a->rank != b->rank || a->ntiles != b->ntiles || a->nsplits != b->nsplits ||
        a->tail_padding != b->tail_padding || a->index_type != b->index_type ||
        a->pointer_type != b->pointer_type || a->element_bits != b->element_bits ||
        a->memory_space != b->memory_space ||
        a->dynamic_metadata_prefix != b->dynamic_metadata_prefix ||
        !ints_equal(a->minor_to_major, b->minor_to_major, a->rank) ||
        !text_equal(a->dim_types, b->dim_types) || !text_equal(a->physical, b->physical))
        return false;
    for (int i = 0; i < a->ntiles; i++)
        if (a->tiles[i].rank != b->tiles[i].rank ||
            !ints_equal(a->tiles[i].dims, b->tiles[i].dims, a->tiles[i].rank))
            return false;
    for (int i = 0; i < a->nsplits; i++)
        if (a->splits[i].dim != b->splits[i].dim || a->splits[i].count != b->splits[i].count ||
            !ints_equal(a->splits[i].indices, b->splits[i].indices, a->splits[i].count))
            return false;
    return true;
}

static bool same(const struct shape *a, const struct shape *b) {
    if (a->type != b->type || a->rank != b->rank || a->ntuple != b->ntuple ||
        !ints_equal(a->dims, b->dims, a->rank) || !layout_equal(a->layout, b->layout))
        return false;
    for (int i = 0; i < a->rank; i++)
        if ((a->dynamic && a->dynamic[i]) != (b->dynamic && b->dynamic[i])) return false;
    for (int i = 0; i < a->ntuple; i++)
        if (a->tuple[i] != b->tuple[i]) return false;
    return true;
}

static void insert(struct shape_table *table, const struct shape *shape, uint64_t hash) {
    size_t at = hash & (table->capacity - 1);
    while (table->slots[at])
        at = (at + 1) & (table->capacity - 1);
    table->slots[at] = shape;
    table->hashes[at] = hash;
}

static void grow(struct shape_table *table) {
    const struct shape **slots = table->slots;
    uint64_t *hashes = table->hashes;
    size_t capacity = table->capacity;
    table->capacity *= 2;
    table->slots = arena_array(table->arena, table->capacity, sizeof *table->slots);
    table->hashes = arena_array(table->arena, table->capacity, sizeof *table->hashes);
    for (size_t i = 0; i < capacity; i++)
        if (slots[i]) insert(table, slots[i], hashes[i]);
}

static const struct layout *layout_copy(struct arena *arena, const struct layout *from) {
    struct layout *layout = arena_copy(arena, from, sizeof *from);
    layout->minor_to_major =
        arena_copy(arena, from->minor_to_major, (size_t)from->rank * sizeof(int64_t));
    struct tile *tiles = arena_copy(arena, from->tiles, (size_t)from->ntiles * sizeof *tiles);
    for (int i = 0; i < from->ntiles; i++)
        tiles[i].dims =
            arena_copy(arena, from->tiles[i].dims, (size_t)tiles[i].rank * sizeof(int64_t));
    layout->tiles = tiles;
    struct split_config *splits =
        arena_copy(arena, from->splits, (size_t)from->nsplits * sizeof *splits);
    for (int i = 0; i < from->nsplits; i++)
        splits[i].indices =
            arena_copy(arena, from->splits[i].indices, (size_t)splits[i].count * sizeof(int64_t));
    layout->splits = splits;
    if (from->dim_types) layout->dim_types = arena_strdup(arena, from->dim_types);
    if (from->physical) layout->physical = arena_strdup(arena, from->physical);
    return layout;
}

static const char *measure_tuple(struct arena *arena, struct entry *entry) {
    struct shape *shape = &entry->shape;
    int *first_leaf = arena_array(arena, (size_t)shape->ntuple, sizeof *first_leaf);
    int leaves = 0;
    for (int i = 0; i < shape->ntuple; i++) {
        const struct entry *element = entry_of(shape->tuple[i]);
        first_leaf[i] = leaves;
        leaves += element->shape.nleaves;
        /* Each fits in 62 bits, so the sum cannot wrap before it is looked at. */
        shape->bytes += element->shape.bytes;
        if (shape->bytes > INT64_MAX / 2) return "the tuple's size overflows";
        if (leaves > MAX_LEAVES) return "the tuple has too many elements";
        if (element->depth >= entry->depth) entry->depth = element->depth + 1;
        entry->dynamic |= element->dynamic;
    }
    entry->first_leaf = first_leaf;
    if (entry->depth > SHAPE_MAX_DEPTH) return "tuples are nested too deeply";
    shape->nleaves = shape->type == TYPE_TUPLE ? leaves : 1;
    return NULL;
}

static const char *check_layout(const struct layout *layout, int rank) {
    if (layout->rank != rank) return "the layout's rank is not the array's";
    uint64_t seen = 0;
    for (int i = 0; i < rank; i++) {
        int64_t dim = layout->minor_to_major[i];
        if (dim < 0 || dim >= rank || (seen >> dim & 1))
            return "the layout is not a permutation of the dimensions";
        seen |= (uint64_t)1 << dim;
    }
    return NULL;
}

/* Sizes are multiplied with zeros taken as one: strides must fit where an array is empty too. */
static const char *measure_array(struct entry *entry) {
    struct shape *shape = &entry->shape;
    int64_t size = element_type_size(shape->type), bytes = size;
    bool zero = false;
    if (shape->rank < 0 || shape->rank > SHAPE_MAX_RANK) return "more than 64 dimensions";
    for (int i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dims[i];
        entry->dynamic |= shape->dynamic && shape->dynamic[i];
        if (dim == SHAPE_UNBOUNDED) continue;
        if (dim < 0) return "a dimension is negative";
        zero |= dim == 0;
        if (dim && __builtin_mul_overflow(bytes, dim, &bytes)) return "the array's size overflows";
    }
    if (bytes > INT64_MAX / 2) return "the array's size overflows";
    shape->count = zero ? 0 : bytes / size;
    shape->bytes = zero ? 0 : bytes;
    return shape->layout ? check_layout(shape->layout, shape->rank) : NULL;
}

/* Fills what is computed; the reason where something is out of range, or NULL. */
static const char *measure(struct arena *arena, struct entry *entry) {
    struct shape *shape = &entry->shape;
    shape->count = -1;
    shape->bytes = 0;
    shape->nleaves = 1;
    if (element_type_is_array(shape->type)) return measure_array(entry);
    if (shape->rank || shape->layout) return "only arrays have dimensions and a layout";
    return shape->ntuple || shape->type == TYPE_TUPLE ? measure_tuple(arena, entry) : NULL;
}

static const struct shape *plain_of(struct shape_table *table, const struct shape *shape) {
    bool changed = shape->layout != NULL;
    for (int i = 0; i < shape->ntuple; i++)
        changed |= shape->tuple[i]->plain != shape->tuple[i];
    if (!changed) return shape;
    struct shape proto = *shape;
    proto.layout = NULL;
    const struct shape **elements =
        arena_array(table->arena, (size_t)shape->ntuple, sizeof *elements);
    for (int i = 0; i < shape->ntuple; i++)
        elements[i] = shape->tuple[i]->plain;
    proto.tuple = elements;
    return shape_intern(table, &proto, NULL);
}

const struct shape *shape_intern(struct shape_table *table, const struct shape *proto,
                                 const char **why) {
    if (why) *why = NULL;
    uint64_t hash = shape_hash(proto);
    for (size_t at = hash & (table->capacity - 1); table->slots[at];
         at = (at + 1) & (table->capacity - 1))
        if (table->hashes[at] == hash && same(table->slots[at], proto)) return table->slots[at];
    struct arena *arena = table->arena;
    struct entry measured = {.shape = *proto};
    const char *fault = measure(arena, &measured);
    if (why) *why = fault;
    if (fault) return NULL;
    struct entry *entry = arena_copy(arena, &measured, sizeof measured);
    struct shape *shape = &entry->shape;
    shape->dims = arena_copy(arena, proto->dims, (size_t)proto->rank * sizeof(int64_t));
    shape->dynamic = NULL;
    if (measured.dynamic && proto->dynamic)
        shape->dynamic = arena_copy(arena, proto->dynamic, (size_t)proto->rank * sizeof(bool));
    shape->tuple = arena_copy(arena, proto->tuple, (size_t)proto->ntuple * sizeof *proto->tuple);
    if (proto->layout) shape->layout = layout_copy(arena, proto->layout);
    shape->id = (int)table->count;
    if (2 * ++table->count > table->capacity) grow(table);
    insert(table, shape, hash);
    shape->plain = plain_of(table, shape);
    return shape;
}

const struct shape *shape_array(struct shape_table *table, enum element_type type, int rank,
                                const int64_t *dims) {
    return shape_intern(table, &(struct shape){.type = type, .rank = rank, .dims = dims}, NULL);
}

const struct shape *shape_scalar(struct shape_table *table, enum element_type type) {
    return shape_array(table, type, 0, NULL);
}

const struct shape *shape_tuple(struct shape_table *table, int count,
                                const struct shape *const *elements) {
    return shape_intern(
        table, &(struct shape){.type = TYPE_TUPLE, .ntuple = count, .tuple = elements}, NULL);
}

const struct shape *shape_token(struct shape_table *table) {
    return shape_intern(table, &(struct shape){.type = TYPE_TOKEN}, NULL);
}

const struct shape *shape_with_type(struct shape_table *table, const struct shape *shape,
                                    enum element_type type) {
    struct shape proto = *shape;
    proto.type = type;
    return shape_intern(table, &proto, NULL);
}

const struct shape *shape_with_layout(struct shape_table *table, const struct shape *shape,
                                      const struct layout *layout) {
    struct shape proto = *shape;
    proto.layout = layout;
    return shape_intern(table, &proto, NULL);
}

const struct shape *shape_with_default_layouts(struct shape_table *table,
                                               const struct shape *shape) {
    struct shape proto = *shape;
    if (shape->type == TYPE_TUPLE) {
        const struct shape **elements =
            arena_array(table->arena, (size_t)shape->ntuple, sizeof *elements);
        for (int i = 0; i < shape->ntuple; i++)
            elements[i] = shape_with_default_layouts(table, shape->tuple[i]);
        proto.tuple = elements;
        return shape_intern(table, &proto, NULL);
    }
    if (shape->layout || !shape_is_array(shape)) return shape;
    int64_t order[SHAPE_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        order[i] = shape->rank - 1 - i;
    struct layout layout = {.rank = shape->rank, .minor_to_major = order};
    proto.layout = &layout;
    return shape_intern(table, &proto, NULL);
}

bool shape_is_array(const struct shape *shape) {
    return element_type_is_array(shape->type);
}
bool shape_is_tuple(const struct shape *shape) {
    return shape->type == TYPE_TUPLE;
}
bool shape_is_token(const struct shape *shape) {
    return shape->type == TYPE_TOKEN;
}

bool shape_is_scalar(const struct shape *shape) {
    return shape_is_array(shape) && shape->rank == 0;
}

bool shape_is_dynamic(const struct shape *shape) {
    return entry_of(shape)->dynamic;
}

bool shape_compatible(const struct shape *a, const struct shape *b) {
    return a->plain == b->plain;
}

bool shape_same_dims(const struct shape *a, const struct shape *b) {
    if (a->plain == b->plain) return true;
    if (a->rank != b->rank || a->ntuple != b->ntuple || !shape_is_array(a) || !shape_is_array(b))
        return false;
    for (int i = 0; i < a->rank; i++)
        if ((a->dynamic && a->dynamic[i]) != (b->dynamic && b->dynamic[i])) return false;
    return ints_equal(a->dims, b->dims, a->rank);
}

const struct shape *shape_leaf(const struct shape *shape, int index) {
    while (shape->type == TYPE_TUPLE) {
        /* The last element that starts at or before the leaf; empty tuples share starts. */
        const int *first_leaf = entry_of(shape)->first_leaf;
        int low = 0, high = shape->ntuple;
        while (high - low > 1) {
            int middle = low + (high - low) / 2;
            if (first_leaf[middle] <= index)
                low = middle;
            else
                high = middle;
        }
        index -= first_leaf[low];
        shape = shape->tuple[low];
    }
    return shape;
}

int shape_tuple_first_leaf(const struct shape *shape, int element) {
    return entry_of(shape)->first_leaf[element];
}

int shape_minor_to_major(const struct shape *shape, int i) {
    return shape->layout ? (int)shape->layout->minor_to_major[i] : shape->rank - 1 - i;
}

bool shape_layout_is_default(const struct shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (shape_minor_to_major(shape, i) != shape->rank - 1 - i) return false;
    return true;
}

int shape_threefry_dim(const struct shape *shape) {
    int largest = 0;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] % 2 == 0) return i;
        if (shape->dims[i] > shape->dims[largest]) largest = i;
    }
    return largest;
}

void shape_row_major(const struct shape *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

void shape_strides(const struct shape *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int i = 0; i < shape->rank; i++) {
        int dim = shape_minor_to_major(shape, i);
        strides[dim] = stride;
        stride *= shape->dims[dim] > 0 ? shape->dims[dim] : 1;
    }
}
