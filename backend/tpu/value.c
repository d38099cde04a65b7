#include "backend/tpu/value.h"

enum { MOST_DEPTH = 200, MOST_LEAVES = 32 };

void value_bind_array(struct values *g, const struct hlo_instr *instr, int leaf,
                      const struct tarray *array) {
    g->bindings = arena_grow(g->arena, g->bindings, &g->binding_capacity, g->nbindings + 1,
                             sizeof *g->bindings);
    g->bindings[g->nbindings++] =
        (struct value_binding){.instr = instr, .leaf = leaf, .array = *array};
}

void value_bind_value(struct values *g, const struct hlo_instr *instr, int leaf,
                      struct tval value) {
    g->bindings = arena_grow(g->arena, g->bindings, &g->binding_capacity, g->nbindings + 1,
                             sizeof *g->bindings);
    g->bindings[g->nbindings++] =
        (struct value_binding){.instr = instr, .leaf = leaf, .is_value = true, .value = value};
}

const struct value_binding *value_find(const struct values *g, const struct hlo_instr *instr,
                                       int leaf) {
    for (int i = g->nbindings - 1; i >= 0; i--)
        if (g->bindings[i].instr == instr && g->bindings[i].leaf == leaf) return &g->bindings[i];
    return NULL;
}

struct tval value_variable(struct kernel *k, struct tval value) {
    struct tval variable = {{k_copy(k, value.v[0]), value.v[1] ? k_copy(k, value.v[1]) : 0}};
    return variable;
}

void value_assign(struct kernel *k, struct tval variable, treg mask, struct tval value) {
    k_move(k, variable.v[0], mask, value.v[0]);
    if (variable.v[1]) k_move(k, variable.v[1], mask, value.v[1]);
}

treg value_index(struct kernel *k, struct tval value, enum element_type type) {
    treg low = value.v[0], most = k_const(k, INT32_MAX);
    if (element_type_size(type) < 8) {
        if (element_type_is_unsigned(type) && element_type_size(type) == 4)
            return k_binary(k, TPU_VMINU, low, most);
        return low;
    }
    treg fits = k_binary(k, TPU_VMINU, low, most);
    treg above = k_binary_i(k, element_type_is_signed(type) ? TPU_VGTS : TPU_VGTU, value.v[1], 0);
    fits = k_select(k, above, most, fits);
    if (!element_type_is_signed(type)) return fits;
    return k_select(k, k_binary_i(k, TPU_VLTS, value.v[1], 0), k_const(k, -1), fits);
}

/* ---- values found before ---- */

static bool same_index(const struct ix *a, const struct ix *b, int rank) {
    for (int d = 0; d < rank; d++)
        if (!ix_same(a[d], b[d])) return false;
    return true;
}

static const struct shape *leaf_shape(const struct hlo_instr *instr, int leaf) {
    return shape_leaf(instr->shape, leaf);
}

static bool recall(const struct values *g, const struct hlo_instr *instr, int leaf,
                   const struct ix *index, struct tval *value) {
    int rank = leaf_shape(instr, leaf)->rank;
    for (int i = g->nmemos - 1; i >= 0; i--) {
        const struct value_memo *memo = g->memos[i];
        if (memo->instr != instr || memo->leaf != leaf || !same_index(memo->index, index, rank))
            continue;
        *value = memo->value;
        return true;
    }
    return false;
}

static void remember(struct values *g, const struct hlo_instr *instr, int leaf,
                     const struct ix *index, struct tval value) {
    struct value_memo *memo = arena_alloc(g->arena, sizeof *memo);
    g->memos = arena_grow(g->arena, g->memos, &g->memo_capacity, g->nmemos + 1, sizeof *g->memos);
    memo->instr = instr;
    memo->leaf = leaf;
    memo->value = value;
    for (int d = 0; d < leaf_shape(instr, leaf)->rank; d++)
        memo->index[d] = index[d];
    g->memos[g->nmemos++] = memo;
}

static void lacks(struct values *g, const struct hlo_instr *instr) {
    if (!g->why)
        g->why = arena_printf(g->arena, "%s is not supported on TPU", opcode_name(instr->opcode));
}

/* ---- calls ---- */

void value_call(struct values *g, const struct hlo_computation *computation,
                const struct tval *args, struct tval *results) {
    int bindings = g->nbindings, memos = g->nmemos;
    for (int i = 0; i < computation->nparameters; i++)
        value_bind_value(g, computation->parameters[i], 0, args[i]);
    values_at(g, computation->root, NULL, 0, results);
    g->nbindings = bindings;
    g->nmemos = memos;
}

