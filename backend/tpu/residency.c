#include "backend/tpu/residency.h"

#include <stdlib.h>

#include "passes/buffer_packing.h"

enum { MOST_STEPS = 50000000 }; /* positions looked at, in all */

static int by_rows(const void *x, const void *y) {
    const struct residency_item *a = *(struct residency_item *const *)x;
    const struct residency_item *b = *(struct residency_item *const *)y;
    if (a->rows != b->rows) return a->rows < b->rows ? -1 : 1;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool fits(const struct residency_item *item, const int64_t *load, const int64_t *capacity) {
    for (int p = item->start; p <= item->end; p++)
        if (load[p] + item->rows > capacity[p]) return false;
    return true;
}

/* Takes items while the sum of those alive is within the capacity everywhere. */
static int choose(struct residency_item **order, int count, int64_t *load,
                  const int64_t *capacity) {
    int chosen = 0;
    int64_t steps = 0;
    for (int i = 0; i < count; i++) {
        struct residency_item *item = order[i];
        steps += item->end - item->start + 1;
        if (steps > MOST_STEPS || !fits(item, load, capacity)) continue;
        for (int p = item->start; p <= item->end; p++)
            load[p] += item->rows;
        order[chosen++] = item;
    }
    return chosen;
}

static bool within(const struct pack_item *packed, const int64_t *capacity) {
    for (int p = packed->start; p <= packed->end; p++)
        if (packed->offset + packed->size > capacity[p]) return false;
    return true;
}

/* Packs the chosen ones; those that end beyond the capacity are given up, until none does. */
static int64_t pack(struct arena *arena, struct residency_item **chosen, int count,
                    const int64_t *capacity, int npositions) {
    struct pack_item *packed = arena_array(arena, (size_t)count + 1, sizeof *packed);
    while (count > 0) {
        int64_t top = 0;
        int left = 0, peak;
        for (int i = 0; i < count; i++)
            packed[i] = (struct pack_item){chosen[i]->rows, chosen[i]->start, chosen[i]->end, 0};
        pack_items(arena, packed, count, pack_lower_bound(arena, packed, count, npositions, &peak));
        for (int i = 0; i < count; i++) {
            if (!within(&packed[i], capacity)) continue;
            chosen[i]->at = packed[i].offset;
            if (packed[i].offset + packed[i].size > top) top = packed[i].offset + packed[i].size;
            chosen[left++] = chosen[i];
        }
        if (left == count) return top;
        for (int i = 0; i < left; i++)
            chosen[i]->at = -1;
        count = left;
    }
    return 0;
}

int64_t residency_plan(struct arena *arena, struct residency_item *items, int count,
                       const int64_t *capacity, int npositions) {
    struct residency_item **order = arena_array(arena, (size_t)count + 1, sizeof *order);
    int64_t *load = arena_array(arena, (size_t)npositions + 1, sizeof *load);
    for (int i = 0; i < count; i++) {
        items[i].at = -1;
        order[i] = &items[i];
    }
    qsort(order, (size_t)count, sizeof(struct residency_item *), by_rows);
    int chosen = choose(order, count, load, capacity);
    return pack(arena, order, chosen, capacity, npositions);
}
