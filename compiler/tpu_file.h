/* A .tpu program file, run without the HLO that it was compiled from. */
#ifndef COMPILER_TPU_FILE_H
#define COMPILER_TPU_FILE_H

#include "compiler/io.h"
#include "ir/literal.h"
#include "runtime/tpu/tpu.h"

struct tpu_file {
    struct arena *arena;
    struct tpu_executable *executable;
    struct tpu_stats stats; /* of the last run */
    int params;
    const struct shape **param; /* their shapes */
    const struct shape *result; /* a tuple of the results */
};

/* Whether the file begins as a program file does. */
bool tpu_file_is(const char *path);
/* Reads and checks; false with a fault. */
bool tpu_file_open(struct tpu_file *file, const char *path, struct fault *fault);
/* One run: a reference to the tuple of results, or NULL with a fault. `trace` may be NULL. */
struct literal *tpu_file_run(struct tpu_file *file, struct literal *const *inputs,
                             const char *trace, struct fault *fault);
void tpu_file_close(struct tpu_file *file);

#endif
