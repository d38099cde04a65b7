/* Products with one row of A, where memory sets the pace: B is read once, in the order in which it
 * lies, by several streams side by side. */
#include <stdio.h>

#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

enum { STREAMS = 8, COLUMNS = 4, DOT_VECTORS = 2, BLOCK = 4096 };

/* ---- the functions that do it, one a pair of types ---- */

struct vector_code {
    struct cpu_builder *b;
    enum element_type from, type; /* of B, of the sums */
    int lanes;
    int64_t from_size, size;
    LLVMTypeRef scalar, vector;
};

static struct vector_code vector_code(struct cpu_builder *b, const struct cpu_target *target,
                                      enum element_type from, enum element_type type) {
    struct vector_code v = {.b = b, .from = from, .type = type};
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

/* sums[j] (+)= sum over i < streams of a[i] * row[i][j], for j in [start, limit) */
static void add_rows(struct vector_code *v, int streams, const LLVMValueRef *a,
                     const LLVMValueRef *row, LLVMValueRef sums, LLVMValueRef start,
                     LLVMValueRef limit, int lanes, LLVMValueRef first) {
    struct cpu_builder *b = v->b;
    LLVMValueRef splat[STREAMS];
    LLVMTypeRef type = lanes == 1 ? v->scalar : v->vector;
    for (int i = 0; i < streams; i++)
        splat[i] = lanes == 1 ? a[i] : matmul_splat(b, a[i], lanes);
    struct ir_loop loop = ir_loop_begin(b, start, limit, lanes, true);
    LLVMValueRef at = ir_at(b, sums, ir_mulk(b, loop.i, v->size));
    LLVMValueRef sum = ir_load(b, type, at, (int)v->size);
    sum = select_of(b, first, LLVMConstNull(type), sum);
    for (int i = 0; i < streams; i++) {
        LLVMValueRef value = load_b(v, ir_at(b, row[i], ir_mulk(b, loop.i, v->from_size)), lanes);
        sum = matmul_multiply_add(b, splat[i], value, sum);
    }
    ir_store(b, sum, at, (int)v->size);
    ir_loop_end(b, &loop);
}

/* Rows [start, limit) of B, `streams` at a time: as many streams through memory, far apart. */
static void add_all_rows(struct vector_code *v, LLVMValueRef function, int streams,
                         LLVMValueRef start, LLVMValueRef limit) {
    struct cpu_builder *b = v->b;
    LLVMValueRef a = LLVMGetParam(function, 0), base = LLVMGetParam(function, 2);
    LLVMValueRef step = LLVMGetParam(function, 3), count = LLVMGetParam(function, 4);
    LLVMValueRef sums = LLVMGetParam(function, 5), values[STREAMS], row[STREAMS];
    LLVMValueRef whole = i_and(b, count, ir_k(b, -(int64_t)v->lanes));
    LLVMValueRef apart = streams_apart(b, start, limit, streams);
    struct ir_loop loop = ir_loop_begin(b, start, ir_add(b, start, apart), 1, true);
    for (int i = 0; i < streams; i++) {
        LLVMValueRef k = ir_add(b, loop.i, ir_mulk(b, apart, i));
        values[i] = ir_load(b, v->scalar, ir_at(b, a, ir_mulk(b, k, v->size)), (int)v->size);
        row[i] = ir_at(b, base, LLVMBuildNSWMul(b->builder, k, step, ""));
    }
    LLVMValueRef first = i_cmpk(b, LLVMIntEQ, loop.i, 0);
    add_rows(v, streams, values, row, sums, ir_k(b, 0), whole, v->lanes, first);
    add_rows(v, streams, values, row, sums, whole, count, 1, first);
    ir_loop_end(b, &loop);
}

/* The lanes of a vector added up. */
static LLVMValueRef sum_of_lanes(struct vector_code *v, LLVMValueRef x) {
    struct cpu_builder *b = v->b;
    LLVMTypeRef i32 = int_type(b, 32);
    for (int half = v->lanes / 2; half >= 1; half /= 2) {
        LLVMValueRef mask[64];
        for (int i = 0; i < half; i++)
            mask[i] = LLVMConstInt(i32, (uint64_t)(half + i), false);
        LLVMValueRef high =
            LLVMBuildShuffleVector(b->builder, x, x, LLVMConstVector(mask, (unsigned)half), "");
        for (int i = 0; i < half; i++)
            mask[i] = LLVMConstInt(i32, (uint64_t)i, false);
        x = LLVMBuildShuffleVector(b->builder, x, x, LLVMConstVector(mask, (unsigned)half), "");
        x = element_type_is_float(v->type) ? f_add(b, x, high) : i_add(b, x, high);
    }
    return LLVMBuildExtractElement(b->builder, x, LLVMConstInt(i32, 0, false), "");
}

/* sums[i] += a[k..] * column[i][k..] for k from start to limit, `vectors` vectors a step (0: one
 * element). */
static void dot_loop(struct vector_code *v, int columns, int vectors, LLVMValueRef a,
                     const LLVMValueRef *column, LLVMValueRef start, LLVMValueRef limit,
                     LLVMValueRef *sums) {
    struct cpu_builder *b = v->b;
    int lanes = vectors ? v->lanes : 1, parts = vectors ? vectors : 1;
    LLVMTypeRef type = vectors ? v->vector : v->scalar;
    struct ir_carrying loop =
        ir_carrying_begin(b, start, limit, (int64_t)lanes * parts, columns * parts, sums);
    for (int p = 0; p < parts; p++) {
        LLVMValueRef k = ir_addk(b, loop.loop.i, (int64_t)p * lanes);
        LLVMValueRef x = ir_load(b, type, ir_at(b, a, ir_mulk(b, k, v->size)), (int)v->size);
        for (int i = 0; i < columns; i++) {
            LLVMValueRef y = load_b(v, ir_at(b, column[i], ir_mulk(b, k, v->from_size)), lanes);
            sums[i * parts + p] = matmul_multiply_add(b, x, y, sums[i * parts + p]);
        }
    }
    ir_carrying_end(b, &loop, sums);
}

static void dot_columns(struct vector_code *v, LLVMValueRef function, int columns,
                        LLVMValueRef start, LLVMValueRef limit) {
    struct cpu_builder *b = v->b;
    LLVMValueRef a = LLVMGetParam(function, 0), k = LLVMGetParam(function, 1);
    LLVMValueRef base = LLVMGetParam(function, 2), step = LLVMGetParam(function, 3);
    LLVMValueRef out = LLVMGetParam(function, 5), column[COLUMNS] = {NULL};
    LLVMValueRef sums[COLUMNS * DOT_VECTORS], totals[COLUMNS];
    LLVMValueRef apart = streams_apart(b, start, limit, columns), number[COLUMNS];
    struct ir_loop loop = ir_loop_begin(b, start, ir_add(b, start, apart), 1, true);
    for (int i = 0; i < columns; i++) {
        number[i] = ir_add(b, loop.i, ir_mulk(b, apart, i));
        column[i] = ir_at(b, base, LLVMBuildNSWMul(b->builder, number[i], step, ""));
    }
    for (int i = 0; i < columns * DOT_VECTORS; i++)
        sums[i] = LLVMConstNull(v->vector);
    LLVMValueRef whole = i_and(b, k, ir_k(b, -(int64_t)v->lanes * DOT_VECTORS));
    dot_loop(v, columns, DOT_VECTORS, a, column, ir_k(b, 0), whole, sums);
    for (int i = 0; i < columns; i++) {
        LLVMValueRef x = sums[i * DOT_VECTORS], y = sums[i * DOT_VECTORS + 1];
        x = element_type_is_float(v->type) ? f_add(b, x, y) : i_add(b, x, y);
        totals[i] = sum_of_lanes(v, x);
    }
    dot_loop(v, columns, 0, a, column, whole, k, totals);
    for (int i = 0; i < columns; i++)
        ir_store(b, totals[i], ir_at(b, out, ir_mulk(b, number[i], v->size)), (int)v->size);
    ir_loop_end(b, &loop);
}

/* ---- the functions ---- */

/* Emits the work on items [start, limit), `group` at a time. */
typedef void vector_work(struct vector_code *v, LLVMValueRef function, int group,
                         LLVMValueRef start, LLVMValueRef limit);

/* void NAME(ptr a, i64 k, ptr b, i64 b_step, i64 n, ptr sums), one a module for its types: the work
 * on all items, as many as parameter `items` says, in groups and then one by one. */
static LLVMValueRef vector_function(struct cpu_builder *b, const struct cpu_target *target,
                                    const char *what, enum element_type from,
                                    enum element_type type, unsigned items, int group,
                                    vector_work *work) {
    char name[64];
    snprintf(name, sizeof name, "product.%s.%s.%s", what, element_type_name(from),
             element_type_name(type));
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (function) return function;
    LLVMTypeRef p = ir_pointer(b), i64 = ir_i64(b);
    LLVMBasicBlockRef back;
    function = ir_function_begin(b, name, 6, (LLVMTypeRef[]){p, i64, p, i64, i64, p}, &back);
    matmul_mark_wide(b, target, function);
    struct vector_code v = vector_code(b, target, from, type);
    LLVMValueRef count = LLVMGetParam(function, items);
    LLVMValueRef whole = i_and(b, count, ir_k(b, -(int64_t)group));
    work(&v, function, group, ir_k(b, 0), whole);
    work(&v, function, 1, whole, count);
    ir_function_end(b, back);
    return function;
}

/* Sums of rows of B times elements of a: the items are the k rows. */
static LLVMValueRef sums_function(struct cpu_builder *b, const struct cpu_target *target,
                                  enum element_type from, enum element_type type) {
    return vector_function(b, target, "sums", from, type, 1, STREAMS, add_all_rows);
}

/* Inner products of a with the columns of B: the items are the n columns. */
static LLVMValueRef dots_function(struct cpu_builder *b, const struct cpu_target *target,
                                  enum element_type from, enum element_type type) {
    return vector_function(b, target, "dots", from, type, 4, COLUMNS, dot_columns);
}

/* ---- planning ---- */

bool product_plan_vector(struct product_plan *p, const struct cpu_target *target) {
    const struct product_spec *s = &p->spec;
    int64_t k_step, n_step;
    if (p->m != 1 || !pack_converts_vectors(s->b_type, p->type)) return false;
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
    int64_t least = p->method == PRODUCT_SUMS ? LEAST_COLUMNS : lanes,
            blocks = (p->n + BLOCK - 1) / BLOCK;
    if (parts < blocks) parts = blocks;
    int64_t share = (p->n + parts - 1) / parts;
    if (share < least) share = least;
    p->n_block = (share + lanes - 1) / lanes * lanes;
    p->m_block = p->m_chunk = 1;
    p->k_block = p->k;
    p->units = p->batch * product_n_blocks(p);
    (void)target;
    int64_t size = element_type_size(p->type);
    p->scratch = (BLOCK * size + 63) / 64 * 64 + (p->k * size + 63) / 64 * 64;
    return true;
}

/* ---- emission ---- */

/* A as a run of sums' type: in place, or gathered. */
static LLVMValueRef row_of_a(struct product *q) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    int64_t step;
    bool same = element_type_size(p->spec.a_type) == q->size &&
                element_type_is_float(p->spec.a_type) == element_type_is_float(p->type);
    bool linear = product_dims_linear(&p->spec.k, PRODUCT_A, &step);
    if (same && linear && (step == 1 || p->k == 1)) return q->a;
    LLVMValueRef to = ir_atk(b, q->code->scratch, (BLOCK * q->size + 63) / 64 * 64);
    struct ir_loop loop = ir_loop_count(b, p->k, 1);
    LLVMValueRef from = ir_at(b, q->a, product_offset(q, &p->spec.k, PRODUCT_A, loop.i));
    LLVMValueRef value = cpu_load(b, p->spec.a_type, from, NULL);
    value = cpu_emit_convert(b, value, p->spec.a_type, p->type);
    cpu_store(b, p->type, value, ir_at(b, to, ir_mulk(b, loop.i, q->size)));
    ir_loop_end_parallel(b, &loop, 0);
    return to;
}

