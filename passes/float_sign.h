/* What is known of floats from how they are computed: their sign, and more. */
#ifndef PASSES_FLOAT_SIGN_H
#define PASSES_FLOAT_SIGN_H

#include "ir/hlo.h"

/* Every element of a float array is <= 0 or NaN: what is below the greatest of its row, minus a
 * square, and the like. False where it does not show. */
bool instr_is_never_positive(const struct hlo_instr *instr);
/* The same for >= 0 or NaN. */
bool instr_is_never_negative(const struct hlo_instr *instr);
/* The divisor is above zero and the same for many elements, and neither leaves the range in which
 * the quotient comes out of a product with the divisor's reciprocal: a share of the sum of
 * exponentials, integers over a constant. */
bool divide_is_tame(const struct hlo_instr *divide);

#endif
