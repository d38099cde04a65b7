/* What matters between devices, memories and threads only, replaced by its value on one device:
 * collectives, device numbers, asynchronous pairs, annotations, custom calls that carry the
 * computation they stand for, sizes of dimensions that are static. */
#include <string.h>

#include "ir/custom_call.h"
#include "passes/pass.h"
#include "passes/util.h"

/* Builds what stands for the instruction, before it; NULL where it must stay. */
typedef struct hlo_instr *replacer(struct hlo_instr *instr);

static struct hlo_instr *new_tuple(struct hlo_instr *before, const struct shape *shape, int count,
                                   struct hlo_instr *const *elements) {
    return instr_new(before->parent, before, OP_TUPLE, shape, NULL, count, elements);
}

/* Zeros of any shape but those with tokens in them. */
static struct hlo_instr *zeros(struct hlo_instr *before, const struct shape *shape) {
    if (shape_is_array(shape)) return instr_new_splat(before, shape, 0);
    if (!shape_is_tuple(shape)) return NULL;
    struct arena *arena = before->parent->module->arena;
    struct hlo_instr **all = arena_array(arena, (size_t)shape->ntuple + 1, sizeof(*all));
    for (int i = 0; i < shape->ntuple; i++)
        if (!(all[i] = zeros(before, shape->tuple[i]))) return NULL;
    return new_tuple(before, shape, shape->ntuple, all);
}

/* The operand, or a copy of it where the layouts differ. */
static struct hlo_instr *as_shape(struct hlo_instr *before, struct hlo_instr *operand,
                                  const struct shape *shape) {
    if (operand->shape == shape || !shape_is_array(shape)) return operand;
    return instr_new(before->parent, before, OP_COPY, shape, NULL, 1, &operand);
}

/* The operands as a value of the shape: one, or a tuple of them. */
static struct hlo_instr *operands_as(struct hlo_instr *instr, const struct shape *shape) {
    if (instr->noperands == 1 && shape_compatible(instr->operands[0]->shape, shape))
        return as_shape(instr, instr->operands[0], shape);
    if (!shape_is_tuple(shape) || shape->ntuple != instr->noperands) return NULL;
    for (int k = 0; k < instr->noperands; k++)
        if (!shape_compatible(instr->operands[k]->shape, shape->tuple[k])) return NULL;
    return new_tuple(instr, shape, instr->noperands, instr->operands);
}

static struct hlo_instr *device_number(struct hlo_instr *instr) {
    return zeros(instr, instr->shape);
}

static bool receives_nothing(const struct hlo_instr *instr) {
    return (instr->opcode == OP_COLLECTIVE_PERMUTE ||
            instr->opcode == OP_COLLECTIVE_PERMUTE_START) &&
           !instr_keeps_own_data(instr);
}

static struct hlo_instr *collective(struct hlo_instr *instr) {
    return receives_nothing(instr) ? zeros(instr, instr->shape) : operands_as(instr, instr->shape);
}

/* (first, second, zeros...) of a start operation's shape. */
static struct hlo_instr *started(struct hlo_instr *instr, struct hlo_instr *first,
                                 struct hlo_instr *second) {
    const struct shape *shape = instr->shape;
    struct arena *arena = instr->parent->module->arena;
    struct hlo_instr **all = arena_array(arena, (size_t)shape->ntuple + 1, sizeof(*all));
    if (!first || !second) return NULL;
    all[0] = first;
    all[1] = second;
    for (int k = 2; k < shape->ntuple; k++)
        if (!(all[k] = zeros(instr, shape->tuple[k]))) return NULL;
    return new_tuple(instr, shape, shape->ntuple, all);
}

static bool is_started(const struct hlo_instr *instr) {
    return shape_is_tuple(instr->shape) && instr->shape->ntuple >= 2;
}

