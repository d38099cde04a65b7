/* Copy insertion. Buffer assignment puts what goes into a loop, the loop's parameter, what the body
 * returns and the loop's result into one buffer, and what a computation's root returns into the
 * place where its caller wants it. Copies go in where that would overwrite a value still needed,
 * or where the value has a home already (an input, a constant, another leaf). */
#include "passes/buffer_assignment.h"
#include "passes/dataflow.h"
#include "passes/pass.h"
#include "passes/util.h"

struct inserter {
    struct pass_context *context;
    struct hlo_module *module;
    struct arena *arena;
    struct dataflow *flow;
    /* By value: the position from which the value's buffer is taken (a loop's result sits where
     * its operand was), and 1 + the parameter leaf whose buffer it is; 0: its own. */
    int *start, *home;
    int *parameter_leaf;             /* by value: 1 + its number among the destinations; 0: none */
    struct hlo_computation *current; /* computation at work */
    bool changed;
};

/* The leaves of one tuple that get copies. */
struct copies {
    int count;
    bool *wanted;              /* by leaf */
    int *before;               /* before[k]: how many are wanted among the first k */
    struct hlo_instr **source; /* what to copy, where wanted */
    struct hlo_instr **copy;
};

static struct copies copies_new(struct inserter *in, int count) {
    size_t n = (size_t)count + 1;
    return (struct copies){count, arena_array(in->arena, n, sizeof(bool)),
                           arena_array(in->arena, n, sizeof(int)),
                           arena_array(in->arena, n, sizeof(struct hlo_instr *)),
                           arena_array(in->arena, n, sizeof(struct hlo_instr *))};
}

static int copies_total(struct copies *copies) {
    int total = 0;
    for (int k = 0; k < copies->count; k++) {
        copies->before[k] = total;
        total += copies->wanted[k];
    }
    copies->before[copies->count] = total;
    return total;
}

static bool any_wanted(const struct copies *copies, int first, int count) {
    return copies->before[first + count] > copies->before[first];
}

static struct hlo_instr *element_of(struct hlo_instr *instr, int index, struct hlo_instr *before) {
    if (instr->opcode == OP_TUPLE) return instr->operands[index];
    struct hlo_instr *element = instr_new(instr->parent, before, OP_GET_TUPLE_ELEMENT,
                                          instr->shape->tuple[index], NULL, 1, &instr);
    instr_set_int(element, ATTR_INDEX, index);
    return element;
}

/* Fills source[]. Recursion is as deep as the tuple, which is bounded. */
static void find_sources(struct copies *copies, struct hlo_instr *instr, int first,
                         struct hlo_instr *before) {
    if (!shape_is_tuple(instr->shape)) {
        copies->source[first] = instr;
        return;
    }
    for (int i = 0; i < instr->shape->ntuple; i++) {
        int n = instr->shape->tuple[i]->nleaves;
        if (any_wanted(copies, first, n))
            find_sources(copies, element_of(instr, i, before), first, before);
        first += n;
    }
}

static struct hlo_instr *rebuild(const struct copies *copies, struct arena *arena,
                                 struct hlo_instr *instr, int first, struct hlo_instr *before) {
    if (!any_wanted(copies, first, instr->shape->nleaves)) return instr;
    if (!shape_is_tuple(instr->shape)) return copies->copy[first];
    int count = instr->shape->ntuple;
    struct hlo_instr **elements = arena_array(arena, (size_t)count, sizeof *elements);
    for (int i = 0; i < count; i++) {
        struct hlo_instr *element = element_of(instr, i, before);
        elements[i] = rebuild(copies, arena, element, first, before);
        first += instr->shape->tuple[i]->nleaves;
    }
    return instr_new(instr->parent, before, OP_TUPLE, instr->shape, NULL, count, elements);
}

static struct hlo_instr *new_copy(struct hlo_instr *source, struct hlo_instr *before) {
    return instr_new(source->parent, before, OP_COPY, source->shape, NULL, 1, &source);
}

/* ---- what goes into a loop ---- */

/* As it was before this pass changed the body's root, which is kept in the body's data. */
static bool is_invariant(const struct inserter *in, const struct hlo_instr *loop, int leaf) {
    const struct hlo_computation *body = loop->called[1];
    return flow_value_of(in->flow, body->data, leaf) ==
           flow_value_of(in->flow, body->parameters[0], leaf);
}

static bool value_is_fixed(const struct inserter *in, int value) {
    enum hlo_opcode opcode = in->flow->values[value].instr->opcode;
    return opcode == OP_CONSTANT || opcode == OP_PARAMETER;
}

/* A loop in a loop's body that carries the outer loop's own leaf on, in the same place. */
static bool carries_on(const struct inserter *in, int value, int result) {
    const struct flow_value *v = &in->flow->values[value];
    if (v->instr->opcode != OP_PARAMETER || in->current->mark != 1) return false;
    int leaf = v->leaf;
    return flow_value_of(in->flow, in->current->root, leaf) == result;
}

