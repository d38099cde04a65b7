#include "backend/cpu/gen.h"

#include "backend/cpu/emit.h"

enum { MOST = 64 };

static void load_slots(struct cpu_gen *g, int n, const LLVMTypeRef *types,
                       const LLVMValueRef *slots, LLVMValueRef *values) {
    for (int k = 0; k < n; k++)
        values[k] = LLVMBuildLoad2(g->b.builder, types[k], slots[k], "");
}

/* slots = f(slots, values) */
static void fold(struct cpu_gen *g, const struct hlo_instr *instr, int n, const LLVMTypeRef *types,
                 const LLVMValueRef *slots, LLVMValueRef *args) {
    LLVMValueRef next[MOST];
    load_slots(g, n, types, slots, args);
    gen_scalar_call(g, instr->called[0], args, next);
    for (int k = 0; k < n; k++)
        LLVMBuildStore(g->b.builder, next[k], slots[k]);
}

static void start(struct cpu_gen *g, const struct hlo_instr *instr, int n, LLVMTypeRef *types,
                  LLVMValueRef *slots) {
    for (int k = 0; k < n; k++) {
        enum element_type type = instr->operands[n + k]->shape->type;
        types[k] = cpu_value_type(&g->b, type);
        slots[k] = gen_slot(g, type);
        LLVMBuildStore(g->b.builder, gen_element(g, instr->operands[n + k], NULL), slots[k]);
    }
}

void gen_reduce(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                LLVMValueRef *out) {
    int n = instr->noperands / 2, kept = 0;
    const struct shape *from = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    LLVMValueRef slots[MOST], args[2 * MOST], inner[SHAPE_MAX_RANK];
    LLVMTypeRef types[MOST];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    int nloops = 0;
    start(g, instr, n, types, slots);
    for (int d = 0; d < from->rank; d++) {
        bool reduced = false;
        for (int i = 0; i < dims.count; i++)
            reduced |= dims.v[i] == d;
        if (!reduced) {
            inner[d] = index[kept++];
            continue;
        }
        loops[nloops] = gen_loop_begin(g, gen_i64(g, from->dims[d]));
        inner[d] = loops[nloops++].i;
    }
    for (int k = 0; k < n; k++)
        args[n + k] = gen_element(g, instr->operands[k], inner);
    fold(g, instr, n, types, slots, args);
    gen_nest_end(g, nloops, loops);
    load_slots(g, n, types, slots, out);
}

/* Runs `then` code only where `condition`; returns the block after it. */
static LLVMBasicBlockRef guard(struct cpu_gen *g, LLVMValueRef condition) {
    LLVMBasicBlockRef yes = LLVMAppendBasicBlockInContext(g->b.context, g->function, "in");
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(g->b.context, g->function, "after");
    LLVMBuildCondBr(g->b.builder, condition, yes, after);
    LLVMPositionBuilderAtEnd(g->b.builder, yes);
    return after;
}

static void guard_end(struct cpu_gen *g, LLVMBasicBlockRef after) {
    LLVMBuildBr(g->b.builder, after);
    LLVMPositionBuilderAtEnd(g->b.builder, after);
}

/* Where a window element falls in the base: *at, and whether that is an element of it. */
static LLVMValueRef window_place(struct cpu_gen *g, const struct window_dim *w, int64_t size,
                                 LLVMValueRef o, LLVMValueRef k, LLVMValueRef *at) {
    struct cpu_builder *b = &g->b;
    LLVMValueRef place = i_sub(
        b, i_add(b, i_mul(b, o, gen_i64(g, w->stride)), i_mul(b, k, gen_i64(g, w->rhs_dilate))),
        gen_i64(g, w->pad_low));
    LLVMValueRef dilate = gen_i64(g, w->lhs_dilate);
    *at = LLVMBuildSDiv(b->builder, place, dilate, "");
    LLVMValueRef in = i_cmp(b, LLVMIntEQ, i_mul(b, *at, dilate), place);
    in = i_and(b, in, i_cmp(b, LLVMIntSGE, place, gen_i64(g, 0)));
    return i_and(b, in, i_cmp(b, LLVMIntSLT, *at, gen_i64(g, size)));
}

void gen_reduce_window(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                       LLVMValueRef *out) {
    int n = instr->noperands / 2;
    const struct shape *from = instr->operands[0]->shape;
    const struct window *window = instr_window(instr);
    LLVMValueRef slots[MOST], args[2 * MOST], inner[SHAPE_MAX_RANK];
    LLVMTypeRef types[MOST];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 1, false);
    start(g, instr, n, types, slots);
    int nloops = window ? window->count : 0;
    for (int d = 0; d < nloops; d++) {
        const struct window_dim *w = &window->v[d];
        loops[d] = gen_loop_begin(g, gen_i64(g, w->size));
        LLVMValueRef k = loops[d].i;
        if (w->reversed) k = i_sub(&g->b, gen_i64(g, w->size - 1), k);
        inside = i_and(&g->b, inside, window_place(g, w, from->dims[d], index[d], k, &inner[d]));
    }
    LLVMBasicBlockRef after = guard(g, inside);
    for (int k = 0; k < n; k++)
        args[n + k] = gen_element(g, instr->operands[k], inner);
    fold(g, instr, n, types, slots, args);
    guard_end(g, after);
    gen_nest_end(g, nloops, loops);
    load_slots(g, n, types, slots, out);
}

/* ---- products ---- */

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
                       window_place(g, w, lhs->dims[labels->input_spatial[d]],
                                    index[labels->output_spatial[d]], k,
                                    &left[labels->input_spatial[d]]));
    }
    LLVMBasicBlockRef after = guard(g, inside);
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
    guard_end(g, after);
    gen_nest_end(g, n, loops);
    return product_end(g, instr, slot);
}
