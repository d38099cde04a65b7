/* Kernels as LLVM functions:
 *     void KERNEL(ptr buffers[], ptr scratch, i64 begin, i64 end)
 * One for all instructions that are equal up to the buffers they work on. */
#ifndef BACKEND_CPU_KERNEL_H
#define BACKEND_CPU_KERNEL_H

#include "backend/cpu/gen.h"

/* A call of a kernel: the leaves of the instruction's result, then of its operands, by number of
 * the buffer among the call's buffers; -1: a leaf without memory. */
struct kernel_call {
    const struct hlo_instr *instr;
    const struct cpu_lowering *lowering;
    int nleaves, nbuffers, phase;
    int *buffer; /* by leaf */
};

struct kernel {
    const char *key; /* what it computes, and which leaves share a buffer */
    LLVMValueRef function;
    int64_t units, scratch;
};

struct kernel_set {
    struct cpu_gen *g;
    struct kernel *kernels;
    int count, capacity;
    int *slots, nslots; /* open addressing, by hash of the key */
};

void kernel_set_init(struct kernel_set *set, struct cpu_gen *g);
/* Emits the kernel, or finds an equal one. The builder's position is kept. */
const struct kernel *kernel_get(struct kernel_set *set, const struct kernel_call *call);
/* Emits the code of one call at the builder's place, in the function at hand. */
void kernel_emit_inline(struct cpu_gen *g, const struct kernel_call *call,
                        LLVMValueRef const *buffers);
LLVMTypeRef kernel_type(struct cpu_gen *g);

#endif
