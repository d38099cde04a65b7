#include "compiler/header.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "compiler/load.h"
#include "compiler/npy.h"

static const char *c_type(enum element_type type) {
    const struct element_type_info *info = element_type_info(type);
    switch (type) {
    case TYPE_PRED: return "uint8_t (0 or 1)";
    case TYPE_F32: return "float";
    case TYPE_F64: return "double";
    case TYPE_C64: return "float _Complex";
    case TYPE_C128: return "double _Complex";
    default: break;
    }
    bool is_signed = info->kind == KIND_SIGNED;
    switch (info->size) {
    case 1: return is_signed ? "int8_t" : "uint8_t";
    case 2: return is_signed ? "int16_t" : "uint16_t";
    case 4: return is_signed ? "int32_t" : "uint32_t";
    default: return is_signed ? "int64_t" : "uint64_t";
    }
}

/* A name may hold anything, `*` and `/` too. */
static void write_comment_text(FILE *out, const char *text) {
    for (; *text; text++)
        fputc(isalnum((unsigned char)*text) || strchr("_.-", *text) ? *text : '?', out);
}

/* `name` is what the program calls it; NULL for none. */
static void write_array(FILE *out, const char *what, int index, const struct shape *shape,
                        const char *name) {
    fprintf(out, " *   %s[%d]: %s[", what, index, element_type_name(shape->type));
    for (int d = 0; d < shape->rank; d++) {
        fprintf(out, "%s%" PRId64, d ? "," : "", shape->dims[d]);
    }
    fprintf(out, "], %s, %" PRId64 " bytes", c_type(shape->type), shape->bytes);
    if (name) {
        fputs(": ", out);
        write_comment_text(out, name);
    }
    fputc('\n', out);
}

/* Every array of the shape, from `number` on; the number after the last. */
static int write_arrays(FILE *out, const char *word, int number, const struct shape *shape,
                        const char *name) {
    if (shape_is_array(shape)) write_array(out, word, number++, shape, name);
    for (int i = 0; shape_is_tuple(shape) && i < shape->ntuple; i++)
        number = write_arrays(out, word, number, shape->tuple[i], name);
    return number;
}

static void write_inputs(FILE *out, const struct hlo_module *module) {
    int number = 0;
    for (int i = 0; i < module->entry->nparameters; i++) {
        const struct hlo_instr *parameter = module->entry->parameters[i];
        number = write_arrays(out, "inputs", number, parameter->shape, parameter->name);
    }
}

/* The number of array leaves before leaf `leaf` of a shape, or of all its leaves. */
static int arrays_before(const struct shape *shape, int leaf) {
    int count = 0;
    for (int i = 0; i < leaf; i++)
        count += shape_is_array(shape_leaf(shape, i));
    return count;
}

static void write_aliases(FILE *out, const struct hlo_module *module) {
    const struct hlo_computation *entry = module->entry;
    for (int i = 0; i < module->aliases.count; i++) {
        const struct alias_entry *alias = &module->aliases.v[i];
        if (alias->parameter < 0 || alias->parameter >= entry->nparameters) continue;
        const struct shape *parameter = entry->parameters[alias->parameter]->shape;
        int to = hlo_index_leaf(entry->root->shape, alias->output_index);
        int from = hlo_index_leaf(parameter, alias->parameter_index);
        if (to < 0 || from < 0) continue;
        int input = arrays_before(parameter, from);
        for (int k = 0; k < alias->parameter; k++)
            input += shape_array_leaves(entry->parameters[k]->shape);
        fprintf(out, " *   outputs[%d] may be the memory of inputs[%d]\n",
                arrays_before(entry->root->shape, to), input);
    }
}

void header_write(FILE *out, const struct hlo_module *module, const char *symbol) {
    int inputs = module_flat_parameters(module);
    const struct shape *result = module->entry->root->shape;
    int outputs = shape_array_leaves(result);
    fprintf(out, "/* HLO module ");
    write_comment_text(out, module->name);
    fprintf(out, ", compiled by hlocc. Arrays are dense and row-major.\n");
    write_inputs(out, module);
    write_arrays(out, "outputs", 0, result, NULL);
    write_aliases(out, module);
    fprintf(out, " */\n#ifndef HLOCC_%s_H\n#define HLOCC_%s_H\n\n#include <stddef.h>\n\n", symbol,
            symbol);
    fprintf(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    fprintf(out, "enum { %s_input_count = %d, %s_output_count = %d };\n\n", symbol, inputs, symbol,
            outputs);
    fprintf(
        out,
        "/* 0, or an error code: 1, the workspace is NULL or not aligned to 64 bytes; 2, an\n"
        " * array is NULL; 3, a custom call failed, and the workspace starts with its message.\n"
        " * `workspace`: %s_workspace_size bytes, aligned to 64. Calls with different\n"
        " * workspaces may run at once. */\n",
        symbol);
    fprintf(out, "int %s(const void *const *inputs, void *const *outputs, void *workspace);\n",
            symbol);
    fprintf(out, "extern const size_t %s_workspace_size;\n", symbol);
    fprintf(out, "/* Threads that the workspace has room for. */\n");
    fprintf(out, "extern const int %s_max_threads;\n", symbol);
    fprintf(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- executables ---- */

/* One text an array, as hlocc_rt_main reads it. */
static void write_description(FILE *out, const struct shape *shape, const char *name) {
    const struct element_type_info *info = element_type_info(shape->type);
    char sign = info->kind == KIND_SIGNED ? 's' : info->kind == KIND_UNSIGNED ? 'u' : '-';
    fprintf(out, "    \"%c %d %d %c %s %d", npy_kind(shape->type), info->size, info->bits, sign,
            element_type_name(shape->type), shape->rank);
    for (int d = 0; d < shape->rank; d++)
        fprintf(out, " %" PRId64, shape->dims[d]);
    fputc(' ', out);
    write_comment_text(out, name);
    fputs("\",\n", out);
}

static void write_descriptions(FILE *out, const struct shape *shape, const char *name) {
    if (shape_is_array(shape)) write_description(out, shape, name);
    for (int i = 0; shape_is_tuple(shape) && i < shape->ntuple; i++)
        write_descriptions(out, shape->tuple[i], name);
}

void driver_write(FILE *out, const struct hlo_module *module, const char *symbol) {
    const struct shape *result = module->entry->root->shape;
    int inputs = module_flat_parameters(module), outputs = shape_array_leaves(result);
    fprintf(out,
            "#include <stddef.h>\n\n"
            "typedef int entry(const void *const *inputs, void *const *outputs, void *workspace);\n"
            "int hlocc_rt_main(int argc, char **argv, int ninputs, const char *const *inputs,\n"
            "                  int noutputs, const char *const *outputs, entry *function,\n"
            "                  size_t workspace_size);\n"
            "entry %s;\n"
            "extern const size_t %s_workspace_size;\n\n"
            "static const char *const inputs[] = {\n",
            symbol, symbol);
    for (int i = 0; i < module->entry->nparameters; i++) {
        const struct hlo_instr *parameter = module->entry->parameters[i];
        write_descriptions(out, parameter->shape, parameter->name);
    }
    fprintf(out, "    0};\nstatic const char *const outputs[] = {\n");
    write_descriptions(out, result, "");
    fprintf(out,
            "    0};\n\nint main(int argc, char **argv) {\n"
            "    return hlocc_rt_main(argc, argv, %d, inputs, %d, outputs, %s, "
            "%s_workspace_size);\n}\n",
            inputs, outputs, symbol, symbol);
}
