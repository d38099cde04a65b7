#include "backend/tpu/loop_body.h"

#include <string.h>

enum { MOST_OPS = 760 };

void loop_body_edge(struct loop_body *body, int from, int to, int latency, int distance) {
    body->edges = arena_grow(body->arena, body->edges, &body->edge_capacity, body->nedges + 1,
                             sizeof *body->edges);
    body->edges[body->nedges++] = (struct modulo_edge){from, to, latency, distance};
}

static int latency_of(const struct loop_body *body, int op) {
    return tpu_op_info(body->ops[op].op)->latency;
}

/* ---- units ---- */

struct result {
    int op, latency; /* of the push */
};

struct unit_use {
    struct result *results;
    int *pops, *pushes;
    int nresults, npops, npushes;
    bool transposes, predicated;
};

static void collect_unit(struct loop_body *body, int unit, struct unit_use *use) {
    size_t most = (size_t)body->count * TPU_TRANSPOSE_MAX + 1;
    use->results = arena_array(body->arena, most, sizeof *use->results);
    use->pops = arena_array(body->arena, (size_t)body->count + 1, sizeof *use->pops);
    use->pushes = arena_array(body->arena, (size_t)body->count + 1, sizeof *use->pushes);
    for (int i = 0; i < body->count; i++) {
        bool push;
        int results;
        if (mir_unit_of(&body->ops[i], &push, &results) != unit) continue;
        use->predicated |= body->ops[i].pred != 0;
        use->transposes |= body->ops[i].op == TPU_XTR || body->ops[i].op == TPU_XTRL;
        if (!push) {
            use->pops[use->npops++] = i;
            continue;
        }
        use->pushes[use->npushes++] = i;
        for (int r = 0; r < results && use->nresults < (int)most; r++)
            use->results[use->nresults++] =
                (struct result){i, mir_result_latency(body->mir, &body->ops[i], r)};
    }
}

static bool is_weight(const struct loop_body *body, int op) {
    return tpu_op_info(body->ops[op].op)->effect == TPU_EFFECT_MXU_WEIGHT;
}

static int set_of(const struct loop_body *body, int op) {
    return body->ops[op].flags & TPU_FLAG_SET;
}

/* Pushes one after the other, within an iteration and from one to the next, each as long as it
 * holds the unit. Weights have a path of their own: data waits for the weights of its set, and new
 * weights for the data that meets those that are in their set. */
static void chain_pushes(struct loop_body *body, const int *ops, int n) {
    for (int i = 0; i < n; i++) {
        bool weight = is_weight(body, ops[i]), chained = false, crossed = false;
        int hold = latency_of(body, ops[i]) > 1 ? latency_of(body, ops[i]) : 1;
        for (int next = i + 1; next <= i + n && !(chained && crossed); next++) {
            int op = ops[next % n];
            bool same = weight == is_weight(body, op);
            if (same ? chained : crossed || set_of(body, op) != set_of(body, ops[i])) continue;
            loop_body_edge(body, ops[i], op, same || weight ? hold : 1, next >= n);
            *(same ? &chained : &crossed) = true;
        }
    }
}

static int floor_div(int a, int b) {
    return a / b - (a % b < 0);
}

/* Results in order, `level` of them under way where an iteration begins: result r is popped by pop
 * r + level, and pushed when pop r + level - fifo has been. False where they never fit. */
static bool link_in_order(struct loop_body *body, int unit, const struct unit_use *use, int level) {
    int n = use->nresults, fifo = body->mir->units[unit].fifo;
    chain_pushes(body, use->pushes, use->npushes);
    for (int i = 0; i < use->npops; i++)
        loop_body_edge(body, use->pops[i], use->pops[(i + 1) % n], 1, i + 1 == n);
    for (int r = 0; r < n; r++) {
        int later = floor_div(level + r, n), before = floor_div(level + r - fifo, n);
        if (before > 0) return false;
        loop_body_edge(body, use->results[r].op, use->pops[level + r - later * n],
                       use->results[r].latency, later);
        loop_body_edge(body, use->pops[level + r - fifo - before * n], use->results[r].op, 0,
                       -before);
    }
    return true;
}