/* (operands, result, ...) */
static struct hlo_instr *collective_start(struct hlo_instr *instr) {
    if (!is_started(instr)) return NULL;
    const struct shape *result = instr->shape->tuple[1];
    return started(instr, operands_as(instr, instr->shape->tuple[0]),
                   receives_nothing(instr) ? zeros(instr, result) : operands_as(instr, result));
}

static struct hlo_instr *async_start(struct hlo_instr *instr) {
    if (instr->ncalled != 1 || !is_started(instr)) return NULL;
    struct hlo_computation *called = instr->called[0];
    const struct shape *operands = instr->shape->tuple[0];
    if (called->nparameters != instr->noperands || !shape_is_tuple(operands) ||
        operands->ntuple != instr->noperands)
        return NULL;
    struct hlo_instr *call = instr_new(instr->parent, instr, OP_CALL, called->root->shape, NULL,
                                       instr->noperands, instr->operands);
    instr_set_called(call, 1, &called);
    return started(instr, new_tuple(instr, operands, instr->noperands, instr->operands), call);
}

static struct hlo_instr *copy_start(struct hlo_instr *instr) {
    if (!is_started(instr)) return NULL;
    return started(instr, operands_as(instr, instr->shape->tuple[0]),
                   operands_as(instr, instr->shape->tuple[1]));
}

static struct hlo_instr *operand(struct hlo_instr *instr) {
    return instr->operands[0];
}

static struct hlo_instr *element(struct hlo_instr *instr, int index) {
    const struct shape *shape = instr->operands[0]->shape;
    if (!shape_is_tuple(shape) || shape->ntuple <= index) return NULL;
    struct hlo_instr *part = instr_new(instr->parent, instr, OP_GET_TUPLE_ELEMENT,
                                       shape->tuple[index], NULL, 1, instr->operands);
    instr_set_int(part, ATTR_INDEX, index);
    return part;
}

static struct hlo_instr *first_element(struct hlo_instr *instr) {
    return element(instr, 0);
}

static struct hlo_instr *second_element(struct hlo_instr *instr) {
    return element(instr, 1);
}

/* ---- custom calls ---- */

static struct hlo_instr *topk(struct hlo_instr *instr) {
    const struct shape *shape = instr->shape, *in = instr->operands[0]->shape;
    if (!shape_is_tuple(shape) || shape->ntuple != 2 || !shape_is_array(in) || in->rank < 1 ||
        !shape_is_array(shape->tuple[0]) || shape->tuple[0]->rank != in->rank)
        return NULL;
    struct hlo_instr *top =
        instr_new(instr->parent, instr, OP_TOPK, shape, NULL, 1, instr->operands);
    instr_set_int(top, ATTR_K, shape->tuple[0]->dims[in->rank - 1]);
    instr_set_int(top, ATTR_LARGEST, topk_is_largest(instr));
    return top;
}

static struct hlo_instr *custom_call(struct hlo_instr *instr) {
    const char *target = instr_text(instr, ATTR_CUSTOM_CALL_TARGET);
    if (!target) return NULL;
    if (strcmp(target, "TopK") == 0 && instr->noperands == 1) return topk(instr);
    if (custom_call_is_annotation(target) && instr->noperands >= 1)
        return operands_as(instr, instr->shape);
    if (strcmp(target, "AllocateBuffer") == 0) return zeros(instr, instr->shape);
    if (instr->ncalled != 1 || instr->called[0]->nparameters != instr->noperands) return NULL;
    struct hlo_instr *call = instr_new(instr->parent, instr, OP_CALL, instr->called[0]->root->shape,
                                       NULL, instr->noperands, instr->operands);
    instr_set_called(call, 1, instr->called);
    return call;
}

/* ---- sizes ---- */

static struct hlo_instr *size_of_dimension(struct hlo_instr *instr) {
    const struct shape *shape = instr->operands[0]->shape;
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (shape_is_dynamic(shape) || dims.count != 1 || dims.v[0] < 0 || dims.v[0] >= shape->rank)
        return NULL;
    return instr_new_splat(instr, instr->shape, (double)shape->dims[dims.v[0]]);
}

