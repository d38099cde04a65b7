/* Scheduling: the instructions of a block are ordered by the longest path to the block's end and
 * packed into bundles one by one. At a block's end everything under way has arrived, so that blocks
 * may follow each other in any order. */
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/pack.h"

/* A guess of how long a unit takes where its FIFO's state is not known: pops wait. */
enum { UNIT_LATENCY = 12 };

struct edge {
    int to, latency, next;
};

struct node {
    int first_edge;
    int waiting;  /* predecessors not yet placed */
    int ready;    /* earliest bundle */
    int priority; /* bundles from its issue to the block's end */
    int latency;  /* of its result */
    int cycle;    /* -1: not placed */
};

struct scheduler {
    struct arena *arena;
    struct mop *ops;
    int count;
    struct node *nodes;
    struct edge *edges;
    int nedges, edge_capacity;
    struct mir_code *code;
    int start; /* bundle of the block's first */
    const struct mir *mir;
    const int *levels; /* of units, where the block begins: mir_unit_levels */
};

static void add_edge(struct scheduler *s, int from, int to, int latency) {
    if (from < 0 || from == to) return;
    s->edges = arena_grow(s->arena, s->edges, &s->edge_capacity, s->nedges + 1, sizeof *s->edges);
    s->edges[s->nedges] = (struct edge){to, latency, s->nodes[from].first_edge};
    s->nodes[from].first_edge = s->nedges++;
    s->nodes[to].waiting++;
}

/* ---- registers ---- */

struct readers {
    int *nodes;
    int count, capacity;
};

struct register_state {
    int writer[TPU_REGS];
    struct readers readers[TPU_REGS]; /* since the last write */
};

static int register_number(enum mir_class class, int phys) {
    static const int base[] = {
        [MIR_S] = TPU_REG_S, [MIR_V] = TPU_REG_V, [MIR_M] = TPU_REG_M, [MIR_P] = TPU_REG_P};
    return base[class] + phys;
}

/* mir_refs treats register 0 as none; physical s0 and v0 are registers. */
static int physical_refs(const struct mop *op, int reads[MIR_MOST_READS], int *write) {
    struct mop shifted = *op;
    struct mir_ref refs[MIR_MOST_READS], written;
    int n = mir_refs(&shifted, refs, &written);
    for (int k = 0; k < n; k++)
        reads[k] = register_number(refs[k].class, *refs[k].reg - 1);
    *write = written.reg ? register_number(written.class, *written.reg - 1) : -1;
    return n;
}

static void add_reader(struct scheduler *s, struct readers *readers, int node) {
    readers->nodes = arena_grow(s->arena, readers->nodes, &readers->capacity, readers->count + 1,
                                sizeof *readers->nodes);
    readers->nodes[readers->count++] = node;
}

static void link_registers(struct scheduler *s, struct register_state *state, int node) {
    int reads[MIR_MOST_READS], write;
    int n = physical_refs(&s->ops[node], reads, &write);
    for (int k = 0; k < n; k++) {
        int writer = state->writer[reads[k]];
        if (writer >= 0) add_edge(s, writer, node, s->nodes[writer].latency);
        add_reader(s, &state->readers[reads[k]], node);
    }
    if (write < 0) return;
    struct readers *readers = &state->readers[write];
    for (int i = 0; i < readers->count; i++)
        add_edge(s, readers->nodes[i], node, 0);
    int writer = state->writer[write];
    if (writer >= 0) add_edge(s, writer, node, s->nodes[writer].latency);
    readers->count = 0;
    state->writer[write] = node;
}

/* ---- memories ---- */

enum { MEMORY_SMEM, MEMORY_VMEM, MEMORIES };

struct access {
    int node, tag;
    bool store;
    int base_writer; /* node that made the base's value; -1: before the block */
};

struct memory_state {
    struct access *accesses; /* since the last barrier */
    int count, capacity;
    int barrier;
};

