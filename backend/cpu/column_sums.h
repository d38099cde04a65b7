/* Sums of a block of columns: what a reduction over outer dims, or a window that leaves the last
 * dim alone, adds to while it walks along the columns. */
#ifndef BACKEND_CPU_COLUMN_SUMS_H
#define BACKEND_CPU_COLUMN_SUMS_H

#include "backend/cpu/gen.h"

enum { COLUMN_BLOCK = 512 };

struct column_sums {
    const struct hlo_instr *instr; /* a reduce or reduce-window */
    struct cpu_reducer reducer;
    LLVMValueRef *arrays; /* of COLUMN_BLOCK sums, one for each leaf */
};

/* Blocks of a dimension of `columns`, and the width of the one that starts at column `first`. */
int64_t column_blocks(int64_t columns);
LLVMValueRef column_width(struct cpu_gen *g, int64_t columns, LLVMValueRef first);

void column_sums_init(struct cpu_gen *g, struct column_sums *s, const struct hlo_instr *instr);
/* Sets columns [0, width) to the initial values. */
void column_sums_start(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef width);
/* Adds the operands' elements at each of `count` indices, in order, to the column's sums; the new
 * sums are in values. */
void column_sums_add(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef column, int count,
                     LLVMValueRef *const *index, LLVMValueRef *values);
/* The column's results, as elements. */
void column_sums_end(struct cpu_gen *g, const struct column_sums *s, LLVMValueRef column,
                     LLVMValueRef *values);

#endif
