/* Attribute values, by the kind that attribute.def gives the attribute. */
#include <stdlib.h>
#include <string.h>

#include "ir/parse_internal.h"

static struct arena *arena_of(const struct reader *reader) {
    return reader->context->module->arena;
}

static char *text_of(const struct parse_context *context, struct span span) {
    uint32_t begin = span.begin;
    while (begin < span.end && strchr(" \t\r\n", context->source[begin]))
        begin++;
    return arena_strndup(context->module->arena, context->source + begin, span.end - begin);
}

static double read_float(struct reader *reader) {
    char digits[64];
    size_t length;
    reader_skip(reader);
    const char *start = reader->p;
    for (length = 0; length < sizeof digits - 1 && start + length < reader->end &&
                     strchr("+-.0123456789eEinfax", start[length]);
         length++)
        digits[length] = start[length];
    digits[length] = '\0';
    char *end;
    double value = strtod(digits, &end);
    if (end == digits) reader_fail(reader, "expected a number here");
    reader->p += end - digits;
    return value;
}

static bool read_bool(struct reader *reader) {
    if (reader_eat_text(reader, "true") || reader_eat_text(reader, "1")) return true;
    if (!reader_eat_text(reader, "false") && !reader_eat_text(reader, "0"))
        reader_fail(reader, "expected true or false here");
    return false;
}

static const struct int_list *keep_ints(struct reader *reader, struct int_list list) {
    return arena_copy(arena_of(reader), &list, sizeof list);
}

static const struct int_list *read_bools(struct reader *reader) {
    int capacity = 0, count = 0;
    int64_t *values = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        values = arena_grow(arena_of(reader), values, &capacity, count + 1, sizeof *values);
        values[count++] = read_bool(reader);
        reader_eat(reader, ',');
    }
    return keep_ints(reader, (struct int_list){count, values});
}

static const struct slice_list *read_slices(struct reader *reader) {
    int capacity = 0;
    struct slice_list list = {0, NULL};
    struct slice_dim *v = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        v = arena_grow(arena_of(reader), v, &capacity, list.count + 1, sizeof *v);
        struct slice_dim dim = {.stride = 1};
        reader_expect(reader, '[');
        dim.start = reader_int(reader);
        reader_expect(reader, ':');
        dim.limit = reader_int(reader);
        if (reader_eat(reader, ':')) dim.stride = reader_int(reader);
        reader_expect(reader, ']');
        reader_eat(reader, ',');
        v[list.count++] = dim;
    }
    list.v = v;
    return arena_copy(arena_of(reader), &list, sizeof list);
}

static const struct padding_config *read_padding(struct reader *reader) {
    int capacity = 0;
    struct padding_config config = {0, NULL};
    struct padding_dim *v = NULL;
    while (!reader_done(reader)) {
        v = arena_grow(arena_of(reader), v, &capacity, config.count + 1, sizeof *v);
        struct padding_dim dim = {.low = reader_int(reader)};
        reader_expect(reader, '_');
        dim.high = reader_int(reader);
        if (reader_eat(reader, '_')) dim.interior = reader_int(reader);
        v[config.count++] = dim;
        if (!reader_eat(reader, 'x') && !reader_done(reader))
            reader_fail(reader, "expected 'x' between padding dimensions");
    }
    config.v = v;
    return arena_copy(arena_of(reader), &config, sizeof config);
}

/* 3x3 into the field at `offset` of each dimension; the first list sets the count. */
static void read_window_list(struct reader *reader, struct window *window, struct window_dim *dims,
                             size_t offset, bool pairs) {
    int count = 0;
    do {
        if (count == SHAPE_MAX_RANK) {
            reader_fail(reader, "a window of more than 64 dimensions");
            return;
        }
        char *dim = (char *)&dims[count++];
        if (pairs) {
            dims[count - 1].pad_low = reader_int(reader);
            reader_expect(reader, '_');
            dims[count - 1].pad_high = reader_int(reader);
        } else if (offset == offsetof(struct window_dim, reversed)) {
            dims[count - 1].reversed = read_bool(reader);
        } else {
            int64_t value = reader_int(reader);
            memcpy(dim + offset, &value, sizeof value);
        }
    } while (!reader->failed && reader_eat(reader, 'x'));
    if (window->count && window->count != count)
        reader_fail(reader, "window lists of %d and %d dimensions", window->count, count);
    window->count = count;
}

