/* Fusion: instructions that can share a kernel become one `fusion` instruction, of the kinds in
 * passes/fusion_shape.h. From the last instruction to the first, each joins the kernels of its
 * users: all of them where computing it again costs less than storing and loading it, one of them
 * as a further output, or else it starts a kernel of its own, which its producers may join. Groups
 * that read the same array become one where that is one kernel. */
#include "passes/dataflow.h"
#include "passes/fusion_group.h"
#include "passes/util.h"

enum {
    MOST_GROUPS = 16,       /* users' kernels that are looked at */
    LEAST_ROWS = 4,         /* fewer rows: a row kernel would be one thread's work */
    SERIAL_ELEMENTS = 16384 /* ... unless it is little work anyway */
};
static const int64_t MOST_COLUMNS = 1 << 17;

/* ---- the CPU's kernels ---- */

static bool cpu_takes(const struct fusion_info *info, int count, struct hlo_instr *const *members) {
    (void)count, (void)members;
    if (info->shape != FUSION_SHAPE_ROWS) return true;
    if (info->columns > MOST_COLUMNS) return false;
    return info->rows >= LEAST_ROWS || info->rows * info->columns <= SERIAL_ELEMENTS;
}

static bool cpu_has_epilogue(const struct hlo_instr *product) {
    return instr_is_product(product);
}

static const struct fusion_policy cpu_policy = {
    .kernel_cost = 500,
    .operation_cost = 1,
    .most_operands = FUSION_MOST_OPERANDS,
    .most_outputs = 32,
    .composes = instr_is_composed,
    .takes = cpu_takes,
    .has_epilogue = cpu_has_epilogue,
};

/* The kernels that read a value. */
struct readers {
    int count;
    struct group *groups[MOST_GROUPS];
    struct fusion_use uses[MOST_GROUPS]; /* what each would compute; copies 0: cannot join */
    bool stored;                         /* somebody needs it in memory */
};

/* ---- a product's epilogue ---- */

static bool is_single_link(const struct hlo_instr *operand, const struct hlo_instr *user) {
    if (operand == operand->parent->root) return false;
    for (const struct hlo_use *use = operand->users; use; use = use->next)
        if (use->user != user) return false;
    return true;
}

/* An elementwise result of a product that nothing else needs: better stored by the product's
 * kernel than computed by the readers'. */
static bool ends_product(const struct fuser *fuser, const struct hlo_instr *instr) {
    enum { MOST_STEPS = 8 };
    for (int step = 0; step < MOST_STEPS && instr_keeps_index(instr); step++) {
        const struct hlo_instr *next = NULL;
        for (int i = 0; i < instr->noperands && !next; i++) {
            const struct hlo_instr *operand = instr->operands[i];
            if (!is_single_link(operand, instr)) continue;
            if (fuser->policy->has_epilogue(operand)) return true;
            if (instr_keeps_index(operand) && !instr_is_free(operand)) next = operand;
        }
        if (!next) return false;
        instr = next;
    }
    return false;
}

/* ---- who reads it ---- */

static bool can_compose(const struct fuser *fuser, const struct hlo_instr *instr) {
    if (instr->opcode == OP_CONSTANT)
        return instr->shape->rank == 0 && shape_is_array(instr->shape) && !instr->ncontrol &&
               !instr->is_control_predecessor;
    /* A concatenation of many arrays is as many copies, or as much code in one kernel. */
    return instr->noperands <= FUSION_MOST_OPERANDS && fuser->policy->composes(instr);
}

/* Its operands can be read by the kernel too. */
static bool has_room(const struct fuser *fuser, const struct group *group,
                     const struct hlo_instr *instr) {
    int most = fuser->policy->most_operands;
    struct hlo_instr *operands[FUSION_MOST_OPERANDS];
    if (group->count * 2 < most) return true; /* not that many, as a rule */
    return group_operands(group, operands, most) + instr->noperands <= most;
}

