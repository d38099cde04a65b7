/* Software pipelining: iterations of a loop overlap. The schedule of one iteration comes from
 * modulo.c; a value that lives longer than the distance of two iterations has several registers in
 * turn (modulo variable expansion: Lam, Software Pipelining, PLDI 1988). All iterations together
 * are one flat sequence of cycles, of which the middle repeats: what comes before it is the
 * prologue, one turn of it the kernel, what comes after the epilogue. */
#include <stdlib.h>

#include "backend/tpu/loop_body.h"
#include "backend/tpu/pack.h"

/* Copies of the body in a kernel, and bundles of all blocks of a loop, at most. */
enum { MOST_UNROLL = 8, MOST_BUNDLES = 2048, II_TRIES = 24 };

struct pipeliner {
    struct loop_body body;
    struct modulo m;
    uint8_t *slot;      /* by operation: its enum tpu_slot_class */
    bool *needs;        /* more than a slot: immediates or ports */
    int stages, length; /* of one iteration: turns it takes part in; cycles to its end */
    int unroll;
    int branch_row; /* of the reservation table, for the kernel's branch; -1: no kernel */
    int *colors;    /* by value and iteration modulo unroll */
    int ncolors[MIR_CLASSES];
    treg *registers[MIR_CLASSES]; /* by color */
    int64_t turns;                /* of the kernel; 0: all is flat */
    int64_t lead;                 /* iterations that start in the prologue */
};

/* ---- room in a row ---- */

struct names { /* registers that ports carry, as small numbers */
    int keys[PACK_MOST * 4], count;
};

static treg name_of(struct names *names, int key) {
    for (int i = 0; i < names->count; i++)
        if (names->keys[i] == key) return i + 1;
    names->keys[names->count++] = key;
    return names->count;
}

/* The same register in a row: the same value of the same iteration, or one that all share. */
static void name_refs(const struct pipeliner *p, struct mop *op, int index, int stage,
                      struct names *names) {
    struct mir_ref reads[MIR_MOST_READS], write;
    int n = mir_refs(op, reads, &write);
    for (int k = 0; k < n; k++) {
        int value = p->body.refs[index].reads[k];
        bool port = reads[k].class == MIR_S && reads[k].reg != &op->d && reads[k].reg != &op->a;
        int key = value < 0 ? 2 * *reads[k].reg + 1 : 2 * (value + p->body.nvalues * stage);
        *reads[k].reg = port ? name_of(names, key) : 1;
    }
    if (write.reg) *write.reg = 1;
}

static bool slots_hold(const struct pipeliner *p, int row, const int *ops, int n) {
    int used[TPU_CLASSES] = {0};
    used[TPU_CLASS_MISC] = row == p->branch_row;
    for (int i = 0; i < n; i++)
        if (++used[p->slot[ops[i]]] > mir_slots[p->slot[ops[i]]]) return false;
    return true;
}

static bool fits(void *user, int row, const int *ops, int n) {
    const struct pipeliner *p = user;
    struct mop copies[PACK_MOST + 1];
    const struct mop *list[PACK_MOST + 1];
    struct tpu_bundle bundle = {0};
    struct packing packing = {.bundle = &bundle};
    struct names names = {.count = 0};
    int count = 0, needing = 0, order[PACK_MOST];
    if (n >= PACK_MOST || !slots_hold(p, row, ops, n)) return false;
    if (!p->needs[ops[n - 1]]) return true;
    /* Those that need more than a slot, in the order of the body, as code is emitted. */
    for (int i = 0, j; i < n; i++) {
        if (!p->needs[ops[i]]) continue;
        for (j = needing++; j > 0 && order[j - 1] > ops[i]; j--)
            order[j] = order[j - 1];
        order[j] = ops[i];
    }
    if (row == p->branch_row) copies[count++] = (struct mop){.op = TPU_BDNZ, .a = 1};
    for (int i = 0; i < needing; i++, count++) {
        /* The candidate has no cycle yet: its values' ports count as if nobody shared them. */
        int op = order[i], cycle = p->m.cycle[op];
        copies[count] = p->body.ops[op];
        name_refs(p, &copies[count], op, cycle < 0 ? -1 - op : cycle / p->m.ii, &names);
    }
    for (int i = 0; i < count; i++)
        list[i] = &copies[i];
    return pack_row(&packing, list, count);
}

/* ---- what FIFOs allow ---- */

static int floor_div(int a, int b) {
    return a / b - (a % b < 0);
}

