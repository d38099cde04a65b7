/* Products of any size: blocks of both operands stream from HBM to VMEM while the blocks before
 * them are multiplied; a block of the result is added up in VMEM over all of k, then what is fused
 * to the product happens to it, and it leaves while the next one is computed. Within a block there
 * is one loop, so simple that it is pipelined: in a turn a tile of weights shifts into each matrix
 * unit, a chunk of rows streams through, and results are added to what is in VMEM. Registers of the
 * operands' tiles are what the units take, so nothing is laid out anew; lanes and rows of k that
 * are padding are masked as they are pushed. */
#include "backend/tpu/lower_panel.h"

static struct sx of(treg v, int64_t limit) {
    return sx_of(v, 0, limit - 1);
}

static int32_t axis_block(const struct paneler *x, int axis) {
    return (int32_t)x->plan.block[axis];
}

/* ---- matrices and their blocks ---- */

void panel_use_directly(struct panel *panel) {
    const struct matrix *m = &panel->matrix;
    panel->direct = true;
    panel->tag = m->array.tag;
    panel->row = m->array.row;
    panel->buffers = 1;
    panel->tile_step = m->tile;
    panel->group_step = (int32_t)(m->tiles * m->tile);
    panel->batch_step = (int32_t)(m->groups * m->tiles * m->tile);
}

/* Buffers for blocks of `tiles` times `groups` times batches: tile by tile, so that groups follow
 * each other. */
bool panel_make(struct paneler *x, struct panel *panel, int64_t rows, int buffers, int64_t groups,
                int32_t tile) {
    panel->tag = k_tag(x->job.k);
    panel->rows = rows;
    panel->buffers = buffers;
    panel->group_step = tile;
    panel->batch_step = (int32_t)(groups * tile);
    panel->tile_step = (int32_t)(panel->batch_step * x->plan.block[PANEL_BATCH]);
    panel->row = job_rows(&x->job, rows * buffers);
    return panel->row >= 0;
}

/* Whether nothing is on its way to VMEM while units are at work. */
static bool is_quiet(const struct paneler *x) {
    for (int i = 0; i < x->nextra; i++)
        if (!x->extra[i].panel.matrix.array.in_vmem) return false;
    return x->steps == 1;
}

/* Rows from the array's first to the last that is read in one step, chunks and tiles filled up. */
static int64_t rows_read(const struct paneler *x, const struct matrix *m, bool along_k, int own) {
    const struct panel_plan *plan = &x->plan;
    int64_t places = own == PANEL_M ? panel_pitch(plan) : panel_width(plan) * TILE_GROUPS;
    int64_t groups = along_k ? places : plan->block[PANEL_K] * TILE_GROUPS;
    int64_t tiles = along_k ? plan->block[PANEL_K] : panel_width(plan);
    int64_t last = (plan->block[PANEL_BATCH] - 1) * m->groups + groups;
    return (last * m->tiles + tiles) * m->tile + TPU_SUBLANES;
}

/* f32 in VMEM that is read nowhere past the array's end, or where that does no harm. */
static bool is_direct(const struct paneler *x, const struct matrix *m, bool along_k, int own) {
    const struct panel_plan *plan = &x->plan;
    int64_t vmem = x->job.lower->options->chip.vmem_bytes / TPU_ROW_BYTES;
    if (!m->array.in_vmem || m->array.layout.type != TYPE_F32 || m->array.shift) return false;
    if (is_quiet(x) && m->array.row + rows_read(x, m, along_k, own) <= vmem) return true;
    int64_t unit = own == PANEL_M ? plan->chunk : panel_width(plan) * TILE_GROUPS;
    bool k_whole = plan->blocks[PANEL_K] * plan->block[PANEL_K] == plan->total[PANEL_K];
    if (own == PANEL_M) {
        bool short_one = m->tile < TPU_SUBLANES && m->groups == 1;
        return k_whole && (short_one || (plan->block[PANEL_M] % unit == 0 &&
                                         m->groups % plan->block[PANEL_M] == 0));
    }
    bool n_whole = plan->blocks[PANEL_N] == 1 && panel_width(plan) == plan->total[PANEL_N];
    if (along_k) return k_whole && n_whole && m->groups % unit == 0;
    return n_whole && k_whole && m->groups == plan->total[PANEL_K] * TILE_GROUPS;
}

static bool make_window_operands(struct paneler *x) {
    const struct panel_plan *plan = &x->plan;
    struct panel_rows rows = panel_rows(plan);
    int64_t groups = (plan->b_turned ? panel_width(plan) : plan->block[PANEL_K]) * TILE_GROUPS;
    struct panel *band = plan->window.fold ? &x->raw : &x->a;
    band->matrix = plan->a;
    if (plan->window.fold && !panel_make(x, &x->a, rows.turned, 1, 0, 0)) return false;
    if (!panel_make(x, band, rows.a, panel_buffers(plan, true), 0, 0)) return false;
    /* Folded rows of a tile of k follow each other, however few there are in a tile of memory. */
    if (plan->window.fold) x->b.matrix.tile = plan->b.tile;
    return panel_make(x, &x->b, rows.b, panel_buffers(plan, false), groups,
                      plan->window.fold ? TPU_SUBLANES : plan->b.tile);
}

