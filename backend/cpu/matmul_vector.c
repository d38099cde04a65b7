/* Products with one row of A, or few, where memory sets the pace: B is read once, in the order in
 * which it lies, by several streams side by side. */
#include <stdio.h>

#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

enum { STREAMS = 8, COLUMNS = 4, DOT_VECTORS = 2, BLOCK = 4096, MOST_ROWS = 4 };

/* How many rows of B are added up at a time, and how many of its columns are multiplied in how many
 * vectors, for each number of rows of A: what fits into 16 registers. */
static const struct {
    int streams, columns, vectors;
} groups[MOST_ROWS + 1] = {
    [1] = {STREAMS, COLUMNS, DOT_VECTORS}, [2] = {4, COLUMNS, 1}, [3] = {2, 3, 1}, [4] = {2, 2, 1}};

/* ---- the functions that do it, one a pair of types ---- */

struct vector_code {
    struct cpu_builder *b;
    enum element_type from, type; /* of B, of the sums */
    int rows;                     /* of A */
    int lanes;
    int64_t from_size, size;
    LLVMTypeRef scalar, vector;
    /* The function's parameters: A and its rows, B and its rows or columns, the sums. Distances in
     * bytes. */
    LLVMValueRef a, a_row, k, base, step, n, sums, sums_row;
};

enum { VECTOR_PARAMETERS = 8 };

static struct vector_code vector_code(struct cpu_builder *b, const struct cpu_target *target,
                                      enum element_type from, enum element_type type, int rows,
                                      LLVMValueRef function) {
    struct vector_code v = {.b = b, .from = from, .type = type, .rows = rows};
    LLVMValueRef *parameters[VECTOR_PARAMETERS] = {&v.a,    &v.a_row, &v.k,    &v.base,
                                                   &v.step, &v.n,     &v.sums, &v.sums_row};
    for (unsigned i = 0; i < VECTOR_PARAMETERS; i++)
        *parameters[i] = LLVMGetParam(function, i);
    v.from_size = element_type_size(from);
    v.size = element_type_size(type);
    v.lanes = target->vector_bytes / (int)v.size;
    v.scalar = cpu_value_type(b, type);
    v.vector = matmul_vector_type(b, type, v.lanes);
    return v;
}

/* `lanes` elements of B, or one where lanes is 1. */
static LLVMValueRef load_b(struct vector_code *v, LLVMValueRef at, int lanes) {
    struct cpu_builder *b = v->b;
    if (lanes == 1) return cpu_emit_convert(b, cpu_load(b, v->from, at, NULL), v->from, v->type);
    LLVMTypeRef type = LLVMVectorType(cpu_memory_type(b, v->from), (unsigned)lanes);
    return pack_convert_vector(b, ir_load(b, type, at, (int)v->from_size), v->from, v->type);
}

/* Items from one stream to the next, where as many streams share out [start, limit). */
static LLVMValueRef streams_apart(struct cpu_builder *b, LLVMValueRef start, LLVMValueRef limit,
                                  int streams) {
    LLVMValueRef count = LLVMBuildNSWSub(b->builder, limit, start, "");
    return LLVMBuildSDiv(b->builder, count, ir_k(b, streams), "");
}

static LLVMValueRef row_at(struct vector_code *v, LLVMValueRef base, LLVMValueRef step, int row) {
    if (row == 0) return base;
    return ir_at(v->b, base, LLVMBuildNSWMul(v->b->builder, step, ir_k(v->b, row), ""));
}

/* Some rows of B, and the elements of A that they are multiplied by: [stream * rows of A + r]. */
struct added_rows {
    int streams;
    LLVMValueRef a[STREAMS * MOST_ROWS], row[STREAMS];
    LLVMValueRef first; /* whether there are no sums yet */
};

