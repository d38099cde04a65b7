#include "passes/fusion_shape.h"

#include <stdlib.h>

#include "passes/util.h"

/* ---- single instructions ---- */

static bool is_plain(const struct hlo_instr *instr) {
    return shape_is_array(instr->shape) && !shape_is_dynamic(instr->shape) && !instr->ncontrol &&
           !instr->is_control_predecessor;
}

/* A bitcast is a reshape where both layouts are row-major. */
static bool is_reshape(const struct hlo_instr *instr) {
    if (instr->opcode == OP_RESHAPE) return true;
    const struct hlo_instr *operand = instr->opcode == OP_BITCAST ? instr->operands[0] : NULL;
    return operand && operand->shape->type == instr->shape->type &&
           shape_layout_is_default(instr->shape) && shape_layout_is_default(operand->shape);
}

bool instr_is_composed(const struct hlo_instr *instr) {
    if (!is_plain(instr)) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (!shape_is_array(instr->operands[i]->shape) ||
            shape_is_dynamic(instr->operands[i]->shape))
            return false;
    if (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) return true;
    switch (instr->opcode) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_PAD:
    case OP_CONCATENATE:
    case OP_IOTA:
    case OP_GATHER:
    case OP_DYNAMIC_SLICE:
    case OP_REVERSE:
    case OP_COPY:
    case OP_MAP: return true;
    case OP_BITCAST: return is_reshape(instr);
    case OP_BITCAST_CONVERT: return shape_same_dims(instr->shape, instr->operands[0]->shape);
    default: return false;
    }
}

static bool dims_increase(struct int_list dims) {
    for (int i = 1; i < dims.count; i++)
        if (dims.v[i] <= dims.v[i - 1]) return false;
    return true;
}

bool instr_keeps_index(const struct hlo_instr *instr) {
    if (instr->opcode == OP_CONCATENATE) return false; /* may have very many operands to look at */
    if (!instr_is_composed(instr)) return false;
    if (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) return true;
    if (instr->opcode == OP_BROADCAST)
        return instr->shape->count == instr->operands[0]->shape->count &&
               dims_increase(instr_ints(instr, ATTR_DIMENSIONS));
    return instr->opcode == OP_COPY || instr->opcode == OP_BITCAST_CONVERT || is_reshape(instr);
}

bool instr_spreads_rows(const struct hlo_instr *instr, int64_t columns) {
    if (instr->opcode != OP_BROADCAST || !is_plain(instr)) return false;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (!dims_increase(dims)) return false;
    int64_t inner = 1;
    int next = dims.count - 1;
    bool rows = false;
    for (int i = instr->shape->rank - 1; i >= 0; i--) {
        bool mapped = next >= 0 && dims.v[next] == i;
        int64_t size = instr->shape->dims[i];
        if (mapped) next--;
        if (mapped && size != 1)
            rows = true;
        else if (!mapped && rows && size != 1)
            return false;
        else if (!mapped)
            inner *= size;
    }
    return inner == columns;
}

bool reduce_is_trailing(const struct hlo_instr *reduce) {
    const struct shape *from = reduce->operands[0]->shape;
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    bool kept = false;
    for (int i = from->rank - 1; i >= 0; i--) {
        if (from->dims[i] == 1) continue;
        if (!int_list_has(dims, i))
            kept = true;
        else if (kept)
            return false;
    }
    return true;
}

bool instr_is_product(const struct hlo_instr *instr) {
    return is_plain(instr) &&
           ((instr->opcode == OP_DOT && instr->noperands == 2) || instr->opcode == OP_CONVOLUTION);
}

/* ---- a computation ---- */

struct analysis {
    struct fusion_info *info;
    struct fusion_instr_level *levels; /* by member */
    struct hlo_instr *const *members;
    int count;
    int nreduces, nproducts, nupdates;
    bool full; /* something has level FULL */
};

static const struct shape *first_array(const struct shape *shape) {
    return shape_is_tuple(shape) && shape->ntuple > 0 ? shape->tuple[0] : shape;
}

