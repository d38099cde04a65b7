/* What is known of custom calls by their targets' names. */
#ifndef IR_CUSTOM_CALL_H
#define IR_CUSTOM_CALL_H

#include "ir/hlo.h"

/* Annotations: what they say matters to partitioners and memory planners only, the result is the
 * operand. */
bool custom_call_is_annotation(const char *target);
/* The routine of LAPACK that a call stands for, without the letter of its type ("geqrf_ffi"), or
 * NULL: JAX's calls by their names, and XLA's own, whose conventions are the same: Qr is geqrf,
 * ProductOfElementaryHouseholderReflectors orgqr. Eigh is syevd without the last result ("eigh").
 */
const char *custom_call_lapack_routine(const struct hlo_instr *instr);
/* Which triangle of a symmetric operand is read: {uplo = 76 : ui8}; Eigh has numbers alone. */
bool custom_call_reads_lower(const struct hlo_instr *instr);
/* A letter that the configuration gives as a number, {uplo = 76 : ui8}. */
int custom_call_letter(const struct hlo_instr *instr, const char *key, int otherwise);
/* A truth value, {left = true}. */
bool custom_call_flag(const struct hlo_instr *instr, const char *key, bool otherwise);
/* TopK and topk: whether the largest elements are wanted. */
bool topk_is_largest(const struct hlo_instr *instr);

#endif
