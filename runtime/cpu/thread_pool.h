/* The threads that compiled programs share. They are started at the first call that wants them and
 * stay; between calls they spin for some microseconds and then sleep. */
#ifndef RUNTIME_CPU_THREAD_POOL_H
#define RUNTIME_CPU_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* How many processors the program may run on, as it was at the first call: with more threads, some
 * wait for others. */
int hlocc_rt_processors(void);

typedef void hlocc_rt_task(void *context, int64_t index);

/* Runs task(context, i) once for each i in [0, count), on up to `threads` threads of which the
 * caller is one, and returns when all have ended. Which thread takes which i is open; the tasks
 * have the caller's floating-point mode (flushing of subnormals). Calls from several threads at
 * once, and from within a task, are fine: where the pool is busy, the caller does all the work.
 * `wake`: the work is worth some microseconds for waking threads that have gone to sleep; otherwise
 * those that still spin take part. */
void hlocc_rt_parallel(hlocc_rt_task *task, void *context, int64_t count, int threads, bool wake);

#endif
