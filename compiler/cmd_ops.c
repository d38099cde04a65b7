#include "compiler/cli.h"
#include "ir/eval.h"

static const char usage_ops[] =
    "usage: hlocc ops [--markdown]\n"
    "Lists every operation with its number of operands, its attributes and where it runs.\n"
    "  --markdown    as a table for documents\n";

static void print_attrs(const struct opcode_info *info) {
    const char *separator = "";
    for (const struct opcode_attr *a = info->attrs; a && a->key != ATTR_NONE; a++) {
        printf("%s%s%s", separator, attr_name(a->key), a->required ? "" : "?");
        separator = " ";
    }
}

static void print_arity(char *text, size_t size, const struct opcode_info *info) {
    if (info->most_operands < 0) {
        snprintf(text, size, "%d+", info->least_operands);
    } else if (info->most_operands == info->least_operands) {
        snprintf(text, size, "%d", info->least_operands);
    } else {
        snprintf(text, size, "%d-%d", info->least_operands, info->most_operands);
    }
}

static void print_row(enum hlo_opcode opcode, bool markdown) {
    const struct opcode_info *info = opcode_info(opcode);
    char arity[16];
    print_arity(arity, sizeof arity, info);
    const char *interp = opcode_has_evaluation(opcode) ? "interp" : "-";
    printf(markdown ? "| %s | %s | %s | " : "%-28s %5s  %-7s ", info->name, arity, interp);
    print_attrs(info);
    printf(markdown ? " |\n" : "\n");
}

int cmd_ops(int argc, char **argv) {
    static const struct option options[] = {
        {"markdown", no_argument, NULL, 'm'}, COMMON_HELP_OPTION, {0}};
    struct common_options common;
    common_init(&common);
    bool markdown = false;
    int code;
    while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (code == 'm') {
            markdown = true;
            continue;
        }
        int status = common_option(&common, code, usage_ops);
        if (status >= 0) return status;
    }
    if (optind != argc) return usage_error("ops takes no file");
    if (markdown) printf("| operation | operands | evaluates | attributes |\n|---|---|---|---|\n");
    for (int i = OPCODE_INVALID + 1; i < OPCODE_COUNT; i++)
        print_row((enum hlo_opcode)i, markdown);
    return EXIT_DONE;
}

static const char usage_passes[] = "usage: hlocc passes\n"
                                   "Lists the passes, each with what it does.\n";

int cmd_passes(int argc, char **argv) {
    static const struct option options[] = {COMMON_HELP_OPTION, {0}};
    struct common_options common;
    common_init(&common);
    int code;
    while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        int status = common_option(&common, code, usage_passes);
        if (status >= 0) return status;
    }
    if (optind != argc) return usage_error("passes takes no file");
    for (int i = 0; i < PASS_COUNT; i++) {
        const struct pass_info *info = pass_info((enum pass_id)i);
        printf("%-24s %s\n", info->name, info->text);
    }
    return EXIT_DONE;
}
