/* Calls a compiled program (testdata/golden/interface.hlo) with arguments right and wrong. With w a
 * permutation of rows, every result is exact: n[i][j] = x[i][j] + x[i][(j+2) mod 64]. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { N = 64, THREADS = 8, CALLS = 200 };

static float w[N][N];

static void fill(float x[N][N], int seed) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            x[i][j] = (float)((i * 31 + j * 7 + seed) % 1000);
}

static int is_right(float n[N][N], const float s[N], int seed) {
    static _Thread_local float x[N][N];
    fill(x, seed);
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int j = 0; j < N; j++) {
            sum += x[i][j];
            if (n[i][j] != x[i][j] + x[i][(j + 2) % N]) return 0;
        }
        if (s[i] != sum) return 0;
    }
    return 1;
}

static void *new_workspace(void) {
    return aligned_alloc(64, (model_workspace_size / 64 + 1) * 64);
}

static void *call_often(void *result) {
    static _Thread_local float x[N][N], n[N][N], s[N];
    void *workspace = new_workspace();
    int seed = (int)(size_t)pthread_self() & 255, right = 1;
    for (int i = 0; i < CALLS; i++) {
        fill(x, seed + i);
        const void *in[] = {x, w};
        void *out[] = {n, s};
        right = right && model(in, out, workspace) == 0 && is_right(n, s, seed + i);
    }
    free(workspace);
    *(int *)result = right;
    return NULL;
}

int main(void) {
    static float x[N][N], n[N][N], s[N];
    for (int j = 0; j < N; j++)
        w[(j + 1) % N][j] = 1;
    void *workspace = new_workspace();
    const void *in[] = {x, w}, *lacking[] = {x, NULL};
    void *out[] = {n, s}, *short_of[] = {NULL, s};
    printf("codes: %d", model(NULL, out, workspace));
    printf(" %d", model(in, NULL, workspace));
    printf(" %d", model(lacking, out, workspace));
    printf(" %d", model(in, short_of, workspace));
    printf(" %d", model(in, out, NULL));
    printf(" %d", model(in, out, (char *)workspace + 8));
    printf(" %d\n", model(in, out, workspace));
    fill(x, 5);
    void *over[] = {x, s};
    int status = model(in, over, workspace);
    printf("in place: %s\n", status == 0 && is_right(x, s, 5) ? "right" : "WRONG");
    pthread_t threads[THREADS];
    int right[THREADS], all = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, call_often, &right[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all = all && right[i];
    }
    printf("%d threads: %s\n", THREADS, all ? "right" : "WRONG");
    free(workspace);
    return 0;
}
