#include "backend/tpu/mir.h"

#include <string.h>

const int mir_slots[TPU_CLASSES] = {
    [TPU_CLASS_SCALAR] = 2, [TPU_CLASS_VECTOR] = 2, [TPU_CLASS_LOAD] = 1, [TPU_CLASS_STORE] = 1,
    [TPU_CLASS_PUSH] = 1,   [TPU_CLASS_POP] = 1,    [TPU_CLASS_MISC] = 1};
const int mir_registers[MIR_CLASSES] = {
    [MIR_S] = TPU_SREGS, [MIR_V] = TPU_VREGS, [MIR_M] = TPU_MASKS - 1, [MIR_P] = TPU_PREDS - 1};
/* As many as one instruction can need, and for scalars a zero to address SMEM with. */
const int mir_spare[MIR_CLASSES] = {[MIR_S] = 4, [MIR_V] = 4, [MIR_M] = 2};

struct mir *mir_new(struct arena *arena) {
    struct mir *mir = arena_alloc(arena, sizeof *mir);
    mir->arena = arena;
    mir->mxu_depth = 32;
    mir->unit_depth = 4;
    /* What any chip has; whoever knows the chip says more. */
    for (int u = 0; u < MIR_UNITS; u++)
        mir->units[u] = (struct mir_unit){u < TPU_MAX_UNITS ? 256 : 24, 16};
    mir->transpose_latency = TPU_LANES;
    mir->nregs = 1; /* 0 is no register */
    mir->classes = arena_grow(arena, NULL, &mir->reg_capacity, 64, sizeof *mir->classes);
    mir_block(mir);
    return mir;
}

treg mir_reg(struct mir *mir, enum mir_class class) {
    mir->classes = arena_grow(mir->arena, mir->classes, &mir->reg_capacity, mir->nregs + 1,
                              sizeof *mir->classes);
    mir->classes[mir->nregs] = (uint8_t)class;
    return mir->nregs++;
}

struct mop *mir_add(struct mir *mir, const struct mop *op) {
    struct mblock *block = &mir->blocks[mir->nblocks - 1];
    block->ops =
        arena_grow(mir->arena, block->ops, &block->capacity, block->count + 1, sizeof *block->ops);
    block->ops[block->count] = *op;
    return &block->ops[block->count++];
}

int mir_block(struct mir *mir) {
    mir->blocks = arena_grow(mir->arena, mir->blocks, &mir->block_capacity, mir->nblocks + 1,
                             sizeof *mir->blocks);
    mir->blocks[mir->nblocks] = (struct mblock){.depth = mir->depth};
    return mir->nblocks++;
}

static enum mir_class class_of(enum tpu_kind kind) {
    switch (kind) {
    case TPU_KIND_WS:
    case TPU_KIND_RS:
    case TPU_KIND_RWS:
    case TPU_KIND_S: return MIR_S;
    case TPU_KIND_WV:
    case TPU_KIND_RV:
    case TPU_KIND_V: return MIR_V;
    case TPU_KIND_WM:
    case TPU_KIND_M: return MIR_M;
    case TPU_KIND_WP:
    case TPU_KIND_P: return MIR_P;
    default: return MIR_NONE;
    }
}

static bool is_write(enum tpu_kind kind) {
    return kind == TPU_KIND_WS || kind == TPU_KIND_WV || kind == TPU_KIND_WM || kind == TPU_KIND_WP;
}

struct ref_list {
    struct mir_ref *refs;
    int count;
};

static void add_ref(struct ref_list *list, treg *reg, enum mir_class class) {
    if (*reg && class != MIR_NONE) list->refs[list->count++] = (struct mir_ref){reg, class};
}

static enum mir_class class_of_b(const struct mop *op, const struct tpu_op_info *info) {
    if (op->bkind == MIR_B_SCALAR) return MIR_S;
    if (info->b != TPU_KIND_O) return class_of(info->b);
    if (op->bkind != MIR_B_REG) return MIR_NONE;
    return info->slot == TPU_CLASS_SCALAR ? MIR_S : MIR_V;
}

