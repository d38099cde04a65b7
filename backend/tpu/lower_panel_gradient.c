/* Gradients of convolutions with respect to their filters, as products of panels: a result for each
 * place of the window is the product of the outputs' gradients, turned, with the input, some rows
 * further on. Both lie in VMEM image by image in lines of one length; what is not there is zero.
 * The sum goes over all places of some images at once, and from block to block of images. */
#include "backend/tpu/lower_panel.h"

enum { MOST_IMAGES = 8, MOST_PLACES = 512 };

/* ---- what is one, and how it is cut ---- */

static bool has_order(const struct tpu_layout *layout, int lanes, const int *spatial, int n,
                      int last) {
    bool same = layout->rank == n + 2 && layout->order[0] == lanes && layout->order[n + 1] == last;
    for (int s = 0; s < n && same; s++)
        same = layout->order[1 + s] == spatial[n - 1 - s];
    return same;
}

/* The result has the places of the window outside of its matrices. */
static bool is_result(const struct dim_labels *labels, const struct tpu_layout *c) {
    return c->rank == 4 && c->order[0] == labels->output_feature &&
           c->order[1] == labels->output_batch && c->order[2] == labels->output_spatial[1] &&
           c->order[3] == labels->output_spatial[0];
}

static bool is_simple(const struct window_dim *w) {
    return w->lhs_dilate == 1 && w->rhs_dilate == 1 && w->pad_low >= 0 && !w->reversed;
}

bool panel_find_gradient(struct panel_plan *plan) {
    const struct product *p = &plan->p;
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    struct panel_gradient *g = &plan->gradient;
    /* Operand 0 is the input; B here, as its rows are the weights. */
    if (p->swapped || p->batches != 1 || labels->spatial != 2) return false;
    struct matrix input = plan->a, outputs = plan->b;
    const struct tpu_layout *x = &input.array.layout, *y = &outputs.array.layout;
    const struct window_dim *w = instr_window(p->instr)->v;
    if (x->type != TYPE_F32 || y->type != TYPE_F32 || !is_simple(&w[0]) || !is_simple(&w[1]) ||
        !has_order(x, labels->input_batch, labels->input_spatial, 2, labels->input_feature) ||
        !has_order(y, labels->kernel_output, labels->kernel_spatial, 2, labels->kernel_input) ||
        !is_result(labels, &plan->c.array.layout))
        return false;
    const struct tpu_layout *c = &plan->c.array.layout;
    *g = (struct panel_gradient){.used = true,
                                 .images = x->dims[labels->input_feature],
                                 .in_h = x->dims[labels->input_spatial[0]],
                                 .out_h = y->dims[labels->kernel_spatial[0]],
                                 .out_w = y->dims[labels->kernel_spatial[1]],
                                 .in_w = x->dims[labels->input_spatial[1]],
                                 .places_h = c->dims[labels->output_spatial[0]],
                                 .places_w = c->dims[labels->output_spatial[1]],
                                 .h = w[0],
                                 .w = w[1]};
    int64_t widths[] = {w[1].pad_low + x->row_tiles * x->tile_rows, y->row_tiles * y->tile_rows,
                        g->out_w + (g->places_w - 1) * w[1].stride};
    for (int i = 0; i < 3; i++)
        if (widths[i] > g->pitch) g->pitch = widths[i];
    int64_t seen = g->out_h + (g->places_h - 1) * w[0].stride;
    g->image = (seen > w[0].pad_low + g->in_h ? seen : w[0].pad_low + g->in_h) * g->pitch;
    plan->a = outputs;
    plan->b = input;
    plan->a.groups = g->images * g->out_h * y->row_tiles;
    plan->b.groups = g->images * g->in_h * x->row_tiles;
    plan->c.groups = g->places_h * g->places_w * c->row_tiles;
    plan->a_turned = true;
    plan->b_turned = plan->ragged_k = false;
    plan->total[PANEL_BATCH] = 1;
    plan->total[PANEL_M] = plan->a.tiles * TILE_GROUPS;
    plan->total[PANEL_N] = g->places_h * g->places_w * plan->b.tiles;
    return plan->total[PANEL_N] <= MOST_PLACES;
}

