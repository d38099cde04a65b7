/* Select and scatter over windows that do not overlap and leave the lanes alone (the gradient of
 * max-pooling): each element of the source meets its whole window in registers, places of a window
 * being loads of a stride of rows, and goes to one place of it. Blocks of lines stream through
 * VMEM, the next one on its way while one is computed.
 *
 * A line is what the two minor dimensions hold: rows and lanes. */
#include "backend/tpu/lower.h"

enum { FLAG_LOAD = 4, FLAG_STORE = 6, MOST_STRIDE = TPU_SUBLANES, MOST_PLACES = 64 };

/* An array of the kernel, and where its blocks are. */
struct lines {
    struct tarray array;
    int64_t line_rows;  /* of VMEM, a line */
    int64_t unit_lines; /* lines of a unit of work */
    int64_t at;         /* first of two buffers, where the array is in HBM */
    int tag;
};

enum { OPERAND, SOURCE, RESULT, ARRAYS };

struct pool {
    struct job job;
    const struct hlo_instr *instr;
    struct lines a[ARRAYS];
    int64_t line_stride, row_stride; /* and sizes, of the window */
    int64_t source_lines;            /* of a unit */
    int64_t units, block;            /* units in all, in a block */
    int64_t groups, lane_tiles;      /* of a source line: of 8 rows */
    int64_t source_rows;
    bool exact; /* windows cover everything */
    struct tval init;
};

/* ---- which ---- */

static int64_t dim_from_end(const struct shape *shape, int at) {
    return shape->rank >= at ? shape->dims[shape->rank - at] : 1;
}

static bool row_major(const struct tpu_layout *layout) {
    for (int i = 0; i < layout->rank; i++)
        if (layout->order[i] != layout->rank - 1 - i) return false;
    return layout->packing == 1 && layout->planes == 1;
}

/* Windows side by side; 0 where they are not. */
static int64_t tiling_stride(const struct window_dim *w) {
    bool plain = w->size == w->stride && w->pad_low == 0 && w->pad_high == 0 &&
                 w->lhs_dilate == 1 && w->rhs_dilate == 1 && !w->reversed;
    return plain ? w->stride : 0;
}

static bool find_windows(struct pool *x) {
    const struct window *window = instr_window(x->instr);
    int rank = x->instr->shape->rank;
    if (!window || rank < 2 || window->count != rank) return false;
    for (int d = 0; d < rank; d++) {
        int64_t stride = tiling_stride(&window->v[d]);
        bool may_stride = d == rank - 2 || d == rank - 3;
        if (stride == 0 || (stride != 1 && !may_stride)) return false;
    }
    x->row_stride = window->v[rank - 2].stride;
    x->line_stride = rank > 2 ? window->v[rank - 3].stride : 1;
    return x->row_stride <= MOST_STRIDE && x->row_stride * x->line_stride <= MOST_PLACES;
}

/* Rows of a stride are found by one load in one column of tiles, else by one a tile. */
static bool rows_are_even(const struct pool *x) {
    const struct tpu_layout *layout = &x->a[OPERAND].array.layout;
    if (layout->lane_tiles == 1) return true;
    return layout->tile_rows == TPU_SUBLANES && TPU_SUBLANES % x->row_stride == 0;
}

static bool find_arrays(struct pool *x, struct lower *lower) {
    const struct hlo_instr *instr = x->instr;
    const struct hlo_instr *of[ARRAYS] = {instr->operands[0], instr->operands[1], instr};
    for (int i = 0; i < ARRAYS; i++) {
        if (!leaf_array(lower, of[i], 0, &x->a[i].array)) return false;
        const struct tpu_layout *layout = &x->a[i].array.layout;
        if (!row_major(layout) || !layout->memory_rows) return false;
        x->a[i].line_rows = layout->row_tiles * layout->lane_tiles * layout->tile_rows;
    }
    return rows_are_even(x);
}

