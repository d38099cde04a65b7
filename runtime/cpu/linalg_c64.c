/* Linear algebra in complex float. */
#pragma GCC optimize("O3") /* the loops along rows as vectors */

#define SINGLE 1
#define PARTS 2
#define KERNELS hlocc_rt_linalg_c64

#include "runtime/cpu/linalg_kernels.h"
