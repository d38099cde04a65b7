/* Depthwise convolutions: each channel by itself, a vector of channels at a time. A unit of work is
 * one row of the output along the last spatial dimension; for it the rows of the window that fall
 * inside the input are listed once. Several places of the row share each load of the kernel. */
#include "backend/cpu/conv.h"
#include "backend/cpu/lowering.h"
#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/pack.h"

enum { PLACES = 4, MOST_UNROLLED = 7 };

struct depthwise {
    struct conv v;
    struct cpu_gen *g;
    struct cpu_builder *b;
    struct cpu_kernel *k;
    enum element_type type; /* of the sums */
    int64_t size, in_size, w_size, channels;
    int lanes, last; /* last: spatial dimension of the row */
    int64_t tap_rows;
    bool direct; /* sums go straight to the result */
    LLVMValueRef input, weights, in_rows, w_rows, nrows, sums;
    LLVMValueRef outer[STAGE_MAX_RANK], batch; /* the unit: its batch and outer positions */
    LLVMValueRef out_row;                      /* byte offset of the row in the result */
};

static enum element_type sum_type(enum element_type type) {
    return type == TYPE_F64 ? TYPE_F64 : TYPE_F32;
}

static bool read(const struct hlo_instr *instr, struct conv *v) {
    if (!conv_read(instr, v) || v->in_parts || v->groups < 8 || v->batch_groups != 1) return false;
    if (v->features != 1 || v->outputs != 1 || v->labels->spatial == 0) return false;
    const struct dim_labels *l = v->labels;
    enum element_type in = v->input.base->shape->type, w = v->kernel.base->shape->type;
    enum element_type out = v->out->type, type = sum_type(out);
    if (!element_type_is_float(out) || !element_type_is_float(in)) return false;
    if (!pack_converts_vectors(in, type) || !pack_converts_vectors(w, type)) return false;
    for (int d = 0; d < l->spatial; d++) {
        const struct window_dim *x = &v->window->v[d];
        int64_t most = 1 << 20;
        if (x->lhs_dilate != 1 || x->size > most || x->stride > most || x->rhs_dilate > most ||
            x->pad_low > most || x->pad_low < -most)
            return false;
    }
    return v->a[l->input_feature] == 1 && v->b[l->kernel_output] == 1 &&
           v->c[l->output_feature] == 1;
}

bool depthwise_match(const struct hlo_instr *instr) {
    struct conv v;
    return read(instr, &v);
}

int64_t depthwise_units(const struct hlo_instr *instr) {
    struct conv v;
    if (!read(instr, &v)) return 1;
    int64_t units = v.batch;
    for (int d = 0; d + 1 < v.labels->spatial; d++)
        units *= v.out->dims[v.labels->output_spatial[d]];
    return units;
}

static int64_t tap_rows(const struct conv *v) {
    int64_t rows = 1;
    for (int d = 0; d + 1 < v->labels->spatial; d++)
        rows *= v->window->v[d].size;
    return rows;
}

static int64_t round_up(int64_t x) {
    return (x + 63) / 64 * 64;
}

int64_t depthwise_scratch(const struct hlo_instr *instr) {
    struct conv v;
    if (!read(instr, &v)) return 0;
    return 2 * round_up(8 * tap_rows(&v)) + round_up(PLACES * v.groups * 8);
}

/* ---- one unit ---- */

/* The unit's batch and positions, and where its row starts in the result. */
static void place_unit(struct depthwise *w, LLVMValueRef unit) {
    struct cpu_builder *b = w->b;
    const struct dim_labels *l = w->v.labels;
    w->out_row = ir_k(b, 0);
    int64_t out_size = element_type_size(w->v.out->type);
    for (int d = w->last - 1; d >= 0; d--) {
        int64_t count = w->v.out->dims[l->output_spatial[d]];
        w->outer[d] = LLVMBuildURem(b->builder, unit, ir_k(b, count), "");
        unit = LLVMBuildUDiv(b->builder, unit, ir_k(b, count), "");
        int64_t stride = w->v.c[l->output_spatial[d]] * out_size;
        w->out_row = ir_add(b, w->out_row, ir_mulk(b, w->outer[d], stride));
    }
    w->batch = unit;
    w->out_row = ir_add(b, w->out_row, ir_mulk(b, unit, w->v.c[l->output_batch] * out_size));
}

