/* Finds the rewrite that makes a program's result differ from the evaluator's: every change that a
 * pass makes is counted, and a limit stops all changes after some number of them. */
#include <stdlib.h>
#include <string.h>

#include "compiler/case.h"
#include "compiler/cli.h"
#include "compiler/compare.h"
#include "ir/eval.h"
#include "ir/print.h"

static const char usage[] =
    "usage: hlocc bisect FILE [OPTIONS]\n"
    "Finds the pass, and the rewrite in it, after which the program's result first differs from "
    "the\n"
    "evaluator's on the program as it is. Exit status 1 where there is one.\n"
    "  --inputs=DIR             take DIR/in.K.npy\n"
    "  --random=SEED            draw inputs (0)\n"
    "  --target=cpu|interp      what runs the program after the passes (interp)\n"
    "  --out=DIR                write DIR/before.hlo and DIR/after.hlo, around the rewrite\n"
    "  --tolerance=T            for floats (that of each type)\n"
    "  --passes=A,B,C           the passes (those of the CPU target)\n"
    "  --disable-pass=A  --threads=N  --mcpu=NAME  -O0..-O3\n"
    "  --elided-constants=error|zero|random    what to put where the text says {...}\n"
    "  --sabotage=PASS:N        make change N of PASS a wrong one: to test bisect itself\n";

enum { OPT_INPUTS = OPT_OWN, OPT_RANDOM, OPT_OUT, OPT_TOLERANCE, OPT_SABOTAGE };

static const struct option options[] = {COMMON_TARGET_OPTIONS,
                                        COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"inputs", required_argument, NULL, OPT_INPUTS},
                                        {"random", required_argument, NULL, OPT_RANDOM},
                                        {"out", required_argument, NULL, OPT_OUT},
                                        {"tolerance", required_argument, NULL, OPT_TOLERANCE},
                                        {"sabotage", required_argument, NULL, OPT_SABOTAGE},
                                        {0}};

struct bisect_options {
    struct common_options common;
    const char *inputs, *out;
    int64_t seed;
    double tolerance;
    enum pass_id sabotaged;
    int64_t sabotage_at;
};

struct bisect {
    const struct bisect_options *o;
    const struct hlo_module *module;
    const enum pass_id *passes;
    int count;
    struct literal **args, *want;
};

/* What became of the program with so many rewrites. */
struct trial {
    bool same;
    int64_t rewrites;  /* that were made */
    enum pass_id pass; /* of the last one */
    int64_t in_pass;   /* its number there */
    int run;           /* its pass's place in the list */
    char text[512];    /* how the result differs, or why there is none */
};

static int read_sabotage(struct bisect_options *o) {
    size_t length = strcspn(optarg, ":");
    o->sabotaged = pass_from_name(optarg, length);
    if (o->sabotaged != PASS_COUNT && optarg[length] == ':' &&
        parse_number(optarg + length + 1, 1, INT64_MAX, &o->sabotage_at))
        return -1;
    return usage_error("--sabotage takes a pass and a number, not '%s'", optarg);
}

static int read_tolerance(struct bisect_options *o) {
    char *end;
    o->tolerance = strtod(optarg, &end);
    if (*optarg && !*end && o->tolerance >= 0) return -1;
    return usage_error("--tolerance takes a number from 0, not '%s'", optarg);
}

static int read_option(struct bisect_options *o, int code) {
    switch (code) {
    case OPT_INPUTS: o->inputs = optarg; return -1;
    case OPT_OUT: o->out = optarg; return -1;
    case OPT_TOLERANCE: return read_tolerance(o);
    case OPT_SABOTAGE: return read_sabotage(o);
    case OPT_RANDOM:
        if (parse_number(optarg, INT64_MIN, INT64_MAX, &o->seed)) return -1;
        return usage_error("--random takes a number, not '%s'", optarg);
    default: return common_option(&o->common, code, usage);
    }
}

/* ---- one trial ---- */

static bool transform(const struct bisect *b, struct hlo_module *module, int64_t limit, int count,
                      struct trial *trial, struct diag *diag) {
    struct pass_context context;
    pass_context_init(&context, diag);
    memcpy(context.disabled, b->o->common.target.pipeline.disabled, sizeof context.disabled);
    context.rewrite_limit = limit;
    context.verify = true;
    context.sabotaged = b->o->sabotaged;
    context.sabotage_at = b->o->sabotage_at;
    bool ok = pass_pipeline_run(&context, module, b->passes, count);
    trial->rewrites = context.rewrites;
    trial->pass = context.last_pass;
    trial->run = context.last_run;
    trial->in_pass = context.stats[context.last_pass].rewrites;
    return ok;
}