static void find_units(struct pool *x) {
    const struct shape *operand = x->instr->operands[0]->shape;
    const struct shape *source = x->instr->operands[1]->shape;
    int64_t lines = dim_from_end(operand, 3), from = dim_from_end(source, 3);
    int64_t outer = x->a[SOURCE].array.layout.majors / from;
    bool even = lines == from * x->line_stride;
    x->exact = even && dim_from_end(operand, 2) == dim_from_end(source, 2) * x->row_stride;
    /* A line of the source and its window, or all lines where some are in no window. */
    x->source_lines = even ? 1 : from;
    x->units = even ? outer * from : outer;
    x->a[OPERAND].unit_lines = x->a[RESULT].unit_lines = even ? x->line_stride : lines;
    x->a[SOURCE].unit_lines = x->source_lines;
    x->source_rows = dim_from_end(source, 2);
    x->groups = (x->source_rows + TPU_SUBLANES - 1) / TPU_SUBLANES;
    x->lane_tiles = x->a[OPERAND].array.layout.lane_tiles;
}

/* ---- room, and moving blocks ---- */

static int64_t buffer_rows(const struct pool *x, const struct lines *a) {
    return x->block * a->unit_lines * a->line_rows;
}

/* The most units a block that divide all of them evenly, beside what loads touch past the end. */
static bool find_room(struct pool *x) {
    int64_t left = job_rows_left(&x->job) - 4 * ARRAYS * VMEM_GUARD, unit = 0;
    for (int i = 0; i < ARRAYS; i++)
        if (!x->a[i].array.in_vmem) unit += 2 * x->a[i].unit_lines * x->a[i].line_rows;
    x->block = unit ? (left < 0 ? 0 : left / unit) : x->units;
    if (unit && x->block * 4 > x->units && x->units >= 4) x->block = x->units / 4;
    if (x->block < 1) return false;
    if (x->block > x->units) x->block = x->units;
    while (x->units % x->block)
        x->block--;
    for (int i = 0; i < ARRAYS; i++) {
        struct lines *a = &x->a[i];
        a->tag = a->array.in_vmem ? a->array.tag : k_tag(x->job.k);
        if (a->array.in_vmem) continue;
        /* Loads of rows that a stride reaches past the end find nothing that is on its way. */
        a->at = job_rows(&x->job, 2 * (buffer_rows(x, a) + VMEM_GUARD));
        if (a->at < 0) return false;
    }
    return true;
}

static struct sx block_row(struct pool *x, const struct lines *a, struct sx block) {
    struct kernel *k = x->job.k;
    int32_t rows = (int32_t)buffer_rows(x, a);
    if (a->array.in_vmem) return sx_addi(sx_muli(k, block, rows), (int32_t)a->array.row);
    return sx_addi(sx_muli(k, sx_mod(k, block, 2), rows + VMEM_GUARD), (int32_t)a->at);
}

static void move(struct pool *x, int array, bool load, struct sx block, treg predicate) {
    struct kernel *k = x->job.k;
    const struct lines *a = &x->a[array];
    if (a->array.in_vmem) return;
    int32_t words = (int32_t)(buffer_rows(x, a) * TPU_LANES);
    struct sx hbm = sx_addi(sx_muli(k, block, words), (int32_t)a->array.word);
    struct sx vmem = sx_muli(k, block_row(x, a, block), TPU_LANES);
    struct sx flag = sx_addi(sx_mod(k, block, 2), load ? FLAG_LOAD : FLAG_STORE);
    job_run(&x->job, load, flag, load ? hbm : vmem, load ? vmem : hbm, sx_const(words), predicate);
}

static void load_block(struct pool *x, struct sx block, treg predicate) {
    move(x, OPERAND, true, block, predicate);
    move(x, SOURCE, true, block, predicate);
}

static void wait_flag(struct pool *x, int flag, int count, treg predicate) {
    if (count == 0) return;
    k_emit(x->job.k,
           (struct mop){.op = TPU_WAIT, .literal = flag, .imm = count, .pred = predicate});
}

/* ---- a register of the source ---- */

/* Where 8 source rows' places `number` are: `pieces` strided accesses, each for its sublanes. */
struct places {
    struct sx row[MOST_STRIDE]; /* of the first sublane, were it in the piece */
    treg mask[MOST_STRIDE];     /* 0: all */
    int pieces;
};

static treg sublanes_of(struct kernel *k, int from, int to) {
    treg above = k_binary_i(k, TPU_VGES, k_sublane(k), from);
    return m_and(k, above, k_binary_i(k, TPU_VLTS, k_sublane(k), to));
}

