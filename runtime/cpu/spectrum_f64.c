/* Tridiagonal and bidiagonal matrices in double. */
#pragma GCC optimize("O3")

#define SINGLE 0
#define PARTS 1

#include "runtime/cpu/spectrum_core.h"
