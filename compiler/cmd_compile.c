#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/cli.h"
#include "compiler/header.h"
#include "ir/print.h"

static const char usage[] =
    "usage: hlocc compile FILE [-o OUT] [OPTIONS]\n"
    "  -o OUT                   where to (FILE with the kind's ending; - is standard output)\n"
    "  --emit=KIND              hlo, llvm-ir, llvm-bc, asm, obj (default), shared, exe\n"
    "  --symbol=NAME            C name of the function (from OUT's name)\n"
    "  --header=FILE            the C header (beside OUT for obj and shared)\n"
    "  --target=cpu  --mcpu=native|NAME  -O0..-O3\n"
    "  --elided-constants=error|zero|random    what to put where the text says {...}\n"
    "  --passes=A,B,C  --disable-pass=A  --dump-dir=DIR  --print-after=PASS|all\n"
    "  --print-before=PASS|all  --verify\n";

enum { OPT_EMIT = OPT_OWN, OPT_SYMBOL, OPT_HEADER };

static const struct option options[] = {COMMON_TARGET_OPTIONS,
                                        COMMON_PASS_OPTIONS,
                                        COMMON_ELIDED_OPTION,
                                        COMMON_HELP_OPTION,
                                        {"emit", required_argument, NULL, OPT_EMIT},
                                        {"symbol", required_argument, NULL, OPT_SYMBOL},
                                        {"header", required_argument, NULL, OPT_HEADER},
                                        {0}};

static const struct {
    const char *name, *ending;
} kinds[] = {
    [EMIT_HLO] = {"hlo", ".opt.hlo"},
    [EMIT_LLVM_IR] = {"llvm-ir", ".ll"},
    [EMIT_LLVM_BC] = {"llvm-bc", ".bc"},
    [EMIT_ASM] = {"asm", ".s"},
    [EMIT_OBJ] = {"obj", ".o"},
    [EMIT_SHARED] = {"shared", ".so"},
    [EMIT_EXE] = {"exe", ""},
};

struct compile_options {
    struct common_options common;
    enum emit_kind kind;
    const char *output, *symbol, *header;
};

static int set_kind(struct compile_options *o) {
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        if (strcmp(optarg, kinds[i].name) != 0) continue;
        o->kind = (enum emit_kind)i;
        return -1;
    }
    return usage_error("--emit is hlo, llvm-ir, llvm-bc, asm, obj, shared or exe, not '%s'",
                       optarg);
}

static bool is_c_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '_') return false;
    }
    return true;
}

static int read_option(struct compile_options *o, int code) {
    switch (code) {
    case 'o': o->output = optarg; return -1;
    case OPT_EMIT: return set_kind(o);
    case OPT_HEADER: o->header = optarg; return -1;
    case OPT_SYMBOL:
        o->symbol = optarg;
        return is_c_name(optarg) ? -1 : usage_error("--symbol: '%s' is no C name", optarg);
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
    char *symbol = text_format("%s%s", isdigit((unsigned char)*stem) || !*stem ? "_" : "", stem);
    free(stem);
    return symbol;
}

/* The path with the ending of its last part replaced; malloc memory. */
static char *with_ending(const char *path, const char *ending) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t length = dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    return text_format("%.*s%s", (int)length, path, ending);
}

/* ---- linking ---- */

/* libhlocc_rt.a beside this program, or in ../lib of where it is installed; malloc memory. */
static char *runtime_library(void) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return text_format("libhlocc_rt.a");
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    char *beside = text_format("%s/libhlocc_rt.a", self);
    if (access(beside, R_OK) == 0) return beside;
    free(beside);
    return text_format("%s/../lib/libhlocc_rt.a", self);
}

