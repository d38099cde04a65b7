/* Shardings, replica groups, and the tables of source places. */
#include <stdlib.h>
#include <string.h>

#include "ir/parse_internal.h"

static struct int_list read_bracket_ints(struct reader *reader) {
    struct arena *arena = reader->context->module->arena;
    int capacity = 0, count = 0;
    int64_t *values = NULL;
    reader_expect(reader, '[');
    while (!reader->failed && !reader_eat(reader, ']')) {
        values = arena_grow(arena, values, &capacity, count + 1, sizeof *values);
        values[count++] = reader_int(reader);
        if (!reader_eat(reader, ',') && !reader_peek(reader, ']'))
            reader_fail(reader, "expected ',' or ']' here");
    }
    return (struct int_list){count, values};
}

/* Product of sizes; -1 where one is not positive or it overflows. */
static int64_t product(struct int_list list) {
    int64_t result = 1;
    for (int i = 0; i < list.count; i++)
        if (list.v[i] <= 0 || __builtin_mul_overflow(result, list.v[i], &result)) return -1;
    return result;
}

/* `<=[4,2]T(1,0)` behind dims that have been read. */
static void read_iota(struct reader *reader, struct int_list dims, struct iota_tiles *iota) {
    const char *start = reader->p;
    struct int_list reshape = read_bracket_ints(reader);
    iota->ndims = dims.count;
    iota->dims = dims.v;
    iota->nreshape = reshape.count;
    iota->reshape = reshape.v;
    if (reader_eat(reader, 'T')) {
        int *transpose =
            arena_array(reader->context->module->arena, (size_t)reshape.count, sizeof *transpose);
        bool seen[SHAPE_MAX_RANK] = {false};
        reader_expect(reader, '(');
        for (int i = 0; i < reshape.count && !reader->failed; i++) {
            int64_t dim = reader_int(reader);
            if (dim < 0 || dim >= reshape.count || dim >= SHAPE_MAX_RANK || seen[dim])
                reader_fail(reader, "T(...) is no permutation of %d dimensions", reshape.count);
            else
                seen[transpose[i] = (int)dim] = true;
            if (i + 1 < reshape.count) reader_expect(reader, ',');
        }
        reader_expect(reader, ')');
        iota->transpose = transpose;
    }
    if (reader->failed) return;
    int64_t tiles = product(dims), devices = product(reshape);
    if (tiles < 0 || devices < 0)
        reader_fail(reader, "sizes of device tiles must be positive and their product fit");
    else if (tiles != devices) {
        reader->p = start;
        reader_fail(reader, "%lld tiles for %lld devices", (long long)tiles, (long long)devices);
    }
}

const struct replica_groups *parse_replica_groups(struct reader *reader, struct span value) {
    struct parse_context *context = reader->context;
    struct replica_groups groups = {.is_iota = false};
    if (reader_peek(reader, '[')) {
        groups.is_iota = true;
        struct int_list dims = read_bracket_ints(reader);
        if (!reader_eat_text(reader, "<="))
            reader_fail(reader, "expected '<=' here");
        else
            read_iota(reader, dims, &groups.iota);
    } else if (reader_peek(reader, '{')) {
        groups.lists = reader_int_lists(reader);
    } else {
        groups.mesh = arena_strndup(context->module->arena, context->source + value.begin,
                                    value.end - value.begin);
        reader->p = reader->end;
    }
    return arena_copy(context->module->arena, &groups, sizeof groups);
}

static enum sharding_kind last_dim_kind(struct reader *reader) {
    static const struct {
        const char *word;
        enum sharding_kind kind;
    } kinds[] = {{"replicated", SHARDING_REPLICATED},
                 {"manual", SHARDING_MANUAL},
                 {"unreduced", SHARDING_UNREDUCED},
                 {"unknown", SHARDING_UNKNOWN}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (reader_eat_text(reader, kinds[i].word)) return kinds[i].kind;
    reader_fail(reader, "unknown kind of a last tile dimension");
    return SHARDING_UNKNOWN;
}

static void read_last_dims(struct reader *reader, struct sharding *sharding) {
    int capacity = 0, *kinds = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        kinds = arena_grow(reader->context->module->arena, kinds, &capacity,
                           sharding->nlast_tile_dims + 1, sizeof *kinds);
        kinds[sharding->nlast_tile_dims++] = last_dim_kind(reader);
        reader_eat(reader, ',');
    }
    sharding->last_tile_dims = kinds;
}