static bool make_gradient_operands(struct paneler *x) {
    const struct panel_plan *plan = &x->plan;
    struct panel_rows rows = panel_rows(plan);
    x->raw.matrix = plan->a;
    x->b.matrix = plan->b;
    bool fits = panel_make(x, &x->raw, rows.a, 1, 0, 0) &&
                panel_make(x, &x->a, rows.turned, 1, panel_pitch(plan), TPU_SUBLANES) &&
                panel_make(x, &x->b, rows.b, panel_buffers(plan, false), 0, 0);
    x->raw.group_step = x->b.group_step = TPU_SUBLANES;
    x->raw.tile_step = (int32_t)panel_gradient_plane(plan, false);
    x->b.tile_step = (int32_t)panel_gradient_plane(plan, true);
    return fits;
}

static bool make_operands(struct paneler *x) {
    const struct panel_plan *plan = &x->plan;
    struct panel_rows rows = panel_rows(plan);
    int64_t k_groups = plan->block[PANEL_K] * TILE_GROUPS;
    x->a.matrix = plan->a;
    x->b.matrix = plan->b;
    if (plan->window.used) return make_window_operands(x);
    if (plan->gradient.used) return make_gradient_operands(x);
    if (plan->a_turned) {
        x->raw.matrix = plan->a;
        if (!panel_make(x, &x->raw, rows.a, 1, k_groups, plan->a.tile)) return false;
        if (!panel_make(x, &x->a, rows.turned, 1, panel_pitch(plan), TPU_SUBLANES)) return false;
    } else if (is_direct(x, &plan->a, true, PANEL_M)) {
        panel_use_directly(&x->a);
    } else if (!panel_make(x, &x->a, rows.a, panel_buffers(plan, true), panel_pitch(plan),
                           plan->a.tile)) {
        return false;
    }
    if (is_direct(x, &plan->b, plan->b_turned, PANEL_N)) {
        panel_use_directly(&x->b);
        return true;
    }
    int64_t groups = plan->b_turned ? panel_width(plan) * TILE_GROUPS : k_groups;
    return panel_make(x, &x->b, rows.b, panel_buffers(plan, false), groups, plan->b.tile);
}

static bool make_results(struct paneler *x) {
    const struct panel_plan *plan = &x->plan;
    int64_t rows = panel_rows(plan).c, pitch = panel_pitch(plan);
    x->c.matrix = plan->c;
    x->out_groups = plan->block[PANEL_M];
    x->out_tiles = plan->block[PANEL_N];
    if (plan->gradient.used) {
        int64_t sums = panel_width(plan) * pitch * TPU_SUBLANES;
        x->out_groups = plan->c.groups;
        x->out_tiles = plan->c.tiles;
        if (!panel_make(x, &x->sums, sums, 1, pitch, TPU_SUBLANES) ||
            !panel_make(x, &x->c, rows - sums, 1, x->out_groups, TPU_SUBLANES))
            return false;
        return panel_make_besides(x);
    }
    if (!panel_make(x, &x->c, rows, x->passes ? 1 : panel_result_buffers(plan), pitch,
                    TPU_SUBLANES))
        return false;
    x->sums = x->c;
    return panel_make_besides(x);
}

struct sx panel_block_row(struct paneler *x, const struct panel *panel, treg buffer,
                          struct sx batch, struct sx group, struct sx tile) {
    struct kernel *k = x->job.k;
    if (!panel->direct) {
        if (panel->buffers == 1) return sx_const((int32_t)panel->row);
        struct sx row = sx_muli(k, of(buffer, panel->buffers), (int32_t)panel->rows);
        return sx_addi(row, (int32_t)panel->row);
    }
    struct sx row = sx_muli(k, batch, panel->batch_step);
    row = sx_add(k, row, sx_muli(k, group, panel->group_step));
    row = sx_add(k, row, sx_muli(k, tile, panel->tile_step));
    return sx_addi(row, (int32_t)panel->row);
}

/* ---- DMA ---- */

static void put_word(struct kernel *k, int word, struct sx value) {
    treg zero = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM});
    k_emit(k,
           (struct mop){
               .op = TPU_SST, .d = sx_reg(k, value), .a = zero, .bkind = MIR_B_IMM, .imm = word});
}

void panel_move(struct paneler *x, const struct matrix *m, const struct panel_move *move,
                struct sx home, struct sx row, bool load, int flag, treg predicate) {
    enum { COUNT = 4, LEVEL = 3 }; /* words of a descriptor */
    struct kernel *k = x->job.k;
    uint8_t memory = m->array.in_vmem ? TPU_VMEM : TPU_HBM;
    struct tpu_dma dma = {.from = load ? memory : TPU_VMEM,
                          .to = load ? TPU_VMEM : memory,
                          .length = (uint32_t)(m->tile * TPU_LANES)};
    for (int l = 0; l < TPU_DMA_LEVELS; l++) {
        int32_t far = move->home[l] * TPU_LANES, near = move->here[l] * TPU_LANES;
        dma.count[l] = sx_is_const(move->count[l]) ? (uint32_t)move->count[l].c : 1;
        dma.source_stride[l] = load ? far : near;
        dma.target_stride[l] = load ? near : far;
    }
    job_describe(&x->job, SMEM_SLAB_A, flag, &dma);
    for (int l = 0; l < TPU_DMA_LEVELS; l++)
        if (!sx_is_const(move->count[l]))
            put_word(k, SMEM_SLAB_A + COUNT + LEVEL * l, move->count[l]);
    int64_t first = m->array.in_vmem ? m->array.row * TPU_LANES : m->array.word;
    struct sx at = sx_addi(sx_muli(k, home, TPU_LANES), (int32_t)first);
    struct sx vmem = sx_muli(k, row, TPU_LANES);
    job_start(&x->job, SMEM_SLAB_A, sx_const(0), load ? at : vmem, load ? vmem : at, predicate);
}

