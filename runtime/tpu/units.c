/* The units behind FIFOs: matrix units, elementary functions, cross-lane, vector to scalar. */
#include <math.h>
#include <string.h>

#include "runtime/tpu/machine.h"

int tpu_fifo_add(struct tpu_fifo *fifo, uint64_t ready) {
    int at = (fifo->first + fifo->count++) % fifo->slots;
    fifo->ready[at] = ready;
    return at;
}

int tpu_fifo_take(struct tpu_fifo *fifo) {
    int at = fifo->first;
    fifo->first = (fifo->first + 1) % fifo->slots;
    fifo->count--;
    return at;
}

struct tpu_fifo *tpu_unit_fifo(struct tpu_core *core, const struct tpu_step *step) {
    switch (step->info->effect) {
    case TPU_EFFECT_MXU_PUSH:
    case TPU_EFFECT_MXU_POP: return &core->mxu[step->in.unit].out;
    case TPU_EFFECT_EUP_PUSH:
    case TPU_EFFECT_EUP_POP: return &core->eup;
    case TPU_EFFECT_XLU_PUSH:
    case TPU_EFFECT_XLU_POP: return &core->xlu;
    case TPU_EFFECT_V2S_PUSH:
    case TPU_EFFECT_V2S_POP: return &core->v2s;
    default: return NULL;
    }
}

static int results_of(const struct tpu_step *step) {
    switch (step->in.op) {
    case TPU_MPUSHBF: return 2;
    case TPU_XTR: return 0;
    case TPU_XTRL: return step->in.b;
    default: return 1;
    }
}

bool tpu_pop_time(struct tpu_core *core, const struct tpu_step *step, uint64_t *time) {
    const struct tpu_fifo *fifo = tpu_unit_fifo(core, step);
    core->step = step;
    if (!fifo->count) return tpu_stop(core, "a pop, and no result is under way");
    *time = fifo->ready[fifo->first];
    return true;
}

/* When a unit whose input takes `rows` at one a cycle, from `free` on, accepts the next push. */
static uint64_t accept_time(const struct tpu_core *core, uint64_t free) {
    uint64_t queue = (uint64_t)core->machine->chip->mxu_queue_rows;
    return free > queue ? free - queue : 0;
}

static bool weight_time(struct tpu_core *core, const struct tpu_step *step, uint64_t *time) {
    struct tpu_mxu *mxu = &core->mxu[step->in.unit];
    int set = step->in.flags & TPU_FLAG_SET, rows = step->info->latency;
    bool start = step->in.flags & TPU_FLAG_START, turned = step->in.flags & TPU_FLAG_TRANSPOSE;
    uint64_t free = mxu->weights_free;
    if (!start && !mxu->started[set]) return tpu_stop(core, "weights that no START came before");
    if (!start && mxu->transposed[set] != turned) {
        return tpu_stop(core, "one tile of weights, transposed and not");
    }
    if ((start ? 0 : mxu->rows[set]) + rows > TPU_MXU_DIM) {
        return tpu_stop(core, "more than 128 rows of weights");
    }
    if (mxu->used_until[set] > free) free = mxu->used_until[set];
    *time = accept_time(core, free);
    return true;
}

bool tpu_push_time(struct tpu_core *core, const struct tpu_step *step, int pops, uint64_t *time) {
    core->step = step;
    enum tpu_effect effect = step->info->effect;
    if (effect == TPU_EFFECT_MXU_WEIGHT) return weight_time(core, step, time);
    struct tpu_fifo *fifo = tpu_unit_fifo(core, step);
    if (fifo->count - pops + results_of(step) > fifo->capacity) {
        return tpu_stop(core, "the FIFO is full: %d results are under way or waiting", fifo->count);
    }
    *time = fifo->free;
    if (effect != TPU_EFFECT_MXU_PUSH) return true;
    const struct tpu_mxu *mxu = &core->mxu[step->in.unit];
    int set = step->in.flags & TPU_FLAG_SET;
    if (mxu->rows[set] != TPU_MXU_DIM) {
        return tpu_stop(core, "weight set %d has %d of 128 rows", set, mxu->rows[set]);
    }
    uint64_t free = fifo->free > mxu->weights_ready[set] ? fifo->free : mxu->weights_ready[set];
    *time = accept_time(core, free);
    return true;
}

