/* Modulo scheduling: a place for every operation of a loop's body, so that a new iteration can
 * start every `ii` cycles. Iterative, after Rau, Iterative Modulo Scheduling, MICRO 1994. Knows
 * nothing of machine instructions: what a row of the reservation table has room for, the user says.
 */
#ifndef BACKEND_TPU_MODULO_H
#define BACKEND_TPU_MODULO_H

#include <stdint.h>

#include "ir/arena.h"

/* Operation `to`, `distance` iterations later, starts `latency` cycles after `from` or more. */
struct modulo_edge {
    int from, to, latency, distance;
};

/* A value that occupies a register from its first reference to its last. */
struct modulo_value {
    int *ops; /* that refer to it; the first of them makes it */
    int count;
    int latency; /* of the op that makes it: so long it is occupied at least */
    int weight;  /* how scarce its registers are */
};

enum { MODULO_ROW = 16 }; /* operations of a row at most */

struct modulo {
    struct arena *arena;
    int count; /* of operations */
    const struct modulo_edge *edges;
    int nedges;
    const struct modulo_value *values;
    int nvalues;
    /* Whether the operations have room in row `row`, one cycle of the kernel. */
    bool (*fits)(void *user, int row, const int *ops, int n);
    /* Operations of one group (>= 0) share something that spans rows: whether `op` at `cycle`
     * cannot be beside `other`. cycle[] of those without a place is -1. */
    const int *group;
    bool (*clash)(void *user, const int *cycles, int op, int cycle, int other, int ii);
    void *user;
    int ii;
    int *cycle; /* of each operation: the result, from 0 up */
};

/* The least ii that the edges allow, `least` or more; -1: none up to `most`. */
int modulo_recurrence_ii(const struct modulo *m, int least, int most);
/* Finds places for m->ii. False where it does not succeed. */
bool modulo_schedule(struct modulo *m);
/* Cycles from the first reference of a value to the last, by the schedule. */
int modulo_lifetime(const struct modulo *m, const struct modulo_value *value);

#endif