/* sums[r][j] (+)= sum over streams i of a[i][r] * row[i][j], for j in [start, limit) */
static void add_rows(struct vector_code *v, const struct added_rows *add, LLVMValueRef start,
                     LLVMValueRef limit, int lanes) {
    struct cpu_builder *b = v->b;
    LLVMValueRef splat[STREAMS * MOST_ROWS], at[MOST_ROWS], sum[MOST_ROWS];
    LLVMTypeRef type = lanes == 1 ? v->scalar : v->vector;
    for (int i = 0; i < add->streams * v->rows; i++)
        splat[i] = lanes == 1 ? add->a[i] : matmul_splat(b, add->a[i], lanes);
    struct ir_loop loop = ir_loop_begin(b, start, limit, lanes, true);
    for (int r = 0; r < v->rows; r++) {
        at[r] = ir_at(b, row_at(v, v->sums, v->sums_row, r), ir_mulk(b, loop.i, v->size));
        sum[r] = ir_load(b, type, at[r], (int)v->size);
        sum[r] = select_of(b, add->first, LLVMConstNull(type), sum[r]);
    }
    for (int i = 0; i < add->streams; i++) {
        LLVMValueRef from = ir_at(b, add->row[i], ir_mulk(b, loop.i, v->from_size));
        LLVMValueRef value = load_b(v, from, lanes);
        for (int r = 0; r < v->rows; r++)
            sum[r] = matmul_multiply_add(b, splat[i * v->rows + r], value, sum[r]);
    }
    for (int r = 0; r < v->rows; r++)
        ir_store(b, sum[r], at[r], (int)v->size);
    ir_loop_end(b, &loop);
}

/* Rows [start, limit) of B, `streams` at a time: as many streams through memory, far apart. */
static void add_all_rows(struct vector_code *v, int streams, LLVMValueRef start,
                         LLVMValueRef limit) {
    struct cpu_builder *b = v->b;
    struct added_rows add = {.streams = streams};
    LLVMValueRef whole = i_and(b, v->n, ir_k(b, -(int64_t)v->lanes));
    LLVMValueRef apart = streams_apart(b, start, limit, streams);
    struct ir_loop loop = ir_loop_begin(b, start, ir_add(b, start, apart), 1, true);
    for (int i = 0; i < streams; i++) {
        LLVMValueRef k = ir_add(b, loop.i, ir_mulk(b, apart, i));
        for (int r = 0; r < v->rows; r++) {
            LLVMValueRef at = ir_at(b, row_at(v, v->a, v->a_row, r), ir_mulk(b, k, v->size));
            add.a[i * v->rows + r] = ir_load(b, v->scalar, at, (int)v->size);
        }
        add.row[i] = ir_at(b, v->base, LLVMBuildNSWMul(b->builder, k, v->step, ""));
    }
    add.first = i_cmpk(b, LLVMIntEQ, loop.i, 0);
    add_rows(v, &add, ir_k(b, 0), whole, v->lanes);
    add_rows(v, &add, whole, v->n, 1);
    ir_loop_end(b, &loop);
}

LLVMValueRef product_sum_of_lanes(struct cpu_builder *b, LLVMValueRef x, int lanes) {
    LLVMTypeRef i32 = int_type(b, 32), type = LLVMGetElementType(LLVMTypeOf(x));
    bool real = LLVMGetTypeKind(type) != LLVMIntegerTypeKind;
    for (int half = lanes / 2; half >= 1; half /= 2) {
        LLVMValueRef mask[64];
        for (int i = 0; i < half; i++)
            mask[i] = LLVMConstInt(i32, (uint64_t)(half + i), false);
        LLVMValueRef high =
            LLVMBuildShuffleVector(b->builder, x, x, LLVMConstVector(mask, (unsigned)half), "");
        for (int i = 0; i < half; i++)
            mask[i] = LLVMConstInt(i32, (uint64_t)i, false);
        x = LLVMBuildShuffleVector(b->builder, x, x, LLVMConstVector(mask, (unsigned)half), "");
        x = real ? f_add(b, x, high) : i_add(b, x, high);
    }
    return LLVMBuildExtractElement(b->builder, x, LLVMConstInt(i32, 0, false), "");
}

/* Columns of B that are multiplied side by side. */
struct dot_group {
    int columns, vectors;
    LLVMValueRef column[COLUMNS], number[COLUMNS];
};

