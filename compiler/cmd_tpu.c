/* asm and disasm: TPU program files and their text. */
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/asm.h"
#include "compiler/cli.h"

static const char usage_asm[] = "usage: hlocc asm FILE [-o OUT]\n"
                                "Assembles a TPU program (- is standard input) to a program file.\n"
                                "  -o OUT    default: FILE with .tpu in place of its ending\n";
static const char usage_disasm[] =
    "usage: hlocc disasm FILE.tpu [-o OUT]\n"
    "Prints a TPU program file as text that assembles to it again.\n";

/* FILE and -o OUT; -1, or the status to leave with. */
static int read_arguments(int argc, char **argv, const char *usage, const char **out) {
    static const struct option options[] = {COMMON_HELP_OPTION, {0}};
    struct common_options common;
    int code;
    common_init(&common);
    *out = NULL;
    while ((code = getopt_long(argc, argv, "o:", options, NULL)) >= 0) {
        if (code == 'o') {
            *out = optarg;
            continue;
        }
        int status = common_option(&common, code, usage);
        if (status >= 0) return status;
    }
    if (optind + 1 != argc) return usage_error("one file, please");
    return -1;
}

static int say(const struct fault *fault) {
    fprintf(stderr, "hlocc: %s\n", fault->text);
    return EXIT_INPUT;
}

/* prog.s -> prog.tpu, beside it; standard input gives standard output. */
static char *default_output(const char *path) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    size_t length = strlen(path);
    if (strcmp(path, "-") == 0) return text_format("-");
    if (dot && dot > path && (!slash || dot > slash + 1)) length = (size_t)(dot - path);
    return text_format("%.*s.tpu", (int)length, path);
}

static int assemble(const char *path, const char *out) {
    struct bytes text;
    struct fault fault;
    struct tpu_error error;
    struct diag diag;
    if (!file_read(path, &text, &fault)) return say(&fault);
    diag_init(&diag, path, (const char *)text.data, text.size);
    struct arena *arena = arena_new();
    struct tpu_program *program = tpu_assemble(arena, (const char *)text.data, text.size, &diag);
    size_t size = 0;
    uint8_t *file = program ? tpu_program_write(program, &size, &error) : NULL;
    int status = file ? EXIT_DONE : EXIT_INPUT;
    if (program && !file) fprintf(stderr, "hlocc: %s\n", error.text);
    diag_print(&diag, stderr, false);
    if (file && !file_write(out, file, size, &fault)) status = say(&fault);
    free(file);
    arena_free(arena);
    diag_clear(&diag);
    free(text.data);
    return status;
}

int cmd_asm(int argc, char **argv) {
    const char *out;
    int status = read_arguments(argc, argv, usage_asm, &out);
    if (status >= 0) return status;
    char *name = out ? NULL : default_output(argv[optind]);
    status = assemble(argv[optind], out ? out : name);
    free(name);
    return status;
}

int cmd_disasm(int argc, char **argv) {
    const char *out;
    struct bytes file;
    struct fault fault;
    struct tpu_error error;
    struct output output;
    int status = read_arguments(argc, argv, usage_disasm, &out);
    if (status >= 0) return status;
    const char *path = argv[optind];
    if (!file_read(path, &file, &fault)) return say(&fault);
    struct tpu_program *program = tpu_program_read(file.data, file.size, &error);
    free(file.data);
    if (!program) {
        fprintf(stderr, "%s: error: %s\n", path, error.text);
        return EXIT_INPUT;
    }
    status = EXIT_DONE;
    if (output_open(&output, out, &fault)) {
        tpu_disassemble(program, output.stream);
        if (!output_commit(&output, &fault)) status = say(&fault);
    } else {
        status = say(&fault);
    }
    tpu_program_free(program);
    return status;
}
