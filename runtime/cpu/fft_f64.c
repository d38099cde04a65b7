/* Fourier transforms in double. */
#define REAL double
#define LANES 4
#define WIDE true
#define NAME(name) name##_f64

#include "runtime/cpu/fft_cells.h"

#include "runtime/cpu/fft_core.h"
#include "runtime/cpu/fft_lines.h"
