/* Reducers that pick one of two tuples by comparing them, as argmax does: which of them may be
 * applied in any order. */
#ifndef BACKEND_CPU_PICK_REDUCER_H
#define BACKEND_CPU_PICK_REDUCER_H

#include "ir/hlo.h"

enum pick_order {
    PICK_IN_ORDER,    /* not known to be of this kind */
    PICK_ANY_ORDER,   /* any order, any grouping, and repetitions give the same */
    PICK_ANY_BUT_NAN, /* the same as long as the first leaf of the result is not NaN; it is NaN
                       * where the first leaf of any element is */
};

/* The reducer takes the leaves of one element, then those of another. It may only compare, select
 * and combine truth values: then what it does depends on the order of three elements at most, and
 * trying all orders of small numbers (NaN and both zeros among them) proves the laws. */
enum pick_order pick_reducer_order(const struct hlo_computation *reducer);

#endif
