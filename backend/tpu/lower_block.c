/* Kernels that go over an index space block by block (block.h): what streams passes through two
 * buffers, so that the next block comes and the last one leaves while one is computed; everything
 * else is in VMEM as a whole. Several units are computed side by side, and several tiles of each.
 */
#include <string.h>

#include "backend/tpu/block.h"

enum { FLAG_LOAD = 4, FLAG_STORE = 6 }; /* two each, by buffer */
enum { MOST_SIDE = 8 };                 /* units, or tiles of a unit, side by side */

/* Goes over some levels; `side` has the places that are computed side by side now. */
struct walk {
    int level[BLOCK_MOST_LEVELS]; /* outermost first */
    int count;
    int from; /* the levels from here on are done side by side, the first one in steps */
    int64_t step;
    struct sx side[MOST_SIDE][BLOCK_MOST_LEVELS]; /* by level of the space */
    int nside;
};

struct blocker {
    struct job job;
    struct block_plan plan;
    struct sx fixed[BLOCK_MOST_LEVELS]; /* places of the levels above the split one */
    struct sx first, count;             /* of the split level, in this block */
    struct walk kept, folded;
    struct tval acc[MOST_SIDE][MOST_SIDE][BLOCK_MOST_REDUCES][FOLD_MOST_PARTS]; /* unit, tile */
    struct ix row_index[MOST_SIDE], lane_index[MOST_SIDE]; /* by unit, where those are kept */
    int phase; /* that is computed; plan.phases: results */
    struct tarray waiting[BLOCK_MOST_REDUCES][FOLD_MOST_PARTS]; /* accumulators between blocks */
};

/* ---- walking ---- */

static bool is_dynamic(const struct blocker *x, int level) {
    const struct block_plan *plan = &x->plan;
    return level == plan->split && plan->level[level].count % plan->chunk;
}

/* Places of a level in one block. */
static int64_t places_of(const struct blocker *x, int level) {
    return level == x->plan.split ? x->plan.chunk : x->plan.level[level].count;
}

static int64_t largest_divisor(int64_t count, int64_t most) {
    int64_t n = count < most ? count : most;
    while (count % n)
        n--;
    return n;
}

/* Levels of one place come first, where they are no loop. */
static void find_walk(const struct blocker *x, bool folded, int most, struct walk *walk) {
    const struct block_plan *plan = &x->plan;
    int64_t side = 1;
    walk->count = 0;
    for (int many = 0; many < 2; many++)
        for (int n = plan->split; n < plan->nlevels; n++)
            if (plan->level[n].folded == folded && (places_of(x, n) > 1) == many)
                walk->level[walk->count++] = n;
    walk->from = walk->count - 1;
    walk->step = 1;
    for (int i = walk->count - 1; i >= 0; i--) {
        int level = walk->level[i];
        int64_t count = places_of(x, level), room = most / side;
        if (room < 1) break;
        walk->from = i;
        walk->step = count < room ? count : room;
        if (is_dynamic(x, level))
            walk->step =
                largest_divisor(largest_divisor(plan->level[level].count, room), plan->chunk);
        if (is_dynamic(x, level) &&
            (plan->chunk % walk->step || plan->level[level].count % walk->step))
            walk->step = 1;
        side *= walk->step;
        if (walk->step < count || is_dynamic(x, level)) break;
    }
}

static bool walk_has_loops(const struct blocker *x, const struct walk *walk) {
    for (int i = 0; i < walk->from; i++)
        if (places_of(x, walk->level[i]) > 1) return true;
    if (walk->count == 0) return false;
    int level = walk->level[walk->from];
    return is_dynamic(x, level) || walk->step < places_of(x, level);
}

static int side_of(const struct blocker *x, const struct walk *walk) {
    int64_t side = 1;
    for (int i = walk->from; i >= 0 && i < walk->count; i++)
        side *= i == walk->from ? walk->step : places_of(x, walk->level[i]);
    return (int)side;
}

/* The places side by side: `step` of level number `i` of the walk from `base` on, and all of those
 * within. */
static void collect_side(const struct blocker *x, struct walk *walk, int i, struct sx base,
                         int64_t step, struct sx *at) {
    for (int64_t u = 0; u < step; u++) {
        at[walk->level[i]] = sx_addi(base, (int32_t)u);
        if (i + 1 == walk->count) {
            for (int n = 0; n < BLOCK_MOST_LEVELS; n++)
                walk->side[walk->nside][n] = at[n];
            walk->nside++;
            continue;
        }
        int inner = walk->level[i + 1];
        struct sx first = inner == x->plan.split ? x->first : sx_const(0);
        collect_side(x, walk, i + 1, first, places_of(x, inner), at);
    }
}

typedef void block_step(struct blocker *x);

