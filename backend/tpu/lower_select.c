/* Select and scatter: first which place of each window is selected, then for each element of the
 * result the windows that selected it. */
#include "backend/tpu/lower.h"

struct nest {
    struct loop loops[SHAPE_MAX_RANK];
    struct sx at[SHAPE_MAX_RANK];
    int count;
    struct sx number; /* of the place within the window */
};

static void nest_begin(struct kernel *k, const struct window *window, struct nest *nest) {
    nest->number = sx_const(0);
    nest->count = window->count;
    for (int d = 0; d < window->count; d++) {
        nest->at[d] = loop_begin(k, &nest->loops[d], window->v[d].size);
        nest->number = sx_add(k, sx_muli(k, nest->number, (int32_t)window->v[d].size), nest->at[d]);
    }
}

static void nest_end(struct kernel *k, struct nest *nest) {
    while (nest->count)
        loop_end(k, &nest->loops[--nest->count], 0);
}

/* winner[window] = number of the place that stays selected; -1 where all is padding. */
static void find_winners(struct job *job, const struct hlo_instr *instr,
                         const struct tarray *winner) {
    struct kernel *k = job->k;
    const struct window *window = instr_window(instr);
    const struct shape *operand = instr->operands[0]->shape;
    struct tile_loops loops;
    struct ttile tile;
    struct nest nest;
    int memos = job->g.nmemos;
    tiles_begin(k, &winner->layout, &loops, &tile);
    treg valid = tile_valid(k, &winner->layout, &tile);
    treg best = k_copy(k, k_const(k, -1));
    struct tval current = value_variable(k, (struct tval){{k_const(k, 0), k_const(k, 0)}});
    if (element_type_size(operand->type) < 8) current.v[1] = 0;
    nest_begin(k, window, &nest);
    struct ix index[SHAPE_MAX_RANK];
    treg inside = 0;
    for (int d = 0; d < operand->rank; d++) {
        struct ix at = ix_muli(k, tile.index[d], (int32_t)window->v[d].stride);
        at = ix_addi(ix_add(k, at, ix_scalar(nest.at[d])), -(int32_t)window->v[d].pad_low);
        inside = m_and(k, inside, ix_within(k, at, 0, (int32_t)operand->dims[d] - 1));
        index[d] = at;
    }
    struct tval candidate =
        value_at(&job->g, instr->operands[0], 0, index, m_and(k, valid, inside));
    struct tval args[2] = {current, candidate}, keeps[1];
    value_call(&job->g, instr->called[0], args, keeps);
    treg replaced = k_binary_i(k, TPU_VEQ, keeps[0].v[0], 0);
    replaced = m_or(k, replaced, k_binary_i(k, TPU_VLTS, best, 0));
    replaced = m_and(k, replaced, inside);
    value_assign(k, current, replaced, candidate);
    k_emit(k, (struct mop){.op = TPU_VMOV,
                           .d = best,
                           .b = sx_reg(k, nest.number),
                           .bkind = MIR_B_SCALAR,
                           .mask = replaced});
    nest_end(k, &nest);
    job->g.nmemos = memos;
    tile_store(&job->g.f, winner, &tile, (struct tval){{best, 0}});
    tiles_end(k, &loops);
}

static void add_sources(struct job *job, const struct hlo_instr *instr, const struct tarray *winner,
                        const struct tarray *result) {
    struct kernel *k = job->k;
    const struct window *window = instr_window(instr);
    const struct shape *source = instr->operands[1]->shape;
    struct tile_loops loops;
    struct ttile tile;
    struct nest nest;
    struct tval init = value_at(&job->g, instr->operands[2], 0, NULL, 0);
    int memos = job->g.nmemos;
    tiles_begin(k, &result->layout, &loops, &tile);
    treg valid = tile_valid(k, &result->layout, &tile);
    struct tval sum = value_variable(k, init);
    nest_begin(k, window, &nest);
    struct ix index[SHAPE_MAX_RANK];
    treg inside = 0;
    for (int d = 0; d < source->rank; d++) {
        int32_t step = (int32_t)window->v[d].stride, last = (int32_t)(source->dims[d] - 1) * step;
        struct ix at = ix_addi(tile.index[d], (int32_t)window->v[d].pad_low);
        at = ix_add(k, at, ix_muli(k, ix_scalar(nest.at[d]), -1));
        index[d] = ix_unstride(k, at, step, last, &inside);
    }
    treg active = m_and(k, valid, inside);
    treg won = fetch(&job->g.f, winner, index, active).v[0];
    treg takes = k_binary_s(k, TPU_VEQ, won, sx_reg(k, nest.number));
    struct tval args[2] = {sum, value_at(&job->g, instr->operands[1], 0, index, active)}, next[1];
    value_call(&job->g, instr->called[1], args, next);
    value_assign(k, sum, m_and(k, takes, inside), next[0]);
    nest_end(k, &nest);
    job->g.nmemos = memos;
    tile_store(&job->g.f, result, &tile, sum);
    tiles_end(k, &loops);
}

bool lower_select_and_scatter(struct lower *lower, const struct hlo_instr *instr) {
    struct job job;
    struct tarray winner, result;
    const struct shape *source = instr->operands[1]->shape;
    bool taken;
    if (instr->shape->count == 0) return true;
    if (!lower_pool(lower, instr, &taken)) return false;
    if (taken) return true;
    job_open(&job, lower, instr);
    job_result(&job, 0, &result);
    const struct shape *places = shape_with_type(lower->module->shapes, source, TYPE_S32);
    if (job_scratch(&job, places, &winner)) {
        job_stage(&job, instr, 0);
        if (source->count) find_winners(&job, instr, &winner);
        add_sources(&job, instr, &winner, &result);
        job_take(&job, 0, &result);
    } else {
        job_needs_vmem(&job, &(struct tarray){0});
    }
    return job_close(&job);
}
