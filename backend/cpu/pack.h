/* Copying parts of operands into the order in which the kernels of products read them, converted
 * to the type that they compute in. Private to the product emitters. */
#ifndef BACKEND_CPU_PACK_H
#define BACKEND_CPU_PACK_H

#include "backend/cpu/matmul_kernel.h"

enum pack_mode {
    PACK_GATHER,    /* the elements of a row of the panel lie anywhere */
    PACK_TRANSPOSE, /* they lie anywhere, and k runs side by side */
    PACK_ROWS,      /* they lie side by side (pack_pairs) */
};

/* The module's function that packs a panel of `width` columns:
 *     void pack(ptr source, ptr columns, i64 k_step, i64 count, ptr to)
 * to[k * width + j] = source[columns[j] + k * k_step] for k < count; columns (i64) and k_step are
 * in bytes; k_step is not read where transposed. count is at least 1. */
LLVMValueRef pack_panel(struct cpu_builder *b, const struct cpu_target *target, enum pack_mode mode,
                        enum element_type from, enum element_type to, int width);
enum { PACK_PANEL_ARGUMENTS = 5 };

/* The same for pairs of elements of k, `to` being of 2 bytes:
 *     to[k / 2 * 2 * width + 2 * j + k % 2] = source[columns[j] + k * k_step] for k < count
 * and 0 where count is odd for the last pair's other half. */
LLVMValueRef pack_pairs(struct cpu_builder *b, const struct cpu_target *target, enum pack_mode mode,
                        enum element_type from, enum element_type to, int width);

/* The module's function that packs panels whose columns all lie side by side:
 *     void pack(ptr source, i64 k_step, i64 count, ptr to, i64 panels, i64 panel_bytes)
 * One row of all panels after the other, so that memory is read in long runs. count and panels are
 * at least 1; the types are such that pack_converts_vectors. */
LLVMValueRef pack_panels(struct cpu_builder *b, const struct cpu_target *target,
                         enum element_type from, enum element_type to, int width);
enum { PACK_PANELS_ARGUMENTS = 6 };

/* The module's function that converts a run: void pack(ptr source, i64 step, i64 count, ptr to),
 * to[i] = source[i * step]; step in bytes, not read where `contiguous`. */
LLVMValueRef pack_run(struct cpu_builder *b, const struct cpu_target *target, bool contiguous,
                      enum element_type from, enum element_type to);
enum { PACK_RUN_ARGUMENTS = 4 };

/* Whether vectors of one type convert to the other in a few instructions. */
bool pack_converts_vectors(enum element_type from, enum element_type to);
LLVMValueRef pack_convert_vector(struct cpu_builder *b, LLVMValueRef value, enum element_type from,
                                 enum element_type to);

#endif
