/* Predecoding: everything about a bundle that does not depend on registers is settled once. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tpu/machine.h"

static const enum tpu_slot order[TPU_SLOTS] = {
    TPU_ST, TPU_PUSH, TPU_MISC, TPU_V0, TPU_V1, TPU_LD, TPU_POP, TPU_S0, TPU_S1,
};
static const uint8_t run_kinds[TPU_CLASSES] = {
    [TPU_CLASS_SCALAR] = TPU_RUN_SCALAR, [TPU_CLASS_VECTOR] = TPU_RUN_VECTOR,
    [TPU_CLASS_LOAD] = TPU_RUN_LOAD,     [TPU_CLASS_STORE] = TPU_RUN_STORE,
    [TPU_CLASS_PUSH] = TPU_RUN_PUSH,     [TPU_CLASS_POP] = TPU_RUN_POP,
    [TPU_CLASS_MISC] = TPU_RUN_MISC,
};

static uint32_t sign_extended(uint16_t imm) {
    return (uint32_t)(int32_t)(int16_t)imm;
}

static void set_constant(struct tpu_step *step, uint32_t value) {
    step->b_kind = TPU_FROM_CONST;
    step->b_value = value;
}

static void set_port(struct tpu_step *step, const struct tpu_bundle *bundle, int port) {
    step->b_kind = TPU_FROM_SREG;
    step->b_reg = bundle->port[port];
}

static void decode_operand(struct tpu_step *step, const struct tpu_bundle *bundle) {
    int code = step->in.b;
    if (code < TPU_OPERAND_IMM) {
        step->b_kind = step->run == TPU_RUN_SCALAR ? TPU_FROM_SREG : TPU_FROM_VREG;
        step->b_reg = (uint8_t)code;
    } else if (code < TPU_OPERAND_HIGH) {
        set_constant(step, sign_extended(bundle->imm[code - TPU_OPERAND_IMM]));
    } else if (code < TPU_OPERAND_PAIR) {
        set_constant(step, (uint32_t)bundle->imm[code - TPU_OPERAND_HIGH] << 16);
    } else if (code < TPU_OPERAND_PORT) {
        set_constant(step, tpu_bundle_pair(bundle, code - TPU_OPERAND_PAIR));
    } else if (code < TPU_OPERAND_CONST) {
        set_port(step, bundle, code - TPU_OPERAND_PORT);
    } else {
        set_constant(step, tpu_constants[code - TPU_OPERAND_CONST]);
    }
}

static void decode_address(struct tpu_step *step, const struct tpu_bundle *bundle) {
    const struct tpu_instr *in = &step->in;
    step->base_reg = step->stride_reg = 255;
    if (in->base != TPU_BASE_ZERO) step->base_reg = bundle->port[in->base - TPU_BASE_PORT];
    if (in->offset < TPU_OFFSET_ZERO) step->offset = (int16_t)bundle->imm[in->offset];
    if (in->offset == TPU_OFFSET_PAIR) step->offset = (int32_t)tpu_bundle_pair(bundle, 0);
    switch (in->stride) {
    case TPU_STRIDE_1: step->stride = 1; break;
    case TPU_STRIDE_0: step->stride = 0; break;
    case TPU_STRIDE_IMM5: step->stride = (int16_t)bundle->imm[5]; break;
    default: step->stride_reg = bundle->port[2];
    }
}

static void decode_amount(struct tpu_step *step, const struct tpu_bundle *bundle) {
    if (step->in.imm < TPU_IMMS) {
        set_constant(step, sign_extended(bundle->imm[step->in.imm]));
    } else {
        set_port(step, bundle, step->in.imm == TPU_AMOUNT_PORT1 ? 1 : 2);
    }
}

static void decode_step(struct tpu_step *step, const struct tpu_bundle *bundle,
                        enum tpu_slot slot) {
    memset(step, 0, sizeof *step);
    step->in = bundle->slot[slot];
    const struct tpu_op_info *info = tpu_op_info(step->in.op);
    step->info = info;
    step->slot = (uint8_t)slot;
    step->run = run_kinds[info->slot];
    tpu_slot_uses(bundle, slot, &step->uses);
    if (info->b == TPU_KIND_O) decode_operand(step, bundle);
    if (info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE) {
        decode_address(step, bundle);
    }
    if (info->imm == TPU_IMM_AMOUNT) decode_amount(step, bundle);
    if (info->imm == TPU_IMM_TARGET) set_constant(step, tpu_branch_target(bundle, &step->in));
    struct tpu_vector_fns fns = tpu_vector_fns(step->in.op);
    if (!fns.vector) fns = tpu_convert_fns(step->in.op);
    step->fn = step->b_kind == TPU_FROM_VREG || info->b == TPU_KIND_M ? fns.vector : fns.scalar;
}

static bool reads(const struct tpu_step *step, int reg) {
    for (int i = 0; i < step->uses.reads; i++) {
        if (step->uses.read[i] == reg) return true;
    }
    return false;
}

static bool may_wait(const struct tpu_step *step) {
    return step->run == TPU_RUN_PUSH || step->run == TPU_RUN_POP || step->run == TPU_RUN_MISC;
}

/* Vector results go to their registers at once, so a writer must come after those that read what
 * it overwrites; where no order does that, it is late. */
