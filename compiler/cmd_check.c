#include "compiler/cli.h"

static const char usage[] =
    "usage: hlocc check FILE...\n"
    "Parses and verifies each file (- is standard input); errors go to standard error.\n"
    "  --target=tpu  also says what cannot run there, and whether it fits\n"
    "  --chip=v2|v3|v4|v5e|FILE.json\n"
    "  --passes=A,B,C  --disable-pass=A  -O0..-O3    what runs before, for a target\n"
    "  --quiet       print nothing for files that are fine\n";

static bool check_one(const char *path, const struct common_options *common, bool quiet) {
    struct program program;
    bool ok = program_load(&program, path);
    if (ok && !quiet) {
        printf("%s: %d instructions in %d computations, %d parameters, %d results\n",
               program.diag.file, module_instruction_count(program.module),
               program.module->ncomputations, module_flat_parameters(program.module),
               shape_array_leaves(program.module->entry->root->shape));
    }
    if (ok && common->target.kind == TARGET_TPU) {
        ok = target_check(program.module, &common->target, &program.diag);
        program_report(&program);
    }
    program_free(&program);
    return ok;
}

int cmd_check(int argc, char **argv) {
    static const struct option options[] = {{"quiet", no_argument, NULL, 'q'},
                                            COMMON_TARGET_OPTIONS,
                                            COMMON_PASS_OPTIONS,
                                            COMMON_HELP_OPTION,
                                            {0}};
    struct common_options common;
    common_init(&common);
    bool quiet = false;
    int code;
    while ((code = getopt_long(argc, argv, "qO:", options, NULL)) >= 0) {
        if (code == 'q') {
            quiet = true;
            continue;
        }
        int status = common_option(&common, code, usage);
        if (status >= 0) return status;
    }
    if (optind == argc) return usage_error("check: which file?");
    bool ok = true;
    for (int i = optind; i < argc; i++)
        ok = check_one(argv[i], &common, quiet) && ok;
    return ok ? EXIT_DONE : EXIT_INPUT;
}
