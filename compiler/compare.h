/* When a computed array counts as equal to a recorded one. */
#ifndef COMPILER_COMPARE_H
#define COMPILER_COMPARE_H

#include "ir/literal.h"

struct comparison {
    bool equal;
    int64_t index; /* the worst element, row-major */
    double excess; /* its error over the allowed one; infinity where no error is allowed */
    double error, allowed;
    char got[64], want[64];
};

/* Tolerance of a type where the case names none: 1e-5 for f32 and c64, 1e-12 for f64 and c128,
 * 1e-2 for narrower floats, 0 for the rest. */
double compare_default_tolerance(enum element_type type);

/* Integers and booleans, NaN-ness and infinities must be equal; floats within
 * tolerance * max(|want|, min(1, largest |want| of the array)), or 1e-6 where all of want is 0.
 * Shapes must be compatible. tolerance < 0: the default. */
struct comparison compare_arrays(const struct literal *got, const struct literal *want,
                                 double tolerance);

#endif