/* ---- matrix units ---- */

/* What is not finite counts as 0. */
static void cross_product(int rows, const float (*data)[TPU_MXU_DIM],
                          const float (*weights)[TPU_MXU_DIM], float (*out)[TPU_MXU_DIM]) {
    for (int r = 0; r < rows; r++) {
        for (int n = 0; n < TPU_MXU_DIM; n++) {
            float sum = 0;
            for (int k = 0; k < TPU_MXU_DIM; k++) {
                float a = data[r][k], b = weights[k][n];
                if (isfinite(a) && isfinite(b)) sum = fmaf(a, b, sum);
            }
            out[r][n] = sum;
        }
    }
}

static void push_data(struct tpu_core *core, const struct tpu_step *step) {
    struct tpu_mxu *mxu = &core->mxu[step->in.unit];
    const struct tpu_chip *chip = core->machine->chip;
    int set = step->in.flags & TPU_FLAG_SET;
    float rows[16][TPU_MXU_DIM], result[16][TPU_MXU_DIM];
    int count = tpu_mxu_rows((enum tpu_op)step->in.op, core->v[step->in.dest],
                             core->m[step->in.mask], rows);
    const float(*weights)[TPU_MXU_DIM] = (const void *)mxu->weights[set];
    const float(*data)[TPU_MXU_DIM] = (const void *)rows;
    bool odd =
        step->in.flags & TPU_FLAG_CROSS && (mxu->nonfinite[set] || tpu_mxu_nonfinite(data, count));
    (odd ? cross_product : tpu_mxu_product)(count, data, weights, result);
    uint64_t start = core->now;
    if (mxu->out.free > start) start = mxu->out.free;
    if (mxu->weights_ready[set] > start) start = mxu->weights_ready[set];
    mxu->out.free = mxu->used_until[set] = start + (uint64_t)count;
    core->stats.mxu_rows[step->in.unit] += (uint64_t)count;
    uint32_t source = core->machine->executable->code[core->pc].source;
    if (source != UINT32_MAX) core->stats.source[source].mxu_rows += (uint64_t)count;
    for (int i = 0; i < count; i += TPU_SUBLANES) {
        int at = tpu_fifo_add(&mxu->out, start + (uint64_t)(chip->mxu_latency_cycles + i));
        memcpy(mxu->out.data[at], result[i], sizeof(tpu_vreg));
    }
    if (core->machine->trace) tpu_trace_mxu(core, step->in.unit, start, mxu->out.free);
}

static void push_weights(struct tpu_core *core, const struct tpu_step *step) {
    struct tpu_mxu *mxu = &core->mxu[step->in.unit];
    int set = step->in.flags & TPU_FLAG_SET;
    float rows[16][TPU_MXU_DIM];
    int count = tpu_mxu_rows((enum tpu_op)step->in.op, core->v[step->in.dest],
                             core->m[step->in.mask], rows);
    if (step->in.flags & TPU_FLAG_START) {
        mxu->started[set] = true;
        mxu->rows[set] = 0;
        mxu->nonfinite[set] = false;
        mxu->transposed[set] = step->in.flags & TPU_FLAG_TRANSPOSE;
    }
    int first = mxu->rows[set];
    if (!mxu->transposed[set]) {
        memcpy(mxu->weights[set][first], rows, (size_t)count * sizeof *rows);
    } else {
        for (int l = 0; l < TPU_MXU_DIM; l++) {
            for (int r = 0; r < count; r++)
                mxu->weights[set][l][first + r] = rows[r][l];
        }
    }
    mxu->nonfinite[set] |= tpu_mxu_nonfinite((const void *)rows, count);
    mxu->rows[set] += count;
    uint64_t start = core->now;
    if (mxu->weights_free > start) start = mxu->weights_free;
    if (mxu->used_until[set] > start) start = mxu->used_until[set];
    mxu->weights_free = start + (uint64_t)count;
    mxu->weights_ready[set] = mxu->weights_free;
}

