/* The copy of a convolution's input that the kernels read: padded, dilated, channels innermost. */
#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

int64_t product_stage_elements(const struct product_stage *stage) {
    if (stage->when == STAGE_NEVER) return 0;
    int64_t count = stage->channels;
    for (int d = 0; d < stage->rank; d++)
        count *= stage->dim[d].extent;
    return count;
}

void product_emit_stage(struct product *q, LLVMValueRef source, LLVMValueRef band) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    enum element_type from = q->p->spec.a_type, to = q->p->type;
    int64_t config[STAGE_DIMS + STAGE_PER_DIM * STAGE_MAX_RANK] = {
        [STAGE_KIND] = pack_kind(from, to), [STAGE_FROM_SIZE] = q->a_size,
        [STAGE_TO_SIZE] = q->size,          [STAGE_RANK] = s->rank,
        [STAGE_CHANNELS] = s->channels,     [STAGE_CHANNEL_STEP] = s->channel_stride * q->a_size,
    };
    for (int d = 0; d < s->rank; d++) {
        int64_t *dim = config + STAGE_DIMS + STAGE_PER_DIM * d;
        dim[STAGE_SIZE] = s->dim[d].size;
        dim[STAGE_STEP] = s->dim[d].stride * q->a_size;
        dim[STAGE_LOW] = s->dim[d].low;
        dim[STAGE_DILATE] = s->dim[d].dilate;
        dim[STAGE_EXTENT] = s->dim[d].extent;
    }
    LLVMValueRef first = ir_addk(b, ir_mulk(b, band, s->band * s->step), -s->dim[0].low);
    LLVMValueRef arguments[] = {ir_table(b, config, STAGE_DIMS + STAGE_PER_DIM * s->rank),
                                pack_converter(b, from, to), source, q->stage, first};
    ir_runtime_call(b, "hlocc_rt_stage", 5, arguments);
}
