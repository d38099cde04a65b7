#include "backend/cpu/column_sums.h"

#include <string.h>

int64_t column_blocks(int64_t columns) {
    return (columns + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
}

LLVMValueRef column_width(struct cpu_gen *g, int64_t columns, LLVMValueRef first) {
    if (columns <= COLUMN_BLOCK) return gen_i64(g, columns);
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef most = gen_i64(g, COLUMN_BLOCK);
    LLVMValueRef rest = LLVMBuildSub(b, gen_i64(g, columns), first, "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, rest, most, ""), rest, most, "");
}

static LLVMValueRef sum_at(struct cpu_gen *g, const struct column_sums *s, int k,
                           LLVMValueRef column) {
    return LLVMBuildInBoundsGEP2(g->b.builder, cpu_memory_type(&g->b, s->reducer.sum[k]),
                                 s->arrays[k], &column, 1, "");
}

static void load(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef column,
                 LLVMValueRef *values) {
    for (int k = 0; k < s->reducer.n; k++)
        values[k] = cpu_load(&g->b, s->reducer.sum[k], sum_at(g, s, k, column), NULL);
}

static void store(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef column,
                  const LLVMValueRef *values) {
    for (int k = 0; k < s->reducer.n; k++)
        cpu_store(&g->b, s->reducer.sum[k], values[k], sum_at(g, s, k, column));
}

void column_sums_init(struct cpu_gen *g, struct column_sums *s, const struct hlo_instr *instr) {
    s->instr = instr;
    gen_reducer_init(instr, &s->reducer);
    s->arrays = arena_array(g->arena, (size_t)s->reducer.n, sizeof *s->arrays);
    for (int k = 0; k < s->reducer.n; k++)
        s->arrays[k] = gen_alloca(g, cpu_memory_type(&g->b, s->reducer.sum[k]), COLUMN_BLOCK);
}

void column_sums_start(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef width) {
    LLVMValueRef values[GEN_MOST_LEAVES];
    gen_reducer_start(g, s->instr, &s->reducer, values);
    struct cpu_loop loop = gen_loop_begin(g, width);
    store(g, s, loop.i, values);
    gen_loop_end(g, &loop);
}

void column_sums_add(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef column, int count,
                     LLVMValueRef *const *index, LLVMValueRef *values) {
    LLVMValueRef elements[GEN_MOST_LEAVES], sums[GEN_MOST_LEAVES];
    load(g, s, column, values);
    for (int i = 0; i < count; i++) {
        memcpy(sums, values, (size_t)s->reducer.n * sizeof *sums);
        for (int k = 0; k < s->reducer.n; k++)
            elements[k] = gen_element(g, s->instr->operands[k], index[i]);
        gen_reducer_step(g, &s->reducer, sums, elements, values);
    }
    store(g, s, column, values);
}

void column_sums_end(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef column,
                     LLVMValueRef *values) {
    load(g, s, column, values);
    gen_reducer_end(g, &s->reducer, values);
}