/* The called computation's parameters become the operands, as far as these are bound. */
static void bind_operands(struct values *g, const struct hlo_instr *instr) {
    const struct hlo_computation *body = instr->called[0];
    for (int i = 0; i < instr->noperands; i++) {
        for (int l = 0; l < instr->operands[i]->shape->nleaves; l++) {
            const struct value_binding *found = value_find(g, instr->operands[i], l);
            if (!found) continue;
            struct value_binding copy = *found;
            if (copy.is_value)
                value_bind_value(g, body->parameters[i], l, copy.value);
            else
                value_bind_array(g, body->parameters[i], l, &copy.array);
        }
    }
}

/* An operand that is not bound (a constant, an iota) is computed where its parameter is wanted. */
static struct tval parameter(struct values *g, const struct hlo_instr *instr, int leaf,
                             const struct ix *index, treg active) {
    for (int i = g->ncalls - 1; i >= 0; i--) {
        const struct hlo_instr *call = g->calls[i];
        if (call->called[0] != instr->parent) continue;
        return value_at(g, call->operands[instr->parameter], leaf, index, active);
    }
    return (struct tval){{0, 0}};
}

static struct tval inlined(struct values *g, const struct hlo_instr *instr, int leaf,
                           const struct ix *index, treg active) {
    int bindings = g->nbindings, memos = g->nmemos;
    if (g->ncalls == MOST_CALLS) return (struct tval){{0, 0}};
    bind_operands(g, instr);
    g->calls[g->ncalls++] = instr;
    struct tval value = value_at(g, instr->called[0]->root, leaf, index, active);
    g->ncalls--;
    g->nbindings = bindings;
    g->nmemos = memos;
    return value;
}

static struct tval mapped(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                          treg active) {
    struct tval args[MOST_LEAVES], result[1];
    if (instr->noperands > MOST_LEAVES) {
        lacks(g, instr);
        return element_literal(g->k, NULL, 0);
    }
    for (int i = 0; i < instr->noperands; i++)
        args[i] = value_at(g, instr->operands[i], 0, index, active);
    value_call(g, instr->called[0], args, result);
    return result[0];
}

/* ---- one instruction ---- */

static struct tval zero_value(struct kernel *k, enum element_type type) {
    struct tval value = {{k_const(k, 0), 0}};
    if (element_type_is_complex(type) || element_type_size(type) == 8) value.v[1] = value.v[0];
    return value;
}

static struct tval elementwise(struct values *g, const struct hlo_instr *instr,
                               const struct ix *index, treg active) {
    struct tval operands[3] = {{{0}}};
    for (int i = 0; i < instr->noperands && i < 3; i++)
        operands[i] = value_at(g, instr->operands[i], 0, index, active);
    return element_value(g->k, instr, operands);
}

static struct tval iota(struct values *g, const struct hlo_instr *instr, const struct ix *index) {
    int64_t d = instr_int(instr, ATTR_IOTA_DIMENSION, 0);
    struct tval number = {{ix_reg(g->k, index[d]), 0}};
    return element_convert(g->k, number, TYPE_S32, instr->shape->type);
}

