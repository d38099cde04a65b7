#include "backend/cpu/matmul_ir.h"

#include <string.h>

#include <llvm-c/DebugInfo.h>

static bool is_one_step(LLVMValueRef start, LLVMValueRef limit, int64_t step) {
    return LLVMIsAConstantInt(start) && LLVMIsAConstantInt(limit) &&
           LLVMConstIntGetSExtValue(limit) - LLVMConstIntGetSExtValue(start) <= step;
}

struct ir_loop ir_loop_begin(struct cpu_builder *b, LLVMValueRef start, LLVMValueRef limit,
                             int64_t step, bool guarded) {
    if (!guarded && is_one_step(start, limit, step)) return (struct ir_loop){.i = start};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b->builder);
    struct ir_loop loop = {ir_block(b, "loop"), ir_block(b, "done"), NULL, limit, step};
    if (guarded)
        LLVMBuildCondBr(b->builder, i_cmp(b, LLVMIntSLT, start, limit), loop.body, loop.after);
    else
        LLVMBuildBr(b->builder, loop.body);
    LLVMPositionBuilderAtEnd(b->builder, loop.body);
    loop.i = LLVMBuildPhi(b->builder, ir_i64(b), "");
    LLVMAddIncoming(loop.i, &start, &before, 1);
    return loop;
}

struct ir_loop ir_loop_count(struct cpu_builder *b, int64_t count, int64_t step) {
    return ir_loop_begin(b, ir_k(b, 0), ir_k(b, count), step, false);
}

static LLVMValueRef latch(struct cpu_builder *b, struct ir_loop *loop) {
    LLVMValueRef next = ir_addk(b, loop->i, loop->step);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b->builder);
    LLVMAddIncoming(loop->i, &next, &here, 1);
    LLVMValueRef jump = LLVMBuildCondBr(b->builder, i_cmp(b, LLVMIntSLT, next, loop->limit),
                                        loop->body, loop->after);
    LLVMPositionBuilderAtEnd(b->builder, loop->after);
    return jump;
}

struct ir_carrying ir_carrying_begin(struct cpu_builder *b, LLVMValueRef start, LLVMValueRef limit,
                                     int64_t step, int count, LLVMValueRef *values) {
    struct ir_carrying c = {.before = LLVMGetInsertBlock(b->builder), .count = count};
    c.loop = ir_loop_begin(b, start, limit, step, true);
    for (int i = 0; i < count; i++) {
        c.first[i] = values[i];
        c.phi[i] = LLVMBuildPhi(b->builder, LLVMTypeOf(values[i]), "");
        LLVMAddIncoming(c.phi[i], &values[i], &c.before, 1);
        values[i] = c.phi[i];
    }
    return c;
}

void ir_carrying_end(struct cpu_builder *b, struct ir_carrying *c, LLVMValueRef *values) {
    LLVMBasicBlockRef last = LLVMGetInsertBlock(b->builder);
    ir_loop_end(b, &c->loop);
    for (int i = 0; i < c->count; i++) {
        LLVMAddIncoming(c->phi[i], &values[i], &last, 1);
        LLVMValueRef end = LLVMBuildPhi(b->builder, LLVMTypeOf(values[i]), "");
        LLVMAddIncoming(end, &c->first[i], &c->before, 1);
        LLVMAddIncoming(end, &values[i], &last, 1);
        values[i] = end;
    }
}

static LLVMMetadataRef text_node(struct cpu_builder *b, const char *text) {
    return LLVMMDStringInContext2(b->context, text, strlen(text));
}

static LLVMMetadataRef hint(struct cpu_builder *b, const char *name, LLVMValueRef value) {
    LLVMMetadataRef parts[] = {text_node(b, name), LLVMValueAsMetadata(value)};
    return LLVMMDNodeInContext2(b->context, parts, 2);
}

/* A node that is distinct from all others: its own first operand. */
static LLVMMetadataRef distinct_node(struct cpu_builder *b, LLVMMetadataRef *parts, size_t count) {
    LLVMMetadataRef temporary = LLVMTemporaryMDNode(b->context, NULL, 0);
    parts[0] = temporary;
    LLVMMetadataRef node = LLVMMDNodeInContext2(b->context, parts, count);
    LLVMMetadataReplaceAllUsesWith(temporary, node);
    return node;
}

static void mark_accesses(LLVMBasicBlockRef first, LLVMBasicBlockRef last, unsigned kind,
                          LLVMValueRef loop) {
    for (LLVMBasicBlockRef block = first; block; block = LLVMGetNextBasicBlock(block)) {
        for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
            LLVMOpcode opcode = LLVMGetInstructionOpcode(i);
            if (opcode == LLVMLoad || opcode == LLVMStore) LLVMSetMetadata(i, kind, loop);
        }
        if (block == last) break;
    }
}

static void name_loop(struct cpu_builder *b, LLVMValueRef jump, LLVMValueRef name) {
    LLVMSetMetadata(jump, LLVMGetMDKindIDInContext(b->context, "llvm.loop", 9), name);
}

/* These loops hold vectors already, or calls, or are the few steps that are left over. */
void ir_loop_end(struct cpu_builder *b, struct ir_loop *loop) {
    if (!loop->body) return;
    LLVMMetadataRef parts[2];
    LLVMValueRef no = LLVMConstInt(int_type(b, 1), 0, false);
    parts[1] = hint(b, "llvm.loop.vectorize.enable", no);
    name_loop(b, latch(b, loop), LLVMMetadataAsValue(b->context, distinct_node(b, parts, 2)));
}