static const struct window *read_window(struct reader *reader) {
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        {"size=", offsetof(struct window_dim, size)},
        {"stride=", offsetof(struct window_dim, stride)},
        {"pad=", offsetof(struct window_dim, pad_low)},
        {"lhs_dilate=", offsetof(struct window_dim, lhs_dilate)},
        {"rhs_dilate=", offsetof(struct window_dim, rhs_dilate)},
        {"rhs_reversal=", offsetof(struct window_dim, reversed)},
    };
    struct window window = {0, NULL};
    struct window_dim dims[SHAPE_MAX_RANK];
    for (int i = 0; i < SHAPE_MAX_RANK; i++)
        dims[i] = (struct window_dim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        size_t i = 0, count = sizeof fields / sizeof *fields;
        while (i < count && !reader_eat_text(reader, fields[i].name))
            i++;
        if (i == count)
            reader_fail(reader, "unknown part of a window");
        else
            read_window_list(reader, &window, dims, fields[i].offset, i == 2);
        reader_eat(reader, ',');
    }
    window.v = arena_copy(arena_of(reader), dims, (size_t)window.count * sizeof *dims);
    return arena_copy(arena_of(reader), &window, sizeof window);
}

/* One group of letters and digits, `b01f`: place of each letter and of each spatial digit. A `?`
 * stands for a dimension that the convolution does not know, as in custom calls on vectors of
 * features. Returns the number of spatial dimensions. */
static int read_labels(struct reader *reader, char first, char second, int places[2],
                       int *spatial) {
    uint64_t seen = 0;
    int count = 0;
    places[0] = places[1] = -1;
    for (int place = 0; reader->p < reader->end && place < SHAPE_MAX_RANK; reader->p++, place++) {
        char c = *reader->p;
        if (c == first && places[0] < 0) {
            places[0] = place;
        } else if (c == second && places[1] < 0) {
            places[1] = place;
        } else if (c >= '0' && c <= '9' && !(seen >> (c - '0') & 1)) {
            seen |= 1ull << (c - '0');
            spatial[c - '0'] = place;
            count++;
        } else if (c == '?') {
            continue;
        } else {
            break;
        }
    }
    if (places[0] < 0 || places[1] < 0)
        reader_fail(reader, "dim_labels need '%c' and '%c'", first, second);
    else if (seen != (1ull << count) - 1)
        reader_fail(reader, "dim_labels need each spatial digit from 0 once");
    return count;
}

static const struct dim_labels *read_dim_labels(struct reader *reader) {
    struct dim_labels labels;
    int places[3][2], spatial[3][10], counts[3];
    reader_skip(reader);
    counts[0] = read_labels(reader, 'b', 'f', places[0], spatial[0]);
    reader_expect(reader, '_');
    counts[1] = read_labels(reader, 'i', 'o', places[1], spatial[1]);
    if (!reader_eat_text(reader, "->")) reader_fail(reader, "expected '->' in dim_labels");
    counts[2] = read_labels(reader, 'b', 'f', places[2], spatial[2]);
    if (!reader->failed && (counts[0] != counts[1] || counts[0] != counts[2]))
        reader_fail(reader, "dim_labels of different ranks");
    if (reader->failed) return NULL;
    labels.spatial = counts[0];
    size_t size = (size_t)labels.spatial * sizeof(int);
    labels.input_batch = places[0][0];
    labels.input_feature = places[0][1];
    labels.kernel_input = places[1][0];
    labels.kernel_output = places[1][1];
    labels.output_batch = places[2][0];
    labels.output_feature = places[2][1];
    labels.input_spatial = arena_copy(arena_of(reader), spatial[0], size);
    labels.kernel_spatial = arena_copy(arena_of(reader), spatial[1], size);
    labels.output_spatial = arena_copy(arena_of(reader), spatial[2], size);
    return arena_copy(arena_of(reader), &labels, sizeof labels);
}