/* Lists the rows of the window that are inside the input: byte offsets in input and kernel. */
static void list_rows(struct depthwise *w) {
    struct cpu_builder *b = w->b;
    const struct dim_labels *l = w->v.labels;
    LLVMValueRef count = ir_k(b, 0);
    LLVMValueRef base = ir_mulk(b, w->batch, w->v.a[l->input_batch] * w->in_size);
    struct ir_carrying rows = ir_carrying_begin(b, ir_k(b, 0), ir_k(b, w->tap_rows), 1, 1, &count);
    LLVMValueRef tap = rows.loop.i, in = base, weights = ir_k(b, 0);
    LLVMValueRef inside = LLVMConstInt(int_type(b, 1), 1, false);
    for (int d = w->last - 1; d >= 0; d--) {
        const struct window_dim *x = &w->v.window->v[d];
        LLVMValueRef k = LLVMBuildURem(b->builder, tap, ir_k(b, x->size), "");
        tap = LLVMBuildUDiv(b->builder, tap, ir_k(b, x->size), "");
        LLVMValueRef at = ir_add(b, ir_mulk(b, w->outer[d], x->stride),
                                 ir_addk(b, ir_mulk(b, k, x->rhs_dilate), -x->pad_low));
        LLVMValueRef size = ir_k(b, w->v.in->dims[l->input_spatial[d]]);
        inside = i_and(b, inside, i_cmpk(b, LLVMIntSGE, at, 0));
        inside = i_and(b, inside, i_cmp(b, LLVMIntSLT, at, size));
        in = ir_add(b, in, ir_mulk(b, at, w->v.a[l->input_spatial[d]] * w->in_size));
        if (x->reversed) k = LLVMBuildNSWSub(b->builder, ir_k(b, x->size - 1), k, "");
        weights = ir_add(b, weights, ir_mulk(b, k, w->v.b[l->kernel_spatial[d]] * w->w_size));
    }
    LLVMValueRef at = ir_mulk(b, count, 8);
    ir_store(b, in, ir_at(b, w->in_rows, at), 8);
    ir_store(b, weights, ir_at(b, w->w_rows, at), 8);
    count = ir_add(b, count, LLVMBuildZExt(b->builder, inside, ir_i64(b), ""));
    ir_carrying_end(b, &rows, &count);
    w->nrows = count;
}

/* ---- places of a row ---- */

static LLVMValueRef load(struct depthwise *w, enum element_type from, LLVMValueRef at, int lanes) {
    struct cpu_builder *b = w->b;
    if (lanes == 1) return cpu_emit_convert(b, cpu_load(b, from, at, NULL), from, w->type);
    LLVMTypeRef type = LLVMVectorType(cpu_memory_type(b, from), (unsigned)lanes);
    LLVMValueRef value = ir_load(b, type, at, element_type_size(from));
    return pack_convert_vector(b, value, from, w->type);
}

/* sums[] += kernel element `kw` (i64) of a row of the window, for `places` places from o on */
static void one_tap(struct depthwise *w, int places, int lanes, LLVMValueRef o, LLVMValueRef kw,
                    LLVMValueRef in_row, LLVMValueRef w_row, LLVMValueRef *sums) {
    struct cpu_builder *b = w->b;
    const struct window_dim *x = &w->v.window->v[w->last];
    int64_t in_stride = w->v.a[w->v.labels->input_spatial[w->last]] * w->in_size;
    int64_t w_stride = w->v.b[w->v.labels->kernel_spatial[w->last]] * w->w_size;
    LLVMValueRef at =
        ir_add(b, ir_mulk(b, o, x->stride), ir_addk(b, ir_mulk(b, kw, x->rhs_dilate), -x->pad_low));
    LLVMValueRef k = kw;
    if (x->reversed) k = LLVMBuildNSWSub(b->builder, ir_k(b, x->size - 1), k, "");
    LLVMValueRef weight =
        load(w, w->v.kernel.base->shape->type, ir_at(b, w_row, ir_mulk(b, k, w_stride)), lanes);
    LLVMValueRef from = ir_at(b, in_row, ir_mulk(b, at, in_stride));
    for (int p = 0; p < places; p++) {
        LLVMValueRef value = load(w, w->v.input.base->shape->type,
                                  ir_atk(b, from, p * x->stride * in_stride), lanes);
        sums[p] = matmul_multiply_add(b, value, weight, sums[p]);
    }
}

/* The sums of `places` places from o on for `lanes` channels from c on; kernel elements [lo, hi) of
 * each row, or all where lo is NULL. */
