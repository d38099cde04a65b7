/* Large matrix products whose sizes are whole tiles. C is computed block by block, in VMEM; for
 * each block slabs of 128 columns of A and 128 rows of B stream in from HBM, two ahead of the one
 * in use. A slab is a sequence of streams: the rows of A's block through one set of weights (a lane
 * tile of B) in each matrix unit. The weights of the next stream shift in while one runs; results
 * are added to C some chunks of rows after they were pushed, across streams, slabs and blocks, so
 * that the units never drain. The last slab sends each chunk of C on its way as soon as it is
 * complete. */
#include "backend/tpu/product.h"

/* Rows are pushed in chunks; the results of a chunk are popped LAG chunks later, by when they are
 * there: LAG * CHUNK is more than the latency of a unit and the rows that wait before it. */
enum { CHUNK = 64, LAG = 5, MOST_BLOCK = 1024, LEAST_BLOCK = 512, BUFFERS = 3 };
enum { FLAG_A = 8, FLAG_B = 10, FLAG_RESULT = 12 }; /* slabs alternate between two of each */
enum slab_kind { SLAB_FIRST, SLAB_MIDDLE, SLAB_LAST };

struct matmul {
    struct job job;
    struct product p;
    int units;
    int64_t m_block, n_block, m_blocks, n_blocks, k_tiles;
    int64_t streams, chunks;     /* of a slab; of a stream */
    struct tarray a, b, c;       /* in HBM */
    int32_t a_tile, b_tile;      /* rows of memory in an 8 x 128 tile */
    int64_t a_row, b_row, c_row; /* VMEM */
    int a_tag, b_tag, c_tag;
    int64_t slab_a, slab_b, block_c; /* rows of a buffer */
    /* Scalars that change as the program goes on. */
    treg block, c_base, c_hbm; /* block of C; its rows in VMEM, its word in HBM */
    treg buffer, flag;         /* of the slab in use: 0-2, 0-1 */
    treg to_load, load_k, load_n, load_m, load_buffer, load_flag; /* the slab to load next */
    treg left;                                                    /* slabs after the one in use */
    treg last_c, last_hbm; /* the first of LAG chunks still to be popped */
};

/* ---- scalars ---- */

static struct sx of(treg v) {
    return sx_of(v, 0, INT32_MAX);
}

/* ---- sizes ---- */

static int64_t block_of(int64_t size) {
    for (int64_t block = MOST_BLOCK; block >= LEAST_BLOCK; block /= 2)
        if (size % block == 0) return block;
    return 0;
}

static bool is_plain(const struct hlo_instr *dot) {
    struct int_list l = instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    struct int_list r = instr_ints(dot, ATTR_RHS_CONTRACTING_DIMS);
    return dot->opcode == OP_DOT && dot->operands[0]->shape->rank == 2 &&
           dot->operands[1]->shape->rank == 2 && l.count == 1 && l.v[0] == 1 && r.count == 1 &&
           r.v[0] == 0 && dot->shape->type == TYPE_F32;
}

/* Whole tiles: nothing is padded. */
static bool is_whole(const struct product *p) {
    for (int a = 0; a < AXES; a++)
        if (p->axis[a].count != 1 || p->axis[a].size[0] != p->axis[a].total) return false;
    return true;
}

static bool choose(struct matmul *x, const struct tpu_chip *chip) {
    const struct product *p = &x->p;
    if (!is_whole(p)) return false;
    x->m_block = block_of(p->axis[AXIS_M].total);
    x->n_block = block_of(p->axis[AXIS_N].total);
    if (!x->m_block || !x->n_block || p->axis[AXIS_K].total % TPU_LANES ||
        p->axis[AXIS_K].total / TPU_LANES < 2)
        return false;
    if (chip->mxu_fifo < (LAG + 2) * CHUNK / TPU_SUBLANES) return false;
    x->units = (int)chip->mxus;
    /* Weight sets take turns, so a slab has an even number of streams. */
    while (x->units > 1 && x->n_block % (2 * TPU_LANES * x->units))
        x->units--;
    x->m_blocks = p->axis[AXIS_M].total / x->m_block;
    x->n_blocks = p->axis[AXIS_N].total / x->n_block;
    x->k_tiles = p->axis[AXIS_K].total / TPU_LANES;
    x->streams = x->n_block / TPU_LANES / x->units;
    x->chunks = x->m_block / CHUNK;
    return x->chunks > LAG;
}

