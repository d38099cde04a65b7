/* Splits a large product of one row and a matrix whose rows lie one after the other: parts of the
 * sum become a batch of products, added up afterwards. The parts are independent work for threads,
 * each on memory of its own from end to end; parts of the columns would be short runs of memory.
 * Their number depends on the sizes alone, and so does the result. */
#include "passes/dot_sides.h"

enum {
    LEAST_BYTES = 1 << 20,
    LEAST_PARTS = 4,
    MOST_PARTS = 16,
    LEAST_ROWS = 16,
    LEAST_COLUMNS = 64
};

static int64_t parts_of(int64_t rows) {
    for (int64_t parts = MOST_PARTS; parts >= LEAST_PARTS; parts--)
        if (rows % parts == 0 && rows / parts >= LEAST_ROWS) return parts;
    return 0;
}

/* The side that is the matrix; -1: neither. */
static int matrix_side(const struct hlo_instr *dot) {
    for (int side = 0; side < 2; side++) {
        const struct shape *matrix = dot->operands[side]->shape;
        const struct shape *row = dot->operands[1 - side]->shape;
        struct int_list c = instr_ints(dot, dot_contracting[side]);
        if (c.count == 1 && c.v[0] == 0 && matrix->rank >= 2 && matrix->rank < SHAPE_MAX_RANK &&
            row->count == matrix->dims[0] && matrix->bytes >= LEAST_BYTES &&
            matrix->count / matrix->dims[0] >= LEAST_COLUMNS)
            return side;
    }
    return -1;
}

static bool is_plain(const struct hlo_instr *dot) {
    if (dot->noperands != 2 || instr_attr(dot, ATTR_SPARSITY) || dot->ncontrol ||
        dot->is_control_predecessor || dot->shape->type != TYPE_F32 || shape_is_dynamic(dot->shape))
        return false;
    for (int side = 0; side < 2; side++)
        if (instr_ints(dot, dot_batch[side]).count ||
            shape_is_dynamic(dot->operands[side]->shape) ||
            !element_type_is_float(dot->operands[side]->shape->type) ||
            dot->operands[side]->shape->count == 0)
            return false;
    return true;
}

static struct hlo_instr *split(struct pass_context *context, struct hlo_instr *dot) {
    int side = is_plain(dot) ? matrix_side(dot) : -1;
    if (side < 0) return NULL;
    const int64_t zero = 0, one = 1;
    const struct shape *matrix = dot->operands[side]->shape;
    const struct shape *row = dot->operands[1 - side]->shape;
    int64_t dims[SHAPE_MAX_RANK], rows = matrix->dims[0], parts = parts_of(rows);
    if (parts == 0) return NULL;
    MAY_REWRITE(context);
    dims[0] = parts;
    dims[1] = rows / parts;
    for (int d = 1; d < matrix->rank; d++)
        dims[d + 1] = matrix->dims[d];
    struct hlo_instr *operands[2];
    operands[side] =
        rewrite_unary(dot, OP_RESHAPE, rewrite_array(dot, matrix->type, matrix->rank + 1, dims),
                      dot->operands[side]);
    operands[1 - side] = rewrite_unary(dot, OP_RESHAPE, rewrite_array(dot, row->type, 2, dims),
                                       dot->operands[1 - side]);
    /* Without the rows: the parts, then the columns. */
    dims[1] = parts;
    struct hlo_instr *partial =
        rewrite_binary(dot, OP_DOT, rewrite_array(dot, dot->shape->type, matrix->rank, dims + 1),
                       operands[0], operands[1]);
    for (int s = 0; s < 2; s++) {
        instr_set_ints(partial, dot_batch[s], 1, &zero);
        instr_set_ints(partial, dot_contracting[s], 1, &one);
    }
    const struct hlo_attr *precision = instr_attr(dot, ATTR_OPERAND_PRECISION);
    if (precision) instr_set_attr(partial, precision);
    struct hlo_instr *sum = rewrite_sum(
        dot, partial, 0, rewrite_array(dot, dot->shape->type, matrix->rank - 1, dims + 2));
    return rewrite_unary(dot, OP_RESHAPE, dot->shape, sum);
}

static const struct rewrite rewrites[] = {{OP_DOT, split}};

bool dot_splitter_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, 1);
}
