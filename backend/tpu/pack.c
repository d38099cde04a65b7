#include "backend/tpu/pack.h"

#include <string.h>

static int use_imm(struct packing *f, uint16_t value) {
    for (int i = TPU_IMMS - 1; i >= 0; i--)
        if ((f->imms >> i & 1) && f->bundle->imm[i] == value) return i;
    for (int i = TPU_IMMS - 1; i >= 0; i--) {
        if (f->imms >> i & 1) continue;
        f->imms |= (uint8_t)(1 << i);
        f->bundle->imm[i] = value;
        return i;
    }
    return -1;
}

static bool has_imm(const struct packing *f, int i, uint16_t value) {
    return !(f->imms >> i & 1) || f->bundle->imm[i] == value;
}

static void set_imm(struct packing *f, int i, uint16_t value) {
    f->imms |= (uint8_t)(1 << i);
    f->bundle->imm[i] = value;
}

static int use_pair(struct packing *f, uint32_t value, int first, int last) {
    for (int i = first; i <= last; i++) {
        if (!has_imm(f, 2 * i, (uint16_t)value) || !has_imm(f, 2 * i + 1, (uint16_t)(value >> 16)))
            continue;
        set_imm(f, 2 * i, (uint16_t)value);
        set_imm(f, 2 * i + 1, (uint16_t)(value >> 16));
        return i;
    }
    return -1;
}

static int use_port(struct packing *f, int reg, int first) {
    for (int i = first; i < TPU_PORTS; i++)
        if ((f->ports >> i & 1) && f->bundle->port[i] == reg) return i;
    for (int i = TPU_PORTS - 1; i >= first; i--) {
        if (f->ports >> i & 1) continue;
        f->ports |= (uint8_t)(1 << i);
        f->bundle->port[i] = (uint8_t)reg;
        return i;
    }
    return -1;
}

static int use_port_at(struct packing *f, int reg, int port) {
    if ((f->ports >> port & 1) && f->bundle->port[port] != reg) return -1;
    f->ports |= (uint8_t)(1 << port);
    f->bundle->port[port] = (uint8_t)reg;
    return port;
}

static bool fits_16(int32_t value) {
    return value >= INT16_MIN && value <= INT16_MAX;
}

/* Code of an operand that is a number; -1 where no immediate is free. */
static int operand_number(struct packing *f, int32_t value) {
    int i = tpu_constant_code((uint32_t)value);
    if (i >= 0) return i;
    if (fits_16(value)) return (i = use_imm(f, (uint16_t)value)) < 0 ? -1 : TPU_OPERAND_IMM + i;
    if ((value & 0xffff) == 0)
        return (i = use_imm(f, (uint16_t)((uint32_t)value >> 16))) < 0 ? -1 : TPU_OPERAND_HIGH + i;
    return (i = use_pair(f, (uint32_t)value, 0, 2)) < 0 ? -1 : TPU_OPERAND_PAIR + i;
}

static bool fill_operands(struct packing *f, const struct mop *op, const struct tpu_op_info *info,
                          struct tpu_instr *instr) {
    int code = 0;
    instr->dest = (uint8_t)(op->d > 0 ? op->d - 1 : 0);
    instr->a = (uint8_t)(op->a > 0 ? op->a - 1 : 0);
    if (info->a == TPU_KIND_F || info->a == TPU_KIND_N) instr->a = (uint8_t)op->literal;
    if (info->b == TPU_KIND_N)
        code = op->literal;
    else if (op->bkind == MIR_B_REG)
        code = op->b > 0 ? op->b - 1 : 0;
    else if (op->bkind == MIR_B_IMM)
        code = operand_number(f, op->imm);
    else if (op->bkind == MIR_B_SCALAR)
        code = use_port(f, op->b - 1, 0);
    if (code < 0) return false;
    if (op->bkind == MIR_B_SCALAR) code += TPU_OPERAND_PORT;
    instr->b = (uint8_t)code;
    return true;
}

static bool fill_address(struct packing *f, const struct mop *op, struct tpu_instr *instr) {
    int i = 0;
    if (op->stride_kind == MIR_STRIDE_REG) {
        if (use_port_at(f, op->stride_reg - 1, 2) < 0) return false;
        instr->stride = TPU_STRIDE_PORT2;
    } else if (op->stride_kind == MIR_STRIDE_IMM) {
        if (!has_imm(f, 5, (uint16_t)op->stride)) return false;
        set_imm(f, 5, (uint16_t)op->stride);
        instr->stride = TPU_STRIDE_IMM5;
    } else {
        instr->stride = op->stride_kind == MIR_STRIDE_0 ? TPU_STRIDE_0 : TPU_STRIDE_1;
    }
    if (op->base) {
        if ((i = use_port(f, op->base - 1, 0)) < 0) return false;
        instr->base = (uint8_t)(TPU_BASE_PORT + i);
    }
    if (op->offset == 0) {
        instr->offset = TPU_OFFSET_ZERO;
    } else if (fits_16(op->offset)) {
        if ((i = use_imm(f, (uint16_t)op->offset)) < 0) return false;
        instr->offset = (uint8_t)(TPU_OFFSET_IMM + i);
    } else {
        if (use_pair(f, (uint32_t)op->offset, 0, 0) < 0) return false;
        instr->offset = TPU_OFFSET_PAIR;
    }
    return true;
}

static bool fill_amount(struct packing *f, const struct mop *op, struct tpu_instr *instr) {
    int i;
    if (op->amount) {
        if ((i = use_port(f, op->amount - 1, 1)) < 0) return false;
        instr->imm = (uint8_t)(i == 1 ? TPU_AMOUNT_PORT1 : TPU_AMOUNT_PORT2);
        return true;
    }
    if ((i = use_imm(f, (uint16_t)op->imm)) < 0) return false;
    instr->imm = (uint8_t)(TPU_AMOUNT_IMM + i);
    return true;
}

