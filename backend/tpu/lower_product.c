/* Products: blocks of both operands are laid out in VMEM, then weights (128 of k by 128 of n) go to
 * a matrix unit and rows of m stream through it; results are added up in VMEM. */
#include "backend/tpu/product.h"
#include "passes/fusion_shape.h"

/* Groups of 8 rows that are pushed before the results of as many before them are popped. */
enum { MOST_CHUNK = 16 };

struct multiplier {
    struct job job;
    struct product p;
    int64_t k_tiles, n_tiles; /* of 128 lanes, in a block */
    int64_t k_blocks, blocks; /* of k, of n */
    int64_t chunk;            /* groups of rows at once */
    int64_t chunks;           /* in a block of m */
    int64_t m_blocks;
    int64_t m_rows, k_rows; /* of a block of m; of a block of k, whole tiles */
    int64_t copies;       /* of the operands' arrays: one for each batch, or one for all in turn */
    struct tarray a;      /* [k tile][row of m in the block][128] */
    struct tarray turned; /* [m tile of the block][row of k][128], where A has its lanes along m */
    struct tarray b;      /* [n tile][row of k][128]; or [k tile][row of n][128] */
    struct tarray c;      /* [batch, n tile of all][row of m][128] */
    struct ix batch;
    struct sx m_first, n_first, k_first; /* of the blocks */
    struct sx c_base; /* first row of c for this batch, block of n and block of m */
};

static bool make_array(struct multiplier *x, int64_t tiles, int64_t rows, struct tarray *array) {
    int64_t dims[3] = {tiles, rows, TPU_LANES};
    const struct shape *shape = shape_array(x->job.lower->module->shapes, TYPE_F32, 3, dims);
    return shape && shape->bytes <= INT32_MAX && job_array(&x->job, shape, array);
}

static int64_t rows_for(int64_t tiles, int64_t rows) {
    return tiles * rows + VMEM_GUARD;
}

/* Rows of a block of m: whole chunks, and whole lane tiles where they are lanes of the operand. */
static int64_t block_rows(const struct multiplier *x) {
    int64_t rows = x->chunks * x->chunk * TPU_SUBLANES;
    return x->p.a_turned ? ceil_div(rows, TPU_LANES) * TPU_LANES : rows;
}

static int64_t rows_needed(const struct multiplier *x) {
    int64_t need = rows_for(x->k_tiles, x->m_rows) + rows_for(x->n_tiles, x->k_rows);
    if (x->p.a_turned) need += rows_for(x->m_rows / TPU_LANES, x->k_rows);
    return need;
}

/* Sizes of the blocks, so that all fits beside what has been staged. */
static bool choose_blocks(struct multiplier *x) {
    const struct product *p = &x->p;
    int64_t groups = ceil_div(p->axis[AXIS_M].total, TPU_SUBLANES);
    int64_t all_n = ceil_div(p->axis[AXIS_N].total, TPU_LANES);
    int64_t fifo = x->job.lower->options->chip.mxu_fifo;
    x->k_tiles = ceil_div(p->axis[AXIS_K].total, TPU_LANES);
    int64_t all_k = x->k_tiles;
    x->k_rows = x->k_tiles * TPU_LANES;
    x->chunk = groups < MOST_CHUNK ? groups : MOST_CHUNK;
    if (x->chunk > fifo / 2) x->chunk = fifo / 2;
    if (p->a_turned) { /* chunks divide lane tiles */
        x->chunk = MOST_CHUNK;
        while (x->chunk > fifo / 2)
            x->chunk /= 2;
    }
    x->chunks = ceil_div(groups, x->chunk);
    x->n_tiles = all_n;
    x->m_rows = block_rows(x);
    int64_t left = job_rows_left(&x->job) - rows_for(p->batches * all_n, x->m_rows);
    while (rows_needed(x) > left) {
        bool wide = x->k_tiles > 32 || (x->chunks == 1 && x->n_tiles == 1);
        if (wide && x->k_tiles > 1)
            x->k_tiles = ceil_div(x->k_tiles, 2);
        else if (x->chunks > 4 || (x->n_tiles == 1 && x->chunks > 1))
            x->chunks = ceil_div(x->chunks, 2);
        else if (x->n_tiles > 1)
            x->n_tiles = ceil_div(x->n_tiles, 2);
        else
            return false;
        x->m_rows = block_rows(x);
        x->k_rows = x->k_tiles * TPU_LANES;
    }
    x->chunks = ceil_div(x->m_rows, x->chunk * TPU_SUBLANES);
    x->k_blocks = ceil_div(all_k, x->k_tiles);
    x->blocks = ceil_div(all_n, x->n_tiles);
    x->m_blocks = ceil_div(groups * TPU_SUBLANES, x->m_rows);
    bool one_block = x->k_blocks == 1 && x->blocks == 1 && x->m_blocks == 1;
    x->copies = one_block && rows_needed(x) * p->batches <= left ? p->batches : 1;
    return true;
}

