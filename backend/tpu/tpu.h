/* The TPU backend: an HLO module becomes a program of bundles (docs/tpu-isa.md). */
#ifndef BACKEND_TPU_TPU_H
#define BACKEND_TPU_TPU_H

#include <stdio.h>

#include "ir/hlo.h"
#include "runtime/tpu/program.h"

struct tpu_compile_options {
    struct tpu_chip chip;
    int matmul_precision;  /* ENUM_PRECISION_* of products that do not say; 0: default */
    uint64_t seed;         /* of rng and rng-get-and-update-state */
    int64_t *values_bytes; /* NULL, or where tpu_compile writes the bytes of all values in VMEM */
};

/* Why this target cannot run an instruction of the entry computation or of what runs by itself;
 * NULL where it can. */
const char *tpu_unsupported(const struct hlo_instr *instr);
/* Makes the module one that tpu_compile takes, whatever passes it has been through. False with
 * errors in diag where it cannot run or does not fit: everything that stands in the way, each with
 * its place. Allocates nothing of the program's size. */
bool tpu_check(struct hlo_module *module, const struct tpu_compile_options *options,
               struct diag *diag);
/* Where the values of the module, which has been through the target's passes, live: HBM and VMEM in
 * all, then every value by its place. False with errors in diag. */
bool tpu_print_memory(FILE *out, struct hlo_module *module,
                      const struct tpu_compile_options *options, struct diag *diag);
/* The program, in `arena`, which may refer to the module. False with errors in diag; tpu_check has
 * been passed. */
bool tpu_compile(struct arena *arena, struct hlo_module *module,
                 const struct tpu_compile_options *options, struct tpu_program *program,
                 struct diag *diag);

#endif