void ir_loop_end_parallel(struct cpu_builder *b, struct ir_loop *loop, int width) {
    if (!loop->body) return;
    LLVMMetadataRef parts[3];
    LLVMTypeRef i32 = int_type(b, 32);
    size_t count = 1;
    if (width) {
        LLVMValueRef lanes = LLVMConstInt(i32, (uint64_t)width, false);
        parts[count++] = hint(b, "llvm.loop.vectorize.width", lanes);
        parts[count++] = hint(b, "llvm.loop.interleave.count", LLVMConstInt(i32, 1, false));
    }
    LLVMValueRef name = LLVMMetadataAsValue(b->context, distinct_node(b, parts, count));
    mark_accesses(loop->body, LLVMGetInsertBlock(b->builder),
                  LLVMGetMDKindIDInContext(b->context, "llvm.mem.parallel_loop_access", 29), name);
    name_loop(b, latch(b, loop), name);
}

struct ir_if ir_if_begin(struct cpu_builder *b, LLVMValueRef condition, bool has_else) {
    LLVMBasicBlockRef then = ir_block(b, "then");
    struct ir_if branch = {has_else ? ir_block(b, "else") : NULL, ir_block(b, "join")};
    LLVMBuildCondBr(b->builder, condition, then, has_else ? branch.otherwise : branch.after);
    LLVMPositionBuilderAtEnd(b->builder, then);
    return branch;
}

void ir_if_else(struct cpu_builder *b, struct ir_if *branch) {
    LLVMBuildBr(b->builder, branch->after);
    LLVMPositionBuilderAtEnd(b->builder, branch->otherwise);
}

void ir_if_end(struct cpu_builder *b, struct ir_if *branch) {
    LLVMBuildBr(b->builder, branch->after);
    LLVMPositionBuilderAtEnd(b->builder, branch->after);
}

LLVMValueRef ir_slot(struct cpu_builder *b, LLVMTypeRef type, int64_t count, int alignment) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b->builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(ir_function(b));
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    LLVMMetadataRef place = LLVMGetCurrentDebugLocation2(b->builder); /* changed by a move */
    if (first) LLVMPositionBuilderBefore(b->builder, first);
    LLVMValueRef slot = LLVMBuildAlloca(b->builder, LLVMArrayType2(type, (uint64_t)count), "");
    LLVMSetAlignment(slot, (unsigned)alignment);
    LLVMPositionBuilderAtEnd(b->builder, here);
    LLVMSetCurrentDebugLocation2(b->builder, place);
    return slot;
}

LLVMValueRef ir_table(struct cpu_builder *b, const int64_t *values, int64_t count) {
    LLVMValueRef data = LLVMConstStringInContext2(b->context, (const char *)values,
                                                  (size_t)count * sizeof *values, true);
    LLVMValueRef global = cpu_read_only(b, data, "offsets");
    LLVMSetAlignment(global, 64);
    return global;
}

void ir_function_attribute(struct cpu_builder *b, LLVMValueRef function, const char *key,
                           const char *value) {
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(b->context, key, (unsigned)strlen(key), value,
                                                      (unsigned)strlen(value)));
}

static void enum_attribute(struct cpu_builder *b, LLVMValueRef function, LLVMAttributeIndex where,
                           const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, where, LLVMCreateEnumAttribute(b->context, kind, 0));
}

LLVMValueRef ir_function_begin(struct cpu_builder *b, const char *name, int count,
                               const LLVMTypeRef *types, LLVMBasicBlockRef *back) {
    LLVMTypeRef nothing = LLVMVoidTypeInContext(b->context);
    LLVMTypeRef type = LLVMFunctionType(nothing, (LLVMTypeRef *)types, (unsigned)count, false);
    LLVMValueRef function = LLVMAddFunction(b->module, name, type);
    LLVMSetLinkage(function, LLVMInternalLinkage);
    cpu_mark_function(b, function);
    enum_attribute(b, function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "noinline");
    enum_attribute(b, function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind");
    *back = LLVMGetInsertBlock(b->builder);
    LLVMPositionBuilderAtEnd(b->builder,
                             LLVMAppendBasicBlockInContext(b->context, function, "entry"));
    return function;
}

void ir_function_end(struct cpu_builder *b, LLVMBasicBlockRef back) {
    LLVMBuildRetVoid(b->builder);
    LLVMPositionBuilderAtEnd(b->builder, back);
}

static LLVMTypeRef call_type(struct cpu_builder *b, int count, LLVMValueRef *arguments) {
    enum { MOST = 16 };
    LLVMTypeRef types[MOST];
    for (int i = 0; i < count; i++)
        types[i] = LLVMTypeOf(arguments[i]);
    return LLVMFunctionType(LLVMVoidTypeInContext(b->context), types, (unsigned)count, false);
}

void ir_call(struct cpu_builder *b, LLVMValueRef function, int count, LLVMValueRef *arguments) {
    LLVMTypeRef type = LLVMIsAFunction(function) ? LLVMGlobalGetValueType(function)
                                                 : call_type(b, count, arguments);
    LLVMBuildCall2(b->builder, type, function, arguments, (unsigned)count, "");
}

void ir_runtime_call(struct cpu_builder *b, const char *name, int count, LLVMValueRef *arguments) {
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (!function) {
        function = LLVMAddFunction(b->module, name, call_type(b, count, arguments));
        enum_attribute(b, function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind");
    }
    ir_call(b, function, count, arguments);
}
