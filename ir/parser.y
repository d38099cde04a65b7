/* Grammar of HLO text. It holds the structure (module, computations, instructions, operands);
 * attribute values and literals come from the scanner as spans. */
%define api.pure full
%define api.prefix {hlo_yy}
%define parse.error detailed
%locations
%define api.location.type {struct span}
%param {void *scanner}
%parse-param {struct parse_context *context}

%code requires {
#include "ir/parse_internal.h"
}

%union {
    struct span span;
    struct raw_attr attr;
    struct raw_call call;
    const struct shape *shape;
    struct typed_name typed;
    const struct hlo_metadata *metadata;
    struct instr_head head;
    struct pending *pending;
    struct operand operand;
    struct shape_items *items;
    struct hlo_computation *computation;
}

%code {
#include <stdlib.h>
#include <string.h>

#define YYLLOC_DEFAULT(current, rhs, n)                                                            \
    do {                                                                                           \
        (current).begin = (n) ? YYRHSLOC(rhs, 1).begin : YYRHSLOC(rhs, 0).end;                     \
        (current).end = YYRHSLOC(rhs, (n) ? (n) : 0).end;                                          \
    } while (0)
#define YYMAXDEPTH 20000

int hlo_yylex(HLO_YYSTYPE *value, struct span *where, void *scanner);
static void hlo_yyerror(struct span *where, void *scanner, struct parse_context *context,
                        const char *message);

struct shape_items {
    int count, capacity;
    const struct shape **items;
};

static void add_computation(struct parse_context *context, struct raw_call *call,
                            struct hlo_computation *computation) {
    struct hlo_computation **grown = arena_array(
        context->module->arena, (size_t)call->count + 1, sizeof *call->computations);
    if (call->count)
        memcpy(grown, call->computations, (size_t)call->count * sizeof *grown);
    grown[call->count++] = computation;
    call->computations = grown;
}

static void set_metadata(struct parse_context *context, struct pending *pending,
                         const struct hlo_metadata *metadata, struct span where) {
    if (pending->metadata) parse_error(context, where, "attribute 'metadata' given twice");
    pending->metadata = metadata;
}

static void add_shape(struct parse_context *context, struct shape_items *items,
                      const struct shape *shape) {
    items->items = arena_grow(context->module->arena, items->items, &items->capacity,
                              items->count + 1, sizeof *items->items);
    items->items[items->count++] = shape;
}

static const struct shape *finish_tuple(struct parse_context *context, enum element_type type,
                                        const struct shape_items *items, struct span where) {
    for (int i = 0; i < items->count; i++)
        if (!items->items[i]) return NULL;
    const char *why;
    const struct shape *shape = shape_intern(
        context->module->shapes,
        &(struct shape){.type = type, .ntuple = items->count, .tuple = items->items}, &why);
    if (!shape) parse_error(context, where, "%s", why);
    return shape;
}
}

%token START_MODULE "a module" START_INSTRUCTION "an instruction"
%token <span> NAME "name" INT "number" CONSTANT "constant" HLO_MODULE "HloModule"
%token <span> ENTRY "ENTRY" ROOT "ROOT" STACK_TABLE "stack table"
%token <shape> SHAPE "shape"
%token <typed> TYPED "shape and name"
%token <span> HEAD "name ="
%token <pending> OPERATION "operation"
%token <metadata> METADATA "metadata"
%token <attr> ATTR "attribute"
%token <call> CALLED "attribute that names a computation"
%token <call> CALLED_INLINE "attribute with a computation in place"
%token <call> CALLED_LIST "attribute that lists computations"
%token BUFFER "b(" ARROW "->"

%type <shape> shape
%type <items> shapes shapes_opt
%type <head> head
%type <pending> operands operands_opt operation typed_operation whole nested computation_attrs
%type <operand> operand
%type <call> called names names_opt inlines
%type <computation> inline
%expect 0

%%

