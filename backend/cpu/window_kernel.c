/* Kernels of reduce-window: running sums in linear time, and windows that leave the last dim alone
 * (pooling of channels-last images) as vectors along it. */
#include "backend/cpu/column_sums.h"
#include "backend/cpu/lowering.h"

#include "backend/cpu/emit.h"
#include "passes/util.h"

struct form {
    int scan;  /* the dimension that a running sum goes along, -1: none */
    bool back; /* from its end */
    int last;  /* the dimension of the columns, -1: the windows go along it */
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
    if (is_trivial(&window->v[last]) && last != form.scan) form.last = last;
    return form;
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

static void emit_windows(struct windows *w) {
    struct cpu_gen *g = w->g;
    const struct hlo_instr *instr = w->k->instr;
    const struct shape *from = instr->operands[0]->shape;
    const struct window *window = instr_window(instr);
    LLVMValueRef inner[SHAPE_MAX_RANK], values[GEN_MOST_LEAVES];
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(g->b.context), 1, false);
    for (int d = 0; d < from->rank; d++) {
        const struct window_dim *dim = &window->v[d];
        LLVMValueRef k;
        loops[d].body = NULL;
        if (d == w->form.last) continue;
        gen_nest_begin(g, 1, &dim->size, &loops[d], &k);
        if (dim->reversed) k = i_sub(&g->b, gen_i64(g, dim->size - 1), k);
        LLVMValueRef in = gen_window_place(g, dim, from->dims[d], w->index[d], k, &inner[d]);
        inside = i_and(&g->b, inside, in);
    }
    LLVMBasicBlockRef after = gen_guard_begin(g, inside);
    struct cpu_loop columns = gen_loop_begin(g, w->width);
    set_column(w, columns.i);
    inner[w->form.last] = w->index[w->form.last];
    column_sums_add(g, &w->sums, columns.i, 1, (LLVMValueRef *[]){inner}, values);
    gen_loop_end(g, &columns);
    gen_guard_end(g, after);
    gen_nest_end(g, from->rank, loops);
    columns = gen_loop_begin(g, w->width);
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
