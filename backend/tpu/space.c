#include "backend/tpu/space.h"

#include <string.h>

#include "backend/tpu/fold.h"

enum { MOST_MEMBERS = 512 };

struct finder {
    struct space *space;
    struct arena *arena;
    int member_capacity, array_capacity;
    const struct hlo_computation *body; /* NULL: the instruction alone */
};

static struct space_member *member_of(struct finder *f, const struct hlo_instr *instr) {
    for (int i = f->space->nmembers - 1; i >= 0; i--)
        if (f->space->member[i].instr == instr) return &f->space->member[i];
    return NULL;
}

static bool is_elementwise(const struct hlo_instr *instr) {
    return (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || instr->opcode == OP_COPY;
}

/* Pieces of an array, or several put together: each place keeps its dimension. */
static bool moves_along(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_SLICE:
    case OP_PAD:
    case OP_REVERSE:
    case OP_CONCATENATE: return true;
    default: return false;
    }
}

/* ---- arrays ---- */

static bool covers(const struct space *space, const struct space_array *array) {
    bool has[SPACE_MOST_RANK] = {false};
    for (int d = 0; d < array->shape->rank; d++)
        if (array->dim[d] >= 0) has[array->dim[d]] = true;
    for (int d = 0; d < space->shape->rank; d++)
        if (space->shape->dims[d] > 1 && !has[d]) return false;
    return true;
}

static bool add_array(struct finder *f, int operand, int leaf, const struct shape *shape,
                      const int *dim) {
    struct space *space = f->space;
    struct space_array array = {.operand = operand, .leaf = leaf, .shape = shape};
    if (shape->rank == 0) return true;
    if (shape->rank > SPACE_MOST_RANK) return false;
    for (int d = 0; d < shape->rank; d++)
        array.dim[d] = dim[d];
    array.full = covers(space, &array);
    array.exact = array.full && shape_same_dims(shape, space->shape);
    for (int d = 0; d < shape->rank; d++)
        array.exact &= dim[d] == d;
    for (int i = 0; i < space->count; i++) {
        const struct space_array *other = &space->array[i];
        if (other->operand == operand && other->leaf == leaf &&
            !memcmp(other->dim, array.dim, sizeof *dim * (size_t)shape->rank))
            return true;
    }
    if (space->count == SPACE_MOST_ARRAYS) return false;
    space->array = arena_grow(f->arena, space->array, &f->array_capacity, space->count + 1,
                              sizeof *space->array);
    space->array[space->count++] = array;
    return true;
}

/* ---- dimensions ---- */

/* The instruction's dimensions are these, or it is asked for in two ways. */
static bool ask(struct finder *f, const struct hlo_instr *instr, const int *dim) {
    struct space_member *member = member_of(f, instr);
    const struct shape *shape = shape_leaf(instr->shape, 0);
    int rank = shape_is_array(shape) ? shape->rank : 0;
    if (!f->body) {
        for (int i = 0; i < f->space->instr->noperands; i++)
            if (f->space->instr->operands[i] == instr && !add_array(f, i, 0, instr->shape, dim))
                return false;
        return true;
    }
    if (instr->opcode == OP_PARAMETER && shape_is_array(instr->shape))
        return add_array(f, (int)instr->parameter, 0, instr->shape, dim);
    if (!member) return false;
    if (member->asked) return !rank || !memcmp(member->dim, dim, sizeof *dim * (size_t)rank);
    member->asked = true;
    memcpy(member->dim, dim, sizeof *dim * (size_t)rank);
    return true;
}

static bool ask_reduced(struct finder *f, const struct hlo_instr *reduce, const int *dim) {
    struct int_list folded = instr_ints(reduce, ATTR_DIMENSIONS);
    int own[SPACE_MOST_RANK], all[SPACE_MOST_RANK], n = 0;
    const struct shape *from = reduce->operands[0]->shape;
    for (int d = 0; d < from->rank; d++) {
        all[d] = d;
        if (!int_list_has(folded, d)) own[n++] = d;
        if (int_list_has(folded, d) != f->space->folded[d]) return false;
    }
    if (!shape_same_dims(from, f->space->shape) || memcmp(own, dim, sizeof *own * (size_t)n))
        return false;
    for (int i = 0; i < reduce->noperands; i++)
        if (!ask(f, reduce->operands[i], i < reduce->noperands / 2 ? all : own)) return false;
    return true;
}

