/* sort, topk and scan. */
#include <stdlib.h>
#include <string.h>

#include "ir/custom_call.h"
#include "ir/eval_internal.h"

/* Orders positions of one row; *good turns false where a comparison failed. */
typedef bool before_fn(void *context, int64_t a, int64_t b, bool *good);

/* Bottom-up merge sort: stable, and at peace with comparators that are no order. */
static bool merge_sort(int64_t *order, int64_t *spare, int64_t count, before_fn *before,
                       void *context) {
    bool good = true;

    for (int64_t width = 1; width < count && good; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = start + 2 * width < count ? start + 2 * width : count;
            int64_t left = start, right = middle;

            for (int64_t k = start; k < end; k++) {
                bool take_right = left >= middle || (right < end && before(context, order[right],
                                                                           order[left], &good));

                spare[k] = take_right ? order[right++] : order[left++];
            }
        }
        memcpy(order, spare, (size_t)count * sizeof *order);
    }
    return good;
}

/* ---- sort ---- */

struct sorter {
    struct scalar_fn *fn;
    int n;
    int64_t length;
    union scalar *row;         /* n * length */
    const union scalar **args; /* 2 n: left and right of each operand */
    int64_t *order, *spare;
};

static bool sort_before(void *context, int64_t a, int64_t b, bool *good) {
    struct sorter *s = context;
    union scalar keep, *outs[1] = {&keep};

    if (!*good) return false;
    for (int j = 0; j < s->n; j++) {
        s->args[2 * j] = &s->row[j * s->length + a];
        s->args[2 * j + 1] = &s->row[j * s->length + b];
    }
    *good = scalar_fn_run(s->fn, 1, s->args, outs);
    return *good && keep.i != 0;
}

static bool sort_row(struct sorter *s, struct literal **ops, struct literal **results, int64_t base,
                     int64_t stride) {
    for (int j = 0; j < s->n; j++)
        for (int64_t i = 0; i < s->length; i++)
            scalar_load(ops[j]->shape->type, ops[j]->data, base + i * stride, 1,
                        &s->row[j * s->length + i]);
    for (int64_t i = 0; i < s->length; i++)
        s->order[i] = i;
    if (!merge_sort(s->order, s->spare, s->length, sort_before, s)) return false;
    for (int j = 0; j < s->n; j++) {
        int size = element_type_size(ops[j]->shape->type);

        for (int64_t i = 0; i < s->length; i++)
            memcpy((char *)results[j]->data + (base + i * stride) * size,
                   (char *)ops[j]->data + (base + s->order[i] * stride) * size, (size_t)size);
    }
    return true;
}