static bool link_unit(struct loop_body *body, int unit, int level) {
    struct unit_use use = {0};
    collect_unit(body, unit, &use);
    if (use.npops == 0 && use.npushes == 0) return true;
    if (use.predicated || use.npops != use.nresults || use.nresults == 0 || level < 0) return false;
    for (int i = 0; i < use.npushes; i++)
        body->unit[use.pushes[i]] = unit;
    for (int i = 0; i < use.npops; i++)
        body->unit[use.pops[i]] = unit;
    if (unit < TPU_MAX_UNITS || use.transposes || level > 0)
        return link_in_order(body, unit, &use, level);
    for (int i = 0; i < use.npops; i++) {
        body->partner[use.pops[i]] = use.results[i].op;
        body->partner[use.results[i].op] = use.pops[i];
        loop_body_edge(body, use.results[i].op, use.pops[i], use.results[i].latency, 0);
    }
    return true;
}

/* ---- registers ---- */

struct sharing { /* of a register that iterations share: as the body goes, twice over */
    int writer, first_writer;
    int *readers; /* since the last write */
    int count, capacity;
};

struct register_walk {
    struct loop_body *body;
    const struct mir_liveness *live;
    int block;
    int *value;   /* by register: of this iteration, -1: none yet */
    bool *shared; /* by register */
    struct sharing *sharing;
};

static bool is_tied(const struct mir_ref *reads, int n, struct mir_ref write) {
    for (int k = 0; k < n; k++)
        if (reads[k].reg == write.reg) return true;
    return false;
}

static void refer(struct loop_body *body, int value, int op) {
    struct modulo_value *v = &body->values[value];
    for (int i = 0; i < v->count; i++)
        if (v->ops[i] == op) return;
    int capacity = v->count; /* grows by one: few refer to a value */
    v->ops = arena_grow(body->arena, v->ops, &capacity, v->count + 1, sizeof *v->ops);
    v->ops[v->count++] = op;
}

static int new_value(struct loop_body *body, enum mir_class class, int op) {
    static const int weights[] = {[MIR_S] = 2, [MIR_V] = 3, [MIR_M] = 8, [MIR_P] = 16};
    body->values = arena_grow(body->arena, body->values, &body->value_capacity, body->nvalues + 1,
                              sizeof *body->values);
    body->classes = arena_grow(body->arena, body->classes, &body->class_capacity, body->nvalues + 1,
                               sizeof *body->classes);
    body->classes[body->nvalues] = class;
    body->values[body->nvalues] =
        (struct modulo_value){.latency = latency_of(body, op), .weight = weights[class]};
    refer(body, body->nvalues, op);
    return body->nvalues++;
}

/* The op that writes a value last before `op`, and those that read it since: an in-place write
 * comes after both. */
static void link_value(struct loop_body *body, int value, int op, bool write) {
    const struct modulo_value *v = &body->values[value];
    for (int i = v->count - 1; i >= 0; i--) {
        if (v->ops[i] == op) continue;
        bool wrote = body->refs[v->ops[i]].write == value;
        if (wrote) loop_body_edge(body, v->ops[i], op, latency_of(body, v->ops[i]), 0);
        if (!wrote && write) loop_body_edge(body, v->ops[i], op, 0, 0);
        if (wrote) break;
    }
}

