/* Reports on a program that is about to run: where its values are in memory. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "compiler/cli.h"
#include "compiler/target_tpu.h"
#include "passes/buffer_assignment.h"

static const char usage[] =
    "usage: hlocc report FILE --memory [OPTIONS]\n"
    "Every value of the compiled program with its place in memory, what is alive when most is, "
    "and\n"
    "the lower bound for the schedule. Scratch is what kernels need for themselves.\n"
    "  --memory                 the report on memory\n"
    "  --json                   as one JSON object (cpu)\n"
    "  --html=FILE              as a page that draws the memory over time (cpu)\n"
    "  --target=cpu|tpu  --chip=NAME|FILE.json    tpu: what is in HBM, and what stays in VMEM\n"
    "  --threads=N  --mcpu=NAME  -O0..-O3  --passes=A,B,C  --disable-pass=A\n"
    "  --elided-constants=error|zero|random    what to put where the text says {...}\n";

enum { OPT_MEMORY = OPT_OWN, OPT_JSON, OPT_HTML };

static const struct option options[] = {COMMON_TARGET_OPTIONS,
                                        COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"memory", no_argument, NULL, OPT_MEMORY},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"html", required_argument, NULL, OPT_HTML},
                                        {0}};

struct report_options {
    struct common_options common;
    bool memory, json;
    const char *html;
};

static int read_option(struct report_options *o, int code) {
    switch (code) {
    case OPT_MEMORY: o->memory = true; return -1;
    case OPT_JSON: o->json = true; return -1;
    case OPT_HTML: o->html = optarg; return -1;
    default: return common_option(&o->common, code, usage);
    }
}

static bool write_html(const struct report_options *o, const char *file,
                       const struct buffer_assignment *assignment) {
    struct output output;
    struct fault fault;
    bool ok = output_open(&output, o->html, &fault);
    if (ok) {
        buffer_assignment_print_html(output.stream, assignment, file);
        ok = output_commit(&output, &fault);
    }
    if (!ok) fprintf(stderr, "%s: error: %s\n", o->html, fault.text);
    return ok;
}

/* Compiles the program, which leaves the module as it runs. */
static bool scratch_size(struct program *program, const struct target_options *target,
                         int64_t *scratch) {
    struct cpu_options cpu = {
        .mcpu = target->mcpu, .symbol = "hlocc_entry", .max_threads = target->threads};
    struct cpu_code code;
    if (!cpu_compile(program->module, &cpu, CPU_LLVM_IR, &code, &program->diag)) return false;
    *scratch = code.stats.scratch;
    cpu_code_free(&code);
    return true;
}

static bool report(const struct report_options *o, const char *file, struct program *program) {
    struct hlo_module *module = program->module;
    struct buffer_options buffers = {0};
    int64_t scratch;
    const struct buffer_assignment *assignment = NULL;
    if (target_optimise(module, &o->common.target, &program->diag) &&
        scratch_size(program, &o->common.target, &scratch))
        assignment = buffer_assign(module->arena, module, &buffers, &program->diag);
    program_report(program);
    if (!assignment) return false;
    if (o->json) {
        buffer_assignment_print_json(stdout, assignment, scratch);
    } else if (!o->html) {
        printf("scratch bytes: %lld\n", (long long)scratch);
        buffer_assignment_print(stdout, assignment);
    }
    return !o->html || write_html(o, file, assignment);
}

static bool report_tpu(const struct report_options *o, struct program *program) {
    struct hlo_module *module = program->module;
    bool ok = target_optimise(module, &o->common.target, &program->diag) &&
              tpu_target_report(module, &o->common.target, stdout, &program->diag);
    program_report(program);
    return ok;
}

int cmd_report(int argc, char **argv) {
    struct report_options o = {.memory = false};
    common_init(&o.common);
    int code;
    while ((code = getopt_long(argc, argv, "O:", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind + 1 != argc) return usage_error("report takes one file");
    if (!o.memory) return usage_error("report what? --memory");
    bool tpu = o.common.target.kind == TARGET_TPU;
    if (o.common.target.kind != TARGET_CPU && !tpu)
        return usage_error("report --memory is for cpu and tpu");
    if (tpu && (o.json || o.html)) return usage_error("report --json and --html are for cpu");
    struct program program;
    bool ok = program_load(&program, argv[optind]) &&
              program_fill_elided(&program, o.common.elided) &&
              (tpu ? report_tpu(&o, &program) : report(&o, argv[optind], &program));
    program_free(&program);
    return ok ? EXIT_DONE : EXIT_INPUT;
}
