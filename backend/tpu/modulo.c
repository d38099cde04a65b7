#include "backend/tpu/modulo.h"

#include <string.h>

/* Places tried for each operation on average, those of operations that had to leave included. */
enum { BUDGET = 12 };

struct row {
    int ops[MODULO_ROW];
    int count;
};

struct search {
    struct modulo *m;
    struct row *rows;
    int *height;   /* the longest path from an operation, iterations counted by ii */
    int *previous; /* where it was before it had to leave; -1: nowhere yet */
    /* Edges of each operation, either way: first[i] to before first[i + 1]. */
    int *first, *edges;
};

static int row_of(const struct modulo *m, int cycle) {
    return cycle % m->ii;
}

/* ---- paths ---- */

/* Longest paths from every operation to any other, `ii` cycles an iteration. False where they grow
 * without end: a recurrence takes longer. */
static bool find_heights(const struct modulo *m, int ii, int *height) {
    memset(height, 0, (size_t)m->count * sizeof *height);
    bool changed = true;
    for (int round = 0; round <= m->count && changed; round++) {
        changed = false;
        for (int e = m->nedges - 1; e >= 0; e--) {
            const struct modulo_edge *edge = &m->edges[e];
            int path = height[edge->to] + edge->latency - ii * edge->distance;
            if (path <= height[edge->from]) continue;
            height[edge->from] = path;
            changed = true;
        }
    }
    return !changed;
}

int modulo_recurrence_ii(const struct modulo *m, int least, int most) {
    int *height = arena_array(m->arena, (size_t)m->count + 1, sizeof *height);
    if (!find_heights(m, most, height)) return -1;
    while (least < most) {
        int middle = least + (most - least) / 2;
        if (find_heights(m, middle, height))
            most = middle;
        else
            least = middle + 1;
    }
    return least;
}

/* ---- the reservation table ---- */

static bool has_room(const struct search *s, int op, int cycle) {
    const struct modulo *m = s->m;
    const struct row *row = &s->rows[row_of(m, cycle)];
    int ops[MODULO_ROW];
    if (row->count == MODULO_ROW) return false;
    memcpy(ops, row->ops, (size_t)row->count * sizeof *ops);
    ops[row->count] = op;
    if (!m->fits(m->user, row_of(m, cycle), ops, row->count + 1)) return false;
    for (int other = 0; m->group[op] >= 0 && other < m->count; other++)
        if (other != op && m->cycle[other] >= 0 && m->group[other] == m->group[op] &&
            m->clash(m->user, m->cycle, op, cycle, other, m->ii))
            return false;
    return true;
}

static void put(struct search *s, int op, int cycle) {
    struct row *row = &s->rows[row_of(s->m, cycle)];
    row->ops[row->count++] = op;
    s->m->cycle[op] = s->previous[op] = cycle;
}

static void take_out(struct search *s, int op) {
    struct row *row = &s->rows[row_of(s->m, s->m->cycle[op])];
    int at = 0;
    while (row->ops[at] != op)
        at++;
    row->count--;
    for (; at < row->count; at++)
        row->ops[at] = row->ops[at + 1];
    s->m->cycle[op] = -1;
}

/* Whoever is in the way leaves, the least urgent first. */
static bool make_room(struct search *s, int op, int cycle) {
    struct modulo *m = s->m;
    for (int other = 0; m->group[op] >= 0 && other < m->count; other++)
        if (other != op && m->cycle[other] >= 0 && m->group[other] == m->group[op] &&
            m->clash(m->user, m->cycle, op, cycle, other, m->ii))
            take_out(s, other);
    while (!has_room(s, op, cycle)) {
        const struct row *row = &s->rows[row_of(m, cycle)];
        int least = -1;
        for (int i = 0; i < row->count; i++)
            if (least < 0 || s->height[row->ops[i]] < s->height[least]) least = row->ops[i];
        if (least < 0) return false;
        take_out(s, least);
    }
    return true;
}

/* ---- the search ---- */

static void find_edges(struct search *s) {
    const struct modulo *m = s->m;
    s->first = arena_array(m->arena, (size_t)m->count + 2, sizeof *s->first);
    s->edges = arena_array(m->arena, 2 * (size_t)m->nedges + 1, sizeof *s->edges);
    for (int e = 0; e < m->nedges; e++) {
        s->first[m->edges[e].from + 2]++;
        s->first[m->edges[e].to + 2]++;
    }
    for (int i = 1; i <= m->count + 1; i++)
        s->first[i] += s->first[i - 1];
    for (int e = 0; e < m->nedges; e++) {
        s->edges[s->first[m->edges[e].from + 1]++] = e;
        s->edges[s->first[m->edges[e].to + 1]++] = e;
    }
}

/* The earliest and latest cycle that operations with a place leave for `op`; INT32_MAX: no end. */
static void bounds(const struct search *s, int op, int *low, int *high) {
    const struct modulo *m = s->m;
    *low = 0;
    *high = INT32_MAX;
    for (int i = s->first[op]; i < s->first[op + 1]; i++) {
        const struct modulo_edge *edge = &m->edges[s->edges[i]];
        if (edge->from == edge->to) continue;
        int span = edge->latency - m->ii * edge->distance;
        if (edge->to == op && m->cycle[edge->from] >= 0 && m->cycle[edge->from] + span > *low)
            *low = m->cycle[edge->from] + span;
        if (edge->from == op && m->cycle[edge->to] >= 0 && m->cycle[edge->to] - span < *high)
            *high = m->cycle[edge->to] - span;
    }
}

