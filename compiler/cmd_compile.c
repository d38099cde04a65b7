#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/cli.h"
#include "compiler/header.h"
#include "compiler/link.h"
#include "compiler/symbol.h"
#include "ir/print.h"

static const char usage[] =
    "usage: hlocc compile FILE [-o OUT] [OPTIONS]\n"
    "  -o OUT                   where to (FILE with the kind's ending; - is standard output)\n"
    "  --emit=KIND              hlo; llvm-ir, llvm-bc, asm, obj (default), shared, exe;\n"
    "                           for tpu: tpu-asm, tpu (default)\n"
    "  --symbol=NAME            C name of the function (from OUT's name)\n"
    "  --header=FILE            the C header (beside OUT for obj and shared)\n"
    "  --target=cpu|tpu  -O0..-O3\n"
    "  --chip=v2|v3|v4|v5e|FILE.json    --matmul-precision=default|high|highest   (tpu)\n"
    "  --mcpu=native|NAME       the processor: x86-64-v3, znver3, cortex-a76, ...\n"
    "  --triple=TRIPLE          the machine, where it is another: aarch64-linux-gnu, riscv64, ...\n"
    "  -g                       debug information: lines of FILE, and of the metadata's sources\n"
    "  --max-threads=N          threads that the workspace has room for (the cores here)\n"
    "  --stats                  passes, kernels, bytes, workspace, time, to standard error\n"
    "  --custom-calls=A,B       C functions that are linked to the object later\n"
    "  --library=FILE.so        C functions for custom calls, linked to shared and exe\n"
    "  --cache-dir=DIR          keep code here, and take it from here (cpu)\n"
    "  --elided-constants=error|zero|random    what to put where the text says {...}\n"
    "  --passes=A,B,C  --disable-pass=A  --dump-dir=DIR  --print-after=PASS|all\n"
    "  --print-before=PASS|all  --verify\n";

enum { OPT_EMIT = OPT_OWN, OPT_SYMBOL, OPT_HEADER, OPT_TRIPLE, OPT_STATS };

static const struct option options[] = {COMMON_TARGET_OPTIONS,
                                        COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_CACHE_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"emit", required_argument, NULL, OPT_EMIT},
                                        {"symbol", required_argument, NULL, OPT_SYMBOL},
                                        {"header", required_argument, NULL, OPT_HEADER},
                                        {"triple", required_argument, NULL, OPT_TRIPLE},
                                        {"max-threads", required_argument, NULL, OPT_THREADS},
                                        {"stats", no_argument, NULL, OPT_STATS},
                                        {0}};

static const struct {
    const char *name, *ending;
    bool cpu, tpu; /* which targets have it */
} kinds[] = {
    [EMIT_HLO] = {"hlo", ".opt.hlo", true, true},
    [EMIT_LLVM_IR] = {"llvm-ir", ".ll", true, false},
    [EMIT_LLVM_BC] = {"llvm-bc", ".bc", true, false},
    [EMIT_ASM] = {"asm", ".s", true, false},
    [EMIT_OBJ] = {"obj", ".o", true, false},
    [EMIT_SHARED] = {"shared", ".so", true, false},
    [EMIT_EXE] = {"exe", "", true, false},
    [EMIT_TPU_ASM] = {"tpu-asm", ".tpu.s", false, true},
    [EMIT_TPU] = {"tpu", ".tpu", false, true},
};

struct compile_options {
    struct common_options common;
    enum emit_kind kind;
    bool has_kind; /* one was asked for */
    const char *output, *symbol, *header;
    char directory[4096]; /* the current one, for debug information */
};

static int set_kind(struct compile_options *o) {
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        if (strcmp(optarg, kinds[i].name) != 0) continue;
        o->kind = (enum emit_kind)i;
        o->has_kind = true;
        return -1;
    }
    return usage_error("--emit is hlo, llvm-ir, llvm-bc, asm, obj, shared or exe, for tpu tpu-asm "
                       "or tpu, not '%s'",
                       optarg);
}

/* -1, or the status to leave with. */
static int check_kind(struct compile_options *o) {
    enum target_kind target = o->common.target.kind;
    if (target == TARGET_INTERP) return usage_error("compile makes code for cpu or tpu");
    if (!o->has_kind) o->kind = target == TARGET_TPU ? EMIT_TPU : EMIT_OBJ;
    if (target == TARGET_TPU ? kinds[o->kind].tpu : kinds[o->kind].cpu) return -1;
    return usage_error("target %s has no --emit=%s", target_name(target), kinds[o->kind].name);
}

static int read_option(struct compile_options *o, int code) {
    switch (code) {
    case 'o': o->output = optarg; return -1;
    case 'g':
        if (!getcwd(o->directory, sizeof o->directory)) o->directory[0] = 0;
        o->common.target.debug_directory = o->directory;
        return -1;
    case OPT_EMIT: return set_kind(o);
    case OPT_HEADER: o->header = optarg; return -1;
    case OPT_STATS: o->common.target.pipeline.stats = true; return -1;
    case OPT_TRIPLE: o->common.target.triple = optarg; return -1;
    case OPT_SYMBOL:
        o->symbol = optarg;
        if (!symbol_is_name(optarg)) return usage_error("--symbol: '%s' is no C name", optarg);
        if (!symbol_is_taken(optarg)) return -1;
        return usage_error("--symbol: '%s' is a word of C or a function of its library", optarg);
    default: return common_option(&o->common, code, usage);
    }
}

