/* The copy of a convolution's input that the kernels read: padded, dilated, channels innermost. One
 * function of the module does it for all convolutions of equal rank and element types:
 *     void stage(ptr from, ptr to, i64 first, i64 channels, i64 channel_step, DIM...)
 * with five i64 for each DIM: size, step, low, dilate, extent as in struct stage_dim, where steps
 * are in bytes; first is where position 0 of dimension 0 falls in the dilated input. */
#include <stdio.h>

#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

enum { FIXED = 5, PER_DIM = 5, MOST_ARGUMENTS = FIXED + PER_DIM * STAGE_MAX_RANK };

int64_t product_stage_elements(const struct product_stage *stage) {
    if (stage->when == STAGE_NEVER) return 0;
    int64_t count = stage->channels;
    for (int d = 0; d < stage->rank; d++)
        count *= stage->dim[d].extent;
    return count;
}

struct stage_value {
    LLVMValueRef size, step, low, dilate, extent;
    LLVMValueRef bytes; /* of one position in the copy */
};

struct stage {
    struct cpu_builder *b;
    const struct cpu_target *target;
    enum element_type from, to;
    int rank;
    int64_t from_size, to_size;
    LLVMValueRef channels, channel_step;
    struct stage_value dim[STAGE_MAX_RANK];
};

static LLVMValueRef times(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildNSWMul(b->builder, x, y, "");
}

static LLVMValueRef minus(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildNSWSub(b->builder, x, y, "");
}

static LLVMValueRef larger(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    return select_of(b, i_cmp(b, LLVMIntSGT, x, y), x, y);
}

static void zero(struct stage *s, LLVMValueRef to, LLVMValueRef bytes) {
    LLVMValueRef nothing = LLVMConstInt(int_type(s->b, 8), 0, false);
    LLVMBuildMemSet(s->b->builder, to, nothing, bytes, (unsigned)s->to_size);
}

/* One element after the other, channels far apart. */
static void copy_apart(struct stage *s, LLVMValueRef from, LLVMValueRef to, LLVMValueRef count) {
    struct cpu_builder *b = s->b;
    const struct stage_value *last = &s->dim[s->rank - 1];
    struct ir_loop channels = ir_loop_begin(b, ir_k(b, 0), s->channels, 1, false);
    LLVMValueRef source = ir_at(b, from, times(b, channels.i, s->channel_step));
    LLVMValueRef target = ir_at(b, to, ir_mulk(b, channels.i, s->to_size));
    struct ir_loop places = ir_loop_begin(b, ir_k(b, 0), count, 1, true);
    LLVMValueRef at = ir_at(b, source, times(b, places.i, last->step));
    LLVMValueRef value = cpu_emit_convert(b, cpu_load(b, s->from, at, NULL), s->from, s->to);
    cpu_store(b, s->to, value, ir_at(b, target, times(b, places.i, last->bytes)));
    ir_loop_end_parallel(b, &places, 0);
    ir_loop_end(b, &channels);
}

/* All channels of `count` positions of the last dimension that follow each other. */
static void copy_places(struct stage *s, LLVMValueRef from, LLVMValueRef to, LLVMValueRef count) {
    struct cpu_builder *b = s->b;
    const struct stage_value *last = &s->dim[s->rank - 1];
    LLVMValueRef near = i_cmpk(b, LLVMIntEQ, s->channel_step, (uint64_t)s->from_size);
    near = i_or(b, near, i_cmpk(b, LLVMIntEQ, s->channels, 1));
    struct ir_if side = ir_if_begin(b, near, true);
    LLVMValueRef whole = i_cmp(b, LLVMIntEQ, last->step, ir_mulk(b, s->channels, s->from_size));
    LLVMValueRef run = select_of(b, whole, times(b, s->channels, count), s->channels);
    LLVMValueRef rounds = select_of(b, whole, ir_min(b, count, ir_k(b, 1)), count);
    LLVMValueRef pack = pack_run(b, s->target, true, s->from, s->to);
    struct ir_loop places = ir_loop_begin(b, ir_k(b, 0), rounds, 1, true);
    ir_call(b, pack, PACK_RUN_ARGUMENTS,
            (LLVMValueRef[]){ir_at(b, from, times(b, places.i, last->step)), ir_k(b, s->from_size),
                             run, ir_at(b, to, times(b, places.i, last->bytes))});
    ir_loop_end(b, &places);
    ir_if_else(b, &side);
    copy_apart(s, from, to, count);
    ir_if_end(b, &side);
}

/* The last dimension where its place is fixed and its elements are neighbours: zeros, elements,
 * zeros. */
static void copy_row(struct stage *s, LLVMValueRef from, LLVMValueRef to) {
    struct cpu_builder *b = s->b;
    const struct stage_value *d = &s->dim[s->rank - 1];
    LLVMValueRef none = ir_k(b, 0);
    LLVMValueRef left = ir_min(b, larger(b, d->low, none), d->extent);
    LLVMValueRef skip = larger(b, minus(b, none, d->low), none);
    LLVMValueRef count = larger(b, none, minus(b, d->size, skip));
    count = ir_min(b, count, minus(b, d->extent, left));
    LLVMValueRef start = times(b, left, d->bytes),
                 end = ir_add(b, start, times(b, count, d->bytes));
    zero(s, to, start);
    copy_places(s, ir_at(b, from, times(b, skip, d->step)), ir_at(b, to, start), count);
    zero(s, ir_at(b, to, end), minus(b, times(b, d->extent, d->bytes), end));
}

