/* DMA: what a descriptor moves, when it is done, and whether it races. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tpu/machine.h"

static const char *const space_names[TPU_SPACES] = {"HBM", "VMEM", "SMEM"};
enum { MAX_TRANSFERS = 1 << 16 };

static uint64_t space_words(const struct tpu_core *core, int space) {
    const struct tpu_machine *machine = core->machine;
    return space == TPU_HBM    ? machine->hbm_words
           : space == TPU_VMEM ? machine->vmem_rows * TPU_ROW_WORDS
                               : machine->smem_words;
}

static uint8_t *space_base(const struct tpu_core *core, int space) {
    return space == TPU_HBM    ? core->hbm
           : space == TPU_VMEM ? (uint8_t *)core->vmem
                               : (uint8_t *)core->smem;
}

/* ---- regions ---- */

/* Negative strides are turned round: a set has no direction. False where it leaves the memory. */
static bool make_region(const struct tpu_core *core, int space, uint32_t address,
                        const struct tpu_dma *dma, const int32_t *strides,
                        struct tpu_region *region) {
    int64_t first = address, extent = dma->length;
    memset(region, 0, sizeof *region);
    region->space = (uint8_t)space;
    region->length = dma->length;
    for (int i = 0; i < TPU_DMA_LEVELS; i++) {
        int64_t steps = (int64_t)dma->count[i] - 1, stride = strides[i];
        int64_t size = stride < 0 ? -stride : stride;
        if (steps && size > (INT64_C(1) << 40) / steps) return false;
        if (stride < 0) first += steps * stride;
        extent += steps * size;
        region->count[i] = dma->count[i];
        region->stride[i] = (uint64_t)size;
    }
    if (first < 0 || first + extent > (int64_t)space_words(core, space)) return false;
    region->first = (uint64_t)first;
    region->end = (uint64_t)(first + extent);
    return true;
}

static uint64_t region_runs(const struct tpu_region *r) {
    return r->count[0] * r->count[1] * r->count[2];
}

/* Calls `visit` with the first word of every run, until it returns true. */
typedef bool visit_run(void *context, const struct tpu_region *region, uint64_t first);
static bool each_run(const struct tpu_region *r, visit_run *visit, void *context) {
    for (uint64_t k = 0; k < r->count[2]; k++) {
        for (uint64_t j = 0; j < r->count[1]; j++) {
            uint64_t first = r->first + k * r->stride[2] + j * r->stride[1];
            for (uint64_t i = 0; i < r->count[0]; i++, first += r->stride[0]) {
                if (visit(context, r, first)) return true;
            }
        }
    }
    return false;
}

/* Does the region, from level `level` down and moved by `at`, meet words first to end - 1? */
static bool meets(const struct tpu_region *r, int level, uint64_t at, uint64_t first,
                  uint64_t end) {
    if (level < 0) return at < end && first < at + r->length;
    uint64_t inner = r->length; /* what one step of this level spans */
    for (int i = 0; i < level; i++)
        inner += (r->count[i] - 1) * r->stride[i];
    uint64_t stride = r->stride[level], from = 0, to = r->count[level];
    if (stride) {
        if (first >= at + inner) from = (first - at - inner) / stride + 1;
        uint64_t most = end > at ? (end - at - 1) / stride + 1 : 0;
        if (most < to) to = most;
    } else {
        to = 1;
    }
    for (uint64_t i = from; i < to; i++) {
        if (meets(r, level - 1, at + i * stride, first, end)) return true;
    }
    return false;
}

static bool run_meets(void *context, const struct tpu_region *region, uint64_t first) {
    const struct tpu_region *other = context;
    return meets(other, TPU_DMA_LEVELS - 1, other->first, first, first + region->length);
}

static bool regions_meet(const struct tpu_region *a, const struct tpu_region *b) {
    if (!a->length || !b->length || a->space != b->space) return false;
    if (a->first >= b->end || b->first >= a->end) return false;
    bool swap = region_runs(b) < region_runs(a);
    return each_run(swap ? b : a, run_meets, (void *)(swap ? a : b));
}

/* Strides in order of size must each step over all that the smaller ones cover. */
static bool covers_itself(const struct tpu_region *r) {
    uint64_t extent = r->length;
    bool done[TPU_DMA_LEVELS] = {false};
    for (int i = 0; i < TPU_DMA_LEVELS; i++) {
        int least = -1;
        for (int k = 0; k < TPU_DMA_LEVELS; k++) {
            if (!done[k] && (least < 0 || r->stride[k] < r->stride[least])) least = k;
        }
        done[least] = true;
        if (r->count[least] == 1) continue;
        if (r->stride[least] < extent) return true;
        extent += (r->count[least] - 1) * r->stride[least];
    }
    return false;
}