bool product_is_matmul(const struct product *p, const struct tpu_chip *chip) {
    struct matmul x = {.p = *p};
    return p->parts == 1 && !p->swapped && is_plain(p->instr) && choose(&x, chip);
}

/* DMAs count words, in either memory. */
static void move_to_words(struct tarray *array) {
    if (array->in_vmem) array->word = array->row * TPU_LANES;
}

static uint8_t memory_of(const struct tarray *array) {
    return array->in_vmem ? TPU_VMEM : TPU_HBM;
}

static bool find_operand(struct matmul *x, int operand, struct tarray *array, int32_t *tile) {
    const struct hlo_instr *instr = x->p.instr->operands[operand];
    enum element_type type = instr->shape->type;
    if ((type != TYPE_F32 && type != TYPE_BF16) || !leaf_array(x->job.lower, instr, 0, array))
        return false;
    *tile = TPU_SUBLANES / array->layout.packing;
    move_to_words(array);
    return array->layout.order[0] == 1;
}

static bool find_room(struct matmul *x) {
    x->slab_a = x->m_block / TPU_SUBLANES * x->a_tile;
    x->slab_b = x->n_block / TPU_SUBLANES * x->b_tile;
    x->block_c = x->m_block * x->n_block / TPU_LANES;
    x->a_row = job_rows(&x->job, BUFFERS * x->slab_a);
    x->b_row = job_rows(&x->job, BUFFERS * x->slab_b);
    x->c_row = job_rows(&x->job, 2 * x->block_c);
    x->a_tag = k_tag(x->job.k);
    x->b_tag = k_tag(x->job.k);
    x->c_tag = k_tag(x->job.k);
    return x->a_row >= 0 && x->b_row >= 0 && x->c_row >= 0;
}

/* ---- DMA ---- */

/* The fixed words of the descriptors: slabs of A and B in. */
static void describe_slabs(struct matmul *x) {
    int32_t a = x->a_tile * TPU_LANES, b = x->b_tile * TPU_LANES;
    int32_t n_tiles = (int32_t)(x->p.axis[AXIS_N].total / TPU_LANES),
            k_groups = TPU_LANES / TPU_SUBLANES;
    struct tpu_dma slab_a = {.from = memory_of(&x->a),
                             .to = TPU_VMEM,
                             .length = (uint32_t)a,
                             .count = {(uint32_t)(x->m_block / TPU_SUBLANES), 1, 1},
                             .source_stride = {(int32_t)x->k_tiles * a},
                             .target_stride = {a}};
    /* B lane tile by lane tile, so that its rows of one lane tile follow each other. */
    struct tpu_dma slab_b = {.from = memory_of(&x->b),
                             .to = TPU_VMEM,
                             .length = (uint32_t)b,
                             .count = {(uint32_t)(x->n_block / TPU_LANES), (uint32_t)k_groups, 1},
                             .source_stride = {b, n_tiles * b},
                             .target_stride = {k_groups * b, b}};
    job_describe(&x->job, SMEM_SLAB_B, FLAG_B, &slab_b);
    job_describe(&x->job, SMEM_SLAB_A, FLAG_A, &slab_a);
}

/* Chunks of C out. */
static void describe_chunks(struct matmul *x) {
    int32_t c = TPU_SUBLANES * TPU_LANES, n_tiles = (int32_t)(x->p.axis[AXIS_N].total / TPU_LANES);
    struct tpu_dma chunk_c = {.from = TPU_VMEM,
                              .to = memory_of(&x->c),
                              .length = (uint32_t)c,
                              .count = {CHUNK / TPU_SUBLANES, 1, 1},
                              .source_stride = {c},
                              .target_stride = {n_tiles * c}};
    job_describe(&x->job, SMEM_CHUNK_C, FLAG_RESULT, &chunk_c);
}

