/* Products with few columns whose rows are runs of memory, as convolutions with few features have
 * (the last of a network that makes images, the gradient of the first of one that reads them):
 * vectors go along k, and no lane is in vain where a tile's columns would be. Several rows of A
 * share each load of B, whose columns are packed one after the other. */
#include <stdio.h>

#include "backend/cpu/matmul_internal.h"

enum { MOST_COLUMNS = 4, MOST_ROWS_AT_ONCE = 8 };

/* Rows at a time for each number of columns: with their sums, a vector of A and one of each column
 * they fit into 16 registers. */
static const int rows_at_once[MOST_COLUMNS + 1] = {[1] = 8, [2] = 6, [3] = 4, [4] = 2};

bool product_plan_few(struct product_plan *p, const struct cpu_target *target) {
    const struct product_spec *s = &p->spec;
    enum { LEAST_VECTORS = 2, LEAST_GROUPS = 4 };
    if (p->n > MOST_COLUMNS || p->swapped || s->n_cut || s->k.count == 0) return false;
    if (s->stage.when == STAGE_BLOCK || !element_type_is_float(p->type)) return false;
    if (s->stage.when == STAGE_NEVER && (s->k.count == 1 || s->a_type != p->type)) return false;
    int64_t size = element_type_size(p->type), run = s->k.v[s->k.count - 1].size;
    p->lanes = target->vector_bytes / (int)size;
    p->rows = rows_at_once[p->n];
    if (s->k.v[s->k.count - 1].a != 1 || run < LEAST_VECTORS * p->lanes) return false;
    if (p->m < LEAST_GROUPS * p->rows || p->k * p->n * size > target->l2 / 4) return false;
    p->vectors = 1;
    p->method = PRODUCT_FEW;
    return true;
}

/* ---- the function that does it ---- */

struct few {
    struct cpu_builder *b;
    int columns, rows, lanes;
    int size;
    LLVMTypeRef scalar, vector;
    /* The function's parameters: offsets of the rows of A and of the runs of k in them, the columns
     * of B and the sums, column after column. Distances in bytes. */
    LLVMValueRef table, a, taps, ntaps, run, columns_of_b, b_column, m, sums, sums_column;
    LLVMValueRef row[MOST_ROWS_AT_ONCE]; /* at hand */
};

enum { FEW_PARAMETERS = 10 };

/* A vector at an address, or one element of it beside zeros. */
static LLVMValueRef load(struct few *f, LLVMValueRef at, bool one) {
    struct cpu_builder *b = f->b;
    if (!one) return ir_load(b, f->vector, at, f->size);
    LLVMValueRef x = ir_load(b, f->scalar, at, f->size), first = ir_k(b, 0);
    return LLVMBuildInsertElement(b->builder, LLVMConstNull(f->vector), x, first, "");
}

/* sums[row * columns + column] += what [start, limit) of the run gives, whose first element is at
 * x in the rows of A and at y in the columns of B. */
static void add_run(struct few *f, LLVMValueRef x, LLVMValueRef y, LLVMValueRef start,
                    LLVMValueRef limit, bool one, LLVMValueRef *sums) {
    struct cpu_builder *b = f->b;
    LLVMValueRef column[MOST_COLUMNS];
    struct ir_carrying loop =
        ir_carrying_begin(b, start, limit, one ? 1 : f->lanes, f->rows * f->columns, sums);
    LLVMValueRef at = ir_mulk(b, loop.loop.i, f->size);
    LLVMValueRef in_a = ir_add(b, x, at), in_b = ir_at(b, ir_at(b, f->columns_of_b, y), at);
    for (int j = 0; j < f->columns; j++) {
        LLVMValueRef offset = LLVMBuildNSWMul(b->builder, f->b_column, ir_k(b, j), "");
        column[j] = load(f, ir_at(b, in_b, offset), one);
    }
    for (int i = 0; i < f->rows; i++) {
        LLVMValueRef a = load(f, ir_at(b, f->row[i], in_a), one);
        for (int j = 0; j < f->columns; j++) {
            LLVMValueRef *sum = &sums[i * f->columns + j];
            *sum = matmul_multiply_add(b, a, column[j], *sum);
        }
    }
    ir_carrying_end(b, &loop, sums);
}

