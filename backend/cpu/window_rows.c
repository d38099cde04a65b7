/* Windows that go along short runs of memory (the last dimension, or the last but a few channels):
 * sums, products and extremes of floats, in two steps. A row of the input that all windows of a
 * block of results see is combined over the outer places of the window, as it lies in memory; then
 * each result combines places of that row. What falls outside of the input counts as the number
 * that changes nothing. */
#include "backend/cpu/emit.h"
#include "backend/cpu/lowering.h"
#include "passes/util.h"

enum {
    MOST_CHANNELS = 7,  /* more are vectors by themselves (window_kernel.c) */
    ROW = 4096,         /* elements of a combined row at most */
    MOST_UNROLLED = 16, /* places of a window along the row */
    MOST_STRIDED = 64,
    SHORT = 64, /* results of a row that get whole vectors by adding some */
    VECTOR = 8,
    MOST_OUTER = 9, /* places of the other dimensions that are combined in one go */
};

struct rows_form {
    const struct window_dim *along;
    int last;              /* the dimension that the row goes along */
    int64_t channels;      /* elements of a place of the row */
    int64_t in, out;       /* places of the input's row and of the result's */
    int64_t block, blocks; /* results of a row that are computed together */
    int64_t reach;         /* places that a block of results sees */
    int64_t padded;        /* results of a short row with some more, for whole vectors; or 0 */
};

static bool is_trivial(const struct window_dim *w) {
    return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
           w->lhs_dilate == 1;
}

/* Places from the first to the last that the windows of `results` results see. */
static int64_t reach_of(const struct window_dim *w, int64_t results) {
    return (results - 1) * w->stride + (w->size - 1) * w->rhs_dilate + 1;
}

static bool form_of(const struct hlo_instr *instr, struct rows_form *f) {
    enum { MOST = 1 << 16 };
    const struct shape *from = instr->operands[0]->shape, *to = shape_leaf(instr->shape, 0);
    const struct window *window = instr_window(instr);
    if (!window || from->count == 0 || to->count == 0) return false;
    f->last = from->rank - 1;
    f->channels = 1;
    while (f->last >= 0 && is_trivial(&window->v[f->last]))
        f->channels *= from->dims[f->last--];
    if (f->last < 0 || f->channels > MOST_CHANNELS) return false;
    const struct window_dim *w = f->along = &window->v[f->last];
    if (w->lhs_dilate != 1 || w->size > MOST || w->stride > MOST || w->rhs_dilate > MOST)
        return false;
    if (w->pad_low < -MOST || w->pad_low > MOST) return false;
    if (w->size > (w->stride == 1 ? MOST : MOST_STRIDED)) return false;
    f->in = from->dims[f->last];
    f->out = to->dims[f->last];
    int64_t room = ROW / f->channels - reach_of(w, 1);
    if (room < ROW / 4) return false;
    f->block = room / w->stride + 1;
    f->blocks = (f->out + f->block - 1) / f->block;
    f->block = (f->out + f->blocks - 1) / f->blocks;
    /* An extreme by itself is a branch. */
    enum hlo_opcode op = reducer_operation(instr->called[0]);
    bool pads = (op == OP_MAXIMUM || op == OP_MINIMUM) && f->channels == 1 &&
                f->out >= VECTOR / 2 && f->out < SHORT && f->out % VECTOR != 0;
    f->padded = pads ? (f->out + VECTOR - 1) / VECTOR * VECTOR : 0;
    f->reach = reach_of(w, f->padded ? f->padded : f->block);
    return true;
}

bool window_rows_match(const struct hlo_instr *instr) {
    struct rows_form form;
    struct cpu_reducer reducer;
    if (instr->opcode != OP_REDUCE_WINDOW || instr->noperands != 2) return false;
    gen_reducer_init(instr, &reducer);
    return reducer.op && !window_kernel_scans(instr) && form_of(instr, &form);
}

int64_t window_rows_units(const struct hlo_instr *instr) {
    struct rows_form form;
    if (!form_of(instr, &form)) return 1;
    int64_t units = form.blocks;
    for (int d = 0; d < form.last; d++)
        units *= shape_leaf(instr->shape, 0)->dims[d];
    return units;
}

