/* TPU programs as text: docs/tpu-isa.md, "Programs as text". disassemble(p) assembles to p again,
 * byte for byte. */
#ifndef BACKEND_TPU_ASM_H
#define BACKEND_TPU_ASM_H

#include <stdio.h>

#include "ir/arena.h"
#include "ir/diag.h"
#include "runtime/tpu/program.h"

/* The program, in arena memory; NULL with errors in diag (up to a few, each with its place). It has
 * passed tpu_program_check. */
struct tpu_program *tpu_assemble(struct arena *arena, const char *text, size_t size,
                                 struct diag *diag);

/* Writes the whole program; the program must be valid. */
void tpu_disassemble(const struct tpu_program *program, FILE *out);
/* One bundle, `{ ... }`, without a newline. Targets are labels `L` and the bundle's number. */
void tpu_print_bundle(const struct tpu_bundle *bundle, FILE *out);

#endif
