/* What passes that turn dots round share. Private to them. */
#ifndef PASSES_DOT_SIDES_H
#define PASSES_DOT_SIDES_H

#include "passes/rewrite.h"

/* Dims d of an attribute become order[d]. */
void dot_renumber(struct hlo_instr *dot, enum attr_key key, const int64_t *order);
/* Whether its sides may change places: every sum stays as it is then. */
bool dot_may_swap(const struct hlo_instr *dot);
/* The dot of `shape`, before `before`, whose sides are the other way round: so are their dims in
 * the result, behind those of the batch. */
struct hlo_instr *dot_swapped(struct hlo_instr *dot, struct hlo_instr *before,
                              const struct shape *shape);

#endif
