/* The IR: instructions in computations in a module. A module owns an arena; nothing in it is freed
 * one by one. A computation's list of instructions is always in an order in which every operand
 * (and control predecessor) stands before its user: it is also the schedule. */
#ifndef IR_HLO_H
#define IR_HLO_H

#include "ir/arena.h"
#include "ir/diag.h"
#include "ir/literal.h"
#include "ir/shape.h"

/* ---- opcodes (opcode.def) ---- */

enum opcode_flags {
    OP_FLAG_ELEMENTWISE = 1 << 0, /* one result element from the operands' same elements */
    OP_FLAG_COMMUTATIVE = 1 << 1,
    OP_FLAG_SIDE_EFFECT = 1 << 2, /* never removed, merged or reordered */
    OP_FLAG_COLLECTIVE = 1 << 3,
    /* Words that called computations stand under, and their places in called[]. */
    OP_FLAG_CALLS_ONE = 1 << 4,            /* to_apply */
    OP_FLAG_CALLS_FUSION = 1 << 5,         /* calls */
    OP_FLAG_CALLS_WHILE = 1 << 6,          /* 0 condition, 1 body */
    OP_FLAG_CALLS_BRANCHES = 1 << 7,       /* branch_computations, or true_, false_computation */
    OP_FLAG_CALLS_SELECT_SCATTER = 1 << 8, /* 0 select, 1 scatter */
    OP_FLAG_CALLS_CUSTOM = 1 << 9,         /* optional to_apply or called_computations */
    OP_FLAG_CALLS_ASYNC = 1 << 10,         /* optional calls */
};

enum hlo_opcode {
    OPCODE_INVALID,
#define OP(name, text, least, most, flags, attrs) OP_##name,
#include "ir/opcode.def"
#undef OP
    OPCODE_COUNT
};

enum attr_kind {
    ATTR_KIND_INT,            /* i */
    ATTR_KIND_BOOL,           /* i: 0 or 1 */
    ATTR_KIND_FLOAT,          /* f */
    ATTR_KIND_ENUM,           /* i: value of the enum_set that belongs to (opcode, key) */
    ATTR_KIND_STRING,         /* text: unquoted, unescaped */
    ATTR_KIND_INTS,           /* ints: {1,2} or a single 1 */
    ATTR_KIND_BOOLS,          /* ints: {true,false} */
    ATTR_KIND_INT_LISTS,      /* int_lists: {{0,1},{1,2}} */
    ATTR_KIND_SLICES,         /* slices: {[0:4], [0:8:2]} */
    ATTR_KIND_PADDING,        /* padding: 0_0_0x1_-1 */
    ATTR_KIND_WINDOW,         /* window: {size=3x3 pad=1_1x1_1 ...} */
    ATTR_KIND_DIM_LABELS,     /* dim_labels: b01f_01io->b01f */
    ATTR_KIND_PRECISION,      /* ints: ENUM_PRECISION values, one an operand */
    ATTR_KIND_REPLICA_GROUPS, /* groups */
    ATTR_KIND_SHARDING,       /* sharding */
    ATTR_KIND_SHAPE,          /* shape */
    ATTR_KIND_SHAPES,         /* shapes */
    ATTR_KIND_ALIASING,       /* aliases */
    ATTR_KIND_LITERAL,        /* literal */
    ATTR_KIND_METADATA,       /* not stored as an attr: instr->metadata */
    ATTR_KIND_FRONTEND,       /* text: all inside the braces, as written */
    ATTR_KIND_CONTROL,        /* not stored as an attr: instr->control */
    ATTR_KIND_BACKEND_CONFIG, /* text as written (quotes and all); see hlo_attr.quoted */
    ATTR_KIND_RAW,            /* text as written, braces and all */
    ATTR_KIND_UNKNOWN,        /* name, text */
};

enum attr_key {
    ATTR_NONE,
#define X(name, text, kind) ATTR_##name,
#include "ir/attribute.def"
#undef X
    ATTR_COUNT
};

#define X(set, name, text) ENUM_##set##_##name,
/* All words of all sets in one numbering; stored attribute values are these. */
enum enum_word {
#include "ir/enum.def"
    ENUM_WORD_COUNT
};
#undef X

struct opcode_attr {
    uint8_t key; /* enum attr_key; ATTR_NONE ends the list */
    bool required;
};

struct opcode_info {
    const char *name;
    int least_operands, most_operands; /* most -1: any number */
    unsigned flags;
    const struct opcode_attr *attrs;
};

const struct opcode_info *opcode_info(enum hlo_opcode opcode);
const char *opcode_name(enum hlo_opcode opcode);
/* OPCODE_INVALID where the word (of `length` bytes) names none. */
enum hlo_opcode opcode_from_name(const char *name, size_t length);

