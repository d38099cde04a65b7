#include "backend/tpu/kernel.h"

#include <string.h>

struct kernel *kernel_new(struct arena *arena) {
    struct kernel *k = arena_alloc(arena, sizeof *k);
    k->arena = arena;
    k->mir = mir_new(arena);
    k->next_tag = 1;
    /* Block 0 holds what the whole kernel uses: constants are added to it later. */
    k_block(k);
    return k;
}

static enum mir_class dest_class(enum tpu_op op) {
    switch (tpu_op_info(op)->dest) {
    case TPU_KIND_WS: return MIR_S;
    case TPU_KIND_WV: return MIR_V;
    case TPU_KIND_WM: return MIR_M;
    case TPU_KIND_WP: return MIR_P;
    default: return MIR_NONE;
    }
}

treg k_emit(struct kernel *k, struct mop op) {
    if (!op.d && dest_class(op.op) != MIR_NONE) op.d = mir_reg(k->mir, dest_class(op.op));
    mir_add(k->mir, &op);
    return op.d;
}

treg k_unary(struct kernel *k, enum tpu_op op, treg a) {
    return k_emit(k, (struct mop){.op = op, .a = a});
}

treg k_binary(struct kernel *k, enum tpu_op op, treg a, treg b) {
    return k_emit(k, (struct mop){.op = op, .a = a, .b = b, .bkind = MIR_B_REG});
}

treg k_binary_s(struct kernel *k, enum tpu_op op, treg a, treg b) {
    return k_emit(k, (struct mop){.op = op, .a = a, .b = b, .bkind = MIR_B_SCALAR});
}

treg k_binary_i(struct kernel *k, enum tpu_op op, treg a, int32_t b) {
    return k_emit(k, (struct mop){.op = op, .a = a, .imm = b, .bkind = MIR_B_IMM});
}

treg k_const(struct kernel *k, int32_t bits) {
    return k_emit(k, (struct mop){.op = TPU_VMOV, .imm = bits, .bkind = MIR_B_IMM});
}

treg k_fconst(struct kernel *k, float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return k_const(k, bits);
}

treg k_from_scalar(struct kernel *k, treg s) {
    return k_emit(k, (struct mop){.op = TPU_VMOV, .b = s, .bkind = MIR_B_SCALAR});
}

treg k_select(struct kernel *k, treg mask, treg yes, treg no) {
    if (!mask || yes == no) return yes;
    return k_emit(
        k, (struct mop){.op = TPU_VSEL, .a = yes, .b = no, .bkind = MIR_B_REG, .mask = mask});
}

void k_move(struct kernel *k, treg dest, treg mask, treg b) {
    k_emit(k, (struct mop){.op = TPU_VMOV, .d = dest, .b = b, .bkind = MIR_B_REG, .mask = mask});
}

void k_move_s(struct kernel *k, treg dest, treg b) {
    k_emit(k, (struct mop){.op = TPU_SMOV, .d = dest, .b = b, .bkind = MIR_B_REG});
}

treg k_variable(struct kernel *k, int32_t value) {
    treg v = mir_reg(k->mir, MIR_S);
    k_move_s(k, v, sx_reg(k, sx_const(value)));
    return v;
}

void k_add_if(struct kernel *k, treg v, int32_t n, treg predicate) {
    k_emit(k, (struct mop){
                  .op = TPU_SADD, .d = v, .a = v, .bkind = MIR_B_IMM, .imm = n, .pred = predicate});
}

treg k_count_around(struct kernel *k, treg v, int32_t limit, treg predicate) {
    k_add_if(k, v, 1, predicate);
    treg over = k_binary_i(k, TPU_SGES, v, limit);
    k_add_if(k, v, -limit, over);
    return over;
}

treg k_copy(struct kernel *k, treg v) {
    return k_emit(k, (struct mop){.op = TPU_VMOV, .b = v, .bkind = MIR_B_REG});
}

/* A value that never changes, made in the kernel's first block. */
static treg make_first(struct kernel *k, struct mop op) {
    struct mblock *block = &k->mir->blocks[0];
    op.d = mir_reg(k->mir, dest_class(op.op));
    block->ops = arena_grow(k->mir->arena, block->ops, &block->capacity, block->count + 1,
                            sizeof *block->ops);
    block->ops[block->count++] = op;
    return op.d;
}

treg k_lane(struct kernel *k) {
    if (!k->lane_iota) k->lane_iota = make_first(k, (struct mop){.op = TPU_VLANE});
    return k->lane_iota;
}

