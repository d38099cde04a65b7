/* Opcodes, attributes and words: lookups over the tables in the .def files. Words are found by
 * comparing lengths first: one byte a row, so that a look-up touches two cache lines and one name. */
#include <string.h>

#include "ir/hlo.h"

#define REQ(name) {ATTR_##name, true},
#define OPT(name) {ATTR_##name, false},
#define NO_ATTRS

#define OP(name, text, least, most, flags, attrs)                                                  \
    static const struct opcode_attr attrs_##name[] = {attrs{ATTR_NONE, false}};
#include "ir/opcode.def"
#undef OP

static const struct opcode_attr no_attrs[] = {{ATTR_NONE, false}};

static const struct opcode_info opcodes[OPCODE_COUNT] = {
    [OPCODE_INVALID] = {.name = "invalid", .attrs = no_attrs},
#define OP(name, text, least, most, flags, attrs)                                                  \
    [OP_##name] = {text, least, most, flags, attrs_##name},
#include "ir/opcode.def"
#undef OP
};

static const uint8_t opcode_lengths[OPCODE_COUNT] = {
#define OP(name, text, least, most, flags, attrs) [OP_##name] = sizeof(text) - 1,
#include "ir/opcode.def"
#undef OP
};

const struct opcode_info *opcode_info(enum hlo_opcode opcode) { return &opcodes[opcode]; }

const char *opcode_name(enum hlo_opcode opcode) { return opcodes[opcode].name; }

enum hlo_opcode opcode_from_name(const char *name, size_t length) {
    for (int i = OPCODE_INVALID + 1; i < OPCODE_COUNT; i++)
        if (opcode_lengths[i] == length && memcmp(opcodes[i].name, name, length) == 0)
            return (enum hlo_opcode)i;
    return OPCODE_INVALID;
}

struct attr_info {
    const char *name;
    enum attr_kind kind;
    uint8_t length;
};

static const struct attr_info attrs[ATTR_COUNT] = {
    [ATTR_NONE] = {"", ATTR_KIND_UNKNOWN, 0},
#define X(name, text, kind) [ATTR_##name] = {text, kind, sizeof(text) - 1},
#include "ir/attribute.def"
#undef X
};

const char *attr_name(enum attr_key key) { return attrs[key].name; }

enum attr_kind attr_kind(enum attr_key key) { return attrs[key].kind; }

enum attr_key attr_from_name(const char *name, size_t length) {
    if (length == 0) return ATTR_NONE;
    for (int i = ATTR_NONE + 1; i < ATTR_COUNT; i++)
        if (attrs[i].length == length && memcmp(attrs[i].name, name, length) == 0)
            return (enum attr_key)i;
    return ATTR_NONE;
}

int opcode_takes_attr(enum hlo_opcode opcode, enum attr_key key) {
    if (key >= ATTR_SHARDING) return 1;
    for (const struct opcode_attr *attr = opcodes[opcode].attrs; attr->key != ATTR_NONE; attr++)
        if (attr->key == key) return attr->required ? 2 : 1;
    return 0;
}

enum enum_set {
    SET_NONE,
    SET_DIRECTION,
    SET_COMPARE_TYPE,
    SET_FFT_TYPE,
    SET_FUSION_KIND,
    SET_TRANSPOSE_A,
    SET_DISTRIBUTION,
    SET_RNG_ALGORITHM,
    SET_PRECISION,
    SET_DOT_ALGORITHM,
    SET_SCHEDULE,
    SET_API_VERSION,
    SET_PADDING_TYPE,
    SET_TRISTATE,
};

static const struct {
    uint8_t set;
    const char *text;
} words[ENUM_WORD_COUNT] = {
#define X(set, name, text) [ENUM_##set##_##name] = {SET_##set, text},
#include "ir/enum.def"
#undef X
};

const char *enum_word_name(int word) {
    return word >= 0 && word < ENUM_WORD_COUNT ? words[word].text : "?";
}

static enum enum_set set_of(enum hlo_opcode opcode, enum attr_key key) {
    switch (key) {
    case ATTR_DIRECTION: return SET_DIRECTION;
    case ATTR_COMPARE_TYPE: return SET_COMPARE_TYPE;
    case ATTR_FFT_TYPE: return SET_FFT_TYPE;
    case ATTR_FUSION_KIND: return SET_FUSION_KIND;
    case ATTR_TRANSPOSE_A: return SET_TRANSPOSE_A;
    case ATTR_DISTRIBUTION: return SET_DISTRIBUTION;
    case ATTR_ALGORITHM:
        return opcode == OP_RNG_BIT_GENERATOR ? SET_RNG_ALGORITHM : SET_DOT_ALGORITHM;
    case ATTR_OPERAND_PRECISION: return SET_PRECISION;
    case ATTR_SCHEDULE: return SET_SCHEDULE;
    case ATTR_API_VERSION: return SET_API_VERSION;
    case ATTR_PADDING_TYPE: return SET_PADDING_TYPE;
    case ATTR_IS_ASSOCIATIVE: return SET_TRISTATE;
    default: return SET_NONE;
    }
}

static int word_in_set(enum enum_set set, const char *name, size_t length) {
    for (int i = 0; i < ENUM_WORD_COUNT; i++)
        if (words[i].set == set && strlen(words[i].text) == length &&
            memcmp(words[i].text, name, length) == 0)
            return i;
    return -1;
}

int enum_word_from_name(enum hlo_opcode opcode, enum attr_key key, const char *name,
                        size_t length) {
    enum enum_set set = set_of(opcode, key);
    return set == SET_NONE ? -1 : word_in_set(set, name, length);
}

int enum_precision_from_name(const char *name, size_t length) {
    return word_in_set(SET_PRECISION, name, length);
}
