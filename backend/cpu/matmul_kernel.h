/* The innermost code of products: a tile of C in registers. Private to the product emitters. */
#ifndef BACKEND_CPU_MATMUL_KERNEL_H
#define BACKEND_CPU_MATMUL_KERNEL_H

#include "backend/cpu/matmul_ir.h"
#include "backend/cpu/target_data.h"

/* A kernel multiplies `rows` rows of A with a panel of B, `vectors` vectors wide. */
struct matmul_tile {
    enum element_type type; /* of A, B and the sums: f32, f64, s32 or s64 */
    int rows, vectors;
    int lanes; /* elements in a vector */
    /* Else than TYPE_INVALID: an element of A or B is two of this type, the product the sum of
     * two; s16 and s32 sums, or bf16 and f32. */
    enum element_type pair;
    enum cpu_pairs how_pairs;
};

/* The tile shape that wastes least on a product of m by n. */
struct matmul_tile matmul_tile_choose(const struct cpu_target *target, enum element_type type,
                                      int64_t m, int64_t n);

/* How many tiles at the end of `last` rows had better have fewer rows than the tile, namely
 * *low_rows, so that all fit exactly; 0 where that gains little for m rows in all. */
int64_t matmul_low_tiles(const struct matmul_tile *tile, int64_t last, int64_t m, int *low_rows);

/* What a kernel does besides. */
enum matmul_extras {
    /* Every MATMUL_KERNEL_STEPS steps of k (at most) MATMUL_KERNEL_LINES lines are asked for: that
     * at next, which then goes on by next_step, and so on; any address will do. */
    MATMUL_AHEAD = 1,
    /* The rows of B are written to `to` as well, one after the other; where they lie as a narrower
     * type, they are converted on the way. */
    MATMUL_PACKS = 2,
    MATMUL_PACKS_BF16 = 4,
    MATMUL_PACKS_F16 = 6,
};

/* The type of B in a kernel that packs. */
static inline enum element_type matmul_packs_from(enum matmul_extras extras,
                                                  const struct matmul_tile *tile) {
    enum matmul_extras how = extras & ~MATMUL_AHEAD;
    return how == MATMUL_PACKS_BF16 ? TYPE_BF16 : how == MATMUL_PACKS_F16 ? TYPE_F16 : tile->type;
}

/* The module's function for the tile, made at the first request:
 *     void kernel(ptr rows, ptr a, i64 a_step, ptr taps, i64 ntaps, i64 run,
 *                 ptr b, i64 b_row, ptr c, i64 c_row, ptr from, i64 from_row,
 *                 ptr next, i64 next_step, ptr to)
 * C[i][j] = from[i][j] + sum over t < ntaps, k < run of A(i, t, k) * B[t * run + k][j] where A(i,
 * t, k) is at a + rows[i] + taps[t] + k * a_step, row k of B is vectors * lanes elements at b + k *
 * b_row, and row i of C at c + i * c_row. rows and taps are arrays of i64; all these are in bytes.
 * ntaps and run are at least 1. */
LLVMValueRef matmul_kernel_emit(struct cpu_builder *b, const struct cpu_target *target,
                                const struct matmul_tile *tile, enum matmul_extras extras);
/* The same, or a pointer to one of the runtime's (cpu_target.kernels), for ir_call. */
LLVMValueRef matmul_kernel(struct cpu_builder *b, const struct cpu_target *target,
                           const struct matmul_tile *tile, enum matmul_extras extras);
enum { MATMUL_KERNEL_ARGUMENTS = 15, MATMUL_KERNEL_STEPS = 16, MATMUL_KERNEL_LINES = 2 };

enum {
    MATMUL_MOST_ROWS = 12,
    MATMUL_MOST_VECTORS = 6,
    MATMUL_EXTRAS = 8, /* sets of matmul_extras */
    MATMUL_KERNELS = MATMUL_MOST_ROWS * MATMUL_MOST_VECTORS * MATMUL_EXTRAS,
};

/* Whether the sums and a row of B are in registers. */
bool matmul_tile_fits(const struct cpu_target *target, const struct matmul_tile *tile);

/* A kernel's place in the runtime's table of those of f32. */
static inline int matmul_kernel_number(const struct matmul_tile *tile, int extras) {
    return ((tile->vectors - 1) * MATMUL_MOST_ROWS + tile->rows - 1) * MATMUL_EXTRAS + extras;
}

static inline int matmul_tile_columns(const struct matmul_tile *tile) {
    return tile->vectors * tile->lanes;
}

/* A hint that the line of MATMUL_LINE bytes at an address will be needed, and in which cache. */
enum matmul_near { MATMUL_NEAR_L2 = 2, MATMUL_NEAR_L1 = 3 };
enum { MATMUL_LINE = 64 };
void matmul_prefetch(struct cpu_builder *b, LLVMValueRef at, bool to_write, enum matmul_near near);

/* x * y + sum */
LLVMValueRef matmul_multiply_add(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y,
                                 LLVMValueRef sum);
LLVMTypeRef matmul_vector_type(struct cpu_builder *b, enum element_type type, int lanes);
LLVMValueRef matmul_splat(struct cpu_builder *b, LLVMValueRef x, int lanes);
/* Lets a function use the widest vectors. */
void matmul_mark_wide(struct cpu_builder *b, const struct cpu_target *target,
                      LLVMValueRef function);

#endif
