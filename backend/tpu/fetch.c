#include "backend/tpu/fetch.h"

enum { NEVER_ROW = INT32_MAX };

/* ---- numbers of fewer than 32 bits ---- */

static enum tpu_op f8_op(enum element_type type, bool widen) {
    static const struct {
        enum element_type type;
        enum tpu_op narrow, widen;
    } ops[] = {
        {TYPE_F8E3M4, TPU_VF2E3M4, TPU_VE3M42F},
        {TYPE_F8E4M3, TPU_VF2E4M3, TPU_VE4M32F},
        {TYPE_F8E4M3FN, TPU_VF2E4M3FN, TPU_VE4M3FN2F},
        {TYPE_F8E4M3B11FNUZ, TPU_VF2E4M3B11, TPU_VE4M3B112F},
        {TYPE_F8E4M3FNUZ, TPU_VF2E4M3FNUZ, TPU_VE4M3FNUZ2F},
        {TYPE_F8E5M2, TPU_VF2E5M2, TPU_VE5M22F},
        {TYPE_F8E5M2FNUZ, TPU_VF2E5M2FNUZ, TPU_VE5M2FNUZ2F},
        {TYPE_F8E8M0FNU, TPU_VF2E8M0, TPU_VE8M02F},
        {TYPE_F4E2M1FN, TPU_VF2E2M1, TPU_VE2M12F},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].type == type) return widen ? ops[i].widen : ops[i].narrow;
    return TPU_EMPTY;
}

static treg extend(struct kernel *k, treg v, int bits, bool is_signed) {
    if (!is_signed) return k_binary_i(k, TPU_VAND, v, (int32_t)((1u << bits) - 1));
    return k_binary_i(k, TPU_VSAR, k_binary_i(k, TPU_VSHL, v, 32 - bits), 32 - bits);
}

treg bits_to_value(struct kernel *k, enum element_type type, treg bits) {
    int size = element_type_size(type);
    if (size >= 4) return bits;
    if (type == TYPE_BF16) return k_binary_i(k, TPU_VSHL, bits, 16);
    if (type == TYPE_F16) return k_unary(k, TPU_VH2F, bits);
    if (element_type_is_float(type)) return k_unary(k, f8_op(type, true), bits);
    return extend(k, bits, size * 8, element_type_is_signed(type));
}

treg narrow_to_bits(struct kernel *k, enum element_type type, treg value) {
    if (type == TYPE_BF16) return k_unary(k, TPU_VF2BF, value);
    if (type == TYPE_F16) return k_unary(k, TPU_VF2H, value);
    if (element_type_is_float(type) && element_type_size(type) < 4)
        return k_unary(k, f8_op(type, false), value);
    return value;
}

/* ---- rows of memory ---- */

/* A DMA of whole rows, `row` of them further on at its source or target (DMASRC, DMADST), and its
 * end. */
static void move_rows(struct fetcher *f, struct tpu_dma *dma, enum tpu_op op, struct sx row) {
    struct kernel *k = f->k;
    uint32_t words[TPU_DMA_WORDS];
    treg zero = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM});
    dma->flag = (uint8_t)f->flag;
    dma->core = TPU_DMA_LOCAL;
    dma->length = TPU_LANES;
    dma->count[1] = dma->count[2] = 1;
    dma->target_stride[0] = TPU_LANES;
    tpu_dma_encode(dma, words);
    for (int i = 0; i < TPU_DMA_WORDS; i++) {
        treg value =
            k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM, .imm = (int32_t)words[i]});
        k_emit(k, (struct mop){.op = TPU_SST,
                               .d = value,
                               .a = zero,
                               .bkind = MIR_B_IMM,
                               .imm = (int32_t)f->dma_word + i});
    }
    treg at =
        k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM, .imm = (int32_t)f->dma_word});
    treg offset = sx_reg(k, sx_muli(k, row, TPU_LANES));
    k_emit(k, (struct mop){.op = op, .a = at, .b = offset, .bkind = MIR_B_REG});
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = f->flag, .imm = 1});
}

/* Where row `row` of a plane of an array lies in VMEM. */
static struct sx vmem_row(struct kernel *k, const struct tarray *array, int plane, struct sx row) {
    int64_t planes = plane * (array->plane_rows ? array->plane_rows : array->layout.memory_rows);
    row = sx_addi(row, (int32_t)(array->row + planes));
    return array->shift ? sx_add(k, row, sx_of(array->shift, INT32_MIN, INT32_MAX)) : row;
}