static int at(const int *cycles, int op, int moved, int cycle) {
    return op == moved ? cycle : cycles[op];
}

/* Pushes hold their unit. And two pairs of push and pop must come in equal order, whatever
 * iterations they belong to: distances that round to the same number of iterations. */
static bool clash(void *user, const int *cycles, int op, int cycle, int other, int ii) {
    const struct pipeliner *p = user;
    const struct loop_body *body = &p->body;
    int partner = body->partner[op], others = body->partner[other];
    if (partner < 0 || others < 0 || other == partner) return false;
    const struct tpu_op_info *a = tpu_op_info(body->ops[op].op),
                             *b = tpu_op_info(body->ops[other].op);
    bool push = a->slot == TPU_CLASS_MISC, pushes = b->slot == TPU_CLASS_MISC;
    if (push && pushes) {
        int apart = ((cycle - cycles[other]) % ii + ii) % ii;
        if (apart < b->latency || (apart && ii - apart < a->latency)) return true;
    }
    if (push != pushes || cycles[partner] < 0 || cycles[others] < 0) return false;
    int mine = at(cycles, op, op, cycle) - cycles[other], theirs = cycles[partner] - cycles[others];
    if (mine % ii == 0 || theirs % ii == 0) return true;
    return floor_div(mine, ii) != floor_div(theirs, ii);
}

/* Results of units with partners that are under way at once. */
static bool fifos_hold(const struct pipeliner *p) {
    const struct loop_body *body = &p->body;
    int ii = p->m.ii;
    const int *cycle = p->m.cycle;
    for (int i = 0; i < body->count; i++) {
        int under_way = 0;
        if (body->partner[i] < 0 || tpu_op_info(body->ops[i].op)->slot != TPU_CLASS_MISC) continue;
        for (int j = 0; j < body->count; j++) {
            if (body->unit[j] != body->unit[i] || body->partner[j] < 0 ||
                tpu_op_info(body->ops[j].op)->slot != TPU_CLASS_MISC)
                continue;
            under_way += floor_div(cycle[i] - cycle[j], ii) -
                         floor_div(cycle[i] - cycle[body->partner[j]], ii);
        }
        if (under_way > body->mir->units[body->unit[i]].fifo) return false;
    }
    return true;
}

/* ---- registers ---- */

struct arc { /* of a value of one iteration, in the unrolled kernel's cycles */
    int value, copy, start, length;
};

static bool overlap(const struct arc *a, const struct arc *b, int around) {
    int apart = ((b->start - a->start) % around + around) % around;
    return apart < a->length || (apart && around - apart < b->length) ||
           (!apart && a->length && b->length);
}

static int by_start(const void *x, const void *y) {
    const struct arc *a = x, *b = y;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return a->value != b->value ? (a->value < b->value ? -1 : 1) : a->copy - b->copy;
}

/* First fit over arcs by their start. */
static void color_class(struct pipeliner *p, enum mir_class class) {
    struct loop_body *body = &p->body;
    int around = p->unroll * p->m.ii, n = 0;
    size_t most = (size_t)body->nvalues * (size_t)p->unroll + 1;
    struct arc *arcs = arena_array(body->arena, most, sizeof *arcs);
    int *colors = arena_array(body->arena, most, sizeof *colors);
    for (int v = 0; v < body->nvalues; v++) {
        if (body->classes[v] != class) continue;
        for (int c = 0; c < p->unroll; c++)
            arcs[n++] =
                (struct arc){v, c, (p->m.cycle[body->values[v].ops[0]] + c * p->m.ii) % around,
                             modulo_lifetime(&p->m, &body->values[v])};
    }
    qsort(arcs, (size_t)n, sizeof *arcs, by_start);
    p->ncolors[class] = 0;
    for (int i = 0; i < n; i++) {
        bool taken[TPU_SREGS + 1] = {false};
        int color = 0;
        for (int j = 0; j < i; j++)
            if (colors[j] <= TPU_SREGS && overlap(&arcs[i], &arcs[j], around))
                taken[colors[j]] = true;
        while (color < TPU_SREGS && taken[color])
            color++;
        colors[i] = color;
        p->colors[arcs[i].value * p->unroll + arcs[i].copy] = color;
        if (color >= p->ncolors[class]) p->ncolors[class] = color + 1;
    }
}

