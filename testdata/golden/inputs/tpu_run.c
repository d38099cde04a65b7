/* A TPU program file run without the compiler: tpu_run FILE.tpu, inputs all ones. Prints the first
 * word of each result and what the run took. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tpu/tpu.h"

static size_t host_bytes(const struct tpu_array *array) {
    size_t bytes = (size_t)array->host_bytes;
    for (int i = 0; i < array->rank; i++)
        bytes *= (size_t)array->dims[i];
    return bytes;
}

int main(int argc, char **argv) {
    static char file[1 << 20];
    static void *arrays[64];
    struct tpu_error error;
    struct tpu_stats stats;
    FILE *in = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!in) return 2;
    size_t size = fread(file, 1, sizeof file, in);
    fclose(in);
    struct tpu_executable *executable = tpu_load(file, size, &error);
    if (!executable) return puts(error.text), 1;
    const struct tpu_program *program = tpu_executable_program(executable);
    if (program->params + program->results > 64) return 2;
    for (uint32_t i = 0; i < program->params; i++) {
        float one = 1;
        size_t bytes = host_bytes(&program->param[i]);
        arrays[i] = malloc(bytes);
        for (size_t at = 0; at + 4 <= bytes; at += 4)
            memcpy((char *)arrays[i] + at, &one, 4);
    }
    for (uint32_t i = 0; i < program->results; i++)
        arrays[program->params + i] = calloc(1, host_bytes(&program->result[i]) + 4);
    int status = tpu_execute(executable, (const void *const *)arrays, arrays + program->params,
                             NULL, &stats, &error);
    if (status != 0) puts(error.text);
    for (uint32_t i = 0; i < program->results && status == 0; i++) {
        float first;
        memcpy(&first, arrays[program->params + i], 4);
        printf("result %u: %s, %g\n", i, program->result[i].type, first);
    }
    if (status == 0)
        printf("%s: %llu cycles\n", program->chip.name, (unsigned long long)stats.cycles);
    for (int i = 0; i < 64; i++)
        free(arrays[i]);
    if (status == 0) tpu_stats_clear(&stats);
    tpu_unload(executable);
    return status != 0;
}
