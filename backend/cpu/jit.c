#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>

#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>

struct cpu_jit {
    LLVMOrcLLJITRef jit;
    cpu_entry *entry;
};

static LLVMErrorRef define(struct cpu_jit *jit, LLVMOrcJITDylibRef library,
                           const struct cpu_function *function) {
    LLVMJITSymbolFlags flags = {
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
    LLVMOrcCSymbolMapPair pair = {LLVMOrcLLJITMangleAndIntern(jit->jit, function->name),
                                  {(LLVMOrcExecutorAddress)(uintptr_t)function->address, flags}};
    return LLVMOrcJITDylibDefine(library, LLVMOrcAbsoluteSymbols(&pair, 1));
}

/* Where the runtime is, whatever this file is linked into, and whoever sees its names. */
#define X(name) extern char name[];
#include "backend/cpu/runtime.def"
#undef X

/* Conversions of halves for processors that have none, from the C compiler's library, which this
 * program may be linked with statically. */
#ifdef __x86_64__
#define HALVES X(__extendhfsf2) X(__truncsfhf2)
#else
#define HALVES
#endif
#define X(name) extern char name[];
HALVES
#undef X

static LLVMErrorRef define_runtime(struct cpu_jit *jit, LLVMOrcJITDylibRef library) {
    static const struct {
        const char *name;
        char *address;
    } rows[] = {
#define X(name) {#name, name},
#include "backend/cpu/runtime.def"
        HALVES
#undef X
    };
    enum { COUNT = sizeof rows / sizeof *rows };
    LLVMOrcCSymbolMapPair pairs[COUNT];
    LLVMJITSymbolFlags flags = {
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
    for (int i = 0; i < COUNT; i++)
        pairs[i] =
            (LLVMOrcCSymbolMapPair){LLVMOrcLLJITMangleAndIntern(jit->jit, rows[i].name),
                                    {(LLVMOrcExecutorAddress)(uintptr_t)rows[i].address, flags}};
    return LLVMOrcJITDylibDefine(library, LLVMOrcAbsoluteSymbols(pairs, COUNT));
}

static LLVMErrorRef load(struct cpu_jit *jit, const struct cpu_code *code, const char *symbol,
                         const struct cpu_function *functions, int nfunctions) {
    LLVMErrorRef error = LLVMOrcCreateLLJIT(&jit->jit, NULL);
    if (error) return error;
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(jit->jit);
    LLVMOrcDefinitionGeneratorRef process;
    error = LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
        &process, LLVMOrcLLJITGetGlobalPrefix(jit->jit), NULL, NULL);
    if (error) return error;
    LLVMOrcJITDylibAddGenerator(library, process); /* libm, and functions of the user's */
    error = define_runtime(jit, library);
    if (error) return error;
    for (int i = 0; i < nfunctions; i++) {
        error = functions[i].address ? define(jit, library, &functions[i]) : NULL;
        if (error) return error;
    }
    for (int i = 0; i <= code->nmore; i++) {
        struct cpu_part part = {code->data, code->size};
        if (i > 0) part = code->more[i - 1];
        char name[32]; /* objects are told apart by it */
        snprintf(name, sizeof name, "part%d", i);
        LLVMMemoryBufferRef object =
            LLVMCreateMemoryBufferWithMemoryRangeCopy(part.data, part.size, name);
        error = LLVMOrcLLJITAddObjectFile(jit->jit, library, object);
        if (error) return error;
    }
    LLVMOrcExecutorAddress address;
    error = LLVMOrcLLJITLookup(jit->jit, &address, symbol);
    if (!error) jit->entry = (cpu_entry *)(uintptr_t)address;
    return error;
}

struct cpu_jit *cpu_jit_new(const struct cpu_code *code, const char *symbol, struct diag *diag) {
    return cpu_jit_new_with(code, symbol, NULL, 0, diag);
}

struct cpu_jit *cpu_jit_new_with(const struct cpu_code *code, const char *symbol,
                                 const struct cpu_function *functions, int nfunctions,
                                 struct diag *diag) {
    struct cpu_jit *jit = calloc(1, sizeof *jit);
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMErrorRef error = jit ? load(jit, code, symbol, functions, nfunctions) : NULL;
    if (jit && !error) return jit;
    char *text = error ? LLVMGetErrorMessage(error) : NULL;
    diag_error(diag, (struct src_loc){0}, "cannot load the code: %s", text ? text : "no memory");
    if (text) LLVMDisposeErrorMessage(text);
    cpu_jit_free(jit);
    return NULL;
}

void cpu_code_free(struct cpu_code *code) {
    for (int i = 0; i < code->nmore; i++)
        free(code->more[i].data);
    free(code->more);
    free(code->data);
    *code = (struct cpu_code){0};
}

cpu_entry *cpu_jit_entry(const struct cpu_jit *jit) {
    return jit->entry;
}

void cpu_jit_free(struct cpu_jit *jit) {
    if (!jit) return;
    LLVMErrorRef error = jit->jit ? LLVMOrcDisposeLLJIT(jit->jit) : NULL;
    if (error) LLVMConsumeError(error);
    free(jit);
}
