/* Products that sum nothing, or one element: a multiplication of what both sides spread, which
 * fuses with whatever is around it. Only for targets on which both are as exact: a matrix unit
 * rounds the operands of a dot, and not those of a multiplication. */
#include "passes/rewrite.h"

static int64_t product_of(const struct shape *shape, struct int_list dims) {
    int64_t count = 1;
    for (int i = 0; i < dims.count; i++)
        count *= shape->dims[dims.v[i]];
    return count;
}

/* One side of the product, at the place of each element of the result: batch dims, then, from
 * result dim `first`, the side's own. */
static struct hlo_instr *spread(struct hlo_instr *dot, int side, int first) {
    static const enum attr_key contracting[2] = {ATTR_LHS_CONTRACTING_DIMS,
                                                 ATTR_RHS_CONTRACTING_DIMS};
    static const enum attr_key batch[2] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};
    struct hlo_instr *operand = dot->operands[side];
    const struct shape *shape = operand->shape;
    struct int_list c = instr_ints(dot, contracting[side]), b = instr_ints(dot, batch[side]);
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

static const struct rewrite rewrites[] = {{OP_DOT, multiply_instead}};

bool dot_strength_reducer_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, 1);
}
