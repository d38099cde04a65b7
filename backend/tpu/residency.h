/* Which values stay in VMEM from the kernel that makes them to the last one that reads them. */
#ifndef BACKEND_TPU_RESIDENCY_H
#define BACKEND_TPU_RESIDENCY_H

#include <stdint.h>

#include "ir/arena.h"

struct residency_item {
    int64_t rows;   /* of VMEM, over 0 */
    int start, end; /* first and last position of the schedule, both live */
    int64_t at;     /* the result: its first row, from 0 up; -1: it stays in HBM */
};

/* Small values first, for what they save is mostly latency. capacity[p], by position: rows that
 * values may take there in all; positions are below `npositions`. The items' ranges of rows are
 * disjoint where they are alive together, and end within the capacity at each of their positions.
 * Returns the rows that are used at most. */
int64_t residency_plan(struct arena *arena, struct residency_item *items, int count,
                       const int64_t *capacity, int npositions);

#endif