/* 8 rows from `row` (of the plane) with a stride in rows; stride 0: one row in all sublanes. */
static treg load_rows(struct fetcher *f, const struct tarray *array, int plane, struct sx row,
                      int32_t stride) {
    struct kernel *k = f->k;
    int32_t shift = (int32_t)(plane * array->layout.memory_rows);
    if (array->in_vmem)
        return k_load(k, vmem_row(k, array, plane, row), MIR_STRIDE_IMM, sx_const(stride),
                      array->tag);
    /* One row passes through VMEM, or 8 of them. */
    struct tpu_dma dma = {.from = TPU_HBM,
                          .to = TPU_VMEM,
                          .source = (uint32_t)(array->word + (int64_t)shift * TPU_LANES),
                          .target = (uint32_t)(f->scratch_row * TPU_LANES),
                          .count = {stride ? TPU_SUBLANES : 1},
                          .source_stride = {stride * TPU_LANES}};
    move_rows(f, &dma, TPU_DMASRC, row);
    return k_load(k, sx_const((int32_t)f->scratch_row), stride ? MIR_STRIDE_1 : MIR_STRIDE_0,
                  sx_const(0), f->scratch_tag);
}

/* The rows of one tile, those that `mask` has. */
static void store_rows(struct fetcher *f, const struct tarray *array, int plane, struct sx row,
                       treg mask, treg bits) {
    struct kernel *k = f->k;
    const struct tpu_layout *layout = &array->layout;
    int32_t shift = (int32_t)(plane * layout->memory_rows);
    if (array->in_vmem) {
        k_store(k, bits, vmem_row(k, array, plane, row), mask, array->tag);
        return;
    }
    int rows = layout->tile_rows < TPU_SUBLANES ? layout->tile_rows : TPU_SUBLANES;
    struct tpu_dma dma = {.from = TPU_VMEM,
                          .to = TPU_HBM,
                          .source = (uint32_t)(f->scratch_row * TPU_LANES),
                          .target = (uint32_t)(array->word + (int64_t)shift * TPU_LANES),
                          .count = {(uint32_t)(rows / layout->packing)},
                          .source_stride = {TPU_LANES}};
    k_store(k, bits, sx_const((int32_t)f->scratch_row), 0, f->scratch_tag);
    move_rows(f, &dma, TPU_DMADST, row);
}

/* ---- where elements lie ---- */

struct place {
    struct ix row;  /* row of elements: what packing joins */
    struct ix base; /* memory row of the tiles' first rows: row 0 of its two-dimensional part */
    struct ix lane; /* within the lane dimension */
    int sublanes;   /* from 0 up: the others have no element */
};

static struct place find_place(struct fetcher *f, const struct tpu_layout *layout,
                               const struct ix *index) {
    struct kernel *k = f->k;
    struct place place = {ix_const(0), ix_const(0), ix_const(0), TPU_SUBLANES};
    for (int d = 0; d < layout->rank; d++) {
        if (!ix_is_affine(index[d]) || index[d].rows < 1 || index[d].lanes) continue;
        int64_t left = layout->dims[d] - index[d].s.low, step = index[d].rows;
        int64_t sublanes = left < 1 ? 1 : (left + step - 1) / step;
        if (sublanes < place.sublanes) place.sublanes = (int)sublanes;
    }
    if (layout->rank == 1) {
        place.row = ix_div(k, index[0], TPU_LANES);
        place.lane = ix_mod(k, index[0], TPU_LANES);
    } else if (layout->rank > 1) {
        struct ix major = ix_const(0);
        place.lane = index[layout->order[0]];
        place.row = index[layout->order[1]];
        for (int i = layout->rank - 1; i >= 2; i--)
            major = ix_add(k, ix_muli(k, major, (int32_t)layout->dims[layout->order[i]]),
                           index[layout->order[i]]);
        int64_t step = layout->row_tiles * layout->lane_tiles * layout->tile_rows / layout->packing;
        place.base = ix_muli(k, major, (int32_t)step);
    }
    return place;
}

/* Memory row, within the plane, of element row `row` in lane tile `lane_tile`. */
static struct ix memory_row(struct kernel *k, const struct tpu_layout *layout,
                            const struct place *place, struct ix row, struct ix lane_tile) {
    if (layout->lane_tiles == 1) return ix_add(k, place->base, ix_div(k, row, layout->packing));
    int32_t sub = layout->tile_rows / layout->packing;
    if (layout->row_tiles == 1) { /* rows past the tile's are none of the array's */
        struct ix within = ix_add(k, ix_muli(k, lane_tile, sub), ix_div(k, row, layout->packing));
        return ix_add(k, place->base, within);
    }
    struct ix tile = ix_muli(k, ix_div(k, row, layout->tile_rows), (int32_t)layout->lane_tiles);
    struct ix in_tile = ix_div(k, ix_mod(k, row, layout->tile_rows), layout->packing);
    tile = ix_muli(k, ix_add(k, tile, lane_tile), sub);
    return ix_add(k, place->base, ix_add(k, tile, in_tile));
}

