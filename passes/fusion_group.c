#include "passes/fusion_group.h"

#include <stdlib.h>

struct node *node_of(const struct hlo_instr *instr) {
    return instr->data;
}

static struct membership *membership_in(const struct hlo_instr *instr, const struct group *group) {
    struct node *node = node_of(instr);
    for (int i = 0; i < node->count; i++)
        if (node->in[i].group == group) return &node->in[i];
    return NULL;
}

struct member *group_member(const struct group *group, const struct hlo_instr *instr) {
    const struct membership *in = membership_in(instr, group);
    return in ? &group->members[in->index] : NULL;
}

void group_add(struct fuser *fuser, struct group *group, struct hlo_instr *instr,
               struct fusion_use use) {
    struct node *node = node_of(instr);
    node->in =
        arena_grow(fuser->arena, node->in, &node->capacity, node->count + 1, sizeof *node->in);
    node->in[node->count++] = (struct membership){group, group->count};
    group->members = arena_grow(fuser->arena, group->members, &group->capacity, group->count + 1,
                                sizeof *group->members);
    group->members[group->count++] = (struct member){instr, use};
    group->code += fusion_operation_cost(instr);
}

struct group *group_new(struct fuser *fuser, struct hlo_instr *instr, bool open) {
    struct group *group = arena_alloc(fuser->arena, sizeof *group);
    *group = (struct group){.id = fuser->ngroups, .open = open};
    group->elements = shape_is_array(instr->shape) ? (double)instr->shape->count : 0;
    fuser->groups = arena_grow(fuser->arena, fuser->groups, &fuser->capacity, fuser->ngroups + 1,
                               sizeof *fuser->groups);
    fuser->groups[fuser->ngroups++] = group;
    group_add(fuser, group, instr, (struct fusion_use){0, 1, group->elements});
    node_of(instr)->owner = group;
    return group;
}

/* Takes the members of two groups together, in order. */
static struct member *merged_members(struct fuser *fuser, const struct group *a,
                                     const struct group *b, int *count) {
    struct member *all = arena_array(fuser->arena, (size_t)(a->count + b->count) + 1, sizeof *all);
    int i = 0, k = 0, n = 0;
    while (i < a->count || k < b->count) {
        int x = i < a->count ? node_of(a->members[i].instr)->position : -1;
        int y = k < b->count ? node_of(b->members[k].instr)->position : -1;
        all[n++] = x >= y ? a->members[i] : b->members[k];
        i += x >= y;
        k += y >= x;
    }
    *count = n;
    return all;
}

/* Of all members, anew: what one group made, the other may read. Users come before operands. */
static void count_uses(struct fuser *fuser, struct group *group) {
    for (int i = 0; i < group->count; i++) {
        struct fusion_use use = group_use_of(fuser, group, group->members[i].instr);
        if (use.copies > 0) group->members[i].use = use; /* others are results: as they were */
    }
}

void group_merge(struct fuser *fuser, struct group *into, struct group *from) {
    int count;
    struct member *all = merged_members(fuser, into, from, &count);
    for (int i = 0; i < from->count; i++) {
        struct node *node = node_of(from->members[i].instr);
        struct membership *old = membership_in(node->instr, from);
        if (group_member(into, node->instr))
            *old = node->in[--node->count];
        else
            old->group = into;
        if (node->owner == from) node->owner = into;
    }
    into->members = all;
    into->count = into->capacity = count;
    for (int i = 0; i < count; i++)
        membership_in(all[i].instr, into)->index = i;
    into->code += from->code;
    from->count = 0;
    from->open = false;
    count_uses(fuser, into);
}

/* ---- what the groups would be as one ---- */

static int compare_positions(const void *x, const void *y) {
    int a = node_of(*(struct hlo_instr *const *)x)->position;
    int b = node_of(*(struct hlo_instr *const *)y)->position;
    return a < b ? -1 : a > b;
}

/* From last to first, as members of one group are. */
static bool is_sorted(struct hlo_instr *const *members, int n) {
    for (int i = 1; i < n; i++)
        if (node_of(members[i - 1])->position < node_of(members[i])->position) return false;
    return true;
}

static void reverse(struct hlo_instr **members, int n) {
    for (int i = 0; i < n / 2; i++) {
        struct hlo_instr *swap = members[i];
        members[i] = members[n - 1 - i];
        members[n - 1 - i] = swap;
    }
}

static bool is_in(struct group *const *groups, int count, const struct hlo_instr *instr) {
    for (int i = 0; i < count; i++)
        if (group_member(groups[i], instr)) return true;
    return false;
}

static bool is_one_of(struct group *const *groups, int count, const struct group *group) {
    for (int i = 0; i < count; i++)
        if (groups[i] == group) return true;
    return false;
}

/* Somebody who is not among them reads the value (or it is the root). */
static bool leaves(const struct hlo_instr *instr, struct group *const *groups, int count) {
    const struct node *node = node_of(instr);
    if (node->owner && !is_one_of(groups, count, node->owner)) return false;
    if (instr == instr->parent->root) return true;
    for (const struct hlo_use *use = instr->users; use; use = use->next) {
        const struct node *user = node_of(use->user);
        if (user->count == 0) return true;
        for (int i = 0; i < user->count; i++) {
            const struct group *group = user->in[i].group;
            if (!is_one_of(groups, count, group) && !group_member(group, instr)) return true;
        }
    }
    return false;
}

