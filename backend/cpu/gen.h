/* State of one compilation to LLVM IR; private to the CPU backend.
 *
 * Every array leaf that has memory is row-major there. An element of an instruction is addressed by
 * its index: one i64 value a dimension, in range. gen_element gives the element: loaded where the
 * instruction has memory, else by code composed on the spot, once a scope. */
#ifndef BACKEND_CPU_GEN_H
#define BACKEND_CPU_GEN_H

#include "backend/cpu/math.h"
#include "backend/cpu/scope_table.h"
#include "backend/cpu/target_data.h"

enum { GEN_MOST_LEAVES = 256 }; /* results and operands of one instruction that has code */

struct cpu_gen {
    struct cpu_builder b;
    struct cpu_target target;
    struct hlo_module *hlo;
    struct arena *arena;
    struct diag *diag;
    LLVMValueRef function;   /* being emitted */
    LLVMBasicBlockRef fail;  /* the entry function's end, which returns ... */
    LLVMValueRef status;     /* ... this phi of i32: 0, or the error code of who branches there */
    struct scope_table seen; /* values that dominate the place of emission */
    uint64_t frame;          /* number of the activation whose instructions are being emitted */
    uint64_t nframes;
    LLVMValueRef rng_state; /* seed and counter of rng, in the entry function; NULL: not used yet */
    uint64_t seed;
    struct cpu_debug *debug; /* debug information (debug_info.h), or NULL */
    int depth;               /* of nested element computations */
    int threads;
};

/* One instruction's code: out[] and in[] point to the leaves of its result and of its operands, in
 * order. begin and end are i64 values: the share of the lowering's units to compute. */
struct cpu_kernel {
    const struct hlo_instr *instr;
    LLVMValueRef *out, *in;
    int nout, nin;
    int phase; /* of several, see cpu_lowering */
    LLVMValueRef scratch, begin, end;
};

/* How a kind of instruction becomes code: a row of lowering.c's table. */
struct cpu_lowering {
    const char *name;
    bool (*match)(const struct hlo_instr *instr);
    int64_t (*units)(const struct hlo_instr *instr);   /* independent units; NULL: one */
    int64_t (*scratch)(const struct hlo_instr *instr); /* bytes a thread, 64-aligned; NULL: none */
    void (*emit)(struct cpu_gen *g, struct cpu_kernel *k);
    bool splits_in_place; /* units only where the first operands' memory is the results' */
    bool in_entry;        /* emitted in the entry function, where it may branch to g->fail */
    /* Units and scratch where they depend on the target, in place of units and scratch; or NULL. */
    void (*plan)(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units,
                 int64_t *scratch);
    /* How many kernels the instruction takes, each after the one before has ended; NULL: one.
     * Units and scratch of each, in place of units and scratch. */
    int (*phases)(const struct hlo_instr *instr);
    void (*plan_phase)(const struct hlo_instr *instr, int phase, int64_t *units, int64_t *scratch);
};

/* NULL with the reason where there is no code for the instruction. */
const struct cpu_lowering *cpu_lowering_of(const struct hlo_instr *instr, const char **why);
/* Whether gen_element can compute it from its operands' elements. */
bool gen_is_elemental(const struct hlo_instr *instr, const char **why);
/* The same for every instruction of a computation that is applied to scalars (reducers and such).
 */
bool gen_is_scalar_computation(const struct hlo_computation *computation, const char **why);
/* Rough cost of computing an instruction, in arithmetic operations and bytes: decides on threads.
 */
int64_t cpu_work_of(const struct hlo_instr *instr);

/* ---- index arithmetic (index.c): non-negative i64 values, simplified as they are built ---- */

