/* Loops, guards, and the memory that elements are in. */
#include "backend/cpu/gen.h"

#include <string.h>

#include <llvm-c/DebugInfo.h>

enum { KEY_LEAVES = 3, KEY_ACCESS = 4 };

static LLVMBasicBlockRef new_block(struct cpu_gen *g, const char *name) {
    return LLVMAppendBasicBlockInContext(g->b.context, g->function, name);
}

static bool surely_less(LLVMValueRef a, LLVMValueRef b) {
    return LLVMIsAConstantInt(a) && LLVMIsAConstantInt(b) &&
           LLVMConstIntGetSExtValue(a) < LLVMConstIntGetSExtValue(b);
}

/* The test stands at the end, as the vectoriser wants it. */
struct cpu_loop gen_range_begin(struct cpu_gen *g, LLVMValueRef from, LLVMValueRef to) {
    LLVMBuilderRef b = g->b.builder;
    struct cpu_loop loop = {.limit = to, .body = new_block(g, "loop"), .exit = new_block(g, "end")};
    if (!surely_less(from, to)) {
        LLVMBasicBlockRef enter = new_block(g, "enter");
        LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, from, to, ""), enter, loop.exit);
        LLVMPositionBuilderAtEnd(b, enter);
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, loop.body);
    LLVMPositionBuilderAtEnd(b, loop.body);
    loop.i = LLVMBuildPhi(b, LLVMInt64TypeInContext(g->b.context), "i");
    LLVMAddIncoming(loop.i, &from, &before, 1);
    scope_push(&g->seen);
    if (LLVMIsAConstantInt(to)) gen_index_bound(g, loop.i, LLVMConstIntGetSExtValue(to));
    return loop;
}

struct cpu_loop gen_loop_begin(struct cpu_gen *g, LLVMValueRef limit) {
    return gen_range_begin(g, gen_i64(g, 0), limit);
}

void gen_loop_end(struct cpu_gen *g, struct cpu_loop *loop) {
    LLVMBuilderRef b = g->b.builder;
    scope_pop(&g->seen);
    LLVMValueRef next = LLVMBuildNSWAdd(b, loop->i, gen_i64(g, 1), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(loop->i, &next, &latch, 1);
    LLVMValueRef more = LLVMBuildICmp(b, LLVMIntSLT, next, loop->limit, "");
    loop->branch = LLVMBuildCondBr(b, more, loop->body, loop->exit);
    LLVMPositionBuilderAtEnd(b, loop->exit);
}

void gen_nest_begin(struct cpu_gen *g, int rank, const int64_t *dims, struct cpu_loop *loops,
                    LLVMValueRef *index) {
    for (int d = 0; d < rank; d++) {
        loops[d].body = NULL;
        index[d] = gen_i64(g, 0);
        if (dims[d] == 1) continue;
        loops[d] = gen_loop_begin(g, gen_i64(g, dims[d]));
        index[d] = loops[d].i;
    }
}

void gen_nest_end(struct cpu_gen *g, int rank, struct cpu_loop *loops) {
    for (int d = rank - 1; d >= 0; d--)
        if (loops[d].body) gen_loop_end(g, &loops[d]);
}

LLVMBasicBlockRef gen_guard_begin(struct cpu_gen *g, LLVMValueRef condition) {
    LLVMBasicBlockRef yes = new_block(g, "in"), after = new_block(g, "after");
    LLVMBuildCondBr(g->b.builder, condition, yes, after);
    LLVMPositionBuilderAtEnd(g->b.builder, yes);
    scope_push(&g->seen);
    return after;
}

void gen_guard_end(struct cpu_gen *g, LLVMBasicBlockRef after) {
    scope_pop(&g->seen);
    LLVMBuildBr(g->b.builder, after);
    LLVMPositionBuilderAtEnd(g->b.builder, after);
}

/* ---- memory ---- */

int gen_inner_dim(const struct shape *shape) {
    int d = shape->rank - 1;
    while (d > 0 && shape->dims[d] == 1)
        d--;
    return d;
}

LLVMValueRef gen_address(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
                         const LLVMValueRef *index) {
    LLVMValueRef at = gen_linear(g, shape, index);
    return LLVMBuildInBoundsGEP2(g->b.builder, cpu_memory_type(&g->b, shape->type), base, &at, 1,
                                 "");
}

LLVMValueRef gen_offset(struct cpu_gen *g, LLVMValueRef base, int64_t bytes) {
    if (bytes == 0) return base;
    LLVMValueRef at = gen_i64(g, bytes);
    return LLVMBuildInBoundsGEP2(g->b.builder, LLVMInt8TypeInContext(g->b.context), base, &at, 1,
                                 "");
}

LLVMValueRef gen_alloca(struct cpu_gen *g, LLVMTypeRef type, int64_t count) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b.builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(g->function);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    LLVMMetadataRef place = LLVMGetCurrentDebugLocation2(g->b.builder); /* changed by a move */
    if (first)
        LLVMPositionBuilderBefore(g->b.builder, first);
    else
        LLVMPositionBuilderAtEnd(g->b.builder, entry);
    if (count != 1) type = LLVMArrayType2(type, (uint64_t)count);
    LLVMValueRef slot = LLVMBuildAlloca(g->b.builder, type, "");
    if (count != 1) LLVMSetAlignment(slot, 64);
    LLVMPositionBuilderAtEnd(g->b.builder, here);
    LLVMSetCurrentDebugLocation2(g->b.builder, place);
    return slot;
}

