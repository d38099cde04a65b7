#include "backend/cpu/target_data.h"

#include <string.h>
#include <unistd.h>

#include <llvm-c/Core.h>

static bool has_feature(const char *features, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(features, name); at; at = strstr(at + 1, name))
        if (at > features && at[-1] == '+' && (at[length] == ',' || at[length] == 0)) return true;
    return false;
}

/* The C interface does not tell what a named processor has, but code for it shows: a multiply-add
 * of 16 floats, and their conversion to bf16, as assembly text. */
static LLVMMemoryBufferRef probe(LLVMTargetMachineRef machine) {
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("probe", context);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    char *triple = LLVMGetTargetMachineTriple(machine);
    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, layout);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(context, 0);
    LLVMTypeRef vector = LLVMVectorType(LLVMFloatTypeInContext(context), 16);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(context), &pointer, 1, false);
    LLVMValueRef function = LLVMAddFunction(module, "probe", type);
    static const char key[] = "min-legal-vector-width";
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(context, key, sizeof key - 1, "512", 3));
    LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(context, function, ""));
    LLVMValueRef at = LLVMGetParam(function, 0), x = LLVMBuildLoad2(builder, vector, at, "");
    unsigned id = LLVMLookupIntrinsicID("llvm.fmuladd", 12);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(module, id, &vector, 1);
    LLVMTypeRef called = LLVMGlobalGetValueType(callee);
    x = LLVMBuildCall2(builder, called, callee, (LLVMValueRef[]){x, x, x}, 3, "");
    LLVMBuildStore(builder, x, at);
    LLVMTypeRef narrow = LLVMVectorType(LLVMBFloatTypeInContext(context), 16);
    LLVMBuildStore(builder, LLVMBuildFPTrunc(builder, x, narrow, ""), at);
    LLVMBuildRetVoid(builder);
    LLVMMemoryBufferRef text = NULL;
    char *why = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &why, &text))
        LLVMDisposeMessage(why);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    LLVMDisposeBuilder(builder);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return text;
}

static void read_x86(LLVMTargetMachineRef machine, const char *triple, struct cpu_target *target) {
    char *features = LLVMGetTargetMachineFeatureString(machine);
    bool zmm, ymm, bf16;
    if (*features) {
        zmm = has_feature(features, "avx512f") && has_feature(features, "avx512vl");
        ymm = has_feature(features, "avx2");
        bf16 = has_feature(features, "avx512bf16");
        target->fma = has_feature(features, "fma");
    } else {
        LLVMMemoryBufferRef text = probe(machine);
        const char *code = text ? LLVMGetBufferStart(text) : "";
        zmm = strstr(code, "%zmm") != NULL;
        ymm = strstr(code, "%ymm") != NULL;
        bf16 = zmm && strstr(code, "vcvtneps2bf16") != NULL;
        target->fma = strstr(code, "vfmadd") != NULL;
        if (text) LLVMDisposeMemoryBuffer(text);
    }
    LLVMDisposeMessage(features);
    target->vector_bytes = zmm ? 64 : ymm ? 32 : 16;
    target->vector_registers = zmm ? 32 : 16;
    target->widens_f16 = ymm; /* there is no processor with AVX2 but without F16C */
#ifdef HLOCC_PRODUCT_KERNELS
    bool there = target->fma && strstr(triple, "linux"); /* where the runtime has them */
    if (there && ymm) target->kernels = "hlocc_rt_product_kernels_v3";
    if (there && zmm) target->kernels = "hlocc_rt_product_kernels_v4";
#else
    (void)triple;
#endif
    target->s16_pairs = PAIRS_INSTRUCTION;
    target->bf16_pairs = zmm && bf16 ? PAIRS_INSTRUCTION : PAIRS_NONE;
}

static int64_t cache_size(int name, int64_t otherwise) {
    long size = sysconf(name);
    return size > 0 ? size : otherwise;
}

void cpu_target_read(LLVMTargetMachineRef machine, bool host, struct cpu_target *target) {
    char *triple = LLVMGetTargetMachineTriple(machine);
    *target = (struct cpu_target){.vector_bytes = 16, .vector_registers = 16};
    if (strncmp(triple, "x86_64", 6) == 0) {
        read_x86(machine, triple, target);
    } else if (strncmp(triple, "aarch64", 7) == 0 || strncmp(triple, "arm64", 5) == 0) {
        target->vector_registers = 32;
        target->fma = target->widens_f16 = true;
    }
    LLVMDisposeMessage(triple);
    target->l1 = 32 << 10;
    target->l2 = 512 << 10;
    target->l3 = 4 << 20;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (host) {
        target->l1 = cache_size(_SC_LEVEL1_DCACHE_SIZE, target->l1);
        target->l2 = cache_size(_SC_LEVEL2_CACHE_SIZE, target->l2);
        target->l3 = cache_size(_SC_LEVEL3_CACHE_SIZE, target->l3);
    }
#endif
}
