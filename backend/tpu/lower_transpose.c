/* Transposes, and copies to another layout, that bring another dimension to the lanes: squares of
 * 128 x 128 elements go through the transpose unit. `a` is the dimension that had the lanes, `b`
 * the one that gets them; 8 of b, and of a, are rows of memory of one stride. */
#include "backend/tpu/lower.h"

/* One side of the move: how places of the dimension that is not along its lanes become rows. */
struct side {
    struct tarray array;
    int dim, lane_dim;
    int64_t size;   /* of dim */
    int64_t stride; /* rows from one place to the next of 8 */
    bool is_row; /* dim is the row dimension, whose groups of 8 are whole tiles, or one less high */
};

struct transposer {
    struct job job;
    struct int_list from; /* dimension of the operand, by that of the result */
    int64_t same[SHAPE_MAX_RANK];
    struct side in, out;
    struct sx in_at[SHAPE_MAX_RANK], out_at[SHAPE_MAX_RANK];
};

static int64_t stride_of(const struct tpu_layout *layout, int dim) {
    int64_t stride = layout->row_tiles * layout->lane_tiles * layout->tile_rows;
    if (layout->order[1] == dim) return 1;
    for (int i = 2; layout->order[i] != dim; i++)
        stride *= layout->dims[layout->order[i]];
    return stride;
}

static void find_side(struct side *side, int dim) {
    const struct tpu_layout *layout = &side->array.layout;
    side->dim = dim;
    side->lane_dim = layout->order[0];
    side->size = layout->dims[dim];
    side->stride = stride_of(layout, dim);
    side->is_row = layout->order[1] == dim;
}

static bool find_sides(struct transposer *x, const struct hlo_instr *instr) {
    const struct shape *to = instr->shape;
    struct tpu_layout in, out;
    if ((instr->opcode != OP_TRANSPOSE && instr->opcode != OP_COPY) || to->count == 0 ||
        to->rank < 2)
        return false;
    const struct shape *from = instr->operands[0]->shape;
    if (!tpu_layout_of(&in, from) || !tpu_layout_of(&out, to) || in.packing > 1) return false;
    for (int d = 0; d < to->rank; d++)
        x->same[d] = d;
    x->from = (struct int_list){to->rank, x->same};
    if (instr->opcode == OP_TRANSPOSE) x->from = instr_ints(instr, ATTR_DIMENSIONS);
    return x->from.v[out.order[0]] != in.order[0];
}

/* Row of memory of the places `at`, the lane tile aside, which is `lane_tile`. */
static struct sx memory_row(struct kernel *k, const struct side *side, const struct sx *at,
                            struct sx lane_tile) {
    const struct tpu_layout *layout = &side->array.layout;
    int32_t high = (int32_t)layout->tile_rows;
    struct sx row = at[layout->order[1]], major = sx_const(0);
    for (int i = layout->rank - 1; i >= 2; i--)
        major = sx_add(k, sx_muli(k, major, (int32_t)layout->dims[layout->order[i]]),
                       at[layout->order[i]]);
    struct sx tile = sx_add(k, sx_muli(k, major, (int32_t)layout->row_tiles), sx_div(k, row, high));
    tile = sx_add(k, sx_muli(k, tile, (int32_t)layout->lane_tiles), lane_tile);
    struct sx at_row = sx_add(k, sx_muli(k, tile, high), sx_mod(k, row, high));
    return sx_addi(at_row, (int32_t)side->array.row);
}

static treg sublane_is(struct kernel *k, int s) {
    return k_binary_i(k, TPU_VEQ, k_sublane(k), s);
}

/* Up to 8 places from `first` on as the sublanes. */
static treg load_group(struct transposer *x, int plane, struct sx first, int places,
                       struct sx lane_tile) {
    struct kernel *k = x->job.k;
    struct side *side = &x->in;
    int32_t shift = (int32_t)(plane * side->array.layout.memory_rows);
    x->in_at[side->dim] = first;
    struct sx row = sx_addi(memory_row(k, side, x->in_at, lane_tile), shift);
    if (side->is_row || places == TPU_SUBLANES)
        return k_load(k, row, MIR_STRIDE_IMM, sx_const((int32_t)side->stride), side->array.tag);
    treg all = 0;
    for (int s = 0; s < places; s++) {
        struct sx at = sx_addi(row, (int32_t)(s * side->stride));
        treg one = k_load(k, at, MIR_STRIDE_0, sx_const(0), side->array.tag);
        all = all ? k_select(k, sublane_is(k, s), one, all) : one;
    }
    return all;
}