static bool ask_reshaped(struct finder *f, const struct hlo_instr *reshape, const int *dim) {
    const struct shape *from = reshape->operands[0]->shape, *to = reshape->shape;
    int own[SPACE_MOST_RANK], t = 0;
    for (int d = 0; d < from->rank; d++) {
        own[d] = -1;
        if (from->dims[d] == 1) continue;
        while (t < to->rank && to->dims[t] == 1)
            t++;
        if (t == to->rank || to->dims[t] != from->dims[d]) return false;
        own[d] = dim[t++];
    }
    return ask(f, reshape->operands[0], own);
}

static bool ask_operands(struct finder *f, const struct hlo_instr *instr, const int *dim) {
    int own[SPACE_MOST_RANK];
    switch (instr->opcode) {
    case OP_CONSTANT: return instr->shape->count == 1;
    case OP_IOTA: return true;
    case OP_REDUCE: return ask_reduced(f, instr, dim);
    case OP_GET_TUPLE_ELEMENT: return ask(f, instr->operands[0], dim);
    case OP_RESHAPE: return ask_reshaped(f, instr, dim);
    case OP_BROADCAST: {
        struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
        for (int d = 0; d < dims.count; d++)
            own[d] = dim[dims.v[d]];
        return ask(f, instr->operands[0], own);
    }
    case OP_TRANSPOSE: {
        struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
        for (int d = 0; d < dims.count; d++)
            own[dims.v[d]] = dim[d];
        return ask(f, instr->operands[0], own);
    }
    default: break;
    }
    bool elementwise = is_elementwise(instr);
    if (!elementwise && !moves_along(instr)) return false;
    f->space->operations += elementwise && instr->opcode != OP_COPY;
    for (int i = 0; i < instr->noperands; i++) {
        const struct shape *shape = instr->operands[i]->shape;
        if (elementwise && shape->rank && !shape_same_dims(shape, instr->shape)) return false;
        if (!ask(f, instr->operands[i], dim)) return false;
    }
    return true;
}

/* ---- the kernel ---- */

static void add_member(struct finder *f, struct hlo_instr *instr) {
    struct space *s = f->space;
    s->member =
        arena_grow(f->arena, s->member, &f->member_capacity, s->nmembers + 1, sizeof *s->member);
    s->member[s->nmembers++] = (struct space_member){.instr = instr};
}

static bool collect(struct finder *f) {
    if (!f->body) {
        add_member(f, f->space->instr);
        return true;
    }
    FOR_EACH_INSTR(i, f->body) {
        if (f->space->nmembers == MOST_MEMBERS) return false;
        add_member(f, i);
    }
    return true;
}

/* The space is what reduces read, else the first result's. What depends on a reduce and is reduced
 * again, or has the space's size, needs all of a row at once. */
static bool find_shape(struct finder *f) {
    struct space *space = f->space;
    space->shape = shape_leaf(space->instr->shape, 0);
    for (int m = 0; m < f->space->nmembers; m++) {
        struct space_member *member = &f->space->member[m];
        const struct hlo_instr *instr = member->instr;
        for (int i = 0; i < instr->noperands; i++) {
            const struct space_member *operand = member_of(f, instr->operands[i]);
            if (operand && (operand->reduced || operand->instr->opcode == OP_REDUCE))
                member->reduced = true;
        }
        if (instr->opcode != OP_REDUCE) continue;
        struct fold fold;
        if (!fold_find(&fold, instr)) return false;
        space->needs_unit |= member->reduced;
        if (space->reduces) continue;
        struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
        space->reduces = true;
        space->shape = instr->operands[0]->shape;
        for (int i = 0; i < dims.count; i++)
            space->folded[dims.v[i]] = true;
    }
    return shape_is_array(space->shape) && space->shape->rank > 0;
}

