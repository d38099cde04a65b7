/* Kernels of reductions. Where the reduced dims are the last ones: row after row, with everything
 * fused before and after in the same pass. Where the last dim stays: blocks of columns, with the
 * sums of a block in registers or in cache. Else one element after the other. */
#include "backend/cpu/column_sums.h"
#include "backend/cpu/emit.h"
#include "backend/cpu/lowering.h"
#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/pick_reducer.h"
#include "backend/cpu/row_emit.h"
#include "ir/literal.h"

#include <string.h>

enum {
    FEW = 4,          /* columns that each have variables of their own */
    ROWS_AT_ONCE = 8, /* of a block of columns */
    PICK_LANES = 64   /* picks of a row at once */
};

/* ---- where the last dim stays ---- */

static bool is_reduced(const struct hlo_instr *reduce, int dim) {
    return int_list_has(instr_ints(reduce, ATTR_DIMENSIONS), dim);
}

static bool keeps_last(const struct hlo_instr *reduce) {
    const struct shape *from = reduce->operands[0]->shape;
    return from->rank > 0 && !is_reduced(reduce, gen_inner_dim(from)) &&
           from->dims[gen_inner_dim(from)] > 1;
}

/* Of rows that are added up in one block of columns, and of such blocks side by side. */
static int64_t added_at_once(const struct row_plan *plan) {
    int64_t columns = plan->kept / plan->added;
    return COLUMN_BLOCK / columns;
}

static int64_t added_blocks(const struct row_plan *plan) {
    return (plan->added + added_at_once(plan) - 1) / added_at_once(plan);
}

int64_t row_kernel_units(const struct hlo_instr *instr) {
    struct arena *arena = arena_new();
    const struct row_plan *plan = row_plan_new(arena, instr);
    int64_t units = 1;
    if (plan && plan->trailing)
        units = (plan->rows + plan->block - 1) / plan->block;
    else if (plan && keeps_last(plan->hero))
        units = plan->rows / plan->kept * column_blocks(plan->kept);
    else if (plan)
        units = plan->added ? plan->rows / plan->added * added_blocks(plan) : plan->rows;
    arena_free(arena);
    return units;
}

int64_t row_kernel_scratch(const struct hlo_instr *instr) {
    struct arena *arena = arena_new();
    const struct row_plan *plan = row_plan_new(arena, instr);
    int64_t scratch = plan ? plan->scratch : 0;
    arena_free(arena);
    return scratch;
}

/* ---- the parts ---- */

static void list_outputs(struct rows *r) {
    r->outputs = arena_array(r->g->arena, (size_t)r->k->nout + 1, sizeof *r->outputs);
    int count = r->plan->info ? r->plan->info->noutputs : 1;
    for (int i = 0; i < count; i++) {
        const struct hlo_instr *instr = r->plan->info ? r->plan->info->outputs[i] : r->k->instr;
        bool row = !r->plan->info || fusion_level_of(r->plan->info, instr) == FUSION_LEVEL_ROW;
        for (int leaf = 0; leaf < instr->shape->nleaves; leaf++, r->noutputs++)
            r->outputs[r->noutputs] = (struct output){instr, leaf, shape_leaf(instr->shape, leaf),
                                                      r->k->out[r->noutputs], row};
    }
}

void rows_store_at(struct rows *r, bool row, LLVMValueRef linear) {
    LLVMValueRef *values = arena_array(r->g->arena, (size_t)r->noutputs + 1, sizeof *values);
    LLVMValueRef index[SHAPE_MAX_RANK];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < r->noutputs; i++) {
            const struct output *o = &r->outputs[i];
            if (o->row != row) continue;
            gen_delinear(r->g, o->shape, linear, index);
            if (pass == 0)
                values[i] = gen_leaf_element(r->g, o->instr, o->leaf, index);
            else
                gen_store(r->g, o->shape, o->pointer, index, values[i]);
        }
}

