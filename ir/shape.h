/* Element types, shapes and layouts. Shapes are interned in a table: equal shapes are equal
 * pointers. */
#ifndef IR_SHAPE_H
#define IR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/arena.h"

enum element_kind { KIND_PRED, KIND_SIGNED, KIND_UNSIGNED, KIND_FLOAT, KIND_COMPLEX, KIND_OTHER };

enum element_type {
    TYPE_INVALID,
#define X(name, text, bits, kind, exponent, mantissa) TYPE_##name,
#include "ir/element_type.def"
#undef X
    TYPE_COUNT
};

struct element_type_info {
    const char *name;
    int bits; /* of a value: 1 for pred, 4 for s4 */
    int size; /* bytes an element takes in memory; 0 for tuple, token, opaque, buffer */
    enum element_kind kind;
    int exponent_bits, mantissa_bits; /* floats (of one part for complex) */
};

const struct element_type_info *element_type_info(enum element_type type);
/* TYPE_INVALID where `name` (of `length` bytes) is no type word. */
enum element_type element_type_from_name(const char *name, size_t length);
const char *element_type_name(enum element_type type);
int element_type_size(enum element_type type);
bool element_type_is_float(enum element_type type);
bool element_type_is_complex(enum element_type type);
bool element_type_is_signed(enum element_type type);   /* s1 to s64 */
bool element_type_is_unsigned(enum element_type type); /* u1 to u64 */
bool element_type_is_integral(enum element_type type); /* s*, u*; not pred */
bool element_type_is_array(enum element_type type);    /* may be the element of an array */
/* c64 -> f32, c128 -> f64; others unchanged. */
enum element_type element_type_real_part(enum element_type type);

enum {
    SHAPE_MAX_RANK = 64,
    SHAPE_MAX_DEPTH = 256,    /* of nested tuples */
    TILE_COMBINE_DIM = -1,    /* `*` in a tile: joined with the next dimension */
    LAYOUT_DEFAULT_SPACE = 0, /* memory space S(0) */
};
/* Size of an unbounded dynamic dimension, `?`. */
#define SHAPE_UNBOUNDED INT64_MIN

struct tile {
    int rank;
    const int64_t *dims; /* TILE_COMBINE_DIM or a size */
};

struct split_config { /* SC(dim:i,j,...) */
    int64_t dim;
    int count;
    const int64_t *indices;
};

/* A layout as XLA writes it: {1,0:T(8,128)(2,1)#(u32)*(u32)L(64)E(4)S(1)SC(1:10)M(8)}. */
struct layout {
    int rank;
    const int64_t *minor_to_major; /* a permutation of 0..rank-1 once verified */
    int ntiles;
    const struct tile *tiles;
    int64_t tail_padding;            /* L(n), elements; 0 and 1: none */
    enum element_type index_type;    /* #(type); TYPE_INVALID: default */
    enum element_type pointer_type;  /* *(type); TYPE_INVALID: default */
    int64_t element_bits;            /* E(n); 0: the type's own */
    int64_t memory_space;            /* S(n) */
    int64_t dynamic_metadata_prefix; /* M(n), bytes */
    int nsplits;
    const struct split_config *splits;
    const char *dim_types; /* text inside D(...); NULL: none */
    const char *physical;  /* text inside P(...); NULL: none */
};

struct shape {
    enum element_type type;
    int rank;
    const int64_t *dims;         /* sizes; the bound of a dynamic dimension, or SHAPE_UNBOUNDED */
    const bool *dynamic;         /* one a dimension; NULL: all static */
    const struct layout *layout; /* NULL: not given, which means major to minor */
    int ntuple;                  /* tuple elements; 1 for a buffer, b(SHAPE) */
    const struct shape *const *tuple;
    const struct shape *plain; /* the same without any layout: compatible shapes share it */
    int64_t count;             /* elements (bounds taken); -1 for tuple, token, opaque, buffer */
    int64_t bytes;             /* dense: count * element size; sum of the leaves for a tuple */
    int nleaves;               /* arrays, tokens, ... in it, in order; 1 unless a tuple */
    int id;                    /* position in its table; stable within a process run */
};

struct shape_table;

struct shape_table *shape_table_new(struct arena *arena);

/* Interns the shape that `proto` describes (its type, dims, dynamic, layout, tuple; the rest is
 * computed). Everything is copied into the table's arena. NULL and *why (a static string) where
 * rank, sizes or their product are out of range (count and bytes must fit in 62 bits). */
const struct shape *shape_intern(struct shape_table *table, const struct shape *proto,
                                 const char **why);
/* NULL on overflow, as above. */
const struct shape *shape_array(struct shape_table *table, enum element_type type, int rank,
                                const int64_t *dims);
const struct shape *shape_scalar(struct shape_table *table, enum element_type type);
const struct shape *shape_tuple(struct shape_table *table, int count,
                                const struct shape *const *elements);
const struct shape *shape_token(struct shape_table *table);
/* The same array with another element type, keeping layout and dynamic dimensions. */
const struct shape *shape_with_type(struct shape_table *table, const struct shape *shape,
                                    enum element_type type);
/* The same array with another layout (NULL: none given). */
const struct shape *shape_with_layout(struct shape_table *table, const struct shape *shape,
                                      const struct layout *layout);
/* Gives every array in it that has none the default layout, major to minor. */
const struct shape *shape_with_default_layouts(struct shape_table *table,
                                               const struct shape *shape);

bool shape_is_array(const struct shape *shape);
bool shape_is_tuple(const struct shape *shape);
bool shape_is_token(const struct shape *shape);
bool shape_is_scalar(const struct shape *shape);  /* an array of rank 0 */
bool shape_is_dynamic(const struct shape *shape); /* any dynamic dimension, in any leaf */
/* Equal but for layouts. */
bool shape_compatible(const struct shape *a, const struct shape *b);
/* Equal but for layouts and element types. */
bool shape_same_dims(const struct shape *a, const struct shape *b);

/* Leaf `index` of a shape in depth-first order (the shape itself where it is no tuple). */
const struct shape *shape_leaf(const struct shape *shape, int index);
/* First leaf of tuple element `element`. */
int shape_tuple_first_leaf(const struct shape *shape, int element);

/* minor_to_major[i] of the shape's layout, or of the default one: dimension i-th from minor. */
int shape_minor_to_major(const struct shape *shape, int i);
bool shape_layout_is_default(const struct shape *shape); /* major to minor, untiled or not */
/* Element strides in memory for the (dense) layout, ignoring tiles: strides[rank]. */
/* The dimension along which the two words of a block of Threefry bits alternate: the first even
 * one, or the largest. */
int shape_threefry_dim(const struct shape *shape);
/* Strides in elements of row-major order, whatever the layout says. */
void shape_row_major(const struct shape *shape, int64_t *strides);
void shape_strides(const struct shape *shape, int64_t *strides);

/* XLA's text, `f32[2,3]{1,0}`; layouts on request; in arena memory. */
char *shape_to_string(struct arena *arena, const struct shape *shape, bool with_layout);

#endif