static const struct int_list *read_precision(struct reader *reader) {
    int capacity = 0, count = 0;
    int64_t *values = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        size_t length;
        const char *word = reader_word(reader, &length);
        int precision = enum_precision_from_name(word, length);
        if (precision < 0) {
            reader->p = word;
            reader_fail(reader, "unknown precision '%.*s'", (int)length, word);
        }
        values = arena_grow(arena_of(reader), values, &capacity, count + 1, sizeof *values);
        values[count++] = precision;
        reader_eat(reader, ',');
    }
    return keep_ints(reader, (struct int_list){count, values});
}

static const struct shape *read_shape(struct reader *reader) {
    size_t at = (size_t)(reader->p - reader->context->source);
    const struct shape *shape =
        parse_shape_at(reader->context, &at, (size_t)(reader->end - reader->context->source), 0);
    reader->p = reader->context->source + at;
    if (!shape) reader->failed = true;
    return shape;
}

static const struct shape_list *read_shapes(struct reader *reader) {
    int capacity = 0;
    struct shape_list list = {0, NULL};
    const struct shape **v = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        v = arena_grow(arena_of(reader), v, &capacity, list.count + 1, sizeof *v);
        reader_skip(reader);
        v[list.count++] = read_shape(reader);
        reader_eat(reader, ',');
    }
    list.v = v;
    return arena_copy(arena_of(reader), &list, sizeof list);
}

/* {0}: (1, {}, may-alias), or for operands {0}: (1, {}). */
static const struct alias_list *read_aliases(struct reader *reader) {
    int capacity = 0;
    struct alias_list list = {0, NULL};
    struct alias_entry *v = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        v = arena_grow(arena_of(reader), v, &capacity, list.count + 1, sizeof *v);
        struct alias_entry entry = {.output_index = reader_ints(reader)};
        reader_expect(reader, ':');
        if (reader_eat(reader, '(')) {
            entry.parameter = reader_int(reader);
            if (reader_eat(reader, ',')) entry.parameter_index = reader_ints(reader);
            if (reader_eat(reader, ',')) {
                entry.has_kind = true;
                entry.must_alias = reader_eat_text(reader, "must-alias");
                if (!entry.must_alias && !reader_eat_text(reader, "may-alias"))
                    reader_fail(reader, "expected may-alias or must-alias");
            }
            reader_expect(reader, ')');
        } else {
            entry.parameter = reader_int(reader);
        }
        v[list.count++] = entry;
        reader_eat(reader, ',');
    }
    list.v = v;
    return arena_copy(arena_of(reader), &list, sizeof list);
}

#define METADATA_FIELDS(TEXT, NUMBER)                                                              \
    TEXT(op_type)                                                                                  \
    TEXT(op_name)                                                                                  \
    TEXT(source_file)                                                                              \
    TEXT(deduplicated_name)                                                                        \
    TEXT(scheduling_name)                                                                          \
    NUMBER(source_line)                                                                            \
    NUMBER(source_end_line)                                                                        \
    NUMBER(source_column)                                                                          \
    NUMBER(source_end_column)                                                                      \
    NUMBER(stack_frame_id)

/* Fields that have no place of their own, as written, with a blank between. */
struct other_fields {
    char *text;
    int length, capacity;
};

static void keep_field(struct reader *reader, struct other_fields *others, const char *text,
                       size_t length) {
    if (length > INT32_MAX / 2 - (size_t)others->length) abort(); /* the text is shorter */
    others->text = arena_grow(arena_of(reader), others->text, &others->capacity,
                              others->length + (int)length + 2, 1);
    if (others->length) others->text[others->length++] = ' ';
    memcpy(others->text + others->length, text, length);
    others->length += (int)length;
}