void rows_bind_at(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef linear,
                  const LLVMValueRef *values) {
    LLVMValueRef index[SHAPE_MAX_RANK];
    gen_delinear(g, shape_leaf(instr->shape, 0), linear, index);
    for (int leaf = 0; leaf < instr->shape->nleaves; leaf++)
        gen_bind_leaf(g, instr, leaf, index, values[leaf]);
}

/* The values a row has one of, as early as they are known. */
static void compute_row_values(struct rows *r, int stage, LLVMValueRef row) {
    LLVMValueRef index[SHAPE_MAX_RANK];
    for (int i = 0; r->plan->info && i < r->plan->nsteps; i++) {
        const struct row_step *step = &r->plan->steps[i];
        if (step->stage != stage || !shape_is_array(step->instr->shape)) continue;
        if (fusion_level_of(r->plan->info, step->instr) != FUSION_LEVEL_ROW) continue;
        gen_delinear(r->g, step->instr->shape, row, index);
        gen_element(r->g, step->instr, index);
    }
}

/* ---- rows ---- */

static LLVMValueRef scratch_of(struct rows *r, const struct row_step *step) {
    LLVMValueRef pointer = gen_offset(r->g, r->k->scratch, step->offset);
    gen_part_of(r->g, pointer, r->k->scratch);
    return pointer;
}

/* In the loop along the row that `loop` numbers: values kept by earlier loops are loaded, those
 * to be kept are stored. */
void rows_use_scratch(struct rows *r, int loop, LLVMValueRef place, LLVMValueRef linear) {
    struct cpu_gen *g = r->g;
    LLVMValueRef index[SHAPE_MAX_RANK];
    for (int i = 0; i < r->plan->nsteps; i++) {
        const struct row_step *step = &r->plan->steps[i];
        if (!step->spill || !(step->wanted >> loop & 1)) continue;
        int64_t dims[1] = {r->plan->columns * r->plan->block};
        const struct shape *shape = shape_array(g->hlo->shapes, step->instr->shape->type, 1, dims);
        gen_delinear(g, step->instr->shape, linear, index);
        if (step->first == loop)
            gen_store(g, shape, scratch_of(r, step), &place, gen_element(g, step->instr, index));
        else
            gen_bind_element(g, step->instr, index,
                             gen_load(g, shape, scratch_of(r, step), &place));
    }
}

/* Where the parts of a loop along the row end: vectors beside those that a loop takes at once get a
 * loop that takes one at a time, and the elements beside those another. */
enum { MOST_PARTS = 3, AT_ONCE = 32, LANES = 8 };

static int row_parts(const struct rows *r, int64_t *ends) {
    int64_t columns = r->plan->period, rest = columns % AT_ONCE;
    int n = 0;
    if (columns > AT_ONCE && rest >= LANES) ends[n++] = columns - rest;
    bool apart = n > 0 || columns < 2 * LANES;
    if (apart && columns > LANES && columns % LANES != 0) ends[n++] = columns - columns % LANES;
    ends[n++] = columns;
    return n;
}

/* Around the parts: a loop over the periods of a row of several. Returns where one begins. */
static LLVMValueRef begin_periods(struct rows *r, struct cpu_loop *periods) {
    periods->body = NULL;
    if (r->plan->period == r->plan->columns) return gen_i64(r->g, 0);
    *periods = gen_loop_begin(r->g, gen_i64(r->g, r->plan->columns / r->plan->period));
    return gen_index_mul(r->g, periods->i, r->plan->period);
}

static void end_periods(struct rows *r, struct cpu_loop *periods) {
    if (periods->body) gen_loop_end(r->g, periods);
}

static void end_row_part(struct cpu_gen *g, struct cpu_loop *loop, int64_t size) {
    gen_loop_end(g, loop);
    if (size < LANES)
        gen_loop_vectors(g, loop, 1, 0);
    else if (size < AT_ONCE)
        gen_loop_vectors(g, loop, 0, 1);
}

