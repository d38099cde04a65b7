#include "compiler/partitions.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/load.h"

/* Whether the program is one that a partitioner left: each device has its part of the arrays. */
static bool is_local(const struct hlo_module *module, int partitions) {
    return partitions > 1 && module->num_partitions == partitions && module->is_scheduled;
}

/* The sharding of array leaf `leaf` of a parameter, NULL for none. */
static const struct sharding *leaf_sharding(const struct hlo_instr *parameter, int leaf) {
    const struct hlo_attr *attr = instr_attr(parameter, ATTR_SHARDING);
    const struct sharding *s = attr ? attr->sharding : NULL;
    if (!s || s->kind != SHARDING_TUPLE) return s;
    return leaf < s->nelements ? s->elements[leaf] : NULL;
}

static const struct shape *whole_shape(struct hlo_module *module, const struct hlo_instr *parameter,
                                       int leaf, int device, int64_t *index, struct diag *diag) {
    const struct shape *part = shape_array_leaf(parameter->shape, leaf);
    int64_t parts[SHAPE_MAX_RANK], dims[SHAPE_MAX_RANK];
    if (!sharding_place(leaf_sharding(parameter, leaf), part->rank, device, parts, index)) {
        diag_instr_error(diag, parameter, "its sharding does not say which part a device has");
        return NULL;
    }
    for (int i = 0; i < part->rank; i++) {
        if (__builtin_mul_overflow(part->dims[i], parts[i], &dims[i])) dims[i] = INT64_MAX;
    }
    const struct shape *whole = shape_array(module->shapes, part->type, part->rank, dims);
    if (!whole) diag_instr_error(diag, parameter, "the whole array is too large");
    return whole;
}

const struct shape *partitions_parameter(struct hlo_module *module, int index, int partitions,
                                         struct diag *diag) {
    int64_t place[SHAPE_MAX_RANK];
    if (!is_local(module, partitions)) return module_flat_parameter(module, index);
    for (int i = 0; i < module->entry->nparameters; i++) {
        const struct hlo_instr *parameter = module->entry->parameters[i];
        int leaves = shape_array_leaves(parameter->shape);
        if (index < leaves) return whole_shape(module, parameter, index, 0, place, diag);
        index -= leaves;
    }
    return NULL;
}

/* ---- arguments: the parts of one device ---- */

static struct literal *part_of(struct hlo_module *module, const struct hlo_instr *parameter,
                               const struct shape *shape, struct literal *value, int device,
                               int *leaf, struct diag *diag) {
    if (shape_is_tuple(shape)) {
        struct literal **elements = calloc((size_t)shape->ntuple + 1, sizeof *elements);
        bool ok = elements != NULL;
        for (int i = 0; ok && i < shape->ntuple; i++) {
            elements[i] =
                part_of(module, parameter, shape->tuple[i], value->elements[i], device, leaf, diag);
            ok = elements[i] != NULL;
        }
        struct literal *tuple = ok ? literal_new_tuple(shape, elements) : NULL;
        for (int i = 0; elements && !tuple && i < shape->ntuple; i++)
            literal_unref(elements[i]);
        free(elements);
        return tuple;
    }
    int64_t index[SHAPE_MAX_RANK];
    if (!shape_is_array(shape)) return literal_ref(value);
    const struct shape *whole = whole_shape(module, parameter, (*leaf)++, device, index, diag);
    if (!whole) return NULL;
    if (shape_compatible(whole, shape)) return literal_ref(value);
    struct literal *part = literal_new_uninit(shape);
    if (part) part_copy(part, value, index, true);
    return part;
}

static struct literal **device_arguments(struct hlo_module *module, int partitions, int device,
                                         struct literal *const *args, struct diag *diag) {
    int count = module->entry->nparameters;
    struct literal **parts = calloc((size_t)count + 1, sizeof *parts);
    for (int i = 0; parts && i < count; i++) {
        const struct hlo_instr *parameter = module->entry->parameters[i];
        int leaf = 0;
        parts[i] = is_local(module, partitions)
                       ? part_of(module, parameter, parameter->shape, args[i], device, &leaf, diag)
                       : literal_ref(args[i]);
        if (parts[i]) continue;
        literals_free(parts, i);
        return NULL;
    }
    return parts;
}

