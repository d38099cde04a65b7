/* Operations that apply a computation element by element: reduce, reduce-window,
 * select-and-scatter, map, sort, scan; and topk. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"

/* n accumulators and n incoming values, EVAL_BLOCK of each. */
struct combiner {
    int n;
    struct scalar_fn *fn;
    union scalar *acc, *in;    /* n * EVAL_BLOCK each */
    const union scalar **args; /* acc, then in */
    union scalar **outs;       /* acc */
};

static void combiner_free(struct combiner *c) {
    scalar_fn_free(c->fn);
    free(c->acc);
    free(c->in);
    free(c->args);
    free(c->outs);
}

static bool combiner_init(struct combiner *c, struct eval *e, const struct hlo_instr *instr,
                          int called, int n, bool wide) {
    memset(c, 0, sizeof *c);
    c->n = n;
    if (called >= instr->ncalled || instr->called[called]->nparameters != 2 * n) {
        eval_error(e, instr, "the computation does not combine %d values", n);
        return false;
    }
    c->fn = scalar_fn_new(e, instr, instr->called[called], wide);
    c->acc = eval_scratch(e, instr, n, EVAL_BLOCK * sizeof(union scalar));
    c->in = eval_scratch(e, instr, n, EVAL_BLOCK * sizeof(union scalar));
    c->args = eval_scratch(e, instr, 2 * n, sizeof *c->args);
    c->outs = eval_scratch(e, instr, n, sizeof *c->outs);
    if (!c->fn || !c->acc || !c->in || !c->args || !c->outs) return false;
    if (scalar_fn_result_count(c->fn) != n) {
        eval_error(e, instr, "the computation does not return %d values", n);
        return false;
    }
    for (int k = 0; k < n; k++) {
        c->args[k] = c->outs[k] = c->acc + k * EVAL_BLOCK;
        c->args[n + k] = c->in + k * EVAL_BLOCK;
    }
    return true;
}

static bool combine(struct combiner *c, int count) {
    return scalar_fn_run(c->fn, count, c->args, c->outs);
}

/* New arrays for the leaves of the result: one, or a tuple's. */
static struct literal **new_results(struct eval *e, const struct hlo_instr *instr, int n) {
    struct literal **results = eval_scratch(e, instr, n, sizeof *results);
    const struct shape *shape = instr->shape;

    if (results && (shape_is_tuple(shape) ? shape->ntuple : 1) != n) {
        eval_error(e, instr, "the result does not have %d parts", n);
        free(results);
        return NULL;
    }
    for (int k = 0; results && k < n; k++) {
        results[k] = eval_new(e, instr, shape_is_tuple(shape) ? shape->tuple[k] : shape);
        if (results[k]) continue;
        for (int j = 0; j < k; j++)
            eval_drop(e, results[j]);
        free(results);
        return NULL;
    }
    return results;
}

static struct literal *finish_results(struct eval *e, const struct hlo_instr *instr,
                                      struct literal **results, int n, bool good) {
    struct literal *result = NULL;

    if (results && good)
        result = shape_is_tuple(instr->shape) ? eval_new_tuple(e, instr, instr->shape, results)
                                              : results[0];
    for (int k = 0; results && !good && k < n; k++)
        eval_drop(e, results[k]);
    free(results);
    return result;
}

static void fill_init(struct combiner *c, struct literal **inits, int count) {
    for (int j = 0; j < c->n; j++) {
        union scalar *acc = c->acc + j * EVAL_BLOCK;

        scalar_load(inits[j]->shape->type, inits[j]->data, 0, 1, acc);
        for (int k = 1; k < count; k++)
            acc[k] = acc[0];
    }
}

static void store_acc(struct combiner *c, struct literal **results, int64_t start, int count) {
    for (int j = 0; j < c->n; j++)
        scalar_store(results[j]->shape->type, results[j]->data, start, count,
                     c->acc + j * EVAL_BLOCK);
}

/* ---- reduce ---- */

struct reduce_dims {
    int nkept, nreduced;
    int64_t kept[SHAPE_MAX_RANK], kept_strides[SHAPE_MAX_RANK];
    int64_t reduced[SHAPE_MAX_RANK], reduced_strides[SHAPE_MAX_RANK];
};

