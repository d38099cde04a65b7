/* Reductions of short rows with all that is fused to them: ROW_BLOCK rows at a time, column after
 * column, so that vectors go across the rows. What a row has one of is kept in an array of the
 * block. */
#include <string.h>

#include "backend/cpu/column_sums.h"
#include "backend/cpu/row_emit.h"

/* A value of each row, from the stage on in which it is known. */
struct row_value {
    const struct row_step *step;
    LLVMValueRef *arrays; /* by leaf */
};

struct block {
    struct rows *r;
    LLVMValueRef first, width; /* of its rows */
    struct row_value *values;
    int nvalues;
};

static bool is_row_value(const struct rows *r, const struct row_step *step) {
    return !r->plan->info || fusion_level_of(r->plan->info, step->instr) == FUSION_LEVEL_ROW;
}

static const struct shape *leaf_array(struct cpu_gen *g, const struct hlo_instr *instr, int leaf) {
    return shape_array(g->hlo->shapes, shape_leaf(instr->shape, leaf)->type, 1,
                       (const int64_t[]){ROW_BLOCK});
}

static void list_values(struct block *b) {
    struct cpu_gen *g = b->r->g;
    const struct row_plan *plan = b->r->plan;
    b->values = arena_array(g->arena, (size_t)plan->nsteps + 1, sizeof *b->values);
    for (int i = 0; i < plan->nsteps; i++) {
        const struct hlo_instr *instr = plan->steps[i].instr;
        if (!is_row_value(b->r, &plan->steps[i]) || instr->opcode == OP_GET_TUPLE_ELEMENT) continue;
        struct row_value *v = &b->values[b->nvalues++];
        v->step = &plan->steps[i];
        v->arrays = arena_array(g->arena, (size_t)instr->shape->nleaves, sizeof *v->arrays);
        for (int leaf = 0; leaf < instr->shape->nleaves; leaf++)
            v->arrays[leaf] = gen_alloca(
                g, cpu_memory_type(&g->b, shape_leaf(instr->shape, leaf)->type), ROW_BLOCK);
    }
}

/* Row `at` of the block; values of stages up to `stage` are bound to what the arrays have. */
static LLVMValueRef enter_row(struct block *b, LLVMValueRef at, int stage) {
    struct cpu_gen *g = b->r->g;
    LLVMValueRef row = gen_index_add(g, b->first, at), loaded[GEN_MOST_LEAVES];
    gen_index_bound(g, row, b->r->plan->rows);
    for (int i = 0; i < b->nvalues; i++) {
        const struct row_value *v = &b->values[i];
        if (v->step->stage > stage) continue;
        for (int leaf = 0; leaf < v->step->instr->shape->nleaves; leaf++)
            loaded[leaf] = gen_load(g, leaf_array(g, v->step->instr, leaf), v->arrays[leaf], &at);
        rows_bind_at(g, v->step->instr, row, loaded);
    }
    return row;
}

static LLVMValueRef element_of(struct block *b, LLVMValueRef row, LLVMValueRef column) {
    return gen_index_add(b->r->g, gen_index_mul(b->r->g, row, b->r->plan->columns), column);
}

/* Computes the values of a stage that a row has one of, the reduces' first. */
static void keep_values(struct block *b, int stage, int n, const struct column_sums *sums) {
    struct cpu_gen *g = b->r->g;
    LLVMValueRef values[GEN_MOST_LEAVES], index[SHAPE_MAX_RANK];
    struct cpu_loop loop = gen_loop_begin(g, b->width);
    LLVMValueRef row = enter_row(b, loop.i, stage - 1);
    for (int i = 0; i < n; i++) {
        column_sums_end(g, &sums[i], loop.i, values);
        rows_bind_at(g, sums[i].instr, row, values);
    }
    for (int i = 0; i < b->nvalues; i++) {
        const struct row_value *v = &b->values[i];
        const struct hlo_instr *instr = v->step->instr;
        if (v->step->stage != stage) continue;
        for (int leaf = 0; leaf < instr->shape->nleaves; leaf++) {
            gen_delinear(g, shape_leaf(instr->shape, leaf), row, index);
            gen_store(g, leaf_array(g, instr, leaf), v->arrays[leaf], &loop.i,
                      gen_leaf_element(g, instr, leaf, index));
        }
    }
    if (stage == b->r->plan->nstages) rows_store_at(b->r, true, row);
    gen_loop_end(g, &loop);
}

/* So that sums are loaded and stored less often, where little else happens. */
static int64_t columns_at_once(const struct block *b, int stage) {
    enum { SEVERAL = 4, CHEAP = 4 };
    for (int i = 0; i < b->r->plan->nsteps; i++) {
        const struct row_step *step = &b->r->plan->steps[i];
        if (step->wanted >> (stage - 1) & 1 && step->cost > CHEAP) return 1;
    }
    return b->r->plan->columns < SEVERAL ? 1 : SEVERAL;
}

