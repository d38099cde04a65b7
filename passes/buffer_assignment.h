/* Where every value of a program lives. Static: each array leaf of each instruction that runs by
 * itself (in the entry computation and in the bodies of while, conditional and call) is an input, a
 * constant, an output, or a range of one arena. Instructions inside fusions, reducers, comparators
 * and the like get nothing. The module must have been through flatten_call_graph and
 * copy_insertion. */
#ifndef PASSES_BUFFER_ASSIGNMENT_H
#define PASSES_BUFFER_ASSIGNMENT_H

#include <stdio.h>

#include "ir/hlo.h"

enum { BUFFER_ALIGNMENT = 64 };

enum buffer_kind {
    BUFFER_NONE,     /* token, opaque, or an instruction that has no buffer */
    BUFFER_INPUT,    /* index: flat number of the entry parameters' leaf; read only */
    BUFFER_CONSTANT, /* instr: the constant, index: leaf of its literal; read only */
    BUFFER_OUTPUT,   /* index: flat number of the entry result's leaf */
    BUFFER_ARENA,    /* offset into the workspace */
};

struct buffer {
    enum buffer_kind kind;
    int index;
    int64_t offset, size;          /* size in bytes, of the largest value in it */
    const struct hlo_instr *instr; /* the first instruction that defines it */
    int leaf;
    int start, end; /* positions in the schedule, first and last, both live */
    int id;
};

struct buffer_options {
    /* True where the backend can write leaf `leaf` of `instr` over operand `operand`, which has
     * the same size and is not needed afterwards. NULL: instr_can_share. */
    bool (*can_share)(void *user, const struct hlo_instr *instr, int operand, int leaf);
    /* Bytes that an array takes. NULL: dense, shape->bytes. */
    int64_t (*size)(void *user, const struct shape *shape);
    void *user;
};

struct buffer_assignment {
    int64_t arena_size;  /* bytes, a multiple of the alignment */
    int64_t lower_bound; /* largest sum of live sizes at any point of the schedule */
    int peak;            /* a position where that sum is reached */
    int nbuffers;
    struct buffer *buffers;
    int npositions;
    const struct hlo_instr **schedule; /* by position */
    const int *leaf_base;   /* by instruction id: its first leaf's place in leaf_buffer, or -1 */
    const int *leaf_buffer; /* buffer number of a leaf, -1: none */
    int nids;
};

/* In `arena`. NULL where diag got an error (out of range sizes, nesting too deep). */
const struct buffer_assignment *buffer_assign(struct arena *arena, struct hlo_module *module,
                                              const struct buffer_options *options,
                                              struct diag *diag);
/* The buffer of a leaf (depth first) of an instruction's result; kind NONE where it has none. Two
 * leaves with the same buffer hold the same bytes, or one overwrites the other in place. */
const struct buffer *buffer_of(const struct buffer_assignment *assignment,
                               const struct hlo_instr *instr, int leaf);
/* The usual rule: elementwise operations and loop fusions of elementwise operations,
 * dynamic-update-slice, scatter and sort onto the operand that the leaf replaces. */
bool instr_can_share(const struct hlo_instr *instr, int operand, int leaf);
/* The report: sizes, the peak and what is alive there, every buffer by offset. */
void buffer_assignment_print(FILE *out, const struct buffer_assignment *assignment);
/* The same as one JSON object. scratch_bytes: what kernels need besides. */
void buffer_assignment_print_json(FILE *out, const struct buffer_assignment *assignment,
                                  int64_t scratch_bytes);
/* A page that draws the arena: time across, offset up, names on hover. */
void buffer_assignment_print_html(FILE *out, const struct buffer_assignment *assignment,
                                  const char *title);

#endif