static bool run_cc(char *const *arguments, struct fault *fault) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return fault_set(fault, "no process for the linker: %s", strerror(errno));
    if (pid == 0) {
        execvp(arguments[0], arguments);
        fprintf(stderr, "hlocc: %s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 || fault_set(fault, "the linker (cc) failed");
}

static bool write_driver(const struct hlo_module *module, const char *directory, const char *symbol,
                         struct fault *fault) {
    char *header = text_format("%s/program.h", directory);
    char *driver = text_format("%s/main.c", directory);
    struct output output;
    bool ok = output_open(&output, header, fault);
    if (ok) {
        header_write(output.stream, module, symbol);
        ok = output_commit(&output, fault) && output_open(&output, driver, fault);
    }
    if (ok) {
        driver_write(output.stream, module, symbol, "program.h");
        ok = output_commit(&output, fault);
    }
    free(header);
    free(driver);
    return ok;
}

static void remove_directory(const char *directory) {
    static const char *const names[] = {"program.o", "program.h", "main.c"};
    for (int i = 0; i < 3; i++) {
        char *path = text_format("%s/%s", directory, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(directory);
}

/* Links the object (and a driver, for executables) by cc; OUT appears whole or not at all. */
static bool link_object(const struct hlo_module *module, const struct compile_options *o,
                        const struct bytes *object, const char *output, const char *symbol,
                        struct fault *fault) {
    char *directory = text_format("%s/hlocc.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(directory)) {
        fault_set(fault, "%s cannot be made: %s", directory, strerror(errno));
        free(directory);
        return false;
    }
    char *path = text_format("%s/program.o", directory);
    char *driver = text_format("%s/main.c", directory);
    char *made = text_format("%s.%ld.tmp", output, (long)getpid());
    char *runtime = runtime_library();
    bool shared = o->kind == EMIT_SHARED;
    bool ok = file_write(path, object->data, object->size, fault) &&
              (shared || write_driver(module, directory, symbol, fault));
    if (ok) {
        char *arguments[] = {
            "cc",        shared ? "-shared" : "-O1", "-o", made, path, runtime, "-lm",
            "-lpthread", shared ? NULL : driver,     NULL};
        if (!shared) { /* what is used must stand before what provides it */
            arguments[4] = driver;
            arguments[5] = path;
            arguments[6] = runtime;
            arguments[7] = "-lm";
            arguments[8] = "-lpthread";
        }
        ok = run_cc(arguments, fault);
    }
    if (ok && rename(made, output) != 0) {
        ok = fault_set(fault, "cannot be written: %s", strerror(errno));
    }
    if (!ok) unlink(made);
    remove_directory(directory);
    free(path);
    free(driver);
    free(made);
    free(runtime);
    free(directory);
    return ok;
}

/* ---- compiling ---- */

static bool write_hlo(const struct hlo_module *module, const char *path, struct fault *fault) {
    struct output output;
    if (!output_open(&output, path, fault)) return false;
    struct print_options print = print_options_full();
    module_print(output.stream, module, &print);
    return output_commit(&output, fault);
}

static bool write_header(const struct hlo_module *module, const char *path, const char *symbol,
                         struct fault *fault) {
    struct output output;
    if (!output_open(&output, path, fault)) return false;
    header_write(output.stream, module, symbol);
    return output_commit(&output, fault);
}

static bool write_code(struct program *program, const struct compile_options *o, const char *output,
                       const char *symbol, struct fault *fault) {
    struct bytes bytes = {0};
    bool linked = o->kind == EMIT_SHARED || o->kind == EMIT_EXE;
    fault->text[0] = 0; /* the diagnostics say it */
    if (!target_emit(program->module, &o->common.target, linked ? EMIT_OBJ : o->kind, symbol,
                     &bytes, &program->diag)) {
        return false;
    }
    bool ok = linked ? link_object(program->module, o, &bytes, output, symbol, fault)
                     : file_write(output, bytes.data, bytes.size, fault);
    free(bytes.data);
    return ok;
}

static bool compile(struct program *program, const struct compile_options *o, const char *output,
                    const char *symbol, const char *header) {
    bool ok = target_optimise(program->module, &o->common.target, &program->diag);
    struct fault fault = {""};
    const char *at = output;
    if (ok && o->kind == EMIT_HLO) {
        ok = write_hlo(program->module, output, &fault);
    } else if (ok) {
        ok = write_code(program, o, output, symbol, &fault);
        if (ok && header) {
            at = header;
            ok = write_header(program->module, header, symbol, &fault);
        }
    }
    program_report(program);
    if (!ok && fault.text[0]) fprintf(stderr, "%s: error: %s\n", at, fault.text);
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
    while ((code = getopt_long(argc, argv, "o:O:", options, NULL)) >= 0) {
        int status = read_option(&o, code);
        if (status >= 0) return status;
    }
    if (optind + 1 != argc) return usage_error("compile takes one file");
    if (o.common.target.kind != TARGET_CPU) return usage_error("compile makes code for cpu");
    bool to_stdout = o.output && strcmp(o.output, "-") == 0;
    if (to_stdout && (o.kind == EMIT_SHARED || o.kind == EMIT_EXE)) {
        return usage_error("--emit=%s needs a file to write to", kinds[o.kind].name);
    }
    const char *file = argv[optind];
    char *output = o.output ? text_format("%s", o.output) : default_output(&o, file);
    char *symbol = o.symbol ? text_format("%s", o.symbol) : symbol_for(to_stdout ? file : output);
    char *header = o.header ? text_format("%s", o.header) : NULL;
    if (!header && !to_stdout && (o.kind == EMIT_OBJ || o.kind == EMIT_SHARED)) {
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
