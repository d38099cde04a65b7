#include "compiler/hlocc.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/functions.h"
#include "compiler/load.h"
#include "compiler/target.h"
#include "ir/parse.h"
#include "ir/print.h"

#ifndef HLOCC_VERSION
#define HLOCC_VERSION "unknown"
#endif

struct hlocc_program {
    char *name;
    struct hlo_module *module;
    const struct shape *result; /* as parsed; passes keep it */
    int ninputs;
    struct target_program *prepared;
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

struct hlocc_program *hlocc_parse(const char *name, const char *text, size_t size,
                                  char **messages) {
    struct hlocc_program *program = calloc(1, sizeof *program);
    struct diag diag;
    diag_init(&diag, name, text, size);
    if (program) program->name = strdup(name);
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
    program->result = program->module->entry->root->shape;
    program->ninputs = module_flat_parameters(program->module);
    return program;
}

void hlocc_free(struct hlocc_program *program) {
    if (!program) return;
    target_free(program->prepared);
    module_free(program->module);
    for (int i = 0; i < program->nfunctions; i++)
        free((char *)program->functions[i].name);
    free(program->functions);
    free(program->name);
    free(program);
}

int hlocc_input_count(const struct hlocc_program *program) {
    return program->ninputs;
}

int hlocc_output_count(const struct hlocc_program *program) {
    return shape_array_leaves(program->result);
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
    return describe(index < 0 ? NULL : shape_array_leaf(program->result, index));
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

int hlocc_prepare(struct hlocc_program *program, enum hlocc_target target, char **messages) {
    struct target_options options = {.kind = target == HLOCC_CPU ? TARGET_CPU : TARGET_INTERP,
                                     .opt_level = 2,
                                     .functions = program->functions,
                                     .nfunctions = program->nfunctions};
    struct diag diag;
    diag_init(&diag, program->name, NULL, 0);
    target_free(program->prepared);
    program->prepared = target_prepare(program->module, &options, &diag);
    take_messages(&diag, messages);
    return program->prepared ? 0 : -1;
}

static struct literal **copy_inputs(const struct hlocc_program *program,
                                    const void *const *inputs) {
    struct literal **flat = calloc((size_t)program->ninputs + 1, sizeof *flat);
    if (!flat) return NULL;
    for (int i = 0; i < program->ninputs; i++) {
        const struct shape *shape = module_flat_parameter(program->module, i);
        flat[i] = literal_new_uninit(shape);
        if (!flat[i]) {
            literals_free(flat, i);
            return NULL;
        }
        if (flat[i]->size) memcpy(flat[i]->data, inputs[i], flat[i]->size);
    }
    struct literal **args = module_arguments(program->module, flat);
    free(flat);
    return args;
}

int hlocc_run(struct hlocc_program *program, const void *const *inputs, void *const *outputs,
              char **messages) {
    struct diag diag;
    diag_init(&diag, program->name, NULL, 0);
    struct literal **args = program->prepared ? copy_inputs(program, inputs) : NULL;
    struct literal *result = NULL;
    if (args) {
        result = target_run(program->prepared, args, &diag);
    } else {
        diag_error(&diag, (struct src_loc){0},
                   program->prepared ? "out of memory" : "hlocc_prepare has not been called");
    }
    for (int i = 0; result && i < hlocc_output_count(program); i++) {
        const struct literal *leaf = literal_array_leaf(result, i);
        if (leaf->size) memcpy(outputs[i], leaf->data, leaf->size);
    }
    int status = result ? 0 : -1;
    literal_unref(result);
    literals_free(args, program->module->entry->nparameters);
    take_messages(&diag, messages);
    return status;
}
