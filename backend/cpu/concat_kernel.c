/* Concatenation: a loop for each operand, which stores it where it goes. */
#include "backend/cpu/lowering.h"

#include "passes/fusion_shape.h"

/* Each operand's outermost dimension goes in so many parts, whatever its size. */
enum { PARTS = 64 };

static const struct hlo_instr *joined_of(const struct hlo_instr *instr) {
    if (instr->opcode == OP_CONCATENATE) return instr;
    if (instr->opcode != OP_FUSION) return NULL;
    const struct hlo_instr *root = instr->called[0]->root;
    const char *why;
    if (root->opcode != OP_CONCATENATE || fusion_shape(instr->called[0]) != FUSION_SHAPE_LOOP)
        return NULL;
    return gen_is_elemental(instr, &why) ? root : NULL;
}

bool concat_kernel_match(const struct hlo_instr *instr) {
    const struct hlo_instr *joined = joined_of(instr);
    return joined && joined->shape->rank > 0 &&
           !loop_kernel_writes_out(instr, (int)instr_ints(joined, ATTR_DIMENSIONS).v[0]);
}

int64_t concat_kernel_units(const struct hlo_instr *instr) {
    (void)instr;
    return PARTS;
}

static void store_operand(struct cpu_gen *g, struct cpu_kernel *k, const struct hlo_instr *joined,
                          const struct hlo_instr *operand, int64_t start) {
    const struct shape *shape = operand->shape;
    int dim = (int)instr_ints(joined, ATTR_DIMENSIONS).v[0];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef index[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK];
    if (shape->count == 0) return;
    loops[0] = gen_range_begin(g, gen_part(g, shape->dims[0], PARTS, k->begin),
                               gen_part(g, shape->dims[0], PARTS, k->end));
    index[0] = loops[0].i;
    gen_index_bound(g, index[0], shape->dims[0]);
    gen_nest_begin(g, shape->rank - 1, shape->dims + 1, loops + 1, index + 1);
    for (int d = 0; d < shape->rank; d++)
        at[d] = d == dim ? gen_index_add(g, index[d], gen_i64(g, start)) : index[d];
    gen_store(g, joined->shape, k->out[0], at, gen_element(g, operand, index));
    gen_nest_end(g, shape->rank - 1, loops + 1);
    gen_loop_end(g, &loops[0]);
}

void concat_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *joined = joined_of(k->instr);
    int64_t start = 0;
    gen_enter_kernel(g, k);
    for (int i = 0; i < joined->noperands; i++) {
        store_operand(g, k, joined, joined->operands[i], start);
        start += joined->operands[i]->shape->dims[instr_ints(joined, ATTR_DIMENSIONS).v[0]];
    }
}
