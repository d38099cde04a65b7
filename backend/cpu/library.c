#include "backend/cpu/library.h"

#include <stdlib.h>
#include <string.h>

bool cpu_library_call(const struct hlo_instr *instr, int phase, struct cpu_library_call *call) {
    static const struct {
        enum hlo_opcode opcode;
        cpu_library_builder *build;
    } rows[] = {
        {OP_SORT, cpu_sort_call},
        {OP_TOPK, cpu_topk_call},
        {OP_FFT, cpu_fft_call},
        {OP_CHOLESKY, cpu_cholesky_call},
        {OP_TRIANGULAR_SOLVE, cpu_triangular_solve_call},
        {OP_RNG_BIT_GENERATOR, cpu_random_call},
        {OP_CUSTOM_CALL, cpu_lapack_call},
    };
    const int64_t most = (int64_t)1 << 44; /* bytes, so that sizes of scratch cannot overflow */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].opcode != instr->opcode) continue;
        memset(call, 0, sizeof *call);
        call->phase = phase;
        for (int k = 0; k < instr->noperands; k++)
            if (instr->operands[k]->shape->bytes > most) return false;
        if (instr->shape->bytes > most || !rows[i].build(instr, call)) return false;
        if (call->units < 1) call->units = 1;
        return true;
    }
    return false;
}

bool library_match(const struct hlo_instr *instr) {
    struct cpu_library_call call;
    return cpu_library_call(instr, 0, &call);
}

int library_phases(const struct hlo_instr *instr) {
    struct cpu_library_call call;
    return cpu_library_call(instr, 0, &call) && call.phases ? call.phases : 1;
}

void library_plan(const struct hlo_instr *instr, int phase, int64_t *units, int64_t *scratch) {
    struct cpu_library_call call;
    if (!cpu_library_call(instr, phase, &call)) return;
    *units = call.units;
    *scratch = call.scratch;
}

LLVMValueRef gen_numbers(struct cpu_gen *g, int count, const int64_t *values) {
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMValueRef *constants = arena_array(g->arena, (size_t)count + 1, sizeof *constants);
    for (int i = 0; i < count; i++)
        constants[i] = gen_i64(g, values[i]);
    LLVMValueRef data = LLVMConstArray2(i64, constants, (uint64_t)count);
    LLVMValueRef global = cpu_read_only(&g->b, data, "config");
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

LLVMValueRef gen_pointers(struct cpu_gen *g, const struct cpu_kernel *k) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMValueRef slots = gen_alloca(g, pointer, k->nout + k->nin);
    for (int i = 0; i < k->nout + k->nin; i++) {
        LLVMValueRef at = gen_i64(g, i);
        LLVMBuildStore(g->b.builder, i < k->nout ? k->out[i] : k->in[i - k->nout],
                       LLVMBuildInBoundsGEP2(g->b.builder, pointer, slots, &at, 1, ""));
    }
    return slots;
}

/* The numbers, and the tables after them. */
static LLVMValueRef config_of(struct cpu_gen *g, const struct cpu_library_call *call) {
    if (!call->tables) return gen_numbers(g, call->count, call->config);
    size_t numbers = (size_t)hlocc_rt_align(call->count * (int64_t)sizeof *call->config);
    size_t size = numbers + (size_t)call->tables;
    char *memory = aligned_alloc(64, size),
         *scratch = aligned_alloc(64, (size_t)call->fill_scratch);
    LLVMValueRef global = NULL;
    if (memory && scratch) {
        memset(memory, 0, size);
        memcpy(memory, call->config, (size_t)call->count * sizeof *call->config);
        call->fill(call->config, memory + numbers, scratch);
        LLVMValueRef data = LLVMConstStringInContext2(g->b.context, memory, size, true);
        global = cpu_read_only(&g->b, data, "config");
        LLVMSetAlignment(global, 64);
    }
    free(memory);
    free(scratch);
    return global;
}

void library_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMValueRef args[7];
    LLVMTypeRef types[7] = {pointer, pointer, pointer, i64, i64, pointer, pointer};
    struct cpu_library_call call;
    unsigned n = 5;
    if (!cpu_library_call(k->instr, k->phase, &call)) return;
    args[0] = config_of(g, &call);
    if (!args[0]) {
        diag_instr_error(g->diag, k->instr, "out of memory");
        return;
    }
    args[1] = gen_pointers(g, k);
    args[2] = k->scratch;
    args[3] = k->begin;
    args[4] = k->end;
    if (k->instr->opcode == OP_SORT) args[n++] = gen_sort_comparator(g, k->instr);
    if (k->instr->opcode == OP_SORT || k->instr->opcode == OP_TOPK)
        args[n++] = gen_sort_keys(g, k->instr);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(g->b.context), types, n, false);
    LLVMValueRef function = LLVMGetNamedFunction(g->b.module, call.name);
    if (!function) function = LLVMAddFunction(g->b.module, call.name, type);
    LLVMBuildCall2(g->b.builder, type, function, args, n, "");
}
