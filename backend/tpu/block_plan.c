#include "backend/tpu/block.h"

enum { MOST_MEMBERS = 512 };

/* ---- members ---- */

/* The instructions of the kernel, operands before users. */
struct members {
    const struct hlo_instr *list[MOST_MEMBERS];
    enum block_level level[MOST_MEMBERS];
    int phase[MOST_MEMBERS]; /* of reduces it depends on, the last one's, plus one */
    bool same[MOST_MEMBERS]; /* asked for at the place of the space it is computed for */
    bool other[MOST_MEMBERS];
    int count;
};

static int place_of(const struct members *m, const struct hlo_instr *instr) {
    for (int i = m->count - 1; i >= 0; i--)
        if (m->list[i] == instr) return i;
    return -1;
}

static bool collect(struct block_plan *plan, struct members *m) {
    m->count = 0;
    if (!plan->body) {
        m->list[m->count++] = plan->kernel;
        return true;
    }
    FOR_EACH_INSTR(instr, plan->body) {
        if (m->count == MOST_MEMBERS) return false;
        m->list[m->count++] = instr;
    }
    return true;
}

static bool is_elementwise(const struct hlo_instr *instr) {
    return (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || instr->opcode == OP_COPY;
}

/* Costs about as much as its operands' elements do at the place it is asked for. */
static bool is_plain(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_CONSTANT: return instr->shape->count == 1;
    case OP_PARAMETER:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_TUPLE:
    case OP_REDUCE:
    case OP_GET_TUPLE_ELEMENT: return true;
    default: return is_elementwise(instr);
    }
}

/* ---- the space ---- */

static const struct shape *space_of(const struct block_plan *plan, const struct members *m) {
    for (int i = 0; i < m->count; i++)
        if (m->list[i]->opcode == OP_REDUCE) return m->list[i]->operands[0]->shape;
    return shape_leaf(plan->kernel->shape, 0);
}

static void set_levels(struct block_plan *plan, struct int_list folded) {
    const struct tpu_layout *layout = &plan->layout;
    int n = 0;
    for (int i = layout->rank - 1; i >= 2; i--) {
        int d = layout->order[i];
        plan->level[n++] = (struct level){d, layout->dims[d], int_list_has(folded, d)};
    }
    int row = layout->rank >= 2 ? layout->order[1] : layout->rank == 1 ? 0 : -1;
    int lane = layout->rank >= 1 ? layout->order[0] : -1;
    int64_t groups = (layout->rows + TPU_SUBLANES - 1) / TPU_SUBLANES;
    plan->level[n++] = (struct level){row, groups, row >= 0 && int_list_has(folded, row)};
    plan->level[n++] =
        (struct level){lane, layout->lane_tiles, lane >= 0 && int_list_has(folded, lane)};
    plan->nlevels = n;
}

bool block_folds_groups(const struct block_plan *plan) {
    return plan->level[plan->nlevels - 2].folded;
}

bool block_folds_lanes(const struct block_plan *plan) {
    return plan->level[plan->nlevels - 1].folded;
}

/* ---- levels of values ---- */

static bool keeps(const struct int_list *dims, struct int_list folded, int rank) {
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (int_list_has(folded, d)) continue;
        if (n == dims->count || dims->v[n++] != d) return false;
    }
    return n == dims->count;
}

