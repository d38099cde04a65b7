/* Passes and the pass manager. A pass is `bool NAME_run(struct pass_context *, struct hlo_module
 * *)` in passes/NAME.c, true when it changed the module; pass.def is the table of all of them. */
#ifndef PASSES_PASS_H
#define PASSES_PASS_H

#include <stdatomic.h>

#include "ir/hlo.h"

struct pass_context;

enum pass_id {
#define PASS(name, text) PASS_##name,
#include "passes/pass.def"
#undef PASS
    PASS_COUNT
};

struct pass_info {
    const char *name, *text; /* text: one sentence for `hlocc passes` */
    bool (*run)(struct pass_context *context, struct hlo_module *module);
};

/* What a front end may want to do around each pass (print, dump). `number` counts the runs that
 * changed the module, from 1. Any of the functions may be NULL. */
struct pass_hooks {
    void *user;
    void (*before)(void *user, const char *pass, const struct hlo_module *module);
    void (*after)(void *user, const char *pass, int number, bool changed,
                  const struct hlo_module *module);
};

struct pass_stat {
    int runs;         /* how often the pass ran */
    int changed;      /* how many of the runs changed the module */
    int64_t rewrites; /* single changes made */
    double seconds;   /* wall clock */
};

struct pass_context {
    struct diag *diag; /* errors: a pass that cannot go on, a module that does not verify */
    bool verify;       /* run the verifier after each pass that changed the module */
    bool disabled[PASS_COUNT];
    int devices; /* that the program will run on at once, where it does not say so itself; 0: one */
    int64_t rewrite_limit; /* rewrites allowed in all; negative: no limit. For bisecting. */
    int64_t rewrites;      /* made so far */
    const struct pass_hooks *hooks; /* or NULL */
    const atomic_bool *interrupt;   /* polled between passes; NULL: never */
    /* Constant folding: the largest result in bytes, and the most elements of work for one. */
    int64_t fold_max_bytes, fold_max_steps;
    enum pass_id current;
    int changed_runs;
    int run; /* place in the list of the pass that runs */
    /* The last change that was made: in which pass, and in which place of the list. */
    enum pass_id last_pass;
    int last_run;
    /* For tests of what finds faults: the module is made wrong when pass `sabotaged` makes its
     * change number sabotage_at (from 1; 0: never). */
    enum pass_id sabotaged;
    int64_t sabotage_at;
    struct pass_stat stats[PASS_COUNT];
};

/* A context with the defaults: no limit, nothing disabled, no hooks. */
void pass_context_init(struct pass_context *context, struct diag *diag);

/* A pass asks before each single change it makes, and makes it only on true: the change is counted
 * then, and a limit stops all changes after the limit-th, in whatever pass. */
bool pass_may_rewrite(struct pass_context *context);

const struct pass_info *pass_info(enum pass_id id);
/* PASS_COUNT where no pass has the name (of `length` bytes); `-` counts as `_`. */
enum pass_id pass_from_name(const char *name, size_t length);

enum pass_target { PASS_TARGET_GENERIC, PASS_TARGET_CPU, PASS_TARGET_TPU };

/* The pipeline of a target at -O`level`, in order; a pass may stand in it several times. */
const enum pass_id *pass_pipeline(enum pass_target target, int level, int *count);
/* The word (of `length` bytes) can stand in a list of passes: a pass, or a pipeline. */
bool pass_list_has(const char *name, size_t length);
/* The passes named in "a,b,c", in arena memory; generic, cpu and tpu stand for that pipeline at
 * -O2. NULL with an error in diag for an unknown name. */
const enum pass_id *pass_list_parse(struct arena *arena, const char *text, int *count,
                                    struct diag *diag);

/* Runs the passes in order. False where diag got an error: the module may be half changed then.
 * Ends with the computations in callees-first order. */
bool pass_pipeline_run(struct pass_context *context, struct hlo_module *module,
                       const enum pass_id *passes, int count);

#define PASS(name, text) bool name##_run(struct pass_context *context, struct hlo_module *module);
#include "passes/pass.def"
#undef PASS

#endif
