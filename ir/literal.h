/* Constant values: what `constant` holds, what the evaluator computes with, what .npy files hold.
 * Elements are dense and row-major in logical order whatever the shape's layout says; types of
 * less than 8 bits take one byte each (sign- or zero-extended); pred is 0 or 1; complex is
 * (real, imaginary). */
#ifndef IR_LITERAL_H
#define IR_LITERAL_H

#include "ir/shape.h"

struct literal {
    const struct shape *shape; /* must outlive the literal */
    _Atomic int refs;
    bool elided;               /* `{...}`: the text left the values out; data is NULL */
    size_t size;               /* bytes at data: shape->bytes for arrays, 0 otherwise */
    void *data;                /* aligned to 64; NULL for tuples, tokens and elided literals */
    struct literal **elements; /* shape->ntuple of them; each holds a reference */
    int64_t *dynamic_sizes;    /* rank of them: the live sizes of dynamic dimensions; NULL: full */
};

/* A new literal with one reference; zeroed, tuples with zeroed elements. NULL where memory is
 * short. `literal_new_uninit` leaves the data of an array undefined. */
struct literal *literal_new(const struct shape *shape);
struct literal *literal_new_uninit(const struct shape *shape);
struct literal *literal_new_elided(const struct shape *shape);
/* A tuple of `count` literals, taking over one reference of each. */
struct literal *literal_new_tuple(const struct shape *shape, struct literal *const *elements);
struct literal *literal_ref(struct literal *literal);
void literal_unref(struct literal *literal);                 /* NULL is fine */
struct literal *literal_copy(const struct literal *literal); /* deep; NULL when out of memory */
/* The same bytes under another shape of equal size (reshape, layout). Takes no reference. */
struct literal *literal_with_shape(const struct literal *literal, const struct shape *shape);

/* Bit for bit equal, shapes too (layouts aside). */
bool literal_equal(const struct literal *a, const struct literal *b);
bool literal_is_all(const struct literal *literal, double value); /* arrays: every element */
/* Leaf `leaf`, depth first, of a literal; itself where it is an array. */
const struct literal *literal_leaf(const struct literal *literal, int leaf);
bool literal_has_elided(const struct literal *literal);

/* One element by its row-major number. As double: integers rounded, the real part of complex. */
double literal_get_double(const struct literal *literal, int64_t index);
int64_t literal_get_int(const struct literal *literal, int64_t index); /* u64 as its bits */
void literal_get_complex(const struct literal *literal, int64_t index, double out[2]);
/* Converted to the element type: floats round to nearest even, integers wrap. */
void literal_set_double(struct literal *literal, int64_t index, double value);
void literal_set_int(struct literal *literal, int64_t index, int64_t value);
void literal_set_complex(struct literal *literal, int64_t index, double real, double imaginary);

#endif