/* Starts loading the next slab, if one is left, and moves on to the one after it. */
static void load_slab(struct matmul *x) {
    struct kernel *k = x->job.k;
    int32_t a = x->a_tile * TPU_LANES, b = x->b_tile * TPU_LANES;
    treg some = k_binary_i(k, TPU_SGTS, x->to_load, 0);
    struct sx kt = of(x->load_k), buffer = of(x->load_buffer), flag = of(x->load_flag);
    int32_t row = (int32_t)(TPU_LANES / TPU_SUBLANES * (x->p.axis[AXIS_N].total / TPU_LANES));
    struct sx from = sx_muli(k, of(x->load_n), (int32_t)(x->n_block / TPU_LANES));
    from = sx_add(k, from, sx_muli(k, kt, row));
    from = sx_addi(sx_muli(k, from, b), (int32_t)x->b.word);
    struct sx to = sx_addi(sx_muli(k, buffer, (int32_t)x->slab_b), (int32_t)x->b_row);
    job_start(&x->job, SMEM_SLAB_B, flag, from, sx_muli(k, to, TPU_LANES), some);
    from = sx_muli(k, of(x->load_m), (int32_t)(x->m_block / TPU_SUBLANES * x->k_tiles));
    from = sx_addi(sx_muli(k, sx_add(k, from, kt), a), (int32_t)x->a.word);
    to = sx_addi(sx_muli(k, buffer, (int32_t)x->slab_a), (int32_t)x->a_row);
    job_start(&x->job, SMEM_SLAB_A, flag, from, sx_muli(k, to, TPU_LANES), some);
    k_block(k);
    k_count_around(k, x->load_buffer, BUFFERS, 0);
    k_count_around(k, x->load_flag, 2, 0);
    treg next = k_count_around(k, x->load_k, (int32_t)x->k_tiles, 0);
    next = k_count_around(k, x->load_n, (int32_t)x->n_blocks, next);
    k_add_if(k, x->load_m, 1, next);
    k_add_if(k, x->to_load, -1, 0);
    k_block(k);
}

static void wait_slab(struct matmul *x, int operand_flag, treg flag, treg predicate) {
    struct kernel *k = x->job.k;
    for (int f = 0; f < 2; f++) {
        treg here = k_binary_i(k, TPU_SEQ, flag, f);
        if (predicate) here = k_binary(k, TPU_PAND, here, predicate);
        k_emit(k,
               (struct mop){.op = TPU_WAIT, .literal = operand_flag + f, .imm = 1, .pred = here});
    }
}

/* Words of HBM from one chunk of C to the next. */
static int32_t chunk_step(const struct matmul *x) {
    return (int32_t)(CHUNK / TPU_SUBLANES * (x->p.axis[AXIS_N].total / TPU_LANES) * TPU_SUBLANES *
                     TPU_LANES);
}

/* Sends chunks of C from those rows on to HBM: one DMA a chunk and unit. */
static void send_chunks(struct matmul *x, int count, struct sx rows, struct sx hbm,
                        treg predicate) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < count * x->units; i++) {
        int chunk = i / x->units, unit = i % x->units;
        struct sx from = sx_addi(rows, (int32_t)(unit * x->m_block) + chunk * CHUNK);
        struct sx to = sx_addi(hbm, chunk * chunk_step(x) + unit * TPU_SUBLANES * TPU_LANES);
        job_start(&x->job, SMEM_CHUNK_C, sx_const(0), sx_muli(k, from, TPU_LANES), to, predicate);
    }
}

/* ---- the units ---- */

static void push_data(struct matmul *x, struct sx row, int index, int set) {
    struct kernel *k = x->job.k;
    treg v = k_load(k, sx_addi(row, index * TPU_SUBLANES), MIR_STRIDE_1, sx_const(0), x->a_tag);
    for (int u = 0; u < x->units; u++)
        k_emit(k, (struct mop){.op = x->a_tile == 4 ? TPU_MPUSHBF : TPU_MPUSHF,
                               .d = v,
                               .unit = (uint8_t)u,
                               .flags = (uint8_t)set});
}

static void push_weight(struct matmul *x, struct sx row, int index, int set) {
    struct kernel *k = x->job.k;
    int32_t tile = x->b_tile * (TPU_LANES / TPU_SUBLANES);
    for (int u = 0; u < x->units; u++) {
        struct sx at = sx_addi(row, u * tile + index * TPU_SUBLANES);
        treg w = k_load(k, at, MIR_STRIDE_1, sx_const(0), x->b_tag);
        k_emit(k, (struct mop){.op = x->b_tile == 4 ? TPU_WPUSHBF : TPU_WPUSHF,
                               .d = w,
                               .unit = (uint8_t)u,
                               .flags = (uint8_t)(set | (index == 0 ? TPU_FLAG_START : 0))});
    }
}

static int data_pushes(const struct matmul *x) {
    return CHUNK / (x->a_tile == 4 ? 16 : 8);
}

static int weight_pushes(const struct matmul *x) {
    return TPU_MXU_DIM / (x->b_tile == 4 ? 16 : 8);
}

