/* One element of a dot or a convolution, by plain loops: what runs where no faster form fits. */
#include "backend/cpu/gen.h"

#include "backend/cpu/emit.h"

static enum element_type sum_type(enum element_type type) {
    bool narrow = element_type_is_float(type) && type != TYPE_F32 && type != TYPE_F64;
    return narrow ? TYPE_F32 : type;
}

static LLVMValueRef sum_of(struct cpu_gen *g, LLVMValueRef x) {
    if (LLVMIsAInstruction(x) && LLVMCanValueUseFastMathFlags(x))
        LLVMSetFastMathFlags(x, LLVMFastMathAllowContract | LLVMFastMathAllowReassoc);
    (void)g;
    return x;
}

static LLVMValueRef multiply_add(struct cpu_gen *g, enum element_type type, LLVMValueRef sum,
                                 LLVMValueRef x, LLVMValueRef y) {
    struct cpu_builder *b = &g->b;
    LLVMBuilderRef l = b->builder;
    if (type == TYPE_PRED) return i_or(b, sum, i_and(b, x, y));
    if (element_type_is_float(type)) return sum_of(g, LLVMBuildFAdd(l, sum, f_mul(b, x, y), ""));
    if (!element_type_is_complex(type)) return cpu_wrap(b, i_add(b, sum, i_mul(b, x, y)), type);
    LLVMValueRef xr = LLVMBuildExtractValue(l, x, 0, ""), xi = LLVMBuildExtractValue(l, x, 1, "");
    LLVMValueRef yr = LLVMBuildExtractValue(l, y, 0, ""), yi = LLVMBuildExtractValue(l, y, 1, "");
    LLVMValueRef r = f_sub(b, f_mul(b, xr, yr), f_mul(b, xi, yi));
    LLVMValueRef i = f_add(b, f_mul(b, xr, yi), f_mul(b, xi, yr));
    r = f_add(b, LLVMBuildExtractValue(l, sum, 0, ""), r);
    i = f_add(b, LLVMBuildExtractValue(l, sum, 1, ""), i);
    return LLVMBuildInsertValue(l, LLVMBuildInsertValue(l, sum, r, 0, ""), i, 1, "");
}

static void product_step(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef slot,
                         const LLVMValueRef *left, const LLVMValueRef *right) {
    enum element_type type = sum_type(instr->shape->type);
    const struct hlo_instr *a = instr->operands[0], *c = instr->operands[1];
    LLVMValueRef x = cpu_emit_convert(&g->b, gen_element(g, a, left), a->shape->type, type);
    LLVMValueRef y = cpu_emit_convert(&g->b, gen_element(g, c, right), c->shape->type, type);
    LLVMValueRef sum = LLVMBuildLoad2(g->b.builder, cpu_value_type(&g->b, type), slot, "");
    LLVMBuildStore(g->b.builder, multiply_add(g, type, sum, x, y), slot);
}

static LLVMValueRef product_begin(struct cpu_gen *g, const struct hlo_instr *instr) {
    enum element_type type = sum_type(instr->shape->type);
    LLVMValueRef slot = gen_slot(g, type);
    LLVMBuildStore(g->b.builder, cpu_constant(&g->b, type, 0), slot);
    return slot;
}

static LLVMValueRef product_end(struct cpu_gen *g, const struct hlo_instr *instr,
                                LLVMValueRef slot) {
    enum element_type type = sum_type(instr->shape->type);
    LLVMValueRef sum = LLVMBuildLoad2(g->b.builder, cpu_value_type(&g->b, type), slot, "");
    return cpu_emit_convert(&g->b, sum, type, instr->shape->type);
}

static void free_dims(const struct shape *shape, LLVMValueRef *to, const LLVMValueRef *index,
                      int *next) {
    for (int d = 0; d < shape->rank; d++)
        if (!to[d]) to[d] = index[(*next)++];
}

LLVMValueRef gen_dot(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index) {
    const struct shape *lhs = instr->operands[0]->shape, *rhs = instr->operands[1]->shape;
    struct int_list lb = instr_ints(instr, ATTR_LHS_BATCH_DIMS);
    struct int_list rb = instr_ints(instr, ATTR_RHS_BATCH_DIMS);
    struct int_list lc = instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS);
    struct int_list rc = instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS);
    LLVMValueRef left[SHAPE_MAX_RANK] = {0}, right[SHAPE_MAX_RANK] = {0};
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef slot = product_begin(g, instr);
    int next = 0;
    for (int i = 0; i < lb.count; i++)
        left[lb.v[i]] = right[rb.v[i]] = index[next++];
    for (int i = 0; i < lc.count; i++) {
        loops[i] = gen_loop_begin(g, gen_i64(g, lhs->dims[lc.v[i]]));
        left[lc.v[i]] = right[rc.v[i]] = loops[i].i;
    }
    free_dims(lhs, left, index, &next);
    free_dims(rhs, right, index, &next);
    product_step(g, instr, slot, left, right);
    gen_nest_end(g, lc.count, loops);
    return product_end(g, instr, slot);
}

LLVMValueRef gen_convolution(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index) {
    struct cpu_builder *b = &g->b;
    const struct shape *lhs = instr->operands[0]->shape, *rhs = instr->operands[1]->shape;
    const struct dim_labels *labels = instr_attr(instr, ATTR_DIM_LABELS)->dim_labels;
    const struct window *window = instr_window(instr);
    int64_t groups = instr_int(instr, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batches = instr_int(instr, ATTR_BATCH_GROUP_COUNT, 1);
    int64_t outputs = rhs->dims[labels->kernel_output];
    int64_t inputs = rhs->dims[labels->kernel_input];
    LLVMValueRef left[SHAPE_MAX_RANK] = {0}, right[SHAPE_MAX_RANK] = {0};
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(b->context), 1, false);
    LLVMValueRef slot = product_begin(g, instr), o = index[labels->output_feature];
    LLVMValueRef group = LLVMBuildSDiv(
        b->builder, o, gen_i64(g, outputs / (groups * batches) ? outputs / (groups * batches) : 1),
        "");
    int n = labels->spatial;
    for (int d = 0; d < n; d++) {
        const struct window_dim *w = &window->v[d];
        loops[d] = gen_loop_begin(g, gen_i64(g, w->size));
        LLVMValueRef k = loops[d].i, reversed = i_sub(b, gen_i64(g, w->size - 1), k);
        right[labels->kernel_spatial[d]] = w->reversed ? reversed : k;
        inside = i_and(b, inside,
                       gen_window_place(g, w, lhs->dims[labels->input_spatial[d]],
                                        index[labels->output_spatial[d]], k,
                                        &left[labels->input_spatial[d]]));
    }
    LLVMBasicBlockRef after = gen_guard_begin(g, inside);
    struct cpu_loop features = gen_loop_begin(g, gen_i64(g, inputs));
    LLVMValueRef batch = index[labels->output_batch], feature = features.i;
    if (batches > 1)
        batch =
            i_add(b, batch, i_mul(b, group, gen_i64(g, lhs->dims[labels->input_batch] / batches)));
    else if (groups > 1)
        feature = i_add(b, feature, i_mul(b, group, gen_i64(g, inputs)));
    left[labels->input_batch] = batch;
    left[labels->input_feature] = feature;
    right[labels->kernel_input] = features.i;
    right[labels->kernel_output] = o;
    product_step(g, instr, slot, left, right);
    gen_loop_end(g, &features);
    gen_guard_end(g, after);
    gen_nest_end(g, n, loops);
    return product_end(g, instr, slot);
}
