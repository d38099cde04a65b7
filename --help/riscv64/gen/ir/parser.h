/* A Bison parser, made by GNU Bison 3.8.2.  */

/* Bison interface for Yacc-like parsers in C

   Copyright (C) 1984, 1989-1990, 2000-2015, 2018-2021 Free Software Foundation,
   Inc.

   This program is free software: you can redistribute it and/or modify
   it under the terms of the GNU General Public License as published by
   the Free Software Foundation, either version 3 of the License, or
   (at your option) any later version.

   This program is distributed in the hope that it will be useful,
   but WITHOUT ANY WARRANTY; without even the implied warranty of
   MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
   GNU General Public License for more details.

   You should have received a copy of the GNU General Public License
   along with this program.  If not, see <https://www.gnu.org/licenses/>.  */

/* As a special exception, you may create a larger work that contains
   part or all of the Bison parser skeleton and distribute that work
   under terms of your choice, so long as that work isn't itself a
   parser generator using the skeleton or a modified version thereof
   as a parser skeleton.  Alternatively, if you modify or redistribute
   the parser skeleton itself, you may (at your option) remove this
   special exception, which will cause the skeleton and the resulting
   Bison output files to be licensed under the GNU General Public
   License without this special exception.

   This special exception was added by the Free Software Foundation in
   version 2.2 of Bison.  */

/* DO NOT RELY ON FEATURES THAT ARE NOT DOCUMENTED in the manual,
   especially those whose name start with YY_ or yy_.  They are
   private implementation details that can be changed or removed.  */

#ifndef YY_HLO_YY_TMP_ROWS_W3_HELP_RISCV64_GEN_IR_PARSER_H_INCLUDED
# define YY_HLO_YY_TMP_ROWS_W3_HELP_RISCV64_GEN_IR_PARSER_H_INCLUDED
/* Debug traces.  */
#ifndef HLO_YYDEBUG
# if defined YYDEBUG
#if YYDEBUG
#   define HLO_YYDEBUG 1
#  else
#   define HLO_YYDEBUG 0
#  endif
# else /* ! defined YYDEBUG */
#  define HLO_YYDEBUG 0
# endif /* ! defined YYDEBUG */
#endif  /* ! defined HLO_YYDEBUG */
#if HLO_YYDEBUG
extern int hlo_yydebug;
#endif
/* "%code requires" blocks.  */
#line 11 "ir/parser.y"

#include "ir/parse_internal.h"

#line 61 "/tmp/rows/w3/--help/riscv64/gen/ir/parser.h"

/* Token kinds.  */
#ifndef HLO_YYTOKENTYPE
# define HLO_YYTOKENTYPE
  enum hlo_yytokentype
  {
    HLO_YYEMPTY = -2,
    HLO_YYEOF = 0,                 /* "end of file"  */
    HLO_YYerror = 256,             /* error  */
    HLO_YYUNDEF = 257,             /* "invalid token"  */
    START_MODULE = 258,            /* "a module"  */
    START_INSTRUCTION = 259,       /* "an instruction"  */
    NAME = 260,                    /* "name"  */
    INT = 261,                     /* "number"  */
    CONSTANT = 262,                /* "constant"  */
    HLO_MODULE = 263,              /* "HloModule"  */
    ENTRY = 264,                   /* "ENTRY"  */
    ROOT = 265,                    /* "ROOT"  */
    STACK_TABLE = 266,             /* "stack table"  */
    SHAPE = 267,                   /* "shape"  */
    TYPED = 268,                   /* "shape and name"  */
    HEAD = 269,                    /* "name ="  */
    OPERATION = 270,               /* "operation"  */
    METADATA = 271,                /* "metadata"  */
    ATTR = 272,                    /* "attribute"  */
    CALLED = 273,                  /* "attribute that names a computation"  */
    CALLED_INLINE = 274,           /* "attribute with a computation in place"  */
    CALLED_LIST = 275,             /* "attribute that lists computations"  */
    BUFFER = 276,                  /* "b("  */
    ARROW = 277                    /* "->"  */
  };
  typedef enum hlo_yytokentype hlo_yytoken_kind_t;
#endif

/* Value type.  */
#if ! defined HLO_YYSTYPE && ! defined HLO_YYSTYPE_IS_DECLARED
union HLO_YYSTYPE
{
#line 15 "ir/parser.y"

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

#line 114 "/tmp/rows/w3/--help/riscv64/gen/ir/parser.h"

};
typedef union HLO_YYSTYPE HLO_YYSTYPE;
# define HLO_YYSTYPE_IS_TRIVIAL 1
# define HLO_YYSTYPE_IS_DECLARED 1
#endif

/* Location type.  */
typedef struct span HLO_YYLTYPE;




int hlo_yyparse (void *scanner, struct parse_context *context);


#endif /* !YY_HLO_YY_TMP_ROWS_W3_HELP_RISCV64_GEN_IR_PARSER_H_INCLUDED  */
