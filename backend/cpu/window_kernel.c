/* Kernels of reduce-window: running sums in linear time, and all other windows as vectors along the
 * last dim of the result: one element of the windows after the other, for a block of them. */
#include "backend/cpu/column_sums.h"
#include "backend/cpu/lowering.h"

#include "backend/cpu/emit.h"
#include "passes/util.h"

struct form {
    int scan;    /* the dimension that a running sum goes along, -1: none */
    bool back;   /* from its end */
    int last;    /* the dimension of the columns, -1: a running sum goes along it, or none */
    bool across; /* the windows go along the columns, too */
};

static bool is_trivial(const struct window_dim *w) {
    return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
           w->lhs_dilate == 1;
}

/* A window that reaches all elements before its own, or all after. */
static bool is_running(const struct window_dim *w, int64_t size, bool *back) {
    if (w->stride != 1 || w->lhs_dilate != 1 || w->rhs_dilate != 1 || w->reversed) return false;
    if (w->size < size || size < 2) return false;
    *back = w->pad_low == 0;
    return (w->pad_low == w->size - 1 && w->pad_high == 0) ||
           (w->pad_low == 0 && w->pad_high == w->size - 1);
}

/* Whether the order in which elements are combined does not count. */
static bool is_associative(const struct hlo_instr *instr) {
    if (instr->noperands != 2) return false;
    switch (reducer_operation(instr->called[0])) {
    case OP_ADD:
    case OP_MULTIPLY:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
    case OP_XOR: return true;
    default: return false;
    }
}

static struct form form_of(const struct hlo_instr *instr) {
    struct form form = {.scan = -1, .last = -1};
    const struct shape *from = instr->operands[0]->shape;
    const struct window *window = instr_window(instr);
    int wide = 0;
    if (!window || from->rank == 0) return form;
    for (int d = 0; d < from->rank; d++) {
        const struct window_dim *w = &window->v[d];
        bool back;
        if (is_trivial(w)) continue;
        wide++;
        if (is_running(w, from->dims[d], &back) && (!back || is_associative(instr))) {
            form.scan = d;
            form.back = back;
        }
    }
    if (wide != 1) form.scan = -1;
    int last = from->rank - 1;
    while (last > 0 && from->dims[last] == 1 && is_trivial(&window->v[last]))
        last--;
    if (last == form.scan) return form;
    form.across = !is_trivial(&window->v[last]);
    if (!form.across || window->v[last].lhs_dilate == 1) form.last = last;
    return form;
}

bool window_kernel_scans(const struct hlo_instr *instr) {
    return form_of(instr).scan >= 0;
}

bool window_kernel_match(const struct hlo_instr *instr) {
    const char *why;
    if (instr->opcode != OP_REDUCE_WINDOW || !gen_is_elemental(instr, &why)) return false;
    struct form form = form_of(instr);
    return instr->operands[0]->shape->count > 0 && (form.scan >= 0 || form.last >= 0);
}

static const struct shape *result_shape(const struct hlo_instr *instr) {
    return shape_leaf(instr->shape, 0);
}

static int64_t columns_of(const struct hlo_instr *instr, struct form form) {
    return form.last >= 0 ? result_shape(instr)->dims[form.last] : 1;
}

/* Everything but the scanned dimension and the columns, times blocks of columns. */
int64_t window_kernel_units(const struct hlo_instr *instr) {
    struct form form = form_of(instr);
    int64_t units = column_blocks(columns_of(instr, form));
    for (int d = 0; d < result_shape(instr)->rank; d++)
        if (d != form.last && d != form.scan) units *= result_shape(instr)->dims[d];
    return units;
}

struct windows {
    struct cpu_gen *g;
    struct cpu_kernel *k;
    struct form form;
    struct column_sums sums;
    LLVMValueRef index[SHAPE_MAX_RANK];
    LLVMValueRef first, width; /* of the block of columns */
};

static void set_column(struct windows *w, LLVMValueRef column) {
    if (w->form.last < 0) return;
    w->index[w->form.last] = gen_index_add(w->g, w->first, column);
    gen_index_bound(w->g, w->index[w->form.last], columns_of(w->k->instr, w->form));
}

static void store_results(struct windows *w, LLVMValueRef *values) {
    for (int i = 0; i < w->k->nout; i++)
        gen_store(w->g, shape_leaf(w->k->instr->shape, i), w->k->out[i], w->index, values[i]);
}

static void emit_scan(struct windows *w) {
    struct cpu_gen *g = w->g;
    LLVMValueRef values[GEN_MOST_LEAVES];
    int64_t size = result_shape(w->k->instr)->dims[w->form.scan];
    struct cpu_loop along = gen_loop_begin(g, gen_i64(g, size));
    LLVMValueRef at = along.i;
    if (w->form.back) at = i_sub(&g->b, gen_i64(g, size - 1), at);
    gen_index_bound(g, at, size);
    w->index[w->form.scan] = at;
    struct cpu_loop columns = gen_loop_begin(g, w->width);
    set_column(w, columns.i);
    column_sums_add(g, &w->sums, columns.i, 1, (LLVMValueRef *[]){w->index}, values);
    gen_reducer_end(g, &w->sums.reducer, values);
    store_results(w, values);
    gen_loop_end(g, &columns);
    gen_loop_end(g, &along);
}