/* One loop along the row for all reduces of a stage. */
static void emit_stage(struct rows *r, int stage, LLVMValueRef row) {
    struct cpu_gen *g = r->g;
    int n = 0;
    struct cpu_reducer *reducers = arena_array(g->arena, (size_t)r->plan->nsteps, sizeof *reducers);
    const struct hlo_instr **reduces =
        arena_array(g->arena, (size_t)r->plan->nsteps, sizeof *reduces);
    LLVMValueRef **slots = arena_array(g->arena, (size_t)r->plan->nsteps, sizeof *slots);
    LLVMValueRef values[GEN_MOST_LEAVES], index[SHAPE_MAX_RANK];
    for (int i = 0; i < r->plan->nsteps; i++) {
        const struct row_step *step = &r->plan->steps[i];
        if (step->instr->opcode != OP_REDUCE || step->stage != stage) continue;
        gen_reducer_init(step->instr, &reducers[n]);
        gen_reducer_in_parts(&reducers[n]);
        gen_reducer_start(g, step->instr, &reducers[n], values);
        slots[n] = arena_array(g->arena, (size_t)reducers[n].nsums, sizeof **slots);
        gen_reducer_slots(g, &reducers[n], slots[n], values);
        reduces[n++] = step->instr;
    }
    struct cpu_loop periods;
    LLVMValueRef first = gen_index_mul(g, row, r->plan->columns), base = begin_periods(r, &periods);
    int64_t ends[MOST_PARTS], start = 0;
    int parts = row_parts(r, ends);
    for (int part = 0; part < parts; start = ends[part++]) {
        struct cpu_loop loop = gen_range_begin(g, gen_i64(g, start), gen_i64(g, ends[part]));
        LLVMValueRef place = gen_index_add(g, base, loop.i);
        LLVMValueRef linear = gen_index_add(g, first, place);
        rows_use_scratch(r, stage - 1, place, linear);
        for (int i = 0; i < n; i++) {
            gen_delinear(g, reduces[i]->operands[0]->shape, linear, index);
            gen_reducer_fold(g, reduces[i], &reducers[i], slots[i], index);
        }
        end_row_part(g, &loop, ends[part] - start);
    }
    end_periods(r, &periods);
    for (int i = 0; i < n; i++) {
        gen_reducer_load(g, &reducers[i], slots[i], values);
        gen_reducer_end(g, &reducers[i], values);
        rows_bind_at(g, reduces[i], row, values);
    }
}

/* ---- rows of reducers that pick ---- */

/* The one reduce of a stage, where its elements may be picked in any order. */
static const struct hlo_instr *picking_reduce(const struct rows *r, int stage,
                                              enum pick_order *order) {
    const struct hlo_instr *reduce = NULL;
    if (r->plan->columns < 2 * PICK_LANES) return NULL;
    for (int i = 0; i < r->plan->nsteps; i++) {
        const struct row_step *step = &r->plan->steps[i];
        if (step->spill) return NULL;
        if (step->instr->opcode != OP_REDUCE || step->stage != stage) continue;
        if (reduce) return NULL;
        reduce = step->instr;
    }
    *order = reduce ? pick_reducer_order(reduce->called[0]) : PICK_IN_ORDER;
    return *order == PICK_IN_ORDER ? NULL : reduce;
}

/* slots = f(slots, elements from .. to of the row) */
static void pick_in_order(struct rows *r, const struct hlo_instr *reduce,
                          const struct cpu_reducer *reducer, const LLVMValueRef *slots,
                          LLVMValueRef first, int64_t from) {
    struct cpu_gen *g = r->g;
    LLVMValueRef index[SHAPE_MAX_RANK];
    struct cpu_loop loop = gen_range_begin(g, gen_i64(g, from), gen_i64(g, r->plan->columns));
    gen_delinear(g, reduce->operands[0]->shape, gen_index_add(g, first, loop.i), index);
    gen_reducer_fold(g, reduce, reducer, slots, index);
    gen_loop_end(g, &loop);
}

