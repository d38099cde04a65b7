/* Elementwise kernels over arrays that are large: blocks of rows stream through VMEM, loads of the
 * next block and stores of the last one under way while a block is computed. All arrays have one
 * tiling, so that equal rows hold equal places. */
#include "backend/tpu/lower.h"

enum { MOST_ARRAYS = 12, BLOCK_TILES = 128, UNROLL = 2, FEWEST_TILES = 64 };
/* Flags: of loads and stores, by buffer. */
enum { FLAG_LOAD = 4, FLAG_STORE = 6 };

struct stream_array {
    const struct hlo_instr *instr;
    int leaf;
    struct tarray array; /* in HBM */
    int64_t row;         /* of VMEM: two buffers of a block each */
    int tag[2];
    int32_t rows; /* of memory in a tile of 8 rows of elements */
};

struct stream {
    struct job job;
    struct stream_array in[MOST_ARRAYS], out[MOST_ARRAYS];
    int nin, nout;
    int64_t tiles;
};

/* ---- what streams ---- */

static bool is_pointwise(const struct hlo_instr *instr, const struct shape *like);

static bool body_is_pointwise(const struct hlo_computation *body, const struct shape *like) {
    for (const struct hlo_instr *i = body->first; i; i = i->next) {
        if (i->opcode == OP_PARAMETER || i->opcode == OP_TUPLE) continue;
        if (!is_pointwise(i, like)) return false;
    }
    return true;
}

/* Its element depends on the operands' same elements, and on scalars. */
static bool is_pointwise(const struct hlo_instr *instr, const struct shape *like) {
    if (instr->opcode == OP_FUSION) return body_is_pointwise(instr->called[0], like);
    if (!shape_is_array(instr->shape)) return false;
    if (instr->opcode == OP_CONSTANT) return instr->shape->count == 1;
    if (instr->opcode == OP_BROADCAST) return instr->operands[0]->shape->rank == 0;
    bool same = shape_same_dims(instr->shape, like) || instr->shape->rank == 0;
    return same &&
           ((opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || instr->opcode == OP_COPY);
}

/* Groups of 8 rows of elements follow each other in the same order: tiles are as high, or stand in
 * one column that is padded alike. Smaller tiles that are all alike may be taken 8 rows at a time,
 * wherever these are: an element depends on those at its own place alone. */
static bool same_tiling(const struct tpu_layout *a, const struct tpu_layout *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] || a->order[i] != b->order[i]) return false;
    if (a->tile_rows == b->tile_rows)
        return a->tile_rows >= TPU_SUBLANES ||
               (a->packing == b->packing && a->memory_rows % TPU_SUBLANES == 0);
    return a->tile_rows >= TPU_SUBLANES && b->tile_rows >= TPU_SUBLANES && a->lane_tiles == 1 &&
           a->row_tiles * a->tile_rows == b->row_tiles * b->tile_rows;
}

static bool add_array(struct stream *s, struct stream_array *list, int *count,
                      const struct hlo_instr *instr, int leaf) {
    struct stream_array entry = {.instr = instr, .leaf = leaf};
    for (int i = 0; i < *count; i++)
        if (list[i].instr == instr && list[i].leaf == leaf) return true;
    if (s->nin + s->nout == MOST_ARRAYS || !leaf_array(s->job.lower, instr, leaf, &entry.array))
        return false;
    entry.rows = TPU_SUBLANES / entry.array.layout.packing;
    list[(*count)++] = entry;
    return same_tiling(&entry.array.layout, &s->out[0].array.layout);
}

static bool find_arrays(struct stream *s, struct lower *lower, const struct hlo_instr *instr) {
    s->job.lower = lower;
    const struct shape *like = shape_leaf(instr->shape, 0);
    if (!shape_is_array(like) || !is_pointwise(instr, like)) return false;
    for (int l = 0; l < instr->shape->nleaves; l++)
        if (!add_array(s, s->out, &s->nout, instr, l)) return false;
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];
        if (!shape_is_array(operand->shape)) return false;
        if (operand->shape->rank == 0) continue;
        if (!add_array(s, s->in, &s->nin, operand, 0)) return false;
    }
    const struct tpu_layout *layout = &s->out[0].array.layout;
    s->tiles = layout->memory_rows / s->out[0].rows;
    for (int i = 0; i < s->nin + s->nout; i++) {
        struct tpu_layout *own = &(i < s->nin ? &s->in[i] : &s->out[i - s->nin])->array.layout;
        if (own->tile_rows < TPU_SUBLANES) own->tile_rows = TPU_SUBLANES;
    }
    return s->nin > 0 && s->tiles >= FEWEST_TILES;
}