/* Rows (or words) from the same base that do not overlap. */
static bool are_apart(const struct scheduler *s, const struct access *x, const struct access *y) {
    const struct mop *a = &s->ops[x->node], *b = &s->ops[y->node];
    bool smem = mir_is_smem(a);
    if (smem) {
        if (a->a != b->a || x->base_writer != y->base_writer) return false;
        return a->bkind == MIR_B_IMM && b->bkind == MIR_B_IMM && a->imm != b->imm;
    }
    if (a->base != b->base || (a->base && x->base_writer != y->base_writer)) return false;
    if (a->stride_kind > MIR_STRIDE_0 || b->stride_kind > MIR_STRIDE_0) return false;
    int64_t apart = (int64_t)a->offset - b->offset;
    int rows = (apart < 0 ? a : b)->stride_kind == MIR_STRIDE_1 ? TPU_SUBLANES : 1;
    return (apart < 0 ? -apart : apart) >= rows;
}

static void link_memory(struct scheduler *s, struct memory_state *memory,
                        const struct register_state *registers, int node, bool store) {
    const struct mop *op = &s->ops[node];
    int tag = op->tag;
    bool smem = mir_is_smem(op);
    treg base = smem ? op->a : op->base;
    struct access access = {node, tag, store, -1};
    if (base) access.base_writer = registers->writer[register_number(MIR_S, base - 1)];
    for (int i = memory->count - 1; i >= 0; i--) {
        const struct access *other = &memory->accesses[i];
        if (!store && !other->store) continue;
        if (tag && other->tag && tag != other->tag) continue;
        if (are_apart(s, &access, other)) continue;
        add_edge(s, other->node, node, 1);
    }
    add_edge(s, memory->barrier, node, 1);
    memory->accesses = arena_grow(s->arena, memory->accesses, &memory->capacity, memory->count + 1,
                                  sizeof *memory->accesses);
    memory->accesses[memory->count++] = access;
}

static void link_barrier(struct scheduler *s, struct memory_state *memory, int node) {
    for (int i = 0; i < memory->count; i++)
        add_edge(s, memory->accesses[i].node, node, 1);
    add_edge(s, memory->barrier, node, 1);
    memory->count = 0;
    memory->barrier = node;
}

/* ---- units: results leave in the order in which work came in ---- */

struct unit_state {
    int last_push, last_pop;
    int *pushes; /* of results, in order */
    int *number; /* of each result, of its push */
    int number_capacity;
    int npushes, capacity;
    int *pops;
    int npops, pop_capacity;
};

static void append_int(struct scheduler *s, int **list, int *count, int *capacity, int value) {
    *list = arena_grow(s->arena, *list, capacity, *count + 1, sizeof **list);
    (*list)[(*count)++] = value;
}

static void link_unit(struct scheduler *s, struct unit_state *units, int node) {
    bool push;
    int results, which = mir_unit_of(&s->ops[node], &push, &results);
    if (which < 0) return;
    struct unit_state *unit = &units[which];
    if (push) {
        add_edge(s, unit->last_push, node, 1);
        unit->last_push = node;
        /* Room for its results: older ones have left. */
        int level = s->levels[which];
        int depth = which < TPU_MAX_UNITS ? s->mir->mxu_depth
                    : level < 0           ? s->mir->unit_depth
                                          : s->mir->units[which].fifo - level;
        int gone = unit->npushes + results - depth;
        if (results > depth) gone = unit->npushes;
        if (gone > 0 && gone <= unit->npops) add_edge(s, unit->pops[gone - 1], node, 0);
        for (int i = 0; i < results; i++) {
            int n = unit->npushes;
            append_int(s, &unit->number, &n, &unit->number_capacity, i);
            append_int(s, &unit->pushes, &unit->npushes, &unit->capacity, node);
        }
        return;
    }
    add_edge(s, unit->last_pop, node, 1);
    unit->last_pop = node;
    int level = s->levels[which], result = unit->npops - (level > 0 ? level : 0);
    if (result >= 0 && result < unit->npushes) {
        int push = unit->pushes[result];
        int latency = mir_result_latency(s->mir, &s->ops[push], unit->number[result]);
        add_edge(s, push, node, level < 0 ? UNIT_LATENCY : latency);
    }
    append_int(s, &unit->pops, &unit->npops, &unit->pop_capacity, node);
}

