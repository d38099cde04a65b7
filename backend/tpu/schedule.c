/* Scheduling: the instructions of a block are ordered by the longest path to the block's end and
 * packed into bundles one by one. At a block's end everything under way has arrived, so that blocks
 * may follow each other in any order. */
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/mir.h"

/* Guesses of how long units take, for priorities only: pops wait. */
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
    bool smem = a->op == TPU_SLD || a->op == TPU_SST;
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
    bool smem = op->op == TPU_SLD || op->op == TPU_SST;
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
    int npushes, capacity;
    int *pops;
    int npops, pop_capacity;
};

static int unit_of(const struct mop *op, bool *push, int *results) {
    *push = true;
    *results = 1;
    switch (tpu_op_info(op->op)->effect) {
    case TPU_EFFECT_MXU_WEIGHT: *results = 0; return op->unit;
    case TPU_EFFECT_MXU_PUSH: *results = op->op == TPU_MPUSHBF ? 2 : 1; return op->unit;
    case TPU_EFFECT_MXU_POP: *push = false; return op->unit;
    case TPU_EFFECT_EUP_POP: *push = false; return TPU_MAX_UNITS;
    case TPU_EFFECT_EUP_PUSH: return TPU_MAX_UNITS;
    case TPU_EFFECT_XLU_POP: *push = false; return TPU_MAX_UNITS + 1;
    case TPU_EFFECT_XLU_PUSH:
        *results = op->op == TPU_XTR ? 0 : op->op == TPU_XTRL ? op->literal : 1;
        return TPU_MAX_UNITS + 1;
    case TPU_EFFECT_V2S_POP: *push = false; return TPU_MAX_UNITS + 2;
    case TPU_EFFECT_V2S_PUSH: return TPU_MAX_UNITS + 2;
    default: return -1;
    }
}
enum { UNITS = TPU_MAX_UNITS + 3 };

static void append_int(struct scheduler *s, int **list, int *count, int *capacity, int value) {
    *list = arena_grow(s->arena, *list, capacity, *count + 1, sizeof **list);
    (*list)[(*count)++] = value;
}

static void link_unit(struct scheduler *s, struct unit_state *units, int node) {
    bool push;
    int results, which = unit_of(&s->ops[node], &push, &results);
    if (which < 0) return;
    struct unit_state *unit = &units[which];
    if (push) {
        add_edge(s, unit->last_push, node, 1);
        unit->last_push = node;
        /* Room for its results: older ones have left. */
        int depth = which < TPU_MAX_UNITS ? s->mir->mxu_depth : s->mir->unit_depth,
            gone = unit->npushes + results - depth;
        if (results > depth) gone = unit->npushes;
        if (gone > 0 && gone <= unit->npops) add_edge(s, unit->pops[gone - 1], node, 0);
        for (int i = 0; i < results; i++)
            append_int(s, &unit->pushes, &unit->npushes, &unit->capacity, node);
        return;
    }
    add_edge(s, unit->last_pop, node, 1);
    unit->last_pop = node;
    if (unit->npops < unit->npushes) add_edge(s, unit->pushes[unit->npops], node, UNIT_LATENCY);
    append_int(s, &unit->pops, &unit->npops, &unit->pop_capacity, node);
}

/* ---- the graph ---- */

