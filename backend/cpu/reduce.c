/* Reductions: the combining computation, and one element of reduce and reduce-window. */
#include "backend/cpu/gen.h"

#include "backend/cpu/emit.h"
#include "passes/util.h"

/* ---- the combining computation ---- */

void gen_reducer_init(const struct hlo_instr *instr, struct cpu_reducer *reducer) {
    *reducer = (struct cpu_reducer){.computation = instr->called[0], .n = instr->noperands / 2};
    reducer->nsums = reducer->n;
    enum hlo_opcode op = reducer_operation(reducer->computation);
    enum element_type type = instr->operands[0]->shape->type;
    bool kept = op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM;
    if (element_type_is_float(type) && kept) reducer->op = op;
    for (int k = 0; k < reducer->n; k++) {
        reducer->element[k] = instr->operands[k]->shape->type;
        reducer->sum[k] = reducer->element[k];
        bool narrow = type != TYPE_F32 && type != TYPE_F64;
        if (reducer->op && narrow) reducer->sum[k] = TYPE_F32;
    }
}

/* ---- extremes from bits ----
 * Of floats as integers, those above zero are in order, and those below in reverse. So the maximum
 * is the largest integer with a sign where that is no negative float, else the smallest without
 * one; the largest without one tells of negative NaN. Zeros come out right, too. */

enum { LARGEST, SMALLEST_UNSIGNED, LARGEST_UNSIGNED, BITS_SUMS };

void gen_reducer_in_parts(struct cpu_reducer *r) {
    enum element_type type = r->element[0];
    if (r->n == 1 && element_type_is_complex(type) && reducer_operation(r->computation) == OP_ADD) {
        r->complex = true;
        r->nsums = 2;
        r->sum[0] = r->sum[1] = element_type_real_part(type);
    }
    if (r->op != OP_MAXIMUM && r->op != OP_MINIMUM) return;
    if (r->n != 1 || (type != TYPE_F32 && type != TYPE_BF16 && type != TYPE_F16)) return;
    r->bits = true;
    r->nsums = BITS_SUMS;
    for (int k = 0; k < BITS_SUMS; k++)
        r->sum[k] = type == TYPE_F32 ? TYPE_S32 : TYPE_S16;
}

static LLVMValueRef to_bits(struct cpu_gen *g, const struct cpu_reducer *r, LLVMValueRef x) {
    return r->element[0] == TYPE_F32 ? bits_of(&g->b, x) : x;
}

static void step_bits(struct cpu_gen *g, const LLVMValueRef *sums, LLVMValueRef x,
                      LLVMValueRef *out) {
    static const char *const names[] = {"llvm.smax", "llvm.umin", "llvm.umax"};
    for (int k = 0; k < BITS_SUMS; k++)
        out[k] = emit_intrinsic(&g->b, names[k], 2, (LLVMValueRef[]){sums[k], x});
}

static LLVMValueRef end_bits(struct cpu_gen *g, const struct cpu_reducer *r,
                             const LLVMValueRef *sums) {
    struct cpu_builder *b = &g->b;
    enum element_type type = r->element[0];
    uint64_t sign = type == TYPE_F32 ? 0x80000000 : 0x8000;
    uint64_t infinity = type == TYPE_F32 ? 0x7f800000 : type == TYPE_BF16 ? 0x7f80 : 0x7c00;
    LLVMValueRef first = sums[r->op == OP_MAXIMUM ? LARGEST : LARGEST_UNSIGNED];
    LLVMIntPredicate on_its_side = r->op == OP_MAXIMUM ? LLVMIntSGE : LLVMIntSLT;
    LLVMValueRef x = select_of(b, i_cmpk(b, on_its_side, first, 0), first, sums[SMALLEST_UNSIGNED]);
    LLVMValueRef nan = i_or(b, i_cmpk(b, LLVMIntSGT, sums[LARGEST], infinity),
                            i_cmpk(b, LLVMIntUGT, sums[LARGEST_UNSIGNED], sign | infinity));
    x = select_of(b, nan, ik(x, infinity | infinity >> 1), x);
    if (type == TYPE_F32) return f_flush(b, float_of(b, x));
    return type == TYPE_F16 ? x : cpu_narrow(b, f_flush(b, cpu_widen(b, x, type)), type);
}

