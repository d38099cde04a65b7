/* The whole program: code of the entry computation, and everything that a program file says of it.
 */
#include <string.h>

#include "backend/tpu/lower.h"
#include "passes/dataflow.h"
#include "passes/util.h"

/* ---- code ---- */

static bool lower_instr(struct lower *lower, const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_AFTER_ALL: return true;
    case OP_WHILE: return lower_while(lower, instr);
    case OP_CONDITIONAL: return lower_conditional(lower, instr);
    case OP_CALL: return lower_computation(lower, instr->called[0]);
    case OP_SCATTER: return lower_scatter(lower, instr);
    case OP_DOT:
    case OP_CONVOLUTION: return lower_product(lower, instr);
    case OP_SORT: return lower_sort(lower, instr);
    case OP_CHOLESKY: return lower_cholesky(lower, instr);
    case OP_TRIANGULAR_SOLVE: return lower_triangular_solve(lower, instr);
    case OP_FFT: return lower_fft(lower, instr);
    case OP_RNG:
    case OP_RNG_GET_AND_UPDATE_STATE: return lower_rng(lower, instr);
    case OP_SELECT_AND_SCATTER: return lower_select_and_scatter(lower, instr);
    default: break;
    }
    bool taken;
    if (instr_is_alias(instr)) return true;
    if (!lower_move(lower, instr, &taken)) return false;
    if (!taken && !lower_update(lower, instr, &taken)) return false;
    if (!taken && !lower_rows(lower, instr, &taken)) return false;
    if (!taken && instr->opcode == OP_COPY && !lower_transpose(lower, instr, &taken)) return false;
    if (!taken && !lower_fused_product(lower, instr, &taken)) return false;
    if (!taken && !lower_stream(lower, instr, &taken)) return false;
    if (!taken && !lower_block(lower, instr, &taken)) return false;
    if (!taken && !lower_transpose(lower, instr, &taken)) return false;
    return taken || lower_map(lower, instr);
}

bool lower_computation(struct lower *lower, const struct hlo_computation *computation) {
    bool ok = true;
    FOR_EACH_INSTR(instr, computation) ok &= lower_instr(lower, instr);
    return ok;
}

static void patch_branches(struct lower *lower) {
    for (int i = 0; i < lower->code.nfixups; i++) {
        const struct mir_fixup *fixup = &lower->code.fixups[i];
        struct tpu_bundle *bundle = &lower->code.bundles[fixup->bundle];
        int target = fixup->target < 0 ? lower->labels[-1 - fixup->target] : fixup->target;
        bundle->imm[0] = (uint16_t)target;
        bundle->imm[1] = (uint16_t)((unsigned)target >> 16);
    }
}

/* ---- what the program file says ---- */

static void describe_tiles(struct tpu_array *array, const struct tpu_layout *layout) {
    int n = 0;
    if (layout->rank < 2)
        array->tiles[n++] = (struct tpu_tile){1, {(int64_t)layout->tile_rows * TPU_LANES}};
    else
        array->tiles[n++] = (struct tpu_tile){2, {layout->tile_rows, TPU_LANES}};
    if (layout->packing > 1) {
        if (layout->rank < 2) array->tiles[n++] = (struct tpu_tile){1, {TPU_LANES}};
        array->tiles[n++] = (struct tpu_tile){2, {layout->packing, 1}};
    }
    array->ntiles = n;
}

static bool describe_array(const struct lower *lower, const struct hlo_instr *instr, int leaf,
                           const struct shape *shape, struct tpu_array *array) {
    struct tpu_layout layout;
    int64_t address = tpu_memory_address(lower->memory, instr, leaf);
    if (!tpu_layout_of(&layout, shape) || shape->rank > TPU_MAX_RANK) return false;
    memset(array, 0, sizeof *array);
    snprintf(array->type, sizeof array->type, "%s", element_type_name(shape->type));
    array->host_bytes = element_type_size(shape->type);
    array->bits = 32 / layout.packing;
    array->planes = layout.planes;
    array->is_signed = element_type_is_signed(shape->type);
    array->rank = shape->rank ? shape->rank : 1;
    array->dims[0] = 1;
    for (int d = 0; d < shape->rank; d++) {
        array->dims[d] = shape->dims[d];
        array->minor_to_major[d] = layout.order[d];
    }
    describe_tiles(array, &layout);
    array->address = address < 0 ? 0 : (uint64_t)address;
    array->plane_bytes = (uint64_t)layout.memory_rows * TPU_ROW_BYTES;
    return tpu_array_plane_bytes(array) == (int64_t)array->plane_bytes;
}

static bool describe_leaves(const struct lower *lower, const struct hlo_instr *instr,
                            struct tpu_array *arrays, uint32_t *count) {
    const struct shape **leaves = shape_leaves(lower->arena, instr->shape);
    for (int l = 0; l < instr->shape->nleaves; l++) {
        if (!shape_is_array(leaves[l])) continue;
        if (describe_array(lower, instr, l, leaves[l], &arrays[(*count)++])) continue;
        diag_instr_error(lower->diag, instr, "this array cannot be described to the TPU runtime");
        return false;
    }
    return true;
}

