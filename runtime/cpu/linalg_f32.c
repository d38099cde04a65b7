/* Linear algebra in float. */
#pragma GCC optimize("O3") /* the loops along rows as vectors */

#define SINGLE 1
#define PARTS 1
#define KERNELS hlocc_rt_linalg_f32

#include "runtime/cpu/linalg_kernels.h"