/* As many picks at once as there are lanes, then one of those. */
static void pick_in_lanes(struct rows *r, const struct hlo_instr *reduce,
                          const struct cpu_reducer *reducer, const LLVMValueRef *slots,
                          LLVMValueRef first) {
    struct cpu_gen *g = r->g;
    LLVMValueRef values[GEN_MOST_LEAVES], sums[GEN_MOST_LEAVES], index[SHAPE_MAX_RANK];
    struct column_sums lanes;
    column_sums_init(g, &lanes, reduce);
    column_sums_start(g, &lanes, gen_i64(g, PICK_LANES));
    struct cpu_loop steps = gen_loop_begin(g, gen_i64(g, r->plan->columns / PICK_LANES));
    struct cpu_loop lane = gen_loop_begin(g, gen_i64(g, PICK_LANES));
    LLVMValueRef column = gen_index_add(g, gen_index_mul(g, steps.i, PICK_LANES), lane.i);
    gen_delinear(g, reduce->operands[0]->shape, gen_index_add(g, first, column), index);
    column_sums_add(g, &lanes, lane.i, 1, (LLVMValueRef *[]){index}, values);
    gen_loop_end(g, &lane);
    gen_loop_end(g, &steps);
    lane = gen_loop_begin(g, gen_i64(g, PICK_LANES));
    column_sums_end(g, &lanes, lane.i, values);
    gen_reducer_load(g, reducer, slots, sums);
    LLVMValueRef next[GEN_MOST_LEAVES];
    gen_reducer_step(g, reducer, sums, values, next);
    for (int k = 0; k < reducer->n; k++)
        LLVMBuildStore(g->b.builder, next[k], slots[k]);
    gen_loop_end(g, &lane);
    pick_in_order(r, reduce, reducer, slots, first, r->plan->columns / PICK_LANES * PICK_LANES);
}

/* False where the stage is not of this kind. */
static bool emit_pick(struct rows *r, int stage, LLVMValueRef row) {
    struct cpu_gen *g = r->g;
    enum pick_order order;
    struct cpu_reducer reducer;
    const struct hlo_instr *reduce = picking_reduce(r, stage, &order);
    LLVMValueRef start[GEN_MOST_LEAVES], slots[GEN_MOST_LEAVES], values[GEN_MOST_LEAVES];
    if (!reduce) return false;
    LLVMValueRef first = gen_index_mul(g, row, r->plan->columns);
    gen_reducer_init(reduce, &reducer);
    gen_reducer_start(g, reduce, &reducer, start);
    gen_reducer_slots(g, &reducer, slots, start);
    pick_in_lanes(r, reduce, &reducer, slots, first);
    if (order == PICK_ANY_BUT_NAN) {
        gen_reducer_load(g, &reducer, slots, values);
        LLVMValueRef x = cpu_widen(&g->b, values[0], reducer.element[0]);
        LLVMBasicBlockRef after = gen_guard_begin(g, f_is_nan(&g->b, x));
        for (int k = 0; k < reducer.n; k++)
            LLVMBuildStore(g->b.builder, start[k], slots[k]);
        pick_in_order(r, reduce, &reducer, slots, first, 0);
        gen_guard_end(g, after);
    }
    gen_reducer_load(g, &reducer, slots, values);
    gen_reducer_end(g, &reducer, values);
    rows_bind_at(g, reduce, row, values);
    return true;
}

static bool has_full_outputs(const struct rows *r) {
    for (int i = 0; i < r->noutputs; i++)
        if (!r->outputs[i].row) return true;
    return false;
}

static void store_row(struct rows *r, LLVMValueRef row) {
    struct cpu_gen *g = r->g;
    struct cpu_loop periods;
    LLVMValueRef first = gen_index_mul(g, row, r->plan->columns), base = begin_periods(r, &periods);
    int64_t ends[MOST_PARTS], start = 0;
    int parts = row_parts(r, ends);
    for (int part = 0; part < parts; start = ends[part++]) {
        struct cpu_loop loop = gen_range_begin(g, gen_i64(g, start), gen_i64(g, ends[part]));
        LLVMValueRef place = gen_index_add(g, base, loop.i);
        LLVMValueRef linear = gen_index_add(g, first, place);
        rows_use_scratch(r, r->plan->nstages, place, linear);
        rows_store_at(r, false, linear);
        end_row_part(g, &loop, ends[part] - start);
    }
    end_periods(r, &periods);
}