LLVMValueRef gen_slot(struct cpu_gen *g, enum element_type type) {
    return gen_alloca(g, cpu_value_type(&g->b, type), 1);
}

void gen_bind_leaves(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef *leaves) {
    uint64_t key[3] = {KEY_LEAVES, g->frame, (uintptr_t)instr};
    scope_add(&g->seen, key, 3, leaves);
}

LLVMValueRef *gen_leaves(struct cpu_gen *g, const struct hlo_instr *instr) {
    uint64_t key[3] = {KEY_LEAVES, g->frame, (uintptr_t)instr};
    return scope_find(&g->seen, key, 3);
}

LLVMValueRef gen_constant(struct cpu_gen *g, const struct hlo_instr *instr, int leaf) {
    const char *name = arena_printf(g->arena, "constant.%d.%d", instr->id, leaf);
    LLVMValueRef global = LLVMGetNamedGlobal(g->b.module, name);
    if (global) return global;
    const struct literal *literal = literal_leaf(instr->literal, leaf);
    LLVMValueRef data = LLVMConstStringInContext2(g->b.context, literal->data, literal->size, true);
    global = cpu_read_only(&g->b, data, name);
    LLVMSetAlignment(global, 64);
    return global;
}

/* ---- what an access through a pointer cannot touch ---- */

struct access {
    LLVMValueRef scope, others;
};

static LLVMMetadataRef self_node(struct cpu_gen *g, const char *name, LLVMMetadataRef domain) {
    /* A distinct node refers to itself: made with a place holder that it then replaces. */
    LLVMMetadataRef holder = LLVMTemporaryMDNode(g->b.context, NULL, 0);
    LLVMMetadataRef parts[3] = {holder, domain,
                                LLVMMDStringInContext2(g->b.context, name, strlen(name))};
    if (!domain) parts[1] = parts[2];
    LLVMMetadataRef node = LLVMMDNodeInContext2(g->b.context, parts, domain ? 3 : 2);
    LLVMMetadataReplaceAllUsesWith(holder, node);
    return node;
}

static LLVMMetadataRef loop_hint(struct cpu_gen *g, const char *name, int value) {
    LLVMContextRef context = g->b.context;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(context);
    LLVMMetadataRef hint[2] = {LLVMMDStringInContext2(context, name, strlen(name)),
                               LLVMValueAsMetadata(LLVMConstInt(i32, (uint64_t)value, false))};
    return LLVMMDNodeInContext2(context, hint, 2);
}

