/* What the parts of the product emitter share. Private to them. */
#ifndef BACKEND_CPU_MATMUL_INTERNAL_H
#define BACKEND_CPU_MATMUL_INTERNAL_H

#include "backend/cpu/matmul.h"
#include "backend/cpu/matmul_kernel.h"

enum product_operand { PRODUCT_A, PRODUCT_B, PRODUCT_C };

static inline int64_t product_stride(const struct product_dim *dim, enum product_operand operand) {
    return operand == PRODUCT_A ? dim->a : operand == PRODUCT_B ? dim->b : dim->c;
}

int64_t product_dims_size(const struct product_dims *dims);
bool product_dims_linear(const struct product_dims *dims, enum product_operand operand,
                         int64_t *step);

/* Byte offsets of the parts of the scratch memory. */
struct product_scratch {
    int64_t b, a, sums, rows, columns, stage, total;
};
void product_layout(const struct product_plan *plan, struct product_scratch *scratch);

int64_t product_k_rows(const struct product_plan *plan); /* of k in one block */
int64_t product_a_row(const struct product_plan *plan);  /* elements of a row of packed A */
int64_t product_m_rows(const struct product_plan *plan); /* of a unit, in whole tiles */
int64_t product_m_blocks(const struct product_plan *plan);
int64_t product_last_rows(const struct product_plan *plan); /* of the last unit */
int64_t product_n_blocks(const struct product_plan *plan);

/* What is known while a product is emitted. Offsets are in bytes. */
struct product {
    struct cpu_builder *b;
    const struct cpu_target *target;
    const struct product_plan *p;
    const struct product_code *code;
    struct matmul_tile tile;
    int columns;                    /* of a tile */
    int64_t size;                   /* of a sum */
    int64_t a_size, b_size, c_size; /* of elements */
    int64_t b_row;                  /* bytes from a row of B to the next, as the kernel reads it */
    int64_t a_unit;                 /* of the elements that the strides of A count at the moment */
    int64_t depth, n_blocks, m_blocks;
    bool direct; /* whole tiles go from registers to C */
    bool c_linear;
    int64_t c_m, c_n; /* steps in C where it is linear */
    LLVMValueRef b_pack, a_pack, sums, rows, cols, temp, stage;
    LLVMValueRef a_taps, b_taps, one_tap, a_table, zeros;
    /* of the unit at hand */
    LLVMValueRef batch, m0, n0, n_left, m_left, a, bb, c, fresh_b;
};

/* Byte offset in an operand of place `at` of dims. */
LLVMValueRef product_offset(struct product *q, const struct product_dims *dims,
                            enum product_operand operand, LLVMValueRef at);
/* Fills in what belongs to a unit. */
void product_place_unit(struct product *q, LLVMValueRef unit, LLVMValueRef *m_block);
/* Hands on the sum at `from`; add (or NULL): adds what C has so far. */
void product_finish_element(struct product *q, LLVMValueRef from, LLVMValueRef add, LLVMValueRef m,
                            LLVMValueRef n);

/* False where the product is not a few rows times a matrix that lies well (matmul_vector.c). */
bool product_plan_vector(struct product_plan *plan, const struct cpu_target *target);
void product_emit_vector(struct product *q);

/* False where the product is large, or there are few like it (matmul_small.c). */
bool product_plan_small(struct product_plan *plan, const struct cpu_target *target);
void product_emit_small(struct product *q);

/* False where the product has many columns, or A no runs along k (matmul_few.c). Fills in the
 * method, rows and lanes. */
bool product_plan_few(struct product_plan *plan, const struct cpu_target *target);
/* The unit at hand; taps: the table of offsets of k's runs. */
void product_emit_few(struct product *q, LLVMValueRef taps);

/* The lanes of a vector added up. */
LLVMValueRef product_sum_of_lanes(struct cpu_builder *b, LLVMValueRef x, int lanes);

/* Copies the part of A that a unit or a block of k needs: that of `band`, of the image at source
 * (conv_stage.c). */
void product_emit_stage(struct product *q, LLVMValueRef source, LLVMValueRef band);
int64_t product_stage_elements(const struct product_stage *stage);
/* Blocks of k that one image is cut to. */
static inline int64_t product_stage_bands(const struct product_stage *stage) {
    return (stage->count + stage->band - 1) / stage->band;
}

#endif
