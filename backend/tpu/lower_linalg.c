/* Cholesky factors and triangular systems, matrix by matrix, by operations on whole rows: a row of
 * a matrix is a row of memory for each lane tile. */
#include "backend/tpu/lower.h"

struct matrices {
    struct job job;
    const struct hlo_instr *instr;
    int rank;
    struct loop loops[SHAPE_MAX_RANK];
    struct ix batch[SHAPE_MAX_RANK]; /* of the matrix that is worked on */
    struct tarray work;
    struct tarray result;
    bool is_complex;
};

static struct tval conjugate(struct matrices *m, struct tval v) {
    if (m->is_complex) v.v[1] = f_neg(m->job.k, v.v[1]);
    return v;
}

static struct tval combine(struct matrices *m, enum hlo_opcode opcode, struct tval a,
                           struct tval b) {
    struct hlo_instr operand = {.shape = m->instr->shape}, *both[2] = {&operand, &operand};
    struct hlo_instr op = {
        .opcode = opcode, .shape = m->instr->shape, .noperands = 2, .operands = both};
    return element_value(m->job.k, &op, (struct tval[]){a, b});
}

/* Operand element (i, j) of the matrix that is worked on. */
static struct tval operand_at(struct matrices *m, int operand, struct ix i, struct ix j,
                              treg active) {
    m->batch[m->rank - 2] = i;
    m->batch[m->rank - 1] = j;
    return value_at(&m->job.g, m->instr->operands[operand], 0, m->batch, active);
}

static struct tval row_at(struct matrices *m, struct sx row, struct sx lane_tile) {
    struct ix index[2] = {ix_scalar(row), ix_lanes(sx_muli(m->job.k, lane_tile, TPU_LANES))};
    return fetch(&m->job.g.f, &m->work, index, 0);
}

static void put_row(struct matrices *m, struct sx row, struct sx lane_tile, struct tval value) {
    struct ix index[2] = {ix_scalar(row), ix_lanes(sx_muli(m->job.k, lane_tile, TPU_LANES))};
    row_store(&m->job.g.f, &m->work, index, 0, value);
}

static struct tval element_at(struct matrices *m, struct sx row, struct sx column) {
    struct ix index[2] = {ix_scalar(row), ix_scalar(column)};
    return fetch(&m->job.g.f, &m->work, index, 0);
}

/* Loops over all matrices; needs work arrays of [rows, columns]. */
static bool begin(struct matrices *m, struct lower *lower, const struct hlo_instr *instr,
                  int64_t rows, int64_t columns) {
    const struct shape *shape = instr->shape;
    int64_t dims[2] = {rows, columns};
    m->instr = instr;
    m->rank = shape->rank;
    m->is_complex = element_type_is_complex(shape->type);
    job_open(&m->job, lower, instr);
    const struct shape *work = shape_array(lower->module->shapes, shape->type, 2, dims);
    if (!work || !job_scratch(&m->job, work, &m->work)) {
        m->job.g.why = "matrices of this size are not supported on TPU";
        return false;
    }
    job_result(&m->job, 0, &m->result);
    job_stage(&m->job, instr, 0);
    for (int d = 0; d < m->rank - 2; d++)
        m->batch[d] = ix_scalar(loop_begin(m->job.k, &m->loops[d], shape->dims[d]));
    return true;
}

static void end(struct matrices *m) {
    for (int d = m->rank - 3; d >= 0; d--)
        loop_end(m->job.k, &m->loops[d], 0);
}

/* A loop counter from `first` up to below `limit`, which the caller has found to be larger. */
static struct sx count_from(struct kernel *k, struct sx first, int64_t limit, int *head) {
    treg counter = mir_reg(k->mir, MIR_S);
    k_move_s(k, counter, sx_reg(k, first));
    *head = until_begin(k);
    return sx_of(counter, 0, limit - 1);
}

static void count_on(struct kernel *k, struct sx counter, treg limit, int head) {
    k_emit(k, (struct mop){
                  .op = TPU_SADD, .d = counter.r, .a = counter.r, .bkind = MIR_B_IMM, .imm = 1});
    until_end(k, head, k_binary(k, TPU_SLTS, counter.r, limit), false);
}

/* Writes the result's tiles that belong to this matrix: value(row, column). */
typedef struct tval cell_function(struct matrices *m, struct ix row, struct ix column, treg active,
                                  treg flag);

static void write_matrix(struct matrices *m, cell_function *cell, treg flag) {
    struct kernel *k = m->job.k;
    const struct tpu_layout *layout = &m->result.layout;
    struct loop groups, tiles;
    struct ttile tile = {.major = sx_const(0)};
    for (int d = 0; d < m->rank - 2; d++)
        tile.major = sx_add(k, sx_muli(k, tile.major, (int32_t)layout->dims[d]), m->batch[d].s);
    tile.group = loop_begin(k, &groups, (layout->rows + TPU_SUBLANES - 1) / TPU_SUBLANES);
    tile.lane_tile = loop_begin(k, &tiles, layout->lane_tiles);
    struct ix row = ix_rows(sx_muli(k, tile.group, TPU_SUBLANES));
    struct ix column = ix_lanes(sx_muli(k, tile.lane_tile, TPU_LANES));
    treg active = m_and(k, ix_within(k, row, 0, (int32_t)layout->rows - 1),
                        ix_within(k, column, 0, (int32_t)layout->lanes - 1));
    int memos = m->job.g.nmemos;
    tile_store(&m->job.g.f, &m->result, &tile, cell(m, row, column, active, flag));
    m->job.g.nmemos = memos;
    loop_end(k, &tiles, 0);
    loop_end(k, &groups, 0);
}

