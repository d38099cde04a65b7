/* Which leaves of which instructions are one value: tuples, get-tuple-element, bitcasts and loop
 * carried values that a loop never changes make no value of their own. Computation by computation,
 * for those that run by themselves (the entry; what while, conditional and call run). */
#ifndef PASSES_DATAFLOW_H
#define PASSES_DATAFLOW_H

#include "ir/hlo.h"

struct flow_value {
    struct hlo_instr *instr; /* the definition */
    int leaf;                /* of its result */
    int position;            /* of the definition, in its computation from 0 */
    int last_use;            /* position of the last instruction that reads it; the computation's
                                count where the root holds it; its own position where nothing */
    struct hlo_instr *last_user; /* NULL: the root, or nothing */
};

struct dataflow {
    struct arena *arena;
    int nids;
    int *leaf_base;  /* by instruction id; -1: not in a computation that runs by itself */
    int *position;   /* by instruction id */
    int *leaf_value; /* value of each leaf */
    int nleaves, leaf_capacity;
    struct flow_value *values;
    int nvalues, value_capacity;
    /* The computations that run by themselves, callees first. */
    struct hlo_computation **computations;
    int ncomputations;
};

/* NULL with an error in diag where the program has too many leaves. Sorts the computations. */
struct dataflow *dataflow_analyse(struct arena *arena, struct hlo_module *module,
                                  struct diag *diag);
int flow_value_of(const struct dataflow *flow, const struct hlo_instr *instr, int leaf);
/* Leaf `leaf` of the while is what went in, whatever happens. */
bool flow_leaf_invariant(const struct dataflow *flow, const struct hlo_instr *loop, int leaf);
/* Sets mark of every computation to whether it runs by itself (the entry; what while, conditional
 * and call run), and counts those. Callers must stand after callees in the module's list. */
int mark_running_computations(struct hlo_module *module);
/* The computations in called[] run with buffers of their own. */
bool instr_runs_callees(const struct hlo_instr *instr);
/* The result is the operands' memory under another name or shape. */
bool instr_is_alias(const struct hlo_instr *instr);

#endif
