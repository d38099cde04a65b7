/* Runs a compiled program again and again, each time into fresh memory, and compares every byte.
 *   repeat CASE_DIR RUNS OUT       OUT: a file for the results' bytes
 */
#include "arrays.h"
#include "model.h"

static void fill(void *data, size_t size, int value) {
    memset(data, value, size);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct arrays in, first, out;
    read_arrays(&in, argv[1], "in", model_input_count);
    read_arrays(&first, argv[1], "out", model_output_count);
    read_arrays(&out, argv[1], "out", model_output_count);
    void *workspace = new_workspace(model_workspace_size);
    int runs = atoi(argv[2]), differing = 0;
    for (int run = 0; run < runs; run++) {
        struct arrays *to = run ? &out : &first;
        fill(workspace, model_workspace_size, 37 * run);
        for (int i = 0; i < to->count; i++)
            fill(to->data[i], to->size[i], 91 * run);
        if (model((const void *const *)in.data, to->data, workspace)) return 1;
        for (int i = 0; run && i < to->count; i++)
            differing += memcmp(first.data[i], out.data[i], out.size[i]) != 0;
    }
    FILE *file = fopen(argv[3], "wb");
    for (int i = 0; file && i < first.count; i++)
        fwrite(first.data[i], 1, first.size[i], file);
    if (!file || fclose(file)) return 1;
    printf("%d runs, %d results differ\n", runs, differing);
    free_arrays(&in);
    free_arrays(&first);
    free_arrays(&out);
    free(workspace);
    return differing != 0;
}
