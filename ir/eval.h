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
/* One instruction on given operand values: what constant folding calls. */
struct literal *instr_evaluate(const struct hlo_instr *instr, struct literal *const *operands,
                               const struct eval_options *options, struct diag *diag);
/* False where no evaluation is defined on one device (infeed, send, unknown custom-call, ...). */
bool opcode_has_evaluation(enum hlo_opcode opcode);

#endif
