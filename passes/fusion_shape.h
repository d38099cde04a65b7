/* The kinds of fused computations: what a backend needs one kind of kernel for. The fusion pass
 * forms nothing else, and a backend asks here which one it has.
 *
 * Indices are row-major throughout: layouts do not count. A value is *composed* where its element
 * at any index is computed from elements of its operands (elementwise operations, broadcast,
 * reshape, transpose, slice, pad, concatenate, iota, gather, dynamic-slice, reverse, ...). */
#ifndef PASSES_FUSION_SHAPE_H
#define PASSES_FUSION_SHAPE_H

#include "ir/hlo.h"

enum fusion_shape {
    FUSION_SHAPE_NONE, /* none of these: lower it instruction by instruction */
    /* Every instruction is composed. All outputs have the same dims. */
    FUSION_SHAPE_LOOP,
    /* One or more reduces (variadic ones too) with equal operand dims and equal reduced dims, any
     * dims, over composed operands; then composed-in-place work on their results (level ROW).
     * Every output has level ROW. */
    FUSION_SHAPE_REDUCE,
    /* Reduces over trailing dims, each of `rows` rows of `columns` elements, over composed values
     * or values that depend on earlier reduces (broadcast back along the row); outputs have level
     * FULL (rows * columns elements), ROW (rows elements) or FREE with rows * columns elements. */
    FUSION_SHAPE_ROWS,
    /* One dot or convolution, whose operands are parameters, possibly through bitcast, reshape,
     * transpose, slice, convert, broadcast, copy; and elementwise work at its result's own index.
     * Every output has level FULL. */
    FUSION_SHAPE_PRODUCT,
    /* Every output is a dynamic-update-slice of a parameter that nothing else in the fusion reads
     * (or is read by a dynamic-slice of just the elements that are replaced, at the same start),
     * with composed updates and starts: in place where the parameter's memory is the output's. */
    FUSION_SHAPE_UPDATE,
};

/* Where an instruction of a fused computation is computed. */
enum fusion_level {
    FUSION_LEVEL_FREE, /* composed of parameters and constants alone, at any index */
    /* ROWS: element (row, column) has the linear index row * columns + column in the result, which
     * may have other dims than the hero's operand (a reshape). PRODUCT: the linear index is that of
     * the product's result. */
    FUSION_LEVEL_FULL,
    /* REDUCE, ROWS: a reduce, or elementwise work on such. The linear index is the row's: that of
     * the reduce's result. */
    FUSION_LEVEL_ROW,
    FUSION_LEVEL_UPDATE, /* a dynamic-update-slice */
};

struct fusion_info {
    enum fusion_shape shape;
    /* The elements of the root tuple, or the root. All are arrays. An output may be a parameter or
     * get-tuple-element of a variadic reduce. */
    int noutputs;
    struct hlo_instr *const *outputs;
    /* LOOP: output 0. REDUCE, ROWS: the first reduce. PRODUCT: the dot or convolution. UPDATE: the
     * first dynamic-update-slice. */
    const struct hlo_instr *hero;
    int64_t rows, columns; /* REDUCE, ROWS: results of a reduce, and elements that go into one */
    int row_dims;          /* ROWS: leading dims of the hero's operand that are not reduced */
    int nlevels;
    struct fusion_instr_level *levels; /* for fusion_level_of */
    bool sorted;                       /* levels are in the order of ids, not that of the members */
};

struct fusion_instr_level {
    int id;
    enum fusion_level level;
};

/* In `arena`; linear in the computation but for a sort. */
const struct fusion_info *fusion_analyse(struct arena *arena, const struct hlo_computation *fused);
/* The same for instructions that are not in a computation of their own (yet): members in an order
 * in which operands come first; what is no member comes in from outside. Changes their marks. */
const struct fusion_info *fusion_analyse_members(struct arena *arena, int count,
                                                 struct hlo_instr *const *members, int noutputs,
                                                 struct hlo_instr *const *outputs);
/* After fusion_analyse_members only as long as the marks are as it left them. */
enum fusion_level fusion_level_of(const struct fusion_info *info, const struct hlo_instr *instr);
enum fusion_shape fusion_shape(const struct hlo_computation *fused);
const char *fusion_shape_name(enum fusion_shape shape);

/* An element of the result can be computed from elements of the operands. */
bool instr_is_composed(const struct hlo_instr *instr);
/* The linear index of a result's element is that of the operands' elements it is computed from:
 * elementwise, reshape, copy, and broadcasts that add dims of size 1. */
bool instr_keeps_index(const struct hlo_instr *instr);
/* A broadcast whose operand's linear index is the result's divided by `columns`. */
bool instr_spreads_rows(const struct hlo_instr *instr, int64_t columns);
/* The reduced dims come last (dims of size 1 aside). */
bool reduce_is_trailing(const struct hlo_instr *reduce);
/* A dot with two operands, or a convolution. */
bool instr_is_product(const struct hlo_instr *instr);

#endif