static treg pick_lanes(struct kernel *k, treg raw, struct ix lane) {
    if (ix_is_affine(lane) && !lane.rows && lane.lanes == 1 && sx_divides(lane.s, TPU_LANES))
        return raw;
    if (ix_is_scalar(lane)) return k_xlu_amount(k, TPU_XBC, raw, lane.s);
    return k_xlu(k, TPU_XPERM, raw, ix_reg(k, lane));
}

/* ---- rows that differ from element to element ---- */

static treg least_of_all(struct kernel *k, treg v) {
    v = k_xlu(k, TPU_XMINS, v, 0);
    for (int by = TPU_SUBLANES / 2; by; by /= 2)
        v = k_binary(k, TPU_VMINS, v, k_binary_i(k, TPU_VROTS, v, by));
    return k_to_scalar(k, v);
}

/* Distinct rows one after the other: the smallest that is left is loaded, and the elements that lie
 * in it take their lanes. */
static void gather_rows(struct fetcher *f, const struct tarray *array, struct ix row,
                        struct ix lane, treg active, treg *raw) {
    struct kernel *k = f->k;
    int32_t last = (int32_t)array->layout.memory_rows - 1;
    treg never = k_const(k, NEVER_ROW), lanes = ix_reg(k, lane);
    treg left = k_copy(k, k_select(k, active, ix_reg(k, ix_clamp(k, row, 0, last)), never));
    treg current = mir_reg(k->mir, MIR_S);
    for (int p = 0; p < array->layout.planes; p++)
        raw[p] = k_const(k, 0);
    k_move_s(k, current, least_of_all(k, left));
    int head = until_begin(k);
    struct sx at = sx_clamp(k, sx_of(current, 0, NEVER_ROW), 0, last);
    treg here = k_binary_s(k, TPU_VEQ, left, current);
    for (int p = 0; p < array->layout.planes; p++)
        k_move(k, raw[p], here, k_xlu(k, TPU_XPERM, load_rows(f, array, p, at, 0), lanes));
    k_move(k, left, here, never);
    k_move_s(k, current, least_of_all(k, left));
    until_end(k, head, k_binary_i(k, TPU_SNE, current, NEVER_ROW), false);
}

/* Rows of which all can be looked at one after the other, at a few cycles each; the least of them
 * is `first` more than the index's scalar, and they are `*count`. Looking for those that occur
 * takes far longer for each, so it is for few out of many only, or for what is in HBM. */
static bool rows_are_near(const struct tarray *array, struct ix row, int32_t *first,
                          int64_t *count) {
    enum { FEW = 48, AS_FAST = 16 /* rows looked at, in the time of one that is looked for */ };
    int64_t last = array->layout.memory_rows - 1, low = row.low, high = row.high;
    if (row.s.r == 0) {
        low = low > 0 ? low : 0;
        high = high < last ? high : last;
    }
    *first = (int32_t)(low - row.s.low);
    *count = high - low - (row.s.high - row.s.low) + 1;
    if (!array->in_vmem || *count < 1) return false;
    int64_t places = (row.rows ? TPU_SUBLANES : 1) * (row.lanes ? TPU_LANES : 1);
    return *count <= FEW || (ix_is_affine(row) && *count <= places * AS_FAST);
}

static void gather_near_rows(struct fetcher *f, const struct tarray *array, struct ix row,
                             struct ix lane, int32_t first, int64_t count, treg *raw) {
    struct kernel *k = f->k;
    int32_t plane = (int32_t)array->layout.memory_rows;
    struct ix beyond = row; /* the scalar */
    beyond.s = sx_const(0);
    struct sx start = sx_addi(row.s, first);
    treg number = ix_reg(k, beyond), lanes = ix_reg(k, lane);
    bool moves =
        !ix_is_affine(lane) || lane.rows || lane.lanes != 1 || !sx_divides(lane.s, TPU_LANES);
    struct loop loop;
    for (int p = 0; p < array->layout.planes; p++)
        raw[p] = k_const(k, 0);
    struct sx i = loop_begin(k, &loop, count);
    struct sx at = sx_clamp(k, sx_add(k, start, i), 0, plane - 1);
    treg here = k_binary_s(k, TPU_VEQ, number, sx_reg(k, sx_addi(i, first)));
    for (int p = 0; p < array->layout.planes; p++) {
        treg v = load_rows(f, array, p, at, 0);
        k_move(k, raw[p], here, moves ? k_xlu(k, TPU_XPERM, v, lanes) : v);
    }
    loop_end(k, &loop, 0);
}

