#include "passes/buffer_assignment.h"

#include <limits.h>
#include <stdlib.h>

#include "passes/buffer_packing.h"
#include "passes/dataflow.h"
#include "passes/util.h"

enum { MOST_NESTING = 500 };

/* Values that share memory; one of them stands for all (union-find). */
struct group {
    int parent;
    enum buffer_kind kind;
    int index;
    int64_t size;
    int start, end;
    int not_before; /* an output that may be where an input is: free from this position on */
    int first;      /* value that names it */
};

struct assigner {
    struct arena *arena;
    struct hlo_module *module;
    struct diag *diag;
    struct dataflow *flow;
    struct buffer_options options;
    int *position; /* in the whole schedule, by instruction id */
    const struct hlo_instr **schedule;
    int npositions, capacity;
    struct group *groups; /* by value */
    bool failed;
};

/* ---- the schedule: a computation's instructions stand before the one that runs it ---- */

static void add_to_schedule(struct assigner *a, const struct hlo_instr *instr) {
    a->schedule =
        arena_grow(a->arena, a->schedule, &a->capacity, a->npositions + 1, sizeof *a->schedule);
    a->schedule[a->npositions] = instr;
    a->position[instr->id] = a->npositions++;
}

static bool schedule_computation(struct assigner *a, struct hlo_computation *computation,
                                 int depth) {
    if (depth > MOST_NESTING || computation->mark) {
        diag_error(a->diag, computation->loc,
                   depth > MOST_NESTING ? "computations are nested too deeply at %s"
                                        : "computation %s is run from two places",
                   computation->name);
        return false;
    }
    computation->mark = 1;
    FOR_EACH_INSTR(instr, computation) {
        if (instr_runs_callees(instr))
            for (int i = 0; i < instr->ncalled; i++)
                if (!schedule_computation(a, instr->called[i], depth + 1)) return false;
        add_to_schedule(a, instr);
    }
    return true;
}

/* ---- groups ---- */

static int find(struct assigner *a, int value) {
    while (a->groups[value].parent != value) {
        a->groups[value].parent = a->groups[a->groups[value].parent].parent;
        value = a->groups[value].parent;
    }
    return value;
}

static bool is_read_only(const struct group *group) {
    return group->kind == BUFFER_INPUT || group->kind == BUFFER_CONSTANT;
}

static int merge(struct assigner *a, int x, int y) {
    x = find(a, x), y = find(a, y);
    if (x == y) return x;
    if (a->groups[y].start < a->groups[x].start) {
        int t = x;
        x = y, y = t;
    }
    struct group *into = &a->groups[x], *from = &a->groups[y];
    from->parent = x;
    if (from->end > into->end) into->end = from->end;
    if (from->size > into->size) into->size = from->size;
    if (from->not_before > into->not_before) into->not_before = from->not_before;
    bool take = is_read_only(from) ? !is_read_only(into) : from->kind == BUFFER_OUTPUT;
    if (take) {
        into->kind = from->kind;
        into->index = from->index;
        into->first = is_read_only(from) ? from->first : into->first;
    }
    return x;
}

static void misses_copy(struct assigner *a, const struct hlo_instr *instr) {
    if (!a->failed)
        diag_instr_error(a->diag, instr,
                         "this value needs a copy before memory can be assigned "
                         "(pass copy_insertion has not run)");
    a->failed = true;
}

/* Both are written, or are the same value. */
static void merge_written(struct assigner *a, int x, int y, const struct hlo_instr *instr) {
    x = find(a, x), y = find(a, y);
    if (x == y) return;
    if (is_read_only(&a->groups[x]) || is_read_only(&a->groups[y])) misses_copy(a, instr);
    merge(a, x, y);
}

/* ---- the values ---- */

static const struct hlo_instr **find_callers(struct assigner *a) {
    int most = 0;
    FOR_EACH_COMPUTATION(c, a->module) if (c->id > most) most = c->id;
    const struct hlo_instr **callers = arena_array(a->arena, (size_t)most + 1, sizeof *callers);
    for (int i = 0; i < a->flow->ncomputations; i++)
        FOR_EACH_INSTR(instr, a->flow->computations[i])
    if (instr_runs_callees(instr))
        for (int k = 0; k < instr->ncalled; k++)
            callers[instr->called[k]->id] = instr;
    return callers;
}