static bool add_reduce(struct block_plan *plan, struct members *m, int at) {
    const struct hlo_instr *reduce = m->list[at];
    struct int_list dims = instr_ints(reduce, ATTR_DIMENSIONS);
    if (plan->nfolds == BLOCK_MOST_REDUCES || dims.count == 0) return false;
    if (!shape_same_dims(reduce->operands[0]->shape, plan->shape)) return false;
    for (int n = 0; n < plan->nlevels; n++)
        if (plan->level[n].dim >= 0 &&
            plan->level[n].folded != int_list_has(dims, plan->level[n].dim))
            return false;
    int phase = 0;
    for (int i = 0; i < reduce->noperands; i++) {
        int place = place_of(m, reduce->operands[i]);
        if (place < 0) continue;
        bool data = i < reduce->noperands / 2;
        if (m->level[place] == BLOCK_ROW || (!data && m->level[place] != BLOCK_FREE)) return false;
        if (m->phase[place] > phase) phase = m->phase[place];
    }
    if (!fold_find(&plan->folds[plan->nfolds], reduce)) return false;
    plan->phase[plan->nfolds++] = phase;
    if (phase + 1 > plan->phases) plan->phases = phase + 1;
    m->level[at] = BLOCK_ROW;
    m->phase[at] = phase + 1;
    return true;
}

static bool add_broadcast(struct block_plan *plan, struct members *m, int at, int operand) {
    struct int_list dims = instr_ints(m->list[at], ATTR_DIMENSIONS);
    if (operand < 0 || m->level[operand] == BLOCK_FREE) return true;
    struct int_list folded = instr_ints(plan->folds[0].reduce, ATTR_DIMENSIONS);
    if (m->level[operand] != BLOCK_ROW || !shape_same_dims(m->list[at]->shape, plan->shape) ||
        !keeps(&dims, folded, plan->shape->rank))
        return false;
    m->level[at] = BLOCK_FULL;
    m->phase[at] = m->phase[operand];
    return true;
}

/* Elementwise: values that depend on reduces must be of one level. */
static bool add_joined(struct members *m, int at) {
    const struct hlo_instr *instr = m->list[at];
    for (int i = 0; i < instr->noperands; i++) {
        int place = place_of(m, instr->operands[i]);
        if (place < 0 || m->level[place] == BLOCK_FREE) continue;
        if (m->level[at] != BLOCK_FREE && m->level[at] != m->level[place]) return false;
        m->level[at] = m->level[place];
        if (m->phase[place] > m->phase[at]) m->phase[at] = m->phase[place];
    }
    return true;
}

static bool add_member(struct block_plan *plan, struct members *m, int at) {
    const struct hlo_instr *instr = m->list[at];
    m->level[at] = BLOCK_FREE;
    m->phase[at] = 0;
    if (!is_plain(instr)) return false;
    if (instr->opcode == OP_TUPLE) return plan->body && instr == plan->body->root;
    if (instr->opcode == OP_REDUCE) return add_reduce(plan, m, at);
    if (instr->opcode == OP_GET_TUPLE_ELEMENT) {
        int place = place_of(m, instr->operands[0]);
        if (place < 0 || instr->operands[0]->opcode != OP_REDUCE) return false;
        m->level[at] = BLOCK_ROW;
        m->phase[at] = m->phase[place];
        return true;
    }
    if (!shape_is_array(instr->shape)) return false;
    if (instr->opcode == OP_BROADCAST)
        return add_broadcast(plan, m, at, place_of(m, instr->operands[0]));
    return add_joined(m, at);
}

/* Whether the broadcast's operand has dimensions that are kept only, and some. */
static bool spreads_unit(const struct block_plan *plan, const struct hlo_instr *broadcast) {
    struct int_list dims = instr_ints(broadcast, ATTR_DIMENSIONS);
    if (broadcast->opcode != OP_BROADCAST || dims.count == 0 || plan->nfolds == 0 ||
        !shape_same_dims(broadcast->shape, plan->shape))
        return false;
    for (int i = 0; i < dims.count; i++)
        for (int n = 0; n < plan->nlevels; n++)
            if (plan->level[n].dim == dims.v[i] && plan->level[n].folded) return false;
    return true;
}

static void find_spreads(struct block_plan *plan, const struct members *m) {
    for (int i = 0; i < m->count; i++) {
        if (!spreads_unit(plan, m->list[i]) || plan->nspreads == BLOCK_MOST_SPREADS) continue;
        plan->spreads[plan->nspreads] = m->list[i];
        plan->spread_phase[plan->nspreads++] = m->phase[i];
    }
}

