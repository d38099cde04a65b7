#include "backend/tpu/fold.h"

#include "passes/util.h"

/* ---- which reducers ---- */

static bool has_identity(enum hlo_opcode opcode, enum element_type type) {
    switch (opcode) {
    case OP_ADD:
    case OP_MULTIPLY: return type != TYPE_PRED && !element_type_is_complex(type);
    case OP_AND:
    case OP_OR: return !element_type_is_float(type) && !element_type_is_complex(type);
    default: return false;
    }
}

static double identity_of(enum hlo_opcode opcode) {
    return opcode == OP_MULTIPLY ? 1 : 0;
}

/* Sums begin with +0: a sum of nothing but -0 is +0 with the usual initial value. */
static bool begins_with_identity(const struct hlo_instr *init, enum hlo_opcode opcode) {
    return init->opcode == OP_CONSTANT && instr_is_splat(init, identity_of(opcode));
}

/* Reducers that choose among numbers and their places (arg-max) do so in any order, but for NaN:
 * of several they keep the one that they see first. So what has the lower place goes first. Where
 * an integer is no place, any order is as good. */
static int find_place(const struct fold *fold) {
    int place = -1;
    bool floats = false;
    for (int i = 0; i < fold->parts; i++) {
        enum element_type type = fold->reduce->operands[i]->shape->type;
        floats |= element_type_is_float(type);
        if (place < 0 && element_type_is_integral(type)) place = i;
    }
    return floats ? place : -1;
}

bool fold_find(struct fold *fold, const struct hlo_instr *reduce) {
    *fold = (struct fold){.reduce = reduce, .parts = reduce->noperands / 2, .place = -1};
    if (reduce->opcode != OP_REDUCE || fold->parts > FOLD_MOST_PARTS) return false;
    const struct hlo_computation *reducer = reduce->called[0];
    if (fold->parts == 1) fold->opcode = reducer_operation(reducer);
    enum element_type type = reduce->operands[0]->shape->type;
    if (reducer_only_chooses(reducer)) {
        fold->from_init = true;
        fold->place = find_place(fold);
        return true;
    }
    if (fold->parts != 1 || !has_identity(fold->opcode, type)) return false;
    /* Bitwise operations have identities that differ by the type's width: their initial value is
     * seen often without harm. */
    fold->from_init = fold->opcode == OP_AND || fold->opcode == OP_OR ||
                      begins_with_identity(reduce->operands[1], fold->opcode);
    return true;
}

/* ---- accumulators ---- */

static struct tval identity(struct kernel *k, enum element_type type, double number) {
    struct tval value = {{0, 0}};
    if (element_type_is_float(type)) {
        value.v[0] = k_fconst(k, (float)number);
        return value;
    }
    value.v[0] = k_const(k, (int32_t)number);
    if (element_type_size(type) == 8) value.v[1] = k_const(k, 0);
    return value;
}

void fold_prepare(struct values *g, struct fold *fold) {
    for (int i = 0; i < fold->parts; i++) {
        const struct hlo_instr *init = fold->reduce->operands[fold->parts + i];
        fold->init[i] = value_at(g, init, 0, NULL, 0);
        fold->start[i] = fold->from_init
                             ? fold->init[i]
                             : identity(g->k, init->shape->type, identity_of(fold->opcode));
    }
}

void fold_start(struct values *g, const struct fold *fold, struct tval *acc) {
    for (int i = 0; i < fold->parts; i++)
        acc[i] = value_variable(g->k, fold->start[i]);
}

static void apply(struct values *g, const struct fold *fold, const struct tval *a,
                  const struct tval *b, struct tval *results) {
    struct tval args[2 * FOLD_MOST_PARTS];
    for (int i = 0; i < fold->parts; i++) {
        args[i] = a[i];
        args[fold->parts + i] = b[i];
    }
    value_call(g, fold->reduce->called[0], args, results);
}