static void read_devices(struct reader *reader, struct sharding *sharding) {
    const char *start = reader->p;
    struct int_list dims = read_bracket_ints(reader);
    sharding->kind = SHARDING_TILED;
    sharding->ndims = dims.count;
    sharding->dims = dims.v;
    if (reader_eat_text(reader, "<=")) {
        read_iota(reader, dims, &sharding->iota);
        return;
    }
    int capacity = 0;
    int64_t *devices = NULL;
    do {
        devices = arena_grow(reader->context->module->arena, devices, &capacity,
                             sharding->ndevices + 1, sizeof *devices);
        devices[sharding->ndevices++] = reader_int(reader);
    } while (!reader->failed && reader_eat(reader, ','));
    sharding->devices = devices;
    if (!reader->failed && product(dims) != sharding->ndevices) {
        reader->p = start;
        reader_fail(reader, "%lld tiles for %d devices", (long long)product(dims),
                    sharding->ndevices);
    }
}

static void read_tuple(struct reader *reader, struct sharding *sharding, int depth) {
    int capacity = 0;
    const struct sharding **elements = NULL;
    sharding->kind = SHARDING_TUPLE;
    while (!reader->failed && !reader_peek(reader, '}')) {
        elements = arena_grow(reader->context->module->arena, elements, &capacity,
                              sharding->nelements + 1, sizeof *elements);
        elements[sharding->nelements++] = parse_sharding(reader, depth + 1);
        if (!reader_eat(reader, ',')) break;
    }
    sharding->elements = elements;
}

/* To the end of this sharding's braces: a mesh and its axes are kept as text. */
static void skip_named(struct reader *reader, const char *start) {
    bool open;
    reader->p = start + parse_value_length(start, reader->end, &open);
    if (open)
        reader_fail(reader, "the sharding is never closed");
    else
        reader->p--;
}

static void read_words(struct reader *reader, struct sharding *sharding, const char *start) {
    bool has_device = false;
    while (!reader->failed && !reader_peek(reader, '}')) {
        if (reader_eat_text(reader, "replicated"))
            sharding->kind = SHARDING_REPLICATED;
        else if (reader_eat_text(reader, "manual"))
            sharding->kind = SHARDING_MANUAL;
        else if (reader_eat_text(reader, "unknown"))
            sharding->kind = SHARDING_UNKNOWN;
        else if (reader_eat_text(reader, "unreduced"))
            sharding->kind = SHARDING_UNREDUCED;
        else if (reader_eat_text(reader, "maximal_mesh[")) {
            sharding->kind = SHARDING_NAMED;
            skip_named(reader, start);
        } else if (reader_eat_text(reader, "maximal"))
            sharding->kind = SHARDING_MAXIMAL;
        else if (reader_eat_text(reader, "device=")) {
            has_device = true;
            sharding->device = reader_int(reader);
        } else if (reader_eat_text(reader, "devices="))
            read_devices(reader, sharding);
        else if (reader_eat_text(reader, "last_tile_dim_replicate"))
            sharding->last_tile_dim_replicate = true;
        else if (reader_eat_text(reader, "last_tile_dims="))
            read_last_dims(reader, sharding);
        else if (reader_eat_text(reader, "shard_as"))
            reader_int(reader);
        else if (reader_eat_text(reader, "shard_like"))
            reader_int(reader);
        else if (reader_eat_text(reader, "metadata=")) {
            bool open;
            reader->p += parse_value_length(reader->p, reader->end, &open);
        } else if (reader_peek(reader, '@') || reader_eat_text(reader, "mesh")) {
            sharding->kind = SHARDING_NAMED;
            skip_named(reader, start);
        } else {
            reader_fail(reader, "unknown word in a sharding");
        }
        reader_eat(reader, ',');
    }
    if (has_device != (sharding->kind == SHARDING_MAXIMAL))
        reader_fail(reader, has_device ? "a device, but the sharding is not maximal"
                                       : "a maximal sharding needs its device");
}

