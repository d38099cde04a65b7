/* Opcodes, attributes and words: look-ups over the tables in the .def files. */
#include <string.h>

#include "ir/hlo.h"
#include "ir/word.h"

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

static const struct word opcode_words[OPCODE_COUNT] = {
#define OP(name, text, least, most, flags, attrs) [OP_##name] = WORD(text),
#include "ir/opcode.def"
#undef OP
};

static const uint8_t opcode_keys[OPCODE_COUNT] = {
#define OP(name, text, least, most, flags, attrs) [OP_##name] = WORD_KEY(text),
#include "ir/opcode.def"
#undef OP
};

const struct opcode_info *opcode_info(enum hlo_opcode opcode) {
    return &opcodes[opcode];
}

const char *opcode_name(enum hlo_opcode opcode) {
    return opcodes[opcode].name;
}

enum hlo_opcode opcode_from_name(const char *name, size_t length) {
    return (enum hlo_opcode)word_find(opcode_keys, opcode_words, OPCODE_COUNT, name, length);
}

static const struct word attr_words[ATTR_COUNT] = {
    [ATTR_NONE] = WORD(""),
#define X(name, text, kind) [ATTR_##name] = WORD(text),
#include "ir/attribute.def"
#undef X
};

static const uint8_t attr_keys[ATTR_COUNT] = {
#define X(name, text, kind) [ATTR_##name] = WORD_KEY(text),
#include "ir/attribute.def"
#undef X
};

static const uint8_t attr_kinds[ATTR_COUNT] = {
    [ATTR_NONE] = ATTR_KIND_UNKNOWN,
#define X(name, text, kind) [ATTR_##name] = kind,
#include "ir/attribute.def"
#undef X
};

const char *attr_name(enum attr_key key) {
    return attr_words[key].text;
}

enum attr_kind attr_kind(enum attr_key key) {
    return (enum attr_kind)attr_kinds[key];
}

enum attr_key attr_from_name(const char *name, size_t length) {
    return (enum attr_key)word_find(attr_keys, attr_words, ATTR_COUNT, name, length);
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
