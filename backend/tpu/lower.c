#include "backend/tpu/lower.h"

#include <string.h>

/* ---- DMA ---- */

static void store_word(struct kernel *k, treg zero, int word, treg value) {
    k_emit(k, (struct mop){.op = TPU_SST, .d = value, .a = zero, .bkind = MIR_B_IMM, .imm = word});
}

static treg s_const(struct kernel *k, int64_t value) {
    return k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM, .imm = (int32_t)value});
}

/* Fills in source, target and length (words) of a descriptor of a fixed kind and starts it. */
static void start_run(struct kernel *k, int descriptor, int64_t source, int64_t target,
                      int64_t length) {
    treg zero = s_const(k, 0);
    store_word(k, zero, descriptor + 1, s_const(k, source));
    store_word(k, zero, descriptor + 2, s_const(k, target));
    store_word(k, zero, descriptor + 3, s_const(k, length));
    k_emit(k, (struct mop){.op = TPU_DMA, .a = s_const(k, descriptor)});
}

enum { FLAG_UNIT = 16 }; /* of a descriptor's word 0 */

void job_run(struct job *job, bool load, struct sx flag, struct sx source, struct sx target,
             struct sx length, treg predicate) {
    struct kernel *k = job->k;
    int at = load ? SMEM_LOAD : SMEM_STORE;
    struct tpu_dma dma = {.from = load ? TPU_HBM : TPU_VMEM,
                          .to = load ? TPU_VMEM : TPU_HBM,
                          .core = TPU_DMA_LOCAL,
                          .count = {1, 1, 1}};
    uint32_t words[TPU_DMA_WORDS];
    treg zero = s_const(k, 0);
    tpu_dma_encode(&dma, words);
    struct sx first = sx_addi(sx_muli(k, flag, FLAG_UNIT), (int32_t)words[0]);
    store_word(k, zero, at, sx_reg(k, first));
    store_word(k, zero, at + 1, sx_reg(k, source));
    store_word(k, zero, at + 2, sx_reg(k, target));
    store_word(k, zero, at + 3, sx_reg(k, length));
    k_emit(k, (struct mop){.op = TPU_DMA, .a = s_const(k, at), .pred = predicate});
}

void job_describe(struct job *job, int at, int flag, struct tpu_dma *dma) {
    uint32_t words[TPU_DMA_WORDS];
    treg zero = s_const(job->k, 0);
    dma->flag = (uint8_t)flag;
    dma->core = TPU_DMA_LOCAL;
    tpu_dma_encode(dma, words);
    job->descriptors[at / TPU_DMA_WORDS] = (int32_t)words[0];
    for (int i = 0; i < TPU_DMA_WORDS; i++)
        store_word(job->k, zero, at + i, s_const(job->k, (int32_t)words[i]));
}

void job_start(struct job *job, int at, struct sx flag, struct sx source, struct sx target,
               treg predicate) {
    struct kernel *k = job->k;
    treg zero = s_const(k, 0);
    if (!sx_is_const(flag) || flag.c) {
        struct sx word = sx_muli(k, flag, FLAG_UNIT);
        store_word(k, zero, at, sx_reg(k, sx_addi(word, job->descriptors[at / TPU_DMA_WORDS])));
    }
    store_word(k, zero, at + 1, sx_reg(k, source));
    store_word(k, zero, at + 2, sx_reg(k, target));
    k_emit(k, (struct mop){.op = TPU_DMA, .a = s_const(k, at), .pred = predicate});
}

static void wait_flag(struct kernel *k, int flag, int count) {
    if (count) k_emit(k, (struct mop){.op = TPU_WAIT, .literal = flag, .imm = count});
}

/* ---- kernels ---- */

/* Rows that are kept for spilled registers. */
enum { SPILL_ROWS = 1024 };

static uint32_t source_of(struct lower *lower, const struct hlo_instr *instr) {
    const char *file = NULL;
    int64_t line = 0;
    bool known = instr_source(instr, &file, &line);
    lower->sources = arena_grow(lower->arena, lower->sources, &lower->source_capacity,
                                lower->nsources + 1, sizeof *lower->sources);
    const char *op_name = instr->metadata ? instr->metadata->op_name : NULL;
    lower->sources[lower->nsources] =
        (struct tpu_source){.name = instr->name,
                            .op_name = op_name ? op_name : "",
                            .file = known ? file : "",
                            .line = known && line > 0 ? (uint32_t)line : 0};
    return (uint32_t)lower->nsources++;
}

static void begin_lines(struct lower *lower, const struct hlo_instr *instr) {
    uint32_t source = source_of(lower, instr);
    lower->lines = arena_grow(lower->arena, lower->lines, &lower->line_capacity, lower->nlines + 1,
                              sizeof *lower->lines);
    lower->lines[lower->nlines++] = (struct tpu_line){(uint32_t)lower->code.count, source};
}

