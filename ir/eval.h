/* The evaluator: the plain statement of what every operation computes (docs/numerics.md). Constant
 * folding calls it and tests compare both backends with it; nothing else computes an HLO operation
 * on the host. */
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include <stdatomic.h>

#include "ir/hlo.h"

struct eval_options {
    int64_t max_bytes; /* of literals alive at once; over it is an error. 0: 8 GiB */
    int64_t max_steps; /* elements computed in all; over it is an error. 0: no bound */
    /* Products of f32 take operands rounded to bf16 (`default`), as bf16 parts in three (`high`)
     * or exactly (`highest`, the normal case): ENUM_PRECISION_* */
    int matmul_precision;         /* 0 means ENUM_PRECISION_HIGHEST here */
    uint64_t seed;                /* of rng and rng-get-and-update-state */
    const atomic_bool *interrupt; /* polled; true stops with an error. NULL: never */
};

/* Runs the entry computation. args: one literal a parameter, shapes compatible (the caller has
 * checked; tuples are tuple literals). One reference to the result, or NULL with an error in diag.
 * Does not change the module: may run in several threads at once on one module. */
struct literal *module_evaluate(const struct hlo_module *module, struct literal *const *args,
                                const struct eval_options *options, struct diag *diag);
struct literal *computation_evaluate(const struct hlo_computation *computation,
                                     struct literal *const *args,
                                     const struct eval_options *options, struct diag *diag);
/* The same on `count` devices at once, each on a thread, where collectives exchange values: args[d]
 * and results[d] are those of device d. Devices are replicas where the module counts as many, else
 * partitions. False, no results and an error in diag where one fails, or where one waits in a
 * collective that another never comes to. */
bool module_evaluate_devices(const struct hlo_module *module, int count,
                             struct literal *const *const *args, const struct eval_options *options,
                             struct literal **results, struct diag *diag);
/* How many parts (NULL: one) an array's dimensions have, and which of them the device holds; false
 * for shardings that do not say. */
bool sharding_place(const struct sharding *sharding, int rank, int device, int64_t *parts,
                    int64_t *index);
/* Copies between a whole array and the part of it at `index`, in units of the part's sizes. */
void part_copy(struct literal *part, struct literal *whole, const int64_t *index, bool to_part);
/* One instruction on given operand values: what constant folding calls. */
struct literal *instr_evaluate(const struct hlo_instr *instr, struct literal *const *operands,
                               const struct eval_options *options, struct diag *diag);
/* False where no evaluation is defined on one device (infeed, send, unknown custom-call, ...). */
bool opcode_has_evaluation(enum hlo_opcode opcode);

#endif