/* ---- fetch ---- */

static bool only_rows(struct ix row) {
    return ix_is_affine(row) && !row.lanes;
}

/* Whether loads of the row stay within the array and the guards around it (in HBM, the array). */
static bool within_memory(const struct fetcher *f, const struct tarray *array, struct ix row) {
    int64_t plane = array->layout.memory_rows;
    int64_t guard = array->guard ? array->guard : f->guard_rows;
    if (!array->in_vmem) return row.low >= 0 && row.high < plane;
    return row.low >= -guard &&
           row.high + (array->layout.planes - 1) * plane < plane * array->layout.planes + guard;
}

static bool aligned_rows(struct ix row) {
    return ix_is_affine(row) && row.rows == 1 && !row.lanes && sx_divides(row.s, TPU_SUBLANES);
}

/* Sublane s gets sublane s / packing; which part of it, `part` says. */
static treg spread_rows(struct kernel *k, treg raw, int packing) {
    treg from = k_binary_i(k, TPU_VSHR, k_sublane(k), packing == 2 ? 1 : 2);
    return k_xlu(k, TPU_XPERMS, raw, from);
}

/* Rows that go along the lanes, and lanes that go along the sublanes: 128 rows through the
 * transpose unit, of whose columns 8 are read. The rows are of one stride in memory, or whole
 * tiles. */
static bool is_turned(const struct fetcher *f, const struct tarray *array,
                      const struct place *place, struct ix row, struct ix lane,
                      struct ix lane_tile) {
    const struct tpu_layout *layout = &array->layout;
    if (!ix_is_affine(lane) || lane.lanes || !ix_is_scalar(lane_tile) || layout->packing > 1)
        return false;
    if (ix_is_affine(row) && !row.rows && row.lanes) return within_memory(f, array, row);
    struct ix element = place->row;
    return ix_is_affine(element) && !element.rows && element.lanes == 1 &&
           layout->tile_rows == TPU_SUBLANES && sx_divides(element.s, TPU_SUBLANES) &&
           ix_is_scalar(place->base) && element.low >= 0 &&
           element.high < layout->row_tiles * TPU_SUBLANES;
}

static void fetch_turned(struct fetcher *f, const struct tarray *array, const struct place *place,
                         struct ix row, struct ix lane, struct ix lane_tile, treg *raw) {
    struct kernel *k = f->k;
    struct sx first = sx_addi(sx_mod(k, lane.s, TPU_LANES), (int32_t)f->turn_row);
    bool strided = ix_is_affine(row) && row.lanes;
    for (int p = 0; p < array->layout.planes; p++) {
        for (int i = 0; i < TPU_TRANSPOSE_MAX; i++) {
            struct ix group = ix_addi(ix_scalar(place->row.s), i * TPU_SUBLANES);
            struct sx at = strided ? sx_addi(row.s, i * TPU_SUBLANES * row.lanes)
                                   : memory_row(k, &array->layout, place, group, lane_tile).s;
            k_turn_push(k, load_rows(f, array, p, at, strided ? row.lanes : 1),
                        i + 1 == TPU_TRANSPOSE_MAX, TPU_TRANSPOSE_MAX);
        }
        k_turn_store(k, sx_const((int32_t)f->turn_row), f->turn_tag);
        raw[p] = k_load(k, first, MIR_STRIDE_IMM, sx_const(lane.rows), f->turn_tag);
    }
}

/* One row a sublane, none of which are 8 apart: 8 rows are loaded, and each sublane takes its own.
 */
static bool fetch_near_rows(struct fetcher *f, const struct tarray *array, struct ix row,
                            struct ix lane, treg *raw) {
    struct kernel *k = f->k;
    int64_t low = row.v_low, high = row.v_high;
    *(row.rows < 0 ? &low : &high) += (int64_t)row.rows * (TPU_SUBLANES - 1);
    struct ix first = ix_addi(ix_scalar(row.s), (int32_t)low);
    if (row.lanes || high - low >= TPU_SUBLANES || !within_memory(f, array, first) ||
        !within_memory(f, array, ix_addi(first, TPU_SUBLANES - 1)))
        return false;
    row.s = sx_const(-(int32_t)low);
    treg from = ix_reg(k, row);
    for (int p = 0; p < array->layout.planes; p++) {
        treg rows = load_rows(f, array, p, first.s, 1);
        raw[p] = pick_lanes(k, k_xlu(k, TPU_XPERMS, rows, from), lane);
    }
    return true;
}

