/* Which dimension runs along the lanes, and which along the rows, is one decision for all kernels
 * that give each other whole arrays: a group. Every group tries all pairs of dimensions and takes
 * the one with the least cycles, counted roughly: registers that its kernels go over, what must be
 * turned at its borders, bytes of HBM. It stays row-major unless there is something to win. */
#include "backend/tpu/layout_assignment.h"

#include <stdlib.h>
#include <string.h>

#include "backend/tpu/product.h"
#include "backend/tpu/space.h"
#include "passes/dataflow.h"
#include "passes/util.h"

/* Cycles, about. */
static const double KERNEL_COST = 150;      /* of a copy, beside what it moves */
static const double FAR_COST = 500;         /* and where it comes from HBM */
static const double HBM_BYTES = 400;        /* a cycle */
static const double TURN_COST = 24;         /* of a square of 128 x 128, beside its rows */
static const double PICK_COST = 2;          /* of a register whose lanes are permuted */
static const double FETCH_TURNED_COST = 80; /* of one that is turned on its own */
static const double ROW_BY_ROW_COST = 2000; /* of one that is put together from HBM or from parts */
static const double IMPOSSIBLE = 1e15;
/* What a change must save, and the part of the whole that it must: these are estimates. */
static const double LEAST_GAIN = 200, GAIN_FACTOR = 0.9;

struct kernel_node {
    struct space space;
    int order[SPACE_MOST_RANK]; /* of the space, minor to major */
    int best[SPACE_MOST_RANK];
    int group;                  /* -1: none yet */
    int canon[SPACE_MOST_RANK]; /* dimension of the group by that of the space; -1: none */
};

struct assigner {
    struct arena *arena;
    struct hlo_module *module;
    const struct tpu_compile_options *options;
    struct kernel_node *kernel;
    int count, capacity;
    int *kernel_of; /* by instruction id; -1: none */
    int nids;
    int *group, ngroup; /* kernels of the group at work */
    bool states_result; /* the program states a result that is not row-major */
};

/* ---- orders ---- */

static void copy_order(int *to, const int *from, int rank) {
    memcpy(to, from, sizeof *to * (size_t)rank);
}

static void shape_order(const struct shape *shape, int *order) {
    for (int i = 0; i < shape->rank; i++)
        order[i] = shape_minor_to_major(shape, i);
}

