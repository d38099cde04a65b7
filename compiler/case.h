/* Cases: folders with a program, recorded inputs and recorded results. */
#ifndef COMPILER_CASE_H
#define COMPILER_CASE_H

#include "compiler/io.h"
#include "compiler/target.h"

struct case_info {
    double tolerance; /* below 0: the default of each type */
    int64_t partitions;
    unsigned targets; /* bit of each target_kind where it runs */
};

/* Reads DIR/case.json; the defaults where there is none. */
bool case_read_info(const char *directory, struct case_info *info, struct fault *fault);

/* Directories that hold `program`, at or below `path`. */
struct case_list {
    char **paths;
    int count, capacity;
};
bool case_find(struct case_list *list, const char *path, const char *program, struct fault *fault);
/* By path; each once. */
void case_list_sort(struct case_list *list);
void case_list_free(struct case_list *list);

enum case_verdict { CASE_PASSED, CASE_FAILED, CASE_SKIPPED };

/* DIR/in.K.npy, one a flat parameter (see module_arguments); NULL with the reason on `out`. */
struct literal **case_read_inputs(const char *directory, const struct hlo_module *module,
                                  FILE *out);

struct case_options {
    struct target_options target;
    const char *program; /* file name in the directory: module.hlo */
};

/* Runs one case. What there is to say goes to `out`, which must be unbuffered by the caller's
 * process (it may die with this one). */
enum case_verdict case_run(const char *directory, const struct case_options *options, FILE *out);

#endif