/* Results are the space's, or the reduces'. */
static bool ask_result(struct finder *f, const struct hlo_instr *instr, int leaf) {
    struct space *space = f->space;
    const struct shape *shape = shape_leaf(instr->shape, 0);
    int dim[SPACE_MOST_RANK], n = 0;
    bool exact = shape_same_dims(shape, space->shape);
    for (int d = 0; d < space->shape->rank; d++)
        if (exact || !space->folded[d]) dim[n++] = d;
    if (shape->rank != n) return false;
    for (int d = 0; d < n; d++)
        if (shape->dims[d] != space->shape->dims[dim[d]]) return false;
    space->needs_unit |= exact && space->reduces;
    for (int l = 0; l < instr->shape->nleaves; l++)
        if (!add_array(f, -1, leaf + l, shape_leaf(instr->shape, l), dim)) return false;
    return ask(f, instr, dim);
}

static bool ask_results(struct finder *f) {
    const struct hlo_instr *instr = f->space->instr, *root = f->body ? f->body->root : instr;
    if (!f->body) {
        int dim[SPACE_MOST_RANK], n = 0;
        for (int d = 0; d < f->space->shape->rank; d++)
            if (!f->space->folded[d]) dim[n++] = d;
        for (int l = 0; l < instr->shape->nleaves; l++) {
            const struct shape *shape = shape_leaf(instr->shape, l);
            if (shape->rank != n || !add_array(f, -1, l, shape, dim)) return false;
        }
        return ask_operands(f, instr, dim);
    }
    if (root->opcode != OP_TUPLE) return ask_result(f, root, 0);
    for (int i = 0, leaf = 0; i < root->noperands; i++) {
        if (!ask_result(f, root->operands[i], leaf)) return false;
        leaf += root->operands[i]->shape->nleaves;
    }
    return true;
}

static void find_kind(struct finder *f) {
    const struct hlo_instr *instr = f->space->instr;
    if (f->body && f->body->nparameters == 1) instr = f->body->root;
    if (f->body && instr->noperands == 1 && instr->operands[0]->opcode != OP_PARAMETER) return;
    if (instr->opcode == OP_COPY) f->space->kind = SPACE_COPIED;
    if (instr->opcode == OP_TRANSPOSE) f->space->kind = SPACE_MOVED;
    if (instr->opcode == OP_RESHAPE) f->space->kind = SPACE_RESHAPED;
}

static bool has_arrays(const struct hlo_instr *instr) {
    if (instr->opcode == OP_FUSION) {
        FOR_EACH_INSTR(inner, instr->called[0])
        for (int l = 0; l < inner->shape->nleaves; l++)
            if (shape_leaf(inner->shape, l)->rank > SPACE_MOST_RANK) return false;
    }
    for (int i = 0; i < instr->noperands; i++)
        if (!shape_is_array(instr->operands[i]->shape) ||
            instr->operands[i]->shape->rank > SPACE_MOST_RANK)
            return false;
    for (int l = 0; l < instr->shape->nleaves; l++)
        if (!shape_is_array(shape_leaf(instr->shape, l)) ||
            shape_leaf(instr->shape, l)->rank > SPACE_MOST_RANK)
            return false;
    return instr->shape->nleaves > 0;
}

static bool find_divided(struct finder *f);

static bool find_all(struct finder *f) {
    struct space *space = f->space;
    if (!collect(f) || !find_shape(f) || !ask_results(f)) return false;
    for (int m = space->nmembers - 1; m >= 0 && f->body; m--) {
        const struct hlo_instr *inner = space->member[m].instr;
        if (inner->opcode == OP_PARAMETER || inner->opcode == OP_TUPLE) continue;
        if (space->member[m].asked && !ask_operands(f, inner, space->member[m].dim)) return false;
    }
    find_kind(f);
    return true;
}

bool space_find(struct space *space, struct arena *arena, struct hlo_instr *instr) {
    struct finder f = {.space = space, .arena = arena};
    *space = (struct space){.instr = instr};
    if (instr->opcode == OP_FUSION) f.body = instr->called[0];
    if (instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT ||
        instr->opcode == OP_TUPLE || instr->opcode == OP_GET_TUPLE_ELEMENT || !has_arrays(instr))
        return false;
    if (find_all(&f)) return true;
    return find_divided(&f);
}