/* Adds one result of each unit to C, or is C. */
static void pop_result(struct matmul *x, struct sx rows, int index, bool add) {
    struct kernel *k = x->job.k;
    for (int u = 0; u < x->units; u++) {
        struct sx at = sx_addi(rows, (int32_t)(u * x->m_block) + index * TPU_SUBLANES);
        struct mop pop = {.op = add ? TPU_MPOPADD : TPU_MPOP, .unit = (uint8_t)u};
        if (add) pop.d = k_load(k, at, MIR_STRIDE_1, sx_const(0), x->c_tag);
        k_store(k, k_emit(k, pop), at, 0, x->c_tag);
    }
}

/* Pushes chunks, with the next weights where there are some, and pops as many older ones (`rows`:
 * of C; NULL: there are none). */
static void run_chunks(struct matmul *x, int count, struct sx data, int set,
                       const struct sx *weights, const struct sx *rows, bool add) {
    int n = count * data_pushes(x), results = count * CHUNK / TPU_SUBLANES, w = 0, done = 0;
    for (int i = 0; i < n; i++) {
        push_data(x, data, i, set);
        for (; weights && w * n < (i + 1) * weight_pushes(x); w++)
            push_weight(x, *weights, w, !set);
        for (; rows && done * n < (i + 1) * results; done++)
            pop_result(x, *rows, done, add);
    }
}

/* ---- streams ---- */

static struct sx buffer_row(struct matmul *x, int64_t first, int64_t size, struct sx buffer) {
    return sx_addi(sx_muli(x->job.k, buffer, (int32_t)size), (int32_t)first);
}

/* Where the weights of the stream after `stream` are: in this slab, or the first of the next one,
 * which must have come. */
static struct sx next_weights(struct matmul *x, struct sx stream, bool may_be_last) {
    struct kernel *k = x->job.k;
    int32_t size = (int32_t)(x->units * x->b_tile * (TPU_LANES / TPU_SUBLANES));
    struct sx here = buffer_row(x, x->b_row, x->slab_b, of(x->buffer));
    treg row = mir_reg(k->mir, MIR_S);
    k_move_s(k, row, sx_reg(k, sx_add(k, here, sx_muli(k, sx_addi(stream, 1), size))));
    if (may_be_last) {
        treg last = s_compare(k, TPU_SGES, stream, sx_const((int32_t)x->streams - 1));
        treg some = k_binary(k, TPU_PAND, last, k_binary_i(k, TPU_SGTS, x->left, 0));
        treg other = k_binary_i(k, TPU_SXOR, x->flag, 1);
        wait_slab(x, FLAG_B, other, some);
        wait_slab(x, FLAG_A, other, some);
        treg buffer = k_binary_i(k, TPU_SADD, x->buffer, 1);
        last = s_compare(k, TPU_SGES, stream, sx_const((int32_t)x->streams - 1));
        k_add_if(k, buffer, -BUFFERS, k_binary_i(k, TPU_SGES, buffer, BUFFERS));
        treg there = sx_reg(k, buffer_row(x, x->b_row, x->slab_b, of(buffer)));
        k_emit(k, (struct mop){
                      .op = TPU_SMOV, .d = row, .b = there, .bkind = MIR_B_REG, .pred = last});
    }
    k_block(k);
    return of(row);
}

/* The first chunks of a block: those before them are the last block's, if there was one. */
static void run_first_chunks(struct matmul *x, struct sx data, const struct sx *weights) {
    struct kernel *k = x->job.k;
    struct sx last = of(x->last_c);
    int branch = if_begin(k, k_binary_i(k, TPU_SGTS, x->block, 0), false);
    run_chunks(x, LAG, data, 0, weights, &last, true);
    send_chunks(x, LAG, last, of(x->last_hbm), 0);
    if_end(k, branch);
    branch = if_begin(k, k_binary_i(k, TPU_SEQ, x->block, 0), false);
    run_chunks(x, LAG, data, 0, weights, NULL, false);
    if_end(k, branch);
}

