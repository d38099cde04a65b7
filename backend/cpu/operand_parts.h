/* Fusions and slices that read a part of an operand only, put as reading an operand of that size.
 * Layers whose weights are parts of one array, and steps in time that read the next part of one,
 * are equal then up to where their operands begin, and share a kernel. */
#ifndef BACKEND_CPU_OPERAND_PARTS_H
#define BACKEND_CPU_OPERAND_PARTS_H

#include "ir/arena.h"
#include "ir/hlo.h"

/* An instruction that computes what `fusion`, or slice, does with operands that begin offset[i]
 * bytes later and are cut to what it reads of them: a range of the outermost dimension that has
 * more than one place, if all that uses the operand are slices. Operands where !may_move[i] stay as
 * they are. `fusion` itself where nothing changes. What is new has its memory from the module's
 * arena and `arena` and belongs to no computation of the module; the fused instructions' places are
 * in `mark`. */
const struct hlo_instr *operand_parts(struct arena *arena, const struct hlo_instr *fusion,
                                      const bool *may_move, int64_t *offset);

#endif