const char *attr_name(enum attr_key key);
enum attr_kind attr_kind(enum attr_key key);
enum attr_key attr_from_name(const char *name, size_t length); /* ATTR_NONE: unknown */
/* 0: may not have it; 1: may; 2: must. Attributes of the "any" part: 1. */
int opcode_takes_attr(enum hlo_opcode opcode, enum attr_key key);

const char *enum_word_name(int word);
/* The word's number for this opcode's attribute, or -1. */
int enum_word_from_name(enum hlo_opcode opcode, enum attr_key key, const char *name, size_t length);
int enum_precision_from_name(const char *name, size_t length); /* -1: none */

/* ---- attribute values ---- */

struct int_list {
    int count;
    const int64_t *v;
};

static inline bool int_list_has(struct int_list list, int64_t value) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] == value) return true;
    return false;
}

struct int_lists {
    int count;
    const struct int_list *v;
};

struct slice_dim {
    int64_t start, limit, stride;
};

struct slice_list {
    int count;
    const struct slice_dim *v;
};

struct padding_dim {
    int64_t low, high, interior;
};

struct padding_config {
    int count;
    const struct padding_dim *v;
};

struct window_dim {
    int64_t size, stride, pad_low, pad_high;
    int64_t lhs_dilate; /* of the base (input) */
    int64_t rhs_dilate; /* of the window (kernel) */
    bool reversed;
};

struct window {
    int count;
    const struct window_dim *v;
};

/* Convolution dimension numbers, parsed from dim_labels. */
struct dim_labels {
    int spatial; /* number of spatial dimensions */
    int input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
    const int *input_spatial, *kernel_spatial, *output_spatial;
};

/* [a,b]<=[c,d]T(1,0): an iota over `reshape` dims, transposed, reshaped to `dims`. */
struct iota_tiles {
    int ndims;
    const int64_t *dims;
    int nreshape;
    const int64_t *reshape;
    const int *transpose; /* nreshape of them, or NULL for the identity */
};

struct replica_groups {
    bool is_iota;
    struct int_lists lists; /* {{0,1},{2,3}} */
    struct iota_tiles iota; /* [2,2]<=[4] */
    const char *mesh;       /* mesh form as written, NULL otherwise */
};

enum sharding_kind {
    SHARDING_REPLICATED,
    SHARDING_MANUAL,
    SHARDING_UNKNOWN,
    SHARDING_UNREDUCED,
    SHARDING_MAXIMAL, /* device */
    SHARDING_TILED,
    SHARDING_TUPLE,
    SHARDING_NAMED, /* a mesh and axes; kept as text */
    SHARDING_EMPTY, /* {} */
};

struct sharding {
    enum sharding_kind kind;
    int64_t device; /* maximal */
    /* tiled: tile dimensions, and the devices as a list or as an iota */
    int ndims;
    const int64_t *dims;
    int ndevices; /* of an explicit list; 0: iota */
    const int64_t *devices;
    struct iota_tiles iota;
    bool last_tile_dim_replicate;
    int nlast_tile_dims; /* last_tile_dims={manual, replicated}: enum sharding_kind each */
    const int *last_tile_dims;
    int nelements; /* tuple */
    const struct sharding *const *elements;
    const char *text; /* whole sharding as written, braces and all: what is printed back */
};

/* {output index}: (operand, {operand index}, must-alias) */
struct alias_entry {
    struct int_list output_index;
    int64_t parameter; /* operand number for output_to_operand_aliasing */
    struct int_list parameter_index;
    bool must_alias;
    bool has_kind; /* may-alias or must-alias was written */
};

struct alias_list {
    int count;
    const struct alias_entry *v;
};

struct shape_list {
    int count;
    const struct shape *const *v;
};

struct hlo_attr {
    enum attr_key key;
    const char *name; /* UNKNOWN only */
    bool quoted;      /* backend_config: text is the unescaped content of a "string" */
    bool single;      /* INTS written without braces: get-dimension-size's dimensions */
    union {
        int64_t i;
        double f;
        const char *text;
        const struct int_list *ints;
        const struct int_lists *int_lists;
        const struct slice_list *slices;
        const struct padding_config *padding;
        const struct window *window;
        const struct dim_labels *dim_labels;
        const struct replica_groups *groups;
        const struct sharding *sharding;
        const struct shape *shape;
        const struct shape_list *shapes;
        const struct alias_list *aliases;
        struct literal *literal;
    };
};

/* metadata={op_type="..." op_name="..." ...}; strings NULL and numbers 0 where absent. */
struct hlo_metadata {
    const char *op_type, *op_name, *source_file, *deduplicated_name, *scheduling_name;
    int64_t source_line, source_end_line, source_column, source_end_column;
    int64_t stack_frame_id;
    const char *rest; /* other fields as written, "key=value key=value"; NULL: none */
};