/* ---- emission ---- */

struct rows {
    struct cpu_gen *g;
    struct cpu_kernel *k;
    struct rows_form f;
    struct cpu_reducer reducer, sums; /* of elements; of sums */
    LLVMValueRef none;                /* changes no sum */
    LLVMValueRef row, total;          /* arrays of sums; total: where windows are long */
    LLVMValueRef results;             /* array of elements; where rows are padded */
    LLVMValueRef index[SHAPE_MAX_RANK];
    LLVMValueRef first, width; /* of the block, in results */
    LLVMValueRef start;        /* the input's place that is the row's place 0 */
};

/* The number that changes nothing. */
static LLVMValueRef neutral(struct rows *w) {
    LLVMTypeRef type = cpu_value_type(&w->g->b, w->reducer.sum[0]);
    double infinity = __builtin_inf();
    switch (w->reducer.op) {
    case OP_ADD: return LLVMConstReal(type, -0.0);
    case OP_MULTIPLY: return LLVMConstReal(type, 1);
    case OP_MAXIMUM: return LLVMConstReal(type, -infinity);
    default: return LLVMConstReal(type, infinity);
    }
}

static LLVMValueRef combine(struct rows *w, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef out;
    gen_reducer_step(w->g, &w->sums, &x, &y, &out);
    return out;
}

static LLVMValueRef sum_at(struct rows *w, LLVMValueRef array, LLVMValueRef place) {
    LLVMTypeRef type = cpu_memory_type(&w->g->b, w->reducer.sum[0]);
    return LLVMBuildInBoundsGEP2(w->g->b.builder, type, array, &place, 1, "");
}

static LLVMValueRef load_sum(struct rows *w, LLVMValueRef array, LLVMValueRef place) {
    return cpu_load(&w->g->b, w->reducer.sum[0], sum_at(w, array, place), NULL);
}

static void store_sum(struct rows *w, LLVMValueRef array, LLVMValueRef place, LLVMValueRef value) {
    cpu_store(&w->g->b, w->reducer.sum[0], value, sum_at(w, array, place));
}

/* Elements [from, to) of the row become neutral. */
static void clear(struct rows *w, LLVMValueRef from, LLVMValueRef to) {
    struct cpu_loop loop = gen_range_begin(w->g, from, to);
    store_sum(w, w->row, loop.i, w->none);
    gen_loop_end(w->g, &loop);
}

/* An element of a row of the input, by its place in memory after the row's first; `inner` has the
 * indices of the outer dimensions. */
static LLVMValueRef element(struct rows *w, LLVMValueRef *inner, LLVMValueRef at) {
    struct cpu_gen *g = w->g;
    const struct hlo_instr *operand = w->k->instr->operands[0];
    const struct shape *shape = operand->shape;
    gen_index_bound(g, at, w->f.in * w->f.channels);
    for (int d = shape->rank - 1; d > w->f.last; d--) {
        inner[d] = gen_index_rem(g, at, shape->dims[d]);
        at = gen_index_div(g, at, shape->dims[d]);
    }
    inner[w->f.last] = at;
    LLVMValueRef x = gen_element(g, operand, inner);
    return cpu_emit_convert(&g->b, x, w->reducer.element[0], w->reducer.sum[0]);
}

/* ---- over the outer dimensions ---- */

/* Outer places of the window, or more than MOST_OUTER. */
static int64_t outer_places(struct rows *w) {
    int64_t places = 1;
    for (int d = 0; d < w->f.last && places <= MOST_OUTER; d++)
        places *= instr_window(w->k->instr)->v[d].size;
    return places;
}

/* Where place k[] of the window of this result falls; whether that is inside. */
static LLVMValueRef outer_place(struct rows *w, const LLVMValueRef *k, LLVMValueRef *inner) {
    struct cpu_gen *g = w->g;
    LLVMValueRef inside = LLVMConstInt(int_type(&g->b, 1), 1, false);
    for (int d = 0; d < w->f.last; d++) {
        const struct window_dim *dim = &instr_window(w->k->instr)->v[d];
        int64_t size = w->k->instr->operands[0]->shape->dims[d];
        inside = i_and(&g->b, inside, gen_window_place(g, dim, size, w->index[d], k[d], &inner[d]));
    }
    return inside;
}