static int64_t vmem_rows(const struct lower *lower) {
    return lower->options->chip.vmem_bytes / TPU_ROW_BYTES;
}

static void set_depths(struct job *job) {
    const struct tpu_chip *chip = &job->lower->options->chip;
    const int64_t fifos[] = {chip->eup_fifo, chip->xlu_fifo, chip->v2s_fifo};
    int64_t depth = 8;
    for (int i = 0; i < 3; i++)
        if (fifos[i] < depth) depth = fifos[i];
    job->k->mir->unit_depth = (int)depth;
    struct mir *mir = job->k->mir;
    if (chip->mxu_fifo < mir->mxu_depth) mir->mxu_depth = (int)chip->mxu_fifo;
    for (int u = 0; u < TPU_MAX_UNITS; u++)
        mir->units[u] = (struct mir_unit){(int)chip->mxu_latency_cycles, (int)chip->mxu_fifo};
    mir->units[MIR_EUP] = (struct mir_unit){(int)chip->eup_latency_cycles, (int)chip->eup_fifo};
    mir->units[MIR_XLU] = (struct mir_unit){(int)chip->xlu_latency_cycles, (int)chip->xlu_fifo};
    mir->units[MIR_V2S] = (struct mir_unit){(int)chip->v2s_latency_cycles, (int)chip->v2s_fifo};
    mir->transpose_latency = (int)chip->xlu_transpose_cycles;
}

void job_open(struct job *job, struct lower *lower, const struct hlo_instr *instr) {
    memset(job, 0, sizeof *job);
    job->lower = lower;
    job->instr = instr;
    job->arena = arena_new();
    job->k = kernel_new(job->arena);
    set_depths(job);
    /* Values that live in VMEM come first, with a guard before and after all of them. */
    job->row = tpu_memory_top(lower->memory, instr);
    if (job->row) job->row += VMEM_GUARD;
    job->g = (struct values){
        .k = job->k, .arena = job->arena, .matmul_precision = lower->options->matmul_precision};
    job->g.f = (struct fetcher){.k = job->k,
                                .guard_rows = VMEM_GUARD - TPU_SUBLANES,
                                .dma_word = SMEM_ROW,
                                .flag = FLAG_ROW,
                                .scratch_tag = k_tag(job->k)};
    job->g.f.scratch_row = job_rows(job, TPU_SUBLANES);
    job->g.f.turn_row = job_rows(job, TPU_LANES);
    job->g.f.turn_tag = k_tag(job->k);
}

static const char *finish_code(struct job *job) {
    struct lower *lower = job->lower;
    struct mir *mir = job->k->mir;
    mir->spill_row = job->row + VMEM_GUARD;
    mir->spill_word = SMEM_SPILL;
    begin_lines(lower, job->instr);
    int first = lower->code.count;
    mir_remove_dead(mir);
    const char *why = mir_finish(mir, &lower->code);
    if (lower->code.count == first) lower->nlines--;
    if (why) return why;
    if (mir->spill_row + 8 * (int64_t)mir->spill_rows > vmem_rows(lower))
        return arena_printf(
            lower->arena,
            "Resource exhausted: the kernel needs %lld KiB of VMEM, values that stay "
            "there and spilled registers included; a core of TPU %s has %lld KiB",
            (long long)(mir->spill_row + 8 * (int64_t)mir->spill_rows) / 2,
            lower->options->chip.name, (long long)vmem_rows(lower) / 2);
    if (SMEM_SPILL + mir->spill_words > lower->options->chip.smem_bytes / 4)
        return "a kernel needs more SMEM than there is";
    return NULL;
}

bool job_close(struct job *job) {
    const char *why = job->g.why ? job->g.why : finish_code(job);
    if (why) diag_instr_error(job->lower->diag, job->instr, "%s", why);
    arena_free(job->arena);
    return !why;
}

int64_t job_rows_left(const struct job *job) {
    /* Spilled registers come after everything else, and a guard before them. */
    return vmem_rows(job->lower) - job->row - 2 * VMEM_GUARD - SPILL_ROWS;
}

int64_t job_rows(struct job *job, int64_t rows) {
    rows = (rows + TPU_SUBLANES - 1) / TPU_SUBLANES * TPU_SUBLANES;
    if (rows > job_rows_left(job)) return -1;
    int64_t at = job->row + VMEM_GUARD;
    job->row = at + rows; /* the next one's guard, or what is always left, follows */
    return at;
}

/* Tags of arrays that live in VMEM: no kernel has as many of its own. */
enum { RESIDENT_TAG = 1 << 24 };