static void store_group(struct transposer *x, int plane, struct sx first, int places,
                        struct sx lane_tile, treg value) {
    struct kernel *k = x->job.k;
    struct side *side = &x->out;
    const struct tpu_layout *layout = &side->array.layout;
    int32_t shift = (int32_t)(plane * layout->memory_rows);
    x->out_at[side->dim] = first;
    struct sx row = sx_addi(memory_row(k, side, x->out_at, lane_tile), shift);
    if (side->is_row) {
        treg own = layout->tile_rows < TPU_SUBLANES
                       ? k_binary_i(k, TPU_VLTS, k_sublane(k), layout->tile_rows)
                       : 0;
        k_store(k, value, row, own, side->array.tag);
        return;
    }
    if (places == TPU_SUBLANES) {
        k_store_stride(k, value, row, sx_const((int32_t)side->stride), side->array.tag);
        return;
    }
    for (int s = 0; s < places; s++) {
        struct sx at = sx_addi(row, (int32_t)(s * side->stride) - s);
        k_store(k, value, at, sublane_is(k, s), side->array.tag);
    }
}

static int at_most(int64_t places, int most) {
    return places < most ? (int)places : most;
}

/* A square, or what there is of one: `b` places along the rows pushed, `a` along those popped. */
static void turn_square(struct transposer *x, struct sx b_tile, int b, struct sx a_tile, int a) {
    struct kernel *k = x->job.k;
    struct sx b_first = sx_muli(k, b_tile, TPU_LANES), a_first = sx_muli(k, a_tile, TPU_LANES);
    int results = (a + TPU_SUBLANES - 1) / TPU_SUBLANES;
    for (int p = 0; p < x->in.array.layout.planes; p++) {
        for (int i = 0; i < b; i += TPU_SUBLANES) {
            treg rows = load_group(x, p, sx_addi(b_first, i), at_most(b - i, TPU_SUBLANES), a_tile);
            bool last = i + TPU_SUBLANES >= b;
            k_turn_push(k, rows, last, results);
        }
        for (int i = 0; i < a; i += TPU_SUBLANES)
            store_group(x, p, sx_addi(a_first, i), at_most(a - i, TPU_SUBLANES), b_tile,
                        k_turn_pop(k));
    }
}

/* Whole tiles of one side in a loop, then what is left. */
static void over_a(struct transposer *x, struct sx b_tile, int b) {
    struct kernel *k = x->job.k;
    int64_t whole = x->out.size / TPU_LANES, rest = x->out.size % TPU_LANES;
    struct loop loop;
    if (whole) {
        struct sx a_tile = loop_begin(k, &loop, whole);
        turn_square(x, b_tile, b, a_tile, TPU_LANES);
        loop_end(k, &loop, 0);
    }
    if (rest) turn_square(x, b_tile, b, sx_const((int32_t)whole), (int)rest);
}

static void over_b(struct transposer *x) {
    struct kernel *k = x->job.k;
    int64_t whole = x->in.size / TPU_LANES, rest = x->in.size % TPU_LANES;
    struct loop loop;
    if (whole) {
        over_a(x, loop_begin(k, &loop, whole), TPU_LANES);
        loop_end(k, &loop, 0);
    }
    if (rest) over_a(x, sx_const((int32_t)whole), (int)rest);
}

/* The other dimensions, one place at a time. */
static void over_others(struct transposer *x, int out_dim) {
    struct kernel *k = x->job.k;
    struct loop loop;
    if (out_dim == x->out.array.layout.rank) {
        over_b(x);
        return;
    }
    if (out_dim == x->out.dim || out_dim == x->out.lane_dim) {
        over_others(x, out_dim + 1);
        return;
    }
    struct sx at = loop_begin(k, &loop, x->out.array.layout.dims[out_dim]);
    x->out_at[out_dim] = x->in_at[x->from.v[out_dim]] = at;
    over_others(x, out_dim + 1);
    loop_end(k, &loop, 0);
}

/* ---- what does not fit ---- */