static bool same_results(const struct bisect *b, const struct literal *got, struct trial *trial) {
    int count = shape_array_leaves(b->want->shape);
    for (int i = 0; i < count; i++) {
        struct comparison c = compare_arrays(literal_array_leaf(got, i),
                                             literal_array_leaf(b->want, i), b->o->tolerance);
        if (c.equal) continue;
        snprintf(trial->text, sizeof trial->text, "output %d, element %lld: got %s, want %s", i,
                 (long long)c.index, c.got, c.want);
        return false;
    }
    return true;
}

static void keep_error(const struct diag *diag, struct trial *trial) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) return;
    diag_print(diag, stream, false);
    fclose(stream);
    snprintf(trial->text, sizeof trial->text, "no result: %.*s", (int)strcspn(text, "\n"), text);
    free(text);
}

static struct trial try(const struct bisect *b, int64_t limit) {
    struct trial trial = {.same = false};
    struct hlo_module *module = module_clone(b->module);
    struct diag diag;
    diag_init(&diag, "", NULL, 0);
    struct target_options target = b->o->common.target;
    target.pipeline = (struct pipeline_options){.passes = ""};
    struct literal *got = NULL;
    if (transform(b, module, limit, b->count, &trial, &diag)) {
        struct target_program *program = target_prepare(module, &target, &diag);
        if (program) got = target_run(program, b->args, &diag);
        trial.same = got && same_results(b, got, &trial);
        target_free(program);
    }
    if (!got) keep_error(&diag, &trial);
    literal_unref(got);
    diag_clear(&diag);
    module_free(module);
    return trial;
}

/* ---- the search ---- */

/* The program after `limit` rewrites in the first `count` passes. */
static struct hlo_module *state_after(const struct bisect *b, int64_t limit, int count) {
    struct hlo_module *module = module_clone(b->module);
    struct trial trial;
    struct diag diag;
    diag_init(&diag, "", NULL, 0);
    transform(b, module, limit, count, &trial, &diag);
    diag_clear(&diag);
    return module;
}

static bool write_state(const struct bisect *b, const struct hlo_module *module, const char *name) {
    struct fault fault = {""};
    struct output output;
    struct print_options print = print_options_full();
    char *path = text_format("%s/%s.hlo", b->o->out, name);
    bool ok = directory_make(b->o->out, &fault) && output_open(&output, path, &fault);
    if (ok) {
        module_print(output.stream, module, &print);
        ok = output_commit(&output, &fault);
    }
    if (!ok) fprintf(stderr, "%s: error: %s\n", path, fault.text);
    free(path);
    return ok;
}

/* ---- what the rewrite did, in lines ---- */

struct lines {
    char *text; /* malloc memory; each line ends in NUL */
    char **v;
    int count;
};

static struct lines lines_of(const struct hlo_module *module) {
    struct lines lines = {0};
    struct print_options print = print_options_short();
    size_t size = 0;
    FILE *stream = open_memstream(&lines.text, &size);
    if (!stream) return lines;
    module_print(stream, module, &print);
    fclose(stream);
    int most = 1;
    for (size_t i = 0; i < size; i++)
        most += lines.text[i] == '\n';
    lines.v = calloc((size_t)most, sizeof *lines.v);
    for (char *at = lines.text, *end; lines.v && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        lines.v[lines.count++] = at;
    }
    return lines;
}

static void lines_free(struct lines *lines) {
    free(lines->text);
    free(lines->v);
}

/* Lines first to end (excluded) of `a` that are not among those of `b`. */
static void print_only_in(const struct lines *a, const struct lines *b, int first, int a_end,
                          int b_end, char sign) {
    enum { MOST_SHOWN = 8, MOST_LOOKED_AT = 2000, WIDTH = 160 };
    int shown = 0, more = 0;
    if (a_end - first > MOST_LOOKED_AT || b_end - first > MOST_LOOKED_AT) return;
    for (int i = first; i < a_end; i++) {
        int k = first;
        while (k < b_end && strcmp(a->v[i], b->v[k]) != 0)
            k++;
        if (k < b_end) continue;
        if (shown++ < MOST_SHOWN)
            printf("  %c%.*s%s\n", sign, WIDTH, a->v[i], strlen(a->v[i]) > WIDTH ? "..." : "");
        else
            more++;
    }
    if (more) printf("  %c ... %d more lines\n", sign, more);
}

