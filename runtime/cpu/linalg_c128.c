/* Linear algebra in complex double. */
#pragma GCC optimize("O3") /* the loops along rows as vectors */

#define SINGLE 0
#define PARTS 2
#define KERNELS hlocc_rt_linalg_c128

#include "runtime/cpu/linalg_kernels.h"
