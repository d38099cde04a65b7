/* What is known of custom calls by their targets' names. */
#ifndef IR_CUSTOM_CALL_H
#define IR_CUSTOM_CALL_H

#include "ir/hlo.h"

/* Annotations: what they say matters to partitioners and memory planners only, the result is the
 * operand. */
bool custom_call_is_annotation(const char *target);
/* A letter that the configuration gives as a number, {uplo = 76 : ui8}. */
int custom_call_letter(const struct hlo_instr *instr, const char *key, int otherwise);
/* A truth value, {left = true}. */
bool custom_call_flag(const struct hlo_instr *instr, const char *key, bool otherwise);
/* TopK and topk: whether the largest elements are wanted. */
bool topk_is_largest(const struct hlo_instr *instr);

#endif
