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

static LLVMValueRef load_vector(struct cpu_builder *b, enum element_type type, int lanes,
                                LLVMValueRef at) {
    LLVMTypeRef vector = LLVMVectorType(cpu_memory_type(b, type), (unsigned)lanes);
    return ir_load(b, vector, at, element_type_size(type));
}

struct pack {
    struct cpu_builder *b;
    enum element_type from, to;
    int width, lanes, from_size, to_size;
    LLVMValueRef source, columns, step, to_base;
};

static LLVMValueRef column(struct pack *p, LLVMValueRef j) {
    struct cpu_builder *b = p->b;
    LLVMValueRef offset = ir_load(b, ir_i64(b), ir_at(b, p->columns, ir_mulk(b, j, 8)), 8);
    return ir_at(b, p->source, offset);
}

/* From k = start on, element by element. */
static void gathered_rows(struct pack *p, LLVMValueRef start, LLVMValueRef count) {
    struct cpu_builder *b = p->b;
    struct ir_loop columns = ir_loop_count(b, p->width, 1);
    LLVMValueRef from = column(p, columns.i);
    LLVMValueRef to = ir_at(b, p->to_base, ir_mulk(b, columns.i, p->to_size));
    struct ir_loop rows = ir_loop_begin(b, start, count, 1, true);
    LLVMValueRef value = cpu_load(
        b, p->from, ir_at(b, from, LLVMBuildNSWMul(b->builder, rows.i, p->step, "")), NULL);
    value = cpu_emit_convert(b, value, p->from, p->to);
    LLVMValueRef place = ir_mulk(b, rows.i, (int64_t)p->width * p->to_size);
    cpu_store(b, p->to, value, ir_at(b, to, place));
    ir_loop_end(b, &rows);
    ir_loop_end(b, &columns);
}

/* Rows of a square of vectors become its columns: halves of ever smaller blocks change places. */
static void transpose(struct cpu_builder *b, LLVMValueRef *v, int lanes) {
    LLVMValueRef mask[64], next[64];
    LLVMTypeRef i32 = int_type(b, 32);
    for (int half = lanes / 2; half >= 1; half /= 2) {
        for (int i = 0; i < lanes; i++) {
            LLVMValueRef low = v[i & ~half], high = v[i | half];
            for (int j = 0; j < lanes; j++) {
                int from = j & half ? lanes + (j & ~half) : j;
                if (i & half) from += half;
                mask[j] = LLVMConstInt(i32, (uint64_t)from, false);
            }
            next[i] = LLVMBuildShuffleVector(b->builder, low, high,
                                             LLVMConstVector(mask, (unsigned)lanes), "");
        }
        for (int i = 0; i < lanes; i++)
            v[i] = next[i];
    }
}

static void transposed_rows(struct pack *p, LLVMValueRef count) {
    struct cpu_builder *b = p->b;
    int lanes = p->lanes;
    LLVMValueRef v[64];
    LLVMValueRef whole = i_and(b, count, ir_k(b, -(int64_t)lanes));
    struct ir_loop groups = ir_loop_count(b, p->width, lanes);
    LLVMValueRef from[64];
    for (int i = 0; i < lanes; i++)
        from[i] = column(p, ir_addk(b, groups.i, i));
    LLVMValueRef to = ir_at(b, p->to_base, ir_mulk(b, groups.i, p->to_size));
    struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), whole, lanes, true);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at = ir_at(b, from[i], ir_mulk(b, rows.i, p->from_size));
        v[i] = pack_convert_vector(b, load_vector(b, p->from, lanes, at), p->from, p->to);
    }
    transpose(b, v, lanes);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef place = ir_mulk(b, ir_addk(b, rows.i, i), (int64_t)p->width * p->to_size);
        ir_store(b, v[i], ir_at(b, to, place), p->to_size);
    }
    ir_loop_end(b, &rows);
    ir_loop_end(b, &groups);
    p->step = ir_k(b, p->from_size);
    struct ir_if rest = ir_if_begin(b, i_cmp(b, LLVMIntSLT, whole, count), false);
    gathered_rows(p, whole, count);
    ir_if_end(b, &rest);
}