void product_emit_vector(struct product *q) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    bool by_sums = p->method == PRODUCT_SUMS;
    int64_t step, n_step, size = element_type_size(p->spec.b_type);
    product_dims_linear(&p->spec.k, PRODUCT_B, &step);
    product_dims_linear(&p->spec.n, PRODUCT_B, &n_step);
    LLVMValueRef function = by_sums ? sums_function(b, q->target, p->spec.b_type, p->type)
                                    : dots_function(b, q->target, p->spec.b_type, p->type);
    /* Units that follow each other are done together, for longer runs through memory. */
    int64_t together = p->batch == 1 ? BLOCK / p->n_block : 1;
    struct ir_loop units = ir_loop_begin(b, q->code->begin, q->code->end, together, false);
    LLVMValueRef m_block;
    product_place_unit(q, units.i, &m_block);
    LLVMValueRef here = LLVMBuildNSWSub(b->builder, q->code->end, units.i, "");
    here = ir_mulk(b, ir_min(b, here, ir_k(b, together)), p->n_block);
    LLVMValueRef left = LLVMBuildNSWSub(b->builder, ir_k(b, p->n), q->n0, "");
    q->n_left = ir_min(b, left, here);
    LLVMValueRef a = row_of_a(q), sums = q->code->scratch;
    LLVMValueRef from = ir_at(b, q->bb, ir_mulk(b, q->n0, n_step * size));
    ir_call(b, function, 6,
            (LLVMValueRef[]){a, ir_k(b, p->k), from, ir_k(b, (by_sums ? step : n_step) * size),
                             q->n_left, sums});
    struct ir_loop loop = ir_loop_begin(b, ir_k(b, 0), q->n_left, 1, false);
    product_finish_element(q, ir_at(b, sums, ir_mulk(b, loop.i, q->size)), NULL, ir_k(b, 0),
                           ir_add(b, q->n0, loop.i));
    ir_loop_end_parallel(b, &loop, 0);
    ir_loop_end(b, &units);
}
