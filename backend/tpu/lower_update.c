/* Dynamic slices and updates of whole tiles, or of single rows: one DMA from a place that the start
 * indices say, or to it. What an update leaves as it is stays where it is, if operand and result
 * share their memory. */
#include "backend/tpu/lower.h"

/* The part as runs of words: how they lie in the part and in the whole. */
struct runs {
    struct tpu_layout whole, part;
    int64_t length;
    int levels;
    int64_t count[TPU_DMA_LEVELS], stride_whole[TPU_DMA_LEVELS], stride_part[TPU_DMA_LEVELS];
    int64_t step[SHAPE_MAX_RANK]; /* words of the whole from one place of a dimension to the next */
    int row_dim;                  /* of which the part is one row of a tile; -1: none */
};

static bool add_level(struct runs *r, int64_t count, int64_t whole, int64_t part) {
    int last = r->levels - 1;
    if (count == 1) return true;
    if (r->levels == 0 && whole == r->length && part == r->length) {
        r->length *= count;
        return true;
    }
    if (last >= 0 && whole == r->stride_whole[last] * r->count[last] &&
        part == r->stride_part[last] * r->count[last]) {
        r->count[last] *= count;
        return true;
    }
    if (r->levels == TPU_DMA_LEVELS) return false;
    r->count[r->levels] = count;
    r->stride_whole[r->levels] = whole;
    r->stride_part[r->levels++] = part;
    return true;
}

static const struct shape *part_of(const struct hlo_instr *instr) {
    return instr->opcode == OP_DYNAMIC_SLICE ? instr->shape : instr->operands[1]->shape;
}

/* The two minor dimensions: all of them, or one row. */
static bool find_tiles(struct runs *r, int64_t *whole_words, int64_t *part_words) {
    const struct tpu_layout *w = &r->whole, *p = &r->part;
    int row = w->order[1], tile_w = w->tile_rows / w->packing, tile_p = p->tile_rows / p->packing;
    if (w->dims[w->order[0]] != p->dims[p->order[0]]) return false;
    *whole_words = w->row_tiles * w->lane_tiles * tile_w * TPU_LANES;
    *part_words = p->row_tiles * p->lane_tiles * tile_p * TPU_LANES;
    r->row_dim = -1;
    if (w->dims[row] == p->dims[row]) {
        r->length = *whole_words;
        return true;
    }
    if (p->dims[row] != 1 || w->packing > 1) return false;
    r->row_dim = row;
    r->length = TPU_LANES;
    return add_level(r, w->lane_tiles, tile_w * TPU_LANES, tile_p * TPU_LANES);
}

static bool find_runs(const struct hlo_instr *instr, struct runs *r) {
    int64_t whole, part;
    *r = (struct runs){.levels = 0};
    if (instr->opcode != OP_DYNAMIC_SLICE && instr->opcode != OP_DYNAMIC_UPDATE_SLICE) return false;
    if (!tpu_layout_of(&r->whole, instr->operands[0]->shape) ||
        !tpu_layout_of(&r->part, part_of(instr)))
        return false;
    const struct tpu_layout *w = &r->whole, *p = &r->part;
    if (w->rank < 2 || !w->memory_rows || !p->memory_rows || w->packing != p->packing) return false;
    for (int i = 0; i < w->rank; i++)
        if (w->order[i] != p->order[i]) return false;
    if (!find_tiles(r, &whole, &part)) return false;
    for (int i = 2; i < w->rank; i++) {
        int d = w->order[i];
        r->step[d] = whole;
        if (!add_level(r, p->dims[d], whole, part)) return false;
        whole *= w->dims[d];
        part *= p->dims[d];
    }
    return true;
}

bool lower_updates_in_place(const struct hlo_instr *instr) {
    struct runs r;
    return instr->opcode == OP_DYNAMIC_UPDATE_SLICE && find_runs(instr, &r);
}

static int64_t first_word(const struct tarray *array) {
    return array->in_vmem ? array->row * TPU_LANES : array->word;
}

/* Words of the whole before the part. */
static struct sx find_offset(struct job *job, const struct runs *r, const struct sx *start) {
    struct kernel *k = job->k;
    struct sx at = sx_const(0);
    for (int d = 0; d < r->whole.rank; d++)
        if (r->step[d]) at = sx_add(k, at, sx_muli(k, start[d], (int32_t)r->step[d]));
    if (r->row_dim < 0) return at;
    int32_t rows = r->whole.tile_rows, tile = rows * TPU_LANES * (int32_t)r->whole.lane_tiles;
    struct sx row = start[r->row_dim];
    at = sx_add(k, at, sx_muli(k, sx_div(k, row, rows), tile));
    return sx_add(k, at, sx_muli(k, sx_mod(k, row, rows), TPU_LANES));
}

static void bind_starts(struct job *job, const struct hlo_instr *instr) {
    for (int i = instr->opcode == OP_DYNAMIC_SLICE ? 1 : 2; i < instr->noperands; i++) {
        struct tarray array;
        const struct hlo_instr *operand = instr->operands[i];
        if (operand->opcode == OP_CONSTANT && operand->shape->count == 1) continue;
        if (value_find(&job->g, operand, 0) || !leaf_array(job->lower, operand, 0, &array))
            continue;
        job_bring(job, &array);
        value_bind_array(&job->g, operand, 0, &array);
    }
    job_wait(job);
    value_prepare(&job->g, instr);
}