program: START_MODULE module_line parts
    | START_MODULE parts
    | START_INSTRUCTION { parse_begin_computation(context, @1, true, false); } single
          { parse_end_computation(context, NULL); }
    ;

single: instr
    | whole { parse_finish_instr(context, $1); }
    | error { YYABORT; }
    ;

module_line: HLO_MODULE NAME colon_opt { parse_start_module(context, $2); } module_attrs ;

module_attrs: %empty | module_attrs ATTR { parse_module_attr(context, &$2); }
    | module_attrs ','
    ;

parts: %empty | parts part ;

part: computation
    | STACK_TABLE { parse_stack_line(context, $1); }
    | error {
        if (yychar == HLO_YYEOF) YYABORT; /* there is no next statement to go on with */
        yyclearin;
        yyerrok;
        context->resync = true;
    }
    ;

computation:
      NAME { parse_begin_computation(context, $1, false, true); }
          signature_opt '{' instrs '}' computation_attrs { parse_end_computation(context, $7); }
    | ENTRY NAME { parse_begin_computation(context, $2, true, true); }
          signature_opt '{' instrs '}' computation_attrs { parse_end_computation(context, $8); }
    | ENTRY '{' { parse_begin_computation(context, $1, true, false); }
          instrs '}' computation_attrs { parse_end_computation(context, $6); }
    ;

computation_attrs: %empty { $$ = parse_new_pending(context, @$); }
    | computation_attrs ATTR { parse_add_attr(context, $1, $2); $$ = $1; }
    ;

signature_opt: %empty
    | '(' signature_items_opt ')' ARROW shape { parse_set_result(context, $5, @5); }
    ;
signature_items_opt: %empty | signature_items | signature_items ',' ;
signature_items: signature_item | signature_items ',' signature_item ;
signature_item: signature_name colon_opt shape ;
signature_name: NAME | ROOT | ENTRY | HLO_MODULE ;
colon_opt: %empty | ':' ;

instrs: %empty
    | instrs instr
    | instrs error {
        if (yychar == HLO_YYEOF) YYABORT;
        yyclearin;
        yyerrok;
        context->resync = true;
    }
    ;

instr: head whole {
        $2->name = $1.name;
        $2->has_name = true;
        $2->is_root = $1.is_root;
        parse_finish_instr(context, $2);
    }
    ;

head: HEAD { $$ = (struct instr_head){$1, false}; }
    | ROOT HEAD { $$ = (struct instr_head){$2, true}; }
    | NAME '=' { $$ = (struct instr_head){$1, false}; }
    | NAME ':' '=' { $$ = (struct instr_head){$1, false}; }
    | ROOT NAME colon_opt '=' { $$ = (struct instr_head){$2, true}; }
    ;

operation: NAME '(' operands_opt ')' { $$ = $3; $$->opcode = $1; }
    | TYPED '(' operands_opt ')' {
        $$ = $3;
        $$->opcode = $1.name;
        $$->shape = $1.shape;
    }
    | CONSTANT {
        $$ = parse_new_pending(context, (struct span){@1.begin, @1.begin + 8});
        $$->has_literal = true;
        $$->literal = $1;
    }
    ;

typed_operation: OPERATION
    | operation
    | shape OPERATION { $$ = $2; parse_set_shape(context, $$, $1, @1); }
    | shape operation { $$ = $2; parse_set_shape(context, $$, $1, @1); }
    ;

operands_opt: %empty { $$ = parse_new_pending(context, @$); } | operands | operands ',' ;

operands: operand { $$ = parse_new_pending(context, @$); parse_add_operand(context, $$, $1); }
    | operands ',' operand { $$ = $1; parse_add_operand(context, $$, $3); }
    | INT {
        struct reader reader = reader_new(context, $1);
        $$ = parse_new_pending(context, @$);
        $$->has_number = true;
        $$->number = reader_int(&reader);
    }
    ;

