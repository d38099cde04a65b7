/* Work in a loop's body that is the same each time around is done once, before the loop. Free
 * things (broadcasts, constants, ...) and single numbers move only along with what needs them: a
 * kernel in the body has them for nothing. */
#include "passes/dataflow.h"
#include "passes/fusion_shape.h"
#include "passes/pass.h"
#include "passes/util.h"
#include "passes/while_loop.h"

struct motion {
    struct while_loop *loop;
    bool *wanted; /* by place in the body's list (mark - 1): to be made outside */
    struct hlo_instr **carried, **inside; /* copies that the body reads, and who they stand for */
    int ncarried;
};

enum { MOST_CARRIED = 64 }; /* new elements for one loop */

static bool may_move(const struct hlo_instr *instr) {
    if (!shape_is_array(instr->shape) || shape_is_dynamic(instr->shape)) return false;
    if (instr->ncontrol || instr->is_control_predecessor || instr_has_side_effect(instr))
        return false;
    switch (instr->opcode) {
    case OP_PARAMETER:
    case OP_RNG_BIT_GENERATOR:
    case OP_OPT_BARRIER:
    case OP_CUSTOM_CALL:
    case OP_PARTITION_ID:
    case OP_REPLICA_ID: return false;
    default: return !instr_runs_callees(instr);
    }
}

/* mark: 0 changes with each trip; else 1 + its place in the list. */
static bool is_invariant(const struct motion *m, const struct hlo_instr *instr) {
    if (instr->opcode == OP_GET_TUPLE_ELEMENT && instr->operands[0] == m->loop->body_parameter)
        return while_is_invariant(m->loop, (int)instr_int(instr, ATTR_INDEX, 0));
    if (!may_move(instr)) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (!instr->operands[i]->mark) return false;
    return true;
}

static bool is_free(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_GET_TUPLE_ELEMENT:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_IOTA:
    case OP_CONSTANT: return true;
    default: return false;
    }
}

/* Worth it: real work, and no more memory than what it is made from. */
static bool is_worth_moving(const struct hlo_instr *instr) {
    int64_t bytes = 0;
    if (is_free(instr) || instr->shape->count <= 1) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (i == 0 || instr->operands[i] != instr->operands[i - 1])
            bytes += instr->operands[i]->shape->bytes;
    return instr->shape->bytes <= bytes;
}

/* Somebody who stays in the loop reads it. */
static bool is_read_inside(const struct hlo_instr *instr) {
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (!use->user->mark || !is_worth_moving(use->user)) return true;
    return false;
}

static bool feeds_wanted(const struct motion *m, const struct hlo_instr *instr) {
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (use->user->mark && m->wanted[use->user->mark - 1]) return true;
    return false;
}

static void choose(struct pass_context *context, struct motion *m) {
    for (struct hlo_instr *i = m->loop->body->last; i; i = i->prev) {
        if (!i->mark) continue;
        if (is_worth_moving(i) && is_read_inside(i) && m->ncarried < MOST_CARRIED &&
            pass_may_rewrite(context)) {
            m->inside[m->ncarried++] = i;
            m->wanted[i->mark - 1] = true;
        }
        m->wanted[i->mark - 1] = m->wanted[i->mark - 1] || feeds_wanted(m, i);
    }
}

/* data: the copy outside. */
static void copy_outside(struct motion *m, struct arena *arena) {
    FOR_EACH_INSTR(instr, m->loop->body) {
        if (!instr->mark || !m->wanted[instr->mark - 1]) continue;
        if (instr->opcode == OP_GET_TUPLE_ELEMENT &&
            instr->operands[0] == m->loop->body_parameter) {
            instr->data = m->loop->init->operands[instr_int(instr, ATTR_INDEX, 0)];
            continue;
        }
        struct hlo_instr **operands =
            arena_array(arena, (size_t)instr->noperands + 1, sizeof *operands);
        for (int i = 0; i < instr->noperands; i++)
            operands[i] = instr->operands[i]->data;
        instr->data = instr_clone(instr, m->loop->loop->parent, m->loop->loop, NULL, operands);
    }
    for (int i = 0; i < m->ncarried; i++)
        m->carried[i] = m->inside[i]->data;
}

static bool move_loop(struct pass_context *context, struct while_loop *loop) {
    struct arena *arena = arena_new();
    struct hlo_instr *carried[MOST_CARRIED], *inside[MOST_CARRIED];
    struct motion m = {.loop = loop, .carried = carried, .inside = inside};
    m.wanted = arena_array(arena, (size_t)loop->body->count + 1, sizeof *m.wanted);
    int place = 0;
    FOR_EACH_INSTR(instr, loop->body) {
        place++;
        instr->mark = is_invariant(&m, instr) ? place : 0;
    }
    choose(context, &m);
    if (m.ncarried > 0) {
        copy_outside(&m, arena);
        int first = while_add(loop, m.ncarried, m.carried);
        for (int i = 0; i < m.ncarried; i++)
            instr_replace_uses(m.inside[i], loop->root->operands[first + i]);
        remove_unused(loop->body);
    }
    arena_free(arena);
    return m.ncarried > 0;
}

/* Inner loops first: what they cannot hold any longer may leave the outer one as well. */
bool while_invariant_motion_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    mark_side_effects(module);
    count_callers(module);
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation) {
        struct while_loop loop;
        if (while_open(instr, &loop)) changed |= move_loop(context, &loop);
    }
    return changed;
}
