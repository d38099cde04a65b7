/* While loops: elements of the state that nobody needs, that never change and are known, or that
 * are always equal to another; loops that run no times or a few times. */
#include "passes/pass.h"
#include "passes/util.h"
#include "passes/while_loop.h"

enum {
    UNROLL_TRIPS = 4,         /* more often: the loop stays */
    UNROLL_INSTRUCTIONS = 64, /* in all copies of the body, but for loops that run once */
    MOST_COMPARED = 64,       /* instructions, to find two elements equal */
    MOST_PAIRS = 10000        /* of elements compared in one loop */
};

/* ---- what is needed ---- */

struct liveness {
    const struct while_loop *loop;
    bool *keep;
    struct hlo_instr **stack; /* of instructions in the body whose operands are to be looked at */
    int depth;
};

static void need(struct liveness *l, struct hlo_instr *instr) {
    if (instr->mark) return;
    instr->mark = 1;
    l->stack[l->depth++] = instr;
}

static void need_element(struct liveness *l, int k) {
    if (l->keep[k]) return;
    l->keep[k] = true;
    need(l, l->loop->root->operands[k]);
}

static void propagate(struct liveness *l) {
    while (l->depth > 0) {
        struct hlo_instr *instr = l->stack[--l->depth];
        if (instr->noperands == 1 && instr->operands[0] == l->loop->body_parameter)
            need_element(l, (int)instr_int(instr, ATTR_INDEX, 0));
        else
            for (int i = 0; i < instr->noperands; i++)
                need(l, instr->operands[i]);
    }
}

/* Needed: by the condition, outside, by what has effects, and by what is needed. */
static bool drop_dead(struct pass_context *context, struct while_loop *loop) {
    struct arena *arena = arena_new();
    struct liveness l = {.loop = loop};
    l.keep = arena_array(arena, (size_t)loop->count, sizeof *l.keep);
    l.stack = arena_array(arena, (size_t)loop->body->count + 1, sizeof *l.stack);
    FOR_EACH_INSTR(instr, loop->body) instr->mark = 0;
    struct hlo_instr *outside[2] = {loop->loop, loop->condition_parameter};
    for (int i = 0; i < 2; i++)
        for (struct hlo_use *use = outside[i]->users; use; use = use->next)
            if (instr_has_users(use->user) || use->user == use->user->parent->root)
                need_element(&l, (int)instr_int(use->user, ATTR_INDEX, 0));
    FOR_EACH_INSTR(instr, loop->body)
    if (instr_has_side_effect(instr) || instr->is_control_predecessor) need(&l, instr);
    propagate(&l);
    int kept = 0;
    for (int k = 0; k < loop->count; k++)
        kept += l.keep[k];
    if (kept == 0) l.keep[0] = true, kept = 1;
    bool drops = kept < loop->count && pass_may_rewrite(context);
    if (drops) while_keep(loop, l.keep);
    arena_free(arena);
    return drops;
}

/* ---- what never changes ---- */

/* Can be made again anywhere without its operands. */
static struct hlo_instr *copy_into(struct hlo_instr *instr, struct hlo_computation *computation,
                                   struct hlo_instr *before) {
    if (instr->opcode == OP_CONSTANT || instr->opcode == OP_IOTA)
        return instr_clone(instr, computation, before, NULL, NULL);
    if (instr->opcode != OP_BROADCAST || instr->operands[0]->opcode != OP_CONSTANT) return NULL;
    struct hlo_instr *scalar = copy_into(instr->operands[0], computation, before);
    return instr_clone(instr, computation, before, NULL, &scalar);
}

static bool has_users_beside(const struct hlo_instr *state, int k, const struct hlo_instr *root) {
    for (const struct hlo_use *use = state->users; use; use = use->next) {
        if (instr_int(use->user, ATTR_INDEX, -1) != k) continue;
        for (const struct hlo_use *u = use->user->users; u; u = u->next)
            if (u->user != root) return true;
        if (use->user == state->parent->root) return true;
    }
    return false;
}

