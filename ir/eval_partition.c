/* Collectives among several devices. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_mesh.h"

/* ---- who takes part ---- */

int64_t iota_device(const struct iota_tiles *iota, int64_t at) {
    int64_t strides[SHAPE_MAX_RANK], stride = 1, device = 0;
    for (int i = iota->nreshape - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= iota->reshape[i];
    }
    for (int i = iota->nreshape - 1; i >= 0; i--) {
        int dim = iota->transpose ? iota->transpose[i] : i;
        device += at % iota->reshape[dim] * strides[dim];
        at /= iota->reshape[dim];
    }
    return device;
}

/* Whether the instruction's groups are of the kind of device that the mesh has: those with a
 * channel go between partitions, those without between replicas. */
static bool crosses(const struct eval *e, const struct hlo_instr *instr) {
    return eval_mesh_of_replicas(e->mesh) || instr_attr(instr, ATTR_CHANNEL_ID);
}

/* The devices of e's group, in the group's order; their number, or 0 with an error. */
static int group_of(struct eval *e, const struct hlo_instr *instr, int *order) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_REPLICA_GROUPS);
    const struct replica_groups *groups = attr ? attr->groups : NULL;
    int size = eval_mesh_size(e->mesh);
    if (!crosses(e, instr)) {
        order[0] = e->device;
        return 1;
    }
    if (groups && groups->mesh) {
        eval_error(e, instr, "groups along mesh axes are not evaluated");
        return 0;
    }
    bool iota = groups && groups->is_iota;
    bool all = !groups || (!iota && (groups->lists.count == 0 || groups->lists.v[0].count == 0));
    int64_t per = all    ? size
                  : iota ? groups->iota.dims[groups->iota.ndims - 1]
                         : groups->lists.v[0].count;
    int64_t count = all ? 1 : iota ? groups->iota.dims[0] : groups->lists.count;
    for (int64_t g = 0; g < count; g++) {
        bool found = false;
        int64_t members = all || iota ? per : groups->lists.v[g].count;
        if (members > size) {
            eval_error(e, instr, "a group has %lld devices, there are %d", (long long)members,
                       size);
            return 0;
        }
        for (int64_t i = 0; i < members; i++) {
            int64_t device = all    ? i
                             : iota ? iota_device(&groups->iota, g * per + i)
                                    : groups->lists.v[g].v[i];
            if (device < 0 || device >= size) {
                eval_error(e, instr, "device %lld of its groups is none of %d", (long long)device,
                           size);
                return 0;
            }
            order[i] = (int)device;
            found |= device == e->device;
        }
        if (found) return (int)members;
    }
    eval_error(e, instr, "device %d is in none of its groups", e->device);
    return 0;
}

/* ---- what comes out ---- */

static size_t row_bytes(const struct shape *shape, int dim) {
    size_t bytes = (size_t)element_type_size(shape->type);
    for (int i = dim; i < shape->rank; i++)
        bytes *= (size_t)shape->dims[i];
    return bytes;
}

/* Both are cut along `dim` into pieces of `length`: piece `from` of `in` becomes piece `to` of
 * `out`. */
static void copy_part(struct literal *out, int64_t to, const struct literal *in, int64_t from,
                      int dim, int64_t length) {
    size_t unit = row_bytes(in->shape, dim + 1), bytes = unit * (size_t)length;
    size_t out_step = row_bytes(out->shape, dim), in_step = row_bytes(in->shape, dim);
    int64_t outer = 1;
    for (int i = 0; i < dim; i++)
        outer *= in->shape->dims[i];
    for (int64_t i = 0; i < outer && bytes; i++)
        memcpy((char *)out->data + (size_t)i * out_step + (size_t)(to * length) * unit,
               (const char *)in->data + (size_t)i * in_step + (size_t)(from * length) * unit,
               bytes);
}

/* acc = computation(acc, in), element by element. */
static bool combine_into(struct scalar_fn *fn, struct literal *acc, const struct literal *in) {
    union scalar a[EVAL_BLOCK], b[EVAL_BLOCK];
    const union scalar *args[] = {a, b};
    union scalar *outs[] = {a};
    enum element_type type = acc->shape->type;
    for (int64_t at = 0; at < acc->shape->count; at += EVAL_BLOCK) {
        int64_t rest = acc->shape->count - at;
        int n = rest < EVAL_BLOCK ? (int)rest : EVAL_BLOCK;
        scalar_load(type, acc->data, at, n, a);
        scalar_load(type, in->data, at, n, b);
        if (!scalar_fn_run(fn, n, args, outs)) return false;
        scalar_store(type, acc->data, at, n, a);
    }
    return true;
}

/* Operand k of all devices combined, in the order of their ranks. */
static struct literal *combined(struct eval *e, const struct hlo_instr *instr,
                                const struct meeting *m, int k) {
    const struct literal *first = m->values[k];
    struct scalar_fn *fn = scalar_fn_new(e, instr, instr->called[0], false);
    struct literal *acc = fn ? eval_new_uninit(e, instr, first->shape) : NULL;
    bool good = acc != NULL;
    if (good && first->size) memcpy(acc->data, first->data, first->size);
    for (int d = 1; good && d < m->count; d++)
        good = combine_into(fn, acc, m->values[d * instr->noperands + k]);
    scalar_fn_free(fn);
    if (good) return acc;
    eval_drop(e, acc);
    return NULL;
}