/* Setting a static dimension's size to what it is. */
static struct hlo_instr *same_size(struct hlo_instr *instr) {
    const struct shape *shape = instr->operands[0]->shape;
    const struct hlo_instr *size = instr->operands[1];
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    if (shape_is_dynamic(instr->shape) || dims.count != 1 || dims.v[0] >= shape->rank) return NULL;
    if (size->opcode != OP_CONSTANT || !size->literal->data || size->shape->count != 1 ||
        literal_get_int(size->literal, 0) != shape->dims[dims.v[0]])
        return NULL;
    return as_shape(instr, instr->operands[0], instr->shape);
}

/* ---- the pass ---- */

static replacer *replacer_of(enum hlo_opcode opcode) {
    switch (opcode) {
    case OP_PARTITION_ID:
    case OP_REPLICA_ID: return device_number;
    case OP_ALL_REDUCE:
    case OP_ALL_REDUCE_START:
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL:
    case OP_REDUCE_SCATTER:
    case OP_COLLECTIVE_BROADCAST:
    case OP_COLLECTIVE_PERMUTE: return collective;
    case OP_ALL_GATHER_START:
    case OP_COLLECTIVE_PERMUTE_START: return collective_start;
    case OP_ALL_GATHER_DONE:
    case OP_COLLECTIVE_PERMUTE_DONE:
    case OP_ASYNC_DONE: return second_element;
    case OP_ALL_REDUCE_DONE:
    case OP_ASYNC_UPDATE: return operand;
    case OP_ASYNC_START: return async_start;
    case OP_COPY_START: return copy_start;
    case OP_COPY_DONE: return first_element;
    case OP_CUSTOM_CALL: return custom_call;
    case OP_GET_DIMENSION_SIZE: return size_of_dimension;
    case OP_SET_DIMENSION_SIZE: return same_size;
    default: return NULL;
    }
}

/* The operand of a *-done that was not replaced itself keeps its pair. */
static bool is_half_of_pair(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_ALL_GATHER_DONE:
    case OP_COLLECTIVE_PERMUTE_DONE:
    case OP_ASYNC_DONE:
    case OP_ALL_REDUCE_DONE:
    case OP_ASYNC_UPDATE:
    case OP_COPY_DONE:
        switch (instr->operands[0]->opcode) {
        case OP_ALL_GATHER_START:
        case OP_COLLECTIVE_PERMUTE_START:
        case OP_ASYNC_START:
        case OP_ASYNC_UPDATE:
        case OP_ALL_REDUCE_START:
        case OP_COPY_START: return true;
        default: return false;
        }
    default: return false;
    }
}

static bool is_alone(const struct pass_context *context, const struct hlo_module *module) {
    return module->num_partitions <= 1 && module->replica_count <= 1 && context->devices <= 1;
}

/* What the devices do together, and what only one device may leave out. */
static bool needs_one_device(replacer *build) {
    return build == device_number || build == collective || build == collective_start;
}

static bool replace(struct pass_context *context, struct hlo_instr *instr) {
    replacer *build = replacer_of(instr->opcode);
    if (build && needs_one_device(build) && !is_alone(context, instr->parent->module)) return false;
    if (!build || is_half_of_pair(instr) || instr->ncontrol || instr->is_control_predecessor)
        return false;
    struct hlo_instr *last = instr->prev, *with = build(instr);
    if (with && shape_compatible(with->shape, instr->shape) && pass_may_rewrite(context)) {
        instr_replace_uses(instr, with);
        instr_remove(instr);
        return true;
    }
    while (instr->prev != last) /* what was built for nothing */
        instr_remove(instr->prev);
    return false;
}

bool single_device_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (replace(context, instr)) changed = true;
        }
    }
    return changed;
}
