/* bitcast-convert between types of different widths: a wide element is as many narrow ones along a
 * last dimension of its own, lowest bits first. */
#include "backend/cpu/emit.h"
#include "backend/cpu/lowering.h"

/* Bits that count in a bitcast, and the integer type that holds them. */
static int bits_of_type(enum element_type type) {
    int bits = element_type_info(type)->bits;
    return bits == 1 ? 8 : bits;
}

/* The element's bits as an integer of `width`. */
static LLVMValueRef to_bits(struct cpu_gen *g, LLVMValueRef x, enum element_type type, int width) {
    struct cpu_builder *b = &g->b;
    if (element_type_is_complex(type)) {
        LLVMValueRef re = LLVMBuildExtractValue(b->builder, x, 0, "");
        LLVMValueRef im = LLVMBuildExtractValue(b->builder, x, 1, "");
        enum element_type part = element_type_real_part(type);
        int half = bits_of_type(part);
        im = to_bits(g, im, part, width);
        return i_or(b, to_bits(g, re, part, width), i_shlk(b, im, (uint64_t)half));
    }
    if (type == TYPE_F32 || type == TYPE_F64) x = bits_of(b, x);
    if (type != TYPE_PRED && bits_of_type(type) < 8)
        x = i_andk(b, x, (1u << bits_of_type(type)) - 1);
    return LLVMBuildZExt(b->builder, x, int_type(b, width), "");
}

static LLVMValueRef from_bits(struct cpu_gen *g, LLVMValueRef x, enum element_type type) {
    struct cpu_builder *b = &g->b;
    if (element_type_is_complex(type)) {
        enum element_type part = element_type_real_part(type);
        LLVMValueRef value = LLVMGetUndef(cpu_value_type(b, type));
        LLVMValueRef high = i_lshrk(b, x, (uint64_t)bits_of_type(part));
        value = LLVMBuildInsertValue(b->builder, value, from_bits(g, x, part), 0, "");
        return LLVMBuildInsertValue(b->builder, value, from_bits(g, high, part), 1, "");
    }
    if (type == TYPE_PRED) {
        x = LLVMBuildTrunc(b->builder, x, int_type(b, 8), "");
        return i_cmpk(b, LLVMIntNE, x, 0);
    }
    x = LLVMBuildTrunc(b->builder, x, int_type(b, 8 * element_type_size(type)), "");
    if (bits_of_type(type) < 8) return cpu_wrap(b, x, type);
    return type == TYPE_F32 || type == TYPE_F64 ? float_of(b, x) : x;
}

LLVMValueRef gen_bitcast_convert(struct cpu_gen *g, const struct hlo_instr *instr,
                                 const LLVMValueRef *index) {
    struct cpu_builder *b = &g->b;
    const struct hlo_instr *from = instr->operands[0];
    enum element_type in = from->shape->type, out = instr->shape->type;
    int from_width = bits_of_type(in), to_width = bits_of_type(out);
    if (from_width == to_width) return cpu_emit_bitcast(b, gen_element(g, from, index), in, out);
    if (from_width > to_width) { /* a part of one element */
        LLVMTypeRef type = int_type(b, from_width < 64 ? 64 : from_width);
        LLVMValueRef x =
            to_bits(g, gen_element(g, from, index), in, from_width < 64 ? 64 : from_width);
        LLVMValueRef part = i_mulk(b, index[from->shape->rank], (uint64_t)to_width);
        part = LLVMBuildZExt(b->builder, part, type, "");
        return from_bits(g, i_lshr(b, x, part), out);
    }
    LLVMValueRef inner[SHAPE_MAX_RANK], sum = NULL;
    for (int d = 0; d < instr->shape->rank; d++)
        inner[d] = index[d];
    for (int i = 0; i < to_width / from_width; i++) {
        inner[instr->shape->rank] = gen_i64(g, i);
        LLVMValueRef x = to_bits(g, gen_element(g, from, inner), in, to_width);
        x = i_shlk(b, x, (uint64_t)(i * from_width));
        sum = sum ? i_or(b, sum, x) : x;
    }
    return from_bits(g, sum, out);
}
