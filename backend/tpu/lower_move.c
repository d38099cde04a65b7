/* Concatenations and slices along one dimension whose places begin at whole tiles: the tiles move
 * by DMA alone, from wherever they are to wherever they belong. */
#include "backend/tpu/lower.h"

/* An array as runs of words: all that is minor to the dimension, and as much of the dimension. */
struct runs {
    int64_t words;        /* of the dimension's smallest step */
    int64_t step;         /* places of the dimension that a step is */
    int64_t steps, count; /* in the dimension; of runs of all steps */
};

static struct runs runs_of(const struct tpu_layout *layout, int dim) {
    int at = 0;
    while (layout->order[at] != dim)
        at++;
    struct runs runs = {.words = (int64_t)layout->tile_rows / layout->packing * TPU_LANES,
                        .step = at == 0   ? TPU_LANES
                                : at == 1 ? layout->tile_rows
                                          : 1};
    runs.steps = at == 0 ? layout->lane_tiles : at == 1 ? layout->row_tiles : layout->dims[dim];
    if (at > 0) runs.words *= layout->lane_tiles;
    if (at > 1) runs.words *= layout->row_tiles;
    for (int i = 2; i < at; i++)
        runs.words *= layout->dims[layout->order[i]];
    runs.count = layout->memory_rows * TPU_LANES / (runs.words * runs.steps);
    return runs;
}

static int64_t first_word(const struct tarray *array) {
    return array->in_vmem ? array->row * TPU_LANES : array->word;
}

/* `steps` steps of every run, from one place in the dimension to another. */
static void move_steps(struct job *job, const struct tarray *from, const struct runs *source,
                       int64_t source_step, const struct tarray *to, const struct runs *target,
                       int64_t target_step, int64_t steps) {
    for (int p = 0; p < from->layout.planes; p++) {
        int64_t from_plane = p * from->layout.memory_rows * TPU_LANES;
        int64_t to_plane = p * to->layout.memory_rows * TPU_LANES;
        struct tpu_dma dma = {
            .from = from->in_vmem ? TPU_VMEM : TPU_HBM,
            .to = to->in_vmem ? TPU_VMEM : TPU_HBM,
            .source = (uint32_t)(first_word(from) + from_plane + source_step * source->words),
            .target = (uint32_t)(first_word(to) + to_plane + target_step * target->words),
            .length = (uint32_t)(steps * source->words),
            .count = {(uint32_t)source->count, 1, 1},
            .source_stride = {(int32_t)(source->steps * source->words)},
            .target_stride = {(int32_t)(target->steps * target->words)}};
        job_move(job, &dma);
    }
}

/* The dimension in which the shapes differ; -1: in none or several. */
static int only_difference(const struct shape *a, const struct shape *b) {
    int dim = -1;
    for (int d = 0; d < a->rank; d++) {
        if (a->dims[d] == b->dims[d]) continue;
        if (dim >= 0) return -1;
        dim = d;
    }
    return dim;
}

static bool same_tiles(const struct tpu_layout *a, const struct tpu_layout *b) {
    bool same = a->rank == b->rank && a->tile_rows == b->tile_rows && a->packing == b->packing;
    for (int i = 0; i < a->rank && same; i++)
        same = a->order[i] == b->order[i];
    return same && a->memory_rows && b->memory_rows;
}

/* An operand, or part of one, and where it lies in the dimension. */
struct part {
    struct tarray array;
    int64_t start, size;
};

static bool find_part(struct lower *lower, const struct hlo_instr *operand,
                      const struct tarray *result, int dim, struct part *part) {
    const struct tpu_layout *layout = &part->array.layout;
    if (operand->opcode == OP_CONSTANT && operand->shape->count == 1) return false;
    if (!leaf_array(lower, operand, 0, &part->array) || !same_tiles(layout, &result->layout))
        return false;
    return part->start % runs_of(layout, dim).step == 0;
}

static bool concatenate(struct lower *lower, const struct hlo_instr *instr,
                        const struct tarray *result) {
    int dim = (int)instr_ints(instr, ATTR_DIMENSIONS).v[0];
    struct part *parts = arena_array(lower->arena, (size_t)instr->noperands, sizeof *parts);
    int64_t start = 0;
    for (int i = 0; i < instr->noperands; i++) {
        parts[i].start = start;
        if (!find_part(lower, instr->operands[i], result, dim, &parts[i])) return false;
        start += instr->operands[i]->shape->dims[dim];
    }
    struct job job;
    job_open(&job, lower, instr);
    struct runs target = runs_of(&result->layout, dim);
    for (int i = 0; i < instr->noperands; i++) {
        struct runs source = runs_of(&parts[i].array.layout, dim);
        move_steps(&job, &parts[i].array, &source, 0, result, &target, parts[i].start / target.step,
                   source.steps);
    }
    job_wait(&job);
    return job_close(&job);
}

static bool slice(struct lower *lower, const struct hlo_instr *instr, const struct tarray *result) {
    const struct slice_list *slices = instr_attr(instr, ATTR_SLICE)->slices;
    int dim = only_difference(instr->shape, instr->operands[0]->shape);
    if (dim < 0 || slices->v[dim].stride != 1) return false;
    struct part part = {.start = slices->v[dim].start};
    if (!find_part(lower, instr->operands[0], result, dim, &part)) return false;
    struct job job;
    job_open(&job, lower, instr);
    struct runs source = runs_of(&part.array.layout, dim), target = runs_of(&result->layout, dim);
    move_steps(&job, &part.array, &source, part.start / source.step, result, &target, 0,
               target.steps);
    job_wait(&job);
    return job_close(&job);
}

bool lower_move(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct tarray result;
    *taken = false;
    if (instr->opcode != OP_CONCATENATE && instr->opcode != OP_SLICE) return true;
    if (instr->shape->rank < 2 || !leaf_array(lower, instr, 0, &result)) return true;
    int errors = lower->diag->errors;
    *taken = instr->opcode == OP_SLICE ? slice(lower, instr, &result)
                                       : concatenate(lower, instr, &result);
    return lower->diag->errors == errors;
}
