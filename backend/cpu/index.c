/* Index arithmetic. Every expression is remembered with its operation and its bound, so that equal
 * ones are one value and div and rem of what a reshape has just joined undo the joining. */
#include "backend/cpu/gen.h"

enum node_op { NODE_LEAF, NODE_ADD, NODE_MUL, NODE_DIV, NODE_REM };

struct node {
    enum node_op op;
    LLVMValueRef a, b;
    int64_t k;
    int64_t limit; /* value < limit; INT64_MAX: unknown */
};

enum { KEY_NODE = 1, KEY_EXPRESSION = 2 };

static struct node node_of(struct cpu_gen *g, LLVMValueRef value) {
    if (LLVMIsAConstantInt(value)) {
        int64_t k = LLVMConstIntGetSExtValue(value);
        return (struct node){.limit = k < INT64_MAX ? k + 1 : k};
    }
    uint64_t key[2] = {KEY_NODE, (uintptr_t)value};
    const struct node *node = scope_find(&g->seen, key, 2);
    return node ? *node : (struct node){.limit = INT64_MAX};
}

static void note(struct cpu_gen *g, LLVMValueRef value, struct node node) {
    uint64_t key[2] = {KEY_NODE, (uintptr_t)value};
    scope_add(&g->seen, key, 2, arena_copy(g->arena, &node, sizeof node));
}

void gen_index_bound(struct cpu_gen *g, LLVMValueRef value, int64_t limit) {
    struct node node = node_of(g, value);
    if (LLVMIsAConstantInt(value) || node.limit <= limit) return;
    node.limit = limit;
    note(g, value, node);
}

LLVMValueRef gen_i64(struct cpu_gen *g, int64_t value) {
    return LLVMConstInt(LLVMInt64TypeInContext(g->b.context), (uint64_t)value, true);
}

static bool constant(LLVMValueRef value, int64_t *k) {
    if (!LLVMIsAConstantInt(value)) return false;
    *k = LLVMConstIntGetSExtValue(value);
    return true;
}

void gen_index_range(struct cpu_gen *g, LLVMValueRef value, int64_t *low, int64_t *limit) {
    struct node node = node_of(g, value);
    int64_t a = 0, b = 0, unused;
    *low = 0;
    *limit = node.limit;
    if (constant(value, low)) return;
    if (node.op != NODE_ADD && node.op != NODE_MUL) return;
    gen_index_range(g, node.a, &a, &unused);
    if (node.op == NODE_ADD) gen_index_range(g, node.b, &b, &unused);
    if (node.op == NODE_ADD ? __builtin_add_overflow(a, b, low)
                            : __builtin_mul_overflow(a, node.k, low))
        *low = 0;
}

static LLVMValueRef build(struct cpu_gen *g, const struct node *node) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef k = gen_i64(g, node->k);
    switch (node->op) {
    case NODE_ADD: return LLVMBuildNSWAdd(b, node->a, node->b, "");
    case NODE_MUL: return LLVMBuildNSWMul(b, node->a, k, "");
    case NODE_DIV: return LLVMBuildUDiv(b, node->a, k, "");
    default: return LLVMBuildURem(b, node->a, k, "");
    }
}

static LLVMValueRef expression(struct cpu_gen *g, struct node node) {
    uint64_t key[5] = {KEY_EXPRESSION, node.op, (uintptr_t)node.a, (uintptr_t)node.b,
                       (uint64_t)node.k};
    LLVMValueRef value = scope_find(&g->seen, key, 5);
    if (value) return value;
    value = build(g, &node);
    scope_add(&g->seen, key, 5, value);
    note(g, value, node);
    return value;
}

static int64_t times(int64_t limit, int64_t k) {
    int64_t product;
    if (limit == INT64_MAX || __builtin_mul_overflow(limit - 1, k, &product)) return INT64_MAX;
    return product < INT64_MAX ? product + 1 : product;
}

/* value = base * factor */
static void factored(struct cpu_gen *g, LLVMValueRef value, LLVMValueRef *base, int64_t *factor) {
    struct node node = node_of(g, value);
    *base = node.op == NODE_MUL ? node.a : value;
    *factor = node.op == NODE_MUL ? node.k : 1;
}

/* (x / c) * (c k) + (x % c) * k = x k */
static LLVMValueRef rejoined(struct cpu_gen *g, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef high, low;
    int64_t high_factor, low_factor;
    factored(g, a, &high, &high_factor);
    factored(g, b, &low, &low_factor);
    struct node div = node_of(g, high), rem = node_of(g, low);
    if (div.op == NODE_DIV && rem.op == NODE_REM && div.a == rem.a && div.k == rem.k &&
        high_factor == div.k * low_factor)
        return gen_index_mul(g, div.a, low_factor);
    return NULL;
}

/* The same for a sum and one more term. */
static LLVMValueRef rejoined_in(struct cpu_gen *g, LLVMValueRef sum, LLVMValueRef term) {
    struct node node = node_of(g, sum);
    if (node.op != NODE_ADD) return NULL;
    LLVMValueRef joined = rejoined(g, node.b, term);
    if (joined) return gen_index_add(g, node.a, joined);
    joined = rejoined(g, node.a, term);
    return joined ? gen_index_add(g, joined, node.b) : NULL;
}

