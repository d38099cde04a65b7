/* Scalar arithmetic as LLVM IR: one element of any elementwise operation.
 * Two forms of an element. In registers: pred i1; integers iN, those of less than 8 bits as i8 kept
 * wrapped (sign- or zero-extended); f32 and f64 float and double; narrower floats their raw bits as
 * iN; complex {float, float} or {double, double}. In memory the same, but pred i8 (0 or 1).
 * Subnormals: the code relies on the machine flushing them (MXCSR or FPCR), set on entry to a
 * compiled program. Calls that do not vectorise go to libm and to nothing else. */
#ifndef BACKEND_CPU_MATH_H
#define BACKEND_CPU_MATH_H

#include "backend/cpu/builder.h"

/* Tells the optimiser, for a function that holds such code, that subnormals are flushed: otherwise
 * it folds as if they were not. Every emitted function needs it. */
void cpu_mark_function(struct cpu_builder *b, LLVMValueRef function);

LLVMTypeRef cpu_value_type(struct cpu_builder *b, enum element_type type);
LLVMTypeRef cpu_memory_type(struct cpu_builder *b, enum element_type type);

/* One element, register form, from or to a pointer to its memory form. The load or store
 * instruction itself comes back in *access (may be NULL), for metadata. */
LLVMValueRef cpu_load(struct cpu_builder *b, enum element_type type, LLVMValueRef pointer,
                      LLVMValueRef *access);
LLVMValueRef cpu_store(struct cpu_builder *b, enum element_type type, LLVMValueRef value,
                       LLVMValueRef pointer);

/* Constants in register form. A double is converted (integers: truncated); complex: imaginary 0. */
LLVMValueRef cpu_constant(struct cpu_builder *b, enum element_type type, double value);
LLVMValueRef cpu_constant_int(struct cpu_builder *b, enum element_type type, int64_t value);
/* Element `index` of an array literal. */
LLVMValueRef cpu_constant_element(struct cpu_builder *b, const struct literal *literal,
                                  int64_t index);

/* An elementwise operation (OP_FLAG_ELEMENTWISE) on one element of each operand. Types come from
 * the instruction's and its operands' shapes. */
LLVMValueRef cpu_emit_elementwise(struct cpu_builder *b, const struct hlo_instr *instr,
                                  const LLVMValueRef *operands);
/* XLA's convert between any two array element types. */
LLVMValueRef cpu_emit_convert(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                              enum element_type to);
/* The same bits as another type of the same size in memory (complex: as they are). */
LLVMValueRef cpu_emit_bitcast(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                              enum element_type to);

#endif