/* Starts moving a region between the matrix and a buffer that begins at `row`. */
void panel_move_region(struct paneler *x, const struct panel *panel, const struct region *region,
                       struct sx row, bool load, int flag, treg predicate) {
    struct kernel *k = x->job.k;
    const struct matrix *m = &panel->matrix;
    int32_t tiles = (int32_t)m->tiles * m->tile;
    const struct panel_move move = {
        .count = {region->groups, region->tiles, region->batches},
        .home = {tiles, m->tile, (int32_t)m->groups * tiles},
        .here = {panel->group_step, panel->tile_step, panel->batch_step},
    };
    struct sx at = sx_muli(k, region->batch, move.home[2]);
    at = sx_add(k, at, sx_muli(k, region->group, move.home[0]));
    at = sx_add(k, at, sx_muli(k, region->tile, move.home[1]));
    panel_move(x, m, &move, at, row, load, flag, predicate);
}

struct sx panel_places_left(struct kernel *k, struct sx first, int64_t size, int64_t total) {
    struct sx count = sx_const((int32_t)size);
    if (sx_is_const(first) || first.high + size <= total) {
        if (!sx_is_const(first) || first.c + size <= total) return count;
        return sx_const((int32_t)(total - first.c));
    }
    struct sx left = sx_sub(k, sx_const((int32_t)total), first);
    return sx_of(k_binary_i(k, TPU_SMINS, sx_reg(k, left), (int32_t)size), 1, size);
}

struct sx panel_first(struct paneler *x, const treg *block, int axis) {
    if (x->plan.blocks[axis] == 1) return sx_const(0);
    return sx_muli(x->job.k, of(block[axis], x->plan.blocks[axis]), axis_block(x, axis));
}

struct region panel_region_of(struct paneler *x, const treg *block, const struct matrix *m,
                              int group_axis, int tile_axis) {
    struct kernel *k = x->job.k;
    struct region r = {panel_first(x, block, PANEL_BATCH),
                       panel_first(x, block, group_axis),
                       panel_first(x, block, tile_axis),
                       sx_const(0),
                       sx_const(0),
                       sx_const(0)};
    int32_t group_size = axis_block(x, group_axis), tile_size = axis_block(x, tile_axis);
    if (group_axis != PANEL_M) { /* places of n and k are tiles of 128 */
        r.group = sx_muli(k, r.group, TILE_GROUPS);
        group_size *= TILE_GROUPS;
    }
    if (tile_axis == PANEL_M) { /* and those of m are groups */
        r.tile = sx_div(k, r.tile, TILE_GROUPS);
        tile_size = (tile_size + TILE_GROUPS - 1) / TILE_GROUPS;
    }
    r.batches = panel_places_left(k, r.batch, axis_block(x, PANEL_BATCH), x->plan.p.batches);
    r.groups = panel_places_left(k, r.group, group_size, m->groups);
    r.tiles = panel_places_left(k, r.tile, tile_size, m->tiles);
    return r;
}

/* Starts bringing A's and B's blocks, where the predicates hold. `a`, `b`: their buffers. */
static void load_a(struct paneler *x, const treg *block, treg buffer, treg predicate) {
    const struct panel *panel = x->plan.a_turned ? &x->raw : &x->a;
    if (panel->direct) return;
    if (x->plan.gradient.used) {
        panel_load_images(x, false, block, buffer, predicate);
        return;
    }
    if (x->plan.window.used) {
        panel_load_band(x, block, buffer, predicate);
        return;
    }
    struct region r =
        panel_region_of(x, block, &panel->matrix, x->plan.a_turned ? PANEL_K : PANEL_M,
                        x->plan.a_turned ? PANEL_M : PANEL_K);
    struct sx row = panel_block_row(x, panel, buffer, r.batch, r.group, r.tile);
    panel_move_region(x, panel, &r, row, true, PANEL_FLAG_A, predicate);
    k_block(x->job.k);
}

static void load_b(struct paneler *x, const treg *block, treg buffer, treg predicate) {
    if (x->b.direct) return;
    if (x->plan.gradient.used) {
        panel_load_images(x, true, block, buffer, predicate);
        return;
    }
    if (x->plan.window.used) {
        panel_load_filter(x, block, buffer, predicate);
        return;
    }
    struct region r = panel_region_of(x, block, &x->b.matrix, x->plan.b_turned ? PANEL_N : PANEL_K,
                                      x->plan.b_turned ? PANEL_K : PANEL_N);
    struct sx row = panel_block_row(x, &x->b, buffer, r.batch, r.group, r.tile);
    panel_move_region(x, &x->b, &r, row, true, PANEL_FLAG_B, predicate);
    k_block(x->job.k);
}

