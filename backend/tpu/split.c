/* Products whose result does not fit in VMEM become products of pieces, which are put together:
 * each piece then goes through the matrix units at once. */
#include "backend/tpu/split.h"

#include "backend/tpu/layout.h"
#include "backend/tpu/panel.h"
#include "passes/dataflow.h"
#include "passes/util.h"

/* Bytes of VMEM that kernels keep for spilled registers and guards. */
enum { RESERVED = 640 << 10 };

/* Pieces of each dimension of the result. */
struct pieces {
    const struct hlo_instr *product;
    int64_t count[SHAPE_MAX_RANK];
    int64_t most; /* bytes of a piece of the result; an operand's may have twice that */
};

/* Which operand and which of its dimensions a dimension of the result is; operand -1: both. */
static void source_of_dim(const struct hlo_instr *dot, int dim, int *operand, int *source) {
    struct int_list b = instr_ints(dot, ATTR_LHS_BATCH_DIMS);
    struct int_list contracted[2] = {instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS),
                                     instr_ints(dot, ATTR_RHS_CONTRACTING_DIMS)};
    struct int_list batch[2] = {b, instr_ints(dot, ATTR_RHS_BATCH_DIMS)};
    int at = b.count;
    *operand = -1;
    *source = dim;
    for (int o = 0; o < 2 && dim >= b.count; o++) {
        for (int d = 0; d < dot->operands[o]->shape->rank; d++) {
            if (int_list_has(contracted[o], d) || int_list_has(batch[o], d)) continue;
            *operand = o;
            *source = d;
            if (at++ == dim) return;
        }
    }
}

/* Pieces are whole tiles. */
static int64_t unit_of(const struct pieces *p, int d) {
    return d == p->product->shape->rank - 1 ? TPU_LANES : TPU_SUBLANES;
}

static int64_t piece_size(const struct pieces *p, int d) {
    const struct shape *shape = p->product->shape;
    int64_t size = (shape->dims[d] + p->count[d] - 1) / p->count[d];
    int64_t unit = unit_of(p, d);
    return p->count[d] == 1 ? shape->dims[d] : size < unit ? size : round_up(size, unit);
}

/* ---- dots ---- */

/* Bytes of a piece of operand `o` (0, 1) or of the result (2), as they lie in VMEM. */
static int64_t dot_bytes(const struct pieces *p, int o) {
    const struct hlo_instr *dot = p->product;
    int64_t batch = 1, free[2] = {1, 1}, summed = 1;
    struct int_list contracted = instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    for (int i = 0; i < contracted.count; i++)
        summed *= dot->operands[0]->shape->dims[contracted.v[i]];
    for (int d = 0; d < dot->shape->rank; d++) {
        int operand, source;
        source_of_dim(dot, d, &operand, &source);
        *(operand < 0 ? &batch : &free[operand]) *= piece_size(p, d);
    }
    int64_t rows = o == 1 ? summed : free[0], lanes = o == 0 ? summed : free[1];
    return batch * round_up(rows, TPU_SUBLANES) * round_up(lanes, TPU_LANES) * 4;
}

/* The dimension to halve, so that part `o` gets smaller; -1: none. Batches first. */
static int dot_dim(const struct pieces *p, int o) {
    int best = -1;
    int64_t most = 0;
    for (int d = 0; d < p->product->shape->rank; d++) {
        int operand, source;
        int64_t size = piece_size(p, d);
        source_of_dim(p->product, d, &operand, &source);
        if (operand < 0 && size > 1) return d;
        if (o < 2 && operand != o) continue;
        if (size < 2 * unit_of(p, d) || size <= most) continue;
        best = d;
        most = size;
    }
    return best;
}

static bool choose_dot_pieces(struct pieces *p) {
    for (int o = 2; o >= 0; o--) {
        while (dot_bytes(p, o) > (o < 2 ? 2 * p->most : p->most)) {
            int d = dot_dim(p, o);
            if (d < 0 && o == 2) return false;
            if (d < 0) break; /* an operand is read where it is */
            p->count[d] *= 2;
        }
    }
    return true;
}

/* ---- convolutions ---- */