bool tpu_push(struct tpu_core *core, const struct tpu_step *step) {
    if (step->info->effect == TPU_EFFECT_MXU_PUSH) {
        push_data(core, step);
    } else {
        push_weights(core, step);
    }
    return true;
}

/* ---- pushes of the miscellaneous slot ---- */

static bool push_transpose(struct tpu_core *core, const struct tpu_step *step) {
    if (core->transpose_rows == TPU_TRANSPOSE_MAX) {
        return tpu_stop(core, "more than 16 pushes of one transpose");
    }
    memcpy(core->transpose[core->transpose_rows++], core->v[step->in.a], sizeof(tpu_vreg));
    if (step->in.op == TPU_XTR) return true;
    const struct tpu_chip *chip = core->machine->chip;
    for (int j = 0; j < step->in.b; j++) {
        uint64_t ready = core->now + (uint64_t)(chip->xlu_transpose_cycles + 8 * j);
        uint32_t *d = core->xlu.data[tpu_fifo_add(&core->xlu, ready)];
        for (int i = 0; i < TPU_REG_WORDS; i++) {
            int from = i % TPU_LANES, lane = 8 * j + i / TPU_LANES;
            d[i] = from < core->transpose_rows * 8
                       ? core->transpose[from / 8][from % 8 * TPU_LANES + lane]
                       : 0;
        }
    }
    core->transpose_rows = 0;
    return true;
}

bool tpu_push_misc(struct tpu_core *core, const struct tpu_step *step, uint32_t amount) {
    const struct tpu_op_info *info = step->info;
    const struct tpu_chip *chip = core->machine->chip;
    struct tpu_fifo *fifo = tpu_unit_fifo(core, step);
    const uint32_t *a = core->v[step->in.a];
    const uint32_t *b = info->b == TPU_KIND_V ? core->v[step->in.b] : a;
    fifo->free = core->now + info->latency;
    if (step->in.op == TPU_XTR || step->in.op == TPU_XTRL) return push_transpose(core, step);
    if (info->effect == TPU_EFFECT_V2S_PUSH) {
        fifo->word[tpu_fifo_add(fifo, core->now + (uint64_t)chip->v2s_latency_cycles)] = a[0];
        return true;
    }
    bool eup = info->effect == TPU_EFFECT_EUP_PUSH;
    if (!eup && core->transpose_rows) {
        return tpu_stop(core, "a push into the middle of a transpose");
    }
    int64_t latency =
        (eup ? chip->eup_latency_cycles : chip->xlu_latency_cycles) + info->latency - 1;
    uint64_t ready = core->now + (uint64_t)latency;
    if (fifo->count) { /* results come in order */
        uint64_t last = fifo->ready[(fifo->first + fifo->count - 1) % fifo->slots];
        if (ready <= last) ready = last + 1;
    }
    uint32_t *d = fifo->data[tpu_fifo_add(fifo, ready)];
    if (eup) {
        tpu_eup_fn(step->in.op)(d, a, b);
    } else {
        tpu_xlu_compute(step->in.op, d, a, b, (int32_t)amount);
    }
    return true;
}

void tpu_pop(struct tpu_core *core, const struct tpu_step *step, uint32_t *out) {
    struct tpu_fifo *fifo = tpu_unit_fifo(core, step);
    int at = tpu_fifo_take(fifo);
    if (!fifo->data) {
        *out = fifo->word[at];
    } else if (step->in.op == TPU_MPOPADD) {
        tpu_vector_fns(TPU_VADDF).vector(out, core->v[step->in.dest], fifo->data[at]);
    } else {
        memcpy(out, fifo->data[at], sizeof(tpu_vreg));
    }
}
