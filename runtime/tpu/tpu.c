#include "runtime/tpu/tpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/tpu/machine.h"

/* ---- loading ---- */

static struct tpu_executable *load_owned(struct tpu_program *program, struct tpu_error *error) {
    if (!program) return NULL;
    struct tpu_executable *executable = calloc(1, sizeof *executable);
    if (!executable) {
        tpu_fail(error, "memory is out");
        tpu_program_free(program);
        return NULL;
    }
    executable->program = program;
    if (tpu_predecode(executable, error) == 0) return executable;
    tpu_unload(executable);
    return NULL;
}

struct tpu_executable *tpu_load(const void *data, size_t size, struct tpu_error *error) {
    return load_owned(tpu_program_read(data, size, error), error);
}

struct tpu_executable *tpu_load_program(const struct tpu_program *program,
                                        struct tpu_error *error) {
    size_t size;
    uint8_t *file = tpu_program_write(program, &size, error);
    if (!file) return NULL;
    struct tpu_executable *executable = tpu_load(file, size, error);
    free(file);
    return executable;
}

void tpu_unload(struct tpu_executable *executable) {
    if (!executable) return;
    tpu_program_free(executable->program);
    free(executable->code);
    free(executable->steps);
    free(executable);
}

const struct tpu_program *tpu_executable_program(const struct tpu_executable *executable) {
    return executable->program;
}

const char *tpu_stall_name(enum tpu_stall stall) {
    static const char *const names[TPU_STALLS] = {
        [TPU_STALL_MXU_POP] = "mxu-pop",
        [TPU_STALL_MXU_PUSH] = "mxu-push",
        [TPU_STALL_MXU_WEIGHT] = "mxu-weight",
        [TPU_STALL_EUP] = "eup",
        [TPU_STALL_XLU] = "xlu",
        [TPU_STALL_V2S] = "v2s",
        [TPU_STALL_DMA_WAIT] = "dma-wait",
        [TPU_STALL_DMA_QUEUE] = "dma-queue",
        [TPU_STALL_OVERLAY] = "overlay",
        [TPU_STALL_DELAY] = "stall",
    };
    return names[stall];
}

void tpu_stats_clear(struct tpu_stats *stats) {
    free(stats->source);
    memset(stats, 0, sizeof *stats);
}

/* ---- the host's float mode ---- */

unsigned tpu_float_mode_enter(void) {
#if defined(__x86_64__)
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040); /* flush results, and take subnormal operands as zero */
    return mode;
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1u << 24));
    return (unsigned)mode;
#else
    return 0;
#endif
}

