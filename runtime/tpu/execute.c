/* The core: one bundle after another. */
#include <stdarg.h>
#include <string.h>

#include "runtime/tpu/machine.h"

bool tpu_stop(struct tpu_core *core, const char *format, ...) {
    struct tpu_machine *machine = core->machine;
    const struct tpu_program *p = machine->executable->program;
    char reason[256], place[256] = "", what[64] = "", who[32] = "";
    if (machine->failed) return false;
    machine->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    uint32_t source =
        core->pc < p->bundles ? machine->executable->code[core->pc].source : UINT32_MAX;
    if (source != UINT32_MAX) {
        const struct tpu_source *s = &p->source[source];
        int used = snprintf(place, sizeof place, " (%.100s", s->name);
        if (s->file[0]) {
            used += snprintf(place + used, sizeof place - (size_t)used, ", %.100s:%u", s->file,
                             s->line);
        }
        snprintf(place + used, sizeof place - (size_t)used, ")");
    }
    if (core->step) {
        snprintf(what, sizeof what, ", %s %s", tpu_slot_name((enum tpu_slot)core->step->slot),
                 tpu_op_info(core->step->in.op)->name);
    }
    if (machine->core_count > 1) snprintf(who, sizeof who, "core %d, ", core->number);
    tpu_fail(machine->error, "%sbundle %u%s, cycle %llu%s: %s", who, core->pc, place,
             (unsigned long long)core->now, what, reason);
    return false;
}

/* What a bundle leaves to do at its end, once all its slots have read. */
struct ending {
    int scalars, preds;
    uint8_t scalar_reg[TPU_SLOTS], pred_reg[TPU_SLOTS];
    uint32_t scalar[TPU_SLOTS];
    bool pred[TPU_SLOTS];
    int stores;
    uint32_t store_at[2], store_word[2];
    bool stored; /* a VMEM store ran: */
    uint32_t store_row, store_stride;
    uint64_t delay;
};

static void set_scalar(struct ending *end, int reg, uint32_t value) {
    end->scalar_reg[end->scalars] = (uint8_t)reg;
    end->scalar[end->scalars++] = value;
}

static bool pred_holds(const struct tpu_core *core, int pred) {
    if (pred == TPU_ALWAYS) return true;
    return core->p[pred & 3] == (pred < TPU_ALWAYS);
}

/* ---- hazards ---- */

static const char *reg_name(int reg, char text[16]) {
    static const struct {
        char letter;
        int first;
    } files[] = {{'p', TPU_REG_P}, {'m', TPU_REG_M}, {'v', TPU_REG_V}, {'s', TPU_REG_S}};
    for (int i = 0; i < 4; i++) {
        if (reg < files[i].first) continue;
        snprintf(text, 16, "%c%d", files[i].letter, reg - files[i].first);
        break;
    }
    return text;
}

/* Names the instruction that a hazard belongs to; `on`: which steps run. */
static bool explain_hazard(struct tpu_core *core, const struct tpu_code *code, uint32_t on) {
    const struct tpu_step *steps = &core->machine->executable->steps[code->first];
    char name[16];
    for (int i = 0; i < code->count; i++) {
        if (!(on >> i & 1)) continue;
        core->step = &steps[i];
        for (int k = 0; k < steps[i].uses.reads; k++) {
            int reg = steps[i].uses.read[k];
            if (core->ready[reg] <= core->now) continue;
            return tpu_stop(core, "%s is read %llu cycles before its result is there",
                            reg_name(reg, name),
                            (unsigned long long)(core->ready[reg] - core->now));
        }
    }
    for (int i = 0; i < code->count; i++) {
        int reg = steps[i].uses.write;
        if (!(on >> i & 1) || reg < 0) continue;
        core->step = &steps[i];
        if (core->ready[reg] > core->now) {
            return tpu_stop(core, "%s is written while an earlier write is in flight",
                            reg_name(reg, name));
        }
        for (int j = 0; j < i; j++) {
            if (!(on >> j & 1) || steps[j].uses.write != reg) continue;
            return tpu_stop(core, "two writers of %s in one bundle", reg_name(reg, name));
        }
    }
    return tpu_stop(core, "a hazard");
}