static bool make_arrays(struct multiplier *x) {
    const struct product *p = &x->p;
    int64_t n_rows = x->n_tiles * TPU_LANES, m_tiles = ceil_div(x->m_rows, TPU_LANES);
    if (p->a_turned && !make_array(x, x->copies * m_tiles, x->k_rows, &x->turned)) return false;
    return make_array(x, x->copies * x->k_tiles, x->m_rows, &x->a) &&
           make_array(x, x->copies * (p->b_turned ? x->k_tiles : x->n_tiles),
                      p->b_turned ? n_rows : x->k_rows, &x->b) &&
           make_array(x, p->batches * x->blocks * x->n_tiles, x->m_blocks * x->m_rows, &x->c);
}

/* ---- laying out operands ---- */

static void clear_array(struct multiplier *x, const struct tarray *array) {
    struct kernel *k = x->job.k;
    struct loop loop;
    struct sx at = loop_begin(k, &loop, array->layout.memory_rows / TPU_SUBLANES);
    struct sx row = sx_addi(sx_muli(k, at, TPU_SUBLANES), (int32_t)array->row);
    k_store(k, k_const(k, 0), row, 0, array->tag);
    loop_end(k, &loop, 0);
}

/* Where this batch's part of an operand's array begins. */
static struct sx part_row(struct multiplier *x, const struct tarray *array) {
    int64_t rows = x->copies > 1 ? array->layout.dims[0] / x->copies * array->layout.dims[1] : 0;
    return sx_addi(sx_muli(x->job.k, x->batch.s, (int32_t)rows), (int32_t)array->row);
}

/* 8 places of an axis along the sublanes, from `first` on. */
static struct place_of_axis rows_of(struct kernel *k, const struct axis *axis, struct sx first) {
    int32_t padded = (int32_t)axis->padded;
    if (padded % TPU_SUBLANES == 0) {
        struct sx minor = sx_mod(k, first, padded);
        return (struct place_of_axis){ix_scalar(sx_div(k, first, padded)), ix_rows(minor)};
    }
    struct ix row = ix_rows(first);
    return (struct place_of_axis){ix_div(k, row, padded), ix_mod(k, row, padded)};
}

/* The segment number `segment` (of 128 lanes at most) of an axis, along lanes from `lane` on. */
static struct place_of_axis lanes_of(struct kernel *k, const struct axis *axis, struct sx first,
                                     struct sx lane) {
    int32_t padded = (int32_t)axis->padded;
    struct sx minor = sx_sub(k, sx_mod(k, first, padded), lane);
    return (struct place_of_axis){ix_scalar(sx_div(k, first, padded)), ix_lanes(minor)};
}

struct side { /* of an array to be laid out: what runs along its rows or its lanes */
    int axis;
    struct sx first; /* place where the array begins */
    int64_t count;   /* places of the axis, counted from there, at most */
};

/* Loops over the groups of 8 rows of a side. Where that is all of an axis whose minor part is whole
 * groups, the outer parts are loops of their own, and nothing has to be divided. */
struct row_loops {
    struct loop loops[SHAPE_MAX_RANK];
    int count;
    struct sx row; /* of the array */
};

