/* How a reduction, with all that is fused to it, is computed row by row: a loop along the row for
 * each stage of reduces that depend on earlier ones, and a last one for the outputs. */
#ifndef BACKEND_CPU_ROW_PLAN_H
#define BACKEND_CPU_ROW_PLAN_H

#include "passes/fusion_shape.h"

enum { ROW_MOST_STAGES = 60, ROW_BLOCK = 64 };

struct row_step {
    const struct hlo_instr *instr;
    int stage;       /* reduces before it, in a chain; a reduce counts itself */
    int cost;        /* of computing an element anew */
    uint64_t wanted; /* loops along the row that need it */
    bool spill;      /* kept in scratch, at offset, from the first of those loops on */
    int first;
    int64_t offset;
};

struct row_plan {
    const struct hlo_computation *fused; /* NULL: a reduce by itself */
    const struct fusion_info *info;      /* of fused */
    const struct hlo_instr *hero;
    bool trailing; /* the reduced dims are the last ones */
    int64_t rows, columns;
    int64_t period; /* columns that a loop goes over at a time: those of the last dim, or all */
    /* Where it is not trailing: this dim and those after it are as one, of so many places, that
     * have a sum each in a block of columns. */
    int kept_dim;
    int64_t kept;
    int64_t added; /* the last of them are reduced, too: rows that are left of them; else 0 */
    int nstages, nsteps;
    struct row_step *steps; /* in order */
    int64_t block;          /* rows side by side, which share scratch: ROW_BLOCK, or 1 */
    int64_t scratch;        /* bytes a thread */
};

/* In `arena`. NULL where the instruction is not of this kind. */
const struct row_plan *row_plan_new(struct arena *arena, const struct hlo_instr *instr);

#endif