void panel_wait(struct paneler *x, int flag, int count, treg predicate) {
    if (count == 0) return;
    k_emit(x->job.k,
           (struct mop){.op = TPU_WAIT, .literal = flag, .imm = count, .pred = predicate});
}

/* ---- A with its lanes along m ---- */

/* Squares of 128 x 128 through the transpose unit. */
static void turn_square(struct paneler *x, struct sx from, struct sx to) {
    struct kernel *k = x->job.k;
    treg v[TPU_TRANSPOSE_MAX]; /* unpacked first: that takes the same unit */
    for (int i = 0; i < TPU_TRANSPOSE_MAX; i++) {
        struct sx row = sx_addi(from, i * x->raw.group_step);
        v[i] = k_load(k, row, MIR_STRIDE_1, sx_const(0), x->raw.tag);
        v[i] = tile_unpack(k, &x->raw.matrix.array.layout, v[i]);
    }
    for (int i = 0; i < TPU_TRANSPOSE_MAX; i++)
        k_turn_push(k, v[i], i + 1 == TPU_TRANSPOSE_MAX, TPU_TRANSPOSE_MAX);
    k_turn_store(k, to, x->a.tag);
}

static void turn(struct paneler *x) {
    struct kernel *k = x->job.k;
    struct loop batch_loop, m_loop, k_loop;
    int64_t lanes = (x->plan.block[PANEL_M] + TILE_GROUPS - 1) / TILE_GROUPS;
    struct sx batch = loop_begin(k, &batch_loop, x->plan.block[PANEL_BATCH]);
    struct sx m = loop_begin(k, &m_loop, lanes),
              kt = loop_begin(k, &k_loop, x->plan.block[PANEL_K]);
    struct sx from =
        sx_add(k, sx_muli(k, m, x->raw.tile_step), sx_muli(k, kt, TILE_GROUPS * x->raw.group_step));
    from = sx_add(k, from, sx_muli(k, batch, x->raw.batch_step));
    struct sx to =
        sx_add(k, sx_muli(k, kt, x->a.tile_step), sx_muli(k, m, TILE_GROUPS * x->a.group_step));
    to = sx_add(k, to, sx_muli(k, batch, x->a.batch_step));
    turn_square(x, sx_addi(from, (int32_t)x->raw.row), sx_addi(to, (int32_t)x->a.row));
    loop_end(k, &k_loop, 0);
    loop_end(k, &m_loop, 0);
    loop_end(k, &batch_loop, 0);
}

/* ---- the units ---- */

/* The loop over a block counts tiles of k, within them chunks of rows (or batches, where each has
 * one chunk), within them tiles of n. Units go side by side, each over its share of the rows or of
 * n. */
struct walk {
    int64_t k, rows, n;                         /* turns along each */
    int32_t a_k, a_row, b_k, b_row, b_n, c_row; /* rows of VMEM from one to the next */
    int32_t a_unit, b_unit, c_unit;             /* from one unit to the next */
};

/* One turn of all units. Where its results go is counted by itself, so that nothing has to be kept
 * for the time from the pushes to the pops. */
struct turn {
    struct sx k, row, n; /* of what is pushed */
    struct sx pop_k, c;  /* of what is popped; the first row of C */
    struct sx a, b[TPU_MAX_UNITS];
    struct sx limit; /* places of k from this tile on */
    treg lanes;      /* their mask; 0: all count */
    treg keep;       /* 0 where sums begin, -1 where they go on; 0: there is nothing to add to */
};

struct bases {
    struct sx a, b, c, k_first;
};

static bool adds(const struct paneler *x) {
    return x->plan.total[PANEL_K] > 1 || x->plan.p.parts > 1;
}

static struct walk find_walk(const struct paneler *x) {
    const struct panel_plan *plan = &x->plan;
    bool batches = plan->block[PANEL_BATCH] > 1;
    int64_t rows = panel_turn_rows(plan), width = panel_width(plan);
    struct walk w = {.k = plan->block[PANEL_K],
                     .rows = plan->split_m ? rows / plan->units : rows,
                     .n = plan->split_m ? width : width / plan->units,
                     .a_k = x->a.tile_step,
                     .b_k = TILE_GROUPS * x->b.group_step,
                     .b_n = x->b.tile_step};
    if (plan->b_turned) {
        w.b_k = x->b.tile_step;
        w.b_n = TILE_GROUPS * x->b.group_step;
    }
    w.a_row = batches ? x->a.batch_step : (int32_t)plan->chunk * x->a.group_step;
    if (plan->window.used) {
        w.a_k = 0; /* a table says where the places of k are */
        w.a_row = panel_window_row(plan, (int)plan->chunk);
    }
    w.b_row = batches ? x->b.batch_step : 0;
    w.c_row = (int32_t)plan->chunk * x->sums.group_step;
    if (plan->split_m) { /* in turn, so that rows of C follow each other */
        w.a_unit = w.a_row;
        w.b_unit = w.b_row;
        w.c_unit = w.c_row;
        w.a_row *= plan->units;
        w.b_row *= plan->units;
        w.c_row *= plan->units;
    } else {
        w.b_unit = plan->gradient.used ? 1 : (int32_t)w.n * w.b_n;
        w.c_unit = (int32_t)w.n * x->sums.tile_step;
    }
    return w;
}