static void split_reduce_dims(struct reduce_dims *d, const struct hlo_instr *instr,
                              const struct literal *in) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t strides[SHAPE_MAX_RANK];

    memset(d, 0, sizeof *d);
    row_strides(in->shape, strides);
    for (int i = 0; i < in->shape->rank; i++) {
        if (int_list_has(dims, i)) {
            d->reduced[d->nreduced] = live_size(in, i);
            d->reduced_strides[d->nreduced++] = strides[i];
        } else {
            d->kept[d->nkept] = in->shape->dims[i];
            d->kept_strides[d->nkept++] = strides[i];
        }
    }
}

static int64_t dot_index(int rank, const int64_t *index, const int64_t *strides) {
    int64_t at = 0;

    for (int i = 0; i < rank; i++)
        at += index[i] * strides[i];
    return at;
}

/* One block of results, each in row-major order of what it reduces. */
static bool reduce_block(struct combiner *c, const struct reduce_dims *d, struct literal **ops,
                         const int64_t *base, int count) {
    int64_t index[SHAPE_MAX_RANK] = {0};

    for (int i = 0; i < d->nreduced; i++)
        if (d->reduced[i] == 0) return true;
    do {
        int64_t offset = dot_index(d->nreduced, index, d->reduced_strides);

        for (int j = 0; j < c->n; j++)
            scalar_load_at(ops[j]->shape->type, ops[j]->data, base, offset, count,
                           c->in + j * EVAL_BLOCK);
        if (!combine(c, count)) return false;
    } while (index_next(d->nreduced, d->reduced, index));
    return true;
}

static bool reduce_all(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                       struct combiner *c, struct literal **results) {
    struct reduce_dims d;
    int64_t index[SHAPE_MAX_RANK] = {0}, base[EVAL_BLOCK];
    int64_t total = results[0]->shape->count;

    split_reduce_dims(&d, instr, ops[0]);
    for (int64_t start = 0; start < total; start += EVAL_BLOCK) {
        int count = (int)(total - start < EVAL_BLOCK ? total - start : EVAL_BLOCK);

        for (int k = 0; k < count; k++) {
            base[k] = dot_index(d.nkept, index, d.kept_strides);
            index_next(d.nkept, d.kept, index);
        }
        fill_init(c, ops + c->n, count);
        if (!eval_charge(e, instr, ops[0]->shape->count / (total / EVAL_BLOCK + 1)) ||
            !reduce_block(c, &d, ops, base, count))
            return false;
        store_acc(c, results, start, count);
    }
    return true;
}

struct literal *eval_reduce(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    int n = instr->noperands / 2;
    struct combiner c;
    struct literal **results = NULL, *result;
    bool good = combiner_init(&c, e, instr, 0, n, true);

    for (int k = 1; good && k < n; k++)
        if (!shape_same_dims(ops[k]->shape, ops[0]->shape)) {
            eval_error(e, instr, "operands differ in shape");
            good = false;
        }
    if (good) results = new_results(e, instr, n);
    good = results && reduce_all(e, instr, ops, &c, results);
    result = finish_results(e, instr, results, n, good);
    combiner_free(&c);
    return result;
}

/* ---- windows ---- */

static const struct window_dim unit_window = {1, 1, 0, 0, 1, 1, false};

static struct window_dim window_dim(const struct hlo_instr *instr, int dim) {
    const struct window *window = instr_window(instr);
    struct window_dim w = window && dim < window->count ? window->v[dim] : unit_window;

    if (w.stride < 1) w.stride = 1;
    if (w.lhs_dilate < 1) w.lhs_dilate = 1;
    if (w.rhs_dilate < 1) w.rhs_dilate = 1;
    return w;
}

struct windows {
    int rank;
    struct window_dim dim[SHAPE_MAX_RANK];
    int64_t sizes[SHAPE_MAX_RANK], limits[SHAPE_MAX_RANK], strides[SHAPE_MAX_RANK];
};

static void windows_init(struct windows *w, const struct hlo_instr *instr,
                         const struct literal *in) {
    w->rank = in->shape->rank;
    row_strides(in->shape, w->strides);
    for (int i = 0; i < w->rank; i++) {
        w->dim[i] = window_dim(instr, i);
        w->sizes[i] = w->dim[i].size;
        w->limits[i] = live_size(in, i);
    }
}

/* Place of a window's element in the operand, or -1 where it is padding or a gap. */
static inline int64_t window_at(const struct windows *w, const int64_t *out,
                                const int64_t *position) {
    int64_t at = 0;

    for (int i = 0; i < w->rank; i++) {
        const struct window_dim *d = &w->dim[i];
        int64_t p = d->reversed ? d->size - 1 - position[i] : position[i];
        int64_t x = out[i] * d->stride + p * d->rhs_dilate - d->pad_low;

        if (x < 0) return -1;
        if (d->lhs_dilate != 1) {
            if (x % d->lhs_dilate) return -1;
            x /= d->lhs_dilate;
        }
        if (x >= w->limits[i]) return -1;
        at += x * w->strides[i];
    }
    return at;
}

