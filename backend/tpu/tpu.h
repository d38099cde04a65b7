/* The TPU backend: an HLO module becomes a program of bundles (docs/tpu-isa.md). */
#ifndef BACKEND_TPU_TPU_H
#define BACKEND_TPU_TPU_H

#include "runtime/tpu/chip.h"
#include "ir/hlo.h"

struct tpu_options {
    struct tpu_chip chip;
    int matmul_precision; /* ENUM_PRECISION_* of products that do not say; 0: default */
};

/* Why this target cannot run an instruction of the entry computation or of what runs by itself;
 * NULL where it can. */
const char *tpu_unsupported(const struct hlo_instr *instr);
/* False with errors in diag where the module, which has been through the target's passes, cannot
 * run or does not fit: everything that stands in the way, each with its place. Allocates nothing of
 * the program's size. */
bool tpu_check(struct hlo_module *module, const struct tpu_options *options, struct diag *diag);

#endif