static int end_of(const struct assigner *a, const struct flow_value *value,
                  const struct hlo_instr *const *callers) {
    if (value->last_user) return a->position[value->last_user->id];
    if (value->last_use == value->position) return a->position[value->instr->id];
    const struct hlo_instr *caller = callers[value->instr->parent->id];
    return caller ? a->position[caller->id] : a->npositions;
}

static void init_groups(struct assigner *a) {
    struct hlo_computation *entry = a->module->entry;
    int *first = arena_array(a->arena, (size_t)entry->nparameters + 1, sizeof *first);
    for (int i = 0; i < entry->nparameters; i++)
        first[i + 1] = first[i] + entry->parameters[i]->shape->nleaves;
    const struct hlo_instr **callers = find_callers(a);
    const struct hlo_instr *last = NULL;
    const struct shape **leaves = NULL;
    a->groups = arena_array(a->arena, (size_t)a->flow->nvalues + 1, sizeof *a->groups);
    for (int v = 0; v < a->flow->nvalues; v++) {
        const struct flow_value *value = &a->flow->values[v];
        struct hlo_instr *instr = value->instr;
        if (instr != last) leaves = shape_leaves(a->arena, instr->shape);
        last = instr;
        const struct shape *shape = leaves[value->leaf];
        struct group *group = &a->groups[v];
        *group = (struct group){.parent = v,
                                .kind = BUFFER_NONE,
                                .first = v,
                                .not_before = -1,
                                .start = a->position[instr->id]};
        group->end = end_of(a, value, callers);
        if (!shape_is_array(shape)) continue;
        group->size = a->options.size ? a->options.size(a->options.user, shape) : shape->bytes;
        group->kind = BUFFER_ARENA;
        if (instr->opcode == OP_CONSTANT) {
            group->kind = BUFFER_CONSTANT;
            group->index = value->leaf;
        } else if (instr->opcode == OP_PARAMETER && instr->parent == entry) {
            group->kind = BUFFER_INPUT;
            group->index = first[instr->parameter] + value->leaf;
        }
    }
}

/* ---- what must share ---- */

static int value_of(const struct assigner *a, const struct hlo_instr *instr, int leaf) {
    return flow_value_of(a->flow, instr, leaf);
}

static void merge_loop(struct assigner *a, const struct hlo_instr *loop) {
    struct hlo_computation *condition = loop->called[0], *body = loop->called[1];
    for (int k = 0; k < loop->shape->nleaves; k++) {
        int operand = value_of(a, loop->operands[0], k);
        int parameter = value_of(a, body->parameters[0], k);
        merge(a, parameter, value_of(a, condition->parameters[0], k));
        if (flow_leaf_invariant(a->flow, loop, k)) {
            merge(a, operand, parameter);
            continue;
        }
        merge_written(a, value_of(a, body->root, k), parameter, loop);
        merge_written(a, operand, parameter, loop);
        merge_written(a, operand, value_of(a, loop, k), loop);
    }
}

static void merge_callee(struct assigner *a, const struct hlo_instr *call,
                         const struct hlo_computation *callee, int first_operand) {
    for (int i = 0; i < callee->nparameters; i++) {
        const struct hlo_instr *operand = call->operands[first_operand + i];
        for (int k = 0; k < operand->shape->nleaves; k++)
            merge(a, value_of(a, operand, k), value_of(a, callee->parameters[i], k));
    }
}

/* After all parameters have been merged: a root must not be one of them. */
static void merge_results(struct assigner *a, const struct hlo_instr *call) {
    for (int i = 0; i < call->ncalled; i++)
        for (int k = 0; k < call->shape->nleaves; k++)
            merge_written(a, value_of(a, call, k), value_of(a, call->called[i]->root, k), call);
}

