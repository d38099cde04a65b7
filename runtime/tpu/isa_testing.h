/* Random valid bundles, for tests. */
#ifndef RUNTIME_TPU_ISA_TESTING_H
#define RUNTIME_TPU_ISA_TESTING_H

#include <string.h>

#include "runtime/tpu/isa.h"

/* Tests of one program draw from one sequence. */
static uint64_t random_state = 1;
static inline unsigned random_below(unsigned limit) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((random_state >> 33) % limit);
}

static inline uint8_t random_field(enum tpu_kind kind) {
    switch (kind) {
    case TPU_KIND__: return 0;
    case TPU_KIND_WP: return (uint8_t)(1 + random_below(3));
    case TPU_KIND_WM: return (uint8_t)(1 + random_below(7));
    case TPU_KIND_P: return (uint8_t)random_below(TPU_PREDS);
    case TPU_KIND_M: return (uint8_t)random_below(TPU_MASKS);
    case TPU_KIND_O: return (uint8_t)random_below(64);
    default: return (uint8_t)random_below(32);
    }
}

static inline void random_instr(struct tpu_instr *in, enum tpu_slot slot) {
    enum tpu_op op;
    do
        op = (enum tpu_op)(1 + random_below(TPU_OPS - 1));
    while (tpu_op_info(op)->slot != tpu_slot_class(slot));
    const struct tpu_op_info *info = tpu_op_info(op);
    in->op = (uint8_t)op;
    in->pred = (uint8_t)(1 + random_below(7));
    in->dest = random_field(info->dest);
    in->a = random_field(info->a);
    in->b = random_field(info->b);
    if (op == TPU_XTRL) in->b = (uint8_t)(1 + random_below(16));
    if ((op == TPU_VROTS || op == TPU_VBCS) && in->b < 32) in->b = (uint8_t)(in->b + 32);
    if (info->mask != TPU_MASK__) in->mask = (uint8_t)random_below(TPU_MASKS);
    if (info->imm != TPU_IMM__) in->imm = (uint8_t)random_below(8);
    if (info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE) {
        in->base = (uint8_t)random_below(4);
        in->offset = (uint8_t)random_below(8);
        in->stride = (uint8_t)random_below(4);
        if (info->slot == TPU_CLASS_STORE && in->stride == TPU_STRIDE_0) in->stride = 0;
    }
    if (info->slot == TPU_CLASS_PUSH || info->effect == TPU_EFFECT_MXU_POP) {
        in->unit = (uint8_t)random_below(TPU_MAX_UNITS);
    }
    if (info->effect == TPU_EFFECT_MXU_PUSH) in->flags = (uint8_t)random_below(4);
    if (info->effect == TPU_EFFECT_MXU_WEIGHT) in->flags = (uint8_t)random_below(8);
}

/* One slot in `sparse` stays empty. */
static inline void random_bundle(struct tpu_bundle *bundle, unsigned sparse) {
    unsigned imms = 0, ports = 0;
    memset(bundle, 0, sizeof *bundle);
    for (enum tpu_slot slot = TPU_S0; slot < TPU_SLOTS; ++slot) {
        struct tpu_uses uses;
        if (random_below(sparse)) random_instr(&bundle->slot[slot], slot);
        tpu_slot_uses(bundle, slot, &uses);
        imms |= uses.imms;
        ports |= uses.ports;
    }
    for (int i = 0; i < TPU_IMMS; i++)
        bundle->imm[i] = imms >> i & 1 ? (uint16_t)random_below(65536) : 0;
    for (int i = 0; i < TPU_PORTS; i++)
        bundle->port[i] = ports >> i & 1 ? (uint8_t)random_below(32) : 0;
}

#endif
