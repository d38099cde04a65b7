/* Times products as emitted: products [-t THREADS] [-a FILE] TYPE M N K [ta] [tb]
 * prints GFLOP/s, the share of the processor's peak, compile time, blocks, units and scratch. -a
 * writes the assembly. On one thread every part of the work counts with the best of its times, so
 * that what else the machine does falls out; on several, the whole does. The peak is that of
 * multiply-adds in registers, measured in between. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/matmul_testing.h"

enum { MOST_THREADS = 64, MOST_PARTS = 1024 };

/* ---- the peak ---- */

enum { CHAINS = 12, PEAK_STEPS = 20000 };
typedef void peak_function(int64_t steps, void *sums);

/* void peak(i64 steps, ptr sums): CHAINS chains of multiply-adds, a vector each. */
static peak_function *compile_peak(enum element_type type, struct cpu_jit **jit, int *lanes) {
    struct testing_module t = testing_begin();
    struct cpu_builder *b = &t.b;
    *lanes = t.target.vector_bytes / element_type_size(type);
    LLVMTypeRef vector = matmul_vector_type(b, type, *lanes);
    LLVMTypeRef types[] = {ir_i64(b), ir_pointer(b)};
    LLVMTypeRef signature = LLVMFunctionType(LLVMVoidTypeInContext(b->context), types, 2, false);
    LLVMValueRef function = LLVMAddFunction(b->module, "peak", signature), sums[CHAINS];
    cpu_mark_function(b, function);
    matmul_mark_wide(b, &t.target, function);
    LLVMPositionBuilderAtEnd(b->builder, LLVMAppendBasicBlockInContext(b->context, function, ""));
    LLVMValueRef to = LLVMGetParam(function, 1);
    int bytes = *lanes * element_type_size(type);
    LLVMValueRef x = ir_load(b, vector, to, bytes);
    for (int i = 0; i < CHAINS; i++)
        sums[i] = ir_load(b, vector, ir_atk(b, to, i * bytes), bytes);
    struct ir_carrying loop =
        ir_carrying_begin(b, ir_k(b, 0), LLVMGetParam(function, 0), 1, CHAINS, sums);
    for (int i = 0; i < CHAINS; i++)
        sums[i] = matmul_multiply_add(b, x, x, sums[i]);
    ir_carrying_end(b, &loop, sums);
    for (int i = 0; i < CHAINS; i++)
        ir_store(b, sums[i], ir_atk(b, to, i * bytes), bytes);
    LLVMBuildRetVoid(b->builder);
    void *run = testing_end(&t, "peak", jit, NULL);
    return (peak_function *)(uintptr_t)run;
}

