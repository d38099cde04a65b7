/* Products on the matrix units: dots and convolutions as C[b][m][n] = sum over k of A[b][m][k] *
 * B[b][k][n]. Operands are laid out in VMEM as the units want them, lane tile by lane tile. */
#ifndef BACKEND_TPU_PRODUCT_H
#define BACKEND_TPU_PRODUCT_H

#include "backend/tpu/lower.h"

struct product {
    const struct hlo_instr *instr;
    int64_t batches, m, n, k;
    bool swapped; /* operand 0 gives n, operand 1 gives m */
    int parts;    /* of f32 operands: 1, 2 or 3 */
};

/* False where the matrix units are not used: integers, complex numbers, many small groups. */
bool product_find(struct product *p, const struct hlo_instr *instr,
                  const struct tpu_compile_options *options);
/* Index into operand `operand` of the element (batch, free, k), free being its m or n; *inside (a
 * mask, 0: all) where there is one. */
void product_operand_index(struct kernel *k, const struct product *p, int operand, struct ix batch,
                           struct ix free, struct ix sum, struct ix *index, treg *inside);
/* The batch, m and n of a place of the result. */
void product_result_place(struct kernel *k, const struct product *p, const struct ix *index,
                          struct ix *batch, struct ix *m, struct ix *n);
/* Large products of whole tiles; *taken: it was one. False with an error in diag. */
bool lower_matmul(struct lower *lower, const struct product *p, bool *taken);

#endif
