/* Operations that move elements without computing on them. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"

void row_strides(const struct shape *shape, int64_t *strides) {
    int64_t stride = 1;

    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
}

static void copy_row(char *out, const char *in, int size, int64_t count, int64_t stride) {
    if (stride == 1) {
        memcpy(out, in, (size_t)(count * size));
        return;
    }
    for (int64_t k = 0; k < count; k++)
        memcpy(out + k * size, in + k * stride * size, (size_t)size);
}

void strided_copy(void *out, const void *in, int size, int rank, const int64_t *dims, int64_t start,
                  const int64_t *strides) {
    int64_t index[SHAPE_MAX_RANK] = {0};
    int64_t row = rank ? dims[rank - 1] : 1, stride = rank ? strides[rank - 1] : 1;
    int64_t done = 0;

    for (int i = 0; i < rank; i++)
        if (dims[i] == 0) return;
    do {
        int64_t at = start;

        for (int i = 0; i < rank - 1; i++)
            at += index[i] * strides[i];
        copy_row((char *)out + done * size, (const char *)in + at * size, size, row, stride);
        done += row;
    } while (rank > 1 && index_next(rank - 1, dims, index));
}

static struct literal *copy_strided(struct eval *e, const struct hlo_instr *instr,
                                    const struct literal *from, int64_t start,
                                    const int64_t *strides) {
    struct literal *result = eval_new_uninit(e, instr, instr->shape);

    if (result)
        strided_copy(result->data, from->data, element_type_size(instr->shape->type),
                     instr->shape->rank, instr->shape->dims, start, strides);
    return result;
}

/* ---- sources ---- */

struct literal *eval_constant(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    (void)ops;
    if (!instr->literal || literal_has_elided(instr->literal))
        return eval_error(e, instr, "the constant's values were left out of the text ({...})");
    return literal_ref(instr->literal);
}

struct literal *eval_iota(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct literal *result = eval_new_uninit(e, instr, instr->shape);
    const struct shape *shape = instr->shape;
    int64_t dim = instr_int(instr, ATTR_IOTA_DIMENSION, 0), inner = 1;
    union scalar block[EVAL_BLOCK];

    (void)ops;
    if (!result) return NULL;
    if (dim < 0 || dim >= shape->rank) {
        eval_drop(e, result);
        return eval_error(e, instr, "iota_dimension is out of range");
    }
    for (int i = (int)dim + 1; i < shape->rank; i++)
        inner *= shape->dims[i];
    for (int64_t start = 0; start < shape->count; start += EVAL_BLOCK) {
        int n = (int)(shape->count - start < EVAL_BLOCK ? shape->count - start : EVAL_BLOCK);

        for (int k = 0; k < n; k++)
            block[k].i = (start + k) / inner % shape->dims[dim];
        scalar_convert(TYPE_S64, shape->type, n, block, block);
        scalar_store(shape->type, result->data, start, n, block);
    }
    return result;
}

struct literal *eval_tuple(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    if (instr->noperands != instr->shape->ntuple)
        return eval_error(e, instr, "operand count differs from the tuple's");
    for (int k = 0; k < instr->noperands; k++)
        literal_ref(ops[k]);
    return eval_new_tuple(e, instr, instr->shape, ops);
}

struct literal *eval_get_tuple_element(struct eval *e, const struct hlo_instr *instr,
                                       struct literal **ops) {
    int64_t index = instr_int(instr, ATTR_INDEX, 0);

    if (!ops[0]->elements || index < 0 || index >= ops[0]->shape->ntuple)
        return eval_error(e, instr, "no such tuple element");
    return literal_ref(ops[0]->elements[index]);
}

struct literal *eval_identity(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    (void)e;
    (void)instr;
    return literal_ref(ops[0]);
}

struct literal *eval_token(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    (void)ops;
    return eval_new(e, instr, instr->shape);
}

/* ---- shape changes ---- */

