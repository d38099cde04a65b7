/* Products: dot, ragged-dot, scaled-dot and convolution. Operands are first converted to arrays of
 * what the sum is kept in; then every product is a series of "row += x * row". */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"
#include "ir/number.h"

struct complex_float {
    float re, im;
};

struct complex_double {
    double re, im;
};

/* Loops worth vectorising whatever the build's flags. */
#define VECTORISED __attribute__((optimize("O3")))

VECTORISED static void row_f32(void *acc, const void *x, const void *w, int64_t n) {
    float *restrict out = acc;
    const float *restrict in = w;
    double factor = *(const float *)x;

    /* The product is exact in double: one rounding a step, as the fused steps of XLA's dots. */
    for (int64_t j = 0; j < n; j++)
        out[j] = (float)(out[j] + factor * in[j]);
}

VECTORISED static void row_f64(void *acc, const void *x, const void *w, int64_t n) {
    double *restrict out = acc;
    const double *restrict in = w;
    double factor = *(const double *)x;

    for (int64_t j = 0; j < n; j++)
        out[j] += factor * in[j];
}

static void row_u64(void *acc, const void *x, const void *w, int64_t n) {
    uint64_t *restrict out = acc;
    const uint64_t *restrict in = w;
    uint64_t factor = *(const uint64_t *)x;

    for (int64_t j = 0; j < n; j++)
        out[j] += factor * in[j];
}

static void row_c64(void *acc, const void *x, const void *w, int64_t n) {
    struct complex_float *restrict out = acc, f = *(const struct complex_float *)x;
    const struct complex_float *restrict in = w;

    for (int64_t j = 0; j < n; j++) {
        out[j].re += f.re * in[j].re - f.im * in[j].im;
        out[j].im += f.re * in[j].im + f.im * in[j].re;
    }
}

static void row_c128(void *acc, const void *x, const void *w, int64_t n) {
    struct complex_double *restrict out = acc, f = *(const struct complex_double *)x;
    const struct complex_double *restrict in = w;

    for (int64_t j = 0; j < n; j++) {
        out[j].re += f.re * in[j].re - f.im * in[j].im;
        out[j].im += f.re * in[j].im + f.im * in[j].re;
    }
}

struct product_kind product_kind(enum element_type a, enum element_type b, enum element_type out) {
    bool complex =
        element_type_is_complex(a) || element_type_is_complex(b) || element_type_is_complex(out);
    bool wide = a == TYPE_F64 || b == TYPE_F64 || out == TYPE_F64 || a == TYPE_C128 ||
                b == TYPE_C128 || out == TYPE_C128;
    bool whole = scalar_class(a) == CLASS_INT && scalar_class(b) == CLASS_INT;

    if (complex)
        return wide ? (struct product_kind){TYPE_C128, 16, row_c128}
                    : (struct product_kind){TYPE_C64, 8, row_c64};
    if (whole && scalar_class(out) == CLASS_INT) return (struct product_kind){TYPE_U64, 8, row_u64};
    return wide || whole ? (struct product_kind){TYPE_F64, 8, row_f64}
                         : (struct product_kind){TYPE_F32, 4, row_f32};
}

/* ---- precision ---- */

static int asked_precision(const struct hlo_instr *instr) {
    struct int_list list = instr_ints(instr, ATTR_OPERAND_PRECISION);
    int most = ENUM_PRECISION_DEFAULT;

    for (int i = 0; i < list.count; i++) {
        if (list.v[i] == ENUM_PRECISION_HIGHEST) return ENUM_PRECISION_HIGHEST;
        if (list.v[i] == ENUM_PRECISION_HIGH) most = ENUM_PRECISION_HIGH;
    }
    return most;
}

/* Narrower floats but f16 are one bf16 part. */
static bool has_parts(enum element_type type) {
    return type == TYPE_F32 || (element_type_is_float(type) && element_type_size(type) <= 2);
}