/* ---- the graph ---- */

static void link_effects(struct scheduler *s, struct memory_state *memories,
                         struct unit_state *units, const struct register_state *registers,
                         int node) {
    switch (tpu_op_info(s->ops[node].op)->effect) {
    case TPU_EFFECT_SMEM_READ:
        link_memory(s, &memories[MEMORY_SMEM], registers, node, false);
        break;
    case TPU_EFFECT_SMEM_WRITE:
        link_memory(s, &memories[MEMORY_SMEM], registers, node, true);
        break;
    case TPU_EFFECT_VMEM_READ:
        link_memory(s, &memories[MEMORY_VMEM], registers, node, false);
        break;
    case TPU_EFFECT_VMEM_WRITE:
        link_memory(s, &memories[MEMORY_VMEM], registers, node, true);
        break;
    case TPU_EFFECT_DMA:
    case TPU_EFFECT_SYNC:
    case TPU_EFFECT_CONTROL:
        link_barrier(s, &memories[MEMORY_SMEM], node);
        link_barrier(s, &memories[MEMORY_VMEM], node);
        break;
    default: link_unit(s, units, node); break;
    }
}

static void build_graph(struct scheduler *s) {
    struct register_state *registers = arena_alloc(s->arena, sizeof *registers);
    struct memory_state memories[MEMORIES] = {{.barrier = -1}, {.barrier = -1}};
    struct unit_state units[MIR_UNITS];
    memset(registers->writer, -1, sizeof registers->writer);
    for (int u = 0; u < MIR_UNITS; u++)
        units[u] = (struct unit_state){.last_push = -1, .last_pop = -1};
    for (int i = 0; i < s->count; i++) {
        s->nodes[i] = (struct node){
            .first_edge = -1, .cycle = -1, .latency = tpu_op_info(s->ops[i].op)->latency};
    }
    for (int i = 0; i < s->count; i++) {
        if (!mir_is_branch(&s->ops[i])) link_effects(s, memories, units, registers, i);
        link_registers(s, registers, i);
    }
    for (int i = s->count - 1; i >= 0; i--) {
        struct node *node = &s->nodes[i];
        node->priority = node->latency;
        for (int e = node->first_edge; e >= 0; e = s->edges[e].next) {
            int path = s->edges[e].latency + s->nodes[s->edges[e].to].priority;
            if (path > node->priority) node->priority = path;
        }
    }
}

/* ---- the list ---- */

static void new_bundle(struct scheduler *s) {
    struct mir_code *code = s->code;
    code->bundles = arena_grow(code->arena, code->bundles, &code->capacity, code->count + 1,
                               sizeof *code->bundles);
    memset(&code->bundles[code->count++], 0, sizeof *code->bundles);
}

/* Which bundle of the block has what room left. */
struct block_code {
    struct packing *bundles;
    int count, capacity;
};

static struct packing *filling_at(struct scheduler *s, struct block_code *packed, int cycle) {
    while (packed->count <= cycle) {
        packed->bundles = arena_grow(s->arena, packed->bundles, &packed->capacity,
                                     packed->count + 1, sizeof *packed->bundles);
        packed->bundles[packed->count++] = (struct packing){0};
        new_bundle(s);
    }
    struct packing *filling = &packed->bundles[cycle];
    filling->bundle = &s->code->bundles[s->start + cycle];
    return filling;
}

static void placed(struct scheduler *s, int index, int cycle) {
    struct node *node = &s->nodes[index];
    node->cycle = cycle;
    for (int e = node->first_edge; e >= 0; e = s->edges[e].next) {
        struct node *to = &s->nodes[s->edges[e].to];
        to->waiting--;
        if (cycle + s->edges[e].latency > to->ready) to->ready = cycle + s->edges[e].latency;
    }
}

