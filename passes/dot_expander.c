/* ragged-dot and scaled-dot as dots.
 *
 * ragged-dot: the sizes of groups cut the ragged dimension of the left side into ranges; what is
 * past the last range counts for nothing. With m[g, p], whether place p is in group g:
 *     a free ragged dimension: every group's product is made, dot(lhs, rhs) with the group as a
 *         dimension of its own, and sum over g of select(m, product, 0) keeps each row's own.
 *     a contracted one: the group becomes a batch dimension of select(m, lhs, 0) and of
 *         select(m, rhs, 0). Both sides, so that no infinity meets a zero.
 *
 * scaled-dot: each operand times its scales, a scale for a block of elements. */
#include "passes/rewrite.h"

static struct shape_table *shapes_of(const struct hlo_instr *instr) {
    return instr->parent->module->shapes;
}

/* ---- ragged-dot ---- */

struct ragged {
    struct hlo_instr *instr, *lhs, *rhs;
    struct int_list lb, rb, lc, rc, group;
    int64_t dim, groups;
    bool contracting;
};

static bool read_ragged(struct ragged *r, struct hlo_instr *instr) {
    struct int_list dims = instr_ints(instr, ATTR_LHS_RAGGED_DIMS);
    *r = (struct ragged){.instr = instr,
                         .lhs = instr->operands[0],
                         .rhs = instr->operands[1],
                         .lb = instr_ints(instr, ATTR_LHS_BATCH_DIMS),
                         .rb = instr_ints(instr, ATTR_RHS_BATCH_DIMS),
                         .lc = instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS),
                         .rc = instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS),
                         .group = instr_ints(instr, ATTR_RHS_GROUP_DIMS)};
    const struct shape *sizes = instr->operands[2]->shape;
    if (dims.count != 1 || sizes->rank != 1 || int_list_has(r->lb, dims.v[0])) return false;
    r->dim = dims.v[0];
    r->groups = sizes->dims[0];
    r->contracting = int_list_has(r->lc, r->dim);
    return r->contracting == (r->group.count == 0) && r->groups > 0;
}

static struct hlo_instr *compare(struct hlo_instr *before, const struct shape *shape,
                                 struct hlo_instr *a, struct hlo_instr *b, int direction) {
    const struct shape *truth = shape_with_type(shapes_of(before), shape, TYPE_PRED);
    struct hlo_instr *result = rewrite_binary(before, OP_COMPARE, truth, a, b);
    instr_set_int(result, ATTR_DIRECTION, direction);
    return result;
}

static struct hlo_instr *iota(struct hlo_instr *before, const struct shape *shape, int64_t dim) {
    struct hlo_instr *result = instr_new(before->parent, before, OP_IOTA, shape, NULL, 0, NULL);
    instr_set_int(result, ATTR_IOTA_DIMENSION, dim);
    return result;
}

static struct hlo_instr *choose(struct hlo_instr *before, struct hlo_instr *which,
                                struct hlo_instr *yes) {
    struct hlo_instr *operands[3] = {which, yes, instr_new_splat(before, yes->shape, 0)};
    return instr_new(before->parent, before, OP_SELECT, yes->shape, NULL, 3, operands);
}

/* m[g, p] for `count` places. */
static struct hlo_instr *membership(struct hlo_instr *before, struct hlo_instr *sizes,
                                    int64_t groups, int64_t count) {
    const int64_t first = 0, second = 1;
    struct shape_table *table = shapes_of(before);
    const struct shape *vector = shape_array(table, TYPE_S64, 1, &groups);
    const struct shape *square = shape_array(table, TYPE_S64, 2, (int64_t[]){groups, groups});
    const struct shape *shape = shape_array(table, TYPE_S64, 2, (int64_t[]){groups, count});
    struct hlo_instr *size = rewrite_unary(before, OP_CONVERT, vector, sizes);
    size = rewrite_binary(before, OP_MAXIMUM, vector, size, instr_new_splat(before, vector, 0));
    size = rewrite_binary(before, OP_MINIMUM, vector, size,
                          instr_new_splat(before, vector, INT32_MAX));
    /* ends[g]: the sum of the sizes up to g's */
    struct hlo_instr *before_g = compare(before, square, iota(before, square, 1),
                                         iota(before, square, 0), ENUM_DIRECTION_LE);
    struct hlo_instr *spread = rewrite_broadcast(before, square, size, 1, &second);
    struct hlo_instr *end = rewrite_sum(before, choose(before, before_g, spread), 1, vector);
    struct hlo_instr *start = rewrite_binary(before, OP_SUBTRACT, vector, end, size);
    struct hlo_instr *place = iota(before, shape, 1);
    start = rewrite_broadcast(before, shape, start, 1, &first);
    end = rewrite_broadcast(before, shape, end, 1, &first);
    struct hlo_instr *from = compare(before, shape, place, start, ENUM_DIRECTION_GE);
    struct hlo_instr *to = compare(before, shape, place, end, ENUM_DIRECTION_LT);
    return rewrite_binary(before, OP_AND, from->shape, from, to);
}

