/* A TPU program: what a .tpu file holds. The compiler fills a struct tpu_program in and writes it;
 * the runtime reads it. The file's bytes are described in docs/tpu-isa.md. */
#ifndef RUNTIME_TPU_PROGRAM_H
#define RUNTIME_TPU_PROGRAM_H

#include "runtime/tpu/chip.h"
#include "runtime/tpu/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, one line. */
struct tpu_error {
    char text[512];
};

enum {
    TPU_FILE_VERSION = 1,
    TPU_MAX_RANK = 64,
    TPU_MAX_TILES = 4,
    TPU_MAX_TILE_RANK = 4,
    TPU_TYPE_NAME = 16,
    TPU_MAX_ARRAYS = 1 << 16,
    TPU_HBM_ALIGN = 512, /* of every array and constant */
};

/* One level of tiles, as XLA's T(8,128)(2,1): the last `rank` dimensions (after the levels before
 * it) are split into pieces of dims[]. */
struct tpu_tile {
    int32_t rank;
    int64_t dims[TPU_MAX_TILE_RANK];
};

/* A parameter or result: how its dense row-major host array lies in HBM.
 * The host's elements have host_bytes each: 1, 2, 4, 8 (4-bit and smaller types, and pred: 1; c64:
 * 8). In HBM an element takes `bits` (8, 16 or 32) in each of `planes` planes (2 for 64-bit types:
 * plane 0 holds the low or real word, plane 1 the high or imaginary one). Where bits > 8 *
 * host_bytes the element is widened, with its sign if `is_signed`. Position of an element in a
 * plane, in elements: dimensions in the order of minor_to_major, then XLA's rule for the tiles.
 * Padding is garbage, on input too. */
struct tpu_array {
    char type[TPU_TYPE_NAME]; /* "f32": as in HLO text; for people and for checks of callers */
    int32_t host_bytes, bits, planes;
    int32_t is_signed;
    int32_t rank;
    int64_t dims[TPU_MAX_RANK];
    int32_t minor_to_major[TPU_MAX_RANK];
    int32_t ntiles;
    struct tpu_tile tiles[TPU_MAX_TILES];
    uint64_t address;     /* byte in HBM, a multiple of TPU_HBM_ALIGN; plane 1 follows plane 0 */
    uint64_t plane_bytes; /* with padding, a multiple of TPU_HBM_ALIGN: tpu_array_plane_bytes */
};

struct tpu_constant {
    uint64_t address; /* byte in HBM, a multiple of TPU_HBM_ALIGN */
    uint64_t size;
    const uint8_t *data;
};

/* A named piece of the memory plan, for reports only. */
struct tpu_buffer {
    const char *name;
    uint32_t space;         /* enum tpu_space */
    uint64_t address, size; /* bytes */
};

/* An HLO instruction that bundles come from. Strings are never NULL. */
struct tpu_source {
    const char *name;    /* "fusion.3" */
    const char *op_name; /* metadata: "jit(f)/dot_general", or "" */
    const char *file;    /* metadata source file, or "" */
    uint32_t line;       /* 0: none */
};

/* Bundles from `bundle` up to the next entry's belong to sources[source]. */
struct tpu_line {
    uint32_t bundle, source;
};

struct tpu_program {
    struct tpu_chip chip;
    uint32_t cores;                 /* that run the program together; 1 for an unpartitioned one */
    uint64_t hbm_bytes, vmem_bytes; /* what it uses from address 0 up: the plan's size */
    uint32_t bundles;               /* execution starts at bundle 0 */
    struct tpu_bundle *code;
    uint32_t smem_words; /* SMEM's first words at the start; the rest is 0 */
    uint32_t *smem;
    uint32_t constants;
    struct tpu_constant *constant;
    uint32_t params, results; /* leaves, in order */
    struct tpu_array *param, *result;
    uint32_t buffers;
    struct tpu_buffer *buffer;
    uint32_t sources;
    struct tpu_source *source;
    uint32_t lines; /* sorted by bundle, the first at 0; or none at all */
    struct tpu_line *line;
    void *storage; /* what tpu_program_read allocated; NULL in programs built by hand */
};

/* Bytes of one plane: the padded size of the tiled array, rounded up to TPU_HBM_ALIGN; -1 where
 * the description is malformed or the size is past 2^40. */
int64_t tpu_array_plane_bytes(const struct tpu_array *array);
/* Host <-> HBM image; `hbm` points at the array's first byte. The array must be well-formed.
 * 0, or -1 where memory is out. */
int tpu_array_store(const struct tpu_array *array, const void *host, uint8_t *hbm);
int tpu_array_load(const struct tpu_array *array, const uint8_t *hbm, void *host);

/* -1 with an error where anything does not hold that the reader promises: valid bundles, branch
 * targets within the code, arrays and constants within hbm_bytes, hbm_bytes and vmem_bytes within
 * the chip, matrix units that the chip has, constants apart from each other, sorted lines. */
int tpu_program_check(const struct tpu_program *program, struct tpu_error *error);

/* The file's bytes in malloc memory, the same for the same program; NULL with an error where the
 * program does not pass tpu_program_check or memory is out. */
uint8_t *tpu_program_write(const struct tpu_program *program, size_t *size,
                           struct tpu_error *error);
/* NULL with an error for anything but a whole, valid file. Nothing of `data` is kept. */
struct tpu_program *tpu_program_read(const void *data, size_t size, struct tpu_error *error);
void tpu_program_free(struct tpu_program *program); /* of tpu_program_read; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