/* Checks a bundle's registers, and marks what it writes. */
static bool check_registers(struct tpu_core *core, const struct tpu_code *code, uint32_t on) {
    const struct tpu_step *steps = &core->machine->executable->steps[code->first];
    uint64_t now = core->now;
    bool early = false;
    if (code->plain) {
        for (int i = 0; i < code->reads; i++)
            early |= core->ready[code->read[i]] > now;
        for (int i = 0; i < code->writes; i++) {
            early |= core->ready[code->write[i]] > now;
            for (int j = 0; j < i; j++)
                early |= code->write[j] == code->write[i];
        }
        if (early) return explain_hazard(core, code, on);
        for (int i = 0; i < code->writes; i++)
            core->ready[code->write[i]] = now + code->latency[i];
        return true;
    }
    uint8_t written[TPU_SLOTS];
    int writes = 0;
    for (int i = 0; i < code->count; i++) {
        const struct tpu_uses *uses = &steps[i].uses;
        if (!(on >> i & 1)) continue;
        for (int k = 0; k < uses->reads; k++)
            early |= core->ready[uses->read[k]] > now;
        if (uses->write < 0) continue;
        early |= core->ready[uses->write] > now;
        for (int j = 0; j < writes; j++)
            early |= written[j] == uses->write;
        written[writes++] = (uint8_t)uses->write;
    }
    if (early) return explain_hazard(core, code, on);
    for (int i = 0; i < code->count; i++) {
        if (on >> i & 1 && steps[i].uses.write >= 0) {
            core->ready[steps[i].uses.write] = now + (uint64_t)steps[i].uses.latency;
        }
    }
    return true;
}

/* ---- waiting ---- */

static int pops_of(struct tpu_core *core, const struct tpu_code *code, uint32_t on,
                   const struct tpu_fifo *fifo) {
    const struct tpu_step *steps = &core->machine->executable->steps[code->first];
    for (int i = 0; i < code->count; i++) {
        if (on >> i & 1 && steps[i].run == TPU_RUN_POP)
            return tpu_unit_fifo(core, &steps[i]) == fifo;
    }
    return 0;
}

/* When the step can issue, and what it would wait for. */
static bool step_time(struct tpu_core *core, const struct tpu_code *code, uint32_t on,
                      const struct tpu_step *step, uint64_t *time, enum tpu_stall *stall) {
    static const enum tpu_stall stalls[] = {
        [TPU_EFFECT_MXU_PUSH] = TPU_STALL_MXU_PUSH, [TPU_EFFECT_MXU_WEIGHT] = TPU_STALL_MXU_WEIGHT,
        [TPU_EFFECT_MXU_POP] = TPU_STALL_MXU_POP,   [TPU_EFFECT_EUP_PUSH] = TPU_STALL_EUP,
        [TPU_EFFECT_EUP_POP] = TPU_STALL_EUP,       [TPU_EFFECT_XLU_PUSH] = TPU_STALL_XLU,
        [TPU_EFFECT_XLU_POP] = TPU_STALL_XLU,       [TPU_EFFECT_V2S_PUSH] = TPU_STALL_V2S,
        [TPU_EFFECT_V2S_POP] = TPU_STALL_V2S,       [TPU_EFFECT_DMA] = TPU_STALL_DMA_QUEUE,
        [TPU_EFFECT_SYNC] = TPU_STALL_DMA_WAIT,     [TPU_EFFECT_CONTROL] = TPU_STALL_DELAY,
    };
    enum tpu_effect effect = step->info->effect;
    core->step = step;
    *time = core->now;
    *stall = stalls[effect];
    if (effect == TPU_EFFECT_DMA) *time = tpu_dma_accept(core);
    if (step->in.op == TPU_WAIT) {
        int32_t amount =
            (int32_t)(step->b_kind == TPU_FROM_SREG ? core->s[step->b_reg] : step->b_value);
        return tpu_flag_time(core, step->in.a, amount, time);
    }
    if (effect == TPU_EFFECT_DMA || effect == TPU_EFFECT_SYNC || effect == TPU_EFFECT_CONTROL) {
        return true;
    }
    if (step->run == TPU_RUN_POP) return tpu_pop_time(core, step, time);
    return tpu_push_time(core, step, pops_of(core, code, on, tpu_unit_fifo(core, step)), time);
}