/* The unplaced instruction that could go into this bundle and matters most. */
static int choose(const struct scheduler *s, const int *list, int n, int cycle,
                  const bool *refused) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        const struct node *node = &s->nodes[list[i]];
        if (node->waiting || node->ready > cycle || refused[list[i]]) continue;
        if (best < 0 || node->priority > s->nodes[best].priority) best = list[i];
    }
    return best;
}

/* How far the list of candidates looks ahead in program order: bounds the work. */
enum { WINDOW = 160 };

static int place_all(struct scheduler *s, struct block_code *packed) {
    int n = s->count, next = 0, left = n, cycle = 0, window = 0, end = 0;
    int list[WINDOW];
    bool *refused = arena_array(s->arena, (size_t)n + 1, sizeof *refused);
    for (; left; cycle++) {
        struct packing *filling = filling_at(s, packed, cycle);
        int tried[WINDOW], ntried = 0;
        while (window < WINDOW && next < n)
            list[window++] = next++;
        for (int i; (i = choose(s, list, window, cycle, refused)) >= 0;) {
            if (mir_is_branch(&s->ops[i])) break;
            if (!pack_op(filling, &s->ops[i])) {
                refused[i] = true;
                tried[ntried++] = i;
                continue;
            }
            placed(s, i, cycle);
            left--;
            if (cycle + s->nodes[i].latency > end) end = cycle + s->nodes[i].latency;
            if (cycle + 1 > end) end = cycle + 1;
            int at = 0;
            while (list[at] != i)
                at++;
            list[at] = list[--window];
            if (next < n) list[window++] = next++;
        }
        for (int i = 0; i < ntried; i++)
            refused[tried[i]] = false;
    }
    return end;
}

static void add_fixup(struct mir_code *code, int bundle, int target) {
    code->fixups = arena_grow(code->arena, code->fixups, &code->fixup_capacity, code->nfixups + 1,
                              sizeof *code->fixups);
    code->fixups[code->nfixups++] = (struct mir_fixup){bundle, target};
}

/* A block whose schedule is settled: every instruction goes to its cycle. */
static bool pack_settled(struct mblock *block, struct mir_code *code) {
    struct arena *arena = arena_new();
    struct scheduler s = {.arena = arena, .code = code};
    const struct mop *(*rows)[PACK_MOST] = arena_array(arena, (size_t)block->length, sizeof *rows);
    int *counts = arena_array(arena, (size_t)block->length + 1, sizeof *counts);
    bool ok = true;
    block->address = code->count;
    for (int i = 0; i < block->count && ok; i++) {
        const struct mop *op = &block->ops[i];
        ok = op->cycle < block->length && counts[op->cycle] < PACK_MOST;
        if (ok) rows[op->cycle][counts[op->cycle]++] = op;
        if (ok && tpu_op_info(op->op)->imm == TPU_IMM_TARGET)
            add_fixup(code, block->address + op->cycle, op->target);
    }
    for (int c = 0; c < block->length && ok; c++) {
        new_bundle(&s);
        struct packing packing = {.bundle = &code->bundles[code->count - 1]};
        ok = pack_row(&packing, rows[c], counts[c]);
    }
    arena_free(arena);
    return ok;
}

/* Branches end the block, in their order; what is under way arrives in their shadow. */
static void place_branches(struct scheduler *s, struct block_code *packed, int nbranches, int end) {
    int first = s->count, ready = end - TPU_BRANCH_DELAY - 1, cycle = 0;
    struct mir_code *code = s->code;
    for (int i = 0; i < nbranches; i++) {
        const struct node *node = &s->nodes[first + i];
        const struct mop *op = &s->ops[first + i];
        bool last = i + 1 == nbranches, ends = op->op == TPU_HALT || op->op == TPU_TRAP;
        if (ends) ready = end;
        if (i) cycle += TPU_BRANCH_DELAY + 1;
        if (last || ends)
            while (cycle < ready)
                cycle++;
        if (node->ready > cycle) cycle = node->ready;
        while (!pack_op(filling_at(s, packed, cycle), op))
            cycle++;
        if (tpu_op_info(op->op)->imm == TPU_IMM_TARGET)
            add_fixup(code, s->start + cycle, op->target);
        filling_at(s, packed, cycle + (ends ? 0 : TPU_BRANCH_DELAY));
    }
}