/* ---- which places of values are asked for ---- */

static void ask(struct members *m, const struct hlo_instr *instr, bool same) {
    int place = place_of(m, instr);
    if (place < 0) return;
    m->same[place] |= same;
    m->other[place] |= !same;
}

static void find_asked(struct block_plan *plan, struct members *m) {
    for (int i = 0; i < m->count; i++)
        m->same[i] = m->other[i] = false;
    for (int i = 0; i < plan->nout; i++)
        ask(m, plan->out[i].instr, plan->out[i].level == BLOCK_FULL);
    for (int at = m->count - 1; at >= 0; at--) {
        const struct hlo_instr *instr = m->list[at];
        if (instr->opcode == OP_TUPLE) continue;
        for (int i = 0; i < instr->noperands; i++) {
            if (instr->opcode == OP_REDUCE) {
                ask(m, instr->operands[i], i < instr->noperands / 2);
                continue;
            }
            bool follows = is_elementwise(instr) &&
                           shape_same_dims(instr->operands[i]->shape, plan->shape) &&
                           shape_same_dims(instr->shape, plan->shape);
            if (m->same[at]) ask(m, instr->operands[i], follows);
            if (m->other[at] || !follows) ask(m, instr->operands[i], false);
        }
    }
}

/* ---- arrays ---- */

/* Its tiles follow each other as the space's do, and are whole groups of rows, or all rows. */
static bool walks_alike(const struct block_plan *plan, const struct tpu_layout *layout) {
    const struct tpu_layout *space = &plan->layout;
    if (layout->rank != space->rank) return false;
    for (int i = 0; i < layout->rank; i++)
        if (layout->dims[i] != space->dims[i] || layout->order[i] != space->order[i]) return false;
    return true;
}

static const struct hlo_instr *outer_operand(const struct block_plan *plan, int number) {
    return plan->kernel->operands[number];
}

static bool add_in(struct block_plan *plan, struct lower *lower, const struct members *m,
                   int number) {
    const struct hlo_instr *operand = outer_operand(plan, number);
    for (int l = 0; l < operand->shape->nleaves; l++) {
        struct block_array a = {.instr = operand, .leaf = l};
        bool whole = true;
        if (operand->opcode == OP_CONSTANT && operand->shape->count == 1) continue;
        for (int i = 0; i < plan->nin; i++)
            if (plan->in[i].instr == operand && plan->in[i].leaf == l) return true;
        if (plan->nin == BLOCK_MOST_ARRAYS || !leaf_array(lower, operand, l, &a.array))
            return false;
        if (plan->body) {
            int place = place_of(m, plan->body->parameters[number]);
            whole = place < 0 || m->other[place] || !m->same[place];
        } else if (plan->kernel->opcode == OP_REDUCE) {
            whole = number >= plan->kernel->noperands / 2;
        } else {
            whole = plan->kernel->opcode == OP_BROADCAST;
        }
        a.streams = !whole && walks_alike(plan, &a.array.layout);
        plan->in[plan->nin++] = a;
    }
    return true;
}

static bool add_out(struct block_plan *plan, struct lower *lower, const struct members *m,
                    const struct hlo_instr *instr, int inner_leaf, int leaf) {
    struct block_array a = {.instr = instr, .leaf = leaf, .inner_leaf = inner_leaf};
    int place = place_of(m, instr);
    if (plan->nout == BLOCK_MOST_ARRAYS || place < 0 ||
        !leaf_array(lower, plan->kernel, leaf, &a.array))
        return false;
    a.level = m->level[place];
    if (a.level != BLOCK_ROW) {
        a.level = BLOCK_FULL;
        a.streams = true;
        if (!walks_alike(plan, &a.array.layout)) return false;
    } else if (!shape_same_dims(shape_leaf(instr->shape, inner_leaf),
                                shape_leaf(plan->folds[0].reduce->shape, 0))) {
        return false;
    }
    plan->out[plan->nout++] = a;
    return true;
}