/* A branch takes immediates 0 and 1 for itself: its target is known later. */
static bool fill_target(struct packing *f, struct tpu_instr *instr) {
    if (f->imms & 3) return false;
    f->imms |= 3;
    instr->imm = TPU_TARGET_PAIR0;
    return true;
}

static int first_slot(enum tpu_slot_class class, int *last) {
    static const struct {
        int first, last;
    } slots[] = {[TPU_CLASS_SCALAR] = {TPU_S0, TPU_S1},   [TPU_CLASS_VECTOR] = {TPU_V0, TPU_V1},
                 [TPU_CLASS_LOAD] = {TPU_LD, TPU_LD},     [TPU_CLASS_STORE] = {TPU_ST, TPU_ST},
                 [TPU_CLASS_PUSH] = {TPU_PUSH, TPU_PUSH}, [TPU_CLASS_POP] = {TPU_POP, TPU_POP},
                 [TPU_CLASS_MISC] = {TPU_MISC, TPU_MISC}};
    *last = slots[class].last;
    return slots[class].first;
}

static void fill_predicate(const struct mop *op, struct tpu_instr *instr) {
    instr->pred = TPU_ALWAYS;
    if (op->pred)
        instr->pred = (uint8_t)((op->unless ? TPU_UNLESS_P1 : TPU_IF_P1) + (op->pred - 1) - 1);
}

bool pack_op(struct packing *state, const struct mop *op) {
    const struct tpu_op_info *info = tpu_op_info(op->op);
    struct tpu_bundle copy = *state->bundle;
    struct packing f = *state;
    int last, slot = first_slot(info->slot, &last);
    f.bundle = &copy;
    while (slot <= last && copy.slot[slot].op != TPU_EMPTY)
        slot++;
    if (slot > last) return false;
    struct tpu_instr *instr = &copy.slot[slot];
    *instr = (struct tpu_instr){.op = op->op, .unit = op->unit, .flags = op->flags};
    fill_predicate(op, instr);
    instr->mask = (uint8_t)(op->mask ? op->mask - 1 : 0);
    if (!fill_operands(&f, op, info, instr)) return false;
    bool memory = info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE;
    if (memory && !fill_address(&f, op, instr)) return false;
    if (info->imm == TPU_IMM_AMOUNT && !fill_amount(&f, op, instr)) return false;
    if (info->imm == TPU_IMM_TARGET && !fill_target(&f, instr)) return false;
    *state->bundle = copy;
    state->imms = f.imms;
    state->ports = f.ports;
    return true;
}

/* What leaves less choice comes first. */
static int rank(const struct mop *op) {
    const struct tpu_op_info *info = tpu_op_info(op->op);
    bool memory = info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE;
    if (info->imm == TPU_IMM_TARGET) return 0;
    if (memory && op->stride_kind == MIR_STRIDE_IMM) return 1;
    if (memory && !fits_16(op->offset)) return 2;
    if (memory && op->stride_kind == MIR_STRIDE_REG) return 3;
    if (op->amount) return 4;
    if (op->bkind == MIR_B_IMM && !fits_16(op->imm)) return 5;
    return 6;
}

bool pack_row(struct packing *packing, const struct mop *const *ops, int n) {
    const struct mop *sorted[PACK_MOST];
    int ranks[PACK_MOST], j;
    if (n > PACK_MOST) return false;
    for (int i = 0; i < n; i++) {
        int r = rank(ops[i]);
        for (j = i; j > 0 && ranks[j - 1] > r; j--) {
            sorted[j] = sorted[j - 1];
            ranks[j] = ranks[j - 1];
        }
        sorted[j] = ops[i];
        ranks[j] = r;
    }
    for (int i = 0; i < n; i++)
        if (!pack_op(packing, sorted[i])) return false;
    return true;
}

static bool is_empty(const struct tpu_bundle *bundle) {
    for (int s = 0; s < TPU_SLOTS; s++)
        if (bundle->slot[s].op != TPU_EMPTY) return false;
    return true;
}

static bool add_stall(struct tpu_bundle *bundle, int cycles) {
    struct packing packing = {.bundle = bundle};
    for (int s = 0; s < TPU_SLOTS; s++) {
        struct tpu_uses uses;
        if (bundle->slot[s].op == TPU_EMPTY) continue;
        tpu_slot_uses(bundle, (enum tpu_slot)s, &uses);
        packing.imms |= uses.imms;
        packing.ports |= uses.ports;
    }
    /* A branch's target is no number yet, but takes its pair. */
    return pack_op(&packing, &(struct mop){.op = TPU_STALL, .imm = cycles});
}

int pack_squeeze(struct tpu_bundle *bundles, int count, int *now) {
    int left = 0, delay = 0; /* bundles that a branch's delay still has */
    for (int i = 0; i < count;) {
        int run = 0;
        bool branch = tpu_op_info(bundles[i].slot[TPU_MISC].op)->imm == TPU_IMM_TARGET ||
                      bundles[i].slot[TPU_MISC].op == TPU_JR;
        bundles[left] = bundles[i];
        now[i++] = left;
        delay = branch ? TPU_BRANCH_DELAY : delay - (delay > 0);
        while (delay == 0 && i + run < count && run < INT16_MAX && is_empty(&bundles[i + run]))
            run++;
        if (run && !add_stall(&bundles[left], run)) {
            /* Its own bundle waits for one cycle itself. */
            now[i++] = ++left;
            run--;
            memset(&bundles[left], 0, sizeof *bundles);
            if (run) add_stall(&bundles[left], run);
        }
        for (; run > 0; run--)
            now[i++] = left;
        left++;
    }
    return left;
}
