/* Convolutions as products of panels: sizes, and how they are cut. */
#include "backend/tpu/panel.h"

enum { MOST_PLACES = 512, MOST_IMAGES = 8, MOST_CHUNK = 24 };

/* Features along the lanes, then the spatial dimensions from the last one, then the batch. */
static bool is_image(const struct tpu_layout *layout, int feature, const int *spatial, int n,
                     int batch) {
    if (layout->order[0] != feature || layout->order[n + 1] != batch) return false;
    for (int s = 0; s < n; s++)
        if (layout->order[1 + s] != spatial[n - 1 - s]) return false;
    return true;
}

static bool is_filter(const struct dim_labels *labels, const struct tpu_layout *layout,
                      bool *turned) {
    int n = labels->spatial;
    *turned = layout->order[0] == labels->kernel_input;
    int lanes = *turned ? labels->kernel_input : labels->kernel_output;
    int rows = *turned ? labels->kernel_output : labels->kernel_input;
    if (layout->order[0] != lanes || layout->order[1] != rows) return false;
    for (int s = 0; s < n; s++)
        if (layout->order[2 + s] != labels->kernel_spatial[n - 1 - s]) return false;
    return true;
}

static bool is_simple(const struct window_dim *w) {
    return w->lhs_dilate == 1 && w->pad_low >= 0;
}

