/* Reductions in registers: accumulators that tiles are folded into place by place, and the places
 * of a register folded into one. */
#ifndef BACKEND_TPU_FOLD_H
#define BACKEND_TPU_FOLD_H

#include "backend/tpu/value.h"

enum { FOLD_MOST_PARTS = 8 };

/* What is known of a reduce before its code. */
struct fold {
    const struct hlo_instr *reduce;
    int parts;              /* operands, and leaves of the result */
    enum hlo_opcode opcode; /* the one operation of the reducer, or OPCODE_INVALID */
    int place;              /* the part that may number the elements; -1: none does */
    bool from_init;         /* accumulators begin with the initial values, else with the identity */
    struct tval start[FOLD_MOST_PARTS]; /* fold_prepare */
    struct tval init[FOLD_MOST_PARTS];
};

/* False where places cannot be folded in any order and number: the reducer is neither one
 * operation with an identity nor made of comparisons and selections, which may see an element
 * twice. */
bool fold_find(struct fold *fold, const struct hlo_instr *reduce);
/* Makes the values that accumulators begin with. Before any loop. */
void fold_prepare(struct values *g, struct fold *fold);
/* Accumulators that may be changed, with what they begin with. */
void fold_start(struct values *g, const struct fold *fold, struct tval *acc);
/* acc = reducer(acc, value) where the mask is on (0: everywhere). */
void fold_step(struct values *g, const struct fold *fold, const struct tval *acc,
               const struct tval *value, treg mask);
/* reducer(a, b) into a, which are plain values. */
void fold_join(struct values *g, const struct fold *fold, struct tval *a, const struct tval *b);
/* Every lane gets the fold of all lanes of its sublane; every sublane that of all sublanes. */
void fold_lanes(struct values *g, const struct fold *fold, struct tval *acc);
void fold_sublanes(struct values *g, const struct fold *fold, struct tval *acc);
/* The initial value counts, once. */
void fold_finish(struct values *g, const struct fold *fold, struct tval *acc);

#endif