operand: NAME { $$ = (struct operand){NULL, $1, NULL}; }
    | NAME ':' { $$ = (struct operand){NULL, $1, NULL}; }
    | TYPED { $$ = (struct operand){NULL, $1.name, $1.shape}; }
    | TYPED ':' { $$ = (struct operand){NULL, $1.name, $1.shape}; }
    | shape { $$ = (struct operand){NULL, {@1.end, @1.end}, $1}; }
    | shape NAME colon_opt { $$ = (struct operand){NULL, $2, $1}; }
    | nested { $$ = (struct operand){parse_finish_instr(context, $1), @1, NULL}; }
    ;

nested: typed_operation
    | nested ATTR { $$ = $1; parse_add_attr(context, $$, $2); }
    | nested METADATA { $$ = $1; set_metadata(context, $$, $2, @2); }
    | nested called { $$ = $1; parse_add_call(context, $$, $2); }
    ;

whole: typed_operation
    | whole ATTR { $$ = $1; parse_add_attr(context, $$, $2); }
    | whole METADATA { $$ = $1; set_metadata(context, $$, $2, @2); }
    | whole called { $$ = $1; parse_add_call(context, $$, $2); }
    | whole ','
    ;

called: CALLED NAME {
        $$ = $1;
        add_computation(context, &$$, parse_find_computation(context, $2));
    }
    | CALLED_LIST '{' names_opt '}' {
        $$ = $1;
        $$.count = $3.count;
        $$.computations = $3.computations;
    }
    | CALLED_LIST '{' inlines '}' {
        $$ = $1;
        $$.count = $3.count;
        $$.computations = $3.computations;
    }
    | CALLED_INLINE inline {
        $$ = $1;
        add_computation(context, &$$, $2);
    }
    ;

inline: '{' { parse_begin_computation(context, @1, false, false); } instrs '}' {
        $$ = context->computation;
        parse_end_computation(context, NULL);
    }
    ;

inlines: inline {
        $$ = (struct raw_call){.count = 0};
        add_computation(context, &$$, $1);
    }
    | inlines ',' inline {
        $$ = $1;
        add_computation(context, &$$, $3);
    }
    ;

names_opt: %empty { $$ = (struct raw_call){.count = 0}; } | names | names ',' ;

names: NAME {
        $$ = (struct raw_call){.count = 0};
        add_computation(context, &$$, parse_find_computation(context, $1));
    }
    | names ',' NAME {
        $$ = $1;
        add_computation(context, &$$, parse_find_computation(context, $3));
    }
    ;

shape: SHAPE
    | '(' shapes_opt ')' { $$ = finish_tuple(context, TYPE_TUPLE, $2, @$); }
    | BUFFER shape ')' {
        struct shape_items items = {.count = 1, .items = &$2};
        $$ = finish_tuple(context, TYPE_BUFFER, &items, @$);
    }
    ;

shapes_opt: %empty { $$ = arena_alloc(context->module->arena, sizeof *$$); }
    | shapes
    | shapes ','
    ;

shapes: shape {
        $$ = arena_alloc(context->module->arena, sizeof *$$);
        add_shape(context, $$, $1);
    }
    | shapes ',' shape { $$ = $1; add_shape(context, $$, $3); }
    ;

%%

static void hlo_yyerror(struct span *where, void *scanner, struct parse_context *context,
                        const char *message) {
    (void)scanner;
    /* "syntax error, unexpected X, expecting Y": the first two words say nothing. */
    const char *comma = strncmp(message, "syntax error, ", 14) == 0 ? message + 14 : message;
    size_t length = where->end - where->begin;
    if (strstr(comma, "memory exhausted")) comma = "nested too deeply";
    if (length && length < 60)
        parse_error(context, *where, "%s near '%.*s'", comma, (int)length,
                    context->source + where->begin);
    else
        parse_error(context, *where, "%s", comma);
}
