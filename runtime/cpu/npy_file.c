#include "runtime/cpu/npy_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NPY_MAX_HEADER = 1 << 16 }; /* bytes before the data; those of arrays have about 100 */

struct npy_header {
    char order; /* '<' '>' '|' '=' */
    char kind;  /* b i u f c V */
    int size;   /* bytes an element */
    bool fortran;
    int rank;
    int64_t dims[NPY_MAX_RANK];
    size_t offset; /* of the data in the file */
};

/* Always false, so that failing functions can return it. */
static bool complain(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(char *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, NPY_WHY, format, args);
    va_end(args);
    return false;
}

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

static bool take_shape(struct cursor *c, struct npy_header *header, char *why) {
    header->rank = 0;
    if (!take(c, '(')) return complain(why, "is no .npy file: its shape is no tuple");
    while (!take(c, ')')) {
        if (header->rank == NPY_MAX_RANK) return complain(why, "has too many dimensions");
        if (!take_size(c, &header->dims[header->rank++])) {
            return complain(why, "has a dimension that is no size");
        }
        if (!take(c, ',') && (c->at >= c->end || *c->at != ')')) {
            return complain(why, "is no .npy file: its shape is no tuple");
        }
    }
    return true;
}

static bool take_type(struct cursor *c, struct npy_header *header, char *why) {
    char text[32];
    if (!take_string(c, text, sizeof text)) {
        return complain(why, "has a structured or unreadable dtype");
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
        return complain(why, "has elements of dtype '%s', which no HLO type matches", text);
    }
    header->size = (int)size;
    return true;
}

static bool take_dictionary(struct cursor *c, struct npy_header *header, char *why) {
    unsigned seen = 0;
    if (!take(c, '{')) return complain(why, "is no .npy file: its header is no dictionary");
    while (!take(c, '}')) {
        char key[32];
        if (!take_string(c, key, sizeof key) || !take(c, ':')) {
            return complain(why, "is no .npy file: its header is no dictionary");
        }
        if (strcmp(key, "descr") == 0) {
            if (!take_type(c, header, why)) return false;
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            header->fortran = take_word(c, "True");
            if (!header->fortran && !take_word(c, "False")) {
                return complain(why, "has a fortran_order that is neither True nor False");
            }
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            if (!take_shape(c, header, why)) return false;
            seen |= 4;
        } else {
            return complain(why, "has an unknown header key '%s'", key);
        }
        if (!take(c, ',') && (c->at >= c->end || *c->at != '}')) {
            return complain(why, "is no .npy file: its header is no dictionary");
        }
    }
    skip_space(c);
    if (c->at < c->end) return complain(why, "has text behind the dictionary of its header");
    return seen == 7 || complain(why, "lacks descr, fortran_order or shape in its header");
}

static bool parse_header(const uint8_t *bytes, size_t size, struct npy_header *header, char *why) {
    memset(header, 0, sizeof *header);
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return complain(why, "is no .npy file: it does not start with \\x93NUMPY");
    }
    int version = bytes[6];
    if (version < 1 || version > 3) {
        return complain(why, "is a .npy file of unknown version %d", version);
    }
    size_t start = version == 1 ? 10 : 12;
    if (size < start) return complain(why, "is truncated in its header");
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (start + length > NPY_MAX_HEADER) {
        return complain(why, "has a header of %zu bytes, at most %d expected", start + length,
                        NPY_MAX_HEADER);
    }
    if (length > size - start) return complain(why, "is truncated in its header");
    struct cursor c = {(const char *)bytes + start, (const char *)bytes + start + length};
    header->offset = start + length;
    return take_dictionary(&c, header, why);
}

/* ---- what is wanted ---- */

static bool type_matches(const struct npy_header *header, const struct hlocc_rt_npy_type *type) {
    if (header->size != type->size) return false;
    if (header->kind == type->kind) return true;
    /* Integers of less than 8 bits are also taken from byte arrays. */
    return type->bits < 8 &&
           ((type->is_signed && header->kind == 'i') || (type->is_unsigned && header->kind == 'u'));
}

static void describe_dims(char *text, size_t capacity, int rank, const int64_t *dims,
                          const char *comma) {
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < rank && n < capacity; i++) {
        n += (size_t)snprintf(text + n, capacity - n, "%s%" PRId64, i ? comma : "", dims[i]);
    }
}

static bool header_matches(const struct npy_header *header, const struct hlocc_rt_npy_type *type,
                           char *why) {
    char want[160], got[160];
    describe_dims(want, sizeof want, type->rank, type->dims, ",");
    describe_dims(got, sizeof got, header->rank, header->dims, ",");
    if (!type_matches(header, type)) {
        return complain(why, "holds dtype %c%c%d, the program wants %s[%s]", header->order,
                        header->kind, header->size, type->name, want);
    }
    bool same = header->rank == type->rank;
    for (int i = 0; same && i < type->rank; i++)
        same = header->dims[i] == type->dims[i];
    if (!same) {
        return complain(why, "has shape [%s], the program wants %s[%s]", got, type->name, want);
    }
    if (header->order == '>' && header->size > 1) {
        return complain(why, "is big-endian: convert it, for instance by a.astype('<%c%d')",
                        header->kind, header->size);
    }
    return true;
}

static bool size_overflows(const struct npy_header *header) {
    int64_t count = 1;
    for (int i = 0; i < header->rank; i++) {
        if (header->dims[i] && __builtin_mul_overflow(count, header->dims[i], &count)) return true;
    }
    return __builtin_mul_overflow(count, (int64_t)header->size, &count);
}

