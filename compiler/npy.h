/* NumPy's .npy files, versions 1 to 3, as literals. Element types that numpy lacks (bf16, f8, s4,
 * ...) are stored as |V1 or |V2: raw little-endian payloads, 4-bit elements one a byte. */
#ifndef COMPILER_NPY_H
#define COMPILER_NPY_H

#include "compiler/io.h"
#include "ir/literal.h"

enum { NPY_MAX_HEADER = 1 << 16 }; /* bytes before the data; those of arrays have about 100 */

struct npy_header {
    char order; /* '<' '>' '|' '=' */
    char kind;  /* b i u f c V */
    int size;   /* bytes an element */
    bool fortran;
    int rank;
    int64_t dims[SHAPE_MAX_RANK];
    size_t offset; /* of the data in the file */
};

bool npy_parse_header(const uint8_t *bytes, size_t size, struct npy_header *header,
                      struct fault *fault);
/* The array of exactly this shape, row-major whatever the file's order; NULL with a fault where
 * type, shape, byte order or length differ. */
struct literal *npy_decode(const uint8_t *bytes, size_t size, const struct shape *shape,
                           struct fault *fault);
struct literal *npy_read(const char *path, const struct shape *shape, struct fault *fault);
bool npy_write(const char *path, const struct literal *literal, struct fault *fault);

#endif
