#include "compiler/tpu_file.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/target_tpu.h"

bool tpu_file_is(const char *path) {
    char start[8] = "";
    FILE *file = strcmp(path, "-") == 0 ? NULL : fopen(path, "rb");
    if (!file) return false;
    size_t got = fread(start, 1, sizeof start, file);
    fclose(file);
    return got == sizeof start && memcmp(start, "HLOCCTPU", sizeof start) == 0;
}

/* NULL where the array is none that a literal can be. */
static const struct shape *shape_of(struct shape_table *table, const struct tpu_array *array) {
    enum element_type type = element_type_from_name(array->type, strlen(array->type));
    if (!element_type_is_array(type) || element_type_size(type) != array->host_bytes) return NULL;
    return shape_array(table, type, array->rank, array->dims);
}

static bool read_shapes(struct tpu_file *file, struct fault *fault) {
    const struct tpu_program *program = tpu_executable_program(file->executable);
    struct shape_table *table = shape_table_new(file->arena);
    if (program->cores != 1) return fault_set(fault, "a program for %u cores", program->cores);
    file->params = (int)program->params;
    file->param = arena_array(file->arena, program->params + 1, sizeof *file->param);
    const struct shape **results = arena_array(file->arena, program->results + 1, sizeof *results);
    bool ok = true;
    for (uint32_t i = 0; i < program->params; i++)
        ok = (file->param[i] = shape_of(table, &program->param[i])) && ok;
    for (uint32_t i = 0; i < program->results; i++)
        ok = (results[i] = shape_of(table, &program->result[i])) && ok;
    if (!ok) return fault_set(fault, "parameters or results of types that HLO lacks");
    file->result = shape_tuple(table, (int)program->results, results);
    return true;
}

bool tpu_file_open(struct tpu_file *file, const char *path, struct fault *fault) {
    struct bytes bytes;
    struct tpu_error error = {""};
    memset(file, 0, sizeof *file);
    if (!file_read(path, &bytes, fault)) return false;
    file->arena = arena_new();
    file->executable = tpu_load(bytes.data, bytes.size, &error);
    free(bytes.data);
    bool ok = file->executable ? read_shapes(file, fault) : fault_set(fault, "%s", error.text);
    if (!ok) tpu_file_close(file);
    return ok;
}

struct literal *tpu_file_run(struct tpu_file *file, struct literal *const *inputs,
                             const char *trace, struct fault *fault) {
    struct tpu_error error = {"out of memory"};
    int count = file->result->ntuple;
    struct literal *result = literal_new(file->result);
    const void **in = calloc((size_t)file->params + 1, sizeof *in);
    void **out = calloc((size_t)count + 1, sizeof *out);
    int status = -1;
    if (result && in && out) {
        for (int i = 0; i < file->params; i++)
            in[i] = inputs[i]->data;
        for (int i = 0; i < count; i++)
            out[i] = result->elements[i]->data;
        status = tpu_execute_traced(file->executable, in, out, trace, &file->stats, &error);
    }
    free(in);
    free(out);
    if (status == 0) return result;
    fault_set(fault, "%s", error.text);
    literal_unref(result);
    return NULL;
}

void tpu_file_close(struct tpu_file *file) {
    tpu_stats_clear(&file->stats);
    tpu_unload(file->executable);
    arena_free(file->arena);
    memset(file, 0, sizeof *file);
}
