#include "compiler/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/number.h"

/* ---- header ---- */

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool take(struct cursor *c, char wanted) {
    skip_space(c);
    if (c->at >= c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_string(struct cursor *c, char *out, size_t capacity) {
    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 >= capacity || !*c->at) return false;
        out[n++] = *c->at++;
    }
    if (c->at >= c->end) return false;
    c->at++;
    out[n] = 0;
    return true;
}

static bool take_word(struct cursor *c, const char *word) {
    skip_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static bool take_size(struct cursor *c, int64_t *out) {
    skip_space(c);
    const char *first = c->at;
    int64_t value = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c->at - '0', &value)) {
            return false;
        }
        c->at++;
    }
    bool any = c->at > first;
    if (any && c->at < c->end && *c->at == 'L') c->at++; /* Python 2 wrote 3L */
    *out = value;
    return any;
}

static bool take_shape(struct cursor *c, struct npy_header *header, struct fault *fault) {
    header->rank = 0;
    if (!take(c, '(')) return fault_set(fault, "is no .npy file: its shape is no tuple");
    while (!take(c, ')')) {
        if (header->rank == SHAPE_MAX_RANK) return fault_set(fault, "has too many dimensions");
        if (!take_size(c, &header->dims[header->rank++])) {
            return fault_set(fault, "has a dimension that is no size");
        }
        if (!take(c, ',') && (c->at >= c->end || *c->at != ')')) {
            return fault_set(fault, "is no .npy file: its shape is no tuple");
        }
    }
    return true;
}

static bool take_type(struct cursor *c, struct npy_header *header, struct fault *fault) {
    char text[32];
    if (!take_string(c, text, sizeof text)) {
        return fault_set(fault, "has a structured or unreadable dtype");
    }
    const char *p = text;
    header->order = strchr("<>|=", *p) && *p ? *p++ : '|';
    header->kind = *p ? *p++ : 0;
    if (header->kind == '?' && !*p) {
        header->kind = 'b';
        p = "1";
    }
    char *end;
    long size = strtol(p, &end, 10);
    if (!header->kind || !strchr("biufcV", header->kind) || *end || end == p || size < 1 ||
        size > 64) {
        return fault_set(fault, "has elements of dtype '%s', which no HLO type matches", text);
    }
    header->size = (int)size;
    return true;
}

static bool take_dictionary(struct cursor *c, struct npy_header *header, struct fault *fault) {
    unsigned seen = 0;
    if (!take(c, '{')) return fault_set(fault, "is no .npy file: its header is no dictionary");
    while (!take(c, '}')) {
        char key[32];
        if (!take_string(c, key, sizeof key) || !take(c, ':')) {
            return fault_set(fault, "is no .npy file: its header is no dictionary");
        }
        if (strcmp(key, "descr") == 0) {
            if (!take_type(c, header, fault)) return false;
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            header->fortran = take_word(c, "True");
            if (!header->fortran && !take_word(c, "False")) {
                return fault_set(fault, "has a fortran_order that is neither True nor False");
            }
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            if (!take_shape(c, header, fault)) return false;
            seen |= 4;
        } else {
            return fault_set(fault, "has an unknown header key '%s'", key);
        }
        if (!take(c, ',') && (c->at >= c->end || *c->at != '}')) {
            return fault_set(fault, "is no .npy file: its header is no dictionary");
        }
    }
    skip_space(c);
    if (c->at < c->end) return fault_set(fault, "has text behind the dictionary of its header");
    return seen == 7 || fault_set(fault, "lacks descr, fortran_order or shape in its header");
}

bool npy_parse_header(const uint8_t *bytes, size_t size, struct npy_header *header,
                      struct fault *fault) {
    memset(header, 0, sizeof *header);
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return fault_set(fault, "is no .npy file: it does not start with \\x93NUMPY");
    }
    int version = bytes[6];
    if (version < 1 || version > 3) {
        return fault_set(fault, "is a .npy file of unknown version %d", version);
    }
    size_t start = version == 1 ? 10 : 12;
    if (size < start) return fault_set(fault, "is truncated in its header");
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (start + length > NPY_MAX_HEADER) {
        return fault_set(fault, "has a header of %zu bytes, at most %d expected", start + length,
                         NPY_MAX_HEADER);
    }
    if (length > size - start) return fault_set(fault, "is truncated in its header");
    struct cursor c = {(const char *)bytes + start, (const char *)bytes + start + length};
    header->offset = start + length;
    return take_dictionary(&c, header, fault);
}

/* ---- types ---- */