static bool accepts(struct fuser *fuser, struct group *group, struct hlo_instr *instr,
                    struct fusion_use *use) {
    const struct fusion_info *info;
    if (!group->open || group->count >= FUSION_MOST_MEMBERS ||
        group->code + fusion_operation_cost(instr) > FUSION_MOST_CODE)
        return false;
    *use = group_use_of(fuser, group, instr);
    if (use->copies > FUSION_MOST_COPIES || !has_room(fuser, group, instr)) return false;
    switch (group->shape) {
    case FUSION_SHAPE_LOOP:
    case FUSION_SHAPE_REDUCE:
    case FUSION_SHAPE_ROWS: return true;
    case FUSION_SHAPE_PRODUCT:
    case FUSION_SHAPE_UPDATE:
        return group_classify(fuser, &group, 1, instr, false, &info) == group->shape;
    default: return false;
    }
}

/* In the order in which they were made, whatever that of the users is. */
static void add_reader(struct readers *readers, struct group *group) {
    int at = readers->count++;
    for (; at > 0 && readers->groups[at - 1]->id > group->id; at--)
        readers->groups[at] = readers->groups[at - 1];
    readers->groups[at] = group;
}

static void find_readers(const struct hlo_instr *instr, struct readers *readers) {
    *readers = (struct readers){.stored = instr == instr->parent->root};
    for (const struct hlo_use *use = instr->users; use; use = use->next) {
        const struct node *user = node_of(use->user);
        for (int i = 0; i < user->count; i++) {
            struct group *group = user->in[i].group;
            int at = 0;
            while (at < readers->count && readers->groups[at] != group)
                at++;
            if (at < readers->count) continue;
            if (at == MOST_GROUPS || !group->open)
                readers->stored = true;
            else
                add_reader(readers, group);
        }
    }
}

/* What several kernels have in common is looked at, compiled and computed in each of them. */
static void find_uses(struct fuser *fuser, struct hlo_instr *instr, struct readers *readers) {
    enum { MOST_COMMON = 64 };
    for (int i = 0; i < readers->count; i++) {
        struct group *group = readers->groups[i];
        bool large = readers->count > 1 && group->count >= MOST_COMMON;
        if (large || !can_compose(fuser, instr) || !accepts(fuser, group, instr, &readers->uses[i]))
            readers->uses[i].copies = 0;
    }
}

static bool all_can_join(const struct readers *readers) {
    for (int i = 0; i < readers->count; i++)
        if (readers->uses[i].copies == 0) return false;
    return readers->count > 0 && !readers->stored;
}

/* ---- joining ---- */

static bool few_operands(const struct fuser *fuser, struct group *const *groups, int count) {
    struct hlo_instr *operands[FUSION_MOST_OPERANDS];
    int total = 0;
    for (int i = 0; i < count; i++)
        total += group_operands(groups[i], operands, FUSION_MOST_OPERANDS);
    return total < fuser->policy->most_operands;
}

/* Computing it where it is read costs no more than a kernel of its own, for `evals` elements. */
static bool inlining_pays(const struct fuser *fuser, const struct hlo_instr *instr, double evals) {
    double load = element_load_cost(instr->shape->type), cost = instr_element_cost(fuser, instr);
    double count = (double)instr->shape->count;
    return evals * cost <= count * (cost + load) + evals * load + fuser->policy->kernel_cost;
}

static int most_copies(const struct group *group) {
    int most = 1;
    for (int i = 0; i < group->count; i++)
        if (group->members[i].use.copies > most) most = group->members[i].use.copies;
    return most;
}

/* As one kernel they would compute what `from` makes anew for each place at which `into` reads it:
 * at more than it costs now, or in very much code. */
static bool repeats(struct fuser *fuser, const struct group *from, const struct group *into) {
    bool loops = from->shape == FUSION_SHAPE_LOOP && into->shape == FUSION_SHAPE_LOOP;
    int copies = 1;
    for (int i = 0; i < from->count; i++) {
        const struct hlo_instr *made = from->members[i].instr;
        if (node_of(made)->owner != from || group_member(into, made)) continue;
        struct fusion_use use = group_use_of(fuser, into, made);
        if (use.copies == 0 || use.class == 0) continue;
        if (loops && !inlining_pays(fuser, made, use.evals)) return true;
        copies += use.copies;
    }
    return copies > 1 && copies * most_copies(from) > FUSION_MOST_COPIES;
}

