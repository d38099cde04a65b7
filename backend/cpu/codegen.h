/* From LLVM IR to bytes: passes and code generation, over several threads where parts will do. */
#ifndef BACKEND_CPU_CODEGEN_H
#define BACKEND_CPU_CODEGEN_H

#include <llvm-c/TargetMachine.h>

#include "backend/cpu/cpu.h"

/* A handler for contexts: LLVM's remarks are not for our users. */
void codegen_ignore_remark(LLVMDiagnosticInfoRef info, void *data);
/* Runs the passes of the options' level over the module and writes it to code->data. */
bool codegen_module(LLVMModuleRef module, LLVMTargetMachineRef machine,
                    const struct cpu_options *options, enum cpu_output output,
                    struct cpu_code *code, struct diag *diag);
/* The same as several objects, on up to `threads` threads: functions other than the first are to
 * be internal to the module, and their symbols become hidden. */
bool codegen_parts(LLVMModuleRef module, LLVMTargetMachineRef machine,
                   const struct cpu_options *options, int threads, struct cpu_code *code,
                   struct diag *diag);

#endif