/* Few rows that are in VMEM on both sides go through registers: a DMA takes longer to begin. */
static bool is_small(const struct runs *r, const struct tarray *whole, const struct tarray *part) {
    enum { MOST_ROWS = 128 };
    int64_t rows = r->length / TPU_LANES * r->whole.planes;
    for (int l = 0; l < r->levels; l++)
        rows *= r->count[l] * (r->length < TPU_SUBLANES * TPU_LANES ? TPU_SUBLANES : 1);
    return whole->in_vmem && part->in_vmem && rows <= MOST_ROWS;
}

static void copy_run(struct job *job, const struct tarray *from, struct sx source,
                     const struct tarray *to, struct sx target, int64_t rows) {
    struct kernel *k = job->k;
    for (int64_t i = 0; i < rows; i += TPU_SUBLANES) {
        treg mask = 0,
             v = k_load(k, sx_addi(source, (int32_t)i), MIR_STRIDE_1, sx_const(0), from->tag);
        if (rows - i < TPU_SUBLANES)
            mask = ix_within(k, ix_rows(sx_const(0)), 0, (int32_t)(rows - i) - 1);
        k_store(k, v, sx_addi(target, (int32_t)i), mask, to->tag);
    }
}

static void copy_part(struct job *job, const struct runs *r, const struct tarray *whole,
                      const struct tarray *part, bool update, struct sx offset) {
    int64_t runs = r->whole.planes;
    for (int l = 0; l < r->levels; l++)
        runs *= r->count[l];
    struct sx first = sx_div(job->k, offset, TPU_LANES);
    for (int64_t i = 0; i < runs; i++) {
        int64_t left = i, far = whole->row, near = part->row;
        for (int l = 0; l < r->levels; l++, left /= r->count[l - 1]) {
            far += left % r->count[l] * r->stride_whole[l] / TPU_LANES;
            near += left % r->count[l] * r->stride_part[l] / TPU_LANES;
        }
        struct sx in_whole = sx_addi(first, (int32_t)(far + left * r->whole.memory_rows));
        struct sx in_part = sx_const((int32_t)(near + left * r->part.memory_rows));
        copy_run(job, update ? part : whole, update ? in_part : in_whole, update ? whole : part,
                 update ? in_whole : in_part, r->length / TPU_LANES);
    }
}

static void move_part(struct job *job, const struct runs *r, const struct tarray *whole,
                      const struct tarray *part, bool update, struct sx offset) {
    for (int p = 0; p < r->whole.planes; p++) {
        struct sx far =
            sx_addi(offset, (int32_t)(first_word(whole) + p * r->whole.memory_rows * TPU_LANES));
        struct sx near =
            sx_const((int32_t)(first_word(part) + p * r->part.memory_rows * TPU_LANES));
        uint8_t memories[] = {whole->in_vmem ? TPU_VMEM : TPU_HBM,
                              part->in_vmem ? TPU_VMEM : TPU_HBM};
        struct tpu_dma dma = {.from = memories[update],
                              .to = memories[!update],
                              .length = (uint32_t)r->length,
                              .count = {1, 1, 1}};
        for (int l = 0; l < r->levels; l++) {
            dma.count[l] = (uint32_t)r->count[l];
            dma.source_stride[l] = (int32_t)(update ? r->stride_part[l] : r->stride_whole[l]);
            dma.target_stride[l] = (int32_t)(update ? r->stride_whole[l] : r->stride_part[l]);
        }
        job_describe(job, SMEM_SLAB_A, FLAG_IN, &dma);
        job_start(job, SMEM_SLAB_A, sx_const(0), update ? near : far, update ? far : near, 0);
        job->waiting++;
    }
}

bool lower_update(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct runs r;
    struct tarray whole, part, result;
    *taken = false;
    if (!find_runs(instr, &r)) return true;
    bool update = instr->opcode == OP_DYNAMIC_UPDATE_SLICE;
    const struct hlo_instr *operand = instr->operands[0];
    if (!leaf_array(lower, instr, 0, &result) || !leaf_array(lower, operand, 0, &whole) ||
        (update && !leaf_array(lower, instr->operands[1], 0, &part)))
        return true;
    struct job job;
    *taken = true;
    job_open(&job, lower, instr);
    bool in_place = whole.in_vmem == result.in_vmem && first_word(&whole) == first_word(&result);
    if (update && !in_place) job_copy(&job, operand, 0, &result);
    bind_starts(&job, instr);
    struct sx offset = find_offset(&job, &r, job.g.starts[0].start);
    const struct tarray *all = update ? &result : &whole, *some = update ? &part : &result;
    if (is_small(&r, all, some))
        copy_part(&job, &r, all, some, update, offset);
    else
        move_part(&job, &r, all, some, update, offset);
    job_wait(&job);
    return job_close(&job);
}
