/* What is fused to a product of panels: it happens to each block of the result, tile by tile,
 * before the block leaves. */
#include "backend/tpu/lower_panel.h"

/* ---- what happens to a block of C ---- */

struct place { /* of a tile of the block, and in the matrix */
    struct sx batch, group, tile;
    struct sx all_batch, all_group, all_tile;
};

/* Row of a tile in a block, or in the matrix itself. */
static struct sx tile_row(struct paneler *x, const struct panel *panel, struct sx base,
                          const struct place *p) {
    struct kernel *k = x->job.k;
    struct sx row = sx_muli(k, p->batch, panel->batch_step);
    row = sx_add(k, row, sx_muli(k, p->group, panel->group_step));
    row = sx_add(k, row, sx_muli(k, p->tile, panel->tile_step));
    return sx_add(k, base, row);
}

/* Indices of the result's dimensions. */
static void find_index(struct paneler *x, const struct place *p, struct ix *index) {
    struct kernel *k = x->job.k;
    const struct tpu_layout *layout = &x->plan.c.array.layout;
    index[layout->order[0]] = ix_lanes(sx_muli(k, p->all_tile, TPU_LANES));
    if (layout->rank == 1) return;
    int32_t rows = (int32_t)layout->row_tiles;
    struct sx row = sx_muli(k, sx_mod(k, p->all_group, rows), TPU_SUBLANES);
    struct sx rest = sx_div(k, p->all_group, rows);
    int64_t left = x->plan.c.groups / rows;
    bool batch = false;
    index[layout->order[1]] = ix_rows(row);
    for (int i = 2; i < layout->rank; i++) {
        int d = layout->order[i];
        int32_t size = (int32_t)layout->dims[d];
        index[d] = ix_const(0);
        if (size == 1) continue;
        if (left == 1 && !batch) {
            rest = p->all_batch;
            left = x->plan.p.batches;
            batch = true;
        }
        index[d] = ix_scalar(left == size ? rest : sx_mod(k, rest, size));
        rest = left == size ? sx_const(0) : sx_div(k, rest, size);
        left /= size;
    }
}

static struct tval load_tile(struct paneler *x, const struct beside *beside, struct sx base,
                             const struct place *p) {
    struct kernel *k = x->job.k;
    const struct panel *panel = &beside->panel;
    treg raw = k_load(k, tile_row(x, panel, base, p), MIR_STRIDE_1, sx_const(0), panel->tag);
    return (struct tval){{tile_unpack(k, &panel->matrix.array.layout, raw), 0}};
}

struct bases_beside {
    struct sx c, extra[PANEL_MOST_EXTRAS], result[PANEL_MOST_RESULTS];
};

static void finish_tile(struct paneler *x, const struct bases_beside *base, const struct place *p) {
    struct kernel *k = x->job.k;
    struct values *g = &x->job.g;
    int bindings = g->nbindings, memos = g->nmemos;
    struct ix index[SHAPE_MAX_RANK];
    find_index(x, p, index);
    treg sum = k_load(k, tile_row(x, &x->c, base->c, p), MIR_STRIDE_1, sx_const(0), x->c.tag);
    struct tval value =
        element_convert(k, (struct tval){{sum, 0}}, TYPE_F32, x->plan.p.instr->shape->type);
    value_bind_value(g, x->plan.p.instr, 0, value);
    for (int i = 0; i < x->nextra; i++)
        value_bind_value(g, x->extra[i].instr, 0, load_tile(x, &x->extra[i], base->extra[i], p));
    for (int i = 0; i < x->nresult; i++) {
        const struct panel *panel = &x->result[i].panel;
        treg mask = 0;
        struct tval made = value_at(g, x->result[i].instr, 0, index, 0);
        treg bits = tile_pack(k, &panel->matrix.array.layout, made.v[0], &mask);
        k_store(k, bits, tile_row(x, panel, base->result[i], p), mask, panel->tag);
    }
    g->nbindings = bindings;
    g->nmemos = memos;
}