/* ---- who uses which rows of VMEM and words of SMEM ---- */

struct marks {
    uint32_t *counts, step;
    uint64_t unit;
};

static bool mark_run(void *context, const struct tpu_region *region, uint64_t first) {
    const struct marks *marks = context;
    uint64_t last = (first + region->length - 1) / marks->unit;
    for (uint64_t i = first / marks->unit; i <= last; i++)
        marks->counts[i] += marks->step;
    return false;
}

static void mark(struct tpu_core *core, const struct tpu_region *r, bool writes, uint32_t step) {
    if (!r->length || r->space == TPU_HBM) return;
    bool vmem = r->space == TPU_VMEM;
    struct marks marks = {.step = step, .unit = vmem ? TPU_ROW_WORDS : 1};
    if (writes) marks.counts = vmem ? core->vmem_writers : core->smem_writers;
    if (!writes) marks.counts = vmem ? core->vmem_readers : core->smem_readers;
    each_run(r, mark_run, &marks);
}

static bool add_transfer(struct tpu_core *core, const struct tpu_transfer *transfer) {
    if (core->transfer_count == MAX_TRANSFERS) {
        return tpu_stop(core, "%d DMAs and signals that nothing has waited for", MAX_TRANSFERS);
    }
    if (core->transfer_count == core->transfer_capacity) {
        int capacity = core->transfer_capacity ? 2 * core->transfer_capacity : 64;
        void *grown = realloc(core->transfers, (size_t)capacity * sizeof *core->transfers);
        if (!grown) return tpu_stop(core, "memory is out");
        core->transfers = grown;
        core->transfer_capacity = capacity;
    }
    core->transfers[core->transfer_count++] = *transfer;
    core->flags[transfer->flag].started += transfer->amount;
    mark(core, &transfer->reads, false, 1);
    mark(core, &transfer->writes, true, 1);
    return true;
}

/* Two DMAs on one word, of which one writes. */
static bool find_race(struct tpu_core *core, const struct tpu_transfer *new) {
    for (int i = 0; i < core->transfer_count; i++) {
        const struct tpu_transfer *old = &core->transfers[i];
        if (!regions_meet(&new->writes, &old->writes) && !regions_meet(&new->writes, &old->reads) &&
            !regions_meet(&new->reads, &old->writes)) {
            continue;
        }
        return !tpu_stop(core,
                         "race: this DMA and an earlier one on flag %d, which has not been waited "
                         "for, meet in %s",
                         old->flag,
                         space_names[regions_meet(&new->reads, &old->writes) ? new->reads.space
                                                                             : new->writes.space]);
    }
    return false;
}

/* ---- time ---- */

uint64_t tpu_hbm_use(struct tpu_core *core, uint64_t bytes, uint64_t least) {
    const struct tpu_chip *chip = core->machine->chip;
    uint64_t rate = (uint64_t)chip->hbm_gb_per_s * 1000, start = core->now * rate;
    uint64_t cost = bytes * (uint64_t)chip->clock_mhz;
    if (cost < least * rate) cost = least * rate;
    if (core->hbm_free > start) start = core->hbm_free;
    core->hbm_free = start + cost;
    return (core->hbm_free + rate - 1) / rate;
}

struct granules {
    uint64_t size, count; /* words; found */
};

static bool count_granules(void *context, const struct tpu_region *region, uint64_t first) {
    struct granules *g = context;
    g->count += (first + region->length - 1) / g->size - first / g->size + 1;
    return false;
}

static uint64_t hbm_bytes(const struct tpu_core *core, const struct tpu_region *r) {
    struct granules g = {.size = (uint64_t)core->machine->chip->dma_granule_bytes / 4};
    if (r->space != TPU_HBM) return 0;
    each_run(r, count_granules, &g);
    return g.count * g.size * 4;
}

