/* Scatter: the operand is copied, then window after window is combined with it, in order; a window
 * goes row by row, its lanes at once. */
#include "backend/tpu/lower.h"

enum { MOST_OPERANDS = 16 };

struct scatter {
    struct job job;
    const struct hlo_instr *instr;
    int n; /* operands */
    struct tarray results[MOST_OPERANDS];
    struct int_list window_dims, inserted, map, batching, with;
    int64_t vector; /* index_vector_dim */
    int lane_dim;   /* of the operands; -1: rank 0 */
    struct ix update[SHAPE_MAX_RANK], place[SHAPE_MAX_RANK];
    struct loop loops[2 * SHAPE_MAX_RANK];
    int nloops;
};

static int position(struct int_list list, int64_t value) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] == value) return i;
    return -1;
}

static void init(struct scatter *s, const struct hlo_instr *instr) {
    s->instr = instr;
    s->n = (instr->noperands - 1) / 2;
    s->window_dims = instr_ints(instr, ATTR_UPDATE_WINDOW_DIMS);
    s->inserted = instr_ints(instr, ATTR_INSERTED_WINDOW_DIMS);
    s->map = instr_ints(instr, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
    s->batching = instr_ints(instr, ATTR_INPUT_BATCHING_DIMS);
    s->with = instr_ints(instr, ATTR_SCATTER_INDICES_BATCHING_DIMS);
    s->vector = instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0);
    const struct tpu_layout *layout = &s->results[0].layout;
    s->lane_dim = layout->rank ? layout->order[0] : -1;
}

static const struct hlo_instr *indices_of(const struct scatter *s) {
    return s->instr->operands[s->n];
}

static const struct shape *updates_shape(const struct scatter *s) {
    return s->instr->operands[s->n + 1]->shape;
}

/* The update's dimension that walks along the operand's dimension `d`; -1: none. */
static int window_dim_of(const struct scatter *s, int d) {
    int at = 0;
    for (int i = 0; i <= d; i++) {
        bool gone = position(s->inserted, i) >= 0 || position(s->batching, i) >= 0;
        if (i == d) return gone ? -1 : (int)s->window_dims.v[at];
        at += !gone;
    }
    return -1;
}

static int64_t window_size(const struct scatter *s, int d) {
    int dim = window_dim_of(s, d);
    return dim < 0 ? 1 : updates_shape(s)->dims[dim];
}

/* Loops over the update's dimensions that are not of the window. */
static void loop_over_windows(struct scatter *s) {
    const struct shape *shape = updates_shape(s);
    for (int d = 0; d < shape->rank; d++) {
        if (position(s->window_dims, d) >= 0) continue;
        s->update[d] = ix_scalar(loop_begin(s->job.k, &s->loops[s->nloops++], shape->dims[d]));
    }
}

/* Start of the window in every operand dimension, and the predicate that it fits (0: always). */
static treg find_start(struct scatter *s, struct sx *start) {
    struct kernel *k = s->job.k;
    const struct hlo_instr *indices = indices_of(s);
    const struct shape *operand = s->instr->operands[0]->shape;
    struct ix batch[SHAPE_MAX_RANK];
    int nbatch = 0;
    treg fits = 0;
    for (int d = 0; d < updates_shape(s)->rank; d++)
        if (position(s->window_dims, d) < 0) batch[nbatch++] = s->update[d];
    for (int d = 0; d < operand->rank; d++) {
        int pair = position(s->batching, d);
        start[d] = sx_const(0);
        if (pair >= 0) start[d] = batch[s->with.v[pair] - (s->with.v[pair] > s->vector)].s;
    }
    for (int i = 0; i < s->map.count; i++) {
        int64_t d = s->map.v[i];
        for (int at = 0, b = 0; at < indices->shape->rank; at++)
            s->place[at] = at == s->vector ? ix_const(i) : batch[b++];
        struct tval value = value_at(&s->job.g, indices, 0, s->place, 0);
        treg number = k_to_scalar(k, value_index(k, value, indices->shape->type));
        int32_t most = (int32_t)(operand->dims[d] - window_size(s, (int)d));
        /* Unsigned: a negative start is too large. */
        treg good = k_binary_i(k, TPU_SLEU, number, most);
        fits = fits ? k_binary(k, TPU_PAND, fits, good) : good;
        start[d] = sx_of(number, 0, most);
    }
    return fits;
}