static bool one_repeats_another(struct fuser *fuser, struct group *const *groups, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (i != k && repeats(fuser, groups[i], groups[k])) return true;
    return false;
}

/* The groups, and instr where not NULL, become the first group, if that is one kernel. */
static bool join_all(struct fuser *fuser, struct group *const *groups, int count,
                     struct hlo_instr *instr) {
    const struct fusion_info *info;
    if (group_classify(fuser, groups, count, instr, true, &info) == FUSION_SHAPE_NONE) return false;
    if (!few_operands(fuser, groups, count)) return false;
    if ((count > 1 || instr) && group_is_cyclic(fuser, groups, count, instr)) return false;
    enum fusion_shape shape = info->shape;
    if (one_repeats_another(fuser, groups, count)) return false;
    for (int i = 1; i < count; i++)
        group_merge(fuser, groups[0], groups[i]);
    groups[0]->shape = shape;
    if (!instr) return true;
    struct fusion_use use = group_use_of(fuser, groups[0], instr);
    if (use.copies == 0) use = (struct fusion_use){0, 1, groups[0]->elements};
    group_add(fuser, groups[0], instr, use);
    node_of(instr)->owner = groups[0];
    return true;
}

/* As one more output of one of the kernels that read it. */
static bool join_as_output(struct fuser *fuser, struct hlo_instr *instr,
                           const struct readers *readers, bool composed) {
    for (int i = 0; i < readers->count; i++) {
        if (composed && readers->uses[i].copies == 0) continue;
        if (composed && !inlining_pays(fuser, instr, readers->uses[i].evals)) continue;
        if (join_all(fuser, &readers->groups[i], 1, instr)) return true;
    }
    return false;
}

static bool is_fusible_reduce(const struct hlo_instr *instr) {
    return instr->opcode == OP_REDUCE && !instr->ncontrol && !instr->is_control_predecessor;
}

static bool is_reduce_part(const struct hlo_instr *instr) {
    return instr->opcode == OP_GET_TUPLE_ELEMENT && is_fusible_reduce(instr->operands[0]);
}

static void start(struct fuser *fuser, struct hlo_instr *instr, bool open) {
    const struct fusion_info *info;
    struct group *group = group_new(fuser, instr, open);
    if (!open) return;
    /* A part of a reduce's results is a kernel once the reduce has joined it. */
    group->shape = is_reduce_part(instr) ? FUSION_SHAPE_REDUCE
                                         : group_classify(fuser, &group, 1, NULL, true, &info);
    group->open = group->shape != FUSION_SHAPE_NONE;
}

/* Those that would compute it as cheaply as load it do. */
static void join_where_cheap(struct fuser *fuser, struct hlo_instr *instr,
                             const struct readers *readers, bool always) {
    double load = element_load_cost(instr->shape->type);
    double cost = instr_element_cost(fuser, instr);
    for (int i = 0; i < readers->count; i++) {
        if (readers->uses[i].copies == 0 || group_member(readers->groups[i], instr)) continue;
        if (always || cost <= load) group_add(fuser, readers->groups[i], instr, readers->uses[i]);
    }
}

/* ---- one instruction ---- */

/* The product above will join the only reader's kernel along with it. */
static bool goes_with_product(const struct readers *readers) {
    return readers->count == 1 && readers->groups[0]->shape == FUSION_SHAPE_LOOP &&
           readers->uses[0].class == 0;
}

/* In every kernel that reads it; by itself for others. A reshape of a transpose that none of them
 * takes is another name for it: the transpose ends a kernel, with the places that it has itself. */