static void sum_channels(struct depthwise *w, int places, int lanes, LLVMValueRef o, LLVMValueRef c,
                         LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef *sums) {
    struct cpu_builder *b = w->b;
    int64_t width = w->v.window->v[w->last].size;
    LLVMTypeRef scalar = cpu_value_type(b, w->type);
    for (int p = 0; p < places; p++)
        sums[p] = LLVMConstNull(lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)lanes));
    struct ir_carrying rows = ir_carrying_begin(b, ir_k(b, 0), w->nrows, 1, places, sums);
    LLVMValueRef at = ir_mulk(b, rows.loop.i, 8);
    LLVMValueRef in_row = ir_load(b, ir_i64(b), ir_at(b, w->in_rows, at), 8);
    LLVMValueRef w_row = ir_load(b, ir_i64(b), ir_at(b, w->w_rows, at), 8);
    in_row = ir_at(b, ir_at(b, w->input, in_row), ir_mulk(b, c, w->in_size));
    w_row = ir_at(b, ir_at(b, w->weights, w_row), ir_mulk(b, c, w->w_size));
    if (!lo && width <= MOST_UNROLLED) {
        for (int64_t kw = 0; kw < width; kw++)
            one_tap(w, places, lanes, o, ir_k(b, kw), in_row, w_row, sums);
    } else {
        struct ir_carrying taps =
            ir_carrying_begin(b, lo ? lo : ir_k(b, 0), lo ? hi : ir_k(b, width), 1, places, sums);
        one_tap(w, places, lanes, o, taps.loop.i, in_row, w_row, sums);
        ir_carrying_end(b, &taps, sums);
    }
    ir_carrying_end(b, &rows, sums);
}

static LLVMValueRef out_offset(struct depthwise *w, LLVMValueRef o, LLVMValueRef c) {
    struct cpu_builder *b = w->b;
    int64_t size = element_type_size(w->v.out->type);
    int64_t stride = w->v.c[w->v.labels->output_spatial[w->last]] * size;
    return ir_add(b, ir_add(b, w->out_row, ir_mulk(b, o, stride)), ir_mulk(b, c, size));
}

static void channels_from(struct depthwise *w, int places, int lanes, LLVMValueRef start,
                          LLVMValueRef limit, LLVMValueRef o, LLVMValueRef lo, LLVMValueRef hi) {
    struct cpu_builder *b = w->b;
    LLVMValueRef sums[PLACES];
    struct ir_loop loop = ir_loop_begin(b, start, limit, lanes, true);
    sum_channels(w, places, lanes, o, loop.i, lo, hi, sums);
    for (int p = 0; p < places; p++) {
        LLVMValueRef to;
        if (w->direct)
            to = ir_at(b, w->k->out[0], out_offset(w, ir_addk(b, o, p), loop.i));
        else
            to = ir_at(b, ir_atk(b, w->sums, p * w->channels * w->size),
                       ir_mulk(b, loop.i, w->size));
        ir_store(b, sums[p], to, (int)w->size);
    }
    ir_loop_end(b, &loop);
}

static void finish_places(struct depthwise *w, int places, LLVMValueRef o) {
    struct cpu_builder *b = w->b;
    const struct dim_labels *l = w->v.labels;
    struct product_epilogue epilogue = {w->g, w->k, w->v.hero, w->type};
    LLVMValueRef index[SHAPE_MAX_RANK];
    index[l->output_batch] = w->batch;
    gen_index_bound(w->g, w->batch, w->v.batch);
    for (int d = 0; d < w->last; d++) {
        index[l->output_spatial[d]] = w->outer[d];
        gen_index_bound(w->g, w->outer[d], w->v.out->dims[l->output_spatial[d]]);
    }
    struct ir_loop rows = ir_loop_count(b, places, 1);
    struct ir_loop loop = ir_loop_count(b, w->channels, 1);
    LLVMValueRef place = ir_add(b, o, rows.i);
    gen_index_bound(w->g, place, w->v.out->dims[l->output_spatial[w->last]]);
    gen_index_bound(w->g, loop.i, w->channels);
    index[l->output_spatial[w->last]] = place;
    index[l->output_feature] = loop.i;
    LLVMValueRef at =
        ir_add(b, ir_mulk(b, rows.i, w->channels * w->size), ir_mulk(b, loop.i, w->size));
    LLVMValueRef sum = ir_load(b, cpu_value_type(b, w->type), ir_at(b, w->sums, at), (int)w->size);
    scope_push(&w->g->seen);
    product_epilogue_store(&epilogue, sum, index);
    scope_pop(&w->g->seen);
    ir_loop_end_parallel(b, &loop, 0);
    ir_loop_end(b, &rows);
}

