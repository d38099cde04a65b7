/* f16 is computed in float. LLVM's passes turn comparisons and extremes of widened halves into ones
 * of halves, which x86 without AVX512-FP16 has not: a vector of them is taken apart, and extremes
 * lose NaN. After the passes these are widened again. */
#ifndef BACKEND_CPU_HALF_H
#define BACKEND_CPU_HALF_H

#include <llvm-c/Types.h>

/* The function that is being built computes with halves. */
void half_mark(LLVMBuilderRef b);
/* In all functions that are marked. */
void half_widen(LLVMModuleRef module);

#endif
