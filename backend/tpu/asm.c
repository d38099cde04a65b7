/* The assembler's directives, and the program as a whole. */
#include "backend/tpu/asm.h"

#include <stdlib.h>
#include <string.h>

#include "backend/tpu/asm_internal.h"

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next character of a string, escapes undone; -1 where there is none. */
static int string_char(struct assembler *as) {
    if (as->at >= as->end || *as->at == '"' || *as->at == '\n') return -1;
    char c = *as->at++;
    if (c != '\\' || as->at >= as->end) return (unsigned char)c;
    if (*as->at != 'x') return (unsigned char)*as->at++;
    if (as->end - as->at < 3 || digit(as->at[1]) < 0 || digit(as->at[2]) < 0) return -1;
    c = (char)(digit(as->at[1]) * 16 + digit(as->at[2]));
    as->at += 3;
    return (unsigned char)c;
}

static bool read_string(struct assembler *as, const char **text) {
    if (!asm_expect(as, '"')) return false;
    const char *start = as->at;
    size_t length = 0;
    while (string_char(as) >= 0)
        length++;
    char *copy = arena_alloc(as->arena, length + 1);
    as->at = start;
    for (size_t i = 0; i < length; i++) {
        copy[i] = (char)string_char(as);
        if (!copy[i]) return asm_error(as, "a string holds no NUL");
    }
    *text = copy;
    return asm_expect(as, '"');
}

static bool read_u64(struct assembler *as, uint64_t *value) {
    int64_t number;
    if (!asm_integer(as, 0, INT64_MAX, &number)) return false;
    *value = (uint64_t)number;
    return true;
}

static bool read_u32(struct assembler *as, uint32_t *value) {
    int64_t number;
    if (!asm_integer(as, 0, UINT32_MAX, &number)) return false;
    *value = (uint32_t)number;
    return true;
}

/* Room for one more at the end of a list whose length the program holds as uint32_t. */
static void *grow(struct assembler *as, void *array, uint32_t count, size_t size) {
    /* Lists double: the capacity is the next power of two. */
    if (count & (count - 1)) return array;
    void *grown = arena_array(as->arena, count ? 2 * (size_t)count : 1, size);
    if (count) memcpy(grown, array, count * size);
    return grown;
}

/* ---- directives ---- */

static bool read_chip(struct assembler *as) {
    struct tpu_program *p = as->program;
    const char *start, *end;
    char why[200];
    asm_blanks(as);
    start = as->at;
    end = memchr(start, '\n', (size_t)(as->end - start));
    if (!end) end = as->end;
    bool ok;
    if (*start == '{') {
        ok = tpu_chip_parse(&p->chip, start, (size_t)(end - start), why, sizeof why);
        if (ok) as->at = end;
    } else {
        const char *name = asm_word(as), *text = name ? tpu_chip_text(name) : NULL;
        if (!text) return asm_error(as, "no built-in chip of that name");
        ok = tpu_chip_parse(&p->chip, text, strlen(text), why, sizeof why);
    }
    return ok || asm_error(as, "the chip: %s", why);
}

static bool read_smem(struct assembler *as) {
    struct tpu_program *p = as->program;
    uint32_t first, word;
    if (!read_u32(as, &first)) return false;
    if (first != p->smem_words) {
        return asm_error(as, "SMEM words come in order: %u is next", p->smem_words);
    }
    for (;;) {
        asm_blanks(as);
        if (as->at >= as->end || *as->at == '\n' || *as->at == ';') return true;
        if (!asm_number(as, &word)) return false;
        p->smem = grow(as, p->smem, p->smem_words, sizeof *p->smem);
        p->smem[p->smem_words++] = word;
    }
}

static bool read_constant(struct assembler *as) {
    struct tpu_program *p = as->program;
    struct tpu_constant c = {0};
    if (!read_u64(as, &c.address) || !read_u64(as, &c.size)) return false;
    if (c.size > ASM_MOST_GROWTH * (uint64_t)(as->end - as->at)) {
        return asm_error(as, "more bytes than the text has");
    }
    c.data = arena_alloc(as->arena, c.size + 1);
    p->constant = grow(as, p->constant, p->constants, sizeof c);
    p->constant[p->constants++] = c;
    as->data_at = 0;
    return true;
}

static bool read_zero(struct assembler *as) {
    struct tpu_program *p = as->program;
    int64_t count;
    if (!p->constants) return asm_error(as, ".zero without .constant");
    if (!asm_integer(as, 0, ASM_MOST_ZEROS, &count)) return false;
    if (p->constant[p->constants - 1].size - as->data_at < (uint64_t)count) {
        return asm_error(as, "more .data than the .constant has");
    }
    as->data_at += (uint64_t)count; /* the memory is zero already */
    return true;
}

