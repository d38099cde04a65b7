#include "compiler/target.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/load.h"
#include "compiler/partitions.h"
#include "compiler/target_tpu.h"
#include "ir/eval.h"

#if __has_include("backend/cpu/cpu.h")
#define HAVE_CPU 1
#include "compiler/target_cpu.h"
#endif

struct target_program {
    struct target_options options;
    struct hlo_module *module;
    struct tpu_session *tpu;
#ifdef HAVE_CPU
    struct cpu_session *cpu;
#endif
};

static const char *const names[] = {
    [TARGET_INTERP] = "interp", [TARGET_CPU] = "cpu", [TARGET_TPU] = "tpu"};

int target_from_name(const char *name) {
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(name, names[i]) == 0) return i;
    }
    return -1;
}

const char *target_name(enum target_kind kind) {
    return names[kind];
}

bool target_optimise(struct hlo_module *module, const struct target_options *options,
                     struct diag *diag) {
    const struct pipeline_options *pipeline = &options->pipeline;
    bool interp = options->kind == TARGET_INTERP;
    if (interp && !pipeline->passes) return true;
    static const enum pass_target targets[] = {[TARGET_INTERP] = PASS_TARGET_GENERIC,
                                               [TARGET_CPU] = PASS_TARGET_CPU,
                                               [TARGET_TPU] = PASS_TARGET_TPU};
    struct pipeline_options own = *pipeline;
    own.devices = options->partitions;
    return pipeline_run(module, &own, targets[options->kind], options->opt_level, diag);
}

struct target_program *target_prepare(struct hlo_module *module,
                                      const struct target_options *options, struct diag *diag) {
    bool native = options->kind == TARGET_CPU; /* which optimises unless it finds code */
    if (!native && !target_optimise(module, options, diag)) return NULL;
    struct target_program *program = calloc(1, sizeof *program);
    if (!program) {
        diag_error(diag, (struct src_loc){0}, "out of memory");
        return NULL;
    }
    program->options = *options;
    program->module = module;
    if (options->kind == TARGET_INTERP) return program;
    if (options->kind == TARGET_TPU) {
        program->tpu = tpu_session_new(module, options, diag);
        if (program->tpu) return program;
        free(program);
        return NULL;
    }
#ifdef HAVE_CPU
    program->cpu = cpu_session_new(module, options, diag);
    if (program->cpu) return program;
#else
    diag_error(diag, (struct src_loc){0}, "this build has no CPU target");
#endif
    free(program);
    return NULL;
}

bool target_check(struct hlo_module *module, const struct target_options *options,
                  struct diag *diag) {
    if (!target_optimise(module, options, diag)) return false;
    return options->kind != TARGET_TPU || tpu_target_check(module, options, diag);
}

struct literal *target_run(struct target_program *program, struct literal *const *args,
                           struct diag *diag) {
    if (program->tpu) return tpu_session_run(program->tpu, args, diag);
#ifdef HAVE_CPU
    if (program->cpu) return cpu_session_run(program->cpu, args, diag);
#endif
    struct eval_options options = {.matmul_precision = program->options.matmul_precision,
                                   .seed = program->options.seed};
    if (program->options.partitions > 1) {
        return partitions_run(program->module, program->options.partitions, args, &options, diag);
    }
    return module_evaluate(program->module, args, &options, diag);
}

/* ---- runs on memory ---- */

/* Parameters made of arrays in memory; NULL without memory for them. */
static struct literal **copy_arguments(const struct hlo_module *module, const void *const *inputs) {
    int count = module_flat_parameters(module);
    struct literal **flat = calloc((size_t)count + 1, sizeof *flat), **args = NULL;
    bool ok = flat != NULL;
    for (int i = 0; i < count && ok; i++) {
        flat[i] = literal_new_uninit(module_flat_parameter(module, i));
        ok = flat[i] != NULL;
        if (ok && flat[i]->size) memcpy(flat[i]->data, inputs[i], flat[i]->size);
    }
    if (ok) args = module_arguments(module, flat);
    if (args) {
        free(flat);
    } else {
        literals_free(flat, count);
    }
    return args;
}

static bool call_copied(struct target_program *program, const void *const *inputs,
                        void *const *outputs, struct diag *diag) {
    struct literal **args = copy_arguments(program->module, inputs);
    struct literal *result = args ? target_run(program, args, diag) : NULL;
    if (!args) diag_error(diag, (struct src_loc){0}, "out of memory");
    int count = shape_array_leaves(program->module->entry->root->shape);
    for (int i = 0; result && i < count; i++) {
        const struct literal *leaf = literal_array_leaf(result, i);
        if (leaf->size) memcpy(outputs[i], leaf->data, leaf->size);
    }
    literal_unref(result);
    literals_free(args, program->module->entry->nparameters);
    return result != NULL;
}

#ifdef HAVE_CPU
/* The next arrays in the places of a shape's leaves; others (tokens) have no memory. */
static int place_leaves(const struct shape *shape, const void *const *arrays, const void **leaves) {
    int used = 0;
    for (int i = 0; i < shape->nleaves; i++)
        leaves[i] = shape_is_array(shape_leaf(shape, i)) ? arrays[used++] : NULL;
    return used;
}

static bool call_native(struct target_program *program, const void *const *inputs,
                        void *const *outputs, struct diag *diag) {
    const struct hlo_computation *entry = program->module->entry;
    const struct shape *result = entry->root->shape;
    int count = 0, at = 0, used = 0;
    for (int i = 0; i < entry->nparameters; i++)
        count += entry->parameters[i]->shape->nleaves;
    const void **in = calloc((size_t)count + 1, sizeof *in);
    const void **out = calloc((size_t)result->nleaves + 1, sizeof *out);
    bool ok = in && out;
    for (int i = 0; i < entry->nparameters && ok; i++) {
        used += place_leaves(entry->parameters[i]->shape, inputs + used, in + at);
        at += entry->parameters[i]->shape->nleaves;
    }
    if (ok) {
        place_leaves(result, (const void *const *)outputs, out);
        ok = cpu_session_call(program->cpu, in, (void *const *)out, diag);
    } else {
        diag_error(diag, (struct src_loc){0}, "out of memory");
    }
    free(in);
    free(out);
    return ok;
}
#endif

bool target_call(struct target_program *program, const void *const *inputs, void *const *outputs,
                 struct diag *diag) {
#ifdef HAVE_CPU
    if (program->cpu) return call_native(program, inputs, outputs, diag);
#endif
    return call_copied(program, inputs, outputs, diag);
}

bool target_emit(struct hlo_module *module, const struct target_options *options,
                 enum emit_kind kind, const char *symbol, struct bytes *bytes, struct diag *diag) {
    if (options->kind == TARGET_TPU)
        return target_optimise(module, options, diag) &&
               tpu_emit(module, options, kind, bytes, diag);
#ifdef HAVE_CPU
    return cpu_emit(module, options, kind, symbol, bytes, diag);
#else
    (void)module, (void)options, (void)kind, (void)symbol, (void)bytes;
    diag_error(diag, (struct src_loc){0}, "this build has no CPU target");
    return false;
#endif
}

void target_print_stats(const struct target_program *program, FILE *out) {
    if (program->tpu) tpu_session_print_stats(program->tpu, out);
}

void target_free(struct target_program *program) {
    if (!program) return;
    tpu_session_free(program->tpu);
#ifdef HAVE_CPU
    cpu_session_free(program->cpu);
#endif
    free(program);
}
