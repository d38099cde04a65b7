#include "backend/tpu/panel.h"

/* ---- matrices ---- */

/* The array that the product's operand is, bf16 and f32 being converted on the way: the units round
 * to bf16 anyway. NULL: it is none. */
static const struct hlo_instr *source_of(const struct hlo_instr *kernel, const struct product *p,
                                         const struct hlo_instr *operand) {
    const struct hlo_instr *at = operand;
    while (p->parts == 1 && at->opcode == OP_CONVERT && kernel->opcode == OP_FUSION) {
        enum element_type from = at->operands[0]->shape->type, to = at->shape->type;
        if ((from != TYPE_F32 && from != TYPE_BF16) || (to != TYPE_F32 && to != TYPE_BF16)) break;
        at = at->operands[0];
    }
    if (kernel->opcode != OP_FUSION) return at;
    const struct hlo_computation *body = kernel->called[0];
    for (int i = 0; i < body->nparameters; i++)
        if (body->parameters[i] == at) return kernel->operands[i];
    return NULL;
}

static bool find_array(const struct hlo_instr *instr, struct matrix *matrix) {
    struct tpu_layout *layout = &matrix->array.layout;
    const struct shape *shape = shape_leaf(instr->shape, 0);
    matrix->instr = instr;
    if (!shape_is_array(shape) || !tpu_layout_of(layout, shape)) return false;
    if (layout->planes != 1 || layout->packing > 2 || layout->rank == 0 || layout->majors == 0)
        return false;
    if (layout->rank == 1 && layout->packing > 1) return false;
    matrix->tiles = layout->rank == 1 ? layout->row_tiles * layout->tile_rows : layout->lane_tiles;
    matrix->tile = layout->rank == 1 ? 1 : layout->tile_rows / layout->packing;
    return true;
}

bool panel_locate(struct panel_plan *plan, struct lower *lower) {
    return leaf_array(lower, plan->a.instr, 0, &plan->a.array) &&
           leaf_array(lower, plan->b.instr, 0, &plan->b.array) &&
           leaf_array(lower, plan->c.instr, 0, &plan->c.array);
}

/* The dimensions but for the lanes are these parts' (in any order, which *parts is then), and the
 * batches outside of them. */
static bool has_rows(const struct product *p, int operand, int axis, struct matrix *matrix,
                     int *parts) {
    const struct tpu_layout *layout = &matrix->array.layout;
    const struct axis *rows = &p->axis[axis];
    int at = 1, found = 0, batches = p->instr->opcode == OP_DOT ? 0 : -1;
    struct int_list batch = {0};
    if (batches == 0)
        batch = instr_ints(p->instr, operand == 1 ? ATTR_RHS_BATCH_DIMS : ATTR_LHS_BATCH_DIMS);
    matrix->groups = 1;
    for (; at < layout->rank; at++) {
        int part = -1, d = layout->order[at];
        for (int i = 0; i < rows->count; i++) {
            int dim = operand < 2 ? product_operand_dim(p, operand, axis, rows->part[i])
                                  : product_result_dim(p, axis, rows->part[i]);
            if (dim == d) part = rows->part[i];
        }
        if (part < 0 && at > 1 && layout->dims[d] == 1) continue;
        if (part < 0) break;
        if (at > 1 && layout->dims[d] > 1 && layout->tile_rows < TPU_SUBLANES) return false;
        matrix->groups *= at == 1 ? layout->row_tiles : layout->dims[d];
        parts[found++] = part;
    }
    /* What is left is batches, the outermost one first in number. */
    int next = batch.count - 1;
    for (; at < layout->rank; at++) {
        int d = layout->order[at];
        while (next >= 0 && layout->dims[operand == 2 ? next : batch.v[next]] == 1)
            next--;
        if (layout->dims[d] == 1) continue;
        if (at == 1 || next < 0 || d != (operand == 2 ? next : (int)batch.v[next])) return false;
        next--;
    }
    parts[found] = -1;
    return true;
}

static bool is_lane_dim(const struct product *p, int operand, int axis,
                        const struct matrix *matrix) {
    const struct axis *lanes = &p->axis[axis];
    if (lanes->count == 0) return false;
    int part = lanes->part[lanes->count - 1];
    for (int i = 0; i + 1 < lanes->count; i++)
        if (lanes->size[i] != 1) return false;
    int d = operand < 2 ? product_operand_dim(p, operand, axis, part)
                        : product_result_dim(p, axis, part);
    return matrix->array.layout.order[0] == d;
}