static bool is_elementwise(const struct hlo_instr *instr) {
    return (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || instr->opcode == OP_COPY;
}

static struct tval one_leaf(struct values *g, const struct hlo_instr *instr, int leaf,
                            const struct ix *index, treg active) {
    struct tval all[MOST_LEAVES] = {{{0}}};
    if (instr->shape->nleaves > MOST_LEAVES) return all[0];
    if (instr->opcode == OP_REDUCE)
        value_reduce(g, instr, index, active, all);
    else
        value_reduce_window(g, instr, index, active, all);
    for (int l = 0; l < instr->shape->nleaves; l++)
        if (l != leaf) remember(g, instr, l, index, all[l]);
    return all[leaf];
}

static struct tval compute(struct values *g, const struct hlo_instr *instr, int leaf,
                           const struct ix *index, treg active) {
    struct kernel *k = g->k;
    switch (instr->opcode) {
    case OP_CONSTANT:
        if (instr->shape->count == 1) return element_literal(k, instr->literal, 0);
        return (struct tval){{0, 0}};
    case OP_PARAMETER: return parameter(g, instr, leaf, index, active);
    case OP_IOTA: return iota(g, instr, index);
    case OP_PARTITION_ID:
    case OP_REPLICA_ID: return zero_value(k, instr->shape->type);
    case OP_FUSION:
    case OP_CALL: return inlined(g, instr, leaf, index, active);
    case OP_RNG_BIT_GENERATOR: return value_random_bits(g, instr, leaf, index);
    case OP_MAP: return mapped(g, instr, index, active);
    case OP_TUPLE: {
        int first = 0, i = 0;
        while (first + instr->operands[i]->shape->nleaves <= leaf)
            first += instr->operands[i++]->shape->nleaves;
        return value_at(g, instr->operands[i], leaf - first, index, active);
    }
    case OP_GET_TUPLE_ELEMENT: {
        int64_t element = instr_int(instr, ATTR_INDEX, 0);
        int first = shape_tuple_first_leaf(instr->operands[0]->shape, (int)element);
        return value_at(g, instr->operands[0], first + leaf, index, active);
    }
    case OP_OPT_BARRIER:
    case OP_DOMAIN: return value_at(g, instr->operands[0], leaf, index, active);
    case OP_REDUCE:
    case OP_REDUCE_WINDOW: return one_leaf(g, instr, leaf, index, active);
    case OP_DOT: return value_dot(g, instr, index, active);
    case OP_CONVOLUTION: return value_convolution(g, instr, index, active);
    default: break;
    }
    if (is_elementwise(instr)) return elementwise(g, instr, index, active);
    return value_moved(g, instr, index, active);
}

struct tval value_at(struct values *g, const struct hlo_instr *instr, int leaf,
                     const struct ix *index, treg active) {
    struct tval value = {{0, 0}};
    enum element_type type = leaf_shape(instr, leaf)->type;
    if (g->why) return zero_value(g->k, type);
    const struct value_binding *bound = value_find(g, instr, leaf);
    if (bound && bound->is_value) return bound->value;
    if (recall(g, instr, leaf, index, &value)) return value;
    if (bound) {
        struct tarray array = bound->array;
        value = fetch(&g->f, &array, index, active);
    } else if (++g->depth < MOST_DEPTH) {
        value = compute(g, instr, leaf, index, active);
        g->depth--;
    }
    if (!value.v[0]) {
        lacks(g, instr);
        return zero_value(g->k, type);
    }
    remember(g, instr, leaf, index, value);
    return value;
}

void values_at(struct values *g, const struct hlo_instr *instr, const struct ix *index, treg active,
               struct tval *values) {
    for (int l = 0; l < instr->shape->nleaves; l++)
        values[l] = value_at(g, instr, l, index, active);
}

/* ---- before the loops ---- */

static void prepare_starts(struct values *g, const struct hlo_instr *instr) {
    int first = instr->opcode == OP_DYNAMIC_SLICE ? 1 : 2;
    int rank = instr->operands[0]->shape->rank;
    const struct shape *window =
        instr->opcode == OP_DYNAMIC_SLICE ? instr->shape : instr->operands[1]->shape;
    struct sx *start = arena_array(g->arena, (size_t)rank + 1, sizeof *start);
    bool vector = instr->noperands == first + 1 && instr->operands[first]->shape->rank == 1;
    for (int d = 0; d < rank; d++) {
        struct ix at = ix_const(d);
        const struct hlo_instr *operand = instr->operands[vector ? first : first + d];
        int64_t most = instr->operands[0]->shape->dims[d] - window->dims[d];
        struct tval value = value_at(g, operand, 0, vector ? &at : NULL, 0);
        treg number = value_index(g->k, value, operand->shape->type);
        struct sx s = sx_of(k_to_scalar(g->k, number), INT32_MIN, INT32_MAX);
        start[d] = sx_clamp(g->k, s, 0, (int32_t)most);
    }
    g->starts =
        arena_grow(g->arena, g->starts, &g->start_capacity, g->nstarts + 1, sizeof *g->starts);
    g->starts[g->nstarts++] = (struct value_starts){instr, start};
}

void value_enter(struct values *g, const struct hlo_instr *fusion) {
    bind_operands(g, fusion);
    if (g->ncalls < MOST_CALLS) g->calls[g->ncalls++] = fusion;
}

void value_prepare(struct values *g, const struct hlo_instr *instr) {
    if (instr->opcode == OP_DYNAMIC_SLICE || instr->opcode == OP_DYNAMIC_UPDATE_SLICE)
        prepare_starts(g, instr);
    if (instr->opcode != OP_FUSION || g->ncalls == MOST_CALLS) return;
    bind_operands(g, instr);
    g->calls[g->ncalls++] = instr;
    FOR_EACH_INSTR(inner, instr->called[0]) value_prepare(g, inner);
    g->ncalls--;
}