static uint64_t finish_time(struct tpu_core *core, const struct tpu_dma *dma,
                            const struct tpu_region *reads, const struct tpu_region *writes) {
    const struct tpu_chip *chip = core->machine->chip;
    uint64_t runs = region_runs(reads), words = runs * dma->length;
    uint64_t read = hbm_bytes(core, reads), written = hbm_bytes(core, writes), end;
    core->stats.hbm_read += read;
    core->stats.hbm_written += written;
    core->stats.dmas++;
    if (read + written) {
        end = tpu_hbm_use(core, read + written, runs);
    } else {
        uint64_t cost = (words * 4 + (uint64_t)chip->dma_chip_bytes_per_cycle - 1) /
                        (uint64_t)chip->dma_chip_bytes_per_cycle;
        if (core->chip_free < core->now) core->chip_free = core->now;
        end = core->chip_free += cost > runs ? cost : runs;
    }
    if (dma->core != TPU_DMA_LOCAL && dma->core != core->number) {
        uint64_t bits = words * 32 * (uint64_t)chip->clock_mhz;
        uint64_t rate =
            (uint64_t)(chip->links ? chip->links : 1) * (uint64_t)chip->link_gbit_per_s * 1000;
        uint64_t cost = bits / rate + 1;
        if (core->link_free < core->now) core->link_free = core->now;
        core->link_free += cost;
        if (core->link_free > end) end = core->link_free;
        end += (uint64_t)chip->link_latency_cycles;
    }
    uint32_t source = core->machine->executable->code[core->pc].source;
    if (source != UINT32_MAX && core->stats.source) {
        core->stats.source[source].hbm_bytes += read + written;
    }
    end += (uint64_t)chip->dma_latency_cycles;
    if (core->machine->trace) tpu_trace_dma(core, dma, end, words);
    return end;
}

uint64_t tpu_dma_accept(struct tpu_core *core) {
    uint64_t earliest = UINT64_MAX;
    int busy = 0;
    for (int i = 0; i < core->transfer_count; i++) {
        uint64_t done = core->transfers[i].done;
        if (done <= core->now) continue;
        busy++;
        if (done < earliest) earliest = done;
    }
    if (busy < core->machine->chip->dma_queue) earliest = core->now;
    return core->dma_free > earliest ? core->dma_free : earliest;
}

/* ---- starting ---- */

static void move_words(const struct tpu_core *from, const struct tpu_core *to,
                       const struct tpu_dma *d) {
    const uint8_t *source = space_base(from, d->from);
    uint8_t *target = space_base(to, d->to);
    for (uint32_t k = 0; k < d->count[2]; k++) {
        for (uint32_t j = 0; j < d->count[1]; j++) {
            int64_t a =
                d->source + (int64_t)k * d->source_stride[2] + (int64_t)j * d->source_stride[1];
            int64_t b =
                d->target + (int64_t)k * d->target_stride[2] + (int64_t)j * d->target_stride[1];
            for (uint32_t i = 0; i < d->count[0]; i++) {
                memmove(target + 4 * b, source + 4 * a, (size_t)d->length * 4);
                a += d->source_stride[0];
                b += d->target_stride[0];
            }
        }
    }
}

static bool read_descriptor(struct tpu_core *core, uint32_t at, struct tpu_dma *dma) {
    if (at > core->machine->smem_words || core->machine->smem_words - at < TPU_DMA_WORDS) {
        return tpu_stop(core, "the descriptor at SMEM word %u is out of range", at);
    }
    for (int i = 0; i < TPU_DMA_WORDS && core->transfer_count; i++) {
        if (core->smem_writers[at + (uint32_t)i]) {
            return tpu_stop(core, "race: a DMA under way writes the descriptor at SMEM word %u",
                            at);
        }
    }
    const char *why = tpu_dma_decode(core->smem + at, dma);
    if (why) return tpu_stop(core, "the descriptor at SMEM word %u: %s", at, why);
    uint64_t words = dma->length;
    for (int i = 0; i < TPU_DMA_LEVELS; i++) {
        words *= dma->count[i];
        if (words > UINT32_MAX) return tpu_stop(core, "a DMA of more than 2^32 words");
    }
    return true;
}