struct literal *eval_reshape(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct literal *result;

    if (ops[0]->shape->bytes != instr->shape->bytes)
        return eval_error(e, instr, "operand and result differ in size");
    result = eval_new_uninit(e, instr, instr->shape);
    if (result) memcpy(result->data, ops[0]->data, (size_t)instr->shape->bytes);
    return result;
}

/* Elements of the shape in memory order to (or from) logical order. */
static void reorder(const struct shape *shape, char *logical, char *physical, bool to_logical) {
    int size = element_type_size(shape->type);
    int64_t strides[SHAPE_MAX_RANK], index[SHAPE_MAX_RANK] = {0}, done = 0;

    shape_strides(shape, strides);
    if (shape->count == 0) return;
    do {
        int64_t at = 0;

        for (int i = 0; i < shape->rank; i++)
            at += index[i] * strides[i];
        if (to_logical)
            memcpy(logical + done * size, physical + at * size, (size_t)size);
        else
            memcpy(physical + at * size, logical + done * size, (size_t)size);
        done++;
    } while (index_next(shape->rank, shape->dims, index));
}

/* The same bytes in memory, which the layouts of operand and result read differently. */
struct literal *eval_bitcast(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    const struct shape *from = instr->operands[0]->shape, *to = instr->shape;
    struct literal *result;
    char *memory;

    if (!shape_is_array(from) || !shape_is_array(to) || from->bytes != to->bytes)
        return from->plain == to->plain ? literal_ref(ops[0])
                                        : eval_error(e, instr, "operand and result differ in size");
    if (shape_layout_is_default(from) && shape_layout_is_default(to))
        return eval_reshape(e, instr, ops);
    memory = eval_scratch(e, instr, from->bytes, 1);
    result = memory ? eval_new_uninit(e, instr, to) : NULL;
    if (result) {
        reorder(from, ops[0]->data, memory, false);
        reorder(to, result->data, memory, true);
    }
    free(memory);
    return result;
}

struct literal *eval_broadcast(struct eval *e, const struct hlo_instr *instr,
                               struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t in_strides[SHAPE_MAX_RANK], strides[SHAPE_MAX_RANK] = {0};
    const struct shape *in = ops[0]->shape;

    row_strides(in, in_strides);
    if (dims.count != in->rank) return eval_error(e, instr, "dimensions do not match the operand");
    for (int i = 0; i < in->rank; i++) {
        if (dims.v[i] < 0 || dims.v[i] >= instr->shape->rank)
            return eval_error(e, instr, "dimensions are out of range");
        strides[dims.v[i]] = in->dims[i] == 1 ? 0 : in_strides[i];
    }
    return copy_strided(e, instr, ops[0], 0, strides);
}

struct literal *eval_transpose(struct eval *e, const struct hlo_instr *instr,
                               struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t in_strides[SHAPE_MAX_RANK], strides[SHAPE_MAX_RANK];

    row_strides(ops[0]->shape, in_strides);
    if (dims.count != instr->shape->rank || dims.count != ops[0]->shape->rank)
        return eval_error(e, instr, "dimensions do not match the operand");
    for (int i = 0; i < dims.count; i++) {
        if (dims.v[i] < 0 || dims.v[i] >= dims.count)
            return eval_error(e, instr, "dimensions are out of range");
        strides[i] = in_strides[dims.v[i]];
    }
    return copy_strided(e, instr, ops[0], 0, strides);
}

struct literal *eval_reverse(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t strides[SHAPE_MAX_RANK], start = 0;
    const struct shape *shape = ops[0]->shape;

    row_strides(shape, strides);
    for (int i = 0; i < shape->rank; i++) {
        if (!int_list_has(dims, i) || shape->dims[i] == 0) continue;
        start += (shape->dims[i] - 1) * strides[i];
        strides[i] = -strides[i];
    }
    return copy_strided(e, instr, ops[0], start, strides);
}