/* A few rows with a stride that would lead the sublanes that have no element out of the memory. */
static bool fetch_few_rows(struct fetcher *f, const struct tarray *array, const struct place *place,
                           struct ix row, struct ix lane, treg *raw) {
    struct kernel *k = f->k;
    int32_t last = (place->sublanes - 1) * row.rows;
    struct ix first = ix_scalar(row.s);
    if (!array->in_vmem || place->sublanes == TPU_SUBLANES || !within_memory(f, array, first) ||
        !within_memory(f, array, ix_addi(first, last)))
        return false;
    for (int p = 0; p < array->layout.planes; p++) {
        treg all = 0;
        for (int s = 0; s < place->sublanes; s++) {
            treg one = load_rows(f, array, p, sx_addi(row.s, s * row.rows), 0);
            treg here = s ? k_binary_i(k, TPU_VEQ, k_sublane(k), s) : 0;
            all = s ? k_select(k, here, one, all) : one;
        }
        raw[p] = pick_lanes(k, all, lane);
    }
    return true;
}

/* Raw words, and the part of each in which the element lies. */
static void fetch_raw(struct fetcher *f, const struct tarray *array, const struct place *place,
                      struct ix lane, struct ix lane_tile, treg active, treg *raw) {
    struct kernel *k = f->k;
    const struct tpu_layout *layout = &array->layout;
    if (layout->packing > 1 && aligned_rows(place->row) && only_rows(place->base)) {
        struct ix first = ix_scalar(place->row.s);
        struct ix row = memory_row(k, layout, place, first, lane_tile);
        if (ix_is_scalar(row) && within_memory(f, array, ix_addi(row, TPU_SUBLANES - 1))) {
            raw[0] = load_rows(f, array, 0, row.s, 1);
            raw[0] = pick_lanes(k, spread_rows(k, raw[0], layout->packing), lane);
            return;
        }
    }
    struct ix row = memory_row(k, layout, place, place->row, lane_tile);
    if (only_rows(row) && within_memory(f, array, row)) {
        for (int p = 0; p < layout->planes; p++)
            raw[p] = pick_lanes(k, load_rows(f, array, p, row.s, row.rows), lane);
        return;
    }
    int32_t first;
    int64_t count;
    if (only_rows(row) && fetch_few_rows(f, array, place, row, lane, raw)) return;
    if (row.by_row && fetch_near_rows(f, array, row, lane, raw)) return;
    if (is_turned(f, array, place, row, lane, lane_tile))
        fetch_turned(f, array, place, row, lane, lane_tile, raw);
    else if (rows_are_near(array, row, &first, &count))
        gather_near_rows(f, array, row, lane, first, count, raw);
    else
        gather_rows(f, array, row, lane, active, raw);
}

/* Lanes that reach over two lane tiles, neither of which the index names alone. */
static bool crosses_tiles(const struct tpu_layout *layout, struct ix lane) {
    return layout->lane_tiles > 1 && ix_is_affine(lane) && !lane.rows &&
           (lane.lanes == 1 || lane.lanes == -1) && !sx_divides(lane.s, TPU_LANES);
}

static void fetch_crossing(struct fetcher *f, const struct tarray *array, const struct place *place,
                           treg active, treg *raw) {
    struct kernel *k = f->k;
    struct sx start = place->lane.s;
    int32_t last = (int32_t)array->layout.lane_tiles - 1;
    treg other[2];
    if (place->lane.lanes < 0) start = sx_addi(start, 1 - TPU_LANES);
    /* Tiles are counted from one before the array, so that all is positive. */
    struct sx tile = sx_addi(sx_div(k, sx_addi(start, TPU_LANES), TPU_LANES), -1);
    if (start.low < -TPU_LANES) tile = sx_clamp(k, tile, 0, last);
    struct sx first = sx_clamp(k, tile, 0, last), second = sx_clamp(k, sx_addi(tile, 1), 0, last);
    fetch_raw(f, array, place, place->lane, ix_scalar(first), active, raw);
    fetch_raw(f, array, place, place->lane, ix_scalar(second), active, other);
    treg bound = sx_reg(k, sx_muli(k, sx_addi(tile, 1), TPU_LANES));
    treg later = k_binary_s(k, TPU_VGES, ix_reg(k, place->lane), bound);
    for (int p = 0; p < array->layout.planes; p++)
        raw[p] = k_select(k, later, other[p], raw[p]);
}