static bool same_reduction(const struct hlo_instr *a, const struct hlo_instr *b) {
    struct int_list x = instr_ints(a, ATTR_DIMENSIONS), y = instr_ints(b, ATTR_DIMENSIONS);
    if (!shape_same_dims(a->operands[0]->shape, b->operands[0]->shape)) return false;
    if (x.count != y.count) return false;
    for (int i = 0; i < x.count; i++)
        if (!int_list_has(y, (int)x.v[i])) return false;
    return true;
}

/* During the walk a member's mark is its place in members[]. */
static bool is_member(const struct analysis *a, const struct hlo_instr *instr) {
    return instr->mark >= 0 && instr->mark < a->count && a->members[instr->mark] == instr;
}

/* What is no member comes in from outside. */
static enum fusion_level level(const struct analysis *a, const struct hlo_instr *instr) {
    return is_member(a, instr) ? a->levels[instr->mark].level : FUSION_LEVEL_FREE;
}

static bool is_outside(const struct analysis *a, const struct hlo_instr *instr) {
    return instr->opcode == OP_PARAMETER || !is_member(a, instr);
}

static bool add_reduce(struct analysis *a, const struct hlo_instr *reduce) {
    const struct shape *to = first_array(reduce->shape), *from = reduce->operands[0]->shape;
    if (!shape_is_array(to) || !shape_is_array(from) || shape_is_dynamic(from)) return false;
    if (reduce->ncontrol || reduce->is_control_predecessor) return false;
    for (int i = 0; i < reduce->noperands; i++) {
        enum fusion_level of = level(a, reduce->operands[i]);
        bool is_init = i >= reduce->noperands / 2;
        if (of != FUSION_LEVEL_FREE && (is_init || of != FUSION_LEVEL_FULL)) return false;
    }
    int64_t rows = to->count, columns = rows > 0 ? from->count / rows : 0;
    if (columns < 1) return false;
    if (a->nreduces++ == 0) {
        a->info->hero = reduce;
        a->info->rows = rows;
        a->info->columns = columns;
        return true;
    }
    return rows == a->info->rows && columns == a->info->columns;
}

static bool is_direct_operand(const struct analysis *a, const struct hlo_instr *instr) {
    for (; !is_outside(a, instr); instr = instr->operands[0]) {
        switch (instr->opcode) {
        case OP_BITCAST:
        case OP_RESHAPE:
        case OP_TRANSPOSE:
        case OP_SLICE:
        case OP_CONVERT:
        case OP_BROADCAST:
        case OP_COPY: break;
        default: return false;
        }
    }
    return true;
}

static bool add_product(struct analysis *a, const struct hlo_instr *product) {
    if (a->nproducts++ > 0) return false;
    a->info->hero = product;
    for (int i = 0; i < product->noperands; i++)
        if (!is_direct_operand(a, product->operands[i])) return false;
    return true;
}

/* What is between the slice and the update happens at the same index. */
static bool stays_in_place(const struct analysis *a, const struct hlo_instr *instr,
                           const struct hlo_instr *update) {
    enum { MOST = 16 };
    for (int steps = 0; steps < MOST; steps++) {
        const struct hlo_use *use = instr->users;
        if (!use || use->next || !is_member(a, use->user)) return false;
        if (use->user == update) return use->index == 1;
        if (!instr_keeps_index(use->user)) return false;
        instr = use->user;
    }
    return false;
}

static bool add_update(struct analysis *a, const struct hlo_instr *update) {
    const struct hlo_instr *target = update->operands[0];
    if (!is_plain(update) || !is_outside(a, target)) return false;
    for (int i = 1; i < update->noperands; i++)
        if (level(a, update->operands[i]) != FUSION_LEVEL_FREE) return false;
    enum { MOST = 1000 };
    int uses = 0;
    for (const struct hlo_use *use = target->users; use; use = use->next) {
        if (++uses > MOST) return false;
        if (!is_member(a, use->user) || (use->user == update && use->index == 0)) continue;
        if (!reads_replaced(use->user, update)) return false;
        if (!stays_in_place(a, use->user, update)) return false;
    }
    if (a->nupdates++ == 0) a->info->hero = update;
    return true;
}

