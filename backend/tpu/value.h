/* The value of any instruction at computed indices: elementwise operations compose, operations that
 * only move elements become arithmetic on indices, reductions become loops. Everything runs this
 * way; what has a faster shape is lowered by files of its own. */
#ifndef BACKEND_TPU_VALUE_H
#define BACKEND_TPU_VALUE_H

#include "backend/tpu/element.h"

struct value_binding {
    const struct hlo_instr *instr;
    int leaf;
    bool is_value;
    struct tarray array;
    struct tval value;
};

struct value_memo {
    const struct hlo_instr *instr;
    int leaf;
    struct ix index[SHAPE_MAX_RANK];
    struct tval value;
};

/* The start indices of a dynamic slice or update, found before the loops. */
struct value_starts {
    const struct hlo_instr *instr;
    struct sx *start;
};

enum { MOST_CALLS = 32 };

struct values {
    struct kernel *k;
    struct fetcher f;
    struct arena *arena;
    struct value_binding *bindings;
    int nbindings, binding_capacity;
    struct value_memo **memos;
    int nmemos, memo_capacity;
    struct value_starts *starts;
    int nstarts, start_capacity;
    int depth;
    const struct hlo_instr *calls[MOST_CALLS]; /* fusions whose insides are being computed */
    int ncalls;
    const char *why;      /* the first thing that there is no code for */
    int matmul_precision; /* ENUM_PRECISION_*; 0: default */
};

void value_bind_array(struct values *g, const struct hlo_instr *instr, int leaf,
                      const struct tarray *array);
void value_bind_value(struct values *g, const struct hlo_instr *instr, int leaf, struct tval value);
const struct value_binding *value_find(const struct values *g, const struct hlo_instr *instr,
                                       int leaf);

/* What the values of `instr` will need that does not depend on the index. Before any loop. */
void value_prepare(struct values *g, const struct hlo_instr *instr);
/* From here on the insides of a fusion may be asked for: its parameters are its operands. */
void value_enter(struct values *g, const struct hlo_instr *fusion);
/* Leaf `leaf` of the instruction's result; index: one a dimension. `active`: fetch.h. */
struct tval value_at(struct values *g, const struct hlo_instr *instr, int leaf,
                     const struct ix *index, treg active);
/* All leaves. */
void values_at(struct values *g, const struct hlo_instr *instr, const struct ix *index, treg active,
               struct tval *values);
/* Runs a computation on scalars in every place: one value a parameter, one a leaf of the root. */
void value_call(struct values *g, const struct hlo_computation *computation,
                const struct tval *args, struct tval *results);
/* An index out of an integer element: clamped to what 32 bits hold. */
treg value_index(struct kernel *k, struct tval value, enum element_type type);
/* Registers that may be changed, with these values. */
struct tval value_variable(struct kernel *k, struct tval value);
void value_assign(struct kernel *k, struct tval variable, treg mask, struct tval value);

/* Whether value_at has code for the instruction itself (its operands aside). */
bool value_has_code(const struct hlo_instr *instr);

/* value_window.c: reductions, windows, products by loops. */
void value_reduce(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                  treg active, struct tval *values);
void value_reduce_window(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                         treg active, struct tval *values);
/* How many bf16 parts of f32 operands of a dot or convolution count: 1 to 3. */
int value_product_parts(const struct hlo_instr *instr, int matmul_precision);
struct tval value_dot(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                      treg active);
struct tval value_convolution(struct values *g, const struct hlo_instr *instr,
                              const struct ix *index, treg active);
/* value_move.c: operations that move elements. v[0] 0: not one of them. */
struct tval value_moved(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                        treg active);
/* value_random.c */
struct tval value_random_bits(struct values *g, const struct hlo_instr *instr, int leaf,
                              const struct ix *index);
/* (low, high) + n, n of 32 bits. */
struct tval random_counter(struct kernel *k, struct tval a, treg n);
/* The Philox 4x32-10 block of a key and a counter of 128 bits. */
void random_philox(struct kernel *k, struct tval key, struct tval low, struct tval high, treg x[4]);
/* Number of the block, row-major, that a place's bits come from; words alternate along `split`
 * (-1: every place has a block). */
struct ix random_block(struct kernel *k, const struct shape *shape, const struct ix *index,
                       int split);

#endif