static void link_shared(struct register_walk *w, treg reg, int op, bool write, int pass) {
    struct loop_body *body = w->body;
    struct sharing *s = &w->sharing[reg];
    int n = body->count, node = pass * n + op;
    if (s->writer >= 0 && (pass == 0 || s->writer < n))
        loop_body_edge(body, s->writer % n, op, latency_of(body, s->writer % n), pass);
    if (!write) {
        s->readers =
            arena_grow(body->arena, s->readers, &s->capacity, s->count + 1, sizeof *s->readers);
        s->readers[s->count++] = node;
        return;
    }
    for (int i = 0; i < s->count; i++)
        if ((pass == 0 || s->readers[i] < n) && s->readers[i] % n != op)
            loop_body_edge(body, s->readers[i] % n, op, 0, pass);
    s->count = 0;
    s->writer = node;
}

static void walk_op(struct register_walk *w, int op, int pass) {
    struct loop_body *body = w->body;
    struct mir_ref reads[MIR_MOST_READS], write;
    struct body_refs *refs = &body->refs[op];
    int n = mir_refs(&body->ops[op], reads, &write);
    bool tied = is_tied(reads, n, write);
    for (int k = 0; k < n; k++) {
        treg reg = *reads[k].reg;
        if (w->shared[reg]) {
            link_shared(w, reg, op, false, pass);
        } else if (pass == 0 && (refs->reads[k] = w->value[reg]) >= 0) {
            link_value(body, w->value[reg], op, tied && reads[k].reg == write.reg);
            refer(body, w->value[reg], op);
        }
    }
    if (!write.reg) return;
    if (w->shared[*write.reg]) {
        link_shared(w, *write.reg, op, true, pass);
    } else if (pass == 0) {
        if (!tied) w->value[*write.reg] = new_value(body, write.class, op);
        refs->write = w->value[*write.reg];
    }
}

static bool walk_registers(struct loop_body *body, int block, const struct mir_liveness *live) {
    size_t nregs = (size_t)body->mir->nregs;
    struct register_walk w = {.body = body, .live = live, .block = block};
    bool *counted = arena_array(body->arena, nregs, sizeof *counted);
    w.value = arena_array(body->arena, nregs, sizeof *w.value);
    w.shared = arena_array(body->arena, nregs, sizeof *w.shared);
    w.sharing = arena_array(body->arena, nregs, sizeof *w.sharing);
    for (size_t r = 0; r < nregs; r++) {
        w.value[r] = w.sharing[r].writer = -1;
        w.shared[r] = mir_live_in(live, block, (treg)r) || mir_live_in(live, block + 1, (treg)r);
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < body->count; i++)
            walk_op(&w, i, pass);
    for (int i = 0; i < body->count; i++) {
        struct mir_ref refs[MIR_MOST_READS + 1], write;
        int n = mir_refs(&body->ops[i], refs, &write);
        if (write.reg) refs[n++] = write;
        for (int k = 0; k < n; k++) {
            if (!w.shared[*refs[k].reg] || counted[*refs[k].reg]) continue;
            counted[*refs[k].reg] = true;
            body->shared[refs[k].class]++;
        }
    }
    return true;
}

/* ---- the body ---- */

static bool is_simple(const struct mop *op) {
    enum tpu_effect effect = tpu_op_info(op->op)->effect;
    return effect != TPU_EFFECT_DMA && effect != TPU_EFFECT_SYNC && effect != TPU_EFFECT_CONTROL;
}

/* The counter's increment, the comparison and the branch end it; nobody else reads the predicate.
 */
static bool find_ops(struct loop_body *body, const struct mblock *block, int index) {
    int n = block->count;
    if (block->trips < 2 || n < 3 || n - 2 > MOST_OPS) return false;
    const struct mop *branch = &block->ops[n - 1], *test = &block->ops[n - 2];
    if (branch->op != TPU_BR || branch->target != index || branch->pred != test->d) return false;
    body->ops = arena_array(body->arena, (size_t)n, sizeof *body->ops);
    body->count = n - 2;
    body->trips = block->trips;
    memcpy(body->ops, block->ops, (size_t)body->count * sizeof *body->ops);
    for (int i = 0; i < body->count; i++) {
        struct mir_ref reads[MIR_MOST_READS], write;
        if (!is_simple(&body->ops[i])) return false;
        mir_refs(&body->ops[i], reads, &write);
        if (write.reg && *write.reg == block->counter && i + 1 < body->count) return false;
    }
    return true;
}