enum product_parts product_parts(const struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    int option = e->options->matmul_precision, asked = asked_precision(instr);
    enum element_type a = ops[0]->shape->type, b = ops[1]->shape->type;

    if (a != TYPE_F32 && b != TYPE_F32) return PRODUCT_EXACT;
    if (!has_parts(a) || !has_parts(b) || a == TYPE_F16 || b == TYPE_F16) return PRODUCT_EXACT;
    switch (instr_int(instr, ATTR_ALGORITHM, ENUM_DOT_ALGORITHM_UNSET)) {
    case ENUM_DOT_ALGORITHM_BF16_BF16_BF16:
    case ENUM_DOT_ALGORITHM_BF16_BF16_F32: return PRODUCT_BF16;
    case ENUM_DOT_ALGORITHM_BF16_BF16_F32_X3: return PRODUCT_SPLIT;
    default: break;
    }
    if (option != ENUM_PRECISION_DEFAULT && option != ENUM_PRECISION_HIGH) return PRODUCT_EXACT;
    if (asked == ENUM_PRECISION_HIGHEST) return PRODUCT_EXACT;
    return option == ENUM_PRECISION_HIGH || asked == ENUM_PRECISION_HIGH ? PRODUCT_SPLIT
                                                                         : PRODUCT_BF16;
}

/* ---- conversion to and from the sum's type ---- */

static void flush(enum element_type type, int n, union scalar *x) {
    for (int k = 0; k < n; k++) {
        if (type == TYPE_F32 && fabsf(x[k].f) < FLT_MIN)
            x[k].f = copysignf(0.0f, x[k].f);
        else if (type == TYPE_F64 && fabs(x[k].d) < DBL_MIN)
            x[k].d = copysign(0.0, x[k].d);
    }
}

static void *convert_all(struct eval *e, const struct hlo_instr *instr, const struct literal *in,
                         struct product_kind kind) {
    void *out = eval_scratch(e, instr, in->shape->count, (size_t)kind.size);
    union scalar block[EVAL_BLOCK];
    int64_t count = in->shape->count;

    for (int64_t start = 0; out && start < count; start += EVAL_BLOCK) {
        int n = (int)(count - start < EVAL_BLOCK ? count - start : EVAL_BLOCK);

        scalar_load(in->shape->type, in->data, start, n, block);
        scalar_convert(in->shape->type, kind.type, n, block, block);
        flush(kind.type, n, block);
        scalar_store(kind.type, out, start, n, block);
    }
    return out;
}

void product_store(struct literal *out, struct product_kind kind, const void *in) {
    union scalar block[EVAL_BLOCK];
    int64_t count = out->shape->count;

    for (int64_t start = 0; start < count; start += EVAL_BLOCK) {
        int n = (int)(count - start < EVAL_BLOCK ? count - start : EVAL_BLOCK);

        scalar_load(kind.type, in, start, n, block);
        flush(kind.type, n, block);
        scalar_convert(kind.type, out->shape->type, n, block, block);
        scalar_store(out->shape->type, out->data, start, n, block);
    }
}

void product_split(float *values, float *rest, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float high = number_bf16_to_float(number_float_to_bf16(values[i]));

        if (rest) {
            float low = isfinite(high) ? values[i] - high : 0.0f;

            rest[i] = number_bf16_to_float(number_float_to_bf16(low));
        }
        values[i] = high;
    }
}