int64_t panel_gradient_plane(const struct panel_plan *plan, bool input) {
    const struct panel_gradient *g = &plan->gradient;
    if (!input) return plan->block[PANEL_K] * TPU_LANES;
    /* Places past the last image are read, too, and have to be zero. */
    int64_t past = g->places_h * g->h.stride * g->pitch + g->places_w * g->w.stride + 2 * TPU_LANES;
    return ceil_div(g->image_block * g->image + past, TPU_SUBLANES) * TPU_SUBLANES;
}

void panel_cut_gradients(struct panel_plan *plan,
                         void (*try_cut)(struct panel_plan *plan, void *user), void *user) {
    struct panel_gradient *g = &plan->gradient;
    for (int64_t images = 1; images <= g->images && images <= MOST_IMAGES; images++) {
        if (g->images % images) continue;
        g->image_block = images;
        for (int axis = 0; axis < PANEL_K; axis++) {
            plan->block[axis] = plan->total[axis];
            plan->blocks[axis] = 1;
        }
        plan->block[PANEL_K] = ceil_div(images * g->image, TPU_LANES);
        plan->blocks[PANEL_K] = g->images / images;
        plan->total[PANEL_K] = plan->block[PANEL_K] * plan->blocks[PANEL_K];
        plan->k_size = plan->total[PANEL_K] * TPU_LANES;
        plan->chunk = TILE_GROUPS;
        plan->chunks = plan->a.tiles;
        try_cut(plan, user);
    }
}

/* ---- bands ---- */

static void clear(struct paneler *x, const struct panel *panel) {
    struct kernel *k = x->job.k;
    struct loop loop;
    struct sx at = loop_begin(k, &loop, panel->rows * panel->buffers / TPU_SUBLANES);
    struct sx row = sx_addi(sx_muli(k, at, TPU_SUBLANES), (int32_t)panel->row);
    k_store(k, k_const(k, 0), row, 0, panel->tag);
    loop_end(k, &loop, 0);
}

static int table_word(const struct paneler *x) {
    int64_t words = x->job.lower->options->chip.smem_bytes / 4;
    return (int)(words - panel_width(&x->plan));
}

struct sx panel_gradient_offset(struct paneler *x, struct sx n) {
    struct kernel *k = x->job.k;
    if (panel_width(&x->plan) == 1) return sx_const(0);
    return sx_of(k_emit(k, (struct mop){.op = TPU_SLD,
                                        .a = sx_reg(k, n),
                                        .bkind = MIR_B_IMM,
                                        .imm = table_word(x)}),
                 0, INT32_MAX);
}

/* Where the input's rows for each place of the window, and tile of its features, begin. */
static void write_table(struct paneler *x) {
    struct kernel *k = x->job.k;
    const struct panel_gradient *g = &x->plan.gradient;
    int64_t tiles = x->plan.b.tiles;
    treg zero = sx_reg(k, sx_const(0));
    for (int i = 0; i < panel_width(&x->plan); i++) {
        int64_t tile = i % tiles, place = i / tiles, at = tile * x->b.tile_step;
        if (i >= x->plan.total[PANEL_N]) place = at = 0; /* a unit has nothing to do */
        at += place / g->places_w * g->h.stride * g->pitch + place % g->places_w * g->w.stride;
        k_emit(k, (struct mop){.op = TPU_SST,
                               .d = sx_reg(k, sx_const((int32_t)at)),
                               .a = zero,
                               .bkind = MIR_B_IMM,
                               .imm = table_word(x) + i});
    }
    k_block(k);
}

void panel_start_gradient(struct paneler *x) {
    write_table(x);
    clear(x, &x->raw);
    clear(x, &x->b);
}

struct lines { /* of an image, and where they lie */
    const struct panel *panel;
    int64_t count, width, down, right;
};

static struct lines lines_of(const struct paneler *x, bool input) {
    const struct panel_gradient *g = &x->plan.gradient;
    if (!input) return (struct lines){&x->raw, g->out_h, g->out_w, 0, 0};
    int64_t room = g->image / g->pitch - g->h.pad_low;
    return (struct lines){&x->b, g->in_h < room ? g->in_h : room, g->in_w, g->h.pad_low,
                          g->w.pad_low};
}

