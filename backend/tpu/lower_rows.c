/* Transposes, and copies to another layout, that leave the lanes as they are: rows of memory change
 * their places, by DMA alone. */
#include <stdlib.h>

#include "backend/tpu/lower.h"

enum { MOST_DIGITS = 3 * SHAPE_MAX_RANK, MOST_DMAS = 4096, DMA_LEVELS = 3 };
/* Registers of two arrays in VMEM from which on a DMA is faster than loads and stores. */
enum { LEAST_REGISTERS = 64 };

/* `size` places, and how many rows of memory lie from one to the next. */
struct step {
    int64_t size, from, to;
};

struct steps {
    struct step v[MOST_DIGITS];
    int count;
    int64_t run; /* rows of memory that stay together */
};

struct side {
    const struct tpu_layout *layout;
    int64_t stride[SHAPE_MAX_RANK]; /* rows from place to place of a major dimension */
};

static void add_step(struct steps *steps, int64_t size, int64_t from, int64_t to) {
    if (size > 1) steps->v[steps->count++] = (struct step){size, from, to};
}

static void find_strides(struct side *side) {
    const struct tpu_layout *layout = side->layout;
    int64_t stride = layout->row_tiles * layout->lane_tiles * layout->tile_rows / layout->packing;
    for (int i = 2; i < layout->rank; i++) {
        side->stride[layout->order[i]] = stride;
        stride *= layout->dims[layout->order[i]];
    }
}

static int64_t tile_height(const struct tpu_layout *layout) {
    return layout->tile_rows / layout->packing;
}

/* Rows from a dimension's place to the next within a tile, and from tile to tile. */
static void dim_strides(const struct side *side, int dim, int64_t *within, int64_t *beyond) {
    const struct tpu_layout *layout = side->layout;
    bool row = layout->order[1] == dim;
    *within = row ? 1 : side->stride[dim];
    *beyond = row ? layout->lane_tiles * tile_height(layout) : *within * TPU_SUBLANES;
}

/* False where a dimension's places have no two strides: tiles that it does not fill. */
static bool add_dim(struct steps *steps, const struct side *in, int in_dim, const struct side *out,
                    int out_dim) {
    int64_t size = out->layout->dims[out_dim], from, from_tile, to, to_tile;
    bool rows = in->layout->order[1] == in_dim && out->layout->order[1] == out_dim;
    if (rows) { /* tiles alike, padding and all */
        int64_t height = tile_height(out->layout), tiles = out->layout->row_tiles;
        add_step(steps, height, 1, 1);
        add_step(steps, tiles, in->layout->lane_tiles * height, out->layout->lane_tiles * height);
        return true;
    }
    if (out->layout->packing > 1 &&
        (in->layout->order[1] == in_dim || out->layout->order[1] == out_dim))
        return false;
    dim_strides(in, in_dim, &from, &from_tile);
    dim_strides(out, out_dim, &to, &to_tile);
    if (size <= TPU_SUBLANES ||
        (from_tile == from * TPU_SUBLANES && to_tile == to * TPU_SUBLANES)) {
        add_step(steps, size, from, to);
        return true;
    }
    if (size % TPU_SUBLANES) return false;
    add_step(steps, TPU_SUBLANES, from, to);
    add_step(steps, size / TPU_SUBLANES, from_tile, to_tile);
    return true;
}

static int by_target(const void *x, const void *y) {
    const struct step *a = x, *b = y;
    return (a->to > b->to) - (a->to < b->to);
}

/* Smallest first; those that go on where the one before ends are one with it. */
static void join_steps(struct steps *steps) {
    int count = 0;
    qsort(steps->v, (size_t)steps->count, sizeof *steps->v, by_target);
    for (int i = 0; i < steps->count; i++) {
        struct step next = steps->v[i], *last = count ? &steps->v[count - 1] : NULL;
        if (last && next.to == last->to * last->size && next.from == last->from * last->size)
            last->size *= next.size;
        else
            steps->v[count++] = next;
    }
    steps->run = 1;
    steps->count = count;
    if (count == 0 || steps->v[0].from != 1 || steps->v[0].to != 1) return;
    steps->run = steps->v[0].size;
    for (int i = 1; i < count; i++)
        steps->v[i - 1] = steps->v[i];
    steps->count--;
}