/* Fills the work array: value(row, column). */
static void load_matrix(struct matrices *m, cell_function *cell) {
    struct kernel *k = m->job.k;
    struct tile_loops loops;
    struct ttile tile;
    int memos = m->job.g.nmemos;
    tiles_begin(k, &m->work.layout, &loops, &tile);
    treg valid = tile_valid(k, &m->work.layout, &tile);
    struct tval value = cell(m, tile.index[0], tile.index[1], valid, 0);
    tile_store(&m->job.g.f, &m->work, &tile, value);
    m->job.g.nmemos = memos;
    tiles_end(k, &loops);
}

/* ---- Cholesky: the factor's rows U, with A = U^H U ---- */

static bool is_lower(const struct matrices *m) {
    return instr_bool(m->instr, ATTR_LOWER, false);
}

static struct tval upper_cell(struct matrices *m, struct ix row, struct ix column, treg active,
                              treg flag) {
    (void)flag;
    if (!is_lower(m)) return operand_at(m, 0, row, column, active);
    return conjugate(m, operand_at(m, 0, column, row, active));
}

static struct tval factor_cell(struct matrices *m, struct ix row, struct ix column, treg active,
                               treg flag) {
    struct kernel *k = m->job.k;
    struct ix index[2] = {row, column};
    if (is_lower(m)) index[0] = column, index[1] = row;
    treg inside = k_binary(k, TPU_VLES, ix_reg(k, index[0]), ix_reg(k, index[1]));
    struct tval value = fetch(&m->job.g.f, &m->work, index, active);
    if (is_lower(m)) value = conjugate(m, value);
    treg zero = k_const(k, 0);
    value = element_select(k, inside, value, (struct tval){{zero, zero}});
    treg failed = k_binary(k, TPU_VNEF, flag, flag);
    return element_select(k, failed, (struct tval){{flag, flag}}, value);
}

/* Rows of a group, those that `mask` has, minus row `source` times a factor each. */
static void subtract_rows(struct matrices *m, struct sx group, treg mask, struct sx source,
                          struct tval factors) {
    struct kernel *k = m->job.k;
    struct loop tiles;
    struct ttile tile = {.major = sx_const(0), .group = group};
    tile.lane_tile = loop_begin(k, &tiles, m->work.layout.lane_tiles);
    struct ix index[2] = {ix_rows(sx_muli(k, group, TPU_SUBLANES)),
                          ix_lanes(sx_muli(k, tile.lane_tile, TPU_LANES))};
    struct tval old = fetch(&m->job.g.f, &m->work, index, 0);
    struct tval product = combine(m, OP_MULTIPLY, factors, row_at(m, source, tile.lane_tile));
    struct tval left = combine(m, OP_SUBTRACT, old, product);
    tile_store(&m->job.g.f, &m->work, &tile, element_select(k, mask, left, old));
    loop_end(k, &tiles, 0);
}

/* Loops over the groups of rows that hold rows after `row` (before it); the mask has those. */
struct group_loop {
    int head;
    treg limit, mask;
    struct sx group;
};

static void groups_begin(struct matrices *m, int64_t n, struct sx row, bool after,
                         struct group_loop *loop) {
    struct kernel *k = m->job.k;
    int64_t groups = (n + TPU_SUBLANES - 1) / TPU_SUBLANES;
    struct sx own = sx_div(k, row, TPU_SUBLANES);
    loop->limit = sx_reg(k, after ? sx_const((int32_t)groups) : sx_addi(own, 1));
    loop->group = count_from(k, after ? own : sx_const(0), groups, &loop->head);
    treg place = ix_reg(k, ix_rows(sx_muli(k, loop->group, TPU_SUBLANES)));
    loop->mask = k_binary_s(k, after ? TPU_VGTS : TPU_VLTS, place, sx_reg(k, row));
}

static void groups_end(struct matrices *m, struct group_loop *loop) {
    count_on(m->job.k, loop->group, loop->limit, loop->head);
}

