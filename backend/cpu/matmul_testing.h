/* For tests and benchmarks of the product emitters: compiles one product to a function in this
 * process. */
#ifndef BACKEND_CPU_MATMUL_TESTING_H
#define BACKEND_CPU_MATMUL_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/matmul_ir.h"

typedef void product_function(const void *a, const void *b, void *c, void *scratch, int64_t begin,
                              int64_t end);

struct compiled_product {
    struct product_plan plan;
    product_function *run;
    struct cpu_jit *jit;
    double compile_ms;
    char *assembly; /* malloc memory, where asked for */
};

static inline double testing_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void testing_check(LLVMErrorRef error) {
    if (!error) return;
    fprintf(stderr, "%s\n", LLVMGetErrorMessage(error));
    abort();
}

static inline LLVMTargetMachineRef testing_machine(const char *cpu, const char *features) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMTargetRef target;
    char *why;
    char *triple = LLVMGetDefaultTargetTriple();
    if (LLVMGetTargetFromTriple(triple, &target, &why)) abort();
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMDisposeMessage(triple);
    return machine;
}

/* What a finish function of a test is handed. */
struct testing_finish {
    struct cpu_builder *b;
    const struct product_spec *spec;
    LLVMValueRef c;
};

/* Emits `void product(a, b, c, scratch, begin, end)` into the module. */
static inline void testing_emit(struct cpu_builder *b, const struct cpu_target *target,
                                const struct product_plan *plan, const struct product_spec *spec,
                                product_finish *finish) {
    LLVMTypeRef p = ir_pointer(b), i64 = ir_i64(b);
    LLVMTypeRef types[] = {p, p, p, p, i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(b->context), types, 6, false);
    LLVMValueRef function = LLVMAddFunction(b->module, "product", type);
    cpu_mark_function(b, function);
    LLVMPositionBuilderAtEnd(b->builder,
                             LLVMAppendBasicBlockInContext(b->context, function, "entry"));
    struct product_code code = {
        .a = LLVMGetParam(function, 0),
        .b = LLVMGetParam(function, 1),
        .c = LLVMGetParam(function, 2),
        .scratch = LLVMGetParam(function, 3),
        .begin = LLVMGetParam(function, 4),
        .end = LLVMGetParam(function, 5),
        .finish = finish,
    };
    struct testing_finish context = {b, spec, code.c};
    code.data = &context;
    product_emit(b, target, plan, &code);
    LLVMBuildRetVoid(b->builder);
}

/* A module for this machine that becomes code in this process. */
struct testing_module {
    struct cpu_builder b;
    LLVMTargetMachineRef machine;
    struct cpu_target target;
};

static inline struct testing_module testing_begin(void) {
    struct testing_module t = {.b = {.context = LLVMContextCreate()}};
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    t.machine = testing_machine(cpu, features);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    cpu_target_read(t.machine, true, &t.target);
    t.b.module = LLVMModuleCreateWithNameInContext("product", t.b.context);
    t.b.builder = LLVMCreateBuilderInContext(t.b.context);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(t.machine);
    LLVMSetModuleDataLayout(t.b.module, layout);
    LLVMDisposeTargetData(layout);
    return t;
}

static inline LLVMMemoryBufferRef testing_code(struct testing_module *t, LLVMCodeGenFileType kind) {
    LLVMMemoryBufferRef code;
    LLVMModuleRef copy = LLVMCloneModule(t->b.module);
    char *why = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(t->machine, copy, kind, &why, &code)) abort();
    LLVMDisposeModule(copy);
    return code;
}

/* The function `name` of the module, which is gone then; *assembly (or NULL) is malloc memory. */
static inline void *testing_end(struct testing_module *t, const char *name, struct cpu_jit **jit,
                                char **assembly) {
    char *why = NULL;
    if (LLVMVerifyModule(t->b.module, LLVMPrintMessageAction, &why)) abort();
    LLVMDisposeMessage(why);
    static const char passes[] = "function(sroa,early-cse<memssa>,loop-mssa(licm),loop-vectorize)";
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    testing_check(LLVMRunPasses(t->b.module, passes, t->machine, options));
    LLVMDisposePassBuilderOptions(options);
    LLVMMemoryBufferRef object = testing_code(t, LLVMObjectFile);
    if (assembly) {
        LLVMMemoryBufferRef text = testing_code(t, LLVMAssemblyFile);
        *assembly = strdup(LLVMGetBufferStart(text));
        LLVMDisposeMemoryBuffer(text);
    }
    LLVMDisposeBuilder(t->b.builder);
    LLVMDisposeModule(t->b.module);
    LLVMContextDispose(t->b.context);
    LLVMDisposeTargetMachine(t->machine);
    struct diag diag;
    diag_init(&diag, "product", NULL, 0);
    struct cpu_code code = {.data = (void *)LLVMGetBufferStart(object),
                            .size = LLVMGetBufferSize(object)};
    *jit = cpu_jit_new(&code, name, &diag);
    if (!*jit) abort();
    LLVMDisposeMemoryBuffer(object);
    return (void *)(uintptr_t)cpu_jit_entry(*jit);
}

/* As for the machine at hand, or (unless NULL) planned and emitted for another one, whose vectors
 * and registers the machine's stand in for. */
static inline struct compiled_product testing_compile(const struct product_spec *spec,
                                                      product_finish *finish, bool assembly,
                                                      const struct cpu_target *other) {
    struct compiled_product out = {0};
    double start = testing_now();
    struct testing_module t = testing_begin();
    if (other) t.target = *other;
    product_plan_make(&out.plan, &t.target, spec, finish != NULL);
    testing_emit(&t.b, &t.target, &out.plan, spec, finish);
    void *run = testing_end(&t, "product", &out.jit, assembly ? &out.assembly : NULL);
    out.run = (product_function *)(uintptr_t)run;
    out.compile_ms = 1e3 * (testing_now() - start);
    return out;
}

static inline void testing_free(struct compiled_product *p) {
    cpu_jit_free(p->jit);
    free(p->assembly);
}

#endif
