/* Arrays as kernels see them: elements at computed indices become vector registers, and registers
 * become tiles of an array. */
#ifndef BACKEND_TPU_FETCH_H
#define BACKEND_TPU_FETCH_H

#include "backend/tpu/kernel.h"
#include "backend/tpu/layout.h"

/* One element of each of the 1024 places, as a 32-bit number in each plane: integers extended to 32
 * bits, pred as 0 or 1, floats of up to 16 bits as f32; s64, u64 as (low, high), c64 as (real,
 * imaginary). */
struct tval {
    treg v[2];
};

/* An array in VMEM, or in HBM. */
struct tarray {
    struct tpu_layout layout;
    bool in_vmem;
    int64_t row;  /* of VMEM: first row of 512 bytes */
    int64_t word; /* of HBM: address in 32-bit words */
    int tag;      /* of its VMEM rows */
    int guard;    /* rows around it in VMEM that loads may touch; 0: the fetcher's */
    /* Where VMEM holds a part of it only: a scalar to be added to rows, and rows from one plane to
     * the next. 0: nothing, and as many as the array has. */
    treg shift;
    int64_t plane_rows;
};

/* What fetches need besides the array: where a row of HBM may pass through VMEM. */
struct fetcher {
    struct kernel *k;
    int64_t guard_rows;  /* around arrays in VMEM: loads may touch them */
    int64_t scratch_row; /* 8 rows */
    int scratch_tag;
    int64_t turn_row; /* 128 rows, for squares that are transposed */
    int turn_tag;
    int64_t dma_word; /* SMEM: a descriptor */
    int flag;
};

/* Elements at `index` (one a dimension). Only places where `active` (a mask; 0: all) is on need be
 * right; elsewhere the index may be out of range, and anything may come. */
struct tval fetch(struct fetcher *f, const struct tarray *array, const struct ix *index,
                  treg active);

/* The places of an array that one register holds: tile by tile, rows of 8. */
struct ttile {
    struct ix index[SHAPE_MAX_RANK];
    struct sx major, group, lane_tile; /* group: of 8 rows */
};

struct tile_loops {
    struct loop loops[SHAPE_MAX_RANK + 2];
    int count;
};

/* Loops over all tiles of a layout that has elements. */
void tiles_begin(struct kernel *k, const struct tpu_layout *layout, struct tile_loops *loops,
                 struct ttile *tile);
void tiles_end(struct kernel *k, struct tile_loops *loops);
/* The same as a function for each tile; up to `side` tiles follow each other without a branch. */
typedef void tile_step(void *user, const struct ttile *tile);
void tiles_each(struct kernel *k, const struct tpu_layout *layout, int side, tile_step *step,
                void *user);
/* Mask of the elements within the array; 0: all. */
treg tile_valid(struct kernel *k, const struct tpu_layout *layout, const struct ttile *tile);
/* Writes the tile, padding included, to an array of the dimensions and order that the loops are
 * over; packing may differ. */
void tile_store(struct fetcher *f, const struct tarray *array, const struct ttile *tile,
                struct tval value);
/* One row of memory of an array: the elements at `index`, scalars but for the lane
 * dimension, which is a multiple of 128 + lane or a scalar too. Written where `mask` is on and,
 * where the lane is a scalar, in that lane. */
void row_store(struct fetcher *f, const struct tarray *array, const struct ix *index, treg mask,
               struct tval value);
/* The elements of a tile of 8 rows out of its rows of memory, and back (with the mask of the
 * sublanes to store). */
treg tile_unpack(struct kernel *k, const struct tpu_layout *layout, treg raw);
treg tile_pack(struct kernel *k, const struct tpu_layout *layout, treg value, treg *mask);
/* Bytes of a stored element as the register's number, and back. */
treg narrow_to_bits(struct kernel *k, enum element_type type, treg value);
treg bits_to_value(struct kernel *k, enum element_type type, treg bits);

#endif
