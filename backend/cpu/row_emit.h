/* What the emitters of kernels over rows share. */
#ifndef BACKEND_CPU_ROW_EMIT_H
#define BACKEND_CPU_ROW_EMIT_H

#include "backend/cpu/gen.h"
#include "backend/cpu/row_plan.h"

struct output {
    const struct hlo_instr *instr;
    int leaf;
    const struct shape *shape;
    LLVMValueRef pointer;
    bool row; /* stored once a row */
};

struct rows {
    struct cpu_gen *g;
    struct cpu_kernel *k;
    const struct row_plan *plan;
    struct output *outputs;
    int noutputs;
};

/* Computes and stores the outputs of a row, or those of an element of one: the linear index is the
 * row's, or the element's. */
void rows_store_at(struct rows *r, bool row, LLVMValueRef linear);
/* Tells the value of each leaf at a linear index. */
void rows_bind_at(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef linear,
                  const LLVMValueRef *values);
/* In the loop along the row that `loop` numbers: values kept by earlier loops are loaded, those to
 * be kept are stored, at `place` of their scratch. */
void rows_use_scratch(struct rows *r, int loop, LLVMValueRef place, LLVMValueRef linear);

/* Blocks of short rows, side by side in vectors. */
void short_rows_emit(struct rows *r);

#endif
