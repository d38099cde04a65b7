/* What tests of kernels share: a kernel written by hand, allocated, scheduled, and run. */
#ifndef BACKEND_TPU_KERNEL_TESTING_H
#define BACKEND_TPU_KERNEL_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/tpu/kernel.h"
#include "runtime/tpu/tpu.h"

enum { ROWS = 8, DESCRIPTOR = 0, SPILL_WORD = 16, SPILL_ROW = 64 };

struct fixture {
    struct arena *arena;
    struct kernel *k;
    struct mir_code code;
    int32_t out[TPU_REG_WORDS];
    uint64_t cycles;
    /* Of the loop that was pipelined: its settled blocks, and cycles from one iteration to the next
     * (0 where all of it is flat). */
    int settled, ii;
};

static inline void begin(struct fixture *f) {
    memset(f, 0, sizeof *f);
    f->arena = arena_new();
    f->k = kernel_new(f->arena);
    f->code.arena = f->arena;
}

/* Operations of a loop's body: all but the comparison and the branch. */
static inline int body_count(const struct mir *mir) {
    for (int b = 0; b < mir->nblocks; b++)
        if (mir->blocks[b].trips) return mir->blocks[b].count - 2;
    return 0;
}

static inline void find_settled(struct fixture *f, int body) {
    for (int b = 0; b < f->k->mir->nblocks; b++) {
        const struct mblock *block = &f->k->mir->blocks[b];
        f->settled += block->settled;
        if (block->settled && block->count && block->ops[block->count - 1].op == TPU_BDNZ)
            f->ii = block->length / ((block->count - 1) / body); /* a few are moves */
    }
}

/* Ends the kernel with `result` as the program's only result, in place 1024 s + l of sublane s. */
static inline void run(struct fixture *f, treg result) {
    struct kernel *k = f->k;
    k_store(k, result, sx_const(0), 0, 0);
    treg at = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM, .imm = DESCRIPTOR});
    k_emit(k, (struct mop){.op = TPU_DMA, .a = at});
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = 0, .imm = 1});
    k_emit(k, (struct mop){.op = TPU_HALT});
    k->mir->spill_word = SPILL_WORD;
    k->mir->spill_row = SPILL_ROW;
    int body = body_count(k->mir);
    const char *why = mir_finish(k->mir, &f->code);
    if (why) fail_msg("%s", why);
    find_settled(f, body);
    for (int i = 0; i < f->code.nfixups; i++) {
        struct tpu_bundle *bundle = &f->code.bundles[f->code.fixups[i].bundle];
        bundle->imm[0] = (uint16_t)f->code.fixups[i].target;
        bundle->imm[1] = (uint16_t)((unsigned)f->code.fixups[i].target >> 16);
    }
    uint32_t smem[TPU_DMA_WORDS];
    struct tpu_dma dma = {.from = TPU_VMEM,
                          .to = TPU_HBM,
                          .core = TPU_DMA_LOCAL,
                          .length = TPU_REG_WORDS,
                          .count = {1, 1, 1}};
    tpu_dma_encode(&dma, smem);
    struct tpu_array array = {.type = "s32",
                              .host_bytes = 4,
                              .bits = 32,
                              .planes = 1,
                              .is_signed = 1,
                              .rank = 2,
                              .dims = {ROWS, TPU_LANES},
                              .minor_to_major = {1, 0},
                              .ntiles = 1,
                              .tiles = {{2, {ROWS, TPU_LANES}}},
                              .plane_bytes = 4096};
    struct tpu_program program = {.cores = 1,
                                  .hbm_bytes = 4096,
                                  .vmem_bytes = 1 << 20,
                                  .bundles = (uint32_t)f->code.count,
                                  .code = f->code.bundles,
                                  .smem_words = TPU_DMA_WORDS,
                                  .smem = smem,
                                  .results = 1,
                                  .result = &array};
    char problem[256];
    struct tpu_error error = {""};
    struct tpu_stats stats = {0};
    void *outputs[] = {f->out};
    assert_true(tpu_chip_load(&program.chip, "v2", problem, sizeof problem));
    struct tpu_executable *executable = tpu_load_program(&program, &error);
    struct tpu_run_options options = {.max_cycles = 1000000};
    if (executable) tpu_execute(executable, NULL, outputs, &options, &stats, &error);
    tpu_unload(executable);
    f->cycles = stats.cycles;
    tpu_stats_clear(&stats);
    arena_free(f->arena);
    if (error.text[0]) fail_msg("%s", error.text);
}

/* Every place holds want(sublane, lane). */
#define EXPECT(f, want)                                                                            \
    for (int s = 0; s < ROWS; s++)                                                                 \
        for (int l = 0; l < TPU_LANES; l++)                                                        \
    assert_int_equal((f).out[s * TPU_LANES + l], (want))

#endif
