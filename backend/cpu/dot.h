/* Dots and convolutions as products: the rows of lowering.c's table for them, and what they
 * share. */
#ifndef BACKEND_CPU_DOT_H
#define BACKEND_CPU_DOT_H

#include "backend/cpu/gen.h"
#include "backend/cpu/matmul.h"

/* An operand of a product as it lies in memory. */
struct product_view {
    const struct hlo_instr *base;    /* has memory: a parameter of the fusion, or the operand */
    int64_t strides[SHAPE_MAX_RANK]; /* elements, by dimension of the operand */
};

/* The dot or convolution that the instruction is, or that its fusion is built around; NULL. */
const struct hlo_instr *product_hero(const struct hlo_instr *instr);
/* False where the operand is no plain view of something in memory. */
bool product_view_of(const struct hlo_instr *instr, const struct hlo_instr *hero, int operand,
                     struct product_view *view);
/* Whether the element type of the view's memory may be read in place of the operand's. */
bool product_reads_alike(const struct product_view *view, const struct hlo_instr *operand);

/* Strides of a dense row-major array, in elements. */
void product_row_major(const struct shape *shape, int64_t *strides);
/* Appends a dimension, unless its size is 1; false where there are too many. */
bool product_add_dim(struct product_dims *dims, struct product_dim dim);

/* Stores what the fusion makes of the hero's elements. */
struct product_epilogue {
    struct cpu_gen *g;
    struct cpu_kernel *k;
    const struct hlo_instr *hero;
    enum element_type type; /* of the sums */
};
bool product_has_epilogue(const struct hlo_instr *instr);
/* Takes the sum at an index of the hero, in register form, as a sum of e->type. */
void product_epilogue_store(struct product_epilogue *e, LLVMValueRef sum,
                            const LLVMValueRef *index);

bool dot_match(const struct hlo_instr *instr);
void dot_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units, int64_t *scratch);
void dot_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool conv_match(const struct hlo_instr *instr);
void conv_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units, int64_t *scratch);
void conv_emit(struct cpu_gen *g, struct cpu_kernel *k);

#endif