/* An operand converted, and its dimensions put in the order that the loops read. */
static void *pack(struct eval *e, const struct hlo_instr *instr, const struct literal *in,
                  const void *converted, struct product_kind kind, int rank, const int *order) {
    int64_t strides[SHAPE_MAX_RANK], dims[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    void *out = eval_scratch(e, instr, in->shape->count, (size_t)kind.size);

    if (!out) return NULL;
    row_strides(in->shape, strides);
    for (int i = 0; i < rank; i++) {
        dims[i] = in->shape->dims[order[i]];
        to[i] = strides[order[i]];
    }
    strided_copy(out, converted, kind.size, rank, dims, 0, to);
    return out;
}

void *product_pack(struct eval *e, const struct hlo_instr *instr, const struct literal *in,
                   struct product_kind kind, const int *order) {
    void *converted = convert_all(e, instr, in, kind), *out = NULL;

    if (converted) out = pack(e, instr, in, converted, kind, in->shape->rank, order);
    free(converted);
    return out;
}

/* ---- dot ---- */

struct dot {
    struct int_list lhs_batch, rhs_batch, lhs_contract, rhs_contract, group;
    int64_t batch, rows, depth, columns;
    int lhs_order[SHAPE_MAX_RANK], rhs_order[SHAPE_MAX_RANK];
    int nfree; /* lhs free dimensions, after the batch ones in lhs_order */
};

static bool dims_fit(const struct shape *a, struct int_list x, const struct shape *b,
                     struct int_list y) {
    if (x.count != y.count) return false;
    for (int i = 0; i < x.count; i++)
        if (x.v[i] < 0 || x.v[i] >= a->rank || y.v[i] < 0 || y.v[i] >= b->rank ||
            a->dims[x.v[i]] != b->dims[y.v[i]])
            return false;
    return true;
}

/* batch, free, contracting for the lhs; group, batch, contracting, free for the rhs. */
static bool dot_init(struct dot *d, const struct hlo_instr *instr, struct literal **ops) {
    const struct shape *a = ops[0]->shape, *b = ops[1]->shape;
    int l = 0, r = 0;

    d->lhs_batch = instr_ints(instr, ATTR_LHS_BATCH_DIMS);
    d->rhs_batch = instr_ints(instr, ATTR_RHS_BATCH_DIMS);
    d->lhs_contract = instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS);
    d->rhs_contract = instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS);
    d->group = instr_ints(instr, ATTR_RHS_GROUP_DIMS);
    if (!dims_fit(a, d->lhs_batch, b, d->rhs_batch) ||
        !dims_fit(a, d->lhs_contract, b, d->rhs_contract) ||
        d->lhs_batch.count + d->lhs_contract.count > a->rank ||
        d->rhs_batch.count + d->rhs_contract.count + d->group.count > b->rank)
        return false;
    d->batch = d->rows = d->depth = d->columns = 1;
    for (int i = 0; i < d->group.count; i++)
        d->rhs_order[r++] = (int)d->group.v[i];
    for (int i = 0; i < d->lhs_batch.count; i++) {
        d->lhs_order[l++] = (int)d->lhs_batch.v[i];
        d->rhs_order[r++] = (int)d->rhs_batch.v[i];
        d->batch *= a->dims[d->lhs_batch.v[i]];
    }
    for (int i = 0; i < a->rank; i++)
        if (!int_list_has(d->lhs_batch, i) && !int_list_has(d->lhs_contract, i)) {
            d->lhs_order[l++] = i;
            d->nfree++;
            d->rows *= a->dims[i];
        }
    for (int i = 0; i < d->lhs_contract.count; i++) {
        d->lhs_order[l++] = (int)d->lhs_contract.v[i];
        d->rhs_order[r++] = (int)d->rhs_contract.v[i];
        d->depth *= a->dims[d->lhs_contract.v[i]];
    }
    for (int i = 0; i < b->rank; i++)
        if (!int_list_has(d->rhs_batch, i) && !int_list_has(d->rhs_contract, i) &&
            !int_list_has(d->group, i)) {
            d->rhs_order[r++] = i;
            d->columns *= b->dims[i];
        }
    return l == a->rank && r == b->rank;
}

/* c[batch][rows][columns] += a[batch][rows][depth] b[batch][depth][columns] */
static bool multiply(struct eval *e, const struct hlo_instr *instr, const struct dot *d,
                     struct product_kind kind, char *c, const char *a, const char *b) {
    for (int64_t i = 0; i < d->batch * d->rows; i++) {
        const char *x = a + i * d->depth * kind.size;
        const char *w = b + i / d->rows * d->depth * d->columns * kind.size;
        char *row = c + i * d->columns * kind.size;

        if (i % 64 == 0 && !eval_charge(e, instr, d->depth)) return false;
        for (int64_t k = 0; k < d->depth; k++)
            kind.row(row, x + k * kind.size, w + k * d->columns * kind.size, d->columns);
    }
    return true;
}

/* Products of the operands' parts, smallest first. */
static bool multiply_parts(struct eval *e, const struct hlo_instr *instr, const struct dot *d,
                           struct product_kind kind, char *c, char *a, char *b,
                           enum product_parts parts) {
    int64_t na = d->batch * d->rows * d->depth, nb = d->batch * d->depth * d->columns;
    char *low_a = NULL, *low_b = NULL;
    bool good = true;

    if (parts == PRODUCT_EXACT) return multiply(e, instr, d, kind, c, a, b);
    if (parts == PRODUCT_SPLIT) {
        low_a = eval_scratch(e, instr, na, sizeof(float));
        low_b = eval_scratch(e, instr, nb, sizeof(float));
        good = low_a && low_b;
    }
    if (good) {
        product_split((float *)a, (float *)low_a, na);
        product_split((float *)b, (float *)low_b, nb);
    }
    if (good && low_a)
        good = multiply(e, instr, d, kind, c, low_a, b) && multiply(e, instr, d, kind, c, a, low_b);
    good = good && multiply(e, instr, d, kind, c, a, b);
    free(low_a);
    free(low_b);
    return good;
}