static void merge_calls(struct assigner *a) {
    for (int i = a->flow->ncomputations - 1; i >= 0; i--) {
        FOR_EACH_INSTR(instr, a->flow->computations[i]) {
            if (instr->opcode == OP_WHILE)
                merge_loop(a, instr);
            else if (instr->opcode == OP_CALL)
                merge_callee(a, instr, instr->called[0], 0);
            else if (instr->opcode == OP_CONDITIONAL)
                for (int k = 0; k < instr->ncalled; k++)
                    merge_callee(a, instr, instr->called[k], 1 + k);
            if (instr->opcode == OP_CALL || instr->opcode == OP_CONDITIONAL)
                merge_results(a, instr);
        }
    }
}

/* ---- outputs ---- */

static void place_outputs(struct assigner *a) {
    const struct hlo_computation *entry = a->module->entry;
    for (int k = 0; k < entry->root->shape->nleaves; k++) {
        struct group *group = &a->groups[find(a, value_of(a, entry->root, k))];
        if (group->kind == BUFFER_NONE) continue;
        if (group->kind != BUFFER_ARENA) {
            misses_copy(a, entry->root);
            return;
        }
        group->kind = BUFFER_OUTPUT;
        group->index = k;
    }
    for (int i = 0; i < a->module->aliases.count; i++) {
        const struct alias_entry *alias = &a->module->aliases.v[i];
        if (alias->parameter < 0 || alias->parameter >= entry->nparameters) continue;
        const struct hlo_instr *parameter = entry->parameters[alias->parameter];
        int out = hlo_index_leaf(entry->root->shape, alias->output_index);
        int in = hlo_index_leaf(parameter->shape, alias->parameter_index);
        if (out < 0 || in < 0) continue;
        struct group *group = &a->groups[find(a, value_of(a, entry->root, out))];
        int free_from = a->groups[find(a, value_of(a, parameter, in))].end;
        if (free_from > group->not_before) group->not_before = free_from;
    }
}

/* ---- what may share: a result over an operand that dies ---- */

static bool may_write_over(struct assigner *a, const struct hlo_instr *instr, int operand,
                           int leaf) {
    if (!a->options.can_share) return instr_can_share(instr, operand, leaf);
    return a->options.can_share(a->options.user, instr, operand, leaf);
}

/* Every operand in that group must bear being overwritten. */
static bool all_bear_it(struct assigner *a, const struct hlo_instr *instr, int group, int leaf) {
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];
        if (shape_is_tuple(operand->shape)) return false;
        if (find(a, value_of(a, operand, 0)) == group && !may_write_over(a, instr, i, leaf))
            return false;
    }
    return true;
}

static bool try_operand(struct assigner *a, const struct hlo_instr *instr, int operand, int leaf,
                        int result) {
    const struct shape *shape = instr->operands[operand]->shape;
    if (!shape_is_array(shape)) return false;
    int from = find(a, value_of(a, instr->operands[operand], 0));
    const struct group *over = &a->groups[from], *group = &a->groups[result];
    if (over->kind != BUFFER_ARENA || over->end != group->start || from == result) return false;
    if (over->size != group->size || over->start <= group->not_before) return false;
    if (!may_write_over(a, instr, operand, leaf)) return false;
    if (!all_bear_it(a, instr, from, leaf)) return false;
    merge(a, from, result);
    return true;
}

static void share_in_place(struct assigner *a) {
    for (int v = 0; v < a->flow->nvalues; v++) {
        const struct flow_value *value = &a->flow->values[v];
        const struct hlo_instr *instr = value->instr;
        if (instr->noperands == 0 || instr_runs_callees(instr)) continue;
        int result = find(a, v);
        const struct group *group = &a->groups[result];
        if (group->kind != BUFFER_ARENA && group->kind != BUFFER_OUTPUT) continue;
        if (group->start != a->position[instr->id]) continue;
        bool paired = instr->opcode == OP_SORT || instr->opcode == OP_SCATTER;
        if (paired) {
            if (value->leaf < instr->noperands)
                try_operand(a, instr, value->leaf, value->leaf, result);
            continue;
        }
        for (int i = 0; i < instr->noperands; i++)
            if (try_operand(a, instr, i, value->leaf, result)) break;
    }
}

/* ---- numbering, packing ---- */