static void rows_begin(struct multiplier *x, struct side side, struct row_loops *rows,
                       struct ix *parts, treg *inside) {
    struct kernel *k = x->job.k;
    const struct axis *axis = &x->p.axis[side.axis];
    bool whole = sx_is_const(side.first) && side.first.c == 0 && side.count == axis->total;
    rows->count = 0;
    rows->row = sx_const(0);
    if (!whole || axis->padded % TPU_SUBLANES || axis->count == 0) {
        int64_t groups = ceil_div(side.count, TPU_SUBLANES);
        struct sx group = loop_begin(k, &rows->loops[rows->count++], groups);
        rows->row = sx_muli(k, group, TPU_SUBLANES);
        struct place_of_axis at = rows_of(k, axis, sx_add(k, rows->row, side.first));
        product_axis_parts(k, axis, at, parts, inside);
        return;
    }
    for (int i = 0; i + 1 < axis->count; i++) {
        struct sx at = loop_begin(k, &rows->loops[rows->count++], axis->size[i]);
        rows->row = sx_add(k, sx_muli(k, rows->row, (int32_t)axis->size[i]), at);
        parts[axis->part[i]] = ix_scalar(at);
    }
    int last = axis->count - 1;
    struct sx group = loop_begin(k, &rows->loops[rows->count++], axis->padded / TPU_SUBLANES);
    struct sx minor = sx_muli(k, group, TPU_SUBLANES);
    rows->row = sx_add(k, sx_muli(k, rows->row, (int32_t)axis->padded), minor);
    parts[axis->part[last]] = ix_rows(minor);
    treg real = ix_within(k, ix_rows(minor), 0, (int32_t)axis->size[last] - 1);
    *inside = m_and(k, *inside, real);
}

static void rows_end(struct multiplier *x, struct row_loops *rows) {
    while (rows->count)
        loop_end(x->job.k, &rows->loops[--rows->count], 0);
}

/* Segment by segment of the lanes, group by group of the rows; what is not there is 0. */
static void lay_out(struct multiplier *x, const struct tarray *array, int free, struct side rows,
                    struct side lanes) {
    struct kernel *k = x->job.k;
    const struct axis *axis = &x->p.axis[lanes.axis];
    int32_t segment = (int32_t)(axis->padded < TPU_LANES ? axis->padded : TPU_LANES);
    struct loop segments;
    struct row_loops groups;
    struct ix index[SHAPE_MAX_RANK], row_parts[SHAPE_MAX_RANK], lane_parts[SHAPE_MAX_RANK];
    treg inside = 0, here = 0;
    struct sx at = loop_begin(k, &segments, ceil_div(lanes.count, segment));
    struct sx place = sx_muli(k, at, segment), tile = sx_div(k, place, TPU_LANES);
    struct sx lane = sx_mod(k, place, TPU_LANES);
    struct sx base = sx_muli(k, tile, (int32_t)array->layout.dims[1]);
    product_axis_parts(k, axis, lanes_of(k, axis, sx_add(k, place, lanes.first), lane), lane_parts,
                       &inside);
    if (segment < TPU_LANES)
        here = ix_within(k, ix_lanes(sx_sub(k, sx_const(0), lane)), 0, segment - 1);
    rows_begin(x, rows, &groups, row_parts, &inside);
    int memos = x->job.g.nmemos;
    bool k_rows = rows.axis == AXIS_K;
    product_operand_index(k, &x->p, free, x->batch, k_rows ? lane_parts : row_parts,
                          k_rows ? row_parts : lane_parts, index, &inside);
    int operand = product_operand(&x->p, free);
    struct tval value =
        value_at(&x->job.g, x->p.instr->operands[operand], 0, index, m_and(k, inside, here));
    if (inside) value.v[0] = k_select(k, inside, value.v[0], k_const(k, 0));
    struct sx to = sx_add(k, sx_add(k, base, groups.row), part_row(x, array));
    k_store(k, value.v[0], to, here, array->tag);
    x->job.g.nmemos = memos;
    rows_end(x, &groups);
    loop_end(k, &segments, 0);
}

