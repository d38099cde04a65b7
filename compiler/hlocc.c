#include "compiler/hlocc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/functions.h"
#include "compiler/header.h"
#include "compiler/load.h"
#include "compiler/symbol.h"
#include "compiler/target.h"
#include "ir/parse.h"
#include "ir/print.h"

#ifndef HLOCC_VERSION
#define HLOCC_VERSION "unknown"
#endif

struct hlocc_program {
    char *name;
    struct hlo_module *module;   /* as parsed */
    struct hlo_module *compiled; /* the copy that prepared is of, or NULL */
    struct target_program *prepared;
    bool one_at_a_time; /* runs are not for several threads: they hold the lock */
    pthread_mutex_t lock;
    struct cpu_function *functions; /* registered; they own their names */
    int nfunctions;
};

const char *hlocc_version(void) {
    return HLOCC_VERSION;
}

/* Hands the diagnostics over as text, and empties them. */
static void take_messages(struct diag *diag, char **messages) {
    if (messages) *messages = NULL;
    if (messages && diag->count > 0) {
        size_t size;
        FILE *stream = open_memstream(messages, &size);
        if (stream) {
            diag_print(diag, stream, false);
            fclose(stream);
        }
    }
    diag_clear(diag);
}

static void drop_prepared(struct hlocc_program *program) {
    target_free(program->prepared);
    module_free(program->compiled);
    program->prepared = NULL;
    program->compiled = NULL;
}

struct hlocc_program *hlocc_parse(const char *name, const char *text, size_t size,
                                  char **messages) {
    struct hlocc_program *program = calloc(1, sizeof *program);
    struct diag diag;
    diag_init(&diag, name, text, size);
    if (program) {
        pthread_mutex_init(&program->lock, NULL);
        program->name = strdup(name);
    }
    if (program && program->name) {
        program->module = hlo_parse(&diag);
    } else {
        diag_error(&diag, (struct src_loc){0}, "out of memory");
    }
    take_messages(&diag, messages);
    if (!program || !program->module) {
        hlocc_free(program);
        return NULL;
    }
    return program;
}

void hlocc_free(struct hlocc_program *program) {
    if (!program) return;
    drop_prepared(program);
    module_free(program->module);
    pthread_mutex_destroy(&program->lock);
    for (int i = 0; i < program->nfunctions; i++)
        free((char *)program->functions[i].name);
    free(program->functions);
    free(program->name);
    free(program);
}

int hlocc_input_count(const struct hlocc_program *program) {
    return module_flat_parameters(program->module);
}

int hlocc_output_count(const struct hlocc_program *program) {
    return shape_array_leaves(program->module->entry->root->shape);
}

static struct hlocc_array_type describe(const struct shape *shape) {
    if (!shape) return (struct hlocc_array_type){0};
    return (struct hlocc_array_type){.element_type = element_type_name(shape->type),
                                     .rank = shape->rank,
                                     .dims = shape->dims,
                                     .bytes = (size_t)shape->bytes};
}

struct hlocc_array_type hlocc_input_type(const struct hlocc_program *program, int index) {
    return describe(index < 0 ? NULL : module_flat_parameter(program->module, index));
}

struct hlocc_array_type hlocc_output_type(const struct hlocc_program *program, int index) {
    return describe(index < 0 ? NULL
                              : shape_array_leaf(program->module->entry->root->shape, index));
}

char *hlocc_print(const struct hlocc_program *program) {
    struct print_options options = print_options_full();
    return module_to_string(program->module, &options);
}

int hlocc_register(struct hlocc_program *program, const char *name,
                   int (*function)(const struct hlocc_custom_call *call)) {
    size_t bytes = (size_t)(program->nfunctions + 1) * sizeof *program->functions;
    struct cpu_function *functions = realloc(program->functions, bytes);
    if (!functions) return -1;
    program->functions = functions;
    char *copy = strdup(name);
    if (!copy) return -1;
    functions[program->nfunctions++] = (struct cpu_function){copy, function};
    return 0;
}

/* ---- options ---- */

void hlocc_options_init(struct hlocc_options *options) {
    *options = (struct hlocc_options){.target = HLOCC_CPU, .opt_level = 2};
}

static bool target_options_of(const struct hlocc_program *program,
                              const struct hlocc_options *options, struct target_options *target,
                              struct diag *diag) {
    static const enum target_kind kinds[] = {TARGET_INTERP, TARGET_CPU, TARGET_TPU};
    const struct src_loc nowhere = {0};
    int precision = 0;
    if (options->matmul_precision) {
        precision =
            enum_precision_from_name(options->matmul_precision, strlen(options->matmul_precision));
        if (precision < 0) {
            diag_error(diag, nowhere, "matmul_precision: no '%s'", options->matmul_precision);
            return false;
        }
    }
    if ((unsigned)options->target >= sizeof kinds / sizeof *kinds || options->opt_level < 0 ||
        options->opt_level > 3 || options->threads < 0 || options->threads > 1024) {
        diag_error(diag, nowhere, "target, opt_level or threads: out of range");
        return false;
    }
    *target = (struct target_options){.kind = kinds[options->target],
                                      .opt_level = options->opt_level,
                                      .threads = options->threads,
                                      .mcpu = options->mcpu,
                                      .triple = options->triple,
                                      .chip = options->chip,
                                      .matmul_precision = precision,
                                      .seed = options->seed,
                                      .functions = program->functions,
                                      .nfunctions = program->nfunctions};
    return true;
}

