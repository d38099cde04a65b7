#include "backend/cpu/index_walk.h"

struct index_walk index_walk_of(const struct hlo_instr *instr) {
    bool gather = instr->opcode == OP_GATHER;
    struct index_walk walk = {.rank = instr->operands[0]->shape->rank};
    walk.indices = instr->operands[gather ? 1 : (instr->noperands - 1) / 2];
    walk.window = instr_ints(instr, gather ? ATTR_OFFSET_DIMS : ATTR_UPDATE_WINDOW_DIMS);
    walk.dropped =
        instr_ints(instr, gather ? ATTR_COLLAPSED_SLICE_DIMS : ATTR_INSERTED_WINDOW_DIMS);
    walk.batch = instr_ints(instr, gather ? ATTR_OPERAND_BATCHING_DIMS : ATTR_INPUT_BATCHING_DIMS);
    walk.batch_from = instr_ints(instr, gather ? ATTR_START_INDICES_BATCHING_DIMS
                                               : ATTR_SCATTER_INDICES_BATCHING_DIMS);
    walk.map = instr_ints(instr, gather ? ATTR_START_INDEX_MAP : ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
    walk.vector = (int)instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0);
    return walk;
}

bool index_walk_is_window(const struct index_walk *walk, int dim) {
    return int_list_has(walk->window, dim);
}

bool index_walk_drops(const struct index_walk *walk, int operand_dim) {
    return int_list_has(walk->dropped, operand_dim) || int_list_has(walk->batch, operand_dim);
}

void index_walk_vector(const struct index_walk *walk, int rank, const LLVMValueRef *index,
                       LLVMValueRef *which) {
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (int_list_has(walk->window, d)) continue;
        if (n == walk->vector) n++;
        which[n++] = index[d];
    }
}

void index_walk_offset(struct cpu_gen *g, const struct index_walk *walk, const LLVMValueRef *index,
                       const LLVMValueRef *which, LLVMValueRef *at) {
    int w = 0;
    for (int d = 0; d < walk->rank; d++) {
        at[d] = index_walk_drops(walk, d) ? gen_i64(g, 0) : index[walk->window.v[w++]];
        for (int i = 0; i < walk->batch.count; i++)
            if (walk->batch.v[i] == d) at[d] = which[walk->batch_from.v[i]];
    }
}

void index_walk_component(struct cpu_gen *g, const struct index_walk *walk, int i,
                          LLVMValueRef *which) {
    if (walk->vector < walk->indices->shape->rank) which[walk->vector] = gen_i64(g, i);
}
