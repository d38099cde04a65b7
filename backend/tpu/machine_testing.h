/* What the tests of the machine share: a program as text, run on word arrays. */
#ifndef BACKEND_TPU_MACHINE_TESTING_H
#define BACKEND_TPU_MACHINE_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/tpu/asm.h"
#include "runtime/tpu/tpu.h"

enum { REG = TPU_REG_WORDS };

static inline float as_float(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}
static inline uint32_t as_word(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* Assembles; fails the test with the first message where that does not work. */
static inline struct tpu_executable *assemble_text(const char *text) {
    struct arena *arena = arena_new();
    struct diag diag;
    struct tpu_error error;
    diag_init(&diag, "test", text, strlen(text));
    struct tpu_program *program = tpu_assemble(arena, text, strlen(text), &diag);
    if (!program) {
        fail_msg("line %u: %s", diag.messages[0].loc.line, diag.messages[0].text);
    }
    struct tpu_executable *executable = tpu_load_program(program, &error);
    if (!executable) fail_msg("%s", error.text);
    diag_clear(&diag);
    arena_free(arena);
    return executable;
}

/* Runs; the error's text, in `error`, or "" where all went well. */
static inline void run_text(const char *text, const void *const *inputs, void *const *outputs,
                            struct tpu_stats *stats, struct tpu_error *error) {
    struct tpu_executable *executable = assemble_text(text);
    struct tpu_run_options options = {.max_cycles = 1000000};
    error->text[0] = 0;
    tpu_execute(executable, inputs, outputs, &options, stats, error);
    tpu_unload(executable);
}

/* A program around `body`: x and y (two registers of words each, 16 x 128, T(8,128)) come to VMEM
 * rows 0-15 and 16-31, v1, v2 and v3, v4; the body puts results in VMEM rows 32-47; 48-63 are free.
 * Scalars s29 to s31 and flags 0 and 1 are the frame's. */
static inline char *framed(const char *body) {
    static const char before[] =
        ".chip v3\n.hbm 32768\n.vmem 131072\n"
        ".smem 0 0x004 0 0 2048 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".smem 16 0x004 2048 2048 2048 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".smem 32 0x011 4096 4096 2048 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".param \"u32\" 4 32 1 0 dims 16,128 order 1,0 tiles (8,128) at 0\n"
        ".param \"u32\" 4 32 1 0 dims 16,128 order 1,0 tiles (8,128) at 8192\n"
        ".result \"u32\" 4 32 1 0 dims 16,128 order 1,0 tiles (8,128) at 16384\n"
        ".source \"body\" \"\" \"test.py\" 7\n"
        ".code\n.line 0\n"
        "{ smov s29, 0 ; smov s30, 16 }\n"
        "{ dma s29 ; smov s31, 32 }\n{ dma s30 }\n{ wait f0, 2 }\n"
        "{ vld v1, 0, 0, 1 }\n{ vld v2, 0, 8, 1 }\n{ vld v3, 0, 16, 1 }\n{ vld v4, 0, 24, 1 }\n"
        "{ vmov v5, 0 }\n{ stall 8 }\n{ vst v5, 0, 32, 1 }\n{ vst v5, 0, 40, 1 }\n";
    static const char after[] = "{ stall 16 }\n{ dma s31 }\n{ wait f1, 1 }\n{ halt }\n";
    size_t size = sizeof before + strlen(body) + sizeof after + 2;
    char *text = malloc(size);
    snprintf(text, size, "%s%s\n%s", before, body, after);
    return text;
}

/* The same, run. */
static inline void run_body(const char *body, const uint32_t *x, const uint32_t *y, uint32_t *out,
                            struct tpu_error *error) {
    char *text = framed(body);
    const void *inputs[] = {x, y};
    void *outputs[] = {out};
    run_text(text, inputs, outputs, NULL, error);
    free(text);
}

#endif
