/* Convolutions as products whose operands are read through strides: k goes over the window and the
 * input features, m over batch and output positions. Where the window reaches over the edges of
 * the input, or the input is dilated, the product reads a padded copy of what it needs. */
#include <string.h>

#include "backend/cpu/conv.h"
#include "backend/cpu/lowering.h"
#include "backend/cpu/matmul_ir.h"

enum { LEAST_WORK = 64 };

/* The kernel's output features may lie in parts (panels), where there is one group. */
static bool read_kernel(struct conv *v) {
    struct product_view *view = &v->kernel;
    int n = v->labels->kernel_output, rank = v->weights->rank;
    if (view->cut_dim < 0 && product_view_strides(view, rank, v->b)) return true;
    struct product_view rest = *view;
    for (int i = rest.first[n]; i < rest.first[n + 1]; i++)
        rest.parts[i].size = 1;
    v->in_parts = true;
    return (view->cut_dim < 0 || view->cut_dim == n) && product_view_strides(&rest, rank, v->b) &&
           v->groups == 1 && v->batch_groups == 1;
}

/* The kernel as the instruction `weights` has it: the same, or the hero alone. */
static bool read_conv(const struct hlo_instr *instr, const struct hlo_instr *weights,
                      struct conv *v) {
    memset(v, 0, sizeof *v);
    v->instr = instr;
    v->hero = product_hero(instr);
    if (!v->hero || v->hero->opcode != OP_CONVOLUTION) return false;
    if (!product_view_of(instr, v->hero, 0, &v->input)) return false;
    if (!product_view_of(weights ? weights : v->hero, v->hero, 1, &v->kernel)) return false;
    if (!product_reads_alike(&v->input, v->hero->operands[0])) return false;
    if (!product_reads_alike(&v->kernel, v->hero->operands[1])) return false;
    v->labels = instr_attr(v->hero, ATTR_DIM_LABELS)->dim_labels;
    v->window = instr_window(v->hero);
    v->in = v->hero->operands[0]->shape;
    v->weights = v->hero->operands[1]->shape;
    v->out = v->hero->shape;
    if (!product_view_strides(&v->input, v->in->rank, v->a)) return false;
    if (v->out->count == 0 || v->in->count == 0 || v->weights->count == 0) return false;
    if (v->labels->spatial > STAGE_MAX_RANK) return false;
    if (v->input.cut_dim >= 0) return false;
    shape_row_major(v->out, v->c);
    v->groups = instr_int(v->hero, ATTR_FEATURE_GROUP_COUNT, 1);
    v->batch_groups = instr_int(v->hero, ATTR_BATCH_GROUP_COUNT, 1);
    if (!read_kernel(v)) return false;
    v->batch = v->in->dims[v->labels->input_batch] / v->batch_groups;
    v->features = v->weights->dims[v->labels->kernel_input];
    v->outputs = v->weights->dims[v->labels->kernel_output] / (v->groups * v->batch_groups);
    for (int d = 0; d < v->labels->spatial; d++) {
        v->dims[d] = v->window->v[d];
        v->step[d] = 1;
        v->count[d] = v->out->dims[v->labels->output_spatial[d]];
    }
    return true;
}

bool conv_read(const struct hlo_instr *instr, struct conv *v) {
    return read_conv(instr, instr, v);
}

/* ---- strides ---- */

static int64_t in_stride(const struct conv *v, int dim) {
    return v->a[dim];
}

static const struct window_dim *window_of(const struct conv *v, int d) {
    return &v->dims[d];
}

static int64_t positions(const struct conv *v, int d) {
    return v->count[d];
}

/* ---- phases ---- */

/* Phases along d that are columns of one product; 0: not so. */
static int64_t folded_phases(const struct conv *v, int d) {
    const struct window_dim *w = window_of(v, d);
    int64_t by = w->lhs_dilate;
    if (by == 1 || w->stride != 1 || w->rhs_dilate != 1 || w->size != by) return 0;
    return w->pad_low >= 0 && w->pad_low % by == by - 1 && positions(v, d) % by == 0 ? by : 0;
}

