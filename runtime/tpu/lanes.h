/* Loops over lanes, compiled several times: the loader picks what the processor offers. */
#ifndef RUNTIME_TPU_LANES_H
#define RUNTIME_TPU_LANES_H

#include "runtime/tpu/machine.h"

/* Sanitizers start later than the resolvers that clones need. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TPU_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TPU_CLONES
#endif

#endif
