/* What the files of the TPU runtime share among themselves. */
#ifndef RUNTIME_TPU_INTERNAL_H
#define RUNTIME_TPU_INTERNAL_H

#include "runtime/tpu/tpu.h"

enum { TPU_ROW = TPU_ROW_BYTES };

/* Always -1, so that failing functions can return it. `error` may be NULL. */
int tpu_fail(struct tpu_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