static bool sort_rows(struct eval *e, const struct hlo_instr *instr, struct sorter *s,
                      struct literal **ops, struct literal **results, int64_t dim) {
    const struct shape *shape = ops[0]->shape;
    int64_t inner = 1, outer = 1;

    for (int i = 0; i < shape->rank; i++) {
        if (i < dim)
            outer *= shape->dims[i];
        else if (i > dim)
            inner *= shape->dims[i];
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            if (!eval_charge(e, instr, s->length) ||
                !sort_row(s, ops, results, o * s->length * inner + i, inner))
                return false;
    return true;
}

static bool sort_init(struct sorter *s, struct eval *e, const struct hlo_instr *instr) {
    s->fn = scalar_fn_new(e, instr, instr->called[0], false);
    s->row = eval_scratch(e, instr, s->n * s->length, sizeof *s->row);
    s->args = eval_scratch(e, instr, 2 * s->n, sizeof *s->args);
    s->order = eval_scratch(e, instr, s->length, sizeof *s->order);
    s->spare = eval_scratch(e, instr, s->length, sizeof *s->spare);
    return s->fn && s->row && s->args && s->order && s->spare;
}

struct literal *eval_sort(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *shape = ops[0]->shape;
    int64_t dim = dims.count ? dims.v[0] : shape->rank - 1;
    struct sorter s = {0};
    struct literal **results, *result = NULL;
    bool good = true;

    s.n = instr->noperands;
    if (shape->rank == 0 || dim < 0 || dim >= shape->rank)
        return s.n == 1 ? literal_ref(ops[0]) : eval_tuple(e, instr, ops);
    if (instr->ncalled != 1 || instr->called[0]->nparameters != 2 * s.n)
        return eval_error(e, instr, "the computation does not compare %d values", s.n);
    for (int j = 1; j < s.n; j++)
        if (!shape_same_dims(ops[j]->shape, shape))
            return eval_error(e, instr, "operands differ in shape");
    s.length = shape->dims[dim];
    results = eval_scratch(e, instr, s.n, sizeof *results);
    for (int j = 0; results && good && j < s.n; j++)
        good = (results[j] = eval_new_uninit(e, instr, ops[j]->shape)) != NULL;
    good = good && results && sort_init(&s, e, instr) && sort_rows(e, instr, &s, ops, results, dim);
    if (good)
        result = shape_is_tuple(instr->shape) ? eval_new_tuple(e, instr, instr->shape, results)
                                              : results[0];
    for (int j = 0; results && !good && j < s.n; j++)
        eval_drop(e, results[j]);
    free(results);
    scalar_fn_free(s.fn);
    free(s.row);
    free(s.args);
    free(s.order);
    free(s.spare);
    return result;
}

/* ---- topk ---- */

struct top {
    const int64_t *keys;
    bool largest;
};

static bool top_before(void *context, int64_t a, int64_t b, bool *good) {
    struct top *t = context;

    (void)good;
    return t->largest ? t->keys[a] > t->keys[b] : t->keys[a] < t->keys[b];
}

/* Integers in the total order of the values. */
static int64_t order_key(enum element_type type, const union scalar *x) {
    double d;
    int64_t bits;

    switch (scalar_class(type)) {
    case CLASS_INT: return type == TYPE_U64 ? (int64_t)(x->u ^ (1ull << 63)) : x->i;
    case CLASS_F64: d = x->d; break;
    default: d = x->f; break;
    }
    memcpy(&bits, &d, sizeof bits);
    return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

static bool top_rows(struct eval *e, const struct hlo_instr *instr, const struct literal *in,
                     struct literal *values, struct literal *indices) {
    const struct shape *shape = in->shape;
    int64_t n = shape->dims[shape->rank - 1], k = values->shape->dims[shape->rank - 1];
    int64_t rows = n ? shape->count / n : 0;
    int size = element_type_size(shape->type);
    int64_t *memory = eval_scratch(e, instr, 3 * n, sizeof *memory);
    struct top top = {memory, topk_is_largest(instr)};
    union scalar x;

    for (int64_t r = 0; memory && r < rows; r++) {
        for (int64_t i = 0; i < n; i++) {
            scalar_load(shape->type, in->data, r * n + i, 1, &x);
            memory[i] = order_key(shape->type, &x);
            memory[n + i] = i;
        }
        merge_sort(memory + n, memory + 2 * n, n, top_before, &top);
        for (int64_t i = 0; i < k; i++) {
            memcpy((char *)values->data + (r * k + i) * size,
                   (char *)in->data + (r * n + memory[n + i]) * size, (size_t)size);
            literal_set_int(indices, r * k + i, memory[n + i]);
        }
    }
    free(memory);
    return memory != NULL;
}

struct literal *eval_topk(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    const struct shape *shape = instr->shape, *in = ops[0]->shape;
    struct literal *result;

    if (!shape_is_tuple(shape) || shape->ntuple != 2 || in->rank < 1 ||
        shape->tuple[0]->rank != in->rank || shape->tuple[1]->rank != in->rank ||
        shape->tuple[0]->dims[in->rank - 1] > in->dims[in->rank - 1] ||
        shape->tuple[0]->count != shape->tuple[1]->count)
        return eval_error(e, instr, "the result does not fit the operand");
    result = eval_new(e, instr, shape);
    if (result && !top_rows(e, instr, ops[0], result->elements[0], result->elements[1])) {
        eval_drop(e, result);
        return NULL;
    }
    return result;
}

/* ---- scan ---- */

/* Slice `step` of an array along `dim`, or its writing back. */
static void move_slice(struct literal *array, struct literal *slice, int64_t dim, int64_t step,
                       bool out) {
    const struct shape *shape = array->shape;
    int64_t outer = 1, inner = element_type_size(shape->type), length = shape->dims[dim];

    for (int i = 0; i < shape->rank; i++) {
        if (i < dim)
            outer *= shape->dims[i];
        else if (i > dim)
            inner *= shape->dims[i];
    }
    for (int64_t o = 0; o < outer; o++) {
        char *a = (char *)array->data + (o * length + step) * inner;
        char *s = (char *)slice->data + o * inner;

        if (out)
            memcpy(s, a, (size_t)inner);
        else
            memcpy(a, s, (size_t)inner);
    }
}

struct scan {
    int ninputs, ncarries, noutputs;
    int64_t dim, length;
    struct literal **args;   /* inputs' slices, then carries */
    struct literal *outputs; /* the result */
};

/* One step: (slices, carries) -> (output slices, carries). */
static bool scan_step(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                      struct scan *s, struct literal **carries, int64_t step) {
    const struct hlo_computation *body = instr->called[0];
    struct literal *result;

    for (int k = 0; k < s->ninputs; k++) {
        const struct shape *slice = body->parameters[k]->shape;

        if (slice->count * s->length != ops[k]->shape->count) {
            eval_error(e, instr, "the computation's parameter %d is no slice of the operand", k);
            return false;
        }
        s->args[k] = eval_new(e, instr, slice);
        if (!s->args[k]) return false;
        move_slice(ops[k], s->args[k], s->dim, step, true);
    }
    for (int k = 0; k < s->ncarries; k++) {
        s->args[s->ninputs + k] = carries[k];
        carries[k] = NULL;
    }
    result = eval_computation(e, body, s->ninputs + s->ncarries, s->args);
    if (!result) return false;
    for (int k = 0; k < s->noutputs + s->ncarries; k++) {
        struct literal *leaf = result->elements ? result->elements[k] : result;

        if (k < s->noutputs)
            move_slice(s->outputs->elements ? s->outputs->elements[k] : s->outputs, leaf, s->dim,
                       step, false);
        else
            carries[k - s->noutputs] = literal_ref(leaf);
    }
    eval_drop(e, result);
    return true;
}

static bool scan_fits(const struct hlo_instr *instr, struct literal **ops, const struct scan *s) {
    const struct hlo_computation *body = instr->ncalled == 1 ? instr->called[0] : NULL;
    const struct shape *shape = instr->shape, *root;
    int results = shape_is_tuple(shape) ? shape->ntuple : 1;

    if (!body || body->nparameters != instr->noperands || s->ninputs < 1 || s->noutputs < 0 ||
        s->dim < 0 || s->dim >= ops[0]->shape->rank || s->noutputs + s->ncarries != results)
        return false;
    root = body->root->shape;
    if ((shape_is_tuple(root) ? root->ntuple : 1) != results) return false;
    for (int k = 0; k < s->noutputs; k++) {
        const struct shape *out = shape_is_tuple(shape) ? shape->tuple[k] : shape;
        const struct shape *slice = shape_is_tuple(root) ? root->tuple[k] : root;

        if (!shape_is_array(out) || s->dim >= out->rank || out->dims[s->dim] != s->length ||
            slice->count * s->length != out->count)
            return false;
    }
    for (int k = 1; k < s->ninputs; k++)
        if (s->dim >= ops[k]->shape->rank || ops[k]->shape->dims[s->dim] != s->length) return false;
    return true;
}

struct literal *eval_scan(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct scan s = {0};
    struct literal **carries, *result = NULL;
    bool reverse = instr_bool(instr, ATTR_IS_REVERSE, false), good;

    s.ncarries = (int)clamp_int(instr_int(instr, ATTR_NUM_CARRIES, instr->noperands / 2), 0,
                                instr->noperands);
    s.ninputs = instr->noperands - s.ncarries;
    s.noutputs = (shape_is_tuple(instr->shape) ? instr->shape->ntuple : 1) - s.ncarries;
    s.dim = dims.count ? dims.v[0] : 0;
    if (s.dim >= 0 && s.dim < ops[0]->shape->rank) s.length = ops[0]->shape->dims[s.dim];
    if (!scan_fits(instr, ops, &s))
        return eval_error(e, instr, "operands, computation and result do not fit together");
    s.args = eval_scratch(e, instr, instr->noperands, sizeof *s.args);
    carries = eval_scratch(e, instr, s.ncarries, sizeof *carries);
    s.outputs = eval_new(e, instr, instr->shape);
    good = s.args && carries && s.outputs;
    for (int k = 0; good && k < s.ncarries; k++)
        carries[k] = literal_ref(ops[s.ninputs + k]);
    for (int64_t step = 0; good && step < s.length; step++)
        good = eval_charge(e, instr, 1) &&
               scan_step(e, instr, ops, &s, carries, reverse ? s.length - 1 - step : step);
    for (int k = 0; good && s.outputs->elements && k < s.ncarries; k++) {
        eval_drop(e, s.outputs->elements[s.noutputs + k]);
        s.outputs->elements[s.noutputs + k] = carries[k];
        carries[k] = NULL;
    }
    if (good)
        result = s.outputs;
    else
        eval_drop(e, s.outputs);
    for (int k = 0; carries && k < s.ncarries; k++)
        eval_drop(e, carries[k]);
    for (int k = 0; s.args && k < instr->noperands; k++)
        eval_drop(e, s.args[k]);
    free(carries);
    free(s.args);
    return result;
}
