/* What gather and scatter share: from an index into the result (or the updates) to the index
 * vector that belongs to it, and to the place in the window that it stands for. */
#ifndef BACKEND_CPU_INDEX_WALK_H
#define BACKEND_CPU_INDEX_WALK_H

#include "backend/cpu/gen.h"

struct index_walk {
    const struct hlo_instr *indices;
    int rank;                          /* of the operand */
    struct int_list window;            /* dims of the result that run along the window */
    struct int_list dropped;           /* dims of the operand that the window has one element of */
    struct int_list batch, batch_from; /* dims of the operand, and of the indices they go with */
    struct int_list map;               /* component of an index vector -> dim of the operand */
    int vector;                        /* dim of the indices that holds the vectors */
};

struct index_walk index_walk_of(const struct hlo_instr *gather_or_scatter);
bool index_walk_is_window(const struct index_walk *walk, int dim);
bool index_walk_drops(const struct index_walk *walk, int operand_dim);
/* which[]: the index of the vector that index[] (of `rank` dims) belongs to. */
void index_walk_vector(const struct index_walk *walk, int rank, const LLVMValueRef *index,
                       LLVMValueRef *which);
/* at[]: the place in the operand, relative to the index vector's. */
void index_walk_offset(struct cpu_gen *g, const struct index_walk *walk, const LLVMValueRef *index,
                       const LLVMValueRef *which, LLVMValueRef *at);
/* Makes which[] the index of component i of the vector. */
void index_walk_component(struct cpu_gen *g, const struct index_walk *walk, int i,
                          LLVMValueRef *which);

#endif