/* Advances the clock to when every step of the bundle can issue. A core that waits for others is
 * blocked instead. */
static bool wait_for_units(struct tpu_core *core, const struct tpu_code *code, uint32_t on) {
    const struct tpu_step *steps = &core->machine->executable->steps[code->first];
    for (int i = 0; i < code->count; i++) {
        uint64_t time;
        enum tpu_stall stall;
        if (!(on >> i & 1) || steps[i].run == TPU_RUN_VECTOR || steps[i].run == TPU_RUN_SCALAR ||
            steps[i].run == TPU_RUN_LOAD || steps[i].run == TPU_RUN_STORE) {
            continue;
        }
        if (!step_time(core, code, on, &steps[i], &time, &stall)) return false;
        if (time == UINT64_MAX) {
            core->blocked = true;
            return true;
        }
        if (time <= core->now) continue;
        core->stats.stalls[stall] += time - core->now;
        if (code->source != UINT32_MAX) {
            core->stats.source[code->source].stalls += time - core->now;
        }
        if (core->machine->trace) tpu_trace_stall(core, stall, core->now, time);
        core->now = time;
    }
    return true;
}

/* ---- memory ---- */

static bool row_range(struct tpu_core *core, uint32_t row, uint32_t stride) {
    uint64_t rows = core->machine->vmem_rows;
    if (stride == 1 && row < rows && row + 7 < rows && row + 7 > row) return true;
    for (uint32_t s = 0; s < TPU_SUBLANES; s++) {
        if (row + s * stride < rows) continue;
        return tpu_stop(core, "out of range: VMEM row %u, and the program has %llu",
                        row + s * stride, (unsigned long long)rows);
    }
    return true;
}

static bool row_race(struct tpu_core *core, uint32_t row, uint32_t stride, bool store) {
    for (uint32_t s = 0; s < TPU_SUBLANES; s++) {
        uint32_t at = row + s * stride;
        if (core->vmem_writers[at] || (store && core->vmem_readers[at])) {
            return tpu_stop(core, "race: a DMA that has not been waited for %s VMEM row %u",
                            core->vmem_writers[at] ? "writes" : "reads", at);
        }
    }
    return true;
}

static bool vmem_address(struct tpu_core *core, const struct tpu_step *step, uint32_t *row,
                         uint32_t *stride) {
    *row = (uint32_t)step->offset + (step->base_reg == 255 ? 0 : core->s[step->base_reg]);
    *stride = step->stride_reg == 255 ? (uint32_t)step->stride : core->s[step->stride_reg];
    bool store = step->run == TPU_RUN_STORE;
    if (store && !*stride) return tpu_stop(core, "a store of stride 0");
    if (!row_range(core, *row, *stride)) return false;
    return !core->transfer_count || row_race(core, *row, *stride, store);
}

