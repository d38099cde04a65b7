/* Gathers and scatters of one place: a gather with one index vector is a dynamic-slice, a scatter
 * to one known place is a dynamic-update-slice. */
#include "passes/rewrite.h"

/* One index vector, at its operand's dims map[]. */
struct place {
    struct hlo_instr *indices;
    struct int_list map;
};

static bool one_place(const struct hlo_instr *instr, enum attr_key map, enum attr_key batching,
                      struct place *place) {
    place->indices = instr->operands[instr->opcode == OP_GATHER ? 1 : instr->noperands / 2];
    place->map = instr_ints(instr, map);
    return instr_ints(instr, batching).count == 0 && place->indices->shape->count > 0 &&
           place->indices->shape->count == place->map.count &&
           element_type_is_integral(place->indices->shape->type) &&
           !shape_is_dynamic(place->indices->shape);
}

static bool all_plain(const struct hlo_instr *instr) {
    if (!shape_is_array(instr->shape) || shape_is_dynamic(instr->shape)) return false;
    for (int i = 0; i < instr->noperands; i++)
        if (shape_is_dynamic(instr->operands[i]->shape)) return false;
    return true;
}

/* Element k of the index vector as a scalar. */
static struct hlo_instr *index_scalar(struct hlo_instr *before, struct hlo_instr *indices, int k) {
    enum element_type type = indices->shape->type;
    int64_t count = indices->shape->count;
    const struct shape *scalar = shape_scalar(before->parent->module->shapes, type);
    if (count > 1) {
        const struct shape *flat = rewrite_array(before, type, 1, &count);
        indices = rewrite_slice_at(before, rewrite_unary(before, OP_RESHAPE, flat, indices), 0, k);
    }
    return rewrite_unary(before, OP_RESHAPE, scalar, indices);
}

static struct hlo_instr *gather_one(struct pass_context *context, struct hlo_instr *gather) {
    struct place place;
    struct hlo_instr *from = gather->operands[0];
    struct int_list sizes = instr_ints(gather, ATTR_SLICE_SIZES);
    struct hlo_module *module = gather->parent->module;
    struct hlo_instr *operands[SHAPE_MAX_RANK + 1] = {from};
    if (!all_plain(gather) ||
        !one_place(gather, ATTR_START_INDEX_MAP, ATTR_OPERAND_BATCHING_DIMS, &place))
        return NULL;
    if (sizes.count != from->shape->rank || gather->shape->count == 0) return NULL;
    MAY_REWRITE(context);
    const struct shape *scalar = shape_scalar(module->shapes, place.indices->shape->type);
    for (int d = 0; d < sizes.count; d++) {
        operands[d + 1] = NULL;
        for (int k = 0; k < place.map.count; k++)
            if (place.map.v[k] == d) operands[d + 1] = index_scalar(gather, place.indices, k);
        if (!operands[d + 1]) operands[d + 1] = instr_new_splat(gather, scalar, 0);
    }
    const struct shape *shape = rewrite_array(gather, from->shape->type, sizes.count, sizes.v);
    struct hlo_instr *slice =
        instr_new(gather->parent, gather, OP_DYNAMIC_SLICE, shape, NULL, sizes.count + 1, operands);
    instr_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, sizes.count, sizes.v);
    slice->metadata = gather->metadata;
    return rewrite_unary(gather, OP_RESHAPE, gather->shape, slice);
}

/* ---- scatters ---- */

static bool known_index(const struct hlo_instr *indices, int k, int64_t *value) {
    if (indices->opcode == OP_RESHAPE || indices->opcode == OP_BITCAST)
        indices = indices->operands[0];
    bool spread = is_scalar_broadcast(indices);
    const struct hlo_instr *constant = spread ? indices->operands[0] : indices;
    if (!instr_is_constant(constant)) return false;
    *value = literal_get_int(constant->literal, spread ? 0 : k);
    return true;
}