LLVMValueRef gen_index_add(struct cpu_gen *g, LLVMValueRef a, LLVMValueRef b) {
    int64_t x, y;
    bool left = constant(a, &x), right = constant(b, &y);
    if (left && right) return gen_i64(g, x + y);
    if (left && x == 0) return b;
    if (right && y == 0) return a;
    LLVMValueRef joined = rejoined(g, a, b);
    if (!joined) joined = rejoined(g, b, a);
    if (!joined) joined = rejoined_in(g, a, b);
    if (!joined) joined = rejoined_in(g, b, a);
    if (joined) return joined;
    struct node p = node_of(g, a), q = node_of(g, b);
    int64_t limit;
    if (p.limit == INT64_MAX || q.limit == INT64_MAX ||
        __builtin_add_overflow(p.limit, q.limit - 1, &limit))
        limit = INT64_MAX;
    return expression(g, (struct node){.op = NODE_ADD, .a = a, .b = b, .limit = limit});
}

LLVMValueRef gen_index_mul(struct cpu_gen *g, LLVMValueRef a, int64_t k) {
    int64_t x;
    if (k == 1) return a;
    if (k == 0) return gen_i64(g, 0);
    if (constant(a, &x)) return gen_i64(g, x * k);
    struct node p = node_of(g, a);
    if (p.op == NODE_MUL) return gen_index_mul(g, p.a, p.k * k);
    return expression(g, (struct node){.op = NODE_MUL, .a = a, .k = k, .limit = times(p.limit, k)});
}

static bool is_zero(LLVMValueRef value) {
    int64_t k;
    return constant(value, &k) && k == 0;
}

/* a = multiple of k + rest, rest < k: in *multiple (divided by k) and *rest, where a shows it. */
static bool split(struct cpu_gen *g, LLVMValueRef a, int64_t k, LLVMValueRef *quotient,
                  LLVMValueRef *rest) {
    struct node p = node_of(g, a);
    int64_t x;
    if (constant(a, &x)) {
        *quotient = gen_i64(g, x / k);
        *rest = gen_i64(g, x % k);
        return true;
    }
    if (p.limit <= k) {
        *quotient = gen_i64(g, 0);
        *rest = a;
        return true;
    }
    if (p.op == NODE_MUL && p.k % k == 0) {
        *quotient = gen_index_mul(g, p.a, p.k / k);
        *rest = gen_i64(g, 0);
        return true;
    }
    if (p.op == NODE_MUL && k % p.k == 0) {
        *quotient = gen_index_div(g, p.a, k / p.k);
        *rest = gen_index_mul(g, gen_index_rem(g, p.a, k / p.k), p.k);
        return true;
    }
    if (p.op != NODE_ADD) return false;
    LLVMValueRef q1 = NULL, r1, q2 = NULL, r2;
    bool first = split(g, p.a, k, &q1, &r1), second = split(g, p.b, k, &q2, &r2);
    if (first && !second && is_zero(r1)) { /* (m k + b) / k = m + b / k */
        q2 = gen_index_div(g, p.b, k);
        r2 = gen_index_rem(g, p.b, k);
    } else if (second && !first && is_zero(r2)) {
        q1 = gen_index_div(g, p.a, k);
        r1 = gen_index_rem(g, p.a, k);
    } else if (!first || !second) {
        return false;
    }
    struct node m = node_of(g, r1), n = node_of(g, r2);
    int64_t most;
    if (__builtin_add_overflow(m.limit - 1, n.limit - 1, &most) || most >= k) return false;
    *quotient = gen_index_add(g, q1, q2);
    *rest = gen_index_add(g, r1, r2);
    return true;
}

LLVMValueRef gen_index_div(struct cpu_gen *g, LLVMValueRef a, int64_t k) {
    LLVMValueRef quotient, rest;
    int64_t x;
    if (k <= 1) return a;
    if (constant(a, &x)) return gen_i64(g, x / k);
    if (split(g, a, k, &quotient, &rest)) return quotient;
    struct node p = node_of(g, a);
    int64_t limit = p.limit == INT64_MAX ? INT64_MAX / k + 1 : (p.limit - 1) / k + 1;
    return expression(g, (struct node){.op = NODE_DIV, .a = a, .k = k, .limit = limit});
}

LLVMValueRef gen_index_rem(struct cpu_gen *g, LLVMValueRef a, int64_t k) {
    LLVMValueRef quotient, rest;
    int64_t x;
    if (k <= 1) return gen_i64(g, 0);
    if (constant(a, &x)) return gen_i64(g, x % k);
    if (split(g, a, k, &quotient, &rest)) return rest;
    return expression(g, (struct node){.op = NODE_REM, .a = a, .k = k, .limit = k});
}

LLVMValueRef gen_linear(struct cpu_gen *g, const struct shape *shape, const LLVMValueRef *index) {
    LLVMValueRef sum = gen_i64(g, 0);
    int64_t stride = shape->count;
    for (int d = 0; d < shape->rank; d++) {
        stride = shape->dims[d] ? stride / shape->dims[d] : 0;
        if (shape->dims[d] == 1) continue; /* the index is 0 */
        sum = gen_index_add(g, sum, gen_index_mul(g, index[d], stride));
    }
    return sum;
}

void gen_delinear(struct cpu_gen *g, const struct shape *shape, LLVMValueRef at,
                  LLVMValueRef *index) {
    gen_index_bound(g, at, shape->count);
    for (int d = shape->rank - 1; d >= 0; d--) {
        index[d] = gen_index_rem(g, at, shape->dims[d]);
        at = gen_index_div(g, at, shape->dims[d]);
    }
}