static struct hlo_instr *spread_mask(struct hlo_instr *before, struct hlo_instr *mask,
                                     const struct shape *shape, int64_t group, int64_t place) {
    const struct shape *truth = shape_with_type(shapes_of(before), shape, TYPE_PRED);
    if (group < place) return rewrite_broadcast(before, truth, mask, 2, (int64_t[]){group, place});
    int64_t order[2] = {1, 0};
    int64_t dims[2] = {mask->shape->dims[1], mask->shape->dims[0]};
    struct hlo_instr *turned = rewrite_unary(
        before, OP_TRANSPOSE, shape_array(shapes_of(before), TYPE_PRED, 2, dims), mask);
    instr_set_ints(turned, ATTR_DIMENSIONS, 2, order);
    return rewrite_broadcast(before, truth, turned, 2, (int64_t[]){place, group});
}

static struct hlo_instr *new_dot(struct hlo_instr *like, const struct shape *shape,
                                 struct hlo_instr *lhs, struct hlo_instr *rhs,
                                 const struct int_list lists[4]) {
    static const enum attr_key keys[4] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS,
                                          ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS};
    struct hlo_instr *dot = rewrite_binary(like, OP_DOT, shape, lhs, rhs);
    const struct hlo_attr *precision = instr_attr(like, ATTR_OPERAND_PRECISION);
    for (int i = 0; i < 4; i++)
        instr_set_ints(dot, keys[i], lists[i].count, lists[i].v);
    if (precision && precision->ints->count == 2) instr_set_attr(dot, precision);
    return dot;
}

/* Batch dimensions, then the free ones of the left side, then those of the right: where the group
 * and the ragged dimension end up. */
static struct hlo_instr *free_ragged(struct ragged *r, struct hlo_instr *mask) {
    int64_t dims[2 * SHAPE_MAX_RANK], group = 0, place = 0;
    int rank = 0;
    for (int i = 0; i < r->lb.count; i++)
        dims[rank++] = r->lhs->shape->dims[r->lb.v[i]];
    for (int d = 0; d < r->lhs->shape->rank; d++) {
        if (int_list_has(r->lb, d) || int_list_has(r->lc, d)) continue;
        if (d == r->dim) place = rank;
        dims[rank++] = r->lhs->shape->dims[d];
    }
    for (int d = 0; d < r->rhs->shape->rank; d++) {
        if (int_list_has(r->rb, d) || int_list_has(r->rc, d)) continue;
        if (int_list_has(r->group, d)) group = rank;
        dims[rank++] = r->rhs->shape->dims[d];
    }
    if (rank > SHAPE_MAX_RANK) return NULL;
    const struct shape *shape = shape_array(shapes_of(r->instr), r->instr->shape->type, rank, dims);
    if (!shape) return NULL;
    struct hlo_instr *all =
        new_dot(r->instr, shape, r->lhs, r->rhs, (struct int_list[]){r->lb, r->rb, r->lc, r->rc});
    all = choose(r->instr, spread_mask(r->instr, mask, shape, group, place), all);
    return rewrite_sum(r->instr, all, group, r->instr->shape);
}

/* The operand once a group, along a new first dimension, zero outside of the group. */
static struct hlo_instr *masked(struct ragged *r, struct hlo_instr *operand, int64_t dim,
                                struct hlo_instr *mask) {
    int64_t dims[SHAPE_MAX_RANK], where[SHAPE_MAX_RANK];
    int rank = operand->shape->rank;
    if (rank + 1 > SHAPE_MAX_RANK) return NULL;
    dims[0] = r->groups;
    for (int d = 0; d < rank; d++) {
        dims[1 + d] = operand->shape->dims[d];
        where[d] = 1 + d;
    }
    const struct shape *shape =
        shape_array(shapes_of(r->instr), operand->shape->type, 1 + rank, dims);
    if (!shape) return NULL;
    struct hlo_instr *all = rewrite_broadcast(r->instr, shape, operand, rank, where);
    return choose(r->instr, spread_mask(r->instr, mask, shape, 0, 1 + dim), all);
}

