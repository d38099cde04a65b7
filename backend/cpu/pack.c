#include "backend/cpu/pack.h"

#include <stdio.h>

bool pack_converts_vectors(enum element_type from, enum element_type to) {
    if (from == to || (to == TYPE_F32 && (from == TYPE_BF16 || from == TYPE_F16))) return true;
    return element_type_is_integral(from) && element_type_is_integral(to) &&
           element_type_size(from) <= element_type_size(to);
}

LLVMValueRef pack_convert_vector(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                                 enum element_type to) {
    if (from == to) return value;
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(value));
    LLVMTypeRef type = LLVMVectorType(cpu_value_type(b, to), lanes);
    if (element_type_is_integral(to))
        return element_type_is_unsigned(from) ? LLVMBuildZExt(b->builder, value, type, "")
                                              : LLVMBuildSExt(b->builder, value, type, "");
    if (from == TYPE_F16) {
        LLVMTypeRef half = LLVMVectorType(LLVMHalfTypeInContext(b->context), lanes);
        value = LLVMBuildBitCast(b->builder, value, half, "");
        return LLVMBuildFPExt(b->builder, value, type, "");
    }
    LLVMTypeRef bits = LLVMVectorType(int_type(b, 32), lanes);
    value = LLVMBuildZExt(b->builder, value, bits, "");
    LLVMValueRef shift = matmul_splat(b, LLVMConstInt(int_type(b, 32), 16, false), (int)lanes);
    return LLVMBuildBitCast(b->builder, i_shl(b, value, shift), type, "");
}

/* ---- calls of the runtime ---- */

enum hlocc_rt_pack_kind pack_kind(enum element_type from, enum element_type to) {
    static const struct {
        enum element_type from;
        int to_size;
        enum hlocc_rt_pack_kind kind;
    } rows[] = {
        {TYPE_S8, 2, PACK_S8_S16},   {TYPE_U8, 2, PACK_U8_S16},   {TYPE_S8, 4, PACK_S8_S32},
        {TYPE_U8, 4, PACK_U8_S32},   {TYPE_S16, 4, PACK_S16_S32}, {TYPE_U16, 4, PACK_U16_S32},
        {TYPE_S32, 8, PACK_S32_S64}, {TYPE_U32, 8, PACK_U32_S64},
    };
    int from_size = element_type_size(from), to_size = element_type_size(to);
    bool whole = element_type_is_integral(from) && element_type_is_integral(to);
    if (from == to || (whole && from_size == to_size)) {
        if (to_size == 2) return PACK_COPY_2;
        if (to_size == 4) return PACK_COPY_4;
        return to_size == 8 ? PACK_COPY_8 : PACK_OTHER;
    }
    if (to == TYPE_F32 && from == TYPE_BF16) return PACK_BF16_F32;
    if (to == TYPE_F32 && from == TYPE_F16) return PACK_F16_F32;
    for (size_t i = 0; whole && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].from == from && rows[i].to_size == to_size) return rows[i].kind;
    return PACK_OTHER;
}

LLVMValueRef pack_converter(struct cpu_builder *b, enum element_type from, enum element_type to) {
    LLVMTypeRef i64 = ir_i64(b), p = ir_pointer(b);
    if (pack_kind(from, to) != PACK_OTHER) return LLVMConstNull(p);
    char name[64];
    snprintf(name, sizeof name, "convert.%s.%s", element_type_name(from), element_type_name(to));
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (function) return function;
    LLVMBasicBlockRef back;
    function = ir_function_begin(b, name, 5, (LLVMTypeRef[]){p, i64, i64, p, i64}, &back);
    struct ir_loop loop = ir_loop_begin(b, ir_k(b, 0), LLVMGetParam(function, 2), 1, true);
    LLVMValueRef offset = LLVMBuildNSWMul(b->builder, loop.i, LLVMGetParam(function, 1), "");
    LLVMValueRef value = cpu_load(b, from, ir_at(b, LLVMGetParam(function, 0), offset), NULL);
    LLVMValueRef place = LLVMBuildNSWMul(b->builder, loop.i, LLVMGetParam(function, 4), "");
    cpu_store(b, to, cpu_emit_convert(b, value, from, to),
              ir_at(b, LLVMGetParam(function, 3), place));
    ir_loop_end_parallel(b, &loop, 0);
    ir_function_end(b, back);
    return function;
}

static void call(struct cpu_builder *b, const char *name, const struct pack *pack) {
    enum hlocc_rt_pack_kind kind = pack_kind(pack->from_type, pack->to_type);
    int64_t config[PACK_NUMBERS] = {
        [PACK_KIND] = kind,
        [PACK_FROM_SIZE] = element_type_size(pack->from_type),
        [PACK_TO_SIZE] = element_type_size(pack->to_type),
        [PACK_STEP] = pack->step,
        [PACK_MODE] = kind == PACK_OTHER ? PACK_GATHER : pack->mode,
        [PACK_WIDTH] = pack->width,
        [PACK_PAIRS] = pack->pairs,
    };
    LLVMValueRef arguments[] = {ir_table(b, config, PACK_NUMBERS),
                                pack_converter(b, pack->from_type, pack->to_type),
                                pack->from,
                                pack->places,
                                pack->taps,
                                pack->ntaps,
                                pack->run,
                                pack->to,
                                pack->n,
                                ir_k(b, pack->to_step)};
    ir_runtime_call(b, name, sizeof arguments / sizeof *arguments, arguments);
}

void pack_emit(struct cpu_builder *b, const struct pack *pack) {
    call(b, "hlocc_rt_pack", pack);
}

void pack_emit_rows(struct cpu_builder *b, const struct pack *pack) {
    call(b, "hlocc_rt_pack_rows", pack);
}
