/* What every function that emits LLVM IR is handed: the place to emit to. */
#ifndef BACKEND_CPU_BUILDER_H
#define BACKEND_CPU_BUILDER_H

#include <llvm-c/Core.h>

#include "ir/hlo.h"

struct cpu_builder {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
};

#endif
