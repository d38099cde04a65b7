/* Instructions whose results nobody reads, and that do nothing else, are left out. */
#include "backend/tpu/mir.h"

struct dead {
    struct mir *mir;
    int *reads; /* by virtual register: of other instructions than its own writers */
};

static bool only_computes(const struct mop *op) {
    const struct tpu_op_info *info = tpu_op_info(op->op);
    return info->effect == TPU_EFFECT_NONE || info->effect == TPU_EFFECT_VMEM_READ ||
           info->effect == TPU_EFFECT_SMEM_READ;
}

static void count(struct dead *d, struct mop *op, int by) {
    struct mir_ref reads[MIR_MOST_READS], write;
    int n = mir_refs(op, reads, &write);
    for (int k = 0; k < n; k++)
        if (!write.reg || *reads[k].reg != *write.reg) d->reads[*reads[k].reg] += by;
}

static bool is_dead(const struct dead *d, struct mop *op) {
    struct mir_ref reads[MIR_MOST_READS], write;
    if (!only_computes(op)) return false;
    mir_refs(op, reads, &write);
    return write.reg && d->reads[*write.reg] == 0;
}

/* From the end to the beginning, so that a chain goes at once; where a loop's end reads what its
 * beginning makes, another round finds it. */
static bool remove_once(struct dead *d) {
    bool any = false;
    for (int b = d->mir->nblocks - 1; b >= 0; b--) {
        struct mblock *block = &d->mir->blocks[b];
        int kept = block->count;
        for (int i = block->count - 1; i >= 0; i--) {
            struct mop op = block->ops[i];
            if (is_dead(d, &op)) {
                count(d, &op, -1);
                any = true;
            } else {
                block->ops[--kept] = op;
            }
        }
        for (int i = kept; i < block->count; i++)
            block->ops[i - kept] = block->ops[i];
        block->count -= kept;
    }
    return any;
}

void mir_remove_dead(struct mir *mir) {
    struct dead d = {mir, arena_array(mir->arena, (size_t)mir->nregs + 1, sizeof(int))};
    for (int b = 0; b < mir->nblocks; b++)
        for (int i = 0; i < mir->blocks[b].count; i++)
            count(&d, &mir->blocks[b].ops[i], 1);
    while (remove_once(&d))
        continue;
}