static bool is_folded(const struct conv *v) {
    bool some = false;
    if (v->groups > 1 || v->batch_groups > 1 || v->in_parts || v->kernel.cut_dim >= 0) return false;
    for (int d = 0; d < v->labels->spatial; d++) {
        if (v->folded[d]) return true; /* done already */
        if (window_of(v, d)->lhs_dilate == 1) continue;
        if (!folded_phases(v, d)) return false;
        some = true;
    }
    return some;
}

/* Position q * by + phase meets input element q + low alone, at place by - 1 - phase of the window.
 */
static void fold(struct conv *v) {
    for (int d = 0; d < v->labels->spatial; d++) {
        struct window_dim *w = &v->dims[d];
        int64_t by = folded_phases(v, d), b = v->b[v->labels->kernel_spatial[d]];
        if (!by) continue;
        v->folded[d] = v->step[d] = by;
        v->count[d] /= by;
        if (!w->reversed) v->b_first += (by - 1) * b;
        if (!w->reversed) b = -b;
        v->b[v->labels->kernel_spatial[d]] = b;
        w->pad_low = (w->pad_low - (by - 1)) / by;
        w->size = w->lhs_dilate = 1;
        w->reversed = false;
    }
}

int64_t conv_phases(const struct conv *v) {
    if (is_folded(v)) return 1;
    enum { MOST = 16 }; /* the code of each is emitted */
    int64_t phases = 1;
    for (int d = 0; d < v->labels->spatial; d++) {
        const struct window_dim *w = window_of(v, d);
        if (w->lhs_dilate == 1) continue;
        if (w->stride != 1 || w->rhs_dilate != 1 || w->lhs_dilate > MOST) return 1;
        if (w->size > positions(v, d) || positions(v, d) < w->lhs_dilate) return 1;
        phases *= w->lhs_dilate;
        if (phases > MOST) return 1;
    }
    return phases;
}

/* Position o of the result meets an element at place k of the window where o + k - low is a
 * multiple of the dilation: k = start + t * dilation for o = phase + q * dilation, and then the
 * element's number is q + t plus a constant. */
static void take_phase(struct conv *v, int d, int64_t phase) {
    struct window_dim *w = &v->dims[d];
    int64_t by = w->lhs_dilate, b = v->b[v->labels->kernel_spatial[d]];
    int64_t start = (w->pad_low - phase) % by;
    if (start < 0) start += by;
    v->first[d] = phase;
    v->step[d] = by;
    v->count[d] = (v->count[d] - phase + by - 1) / by;
    v->b_first += (w->reversed ? w->size - 1 - start : start) * b;
    int64_t low = (w->pad_low - phase - start) / by; /* without a remainder */
    if (start >= w->size) {
        v->b_first -= (w->reversed ? w->size - 1 - start : start) * b;
        low = v->count[d]; /* no element is met: the window stays in front of the input */
        w->size = by = 1;
        if (v->groups == 1) v->features = 1;
    } else {
        w->size = (w->size - start + by - 1) / by;
    }
    v->b[v->labels->kernel_spatial[d]] = w->reversed ? -b * by : b * by;
    w->reversed = false;
    w->pad_low = low;
    w->lhs_dilate = 1;
}

void conv_take_phase(struct conv *v, int64_t number) {
    if (is_folded(v)) fold(v);
    if (conv_phases(v) == 1) return;
    for (int d = v->labels->spatial - 1; d >= 0; d--) {
        int64_t by = window_of(v, d)->lhs_dilate;
        if (by == 1) continue;
        take_phase(v, d, number % by);
        number /= by;
    }
}

/* Every window element that counts is an element of the input. */
static bool stays_inside(const struct conv *v, int d) {
    const struct window_dim *w = window_of(v, d);
    int64_t last = (positions(v, d) - 1) * w->stride + (w->size - 1) * w->rhs_dilate - w->pad_low;
    return w->lhs_dilate == 1 && w->pad_low <= 0 && last < v->in->dims[v->labels->input_spatial[d]];
}

static bool needs_stage(const struct conv *v) {
    for (int d = 0; d < v->labels->spatial; d++)
        if (!stays_inside(v, d)) return true;
    return false;
}