static void swap_values(struct combiner *c, const int *picked, int count, union scalar *spare,
                        bool back) {
    for (int j = 0; j < c->n; j++) {
        union scalar *acc = c->acc + j * EVAL_BLOCK, *all = spare + j * EVAL_BLOCK;

        for (int k = 0; k < count; k++) {
            if (back)
                all[picked[k]] = acc[k];
            else
                acc[k] = all[picked[k]];
        }
    }
}

/* Accumulators of a block are in `all`; those whose window has an element here step together. */
static bool window_block(struct combiner *c, const struct windows *w, struct literal **ops,
                         const int64_t (*outs)[SHAPE_MAX_RANK], int count, union scalar *all) {
    int64_t position[SHAPE_MAX_RANK] = {0}, base[EVAL_BLOCK];
    int picked[EVAL_BLOCK];

    for (int i = 0; i < w->rank; i++)
        if (w->sizes[i] == 0) return true;
    do {
        int n = 0;

        for (int k = 0; k < count; k++) {
            int64_t at = window_at(w, outs[k], position);

            if (at < 0) continue;
            picked[n] = k;
            base[n++] = at;
        }
        if (n == 0) continue;
        swap_values(c, picked, n, all, false);
        for (int j = 0; j < c->n; j++)
            scalar_load_at(ops[j]->shape->type, ops[j]->data, base, 0, n, c->in + j * EVAL_BLOCK);
        if (!combine(c, n)) return false;
        swap_values(c, picked, n, all, true);
    } while (index_next(w->rank, w->sizes, position));
    return true;
}

static bool reduce_windows(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                           struct combiner *c, struct literal **results) {
    struct windows w;
    const struct shape *shape = results[0]->shape;
    int64_t index[SHAPE_MAX_RANK] = {0}, cells = 1;
    size_t block = (size_t)c->n * EVAL_BLOCK * sizeof(union scalar);
    int64_t(*outs)[SHAPE_MAX_RANK] = eval_scratch(e, instr, EVAL_BLOCK, sizeof *outs);
    union scalar *all = eval_scratch(e, instr, 1, block);
    bool good = outs && all;

    windows_init(&w, instr, ops[0]);
    for (int i = 0; i < w.rank; i++)
        if (__builtin_mul_overflow(cells, w.sizes[i], &cells)) cells = INT64_MAX / EVAL_BLOCK;
    for (int64_t start = 0; good && start < shape->count; start += EVAL_BLOCK) {
        int count = (int)(shape->count - start < EVAL_BLOCK ? shape->count - start : EVAL_BLOCK);

        for (int k = 0; k < count; k++) {
            memcpy(outs[k], index, sizeof index);
            index_next(shape->rank, shape->dims, index);
        }
        fill_init(c, ops + c->n, count);
        memcpy(all, c->acc, block);
        good = eval_charge(e, instr, cells) &&
               window_block(c, &w, ops, (const int64_t(*)[SHAPE_MAX_RANK])outs, count, all);
        memcpy(c->acc, all, block);
        if (good) store_acc(c, results, start, count);
    }
    free(outs);
    free(all);
    return good;
}

struct literal *eval_reduce_window(struct eval *e, const struct hlo_instr *instr,
                                   struct literal **ops) {
    int n = instr->noperands / 2;
    struct combiner c;
    struct literal **results = NULL, *result;
    bool good = combiner_init(&c, e, instr, 0, n, true);

    for (int k = 0; good && k < n; k++)
        if (!shape_same_dims(ops[k]->shape, ops[0]->shape)) {
            eval_error(e, instr, "operands differ in shape");
            good = false;
        }
    if (good) results = new_results(e, instr, n);
    good = results && reduce_windows(e, instr, ops, &c, results);
    result = finish_results(e, instr, results, n, good);
    combiner_free(&c);
    return result;
}

/* The element that select keeps in the window at `out`; -1 where all of it is padding. *good is
 * false after an error. */