/* Mask of places, 0 to before `size`, that are below the limit; 0: all. */
static treg below(struct kernel *k, treg places, struct sx limit, int size) {
    if (!sx_is_const(limit)) return k_binary_s(k, TPU_VLTS, places, sx_reg(k, limit));
    return limit.c >= size ? 0 : k_binary_i(k, TPU_VLTS, places, limit.c);
}

static void find_turn(struct paneler *x, const struct walk *w, const struct bases *base,
                      struct turn *t) {
    struct kernel *k = x->job.k;
    t->a = sx_add(k, base->a, sx_muli(k, t->k, w->a_k));
    t->a = sx_add(k, t->a, sx_muli(k, t->row, w->a_row));
    struct sx b = sx_add(k, base->b, sx_muli(k, t->k, w->b_k));
    b = sx_add(k, b, sx_muli(k, t->row, w->b_row));
    if (!x->plan.gradient.used) b = sx_add(k, b, sx_muli(k, t->n, w->b_n));
    for (int u = 0; u < x->plan.units; u++) {
        t->b[u] = sx_addi(b, u * w->b_unit);
        if (!x->plan.gradient.used) continue; /* a table says where the places of n are */
        int32_t others = x->plan.split_m ? 0 : u * (int32_t)w->n;
        t->b[u] = sx_add(k, b, panel_gradient_offset(x, sx_addi(t->n, others)));
    }
    t->lanes = t->keep = 0;
    if (x->plan.window.used) {
        t->a = sx_add(k, t->a, panel_window_offset(x, t->k));
        t->limit = panel_window_limit(x, t->k);
    } else {
        struct sx first = sx_muli(k, sx_add(k, base->k_first, t->k), TPU_LANES);
        t->limit = sx_sub(k, sx_const((int32_t)x->plan.k_size), first);
    }
    if (x->plan.ragged_k) t->lanes = below(k, k_lane(k), t->limit, TPU_LANES);
    if (!adds(x)) return;
    struct sx number = sx_add(k, base->k_first, t->pop_k);
    t->keep = k_binary_i(k, TPU_SSAR, k_binary_i(k, TPU_SRSUB, sx_reg(k, number), 0), 31);
}

static int rows_of_push(const struct panel *panel) {
    return panel->matrix.array.layout.type == TYPE_BF16 ? 2 * TPU_SUBLANES : TPU_SUBLANES;
}

/* Mask of the rows of push `i` that are below the limit of k; packed rows are bytes of one. */
static treg mask_of_rows(struct paneler *x, const struct turn *t, int i) {
    struct kernel *k = x->job.k;
    int rows = rows_of_push(&x->b);
    struct sx left = sx_addi(t->limit, -i * rows);
    if (rows == TPU_SUBLANES) return below(k, k_sublane(k), left, rows);
    treg even = k_binary_i(k, TPU_VSHL, k_sublane(k), 1), odd = k_binary_i(k, TPU_VADD, even, 1);
    treg low = below(k, even, left, rows), high = below(k, odd, left, rows);
    return low && high ? k_binary(k, TPU_MPACKH, low, high) : high;
}

static enum tpu_op weight_op(const struct paneler *x, int part) {
    static const enum tpu_op parts[] = {TPU_WPUSHHI, TPU_WPUSHMID, TPU_WPUSHLO};
    if (x->plan.p.parts > 1) return parts[part];
    return rows_of_push(&x->b) > TPU_SUBLANES ? TPU_WPUSHBF : TPU_WPUSHF;
}

static enum tpu_op data_op(const struct paneler *x, int part) {
    static const enum tpu_op parts[] = {TPU_MPUSHHI, TPU_MPUSHMID, TPU_MPUSHLO};
    bool packed = !x->plan.a_turned && rows_of_push(&x->a) > TPU_SUBLANES;
    if (x->plan.p.parts > 1) return parts[part];
    return packed ? TPU_MPUSHBF : TPU_MPUSHF;
}

static void push_weights(struct paneler *x, const struct walk *walk, const struct turn *t, int part,
                         int set) {
    struct kernel *k = x->job.k;
    const struct panel_plan *plan = &x->plan;
    int rows = rows_of_push(&x->b), groups = rows / TPU_SUBLANES;
    for (int i = 0; i < TPU_MXU_DIM / rows; i++) {
        treg mask = 0, w = 0;
        if (plan->window.fold)
            mask = panel_fold_mask(x, i);
        else if (plan->ragged_k)
            mask = plan->b_turned ? t->lanes : mask_of_rows(x, t, i);
        for (int u = 0; u < plan->units; u++) {
            struct sx row = sx_addi(t->b[u], i * groups * x->b.group_step);
            if (u == 0 || walk->b_unit) w = k_load(k, row, MIR_STRIDE_1, sx_const(0), x->b.tag);
            k_emit(k, (struct mop){.op = weight_op(x, part),
                                   .d = w,
                                   .mask = mask,
                                   .unit = (uint8_t)u,
                                   .flags = (uint8_t)(set | (i == 0 ? TPU_FLAG_START : 0) |
                                                      (plan->b_turned ? TPU_FLAG_TRANSPOSE : 0))});
        }
    }
}

