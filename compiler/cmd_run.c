#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/cli.h"
#include "compiler/npy.h"
#include "compiler/partitions.h"
#include "compiler/target_tpu.h"
#include "compiler/tpu_file.h"
#include "ir/print.h"

static const char usage[] =
    "usage: hlocc run FILE [IN.npy ...] [OPTIONS]\n"
    "Runs the program, HLO text or a .tpu file; one input a flat parameter. Results are printed "
    "as\n"
    "HLO literals.\n"
    "  --inputs=DIR             take DIR/in.K.npy\n"
    "  --random=SEED            draw inputs: floats in [-1,1), integers in [0,8)\n"
    "  --out=DIR                write DIR/out.K.npy instead of printing\n"
    "  --record=DIR             write a case: program, inputs, results\n"
    "  --repeat=N               run N times; times go to standard error\n"
    "  --json                   one line with the times instead of the results\n"
    "  --stats                  sizes and times on standard error; of a TPU, cycles and units\n"
    "  --trace=FILE             what each unit of a TPU does when, for Perfetto\n"
    "  --partitions=N           on N devices at once, by the evaluator: collectives exchange "
    "values\n"
    "  --target=cpu|tpu|interp  native code (default), the TPU emulator, or the evaluator\n"
    "  --library=FILE.so        C functions for custom calls, by their targets' names\n"
    "  --cache-dir=DIR          keep native code here, and take it from here\n"
    "  --threads=N  --mcpu=NAME  -O0..-O3  --seed=N\n"
    "  --matmul-precision=default|high|highest\n"
    "  --elided-constants=error|zero|random    what to put where the text says {...}\n"
    "  --passes=A,B,C  --disable-pass=A  --dump-dir=DIR  --print-after=PASS|all\n"
    "  --print-before=PASS|all  --verify\n";

enum {
    OPT_INPUTS = OPT_OWN,
    OPT_RANDOM,
    OPT_OUT,
    OPT_RECORD,
    OPT_REPEAT,
    OPT_JSON,
    OPT_STATS,
    OPT_TRACE,
    OPT_PARTITIONS
};

static const struct option options[] = {COMMON_TARGET_OPTIONS,
                                        COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_CACHE_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"inputs", required_argument, NULL, OPT_INPUTS},
                                        {"random", required_argument, NULL, OPT_RANDOM},
                                        {"out", required_argument, NULL, OPT_OUT},
                                        {"record", required_argument, NULL, OPT_RECORD},
                                        {"repeat", required_argument, NULL, OPT_REPEAT},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"stats", no_argument, NULL, OPT_STATS},
                                        {"trace", required_argument, NULL, OPT_TRACE},
                                        {"partitions", required_argument, NULL, OPT_PARTITIONS},
                                        {0}};

struct run_options {
    struct common_options common;
    const char *inputs, *out, *record;
    bool random, json, stats;
    uint64_t seed;
    int repeat;
    char **files;
    int nfiles;
};

struct run_times {
    double compile;
    double *runs; /* repeat of them, sorted after the last */
};

static int read_option(struct run_options *o, int code) {
    int64_t number = 0;
    switch (code) {
    case OPT_INPUTS: o->inputs = optarg; return -1;
    case OPT_OUT: o->out = optarg; return -1;
    case OPT_RECORD: o->record = optarg; return -1;
    case OPT_JSON: o->json = true; return -1;
    case OPT_STATS: o->stats = o->common.target.pipeline.stats = true; return -1;
    case OPT_TRACE: o->common.target.trace = optarg; return -1;
    case OPT_RANDOM:
        if (!parse_number(optarg, INT64_MIN, INT64_MAX, &number)) {
            return usage_error("--random takes a number, not '%s'", optarg);
        }
        o->random = true;
        o->seed = (uint64_t)number;
        return -1;
    case OPT_REPEAT:
        if (!parse_number(optarg, 1, 1000000, &number)) {
            return usage_error("--repeat takes a number from 1 to 1000000, not '%s'", optarg);
        }
        o->repeat = (int)number;
        return -1;
    case OPT_PARTITIONS:
        if (!parse_number(optarg, 1, 1024, &number)) {
            return usage_error("--partitions takes a number from 1 to 1024, not '%s'", optarg);
        }
        o->common.target.partitions = (int)number;
        return -1;
    default: return common_option(&o->common, code, usage);
    }
}