/* Asks for some of the next row of each operand that is read row by row, at the start of loop `n`
 * after the first: a row that begins a page is nothing that the processor would ask for by itself,
 * and memory would wait while all that follows is computed from caches. As many lines as can be
 * under way at once. */
static void ask_for_next(struct rows *r, int n, LLVMValueRef row) {
    enum { LINE = 64, LINES = 24, LEAST_LINES = 16, LEAST_BYTES = 1 << 18, MOST = 4 };
    struct cpu_gen *g = r->g;
    const struct hlo_instr *instr = r->k->instr;
    int64_t elements = r->plan->rows * r->plan->columns, bytes[MOST];
    LLVMValueRef in[MOST];
    int nin = 0, leaf = 0;
    for (int i = 0; i < instr->noperands; leaf += instr->operands[i++]->shape->nleaves) {
        const struct shape *shape = instr->operands[i]->shape;
        if (!shape_is_array(shape) || shape->count != elements || shape->bytes < LEAST_BYTES)
            continue;
        if (nin == MOST) return;
        bytes[nin] = shape->bytes / r->plan->rows;
        in[nin++] = r->k->in[leaf];
    }
    for (int i = 0; i < nin; i++) {
        if (bytes[i] < LEAST_LINES * LINE) continue;
        LLVMValueRef next = gen_index_mul(g, gen_index_add(g, row, gen_i64(g, 1)), bytes[i]);
        for (int k = (n - 1) * LINES / nin; k < n * LINES / nin && k * LINE < bytes[i]; k++) {
            LLVMValueRef at = gen_index_add(g, next, gen_i64(g, k * LINE));
            /* Behind the last row there may be nothing: no address within the array. */
            at =
                LLVMBuildGEP2(g->b.builder, LLVMInt8TypeInContext(g->b.context), in[i], &at, 1, "");
            matmul_prefetch(&g->b, at, false, MATMUL_NEAR_L1);
        }
    }
}

static void emit_rows(struct rows *r) {
    struct cpu_gen *g = r->g;
    struct cpu_loop rows = gen_range_begin(g, r->k->begin, r->k->end);
    gen_index_bound(g, rows.i, r->plan->rows);
    for (int stage = 1; stage <= r->plan->nstages; stage++) {
        if (stage > 1) ask_for_next(r, stage - 1, rows.i);
        if (!emit_pick(r, stage, rows.i)) emit_stage(r, stage, rows.i);
        compute_row_values(r, stage, rows.i);
    }
    rows_store_at(r, true, rows.i);
    if (has_full_outputs(r)) {
        ask_for_next(r, r->plan->nstages, rows.i);
        store_row(r, rows.i);
    }
    gen_loop_end(g, &rows);
}

/* ---- columns ---- */

/* Adds `count` rows of the block to the sums: those that follow index[] along dim `along`. */
static void add_few_rows(struct rows *r, int n, struct column_sums *sums, const LLVMValueRef *index,
                         int along, int count, LLVMValueRef first, LLVMValueRef width) {
    struct cpu_gen *g = r->g;
    const struct shape *from = r->plan->hero->operands[0]->shape;
    LLVMValueRef values[GEN_MOST_LEAVES], *at[ROWS_AT_ONCE];
    struct cpu_loop loop = gen_loop_begin(g, width);
    int last = gen_inner_dim(from);
    LLVMValueRef column = gen_index_add(g, first, loop.i);
    gen_index_bound(g, column, r->plan->kept);
    for (int i = 0; i < count; i++) {
        at[i] = arena_array(g->arena, SHAPE_MAX_RANK, sizeof *at[i]);
        memcpy(at[i], index, (size_t)from->rank * sizeof *index);
        at[i][along] = gen_index_add(g, index[along], gen_i64(g, i));
        at[i][last] = column;
    }
    for (int i = 0; i < n; i++)
        column_sums_add(g, &sums[i], loop.i, count, at, values);
    gen_loop_end(g, &loop);
}

/* Rows taken at once, so that the sums are loaded and stored less often: fewer where more is fused
 * to them. */