/* The product of converted operands. */
static struct literal *finish_dot(struct eval *e, const struct hlo_instr *instr,
                                  struct literal **ops, struct product_kind kind, const void *lhs,
                                  const void *rhs) {
    struct dot d = {0};
    char *a = NULL, *b = NULL, *c = NULL;
    struct literal *result = NULL;

    if (!dot_init(&d, instr, ops) || d.group.count ||
        d.batch * d.rows * d.columns != instr->shape->count)
        return eval_error(e, instr, "dimension numbers do not fit together");
    a = pack(e, instr, ops[0], lhs, kind, ops[0]->shape->rank, d.lhs_order);
    b = pack(e, instr, ops[1], rhs, kind, ops[1]->shape->rank, d.rhs_order);
    c = eval_scratch(e, instr, instr->shape->count, (size_t)kind.size);
    if (a && b && c && multiply_parts(e, instr, &d, kind, c, a, b, product_parts(e, instr, ops)))
        result = eval_new_uninit(e, instr, instr->shape);
    if (result) product_store(result, kind, c);
    free(a);
    free(b);
    free(c);
    return result;
}

struct literal *eval_dot(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct product_kind kind =
        product_kind(ops[0]->shape->type, ops[1]->shape->type, instr->shape->type);
    void *a, *b;
    struct literal *result = NULL;

    if (instr->noperands != 2) return eval_error(e, instr, "sparse operands have no evaluation");
    a = convert_all(e, instr, ops[0], kind);
    b = convert_all(e, instr, ops[1], kind);
    if (a && b) result = finish_dot(e, instr, ops, kind, a, b);
    free(a);
    free(b);
    return result;
}

/* ---- scaled-dot ---- */

/* Multiplies an operand by its scales, each of which stands for a block of it. */
static bool apply_scales(struct eval *e, const struct hlo_instr *instr, const struct literal *in,
                         const struct literal *scales, struct product_kind kind, void *values) {
    const struct shape *shape = in->shape, *small = scales->shape;
    int64_t index[SHAPE_MAX_RANK] = {0}, strides[SHAPE_MAX_RANK], done = 0;
    struct scalar_op product = {.opcode = OP_MULTIPLY, .in = kind.type, .out = kind.type};
    union scalar x, factor;

    row_strides(small, strides);
    for (int i = 0; small->rank && i < shape->rank; i++)
        if (small->rank != shape->rank || small->dims[i] < 1 || shape->dims[i] % small->dims[i]) {
            eval_error(e, instr, "scales do not divide the operand into blocks");
            return false;
        }
    if (shape->count == 0) return true;
    do {
        int64_t at = 0;

        for (int i = 0; i < small->rank; i++)
            at += index[i] / (shape->dims[i] / small->dims[i]) * strides[i];
        scalar_load(small->type, scales->data, at, 1, &factor);
        scalar_convert(small->type, kind.type, 1, &factor, &factor);
        scalar_load(kind.type, values, done, 1, &x);
        scalar_op_run(&product, 1, &x, &x, &factor, &factor);
        scalar_store(kind.type, values, done++, 1, &x);
    } while (index_next(shape->rank, shape->dims, index));
    return true;
}

struct literal *eval_scaled_dot(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops) {
    struct product_kind kind =
        product_kind(ops[0]->shape->type, ops[1]->shape->type, instr->shape->type);
    void *a = convert_all(e, instr, ops[0], kind), *b = convert_all(e, instr, ops[1], kind);
    struct literal *result = NULL;

    if (a && b && apply_scales(e, instr, ops[0], ops[2], kind, a) &&
        apply_scales(e, instr, ops[1], ops[3], kind, b))
        result = finish_dot(e, instr, ops, kind, a, b);
    free(a);
    free(b);
    return result;
}