/* sums[i][r] += a[r][k..] * column[i][k..] for k from start to limit, `vectors` vectors a step (0:
 * one element). */
static void dot_loop(struct vector_code *v, const struct dot_group *group, int vectors,
                     LLVMValueRef start, LLVMValueRef limit, LLVMValueRef *sums) {
    struct cpu_builder *b = v->b;
    int lanes = vectors ? v->lanes : 1, parts = vectors ? vectors : 1;
    LLVMTypeRef type = vectors ? v->vector : v->scalar;
    LLVMValueRef x[MOST_ROWS];
    struct ir_carrying loop = ir_carrying_begin(b, start, limit, (int64_t)lanes * parts,
                                                group->columns * v->rows * parts, sums);
    for (int p = 0; p < parts; p++) {
        LLVMValueRef k = ir_addk(b, loop.loop.i, (int64_t)p * lanes);
        for (int r = 0; r < v->rows; r++)
            x[r] = ir_load(b, type, ir_at(b, row_at(v, v->a, v->a_row, r), ir_mulk(b, k, v->size)),
                           (int)v->size);
        for (int i = 0; i < group->columns; i++) {
            LLVMValueRef at = ir_at(b, group->column[i], ir_mulk(b, k, v->from_size));
            LLVMValueRef y = load_b(v, at, lanes);
            for (int r = 0; r < v->rows; r++) {
                LLVMValueRef *sum = &sums[(i * v->rows + r) * parts + p];
                *sum = matmul_multiply_add(b, x[r], y, *sum);
            }
        }
    }
    ir_carrying_end(b, &loop, sums);
}

static void dot_columns(struct vector_code *v, int columns, LLVMValueRef start,
                        LLVMValueRef limit) {
    enum { MOST_SUMS = 12 };
    struct cpu_builder *b = v->b;
    struct dot_group group = {.columns = columns, .vectors = groups[v->rows].vectors};
    LLVMValueRef sums[MOST_SUMS], totals[MOST_SUMS];
    int count = columns * v->rows;
    LLVMValueRef apart = streams_apart(b, start, limit, columns);
    struct ir_loop loop = ir_loop_begin(b, start, ir_add(b, start, apart), 1, true);
    for (int i = 0; i < columns; i++) {
        group.number[i] = ir_add(b, loop.i, ir_mulk(b, apart, i));
        LLVMValueRef offset = LLVMBuildNSWMul(b->builder, group.number[i], v->step, "");
        group.column[i] = ir_at(b, v->base, offset);
    }
    for (int i = 0; i < count * group.vectors; i++)
        sums[i] = LLVMConstNull(v->vector);
    LLVMValueRef whole = i_and(b, v->k, ir_k(b, -(int64_t)v->lanes * group.vectors));
    dot_loop(v, &group, group.vectors, ir_k(b, 0), whole, sums);
    for (int i = 0; i < count; i++) {
        LLVMValueRef x = sums[i * group.vectors];
        for (int p = 1; p < group.vectors; p++) {
            LLVMValueRef y = sums[i * group.vectors + p];
            x = element_type_is_float(v->type) ? f_add(b, x, y) : i_add(b, x, y);
        }
        totals[i] = product_sum_of_lanes(b, x, v->lanes);
    }
    dot_loop(v, &group, 0, whole, v->k, totals);
    for (int i = 0; i < columns; i++) {
        for (int r = 0; r < v->rows; r++) {
            LLVMValueRef to =
                ir_at(b, row_at(v, v->sums, v->sums_row, r), ir_mulk(b, group.number[i], v->size));
            ir_store(b, totals[i * v->rows + r], to, (int)v->size);
        }
    }
    ir_loop_end(b, &loop);
}

/* ---- the functions ---- */

/* Emits the work on items [start, limit), `group` at a time. */
typedef void vector_work(struct vector_code *v, int group, LLVMValueRef start, LLVMValueRef limit);

/* count / group * group */
static LLVMValueRef whole_groups(struct cpu_builder *b, LLVMValueRef count, int group) {
    return ir_mulk(b, LLVMBuildSDiv(b->builder, count, ir_k(b, group), ""), group);
}

