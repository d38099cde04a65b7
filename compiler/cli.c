#include "compiler/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"

#ifndef HLOCC_VERSION
#define HLOCC_VERSION "unknown"
#endif

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
};

static const struct command commands[] = {
    {"compile", cmd_compile, "HLO to an object, shared library, program, or LLVM IR"},
    {"run", cmd_run, "run a program on .npy or random inputs"},
    {"test", cmd_test, "run recorded cases and compare the results"},
    {"check", cmd_check, "parse and verify"},
    {"asm", cmd_asm, "TPU program text to a program file"},
    {"disasm", cmd_disasm, "TPU program file to text"},
    {"opt", cmd_opt, "HLO in, HLO out, through the named passes"},
    {"bisect", cmd_bisect, "find the rewrite that changes a program's result"},
    {"report", cmd_report, "where a program's values are in memory"},
    {"ops", cmd_ops, "list the operations"},
    {"passes", cmd_passes, "list the passes"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *out) {
    fprintf(out,
            "hlocc %s: an ahead-of-time compiler for HLO text\n\n"
            "usage: hlocc COMMAND [OPTIONS] ...\n\n",
            HLOCC_VERSION);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].text);
    }
    fprintf(out, "\n`hlocc COMMAND --help` lists the options of a command.\n"
                 "Exit status: 0 done; 1 the input is at fault; 2 the command line is at fault;\n"
                 "3 a fault of the compiler itself.\n");
}

int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "hlocc: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return EXIT_USAGE;
}

static int run_command(const struct command *command, int argc, char **argv) {
    char *name = text_format("hlocc %s", command->name); /* what getopt's messages start with */
    argv[0] = name;
    optind = 0;
    int status = command->run(argc, argv);
    free(name);
    return status;
}

static int no_command(const char *word) {
    if (access(word, F_OK) == 0) {
        return usage_error("a command comes first, as in `hlocc check %s`; `hlocc --help` lists "
                           "them",
                           word);
    }
    return usage_error("no command '%s'; `hlocc --help` lists them", word);
}

static const struct command *find_command(const char *word) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(word, commands[i].name) == 0) return &commands[i];
    }
    return NULL;
}

static int run_words(int argc, char **argv) {
    static char help_option[] = "--help";
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    bool help = strcmp(word, "help") == 0;
    if (help && argc == 3 && find_command(argv[2])) {
        char *words[] = {argv[2], help_option, NULL};
        return run_command(find_command(argv[2]), 2, words);
    }
    if (help || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        printf("hlocc %s\n", HLOCC_VERSION);
        return EXIT_DONE;
    }
    const struct command *command = find_command(word);
    return command ? run_command(command, argc - 1, argv + 1) : no_command(word);
}

int cli_main(int argc, char **argv) {
    int status = run_words(argc, argv);
    if (fflush(stdout) != 0 && status == EXIT_DONE) {
        fprintf(stderr, "hlocc: standard output cannot be written: %s\n", strerror(errno));
        status = EXIT_INPUT;
    }
    return status;
}

bool parse_number(const char *text, int64_t least, int64_t most, int64_t *value) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < least || number > most) return false;
    *value = number;
    return true;
}

void common_init(struct common_options *common) {
    memset(common, 0, sizeof *common);
    common->target.kind = TARGET_CPU;
    common->target.opt_level = 2;
}

static int set_target(struct common_options *common) {
    int target = target_from_name(optarg);
    if (target < 0) return usage_error("no target '%s' in this build: cpu or interp", optarg);
    common->target.kind = (enum target_kind)target;
    return -1;
}

static int set_elided(struct common_options *common) {
    static const char *const words[] = {"error", "zero", "random"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(optarg, words[i]) != 0) continue;
        common->elided = (enum elided_policy)i;
        return -1;
    }
    return usage_error("--elided-constants is error, zero or random, not '%s'", optarg);
}

