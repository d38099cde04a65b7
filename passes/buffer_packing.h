/* Packing live ranges into one arena. */
#ifndef PASSES_BUFFER_PACKING_H
#define PASSES_BUFFER_PACKING_H

#include <stdint.h>

#include "ir/arena.h"

struct pack_item {
    int64_t size;   /* a multiple of the alignment, over 0 */
    int start, end; /* first and last position, both live */
    int64_t offset; /* the result */
};

/* Chooses offsets such that items alive together do not overlap; returns the arena's size. Tries
 * several orders and keeps the best; stops early at `lower_bound`. */
int64_t pack_items(struct arena *arena, struct pack_item *items, int count, int64_t lower_bound);
/* The largest sum of sizes alive together, and where; positions are below `npositions`. */
int64_t pack_lower_bound(struct arena *arena, const struct pack_item *items, int count,
                         int npositions, int *peak);

#endif
