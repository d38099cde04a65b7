/* Groups become fusion instructions: first all the bodies, from the instructions as they are; then
 * every operand is led to what stands for it; then the schedule is put in order. */
#include <stdlib.h>
#include <string.h>

#include "passes/fusion_group.h"

static int compare_members(const void *x, const void *y) {
    const struct member *a = x, *b = y;
    int pa = node_of(a->instr)->position, pb = node_of(b->instr)->position;
    return pa < pb ? -1 : pa > pb;
}

static void index_members(const struct group *group) {
    for (int i = 0; i < group->count; i++) {
        struct node *node = node_of(group->members[i].instr);
        for (int k = 0; k < node->count; k++)
            if (node->in[k].group == group) node->in[k].index = i;
    }
}

static void sort_members(struct group *group) {
    qsort(group->members, (size_t)group->count, sizeof *group->members, compare_members);
    index_members(group);
}

/* The group stores the value: it owns it, and somebody outside of the group reads it. */
static bool is_output(const struct group *group, const struct hlo_instr *instr) {
    if (node_of(instr)->owner != group) return false;
    if (instr == instr->parent->root) return true;
    for (const struct hlo_use *use = instr->users; use; use = use->next) {
        const struct node *user = node_of(use->user);
        for (int i = 0; i < user->count; i++)
            if (!group_member(user->in[i].group, instr)) return true;
    }
    return false;
}

static void find_outputs(struct fuser *fuser, struct group *group) {
    group->outputs = arena_array(fuser->arena, (size_t)group->count, sizeof *group->outputs);
    for (int i = 0; i < group->count; i++)
        if (is_output(group, group->members[i].instr))
            group->outputs[group->noutputs++] = group->members[i].instr;
}

static void find_operands(struct fuser *fuser, struct group *group) {
    int most = 0;
    for (int i = 0; i < group->count; i++)
        most += group->members[i].instr->noperands;
    group->operands = arena_array(fuser->arena, (size_t)most + 1, sizeof *group->operands);
    group->noperands = group_operands(group, group->operands, most);
}

static bool is_name(const struct hlo_instr *instr) {
    return instr->opcode == OP_RESHAPE && !shape_is_dynamic(instr->shape) &&
           shape_layout_is_default(instr->shape) &&
           shape_layout_is_default(instr->operands[0]->shape);
}

static void leave(struct hlo_instr *instr, const struct group *group) {
    struct node *node = node_of(instr);
    for (int i = 0; i < node->count; i++)
        if (node->in[i].group == group) node->in[i--] = node->in[--node->count];
}

static bool is_transposed(const struct group *group, const struct hlo_instr *instr) {
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (use->user->opcode == OP_TRANSPOSE && group_member(group, use->user)) return true;
    return false;
}

/* A reshape of what a kernel loads is another name for it: a transpose loads it by that name, with
 * the places that it asks for, which other shapes would have to be divided for. Loops that keep
 * places are left their choice of shapes. */
static void leave_names(struct fuser *fuser, struct group *group) {
    int count = 0;
    for (int i = 0; i < group->count; i++) {
        struct hlo_instr *instr = group->members[i].instr;
        struct node *node = node_of(instr);
        if (is_name(instr) && node->owner != group && is_transposed(group, instr) &&
            !group_member(group, instr->operands[0])) {
            leave(instr, group);
            if (!node->owner) group_new(fuser, instr, false);
        } else {
            group->members[count++] = group->members[i];
        }
    }
    if (count == group->count) return;
    group->count = count;
    index_members(group);
}

/* Instructions that are work; what is left is cheaper where it stands. */
static int work_count(const struct group *group) {
    int count = 0;
    for (int i = 0; i < group->count; i++)
        count += group->members[i].instr->opcode != OP_CONSTANT;
    return count;
}

static struct hlo_instr *inside(const struct group *group, const struct hlo_instr *operand,
                                struct hlo_instr *const *copies) {
    const struct member *member = group_member(group, operand);
    if (member) return copies[member - group->members];
    for (int i = 0;; i++)
        if (group->operands[i] == operand) return group->body->parameters[i];
}