static bool read_data(struct assembler *as) {
    struct tpu_program *p = as->program;
    if (!p->constants) return asm_error(as, ".data without .constant");
    struct tpu_constant *c = &p->constant[p->constants - 1];
    asm_blanks(as);
    while (as->end - as->at >= 2 && digit(as->at[0]) >= 0 && digit(as->at[1]) >= 0) {
        if (as->data_at == c->size) return asm_error(as, "more .data than the .constant has");
        ((uint8_t *)c->data)[as->data_at++] = (uint8_t)(digit(as->at[0]) * 16 + digit(as->at[1]));
        as->at += 2;
    }
    return true;
}

static bool expect_word(struct assembler *as, const char *word) {
    const char *found = asm_word(as);
    return (found && strcmp(found, word) == 0) || asm_error(as, "'%s' expected", word);
}

static bool at_digit(struct assembler *as) {
    asm_blanks(as);
    return as->at < as->end && *as->at >= '0' && *as->at <= '9';
}

static bool read_tiles(struct assembler *as, struct tpu_array *a) {
    while (asm_accept(as, '(')) {
        if (a->ntiles == TPU_MAX_TILES) return asm_error(as, "more than %d tiles", TPU_MAX_TILES);
        struct tpu_tile *tile = &a->tiles[a->ntiles++];
        do {
            if (tile->rank == TPU_MAX_TILE_RANK) return asm_error(as, "a tile of too many sizes");
            if (!asm_integer(as, 1, 1 << 20, &tile->dims[tile->rank++])) return false;
        } while (asm_accept(as, ','));
        if (!asm_expect(as, ')')) return false;
    }
    return true;
}

static bool read_array(struct assembler *as, struct tpu_array *a) {
    const char *type;
    int64_t numbers[4];
    int order = 0;
    memset(a, 0, sizeof *a);
    if (!read_string(as, &type)) return false;
    if (strlen(type) >= sizeof a->type) return asm_error(as, "a type's name is too long");
    strcpy(a->type, type);
    for (int i = 0; i < 4; i++) {
        if (!asm_integer(as, 0, 64, &numbers[i])) return false;
    }
    a->host_bytes = (int32_t)numbers[0];
    a->bits = (int32_t)numbers[1];
    a->planes = (int32_t)numbers[2];
    a->is_signed = (int32_t)numbers[3];
    if (!expect_word(as, "dims")) return false;
    if (at_digit(as)) {
        do {
            if (a->rank == TPU_MAX_RANK) return asm_error(as, "more than %d dimensions", a->rank);
            if (!asm_integer(as, 0, INT64_C(1) << 40, &a->dims[a->rank++])) return false;
        } while (asm_accept(as, ','));
    }
    if (!expect_word(as, "order")) return false;
    if (at_digit(as)) {
        do {
            int64_t dim;
            if (order == a->rank) return asm_error(as, "more numbers than dimensions");
            if (!asm_integer(as, 0, a->rank - 1, &dim)) return false;
            a->minor_to_major[order++] = (int32_t)dim;
        } while (asm_accept(as, ','));
    }
    if (order != a->rank) return asm_error(as, "fewer numbers than dimensions");
    if (!expect_word(as, "tiles") || !read_tiles(as, a) || !expect_word(as, "at") ||
        !read_u64(as, &a->address)) {
        return false;
    }
    int64_t bytes = tpu_array_plane_bytes(a);
    a->plane_bytes = (uint64_t)bytes;
    return bytes >= 0 || asm_error(as, "the layout is malformed");
}

static bool read_param(struct assembler *as) {
    struct tpu_program *p = as->program;
    p->param = grow(as, p->param, p->params, sizeof *p->param);
    return read_array(as, &p->param[p->params++]);
}

static bool read_result(struct assembler *as) {
    struct tpu_program *p = as->program;
    p->result = grow(as, p->result, p->results, sizeof *p->result);
    return read_array(as, &p->result[p->results++]);
}

static bool read_buffer(struct assembler *as) {
    static const char *const spaces[TPU_SPACES] = {"hbm", "vmem", "smem"};
    struct tpu_program *p = as->program;
    struct tpu_buffer b = {.space = TPU_SPACES};
    if (!read_string(as, &b.name)) return false;
    const char *word = asm_word(as);
    for (uint32_t i = 0; i < TPU_SPACES && word; i++) {
        if (strcmp(spaces[i], word) == 0) b.space = i;
    }
    if (b.space == TPU_SPACES) return asm_error(as, "hbm, vmem or smem expected");
    if (!read_u64(as, &b.address) || !read_u64(as, &b.size)) return false;
    p->buffer = grow(as, p->buffer, p->buffers, sizeof b);
    p->buffer[p->buffers++] = b;
    return true;
}

static bool read_source(struct assembler *as) {
    struct tpu_program *p = as->program;
    struct tpu_source s = {0};
    if (!read_string(as, &s.name) || !read_string(as, &s.op_name) || !read_string(as, &s.file) ||
        !read_u32(as, &s.line)) {
        return false;
    }
    p->source = grow(as, p->source, p->sources, sizeof s);
    p->source[p->sources++] = s;
    return true;
}

