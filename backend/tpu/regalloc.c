/* Register allocation: linear scan over live ranges. Where registers run out, the ranges that are
 * cheapest to keep in memory go there (scalars to SMEM, vectors and masks to VMEM; constants are
 * made anew), and a few registers are set aside to carry them. */
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/mir.h"

enum { MOST_RANGES = 1 << 22 };

static const int class_first[] = {[MIR_S] = 0, [MIR_V] = 0, [MIR_M] = 1, [MIR_P] = 1};

struct range {
    int start, end; /* in half positions: reads of op i at 2i, its write at 2i + 1 */
    double weight;  /* of its uses, by loop depth */
    int phys;       /* -1: in memory */
    int slot;       /* of memory */
    int defs;
    struct mop *def; /* where there is one, which depends on nothing: made anew instead of kept */
};

struct allocator {
    struct mir *mir;
    struct arena *arena;
    struct range *ranges; /* by virtual register */
    int *order;           /* registers by start */
    int norder;
    bool reserved[MIR_CLASSES]; /* registers are set aside in this class */
};

/* ---- live ranges ---- */

static void extend(struct range *range, int position) {
    if (range->start < 0 || position < range->start) range->start = position;
    if (position > range->end) range->end = position;
}

static void extend_live(struct allocator *a, const uint64_t *set, size_t words, int position) {
    for (size_t w = 0; w < words; w++)
        for (uint64_t bits = set[w]; bits; bits &= bits - 1)
            extend(&a->ranges[w * 64 + (size_t)__builtin_ctzll(bits)], position);
}

static bool makes_constant(const struct mop *op) {
    const struct tpu_op_info *info = tpu_op_info(op->op);
    return !op->mask && !op->pred && info->effect == TPU_EFFECT_NONE && !op->a &&
           (op->bkind == MIR_B_IMM || op->bkind == MIR_B_NONE);
}

static void note_refs(struct allocator *a, struct mop *op, int position, double weight) {
    struct mir_ref reads[MIR_MOST_READS], write;
    int n = mir_refs(op, reads, &write);
    for (int k = 0; k < n; k++) {
        extend(&a->ranges[*reads[k].reg], 2 * position);
        a->ranges[*reads[k].reg].weight += weight;
    }
    if (!write.reg) return;
    struct range *range = &a->ranges[*write.reg];
    extend(range, 2 * position + 1);
    range->weight += weight;
    range->def = range->defs++ == 0 && makes_constant(op) ? op : NULL;
}

static double weight_at(int depth) {
    double weight = 1;
    for (int d = 0; d < depth && d < 6; d++)
        weight *= 10;
    return weight;
}

static int positions_of(const struct mblock *block) {
    return block->settled ? block->length : block->count;
}

/* What blocks of a settled group write keeps its register for all of the group: it may be under way
 * where one of them ends. */
static void hold_in_group(struct allocator *a, int first, const int *starts) {
    struct mir *mir = a->mir;
    int last = first;
    while (last + 1 < mir->nblocks && mir->blocks[last + 1].group == mir->blocks[first].group)
        last++;
    for (int b = first; b <= last; b++) {
        for (int i = 0; i < mir->blocks[b].count; i++) {
            struct mir_ref reads[MIR_MOST_READS], write;
            mir_refs(&mir->blocks[b].ops[i], reads, &write);
            if (!write.reg) continue;
            extend(&a->ranges[*write.reg], 2 * starts[first]);
            extend(&a->ranges[*write.reg], 2 * starts[last + 1] - 1);
        }
    }
}

static void find_ranges(struct allocator *a) {
    struct mir *mir = a->mir;
    struct mir_liveness live;
    int *starts = arena_array(a->arena, (size_t)mir->nblocks + 1, sizeof *starts);
    mir_liveness(mir, a->arena, &live);
    for (int r = 0; r < mir->nregs; r++)
        a->ranges[r] = (struct range){.start = -1, .end = -1, .phys = -1};
    for (int b = 0; b < mir->nblocks; b++) {
        struct mblock *block = &mir->blocks[b];
        double weight = weight_at(block->depth);
        int start = starts[b], end = starts[b + 1] = start + positions_of(block);
        extend_live(a, live.in + (size_t)b * live.words, live.words, 2 * start);
        for (int i = 0; i < block->count; i++)
            note_refs(a, &block->ops[i], start + (block->settled ? block->ops[i].cycle : i),
                      weight);
        int next[4], n = mir_successors(mir, b, next);
        for (int k = 0; k < n; k++)
            extend_live(a, live.in + (size_t)next[k] * live.words, live.words, 2 * end - 1);
    }
    for (int b = 0; b < mir->nblocks; b++)
        if (mir->blocks[b].group && (b == 0 || mir->blocks[b - 1].group != mir->blocks[b].group))
            hold_in_group(a, b, starts);
}

/* ---- the scan ---- */

static int by_start(const void *x, const void *y, void *user) {
    const struct range *ranges = user;
    const struct range *a = &ranges[*(const int *)x], *b = &ranges[*(const int *)y];
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return *(const int *)x < *(const int *)y ? -1 : 1;
}