bool leaf_array(struct lower *lower, const struct hlo_instr *instr, int leaf,
                struct tarray *array) {
    int64_t address = tpu_memory_address(lower->memory, instr, leaf);
    int64_t row = tpu_memory_row(lower->memory, instr, leaf);
    const struct shape *shape = shape_leaf(instr->shape, leaf);
    *array = (struct tarray){.word = address / 4};
    if (row >= 0) {
        array->in_vmem = true;
        array->row = row + VMEM_GUARD;
        array->tag = RESIDENT_TAG + (int)row;
        array->guard = lower->memory->vmem_guard;
    }
    return (address >= 0 || row >= 0) && shape_is_array(shape) &&
           tpu_layout_of(&array->layout, shape);
}

bool job_array(struct job *job, const struct shape *shape, struct tarray *array) {
    *array = (struct tarray){.in_vmem = true, .tag = k_tag(job->k)};
    if (!tpu_layout_of(&array->layout, shape)) return false;
    array->row = job_rows(job, array->layout.memory_rows * array->layout.planes);
    return array->row >= 0;
}

bool job_hbm(struct job *job, const struct shape *shape, struct tarray *array) {
    struct lower *lower = job->lower;
    *array = (struct tarray){.word = lower->hbm_end / 4};
    if (!tpu_layout_of(&array->layout, shape)) return false;
    lower->hbm_end += array->layout.bytes;
    return true;
}

bool job_scratch(struct job *job, const struct shape *shape, struct tarray *array) {
    return job_array(job, shape, array) || job_hbm(job, shape, array);
}

void job_bring(struct job *job, struct tarray *array) {
    if (array->in_vmem) return;
    int64_t rows = array->layout.memory_rows * array->layout.planes;
    int64_t at = job_rows(job, rows);
    if (at < 0) return;
    start_run(job->k, SMEM_IN, array->word, at * TPU_LANES, rows * TPU_LANES);
    job->waiting++;
    array->in_vmem = true;
    array->row = at;
    array->tag = k_tag(job->k);
}

void job_wait(struct job *job) {
    wait_flag(job->k, FLAG_IN, job->waiting);
    job->waiting = 0;
}

void job_result(struct job *job, int leaf, struct tarray *array) {
    if (!leaf_array(job->lower, job->instr, leaf, array) || array->in_vmem) return;
    int64_t at = job_rows(job, array->layout.memory_rows * array->layout.planes);
    if (at < 0) return;
    array->in_vmem = true;
    array->row = at;
    array->tag = k_tag(job->k);
}

static void start_dma(struct job *job, int at, int flag, struct tpu_dma *dma) {
    job_describe(job, at, flag, dma);
    k_emit(job->k, (struct mop){.op = TPU_DMA, .a = s_const(job->k, at)});
}

void job_move(struct job *job, struct tpu_dma *dma) {
    /* Not a descriptor of runs: those keep their counts from kernel to kernel. */
    start_dma(job, SMEM_SLAB_A, FLAG_IN, dma);
    job->waiting++;
}

/* Starts a DMA between arrays of one layout, wherever they are. */
static void copy_array(struct job *job, const struct tarray *from, const struct tarray *to,
                       int flag) {
    int64_t words = from->layout.memory_rows * from->layout.planes * TPU_LANES;
    struct tpu_dma dma = {.from = from->in_vmem ? TPU_VMEM : TPU_HBM,
                          .to = to->in_vmem ? TPU_VMEM : TPU_HBM,
                          .source = (uint32_t)(from->in_vmem ? from->row * TPU_LANES : from->word),
                          .target = (uint32_t)(to->in_vmem ? to->row * TPU_LANES : to->word),
                          .length = (uint32_t)words,
                          .count = {1, 1, 1}};
    start_dma(job, SMEM_LOAD, flag, &dma);
}

void job_copy(struct job *job, const struct hlo_instr *operand, int leaf,
              const struct tarray *result) {
    struct tarray from;
    if (!leaf_array(job->lower, operand, leaf, &from) || !result->layout.memory_rows) return;
    /* A resident operand that dies here may lie where the result stays. */
    if (from.in_vmem && result->in_vmem && from.row == result->row) return;
    copy_array(job, &from, result, FLAG_IN);
    job->waiting++;
}

bool job_needs_vmem(struct job *job, const struct tarray *array) {
    if (!array->in_vmem && !job->g.why)
        job->g.why = "this operation needs its operands and results in VMEM, where they do not fit";
    return array->in_vmem;
}

void job_take(struct job *job, int leaf, const struct tarray *array) {
    struct tarray home;
    if (!array->in_vmem || array->layout.memory_rows == 0) return;
    if (!leaf_array(job->lower, job->instr, leaf, &home)) return;
    if (home.in_vmem && home.row == array->row) return;
    copy_array(job, array, &home, FLAG_OUT);
    wait_flag(job->k, FLAG_OUT, 1);
}

/* ---- operands ---- */

