#include <stdlib.h>
#include <string.h>

#include "compiler/cli.h"
#include "compiler/dot.h"
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
    "  --stats                  runs, changes and time of each pass, to standard error\n"
    "  --emit=hlo|dot           HLO, or a graph for Graphviz\n"
    "How it is printed (default: with %, metadata, layouts and configurations, constants whole):\n"
    "  --short                  names alone, no metadata, constants of over 16 elements as {...}\n"
    "  --[no-]percent           % before names\n"
    "  --[no-]operand-shapes    add(f32[2]{0} %a, f32[2]{0} %b)\n"
    "  --[no-]metadata          metadata={...} and the tables of source places\n"
    "  --[no-]layouts           {1,0} after shapes\n"
    "  --[no-]backend-config    backend_config=...\n"
    "  --large-constants        constants whole, as after --short\n"
    "  --max-constant=N         {...} for constants of more than N elements\n"
    "  --elided-constants=keep|zero|random    what stands for {...} in the input (keep)\n";

enum {
    OPT_SHORT = OPT_OWN,
    OPT_LARGE_CONSTANTS,
    OPT_MAX_CONSTANT,
    OPT_EMIT,
    OPT_STATS,
    OPT_TOGGLE
};

/* Each with two codes: OPT_TOGGLE + 2 * i, and the same + 1 for --no-NAME. */
enum { PERCENT, OPERAND_SHAPES, METADATA, LAYOUTS, BACKEND_CONFIG };
#define TOGGLE(name, which)                                                                        \
    {name, no_argument, NULL, OPT_TOGGLE + 2 * (which)},                                           \
        {"no-" name, no_argument, NULL, OPT_TOGGLE + 2 * (which) + 1}

static const struct option options[] = {COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_HELP_OPTION,
                                        TOGGLE("percent", PERCENT),
                                        TOGGLE("operand-shapes", OPERAND_SHAPES),
                                        TOGGLE("metadata", METADATA),
                                        TOGGLE("layouts", LAYOUTS),
                                        TOGGLE("backend-config", BACKEND_CONFIG),
                                        {"short", no_argument, NULL, OPT_SHORT},
                                        {"large-constants", no_argument, NULL, OPT_LARGE_CONSTANTS},
                                        {"max-constant", required_argument, NULL, OPT_MAX_CONSTANT},
                                        {"emit", required_argument, NULL, OPT_EMIT},
                                        {"stats", no_argument, NULL, OPT_STATS},
                                        {0}};

struct opt_options {
    struct common_options common;
    struct print_options print;
    const char *output;
    bool dot;
};

static bool *toggled(struct print_options *print, int which) {
    switch (which) {
    case PERCENT: return &print->percent;
    case OPERAND_SHAPES: return &print->operand_shapes;
    case METADATA: return &print->metadata;
    case LAYOUTS: return &print->layouts;
    default: return &print->backend_config;
    }
}

static int read_option(struct opt_options *o, int code) {
    if (code >= OPT_TOGGLE) {
        *toggled(&o->print, (code - OPT_TOGGLE) / 2) = (code - OPT_TOGGLE) % 2 == 0;
        return -1;
    }
    switch (code) {
    case 'o': o->output = optarg; return -1;
    case OPT_STATS: o->common.target.pipeline.stats = true; return -1;
    case OPT_EMIT:
        o->dot = strcmp(optarg, "dot") == 0;
        if (o->dot || strcmp(optarg, "hlo") == 0) return -1;
        return usage_error("--emit is hlo or dot, not '%s'", optarg);
    case OPT_SHORT: o->print = print_options_short(); return -1;
    case OPT_LARGE_CONSTANTS: o->print.max_constant = -1; return -1;
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
        if (o->dot)
            module_print_dot(output.stream, module);
        else
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