/* Within the block: places past the result's edge are those at the edge once more. */
static struct sx clamped(struct paneler *x, struct sx at, struct sx places, int64_t size) {
    if (sx_is_const(places) && places.c == size) return at;
    struct kernel *k = x->job.k;
    struct sx last = sx_addi(places, -1);
    treg least = sx_is_const(last) ? k_binary_i(k, TPU_SMINS, sx_reg(k, at), last.c)
                                   : k_binary(k, TPU_SMINS, sx_reg(k, at), sx_reg(k, last));
    return sx_of(least, 0, size - 1);
}

static struct sx within(struct sx at, int64_t size) {
    if (at.low < 0) at.low = 0;
    if (at.high > size - 1) at.high = size - 1;
    return at;
}

static void finish_tiles(struct paneler *x, const struct bases_beside *base,
                         const struct region *r) {
    enum { SIDE = 4 };
    struct kernel *k = x->job.k;
    const int64_t *block = x->plan.block;
    int64_t side = x->out_groups < SIDE ? x->out_groups : SIDE;
    struct loop batch_loop, tile_loop, group_loop;
    struct place p;
    p.batch =
        clamped(x, loop_begin(k, &batch_loop, block[PANEL_BATCH]), r->batches, block[PANEL_BATCH]);
    p.tile = clamped(x, loop_begin(k, &tile_loop, x->out_tiles), r->tiles, x->out_tiles);
    p.all_batch = sx_add(k, r->batch, p.batch);
    p.all_tile = within(sx_add(k, r->tile, p.tile), x->plan.c.tiles);
    int64_t turns = (x->out_groups + side - 1) / side;
    struct sx first = sx_muli(k, loop_begin(k, &group_loop, turns), (int32_t)side);
    for (int i = 0; i < side; i++) {
        struct sx at = sx_addi(first, i);
        bool may_pass = turns * side != x->out_groups || !sx_is_const(r->groups) ||
                        r->groups.c != x->out_groups;
        p.group = within(may_pass ? clamped(x, at, r->groups, -1) : at, x->out_groups);
        p.all_group = within(sx_add(k, r->group, p.group), x->plan.c.groups);
        finish_tile(x, base, &p);
    }
    loop_end(k, &group_loop, 0);
    loop_end(k, &tile_loop, 0);
    loop_end(k, &batch_loop, 0);
}

static struct region result_region(struct paneler *x, const struct matrix *m) {
    struct sx zero = sx_const(0);
    if (x->plan.gradient.used)
        return (struct region){zero,
                               zero,
                               zero,
                               sx_const(1),
                               sx_const((int32_t)m->groups),
                               sx_const((int32_t)m->tiles)};
    return panel_region_of(x, x->at, m, PANEL_M, PANEL_N);
}

static int moved_count(const struct beside *list, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += !list[i].panel.direct;
    return count;
}

int panel_sends(const struct paneler *x) {
    return x->passes ? moved_count(x->result, x->nresult) : 1;
}

void panel_load_extras(struct paneler *x) {
    for (int i = 0; i < x->nextra; i++) {
        const struct panel *panel = &x->extra[i].panel;
        struct region r = result_region(x, &panel->matrix);
        if (panel->direct) continue;
        panel_move_region(x, panel, &r, sx_const((int32_t)panel->row), true, PANEL_FLAG_EXTRA, 0);
        k_block(x->job.k);
    }
}

static void send(struct paneler *x, const struct panel *panel, struct sx row) {
    struct region r = result_region(x, &panel->matrix);
    panel_move_region(x, panel, &r, row, false, PANEL_FLAG_RESULT, 0);
    k_block(x->job.k);
}

