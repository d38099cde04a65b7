/* What the emitters of convolutions share. Private to them. */
#ifndef BACKEND_CPU_CONV_H
#define BACKEND_CPU_CONV_H

#include "backend/cpu/dot.h"

/* A convolution with its numbers at hand. */
struct conv {
    const struct hlo_instr *instr, *hero;
    const struct dim_labels *labels;
    const struct window *window;
    struct product_view input, kernel;
    const struct shape *in, *out, *weights;
    int64_t a[SHAPE_MAX_RANK], b[SHAPE_MAX_RANK], c[SHAPE_MAX_RANK]; /* strides */
    int64_t groups, batch_groups;
    bool in_parts;           /* the kernel's output features have no one stride */
    int64_t batch, features; /* of one group: input batch, input features */
    int64_t outputs;         /* output features of one group */
    /* The spatial dimensions of a phase (conv_take_phase): the window, and which positions of the
     * result: `first`, and every `step`-th from there, `count` of them. b_first is the kernel's
     * element for the window's first place. */
    struct window_dim dims[STAGE_MAX_RANK];
    int64_t first[STAGE_MAX_RANK], step[STAGE_MAX_RANK], count[STAGE_MAX_RANK], b_first;
    int64_t folded[STAGE_MAX_RANK]; /* phases that are columns of the product, or 0 */
    struct product_spec spec;
    /* Dimension of the result that each of spec.batch, m and n is, or part of which it is. */
    int batch_dim[PRODUCT_MAX_DIMS], m_dim[PRODUCT_MAX_DIMS], n_dim[PRODUCT_MAX_DIMS];
};

/* False where the instruction is no convolution, or its operands do not lie well in memory. */
bool conv_read(const struct hlo_instr *instr, struct conv *conv);

/* The convolution as a product, as if its kernel lay row-major in memory; false where it is not
 * one. */
bool conv_spec_of(const struct hlo_instr *instr, const struct cpu_target *target,
                  struct product_spec *spec);

/* A dilated input is zeros for the most part, but for the positions of the result that are as far
 * apart as its elements, the products with elements are an ordinary convolution with some of the
 * kernel: a phase. How many there are; 1 where the convolution stays whole. */
int64_t conv_phases(const struct conv *conv);
/* Makes of a convolution as read the phase of that number. Where the windows of a dilated input do
 * not overlap (the gradient of a convolution with a stride of its window's size), all phases meet
 * the same element of the input, each with its own of the kernel: they are more columns of one
 * product instead. */
void conv_take_phase(struct conv *conv, int64_t number);

/* One input feature and one output feature a group: vectors of channels (conv_depthwise.c). */
bool depthwise_match(const struct hlo_instr *instr);
int64_t depthwise_units(const struct hlo_instr *instr);
int64_t depthwise_scratch(const struct hlo_instr *instr);
void depthwise_emit(struct cpu_gen *g, struct cpu_kernel *k);

#endif