static struct places find_places(struct pool *x, struct sx line, struct sx group,
                                 struct sx lane_tile, int row) {
    struct kernel *k = x->job.k;
    struct places p = {.pieces = x->lane_tiles == 1 ? 1 : (int)x->row_stride};
    int each = TPU_SUBLANES / p.pieces;
    for (int i = 0; i < p.pieces; i++) {
        struct sx tile = sx_addi(sx_muli(k, group, (int32_t)x->row_stride), i);
        tile = sx_add(k, sx_muli(k, tile, (int32_t)x->lane_tiles), lane_tile);
        p.row[i] = sx_addi(sx_add(k, line, sx_muli(k, tile, TPU_SUBLANES)), row - i * TPU_SUBLANES);
        p.mask[i] = p.pieces > 1 ? sublanes_of(k, i * each, (i + 1) * each) : 0;
    }
    return p;
}

static treg load_places(struct pool *x, const struct places *p) {
    struct kernel *k = x->job.k;
    struct sx stride = sx_const((int32_t)x->row_stride);
    treg all = 0;
    for (int i = 0; i < p->pieces; i++) {
        treg rows = k_load(k, p->row[i], MIR_STRIDE_IMM, stride, x->a[OPERAND].tag);
        all = i ? k_select(k, p->mask[i], rows, all) : rows;
    }
    return all;
}

static void store_places(struct pool *x, const struct places *p, treg value, treg mask) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < p->pieces; i++) {
        struct mop op = {.op = TPU_VST,
                         .d = value,
                         .base = p->row[i].r,
                         .offset = p->row[i].c,
                         .mask = m_and(k, mask, p->mask[i]),
                         .stride_kind = x->row_stride == 1 ? MIR_STRIDE_1 : MIR_STRIDE_IMM,
                         .stride = (int32_t)x->row_stride,
                         .tag = x->a[RESULT].tag};
        k_emit(k, op);
    }
}

/* Lines of operand and result begin at `from` and `to`, of the source at `source`. */
static void scatter_group(struct pool *x, struct sx from, struct sx source, struct sx to,
                          struct sx group, struct sx lane_tile) {
    struct kernel *k = x->job.k;
    struct values *g = &x->job.g;
    const struct lines *a = x->a;
    int high = a[SOURCE].array.layout.tile_rows, places = 0, memos = g->nmemos;
    struct sx tile = sx_add(k, sx_muli(k, group, (int32_t)x->lane_tiles), lane_tile);
    treg value = k_load(k, sx_add(k, source, sx_muli(k, tile, high)), MIR_STRIDE_1, sx_const(0),
                        a[SOURCE].tag);
    treg best = k_const(k, 0), current = 0;
    for (int l = 0; l < x->line_stride; l++) {
        for (int r = 0; r < x->row_stride; r++, places++) {
            struct sx line = sx_addi(from, (int32_t)(l * a[OPERAND].line_rows));
            struct places p = find_places(x, line, group, lane_tile, r);
            treg candidate = load_places(x, &p);
            if (places) {
                struct tval args[2] = {{{current, 0}}, {{candidate, 0}}}, keeps[1];
                value_call(g, x->instr->called[0], args, keeps);
                treg stays = element_mask(k, keeps[0]);
                candidate = k_select(k, stays, current, candidate);
                best = k_select(k, stays, best, k_const(k, places));
            }
            current = candidate;
        }
    }
    struct tval args[2] = {x->init, {{value, 0}}}, sum[1];
    value_call(g, x->instr->called[1], args, sum);
    treg mask = 0;
    if (x->source_rows % TPU_SUBLANES) {
        struct ix row = ix_rows(sx_muli(k, group, TPU_SUBLANES));
        mask = ix_within(k, row, 0, (int32_t)x->source_rows - 1);
    }
    for (int n = 0; n < places; n++) {
        struct sx line = sx_addi(to, (int32_t)(n / x->row_stride * a[RESULT].line_rows));
        struct places p = find_places(x, line, group, lane_tile, (int)(n % x->row_stride));
        treg here = k_binary_i(k, TPU_VEQ, best, n);
        store_places(x, &p, k_select(k, here, sum[0].v[0], x->init.v[0]), mask);
    }
    g->nmemos = memos;
}

/* ---- a block ---- */

