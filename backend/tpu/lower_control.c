/* Control flow: the scalar unit reads a predicate or an index, and branches between kernels. */
#include "backend/tpu/lower.h"

static treg word_from_hbm(struct job *job, const struct tarray *array) {
    struct kernel *k = job->k;
    struct tpu_dma dma = {
        .from = TPU_HBM,
        .to = TPU_SMEM,
        .source = (uint32_t)array->word,
        .target = SMEM_VALUE,
        .length = 1,
        .count = {1, 1, 1},
    };
    job_describe(job, SMEM_SCALAR, FLAG_SCALAR, &dma);
    treg zero = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM});
    treg at = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM, .imm = SMEM_SCALAR});
    k_emit(k, (struct mop){.op = TPU_DMA, .a = at});
    k_emit(k, (struct mop){.op = TPU_WAIT, .literal = FLAG_SCALAR, .imm = 1});
    return k_emit(k, (struct mop){.op = TPU_SLD, .a = zero, .bkind = MIR_B_IMM, .imm = SMEM_VALUE});
}

/* The first word of an array, on the scalar unit. */
static treg read_scalar(struct job *job, const struct hlo_instr *instr, int leaf) {
    struct kernel *k = job->k;
    struct tarray array;
    if (!leaf_array(job->lower, instr, leaf, &array)) return 0;
    treg value = array.in_vmem ? k_to_scalar(k, k_load(k, sx_const((int32_t)array.row),
                                                       MIR_STRIDE_0, sx_const(0), array.tag))
                               : word_from_hbm(job, &array);
    if (array.layout.packing == 1) return value;
    return k_binary_i(k, TPU_SAND, value, array.layout.packing == 4 ? 0xff : 0xffff);
}

static void branch(struct kernel *k, int label, treg predicate, bool unless) {
    k_emit(k,
           (struct mop){.op = TPU_BR, .target = -1 - label, .pred = predicate, .unless = unless});
    k_block(k);
}

/* A kernel that only branches, always. */
static bool jump(struct lower *lower, const struct hlo_instr *instr, int label) {
    struct job job;
    job_open(&job, lower, instr);
    branch(job.k, label, 0, false);
    return job_close(&job);
}

bool lower_while(struct lower *lower, const struct hlo_instr *instr) {
    int head = lower_label(lower), end = lower_label(lower);
    struct job job;
    lower_place(lower, head);
    if (!lower_computation(lower, instr->called[0])) return false;
    job_open(&job, lower, instr);
    treg value = read_scalar(&job, instr->called[0]->root, 0);
    if (value) branch(job.k, end, k_binary_i(job.k, TPU_SEQ, value, 0), false);
    if (!job_close(&job)) return false;
    if (!lower_computation(lower, instr->called[1]) || !jump(lower, instr, head)) return false;
    lower_place(lower, end);
    return true;
}

/* A predicate: branch 0 where it is true. An index out of range takes the last branch. */
bool lower_conditional(struct lower *lower, const struct hlo_instr *instr) {
    int end = lower_label(lower), n = instr->ncalled;
    bool is_pred = instr->operands[0]->shape->type == TYPE_PRED;
    int *labels = arena_array(lower->arena, (size_t)n + 1, sizeof *labels);
    struct job job;
    for (int i = 0; i < n; i++)
        labels[i] = lower_label(lower);
    job_open(&job, lower, instr);
    treg value = read_scalar(&job, instr->operands[0], 0);
    for (int i = 0; value && i + 1 < n; i++)
        branch(job.k, labels[i], k_binary_i(job.k, TPU_SEQ, value, is_pred ? 1 : i), false);
    branch(job.k, labels[n - 1], 0, false);
    if (!job_close(&job)) return false;
    for (int i = 0; i < n; i++) {
        lower_place(lower, labels[i]);
        if (!lower_computation(lower, instr->called[i]) || !jump(lower, instr, end)) return false;
    }
    lower_place(lower, end);
    return true;
}

bool lower_halt(struct lower *lower) {
    struct job job;
    job_open(&job, lower, lower->module->entry->root);
    k_emit(job.k, (struct mop){.op = TPU_HALT});
    return job_close(&job);
}
