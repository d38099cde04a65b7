/* A program around a compiled network: reads weights and one image from .npy files, calls the
 * object, and compares with the recorded answer. Knows nothing of the compiler but the header it
 * wrote. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnist.h"

enum { INPUTS = 9, CLASSES = 10, PIXELS = 28 };

/* The data of a version 1 .npy file of `count` floats (the folder is our own). */
static float *read_floats(const char *directory, const char *name, long *count) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    unsigned char head[10];
    if (!file || fread(head, 1, 10, file) != 10) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    long start = 10 + head[8] + 256L * head[9];
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file) - start;
    float *data = malloc((size_t)bytes + 1);
    fseek(file, start, SEEK_SET);
    if (!data || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) exit(1);
    fclose(file);
    *count = bytes / (long)sizeof *data;
    return data;
}

static int largest(const float *logits) {
    int best = 0;
    for (int i = 1; i < CLASSES; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

static void draw(const float *image) {
    for (int y = 0; y < PIXELS; y += 2) {
        for (int x = 0; x < PIXELS; x++) {
            float v = (image[y * PIXELS + x] + image[(y + 1) * PIXELS + x]) / 2;
            putchar(v > 0.75f ? '#' : v > 0.5f ? '+' : v > 0.25f ? '.' : ' ');
        }
        putchar('\n');
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const void *inputs[INPUTS];
    long count = 0;
    for (int i = 0; i < INPUTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "in.%d.npy", i);
        inputs[i] = read_floats(argv[1], name, &count);
    }
    float *recorded = read_floats(argv[1], "out.0.npy", &count);
    float logits[CLASSES];
    void *outputs[] = {logits};
    size_t size = (mnist_workspace_size + 63) / 64 * 64;
    void *workspace = aligned_alloc(64, size ? size : 64);
    int status = mnist(inputs, outputs, workspace);
    if (status) {
        fprintf(stderr, "mnist: error %d\n", status);
        return 1;
    }
    draw(inputs[8]);
    float worst = 0;
    printf("class   computed   recorded\n");
    for (int i = 0; i < CLASSES; i++) {
        printf("%5d %10.5f %10.5f%s\n", i, logits[i], recorded[i],
               i == largest(logits) ? "  <- predicted" : "");
        worst = fmaxf(worst, fabsf(logits[i] - recorded[i]));
    }
    int agrees = largest(logits) == largest(recorded) && worst < 1e-3f;
    printf("predicted %d, recorded %d, largest difference %.2g: %s\n", largest(logits),
           largest(recorded), worst, agrees ? "agrees" : "DIFFERS");
    for (int i = 0; i < INPUTS; i++)
        free((void *)inputs[i]);
    free(recorded);
    free(workspace);
    return !agrees;
}
