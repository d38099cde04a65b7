/* Products: blocks of both operands are laid out in VMEM, then weights (128 of k by 128 of n) go to
 * a matrix unit and rows of m stream through it; results are added up in VMEM. */
#include "backend/tpu/product.h"

/* Groups of 8 rows that are pushed before the results of as many before them are popped. */
enum { MOST_CHUNK = 16 };

struct multiplier {
    struct job job;
    struct product p;
    int64_t k_tiles, n_tiles; /* of 128 lanes; n_tiles those of a block */
    int64_t blocks;           /* of n */
    int64_t chunk;            /* groups of rows at once */
    int64_t chunks;           /* in a block of m */
    int64_t m_blocks;
    struct tarray a; /* [k tile][row of m in the block][128] */
    struct tarray b; /* [n tile][row of k][128] */
    struct tarray c; /* [batch, n tile of all][row of m][128] */
    struct ix batch;
    struct sx m_first, n_first; /* of the blocks */
    struct sx c_base;           /* first row of c for this batch, block of n and block of m */
};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static bool make_array(struct multiplier *x, int64_t tiles, int64_t rows, struct tarray *array) {
    int64_t dims[3] = {tiles, rows, TPU_LANES};
    const struct shape *shape = shape_array(x->job.lower->module->shapes, TYPE_F32, 3, dims);
    return shape && shape->bytes <= INT32_MAX && job_array(&x->job, shape, array);
}

static int64_t rows_for(int64_t tiles, int64_t rows) {
    return tiles * rows + 2 * VMEM_GUARD;
}

/* Sizes of the blocks, so that all fits beside what has been staged. */
static bool choose_blocks(struct multiplier *x) {
    const struct product *p = &x->p;
    int64_t groups = ceil_div(p->m, TPU_SUBLANES), fifo = x->job.lower->options->chip.mxu_fifo;
    x->k_tiles = ceil_div(p->k, TPU_LANES);
    int64_t all_n = ceil_div(p->n, TPU_LANES);
    x->chunk = groups < MOST_CHUNK ? groups : MOST_CHUNK;
    if (x->chunk > fifo / 2) x->chunk = fifo / 2;
    x->chunks = ceil_div(groups, x->chunk);
    x->n_tiles = all_n;
    int64_t m_rows = ceil_div(groups, x->chunk) * x->chunk * TPU_SUBLANES;
    int64_t left = job_rows_left(&x->job) - rows_for(p->batches * all_n, m_rows);
    for (;;) {
        int64_t need = rows_for(x->k_tiles, x->chunks * x->chunk * TPU_SUBLANES) +
                       rows_for(x->n_tiles, x->k_tiles * TPU_LANES);
        if (need <= left) break;
        if (x->chunks > 4 || (x->n_tiles == 1 && x->chunks > 1))
            x->chunks = ceil_div(x->chunks, 2);
        else if (x->n_tiles > 1)
            x->n_tiles = ceil_div(x->n_tiles, 2);
        else
            return false;
    }
    x->blocks = ceil_div(all_n, x->n_tiles);
    x->m_blocks = ceil_div(groups, x->chunks * x->chunk);
    return true;
}

static bool make_arrays(struct multiplier *x) {
    int64_t rows = x->chunks * x->chunk * TPU_SUBLANES;
    return make_array(x, x->k_tiles, rows, &x->a) &&
           make_array(x, x->n_tiles, x->k_tiles * TPU_LANES, &x->b) &&
           make_array(x, x->p.batches * x->blocks * x->n_tiles, x->m_blocks * rows, &x->c);
}

