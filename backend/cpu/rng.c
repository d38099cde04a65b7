/* rng and rng-get-and-update-state: the evaluator's generator, whose seed and counter live on the
 * entry function's stack and start anew with each run. */
#include <llvm-c/DebugInfo.h>

#include "backend/cpu/emit.h"
#include "backend/cpu/lowering.h"
#include "runtime/cpu/kernels.h"

static int runtime_type(enum element_type type) {
    switch (type) {
    case TYPE_F32: return RT_F32;
    case TYPE_F64: return RT_F64;
    case TYPE_F16: return RT_F16;
    case TYPE_BF16: return RT_BF16;
    default: return element_type_is_integral(type) ? element_type_info(type)->bits : -1;
    }
}

bool rng_match(const struct hlo_instr *instr) {
    if (instr->opcode == OP_RNG_GET_AND_UPDATE_STATE)
        return instr->shape->type == TYPE_U64 && instr->shape->count >= 2;
    return instr->opcode == OP_RNG && runtime_type(instr->shape->type) >= 0;
}

/* Seed and counter: two variables beside each other, set where the entry function starts. */
static LLVMValueRef state_of(struct cpu_gen *g) {
    LLVMBuilderRef b = g->b.builder;
    if (g->rng_state) return g->rng_state;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMMetadataRef place = LLVMGetCurrentDebugLocation2(b); /* changed by a move */
    g->rng_state = gen_alloca(g, i64, 2);
    LLVMPositionBuilderBefore(b, LLVMGetNextInstruction(g->rng_state));
    LLVMValueRef one = gen_i64(g, 1);
    LLVMBuildStore(b, LLVMConstInt(i64, g->seed, false), g->rng_state);
    LLVMBuildStore(b, gen_i64(g, 0), LLVMBuildInBoundsGEP2(b, i64, g->rng_state, &one, 1, ""));
    LLVMPositionBuilderAtEnd(b, here);
    LLVMSetCurrentDebugLocation2(b, place);
    return g->rng_state;
}

static void draw(struct cpu_gen *g, struct cpu_kernel *k) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    enum element_type type = k->instr->shape->type;
    bool normal = instr_int(k->instr, ATTR_DISTRIBUTION, 0) == ENUM_DISTRIBUTION_NORMAL;
    const int64_t config[RNG_NUMBERS] = {
        [RNG_KIND] = element_type_is_integral(type) ? RNG_INTEGER
                     : normal                       ? RNG_NORMAL
                                                    : RNG_UNIFORM,
        [RNG_TYPE] = runtime_type(type),
        [RNG_SIGNED] = element_type_is_signed(type),
        [RNG_COUNT] = k->instr->shape->count,
    };
    LLVMTypeRef types[3] = {pointer, pointer, pointer};
    LLVMValueRef args[3] = {gen_numbers(g, RNG_NUMBERS, config), gen_pointers(g, k), state_of(g)};
    LLVMTypeRef function_type =
        LLVMFunctionType(LLVMVoidTypeInContext(g->b.context), types, 3, false);
    LLVMValueRef function = LLVMGetNamedFunction(g->b.module, "hlocc_rt_rng");
    if (!function) function = LLVMAddFunction(g->b.module, "hlocc_rt_rng", function_type);
    LLVMBuildCall2(g->b.builder, function_type, function, args, 3, "");
}

/* The state before an advance: counter, then seed. */
static void advance(struct cpu_gen *g, struct cpu_kernel *k) {
    LLVMBuilderRef b = g->b.builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMValueRef one = gen_i64(g, 1), seed = state_of(g);
    LLVMValueRef counter = LLVMBuildInBoundsGEP2(b, i64, seed, &one, 1, "");
    LLVMValueRef now = LLVMBuildLoad2(b, i64, counter, "");
    LLVMValueRef delta = gen_i64(g, instr_int(k->instr, ATTR_DELTA, 1));
    for (int64_t i = 0; i < k->instr->shape->count; i++) {
        LLVMValueRef at = gen_i64(g, i), value = i == 0 ? now : gen_i64(g, 0);
        if (i == 1) value = LLVMBuildLoad2(b, i64, seed, "");
        cpu_store(&g->b, TYPE_U64, value, LLVMBuildInBoundsGEP2(b, i64, k->out[0], &at, 1, ""));
    }
    LLVMBuildStore(b, i_add(&g->b, now, delta), counter);
}

void rng_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    if (k->instr->opcode == OP_RNG)
        draw(g, k);
    else
        advance(g, k);
}