/* ---- in process ---- */

int hlocc_prepare_with(struct hlocc_program *program, const struct hlocc_options *options,
                       char **messages) {
    struct target_options target;
    struct diag diag;
    diag_init(&diag, program->name, NULL, 0);
    drop_prepared(program);
    if (target_options_of(program, options, &target, &diag)) {
        program->compiled = module_clone(program->module);
        program->prepared = target_prepare(program->compiled, &target, &diag);
        program->one_at_a_time = target.kind == TARGET_TPU;
    }
    take_messages(&diag, messages);
    return program->prepared ? 0 : -1;
}

int hlocc_prepare(struct hlocc_program *program, enum hlocc_target target, char **messages) {
    struct hlocc_options options;
    hlocc_options_init(&options);
    options.target = target;
    return hlocc_prepare_with(program, &options, messages);
}

/* Every array that has bytes must be somewhere. */
static bool has_arrays(const struct hlocc_program *program, const void *const *inputs,
                       void *const *outputs) {
    for (int i = 0; i < hlocc_input_count(program); i++)
        if (hlocc_input_type(program, i).bytes && (!inputs || !inputs[i])) return false;
    for (int i = 0; i < hlocc_output_count(program); i++)
        if (hlocc_output_type(program, i).bytes && (!outputs || !outputs[i])) return false;
    return (inputs || !hlocc_input_count(program)) && (outputs || !hlocc_output_count(program));
}

int hlocc_run(struct hlocc_program *program, const void *const *inputs, void *const *outputs,
              char **messages) {
    struct diag diag;
    bool ok = false;
    diag_init(&diag, program->name, NULL, 0);
    if (program->prepared && !has_arrays(program, inputs, outputs)) {
        diag_error(&diag, (struct src_loc){0}, "an input or an output is NULL");
    } else if (program->prepared) {
        if (program->one_at_a_time) pthread_mutex_lock(&program->lock);
        ok = target_call(program->prepared, inputs, outputs, &diag);
        if (program->one_at_a_time) pthread_mutex_unlock(&program->lock);
    } else {
        diag_error(&diag, (struct src_loc){0}, "hlocc_prepare has not been called");
    }
    take_messages(&diag, messages);
    return ok ? 0 : -1;
}

/* ---- to take away ---- */

static bool emit(struct hlo_module *module, const struct target_options *target,
                 enum hlocc_output kind, const char *symbol, struct bytes *bytes,
                 struct diag *diag) {
    static const enum emit_kind kinds[] = {EMIT_HLO, EMIT_LLVM_IR, EMIT_LLVM_BC, EMIT_ASM,
                                           EMIT_OBJ};
    struct print_options print = print_options_full();
    if ((unsigned)kind >= sizeof kinds / sizeof *kinds || target->kind != TARGET_CPU) {
        diag_error(diag, (struct src_loc){0}, "hlocc_compile makes no such output");
        return false;
    }
    if (!symbol_is_name(symbol) || symbol_is_taken(symbol)) {
        diag_error(diag, (struct src_loc){0}, "'%s' is no C name, or is taken", symbol);
        return false;
    }
    if (kind != HLOCC_HLO) return target_emit(module, target, kinds[kind], symbol, bytes, diag);
    if (!target_optimise(module, target, diag)) return false;
    bytes->data = (uint8_t *)module_to_string(module, &print);
    bytes->size = bytes->data ? strlen((char *)bytes->data) : 0;
    return bytes->data != NULL;
}

int hlocc_compile(struct hlocc_program *program, const char *symbol, enum hlocc_output kind,
                  const struct hlocc_options *options, void **data, size_t *size, char **messages) {
    struct target_options target;
    struct bytes bytes = {0};
    struct diag diag;
    bool ok = false;
    diag_init(&diag, program->name, NULL, 0);
    if (target_options_of(program, options, &target, &diag)) {
        struct hlo_module *module = module_clone(program->module);
        ok = emit(module, &target, kind, symbol, &bytes, &diag);
        module_free(module);
    }
    take_messages(&diag, messages);
    *data = bytes.data;
    *size = bytes.size;
    return ok ? 0 : -1;
}

char *hlocc_header(const struct hlocc_program *program, const char *symbol) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) return NULL;
    header_write(stream, program->module, symbol);
    return fclose(stream) == 0 ? text : NULL;
}