/* Rows of VMEM from a chunk's first group to another. */
static int32_t group_row(const struct paneler *x, int group) {
    if (x->plan.window.used) return panel_window_row(&x->plan, group);
    return group * x->a.group_step;
}

static void push_data(struct paneler *x, const struct walk *walk, const struct turn *t, int part,
                      int set, bool cross) {
    struct kernel *k = x->job.k;
    const struct panel_plan *plan = &x->plan;
    enum tpu_op op = data_op(x, part);
    int groups = op == TPU_MPUSHBF ? 2 : 1;
    const struct panel_window *window = &plan->window;
    int32_t step = window->used && !window->fold ? (int32_t)window->w.stride : 1;
    enum mir_stride stride = step == 1 ? MIR_STRIDE_1 : MIR_STRIDE_IMM;
    for (int i = 0; i < plan->chunk; i += groups) {
        treg v = 0;
        for (int u = 0; u < plan->units; u++) {
            struct sx row = sx_addi(t->a, u * walk->a_unit + group_row(x, i));
            if (u == 0 || walk->a_unit) v = k_load(k, row, stride, sx_const(step), x->a.tag);
            k_emit(k, (struct mop){.op = op,
                                   .d = v,
                                   .mask = t->lanes,
                                   .unit = (uint8_t)u,
                                   .flags = (uint8_t)(set | (cross ? TPU_FLAG_CROSS : 0))});
        }
    }
}

/* Sums of one turn that stay in registers from one part to the next, if they are few. */
enum { MOST_SUMS = 16 };

struct part {
    bool first, last;
    bool apart; /* sums of the turn are added to C once, after the last part */
};

static void pop_result(struct paneler *x, const struct turn *t, struct sx row, int unit,
                       struct part part, treg *sum) {
    struct kernel *k = x->job.k;
    struct mop pop = {.op = TPU_MPOP, .unit = (uint8_t)unit};
    if (part.apart) {
        pop.d = part.first ? 0 : *sum;
        if (!part.first) pop.op = TPU_MPOPADD;
        *sum = k_emit(k, pop);
        if (!part.last) return;
    }
    if (!adds(x)) {
        k_store(k, k_emit(k, pop), row, 0, x->sums.tag);
        return;
    }
    treg before = k_load(k, row, MIR_STRIDE_1, sx_const(0), x->sums.tag);
    if (part.first || part.apart) before = k_binary_s(k, TPU_VAND, before, t->keep);
    if (part.apart) {
        before = k_binary(k, TPU_VADDF, before, *sum);
    } else {
        pop.op = TPU_MPOPADD;
        pop.d = before;
        before = k_emit(k, pop);
    }
    k_store(k, before, row, 0, x->sums.tag);
}

/* Results are added to C, or begin it. */
static void pop_results(struct paneler *x, const struct walk *walk, const struct turn *t,
                        struct part part, treg *sums) {
    int units = x->plan.units;
    for (int i = 0; i < x->plan.chunk; i++)
        for (int u = 0; u < units; u++)
            pop_result(x, t, sx_addi(t->c, u * walk->c_unit + i * x->sums.group_step), u, part,
                       part.apart ? &sums[i * units + u] : NULL);
}

/* All parts of one turn: small products first, as the sum is rounded at its full size by what comes
 * last; those of parts so small that they do not count are left out. */
static void run_turn(struct paneler *x, const struct walk *walk, const struct bases *base,
                     struct turn *t, int *set) {
    int parts = x->plan.p.parts;
    treg sums[MOST_SUMS] = {0};
    bool apart = parts > 1 && x->plan.chunk * x->plan.units <= MOST_SUMS;
    struct part part = {.first = true, .apart = apart};
    find_turn(x, walk, base, t);
    for (int w = parts - 1; w >= 0; w--) {
        push_weights(x, walk, t, w, *set);
        for (int d = parts - 1 - w; d >= 0; d--) {
            push_data(x, walk, t, d, *set, w + d > 0);
            part.last = w == 0 && d == 0;
            pop_results(x, walk, t, part, sums);
            part.first = false;
        }
        *set ^= 1;
    }
}

/* Counts `place` on, from 0 to before `size` and around; where `carry` (a scalar, 0 or -1; 0:
 * always) is -1. Returns the carry of the place after it. */
static treg count_on(struct paneler *x, struct sx *place, int64_t size, treg carry) {
    struct kernel *k = x->job.k;
    if (size == 1) return carry;
    treg at = sx_reg(k, *place);
    treg moved = carry ? k_binary(k, TPU_SSUB, at, carry) : k_binary_i(k, TPU_SADD, at, 1);
    treg left = k_binary_i(k, TPU_SRSUB, moved, (int32_t)size - 1); /* -1: it is past the end */
    treg over = k_binary_i(k, TPU_SSAR, left, 31);
    *place = sx_of(k_binary(k, TPU_SANDN, moved, over), 0, size - 1);
    return over;
}

