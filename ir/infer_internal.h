/* What the files of shape inference share. A function of the table gets an instruction whose
 * operand count, required attributes and called computations were checked, and whose operands all
 * have shapes; it gives the result shape, or NULL with an error in diag. */
#ifndef IR_INFER_INTERNAL_H
#define IR_INFER_INTERNAL_H

#include "ir/verify.h"

typedef const struct shape *infer_function(struct hlo_instr *instr, struct diag *diag);

/* Reports and gives NULL. */
#define INFER_FAIL(instr, diag, ...) (diag_instr_error(diag, instr, __VA_ARGS__), NULL)

static inline const struct shape *infer_operand(const struct hlo_instr *instr, int index) {
    return instr->operands[index]->shape;
}

struct shape_table *infer_table(const struct hlo_instr *instr);
/* The shape as text for a message, without layouts. */
const char *infer_text(const struct hlo_instr *instr, const struct shape *shape);
/* Same type, rank and bounds all through; layouts and dynamic marks are not looked at. */
bool infer_same(const struct shape *a, const struct shape *b);
/* Arrays of the same rank and bounds. */
bool infer_same_dims(const struct shape *a, const struct shape *b);
/* A new array shape, or an error where its size is out of range. */
const struct shape *infer_array(struct hlo_instr *instr, struct diag *diag, enum element_type type,
                                int rank, const int64_t *dims);
const struct shape *infer_tuple(struct hlo_instr *instr, struct diag *diag, int count,
                                const struct shape *const *elements);
/* The written shape, which must be there. */
const struct shape *infer_written(struct hlo_instr *instr, struct diag *diag);
/* The operand as an array, else an error. */
const struct shape *infer_array_operand(struct hlo_instr *instr, struct diag *diag, int index);
/* Whether all values of `dims` are in 0..rank-1 and none repeats. */
bool infer_check_dims(struct hlo_instr *instr, struct diag *diag, const char *what,
                      struct int_list dims, int rank);
/* Whether called computation `index` takes exactly these parameters (NULL: any shape each). */
bool infer_check_called(struct hlo_instr *instr, struct diag *diag, int index, int count,
                        const struct shape *const *parameters);
/* Shapes of the operands from `first` on; arena memory. */
const struct shape **infer_operand_shapes(const struct hlo_instr *instr, int first);
const struct shape *infer_root(const struct hlo_instr *instr, int index);
/* Sizes after a window has gone over `sizes`; false with an error in diag. */
bool infer_windowed(struct hlo_instr *instr, struct diag *diag, const struct window *window,
                    const int64_t *sizes, int64_t *result);
/* The element type of a product of operands 0 and 1: the written one where it is a legal one. */
bool infer_product_type(struct hlo_instr *instr, struct diag *diag, enum element_type *result);
/* Same type, or both floats: programs mix precisions. */
bool infer_same_sort(enum element_type a, enum element_type b);
/* Whether the shape is of square matrices of inexact numbers, else an error. */
bool infer_square_matrices(struct hlo_instr *instr, struct diag *diag, const struct shape *a);
/* What reduce and reduce-window have in common; infer_reduced_type after infer_reduced_operands. */
bool infer_reduced_operands(struct hlo_instr *instr, struct diag *diag);
enum element_type infer_reduced_type(const struct hlo_instr *instr, int index);

infer_function infer_unary, infer_binary, infer_compare, infer_clamp, infer_select, infer_convert,
    infer_bitcast_convert, infer_stochastic_convert, infer_reduce_precision;
infer_function infer_iota, infer_id, infer_make_tuple, infer_get_tuple_element, infer_bitcast,
    infer_reshape, infer_dynamic_reshape, infer_broadcast, infer_transpose, infer_reverse,
    infer_concatenate, infer_pad, infer_slice, infer_dynamic_slice, infer_dynamic_update_slice,
    infer_get_dimension_size, infer_set_dimension_size, infer_gather, infer_scatter;
infer_function infer_map, infer_dot, infer_ragged_dot, infer_convolution, infer_reduce,
    infer_reduce_window, infer_select_and_scatter, infer_scan, infer_sort, infer_topk, infer_fft,
    infer_cholesky, infer_triangular_solve, infer_batch_norm, infer_rng, infer_rng_bit_generator;
infer_function infer_same_as_operand, infer_call, infer_while, infer_conditional, infer_after_all,
    infer_all_reduce, infer_all_gather, infer_collective_permute, infer_all_to_all,
    infer_reduce_scatter, infer_copy_done, infer_async, infer_async_done, infer_constant,
    infer_collective_start, infer_ragged_all_to_all, infer_infeed, infer_outfeed, infer_transfer,
    infer_transfer_done, infer_add_dependency, infer_copy_start, infer_rng_state;

#endif
