/* Which loads and stores of a loop may touch the same place, in which iterations: addresses are
 * symbol + factor * iteration + constant as far as that is known. */
#include "backend/tpu/loop_body.h"

/* A scalar. Equal symbols are equal numbers, within an iteration or, unless it `varies`, always. */
struct form {
    int symbol; /* 0: none */
    int64_t factor, constant;
    bool varies;
};

struct symbol { /* what made it: operation and operands, so that the same again is equal */
    int op, a, b;
    int64_t imm;
};

struct forms {
    struct loop_body *body;
    struct form *of; /* by register; as it is now */
    bool *known;
    struct symbol *symbols;
    int nsymbols, capacity;
};

static int new_symbol(struct forms *f, struct symbol symbol) {
    for (int i = 0; symbol.op && i < f->nsymbols; i++) {
        const struct symbol *s = &f->symbols[i];
        if (s->op == symbol.op && s->a == symbol.a && s->b == symbol.b && s->imm == symbol.imm)
            return i + 1;
    }
    f->symbols =
        arena_grow(f->body->arena, f->symbols, &f->capacity, f->nsymbols + 1, sizeof *f->symbols);
    f->symbols[f->nsymbols++] = symbol;
    return f->nsymbols;
}

static struct form unknown(struct forms *f, bool varies) {
    return (struct form){.symbol = new_symbol(f, (struct symbol){0}), .varies = varies};
}

static struct form form_of(struct forms *f, treg reg) {
    if (!reg) return (struct form){0};
    if (!f->known[reg]) {
        f->known[reg] = true;
        f->of[reg] = unknown(f, false);
    }
    return f->of[reg];
}

static struct form sum(struct forms *f, struct form a, struct form b, int sign) {
    struct form result = {0, a.factor + sign * b.factor, a.constant + sign * b.constant,
                          a.varies || b.varies};
    if (!b.symbol)
        result.symbol = a.symbol;
    else if (!a.symbol && sign > 0)
        result.symbol = b.symbol;
    else
        result.symbol =
            new_symbol(f, (struct symbol){sign > 0 ? TPU_SADD : TPU_SSUB, a.symbol, b.symbol, 0});
    return result;
}

static struct form scaled(struct forms *f, struct form a, int64_t by) {
    struct form result = {0, a.factor * by, a.constant * by, a.varies};
    if (a.symbol) result.symbol = new_symbol(f, (struct symbol){TPU_SMUL, a.symbol, 0, by});
    return result;
}

/* What is no sum or multiple: the same of the same is the same. */
static struct form other(struct forms *f, const struct mop *op, struct form a, struct form b) {
    bool simple = tpu_op_info(op->op)->effect == TPU_EFFECT_NONE && !op->pred;
    bool varies = a.varies || b.varies || a.factor || b.factor;
    if (!simple || varies || a.constant || b.constant) return unknown(f, varies || !simple);
    return (struct form){.symbol =
                             new_symbol(f, (struct symbol){op->op, a.symbol, b.symbol, op->imm})};
}

static struct form computed(struct forms *f, const struct mop *op) {
    struct form a = form_of(f, op->a), b = {0};
    if (op->pred) return unknown(f, true);
    if (op->bkind == MIR_B_REG) b = form_of(f, op->b);
    if (op->bkind == MIR_B_IMM) b.constant = op->imm;
    switch (op->op) {
    case TPU_SMOV: return b;
    case TPU_SADD: return sum(f, a, b, 1);
    case TPU_SSUB: return sum(f, a, b, -1);
    case TPU_SRSUB: return sum(f, b, a, -1);
    case TPU_SMUL:
        if (op->bkind == MIR_B_IMM) return scaled(f, a, op->imm);
        break;
    case TPU_SSHL:
        if (op->bkind == MIR_B_IMM && op->imm >= 0 && op->imm < 31)
            return scaled(f, a, (int64_t)1 << op->imm);
        break;
    default: break;
    }
    if (op->bkind == MIR_B_IMM) b.constant = 0;
    return other(f, op, a, b);
}

/* ---- accesses ---- */

struct access {
    int op, tag;
    bool store, smem;
    bool placed; /* the form is of use */
    struct form at;
    int64_t low, high; /* rows, or words, from there: low to before high */
};

