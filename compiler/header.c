#include "compiler/header.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "compiler/load.h"

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

static void write_inputs(FILE *out, const struct hlo_module *module) {
    int number = 0;
    for (int i = 0; i < module->entry->nparameters; i++) {
        const struct hlo_instr *parameter = module->entry->parameters[i];
        int leaves = shape_array_leaves(parameter->shape);
        for (int k = 0; k < leaves; k++) {
            write_array(out, "inputs", number++, shape_array_leaf(parameter->shape, k),
                        parameter->name);
        }
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
    for (int i = 0; i < outputs; i++) {
        write_array(out, "outputs", i, shape_array_leaf(result, i), NULL);
    }
    fprintf(out, " */\n#ifndef HLOCC_%s_H\n#define HLOCC_%s_H\n\n#include <stddef.h>\n\n", symbol,
            symbol);
    fprintf(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    fprintf(out, "enum { %s_input_count = %d, %s_output_count = %d };\n\n", symbol, inputs, symbol,
            outputs);
    fprintf(out,
            "/* 0, or an error code. `workspace`: %s_workspace_size bytes, aligned to 64; calls\n"
            " * with different workspaces may run at once. */\n",
            symbol);
    fprintf(out, "int %s(const void *const *inputs, void *const *outputs, void *workspace);\n",
            symbol);
    fprintf(out, "extern const size_t %s_workspace_size;\n", symbol);
    fprintf(out, "/* Threads that the workspace has room for. */\n");
    fprintf(out, "extern const int %s_max_threads;\n", symbol);
    fprintf(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- executables ---- */

static const char driver_head[] =
    "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
    "struct array {\n    long long bytes;\n    const char *type, *shape;\n};\n";

static const char driver_body[] =
    "static void fail(const char *path, const char *why) {\n"
    "    fprintf(stderr, \"%s: error: %s\\n\", path, why);\n"
    "    exit(1);\n"
    "}\n\n"
    "static void *allocate(long long bytes) {\n"
    "    size_t size = ((size_t)bytes + 63) / 64 * 64;\n"
    "    void *data = aligned_alloc(64, size ? size : 64);\n"
    "    if (!data) fail(\"memory\", \"exhausted\");\n"
    "    return data;\n"
    "}\n\n"
    "/* The header must be the one that numpy writes for this type and shape. */\n"
    "static void *read_array(const char *path, const struct array *array) {\n"
    "    unsigned char head[12];\n"
    "    char text[65536], want[1024];\n"
    "    FILE *file = fopen(path, \"rb\");\n"
    "    if (!file) fail(path, \"cannot be opened\");\n"
    "    if (fread(head, 1, 10, file) != 10 || memcmp(head, \"\\x93NUMPY\", 6)) fail(path, \"is no "
    ".npy file\");\n"
    "    size_t size = head[8] + 256u * head[9];\n"
    "    if (head[6] != 1 || size >= sizeof text || fread(text, 1, size, file) != size) fail(path, "
    "\"is no version 1 .npy file\");\n"
    "    text[size] = 0;\n"
    "    snprintf(want, sizeof want, \"'descr': '%s'\", array->type);\n"
    "    if (!strstr(text, want)) fail(path, \"has another element type\");\n"
    "    if (array->bytes && !strstr(text, \"'fortran_order': False\")) fail(path, \"is not "
    "row-major\");\n"
    "    snprintf(want, sizeof want, \"'shape': (%s)\", array->shape);\n"
    "    if (!strstr(text, want)) fail(path, \"has another shape\");\n"
    "    char *data = allocate(array->bytes);\n"
    "    if (fread(data, 1, (size_t)array->bytes, file) != (size_t)array->bytes) fail(path, \"is "
    "truncated\");\n"
    "    fclose(file);\n"
    "    return data;\n"
    "}\n\n"
    "static void write_array(const char *path, const struct array *array, const void *data) {\n"
    "    char text[2048];\n"
    "    int n = snprintf(text, sizeof text, \"{'descr': '%s', 'fortran_order': False, 'shape': "
    "(%s), }\", array->type, array->shape);\n"
    "    int size = (n + 11 + 63) / 64 * 64 - 10;\n"
    "    unsigned char head[10] = \"\\x93NUMPY\\1\";\n"
    "    head[7] = 0;\n"
    "    head[8] = (unsigned char)size;\n"
    "    head[9] = (unsigned char)(size >> 8);\n"
    "    FILE *file = fopen(path, \"wb\");\n"
    "    if (!file) fail(path, \"cannot be written\");\n"
    "    fwrite(head, 1, 10, file);\n"
    "    fprintf(file, \"%-*s\\n\", size - 1, text);\n"
    "    fwrite(data, 1, (size_t)array->bytes, file);\n"
    "    if (fclose(file)) fail(path, \"cannot be written\");\n"
    "}\n\n";

static void write_table_row(FILE *out, const struct shape *shape) {
    const struct element_type_info *info = element_type_info(shape->type);
    char kind = 'V';
    if (info->kind == KIND_PRED) kind = 'b';
    if (info->kind == KIND_COMPLEX) kind = 'c';
    if (info->kind == KIND_SIGNED && info->bits >= 8) kind = 'i';
    if (info->kind == KIND_UNSIGNED && info->bits >= 8) kind = 'u';
    if (shape->type == TYPE_F16 || shape->type == TYPE_F32 || shape->type == TYPE_F64) kind = 'f';
    char order = info->size == 1 || kind == 'V' ? '|' : '<';
    fprintf(out, "    {%" PRId64 "LL, \"%c%c%d\", \"", shape->bytes, order, kind, info->size);
    for (int d = 0; d < shape->rank; d++) {
        fprintf(out, "%s%" PRId64, d ? ", " : "", shape->dims[d]);
    }
    fprintf(out, "%s\"},\n", shape->rank == 1 ? "," : "");
}

void driver_write(FILE *out, const struct hlo_module *module, const char *symbol,
                  const char *header) {
    int inputs = module_flat_parameters(module);
    const struct shape *result = module->entry->root->shape;
    int outputs = shape_array_leaves(result);
    fprintf(out, "%s#include \"%s\"\n\nstatic const struct array arrays_in[] = {\n", driver_head,
            header);
    for (int i = 0; i < inputs; i++)
        write_table_row(out, module_flat_parameter(module, i));
    fprintf(out, "    {0, \"\", \"\"}};\nstatic const struct array arrays_out[] = {\n");
    for (int i = 0; i < outputs; i++)
        write_table_row(out, shape_array_leaf(result, i));
    fprintf(out, "    {0, \"\", \"\"}};\n\n%s", driver_body);
    fprintf(
        out,
        "int main(int argc, char **argv) {\n"
        "    enum { IN = %d, OUT = %d };\n"
        "    const void *in[IN + 1];\n    void *out[OUT + 1];\n"
        "    if (argc != 1 + IN + OUT) {\n"
        "        fprintf(stderr, \"usage: %%s IN.npy... OUT.npy...   (%%d inputs, %%d "
        "outputs)\\n\", argv[0], IN, OUT);\n"
        "        return 2;\n    }\n"
        "    for (int i = 0; i < IN; i++) in[i] = read_array(argv[1 + i], &arrays_in[i]);\n"
        "    for (int i = 0; i < OUT; i++) out[i] = allocate(arrays_out[i].bytes);\n"
        "    int status = %s(in, out, allocate((long long)%s_workspace_size));\n"
        "    if (status) {\n        fprintf(stderr, \"error %%d\\n\", status);\n        return "
        "1;\n    }\n"
        "    for (int i = 0; i < OUT; i++) write_array(argv[1 + IN + i], &arrays_out[i], out[i]);\n"
        "    return 0;\n}\n",
        inputs, outputs, symbol, symbol);
}