/* Time slices of others do not count, where the system's clock for that is fine enough. */
static double now(bool coarse) {
    struct timespec t;
    clock_gettime(coarse ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_least(double *least, double value) {
    if (value < *least) *least = value;
}

static double time_peak(peak_function *peak) {
    static char sums[CHAINS * 64] __attribute__((aligned(64)));
    double start = testing_now();
    peak(PEAK_STEPS, sums);
    return testing_now() - start;
}

/* ---- the product ---- */

struct share {
    struct compiled_product *p;
    void *a, *b, *c, *scratch;
    int64_t begin, end;
};

static void *work(void *data) {
    struct share *s = data;
    if (s->begin < s->end) s->p->run(s->a, s->b, s->c, s->scratch, s->begin, s->end);
    return NULL;
}

static double on_threads(struct share *shares, int threads) {
    pthread_t ids[MOST_THREADS];
    double start = testing_now();
    for (int i = 1; i < threads; i++)
        pthread_create(&ids[i], NULL, work, &shares[i]);
    work(&shares[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    return testing_now() - start;
}

/* Units that share what is packed stay together. */
static double in_parts(const struct share *all, double *least) {
    const struct product_plan *plan = &all->p->plan;
    bool coarse = (double)plan->m * (double)plan->n * (double)plan->k > 1e8;
    int64_t step = plan->shares_b ? (plan->m + plan->m_block - 1) / plan->m_block : 1;
    if (step < (plan->units + MOST_PARTS - 1) / MOST_PARTS) step = plan->units / MOST_PARTS + 1;
    double spent = 0;
    int part = 0;
    for (int64_t at = 0; at < plan->units; at += step, part++) {
        struct share share = *all;
        share.begin = at;
        share.end = at + step < plan->units ? at + step : plan->units;
        double start = now(coarse);
        work(&share);
        double time = now(coarse) - start;
        spent += time;
        keep_least(&least[part], time);
    }
    return spent;
}

/* In huge pages, as the program's own runner has them. */
static void *buffer(int64_t bytes) {
    enum { HUGE_PAGE = 2 << 20 };
    size_t size = ((size_t)bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    char *p = aligned_alloc(HUGE_PAGE, size);
    if (!p) abort();
    madvise(p, size, MADV_HUGEPAGE);
    memset(p, 0, (size_t)bytes);
    return p;
}

static void fill(enum element_type type, void *data, int64_t count) {
    if (type == TYPE_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)data)[i] = (float)(i % 5);
}

/* Best of several: seconds for the product and for a run of the peak loop. */
static double measure(struct share *shares, int threads, peak_function *peak, double *peak_time) {
    enum { MOST_ROUNDS = 400, LEAST_ROUNDS = 10 };
    static double least[MOST_PARTS];
    double whole = 1e9, spent = 0;
    for (int i = 0; i < MOST_PARTS; i++)
        least[i] = 1e9;
    for (int i = 0; i < MOST_ROUNDS && (spent < 1 || i < LEAST_ROUNDS); i++) {
        keep_least(peak_time, time_peak(peak));
        double time = threads == 1 ? in_parts(&shares[0], least) : on_threads(shares, threads);
        spent += time;
        keep_least(&whole, time);
    }
    if (threads > 1) return whole;
    whole = 0;
    for (int i = 0; i < MOST_PARTS && least[i] < 1e9; i++)
        whole += least[i];
    return whole;
}

int main(int argc, char **argv) {
    int threads = 1, option, lanes;
    const char *file = NULL;
    while ((option = getopt(argc, argv, "t:a:")) != -1) {
        if (option == 't') threads = atoi(optarg);
        if (option == 'a') file = optarg;
    }
    argv += optind, argc -= optind;
    if (argc < 4 || threads < 1 || threads > MOST_THREADS) return 2;
    enum element_type type = element_type_from_name(argv[0], strlen(argv[0]));
    int64_t m = atoll(argv[1]), n = atoll(argv[2]), k = atoll(argv[3]);
    bool ta = false, tb = false;
    for (int i = 4; i < argc; i++) {
        ta |= strcmp(argv[i], "ta") == 0;
        tb |= strcmp(argv[i], "tb") == 0;
    }
    enum element_type sums = type == TYPE_S8 ? TYPE_S32 : type;
    struct product_spec spec = {.a_type = type, .b_type = type, .c_type = sums};
    spec.m = (struct product_dims){1, {{m, ta ? 1 : k, 0, n}}};
    spec.n = (struct product_dims){1, {{n, 0, tb ? k : 1, 1}}};
    spec.k = (struct product_dims){1, {{k, ta ? m : 1, tb ? 1 : n, 0}}};
    struct compiled_product p = testing_compile(&spec, NULL, file != NULL, NULL);
    if (file) {
        FILE *f = fopen(file, "w");
        if (!f) return 1;
        fputs(p.assembly, f);
        fclose(f);
    }
    struct share shares[MOST_THREADS];
    int size = element_type_size(type);
    void *a = buffer(m * k * size), *b = buffer(k * n * size);
    void *c = buffer(m * n * element_type_size(sums));
    fill(type, a, m * k);
    for (int i = 0; i < threads; i++) {
        int64_t begin = p.plan.units * i / threads, end = p.plan.units * (i + 1) / threads;
        shares[i] = (struct share){&p, a, b, c, buffer(p.plan.scratch), begin, end};
    }
    shares[0].end = threads == 1 ? p.plan.units : shares[0].end;
    struct cpu_jit *peak_jit;
    peak_function *peak = compile_peak(p.plan.type, &peak_jit, &lanes);
    double peak_time = 1e9, best = measure(shares, threads, peak, &peak_time);
    double rate = 2e-9 * (double)m * (double)n * (double)k / best;
    double most = 2e-9 * CHAINS * PEAK_STEPS * lanes / peak_time;
    printf("%-5s %5ldx%5ldx%5ld%s%s t%d: %8.2f GFLOP/s %5.1f %% of %.1f, %9.3f ms, compile %5.1f "
           "ms, tile %dx%d, blocks %ldx%ldx%ld, A %d, units %ld, scratch %ld K\n",
           argv[0], m, n, k, ta ? " ta" : "", tb ? " tb" : "", threads, rate,
           100 * rate / (most * threads), most * threads, 1e3 * best, p.compile_ms, p.plan.rows,
           p.plan.vectors * p.plan.lanes, p.plan.m_block, p.plan.n_block, p.plan.k_block,
           (int)p.plan.a_mode, p.plan.units, p.plan.scratch >> 10);
    testing_free(&p);
    cpu_jit_free(peak_jit);
    return 0;
}