/* Squares of 128 rows through the transpose unit: lanes of m become rows of m. */
static void turn(struct multiplier *x) {
    struct kernel *k = x->job.k;
    struct loop m_loop, k_loop;
    struct sx m = loop_begin(k, &m_loop, x->m_rows / TPU_LANES);
    struct sx kt = loop_begin(k, &k_loop, x->k_tiles);
    struct sx from = sx_add(k, sx_muli(k, m, (int32_t)x->k_rows), sx_muli(k, kt, TPU_LANES));
    struct sx to = sx_add(k, sx_muli(k, kt, (int32_t)x->m_rows), sx_muli(k, m, TPU_LANES));
    from = sx_add(k, from, part_row(x, &x->turned));
    to = sx_add(k, to, part_row(x, &x->a));
    k_turn_square(k, from, x->turned.tag, to, x->a.tag);
    loop_end(k, &k_loop, 0);
    loop_end(k, &m_loop, 0);
}

static struct side side_of_k(const struct multiplier *x) {
    int64_t total = x->p.axis[AXIS_K].total;
    return (struct side){AXIS_K, x->k_first, total < x->k_rows ? total : x->k_rows};
}

static const struct tarray *array_of_a(const struct multiplier *x) {
    return x->p.a_turned ? &x->turned : &x->a;
}

static void lay_out_a(struct multiplier *x) {
    struct side m = {AXIS_M, x->m_first, x->m_rows};
    struct side sum = side_of_k(x);
    if (x->p.axis[AXIS_M].total < x->m_rows) m.count = x->p.axis[AXIS_M].total;
    if (x->p.a_turned)
        lay_out(x, &x->turned, AXIS_M, sum, m);
    else
        lay_out(x, &x->a, AXIS_M, m, sum);
}

static void lay_out_b(struct multiplier *x) {
    struct side n = {AXIS_N, x->n_first, x->n_tiles * TPU_LANES};
    struct side sum = side_of_k(x);
    if (x->p.axis[AXIS_N].total < n.count) n.count = x->p.axis[AXIS_N].total;
    if (x->p.b_turned)
        lay_out(x, &x->b, AXIS_N, n, sum);
    else
        lay_out(x, &x->b, AXIS_N, sum, n);
}

/* ---- the units ---- */

static enum tpu_op weight_op(const struct product *p, int part) {
    static const enum tpu_op ops[] = {TPU_WPUSHHI, TPU_WPUSHMID, TPU_WPUSHLO};
    return p->parts == 1 || p->integer ? TPU_WPUSHF : ops[part];
}

static enum tpu_op data_op(const struct product *p, int part) {
    static const enum tpu_op ops[] = {TPU_MPUSHHI, TPU_MPUSHMID, TPU_MPUSHLO};
    return p->parts == 1 || p->integer ? TPU_MPUSHF : ops[part];
}

/* 8 rows of an operand as they are pushed: f32, or a byte of integers, of which the highest has the
 * sign. */
static treg load_part(struct multiplier *x, const struct tarray *array, struct sx row, int part) {
    struct kernel *k = x->job.k;
    treg v = k_load(k, row, MIR_STRIDE_1, sx_const(0), array->tag);
    if (!x->p.integer) return v;
    if (part) v = k_binary_i(k, TPU_VSAR, v, 8 * part);
    if (part + 1 < x->p.parts) v = k_binary_i(k, TPU_VAND, v, 0xff);
    return k_unary(k, TPU_VS2F, v);
}

static void push_weights(struct multiplier *x, struct sx row, int part, int unit) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < TPU_MXU_DIM / TPU_SUBLANES; i++) {
        treg w = load_part(x, &x->b, sx_addi(row, i * TPU_SUBLANES), part);
        k_emit(k, (struct mop){.op = weight_op(&x->p, part),
                               .d = w,
                               .unit = (uint8_t)unit,
                               .flags = (uint8_t)((i == 0 ? TPU_FLAG_START : 0) |
                                                  (x->p.b_turned ? TPU_FLAG_TRANSPOSE : 0))});
    }
}

struct pass { /* of the data's part through the weights' part */
    int data, weights;
};

static void push_chunk(struct multiplier *x, struct sx row, struct pass pass, int unit) {
    struct kernel *k = x->job.k;
    bool cross = !x->p.integer && pass.data + pass.weights > 0;
    for (int i = 0; i < x->chunk; i++) {
        treg v = load_part(x, &x->a, sx_addi(row, i * TPU_SUBLANES), pass.data);
        k_emit(k, (struct mop){.op = data_op(&x->p, pass.data),
                               .d = v,
                               .unit = (uint8_t)unit,
                               .flags = cross ? TPU_FLAG_CROSS : 0});
    }
}

