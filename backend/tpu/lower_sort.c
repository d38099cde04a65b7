/* Sorting: a bitonic network over lanes (Batcher 1968). The sorted dimension is laid along lanes,
 * padded to a power of two; every element carries its first place, which decides between equal
 * ones, so that the sort is stable whatever the comparator says. */
#include "backend/tpu/lower.h"

enum { MOST_OPERANDS = 16 };

struct sorter {
    struct job job;
    const struct hlo_instr *instr;
    int n;
    int dim;
    int64_t size, padded;                  /* of the sorted dimension */
    int64_t rows;                          /* product of the others */
    struct tarray keys[MOST_OPERANDS + 1]; /* [rows, padded]; the last one holds first places */
    struct sx group, stage, distance;      /* 8 rows; of the network */
};

struct elements {
    struct tval v[MOST_OPERANDS + 1];
};

/* Index of the array at row `row` (all dimensions but the sorted one, row-major), place `at`. */
static void split_row(struct sorter *s, struct ix row, struct ix at, struct ix *index) {
    const struct shape *shape = s->instr->operands[0]->shape;
    for (int d = shape->rank - 1; d >= 0; d--) {
        index[d] = at;
        if (d == s->dim) continue;
        index[d] = ix_mod(s->job.k, row, (int32_t)shape->dims[d]);
        row = ix_div(s->job.k, row, (int32_t)shape->dims[d]);
    }
}

static void load_keys(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct tile_loops loops;
    struct ttile tile;
    int memos = s->job.g.nmemos;
    tiles_begin(k, &s->keys[0].layout, &loops, &tile);
    struct ix index[SHAPE_MAX_RANK], row = tile.index[0], at = tile.index[1];
    treg valid = m_and(k, ix_within(k, row, 0, (int32_t)s->rows - 1),
                       ix_within(k, at, 0, (int32_t)s->size - 1));
    split_row(s, row, at, index);
    for (int i = 0; i < s->n; i++) {
        struct tval value = value_at(&s->job.g, s->instr->operands[i], 0, index, valid);
        tile_store(&s->job.g.f, &s->keys[i], &tile, value);
    }
    tile_store(&s->job.g.f, &s->keys[s->n], &tile, (struct tval){{ix_reg(k, at), 0}});
    s->job.g.nmemos = memos;
    tiles_end(k, &loops);
}

/* One register of every array: 8 rows of lane tile `tile`. */
static struct elements load_tile(struct sorter *s, struct sx tile) {
    struct ix index[2] = {ix_rows(sx_muli(s->job.k, s->group, TPU_SUBLANES)),
                          ix_lanes(sx_muli(s->job.k, tile, TPU_LANES))};
    struct elements e = {0};
    for (int i = 0; i <= s->n; i++)
        e.v[i] = fetch(&s->job.g.f, &s->keys[i], index, 0);
    return e;
}

static void store_tile(struct sorter *s, struct sx tile, const struct elements *e) {
    struct ttile at = {.major = sx_const(0), .group = s->group, .lane_tile = tile};
    for (int i = 0; i <= s->n; i++)
        tile_store(&s->job.g.f, &s->keys[i], &at, e->v[i]);
}

static treg less_by_comparator(struct sorter *s, const struct elements *a,
                               const struct elements *b) {
    struct tval args[2 * MOST_OPERANDS] = {{{0}}}, result[1];
    for (int i = 0; i < s->n; i++) {
        args[2 * i] = a->v[i];
        args[2 * i + 1] = b->v[i];
    }
    value_call(&s->job.g, s->instr->called[0], args, result);
    return element_mask(s->job.k, result[0]);
}

/* Padding comes last; equal elements in the order of their first places, or, where the comparator
 * puts each before the other (it says <=), in the other order, as merging does. */
