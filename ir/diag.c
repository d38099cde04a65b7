/* Diagnostics: gathered as values, rendered with the source line and a caret. */
#include "ir/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo.h"

void diag_init(struct diag *diag, const char *file, const char *source, size_t source_size) {
    *diag = (struct diag){.file = file, .source = source, .source_size = source_size};
}

void diag_clear(struct diag *diag) {
    for (int i = 0; i < diag->count; i++)
        free(diag->messages[i].text);
    free(diag->messages);
    diag_init(diag, diag->file, diag->source, diag->source_size);
}

/* Newlines would break the one-line form that tools read. */
static void join_lines(char *text) {
    for (; *text; text++)
        if (*text == '\n' || *text == '\r') *text = ' ';
}

/* Takes over `text`. Where memory is short the message is lost and its count is kept. */
static void append(struct diag *diag, enum diag_severity severity, struct src_loc loc, char *text) {
    if (!text) return;
    if (diag->count == diag->capacity) {
        int capacity = diag->capacity ? 2 * diag->capacity : 8;
        struct diag_message *grown =
            realloc(diag->messages, (size_t)capacity * sizeof *diag->messages);
        if (!grown) {
            free(text);
            return;
        }
        diag->messages = grown;
        diag->capacity = capacity;
    }
    join_lines(text);
    diag->messages[diag->count++] = (struct diag_message){severity, loc, text};
}

