/* Afterwards each computation that a while, conditional or call runs belongs to that instruction
 * alone, so that its values can have places of their own in memory. */
#include "passes/dataflow.h"
#include "passes/pass.h"

/* Clones of clones may double with each level; a program that needs more than this is left as it
 * is, and buffer assignment refuses it. */
enum { MOST_INSTRUCTIONS = 4 * 1000 * 1000 };

struct flatten {
    struct pass_context *context;
    int64_t size;
    bool changed;
};

static void own_callees(struct flatten *flatten, struct hlo_instr *instr) {
    struct hlo_module *module = instr->parent->module;
    struct hlo_computation **called =
        arena_array(module->arena, (size_t)instr->ncalled, sizeof *called);
    bool any = false;
    for (int i = 0; i < instr->ncalled; i++) {
        called[i] = instr->called[i];
        if (!called[i]->mark) {
            called[i]->mark = 1;
            continue;
        }
        flatten->size += called[i]->count;
        if (flatten->size > MOST_INSTRUCTIONS || !pass_may_rewrite(flatten->context)) continue;
        called[i] = computation_clone(called[i], called[i]->name);
        called[i]->mark = 1;
        any = true;
    }
    if (any) instr_set_called(instr, instr->ncalled, called);
    flatten->changed |= any;
}

static void flatten_computation(struct flatten *flatten, struct hlo_computation *computation) {
    FOR_EACH_INSTR(instr, computation)
    if (instr_runs_callees(instr)) own_callees(flatten, instr);
}

bool flatten_call_graph_run(struct pass_context *context, struct hlo_module *module) {
    struct flatten flatten = {context, 0, false};
    module_sort_computations(module);
    flatten.size = module_instruction_count(module);
    FOR_EACH_COMPUTATION(computation, module) computation->mark = 0;
    /* Callers first: a clone is appended and its own callees are then shared with the original, so
     * it must be looked at as well. */
    struct arena *arena = arena_new();
    struct hlo_computation **queue = NULL;
    int capacity = 0, count = 0;
    for (struct hlo_computation *c = module->last; c; c = c->prev) {
        queue = arena_grow(arena, queue, &capacity, count + 1, sizeof *queue);
        queue[count++] = c;
    }
    struct hlo_computation *last = module->last;
    for (int i = 0; i < count; i++) {
        flatten_computation(&flatten, queue[i]);
        for (; last->next; last = last->next) {
            queue = arena_grow(arena, queue, &capacity, count + 1, sizeof *queue);
            queue[count++] = last->next;
        }
    }
    arena_free(arena);
    return flatten.changed;
}
