#include "compiler/target_tpu.h"

#include <stdlib.h>

#include "backend/tpu/tpu.h"
#include "runtime/tpu/tpu.h"

static bool tpu_options_of(struct tpu_compile_options *tpu, const struct target_options *options,
                           struct diag *diag) {
    const char *chip = options->chip ? options->chip : "v2";
    char why[600];
    *tpu = (struct tpu_compile_options){.matmul_precision = options->matmul_precision};
    if (tpu_chip_load(&tpu->chip, chip, why, sizeof why)) return true;
    diag_error(diag, (struct src_loc){0}, "--chip=%s: %s", chip, why);
    return false;
}

bool tpu_target_check(struct hlo_module *module, const struct target_options *options,
                      struct diag *diag) {
    struct tpu_compile_options tpu;
    return tpu_options_of(&tpu, options, diag) && tpu_check(module, &tpu, diag);
}

struct tpu_session {
    struct hlo_module *module;
    struct tpu_executable *executable;
};

static bool compile(struct arena *arena, struct hlo_module *module,
                    const struct target_options *options, struct tpu_program *program,
                    struct diag *diag) {
    struct tpu_compile_options tpu;
    return tpu_options_of(&tpu, options, diag) && tpu_check(module, &tpu, diag) &&
           tpu_compile(arena, module, &tpu, program, diag);
}

struct tpu_session *tpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag) {
    struct arena *arena = arena_new();
    struct tpu_program program;
    struct tpu_error error = {""};
    struct tpu_session *session = calloc(1, sizeof *session);
    if (session && compile(arena, module, options, &program, diag)) {
        session->module = module;
        session->executable = tpu_load_program(&program, &error);
        if (!session->executable) diag_error(diag, (struct src_loc){0}, "%s", error.text);
    }
    arena_free(arena);
    if (session && session->executable) return session;
    free(session);
    return NULL;
}

static int gather_arrays(const struct literal *literal, void **to) {
    int n = 0;
    if (shape_is_array(literal->shape)) {
        to[0] = literal->data;
        return 1;
    }
    for (int i = 0; i < literal->shape->ntuple; i++)
        n += gather_arrays(literal->elements[i], to + n);
    return n;
}

struct literal *tpu_session_run(struct tpu_session *session, struct literal *const *args,
                                struct diag *diag) {
    const struct hlo_computation *entry = session->module->entry;
    struct tpu_error error = {""};
    int count = 0, at = 0;
    for (int i = 0; i < entry->nparameters; i++)
        count += entry->parameters[i]->shape->nleaves;
    struct literal *result = literal_new(entry->root->shape);
    void **inputs = calloc((size_t)count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)entry->root->shape->nleaves + 1, sizeof *outputs);
    int status = -1;
    if (result && inputs && outputs) {
        for (int i = 0; i < entry->nparameters; i++)
            at += gather_arrays(args[i], inputs + at);
        gather_arrays(result, outputs);
        status = tpu_execute(session->executable, (const void *const *)inputs, outputs, NULL, NULL,
                             &error);
    }
    free(inputs);
    free(outputs);
    if (status == 0) return result;
    diag_error(diag, (struct src_loc){0}, "%s", *error.text ? error.text : "out of memory");
    literal_unref(result);
    return NULL;
}

void tpu_session_free(struct tpu_session *session) {
    if (!session) return;
    tpu_unload(session->executable);
    free(session);
}
