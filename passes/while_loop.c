#include "passes/while_loop.h"

#include <stdint.h>
#include <string.h>

#include "passes/util.h"

static void add_caller(struct hlo_computation *computation) {
    computation->data = (void *)((intptr_t)computation->data + 1);
}

static bool has_one_caller(const struct hlo_computation *computation) {
    return (intptr_t)computation->data == 1;
}

void count_callers(struct hlo_module *module) {
    FOR_EACH_COMPUTATION(computation, module) computation->data = NULL;
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    for (int i = 0; i < instr->ncalled; i++)
        add_caller(instr->called[i]);
}

static bool read_by_element(const struct hlo_instr *state) {
    for (const struct hlo_use *use = state->users; use; use = use->next)
        if (use->user->opcode != OP_GET_TUPLE_ELEMENT) return false;
    return state->parent->root != state;
}

bool while_open(struct hlo_instr *instr, struct while_loop *loop) {
    if (instr->opcode != OP_WHILE || instr->ncontrol || instr->is_control_predecessor) return false;
    *loop = (struct while_loop){.loop = instr, .init = instr->operands[0]};
    loop->condition = instr->called[0];
    loop->body = instr->called[1];
    if (!has_one_caller(loop->condition) || !has_one_caller(loop->body)) return false;
    if (loop->condition->nparameters != 1 || loop->body->nparameters != 1) return false;
    loop->condition_parameter = loop->condition->parameters[0];
    loop->body_parameter = loop->body->parameters[0];
    loop->root = loop->body->root;
    loop->count = loop->init->noperands;
    return loop->init->opcode == OP_TUPLE && loop->root->opcode == OP_TUPLE &&
           loop->init->shape == instr->shape && loop->root->shape == instr->shape &&
           loop->body_parameter->shape == instr->shape &&
           loop->condition_parameter->shape == instr->shape && !instr_has_users(loop->root) &&
           loop->root->noperands == loop->count && loop->count > 0 && read_by_element(instr) &&
           read_by_element(loop->body_parameter) && read_by_element(loop->condition_parameter);
}

bool while_is_invariant(const struct while_loop *loop, int k) {
    const struct hlo_instr *back = loop->root->operands[k];
    return back->opcode == OP_GET_TUPLE_ELEMENT && back->operands[0] == loop->body_parameter &&
           instr_int(back, ATTR_INDEX, -1) == k;
}

bool while_replace_element(struct hlo_instr *state, int k, struct hlo_instr *with) {
    bool any = false;
    for (struct hlo_use *use = state->users; use; use = use->next) {
        struct hlo_instr *element = use->user;
        bool used = instr_has_users(element) || element == element->parent->root;
        if (instr_int(element, ATTR_INDEX, -1) != k || !used || element == with) continue;
        instr_replace_uses(element, with);
        any = true;
    }
    return any;
}

void remove_unused(struct hlo_computation *computation) {
    for (struct hlo_instr *i = computation->last, *before; i; i = before) {
        before = i->prev;
        if (!instr_has_users(i) && i != computation->root && i->opcode != OP_PARAMETER &&
            !i->is_control_predecessor && !instr_has_side_effect(i))
            instr_remove(i);
    }
}

/* ---- another state ---- */

static const struct shape *tuple_of(struct hlo_module *module, int count,
                                    struct hlo_instr *const *operands) {
    struct arena *arena = module->arena;
    const struct shape **shapes = arena_array(arena, (size_t)count + 1, sizeof *shapes);
    for (int i = 0; i < count; i++)
        shapes[i] = operands[i]->shape;
    return shape_tuple(module->shapes, count, shapes);
}

static struct hlo_instr *new_tuple(struct hlo_instr *old, int count,
                                   struct hlo_instr *const *operands, const struct shape *shape) {
    struct hlo_instr *tuple = instr_new(old->parent, old, OP_TUPLE, shape, NULL, count, operands);
    tuple->metadata = old->metadata;
    return tuple;
}

