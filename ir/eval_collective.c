/* Collectives of one device with itself: most are copies. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_mesh.h"

struct literal *eval_device_id(struct eval *e, const struct hlo_instr *instr,
                               struct literal **ops) {
    struct literal *id = eval_new(e, instr, instr->shape);
    bool counted = e->mesh && eval_mesh_of_replicas(e->mesh) == (instr->opcode == OP_REPLICA_ID);

    (void)ops;
    if (id && counted) literal_set_int(id, 0, e->device);
    return id;
}

/* The operands as the result: one, or a tuple of them. */
static struct literal *pass_through(struct eval *e, const struct hlo_instr *instr,
                                    struct literal **ops) {
    const struct shape *shape = instr->shape;

    if (instr->noperands == 1 && shape_compatible(ops[0]->shape, shape)) return literal_ref(ops[0]);
    if (!shape_is_tuple(shape) || shape->ntuple != instr->noperands)
        return eval_error(e, instr, "more than one partition takes part");
    for (int k = 0; k < instr->noperands; k++)
        if (!shape_compatible(ops[k]->shape, shape->tuple[k]))
            return eval_error(e, instr, "more than one partition takes part");
    return eval_tuple(e, instr, ops);
}

struct literal *eval_collective(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops) {
    if (e->mesh) return eval_partitioned(e, instr, ops);
    if (instr->opcode == OP_COLLECTIVE_PERMUTE && !instr_keeps_own_data(instr))
        return eval_new(e, instr, instr->shape);
    if (instr->opcode == OP_RAGGED_ALL_TO_ALL)
        return eval_ragged_all_to_all(e, instr, &(struct meeting){.count = 1, .values = ops});
    return pass_through(e, instr, ops);
}

/* (operand, result, ...); several operands stand in tuples. */
struct literal *eval_collective_start(struct eval *e, const struct hlo_instr *instr,
                                      struct literal **ops) {
    const struct shape *shape = instr->shape;
    struct literal *result, *value;
    bool zero = instr->opcode == OP_COLLECTIVE_PERMUTE_START && !instr_keeps_own_data(instr);

    if (e->mesh) return eval_partitioned(e, instr, ops);
    result = eval_new(e, instr, shape);
    if (!result || !shape_is_tuple(shape) || shape->ntuple < 2) return result;
    for (int part = 0; part < 2; part++) {
        if (part == 1 && zero) break;
        if (instr->noperands == 1 && shape_compatible(shape->tuple[part], ops[0]->shape)) {
            value = literal_ref(ops[0]);
        } else if (shape_is_tuple(shape->tuple[part]) &&
                   shape->tuple[part]->ntuple == instr->noperands) {
            for (int k = 0; k < instr->noperands; k++)
                literal_ref(ops[k]);
            value = eval_new_tuple(e, instr, shape->tuple[part], ops);
        } else {
            value = eval_error(e, instr, "more than one partition takes part");
        }
        if (!value) {
            eval_drop(e, result);
            return NULL;
        }
        eval_drop(e, result->elements[part]);
        result->elements[part] = value;
    }
    return result;
}

struct literal *eval_collective_done(struct eval *e, const struct hlo_instr *instr,
                                     struct literal **ops) {
    return eval_async_done(e, instr, ops);
}