treg k_sublane(struct kernel *k) {
    if (!k->sublane_iota) k->sublane_iota = make_first(k, (struct mop){.op = TPU_VSUBLANE});
    return k->sublane_iota;
}

treg m_and(struct kernel *k, treg a, treg b) {
    if (!a || !b) return a ? a : b;
    return k_binary(k, TPU_MAND, a, b);
}

treg m_or(struct kernel *k, treg a, treg b) {
    if (!a || !b) return 0;
    return k_binary(k, TPU_MOR, a, b);
}

treg m_not(struct kernel *k, treg a) {
    return k_binary(k, TPU_MXOR, a, 0);
}

treg k_eup(struct kernel *k, enum tpu_op op, treg a, treg b) {
    k_emit(k, (struct mop){.op = op, .a = a, .b = b, .bkind = b ? MIR_B_REG : MIR_B_NONE});
    return k_emit(k, (struct mop){.op = TPU_EPOP});
}

treg k_xlu(struct kernel *k, enum tpu_op op, treg a, treg b) {
    k_emit(k, (struct mop){.op = op, .a = a, .b = b, .bkind = b ? MIR_B_REG : MIR_B_NONE});
    return k_emit(k, (struct mop){.op = TPU_XPOP});
}

treg k_xlu_amount(struct kernel *k, enum tpu_op op, treg a, struct sx amount) {
    struct mop push = {.op = op, .a = a};
    if (sx_is_const(amount))
        push.imm = amount.c;
    else
        push.amount = sx_reg(k, amount);
    k_emit(k, push);
    return k_emit(k, (struct mop){.op = TPU_XPOP});
}

void k_turn_push(struct kernel *k, treg rows, bool last, int results) {
    k_emit(k,
           (struct mop){.op = last ? TPU_XTRL : TPU_XTR, .a = rows, .literal = last ? results : 0});
}

treg k_turn_pop(struct kernel *k) {
    return k_emit(k, (struct mop){.op = TPU_XPOP});
}

void k_turn_store(struct kernel *k, struct sx to, int tag) {
    for (int i = 0; i < TPU_TRANSPOSE_MAX; i++)
        k_store(k, k_turn_pop(k), sx_addi(to, i * TPU_SUBLANES), 0, tag);
}

void k_turn_square(struct kernel *k, struct sx from, int from_tag, struct sx to, int to_tag) {
    for (int i = 0; i < TPU_TRANSPOSE_MAX; i++) {
        struct sx row = sx_addi(from, i * TPU_SUBLANES);
        k_turn_push(k, k_load(k, row, MIR_STRIDE_1, sx_const(0), from_tag),
                    i + 1 == TPU_TRANSPOSE_MAX, TPU_TRANSPOSE_MAX);
    }
    k_turn_store(k, to, to_tag);
}

treg k_to_scalar(struct kernel *k, treg v) {
    k_emit(k, (struct mop){.op = TPU_V2S, .a = v});
    return k_emit(k, (struct mop){.op = TPU_SPOP});
}

static void set_stride(struct kernel *k, struct mop *op, struct sx stride) {
    if (sx_is_const(stride) && stride.c == (int16_t)stride.c) {
        op->stride = stride.c;
        op->stride_kind = stride.c == 1   ? MIR_STRIDE_1
                          : stride.c == 0 ? MIR_STRIDE_0
                                          : MIR_STRIDE_IMM;
    } else {
        op->stride_kind = MIR_STRIDE_REG;
        op->stride_reg = sx_reg(k, stride);
    }
}

treg k_load(struct kernel *k, struct sx row, enum mir_stride kind, struct sx stride, int tag) {
    struct mop op = {.op = TPU_VLD, .base = row.r, .offset = row.c, .tag = tag};
    op.stride_kind = kind;
    if (kind == MIR_STRIDE_IMM || kind == MIR_STRIDE_REG) set_stride(k, &op, stride);
    return k_emit(k, op);
}

void k_store_stride(struct kernel *k, treg value, struct sx row, struct sx stride, int tag) {
    struct mop op = {.op = TPU_VST, .d = value, .base = row.r, .offset = row.c, .tag = tag};
    set_stride(k, &op, stride);
    k_emit(k, op);
}

void k_store(struct kernel *k, treg value, struct sx row, treg mask, int tag) {
    k_emit(
        k,
        (struct mop){
            .op = TPU_VST, .d = value, .base = row.r, .offset = row.c, .mask = mask, .tag = tag});
}

