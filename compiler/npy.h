/* NumPy's .npy files (runtime/cpu/npy_file.h) as literals. */
#ifndef COMPILER_NPY_H
#define COMPILER_NPY_H

#include "compiler/io.h"
#include "ir/literal.h"

/* numpy's kind of the elements: b i u f c, V for those it has no name for; 0: none. */
char npy_kind(enum element_type type);
/* The array of exactly this shape, row-major whatever the file's order; NULL with a fault where
 * type, shape, byte order or length differ. */
struct literal *npy_decode(const uint8_t *bytes, size_t size, const struct shape *shape,
                           struct fault *fault);
struct literal *npy_read(const char *path, const struct shape *shape, struct fault *fault);
bool npy_write(const char *path, const struct literal *literal, struct fault *fault);

#endif