/* Lays out one operand: tile by tile, 0 past the end of k. `sums` says along what k runs. */
static void lay_out(struct multiplier *x, const struct tarray *array, int operand, bool k_lanes,
                    struct sx first, int64_t free_size) {
    struct kernel *k = x->job.k;
    struct tile_loops loops;
    struct ttile tile;
    struct ix index[SHAPE_MAX_RANK], sum, free;
    treg inside;
    int memos = x->job.g.nmemos;
    tiles_begin(k, &array->layout, &loops, &tile);
    struct ix lane = ix_lanes(sx_muli(k, tile.index[0].s, TPU_LANES)), row = tile.index[1];
    sum = k_lanes ? lane : row;
    free = ix_add(k, k_lanes ? row : lane, ix_scalar(first));
    treg in_sum = ix_within(k, sum, 0, (int32_t)x->p.k - 1);
    treg in_free = ix_within(k, free, 0, (int32_t)free_size - 1);
    product_operand_index(k, &x->p, operand, x->batch, free, sum, index, &inside);
    treg active = m_and(k, m_and(k, in_sum, in_free), inside);
    struct tval value = value_at(&x->job.g, x->p.instr->operands[operand], 0, index, active);
    treg zero = k_const(k, 0), some = m_and(k, in_sum, inside);
    if (some) value.v[0] = k_select(k, some, value.v[0], zero);
    tile_store(&x->job.g.f, array, &tile, value);
    x->job.g.nmemos = memos;
    tiles_end(k, &loops);
}

static void clear(struct multiplier *x) {
    struct kernel *k = x->job.k;
    struct loop loop;
    struct sx at = loop_begin(k, &loop, x->c.layout.memory_rows / TPU_SUBLANES);
    struct sx row = sx_addi(sx_muli(k, at, TPU_SUBLANES), (int32_t)x->c.row);
    k_store(k, k_const(k, 0), row, 0, x->c.tag);
    loop_end(k, &loop, 0);
}

/* ---- the units ---- */

static enum tpu_op weight_op(int parts, int part) {
    static const enum tpu_op ops[] = {TPU_WPUSHHI, TPU_WPUSHMID, TPU_WPUSHLO};
    return parts == 1 ? TPU_WPUSHF : ops[part];
}

static enum tpu_op data_op(int parts, int part) {
    static const enum tpu_op ops[] = {TPU_MPUSHHI, TPU_MPUSHMID, TPU_MPUSHLO};
    return parts == 1 ? TPU_MPUSHF : ops[part];
}

static void push_weights(struct multiplier *x, struct sx row, int part, int unit) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < TPU_MXU_DIM / TPU_SUBLANES; i++) {
        treg w = k_load(k, sx_addi(row, i * TPU_SUBLANES), MIR_STRIDE_1, sx_const(0), x->b.tag);
        k_emit(k, (struct mop){.op = weight_op(x->p.parts, part),
                               .d = w,
                               .unit = (uint8_t)unit,
                               .flags = i == 0 ? TPU_FLAG_START : 0});
    }
}

static void push_chunk(struct multiplier *x, struct sx row, enum tpu_op op, bool cross, int unit) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < x->chunk; i++) {
        treg v = k_load(k, sx_addi(row, i * TPU_SUBLANES), MIR_STRIDE_1, sx_const(0), x->a.tag);
        k_emit(k,
               (struct mop){
                   .op = op, .d = v, .unit = (uint8_t)unit, .flags = cross ? TPU_FLAG_CROSS : 0});
    }
}

static void pop_chunk(struct multiplier *x, struct sx row, int unit) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < x->chunk; i++) {
        struct sx at = sx_addi(row, i * TPU_SUBLANES);
        treg sum = k_load(k, at, MIR_STRIDE_1, sx_const(0), x->c.tag);
        k_emit(k, (struct mop){.op = TPU_MPOPADD, .d = sum, .unit = (uint8_t)unit});
        k_store(k, sum, at, 0, x->c.tag);
    }
}

/* All rows of the block through the weights: chunk i is popped after chunk i + 1 was pushed. */
static void stream(struct multiplier *x, struct sx a_row, struct sx c_row, int part, bool cross) {
    struct kernel *k = x->job.k;
    enum tpu_op op = data_op(x->p.parts, part);
    int32_t step = (int32_t)x->chunk * TPU_SUBLANES;
    struct loop loop;
    push_chunk(x, a_row, op, cross, 0);
    if (x->chunks > 1) {
        struct sx i = loop_begin(k, &loop, x->chunks - 1);
        struct sx at = sx_muli(k, i, step);
        push_chunk(x, sx_addi(sx_add(k, a_row, at), step), op, cross, 0);
        pop_chunk(x, sx_add(k, c_row, at), 0);
        loop_end(k, &loop, 0);
    }
    pop_chunk(x, sx_addi(c_row, (int32_t)(x->chunks - 1) * step), 0);
}