static void walk_from(struct blocker *x, struct walk *walk, int i, struct sx *at, block_step *step);

/* One step of level number `i`, at `base`, which stays within the level. */
static void walk_at(struct blocker *x, struct walk *walk, int i, struct sx base, int64_t places,
                    struct sx *at, block_step *step) {
    int level = walk->level[i];
    if (base.low < 0) base.low = 0;
    if (base.high > x->plan.level[level].count - places)
        base.high = x->plan.level[level].count - places;
    if (i < walk->from) {
        at[level] = base;
        walk_from(x, walk, i + 1, at, step);
        return;
    }
    walk->nside = 0;
    collect_side(x, walk, i, base, places, at);
    step(x);
}

static void walk_from(struct blocker *x, struct walk *walk, int i, struct sx *at,
                      block_step *step) {
    struct kernel *k = x->job.k;
    if (walk->count == 0) {
        walk->nside = 1;
        step(x);
        return;
    }
    int level = walk->level[i], memos = x->job.g.nmemos;
    int32_t many = i == walk->from ? (int32_t)walk->step : 1;
    int64_t count = places_of(x, level), whole = count / many;
    struct sx first = level == x->plan.split ? x->first : sx_const(0);
    struct loop loop;
    treg steps = is_dynamic(x, level) ? sx_reg(k, sx_div(k, x->count, many)) : 0;
    if (whole > 1 || steps) {
        struct sx turn =
            steps ? loop_begin_reg(k, &loop, steps, whole) : loop_begin(k, &loop, whole);
        struct sx base = sx_add(k, first, sx_muli(k, turn, many));
        walk_at(x, walk, i, base, many, at, step);
        loop_end(k, &loop, steps);
        x->job.g.nmemos = memos;
    } else {
        walk_at(x, walk, i, first, many, at, step);
    }
    int64_t rest = count - whole * many;
    if (rest) walk_at(x, walk, i, sx_addi(first, (int32_t)(whole * many)), rest, at, step);
    x->job.g.nmemos = memos;
}

static void walk(struct blocker *x, struct walk *walk, block_step *step) {
    struct sx at[BLOCK_MOST_LEVELS] = {{0}};
    walk_from(x, walk, 0, at, step);
}

/* The place of tile number `v` of those side by side, of unit number `u`. */
static struct sx place_at(const struct blocker *x, int n, int u, int v) {
    if (n < x->plan.split) return x->fixed[n];
    return x->plan.level[n].folded ? x->folded.side[v][n] : x->kept.side[u][n];
}

static void tile_at(struct blocker *x, int u, int v, struct ttile *tile) {
    struct kernel *k = x->job.k;
    const struct block_plan *plan = &x->plan;
    const struct tpu_layout *layout = &plan->layout;
    struct sx at[BLOCK_MOST_LEVELS], major = sx_const(0);
    for (int n = 0; n < plan->nlevels; n++)
        at[n] = place_at(x, n, u, v);
    for (int n = 0; n < plan->nlevels - 2; n++) {
        int d = plan->level[n].dim;
        tile->index[d] = ix_scalar(at[n]);
        major = sx_add(k, sx_muli(k, major, (int32_t)layout->dims[d]), at[n]);
    }
    tile->major = major;
    tile->group = at[plan->nlevels - 2];
    tile->lane_tile = at[plan->nlevels - 1];
    if (layout->rank == 1) {
        struct ix index = ix_muli(k, ix_rows(sx_muli(k, tile->group, TPU_SUBLANES)), TPU_LANES);
        tile->index[0] = ix_add(k, index, ix_lanes(sx_const(0)));
    } else if (layout->rank > 1) {
        tile->index[layout->order[0]] = block_folds_lanes(plan) || !plan->nfolds
                                            ? ix_lanes(sx_muli(k, tile->lane_tile, TPU_LANES))
                                            : x->lane_index[u];
        tile->index[layout->order[1]] = block_folds_groups(plan) || !plan->nfolds
                                            ? ix_rows(sx_muli(k, tile->group, TPU_SUBLANES))
                                            : x->row_index[u];
    }
}

/* Indices of the kept minor dimensions are made once for a unit, so that what was computed at them
 * is known to be the same in its loops. */
static void fix_units(struct blocker *x) {
    struct kernel *k = x->job.k;
    int n = x->plan.nlevels;
    for (int u = 0; u < x->kept.nside; u++) {
        struct sx group = place_at(x, n - 2, u, 0), tile = place_at(x, n - 1, u, 0);
        if (!block_folds_groups(&x->plan))
            x->row_index[u] = ix_rows(sx_muli(k, group, TPU_SUBLANES));
        if (!block_folds_lanes(&x->plan)) x->lane_index[u] = ix_lanes(sx_muli(k, tile, TPU_LANES));
    }
}

