/* Small products, of which there are many: batches of matrices of a few elements, and long lists of
 * rows times one such matrix. All steps stand side by side in the code, each row of C is a vector
 * in a register, and nothing is packed. */
#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

/* Multiply-adds of vectors that are written out, and rows that are a unit of work. */
enum { MOST_STEPS = 64, LEAST_ITEMS = 16, ROWS = 64 };

/* ---- planning ---- */

static bool is_long_list(const struct product_plan *p) {
    return p->batch == 1;
}

bool product_plan_small(struct product_plan *p, const struct cpu_target *target) {
    int64_t lanes = target->vector_bytes / element_type_size(p->type), steps = p->k;
    if (!is_long_list(p)) steps *= p->m;
    if (p->n == 1 || p->n > lanes || steps > MOST_STEPS) return false;
    if ((is_long_list(p) ? p->m / ROWS : p->batch) < LEAST_ITEMS) return false;
    /* With few columns a row is the better vector. */
    if (is_long_list(p) && (2 * p->n < lanes && p->n < p->k)) return false;
    p->method = PRODUCT_SMALL;
    p->n_block = p->n;
    p->m_block = p->m_chunk = is_long_list(p) ? ROWS : p->m;
    p->k_block = p->k;
    p->k_blocks = 1;
    p->units = p->batch * product_m_blocks(p);
    return true;
}

/* ---- emission ---- */

struct small {
    struct product *q;
    LLVMValueRef row[MOST_STEPS]; /* of B, as the sums' type */
};

/* Bytes from the first element of an operand to place `at` of dims. */
static int64_t offset_of(const struct product *q, const struct product_dims *dims,
                         enum product_operand operand, int64_t at) {
    int64_t size = operand == PRODUCT_A   ? q->a_size
                   : operand == PRODUCT_B ? q->b_size
                                          : q->c_size,
            sum = 0;
    for (int i = dims->count - 1; i >= 0; i--) {
        sum += at % dims->v[i].size * product_stride(&dims->v[i], operand) * size;
        at /= dims->v[i].size;
    }
    return sum;
}

static LLVMValueRef load_element(struct product *q, enum element_type from, LLVMValueRef at) {
    return cpu_emit_convert(q->b, cpu_load(q->b, from, at, NULL), from, q->p->type);
}

/* The n elements of row k of B: one vector, or gathered. */
static LLVMValueRef load_row(struct product *q, int64_t k) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    enum element_type from = p->spec.b_type;
    int64_t step;
    LLVMValueRef at = ir_atk(b, q->bb, offset_of(q, &p->spec.k, PRODUCT_B, k));
    bool linear = product_dims_linear(&p->spec.n, PRODUCT_B, &step);
    if (p->n == 1) step = 1;
    if (linear && step == 1 && pack_converts_vectors(from, p->type)) {
        LLVMTypeRef type = LLVMVectorType(cpu_memory_type(b, from), (unsigned)p->n);
        return pack_convert_vector(b, ir_load(b, type, at, (int)q->b_size), from, p->type);
    }
    LLVMValueRef row = LLVMGetPoison(matmul_vector_type(b, p->type, (int)p->n));
    for (int64_t j = 0; j < p->n; j++) {
        LLVMValueRef value =
            load_element(q, from, ir_atk(b, at, offset_of(q, &p->spec.n, PRODUCT_B, j)));
        row = LLVMBuildInsertElement(b->builder, row, value,
                                     LLVMConstInt(int_type(b, 32), (uint64_t)j, false), "");
    }
    return row;
}

/* The row of C that belongs to the row of A at `a`. */
static LLVMValueRef sum_row(struct small *s, LLVMValueRef a) {
    struct product *q = s->q;
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    LLVMValueRef sum = LLVMConstNull(matmul_vector_type(b, p->type, (int)p->n));
    for (int64_t k = 0; k < p->k; k++) {
        LLVMValueRef at = ir_atk(b, a, offset_of(q, &p->spec.k, PRODUCT_A, k));
        LLVMValueRef x = load_element(q, p->spec.a_type, at);
        sum = matmul_multiply_add(b, matmul_splat(b, x, (int)p->n), s->row[k], sum);
    }
    return sum;
}

/* Row m of the batch's item, whose A is at `a` and whose C (where it is written as it is) at `c`.
 */
static void finish_row(struct small *s, LLVMValueRef sum, LLVMValueRef m, LLVMValueRef c) {
    struct product *q = s->q;
    struct cpu_builder *b = q->b;
    if (q->direct) {
        ir_store(b, sum, c, (int)q->c_size);
        return;
    }
    ir_store(b, sum, q->temp, 64);
    for (int64_t j = 0; j < q->p->n; j++)
        product_finish_element(q, ir_atk(b, q->temp, j * q->size), NULL, m, ir_k(b, j));
}

void product_emit_small(struct product *q) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    struct small s = {.q = q};
    LLVMValueRef m_block;
    struct ir_loop units = ir_loop_begin(b, q->code->begin, q->code->end, 1, false);
    product_place_unit(q, units.i, &m_block);
    for (int64_t k = 0; k < p->k; k++)
        s.row[k] = load_row(q, k);
    if (is_long_list(p)) {
        struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), q->m_left, 1, false);
        LLVMValueRef m = ir_add(b, q->m0, rows.i), c = q->c;
        LLVMValueRef sum = sum_row(&s, ir_at(b, q->a, product_offset(q, &p->spec.m, PRODUCT_A, m)));
        if (q->direct) c = ir_at(b, c, product_offset(q, &p->spec.m, PRODUCT_C, m));
        finish_row(&s, sum, m, c);
        ir_loop_end(b, &rows);
    } else {
        for (int64_t m = 0; m < p->m; m++) {
            LLVMValueRef a = ir_atk(b, q->a, offset_of(q, &p->spec.m, PRODUCT_A, m)), c = q->c;
            if (q->direct) c = ir_atk(b, c, offset_of(q, &p->spec.m, PRODUCT_C, m));
            finish_row(&s, sum_row(&s, a), ir_k(b, m), c);
        }
    }
    ir_loop_end(b, &units);
}
