/* Convolutions as products of panels: bands of the input, in VMEM with a border of zeros, so that a
 * place of the window is a number of rows from one to the next. */
#include "backend/tpu/lower_panel.h"

/* Words of SMEM from its end: a table of places of k, and one of features in each. */
static int table_word(const struct paneler *x, int table) {
    int64_t words = x->job.lower->options->chip.smem_bytes / 4;
    return (int)(words - (table + 1) * x->plan.total[PANEL_K]);
}

/* Where bands come to. */
static const struct panel *band_of(const struct paneler *x) {
    return x->plan.window.fold ? &x->raw : &x->a;
}

static int32_t plane_rows(const struct paneler *x) {
    const struct panel_window *w = &x->plan.window;
    return (int32_t)(w->image_block * w->band * w->pitch);
}

static int64_t window_place(const struct window_dim *w, int64_t at) {
    return (w->reversed ? w->size - 1 - at : at) * w->rhs_dilate;
}

static void write_tables(struct paneler *x) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    int64_t tiles = x->plan.a.tiles;
    treg zero = sx_reg(k, sx_const(0));
    for (int i = 0; i < x->plan.total[PANEL_K]; i++) {
        int64_t tile = i % tiles, place = i / tiles;
        int64_t at = window_place(&w->h, place / w->w.size) * w->pitch +
                     window_place(&w->w, place % w->w.size) + tile * plane_rows(x);
        if (w->fold) at = window_place(&w->h, i) * w->out_groups * TPU_SUBLANES;
        int32_t left = (int32_t)(w->features - tile * TPU_LANES);
        int32_t values[] = {(int32_t)at, left < TPU_LANES ? left : TPU_LANES};
        for (int t = 0; t < 2; t++)
            k_emit(k, (struct mop){.op = TPU_SST,
                                   .d = sx_reg(k, sx_const(values[t])),
                                   .a = zero,
                                   .bkind = MIR_B_IMM,
                                   .imm = table_word(x, t) + i});
    }
    k_block(k);
}

static struct sx look_up(struct paneler *x, struct sx at, int table) {
    struct kernel *k = x->job.k;
    return sx_of(k_emit(k, (struct mop){.op = TPU_SLD,
                                        .a = sx_reg(k, at),
                                        .bkind = MIR_B_IMM,
                                        .imm = table_word(x, table)}),
                 0, INT32_MAX);
}

struct sx panel_window_offset(struct paneler *x, struct sx k) {
    return x->plan.total[PANEL_K] == 1 ? sx_const(0) : look_up(x, k, 0);
}

struct sx panel_window_limit(struct paneler *x, struct sx k) {
    const struct panel_window *w = &x->plan.window;
    if (w->fold) return sx_const(TPU_LANES);
    if (x->plan.a.tiles == 1 || !x->plan.ragged_k) return sx_const((int32_t)w->features);
    return look_up(x, k, 1);
}

static void clear_rows(struct paneler *x, struct sx first, int64_t rows) {
    struct kernel *k = x->job.k;
    int64_t whole = rows / TPU_SUBLANES, over = rows % TPU_SUBLANES;
    struct loop loop;
    if (whole) {
        struct sx at = sx_muli(k, loop_begin(k, &loop, whole), TPU_SUBLANES);
        k_store(k, k_const(k, 0), sx_add(k, first, at), 0, band_of(x)->tag);
        loop_end(k, &loop, 0);
    }
    if (!over) return;
    treg mask = ix_within(k, ix_rows(sx_const(0)), 0, (int32_t)over - 1);
    k_store(k, k_const(k, 0), sx_addi(first, (int32_t)whole * TPU_SUBLANES), mask, band_of(x)->tag);
}

void panel_start_windows(struct paneler *x) {
    write_tables(x);
    clear_rows(x, sx_const((int32_t)band_of(x)->row), band_of(x)->rows * band_of(x)->buffers);
}

/* The block's first image and row of results. */
static void find_block(struct paneler *x, const treg *block, struct sx *image, struct sx *row) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    int64_t rows = w->out_h / w->row_block;
    struct sx at = x->plan.blocks[PANEL_M] == 1
                       ? sx_const(0)
                       : sx_of(block[PANEL_M], 0, x->plan.blocks[PANEL_M] - 1);
    *image = sx_muli(k, sx_div(k, at, (int32_t)rows), (int32_t)w->image_block);
    *row = sx_muli(k, sx_mod(k, at, (int32_t)rows), (int32_t)w->row_block);
}

static struct sx at_most(struct kernel *k, struct sx at, int32_t most) {
    if (at.high <= most) return at;
    if (sx_is_const(at)) return sx_const(at.c < most ? at.c : most);
    return sx_of(k_binary_i(k, TPU_SMINS, sx_reg(k, at), most), at.low, most);
}