/* One field, `op_name="..."`. */
static void read_metadata_field(struct reader *reader, struct hlo_metadata *metadata,
                                struct other_fields *others) {
    size_t length;
    const char *word = reader_word(reader, &length);
    if (!length) reader_fail(reader, "expected a metadata field here");
    reader_expect(reader, '=');
#define TEXT(name)                                                                                 \
    if (length == sizeof(#name) - 1 && memcmp(word, #name, length) == 0) {                         \
        metadata->name = reader_string(reader);                                                    \
        return;                                                                                    \
    }
#define NUMBER(name)                                                                               \
    if (length == sizeof(#name) - 1 && memcmp(word, #name, length) == 0) {                         \
        metadata->name = reader_int(reader);                                                       \
        return;                                                                                    \
    }
    METADATA_FIELDS(TEXT, NUMBER)
#undef TEXT
#undef NUMBER
    if (reader->failed) return;
    bool open;
    reader->p += parse_value_length(reader->p, reader->end, &open);
    keep_field(reader, others, word, (size_t)(reader->p - word));
}

const struct hlo_metadata *parse_metadata(struct parse_context *context, size_t at, size_t *end) {
    struct reader whole = {context, context->source + at, context->source + context->size, false};
    struct reader *reader = &whole;
    struct hlo_metadata *metadata = arena_alloc(arena_of(reader), sizeof *metadata);
    struct other_fields others = {NULL, 0, 0};
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        read_metadata_field(reader, metadata, &others);
        reader_eat(reader, ',');
    }
    metadata->rest = others.text;
    *end = (size_t)(reader->p - context->source);
    if (!reader->failed) return metadata;
    bool open;
    *end = at + parse_value_length(context->source + at, reader->end, &open);
    return NULL;
}

static void read_control(struct reader *reader, struct hlo_instr *instr) {
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        reader_eat(reader, '%');
        size_t length;
        const char *word = reader_word(reader, &length);
        struct hlo_instr *found = parse_find_instr(reader->context, word, length);
        if (!found || found == instr) {
            reader->p = word;
            reader_fail(reader, "'%.*s' is not defined before this place", (int)length, word);
        } else {
            instr_add_control(instr, found);
        }
        reader_eat(reader, ',');
    }
}

static int64_t read_enum(struct reader *reader, const struct hlo_instr *instr, enum attr_key key) {
    bool quoted = reader_eat(reader, '"') || reader_eat(reader, '\'');
    size_t length;
    const char *word = reader_word(reader, &length);
    int value = enum_word_from_name(instr->opcode, key, word, length);
    if (value < 0) {
        reader->p = word;
        reader_fail(reader, "unknown value '%.*s' of %s", (int)length, word, attr_name(key));
    } else if (quoted) {
        reader->p++;
    }
    return value;
}

static void read_backend_config(struct reader *reader, struct hlo_attr *attr, struct span value) {
    reader_skip(reader);
    attr->quoted = reader_peek(reader, '"') || reader_peek(reader, '\'');
    attr->text = attr->quoted ? reader_string(reader) : text_of(reader->context, value);
    if (!attr->quoted) reader->p = reader->end;
}

/* {mode=highest}, or {tolerance={rtol=0.5, atol=1, ulps=2}}: kept as text. */
static void check_accuracy(struct reader *reader) {
    static const char *const modes[] = {"default", "highest"};
    static const char *const bounds[] = {"rtol=", "atol=", "ulps="};
    bool known = false;
    reader_expect(reader, '{');
    if (reader_eat_text(reader, "mode=")) {
        for (int i = 0; i < 2 && !known; i++)
            known = reader_eat_text(reader, modes[i]);
        if (!known) reader_fail(reader, "unknown mode of result_accuracy");
    } else if (reader_eat_text(reader, "tolerance=")) {
        reader_expect(reader, '{');
        while (!reader->failed && !reader_eat(reader, '}')) {
            known = false;
            for (int i = 0; i < 3 && !known; i++)
                known = reader_eat_text(reader, bounds[i]);
            if (known)
                read_float(reader);
            else
                reader_fail(reader, "unknown bound of result_accuracy");
            reader_eat(reader, ',');
        }
    } else {
        reader_fail(reader, "expected mode= or tolerance= here");
    }
    reader_expect(reader, '}');
}

/* One shape an operand, each that operand's but for the layout. */
static void check_constraints(struct reader *reader, const struct hlo_instr *instr,
                              const struct shape_list *shapes, const char *begin) {
    if (reader->failed) return;
    reader->p = begin;
    if (shapes->count != instr->noperands) {
        reader_fail(reader, "%d operand layout constraints for %d operands", shapes->count,
                    instr->noperands);
        return;
    }
    for (int i = 0; i < shapes->count; i++) {
        const struct shape *shape = instr->operands[i] ? instr->operands[i]->shape : NULL;
        if (shape && shapes->v[i] && !shape_compatible(shape, shapes->v[i]))
            reader_fail(reader, "the layout constraint of operand %d is of another shape", i);
    }
    reader->p = reader->end;
}