static void run_stream(struct matmul *x, struct sx stream, int set, enum slab_kind kind) {
    struct kernel *k = x->job.k;
    struct loop loop;
    struct sx data = buffer_row(x, x->a_row, x->slab_a, of(x->buffer));
    struct sx weights = next_weights(x, stream, set == 1);
    int32_t chunk_rows = CHUNK / TPU_SUBLANES * x->a_tile;
    struct sx rows = sx_muli(k, stream, (int32_t)(x->units * x->m_block));
    rows = of(sx_reg(k, sx_add(k, rows, of(x->c_base))));
    struct sx hbm = sx_muli(k, stream, x->units * TPU_SUBLANES * TPU_LANES);
    hbm = of(sx_reg(k, sx_add(k, hbm, of(x->c_hbm))));
    data = of(sx_reg(k, data));
    struct sx last = of(x->last_c);
    /* What is popped first are the stream before's last chunks. In the first slab they are C
     * itself, but for the block before's. */
    if (kind == SLAB_FIRST && set == 0) {
        treg begin = s_compare(k, TPU_SEQ, stream, sx_const(0));
        int branch = if_begin(k, begin, false);
        run_first_chunks(x, data, &weights);
        if_end(k, branch);
        begin = s_compare(k, TPU_SNE, stream, sx_const(0));
        branch = if_begin(k, begin, false);
        run_chunks(x, LAG, data, set, &weights, &last, false);
        if_end(k, branch);
    } else {
        run_chunks(x, LAG, data, set, &weights, &last, kind != SLAB_FIRST);
        treg send = set == 0 ? s_compare(k, TPU_SNE, stream, sx_const(0)) : 0;
        if (kind == SLAB_LAST) send_chunks(x, LAG, of(x->last_c), of(x->last_hbm), send);
        k_block(k);
    }
    struct sx i = loop_begin(k, &loop, x->chunks - LAG);
    struct sx at = sx_add(k, rows, sx_muli(k, i, CHUNK));
    struct sx next = sx_addi(sx_add(k, data, sx_muli(k, i, chunk_rows)), LAG * chunk_rows);
    run_chunks(x, 1, next, set, NULL, &at, kind != SLAB_FIRST);
    if (kind == SLAB_LAST) send_chunks(x, 1, at, sx_add(k, hbm, sx_muli(k, i, chunk_step(x))), 0);
    loop_end(k, &loop, 0);
    int32_t first_left = (int32_t)x->chunks - LAG;
    k_move_s(k, x->last_c, sx_reg(k, sx_addi(rows, first_left * CHUNK)));
    k_move_s(k, x->last_hbm, sx_reg(k, sx_addi(hbm, first_left * chunk_step(x))));
    k_block(k);
}

/* ---- slabs and blocks ---- */

static int32_t sends_of_block(const struct matmul *x) {
    return (int32_t)(x->streams * x->chunks * x->units);
}

/* The first slab's last chunks are added to what the chunks are: 0. */
static void clear_last_chunks(struct matmul *x, struct sx base) {
    struct kernel *k = x->job.k;
    int64_t rows = (x->streams - 1) * x->units * x->m_block + (x->chunks - LAG) * CHUNK;
    treg zero = k_const(k, 0);
    for (int u = 0; u < x->units; u++)
        for (int i = 0; i < LAG * CHUNK; i += TPU_SUBLANES)
            k_store(k, zero, sx_addi(base, (int32_t)(rows + u * x->m_block) + i), 0, x->c_tag);
}

static void run_slab(struct matmul *x, enum slab_kind kind) {
    struct kernel *k = x->job.k;
    struct loop loop;
    load_slab(x);
    if (kind == SLAB_FIRST) {
        /* The first block's have been cleared while its operands were on their way. */
        int later = if_begin(k, k_binary_i(k, TPU_SGTS, x->block, 0), false);
        clear_last_chunks(x, of(x->c_base));
        if_end(k, later);
    }
    if (kind == SLAB_LAST) {
        treg older = k_binary_i(k, TPU_SGTS, x->block, 0);
        k_emit(k, (struct mop){.op = TPU_WAIT,
                               .literal = FLAG_RESULT,
                               .imm = sends_of_block(x),
                               .pred = older});
    }
    struct sx pair = sx_muli(k, loop_begin(k, &loop, x->streams / 2), 2);
    pair = of(sx_reg(k, pair));
    run_stream(x, pair, 0, kind);
    run_stream(x, sx_addi(pair, 1), 1, kind);
    loop_end(k, &loop, 0);
    k_count_around(k, x->buffer, BUFFERS, 0);
    k_count_around(k, x->flag, 2, 0);
    k_add_if(k, x->left, -1, 0);
    k_block(k);
}

