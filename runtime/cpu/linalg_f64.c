/* Linear algebra in double. */
#pragma GCC optimize("O3") /* the loops along rows as vectors */

#define SINGLE 0
#define PARTS 1
#define KERNELS hlocc_rt_linalg_f64

#include "runtime/cpu/linalg_kernels.h"