static struct hlo_instr *contracted_ragged(struct ragged *r, struct hlo_instr *mask) {
    int64_t numbers[4][SHAPE_MAX_RANK + 1];
    const struct int_list old[4] = {r->lb, r->rb, r->lc, r->rc};
    struct int_list lists[4];
    int64_t other = 0;
    for (int i = 0; i < r->lc.count; i++)
        if (r->lc.v[i] == r->dim) other = r->rc.v[i];
    for (int i = 0; i < 4; i++) { /* all move by one; the batch starts with the group */
        int n = 0;
        if (i < 2) numbers[i][n++] = 0;
        for (int k = 0; k < old[i].count; k++)
            numbers[i][n++] = old[i].v[k] + 1;
        lists[i] = (struct int_list){n, numbers[i]};
    }
    struct hlo_instr *lhs = masked(r, r->lhs, r->dim, mask);
    struct hlo_instr *rhs = masked(r, r->rhs, other, mask);
    return lhs && rhs ? new_dot(r->instr, r->instr->shape, lhs, rhs, lists) : NULL;
}

static struct hlo_instr *expand_ragged(struct pass_context *context, struct hlo_instr *instr) {
    struct ragged r;
    if (!read_ragged(&r, instr)) return NULL;
    MAY_REWRITE(context);
    struct hlo_instr *mask =
        membership(instr, instr->operands[2], r.groups, r.lhs->shape->dims[r.dim]);
    return r.contracting ? contracted_ragged(&r, mask) : free_ragged(&r, mask);
}

/* ---- scaled-dot ---- */

/* The operand in `type`, each block of it times its scale. */
static struct hlo_instr *scaled(struct hlo_instr *instr, int index, enum element_type type) {
    struct hlo_instr *value = instr->operands[index], *scale = instr->operands[2 + index];
    struct shape_table *table = shapes_of(instr);
    const struct shape *shape = shape_with_type(table, value->shape, type);
    int64_t dims[2 * SHAPE_MAX_RANK], where[SHAPE_MAX_RANK];
    int rank = scale->shape->rank;
    value = rewrite_unary(instr, OP_CONVERT, shape, value);
    scale = rewrite_unary(instr, OP_CONVERT, shape_with_type(table, scale->shape, type), scale);
    if (rank == 0)
        return rewrite_binary(instr, OP_MULTIPLY, shape, value,
                              rewrite_broadcast(instr, shape, scale, 0, NULL));
    for (int d = 0; d < rank; d++) {
        dims[2 * d] = scale->shape->dims[d];
        dims[2 * d + 1] = shape->dims[d] / scale->shape->dims[d];
        where[d] = 2 * d;
    }
    const struct shape *blocks = shape_array(table, type, 2 * rank, dims);
    scale = rewrite_broadcast(instr, blocks, scale, rank, where);
    return rewrite_binary(instr, OP_MULTIPLY, shape, value,
                          rewrite_unary(instr, OP_RESHAPE, shape, scale));
}

static bool scales_fit(const struct shape *shape, const struct shape *scale) {
    if (scale->rank == 0) return true;
    if (scale->rank != shape->rank || 2 * scale->rank > SHAPE_MAX_RANK) return false;
    for (int d = 0; d < scale->rank; d++)
        if (scale->dims[d] < 1 || shape->dims[d] % scale->dims[d]) return false;
    return true;
}

static struct hlo_instr *expand_scaled(struct pass_context *context, struct hlo_instr *instr) {
    const struct shape *a = instr->operands[0]->shape, *b = instr->operands[1]->shape;
    if (!element_type_is_float(a->type) || !element_type_is_float(b->type) ||
        !element_type_is_float(instr->shape->type) || !scales_fit(a, instr->operands[2]->shape) ||
        !scales_fit(b, instr->operands[3]->shape))
        return NULL;
    bool wide = a->type == TYPE_F64 || b->type == TYPE_F64 || instr->shape->type == TYPE_F64;
    enum element_type type = wide ? TYPE_F64 : TYPE_F32;
    MAY_REWRITE(context);
    const struct int_list lists[4] = {
        instr_ints(instr, ATTR_LHS_BATCH_DIMS), instr_ints(instr, ATTR_RHS_BATCH_DIMS),
        instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS), instr_ints(instr, ATTR_RHS_CONTRACTING_DIMS)};
    const struct shape *shape = shape_with_type(shapes_of(instr), instr->shape, type);
    struct hlo_instr *dot =
        new_dot(instr, shape, scaled(instr, 0, type), scaled(instr, 1, type), lists);
    return type == instr->shape->type ? dot : rewrite_unary(instr, OP_CONVERT, instr->shape, dot);
}

bool dot_expander_run(struct pass_context *context, struct hlo_module *module) {
    static const struct rewrite rewrites[] = {{OP_RAGGED_DOT, expand_ragged},
                                              {OP_SCALED_DOT, expand_scaled}};
    bool changed = rewrites_run(context, module, rewrites, 2);
    if (changed) module_sort_computations(module);
    return changed;
}
