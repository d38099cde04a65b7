/* Partitions of one program that run at once, each on a thread of its own, and meet where a
 * collective makes them. */
#ifndef IR_EVAL_MESH_H
#define IR_EVAL_MESH_H

#include "ir/eval_internal.h"

struct eval_mesh;

int eval_mesh_size(const struct eval_mesh *mesh);
/* Whether the devices are replicas (replica_count of the module) and not partitions. */
bool eval_mesh_of_replicas(const struct eval_mesh *mesh);

/* What every device of a group brought to one execution of an instruction. */
struct meeting {
    int count; /* devices in the group */
    int rank;  /* which of them this one is */
    /* values[device * operands + k]: shared, to be read only. */
    struct literal *const *values;
    struct slot *slot;
};

/* Waits until all `count` members (device numbers in the order of their ranks, this one among them;
 * the same list for each) have come to this instruction with their operands; false with an error
 * where one failed or never comes. Each must leave after having read the values. */
bool eval_mesh_meet(struct eval *e, const struct hlo_instr *instr, int count, const int *members,
                    struct literal *const *ops, struct meeting *meeting);
void eval_mesh_leave(struct eval *e, struct meeting *meeting);

/* ---- eval_partition.c ---- */

/* A collective among the devices of e's mesh. */
eval_fn eval_partitioned;
/* Each device sends rows to each; `m` may be of one device alone. */
struct literal *eval_ragged_all_to_all(struct eval *e, const struct hlo_instr *instr,
                                       const struct meeting *m);
/* Device `at` of an iota such as [2,2]<=[4]T(1,0). */
int64_t iota_device(const struct iota_tiles *iota, int64_t at);

/* ---- eval_parts.c ---- */

/* Whether the custom call goes between whole arrays and a device's part of them. */
bool eval_changes_parts(const char *target);
eval_fn eval_change_parts;

#endif
