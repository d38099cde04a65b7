/* Fifty training steps of a compiled network: results go back in as the next step's parameters and
 * optimiser state. train CASE LOSSES: the folder of the recorded case, and XLA's losses of the same
 * steps; each must be met to 1 %. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { ARRAYS = 27, STATE = 25, LOSS = 25, STEPS = 50 };

/* The data of a .npy file of version 1, in memory aligned to 64. */
static void *read_array(const char *folder, int number, size_t *size) {
    char path[4096];
    unsigned char head[10];
    snprintf(path, sizeof path, "%s/in.%d.npy", folder, number);
    FILE *file = fopen(path, "rb");
    if (!file || fread(head, 1, sizeof head, file) != sizeof head) return NULL;
    long start = 10 + head[8] + 256 * head[9];
    fseek(file, 0, SEEK_END);
    *size = (size_t)(ftell(file) - start);
    void *data = aligned_alloc(64, (*size / 64 + 1) * 64);
    fseek(file, start, SEEK_SET);
    if (data && fread(data, 1, *size, file) != *size) data = NULL;
    fclose(file);
    return data;
}

int main(int argc, char **argv) {
    void *in[ARRAYS], *out[ARRAYS];
    void *workspace = aligned_alloc(64, (train_workspace_size / 64 + 1) * 64);
    FILE *losses = argc == 3 ? fopen(argv[2], "r") : NULL;
    float loss = 0, first = 0;
    if (!losses || !workspace) return 2;
    for (int i = 0; i < ARRAYS; i++) {
        size_t size = 0;
        in[i] = read_array(argv[1], i, &size);
        out[i] = aligned_alloc(64, (size / 64 + 1) * 64);
        if (!in[i] || !out[i]) return 2;
    }
    for (int step = 0; step < STEPS; step++) {
        double want;
        int status = train((const void *const *)in, out, workspace);
        if (status || fscanf(losses, "%lf", &want) != 1) return 2;
        memcpy(&loss, out[LOSS], sizeof loss);
        if (step == 0) first = loss;
        if (!(fabs(loss - want) <= 0.01 * want)) {
            printf("step %d: loss %g, want %g\n", step, (double)loss, want);
            return 1;
        }
        for (int i = 0; i < STATE; i++) {
            void *swap = in[i];
            in[i] = out[i];
            out[i] = swap;
        }
    }
    printf("loss %.2f, then %.4f\n", (double)first, (double)loss);
    return loss < first ? 0 : 1;
}
