#include "backend/tpu/mir.h"

struct mir *mir_new(struct arena *arena) {
    struct mir *mir = arena_alloc(arena, sizeof *mir);
    mir->arena = arena;
    mir->mxu_depth = 32;
    mir->unit_depth = 4;
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