static bool is_branch(const struct mop *op) {
    return tpu_op_info(op->op)->imm == TPU_IMM_TARGET || op->op == TPU_JR || op->op == TPU_HALT ||
           op->op == TPU_TRAP;
}

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
    struct unit_state units[UNITS];
    memset(registers->writer, -1, sizeof registers->writer);
    for (int u = 0; u < UNITS; u++)
        units[u] = (struct unit_state){.last_push = -1, .last_pop = -1};
    for (int i = 0; i < s->count; i++) {
        s->nodes[i] = (struct node){
            .first_edge = -1, .cycle = -1, .latency = tpu_op_info(s->ops[i].op)->latency};
    }
    for (int i = 0; i < s->count; i++) {
        if (!is_branch(&s->ops[i])) link_effects(s, memories, units, registers, i);
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

/* ---- filling bundles ---- */

struct filling {
    struct tpu_bundle *bundle;
    uint8_t imms, ports; /* in use */
};

static int use_imm(struct filling *f, uint16_t value) {
    for (int i = TPU_IMMS - 1; i >= 0; i--)
        if ((f->imms >> i & 1) && f->bundle->imm[i] == value) return i;
    for (int i = TPU_IMMS - 1; i >= 0; i--) {
        if (f->imms >> i & 1) continue;
        f->imms |= (uint8_t)(1 << i);
        f->bundle->imm[i] = value;
        return i;
    }
    return -1;
}

static bool has_imm(const struct filling *f, int i, uint16_t value) {
    return !(f->imms >> i & 1) || f->bundle->imm[i] == value;
}

static void set_imm(struct filling *f, int i, uint16_t value) {
    f->imms |= (uint8_t)(1 << i);
    f->bundle->imm[i] = value;
}

static int use_pair(struct filling *f, uint32_t value, int first, int last) {
    for (int i = first; i <= last; i++) {
        if (!has_imm(f, 2 * i, (uint16_t)value) || !has_imm(f, 2 * i + 1, (uint16_t)(value >> 16)))
            continue;
        set_imm(f, 2 * i, (uint16_t)value);
        set_imm(f, 2 * i + 1, (uint16_t)(value >> 16));
        return i;
    }
    return -1;
}

static int use_port(struct filling *f, int reg, int first) {
    for (int i = first; i < TPU_PORTS; i++)
        if ((f->ports >> i & 1) && f->bundle->port[i] == reg) return i;
    for (int i = TPU_PORTS - 1; i >= first; i--) {
        if (f->ports >> i & 1) continue;
        f->ports |= (uint8_t)(1 << i);
        f->bundle->port[i] = (uint8_t)reg;
        return i;
    }
    return -1;
}

static int use_port_at(struct filling *f, int reg, int port) {
    if ((f->ports >> port & 1) && f->bundle->port[port] != reg) return -1;
    f->ports |= (uint8_t)(1 << port);
    f->bundle->port[port] = (uint8_t)reg;
    return port;
}

static bool fits_16(int32_t value) {
    return value >= INT16_MIN && value <= INT16_MAX;
}

/* Code of an operand that is a number; -1 where no immediate is free. */
static int operand_number(struct filling *f, int32_t value) {
    int i = tpu_constant_code((uint32_t)value);
    if (i >= 0) return i;
    if (fits_16(value)) return (i = use_imm(f, (uint16_t)value)) < 0 ? -1 : TPU_OPERAND_IMM + i;
    if ((value & 0xffff) == 0)
        return (i = use_imm(f, (uint16_t)((uint32_t)value >> 16))) < 0 ? -1 : TPU_OPERAND_HIGH + i;
    return (i = use_pair(f, (uint32_t)value, 0, 2)) < 0 ? -1 : TPU_OPERAND_PAIR + i;
}

static bool fill_operands(struct filling *f, const struct mop *op, const struct tpu_op_info *info,
                          struct tpu_instr *instr) {
    int code = 0;
    instr->dest = (uint8_t)(op->d > 0 ? op->d - 1 : 0);
    instr->a = (uint8_t)(op->a > 0 ? op->a - 1 : 0);
    if (info->a == TPU_KIND_F || info->a == TPU_KIND_N) instr->a = (uint8_t)op->literal;
    if (info->b == TPU_KIND_N)
        code = op->literal;
    else if (op->bkind == MIR_B_REG)
        code = op->b > 0 ? op->b - 1 : 0;
    else if (op->bkind == MIR_B_IMM)
        code = operand_number(f, op->imm);
    else if (op->bkind == MIR_B_SCALAR)
        code = use_port(f, op->b - 1, 0);
    if (code < 0) return false;
    if (op->bkind == MIR_B_SCALAR) code += TPU_OPERAND_PORT;
    instr->b = (uint8_t)code;
    return true;
}

static bool fill_address(struct filling *f, const struct mop *op, struct tpu_instr *instr) {
    int i = 0;
    if (op->stride_kind == MIR_STRIDE_REG) {
        if (use_port_at(f, op->stride_reg - 1, 2) < 0) return false;
        instr->stride = TPU_STRIDE_PORT2;
    } else if (op->stride_kind == MIR_STRIDE_IMM) {
        if (!has_imm(f, 5, (uint16_t)op->stride)) return false;
        set_imm(f, 5, (uint16_t)op->stride);
        instr->stride = TPU_STRIDE_IMM5;
    } else {
        instr->stride = op->stride_kind == MIR_STRIDE_0 ? TPU_STRIDE_0 : TPU_STRIDE_1;
    }
    if (op->base) {
        if ((i = use_port(f, op->base - 1, 0)) < 0) return false;
        instr->base = (uint8_t)(TPU_BASE_PORT + i);
    }
    if (op->offset == 0) {
        instr->offset = TPU_OFFSET_ZERO;
    } else if (fits_16(op->offset)) {
        if ((i = use_imm(f, (uint16_t)op->offset)) < 0) return false;
        instr->offset = (uint8_t)(TPU_OFFSET_IMM + i);
    } else {
        if (use_pair(f, (uint32_t)op->offset, 0, 0) < 0) return false;
        instr->offset = TPU_OFFSET_PAIR;
    }
    return true;
}

static bool fill_amount(struct filling *f, const struct mop *op, struct tpu_instr *instr) {
    int i;
    if (op->amount) {
        if ((i = use_port(f, op->amount - 1, 1)) < 0) return false;
        instr->imm = (uint8_t)(i == 1 ? TPU_AMOUNT_PORT1 : TPU_AMOUNT_PORT2);
        return true;
    }
    if ((i = use_imm(f, (uint16_t)op->imm)) < 0) return false;
    instr->imm = (uint8_t)(TPU_AMOUNT_IMM + i);
    return true;
}

/* A branch takes immediates 0 and 1 for itself: its target is known later. */
static bool fill_target(struct filling *f, struct tpu_instr *instr) {
    if (f->imms & 3) return false;
    f->imms |= 3;
    instr->imm = TPU_TARGET_PAIR0;
    return true;
}

static int first_slot(enum tpu_slot_class class, int *last) {
    static const struct {
        int first, last;
    } slots[] = {[TPU_CLASS_SCALAR] = {TPU_S0, TPU_S1},   [TPU_CLASS_VECTOR] = {TPU_V0, TPU_V1},
                 [TPU_CLASS_LOAD] = {TPU_LD, TPU_LD},     [TPU_CLASS_STORE] = {TPU_ST, TPU_ST},
                 [TPU_CLASS_PUSH] = {TPU_PUSH, TPU_PUSH}, [TPU_CLASS_POP] = {TPU_POP, TPU_POP},
                 [TPU_CLASS_MISC] = {TPU_MISC, TPU_MISC}};
    *last = slots[class].last;
    return slots[class].first;
}

static void fill_predicate(const struct mop *op, struct tpu_instr *instr) {
    instr->pred = TPU_ALWAYS;
    if (op->pred)
        instr->pred = (uint8_t)((op->unless ? TPU_UNLESS_P1 : TPU_IF_P1) + (op->pred - 1) - 1);
}

static bool fill(struct filling *state, const struct mop *op) {
    const struct tpu_op_info *info = tpu_op_info(op->op);
    struct tpu_bundle copy = *state->bundle;
    struct filling f = *state;
    int last, slot = first_slot(info->slot, &last);
    f.bundle = &copy;
    while (slot <= last && copy.slot[slot].op != TPU_EMPTY)
        slot++;
    if (slot > last) return false;
    struct tpu_instr *instr = &copy.slot[slot];
    *instr = (struct tpu_instr){.op = op->op, .unit = op->unit, .flags = op->flags};
    fill_predicate(op, instr);
    instr->mask = (uint8_t)(op->mask ? op->mask - 1 : 0);
    if (!fill_operands(&f, op, info, instr)) return false;
    bool memory = info->slot == TPU_CLASS_LOAD || info->slot == TPU_CLASS_STORE;
    if (memory && !fill_address(&f, op, instr)) return false;
    if (info->imm == TPU_IMM_AMOUNT && !fill_amount(&f, op, instr)) return false;
    if (info->imm == TPU_IMM_TARGET && !fill_target(&f, instr)) return false;
    *state->bundle = copy;
    state->imms = f.imms;
    state->ports = f.ports;
    return true;
}

/* ---- the list ---- */

static void new_bundle(struct scheduler *s) {
    struct mir_code *code = s->code;
    code->bundles = arena_grow(code->arena, code->bundles, &code->capacity, code->count + 1,
                               sizeof *code->bundles);
    memset(&code->bundles[code->count++], 0, sizeof *code->bundles);
}

/* Which bundle of the block has what room left. */
struct packing {
    struct filling *fillings;
    int count, capacity;
};

static struct filling *filling_at(struct scheduler *s, struct packing *packing, int cycle) {
    while (packing->count <= cycle) {
        packing->fillings = arena_grow(s->arena, packing->fillings, &packing->capacity,
                                       packing->count + 1, sizeof *packing->fillings);
        packing->fillings[packing->count++] = (struct filling){0};
        new_bundle(s);
    }
    struct filling *filling = &packing->fillings[cycle];
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

static int place_all(struct scheduler *s, struct packing *packing) {
    int n = s->count, next = 0, left = n, cycle = 0, window = 0, end = 0;
    int list[WINDOW];
    bool *refused = arena_array(s->arena, (size_t)n + 1, sizeof *refused);
    for (; left; cycle++) {
        struct filling *filling = filling_at(s, packing, cycle);
        int tried[WINDOW], ntried = 0;
        while (window < WINDOW && next < n)
            list[window++] = next++;
        for (int i; (i = choose(s, list, window, cycle, refused)) >= 0;) {
            if (is_branch(&s->ops[i])) break;
            if (!fill(filling, &s->ops[i])) {
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

/* Branches end the block, in their order; what is under way arrives in their shadow. */
static void place_branches(struct scheduler *s, struct packing *packing, int nbranches, int end) {
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
        while (!fill(filling_at(s, packing, cycle), op))
            cycle++;
        if (tpu_op_info(op->op)->imm == TPU_IMM_TARGET) {
            code->fixups = arena_grow(code->arena, code->fixups, &code->fixup_capacity,
                                      code->nfixups + 1, sizeof *code->fixups);
            code->fixups[code->nfixups++] = (struct mir_fixup){s->start + cycle, op->target};
        }
        filling_at(s, packing, cycle + (ends ? 0 : TPU_BRANCH_DELAY));
    }
}

static void schedule_block(struct mir *mir, struct mblock *block, struct mir_code *code) {
    struct scheduler s = {.arena = arena_new(), .ops = block->ops, .code = code, .mir = mir};
    struct packing packing = {0};
    int nbranches = 0;
    block->address = s.start = code->count;
    s.count = block->count;
    s.nodes = arena_array(s.arena, (size_t)block->count + 1, sizeof *s.nodes);
    build_graph(&s);
    while (nbranches < block->count && is_branch(&block->ops[block->count - 1 - nbranches]))
        nbranches++;
    s.count -= nbranches;
    int end = place_all(&s, &packing);
    if (nbranches)
        place_branches(&s, &packing, nbranches, end);
    else if (end > 0)
        filling_at(&s, &packing, end - 1);
    arena_free(s.arena);
}

const char *mir_schedule(struct mir *mir, struct mir_code *code) {
    int first = code->nfixups;
    for (int b = 0; b < mir->nblocks; b++) {
        const struct mblock *block = &mir->blocks[b];
        for (int i = 0; i + 1 < block->count; i++)
            if (is_branch(&block->ops[i]) && !is_branch(&block->ops[i + 1]))
                return "a branch stands within a block";
    }
    for (int b = 0; b < mir->nblocks; b++)
        schedule_block(mir, &mir->blocks[b], code);
    for (int i = first; i < code->nfixups; i++)
        if (code->fixups[i].target >= 0)
            code->fixups[i].target = mir->blocks[code->fixups[i].target].address;
    return NULL;
}
