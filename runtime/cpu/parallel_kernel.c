#include "runtime/cpu/parallel_kernel.h"

#include "runtime/cpu/thread_pool.h"

struct job {
    hlocc_rt_kernel *kernel;
    void *const *buffers;
    char *scratch;
    int64_t stride, units, shares;
};

static void run_share(void *context, int64_t index) {
    const struct job *job = context;
    int64_t whole = job->units / job->shares, rest = job->units % job->shares;
    int64_t begin = index * whole + (index < rest ? index : rest);
    int64_t end = begin + whole + (index < rest);
    job->kernel(job->buffers, job->scratch + index * job->stride, begin, end);
}

void hlocc_rt_parallel_kernel(hlocc_rt_kernel *kernel, void *const *buffers, void *scratch,
                              int64_t scratch_stride, int64_t units, int64_t shares) {
    struct job job = {kernel, buffers, scratch, scratch_stride, units, shares};
    hlocc_rt_parallel(run_share, &job, shares, (int)shares);
}