/* More of k than of m is in the spatial dimensions: a gradient of a kernel. */
static bool is_long_window(const struct conv *v) {
    int64_t window = 1, places = 1;
    for (int d = 0; d < v->labels->spatial; d++) {
        window *= window_of(v, d)->size;
        places *= positions(v, d);
    }
    return window > places;
}

/* ---- the copy ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Rows of a band whose copy takes no more than so many bytes. */
static int64_t band_within(const struct product_stage *s, int64_t other, int64_t bytes) {
    int64_t row = s->channels * 4;
    for (int d = 1; d < s->rank; d++)
        row *= s->dim[d].extent;
    return (bytes / clamp(row, 1, bytes) - other) / clamp(s->step, 1, 1 << 20) + 1;
}

/* Rows of dimension 0 in a band; `other`: positions of a band of one row but the first. */
static int64_t choose_band(const struct conv *v, const struct product_stage *s, int64_t other,
                           int64_t l2) {
    enum { LEAST_ROWS = 48 }; /* of the product: the kernel is read once for each band */
    int64_t fits = band_within(s, other, l2 / 2), places = 1;
    if (s->when == STAGE_BLOCK) {
        int64_t inner = 1; /* about 256 of k at a time */
        for (int d = 1; d < s->rank; d++)
            inner *= window_of(v, d)->size;
        return clamp(clamp(256 / inner, 1, fits > 0 ? fits : 1), 1, s->count);
    }
    /* At least so many bands that threads can share them. */
    int64_t blocks = v->batch * v->groups * v->batch_groups * ((v->outputs + 95) / 96);
    int64_t bands = clamp(8 / clamp(blocks, 1, 8), 1, 8);
    int64_t most = (s->count + bands - 1) / bands;
    int64_t band = clamp(fits, 1, most);
    for (int d = 1; d < s->rank; d++)
        places *= positions(v, d);
    int64_t least = (LEAST_ROWS + places - 1) / places;
    if (band < least) band = clamp(least, band, clamp(band_within(s, other, 4 * l2), band, most));
    bands = (s->count + band - 1) / band;
    return (s->count + bands - 1) / bands;
}

static void make_stage(struct conv *v, bool block, int64_t l2) {
    struct product_stage *s = &v->spec.stage;
    s->when = block ? STAGE_BLOCK : STAGE_UNIT;
    s->rank = v->labels->spatial;
    for (int d = 0; d < s->rank; d++) {
        const struct window_dim *w = window_of(v, d);
        int dim = v->labels->input_spatial[d];
        s->dim[d].size = v->in->dims[dim];
        s->dim[d].stride = in_stride(v, dim);
        s->dim[d].low = w->pad_low;
        s->dim[d].dilate = w->lhs_dilate;
        s->dim[d].extent = (positions(v, d) - 1) * w->stride + (w->size - 1) * w->rhs_dilate + 1;
    }
    s->channels = block ? v->batch : v->features;
    s->channel_stride = in_stride(v, block ? v->labels->input_batch : v->labels->input_feature);
    const struct window_dim *w = window_of(v, 0);
    int64_t rows = positions(v, 0);
    s->count = block ? w->size : rows;
    s->step = block ? w->rhs_dilate : w->stride;
    int64_t other = block ? (rows - 1) * w->stride : (w->size - 1) * w->rhs_dilate;
    s->band = choose_band(v, s, other, l2);
    s->dim[0].extent = (s->band - 1) * s->step + other + 1;
    s->images = v->features;
    s->image_a = in_stride(v, v->labels->input_feature);
    s->image_b = v->b[v->labels->kernel_input];
    s->row_b = v->b[v->labels->kernel_spatial[0]];
    if (w->reversed) s->row_b = -s->row_b;
}

/* Elements from one position of dimension d to the next in what the product reads. */
static int64_t position_stride(const struct conv *v, int d) {
    const struct product_stage *s = &v->spec.stage;
    if (s->when == STAGE_NEVER) return in_stride(v, v->labels->input_spatial[d]);
    int64_t stride = s->channels;
    for (int i = d + 1; i < s->rank; i++)
        stride *= s->dim[i].extent;
    return stride;
}

/* ---- the product ---- */

static bool add_batch(struct conv *v, int dim, struct product_dim d) {
    if (d.size == 1) return true;
    v->batch_dim[v->spec.batch.count] = dim;
    return product_add_dim(&v->spec.batch, d);
}