/* ---- ragged-dot ---- */

struct ragged {
    int64_t groups, outer, extent, inner; /* where the ragged dimension stands among its kind */
    int64_t *ends;                        /* running sums of the group sizes */
    bool contracting;
};

/* Group of a position along the ragged dimension; -1 past the last. */
static int64_t group_of(const struct ragged *r, int64_t flat) {
    int64_t at = flat / r->inner % r->extent;

    for (int64_t g = 0; g < r->groups; g++)
        if (at < r->ends[g]) return g;
    return -1;
}

/* False where the ragged dimension is not one of the free or contracting ones. */
static bool ragged_init(struct ragged *r, const struct dot *d, const struct hlo_instr *instr,
                        struct literal **ops) {
    struct int_list ragged = instr_ints(instr, ATTR_LHS_RAGGED_DIMS);
    int nbatch = d->lhs_batch.count, rank = ops[0]->shape->rank, end;
    int64_t total = 0;

    if (ragged.count != 1 || ops[2]->shape->rank != 1) return false;
    r->groups = ops[2]->shape->dims[0];
    r->inner = 1;
    for (int i = nbatch; i < rank; i++) {
        if (d->lhs_order[i] != ragged.v[0]) continue;
        r->contracting = i >= nbatch + d->nfree;
        r->extent = ops[0]->shape->dims[d->lhs_order[i]];
        end = r->contracting ? rank : nbatch + d->nfree;
        for (int j = i + 1; j < end; j++)
            r->inner *= ops[0]->shape->dims[d->lhs_order[j]];
    }
    for (int64_t g = 0; g < r->groups; g++) {
        int64_t size = clamp_int(literal_get_int(ops[2], g), 0, INT32_MAX);

        r->ends[g] = total += size;
    }
    return r->extent > 0 && r->contracting == (d->group.count == 0);
}

static void multiply_ragged(const struct dot *d, const struct ragged *r, struct product_kind kind,
                            char *c, const char *a, const char *b) {
    int64_t plane = d->depth * d->columns, part = d->batch * d->rows;

    for (int64_t i = 0; i < part; i++) {
        int64_t batch = i / d->rows, group = r->contracting ? 0 : group_of(r, i % d->rows);

        for (int64_t k = 0; k < d->depth && group >= 0; k++) {
            int64_t g = r->contracting ? group_of(r, k) : group;
            const char *w;
            char *row;

            if (g < 0) continue;
            w = b + ((r->contracting ? batch : g * d->batch + batch) * plane + k * d->columns) *
                        kind.size;
            row = c + ((r->contracting ? g * part : 0) + i) * d->columns * kind.size;
            kind.row(row, a + (i * d->depth + k) * kind.size, w, d->columns);
        }
    }
}

struct literal *eval_ragged_dot(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops) {
    struct product_kind kind =
        product_kind(ops[0]->shape->type, ops[1]->shape->type, instr->shape->type);
    struct dot d = {0};
    struct ragged r = {0};
    char *a = NULL, *b = NULL, *c = NULL;
    struct literal *result = NULL;
    int64_t count;

    r.ends = eval_scratch(e, instr, ops[2]->shape->count, sizeof *r.ends);
    if (!r.ends) return NULL;
    if (!dot_init(&d, instr, ops) || !ragged_init(&r, &d, instr, ops)) {
        free(r.ends);
        return eval_error(e, instr, "no evaluation for these ragged dimensions");
    }
    count = d.batch * d.rows * d.columns * (r.contracting ? r.groups : 1);
    if (count == instr->shape->count && eval_charge(e, instr, d.batch * d.rows * d.depth)) {
        a = product_pack(e, instr, ops[0], kind, d.lhs_order);
        b = product_pack(e, instr, ops[1], kind, d.rhs_order);
        c = eval_scratch(e, instr, count, (size_t)kind.size);
        if (a && b && c) result = eval_new_uninit(e, instr, instr->shape);
    } else if (count != instr->shape->count) {
        eval_error(e, instr, "dimension numbers do not fit together");
    }
    if (result) {
        multiply_ragged(&d, &r, kind, c, a, b);
        product_store(result, kind, c);
    }
    free(a);
    free(b);
    free(c);
    free(r.ends);
    return result;
}