/* Chooses how often the kernel is unrolled, and registers. */
static bool color_values(struct pipeliner *p, unsigned tight) {
    struct loop_body *body = &p->body;
    p->unroll = 1;
    for (int v = 0; v < body->nvalues; v++) {
        int lives = modulo_lifetime(&p->m, &body->values[v]);
        int copies = (lives + p->m.ii - 1) / p->m.ii;
        if (copies > p->unroll) p->unroll = copies;
    }
    while (p->unroll * p->m.ii < TPU_BRANCH_DELAY + 1)
        p->unroll++;
    if (p->unroll > MOST_UNROLL) return false;
    p->colors = arena_array(body->arena, (size_t)(body->nvalues * p->unroll) + 1, sizeof(int));
    for (int class = MIR_S; class < MIR_CLASSES; class ++) {
        color_class(p, (enum mir_class) class);
        int left = mir_registers[class] - body->shared[class];
        if (tight >> class & 1) left -= mir_spare[class];
        if (class == MIR_S) left--; /* what counts the kernel's turns */
        if (p->ncolors[class] > left) return false;
    }
    return true;
}

/* ---- choosing a schedule ---- */

static void measure(struct pipeliner *p) {
    const struct loop_body *body = &p->body;
    int last = 0;
    p->length = 0;
    for (int i = 0; i < body->count; i++) {
        int end = p->m.cycle[i] + loop_body_occupies(body, i);
        if (p->m.cycle[i] > last) last = p->m.cycle[i];
        if (end > p->length) p->length = end;
    }
    p->stages = last / p->m.ii + 1;
}

/* Cycles of all iterations: the last one starts (trips - 1) * ii after the first. */
static int64_t total_cycles(const struct pipeliner *p) {
    return (p->body.trips - 1) * p->m.ii + p->length;
}

/* How the flat sequence is divided, as short as it can be; bundles that are not empty, at most. */
static int64_t divide(struct pipeliner *p) {
    int64_t trips = p->body.trips, steady = trips - p->stages + 1, ii = p->m.ii;
    int64_t bundles = total_cycles(p), written = trips; /* iterations in the code */
    p->turns = 0;
    p->lead = trips;
    if (steady >= 2 * p->unroll) {
        p->turns = steady / p->unroll;
        p->lead = p->stages - 1 + steady % p->unroll;
        bundles -= (p->turns - 1) * p->unroll * ii;
        written -= (p->turns - 1) * p->unroll;
    }
    return written * p->body.count < bundles ? written * p->body.count : bundles;
}

static bool try_ii(struct pipeliner *p, int ii, unsigned tight) {
    p->m.ii = ii;
    p->branch_row = (ii * (TPU_BRANCH_DELAY + 1) - TPU_BRANCH_DELAY - 1) % ii;
    if (!modulo_schedule(&p->m) || !fifos_hold(p)) return false;
    measure(p);
    return color_values(p, tight);
}

/* Cycles of one iteration where none overlap, waits for results of the one before included. */
static int plain_length(struct pipeliner *p, int length, int least) {
    p->m.ii = length + least;
    p->m.nvalues = 0; /* however long they live */
    p->branch_row = -1;
    bool found = modulo_schedule(&p->m);
    p->m.nvalues = p->body.nvalues;
    if (!found) return length;
    measure(p);
    if (p->length < least) p->length = least;
    for (int e = 0; e < p->body.nedges; e++) {
        const struct modulo_edge *edge = &p->body.edges[e];
        int wait = p->m.cycle[edge->from] + edge->latency - p->m.cycle[edge->to];
        if (edge->distance && wait > p->length * edge->distance)
            p->length = (wait + edge->distance - 1) / edge->distance;
    }
    return p->length;
}

/* Whether the cycles that are saved, also in loops around, are worth the bundles that it takes. */
static bool is_worth_it(struct pipeliner *p, int plain, int depth) {
    int64_t saved = p->body.trips * plain - total_cycles(p), bundles = divide(p) - plain;
    for (int d = 1; d < depth && d < 4; d++)
        bundles /= 4;
    return saved > 0 && saved > bundles / 2 && divide(p) <= MOST_BUNDLES;
}

static void find_needs(struct pipeliner *p) {
    struct loop_body *body = &p->body;
    p->slot = arena_array(body->arena, (size_t)body->count + 1, sizeof *p->slot);
    p->needs = arena_array(body->arena, (size_t)body->count + 1, sizeof *p->needs);
    for (int i = 0; i < body->count; i++) {
        struct tpu_bundle bundle = {0};
        struct packing packing = {.bundle = &bundle};
        p->slot[i] = (uint8_t)tpu_op_info(body->ops[i].op)->slot;
        p->needs[i] = !pack_op(&packing, &body->ops[i]) || packing.imms || packing.ports;
    }
}

