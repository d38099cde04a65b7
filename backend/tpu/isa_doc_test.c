/* The tables of docs/tpu-isa.md are made from the instruction table and the chips' files: this test
 * makes them again and compares.  isa_doc_test --write puts them into the document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tpu/chip.h"
#include "runtime/tpu/isa.h"

static const char path[] = "docs/tpu-isa.md";

/* ---- the tables ---- */

static void fields_table(FILE *out) {
    fputs("| slot | fields, with their bits |\n|---|---|\n", out);
    const char *slot = "";
    for (int i = 0; i < tpu_field_count(); i++) {
        struct tpu_field field = tpu_field(i);
        bool next = strcmp(slot, field.slot) != 0;
        slot = field.slot;
        if (next) fprintf(out, "%s| %s | ", i ? " |\n" : "", slot);
        fprintf(out, "%s%s %d-%d", next ? "" : ", ", field.name, field.bit,
                field.bit + field.width - 1);
    }
    fputs(" |\n| reserved, 0 | 318-321 |\n", out);
}

static const char *kind_text(enum tpu_kind kind) {
    static const char *const names[] = {
        [TPU_KIND__] = "",        [TPU_KIND_WS] = "s",   [TPU_KIND_WP] = "p",
        [TPU_KIND_WV] = "v",      [TPU_KIND_WM] = "m",   [TPU_KIND_RS] = "s*",
        [TPU_KIND_RV] = "v*",     [TPU_KIND_RWS] = "s+", [TPU_KIND_S] = "s",
        [TPU_KIND_P] = "p",       [TPU_KIND_V] = "v",    [TPU_KIND_M] = "m",
        [TPU_KIND_O] = "operand", [TPU_KIND_F] = "flag", [TPU_KIND_N] = "number",
    };
    return names[kind];
}

static void instructions_table(FILE *out, enum tpu_slot_class class) {
    static const char *const masks[] = {"", "merge", "select", "and", "zero", "off"};
    static const char *const imms[] = {"", "amount", "target"};
    fputs("| code | instruction | dest | a | b | mask | imm | latency | computes |\n"
          "|---|---|---|---|---|---|---|---|---|\n",
          out);
    for (int op = 1; op < TPU_OPS; op++) {
        const struct tpu_op_info *info = tpu_op_info((enum tpu_op)op);
        if (info->slot != class) continue;
        fprintf(out, "| %d | `%s` | %s | %s | %s | %s | %s | ", info->code, info->name,
                kind_text(info->dest), kind_text(info->a), kind_text(info->b), masks[info->mask],
                imms[info->imm]);
        if (info->latency) fprintf(out, "%d", info->latency);
        fputs(" | ", out);
        for (const char *c = info->text; *c; c++)
            fprintf(out, *c == '|' ? "\\|" : *c == '*' ? "\\*" : "%c", *c);
        fputs(" |\n", out);
    }
}

static void constants_table(FILE *out) {
    fputs("| code | value |\n|---|---|\n", out);
    for (int i = 0; i < TPU_CONSTS; i++)
        fprintf(out, "| %d | 0x%08x |\n", TPU_OPERAND_CONST + i, tpu_constants[i]);
}

static void chips_table(FILE *out) {
    static const char *const names[] = {"v2", "v3", "v4", "v5e"};
    struct tpu_chip chips[4];
    char why[200];
    fputs("| field | v2 | v3 | v4 | v5e | what it is |\n|---|---|---|---|---|---|\n", out);
    for (int i = 0; i < 4; i++)
        assert_true(tpu_chip_load(&chips[i], names[i], why, sizeof why));
#define X(name, least, most, text)                                                                 \
    fprintf(out, "| `" #name "` | %lld | %lld | %lld | %lld | " text " |\n",                       \
            (long long)chips[0].name, (long long)chips[1].name, (long long)chips[2].name,          \
            (long long)chips[3].name);
#include "runtime/tpu/chip.def"
#undef X
}

static bool write_table(FILE *out, const char *name) {
    static const char *const classes[TPU_CLASSES] = {"scalar", "vector", "load", "store",
                                                     "push",   "pop",    "misc"};
    static const struct {
        const char *name;
        void (*write)(FILE *out);
    } others[] = {{"fields", fields_table}, {"constants", constants_table}, {"chips", chips_table}};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, others[i].name) == 0) return others[i].write(out), true;
    }
    for (int i = 0; i < TPU_CLASSES; i++) {
        if (strcmp(name, classes[i]) != 0) continue;
        instructions_table(out, (enum tpu_slot_class)i);
        return true;
    }
    return false;
}

/* ---- the document ---- */

static char *read_document(void) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is not there: run this from the root of the tree", path);
    char *text = NULL;
    size_t size = 0, got;
    char buffer[4096];
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0) {
        text = realloc(text, size + got + 1);
        memcpy(text + size, buffer, got);
        size += got;
    }
    fclose(file);
    assert_non_null(text);
    text[size] = 0;
    return text;
}

/* The document with every table between `<!-- table NAME -->` and `<!-- end -->` made anew. */
static char *renew(const char *document, int *tables) {
    static const char begin[] = "\n<!-- table ", end[] = "\n<!-- end -->";
    char *text = NULL, name[32];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    *tables = 0;
    for (;;) {
        const char *mark = strstr(document, begin);
        if (!mark || sscanf(mark + strlen(begin), "%31s", name) != 1) break;
        const char *table = strchr(mark + 1, '\n'), *after = strstr(mark + 1, end);
        if (!table || !after) break;
        fwrite(document, 1, (size_t)(table + 1 - document), out);
        *tables += write_table(out, name);
        document = after + 1;
    }
    fputs(document, out);
    fclose(out);
    return text;
}

static void document_has_the_tables(void **state) {
    (void)state;
    int tables;
    char *document = read_document(), *wanted = renew(document, &tables);
    assert_int_equal(tables, TPU_CLASSES + 3);
    if (strcmp(document, wanted) != 0) {
        fail_msg("%s: tables are not those of isa.def and chips/; isa_doc_test --write renews them",
                 path);
    }
    free(document);
    free(wanted);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--write") == 0) {
        int tables;
        char *document = read_document(), *wanted = renew(document, &tables);
        FILE *file = fopen(path, "wb");
        bool ok = file && fputs(wanted, file) >= 0;
        if (file) ok = fclose(file) == 0 && ok;
        free(document);
        free(wanted);
        return ok ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(document_has_the_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