int mir_refs(struct mop *op, struct mir_ref reads[MIR_MOST_READS], struct mir_ref *write) {
    const struct tpu_op_info *info = tpu_op_info(op->op);
    struct ref_list list = {reads, 0};
    enum mir_class dest = class_of(info->dest);
    *write = (struct mir_ref){NULL, MIR_NONE};
    add_ref(&list, &op->a, class_of(info->a));
    add_ref(&list, &op->b, class_of_b(op, info));
    add_ref(&list, &op->mask, MIR_M);
    add_ref(&list, &op->pred, MIR_P);
    add_ref(&list, &op->base, MIR_S);
    add_ref(&list, &op->stride_reg, MIR_S);
    add_ref(&list, &op->amount, MIR_S);
    if (is_write(info->dest)) {
        *write = (struct mir_ref){&op->d, dest};
        bool merges = info->mask == TPU_MASK_MERGE && op->mask;
        if (merges || op->pred || op->op == TPU_MPOPADD) add_ref(&list, &op->d, dest);
    } else {
        add_ref(&list, &op->d, dest);
    }
    if (info->a == TPU_KIND_RWS) *write = (struct mir_ref){&op->a, MIR_S};
    if (info->a == TPU_KIND_WS) { /* call */
        *write = (struct mir_ref){&op->a, MIR_S};
        list.count = 0;
    }
    return list.count;
}

int mir_unit_of(const struct mop *op, bool *push, int *results) {
    *push = true;
    *results = 1;
    switch (tpu_op_info(op->op)->effect) {
    case TPU_EFFECT_MXU_WEIGHT: *results = 0; return op->unit;
    case TPU_EFFECT_MXU_PUSH: *results = op->op == TPU_MPUSHBF ? 2 : 1; return op->unit;
    case TPU_EFFECT_MXU_POP: *push = false; return op->unit;
    case TPU_EFFECT_EUP_POP: *push = false; return MIR_EUP;
    case TPU_EFFECT_EUP_PUSH: return MIR_EUP;
    case TPU_EFFECT_XLU_POP: *push = false; return MIR_XLU;
    case TPU_EFFECT_XLU_PUSH:
        *results = op->op == TPU_XTR ? 0 : op->op == TPU_XTRL ? op->literal : 1;
        return MIR_XLU;
    case TPU_EFFECT_V2S_POP: *push = false; return MIR_V2S;
    case TPU_EFFECT_V2S_PUSH: return MIR_V2S;
    default: return -1;
    }
}

bool mir_is_branch(const struct mop *op) {
    return tpu_op_info(op->op)->imm == TPU_IMM_TARGET || op->op == TPU_JR || op->op == TPU_HALT ||
           op->op == TPU_TRAP;
}

bool mir_is_smem(const struct mop *op) {
    return op->op == TPU_SLD || op->op == TPU_SST;
}

/* ---- liveness ---- */

struct block_sets {
    size_t words;
    uint64_t *use, *def, *in; /* by block */
};

static bool test_bit(const uint64_t *set, int bit) {
    return set[bit / 64] >> (bit % 64) & 1;
}

static void set_bit(uint64_t *set, int bit) {
    set[bit / 64] |= (uint64_t)1 << (bit % 64);
}

static void collect_block(struct block_sets *sets, const struct mblock *block, int index) {
    uint64_t *use = sets->use + (size_t)index * sets->words,
             *def = sets->def + (size_t)index * sets->words;
    for (int i = 0; i < block->count; i++) {
        struct mir_ref reads[MIR_MOST_READS], write;
        int n = mir_refs(&block->ops[i], reads, &write);
        for (int k = 0; k < n; k++)
            if (!test_bit(def, *reads[k].reg)) set_bit(use, *reads[k].reg);
        if (write.reg) set_bit(def, *write.reg);
    }
}

