#include "compiler/load.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/parse.h"

bool program_load(struct program *program, const char *path) {
    memset(program, 0, sizeof *program);
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    struct fault fault;
    if (!file_read(path, &program->text, &fault)) {
        fprintf(stderr, "%s: error: %s\n", name, fault.text);
        return false;
    }
    diag_init(&program->diag, name, (const char *)program->text.data, program->text.size);
    program->module = hlo_parse(&program->diag);
    program_report(program);
    return program->module != NULL;
}

void program_report(struct program *program) {
    struct diag *diag = &program->diag;
    diag_print(diag, stderr, isatty(STDERR_FILENO));
    const char *name = diag->file, *source = diag->source;
    size_t size = diag->source_size;
    diag_clear(diag);
    diag_init(diag, name, source, size);
}

void program_free(struct program *program) {
    module_free(program->module);
    if (program->text.data) diag_clear(&program->diag);
    free(program->text.data);
    memset(program, 0, sizeof *program);
}

/* ---- values ---- */

static uint64_t mix(uint64_t x) { /* the finaliser of splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double unit(uint64_t bits) {
    return (double)(int64_t)(bits >> 40) * 0x1p-23 - 1; /* 24 bits: exact in f32 */
}

static void fill_array(struct literal *literal, uint64_t key) {
    const struct element_type_info *info = element_type_info(literal->shape->type);
    uint64_t step = 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < literal->shape->count; i++) {
        uint64_t bits = mix(key + step * (uint64_t)(i + 1));
        switch (info->kind) {
        case KIND_FLOAT:
            if (literal->shape->type == TYPE_F32) {
                ((float *)literal->data)[i] = (float)unit(bits);
            } else {
                literal_set_double(literal, i, unit(bits));
            }
            break;
        case KIND_COMPLEX: literal_set_complex(literal, i, unit(bits), unit(bits << 24)); break;
        case KIND_PRED: literal_set_int(literal, i, (int64_t)(bits >> 63)); break;
        default: {
            int width = info->bits - (info->kind == KIND_SIGNED);
            literal_set_int(literal, i,
                            (int64_t)(bits >> 61) & ((1 << (width < 3 ? width : 3)) - 1));
        }
        }
    }
}

void literal_fill_random(struct literal *literal, uint64_t seed, uint64_t stream) {
    uint64_t key = mix(mix(seed + 1) + stream);
    if (shape_is_tuple(literal->shape)) {
        for (int i = 0; i < literal->shape->ntuple; i++) {
            literal_fill_random(literal->elements[i], key, (uint64_t)i);
        }
    } else if (literal->data && literal->shape->count > 0) {
        fill_array(literal, key);
    }
}

bool module_has_elided(const struct hlo_module *module) {
    FOR_EACH_COMPUTATION(c, module) {
        FOR_EACH_INSTR(instr, c) {
            if (instr->opcode == OP_CONSTANT && literal_has_elided(instr->literal)) return true;
        }
    }
    return false;
}

bool program_fill_elided(struct program *program, enum elided_policy policy) {
    struct hlo_module *module = program->module;
    bool ok = true;
    FOR_EACH_COMPUTATION(c, module) {
        FOR_EACH_INSTR(instr, c) {
            if (instr->opcode != OP_CONSTANT || !literal_has_elided(instr->literal)) continue;
            if (policy == ELIDED_ERROR) {
                diag_instr_error(&program->diag, instr,
                                 "the text leaves the values of this constant out; "
                                 "--elided-constants=zero or random puts some there");
                ok = false;
                continue;
            }
            struct literal *value = literal_new(instr->literal->shape);
            if (!value) {
                diag_instr_error(&program->diag, instr, "does not fit in memory");
                ok = false;
                continue;
            }
            if (policy == ELIDED_RANDOM) literal_fill_random(value, 0, (uint64_t)instr->id + 1000);
            instr->literal = module_own_literal(module, value);
        }
    }
    program_report(program);
    return ok;
}

int shape_array_leaves(const struct shape *shape) {
    if (!shape_is_tuple(shape)) return shape_is_array(shape);
    int count = 0;
    for (int i = 0; i < shape->ntuple; i++)
        count += shape_array_leaves(shape->tuple[i]);
    return count;
}

int module_flat_parameters(const struct hlo_module *module) {
    int count = 0;
    for (int i = 0; i < module->entry->nparameters; i++) {
        count += shape_array_leaves(module->entry->parameters[i]->shape);
    }
    return count;
}

static const struct shape *array_leaf(const struct shape *shape, int *index) {
    if (!shape_is_tuple(shape)) {
        return shape_is_array(shape) && (*index)-- == 0 ? shape : NULL;
    }
    for (int i = 0; i < shape->ntuple; i++) {
        const struct shape *leaf = array_leaf(shape->tuple[i], index);
        if (leaf) return leaf;
    }
    return NULL;
}

const struct shape *shape_array_leaf(const struct shape *shape, int index) {
    return array_leaf(shape, &index);
}

const struct shape *module_flat_parameter(const struct hlo_module *module, int index) {
    for (int i = 0; i < module->entry->nparameters; i++) {
        const struct shape *leaf = array_leaf(module->entry->parameters[i]->shape, &index);
        if (leaf) return leaf;
    }
    return NULL;
}

static struct literal *build(const struct shape *shape, struct literal ***next) {
    if (!shape_is_tuple(shape)) return shape_is_array(shape) ? *(*next)++ : literal_new(shape);
    struct literal **elements = calloc((size_t)shape->ntuple + 1, sizeof *elements);
    if (!elements) return NULL;
    bool ok = true;
    for (int i = 0; i < shape->ntuple; i++) {
        elements[i] = build(shape->tuple[i], next);
        ok = ok && elements[i];
    }
    struct literal *tuple = ok ? literal_new_tuple(shape, elements) : NULL;
    free(elements);
    return tuple;
}

struct literal **module_arguments(const struct hlo_module *module, struct literal **flat) {
    int count = module->entry->nparameters;
    struct literal **args = calloc((size_t)count + 1, sizeof *args);
    bool ok = args != NULL;
    for (int i = 0; ok && i < count; i++) {
        args[i] = build(module->entry->parameters[i]->shape, &flat);
        ok = args[i] != NULL;
    }
    if (ok) return args;
    free(args);
    return NULL;
}

void literals_free(struct literal **literals, int count) {
    if (!literals) return;
    for (int i = 0; i < count; i++)
        literal_unref(literals[i]);
    free(literals);
}

static const struct literal *find_leaf(const struct literal *literal, int *index) {
    if (!shape_is_tuple(literal->shape)) {
        return shape_is_array(literal->shape) && (*index)-- == 0 ? literal : NULL;
    }
    for (int i = 0; i < literal->shape->ntuple; i++) {
        const struct literal *leaf = find_leaf(literal->elements[i], index);
        if (leaf) return leaf;
    }
    return NULL;
}

const struct literal *literal_array_leaf(const struct literal *literal, int index) {
    return find_leaf(literal, &index);
}