/* A load of a packed tile reads past its rows, which nothing may be on its way to. */
static int64_t buffer_rows(const struct stream_array *a) {
    return (int64_t)BLOCK_TILES * a->rows + TPU_SUBLANES;
}

static bool find_room(struct stream *s) {
    for (int i = 0; i < s->nin + s->nout; i++) {
        struct stream_array *a = i < s->nin ? &s->in[i] : &s->out[i - s->nin];
        if (a->array.in_vmem) {
            a->tag[0] = a->tag[1] = a->array.tag;
            continue;
        }
        int64_t rows = 2 * buffer_rows(a) * a->array.layout.planes;
        if ((a->row = job_rows(&s->job, rows)) < 0) return false;
        a->tag[0] = k_tag(s->job.k);
        a->tag[1] = k_tag(s->job.k);
    }
    return true;
}

/* ---- moving blocks ---- */

static int64_t buffer_row(const struct stream_array *a, int buffer, int plane) {
    return a->row + (buffer * a->array.layout.planes + plane) * buffer_rows(a);
}

/* Starts the DMAs of one block: tiles from `first` (a scalar) on. */
static void move_block(struct stream *s, bool load, int buffer, struct sx first, int64_t tiles,
                       treg predicate) {
    struct kernel *k = s->job.k;
    struct stream_array *list = load ? s->in : s->out;
    for (int i = 0; i < (load ? s->nin : s->nout); i++) {
        const struct stream_array *a = &list[i];
        int32_t words = a->rows * TPU_LANES;
        if (a->array.in_vmem) continue;
        for (int p = 0; p < a->array.layout.planes; p++) {
            int64_t hbm = a->array.word + p * a->array.layout.memory_rows * TPU_LANES;
            struct sx at = sx_addi(sx_muli(k, first, words), (int32_t)hbm);
            struct sx vmem = sx_const((int32_t)(buffer_row(a, buffer, p) * TPU_LANES));
            job_run(&s->job, load, sx_const((load ? FLAG_LOAD : FLAG_STORE) + buffer),
                    load ? at : vmem, load ? vmem : at, sx_const((int32_t)(tiles * words)),
                    predicate);
        }
    }
}

static int count_planes(const struct stream_array *list, int n) {
    int planes = 0;
    for (int i = 0; i < n; i++)
        if (!list[i].array.in_vmem) planes += list[i].array.layout.planes;
    return planes;
}

static void wait(struct stream *s, int flag, int count, treg predicate) {
    if (count == 0) return;
    k_emit(s->job.k,
           (struct mop){.op = TPU_WAIT, .literal = flag, .imm = count, .pred = predicate});
}

/* ---- computing blocks ---- */

/* First row of a plane's tile, which is the `tile`-th of a block that begins at tile `first`. A
 * packed array has fewer rows in a tile. */
static struct sx tile_row(struct stream *s, const struct stream_array *a, int buffer, int plane,
                          struct sx first, struct sx tile) {
    struct kernel *k = s->job.k;
    if (!a->array.in_vmem)
        return sx_addi(sx_muli(k, tile, a->rows), (int32_t)buffer_row(a, buffer, plane));
    int64_t row = a->array.row + plane * a->array.layout.memory_rows;
    return sx_addi(sx_muli(k, sx_add(k, first, tile), a->rows), (int32_t)row);
}

static struct tval load_tile(struct stream *s, const struct stream_array *a, int buffer,
                             struct sx first, struct sx tile) {
    struct kernel *k = s->job.k;
    struct tval value = {{0, 0}};
    for (int p = 0; p < a->array.layout.planes; p++) {
        struct sx row = tile_row(s, a, buffer, p, first, tile);
        treg raw = k_load(k, row, MIR_STRIDE_1, sx_const(0), a->tag[buffer]);
        value.v[p] = tile_unpack(k, &a->array.layout, raw);
    }
    return value;
}

static void store_tile(struct stream *s, const struct stream_array *a, int buffer, struct sx first,
                       struct sx tile, struct tval value) {
    struct kernel *k = s->job.k;
    for (int p = 0; p < a->array.layout.planes; p++) {
        struct sx row = tile_row(s, a, buffer, p, first, tile);
        treg mask = 0, bits = tile_pack(k, &a->array.layout, value.v[p], &mask);
        k_store(k, bits, row, mask, a->tag[buffer]);
    }
}