static int64_t round_up(int64_t size) {
    return (size + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
}

static int *number_buffers(struct assigner *a, struct buffer_assignment *result) {
    int n = a->flow->nvalues, *number = arena_array(a->arena, (size_t)n + 1, sizeof *number);
    result->buffers = arena_array(a->arena, (size_t)n + 1, sizeof *result->buffers);
    for (int v = 0; v < n; v++) {
        const struct group *group = &a->groups[v];
        number[v] = -1;
        if (group->parent != v || group->kind == BUFFER_NONE) continue;
        const struct flow_value *value = &a->flow->values[group->first];
        number[v] = result->nbuffers;
        result->buffers[result->nbuffers] =
            (struct buffer){group->kind, group->index, 0,          group->size,     value->instr,
                            value->leaf, group->start, group->end, result->nbuffers};
        result->nbuffers++;
    }
    return number;
}

static bool pack(struct assigner *a, struct buffer_assignment *result) {
    size_t n = (size_t)result->nbuffers + 1;
    struct pack_item *items = arena_array(a->arena, n, sizeof *items);
    int *owner = arena_array(a->arena, n, sizeof *owner), count = 0;
    int64_t total = 0;
    for (int i = 0; i < result->nbuffers; i++) {
        const struct buffer *buffer = &result->buffers[i];
        if (buffer->kind != BUFFER_ARENA || buffer->size == 0) continue;
        int64_t size = round_up(buffer->size);
        if (size > INT64_MAX / 4 - total) {
            diag_instr_error(a->diag, buffer->instr, "the program's arrays are too large");
            return false;
        }
        total += size;
        items[count] = (struct pack_item){size, buffer->start, buffer->end, 0};
        owner[count++] = i;
    }
    result->lower_bound =
        pack_lower_bound(a->arena, items, count, a->npositions + 1, &result->peak);
    result->arena_size = pack_items(a->arena, items, count, result->lower_bound);
    for (int i = 0; i < count; i++)
        result->buffers[owner[i]].offset = items[i].offset;
    return true;
}

static void number_leaves(struct assigner *a, struct buffer_assignment *result, const int *number) {
    int *leaf_buffer = arena_array(a->arena, (size_t)a->flow->nleaves + 1, sizeof *leaf_buffer);
    for (int i = 0; i < a->flow->nleaves; i++)
        leaf_buffer[i] = number[find(a, a->flow->leaf_value[i])];
    result->leaf_base = a->flow->leaf_base;
    result->leaf_buffer = leaf_buffer;
    result->nids = a->flow->nids;
    result->schedule = a->schedule;
    result->npositions = a->npositions;
}

const struct buffer_assignment *buffer_assign(struct arena *arena, struct hlo_module *module,
                                              const struct buffer_options *options,
                                              struct diag *diag) {
    struct assigner a = {.arena = arena, .module = module, .diag = diag};
    if (options) a.options = *options;
    a.flow = dataflow_analyse(arena, module, diag);
    if (!a.flow) return NULL;
    a.position = arena_array(arena, (size_t)a.flow->nids, sizeof *a.position);
    FOR_EACH_COMPUTATION(computation, module) computation->mark = 0;
    if (!schedule_computation(&a, module->entry, 0)) return NULL;
    init_groups(&a);
    merge_calls(&a);
    if (!a.failed) place_outputs(&a);
    if (a.failed) return NULL;
    share_in_place(&a);
    struct buffer_assignment *result = arena_alloc(arena, sizeof *result);
    int *number = number_buffers(&a, result);
    if (!pack(&a, result)) return NULL;
    number_leaves(&a, result, number);
    return result;
}

const struct buffer *buffer_of(const struct buffer_assignment *assignment,
                               const struct hlo_instr *instr, int leaf) {
    static const struct buffer none = {.kind = BUFFER_NONE, .id = -1};
    if (instr->id >= assignment->nids || assignment->leaf_base[instr->id] < 0) return &none;
    int buffer = assignment->leaf_buffer[assignment->leaf_base[instr->id] + leaf];
    return buffer < 0 ? &none : &assignment->buffers[buffer];
}