static bool replace_known(struct pass_context *context, struct while_loop *loop, int k) {
    struct hlo_instr *init = loop->init->operands[k];
    struct hlo_instr *states[2] = {loop->body_parameter, loop->condition_parameter};
    bool changed = false, known = init->opcode == OP_CONSTANT || init->opcode == OP_IOTA ||
                                  init->opcode == OP_BROADCAST;
    if (has_users_beside(loop->loop, k, NULL) && pass_may_rewrite(context))
        changed = while_replace_element(loop->loop, k, init);
    for (int i = 0; i < 2 && known; i++) {
        if (!has_users_beside(states[i], k, loop->root) || init->ncontrol) continue;
        struct hlo_instr *copy;
        if (init->opcode == OP_BROADCAST && init->operands[0]->opcode != OP_CONSTANT) continue;
        if (!pass_may_rewrite(context)) continue;
        copy = copy_into(init, states[i]->parent, states[i]->next);
        changed |= while_replace_element(states[i], k, copy);
    }
    return changed;
}

/* ---- equal elements ---- */

static int element_of(const struct hlo_instr *instr, const struct hlo_instr *state) {
    if (instr->opcode != OP_GET_TUPLE_ELEMENT || instr->operands[0] != state) return -1;
    return (int)instr_int(instr, ATTR_INDEX, -1);
}

/* Equal where elements i and j are. */
static bool congruent(const struct while_loop *loop, const struct hlo_instr *a,
                      const struct hlo_instr *b, int i, int j, int *left) {
    if (a == b) return true;
    if (--*left < 0) return false;
    int x = element_of(a, loop->body_parameter), y = element_of(b, loop->body_parameter);
    if (x >= 0 || y >= 0) return (x == i && y == j) || (x == j && y == i);
    if (!instr_same_but_operands(a, b) || a->noperands == 0) return false;
    if (instr_has_side_effect(a) || a->ncontrol || b->ncontrol) return false;
    for (int k = 0; k < a->noperands; k++)
        if (!congruent(loop, a->operands[k], b->operands[k], i, j, left)) return false;
    return true;
}

static bool merge_equal(struct pass_context *context, struct while_loop *loop) {
    bool changed = false;
    int pairs = 0;
    for (int j = 1; j < loop->count && pairs < MOST_PAIRS; j++) {
        for (int i = 0; i < j && pairs < MOST_PAIRS; i++, pairs++) {
            int left = MOST_COMPARED;
            struct hlo_instr *init = loop->init->operands[i];
            if (init != loop->init->operands[j]) continue;
            if (!congruent(loop, loop->root->operands[i], loop->root->operands[j], i, j, &left))
                continue;
            if (!has_users_beside(loop->body_parameter, j, NULL) &&
                !has_users_beside(loop->condition_parameter, j, NULL) &&
                !has_users_beside(loop->loop, j, NULL))
                continue;
            if (!pass_may_rewrite(context)) return changed;
            struct hlo_instr *states[3] = {loop->body_parameter, loop->condition_parameter,
                                           loop->loop};
            for (int s = 0; s < 3; s++) {
                struct hlo_instr *element =
                    instr_new(states[s]->parent, states[s]->next, OP_GET_TUPLE_ELEMENT, init->shape,
                              NULL, 1, &states[s]);
                instr_set_int(element, ATTR_INDEX, i);
                while_replace_element(states[s], j, element);
            }
            changed = true;
            break;
        }
    }
    return changed;
}

/* ---- how often it runs ---- */

static bool integer_constant(const struct hlo_instr *instr, int64_t *value) {
    if (!instr_is_constant(instr) || instr->shape->count != 1 || instr->shape->rank != 0)
        return false;
    if (!element_type_is_integral(instr->shape->type)) return false;
    *value = literal_get_int(instr->literal, 0);
    return *value >= -(INT64_C(1) << 30) && *value <= (INT64_C(1) << 30);
}