void tpu_float_mode_leave(unsigned mode) {
#if defined(__x86_64__)
    _mm_setcsr(mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#else
    (void)mode;
#endif
}

/* ---- a core's memories ---- */

/* Pages come with their first touch: a plan may be larger than what a run uses of it. */
static void *map_memory(uint64_t size) {
    void *memory = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap_memory(void *memory, uint64_t size) {
    if (memory) munmap(memory, size ? size : 1);
}

static bool fifo_init(struct tpu_fifo *fifo, int64_t capacity, bool vectors) {
    size_t slots = (size_t)capacity + TPU_TRANSPOSE_MAX;
    fifo->capacity = (int)capacity;
    fifo->slots = (int)slots;
    fifo->ready = calloc(slots, sizeof *fifo->ready);
    if (vectors) fifo->data = aligned_alloc(64, slots * sizeof *fifo->data);
    if (!vectors) fifo->word = calloc(slots, sizeof *fifo->word);
    return fifo->ready && (fifo->data || fifo->word);
}

static void fifo_free(struct tpu_fifo *fifo) {
    free(fifo->ready);
    free(fifo->data);
    free(fifo->word);
}

static tpu_vreg *vectors_new(size_t count) {
    tpu_vreg *v = aligned_alloc(64, count * sizeof *v);
    if (v) memset(v, 0xff, count * sizeof *v); /* garbage that shows: NaN, -1 */
    return v;
}

static bool mxu_init(struct tpu_mxu *mxu, const struct tpu_chip *chip) {
    mxu->weights = aligned_alloc(64, 2 * sizeof *mxu->weights);
    return fifo_init(&mxu->out, chip->mxu_fifo, true) && mxu->weights;
}

static bool core_init(struct tpu_core *core, struct tpu_machine *machine, int number) {
    const struct tpu_chip *chip = machine->chip;
    const struct tpu_program *p = machine->executable->program;
    core->machine = machine;
    core->number = number;
    core->p[0] = true;
    core->span_source = UINT32_MAX;
    core->v = vectors_new(TPU_VREGS);
    core->m = vectors_new(TPU_MASKS);
    core->late = vectors_new(TPU_SLOTS);
    core->scratch = (uint32_t *)vectors_new(1);
    core->transpose = vectors_new(TPU_TRANSPOSE_MAX);
    core->smem = calloc(machine->smem_words, sizeof *core->smem);
    core->hbm = map_memory(p->hbm_bytes);
    core->vmem = map_memory(p->vmem_bytes);
    core->vmem_readers = calloc(machine->vmem_rows + 1, sizeof *core->vmem_readers);
    core->vmem_writers = calloc(machine->vmem_rows + 1, sizeof *core->vmem_writers);
    core->smem_readers = calloc(machine->smem_words, sizeof *core->smem_readers);
    core->smem_writers = calloc(machine->smem_words, sizeof *core->smem_writers);
    int64_t overlays = chip->instruction_bundles / chip->overlay_bundles;
    core->overlays = calloc((size_t)overlays, sizeof *core->overlays);
    core->stats.sources = p->sources;
    core->stats.source = calloc((size_t)p->sources + 1, sizeof *core->stats.source);
    bool units = fifo_init(&core->eup, chip->eup_fifo, true) &&
                 fifo_init(&core->xlu, chip->xlu_fifo, true) &&
                 fifo_init(&core->v2s, chip->v2s_fifo, false);
    for (int u = 0; u < chip->mxus && units; u++)
        units = mxu_init(&core->mxu[u], chip);
    if (!units || !core->v || !core->m || !core->late || !core->scratch || !core->transpose ||
        !core->smem || !core->hbm || !core->vmem || !core->vmem_readers || !core->vmem_writers ||
        !core->smem_readers || !core->smem_writers || !core->overlays || !core->stats.source) {
        return false;
    }
    /* Few large pages instead of thousands of small ones, where the system has them. */
    madvise(core->vmem, p->vmem_bytes, MADV_HUGEPAGE);
    memset(core->vmem, 0xff, p->vmem_bytes);
    memcpy(core->smem, p->smem, p->smem_words * sizeof *core->smem);
    /* The host has put the program's first overlays there. */
    while (core->overlay_count < overlays &&
           (int64_t)core->overlay_count * chip->overlay_bundles < (int64_t)p->bundles) {
        core->overlays[core->overlay_count] = (uint32_t)core->overlay_count;
        core->overlay_count++;
    }
    return true;
}

static void core_free(struct tpu_core *core) {
    const struct tpu_program *p = core->machine ? core->machine->executable->program : NULL;
    if (!p) return;
    free(core->v);
    free(core->m);
    free(core->late);
    free(core->scratch);
    free(core->transpose);
    free(core->smem);
    unmap_memory(core->hbm, p->hbm_bytes);
    unmap_memory(core->vmem, p->vmem_bytes);
    free(core->vmem_readers);
    free(core->vmem_writers);
    free(core->smem_readers);
    free(core->smem_writers);
    free(core->overlays);
    free(core->transfers);
    fifo_free(&core->eup);
    fifo_free(&core->xlu);
    fifo_free(&core->v2s);
    for (int u = 0; u < TPU_MAX_UNITS; u++) {
        fifo_free(&core->mxu[u].out);
        free(core->mxu[u].weights);
    }
    free(core->stats.source);
}

/* ---- one run ---- */

static int store_inputs(struct tpu_core *core, const void *const *inputs, struct tpu_error *error) {
    const struct tpu_program *p = core->machine->executable->program;
    for (uint32_t i = 0; i < p->constants; i++)
        memcpy(core->hbm + p->constant[i].address, p->constant[i].data, p->constant[i].size);
    for (uint32_t i = 0; i < p->params; i++) {
        const struct tpu_array *a = &p->param[i];
        uint8_t *at = core->hbm + a->address;
        memset(at, 0xff, a->plane_bytes * (uint64_t)a->planes); /* padding is garbage */
        if (tpu_array_store(a, inputs[i], at) != 0) return tpu_fail(error, "memory is out");
    }
    return 0;
}

/* The core that is behind runs until it is level with the next: what others do to it lies in its
 * future, as links take time. */
static bool run_cores(struct tpu_machine *machine) {
    uint64_t limit = UINT64_MAX;
    if (machine->options->max_cycles) limit = machine->options->max_cycles;
    for (;;) {
        struct tpu_core *behind = NULL;
        uint64_t until = limit;
        bool blocked = false;
        for (int i = 0; i < machine->core_count; i++) {
            struct tpu_core *core = &machine->cores[i];
            blocked |= core->blocked;
            if (core->halted || core->blocked) continue;
            if (behind && core->now >= behind->now) {
                if (core->now < until) until = core->now;
                continue;
            }
            if (behind && behind->now < until) until = behind->now;
            behind = core;
        }
        if (!behind && !blocked) return true;
        if (!behind) {
            for (int i = 0; i < machine->core_count; i++) {
                if (machine->cores[i].blocked) behind = &machine->cores[i];
            }
            return tpu_stop(behind, "every core waits for another");
        }
        if (!tpu_core_run(behind, until)) return false;
        if (!behind->halted && behind->now > limit) {
            behind->step = NULL;
            return tpu_stop(behind, "more than %llu cycles", (unsigned long long)limit);
        }
    }
}

static void finish_stats(const struct tpu_machine *machine, struct tpu_stats *stats) {
    struct tpu_core *core = &machine->cores[0];
    const struct tpu_chip *chip = machine->chip;
    uint64_t rows = 0;
    *stats = core->stats;
    core->stats.source = NULL;
    stats->cycles = core->now;
    stats->seconds = (double)core->now / ((double)chip->clock_mhz * 1e6);
    for (int u = 0; u < chip->mxus; u++)
        rows += stats->mxu_rows[u];
    if (!core->now) return;
    double cycles = (double)core->now;
    double per_cycle = 1e3 * (double)chip->hbm_gb_per_s / (double)chip->clock_mhz;
    double bytes = (double)(stats->hbm_read + stats->hbm_written + stats->overlay_bytes);
    stats->mxu_use = (double)rows / cycles / (double)chip->mxus;
    stats->hbm_use = bytes / (cycles * per_cycle);
}

static int run_machine(struct tpu_machine *machine, const void *const *inputs, void *const *outputs,
                       struct tpu_error *error) {
    const struct tpu_program *p = machine->executable->program;
    for (int i = 0; i < machine->core_count; i++) {
        struct tpu_core *core = &machine->cores[i];
        if (!core_init(core, machine, i)) return tpu_fail(error, "memory is out");
        if (store_inputs(core, inputs + (size_t)i * p->params, error) != 0) return -1;
    }
    if (machine->options->trace) {
        machine->trace = tpu_trace_new(machine->options->trace, machine);
        if (!machine->trace) return tpu_fail(error, "memory is out");
    }
    unsigned mode = tpu_float_mode_enter();
    bool done = run_cores(machine);
    tpu_float_mode_leave(mode);
    for (int i = 0; i < machine->core_count && machine->trace; i++)
        tpu_trace_source(&machine->cores[i], UINT32_MAX);
    if (machine->trace && tpu_trace_free(machine->trace) != 0) {
        return tpu_fail(error, "the trace cannot be written");
    }
    if (!done) return -1;
    for (int i = 0; i < machine->core_count; i++) {
        for (uint32_t k = 0; k < p->results; k++) {
            const struct tpu_array *a = &p->result[k];
            void *host = outputs[(size_t)i * p->results + k];
            if (tpu_array_load(a, machine->cores[i].hbm + a->address, host) != 0) {
                return tpu_fail(error, "memory is out");
            }
        }
    }
    return 0;
}

/* Padding can make a program far larger than its arrays: better refused than killed. */
static int check_host_memory(const struct tpu_program *p, struct tpu_error *error) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double needed = (double)p->cores * (double)(p->hbm_bytes + p->vmem_bytes);
    double here = (double)pages * (double)page;
    if (pages <= 0 || page <= 0 || needed <= here) return 0;
    return tpu_fail(error,
                    "the program's memory plan is %.2f GiB, and the machine that would emulate it "
                    "has %.2f GiB",
                    needed / 0x1p30, here / 0x1p30);
}

int tpu_execute(const struct tpu_executable *executable, const void *const *inputs,
                void *const *outputs, const struct tpu_run_options *options,
                struct tpu_stats *stats, struct tpu_error *error) {
    static const struct tpu_run_options plain;
    const struct tpu_program *p = executable->program;
    struct tpu_machine machine = {
        .executable = executable,
        .chip = &p->chip,
        .options = options ? options : &plain,
        .vmem_rows = p->vmem_bytes / TPU_ROW_BYTES,
        .smem_words = (uint64_t)p->chip.smem_bytes / 4,
        .hbm_words = p->hbm_bytes / 4,
        .core_count = (int)p->cores,
        .error = error,
    };
    if (check_host_memory(p, error) != 0) return -1;
    machine.cores = calloc(p->cores, sizeof *machine.cores);
    if (!machine.cores) return tpu_fail(error, "memory is out");
    int status = run_machine(&machine, inputs, outputs, error);
    if (status == 0 && stats) finish_stats(&machine, stats);
    for (int i = 0; i < machine.core_count; i++)
        core_free(&machine.cores[i]);
    free(machine.cores);
    return status;
}