const struct sharding *parse_sharding(struct reader *reader, int depth) {
    struct sharding sharding = {.kind = SHARDING_EMPTY};
    reader_skip(reader);
    const char *start = reader->p;
    if (depth > SHAPE_MAX_DEPTH) reader_fail(reader, "shardings are nested too deeply");
    reader_expect(reader, '{');
    if (reader_peek(reader, '{'))
        read_tuple(reader, &sharding, depth);
    else
        read_words(reader, &sharding, start);
    reader_expect(reader, '}');
    struct arena *arena = reader->context->module->arena;
    if (!reader->failed) sharding.text = arena_strndup(arena, start, (size_t)(reader->p - start));
    return arena_copy(arena, &sharding, sizeof sharding);
}

/* ---- FileNames, FunctionNames, FileLocations, StackFrames ---- */

static void add_record(struct reader *reader, void **list, int *count, size_t size,
                       const void *record) {
    struct arena *arena = reader->context->module->arena;
    if ((*count & (*count - 1)) == 0) {
        void *grown = arena_array(arena, *count ? 2 * (size_t)*count : 1, size);
        if (*count) memcpy(grown, *list, (size_t)*count * size);
        *list = grown;
    }
    memcpy((char *)*list + (size_t)(*count)++ * size, record, size);
}

/* {key=1 key=2}: numbers by the words of `keys`. */
static void read_fields(struct reader *reader, const char *const *keys, int64_t *values) {
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        int i = 0;
        while (keys[i] && !reader_eat_text(reader, keys[i]))
            i++;
        if (!keys[i])
            reader_fail(reader, "unknown field of a table");
        else
            values[i] = reader_int(reader);
        reader_eat(reader, ',');
    }
}

void parse_stack_line(struct parse_context *context, struct span text) {
    static const char *const location_keys[] = {
        "file_name_id=", "function_name_id=", "line=", "end_line=", "column=", "end_column=", NULL};
    static const char *const frame_keys[] = {"file_location_id=", "parent_frame_id=", NULL};
    struct hlo_module *module = context->module;
    if (!module->tables) module->tables = arena_alloc(module->arena, sizeof *module->tables);
    struct stack_tables *tables = module->tables;
    struct reader reader = reader_new(context, text);
    size_t length;
    const char *word = reader_word(&reader, &length);
    while (!reader_done(&reader)) {
        int64_t number = reader_int(&reader);
        (void)number; /* they count from 1 in order */
        int64_t v[6] = {0};
        const char *name = reader_peek(&reader, '"') ? reader_string(&reader) : "";
        if (reader.failed) return;
        if (memcmp(word, "FileN", 5) == 0)
            add_record(&reader, (void **)&tables->files, &tables->nfiles, sizeof name, &name);
        else if (memcmp(word, "Funct", 5) == 0)
            add_record(&reader, (void **)&tables->functions, &tables->nfunctions, sizeof name,
                       &name);
        else if (memcmp(word, "FileL", 5) == 0) {
            read_fields(&reader, location_keys, v);
            struct file_location location = {v[0], v[1], v[2], v[3], v[4], v[5]};
            add_record(&reader, (void **)&tables->locations, &tables->nlocations, sizeof location,
                       &location);
        } else {
            read_fields(&reader, frame_keys, v);
            struct stack_frame frame = {v[0], v[1]};
            add_record(&reader, (void **)&tables->frames, &tables->nframes, sizeof frame, &frame);
        }
    }
}