/* ---- sums of any kind ---- */

static LLVMValueRef added(struct cpu_gen *g, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef sum = LLVMBuildFAdd(g->b.builder, a, b, "");
    if (LLVMIsAInstruction(sum))
        LLVMSetFastMathFlags(sum, LLVMFastMathAllowContract | LLVMFastMathAllowReassoc);
    return sum;
}

/* Real and imaginary part. */
static void take_apart(struct cpu_gen *g, LLVMValueRef complex, LLVMValueRef *parts) {
    for (unsigned k = 0; k < 2; k++)
        parts[k] = LLVMBuildExtractValue(g->b.builder, complex, k, "");
}

/* Values of element types as the types that sums are kept in. */
static void widen(struct cpu_gen *g, const struct cpu_reducer *r, LLVMValueRef *values) {
    for (int k = 0; k < r->n; k++)
        values[k] = cpu_emit_convert(&g->b, values[k], r->element[k], r->sum[k]);
}

void gen_reducer_start(struct cpu_gen *g, const struct hlo_instr *instr,
                       const struct cpu_reducer *r, LLVMValueRef *sums) {
    for (int k = 0; k < r->n; k++)
        sums[k] = gen_element(g, instr->operands[r->n + k], NULL);
    if (r->complex)
        take_apart(g, sums[0], sums);
    else if (r->bits)
        sums[0] = sums[1] = sums[2] = to_bits(g, r, sums[0]);
    else
        widen(g, r, sums);
}

void gen_reducer_step(struct cpu_gen *g, const struct cpu_reducer *r, const LLVMValueRef *sums,
                      LLVMValueRef *elements, LLVMValueRef *out) {
    if (r->complex) {
        LLVMValueRef parts[2];
        take_apart(g, elements[0], parts);
        for (int k = 0; k < 2; k++)
            out[k] = added(g, sums[k], parts[k]);
        return;
    }
    if (!r->op) {
        LLVMValueRef args[2 * GEN_MOST_LEAVES];
        for (int k = 0; k < r->n; k++) {
            args[k] = sums[k];
            args[r->n + k] = elements[k];
        }
        gen_scalar_call(g, r->computation, args, out);
        return;
    }
    if (r->bits) {
        step_bits(g, sums, to_bits(g, r, elements[0]), out);
        return;
    }
    widen(g, r, elements);
    LLVMBuilderRef b = g->b.builder;
    switch (r->op) {
    case OP_ADD: out[0] = added(g, sums[0], elements[0]); return;
    case OP_MULTIPLY: out[0] = LLVMBuildFMul(b, sums[0], elements[0], ""); break;
    default:
        out[0] = emit_intrinsic(&g->b, r->op == OP_MAXIMUM ? "llvm.maximum" : "llvm.minimum", 2,
                                (LLVMValueRef[]){sums[0], elements[0]});
        return;
    }
    if (LLVMIsAInstruction(out[0]))
        LLVMSetFastMathFlags(out[0], LLVMFastMathAllowContract | LLVMFastMathAllowReassoc);
}

void gen_reducer_end(struct cpu_gen *g, const struct cpu_reducer *r, LLVMValueRef *sums) {
    if (r->complex) {
        LLVMValueRef whole = LLVMGetUndef(cpu_value_type(&g->b, r->element[0]));
        for (unsigned k = 0; k < 2; k++)
            whole = LLVMBuildInsertValue(g->b.builder, whole, sums[k], k, "");
        sums[0] = whole;
        return;
    }
    if (r->bits) sums[0] = end_bits(g, r, sums);
    for (int k = 0; k < r->n && !r->bits; k++)
        sums[k] = cpu_emit_convert(&g->b, sums[k], r->sum[k], r->element[k]);
}