/* "dir/some-model.hlo" -> "some-model"; malloc memory. */
static char *stem_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *stem = text_format("%s", slash ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot && dot != stem) *dot = 0;
    return stem;
}

static char *symbol_for(const char *path) {
    char *stem = stem_of(strcmp(path, "-") == 0 ? "program" : path);
    for (char *p = stem; *p; p++) {
        if (!isalnum((unsigned char)*p)) *p = '_';
    }
    char *symbol = text_format("%s%s%s", isdigit((unsigned char)*stem) || !*stem ? "_" : "", stem,
                               symbol_is_taken(stem) ? "_hlo" : "");
    free(stem);
    return symbol;
}

/* The path with the ending of its last part replaced; malloc memory. */
static char *with_ending(const char *path, const char *ending) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t length = dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    return text_format("%.*s%s", (int)length, path, ending);
}

/* ---- compiling ---- */

/* The bytes of the output; false with a fault, or with diagnostics. */
static bool make_code(struct program *program, const struct compile_options *o, const char *symbol,
                      struct bytes *bytes, struct fault *fault) {
    bool linked = o->kind == EMIT_SHARED || o->kind == EMIT_EXE;
    if (!target_emit(program->module, &o->common.target, linked ? EMIT_OBJ : o->kind, symbol, bytes,
                     &program->diag)) {
        return false;
    }
    if (!linked) return true;
    struct bytes object = *bytes;
    *bytes = (struct bytes){0};
    bool ok = link_object(program->module, o->kind == EMIT_SHARED, &object, symbol,
                          o->common.target.library, bytes, fault);
    free(object.data);
    return ok;
}

/* Output and header appear together or not at all: both are open before either takes its name. */
static bool write_files(const struct program *program, const struct compile_options *o,
                        const struct bytes *code, const char *output, const char *symbol,
                        const char *header) {
    struct fault fault;
    struct output main_file, header_file;
    const char *at = output;
    bool ok = output_open(&main_file, output, &fault);
    if (ok && header) {
        ok = output_open(&header_file, header, &fault);
        if (ok) {
            header_write(header_file.stream, program->module, symbol);
        } else {
            output_abandon(&main_file);
            at = header;
        }
    }
    if (ok && o->kind == EMIT_HLO) {
        struct print_options print = print_options_full();
        module_print(main_file.stream, program->module, &print);
    } else if (ok) {
        fwrite(code->data, 1, code->size, main_file.stream);
        if (o->kind == EMIT_SHARED || o->kind == EMIT_EXE) output_executable(&main_file);
    }
    if (ok) {
        ok = output_commit(&main_file, &fault);
        if (header && !ok) output_abandon(&header_file);
    }
    if (ok && header) {
        ok = output_commit(&header_file, &fault);
        at = header;
    }
    return ok || (fprintf(stderr, "%s: error: %s\n", at, fault.text), false);
}

static bool compile(struct program *program, const struct compile_options *o, const char *output,
                    const char *symbol, const char *header) {
    struct fault fault = {""}; /* empty where the diagnostics say it */
    double start = clock_seconds();
    struct bytes code = {0};
    bool ok = o->kind == EMIT_HLO
                  ? target_optimise(program->module, &o->common.target, &program->diag)
                  : make_code(program, o, symbol, &code, &fault);
    program_report(program);
    if (ok && o->common.target.pipeline.stats)
        fprintf(stderr, "compile %.3f ms; %zu bytes of code\n", (clock_seconds() - start) * 1e3,
                code.size);
    if (!ok && fault.text[0]) fprintf(stderr, "%s: error: %s\n", output, fault.text);
    ok = ok && write_files(program, o, &code, output, symbol, header);
    free(code.data);
    return ok;
}

static char *default_output(const struct compile_options *o, const char *file) {
    char *stem = stem_of(strcmp(file, "-") == 0 ? "program" : file);
    char *output = text_format("%s%s", stem, kinds[o->kind].ending);
    free(stem);
    return output;
}

int cmd_compile(int argc, char **argv) {
    struct compile_options o = {.kind = EMIT_OBJ};
    common_init(&o.common);
    int code;
    while ((code = getopt_long(argc, argv, "o:O:g", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind + 1 != argc) return usage_error("compile takes one file");
    int status = common_machine(&o.common);
    if (status < 0) status = check_kind(&o);
    if (status >= 0) return status;
    bool to_stdout = o.output && strcmp(o.output, "-") == 0;
    if (to_stdout && (o.kind == EMIT_SHARED || o.kind == EMIT_EXE)) {
        return usage_error("--emit=%s needs a file to write to", kinds[o.kind].name);
    }
    if (o.common.target.triple && (o.kind == EMIT_SHARED || o.kind == EMIT_EXE)) {
        return usage_error("--emit=%s is linked for this machine: without --triple",
                           kinds[o.kind].name);
    }
    const char *file = argv[optind];
    char *output = o.output ? text_format("%s", o.output) : default_output(&o, file);
    char *symbol = o.symbol ? text_format("%s", o.symbol) : symbol_for(to_stdout ? file : output);
    char *header = o.header ? text_format("%s", o.header) : NULL;
    if (!header && !to_stdout && output_is_file(output) &&
        (o.kind == EMIT_OBJ || o.kind == EMIT_SHARED)) {
        header = with_ending(output, ".h");
    }
    struct program program;
    bool ok = program_load(&program, file) && program_fill_elided(&program, o.common.elided) &&
              compile(&program, &o, output, symbol, header);
    program_free(&program);
    free(output);
    free(symbol);
    free(header);
    return ok ? EXIT_DONE : EXIT_INPUT;
}