/* A function made before, or its name's new one: *made, with the builder in it. */
static LLVMValueRef pack_function(struct cpu_builder *b, const struct cpu_target *target,
                                  const char *name, int count, const LLVMTypeRef *types,
                                  LLVMBasicBlockRef *back, bool *made) {
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    *made = function == NULL;
    if (function) return function;
    function = ir_function_begin(b, name, count, types, back);
    matmul_mark_wide(b, target, function);
    return function;
}

/* The function of this name that packs one panel, with what it works on in *p, which has the types
 * and the width. *count is NULL where the function was made before. */
static LLVMValueRef panel_function(struct pack *p, const struct cpu_target *target,
                                   const char *name, int lane_bytes, LLVMValueRef *count,
                                   LLVMBasicBlockRef *back) {
    LLVMTypeRef i64 = ir_i64(p->b), pointer = ir_pointer(p->b);
    LLVMTypeRef types[PACK_PANEL_ARGUMENTS] = {pointer, pointer, i64, i64, pointer};
    bool made;
    LLVMValueRef function =
        pack_function(p->b, target, name, PACK_PANEL_ARGUMENTS, types, back, &made);
    *count = made ? LLVMGetParam(function, 3) : NULL;
    if (!made) return function;
    p->to_size = element_type_size(p->to);
    p->from_size = element_type_size(p->from);
    p->lanes = target->vector_bytes / lane_bytes;
    p->source = LLVMGetParam(function, 0);
    p->columns = LLVMGetParam(function, 1);
    p->step = LLVMGetParam(function, 2);
    p->to_base = LLVMGetParam(function, 4);
    return function;
}

LLVMValueRef pack_panel(struct cpu_builder *b, const struct cpu_target *target, enum pack_mode mode,
                        enum element_type from, enum element_type to, int width) {
    static const char *const modes[] = {"gather", "transpose"};
    char name[64];
    snprintf(name, sizeof name, "pack.%s.%s.%s.%d", modes[mode], element_type_name(from),
             element_type_name(to), width);
    struct pack pack = {.b = b, .from = from, .to = to, .width = width};
    LLVMBasicBlockRef back;
    LLVMValueRef count;
    LLVMValueRef function =
        panel_function(&pack, target, name, element_type_size(to), &count, &back);
    if (!count) return function;
    if (mode == PACK_TRANSPOSE)
        transposed_rows(&pack, count);
    else
        gathered_rows(&pack, ir_k(b, 0), count);
    ir_function_end(b, back);
    return function;
}

/* ---- pairs ---- */

/* Elements k and k + 1 (or 0) of a column as one value of 32 bits. */
static LLVMValueRef pair_of(struct pack *p, LLVMValueRef from, LLVMValueRef k, bool whole) {
    struct cpu_builder *b = p->b;
    LLVMTypeRef i16 = int_type(b, 16), i32 = int_type(b, 32);
    LLVMValueRef half[2] = {NULL, LLVMConstNull(i32)};
    for (int i = 0; i < 1 + whole; i++) {
        LLVMValueRef at = LLVMBuildNSWMul(b->builder, ir_addk(b, k, i), p->step, "");
        LLVMValueRef value = cpu_load(b, p->from, ir_at(b, from, at), NULL);
        value = cpu_emit_convert(b, value, p->from, p->to);
        value = LLVMBuildBitCast(b->builder, value, i16, "");
        half[i] = LLVMBuildZExt(b->builder, value, i32, "");
    }
    return i_or(b, half[0], i_shlk(b, half[1], 16));
}

/* Pairs [start, pairs) of all columns, and the odd element. */
static void gathered_pairs(struct pack *p, LLVMValueRef start, LLVMValueRef pairs,
                           LLVMValueRef count) {
    struct cpu_builder *b = p->b;
    int64_t row = 4 * (int64_t)p->width;
    struct ir_loop columns = ir_loop_count(b, p->width, 1);
    LLVMValueRef from = column(p, columns.i);
    LLVMValueRef to = ir_at(b, p->to_base, ir_mulk(b, columns.i, 4));
    struct ir_loop rows = ir_loop_begin(b, start, pairs, 1, true);
    ir_store(b, pair_of(p, from, ir_mulk(b, rows.i, 2), true),
             ir_at(b, to, ir_mulk(b, rows.i, row)), 4);
    ir_loop_end(b, &rows);
    LLVMValueRef last = ir_mulk(b, pairs, 2);
    struct ir_if odd = ir_if_begin(b, i_cmp(b, LLVMIntSLT, last, count), false);
    ir_store(b, pair_of(p, from, last, false), ir_at(b, to, ir_mulk(b, pairs, row)), 4);
    ir_if_end(b, &odd);
    ir_loop_end(b, &columns);
}

