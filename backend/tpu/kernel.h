/* Writing a kernel: short names for the machine's instructions on virtual registers, loops, and
 * scalars and indices that are folded as far as they are known. */
#ifndef BACKEND_TPU_KERNEL_H
#define BACKEND_TPU_KERNEL_H

#include "backend/tpu/mir.h"

/* A scalar: register + constant. r 0: the constant alone. `align` divides the register's part;
 * `low` and `high` bound the whole value. */
struct sx {
    treg r;
    int32_t c;
    int32_t align;
    int64_t low, high;
};

/* An index for each element of a vector register: s + rows * sublane + lanes * lane + v. v is a
 * vector register, 0: none, of numbers from v_low to v_high; by_row: one number a sublane. Bounds
 * as above. */
struct ix {
    struct sx s;
    int32_t rows, lanes;
    treg v;
    bool by_row;
    int64_t v_low, v_high;
    int64_t low, high;
};

enum { KERNEL_CACHE = 64 };

struct kernel {
    struct mir *mir;
    struct arena *arena;
    treg lane_iota, sublane_iota; /* made at the start of the kernel when first wanted */
    /* Scalar sums and products of this block, so that each is computed once. */
    struct {
        uint8_t op;
        treg a, b, result;
        int32_t imm;
    } cache[KERNEL_CACHE];
    int ncached;
    int next_tag;
    const char *why; /* the kernel cannot be: first reason */
};

struct kernel *kernel_new(struct arena *arena);

/* ---- plain instructions: the result is a new register ---- */

treg k_emit(struct kernel *k, struct mop op);                      /* new dest of the op's class */
treg k_unary(struct kernel *k, enum tpu_op op, treg a);            /* a only */
treg k_binary(struct kernel *k, enum tpu_op op, treg a, treg b);   /* b of the same class */
treg k_binary_s(struct kernel *k, enum tpu_op op, treg a, treg b); /* vector a, scalar b */
treg k_binary_i(struct kernel *k, enum tpu_op op, treg a, int32_t b);
treg k_const(struct kernel *k, int32_t bits); /* vector */
treg k_fconst(struct kernel *k, float value);
treg k_from_scalar(struct kernel *k, treg s);
treg k_select(struct kernel *k, treg mask, treg yes, treg no);
/* dest = mask ? b : dest; mask 0: always. */
void k_move(struct kernel *k, treg dest, treg mask, treg b);
void k_move_s(struct kernel *k, treg dest, treg b); /* scalars */
treg k_copy(struct kernel *k, treg v);
/* A scalar that starts as `value` and changes as the code goes on. */
treg k_variable(struct kernel *k, int32_t value);
void k_add_if(struct kernel *k, treg v, int32_t n,
              treg predicate); /* v += n; predicate 0: always */
/* v counts 0 .. limit - 1 and around where the predicate holds; returns one that it went around. */
treg k_count_around(struct kernel *k, treg v, int32_t limit, treg predicate);
treg k_lane(struct kernel *k);
treg k_sublane(struct kernel *k);

treg m_and(struct kernel *k, treg a, treg b); /* 0 is the mask that is always on */
treg m_or(struct kernel *k, treg a, treg b);
treg m_not(struct kernel *k, treg a);

/* Elementary functions and cross-lane operations: push and pop. b 0: one operand. */
treg k_eup(struct kernel *k, enum tpu_op op, treg a, treg b);
treg k_xlu(struct kernel *k, enum tpu_op op, treg a, treg b);
treg k_xlu_amount(struct kernel *k, enum tpu_op op, treg a, struct sx amount);
/* Groups of rows to the transpose unit; with the last one, how many results follow, which
 * k_turn_pop takes in order. */
void k_turn_push(struct kernel *k, treg rows, bool last, int results);
treg k_turn_pop(struct kernel *k);
/* Takes the results of a square of 128 x 128 to rows of VMEM from `to` on. */
void k_turn_store(struct kernel *k, struct sx to, int tag);
/* A square of 128 x 128 of 32-bit elements whose rows lie one after the other, the other way. */
void k_turn_square(struct kernel *k, struct sx from, int from_tag, struct sx to, int to_tag);
treg k_to_scalar(struct kernel *k, treg v); /* sublane 0, lane 0 */