/* numpy's kind of the elements, 'V' for those it has no name for. */
static char kind_of(enum element_type type) {
    const struct element_type_info *info = element_type_info(type);
    switch (info->kind) {
    case KIND_PRED: return 'b';
    case KIND_SIGNED: return info->bits < 8 ? 'V' : 'i';
    case KIND_UNSIGNED: return info->bits < 8 ? 'V' : 'u';
    case KIND_FLOAT: return type == TYPE_F16 || type == TYPE_F32 || type == TYPE_F64 ? 'f' : 'V';
    case KIND_COMPLEX: return 'c';
    default: return 0;
    }
}

static bool type_matches(const struct npy_header *header, enum element_type type) {
    char kind = kind_of(type);
    if (header->size != element_type_size(type)) return false;
    if (header->kind == kind) return true;
    /* 4-bit integers are also taken from byte arrays. */
    const struct element_type_info *info = element_type_info(type);
    return (info->kind == KIND_SIGNED && header->kind == 'i') ||
           (info->kind == KIND_UNSIGNED && header->kind == 'u');
}

static void describe_dims(char *text, size_t capacity, int rank, const int64_t *dims) {
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < rank && n < capacity; i++) {
        n += (size_t)snprintf(text + n, capacity - n, "%s%" PRId64, i ? "," : "", dims[i]);
    }
}

static bool header_matches(const struct npy_header *header, const struct shape *shape,
                           struct fault *fault) {
    char want[160], got[160];
    describe_dims(want, sizeof want, shape->rank, shape->dims);
    describe_dims(got, sizeof got, header->rank, header->dims);
    if (!type_matches(header, shape->type)) {
        return fault_set(fault, "holds dtype %c%c%d, the program wants %s[%s]", header->order,
                         header->kind, header->size, element_type_name(shape->type), want);
    }
    bool same = header->rank == shape->rank;
    for (int i = 0; same && i < shape->rank; i++)
        same = header->dims[i] == shape->dims[i];
    if (!same) {
        return fault_set(fault, "has shape [%s], the program wants %s[%s]", got,
                         element_type_name(shape->type), want);
    }
    if (header->order == '>' && header->size > 1) {
        return fault_set(fault, "is big-endian: convert it, for instance by a.astype('<%c%d')",
                         header->kind, header->size);
    }
    return true;
}

/* ---- data ---- */

/* Column-major elements to row-major ones: an odometer over the row-major index. */
static void from_fortran(uint8_t *to, const uint8_t *from, const struct shape *shape, int size) {
    int64_t strides[SHAPE_MAX_RANK], index[SHAPE_MAX_RANK] = {0};
    int64_t stride = 1, source = 0;
    for (int i = 0; i < shape->rank; i++) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
    for (int64_t n = 0; n < shape->count; n++) {
        memcpy(to + n * size, from + source * size, (size_t)size);
        for (int d = shape->rank - 1; d >= 0; d--) {
            source += strides[d];
            if (++index[d] < shape->dims[d]) break;
            source -= strides[d] * shape->dims[d];
            index[d] = 0;
        }
    }
}

/* Literals hold narrow integers extended and pred as 0 or 1, whatever the file's bytes say. */
static void normalise(struct literal *literal) {
    const struct element_type_info *info = element_type_info(literal->shape->type);
    uint8_t *data = literal->data;
    if (info->kind == KIND_PRED) {
        for (size_t i = 0; i < literal->size; i++)
            data[i] = data[i] != 0;
    } else if (info->bits < 8 && (info->kind == KIND_SIGNED || info->kind == KIND_UNSIGNED)) {
        for (size_t i = 0; i < literal->size; i++) {
            data[i] = (uint8_t)number_wrap(literal->shape->type, (int8_t)data[i]);
        }
    } else if (info->bits < 8) {
        for (size_t i = 0; i < literal->size; i++)
            data[i] &= (uint8_t)((1 << info->bits) - 1);
    }
}

static bool size_overflows(const struct npy_header *header) {
    int64_t count = 1;
    for (int i = 0; i < header->rank; i++) {
        if (header->dims[i] && __builtin_mul_overflow(count, header->dims[i], &count)) return true;
    }
    return __builtin_mul_overflow(count, (int64_t)header->size, &count);
}

static bool length_wrong(size_t got, const struct shape *shape, struct fault *fault) {
    return fault_set(fault, "%s: %zu bytes of data, %" PRId64 " expected",
                     got < (size_t)shape->bytes ? "is truncated" : "is too long", got,
                     shape->bytes);
}