static void row_major_order(int rank, int *order) {
    for (int i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
}

static bool same_order(const int *a, const int *b, int rank) {
    return rank == 0 || memcmp(a, b, sizeof *a * (size_t)rank) == 0;
}

static struct kernel_node *kernel_at(const struct assigner *x, const struct hlo_instr *instr) {
    int id = instr->id < x->nids ? x->kernel_of[instr->id] : -1;
    return id < 0 ? NULL : &x->kernel[id];
}

/* The kernel that an array comes from, and the leaf that it is; NULL: none that chooses an order.
 */
static struct kernel_node *source_of(const struct assigner *x, const struct hlo_instr *instr,
                                     int *leaf) {
    *leaf = 0;
    if (instr->opcode != OP_GET_TUPLE_ELEMENT) return kernel_at(x, instr);
    *leaf = (int)instr_int(instr, ATTR_INDEX, 0);
    return kernel_at(x, instr->operands[0]);
}

static const struct space_array *result_array(const struct space *space, int leaf) {
    for (int i = 0; i < space->count; i++)
        if (space->array[i].operand < 0 && space->array[i].leaf == leaf) return &space->array[i];
    return NULL;
}

/* The order that an array has by what has been chosen so far. */
static void order_of(const struct assigner *x, const struct hlo_instr *instr, int *order) {
    int leaf;
    const struct kernel_node *kernel = source_of(x, instr, &leaf);
    const struct space_array *array = kernel ? result_array(&kernel->space, leaf) : NULL;
    if (array)
        space_order_of(&kernel->space, array, kernel->order, order);
    else
        shape_order(instr->shape, order);
}

/* ---- costs ---- */

/* Registers of 8 x 128 places. */
static double registers_of(const struct shape *shape, const int *order) {
    double registers = 1;
    if (shape->rank == 0) return 1;
    if (shape->rank == 1)
        return (double)ceil_div(shape->dims[0], (int64_t)TPU_SUBLANES * TPU_LANES);
    for (int i = 2; i < shape->rank; i++)
        registers *= (double)shape->dims[order[i]];
    return registers * ceil_div(shape->dims[order[0]], TPU_LANES) *
           ceil_div(shape->dims[order[1]], TPU_SUBLANES);
}

static bool is_renamed(const struct shape *shape, const int *from, const int *to) {
    struct tpu_layout a, b;
    return same_order(from, to, shape->rank) ||
           (tpu_layout_with_order(&a, shape, from) && tpu_layout_with_order(&b, shape, to) &&
            tpu_layout_same_places(&a, NULL, &b, NULL));
}

static bool is_far(const struct hlo_instr *instr) {
    while (instr->opcode == OP_GET_TUPLE_ELEMENT)
        instr = instr->operands[0];
    return instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT;
}

/* Of a copy from one order to another: lower_transpose does it, in VMEM, for elements of 32 bits.
 */
static double turning_cost(const struct assigner *x, const struct shape *shape, const int *from,
                           const int *to) {
    struct tpu_layout a, b;
    if (is_renamed(shape, from, to)) return 0;
    if (!tpu_layout_with_order(&a, shape, from) || !tpu_layout_with_order(&b, shape, to))
        return IMPOSSIBLE;
    if (a.bytes + b.bytes > x->options->chip.vmem_bytes / 2)
        return ROW_BY_ROW_COST * (registers_of(shape, from) + registers_of(shape, to));
    if (from[0] == to[0]) return KERNEL_COST + 4 * registers_of(shape, to); /* or by DMA */
    if (a.packing > 1) return ROW_BY_ROW_COST * registers_of(shape, to);
    double in = (double)shape->dims[from[0]], out = (double)shape->dims[to[0]];
    double pushed = (out < TPU_LANES ? out : TPU_LANES) / TPU_SUBLANES;
    double popped = (in < TPU_LANES ? in : TPU_LANES) / TPU_SUBLANES;
    double squares = (double)ceil_div(shape->dims[from[0]], TPU_LANES) *
                     ceil_div(shape->dims[to[0]], TPU_LANES) * a.planes *
                     ((double)shape->count / (in * out));
    return KERNEL_COST + squares * (TURN_COST + 1.5 * (pushed + popped));
}

static double copy_cost(const struct assigner *x, const struct hlo_instr *instr, const int *from,
                        const int *to) {
    if (instr->opcode == OP_CONSTANT) return 0; /* written in any order */
    double cost = turning_cost(x, instr->shape, from, to);
    return cost > 0 && is_far(instr) ? cost + FAR_COST : cost;
}

/* Of reading part of the space from an array whose order is not the space's: for each register. */
static double fetch_cost(const struct kernel_node *kernel, const struct space_array *array,
                         const int *order) {
    int lane = kernel->order[0], own = array->dim[order[0]];
    double cost = own == lane ? 0 : PICK_COST;
    for (int d = 0; d < array->shape->rank; d++)
        if (array->dim[d] == lane && d != order[0]) cost = FETCH_TURNED_COST;
    return cost * registers_of(kernel->space.shape, kernel->order);
}

/* Whether a kernel wants an operand in the order of its space: else it reads it as it is. */
static bool wants_order(const struct assigner *x, const struct kernel_node *kernel,
                        const struct space_array *array, const int *from, const int *to,
                        double *cost) {
    const struct hlo_instr *operand = kernel->space.instr->operands[array->operand];
    double copied = copy_cost(x, operand, from, to);
    *cost = copied;
    if (kernel->space.kind != SPACE_PLAIN) return false;
    if (array->full) return copied < ROW_BY_ROW_COST * registers_of(array->shape, to);
    double fetched = fetch_cost(kernel, array, from);
    if (copied <= fetched) return true;
    *cost = fetched;
    return false;
}

/* Folded dimensions that have places stand within the others. */
static bool is_trailing(const struct kernel_node *kernel) {
    const struct shape *shape = kernel->space.shape;
    bool kept = false;
    for (int i = 0; i < shape->rank; i++) {
        int d = kernel->order[i];
        int64_t unit = shape->rank < 2 || i > 1 ? 1 : i == 0 ? TPU_LANES : TPU_SUBLANES;
        if (shape->dims[d] <= unit) continue;
        if (kept && kernel->space.folded[d]) return false;
        kept |= !kernel->space.folded[d];
    }
    return true;
}

static double padded_bytes(const struct shape *shape, const int *order) {
    struct tpu_layout layout;
    return tpu_layout_with_order(&layout, shape, order) ? (double)layout.bytes : IMPOSSIBLE;
}

/* What passes between the kernel and HBM, because it is far or too large to stay near. */
static double traffic_cost(const struct assigner *x, const struct shape *shape, const int *order,
                           bool far) {
    double bytes = padded_bytes(shape, order);
    return far || bytes > (double)x->options->chip.vmem_bytes / 8 ? bytes / HBM_BYTES : 0;
}

/* One place moves at most to another name: no work. */
static bool moves_nothing(const struct space *space, const int *from, const int *to) {
    struct tpu_layout a, b;
    int64_t strides[SHAPE_MAX_RANK], own[SHAPE_MAX_RANK];
    const struct shape *shape = space->array[1].shape;
    if (space->kind == SPACE_PLAIN || space->kind == SPACE_COPIED || space->count != 2)
        return false;
    if (!tpu_layout_with_order(&a, shape, from) ||
        !tpu_layout_with_order(&b, space->array[0].shape, to))
        return false;
    shape_row_major(space->array[0].shape, strides);
    for (int d = 0; d < shape->rank; d++)
        own[d] = space->array[1].dim[d] < 0 ? 1 : strides[space->array[1].dim[d]];
    return tpu_layout_same_places(&a, space->kind == SPACE_MOVED ? own : NULL, &b, NULL);
}

/* Whether the group's minor dimension that has places is `dim`. */
static bool is_innermost(const struct shape *shape, int first, int end, int dim) {
    while (end > first && shape->dims[end - 1] == 1)
        end--;
    return end > first && end - 1 == dim;
}

/* Of a reshape that divides dimensions anew, from one order to another: for each register. Lanes
 * come from lanes, piece by piece, and rows from rows, or many rows are looked at. */
static double divided_cost(const struct kernel_node *kernel, const int *from) {
    static const double SAME = 4, APART = 8, PIECE = 5, ROWS = 40, SCATTERED = 200;
    const struct shape *to_shape = kernel->space.shape, *from_shape = kernel->space.array[1].shape;
    int lane = kernel->order[0], row = to_shape->rank > 1 ? kernel->order[1] : -1;
    double cost = SCATTERED;
    bool rows_alike = row < 0 || to_shape->dims[row] == 1;
    struct reshape_group g = {0};
    while (reshape_next_group(&g, to_shape, from_shape)) {
        bool single = g.to_end == g.to + 1 && g.from_end == g.from + 1;
        if (row >= g.to && row < g.to_end && single) rows_alike = true;
        if (lane < g.to || lane >= g.to_end || from[0] < g.from || from[0] >= g.from_end) continue;
        if (!is_innermost(to_shape, g.to, g.to_end, lane) ||
            !is_innermost(from_shape, g.from, g.from_end, from[0]))
            continue;
        if (row >= g.to && row < g.to_end && to_shape->dims[row] > 1) continue;
        int64_t into = to_shape->dims[lane], out_of = from_shape->dims[from[0]];
        cost = into == out_of ? SAME : into < out_of ? APART : PIECE * ceil_div(TPU_LANES, out_of);
    }
    return cost + (rows_alike ? 0 : ROWS);
}

static double kernel_cost(const struct assigner *x, const struct kernel_node *kernel) {
    const struct space *space = &kernel->space;
    int from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    double registers = registers_of(space->shape, kernel->order);
    double cost = registers * (1 + 0.6 * space->operations);
    if (space->needs_unit && !is_trailing(kernel)) return IMPOSSIBLE;
    for (int i = 0; i < space->count; i++) {
        const struct space_array *array = &space->array[i];
        bool far = false;
        space_order_of(space, array, kernel->order, to);
        if (array->operand >= 0) {
            const struct hlo_instr *operand = space->instr->operands[array->operand];
            double moved;
            order_of(x, operand, from);
            far = is_far(operand);
            if (moves_nothing(space, from, kernel->order)) return 0;
            if (space->kind == SPACE_DIVIDED) {
                cost += registers * divided_cost(kernel, from);
                continue;
            }
            if (!same_order(from, to, array->shape->rank)) {
                bool wanted = wants_order(x, kernel, array, from, to, &moved);
                cost += moved;
                if (!wanted) copy_order(to, from, array->shape->rank);
            }
        }
        if (array->full) cost += registers + traffic_cost(x, array->shape, to, far);
    }
    return cost;
}

/* ---- uses ---- */

/* The order that an instruction which is no kernel of ours wants of an operand. */
static void wanted_order(const struct assigner *x, const struct hlo_instr *user, int operand,
                         int *order) {
    const struct shape *shape = user->operands[operand]->shape;
    const struct hlo_computation *entry = x->module->entry;
    const struct shape *stated = x->module->entry_result;
    row_major_order(shape->rank, order);
    if (user == entry->root && user->opcode == OP_TUPLE && stated)
        shape_order(stated->tuple[operand], order);
}

static double root_cost(const struct assigner *x, const struct hlo_instr *instr) {
    int from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    const struct hlo_computation *computation = instr->parent;
    if (computation->root != instr || !shape_is_array(instr->shape)) return 0;
    order_of(x, instr, from);
    row_major_order(instr->shape->rank, to);
    if (computation == x->module->entry && x->module->entry_result)
        shape_order(x->module->entry_result, to);
    return copy_cost(x, instr, from, to);
}

/* Large matrices stream from HBM as they lie, row-major. */
static bool takes_any_order(const struct assigner *x, const struct hlo_instr *dot, int side) {
    struct product product;
    if (dot->operands[side]->shape->rank > 2) return true;
    return product_find(&product, dot, x->options) &&
           !product_is_matmul(&product, &x->options->chip);
}

/* The dot that an operand goes into as it is, or converted, in any order; NULL: none, or it is
 * wanted otherwise too. `*side`: which of the dot's operands it is. */
static const struct hlo_instr *dot_of(const struct assigner *x, const struct hlo_instr *user,
                                      int operand, int *side) {
    const struct hlo_instr *at = user;
    *side = operand;
    if (user->opcode == OP_FUSION) {
        at = user->called[0]->parameters[operand];
        do {
            const struct hlo_use *use = at->users;
            if (!use || use->next) return NULL;
            at = use->user;
            *side = use->index;
        } while (at->opcode == OP_CONVERT);
    }
    return at->opcode == OP_DOT && takes_any_order(x, at, *side) ? at : NULL;
}

/* How a dot likes an operand best: batches outermost. */
static void dot_order(const struct hlo_instr *dot, int side, int *order) {
    struct int_list batch = instr_ints(dot, side ? ATTR_RHS_BATCH_DIMS : ATTR_LHS_BATCH_DIMS);
    int n = 0;
    for (int d = dot->operands[side]->shape->rank - 1; d >= 0; d--)
        if (!int_list_has(batch, d)) order[n++] = d;
    for (int i = batch.count - 1; i >= 0; i--)
        order[n++] = (int)batch.v[i];
}

/* It takes any other, for more than it takes to go over it. */
static double dot_cost(const struct hlo_instr *dot, int side, const int *from) {
    static const double ROWS = 10, LANES = 40;
    const struct shape *shape = dot->operands[side]->shape;
    int order[SHAPE_MAX_RANK];
    dot_order(dot, side, order);
    double registers = registers_of(shape, from);
    if (is_renamed(shape, from, order)) return registers;
    return registers * (1 + (from[0] == order[0] ? ROWS : LANES));
}

/* What a value costs the instructions that want it in an order of theirs; the kernels outside of
 * the group that read it are counted with what they read. */
static double uses_cost(const struct assigner *x, const struct hlo_instr *instr, int group) {
    int from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    double cost = root_cost(x, instr);
    bool paid = false;
    const struct hlo_instr *dot;
    int side;
    order_of(x, instr, from);
    for (const struct hlo_use *use = instr->users; use; use = use->next) {
        const struct kernel_node *kernel = kernel_at(x, use->user);
        if (use->user->opcode == OP_GET_TUPLE_ELEMENT) {
            if (shape_is_array(use->user->shape)) cost += uses_cost(x, use->user, group);
        } else if (kernel) {
            if (kernel->group != group) cost += kernel_cost(x, kernel);
        } else if ((dot = dot_of(x, use->user, use->index, &side))) {
            cost += dot_cost(dot, side, from);
        } else if (!paid) {
            wanted_order(x, use->user, use->index, to);
            cost += copy_cost(x, instr, from, to);
            paid = true;
        }
    }
    return cost;
}

/* ---- groups ---- */

static bool maps_all(const struct kernel_node *kernel) {
    for (int d = 0; d < kernel->space.shape->rank; d++)
        if (kernel->space.shape->dims[d] > 1 && kernel->canon[d] < 0) return false;
    return true;
}

/* The kernel joins with the dimensions that it has in common with another by an array of both. */
static bool join(struct assigner *x, int group, struct kernel_node *to,
                 const struct space_array *to_array, const struct kernel_node *from,
                 const struct space_array *from_array) {
    if (to->group >= 0 || !to_array || !to_array->full) return false;
    for (int d = 0; d < to->space.shape->rank; d++)
        to->canon[d] = -1;
    for (int d = 0; d < to_array->shape->rank; d++) {
        int own = to_array->dim[d], other = from_array->dim[d];
        if (own >= 0 && other >= 0) to->canon[own] = from->canon[other];
    }
    if (!maps_all(to)) return false;
    to->group = group;
    x->group[x->ngroup++] = (int)(to - x->kernel);
    return true;
}

static void join_users(struct assigner *x, const struct kernel_node *kernel,
                       const struct hlo_instr *value, const struct space_array *array) {
    for (const struct hlo_use *use = value->users; use; use = use->next) {
        struct kernel_node *user = kernel_at(x, use->user);
        if (use->user->opcode == OP_GET_TUPLE_ELEMENT && value == kernel->space.instr) {
            int leaf = (int)instr_int(use->user, ATTR_INDEX, 0);
            array = result_array(&kernel->space, leaf);
            if (array) join_users(x, kernel, use->user, array);
        }
        for (int i = 0; user && i < user->space.count; i++)
            if (user->space.array[i].operand == use->index)
                join(x, kernel->group, user, &user->space.array[i], kernel, array);
    }
}

/* All kernels that give it whole arrays, or get some, and theirs. */
static void collect_group(struct assigner *x, struct kernel_node *seed, int group) {
    x->ngroup = 0;
    x->group[x->ngroup++] = (int)(seed - x->kernel);
    seed->group = group;
    for (int d = 0; d < seed->space.shape->rank; d++)
        seed->canon[d] = d;
    for (int n = 0; n < x->ngroup; n++) {
        struct kernel_node *kernel = &x->kernel[x->group[n]];
        const struct space *space = &kernel->space;
        for (int i = 0; i < space->count; i++) {
            const struct space_array *array = &space->array[i];
            int leaf;
            if (array->operand < 0) {
                if (array->leaf == 0) join_users(x, kernel, space->instr, array);
                continue;
            }
            struct kernel_node *source =
                source_of(x, space->instr->operands[array->operand], &leaf);
            if (source) join(x, group, source, result_array(&source->space, leaf), kernel, array);
        }
    }
}

/* The orders that the group's kernels have by one of its dimensions. */
static void set_group(struct assigner *x, const int *canon, int rank) {
    for (int n = 0; n < x->ngroup; n++) {
        struct kernel_node *kernel = &x->kernel[x->group[n]];
        const struct shape *shape = kernel->space.shape;
        int count = 0;
        for (int i = 0; i < rank; i++)
            for (int d = shape->rank - 1; d >= 0; d--)
                if (kernel->canon[d] == canon[i]) kernel->order[count++] = d;
        for (int d = shape->rank - 1; d >= 0; d--)
            if (kernel->canon[d] < 0) kernel->order[count++] = d;
    }
}

static double group_cost(const struct assigner *x) {
    double cost = 0;
    for (int n = 0; n < x->ngroup && cost < IMPOSSIBLE; n++) {
        const struct kernel_node *kernel = &x->kernel[x->group[n]];
        cost += kernel_cost(x, kernel) + uses_cost(x, kernel->space.instr, kernel->group);
    }
    return cost;
}

static bool is_row_major(const struct shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (shape_minor_to_major(shape, i) != shape->rank - 1 - i) return false;
    return true;
}

/* A good part of the registers is padding, or something is to be in another order. */
static bool may_gain(const struct assigner *x) {
    double registers = 0, least = 0;
    for (int n = 0; n < x->ngroup; n++) {
        const struct space *space = &x->kernel[x->group[n]].space;
        if (space->kind == SPACE_MOVED || space->kind == SPACE_DIVIDED) return true;
        registers += registers_of(space->shape, x->kernel[x->group[n]].order);
        least += ceil_div(space->shape->count, (int64_t)TPU_SUBLANES * TPU_LANES);
        for (int i = 0; i < space->count; i++) {
            int operand = space->array[i].operand;
            if (operand >= 0 && !is_row_major(space->instr->operands[operand]->shape)) return true;
        }
    }
    return x->states_result || registers > 1.2 * least;
}

static void keep_best(struct assigner *x) {
    for (int n = 0; n < x->ngroup; n++) {
        struct kernel_node *kernel = &x->kernel[x->group[n]];
        copy_order(kernel->best, kernel->order, kernel->space.shape->rank);
    }
}

/* Tries an order of the group's dimensions; the cost to get below becomes its cost. */
static void try_order(struct assigner *x, const int *order, int rank, double *most) {
    set_group(x, order, rank);
    double cost = group_cost(x);
    if (cost >= *most) return;
    *most = cost;
    keep_best(x);
}

/* Row-major with dimensions of one place outermost, then each pair of dimensions as lanes and rows,
 * the others in their order. */
static void choose_order(struct assigner *x) {
    int rank = x->kernel[x->group[0]].space.shape->rank, order[SPACE_MOST_RANK];
    keep_best(x);
    double most = group_cost(x);
    row_major_order(rank, order);
    try_order(x, order, rank, &most);
    most = GAIN_FACTOR * most - LEAST_GAIN;
    for (int lane = 0; lane < rank; lane++) {
        for (int row = 0; row < rank; row++) {
            int count = 0;
            if (row == lane) continue;
            order[count++] = lane;
            order[count++] = row;
            for (int d = rank - 1; d >= 0; d--)
                if (d != lane && d != row) order[count++] = d;
            try_order(x, order, rank, &most);
        }
    }
    for (int n = 0; n < x->ngroup; n++) {
        struct kernel_node *kernel = &x->kernel[x->group[n]];
        copy_order(kernel->order, kernel->best, kernel->space.shape->rank);
    }
}

static int by_size(const void *a, const void *b) {
    const struct kernel_node *x = *(struct kernel_node *const *)a;
    const struct kernel_node *y = *(struct kernel_node *const *)b;
    if (x->space.shape->count != y->space.shape->count)
        return x->space.shape->count > y->space.shape->count ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void choose_orders(struct assigner *x) {
    struct kernel_node **sorted = arena_array(x->arena, (size_t)x->count + 1, sizeof *sorted);
    for (int i = 0; i < x->count; i++)
        sorted[i] = &x->kernel[i];
    qsort(sorted, (size_t)x->count, sizeof(struct kernel_node *), by_size);
    for (int i = 0; i < x->count; i++) {
        if (sorted[i]->group >= 0) continue;
        collect_group(x, sorted[i], i);
        if (sorted[i]->space.shape->rank > 1 && may_gain(x)) choose_order(x);
    }
}

/* ---- the change ---- */

/* An array in an order, by what it was made from. */
struct copied {
    struct hlo_instr *from;
    struct hlo_instr *to;
    struct copied *next;
};

struct rewriter {
    const struct assigner *x;
    struct copied **copies; /* by instruction id of what they were made from */
};

static struct hlo_instr *find_copy(const struct rewriter *r, const struct hlo_instr *from,
                                   const struct shape *shape) {
    if (from->id >= r->x->nids) return NULL;
    for (struct copied *c = r->copies[from->id]; c; c = c->next)
        if (c->to->shape == shape) return c->to;
    return NULL;
}

/* The array with another order: the constant written so, another name, or a copy. */
static struct hlo_instr *in_order(struct rewriter *r, struct hlo_instr *instr, const int *order,
                                  struct hlo_instr *before) {
    const struct shape *shape = shape_in_order(r->x->module, instr->shape, order);
    int own[SHAPE_MAX_RANK];
    shape_order(instr->shape, own);
    if (same_order(own, order, shape->rank)) return instr;
    struct hlo_instr *copy = find_copy(r, instr, shape);
    if (copy) return copy;
    if (instr->opcode == OP_CONSTANT)
        copy = instr_clone(instr, before->parent, before, shape, NULL);
    else
        copy =
            instr_new(before->parent, before, is_renamed(shape, own, order) ? OP_BITCAST : OP_COPY,
                      shape, NULL, 1, &instr);
    copy->metadata = instr->metadata;
    copy->loc = instr->loc;
    if (instr->id < r->x->nids) {
        struct copied *entry = arena_alloc(r->x->arena, sizeof *entry);
        *entry = (struct copied){instr, copy, r->copies[instr->id]};
        r->copies[instr->id] = entry;
    }
    return copy;
}

static const struct shape *with_leaf(struct hlo_module *module, const struct shape *shape, int leaf,
                                     const int *order) {
    if (!shape_is_tuple(shape)) return shape_in_order(module, shape, order);
    const struct shape **elements =
        arena_array(module->arena, (size_t)shape->ntuple + 1, sizeof *elements);
    for (int i = 0; i < shape->ntuple; i++)
        elements[i] = shape->tuple[i];
    elements[leaf] = shape_in_order(module, shape->tuple[leaf], order);
    return shape_tuple(module->shapes, shape->ntuple, elements);
}

/* Operands in the orders that the kernel wants, results in its own. */
static void rewrite_kernel(struct rewriter *r, struct kernel_node *kernel) {
    struct space *space = &kernel->space;
    struct hlo_instr *instr = space->instr;
    int from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    bool *done = arena_array(r->x->arena, (size_t)instr->noperands + 1, sizeof *done);
    for (int i = 0; i < space->count; i++) {
        const struct space_array *array = &space->array[i];
        space_order_of(space, array, kernel->order, to);
        if (array->operand < 0) {
            instr->shape = with_leaf(r->x->module, instr->shape, array->leaf, to);
            continue;
        }
        struct hlo_instr *operand = instr->operands[array->operand];
        double cost;
        shape_order(operand->shape, from);
        if (done[array->operand] || same_order(from, to, operand->shape->rank) ||
            !wants_order(r->x, kernel, array, from, to, &cost))
            continue;
        done[array->operand] = true; /* read in two ways: one of them */
        instr_set_operand(instr, array->operand, in_order(r, operand, to, instr));
    }
    space_set_body(space, kernel->order);
}

/* Operands of what is no kernel of ours, row-major or as the program states. */
static void rewrite_other(struct rewriter *r, struct hlo_instr *instr) {
    int order[SHAPE_MAX_RANK];
    if (instr->opcode == OP_GET_TUPLE_ELEMENT) {
        int64_t index = instr_int(instr, ATTR_INDEX, 0);
        instr->shape = instr->operands[0]->shape->tuple[index];
        return;
    }
    for (int i = 0; i < instr->noperands; i++) {
        struct hlo_instr *operand = instr->operands[i];
        int side;
        if (!shape_is_array(operand->shape)) continue;
        if (!dot_of(r->x, instr, i, &side)) {
            wanted_order(r->x, instr, i, order);
            instr_set_operand(instr, i, in_order(r, operand, order, instr));
        }
        if (instr->opcode == OP_FUSION)
            instr->called[0]->parameters[i]->shape = instr->operands[i]->shape;
    }
    if (instr->opcode != OP_TUPLE) return;
    struct hlo_module *module = r->x->module;
    const struct shape **elements =
        arena_array(module->arena, (size_t)instr->noperands + 1, sizeof *elements);
    for (int i = 0; i < instr->noperands; i++)
        elements[i] = instr->operands[i]->shape;
    instr->shape = shape_tuple(module->shapes, instr->noperands, elements);
}

static void rewrite_root(struct rewriter *r, struct hlo_computation *computation) {
    struct hlo_instr *root = computation->root;
    const struct shape *stated = r->x->module->entry_result;
    int order[SHAPE_MAX_RANK];
    if (!shape_is_array(root->shape)) return;
    row_major_order(root->shape->rank, order);
    if (computation == r->x->module->entry && stated) shape_order(stated, order);
    struct hlo_instr *last = computation->last;
    struct hlo_instr *copy = in_order(r, root, order, last);
    if (copy == root) return;
    if (root == last) instr_move_before(root, copy);
    computation_set_root(computation, copy);
}

/* A copy of what was copied for it alone is one copy. */
static void join_copies(struct hlo_computation *computation) {
    FOR_EACH_INSTR(instr, computation) {
        struct hlo_instr *operand = instr->noperands ? instr->operands[0] : NULL;
        if (instr->opcode != OP_COPY || operand->opcode != OP_COPY || operand->ncontrol ||
            operand->is_control_predecessor || instr_user_count(operand) != 1 ||
            computation->root == operand)
            continue;
        instr_set_operand(instr, 0, operand->operands[0]);
        instr_remove(operand);
    }
}

/* Reshapes and transposes that leave everything where it is. */
static void rename_unmoved(struct hlo_computation *computation) {
    FOR_EACH_INSTR(instr, computation) {
        struct hlo_instr *operand = instr->noperands == 1 ? instr->operands[0] : NULL;
        const struct hlo_instr *root = instr;
        struct tpu_layout a, b;
        int64_t strides[SHAPE_MAX_RANK], own[SHAPE_MAX_RANK];
        if (!operand || !shape_is_array(instr->shape) || !shape_is_array(operand->shape)) continue;
        if (instr->opcode == OP_FUSION) root = instr->called[0]->root;
        bool reshape = root->opcode == OP_RESHAPE, transpose = root->opcode == OP_TRANSPOSE;
        if ((!reshape && !transpose) ||
            (root != instr && root->operands[0]->opcode != OP_PARAMETER) ||
            !tpu_layout_of(&a, operand->shape) || !tpu_layout_of(&b, instr->shape))
            continue;
        shape_row_major(instr->shape, strides);
        struct int_list dims = instr_ints(root, ATTR_DIMENSIONS);
        for (int d = 0; transpose && d < dims.count; d++)
            own[dims.v[d]] = strides[d];
        if (!tpu_layout_same_places(&a, transpose ? own : NULL, &b, NULL)) continue;
        struct hlo_instr *bitcast =
            instr_new(computation, instr, OP_BITCAST, instr->shape, NULL, 1, &operand);
        bitcast->metadata = instr->metadata;
        bitcast->loc = instr->loc;
        instr_replace_uses(instr, bitcast);
        instr_remove(instr);
    }
}

/* ---- the module ---- */

static void find_kernels(struct assigner *x, struct hlo_computation *computation) {
    x->count = 0;
    FOR_EACH_INSTR(instr, computation) {
        struct space space;
        bool whole = instr == computation->root && shape_is_tuple(instr->shape);
        if (whole || instr_is_alias(instr) || instr_runs_callees(instr) ||
            !space_find(&space, x->arena, instr))
            continue;
        x->kernel = arena_grow(x->arena, x->kernel, &x->capacity, x->count + 1, sizeof *x->kernel);
        struct kernel_node *kernel = &x->kernel[x->count];
        kernel->space = space;
        kernel->group = -1;
        row_major_order(space.shape->rank, kernel->order);
        x->kernel_of[instr->id] = x->count++;
    }
}

/* Parameters of the entry have the layouts that the program states. */
static void state_parameters(struct hlo_module *module) {
    if (!module->entry_result) return;
    for (int i = 0; i < module->entry->nparameters && i < module->nentry_parameters; i++) {
        struct hlo_instr *parameter = module->entry->parameters[i];
        const struct shape *stated = module->entry_parameters[i];
        int order[SHAPE_MAX_RANK];
        if (!shape_is_array(parameter->shape)) continue;
        shape_order(stated, order);
        parameter->shape = shape_in_order(module, parameter->shape, order);
    }
}

static bool states_result(const struct hlo_module *module) {
    const struct shape *stated = module->entry_result;
    for (int l = 0; stated && l < stated->nleaves; l++)
        if (!is_row_major(shape_leaf(stated, l))) return true;
    return false;
}

static void assign(struct assigner *x, struct hlo_computation *computation) {
    find_kernels(x, computation);
    x->group = arena_array(x->arena, (size_t)x->count + 1, sizeof *x->group);
    choose_orders(x);
    struct rewriter r = {.x = x};
    r.copies = arena_array(x->arena, (size_t)x->nids + 1, sizeof(struct copied *));
    FOR_EACH_INSTR(instr, computation) {
        struct kernel_node *kernel = kernel_at(x, instr);
        if (kernel)
            rewrite_kernel(&r, kernel);
        else
            rewrite_other(&r, instr);
    }
    rewrite_root(&r, computation);
    join_copies(computation);
    rename_unmoved(computation);
}

void tpu_assign_layouts(struct hlo_module *module, const struct tpu_compile_options *options) {
    struct assigner x = {.arena = arena_new(), .module = module, .options = options};
    x.nids = module->next_id;
    x.kernel_of = arena_array(x.arena, (size_t)x.nids + 1, sizeof *x.kernel_of);
    for (int i = 0; i < x.nids; i++)
        x.kernel_of[i] = -1;
    x.states_result = states_result(module);
    state_parameters(module);
    mark_running_computations(module);
    FOR_EACH_COMPUTATION(computation, module)
    if (computation->mark) assign(&x, computation);
    arena_free(x.arena);
}
