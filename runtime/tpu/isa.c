#include "runtime/tpu/isa.h"

#include <string.h>

static const struct tpu_op_info infos[TPU_OPS] = {
    [TPU_EMPTY] = {.name = "", .slot = TPU_CLASSES, .text = "nothing"},
#define X(enumerator, mnemonic, slot_, code_, dest_, a_, b_, mask_, imm_, latency_, effect_,       \
          text_)                                                                                   \
    [TPU_##enumerator] = {.name = mnemonic,                                                        \
                          .slot = TPU_CLASS_##slot_,                                               \
                          .code = code_,                                                           \
                          .dest = TPU_KIND_##dest_,                                                \
                          .a = TPU_KIND_##a_,                                                      \
                          .b = TPU_KIND_##b_,                                                      \
                          .mask = TPU_MASK_##mask_,                                                \
                          .imm = TPU_IMM_##imm_,                                                   \
                          .latency = latency_,                                                     \
                          .effect = TPU_EFFECT_##effect_,                                          \
                          .text = text_},
#include "runtime/tpu/isa.def"
#undef X
};

/* Two instructions of a slot with one number would be two equal case labels. */
#define X(enumerator, mnemonic, slot_, code_, dest_, a_, b_, mask_, imm_, latency_, effect_,       \
          text_)                                                                                   \
    case TPU_CLASS_##slot_ * 128 + (code_): return TPU_##enumerator;
enum tpu_op tpu_op_from_code(enum tpu_slot_class slot, unsigned code) {
    if (code >= 128) return TPU_EMPTY;
    switch (slot * 128 + code) {
#include "runtime/tpu/isa.def"
    default: return TPU_EMPTY;
    }
}
#undef X

const uint32_t tpu_constants[TPU_CONSTS] = {
    0,          1,          0xffffffff, /* -1 */
    0x3f800000,                         /* 1.0 */
    0xbf800000,                         /* -1.0 */
    0x3f000000,                         /* 0.5 */
    0x40000000,                         /* 2.0 */
    0x7f800000,                         /* infinity */
    0xff800000,                         /* -infinity */
    0x7fc00000,                         /* NaN */
    0x80000000, 0x7fffffff, 16,         0xffff0000,
};

int tpu_constant_code(uint32_t value) {
    for (int i = 0; i < TPU_CONSTS; i++) {
        if (tpu_constants[i] == value) return TPU_OPERAND_CONST + i;
    }
    return -1;
}

const struct tpu_op_info *tpu_op_info(enum tpu_op op) {
    return &infos[op < TPU_OPS ? op : TPU_EMPTY];
}

enum tpu_op tpu_op_from_name(const char *name, size_t length) {
    for (int op = TPU_EMPTY + 1; op < TPU_OPS; op++) {
        if (strlen(infos[op].name) == length && memcmp(infos[op].name, name, length) == 0) {
            return (enum tpu_op)op;
        }
    }
    return TPU_EMPTY;
}

static const struct {
    const char *name;
    enum tpu_slot_class class;
} slots[TPU_SLOTS] = {
    [TPU_S0] = {"s0", TPU_CLASS_SCALAR},   [TPU_S1] = {"s1", TPU_CLASS_SCALAR},
    [TPU_V0] = {"v0", TPU_CLASS_VECTOR},   [TPU_V1] = {"v1", TPU_CLASS_VECTOR},
    [TPU_LD] = {"ld", TPU_CLASS_LOAD},     [TPU_ST] = {"st", TPU_CLASS_STORE},
    [TPU_PUSH] = {"push", TPU_CLASS_PUSH}, [TPU_POP] = {"pop", TPU_CLASS_POP},
    [TPU_MISC] = {"misc", TPU_CLASS_MISC},
};

enum tpu_slot_class tpu_slot_class(enum tpu_slot slot) {
    return slots[slot].class;
}
const char *tpu_slot_name(enum tpu_slot slot) {
    return slots[slot].name;
}

/* ---- what a slot uses ---- */

static void add_read(struct tpu_uses *uses, int reg) {
    uses->read[uses->reads++] = (uint8_t)reg;
}

static void use_port(const struct tpu_bundle *bundle, int port, struct tpu_uses *uses) {
    uses->ports |= (uint8_t)(1 << port);
    add_read(uses, TPU_REG_S + bundle->port[port]);
}

static void use_pair(int pair, struct tpu_uses *uses) {
    uses->imms |= (uint8_t)(3 << 2 * pair);
}