/* All places at once, where all of them are inside: elements [from, to) of the input's row go to
 * the row `shift` further on. */
static void combine_at_once(struct rows *w, int64_t places, LLVMValueRef (*inner)[SHAPE_MAX_RANK],
                            LLVMValueRef from, LLVMValueRef to, LLVMValueRef shift) {
    struct cpu_gen *g = w->g;
    struct cpu_loop loop = gen_range_begin(g, from, to);
    LLVMValueRef sum = NULL;
    for (int64_t i = 0; i < places; i++) {
        LLVMValueRef x = element(w, inner[i], loop.i);
        sum = sum ? combine(w, sum, x) : x;
    }
    store_sum(w, w->row, i_add(&g->b, loop.i, shift), sum);
    gen_loop_end(g, &loop);
    gen_loop_vectors(g, &loop, GEN_ANY_LANES, 0);
}

/* One place after the other, those that are inside. */
static void combine_in_turn(struct rows *w, LLVMValueRef from, LLVMValueRef to,
                            LLVMValueRef shift) {
    struct cpu_gen *g = w->g;
    LLVMValueRef k[SHAPE_MAX_RANK], inner[SHAPE_MAX_RANK];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    clear(w, i_add(&g->b, from, shift), i_add(&g->b, to, shift));
    for (int d = 0; d < w->f.last; d++)
        gen_nest_begin(g, 1, &instr_window(w->k->instr)->v[d].size, &loops[d], &k[d]);
    LLVMBasicBlockRef after = gen_guard_begin(g, outer_place(w, k, inner));
    struct cpu_loop loop = gen_range_begin(g, from, to);
    LLVMValueRef place = i_add(&g->b, loop.i, shift), x = element(w, inner, loop.i);
    store_sum(w, w->row, place, combine(w, load_sum(w, w->row, place), x));
    gen_loop_end(g, &loop);
    gen_guard_end(g, after);
    gen_nest_end(g, w->f.last, loops);
}