static bool run_store(struct tpu_core *core, const struct tpu_step *step, struct ending *end) {
    uint32_t row, stride;
    if (!vmem_address(core, step, &row, &stride)) return false;
    const uint32_t *v = core->v[step->in.dest], *m = core->m[step->in.mask];
    uint32_t *target = core->vmem + (size_t)row * TPU_ROW_WORDS;
    if (stride == 1 && !step->in.mask) {
        memcpy(target, v, sizeof(tpu_vreg));
    } else if (stride == 1) {
        tpu_blend(target, target, v, m);
    } else {
        for (uint32_t i = 0; i < TPU_REG_WORDS; i++) {
            uint32_t at = row + i / TPU_LANES * stride;
            uint32_t *word = core->vmem + (size_t)at * TPU_ROW_WORDS + i % TPU_LANES;
            *word = (*word & ~m[i]) | (v[i] & m[i]);
        }
    }
    end->stored = true;
    end->store_row = row;
    end->store_stride = stride;
    return true;
}

static bool run_load(struct tpu_core *core, const struct tpu_step *step, const struct ending *end,
                     uint32_t *out) {
    uint32_t row, stride;
    if (!vmem_address(core, step, &row, &stride)) return false;
    for (uint32_t i = 0; i < 64 && end->stored; i++) {
        if (row + i / 8 * stride != end->store_row + i % 8 * end->store_stride) continue;
        return tpu_stop(core, "race: a load and a store of VMEM row %u in one bundle",
                        row + i / 8 * stride);
    }
    const uint32_t *source = core->vmem + (size_t)row * TPU_ROW_WORDS;
    if (stride == 1) {
        memcpy(out, source, sizeof(tpu_vreg));
        return true;
    }
    for (uint32_t s = 0; s < TPU_SUBLANES; s++) {
        memcpy(out + s * TPU_ROW_WORDS, core->vmem + (size_t)(row + s * stride) * TPU_ROW_WORDS,
               TPU_ROW_BYTES);
    }
    return true;
}

static bool smem_address(struct tpu_core *core, uint32_t at, bool store) {
    if (at >= core->machine->smem_words) {
        return tpu_stop(core, "out of range: SMEM word %u, and the chip has %llu", at,
                        (unsigned long long)core->machine->smem_words);
    }
    if (core->smem_writers[at] || (store && core->smem_readers[at])) {
        return tpu_stop(core, "race: a DMA that has not been waited for %s SMEM word %u",
                        core->smem_writers[at] ? "writes" : "reads", at);
    }
    return true;
}

/* ---- the slots ---- */

static uint32_t operand_word(const struct tpu_core *core, const struct tpu_step *step) {
    return step->b_kind == TPU_FROM_SREG ? core->s[step->b_reg] : step->b_value;
}

static bool run_scalar(struct tpu_core *core, const struct tpu_step *step, struct ending *end) {
    const struct tpu_op_info *info = step->info;
    bool preds = info->a == TPU_KIND_P;
    uint32_t a = preds ? core->p[step->in.a & 3] : core->s[step->in.a];
    uint32_t b = info->b == TPU_KIND_P ? core->p[step->in.b & 3] : operand_word(core, step);
    uint32_t value;
    if (step->in.op == TPU_SLD) {
        if (!smem_address(core, a + b, false)) return false;
        value = core->smem[a + b];
    } else if (step->in.op == TPU_SST) {
        if (!smem_address(core, a + b, true)) return false;
        if (end->stores && end->store_at[0] == a + b) {
            return tpu_stop(core, "two writers of SMEM word %u in one bundle", a + b);
        }
        end->store_at[end->stores] = a + b;
        end->store_word[end->stores++] = core->s[step->in.dest];
        return true;
    } else if (step->in.op == TPU_SCORE) {
        value = (uint32_t)core->number;
    } else {
        value = tpu_scalar_compute((enum tpu_op)step->in.op, a, b);
    }
    if (info->dest == TPU_KIND_WP) {
        end->pred_reg[end->preds] = step->in.dest;
        end->pred[end->preds++] = value & 1;
    } else {
        set_scalar(end, step->in.dest, value);
    }
    return true;
}

