/* The machine that code is for: its architecture, its processor, LLVM's view of both. */
#ifndef BACKEND_CPU_MACHINE_H
#define BACKEND_CPU_MACHINE_H

#include <llvm-c/TargetMachine.h>

#include "backend/cpu/cpu.h"

/* Those that code is made for. */
enum cpu_arch { CPU_X86_64, CPU_AARCH64, CPU_RISCV64, CPU_ARCH_COUNT };

struct cpu_machine {
    LLVMTargetMachineRef llvm; /* for the caller to dispose of */
    enum cpu_arch arch;
    bool native; /* this machine's own processor */
};

/* The machine that the options name: triple, mcpu and opt_level. False with an error in diag where
 * the triple or the processor is unknown, or not of 64 bits. */
bool cpu_machine_new(const struct cpu_options *options, struct cpu_machine *machine,
                     struct diag *diag);

#endif
