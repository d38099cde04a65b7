/* What tests of linear algebra share: the types, random numbers, and calls of the kernels. */
#ifndef RUNTIME_CPU_LINALG_TESTING_H
#define RUNTIME_CPU_LINALG_TESTING_H

#include <complex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/number.h"

typedef double complex cplx;

static const int64_t types[] = {RT_F32, RT_F64, RT_C64, RT_C128};

/* The kernel on one thread, in scratch that is as large as it says: what follows stays as it is. */
static void run(hlocc_rt_routine *kernel, int64_t scratch_size(const int64_t *),
                const int64_t *config, void *const *arrays) {
    size_t size = (size_t)hlocc_rt_align(scratch_size(config) + 1);
    char *scratch = aligned_alloc(64, size + 64);
    assert_non_null(scratch);
    memset(scratch, 0x7f, size + 64);
    kernel(config, arrays, scratch, 0, 1);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[size + (size_t)i], 0x7f);
    free(scratch);
}
#define RUN(name, config, ...)                                                                     \
    run(hlocc_rt_##name, hlocc_rt_##name##_scratch, config, (void *[]){__VA_ARGS__})

#endif