static struct turn next_turn(struct paneler *x, const struct walk *w, const struct turn *t) {
    struct kernel *k = x->job.k;
    struct turn next = *t;
    treg carry = count_on(x, &next.k, w->k, 0);
    carry = count_on(x, &next.row, w->rows, carry);
    count_on(x, &next.n, w->n, carry);
    carry = count_on(x, &next.pop_k, w->k, 0);
    treg c = sx_reg(k, t->c);
    if (carry)
        c = k_binary(k, TPU_SADD, c, k_binary_i(k, TPU_SAND, carry, w->c_row));
    else
        c = k_binary_i(k, TPU_SADD, c, w->c_row);
    next.c = of(c, INT32_MAX);
    return next;
}

static void move_turn(struct paneler *x, const struct turn *to, const struct turn *from) {
    const struct sx *a[] = {&to->k, &to->row, &to->n, &to->pop_k, &to->c};
    const struct sx *b[] = {&from->k, &from->row, &from->n, &from->pop_k, &from->c};
    for (int i = 0; i < 5; i++)
        if (a[i]->r) k_move_s(x->job.k, a[i]->r, sx_reg(x->job.k, *b[i]));
}

static struct sx place_variable(struct paneler *x, int64_t size) {
    if (size == 1) return sx_const(0);
    return sx_of(k_variable(x->job.k, 0), 0, size - 1);
}

/* One block of A and B: in loop turns two by two, so that weight sets take turns. */
static void multiply(struct paneler *x, const struct bases *base) {
    struct kernel *k = x->job.k;
    struct walk w = find_walk(x);
    struct turn at = {.k = place_variable(x, w.k),
                      .row = place_variable(x, w.rows),
                      .n = place_variable(x, w.n),
                      .pop_k = place_variable(x, w.k),
                      .c = of(mir_reg(k->mir, MIR_S), INT32_MAX)};
    int64_t turns = w.k * w.rows * w.n, together = x->plan.p.parts == 1 ? 2 : 1;
    int set = 0;
    struct loop loop;
    k_move_s(k, at.c.r, sx_reg(k, base->c));
    if (turns >= together) {
        loop_begin(k, &loop, turns / together);
        struct turn now = at;
        for (int i = 0; i < together; i++) {
            run_turn(x, &w, base, &now, &set);
            now = next_turn(x, &w, &now);
        }
        move_turn(x, &at, &now);
        loop_end(k, &loop, 0);
    }
    k_block(k);
    set = 0;
    if (turns % together) run_turn(x, &w, base, &at, &set);
    k_block(k);
}

/* ---- block after block ---- */

/* Moves next[] on, and says which of the operands' blocks are others then (1 or 0). */
static void find_next(struct paneler *x, treg *a_other, treg *b_other) {
    struct kernel *k = x->job.k;
    const struct panel_plan *plan = &x->plan;
    const int inner = plan->n_first ? PANEL_M : PANEL_N, outer = plan->n_first ? PANEL_N : PANEL_M;
    const int order[] = {PANEL_K, inner, outer, PANEL_BATCH};
    treg a = k_variable(k, 0), b = k_variable(k, 0), carry = 0;
    for (int i = 0; i < PANEL_AXES; i++) {
        int axis = order[i];
        if (plan->blocks[axis] == 1) continue;
        treg moved = carry ? k_emit(k, (struct mop){.op = TPU_SP2S, .a = carry}) : k_variable(k, 1);
        if (axis != PANEL_N) k_move_s(k, a, k_binary(k, TPU_SOR, a, moved));
        if (axis != PANEL_M) k_move_s(k, b, k_binary(k, TPU_SOR, b, moved));
        carry = k_count_around(k, x->next[axis], (int32_t)plan->blocks[axis], carry);
    }
    *a_other = a;
    *b_other = b;
}

static void flip(struct paneler *x, const struct panel *panel, treg buffer, treg fresh) {
    if (panel->buffers < 2) return;
    treg flipped = k_binary(x->job.k, TPU_SXOR, buffer, fresh);
    k_move_s(x->job.k, buffer, flipped);
}

static treg holds(struct paneler *x, treg flag) {
    return k_binary_i(x->job.k, TPU_SNE, flag, 0);
}

/* In a register of its own, or known. */
static struct sx settled(struct kernel *k, struct sx at) {
    if (sx_is_const(at)) return at;
    return sx_of(k_emit(k, (struct mop){.op = TPU_SMOV, .b = sx_reg(k, at), .bkind = MIR_B_REG}),
                 at.low, at.high);
}