/* The first window at which `at` + window * stride is not negative. */
static LLVMValueRef first_window(struct cpu_gen *g, const struct window_dim *w, LLVMValueRef at) {
    struct cpu_builder *b = &g->b;
    if (w->stride == 1) return i_sub(b, gen_i64(g, 0), at);
    /* -at / stride, rounded up, on numbers that are not negative: at is less than the reach. */
    int64_t reach = w->size * w->rhs_dilate / w->stride + 2;
    LLVMValueRef x = i_sub(b, gen_i64(g, (reach + 1) * w->stride - 1), at);
    return i_sub(b, LLVMBuildUDiv(b->builder, x, gen_i64(g, w->stride), ""), gen_i64(g, reach));
}

static LLVMValueRef limited(struct cpu_gen *g, LLVMValueRef x, LLVMValueRef low,
                            LLVMValueRef high) {
    x = emit_intrinsic(&g->b, "llvm.smax", 2, (LLVMValueRef[]){x, low});
    return emit_intrinsic(&g->b, "llvm.smin", 2, (LLVMValueRef[]){x, high});
}

/* Adds element k (along the columns) of the windows of a block to their sums. */
static void add_columns(struct windows *w, LLVMValueRef *inner, LLVMValueRef k) {
    struct cpu_gen *g = w->g;
    struct cpu_builder *b = &g->b;
    LLVMValueRef values[GEN_MOST_LEAVES], from = gen_i64(g, 0), to = w->width, place = NULL;
    const struct hlo_instr *instr = w->k->instr;
    const struct window_dim *dim = &instr_window(instr)->v[w->form.last];
    int64_t size = instr->operands[0]->shape->dims[w->form.last];
    if (w->form.across) {
        /* Where element k of window 0 is, in the base; then of the block's first one. */
        place = i_sub(b, i_mul(b, k, gen_i64(g, dim->rhs_dilate)), gen_i64(g, dim->pad_low));
        from = i_sub(b, first_window(g, dim, place), w->first);
        to = first_window(g, dim, i_sub(b, place, gen_i64(g, size)));
        to = limited(g, i_sub(b, to, w->first), gen_i64(g, 0), w->width);
        from = limited(g, from, gen_i64(g, 0), to);
        place = i_add(b, place, i_mul(b, w->first, gen_i64(g, dim->stride)));
    }
    struct cpu_loop columns = gen_range_begin(g, from, to);
    set_column(w, columns.i);
    inner[w->form.last] = w->index[w->form.last];
    if (w->form.across) {
        inner[w->form.last] = i_add(b, place, i_mul(b, columns.i, gen_i64(g, dim->stride)));
        gen_index_bound(g, inner[w->form.last], size);
    }
    column_sums_add(g, &w->sums, columns.i, 1, (LLVMValueRef *[]){inner}, values);
    gen_loop_end(g, &columns);
}

static void emit_windows(struct windows *w) {
    struct cpu_gen *g = w->g;
    const struct hlo_instr *instr = w->k->instr;
    const struct shape *from = instr->operands[0]->shape;
    const struct window *window = instr_window(instr);
    LLVMValueRef inner[SHAPE_MAX_RANK], values[GEN_MOST_LEAVES], along = gen_i64(g, 0);
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 1, false);
    for (int d = 0; d < from->rank; d++) {
        const struct window_dim *dim = &window->v[d];
        LLVMValueRef k;
        gen_nest_begin(g, 1, &dim->size, &loops[d], &k);
        if (dim->reversed) k = i_sub(&g->b, gen_i64(g, dim->size - 1), k);
        if (d == w->form.last) {
            along = k;
            continue;
        }
        LLVMValueRef in = gen_window_place(g, dim, from->dims[d], w->index[d], k, &inner[d]);
        inside = i_and(&g->b, inside, in);
    }
    LLVMBasicBlockRef after = gen_guard_begin(g, inside);
    add_columns(w, inner, along);
    gen_guard_end(g, after);
    gen_nest_end(g, from->rank, loops);
    struct cpu_loop columns = gen_loop_begin(g, w->width);
    set_column(w, columns.i);
    column_sums_end(g, &w->sums, columns.i, values);
    store_results(w, values);
    gen_loop_end(g, &columns);
}

void window_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct windows w = {.g = g, .k = k, .form = form_of(k->instr)};
    const struct shape *to = result_shape(k->instr);
    int64_t columns = columns_of(k->instr, w.form), blocks = column_blocks(columns);
    gen_bind_operands(g, k);
    column_sums_init(g, &w.sums, k->instr);
    struct cpu_loop units = gen_range_begin(g, k->begin, k->end);
    gen_index_bound(g, units.i, window_kernel_units(k->instr));
    w.first = gen_index_mul(g, gen_index_rem(g, units.i, blocks), COLUMN_BLOCK);
    w.width = column_width(g, columns, w.first);
    LLVMValueRef rest = gen_index_div(g, units.i, blocks);
    for (int d = to->rank - 1; d >= 0; d--) {
        w.index[d] = gen_i64(g, 0);
        if (d == w.form.last || d == w.form.scan) continue;
        w.index[d] = gen_index_rem(g, rest, to->dims[d]);
        rest = gen_index_div(g, rest, to->dims[d]);
    }
    column_sums_start(g, &w.sums, w.width);
    if (w.form.scan >= 0)
        emit_scan(&w);
    else
        emit_windows(&w);
    gen_loop_end(g, &units);
}
