/* What the C programs of the tests share: the arrays of a recorded case, which are our own files.
 */
#ifndef ARRAYS_H
#define ARRAYS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arrays {
    int count;
    void **data;
    size_t *size; /* bytes */
};

/* DIR/STEM.K.npy from K = 0 on. */
static void read_arrays(struct arrays *arrays, const char *directory, const char *stem, int count) {
    arrays->count = count;
    arrays->data = calloc((size_t)count + 1, sizeof(void *));
    arrays->size = calloc((size_t)count + 1, sizeof(size_t));
    for (int i = 0; i < count; i++) {
        char path[4096];
        unsigned char head[10];
        snprintf(path, sizeof path, "%s/%s.%d.npy", directory, stem, i);
        FILE *file = fopen(path, "rb");
        if (!file || fread(head, 1, 10, file) != 10) {
            fprintf(stderr, "%s: cannot be read\n", path);
            exit(1);
        }
        long start = 10 + head[8] + 256L * head[9];
        fseek(file, 0, SEEK_END);
        arrays->size[i] = (size_t)(ftell(file) - start);
        arrays->data[i] = aligned_alloc(64, (arrays->size[i] / 64 + 1) * 64);
        fseek(file, start, SEEK_SET);
        if (fread(arrays->data[i], 1, arrays->size[i], file) != arrays->size[i]) exit(1);
        fclose(file);
    }
}

static void free_arrays(struct arrays *arrays) {
    for (int i = 0; i < arrays->count; i++)
        free(arrays->data[i]);
    free(arrays->data);
    free(arrays->size);
}

static void *new_workspace(size_t size) {
    return aligned_alloc(64, (size / 64 + 1) * 64);
}

#endif