struct literal *eval_slice(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_SLICE);
    int64_t strides[SHAPE_MAX_RANK], start = 0;
    const struct shape *shape = ops[0]->shape;

    row_strides(shape, strides);
    if (!attr || attr->slices->count != shape->rank)
        return eval_error(e, instr, "slice does not match the operand");
    for (int i = 0; i < shape->rank; i++) {
        struct slice_dim s = attr->slices->v[i];

        if (s.start < 0 || s.limit > shape->dims[i] || s.stride < 1)
            return eval_error(e, instr, "slice is out of range");
        start += s.start * strides[i];
        strides[i] *= s.stride;
    }
    return copy_strided(e, instr, ops[0], start, strides);
}

struct literal *eval_concatenate(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t dim = dims.count ? dims.v[0] : 0, outer = 1, inner, offset = 0, row;
    const struct shape *shape = instr->shape;
    struct literal *result;

    if (dim < 0 || dim >= shape->rank) return eval_error(e, instr, "dimensions are out of range");
    result = eval_new_uninit(e, instr, shape);
    if (!result) return NULL;
    inner = element_type_size(shape->type);
    for (int i = 0; i < dim; i++)
        outer *= shape->dims[i];
    for (int i = (int)dim + 1; i < shape->rank; i++)
        inner *= shape->dims[i];
    row = shape->dims[dim] * inner;
    for (int k = 0; k < instr->noperands; k++) {
        int64_t part = ops[k]->shape->dims[dim] * inner;

        for (int64_t o = 0; o < outer && part > 0; o++)
            memcpy((char *)result->data + o * row + offset, (char *)ops[k]->data + o * part,
                   (size_t)part);
        offset += part;
    }
    return result;
}

static void fill(void *out, const void *value, int size, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        memcpy((char *)out + k * size, value, (size_t)size);
}

struct literal *eval_pad(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_PADDING);
    const struct shape *in = ops[0]->shape, *shape = instr->shape;
    int64_t index[SHAPE_MAX_RANK] = {0}, strides[SHAPE_MAX_RANK], done = 0;
    int size = element_type_size(shape->type);
    struct literal *result;

    if (!attr || attr->padding->count != in->rank || shape->rank != in->rank)
        return eval_error(e, instr, "padding does not match the operand");
    result = eval_new_uninit(e, instr, shape);
    if (!result) return NULL;
    row_strides(shape, strides);
    fill(result->data, ops[1]->data, size, shape->count);
    if (in->count == 0) return result;
    do {
        int64_t at = 0;
        bool inside = true;

        for (int i = 0; i < in->rank && inside; i++) {
            struct padding_dim p = attr->padding->v[i];
            int64_t x = p.low + index[i] * (p.interior + 1);

            inside = x >= 0 && x < shape->dims[i];
            at += x * strides[i];
        }
        if (inside)
            memcpy((char *)result->data + at * size, (char *)ops[0]->data + done * size,
                   (size_t)size);
        done++;
    } while (index_next(in->rank, in->dims, index));
    return result;
}

/* ---- dynamic starts ---- */

/* An index of any integer type; u64 past the signed range counts as large. */
static int64_t read_index(const struct literal *literal, int64_t at) {
    union scalar x;

    scalar_load(literal->shape->type, literal->data, at, 1, &x);
    return literal->shape->type == TYPE_U64 && x.i < 0 ? INT64_MAX : x.i;
}

/* The starts as scalar operands, or (the old form) as one vector. */
static int64_t read_start(const struct hlo_instr *instr, struct literal **ops, int first, int dim) {
    if (instr->noperands == first + 1 && ops[first]->shape->rank == 1)
        return read_index(ops[first], dim);
    return read_index(ops[first + dim], 0);
}

static bool starts_fit(const struct hlo_instr *instr, struct literal **ops, int first, int rank) {
    if (instr->noperands == first + 1 && ops[first]->shape->rank == 1)
        return ops[first]->shape->dims[0] == rank;
    return instr->noperands == first + rank;
}