/* ---- results ---- */

/* A new array for `count` of them along dimension 0. */
static struct literal *new_row(struct hlo_module *module, const struct shape *part, int count) {
    int64_t dims[SHAPE_MAX_RANK + 1] = {count};
    if (part->rank) memcpy(dims, part->dims, (size_t)part->rank * sizeof *dims);
    if (part->rank && __builtin_mul_overflow(dims[0], (int64_t)count, &dims[0])) return NULL;
    const struct shape *shape =
        shape_array(module->shapes, part->type, part->rank ? part->rank : 1, dims);
    return shape ? literal_new_uninit(shape) : NULL;
}

struct literal *partitions_repeat(struct hlo_module *module, const struct literal *value,
                                  int count) {
    struct literal *row = new_row(module, value->shape, count);
    for (int i = 0; row && row->size && i < count; i++)
        memcpy((char *)row->data + (size_t)i * value->size, value->data, value->size);
    return row;
}

static struct literal *joined(struct hlo_module *module, struct literal *const *parts, int count) {
    const struct shape *shape = parts[0]->shape;
    bool same = true;
    if (shape_is_tuple(shape)) {
        struct literal **inner = calloc((size_t)count, sizeof *inner);
        struct literal **elements = calloc((size_t)shape->ntuple + 1, sizeof *elements);
        const struct shape **shapes = calloc((size_t)shape->ntuple + 1, sizeof *shapes);
        bool ok = inner && elements && shapes;
        for (int k = 0; ok && k < shape->ntuple; k++) {
            for (int i = 0; i < count; i++)
                inner[i] = parts[i]->elements[k];
            ok = (elements[k] = joined(module, inner, count)) != NULL;
            if (ok) shapes[k] = elements[k]->shape;
        }
        const struct shape *whole = ok ? shape_tuple(module->shapes, shape->ntuple, shapes) : NULL;
        struct literal *tuple = whole ? literal_new_tuple(whole, elements) : NULL;
        for (int k = 0; elements && !tuple && k < shape->ntuple; k++)
            literal_unref(elements[k]);
        free(inner);
        free(elements);
        free(shapes);
        return tuple;
    }
    for (int i = 1; i < count; i++)
        same = same && literal_equal(parts[0], parts[i]);
    if (same || !shape_is_array(shape)) return literal_ref(parts[0]);
    struct literal *row = new_row(module, shape, count);
    for (int i = 0; row && row->size && i < count; i++)
        memcpy((char *)row->data + (size_t)i * parts[i]->size, parts[i]->data, parts[i]->size);
    return row;
}

struct literal *partitions_run(struct hlo_module *module, int partitions,
                               struct literal *const *args, const struct eval_options *options,
                               struct diag *diag) {
    struct literal ***parts = calloc((size_t)partitions, sizeof *parts);
    struct literal **results = calloc((size_t)partitions, sizeof *results), *result = NULL;
    bool ok = parts && results;
    for (int i = 0; ok && i < partitions; i++)
        ok = (parts[i] = device_arguments(module, partitions, i, args, diag)) != NULL;
    if (!ok && !diag->errors) diag_error(diag, (struct src_loc){0}, "out of memory");
    if (ok && module_evaluate_devices(module, partitions, (struct literal *const *const *)parts,
                                      options, results, diag)) {
        result = is_local(module, partitions) ? joined(module, results, partitions)
                                              : literal_ref(results[0]);
        if (!result) diag_error(diag, (struct src_loc){0}, "out of memory");
    }
    for (int i = 0; parts && i < partitions; i++)
        literals_free(parts[i], module->entry->nparameters);
    literals_free(results, results ? partitions : 0);
    free(parts);
    return result;
}
