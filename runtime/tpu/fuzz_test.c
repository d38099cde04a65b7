/* Random programs on the emulator: each ends, by a halt, a hazard or the limit of cycles, and
 * touches nothing outside of the machine (which the sanitizers watch). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tpu/isa_testing.h"
#include "runtime/tpu/tpu.h"

enum { BUNDLES = 60, WORDS = 256 };

/* Small numbers reach further than random ones: addresses, amounts and targets mostly fit. */
static void tame(struct tpu_bundle *bundle) {
    for (int i = 0; i < TPU_IMMS; i++)
        bundle->imm[i] %= random_below(4) ? 16 : 256;
    for (int i = 0; i < TPU_SLOTS; i++) {
        struct tpu_instr *in = &bundle->slot[i];
        if (in->op == TPU_TRAP || in->op == TPU_HALT) *in = (struct tpu_instr){0};
        in->unit %= 2;
        if (in->op != TPU_EMPTY && random_below(2)) in->pred = TPU_ALWAYS;
    }
    /* What the change left unused is 0 again. */
    unsigned imms = 0, ports = 0;
    for (enum tpu_slot slot = TPU_S0; slot < TPU_SLOTS; ++slot) {
        struct tpu_uses uses;
        tpu_slot_uses(bundle, slot, &uses);
        imms |= uses.imms;
        ports |= uses.ports;
    }
    for (int i = 0; i < TPU_IMMS; i++)
        bundle->imm[i] = imms >> i & 1 ? bundle->imm[i] : 0;
    for (int i = 0; i < TPU_PORTS; i++)
        bundle->port[i] = ports >> i & 1 ? bundle->port[i] : 0;
}

static void random_descriptors(uint32_t *smem) {
    for (int i = 0; i < WORDS / TPU_DMA_WORDS; i++) {
        struct tpu_dma dma = {.from = (uint8_t)random_below(3),
                              .to = (uint8_t)random_below(3),
                              .flag = (uint8_t)random_below(4),
                              .core = TPU_DMA_LOCAL,
                              .source = random_below(4096),
                              .target = random_below(4096),
                              .length = 1 + random_below(64),
                              .count = {1 + random_below(3), 1 + random_below(3), 1}};
        for (int k = 0; k < TPU_DMA_LEVELS; k++) {
            dma.source_stride[k] = (int32_t)random_below(512) - 256;
            dma.target_stride[k] = (int32_t)random_below(512) - 256;
        }
        tpu_dma_encode(&dma, smem + i * TPU_DMA_WORDS);
    }
}

/* Weights in both sets of both units, so that products run; then a few random bundles, with pauses
 * in which everything in flight lands. */
static int make_code(struct tpu_bundle *code) {
    int count = 0;
    for (int k = 0; k < 64 && count < 64; k++) {
        struct tpu_bundle *b = &code[count++];
        memset(b, 0, sizeof *b);
        b->slot[TPU_PUSH] = (struct tpu_instr){.op = TPU_WPUSHF,
                                               .pred = TPU_ALWAYS,
                                               .dest = (uint8_t)random_below(32),
                                               .unit = (uint8_t)(k / 32),
                                               .flags = (uint8_t)(k / 16 % 2 + (k % 16 ? 0 : 2))};
    }
    for (int k = 0; k < BUNDLES; k++) {
        random_bundle(&code[count], 2 + random_below(4));
        tame(&code[count++]);
        memset(&code[count], 0, sizeof *code);
        code[count].slot[TPU_MISC] = (struct tpu_instr){.op = TPU_STALL, .pred = TPU_ALWAYS};
        code[count++].imm[0] = 16;
    }
    memset(&code[count], 0, sizeof *code);
    code[count++].slot[TPU_MISC] = (struct tpu_instr){.op = TPU_HALT, .pred = TPU_ALWAYS};
    return count;
}

/* Runs it; 0, or the number of the bundle that it stopped at (1 where it could not be loaded). */
static int run_once(const struct tpu_program *program) {
    struct tpu_error error = {""};
    struct tpu_stats stats = {0};
    struct tpu_run_options options = {.max_cycles = 20000};
    int bundle = 0;
    struct tpu_executable *executable = tpu_load_program(program, &error);
    if (!executable) {
        assert_non_null(strstr(error.text, "goes past the end"));
        return 1;
    }
    int status = tpu_execute(executable, NULL, NULL, &options, &stats, &error);
    assert_true(status == 0 || sscanf(error.text, "bundle %d", &bundle) == 1);
    tpu_stats_clear(&stats);
    tpu_unload(executable);
    return bundle;
}

/* A bundle that stops the program is taken out, so that the others get their turn. */
static void random_programs(void **state) {
    (void)state;
    static struct tpu_bundle code[64 + 2 * BUNDLES + 1];
    static uint32_t smem[WORDS];
    char why[100];
    long ran = 0, rounds = getenv("TPU_ROUND_TRIPS") ? 300 : 40;
    struct tpu_program program = {.cores = 1,
                                  .hbm_bytes = 65536,
                                  .vmem_bytes = 65536,
                                  .code = code,
                                  .smem_words = WORDS,
                                  .smem = smem};
    assert_true(tpu_chip_load(&program.chip, "v3", why, sizeof why));
    for (long round = 0; round < rounds; round++) {
        random_descriptors(smem);
        program.bundles = (uint32_t)make_code(code);
        int stopped = 0;
        for (int tries = 0; tries < 2 * BUNDLES; tries++) {
            stopped = run_once(&program);
            if (stopped < 64 || stopped == (int)program.bundles - 1) break;
            memset(&code[stopped], 0, sizeof *code);
        }
        if (stopped == 0 || stopped == (int)program.bundles - 1) ran++;
    }
    assert_true(ran > rounds / 4); /* to the end */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