/* An operand: its lanes are along k, or, turned for A and plain for B, along its own axis. */
static bool find_operand(const struct product *p, int free, struct matrix *matrix, bool *along_k,
                         int *parts) {
    int operand = product_operand(p, free);
    *along_k = is_lane_dim(p, operand, AXIS_K, matrix);
    if (!*along_k && !is_lane_dim(p, operand, free, matrix)) return false;
    return has_rows(p, operand, *along_k ? free : AXIS_K, matrix, parts);
}

static bool same_parts(const int *a, const int *b, const struct axis *axis) {
    for (int i = 0, j = 0;; i++, j++) {
        /* Parts of one place may stand anywhere but for the rows. */
        while (i && a[i] >= 0 && axis->size[a[i]] == 1)
            i++;
        while (j && b[j] >= 0 && axis->size[b[j]] == 1)
            j++;
        if (a[i] != b[j]) return false;
        if (a[i] < 0) return true;
    }
}

/* A convolution that only multiplies features. */
static bool is_pointwise(const struct product *p) {
    const struct window *window = instr_window(p->instr);
    if (p->swapped || p->batches != 1) return false;
    for (int i = 0; window && i < window->count; i++) {
        const struct window_dim *w = &window->v[i];
        if (w->size != 1 || w->stride != 1 || w->pad_low || w->pad_high || w->lhs_dilate != 1)
            return false;
    }
    return true;
}

static bool is_operand_type(const struct product *p, const struct matrix *matrix) {
    enum element_type type = matrix->array.layout.type;
    return type == TYPE_F32 || (type == TYPE_BF16 && p->parts == 1);
}

static int64_t part_size(const struct axis *axis, int part) {
    for (int i = 0; i < axis->count; i++)
        if (axis->part[i] == part) return axis->size[i];
    return 1;
}

/* Sizes by part, so that same_parts can look them up. */
static struct axis by_part(const struct axis *axis) {
    struct axis sizes = {.count = axis->count};
    for (int i = 0; i < SHAPE_MAX_RANK; i++)
        sizes.size[i] = part_size(axis, i);
    return sizes;
}

static bool find_result(struct panel_plan *plan, const struct hlo_instr *kernel,
                        const int *a_parts) {
    int c_parts[SHAPE_MAX_RANK + 1];
    const struct product *p = &plan->p;
    struct axis m = by_part(&p->axis[AXIS_M]);
    return find_array(kernel, &plan->c) && is_lane_dim(p, 2, AXIS_N, &plan->c) &&
           has_rows(p, 2, AXIS_M, &plan->c, c_parts) && same_parts(a_parts, c_parts, &m);
}

/* Elements of k; 0: they do not follow each other. */
static int64_t size_of_k(const struct panel_plan *plan, bool along, const int *a_parts,
                         const int *b_parts) {
    const struct axis *k = &plan->p.axis[AXIS_K], sizes = by_part(k);
    int64_t size = 1, many = 0;
    for (int i = 0; i < k->count; i++) {
        size *= k->size[i];
        many += k->size[i] > 1;
    }
    if (along || many <= 1) return size;
    /* Rows of both operands. */
    bool whole = sizes.size[a_parts[0]] % TPU_SUBLANES == 0;
    return whole && same_parts(a_parts, b_parts, &sizes) ? size : 0;
}

bool panel_find(struct panel_plan *plan, const struct hlo_instr *kernel, const struct product *p) {
    int a_parts[SHAPE_MAX_RANK + 1], b_parts[SHAPE_MAX_RANK + 1];
    bool a_along, b_along;
    *plan = (struct panel_plan){.p = *p};
    if (p->integer) return false;
    if (p->instr->opcode == OP_DOT && p->parts > 1 &&
        (p->instr->operands[0]->shape->type != TYPE_F32 ||
         p->instr->operands[1]->shape->type != TYPE_F32))
        return false;
    const struct hlo_instr *a =
        source_of(kernel, p, p->instr->operands[product_operand(p, AXIS_M)]);
    const struct hlo_instr *b =
        source_of(kernel, p, p->instr->operands[product_operand(p, AXIS_N)]);
    if (!a || !b || !find_array(a, &plan->a) || !find_array(b, &plan->b)) return false;
    if (!is_operand_type(p, &plan->a) || !is_operand_type(p, &plan->b)) return false;
    if (p->instr->opcode == OP_CONVOLUTION && !is_pointwise(p))
        return find_array(kernel, &plan->c) &&
               (panel_find_window(plan) || panel_find_gradient(plan));
    if (!find_operand(p, AXIS_M, &plan->a, &a_along, a_parts) ||
        !find_operand(p, AXIS_N, &plan->b, &b_along, b_parts))
        return false;
    plan->a_turned = !a_along;
    plan->b_turned = b_along;
    plan->k_size = size_of_k(plan, a_along || b_along, a_parts, b_parts);
    if (plan->a_turned) { /* what its lanes are is one part */
        const struct axis *m = &p->axis[AXIS_M];
        a_parts[0] = m->part[m->count - 1];
        a_parts[1] = -1;
    }
    if (!plan->k_size || !find_result(plan, kernel, a_parts)) return false;
    if (!plan->a_turned && plan->a.groups != plan->c.groups) return false;
    plan->total[PANEL_BATCH] = p->batches;
    plan->total[PANEL_M] = plan->c.groups;
    plan->total[PANEL_N] = plan->c.tiles;
    plan->total[PANEL_K] = ceil_div(plan->k_size, TPU_LANES);
    return true;
}