static const struct dim_labels *labels_of(const struct hlo_instr *conv) {
    return instr_attr(conv, ATTR_DIM_LABELS)->dim_labels;
}

static int64_t convolution_bytes(const struct pieces *p) {
    int64_t rows = 1, features = piece_size(p, labels_of(p->product)->output_feature);
    for (int d = 0; d < p->product->shape->rank; d++)
        if (d != labels_of(p->product)->output_feature) rows *= piece_size(p, d);
    return round_up(rows, TPU_SUBLANES) * round_up(features, TPU_LANES) * 4;
}

/* The batch, then the spatial dimensions, then the features. */
static int convolution_dim(const struct pieces *p) {
    const struct dim_labels *labels = labels_of(p->product);
    const struct window *window = instr_window(p->product);
    bool grouped = instr_int(p->product, ATTR_BATCH_GROUP_COUNT, 1) > 1;
    if (!grouped && piece_size(p, labels->output_batch) > 1) return labels->output_batch;
    for (int s = 0; s < labels->spatial; s++)
        if (window->v[s].lhs_dilate == 1 && piece_size(p, labels->output_spatial[s]) > 1)
            return labels->output_spatial[s];
    grouped |= instr_int(p->product, ATTR_FEATURE_GROUP_COUNT, 1) > 1;
    int f = labels->output_feature;
    return !grouped && piece_size(p, f) >= 2 * TPU_LANES ? f : -1;
}

static bool choose_convolution_pieces(struct pieces *p) {
    while (convolution_bytes(p) > p->most) {
        int d = convolution_dim(p);
        if (d < 0) return false;
        p->count[d] *= 2;
    }
    return true;
}

/* ---- the pieces ---- */

/* Places [start, limit) of one dimension. */
static struct hlo_instr *cut(struct hlo_instr *before, struct hlo_instr *operand, int dim,
                             int64_t start, int64_t limit) {
    struct hlo_module *module = before->parent->module;
    const struct shape *whole = operand->shape;
    int64_t dims[SHAPE_MAX_RANK];
    struct slice_dim *slices = arena_array(module->arena, (size_t)whole->rank, sizeof *slices);
    for (int d = 0; d < whole->rank; d++) {
        slices[d] = (struct slice_dim){0, whole->dims[d], 1};
        if (d == dim) slices[d] = (struct slice_dim){start, limit, 1};
        dims[d] = slices[d].limit - slices[d].start;
    }
    const struct shape *shape = shape_array(module->shapes, whole->type, whole->rank, dims);
    struct hlo_instr *slice =
        instr_new(before->parent, before, OP_SLICE,
                  shape_with_layout(module->shapes, shape, whole->layout), NULL, 1, &operand);
    struct slice_list *list = arena_alloc(module->arena, sizeof *list);
    *list = (struct slice_list){whole->rank, slices};
    struct hlo_attr attr = {.key = ATTR_SLICE, .slices = list};
    instr_set_attr(slice, &attr);
    return slice;
}

/* Results [start, limit) of a spatial dimension: the input that they see, and less padding. */
static void cut_window(struct hlo_instr *conv, int s, int64_t start, int64_t limit) {
    struct arena *arena = conv->parent->module->arena;
    const struct window *old = instr_window(conv);
    struct hlo_instr *input = conv->operands[0];
    int dim = labels_of(conv)->input_spatial[s];
    int64_t size = input->shape->dims[dim];
    struct window_dim *dims = arena_array(arena, (size_t)old->count, sizeof *dims), *w = &dims[s];
    for (int i = 0; i < old->count; i++)
        dims[i] = old->v[i];
    int64_t first = start * w->stride - w->pad_low;
    int64_t end = (limit - 1) * w->stride - w->pad_low + (w->size - 1) * w->rhs_dilate + 1;
    int64_t from = first < 0 ? 0 : first > size ? size : first;
    int64_t to = end > size ? size : end < from ? from : end;
    w->pad_low = from - first;
    w->pad_high = end - to;
    instr_set_operand(conv, 0, cut(conv, input, dim, from, to));
    struct window *window = arena_alloc(arena, sizeof *window);
    *window = (struct window){old->count, dims};
    struct hlo_attr attr = {.key = ATTR_WINDOW, .window = window};
    instr_set_attr(conv, &attr);
}