/* ---- folding ---- */

/* Mask of the elements of a tile that count: padding of folded levels does not. */
static treg counts(struct blocker *x, const struct ttile *tile) {
    struct kernel *k = x->job.k;
    const struct block_plan *plan = &x->plan;
    treg mask = 0;
    for (int n = 0; n < plan->nlevels; n++) {
        int d = plan->level[n].dim;
        if (!plan->level[n].folded || (n == plan->nlevels - 1 && plan->layout.rank == 1)) continue;
        mask = m_and(k, mask, ix_within(k, tile->index[d], 0, (int32_t)plan->layout.dims[d] - 1));
    }
    return mask;
}

static void bind_unit(struct blocker *x, int u, int phases) {
    for (int r = 0; r < x->plan.nfolds; r++) {
        const struct fold *fold = &x->plan.folds[r];
        if (x->plan.phase[r] >= phases) continue;
        for (int i = 0; i < fold->parts; i++)
            value_bind_value(&x->job.g, fold->reduce, i, x->acc[u][0][r][i]);
    }
}

static void fold_tile(struct blocker *x, int u, int v) {
    struct values *g = &x->job.g;
    struct ttile tile;
    tile_at(x, u, v, &tile);
    treg mask = counts(x, &tile);
    for (int r = 0; r < x->plan.nfolds; r++) {
        const struct fold *fold = &x->plan.folds[r];
        struct tval values[FOLD_MOST_PARTS];
        if (x->plan.phase[r] != x->phase) continue;
        for (int i = 0; i < fold->parts; i++)
            values[i] = value_at(g, fold->reduce->operands[i], 0, tile.index, mask);
        fold_step(g, fold, x->acc[u][v][r], values, mask);
    }
}

static void fold_tiles(struct blocker *x) {
    struct values *g = &x->job.g;
    for (int v = 0; v < x->folded.nside; v++) {
        for (int u = 0; u < x->kept.nside; u++) {
            int bindings = g->nbindings;
            bind_unit(x, u, x->phase);
            fold_tile(x, u, v);
            g->nbindings = bindings;
        }
    }
}

/* Accumulators of one register a unit, out of those of its tiles. */
static void join_tiles(struct blocker *x, int u, int r, int tiles) {
    for (int by = 1; by < tiles; by *= 2)
        for (int v = 0; v + by < tiles; v += 2 * by)
            fold_join(&x->job.g, &x->plan.folds[r], x->acc[u][v][r], x->acc[u][v + by][r]);
}

static void finish_fold(struct blocker *x, int u, int r) {
    struct values *g = &x->job.g;
    const struct fold *fold = &x->plan.folds[r];
    if (block_folds_lanes(&x->plan)) fold_lanes(g, fold, x->acc[u][0][r]);
    if (block_folds_groups(&x->plan)) fold_sublanes(g, fold, x->acc[u][0][r]);
    fold_finish(g, fold, x->acc[u][0][r]);
}

/* Number of a unit among all. */
static struct sx unit_number(struct blocker *x, int u) {
    struct kernel *k = x->job.k;
    struct sx number = sx_const(0);
    for (int n = 0; n < x->plan.nlevels; n++) {
        const struct level *level = &x->plan.level[n];
        if (level->folded) continue;
        struct sx at = n < x->plan.split ? x->fixed[n] : x->kept.side[u][n];
        number = sx_add(k, sx_muli(k, number, (int32_t)level->count), at);
    }
    return number;
}

static struct sx waiting_row(struct blocker *x, const struct tarray *array, int u, int plane) {
    struct kernel *k = x->job.k;
    struct sx row = sx_muli(k, unit_number(x, u), TPU_SUBLANES);
    return sx_addi(row, (int32_t)(array->row + plane * array->plane_rows));
}

static void load_waiting(struct blocker *x, int u) {
    for (int r = 0; r < x->plan.nfolds; r++)
        for (int i = 0; i < x->plan.folds[r].parts; i++) {
            const struct tarray *array = &x->waiting[r][i];
            for (int p = 0; p < array->layout.planes; p++)
                x->acc[u][0][r][i].v[p] = k_load(x->job.k, waiting_row(x, array, u, p),
                                                 MIR_STRIDE_1, sx_const(0), array->tag);
        }
}

static void store_waiting(struct blocker *x, int u) {
    for (int r = 0; r < x->plan.nfolds; r++)
        for (int i = 0; i < x->plan.folds[r].parts; i++) {
            const struct tarray *array = &x->waiting[r][i];
            for (int p = 0; p < array->layout.planes; p++)
                k_store(x->job.k, x->acc[u][0][r][i].v[p], waiting_row(x, array, u, p), 0,
                        array->tag);
        }
}