/* Rows base + offset + sublane * stride. mask 0: all. */
treg k_load(struct kernel *k, struct sx row, enum mir_stride kind, struct sx stride, int tag);
void k_store(struct kernel *k, treg value, struct sx row, treg mask, int tag);
/* Sublane s at row + s * stride. */
void k_store_stride(struct kernel *k, treg value, struct sx row, struct sx stride, int tag);
int k_tag(struct kernel *k); /* a new one: memory that no other tag names */

/* ---- control ---- */

struct loop {
    treg counter;
    int head;
    int64_t count;
};

/* Runs what follows, up to loop_end, count > 0 times; the counter goes from 0 up. */
struct sx loop_begin(struct kernel *k, struct loop *loop, int64_t count);
/* count in a register, > 0. */
struct sx loop_begin_reg(struct kernel *k, struct loop *loop, treg count, int64_t most);
void loop_end(struct kernel *k, struct loop *loop, treg count);
/* A loop that ends where `predicate`, made at its end, does not hold. */
int until_begin(struct kernel *k);
void until_end(struct kernel *k, int head, treg predicate, bool unless);
/* Skips what follows up to if_end where the predicate does not hold (does, with `unless`). */
int if_begin(struct kernel *k, treg predicate, bool unless);
void if_end(struct kernel *k, int branch);
/* Starts a block; cached scalars are forgotten. */
int k_block(struct kernel *k);

/* ---- scalars ---- */

struct sx sx_const(int32_t c);
struct sx sx_of(treg r, int64_t low, int64_t high);
struct sx sx_add(struct kernel *k, struct sx a, struct sx b);
struct sx sx_addi(struct sx a, int32_t c);
struct sx sx_sub(struct kernel *k, struct sx a, struct sx b);
struct sx sx_mul(struct kernel *k, struct sx a, struct sx b);
struct sx sx_muli(struct kernel *k, struct sx a, int32_t c);
/* c > 0. Rounded down where c is a power of two; else a negative a counts as 0. */
struct sx sx_div(struct kernel *k, struct sx a, int32_t c);
struct sx sx_mod(struct kernel *k, struct sx a, int32_t c);
struct sx sx_clamp(struct kernel *k, struct sx a, int32_t low, int32_t high);
treg sx_reg(struct kernel *k, struct sx a);
bool sx_is_const(struct sx a);
/* Whether it is known to be a multiple of n. */
bool sx_divides(struct sx a, int32_t n);
treg s_compare(struct kernel *k, enum tpu_op op, struct sx a, struct sx b); /* a predicate */

/* ---- indices ---- */

struct ix ix_const(int32_t c);
struct ix ix_scalar(struct sx s);
struct ix ix_rows(struct sx s);  /* s + sublane */
struct ix ix_lanes(struct sx s); /* s + lane */
struct ix ix_vector(treg v, int64_t low, int64_t high);
bool ix_is_scalar(struct ix a);
bool ix_is_affine(struct ix a);
struct ix ix_add(struct kernel *k, struct ix a, struct ix b);
struct ix ix_addi(struct ix a, int32_t c);
struct ix ix_muli(struct kernel *k, struct ix a, int32_t c);
struct ix ix_div(struct kernel *k, struct ix a, int32_t c); /* as sx_div */
struct ix ix_mod(struct kernel *k, struct ix a, int32_t c);
/* Within [low, high]: by selects where it may be outside. */
struct ix ix_clamp(struct kernel *k, struct ix a, int32_t low, int32_t high);
treg ix_reg(struct kernel *k, struct ix a); /* a vector register */
/* a / step where that is a whole number and a within [0, last]; *inside (a mask, 0: always) loses
 * the others, for which anything comes that is not far from the range. */
struct ix ix_unstride(struct kernel *k, struct ix a, int32_t step, int32_t last, treg *inside);
/* Mask of low <= a <= high; 0 where that always holds. */
treg ix_within(struct kernel *k, struct ix a, int32_t low, int32_t high);
bool ix_same(struct ix a, struct ix b);

#endif