static const struct shape *part_shape(const struct hlo_instr *instr, const struct shape *result,
                                      int k) {
    if (!shape_is_tuple(result)) return instr->noperands == 1 ? result : NULL;
    return result->ntuple == instr->noperands ? result->tuple[k] : NULL;
}

static struct literal *copy_of(struct eval *e, const struct hlo_instr *instr,
                               const struct literal *value) {
    struct literal *copy = eval_new_uninit(e, instr, value->shape);
    if (copy && copy->size) memcpy(copy->data, value->data, copy->size);
    return copy;
}

/* Device s sends to the one that is paired with it; zeros arrive where nobody sends. */
static struct literal *permuted(struct eval *e, const struct hlo_instr *instr,
                                const struct meeting *m, int k) {
    const struct int_lists *pairs = instr_attr(instr, ATTR_SOURCE_TARGET_PAIRS)->int_lists;
    for (int i = 0; i < pairs->count; i++) {
        struct int_list pair = pairs->v[i];
        if (pair.count == 2 && pair.v[1] == e->device && pair.v[0] >= 0 && pair.v[0] < m->count)
            return copy_of(e, instr, m->values[pair.v[0] * instr->noperands + k]);
    }
    return eval_new(e, instr, m->values[k]->shape);
}

/* Result k, of shape `to`. */
static struct literal *result_of(struct eval *e, const struct hlo_instr *instr,
                                 const struct meeting *m, int k, const struct shape *to) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int dim = dims.count ? (int)dims.v[0] : 0, operands = instr->noperands;
    struct literal *whole, *out;
    switch (instr->opcode) {
    case OP_ALL_REDUCE:
    case OP_ALL_REDUCE_START: return combined(e, instr, m, k);
    case OP_REDUCE_SCATTER:
        whole = combined(e, instr, m, k);
        out = whole ? eval_new_uninit(e, instr, to) : NULL;
        if (out) copy_part(out, 0, whole, m->rank, dim, to->dims[dim]);
        eval_drop(e, whole);
        return out;
    case OP_ALL_GATHER:
    case OP_ALL_GATHER_START:
        out = eval_new_uninit(e, instr, to);
        for (int d = 0; out && d < m->count; d++) {
            const struct literal *in = m->values[d * operands + k];
            copy_part(out, d, in, 0, dim, in->shape->dims[dim]);
        }
        return out;
    case OP_ALL_TO_ALL:
        if (!dims.count) return copy_of(e, instr, m->values[k * operands + m->rank]);
        out = eval_new_uninit(e, instr, to);
        for (int d = 0; out && d < m->count; d++)
            copy_part(out, d, m->values[d * operands + k], m->rank, dim, to->dims[dim] / m->count);
        return out;
    case OP_COLLECTIVE_PERMUTE:
    case OP_COLLECTIVE_PERMUTE_START: return permuted(e, instr, m, k);
    case OP_COLLECTIVE_BROADCAST: return copy_of(e, instr, m->values[k]);
    default: return eval_error(e, instr, "this operation is not evaluated on several devices");
    }
}

/* Whether the shapes that were written fit the number of devices that came. */
static bool fits(struct eval *e, const struct hlo_instr *instr, const struct meeting *m, int k,
                 const struct shape *to) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *from = m->values[k]->shape;
    bool good = to && shape_is_array(to) && to->type == from->type && to->rank == from->rank;
    for (int i = 0; good && i < to->rank; i++) {
        bool split = dims.count && dims.v[0] == i;
        switch (instr->opcode) {
        case OP_ALL_GATHER:
        case OP_ALL_GATHER_START:
            good = to->dims[i] == from->dims[i] * (split ? m->count : 1);
            break;
        case OP_REDUCE_SCATTER: good = from->dims[i] == to->dims[i] * (split ? m->count : 1); break;
        case OP_ALL_TO_ALL:
            good = from->dims[i] == to->dims[i] && (!split || to->dims[i] % m->count == 0);
            break;
        default: good = to->dims[i] == from->dims[i];
        }
    }
    if (instr->opcode == OP_ALL_TO_ALL && !dims.count) good &= instr->noperands == m->count;
    if (!good) eval_error(e, instr, "its shapes do not fit a group of %d devices", m->count);
    return good;
}

/* Operands of a ragged-all-to-all; those behind the output have as many entries a device. */
enum {
    RAGGED_INPUT,
    RAGGED_OUTPUT,
    RAGGED_INPUT_OFFSETS,
    RAGGED_SEND_SIZES,
    RAGGED_OUTPUT_OFFSETS
};

/* Rows `from`.. of a sender's input become rows `to`.. of the output; false where there are none.
 */
