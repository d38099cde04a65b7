/* What the parts of the product emitter share. Private to them. */
#ifndef BACKEND_CPU_MATMUL_INTERNAL_H
#define BACKEND_CPU_MATMUL_INTERNAL_H

#include "backend/cpu/matmul.h"

enum product_operand { PRODUCT_A, PRODUCT_B, PRODUCT_C };

static inline int64_t product_stride(const struct product_dim *dim, enum product_operand operand) {
    return operand == PRODUCT_A ? dim->a : operand == PRODUCT_B ? dim->b : dim->c;
}

int64_t product_dims_size(const struct product_dims *dims);
bool product_dims_linear(const struct product_dims *dims, enum product_operand operand,
                         int64_t *step);

/* Byte offsets of the parts of the scratch memory. */
struct product_scratch {
    int64_t b, a, sums, rows, columns, total;
};
void product_layout(const struct product_plan *plan, struct product_scratch *scratch);

int64_t product_k_rows(const struct product_plan *plan); /* of k in one block */
int64_t product_a_row(const struct product_plan *plan);  /* elements of a row of packed A */
int64_t product_m_blocks(const struct product_plan *plan);
int64_t product_n_blocks(const struct product_plan *plan);

#endif
