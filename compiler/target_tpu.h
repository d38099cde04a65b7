/* The TPU target behind the seam of target.h. */
#ifndef COMPILER_TARGET_TPU_H
#define COMPILER_TARGET_TPU_H

#include "compiler/target.h"

/* Whether the module, which has been through target_optimise, can run and fits. False with all that
 * stands in the way in diag. */
bool tpu_target_check(struct hlo_module *module, const struct target_options *options,
                      struct diag *diag);

#endif