static void pop_chunk(struct multiplier *x, struct sx row, struct pass pass, int unit) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < x->chunk; i++) {
        struct sx at = sx_addi(row, i * TPU_SUBLANES);
        treg sum = k_load(k, at, MIR_STRIDE_1, sx_const(0), x->c.tag);
        if (x->p.integer) {
            treg v = k_emit(k, (struct mop){.op = TPU_MPOP, .unit = (uint8_t)unit});
            int shift = 8 * (pass.data + pass.weights);
            v = k_unary(k, TPU_VF2S, v);
            if (shift) v = k_binary_i(k, TPU_VSHL, v, shift);
            sum = k_binary(k, TPU_VADD, sum, v);
        } else {
            k_emit(k, (struct mop){.op = TPU_MPOPADD, .d = sum, .unit = (uint8_t)unit});
        }
        k_store(k, sum, at, 0, x->c.tag);
    }
}

/* All rows of the block through the weights: chunk i is popped after chunk i + 1 was pushed. */
static void stream(struct multiplier *x, struct sx a_row, struct sx c_row, struct pass pass) {
    struct kernel *k = x->job.k;
    int32_t step = (int32_t)x->chunk * TPU_SUBLANES;
    struct loop loop;
    push_chunk(x, a_row, pass, 0);
    if (x->chunks > 1) {
        struct sx i = loop_begin(k, &loop, x->chunks - 1);
        struct sx at = sx_muli(k, i, step);
        push_chunk(x, sx_addi(sx_add(k, a_row, at), step), pass, 0);
        pop_chunk(x, sx_add(k, c_row, at), pass, 0);
        loop_end(k, &loop, 0);
    }
    pop_chunk(x, sx_addi(c_row, (int32_t)(x->chunks - 1) * step), pass, 0);
}

static void multiply_block(struct multiplier *x) {
    struct kernel *k = x->job.k;
    struct loop n_loop, k_loop;
    int64_t a_rows = x->a.layout.dims[1], c_rows = x->c.layout.dims[1];
    struct sx n = loop_begin(k, &n_loop, x->n_tiles);
    struct sx c_row = sx_add(k, x->c_base, sx_muli(k, n, (int32_t)c_rows));
    struct sx kt = loop_begin(k, &k_loop, x->k_tiles);
    struct sx tile = x->p.b_turned ? kt : n, within = x->p.b_turned ? n : kt;
    struct sx b_row = sx_muli(k, tile, (int32_t)x->b.layout.dims[1]);
    b_row = sx_add(k, b_row, sx_muli(k, within, TPU_LANES));
    b_row = sx_add(k, b_row, part_row(x, &x->b));
    struct sx a_row = sx_add(k, sx_muli(k, kt, (int32_t)a_rows), part_row(x, &x->a));
    /* Small products first: the sum is rounded at its full size only by the last pass. Those of
     * parts so small that they do not count are left out, and of integers those past 32 bits. */
    int most = x->p.integer ? (int)sizeof(int32_t) - 1 : x->p.parts - 1;
    for (int w = x->p.parts - 1; w >= 0; w--) {
        push_weights(x, b_row, w, 0);
        for (int d = x->p.parts - 1; d >= 0; d--)
            if (d + w <= most) stream(x, a_row, c_row, (struct pass){d, w});
    }
    loop_end(k, &k_loop, 0);
    loop_end(k, &n_loop, 0);
}

static void find_c_base(struct multiplier *x, struct sx n) {
    struct kernel *k = x->job.k;
    struct sx tile = sx_add(k, sx_muli(k, x->batch.s, (int32_t)x->blocks), n);
    x->c_base = sx_muli(k, tile, (int32_t)(x->n_tiles * x->c.layout.dims[1]));
    x->c_base = sx_addi(sx_add(k, x->c_base, x->m_first), (int32_t)x->c.row);
}

