#include "backend/cpu/lowering.h"

#include "backend/cpu/emit.h"

static bool listed(struct int_list list, int64_t value) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] == value) return true;
    return false;
}

/* Where the update at index[] goes, in at[]; returns whether its whole window is in range. */
static LLVMValueRef place(struct cpu_gen *g, const struct hlo_instr *instr, int n,
                          const LLVMValueRef *index, LLVMValueRef *at) {
    struct cpu_builder *b = &g->b;
    const struct hlo_instr *indices = instr->operands[n];
    const struct shape *shape = instr->operands[0]->shape;
    const struct shape *update = instr->operands[n + 1]->shape;
    struct int_list windows = instr_ints(instr, ATTR_UPDATE_WINDOW_DIMS);
    struct int_list inserted = instr_ints(instr, ATTR_INSERTED_WINDOW_DIMS);
    struct int_list map = instr_ints(instr, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
    struct int_list batch = instr_ints(instr, ATTR_INPUT_BATCHING_DIMS);
    struct int_list from = instr_ints(instr, ATTR_SCATTER_INDICES_BATCHING_DIMS);
    int vector = (int)instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0), s = 0, w = 0;
    LLVMValueRef which[SHAPE_MAX_RANK + 1];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(b->context), 1, false);
    for (int d = 0; d < update->rank; d++) {
        if (listed(windows, d)) continue;
        if (s == vector) s++;
        which[s++] = index[d];
    }
    int64_t sizes[SHAPE_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) {
        bool drop = listed(inserted, d) || listed(batch, d);
        sizes[d] = drop ? 1 : update->dims[windows.v[w]];
        at[d] = drop ? gen_i64(g, 0) : index[windows.v[w++]];
        for (int i = 0; i < batch.count; i++)
            if (batch.v[i] == d) at[d] = which[from.v[i]];
    }
    for (int i = 0; i < map.count; i++) {
        int d = (int)map.v[i];
        if (vector < indices->shape->rank) which[vector] = gen_i64(g, i);
        LLVMValueRef start =
            cpu_emit_convert(b, gen_element(g, indices, which), indices->shape->type, TYPE_S64);
        inside = i_and(b, inside, i_cmpk(b, LLVMIntSGE, start, 0));
        inside =
            i_and(b, inside, i_cmp(b, LLVMIntSLE, start, gen_i64(g, shape->dims[d] - sizes[d])));
        at[d] = i_add(b, at[d], start);
    }
    return inside;
}

/* Updates apply in index order. */
void scatter_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *instr = k->instr;
    int n = (instr->noperands - 1) / 2;
    const struct shape *update = instr->operands[n + 1]->shape;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef index[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK];
    LLVMValueRef args[GEN_MOST_LEAVES], out[GEN_MOST_LEAVES];
    gen_bind_operands(g, k);
    for (int i = 0; i < n; i++)
        gen_copy(g, instr->operands[i]->shape, k->out[i], k->in[i]);
    if (update->count == 0) return;
    gen_nest_begin(g, update->rank, update->dims, loops, index);
    LLVMBasicBlockRef after = gen_guard_begin(g, place(g, instr, n, index, at));
    for (int i = 0; i < n; i++) {
        args[i] = gen_load(g, instr->operands[i]->shape, k->out[i], at);
        args[n + i] = gen_element(g, instr->operands[n + 1 + i], index);
    }
    gen_scalar_call(g, instr->called[0], args, out);
    for (int i = 0; i < n; i++)
        gen_store(g, instr->operands[i]->shape, k->out[i], at, out[i]);
    gen_guard_end(g, after);
    gen_nest_end(g, update->rank, loops);
}