static bool read_line(struct assembler *as) {
    struct tpu_program *p = as->program;
    struct tpu_line line = {.bundle = p->bundles};
    if (!read_u32(as, &line.source)) return false;
    p->line = grow(as, p->line, p->lines, sizeof line);
    p->line[p->lines++] = line;
    return true;
}

static bool read_code(struct assembler *as) {
    (void)as; /* bundles are known by their braces: the word is for the reader */
    return true;
}

static bool read_cores(struct assembler *as) {
    return read_u32(as, &as->program->cores);
}
static bool read_hbm(struct assembler *as) {
    return read_u64(as, &as->program->hbm_bytes);
}
static bool read_vmem(struct assembler *as) {
    return read_u64(as, &as->program->vmem_bytes);
}

static bool read_directive(struct assembler *as, const char *word) {
    static const struct {
        const char *word;
        bool (*read)(struct assembler *as);
    } directives[] = {
        {".chip", read_chip},     {".cores", read_cores},   {".hbm", read_hbm},
        {".vmem", read_vmem},     {".smem", read_smem},     {".constant", read_constant},
        {".data", read_data},     {".zero", read_zero},     {".param", read_param},
        {".result", read_result}, {".buffer", read_buffer}, {".source", read_source},
        {".line", read_line},     {".code", read_code},
    };
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++) {
        if (strcmp(directives[i].word, word) == 0) return directives[i].read(as);
    }
    return asm_error(as, "no directive of this name");
}

/* ---- statements ---- */

static void add_label(struct assembler *as, const char *name) {
    as->label =
        arena_grow(as->arena, as->label, &as->label_capacity, as->labels + 1, sizeof *as->label);
    as->label[as->labels++] = (struct asm_label){name, as->program->bundles};
}

static bool read_statement(struct assembler *as) {
    struct tpu_program *p = as->program;
    if (asm_peek(as, '{')) {
        p->code = grow(as, p->code, p->bundles, sizeof *p->code);
        if (!asm_bundle(as, &p->code[p->bundles], p->bundles)) return false;
        p->bundles++;
        return true;
    }
    const char *word = asm_word(as);
    if (!word) return asm_error(as, "a directive, a label or a bundle expected");
    if (*word == '.') return read_directive(as, word);
    if (!asm_expect(as, ':')) return false;
    add_label(as, word);
    return true;
}

/* To the next line; what is left of this one may be a comment only. */
static void finish_line(struct assembler *as, bool ok) {
    asm_blanks(as);
    if (ok && as->at < as->end && *as->at != '\n' && *as->at != ';') {
        asm_error(as, "the statement ends before this");
    }
    const char *end = memchr(as->at, '\n', (size_t)(as->end - as->at));
    as->at = end ? end + 1 : as->end;
    as->line_start = as->at;
    as->line++;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct asm_label *)a)->name, ((const struct asm_label *)b)->name);
}

static void resolve_labels(struct assembler *as) {
    if (as->labels) qsort(as->label, (size_t)as->labels, sizeof *as->label, by_name);
    for (int i = 1; i < as->labels; i++) {
        if (by_name(&as->label[i - 1], &as->label[i]) != 0) continue;
        asm_error(as, "there are two labels '%s'", as->label[i].name);
    }
    for (int i = 0; i < as->fixups; i++) {
        const struct asm_fixup *fixup = &as->fixup[i];
        struct asm_label key = {fixup->name, 0}, *label = NULL;
        if (as->labels) {
            label = bsearch(&key, as->label, (size_t)as->labels, sizeof key, by_name);
        }
        if (!label) {
            diag_error(as->diag, fixup->loc, "no label '%s'", fixup->name);
            as->failed = true;
        } else if (fixup->bundle < as->program->bundles) {
            asm_set_target(as, &as->program->code[fixup->bundle], label->bundle);
        }
    }
}

struct tpu_program *tpu_assemble(struct arena *arena, const char *text, size_t size,
                                 struct diag *diag) {
    struct tpu_error error;
    struct assembler as = {
        .arena = arena,
        .diag = diag,
        .at = text,
        .end = text + size,
        .line_start = text,
        .line = 1,
        .program = arena_alloc(arena, sizeof(struct tpu_program)),
    };
    as.program->cores = 1;
    while (as.at < as.end && diag->errors < DIAG_MAX_ERRORS) {
        asm_blanks(&as);
        bool blank = as.at >= as.end || *as.at == '\n' || *as.at == ';';
        finish_line(&as, blank || read_statement(&as));
    }
    resolve_labels(&as);
    if (as.failed) return NULL;
    if (tpu_program_check(as.program, &error) == 0) return as.program;
    diag_error(diag, (struct src_loc){0}, "%s", error.text);
    return NULL;
}
