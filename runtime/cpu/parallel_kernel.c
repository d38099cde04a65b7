#include "runtime/cpu/parallel_kernel.h"

#include <stdatomic.h>

#include "runtime/cpu/thread_pool.h"

/* The last quarter of each share is cut to so many pieces, for whoever is done first: threads are
 * held up by what else the machine does. */
enum { PIECES = 4 };
/* Operations, or bytes, that take several times as long as to wake a thread. */
enum { WAKE_WORK = 1 << 18 };

struct job {
    hlocc_rt_kernel *kernel;
    void *const *buffers;
    char *scratch;
    int64_t stride, units, shares;
    atomic_llong next; /* first piece that nobody has taken */
};

static int64_t share_begin(const struct job *job, int64_t share) {
    int64_t whole = job->units / job->shares, rest = job->units % job->shares;
    return share * whole + (share < rest ? share : rest);
}

/* Where the pieces of a share begin. */
static int64_t pieces_begin(int64_t begin, int64_t end) {
    return end - (end - begin) / 4;
}

static void run_share(void *context, int64_t index) {
    struct job *job = context;
    char *scratch = job->scratch + index * job->stride;
    int64_t begin = share_begin(job, index), end = share_begin(job, index + 1);
    job->kernel(job->buffers, scratch, begin, pieces_begin(begin, end));
    for (;;) {
        int64_t piece = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (piece >= job->shares * PIECES) return;
        int64_t share = piece % job->shares, part = piece / job->shares;
        end = share_begin(job, share + 1);
        begin = pieces_begin(share_begin(job, share), end);
        int64_t from = begin + (end - begin) * part / PIECES;
        int64_t to = begin + (end - begin) * (part + 1) / PIECES;
        if (from < to) job->kernel(job->buffers, scratch, from, to);
    }
}

void hlocc_rt_parallel_kernel(hlocc_rt_kernel *kernel, void *const *buffers, void *scratch,
                              int64_t scratch_stride, int64_t units, int64_t shares, int64_t work) {
    if (shares > hlocc_rt_processors()) shares = hlocc_rt_processors();
    if (shares <= 1) {
        kernel(buffers, scratch, 0, units);
        return;
    }
    struct job job = {kernel, buffers, scratch, scratch_stride, units, shares, 0};
    hlocc_rt_parallel(run_share, &job, shares, (int)shares, work >= WAKE_WORK);
}