static struct sx at_least(struct kernel *k, struct sx at, int32_t least) {
    if (at.low >= least) return at;
    if (sx_is_const(at)) return sx_const(at.c > least ? at.c : least);
    return sx_of(k_binary_i(k, TPU_SMAXS, sx_reg(k, at), least), least, at.high);
}

void panel_load_band(struct paneler *x, const treg *block, treg buffer, treg predicate) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    const struct matrix *a = &x->plan.a;
    int32_t groups = (int32_t)a->array.layout.row_tiles, tiles = (int32_t)a->tiles;
    int32_t line = groups * tiles * a->tile, pitch = (int32_t)w->pitch;
    struct sx image, out, zero = sx_const(0);
    find_block(x, block, &image, &out);
    struct sx top = sx_addi(sx_muli(k, out, (int32_t)w->h.stride), -(int32_t)w->h.pad_low);
    struct sx first = at_least(k, top, 0);
    struct sx end = at_most(k, sx_addi(top, (int32_t)w->band), (int32_t)w->in_h);
    struct sx count = at_least(k, sx_sub(k, end, first), 1);
    first = at_most(k, first, (int32_t)w->in_h - 1);
    struct panel_move move = {.count = {sx_const(groups), sx_const(tiles), count},
                              .home = {tiles * a->tile, a->tile, line},
                              .here = {a->tile, plane_rows(x), pitch}};
    struct sx base = panel_block_row(x, band_of(x), buffer, zero, zero, zero);
    base = sx_addi(base, (int32_t)w->w.pad_low);
    base = sx_add(k, base, sx_muli(k, sx_sub(k, first, top), pitch));
    for (int i = 0; i < w->image_block; i++) {
        struct sx at = at_most(k, sx_addi(image, i), (int32_t)w->images - 1);
        at = sx_add(k, sx_muli(k, at, (int32_t)w->in_h), first);
        panel_move(x, a, &move, sx_muli(k, at, line), sx_addi(base, i * (int32_t)w->band * pitch),
                   true, PANEL_FLAG_A, predicate);
    }
    k_block(k);
}

void panel_load_filter(struct paneler *x, const treg *block, treg buffer, treg predicate) {
    struct kernel *k = x->job.k;
    const struct panel_plan *plan = &x->plan;
    const struct panel_window *w = &plan->window;
    const struct matrix *b = &plan->b;
    int32_t places = (int32_t)(w->h.size * w->w.size), line = (int32_t)b->tiles * b->tile;
    int32_t a_tiles = (int32_t)plan->a.tiles, k_tile = TILE_GROUPS * x->b.group_step;
    struct sx n = panel_first(x, block, PANEL_N), zero = sx_const(0), home;
    struct sx row = panel_block_row(x, &x->b, buffer, zero, zero, zero);
    struct panel_move move = {.home = {line, b->tile, (int32_t)b->groups * line},
                              .here = {x->b.group_step, x->b.tile_step, a_tiles * k_tile}};
    move.count[2] = sx_const(places);
    if (w->fold) { /* rows of all places of a row of the window follow each other */
        int32_t each = (int32_t)(b->groups * w->w.size);
        move.count[0] = sx_const(each);
        move.count[1] = panel_places_left(k, n, plan->block[PANEL_N], b->tiles);
        move.count[2] = sx_const((int32_t)w->h.size);
        move.home[2] = each * line;
        move.here[0] = b->tile;
        move.here[2] = k_tile;
        home = sx_muli(k, n, b->tile);
    } else if (plan->b_turned) {
        struct sx group = sx_muli(k, n, TILE_GROUPS);
        move.count[0] = panel_places_left(k, group, plan->block[PANEL_N] * TILE_GROUPS, b->groups);
        move.count[1] = sx_const((int32_t)b->tiles);
        move.here[2] = a_tiles * x->b.tile_step;
        home = sx_muli(k, group, line);
    } else {
        move.count[0] = sx_const((int32_t)b->groups);
        move.count[1] = panel_places_left(k, n, plan->block[PANEL_N], b->tiles);
        home = sx_muli(k, n, b->tile);
    }
    panel_move(x, b, &move, home, row, true, PANEL_FLAG_B, predicate);
    k_block(k);
}

/* What the tiles hold beyond the rows of the input. */
static void clear_right(struct paneler *x, struct sx base) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    const struct tpu_layout *layout = &x->plan.a.array.layout;
    int32_t tile = layout->tile_rows, left = (int32_t)(w->in_w % tile);
    struct loop loop;
    if (left == 0) return;
    treg mask = ix_within(k, ix_rows(sx_const(0)), left, tile - 1);
    int64_t rows = plane_rows(x) / w->pitch * x->plan.a.tiles;
    struct sx at = sx_muli(k, loop_begin(k, &loop, rows), (int32_t)w->pitch);
    int32_t last = (int32_t)(w->w.pad_low + w->in_w - left);
    k_store(k, k_const(k, 0), sx_addi(sx_add(k, base, at), last), mask, band_of(x)->tag);
    loop_end(k, &loop, 0);
}

