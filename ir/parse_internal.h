/* What the scanner, the grammar and the readers of attribute values share. */
#ifndef IR_PARSE_INTERNAL_H
#define IR_PARSE_INTERNAL_H

#include "ir/hlo.h"
#include "ir/name_table.h"

/* Bytes begin..end of the source, which is shorter than 2 GiB. */
struct span {
    uint32_t begin, end;
};

/* The words that called computations stand under. */
enum call_role {
    ROLE_NONE,
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

/* A shape and the name behind it: `f32[2] add`, of an operation or an operand. */
struct typed_name {
    const struct shape *shape; /* NULL after an error */
    struct span name;
};

struct instr_head {
    struct span name;
    bool is_root;
};

/* Found by its name once the instruction is whole, unless written in place. */
struct operand {
    struct hlo_instr *instr; /* written in place; NULL: to be found */
    struct span where;
    const struct shape *shape; /* as written before the name, or NULL */
};

/* An instruction whose parts are still coming in. */
struct pending {
    struct pending *next_free;
    struct span name, opcode;
    bool has_name, is_root;
    const struct shape *shape;
    const struct hlo_metadata *metadata;
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
enum call_role parse_role(const char *word, size_t length); /* ROLE_NONE: no such word */

/* Of a computation that is being read. */
struct name_scope {
    struct name_scope *outer; /* of the computation that holds this one in place */
    struct hlo_computation *computation;
    bool named;
    const struct shape *result; /* of its signature, or NULL */
    struct span result_where;
    struct name_table instrs;
};

struct kept_text {
    const char *text;
    size_t length;
};

struct kept_shape {
    struct span text;
    const struct shape *shape;
};

struct parse_context {
    struct diag *diag;
    const char *source;
    size_t size;
    size_t offset; /* of the next byte to scan */
    size_t input;  /* of the next byte to hand to the scanner's buffer */
    int start;     /* first token: what kind of text this is; 0 once it was given */
    bool single;   /* the whole text is one instruction */
    bool resync;   /* after a syntax error: skip to the next statement */
    int depth;     /* of inline computations and nested operands */
    bool bad;
    struct hlo_module *module;
    struct hlo_computation *computation; /* being filled */
    struct hlo_computation *entry;       /* marked ENTRY */
    struct name_scope *scope;
    struct name_table computations;
    struct pending *free_pending;
    /* What the text gives no name gets one when all names are known. */
    struct hlo_instr **unnamed_instrs;
    struct hlo_computation **unnamed_computations;
    int nunnamed_instrs, nunnamed_computations, instr_capacity, computation_capacity;
    /* The line that was asked for last: its number and its bytes. */
    uint32_t line;
    struct span line_bytes;
    bool has_cr;
    /* Texts and shapes that were read lately, by hash: most occur again soon. */
    struct kept_text texts[256];
    struct kept_shape shapes[256];
};

enum { PARSE_MAX_DEPTH = 200 };

/* Costs as many steps as there are bytes between this place and the one asked for before. */
struct src_loc parse_loc(struct parse_context *context, size_t offset);
void parse_error(struct parse_context *context, struct span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Length of the attribute value at p: up to a comma, a blank or an unmatched bracket; brackets and
 * strings hold together. *open: a bracket or string did not end. */
size_t parse_value_length(const char *p, const char *end, bool *open);

/* Offset behind the group that opens with '(' at `at`; false, and the end, where it stays open. */
bool parse_group_end(const struct parse_context *context, size_t at, size_t *group_end);
enum {
    BYTE_KEY = 1,  /* of an attribute's name */
    BYTE_WORD = 2, /* of a word: . too */
    BYTE_MARK = 4, /* may say where an attribute's value ends */
    BYTE_SKIP = 8, /* a blank, or where a comment may begin */
};
extern const uint8_t parse_byte_class[256];

static inline bool parse_has_class(char c, uint8_t class) {
    return parse_byte_class[(unsigned char)c] & class;
}

/* Behind blanks and comments at p; a comment that does not end is no blank. */
const char *parse_behind_blanks(const char *p, const char *end);

static inline const char *parse_skip_blanks(const char *p, const char *end) {
    return p < end && parse_has_class(*p, BYTE_SKIP) ? parse_behind_blanks(p, end) : p;
}

/* The text in arena memory, shared with others that are equal. */
const char *parse_keep_text(struct parse_context *context, const char *text, size_t length);

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

/* Over blanks and comments. */
static inline void reader_skip(struct reader *reader) {
    reader->p = parse_skip_blanks(reader->p, reader->end);
}

static inline bool reader_peek(struct reader *reader, char c) {
    reader_skip(reader);
    return !reader->failed && reader->p < reader->end && *reader->p == c;
}

static inline bool reader_eat(struct reader *reader, char c) {
    if (!reader_peek(reader, c)) return false;
    reader->p++;
    return true;
}

bool reader_eat_text(struct reader *reader, const char *text);
bool reader_expect(struct reader *reader, char c);
bool reader_done(struct reader *reader);
int64_t reader_int(struct reader *reader);
/* A word of letters, digits, _ . -; empty where there is none. Not NUL-terminated. */
const char *reader_word(struct reader *reader, size_t *length);
const char *reader_string(struct reader *reader);   /* quoted, unescaped; arena */
struct int_list reader_ints(struct reader *reader); /* {1,2} */
struct int_lists reader_int_lists(struct reader *reader);

/* The value that opens with '{' at `at`; *end: behind it. NULL after an error. */
const struct hlo_metadata *parse_metadata(struct parse_context *context, size_t at, size_t *end);
/* Reads the value by the key's kind into the instruction (control edges too). */
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
/* The result that the signature gives. */
void parse_set_result(struct parse_context *context, const struct shape *shape, struct span where);
/* With the attributes behind it, or NULL. */
void parse_end_computation(struct parse_context *context, struct pending *attrs);
/* An empty one that the text gives no name but this kind of name. */
struct hlo_computation *parse_new_computation(struct parse_context *context, const char *base);
/* Puts one that the current computation calls before whatever stands at the top. */
void parse_place_callee(struct parse_context *context, struct hlo_computation *computation);
void parse_leave_unnamed(struct parse_context *context, struct hlo_instr *instr);
struct hlo_computation *parse_find_computation(struct parse_context *context, struct span name);
/* Makes the instruction known under its name, and the root where marked so. */
void parse_bind(struct parse_context *context, struct hlo_instr *instr,
                const struct pending *pending);
/* The opcode of the word; of `sine-start` and the like ASYNC_START, and *wrapped is the sine's. */
enum hlo_opcode parse_opcode(const char *text, size_t length, enum hlo_opcode *wrapped);
/* The instruction that attributes and calls belong to: the one that `instr` starts (made here where
 * `wrapped` is an opcode), or `instr` itself. */
struct hlo_instr *parse_wrapped(struct parse_context *context, struct hlo_instr *instr,
                                enum hlo_opcode wrapped, struct span where);
/* An update or done runs on the thread of its start. */
void parse_check_thread(struct parse_context *context, const struct hlo_instr *instr);
struct pending *parse_new_pending(struct parse_context *context, struct span opcode);
void parse_free_pending(struct parse_context *context, struct pending *pending);
/* The operands from `at`, behind the '(', to behind the ')', where all are names, as in most lists,
 * or a parameter's number. NULL where some are written in place: then the grammar reads them. */
struct pending *parse_flat_operands(struct parse_context *context, size_t at, size_t *end);
/* Makes the instruction, and hands the parts back for the next one. */
struct hlo_instr *parse_finish_instr(struct parse_context *context, struct pending *pending);
void parse_add_operand(struct parse_context *context, struct pending *pending,
                       struct operand operand);
void parse_add_attr(struct parse_context *context, struct pending *pending, struct raw_attr attr);
void parse_add_call(struct parse_context *context, struct pending *pending, struct raw_call call);
void parse_set_shape(struct parse_context *context, struct pending *pending,
                     const struct shape *shape, struct span where);
void parse_start_module(struct parse_context *context, struct span name);
void parse_stack_line(struct parse_context *context, struct span text);

#endif
