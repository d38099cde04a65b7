/* Diagnostics: collected as values below compiler/, rendered by the front end. */
#ifndef IR_DIAG_H
#define IR_DIAG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct hlo_instr;

/* A place in the source text, both counted from 1 (columns in bytes); line 0: nowhere in it. */
struct src_loc {
    uint32_t line;
    uint32_t col;
};

enum diag_severity { DIAG_NOTE, DIAG_WARNING, DIAG_ERROR };

struct diag_message {
    enum diag_severity severity;
    struct src_loc loc;
    char *text; /* one line, no trailing newline; owned by the diag */
};

enum { DIAG_MAX_ERRORS = 20, DIAG_MAX_WARNINGS = 20 };

/* Where messages about one source file gather. Not shared between threads. */
struct diag {
    const char *file;   /* name to print; not owned */
    const char *source; /* the text, for the line and caret; may be NULL; not owned */
    size_t source_size;
    struct diag_message *messages;
    int count, capacity;
    int errors;    /* all that were reported, kept or not */
    int warnings;  /* likewise */
    bool dropping; /* the last message was only counted: so are its notes */
};

void diag_init(struct diag *diag, const char *file, const char *source, size_t source_size);
void diag_clear(struct diag *diag);

/* Past DIAG_MAX_ERRORS errors are only counted. A note belongs to the message before it, and is
 * dropped with it. */
void diag_error(struct diag *diag, struct src_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(struct diag *diag, struct src_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(struct diag *diag, struct src_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error at an instruction, "NAME (OPCODE): message", followed by a note that says which op_name
 * and source_file:line it came from where its metadata knows. */
void diag_instr_error(struct diag *diag, const struct hlo_instr *instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* FILE:LINE:COL: error: text, then the source line and a caret (long lines and control bytes cut
 * and escaped); `color` for terminals. */
void diag_print(const struct diag *diag, FILE *out, bool color);

#endif