static treg take_part(struct kernel *k, const struct tpu_layout *layout, treg raw, struct ix row) {
    int bits = 32 / layout->packing;
    if (layout->packing == 1) return raw;
    struct ix part = ix_mod(k, row, layout->packing);
    struct ix shift = ix_muli(k, part, bits);
    if (ix_is_scalar(shift) && sx_is_const(shift.s))
        raw = shift.s.c ? k_binary_i(k, TPU_VSHR, raw, shift.s.c) : raw;
    else
        raw = k_binary(k, TPU_VSHR, raw, ix_reg(k, shift));
    return k_binary_i(k, TPU_VAND, raw, (int32_t)((1u << bits) - 1));
}

struct tval fetch(struct fetcher *f, const struct tarray *array, const struct ix *index,
                  treg active) {
    struct kernel *k = f->k;
    const struct tpu_layout *layout = &array->layout;
    struct ix safe[SHAPE_MAX_RANK];
    struct tval value = {{0, 0}};
    for (int d = 0; d < layout->rank; d++) {
        safe[d] = index[d];
        int32_t last = (int32_t)layout->dims[d] - 1;
        if (ix_is_scalar(index[d])) safe[d] = ix_scalar(sx_clamp(k, index[d].s, 0, last));
    }
    struct place place = find_place(f, layout, safe);
    if (crosses_tiles(layout, place.lane)) {
        fetch_crossing(f, array, &place, active, value.v);
    } else {
        struct ix lane = ix_clamp(k, place.lane, INT32_MIN, INT32_MAX);
        struct ix tile = ix_const(0);
        if (layout->lane_tiles > 1) {
            if (!ix_is_affine(lane)) lane = ix_clamp(k, lane, 0, (int32_t)layout->lanes - 1);
            tile = ix_div(k, lane, TPU_LANES);
        }
        fetch_raw(f, array, &place, lane, tile, active, value.v);
    }
    for (int p = 0; p < layout->planes; p++)
        value.v[p] = bits_to_value(k, layout->type, take_part(k, layout, value.v[p], place.row));
    return value;
}

/* ---- tiles ---- */

static struct sx push_loop(struct kernel *k, struct tile_loops *loops, int64_t count) {
    return loop_begin(k, &loops->loops[loops->count++], count);
}

static int64_t groups_of(const struct tpu_layout *layout) {
    return (layout->rows + TPU_SUBLANES - 1) / TPU_SUBLANES;
}

/* The tile at a place of each dimension but the two minor ones, by place in the order. */
static void place_tile(struct kernel *k, const struct tpu_layout *layout, const struct sx *at,
                       struct sx group, struct sx lane_tile, struct ttile *tile) {
    struct sx major = sx_const(0);
    for (int i = layout->rank - 1; i >= 2; i--) {
        int d = layout->order[i];
        tile->index[d] = ix_scalar(at[i]);
        major = sx_add(k, sx_muli(k, major, (int32_t)layout->dims[d]), at[i]);
    }
    struct sx row = sx_muli(k, group, TPU_SUBLANES), lane = sx_muli(k, lane_tile, TPU_LANES);
    if (layout->rank == 1) {
        struct ix index = ix_muli(k, ix_rows(row), TPU_LANES);
        tile->index[0] = ix_add(k, index, ix_lanes(sx_const(0)));
    } else if (layout->rank > 1) {
        tile->index[layout->order[0]] = ix_lanes(lane);
        tile->index[layout->order[1]] = ix_rows(row);
    }
    tile->major = major;
    tile->group = group;
    tile->lane_tile = lane_tile;
}

void tiles_begin(struct kernel *k, const struct tpu_layout *layout, struct tile_loops *loops,
                 struct ttile *tile) {
    struct sx at[SHAPE_MAX_RANK];
    loops->count = 0;
    for (int i = layout->rank - 1; i >= 2; i--)
        at[i] = push_loop(k, loops, layout->dims[layout->order[i]]);
    struct sx group = push_loop(k, loops, groups_of(layout));
    struct sx lane_tile = push_loop(k, loops, layout->lane_tiles);
    place_tile(k, layout, at, group, lane_tile, tile);
}

/* ---- several tiles side by side ---- */

