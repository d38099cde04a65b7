/* The command line: one function a command, each `int cmd_NAME(int argc, char **argv)` with argv[0]
 * the command's name, returning an exit status. */
#ifndef COMPILER_CLI_H
#define COMPILER_CLI_H

#include <getopt.h>

#include "compiler/load.h"
#include "compiler/pipeline.h"
#include "compiler/target.h"

enum exit_status {
    EXIT_DONE = 0,
    EXIT_INPUT = 1,    /* the input is at fault */
    EXIT_USAGE = 2,    /* the command line is at fault */
    EXIT_INTERNAL = 3, /* a fault of ours */
};

int cli_main(int argc, char **argv);

int cmd_check(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_opt(int argc, char **argv);
int cmd_ops(int argc, char **argv);
int cmd_passes(int argc, char **argv);
int cmd_compile(int argc, char **argv);
int cmd_asm(int argc, char **argv);
int cmd_disasm(int argc, char **argv);
int cmd_bisect(int argc, char **argv);
int cmd_report(int argc, char **argv);

/* Options that several commands take. */
struct common_options {
    struct target_options target;
    enum elided_policy elided;
};

enum common_code { /* codes of the long options below; a command's own start at 512 */
                   OPT_TARGET = 256,
                   OPT_MCPU,
                   OPT_CHIP,
                   OPT_THREADS,
                   OPT_PRECISION,
                   OPT_SEED,
                   OPT_LIBRARY,
                   OPT_CUSTOM_CALLS,
                   OPT_ELIDED,
                   OPT_PASSES,
                   OPT_DISABLE,
                   OPT_DUMP_DIR,
                   OPT_PRINT_AFTER,
                   OPT_PRINT_BEFORE,
                   OPT_VERIFY,
                   OPT_CACHE,
                   OPT_HELP,
                   OPT_OWN = 512,
};

#define COMMON_TARGET_OPTIONS                                                                      \
    {"target", required_argument, NULL, OPT_TARGET}, {"mcpu", required_argument, NULL, OPT_MCPU},  \
        {"chip", required_argument, NULL, OPT_CHIP},                                               \
        {"threads", required_argument, NULL, OPT_THREADS},                                         \
        {"library", required_argument, NULL, OPT_LIBRARY},                                         \
        {"custom-calls", required_argument, NULL, OPT_CUSTOM_CALLS},                               \
        {"matmul-precision", required_argument, NULL, OPT_PRECISION}, {                            \
        "seed", required_argument, NULL, OPT_SEED                                                  \
    }
#define COMMON_PASS_OPTIONS                                                                        \
    {"passes", required_argument, NULL, OPT_PASSES},                                               \
        {"disable-pass", required_argument, NULL, OPT_DISABLE},                                    \
        {"dump-dir", required_argument, NULL, OPT_DUMP_DIR},                                       \
        {"print-after", required_argument, NULL, OPT_PRINT_AFTER},                                 \
        {"print-before", required_argument, NULL, OPT_PRINT_BEFORE}, {                             \
        "verify", no_argument, NULL, OPT_VERIFY                                                    \
    }
#define COMMON_ELIDED_OPTION {"elided-constants", required_argument, NULL, OPT_ELIDED}
#define COMMON_CACHE_OPTION {"cache-dir", required_argument, NULL, OPT_CACHE}
#define COMMON_HELP_OPTION {"help", no_argument, NULL, OPT_HELP}

void common_init(struct common_options *common);
/* Handles one option code of the table above, and 'O'. -1: done, go on; otherwise the exit status
 * to leave with (usage errors have been reported). `usage` is what --help prints. */
int common_option(struct common_options *common, int code, const char *usage);

/* After the last option: -1, or EXIT_USAGE where --mcpu or --triple name no machine. */
int common_machine(const struct common_options *common);

/* Reports on standard error and returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A whole decimal number within bounds; false otherwise. */
bool parse_number(const char *text, int64_t least, int64_t most, int64_t *value);

#endif
