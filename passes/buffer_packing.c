#include "passes/buffer_packing.h"

#include <stdlib.h>
#include <string.h>

int64_t pack_lower_bound(struct arena *arena, const struct pack_item *items, int count,
                         int npositions, int *peak) {
    int64_t *delta = arena_array(arena, (size_t)npositions + 2, sizeof *delta);
    for (int i = 0; i < count; i++) {
        delta[items[i].start] += items[i].size;
        delta[items[i].end + 1] -= items[i].size;
    }
    int64_t live = 0, most = 0;
    *peak = 0;
    for (int p = 0; p <= npositions; p++) {
        live += delta[p];
        if (live > most) most = live, *peak = p;
    }
    return most;
}

/* ---- orders ---- */

static int compare_size(const void *x, const void *y) {
    const struct pack_item *a = *(struct pack_item *const *)x, *b = *(struct pack_item *const *)y;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return a < b ? -1 : a > b;
}

static double area(const struct pack_item *item) {
    return (double)item->size * (item->end - item->start + 1);
}

static int compare_area(const void *x, const void *y) {
    const struct pack_item *a = *(struct pack_item *const *)x, *b = *(struct pack_item *const *)y;
    if (area(a) != area(b)) return area(a) > area(b) ? -1 : 1;
    return compare_size(x, y);
}

static int compare_life(const void *x, const void *y) {
    const struct pack_item *a = *(struct pack_item *const *)x, *b = *(struct pack_item *const *)y;
    int la = a->end - a->start, lb = b->end - b->start;
    if (la != lb) return la > lb ? -1 : 1;
    return compare_size(x, y);
}

static int compare_start(const void *x, const void *y) {
    const struct pack_item *a = *(struct pack_item *const *)x, *b = *(struct pack_item *const *)y;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return compare_size(x, y);
}

/* ---- any order: the smallest gap among what was placed and is alive together ---- */

static int64_t best_gap(struct pack_item *const *placed, int nplaced,
                        const struct pack_item *item) {
    int64_t best = -1, best_size = INT64_MAX, top = 0;
    for (int i = 0; i < nplaced; i++) {
        const struct pack_item *other = placed[i];
        if (other->end < item->start || item->end < other->start) continue;
        int64_t gap = other->offset - top;
        if (gap >= item->size && gap < best_size) best = top, best_size = gap;
        if (other->offset + other->size > top) top = other->offset + other->size;
    }
    return best >= 0 ? best : top;
}

/* Quadratic: for few items only. */
static int64_t pack_in_order(struct pack_item **order, int count, struct pack_item **placed) {
    int64_t size = 0;
    for (int i = 0; i < count; i++) {
        struct pack_item *item = order[i];
        item->offset = best_gap(placed, i, item);
        int at = i;
        while (at > 0 && placed[at - 1]->offset > item->offset)
            at--;
        memmove(placed + at + 1, placed + at, (size_t)(i - at) * sizeof *placed);
        placed[at] = item;
        if (item->offset + item->size > size) size = item->offset + item->size;
    }
    return size;
}

/* ---- by time: a heap with best fit, for many items ---- */

struct hole {
    int64_t offset, size;
};

struct heap {
    struct hole *holes; /* by offset; the last one is open upwards */
    int count;
};

