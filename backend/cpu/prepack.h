/* Second operands of dots and convolutions that are constant, or the same in every trip of a loop,
 * are brought once into the panels that the kernels read: while compiling, or before the loop. */
#ifndef BACKEND_CPU_PREPACK_H
#define BACKEND_CPU_PREPACK_H

#include "backend/cpu/target_data.h"
#include "ir/hlo.h"

/* Each computation must have one caller. */
void prepack_run(struct hlo_module *module, const struct cpu_target *target);

/* Operands that are fused into a product but lie so that no kernel reads them in place (reshapes
 * and slices can make that of anything) are made in kernels of their own. Each computation must
 * have one caller. */
void product_separate_operands(struct hlo_module *module);

#endif
