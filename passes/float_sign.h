/* Which side of zero a float is known to be on, from how it is computed. */
#ifndef PASSES_FLOAT_SIGN_H
#define PASSES_FLOAT_SIGN_H

#include "ir/hlo.h"

/* Every element of a float array is <= 0 or NaN: what is below the greatest of its row, minus a
 * square, and the like. False where it does not show. */
bool instr_is_never_positive(const struct hlo_instr *instr);
/* The same for >= 0 or NaN. */
bool instr_is_never_negative(const struct hlo_instr *instr);

#endif