/* from[d]: the operand's dimension that is d of the result. */
static bool find_steps(struct steps *steps, const struct tpu_layout *in,
                       const struct tpu_layout *out, const int64_t *from) {
    struct side source = {.layout = in}, target = {.layout = out};
    steps->count = 0;
    find_strides(&source);
    find_strides(&target);
    for (int d = 0; d < out->rank; d++) {
        if (d == out->order[0])
            add_step(steps, out->lane_tiles, tile_height(in), tile_height(out));
        else if (!add_dim(steps, &source, (int)from[d], &target, d))
            return false;
    }
    join_steps(steps);
    int64_t dmas = out->planes;
    for (int i = DMA_LEVELS; i < steps->count; i++) {
        dmas *= steps->v[i].size;
        if (dmas > MOST_DMAS) return false;
    }
    return true;
}

static int64_t registers_of(const struct tpu_layout *layout) {
    return layout->majors * layout->lane_tiles * ((layout->rows + TPU_SUBLANES - 1) / TPU_SUBLANES);
}

/* ---- moving ---- */

static int64_t first_word(const struct tarray *array, int plane) {
    int64_t word = array->in_vmem ? array->row * TPU_LANES : array->word;
    return word + plane * array->layout.memory_rows * TPU_LANES;
}

/* Returns how many DMAs it starts. */
static int64_t move_plane(struct job *job, const struct steps *steps, const struct tarray *in,
                          const struct tarray *out, int plane) {
    struct kernel *k = job->k;
    struct loop loops[MOST_DIGITS];
    struct tpu_dma dma = {.from = in->in_vmem ? TPU_VMEM : TPU_HBM,
                          .to = out->in_vmem ? TPU_VMEM : TPU_HBM,
                          .length = (uint32_t)(steps->run * TPU_LANES),
                          .count = {1, 1, 1}};
    struct sx source = sx_const((int32_t)first_word(in, plane));
    struct sx target = sx_const((int32_t)first_word(out, plane));
    for (int i = 0; i < steps->count && i < DMA_LEVELS; i++) {
        dma.count[i] = (uint32_t)steps->v[i].size;
        dma.source_stride[i] = (int32_t)steps->v[i].from * TPU_LANES;
        dma.target_stride[i] = (int32_t)steps->v[i].to * TPU_LANES;
    }
    job_describe(job, SMEM_CHUNK_C, FLAG_OUT, &dma);
    int64_t dmas = 1;
    for (int i = DMA_LEVELS; i < steps->count; i++) {
        dmas *= steps->v[i].size;
        struct sx at = loop_begin(k, &loops[i], steps->v[i].size);
        source = sx_add(k, source, sx_muli(k, at, (int32_t)steps->v[i].from * TPU_LANES));
        target = sx_add(k, target, sx_muli(k, at, (int32_t)steps->v[i].to * TPU_LANES));
    }
    job_start(job, SMEM_CHUNK_C, sx_const(0), source, target, 0);
    for (int i = steps->count - 1; i >= DMA_LEVELS; i--)
        loop_end(k, &loops[i], 0);
    return dmas;
}

bool lower_rows(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct tarray in, out;
    struct steps steps;
    int64_t from[SHAPE_MAX_RANK];
    *taken = false;
    if ((instr->opcode != OP_COPY && instr->opcode != OP_TRANSPOSE) || instr->shape->rank < 2 ||
        !leaf_array(lower, instr->operands[0], 0, &in) || !leaf_array(lower, instr, 0, &out))
        return true;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    for (int d = 0; d < out.layout.rank; d++)
        from[d] = instr->opcode == OP_COPY ? d : dims.v[d];
    if (from[out.layout.order[0]] != in.layout.order[0] || !out.layout.memory_rows ||
        (in.in_vmem && out.in_vmem && registers_of(&out.layout) < LEAST_REGISTERS) ||
        !find_steps(&steps, &in.layout, &out.layout, from))
        return true;
    *taken = true;
    struct job job;
    job_open(&job, lower, instr);
    int64_t dmas = 0;
    for (int p = 0; p < out.layout.planes; p++)
        dmas += move_plane(&job, &steps, &in, &out, p);
    k_emit(job.k, (struct mop){.op = TPU_WAIT, .literal = FLAG_OUT, .imm = (int32_t)dmas});
    return job_close(&job);
}