static void clear_folded(struct blocker *x) {
    for (int n = 0; n < x->plan.nlevels; n++)
        x->folded.side[0][n] = sx_const(0);
}

/* What is one value a unit, before the loops over its tiles. */
static void compute_spreads(struct blocker *x, int phase) {
    struct values *g = &x->job.g;
    for (int u = 0; u < x->kept.nside; u++) {
        struct ttile tile;
        int bindings = g->nbindings;
        bind_unit(x, u, phase);
        tile_at(x, u, 0, &tile);
        for (int i = 0; i < x->plan.nspreads; i++) {
            const struct hlo_instr *spread = x->plan.spreads[i];
            struct int_list dims = instr_ints(spread, ATTR_DIMENSIONS);
            struct ix index[SHAPE_MAX_RANK];
            if (x->plan.spread_phase[i] != phase) continue;
            for (int d = 0; d < dims.count; d++)
                index[d] = tile.index[dims.v[d]];
            value_at(g, spread->operands[0], 0, index, 0);
        }
        g->nbindings = bindings;
    }
}

/* The folds of one phase, of all units side by side. */
static void run_phase(struct blocker *x, int phase) {
    struct values *g = &x->job.g;
    bool loops = walk_has_loops(x, &x->folded);
    int tiles = side_of(x, &x->folded);
    x->phase = phase;
    clear_folded(x);
    compute_spreads(x, phase);
    int memos = g->nmemos;
    for (int u = 0; u < x->kept.nside; u++)
        for (int v = 0; v < tiles; v++)
            for (int r = 0; r < x->plan.nfolds; r++)
                if (x->plan.phase[r] == phase) fold_start(g, &x->plan.folds[r], x->acc[u][v][r]);
    walk(x, &x->folded, fold_tiles);
    if (loops) g->nmemos = memos;
    for (int r = 0; r < x->plan.nfolds; r++) {
        if (x->plan.phase[r] != phase) continue;
        for (int u = 0; u < x->kept.nside; u++)
            join_tiles(x, u, r, tiles);
        for (int u = 0; u < x->kept.nside && !x->plan.spans; u++)
            finish_fold(x, u, r);
    }
}

/* ---- results ---- */

static void store_full(struct blocker *x, int u, int v) {
    struct ttile tile;
    tile_at(x, u, v, &tile);
    for (int i = 0; i < x->plan.nout; i++) {
        const struct block_array *out = &x->plan.out[i];
        if (out->level != BLOCK_FULL) continue;
        struct tval value = value_at(&x->job.g, out->instr, out->inner_leaf, tile.index, 0);
        tile_store(&x->job.g.f, &out->view, &tile, value);
    }
}

static void store_tiles(struct blocker *x) {
    struct values *g = &x->job.g;
    for (int v = 0; v < x->folded.nside; v++) {
        for (int u = 0; u < x->kept.nside; u++) {
            int bindings = g->nbindings;
            bind_unit(x, u, x->plan.phases);
            store_full(x, u, v);
            g->nbindings = bindings;
        }
    }
}

/* Row s of 8 to the lanes l with l mod 8 = s. */
static treg along_lanes(struct kernel *k, treg v) {
    treg lane = k_binary_i(k, TPU_VAND, k_lane(k), TPU_SUBLANES - 1);
    treg own = k_binary(k, TPU_VEQ, lane, k_sublane(k));
    v = k_select(k, own, v, k_const(k, 0));
    for (int by = TPU_SUBLANES / 2; by; by /= 2)
        v = k_binary(k, TPU_VOR, v, k_binary_i(k, TPU_VROTS, v, by));
    return v;
}

/* What a unit has of a result of level ROW: a tile, a row, 8 lanes of one, or an element. */
static void store_row(struct blocker *x, const struct block_array *out, const struct ttile *tile,
                      const struct ix *index, struct tval value) {
    struct kernel *k = x->job.k;
    const struct block_plan *plan = &x->plan;
    struct fetcher *f = &x->job.g.f;
    int n = plan->nlevels, rank = out->array.layout.rank;
    bool groups = block_folds_groups(plan), lanes = block_folds_lanes(plan);
    struct ix place[SHAPE_MAX_RANK];
    for (int d = 0; d < rank; d++)
        place[d] = index[d];
    if (!lanes && !groups) {
        struct ttile to = *tile;
        to.major = sx_const(0);
        for (int l = 0; l < n - 2; l++)
            if (!plan->level[l].folded)
                to.major = sx_add(k, sx_muli(k, to.major, (int32_t)plan->level[l].count),
                                  tile->index[plan->level[l].dim].s);
        tile_store(f, &out->array, &to, value);
        return;
    }
    treg mask = 0;
    if (lanes && !groups) {
        struct sx first = sx_muli(k, tile->group, TPU_SUBLANES);
        struct sx within = sx_mod(k, first, TPU_LANES);
        place[out->array.layout.order[0]] =
            ix_lanes(sx_muli(k, sx_div(k, first, TPU_LANES), TPU_LANES));
        struct ix from = ix_lanes(sx_sub(k, sx_const(0), within));
        mask = ix_within(k, from, 0, TPU_SUBLANES - 1);
        for (int p = 0; p < out->array.layout.planes; p++)
            value.v[p] = along_lanes(k, value.v[p]);
    }
    row_store(f, &out->array, place, mask, value);
}

