/* Products that sum nothing, or one element: a multiplication of what both sides spread, which
 * fuses with whatever is around it. So are, with a sum, products of small matrices whose batch lies
 * side by side, for which it is what vectors are made of. Only for targets on which both are as
 * exact: a matrix unit rounds the operands of a dot, and not those of a multiplication. */
#include "passes/dot_sides.h"

static int64_t product_of(const struct shape *shape, struct int_list dims) {
    int64_t count = 1;
    for (int i = 0; i < dims.count; i++)
        count *= shape->dims[dims.v[i]];
    return count;
}

/* One side of the product, at the place of each element of the result: batch dims, then, from
 * result dim `first`, the side's own. */
static struct hlo_instr *spread(struct hlo_instr *dot, int side, int first) {
    struct hlo_instr *operand = dot->operands[side];
    const struct shape *shape = operand->shape;
    struct int_list c = instr_ints(dot, dot_contracting[side]);
    struct int_list b = instr_ints(dot, dot_batch[side]);
    int64_t order[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK], places[SHAPE_MAX_RANK];
    int count = 0;
    for (int i = 0; i < b.count; i++, count++) {
        order[count] = b.v[i];
        places[count] = i;
    }
    for (int d = 0; d < shape->rank; d++) {
        if (int_list_has(c, d) || int_list_has(b, d)) continue;
        order[count] = d;
        places[count++] = first++;
    }
    for (int i = 0; i < c.count; i++)
        order[count + i] = c.v[i];
    for (int i = 0; i < shape->rank; i++)
        sizes[i] = shape->dims[order[i]];
    struct hlo_instr *moved = rewrite_unary(
        dot, OP_TRANSPOSE, rewrite_array(dot, shape->type, shape->rank, sizes), operand);
    instr_set_ints(moved, ATTR_DIMENSIONS, shape->rank, order);
    const struct shape *own = rewrite_array(dot, shape->type, count, sizes);
    struct hlo_instr *flat = rewrite_unary(dot, OP_RESHAPE, own, moved);
    enum element_type type = dot->shape->type;
    if (shape->type != type)
        flat = rewrite_unary(dot, OP_CONVERT, rewrite_array(dot, type, count, sizes), flat);
    return rewrite_broadcast(dot, dot->shape, flat, count, places);
}

static bool is_plain(const struct hlo_instr *dot) {
    if (dot->noperands != 2 || instr_attr(dot, ATTR_SPARSITY) || !shape_is_array(dot->shape) ||
        shape_is_dynamic(dot->shape) || !shape_layout_is_default(dot->shape))
        return false;
    for (int i = 0; i < 2; i++)
        if (shape_is_dynamic(dot->operands[i]->shape) ||
            !shape_layout_is_default(dot->operands[i]->shape))
            return false;
    return element_type_is_float(dot->shape->type) || element_type_is_integral(dot->shape->type);
}

/* The sum starts from 0, which turns a -0 into 0. */
static struct hlo_instr *multiply_instead(struct pass_context *context, struct hlo_instr *dot) {
    struct int_list c = instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    int batch = instr_ints(dot, ATTR_LHS_BATCH_DIMS).count;
    if (!is_plain(dot) || product_of(dot->operands[0]->shape, c) != 1) return NULL;
    MAY_REWRITE(context);
    int left = dot->operands[0]->shape->rank - batch - c.count;
    struct hlo_instr *a = spread(dot, 0, batch), *b = spread(dot, 1, batch + left);
    struct hlo_instr *product = rewrite_binary(dot, OP_MULTIPLY, dot->shape, a, b);
    if (element_type_is_integral(dot->shape->type)) return product;
    struct hlo_instr *zero = instr_new_splat(dot, dot->shape, 0);
    return rewrite_binary(dot, OP_ADD, dot->shape, product, zero);
}

/* ---- a batch that lies side by side ---- */

/* The batch is the last dims of both sides, in order, and one dim is summed; types are the same. */
static bool has_batch_inside(const struct hlo_instr *dot) {
    struct int_list b[2] = {instr_ints(dot, ATTR_LHS_BATCH_DIMS),
                            instr_ints(dot, ATTR_RHS_BATCH_DIMS)};
    enum element_type type = dot->shape->type;
    if (type != TYPE_F32 && type != TYPE_F64 && !element_type_is_complex(type)) return false;
    if (b[0].count == 0 || instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS).count != 1) return false;
    for (int side = 0; side < 2; side++) {
        const struct shape *shape = dot->operands[side]->shape;
        if (shape->type != type) return false;
        for (int i = 0; i < b[side].count; i++)
            if (b[side].v[i] != shape->rank - b[side].count + i) return false;
    }
    return true;
}