int64_t hlocc_rt_npy_bytes(const struct hlocc_rt_npy_type *type) {
    int64_t bytes = type->size;
    for (int i = 0; i < type->rank; i++)
        bytes *= type->dims[i];
    return bytes;
}

/* ---- data ---- */

/* Column-major elements to row-major ones: an odometer over the row-major index. */
static void from_fortran(uint8_t *to, const uint8_t *from, const struct hlocc_rt_npy_type *type) {
    int64_t strides[NPY_MAX_RANK], index[NPY_MAX_RANK] = {0};
    int64_t stride = 1, source = 0, size = type->size;
    for (int i = 0; i < type->rank; i++) {
        strides[i] = stride;
        stride *= type->dims[i];
    }
    for (int64_t n = 0; n < stride; n++) {
        memcpy(to + n * size, from + source * size, (size_t)size);
        for (int d = type->rank - 1; d >= 0; d--) {
            source += strides[d];
            if (++index[d] < type->dims[d]) break;
            source -= strides[d] * type->dims[d];
            index[d] = 0;
        }
    }
}

/* Programs have narrow integers extended and pred as 0 or 1, whatever the file's bytes say. */
static void normalise(uint8_t *data, size_t size, const struct hlocc_rt_npy_type *type) {
    int spare = 8 - type->bits;
    if (type->kind == 'b') {
        for (size_t i = 0; i < size; i++)
            data[i] = data[i] != 0;
    } else if (type->bits < 8 && type->is_signed) {
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)((int8_t)(uint8_t)(data[i] << spare) >> spare);
    } else if (type->bits < 8) {
        for (size_t i = 0; i < size; i++)
            data[i] &= (uint8_t)(0xff >> spare);
    }
}

static bool length_wrong(size_t got, int64_t wanted, char *why) {
    return complain(why, "%s: %zu bytes of data, %" PRId64 " expected",
                    got < (size_t)wanted ? "is truncated" : "is too long", got, wanted);
}

/* The data: what came with the header, and the rest of the file. */
static bool read_data(const struct hlocc_rt_npy *npy, uint8_t *data, char *why) {
    size_t wanted = (size_t)npy->bytes, taken = npy->have < wanted ? npy->have : wanted;
    if (taken) memcpy(data, npy->head + npy->offset, taken);
    if (taken < wanted) taken += fread(data + taken, 1, wanted - taken, npy->file);
    if (ferror(npy->file)) return complain(why, "cannot be read: %s", strerror(errno));
    if (taken < wanted) return length_wrong(taken, npy->bytes, why);
    return (npy->have <= wanted && fgetc(npy->file) == EOF) ||
           length_wrong(wanted + 1, npy->bytes, why);
}

bool hlocc_rt_npy_begin(struct hlocc_rt_npy *npy, FILE *file, int64_t size,
                        const struct hlocc_rt_npy_type *type, char *why) {
    *npy = (struct hlocc_rt_npy){.file = file, .type = type, .bytes = hlocc_rt_npy_bytes(type)};
    npy->head = malloc(NPY_MAX_HEADER);
    if (!npy->head) return complain(why, "does not fit in memory");
    size_t have = fread(npy->head, 1, NPY_MAX_HEADER, file);
    struct npy_header header;
    bool ok = !ferror(file) || complain(why, "cannot be read: %s", strerror(errno));
    ok = ok && parse_header(npy->head, have, &header, why);
    if (ok && size_overflows(&header)) ok = complain(why, "has a size that overflows 64 bits");
    ok = ok && header_matches(&header, type, why);
    if (ok && size >= 0 && size - (int64_t)header.offset != npy->bytes)
        ok = length_wrong((size_t)(size - (int64_t)header.offset), npy->bytes, why);
    if (ok) {
        npy->offset = header.offset;
        npy->have = have - header.offset;
        npy->columns = header.fortran && type->rank > 1 && npy->bytes;
        return true;
    }
    free(npy->head);
    return false;
}

bool hlocc_rt_npy_end(struct hlocc_rt_npy *npy, void *data, char *why) {
    uint8_t *columns = data && npy->columns ? malloc((size_t)npy->bytes) : NULL;
    bool ok = data && (columns || !npy->columns);
    if (!ok) complain(why, "does not fit in memory");
    ok = ok && read_data(npy, columns ? columns : data, why);
    if (ok && columns) from_fortran(data, columns, npy->type);
    if (ok) normalise(data, (size_t)npy->bytes, npy->type);
    free(columns);
    free(npy->head);
    return ok;
}

void hlocc_rt_npy_write(FILE *file, const struct hlocc_rt_npy_type *type, const void *data) {
    char dims[NPY_MAX_RANK * 22 + 8] = "";
    describe_dims(dims, sizeof dims - 2, type->rank, type->dims, ", ");
    if (type->rank == 1) strcat(dims, ",");
    char header[sizeof dims + 160];
    int n = snprintf(
        header, sizeof header, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }",
        type->size == 1 || type->kind == 'V' ? '|' : '<', type->kind, type->size, dims);
    size_t length = ((size_t)n + 11 + 63) / 64 * 64 - 10; /* numpy aligns the data to 64 */
    uint8_t prefix[10] = "\x93NUMPY\1";
    prefix[7] = 0;
    prefix[8] = (uint8_t)length;
    prefix[9] = (uint8_t)(length >> 8);
    fwrite(prefix, 1, 10, file);
    fprintf(file, "%-*s\n", (int)length - 1, header);
    int64_t bytes = hlocc_rt_npy_bytes(type);
    if (bytes) fwrite(data, 1, (size_t)bytes, file);
}