static void transposed_pairs(struct pack *p, LLVMValueRef pairs, LLVMValueRef count) {
    struct cpu_builder *b = p->b;
    int lanes = p->lanes;
    LLVMValueRef v[64], from[64], whole = i_and(b, pairs, ir_k(b, -(int64_t)lanes));
    LLVMTypeRef wide = LLVMVectorType(int_type(b, 32), (unsigned)lanes);
    struct ir_loop groups = ir_loop_count(b, p->width, lanes);
    for (int i = 0; i < lanes; i++)
        from[i] = column(p, ir_addk(b, groups.i, i));
    LLVMValueRef to = ir_at(b, p->to_base, ir_mulk(b, groups.i, 4));
    struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), whole, lanes, true);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at = ir_at(b, from[i], ir_mulk(b, rows.i, 2 * (int64_t)p->from_size));
        v[i] = pack_convert_vector(b, load_vector(b, p->from, 2 * lanes, at), p->from, p->to);
        v[i] = LLVMBuildBitCast(b->builder, v[i], wide, "");
    }
    transpose(b, v, lanes);
    for (int i = 0; i < lanes; i++)
        ir_store(b, v[i], ir_at(b, to, ir_mulk(b, ir_addk(b, rows.i, i), 4 * (int64_t)p->width)),
                 4);
    ir_loop_end(b, &rows);
    ir_loop_end(b, &groups);
    gathered_pairs(p, whole, pairs, count);
}

/* Two rows side by side, element by element in turns; the second one or zeros. */
static void row_of_pairs(struct pack *p, LLVMValueRef from, LLVMValueRef to, bool whole) {
    struct cpu_builder *b = p->b;
    LLVMTypeRef i32 = int_type(b, 32);
    LLVMValueRef mask[128];
    int lanes = p->lanes;
    for (int i = 0; i < 2 * lanes; i++)
        mask[i] = LLVMConstInt(i32, (uint64_t)(i / 2 + i % 2 * lanes), false);
    for (int j = 0; j < p->width; j += lanes) {
        LLVMValueRef row[2];
        for (int i = 0; i < 1 + whole; i++) {
            LLVMValueRef at = ir_atk(b, i ? ir_at(b, from, p->step) : from, j * p->from_size);
            row[i] = pack_convert_vector(b, load_vector(b, p->from, lanes, at), p->from, p->to);
        }
        if (!whole) row[1] = LLVMConstNull(LLVMTypeOf(row[0]));
        LLVMValueRef both = LLVMBuildShuffleVector(b->builder, row[0], row[1],
                                                   LLVMConstVector(mask, 2 * (unsigned)lanes), "");
        ir_store(b, both, ir_atk(b, to, 4 * j), 4);
    }
}

static void rows_of_pairs(struct pack *p, LLVMValueRef pairs, LLVMValueRef count) {
    struct cpu_builder *b = p->b;
    int64_t row = 4 * (int64_t)p->width;
    LLVMValueRef from = column(p, ir_k(b, 0)), twice = ir_mulk(b, p->step, 2);
    struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), pairs, 1, true);
    row_of_pairs(p, ir_at(b, from, LLVMBuildNSWMul(b->builder, rows.i, twice, "")),
                 ir_at(b, p->to_base, ir_mulk(b, rows.i, row)), true);
    ir_loop_end(b, &rows);
    struct ir_if odd = ir_if_begin(b, i_cmp(b, LLVMIntSLT, ir_mulk(b, pairs, 2), count), false);
    row_of_pairs(p, ir_at(b, from, LLVMBuildNSWMul(b->builder, pairs, twice, "")),
                 ir_at(b, p->to_base, ir_mulk(b, pairs, row)), false);
    ir_if_end(b, &odd);
}

