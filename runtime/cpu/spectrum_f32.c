/* Tridiagonal and bidiagonal matrices in float. */
#pragma GCC optimize("O3")

#define SINGLE 1
#define PARTS 1

#include "runtime/cpu/spectrum_core.h"