/* void NAME(ptr a, i64 a_row, i64 k, ptr b, i64 b_step, i64 n, ptr sums, i64 sums_row), one a
 * module for its types and rows of A: the inner products of a with the columns of B, or the sums of
 * the rows of B times elements of a. The items are the columns, or the rows; they are taken in
 * groups and then one by one. */
static LLVMValueRef vector_function(struct cpu_builder *b, const struct cpu_target *target,
                                    bool by_sums, enum element_type from, enum element_type type,
                                    int rows) {
    char name[64];
    snprintf(name, sizeof name, "product.%s.%s.%s.%d", by_sums ? "sums" : "dots",
             element_type_name(from), element_type_name(type), rows);
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (function) return function;
    LLVMTypeRef p = ir_pointer(b), i64 = ir_i64(b);
    LLVMTypeRef types[VECTOR_PARAMETERS] = {p, i64, i64, p, i64, i64, p, i64};
    LLVMBasicBlockRef back;
    function = ir_function_begin(b, name, VECTOR_PARAMETERS, types, &back);
    matmul_mark_wide(b, target, function);
    struct vector_code v = vector_code(b, target, from, type, rows, function);
    vector_work *work = by_sums ? add_all_rows : dot_columns;
    int group = by_sums ? groups[rows].streams : groups[rows].columns;
    LLVMValueRef count = by_sums ? v.k : v.n, whole = whole_groups(b, count, group);
    work(&v, group, ir_k(b, 0), whole);
    work(&v, 1, whole, count);
    ir_function_end(b, back);
    return function;
}

/* ---- planning ---- */

/* Columns of sums that are kept at a time. */
static int64_t block_columns(const struct product_plan *p) {
    enum { LINES = 64 };
    return BLOCK / p->m / LINES * LINES;
}

static int64_t sums_bytes(const struct product_plan *p) {
    return p->m * block_columns(p) * element_type_size(p->type);
}

/* Several rows are worth it where B is too large to be packed for them, and long enough. */
static bool suits_rows(const struct product_plan *p, const struct cpu_target *target) {
    enum { LEAST_K = 64, LEAST_N = 64 };
    if (p->m == 1) return true;
    return p->m <= MOST_ROWS && p->k >= LEAST_K && p->n >= LEAST_N &&
           p->k * p->n * element_type_size(p->spec.b_type) > target->l2 / 2;
}

bool product_plan_vector(struct product_plan *p, const struct cpu_target *target) {
    const struct product_spec *s = &p->spec;
    int64_t k_step, n_step;
    if (!suits_rows(p, target) || !pack_converts_vectors(s->b_type, p->type)) return false;
    if (!product_dims_linear(&s->k, PRODUCT_B, &k_step)) return false;
    if (!product_dims_linear(&s->n, PRODUCT_B, &n_step)) return false;
    if (n_step == 1 || p->n == 1)
        p->method = PRODUCT_SUMS;
    else if (k_step == 1 || p->k == 1)
        p->method = PRODUCT_DOTS;
    else
        return false;
    if (p->n == 1 && k_step == 1) p->method = PRODUCT_DOTS;
    /* Short runs of memory take longer; a batch is shared out by itself. */
    enum { WANTED = 32, ENOUGH = 8, LEAST_COLUMNS = 128 };
    int64_t lanes = 64 / element_type_size(p->type), parts = p->batch < ENOUGH ? WANTED : 1;
    int64_t least = p->method == PRODUCT_SUMS ? LEAST_COLUMNS : lanes, block = block_columns(p),
            blocks = (p->n + block - 1) / block;
    if (parts < blocks) parts = blocks;
    int64_t share = (p->n + parts - 1) / parts;
    if (share < least) share = least;
    p->n_block = (share + lanes - 1) / lanes * lanes;
    p->m_block = p->m_chunk = p->m;
    p->k_block = p->k;
    p->units = p->batch * product_n_blocks(p);
    int64_t row = (p->k * element_type_size(p->type) + 63) / 64 * 64;
    p->scratch = sums_bytes(p) + p->m * row;
    return true;
}

/* ---- emission ---- */