void gen_loop_vectors(struct cpu_gen *g, const struct cpu_loop *loop, int lanes, int count) {
    LLVMContextRef context = g->b.context;
    LLVMMetadataRef holder = LLVMTemporaryMDNode(context, NULL, 0), parts[3] = {holder};
    size_t n = 1;
    if (lanes > 0) parts[n++] = loop_hint(g, "llvm.loop.vectorize.width", lanes);
    if (lanes < 0) parts[n++] = loop_hint(g, "llvm.loop.vectorize.enable", 1);
    if (count) parts[n++] = loop_hint(g, "llvm.loop.interleave.count", count);
    LLVMMetadataRef node = LLVMMDNodeInContext2(context, parts, n);
    LLVMMetadataReplaceAllUsesWith(holder, node);
    if (n > 1)
        LLVMSetMetadata(loop->branch, LLVMGetMDKindIDInContext(context, "llvm.loop", 9),
                        LLVMMetadataAsValue(context, node));
}

void gen_declare_disjoint(struct cpu_gen *g, int count, const LLVMValueRef *pointers) {
    if (count < 2) return;
    LLVMMetadataRef *scopes = arena_array(g->arena, (size_t)count, sizeof *scopes);
    LLVMMetadataRef *others = arena_array(g->arena, (size_t)count, sizeof *others);
    LLVMMetadataRef domain = self_node(g, "kernel", NULL);
    for (int i = 0; i < count; i++)
        scopes[i] = self_node(g, "leaf", domain);
    for (int i = 0; i < count; i++) {
        int n = 0;
        for (int j = 0; j < count; j++)
            if (j != i) others[n++] = scopes[j];
        struct access access = {
            LLVMMetadataAsValue(g->b.context, LLVMMDNodeInContext2(g->b.context, &scopes[i], 1)),
            LLVMMetadataAsValue(g->b.context,
                                LLVMMDNodeInContext2(g->b.context, others, (size_t)n))};
        uint64_t key[2] = {KEY_ACCESS, (uintptr_t)pointers[i]};
        scope_add(&g->seen, key, 2, arena_copy(g->arena, &access, sizeof access));
    }
}

void gen_part_of(struct cpu_gen *g, LLVMValueRef part, LLVMValueRef whole) {
    uint64_t key[2] = {KEY_ACCESS, (uintptr_t)whole};
    void *access = scope_find(&g->seen, key, 2);
    key[1] = (uintptr_t)part;
    if (access && part != whole) scope_add(&g->seen, key, 2, access);
}

static void mark_access(struct cpu_gen *g, LLVMValueRef base, LLVMValueRef instruction) {
    uint64_t key[2] = {KEY_ACCESS, (uintptr_t)base};
    const struct access *access = scope_find(&g->seen, key, 2);
    if (!access || !instruction) return;
    LLVMSetMetadata(instruction, LLVMGetMDKindIDInContext(g->b.context, "alias.scope", 11),
                    access->scope);
    LLVMSetMetadata(instruction, LLVMGetMDKindIDInContext(g->b.context, "noalias", 7),
                    access->others);
}

LLVMValueRef gen_load(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
                      const LLVMValueRef *index) {
    LLVMValueRef access = NULL, address = gen_address(g, shape, base, index);
    LLVMValueRef value = cpu_load(&g->b, shape->type, address, &access);
    mark_access(g, base, access);
    return value;
}

void gen_store(struct cpu_gen *g, const struct shape *shape, LLVMValueRef base,
               const LLVMValueRef *index, LLVMValueRef value) {
    LLVMValueRef address = gen_address(g, shape, base, index);
    mark_access(g, base, cpu_store(&g->b, shape->type, value, address));
}
