/* Float formats narrower than f32, and conversions between element types (numerics in
 * docs/numerics.md). The one place where the host converts numbers. */
#ifndef IR_NUMBER_H
#define IR_NUMBER_H

#include "ir/shape.h"

/* Bits of a float type (zero-extended) to its value, exactly; f32 and narrower fit in float. */
double number_decode(enum element_type type, uint64_t bits);
/* Value to the bits of a float type: nearest even, overflow and NaN as the format's rule. Direct,
 * except that f64 values reach f16, bf16 and f8 in one rounding here: callers that want XLA's
 * double rounding (convert from f64) round to float first. */
uint64_t number_encode(enum element_type type, double value);

/* Whether NaNs of the type differ in their mantissas, as in IEEE 754. */
bool number_has_nan_payloads(enum element_type type);

float number_bf16_to_float(uint16_t bits);
uint16_t number_float_to_bf16(float value); /* nearest even, subnormals kept, NaN quiet + sign */
float number_f16_to_float(uint16_t bits);
uint16_t number_float_to_f16(float value);

/* Sign- or zero-extends / truncates an integer to the type's width, as 64 bits. */
int64_t number_wrap(enum element_type type, int64_t value);

/* Largest and smallest values of integer types, as 64 bits (u64's largest is -1). */
int64_t number_int_max(enum element_type type);
int64_t number_int_min(enum element_type type);

#endif
