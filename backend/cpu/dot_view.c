/* How the operands of a product lie in memory, seen through what is fused in front of it. */
#include <string.h>

#include "backend/cpu/dot.h"
#include "passes/fusion_shape.h"

const struct hlo_instr *product_hero(const struct hlo_instr *instr) {
    if (instr->opcode != OP_FUSION) return instr_is_product(instr) ? instr : NULL;
    const struct hlo_computation *fused = instr->called[0];
    if (fusion_shape(fused) != FUSION_SHAPE_PRODUCT) return NULL;
    for (const struct hlo_instr *i = fused->first; i; i = i->next)
        if (instr_is_product(i)) return i;
    return NULL;
}

/* ---- views ---- */

static bool add_part(struct product_view *view, int64_t size, int64_t stride) {
    if (view->nparts == PRODUCT_VIEW_PARTS) return false;
    view->parts[view->nparts++] = (struct product_part){size, stride};
    return true;
}

static bool view_array(const struct shape *shape, struct product_view *view) {
    int64_t strides[SHAPE_MAX_RANK];
    shape_row_major(shape, strides);
    view->nparts = 0;
    for (int d = 0; d < shape->rank; d++) {
        view->first[d] = view->nparts;
        if (!add_part(view, shape->dims[d], strides[d])) return false;
    }
    view->first[shape->rank] = view->nparts;
    return true;
}

/* Neighbouring parts as one, where the outer one goes on where the inner one ends. */
static void merge_parts(struct product_view *view) {
    int n = 0;
    for (int i = 0; i < view->nparts; i++) {
        struct product_part part = view->parts[i];
        if (part.size == 1) continue;
        if (n > 0 && view->parts[n - 1].stride == part.stride * part.size) {
            part.size *= view->parts[n - 1].size;
            n--;
        }
        view->parts[n++] = part;
    }
    view->nparts = n;
}

/* The parts of the operand in order, cut anew where the result's dimensions begin. */
static bool view_reshape(const struct shape *to, struct product_view *view) {
    struct product_view old = *view;
    merge_parts(&old);
    int at = 0;
    int64_t left = 1; /* of part at - 1: outer part still to be handed out */
    struct product_part part = {1, 0};
    view->nparts = 0;
    for (int d = 0; d < to->rank; d++) {
        view->first[d] = view->nparts;
        int64_t need = to->dims[d];
        while (need > 1) {
            if (left == 1) {
                if (at == old.nparts) return false;
                part = old.parts[at++];
                left = part.size;
                continue;
            }
            /* The outer `take` of what is left of the part. */
            int64_t take = need < left ? need : left;
            if (need % take != 0 || left % take != 0) return false;
            left /= take;
            if (!add_part(view, take, part.stride * left)) return false;
            need /= take;
        }
    }
    view->first[to->rank] = view->nparts;
    return left == 1;
}

static bool view_permute(const struct hlo_instr *instr, struct product_view *view) {
    struct product_view old = *view;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int rank = instr->shape->rank;
    view->nparts = 0;
    for (int d = 0; d < rank; d++) {
        int from = -1;
        view->first[d] = view->nparts;
        if (instr->opcode == OP_TRANSPOSE) from = (int)dims.v[d];
        for (int i = 0; i < dims.count && instr->opcode == OP_BROADCAST; i++)
            if (dims.v[i] == d) from = i;
        if (from < 0 && !add_part(view, instr->shape->dims[d], 0)) return false;
        for (int i = from < 0 ? 0 : old.first[from]; from >= 0 && i < old.first[from + 1]; i++)
            if (!add_part(view, old.parts[i].size, old.parts[i].stride)) return false;
    }
    view->first[rank] = view->nparts;
    return true;
}

static bool view_slice(const struct hlo_instr *instr, struct product_view *view) {
    const struct slice_list *list = instr_attr(instr, ATTR_SLICE)->slices;
    for (int d = 0; d < instr->shape->rank; d++) {
        struct product_part *part = NULL;
        int parts = 0;
        for (int i = view->first[d]; i < view->first[d + 1]; i++) {
            if (view->parts[i].size == 1) continue;
            part = &view->parts[i];
            parts++;
        }
        if (parts == 0 || instr->shape->dims[d] == instr->operands[0]->shape->dims[d]) continue;
        if (parts == 1) {
            view->offset += list->v[d].start * part->stride;
            part->size = instr->shape->dims[d];
            part->stride *= list->v[d].stride;
        } else if (list->v[d].start == 0 && list->v[d].stride == 1 && view->cut_dim < 0) {
            view->cut_dim = d;
            view->cut = instr->shape->dims[d];
        } else {
            return false;
        }
    }
    return true;
}

