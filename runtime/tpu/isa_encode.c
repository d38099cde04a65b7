/* Bundles as bits, and what makes one valid. */
#include "runtime/tpu/isa.h"

#include <string.h>

/* ---- where each field lies ---- */

#define SLOT_FIELD(slot_, label, member, width_)                                                   \
    {{label, #member, 0, width_}, offsetof(struct tpu_bundle, slot[slot_].member), 1},
#define SCALAR_FIELDS(slot, label)                                                                 \
    SLOT_FIELD(slot, label, pred, 3)                                                               \
    SLOT_FIELD(slot, label, op, 6)                                                                 \
    SLOT_FIELD(slot, label, dest, 5) SLOT_FIELD(slot, label, a, 5) SLOT_FIELD(slot, label, b, 6)
#define VECTOR_FIELDS(slot, label)                                                                 \
    SLOT_FIELD(slot, label, pred, 3)                                                               \
    SLOT_FIELD(slot, label, op, 7)                                                                 \
    SLOT_FIELD(slot, label, dest, 5)                                                               \
    SLOT_FIELD(slot, label, a, 5) SLOT_FIELD(slot, label, b, 6) SLOT_FIELD(slot, label, mask, 3)
#define MEMORY_FIELDS(slot, label)                                                                 \
    SLOT_FIELD(slot, label, pred, 3)                                                               \
    SLOT_FIELD(slot, label, op, 3)                                                                 \
    SLOT_FIELD(slot, label, dest, 5)                                                               \
    SLOT_FIELD(slot, label, base, 2)                                                               \
    SLOT_FIELD(slot, label, offset, 3)                                                             \
    SLOT_FIELD(slot, label, stride, 2) SLOT_FIELD(slot, label, mask, 3)
#define PORT_FIELD(i) {{"port", #i, 0, 5}, offsetof(struct tpu_bundle, port[i]), 1},
#define IMM_FIELD(i) {{"imm", #i, 0, 16}, offsetof(struct tpu_bundle, imm[i]), 2},

struct place {
    struct tpu_field field; /* bit is the sum of the widths before it */
    size_t offset;
    int size;
};
/* clang-format off */
static const struct place places[] = {
    SCALAR_FIELDS(TPU_S0, "s0")
    SCALAR_FIELDS(TPU_S1, "s1")
    VECTOR_FIELDS(TPU_V0, "v0")
    VECTOR_FIELDS(TPU_V1, "v1")
    MEMORY_FIELDS(TPU_LD, "ld")
    MEMORY_FIELDS(TPU_ST, "st")
    SLOT_FIELD(TPU_PUSH, "push", pred, 3)
    SLOT_FIELD(TPU_PUSH, "push", op, 4)
    SLOT_FIELD(TPU_PUSH, "push", dest, 5)
    SLOT_FIELD(TPU_PUSH, "push", unit, 3)
    SLOT_FIELD(TPU_PUSH, "push", mask, 3)
    SLOT_FIELD(TPU_PUSH, "push", flags, 3)
    SLOT_FIELD(TPU_POP, "pop", pred, 3)
    SLOT_FIELD(TPU_POP, "pop", op, 3)
    SLOT_FIELD(TPU_POP, "pop", dest, 5)
    SLOT_FIELD(TPU_POP, "pop", unit, 3)
    SLOT_FIELD(TPU_MISC, "misc", pred, 3)
    SLOT_FIELD(TPU_MISC, "misc", op, 6)
    SLOT_FIELD(TPU_MISC, "misc", a, 5)
    SLOT_FIELD(TPU_MISC, "misc", b, 5)
    SLOT_FIELD(TPU_MISC, "misc", imm, 3)
    PORT_FIELD(0) PORT_FIELD(1) PORT_FIELD(2)
    IMM_FIELD(0) IMM_FIELD(1) IMM_FIELD(2) IMM_FIELD(3) IMM_FIELD(4) IMM_FIELD(5)
};
/* clang-format on */
enum { PLACES = sizeof places / sizeof *places };

int tpu_field_count(void) {
    return PLACES;
}

struct tpu_field tpu_field(int index) {
    struct tpu_field field = places[index].field;
    for (int i = 0; i < index; i++)
        field.bit += places[i].field.width;
    return field;
}

static enum tpu_slot slot_of(const struct place *place) {
    return (enum tpu_slot)(place->offset / sizeof(struct tpu_instr));
}

static bool is_opcode(const struct place *place) {
    return place->offset < sizeof(struct tpu_instr) * TPU_SLOTS &&
           place->offset % sizeof(struct tpu_instr) == offsetof(struct tpu_instr, op);
}

static unsigned get_member(const struct tpu_bundle *bundle, const struct place *place) {
    const uint8_t *at = (const uint8_t *)bundle + place->offset;
    uint16_t wide;
    if (place->size == 1) return *at;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void set_member(struct tpu_bundle *bundle, const struct place *place, unsigned value) {
    uint8_t *at = (uint8_t *)bundle + place->offset;
    uint16_t wide = (uint16_t)value;
    if (place->size == 1) {
        *at = (uint8_t)value;
    } else {
        memcpy(at, &wide, sizeof wide);
    }
}

/* Fields of up to 16 bits at any bit position; the buffers have 2 bytes to spare. */
static void put_bits(uint8_t *bytes, int bit, unsigned value) {
    uint32_t word = (uint32_t)value << bit % 8;
    for (int i = 0; i < 3; i++)
        bytes[bit / 8 + i] |= (uint8_t)(word >> 8 * i);
}

static unsigned get_bits(const uint8_t *bytes, int bit, int width) {
    const uint8_t *at = bytes + bit / 8;
    uint32_t word = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
    return word >> bit % 8 & ((1u << width) - 1);
}

void tpu_encode(const struct tpu_bundle *bundle, uint8_t bytes[TPU_BUNDLE_BYTES]) {
    uint8_t buffer[TPU_BUNDLE_BYTES + 2] = {0};
    int bit = 0;
    for (int i = 0; i < PLACES; i++) {
        unsigned value = get_member(bundle, &places[i]);
        if (is_opcode(&places[i])) value = tpu_op_info((enum tpu_op)value)->code;
        put_bits(buffer, bit, value);
        bit += places[i].field.width;
    }
    memcpy(bytes, buffer, TPU_BUNDLE_BYTES);
}

const char *tpu_decode(const uint8_t bytes[TPU_BUNDLE_BYTES], struct tpu_bundle *bundle) {
    uint8_t buffer[TPU_BUNDLE_BYTES + 2] = {0};
    memcpy(buffer, bytes, TPU_BUNDLE_BYTES);
    memset(bundle, 0, sizeof *bundle);
    int bit = 0;
    for (int i = 0; i < PLACES; i++) {
        const struct place *place = &places[i];
        unsigned value = get_bits(buffer, bit, place->field.width);
        bit += place->field.width;
        if (is_opcode(place)) {
            enum tpu_slot slot = slot_of(place);
            /* The predicate stands before the opcode: an empty slot has no instruction. */
            if (bundle->slot[slot].pred == TPU_NEVER) {
                if (value) return "an empty slot has fields that are not 0";
                continue;
            }
            value = tpu_op_from_code(tpu_slot_class(slot), value);
            if (value == TPU_EMPTY) return "an opcode that is not in the table";
        }
        set_member(bundle, place, value);
    }
    for (; bit < TPU_BUNDLE_BYTES * 8; bit++) {
        if (buffer[bit / 8] >> bit % 8 & 1) return "reserved bits are not 0";
    }
    enum tpu_slot slot;
    return tpu_bundle_check(bundle, &slot);
}

/* ---- validity ---- */

static const char *check_kind(enum tpu_kind kind, unsigned value) {
    switch (kind) {
    case TPU_KIND__: return value ? "a field that the instruction does not use is not 0" : NULL;
    case TPU_KIND_WP: return value < 1 || value >= TPU_PREDS ? "dest is not p1 to p3" : NULL;
    case TPU_KIND_WM: return value < 1 || value >= TPU_MASKS ? "dest is not m1 to m7" : NULL;
    case TPU_KIND_P: return value >= TPU_PREDS ? "a predicate past p3" : NULL;
    case TPU_KIND_M: return value >= TPU_MASKS ? "a mask past m7" : NULL;
    case TPU_KIND_O: return value >= 64 ? "an operand code past 63" : NULL;
    default: return value >= 32 ? "a register past 31" : NULL;
    }
}

static const char *check_unit(const struct tpu_instr *instr, const struct tpu_op_info *info) {
    bool matrix = info->slot == TPU_CLASS_PUSH || info->effect == TPU_EFFECT_MXU_POP;
    if (instr->unit >= (matrix ? TPU_MAX_UNITS : 1)) return "no such matrix unit";
    unsigned most = info->effect == TPU_EFFECT_MXU_PUSH     ? TPU_FLAG_SET | TPU_FLAG_CROSS
                    : info->effect == TPU_EFFECT_MXU_WEIGHT ? 7
                                                            : 0;
    return instr->flags & ~most ? "flags that the instruction does not have" : NULL;
}

static const char *check_address(const struct tpu_instr *instr, const struct tpu_op_info *info) {
    bool memory = info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE;
    if (instr->base > (memory ? 3 : 0) || instr->offset > (memory ? 7 : 0) ||
        instr->stride > (memory ? 3 : 0)) {
        return "an address field out of range";
    }
    if (info->slot == TPU_CLASS_STORE && instr->stride == TPU_STRIDE_0) {
        return "a store of stride 0";
    }
    return NULL;
}

static const char *check_instr(const struct tpu_instr *instr, enum tpu_slot slot) {
    static const struct tpu_instr empty;
    if (instr->op == TPU_EMPTY) {
        return memcmp(instr, &empty, sizeof empty) ? "an empty slot has fields that are not 0"
                                                   : NULL;
    }
    if (instr->op >= TPU_OPS) return "no such instruction";
    const struct tpu_op_info *info = tpu_op_info(instr->op);
    if (info->slot != tpu_slot_class(slot)) return "the instruction belongs in another slot";
    if (instr->pred == TPU_NEVER || instr->pred > 7) return "a predicate out of range";
    const char *why = check_kind(info->dest, instr->dest);
    if (!why) why = check_kind(info->a, instr->a);
    if (!why) why = check_kind(info->b, instr->b);
    if (!why) why = check_unit(instr, info);
    if (!why) why = check_address(instr, info);
    if (why) return why;
    if (instr->mask >= (info->mask == TPU_MASK__ ? 1 : TPU_MASKS)) return "a mask out of range";
    if (instr->imm >= (info->imm == TPU_IMM__ ? 1 : 8)) return "an immediate code out of range";
    if (instr->op == TPU_XTRL && (instr->b < 1 || instr->b > TPU_TRANSPOSE_MAX)) {
        return "a transpose of no or more than 16 results";
    }
    if ((instr->op == TPU_VROTS || instr->op == TPU_VBCS) && instr->b < TPU_OPERAND_IMM) {
        return "the sublane must be one number for all lanes";
    }
    return NULL;
}

const char *tpu_bundle_check(const struct tpu_bundle *bundle, enum tpu_slot *slot) {
    unsigned imms = 0, ports = 0;
    for (int i = 0; i < TPU_PORTS; i++) {
        if (bundle->port[i] >= TPU_SREGS) return "a port names a register past s31";
    }
    for (*slot = TPU_S0; *slot < TPU_SLOTS; ++*slot) {
        const char *why = check_instr(&bundle->slot[*slot], *slot);
        if (why) return why;
        struct tpu_uses uses;
        tpu_slot_uses(bundle, *slot, &uses);
        imms |= uses.imms;
        ports |= uses.ports;
    }
    *slot = TPU_S0;
    for (int i = 0; i < TPU_IMMS; i++) {
        if (bundle->imm[i] && !(imms >> i & 1)) return "an immediate that nothing uses is not 0";
    }
    for (int i = 0; i < TPU_PORTS; i++) {
        if (bundle->port[i] && !(ports >> i & 1)) return "a port that nothing uses is not 0";
    }
    return NULL;
}

/* ---- DMA descriptors ---- */

void tpu_dma_encode(const struct tpu_dma *dma, uint32_t words[TPU_DMA_WORDS]) {
    memset(words, 0, TPU_DMA_WORDS * sizeof *words);
    words[0] = (uint32_t)dma->from | (uint32_t)dma->to << 2 | (uint32_t)dma->flag << 4 |
               (uint32_t)dma->core << 16;
    words[1] = dma->source;
    words[2] = dma->target;
    words[3] = dma->length;
    for (int i = 0; i < TPU_DMA_LEVELS; i++) {
        words[4 + 3 * i] = dma->count[i];
        words[5 + 3 * i] = (uint32_t)dma->source_stride[i];
        words[6 + 3 * i] = (uint32_t)dma->target_stride[i];
    }
}

const char *tpu_dma_decode(const uint32_t words[TPU_DMA_WORDS], struct tpu_dma *dma) {
    memset(dma, 0, sizeof *dma);
    if (words[0] & 0xff00fe00) return "reserved bits of word 0 are not 0";
    if (words[13] | words[14] | words[15]) return "words 13 to 15 are not 0";
    dma->from = words[0] & 3;
    dma->to = words[0] >> 2 & 3;
    dma->flag = words[0] >> 4 & 31;
    dma->core = words[0] >> 16 & 255;
    if (dma->from >= TPU_SPACES || dma->to >= TPU_SPACES) return "no such memory";
    dma->source = words[1];
    dma->target = words[2];
    dma->length = words[3];
    if (!dma->length) return "a run of no words";
    for (int i = 0; i < TPU_DMA_LEVELS; i++) {
        dma->count[i] = words[4 + 3 * i];
        dma->source_stride[i] = (int32_t)words[5 + 3 * i];
        dma->target_stride[i] = (int32_t)words[6 + 3 * i];
        if (!dma->count[i]) return "a level that is repeated 0 times";
    }
    return NULL;
}