/* ---- inputs ---- */

static struct literal *read_input(const struct run_options *o, int index,
                                  const struct shape *shape) {
    char *path = o->inputs ? text_format("%s/in.%d.npy", o->inputs, index)
                           : text_format("%s", o->files[index]);
    struct fault fault;
    struct literal *literal = npy_read(path, shape, &fault);
    if (!literal) fprintf(stderr, "%s: error: parameter %d: %s\n", path, index, fault.text);
    free(path);
    return literal;
}

static struct literal *make_input(const struct run_options *o, int index,
                                  const struct shape *shape) {
    if (o->inputs || o->nfiles) return read_input(o, index, shape);
    struct literal *literal = literal_new(shape);
    if (literal) {
        literal_fill_random(literal, o->seed, (uint64_t)index);
    } else {
        fprintf(stderr, "hlocc: error: parameter %d does not fit in memory\n", index);
    }
    return literal;
}

static bool inputs_given(const struct run_options *o, int wanted) {
    if (o->inputs || o->random || o->nfiles == wanted) return true;
    fprintf(stderr,
            "hlocc: error: the program takes %d input%s, %d given (--inputs=DIR reads them all, "
            "--random=SEED draws them)\n",
            wanted, wanted == 1 ? "" : "s", o->nfiles);
    return false;
}

static struct literal **make_inputs(const struct run_options *o, struct program *program,
                                    int *count) {
    struct hlo_module *module = program->module;
    int wanted = module_flat_parameters(module);
    if (!inputs_given(o, wanted)) return NULL;
    struct literal **flat = calloc((size_t)wanted + 1, sizeof *flat);
    if (!flat) return NULL;
    bool ok = true;
    for (int i = 0; i < wanted; i++) {
        const struct shape *shape =
            partitions_parameter(module, i, o->common.target.partitions, &program->diag);
        flat[i] = shape ? make_input(o, i, shape) : NULL;
        ok = ok && flat[i];
    }
    *count = wanted;
    program_report(program);
    if (ok) return flat;
    literals_free(flat, wanted);
    return NULL;
}

/* ---- results ---- */

static bool write_arrays(const char *directory, const char *stem, const struct literal *const *all,
                         int count) {
    struct fault fault;
    if (!directory_make(directory, &fault)) {
        fprintf(stderr, "%s: error: %s\n", directory, fault.text);
        return false;
    }
    for (int i = 0; i < count; i++) {
        char *path = text_format("%s/%s.%d.npy", directory, stem, i);
        bool ok = npy_write(path, all[i], &fault);
        if (!ok) fprintf(stderr, "%s: error: %s\n", path, fault.text);
        free(path);
        if (!ok) return false;
    }
    return true;
}

static int list_arrays(const struct literal *literal, const struct literal **arrays) {
    int count = 0;
    if (shape_is_array(literal->shape)) arrays[count++] = literal;
    for (int i = 0; shape_is_tuple(literal->shape) && i < literal->shape->ntuple; i++)
        count += list_arrays(literal->elements[i], arrays + count);
    return count;
}

static bool write_results(const char *directory, const struct literal *result) {
    int count = shape_array_leaves(result->shape);
    const struct literal **leaves = calloc((size_t)count + 1, sizeof *leaves);
    if (!leaves) return false;
    list_arrays(result, leaves);
    bool ok = write_arrays(directory, "out", leaves, count);
    free(leaves);
    return ok;
}

