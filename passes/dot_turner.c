/* A dot that only another dot reads may have its sides the other way round: the reader numbers its
 * dims accordingly. Memory wants four things: the left side summed along what lies side by side,
 * the right side not, no batch whose elements lie side by side, and sums over several dims that
 * both sides have in one order. */
#include "passes/dot_sides.h"

/* Where the dims of the turned dot's result are those of the dot's. */
static void turned_order(const struct hlo_instr *dot, int64_t *order) {
    int nbatch = instr_ints(dot, dot_batch[0]).count, rank = dot->shape->rank;
    int left = dot->operands[0]->shape->rank - nbatch - instr_ints(dot, dot_contracting[0]).count;
    for (int d = 0; d < rank; d++)
        order[d] = d < nbatch ? d : d < nbatch + left ? d + rank - nbatch - left : d - left;
}

/* The last of an operand's dims that has several elements; -1: none. */
static int innermost(const struct shape *shape, const int64_t *order) {
    int found = -1;
    for (int d = 0; d < shape->rank; d++)
        if (shape->dims[d] > 1 && (found < 0 || (order ? order[d] > order[found] : d > found)))
            found = d;
    return found;
}

/* What an operand costs on this side of the dot, in moves of an element, by what its innermost dim
 * is. */
static double side_cost(const struct hlo_instr *dot, int operand, int side, const int64_t *order) {
    enum { BATCH = 8, LEFT = 2, RIGHT = 1 };
    const struct shape *shape = dot->operands[operand]->shape;
    int inner = innermost(shape, order);
    double count = (double)shape->count;
    if (inner < 0) return 0;
    if (int_list_has(instr_ints(dot, dot_batch[operand]), inner)) return BATCH * count;
    bool sums = int_list_has(instr_ints(dot, dot_contracting[operand]), inner);
    if (side == 0) return sums ? 0 : LEFT * count;
    return sums ? RIGHT * count : 0;
}

/* The same of a dot that sums over dims which its sides have in different orders. */
static double order_cost(const struct hlo_instr *dot, int side, const int64_t *order) {
    enum { DISORDER = 4 };
    struct int_list here = instr_ints(dot, dot_contracting[side]);
    struct int_list there = instr_ints(dot, dot_contracting[1 - side]);
    bool differ = false;
    for (int i = 0; i < here.count; i++)
        for (int j = 0; j < i; j++) {
            int64_t a = here.v[i], b = here.v[j];
            bool behind = order ? order[a] > order[b] : a > b;
            differ = differ || behind != (there.v[i] > there.v[j]);
        }
    return differ ? DISORDER * (double)dot->operands[1 - side]->shape->count : 0;
}

static bool gains(const struct hlo_instr *reader, int side, const int64_t *order) {
    const struct hlo_instr *dot = reader->operands[side];
    double now = side_cost(reader, side, side, NULL) + order_cost(reader, side, NULL);
    double then = side_cost(reader, side, side, order) + order_cost(reader, side, order);
    for (int i = 0; i < 2; i++) {
        now += side_cost(dot, i, i, NULL);
        then += side_cost(dot, i, 1 - i, NULL);
    }
    return then < 0.75 * now;
}

static struct hlo_instr *turn_operand(struct pass_context *context, struct hlo_instr *reader) {
    if (reader->noperands != 2 || instr_attr(reader, ATTR_SPARSITY)) return NULL;
    for (int side = 0; side < 2; side++) {
        struct hlo_instr *dot = reader->operands[side];
        int64_t order[SHAPE_MAX_RANK], dims[SHAPE_MAX_RANK];
        if (!dot_may_swap(dot)) continue;
        turned_order(dot, order);
        if (!dot_keeps_order(reader, side, order) || !gains(reader, side, order)) continue;
        MAY_REWRITE(context);
        for (int d = 0; d < dot->shape->rank; d++)
            dims[order[d]] = dot->shape->dims[d];
        const struct shape *shape = rewrite_array(dot, dot->shape->type, dot->shape->rank, dims);
        return dot_of_other(reader, side, dot_swapped(dot, dot, shape), order);
    }
    return NULL;
}

static const struct rewrite rewrites[] = {{OP_DOT, turn_operand}};

bool dot_turner_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, 1);
}
