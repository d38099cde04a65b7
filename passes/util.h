/* What several passes ask about instructions. */
#ifndef PASSES_UTIL_H
#define PASSES_UTIL_H

#include "ir/hlo.h"

/* Sets mark of every computation to whether something in it (or in what it calls) has a side
 * effect. The module's computations must be in callees-first order. */
void mark_side_effects(struct hlo_module *module);
/* Replaces a call or fusion by copies of the called computation's instructions, which it removes
 * from the list. The callee must have a root and as many parameters as there are operands. */
void instr_inline_called(struct hlo_instr *call);
/* Must not be removed, merged or reordered. Needs mark_side_effects. */
bool instr_has_side_effect(const struct hlo_instr *instr);
/* Same opcode, shape (layout too), attributes, number of operands and of called computations. */
bool instr_same_operation(const struct hlo_instr *a, const struct hlo_instr *b);
/* Same operation, and the same called computations; operands aside. */
bool instr_same_but_operands(const struct hlo_instr *a, const struct hlo_instr *b);
/* One operand of one instruction is all that reads it. */
bool instr_has_one_user(const struct hlo_instr *instr);
bool instr_is_constant(const struct hlo_instr *instr);
/* An array constant, or a broadcast of a scalar one, whose elements all have the bits of `value`
 * (for floats, 0 is +0 and not -0). */
bool instr_is_splat(const struct hlo_instr *instr, double value);
/* A constant of the shape with every element `value`: a scalar constant and a broadcast. NULL when
 * out of memory. */
struct hlo_instr *instr_new_splat(struct hlo_instr *before, const struct shape *shape,
                                  double value);
/* The elementwise operation that a reducer of two scalars is: parameter 0 first, unless it
 * commutes. OPCODE_INVALID where it is something else. */
enum hlo_opcode reducer_operation(const struct hlo_computation *reducer);
/* The reducer chooses among its parameters by comparisons, or joins them so that seeing one twice
 * changes nothing: minimum, arg-max, and. Elements may come in any order and any number of times.
 */
bool reducer_only_chooses(const struct hlo_computation *reducer);
/* The leaves of a shape in order, in `arena` (shape_leaf walks anew for each). */
const struct shape **shape_leaves(struct arena *arena, const struct shape *shape);
/* A dynamic-slice starts where a dynamic-update-slice does. */
bool same_starts(const struct hlo_instr *slice, const struct hlo_instr *update);
/* A dynamic-slice of just what the update replaces. */
bool reads_replaced(const struct hlo_instr *instr, const struct hlo_instr *update);
bool ints_equal(int count, const int64_t *a, const int64_t *b);

#endif
