#include "backend/cpu/stream.h"

#include <string.h>

bool stream_pays(const struct cpu_gen *g, int64_t bytes) {
    /* What processors report may be the caches of all groups of cores together. */
    const int64_t most = 32 << 20;
    int64_t cache = g->target.l3 < most ? g->target.l3 : most;
    return strncmp(LLVMGetTarget(g->b.module), "x86_64", 6) == 0 && bytes > cache;
}

LLVMValueRef stream_is_aligned(struct cpu_gen *g, LLVMValueRef pointer) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef address = LLVMBuildPtrToInt(b, pointer, LLVMInt64TypeInContext(g->b.context), "");
    address = LLVMBuildAnd(b, address, gen_i64(g, STREAM_LINE - 1), "");
    return LLVMBuildICmp(b, LLVMIntEQ, address, gen_i64(g, 0), "");
}

void stream_store(struct cpu_gen *g, LLVMValueRef vector, LLVMValueRef to) {
    LLVMContextRef context = g->b.context;
    LLVMTypeRef type = LLVMTypeOf(vector), element = LLVMGetElementType(type);
    unsigned bits = LLVMGetTypeKind(element) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(element)
                    : LLVMGetTypeKind(element) == LLVMFloatTypeKind ? 32
                                                                    : 64;
    LLVMValueRef store = LLVMBuildStore(g->b.builder, vector, to);
    LLVMSetAlignment(store, LLVMGetVectorSize(type) * bits / 8);
    LLVMValueRef one = LLVMConstInt(LLVMInt32TypeInContext(context), 1, false);
    LLVMMetadataRef node = LLVMValueAsMetadata(one);
    node = LLVMMDNodeInContext2(context, &node, 1);
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(context, "nontemporal", 11),
                    LLVMMetadataAsValue(context, node));
}

void stream_copy(struct cpu_gen *g, LLVMValueRef to, LLVMValueRef from, int64_t bytes) {
    enum { VECTOR = 32 };
    LLVMTypeRef byte = LLVMInt8TypeInContext(g->b.context);
    LLVMTypeRef vector = LLVMVectorType(LLVMInt64TypeInContext(g->b.context), VECTOR / 8);
    struct cpu_loop lines = gen_loop_begin(g, gen_i64(g, bytes / STREAM_LINE));
    for (int k = 0; k < STREAM_LINE; k += VECTOR) {
        LLVMValueRef at = gen_index_mul(g, lines.i, STREAM_LINE);
        at = gen_index_add(g, at, gen_i64(g, k));
        LLVMValueRef source = LLVMBuildInBoundsGEP2(g->b.builder, byte, from, &at, 1, "");
        LLVMValueRef value = LLVMBuildLoad2(g->b.builder, vector, source, "");
        LLVMSetAlignment(value, VECTOR);
        stream_store(g, value, LLVMBuildInBoundsGEP2(g->b.builder, byte, to, &at, 1, ""));
    }
    gen_loop_end(g, &lines);
}

void stream_end(struct cpu_gen *g) {
    static const char name[] = "llvm.x86.sse.sfence";
    unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMValueRef fence = LLVMGetIntrinsicDeclaration(g->b.module, id, NULL, 0);
    LLVMBuildCall2(g->b.builder, LLVMGlobalGetValueType(fence), fence, NULL, 0, "");
}