bool panel_find_window(struct panel_plan *plan) {
    const struct product *p = &plan->p;
    const struct dim_labels *labels = instr_attr(p->instr, ATTR_DIM_LABELS)->dim_labels;
    const struct tpu_layout *a = &plan->a.array.layout, *b = &plan->b.array.layout;
    const struct tpu_layout *c = &plan->c.array.layout;
    struct panel_window *w = &plan->window;
    int n = labels->spatial;
    if (p->swapped || p->batches != 1 || n < 1 || n > 2 || a->type != TYPE_F32 ||
        b->type != TYPE_F32)
        return false;
    if (!is_image(a, labels->input_feature, labels->input_spatial, n, labels->input_batch) ||
        !is_image(c, labels->output_feature, labels->output_spatial, n, labels->output_batch) ||
        !is_filter(labels, b, &plan->b_turned))
        return false;
    const struct window_dim *dims = instr_window(p->instr)->v;
    w->h = n == 2 ? dims[0]
                  : (struct window_dim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
    w->w = dims[n - 1];
    if (!is_simple(&w->h) || !is_simple(&w->w)) return false;
    w->used = true;
    w->images = a->dims[labels->input_batch];
    w->features = a->dims[labels->input_feature];
    w->in_h = n == 2 ? a->dims[labels->input_spatial[0]] : 1;
    w->out_h = n == 2 ? c->dims[labels->output_spatial[0]] : 1;
    w->in_w = a->dims[labels->input_spatial[n - 1]];
    w->out_w = c->dims[labels->output_spatial[n - 1]];
    w->out_groups = c->row_tiles;
    int64_t in_rows = w->w.pad_low + a->row_tiles * a->tile_rows;
    int64_t seen = (w->out_w - 1) * w->w.stride + (w->w.size - 1) * w->w.rhs_dilate + 1;
    w->pitch = in_rows > seen ? in_rows : seen;
    plan->a.groups = w->images * w->in_h * a->row_tiles;
    plan->b.groups = b->row_tiles;
    plan->c.groups = w->images * w->out_h * c->row_tiles;
    plan->k_size = w->features;
    plan->ragged_k = w->features % TPU_LANES != 0;
    plan->total[PANEL_BATCH] = 1;
    plan->total[PANEL_M] = plan->c.groups;
    plan->total[PANEL_N] = plan->c.tiles;
    plan->total[PANEL_K] = w->h.size * w->w.size * plan->a.tiles;
    int64_t lanes = b->row_tiles * b->tile_rows;
    if (!plan->b_turned && w->w.size > 1 && lanes * w->w.size <= TPU_LANES) {
        w->fold = lanes;
        plan->total[PANEL_K] = w->h.size;
        plan->ragged_k = true;
    }
    return plan->total[PANEL_K] <= MOST_PLACES && w->out_groups <= MOST_CHUNK;
}

int64_t panel_window_band_rows(const struct panel_plan *plan) {
    const struct panel_window *w = &plan->window;
    int64_t rows = w->image_block * w->band * w->pitch * plan->a.tiles;
    /* Places past the edge of the results are computed, too. */
    return rows + (w->out_groups * TPU_SUBLANES + TPU_SUBLANES) * w->w.stride +
           w->w.size * w->w.rhs_dilate + TPU_SUBLANES;
}

int64_t panel_window_fold_rows(const struct panel_plan *plan) {
    const struct panel_window *w = &plan->window;
    return (w->image_block * w->band + 1) * w->out_groups * TPU_SUBLANES;
}

int32_t panel_window_row(const struct panel_plan *plan, int group) {
    const struct panel_window *w = &plan->window;
    int64_t row = group / w->out_groups, within = group % w->out_groups;
    int64_t image = row / w->row_block, left = row % w->row_block;
    int64_t at = image * w->band + left * w->h.stride;
    if (w->fold) return (int32_t)((at * w->out_groups + within) * TPU_SUBLANES);
    return (int32_t)(at * w->pitch + within * TPU_SUBLANES * w->w.stride);
}

/* Rows of results, or whole images, to a chunk: about as many groups as weights take to shift in.
 * Chunks of a block have to be equally far from each other. */
static bool choose_chunk(struct panel_plan *plan, const struct tpu_chip *chip) {
    const struct panel_window *w = &plan->window;
    int64_t most = plan->p.parts == 3 ? TILE_GROUPS / 2 : TILE_GROUPS, best = 0;
    int64_t units = w->image_block > 1 ? w->image_block : w->row_block;
    int64_t each = w->image_block > 1 ? w->row_block * w->out_groups : w->out_groups;
    for (int64_t n = 1; n <= units; n++) {
        int64_t size = n * each;
        if (units % n || size > MOST_CHUNK || size > chip->mxu_fifo) continue;
        int64_t apart = size > most ? size - most : most - size;
        int64_t so_far = best > most ? best - most : most - best;
        if (!best || apart < so_far) best = size;
    }
    if (!best) return false;
    plan->chunk = best;
    plan->chunks = units * each / best;
    return true;
}

static void set_blocks(struct panel_plan *plan, int64_t images, int64_t rows) {
    struct panel_window *w = &plan->window;
    w->image_block = images;
    w->row_block = rows;
    w->band = (rows - 1) * w->h.stride + (w->h.size - 1) * w->h.rhs_dilate + 1;
    plan->block[PANEL_BATCH] = plan->blocks[PANEL_BATCH] = 1;
    plan->block[PANEL_K] = plan->total[PANEL_K];
    plan->blocks[PANEL_K] = 1;
    plan->block[PANEL_M] = images * rows * w->out_groups;
    plan->blocks[PANEL_M] = ceil_div(plan->total[PANEL_M], plan->block[PANEL_M]);
}

/* Only the first block of an image sees what is above it, and only the last what is below. */
static bool is_edge_of_one(const struct panel_window *w) {
    int64_t step = w->row_block * w->h.stride;
    int64_t end = (w->out_h - w->row_block) * w->h.stride - w->h.pad_low + w->band;
    return w->row_block == w->out_h || (w->h.pad_low <= step && end - w->in_h <= step);
}

void panel_cut_windows(struct panel_plan *plan, const struct tpu_chip *chip,
                       void (*try_cut)(struct panel_plan *plan, void *user), void *user) {
    const struct panel_window *w = &plan->window;
    for (int64_t rows = w->out_h; rows >= 1; rows--) {
        if (w->out_h % rows) continue;
        set_blocks(plan, 1, rows);
        if (!is_edge_of_one(w)) continue;
        if (choose_chunk(plan, chip)) try_cut(plan, user);
    }
    for (int64_t images = 2; images <= w->images && images <= MOST_IMAGES; images++) {
        set_blocks(plan, images, w->out_h);
        if (choose_chunk(plan, chip)) try_cut(plan, user);
    }
}
