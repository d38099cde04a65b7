/* One job at a time. A worker announces itself, then looks whether the job is open; the caller
 * closes the job, then waits until nobody is announced. Whichever order the two run in, no worker
 * touches a job whose caller has returned, and workers that come late are not waited for. */
#include "runtime/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_WORKERS = 255, SPINS = 2000 };

struct job {
    hlocc_rt_task *task;
    void *context;
    int64_t count;
    int workers;
    uint64_t float_mode;
};

static struct {
    pthread_mutex_t busy;  /* held by the caller whose job runs, and to start workers */
    pthread_mutex_t sleep; /* with `wake`: for workers that gave up spinning */
    pthread_cond_t wake;
    int workers;
    struct job job;
    atomic_bool open;
    atomic_llong next;      /* first index that nobody has taken */
    atomic_int announced;   /* workers that may be looking at the job */
    atomic_uint generation; /* of jobs */
    atomic_int sleepers;
    atomic_int processors; /* 0: not asked yet */
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .sleep = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER};

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint64_t float_mode_get(void) {
#if defined(__x86_64__)
    return _mm_getcsr();
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
#else
    return 0;
#endif
}

static void float_mode_set(uint64_t mode) {
#if defined(__x86_64__)
    _mm_setcsr((unsigned)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}

static void take_tasks(const struct job *job) {
    for (;;) {
        int64_t index = atomic_fetch_add(&pool.next, 1);
        if (index >= job->count) return;
        job->task(job->context, index);
    }
}

/* Returns when the generation is no longer `seen`. */
static void await_job(unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool.generation, memory_order_relaxed) != seen) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool.sleep);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.generation) == seen)
        pthread_cond_wait(&pool.wake, &pool.sleep);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.sleep);
}

static void *worker_main(void *argument) {
    int number = (int)(intptr_t)argument;
    unsigned seen = 0;
    for (;;) {
        await_job(seen);
        seen = atomic_load(&pool.generation);
        atomic_fetch_add(&pool.announced, 1);
        if (atomic_load(&pool.open) && number < pool.job.workers) {
            float_mode_set(pool.job.float_mode);
            take_tasks(&pool.job);
        }
        atomic_fetch_sub(&pool.announced, 1);
    }
    return NULL;
}

/* Workers take no signals: those are for the program's own threads. */
static void start_workers(int wanted) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (wanted > MAX_WORKERS) wanted = MAX_WORKERS;
    if (pool.workers >= wanted || pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, worker_main, (void *)(intptr_t)pool.workers))
            break; /* fewer threads do as well */
        pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void open_job(const struct job *job, bool wake) {
    pool.job = *job;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.open, true);
    atomic_fetch_add(&pool.generation, 1);
    if (wake && atomic_load(&pool.sleepers) > 0) {
        pthread_mutex_lock(&pool.sleep);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.sleep);
    }
}

static void close_job(void) {
    atomic_store(&pool.open, false);
    for (int i = 0; atomic_load(&pool.announced) > 0; i++) {
        if (i < SPINS)
            pause_briefly();
        else
            sched_yield();
    }
}

int hlocc_rt_processors(void) {
    int count = atomic_load_explicit(&pool.processors, memory_order_relaxed);
    if (count) return count;
    count = MAX_WORKERS + 1;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
    if (count < 1) count = 1;
#endif
    atomic_store_explicit(&pool.processors, count, memory_order_relaxed);
    return count;
}

void hlocc_rt_parallel(hlocc_rt_task *task, void *context, int64_t count, int threads, bool wake) {
    if (threads > count) threads = (int)count;
    if (threads <= 1 || pthread_mutex_trylock(&pool.busy)) {
        for (int64_t i = 0; i < count; i++)
            task(context, i);
        return;
    }
    start_workers(threads - 1);
    struct job job = {task, context, count, threads - 1, float_mode_get()};
    open_job(&job, wake);
    take_tasks(&job);
    close_job();
    pthread_mutex_unlock(&pool.busy);
}