LLVMValueRef gen_i64(struct cpu_gen *g, int64_t value);
/* Tells that `value` is in [0, limit). */
void gen_index_bound(struct cpu_gen *g, LLVMValueRef value, int64_t limit);
/* What is known of a value: low <= value < limit. */
void gen_index_range(struct cpu_gen *g, LLVMValueRef value, int64_t *low, int64_t *limit);
LLVMValueRef gen_index_add(struct cpu_gen *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef gen_index_mul(struct cpu_gen *g, LLVMValueRef a, int64_t k);
LLVMValueRef gen_index_div(struct cpu_gen *g, LLVMValueRef a, int64_t k);
LLVMValueRef gen_index_rem(struct cpu_gen *g, LLVMValueRef a, int64_t k);
/* Place of an element in row-major order, and back. */
LLVMValueRef gen_linear(struct cpu_gen *g, const struct shape *shape, const LLVMValueRef *index);
void gen_delinear(struct cpu_gen *g, const struct shape *shape, LLVMValueRef at,
                  LLVMValueRef *index);

/* ---- loops ---- */

struct cpu_loop {
    LLVMBasicBlockRef body, exit;
    LLVMValueRef i, limit;
    LLVMValueRef branch; /* back to the body: once ended */
};

/* for i in [from, to): opens a scope. Skips the body where the range is empty. */
struct cpu_loop gen_range_begin(struct cpu_gen *g, LLVMValueRef from, LLVMValueRef to);
struct cpu_loop gen_loop_begin(struct cpu_gen *g, LLVMValueRef limit); /* from 0 */
void gen_loop_end(struct cpu_gen *g, struct cpu_loop *loop);
/* Asks, in an ended loop, for vectors of `lanes` elements (1: for none; what is too short for a
 * vector would be one under a mask), `count` of them at once to hide the latency of long chains.
 * 0: as LLVM likes; GEN_ANY_LANES: vectors of LLVM's choice, however short the loop is. */
enum { GEN_ANY_LANES = -1 };
void gen_loop_vectors(struct cpu_gen *g, const struct cpu_loop *loop, int lanes, int count);
/* Loops over all of dims; index[] gets the counters. */
void gen_nest_begin(struct cpu_gen *g, int rank, const int64_t *dims, struct cpu_loop *loops,
                    LLVMValueRef *index);
void gen_nest_end(struct cpu_gen *g, int rank, struct cpu_loop *loops);

/* Code up to gen_guard_end runs only where `condition`: opens a scope. */
LLVMBasicBlockRef gen_guard_begin(struct cpu_gen *g, LLVMValueRef condition);
void gen_guard_end(struct cpu_gen *g, LLVMBasicBlockRef after);

/* ---- elements ---- */

/* The dimension of the innermost loop: the last that is not 1. */
int gen_inner_dim(const struct shape *shape);
LLVMValueRef gen_address(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
                         const LLVMValueRef *index);
LLVMValueRef gen_offset(struct cpu_gen *g, LLVMValueRef base, int64_t bytes);
/* A variable in the function's entry block, so that it becomes a register. */
LLVMValueRef gen_slot(struct cpu_gen *g, enum element_type type);
LLVMValueRef gen_alloca(struct cpu_gen *g, LLVMTypeRef type, int64_t count);
/* What is reached through one of the pointers is not reached through another. */
void gen_declare_disjoint(struct cpu_gen *g, int count, const LLVMValueRef *pointers);
/* The pointer `part` reaches nothing but what `whole`, one of such pointers, does. */
void gen_part_of(struct cpu_gen *g, LLVMValueRef part, LLVMValueRef whole);
/* Read-only memory with leaf `leaf` of a constant. */
LLVMValueRef gen_constant(struct cpu_gen *g, const struct hlo_instr *instr, int leaf);
/* Says where an instruction's leaves are (pointers), or what its element at an index is. */
void gen_bind_leaves(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef *leaves);
LLVMValueRef *gen_leaves(struct cpu_gen *g, const struct hlo_instr *instr); /* NULL: no memory */
void gen_bind_leaf(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                   const LLVMValueRef *index, LLVMValueRef value);
void gen_bind_element(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                      LLVMValueRef value);
LLVMValueRef gen_element(struct cpu_gen *g, const struct hlo_instr *instr,
                         const LLVMValueRef *index);
/* The same of leaf `leaf` (depth first) of the result. */
LLVMValueRef gen_leaf_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                              const LLVMValueRef *index);
/* The same, computed even where the instruction has memory. */
LLVMValueRef gen_computed_element(struct cpu_gen *g, const struct hlo_instr *instr, int leaf,
                                  const LLVMValueRef *index);