static bool copy_rows(struct literal *out, int64_t to, const struct literal *in, int64_t from,
                      int64_t rows) {
    size_t row = row_bytes(in->shape, 1);
    if (rows < 0 || from < 0 || to < 0 || from > in->shape->dims[0] - rows ||
        to > out->shape->dims[0] - rows || row != row_bytes(out->shape, 1))
        return false;
    if (rows && row)
        memcpy((char *)out->data + (size_t)to * row, (const char *)in->data + (size_t)from * row,
               (size_t)rows * row);
    return true;
}

struct literal *eval_ragged_all_to_all(struct eval *e, const struct hlo_instr *instr,
                                       const struct meeting *m) {
    int n = instr->noperands;
    const struct literal *own = m->values[m->rank * n + RAGGED_OUTPUT];
    const struct shape *offsets = m->values[RAGGED_INPUT_OFFSETS]->shape;
    bool good = shape_is_array(own->shape) && own->shape->rank >= 1 && shape_is_array(offsets) &&
                offsets->rank == 1 && offsets->dims[0] % m->count == 0 &&
                m->values[RAGGED_INPUT]->shape->rank == own->shape->rank &&
                m->values[RAGGED_INPUT]->shape->type == own->shape->type;
    for (int k = RAGGED_INPUT_OFFSETS; k < n; k++)
        good = good && shape_same_dims(m->values[k]->shape, offsets) &&
               element_type_is_integral(m->values[k]->shape->type);
    if (!good)
        return eval_error(e, instr, "its offsets and sizes do not fit a group of %d", m->count);
    struct literal *out = copy_of(e, instr, own);
    int64_t each = offsets->dims[0] / m->count;
    for (int d = 0; out && d < m->count; d++) {
        struct literal *const *from = m->values + d * n;
        for (int64_t i = m->rank * each; i < (m->rank + 1) * each; i++) {
            if (copy_rows(out, literal_get_int(from[RAGGED_OUTPUT_OFFSETS], i), from[RAGGED_INPUT],
                          literal_get_int(from[RAGGED_INPUT_OFFSETS], i),
                          literal_get_int(from[RAGGED_SEND_SIZES], i)))
                continue;
            eval_drop(e, out);
            return eval_error(e, instr, "rows that device %d sends are outside of the arrays", d);
        }
    }
    return out;
}

/* The values that come out of it: one, or a tuple of them, of shape `result`. */
static struct literal *results_of(struct eval *e, const struct hlo_instr *instr,
                                  const struct meeting *m, const struct shape *result) {
    struct literal **parts = eval_scratch(e, instr, instr->noperands, sizeof *parts), *value;
    bool good = parts != NULL;
    for (int k = 0; good && k < instr->noperands; k++) {
        const struct shape *to = part_shape(instr, result, k);
        good = fits(e, instr, m, k, to) && (parts[k] = result_of(e, instr, m, k, to));
    }
    if (good && shape_is_tuple(result)) {
        value = eval_new_tuple(e, instr, result, parts);
    } else {
        value = good ? parts[0] : NULL;
        for (int k = 0; parts && !good && k < instr->noperands; k++)
            eval_drop(e, parts[k]);
    }
    free(parts);
    return value;
}

/* (operands, results, ...): the rest is zeros. */
static struct literal *started(struct eval *e, const struct hlo_instr *instr,
                               const struct meeting *m, struct literal **ops) {
    const struct shape *shape = instr->shape;
    struct literal *out = eval_new(e, instr, shape), *value;
    for (int part = 0; out && part < 2; part++) {
        if (part == 1) {
            value = results_of(e, instr, m, shape->tuple[1]);
        } else if (shape_is_tuple(shape->tuple[0])) {
            for (int k = 0; k < instr->noperands; k++)
                literal_ref(ops[k]);
            value = eval_new_tuple(e, instr, shape->tuple[0], ops);
        } else {
            value = literal_ref(ops[0]);
        }
        if (!value) {
            eval_drop(e, out);
            return NULL;
        }
        eval_drop(e, out->elements[part]);
        out->elements[part] = value;
    }
    return out;
}

struct literal *eval_partitioned(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    int size = eval_mesh_size(e->mesh), count = size;
    int *order = eval_scratch(e, instr, size, sizeof *order);
    bool permute =
        instr->opcode == OP_COLLECTIVE_PERMUTE || instr->opcode == OP_COLLECTIVE_PERMUTE_START;
    bool start =
        instr->opcode == OP_ALL_GATHER_START || instr->opcode == OP_COLLECTIVE_PERMUTE_START;
    struct literal *result = NULL;
    struct meeting m;
    for (int i = 0; order && permute && i < size; i++)
        order[i] = i;
    if (order && !permute) count = group_of(e, instr, order);
    if (!order || !count) {
        free(order);
        return NULL;
    }
    if (eval_mesh_meet(e, instr, count, order, ops, &m)) {
        if (instr->opcode == OP_RAGGED_ALL_TO_ALL)
            result = eval_ragged_all_to_all(e, instr, &m);
        else
            result = start ? started(e, instr, &m, ops) : results_of(e, instr, &m, instr->shape);
        eval_mesh_leave(e, &m);
    }
    free(order);
    return result;
}