struct tile_walk {
    struct kernel *k;
    const struct tpu_layout *layout;
    tile_step *step;
    void *user;
    int64_t count[SHAPE_MAX_RANK + 2], side[SHAPE_MAX_RANK + 2]; /* by level, outermost first */
    int levels;
    struct sx at[SHAPE_MAX_RANK + 2];
};

static void walk_tiles(struct tile_walk *w, int level) {
    struct loop loop;
    if (level == w->levels) {
        struct sx at[SHAPE_MAX_RANK];
        struct ttile tile;
        for (int n = 0; n < w->levels - 2; n++)
            at[w->layout->rank - 1 - n] = w->at[n];
        place_tile(w->k, w->layout, at, w->at[w->levels - 2], w->at[w->levels - 1], &tile);
        w->step(w->user, &tile);
        return;
    }
    int64_t side = w->side[level];
    struct sx base = sx_muli(w->k, loop_begin(w->k, &loop, w->count[level] / side), (int32_t)side);
    for (int64_t u = 0; u < side; u++) {
        w->at[level] = sx_addi(base, (int32_t)u);
        walk_tiles(w, level + 1);
    }
    loop_end(w->k, &loop, 0);
}

void tiles_each(struct kernel *k, const struct tpu_layout *layout, int side, tile_step *step,
                void *user) {
    struct tile_walk w = {.k = k, .layout = layout, .step = step, .user = user};
    for (int i = layout->rank - 1; i >= 2; i--)
        w.count[w.levels++] = layout->dims[layout->order[i]];
    w.count[w.levels++] = groups_of(layout);
    w.count[w.levels++] = layout->lane_tiles;
    bool inner = true; /* all levels within are done side by side */
    for (int n = w.levels - 1; n >= 0; n--) {
        int64_t most = inner ? side : 1;
        for (w.side[n] = w.count[n] < most ? w.count[n] : most; w.count[n] % w.side[n];)
            w.side[n]--;
        side /= (int)w.side[n];
        inner = w.side[n] == w.count[n];
    }
    walk_tiles(&w, 0);
}

/* Memory row, within a plane, of the tile's first sublane. */
static struct sx tile_row(struct kernel *k, const struct tpu_layout *layout,
                          const struct ttile *tile) {
    int32_t sub = layout->tile_rows / layout->packing;
    int32_t per_tile = layout->tile_rows > TPU_SUBLANES ? layout->tile_rows / TPU_SUBLANES : 1;
    struct sx at = sx_muli(k, tile->major, (int32_t)layout->row_tiles);
    at = sx_add(k, at, sx_div(k, tile->group, per_tile));
    at = sx_add(k, sx_muli(k, at, (int32_t)layout->lane_tiles), tile->lane_tile);
    at = sx_muli(k, at, sub);
    struct sx within = sx_mod(k, tile->group, per_tile);
    return sx_add(k, at, sx_muli(k, within, TPU_SUBLANES / layout->packing));
}

void tiles_end(struct kernel *k, struct tile_loops *loops) {
    while (loops->count)
        loop_end(k, &loops->loops[--loops->count], 0);
}

treg tile_valid(struct kernel *k, const struct tpu_layout *layout, const struct ttile *tile) {
    treg valid = 0;
    if (layout->rank == 0)
        return ix_within(
            k, ix_add(k, ix_lanes(sx_const(0)), ix_muli(k, ix_rows(sx_const(0)), TPU_LANES)), 0, 0);
    for (int d = 0; d < layout->rank; d++)
        valid = m_and(k, valid, ix_within(k, tile->index[d], 0, (int32_t)layout->dims[d] - 1));
    return valid;
}

/* Neighbouring rows of elements into the parts of one row. */
static treg pack_rows(struct kernel *k, treg bits, int packing) {
    treg packed = 0, first = k_binary_i(k, TPU_VSHL, k_sublane(k), packing == 2 ? 1 : 2);
    int width = 32 / packing;
    bits = k_binary_i(k, TPU_VAND, bits, (int32_t)((1u << width) - 1));
    for (int part = 0; part < packing; part++) {
        treg from = part ? k_binary_i(k, TPU_VADD, first, part) : first;
        treg v = k_xlu(k, TPU_XPERMS, bits, from);
        if (part) v = k_binary_i(k, TPU_VSHL, v, part * width);
        packed = packed ? k_binary(k, TPU_VOR, packed, v) : v;
    }
    return packed;
}