static void add_constant(struct lower *lower, const struct literal *literal,
                         const struct tpu_layout *layout, int64_t address) {
    uint8_t *image = arena_alloc(lower->arena, (size_t)layout->bytes);
    tpu_layout_store(layout, literal->data, image);
    lower->constants = arena_grow(lower->arena, lower->constants, &lower->constant_capacity,
                                  lower->nconstants + 1, sizeof *lower->constants);
    lower->constants[lower->nconstants++] = (struct tpu_constant){
        .address = (uint64_t)address, .size = (uint64_t)layout->bytes, .data = image};
}

bool job_constant(struct job *job, const struct literal *literal, struct tarray *array) {
    struct lower *lower = job->lower;
    *array = (struct tarray){.word = lower->hbm_end / 4};
    if (!tpu_layout_of(&array->layout, literal->shape)) return false;
    add_constant(lower, literal, &array->layout, lower->hbm_end);
    lower->hbm_end += array->layout.bytes;
    return true;
}

void lower_constant(struct lower *lower, const struct hlo_instr *instr, int64_t address) {
    struct tpu_layout layout;
    if (tpu_layout_of(&layout, instr->shape) && layout.bytes)
        add_constant(lower, instr->literal, &layout, address);
}

struct operand {
    const struct hlo_instr *instr;
    int leaf;
    struct tarray array;
};

struct operands {
    struct operand *list;
    int count, capacity;
};

static void add_operand(struct job *job, struct operands *operands, const struct hlo_instr *instr,
                        int leaf, const struct tarray *array) {
    for (int i = 0; i < operands->count; i++)
        if (operands->list[i].instr == instr && operands->list[i].leaf == leaf) return;
    operands->list = arena_grow(job->arena, operands->list, &operands->capacity,
                                operands->count + 1, sizeof *operands->list);
    operands->list[operands->count++] = (struct operand){instr, leaf, *array};
}

static bool needs_array(const struct hlo_instr *instr) {
    return instr->opcode != OP_CONSTANT || instr->shape->count != 1;
}

/* Constants within fusions have no place in the plan: they follow it. */
static void add_inner_constants(struct job *job, struct operands *operands,
                                const struct hlo_computation *computation) {
    struct lower *lower = job->lower;
    FOR_EACH_INSTR(instr, computation) {
        for (int i = 0; i < instr->ncalled; i++)
            add_inner_constants(job, operands, instr->called[i]);
        if (instr->opcode != OP_CONSTANT || instr->shape->count <= 1) continue;
        struct tarray array = {.word = lower->hbm_end / 4};
        if (!tpu_layout_of(&array.layout, instr->shape)) continue;
        add_constant(lower, instr->literal, &array.layout, lower->hbm_end);
        lower->hbm_end += array.layout.bytes;
        add_operand(job, operands, instr, 0, &array);
    }
}

static void bring_largest_last(struct job *job, struct operands *operands, int64_t reserve) {
    bool *done = arena_array(job->arena, (size_t)operands->count + 1, sizeof *done);
    for (int n = 0; n < operands->count; n++) {
        int least = -1;
        for (int i = 0; i < operands->count; i++)
            if (!done[i] && (least < 0 || operands->list[i].array.layout.bytes <
                                              operands->list[least].array.layout.bytes))
                least = i;
        struct tarray *array = &operands->list[least].array;
        done[least] = true;
        int64_t rows = array->layout.memory_rows * array->layout.planes;
        if (rows && job_rows_left(job) - rows - VMEM_GUARD >= reserve) job_bring(job, array);
    }
}

bool job_stage(struct job *job, const struct hlo_instr *instr, int64_t rows_for_results) {
    struct operands operands = {0};
    struct tarray array;
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];
        for (int l = 0; l < operand->shape->nleaves; l++)
            if (needs_array(operand) && leaf_array(job->lower, operand, l, &array))
                add_operand(job, &operands, operand, l, &array);
    }
    for (int i = 0; i < instr->ncalled; i++)
        add_inner_constants(job, &operands, instr->called[i]);
    bring_largest_last(job, &operands, rows_for_results);
    job_wait(job);
    bool all = true;
    for (int i = 0; i < operands.count; i++) {
        all &= operands.list[i].array.in_vmem;
        value_bind_array(&job->g, operands.list[i].instr, operands.list[i].leaf,
                         &operands.list[i].array);
    }
    return all;
}

/* ---- labels ---- */

int lower_label(struct lower *lower) {
    lower->labels = arena_grow(lower->arena, lower->labels, &lower->label_capacity,
                               lower->nlabels + 1, sizeof *lower->labels);
    lower->labels[lower->nlabels] = -1;
    return lower->nlabels++;
}

void lower_place(struct lower *lower, int label) {
    lower->labels[label] = lower->code.count;
}