/* A side's own dims at places from `first` on, the summed dim and the batch last. */
static struct hlo_instr *spread_inside(struct hlo_instr *dot, int side, int first,
                                       const struct shape *to) {
    struct hlo_instr *operand = dot->operands[side];
    const struct shape *shape = operand->shape;
    int nbatch = instr_ints(dot, ATTR_LHS_BATCH_DIMS).count, own = shape->rank - nbatch;
    enum attr_key key = side ? ATTR_RHS_CONTRACTING_DIMS : ATTR_LHS_CONTRACTING_DIMS;
    int64_t summed = instr_ints(dot, key).v[0], places[SHAPE_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) {
        places[d] = d < own ? first + d - (d > summed) : to->rank - shape->rank + d;
        if (d == summed) places[d] = to->rank - nbatch - 1;
    }
    return rewrite_broadcast(dot, to, operand, shape->rank, places);
}

/* Whether the batch may be last in the result, too. */
static bool keeps_batch_inside(const struct hlo_instr *dot) {
    int nbatch = instr_ints(dot, ATTR_LHS_BATCH_DIMS).count, rank = dot->shape->rank;
    const struct hlo_instr *user = instr_has_one_user(dot) ? dot->users->user : NULL;
    if (rank == nbatch) return true;
    return user && user->opcode == OP_TRANSPOSE &&
           instr_ints(user, ATTR_DIMENSIONS).v[rank - 1] == nbatch - 1;
}

/* Packing every element takes longer than what products in tiles save, and vectors are full. */
static bool suits_vectors(const struct hlo_instr *dot) {
    enum { LEAST_BATCH = 32, MOST_SIDE = 32, LEAST_TERMS = 16 };
    double batch =
        (double)product_of(dot->operands[0]->shape, instr_ints(dot, ATTR_LHS_BATCH_DIMS));
    double terms =
        (double)product_of(dot->operands[0]->shape, instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS));
    double left = (double)dot->operands[0]->shape->count / (batch * terms);
    double right = (double)dot->operands[1]->shape->count / (batch * terms);
    if (!keeps_batch_inside(dot) && terms < LEAST_TERMS) return false;
    return batch >= LEAST_BATCH && left * right <= MOST_SIDE * (left + right);
}

/* Whether a transpose that reads the result wants the right side's own dims before the left's. */
static bool is_read_turned(const struct hlo_instr *dot, int nbatch, int left) {
    const struct hlo_instr *user = instr_has_one_user(dot) ? dot->users->user : NULL;
    return user && user->opcode == OP_TRANSPOSE && left > 0 && left + nbatch < dot->shape->rank &&
           instr_ints(user, ATTR_DIMENSIONS).v[0] == nbatch + left;
}

static struct hlo_instr *sum_in_vectors(struct pass_context *context, struct hlo_instr *dot) {
    const struct shape *result = dot->shape;
    if (dot->noperands != 2 || instr_attr(dot, ATTR_SPARSITY) || shape_is_dynamic(result) ||
        result->rank == SHAPE_MAX_RANK || !has_batch_inside(dot) || !suits_vectors(dot))
        return NULL;
    MAY_REWRITE(context);
    const struct shape *lhs = dot->operands[0]->shape;
    int nbatch = instr_ints(dot, ATTR_LHS_BATCH_DIMS).count, own = result->rank - nbatch;
    int left = lhs->rank - nbatch - 1, right = own - left;
    bool turned = is_read_turned(dot, nbatch, left);
    int64_t dims[SHAPE_MAX_RANK], sums[SHAPE_MAX_RANK], order[SHAPE_MAX_RANK];
    /* Dim d of the result is at order[d] of the sums. */
    for (int d = 0; d < result->rank; d++) {
        int64_t at = d < nbatch ? own + d : d - nbatch;
        if (turned && d >= nbatch) at = at < left ? at + right : at - left;
        order[d] = at;
        sums[at] = result->dims[d];
        dims[at < own ? at : at + 1] = result->dims[d];
    }
    dims[own] = lhs->dims[instr_ints(dot, ATTR_LHS_CONTRACTING_DIMS).v[0]];
    const struct shape *all = rewrite_array(dot, result->type, result->rank + 1, dims);
    struct hlo_instr *a = spread_inside(dot, 0, turned ? right : 0, all);
    struct hlo_instr *b = spread_inside(dot, 1, turned ? 0 : left, all);
    struct hlo_instr *product = rewrite_binary(dot, OP_MULTIPLY, all, a, b);
    const struct shape *shape = rewrite_array(dot, result->type, result->rank, sums);
    struct hlo_instr *sum = rewrite_sum(dot, product, own, shape);
    struct hlo_instr *moved = rewrite_unary(dot, OP_TRANSPOSE, result, sum);
    instr_set_ints(moved, ATTR_DIMENSIONS, result->rank, order);
    return moved;
}

/* Those that sum one element are gone by then. */
static struct hlo_instr *reduce_dot(struct pass_context *context, struct hlo_instr *dot) {
    struct hlo_instr *with = multiply_instead(context, dot);
    return with ? with : sum_in_vectors(context, dot);
}

static const struct rewrite rewrites[] = {{OP_DOT, reduce_dot}};

bool dot_strength_reducer_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, 1);
}