/* The value of a vector ALU instruction before its mask. */
static void compute_vector(const struct tpu_core *core, const struct tpu_step *step, uint32_t *d) {
    const struct tpu_op_info *info = step->info;
    const uint32_t *a = info->a == TPU_KIND_M ? core->m[step->in.a] : core->v[step->in.a];
    uint32_t word = operand_word(core, step);
    const uint32_t *b = info->b == TPU_KIND_M           ? core->m[step->in.b]
                        : step->b_kind == TPU_FROM_VREG ? core->v[step->b_reg]
                                                        : &word;
    if (step->fn) {
        step->fn(d, a, b);
        return;
    }
    switch (step->in.op) {
    case TPU_VMOV:
    case TPU_VSEL:
        if (step->b_kind == TPU_FROM_VREG) {
            memcpy(d, b, sizeof(tpu_vreg));
        } else {
            tpu_fill(d, word);
        }
        if (step->in.op == TPU_VSEL) tpu_blend(d, d, a, core->m[step->in.mask]);
        break;
    case TPU_VLANE:
        for (uint32_t i = 0; i < TPU_REG_WORDS; i++)
            d[i] = i % TPU_LANES;
        break;
    case TPU_VSUBLANE:
        for (uint32_t i = 0; i < TPU_REG_WORDS; i++)
            d[i] = i / TPU_LANES;
        break;
    default: tpu_sublane_compute((enum tpu_op)step->in.op, d, a, word); break;
    }
}

/* Where a vector result goes: the register, or what becomes it at the bundle's end. */
static uint32_t *vector_target(struct tpu_core *core, const struct tpu_step *step) {
    if (step->late) return core->late[step->slot];
    int reg = step->uses.write;
    return reg < TPU_REG_M ? core->v[reg - TPU_REG_V] : core->m[reg - TPU_REG_M];
}

static bool run_vector(struct tpu_core *core, const struct tpu_step *step) {
    const struct tpu_op_info *info = step->info;
    uint32_t *target = vector_target(core, step);
    const uint32_t *mask = core->m[step->in.mask];
    if (!step->in.mask) {
        compute_vector(core, step, step->in.op == TPU_VSEL ? core->scratch : target);
        if (step->in.op == TPU_VSEL) memcpy(target, core->scratch, sizeof(tpu_vreg));
        return true;
    }
    compute_vector(core, step, core->scratch);
    if (info->mask == TPU_MASK_MERGE) {
        tpu_blend(target, core->v[step->in.dest], core->scratch, mask);
    } else if (info->mask == TPU_MASK_AND) {
        tpu_vector_fns(TPU_MAND).vector(target, core->scratch, mask);
    } else {
        memcpy(target, core->scratch, sizeof(tpu_vreg));
    }
    return true;
}

static bool run_branch(struct tpu_core *core, uint32_t target) {
    if (core->branch_in) return tpu_stop(core, "a branch in the delay of another");
    if (target >= core->machine->executable->program->bundles) {
        return tpu_stop(core, "a branch past the end of the code, to bundle %u", target);
    }
    core->branch_in = TPU_BRANCH_DELAY + 1;
    core->branch_to = target;
    return true;
}

static bool run_halt(struct tpu_core *core) {
    if (core->branch_in) return tpu_stop(core, "a halt in the delay of a branch");
    for (int u = 0; u < core->machine->chip->mxus; u++) {
        if (core->mxu[u].out.count)
            return tpu_stop(core, "a halt with results in matrix unit %d", u);
    }
    if (core->eup.count) return tpu_stop(core, "a halt with results in the EUP's FIFO");
    if (core->xlu.count) return tpu_stop(core, "a halt with results in the XLU's FIFO");
    if (core->v2s.count) return tpu_stop(core, "a halt with words in the V2S FIFO");
    if (core->transpose_rows) return tpu_stop(core, "a halt in the middle of a transpose");
    if (core->transfer_count) {
        return tpu_stop(core, "a halt with DMAs on flag %d that nothing has waited for",
                        core->transfers[0].flag);
    }
    core->halted = true;
    return true;
}