/* ---- the cut ---- */

int64_t panel_pitch(const struct panel_plan *plan) {
    return plan->chunks * plan->chunk;
}

int64_t panel_turn_rows(const struct panel_plan *plan) {
    return plan->block[PANEL_BATCH] * plan->chunks;
}

int64_t panel_width(const struct panel_plan *plan) {
    return round_up(plan->block[PANEL_N], plan->split_m ? 1 : plan->units);
}

struct panel_rows panel_rows(const struct panel_plan *plan) {
    const int64_t *block = plan->block;
    int64_t batch = block[PANEL_BATCH], k_groups = block[PANEL_K] * TILE_GROUPS;
    int64_t pitch = panel_pitch(plan), width = panel_width(plan);
    struct panel_rows rows = {0};
    int64_t lanes = ceil_div(block[PANEL_M], TILE_GROUPS);
    if (plan->gradient.used) {
        rows.a = panel_gradient_plane(plan, false) * plan->a.tiles;
        rows.turned = block[PANEL_K] * pitch * TPU_SUBLANES;
        rows.b = panel_gradient_plane(plan, true) * plan->b.tiles;
        /* Sums, and the same turned, with room past the last square. */
        rows.c = width * pitch * TPU_SUBLANES;
        rows.c += plan->c.tiles * plan->c.groups * TPU_SUBLANES + TPU_LANES;
        return rows;
    }
    if (plan->window.used) {
        rows.a = panel_window_band_rows(plan);
        rows.turned = plan->window.fold ? panel_window_fold_rows(plan) : 0;
        rows.b = block[PANEL_K] * width * TILE_GROUPS * TPU_SUBLANES + TPU_SUBLANES;
        rows.c = width * pitch * TPU_SUBLANES;
        return rows;
    }
    rows.a = block[PANEL_K] * batch * pitch * plan->a.tile + TPU_SUBLANES;
    if (plan->a_turned) {
        rows.a = lanes * batch * k_groups * plan->a.tile + TPU_SUBLANES;
        rows.turned = block[PANEL_K] * batch * pitch * TPU_SUBLANES;
    }
    int64_t b_tiles = plan->b_turned ? block[PANEL_K] * width : width * block[PANEL_K];
    rows.b = b_tiles * batch * TILE_GROUPS * plan->b.tile + TPU_SUBLANES;
    rows.c = width * batch * pitch * TPU_SUBLANES;
    return rows;
}

/* Chunks of about 16 groups, whose weights take as long to shift in as they to pass; turned
 * matrices come in tiles of 16. Packed ones are pushed two groups at a time. */
static void choose_chunk(struct panel_plan *plan, const struct tpu_chip *chip) {
    int64_t groups = plan->block[PANEL_M], limit = chip->mxu_fifo;
    int64_t most = plan->p.parts == 3 ? TILE_GROUPS / 2 : TILE_GROUPS;
    int64_t pair = !plan->a_turned && plan->a.array.layout.type == TYPE_BF16 ? 2 : 1;
    if (plan->a_turned) groups = round_up(groups, TILE_GROUPS);
    limit = limit / pair * pair;
    int64_t chunks = (2 * groups + most) / (2 * most), least = ceil_div(groups, limit);
    chunks = chunks < least ? least : chunks < 1 ? 1 : chunks;
    plan->chunk = round_up(ceil_div(groups, chunks), pair);
    plan->chunks = ceil_div(groups, plan->chunk);
}

static int weight_passes(const struct panel_plan *plan) {
    return plan->p.parts;
}