struct literal *eval_dynamic_slice(struct eval *e, const struct hlo_instr *instr,
                                   struct literal **ops) {
    const struct shape *in = ops[0]->shape;
    int64_t strides[SHAPE_MAX_RANK], start = 0;

    if (!starts_fit(instr, ops, 1, in->rank) || in->rank != instr->shape->rank)
        return eval_error(e, instr, "start indices do not match the operand");
    row_strides(in, strides);
    for (int i = 0; i < in->rank; i++)
        start += strides[i] *
                 clamp_int(read_start(instr, ops, 1, i), 0, in->dims[i] - instr->shape->dims[i]);
    return copy_strided(e, instr, ops[0], start, strides);
}

static void write_window(struct literal *into, const struct literal *update, int64_t start,
                         const int64_t *strides) {
    const struct shape *shape = update->shape;
    int size = element_type_size(shape->type), rank = shape->rank;
    int64_t index[SHAPE_MAX_RANK] = {0}, done = 0, row = rank ? shape->dims[rank - 1] : 1;

    if (shape->count == 0) return;
    do {
        int64_t at = start;

        for (int i = 0; i < rank - 1; i++)
            at += index[i] * strides[i];
        memcpy((char *)into->data + at * size, (char *)update->data + done * size,
               (size_t)(row * size));
        done += row;
    } while (rank > 1 && index_next(rank - 1, shape->dims, index));
}

/* The operand itself where nobody else sees it, otherwise a copy. */
static struct literal *own_array(struct eval *e, const struct hlo_instr *instr,
                                 struct literal *operand) {
    struct literal *result;

    if (operand->refs == 1) return literal_ref(operand);
    result = eval_new_uninit(e, instr, operand->shape);
    if (result) memcpy(result->data, operand->data, operand->size);
    return result;
}

struct literal *eval_dynamic_update_slice(struct eval *e, const struct hlo_instr *instr,
                                          struct literal **ops) {
    const struct shape *in = ops[0]->shape, *update = ops[1]->shape;
    int64_t strides[SHAPE_MAX_RANK], start = 0;
    struct literal *result;

    if (!starts_fit(instr, ops, 2, in->rank) || in->rank != update->rank)
        return eval_error(e, instr, "start indices do not match the operand");
    row_strides(in, strides);
    for (int i = 0; i < in->rank; i++) {
        if (update->dims[i] > in->dims[i])
            return eval_error(e, instr, "the update is larger than the operand");
        start +=
            strides[i] * clamp_int(read_start(instr, ops, 2, i), 0, in->dims[i] - update->dims[i]);
    }
    if (!eval_charge(e, instr, update->count)) return NULL;
    result = own_array(e, instr, ops[0]);
    if (result) write_window(result, ops[1], start, strides);
    return result;
}

struct literal *eval_get_dimension_size(struct eval *e, const struct hlo_instr *instr,
                                        struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct literal *result;

    if (dims.count != 1 || dims.v[0] < 0 || dims.v[0] >= ops[0]->shape->rank)
        return eval_error(e, instr, "dimensions are out of range");
    result = eval_new(e, instr, instr->shape);
    if (result) literal_set_int(result, 0, live_size(ops[0], (int)dims.v[0]));
    return result;
}

struct literal *eval_set_dimension_size(struct eval *e, const struct hlo_instr *instr,
                                        struct literal **ops) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    const struct shape *shape = ops[0]->shape;
    int64_t size = read_index(ops[1], 0);
    struct literal *result;

    if (dims.count != 1 || dims.v[0] < 0 || dims.v[0] >= shape->rank)
        return eval_error(e, instr, "dimensions are out of range");
    if (size < 0 || size > shape->dims[dims.v[0]])
        return eval_error(e, instr, "size %lld is outside of the bound %lld", (long long)size,
                          (long long)shape->dims[dims.v[0]]);
    result = eval_reshape(e, instr, ops);
    if (!result) return NULL;
    result->dynamic_sizes = malloc((size_t)shape->rank * sizeof(int64_t));
    if (!result->dynamic_sizes) {
        eval_drop(e, result);
        return eval_error(e, instr, "out of memory");
    }
    for (int i = 0; i < shape->rank; i++)
        result->dynamic_sizes[i] = live_size(ops[0], i);
    result->dynamic_sizes[dims.v[0]] = size;
    return result;
}