/* Block by block, in arrays that are used again for the next. */
static void multiply_in_turn(struct multiplier *x) {
    struct kernel *k = x->job.k;
    struct loop batch, n_blocks, k_blocks, m_blocks;
    x->batch = ix_scalar(loop_begin(k, &batch, x->p.batches));
    struct sx n = loop_begin(k, &n_blocks, x->blocks);
    x->n_first = sx_muli(k, n, (int32_t)x->n_tiles * TPU_LANES);
    struct sx block = loop_begin(k, &k_blocks, x->k_blocks);
    x->k_first = sx_muli(k, block, (int32_t)x->k_rows);
    clear_array(x, &x->b);
    lay_out_b(x);
    struct sx m = loop_begin(k, &m_blocks, x->m_blocks);
    x->m_first = sx_muli(k, m, (int32_t)x->a.layout.dims[1]);
    clear_array(x, array_of_a(x));
    lay_out_a(x);
    if (x->p.a_turned) turn(x);
    find_c_base(x, n);
    multiply_block(x);
    loop_end(k, &m_blocks, 0);
    loop_end(k, &k_blocks, 0);
    loop_end(k, &n_blocks, 0);
    loop_end(k, &batch, 0);
}

static void multiply_batch(struct multiplier *x) {
    find_c_base(x, sx_const(0));
    multiply_block(x);
}

/* Step by step, each for all batches: loops so simple that they are pipelined. */
static void multiply_together(struct multiplier *x) {
    static void (*const steps[])(struct multiplier *) = {lay_out_b, lay_out_a, turn,
                                                         multiply_batch};
    x->m_first = x->n_first = x->k_first = sx_const(0);
    clear_array(x, &x->b);
    clear_array(x, array_of_a(x));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct loop batch;
        if (steps[i] == turn && !x->p.a_turned) continue;
        x->batch = ix_scalar(loop_begin(x->job.k, &batch, x->p.batches));
        steps[i](x);
        loop_end(x->job.k, &batch, 0);
    }
}

enum { MOST_RESULTS = 8 };

static const struct hlo_instr *result_of(const struct hlo_instr *instr, int leaf) {
    const struct hlo_instr *root = instr->opcode == OP_FUSION ? instr->called[0]->root : instr;
    return root->opcode == OP_TUPLE ? root->operands[leaf] : root;
}

struct results {
    struct multiplier *x;
    const struct tarray *arrays;
};

static void write_tile(void *user, const struct ttile *tile) {
    const struct results *results = user;
    struct multiplier *x = results->x;
    struct kernel *k = x->job.k;
    struct values *g = &x->job.g;
    struct ix batch, m, n, index[3];
    int bindings = g->nbindings, memos = g->nmemos;
    treg valid = tile_valid(k, &results->arrays[0].layout, tile);
    product_result_place(k, &x->p, tile->index, &batch, &m, &n);
    int32_t tiles = (int32_t)(x->blocks * x->n_tiles);
    index[0] = ix_add(k, ix_muli(k, batch, tiles), ix_div(k, n, TPU_LANES));
    index[1] = m;
    index[2] = ix_mod(k, n, TPU_LANES);
    struct tval value = fetch(&g->f, &x->c, index, valid);
    value = element_convert(k, value, x->p.integer ? TYPE_S32 : TYPE_F32, x->p.instr->shape->type);
    value_bind_value(g, x->p.instr, 0, value);
    for (int l = 0; l < x->job.instr->shape->nleaves; l++) {
        const struct hlo_instr *result = result_of(x->job.instr, l);
        struct tval made = value_at(g, result, 0, tile->index, valid);
        tile_store(&g->f, &results->arrays[l], tile, made);
    }
    g->nbindings = bindings;
    g->nmemos = memos;
}

/* The results, all of the product's dimensions: itself, or what is fused to it. */
static void write_results(struct multiplier *x, const struct tarray *arrays) {
    enum { SIDE = 4 };
    struct results results = {x, arrays};
    tiles_each(x->job.k, &arrays[0].layout, SIDE, write_tile, &results);
}

