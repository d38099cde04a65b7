#include <stdlib.h>
#include <string.h>

#include "compiler/cli.h"
#include "ir/print.h"

static const char usage[] =
    "usage: hlocc opt FILE [OPTIONS]\n"
    "HLO in, HLO out. Without --passes the program is only parsed, verified and printed.\n"
    "  -o FILE                  where to (standard output)\n"
    "  --passes=A,B,C           the passes to run; `hlocc passes` lists them\n"
    "  --disable-pass=A         leave one out\n"
    "  --dump-dir=DIR           the module before, and after each pass that changed it\n"
    "  --print-after=PASS|all, --print-before=PASS|all    to standard error\n"
    "  --verify                 verify after each pass\n"
    "  --short                  no metadata, large constants elided\n"
    "  --no-percent, --no-operand-shapes, --no-metadata, --no-layouts, --no-backend-config\n"
    "  --max-constant=N         print {...} for constants of more elements\n"
    "  --elided-constants=keep|zero|random    what stands for {...} in the input (keep)\n";

enum {
    OPT_SHORT = OPT_OWN,
    OPT_NO_PERCENT,
    OPT_NO_OPERANDS,
    OPT_NO_METADATA,
    OPT_NO_LAYOUTS,
    OPT_NO_CONFIG,
    OPT_MAX_CONSTANT
};

static const struct option options[] = {COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"short", no_argument, NULL, OPT_SHORT},
                                        {"no-percent", no_argument, NULL, OPT_NO_PERCENT},
                                        {"no-operand-shapes", no_argument, NULL, OPT_NO_OPERANDS},
                                        {"no-metadata", no_argument, NULL, OPT_NO_METADATA},
                                        {"no-layouts", no_argument, NULL, OPT_NO_LAYOUTS},
                                        {"no-backend-config", no_argument, NULL, OPT_NO_CONFIG},
                                        {"max-constant", required_argument, NULL, OPT_MAX_CONSTANT},
                                        {0}};

struct opt_options {
    struct common_options common;
    struct print_options print;
    const char *output;
};

static int read_option(struct opt_options *o, int code) {
    switch (code) {
    case 'o': o->output = optarg; return -1;
    case OPT_SHORT: o->print = print_options_short(); return -1;
    case OPT_NO_PERCENT: o->print.percent = false; return -1;
    case OPT_NO_OPERANDS: o->print.operand_shapes = false; return -1;
    case OPT_NO_METADATA: o->print.metadata = false; return -1;
    case OPT_NO_LAYOUTS: o->print.layouts = false; return -1;
    case OPT_NO_CONFIG: o->print.backend_config = false; return -1;
    case OPT_MAX_CONSTANT:
        if (parse_number(optarg, -1, INT64_MAX, &o->print.max_constant)) return -1;
        return usage_error("--max-constant takes a number of elements, not '%s'", optarg);
    case OPT_ELIDED:
        if (strcmp(optarg, "keep") == 0) return -1;
        return common_option(&o->common, code, usage);
    default: return common_option(&o->common, code, usage);
    }
}

static bool write_module(const struct hlo_module *module, const struct opt_options *o) {
    struct output output;
    struct fault fault;
    bool ok = output_open(&output, o->output, &fault);
    if (ok) {
        module_print(output.stream, module, &o->print);
        ok = output_commit(&output, &fault);
    }
    if (!ok) fprintf(stderr, "%s: error: %s\n", o->output ? o->output : "<stdout>", fault.text);
    return ok;
}

int cmd_opt(int argc, char **argv) {
    struct opt_options o = {.print = print_options_full()};
    common_init(&o.common);
    int code;
    while ((code = getopt_long(argc, argv, "o:", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind + 1 != argc) return usage_error("opt takes one file");
    struct program program;
    bool ok = program_load(&program, argv[optind]);
    if (ok && o.common.elided != ELIDED_ERROR) ok = program_fill_elided(&program, o.common.elided);
    if (ok && o.common.target.pipeline.passes) {
        ok = pipeline_run(program.module, &o.common.target.pipeline, PASS_TARGET_GENERIC, 2,
                          &program.diag);
        program_report(&program);
    }
    ok = ok && write_module(program.module, &o);
    program_free(&program);
    return ok ? EXIT_DONE : EXIT_INPUT;
}
