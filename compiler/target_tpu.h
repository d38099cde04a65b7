/* The TPU target behind the seam of target.h. */
#ifndef COMPILER_TARGET_TPU_H
#define COMPILER_TARGET_TPU_H

#include "compiler/target.h"

/* Whether the module, which has been through target_optimise, can run and fits. False with all that
 * stands in the way in diag. */
bool tpu_target_check(struct hlo_module *module, const struct target_options *options,
                      struct diag *diag);

/* A compiled program, loaded into the emulator. NULL with errors in diag: all that stands in the
 * way. */
struct tpu_session;
struct tpu_session *tpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag);
struct literal *tpu_session_run(struct tpu_session *session, struct literal *const *args,
                                struct diag *diag);
void tpu_session_free(struct tpu_session *session); /* NULL is fine */

#endif
