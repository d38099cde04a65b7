/* Where every value of a program lies in HBM, on padded sizes; and, where it does not fit, a report
 * of what takes the space and what would help. Nothing of the program's size is allocated. */
#ifndef BACKEND_TPU_MEMORY_H
#define BACKEND_TPU_MEMORY_H

#include "backend/tpu/layout.h"
#include "passes/buffer_assignment.h"
#include "runtime/tpu/chip.h"

struct tpu_memory {
    const struct buffer_assignment *buffers;
    int64_t *base;                                 /* by buffer id: byte address in HBM; -1: none */
    int64_t inputs, outputs, constants, temporary; /* bytes, padded */
    int64_t total;                                 /* end of the last buffer */
};

/* In `arena`. The module has been through the target's passes. NULL with errors in diag where a
 * size is out of range. */
const struct tpu_memory *tpu_memory_plan(struct arena *arena, struct hlo_module *module,
                                         struct diag *diag);
/* False with the "Resource exhausted" report in diag where the plan is larger than the chip's HBM.
 */
bool tpu_memory_fits(const struct tpu_memory *memory, const struct tpu_chip *chip,
                     const struct hlo_module *module, struct diag *diag);
/* Byte address of a leaf of an instruction's result; -1 where it has none. */
int64_t tpu_memory_address(const struct tpu_memory *memory, const struct hlo_instr *instr,
                           int leaf);

#endif