static void join_everywhere(struct fuser *fuser, struct hlo_instr *instr) {
    bool stored = instr == instr->parent->root;
    bool name = instr->opcode == OP_RESHAPE && instr->operands[0]->opcode == OP_TRANSPOSE;
    for (const struct hlo_use *use = instr->users; use; use = use->next) {
        const struct node *user = node_of(use->user);
        for (int i = 0; i < user->count; i++) {
            struct group *group = user->in[i].group;
            struct fusion_use how;
            if (group_member(group, instr)) continue;
            if (can_compose(fuser, instr) && accepts(fuser, group, instr, &how)) {
                group_add(fuser, group, instr, how);
                name = false;
            } else {
                stored = true;
            }
        }
    }
    bool open = can_compose(fuser, instr) && instr->opcode != OP_CONSTANT && !name;
    if (stored) start(fuser, instr, open);
}

static void visit_composed(struct fuser *fuser, struct hlo_instr *instr, struct readers *readers) {
    double evals = 0;
    if (instr_is_free(instr)) {
        join_everywhere(fuser, instr);
        return;
    }
    find_uses(fuser, instr, readers);
    bool all = all_can_join(readers);
    if (readers->count > 1 && !readers->stored &&
        join_all(fuser, readers->groups, readers->count, NULL)) {
        readers->count = 1;
        find_uses(fuser, instr, readers);
        all = all_can_join(readers);
    }
    for (int i = 0; i < readers->count; i++)
        evals += readers->uses[i].evals;
    bool apart = ends_product(fuser, instr) && !goes_with_product(readers);
    if (!apart && all && inlining_pays(fuser, instr, evals)) {
        join_where_cheap(fuser, instr, readers, true);
        if (readers->count == 1) node_of(instr)->owner = readers->groups[0];
        return;
    }
    bool output = !apart && (readers->stored || readers->count > 1);
    if (!output || !join_as_output(fuser, instr, readers, true)) start(fuser, instr, true);
    join_where_cheap(fuser, instr, readers, false);
}

/* Reduces and products: their readers become what happens to their results. */
static void visit_hero(struct fuser *fuser, struct hlo_instr *instr, struct readers *readers) {
    if (readers->count > 0 && !readers->stored &&
        join_all(fuser, readers->groups, readers->count, instr))
        return;
    if (!join_as_output(fuser, instr, readers, false)) start(fuser, instr, true);
}

/* Kernels that read the same array, if it is a good part of what they touch, read it once. */
static void merge_siblings(struct fuser *fuser, struct hlo_instr *instr) {
    struct readers readers;
    if (!shape_is_array(instr->shape) || instr->shape->count <= 1) return;
    find_readers(instr, &readers);
    for (int i = 0; i + 1 < readers.count; i++) {
        for (int k = i + 1; k < readers.count; k++) {
            struct group *pair[2] = {readers.groups[i], readers.groups[k]};
            if (pair[0]->count == 0 || pair[1]->count == 0) continue;
            if (pair[0]->shape == FUSION_SHAPE_PRODUCT || pair[1]->shape == FUSION_SHAPE_PRODUCT)
                continue;
            if (group_member(pair[0], instr) || group_member(pair[1], instr)) continue;
            double elements = (double)instr->shape->count;
            if (elements * 4 < pair[0]->elements && elements * 4 < pair[1]->elements) continue;
            join_all(fuser, pair, 2, NULL);
        }
    }
}

/* What is written depends on other places of the array that is updated: computed in the update's
 * kernel, in place, it would find some of them overwritten, so that each would be copied before.
 * Better one kernel that computes it all, and one that writes it. */
static bool reads_other_places(const struct hlo_instr *update) {
    enum { MOST = 64 };
    const struct hlo_instr *seen[MOST], *target = update->operands[0];
    int count = 0;
    if (instr_is_composed(update->operands[1])) seen[count++] = update->operands[1];
    for (int next = 0; next < count; next++) {
        const struct hlo_instr *instr = seen[next];
        for (int i = 0; i < instr->noperands; i++) {
            const struct hlo_instr *operand = instr->operands[i];
            int at = 0;
            if (operand == target && !reads_replaced(instr, update)) return true;
            while (at < count && seen[at] != operand)
                at++;
            if (at == count && count < MOST && instr_is_composed(operand)) seen[count++] = operand;
        }
    }
    return false;
}

