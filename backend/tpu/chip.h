/* A chip as data: the figures that the compiler, the loader and the emulator need to know of one
 * core. Built-in chips are the files in chips/; a file of the user's own has the same fields. */
#ifndef BACKEND_TPU_CHIP_H
#define BACKEND_TPU_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpu_chip {
    char name[32];
    int64_t cores; /* a chip; every other figure is that of one core */
    int64_t clock_mhz;
    int64_t mxus;                    /* of 128 x 128 weights each */
    int64_t hbm_bytes, hbm_gb_per_s; /* 1e9 bytes a second */
    int64_t vmem_bytes, smem_bytes;
    int64_t vector_registers;
    int64_t links;               /* interconnect links of the chip */
    int64_t instruction_bundles; /* that instruction memory holds */
    int64_t dma_latency_cycles;  /* from issue to the first byte */
    int64_t dma_issue_cycles;    /* least between two DMAs of one engine */
    int64_t dma_granule_bytes;   /* a piece of a DMA costs at least as much as this many bytes */
    int64_t dma_queue;           /* DMAs that may be in flight */
};

/* A chip's text must fit in this. */
enum { TPU_CHIP_MOST_BYTES = 64 * 1024 };

/* A built-in chip by name ("v2"); NULL where there is none. */
const char *tpu_chip_text(const char *name);
/* Reads a chip from JSON text. False with a sentence in `why` (of `size` bytes) where a field is
 * missing, unknown, repeated or out of range. */
bool tpu_chip_parse(struct tpu_chip *chip, const char *text, size_t length, char *why, size_t size);
/* A built-in chip's name, or the path of a JSON file. False with a sentence in `why`. */
bool tpu_chip_load(struct tpu_chip *chip, const char *name_or_path, char *why, size_t size);

#endif
