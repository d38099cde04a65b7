/* What the emitters of products need to know of the machine that the code is for. */
#ifndef BACKEND_CPU_TARGET_DATA_H
#define BACKEND_CPU_TARGET_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include <llvm-c/TargetMachine.h>

/* How sums of two products are computed in the place of one element. */
enum cpu_pairs {
    PAIRS_NONE,
    PAIRS_BY_PARTS,    /* by plain vector operations: the form alone, for tests */
    PAIRS_INSTRUCTION, /* by an instruction of x86 */
};

struct cpu_target {
    int vector_bytes;                     /* of the widest vector registers */
    int vector_registers;                 /* how many there are */
    bool fma;                             /* a multiply-add is one instruction */
    bool widens_f16;                      /* so is a vector of f16 as f32 */
    enum cpu_pairs s16_pairs, bf16_pairs; /* of 16-bit integers to s32, of bf16 to f32 */
    int64_t l1, l2, l3;                   /* bytes of data cache that one core may count on */
    /* The runtime's table of f32 products' kernels for such registers (matmul_kernel_number); NULL
     * where there is none. */
    const char *kernels;
};

/* Reads it from the target machine. The caches of the machine at hand where `host`, else those of a
 * common core. */
void cpu_target_read(LLVMTargetMachineRef machine, bool host, struct cpu_target *target);

#endif
