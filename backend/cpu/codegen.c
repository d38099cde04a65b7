#include "backend/cpu/codegen.h"

#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backend/cpu/half.h"
#include "backend/cpu/machine.h"

static const struct src_loc nowhere = {0};

/* LLVM's remarks are for people who write kernels by hand; its errors come back from the calls. */
void codegen_ignore_remark(LLVMDiagnosticInfoRef info, void *data) {
    (void)info;
    (void)data;
}

/* Kernels are loops over code that is already simple: what they need is registers for variables,
 * invariants out of loops, and vectors. */
static const char *const pipelines[] = {
    "function(sroa)",
    "function(sroa,early-cse)",
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,adce,loop-mssa(licm),loop-"
    "vectorize,"
    "instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)",
    "default<O3>",
};

static bool run_passes(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes,
                       struct diag *diag) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return true;
    char *text = LLVMGetErrorMessage(error);
    diag_error(diag, nowhere, "internal error: LLVM passes: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

/* Functions that are written as they are to be: LLVM's passes leave alone what is marked for no
 * optimisation, and code generation, which would not do its best for that, sees no mark. */
static void mark_final(LLVMModuleRef module, bool skip) {
    unsigned kind = LLVMGetEnumAttributeKindForName("optnone", strlen("optnone"));
    LLVMAttributeRef mark = LLVMCreateEnumAttribute(LLVMGetModuleContext(module), kind, 0);
    unsigned length = (unsigned)strlen(CODEGEN_FINAL);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!LLVMGetStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, CODEGEN_FINAL, length))
            continue;
        if (skip)
            LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, mark);
        else
            LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, kind);
    }
}

static bool optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int level,
                     struct diag *diag) {
    char *why = NULL;
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &why)) {
        diag_error(diag, nowhere, "internal error: invalid LLVM IR: %s", why);
        LLVMDisposeMessage(why);
        return false;
    }
    LLVMDisposeMessage(why);
    mark_final(module, true);
    bool ok = run_passes(module, machine, pipelines[level < 0 ? 0 : level > 3 ? 3 : level], diag);
    mark_final(module, false);
    half_widen(module);
    return ok;
}

static bool write_code(LLVMModuleRef module, LLVMTargetMachineRef machine, enum cpu_output output,
                       struct cpu_code *code, struct diag *diag) {
    LLVMMemoryBufferRef buffer = NULL;
    char *why = NULL;
    if (output == CPU_LLVM_IR) {
        char *text = LLVMPrintModuleToString(module);
        code->data = strdup(text);
        code->size = strlen(text);
        LLVMDisposeMessage(text);
    } else {
        if (output == CPU_LLVM_BC) {
            buffer = LLVMWriteBitcodeToMemoryBuffer(module);
        } else if (LLVMTargetMachineEmitToMemoryBuffer(
                       machine, module, output == CPU_ASM ? LLVMAssemblyFile : LLVMObjectFile, &why,
                       &buffer)) {
            diag_error(diag, nowhere, "internal error: code generation: %s", why);
            LLVMDisposeMessage(why);
            return false;
        }
        code->size = LLVMGetBufferSize(buffer);
        code->data = malloc(code->size + 1);
        if (code->data) {
            memcpy(code->data, LLVMGetBufferStart(buffer), code->size);
            ((char *)code->data)[code->size] = 0;
        }
        LLVMDisposeMemoryBuffer(buffer);
    }
    if (!code->data) diag_error(diag, nowhere, "out of memory");
    return code->data != NULL;
}

/* A compiler that is built to check its own accesses checks those of the code it runs, too: the
 * report functions are in the process. */
#ifdef __SANITIZE_ADDRESS__
static bool add_checks(LLVMModuleRef module, LLVMTargetMachineRef machine, struct diag *diag) {
    unsigned kind = LLVMGetEnumAttributeKindForName("sanitize_address", 16);
    LLVMAttributeRef checked = LLVMCreateEnumAttribute(LLVMGetModuleContext(module), kind, 0);
    LLVMValueRef f;
    for (f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, checked);
    return run_passes(module, machine, "asan", diag);
}
#else
static bool add_checks(LLVMModuleRef module, LLVMTargetMachineRef machine, struct diag *diag) {
    (void)module;
    (void)machine;
    (void)diag;
    return true;
}
#endif

bool codegen_module(LLVMModuleRef module, LLVMTargetMachineRef machine,
                    const struct cpu_options *options, enum cpu_output output,
                    struct cpu_code *code, struct diag *diag) {
    return optimise(module, machine, options->opt_level, diag) &&
           (!options->in_parts || add_checks(module, machine, diag)) &&
           write_code(module, machine, output, code, diag);
}