static struct hlo_instr *build_root(struct fuser *fuser, const struct group *group,
                                    struct hlo_instr *const *copies) {
    int n = group->noutputs;
    struct hlo_instr **outputs = arena_array(fuser->arena, (size_t)n, sizeof *outputs);
    const struct shape **shapes = arena_array(fuser->arena, (size_t)n, sizeof *shapes);
    for (int i = 0; i < n; i++) {
        outputs[i] = inside(group, group->outputs[i], copies);
        shapes[i] = outputs[i]->shape;
    }
    if (n == 1) return outputs[0];
    const struct shape *shape = shape_tuple(group->body->module->shapes, n, shapes);
    return instr_new(group->body, NULL, OP_TUPLE, shape, NULL, n, outputs);
}

static void build_body(struct fuser *fuser, struct group *group) {
    struct hlo_instr **copies = arena_array(fuser->arena, (size_t)group->count, sizeof *copies);
    group->body = computation_new(fuser->computation->module, "fused_computation", true);
    for (int i = 0; i < group->noperands; i++)
        instr_new_parameter(group->body, i, group->operands[i]->shape, "param");
    computation_index_parameters(group->body);
    for (int i = 0; i < group->count; i++) {
        const struct hlo_instr *member = group->members[i].instr;
        struct hlo_instr **operands =
            arena_array(fuser->arena, (size_t)member->noperands + 1, sizeof *operands);
        for (int k = 0; k < member->noperands; k++)
            operands[k] = inside(group, member->operands[k], copies);
        copies[i] = instr_clone(member, group->body, NULL, NULL, operands);
    }
    computation_set_root(group->body, build_root(fuser, group, copies));
}

static int kind_of(enum fusion_shape shape) {
    switch (shape) {
    case FUSION_SHAPE_REDUCE:
    case FUSION_SHAPE_ROWS: return ENUM_FUSION_KIND_INPUT;
    case FUSION_SHAPE_PRODUCT: return ENUM_FUSION_KIND_OUTPUT;
    default: return ENUM_FUSION_KIND_LOOP;
    }
}

/* Named after what it is for and what it ends in: reduce_divide_fusion. */
static const char *name_of(struct fuser *fuser, const struct fusion_info *info) {
    const char *hero = opcode_name(info->hero->opcode);
    const char *last = opcode_name(info->outputs[info->noutputs - 1]->opcode);
    bool same = strcmp(hero, last) == 0;
    return arena_printf(fuser->arena, "%s%s%s_fusion", hero, same ? "" : "_", same ? "" : last);
}

static void build_fusion(struct fuser *fuser, struct group *group) {
    const struct fusion_info *info = fusion_analyse(fuser->arena, group->body);
    struct hlo_instr *last = group->members[group->count - 1].instr;
    struct hlo_instr *fusion =
        instr_new(fuser->computation, last->next, OP_FUSION, group->body->root->shape,
                  name_of(fuser, info), group->noperands, group->operands);
    instr_set_called(fusion, 1, &group->body);
    struct hlo_attr kind = {.key = ATTR_FUSION_KIND, .i = kind_of(info->shape)};
    instr_set_attr(fusion, &kind);
    fusion->metadata = last->metadata;
    for (int i = 0; i < group->noutputs; i++) {
        struct hlo_instr *with = fusion;
        if (group->noutputs > 1) {
            with = instr_new(fuser->computation, last->next->next, OP_GET_TUPLE_ELEMENT,
                             group->outputs[i]->shape, NULL, 1, &fusion);
            instr_set_int(with, ATTR_INDEX, i);
        }
        node_of(group->outputs[i])->with = with;
    }
}

/* ---- afterwards ---- */

static struct hlo_instr *standing_for(const struct hlo_instr *instr) {
    const struct node *node = node_of(instr);
    return node ? node->with : NULL;
}

