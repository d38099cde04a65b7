/* What the processor can do: fused multiply-adds of f32 a second, and bytes copied a second (read
 * and written, both counted), by one thread. Prints both, in 1e9. Built for the machine at hand: cc
 * -O3 -march=native testdata/bench/machine.c -o machine */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAINS = 12, LANES = 8, STEPS = 200000, TRIES = 20, BYTES = 64 << 20 };

typedef float vector __attribute__((vector_size(4 * LANES)));

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Independent chains, so that latency does not show. */
static double multiply_adds(void) {
    vector sum[CHAINS], scale = {0}, step = {0};
    for (int l = 0; l < LANES; l++) {
        scale[l] = 0.999f;
        step[l] = 0.001f;
    }
    volatile float seed = 1; /* so that no two chains are known to be the same */
    for (int k = 0; k < CHAINS; k++)
        for (int l = 0; l < LANES; l++)
            sum[k][l] = seed * (float)(k * LANES + l);
    double start = now();
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < CHAINS; k++)
            sum[k] = sum[k] * scale + step; /* contracted to one operation */
    }
    double seconds = now() - start;
    volatile float keep = 0;
    for (int k = 0; k < CHAINS; k++)
        keep += sum[k][0];
    return 2.0 * CHAINS * LANES * STEPS / seconds;
}

static double copied(char *to, const char *from) {
    double start = now();
    memcpy(to, from, BYTES);
    __asm__ volatile("" : : "r"(to) : "memory");
    return 2.0 * BYTES / (now() - start);
}

int main(void) {
    char *from = malloc(BYTES), *to = malloc(BYTES);
    double flops = 0, bytes = 0;
    if (!from || !to) return 1;
    memset(from, 1, BYTES);
    memset(to, 1, BYTES);
    for (int i = 0; i < TRIES; i++) {
        double f = multiply_adds(), b = copied(to, from);
        flops = f > flops ? f : flops;
        bytes = b > bytes ? b : bytes;
    }
    printf("%.1f %.1f\n", flops * 1e-9, bytes * 1e-9);
    free(from);
    free(to);
    return 0;
}
