/* The seam between the command line and what runs a program. */
#ifndef COMPILER_TARGET_H
#define COMPILER_TARGET_H

#include "compiler/io.h"
#include "compiler/pipeline.h"
#include "ir/hlo.h"

enum target_kind { TARGET_INTERP, TARGET_CPU, TARGET_TPU };

struct cpu_function;

struct target_options {
    enum target_kind kind;
    int opt_level;               /* 0 to 3 */
    const char *mcpu;            /* NULL: native, or a plain one of the triple's architecture */
    const char *triple;          /* NULL: this machine's */
    const char *chip;            /* of a TPU: a name or a JSON file; NULL: v2 */
    const char *trace;           /* of a TPU run: where its Trace Event file goes, or NULL */
    const char *debug_directory; /* debug information with files from here, or NULL: none */
    const char *cache_directory; /* where code is kept and looked for, or NULL: nowhere (cpu) */
    int threads;                 /* 0: the cores here */
    int partitions;              /* devices that the evaluator runs the program on; 0 or 1: one */
    int matmul_precision;        /* ENUM_PRECISION_*, 0: highest */
    uint64_t seed;
    const char *library;      /* a shared library with functions for custom calls, or NULL */
    const char *custom_calls; /* "a,b": names of functions that will be linked, or NULL */
    const struct cpu_function *functions; /* registered ones */
    int nfunctions;
    struct pipeline_options pipeline;
};

struct target_program;

/* The passes for the target, or those that the options name. False with errors in diag. */
bool target_optimise(struct hlo_module *module, const struct target_options *options,
                     struct diag *diag);

/* Runs the passes (none for the evaluator unless they are named) and makes the module ready to run;
 * it must outlive the program. NULL with errors in diag where the target cannot run it: all that
 * stands in the way at once. */
struct target_program *target_prepare(struct hlo_module *module,
                                      const struct target_options *options, struct diag *diag);
/* Whether the target can run the module: runs the passes and reports all that stands in the way. */
bool target_check(struct hlo_module *module, const struct target_options *options,
                  struct diag *diag);
/* One run: a reference to the result, or NULL with an error in diag. */
struct literal *target_run(struct target_program *program, struct literal *const *args,
                           struct diag *diag);
/* One run on dense arrays in memory, one a flat parameter and one a flat result. False with an
 * error in diag. Like target_run, it may be called from several threads at once. */
bool target_call(struct target_program *program, const void *const *inputs, void *const *outputs,
                 struct diag *diag);
/* What the target counted in the last run, in lines; nothing where it counts nothing. */
void target_print_stats(const struct target_program *program, FILE *out);
void target_free(struct target_program *program); /* NULL is fine */

/* ---- artifacts ---- */

enum emit_kind {
    EMIT_HLO,
    EMIT_LLVM_IR,
    EMIT_LLVM_BC,
    EMIT_ASM,
    EMIT_OBJ,
    EMIT_SHARED,
    EMIT_EXE,
    EMIT_TPU_ASM,
    EMIT_TPU,
};

/* Runs the passes and makes code of the module, of a kind that the target has and that is not
 * linked; `symbol`: the C name that native code has. The bytes are malloc memory. False with errors
 * in diag. */
bool target_emit(struct hlo_module *module, const struct target_options *options,
                 enum emit_kind kind, const char *symbol, struct bytes *bytes, struct diag *diag);

/* -1 where the word names no target of this build. */
int target_from_name(const char *name);
const char *target_name(enum target_kind kind);

#endif
