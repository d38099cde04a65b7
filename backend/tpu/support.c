/* What this target cannot run, said of all instructions at once. */
#include "backend/tpu/element.h"
#include "backend/tpu/layout.h"
#include "backend/tpu/layout_assignment.h"
#include "backend/tpu/memory.h"
#include "backend/tpu/split.h"
#include "backend/tpu/tpu.h"
#include "passes/pass.h"
#include "passes/util.h"

/* What must hold for the rest of the backend, whatever passes ran before. */
static bool legalise(struct hlo_module *module, const struct tpu_compile_options *options,
                     struct diag *diag) {
    static const enum pass_id expanders[] = {
        PASS_single_device,       PASS_lapack_expander,   PASS_scan_expander,
        PASS_dot_expander,        PASS_topk_expander,     PASS_fft_expander,
        PASS_batch_norm_expander, PASS_layout_normalizer, PASS_call_inliner};
    static const enum pass_id kernels[] = {PASS_reshape_materializer, PASS_flatten_call_graph};
    static const enum pass_id rest[] = {PASS_copy_insertion, PASS_dce};
    struct pass_context context;
    pass_context_init(&context, diag);
    if (!pass_pipeline_run(&context, module, expanders, sizeof expanders / sizeof *expanders))
        return false;
    tpu_split_products(module, options);
    if (!pass_pipeline_run(&context, module, kernels, sizeof kernels / sizeof *kernels))
        return false;
    tpu_assign_layouts(module, options);
    return pass_pipeline_run(&context, module, rest, sizeof rest / sizeof *rest);
}

static const char *unsupported_type(const struct shape *shape) {
    struct arena *arena = arena_new();
    const struct shape **leaves = shape_leaves(arena, shape);
    const char *why = NULL;
    for (int i = 0; i < shape->nleaves && !why; i++) {
        enum element_type type = leaves[i]->type;
        if (type == TYPE_F64)
            why = "f64 is not supported on TPU";
        else if (type == TYPE_C128)
            why = "c128 is not supported on TPU";
        else if (shape_is_array(leaves[i]) && shape_is_dynamic(leaves[i]))
            why = "dynamic dimensions are not supported on TPU";
        else if (!shape_is_array(leaves[i]) && leaves[i]->type != TYPE_TOKEN)
            why = "values of this type are not supported on TPU";
    }
    arena_free(arena);
    return why;
}

/* Operations that are neither elementwise nor in the transfers above, and that kernels are made of.
 */
static bool opcode_has_lowering(enum hlo_opcode opcode) {
    switch (opcode) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_IOTA:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
    case OP_AFTER_ALL:
    case OP_PARTITION_ID:
    case OP_REPLICA_ID:
    case OP_COPY:
    case OP_BITCAST:
    case OP_BITCAST_CONVERT:
    case OP_RESHAPE:
    case OP_BROADCAST:
    case OP_TRANSPOSE:
    case OP_REVERSE:
    case OP_CONCATENATE:
    case OP_PAD:
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_GATHER:
    case OP_SCATTER:
    case OP_DOT:
    case OP_CONVOLUTION:
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_SELECT_AND_SCATTER:
    case OP_SORT:
    case OP_FFT:
    case OP_CHOLESKY:
    case OP_TRIANGULAR_SOLVE:
    case OP_RNG:
    case OP_RNG_BIT_GENERATOR:
    case OP_RNG_GET_AND_UPDATE_STATE:
    case OP_MAP:
    case OP_CALL:
    case OP_FUSION:
    case OP_WHILE:
    case OP_CONDITIONAL: return true;
    default: return false;
    }
}

static const char *unsupported_operation(const struct hlo_instr *instr) {
    if (instr->opcode == OP_BITCAST && shape_is_array(instr->shape) &&
        element_type_size(instr->shape->type) != element_type_size(instr->operands[0]->shape->type))
        return "bitcasts between elements of different sizes are not supported on TPU";
    bool elementwise = opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE;
    if (elementwise ? element_has_code(instr) : opcode_has_lowering(instr->opcode)) return NULL;
    return elementwise ? "this operation is not supported on TPU for these types"
                       : "this operation is not supported on TPU";
}

const char *tpu_unsupported(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_INFEED:
    case OP_OUTFEED:
    case OP_SEND:
    case OP_SEND_DONE:
    case OP_RECV:
    case OP_RECV_DONE: return "transfers to and from the host are not supported on TPU";
    default: break;
    }
    if (opcode_info(instr->opcode)->flags & OP_FLAG_COLLECTIVE)
        return "collectives are not supported on TPU: programs run on one core";
    const char *why = unsupported_type(instr->shape);
    if (!why && instr->opcode == OP_CUSTOM_CALL)
        why = "this custom call or host callback is not supported on TPU";
    return why ? why : unsupported_operation(instr);
}

/* Indices are 32-bit numbers. */
static bool counts_fit(struct hlo_module *module, struct diag *diag) {
    int errors = diag->errors;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (instr->shape->count > INT32_MAX)
                diag_instr_error(diag, instr,
                                 "arrays of 2^31 and more elements are not supported on TPU");
        }
    }
    return diag->errors == errors;
}

static void report_unsupported(const struct hlo_module *module, bool written, struct diag *diag) {
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            const char *why = written == (instr->loc.line > 0) ? tpu_unsupported(instr) : NULL;
            const char *target =
                instr->opcode == OP_CUSTOM_CALL ? instr_text(instr, ATTR_CUSTOM_CALL_TARGET) : NULL;
            if (why && target)
                diag_instr_error(diag, instr, "%s: \"%s\"", why, target);
            else if (why)
                diag_instr_error(diag, instr, "%s", why);
        }
    }
}

/* Less than this leaves no room beside what every kernel needs for itself. */
enum { LEAST_VMEM = 1 << 20 };

bool tpu_check(struct hlo_module *module, const struct tpu_compile_options *options,
               struct diag *diag) {
    int errors = diag->errors;
    if (options->chip.vmem_bytes < LEAST_VMEM) {
        diag_error(diag, (struct src_loc){0}, "chip %s: kernels need %d bytes of VMEM, it has %lld",
                   options->chip.name, LEAST_VMEM, (long long)options->chip.vmem_bytes);
        return false;
    }
    if (!legalise(module, options, diag)) return false;
    /* What the passes have added has no place in the text, and repeats what is said of others. */
    report_unsupported(module, true, diag);
    if (diag->errors == errors) report_unsupported(module, false, diag);
    if (diag->errors > errors) return false;
    struct arena *arena = arena_new();
    const struct tpu_memory *memory =
        tpu_memory_plan(arena, module, options->chip.vmem_bytes / TPU_ROW_BYTES, diag);
    bool ok =
        memory && tpu_memory_fits(memory, &options->chip, module, diag) && counts_fit(module, diag);
    arena_free(arena);
    return ok;
}
