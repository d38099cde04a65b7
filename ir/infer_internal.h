/* What the files of shape inference share. */
#ifndef IR_INFER_INTERNAL_H
#define IR_INFER_INTERNAL_H

#include "ir/verify.h"

const struct shape *infer_array(struct hlo_instr *instr, struct diag *diag,
                                enum element_type type, int rank, const int64_t *dims,
                                const bool *dynamic);
const char *infer_text(const struct hlo_instr *instr, const struct shape *shape);
bool infer_needs_array(struct hlo_instr *instr, struct diag *diag, int operand);

/* infer_structure.c */
const struct shape *infer_reverse(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_transpose(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_broadcast(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_slice(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_pad(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_concatenate(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_dynamic_slice(struct hlo_instr *instr, struct diag *diag);
const struct shape *infer_dynamic_update_slice(struct hlo_instr *instr, struct diag *diag);
/* infer_dot.c */
const struct shape *infer_dot(struct hlo_instr *instr, struct diag *diag);

#endif
