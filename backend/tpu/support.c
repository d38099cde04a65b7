/* What this target cannot run, said of all instructions at once. */
#include "backend/tpu/layout.h"
#include "backend/tpu/memory.h"
#include "backend/tpu/tpu.h"
#include "passes/util.h"

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

const char *tpu_unsupported(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_INFEED:
    case OP_OUTFEED:
    case OP_SEND:
    case OP_SEND_DONE:
    case OP_RECV:
    case OP_RECV_DONE: return "transfers to and from the host are not supported on TPU";
    case OP_CUSTOM_CALL: return "custom calls and host callbacks are not supported on TPU";
    default: break;
    }
    if (opcode_info(instr->opcode)->flags & OP_FLAG_COLLECTIVE)
        return "collectives are not supported on TPU: programs run on one core";
    return unsupported_type(instr->shape);
}

static void report_unsupported(const struct hlo_module *module, bool written, struct diag *diag) {
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            const char *why = written == (instr->loc.line > 0) ? tpu_unsupported(instr) : NULL;
            if (why) diag_instr_error(diag, instr, "%s", why);
        }
    }
}

bool tpu_check(struct hlo_module *module, const struct tpu_compile_options *options,
               struct diag *diag) {
    int errors = diag->errors;
    /* What the passes have added has no place in the text, and repeats what is said of others. */
    report_unsupported(module, true, diag);
    if (diag->errors == errors) report_unsupported(module, false, diag);
    if (diag->errors > errors) return false;
    struct arena *arena = arena_new();
    const struct tpu_memory *memory = tpu_memory_plan(arena, module, diag);
    bool ok = memory && tpu_memory_fits(memory, &options->chip, module, diag);
    arena_free(arena);
    return ok;
}