bool loop_body_find(struct loop_body *body, struct arena *arena, const struct mir *mir, int index,
                    const struct mir_liveness *live, const int *levels) {
    const struct mblock *block = &mir->blocks[index];
    *body = (struct loop_body){.arena = arena, .mir = mir};
    if (index + 1 >= mir->nblocks || !find_ops(body, block, index)) return false;
    treg predicate = block->ops[block->count - 1].pred;
    if (mir_live_in(live, index, predicate) || mir_live_in(live, index + 1, predicate))
        return false;
    size_t n = (size_t)body->count + 1;
    body->refs = arena_array(arena, n, sizeof *body->refs);
    body->partner = arena_array(arena, n, sizeof *body->partner);
    body->unit = arena_array(arena, n, sizeof *body->unit);
    for (int i = 0; i < body->count; i++) {
        body->partner[i] = body->unit[i] = body->refs[i].write = -1;
        for (int k = 0; k < MIR_MOST_READS; k++)
            body->refs[i].reads[k] = -1;
    }
    walk_registers(body, index, live);
    loop_body_link_memory(body, block->counter);
    for (int u = 0; u < MIR_UNITS; u++)
        if (!link_unit(body, u, levels[index * MIR_UNITS + u])) return false;
    return true;
}

int loop_body_resource_ii(const struct loop_body *body) {
    int used[TPU_CLASSES] = {[TPU_CLASS_MISC] = 1 /* the branch */}, least = 1;
    int data[MIR_UNITS] = {0}, weights[MIR_UNITS] = {0};
    for (int i = 0; i < body->count; i++) {
        const struct tpu_op_info *info = tpu_op_info(body->ops[i].op);
        bool push;
        int results, unit = mir_unit_of(&body->ops[i], &push, &results);
        used[info->slot]++;
        if (unit < 0 || !push) continue;
        *(info->effect == TPU_EFFECT_MXU_WEIGHT ? &weights[unit] : &data[unit]) += info->latency;
    }
    for (int c = 0; c < TPU_CLASSES; c++)
        if ((used[c] + mir_slots[c] - 1) / mir_slots[c] > least)
            least = (used[c] + mir_slots[c] - 1) / mir_slots[c];
    for (int u = 0; u < MIR_UNITS; u++) {
        if (data[u] > least) least = data[u];
        if (weights[u] > least) least = weights[u];
    }
    return least;
}

int loop_body_occupies(const struct loop_body *body, int op) {
    struct mir_ref reads[MIR_MOST_READS], write;
    mir_refs(&body->ops[op], reads, &write);
    return write.reg && latency_of(body, op) > 1 ? latency_of(body, op) : 1;
}

int loop_body_length(const struct loop_body *body) {
    int *ready = arena_array(body->arena, (size_t)body->count + 1, sizeof *ready), length = 0;
    for (int i = 0; i < body->count; i++) {
        /* Edges within an iteration go forward. */
        for (int e = 0; e < body->nedges; e++) {
            const struct modulo_edge *edge = &body->edges[e];
            if (edge->to == i && !edge->distance && ready[edge->from] + edge->latency > ready[i])
                ready[i] = ready[edge->from] + edge->latency;
        }
        int end = ready[i] + loop_body_occupies(body, i);
        if (end > length) length = end;
    }
    return length;
}

/* ---- values that live long ---- */

static bool is_written_once(const struct loop_body *body, int value) {
    const struct modulo_value *v = &body->values[value];
    for (int i = 1; i < v->count; i++)
        if (body->refs[v->ops[i]].write == value) return false;
    return true;
}

