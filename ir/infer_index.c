/* Shapes of gather, scatter and the operations on dimension sizes. */
#include "ir/infer_internal.h"

static bool dimension_of(struct hlo_instr *instr, struct diag *diag, const struct shape *shape) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (dims.count == 1) return infer_check_dims(instr, diag, "dimensions", dims, shape->rank);
    diag_instr_error(diag, instr, "%d dimensions given, 1 expected", dims.count);
    return false;
}

const struct shape *infer_get_dimension_size(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    if (!shape || !dimension_of(instr, diag, shape)) return NULL;
    return infer_array(instr, diag, TYPE_S32, 0, NULL);
}

const struct shape *infer_set_dimension_size(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *shape = infer_array_operand(instr, diag, 0);
    const struct shape *size = infer_operand(instr, 1);
    if (!shape || !dimension_of(instr, diag, shape)) return NULL;
    if (!shape_is_scalar(size) || size->type != TYPE_S32)
        return INFER_FAIL(instr, diag, "size has shape %s, s32[] expected",
                          infer_text(instr, size));
    if (instr->shape) return shape;
    bool dynamic[SHAPE_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        dynamic[i] =
            (shape->dynamic && shape->dynamic[i]) || i == instr_ints(instr, ATTR_DIMENSIONS).v[0];
    struct shape proto = *shape->plain;
    proto.dynamic = dynamic;
    const char *why;
    return shape_intern(infer_table(instr), &proto, &why);
}

/* Checks the index array; *vector gets the length of an index vector. */
static bool check_indices(struct hlo_instr *instr, struct diag *diag, const struct shape *indices,
                          int64_t *vector) {
    int64_t dim = instr_int(instr, ATTR_INDEX_VECTOR_DIM, -1);
    if (!shape_is_array(indices) || !element_type_is_integral(indices->type)) {
        diag_instr_error(diag, instr, "indices have shape %s, an array of integers expected",
                         infer_text(instr, indices));
        return false;
    }
    if (dim < 0 || dim > indices->rank) {
        diag_instr_error(diag, instr, "index_vector_dim=%lld given, 0 to %d expected",
                         (long long)dim, indices->rank);
        return false;
    }
    *vector = dim == indices->rank ? 1 : indices->dims[dim];
    return true;
}

struct index_map {
    struct int_list window, collapsed, map, batching, index_batching;
    const char *window_name, *collapsed_name, *map_name, *batching_name;
};

/* XLA wants the lists that stand for sets in order. */
static bool ascending(struct hlo_instr *instr, struct diag *diag, const char *what,
                      struct int_list dims) {
    for (int i = 1; i < dims.count; i++)
        if (dims.v[i] < dims.v[i - 1]) {
            diag_instr_error(diag, instr, "%s has %lld after %lld, ascending dimensions expected",
                             what, (long long)dims.v[i], (long long)dims.v[i - 1]);
            return false;
        }
    return true;
}

static bool check_map(struct hlo_instr *instr, struct diag *diag, const struct index_map *m,
                      const struct shape *operand, const struct shape *indices, int result_rank) {
    int64_t vector, dim = instr_int(instr, ATTR_INDEX_VECTOR_DIM, -1);
    if (!check_indices(instr, diag, indices, &vector) ||
        !infer_check_dims(instr, diag, m->window_name, m->window, result_rank) ||
        !infer_check_dims(instr, diag, m->collapsed_name, m->collapsed, operand->rank) ||
        !infer_check_dims(instr, diag, m->map_name, m->map, operand->rank) ||
        !infer_check_dims(instr, diag, m->batching_name, m->batching, operand->rank) ||
        !infer_check_dims(instr, diag, "batching dimensions of the indices", m->index_batching,
                          indices->rank) ||
        !ascending(instr, diag, m->window_name, m->window) ||
        !ascending(instr, diag, m->collapsed_name, m->collapsed) ||
        !ascending(instr, diag, m->batching_name, m->batching))
        return false;
    if (m->map.count != vector) {
        diag_instr_error(diag, instr,
                         "%s has %d dimensions, %lld (the length of an index vector) "
                         "expected",
                         m->map_name, m->map.count, (long long)vector);
        return false;
    }
    if (m->window.count + m->collapsed.count + m->batching.count != operand->rank) {
        diag_instr_error(diag, instr, "%s, %s and %s have %d dimensions together, %d expected",
                         m->window_name, m->collapsed_name, m->batching_name,
                         m->window.count + m->collapsed.count + m->batching.count, operand->rank);
        return false;
    }
    if (m->batching.count != m->index_batching.count) {
        diag_instr_error(diag, instr, "%d batching dimensions of the indices given, %d expected",
                         m->index_batching.count, m->batching.count);
        return false;
    }
    for (int i = 0; i < m->batching.count; i++) {
        if (int_list_has(m->collapsed, m->batching.v[i]) ||
            int_list_has(m->map, m->batching.v[i]) || m->index_batching.v[i] == dim ||
            operand->dims[m->batching.v[i]] != indices->dims[m->index_batching.v[i]]) {
            diag_instr_error(diag, instr,
                             "batching dimension %lld given, one of its own with the "
                             "size of that of the indices expected",
                             (long long)m->batching.v[i]);
            return false;
        }
    }
    return true;
}

/* Sizes of the indices but for the index vector, spread over the dimensions not in `window`. */
static void spread_batch(struct hlo_instr *instr, const struct shape *indices,
                         struct int_list window, int rank, int64_t *sizes) {
    int64_t dim = instr_int(instr, ATTR_INDEX_VECTOR_DIM, -1);
    int next = 0;
    for (int i = 0; i < rank; i++) {
        if (int_list_has(window, i)) continue;
        next += next == dim;
        sizes[i] = indices->dims[next++];
    }
}

static int batch_rank(struct hlo_instr *instr, const struct shape *indices) {
    return indices->rank - (instr_int(instr, ATTR_INDEX_VECTOR_DIM, -1) < indices->rank);
}

const struct shape *infer_gather(struct hlo_instr *instr, struct diag *diag) {
    const struct shape *operand = infer_array_operand(instr, diag, 0);
    const struct shape *indices = operand ? infer_array_operand(instr, diag, 1) : NULL;
    struct int_list slice = instr_ints(instr, ATTR_SLICE_SIZES);
    struct index_map m = {instr_ints(instr, ATTR_OFFSET_DIMS),
                          instr_ints(instr, ATTR_COLLAPSED_SLICE_DIMS),
                          instr_ints(instr, ATTR_START_INDEX_MAP),
                          instr_ints(instr, ATTR_OPERAND_BATCHING_DIMS),
                          instr_ints(instr, ATTR_START_INDICES_BATCHING_DIMS),
                          "offset_dims",
                          "collapsed_slice_dims",
                          "start_index_map",
                          "operand_batching_dims"};
    if (!indices) return NULL;
    int rank = batch_rank(instr, indices) + m.window.count;
    int64_t sizes[SHAPE_MAX_RANK];
    if (rank > SHAPE_MAX_RANK)
        return INFER_FAIL(instr, diag, "result of rank %d, at most %d expected", rank,
                          SHAPE_MAX_RANK);
    if (!check_map(instr, diag, &m, operand, indices, rank)) return NULL;
    if (slice.count != operand->rank)
        return INFER_FAIL(instr, diag, "%d slice_sizes given, %d expected", slice.count,
                          operand->rank);
    spread_batch(instr, indices, m.window, rank, sizes);
    int next = 0;
    for (int i = 0; i < operand->rank; i++) {
        bool gone = int_list_has(m.collapsed, i) || int_list_has(m.batching, i);
        int64_t most = gone && operand->dims[i] > 1 ? 1 : operand->dims[i];
        if (slice.v[i] < 0 || slice.v[i] > most)
            return INFER_FAIL(instr, diag,
                              "slice size %lld given for dimension %d, 0 to %lld "
                              "expected",
                              (long long)slice.v[i], i, (long long)most);
        if (!gone && next < m.window.count) sizes[m.window.v[next++]] = slice.v[i];
    }
    return infer_array(instr, diag, operand->type, rank, sizes);
}

static bool check_update(struct hlo_instr *instr, struct diag *diag, const struct index_map *m,
                         const struct shape *operand, const struct shape *indices,
                         const struct shape *update) {
    int64_t sizes[SHAPE_MAX_RANK];
    int rank = batch_rank(instr, indices) + m->window.count;
    bool fits = shape_is_array(update) && update->rank == rank && update->type == operand->type;
    if (fits && !check_map(instr, diag, m, operand, indices, rank)) return false;
    if (fits) spread_batch(instr, indices, m->window, rank, sizes);
    for (int i = 0, next = 0; fits && i < operand->rank; i++)
        if (!int_list_has(m->collapsed, i) && !int_list_has(m->batching, i)) {
            int64_t dim = m->window.v[next++];
            sizes[dim] = update->dims[dim] <= operand->dims[i] ? update->dims[dim] : -1;
        }
    for (int i = 0; fits && i < rank; i++)
        fits = update->dims[i] == sizes[i];
    if (!fits)
        diag_instr_error(diag, instr,
                         "updates have shape %s, windows of %s for each index of %s "
                         "(rank %d) expected",
                         infer_text(instr, update), infer_text(instr, operand),
                         infer_text(instr, indices), rank);
    return fits;
}

/* The called computation gives what the arrays hold. */
static bool combined_good(struct hlo_instr *instr, struct diag *diag, int count) {
    const struct shape *root = infer_root(instr, 0);
    bool tuple = shape_is_tuple(root);
    bool fits = (tuple ? root->ntuple : 1) == count;
    for (int i = 0; fits && i < count; i++) {
        const struct shape *element = tuple ? root->tuple[i] : root;
        fits = shape_is_scalar(element) &&
               infer_same_sort(element->type, infer_operand(instr, i)->type);
    }
    if (!fits)
        diag_instr_error(diag, instr, "%s gives %s, a scalar for each array, of its type, expected",
                         instr->called[0]->name, infer_text(instr, root));
    return fits;
}

const struct shape *infer_scatter(struct hlo_instr *instr, struct diag *diag) {
    struct index_map m = {instr_ints(instr, ATTR_UPDATE_WINDOW_DIMS),
                          instr_ints(instr, ATTR_INSERTED_WINDOW_DIMS),
                          instr_ints(instr, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                          instr_ints(instr, ATTR_INPUT_BATCHING_DIMS),
                          instr_ints(instr, ATTR_SCATTER_INDICES_BATCHING_DIMS),
                          "update_window_dims",
                          "inserted_window_dims",
                          "scatter_dims_to_operand_dims",
                          "input_batching_dims"};
    int n = instr->noperands / 2;
    if (instr->noperands % 2 == 0)
        return INFER_FAIL(instr, diag,
                          "%d operands given, arrays, indices and as many updates "
                          "expected",
                          instr->noperands);
    const struct shape *indices = infer_array_operand(instr, diag, n);
    int64_t vector;
    if (!indices || !check_indices(instr, diag, indices, &vector)) return NULL;
    const struct shape **elements =
        arena_array(instr->parent->module->arena, (size_t)n, sizeof *elements);
    for (int i = 0; i < n; i++) {
        elements[i] = infer_array_operand(instr, diag, i);
        if (!elements[i]) return NULL;
        if (!infer_same_dims(elements[i], elements[0]))
            return INFER_FAIL(instr, diag,
                              "operand %d has shape %s, the dimensions of %s "
                              "expected",
                              i, infer_text(instr, elements[i]), infer_text(instr, elements[0]));
        if (!check_update(instr, diag, &m, elements[i], indices, infer_operand(instr, n + 1 + i)))
            return NULL;
    }
    if (!infer_check_called(instr, diag, 0, 2 * n, NULL) || !combined_good(instr, diag, n))
        return NULL;
    return n == 1 ? elements[0] : infer_tuple(instr, diag, n, elements);
}