/* Rows of A as runs of sums' type, *row bytes apart: in place, or gathered. */
static LLVMValueRef rows_of_a(struct product *q, int64_t *row) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    int64_t step;
    bool same = element_type_size(p->spec.a_type) == q->size &&
                element_type_is_float(p->spec.a_type) == element_type_is_float(p->type);
    bool linear = product_dims_linear(&p->spec.m, PRODUCT_A, row);
    *row *= q->a_size;
    linear = product_dims_linear(&p->spec.k, PRODUCT_A, &step) && linear;
    if (same && linear && (step == 1 || p->k == 1)) return q->a;
    *row = (p->k * q->size + 63) / 64 * 64;
    LLVMValueRef to = ir_atk(b, q->code->scratch, sums_bytes(p));
    struct ir_loop rows = ir_loop_count(b, p->m, 1);
    LLVMValueRef from_row = ir_at(b, q->a, product_offset(q, &p->spec.m, PRODUCT_A, rows.i));
    LLVMValueRef to_row = ir_at(b, to, ir_mulk(b, rows.i, *row));
    struct ir_loop loop = ir_loop_count(b, p->k, 1);
    LLVMValueRef from = ir_at(b, from_row, product_offset(q, &p->spec.k, PRODUCT_A, loop.i));
    LLVMValueRef value = cpu_load(b, p->spec.a_type, from, NULL);
    value = cpu_emit_convert(b, value, p->spec.a_type, p->type);
    cpu_store(b, p->type, value, ir_at(b, to_row, ir_mulk(b, loop.i, q->size)));
    ir_loop_end_parallel(b, &loop, 0);
    ir_loop_end(b, &rows);
    return to;
}

void product_emit_vector(struct product *q) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    bool by_sums = p->method == PRODUCT_SUMS;
    int64_t step, n_step, size = element_type_size(p->spec.b_type), a_row;
    int64_t block = block_columns(p), sums_row = block * q->size;
    product_dims_linear(&p->spec.k, PRODUCT_B, &step);
    product_dims_linear(&p->spec.n, PRODUCT_B, &n_step);
    LLVMValueRef function =
        vector_function(b, q->target, by_sums, p->spec.b_type, p->type, (int)p->m);
    /* Units that follow each other are done together, for longer runs through memory. */
    int64_t together = p->batch == 1 ? block / p->n_block : 1;
    struct ir_loop units = ir_loop_begin(b, q->code->begin, q->code->end, together, false);
    LLVMValueRef m_block;
    product_place_unit(q, units.i, &m_block);
    LLVMValueRef here = LLVMBuildNSWSub(b->builder, q->code->end, units.i, "");
    here = ir_mulk(b, ir_min(b, here, ir_k(b, together)), p->n_block);
    LLVMValueRef left = LLVMBuildNSWSub(b->builder, ir_k(b, p->n), q->n0, "");
    q->n_left = ir_min(b, left, here);
    LLVMValueRef a = rows_of_a(q, &a_row), sums = q->code->scratch;
    LLVMValueRef from = ir_at(b, q->bb, ir_mulk(b, q->n0, n_step * size));
    LLVMValueRef arguments[VECTOR_PARAMETERS] = {a,
                                                 ir_k(b, a_row),
                                                 ir_k(b, p->k),
                                                 from,
                                                 ir_k(b, (by_sums ? step : n_step) * size),
                                                 q->n_left,
                                                 sums,
                                                 ir_k(b, sums_row)};
    ir_call(b, function, VECTOR_PARAMETERS, arguments);
    struct ir_loop rows = ir_loop_count(b, p->m, 1);
    LLVMValueRef row = ir_at(b, sums, ir_mulk(b, rows.i, sums_row));
    struct ir_loop loop = ir_loop_begin(b, ir_k(b, 0), q->n_left, 1, false);
    product_finish_element(q, ir_at(b, row, ir_mulk(b, loop.i, q->size)), NULL, rows.i,
                           ir_add(b, q->n0, loop.i));
    ir_loop_end_parallel(b, &loop, 0);
    ir_loop_end(b, &rows);
    ir_loop_end(b, &units);
}
