/* From LLVM IR to bytes: passes and code generation, over several threads where parts will do. */
#ifndef BACKEND_CPU_CODEGEN_H
#define BACKEND_CPU_CODEGEN_H

#include <llvm-c/TargetMachine.h>

#include "backend/cpu/cpu.h"

/* Attribute of functions that LLVM's passes could not improve; they are not to be inlined. */
#define CODEGEN_FINAL "hlocc-final"
/* A handler for contexts: LLVM's remarks are not for our users. */
void codegen_ignore_remark(LLVMDiagnosticInfoRef info, void *data);
/* Runs the passes of the options' level over the module and writes it to code->data. */
bool codegen_module(LLVMModuleRef module, LLVMTargetMachineRef machine,
                    const struct cpu_options *options, enum cpu_output output,
                    struct cpu_code *code, struct diag *diag);
/* Threads for codegen_parts, `threads` with the caller's: started early, they have LLVM's machine
 * ready when there is something to do. NULL where memory is short. */
struct codegen_crew *codegen_crew_new(const struct cpu_options *options, int threads);
void codegen_crew_free(struct codegen_crew *crew); /* NULL is fine */
/* codegen_module for an object, as several ones where that is quicker; once for a crew. Functions
 * other than the first are to be internal to the module, and their symbols become hidden. The
 * module loses what is in other parts. */
bool codegen_parts(struct codegen_crew *crew, LLVMModuleRef module, LLVMTargetMachineRef machine,
                   struct cpu_code *code, struct diag *diag);

#endif