/* Where one step's work on A and B begins; the next blocks start to come meanwhile. */
static void run_step(struct paneler *x) {
    struct kernel *k = x->job.k;
    const struct panel_plan *plan = &x->plan;
    const struct panel *loaded = plan->a_turned || plan->window.fold ? &x->raw : &x->a;
    treg a_other, b_other;
    int images = plan->gradient.used ? (int)plan->gradient.image_block : 1;
    int loads = plan->window.used ? (int)plan->window.image_block : images;
    if (!x->b.direct) panel_wait(x, PANEL_FLAG_B, images, holds(x, x->b_fresh));
    if (!loaded->direct) panel_wait(x, PANEL_FLAG_A, loads, holds(x, x->a_fresh));
    k_block(k);
    if (plan->window.used) {
        int branch = if_begin(k, holds(x, x->a_fresh), false);
        panel_clear_edges(x);
        if (plan->window.fold) panel_fold_band(x);
        if_end(k, branch);
    }
    if (plan->a_turned) {
        int branch = if_begin(k, holds(x, x->a_fresh), false);
        if (plan->gradient.used) {
            panel_clear_ends(x, false);
            panel_clear_ends(x, true);
        }
        turn(x);
        if_end(k, branch);
    }
    struct sx batch = panel_first(x, x->at, PANEL_BATCH), m = panel_first(x, x->at, PANEL_M),
              n = panel_first(x, x->at, PANEL_N), kt = panel_first(x, x->at, PANEL_K);
    struct sx zero = sx_const(0);
    struct bases base = {.k_first = kt};
    base.a = settled(k, panel_block_row(x, &x->a, x->a_buffer, batch, m, kt));
    base.b = plan->b_turned
                 ? panel_block_row(x, &x->b, x->b_buffer, batch, sx_muli(k, n, TILE_GROUPS), kt)
                 : panel_block_row(x, &x->b, x->b_buffer, batch, sx_muli(k, kt, TILE_GROUPS), n);
    base.b = settled(k, base.b);
    base.c = settled(k, panel_block_row(x, &x->sums, x->c_buffer, zero, zero, zero));
    base.k_first = settled(k, kt);
    if (x->steps > 1) {
        find_next(x, &a_other, &b_other);
        k_block(k);
        flip(x, &x->a, x->a_buffer, a_other);
        flip(x, &x->b, x->b_buffer, b_other);
        k_move_s(k, x->a_fresh, a_other);
        k_move_s(k, x->b_fresh, b_other);
        k_block(k);
        treg some = k_binary(k, TPU_SMINS, a_other, x->left);
        load_a(x, x->next, x->a_buffer, holds(x, some));
        some = k_binary(k, TPU_SMINS, b_other, x->left);
        load_b(x, x->next, x->b_buffer, holds(x, some));
    }
    if (x->nextra) {
        int branch = if_begin(k, s_compare(k, TPU_SEQ, base.k_first, sx_const(0)), false);
        panel_load_extras(x);
        if_end(k, branch);
    }
    multiply(x, &base);
    int branch = -1;
    if (plan->blocks[PANEL_K] > 1) {
        treg last = k_binary_i(k, TPU_SEQ, x->at[PANEL_K], (int32_t)plan->blocks[PANEL_K] - 1);
        branch = if_begin(k, last, false);
    }
    panel_finish_block(x);
    if (branch >= 0) if_end(k, branch);
    for (int i = 0; i < PANEL_AXES && x->steps > 1; i++)
        k_move_s(k, x->at[i], x->next[i]);
    k_add_if(k, x->left, -1, 0);
    k_block(k);
}

static void run_steps(struct paneler *x) {
    struct kernel *k = x->job.k;
    struct loop loop;
    for (int i = 0; i < PANEL_AXES; i++) {
        x->at[i] = k_variable(k, 0);
        x->next[i] = k_variable(k, 0);
    }
    x->a_buffer = k_variable(k, 0);
    x->b_buffer = k_variable(k, 0);
    x->c_buffer = k_variable(k, 0);
    x->a_fresh = k_variable(k, 1);
    x->b_fresh = k_variable(k, 1);
    x->left = k_variable(k, (int32_t)x->steps - 1);
    x->done = k_variable(k, 0);
    if (x->plan.window.used) panel_start_windows(x);
    if (x->plan.gradient.used) panel_start_gradient(x);
    load_b(x, x->at, x->b_buffer, 0);
    load_a(x, x->at, x->a_buffer, 0);
    job_wait(&x->job); /* for what has been brought as a whole */
    k_block(k);
    loop_begin(k, &loop, x->steps);
    run_step(x);
    loop_end(k, &loop, 0);
    panel_wait(x, PANEL_FLAG_RESULT, panel_sends(x), 0);
}

static bool make_room(struct paneler *x, const struct hlo_instr *kernel) {
    const struct tpu_chip *chip = &x->job.lower->options->chip;
    if (x->is_fused && !panel_stage_others(x, kernel)) return false;
    if (!panel_cut(&x->plan, chip, job_rows_left(&x->job), panel_extra_rows(x))) return false;
    x->steps = 1;
    for (int i = 0; i < PANEL_AXES; i++)
        x->steps *= x->plan.blocks[i];
    return make_operands(x) && make_results(x);
}

bool lower_panel(struct lower *lower, const struct hlo_instr *kernel, const struct product *p,
                 bool *taken) {
    struct paneler x = {.is_fused = kernel != p->instr};
    x.job.lower = lower;
    *taken = panel_find(&x.plan, kernel, p) && panel_locate(&x.plan, lower) &&
             panel_find_fused(&x, kernel);
    if (!*taken) return true;
    job_open(&x.job, lower, kernel);
    if (!make_room(&x, kernel)) {
        arena_free(x.job.arena);
        *taken = false;
        return true;
    }
    if (x.is_fused) value_enter(&x.job.g, kernel);
    run_steps(&x);
    return job_close(&x.job);
}
