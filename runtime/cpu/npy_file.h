/* NumPy's .npy files, versions 1 to 3: how the compiler and compiled programs read and write
 * arrays. Element types that numpy lacks (bf16, f8, s4, ...) are stored as |V1 or |V2: raw
 * little-endian payloads, 4-bit elements one a byte. */
#ifndef RUNTIME_CPU_NPY_FILE_H
#define RUNTIME_CPU_NPY_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { NPY_MAX_RANK = 64, NPY_WHY = 512 /* bytes of a reason, as text */ };

/* The array that a program has: dense, row-major. */
struct hlocc_rt_npy_type {
    const char *name;            /* the element type in HLO text: "f32" */
    char kind;                   /* numpy's: b i u f c, or V where numpy has no name for it */
    int size, bits;              /* of an element: bytes that it takes, bits that count */
    bool is_signed, is_unsigned; /* integers */
    int rank;
    const int64_t *dims; /* their product times the size fits in an int64_t */
};

int64_t hlocc_rt_npy_bytes(const struct hlocc_rt_npy_type *type);

/* A file whose header has been read. */
struct hlocc_rt_npy {
    FILE *file;
    const struct hlocc_rt_npy_type *type;
    int64_t bytes; /* of data */
    bool columns;
    uint8_t *head;
    size_t offset, have;
};

/* Reads the header and compares it with the type. `size`: of the file where that is known, else -1:
 * so that a wrong one costs no memory. False with the reason in `why`. */
bool hlocc_rt_npy_begin(struct hlocc_rt_npy *npy, FILE *file, int64_t size,
                        const struct hlocc_rt_npy_type *type, char *why);
/* Reads the data, whatever the file's order, and ends what begin started; data NULL: memory is
 * short. False with the reason in `why`. */
bool hlocc_rt_npy_end(struct hlocc_rt_npy *npy, void *data, char *why);
/* As numpy writes it. Errors are the stream's. */
void hlocc_rt_npy_write(FILE *file, const struct hlocc_rt_npy_type *type, const void *data);

#endif