/* What the update covers: sizes by operand dim. */
static bool find_window(const struct hlo_instr *scatter, int64_t *window) {
    const struct shape *to = scatter->operands[0]->shape, *update = scatter->operands[2]->shape;
    struct int_list inserted = instr_ints(scatter, ATTR_INSERTED_WINDOW_DIMS);
    struct int_list dims = instr_ints(scatter, ATTR_UPDATE_WINDOW_DIMS);
    int next = 0;
    for (int d = 0; d < to->rank; d++) {
        bool is_inserted = false;
        for (int i = 0; i < inserted.count; i++)
            is_inserted = is_inserted || inserted.v[i] == d;
        if (!is_inserted && next >= dims.count) return false;
        window[d] = is_inserted ? 1 : update->dims[dims.v[next++]];
    }
    return next == dims.count;
}

static bool find_starts(const struct hlo_instr *scatter, const struct place *place,
                        const int64_t *window, int64_t *starts) {
    const struct shape *to = scatter->operands[0]->shape;
    for (int d = 0; d < to->rank; d++)
        starts[d] = 0;
    for (int k = 0; k < place->map.count; k++) {
        int64_t d = place->map.v[k];
        if (!known_index(place->indices, k, &starts[d])) return false;
        if (starts[d] < 0 || starts[d] > to->dims[d] - window[d]) return false;
    }
    return true;
}

static bool takes_update(const struct hlo_computation *reducer) {
    return reducer->root->opcode == OP_PARAMETER && reducer->root->parameter == 1;
}

static struct hlo_instr *slice_window(struct hlo_instr *scatter, const struct shape *shape,
                                      const int64_t *starts) {
    struct slice_dim dims[SHAPE_MAX_RANK];
    for (int d = 0; d < shape->rank; d++)
        dims[d] = (struct slice_dim){starts[d], starts[d] + shape->dims[d], 1};
    return rewrite_slice(scatter, shape, scatter->operands[0], dims);
}

static struct hlo_instr *scatter_one(struct pass_context *context, struct hlo_instr *scatter) {
    struct place place;
    int64_t window[SHAPE_MAX_RANK], starts[SHAPE_MAX_RANK];
    struct hlo_module *module = scatter->parent->module;
    struct hlo_instr *operands[SHAPE_MAX_RANK + 2] = {scatter->operands[0]};
    const struct shape *to = scatter->operands[0]->shape;
    if (scatter->noperands != 3 || !all_plain(scatter)) return NULL;
    if (scatter->operands[2]->shape->count == 0 && same_array(scatter, scatter->operands[0])) {
        MAY_REWRITE(context);
        return scatter->operands[0];
    }
    if (!one_place(scatter, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, ATTR_INPUT_BATCHING_DIMS, &place) ||
        !find_window(scatter, window) || !find_starts(scatter, &place, window, starts))
        return NULL;
    enum hlo_opcode operation = reducer_operation(scatter->called[0]);
    if (operation == OPCODE_INVALID && !takes_update(scatter->called[0])) return NULL;
    if (scatter->operands[2]->shape->type != to->type || scatter->shape->type != to->type)
        return NULL;
    MAY_REWRITE(context);
    const struct shape *shape = rewrite_array(scatter, to->type, to->rank, window);
    const struct shape *index = shape_scalar(module->shapes, place.indices->shape->type);
    struct hlo_instr *update = rewrite_unary(scatter, OP_RESHAPE, shape, scatter->operands[2]);
    if (operation != OPCODE_INVALID)
        update =
            rewrite_binary(scatter, operation, shape, slice_window(scatter, shape, starts), update);
    operands[1] = update;
    for (int d = 0; d < to->rank; d++)
        operands[d + 2] = instr_new_splat(scatter, index, (double)starts[d]);
    struct hlo_instr *with = instr_new(scatter->parent, scatter, OP_DYNAMIC_UPDATE_SLICE,
                                       scatter->shape, NULL, to->rank + 2, operands);
    with->metadata = scatter->metadata;
    return with;
}

static const struct rewrite rewrites[] = {
    {OP_GATHER, gather_one},
    {OP_SCATTER, scatter_one},
};

bool index_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, (int)(sizeof rewrites / sizeof *rewrites));
}
