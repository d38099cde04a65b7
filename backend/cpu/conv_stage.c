/* The copy of a convolution's input that the kernels read: padded, dilated, channels innermost. */
#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

static int64_t row_elements(const struct product_stage *s, int from) {
    int64_t count = s->channels;
    for (int d = from; d < s->rank; d++)
        count *= s->dim[d].extent;
    return count;
}

int64_t product_stage_elements(const struct product_stage *stage) {
    return stage->when == STAGE_NEVER ? 0 : row_elements(stage, 0);
}

static void zero(struct product *q, LLVMValueRef to, int64_t elements) {
    struct cpu_builder *b = q->b;
    if (elements == 0) return;
    LLVMValueRef nothing = LLVMConstInt(int_type(b, 8), 0, false);
    LLVMBuildMemSet(b->builder, to, nothing, ir_k(b, elements * q->size), (unsigned)q->size);
}

/* One element after the other, channels far apart. */
static void copy_apart(struct product *q, LLVMValueRef from, LLVMValueRef to, int64_t count) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    int64_t stride = s->dim[s->rank - 1].stride;
    struct ir_loop channels = ir_loop_count(b, s->channels, 1);
    LLVMValueRef source = ir_at(b, from, ir_mulk(b, channels.i, s->channel_stride * q->a_size));
    LLVMValueRef target = ir_at(b, to, ir_mulk(b, channels.i, q->size));
    struct ir_loop places = ir_loop_count(b, count, 1);
    LLVMValueRef at = ir_at(b, source, ir_mulk(b, places.i, stride * q->a_size));
    LLVMValueRef value = cpu_load(b, q->p->spec.a_type, at, NULL);
    value = cpu_emit_convert(b, value, q->p->spec.a_type, q->p->type);
    cpu_store(b, q->p->type, value, ir_at(b, target, ir_mulk(b, places.i, s->channels * q->size)));
    ir_loop_end_parallel(b, &places, 0);
    ir_loop_end(b, &channels);
}

/* All channels of `count` positions of the last dimension that follow each other. */
static void copy_places(struct product *q, LLVMValueRef from, LLVMValueRef to, int64_t count) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    int64_t stride = s->dim[s->rank - 1].stride, run = s->channels;
    if (count <= 0) return;
    if (s->channel_stride != 1 && s->channels > 1) {
        copy_apart(q, from, to, count);
        return;
    }
    if (stride == s->channels) {
        run *= count;
        count = 1;
    }
    LLVMValueRef pack = pack_run(b, q->target, true, q->p->spec.a_type, q->p->type);
    struct ir_loop places = ir_loop_count(b, count, 1);
    ir_call(b, pack, PACK_RUN_ARGUMENTS,
            (LLVMValueRef[]){ir_at(b, from, ir_mulk(b, places.i, stride * q->a_size)),
                             ir_k(b, q->a_size), ir_k(b, run),
                             ir_at(b, to, ir_mulk(b, places.i, s->channels * q->size))});
    ir_loop_end(b, &places);
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The last dimension where its place is fixed and its elements are neighbours: zeros, elements,
 * zeros. */
static void copy_row(struct product *q, LLVMValueRef from, LLVMValueRef to) {
    const struct product_stage *s = &q->p->spec.stage;
    const struct stage_dim *d = &s->dim[s->rank - 1];
    int64_t left = most(d->low, 0), skip = most(-d->low, 0);
    if (left > d->extent) left = d->extent;
    int64_t count = most(0, d->size - skip);
    if (count > d->extent - left) count = d->extent - left;
    int64_t bytes = s->channels * q->size;
    zero(q, to, left * s->channels);
    copy_places(q, ir_atk(q->b, from, skip * d->stride * q->a_size), ir_atk(q->b, to, left * bytes),
                count);
    zero(q, ir_atk(q->b, to, (left + count) * bytes), (d->extent - left - count) * s->channels);
}

/* first: where position 0 of dimension `d` of the copy falls in the dilated input. */
static void copy_dim(struct product *q, int d, LLVMValueRef first, LLVMValueRef from,
                     LLVMValueRef to) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    const struct stage_dim *dim = &s->dim[d];
    bool last = d == s->rank - 1;
    if (last && d > 0 && dim->dilate == 1) {
        copy_row(q, from, to);
        return;
    }
    int64_t elements = row_elements(s, d + 1);
    struct ir_loop rows = ir_loop_count(b, dim->extent, 1);
    LLVMValueRef at = ir_add(b, first, rows.i);
    LLVMValueRef target = ir_at(b, to, ir_mulk(b, rows.i, elements * q->size));
    LLVMValueRef inside = i_and(b, i_cmpk(b, LLVMIntSGE, at, 0),
                                i_cmp(b, LLVMIntSLE, at, ir_k(b, (dim->size - 1) * dim->dilate)));
    if (dim->dilate > 1) {
        LLVMValueRef dilate = ir_k(b, dim->dilate);
        LLVMValueRef rest = LLVMBuildSRem(b->builder, at, dilate, "");
        inside = i_and(b, inside, i_cmpk(b, LLVMIntEQ, rest, 0));
        at = LLVMBuildSDiv(b->builder, at, dilate, "");
    }
    struct ir_if in = ir_if_begin(b, inside, true);
    LLVMValueRef source = ir_at(b, from, ir_mulk(b, at, dim->stride * q->a_size));
    if (last)
        copy_places(q, source, target, 1);
    else
        copy_dim(q, d + 1, ir_k(b, -s->dim[d + 1].low), source, target);
    ir_if_else(b, &in);
    zero(q, target, elements);
    ir_if_end(b, &in);
    ir_loop_end(b, &rows);
}

void product_emit_stage(struct product *q, LLVMValueRef source, LLVMValueRef band) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    LLVMValueRef first = ir_addk(b, ir_mulk(b, band, s->band * s->step), -s->dim[0].low);
    copy_dim(q, 0, first, source, q->stage);
}