static int most_urgent(const struct search *s) {
    int best = -1;
    for (int i = 0; i < s->m->count; i++)
        if (s->m->cycle[i] < 0 && (best < 0 || s->height[i] > s->height[best])) best = i;
    return best;
}

static bool place_next(struct search *s, int op) {
    struct modulo *m = s->m;
    int low, high, cycle;
    bounds(s, op, &low, &high);
    for (cycle = low; cycle < low + m->ii; cycle++)
        if (has_room(s, op, cycle)) break;
    if (cycle == low + m->ii) {
        cycle = s->previous[op] < 0 || low > s->previous[op] ? low : s->previous[op] + 1;
        if (!make_room(s, op, cycle)) return false;
    }
    put(s, op, cycle);
    for (int i = s->first[op]; i < s->first[op + 1]; i++) {
        const struct modulo_edge *edge = &m->edges[s->edges[i]];
        if (edge->from != op || edge->to == op || m->cycle[edge->to] < 0) continue;
        if (m->cycle[edge->to] < cycle + edge->latency - m->ii * edge->distance)
            take_out(s, edge->to);
    }
    return true;
}

/* ---- shorter lifetimes ---- */

int modulo_lifetime(const struct modulo *m, const struct modulo_value *value) {
    int first = m->cycle[value->ops[0]], last = first + value->latency;
    for (int i = 0; i < value->count; i++)
        if (m->cycle[value->ops[i]] > last) last = m->cycle[value->ops[i]];
    return last - first;
}

struct refs { /* the values that an operation refers to */
    int *values;
    int count, capacity;
};

static int64_t cost_of(const struct modulo *m, const struct refs *refs) {
    int64_t cost = 0;
    for (int i = 0; i < refs->count; i++) {
        const struct modulo_value *value = &m->values[refs->values[i]];
        cost += (int64_t)modulo_lifetime(m, value) * value->weight;
    }
    return cost;
}

static struct refs *find_refs(const struct modulo *m) {
    struct refs *refs = arena_array(m->arena, (size_t)m->count + 1, sizeof *refs);
    for (int v = 0; v < m->nvalues; v++) {
        for (int i = 0; i < m->values[v].count; i++) {
            struct refs *of = &refs[m->values[v].ops[i]];
            if (of->count && of->values[of->count - 1] == v) continue;
            of->values =
                arena_grow(m->arena, of->values, &of->capacity, of->count + 1, sizeof *of->values);
            of->values[of->count++] = v;
        }
    }
    return refs;
}

/* Moves one operation, within what its neighbours leave it, to where registers are held least. */
static bool settle(struct search *s, int op, const struct refs *refs) {
    struct modulo *m = s->m;
    int low, high, was = m->cycle[op], best = was;
    bounds(s, op, &low, &high);
    if (low < was - 2 * m->ii) low = was - 2 * m->ii;
    if (high > was + 2 * m->ii) high = was + 2 * m->ii;
    int64_t least = cost_of(m, refs);
    take_out(s, op);
    for (int cycle = low; cycle <= high; cycle++) {
        m->cycle[op] = cycle;
        int64_t cost = cost_of(m, refs);
        m->cycle[op] = -1;
        if (cost >= least || !has_room(s, op, cycle)) continue;
        least = cost;
        best = cycle;
    }
    put(s, op, best);
    return best != was;
}

/* As late as those that wait for it allow, from the last operation to the first: trees of
 * operations then end just before their use. */
static void make_late(struct search *s) {
    struct modulo *m = s->m;
    int *order = arena_array(m->arena, (size_t)m->count + 1, sizeof *order), last = 0;
    for (int i = 0, j; i < m->count; i++) {
        if (m->cycle[i] > last) last = m->cycle[i];
        for (j = i; j > 0 && m->cycle[order[j - 1]] < m->cycle[i]; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    for (int i = 0; i < m->count; i++) {
        int op = order[i], was = m->cycle[op], low, high;
        bounds(s, op, &low, &high);
        if (high == INT32_MAX) continue;
        if (high > last) high = last;
        take_out(s, op);
        while (high > was && !has_room(s, op, high))
            high--;
        put(s, op, high > was ? high : was);
    }
}

static void shorten_lifetimes(struct search *s) {
    struct modulo *m = s->m;
    struct refs *refs = find_refs(m);
    bool moved = true;
    make_late(s);
    for (int round = 0; round < 6 && moved; round++) {
        moved = false;
        for (int i = m->count - 1; i >= 0; i--)
            if (refs[i].count) moved |= settle(s, i, &refs[i]);
    }
    int first = INT32_MAX;
    for (int i = 0; i < m->count; i++)
        if (m->cycle[i] < first) first = m->cycle[i];
    for (int i = 0; i < m->count; i++)
        m->cycle[i] -= first / m->ii * m->ii;
}

bool modulo_schedule(struct modulo *m) {
    struct search s = {.m = m};
    int64_t budget = (int64_t)BUDGET * m->count;
    s.rows = arena_array(m->arena, (size_t)m->ii, sizeof *s.rows);
    s.height = arena_array(m->arena, (size_t)m->count + 1, sizeof *s.height);
    s.previous = arena_array(m->arena, (size_t)m->count + 1, sizeof *s.previous);
    m->cycle = arena_array(m->arena, (size_t)m->count + 1, sizeof *m->cycle);
    for (int i = 0; i < m->count; i++)
        m->cycle[i] = s.previous[i] = -1;
    if (!find_heights(m, m->ii, s.height)) return false;
    find_edges(&s);
    for (int op; (op = most_urgent(&s)) >= 0;)
        if (budget-- == 0 || !place_next(&s, op)) return false;
    if (m->nvalues) shorten_lifetimes(&s);
    return true;
}