LLVMValueRef pack_pairs(struct cpu_builder *b, const struct cpu_target *target, enum pack_mode mode,
                        enum element_type from, enum element_type to, int width) {
    char name[64];
    snprintf(name, sizeof name, "pack.pairs%d.%s.%s.%d", (int)mode, element_type_name(from),
             element_type_name(to), width);
    struct pack p = {.b = b, .from = from, .to = to, .width = width};
    LLVMBasicBlockRef back;
    LLVMValueRef count;
    LLVMValueRef function = panel_function(&p, target, name, 4, &count, &back);
    if (!count) return function;
    LLVMValueRef pairs = i_lshrk(b, count, 1);
    if (mode == PACK_TRANSPOSE)
        transposed_pairs(&p, pairs, count);
    else if (mode == PACK_ROWS)
        rows_of_pairs(&p, pairs, count);
    else
        gathered_pairs(&p, ir_k(b, 0), pairs, count);
    ir_function_end(b, back);
    return function;
}

LLVMValueRef pack_panels(struct cpu_builder *b, const struct cpu_target *target,
                         enum element_type from, enum element_type to, int width) {
    char name[64];
    snprintf(name, sizeof name, "pack.rows.%s.%s.%d", element_type_name(from),
             element_type_name(to), width);
    LLVMTypeRef i64 = ir_i64(b), p = ir_pointer(b);
    LLVMBasicBlockRef back;
    bool made;
    LLVMValueRef function = pack_function(b, target, name, PACK_PANELS_ARGUMENTS,
                                          (LLVMTypeRef[]){p, i64, i64, p, i64, i64}, &back, &made);
    if (!made) return function;
    int from_size = element_type_size(from), to_size = element_type_size(to);
    int most = target->vector_bytes / to_size;
    struct ir_loop rows = ir_loop_begin(b, ir_k(b, 0), LLVMGetParam(function, 2), 1, false);
    LLVMValueRef offset = LLVMBuildNSWMul(b->builder, rows.i, LLVMGetParam(function, 1), "");
    LLVMValueRef source = ir_at(b, LLVMGetParam(function, 0), offset);
    LLVMValueRef row = ir_mulk(b, rows.i, (int64_t)width * to_size);
    LLVMValueRef target_row = ir_at(b, LLVMGetParam(function, 3), row);
    struct ir_loop panels = ir_loop_begin(b, ir_k(b, 0), LLVMGetParam(function, 4), 1, false);
    LLVMValueRef place = LLVMBuildNSWMul(b->builder, panels.i, LLVMGetParam(function, 5), "");
    LLVMValueRef place_from = ir_mulk(b, panels.i, (int64_t)width * from_size);
    for (int j = 0; j < width; j += most) {
        int lanes = width - j < most ? width - j : most;
        LLVMValueRef at = ir_atk(b, ir_at(b, source, place_from), j * from_size);
        LLVMValueRef value = pack_convert_vector(b, load_vector(b, from, lanes, at), from, to);
        ir_store(b, value, ir_atk(b, ir_at(b, target_row, place), j * to_size), to_size);
    }
    ir_loop_end(b, &panels);
    ir_loop_end(b, &rows);
    ir_function_end(b, back);
    return function;
}

LLVMValueRef pack_run(struct cpu_builder *b, const struct cpu_target *target, bool contiguous,
                      enum element_type from, enum element_type to) {
    char name[64];
    snprintf(name, sizeof name, "pack.%s.%s.%s", contiguous ? "run" : "steps",
             element_type_name(from), element_type_name(to));
    LLVMTypeRef i64 = ir_i64(b), p = ir_pointer(b);
    LLVMBasicBlockRef back;
    bool made;
    LLVMValueRef function = pack_function(b, target, name, PACK_RUN_ARGUMENTS,
                                          (LLVMTypeRef[]){p, i64, i64, p}, &back, &made);
    if (!made) return function;
    LLVMValueRef count = LLVMGetParam(function, 2);
    LLVMValueRef step = contiguous ? ir_k(b, element_type_size(from)) : LLVMGetParam(function, 1);
    struct ir_loop loop = ir_loop_begin(b, ir_k(b, 0), count, 1, true);
    LLVMValueRef at =
        ir_at(b, LLVMGetParam(function, 0), LLVMBuildNSWMul(b->builder, loop.i, step, ""));
    LLVMValueRef value = cpu_emit_convert(b, cpu_load(b, from, at, NULL), from, to);
    cpu_store(b, to, value,
              ir_at(b, LLVMGetParam(function, 3), ir_mulk(b, loop.i, element_type_size(to))));
    ir_loop_end_parallel(b, &loop, contiguous ? target->vector_bytes / element_type_size(to) : 0);
    ir_function_end(b, back);
    return function;
}