static bool add_outs(struct block_plan *plan, struct lower *lower, const struct members *m) {
    const struct hlo_instr *root = plan->body ? plan->body->root : plan->kernel;
    if (root->opcode != OP_TUPLE) {
        for (int l = 0; l < root->shape->nleaves; l++)
            if (!add_out(plan, lower, m, root, l, l)) return false;
        return true;
    }
    for (int i = 0, leaf = 0; i < root->noperands; i++)
        for (int l = 0; l < root->operands[i]->shape->nleaves; l++)
            if (!add_out(plan, lower, m, root->operands[i], l, leaf++)) return false;
    return true;
}

/* Levels that are folded stand inside of those that are kept. */
static bool is_trailing(const struct block_plan *plan) {
    bool folded = false;
    for (int n = 0; n < plan->nlevels; n++) {
        if (plan->level[n].count == 1) continue;
        if (folded && !plan->level[n].folded) return false;
        folded |= plan->level[n].folded;
    }
    return true;
}

static bool has_full_output(const struct block_plan *plan) {
    for (int i = 0; i < plan->nout; i++)
        if (plan->out[i].level == BLOCK_FULL) return true;
    return false;
}

bool block_find(struct block_plan *plan, struct lower *lower, const struct hlo_instr *instr) {
    struct members m;
    *plan = (struct block_plan){.kernel = instr};
    if (instr->opcode == OP_FUSION) plan->body = instr->called[0];
    if (!collect(plan, &m)) return false;
    plan->shape = space_of(plan, &m);
    if (!shape_is_array(plan->shape) || !tpu_layout_of(&plan->layout, plan->shape)) return false;
    if (plan->layout.majors == 0) return false;
    struct int_list folded = {0};
    for (int i = 0; i < m.count; i++)
        if (m.list[i]->opcode == OP_REDUCE) folded = instr_ints(m.list[i], ATTR_DIMENSIONS);
    set_levels(plan, folded);
    for (int i = 0; i < m.count; i++)
        if (!add_member(plan, &m, i)) return false;
    if (!add_outs(plan, lower, &m)) return false;
    if (plan->nfolds && (plan->phases > 1 || has_full_output(plan)) && !is_trailing(plan))
        return false;
    find_asked(plan, &m);
    find_spreads(plan, &m);
    for (int i = 0; i < instr->noperands; i++)
        if (!add_in(plan, lower, &m, i)) return false;
    return true;
}

/* ---- the cut ---- */

enum { BLOCK_ROWS = 1024 }; /* of the largest array in a block, about: 512 KiB */

static int64_t rows_within(const struct tpu_layout *layout, int level, int nlevels) {
    int64_t sub = layout->tile_rows / layout->packing, rows = sub;
    int64_t per_tile = layout->tile_rows > TPU_SUBLANES ? layout->tile_rows / TPU_SUBLANES : 1;
    if (level == nlevels - 1) return rows;
    rows *= layout->lane_tiles;
    if (level == nlevels - 2) return rows / per_tile > 0 ? rows / per_tile : 1;
    rows *= layout->row_tiles;
    for (int n = nlevels - 3; n > level; n--)
        rows *= layout->dims[layout->order[2 + (nlevels - 3 - n)]];
    return rows;
}

/* Places of the split level that belong together: groups of one tile. */
static int64_t least_chunk(const struct block_plan *plan, int level) {
    int64_t least = 1;
    const struct block_array *lists[2] = {plan->in, plan->out};
    int counts[2] = {plan->nin, plan->nout};
    if (level != plan->nlevels - 2) return 1;
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < counts[l]; i++)
            if (lists[l][i].streams && lists[l][i].array.layout.tile_rows / TPU_SUBLANES > least)
                least = lists[l][i].array.layout.tile_rows / TPU_SUBLANES;
    return least;
}