static void read_raw(struct reader *reader, struct hlo_attr *attr, struct span value) {
    if (attr->key == ATTR_RESULT_ACCURACY) {
        struct reader checked = *reader;
        check_accuracy(&checked);
        reader->failed = checked.failed;
    }
    attr->text = text_of(reader->context, value);
    reader->p = reader->end;
}

static void read_frontend(struct reader *reader, struct hlo_attr *attr, struct span value) {
    char *text = text_of(reader->context, value);
    size_t length = strlen(text);
    reader_skip(reader);
    if (length < 2 || text[0] != '{' || text[length - 1] != '}') {
        reader_fail(reader, "expected '{' here");
        return;
    }
    text[length - 1] = '\0';
    attr->text = text + 1;
    reader->p = reader->end;
}

static void read_ints_or_one(struct reader *reader, struct hlo_attr *attr) {
    attr->single = !reader_peek(reader, '{');
    if (!attr->single) {
        attr->ints = keep_ints(reader, reader_ints(reader));
        return;
    }
    int64_t value = reader_int(reader);
    const int64_t *kept = arena_copy(arena_of(reader), &value, sizeof value);
    attr->ints = keep_ints(reader, (struct int_list){1, kept});
}

static struct literal *read_literal(struct reader *reader, struct hlo_instr *instr) {
    struct parse_context *context = reader->context;
    reader_expect(reader, '(');
    reader_skip(reader);
    const struct shape *shape = instr->shape;
    if (!reader_peek(reader, '{') && !reader_peek(reader, '(')) shape = read_shape(reader);
    struct span inside = {(uint32_t)(reader->p - context->source),
                          (uint32_t)(reader->end - context->source)};
    while (inside.end > inside.begin && context->source[inside.end - 1] != ')')
        inside.end--;
    if (inside.end > inside.begin) inside.end--;
    if (reader->failed || !shape) return NULL;
    reader->p = reader->end;
    struct literal *literal = parse_literal_span(context, inside, shape);
    return literal ? module_own_literal(context->module, literal) : NULL;
}

void parse_attr_into(struct parse_context *context, struct hlo_instr *instr, enum attr_key key,
                     const struct raw_attr *raw) {
    struct reader reader = reader_new(context, raw->value);
    struct hlo_attr attr = {.key = key};
    switch (attr_kind(key)) {
    case ATTR_KIND_INT: attr.i = reader_int(&reader); break;
    case ATTR_KIND_BOOL: attr.i = read_bool(&reader); break;
    case ATTR_KIND_FLOAT: attr.f = read_float(&reader); break;
    case ATTR_KIND_ENUM: attr.i = read_enum(&reader, instr, key); break;
    case ATTR_KIND_STRING: attr.text = reader_string(&reader); break;
    case ATTR_KIND_INTS: read_ints_or_one(&reader, &attr); break;
    case ATTR_KIND_BOOLS:
        attr.ints = read_bools(&reader);
        if (key == ATTR_PARAMETER_REPLICATION && instr->shape && !reader.failed &&
            attr.ints->count != instr->shape->nleaves)
            reader_fail(&reader, "%d words for the %d arrays of the parameter", attr.ints->count,
                        instr->shape->nleaves);
        break;
    case ATTR_KIND_INT_LISTS: {
        struct int_lists lists = reader_int_lists(&reader);
        attr.int_lists = arena_copy(context->module->arena, &lists, sizeof lists);
        break;
    }
    case ATTR_KIND_SLICES: attr.slices = read_slices(&reader); break;
    case ATTR_KIND_PADDING: attr.padding = read_padding(&reader); break;
    case ATTR_KIND_WINDOW: attr.window = read_window(&reader); break;
    case ATTR_KIND_DIM_LABELS: attr.dim_labels = read_dim_labels(&reader); break;
    case ATTR_KIND_PRECISION: attr.ints = read_precision(&reader); break;
    case ATTR_KIND_REPLICA_GROUPS: attr.groups = parse_replica_groups(&reader, raw->value); break;
    case ATTR_KIND_SHARDING: attr.sharding = parse_sharding(&reader, 0); break;
    case ATTR_KIND_SHAPE: attr.shape = read_shape(&reader); break;
    case ATTR_KIND_SHAPES:
        attr.shapes = read_shapes(&reader);
        if (key == ATTR_OPERAND_LAYOUT_CONSTRAINTS)
            check_constraints(&reader, instr, attr.shapes, context->source + raw->value.begin);
        break;
    case ATTR_KIND_ALIASING: attr.aliases = read_aliases(&reader); break;
    case ATTR_KIND_LITERAL:
        attr.literal = read_literal(&reader, instr);
        if (!attr.literal) return;
        break;
    case ATTR_KIND_CONTROL: read_control(&reader, instr); return;
    case ATTR_KIND_FRONTEND: read_frontend(&reader, &attr, raw->value); break;
    case ATTR_KIND_BACKEND_CONFIG: read_backend_config(&reader, &attr, raw->value); break;
    default: read_raw(&reader, &attr, raw->value); break;
    }
    if (!reader.failed && !reader_done(&reader))
        reader_fail(&reader, "unexpected text behind the value of %s", attr_name(key));
    if (!reader.failed) instr_set_attr(instr, &attr);
}

