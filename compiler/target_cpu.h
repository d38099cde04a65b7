/* Programs compiled to this machine's code, behind target.h. */
#ifndef COMPILER_TARGET_CPU_H
#define COMPILER_TARGET_CPU_H

#include "compiler/target.h"

struct cpu_session;

/* Both run the passes first, unless the cache has the code. NULL or false with errors in diag. The
 * module must outlive the session. */
struct cpu_session *cpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag);
struct literal *cpu_session_run(struct cpu_session *session, struct literal *const *args,
                                struct diag *diag);
/* The same on memory: one pointer a leaf of the parameters and of the result; NULL is fine where a
 * leaf has no bytes. */
bool cpu_session_call(struct cpu_session *session, const void *const *inputs, void *const *outputs,
                      struct diag *diag);
void cpu_session_free(struct cpu_session *session); /* NULL is fine */
bool cpu_emit(struct hlo_module *module, const struct target_options *options, enum emit_kind kind,
              const char *symbol, struct bytes *bytes, struct diag *diag);

#endif
