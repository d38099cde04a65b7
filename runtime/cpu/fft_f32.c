/* Fourier transforms in float. */
#define REAL float
#define LANES 8
#define WIDE false
#define NAME(name) name##_f32

#include "runtime/cpu/fft_cells.h"

#include "runtime/cpu/fft_core.h"
#include "runtime/cpu/fft_lines.h"