static int set_precision(struct common_options *common) {
    int word = enum_precision_from_name(optarg, strlen(optarg));
    if (word != ENUM_PRECISION_DEFAULT && word != ENUM_PRECISION_HIGH &&
        word != ENUM_PRECISION_HIGHEST) {
        return usage_error("--matmul-precision is default, high or highest, not '%s'", optarg);
    }
    common->target.matmul_precision = word;
    return -1;
}

static int set_number(const char *option, int64_t least, int64_t most, int64_t *value) {
    if (parse_number(optarg, least, most, value)) return -1;
    return usage_error("%s takes a number from %lld to %lld, not '%s'", option, (long long)least,
                       (long long)most, optarg);
}

static int set_disabled(struct common_options *common) {
    struct pipeline_options *p = &common->target.pipeline;
    enum pass_id id = pass_from_name(optarg, strlen(optarg));
    if (id == PASS_COUNT) return usage_error("no pass '%s'; `hlocc passes` lists them", optarg);
    p->disabled[id] = true;
    return -1;
}

static int set_passes(struct common_options *common) {
    common->target.pipeline.passes = optarg;
    for (const char *name = optarg; *name;) {
        size_t length = strcspn(name, ",");
        if (length && !pass_list_has(name, length)) {
            return usage_error("no pass '%.*s'; `hlocc passes` lists them", (int)length, name);
        }
        name += length + (name[length] == ',');
    }
    return -1;
}

static int set_printed(const char **slot) {
    if (strcmp(optarg, "all") != 0 && pass_from_name(optarg, strlen(optarg)) == PASS_COUNT) {
        return usage_error("no pass '%s'; `hlocc passes` lists them", optarg);
    }
    *slot = optarg;
    return -1;
}

int common_machine(const struct common_options *common) {
    const struct target_options *target = &common->target;
    if (target->kind != TARGET_CPU || (!target->mcpu && !target->triple)) return -1;
    struct cpu_options cpu = {.mcpu = target->mcpu, .triple = target->triple};
    struct diag diag;
    diag_init(&diag, "", NULL, 0);
    int status = -1;
    if (!cpu_check_machine(&cpu, &diag)) status = usage_error("%s", diag.messages[0].text);
    diag_clear(&diag);
    return status;
}

int common_option(struct common_options *common, int code, const char *usage) {
    int64_t number = 0;
    int status;
    switch (code) {
    case OPT_TARGET: return set_target(common);
    case OPT_CHIP: common->target.chip = optarg; return -1;
    case OPT_MCPU: common->target.mcpu = optarg; return -1;
    case OPT_THREADS:
        status = set_number("--[max-]threads", 1, 1024, &number);
        common->target.threads = (int)number;
        return status;
    case OPT_LIBRARY: common->target.library = optarg; return -1;
    case OPT_CUSTOM_CALLS: common->target.custom_calls = optarg; return -1;
    case OPT_PRECISION: return set_precision(common);
    case OPT_SEED:
        status = set_number("--seed", 0, INT64_MAX, &number);
        common->target.seed = (uint64_t)number;
        return status;
    case OPT_ELIDED: return set_elided(common);
    case OPT_PASSES: return set_passes(common);
    case OPT_DISABLE: return set_disabled(common);
    case OPT_DUMP_DIR: common->target.pipeline.dump_dir = optarg; return -1;
    case OPT_PRINT_AFTER: return set_printed(&common->target.pipeline.print_after);
    case OPT_PRINT_BEFORE: return set_printed(&common->target.pipeline.print_before);
    case OPT_CACHE: common->target.cache_directory = optarg; return -1;
    case OPT_VERIFY: common->target.pipeline.verify = true; return -1;
    case 'O':
        status = set_number("-O", 0, 3, &number);
        common->target.opt_level = (int)number;
        return status;
    case OPT_HELP: fputs(usage, stdout); return EXIT_DONE;
    default: /* getopt has said what was wrong */
        fputs("hlocc: --help after the command lists its options\n", stderr);
        return EXIT_USAGE;
    }
}