/* One row: the operand's index is scalar but for the lanes. */
static void combine_row(struct scatter *s, const struct ix *index, treg mask) {
    struct tval args[2 * MOST_OPERANDS] = {{{0}}}, results[MOST_OPERANDS];
    for (int i = 0; i < s->n; i++) {
        args[i] = fetch(&s->job.g.f, &s->results[i], index, mask);
        args[s->n + i] = value_at(&s->job.g, s->instr->operands[s->n + 1 + i], 0, s->update, mask);
    }
    value_call(&s->job.g, s->instr->called[0], args, results);
    for (int i = 0; i < s->n; i++)
        row_store(&s->job.g.f, &s->results[i], index, mask, results[i]);
}

/* The lanes of a window that starts in lane `start`, lane tile by lane tile of the operand. */
static void combine_lanes(struct scatter *s, struct ix *index, struct sx start, int update_dim) {
    struct kernel *k = s->job.k;
    const struct tpu_layout *layout = &s->results[0].layout;
    int64_t size = window_size(s, s->lane_dim);
    struct loop loop;
    struct sx tile = loop_begin(k, &loop, layout->rank == 1 ? layout->rows : layout->lane_tiles);
    index[s->lane_dim] = ix_lanes(sx_muli(k, tile, TPU_LANES));
    struct ix offset = ix_add(k, index[s->lane_dim], ix_muli(k, ix_scalar(start), -1));
    treg mask = ix_within(k, offset, 0, (int32_t)size - 1);
    s->update[update_dim] = offset;
    combine_row(s, index, mask);
    loop_end(k, &loop, 0);
}

static void combine_window(struct scatter *s, const struct sx *start) {
    struct kernel *k = s->job.k;
    const struct shape *operand = s->instr->operands[0]->shape;
    struct ix index[SHAPE_MAX_RANK];
    int first = s->nloops;
    for (int d = 0; d < operand->rank; d++) {
        int dim = window_dim_of(s, d);
        index[d] = ix_scalar(start[d]);
        if (dim < 0 || d == s->lane_dim) continue;
        struct sx at = loop_begin(k, &s->loops[s->nloops++], window_size(s, d));
        s->update[dim] = ix_scalar(at);
        index[d] = ix_scalar(sx_add(k, start[d], at));
    }
    int lanes = s->lane_dim < 0 ? -1 : window_dim_of(s, s->lane_dim);
    int memos = s->job.g.nmemos;
    if (lanes >= 0)
        combine_lanes(s, index, start[s->lane_dim], lanes);
    else
        combine_row(s, index, 0);
    s->job.g.nmemos = memos;
    while (s->nloops > first)
        loop_end(k, &s->loops[--s->nloops], 0);
}

bool lower_scatter(struct lower *lower, const struct hlo_instr *instr) {
    struct scatter s = {0};
    s.n = (instr->noperands - 1) / 2;
    if (s.n > MOST_OPERANDS) {
        diag_instr_error(lower->diag, instr,
                         "scatter of more than %d arrays is not supported on TPU", MOST_OPERANDS);
        return false;
    }
    job_open(&s.job, lower, instr);
    for (int i = 0; i < s.n; i++) {
        job_result(&s.job, i, &s.results[i]);
        job_copy(&s.job, instr->operands[i], 0, &s.results[i]);
    }
    init(&s, instr);
    job_stage(&s.job, instr, 0);
    if (instr->shape->bytes && updates_shape(&s)->count) {
        struct sx start[SHAPE_MAX_RANK];
        loop_over_windows(&s);
        int memos = s.job.g.nmemos;
        treg fits = find_start(&s, start);
        int branch = fits ? if_begin(s.job.k, fits, false) : -1;
        combine_window(&s, start);
        if (branch >= 0) if_end(s.job.k, branch);
        s.job.g.nmemos = memos;
        while (s.nloops)
            loop_end(s.job.k, &s.loops[--s.nloops], 0);
    }
    for (int i = 0; i < s.n; i++)
        job_take(&s.job, i, &s.results[i]);
    return job_close(&s.job);
}
