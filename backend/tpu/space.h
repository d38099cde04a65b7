/* What the arrays of a kernel are to the index space that it goes over: that of its results, or of
 * what it reduces. Every dimension of an array runs along one of the space, or has one place. */
#ifndef BACKEND_TPU_SPACE_H
#define BACKEND_TPU_SPACE_H

#include "backend/tpu/layout.h"
#include "ir/hlo.h"

/* Kernels of more dimensions, or of more arrays, stay as they are. */
enum { SPACE_MOST_RANK = 8, SPACE_MOST_ARRAYS = 64 };

struct space_array {
    int operand; /* number; -1: a result */
    int leaf;    /* of the result */
    const struct shape *shape;
    int dim[SPACE_MOST_RANK]; /* of the space, by dimension of the array; -1: one place */
    bool full;                /* all dimensions of the space that have places */
    bool exact;               /* full, and of the space's sizes: it may stream */
};

/* An instruction of a fusion, and the dimension of the space that each of its own runs along. */
struct space_member {
    struct hlo_instr *instr;
    bool asked;   /* by a user, or as a result */
    bool reduced; /* computed from a reduce's result */
    int dim[SPACE_MOST_RANK];
};

enum space_kind {
    SPACE_PLAIN,
    SPACE_COPIED,   /* a copy, which may bring its operand from one order to another */
    SPACE_MOVED,    /* a transpose: so may this */
    SPACE_RESHAPED, /* a reshape that adds or drops dimensions of one place */
    SPACE_DIVIDED, /* any other reshape: its operand's dimensions are the space's as far as they are
                      the same */
};

struct space {
    struct hlo_instr *instr;
    const struct shape *shape; /* of the space */
    enum space_kind kind;
    bool folded[SPACE_MOST_RANK]; /* dimensions that are reduced */
    bool reduces;
    bool needs_unit; /* folded dimensions must lie within the others */
    int operations;  /* elementwise ones, for each place */
    struct space_array *array;
    int count;
    struct space_member *member; /* operands before users */
    int nmembers;
};

/* In `arena`. False where the kernel is of none of these kinds: its arrays stay row-major. */
bool space_find(struct space *space, struct arena *arena, struct hlo_instr *instr);
/* The order (minor to major) that an array has where the space has `order`. */
void space_order_of(const struct space *space, const struct space_array *array, const int *order,
                    int *array_order);
/* Gives the instructions of a fusion's body layouts of that order, and its parameters those of the
 * operands. */
void space_set_body(const struct space *space, const int *order);
/* The shape with that order as its layout. */
const struct shape *shape_in_order(struct hlo_module *module, const struct shape *shape,
                                   const int *order);

/* Dimensions [to, to_end) and [from, from_end) of two shapes that have as many places: a reshape
 * divides a place of one of them anew, and leaves the other groups alone. */
struct reshape_group {
    int to, to_end, from, from_end;
};

/* The next group, major to minor; begin with zeros. False past the last. */
bool reshape_next_group(struct reshape_group *g, const struct shape *to, const struct shape *from);

#endif
