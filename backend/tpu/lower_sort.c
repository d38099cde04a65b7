/* Sorting: a bitonic network (Batcher 1968). Places of the sorted dimension, padded to a power of
 * two, run along the lanes of registers, one row in each sublane, or, where that takes fewer
 * registers, through all 1024 places of registers that belong to one row. Every element carries its
 * first place, which decides between equal ones, so that the sort is stable whatever the comparator
 * says. What is sorted together (8 rows, or one) is worked on in VMEM, or else in HBM. */
#include "backend/tpu/lower.h"

enum { MOST_OPERANDS = 16, PLACES = TPU_SUBLANES * TPU_LANES };

struct sorter {
    struct job job;
    const struct hlo_instr *instr;
    int n;
    int dim;
    int64_t size, padded; /* of the sorted dimension, and up to a power of two */
    int64_t rows;         /* product of the others */
    bool folded;          /* a register holds places of one row */
    int64_t span;         /* places of a row in one register */
    int64_t tiles, units; /* registers of what is sorted together, and how many of those */
    /* [units * tiles * 8, 128] words of each operand; the last one holds first places. */
    struct tarray keys[MOST_OPERANDS + 1];
    /* Where the network runs: the keys, or room for one unit of each. */
    struct tarray work[MOST_OPERANDS + 1];
    bool staged;
    struct sx first;           /* row of the unit in the work arrays */
    struct sx stage, distance; /* of the network */
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

/* Place in its row of each element of register `tile` of a unit. */
static struct ix place_in(struct sorter *s, struct sx tile) {
    struct kernel *k = s->job.k;
    struct ix lane = ix_lanes(sx_muli(k, tile, (int32_t)s->span));
    return s->folded ? ix_add(k, lane, ix_muli(k, ix_rows(sx_const(0)), TPU_LANES)) : lane;
}

/* Row of the sorted arrays of each element of a unit. */
static struct ix row_in(struct sorter *s, struct sx unit) {
    return s->folded ? ix_scalar(unit) : ix_rows(sx_muli(s->job.k, unit, TPU_SUBLANES));
}

/* The place in the keys of a row's place. */
static void key_place(struct sorter *s, struct ix row, struct ix at, struct ix *index) {
    struct kernel *k = s->job.k;
    int32_t span = (int32_t)s->span, tiles = (int32_t)s->tiles;
    struct ix unit = s->folded ? row : ix_div(k, row, TPU_SUBLANES);
    struct ix sublane =
        s->folded ? ix_div(k, ix_mod(k, at, span), TPU_LANES) : ix_mod(k, row, TPU_SUBLANES);
    struct ix tile = ix_add(k, ix_muli(k, unit, tiles), ix_div(k, at, span));
    index[0] = ix_add(k, ix_muli(k, tile, TPU_SUBLANES), sublane);
    index[1] = ix_mod(k, at, TPU_LANES);
}

static void store_register(struct sorter *s, const struct tarray *array, struct sx group,
                           struct tval value) {
    struct ttile at = {.major = sx_const(0), .group = group, .lane_tile = sx_const(0)};
    tile_store(&s->job.g.f, array, &at, value);
}

static void load_keys(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct loop units, tiles;
    struct ix index[SHAPE_MAX_RANK];
    struct sx unit = loop_begin(k, &units, s->units), tile = loop_begin(k, &tiles, s->tiles);
    struct sx group = sx_add(k, sx_muli(k, unit, (int32_t)s->tiles), tile);
    struct ix row = row_in(s, unit), at = place_in(s, tile);
    int memos = s->job.g.nmemos;
    treg valid = m_and(k, ix_within(k, row, 0, (int32_t)s->rows - 1),
                       ix_within(k, at, 0, (int32_t)s->size - 1));
    split_row(s, row, at, index);
    for (int i = 0; i < s->n; i++) {
        struct tval value = value_at(&s->job.g, s->instr->operands[i], 0, index, valid);
        store_register(s, &s->keys[i], group, value);
    }
    store_register(s, &s->keys[s->n], group, (struct tval){{ix_reg(k, at), 0}});
    s->job.g.nmemos = memos;
    loop_end(k, &tiles, 0);
    loop_end(k, &units, 0);
}

/* One register of every array. */
static struct elements load_tile(struct sorter *s, struct sx tile) {
    struct kernel *k = s->job.k;
    struct sx row = sx_add(k, s->first, sx_muli(k, tile, TPU_SUBLANES));
    struct ix index[2] = {ix_rows(row), ix_lanes(sx_const(0))};
    struct elements e = {0};
    for (int i = 0; i <= s->n; i++)
        e.v[i] = fetch(&s->job.g.f, &s->work[i], index, 0);
    return e;
}

static void store_tile(struct sorter *s, struct sx tile, const struct elements *e) {
    struct kernel *k = s->job.k;
    struct sx group = sx_add(k, sx_div(k, s->first, TPU_SUBLANES), tile);
    for (int i = 0; i <= s->n; i++)
        store_register(s, &s->work[i], group, e->v[i]);
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
    treg place = ix_reg(k, place_in(s, tile));
    return k_binary_i(k, TPU_VEQ, k_binary_s(k, TPU_VAND, place, sx_reg(k, bit)), 0);
}

/* Partners within a register: lanes (XPERM) or sublanes (XPERMS) that differ in one bit. */
static void exchange_within(struct sorter *s, enum tpu_op permute) {
    struct kernel *k = s->job.k;
    struct loop loop;
    struct sx tile = loop_begin(k, &loop, s->tiles);
    struct elements mine = load_tile(s, tile), other = {0};
    treg own = permute == TPU_XPERM ? k_lane(k) : k_sublane(k), bit = sx_reg(k, s->distance);
    if (permute == TPU_XPERMS) bit = k_binary_i(k, TPU_SSHR, bit, 7);
    treg partner = k_binary_s(k, TPU_VXOR, own, bit);
    for (int i = 0; i <= s->n; i++) {
        other.v[i] = (struct tval){{k_xlu(k, permute, mine.v[i].v[0], partner), 0}};
        if (mine.v[i].v[1]) other.v[i].v[1] = k_xlu(k, permute, mine.v[i].v[1], partner);
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

/* Partners in two registers: number `pair` with a 0 put in at the distance's bit, and with a 1. */
static void exchange_tiles(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct loop loop;
    struct sx pair = loop_begin(k, &loop, s->tiles / 2);
    treg apart = k_binary_i(k, TPU_SSHR, sx_reg(k, s->distance), s->folded ? 10 : 7);
    treg below = k_binary(k, TPU_SAND, sx_reg(k, pair), k_binary_i(k, TPU_SSUB, apart, 1));
    treg above = k_binary(k, TPU_SSUB, sx_reg(k, pair), below);
    treg low = k_binary(k, TPU_SADD, k_binary(k, TPU_SADD, above, above), below);
    int64_t last = s->tiles - 1;
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

/* The exchanges of one distance; which kind is a matter of how far that is. */
static void exchange(struct sorter *s) {
    static const struct {
        enum tpu_op permute; /* TPU_EMPTY: registers */
        int64_t least;
    } kinds[] = {{TPU_XPERM, 1}, {TPU_XPERMS, TPU_LANES}, {TPU_EMPTY, 0}};
    struct kernel *k = s->job.k;
    for (int i = 0; i < 3; i++) {
        int64_t least = i < 2 ? kinds[i].least : s->span;
        int64_t most = i == 0 ? TPU_LANES : i == 1 ? s->span : s->padded;
        if (most > s->padded) most = s->padded;
        if (least >= most) continue;
        treg far = s_compare(k, TPU_SGES, s->distance, sx_const((int32_t)least));
        treg near = s_compare(k, TPU_SLTS, s->distance, sx_const((int32_t)most));
        int branch = if_begin(k, k_binary(k, TPU_PAND, far, near), false);
        if (kinds[i].permute == TPU_EMPTY)
            exchange_tiles(s);
        else
            exchange_within(s, kinds[i].permute);
        if_end(k, branch);
    }
}

/* for stage = 2, 4, ... padded: for distance = stage / 2, ... 1 */
static void run_network(struct sorter *s) {
    struct kernel *k = s->job.k;
    treg stage = mir_reg(k->mir, MIR_S), distance = mir_reg(k->mir, MIR_S);
    k_move_s(k, stage, sx_reg(k, sx_const(2)));
    s->stage = sx_of(stage, 2, s->padded);
    s->distance = sx_of(distance, 1, s->padded / 2);
    int stages = until_begin(k);
    k_move_s(k, distance, k_binary_i(k, TPU_SSHR, stage, 1));
    int distances = until_begin(k);
    exchange(s);
    k_move_s(k, distance, k_binary_i(k, TPU_SSHR, distance, 1));
    until_end(k, distances, k_binary_i(k, TPU_SGTS, distance, 0), false);
    k_move_s(k, stage, k_binary_i(k, TPU_SSHL, stage, 1));
    until_end(k, stages, k_binary_i(k, TPU_SLES, stage, (int32_t)s->padded), false);
}

/* A unit of all keys from HBM to the work arrays, or back. */
static void move_unit(struct sorter *s, struct sx unit, bool load) {
    struct kernel *k = s->job.k;
    int64_t words = s->tiles * PLACES;
    for (int i = 0; i <= s->n; i++) {
        for (int p = 0; p < s->keys[i].layout.planes; p++) {
            int64_t plane = p * s->keys[i].layout.memory_rows * TPU_LANES + s->keys[i].word;
            struct sx hbm = sx_addi(sx_muli(k, unit, (int32_t)words), (int32_t)plane);
            struct sx vmem = sx_const((int32_t)(s->work[i].row * TPU_LANES + p * words));
            job_run(&s->job, load, sx_const(FLAG_IN), load ? hbm : vmem, load ? vmem : hbm,
                    sx_const((int32_t)words), 0);
            s->job.waiting++;
            job_wait(&s->job);
        }
    }
}

static void sort_units(struct sorter *s) {
    struct kernel *k = s->job.k;
    struct loop units;
    struct sx unit = loop_begin(k, &units, s->units);
    s->first = s->staged ? sx_const(0) : sx_muli(k, unit, (int32_t)s->tiles * TPU_SUBLANES);
    if (s->staged) move_unit(s, unit, true);
    run_network(s);
    if (s->staged) move_unit(s, unit, false);
    loop_end(k, &units, 0);
}

static void write_results(struct sorter *s, const struct tarray *results) {
    struct kernel *k = s->job.k;
    const struct shape *shape = s->instr->operands[0]->shape;
    struct tile_loops loops;
    struct ttile tile;
    for (int i = 0; i < s->n; i++) {
        tiles_begin(k, &results[i].layout, &loops, &tile);
        treg valid = tile_valid(k, &results[i].layout, &tile);
        struct ix row = ix_const(0), index[2];
        for (int d = 0; d < shape->rank; d++)
            if (d != s->dim)
                row = ix_add(k, ix_muli(k, row, (int32_t)shape->dims[d]), tile.index[d]);
        key_place(s, row, shape->rank ? tile.index[s->dim] : ix_const(0), index);
        struct tval value = fetch(&s->job.g.f, &s->keys[i], index, valid);
        tile_store(&s->job.g.f, &results[i], &tile, value);
        tiles_end(k, &loops);
        job_take(&s->job, i, &results[i]);
    }
}

/* ---- memory ---- */

/* Words of an operand: narrow elements take one as they do in registers. */
static const struct shape *words_of(struct sorter *s, int operand, int64_t rows) {
    enum element_type type = operand < s->n ? s->instr->operands[operand]->shape->type : TYPE_S32;
    int64_t dims[2] = {rows, TPU_LANES};
    if (element_type_size(type) < 8) type = TYPE_S32;
    return shape_array(s->job.lower->module->shapes, type, 2, dims);
}

static bool arrays_in_vmem(struct sorter *s, struct tarray *arrays, int64_t rows) {
    int64_t before = s->job.row;
    for (int i = 0; i <= s->n; i++) {
        const struct shape *shape = words_of(s, i, rows);
        if (shape && job_array(&s->job, shape, &arrays[i])) continue;
        s->job.row = before;
        return false;
    }
    return true;
}

static bool make_keys(struct sorter *s) {
    int64_t unit = s->tiles * TPU_SUBLANES;
    bool here = arrays_in_vmem(s, s->keys, s->units * unit);
    for (int i = 0; i <= s->n && !here; i++) {
        const struct shape *shape = words_of(s, i, s->units * unit);
        if (!shape || s->units * unit * TPU_LANES > INT32_MAX ||
            !job_hbm(&s->job, shape, &s->keys[i])) {
            s->job.g.why = "a sort of this size is not supported on TPU";
            return false;
        }
    }
    for (int i = 0; i <= s->n; i++)
        s->work[i] = s->keys[i];
    s->staged = !here && arrays_in_vmem(s, s->work, unit);
    if (here || s->staged) return true;
    for (int i = 0; i <= s->n; i++)
        s->work[i] = s->keys[i];
    return true;
}

static void choose_units(struct sorter *s) {
    int64_t lanes = TPU_LANES, all = PLACES;
    while (lanes < s->size)
        lanes *= 2;
    while (all < s->size)
        all *= 2;
    int64_t groups = (s->rows + TPU_SUBLANES - 1) / TPU_SUBLANES;
    s->folded = s->rows * (all / PLACES) < groups * (lanes / TPU_LANES);
    s->span = s->folded ? PLACES : TPU_LANES;
    s->tiles = (s->folded ? all : lanes) / s->span;
    /* Of a register with more places than that, those past the network's are sorted apart. */
    s->padded = 2;
    while (s->padded < s->size)
        s->padded *= 2;
    s->units = s->folded ? s->rows : groups;
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
    choose_units(&s);
    if (make_keys(&s)) {
        for (int i = 0; i < s.n; i++)
            job_result(&s.job, i, &results[i]);
        job_stage(&s.job, instr, 0);
        load_keys(&s);
        sort_units(&s);
        write_results(&s, results);
    }
    return job_close(&s.job);
}