/* C as it is computed is the result: its rows are numbered as m is, and lanes as n. */
static bool is_direct(const struct product *p, const struct tpu_layout *layout) {
    const struct axis *m = &p->axis[AXIS_M];
    bool words = p->integer ? element_type_size(layout->type) == 4 : layout->type == TYPE_F32;
    if (!words || layout->lane_tiles != 1 || p->batches != 1) return false;
    if (p->instr->opcode != OP_CONVOLUTION || p->swapped || layout->rank < 3) return false;
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    for (int i = 0; i < m->count; i++) {
        int part = m->part[m->count - 1 - i];
        int d = part ? labels->output_spatial[part - 1] : labels->output_batch;
        if (layout->order[1 + i] != d) return false;
    }
    return layout->order[0] == labels->output_feature &&
           m->padded == layout->row_tiles * layout->tile_rows;
}

/* `instr` is the product itself, or a fusion of it with what is done to operands and results. */
/* Convolutions of so few features that a tile of k holds several places of the window, and without
 * strides, so that laying out moves whole registers. */
static bool has_small_window(const struct product *p) {
    if (p->instr->opcode != OP_CONVOLUTION) return false;
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    const struct window *window = instr_window(p->instr);
    if (!window || !window->count) return false;
    for (int i = 0; i < window->count; i++)
        if (window->v[i].stride != 1 || window->v[i].lhs_dilate != 1) return false;
    int64_t features = p->instr->operands[0]->shape->dims[labels->input_feature];
    int64_t width = window->v[window->count - 1].size;
    return width > 1 && features <= TPU_LANES / width;
}

/* Both operands laid out in VMEM, where there is room for that; `near`: only where they are in VMEM
 * as they come, too. */
static bool lower_laid_out(struct lower *lower, const struct hlo_instr *instr,
                           const struct product *p, bool near, bool *taken) {
    struct multiplier x = {.p = *p};
    struct tarray results[MOST_RESULTS];
    bool fused = instr != p->instr;
    job_open(&x.job, lower, instr);
    bool direct =
        !fused && leaf_array(lower, instr, 0, &results[0]) && is_direct(&x.p, &results[0].layout);
    for (int l = 0; l < instr->shape->nleaves && !direct; l++)
        job_result(&x.job, l, &results[l]);
    /* At least a sixteenth of VMEM for the blocks. */
    bool all = job_stage(&x.job, instr, lower->options->chip.vmem_bytes / TPU_ROW_BYTES / 16);
    *taken = (all || !near) && choose_blocks(&x) && make_arrays(&x);
    if (!*taken) {
        arena_free(x.job.arena);
        return true;
    }
    if (fused) value_enter(&x.job.g, instr);
    clear_array(&x, &x.c);
    if (x.copies > 1)
        multiply_together(&x);
    else
        multiply_in_turn(&x);
    if (direct) {
        results[0].in_vmem = true;
        results[0].row = x.c.row;
    } else {
        write_results(&x, results);
    }
    for (int l = 0; l < instr->shape->nleaves; l++)
        job_take(&x.job, l, &results[l]);
    return job_close(&x.job);
}

static bool lower_with(struct lower *lower, const struct hlo_instr *instr,
                       const struct hlo_instr *product) {
    struct product p = {0};
    bool taken = false;
    if (!product_find(&p, product, lower->options)) return lower_map(lower, instr);
    /* Operands of several parts pass the units several times: a whole small window side by side
     * fills them better than its rows one by one. */
    bool whole = p.parts > 1 && has_small_window(&p);
    if (whole && !lower_laid_out(lower, instr, &p, true, &taken)) return false;
    if (!taken && instr == product && !lower_matmul(lower, &p, &taken)) return false;
    if (!taken && !lower_panel(lower, instr, &p, &taken)) return false;
    if (!taken && !lower_laid_out(lower, instr, &p, false, &taken)) return false;
    return taken || lower_map(lower, instr);
}

bool lower_product(struct lower *lower, const struct hlo_instr *instr) {
    return lower_with(lower, instr, instr);
}

bool lower_fused_product(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    *taken = false;
    if (instr->opcode != OP_FUSION || instr->shape->nleaves > MOST_RESULTS) return true;
    struct arena *arena = arena_new();
    const struct fusion_info *info = fusion_analyse(arena, instr->called[0]);
    const struct hlo_instr *product = info->shape == FUSION_SHAPE_PRODUCT ? info->hero : NULL;
    arena_free(arena);
    *taken = product != NULL;
    return !product || lower_with(lower, instr, product);
}