static treg before(struct sorter *s, const struct elements *a, const struct elements *b) {
    struct kernel *k = s->job.k;
    treg place_a = a->v[s->n].v[0], place_b = b->v[s->n].v[0];
    treg less = less_by_comparator(s, a, b), greater = less_by_comparator(s, b, a);
    treg first = k_binary(k, TPU_VLTS, place_a, place_b);
    treg differ = k_binary(k, TPU_MXOR, less, greater);
    treg by_place = k_binary(k, TPU_MANDN, k_binary(k, TPU_MXOR, first, less), differ);
    treg result = m_or(k, m_and(k, less, differ), by_place);
    if (s->padded == s->size) return result;
    treg pad_a = k_binary_i(k, TPU_VGES, place_a, (int32_t)s->size);
    treg pad_b = k_binary_i(k, TPU_VGES, place_b, (int32_t)s->size);
    result = k_binary(k, TPU_MANDN, m_or(k, result, pad_b), pad_a);
    return m_or(k, result, m_and(k, m_and(k, pad_a, pad_b), first));
}

static struct elements choose(struct sorter *s, treg mask, const struct elements *a,
                              const struct elements *b) {
    struct elements e = {0};
    for (int i = 0; i <= s->n; i++)
        e.v[i] = element_select(s->job.k, mask, a->v[i], b->v[i]);
    return e;
}

/* Where the bit `bit` (a scalar, one bit) of the places in a tile is off. */
static treg bit_off(struct sorter *s, struct sx tile, struct sx bit) {
    struct kernel *k = s->job.k;
    treg place = ix_reg(k, ix_lanes(sx_muli(k, tile, TPU_LANES)));
    return k_binary_i(k, TPU_VEQ, k_binary_s(k, TPU_VAND, place, sx_reg(k, bit)), 0);
}

/* Partners within a tile: lanes that differ in one bit. */
static void exchange_lanes(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct loop loop;
    struct sx tile = loop_begin(k, &loop, s->padded / TPU_LANES);
    struct elements mine = load_tile(s, tile), other = {0};
    treg partner = k_binary_s(k, TPU_VXOR, k_lane(k), sx_reg(k, s->distance));
    for (int i = 0; i <= s->n; i++) {
        other.v[i] = (struct tval){{k_xlu(k, TPU_XPERM, mine.v[i].v[0], partner), 0}};
        if (mine.v[i].v[1]) other.v[i].v[1] = k_xlu(k, TPU_XPERM, mine.v[i].v[1], partner);
    }
    /* The lower place of an ascending pair, and the upper one of a descending pair, keeps the
     * smaller element; the other two keep the larger one. */
    treg keeps_large =
        k_binary(k, TPU_MXOR, bit_off(s, tile, s->stage), bit_off(s, tile, s->distance));
    treg stays = k_binary(k, TPU_MXOR, before(s, &mine, &other), keeps_large);
    struct elements kept = choose(s, stays, &mine, &other);
    store_tile(s, tile, &kept);
    loop_end(k, &loop, 0);
}

/* Partners in two tiles: number `pair` with a 0 put in at the distance's bit, and with a 1. */
static void exchange_tiles(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct loop loop;
    struct sx pair = loop_begin(k, &loop, s->padded / TPU_LANES / 2);
    treg apart = k_binary_i(k, TPU_SSHR, sx_reg(k, s->distance), 7);
    treg below = k_binary(k, TPU_SAND, sx_reg(k, pair), k_binary_i(k, TPU_SSUB, apart, 1));
    treg above = k_binary(k, TPU_SSUB, sx_reg(k, pair), below);
    treg low = k_binary(k, TPU_SADD, k_binary(k, TPU_SADD, above, above), below);
    int64_t last = s->padded / TPU_LANES - 1;
    struct sx first = sx_of(low, 0, last),
              second = sx_of(k_binary(k, TPU_SADD, low, apart), 0, last);
    struct elements a = load_tile(s, first), b = load_tile(s, second);
    treg ascending = bit_off(s, first, s->stage);
    treg stays = m_not(k, k_binary(k, TPU_MXOR, before(s, &a, &b), ascending));
    struct elements small = choose(s, stays, &a, &b), large = choose(s, stays, &b, &a);
    store_tile(s, first, &small);
    store_tile(s, second, &large);
    loop_end(k, &loop, 0);
}