static int collect(struct fuser *fuser, struct group *const *groups, int count,
                   struct hlo_instr *instr, struct hlo_instr ***members) {
    int most = 1, n = 0;
    for (int i = 0; i < count; i++)
        most += groups[i]->count;
    *members = arena_array(fuser->scratch, (size_t)most, sizeof **members);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < groups[i]->count; k++)
            if (i == 0 || !is_in(groups, i, groups[i]->members[k].instr))
                (*members)[n++] = groups[i]->members[k].instr;
    if (instr && !is_in(groups, count, instr)) (*members)[n++] = instr;
    if (count == 1 || is_sorted(*members, n))
        reverse(*members, n);
    else
        qsort(*members, (size_t)n, sizeof **members, compare_positions);
    return n;
}

/* A member that nobody owns is computed by all that read it. */
static bool may_be_output(const struct hlo_instr *member, const struct hlo_instr *instr,
                          bool may_store) {
    return member == instr ? may_store : node_of(member)->owner != NULL;
}

static void renew_scratch(struct fuser *fuser) {
    enum { QUESTIONS = 256 };
    if (fuser->nscratch++ % QUESTIONS != 0) return;
    arena_free(fuser->scratch);
    fuser->scratch = arena_new();
}

enum fusion_shape group_classify(struct fuser *fuser, struct group *const *groups, int count,
                                 struct hlo_instr *instr, bool may_store,
                                 const struct fusion_info **info) {
    struct hlo_instr **members, **outputs;
    renew_scratch(fuser);
    int n = collect(fuser, groups, count, instr, &members), noutputs = 0;
    outputs = arena_array(fuser->scratch, (size_t)n + 1, sizeof *outputs);
    for (int i = 0; i < n; i++)
        if (may_be_output(members[i], instr, may_store) && leaves(members[i], groups, count))
            outputs[noutputs++] = members[i];
    double code = 0;
    for (int i = 0; i < n; i++)
        code += fusion_operation_cost(members[i]);
    if (n > FUSION_MOST_MEMBERS || noutputs > fuser->policy->most_outputs ||
        (n > 1 && code > FUSION_MOST_CODE))
        return FUSION_SHAPE_NONE;
    *info = fusion_analyse_members(fuser->scratch, n, members, noutputs, outputs);
    if ((*info)->shape == FUSION_SHAPE_NONE || n == 1) return (*info)->shape;
    return fuser->policy->takes(*info, n, members) ? (*info)->shape : FUSION_SHAPE_NONE;
}

/* ---- cycles ---- */

struct search {
    struct group *const *groups;
    int count;
    const struct hlo_instr *instr;
    int stamp, edges;
    struct group **stack;
    int depth, capacity;
    bool found;
};

enum { MOST_EDGES = 3000 }; /* looked at before a cycle is assumed */

static void search_operand(struct fuser *fuser, struct search *search, const struct group *group,
                           const struct hlo_instr *operand, bool start) {
    struct group *owner = node_of(operand)->owner;
    if (++search->edges > MOST_EDGES) search->found = true;
    if (group_member(group, operand)) return;
    bool ours = operand == search->instr || is_in(search->groups, search->count, operand);
    if (ours && owner) ours = is_one_of(search->groups, search->count, owner);
    if (ours && !start) search->found = true;
    if (ours || !owner || owner->visited == search->stamp) return;
    owner->visited = search->stamp;
    search->stack = arena_grow(fuser->arena, search->stack, &search->capacity, search->depth + 1,
                               sizeof *search->stack);
    search->stack[search->depth++] = owner;
}

/* What `group` reads from others. At the start, reading from one another is no way around. */
static void search_operands(struct fuser *fuser, struct search *search, const struct group *group,
                            bool start) {
    for (int i = 0; i < group->count && !search->found; i++) {
        const struct hlo_instr *member = group->members[i].instr;
        for (int k = 0; k < member->noperands; k++)
            search_operand(fuser, search, group, member->operands[k], start);
        for (int k = 0; k < member->ncontrol; k++)
            search_operand(fuser, search, group, member->control[k], start);
    }
}

bool group_is_cyclic(struct fuser *fuser, struct group *const *groups, int count,
                     const struct hlo_instr *instr) {
    struct search search = {.groups = groups, .count = count, .instr = instr};
    search.stamp = ++fuser->stamp;
    for (int i = 0; i < count; i++)
        groups[i]->visited = search.stamp;
    for (int i = 0; i < count; i++)
        search_operands(fuser, &search, groups[i], true);
    while (search.depth > 0 && !search.found)
        search_operands(fuser, &search, search.stack[--search.depth], false);
    return search.found;
}

int group_operands(const struct group *group, struct hlo_instr **operands, int most) {
    int count = 0;
    for (int i = 0; i < group->count; i++) {
        const struct hlo_instr *member = group->members[i].instr;
        for (int k = 0; k < member->noperands; k++) {
            int at = 0;
            if (group_member(group, member->operands[k])) continue;
            while (at < count && operands[at] != member->operands[k])
                at++;
            if (at < count) continue;
            if (count == most) return most;
            operands[count++] = member->operands[k];
        }
    }
    return count;
}