static bool run_misc(struct tpu_core *core, const struct tpu_step *step, struct ending *end) {
    uint32_t amount = operand_word(core, step), a = core->s[step->in.a & 31];
    switch (step->in.op) {
    case TPU_HALT: return run_halt(core);
    case TPU_BR: return run_branch(core, amount);
    case TPU_CALL:
        set_scalar(end, step->in.a, core->pc + 1 + TPU_BRANCH_DELAY);
        return run_branch(core, amount);
    case TPU_JR: return run_branch(core, a);
    case TPU_BDNZ: set_scalar(end, step->in.a, a - 1); return a == 1 || run_branch(core, amount);
    case TPU_STALL:
        if ((int32_t)amount < 0) return tpu_stop(core, "a stall of %d cycles", (int32_t)amount);
        end->delay = amount;
        return true;
    case TPU_TRAP: return tpu_stop(core, "trap %d", (int32_t)amount);
    case TPU_WAIT: tpu_flag_take(core, step->in.a, amount); return true;
    case TPU_SIGNAL: return tpu_flag_signal(core, step->in.a, core->s[step->in.b], (int32_t)amount);
    case TPU_DMA: return tpu_dma_start(core, a, 0, 0);
    case TPU_DMASRC: return tpu_dma_start(core, a, core->s[step->in.b], 0);
    case TPU_DMADST: return tpu_dma_start(core, a, 0, core->s[step->in.b]);
    default: return tpu_push_misc(core, step, amount);
    }
}

static bool run_step(struct tpu_core *core, const struct tpu_step *step, struct ending *end) {
    core->step = step;
    switch ((enum tpu_run_kind)step->run) {
    case TPU_RUN_STORE: return run_store(core, step, end);
    case TPU_RUN_PUSH: return tpu_push(core, step);
    case TPU_RUN_MISC: return run_misc(core, step, end);
    case TPU_RUN_VECTOR: return run_vector(core, step);
    case TPU_RUN_LOAD: {
        uint32_t *target = vector_target(core, step);
        if (!step->in.mask) return run_load(core, step, end, target);
        if (!run_load(core, step, end, core->scratch)) return false;
        tpu_blend(target, core->v[step->in.dest], core->scratch, core->m[step->in.mask]);
        return true;
    }
    case TPU_RUN_POP:
        if (step->in.op == TPU_SPOP) {
            uint32_t word = 0;
            tpu_pop(core, step, &word);
            set_scalar(end, step->in.dest, word);
        } else {
            tpu_pop(core, step, vector_target(core, step));
        }
        return true;
    case TPU_RUN_SCALAR: return run_scalar(core, step, end);
    }
    return false;
}

static void finish_bundle(struct tpu_core *core, const struct tpu_code *code, uint32_t on,
                          const struct ending *end) {
    const struct tpu_step *steps = &core->machine->executable->steps[code->first];
    for (int i = 0; i < end->scalars; i++)
        core->s[end->scalar_reg[i]] = end->scalar[i];
    for (int i = 0; i < end->preds; i++)
        core->p[end->pred_reg[i]] = end->pred[i];
    for (int i = 0; i < end->stores; i++)
        core->smem[end->store_at[i]] = end->store_word[i];
    for (int i = 0; i < code->count && code->has_late; i++) {
        if (!steps[i].late || !(on >> i & 1)) continue;
        int reg = steps[i].uses.write;
        memcpy(reg < TPU_REG_M ? core->v[reg - TPU_REG_V] : core->m[reg - TPU_REG_M],
               core->late[steps[i].slot], sizeof(tpu_vreg));
    }
    core->now += 1 + end->delay;
    core->stats.stalls[TPU_STALL_DELAY] += end->delay;
    core->stats.bundles++;
    if (core->branch_in && --core->branch_in == 0) {
        core->pc = core->branch_to;
    } else if (!core->halted) {
        core->pc++;
    }
}