static bool describe(const struct lower *lower, struct tpu_program *program) {
    const struct hlo_computation *entry = lower->module->entry;
    int most = 0;
    for (int i = 0; i < entry->nparameters; i++)
        most += entry->parameters[i]->shape->nleaves;
    program->param = arena_array(lower->arena, (size_t)most + 1, sizeof *program->param);
    program->result =
        arena_array(lower->arena, (size_t)entry->root->shape->nleaves + 1, sizeof *program->result);
    for (int i = 0; i < entry->nparameters; i++)
        if (!describe_leaves(lower, entry->parameters[i], program->param, &program->params))
            return false;
    return describe_leaves(lower, entry->root, program->result, &program->results);
}

static void plan_constants(struct lower *lower) {
    FOR_EACH_COMPUTATION(computation, lower->module) {
        FOR_EACH_INSTR(instr, computation) {
            int64_t address = instr->opcode == OP_CONSTANT && shape_is_array(instr->shape)
                                  ? tpu_memory_address(lower->memory, instr, 0)
                                  : -1;
            if (address >= 0) lower_constant(lower, instr, address);
        }
    }
}

/* Descriptors whose addresses and lengths kernels fill in, and the seed of random numbers. */
static uint32_t *smem_image(struct lower *lower) {
    uint32_t *words = arena_array(lower->arena, SMEM_SPILL, sizeof *words);
    static const struct {
        int at, from, to, flag;
        uint32_t target, length;
    } fixed[] = {{SMEM_IN, TPU_HBM, TPU_VMEM, FLAG_IN, 0, 1},
                 {SMEM_OUT, TPU_VMEM, TPU_HBM, FLAG_OUT, 0, 1},
                 {SMEM_LOAD, TPU_HBM, TPU_VMEM, FLAG_IN, 0, 1},
                 {SMEM_STORE, TPU_VMEM, TPU_HBM, FLAG_OUT, 0, 1},
                 {SMEM_SCALAR, TPU_HBM, TPU_SMEM, FLAG_SCALAR, SMEM_VALUE, 1}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        struct tpu_dma dma = {.from = (uint8_t)fixed[i].from,
                              .to = (uint8_t)fixed[i].to,
                              .flag = (uint8_t)fixed[i].flag,
                              .core = TPU_DMA_LOCAL,
                              .target = fixed[i].target,
                              .length = fixed[i].length,
                              .count = {1, 1, 1}};
        tpu_dma_encode(&dma, words + fixed[i].at);
    }
    words[SMEM_RANDOM] = (uint32_t)lower->options->seed;
    words[SMEM_RANDOM + 1] = (uint32_t)(lower->options->seed >> 32);
    return words;
}

static void fill_program(struct lower *lower, struct tpu_program *program) {
    program->chip = lower->options->chip;
    program->cores = 1;
    program->hbm_bytes = (uint64_t)lower->hbm_end;
    program->vmem_bytes = (uint64_t)lower->options->chip.vmem_bytes;
    program->bundles = (uint32_t)lower->code.count;
    program->code = lower->code.bundles;
    program->smem_words = SMEM_SPILL;
    program->smem = smem_image(lower);
    program->constants = (uint32_t)lower->nconstants;
    program->constant = lower->constants;
    program->sources = (uint32_t)lower->nsources;
    program->source = lower->sources;
    program->lines = (uint32_t)lower->nlines;
    program->line = lower->lines;
}

/* All code, with the memory plan where values may take as much of `vmem_rows` as it allows. */
static bool lower_module(struct lower *lower, int64_t vmem_rows) {
    const struct tpu_chip *chip = &lower->options->chip;
    lower->code.arena = lower->arena;
    lower->memory = tpu_memory_plan(lower->arena, lower->module, vmem_rows, lower->diag);
    if (!lower->memory) return false;
    lower->hbm_end = lower->memory->total;
    plan_constants(lower);
    if (!lower_computation(lower, lower->module->entry) || !lower_halt(lower)) return false;
    if (lower->hbm_end <= chip->hbm_bytes) return true;
    diag_error(lower->diag, lower->module->entry->loc,
               "Resource exhausted: with what kernels need for themselves the program takes "
               "%lld bytes of HBM, a core of TPU %s has %lld",
               (long long)lower->hbm_end, chip->name, (long long)chip->hbm_bytes);
    return false;
}

bool tpu_compile(struct arena *arena, struct hlo_module *module,
                 const struct tpu_compile_options *options, struct tpu_program *program,
                 struct diag *diag) {
    struct diag first;
    diag_init(&first, diag->file, diag->source, diag->source_size);
    struct lower lower = {.arena = arena, .module = module, .options = options, .diag = &first};
    memset(program, 0, sizeof *program);
    bool ok = lower_module(&lower, options->chip.vmem_bytes / TPU_ROW_BYTES);
    diag_clear(&first);
    if (!ok) {
        /* Values may have taken the room that a kernel needs: without them. */
        lower = (struct lower){.arena = arena, .module = module, .options = options, .diag = diag};
        ok = lower_module(&lower, 0);
    }
    lower.diag = diag;
    if (!ok) return false;
    if (options->values_bytes) *options->values_bytes = lower.memory->vmem_bytes;
    patch_branches(&lower);
    if (!describe(&lower, program)) return false;
    fill_program(&lower, program);
    return true;
}
