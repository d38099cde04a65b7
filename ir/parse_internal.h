/* What the scanner, the grammar and the readers of attribute values share. */
#ifndef IR_PARSE_INTERNAL_H
#define IR_PARSE_INTERNAL_H

#include "ir/hlo.h"

/* Bytes begin..end of the source. */
struct span {
    size_t begin, end;
};

/* The words that called computations stand under. */
enum call_role {
    ROLE_TO_APPLY,
    ROLE_CALLS,
    ROLE_CONDITION,
    ROLE_BODY,
    ROLE_TRUE,
    ROLE_FALSE,
    ROLE_BRANCHES,
    ROLE_CALLED,
    ROLE_SELECT,
    ROLE_SCATTER,
    ROLE_COUNT
};

/* attr=value as scanned: the value is read by its key's kind once the opcode is known. */
struct raw_attr {
    struct span name, value;
};

struct raw_call {
    enum call_role role;
    struct span where;
    int count;
    struct hlo_computation **computations;
};

struct operand {
    struct hlo_instr *instr; /* NULL after an error */
    struct span where;
    const struct shape *shape; /* as written before the name, or NULL */
};

/* An instruction whose parts are still coming in. */
struct pending {
    struct span name, opcode;
    bool has_name, is_root;
    const struct shape *shape;
    int noperands, operand_capacity;
    struct operand *operands;
    bool has_number; /* parameter(0) */
    int64_t number;
    bool has_literal; /* constant(...) */
    struct span literal;
    int nattrs, attr_capacity;
    struct raw_attr *attrs;
    int ncalls, call_capacity;
    struct raw_call *calls;
};

/* The word a role stands under in the text. */
const char *parse_role_word(enum call_role role);

struct name_scope; /* names of one computation's instructions */

struct parse_context {
    struct diag *diag;
    const char *source;
    size_t size;
    size_t offset; /* of the next byte to scan */
    bool resync;   /* after a syntax error: skip to the next statement */
    int depth;     /* of inline computations and nested operands */
    struct hlo_module *module;
    struct hlo_computation *computation; /* being filled */
    struct name_scope *scope, *computations;
    size_t *lines; /* offsets of line starts */
    int nlines;
    bool bad;
    struct hlo_computation *entry; /* marked ENTRY */
};

enum { PARSE_MAX_DEPTH = 200 };

struct src_loc parse_loc(const struct parse_context *context, size_t offset);
void parse_error(struct parse_context *context, struct span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Length of the attribute value at p: up to a comma, a blank or an unmatched bracket; brackets and
 * strings hold together. *open: a bracket or string did not end. */
size_t parse_value_length(const char *p, const char *end, bool *open);

/* A shape's text, `f32[2,3]{1,0}`; tuples are the grammar's. NULL after an error. */
const struct shape *parse_array_shape(struct parse_context *context, struct span text);
/* Any shape, tuples too, at *at; moves *at behind it. */
const struct shape *parse_shape_at(struct parse_context *context, size_t *at, size_t end,
                                   int depth);

/* ---- reading inside a span ---- */

struct reader {
    struct parse_context *context;
    const char *p, *end;
    bool failed; /* an error has been reported: everything after is a no-op */
};

struct reader reader_new(struct parse_context *context, struct span span);
void reader_fail(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void reader_skip(struct reader *reader); /* blanks and comments */
bool reader_eat(struct reader *reader, char c);
bool reader_eat_text(struct reader *reader, const char *text);
bool reader_expect(struct reader *reader, char c);
bool reader_peek(struct reader *reader, char c);
bool reader_done(struct reader *reader);
int64_t reader_int(struct reader *reader);
/* A word of letters, digits, _ . -; empty where there is none. Not NUL-terminated. */
const char *reader_word(struct reader *reader, size_t *length);
char *reader_string(struct reader *reader);         /* quoted, unescaped; arena */
struct int_list reader_ints(struct reader *reader); /* {1,2} */
struct int_lists reader_int_lists(struct reader *reader);

/* Reads the value by the key's kind into the instruction (metadata and control edges too). */
void parse_attr_into(struct parse_context *context, struct hlo_instr *instr, enum attr_key key,
                     const struct raw_attr *raw);
void parse_module_attr(struct parse_context *context, const struct raw_attr *raw);
struct literal *parse_literal_span(struct parse_context *context, struct span span,
                                   const struct shape *shape);
const struct replica_groups *parse_replica_groups(struct reader *reader, struct span value);
const struct sharding *parse_sharding(struct reader *reader, int depth);
/* A name's text without its %; not NUL-terminated. */
const char *parse_bare_name(const struct parse_context *context, struct span span, size_t *length);
struct hlo_instr *parse_find_instr(struct parse_context *context, const char *name, size_t length);

/* ---- what the grammar's actions call (parse.c) ---- */

void parse_begin_computation(struct parse_context *context, struct span name, bool entry,
                             bool named);
void parse_end_computation(struct parse_context *context, const struct raw_attr *attrs, int nattrs);
struct hlo_computation *parse_find_computation(struct parse_context *context, struct span name);
/* Makes the instruction known under its name, and the root where marked so. */
void parse_bind(struct parse_context *context, struct hlo_instr *instr,
                const struct pending *pending);
struct hlo_instr *parse_finish_instr(struct parse_context *context, struct pending *pending);
void parse_add_operand(struct parse_context *context, struct pending *pending,
                       struct operand operand);
void parse_add_attr(struct parse_context *context, struct pending *pending, struct raw_attr attr);
struct operand parse_name_operand(struct parse_context *context, struct span name,
                                  const struct shape *shape);
void parse_start_module(struct parse_context *context, struct span name);
void parse_stack_line(struct parse_context *context, struct span text);

#endif