static int find_hole(const struct heap *heap, int64_t offset) {
    int low = 0, high = heap->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (heap->holes[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t heap_take(struct heap *heap, int64_t size) {
    enum { MOST_LOOKED_AT = 1024 };
    int best = heap->count - 1;
    for (int i = 0, looked = 0; i < heap->count && looked < MOST_LOOKED_AT; i++, looked++)
        if (heap->holes[i].size >= size && heap->holes[i].size < heap->holes[best].size) best = i;
    struct hole *hole = &heap->holes[best];
    int64_t offset = hole->offset;
    hole->offset += size;
    hole->size -= size;
    if (hole->size == 0) {
        memmove(hole, hole + 1, (size_t)(heap->count - best - 1) * sizeof *hole);
        heap->count--;
    }
    return offset;
}

static void heap_give(struct heap *heap, int64_t offset, int64_t size) {
    int at = find_hole(heap, offset);
    struct hole *hole = heap->holes + at;
    bool joins_next = at < heap->count && hole->offset == offset + size;
    bool joins_last = at > 0 && hole[-1].offset + hole[-1].size == offset;
    if (joins_next && joins_last) {
        hole[-1].size += size + hole->size;
        memmove(hole, hole + 1, (size_t)(heap->count - at - 1) * sizeof *hole);
        heap->count--;
    } else if (joins_next) {
        hole->offset = offset;
        hole->size += size;
    } else if (joins_last) {
        hole[-1].size += size;
    } else {
        memmove(hole + 1, hole, (size_t)(heap->count - at) * sizeof *hole);
        *hole = (struct hole){offset, size};
        heap->count++;
    }
}

static int compare_end(const void *x, const void *y) {
    const struct pack_item *a = *(struct pack_item *const *)x, *b = *(struct pack_item *const *)y;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int64_t pack_by_time(struct arena *arena, struct pack_item **order, int count,
                            struct pack_item **by_end) {
    struct heap heap = {arena_array(arena, (size_t)count + 2, sizeof(struct hole)), 1};
    heap.holes[0] = (struct hole){0, INT64_MAX / 2};
    int64_t size = 0;
    memcpy(by_end, order, (size_t)count * sizeof *order);
    qsort(order, (size_t)count, sizeof *order, compare_start);
    qsort(by_end, (size_t)count, sizeof *by_end, compare_end);
    for (int i = 0, ended = 0; i < count; i++) {
        for (; ended < count && by_end[ended]->end < order[i]->start; ended++)
            heap_give(&heap, by_end[ended]->offset, by_end[ended]->size);
        order[i]->offset = heap_take(&heap, order[i]->size);
        if (order[i]->offset + order[i]->size > size) size = order[i]->offset + order[i]->size;
    }
    return size;
}

/* ---- the choice ---- */

struct search {
    struct pack_item *items;
    int count;
    struct pack_item **order, **scratch;
    int64_t *best; /* offsets */
    int64_t best_size;
};

static bool keep_if_better(struct search *s, int64_t size) {
    if (size >= s->best_size) return false;
    s->best_size = size;
    for (int i = 0; i < s->count; i++)
        s->best[i] = s->items[i].offset;
    return true;
}

/* What sticks out at the top is placed earlier, again and again; always the same way. */
static void move_what_sticks_out(struct search *s, int64_t lower_bound) {
    const int64_t most_steps = 4 * 1000 * 1000;
    int64_t rounds = most_steps / ((int64_t)s->count * s->count + 1);
    uint32_t random = 1;
    for (int64_t round = 0; round < rounds && s->best_size > lower_bound; round++) {
        int64_t size = pack_in_order(s->order, s->count, s->scratch);
        keep_if_better(s, size);
        for (int i = 1; i < s->count; i++) {
            struct pack_item *item = s->order[i];
            if (item->offset + item->size < size) continue;
            random = random * 1664525u + 1013904223u;
            int to = (int)((random >> 8) % (uint32_t)i);
            memmove(s->order + to + 1, s->order + to, (size_t)(i - to) * sizeof *s->order);
            s->order[to] = item;
        }
    }
}

int64_t pack_items(struct arena *arena, struct pack_item *items, int count, int64_t lower_bound) {
    enum { FEW = 3000, NORDERS = 4 };
    static int (*const orders[NORDERS])(const void *, const void *) = {compare_size, compare_area,
                                                                       compare_life, compare_start};
    size_t n = (size_t)count + 1;
    struct search s = {.items = items, .count = count, .best_size = INT64_MAX};
    s.order = arena_array(arena, n, sizeof *s.order);
    s.scratch = arena_array(arena, n, sizeof *s.scratch);
    s.best = arena_array(arena, n, sizeof *s.best);
    for (int i = 0; i < count; i++)
        s.order[i] = &items[i];
    keep_if_better(&s, pack_by_time(arena, s.order, count, s.scratch));
    for (int k = 0; k < NORDERS && count <= FEW && s.best_size > lower_bound; k++) {
        qsort(s.order, (size_t)count, sizeof *s.order, orders[k]);
        keep_if_better(&s, pack_in_order(s.order, count, s.scratch));
    }
    for (int k = 0; k < 2 && count <= FEW && s.best_size > lower_bound; k++) {
        qsort(s.order, (size_t)count, sizeof *s.order, orders[k]);
        move_what_sticks_out(&s, lower_bound);
    }
    for (int i = 0; i < count; i++)
        items[i].offset = s.best[i];
    return s.best_size;
}