static void print_difference(const struct hlo_module *before, const struct hlo_module *after) {
    struct lines a = lines_of(before), b = lines_of(after);
    int first = 0, a_end = a.count, b_end = b.count;
    while (first < a_end && first < b_end && strcmp(a.v[first], b.v[first]) == 0)
        first++;
    while (a_end > first && b_end > first && strcmp(a.v[a_end - 1], b.v[b_end - 1]) == 0)
        a_end--, b_end--;
    print_only_in(&a, &b, first, a_end, b_end, '-');
    print_only_in(&b, &a, first, b_end, a_end, '+');
    lines_free(&a);
    lines_free(&b);
}

static int report(const struct bisect *b, int64_t limit, const struct trial *bad) {
    printf("rewrite %lld, number %lld of pass %s (place %d in the pipeline): the result differs "
           "from here on\n  %s\n",
           (long long)limit, (long long)bad->in_pass, pass_info(bad->pass)->name, bad->run + 1,
           bad->text);
    struct hlo_module *before = state_after(b, limit - 1, bad->run + 1);
    struct hlo_module *after = state_after(b, limit, bad->run + 1);
    print_difference(before, after);
    if (b->o->out && write_state(b, before, "before") && write_state(b, after, "after"))
        printf("  before and after: %s/before.hlo, %s/after.hlo\n", b->o->out, b->o->out);
    module_free(before);
    module_free(after);
    return EXIT_INPUT;
}

static int search(const struct bisect *b) {
    struct trial bad = try(b, -1);
    if (bad.same) {
        printf("the result is the same after all %lld rewrites\n", (long long)bad.rewrites);
        return EXIT_DONE;
    }
    int64_t good_limit = 0, bad_limit = bad.rewrites;
    struct trial none = try(b, 0);
    if (!none.same) {
        printf("the result differs with no rewrite at all\n  %s\n", none.text);
        return EXIT_INPUT;
    }
    while (bad_limit - good_limit > 1) {
        int64_t middle = good_limit + (bad_limit - good_limit) / 2;
        struct trial trial = try(b, middle);
        if (trial.same) {
            good_limit = middle;
        } else {
            bad_limit = middle;
            bad = trial;
        }
    }
    return report(b, bad_limit, &bad);
}

/* ---- the command ---- */

static struct literal **make_inputs(const struct bisect_options *o,
                                    const struct hlo_module *module) {
    if (o->inputs) return case_read_inputs(o->inputs, module, stderr);
    int count = module_flat_parameters(module);
    struct literal **flat = calloc((size_t)count + 1, sizeof *flat);
    for (int i = 0; flat && i < count; i++) {
        flat[i] = literal_new(module_flat_parameter(module, i));
        if (!flat[i]) {
            fprintf(stderr, "hlocc: error: parameter %d does not fit in memory\n", i);
            literals_free(flat, i);
            return NULL;
        }
        literal_fill_random(flat[i], (uint64_t)o->seed, (uint64_t)i);
    }
    return flat;
}

static bool prepare(struct bisect *b, struct program *program) {
    const struct pipeline_options *pipeline = &b->o->common.target.pipeline;
    b->module = program->module;
    b->passes = pipeline->passes ? pass_list_parse(program->module->arena, pipeline->passes,
                                                   &b->count, &program->diag)
                                 : pass_pipeline(PASS_TARGET_CPU, 2, &b->count);
    struct literal **flat = b->passes ? make_inputs(b->o, b->module) : NULL;
    b->args = flat ? module_arguments(b->module, flat) : NULL;
    free(flat);
    struct eval_options options = {.matmul_precision = b->o->common.target.matmul_precision,
                                   .seed = b->o->common.target.seed};
    if (b->args) b->want = module_evaluate(b->module, b->args, &options, &program->diag);
    program_report(program);
    return b->want != NULL;
}

int cmd_bisect(int argc, char **argv) {
    struct bisect_options o = {.tolerance = -1, .sabotaged = PASS_COUNT};
    common_init(&o.common);
    o.common.target.kind = TARGET_INTERP;
    int code;
    while ((code = getopt_long(argc, argv, "O:", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind + 1 != argc) return usage_error("bisect takes one file");
    struct program program;
    struct bisect b = {.o = &o};
    int status = EXIT_INPUT;
    if (program_load(&program, argv[optind]) && program_fill_elided(&program, o.common.elided) &&
        prepare(&b, &program))
        status = search(&b);
    if (b.args) literals_free(b.args, program.module->entry->nparameters);
    literal_unref(b.want);
    program_free(&program);
    return status;
}
