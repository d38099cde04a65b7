#include "backend/cpu/row_plan.h"

#include <string.h>

#include "backend/cpu/column_sums.h"
#include "passes/util.h"

static bool reads_memory_only(const struct hlo_instr *instr) {
    return instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT ||
           instr->opcode == OP_GET_TUPLE_ELEMENT || instr->opcode == OP_TUPLE ||
           instr->opcode == OP_REDUCE;
}

/* Operations that are worth a store and a load a row rather than a second computation. */
static int own_cost(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_EXPONENTIAL:
    case OP_EXPONENTIAL_MINUS_ONE:
    case OP_LOG:
    case OP_LOG_PLUS_ONE:
    case OP_TANH:
    case OP_LOGISTIC:
    case OP_ERF:
    case OP_POWER:
    case OP_SINE:
    case OP_COSINE:
    case OP_ATAN2:
    case OP_GATHER:
    case OP_MAP: return 8;
    case OP_DIVIDE:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_CBRT: return 3;
    default: return 1;
    }
}

static void collect(struct arena *arena, const struct hlo_instr *instr, struct row_plan *plan) {
    const struct hlo_computation *fused = instr->opcode == OP_FUSION ? instr->called[0] : NULL;
    int count = fused ? fused->count : 1, n = 0;
    plan->steps = arena_array(arena, (size_t)count + 1, sizeof *plan->steps);
    if (!fused) plan->steps[n++] = (struct row_step){.instr = instr};
    for (struct hlo_instr *i = fused ? fused->first : NULL; i; i = i->next) {
        i->mark = n;
        plan->steps[n++] = (struct row_step){.instr = i};
    }
    plan->nsteps = n;
}

static struct row_step *step_of(struct row_plan *plan, const struct hlo_instr *instr) {
    return &plan->steps[plan->fused ? instr->mark : 0];
}

/* The stage in which a value can be known first: that of the last reduce it depends on. */
static bool find_stages(struct row_plan *plan) {
    for (int i = 0; i < plan->nsteps; i++) {
        struct row_step *step = &plan->steps[i];
        int stage = 0, cost = 0;
        for (int k = 0; plan->fused && k < step->instr->noperands; k++) {
            const struct row_step *from = step_of(plan, step->instr->operands[k]);
            if (from->stage > stage) stage = from->stage;
            if (cost < 1000) cost += from->cost;
        }
        step->stage = stage + (step->instr->opcode == OP_REDUCE);
        bool row = plan->info && fusion_level_of(plan->info, step->instr) == FUSION_LEVEL_ROW;
        step->cost = row || reads_memory_only(step->instr) ? 0 : cost + own_cost(step->instr);
        if (step->stage > plan->nstages) plan->nstages = step->stage;
    }
    return plan->nstages <= ROW_MOST_STAGES;
}

/* Bit s: wanted along the row in the loop of stage s + 1; bit nstages: in the last loop. */
static void want(struct row_plan *plan, const struct hlo_instr *instr, uint64_t loops) {
    if (plan->fused) step_of(plan, instr)->wanted |= loops;
}

/* A reduction whose order counts, or of several values at once, gets no vectors along a row. */
static bool has_vectors_along(const struct row_plan *plan) {
    for (int i = 0; i < plan->nsteps; i++) {
        const struct hlo_instr *instr = plan->steps[i].instr;
        if (instr->opcode == OP_REDUCE &&
            (instr->noperands > 2 || reducer_operation(instr->called[0]) == 0))
            return false;
    }
    return true;
}

/* Vectors go across rows where a row by itself is mostly elements beside whole vectors, and sums of
 * the lanes of one. */
static int64_t rows_at_once(const struct row_plan *plan) {
    enum { LANES = 8, LONGEST = 64, LONG = 127 };
    int64_t columns = plan->columns, steps = columns / LANES + columns % LANES + 2;
    if (!plan->trailing || plan->rows < ROW_BLOCK || columns < 2) return 1;
    if (!has_vectors_along(plan)) return columns <= LONG ? ROW_BLOCK : 1;
    return columns <= LONGEST && 25 * steps > 7 * columns ? ROW_BLOCK : 1;
}

/* Where a block of rows is read and written, operands that are read again are kept, too: their
 * columns are far apart in memory, and side by side in scratch. */
static bool worth_keeping(const struct row_plan *plan, const struct row_step *step) {
    enum { LEAST_COST = 6 };
    return step->cost >= LEAST_COST || (plan->block > 1 && step->instr->opcode == OP_PARAMETER);
}

static void find_spills(struct row_plan *plan) {
    for (int i = plan->nsteps - 1; i >= 0; i--) {
        struct row_step *step = &plan->steps[i];
        const struct hlo_instr *instr = step->instr;
        bool row = plan->info && fusion_level_of(plan->info, instr) == FUSION_LEVEL_ROW;
        uint64_t loops = step->wanted;
        if (instr->opcode == OP_REDUCE)
            loops = (uint64_t)1 << (step->stage - 1);
        else if (row)
            loops = 0;
        bool spill = !row && (loops & (loops - 1)) && worth_keeping(plan, step) &&
                     instr->shape->count == plan->rows * plan->columns;
        if (spill) {
            loops &= -loops;
            step->spill = true;
            step->first = __builtin_ctzll(loops);
            step->offset = plan->scratch;
            int64_t bytes = plan->block * plan->columns * element_type_size(instr->shape->type);
            plan->scratch += (bytes + 63) & ~(int64_t)63;
        }
        for (int k = 0; k < instr->noperands; k++)
            want(plan, instr->operands[k], loops);
    }
}