static struct access access_of(struct forms *f, int index) {
    const struct mop *op = &f->body->ops[index];
    enum tpu_effect effect = tpu_op_info(op->op)->effect;
    struct access access = {.op = index, .tag = op->tag, .smem = mir_is_smem(op), .placed = true};
    access.store = effect == TPU_EFFECT_VMEM_WRITE || effect == TPU_EFFECT_SMEM_WRITE;
    if (access.smem) {
        access.at = form_of(f, op->a);
        access.placed = op->bkind == MIR_B_IMM || op->bkind == MIR_B_NONE;
        access.at.constant += op->bkind == MIR_B_IMM ? op->imm : 0;
        access.high = 1;
        return access;
    }
    int64_t stride = op->stride_kind == MIR_STRIDE_IMM ? op->stride
                     : op->stride_kind == MIR_STRIDE_0 ? 0
                                                       : 1;
    access.at = form_of(f, op->base);
    access.at.constant += op->offset;
    access.placed = op->stride_kind != MIR_STRIDE_REG;
    access.low = stride < 0 ? stride * (TPU_SUBLANES - 1) : 0;
    access.high = (stride > 0 ? stride * (TPU_SUBLANES - 1) : 0) + 1;
    return access;
}

static bool may_meet(const struct access *x, const struct access *y) {
    if (x->smem != y->smem || (!x->store && !y->store)) return false;
    return !x->tag || !y->tag || x->tag == y->tag;
}

/* Iterations from x to a later y of the same place; `least` (0 or 1) or more; -1: never. */
static int64_t distance(const struct access *x, const struct access *y, int64_t least,
                        int64_t trips) {
    bool known = x->placed && y->placed && x->at.symbol == y->at.symbol;
    if (!known || (least && x->at.varies)) return least;
    int64_t constant = y->at.constant - x->at.constant, factor = y->at.factor;
    if (x->at.factor != factor) return least;
    for (int64_t d = least; d <= least + 64 && d < trips; d++) {
        int64_t apart = constant + factor * d; /* y lies so far after x */
        if (apart + y->low < x->high && x->low < apart + y->high) return d;
        bool gone = factor > 0 ? apart + y->low >= x->high : apart + y->high <= x->low;
        if (!least || !factor || gone) return -1;
    }
    return trips <= least + 64 ? -1 : least;
}

void loop_body_link_memory(struct loop_body *body, treg counter) {
    struct forms f = {.body = body};
    struct access *list = arena_array(body->arena, (size_t)body->count + 1, sizeof *list);
    int n = 0;
    f.of = arena_array(body->arena, (size_t)body->mir->nregs, sizeof *f.of);
    f.known = arena_array(body->arena, (size_t)body->mir->nregs, sizeof *f.known);
    /* What the body writes varies until it has been written in this iteration. */
    for (int i = 0; i < body->count; i++) {
        struct mir_ref reads[MIR_MOST_READS], write;
        mir_refs(&body->ops[i], reads, &write);
        if (!write.reg || write.class != MIR_S || f.known[*write.reg]) continue;
        f.known[*write.reg] = true;
        f.of[*write.reg] = unknown(&f, true);
    }
    f.of[counter] = (struct form){.factor = 1};
    f.known[counter] = true;
    for (int i = 0; i < body->count; i++) {
        struct mir_ref reads[MIR_MOST_READS], write;
        enum tpu_effect effect = tpu_op_info(body->ops[i].op)->effect;
        if (effect >= TPU_EFFECT_SMEM_READ && effect <= TPU_EFFECT_VMEM_WRITE)
            list[n++] = access_of(&f, i);
        mir_refs(&body->ops[i], reads, &write);
        if (write.reg && write.class == MIR_S) f.of[*write.reg] = computed(&f, &body->ops[i]);
    }
    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++) {
            if (!may_meet(&list[x], &list[y])) continue;
            if (x < y && distance(&list[x], &list[y], 0, body->trips) == 0)
                loop_body_edge(body, list[x].op, list[y].op, 1, 0);
            int64_t later = x == y ? -1 : distance(&list[x], &list[y], 1, body->trips);
            if (later > 0) loop_body_edge(body, list[x].op, list[y].op, 1, (int)later);
        }
    }
}