static void use_operand(const struct tpu_bundle *bundle, int code, int file,
                        struct tpu_uses *uses) {
    if (code < TPU_OPERAND_IMM) {
        add_read(uses, file + code);
    } else if (code < TPU_OPERAND_HIGH) {
        uses->imms |= (uint8_t)(1 << (code - TPU_OPERAND_IMM));
    } else if (code < TPU_OPERAND_PAIR) {
        uses->imms |= (uint8_t)(1 << (code - TPU_OPERAND_HIGH));
    } else if (code < TPU_OPERAND_PORT) {
        use_pair(code - TPU_OPERAND_PAIR, uses);
    } else if (code < TPU_OPERAND_CONST) {
        use_port(bundle, code - TPU_OPERAND_PORT, uses);
    }
}

/* m0 and p0 are constants. */
static void use_field(const struct tpu_bundle *bundle, enum tpu_kind kind, int value, int file,
                      struct tpu_uses *uses) {
    switch (kind) {
    case TPU_KIND_WS: uses->write = TPU_REG_S + value; break;
    case TPU_KIND_WP: uses->write = TPU_REG_P + value; break;
    case TPU_KIND_WV: uses->write = TPU_REG_V + value; break;
    case TPU_KIND_WM: uses->write = TPU_REG_M + value; break;
    case TPU_KIND_RWS: uses->write = TPU_REG_S + value; /* fallthrough */
    case TPU_KIND_RS:
    case TPU_KIND_S: add_read(uses, TPU_REG_S + value); break;
    case TPU_KIND_RV:
    case TPU_KIND_V: add_read(uses, TPU_REG_V + value); break;
    case TPU_KIND_P:
        if (value) add_read(uses, TPU_REG_P + value);
        break;
    case TPU_KIND_M:
        if (value) add_read(uses, TPU_REG_M + value);
        break;
    case TPU_KIND_O: use_operand(bundle, value, file, uses); break;
    default: break;
    }
}

static void use_address(const struct tpu_bundle *bundle, const struct tpu_instr *instr,
                        struct tpu_uses *uses) {
    if (instr->base != TPU_BASE_ZERO) use_port(bundle, instr->base - TPU_BASE_PORT, uses);
    if (instr->offset < TPU_OFFSET_ZERO) uses->imms |= (uint8_t)(1 << instr->offset);
    if (instr->offset == TPU_OFFSET_PAIR) use_pair(0, uses);
    if (instr->stride == TPU_STRIDE_IMM5) uses->imms |= 1 << 5;
    if (instr->stride == TPU_STRIDE_PORT2) use_port(bundle, 2, uses);
}

static void use_imm(const struct tpu_bundle *bundle, const struct tpu_instr *instr,
                    enum tpu_imm_use use, struct tpu_uses *uses) {
    if (use == TPU_IMM__) return;
    if (instr->imm < TPU_IMMS) {
        uses->imms |= (uint8_t)(1 << instr->imm);
    } else if (use == TPU_IMM_AMOUNT) {
        use_port(bundle, instr->imm == TPU_AMOUNT_PORT1 ? 1 : 2, uses);
    } else {
        use_pair(instr->imm - TPU_TARGET_PAIR0, uses);
    }
}

void tpu_slot_uses(const struct tpu_bundle *bundle, enum tpu_slot slot, struct tpu_uses *uses) {
    const struct tpu_instr *instr = &bundle->slot[slot];
    const struct tpu_op_info *info = tpu_op_info(instr->op);
    memset(uses, 0, sizeof *uses);
    uses->write = -1;
    if (instr->op == TPU_EMPTY) return;
    uses->latency = info->latency;
    if (instr->pred != TPU_ALWAYS) add_read(uses, TPU_REG_P + (instr->pred & 3));
    int file = info->slot == TPU_CLASS_SCALAR ? TPU_REG_S : TPU_REG_V;
    use_field(bundle, info->dest, instr->dest, file, uses);
    use_field(bundle, info->a, instr->a, file, uses);
    use_field(bundle, info->b, instr->b, file, uses);
    if (info->mask != TPU_MASK__ && instr->mask) {
        add_read(uses, TPU_REG_M + instr->mask);
        if (info->mask == TPU_MASK_MERGE) add_read(uses, TPU_REG_V + instr->dest);
    }
    if (instr->op == TPU_MPOPADD) add_read(uses, TPU_REG_V + instr->dest);
    if (info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE) {
        use_address(bundle, instr, uses);
    }
    use_imm(bundle, instr, info->imm, uses);
}

uint32_t tpu_bundle_pair(const struct tpu_bundle *bundle, int pair) {
    return (uint32_t)bundle->imm[2 * pair] | (uint32_t)bundle->imm[2 * pair + 1] << 16;
}

uint32_t tpu_branch_target(const struct tpu_bundle *bundle, const struct tpu_instr *instr) {
    if (instr->imm < TPU_IMMS) return bundle->imm[instr->imm];
    return tpu_bundle_pair(bundle, instr->imm - TPU_TARGET_PAIR0);
}