static void schedule_block(struct mir *mir, struct mblock *block, const int *levels,
                           struct mir_code *code) {
    struct scheduler s = {
        .arena = arena_new(), .ops = block->ops, .code = code, .mir = mir, .levels = levels};
    struct block_code packed = {0};
    int nbranches = 0;
    block->address = s.start = code->count;
    s.count = block->count;
    s.nodes = arena_array(s.arena, (size_t)block->count + 1, sizeof *s.nodes);
    build_graph(&s);
    while (nbranches < block->count && mir_is_branch(&block->ops[block->count - 1 - nbranches]))
        nbranches++;
    s.count -= nbranches;
    int end = place_all(&s, &packed);
    if (nbranches)
        place_branches(&s, &packed, nbranches, end);
    else if (end > 0)
        filling_at(&s, &packed, end - 1);
    arena_free(s.arena);
}

/* The block's empty bundles, of which a wait for a result leaves many, become stalls. */
static void squeeze(struct mir_code *code, int start, int first_fixup) {
    struct arena *arena = arena_new();
    int count = code->count - start;
    int *now = arena_array(arena, (size_t)count + 1, sizeof *now);
    code->count = start + pack_squeeze(code->bundles + start, count, now);
    for (int i = first_fixup; i < code->nfixups; i++)
        code->fixups[i].bundle = start + now[code->fixups[i].bundle - start];
    arena_free(arena);
}

const char *mir_schedule(struct mir *mir, struct mir_code *code, int *group) {
    int first = code->nfixups, start = code->count;
    const int *levels = mir_unit_levels(mir, mir->arena);
    *group = 0;
    for (int b = 0; b < mir->nblocks; b++) {
        const struct mblock *block = &mir->blocks[b];
        for (int i = 0; i + 1 < block->count && !block->settled; i++)
            if (mir_is_branch(&block->ops[i]) && !mir_is_branch(&block->ops[i + 1]))
                return "a branch stands within a block";
    }
    for (int b = 0; b < mir->nblocks; b++) {
        int fixups = code->nfixups;
        if (!mir->blocks[b].settled) {
            schedule_block(mir, &mir->blocks[b], levels + b * MIR_UNITS, code);
        } else if (!pack_settled(&mir->blocks[b], code)) {
            *group = mir->blocks[b].group;
            code->count = start;
            code->nfixups = first;
            return NULL;
        }
        squeeze(code, mir->blocks[b].address, fixups);
    }
    for (int i = first; i < code->nfixups; i++)
        if (code->fixups[i].target >= 0)
            code->fixups[i].target = mir->blocks[code->fixups[i].target].address;
    return NULL;
}

/* The loops that cannot be pipelined for want of registers stay as they are, one more a round. */
const char *mir_finish(struct mir *mir, struct mir_code *code) {
    struct mir plain = *mir;
    bool *refused = arena_array(mir->arena, (size_t)plain.nblocks + 1, sizeof *refused);
    unsigned *tight = arena_array(mir->arena, (size_t)plain.nblocks + 1, sizeof *tight);
    for (;;) {
        int group;
        unsigned classes = 0, all = ~0u;
        *mir = plain;
        mir_pipeline(mir, refused, tight);
        const char *why = mir_allocate(mir, &group, &classes);
        if (!why && !group) why = mir_schedule(mir, code, &group);
        if (why || !group) return why;
        if (!classes) classes = all; /* it could not be packed */
        refused[group - 1] = (tight[group - 1] & classes) == classes;
        tight[group - 1] |= classes;
    }
}
