/* Shape inference and the verifier. */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/hlo.h"

/* Checks the whole module: structure (operands before users in the same computation, roots,
 * parameters without gaps, no recursion, entry), attributes, and that each instruction's shape is
 * the inferred one. False where diag got an error; each names the instruction, what was given and
 * what was expected. */
bool module_verify(struct hlo_module *module, struct diag *diag);

/* The result shape that XLA's rules give the instruction (its ->shape may be NULL), without layout.
 * NULL with an error in diag where operands or attributes do not fit. For opcodes whose shape
 * cannot be inferred (parameter, constant, iota, convert, custom-call, reshape, ...) checks ->shape
 * and returns it; NULL ->shape there is an error that says it must be written. */
const struct shape *instr_infer_shape(struct hlo_instr *instr, struct diag *diag);

#endif