/* ---- other reshapes ---- */

bool reshape_next_group(struct reshape_group *g, const struct shape *to, const struct shape *from) {
    int64_t a = 1, b = 1;
    g->to = g->to_end;
    g->from = g->from_end;
    if (g->to == to->rank && g->from == from->rank) return false;
    if (g->to_end < to->rank) a = to->dims[g->to_end++];
    if (g->from_end < from->rank) b = from->dims[g->from_end++];
    while (a != b) {
        if (a < b && g->to_end < to->rank)
            a *= to->dims[g->to_end++];
        else if (g->from_end < from->rank)
            b *= from->dims[g->from_end++];
        else
            break;
    }
    return true;
}

static const struct hlo_instr *reshape_of(const struct hlo_instr *instr) {
    if (instr->opcode != OP_FUSION) return instr->opcode == OP_RESHAPE ? instr : NULL;
    const struct hlo_instr *root = instr->called[0]->root;
    bool only = root->opcode == OP_RESHAPE && root->operands[0]->opcode == OP_PARAMETER;
    return only && instr->noperands == 1 ? root : NULL;
}

static bool find_divided(struct finder *f) {
    struct space *space = f->space;
    const struct hlo_instr *reshape = reshape_of(space->instr);
    int own[SPACE_MOST_RANK], same[SPACE_MOST_RANK];
    struct reshape_group g = {0};
    if (!reshape || space->instr->shape->rank == 0 || space->instr->shape->count == 0) return false;
    const struct shape *to = space->instr->shape, *from = reshape->operands[0]->shape;
    space->shape = to;
    space->kind = SPACE_DIVIDED;
    space->count = space->operations = space->nmembers = 0;
    for (int d = 0; d < from->rank; d++)
        same[d] = -1;
    for (int d = 0; d < to->rank; d++)
        own[d] = d;
    while (reshape_next_group(&g, to, from))
        if (g.to_end == g.to + 1 && g.from_end == g.from + 1) same[g.from] = g.to;
    return add_array(f, -1, 0, to, own) && add_array(f, 0, 0, from, same);
}

/* ---- orders ---- */

void space_order_of(const struct space *space, const struct space_array *array, const int *order,
                    int *array_order) {
    bool done[SPACE_MOST_RANK] = {false};
    int n = 0;
    for (int i = 0; i < space->shape->rank; i++)
        for (int d = array->shape->rank - 1; d >= 0; d--)
            if (!done[d] && array->dim[d] == order[i]) {
                array_order[n++] = d;
                done[d] = true;
            }
    for (int d = array->shape->rank - 1; d >= 0; d--)
        if (!done[d]) array_order[n++] = d;
}

void space_set_body(const struct space *space, const int *order) {
    struct hlo_module *module = space->instr->parent->module;
    if (space->instr->opcode != OP_FUSION) return;
    for (int m = 0; m < space->nmembers; m++) {
        const struct space_member *member = &space->member[m];
        struct hlo_instr *instr = member->instr;
        struct space_array array = {.shape = instr->shape};
        int own[SPACE_MOST_RANK];
        if (instr->opcode == OP_PARAMETER) {
            instr->shape = space->instr->operands[instr->parameter]->shape;
            continue;
        }
        if (!member->asked || !shape_is_array(instr->shape) || instr->shape->rank == 0) continue;
        memcpy(array.dim, member->dim, sizeof array.dim);
        space_order_of(space, &array, order, own);
        instr->shape = shape_in_order(module, instr->shape, own);
    }
}

const struct shape *shape_in_order(struct hlo_module *module, const struct shape *shape,
                                   const int *order) {
    int64_t minor_to_major[SPACE_MOST_RANK];
    for (int i = 0; i < shape->rank; i++)
        minor_to_major[i] = order[i];
    struct layout layout = {.rank = shape->rank, .minor_to_major = minor_to_major};
    return shape_with_layout(module->shapes, shape, &layout);
}
