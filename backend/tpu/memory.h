/* Where every value of a program lies, on padded sizes: parameters, results and constants in HBM,
 * others in VMEM where they fit; and, where HBM does not do, a report of what takes the space and
 * what would help. Nothing of the program's size is allocated. */
#ifndef BACKEND_TPU_MEMORY_H
#define BACKEND_TPU_MEMORY_H

#include "backend/tpu/layout.h"
#include "passes/buffer_assignment.h"
#include "runtime/tpu/chip.h"

struct tpu_memory {
    const struct buffer_assignment *buffers;
    int64_t *base;                                 /* by buffer id: byte address in HBM; -1: none */
    int64_t *vmem;                                 /* by buffer id: first row in VMEM; -1: none */
    int64_t vmem_rows;                             /* that values take at most */
    int vmem_guard;                                /* rows around each that loads may touch */
    int64_t vmem_bytes;                            /* of all values that live there */
    int64_t *top;                                  /* by position: rows that values may lie in */
    int *position;                                 /* by instruction id; -1: none */
    int peak;                                      /* where most of HBM is in use */
    int64_t inputs, outputs, constants, temporary; /* bytes, padded */
    int64_t total;                                 /* end of the last buffer */
};

/* In `arena`. The module has been through the target's passes. `vmem_rows`: of VMEM in all, half of
 * which values may take; 0: they all are in HBM. NULL with errors in diag where a size is out of
 * range. */
const struct tpu_memory *tpu_memory_plan(struct arena *arena, struct hlo_module *module,
                                         int64_t vmem_rows, struct diag *diag);
/* False with the "Resource exhausted" report in diag where the plan is larger than the chip's HBM.
 */
bool tpu_memory_fits(const struct tpu_memory *memory, const struct tpu_chip *chip,
                     const struct hlo_module *module, struct diag *diag);
/* First row of VMEM where the leaf of an instruction's result lives; -1 where it does not. */
int64_t tpu_memory_row(const struct tpu_memory *memory, const struct hlo_instr *instr, int leaf);
/* Rows from 0 up that values take while the instruction runs. */
int64_t tpu_memory_top(const struct tpu_memory *memory, const struct hlo_instr *instr);
/* Byte address in HBM of a leaf of an instruction's result; -1 where it has none. */
int64_t tpu_memory_address(const struct tpu_memory *memory, const struct hlo_instr *instr,
                           int leaf);

/* lower_update.c: whether a dynamic-update-slice is a DMA, which may leave the rest of its operand
 * where it is. */
bool lower_updates_in_place(const struct hlo_instr *instr);

#endif