static void redirect(struct fuser *fuser) {
    struct hlo_computation *computation = fuser->computation;
    FOR_EACH_INSTR(instr, computation)
    for (int i = 0; i < instr->noperands; i++) {
        struct hlo_instr *with = standing_for(instr->operands[i]);
        if (with && with != instr) instr_set_operand(instr, i, with);
    }
    struct hlo_instr *root = standing_for(computation->root);
    if (root) computation_set_root(computation, root);
}

static void remove_members(struct fuser *fuser) {
    for (struct hlo_instr *i = fuser->computation->last, *before; i; i = before) {
        const struct node *node = node_of(i);
        bool built = false;
        before = i->prev;
        for (int k = 0; node && k < node->count; k++)
            built = built || node->in[k].group->built;
        if (built && !instr_has_users(i) && i != fuser->computation->root) instr_remove(i);
    }
}

/* A reshape that is in no kernel is another name for its operand. */
static bool rename_reshapes(struct fuser *fuser) {
    bool changed = false;
    FOR_EACH_INSTR(instr, fuser->computation) {
        if (!is_name(instr)) continue;
        if (!pass_may_rewrite(fuser->context)) break;
        struct hlo_instr *bitcast = instr_new(fuser->computation, instr, OP_BITCAST, instr->shape,
                                              NULL, 1, instr->operands);
        bitcast->metadata = instr->metadata;
        instr_replace_uses(instr, bitcast);
        instr_remove(instr);
        changed = true;
    }
    return changed;
}

/* Operands first, else as before. mark: 0 new, 1 waiting for its operands, 2 placed. */
struct order {
    struct arena *arena;
    struct hlo_instr **stack;
    int depth, capacity;
};

static void push(struct order *order, struct hlo_instr *instr) {
    if (instr->mark != 0) return;
    order->stack = arena_grow(order->arena, order->stack, &order->capacity, order->depth + 1,
                              sizeof *order->stack);
    order->stack[order->depth++] = instr;
}

static int place(struct order *order, struct hlo_instr **placed, int count) {
    while (order->depth > 0) {
        struct hlo_instr *top = order->stack[order->depth - 1];
        if (top->mark != 0) {
            order->depth--;
            if (top->mark == 1) placed[count++] = top;
            top->mark = 2;
            continue;
        }
        top->mark = 1;
        for (int i = top->noperands - 1; i >= 0; i--)
            push(order, top->operands[i]);
        for (int i = 0; i < top->ncontrol; i++)
            push(order, top->control[i]);
    }
    return count;
}

static void sort_instructions(struct fuser *fuser) {
    struct hlo_computation *computation = fuser->computation;
    struct hlo_instr **placed =
        arena_array(fuser->arena, (size_t)computation->count + 1, sizeof *placed);
    struct order order = {.arena = fuser->arena};
    int count = 0;
    FOR_EACH_INSTR(instr, computation) instr->mark = 0;
    FOR_EACH_INSTR(instr, computation) {
        push(&order, instr);
        count = place(&order, placed, count);
    }
    for (int i = 0; i < count; i++)
        instr_move_before(placed[i], NULL);
}

bool groups_build(struct fuser *fuser) {
    bool changed = false;
    int ngroups = fuser->ngroups; /* those of names, which come after, are no kernels */
    for (int i = 0; i < ngroups; i++) {
        if (!fuser->groups[i]->open) continue;
        sort_members(fuser->groups[i]);
        leave_names(fuser, fuser->groups[i]);
    }
    for (int i = 0; i < ngroups; i++) {
        struct group *group = fuser->groups[i];
        if (!group->open || work_count(group) < 2) continue;
        find_outputs(fuser, group);
        if (group->noutputs == 0 || !pass_may_rewrite(fuser->context)) continue;
        find_operands(fuser, group);
        build_body(fuser, group);
        group->built = changed = true;
    }
    for (int i = 0; i < fuser->ngroups; i++)
        if (fuser->groups[i]->built) build_fusion(fuser, fuser->groups[i]);
    if (changed) {
        redirect(fuser);
        remove_members(fuser);
        sort_instructions(fuser);
    }
    return rename_reshapes(fuser) || changed;
}
