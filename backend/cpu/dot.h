/* Dots and convolutions as products: the rows of lowering.c's table for them, and what they
 * share. */
#ifndef BACKEND_CPU_DOT_H
#define BACKEND_CPU_DOT_H

#include "backend/cpu/gen.h"
#include "backend/cpu/matmul.h"

enum { PRODUCT_VIEW_PARTS = 32 };

/* An operand of a product as it lies in memory: each of its dimensions d is made of the parts
 * first[d] to first[d + 1], outermost first, each with its own stride in elements. */
struct product_view {
    const struct hlo_instr *base; /* has memory: a parameter of the fusion, or the operand */
    int nparts;
    struct product_part {
        int64_t size, stride;
    } parts[PRODUCT_VIEW_PARTS];
    int first[SHAPE_MAX_RANK + 1];
    int64_t offset; /* elements from the base's first to the operand's */
    /* A dimension whose parts hold more than the operand's `cut` elements; -1: there is none. */
    int cut_dim;
    int64_t cut;
};

/* The dot or convolution that the instruction is, or that its fusion is built around; NULL. */
const struct hlo_instr *product_hero(const struct hlo_instr *instr);
/* False where the operand is no plain view of something in memory. */
bool product_view_of(const struct hlo_instr *instr, const struct hlo_instr *hero, int operand,
                     struct product_view *view);
/* Whether the element type of the view's memory may be read in place of the operand's. */
bool product_reads_alike(const struct product_view *view, const struct hlo_instr *operand);

/* One stride for each dimension; false where one has parts that do not continue each other. */
bool product_view_strides(const struct product_view *view, int rank, int64_t *strides);
/* Appends a dimension, unless its size is 1; false where there are too many. */
bool product_add_dim(struct product_dims *dims, struct product_dim dim);
/* Appends a dimension of A, of B or of both (NULL: not of this one), in the parts that both are
 * made of; c is its stride in C. False where they have no common parts. */
bool product_add_dims(struct product_dims *dims, const struct product_view *a, int a_dim,
                      const struct product_view *b, int b_dim, int64_t c);

/* Stores what the fusion makes of the hero's elements. */
struct product_epilogue {
    struct cpu_gen *g;
    struct cpu_kernel *k;
    const struct hlo_instr *hero;
    enum element_type type; /* of the sums */
};
bool product_has_epilogue(const struct hlo_instr *instr);
/* Tells the product which arrays the epilogue goes through along with the hero's elements: results,
 * and parameters other than the views' bases, of as many elements of the same size. */
void product_epilogue_touch(const struct product_epilogue *e, const struct product_view *a,
                            const struct product_view *b, struct product_code *code);
/* Takes the sum at an index of the hero, in register form, as a sum of e->type. */
void product_epilogue_store(struct product_epilogue *e, LLVMValueRef sum,
                            const LLVMValueRef *index);

/* The product that the hero of the instruction is, as if its second operand lay row-major in
 * memory. False where it has no such form. */
bool product_spec_of(const struct hlo_instr *instr, const struct hlo_instr *hero,
                     const struct cpu_target *target, struct product_spec *spec);

bool dot_match(const struct hlo_instr *instr);
void dot_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units, int64_t *scratch);
void dot_emit(struct cpu_gen *g, struct cpu_kernel *k);

bool conv_match(const struct hlo_instr *instr);
void conv_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units, int64_t *scratch);
void conv_emit(struct cpu_gen *g, struct cpu_kernel *k);

#endif