void gen_reducer_slots(struct cpu_gen *g, const struct cpu_reducer *r, LLVMValueRef *slots,
                       const LLVMValueRef *values) {
    for (int k = 0; k < r->nsums; k++) {
        slots[k] = gen_slot(g, r->sum[k]);
        LLVMBuildStore(g->b.builder, values[k], slots[k]);
    }
}

void gen_reducer_load(struct cpu_gen *g, const struct cpu_reducer *r, const LLVMValueRef *slots,
                      LLVMValueRef *values) {
    for (int k = 0; k < r->nsums; k++)
        values[k] = LLVMBuildLoad2(g->b.builder, cpu_value_type(&g->b, r->sum[k]), slots[k], "");
}

/* slots = f(slots, elements of the operands at index) */
void gen_reducer_fold(struct cpu_gen *g, const struct hlo_instr *instr, const struct cpu_reducer *r,
                      const LLVMValueRef *slots, const LLVMValueRef *index) {
    LLVMValueRef elements[GEN_MOST_LEAVES], sums[GEN_MOST_LEAVES], next[GEN_MOST_LEAVES];
    for (int k = 0; k < r->n; k++)
        elements[k] = gen_element(g, instr->operands[k], index);
    gen_reducer_load(g, r, slots, sums);
    gen_reducer_step(g, r, sums, elements, next);
    for (int k = 0; k < r->nsums; k++)
        LLVMBuildStore(g->b.builder, next[k], slots[k]);
}

/* ---- elements ---- */

/* Whether what instr is at an index depends on its place in dims first .. last alone, and not on
 * the index of each: loads are of one run of memory then. */
static bool joins_dims(const struct hlo_instr *instr, int first, int last, int *budget) {
    if (--*budget < 0) return false;
    if (instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT) return true;
    if (instr->opcode == OP_BROADCAST) {
        struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
        int known = 0, from = -1;
        for (int i = dims.count - 1; i >= 0; i--) {
            if (dims.v[i] < first || dims.v[i] > last) continue;
            known++;
            from = i;
        }
        return known == 0 || (known == last - first + 1 &&
                              joins_dims(instr->operands[0], from, from + last - first, budget));
    }
    if (!(opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE)) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (instr->operands[i]->shape->rank > last &&
            !joins_dims(instr->operands[i], first, last, budget))
            return false;
    return true;
}

bool gen_reduce_joins(const struct hlo_instr *reduce, int first, int last) {
    enum { BUDGET = 64 };
    int budget = BUDGET;
    for (int k = 0; k < reduce->noperands / 2; k++)
        if (!joins_dims(reduce->operands[k], first, last, &budget)) return false;
    return true;
}

/* The first of the reduced dims up to `last` that one loop can go over. */
static int first_of_run(const struct hlo_instr *reduce, int last) {
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    int first = last;
    while (first > 0 && int_list_has(dims, first - 1) && gen_reduce_joins(reduce, first - 1, last))
        first--;
    return first;
}

int64_t gen_reduce_run(const struct hlo_instr *reduce) {
    const struct shape *from = reduce->operands[0]->shape;
    int last = from->rank - 1;
    int64_t run = 1;
    if (last < 0 || !int_list_has(instr_ints(reduce, ATTR_DIMENSIONS), last)) return 1;
    for (int d = first_of_run(reduce, last); d <= last; d++)
        run *= from->dims[d];
    return run;
}

