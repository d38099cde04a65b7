/* Stores past the caches. A result that is larger than the last-level cache would only empty it,
 * and ordinary stores read each line before they write it. */
#ifndef BACKEND_CPU_STREAM_H
#define BACKEND_CPU_STREAM_H

#include "backend/cpu/gen.h"

enum { STREAM_LINE = 64 };

/* Whether results of so many bytes are worth it, and the machine has such stores. */
bool stream_pays(const struct cpu_gen *g, int64_t bytes);
/* Whether the pointer is that of a line, at run time. */
LLVMValueRef stream_is_aligned(struct cpu_gen *g, LLVMValueRef pointer);
/* Stores a vector whose address is a multiple of its size. */
void stream_store(struct cpu_gen *g, LLVMValueRef vector, LLVMValueRef to);
/* Copies whole lines, from and to multiples of STREAM_LINE. */
void stream_copy(struct cpu_gen *g, LLVMValueRef to, LLVMValueRef from, int64_t bytes);
/* At the end of a share that streamed: others may read it then. */
void stream_end(struct cpu_gen *g);

#endif