/* ---- instructions ---- */

/* One edge from a definition to a user; edges of a definition form its user list. */
struct hlo_use {
    struct hlo_instr *user;
    int index; /* operand number in user */
    struct hlo_use *prev, *next;
};

struct hlo_instr {
    enum hlo_opcode opcode;
    const char *name; /* without %; unique in the module */
    const struct shape *shape;
    struct hlo_computation *parent;
    struct hlo_instr *prev, *next; /* in parent's list */

    int noperands;
    struct hlo_instr **operands; /* change through instr_set_operand only */
    struct hlo_use *uses;        /* noperands of them: the edges to the operands */
    struct hlo_use *users;       /* first edge from here */

    int ncalled;
    struct hlo_computation **called; /* order: see OP_FLAG_CALLS_* */

    int nattrs;
    struct hlo_attr *attrs;

    int ncontrol;
    struct hlo_instr **control;  /* control predecessors */
    bool is_control_predecessor; /* some instruction may name this one in its control */

    int64_t parameter;                   /* PARAMETER: its number */
    struct literal *literal;             /* CONSTANT: owned by the module */
    const struct hlo_metadata *metadata; /* or NULL */
    struct src_loc loc;                  /* of the name in the text */
    int id;                              /* unique and increasing in the module; never reused */
    int mark;                            /* scratch for passes; no meaning between them */
    void *data;                          /* likewise */
};

/* What a computation is called for; several callers of one kind may share it. */
struct hlo_computation {
    const char *name; /* without % */
    struct hlo_module *module;
    struct hlo_computation *prev, *next;
    struct hlo_instr *first, *last;
    struct hlo_instr *root;
    int nparameters;
    struct hlo_instr **parameters; /* by number */
    int count;                     /* instructions */
    const char *execution_thread;  /* or NULL */
    struct src_loc loc;
    int id;
    int mark;
    void *data;
};

/* Attributes of the module line that have no field: kept as written, printed back. */
struct module_attr {
    const char *name, *text;
};

struct buffer_donor {
    int64_t parameter;
    struct int_list index;
};

struct hlo_module {
    struct arena *arena;
    struct shape_table *shapes;
    const char *name;
    struct hlo_computation *first, *last; /* callees before callers; entry anywhere */
    struct hlo_computation *entry;
    int ncomputations;
    bool is_scheduled;
    /* entry_computation_layout: parameters and result with layouts; result NULL where absent. */
    int nentry_parameters;
    const struct shape *const *entry_parameters;
    const struct shape *entry_result;
    struct alias_list aliases; /* input_output_alias */
    int ndonors;               /* buffer_donor */
    const struct buffer_donor *donors;
    int64_t replica_count, num_partitions; /* 1 where absent */
    int nattrs;
    const struct module_attr *attrs;
    /* FileNames, FunctionNames, FileLocations, StackFrames: one-based; printed back. */
    struct stack_tables *tables; /* NULL: none */
    int next_id;
    struct name_table *names;  /* in use; NULL until the first new name is made */
    struct literal **literals; /* references that module_free drops */
    int nliterals, literal_capacity;
};

struct file_location {
    int64_t file, function, line, end_line, column, end_column;
};

struct stack_frame {
    int64_t location, parent;
};

struct stack_tables {
    int nfiles, nfunctions, nlocations, nframes;
    const char **files, **functions;
    struct file_location *locations;
    struct stack_frame *frames;
};

/* ---- modules ---- */

struct hlo_module *module_new(const char *name);
void module_free(struct hlo_module *module); /* NULL is fine */
/* Hands one reference of the literal to the module. */
struct literal *module_own_literal(struct hlo_module *module, struct literal *literal);
/* A name not in use in the module yet: `base`, or `base.N`. Arena memory; reserved from then on. */
const char *module_unique_name(struct hlo_module *module, const char *base);
/* A node of the module has got this name as it is (names may repeat across computations); NULL: it
 * has none yet. */
void module_note_name(struct hlo_module *module, const char *name);
int module_instruction_count(const struct hlo_module *module);
/* Orders the computations callees first, each reachable one once; unreachable ones are unlinked. */
void module_sort_computations(struct hlo_module *module);
/* A copy with its own computations and instructions. It shares what never changes (shapes,
 * attribute values, literals) with the original and keeps that memory alive, so either may be freed
 * first; the two may not be used from two threads at once. */
struct hlo_module *module_clone(const struct hlo_module *module);

/* Where an instruction came from in the user's program: its metadata's file and line, or those of
 * its stack frame. False where unknown. */
bool instr_source(const struct hlo_instr *instr, const char **file, int64_t *line);

/* ---- computations ---- */