void panel_finish_block(struct paneler *x) {
    struct kernel *k = x->job.k;
    struct sx zero = sx_const(0);
    panel_wait(x, PANEL_FLAG_RESULT, panel_sends(x), k_binary_i(k, TPU_SGTS, x->done, 0));
    if (!x->passes) {
        send(x, &x->c, panel_block_row(x, &x->c, x->c_buffer, zero, zero, zero));
        if (x->c.buffers > 1) k_count_around(k, x->c_buffer, x->c.buffers, 0);
    } else {
        struct bases_beside base;
        struct region r = result_region(x, &x->plan.c);
        if (x->plan.gradient.used) panel_turn_sums(x);
        panel_wait(x, PANEL_FLAG_EXTRA, moved_count(x->extra, x->nextra), 0);
        base.c = panel_block_row(x, &x->c, x->c_buffer, zero, zero, zero);
        for (int i = 0; i < x->nextra; i++)
            base.extra[i] = panel_block_row(x, &x->extra[i].panel, 0, r.batch, r.group, r.tile);
        for (int i = 0; i < x->nresult; i++)
            base.result[i] = panel_block_row(x, &x->result[i].panel, 0, r.batch, r.group, r.tile);
        finish_tiles(x, &base, &r);
        k_block(k);
        for (int i = 0; i < x->nresult; i++)
            if (!x->result[i].panel.direct)
                send(x, &x->result[i].panel, sx_const((int32_t)x->result[i].panel.row));
    }
    k_add_if(k, x->done, 1, 0);
    k_block(k);
}

/* ---- what is fused ---- */

static const struct hlo_instr *result_of(const struct hlo_instr *kernel, int leaf) {
    const struct hlo_instr *root = kernel->opcode == OP_FUSION ? kernel->called[0]->root : kernel;
    return root->opcode == OP_TUPLE ? root->operands[leaf] : root;
}

/* An array that has its tiles where the product's result has them. */
static bool find_beside(struct paneler *x, const struct hlo_instr *instr, int leaf,
                        struct beside *beside) {
    const struct matrix *c = &x->plan.c;
    struct tarray array;
    if (!leaf_array(x->job.lower, instr, leaf, &array)) return false;
    const struct tpu_layout *layout = &array.layout;
    if (layout->planes != 1 || layout->packing > 2 || layout->rank != c->array.layout.rank ||
        (layout->rank == 1 && layout->packing > 1))
        return false;
    for (int i = 0; i < layout->rank; i++)
        if (layout->order[i] != c->array.layout.order[i] ||
            layout->dims[i] != c->array.layout.dims[i])
            return false;
    int32_t tile = layout->rank == 1 ? 1 : layout->tile_rows / layout->packing;
    beside->panel.matrix = (struct matrix){instr, array, c->groups, c->tiles, tile};
    return true;
}

static bool find_results(struct paneler *x, const struct hlo_instr *kernel) {
    x->nresult = kernel->shape->nleaves;
    if (x->nresult > PANEL_MOST_RESULTS) return false;
    for (int l = 0; l < x->nresult; l++) {
        x->result[l].instr = result_of(kernel, l);
        if (!find_beside(x, kernel, l, &x->result[l])) return false;
    }
    const struct matrix *first = &x->result[0].panel.matrix;
    x->passes = x->is_fused || x->plan.gradient.used || first->array.in_vmem ||
                first->array.layout.type != TYPE_F32;
    return true;
}

/* Every use of the parameter is at the place that is computed. */
static bool is_read_in_place(const struct hlo_computation *body, const struct hlo_instr *at,
                             const struct shape *like) {
    if (!shape_is_array(at->shape) || !shape_same_dims(at->shape, like)) return false;
    FOR_EACH_INSTR(user, body) {
        bool uses = false;
        for (int i = 0; i < user->noperands; i++)
            uses |= user->operands[i] == at;
        if (!uses || user->opcode == OP_TUPLE) continue;
        if (!shape_is_array(user->shape) || !shape_same_dims(user->shape, like) ||
            !(opcode_info(user->opcode)->flags & OP_FLAG_ELEMENTWISE))
            return false;
    }
    return true;
}

