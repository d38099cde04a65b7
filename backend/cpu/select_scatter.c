/* select-and-scatter: each source element goes to the operand element that its window selects. */
#include "backend/cpu/emit.h"
#include "backend/cpu/lowering.h"

bool select_scatter_match(const struct hlo_instr *instr) {
    const char *why;
    return instr->opcode == OP_SELECT_AND_SCATTER && instr->ncalled == 2 &&
           gen_is_scalar_computation(instr->called[0], &why) &&
           gen_is_scalar_computation(instr->called[1], &why);
}

static struct window_dim window_dim(const struct hlo_instr *instr, int dim) {
    const struct window_dim one = {.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
    const struct window *window = instr_window(instr);
    return window && dim < window->count ? window->v[dim] : one;
}

/* Leading dimensions whose windows are single elements: their elements do not meet. */
static int free_dims(const struct hlo_instr *instr) {
    const struct shape *in = instr->operands[0]->shape, *source = instr->operands[1]->shape;
    int d = 0;
    for (; d < in->rank; d++) {
        struct window_dim w = window_dim(instr, d);
        if (w.size != 1 || w.stride != 1 || w.pad_low != 0 || w.lhs_dilate != 1 ||
            in->dims[d] != source->dims[d])
            break;
    }
    return d;
}

int64_t select_scatter_units(const struct hlo_instr *instr) {
    int64_t units = 1;
    int dims = free_dims(instr);
    for (int d = 0; d < dims; d++)
        units *= instr->shape->dims[d];
    return units;
}

/* What the walk over a window keeps. */
struct choice {
    LLVMValueRef value, at; /* slots: the element, its linear index or -1 */
};

static void choose(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                   struct choice choice) {
    struct cpu_builder *b = &g->b;
    const struct shape *in = instr->operands[0]->shape;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inner[SHAPE_MAX_RANK], keep;
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(b->context), 1, false);
    LLVMBuildStore(b->builder, gen_i64(g, -1), choice.at);
    LLVMBuildStore(b->builder, cpu_constant(b, in->type, 0), choice.value);
    for (int d = 0; d < in->rank; d++) {
        struct window_dim w = window_dim(instr, d);
        loops[d] = gen_loop_begin(g, gen_i64(g, w.size));
        LLVMValueRef k = loops[d].i;
        if (w.reversed) k = i_sub(b, gen_i64(g, w.size - 1), k);
        inside = i_and(b, inside, gen_window_place(g, &w, in->dims[d], index[d], k, &inner[d]));
    }
    LLVMBasicBlockRef after = gen_guard_begin(g, inside);
    LLVMTypeRef type = cpu_value_type(b, in->type), i64 = LLVMInt64TypeInContext(b->context);
    LLVMValueRef candidate = gen_element(g, instr->operands[0], inner);
    LLVMValueRef args[2] = {LLVMBuildLoad2(b->builder, type, choice.value, ""), candidate};
    LLVMValueRef chosen = LLVMBuildLoad2(b->builder, i64, choice.at, "");
    gen_scalar_call(g, instr->called[0], args, &keep);
    keep = i_and(b, keep, i_cmpk(b, LLVMIntSGE, chosen, 0));
    LLVMBuildStore(b->builder, select_of(b, keep, args[0], candidate), choice.value);
    LLVMBuildStore(b->builder, select_of(b, keep, chosen, gen_linear(g, in, inner)), choice.at);
    gen_guard_end(g, after);
    gen_nest_end(g, in->rank, loops);
}

/* scatter(source, so far), as XLA calls it, at a linear index of the result. */
static void scatter_one(struct cpu_gen *g, struct cpu_kernel *k, const LLVMValueRef *index,
                        LLVMValueRef at) {
    struct cpu_builder *b = &g->b;
    enum element_type type = k->instr->shape->type;
    LLVMValueRef sum,
        to = LLVMBuildInBoundsGEP2(b->builder, cpu_memory_type(b, type), k->out[0], &at, 1, "");
    LLVMValueRef args[2] = {gen_element(g, k->instr->operands[1], index),
                            cpu_load(b, type, to, NULL)};
    gen_scalar_call(g, k->instr->called[1], args, &sum);
    cpu_store(b, type, sum, to);
}

/* The result's part that belongs to a unit starts as init. */
static void fill(struct cpu_gen *g, struct cpu_kernel *k, const LLVMValueRef *index, int dims) {
    const struct shape *shape = k->instr->shape;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inner[SHAPE_MAX_RANK];
    for (int d = 0; d < dims; d++)
        inner[d] = index[d];
    LLVMValueRef init = gen_element(g, k->instr->operands[2], NULL);
    gen_nest_begin(g, shape->rank - dims, shape->dims + dims, loops, inner + dims);
    gen_store(g, shape, k->out[0], inner, init);
    gen_nest_end(g, shape->rank - dims, loops);
}

void select_scatter_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *instr = k->instr;
    const struct shape *in = instr->operands[0]->shape, *source = instr->operands[1]->shape;
    int dims = free_dims(instr), rest = source->rank - dims;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef index[SHAPE_MAX_RANK];
    gen_bind_operands(g, k);
    struct choice choice = {gen_slot(g, in->type), gen_slot(g, TYPE_S64)};
    struct cpu_loop units = gen_range_begin(g, k->begin, k->end);
    LLVMValueRef unit = units.i;
    gen_index_bound(g, unit, select_scatter_units(instr));
    for (int d = dims - 1; d >= 0; d--) {
        int64_t length = source->dims[d] ? source->dims[d] : 1;
        index[d] = gen_index_rem(g, unit, length);
        unit = gen_index_div(g, unit, length);
    }
    fill(g, k, index, dims);
    gen_nest_begin(g, rest, source->dims + dims, loops, index + dims);
    choose(g, instr, index, choice);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMValueRef at = LLVMBuildLoad2(g->b.builder, i64, choice.at, "");
    LLVMBasicBlockRef after = gen_guard_begin(g, i_cmpk(&g->b, LLVMIntSGE, at, 0));
    scatter_one(g, k, index, at);
    gen_guard_end(g, after);
    gen_nest_end(g, rest, loops);
    gen_loop_end(g, &units);
}
