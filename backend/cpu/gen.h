/* State of one compilation to LLVM IR; private to the CPU backend. */
#ifndef BACKEND_CPU_GEN_H
#define BACKEND_CPU_GEN_H

#include "backend/cpu/math.h"

/* One activation of a computation: where its values are. Indexed by instruction id. */
struct cpu_frame {
    LLVMValueRef **leaves; /* pointers to the leaves of a materialised value; NULL: not yet */
    LLVMValueRef *scalars; /* values of a scalar frame (reducers and the like) */
    int *depth;            /* length of the chain that an element's code would emit */
    bool scalar;
};

struct cpu_gen {
    struct cpu_builder b;
    struct hlo_module *hlo;
    struct arena *arena;
    LLVMValueRef function, workspace;
    int64_t workspace_size;
    struct cpu_frame *frame;
};

struct cpu_loop {
    LLVMBasicBlockRef header, exit;
    LLVMValueRef i, limit;
};

LLVMValueRef gen_i64(struct cpu_gen *g, int64_t value);
struct cpu_loop gen_loop_begin(struct cpu_gen *g, LLVMValueRef limit);
void gen_loop_end(struct cpu_gen *g, struct cpu_loop *loop);
/* Loops over all of dims; index[] gets the counters. */
void gen_nest_begin(struct cpu_gen *g, int rank, const int64_t *dims, struct cpu_loop *loops,
                    LLVMValueRef *index);
void gen_nest_end(struct cpu_gen *g, int rank, struct cpu_loop *loops);

/* Address of an element of a row-major array. */
LLVMValueRef gen_address(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
                         const LLVMValueRef *index);
LLVMValueRef gen_slot(struct cpu_gen *g, enum element_type type);
/* One element of an instruction's result: loaded, or computed in place. */
LLVMValueRef gen_element(struct cpu_gen *g, const struct hlo_instr *instr,
                         const LLVMValueRef *index);
/* Elements of all leaves of a reduction-like instruction. */
void gen_elements(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                  LLVMValueRef *out);
void gen_scalar_call(struct cpu_gen *g, const struct hlo_computation *computation,
                     const LLVMValueRef *args, LLVMValueRef *out);
void gen_reduce(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                LLVMValueRef *out);
void gen_reduce_window(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index,
                       LLVMValueRef *out);
LLVMValueRef gen_dot(struct cpu_gen *g, const struct hlo_instr *instr, const LLVMValueRef *index);
LLVMValueRef gen_convolution(struct cpu_gen *g, const struct hlo_instr *instr,
                             const LLVMValueRef *index);
/* Applies a scatter's updates to leaves[], copies of its operands. */
void gen_scatter(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef *leaves);
/* Runs a computation in place; the result is an array of pointers, one a leaf of its root. */
LLVMValueRef *gen_computation(struct cpu_gen *g, const struct hlo_computation *computation,
                              LLVMValueRef *const *args);
/* A start index of a dynamic slice, clamped to 0..high. */
LLVMValueRef gen_start_index(struct cpu_gen *g, const struct hlo_instr *from,
                             const LLVMValueRef *index, int64_t high);
/* False with the reason where there is no code for the instruction. */
bool gen_supported(const struct hlo_instr *instr, bool scalar, const char **why);

#endif