static void store_rows(struct blocker *x, int u) {
    const struct block_plan *plan = &x->plan;
    struct ttile tile;
    struct ix index[SHAPE_MAX_RANK];
    int kept = 0;
    tile_at(x, u, 0, &tile);
    for (int d = 0; d < plan->layout.rank; d++) {
        bool folded = false;
        for (int n = 0; n < plan->nlevels; n++)
            folded |= plan->level[n].dim == d && plan->level[n].folded;
        if (!folded) index[kept++] = tile.index[d];
    }
    for (int i = 0; i < plan->nout; i++) {
        const struct block_array *out = &plan->out[i];
        if (out->level != BLOCK_ROW) continue;
        struct tval value = value_at(&x->job.g, out->instr, out->inner_leaf, index, 0);
        store_row(x, out, &tile, index, value);
    }
}

static void store_units(struct blocker *x) {
    struct values *g = &x->job.g;
    clear_folded(x);
    for (int u = 0; u < x->kept.nside; u++) {
        int bindings = g->nbindings;
        bind_unit(x, u, x->plan.phases);
        store_rows(x, u);
        g->nbindings = bindings;
    }
}

static bool has_level(const struct block_plan *plan, enum block_level level) {
    for (int i = 0; i < plan->nout; i++)
        if (plan->out[i].level == level) return true;
    return false;
}

static void run_units(struct blocker *x) {
    int memos = x->job.g.nmemos;
    fix_units(x);
    for (int p = 0; p < x->plan.phases; p++)
        run_phase(x, p);
    if (x->plan.spans) {
        for (int u = 0; u < x->kept.nside; u++) {
            struct tval now[BLOCK_MOST_REDUCES][FOLD_MOST_PARTS];
            memcpy(now, x->acc[u][0], sizeof now);
            load_waiting(x, u);
            for (int r = 0; r < x->plan.nfolds; r++)
                fold_join(&x->job.g, &x->plan.folds[r], x->acc[u][0][r], now[r]);
            store_waiting(x, u);
        }
        x->job.g.nmemos = memos;
        return;
    }
    if (has_level(&x->plan, BLOCK_FULL)) {
        clear_folded(x);
        compute_spreads(x, x->plan.phases);
        walk(x, &x->folded, store_tiles);
    }
    if (has_level(&x->plan, BLOCK_ROW)) store_units(x);
    x->job.g.nmemos = memos;
}

/* ---- accumulators that wait ---- */

static int64_t count_units(const struct block_plan *plan) {
    int64_t units = 1;
    for (int n = 0; n < plan->nlevels; n++)
        if (!plan->level[n].folded) units *= plan->level[n].count;
    return units;
}

static bool make_waiting(struct blocker *x) {
    int64_t rows = count_units(&x->plan) * TPU_SUBLANES;
    for (int r = 0; r < x->plan.nfolds; r++)
        for (int i = 0; i < x->plan.folds[r].parts; i++) {
            struct tarray *array = &x->waiting[r][i];
            const struct hlo_instr *operand = x->plan.folds[r].reduce->operands[i];
            *array = (struct tarray){.in_vmem = true, .plane_rows = rows};
            array->layout.planes = element_type_size(operand->shape->type) == 8 ? 2 : 1;
            array->tag = k_tag(x->job.k);
            array->row = job_rows(&x->job, rows * array->layout.planes);
            if (array->row < 0) return false;
        }
    return true;
}

static void clear_waiting(struct blocker *x) {
    struct kernel *k = x->job.k;
    struct loop loop;
    struct sx at = loop_begin(k, &loop, count_units(&x->plan));
    for (int r = 0; r < x->plan.nfolds; r++)
        for (int i = 0; i < x->plan.folds[r].parts; i++) {
            const struct tarray *array = &x->waiting[r][i];
            for (int p = 0; p < array->layout.planes; p++) {
                struct sx row = sx_addi(sx_muli(k, at, TPU_SUBLANES),
                                        (int32_t)(array->row + p * array->plane_rows));
                k_store(k, x->plan.folds[r].start[i].v[p], row, 0, array->tag);
            }
        }
    loop_end(k, &loop, 0);
}