void gen_reduce(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                LLVMValueRef *out) {
    enum { LEAST_IN_PARTS = 64 };
    const struct shape *from = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct cpu_reducer reducer;
    LLVMValueRef slots[GEN_MOST_LEAVES], inner[SHAPE_MAX_RANK], i;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    int nloops = 0, kept = 0, ends[SHAPE_MAX_RANK] = {0};
    gen_reducer_init(instr, &reducer);
    if (gen_reduce_run(instr) >= LEAST_IN_PARTS) gen_reducer_in_parts(&reducer);
    gen_reducer_start(g, instr, &reducer, out);
    gen_reducer_slots(g, &reducer, slots, out);
    for (int d = from->rank - 1; d >= 0; d--) {
        if (!int_list_has(dims, d)) continue;
        int first = first_of_run(instr, d);
        ends[first] = d + 1;
        d = first;
    }
    for (int d = 0; d < from->rank; d++) {
        if (!int_list_has(dims, d)) inner[d] = index[kept++];
        if (!ends[d]) continue;
        int64_t size = 1;
        for (int k = d; k < ends[d]; k++)
            size *= from->dims[k];
        gen_nest_begin(g, 1, &size, &loops[nloops++], &i);
        gen_index_bound(g, i, size);
        for (int k = ends[d] - 1; k >= d; k--) {
            inner[k] = k > d ? gen_index_rem(g, i, from->dims[k]) : i;
            if (k > d) i = gen_index_div(g, i, from->dims[k]);
        }
    }
    gen_reducer_fold(g, instr, &reducer, slots, inner);
    gen_nest_end(g, nloops, loops);
    gen_reducer_load(g, &reducer, slots, out);
    gen_reducer_end(g, &reducer, out);
}

/* No element of any window falls outside of the base. */
static bool stays_inside(const struct window_dim *w, int64_t size) {
    if (w->lhs_dilate != 1 || w->pad_low > 0 || size < 1) return false;
    __int128 span = (__int128)w->rhs_dilate * (w->size - 1);
    __int128 last = ((__int128)size + w->pad_low + w->pad_high - span - 1) / w->stride;
    return last * w->stride + span - w->pad_low < size;
}

LLVMValueRef gen_window_place(struct cpu_gen *g, const struct window_dim *w, int64_t size,
                              LLVMValueRef o, LLVMValueRef k, LLVMValueRef *at) {
    struct cpu_builder *b = &g->b;
    LLVMValueRef yes = LLVMConstInt(LLVMInt1TypeInContext(b->context), 1, false);
    bool always = stays_inside(w, size);
    LLVMValueRef place = i_sub(
        b, i_add(b, i_mul(b, o, gen_i64(g, w->stride)), i_mul(b, k, gen_i64(g, w->rhs_dilate))),
        gen_i64(g, w->pad_low));
    if (always) return *at = place, yes;
    LLVMValueRef dilate = gen_i64(g, w->lhs_dilate), in = yes;
    *at = place;
    if (w->lhs_dilate != 1) {
        *at = LLVMBuildSDiv(b->builder, place, dilate, "");
        in = i_cmp(b, LLVMIntEQ, i_mul(b, *at, dilate), place);
    }
    in = i_and(b, in, i_cmp(b, LLVMIntSGE, place, gen_i64(g, 0)));
    return i_and(b, in, i_cmp(b, LLVMIntSLT, *at, gen_i64(g, size)));
}

void gen_reduce_window(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                       LLVMValueRef *out) {
    const struct shape *from = instr->operands[0]->shape;
    const struct window *window = instr_window(instr);
    struct cpu_reducer reducer;
    LLVMValueRef slots[GEN_MOST_LEAVES], inner[SHAPE_MAX_RANK];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 1, false);
    gen_reducer_init(instr, &reducer);
    gen_reducer_start(g, instr, &reducer, out);
    gen_reducer_slots(g, &reducer, slots, out);
    int nloops = window ? window->count : 0;
    for (int d = 0; d < nloops; d++) {
        const struct window_dim *w = &window->v[d];
        LLVMValueRef k;
        gen_nest_begin(g, 1, &w->size, &loops[d], &k);
        if (w->reversed) k = i_sub(&g->b, gen_i64(g, w->size - 1), k);
        inside =
            i_and(&g->b, inside, gen_window_place(g, w, from->dims[d], index[d], k, &inner[d]));
    }
    LLVMBasicBlockRef after = gen_guard_begin(g, inside);
    gen_reducer_fold(g, instr, &reducer, slots, inner);
    gen_guard_end(g, after);
    gen_nest_end(g, nloops, loops);
    gen_reducer_load(g, &reducer, slots, out);
    gen_reducer_end(g, &reducer, out);
}