LLVMValueRef gen_load(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
                      const LLVMValueRef *index);
void gen_store(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
               const LLVMValueRef *index, LLVMValueRef value);
void gen_scalar_call(struct cpu_gen *g, const struct hlo_computation *computation,
                     const LLVMValueRef *args, LLVMValueRef *out);
/* A start index of a dynamic slice, clamped to 0..high. */
LLVMValueRef gen_start_index(struct cpu_gen *g, const struct hlo_instr *from,
                             const LLVMValueRef *index, int64_t high);

/* Numbers of activations: enter, bind, emit, leave. */
uint64_t gen_frame_enter(struct cpu_gen *g);
void gen_frame_leave(struct cpu_gen *g, uint64_t outer);

/* ---- operations that are loops themselves ---- */

/* The computation of a reduce or reduce-window. Sums, products and extremes of narrow floats are
 * kept in f32 and rounded once, at the end. */
struct cpu_reducer {
    const struct hlo_computation *computation;
    enum hlo_opcode op; /* sum, product, maximum or minimum of floats, in any order; else 0 */
    int n, nsums;
    enum element_type element[GEN_MOST_LEAVES], sum[GEN_MOST_LEAVES];
    bool bits, complex; /* gen_reducer_in_parts */
};

void gen_reducer_init(const struct hlo_instr *instr, struct cpu_reducer *reducer);
/* An extreme of floats is found from their bits as integers: three sums in place of one, each of
 * them one instruction an element. A sum of complex numbers is one of each part. For reducers that
 * run in registers. */
void gen_reducer_in_parts(struct cpu_reducer *reducer);
/* The values to start from, as sums. */
void gen_reducer_start(struct cpu_gen *g, const struct hlo_instr *instr,
                       const struct cpu_reducer *r, LLVMValueRef *sums);
/* elements are of the element types, and changed; out may not be sums. */
void gen_reducer_step(struct cpu_gen *g, const struct cpu_reducer *r, const LLVMValueRef *sums,
                      LLVMValueRef *elements, LLVMValueRef *out);
/* Sums to element types, in place. */
void gen_reducer_end(struct cpu_gen *g, const struct cpu_reducer *r, LLVMValueRef *sums);
/* The same with sums in variables. */
void gen_reducer_slots(struct cpu_gen *g, const struct cpu_reducer *r, LLVMValueRef *slots,
                       const LLVMValueRef *values);
void gen_reducer_load(struct cpu_gen *g, const struct cpu_reducer *r, const LLVMValueRef *slots,
                      LLVMValueRef *values);
void gen_reducer_fold(struct cpu_gen *g, const struct hlo_instr *instr, const struct cpu_reducer *r,
                      const LLVMValueRef *slots, const LLVMValueRef *index);

/* Where element k of the window at place o falls in the base: *at, and whether it is in it. */
LLVMValueRef gen_window_place(struct cpu_gen *g, const struct window_dim *w, int64_t size,
                              LLVMValueRef o, LLVMValueRef k, LLVMValueRef *at);

/* What a reduce or a reduce-window combines knows no index of dims first .. last, but their place
 * as a whole: the index of the last of them may stand for all. */
bool gen_reduce_joins(const struct hlo_instr *reduce, int first, int last);
/* Elements that the innermost loop of gen_reduce goes over. */
int64_t gen_reduce_run(const struct hlo_instr *reduce);
void gen_reduce(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                LLVMValueRef *out);
void gen_reduce_window(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                       LLVMValueRef *out);
LLVMValueRef gen_dot(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index);
LLVMValueRef gen_convolution(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index);

#endif
