/* The body of a loop of one block, as the pipeliner sees it: operations, values that get a register
 * of their own in every iteration, and what must keep its order, within an iteration and between
 * iterations. */
#ifndef BACKEND_TPU_LOOP_BODY_H
#define BACKEND_TPU_LOOP_BODY_H

#include "backend/tpu/mir.h"
#include "backend/tpu/modulo.h"

/* Which values an operation's references (mir_refs) are; -1: a register that iterations share. */
struct body_refs {
    int reads[MIR_MOST_READS], write;
};

struct loop_body {
    struct arena *arena;
    const struct mir *mir;
    struct mop *ops; /* without the comparison and the branch at the end */
    int count;
    int64_t trips;
    struct body_refs *refs;
    struct modulo_value *values;
    enum mir_class *classes; /* of the values */
    int nvalues, value_capacity, class_capacity;
    struct modulo_edge *edges;
    int nedges, edge_capacity;
    /* Units whose results one iteration pushes and pops in equal order, whatever other iterations
     * do meanwhile: by push and pop, its partner; else -1. */
    int *partner, *unit;
    int shared[MIR_CLASSES]; /* registers that iterations share, by class */
};

/* False where the block is no loop that can be pipelined. */
bool loop_body_find(struct loop_body *body, struct arena *arena, const struct mir *mir, int block,
                    const struct mir_liveness *live, const int *levels);
/* Makes every value live no longer than `ii`, the distance of iterations, by moves where the
 * schedule `m` has it live longer: a kernel of one iteration is enough then. False where that
 * cannot be, or would take vector slots. The body must be this caller's own copy of the struct. */
bool loop_body_add_moves(struct loop_body *body, const struct modulo *m);
/* Cycles that slots and units are busy with one iteration. */
int loop_body_resource_ii(const struct loop_body *body);
/* Bundles from an operation's issue until its result may be read, or the next one issues. */
int loop_body_occupies(const struct loop_body *body, int op);
/* Longest path through one iteration: no schedule that ends each iteration before the next takes
 * fewer cycles for one. */
int loop_body_length(const struct loop_body *body);

/* loop_memory.c: edges between loads and stores. */
void loop_body_link_memory(struct loop_body *body, treg counter);
void loop_body_edge(struct loop_body *body, int from, int to, int latency, int distance);

#endif