int k_tag(struct kernel *k) {
    return k->next_tag++;
}

/* ---- control ---- */

int k_block(struct kernel *k) {
    k->ncached = 0;
    return mir_block(k->mir);
}

struct sx loop_begin_reg(struct kernel *k, struct loop *loop, treg count, int64_t most) {
    (void)count;
    loop->count = most;
    loop->counter = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM});
    k->mir->depth++;
    loop->head = k_block(k);
    return sx_of(loop->counter, 0, most - 1);
}

struct sx loop_begin(struct kernel *k, struct loop *loop, int64_t count) {
    if (count == 1) {
        *loop = (struct loop){.head = -1, .count = 1};
        return sx_const(0);
    }
    return loop_begin_reg(k, loop, 0, count);
}

void loop_end(struct kernel *k, struct loop *loop, treg count) {
    if (loop->head < 0) return;
    k_emit(
        k,
        (struct mop){
            .op = TPU_SADD, .d = loop->counter, .a = loop->counter, .imm = 1, .bkind = MIR_B_IMM});
    treg more = count ? k_binary(k, TPU_SLTS, loop->counter, count)
                      : k_binary_i(k, TPU_SLTS, loop->counter, (int32_t)loop->count);
    k_emit(k, (struct mop){.op = TPU_BR, .target = loop->head, .pred = more});
    if (!count && loop->head == k->mir->nblocks - 1) {
        k->mir->blocks[loop->head].trips = loop->count;
        k->mir->blocks[loop->head].counter = loop->counter;
    }
    k->mir->depth--;
    k_block(k);
}

int until_begin(struct kernel *k) {
    k->mir->depth++;
    return k_block(k);
}

void until_end(struct kernel *k, int head, treg predicate, bool unless) {
    k_emit(k, (struct mop){.op = TPU_BR, .target = head, .pred = predicate, .unless = unless});
    k->mir->depth--;
    k_block(k);
}

int if_begin(struct kernel *k, treg predicate, bool unless) {
    k_emit(k, (struct mop){.op = TPU_BR, .pred = predicate, .unless = !unless});
    int block = k->mir->nblocks - 1;
    k_block(k);
    return block;
}

void if_end(struct kernel *k, int branch) {
    struct mblock *block = &k->mir->blocks[branch];
    int target = k_block(k);
    block = &k->mir->blocks[branch];
    block->ops[block->count - 1].target = target;
}

/* ---- scalars ---- */

struct sx sx_const(int32_t c) {
    return (struct sx){0, c, 1 << 30, c, c};
}

struct sx sx_of(treg r, int64_t low, int64_t high) {
    return (struct sx){r, 0, 1, low, high};
}

bool sx_is_const(struct sx a) {
    return a.r == 0;
}

static int32_t power_of_two_in(int64_t n) {
    return n == 0 ? 1 << 30 : (int32_t)((n & -n) > (1 << 30) ? 1 << 30 : (n & -n));
}

bool sx_divides(struct sx a, int32_t n) {
    return (a.r == 0 || a.align % n == 0) && a.c % n == 0;
}

static treg cached(struct kernel *k, enum tpu_op op, treg a, treg b, int32_t imm) {
    for (int i = 0; i < k->ncached; i++)
        if (k->cache[i].op == op && k->cache[i].a == a && k->cache[i].b == b &&
            k->cache[i].imm == imm)
            return k->cache[i].result;
    treg result = b ? k_binary(k, op, a, b) : k_binary_i(k, op, a, imm);
    int at = k->ncached < KERNEL_CACHE ? k->ncached++ : result % KERNEL_CACHE;
    k->cache[at].op = (uint8_t)op;
    k->cache[at].a = a;
    k->cache[at].b = b;
    k->cache[at].imm = imm;
    k->cache[at].result = result;
    return result;
}