/* Matrices of whole tiles, in the same order on both sides, that are transposed each. */
static bool turns_matrices(const struct transposer *x) {
    const struct tpu_layout *in = &x->in.array.layout, *out = &x->out.array.layout;
    if (out->rows % TPU_LANES || in->rows % TPU_LANES || x->in.array.in_vmem ||
        x->out.array.in_vmem)
        return false;
    for (int i = 0; i < in->rank; i++)
        if (x->from.v[out->order[i]] != in->order[i < 2 ? 1 - i : i]) return false;
    return true;
}

/* Large matrices pass through VMEM in strips: 128 rows of the operand become a column of tiles of
 * the result. */
static bool turn_strips(struct transposer *x) {
    struct kernel *k = x->job.k;
    struct tarray in = x->in.array, out = x->out.array;
    const int32_t tile = TPU_SUBLANES * TPU_LANES;
    int64_t a = out.layout.rows, b = in.layout.rows, strip = TPU_LANES * in.layout.lane_tiles;
    if (!turns_matrices(x)) return false;
    x->in.array.row = job_rows(&x->job, strip);
    x->out.array.row = job_rows(&x->job, a);
    if (x->in.array.row < 0 || x->out.array.row < 0) return false;
    x->in.array.tag = k_tag(k);
    x->out.array.tag = k_tag(k);
    x->out.array.layout.lane_tiles = 1; /* of the strip */
    x->in.array.layout.planes = 1;
    find_side(&x->in, in.layout.order[1]);
    find_side(&x->out, out.layout.order[1]);
    for (int i = 0; i < in.layout.rank; i++)
        x->in_at[i] = x->out_at[i] = sx_const(0);
    struct tpu_dma column = {.from = TPU_VMEM,
                             .to = TPU_HBM,
                             .length = (uint32_t)tile,
                             .count = {(uint32_t)(a / TPU_SUBLANES), 1, 1},
                             .source_stride = {tile},
                             .target_stride = {(int32_t)out.layout.lane_tiles * tile}};
    job_describe(&x->job, SMEM_CHUNK_C, FLAG_OUT, &column);
    struct loop matrices, loop;
    int32_t words = (int32_t)strip * TPU_LANES;
    struct sx matrix = loop_begin(k, &matrices, in.layout.majors * in.layout.planes);
    struct sx origin = sx_muli(k, matrix, (int32_t)(a * b));
    struct sx t = loop_begin(k, &loop, b / TPU_LANES);
    struct sx from = sx_addi(sx_add(k, origin, sx_muli(k, t, words)), (int32_t)in.word);
    job_run(&x->job, true, sx_const(FLAG_IN), from, sx_const((int32_t)x->in.array.row * TPU_LANES),
            sx_const(words), 0);
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = FLAG_IN, .imm = 1});
    over_a(x, sx_const(0), TPU_LANES);
    job_start(&x->job, SMEM_CHUNK_C, sx_const(0), sx_const((int32_t)x->out.array.row * TPU_LANES),
              sx_addi(sx_add(k, origin, sx_muli(k, t, tile)), (int32_t)out.word), 0);
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = FLAG_OUT, .imm = 1});
    loop_end(k, &loop, 0);
    loop_end(k, &matrices, 0);
    return true;
}

bool lower_transpose(struct lower *lower, const struct hlo_instr *instr, bool *taken) {
    struct transposer x = {0};
    *taken = find_sides(&x, instr) && leaf_array(lower, instr->operands[0], 0, &x.in.array) &&
             leaf_array(lower, instr, 0, &x.out.array);
    if (!*taken) return true;
    struct tarray in = x.in.array, out = x.out.array;
    job_open(&x.job, lower, instr);
    job_bring(&x.job, &x.in.array);
    job_result(&x.job, 0, &x.out.array);
    if (!x.in.array.in_vmem || !x.out.array.in_vmem) {
        arena_free(x.job.arena);
        job_open(&x.job, lower, instr);
        x.in.array = in;
        x.out.array = out;
        *taken = turn_strips(&x);
        if (*taken) return job_close(&x.job);
        arena_free(x.job.arena);
        return true;
    }
    int a = x.in.array.layout.order[0], b = (int)x.from.v[x.out.array.layout.order[0]];
    find_side(&x.in, b);
    for (int d = 0; d < x.out.array.layout.rank; d++)
        if (x.from.v[d] == a) find_side(&x.out, d);
    job_wait(&x.job);
    over_others(&x, 0);
    job_take(&x.job, 0, &x.out.array);
    return job_close(&x.job);
}