static void order_writers(struct tpu_code *code, struct tpu_step *steps) {
    for (int i = 0; i + 1 < code->count; i++) {
        struct tpu_step *a = &steps[i], *b = &steps[i + 1];
        if (a->slot != TPU_V0 || b->slot != TPU_V1) continue;
        if (!reads(b, a->uses.write) || reads(a, b->uses.write)) continue;
        struct tpu_step swap = *a;
        *a = *b;
        *b = swap;
        break;
    }
    for (int i = 0; i < code->count; i++) {
        struct tpu_step *a = &steps[i];
        if (a->uses.write < TPU_REG_V || a->uses.write >= TPU_REG_P) continue;
        for (int j = i + 1; j < code->count && !a->late; j++)
            a->late = reads(&steps[j], a->uses.write);
        code->has_late |= a->late;
    }
}

static void summarise(struct tpu_code *code, const struct tpu_step *steps) {
    bool seen[TPU_REGS] = {false};
    code->plain = true;
    for (int i = 0; i < code->count; i++) {
        const struct tpu_uses *uses = &steps[i].uses;
        code->plain &= steps[i].in.pred == TPU_ALWAYS;
        code->may_wait |= may_wait(&steps[i]);
        for (int k = 0; k < uses->reads; k++) {
            if (seen[uses->read[k]] || code->reads == sizeof code->read) continue;
            seen[uses->read[k]] = true;
            code->read[code->reads++] = uses->read[k];
        }
        if (uses->write < 0) continue;
        code->write[code->writes] = (uint8_t)uses->write;
        code->latency[code->writes++] = (uint8_t)uses->latency;
    }
}

int tpu_predecode(struct tpu_executable *executable, struct tpu_error *error) {
    const struct tpu_program *p = executable->program;
    size_t total = 0, line = 0;
    for (uint32_t i = 0; i < p->bundles; i++) {
        for (int s = 0; s < TPU_SLOTS; s++)
            total += p->code[i].slot[s].op != TPU_EMPTY;
    }
    executable->code = calloc(p->bundles, sizeof *executable->code);
    executable->steps = calloc(total + 1, sizeof *executable->steps);
    if (!executable->code || !executable->steps) return tpu_fail(error, "memory is out");
    struct tpu_step *next = executable->steps;
    for (uint32_t i = 0; i < p->bundles; i++) {
        struct tpu_code *code = &executable->code[i];
        code->first = (uint32_t)(next - executable->steps);
        for (int k = 0; k < TPU_SLOTS; k++) {
            if (p->code[i].slot[order[k]].op == TPU_EMPTY) continue;
            decode_step(&next[code->count++], &p->code[i], order[k]);
        }
        order_writers(code, next);
        summarise(code, next);
        next += code->count;
        while (line + 1 < p->lines && p->line[line + 1].bundle <= i)
            line++;
        code->source = p->lines ? p->line[line].source : UINT32_MAX;
    }
    return 0;
}
