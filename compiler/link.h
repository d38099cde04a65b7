/* From an object to a shared library or a program, by the C compiler's driver (cc). */
#ifndef COMPILER_LINK_H
#define COMPILER_LINK_H

#include "compiler/io.h"
#include "ir/hlo.h"

/* A shared library of the object, or a program that reads and writes .npy files (the module says
 * which); *linked gets its bytes, in malloc memory. `library` (or NULL) is linked too. What cc has
 * to say goes to standard error. */
bool link_object(const struct hlo_module *module, bool shared, const struct bytes *object,
                 const char *symbol, const char *library, struct bytes *linked,
                 struct fault *fault);

#endif