/* Adds `count` columns, from `first` on, to the sums. */
static void add_columns(struct block *b, int stage, int n, const struct column_sums *sums,
                        LLVMValueRef first, int64_t count) {
    struct cpu_gen *g = b->r->g;
    LLVMValueRef values[GEN_MOST_LEAVES], *linear, **index;
    linear = arena_array(g->arena, (size_t)count, sizeof *linear);
    index = arena_array(g->arena, (size_t)count, sizeof *index);
    struct cpu_loop rows = gen_loop_begin(g, b->width);
    LLVMValueRef row = enter_row(b, rows.i, stage - 1);
    for (int64_t c = 0; c < count; c++) {
        LLVMValueRef column = gen_index_add(g, first, gen_i64(g, c));
        LLVMValueRef place = gen_index_add(g, gen_index_mul(g, column, ROW_BLOCK), rows.i);
        gen_index_bound(g, column, b->r->plan->columns);
        linear[c] = element_of(b, row, column);
        index[c] = arena_array(g->arena, SHAPE_MAX_RANK, sizeof **index);
        rows_use_scratch(b->r, stage - 1, place, linear[c]);
    }
    for (int i = 0; i < n; i++) {
        for (int64_t c = 0; c < count; c++)
            gen_delinear(g, sums[i].instr->operands[0]->shape, linear[c], index[c]);
        column_sums_add(g, &sums[i], rows.i, (int)count, index, values);
    }
    gen_loop_end(g, &rows);
}

static void emit_stage(struct block *b, int stage) {
    struct cpu_gen *g = b->r->g;
    const struct row_plan *plan = b->r->plan;
    struct column_sums *sums = arena_array(g->arena, (size_t)plan->nsteps, sizeof *sums);
    int n = 0;
    for (int i = 0; i < plan->nsteps; i++) {
        if (plan->steps[i].instr->opcode != OP_REDUCE || plan->steps[i].stage != stage) continue;
        column_sums_init(g, &sums[n], plan->steps[i].instr);
        column_sums_start(g, &sums[n++], b->width);
    }
    int64_t step = columns_at_once(b, stage), whole = plan->columns / step * step;
    struct cpu_loop columns = gen_loop_begin(g, gen_i64(g, whole / step));
    add_columns(b, stage, n, sums, gen_index_mul(g, columns.i, step), step);
    gen_loop_end(g, &columns);
    if (plan->columns > whole)
        add_columns(b, stage, n, sums, gen_i64(g, whole), plan->columns - whole);
    keep_values(b, stage, n, sums);
}

static void emit_outputs(struct block *b) {
    struct cpu_gen *g = b->r->g;
    const struct row_plan *plan = b->r->plan;
    struct cpu_loop columns = gen_loop_begin(g, gen_i64(g, plan->columns));
    LLVMValueRef start = gen_index_mul(g, columns.i, ROW_BLOCK);
    struct cpu_loop rows = gen_loop_begin(g, b->width);
    LLVMValueRef row = enter_row(b, rows.i, plan->nstages);
    LLVMValueRef linear = element_of(b, row, columns.i);
    rows_use_scratch(b->r, plan->nstages, gen_index_add(g, start, rows.i), linear);
    rows_store_at(b->r, false, linear);
    gen_loop_end(g, &rows);
    gen_loop_end(g, &columns);
}

void short_rows_emit(struct rows *r) {
    struct cpu_gen *g = r->g;
    const struct row_plan *plan = r->plan;
    struct block b = {.r = r};
    bool full = false;
    list_values(&b);
    struct cpu_loop units = gen_range_begin(g, r->k->begin, r->k->end);
    gen_index_bound(g, units.i, (plan->rows + ROW_BLOCK - 1) / ROW_BLOCK);
    b.first = gen_index_mul(g, units.i, ROW_BLOCK);
    b.width = gen_i64(g, ROW_BLOCK);
    if (plan->rows % ROW_BLOCK != 0) {
        LLVMBuilderRef l = g->b.builder;
        LLVMValueRef rest = LLVMBuildSub(l, gen_i64(g, plan->rows), b.first, "");
        LLVMValueRef fewer = LLVMBuildICmp(l, LLVMIntSLT, rest, b.width, "");
        b.width = LLVMBuildSelect(l, fewer, rest, b.width, "");
    }
    for (int stage = 1; stage <= plan->nstages; stage++)
        emit_stage(&b, stage);
    for (int i = 0; i < r->noutputs; i++)
        full |= !r->outputs[i].row;
    if (full) emit_outputs(&b);
    gen_loop_end(g, &units);
}