/* The kernel's operands: A and B, those that come block by block, and others, which stay as a
 * whole. */
static void find_extras(struct paneler *x, const struct hlo_instr *kernel) {
    const struct hlo_computation *body = kernel->called[0];
    for (int i = 0; i < kernel->noperands; i++) {
        struct beside extra = {.instr = body->parameters[i]};
        if (x->nextra == PANEL_MOST_EXTRAS ||
            !is_read_in_place(body, extra.instr, x->plan.p.instr->shape) ||
            kernel->operands[i]->opcode == OP_CONSTANT ||
            !find_beside(x, kernel->operands[i], 0, &extra))
            continue;
        x->extra[x->nextra++] = extra;
    }
}

static bool is_used_by(const struct hlo_computation *body, const struct hlo_instr *instr,
                       const struct hlo_instr *product) {
    FOR_EACH_INSTR(user, body) {
        for (int i = 0; i < user->noperands; i++) {
            if (user->operands[i] != instr || user == product) continue;
            if (user->opcode != OP_CONVERT || is_used_by(body, user, product)) return true;
        }
    }
    return instr == body->root;
}

/* Brings what is read as a whole. False where it would not all stay in VMEM. */
bool panel_stage_others(struct paneler *x, const struct hlo_instr *kernel) {
    const struct hlo_computation *body = kernel->called[0];
    for (int i = 0; i < kernel->noperands; i++) {
        const struct hlo_instr *operand = kernel->operands[i], *inside = body->parameters[i];
        bool comes = !is_used_by(body, inside, x->plan.p.instr);
        for (int e = 0; e < x->nextra; e++)
            comes |= x->extra[e].instr == inside;
        if (comes || (operand->opcode == OP_CONSTANT && operand->shape->count == 1)) continue;
        struct tarray array;
        if (!leaf_array(x->job.lower, operand, 0, &array)) return false;
        job_bring(&x->job, &array);
        if (!array.in_vmem) return false;
        value_bind_array(&x->job.g, inside, 0, &array);
    }
    return true;
}

static bool has_inner_arrays(const struct hlo_computation *body) {
    FOR_EACH_INSTR(instr, body)
    if (instr->ncalled || (instr->opcode == OP_CONSTANT && instr->shape->count > 1)) return true;
    return false;
}

/* Rows of memory that a tile of the result takes in what stands beside it. */
int64_t panel_extra_rows(const struct paneler *x) {
    int64_t rows = 0;
    for (int i = 0; i < x->nextra; i++)
        rows += x->extra[i].panel.matrix.array.in_vmem ? 0 : x->extra[i].panel.matrix.tile;
    for (int i = 0; i < x->nresult; i++)
        rows += x->result[i].panel.matrix.array.in_vmem ? 0 : x->result[i].panel.matrix.tile;
    return x->passes ? rows + 1 : 0;
}

bool panel_find_fused(struct paneler *x, const struct hlo_instr *kernel) {
    if (x->is_fused && has_inner_arrays(kernel->called[0])) return false;
    if (!find_results(x, kernel)) return false;
    if (x->is_fused) find_extras(x, kernel);
    return true;
}

/* ---- room ---- */

static bool make_beside(struct paneler *x, struct beside *beside) {
    struct panel *panel = &beside->panel;
    if (panel->matrix.array.in_vmem) {
        panel_use_directly(panel);
        return true;
    }
    int64_t tiles = x->out_tiles * x->plan.block[PANEL_BATCH] * x->out_groups;
    return panel_make(x, panel, tiles * panel->matrix.tile + TPU_SUBLANES, 1, x->out_groups,
                      panel->matrix.tile);
}

bool panel_make_besides(struct paneler *x) {
    for (int i = 0; i < x->nextra; i++)
        if (!make_beside(x, &x->extra[i])) return false;
    for (int i = 0; i < x->nresult && x->passes; i++)
        if (!make_beside(x, &x->result[i])) return false;
    return true;
}