/* ---- gather and scatter ---- */

/* How index vectors lie in the indices array, and which operand dimension each entry starts. */
struct index_map {
    const struct literal *indices;
    int64_t vector_dim, vector_stride, vector_size;
    int nbatch;                      /* dimensions of indices but vector_dim, in order */
    int64_t strides[SHAPE_MAX_RANK]; /* of those */
    int batch_of[SHAPE_MAX_RANK];    /* position among them of an indices dimension */
    struct int_list start_map, operand_batch, indices_batch;
};

static bool index_map_init(struct index_map *map, const struct literal *indices,
                           int64_t vector_dim) {
    const struct shape *shape = indices->shape;
    int64_t strides[SHAPE_MAX_RANK];

    map->indices = indices;
    map->vector_dim = vector_dim;
    map->vector_size = 1;
    row_strides(shape, strides);
    for (int i = 0; i < shape->rank; i++) {
        if (i == vector_dim) {
            map->vector_stride = strides[i];
            map->vector_size = shape->dims[i];
            continue;
        }
        map->batch_of[i] = map->nbatch;
        map->strides[map->nbatch++] = strides[i];
    }
    return map->vector_size == map->start_map.count &&
           map->operand_batch.count == map->indices_batch.count;
}

/* Operand start of the window at a batch index; dimensions without an entry start at 0. */
static void read_starts(const struct index_map *map, const int64_t *batch, int rank,
                        int64_t *starts) {
    int64_t at = 0;

    for (int i = 0; i < rank; i++)
        starts[i] = 0;
    for (int i = 0; i < map->nbatch; i++)
        at += batch[i] * map->strides[i];
    for (int i = 0; i < map->start_map.count; i++)
        starts[map->start_map.v[i]] = read_index(map->indices, at + i * map->vector_stride);
    for (int i = 0; i < map->operand_batch.count; i++)
        starts[map->operand_batch.v[i]] = batch[map->batch_of[map->indices_batch.v[i]]];
}

static bool all_below(struct int_list list, int limit) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] < 0 || list.v[i] >= limit) return false;
    return true;
}

/* Dimensions of `shape` split into those in `window` (in order) and the rest. */
static int split_dims(const struct shape *shape, struct int_list window, int *window_dims,
                      int *other_dims) {
    int nwindow = 0, nother = 0;

    for (int i = 0; i < shape->rank; i++) {
        if (int_list_has(window, i))
            window_dims[nwindow++] = i;
        else
            other_dims[nother++] = i;
    }
    return nwindow;
}

/* Operand dimensions that a window has: those neither dropped nor batched. */
static int kept_dims(int rank, struct int_list dropped, struct int_list batched, int *dims) {
    int n = 0;

    for (int i = 0; i < rank; i++)
        if (!int_list_has(dropped, i) && !int_list_has(batched, i)) dims[n++] = i;
    return n;
}