static void want_outputs(struct row_plan *plan) {
    for (int i = 0; i < plan->info->noutputs; i++)
        if (fusion_level_of(plan->info, plan->info->outputs[i]) != FUSION_LEVEL_ROW)
            want(plan, plan->info->outputs[i], (uint64_t)1 << plan->nstages);
}

/* What has other indices than its user's where a row is of several dims. */
static bool splits_index(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_BROADCAST: return instr->operands[0]->shape->count > 1;
    case OP_IOTA:
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_PAD:
    case OP_CONCATENATE:
    case OP_REVERSE:
    case OP_TRANSPOSE:
    case OP_GATHER: return true;
    default: return false;
    }
}

/* One loop over rows of several dims would divide to find its place in each of them. */
static int64_t period_of(const struct row_plan *plan) {
    enum { LEAST = 64 };
    const struct shape *from = plan->hero->operands[0]->shape;
    int64_t last = from->dims[gen_inner_dim(from)];
    if (last < LEAST || last >= plan->columns || plan->columns % last != 0) return plan->columns;
    for (int i = 0; i < plan->nsteps; i++)
        if (splits_index(plan->steps[i].instr)) return last;
    return plan->columns;
}

/* What is reduced has neighbours along dims first .. last where memory has them. */
static bool are_as_one(const struct row_plan *plan, int first, int last) {
    for (int i = 0; i < plan->nsteps; i++)
        if (plan->steps[i].instr->opcode == OP_REDUCE &&
            !gen_reduce_joins(plan->steps[i].instr, first, last))
            return false;
    return true;
}

/* The sum of zeros, or an extreme, does not mind how often it starts. */
static bool starts_anywhere(const struct hlo_instr *reduce) {
    struct cpu_reducer reducer;
    const struct hlo_instr *init = reduce->operands[reduce->noperands / 2];
    gen_reducer_init(reduce, &reducer);
    if (reducer.n != 1 || reducer.sum[0] != reducer.element[0]) return false;
    if (reducer.op == OP_MAXIMUM || reducer.op == OP_MINIMUM) return true;
    return reducer.op == OP_ADD && init->opcode == OP_CONSTANT && literal_is_all(init->literal, 0);
}

/* Sums for each of `columns` are worth it: a single reduce may have a longer loop. */
static bool adds_columns(const struct row_plan *plan, int64_t columns) {
    enum { LEAST = 32 };
    int reduces = 0;
    if (columns < LEAST || columns > COLUMN_BLOCK || columns == plan->columns) return false;
    for (int i = 0; i < plan->nsteps; i++) {
        if (plan->steps[i].instr->opcode != OP_REDUCE) continue;
        if (!starts_anywhere(plan->steps[i].instr)) return false;
        reduces++;
    }
    return reduces > 1 || gen_reduce_run(plan->hero) == columns;
}

/* The first of the dims before `dim` that are reduced, or are kept, as it is asked, and are as one
 * with those up to the last. */
static int extend(const struct row_plan *plan, int dim, bool reduced) {
    struct int_list dims = instr_ints(plan->hero, ATTR_DIMENSIONS);
    int first = dim, last = gen_inner_dim(plan->hero->operands[0]->shape);
    while (first > 0 && int_list_has(dims, first - 1) == reduced)
        first--;
    while (first < dim && !are_as_one(plan, first, last))
        first++;
    return first;
}

static int64_t places(const struct shape *shape, int first, int end) {
    int64_t count = 1;
    for (int d = first; d < end; d++)
        count *= shape->dims[d];
    return count;
}

/* What has a sum of its own: the kept dims at the end; or, where the last dim is reduced with
 * others that come before kept ones, all that is after those, to be added up at the end. */
static void find_columns(struct row_plan *plan) {
    const struct shape *from = plan->hero->operands[0]->shape;
    int last = gen_inner_dim(from), inner = last;
    bool reduced = int_list_has(instr_ints(plan->hero, ATTR_DIMENSIONS), last);
    if (reduced) inner = extend(plan, last, true);
    while (inner < last && places(from, inner, last + 1) > COLUMN_BLOCK)
        inner++;
    plan->kept_dim = extend(plan, inner, false);
    plan->kept = places(from, plan->kept_dim, last + 1);
    if (reduced && inner > 0 && adds_columns(plan, places(from, inner, last + 1)))
        plan->added = places(from, plan->kept_dim, inner);
}

const struct row_plan *row_plan_new(struct arena *arena, const struct hlo_instr *instr) {
    struct row_plan *plan = arena_alloc(arena, sizeof *plan);
    memset(plan, 0, sizeof *plan);
    plan->fused = instr->opcode == OP_FUSION ? instr->called[0] : NULL;
    const struct hlo_instr *hero = instr;
    if (plan->fused) {
        plan->info = fusion_analyse(arena, plan->fused);
        if (plan->info->shape != FUSION_SHAPE_ROWS && plan->info->shape != FUSION_SHAPE_REDUCE)
            return NULL;
        hero = plan->info->hero;
    } else if (instr->opcode != OP_REDUCE) {
        return NULL;
    }
    plan->hero = hero;
    plan->trailing = reduce_is_trailing(hero);
    plan->rows = shape_leaf(hero->shape, 0)->count;
    int64_t from = hero->operands[0]->shape->count;
    plan->columns = plan->rows > 0 ? from / plan->rows : 0;
    if (plan->rows < 1 || plan->columns < 1) return NULL;
    collect(arena, instr, plan);
    if (!find_stages(plan)) return NULL;
    if (!plan->trailing) find_columns(plan);
    if (plan->info) want_outputs(plan);
    plan->block = rows_at_once(plan);
    plan->period = plan->trailing && plan->block == 1 ? period_of(plan) : plan->columns;
    if (plan->trailing) find_spills(plan);
    return plan;
}
