/* Kernels that compute every element of their results by itself, tile by tile. */
#include "backend/tpu/lower.h"

enum { MOST_LEAVES = 32 };

static int64_t result_rows(const struct hlo_instr *instr) {
    int64_t rows = 0;
    struct tpu_layout layout;
    for (int l = 0; l < instr->shape->nleaves; l++) {
        const struct shape *shape = shape_leaf(instr->shape, l);
        if (shape_is_array(shape) && tpu_layout_of(&layout, shape))
            rows += layout.memory_rows * layout.planes + 2 * VMEM_GUARD + TPU_SUBLANES;
    }
    return rows;
}

static bool same_walk(const struct shape *a, const struct shape *b) {
    if (!shape_is_array(b) || !shape_same_dims(a, b)) return false;
    for (int i = 0; i < a->rank; i++)
        if (shape_minor_to_major(a, i) != shape_minor_to_major(b, i)) return false;
    return true;
}

/* Leaves from `first` on that have its dimensions are computed in one walk over the tiles. */
static void map_leaves(struct job *job, int first, bool *done) {
    const struct hlo_instr *instr = job->instr;
    struct tarray arrays[MOST_LEAVES];
    int leaves[MOST_LEAVES], count = 0;
    const struct shape *shape = shape_leaf(instr->shape, first);
    for (int l = first; l < instr->shape->nleaves; l++) {
        const struct shape *other = shape_leaf(instr->shape, l);
        if (done[l] || !same_walk(shape, other)) continue;
        done[l] = true;
        job_result(job, l, &arrays[count]);
        leaves[count++] = l;
    }
    if (arrays[0].layout.memory_rows == 0) return;
    struct tile_loops loops;
    struct ttile tile;
    int memos = job->g.nmemos;
    tiles_begin(job->k, &arrays[0].layout, &loops, &tile);
    treg valid = tile_valid(job->k, &arrays[0].layout, &tile);
    for (int i = 0; i < count; i++) {
        struct tval value = value_at(&job->g, instr, leaves[i], tile.index, valid);
        tile_store(&job->g.f, &arrays[i], &tile, value);
    }
    tiles_end(job->k, &loops);
    job->g.nmemos = memos;
    for (int i = 0; i < count; i++)
        job_take(job, leaves[i], &arrays[i]);
}

bool lower_map(struct lower *lower, const struct hlo_instr *instr) {
    struct job job;
    bool done[MOST_LEAVES] = {false};
    if (instr->shape->nleaves > MOST_LEAVES) {
        diag_instr_error(lower->diag, instr, "more than %d results are not supported on TPU",
                         MOST_LEAVES);
        return false;
    }
    job_open(&job, lower, instr);
    job_stage(&job, instr, result_rows(instr));
    value_prepare(&job.g, instr);
    for (int l = 0; l < instr->shape->nleaves; l++)
        if (!done[l] && shape_is_array(shape_leaf(instr->shape, l))) map_leaves(&job, l, done);
    return job_close(&job);
}