static int moves_of(const struct loop_body *body, const struct modulo *m, int value) {
    return (modulo_lifetime(m, &body->values[value]) + m->ii - 1) / m->ii - 1;
}

/* Arrays of its own, with room for more operations. */
static void own_arrays(struct loop_body *body, int more) {
    struct loop_body old = *body;
    size_t n = (size_t)(old.count + more) + 1, values = (size_t)(old.nvalues + more) + 1;
    body->ops = arena_array(body->arena, n, sizeof *body->ops);
    body->refs = arena_array(body->arena, n, sizeof *body->refs);
    body->partner = arena_array(body->arena, n, sizeof *body->partner);
    body->unit = arena_array(body->arena, n, sizeof *body->unit);
    body->values = arena_array(body->arena, values, sizeof *body->values);
    body->classes = arena_array(body->arena, values, sizeof *body->classes);
    body->value_capacity = body->class_capacity = (int)values;
    memcpy(body->ops, old.ops, (size_t)old.count * sizeof *old.ops);
    memcpy(body->refs, old.refs, (size_t)old.count * sizeof *old.refs);
    memcpy(body->partner, old.partner, (size_t)old.count * sizeof *old.partner);
    memcpy(body->unit, old.unit, (size_t)old.count * sizeof *old.unit);
    memcpy(body->values, old.values, (size_t)old.nvalues * sizeof *old.values);
    memcpy(body->classes, old.classes, (size_t)old.nvalues * sizeof *old.classes);
}

static int add_move(struct loop_body *body, int from) {
    int maker = body->values[from].ops[0], op = body->count++;
    treg reg = 1; /* gets its name with all others */
    body->ops[op] = (struct mop){.op = TPU_SMOV, .d = reg, .b = reg, .bkind = MIR_B_REG};
    body->partner[op] = body->unit[op] = -1;
    for (int k = 0; k < MIR_MOST_READS; k++)
        body->refs[op].reads[k] = -1;
    body->refs[op].reads[0] = from;
    refer(body, from, op);
    loop_body_edge(body, maker, op, latency_of(body, maker), 0);
    return body->refs[op].write = new_value(body, MIR_S, op);
}

/* Uses of the value more than one, two, ... `ii` after it was made take the first, second, ... of
 * moves from one register to the next. */
static void move_on(struct loop_body *body, const struct modulo *m, int value, int moves) {
    const struct modulo_value old = body->values[value];
    int first = m->cycle[old.ops[0]], now = value;
    body->values[value].ops = NULL;
    body->values[value].count = 0;
    refer(body, value, old.ops[0]);
    for (int part = 0; part <= moves; part++) {
        if (part) now = add_move(body, now);
        for (int i = 1; i < old.count; i++) {
            int op = old.ops[i], away = m->cycle[op] - first;
            if (away <= part * m->ii && part) continue;
            if (away > (part + 1) * m->ii && part < moves) continue;
            for (int k = 0; k < MIR_MOST_READS; k++)
                if (body->refs[op].reads[k] == value) body->refs[op].reads[k] = now;
            if (part) loop_body_edge(body, body->values[now].ops[0], op, 1, 0);
            refer(body, now, op);
        }
    }
}

bool loop_body_add_moves(struct loop_body *body, const struct modulo *m) {
    int more = 0, values = body->nvalues;
    for (int v = 0; v < values; v++) {
        int moves = moves_of(body, m, v);
        more += moves;
        if (moves && (body->classes[v] != MIR_S || !is_written_once(body, v))) return false;
    }
    own_arrays(body, more);
    for (int v = 0; v < values; v++) {
        int moves = moves_of(body, m, v);
        if (moves) move_on(body, m, v, moves);
    }
    for (int v = 0; v < body->nvalues; v++) {
        const struct modulo_value *value = &body->values[v];
        for (int i = 0; i < value->count; i++)
            loop_body_edge(body, value->ops[i], value->ops[0], i ? 0 : value->latency, 1);
    }
    return true;
}