/* Joins the operands' levels; false where they do not go together. */
static bool join(const struct analysis *a, const struct hlo_instr *instr, enum fusion_level *to) {
    *to = FUSION_LEVEL_FREE;
    for (int i = 0; i < instr->noperands; i++) {
        enum fusion_level of = level(a, instr->operands[i]);
        if (of == FUSION_LEVEL_UPDATE) return false;
        if (of == FUSION_LEVEL_FREE || of == *to) continue;
        if (*to != FUSION_LEVEL_FREE) return false;
        *to = of;
    }
    return true;
}

static bool add_composed(struct analysis *a, const struct hlo_instr *instr, enum fusion_level *to) {
    if (!instr_is_composed(instr) || !join(a, instr, to)) return false;
    if (*to == FUSION_LEVEL_FREE || instr_keeps_index(instr)) return true;
    if (*to != FUSION_LEVEL_ROW || !instr_spreads_rows(instr, a->info->columns)) return false;
    *to = FUSION_LEVEL_FULL;
    return true;
}

static bool add_instr(struct analysis *a, const struct hlo_instr *instr, enum fusion_level *to) {
    *to = FUSION_LEVEL_FREE;
    switch (instr->opcode) {
    case OP_PARAMETER:
    case OP_CONSTANT: return is_plain(instr);
    case OP_DYNAMIC_UPDATE_SLICE: *to = FUSION_LEVEL_UPDATE; return add_update(a, instr);
    case OP_REDUCE: *to = FUSION_LEVEL_ROW; return add_reduce(a, instr);
    case OP_GET_TUPLE_ELEMENT:
        *to = FUSION_LEVEL_ROW;
        return instr->operands[0]->opcode == OP_REDUCE && is_member(a, instr->operands[0]);
    default: break;
    }
    if (!instr_is_product(instr)) return add_composed(a, instr, to);
    *to = FUSION_LEVEL_FULL;
    return add_product(a, instr);
}

static int compare_ids(const void *x, const void *y) {
    const struct fusion_instr_level *a = x, *b = y;
    return a->id < b->id ? -1 : a->id > b->id;
}

static bool all_outputs(const struct analysis *a, enum fusion_level wanted) {
    for (int i = 0; i < a->info->noutputs; i++)
        if (level(a, a->info->outputs[i]) != wanted) return false;
    return true;
}

static bool outputs_are_loop(const struct analysis *a) {
    const struct hlo_instr *first = a->info->outputs[0];
    for (int i = 0; i < a->info->noutputs; i++)
        if (!shape_same_dims(a->info->outputs[i]->shape, first->shape)) return false;
    return all_outputs(a, FUSION_LEVEL_FREE);
}

static bool outputs_are_updates(const struct analysis *a) {
    for (int i = 0; i < a->info->noutputs; i++)
        if (a->info->outputs[i]->opcode != OP_DYNAMIC_UPDATE_SLICE) return false;
    return a->info->noutputs == a->nupdates;
}

static bool outputs_are_rows(const struct analysis *a) {
    for (int i = 0; i < a->info->noutputs; i++)
        if (level(a, a->info->outputs[i]) == FUSION_LEVEL_FREE &&
            a->info->outputs[i]->shape->count != a->info->rows * a->info->columns)
            return false;
    return true;
}

static enum fusion_shape classify_reduces(const struct analysis *a) {
    bool same = true, trailing = true;
    for (int k = 0; k < a->count; k++) {
        const struct hlo_instr *i = a->members[k];
        if (i->opcode != OP_REDUCE) continue;
        same = same && same_reduction(i, a->info->hero);
        trailing = trailing && reduce_is_trailing(i);
    }
    if (!a->full && same && all_outputs(a, FUSION_LEVEL_ROW)) return FUSION_SHAPE_REDUCE;
    return trailing && outputs_are_rows(a) ? FUSION_SHAPE_ROWS : FUSION_SHAPE_NONE;
}