static void finish_units(struct blocker *x) {
    int memos = x->job.g.nmemos;
    for (int u = 0; u < x->kept.nside; u++) {
        load_waiting(x, u);
        for (int r = 0; r < x->plan.nfolds; r++)
            finish_fold(x, u, r);
    }
    fix_units(x);
    store_units(x);
    x->job.g.nmemos = memos;
}

/* All units, once all blocks have been folded. */
static void finish_waiting(struct blocker *x) {
    x->plan.split = 0;
    x->plan.chunk = x->plan.level[0].count;
    x->plan.chunks = 1;
    x->first = sx_const(0);
    find_walk(x, false, 1, &x->kept);
    k_block(x->job.k);
    walk(x, &x->kept, finish_units);
}

/* ---- moving blocks ---- */

/* A block: its place in the levels above the split one, as a number, and in that one. */
struct place_of_block {
    struct sx outer, first, count;
};

static struct place_of_block find_block(struct blocker *x, struct sx block) {
    struct kernel *k = x->job.k;
    const struct block_plan *plan = &x->plan;
    struct place_of_block at;
    int32_t chunk = (int32_t)plan->chunk, size = (int32_t)plan->level[plan->split].count;
    at.outer = sx_div(k, block, (int32_t)plan->chunks);
    at.first = sx_muli(k, sx_mod(k, block, (int32_t)plan->chunks), chunk);
    at.first.high = size - 1;
    at.count = sx_const(chunk);
    if (size % chunk) at.count = sx_clamp(k, sx_sub(k, sx_const(size), at.first), 1, chunk);
    return at;
}

static struct sx base_row(struct kernel *k, const struct block_array *a, struct place_of_block at) {
    struct sx outer = sx_muli(k, at.outer, (int32_t)a->outer);
    return sx_add(k, outer, sx_muli(k, at.first, (int32_t)a->step));
}

/* Rows of memory that a block has. */
static struct sx block_rows(struct blocker *x, const struct block_array *a, struct sx count) {
    const struct block_plan *plan = &x->plan;
    const struct tpu_layout *layout = &a->array.layout;
    int64_t sub = layout->tile_rows / layout->packing;
    if (plan->split != plan->nlevels - 2 || layout->tile_rows <= TPU_SUBLANES)
        return sx_muli(x->job.k, count, (int32_t)a->step);
    int32_t groups = layout->tile_rows / TPU_SUBLANES;
    struct sx tiles = sx_div(x->job.k, sx_addi(count, groups - 1), groups);
    return sx_muli(x->job.k, tiles, (int32_t)(sub * layout->lane_tiles));
}

static bool moves(const struct block_array *a) {
    return a->streams && !a->array.in_vmem;
}

static int count_moves(const struct block_array *list, int n) {
    int planes = 0;
    for (int i = 0; i < n; i++)
        if (moves(&list[i])) planes += list[i].array.layout.planes;
    return planes;
}

/* Of one buffer. A load of a tile of fewer rows reads past them, which nothing may be on its way
 * to. */
static int64_t buffer_rows(const struct block_array *a) {
    return a->rows * a->array.layout.planes + TPU_SUBLANES;
}

static struct sx buffer_row(struct kernel *k, const struct block_array *a, struct sx buffer) {
    return sx_addi(sx_muli(k, buffer, (int32_t)buffer_rows(a)), (int32_t)a->at);
}

static void move_block(struct blocker *x, bool load, struct sx block, treg predicate) {
    struct kernel *k = x->job.k;
    struct block_array *list = load ? x->plan.in : x->plan.out;
    struct place_of_block at = find_block(x, block);
    struct sx buffer = sx_mod(k, block, 2);
    struct sx flag = sx_addi(buffer, load ? FLAG_LOAD : FLAG_STORE);
    for (int i = 0; i < (load ? x->plan.nin : x->plan.nout); i++) {
        const struct block_array *a = &list[i];
        if (!moves(a)) continue;
        struct sx words = sx_muli(k, block_rows(x, a, at.count), TPU_LANES);
        struct sx row = base_row(k, a, at), to = buffer_row(k, a, buffer);
        for (int p = 0; p < a->array.layout.planes; p++) {
            int64_t plane = a->array.word + p * a->array.layout.memory_rows * TPU_LANES;
            struct sx hbm = sx_addi(sx_muli(k, row, TPU_LANES), (int32_t)plane);
            struct sx vmem = sx_muli(k, sx_addi(to, (int32_t)(p * a->rows)), TPU_LANES);
            job_run(&x->job, load, flag, load ? hbm : vmem, load ? vmem : hbm, words, predicate);
        }
    }
}