static int usable(const struct allocator *a, enum mir_class class) {
    int end = class_first[class] + mir_registers[class];
    return end - (a->reserved[class] ? mir_spare[class] : 0);
}

static double cost(const struct range *range) {
    double cheap = range->def ? 0.25 : 1; /* nothing to store */
    return range->weight * cheap / (range->end - range->start + 1);
}

struct scan {
    int holder[TPU_SREGS]; /* virtual register, 0: free */
    int freed[TPU_SREGS];  /* when, so that the one longest free is taken */
};

/* The class's register that has been free longest; -1: none. */
static int take_free(const struct allocator *a, struct scan *scan, enum mir_class class,
                     int start) {
    int best = -1;
    for (int p = class_first[class]; p < usable(a, class); p++) {
        int held = scan->holder[p];
        if (held && a->ranges[held].end < start) {
            scan->freed[p] = a->ranges[held].end;
            scan->holder[p] = held = 0;
        }
        if (!held && (best < 0 || scan->freed[p] < scan->freed[best])) best = p;
    }
    return best;
}

/* False where the class must set registers aside first. */
static bool place(struct allocator *a, struct scan *scan, int reg, enum mir_class class) {
    struct range *range = &a->ranges[reg];
    int p = take_free(a, scan, class, range->start);
    if (p < 0) {
        if (!a->reserved[class]) return false;
        int cheapest = -1;
        for (int i = class_first[class]; i < usable(a, class); i++)
            if (cheapest < 0 ||
                cost(&a->ranges[scan->holder[i]]) < cost(&a->ranges[scan->holder[cheapest]]))
                cheapest = i;
        if (cost(range) <= cost(&a->ranges[scan->holder[cheapest]])) return true;
        p = cheapest;
        a->ranges[scan->holder[p]].phys = -1;
    }
    scan->holder[p] = reg;
    range->phys = p;
    return true;
}

static bool scan_class(struct allocator *a, enum mir_class class) {
    struct scan scan = {0};
    for (int p = 0; p < TPU_SREGS; p++)
        scan.freed[p] = -1;
    for (int i = 0; i < a->norder; i++) {
        int reg = a->order[i];
        if (a->mir->classes[reg] != class) continue;
        a->ranges[reg].phys = -1;
        if (!place(a, &scan, reg, class)) return false;
    }
    return true;
}

/* ---- memory for what is left ---- */

static void give_slots(struct allocator *a) {
    struct mir *mir = a->mir;
    for (int i = 0; i < a->norder; i++) {
        struct range *range = &a->ranges[a->order[i]];
        if (range->phys >= 0) continue;
        mir->spilled++;
        if (range->def) continue;
        if (mir->classes[a->order[i]] == MIR_S)
            range->slot = mir->spill_words++;
        else
            range->slot = mir->spill_rows++;
    }
}

struct rewriter {
    struct allocator *a;
    struct mblock *from, *to;
    int used[MIR_CLASSES]; /* of the registers set aside, by this instruction */
    int last_vector;       /* set aside for masks on their way */
};

static void emit(struct rewriter *w, const struct mop *op) {
    w->to->ops =
        arena_grow(w->a->mir->arena, w->to->ops, &w->to->capacity, w->to->count + 1, sizeof *op);
    w->to->ops[w->to->count++] = *op;
}

/* Tags of slots are negative, so that they meet nobody else's. */
static struct mop slot_access(struct rewriter *w, enum mir_class class, const struct range *range,
                              int phys, bool load) {
    const struct mir *mir = w->a->mir;
    struct mop op = {.tag = class == MIR_S ? -1 - 2 * range->slot : -2 - 2 * range->slot,
                     .d = phys + 1};
    if (class == MIR_S) {
        op.op = load ? TPU_SLD : TPU_SST;
        op.a = TPU_SREGS;
        op.bkind = MIR_B_IMM;
        op.imm = (int32_t)(mir->spill_word + range->slot);
    } else {
        op.op = load ? TPU_VLD : TPU_VST;
        op.offset = (int32_t)(mir->spill_row + 8 * (int64_t)range->slot);
    }
    return op;
}

static void reload(struct rewriter *w, enum mir_class class, const struct range *range, int phys) {
    if (range->def) {
        struct mop op = *range->def;
        op.d = phys + 1;
        emit(w, &op);
    } else if (class == MIR_M) {
        struct mop load = slot_access(w, class, range, w->last_vector, true);
        emit(w, &load);
        emit(w, &(struct mop){.op = TPU_VV2M, .d = phys + 1, .a = w->last_vector + 1});
    } else {
        struct mop load = slot_access(w, class, range, phys, true);
        emit(w, &load);
    }
}

static void keep(struct rewriter *w, enum mir_class class, const struct range *range, int phys) {
    struct mop store;
    if (range->def) return;
    if (class == MIR_M) {
        emit(w, &(struct mop){.op = TPU_VM2V, .d = w->last_vector + 1, .a = phys + 1});
        store = slot_access(w, class, range, w->last_vector, false);
    } else {
        store = slot_access(w, class, range, phys, false);
    }
    emit(w, &store);
}

