/* Elementwise work between reshapes is done in the shape that they come from or go to, where that
 * leaves fewer reshapes: for a target on which a reshape moves elements, and stands between kernels
 * that could be one. All elementwise instructions of one shape that hang together are decided about
 * at once. */
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/util.h"

enum { MOST_MEMBERS = 256, MOST_TARGETS = 4 };

struct cluster {
    struct arena *arena;
    const struct shape *shape; /* of its members, the element type aside */
    struct hlo_instr *member[MOST_MEMBERS];
    struct hlo_instr *moved[MOST_MEMBERS]; /* what stands for it in the other shape */
    int count;
    bool whole; /* there are no more */
    const struct shape *target;
    int map[SHAPE_MAX_RANK]; /* dimension of the target by that of the shape; -1: none of its own */
    int before, after;       /* reshapes */
};

static bool is_member(const struct hlo_instr *instr, const struct shape *shape) {
    if (!(opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || instr->ncontrol ||
        instr->is_control_predecessor || !shape_same_dims(instr->shape, shape) ||
        shape_is_dynamic(instr->shape) || !shape_layout_is_default(instr->shape))
        return false;
    for (int i = 0; i < instr->noperands; i++) {
        const struct shape *operand = instr->operands[i]->shape;
        if (!shape_is_array(operand) || shape_is_dynamic(operand) ||
            (operand->rank && !shape_same_dims(operand, shape)))
            return false;
    }
    return instr->noperands > 0 && instr->shape->rank > 0;
}

static int place_of(const struct cluster *c, const struct hlo_instr *instr) {
    return instr->mark > 0 && instr->mark <= c->count && c->member[instr->mark - 1] == instr
               ? instr->mark - 1
               : -1;
}

static void add_member(struct cluster *c, struct hlo_instr *instr) {
    if (instr->mark || !is_member(instr, c->shape)) return;
    if (c->count == MOST_MEMBERS) {
        c->whole = false;
        return;
    }
    c->member[c->count++] = instr;
    instr->mark = c->count;
}

/* Marks stay, so that no instruction is looked at twice. */
static void collect(struct cluster *c, struct hlo_instr *first) {
    c->shape = first->shape;
    c->count = 0;
    c->whole = true;
    add_member(c, first);
    for (int n = 0; n < c->count; n++) {
        struct hlo_instr *instr = c->member[n];
        for (int i = 0; i < instr->noperands; i++)
            add_member(c, instr->operands[i]);
        for (const struct hlo_use *use = instr->users; use; use = use->next)
            add_member(c, use->user);
    }
}

/* ---- dimensions ---- */

/* Dimensions that are the same in both shapes, by their size and what is within them. */
static void find_map(struct cluster *c) {
    const struct shape *from = c->shape, *to = c->target;
    int64_t inner_from = 1, inner_to = 1;
    int t = to->rank - 1;
    for (int d = from->rank - 1; d >= 0; d--) {
        c->map[d] = -1;
        if (from->dims[d] == 1) continue;
        while (t >= 0 && inner_to < inner_from)
            inner_to *= to->dims[t--];
        while (t >= 0 && to->dims[t] == 1)
            t--;
        if (t >= 0 && inner_to == inner_from && to->dims[t] == from->dims[d]) c->map[d] = t;
        inner_from *= from->dims[d];
    }
}

static bool broadcasts_into(const struct cluster *c, const struct hlo_instr *broadcast) {
    struct int_list dims = instr_ints(broadcast, ATTR_DIMENSIONS);
    for (int i = 0; i < dims.count; i++) {
        if (c->map[dims.v[i]] < 0) return false;
        if (i && c->map[dims.v[i]] <= c->map[dims.v[i - 1]]) return false;
    }
    return true;
}

/* A broadcast of a member, which has dimensions of one place more or less in the other shape. */
static bool broadcasts_from(const struct cluster *c) {
    int mapped = 0;
    for (int d = 0; d < c->shape->rank; d++) {
        if (c->map[d] < 0 && c->shape->dims[d] != 1) return false;
        mapped += c->map[d] >= 0;
    }
    return mapped == c->target->rank;
}

/* ---- what it costs ---- */

static bool leads_back(const struct cluster *c, const struct hlo_instr *reshape,
                       const struct shape *other) {
    return reshape->opcode == OP_RESHAPE && !reshape->ncontrol && shape_is_array(other) &&
           shape_same_dims(other, c->target) && shape_layout_is_default(other) &&
           shape_layout_is_default(reshape->shape);
}

enum input { INPUT_MEMBER, INPUT_NUMBER, INPUT_RESHAPED, INPUT_SPREAD, INPUT_OTHER };

static enum input input_of(const struct cluster *c, const struct hlo_instr *operand) {
    if (operand->shape->rank == 0) return INPUT_NUMBER;
    if (place_of(c, operand) >= 0) return INPUT_MEMBER;
    if (operand->opcode == OP_RESHAPE && leads_back(c, operand, operand->operands[0]->shape))
        return INPUT_RESHAPED;
    if (operand->opcode == OP_BROADCAST && !operand->ncontrol && broadcasts_into(c, operand))
        return INPUT_SPREAD;
    return INPUT_OTHER;
}

static bool only_members_use(const struct cluster *c, const struct hlo_instr *instr) {
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (place_of(c, use->user) < 0) return false;
    return instr != instr->parent->root;
}

/* Whether this is the first time that a member has the operand. */
static bool is_first_use(const struct cluster *c, const struct hlo_instr *operand, int member,
                         int number) {
    for (const struct hlo_use *use = operand->users; use; use = use->next) {
        int place = place_of(c, use->user);
        if (place >= 0 && (place < member || (place == member && use->index < number)))
            return false;
    }
    return true;
}

enum output { OUTPUT_MEMBER, OUTPUT_RESHAPED, OUTPUT_SPREAD, OUTPUT_OTHER };

static enum output output_of(const struct cluster *c, const struct hlo_instr *user) {
    if (place_of(c, user) >= 0) return OUTPUT_MEMBER;
    if (leads_back(c, user, user->shape)) return OUTPUT_RESHAPED;
    if (user->opcode == OP_BROADCAST && !user->ncontrol && broadcasts_from(c)) return OUTPUT_SPREAD;
    return OUTPUT_OTHER;
}

static void count_reshapes(struct cluster *c) {
    c->before = c->after = 0;
    for (int m = 0; m < c->count; m++) {
        struct hlo_instr *instr = c->member[m];
        bool kept = instr == instr->parent->root;
        for (int i = 0; i < instr->noperands; i++) {
            struct hlo_instr *operand = instr->operands[i];
            enum input input = input_of(c, operand);
            if (!is_first_use(c, operand, m, i)) continue;
            c->before += input == INPUT_RESHAPED && only_members_use(c, operand);
            c->after += input == INPUT_OTHER;
        }
        for (const struct hlo_use *use = instr->users; use; use = use->next) {
            enum output output = output_of(c, use->user);
            c->before += output == OUTPUT_RESHAPED;
            kept |= output == OUTPUT_OTHER;
        }
        c->after += kept;
    }
}

/* ---- the change ---- */

static struct hlo_instr *spread(struct cluster *c, struct hlo_instr *before,
                                struct hlo_instr *broadcast) {
    struct int_list dims = instr_ints(broadcast, ATTR_DIMENSIONS);
    int64_t mapped[SHAPE_MAX_RANK];
    for (int i = 0; i < dims.count; i++)
        mapped[i] = c->map[dims.v[i]];
    struct shape_table *shapes = before->parent->module->shapes;
    return rewrite_broadcast(before, shape_with_type(shapes, c->target, broadcast->shape->type),
                             broadcast->operands[0], dims.count, mapped);
}

static struct hlo_instr *move_member(struct cluster *c, int m);

static struct hlo_instr *moved_operand(struct cluster *c, struct hlo_instr *before,
                                       struct hlo_instr *operand) {
    switch (input_of(c, operand)) {
    case INPUT_MEMBER: return move_member(c, place_of(c, operand));
    case INPUT_NUMBER: return operand;
    case INPUT_RESHAPED: return operand->operands[0];
    case INPUT_SPREAD: return spread(c, before, operand);
    default: break;
    }
    struct shape_table *shapes = before->parent->module->shapes;
    return rewrite_unary(before, OP_RESHAPE,
                         shape_with_type(shapes, c->target, operand->shape->type), operand);
}

/* A broadcast of the member as one of what stands for it. */
static struct hlo_instr *spread_moved(struct cluster *c, struct hlo_instr *broadcast,
                                      struct hlo_instr *moved) {
    struct int_list dims = instr_ints(broadcast, ATTR_DIMENSIONS);
    int64_t mapped[SHAPE_MAX_RANK];
    for (int d = 0; d < c->shape->rank; d++)
        if (c->map[d] >= 0) mapped[c->map[d]] = dims.v[d];
    return rewrite_broadcast(broadcast, broadcast->shape, moved, c->target->rank, mapped);
}

static void replace_outside(struct cluster *c, struct hlo_instr *instr, struct hlo_instr *moved) {
    struct hlo_instr *back = NULL;
    for (struct hlo_use *use = instr->users, *next; use; use = next) {
        struct hlo_instr *user = use->user;
        int index = use->index;
        next = use->next;
        switch (output_of(c, user)) {
        case OUTPUT_MEMBER: break;
        case OUTPUT_RESHAPED: instr_replace_uses(user, moved); break;
        case OUTPUT_SPREAD: instr_replace_uses(user, spread_moved(c, user, moved)); break;
        default:
            if (!back) back = rewrite_unary(instr, OP_RESHAPE, instr->shape, moved);
            instr_set_operand(user, index, back);
        }
    }
    if (instr != instr->parent->root) return;
    if (!back) back = rewrite_unary(instr, OP_RESHAPE, instr->shape, moved);
    computation_set_root(instr->parent, back);
}

/* Operands first: the recursion is as deep as the cluster. */
static struct hlo_instr *move_member(struct cluster *c, int m) {
    struct hlo_instr *instr = c->member[m];
    struct shape_table *shapes = instr->parent->module->shapes;
    if (c->moved[m]) return c->moved[m];
    struct hlo_instr **operands =
        arena_array(c->arena, (size_t)instr->noperands + 1, sizeof *operands);
    for (int i = 0; i < instr->noperands; i++)
        operands[i] = moved_operand(c, instr, instr->operands[i]);
    return c->moved[m] =
               instr_clone(instr, instr->parent, instr,
                           shape_with_type(shapes, c->target, instr->shape->type), operands);
}

static void move_all(struct cluster *c) {
    for (int m = 0; m < c->count; m++)
        c->moved[m] = NULL;
    for (int m = 0; m < c->count; m++)
        move_member(c, m);
    for (int m = 0; m < c->count; m++)
        replace_outside(c, c->member[m], c->moved[m]);
}

/* ---- targets ---- */

static void add_target(const struct shape **targets, int *count, const struct shape *shape) {
    for (int i = 0; i < *count; i++)
        if (shape_same_dims(targets[i], shape)) return;
    if (*count < MOST_TARGETS) targets[(*count)++] = shape;
}

static int find_targets(const struct cluster *c, const struct shape **targets) {
    int count = 0;
    for (int m = 0; m < c->count; m++) {
        const struct hlo_instr *instr = c->member[m];
        for (int i = 0; i < instr->noperands; i++)
            if (instr->operands[i]->opcode == OP_RESHAPE && instr->operands[i]->shape->rank)
                add_target(targets, &count, instr->operands[i]->operands[0]->shape);
        for (const struct hlo_use *use = instr->users; use; use = use->next)
            if (use->user->opcode == OP_RESHAPE) add_target(targets, &count, use->user->shape);
    }
    return count;
}

static bool try_cluster(struct pass_context *context, struct cluster *c) {
    const struct shape *targets[MOST_TARGETS], *best = NULL;
    int count = find_targets(c, targets), gain = 0;
    for (int i = 0; i < count; i++) {
        c->target = targets[i];
        if (!shape_is_array(c->target) || shape_is_dynamic(c->target)) continue;
        find_map(c);
        count_reshapes(c);
        if (c->before - c->after <= gain) continue;
        gain = c->before - c->after;
        best = c->target;
    }
    if (!best || !pass_may_rewrite(context)) return false;
    c->target = best;
    find_map(c);
    move_all(c);
    return true;
}

bool reshape_mover_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    struct cluster *c = NULL;
    struct arena *arena = arena_new();
    c = arena_alloc(arena, sizeof *c);
    c->arena = arena;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) instr->mark = 0;
        FOR_EACH_INSTR(instr, computation) {
            if (instr->mark || !is_member(instr, instr->shape)) continue;
            collect(c, instr);
            if (c->whole) changed |= try_cluster(context, c);
        }
    }
    arena_free(arena);
    return changed;
}