/* A block may begin and end anywhere in the level. */
static bool may_split(const struct block_plan *plan, int level) {
    if (level == plan->nlevels - 1 && (plan->level[level - 1].count > 1 || plan->layout.rank == 1))
        return false;
    bool needs_unit = plan->phases > 1 || has_full_output(plan);
    return !needs_unit || !plan->level[level].folded;
}

/* Sum, and largest, of the rows that one place of a level has in the arrays that stream. */
static int64_t stream_rows(const struct block_plan *plan, int level, int64_t places,
                           int64_t *largest) {
    int64_t sum = 0;
    *largest = 0;
    for (int i = 0; i < plan->nin + plan->nout; i++) {
        const struct block_array *a = i < plan->nin ? &plan->in[i] : &plan->out[i - plan->nin];
        if (!a->streams || a->array.in_vmem) continue;
        int64_t rows = places * rows_within(&a->array.layout, level, plan->nlevels);
        if (rows > *largest) *largest = rows;
        sum += (rows + TPU_SUBLANES) * a->array.layout.planes;
    }
    return sum;
}

static void set_steps(struct block_plan *plan) {
    for (int i = 0; i < plan->nin + plan->nout; i++) {
        struct block_array *a = i < plan->nin ? &plan->in[i] : &plan->out[i - plan->nin];
        a->step = rows_within(&a->array.layout, plan->split, plan->nlevels);
        a->outer = plan->split ? rows_within(&a->array.layout, plan->split - 1, plan->nlevels) : 0;
        a->rows = plan->chunk * a->step + TPU_SUBLANES;
        if (plan->chunks == 1 && plan->split == plan->nlevels - 2)
            a->rows =
                a->outer ? a->outer + TPU_SUBLANES : a->array.layout.memory_rows + TPU_SUBLANES;
    }
}

/* The largest number of places up to `most` that divides the level, or `most` where all that do
 * are much smaller. */
static int64_t choose_chunk(int64_t count, int64_t most, int64_t least) {
    for (int64_t n = most; n >= least && 2 * n > most; n--)
        if (count % n == 0 && n % least == 0) return n;
    return most / least * least;
}

/* Places of level n in a block; 0: the level does not do. */
static int64_t find_chunk(const struct block_plan *plan, int n, int64_t rows) {
    int64_t count = plan->level[n].count, least = least_chunk(plan, n), largest, one;
    int64_t all = stream_rows(plan, n, count, &largest);
    if (all == 0 || (largest <= BLOCK_ROWS && 2 * all <= rows)) return count;
    bool last = true; /* no level within could be split instead */
    for (int i = n + 1; i < plan->nlevels; i++)
        last &= plan->level[i].count == 1 || !may_split(plan, i);
    if (!may_split(plan, n)) return last && 2 * all <= rows ? count : 0;
    stream_rows(plan, n, 1, &one);
    if (one > BLOCK_ROWS && !last) return 0;
    int64_t chunk = one < BLOCK_ROWS ? BLOCK_ROWS / one : 1;
    while (chunk > least && 2 * stream_rows(plan, n, chunk, &largest) > rows)
        chunk /= 2;
    if (chunk < least) chunk = least;
    if (2 * stream_rows(plan, n, chunk, &largest) > rows) return 0;
    return chunk >= count ? count : choose_chunk(count, chunk, least);
}

bool block_cut(struct block_plan *plan, int64_t rows) {
    for (int n = 0; n < plan->nlevels; n++) {
        int64_t count = plan->level[n].count, chunk = find_chunk(plan, n, rows);
        if (chunk == 0) continue;
        plan->split = n;
        plan->chunk = chunk;
        plan->chunks = (count + chunk - 1) / chunk;
        plan->blocks = plan->chunks;
        plan->spans = plan->chunks > 1 && plan->level[n].folded;
        for (int i = 0; i < n; i++) {
            plan->blocks *= plan->level[i].count;
            plan->spans |= plan->level[i].folded && plan->level[i].count > 1;
        }
        if (plan->spans && (plan->phases > 1 || has_full_output(plan))) return false;
        set_steps(plan);
        return true;
    }
    return false;
}