static void cut_operands(struct hlo_instr *piece, int d, int64_t start, int64_t limit) {
    if (piece->opcode == OP_DOT) {
        int operand, source;
        source_of_dim(piece, d, &operand, &source);
        for (int o = 0; o < 2; o++) {
            int64_t dim = source;
            if (operand < 0)
                dim = instr_ints(piece, o ? ATTR_RHS_BATCH_DIMS : ATTR_LHS_BATCH_DIMS).v[d];
            else if (operand != o)
                continue;
            instr_set_operand(piece, o, cut(piece, piece->operands[o], (int)dim, start, limit));
        }
        return;
    }
    const struct dim_labels *labels = labels_of(piece);
    if (d == labels->output_batch)
        instr_set_operand(piece, 0,
                          cut(piece, piece->operands[0], labels->input_batch, start, limit));
    else if (d == labels->output_feature)
        instr_set_operand(piece, 1,
                          cut(piece, piece->operands[1], labels->kernel_output, start, limit));
    for (int s = 0; s < labels->spatial; s++)
        if (d == labels->output_spatial[s]) cut_window(piece, s, start, limit);
}

/* The product in pieces of dimension d and those after it. */
static struct hlo_instr *divide(const struct pieces *p, struct hlo_instr *product, int d) {
    struct hlo_module *module = product->parent->module;
    const struct shape *whole = product->shape;
    while (d < whole->rank && p->count[d] == 1)
        d++;
    if (d == whole->rank) return product;
    int64_t size = piece_size(p, d), dims[SHAPE_MAX_RANK], dim = d;
    int n = (int)((whole->dims[d] + size - 1) / size);
    struct hlo_instr **parts = arena_array(module->arena, (size_t)n, sizeof *parts);
    for (int i = 0; i < n; i++) {
        int64_t start = i * size, limit = start + size;
        if (limit > whole->dims[d]) limit = whole->dims[d];
        for (int j = 0; j < whole->rank; j++)
            dims[j] = j == d ? limit - start : whole->dims[j];
        const struct shape *shape = shape_array(module->shapes, whole->type, whole->rank, dims);
        struct hlo_instr *piece =
            instr_clone(product, product->parent, product,
                        shape_with_layout(module->shapes, shape, whole->layout), product->operands);
        piece->loc = product->loc;
        cut_operands(piece, d, start, limit);
        parts[i] = divide(p, piece, d + 1);
    }
    struct hlo_instr *all =
        instr_new(product->parent, product, OP_CONCATENATE, whole, NULL, n, parts);
    instr_set_ints(all, ATTR_DIMENSIONS, 1, &dim);
    all->metadata = product->metadata;
    all->loc = product->loc;
    instr_replace_uses(product, all);
    instr_remove(product);
    return all;
}

static bool in_pieces(struct hlo_instr *instr, const struct tpu_compile_options *options) {
    struct product product;
    struct panel_plan panels;
    struct pieces p = {.product = instr, .most = (options->chip.vmem_bytes - RESERVED) / 8};
    if (instr->opcode != OP_DOT && instr->opcode != OP_CONVOLUTION) return false;
    if (!product_find(&product, instr, options) || product_is_matmul(&product, &options->chip) ||
        panel_find(&panels, instr, &product))
        return false;
    for (int d = 0; d < SHAPE_MAX_RANK; d++)
        p.count[d] = 1;
    bool dot = instr->opcode == OP_DOT;
    int64_t bytes = dot ? dot_bytes(&p, 2) : convolution_bytes(&p);
    if (bytes <= (options->chip.vmem_bytes - RESERVED) / 2) return false;
    if (!(dot ? choose_dot_pieces(&p) : choose_convolution_pieces(&p))) return false;
    divide(&p, instr, 0);
    return true;
}

bool tpu_split_products(struct hlo_module *module, const struct tpu_compile_options *options) {
    bool changed = false;
    mark_running_computations(module);
    FOR_EACH_COMPUTATION(computation, module) {
        if (!computation->mark) continue;
        FOR_EACH_INSTR(instr, computation) changed |= in_pieces(instr, options);
    }
    return changed;
}
