/* Kernels of compiled programs over the threads of the pool. */
#ifndef RUNTIME_CPU_PARALLEL_KERNEL_H
#define RUNTIME_CPU_PARALLEL_KERNEL_H

#include <stdint.h>

typedef void hlocc_rt_kernel(void *const *buffers, void *scratch, int64_t begin, int64_t end);

/* Runs the kernel's units [0, units) on up to `shares` threads, about as many on each, with scratch
 * of their own, scratch_stride bytes apart. What is computed does not depend on shares. `work`:
 * about how many operations that are. */
void hlocc_rt_parallel_kernel(hlocc_rt_kernel *kernel, void *const *buffers, void *scratch,
                              int64_t scratch_stride, int64_t units, int64_t shares, int64_t work);

#endif