void panel_load_images(struct paneler *x, bool input, const treg *block, treg buffer,
                       treg predicate) {
    struct kernel *k = x->job.k;
    const struct panel_gradient *g = &x->plan.gradient;
    const struct matrix *m = input ? &x->plan.b : &x->plan.a;
    struct lines l = lines_of(x, input);
    int32_t groups = (int32_t)m->array.layout.row_tiles, tiles = (int32_t)m->tiles;
    int32_t line = groups * tiles * m->tile,
            all = (int32_t)(m->groups / g->images) * tiles * m->tile;
    struct panel_move move = {
        .count = {sx_const(groups), sx_const(tiles), sx_const((int32_t)l.count)},
        .home = {tiles * m->tile, m->tile, line},
        .here = {m->tile, l.panel->tile_step, (int32_t)g->pitch}};
    struct sx zero = sx_const(0), base = panel_block_row(x, l.panel, buffer, zero, zero, zero);
    base = sx_addi(base, (int32_t)(l.down * g->pitch + l.right));
    struct sx first =
        x->plan.blocks[PANEL_K] == 1 ? zero : sx_of(block[PANEL_K], 0, x->plan.blocks[PANEL_K] - 1);
    first = sx_muli(k, first, (int32_t)g->image_block * all);
    for (int i = 0; i < g->image_block; i++)
        panel_move(x, m, &move, sx_addi(first, i * all), sx_addi(base, i * (int32_t)g->image), true,
                   input ? PANEL_FLAG_B : PANEL_FLAG_A, predicate);
    k_block(k);
}

/* What the tiles hold beyond the lines' ends. */
void panel_clear_ends(struct paneler *x, bool input) {
    struct kernel *k = x->job.k;
    const struct panel_gradient *g = &x->plan.gradient;
    const struct matrix *m = input ? &x->plan.b : &x->plan.a;
    struct lines l = lines_of(x, input);
    int32_t tile = m->array.layout.tile_rows, over = (int32_t)(l.width % tile);
    if (over == 0) return;
    treg mask = ix_within(k, ix_rows(sx_const(0)), over, tile - 1);
    struct loop loop;
    struct sx zero = sx_const(0);
    struct sx base = panel_block_row(x, l.panel, input ? x->b_buffer : 0, zero, zero, zero);
    base = sx_is_const(base) ? base : sx_of(sx_reg(k, base), base.low, base.high);
    int32_t last = (int32_t)(l.right + l.width - over);
    struct sx at =
        sx_muli(k, loop_begin(k, &loop, g->image_block * g->image / g->pitch), (int32_t)g->pitch);
    struct sx row = sx_addi(sx_add(k, base, at), last);
    for (int t = 0; t < m->tiles; t++)
        k_store(k, k_const(k, 0), sx_addi(row, t * l.panel->tile_step), mask, l.panel->tag);
    loop_end(k, &loop, 0);
}

/* ---- the result ---- */

/* Squares of sums go from (features of the outputs, features of the input) to the other way. */
void panel_turn_sums(struct paneler *x) {
    struct kernel *k = x->job.k;
    const struct panel_plan *plan = &x->plan;
    int64_t tiles = plan->b.tiles, rows = plan->c.array.layout.row_tiles;
    struct loop outer, inner, within;
    /* Places in order: what a square has beyond the features, the next one writes over. */
    struct sx out = loop_begin(k, &outer, plan->a.tiles);
    struct sx place = loop_begin(k, &inner, plan->gradient.places_h * plan->gradient.places_w);
    struct sx tile = loop_begin(k, &within, tiles);
    struct sx n = sx_add(k, sx_muli(k, place, (int32_t)tiles), tile);
    struct sx from = sx_muli(k, n, x->sums.tile_step);
    from = sx_add(k, from, sx_muli(k, out, TILE_GROUPS * TPU_SUBLANES));
    struct sx to = sx_muli(k, place, (int32_t)rows * TPU_SUBLANES);
    to = sx_add(k, to, sx_muli(k, tile, TILE_GROUPS * TPU_SUBLANES));
    to = sx_add(k, to, sx_muli(k, out, x->c.tile_step));
    k_turn_square(k, sx_addi(from, (int32_t)x->sums.row), x->sums.tag,
                  sx_addi(to, (int32_t)x->c.row), x->c.tag);
    loop_end(k, &within, 0);
    loop_end(k, &inner, 0);
    loop_end(k, &outer, 0);
}
