/* The entry function: control flow, and calls of kernels on buffers. */
#ifndef BACKEND_CPU_ENTRY_H
#define BACKEND_CPU_ENTRY_H

#include "backend/cpu/kernel.h"
#include "backend/cpu/machine.h"
#include "passes/buffer_assignment.h"

/* Emits `int SYMBOL(inputs, outputs, workspace)` and the kernels it calls. Subnormals
 * are flushed meanwhile where the architecture has a mode for that. Returns 0; 1: the workspace is
 * NULL or not aligned to 64; 2: a pointer to an input or an output is NULL. False with an error in
 * g->diag. */
bool entry_emit(struct cpu_gen *g, const struct buffer_assignment *assignment, const char *symbol,
                enum cpu_arch arch, struct cpu_stats *stats);

#endif