/* Appended to the module. The name is made unique where `unique`. */
struct hlo_computation *computation_new(struct hlo_module *module, const char *name, bool unique);
void computation_unlink(struct hlo_computation *computation);
/* Copies a computation (called computations are shared) into `module`, which may be another one
 * where nothing is called. */
struct hlo_computation *computation_clone(const struct hlo_computation *computation,
                                          const char *name);
/* Rebuilds parameters[] and nparameters from the PARAMETER instructions; false where numbers have
 * gaps or repeat. */
bool computation_index_parameters(struct hlo_computation *computation);
void computation_set_root(struct hlo_computation *computation, struct hlo_instr *root);

/* ---- building and changing instructions ---- */

/* A new instruction before `before` (NULL: at the end). Name NULL: made from the opcode; otherwise
 * made unique. Operands are linked. Shape is not checked here. */
struct hlo_instr *instr_new(struct hlo_computation *computation, struct hlo_instr *before,
                            enum hlo_opcode opcode, const struct shape *shape, const char *name,
                            int noperands, struct hlo_instr *const *operands);
/* Parser's form: name taken as it is, operands to be set later (slots NULL). */
struct hlo_instr *instr_new_raw(struct hlo_computation *computation, enum hlo_opcode opcode,
                                const struct shape *shape, const char *name, int noperands);
/* Same opcode, attributes, called computations and metadata, other operands and shape (NULL: the
 * same shape). */
struct hlo_instr *instr_clone(const struct hlo_instr *instr, struct hlo_computation *into,
                              struct hlo_instr *before, const struct shape *shape,
                              struct hlo_instr *const *operands);
struct hlo_instr *instr_new_constant(struct hlo_computation *computation, struct hlo_instr *before,
                                     struct literal *literal);
struct hlo_instr *instr_new_parameter(struct hlo_computation *computation, int64_t number,
                                      const struct shape *shape, const char *name);
void instr_set_operand(struct hlo_instr *instr, int index, struct hlo_instr *operand);
void instr_set_called(struct hlo_instr *instr, int count, struct hlo_computation *const *called);
void instr_add_control(struct hlo_instr *instr, struct hlo_instr *predecessor);
/* Every use (and being the root) of `instr` becomes one of `with`. */
void instr_replace_uses(struct hlo_instr *instr, struct hlo_instr *with);
/* Unlinks an instruction that has no users. */
void instr_remove(struct hlo_instr *instr);
void instr_move_before(struct hlo_instr *instr, struct hlo_instr *before);

bool instr_has_users(const struct hlo_instr *instr);
int instr_user_count(const struct hlo_instr *instr); /* edges */

/* What an index such as {1,0} names in a tuple, and (unless NULL) the number of its first leaf;
 * NULL where it names nothing. */
const struct shape *hlo_index_shape(const struct shape *shape, struct int_list index,
                                    int *first_leaf);
/* The leaf that an index such as {1,0} names in a tuple; -1 where it names none, or a tuple. */
int hlo_index_leaf(const struct shape *shape, struct int_list index);

/* ---- attributes ---- */

const struct hlo_attr *instr_attr(const struct hlo_instr *instr, enum attr_key key); /* or NULL */
int64_t instr_int(const struct hlo_instr *instr, enum attr_key key, int64_t otherwise);
bool instr_bool(const struct hlo_instr *instr, enum attr_key key, bool otherwise);
double instr_float(const struct hlo_instr *instr, enum attr_key key, double otherwise);
/* {0, NULL} where absent. */
struct int_list instr_ints(const struct hlo_instr *instr, enum attr_key key);
const char *instr_text(const struct hlo_instr *instr, enum attr_key key); /* or NULL */
const struct window *instr_window(const struct hlo_instr *instr);         /* or NULL */
/* Of a collective-permute: whether device 0 sends to itself. */
bool instr_keeps_own_data(const struct hlo_instr *instr);
/* Adds the attribute, or replaces the one of that key. */
void instr_set_attr(struct hlo_instr *instr, const struct hlo_attr *attr);
void instr_set_int(struct hlo_instr *instr, enum attr_key key, int64_t value);
void instr_set_ints(struct hlo_instr *instr, enum attr_key key, int count, const int64_t *values);
void instr_remove_attr(struct hlo_instr *instr, enum attr_key key);
bool attr_equal(const struct hlo_attr *a, const struct hlo_attr *b);

/* Walks: for (struct hlo_instr *i = c->first; i; i = i->next). Safe against removal of i. */
#define FOR_EACH_INSTR(i, computation)                                                             \
    for (struct hlo_instr *i = (computation)->first, *i##_next; i && (i##_next = i->next, true);   \
         i = i##_next)
#define FOR_EACH_COMPUTATION(c, module)                                                            \
    for (struct hlo_computation *c = (module)->first, *c##_next; c && (c##_next = c->next, true);  \
         c = c##_next)

#endif