/* Rows of one image above or below the input, where this block has some. */
static void clear_lines(struct paneler *x, struct sx base, int64_t first, int64_t lines,
                        treg predicate) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    if (lines <= 0) return;
    int branch = if_begin(k, predicate, false);
    for (int t = 0; t < x->plan.a.tiles; t++)
        clear_rows(x, sx_addi(base, (int32_t)(t * plane_rows(x) + first * w->pitch)),
                   lines * w->pitch);
    if_end(k, branch);
}

void panel_clear_edges(struct paneler *x) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    struct sx image, out, zero = sx_const(0);
    find_block(x, x->at, &image, &out);
    struct sx base = panel_block_row(x, band_of(x), x->a_buffer, zero, zero, zero);
    base = sx_is_const(base) ? base : sx_of(sx_reg(k, base), base.low, base.high);
    if (w->row_block < w->out_h) {
        int64_t last = w->out_h - w->row_block;
        int64_t end = last * w->h.stride - w->h.pad_low + w->band, below = end - w->in_h;
        treg top = s_compare(k, TPU_SEQ, out, sx_const(0));
        out = sx_of(sx_reg(k, out), out.low, out.high);
        clear_lines(x, base, 0, w->h.pad_low < w->band ? w->h.pad_low : w->band, top);
        treg bottom = s_compare(k, TPU_SEQ, out, sx_const((int32_t)last));
        clear_lines(x, base, w->band - below, below, bottom);
    }
    clear_right(x, base);
}

/* ---- folded bands ---- */

/* One group of 8 places of the results in a row of the band. */
static treg fold_group(struct paneler *x, struct sx row, treg features) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    enum mir_stride kind = w->w.stride == 1 ? MIR_STRIDE_1 : MIR_STRIDE_IMM;
    treg all = 0;
    for (int i = 0; i < w->w.size; i++) {
        struct sx at = sx_addi(row, (int32_t)window_place(&w->w, i));
        treg v = k_load(k, at, kind, sx_const((int32_t)w->w.stride), x->raw.tag);
        if (features) v = k_select(k, features, v, k_const(k, 0));
        if (i) v = k_xlu_amount(k, TPU_XROT, v, sx_const(i * (int32_t)w->fold));
        all = all ? k_binary(k, TPU_VOR, all, v) : v;
    }
    return all;
}

void panel_fold_band(struct paneler *x) {
    enum { MOST = 48 };
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    int64_t together = w->out_groups;
    struct loop parts, rows;
    while (together > 1 && (w->out_groups % together || together * w->w.size > MOST))
        together--;
    treg features = w->features < TPU_LANES
                        ? ix_within(k, ix_lanes(sx_const(0)), 0, (int32_t)w->features - 1)
                        : 0;
    int32_t group = TPU_SUBLANES * (int32_t)w->w.stride,
            line = (int32_t)w->out_groups * TPU_SUBLANES;
    struct sx first =
        sx_muli(k, loop_begin(k, &parts, w->out_groups / together), (int32_t)together);
    struct sx at = loop_begin(k, &rows, w->image_block * w->band);
    struct sx from = sx_add(k, sx_muli(k, at, (int32_t)w->pitch), sx_muli(k, first, group));
    struct sx to = sx_add(k, sx_muli(k, at, line), sx_muli(k, first, TPU_SUBLANES));
    for (int i = 0; i < together; i++) {
        treg v = fold_group(x, sx_addi(from, (int32_t)x->raw.row + i * group), features);
        k_store(k, v, sx_addi(to, (int32_t)x->a.row + i * TPU_SUBLANES), 0, x->a.tag);
    }
    loop_end(k, &rows, 0);
    loop_end(k, &parts, 0);
}

treg panel_fold_mask(struct paneler *x, int push) {
    struct kernel *k = x->job.k;
    const struct panel_window *w = &x->plan.window;
    int32_t first = push * TPU_SUBLANES, fold = (int32_t)w->fold;
    int32_t left = (int32_t)(w->features - first % (fold < TPU_SUBLANES ? TPU_SUBLANES : fold));
    int32_t rows = fold * (int32_t)w->w.size - first;
    treg mask = 0, place = k_sublane(k);
    if (fold < TPU_SUBLANES) {
        place = k_binary_i(k, TPU_VAND, place, fold - 1);
        left = (int32_t)w->features;
    }
    if (left < (fold < TPU_SUBLANES ? fold : TPU_SUBLANES))
        mask = k_binary_i(k, TPU_VLTS, place, left);
    if (rows < TPU_SUBLANES) mask = m_and(k, mask, k_binary_i(k, TPU_VLTS, k_sublane(k), rows));
    return mask;
}