/* The element that the condition compares with a constant, as `element WAY limit`. */
static int counter_of(const struct while_loop *loop, int64_t *way, int64_t *limit) {
    const struct hlo_instr *compare = loop->condition->root;
    static const int64_t turned[][2] = {{ENUM_DIRECTION_LT, ENUM_DIRECTION_GT},
                                        {ENUM_DIRECTION_GT, ENUM_DIRECTION_LT},
                                        {ENUM_DIRECTION_LE, ENUM_DIRECTION_GE},
                                        {ENUM_DIRECTION_GE, ENUM_DIRECTION_LE},
                                        {ENUM_DIRECTION_NE, ENUM_DIRECTION_NE}};
    if (compare->opcode != OP_COMPARE) return -1;
    *way = instr_int(compare, ATTR_DIRECTION, 0);
    int k = element_of(compare->operands[0], loop->condition_parameter);
    if (k >= 0 && integer_constant(compare->operands[1], limit)) return k;
    k = element_of(compare->operands[1], loop->condition_parameter);
    if (k < 0 || !integer_constant(compare->operands[0], limit)) return -1;
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++)
        if (turned[i][0] == *way) {
            *way = turned[i][1];
            return k;
        }
    return -1;
}

static bool holds(int64_t a, int64_t way, int64_t b) {
    switch (way) {
    case ENUM_DIRECTION_LT: return a < b;
    case ENUM_DIRECTION_LE: return a <= b;
    case ENUM_DIRECTION_GT: return a > b;
    case ENUM_DIRECTION_GE: return a >= b;
    case ENUM_DIRECTION_NE: return a != b;
    default: return a == b;
    }
}

/* How often the body runs, where that is known and at most `most`; -1 otherwise. */
static int trip_count(const struct while_loop *loop, int most) {
    int64_t way, limit, value, step = 0;
    int k = counter_of(loop, &way, &limit);
    if (k < 0 || !integer_constant(loop->init->operands[k], &value)) return -1;
    if (!holds(value, way, limit)) return 0;
    const struct hlo_instr *next = loop->root->operands[k];
    if (next->opcode != OP_ADD && next->opcode != OP_SUBTRACT) return -1;
    int from = element_of(next->operands[0], loop->body_parameter) == k ? 0 : 1;
    if (element_of(next->operands[from], loop->body_parameter) != k) return -1;
    if (!integer_constant(next->operands[1 - from], &step)) return -1;
    if (next->opcode == OP_SUBTRACT && from != 0) return -1;
    if (next->opcode == OP_SUBTRACT) step = -step;
    int bits = element_type_info(next->shape->type)->bits;
    bool sign = element_type_is_signed(next->shape->type);
    for (int trips = 0; trips <= most; trips++) {
        if (!holds(value, way, limit)) return trips;
        value += step;
        int64_t top = bits >= 32 ? INT64_MAX : (INT64_C(1) << (bits - sign)) - 1;
        if (value > top || value < (sign ? -top : 0)) return -1; /* may wrap */
    }
    return -1;
}

static bool unroll(struct pass_context *context, struct while_loop *loop) {
    int trips = trip_count(loop, UNROLL_TRIPS);
    if (trips < 0) return false;
    if (trips > 1 && trips * loop->body->count > UNROLL_INSTRUCTIONS) return false;
    FOR_EACH_INSTR(instr, loop->body)
    if (instr->ncontrol || instr->is_control_predecessor) return false;
    if (!pass_may_rewrite(context)) return false;
    struct arena *arena = arena_new();
    struct hlo_instr **state = arena_array(arena, (size_t)loop->count, sizeof *state);
    for (int k = 0; k < loop->count; k++)
        state[k] = loop->init->operands[k];
    for (int i = 0; i < trips; i++)
        while_inline_body(loop, state);
    for (struct hlo_use *use = loop->loop->users, *next; use; use = next) {
        struct hlo_instr *element = use->user;
        next = use->next;
        instr_replace_uses(element, state[instr_int(element, ATTR_INDEX, 0)]);
        instr_remove(element);
    }
    instr_remove(loop->loop);
    arena_free(arena);
    return true;
}

static bool simplify(struct pass_context *context, struct hlo_instr *instr) {
    struct while_loop loop;
    if (!while_open(instr, &loop)) return false;
    if (unroll(context, &loop)) return true;
    bool changed = false;
    for (int k = 0; k < loop.count; k++)
        if (while_is_invariant(&loop, k)) changed |= replace_known(context, &loop, k);
    changed |= merge_equal(context, &loop);
    changed |= drop_dead(context, &loop);
    return changed;
}

bool while_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    mark_side_effects(module);
    count_callers(module);
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr->opcode == OP_WHILE) changed |= simplify(context, instr);
    return changed;
}