/* The sums of the rows from i on. */
static void add_rows(struct few *f, LLVMValueRef i) {
    struct cpu_builder *b = f->b;
    LLVMValueRef sums[MOST_ROWS_AT_ONCE * MOST_COLUMNS];
    int count = f->rows * f->columns;
    for (int r = 0; r < f->rows; r++) {
        LLVMValueRef at = ir_at(b, f->table, ir_mulk(b, ir_addk(b, i, r), 8));
        f->row[r] = ir_at(b, f->a, ir_load(b, ir_i64(b), at, 8));
    }
    for (int s = 0; s < count; s++)
        sums[s] = LLVMConstNull(f->vector);
    LLVMValueRef whole = i_and(b, f->run, ir_k(b, -(int64_t)f->lanes));
    struct ir_carrying taps = ir_carrying_begin(b, ir_k(b, 0), f->ntaps, 1, count, sums);
    LLVMValueRef x = ir_load(b, ir_i64(b), ir_at(b, f->taps, ir_mulk(b, taps.loop.i, 8)), 8);
    LLVMValueRef y = LLVMBuildNSWMul(b->builder, taps.loop.i, f->run, "");
    y = ir_mulk(b, y, f->size);
    add_run(f, x, y, ir_k(b, 0), whole, false, sums);
    add_run(f, x, y, whole, f->run, true, sums);
    ir_carrying_end(b, &taps, sums);
    for (int s = 0; s < count; s++) {
        LLVMValueRef column =
            LLVMBuildNSWMul(b->builder, f->sums_column, ir_k(b, s % f->columns), "");
        LLVMValueRef to = ir_mulk(b, ir_addk(b, i, s / f->columns), f->size);
        to = ir_at(b, ir_at(b, f->sums, column), to);
        ir_store(b, product_sum_of_lanes(b, sums[s], f->lanes), to, f->size);
    }
}

/* void NAME(ptr table, ptr a, ptr taps, i64 ntaps, i64 run, ptr b, i64 b_column, i64 m, ptr sums,
 * i64 sums_column), one a module for its type and number of columns. The table, and room for sums,
 * go on to whole groups of rows. */
static LLVMValueRef few_function(struct product *q) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    char name[64];
    snprintf(name, sizeof name, "product.few.%s.%d", element_type_name(p->type), (int)p->n);
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (function) return function;
    LLVMTypeRef at = ir_pointer(b), i64 = ir_i64(b);
    LLVMTypeRef types[FEW_PARAMETERS] = {at, at, at, i64, i64, at, i64, i64, at, i64};
    LLVMBasicBlockRef back;
    function = ir_function_begin(b, name, FEW_PARAMETERS, types, &back);
    matmul_mark_wide(b, q->target, function);
    struct few f = {.b = b, .columns = (int)p->n, .rows = p->rows, .lanes = p->lanes};
    f.size = (int)q->size;
    f.scalar = cpu_value_type(b, p->type);
    f.vector = matmul_vector_type(b, p->type, p->lanes);
    LLVMValueRef *parameters[FEW_PARAMETERS] = {
        &f.table,        &f.a,        &f.taps, &f.ntaps, &f.run,
        &f.columns_of_b, &f.b_column, &f.m,    &f.sums,  &f.sums_column};
    for (unsigned i = 0; i < FEW_PARAMETERS; i++)
        *parameters[i] = LLVMGetParam(function, i);
    struct ir_loop loop = ir_loop_begin(b, ir_k(b, 0), f.m, f.rows, false);
    add_rows(&f, loop.i);
    ir_loop_end(b, &loop);
    ir_function_end(b, back);
    return function;
}

void product_emit_few(struct product *q, LLVMValueRef taps) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    int64_t sums_column = product_m_rows(p) * q->size;
    LLVMValueRef arguments[FEW_PARAMETERS] = {q->rows,
                                              q->a,
                                              taps,
                                              ir_k(b, p->taps),
                                              ir_k(b, p->run),
                                              q->b_pack,
                                              ir_k(b, p->k * q->size),
                                              q->m_left,
                                              q->sums,
                                              ir_k(b, sums_column)};
    ir_call(b, few_function(q), FEW_PARAMETERS, arguments);
    struct ir_loop columns = ir_loop_count(b, p->n, 1);
    LLVMValueRef column = ir_at(b, q->sums, ir_mulk(b, columns.i, sums_column));
    struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), q->m_left, 1, false);
    product_finish_element(q, ir_at(b, column, ir_mulk(b, rows.i, q->size)), NULL,
                           ir_add(b, q->m0, rows.i), columns.i);
    ir_loop_end_parallel(b, &rows, p->n == 1 ? p->lanes : 0);
    ir_loop_end(b, &columns);
}