struct sx sx_addi(struct sx a, int32_t c) {
    a.c += c;
    a.low += c;
    a.high += c;
    return a;
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

struct sx sx_add(struct kernel *k, struct sx a, struct sx b) {
    if (!a.r || !b.r) {
        struct sx sum = a.r ? sx_addi(a, b.c) : sx_addi(b, a.c);
        return sum;
    }
    treg first = a.r < b.r ? a.r : b.r, second = a.r < b.r ? b.r : a.r;
    return (struct sx){cached(k, TPU_SADD, first, second, 0), a.c + b.c, least(a.align, b.align),
                       a.low + b.low, a.high + b.high};
}

struct sx sx_sub(struct kernel *k, struct sx a, struct sx b) {
    if (!b.r) return sx_addi(a, -b.c);
    if (!a.r)
        return (struct sx){cached(k, TPU_SRSUB, b.r, 0, 0), a.c - b.c, b.align, a.low - b.high,
                           a.high - b.low};
    return (struct sx){cached(k, TPU_SSUB, a.r, b.r, 0), a.c - b.c, least(a.align, b.align),
                       a.low - b.high, a.high - b.low};
}

struct sx sx_muli(struct kernel *k, struct sx a, int32_t c) {
    if (c == 1) return a;
    if (!a.r || c == 0) return sx_const(a.c * c);
    treg r = c > 0 && (c & (c - 1)) == 0 ? cached(k, TPU_SSHL, a.r, 0, __builtin_ctz((unsigned)c))
                                         : cached(k, TPU_SMUL, a.r, 0, c);
    int64_t align = (int64_t)a.align * power_of_two_in(c);
    return (struct sx){r, a.c * c, power_of_two_in(align), c > 0 ? a.low * c : a.high * c,
                       c > 0 ? a.high * c : a.low * c};
}

struct sx sx_mul(struct kernel *k, struct sx a, struct sx b) {
    if (!a.r) return sx_muli(k, b, a.c);
    if (!b.r) return sx_muli(k, a, b.c);
    treg r = k_binary(k, TPU_SMUL, sx_reg(k, a), sx_reg(k, b));
    return sx_of(r, INT32_MIN, INT32_MAX);
}

treg sx_reg(struct kernel *k, struct sx a) {
    if (!a.r) return k_emit(k, (struct mop){.op = TPU_SMOV, .imm = a.c, .bkind = MIR_B_IMM});
    return a.c ? cached(k, TPU_SADD, a.r, 0, a.c) : a.r;
}

static int64_t floor_div(int64_t a, int64_t c) {
    return a / c - (a % c < 0);
}

struct sx sx_div(struct kernel *k, struct sx a, int32_t c) {
    if (c == 1) return a;
    if (!a.r) return sx_const((int32_t)floor_div(a.c, c));
    if (a.low >= 0 && a.high < c) return sx_const(0);
    if (a.low < 0 && (c & (c - 1))) a = sx_clamp(k, a, 0, INT32_MAX);
    treg r = (c & (c - 1)) == 0 ? cached(k, TPU_SSAR, sx_reg(k, a), 0, __builtin_ctz((unsigned)c))
                                : cached(k, TPU_SDIVU, sx_reg(k, a), 0, c);
    return sx_of(r, floor_div(a.low, c), floor_div(a.high, c));
}

struct sx sx_mod(struct kernel *k, struct sx a, int32_t c) {
    if (c == 1) return sx_const(0);
    if (!a.r) return sx_const((int32_t)(a.c - floor_div(a.c, c) * c));
    if (a.low >= 0 && a.high < c) return a;
    bool power = (c & (c - 1)) == 0;
    if (a.low < 0 && !power) a = sx_clamp(k, a, 0, INT32_MAX);
    treg r = power ? cached(k, TPU_SAND, sx_reg(k, a), 0, c - 1)
                   : cached(k, TPU_SREMU, sx_reg(k, a), 0, c);
    struct sx result = sx_of(r, 0, c - 1);
    if (power && a.c % a.align == 0) {
        result.align = least(a.align, c);
        result.high = c - result.align;
    }
    return result;
}

struct sx sx_clamp(struct kernel *k, struct sx a, int32_t low, int32_t high) {
    if (a.low >= low && a.high <= high) return a;
    if (!a.r) return sx_const(a.c < low ? low : a.c > high ? high : a.c);
    treg r = sx_reg(k, a);
    if (a.low < low) r = cached(k, TPU_SMAXS, r, 0, low);
    if (a.high > high) r = cached(k, TPU_SMINS, r, 0, high);
    return sx_of(r, a.low > low ? a.low : low, a.high < high ? a.high : high);
}

treg s_compare(struct kernel *k, enum tpu_op op, struct sx a, struct sx b) {
    treg left = sx_reg(k, a);
    return sx_is_const(b) ? k_binary_i(k, op, left, b.c) : k_binary(k, op, left, sx_reg(k, b));
}