static int rows_at_once(const struct rows *r) {
    enum { SHORT = 12, LONG = 24 };
    int instrs = 0;
    for (int i = 0; i < r->plan->nsteps; i++)
        instrs += r->plan->steps[i].cost > 6 ? 8 : 1;
    return instrs <= SHORT ? ROWS_AT_ONCE : instrs <= LONG ? ROWS_AT_ONCE / 2 : 1;
}

/* Adds row after row of the block to the sums. index[] has the kept dims but the last. */
static void add_rows(struct rows *r, int n, struct column_sums *sums, LLVMValueRef *index,
                     LLVMValueRef first, LLVMValueRef width) {
    struct cpu_gen *g = r->g;
    const struct shape *from = r->plan->hero->operands[0]->shape;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    int nloops = 0, along = -1, step = rows_at_once(r);
    for (int d = 0; d < r->plan->kept_dim; d++)
        if (is_reduced(r->plan->hero, d) && (along < 0 || from->dims[d] > 1)) along = d;
    for (int d = 0; d < r->plan->kept_dim; d++)
        if (d != along && is_reduced(r->plan->hero, d))
            gen_nest_begin(g, 1, &from->dims[d], &loops[nloops++], &index[d]);
    if (along < 0) {
        add_few_rows(r, n, sums, index, 0, 1, first, width);
        return;
    }
    int64_t rows = from->dims[along], whole = rows / step * step;
    if (whole > 0) {
        struct cpu_loop loop = gen_loop_begin(g, gen_i64(g, whole / step));
        index[along] = gen_index_mul(g, loop.i, step);
        add_few_rows(r, n, sums, index, along, step, first, width);
        gen_loop_end(g, &loop);
    }
    index[along] = gen_i64(g, whole);
    if (rows > whole) add_few_rows(r, n, sums, index, along, (int)(rows - whole), first, width);
    gen_nest_end(g, nloops, loops);
}

static void finish_columns(struct rows *r, int n, struct column_sums *sums, LLVMValueRef row,
                           LLVMValueRef width) {
    struct cpu_gen *g = r->g;
    LLVMValueRef values[GEN_MOST_LEAVES];
    struct cpu_loop loop = gen_loop_begin(g, width);
    LLVMValueRef linear = gen_index_add(g, row, loop.i);
    gen_index_bound(g, linear, r->plan->rows);
    for (int i = 0; i < n; i++) {
        column_sums_end(g, &sums[i], loop.i, values);
        rows_bind_at(g, sums[i].instr, linear, values);
    }
    rows_store_at(r, true, linear);
    gen_loop_end(g, &loop);
}

/* The index of unit `outer` in the kept dims but those that are columns. */
static void kept_index(struct cpu_gen *g, const struct row_plan *plan, LLVMValueRef outer,
                       LLVMValueRef *index) {
    const struct shape *from = plan->hero->operands[0]->shape;
    for (int d = from->rank - 1; d >= 0; d--) {
        index[d] = gen_i64(g, 0);
        if (is_reduced(plan->hero, d) || d >= plan->kept_dim) continue;
        index[d] = gen_index_rem(g, outer, from->dims[d]);
        outer = gen_index_div(g, outer, from->dims[d]);
    }
}

static void emit_columns(struct rows *r) {
    struct cpu_gen *g = r->g;
    int64_t columns = r->plan->kept, blocks = column_blocks(columns);
    struct column_sums *sums = arena_array(g->arena, (size_t)r->plan->nsteps, sizeof *sums);
    LLVMValueRef index[SHAPE_MAX_RANK];
    struct cpu_loop units = gen_range_begin(g, r->k->begin, r->k->end);
    gen_index_bound(g, units.i, r->plan->rows / columns * blocks);
    LLVMValueRef outer = gen_index_div(g, units.i, blocks);
    LLVMValueRef first = gen_index_mul(g, gen_index_rem(g, units.i, blocks), COLUMN_BLOCK);
    kept_index(g, r->plan, outer, index);
    LLVMValueRef width = column_width(g, columns, first);
    int n = 0;
    for (int i = 0; i < r->plan->nsteps; i++) {
        if (r->plan->steps[i].instr->opcode != OP_REDUCE) continue;
        column_sums_init(g, &sums[n], r->plan->steps[i].instr);
        column_sums_start(g, &sums[n++], width);
    }
    add_rows(r, n, sums, index, first, width);
    LLVMValueRef row = gen_index_add(g, gen_index_mul(g, outer, columns), first);
    finish_columns(r, n, sums, row, width);
    gen_loop_end(g, &units);
}