static bool add_m(struct conv *v, int dim, struct product_dim d) {
    if (d.size == 1) return true;
    v->m_dim[v->spec.m.count] = dim;
    return product_add_dim(&v->spec.m, d);
}

/* m in the order in which the result lies. */
static void sort_m(struct conv *v) {
    for (int i = 1; i < v->spec.m.count; i++)
        for (int k = i; k > 0 && v->spec.m.v[k - 1].c < v->spec.m.v[k].c; k--) {
            struct product_dim d = v->spec.m.v[k];
            int dim = v->m_dim[k];
            v->spec.m.v[k] = v->spec.m.v[k - 1];
            v->m_dim[k] = v->m_dim[k - 1];
            v->spec.m.v[k - 1] = d;
            v->m_dim[k - 1] = dim;
        }
}

static bool add_n(struct conv *v, int dim, struct product_dim d) {
    if (d.size == 1) return true;
    v->n_dim[v->spec.n.count] = dim;
    return product_add_dim(&v->spec.n, d);
}

static bool add_spatial(struct conv *v, int d) {
    const struct window_dim *w = window_of(v, d);
    int64_t stride = position_stride(v, d), size = w->size;
    int64_t b = v->b[v->labels->kernel_spatial[d]];
    if (w->reversed) {
        v->spec.b_offset += (size - 1) * b;
        b = -b;
    }
    if (v->spec.stage.when == STAGE_NEVER) v->spec.a_offset -= w->pad_low * stride;
    if (v->spec.stage.when == STAGE_BLOCK && d == 0) size = v->spec.stage.band;
    int out = v->labels->output_spatial[d];
    if (v->folded[d] && !add_n(v, out, (struct product_dim){v->folded[d], 0, b, v->c[out]}))
        return false;
    if (v->folded[d]) b = 0; /* a window of one */
    return add_m(v, out,
                 (struct product_dim){positions(v, d), w->stride * stride, 0,
                                      v->c[out] * v->step[d]}) &&
           product_add_dim(&v->spec.k, (struct product_dim){size, w->rhs_dilate * stride, b, 0});
}

/* Groups, batch and features. */
static bool add_others(struct conv *v) {
    const struct dim_labels *l = v->labels;
    enum stage_when when = v->spec.stage.when;
    int64_t a_batch = in_stride(v, l->input_batch), a_feature = in_stride(v, l->input_feature);
    int64_t b_out = v->b[l->kernel_output], c_out = v->c[l->output_feature];
    bool fits = add_batch(v, l->output_feature,
                          (struct product_dim){v->groups, v->features * a_feature,
                                               v->outputs * b_out, v->outputs * c_out});
    fits = add_batch(v, l->output_feature,
                     (struct product_dim){v->batch_groups, v->batch * a_batch, v->outputs * b_out,
                                          v->outputs * c_out}) &&
           fits;
    struct product_dim batch = {v->batch, a_batch, 0, v->c[l->output_batch]};
    if (when == STAGE_BLOCK) batch.a = 1;
    /* Images of features before positions are products by themselves, whose rows are features. */
    if (when == STAGE_UNIT || (when == STAGE_NEVER && c_out != 1 && c_out < batch.c))
        fits = add_batch(v, l->output_batch, batch) && fits;
    else
        fits = add_m(v, l->output_batch, batch) && fits;
    struct product_dim k = {v->features, when == STAGE_NEVER ? a_feature : 1, v->b[l->kernel_input],
                            0};
    if (when != STAGE_BLOCK) fits = product_add_dim(&v->spec.k, k) && fits;
    if (v->kernel.cut_dim >= 0) v->spec.n_cut = v->outputs;
    if (v->in_parts)
        return product_add_dims(&v->spec.n, NULL, 0, &v->kernel, l->kernel_output, c_out) && fits;
    return add_n(v, l->output_feature, (struct product_dim){v->outputs, 0, b_out, c_out}) && fits;
}