static void wait_flag(struct blocker *x, int flag, int count, treg predicate) {
    if (count)
        k_emit(x->job.k,
               (struct mop){.op = TPU_WAIT, .literal = flag, .imm = count, .pred = predicate});
}

/* For the loads of the block, and for the stores of the one before it in its buffer. */
static void wait_block(struct blocker *x, struct sx block, struct sx buffer) {
    struct kernel *k = x->job.k;
    int loads = count_moves(x->plan.in, x->plan.nin),
        stores = count_moves(x->plan.out, x->plan.nout);
    for (int b = 0; b < 2; b++) {
        treg own = s_compare(k, TPU_SEQ, buffer, sx_const(b));
        wait_flag(x, FLAG_LOAD + b, loads, own);
        if (!stores) continue;
        treg again = s_compare(k, TPU_SGES, block, sx_const(2));
        wait_flag(x, FLAG_STORE + b, stores, k_binary(k, TPU_PAND, own, again));
    }
}

static void place_buffers(struct blocker *x, struct place_of_block at, struct sx buffer) {
    struct kernel *k = x->job.k;
    for (int i = 0; i < x->plan.nin + x->plan.nout; i++) {
        struct block_array *a = i < x->plan.nin ? &x->plan.in[i] : &x->plan.out[i - x->plan.nin];
        if (a->shift)
            k_move_s(k, a->shift,
                     sx_reg(k, sx_sub(k, buffer_row(k, a, buffer), base_row(k, a, at))));
    }
    struct sx outer = at.outer;
    for (int n = x->plan.split - 1; n >= 0; n--) {
        int32_t count = (int32_t)x->plan.level[n].count;
        x->fixed[n] = n ? sx_mod(k, outer, count) : outer;
        x->fixed[n].low = 0;
        x->fixed[n].high = count - 1;
        if (n) outer = sx_div(k, outer, count);
    }
    x->first = at.first;
    x->count = at.count;
}

static void run_blocks(struct blocker *x) {
    struct kernel *k = x->job.k;
    int64_t blocks = x->plan.blocks;
    struct loop loop;
    for (int b = 0; b < 2 && b < blocks; b++)
        move_block(x, true, sx_const(b), 0);
    struct sx block = loop_begin(k, &loop, blocks), buffer = sx_mod(k, block, 2);
    if (blocks > 1)
        wait_block(x, block, buffer);
    else
        wait_flag(x, FLAG_LOAD, count_moves(x->plan.in, x->plan.nin), 0);
    place_buffers(x, find_block(x, block), buffer);
    k_block(k);
    walk(x, &x->kept, run_units);
    k_block(k);
    move_block(x, false, block, 0);
    if (blocks > 2) {
        treg more = s_compare(k, TPU_SLTS, block, sx_const((int32_t)blocks - 2));
        move_block(x, true, sx_addi(block, 2), more);
    }
    loop_end(k, &loop, 0);
    for (int64_t b = blocks > 2 ? blocks - 2 : 0; b < blocks; b++)
        wait_flag(x, FLAG_STORE + (int)(b % 2), count_moves(x->plan.out, x->plan.nout), 0);
}

/* ---- room ---- */

/* What stays in VMEM as a whole: operands that do not stream, results of level ROW. */
static bool find_whole(struct blocker *x) {
    for (int i = 0; i < x->plan.nin; i++) {
        struct block_array *a = &x->plan.in[i];
        if (!a->streams) job_bring(&x->job, &a->array);
        if (!a->streams && !a->array.in_vmem) return false;
    }
    for (int i = 0; i < x->plan.nout; i++) {
        struct block_array *a = &x->plan.out[i];
        if (a->level != BLOCK_ROW) continue;
        job_result(&x->job, a->leaf, &a->array);
        if (!a->array.in_vmem) return false;
    }
    return true;
}

static bool find_buffers(struct blocker *x) {
    struct block_plan *plan = &x->plan;
    int many = count_moves(plan->in, plan->nin) + count_moves(plan->out, plan->nout);
    int64_t waiting =
        plan->nfolds ? plan->nfolds * (count_units(plan) * TPU_SUBLANES + VMEM_GUARD) : 0;
    int64_t rows = job_rows_left(&x->job) - many * (VMEM_GUARD + 4 * TPU_SUBLANES) - waiting;
    if (rows < 0 || !block_cut(plan, rows)) return false;
    if (plan->spans && !make_waiting(x)) return false;
    for (int i = 0; i < plan->nin + plan->nout; i++) {
        struct block_array *a = i < plan->nin ? &plan->in[i] : &plan->out[i - plan->nin];
        if (!moves(a)) continue;
        int64_t buffers = plan->blocks > 1 ? 2 : 1;
        a->at = job_rows(&x->job, buffers * buffer_rows(a));
        if (a->at < 0) return false;
    }
    return true;
}