/* Mask of the sublanes that belong to this tile; 0: all. */
static treg own_sublanes(struct kernel *k, const struct tpu_layout *layout) {
    int rows = layout->tile_rows < TPU_SUBLANES ? layout->tile_rows : TPU_SUBLANES;
    rows /= layout->packing;
    return rows == TPU_SUBLANES ? 0 : k_binary_i(k, TPU_VLTS, k_sublane(k), rows);
}

void tile_store(struct fetcher *f, const struct tarray *array, const struct ttile *tile,
                struct tval value) {
    struct kernel *k = f->k;
    const struct tpu_layout *layout = &array->layout;
    treg mask = own_sublanes(k, layout);
    struct sx row = tile_row(k, layout, tile);
    for (int p = 0; p < layout->planes; p++) {
        treg bits = narrow_to_bits(k, layout->type, value.v[p]);
        if (layout->packing > 1) bits = pack_rows(k, bits, layout->packing);
        store_rows(f, array, p, row, mask, bits);
    }
}

treg tile_unpack(struct kernel *k, const struct tpu_layout *layout, treg raw) {
    if (layout->packing > 1) raw = spread_rows(k, raw, layout->packing);
    return bits_to_value(k, layout->type, take_part(k, layout, raw, ix_rows(sx_const(0))));
}

treg tile_pack(struct kernel *k, const struct tpu_layout *layout, treg value, treg *mask) {
    treg bits = narrow_to_bits(k, layout->type, value);
    *mask = own_sublanes(k, layout);
    return layout->packing > 1 ? pack_rows(k, bits, layout->packing) : bits;
}

/* ---- single rows ---- */

static treg with_part(struct kernel *k, const struct tpu_layout *layout, treg old, treg bits,
                      struct sx part) {
    int width = 32 / layout->packing;
    int32_t ones = (int32_t)((1u << width) - 1);
    treg shift = sx_reg(k, sx_muli(k, part, width));
    bits = k_binary_s(k, TPU_VSHL, k_binary_i(k, TPU_VAND, bits, ones), shift);
    treg hole = k_binary_s(k, TPU_VSHL, k_const(k, ones), shift);
    return k_binary(k, TPU_VOR, k_binary(k, TPU_VANDN, old, hole), bits);
}

/* Part of a row of HBM: the row passes through VMEM and back. */
static void store_in_hbm(struct fetcher *f, const struct tarray *array, int plane, struct sx row,
                         treg mask, treg bits, struct sx part) {
    struct kernel *k = f->k;
    int64_t shift = plane * array->layout.memory_rows;
    treg old = load_rows(f, array, plane, row, 0);
    if (array->layout.packing > 1) bits = with_part(k, &array->layout, old, bits, part);
    k_store(k, bits, sx_const((int32_t)f->scratch_row), mask, f->scratch_tag);
    struct tpu_dma dma = {.from = TPU_VMEM,
                          .to = TPU_HBM,
                          .source = (uint32_t)(f->scratch_row * TPU_LANES),
                          .target = (uint32_t)(array->word + shift * TPU_LANES),
                          .count = {1}};
    move_rows(f, &dma, TPU_DMADST, row);
}

void row_store(struct fetcher *f, const struct tarray *array, const struct ix *index, treg mask,
               struct tval value) {
    struct kernel *k = f->k;
    const struct tpu_layout *layout = &array->layout;
    struct place place = find_place(f, layout, index);
    struct ix tile = layout->lane_tiles > 1 ? ix_div(k, place.lane, TPU_LANES) : ix_const(0);
    struct sx row = memory_row(k, layout, &place, place.row, tile).s;
    mask = m_and(k, mask, k_binary_i(k, TPU_VEQ, k_sublane(k), 0));
    if (ix_is_scalar(place.lane)) {
        treg lane = sx_reg(k, sx_mod(k, place.lane.s, TPU_LANES));
        mask = m_and(k, mask, k_binary_s(k, TPU_VEQ, k_lane(k), lane));
    }
    for (int p = 0; p < layout->planes; p++) {
        treg bits = narrow_to_bits(k, layout->type, value.v[p]);
        if (!array->in_vmem) {
            struct sx part = sx_mod(k, place.row.s, layout->packing);
            store_in_hbm(f, array, p, row, mask, bits, part);
            continue;
        }
        struct sx at = vmem_row(k, array, p, row);
        if (layout->packing > 1) {
            treg old = k_load(k, at, MIR_STRIDE_0, sx_const(0), array->tag);
            bits = with_part(k, layout, old, bits, sx_mod(k, place.row.s, layout->packing));
        }
        k_store(k, bits, at, mask, array->tag);
    }
}