static void fill_with_init(struct pool *x, struct sx to) {
    struct kernel *k = x->job.k;
    struct loop loop;
    int64_t rows = buffer_rows(x, &x->a[RESULT]);
    int step = rows % TPU_SUBLANES ? 1 : TPU_SUBLANES;
    treg first = step == 1 ? k_binary_i(k, TPU_VEQ, k_sublane(k), 0) : 0;
    struct sx at = sx_muli(k, loop_begin(k, &loop, rows / step), step);
    k_store(k, x->init.v[0], sx_add(k, to, at), first, x->a[RESULT].tag);
    loop_end(k, &loop, 0);
}

static void compute_block(struct pool *x, struct sx block) {
    struct kernel *k = x->job.k;
    struct loop units, lines, groups, tiles;
    struct sx row[ARRAYS];
    for (int i = 0; i < ARRAYS; i++)
        row[i] = block_row(x, &x->a[i], block);
    if (!x->exact) fill_with_init(x, row[RESULT]);
    struct sx unit = loop_begin(k, &units, x->block);
    struct sx line = loop_begin(k, &lines, x->source_lines);
    for (int i = 0; i < ARRAYS; i++) {
        const struct lines *a = &x->a[i];
        int64_t step = i == SOURCE ? 1 : x->line_stride;
        struct sx at =
            sx_add(k, sx_muli(k, unit, (int32_t)a->unit_lines), sx_muli(k, line, (int32_t)step));
        row[i] = sx_add(k, row[i], sx_muli(k, at, (int32_t)a->line_rows));
    }
    struct sx group = loop_begin(k, &groups, x->groups);
    struct sx tile = loop_begin(k, &tiles, x->lane_tiles);
    scatter_group(x, row[OPERAND], row[SOURCE], row[RESULT], group, tile);
    loop_end(k, &tiles, 0);
    loop_end(k, &groups, 0);
    loop_end(k, &lines, 0);
    loop_end(k, &units, 0);
}

static void run(struct pool *x) {
    struct kernel *k = x->job.k;
    struct loop loop;
    int64_t blocks = x->units / x->block;
    int loads = !x->a[OPERAND].array.in_vmem + !x->a[SOURCE].array.in_vmem;
    int stores = !x->a[RESULT].array.in_vmem;
    load_block(x, sx_const(0), 0);
    struct sx block = loop_begin(k, &loop, blocks);
    struct sx parity = sx_mod(k, block, 2), next = sx_addi(block, 1);
    for (int b = 0; b < 2 && b < blocks; b++)
        wait_flag(x, FLAG_LOAD + b, loads, s_compare(k, TPU_SEQ, parity, sx_const(b)));
    if (blocks > 1) load_block(x, next, s_compare(k, TPU_SLTS, next, sx_const((int32_t)blocks)));
    for (int b = 0; b < 2 && blocks > 2; b++) {
        treg again = s_compare(k, TPU_SGES, block, sx_const(2));
        treg here = s_compare(k, TPU_SEQ, parity, sx_const(b));
        wait_flag(x, FLAG_STORE + b, stores, k_binary(k, TPU_PAND, again, here));
    }
    compute_block(x, block);
    move(x, RESULT, false, block, 0);
    loop_end(k, &loop, 0);
    for (int64_t b = blocks > 2 ? blocks - 2 : 0; b < blocks; b++)
        wait_flag(x, FLAG_STORE + (int)(b % 2), stores, 0);
}

bool lower_pool(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct pool x = {.instr = instr};
    *taken = find_windows(&x) && find_arrays(&x, lower);
    if (!*taken) return true;
    find_units(&x);
    job_open(&x.job, lower, instr);
    if (!find_room(&x)) {
        arena_free(x.job.arena);
        *taken = false;
        return true;
    }
    struct tarray scalar;
    const struct hlo_instr *init = instr->operands[2];
    if (init->opcode != OP_CONSTANT && leaf_array(lower, init, 0, &scalar)) {
        job_bring(&x.job, &scalar);
        job_wait(&x.job);
        value_bind_value(&x.job.g, init, 0, fetch(&x.job.g.f, &scalar, NULL, 0));
    }
    x.init = value_at(&x.job.g, init, 0, NULL, 0);
    run(&x);
    return job_close(&x.job);
}