/* ---- the module line ---- */

static void read_entry_layout(struct reader *reader) {
    struct hlo_module *module = reader->context->module;
    int capacity = 0;
    const struct shape **parameters = NULL;
    reader_expect(reader, '{');
    reader_expect(reader, '(');
    while (!reader->failed && !reader_eat(reader, ')')) {
        parameters = arena_grow(module->arena, parameters, &capacity, module->nentry_parameters + 1,
                                sizeof *parameters);
        reader_skip(reader);
        parameters[module->nentry_parameters++] = read_shape(reader);
        reader_eat(reader, ',');
    }
    module->entry_parameters = parameters;
    if (!reader_eat_text(reader, "->")) reader_fail(reader, "expected '->' here");
    reader_skip(reader);
    if (!reader->failed) module->entry_result = read_shape(reader);
    reader_expect(reader, '}');
}

static void read_donors(struct reader *reader) {
    struct hlo_module *module = reader->context->module;
    int capacity = 0;
    struct buffer_donor *donors = NULL;
    reader_expect(reader, '{');
    while (!reader->failed && !reader_eat(reader, '}')) {
        donors = arena_grow(module->arena, donors, &capacity, module->ndonors + 1, sizeof *donors);
        struct buffer_donor donor = {0};
        reader_expect(reader, '(');
        donor.parameter = reader_int(reader);
        if (reader_eat(reader, ',')) donor.index = reader_ints(reader);
        reader_expect(reader, ')');
        donors[module->ndonors++] = donor;
        reader_eat(reader, ',');
    }
    module->donors = donors;
}

void parse_module_attr(struct parse_context *context, const struct raw_attr *raw) {
    struct hlo_module *module = context->module;
    struct reader reader = reader_new(context, raw->value);
    const char *name = context->source + raw->name.begin;
    size_t length = raw->name.end - raw->name.begin;
#define IS(text) (length == sizeof(text) - 1 && memcmp(name, text, length) == 0)
    if (IS("is_scheduled"))
        module->is_scheduled = read_bool(&reader);
    else if (IS("replica_count"))
        module->replica_count = reader_int(&reader);
    else if (IS("num_partitions"))
        module->num_partitions = reader_int(&reader);
    else if (IS("entry_computation_layout"))
        read_entry_layout(&reader);
    else if (IS("input_output_alias"))
        module->aliases = *read_aliases(&reader);
    else if (IS("buffer_donor"))
        read_donors(&reader);
    else {
        struct module_attr *grown =
            arena_array(module->arena, (size_t)module->nattrs + 1, sizeof *grown);
        if (module->nattrs) memcpy(grown, module->attrs, (size_t)module->nattrs * sizeof *grown);
        grown[module->nattrs++] = (struct module_attr){arena_strndup(module->arena, name, length),
                                                       text_of(context, raw->value)};
        module->attrs = grown;
    }
#undef IS
}
