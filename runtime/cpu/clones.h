/* Functions that are compiled several times; the loader picks what the processor offers. Sanitizers
 * start later than the resolvers that this needs. */
#ifndef RUNTIME_CPU_CLONES_H
#define RUNTIME_CPU_CLONES_H

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