/* Where C's block `block` is computed and where it goes. */
static void begin_block(struct matmul *x) {
    struct kernel *k = x->job.k;
    struct sx block = of(x->block);
    struct sx base = sx_muli(k, sx_mod(k, block, 2), (int32_t)x->block_c);
    k_move_s(k, x->c_base, sx_reg(k, sx_addi(base, (int32_t)x->c_row)));
    struct sx m = sx_div(k, block, (int32_t)x->n_blocks),
              n = sx_mod(k, block, (int32_t)x->n_blocks);
    int64_t tile = TPU_SUBLANES * TPU_LANES, n_tiles = x->p.axis[AXIS_N].total / TPU_LANES;
    struct sx at = sx_muli(k, m, (int32_t)(x->m_block / TPU_SUBLANES * n_tiles * tile));
    at = sx_add(k, at, sx_muli(k, n, (int32_t)(x->n_block / TPU_LANES * tile)));
    k_move_s(k, x->c_hbm, sx_reg(k, sx_addi(at, (int32_t)x->c.word)));
    k_block(k);
}

static void init_variables(struct matmul *x) {
    int64_t slabs = x->m_blocks * x->n_blocks * x->k_tiles;
    x->block = k_variable(x->job.k, 0);
    x->c_base = k_variable(x->job.k, 0);
    x->c_hbm = k_variable(x->job.k, 0);
    x->buffer = k_variable(x->job.k, 0);
    x->flag = k_variable(x->job.k, 0);
    x->to_load = k_variable(x->job.k, (int32_t)(slabs));
    x->load_k = k_variable(x->job.k, 0);
    x->load_n = k_variable(x->job.k, 0);
    x->load_m = k_variable(x->job.k, 0);
    x->load_buffer = k_variable(x->job.k, 0);
    x->load_flag = k_variable(x->job.k, 0);
    x->left = k_variable(x->job.k, (int32_t)(slabs - 1));
    x->last_c = k_variable(x->job.k, (int32_t)(x->c_row));
    x->last_hbm = k_variable(x->job.k, (int32_t)(x->c.word));
}

/* The first weights shift in while the rest is still on its way. */
static void start_up(struct matmul *x) {
    struct kernel *k = x->job.k;
    load_slab(x);
    load_slab(x);
    describe_chunks(x);
    wait_slab(x, FLAG_B, x->flag, 0);
    for (int i = 0; i < weight_pushes(x); i++)
        push_weight(x, sx_const((int32_t)x->b_row), i, 0);
    clear_last_chunks(x, sx_const((int32_t)x->c_row));
    wait_slab(x, FLAG_A, x->flag, 0);
    k_block(k);
}

static void finish(struct matmul *x) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < LAG * CHUNK / TPU_SUBLANES; i++)
        pop_result(x, of(x->last_c), i, true);
    send_chunks(x, LAG, of(x->last_c), of(x->last_hbm), 0);
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = FLAG_RESULT, .imm = sends_of_block(x)});
}

static void multiply(struct matmul *x) {
    struct kernel *k = x->job.k;
    struct loop blocks, middle;
    init_variables(x);
    describe_slabs(x);
    start_up(x);
    loop_begin(k, &blocks, x->m_blocks * x->n_blocks);
    begin_block(x);
    run_slab(x, SLAB_FIRST);
    if (x->k_tiles > 2) {
        loop_begin(k, &middle, x->k_tiles - 2);
        run_slab(x, SLAB_MIDDLE);
        loop_end(k, &middle, 0);
    }
    run_slab(x, SLAB_LAST);
    k_add_if(k, x->block, 1, 0);
    k_block(k);
    loop_end(k, &blocks, 0);
    finish(x);
}

bool lower_matmul(struct lower *lower, const struct product *p, bool *taken) {
    struct matmul x = {.p = *p};
    x.job.lower = lower;
    *taken = p->parts == 1 && !p->swapped && is_plain(p->instr) &&
             choose(&x, &lower->options->chip) && find_operand(&x, 0, &x.a, &x.a_tile) &&
             find_operand(&x, 1, &x.b, &x.b_tile) && leaf_array(lower, p->instr, 0, &x.c);
    if (!*taken) return true;
    move_to_words(&x.c);
    job_open(&x.job, lower, p->instr);
    if (!find_room(&x)) {
        arena_free(x.job.arena);
        *taken = false;
        return true;
    }
    /* Results that are there before a block of code are room that its pushes do not have. */
    x.job.k->mir->mxu_depth = CHUNK / TPU_SUBLANES;
    multiply(&x);
    return job_close(&x.job);
}
