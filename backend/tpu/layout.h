/* How an array lies in HBM and VMEM: in tiles of (rows, 128 lanes) over its two minor dimensions,
 * as XLA prints them for these machines. Memory is counted in rows of 512 bytes, 128 lanes of 32
 * bits; types narrower than 32 bits pack 2 or 4 neighbouring rows of elements into one, T(8,128)
 * (2,1) and T(32,128)(4,1). 64-bit and complex types are two planes of 32 bits, one after the
 * other. Elements between the array's edge and the tile's are padding: they hold anything.
 *
 * Where the row dimension is short, tiles are smaller (1, 2 or 4 rows). An array of rank 1 counts
 * as rows of 128 elements, T(128) to T(1024), and a scalar as one row. */
#ifndef BACKEND_TPU_LAYOUT_H
#define BACKEND_TPU_LAYOUT_H

#include "ir/shape.h"
#include "runtime/tpu/isa.h"

/* Of sizes, which are not negative; any size can be divided. */
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}
static inline int64_t round_up(int64_t size, int64_t to) {
    return ceil_div(size, to) * to;
}

struct tpu_layout {
    enum element_type type;
    int rank;
    const int64_t *dims;       /* the shape's */
    int order[SHAPE_MAX_RANK]; /* order[i]: the dimension that is i-th from minor */
    int planes;                /* 32-bit (or narrower) parts of an element: 1 or 2 */
    int packing;               /* elements in a 32-bit lane: 1, 2 or 4 */
    int tile_rows;             /* rows of elements in a tile */
    int64_t rows;              /* size of the row dimension; of rank 1, ceil(elements / 128) */
    int64_t lanes;             /* size of the lane dimension; of rank 1, at most 128 */
    int64_t row_tiles, lane_tiles;
    int64_t majors;      /* product of the other dimensions */
    int64_t memory_rows; /* of 512 bytes, one plane; 0 where the array has no elements */
    int64_t bytes;       /* padded, all planes */
};

/* False for types that have no place in this machine (f64, c128). */
bool tpu_type_has_layout(enum element_type type);
/* The layout with the shape's own minor_to_major. False where the type has none or the padded size
 * does not fit in 62 bits. The shape must live as long as the layout. */
bool tpu_layout_of(struct tpu_layout *layout, const struct shape *shape);
/* The same with another order of dimensions. */
bool tpu_layout_with_order(struct tpu_layout *layout, const struct shape *shape, const int *order);
/* The order with the least padding, the shape's own where it is as good. */
bool tpu_layout_best(struct tpu_layout *layout, const struct shape *shape);
/* Bytes of the elements alone, as many bits an element as packing gives it. */
int64_t tpu_layout_unpadded_bytes(const struct tpu_layout *layout);
/* Whether b may be another name for the memory of an array a: elements of equal numbers lie at
 * equal places, and b is no larger. `strides`: what a step in each dimension adds to an element's
 * number; NULL: row-major order. So a reshape between these layouts moves nothing, nor does a
 * transpose, with its operand's strides in the order of the result. */
bool tpu_layout_same_places(const struct tpu_layout *a, const int64_t *a_strides,
                            const struct tpu_layout *b, const int64_t *b_strides);
/* "f32[16,64]{1,0:T(8,128)}"; arena memory. */
char *tpu_layout_text(struct arena *arena, const struct tpu_layout *layout);

/* Row of memory, and the element's place in its lane (0 to packing - 1), at which element row `row`
 * of lane tile `lane_tile` lies, in the plane's `major`-th two-dimensional part. */
int64_t tpu_layout_row(const struct tpu_layout *layout, int64_t major, int64_t row,
                       int64_t lane_tile);
int tpu_layout_part(const struct tpu_layout *layout, int64_t row);
/* Copies between a dense row-major array (literal.h) and its tiled image of layout->bytes; what is
 * padding is written as zeros by `store` and skipped by `load`. */
void tpu_layout_store(const struct tpu_layout *layout, const void *dense, void *image);
void tpu_layout_load(const struct tpu_layout *layout, const void *image, void *dense);

#endif