/* ---- few columns ---- */

/* A reduce and its sums for each of the few columns, in variables. */
struct few_sums {
    const struct hlo_instr *reduce;
    struct cpu_reducer reducer;
    LLVMValueRef *slots[FEW];
};

static int start_few(struct rows *r, struct few_sums *sums, int64_t columns) {
    struct cpu_gen *g = r->g;
    LLVMValueRef values[GEN_MOST_LEAVES];
    int n = 0;
    for (int i = 0; i < r->plan->nsteps; i++) {
        if (r->plan->steps[i].instr->opcode != OP_REDUCE) continue;
        struct few_sums *s = &sums[n++];
        s->reduce = r->plan->steps[i].instr;
        gen_reducer_init(s->reduce, &s->reducer);
        gen_reducer_in_parts(&s->reducer);
        gen_reducer_start(g, s->reduce, &s->reducer, values);
        for (int64_t c = 0; c < columns; c++) {
            s->slots[c] = arena_array(g->arena, (size_t)s->reducer.nsums, sizeof *s->slots[c]);
            gen_reducer_slots(g, &s->reducer, s->slots[c], values);
        }
    }
    return n;
}

/* All columns in one step, with a vector of steps at once: what they have in common is computed
 * once. */
static void emit_few_columns(struct rows *r) {
    struct cpu_gen *g = r->g;
    const struct hlo_instr *hero = r->plan->hero;
    const struct shape *from = hero->operands[0]->shape;
    int64_t columns = r->plan->kept;
    struct few_sums *sums = arena_array(g->arena, (size_t)r->plan->nsteps, sizeof *sums);
    LLVMValueRef index[SHAPE_MAX_RANK], values[GEN_MOST_LEAVES];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    struct cpu_loop units = gen_range_begin(g, r->k->begin, r->k->end);
    int nloops = 0, n = start_few(r, sums, columns);
    gen_index_bound(g, units.i, r->plan->rows / columns);
    kept_index(g, r->plan, units.i, index);
    for (int d = 0; d < from->rank; d++)
        if (is_reduced(hero, d)) gen_nest_begin(g, 1, &from->dims[d], &loops[nloops++], &index[d]);
    for (int64_t c = 0; c < columns; c++) {
        index[gen_inner_dim(from)] = gen_i64(g, c);
        for (int i = 0; i < n; i++)
            gen_reducer_fold(g, sums[i].reduce, &sums[i].reducer, sums[i].slots[c], index);
    }
    gen_nest_end(g, nloops, loops);
    for (int64_t c = 0; c < columns; c++) {
        LLVMValueRef row = gen_index_mul(g, units.i, columns);
        row = gen_index_add(g, row, gen_i64(g, c));
        for (int i = 0; i < n; i++) {
            gen_reducer_load(g, &sums[i].reducer, sums[i].slots[c], values);
            gen_reducer_end(g, &sums[i].reducer, values);
            rows_bind_at(g, sums[i].reduce, row, values);
        }
        rows_store_at(r, true, row);
    }
    gen_loop_end(g, &units);
}

/* ---- the last dim and others before kept ones ---- */