static bool view_of(const struct hlo_instr *instr, struct product_view *view) {
    if (instr->opcode == OP_PARAMETER) {
        view->base = instr;
        return view_array(instr->shape, view);
    }
    if (instr->noperands != 1 || !view_of(instr->operands[0], view)) return false;
    if (instr->opcode == OP_COPY || instr->opcode == OP_CONVERT) return true;
    if (view->cut_dim >= 0) return false;
    switch (instr->opcode) {
    case OP_SLICE: return view_slice(instr, view);
    case OP_BITCAST:
        return instr->operands[0]->shape->type == instr->shape->type &&
               view_reshape(instr->shape, view);
    case OP_RESHAPE: return view_reshape(instr->shape, view);
    case OP_TRANSPOSE:
    case OP_BROADCAST: return view_permute(instr, view);
    default: return false;
    }
}

bool product_view_of(const struct hlo_instr *instr, const struct hlo_instr *hero, int operand,
                     struct product_view *view) {
    const struct hlo_instr *from = hero->operands[operand];
    memset(view, 0, sizeof *view);
    view->cut_dim = -1;
    if (from->shape->count == 0) return false;
    if (instr != hero) return view_of(from, view);
    view->base = from;
    return view_array(from->shape, view);
}

bool product_view_strides(const struct product_view *view, int rank, int64_t *strides) {
    for (int d = 0; d < rank; d++) {
        strides[d] = 0;
        int64_t size = 1;
        for (int i = view->first[d + 1] - 1; i >= view->first[d]; i--) {
            if (view->parts[i].size == 1) continue;
            if (size > 1 && view->parts[i].stride != strides[d] * size) return false;
            if (size == 1) strides[d] = view->parts[i].stride;
            size *= view->parts[i].size;
        }
    }
    return true;
}

/* Every value of `from` is one of `to`. */
static bool widens(enum element_type from, enum element_type to) {
    if (from == to) return true;
    const struct element_type_info *f = element_type_info(from), *t = element_type_info(to);
    if (element_type_is_float(from) && element_type_is_float(to))
        return (from == TYPE_BF16 || from == TYPE_F16 || from == TYPE_F32) &&
               f->exponent_bits <= t->exponent_bits && f->mantissa_bits <= t->mantissa_bits;
    if (!element_type_is_integral(from) || !element_type_is_integral(to)) return false;
    return element_type_is_signed(from) == element_type_is_signed(to) && f->bits <= t->bits;
}

bool product_reads_alike(const struct product_view *view, const struct hlo_instr *operand) {
    const struct hlo_instr *i = operand;
    for (; i != view->base; i = i->operands[0])
        if (i->opcode == OP_CONVERT && !widens(i->operands[0]->shape->type, i->shape->type))
            return false;
    return true;
}

/* ---- dimensions of a product ---- */

bool product_add_dim(struct product_dims *dims, struct product_dim dim) {
    if (dim.size == 1) return true;
    if (dims->count == PRODUCT_MAX_DIMS) return false;
    dims->v[dims->count++] = dim;
    return true;
}

/* The parts of a dimension from the innermost on. */
struct part_walk {
    const struct product_view *view;
    int at, first;
    int64_t size, stride; /* what is left of the current part */
};

static struct part_walk walk_begin(const struct product_view *view, int d) {
    struct part_walk walk = {view, view ? view->first[d + 1] : 0, view ? view->first[d] : 0, 1, 0};
    return walk;
}

static void walk_load(struct part_walk *walk) {
    while (walk->view && walk->size == 1 && walk->at > walk->first) {
        struct product_part part = walk->view->parts[--walk->at];
        walk->size = part.size;
        walk->stride = part.stride;
    }
}

static bool walk_take(struct part_walk *walk, int64_t size) {
    if (!walk->view) return true;
    if (walk->size % size != 0) return false;
    walk->size /= size;
    walk->stride *= size;
    return true;
}

bool product_add_dims(struct product_dims *dims, const struct product_view *a, int a_dim,
                      const struct product_view *b, int b_dim, int64_t c) {
    struct product_dim found[PRODUCT_MAX_DIMS];
    struct part_walk wa = walk_begin(a, a_dim), wb = walk_begin(b, b_dim);
    int n = 0;
    for (;;) {
        walk_load(&wa);
        walk_load(&wb);
        int64_t size = !a ? wb.size : !b || wa.size < wb.size ? wa.size : wb.size;
        if (size == 1) break;
        if (n == PRODUCT_MAX_DIMS) return false;
        found[n++] = (struct product_dim){size, a ? wa.stride : 0, b ? wb.stride : 0, c};
        c *= size;
        if (!walk_take(&wa, size) || !walk_take(&wb, size)) return false;
    }
    while (n > 0)
        if (!product_add_dim(dims, found[--n])) return false;
    return true;
}
