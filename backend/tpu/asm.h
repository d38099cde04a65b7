/* TPU programs as text. One instruction stream, one statement a line:
 *
 *   .chip {"name": "v2", ...}                 a built-in chip's name will do: .chip v2
 *   .cores 1    .hbm BYTES    .vmem BYTES     the plan
 *   .smem FIRST WORD ...                      SMEM at the start; words may be spread over lines
 *   .constant ADDRESS SIZE                    followed by .data HEX and .zero COUNT lines; what
 * they leave of SIZE is 0 .param TYPE HOST_BYTES BITS PLANES SIGNED dims D,... order D,... tiles
 * (D,...)... at ADDRESS .result ...                               the same .buffer "NAME"
 * hbm|vmem|smem ADDRESS SIZE .source "NAME" "OP_NAME" "FILE" LINE .code bundles follow .line SOURCE
 * the following bundles come from that .source LABEL: { INSTRUCTION ; INSTRUCTION ; ... }       {}
 * is an empty bundle
 *
 * An instruction is `SLOT: (PRED) MNEMONIC OPERANDS ?MASK`, with SLOT only needed where an s1 or v1
 * instruction stands without one before it, and PRED p1-p3 or !p1-!p3. Operands, each where the
 * table has it: unit u0, dest, a, b, base, offset, stride, flags (set0 or set1, cross, start,
 * transpose), AMOUNT or TARGET (a label or number). Numbers are decimal, 0x hex, or floats with a
 * point (1.5, inf, nan); the assembler finds an immediate for them. `#2(5)` names the immediate,
 * `#2h(0x3f80)` its high form, `#1w(0x12345)` a pair; `$0(s5)` names the port. `;` outside of
 * braces begins a comment.
 *
 * disassemble(p) assembles to p again, byte for byte. */
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