/* Of row `row` of a block, from the sums of its columns. */
static void add_columns(struct rows *r, const struct column_sums *sums, LLVMValueRef first,
                        LLVMValueRef row) {
    struct cpu_gen *g = r->g;
    LLVMValueRef values[GEN_MOST_LEAVES], total[GEN_MOST_LEAVES];
    LLVMValueRef slots[GEN_MOST_LEAVES], next[GEN_MOST_LEAVES];
    gen_reducer_start(g, sums->instr, &sums->reducer, total);
    gen_reducer_slots(g, &sums->reducer, slots, total);
    struct cpu_loop loop = gen_loop_begin(g, gen_i64(g, r->plan->kept / r->plan->added));
    column_sums_end(g, sums, gen_index_add(g, first, loop.i), values);
    gen_reducer_load(g, &sums->reducer, slots, total);
    gen_reducer_step(g, &sums->reducer, total, values, next);
    for (int k = 0; k < sums->reducer.nsums; k++)
        LLVMBuildStore(g->b.builder, next[k], slots[k]);
    gen_loop_end(g, &loop);
    gen_reducer_load(g, &sums->reducer, slots, values);
    gen_reducer_end(g, &sums->reducer, values);
    rows_bind_at(g, sums->instr, row, values);
}

/* Rows next to each other share a block of columns, which are added up at the end. */
static void emit_added_columns(struct rows *r) {
    struct cpu_gen *g = r->g;
    const struct row_plan *plan = r->plan;
    int64_t most = added_at_once(plan), blocks = added_blocks(plan);
    int64_t columns = plan->kept / plan->added;
    LLVMValueRef index[SHAPE_MAX_RANK];
    struct column_sums *sums = arena_array(g->arena, (size_t)plan->nsteps, sizeof *sums);
    struct cpu_loop units = gen_range_begin(g, r->k->begin, r->k->end);
    int n = 0;
    gen_index_bound(g, units.i, plan->rows / plan->added * blocks);
    LLVMValueRef outer = gen_index_div(g, units.i, blocks);
    LLVMValueRef row = gen_index_mul(g, gen_index_rem(g, units.i, blocks), most);
    LLVMValueRef first = gen_index_mul(g, row, columns);
    LLVMValueRef width = gen_i64(g, plan->kept), count = gen_i64(g, plan->added);
    if (blocks > 1) {
        LLVMValueRef rest = LLVMBuildSub(g->b.builder, count, row, "");
        count = emit_intrinsic(&g->b, "llvm.smin", 2, (LLVMValueRef[]){rest, gen_i64(g, most)});
        width = gen_index_mul(g, count, columns);
    }
    kept_index(g, plan, outer, index);
    for (int i = 0; i < plan->nsteps; i++) {
        if (plan->steps[i].instr->opcode != OP_REDUCE) continue;
        column_sums_init(g, &sums[n], plan->steps[i].instr);
        column_sums_start(g, &sums[n++], width);
    }
    add_rows(r, n, sums, index, first, width);
    struct cpu_loop rows = gen_loop_begin(g, count);
    gen_index_bound(g, rows.i, most);
    LLVMValueRef at = gen_index_mul(g, outer, plan->added);
    at = gen_index_add(g, gen_index_add(g, at, row), rows.i);
    gen_index_bound(g, at, plan->rows);
    for (int i = 0; i < n; i++)
        add_columns(r, &sums[i], gen_index_mul(g, rows.i, columns), at);
    rows_store_at(r, true, at);
    gen_loop_end(g, &rows);
    gen_loop_end(g, &units);
}

/* ---- one by one ---- */

static void emit_elements(struct rows *r) {
    struct cpu_gen *g = r->g;
    struct cpu_loop rows = gen_range_begin(g, r->k->begin, r->k->end);
    gen_index_bound(g, rows.i, r->plan->rows);
    rows_store_at(r, true, rows.i);
    gen_loop_end(g, &rows);
}

void row_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct rows r = {.g = g, .k = k, .plan = row_plan_new(g->arena, k->instr)};
    gen_enter_kernel(g, k);
    list_outputs(&r);
    if (r.plan->trailing && r.plan->block > 1)
        short_rows_emit(&r);
    else if (r.plan->trailing)
        emit_rows(&r);
    else if (keeps_last(r.plan->hero) && r.plan->kept <= FEW)
        emit_few_columns(&r);
    else if (keeps_last(r.plan->hero))
        emit_columns(&r);
    else if (r.plan->added)
        emit_added_columns(&r);
    else
        emit_elements(&r);
}