static void multiply_block(struct multiplier *x) {
    struct kernel *k = x->job.k;
    struct loop n_loop, k_loop;
    int64_t a_rows = x->a.layout.dims[1], c_rows = x->c.layout.dims[1];
    struct sx n = loop_begin(k, &n_loop, x->n_tiles);
    struct sx c_row = sx_add(k, x->c_base, sx_muli(k, n, (int32_t)c_rows));
    struct sx b_row = sx_muli(k, n, (int32_t)x->b.layout.dims[1]);
    struct sx kt = loop_begin(k, &k_loop, x->k_tiles);
    b_row = sx_add(k, b_row, sx_muli(k, kt, TPU_LANES));
    b_row = sx_addi(b_row, (int32_t)x->b.row);
    struct sx a_row = sx_addi(sx_muli(k, kt, (int32_t)a_rows), (int32_t)x->a.row);
    for (int w = 0; w < x->p.parts; w++) {
        push_weights(x, b_row, w, 0);
        /* Parts so small that their products do not count are left out. */
        for (int d = 0; d + w < x->p.parts; d++)
            stream(x, a_row, c_row, d, d + w > 0);
    }
    loop_end(k, &k_loop, 0);
    loop_end(k, &n_loop, 0);
}

static void multiply_all(struct multiplier *x) {
    struct kernel *k = x->job.k;
    struct loop batch, n_blocks, m_blocks;
    int64_t rows = x->a.layout.dims[1], c_rows = x->c.layout.dims[1];
    int a = x->p.swapped, b = !x->p.swapped;
    x->batch = ix_scalar(loop_begin(k, &batch, x->p.batches));
    struct sx n = loop_begin(k, &n_blocks, x->blocks);
    x->n_first = sx_muli(k, n, (int32_t)x->n_tiles * TPU_LANES);
    lay_out(x, &x->b, b, false, x->n_first, x->p.n);
    struct sx m = loop_begin(k, &m_blocks, x->m_blocks);
    x->m_first = sx_muli(k, m, (int32_t)rows);
    lay_out(x, &x->a, a, true, x->m_first, x->p.m);
    struct sx tile = sx_add(k, sx_muli(k, x->batch.s, (int32_t)x->blocks), n);
    x->c_base = sx_muli(k, tile, (int32_t)(x->n_tiles * c_rows));
    x->c_base = sx_addi(sx_add(k, x->c_base, x->m_first), (int32_t)x->c.row);
    multiply_block(x);
    loop_end(k, &m_blocks, 0);
    loop_end(k, &n_blocks, 0);
    loop_end(k, &batch, 0);
}

static void write_result(struct multiplier *x, const struct tarray *result) {
    struct kernel *k = x->job.k;
    struct tile_loops loops;
    struct ttile tile;
    struct ix batch, m, n, index[3];
    tiles_begin(k, &result->layout, &loops, &tile);
    treg valid = tile_valid(k, &result->layout, &tile);
    product_result_place(k, &x->p, tile.index, &batch, &m, &n);
    int32_t tiles = (int32_t)(x->blocks * x->n_tiles);
    index[0] = ix_add(k, ix_muli(k, batch, tiles), ix_div(k, n, TPU_LANES));
    index[1] = m;
    index[2] = ix_mod(k, n, TPU_LANES);
    struct tval value = fetch(&x->job.g.f, &x->c, index, valid);
    value = element_convert(k, value, TYPE_F32, x->p.instr->shape->type);
    tile_store(&x->job.g.f, result, &tile, value);
    tiles_end(k, &loops);
}

bool lower_product(struct lower *lower, const struct hlo_instr *instr) {
    struct multiplier x = {0};
    struct tarray result;
    if (!product_find(&x.p, instr, lower->options)) return lower_map(lower, instr);
    bool taken;
    if (!lower_matmul(lower, &x.p, &taken)) return false;
    if (taken) return true;
    job_open(&x.job, lower, instr);
    job_result(&x.job, 0, &result);
    /* At least a quarter of VMEM for the blocks. */
    job_stage(&x.job, instr, lower->options->chip.vmem_bytes / TPU_ROW_BYTES / 4);
    if (!choose_blocks(&x) || !make_arrays(&x)) {
        arena_free(x.job.arena);
        return lower_map(lower, instr);
    }
    clear(&x);
    multiply_all(&x);
    write_result(&x, &result);
    job_take(&x.job, 0, &result);
    return job_close(&x.job);
}