/* The data: `have` bytes that came with the header, and the rest of the file. */
static bool read_data(FILE *file, const uint8_t *start, size_t have, uint8_t *data,
                      const struct shape *shape, struct fault *fault) {
    size_t wanted = (size_t)shape->bytes, taken = have < wanted ? have : wanted;
    memcpy(data, start, taken);
    taken += fread(data + taken, 1, wanted - taken, file);
    if (ferror(file)) return fault_set(fault, "cannot be read: %s", strerror(errno));
    if (taken < wanted) return length_wrong(taken, shape, fault);
    return (have <= wanted && fgetc(file) == EOF) || length_wrong(wanted + 1, shape, fault);
}

static struct literal *read_array(FILE *file, const struct npy_header *header, const uint8_t *start,
                                  size_t have, const struct shape *shape, struct fault *fault) {
    struct literal *literal = literal_new_uninit(shape);
    bool turned = header->fortran && shape->rank > 1 && literal && literal->size;
    uint8_t *columns = turned ? malloc(literal->size) : NULL;
    bool ok = literal && (!turned || columns);
    if (!ok) fault_set(fault, "does not fit in memory");
    ok = ok && read_data(file, start, have, turned ? columns : literal->data, shape, fault);
    if (ok && turned) from_fortran(literal->data, columns, shape, header->size);
    free(columns);
    if (ok) {
        normalise(literal);
        return literal;
    }
    literal_unref(literal);
    return NULL;
}

/* `size`: of the file where that is known, else -1: so that a wrong one costs no reading. */
static struct literal *read_stream(FILE *file, int64_t size, const struct shape *shape,
                                   struct fault *fault) {
    uint8_t *head = malloc(NPY_MAX_HEADER);
    if (!head) return fault_set(fault, "does not fit in memory"), NULL;
    size_t have = fread(head, 1, NPY_MAX_HEADER, file);
    struct npy_header header;
    struct literal *literal = NULL;
    bool ok = !ferror(file) || fault_set(fault, "cannot be read: %s", strerror(errno));
    ok = ok && npy_parse_header(head, have, &header, fault);
    if (ok && size_overflows(&header)) ok = fault_set(fault, "has a size that overflows 64 bits");
    ok = ok && header_matches(&header, shape, fault);
    if (ok && size >= 0 && size - (int64_t)header.offset != shape->bytes) {
        ok = length_wrong((size_t)(size - (int64_t)header.offset), shape, fault);
    }
    if (ok) {
        literal =
            read_array(file, &header, head + header.offset, have - header.offset, shape, fault);
    }
    free(head);
    return literal;
}

struct literal *npy_decode(const uint8_t *bytes, size_t size, const struct shape *shape,
                           struct fault *fault) {
    FILE *file = fmemopen((void *)bytes, size, "rb");
    if (!file) return fault_set(fault, "cannot be read: %s", strerror(errno)), NULL;
    struct literal *literal = read_stream(file, (int64_t)size, shape, fault);
    fclose(file);
    return literal;
}

struct literal *npy_read(const char *path, const struct shape *shape, struct fault *fault) {
    int64_t size;
    FILE *file = file_open(path, &size, fault);
    if (!file) return NULL;
    struct literal *literal = read_stream(file, size, shape, fault);
    fclose(file);
    return literal;
}

bool npy_write(const char *path, const struct literal *literal, struct fault *fault) {
    const struct shape *shape = literal->shape;
    char kind = kind_of(shape->type);
    if (!kind) return fault_set(fault, "cannot hold %s", element_type_name(shape->type));
    int size = element_type_size(shape->type);
    char dims[SHAPE_MAX_RANK * 21 + 8] = "";
    describe_dims(dims, sizeof dims - 2, shape->rank, shape->dims);
    if (shape->rank == 1) strcat(dims, ",");
    char header[sizeof dims + 160];
    int n = snprintf(header, sizeof header,
                     "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }",
                     size == 1 || kind == 'V' ? '|' : '<', kind, size, dims);
    size_t length = ((size_t)n + 11 + 63) / 64 * 64 - 10; /* numpy aligns the data to 64 */
    struct output output;
    if (!output_open(&output, path, fault)) return false;
    uint8_t prefix[10] = "\x93NUMPY\1";
    prefix[7] = 0;
    prefix[8] = (uint8_t)length;
    prefix[9] = (uint8_t)(length >> 8);
    fwrite(prefix, 1, 10, output.stream);
    fprintf(output.stream, "%-*s\n", (int)length - 1, header);
    if (literal->size) fwrite(literal->data, 1, literal->size, output.stream);
    return output_commit(&output, fault);
}