static void set_state(struct while_loop *loop, int count, struct hlo_instr *const *init,
                      struct hlo_instr *const *back) {
    struct hlo_module *module = loop->body->module;
    const struct shape *shape = tuple_of(module, count, init);
    struct hlo_instr *in = new_tuple(loop->loop, count, init, shape);
    struct hlo_instr *out = new_tuple(loop->root, count, back, shape), *old = loop->root;
    instr_set_operand(loop->loop, 0, in);
    if (!instr_has_users(loop->init) && loop->init != loop->init->parent->root)
        instr_remove(loop->init);
    computation_set_root(loop->body, out);
    instr_remove(old);
    loop->loop->shape = loop->body_parameter->shape = loop->condition_parameter->shape = shape;
    loop->init = in;
    loop->root = out;
    loop->count = count;
}

static void renumber(struct hlo_instr *state, const int *number) {
    for (struct hlo_use *use = state->users, *next; use; use = next) {
        struct hlo_instr *element = use->user;
        int to = number[instr_int(element, ATTR_INDEX, 0)];
        next = use->next;
        if (to < 0)
            instr_remove(element);
        else
            instr_set_int(element, ATTR_INDEX, to);
    }
}

void while_keep(struct while_loop *loop, const bool *keep) {
    struct arena *arena = arena_new();
    size_t n = (size_t)loop->count + 1;
    int *number = arena_array(arena, n, sizeof *number), count = 0;
    struct hlo_instr **init = arena_array(arena, n, sizeof *init);
    struct hlo_instr **back = arena_array(arena, n, sizeof *back);
    for (int k = 0; k < loop->count; k++) {
        number[k] = keep[k] ? count : -1;
        if (!keep[k]) continue;
        init[count] = loop->init->operands[k];
        back[count++] = loop->root->operands[k];
    }
    set_state(loop, count, init, back);
    remove_unused(loop->body);
    remove_unused(loop->condition);
    renumber(loop->loop, number);
    renumber(loop->body_parameter, number);
    renumber(loop->condition_parameter, number);
    arena_free(arena);
}

int while_add(struct while_loop *loop, int more, struct hlo_instr *const *added) {
    struct arena *arena = arena_new();
    int first = loop->count, count = first + more;
    struct hlo_instr **init = arena_array(arena, (size_t)count, sizeof *init);
    struct hlo_instr **back = arena_array(arena, (size_t)count, sizeof *back);
    memcpy(init, loop->init->operands, (size_t)first * sizeof *init);
    memcpy(back, loop->root->operands, (size_t)first * sizeof *back);
    for (int i = 0; i < more; i++) {
        init[first + i] = added[i];
        back[first + i] = instr_new(loop->body, loop->body_parameter->next, OP_GET_TUPLE_ELEMENT,
                                    added[i]->shape, NULL, 1, &loop->body_parameter);
        instr_set_int(back[first + i], ATTR_INDEX, first + i);
    }
    set_state(loop, count, init, back);
    arena_free(arena);
    return first;
}

void while_inline_body(const struct while_loop *loop, struct hlo_instr **state) {
    struct arena *arena = arena_new();
    FOR_EACH_INSTR(instr, loop->body) {
        if (instr == loop->body_parameter || instr == loop->root) continue;
        if (instr->opcode == OP_GET_TUPLE_ELEMENT && instr->operands[0] == loop->body_parameter) {
            instr->data = state[instr_int(instr, ATTR_INDEX, 0)];
            continue;
        }
        struct hlo_instr **operands =
            arena_array(arena, (size_t)instr->noperands + 1, sizeof *operands);
        for (int i = 0; i < instr->noperands; i++)
            operands[i] = instr->operands[i]->data;
        instr->data = instr_clone(instr, loop->loop->parent, loop->loop, NULL, operands);
        for (int i = 0; i < instr->ncalled; i++)
            add_caller(instr->called[i]);
    }
    struct hlo_instr **after = arena_array(arena, (size_t)loop->count, sizeof *after);
    for (int k = 0; k < loop->count; k++)
        after[k] = loop->root->operands[k]->data;
    memcpy(state, after, (size_t)loop->count * sizeof *after);
    arena_free(arena);
}