static int spare_register(struct rewriter *w, enum mir_class class) {
    int first = usable(w->a, class);
    return first + w->used[class]++;
}

/* Virtual registers become physical ones; m0 and p0, which are no registers, stay 0. */
static void rewrite_op(struct rewriter *w, struct mop op) {
    struct mir_ref reads[MIR_MOST_READS], write;
    int n = mir_refs(&op, reads, &write), was[MIR_MOST_READS], now[MIR_MOST_READS];
    int written = write.reg ? *write.reg : 0, result = -1;
    memset(w->used, 0, sizeof w->used);
    for (int k = 0; k < n; k++) {
        const struct range *range = &w->a->ranges[*reads[k].reg];
        was[k] = *reads[k].reg;
        now[k] = range->phys;
        for (int j = 0; j < k && now[k] < 0; j++)
            if (was[j] == was[k]) now[k] = now[j];
        if (now[k] >= 0) continue;
        now[k] = spare_register(w, reads[k].class);
        reload(w, reads[k].class, range, now[k]);
    }
    if (write.reg) {
        result = w->a->ranges[written].phys;
        for (int k = 0; k < n && result < 0; k++)
            if (was[k] == written) result = now[k];
        /* A register that carries an operand can take the result: operands are read first. */
        for (int k = 0; k < n && result < 0; k++)
            if (reads[k].class == write.class && w->a->ranges[was[k]].phys < 0) result = now[k];
        if (result < 0) result = spare_register(w, write.class);
    }
    for (int k = 0; k < n; k++)
        *reads[k].reg = now[k] + 1;
    if (write.reg) *write.reg = result + 1;
    if (write.reg && w->a->ranges[written].phys < 0 && w->a->ranges[written].def) return;
    emit(w, &op);
    if (write.reg && w->a->ranges[written].phys < 0)
        keep(w, write.class, &w->a->ranges[written], result);
}

static void rewrite(struct allocator *a) {
    struct mir *mir = a->mir;
    for (int b = 0; b < mir->nblocks; b++) {
        struct mblock old = mir->blocks[b], new = old;
        new.ops = NULL;
        new.count = new.capacity = 0;
        struct rewriter w = {.a = a, .from = &old, .to = &new, .last_vector = TPU_VREGS - 1};
        if (b == 0 && a->reserved[MIR_S])
            emit(&w, &(struct mop){.op = TPU_SMOV, .d = TPU_SREGS, .bkind = MIR_B_IMM});
        for (int i = 0; i < old.count; i++)
            rewrite_op(&w, old.ops[i]);
        mir->blocks[b] = new;
    }
}

/* A settled group that refers to something in memory, for which it has no room; 0: none. *classes:
 * of that. */
static int cramped_group(struct allocator *a, unsigned *classes) {
    const struct mir *mir = a->mir;
    *classes = 0;
    for (int b = 0; b < mir->nblocks; b++) {
        for (int i = 0; i < mir->blocks[b].count && mir->blocks[b].settled; i++) {
            struct mir_ref reads[MIR_MOST_READS + 1], write;
            int n = mir_refs(&mir->blocks[b].ops[i], reads, &write);
            if (write.reg) reads[n++] = write;
            for (int k = 0; k < n; k++)
                if (a->ranges[*reads[k].reg].phys < 0) *classes |= 1u << reads[k].class;
            if (*classes) return mir->blocks[b].group;
        }
    }
    return 0;
}

const char *mir_allocate(struct mir *mir, int *group, unsigned *classes) {
    if (mir->nregs > MOST_RANGES) return "a kernel has too many values";
    struct allocator a = {.mir = mir, .arena = arena_new()};
    a.ranges = arena_array(a.arena, (size_t)mir->nregs, sizeof *a.ranges);
    a.order = arena_array(a.arena, (size_t)mir->nregs, sizeof *a.order);
    find_ranges(&a);
    for (int r = 1; r < mir->nregs; r++)
        if (a.ranges[r].start >= 0) a.order[a.norder++] = r;
    qsort_r(a.order, (size_t)a.norder, sizeof *a.order, by_start, a.ranges);
    const char *why = NULL;
    for (int class = MIR_S; class < MIR_CLASSES && !why; class ++) {
        if (scan_class(&a, (enum mir_class) class)) continue;
        if (class == MIR_P) {
            why = "a kernel needs more predicates than there are";
            break;
        }
        a.reserved[class] = true;
        scan_class(&a, (enum mir_class) class);
    }
    /* Masks travel through a vector register, and scalars of memory through a zero. */
    if (!why && a.reserved[MIR_M] && !a.reserved[MIR_V]) {
        a.reserved[MIR_V] = true;
        scan_class(&a, MIR_V);
    }
    *group = why ? 0 : cramped_group(&a, classes);
    if (!why && !*group) {
        give_slots(&a);
        rewrite(&a);
    }
    arena_free(a.arena);
    return why;
}