static char *format_text(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* Whether a message that was just counted is kept; notes follow the message before them. */
static bool keeps(struct diag *diag, int number, int most) {
    diag->dropping = number > most;
    return !diag->dropping;
}

void diag_error(struct diag *diag, struct src_loc loc, const char *format, ...) {
    diag->errors++;
    if (!keeps(diag, diag->errors, DIAG_MAX_ERRORS)) return;
    va_list args;
    va_start(args, format);
    append(diag, DIAG_ERROR, loc, format_text(format, args));
    va_end(args);
}

void diag_warning(struct diag *diag, struct src_loc loc, const char *format, ...) {
    diag->warnings++;
    if (!keeps(diag, diag->warnings, DIAG_MAX_WARNINGS)) return;
    va_list args;
    va_start(args, format);
    append(diag, DIAG_WARNING, loc, format_text(format, args));
    va_end(args);
}

void diag_note(struct diag *diag, struct src_loc loc, const char *format, ...) {
    if (diag->dropping) return;
    va_list args;
    va_start(args, format);
    append(diag, DIAG_NOTE, loc, format_text(format, args));
    va_end(args);
}

static void note_origin(struct diag *diag, const struct hlo_instr *instr) {
    const char *op_name = instr->metadata ? instr->metadata->op_name : NULL;
    const char *file = NULL;
    int64_t line = 0;
    bool known = instr_source(instr, &file, &line);
    if (op_name && *op_name && known)
        diag_note(diag, instr->loc, "from %s at %s:%lld", op_name, file, (long long)line);
    else if (known)
        diag_note(diag, instr->loc, "from %s:%lld", file, (long long)line);
    else if (op_name && *op_name)
        diag_note(diag, instr->loc, "from %s", op_name);
}

void diag_instr_error(struct diag *diag, const struct hlo_instr *instr, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    diag_error(diag, instr->loc, "%s (%s): %s", instr->name ? instr->name : "?",
               opcode_name(instr->opcode), text ? text : "out of memory");
    free(text);
    note_origin(diag, instr);
}

/* ---- rendering ---- */

enum { SHOWN_BEFORE = 60, SHOWN_AFTER = 60 };

/* Bytes of the UTF-8 sequence at `text`, or 0 where there is no well-formed one. */
static size_t utf8_length(const unsigned char *text, size_t size) {
    unsigned char lead = text[0];
    size_t length = lead < 0x80       ? 1
                    : lead >> 5 == 6  ? 2
                    : lead >> 4 == 14 ? 3
                    : lead >> 3 == 30 ? 4
                                      : 0;
    if (length == 0 || length > size || lead == 0xc0 || lead == 0xc1 || lead > 0xf4) return 0;
    for (size_t i = 1; i < length; i++)
        if (text[i] >> 6 != 2) return 0;
    /* U+0080 to U+009F are control characters of terminals too. */
    return lead == 0xc2 && text[1] < 0xa0 ? 0 : length;
}

/* Writes text with bytes that a terminal would act on as \xNN. Returns the columns it took;
 * writes nothing where `out` is NULL. */
static int put_escaped(FILE *out, const char *text, size_t size) {
    int columns = 0;
    for (size_t i = 0; i < size;) {
        unsigned char byte = (unsigned char)text[i];
        size_t length = utf8_length((const unsigned char *)text + i, size - i);
        bool printable = length > 1 || (byte >= 0x20 && byte < 0x7f);
        if (byte == '\t') {
            if (out) fputc(' ', out);
            columns++;
            i++;
        } else if (printable) {
            if (out) fwrite(text + i, 1, length, out);
            columns++;
            i += length;
        } else {
            if (out) fprintf(out, "\\x%02x", byte);
            columns += 4;
            i++;
        }
    }
    return columns;
}

/* Where the line at `at` ends; *next is where the following one starts, NULL where none does.
 * Lines end as the scanner counts them: LF, CR LF, or CR alone. */
static const char *line_end(const char *at, const char *end, const char **next) {
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    const char *stop = feed ? feed : end;
    const char *back = memchr(at, '\r', (size_t)(stop - at));
    if (back) stop = back;
    if (stop == end)
        *next = NULL;
    else
        *next = back && back + 1 < end && back[1] == '\n' ? stop + 2 : stop + 1;
    return stop;
}

/* Line `number` of the source, without its end; false where there is none. */
static bool find_line(const struct diag *diag, uint32_t number, const char **start,
                      size_t *length) {
    if (!diag->source || number == 0) return false;
    const char *at = diag->source, *end = diag->source + diag->source_size, *next;
    const char *stop = line_end(at, end, &next);
    for (uint32_t line = 1; line < number; line++) {
        if (!next) return false;
        at = next;
        stop = line_end(at, end, &next);
    }
    *start = at;
    *length = (size_t)(stop - at);
    return true;
}

/* The part of the line around the column, and a caret below it. */
static void print_excerpt(const struct diag *diag, struct src_loc loc, FILE *out, bool color) {
    const char *line;
    size_t length;
    if (loc.col == 0 || !find_line(diag, loc.line, &line, &length)) return;
    size_t at = loc.col - 1 < length ? loc.col - 1 : length;
    size_t from = at > SHOWN_BEFORE ? at - SHOWN_BEFORE : 0;
    size_t to = length - at > SHOWN_AFTER ? at + SHOWN_AFTER : length;
    /* Cuts between characters, not inside one. */
    while (from > 0 && from < at && ((unsigned char)line[from] & 0xc0) == 0x80)
        from++;
    while (to < length && to > at && ((unsigned char)line[to] & 0xc0) == 0x80)
        to--;
    const char *lead = from > 0 ? "..." : "";
    fprintf(out, "  %s", lead);
    put_escaped(out, line + from, to - from);
    fputs(to < length ? "...\n" : "\n", out);
    int column = 2 + (int)strlen(lead) + put_escaped(NULL, line + from, at - from);
    fprintf(out, "%*s%s^%s\n", column, "", color ? "\033[1;32m" : "", color ? "\033[0m" : "");
}

static void print_message(const struct diag *diag, const struct diag_message *message, FILE *out,
                          bool color) {
    static const char *const words[] = {"note", "warning", "error"};
    static const char *const colors[] = {"\033[1;36m", "\033[1;35m", "\033[1;31m"};
    const char *file = diag->file ? diag->file : "<input>";
    put_escaped(out, file, strlen(file));
    if (message->loc.line && message->loc.col)
        fprintf(out, ":%u:%u", (unsigned)message->loc.line, (unsigned)message->loc.col);
    else if (message->loc.line)
        fprintf(out, ":%u", (unsigned)message->loc.line);
    fprintf(out, ": %s%s:%s ", color ? colors[message->severity] : "", words[message->severity],
            color ? "\033[0m" : "");
    put_escaped(out, message->text, strlen(message->text));
    fputc('\n', out);
}

void diag_print(const struct diag *diag, FILE *out, bool color) {
    struct src_loc shown = {0, 0};
    for (int i = 0; i < diag->count; i++) {
        const struct diag_message *message = &diag->messages[i];
        print_message(diag, message, out, color);
        /* A note at the place that was just shown needs no second picture of it. */
        bool again = message->severity == DIAG_NOTE && message->loc.line == shown.line &&
                     message->loc.col == shown.col;
        if (!again) print_excerpt(diag, message->loc, out, color);
        shown = message->loc;
    }
    if (diag->errors > DIAG_MAX_ERRORS)
        fprintf(out, "%d more errors\n", diag->errors - DIAG_MAX_ERRORS);
    if (diag->warnings > DIAG_MAX_WARNINGS)
        fprintf(out, "%d more warnings\n", diag->warnings - DIAG_MAX_WARNINGS);
}
