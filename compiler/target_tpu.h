/* The TPU target behind the seam of target.h. */
#ifndef COMPILER_TARGET_TPU_H
#define COMPILER_TARGET_TPU_H

#include "compiler/target.h"
#include "runtime/tpu/tpu.h"

/* Whether the module, which has been through target_optimise, can run and fits. False with all that
 * stands in the way in diag. */
bool tpu_target_check(struct hlo_module *module, const struct target_options *options,
                      struct diag *diag);

/* The report on memory: where every value of the module, which has been through target_optimise,
 * lives. */
bool tpu_target_report(struct hlo_module *module, const struct target_options *options, FILE *out,
                       struct diag *diag);

/* A compiled program, loaded into the emulator. NULL with errors in diag: all that stands in the
 * way. */
struct tpu_session;
struct tpu_session *tpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag);
struct literal *tpu_session_run(struct tpu_session *session, struct literal *const *args,
                                struct diag *diag);
/* Counts of the last run: cycles, stalls, slots, units, HBM, and the instructions that took most.
 */
void tpu_session_print_stats(const struct tpu_session *session, FILE *out);
void tpu_session_free(struct tpu_session *session); /* NULL is fine */

/* The program file (EMIT_TPU) or its listing (EMIT_TPU_ASM), in malloc memory. False with errors in
 * diag. */
bool tpu_emit(struct hlo_module *module, const struct target_options *options, enum emit_kind kind,
              struct bytes *bytes, struct diag *diag);

/* ---- programs by themselves ---- */

/* tpu_execute with the trace's path instead of its stream (NULL: none); the file is written whole
 * or not at all. */
int tpu_execute_traced(const struct tpu_executable *executable, const void *const *inputs,
                       void *const *outputs, const char *path, struct tpu_stats *stats,
                       struct tpu_error *error);
void tpu_print_stats(const struct tpu_program *program, const struct tpu_stats *stats, FILE *out);

#endif
