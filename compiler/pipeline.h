/* Running passes over a module, with what a reader wants to see of it on the way. */
#ifndef COMPILER_PIPELINE_H
#define COMPILER_PIPELINE_H

#include "passes/pass.h"

struct pipeline_options {
    const char *passes; /* "a,b,c"; NULL: the target's own */
    bool disabled[PASS_COUNT];
    const char *dump_dir;                   /* NULL: none */
    const char *print_after, *print_before; /* a pass, or "all"; NULL: none */
    int devices; /* that the program will run on at once, where it does not say so; 0: one */
    bool verify;
    bool stats; /* runs, changes and time of each pass, to standard error */
};

/* False with errors in diag (an unknown pass in `passes` too). Prints go to standard error. */
bool pipeline_run(struct hlo_module *module, const struct pipeline_options *options,
                  enum pass_target target, int level, struct diag *diag);

#endif