static int data_passes(const struct panel_plan *plan) {
    return plan->p.parts * (plan->p.parts + 1) / 2;
}

/* Turns of all units through one block. */
static int64_t block_turns(const struct panel_plan *plan, int units, bool split_m) {
    int64_t n = ceil_div(plan->block[PANEL_N], split_m ? 1 : units);
    return ceil_div(panel_turn_rows(plan), split_m ? units : 1) * n * plan->block[PANEL_K];
}

enum { MOST_UNITS = 2 };

static void choose_units(struct panel_plan *plan, const struct tpu_chip *chip) {
    plan->units = 1;
    plan->split_m = false;
    int64_t least = block_turns(plan, 1, false);
    for (int split = 0; split < 2; split++) {
        for (int units = 2; units <= chip->mxus && units <= MOST_UNITS; units++) {
            int64_t turns = block_turns(plan, units, split);
            if (turns >= least || (split && panel_turn_rows(plan) % units)) continue;
            least = turns;
            plan->units = units;
            plan->split_m = split;
        }
    }
}

static double matrix_bytes(const struct matrix *matrix, int64_t batches) {
    if (matrix->array.in_vmem) return 0;
    return (double)(batches * matrix->groups * matrix->tiles * matrix->tile) * TPU_ROW_BYTES;
}

/* Cycles, about: matrix units or HBM, whatever is busier, what starts and ends a block, and what
 * comes before the first one and after the last. */
static double cycles_of(const struct panel_plan *plan, const struct tpu_chip *chip) {
    enum { STEP = 1000, ALONE = 500 }; /* of a block; of a turn in a loop too short for more */
    double rate = (double)chip->hbm_gb_per_s * 1e3 / (double)chip->clock_mhz;
    const int64_t *blocks = plan->blocks;
    double weights = 128.0 * weight_passes(plan),
           data = 8.0 * (double)plan->chunk * data_passes(plan);
    double steps =
        (double)(blocks[PANEL_BATCH] * blocks[PANEL_M] * blocks[PANEL_N] * blocks[PANEL_K]);
    double turns = (double)block_turns(plan, plan->units, plan->split_m);
    double turn = (weights > data ? weights : data) + (turns < 6 ? ALONE : 0);
    double units = steps * (turns * turn + STEP);
    if (plan->a_turned)
        units += steps * 160.0 * (double)(plan->block[PANEL_BATCH] * plan->block[PANEL_K]) *
                 (double)ceil_div(plan->block[PANEL_M], TILE_GROUPS) /
                 (blocks[PANEL_K] == 1 && !plan->n_first ? (double)blocks[PANEL_N] : 1);
    double a = matrix_bytes(&plan->a, plan->total[PANEL_BATCH]);
    double b = matrix_bytes(&plan->b, plan->total[PANEL_BATCH]);
    double c = matrix_bytes(&plan->c, plan->total[PANEL_BATCH]);
    double blocks_all = steps,
           first = (a / (double)(blocks[PANEL_BATCH] * blocks[PANEL_M] * blocks[PANEL_K]) +
                    b / (double)(blocks[PANEL_BATCH] * blocks[PANEL_N] * blocks[PANEL_K]));
    double last = c * (double)blocks[PANEL_K] / blocks_all;
    bool a_stays = blocks[PANEL_K] == 1 && (!plan->n_first || blocks[PANEL_M] == 1);
    bool b_stays = blocks[PANEL_K] == 1 && (plan->n_first || blocks[PANEL_N] == 1);
    double bytes = c + a * (a_stays ? 1 : (double)blocks[PANEL_N]) +
                   b * (b_stays ? 1 : (double)blocks[PANEL_M]);
    double hbm = bytes / rate;
    return (units > hbm ? units + hbm / 16 : hbm + units / 16) + (first + last) / rate;
}

static int64_t buffers_of(const struct panel_plan *plan, const int64_t *axes, int naxes) {
    int64_t blocks = 1;
    for (int i = 0; i < naxes; i++)
        blocks *= plan->blocks[axes[i]];
    return blocks > 1 ? 2 : 1;
}

int panel_buffers(const struct panel_plan *plan, bool of_a) {
    const int64_t a[] = {PANEL_BATCH, PANEL_M, PANEL_K}, b[] = {PANEL_BATCH, PANEL_N, PANEL_K};
    if (of_a && (plan->a_turned || plan->window.fold)) return 1;
    return (int)buffers_of(plan, of_a ? a : b, 3);
}