static void prepare(struct pipeliner *p) {
    const struct loop_body *body = &p->body;
    p->m = (struct modulo){.arena = body->arena,
                           .count = body->count,
                           .edges = body->edges,
                           .nedges = body->nedges,
                           .values = body->values,
                           .nvalues = body->nvalues,
                           .fits = fits,
                           .group = body->unit,
                           .clash = clash,
                           .user = p};
    find_needs(p);
}

/* A kernel that would be long is one iteration instead of several, where moves from register to
 * register make that possible: about as fast, and a fraction of the code. */
static void shorten_kernel(struct pipeliner *p, unsigned tight, int plain) {
    enum { LONG = 48 };
    struct pipeliner q = *p;
    int ii = p->m.ii;
    if (p->unroll == 1 || p->unroll * ii < LONG || !loop_body_add_moves(&q.body, &p->m)) return;
    prepare(&q);
    for (int more = 0; more <= ii / 16 && ii + more < plain; more++) {
        if (!try_ii(&q, ii + more, tight) || q.unroll > 1) continue;
        *p = q;
        p->m.user = p;
        return;
    }
}

/* The least ii for which all fits, as long as it is faster than one iteration after the other. */
static bool choose_schedule(struct pipeliner *p, unsigned tight, int depth) {
    const struct loop_body *body = &p->body;
    int length = loop_body_length(body), least = loop_body_resource_ii(body);
    prepare(p);
    int plain = plain_length(p, length, least), step = 1;
    if (least >= plain) return false;
    int first = modulo_recurrence_ii(&p->m, least, plain);
    for (int ii = first, tries = 0; ii > 0 && ii < plain && tries < II_TRIES; ii += step, tries++) {
        if (tries % 4 == 3) step *= 2;
        if (!try_ii(p, ii, tight)) continue;
        shorten_kernel(p, tight, plain);
        return is_worth_it(p, plain, depth);
    }
    return false;
}

/* ---- code ---- */

struct writer {
    struct mir *mir;
    struct mblock *blocks;
    int count, capacity;
};

static struct mblock *add_block(struct writer *w, struct mblock block) {
    w->blocks = arena_grow(w->mir->arena, w->blocks, &w->capacity, w->count + 1, sizeof *w->blocks);
    w->blocks[w->count] = block;
    return &w->blocks[w->count++];
}

static void add_op(struct writer *w, struct mblock *block, const struct mop *op) {
    block->ops =
        arena_grow(w->mir->arena, block->ops, &block->capacity, block->count + 1, sizeof *op);
    block->ops[block->count++] = *op;
}

static struct mop renamed(const struct pipeliner *p, int index, int64_t iteration) {
    struct mop op = p->body.ops[index];
    struct mir_ref reads[MIR_MOST_READS], write;
    const struct body_refs *refs = &p->body.refs[index];
    int n = mir_refs(&op, reads, &write), copy = (int)(iteration % p->unroll);
    treg now[MIR_MOST_READS + 1];
    for (int k = 0; k <= n; k++) {
        struct mir_ref ref = k < n ? reads[k] : write;
        int value = k < n ? refs->reads[k] : refs->write;
        if (ref.reg) now[k] = *ref.reg;
        if (value >= 0) now[k] = p->registers[ref.class][p->colors[value * p->unroll + copy]];
    }
    for (int k = 0; k < n; k++)
        *reads[k].reg = now[k];
    if (write.reg) *write.reg = now[n];
    return op;
}

/* The flat sequence's cycles from `first` to before `end`. */
static struct mblock *add_window(struct writer *w, const struct pipeliner *p, struct mblock block,
                                 int64_t first, int64_t end) {
    int64_t ii = p->m.ii;
    block.length = (int)(end - first);
    struct mblock *out = add_block(w, block);
    for (int o = 0; o < p->body.count; o++) {
        int64_t cycle = p->m.cycle[o], i = cycle >= first ? 0 : (first - cycle + ii - 1) / ii;
        for (; i < p->body.trips && i * ii + cycle < end; i++) {
            struct mop op = renamed(p, o, i);
            op.cycle = (int)(i * ii + cycle - first);
            add_op(w, out, &op);
        }
    }
    return out;
}