/* seen[value]: the value stands at another leaf that keeps it. */
static bool operand_needs_copy(const struct inserter *in, int value, int result, int position,
                               const int *seen, int stamp) {
    if (seen[value] == stamp) return true;
    if (in->flow->values[value].last_use > position) return true;
    return value_is_fixed(in, value) && !carries_on(in, value, result);
}

static void copy_loop_operands(struct inserter *in, struct hlo_instr *loop, int *seen) {
    struct hlo_instr *operand = loop->operands[0];
    int count = operand->shape->nleaves, position = in->flow->position[loop->id];
    int stamp = loop->id + 1;
    struct copies copies = copies_new(in, count);
    const struct shape **leaves = shape_leaves(in->arena, operand->shape);
    for (int k = 0; k < count; k++)
        if (is_invariant(in, loop, k)) seen[flow_value_of(in->flow, operand, k)] = stamp;
    for (int k = 0; k < count; k++) {
        if (is_invariant(in, loop, k)) continue;
        int value = flow_value_of(in->flow, operand, k);
        int result = flow_value_of(in->flow, loop, k);
        in->start[result] = position;
        if (!shape_is_array(leaves[k])) continue;
        if (operand_needs_copy(in, value, result, position, seen, stamp)) {
            copies.wanted[k] = pass_may_rewrite(in->context);
        } else {
            in->start[result] = in->start[value];
            if (value_is_fixed(in, value))
                in->home[result] = in->flow->values[value].leaf + 1;
            else
                in->home[result] = in->home[value];
        }
        seen[value] = stamp;
    }
    if (copies_total(&copies) == 0) return;
    find_sources(&copies, operand, 0, loop);
    for (int k = 0; k < count; k++)
        if (copies.wanted[k]) copies.copy[k] = new_copy(copies.source[k], loop);
    instr_set_operand(loop, 0, rebuild(&copies, in->arena, operand, 0, loop));
    in->changed = true;
}

/* ---- what a root returns ---- */

/* The last reader of `value` can write `result` over it. */
static bool can_overwrite(const struct inserter *in, int value, int result) {
    const struct flow_value *from = &in->flow->values[value], *to = &in->flow->values[result];
    if (to->instr != from->last_user || in->start[result] != to->position) return false;
    int found = 0;
    for (int i = 0; i < to->instr->noperands; i++) {
        const struct hlo_instr *operand = to->instr->operands[i];
        if (shape_is_tuple(operand->shape) || operand->id >= in->flow->nids) return false;
        if (flow_value_of(in->flow, operand, 0) != value) continue;
        if (!instr_can_share(to->instr, i, to->leaf)) return false;
        found++;
    }
    bool elementwise = opcode_info(to->instr->opcode)->flags & OP_FLAG_ELEMENTWISE;
    return found == 1 || (found > 1 && elementwise);
}

/* Destination leaf k holds parameter value `old` (-1: nothing) until `value` replaces it. */
static bool result_needs_copy(const struct inserter *in, int k, int value, int old) {
    if (value_is_fixed(in, value)) return true;
    if (in->home[value] && in->current->mark == 1) return in->home[value] != k + 1;
    if (old < 0) return false;
    const struct flow_value *v = &in->flow->values[old];
    bool unused = !v->last_user && v->last_use == v->position;
    if (unused || v->last_use < in->start[value]) return false;
    return v->last_use > in->start[value] || !can_overwrite(in, old, value);
}

struct ordering {
    struct copies *copies;
    const int *value; /* by leaf: what is returned */
    int *readers;     /* by leaf: copies still to come that read what the leaf's place holds */
    struct hlo_instr **saved; /* by leaf: a copy of that, taken to break a cycle */
    int *reader;              /* by leaf: some copy that reads it */
    int *stack, depth;
};

static void emit_result_copy(struct inserter *in, struct ordering *order, int k) {
    struct copies *copies = order->copies;
    int from = in->parameter_leaf[order->value[k]] - 1;
    struct hlo_instr *source = copies->source[k];
    if (from >= 0 && from != k && order->saved[from]) source = order->saved[from];
    copies->copy[k] = new_copy(source, NULL);
    if (from < 0 || from == k || !copies->wanted[from] || order->saved[from]) return;
    if (--order->readers[from] == 0) order->stack[order->depth++] = from;
}

/* A place may be written once nothing that is still to be copied is read from it: leaves nobody
 * reads first, and where only cycles are left, one of them is saved aside. */