/* for stage = 2, 4, ... padded: for distance = stage / 2, ... 1 */
static void run_network(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct loop groups;
    s->group = loop_begin(k, &groups, (s->rows + TPU_SUBLANES - 1) / TPU_SUBLANES);
    treg stage = mir_reg(k->mir, MIR_S), distance = mir_reg(k->mir, MIR_S);
    k_move_s(k, stage, sx_reg(k, sx_const(2)));
    s->stage = sx_of(stage, 2, s->padded);
    s->distance = sx_of(distance, 1, s->padded / 2);
    int stages = until_begin(k);
    k_move_s(k, distance, k_binary_i(k, TPU_SSHR, stage, 1));
    int distances = until_begin(k);
    if (s->padded > TPU_LANES) {
        int far = if_begin(k, k_binary_i(k, TPU_SGES, distance, TPU_LANES), false);
        exchange_tiles(s);
        if_end(k, far);
        int near = if_begin(k, k_binary_i(k, TPU_SLTS, distance, TPU_LANES), false);
        exchange_lanes(s);
        if_end(k, near);
    } else {
        exchange_lanes(s);
    }
    k_move_s(k, distance, k_binary_i(k, TPU_SSHR, distance, 1));
    until_end(k, distances, k_binary_i(k, TPU_SGTS, distance, 0), false);
    k_move_s(k, stage, k_binary_i(k, TPU_SSHL, stage, 1));
    until_end(k, stages, k_binary_i(k, TPU_SLES, stage, (int32_t)s->padded), false);
    loop_end(k, &groups, 0);
}

static void write_results(struct sorter *s, const struct tarray *results) {
    struct kernel *k = s->job.k;
    const struct shape *shape = s->instr->operands[0]->shape;
    struct tile_loops loops;
    struct ttile tile;
    for (int i = 0; i < s->n; i++) {
        tiles_begin(k, &results[i].layout, &loops, &tile);
        treg valid = tile_valid(k, &results[i].layout, &tile);
        struct ix index[2] = {ix_const(0), tile.index[s->dim]};
        for (int d = 0; d < shape->rank; d++) {
            if (d == s->dim) continue;
            index[0] = ix_add(k, ix_muli(k, index[0], (int32_t)shape->dims[d]), tile.index[d]);
        }
        struct tval value = fetch(&s->job.g.f, &s->keys[i], index, valid);
        tile_store(&s->job.g.f, &results[i], &tile, value);
        tiles_end(k, &loops);
        job_take(&s->job, i, &results[i]);
    }
}

static bool make_keys(struct sorter *s) {
    struct shape_table *shapes = s->job.lower->module->shapes;
    int64_t dims[2] = {s->rows, s->padded};
    for (int i = 0; i <= s->n; i++) {
        enum element_type type = i < s->n ? s->instr->operands[i]->shape->type : TYPE_S32;
        const struct shape *shape = shape_array(shapes, type, 2, dims);
        if (!shape || !job_array(&s->job, shape, &s->keys[i]))
            return job_needs_vmem(&s->job, &(struct tarray){0});
    }
    return true;
}

bool lower_sort(struct lower *lower, const struct hlo_instr *instr) {
    struct sorter s = {.instr = instr, .n = instr->noperands};
    struct tarray results[MOST_OPERANDS];
    const struct shape *shape = instr->operands[0]->shape;
    if (s.n > MOST_OPERANDS) {
        diag_instr_error(lower->diag, instr,
                         "a sort of more than %d arrays is not supported on TPU", MOST_OPERANDS);
        return false;
    }
    job_open(&s.job, lower, instr);
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    s.dim = dims.count ? (int)dims.v[0] : shape->rank - 1;
    if (shape->count == 0) return job_close(&s.job);
    s.size = shape->rank ? shape->dims[s.dim] : 1;
    s.rows = shape->count / s.size;
    s.padded = TPU_LANES;
    while (s.padded < s.size)
        s.padded *= 2;
    for (int i = 0; i < s.n; i++)
        job_result(&s.job, i, &results[i]);
    if (make_keys(&s)) {
        job_stage(&s.job, instr, 0);
        load_keys(&s);
        run_network(&s);
        write_results(&s, results);
    }
    return job_close(&s.job);
}