static void factorise(struct matrices *m, int64_t n, treg flag) {
    struct kernel *k = m->job.k;
    struct loop rows, tiles;
    struct sx j = loop_begin(k, &rows, n);
    struct tval pivot = element_at(m, j, j);
    treg root = k_eup(k, TPU_ESQRT, pivot.v[0], 0);
    treg good = f_const_bin(k, TPU_VGTF, pivot.v[0], 0);
    k_move(k, flag, m_not(k, good), k_const(k, 0x7fc00000));
    struct sx tile = loop_begin(k, &tiles, m->work.layout.lane_tiles);
    struct tval row = row_at(m, j, tile);
    for (int p = 0; p < m->work.layout.planes; p++)
        row.v[p] = k_eup(k, TPU_EDIV, row.v[p], root);
    put_row(m, j, tile, row);
    loop_end(k, &tiles, 0);
    struct group_loop below;
    groups_begin(m, n, j, true, &below);
    struct ix column[2] = {ix_scalar(j), ix_rows(sx_muli(k, below.group, TPU_SUBLANES))};
    struct tval factors = conjugate(m, fetch(&m->job.g.f, &m->work, column, 0));
    subtract_rows(m, below.group, below.mask, j, factors);
    groups_end(m, &below);
    loop_end(k, &rows, 0);
}

bool lower_cholesky(struct lower *lower, const struct hlo_instr *instr) {
    struct matrices m = {0};
    int64_t n = instr->shape->rank < 2 ? 0 : instr->shape->dims[instr->shape->rank - 1];
    if (instr->shape->count == 0) return true;
    if (begin(&m, lower, instr, n, n)) {
        treg flag = k_copy(m.job.k, k_const(m.job.k, 0));
        load_matrix(&m, upper_cell);
        factorise(&m, n, flag);
        write_matrix(&m, factor_cell, flag);
        end(&m);
        job_take(&m.job, 0, &m.result);
    }
    return job_close(&m.job);
}

/* ---- triangular systems: M X = B, from the first row or from the last ---- */

static bool is_left(const struct matrices *m) {
    return instr_bool(m->instr, ATTR_LEFT_SIDE, false);
}

static int64_t transposition(const struct matrices *m) {
    return instr_int(m->instr, ATTR_TRANSPOSE_A, ENUM_TRANSPOSE_A_NONE);
}

/* X op(A) = B is op(A)^T X^T = B^T. */
static struct tval system_element(struct matrices *m, struct ix i, struct ix j) {
    bool turned = (transposition(m) != ENUM_TRANSPOSE_A_NONE) != !is_left(m);
    struct ix row = turned ? j : i, column = turned ? i : j;
    int memos = m->job.g.nmemos;
    struct tval value = operand_at(m, 0, row, column, 0);
    m->job.g.nmemos = memos;
    return transposition(m) == ENUM_TRANSPOSE_A_ADJOINT ? conjugate(m, value) : value;
}

static struct tval right_cell(struct matrices *m, struct ix row, struct ix column, treg active,
                              treg flag) {
    (void)flag;
    return is_left(m) ? operand_at(m, 1, row, column, active)
                      : operand_at(m, 1, column, row, active);
}

static struct tval solution_cell(struct matrices *m, struct ix row, struct ix column, treg active,
                                 treg flag) {
    struct ix index[2] = {is_left(m) ? row : column, is_left(m) ? column : row};
    (void)flag;
    return fetch(&m->job.g.f, &m->work, index, active);
}

static void divide_row(struct matrices *m, struct sx row, struct tval by) {
    struct kernel *k = m->job.k;
    struct loop tiles;
    struct sx tile = loop_begin(k, &tiles, m->work.layout.lane_tiles);
    put_row(m, row, tile, combine(m, OP_DIVIDE, row_at(m, row, tile), by));
    loop_end(k, &tiles, 0);
}

static void solve(struct matrices *m, int64_t n) {
    struct kernel *k = m->job.k;
    bool turned = (transposition(m) != ENUM_TRANSPOSE_A_NONE) != !is_left(m);
    bool forward = is_lower(m) != turned;
    struct loop rows;
    struct sx step = loop_begin(k, &rows, n), last = sx_const((int32_t)n - 1);
    struct sx i = forward ? step : sx_sub(k, last, step);
    if (!instr_bool(m->instr, ATTR_UNIT_DIAGONAL, false))
        divide_row(m, i, system_element(m, ix_scalar(i), ix_scalar(i)));
    struct group_loop others;
    groups_begin(m, n, i, forward, &others);
    struct ix group = ix_rows(sx_muli(k, others.group, TPU_SUBLANES));
    struct tval factors = system_element(m, group, ix_scalar(i));
    subtract_rows(m, others.group, others.mask, i, factors);
    groups_end(m, &others);
    loop_end(k, &rows, 0);
}

bool lower_triangular_solve(struct lower *lower, const struct hlo_instr *instr) {
    struct matrices m = {.instr = instr};
    int rank = instr->shape->rank;
    if (instr->shape->count == 0) return true;
    int64_t n = instr->operands[0]->shape->dims[rank - 1];
    int64_t columns = instr->shape->dims[is_left(&m) ? rank - 1 : rank - 2];
    if (begin(&m, lower, instr, n, columns)) {
        load_matrix(&m, right_cell);
        solve(&m, n);
        write_matrix(&m, solution_cell, 0);
        end(&m);
        job_take(&m.job, 0, &m.result);
    }
    return job_close(&m.job);
}