static enum fusion_shape classify(struct analysis *a) {
    if ((a->nupdates > 0) + (a->nreduces > 0) + (a->nproducts > 0) > 1) return FUSION_SHAPE_NONE;
    if (a->nupdates > 0) return outputs_are_updates(a) ? FUSION_SHAPE_UPDATE : FUSION_SHAPE_NONE;
    if (a->nproducts > 0)
        return all_outputs(a, FUSION_LEVEL_FULL) ? FUSION_SHAPE_PRODUCT : FUSION_SHAPE_NONE;
    if (a->nreduces > 0) return classify_reduces(a);
    a->info->hero = a->info->outputs[0];
    return outputs_are_loop(a) ? FUSION_SHAPE_LOOP : FUSION_SHAPE_NONE;
}

static int count_row_dims(const struct hlo_instr *reduce) {
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    int count = 0;
    while (count < reduce->operands[0]->shape->rank && !int_list_has(dims, count))
        count++;
    return count;
}

static struct fusion_info *analyse(struct arena *arena, int count, struct hlo_instr *const *members,
                                   int noutputs, struct hlo_instr *const *outputs) {
    struct fusion_info *info = arena_alloc(arena, sizeof *info);
    *info =
        (struct fusion_info){.shape = FUSION_SHAPE_NONE, .noutputs = noutputs, .outputs = outputs};
    struct analysis a = {.info = info, .members = members, .count = count};
    info->levels = a.levels = arena_array(arena, (size_t)count + 1, sizeof *a.levels);
    for (int i = 0; i < count; i++) {
        members[i]->mark = i;
        if (!add_instr(&a, members[i], &a.levels[i].level)) return info;
        a.levels[i].id = members[i]->id;
        a.full = a.full || a.levels[i].level == FUSION_LEVEL_FULL;
    }
    info->nlevels = count;
    for (int i = 0; i < noutputs; i++)
        if (!shape_is_array(outputs[i]->shape)) return info;
    if (noutputs > 0) info->shape = classify(&a);
    if (info->shape == FUSION_SHAPE_ROWS) info->row_dims = count_row_dims(info->hero);
    return info;
}

const struct fusion_info *fusion_analyse_members(struct arena *arena, int count,
                                                 struct hlo_instr *const *members, int noutputs,
                                                 struct hlo_instr *const *outputs) {
    return analyse(arena, count, members, noutputs, outputs);
}

const struct fusion_info *fusion_analyse(struct arena *arena, const struct hlo_computation *fused) {
    struct hlo_instr *root = fused->root;
    bool tuple = root->opcode == OP_TUPLE;
    size_t n = (size_t)fused->count + 1;
    struct hlo_instr **members = arena_array(arena, n, sizeof *members);
    struct hlo_instr **outputs = arena_array(arena, (size_t)root->noperands + 1, sizeof *outputs);
    int count = 0, noutputs = tuple ? root->noperands : 1;
    for (struct hlo_instr *i = fused->first; i; i = i->next)
        if (!tuple || i != root) members[count++] = i;
    for (int i = 0; i < noutputs; i++)
        outputs[i] = tuple ? root->operands[i] : root;
    struct fusion_info *info = analyse(arena, count, members, noutputs, outputs);
    qsort(info->levels, (size_t)info->nlevels, sizeof *info->levels, compare_ids);
    info->sorted = true;
    return info;
}

enum fusion_level fusion_level_of(const struct fusion_info *info, const struct hlo_instr *instr) {
    int low = 0, high = info->sorted ? info->nlevels : 0, at = instr->mark;
    if (at >= 0 && at < info->nlevels && info->levels[at].id == instr->id)
        return info->levels[at].level; /* the mark is still what the analysis made it */
    while (low < high) {
        int middle = (low + high) / 2;
        if (info->levels[middle].id < instr->id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < info->nlevels && info->levels[low].id == instr->id;
    return found ? info->levels[low].level : FUSION_LEVEL_FREE;
}

enum fusion_shape fusion_shape(const struct hlo_computation *fused) {
    struct arena *arena = arena_new();
    enum fusion_shape shape = fusion_analyse(arena, fused)->shape;
    arena_free(arena);
    return shape;
}

const char *fusion_shape_name(enum fusion_shape shape) {
    static const char *const names[] = {"none", "loop", "reduce", "rows", "product", "update"};
    return names[shape];
}
