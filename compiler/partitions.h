/* Programs for several devices, which the evaluator runs all at once. Before partitioning a program
 * speaks of whole arrays (and every device computes the whole result); after it (scheduled, with
 * num_partitions) of each device's part. Either way inputs and results here are whole: a part's
 * place follows from its parameter's sharding. */
#ifndef COMPILER_PARTITIONS_H
#define COMPILER_PARTITIONS_H

#include "ir/eval.h"

/* Shape of flat parameter `index` as a whole; NULL past the last, or with an error in diag. */
const struct shape *partitions_parameter(struct hlo_module *module, int index, int partitions,
                                         struct diag *diag);
/* args: one whole value a parameter. Results that are the same on all devices are given once, those
 * that are not one behind the other, along dimension 0. One reference, or NULL with an error. */
struct literal *partitions_run(struct hlo_module *module, int partitions,
                               struct literal *const *args, const struct eval_options *options,
                               struct diag *diag);
/* `count` copies of an array along dimension 0; NULL where memory is short. */
struct literal *partitions_repeat(struct hlo_module *module, const struct literal *value,
                                  int count);

#endif
