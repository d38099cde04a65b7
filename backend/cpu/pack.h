/* Operands of products in the order in which their kernels read them, converted to the type that
 * they compute in: calls of the runtime's functions (runtime/cpu/pack.h). Private to the product
 * emitters. */
#ifndef BACKEND_CPU_PACK_H
#define BACKEND_CPU_PACK_H

#include "backend/cpu/matmul_kernel.h"
#include "runtime/cpu/pack.h"

/* PACK_OTHER where the runtime has no such conversion: pack_converter emits one. */
enum hlocc_rt_pack_kind pack_kind(enum element_type from, enum element_type to);
/* The module's hlocc_rt_convert; a null pointer where the runtime has its own. */
LLVMValueRef pack_converter(struct cpu_builder *b, enum element_type from, enum element_type to);

/* What to pack: the arguments of hlocc_rt_pack and hlocc_rt_pack_rows. */
struct pack {
    enum element_type from_type, to_type;
    enum hlocc_rt_pack_mode mode; /* becomes PACK_GATHER where there is no other */
    int64_t step;
    int width;
    bool pairs;
    LLVMValueRef from, places, taps, ntaps, run, to, n; /* places: columns or rows */
    int64_t to_step;                                    /* bytes from a panel or row to the next */
};
void pack_emit(struct cpu_builder *b, const struct pack *pack);      /* panels */
void pack_emit_rows(struct cpu_builder *b, const struct pack *pack); /* `pairs`: a zero follows */

/* Whether vectors of one type convert to the other in a few instructions. */
bool pack_converts_vectors(enum element_type from, enum element_type to);
LLVMValueRef pack_convert_vector(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                                 enum element_type to);

#endif
