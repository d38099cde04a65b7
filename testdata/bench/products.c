/* Times products as emitted: products [-t THREADS] [-a FILE] TYPE M N K [ta] [tb]
 * prints GFLOP/s (best of several), compile time, units and scratch. -a writes the assembly. */
#include <pthread.h>
#include <unistd.h>

#include "backend/cpu/matmul_testing.h"

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

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double once(struct share *shares, int threads) {
    pthread_t ids[64];
    if (threads == 1) { /* the time of others on the machine does not count */
        double start = cpu_now();
        work(&shares[0]);
        return cpu_now() - start;
    }
    double start = testing_now();
    for (int i = 1; i < threads; i++)
        pthread_create(&ids[i], NULL, work, &shares[i]);
    work(&shares[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    return testing_now() - start;
}

static void *buffer(int64_t bytes) {
    char *p = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(p, 0, (size_t)bytes);
    return p;
}

int main(int argc, char **argv) {
    int threads = 1, option;
    const char *file = NULL;
    while ((option = getopt(argc, argv, "t:a:")) != -1) {
        if (option == 't') threads = atoi(optarg);
        if (option == 'a') file = optarg;
    }
    argv += optind, argc -= optind;
    if (argc < 4) return 2;
    enum element_type type = element_type_from_name(argv[0], strlen(argv[0]));
    int64_t m = atoll(argv[1]), n = atoll(argv[2]), k = atoll(argv[3]);
    bool ta = false, tb = false;
    for (int i = 4; i < argc; i++) {
        ta |= strcmp(argv[i], "ta") == 0;
        tb |= strcmp(argv[i], "tb") == 0;
    }
    struct product_spec spec = {.a_type = type, .b_type = type, .c_type = type};
    spec.m = (struct product_dims){1, {{m, ta ? 1 : k, 0, n}}};
    spec.n = (struct product_dims){1, {{n, 0, tb ? k : 1, 1}}};
    spec.k = (struct product_dims){1, {{k, ta ? m : 1, tb ? 1 : n, 0}}};
    struct compiled_product p = testing_compile(&spec, NULL, file != NULL);
    if (file) {
        FILE *f = fopen(file, "w");
        fputs(p.assembly, f);
        fclose(f);
    }
    struct share shares[64];
    int size = element_type_size(type);
    void *a = buffer(m * k * size), *b = buffer(k * n * size), *c = buffer(m * n * size);
    if (type == TYPE_F32)
        for (int64_t i = 0; i < m * k; i++)
            ((float *)a)[i] = (float)(i % 5);
    for (int i = 0; i < threads; i++)
        shares[i] = (struct share){&p,
                                   a,
                                   b,
                                   c,
                                   buffer(p.plan.scratch),
                                   p.plan.units * i / threads,
                                   p.plan.units * (i + 1) / threads};
    double best = 1e9, spent = 0;
    for (int i = 0; i < 200 && (spent < 1 || i < 5); i++) {
        double t = once(shares, threads);
        spent += t;
        if (t < best) best = t;
    }
    printf("%-5s %5ldx%5ldx%5ld%s%s t%d: %8.2f GFLOP/s %9.3f ms, compile %5.1f ms, tile %dx%d, "
           "blocks %ldx%ldx%ld, A %d, units %ld, scratch %ld K\n",
           argv[0], m, n, k, ta ? " ta" : "", tb ? " tb" : "", threads,
           2e-9 * (double)m * (double)n * (double)k / best, 1e3 * best, p.compile_ms, p.plan.rows,
           p.plan.vectors * p.plan.lanes, p.plan.m_block, p.plan.n_block, p.plan.k_block,
           (int)p.plan.a_mode, p.plan.units, p.plan.scratch >> 10);
    testing_free(&p);
    return 0;
}