static void make_registers(struct pipeliner *p, struct mir *mir) {
    for (int class = MIR_S; class < MIR_CLASSES; class ++) {
        p->registers[class] =
            arena_array(p->body.arena, (size_t)p->ncolors[class] + 1, sizeof(treg));
        for (int c = 0; c < p->ncolors[class]; c++)
            p->registers[class][c] = mir_reg(mir, (enum mir_class) class);
    }
}

static void write_loop(struct writer *w, struct pipeliner *p, const struct mblock *loop,
                       int group) {
    struct mblock block = {.depth = loop->depth - 1, .settled = true, .group = group};
    int64_t ii = p->m.ii, first = p->lead * ii, end = total_cycles(p);
    make_registers(p, w->mir);
    if (!p->turns) {
        add_window(w, p, block, 0, end);
        return;
    }
    treg turns = mir_reg(w->mir, MIR_S);
    struct mblock *before = &w->blocks[w->count - 1];
    if (before->settled || (before->count && mir_is_branch(&before->ops[before->count - 1])))
        before = add_block(w, (struct mblock){.depth = block.depth});
    add_op(w, before,
           &(struct mop){.op = TPU_SMOV, .d = turns, .bkind = MIR_B_IMM, .imm = (int32_t)p->turns});
    if (first) add_window(w, p, block, 0, first);
    int64_t around = p->unroll * ii;
    block.depth = loop->depth;
    struct mblock *kernel = add_window(w, p, block, first, first + around);
    add_op(w, kernel,
           &(struct mop){.op = TPU_BDNZ, .a = turns, .cycle = (int)around - TPU_BRANCH_DELAY - 1});
    block.depth = loop->depth - 1;
    first += p->turns * around;
    if (end > first) add_window(w, p, block, first, end);
}

/* Branches of blocks that stay name old blocks. */
static void retarget(struct writer *w, const int *now) {
    for (int b = 0; b < w->count; b++) {
        struct mblock *block = &w->blocks[b];
        for (int i = 0; i < block->count; i++) {
            struct mop *op = &block->ops[i];
            if (tpu_op_info(op->op)->imm != TPU_IMM_TARGET) continue;
            if (block->settled)
                op->target = b;
            else if (op->target >= 0)
                op->target = now[op->target];
        }
    }
}

/* Its code may change: it is a copy. */
static void copy_block(struct writer *w, const struct mblock *block) {
    struct mblock copy = *block;
    copy.ops = NULL;
    copy.count = copy.capacity = 0;
    struct mblock *out = add_block(w, copy);
    for (int i = 0; i < block->count; i++)
        add_op(w, out, &block->ops[i]);
}

/* Whether code is only entered from the block before it, and from itself. */
static bool *find_private(const struct mir *mir, struct arena *arena) {
    bool *private = arena_array(arena, (size_t)mir->nblocks + 1, sizeof *private);
    for (int b = 1; b < mir->nblocks; b++)
    private[b] = true;
    for (int b = 0; b < mir->nblocks; b++) {
        for (int i = 0; i < mir->blocks[b].count; i++) {
            const struct mop *op = &mir->blocks[b].ops[i];
            bool branch = tpu_op_info(op->op)->imm == TPU_IMM_TARGET;
            if (branch && op->target >= 0 && op->target != b) private[op->target] = false;
        }
    }
    return private;
}

void mir_pipeline(struct mir *mir, const bool *refused, const unsigned *tight) {
    struct arena *arena = arena_new();
    struct mir_liveness live;
    struct writer w = {.mir = mir};
    const bool *private = find_private(mir, arena);
    int *now = arena_array(arena, (size_t)mir->nblocks + 1, sizeof *now);
    mir_liveness(mir, arena, &live);
    const int *levels = mir_unit_levels(mir, arena);
    for (int b = 0; b < mir->nblocks; b++) {
        struct mblock *block = &mir->blocks[b];
        struct arena *scratch = arena_new();
        struct pipeliner p = {0};
        now[b] = w.count;
        if (private[b] && !refused[b] && loop_body_find(&p.body, scratch, mir, b, &live, levels) &&
            choose_schedule(&p, tight[b], block->depth))
            write_loop(&w, &p, block, b + 1);
        else
            copy_block(&w, block);
        arena_free(scratch);
    }
    retarget(&w, now);
    mir->blocks = w.blocks;
    mir->nblocks = w.count;
    mir->block_capacity = w.capacity;
    arena_free(arena);
}
