/* What every function that emits LLVM IR is handed: the place to emit to. */
#ifndef BACKEND_CPU_BUILDER_H
#define BACKEND_CPU_BUILDER_H

#include <llvm-c/Core.h>

#include "ir/hlo.h"

struct cpu_builder {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    /* The machine estimates 1 / sqrt(x) of floats to 11 bits or more, and has multiply-adds. */
    bool root_estimates;
    bool fma; /* a multiply-add is one instruction */
};

/* Read-only data, private to the module. */
static inline LLVMValueRef cpu_read_only(struct cpu_builder *b, LLVMValueRef data,
                                         const char *name) {
    LLVMValueRef global = LLVMAddGlobal(b->module, LLVMTypeOf(data), name);
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

#endif