static void compute_tile(struct stream *s, int buffer, struct sx first, struct sx tile) {
    struct values *g = &s->job.g;
    int bindings = g->nbindings, memos = g->nmemos;
    struct ix index[SHAPE_MAX_RANK];
    for (int d = 0; d < s->out[0].array.layout.rank; d++)
        index[d] = ix_const(0);
    for (int i = 0; i < s->nin; i++)
        value_bind_value(g, s->in[i].instr, s->in[i].leaf,
                         load_tile(s, &s->in[i], buffer, first, tile));
    for (int i = 0; i < s->nout; i++)
        store_tile(s, &s->out[i], buffer, first, tile, value_at(g, s->job.instr, i, index, 0));
    g->nbindings = bindings;
    g->nmemos = memos;
}

static void compute_block(struct stream *s, int buffer, struct sx first, int64_t tiles) {
    struct kernel *k = s->job.k;
    struct loop loop;
    if (tiles >= UNROLL) {
        struct sx at = loop_begin(k, &loop, tiles / UNROLL);
        for (int u = 0; u < UNROLL; u++)
            compute_tile(s, buffer, first, sx_addi(sx_muli(k, at, UNROLL), u));
        loop_end(k, &loop, 0);
    }
    for (int64_t t = tiles / UNROLL * UNROLL; t < tiles; t++)
        compute_tile(s, buffer, first, sx_const((int32_t)t));
}

/* Block `block` in its buffer: its loads have been started. */
static void run_block(struct stream *s, int buffer, struct sx block, int64_t blocks) {
    struct kernel *k = s->job.k;
    int loads = count_planes(s->in, s->nin), stores = count_planes(s->out, s->nout);
    wait(s, FLAG_LOAD + buffer, loads, 0);
    treg again = s_compare(k, TPU_SGES, block, sx_const(2));
    wait(s, FLAG_STORE + buffer, stores, again);
    compute_block(s, buffer, sx_muli(k, block, BLOCK_TILES), BLOCK_TILES);
    move_block(s, false, buffer, sx_muli(k, block, BLOCK_TILES), BLOCK_TILES, 0);
    treg more = s_compare(k, TPU_SLTS, block, sx_const((int32_t)blocks - 2));
    move_block(s, true, buffer, sx_muli(k, sx_addi(block, 2), BLOCK_TILES), BLOCK_TILES, more);
}

/* An even number of whole blocks, two by two, then what is left. */
static void run_stream(struct stream *s) {
    struct kernel *k = s->job.k;
    int64_t blocks = s->tiles / (2 * BLOCK_TILES) * 2, done = blocks * BLOCK_TILES;
    int loads = count_planes(s->in, s->nin), stores = count_planes(s->out, s->nout);
    struct loop loop;
    if (blocks) {
        for (int b = 0; b < 2; b++)
            move_block(s, true, b, sx_const(b * BLOCK_TILES), BLOCK_TILES, 0);
        struct sx pair = sx_muli(k, loop_begin(k, &loop, blocks / 2), 2);
        for (int b = 0; b < 2; b++)
            run_block(s, b, sx_addi(pair, b), blocks);
        loop_end(k, &loop, 0);
        for (int b = 0; b < 2; b++)
            wait(s, FLAG_STORE + b, stores, 0);
    }
    while (done < s->tiles) {
        int64_t tiles = s->tiles - done < BLOCK_TILES ? s->tiles - done : BLOCK_TILES;
        move_block(s, true, 0, sx_const((int32_t)done), tiles, 0);
        wait(s, FLAG_LOAD, loads, 0);
        compute_block(s, 0, sx_const((int32_t)done), tiles);
        move_block(s, false, 0, sx_const((int32_t)done), tiles, 0);
        wait(s, FLAG_STORE, stores, 0);
        done += tiles;
    }
}

bool lower_stream(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct stream s = {0};
    *taken = find_arrays(&s, lower, instr);
    if (!*taken) return true;
    job_open(&s.job, lower, instr);
    if (!find_room(&s)) {
        arena_free(s.job.arena);
        *taken = false;
        return true;
    }
    /* Scalars stay. */
    for (int i = 0; i < instr->noperands; i++) {
        struct tarray scalar;
        const struct hlo_instr *operand = instr->operands[i];
        if (operand->shape->rank || operand->opcode == OP_CONSTANT) continue;
        if (!leaf_array(lower, operand, 0, &scalar)) continue;
        job_bring(&s.job, &scalar);
        job_wait(&s.job);
        value_bind_value(&s.job.g, operand, 0, fetch(&s.job.g.f, &scalar, NULL, 0));
    }
    run_stream(&s);
    return job_close(&s.job);
}