/* ---- instruction memory ---- */

/* Makes the overlay of the next bundle the one that runs; fetched from HBM where instruction
 * memory lacks it, in place of the one not used for longest. */
static void enter_overlay(struct tpu_core *core) {
    const struct tpu_machine *machine = core->machine;
    const struct tpu_chip *chip = machine->chip;
    uint32_t size = (uint32_t)chip->overlay_bundles, overlay = core->pc / size;
    int most = (int)(chip->instruction_bundles / chip->overlay_bundles), at = 0;
    core->overlay_first = overlay * size;
    core->overlay_end = core->overlay_first + size;
    while (at < core->overlay_count && core->overlays[at] != overlay)
        at++;
    if (at == core->overlay_count) {
        uint64_t bytes = (uint64_t)size * TPU_BUNDLE_BYTES, start = core->now;
        core->now = tpu_hbm_use(core, bytes, 0) + (uint64_t)chip->dma_latency_cycles;
        core->stats.overlays++;
        core->stats.overlay_bytes += bytes;
        core->stats.stalls[TPU_STALL_OVERLAY] += core->now - start;
        if (machine->trace) tpu_trace_stall(core, TPU_STALL_OVERLAY, start, core->now);
        if (core->overlay_count == most) at = 0;
        if (core->overlay_count < most) core->overlay_count++;
    }
    for (; at + 1 < core->overlay_count; at++)
        core->overlays[at] = core->overlays[at + 1];
    core->overlays[at] = overlay;
}

/* ---- one bundle ---- */

static bool run_bundle(struct tpu_core *core) {
    const struct tpu_executable *executable = core->machine->executable;
    const struct tpu_code *code = &executable->code[core->pc];
    const struct tpu_step *steps = &executable->steps[code->first];
    uint32_t on = (1u << code->count) - 1;
    uint64_t began = core->now;
    if (!code->plain) {
        for (int i = 0; i < code->count; i++) {
            int pred = steps[i].in.pred;
            core->step = &steps[i];
            if (pred != TPU_ALWAYS && core->ready[TPU_REG_P + (pred & 3)] > core->now) {
                return tpu_stop(
                    core, "p%d is read %llu cycles before its result is there", pred & 3,
                    (unsigned long long)(core->ready[TPU_REG_P + (pred & 3)] - core->now));
            }
            if (!pred_holds(core, pred)) on &= ~(1u << i);
        }
    }
    if (code->source != core->span_source && core->machine->trace) {
        tpu_trace_source(core, code->source);
    }
    if (code->may_wait && !wait_for_units(core, code, on)) return false;
    if (core->blocked) return true;
    if (!check_registers(core, code, on)) return false;
    struct ending end;
    end.scalars = end.preds = end.stores = 0;
    end.stored = false;
    end.delay = 0;
    for (int i = 0; i < code->count; i++) {
        if (!(on >> i & 1)) continue;
        core->stats.slots[steps[i].slot]++;
        if (!run_step(core, &steps[i], &end)) return false;
    }
    finish_bundle(core, code, on, &end);
    if (code->source != UINT32_MAX) {
        struct tpu_source_stats *source = &core->stats.source[code->source];
        source->bundles++;
        source->cycles += core->now - began;
    }
    return true;
}

bool tpu_core_run(struct tpu_core *core, uint64_t until) {
    const struct tpu_machine *machine = core->machine;
    while (!core->halted && !core->blocked && core->now <= until) {
        core->step = NULL;
        if (core->pc >= machine->executable->program->bundles) {
            return tpu_stop(core, "the code has no more bundles, and no halt came");
        }
        if (core->pc < core->overlay_first || core->pc >= core->overlay_end) enter_overlay(core);
        if (!run_bundle(core)) return false;
    }
    return true;
}