struct literal *eval_gather(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct index_map map = {0};
    struct int_list offset = instr_ints(instr, ATTR_OFFSET_DIMS);
    struct int_list collapsed = instr_ints(instr, ATTR_COLLAPSED_SLICE_DIMS);
    struct int_list sizes = instr_ints(instr, ATTR_SLICE_SIZES);
    const struct shape *in = ops[0]->shape, *shape = instr->shape;
    int window_dims[SHAPE_MAX_RANK], batch_dims[SHAPE_MAX_RANK], kept[SHAPE_MAX_RANK], nwindow;
    int64_t strides[SHAPE_MAX_RANK], starts[SHAPE_MAX_RANK], batch[SHAPE_MAX_RANK];
    int64_t index[SHAPE_MAX_RANK] = {0}, done = 0;
    int size = element_type_size(shape->type);
    struct literal *result;

    map.start_map = instr_ints(instr, ATTR_START_INDEX_MAP);
    map.operand_batch = instr_ints(instr, ATTR_OPERAND_BATCHING_DIMS);
    map.indices_batch = instr_ints(instr, ATTR_START_INDICES_BATCHING_DIMS);
    nwindow = split_dims(shape, offset, window_dims, batch_dims);
    if (!index_map_init(&map, ops[1], instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0)) ||
        !all_below(map.start_map, in->rank) || !all_below(map.operand_batch, in->rank) ||
        !all_below(map.indices_batch, ops[1]->shape->rank) || sizes.count != in->rank ||
        kept_dims(in->rank, collapsed, map.operand_batch, kept) != nwindow ||
        shape->rank - nwindow != map.nbatch)
        return eval_error(e, instr, "dimension numbers do not fit together");
    result = eval_new_uninit(e, instr, shape);
    if (!result || shape->count == 0) return result;
    row_strides(in, strides);
    do {
        int64_t at = 0;

        for (int i = 0; i < map.nbatch; i++)
            batch[i] = index[batch_dims[i]];
        read_starts(&map, batch, in->rank, starts);
        for (int i = 0; i < in->rank; i++)
            at += clamp_int(starts[i], 0, in->dims[i] - sizes.v[i]) * strides[i];
        for (int i = 0; i < nwindow; i++)
            at += index[window_dims[i]] * strides[kept[i]];
        memcpy((char *)result->data + done * size, (char *)ops[0]->data + at * size, (size_t)size);
        done++;
    } while (index_next(shape->rank, shape->dims, index));
    return result;
}

struct scatter {
    int n; /* operands */
    struct literal **results, **updates;
    struct index_map map;
    int rank, nwindow, nbatch;
    int window_dims[SHAPE_MAX_RANK], batch_dims[SHAPE_MAX_RANK], kept[SHAPE_MAX_RANK];
    int64_t strides[SHAPE_MAX_RANK], update_strides[SHAPE_MAX_RANK];
    struct scalar_fn *fn;
    union scalar *values; /* 2 n: old values, then updates */
    const union scalar **args;
    union scalar **outs;
};

static bool combine_one(struct scatter *s, int64_t at, int64_t from) {
    for (int k = 0; k < s->n; k++) {
        scalar_load(s->results[k]->shape->type, s->results[k]->data, at, 1, &s->values[k]);
        scalar_load(s->updates[k]->shape->type, s->updates[k]->data, from, 1, &s->values[s->n + k]);
    }
    if (!scalar_fn_run(s->fn, 1, s->args, s->outs)) return false;
    for (int k = 0; k < s->n; k++)
        scalar_store(s->results[k]->shape->type, s->results[k]->data, at, 1, &s->values[k]);
    return true;
}

/* All updates of one window, unless a part of it is out of range. */
static bool scatter_window(struct scatter *s, const int64_t *batch) {
    const struct shape *shape = s->results[0]->shape, *update = s->updates[0]->shape;
    int64_t starts[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK], window[SHAPE_MAX_RANK] = {0};
    int64_t dims[SHAPE_MAX_RANK], base = 0, from_base = 0;

    read_starts(&s->map, batch, s->rank, starts);
    for (int i = 0; i < s->rank; i++)
        sizes[i] = 1;
    for (int i = 0; i < s->nwindow; i++)
        sizes[s->kept[i]] = dims[i] = update->dims[s->window_dims[i]];
    for (int i = 0; i < s->rank; i++) {
        if (starts[i] < 0 || starts[i] > shape->dims[i] - sizes[i]) return true;
        base += starts[i] * s->strides[i];
    }
    for (int i = 0; i < s->nbatch; i++)
        from_base += batch[i] * s->update_strides[s->batch_dims[i]];
    do {
        int64_t at = base, from = from_base;

        for (int i = 0; i < s->nwindow; i++) {
            at += window[i] * s->strides[s->kept[i]];
            from += window[i] * s->update_strides[s->window_dims[i]];
        }
        if (!combine_one(s, at, from)) return false;
    } while (index_next(s->nwindow, dims, window));
    return true;
}