/* Whether the copy is of a sane size: dilations and paddings can be anything. */
static bool stage_fits(const struct conv *v) {
    enum { ALWAYS = 1 << 22, TIMES = 16 };
    const struct product_stage *s = &v->spec.stage;
    int64_t elements = s->channels, most = ALWAYS + TIMES * (v->in->count / 2 + v->out->count / 2);
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d].extent <= 0 || __builtin_mul_overflow(elements, s->dim[d].extent, &elements))
            return false;
    return elements <= most;
}

/* Positions of the whole window along d stay far from overflow. */
static bool is_sane(const struct conv *v) {
    for (int d = 0; d < v->labels->spatial; d++) {
        const struct window_dim *w = window_of(v, d);
        int64_t a, b, most = INT64_C(1) << 40;
        if (__builtin_mul_overflow(positions(v, d), w->stride, &a) || a > most) return false;
        if (__builtin_mul_overflow(w->size, w->rhs_dilate, &b) || b > most) return false;
        if (w->pad_low > most || w->pad_low < -most || w->lhs_dilate > most) return false;
    }
    return true;
}

/* False where the convolution has no form as a product here. */
static bool conv_spec(struct conv *v, int64_t l2) {
    v->spec.a_type = v->input.base->shape->type;
    v->spec.b_type = v->kernel.base->shape->type;
    v->spec.c_type = v->out->type;
    v->spec.a_offset = v->input.offset;
    v->spec.b_offset = v->kernel.offset + v->b_first;
    if (!is_sane(v)) return false;
    if (v->labels->spatial > 0 && needs_stage(v)) {
        make_stage(v, is_long_window(v), l2);
        if (!stage_fits(v)) return false;
    }
    bool fits = true;
    for (int d = 0; d < v->labels->spatial && fits; d++)
        fits = add_spatial(v, d);
    fits = fits && add_others(v);
    sort_m(v);
    /* A unit is whole rows of dimension 0, so that has to be the outermost of m. */
    if (v->spec.stage.when == STAGE_UNIT && v->spec.stage.count > 1 &&
        v->m_dim[0] != v->labels->output_spatial[0])
        return false;
    return fits && product_spec_has_code(&v->spec);
}

bool conv_spec_of(const struct hlo_instr *instr, const struct cpu_target *target,
                  struct product_spec *spec) {
    struct conv v;
    if (!conv_match(instr) || depthwise_match(instr)) return false;
    if (!read_conv(instr, NULL, &v) || conv_phases(&v) > 1 || is_folded(&v)) return false;
    if (v.groups > 1 || v.batch_groups > 1 || !conv_spec(&v, target->l2)) return false;
    *spec = v.spec;
    return true;
}

bool conv_match(const struct hlo_instr *instr) {
    struct conv v;
    if (!conv_read(instr, &v) || cpu_work_of(v.hero) < LEAST_WORK) return false;
    int64_t phases = conv_phases(&v);
    for (int64_t phase = 0; phase < phases; phase++) {
        conv_read(instr, &v);
        conv_take_phase(&v, phase);
        if (!conv_spec(&v, 512 << 10)) return false;
    }
    return true;
}

static bool conv_make_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t phase,
                           struct conv *v, struct product_plan *plan) {
    if (!conv_read(instr, v)) return false;
    conv_take_phase(v, phase);
    if (!conv_spec(v, g->target.l2)) return false;
    product_plan_make(plan, &g->target, &v->spec, product_has_epilogue(instr));
    return true;
}

void conv_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units, int64_t *scratch) {
    struct conv v;
    struct product_plan plan;
    if (!conv_read(instr, &v)) return;
    int64_t phases = conv_phases(&v);
    *units = *scratch = 0;
    for (int64_t phase = 0; phase < phases; phase++) {
        if (!conv_make_plan(g, instr, phase, &v, &plan)) return;
        *units += plan.units;
        if (plan.scratch > *scratch) *scratch = plan.scratch;
    }
}

/* ---- emission ---- */

struct conv_finish {
    struct conv *v;
    struct product_epilogue epilogue;
};