int panel_result_buffers(const struct panel_plan *plan) {
    const int64_t c[] = {PANEL_BATCH, PANEL_M, PANEL_N};
    return (int)buffers_of(plan, c, 3);
}

static bool has_room(const struct panel_plan *plan, int64_t rows, int64_t extra) {
    enum { GUARDS = 6 * VMEM_GUARD };
    struct panel_rows need = panel_rows(plan);
    int64_t sum = need.a * panel_buffers(plan, true) + need.turned +
                  need.b * panel_buffers(plan, false) + GUARDS;
    int64_t tiles = need.c / TPU_SUBLANES;
    sum += extra ? need.c + tiles * extra : need.c * panel_result_buffers(plan);
    return sum <= rows;
}

static void set_block(struct panel_plan *plan, int axis, int64_t blocks) {
    int64_t total = plan->total[axis], block = ceil_div(total, blocks);
    if (axis == PANEL_M && blocks > 1)
        block = round_up(block, plan->a_turned || block > TILE_GROUPS ? TILE_GROUPS : 2);
    if (block > total) block = total;
    plan->block[axis] = block;
    plan->blocks[axis] = ceil_div(total, block);
}

/* The next number of blocks to try after `blocks`. */
static int64_t more_blocks(int64_t blocks, int64_t total) {
    int64_t next = blocks < 4 ? blocks + 1 : blocks + blocks / 2;
    return next > total && blocks < total ? total : next;
}

struct search { /* for the best cut */
    const struct tpu_chip *chip;
    int64_t rows, extra;
    struct panel_plan best;
    double least; /* -1: none yet */
};

static void try_orders(struct panel_plan *plan, struct search *s) {
    choose_units(plan, s->chip);
    if (!has_room(plan, s->rows, s->extra)) return;
    for (int order = 0; order < 2; order++) {
        plan->n_first = order;
        double cycles = cycles_of(plan, s->chip);
        if (s->least >= 0 && cycles >= s->least) continue;
        s->least = cycles;
        s->best = *plan;
    }
}

/* Numbers of blocks of k, which has to be in the innermost loop, for a block of the result. */
static void try_cuts(struct panel_plan *plan, struct search *s) {
    int64_t most = plan->block[PANEL_BATCH] > 1 ? 1 : plan->total[PANEL_K];
    for (int64_t k = 1; k <= most; k = more_blocks(k, most)) {
        set_block(plan, PANEL_K, k);
        choose_chunk(plan, s->chip);
        plan->ragged_k = plan->k_size != plan->blocks[PANEL_K] * plan->block[PANEL_K] * TPU_LANES;
        if (plan->chunks == 1 || plan->block[PANEL_BATCH] == 1) try_orders(plan, s);
    }
}

static void try_windows(struct panel_plan *plan, void *user) {
    struct search *s = user;
    for (int64_t n = 1; n <= plan->total[PANEL_N]; n = more_blocks(n, plan->total[PANEL_N])) {
        set_block(plan, PANEL_N, n);
        try_orders(plan, s);
    }
}

static void try_gradients(struct panel_plan *plan, void *user) {
    try_orders(plan, user);
}

static void try_dots(struct panel_plan *plan, struct search *s) {
    const int64_t *total = plan->total;
    set_block(plan, PANEL_M, 1);
    set_block(plan, PANEL_N, 1);
    for (int64_t b = 1; b < total[PANEL_BATCH]; b = more_blocks(b, total[PANEL_BATCH])) {
        set_block(plan, PANEL_BATCH, b);
        try_cuts(plan, s);
    }
    set_block(plan, PANEL_BATCH, total[PANEL_BATCH]);
    for (int64_t m = 1; m <= total[PANEL_M]; m = more_blocks(m, total[PANEL_M])) {
        for (int64_t n = 1; n <= total[PANEL_N]; n = more_blocks(n, total[PANEL_N])) {
            set_block(plan, PANEL_M, m);
            set_block(plan, PANEL_N, n);
            try_cuts(plan, s);
        }
    }
}

bool panel_cut(struct panel_plan *plan, const struct tpu_chip *chip, int64_t rows, int64_t extra) {
    struct search s = {.chip = chip, .rows = rows, .extra = extra, .least = -1};
    if (plan->gradient.used)
        panel_cut_gradients(plan, try_gradients, &s);
    else if (plan->window.used)
        panel_cut_windows(plan, chip, try_windows, &s);
    else
        try_dots(plan, &s);
    if (s.least >= 0) *plan = s.best;
    return s.least >= 0;
}
