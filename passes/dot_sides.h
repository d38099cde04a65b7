/* What passes that turn dots round share. Private to them. */
#ifndef PASSES_DOT_SIDES_H
#define PASSES_DOT_SIDES_H

#include "passes/rewrite.h"

/* Of the left and the right side. */
extern const enum attr_key dot_contracting[2], dot_batch[2];

/* Dims d of a side become order[d]: in what it sums and in its batch. */
void dot_renumber(struct hlo_instr *dot, int side, const int64_t *order);
/* Whether the dims of a side that are neither stay in order where d becomes order[d]. */
bool dot_keeps_order(const struct hlo_instr *dot, int side, const int64_t *order);
/* The same dot of another operand, whose dim order[d] is dim d of the one before. */
struct hlo_instr *dot_of_other(struct hlo_instr *dot, int side, struct hlo_instr *operand,
                               const int64_t *order);
/* Whether its sides may change places: every sum stays as it is then. */
bool dot_may_swap(const struct hlo_instr *dot);
/* The dot of `shape`, before `before`, whose sides are the other way round: so are their dims in
 * the result, behind those of the batch. */
struct hlo_instr *dot_swapped(struct hlo_instr *dot, struct hlo_instr *before,
                              const struct shape *shape);

#endif