/* index[dim] += the part that each of dims gives. */
static void add_digits(struct cpu_gen *g, const struct product_dims *dims, const int *names,
                       LLVMValueRef at, const struct conv *v, LLVMValueRef *index) {
    int64_t size = 1;
    for (int i = 0; i < dims->count; i++)
        size *= dims->v[i].size;
    gen_index_bound(g, at, size);
    for (int i = dims->count - 1; i >= 0; i--) {
        const struct product_dim *d = &dims->v[i];
        LLVMValueRef digit = i == 0 ? at : gen_index_rem(g, at, d->size);
        if (i > 0) at = gen_index_div(g, at, d->size);
        int64_t scale = d->c / v->c[names[i]];
        LLVMValueRef part = gen_index_mul(g, digit, scale);
        index[names[i]] = index[names[i]] ? gen_index_add(g, index[names[i]], part) : part;
    }
}

static void finish_conv(void *data, LLVMValueRef sum, LLVMValueRef batch, LLVMValueRef m,
                        LLVMValueRef n) {
    struct conv_finish *f = data;
    struct conv *v = f->v;
    struct cpu_gen *g = f->epilogue.g;
    LLVMValueRef index[SHAPE_MAX_RANK] = {NULL};
    scope_push(&g->seen);
    add_digits(g, &v->spec.batch, v->batch_dim, batch, v, index);
    add_digits(g, &v->spec.m, v->m_dim, m, v, index);
    int feature = v->labels->output_feature;
    if (is_folded(v)) {
        add_digits(g, &v->spec.n, v->n_dim, n, v, index);
    } else {
        gen_index_bound(g, n, v->outputs);
        index[feature] = index[feature] ? gen_index_add(g, index[feature], n) : n;
    }
    for (int d = 0; d < v->labels->spatial; d++) {
        LLVMValueRef *at = &index[v->labels->output_spatial[d]], first = gen_i64(g, v->first[d]);
        if (v->first[d]) *at = *at ? gen_index_add(g, *at, first) : first;
    }
    for (int d = 0; d < v->out->rank; d++)
        if (!index[d]) index[d] = gen_i64(g, 0);
    product_epilogue_store(&f->epilogue, sum, index);
    scope_pop(&g->seen);
}

static void emit_phase(struct cpu_gen *g, struct cpu_kernel *k, struct conv *v,
                       const struct product_plan *plan, LLVMValueRef begin, LLVMValueRef end) {
    struct conv_finish finish = {v, {g, k, v->hero, plan->type}};
    int64_t first = 0;
    for (int d = 0; d < v->labels->spatial; d++)
        first += v->first[d] * v->c[v->labels->output_spatial[d]];
    int64_t first_byte = first * element_type_size(v->out->type);
    struct product_code code = {.a = gen_leaves(g, v->input.base)[0],
                                .b = gen_leaves(g, v->kernel.base)[0],
                                .c = ir_atk(&g->b, k->out[0], first_byte),
                                .scratch = k->scratch,
                                .begin = begin,
                                .end = end};
    if (plan->finishes) {
        code.finish = finish_conv;
        code.data = &finish;
        if (product_has_epilogue(k->instr))
            product_epilogue_touch(&finish.epilogue, &v->input, &v->kernel, &code);
        for (int i = 0; i < code.ntouched; i++)
            code.touched[i] = ir_atk(&g->b, code.touched[i], first_byte);
    }
    product_emit(&g->b, &g->target, plan, &code);
}

/* The phases' units follow each other. */
void conv_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct conv v;
    struct product_plan plan;
    struct cpu_builder *b = &g->b;
    if (!conv_read(k->instr, &v)) return;
    int64_t phases = conv_phases(&v), before = 0;
    gen_enter_kernel(g, k);
    for (int64_t phase = 0; phase < phases; phase++) {
        if (!conv_make_plan(g, k->instr, phase, &v, &plan)) return;
        if (phases == 1) {
            emit_phase(g, k, &v, &plan, k->begin, k->end);
            return;
        }
        LLVMValueRef none = ir_k(b, 0), begin = ir_addk(b, k->begin, -before);
        begin = select_of(b, i_cmp(b, LLVMIntSLT, begin, none), none, begin);
        LLVMValueRef end = ir_min(b, ir_addk(b, k->end, -before), ir_k(b, plan.units));
        struct ir_if some = ir_if_begin(b, i_cmp(b, LLVMIntSLT, begin, end), false);
        emit_phase(g, k, &v, &plan, begin, end);
        ir_if_end(b, &some);
        before += plan.units;
    }
}
