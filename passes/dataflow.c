#include "passes/dataflow.h"

enum { MOST_LEAVES = 64 * 1000 * 1000 };

bool instr_runs_callees(const struct hlo_instr *instr) {
    return instr->opcode == OP_WHILE || instr->opcode == OP_CONDITIONAL || instr->opcode == OP_CALL;
}

static bool is_free_reshape(const struct hlo_instr *instr) {
    return shape_layout_is_default(instr->shape) &&
           shape_layout_is_default(instr->operands[0]->shape);
}

bool instr_is_alias(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY: return true;
    case OP_BITCAST:
        return shape_is_array(instr->shape) && shape_is_array(instr->operands[0]->shape) &&
               instr->shape->bytes == instr->operands[0]->shape->bytes;
    case OP_RESHAPE: return is_free_reshape(instr);
    default: return false;
    }
}

int flow_value_of(const struct dataflow *flow, const struct hlo_instr *instr, int leaf) {
    return flow->leaf_value[flow->leaf_base[instr->id] + leaf];
}

bool flow_leaf_invariant(const struct dataflow *flow, const struct hlo_instr *loop, int leaf) {
    const struct hlo_computation *body = loop->called[1];
    return flow_value_of(flow, body->root, leaf) == flow_value_of(flow, body->parameters[0], leaf);
}

static int new_value(struct dataflow *flow, struct hlo_instr *instr, int leaf) {
    flow->values = arena_grow(flow->arena, flow->values, &flow->value_capacity, flow->nvalues + 1,
                              sizeof *flow->values);
    int position = flow->position[instr->id];
    flow->values[flow->nvalues] = (struct flow_value){instr, leaf, position, position, NULL};
    return flow->nvalues++;
}

static void alias_leaves(struct dataflow *flow, const struct hlo_instr *from, int first, int count,
                         int *to) {
    const int *source = flow->leaf_value + flow->leaf_base[from->id] + first;
    for (int i = 0; i < count; i++)
        to[i] = source[i];
}

static void define_leaves(struct dataflow *flow, struct hlo_instr *instr, int count) {
    int *leaves = flow->leaf_value + flow->leaf_base[instr->id];
    if (instr->opcode == OP_TUPLE) {
        for (int i = 0, leaf = 0; i < instr->noperands; i++) {
            int n = instr->operands[i]->shape->nleaves;
            alias_leaves(flow, instr->operands[i], 0, n, leaves + leaf);
            leaf += n;
        }
    } else if (instr->opcode == OP_GET_TUPLE_ELEMENT) {
        int element = (int)instr_int(instr, ATTR_INDEX, 0);
        const struct shape *shape = instr->operands[0]->shape;
        int first = shape_tuple_first_leaf(shape, element);
        alias_leaves(flow, instr->operands[0], first, count, leaves);
    } else if (instr_is_alias(instr)) {
        alias_leaves(flow, instr->operands[0], 0, count, leaves);
    } else {
        for (int i = 0; i < count; i++) {
            if (instr->opcode == OP_WHILE && flow_leaf_invariant(flow, instr, i))
                leaves[i] = flow_value_of(flow, instr->operands[0], i);
            else
                leaves[i] = new_value(flow, instr, i);
        }
    }
}

static void use_leaves(struct dataflow *flow, const struct hlo_instr *operand,
                       struct hlo_instr *user, int position) {
    int base = flow->leaf_base[operand->id];
    for (int i = 0; i < operand->shape->nleaves; i++) {
        struct flow_value *value = &flow->values[flow->leaf_value[base + i]];
        value->last_use = position;
        value->last_user = user;
    }
}

static bool analyse_computation(struct dataflow *flow, struct hlo_computation *computation,
                                struct diag *diag) {
    int position = 0;
    FOR_EACH_INSTR(instr, computation) {
        int count = instr->shape->nleaves;
        if (flow->nleaves > MOST_LEAVES - count) {
            diag_instr_error(diag, instr, "the program has too many tuple elements");
            return false;
        }
        flow->leaf_value = arena_grow(flow->arena, flow->leaf_value, &flow->leaf_capacity,
                                      flow->nleaves + count, sizeof *flow->leaf_value);
        flow->leaf_base[instr->id] = flow->nleaves;
        flow->position[instr->id] = position;
        flow->nleaves += count;
        define_leaves(flow, instr, count);
        if (!instr_is_alias(instr))
            for (int i = 0; i < instr->noperands; i++)
                use_leaves(flow, instr->operands[i], instr, position);
        position++;
    }
    use_leaves(flow, computation->root, NULL, position);
    return true;
}

int mark_running_computations(struct hlo_module *module) {
    int count = 0;
    FOR_EACH_COMPUTATION(computation, module) computation->mark = 0;
    module->entry->mark = 1;
    for (struct hlo_computation *c = module->last; c; c = c->prev) {
        if (!c->mark) continue;
        count++;
        FOR_EACH_INSTR(instr, c) {
            if (!instr_runs_callees(instr)) continue;
            for (int i = 0; i < instr->ncalled; i++)
                instr->called[i]->mark = 1;
        }
    }
    return count;
}

struct dataflow *dataflow_analyse(struct arena *arena, struct hlo_module *module,
                                  struct diag *diag) {
    module_sort_computations(module);
    struct dataflow *flow = arena_alloc(arena, sizeof *flow);
    flow->arena = arena;
    flow->nids = module->next_id;
    flow->leaf_base = arena_array(arena, (size_t)flow->nids, sizeof(int));
    flow->position = arena_array(arena, (size_t)flow->nids, sizeof(int));
    for (int i = 0; i < flow->nids; i++)
        flow->leaf_base[i] = -1;
    int count = mark_running_computations(module);
    flow->computations = arena_array(arena, (size_t)count, sizeof *flow->computations);
    FOR_EACH_COMPUTATION(computation, module) {
        if (!computation->mark) continue;
        flow->computations[flow->ncomputations++] = computation;
        if (!analyse_computation(flow, computation, diag)) return NULL;
    }
    return flow;
}