/* Elements [from, to) of the input's rows. */
static void combine_rows(struct rows *w, LLVMValueRef from, LLVMValueRef to, LLVMValueRef shift) {
    struct cpu_gen *g = w->g;
    int64_t places = outer_places(w);
    LLVMValueRef inner[MOST_OUTER][SHAPE_MAX_RANK], k[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(int_type(&g->b, 1), places <= MOST_OUTER, false);
    for (int64_t i = 0; i < places && places <= MOST_OUTER; i++) {
        int64_t rest = i;
        for (int d = w->f.last - 1; d >= 0; d--) {
            int64_t size = instr_window(w->k->instr)->v[d].size;
            k[d] = gen_i64(g, rest % size);
            rest /= size;
        }
        inside = i_and(&g->b, inside, outer_place(w, k, inner[i]));
    }
    bool sure = LLVMIsConstant(inside) && !LLVMIsNull(inside);
    if (!LLVMIsConstant(inside) || sure) {
        LLVMBasicBlockRef after = gen_guard_begin(g, inside);
        combine_at_once(w, places, inner, from, to, shift);
        gen_guard_end(g, after);
    }
    if (sure) return;
    LLVMBasicBlockRef after = gen_guard_begin(g, LLVMBuildNot(g->b.builder, inside, ""));
    combine_in_turn(w, from, to, shift);
    gen_guard_end(g, after);
}

/* ---- along the row ---- */

/* The place in the row, in elements, of place k of the window of a result. */
static LLVMValueRef place_of(struct rows *w, LLVMValueRef result, int64_t k, int64_t channel) {
    LLVMValueRef at = gen_index_mul(w->g, result, w->f.along->stride * w->f.channels);
    return i_add(&w->g->b, at, gen_i64(w->g, k * w->f.along->rhs_dilate * w->f.channels + channel));
}

/* The results of a short row go to memory together. */
static void copy_results(struct rows *w) {
    struct cpu_gen *g = w->g;
    const struct shape *to = shape_leaf(w->k->instr->shape, 0);
    for (int d = w->f.last; d < to->rank; d++)
        w->index[d] = gen_i64(g, 0);
    unsigned size = (unsigned)element_type_size(to->type);
    LLVMBuildMemCpy(g->b.builder, gen_address(g, to, w->k->out[0], w->index), size, w->results,
                    size, gen_i64(g, w->f.out * size));
}

static void store_result(struct rows *w, LLVMValueRef result, int64_t channel, LLVMValueRef sum) {
    struct cpu_gen *g = w->g;
    const struct shape *to = shape_leaf(w->k->instr->shape, 0);
    LLVMValueRef init;
    gen_reducer_start(g, w->k->instr, &w->reducer, &init);
    sum = combine(w, init, sum);
    gen_reducer_end(g, &w->reducer, &sum);
    if (w->f.padded) {
        LLVMTypeRef type = cpu_memory_type(&g->b, to->type);
        cpu_store(&g->b, to->type, sum,
                  LLVMBuildInBoundsGEP2(g->b.builder, type, w->results, &result, 1, ""));
        return;
    }
    w->index[w->f.last] = gen_index_add(g, w->first, result);
    gen_index_bound(g, w->index[w->f.last], w->f.out);
    for (int d = to->rank - 1; d > w->f.last; d--) {
        w->index[d] = gen_i64(g, channel % to->dims[d]);
        channel /= to->dims[d];
    }
    gen_store(g, to, w->k->out[0], w->index, sum);
}

static void finish_unrolled(struct rows *w) {
    struct cpu_gen *g = w->g;
    struct cpu_loop loop = gen_loop_begin(g, w->width);
    for (int64_t c = 0; c < w->f.channels; c++) {
        LLVMValueRef sum = load_sum(w, w->row, place_of(w, loop.i, 0, c));
        for (int64_t k = 1; k < w->f.along->size; k++)
            sum = combine(w, sum, load_sum(w, w->row, place_of(w, loop.i, k, c)));
        store_result(w, loop.i, c, sum);
    }
    gen_loop_end(g, &loop);
    if (w->f.channels == 1) gen_loop_vectors(g, &loop, GEN_ANY_LANES, 0);
}

/* to[i] = from[i] with from[i + by] (elements), for i < count; to is from or not. */
static void fold_row(struct rows *w, LLVMValueRef to, LLVMValueRef add, int64_t by,
                     LLVMValueRef count) {
    struct cpu_gen *g = w->g;
    struct cpu_loop loop = gen_loop_begin(g, count);
    LLVMValueRef x = load_sum(w, to, loop.i);
    LLVMValueRef y = load_sum(w, add, i_add(&g->b, loop.i, gen_i64(g, by)));
    store_sum(w, to, loop.i, combine(w, x, y));
    gen_loop_end(g, &loop);
}

/* A window of many neighbours: the row's places combine with ever further ones to windows of 2, 4,
 * 8 ..., of which the total takes what the size is made of. */
static void finish_doubling(struct rows *w) {
    struct cpu_gen *g = w->g;
    int64_t size = w->f.along->size, step = w->f.along->rhs_dilate * w->f.channels, done = 0;
    LLVMValueRef results = gen_index_mul(g, w->width, w->f.channels);
    for (int64_t part = 1; part <= size; part *= 2) {
        if (size & part) {
            if (done) {
                fold_row(w, w->total, w->row, done * step, results);
            } else {
                struct cpu_loop loop = gen_loop_begin(g, results);
                store_sum(w, w->total, loop.i, load_sum(w, w->row, loop.i));
                gen_loop_end(g, &loop);
            }
            done += part;
        }
        if (2 * part > size) break;
        /* Windows of twice the size begin at all places but the last ones. */
        LLVMValueRef count = i_add(&g->b, results, gen_i64(g, (size - 2 * part) * step));
        fold_row(w, w->row, w->row, part * step, count);
    }
    struct cpu_loop loop = gen_loop_begin(g, w->width);
    for (int64_t c = 0; c < w->f.channels; c++)
        store_result(w, loop.i, c, load_sum(w, w->total, place_of(w, loop.i, 0, c)));
    gen_loop_end(g, &loop);
}

/* ---- a unit ---- */

static void place_unit(struct rows *w, LLVMValueRef unit) {
    struct cpu_gen *g = w->g;
    const struct shape *to = shape_leaf(w->k->instr->shape, 0);
    gen_index_bound(g, unit, window_rows_units(w->k->instr));
    w->first = gen_index_mul(g, gen_index_rem(g, unit, w->f.blocks), w->f.block);
    LLVMValueRef rest = gen_index_div(g, unit, w->f.blocks);
    for (int d = w->f.last - 1; d >= 0; d--) {
        w->index[d] = gen_index_rem(g, rest, to->dims[d]);
        rest = gen_index_div(g, rest, to->dims[d]);
    }
    w->width = gen_i64(g, w->f.padded ? w->f.padded : w->f.block);
    if (w->f.blocks > 1) {
        LLVMValueRef left = i_sub(&g->b, gen_i64(g, w->f.out), w->first);
        w->width = emit_intrinsic(&g->b, "llvm.smin", 2, (LLVMValueRef[]){left, w->width});
    }
    w->start = i_sub(&g->b, i_mul(&g->b, w->first, gen_i64(g, w->f.along->stride)),
                     gen_i64(g, w->f.along->pad_low));
}

static LLVMValueRef limited(struct cpu_gen *g, LLVMValueRef x, int64_t high) {
    x = emit_intrinsic(&g->b, "llvm.smax", 2, (LLVMValueRef[]){x, gen_i64(g, 0)});
    return emit_intrinsic(&g->b, "llvm.smin", 2, (LLVMValueRef[]){x, gen_i64(g, high)});
}

static void emit_unit(struct rows *w) {
    struct cpu_gen *g = w->g;
    struct cpu_builder *b = &g->b;
    int64_t channels = w->f.channels;
    /* The input's places that the row has; in front of them and after them there are none. */
    LLVMValueRef from = limited(g, w->start, w->f.in);
    LLVMValueRef to = limited(g, i_add(b, w->start, gen_i64(g, w->f.reach)), w->f.in);
    LLVMValueRef shift = i_sub(b, gen_i64(g, 0), w->start), all = gen_i64(g, w->f.reach * channels);
    LLVMValueRef by = gen_i64(g, channels);
    from = i_mul(b, from, by);
    to = i_mul(b, to, by);
    shift = i_mul(b, shift, by);
    LLVMValueRef end = i_add(b, to, shift), none = i_cmp(b, LLVMIntSGE, from, to);
    clear(w, gen_i64(g, 0), select_of(b, none, all, i_add(b, from, shift)));
    clear(w, select_of(b, none, all, end), all);
    combine_rows(w, from, to, shift);
    if (w->f.along->size <= MOST_UNROLLED || w->f.along->stride > 1)
        finish_unrolled(w);
    else
        finish_doubling(w);
    if (w->f.padded) copy_results(w);
}

void window_rows_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct rows w = {.g = g, .k = k};
    if (!form_of(k->instr, &w.f)) return;
    gen_bind_operands(g, k);
    gen_reducer_init(k->instr, &w.reducer);
    w.sums = w.reducer;
    w.sums.element[0] = w.reducer.sum[0];
    w.none = neutral(&w);
    LLVMTypeRef type = cpu_memory_type(&g->b, w.reducer.sum[0]);
    w.row = gen_alloca(g, type, w.f.reach * w.f.channels);
    w.total = gen_alloca(g, type, (w.f.padded ? w.f.padded : w.f.block) * w.f.channels);
    type = cpu_memory_type(&g->b, w.reducer.element[0]);
    w.results = gen_alloca(g, type, w.f.padded ? w.f.padded : 1);
    struct cpu_loop units = gen_range_begin(g, k->begin, k->end);
    place_unit(&w, units.i);
    emit_unit(&w);
    gen_loop_end(g, &units);
}