/* Places [start, limit) of the row, `places` at a time. */
static void emit_places(struct depthwise *w, int places, int64_t start, int64_t limit,
                        bool inside) {
    struct cpu_builder *b = w->b;
    const struct window_dim *x = &w->v.window->v[w->last];
    if (start >= limit) return;
    struct ir_loop loop = ir_loop_begin(b, ir_k(b, start), ir_k(b, limit), places, false);
    LLVMValueRef lo = NULL, hi = NULL, whole = ir_k(b, w->channels / w->lanes * w->lanes);
    if (!inside) {
        /* 0 <= o * stride + kw * dilate - pad < size */
        int64_t size = w->v.in->dims[w->v.labels->input_spatial[w->last]], d = x->rhs_dilate;
        LLVMValueRef at = ir_addk(b, ir_mulk(b, loop.i, x->stride), -x->pad_low);
        LLVMValueRef below = LLVMBuildNSWSub(b->builder, ir_k(b, d - 1), at, "");
        lo = LLVMBuildSDiv(b->builder, below, ir_k(b, d), "");
        lo = select_of(b, i_cmpk(b, LLVMIntSGT, at, 0), ir_k(b, 0), lo);
        LLVMValueRef above = LLVMBuildNSWSub(b->builder, ir_k(b, size - 1 + d), at, "");
        hi = LLVMBuildSDiv(b->builder, above, ir_k(b, d), "");
        hi = select_of(b, i_cmpk(b, LLVMIntSLT, above, 0), ir_k(b, 0), hi);
        hi = ir_min(b, hi, ir_k(b, x->size));
    }
    channels_from(w, places, w->lanes, ir_k(b, 0), whole, loop.i, lo, hi);
    if (w->channels % w->lanes)
        channels_from(w, places, 1, whole, ir_k(b, w->channels), loop.i, lo, hi);
    if (!w->direct) finish_places(w, places, loop.i);
    ir_loop_end(b, &loop);
}

static void emit_row(struct depthwise *w) {
    const struct window_dim *x = &w->v.window->v[w->last];
    int64_t count = w->v.out->dims[w->v.labels->output_spatial[w->last]];
    int64_t size = w->v.in->dims[w->v.labels->input_spatial[w->last]];
    /* Places from `first` up to `end` have the whole window inside the input. */
    int64_t first = x->pad_low > 0 ? (x->pad_low + x->stride - 1) / x->stride : 0;
    int64_t room = size + x->pad_low - (x->size - 1) * x->rhs_dilate - 1;
    int64_t end = room < 0 ? 0 : room / x->stride + 1;
    if (end > count) end = count;
    if (first > count) first = count;
    if (end < first) end = first;
    int64_t blocks = first + (end - first) / PLACES * PLACES;
    emit_places(w, 1, 0, first, false);
    emit_places(w, PLACES, first, blocks, true);
    emit_places(w, 1, blocks, end, true);
    emit_places(w, 1, end, count, false);
}

void depthwise_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct depthwise w = {.g = g, .b = &g->b, .k = k};
    if (!read(k->instr, &w.v)) return;
    gen_enter_kernel(g, k);
    w.type = sum_type(w.v.out->type);
    w.size = element_type_size(w.type);
    w.in_size = element_type_size(w.v.input.base->shape->type);
    w.w_size = element_type_size(w.v.kernel.base->shape->type);
    w.lanes = g->target.vector_bytes / (int)w.size;
    w.channels = w.v.groups;
    w.last = w.v.labels->spatial - 1;
    w.tap_rows = tap_rows(&w.v);
    w.direct = !product_has_epilogue(k->instr) && w.v.out->type == w.type;
    w.input = ir_atk(w.b, gen_leaves(g, w.v.input.base)[0], w.v.input.offset * w.in_size);
    w.weights = ir_atk(w.b, gen_leaves(g, w.v.kernel.base)[0], w.v.kernel.offset * w.w_size);
    int64_t table = round_up(8 * w.tap_rows);
    w.in_rows = k->scratch;
    w.w_rows = ir_atk(w.b, k->scratch, table);
    w.sums = ir_atk(w.b, k->scratch, 2 * table);
    matmul_mark_wide(w.b, &g->target, g->function);
    struct ir_loop units = ir_loop_begin(w.b, k->begin, k->end, 1, false);
    place_unit(&w, units.i);
    list_rows(&w);
    emit_row(&w);
    ir_loop_end(w.b, &units);
}