static void print_results(const struct literal *result) {
    for (int i = 0; shape_is_tuple(result->shape) && i < result->shape->ntuple; i++)
        print_results(result->elements[i]);
    if (!shape_is_array(result->shape)) return;
    shape_print(stdout, result->shape, false);
    putchar(' ');
    literal_print(stdout, result, -1);
    putchar('\n');
}

static bool record_case(const struct run_options *o, const char *text, struct literal **flat,
                        int count, const struct literal *result) {
    if (!write_arrays(o->record, "in", (const struct literal *const *)flat, count) ||
        !write_results(o->record, result)) {
        return false;
    }
    struct fault fault;
    char *program = text_format("%s/module.hlo", o->record);
    char *info = text_format("%s/case.json", o->record);
    char *json = text_format("{\n \"tolerance\": null,\n \"partitions\": %d\n}\n",
                             o->common.target.partitions);
    bool ok = file_write(program, text, strlen(text), &fault) &&
              file_write(info, json, strlen(json), &fault);
    if (!ok) fprintf(stderr, "%s: error: %s\n", o->record, fault.text);
    free(program);
    free(info);
    free(json);
    return ok;
}

/* ---- running ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct literal *run_all(struct target_program *target, struct literal *const *args,
                               int repeat, struct run_times *times, struct diag *diag) {
    struct literal *result = NULL;
    for (int i = 0; i < repeat; i++) {
        literal_unref(result);
        double start = clock_seconds();
        result = target_run(target, args, diag);
        times->runs[i] = clock_seconds() - start;
        if (!result) return NULL;
    }
    qsort(times->runs, (size_t)repeat, sizeof *times->runs, by_value);
    return result;
}

static void report_times(const struct run_options *o, const struct run_times *times) {
    double least = times->runs[0], median = times->runs[o->repeat / 2];
    if (o->json) {
        printf("{\"target\": \"%s\", \"repeat\": %d, \"compile_s\": %.9f, \"run_min_s\": %.9f, "
               "\"run_median_s\": %.9f}\n",
               target_name(o->common.target.kind), o->repeat, times->compile, least, median);
    } else if (o->repeat > 1 || o->stats) {
        fprintf(stderr, "compile %.3f ms; run %.3f ms least, %.3f ms median of %d\n",
                times->compile * 1e3, least * 1e3, median * 1e3, o->repeat);
    }
}

static void report_sizes(const struct program *program) {
    int64_t in = 0, out = program->module->entry->root->shape->bytes;
    for (int i = 0; i < program->module->entry->nparameters; i++) {
        in += program->module->entry->parameters[i]->shape->bytes;
    }
    fprintf(stderr, "inputs %lld bytes, results %lld bytes, %d instructions\n", (long long)in,
            (long long)out, module_instruction_count(program->module));
}

static bool run_prepared(const struct run_options *o, struct program *program,
                         struct literal **flat, int count, struct run_times *times) {
    struct literal **args = module_arguments(program->module, flat);
    if (!args) return false;
    int nargs = program->module->entry->nparameters;
    /* What is recorded is the program as it came, not as the target leaves it. */
    struct print_options print = print_options_full();
    char *text = o->record ? module_to_string(program->module, &print) : NULL;
    double start = clock_seconds();
    struct target_program *target =
        target_prepare(program->module, &o->common.target, &program->diag);
    times->compile = clock_seconds() - start;
    struct literal *result =
        target ? run_all(target, args, o->repeat, times, &program->diag) : NULL;
    program_report(program);
    bool ok = result != NULL;
    if (ok) report_times(o, times);
    if (ok && o->stats) report_sizes(program);
    if (ok && o->stats) target_print_stats(target, stderr);
    if (ok && o->out) ok = write_results(o->out, result);
    if (ok && o->record) ok = record_case(o, text, flat, count, result);
    if (ok && !o->out && !o->json && !o->record) print_results(result);
    literal_unref(result);
    target_free(target);
    for (int i = 0; i < nargs; i++)
        literal_unref(args[i]);
    free(args);
    free(text);
    return ok;
}