static int64_t select_in_window(struct scalar_fn *select, const struct windows *w,
                                const struct literal *in, const int64_t *out, bool *good) {
    int64_t position[SHAPE_MAX_RANK] = {0}, chosen = -1;
    union scalar current, candidate, keep;
    const union scalar *args[2] = {&current, &candidate};
    union scalar *results[1] = {&keep};

    do {
        int64_t at = window_at(w, out, position);

        if (at < 0) continue;
        scalar_load(in->shape->type, in->data, at, 1, &candidate);
        if (chosen >= 0 && !scalar_fn_run(select, 1, args, results)) {
            *good = false;
            return -1;
        }
        if (chosen < 0 || !keep.i) {
            chosen = at;
            current = candidate;
        }
    } while (index_next(w->rank, w->sizes, position));
    return chosen;
}

static bool select_and_scatter(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                               struct combiner *c, struct scalar_fn *select,
                               struct literal *result) {
    const struct shape *source = ops[1]->shape;
    int64_t index[SHAPE_MAX_RANK] = {0}, done = 0;
    struct windows w;
    bool good = true;

    windows_init(&w, instr, ops[0]);
    scalar_load(ops[2]->shape->type, ops[2]->data, 0, 1, c->in);
    for (int64_t k = 0; k < result->shape->count; k++)
        scalar_store(result->shape->type, result->data, k, 1, c->in);
    for (int i = 0; i < w.rank; i++)
        if (w.sizes[i] < 1) return true;
    if (source->count == 0) return true;
    do {
        int64_t at = select_in_window(select, &w, ops[0], index, &good);

        if (!good || !eval_charge(e, instr, 1)) return false;
        if (at >= 0) { /* scatter(source, so far), as XLA calls it */
            scalar_load(source->type, ops[1]->data, done, 1, c->acc);
            scalar_load(result->shape->type, result->data, at, 1, c->in);
            if (!combine(c, 1)) return false;
            scalar_store(result->shape->type, result->data, at, 1, c->acc);
        }
        done++;
    } while (index_next(source->rank, source->dims, index));
    return true;
}

struct literal *eval_select_and_scatter(struct eval *e, const struct hlo_instr *instr,
                                        struct literal **ops) {
    struct combiner c = {0};
    struct scalar_fn *select = NULL;
    struct literal *result = NULL;

    if (instr->ncalled != 2 || instr->called[0]->nparameters != 2 ||
        ops[1]->shape->rank != ops[0]->shape->rank)
        return eval_error(e, instr, "operands and computations do not fit together");
    select = scalar_fn_new(e, instr, instr->called[0], false);
    if (select && combiner_init(&c, e, instr, 1, 1, false))
        result = eval_new(e, instr, instr->shape);
    if (result && !select_and_scatter(e, instr, ops, &c, select, result)) {
        eval_drop(e, result);
        result = NULL;
    }
    scalar_fn_free(select);
    combiner_free(&c);
    return result;
}

/* ---- map ---- */

static bool map_all(struct scalar_fn *fn, int n, struct literal **ops, struct literal *result,
                    union scalar *values, const union scalar **args) {
    union scalar out[EVAL_BLOCK], *outs[1] = {out};
    int64_t total = result->shape->count;

    for (int64_t start = 0; start < total; start += EVAL_BLOCK) {
        int count = (int)(total - start < EVAL_BLOCK ? total - start : EVAL_BLOCK);

        for (int j = 0; j < n; j++) {
            scalar_load(ops[j]->shape->type, ops[j]->data, start, count, values + j * EVAL_BLOCK);
            args[j] = values + j * EVAL_BLOCK;
        }
        if (!scalar_fn_run(fn, count, args, outs)) return false;
        scalar_store(result->shape->type, result->data, start, count, out);
    }
    return true;
}

struct literal *eval_map(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    int n = instr->noperands;
    struct scalar_fn *fn;
    union scalar *values;
    const union scalar **args;
    struct literal *result = NULL;

    if (instr->ncalled != 1 || instr->called[0]->nparameters != n)
        return eval_error(e, instr, "the computation does not take %d values", n);
    for (int j = 0; j < n; j++)
        if (ops[j]->shape->count != instr->shape->count)
            return eval_error(e, instr, "operands differ in shape");
    fn = scalar_fn_new(e, instr, instr->called[0], false);
    values = eval_scratch(e, instr, n, EVAL_BLOCK * sizeof(union scalar));
    args = eval_scratch(e, instr, n, sizeof *args);
    if (fn && values && args) result = eval_new(e, instr, instr->shape);
    if (result && !map_all(fn, n, ops, result, values, args)) {
        eval_drop(e, result);
        result = NULL;
    }
    scalar_fn_free(fn);
    free(values);
    free(args);
    return result;
}
