/* Short names for the address arithmetic and loops of the product emitters. Private to them. */
#ifndef BACKEND_CPU_MATMUL_IR_H
#define BACKEND_CPU_MATMUL_IR_H

#include "backend/cpu/emit.h"

static inline LLVMTypeRef ir_i64(struct cpu_builder *b) {
    return LLVMInt64TypeInContext(b->context);
}

static inline LLVMTypeRef ir_pointer(struct cpu_builder *b) {
    return LLVMPointerTypeInContext(b->context, 0);
}

static inline LLVMValueRef ir_k(struct cpu_builder *b, int64_t value) {
    return LLVMConstInt(ir_i64(b), (uint64_t)value, true);
}

static inline bool ir_is_zero(LLVMValueRef x) {
    return LLVMIsAConstantInt(x) && LLVMIsNull(x);
}

static inline LLVMValueRef ir_add(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    return ir_is_zero(x) ? y : ir_is_zero(y) ? x : LLVMBuildNSWAdd(b->builder, x, y, "");
}

static inline LLVMValueRef ir_addk(struct cpu_builder *b, LLVMValueRef x, int64_t k) {
    return k ? ir_add(b, x, ir_k(b, k)) : x;
}

static inline LLVMValueRef ir_mulk(struct cpu_builder *b, LLVMValueRef x, int64_t k) {
    return k == 1 ? x : LLVMBuildNSWMul(b->builder, x, ir_k(b, k), "");
}

/* Quotient and rest of what is not negative. */
static inline LLVMValueRef ir_divk(struct cpu_builder *b, LLVMValueRef x, int64_t k) {
    return k == 1 ? x : LLVMBuildUDiv(b->builder, x, ir_k(b, k), "");
}

static inline LLVMValueRef ir_modk(struct cpu_builder *b, LLVMValueRef x, int64_t k) {
    return k == 1 ? ir_k(b, 0) : LLVMBuildURem(b->builder, x, ir_k(b, k), "");
}

/* base plus a number of bytes */
static inline LLVMValueRef ir_at(struct cpu_builder *b, LLVMValueRef base, LLVMValueRef bytes) {
    if (ir_is_zero(bytes)) return base;
    return LLVMBuildInBoundsGEP2(b->builder, LLVMInt8TypeInContext(b->context), base, &bytes, 1,
                                 "");
}

static inline LLVMValueRef ir_atk(struct cpu_builder *b, LLVMValueRef base, int64_t bytes) {
    return bytes ? ir_at(b, base, ir_k(b, bytes)) : base;
}

static inline LLVMValueRef ir_min(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    return select_of(b, i_cmp(b, LLVMIntSLT, x, y), x, y);
}

static inline LLVMValueRef ir_function(struct cpu_builder *b) {
    return LLVMGetBasicBlockParent(LLVMGetInsertBlock(b->builder));
}

static inline LLVMBasicBlockRef ir_block(struct cpu_builder *b, const char *name) {
    return LLVMAppendBasicBlockInContext(b->context, ir_function(b), name);
}

static inline LLVMValueRef ir_load(struct cpu_builder *b, LLVMTypeRef type, LLVMValueRef at,
                                   int alignment) {
    LLVMValueRef value = LLVMBuildLoad2(b->builder, type, at, "");
    LLVMSetAlignment(value, (unsigned)alignment);
    return value;
}

static inline void ir_store(struct cpu_builder *b, LLVMValueRef value, LLVMValueRef at,
                            int alignment) {
    LLVMSetAlignment(LLVMBuildStore(b->builder, value, at), (unsigned)alignment);
}

/* i = start; do ... while ((i += step) < limit). Guarded: not at all where start >= limit. One that
 * is not guarded, and has one iteration whatever happens, has no blocks: body is NULL. */
struct ir_loop {
    LLVMBasicBlockRef body, after;
    LLVMValueRef i, limit;
    int64_t step;
};

struct ir_loop ir_loop_begin(struct cpu_builder *b, LLVMValueRef start, LLVMValueRef limit,
                             int64_t step, bool guarded);
/* Fixed bounds: 0 to count, count at least 1. */
struct ir_loop ir_loop_count(struct cpu_builder *b, int64_t count, int64_t step);
void ir_loop_end(struct cpu_builder *b, struct ir_loop *loop);
/* The same for a loop whose iterations are independent and that is to be vectorised by `width`
 * (0: as the optimiser likes). */
void ir_loop_end_parallel(struct cpu_builder *b, struct ir_loop *loop, int width);

/* A guarded loop that carries values: they are the loop's in its body, and after its end those of
 * the last iteration (or of before, where there was none). */
enum { IR_MOST_CARRIED = 32 };
struct ir_carrying {
    struct ir_loop loop;
    LLVMBasicBlockRef before;
    int count;
    LLVMValueRef first[IR_MOST_CARRIED], phi[IR_MOST_CARRIED];
};
struct ir_carrying ir_carrying_begin(struct cpu_builder *b, LLVMValueRef start, LLVMValueRef limit,
                                     int64_t step, int count, LLVMValueRef *values);
void ir_carrying_end(struct cpu_builder *b, struct ir_carrying *loop, LLVMValueRef *values);

/* if (condition) ... else ... ; `otherwise` NULL where there is no else part */
struct ir_if {
    LLVMBasicBlockRef otherwise, after;
};
struct ir_if ir_if_begin(struct cpu_builder *b, LLVMValueRef condition, bool has_else);
void ir_if_else(struct cpu_builder *b, struct ir_if *branch);
void ir_if_end(struct cpu_builder *b, struct ir_if *branch);

/* A variable in the function's entry block. */
LLVMValueRef ir_slot(struct cpu_builder *b, LLVMTypeRef type, int64_t count, int alignment);
/* A private constant array of i64. */
LLVMValueRef ir_table(struct cpu_builder *b, const int64_t *values, int64_t count);
/* A private function of the module, `void name(types...)`, marked as compiled code has to be and
 * with the builder at its start; the builder's old place is in *back. */
LLVMValueRef ir_function_begin(struct cpu_builder *b, const char *name, int count,
                               const LLVMTypeRef *types, LLVMBasicBlockRef *back);
void ir_function_end(struct cpu_builder *b, LLVMBasicBlockRef back);
void ir_function_attribute(struct cpu_builder *b, LLVMValueRef function, const char *key,
                           const char *value);
/* Of a function, or through a pointer to one that returns nothing and takes 16 arguments at most.
 */
void ir_call(struct cpu_builder *b, LLVMValueRef function, int count, LLVMValueRef *arguments);
/* Calls a function of runtime/cpu that returns nothing and takes i64 and pointers, 16 at most. */
void ir_runtime_call(struct cpu_builder *b, const char *name, int count, LLVMValueRef *arguments);

#endif