/* The arrays of `flat` live on as parts of the arguments; the record needs them after the run. */
static bool run_program(const struct run_options *o, struct program *program) {
    int count = 0;
    struct literal **flat = make_inputs(o, program, &count);
    struct run_times times = {.runs = calloc((size_t)o->repeat, sizeof(double))};
    bool ok = flat && times.runs;
    if (ok) {
        for (int i = 0; i < count; i++)
            literal_ref(flat[i]);
        ok = run_prepared(o, program, flat, count, &times);
    }
    literals_free(flat, count);
    free(times.runs);
    return ok;
}

/* ---- programs that are compiled already ---- */

static bool run_opened(const struct run_options *o, struct tpu_file *tpu, const char *path) {
    struct literal **flat = calloc((size_t)tpu->params + 1, sizeof *flat), *result = NULL;
    struct run_times times = {.runs = calloc((size_t)o->repeat, sizeof(double))};
    struct fault fault;
    bool ok = flat && times.runs && inputs_given(o, tpu->params);
    for (int i = 0; i < tpu->params && ok; i++)
        ok = (flat[i] = make_input(o, i, tpu->param[i])) != NULL;
    for (int i = 0; i < o->repeat && ok; i++) {
        literal_unref(result);
        double start = clock_seconds();
        result = tpu_file_run(tpu, flat, o->common.target.trace, &fault);
        times.runs[i] = clock_seconds() - start;
        ok = result != NULL;
        if (!ok) fprintf(stderr, "%s: error: %s\n", path, fault.text);
    }
    if (ok) qsort(times.runs, (size_t)o->repeat, sizeof *times.runs, by_value);
    if (ok) report_times(o, &times);
    if (ok && o->stats) {
        tpu_print_stats(tpu_executable_program(tpu->executable), &tpu->stats, stderr);
    }
    if (ok && o->out) ok = write_results(o->out, result);
    if (ok && !o->out && !o->json) print_results(result);
    literal_unref(result);
    if (flat) literals_free(flat, tpu->params);
    free(times.runs);
    return ok;
}

static bool run_tpu_file(const struct run_options *o, const char *path) {
    struct tpu_file tpu;
    struct fault fault;
    if (!tpu_file_open(&tpu, path, &fault)) {
        fprintf(stderr, "%s: error: %s\n", path, fault.text);
        return false;
    }
    bool ok = run_opened(o, &tpu, path);
    tpu_file_close(&tpu);
    return ok;
}

int cmd_run(int argc, char **argv) {
    struct run_options o = {.repeat = 1};
    common_init(&o.common);
    o.common.target.partitions = 1;
    int code;
    while ((code = getopt_long(argc, argv, "O:", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind == argc) return usage_error("run: which file?");
    int machine = common_machine(&o.common);
    if (machine >= 0) return machine;
    if (o.common.target.partitions > 1) o.common.target.kind = TARGET_INTERP;
    const char *file = argv[optind];
    o.files = argv + optind + 1;
    o.nfiles = argc - optind - 1;
    if ((o.inputs != NULL) + o.random + (o.nfiles > 0) > 1) {
        return usage_error("run takes input files, --inputs or --random: one of them");
    }
    if (tpu_file_is(file)) {
        if (o.record) return usage_error("--record needs a program as HLO text");
        o.common.target.kind = TARGET_TPU;
        return run_tpu_file(&o, file) ? EXIT_DONE : EXIT_INPUT;
    }
    struct program program;
    bool ok = program_load(&program, file) && program_fill_elided(&program, o.common.elided) &&
              run_program(&o, &program);
    program_free(&program);
    return ok ? EXIT_DONE : EXIT_INPUT;
}