/* One position after the other. */
static void copy_dim(struct stage *s, int d, LLVMValueRef first, LLVMValueRef from,
                     LLVMValueRef to);

static void copy_inner(struct stage *s, int d, LLVMValueRef from, LLVMValueRef to) {
    struct cpu_builder *b = s->b;
    const struct stage_value *dim = &s->dim[d];
    if (d == s->rank) {
        copy_places(s, from, to, ir_k(b, 1));
        return;
    }
    LLVMValueRef first = minus(b, ir_k(b, 0), dim->low);
    if (d < s->rank - 1) {
        copy_dim(s, d, first, from, to);
        return;
    }
    struct ir_if plain = ir_if_begin(b, i_cmpk(b, LLVMIntEQ, dim->dilate, 1), true);
    copy_row(s, from, to);
    ir_if_else(b, &plain);
    copy_dim(s, d, first, from, to);
    ir_if_end(b, &plain);
}

static void copy_dim(struct stage *s, int d, LLVMValueRef first, LLVMValueRef from,
                     LLVMValueRef to) {
    struct cpu_builder *b = s->b;
    const struct stage_value *dim = &s->dim[d];
    struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), dim->extent, 1, false);
    LLVMValueRef place = ir_add(b, first, rows.i);
    LLVMValueRef target = ir_at(b, to, times(b, rows.i, dim->bytes));
    LLVMValueRef at = LLVMBuildSDiv(b->builder, place, dim->dilate, "");
    LLVMValueRef inside = i_cmp(b, LLVMIntEQ, times(b, at, dim->dilate), place);
    inside = i_and(b, inside, i_cmpk(b, LLVMIntSGE, place, 0));
    inside = i_and(b, inside, i_cmp(b, LLVMIntSLT, at, dim->size));
    struct ir_if in = ir_if_begin(b, inside, true);
    copy_inner(s, d + 1, ir_at(b, from, times(b, at, dim->step)), target);
    ir_if_else(b, &in);
    zero(s, target, dim->bytes);
    ir_if_end(b, &in);
    ir_loop_end(b, &rows);
}

static LLVMValueRef stage_function(struct product *q) {
    struct cpu_builder *b = q->b;
    struct stage s = {.b = b, .target = q->target, .from = q->p->spec.a_type, .to = q->p->type};
    s.rank = q->p->spec.stage.rank;
    s.from_size = q->a_size;
    s.to_size = q->size;
    char name[64];
    snprintf(name, sizeof name, "stage.%d.%s.%s", s.rank, element_type_name(s.from),
             element_type_name(s.to));
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (function) return function;
    LLVMTypeRef types[MOST_ARGUMENTS];
    int count = FIXED + PER_DIM * s.rank;
    for (int i = 0; i < count; i++)
        types[i] = i < 2 ? ir_pointer(b) : ir_i64(b);
    LLVMBasicBlockRef back;
    function = ir_function_begin(b, name, count, types, &back);
    s.channels = LLVMGetParam(function, 3);
    s.channel_step = LLVMGetParam(function, 4);
    LLVMValueRef bytes = ir_mulk(b, s.channels, s.to_size);
    for (int d = s.rank - 1; d >= 0; d--) {
        unsigned at = FIXED + PER_DIM * (unsigned)d;
        s.dim[d] =
            (struct stage_value){LLVMGetParam(function, at),     LLVMGetParam(function, at + 1),
                                 LLVMGetParam(function, at + 2), LLVMGetParam(function, at + 3),
                                 LLVMGetParam(function, at + 4), bytes};
        bytes = times(b, bytes, s.dim[d].extent);
    }
    copy_dim(&s, 0, LLVMGetParam(function, 2), LLVMGetParam(function, 0),
             LLVMGetParam(function, 1));
    ir_function_end(b, back);
    return function;
}

void product_emit_stage(struct product *q, LLVMValueRef source, LLVMValueRef band) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    LLVMValueRef arguments[MOST_ARGUMENTS] = {source, q->stage};
    arguments[2] = ir_addk(b, ir_mulk(b, band, s->band * s->step), -s->dim[0].low);
    arguments[3] = ir_k(b, s->channels);
    arguments[4] = ir_k(b, s->channel_stride * q->a_size);
    int count = FIXED;
    for (int d = 0; d < s->rank; d++) {
        arguments[count++] = ir_k(b, s->dim[d].size);
        arguments[count++] = ir_k(b, s->dim[d].stride * q->a_size);
        arguments[count++] = ir_k(b, s->dim[d].low);
        arguments[count++] = ir_k(b, s->dim[d].dilate);
        arguments[count++] = ir_k(b, s->dim[d].extent);
    }
    ir_call(b, stage_function(q), count, arguments);
}
