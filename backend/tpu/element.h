/* Elementwise operations on registers of elements. */
#ifndef BACKEND_TPU_ELEMENT_H
#define BACKEND_TPU_ELEMENT_H

#include "backend/tpu/fetch.h"
#include "ir/hlo.h"

/* The result of an elementwise instruction (one with OP_FLAG_ELEMENTWISE, or bitcast-convert
 * between types of one width); v[0] is 0 where there is no code for it. */
struct tval element_value(struct kernel *k, const struct hlo_instr *instr,
                          const struct tval *operands);
/* Whether there is code for it. */
bool element_has_code(const struct hlo_instr *instr);
struct tval element_convert(struct kernel *k, struct tval v, enum element_type from,
                            enum element_type to);
/* Mask of the elements of type pred that are true. */
treg element_mask(struct kernel *k, struct tval pred);
struct tval element_pred(struct kernel *k, treg mask);
struct tval element_select(struct kernel *k, treg mask, struct tval yes, struct tval no);
/* One element of a literal, in all places. */
struct tval element_literal(struct kernel *k, const struct literal *literal, int64_t index);

/* Integers of 64 bits, and complex numbers (element_wide.c). */
struct tval wide_int_value(struct kernel *k, const struct hlo_instr *instr, enum element_type type,
                           const struct tval *operands);
struct tval complex_value(struct kernel *k, const struct hlo_instr *instr,
                          const struct tval *operands);
treg wide_compare(struct kernel *k, int direction, bool is_signed, struct tval a, struct tval b);

/* Functions of f32 registers. */
treg f_unary(struct kernel *k, enum hlo_opcode opcode, treg x); /* 0: none */
treg f_neg(struct kernel *k, treg x);
treg f_abs(struct kernel *k, treg x);
treg f_bin(struct kernel *k, enum hlo_opcode opcode, treg x, treg y);
treg f_const_bin(struct kernel *k, enum tpu_op op, treg x, float c);

#endif