static bool takes_producers(const struct hlo_instr *instr) {
    if (instr->opcode == OP_DYNAMIC_UPDATE_SLICE) return !reads_other_places(instr);
    return is_reduce_part(instr);
}

static void visit(struct fuser *fuser, struct hlo_instr *instr) {
    struct readers readers;
    find_readers(instr, &readers);
    if (!instr_has_users(instr) && instr != fuser->computation->root)
        start(fuser, instr, false);
    else if (is_fusible_reduce(instr) || instr_is_product(instr))
        visit_hero(fuser, instr, &readers);
    else if (can_compose(fuser, instr))
        visit_composed(fuser, instr, &readers);
    else
        start(fuser, instr, takes_producers(instr));
    merge_siblings(fuser, instr);
}

/* The instructions depth first from the root: an order that does not depend on the one they stand
 * in, so that the same program always becomes the same kernels. mark: 0 new, 1 waiting, 2 placed.
 */
static struct hlo_instr **depth_first(struct fuser *fuser) {
    struct hlo_computation *computation = fuser->computation;
    struct hlo_instr **order =
        arena_array(fuser->arena, (size_t)computation->count + 1, sizeof *order);
    struct hlo_instr **stack = NULL, *next = computation->root;
    int count = 0, depth = 0, capacity = 0;
    FOR_EACH_INSTR(instr, computation) instr->mark = 0;
    for (struct hlo_instr *rest = computation->first; next || rest;) {
        if (!next) next = rest, rest = rest->next;
        stack = arena_grow(fuser->arena, stack, &capacity, depth + 1, sizeof *stack);
        stack[depth++] = next;
        while (depth > 0) {
            struct hlo_instr *top = stack[depth - 1];
            int edges = top->noperands + top->ncontrol;
            if (top->mark != 0) {
                if (top->mark == 1) order[count++] = top;
                top->mark = 2;
                depth--;
                continue;
            }
            top->mark = 1;
            stack = arena_grow(fuser->arena, stack, &capacity, depth + edges, sizeof *stack);
            for (int i = edges - 1; i >= 0; i--) {
                struct hlo_instr *before =
                    i < top->noperands ? top->operands[i] : top->control[i - top->noperands];
                if (before->mark == 0) stack[depth++] = before;
            }
        }
        next = NULL;
    }
    return order;
}

static bool fuse_computation(struct pass_context *context, struct hlo_computation *computation,
                             const struct fusion_policy *policy) {
    struct fuser fuser = {
        .context = context, .policy = policy, .arena = arena_new(), .computation = computation};
    struct hlo_instr **order = depth_first(&fuser);
    int count = computation->count;
    for (int i = 0; i < count; i++) {
        struct node *node = arena_alloc(fuser.arena, sizeof *node);
        *node = (struct node){.instr = order[i], .position = i};
        order[i]->data = node;
        order[i]->mark = 0;
    }
    for (int i = count - 1; i >= 0; i--)
        visit(&fuser, order[i]);
    bool changed = groups_build(&fuser);
    arena_free(fuser.scratch);
    arena_free(fuser.arena);
    return changed;
}

/* Only what runs by itself: a reducer or a fusion's inside is part of a kernel already. */
bool fusion_run_with(struct pass_context *context, struct hlo_module *module,
                     const struct fusion_policy *policy) {
    bool changed = false;
    module_sort_computations(module);
    mark_running_computations(module);
    FOR_EACH_COMPUTATION(computation, module)
    if (computation->mark) changed |= fuse_computation(context, computation, policy);
    return changed;
}

bool fusion_run(struct pass_context *context, struct hlo_module *module) {
    return fusion_run_with(context, module, &cpu_policy);
}