static bool scatter_all(struct eval *e, const struct hlo_instr *instr, struct scatter *s) {
    const struct shape *update = s->updates[0]->shape;
    int64_t batch[SHAPE_MAX_RANK] = {0}, dims[SHAPE_MAX_RANK];

    s->fn = scalar_fn_new(e, instr, instr->called[0], false);
    s->values = eval_scratch(e, instr, 2 * s->n, sizeof *s->values);
    s->args = eval_scratch(e, instr, 2 * s->n, sizeof *s->args);
    s->outs = eval_scratch(e, instr, s->n, sizeof *s->outs);
    if (!s->fn || !s->values || !s->args || !s->outs) return false;
    if (instr->called[0]->nparameters != 2 * s->n || scalar_fn_result_count(s->fn) != s->n) {
        eval_error(e, instr, "the computation does not combine %d values", s->n);
        return false;
    }
    for (int k = 0; k < 2 * s->n; k++)
        s->args[k] = &s->values[k];
    for (int k = 0; k < s->n; k++)
        s->outs[k] = &s->values[k];
    if (update->count == 0) return true;
    for (int i = 0; i < s->nbatch; i++)
        dims[i] = update->dims[s->batch_dims[i]];
    do
        if (!scatter_window(s, batch)) return false;
    while (index_next(s->nbatch, dims, batch));
    return true;
}

static bool scatter_init(struct scatter *s, const struct hlo_instr *instr, struct literal **ops) {
    struct int_list inserted = instr_ints(instr, ATTR_INSERTED_WINDOW_DIMS);
    const struct shape *in = ops[0]->shape, *update;

    if (instr->noperands % 2 == 0 || instr->ncalled != 1) return false;
    s->n = instr->noperands / 2;
    s->updates = ops + s->n + 1;
    update = s->updates[0]->shape;
    s->rank = in->rank;
    s->map.start_map = instr_ints(instr, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
    s->map.operand_batch = instr_ints(instr, ATTR_INPUT_BATCHING_DIMS);
    s->map.indices_batch = instr_ints(instr, ATTR_SCATTER_INDICES_BATCHING_DIMS);
    s->nwindow = split_dims(update, instr_ints(instr, ATTR_UPDATE_WINDOW_DIMS), s->window_dims,
                            s->batch_dims);
    s->nbatch = update->rank - s->nwindow;
    row_strides(in, s->strides);
    row_strides(update, s->update_strides);
    return index_map_init(&s->map, ops[s->n], instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0)) &&
           all_below(s->map.start_map, in->rank) && all_below(s->map.operand_batch, in->rank) &&
           all_below(s->map.indices_batch, ops[s->n]->shape->rank) &&
           kept_dims(in->rank, inserted, s->map.operand_batch, s->kept) == s->nwindow &&
           s->nbatch == s->map.nbatch;
}

struct literal *eval_scatter(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    struct scatter s = {0};
    struct literal *result = NULL;
    bool good = true;

    if (!scatter_init(&s, instr, ops))
        return eval_error(e, instr, "dimension numbers do not fit together");
    s.results = eval_scratch(e, instr, s.n, sizeof *s.results);
    for (int k = 0; s.results && good && k < s.n; k++)
        good = (s.results[k] = own_array(e, instr, ops[k])) != NULL;
    if (s.results && good && eval_charge(e, instr, s.updates[0]->shape->count) &&
        scatter_all(e, instr, &s)) {
        if (shape_is_tuple(instr->shape))
            result = eval_new_tuple(e, instr, instr->shape, s.results);
        else
            result = s.results[0];
    } else {
        for (int k = 0; s.results && k < s.n; k++)
            eval_drop(e, s.results[k]);
    }
    scalar_fn_free(s.fn);
    free(s.values);
    free(s.args);
    free(s.outs);
    free(s.results);
    return result;
}