int mir_successors(const struct mir *mir, int index, int next[4]) {
    const struct mblock *block = &mir->blocks[index];
    int n = 0;
    bool falls = index + 1 < mir->nblocks;
    for (int i = 0; i < block->count && n < 3; i++) {
        const struct mop *op = &block->ops[i];
        if (tpu_op_info(op->op)->imm != TPU_IMM_TARGET) continue;
        if (op->target >= 0) next[n++] = op->target;
        if (op->op == TPU_BR && !op->pred) falls = false;
    }
    if (falls) next[n++] = index + 1;
    return n;
}

static bool flow_back(const struct mir *mir, struct block_sets *sets, int index) {
    size_t words = sets->words;
    uint64_t *in = sets->in + (size_t)index * words;
    const uint64_t *use = sets->use + (size_t)index * words,
                   *def = sets->def + (size_t)index * words;
    int next[4], n = mir_successors(mir, index, next);
    bool changed = false;
    for (size_t w = 0; w < words; w++) {
        uint64_t out = 0;
        for (int k = 0; k < n; k++)
            out |= sets->in[(size_t)next[k] * words + w];
        uint64_t now = use[w] | (out & ~def[w]);
        changed |= now != in[w];
        in[w] = now;
    }
    return changed;
}

void mir_liveness(const struct mir *mir, struct arena *arena, struct mir_liveness *live) {
    struct block_sets sets = {.words = ((size_t)mir->nregs + 63) / 64};
    size_t total = sets.words * (size_t)mir->nblocks;
    sets.use = arena_array(arena, total, sizeof(uint64_t));
    sets.def = arena_array(arena, total, sizeof(uint64_t));
    sets.in = arena_array(arena, total, sizeof(uint64_t));
    for (int b = 0; b < mir->nblocks; b++)
        collect_block(&sets, &mir->blocks[b], b);
    for (bool changed = true; changed;) {
        changed = false;
        for (int b = mir->nblocks - 1; b >= 0; b--)
            changed |= flow_back(mir, &sets, b);
    }
    *live = (struct mir_liveness){sets.words, sets.in};
}

bool mir_live_in(const struct mir_liveness *live, int block, treg reg) {
    return test_bit(live->in + (size_t)block * live->words, reg);
}

/* ---- FIFOs between blocks ---- */

static void pass_through(const struct mblock *block, int *levels) {
    for (int i = 0; i < block->count; i++) {
        bool push;
        int results, unit = mir_unit_of(&block->ops[i], &push, &results);
        if (unit < 0 || (push && !results) || levels[unit] < 0) continue;
        levels[unit] += push ? results : -1;
        if (block->ops[i].pred) levels[unit] = -1;
    }
}

int *mir_unit_levels(const struct mir *mir, struct arena *arena) {
    int *levels = arena_array(arena, (size_t)mir->nblocks * MIR_UNITS, sizeof *levels);
    bool *reached = arena_array(arena, (size_t)mir->nblocks + 1, sizeof *reached);
    reached[0] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (int b = 0; b < mir->nblocks; b++) {
            int next[4], n = mir_successors(mir, b, next), out[MIR_UNITS];
            if (!reached[b]) continue;
            memcpy(out, levels + b * MIR_UNITS, sizeof out);
            pass_through(&mir->blocks[b], out);
            for (int k = 0; k < n; k++) {
                int *in = levels + next[k] * MIR_UNITS;
                for (int u = 0; u < MIR_UNITS; u++) {
                    int level = reached[next[k]] && in[u] != out[u] ? -1 : out[u];
                    changed |= !reached[next[k]] || level != in[u];
                    in[u] = level;
                }
                reached[next[k]] = true;
            }
        }
    }
    return levels;
}

int mir_result_latency(const struct mir *mir, const struct mop *op, int number) {
    bool push;
    int results, unit = mir_unit_of(op, &push, &results);
    if (op->op == TPU_XTRL) return mir->transpose_latency + TPU_SUBLANES * number;
    int latency = mir->units[unit].latency + TPU_SUBLANES * number;
    return unit < TPU_MAX_UNITS ? latency : latency + tpu_op_info(op->op)->latency - 1;
}
