/* The TPU runtime: loads program files and executes them on an emulator of the machine that
 * computes real values, counts cycles and checks every hazard. Usable without the compiler:
 * link libhlocc_rt.a, cJSON and libm. */
#ifndef RUNTIME_TPU_TPU_H
#define RUNTIME_TPU_TPU_H

#include <stdio.h>

#include "runtime/tpu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tpu_executable;

/* Reads, checks and predecodes a program file. NULL with an error. */
struct tpu_executable *tpu_load(const void *data, size_t size, struct tpu_error *error);
/* The same for a program in memory, which is copied. */
struct tpu_executable *tpu_load_program(const struct tpu_program *program, struct tpu_error *error);
void tpu_unload(struct tpu_executable *executable); /* NULL is fine */
const struct tpu_program *tpu_executable_program(const struct tpu_executable *executable);

/* What the core waited for. */
enum tpu_stall {
    TPU_STALL_MXU_POP,    /* a result of a matrix unit */
    TPU_STALL_MXU_PUSH,   /* a matrix unit that is busy, or whose weights are on their way */
    TPU_STALL_MXU_WEIGHT, /* the weight path, or data that still streams through the set */
    TPU_STALL_EUP,
    TPU_STALL_XLU,
    TPU_STALL_V2S,
    TPU_STALL_DMA_WAIT, /* WAIT on a flag */
    TPU_STALL_DMA_QUEUE,
    TPU_STALL_OVERLAY, /* code that comes from HBM */
    TPU_STALL_DELAY,   /* STALL */
    TPU_STALLS
};
const char *tpu_stall_name(enum tpu_stall stall);

struct tpu_source_stats {
    uint64_t cycles, bundles, stalls, mxu_rows, hbm_bytes;
};

/* Counts of one run, of core 0 where several run. */
struct tpu_stats {
    uint64_t cycles, bundles;
    double seconds; /* at the chip's clock */
    uint64_t stalls[TPU_STALLS];
    uint64_t slots[TPU_SLOTS]; /* instructions that issued, predicate on */
    uint64_t mxu_rows[TPU_MAX_UNITS];
    uint64_t dmas, hbm_read, hbm_written; /* bytes, as HBM transfers them: whole granules */
    uint64_t overlays, overlay_bytes;
    double mxu_use;   /* busy rows / cycles / units */
    double hbm_use;   /* bytes / (cycles * bytes a cycle) */
    uint32_t sources; /* entries of `source`, one an HLO instruction of the program */
    struct tpu_source_stats *source; /* malloc memory; free with tpu_stats_clear */
};
void tpu_stats_clear(struct tpu_stats *stats);

struct tpu_run_options {
    uint64_t max_cycles; /* 0: no limit; past it the run is an error */
    FILE *trace;         /* Trace Event JSON for Perfetto, or NULL */
};

/* One run. Inputs and outputs are dense row-major host arrays, one a leaf, for core c at index
 * c * params + i (c * results + i). Any number of runs of one executable may be under way at once.
 * 0; -1 with an error: memory, or a hazard, which names the bundle, its HLO instruction and the
 * reason. `options` and `stats` may be NULL. */
int tpu_execute(const struct tpu_executable *executable, const void *const *inputs,
                void *const *outputs, const struct tpu_run_options *options,
                struct tpu_stats *stats, struct tpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
