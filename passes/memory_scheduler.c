/* The order of instructions, for memory: of the order that is there, a list schedule that takes
 * what frees most first, and a depth-first one from the result, the one with the least memory alive
 * at once. Sizes are those of buffers; what is an input, a constant or part of the result has none.
 */
#include <stdlib.h>
#include <string.h>

#include "passes/buffer_assignment.h"
#include "passes/dataflow.h"
#include "passes/pass.h"

struct step {
    struct hlo_instr *instr;
    int first_read, nreads; /* in scheduler->reads */
    int64_t makes;          /* bytes */
    int64_t inner;          /* bytes while it runs, in the computations that it calls */
    bool named;             /* an alias, parameter or constant: takes no memory */
};

struct value {
    int64_t size;
    int readers; /* instructions that read it */
    int left;    /* of them, those that are not scheduled yet */
    int last;    /* exclusive or of the places of those left: the place of the only one */
};

struct scheduler {
    struct arena *arena;
    const struct dataflow *flow;
    int64_t *peak; /* by computation id: of what its instructions make */
    int nsteps, nreads, read_capacity;
    struct step *steps;
    int *reads;           /* values, each once for each reader */
    struct value *values; /* by number in flow */
};

/* ---- what there is ---- */

static int64_t rounded(int64_t bytes) {
    return (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
}

static bool is_named(const struct hlo_instr *instr) {
    return instr_is_alias(instr) || instr->opcode == OP_PARAMETER || instr->opcode == OP_CONSTANT;
}

static void add_read(struct scheduler *s, struct step *step, int value) {
    for (int i = 0; i < step->nreads && i < 64; i++)
        if (s->reads[step->first_read + i] == value) return;
    s->reads = arena_grow(s->arena, s->reads, &s->read_capacity, s->nreads + 1, sizeof *s->reads);
    s->reads[s->nreads++] = value;
    s->values[value].readers++;
    step->nreads++;
}

static void find_reads(struct scheduler *s, struct step *step) {
    const struct hlo_instr *instr = step->instr;
    step->first_read = s->nreads;
    if (instr_is_alias(instr)) return;
    for (int i = 0; i < instr->noperands; i++)
        for (int leaf = 0; leaf < instr->operands[i]->shape->nleaves; leaf++) {
            int value = flow_value_of(s->flow, instr->operands[i], leaf);
            if (s->values[value].size > 0) add_read(s, step, value);
        }
}

static void find_sizes(struct scheduler *s, struct step *step) {
    struct hlo_instr *instr = step->instr;
    step->named = is_named(instr);
    for (int leaf = 0; !step->named && leaf < instr->shape->nleaves; leaf++) {
        int value = flow_value_of(s->flow, instr, leaf);
        const struct flow_value *v = &s->flow->values[value];
        if (v->instr != instr || v->leaf != leaf) continue;
        int64_t bytes = shape_leaf(instr->shape, leaf)->bytes;
        s->values[value] = (struct value){.size = rounded(bytes > 0 ? bytes : 0)};
    }
    for (int i = 0; instr_runs_callees(instr) && i < instr->ncalled; i++)
        if (s->peak[instr->called[i]->id] > step->inner)
            step->inner = s->peak[instr->called[i]->id];
}

static void describe(struct scheduler *s, struct hlo_computation *computation) {
    const struct hlo_instr *root = computation->root;
    s->nsteps = s->nreads = 0;
    s->steps = arena_array(s->arena, (size_t)computation->count + 1, sizeof *s->steps);
    FOR_EACH_INSTR(instr, computation) {
        instr->mark = s->nsteps;
        s->steps[s->nsteps] = (struct step){.instr = instr};
        find_sizes(s, &s->steps[s->nsteps++]);
    }
    for (int leaf = 0; leaf < root->shape->nleaves; leaf++)
        s->values[flow_value_of(s->flow, root, leaf)].size = 0;
    for (int i = 0; i < s->nsteps; i++) {
        struct step *step = &s->steps[i];
        find_reads(s, step);
        for (int leaf = 0; !step->named && leaf < step->instr->shape->nleaves; leaf++) {
            int value = flow_value_of(s->flow, step->instr, leaf);
            if (s->flow->values[value].instr == step->instr) step->makes += s->values[value].size;
        }
    }
}

static void start_counting(struct scheduler *s) {
    for (int i = 0; i < s->nsteps; i++)
        for (int k = 0; k < s->steps[i].nreads; k++) {
            struct value *value = &s->values[s->reads[s->steps[i].first_read + k]];
            value->left = value->readers;
            value->last = 0;
        }
    for (int i = 0; i < s->nsteps; i++)
        for (int k = 0; k < s->steps[i].nreads; k++)
            s->values[s->reads[s->steps[i].first_read + k]].last ^= i;
}

/* ---- what an order costs ---- */

/* Of what the step makes, what nobody reads. */
static int64_t dead_bytes(const struct scheduler *s, const struct step *step) {
    int64_t bytes = 0;
    for (int leaf = 0; step->makes > 0 && leaf < step->instr->shape->nleaves; leaf++) {
        int value = flow_value_of(s->flow, step->instr, leaf);
        bool own = s->flow->values[value].instr == step->instr;
        if (own && s->values[value].readers == 0) bytes += s->values[value].size;
    }
    return bytes;
}

static int64_t peak_of(struct scheduler *s, const int *order) {
    int64_t live = 0, most = 0;
    start_counting(s);
    for (int i = 0; i < s->nsteps; i++) {
        const struct step *step = &s->steps[order[i]];
        live += step->makes;
        if (live + step->inner > most) most = live + step->inner;
        for (int k = 0; k < step->nreads; k++) {
            struct value *value = &s->values[s->reads[step->first_read + k]];
            if (--value->left == 0) live -= value->size;
        }
        live -= dead_bytes(s, step);
    }
    return most;
}

/* ---- list scheduling ---- */

struct entry {
    int64_t gain; /* bytes that it frees less those that it makes */
    int place;
};

struct list {
    struct scheduler *s;
    struct entry *heap; /* ready steps, the best one first; old entries stay and are passed over */
    int count, capacity;
    int *waits; /* operands and control predecessors that are not scheduled yet */
    int64_t *frees;
    bool *done;
};

static bool before(const struct entry *a, const struct entry *b) {
    return a->gain != b->gain ? a->gain > b->gain : a->place < b->place;
}

static int64_t gain_of(const struct list *l, int place) {
    const struct step *step = &l->s->steps[place];
    return step->named ? INT64_MAX : l->frees[place] - step->makes + dead_bytes(l->s, step);
}

static void push(struct list *l, int place) {
    struct entry entry = {gain_of(l, place), place};
    l->heap = arena_grow(l->s->arena, l->heap, &l->capacity, l->count + 1, sizeof *l->heap);
    int at = l->count++;
    for (; at > 0 && before(&entry, &l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = entry;
}

static struct entry pop(struct list *l) {
    struct entry top = l->heap[0], last = l->heap[--l->count];
    int at = 0;
    for (int child = 1; child < l->count; child = 2 * at + 1) {
        if (child + 1 < l->count && before(&l->heap[child + 1], &l->heap[child])) child++;
        if (!before(&l->heap[child], &last)) break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = last;
    return top;
}

static void let_go(struct list *l, const struct hlo_instr *user) {
    if (--l->waits[user->mark] == 0) push(l, user->mark);
}

static void count_last_reader(struct list *l, const struct value *value) {
    if (value->left != 1) return;
    l->frees[value->last] += value->size;
    if (!l->done[value->last] && l->waits[value->last] == 0) push(l, value->last);
}

static void finish(struct list *l, int place) {
    const struct step *step = &l->s->steps[place];
    l->done[place] = true;
    for (int k = 0; k < step->nreads; k++) {
        struct value *value = &l->s->values[l->s->reads[step->first_read + k]];
        value->left--;
        value->last ^= place;
        count_last_reader(l, value);
    }
    for (const struct hlo_use *use = step->instr->users; use; use = use->next)
        let_go(l, use->user);
}

/* Control successors are not listed at their predecessors: those of all steps, by predecessor. */
struct successors {
    int *first, *next; /* by place; by edge */
    struct hlo_instr **instr;
    int count;
};

static struct successors find_successors(struct scheduler *s) {
    struct successors all = {.count = 0};
    int n = 0;
    for (int i = 0; i < s->nsteps; i++)
        n += s->steps[i].instr->ncontrol;
    all.first = arena_array(s->arena, (size_t)s->nsteps + 1, sizeof *all.first);
    all.next = arena_array(s->arena, (size_t)n + 1, sizeof *all.next);
    all.instr = arena_array(s->arena, (size_t)n + 1, sizeof *all.instr);
    for (int i = 0; i < s->nsteps; i++)
        for (int k = 0; k < s->steps[i].instr->ncontrol; k++) {
            int from = s->steps[i].instr->control[k]->mark, edge = ++all.count;
            all.instr[edge] = s->steps[i].instr;
            all.next[edge] = all.first[from];
            all.first[from] = edge;
        }
    return all;
}

static void list_schedule(struct scheduler *s, int *order) {
    size_t n = (size_t)s->nsteps + 1;
    struct list l = {.s = s};
    struct successors control = find_successors(s);
    int count = 0;
    l.waits = arena_array(s->arena, n, sizeof *l.waits);
    l.frees = arena_array(s->arena, n, sizeof *l.frees);
    l.done = arena_array(s->arena, n, sizeof *l.done);
    start_counting(s);
    for (int i = 0; i < s->nsteps; i++) {
        l.waits[i] = s->steps[i].instr->noperands + s->steps[i].instr->ncontrol;
        for (int k = 0; k < s->steps[i].nreads; k++) {
            const struct value *value = &s->values[s->reads[s->steps[i].first_read + k]];
            if (value->left == 1) l.frees[i] += value->size;
        }
    }
    for (int i = 0; i < s->nsteps; i++)
        if (l.waits[i] == 0) push(&l, i);
    while (l.count > 0) {
        struct entry entry = pop(&l);
        if (l.done[entry.place] || entry.gain != gain_of(&l, entry.place)) continue;
        order[count++] = entry.place;
        finish(&l, entry.place);
        for (int e = control.first[entry.place]; e; e = control.next[e])
            let_go(&l, control.instr[e]);
    }
}

/* ---- depth first ---- */

static int visit(struct scheduler *s, int root, int *stack, bool *pushed, int *order, int count) {
    int depth = 0;
    if (pushed[root]) return count;
    stack[depth++] = root;
    while (depth > 0) {
        int top = stack[depth - 1];
        if (top < 0) {
            order[count++] = -1 - top;
            depth--;
            continue;
        }
        if (pushed[top]) {
            depth--;
            continue;
        }
        const struct hlo_instr *instr = s->steps[top].instr;
        pushed[top] = true;
        stack[depth - 1] = -1 - top;
        for (int i = instr->noperands - 1; i >= 0; i--)
            if (!pushed[instr->operands[i]->mark]) stack[depth++] = instr->operands[i]->mark;
        for (int i = 0; i < instr->ncontrol; i++)
            if (!pushed[instr->control[i]->mark]) stack[depth++] = instr->control[i]->mark;
    }
    return count;
}

static void depth_first(struct scheduler *s, const struct hlo_computation *computation,
                        int *order) {
    size_t edges = (size_t)s->nsteps + 1;
    for (int i = 0; i < s->nsteps; i++)
        edges += (size_t)(s->steps[i].instr->noperands + s->steps[i].instr->ncontrol);
    int *stack = arena_array(s->arena, edges, sizeof *stack);
    bool *pushed = arena_array(s->arena, (size_t)s->nsteps + 1, sizeof *pushed);
    int count = visit(s, computation->root->mark, stack, pushed, order, 0);
    for (int i = 0; i < s->nsteps; i++)
        count = visit(s, i, stack, pushed, order, count);
}

/* ---- the choice ---- */

static bool schedule(struct pass_context *context, struct scheduler *s,
                     struct hlo_computation *computation) {
    describe(s, computation);
    size_t n = (size_t)s->nsteps + 1;
    int *orders[3], best = 0;
    int64_t peaks[3];
    for (int k = 0; k < 3; k++)
        orders[k] = arena_array(s->arena, n, sizeof(int));
    for (int i = 0; i < s->nsteps; i++)
        orders[0][i] = i;
    list_schedule(s, orders[1]);
    depth_first(s, computation, orders[2]);
    for (int k = 0; k < 3; k++) {
        peaks[k] = peak_of(s, orders[k]);
        if (peaks[k] < peaks[best]) best = k;
    }
    s->peak[computation->id] = peaks[best];
    /* A little less memory is not worth leaving the order that the program was written in. */
    if (best == 0 || peaks[best] > peaks[0] - peaks[0] / 64 || !pass_may_rewrite(context)) {
        s->peak[computation->id] = peaks[0];
        return false;
    }
    for (int i = 0; i < s->nsteps; i++)
        instr_move_before(s->steps[orders[best][i]].instr, NULL);
    return true;
}

bool memory_scheduler_run(struct pass_context *context, struct hlo_module *module) {
    struct arena *arena = arena_new();
    struct scheduler s = {.arena = arena};
    bool changed = false;
    int most = 0;
    s.flow = dataflow_analyse(arena, module, context->diag);
    FOR_EACH_COMPUTATION(c, module) most = c->id > most ? c->id : most;
    s.peak = arena_array(arena, (size_t)most + 1, sizeof *s.peak);
    if (s.flow) {
        s.values = arena_array(arena, (size_t)s.flow->nvalues + 1, sizeof *s.values);
        for (int i = 0; i < s.flow->ncomputations; i++)
            changed |= schedule(context, &s, s.flow->computations[i]);
    }
    arena_free(arena);
    return changed;
}
