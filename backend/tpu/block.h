/* Kernels that go over an index space block by block: what they compute, and how the space is cut.
 *
 * The space is that of the largest values: its levels, outermost first, are the major dimensions,
 * the groups of 8 rows and the lane tiles. A kernel folds some levels (its reduces) and keeps the
 * others; a *unit* is one place of the kept levels: values of level ROW have one register a unit,
 * values of level FULL one a tile. Reduces that depend on others come in a later phase, and run
 * over the unit's tiles again. */
#ifndef BACKEND_TPU_BLOCK_H
#define BACKEND_TPU_BLOCK_H

#include "backend/tpu/fold.h"
#include "backend/tpu/lower.h"

enum {
    BLOCK_MOST_ARRAYS = 32,
    BLOCK_MOST_REDUCES = 12,
    BLOCK_MOST_LEVELS = SHAPE_MAX_RANK + 2,
    BLOCK_MOST_SPREADS = 16,
};

enum block_level {
    BLOCK_FREE, /* of no level: parameters, constants, what is computed from them alone */
    BLOCK_FULL,
    BLOCK_ROW,
};

struct level {
    int dim; /* of the shape; of groups and lane tiles the row and lane dimensions; -1: none */
    int64_t count;
    bool folded;
};

struct block_array {
    const struct hlo_instr *instr; /* an operand of the kernel, or a result inside of it */
    int leaf;                      /* of the operand; of the kernel's result */
    int inner_leaf;                /* of a result: the leaf of `instr` */
    struct tarray array;           /* where it lives */
    enum block_level level;
    bool streams;  /* passes through buffers, block by block; else it is in VMEM as a whole */
    int64_t step;  /* rows of memory (of a plane) from one place of the split level to the next */
    int64_t outer; /* ... from one place of all levels above to the next */
    int64_t rows;  /* of a buffer, a plane */
    int64_t at;    /* VMEM: two buffers of all planes */
    treg shift;    /* a variable, to be added to rows of the array; 0: there is one block */
    struct tarray view; /* of a result: where its tiles are stored */
};

struct block_plan {
    const struct hlo_instr *kernel;
    const struct hlo_computation *body; /* of a fusion, or NULL */
    const struct shape *shape;          /* the space */
    struct tpu_layout layout;
    struct level level[BLOCK_MOST_LEVELS];
    int nlevels;
    struct fold folds[BLOCK_MOST_REDUCES];
    int phase[BLOCK_MOST_REDUCES]; /* of each fold */
    int nfolds, phases;
    struct block_array in[BLOCK_MOST_ARRAYS], out[BLOCK_MOST_ARRAYS];
    int nin, nout;
    /* Broadcasts along folded dimensions: their operands are one value a unit, found in the phase
     * that they are wanted in first. */
    const struct hlo_instr *spreads[BLOCK_MOST_SPREADS];
    int spread_phase[BLOCK_MOST_SPREADS];
    int nspreads;
    /* The cut: blocks of `chunk` places of level `split`, of all levels within and of one place of
     * those above. */
    int split;
    int64_t chunk, chunks, blocks;
    bool spans; /* a unit goes over several blocks: accumulators wait in VMEM */
};

/* What the instruction (one that computes, or a fusion) is; false where it is none of these
 * kernels. Arrays are found in the memory plan. */
bool block_find(struct block_plan *plan, struct lower *lower, const struct hlo_instr *instr);
/* The cut where `rows` rows of VMEM are for buffers and `whole` of the largest array may be in one
 * block; false where not even the smallest blocks fit. */
bool block_cut(struct block_plan *plan, int64_t rows);
bool block_folds_groups(const struct block_plan *plan);
bool block_folds_lanes(const struct block_plan *plan);

#endif