void fold_step(struct values *g, const struct fold *fold, const struct tval *acc,
               const struct tval *value, treg mask) {
    struct tval results[FOLD_MOST_PARTS];
    apply(g, fold, acc, value, results);
    for (int i = 0; i < fold->parts; i++)
        value_assign(g->k, acc[i], mask, results[i]);
}

void fold_join(struct values *g, const struct fold *fold, struct tval *a, const struct tval *b) {
    struct tval results[FOLD_MOST_PARTS], first[FOLD_MOST_PARTS], last[FOLD_MOST_PARTS];
    treg swap =
        fold->place < 0 ? 0 : k_binary(g->k, TPU_VLTS, b[fold->place].v[0], a[fold->place].v[0]);
    for (int i = 0; i < fold->parts; i++) {
        first[i] = swap ? element_select(g->k, swap, b[i], a[i]) : a[i];
        last[i] = swap ? element_select(g->k, swap, a[i], b[i]) : b[i];
    }
    apply(g, fold, first, last, results);
    for (int i = 0; i < fold->parts; i++)
        a[i] = results[i];
}

/* ---- within a register ---- */

/* The cross-lane unit's own operation; EMPTY where there is none. */
static enum tpu_op lane_op(const struct fold *fold) {
    static const struct {
        enum hlo_opcode opcode;
        enum element_type type;
        enum tpu_op op;
    } ops[] = {
        {OP_ADD, TYPE_F32, TPU_XSUMF},      {OP_MAXIMUM, TYPE_F32, TPU_XMAXF},
        {OP_MINIMUM, TYPE_F32, TPU_XMINF},  {OP_ADD, TYPE_S32, TPU_XSUM},
        {OP_ADD, TYPE_U32, TPU_XSUM},       {OP_MAXIMUM, TYPE_S32, TPU_XMAXS},
        {OP_MINIMUM, TYPE_S32, TPU_XMINS},  {OP_MAXIMUM, TYPE_U32, TPU_XMAXU},
        {OP_MINIMUM, TYPE_U32, TPU_XMINU},  {OP_MAXIMUM, TYPE_BF16, TPU_XMAXF},
        {OP_MINIMUM, TYPE_BF16, TPU_XMINF},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].opcode == fold->opcode && ops[i].type == fold->reduce->operands[0]->shape->type)
            return ops[i].op;
    return TPU_EMPTY;
}

static struct tval turned(struct kernel *k, struct tval value, int by, bool lanes) {
    struct tval result = {{0, 0}};
    for (int p = 0; p < 2 && value.v[p]; p++)
        result.v[p] = lanes ? k_xlu_amount(k, TPU_XROT, value.v[p], sx_const(by))
                            : k_binary_i(k, TPU_VROTS, value.v[p], by);
    return result;
}

/* Halves on each other, each half of what was left before. */
static void fold_halves(struct values *g, const struct fold *fold, struct tval *acc, bool lanes) {
    for (int by = (lanes ? TPU_LANES : TPU_SUBLANES) / 2; by; by /= 2) {
        struct tval other[FOLD_MOST_PARTS];
        for (int i = 0; i < fold->parts; i++)
            other[i] = turned(g->k, acc[i], by, lanes);
        fold_join(g, fold, acc, other);
    }
}

void fold_lanes(struct values *g, const struct fold *fold, struct tval *acc) {
    enum tpu_op op = lane_op(fold);
    if (op == TPU_EMPTY)
        fold_halves(g, fold, acc, true);
    else
        acc[0].v[0] = k_xlu(g->k, op, acc[0].v[0], 0);
}

void fold_sublanes(struct values *g, const struct fold *fold, struct tval *acc) {
    fold_halves(g, fold, acc, false);
}

void fold_finish(struct values *g, const struct fold *fold, struct tval *acc) {
    struct tval total[FOLD_MOST_PARTS];
    if (fold->from_init) return;
    for (int i = 0; i < fold->parts; i++)
        total[i] = acc[i];
    apply(g, fold, fold->init, total, acc);
}