static void emit_result_copies(struct inserter *in, struct copies *copies, const int *value) {
    size_t n = (size_t)copies->count + 1;
    struct ordering order = {copies,
                             value,
                             arena_array(in->arena, n, sizeof(int)),
                             arena_array(in->arena, n, sizeof(struct hlo_instr *)),
                             arena_array(in->arena, n, sizeof(int)),
                             arena_array(in->arena, n, sizeof(int)),
                             0};
    int left = 0;
    for (int k = 0; k < copies->count; k++) {
        if (!copies->wanted[k]) continue;
        int from = in->parameter_leaf[value[k]] - 1;
        left++;
        if (from < 0 || from == k) continue;
        order.readers[from]++;
        order.reader[from] = k;
    }
    for (int k = copies->count - 1; k >= 0; k--)
        if (copies->wanted[k] && order.readers[k] == 0) order.stack[order.depth++] = k;
    for (int next = 0; left > 0; left--) {
        if (order.depth == 0) {
            while (!copies->wanted[next] || copies->copy[next])
                next++;
            order.saved[next] = new_copy(copies->source[order.reader[next]], NULL);
            order.stack[order.depth++] = next;
        }
        emit_result_copy(in, &order, order.stack[--order.depth]);
    }
}

/* old[k]: the parameter value whose place leaf k of the root takes over, or -1. keep: a leaf that
 * returns just that value stays as it is. */
static void copy_results(struct inserter *in, const int *old, bool keep, int *seen) {
    struct hlo_instr *root = in->current->root;
    int count = root->shape->nleaves, stamp = -1 - in->current->id;
    int *value = arena_array(in->arena, (size_t)count, sizeof *value);
    struct copies copies = copies_new(in, count);
    const struct shape **leaves = shape_leaves(in->arena, root->shape);
    for (int k = 0; k < count; k++) {
        value[k] = flow_value_of(in->flow, root, k);
        if (old[k] >= 0) in->parameter_leaf[old[k]] = k + 1;
    }
    for (int k = 0; k < count; k++) {
        if (keep && value[k] == old[k]) continue;
        if (!shape_is_array(leaves[k])) continue;
        bool wanted = seen[value[k]] == stamp || result_needs_copy(in, k, value[k], old[k]);
        if (wanted)
            copies.wanted[k] = pass_may_rewrite(in->context);
        else
            seen[value[k]] = stamp;
    }
    if (copies_total(&copies) > 0) {
        find_sources(&copies, root, 0, NULL);
        emit_result_copies(in, &copies, value);
        computation_set_root(in->current, rebuild(&copies, in->arena, root, 0, NULL));
        in->changed = true;
    }
    for (int k = 0; k < count; k++)
        if (old[k] >= 0) in->parameter_leaf[old[k]] = 0;
}

/* An output that the caller may put where an input is takes that input's place over. */
static void find_entry_aliases(const struct inserter *in, int *old) {
    const struct hlo_computation *entry = in->module->entry;
    for (int i = 0; i < in->module->aliases.count; i++) {
        const struct alias_entry *alias = &in->module->aliases.v[i];
        if (alias->parameter < 0 || alias->parameter >= entry->nparameters) continue;
        const struct hlo_instr *parameter = entry->parameters[alias->parameter];
        int output = hlo_index_leaf(entry->root->shape, alias->output_index);
        int input = hlo_index_leaf(parameter->shape, alias->parameter_index);
        if (output >= 0 && input >= 0) old[output] = flow_value_of(in->flow, parameter, input);
    }
}

static void visit(struct inserter *in, struct hlo_computation *computation, int *seen) {
    bool is_body = computation->mark == 1, is_entry = computation == in->module->entry;
    in->current = computation;
    FOR_EACH_INSTR(instr, computation)
    if (instr->opcode == OP_WHILE && instr->id < in->flow->nids)
        copy_loop_operands(in, instr, seen);
    if (computation->mark == 2) return;
    int count = computation->root->shape->nleaves;
    int *old = arena_array(in->arena, (size_t)count, sizeof *old);
    for (int k = 0; k < count; k++)
        old[k] = is_body ? flow_value_of(in->flow, computation->parameters[0], k) : -1;
    if (is_entry) find_entry_aliases(in, old);
    copy_results(in, old, is_body, seen);
}

bool copy_insertion_run(struct pass_context *context, struct hlo_module *module) {
    struct arena *arena = arena_new();
    struct inserter in = {.context = context, .module = module, .arena = arena};
    in.flow = dataflow_analyse(arena, module, context->diag);
    if (in.flow) {
        size_t n = (size_t)in.flow->nvalues + 1;
        int *seen = arena_array(arena, n, sizeof(int));
        in.start = arena_array(arena, n, sizeof(int));
        in.home = arena_array(arena, n, sizeof(int));
        in.parameter_leaf = arena_array(arena, n, sizeof(int));
        for (int i = 0; i < in.flow->nvalues; i++)
            in.start[i] = in.flow->values[i].position;
        /* 1: the body of a loop, 2: a loop's condition, whose root stays where it is. */
        FOR_EACH_COMPUTATION(computation, module) {
            computation->mark = 0;
            computation->data = computation->root;
        }
        for (int i = 0; i < in.flow->ncomputations; i++)
            FOR_EACH_INSTR(instr, in.flow->computations[i])
        if (instr->opcode == OP_WHILE) {
            instr->called[0]->mark = 2;
            instr->called[1]->mark = 1;
        }
        for (int i = 0; i < in.flow->ncomputations; i++)
            visit(&in, in.flow->computations[i], seen);
    }
    arena_free(arena);
    return in.changed;
}