bool tpu_dma_start(struct tpu_core *core, uint32_t descriptor, uint32_t add_source,
                   uint32_t add_target) {
    struct tpu_dma dma;
    struct tpu_transfer here = {.amount = 1}, there = {.amount = 1};
    if (!read_descriptor(core, descriptor, &dma)) return false;
    dma.source += add_source;
    dma.target += add_target;
    here.flag = there.flag = dma.flag;
    struct tpu_core *to = core;
    if (dma.core != TPU_DMA_LOCAL) {
        if (dma.core >= core->machine->core_count) {
            return tpu_stop(core, "a DMA to core %d, and there are %d", dma.core,
                            core->machine->core_count);
        }
        to = &core->machine->cores[dma.core];
    }
    if (!make_region(core, dma.from, dma.source, &dma, dma.source_stride, &here.reads)) {
        return tpu_stop(core, "out of range: the DMA's source in %s, from word %u",
                        space_names[dma.from], dma.source);
    }
    struct tpu_region writes;
    if (!make_region(to, dma.to, dma.target, &dma, dma.target_stride, &writes)) {
        return tpu_stop(core, "out of range: the DMA's destination in %s, from word %u",
                        space_names[dma.to], dma.target);
    }
    if (covers_itself(&writes)) return tpu_stop(core, "the DMA's destination overlaps itself");
    if (to == core && regions_meet(&here.reads, &writes)) {
        return tpu_stop(core, "the DMA's source and destination overlap");
    }
    *(to == core ? &here.writes : &there.writes) = writes;
    if (find_race(core, &here) || (to != core && find_race(to, &there))) return false;
    here.done = there.done = finish_time(core, &dma, &here.reads, &writes);
    core->dma_free = core->now + (uint64_t)core->machine->chip->dma_issue_cycles;
    move_words(core, to, &dma);
    to->blocked = false;
    return add_transfer(core, &here) && (to == core || add_transfer(to, &there));
}

/* ---- flags ---- */

static void settle(struct tpu_core *core) {
    for (int i = 0; i < core->transfer_count; i++) {
        struct tpu_transfer *t = &core->transfers[i];
        if (t->counted || t->done > core->now) continue;
        t->counted = true;
        core->flags[t->flag].value += t->amount;
    }
}

/* The least cycle at which the flag has `amount`, from transfers that are under way. */
static uint64_t time_of(const struct tpu_core *core, int flag, uint64_t amount) {
    uint64_t value = core->flags[flag].value, at = core->now;
    while (value < amount) {
        uint64_t next = UINT64_MAX, grows = 0;
        for (int i = 0; i < core->transfer_count; i++) {
            const struct tpu_transfer *t = &core->transfers[i];
            if (t->flag != flag || t->counted || t->done <= at) continue;
            if (t->done < next) grows = 0;
            if (t->done < next) next = t->done;
            if (t->done == next) grows += t->amount;
        }
        if (next == UINT64_MAX) return UINT64_MAX;
        value += grows;
        at = next;
    }
    return at;
}

bool tpu_flag_time(struct tpu_core *core, int flag, int32_t amount, uint64_t *time) {
    if (amount < 0) return tpu_stop(core, "a wait for %d", amount);
    settle(core);
    *time = time_of(core, flag, (uint64_t)amount);
    if (*time != UINT64_MAX || core->machine->core_count > 1) return true;
    const struct tpu_flag *f = &core->flags[flag];
    return tpu_stop(core, "this wait can never end: flag %d can reach %llu of %d", flag,
                    (unsigned long long)(f->started - f->waited), amount);
}

void tpu_flag_take(struct tpu_core *core, int flag, uint32_t amount) {
    struct tpu_flag *f = &core->flags[flag];
    settle(core);
    f->value -= amount;
    f->waited += amount;
    if (f->waited != f->started) return;
    int kept = 0;
    for (int i = 0; i < core->transfer_count; i++) {
        struct tpu_transfer *t = &core->transfers[i];
        if (t->flag == flag) {
            mark(core, &t->reads, false, (uint32_t)-1);
            mark(core, &t->writes, true, (uint32_t)-1);
        } else {
            core->transfers[kept++] = *t;
        }
    }
    core->transfer_count = kept;
}

bool tpu_flag_signal(struct tpu_core *core, int flag, uint32_t to, int32_t amount) {
    if (to >= (uint32_t)core->machine->core_count) {
        return tpu_stop(core, "a signal to core %u, and there are %d", to,
                        core->machine->core_count);
    }
    if (amount < 0) return tpu_stop(core, "a signal of %d", amount);
    struct tpu_core *other = &core->machine->cores[to];
    uint64_t latency = other == core ? 1 : (uint64_t)core->machine->chip->link_latency_cycles;
    struct tpu_transfer signal = {
        .done = core->now + latency, .amount = (uint32_t)amount, .flag = (uint8_t)flag};
    other->blocked = false;
    return add_transfer(other, &signal);
}