/* What streams is, for fetches and stores, an array in VMEM at a distance that changes. */
static void bind_arrays(struct blocker *x) {
    struct kernel *k = x->job.k;
    struct block_plan *plan = &x->plan;
    for (int i = 0; i < plan->nin + plan->nout; i++) {
        struct block_array *a = i < plan->nin ? &plan->in[i] : &plan->out[i - plan->nin];
        if (!moves(a)) continue;
        a->array.tag = k_tag(k);
        a->array.plane_rows = a->rows;
        if (plan->blocks > 1)
            a->shift = mir_reg(k->mir, MIR_S);
        else
            a->array.row = a->at;
    }
}

static struct tarray view_of(const struct block_array *a) {
    struct tarray view = a->array;
    if (moves(a)) {
        view.in_vmem = true;
        view.shift = a->shift;
        if (a->shift) view.row = 0;
    }
    return view;
}

static void bind_operands(struct blocker *x) {
    struct values *g = &x->job.g;
    for (int i = 0; i < x->plan.nin; i++) {
        struct tarray view = view_of(&x->plan.in[i]);
        const struct block_array *a = &x->plan.in[i];
        if (a->array.layout.rank || a->streams)
            value_bind_array(g, a->instr, a->leaf, &view);
        else
            value_bind_value(g, a->instr, a->leaf, fetch(&g->f, &view, NULL, 0));
    }
    if (x->plan.body) value_enter(g, x->plan.kernel);
}

/* Elements of fewer than 32 bits take a few registers more on their way. */
static bool is_packed(const struct block_plan *plan) {
    bool packed = false;
    for (int i = 0; i < plan->nin; i++)
        packed |= plan->in[i].streams && plan->in[i].array.layout.packing > 1;
    for (int i = 0; i < plan->nout; i++)
        packed |= plan->out[i].streams && plan->out[i].array.layout.packing > 1;
    return packed;
}

/* How many tiles can be folded side by side, so that accumulators, and what is one value a unit,
 * leave registers for the work. */
static int side_for_registers(const struct block_plan *plan) {
    enum { ROOM = 20, PACKED_ROOM = 12 };
    int most = 1, side = MOST_SIDE, room = is_packed(plan) ? PACKED_ROOM : ROOM;
    for (int p = 0; p <= plan->phases; p++) {
        int registers = 0;
        for (int r = 0; r < plan->nfolds; r++)
            if (plan->phase[r] == p) registers += plan->folds[r].parts;
        for (int i = 0; i < plan->nspreads; i++)
            registers += plan->spread_phase[i] <= p;
        if (registers > most) most = registers;
    }
    while (side > 1 && side * most > room)
        side /= 2;
    return side;
}

/* All tiles of a unit and as many units as there is room for, so that nothing is computed twice;
 * where those are too many, units side by side, whose folds wait for each other's latencies. */
static void choose_sides(struct blocker *x) {
    int most = side_for_registers(&x->plan);
    int whole = x->plan.nfolds && is_packed(&x->plan) ? MOST_SIDE / 2 : MOST_SIDE;
    find_walk(x, true, whole, &x->folded);
    bool loops = walk_has_loops(x, &x->folded);
    find_walk(x, false, loops ? most : whole / side_of(x, &x->folded), &x->kept);
    if (loops) find_walk(x, true, most / side_of(x, &x->kept), &x->folded);
}

static void emit(struct blocker *x) {
    struct block_plan *plan = &x->plan;
    for (int i = 0; i < plan->nout; i++) {
        plan->out[i].view = view_of(&plan->out[i]);
    }
    for (int r = 0; r < plan->nfolds; r++)
        fold_prepare(&x->job.g, &plan->folds[r]);
    if (plan->spans) clear_waiting(x);
    choose_sides(x);
    run_blocks(x);
    if (plan->spans) finish_waiting(x);
    for (int i = 0; i < plan->nout; i++)
        if (plan->out[i].level == BLOCK_ROW)
            job_take(&x->job, plan->out[i].leaf, &plan->out[i].array);
}

bool lower_block(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct arena *arena = arena_new();
    struct blocker *x = arena_alloc(arena, sizeof *x);
    bool ok = true;
    *taken = block_find(&x->plan, lower, instr);
    if (*taken) {
        job_open(&x->job, lower, instr);
        *taken = find_whole(x) && find_buffers(x);
        if (*taken) {
            bind_arrays(x);
            job_wait(&x->job);
            bind_operands(x);
            emit(x);
            ok = job_close(&x->job);
        } else {
            arena_free(x->job.arena);
        }
    }
    arena_free(arena);
    return ok;
}
