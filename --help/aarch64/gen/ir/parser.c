/* A Bison parser, made by GNU Bison 3.8.2.  */

/* Bison implementation for Yacc-like parsers in C

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

/* C LALR(1) parser skeleton written by Richard Stallman, by
   simplifying the original so-called "semantic" parser.  */

/* DO NOT RELY ON FEATURES THAT ARE NOT DOCUMENTED in the manual,
   especially those whose name start with YY_ or yy_.  They are
   private implementation details that can be changed or removed.  */

/* All symbols defined below should begin with yy or YY, to avoid
   infringing on user name space.  This should be done even for local
   variables, as they might otherwise be expanded by user macros.
   There are some unavoidable exceptions within include files to
   define necessary library symbols; they are noted "INFRINGES ON
   USER NAME SPACE" below.  */

/* Identify Bison output, and Bison version.  */
#define YYBISON 30802

/* Bison version string.  */
#define YYBISON_VERSION "3.8.2"

/* Skeleton name.  */
#define YYSKELETON_NAME "yacc.c"

/* Pure parsers.  */
#define YYPURE 2

/* Push parsers.  */
#define YYPUSH 0

/* Pull parsers.  */
#define YYPULL 1

/* Substitute the type names.  */
#define YYSTYPE         HLO_YYSTYPE
#define YYLTYPE         HLO_YYLTYPE
/* Substitute the variable and function names.  */
#define yyparse         hlo_yyparse
#define yylex           hlo_yylex
#define yyerror         hlo_yyerror
#define yydebug         hlo_yydebug
#define yynerrs         hlo_yynerrs


# ifndef YY_CAST
#  ifdef __cplusplus
#   define YY_CAST(Type, Val) static_cast<Type> (Val)
#   define YY_REINTERPRET_CAST(Type, Val) reinterpret_cast<Type> (Val)
#  else
#   define YY_CAST(Type, Val) ((Type) (Val))
#   define YY_REINTERPRET_CAST(Type, Val) ((Type) (Val))
#  endif
# endif
# ifndef YY_NULLPTR
#  if defined __cplusplus
#   if 201103L <= __cplusplus
#    define YY_NULLPTR nullptr
#   else
#    define YY_NULLPTR 0
#   endif
#  else
#   define YY_NULLPTR ((void*)0)
#  endif
# endif

#include "parser.h"
/* Symbol kind.  */
enum yysymbol_kind_t
{
  YYSYMBOL_YYEMPTY = -2,
  YYSYMBOL_YYEOF = 0,                      /* "end of file"  */
  YYSYMBOL_YYerror = 1,                    /* error  */
  YYSYMBOL_YYUNDEF = 2,                    /* "invalid token"  */
  YYSYMBOL_START_MODULE = 3,               /* "a module"  */
  YYSYMBOL_START_INSTRUCTION = 4,          /* "an instruction"  */
  YYSYMBOL_NAME = 5,                       /* "name"  */
  YYSYMBOL_INT = 6,                        /* "number"  */
  YYSYMBOL_CONSTANT = 7,                   /* "constant"  */
  YYSYMBOL_HLO_MODULE = 8,                 /* "HloModule"  */
  YYSYMBOL_ENTRY = 9,                      /* "ENTRY"  */
  YYSYMBOL_ROOT = 10,                      /* "ROOT"  */
  YYSYMBOL_STACK_TABLE = 11,               /* "stack table"  */
  YYSYMBOL_SHAPE = 12,                     /* "shape"  */
  YYSYMBOL_TYPED = 13,                     /* "shape and name"  */
  YYSYMBOL_HEAD = 14,                      /* "name ="  */
  YYSYMBOL_OPERATION = 15,                 /* "operation"  */
  YYSYMBOL_METADATA = 16,                  /* "metadata"  */
  YYSYMBOL_ATTR = 17,                      /* "attribute"  */
  YYSYMBOL_CALLED = 18,                    /* "attribute that names a computation"  */
  YYSYMBOL_CALLED_INLINE = 19,             /* "attribute with a computation in place"  */
  YYSYMBOL_CALLED_LIST = 20,               /* "attribute that lists computations"  */
  YYSYMBOL_BUFFER = 21,                    /* "b("  */
  YYSYMBOL_ARROW = 22,                     /* "->"  */
  YYSYMBOL_23_ = 23,                       /* ','  */
  YYSYMBOL_24_ = 24,                       /* '{'  */
  YYSYMBOL_25_ = 25,                       /* '}'  */
  YYSYMBOL_26_ = 26,                       /* '('  */
  YYSYMBOL_27_ = 27,                       /* ')'  */
  YYSYMBOL_28_ = 28,                       /* ':'  */
  YYSYMBOL_29_ = 29,                       /* '='  */
  YYSYMBOL_YYACCEPT = 30,                  /* $accept  */
  YYSYMBOL_program = 31,                   /* program  */
  YYSYMBOL_32_1 = 32,                      /* $@1  */
  YYSYMBOL_single = 33,                    /* single  */
  YYSYMBOL_module_line = 34,               /* module_line  */
  YYSYMBOL_35_2 = 35,                      /* $@2  */
  YYSYMBOL_module_attrs = 36,              /* module_attrs  */
  YYSYMBOL_parts = 37,                     /* parts  */
  YYSYMBOL_part = 38,                      /* part  */
  YYSYMBOL_computation = 39,               /* computation  */
  YYSYMBOL_40_3 = 40,                      /* $@3  */
  YYSYMBOL_41_4 = 41,                      /* $@4  */
  YYSYMBOL_42_5 = 42,                      /* $@5  */
  YYSYMBOL_computation_attrs = 43,         /* computation_attrs  */
  YYSYMBOL_signature_opt = 44,             /* signature_opt  */
  YYSYMBOL_signature_items_opt = 45,       /* signature_items_opt  */
  YYSYMBOL_signature_items = 46,           /* signature_items  */
  YYSYMBOL_signature_item = 47,            /* signature_item  */
  YYSYMBOL_signature_name = 48,            /* signature_name  */
  YYSYMBOL_colon_opt = 49,                 /* colon_opt  */
  YYSYMBOL_instrs = 50,                    /* instrs  */
  YYSYMBOL_instr = 51,                     /* instr  */
  YYSYMBOL_head = 52,                      /* head  */
  YYSYMBOL_operation = 53,                 /* operation  */
  YYSYMBOL_typed_operation = 54,           /* typed_operation  */
  YYSYMBOL_operands_opt = 55,              /* operands_opt  */
  YYSYMBOL_operands = 56,                  /* operands  */
  YYSYMBOL_operand = 57,                   /* operand  */
  YYSYMBOL_nested = 58,                    /* nested  */
  YYSYMBOL_whole = 59,                     /* whole  */
  YYSYMBOL_called = 60,                    /* called  */
  YYSYMBOL_inline = 61,                    /* inline  */
  YYSYMBOL_62_6 = 62,                      /* $@6  */
  YYSYMBOL_inlines = 63,                   /* inlines  */
  YYSYMBOL_names_opt = 64,                 /* names_opt  */
  YYSYMBOL_names = 65,                     /* names  */
  YYSYMBOL_shape = 66,                     /* shape  */
  YYSYMBOL_shapes_opt = 67,                /* shapes_opt  */
  YYSYMBOL_shapes = 68                     /* shapes  */
};
typedef enum yysymbol_kind_t yysymbol_kind_t;



/* Unqualified %code blocks.  */
#line 29 "ir/parser.y"

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

#line 235 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"

#ifdef short
# undef short
#endif

/* On compilers that do not define __PTRDIFF_MAX__ etc., make sure
   <limits.h> and (if available) <stdint.h> are included
   so that the code can choose integer types of a good width.  */

#ifndef __PTRDIFF_MAX__
# include <limits.h> /* INFRINGES ON USER NAME SPACE */
# if defined __STDC_VERSION__ && 199901 <= __STDC_VERSION__
#  include <stdint.h> /* INFRINGES ON USER NAME SPACE */
#  define YY_STDINT_H
# endif
#endif

/* Narrow types that promote to a signed type and that can represent a
   signed or unsigned integer of at least N bits.  In tables they can
   save space and decrease cache pressure.  Promoting to a signed type
   helps avoid bugs in integer arithmetic.  */

#ifdef __INT_LEAST8_MAX__
typedef __INT_LEAST8_TYPE__ yytype_int8;
#elif defined YY_STDINT_H
typedef int_least8_t yytype_int8;
#else
typedef signed char yytype_int8;
#endif

#ifdef __INT_LEAST16_MAX__
typedef __INT_LEAST16_TYPE__ yytype_int16;
#elif defined YY_STDINT_H
typedef int_least16_t yytype_int16;
#else
typedef short yytype_int16;
#endif

/* Work around bug in HP-UX 11.23, which defines these macros
   incorrectly for preprocessor constants.  This workaround can likely
   be removed in 2023, as HPE has promised support for HP-UX 11.23
   (aka HP-UX 11i v2) only through the end of 2022; see Table 2 of
   <https://h20195.www2.hpe.com/V2/getpdf.aspx/4AA4-7673ENW.pdf>.  */
#ifdef __hpux
# undef UINT_LEAST8_MAX
# undef UINT_LEAST16_MAX
# define UINT_LEAST8_MAX 255
# define UINT_LEAST16_MAX 65535
#endif

#if defined __UINT_LEAST8_MAX__ && __UINT_LEAST8_MAX__ <= __INT_MAX__
typedef __UINT_LEAST8_TYPE__ yytype_uint8;
#elif (!defined __UINT_LEAST8_MAX__ && defined YY_STDINT_H \
       && UINT_LEAST8_MAX <= INT_MAX)
typedef uint_least8_t yytype_uint8;
#elif !defined __UINT_LEAST8_MAX__ && UCHAR_MAX <= INT_MAX
typedef unsigned char yytype_uint8;
#else
typedef short yytype_uint8;
#endif

#if defined __UINT_LEAST16_MAX__ && __UINT_LEAST16_MAX__ <= __INT_MAX__
typedef __UINT_LEAST16_TYPE__ yytype_uint16;
#elif (!defined __UINT_LEAST16_MAX__ && defined YY_STDINT_H \
       && UINT_LEAST16_MAX <= INT_MAX)
typedef uint_least16_t yytype_uint16;
#elif !defined __UINT_LEAST16_MAX__ && USHRT_MAX <= INT_MAX
typedef unsigned short yytype_uint16;
#else
typedef int yytype_uint16;
#endif

#ifndef YYPTRDIFF_T
# if defined __PTRDIFF_TYPE__ && defined __PTRDIFF_MAX__
#  define YYPTRDIFF_T __PTRDIFF_TYPE__
#  define YYPTRDIFF_MAXIMUM __PTRDIFF_MAX__
# elif defined PTRDIFF_MAX
#  ifndef ptrdiff_t
#   include <stddef.h> /* INFRINGES ON USER NAME SPACE */
#  endif
#  define YYPTRDIFF_T ptrdiff_t
#  define YYPTRDIFF_MAXIMUM PTRDIFF_MAX
# else
#  define YYPTRDIFF_T long
#  define YYPTRDIFF_MAXIMUM LONG_MAX
# endif
#endif

#ifndef YYSIZE_T
# ifdef __SIZE_TYPE__
#  define YYSIZE_T __SIZE_TYPE__
# elif defined size_t
#  define YYSIZE_T size_t
# elif defined __STDC_VERSION__ && 199901 <= __STDC_VERSION__
#  include <stddef.h> /* INFRINGES ON USER NAME SPACE */
#  define YYSIZE_T size_t
# else
#  define YYSIZE_T unsigned
# endif
#endif

#define YYSIZE_MAXIMUM                                  \
  YY_CAST (YYPTRDIFF_T,                                 \
           (YYPTRDIFF_MAXIMUM < YY_CAST (YYSIZE_T, -1)  \
            ? YYPTRDIFF_MAXIMUM                         \
            : YY_CAST (YYSIZE_T, -1)))

#define YYSIZEOF(X) YY_CAST (YYPTRDIFF_T, sizeof (X))


/* Stored state numbers (used for stacks). */
typedef yytype_uint8 yy_state_t;

/* State numbers in computations.  */
typedef int yy_state_fast_t;

#ifndef YY_
# if defined YYENABLE_NLS && YYENABLE_NLS
#  if ENABLE_NLS
#   include <libintl.h> /* INFRINGES ON USER NAME SPACE */
#   define YY_(Msgid) dgettext ("bison-runtime", Msgid)
#  endif
# endif
# ifndef YY_
#  define YY_(Msgid) Msgid
# endif
#endif


#ifndef YY_ATTRIBUTE_PURE
# if defined __GNUC__ && 2 < __GNUC__ + (96 <= __GNUC_MINOR__)
#  define YY_ATTRIBUTE_PURE __attribute__ ((__pure__))
# else
#  define YY_ATTRIBUTE_PURE
# endif
#endif

#ifndef YY_ATTRIBUTE_UNUSED
# if defined __GNUC__ && 2 < __GNUC__ + (7 <= __GNUC_MINOR__)
#  define YY_ATTRIBUTE_UNUSED __attribute__ ((__unused__))
# else
#  define YY_ATTRIBUTE_UNUSED
# endif
#endif

/* Suppress unused-variable warnings by "using" E.  */
#if ! defined lint || defined __GNUC__
# define YY_USE(E) ((void) (E))
#else
# define YY_USE(E) /* empty */
#endif

/* Suppress an incorrect diagnostic about yylval being uninitialized.  */
#if defined __GNUC__ && ! defined __ICC && 406 <= __GNUC__ * 100 + __GNUC_MINOR__
# if __GNUC__ * 100 + __GNUC_MINOR__ < 407
#  define YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN                           \
    _Pragma ("GCC diagnostic push")                                     \
    _Pragma ("GCC diagnostic ignored \"-Wuninitialized\"")
# else
#  define YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN                           \
    _Pragma ("GCC diagnostic push")                                     \
    _Pragma ("GCC diagnostic ignored \"-Wuninitialized\"")              \
    _Pragma ("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")
# endif
# define YY_IGNORE_MAYBE_UNINITIALIZED_END      \
    _Pragma ("GCC diagnostic pop")
#else
# define YY_INITIAL_VALUE(Value) Value
#endif
#ifndef YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
# define YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
# define YY_IGNORE_MAYBE_UNINITIALIZED_END
#endif
#ifndef YY_INITIAL_VALUE
# define YY_INITIAL_VALUE(Value) /* Nothing. */
#endif

#if defined __cplusplus && defined __GNUC__ && ! defined __ICC && 6 <= __GNUC__
# define YY_IGNORE_USELESS_CAST_BEGIN                          \
    _Pragma ("GCC diagnostic push")                            \
    _Pragma ("GCC diagnostic ignored \"-Wuseless-cast\"")
# define YY_IGNORE_USELESS_CAST_END            \
    _Pragma ("GCC diagnostic pop")
#endif
#ifndef YY_IGNORE_USELESS_CAST_BEGIN
# define YY_IGNORE_USELESS_CAST_BEGIN
# define YY_IGNORE_USELESS_CAST_END
#endif


#define YY_ASSERT(E) ((void) (0 && (E)))

#if 1

/* The parser invokes alloca or malloc; define the necessary symbols.  */

# ifdef YYSTACK_USE_ALLOCA
#  if YYSTACK_USE_ALLOCA
#   ifdef __GNUC__
#    define YYSTACK_ALLOC __builtin_alloca
#   elif defined __BUILTIN_VA_ARG_INCR
#    include <alloca.h> /* INFRINGES ON USER NAME SPACE */
#   elif defined _AIX
#    define YYSTACK_ALLOC __alloca
#   elif defined _MSC_VER
#    include <malloc.h> /* INFRINGES ON USER NAME SPACE */
#    define alloca _alloca
#   else
#    define YYSTACK_ALLOC alloca
#    if ! defined _ALLOCA_H && ! defined EXIT_SUCCESS
#     include <stdlib.h> /* INFRINGES ON USER NAME SPACE */
      /* Use EXIT_SUCCESS as a witness for stdlib.h.  */
#     ifndef EXIT_SUCCESS
#      define EXIT_SUCCESS 0
#     endif
#    endif
#   endif
#  endif
# endif

# ifdef YYSTACK_ALLOC
   /* Pacify GCC's 'empty if-body' warning.  */
#  define YYSTACK_FREE(Ptr) do { /* empty */; } while (0)
#  ifndef YYSTACK_ALLOC_MAXIMUM
    /* The OS might guarantee only one guard page at the bottom of the stack,
       and a page size can be as small as 4096 bytes.  So we cannot safely
       invoke alloca (N) if N exceeds 4096.  Use a slightly smaller number
       to allow for a few compiler-allocated temporary stack slots.  */
#   define YYSTACK_ALLOC_MAXIMUM 4032 /* reasonable circa 2006 */
#  endif
# else
#  define YYSTACK_ALLOC YYMALLOC
#  define YYSTACK_FREE YYFREE
#  ifndef YYSTACK_ALLOC_MAXIMUM
#   define YYSTACK_ALLOC_MAXIMUM YYSIZE_MAXIMUM
#  endif
#  if (defined __cplusplus && ! defined EXIT_SUCCESS \
       && ! ((defined YYMALLOC || defined malloc) \
             && (defined YYFREE || defined free)))
#   include <stdlib.h> /* INFRINGES ON USER NAME SPACE */
#   ifndef EXIT_SUCCESS
#    define EXIT_SUCCESS 0
#   endif
#  endif
#  ifndef YYMALLOC
#   define YYMALLOC malloc
#   if ! defined malloc && ! defined EXIT_SUCCESS
void *malloc (YYSIZE_T); /* INFRINGES ON USER NAME SPACE */
#   endif
#  endif
#  ifndef YYFREE
#   define YYFREE free
#   if ! defined free && ! defined EXIT_SUCCESS
void free (void *); /* INFRINGES ON USER NAME SPACE */
#   endif
#  endif
# endif
#endif /* 1 */

#if (! defined yyoverflow \
     && (! defined __cplusplus \
         || (defined HLO_YYLTYPE_IS_TRIVIAL && HLO_YYLTYPE_IS_TRIVIAL \
             && defined HLO_YYSTYPE_IS_TRIVIAL && HLO_YYSTYPE_IS_TRIVIAL)))

/* A type that is properly aligned for any stack member.  */
union yyalloc
{
  yy_state_t yyss_alloc;
  YYSTYPE yyvs_alloc;
  YYLTYPE yyls_alloc;
};

/* The size of the maximum gap between one aligned stack and the next.  */
# define YYSTACK_GAP_MAXIMUM (YYSIZEOF (union yyalloc) - 1)

/* The size of an array large to enough to hold all stacks, each with
   N elements.  */
# define YYSTACK_BYTES(N) \
     ((N) * (YYSIZEOF (yy_state_t) + YYSIZEOF (YYSTYPE) \
             + YYSIZEOF (YYLTYPE)) \
      + 2 * YYSTACK_GAP_MAXIMUM)

# define YYCOPY_NEEDED 1

/* Relocate STACK from its old location to the new one.  The
   local variables YYSIZE and YYSTACKSIZE give the old and new number of
   elements in the stack, and YYPTR gives the new location of the
   stack.  Advance YYPTR to a properly aligned location for the next
   stack.  */
# define YYSTACK_RELOCATE(Stack_alloc, Stack)                           \
    do                                                                  \
      {                                                                 \
        YYPTRDIFF_T yynewbytes;                                         \
        YYCOPY (&yyptr->Stack_alloc, Stack, yysize);                    \
        Stack = &yyptr->Stack_alloc;                                    \
        yynewbytes = yystacksize * YYSIZEOF (*Stack) + YYSTACK_GAP_MAXIMUM; \
        yyptr += yynewbytes / YYSIZEOF (*yyptr);                        \
      }                                                                 \
    while (0)

#endif

#if defined YYCOPY_NEEDED && YYCOPY_NEEDED
/* Copy COUNT objects from SRC to DST.  The source and destination do
   not overlap.  */
# ifndef YYCOPY
#  if defined __GNUC__ && 1 < __GNUC__
#   define YYCOPY(Dst, Src, Count) \
      __builtin_memcpy (Dst, Src, YY_CAST (YYSIZE_T, (Count)) * sizeof (*(Src)))
#  else
#   define YYCOPY(Dst, Src, Count)              \
      do                                        \
        {                                       \
          YYPTRDIFF_T yyi;                      \
          for (yyi = 0; yyi < (Count); yyi++)   \
            (Dst)[yyi] = (Src)[yyi];            \
        }                                       \
      while (0)
#  endif
# endif
#endif /* !YYCOPY_NEEDED */

/* YYFINAL -- State number of the termination state.  */
#define YYFINAL  8
/* YYLAST -- Last index in YYTABLE.  */
#define YYLAST   166

/* YYNTOKENS -- Number of terminals.  */
#define YYNTOKENS  30
/* YYNNTS -- Number of nonterminals.  */
#define YYNNTS  39
/* YYNRULES -- Number of rules.  */
#define YYNRULES  99
/* YYNSTATES -- Number of states.  */
#define YYNSTATES  145

/* YYMAXUTOK -- Last valid token kind.  */
#define YYMAXUTOK   277


/* YYTRANSLATE(TOKEN-NUM) -- Symbol number corresponding to TOKEN-NUM
   as returned by yylex, with out-of-bounds checking.  */
#define YYTRANSLATE(YYX)                                \
  (0 <= (YYX) && (YYX) <= YYMAXUTOK                     \
   ? YY_CAST (yysymbol_kind_t, yytranslate[YYX])        \
   : YYSYMBOL_YYUNDEF)

/* YYTRANSLATE[TOKEN-NUM] -- Symbol number corresponding to TOKEN-NUM
   as returned by yylex.  */
static const yytype_int8 yytranslate[] =
{
       0,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
      26,    27,     2,     2,    23,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,    28,     2,
       2,    29,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,    24,     2,    25,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     1,     2,     3,     4,
       5,     6,     7,     8,     9,    10,    11,    12,    13,    14,
      15,    16,    17,    18,    19,    20,    21,    22
};

#if HLO_YYDEBUG
/* YYRLINE[YYN] -- Source line where rule number YYN was defined.  */
static const yytype_int16 yyrline[] =
{
       0,   110,   110,   111,   112,   112,   116,   117,   118,   121,
     121,   123,   123,   124,   127,   127,   129,   130,   131,   140,
     140,   142,   142,   144,   144,   148,   149,   152,   153,   155,
     155,   155,   156,   156,   157,   158,   158,   158,   158,   159,
     159,   161,   162,   163,   171,   179,   180,   181,   182,   183,
     186,   187,   192,   199,   200,   201,   202,   205,   205,   205,
     207,   208,   209,   217,   218,   219,   220,   221,   222,   223,
     226,   227,   228,   229,   232,   233,   234,   235,   236,   239,
     243,   248,   253,   259,   259,   265,   269,   275,   275,   275,
     277,   281,   287,   288,   289,   295,   296,   297,   300,   304
};
#endif

/** Accessing symbol of state STATE.  */
#define YY_ACCESSING_SYMBOL(State) YY_CAST (yysymbol_kind_t, yystos[State])

#if 1
/* The user-facing name of the symbol whose (internal) number is
   YYSYMBOL.  No bounds checking.  */
static const char *yysymbol_name (yysymbol_kind_t yysymbol) YY_ATTRIBUTE_UNUSED;

static const char *
yysymbol_name (yysymbol_kind_t yysymbol)
{
  static const char *const yy_sname[] =
  {
  "end of file", "error", "invalid token", "a module", "an instruction",
  "name", "number", "constant", "HloModule", "ENTRY", "ROOT",
  "stack table", "shape", "shape and name", "name =", "operation",
  "metadata", "attribute", "attribute that names a computation",
  "attribute with a computation in place",
  "attribute that lists computations", "b(", "->", "','", "'{'", "'}'",
  "'('", "')'", "':'", "'='", "$accept", "program", "$@1", "single",
  "module_line", "$@2", "module_attrs", "parts", "part", "computation",
  "$@3", "$@4", "$@5", "computation_attrs", "signature_opt",
  "signature_items_opt", "signature_items", "signature_item",
  "signature_name", "colon_opt", "instrs", "instr", "head", "operation",
  "typed_operation", "operands_opt", "operands", "operand", "nested",
  "whole", "called", "inline", "$@6", "inlines", "names_opt", "names",
  "shape", "shapes_opt", "shapes", YY_NULLPTR
  };
  return yy_sname[yysymbol];
}
#endif

#define YYPACT_NINF (-127)

#define yypact_value_is_default(Yyn) \
  ((Yyn) == YYPACT_NINF)

#define YYTABLE_NINF (-4)

#define yytable_value_is_error(Yyn) \
  0

/* YYPACT[STATE-NUM] -- Index in YYTABLE of the portion describing
   STATE-NUM.  */
static const yytype_int16 yypact[] =
{
      21,     1,  -127,    38,    52,  -127,   108,    16,  -127,    36,
     120,  -127,  -127,     9,  -127,  -127,  -127,  -127,    40,  -127,
      -1,  -127,    56,  -127,  -127,    29,    29,  -127,  -127,    72,
    -127,  -127,   122,    99,  -127,  -127,    65,  -127,  -127,    68,
      67,  -127,    36,  -127,    68,    80,  -127,    88,    77,    92,
     122,  -127,  -127,   117,   103,   109,  -127,  -127,  -127,  -127,
    -127,     2,   111,    65,  -127,    60,  -127,    64,  -127,    96,
     114,  -127,   130,   121,  -127,   115,   116,  -127,  -127,    29,
    -127,  -127,  -127,    10,    30,  -127,  -127,  -127,  -127,   124,
     129,  -127,    36,  -127,   131,    34,  -127,  -127,  -127,    90,
    -127,  -127,  -127,    73,  -127,  -127,  -127,  -127,  -127,  -127,
     107,   128,   133,  -127,  -127,   132,     2,    29,    35,  -127,
    -127,    42,  -127,  -127,  -127,  -127,    51,   103,  -127,  -127,
     152,    29,  -127,  -127,  -127,    53,   141,  -127,  -127,  -127,
    -127,   141,  -127,  -127,   141
};

/* YYDEFACT[STATE-NUM] -- Default reduction number in state STATE-NUM.
   Performed when YYTABLE does not specify something else to do.  Zero
   means the default is an error.  */
static const yytype_int8 yydefact[] =
{
       0,    14,     4,     0,     0,    14,     0,     0,     1,    39,
       0,    18,    19,     0,    17,    15,    16,     8,     0,    52,
       0,    92,     0,    45,    53,     0,    95,     5,     6,     0,
      54,    74,     7,     0,    40,     9,    27,    21,    23,    57,
       0,    47,    39,    46,    57,     0,    98,     0,    96,     0,
      44,    76,    75,     0,     0,     0,    78,    77,    55,    56,
      11,    29,     0,    27,    41,    63,    62,    65,    70,     0,
      58,    60,    69,    67,    48,     0,     0,    94,    93,    97,
      79,    83,    82,    87,    10,    35,    38,    37,    36,     0,
      30,    32,    39,    41,     0,     0,    64,    66,    50,    59,
      72,    71,    73,    39,    49,    51,    99,    41,    90,    85,
       0,     0,    88,    12,    13,     0,    31,     0,     0,    41,
      43,     0,    25,    42,    61,    68,     0,     0,    81,    80,
      89,     0,    33,    34,    25,     0,    24,    84,    86,    91,
      28,    20,    25,    26,    22
};

/* YYPGOTO[NTERM-NUM].  */
static const yytype_int16 yypgoto[] =
{
    -127,  -127,  -127,  -127,  -127,  -127,  -127,   154,  -127,  -127,
    -127,  -127,  -127,  -126,    97,  -127,  -127,    45,  -127,   -41,
     -87,   155,  -127,   -30,    -2,   119,  -127,    66,  -127,   135,
      94,   -81,  -127,  -127,  -127,  -127,    -7,  -127,  -127
};

/* YYDEFGOTO[NTERM-NUM].  */
static const yytype_uint8 yydefgoto[] =
{
       0,     3,     7,    27,     5,    60,    84,     6,    15,    16,
      36,    63,    64,   136,    62,    89,    90,    91,    92,    35,
      95,   123,    29,    30,    68,    69,    70,    71,    72,    32,
      57,    82,   107,   110,   111,   112,    73,    47,    48
};

/* YYTABLE[YYPACT[STATE-NUM]] -- What to do in state STATE-NUM.  If
   positive, shift that token.  If negative, reduce the rule whose
   number is the opposite.  If YYTABLE_NINF, syntax error.  */
static const yytype_int16 yytable[] =
{
      33,    75,   109,    59,    42,    31,   118,    85,   141,     4,
      86,    87,    88,    43,    37,   108,   144,    17,    45,    46,
     126,    18,    33,    19,     1,     2,    20,    31,    21,    22,
      23,    24,   135,    38,    81,   120,   120,    25,     8,   121,
     121,    21,    26,    59,    20,    20,   138,   113,    23,    23,
      25,   117,   120,   114,   120,    26,   121,     9,   121,   122,
     134,    20,   125,    20,    34,    23,    39,    23,    40,    41,
      40,    41,   106,    65,    66,    19,   137,    49,   142,    19,
      21,    67,    44,    24,    21,    22,    39,    24,    96,    25,
      44,    61,    97,    25,    26,    65,    74,    19,    26,    39,
      79,    34,    21,    67,    49,    24,    19,    77,    -3,    11,
     133,    25,    22,    12,    58,    78,    26,    13,    39,    14,
      -2,    11,    80,    98,   140,    12,   103,    81,    19,    13,
     127,    14,   128,    83,    22,    93,    58,    99,    51,    52,
      53,    54,    55,   105,   104,    56,   100,   101,    53,    54,
      55,   115,   116,   129,   131,   119,   130,   139,   143,    10,
      94,   132,    28,    76,    50,   124,   102
};

static const yytype_uint8 yycheck[] =
{
       7,    42,    83,    33,     5,     7,    93,     5,   134,     8,
       8,     9,    10,    14,     5,     5,   142,     1,    25,    26,
     107,     5,    29,     7,     3,     4,    10,    29,    12,    13,
      14,    15,   119,    24,    24,     1,     1,    21,     0,     5,
       5,    12,    26,    73,    10,    10,   127,    17,    14,    14,
      21,    92,     1,    23,     1,    26,     5,     5,     5,    25,
      25,    10,   103,    10,    28,    14,    26,    14,    28,    29,
      28,    29,    79,     5,     6,     7,    25,     5,    25,     7,
      12,    13,    26,    15,    12,    13,    26,    15,    28,    21,
      26,    26,    28,    21,    26,     5,    29,     7,    26,    26,
      23,    28,    12,    13,     5,    15,     7,    27,     0,     1,
     117,    21,    13,     5,    15,    27,    26,     9,    26,    11,
       0,     1,     5,    27,   131,     5,     5,    24,     7,     9,
      23,    11,    25,    24,    13,    24,    15,    23,    16,    17,
      18,    19,    20,    27,    29,    23,    16,    17,    18,    19,
      20,    27,    23,    25,    22,    24,    23,     5,    17,     5,
      63,   116,     7,    44,    29,    99,    72
};

/* YYSTOS[STATE-NUM] -- The symbol kind of the accessing symbol of
   state STATE-NUM.  */
static const yytype_int8 yystos[] =
{
       0,     3,     4,    31,     8,    34,    37,    32,     0,     5,
      37,     1,     5,     9,    11,    38,    39,     1,     5,     7,
      10,    12,    13,    14,    15,    21,    26,    33,    51,    52,
      53,    54,    59,    66,    28,    49,    40,     5,    24,    26,
      28,    29,     5,    14,    26,    66,    66,    67,    68,     5,
      59,    16,    17,    18,    19,    20,    23,    60,    15,    53,
      35,    26,    44,    41,    42,     5,     6,    13,    54,    55,
      56,    57,    58,    66,    29,    49,    55,    27,    27,    23,
       5,    24,    61,    24,    36,     5,     8,     9,    10,    45,
      46,    47,    48,    24,    44,    50,    28,    28,    27,    23,
      16,    17,    60,     5,    29,    27,    66,    62,     5,    61,
      63,    64,    65,    17,    23,    27,    23,    49,    50,    24,
       1,     5,    25,    51,    57,    49,    50,    23,    25,    25,
      23,    22,    47,    66,    25,    50,    43,    25,    61,     5,
      66,    43,    25,    17,    43
};

/* YYR1[RULE-NUM] -- Symbol kind of the left-hand side of rule RULE-NUM.  */
static const yytype_int8 yyr1[] =
{
       0,    30,    31,    31,    32,    31,    33,    33,    33,    35,
      34,    36,    36,    36,    37,    37,    38,    38,    38,    40,
      39,    41,    39,    42,    39,    43,    43,    44,    44,    45,
      45,    45,    46,    46,    47,    48,    48,    48,    48,    49,
      49,    50,    50,    50,    51,    52,    52,    52,    52,    52,
      53,    53,    53,    54,    54,    54,    54,    55,    55,    55,
      56,    56,    56,    57,    57,    57,    57,    57,    57,    57,
      58,    58,    58,    58,    59,    59,    59,    59,    59,    60,
      60,    60,    60,    62,    61,    63,    63,    64,    64,    64,
      65,    65,    66,    66,    66,    67,    67,    67,    68,    68
};

/* YYR2[RULE-NUM] -- Number of symbols on the right-hand side of rule RULE-NUM.  */
static const yytype_int8 yyr2[] =
{
       0,     2,     3,     2,     0,     3,     1,     1,     1,     0,
       5,     0,     2,     2,     0,     2,     1,     1,     1,     0,
       7,     0,     8,     0,     6,     0,     2,     0,     5,     0,
       1,     2,     1,     3,     3,     1,     1,     1,     1,     0,
       1,     0,     2,     2,     2,     1,     2,     2,     3,     4,
       4,     4,     1,     1,     1,     2,     2,     0,     1,     2,
       1,     3,     1,     1,     2,     1,     2,     1,     3,     1,
       1,     2,     2,     2,     1,     2,     2,     2,     2,     2,
       4,     4,     2,     0,     4,     1,     3,     0,     1,     2,
       1,     3,     1,     3,     3,     0,     1,     2,     1,     3
};


enum { YYENOMEM = -2 };

#define yyerrok         (yyerrstatus = 0)
#define yyclearin       (yychar = HLO_YYEMPTY)

#define YYACCEPT        goto yyacceptlab
#define YYABORT         goto yyabortlab
#define YYERROR         goto yyerrorlab
#define YYNOMEM         goto yyexhaustedlab


#define YYRECOVERING()  (!!yyerrstatus)

#define YYBACKUP(Token, Value)                                    \
  do                                                              \
    if (yychar == HLO_YYEMPTY)                                        \
      {                                                           \
        yychar = (Token);                                         \
        yylval = (Value);                                         \
        YYPOPSTACK (yylen);                                       \
        yystate = *yyssp;                                         \
        goto yybackup;                                            \
      }                                                           \
    else                                                          \
      {                                                           \
        yyerror (&yylloc, scanner, context, YY_("syntax error: cannot back up")); \
        YYERROR;                                                  \
      }                                                           \
  while (0)

/* Backward compatibility with an undocumented macro.
   Use HLO_YYerror or HLO_YYUNDEF. */
#define YYERRCODE HLO_YYUNDEF

/* YYLLOC_DEFAULT -- Set CURRENT to span from RHS[1] to RHS[N].
   If N is 0, then set CURRENT to the empty location which ends
   the previous symbol: RHS[0] (always defined).  */

#ifndef YYLLOC_DEFAULT
# define YYLLOC_DEFAULT(Current, Rhs, N)                                \
    do                                                                  \
      if (N)                                                            \
        {                                                               \
          (Current).first_line   = YYRHSLOC (Rhs, 1).first_line;        \
          (Current).first_column = YYRHSLOC (Rhs, 1).first_column;      \
          (Current).last_line    = YYRHSLOC (Rhs, N).last_line;         \
          (Current).last_column  = YYRHSLOC (Rhs, N).last_column;       \
        }                                                               \
      else                                                              \
        {                                                               \
          (Current).first_line   = (Current).last_line   =              \
            YYRHSLOC (Rhs, 0).last_line;                                \
          (Current).first_column = (Current).last_column =              \
            YYRHSLOC (Rhs, 0).last_column;                              \
        }                                                               \
    while (0)
#endif

#define YYRHSLOC(Rhs, K) ((Rhs)[K])


/* Enable debugging if requested.  */
#if HLO_YYDEBUG

# ifndef YYFPRINTF
#  include <stdio.h> /* INFRINGES ON USER NAME SPACE */
#  define YYFPRINTF fprintf
# endif

# define YYDPRINTF(Args)                        \
do {                                            \
  if (yydebug)                                  \
    YYFPRINTF Args;                             \
} while (0)


/* YYLOCATION_PRINT -- Print the location on the stream.
   This macro was not mandated originally: define only if we know
   we won't break user code: when these are the locations we know.  */

# ifndef YYLOCATION_PRINT

#  if defined YY_LOCATION_PRINT

   /* Temporary convenience wrapper in case some people defined the
      undocumented and private YY_LOCATION_PRINT macros.  */
#   define YYLOCATION_PRINT(File, Loc)  YY_LOCATION_PRINT(File, *(Loc))

#  elif defined HLO_YYLTYPE_IS_TRIVIAL && HLO_YYLTYPE_IS_TRIVIAL

/* Print *YYLOCP on YYO.  Private, do not rely on its existence. */

YY_ATTRIBUTE_UNUSED
static int
yy_location_print_ (FILE *yyo, YYLTYPE const * const yylocp)
{
  int res = 0;
  int end_col = 0 != yylocp->last_column ? yylocp->last_column - 1 : 0;
  if (0 <= yylocp->first_line)
    {
      res += YYFPRINTF (yyo, "%d", yylocp->first_line);
      if (0 <= yylocp->first_column)
        res += YYFPRINTF (yyo, ".%d", yylocp->first_column);
    }
  if (0 <= yylocp->last_line)
    {
      if (yylocp->first_line < yylocp->last_line)
        {
          res += YYFPRINTF (yyo, "-%d", yylocp->last_line);
          if (0 <= end_col)
            res += YYFPRINTF (yyo, ".%d", end_col);
        }
      else if (0 <= end_col && yylocp->first_column < end_col)
        res += YYFPRINTF (yyo, "-%d", end_col);
    }
  return res;
}

#   define YYLOCATION_PRINT  yy_location_print_

    /* Temporary convenience wrapper in case some people defined the
       undocumented and private YY_LOCATION_PRINT macros.  */
#   define YY_LOCATION_PRINT(File, Loc)  YYLOCATION_PRINT(File, &(Loc))

#  else

#   define YYLOCATION_PRINT(File, Loc) ((void) 0)
    /* Temporary convenience wrapper in case some people defined the
       undocumented and private YY_LOCATION_PRINT macros.  */
#   define YY_LOCATION_PRINT  YYLOCATION_PRINT

#  endif
# endif /* !defined YYLOCATION_PRINT */


# define YY_SYMBOL_PRINT(Title, Kind, Value, Location)                    \
do {                                                                      \
  if (yydebug)                                                            \
    {                                                                     \
      YYFPRINTF (stderr, "%s ", Title);                                   \
      yy_symbol_print (stderr,                                            \
                  Kind, Value, Location, scanner, context); \
      YYFPRINTF (stderr, "\n");                                           \
    }                                                                     \
} while (0)


/*-----------------------------------.
| Print this symbol's value on YYO.  |
`-----------------------------------*/

static void
yy_symbol_value_print (FILE *yyo,
                       yysymbol_kind_t yykind, YYSTYPE const * const yyvaluep, YYLTYPE const * const yylocationp, void *scanner, struct parse_context *context)
{
  FILE *yyoutput = yyo;
  YY_USE (yyoutput);
  YY_USE (yylocationp);
  YY_USE (scanner);
  YY_USE (context);
  if (!yyvaluep)
    return;
  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  YY_USE (yykind);
  YY_IGNORE_MAYBE_UNINITIALIZED_END
}


/*---------------------------.
| Print this symbol on YYO.  |
`---------------------------*/

static void
yy_symbol_print (FILE *yyo,
                 yysymbol_kind_t yykind, YYSTYPE const * const yyvaluep, YYLTYPE const * const yylocationp, void *scanner, struct parse_context *context)
{
  YYFPRINTF (yyo, "%s %s (",
             yykind < YYNTOKENS ? "token" : "nterm", yysymbol_name (yykind));

  YYLOCATION_PRINT (yyo, yylocationp);
  YYFPRINTF (yyo, ": ");
  yy_symbol_value_print (yyo, yykind, yyvaluep, yylocationp, scanner, context);
  YYFPRINTF (yyo, ")");
}

/*------------------------------------------------------------------.
| yy_stack_print -- Print the state stack from its BOTTOM up to its |
| TOP (included).                                                   |
`------------------------------------------------------------------*/

static void
yy_stack_print (yy_state_t *yybottom, yy_state_t *yytop)
{
  YYFPRINTF (stderr, "Stack now");
  for (; yybottom <= yytop; yybottom++)
    {
      int yybot = *yybottom;
      YYFPRINTF (stderr, " %d", yybot);
    }
  YYFPRINTF (stderr, "\n");
}

# define YY_STACK_PRINT(Bottom, Top)                            \
do {                                                            \
  if (yydebug)                                                  \
    yy_stack_print ((Bottom), (Top));                           \
} while (0)


/*------------------------------------------------.
| Report that the YYRULE is going to be reduced.  |
`------------------------------------------------*/

static void
yy_reduce_print (yy_state_t *yyssp, YYSTYPE *yyvsp, YYLTYPE *yylsp,
                 int yyrule, void *scanner, struct parse_context *context)
{
  int yylno = yyrline[yyrule];
  int yynrhs = yyr2[yyrule];
  int yyi;
  YYFPRINTF (stderr, "Reducing stack by rule %d (line %d):\n",
             yyrule - 1, yylno);
  /* The symbols being reduced.  */
  for (yyi = 0; yyi < yynrhs; yyi++)
    {
      YYFPRINTF (stderr, "   $%d = ", yyi + 1);
      yy_symbol_print (stderr,
                       YY_ACCESSING_SYMBOL (+yyssp[yyi + 1 - yynrhs]),
                       &yyvsp[(yyi + 1) - (yynrhs)],
                       &(yylsp[(yyi + 1) - (yynrhs)]), scanner, context);
      YYFPRINTF (stderr, "\n");
    }
}

# define YY_REDUCE_PRINT(Rule)          \
do {                                    \
  if (yydebug)                          \
    yy_reduce_print (yyssp, yyvsp, yylsp, Rule, scanner, context); \
} while (0)

/* Nonzero means print parse trace.  It is left uninitialized so that
   multiple parsers can coexist.  */
int yydebug;
#else /* !HLO_YYDEBUG */
# define YYDPRINTF(Args) ((void) 0)
# define YY_SYMBOL_PRINT(Title, Kind, Value, Location)
# define YY_STACK_PRINT(Bottom, Top)
# define YY_REDUCE_PRINT(Rule)
#endif /* !HLO_YYDEBUG */


/* YYINITDEPTH -- initial size of the parser's stacks.  */
#ifndef YYINITDEPTH
# define YYINITDEPTH 200
#endif

/* YYMAXDEPTH -- maximum size the stacks can grow to (effective only
   if the built-in stack extension method is used).

   Do not make this value too large; the results are undefined if
   YYSTACK_ALLOC_MAXIMUM < YYSTACK_BYTES (YYMAXDEPTH)
   evaluated with infinite-precision integer arithmetic.  */

#ifndef YYMAXDEPTH
# define YYMAXDEPTH 10000
#endif


/* Context of a parse error.  */
typedef struct
{
  yy_state_t *yyssp;
  yysymbol_kind_t yytoken;
  YYLTYPE *yylloc;
} yypcontext_t;

/* Put in YYARG at most YYARGN of the expected tokens given the
   current YYCTX, and return the number of tokens stored in YYARG.  If
   YYARG is null, return the number of expected tokens (guaranteed to
   be less than YYNTOKENS).  Return YYENOMEM on memory exhaustion.
   Return 0 if there are more than YYARGN expected tokens, yet fill
   YYARG up to YYARGN. */
static int
yypcontext_expected_tokens (const yypcontext_t *yyctx,
                            yysymbol_kind_t yyarg[], int yyargn)
{
  /* Actual size of YYARG. */
  int yycount = 0;
  int yyn = yypact[+*yyctx->yyssp];
  if (!yypact_value_is_default (yyn))
    {
      /* Start YYX at -YYN if negative to avoid negative indexes in
         YYCHECK.  In other words, skip the first -YYN actions for
         this state because they are default actions.  */
      int yyxbegin = yyn < 0 ? -yyn : 0;
      /* Stay within bounds of both yycheck and yytname.  */
      int yychecklim = YYLAST - yyn + 1;
      int yyxend = yychecklim < YYNTOKENS ? yychecklim : YYNTOKENS;
      int yyx;
      for (yyx = yyxbegin; yyx < yyxend; ++yyx)
        if (yycheck[yyx + yyn] == yyx && yyx != YYSYMBOL_YYerror
            && !yytable_value_is_error (yytable[yyx + yyn]))
          {
            if (!yyarg)
              ++yycount;
            else if (yycount == yyargn)
              return 0;
            else
              yyarg[yycount++] = YY_CAST (yysymbol_kind_t, yyx);
          }
    }
  if (yyarg && yycount == 0 && 0 < yyargn)
    yyarg[0] = YYSYMBOL_YYEMPTY;
  return yycount;
}




#ifndef yystrlen
# if defined __GLIBC__ && defined _STRING_H
#  define yystrlen(S) (YY_CAST (YYPTRDIFF_T, strlen (S)))
# else
/* Return the length of YYSTR.  */
static YYPTRDIFF_T
yystrlen (const char *yystr)
{
  YYPTRDIFF_T yylen;
  for (yylen = 0; yystr[yylen]; yylen++)
    continue;
  return yylen;
}
# endif
#endif

#ifndef yystpcpy
# if defined __GLIBC__ && defined _STRING_H && defined _GNU_SOURCE
#  define yystpcpy stpcpy
# else
/* Copy YYSRC to YYDEST, returning the address of the terminating '\0' in
   YYDEST.  */
static char *
yystpcpy (char *yydest, const char *yysrc)
{
  char *yyd = yydest;
  const char *yys = yysrc;

  while ((*yyd++ = *yys++) != '\0')
    continue;

  return yyd - 1;
}
# endif
#endif



static int
yy_syntax_error_arguments (const yypcontext_t *yyctx,
                           yysymbol_kind_t yyarg[], int yyargn)
{
  /* Actual size of YYARG. */
  int yycount = 0;
  /* There are many possibilities here to consider:
     - If this state is a consistent state with a default action, then
       the only way this function was invoked is if the default action
       is an error action.  In that case, don't check for expected
       tokens because there are none.
     - The only way there can be no lookahead present (in yychar) is if
       this state is a consistent state with a default action.  Thus,
       detecting the absence of a lookahead is sufficient to determine
       that there is no unexpected or expected token to report.  In that
       case, just report a simple "syntax error".
     - Don't assume there isn't a lookahead just because this state is a
       consistent state with a default action.  There might have been a
       previous inconsistent state, consistent state with a non-default
       action, or user semantic action that manipulated yychar.
     - Of course, the expected token list depends on states to have
       correct lookahead information, and it depends on the parser not
       to perform extra reductions after fetching a lookahead from the
       scanner and before detecting a syntax error.  Thus, state merging
       (from LALR or IELR) and default reductions corrupt the expected
       token list.  However, the list is correct for canonical LR with
       one exception: it will still contain any token that will not be
       accepted due to an error action in a later state.
  */
  if (yyctx->yytoken != YYSYMBOL_YYEMPTY)
    {
      int yyn;
      if (yyarg)
        yyarg[yycount] = yyctx->yytoken;
      ++yycount;
      yyn = yypcontext_expected_tokens (yyctx,
                                        yyarg ? yyarg + 1 : yyarg, yyargn - 1);
      if (yyn == YYENOMEM)
        return YYENOMEM;
      else
        yycount += yyn;
    }
  return yycount;
}

/* Copy into *YYMSG, which is of size *YYMSG_ALLOC, an error message
   about the unexpected token YYTOKEN for the state stack whose top is
   YYSSP.

   Return 0 if *YYMSG was successfully written.  Return -1 if *YYMSG is
   not large enough to hold the message.  In that case, also set
   *YYMSG_ALLOC to the required number of bytes.  Return YYENOMEM if the
   required number of bytes is too large to store.  */
static int
yysyntax_error (YYPTRDIFF_T *yymsg_alloc, char **yymsg,
                const yypcontext_t *yyctx)
{
  enum { YYARGS_MAX = 5 };
  /* Internationalized format string. */
  const char *yyformat = YY_NULLPTR;
  /* Arguments of yyformat: reported tokens (one for the "unexpected",
     one per "expected"). */
  yysymbol_kind_t yyarg[YYARGS_MAX];
  /* Cumulated lengths of YYARG.  */
  YYPTRDIFF_T yysize = 0;

  /* Actual size of YYARG. */
  int yycount = yy_syntax_error_arguments (yyctx, yyarg, YYARGS_MAX);
  if (yycount == YYENOMEM)
    return YYENOMEM;

  switch (yycount)
    {
#define YYCASE_(N, S)                       \
      case N:                               \
        yyformat = S;                       \
        break
    default: /* Avoid compiler warnings. */
      YYCASE_(0, YY_("syntax error"));
      YYCASE_(1, YY_("syntax error, unexpected %s"));
      YYCASE_(2, YY_("syntax error, unexpected %s, expecting %s"));
      YYCASE_(3, YY_("syntax error, unexpected %s, expecting %s or %s"));
      YYCASE_(4, YY_("syntax error, unexpected %s, expecting %s or %s or %s"));
      YYCASE_(5, YY_("syntax error, unexpected %s, expecting %s or %s or %s or %s"));
#undef YYCASE_
    }

  /* Compute error message size.  Don't count the "%s"s, but reserve
     room for the terminator.  */
  yysize = yystrlen (yyformat) - 2 * yycount + 1;
  {
    int yyi;
    for (yyi = 0; yyi < yycount; ++yyi)
      {
        YYPTRDIFF_T yysize1
          = yysize + yystrlen (yysymbol_name (yyarg[yyi]));
        if (yysize <= yysize1 && yysize1 <= YYSTACK_ALLOC_MAXIMUM)
          yysize = yysize1;
        else
          return YYENOMEM;
      }
  }

  if (*yymsg_alloc < yysize)
    {
      *yymsg_alloc = 2 * yysize;
      if (! (yysize <= *yymsg_alloc
             && *yymsg_alloc <= YYSTACK_ALLOC_MAXIMUM))
        *yymsg_alloc = YYSTACK_ALLOC_MAXIMUM;
      return -1;
    }

  /* Avoid sprintf, as that infringes on the user's name space.
     Don't have undefined behavior even if the translation
     produced a string with the wrong number of "%s"s.  */
  {
    char *yyp = *yymsg;
    int yyi = 0;
    while ((*yyp = *yyformat) != '\0')
      if (*yyp == '%' && yyformat[1] == 's' && yyi < yycount)
        {
          yyp = yystpcpy (yyp, yysymbol_name (yyarg[yyi++]));
          yyformat += 2;
        }
      else
        {
          ++yyp;
          ++yyformat;
        }
  }
  return 0;
}


/*-----------------------------------------------.
| Release the memory associated to this symbol.  |
`-----------------------------------------------*/

static void
yydestruct (const char *yymsg,
            yysymbol_kind_t yykind, YYSTYPE *yyvaluep, YYLTYPE *yylocationp, void *scanner, struct parse_context *context)
{
  YY_USE (yyvaluep);
  YY_USE (yylocationp);
  YY_USE (scanner);
  YY_USE (context);
  if (!yymsg)
    yymsg = "Deleting";
  YY_SYMBOL_PRINT (yymsg, yykind, yyvaluep, yylocationp);

  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  YY_USE (yykind);
  YY_IGNORE_MAYBE_UNINITIALIZED_END
}






/*----------.
| yyparse.  |
`----------*/

int
yyparse (void *scanner, struct parse_context *context)
{
/* Lookahead token kind.  */
int yychar;


/* The semantic value of the lookahead symbol.  */
/* Default value used for initialization, for pacifying older GCCs
   or non-GCC compilers.  */
YY_INITIAL_VALUE (static YYSTYPE yyval_default;)
YYSTYPE yylval YY_INITIAL_VALUE (= yyval_default);

/* Location data for the lookahead symbol.  */
static YYLTYPE yyloc_default
# if defined HLO_YYLTYPE_IS_TRIVIAL && HLO_YYLTYPE_IS_TRIVIAL
  = { 1, 1, 1, 1 }
# endif
;
YYLTYPE yylloc = yyloc_default;

    /* Number of syntax errors so far.  */
    int yynerrs = 0;

    yy_state_fast_t yystate = 0;
    /* Number of tokens to shift before error messages enabled.  */
    int yyerrstatus = 0;

    /* Refer to the stacks through separate pointers, to allow yyoverflow
       to reallocate them elsewhere.  */

    /* Their size.  */
    YYPTRDIFF_T yystacksize = YYINITDEPTH;

    /* The state stack: array, bottom, top.  */
    yy_state_t yyssa[YYINITDEPTH];
    yy_state_t *yyss = yyssa;
    yy_state_t *yyssp = yyss;

    /* The semantic value stack: array, bottom, top.  */
    YYSTYPE yyvsa[YYINITDEPTH];
    YYSTYPE *yyvs = yyvsa;
    YYSTYPE *yyvsp = yyvs;

    /* The location stack: array, bottom, top.  */
    YYLTYPE yylsa[YYINITDEPTH];
    YYLTYPE *yyls = yylsa;
    YYLTYPE *yylsp = yyls;

  int yyn;
  /* The return value of yyparse.  */
  int yyresult;
  /* Lookahead symbol kind.  */
  yysymbol_kind_t yytoken = YYSYMBOL_YYEMPTY;
  /* The variables used to return semantic value and location from the
     action routines.  */
  YYSTYPE yyval;
  YYLTYPE yyloc;

  /* The locations where the error started and ended.  */
  YYLTYPE yyerror_range[3];

  /* Buffer for error messages, and its allocated size.  */
  char yymsgbuf[128];
  char *yymsg = yymsgbuf;
  YYPTRDIFF_T yymsg_alloc = sizeof yymsgbuf;

#define YYPOPSTACK(N)   (yyvsp -= (N), yyssp -= (N), yylsp -= (N))

  /* The number of symbols on the RHS of the reduced rule.
     Keep to zero when no symbol should be popped.  */
  int yylen = 0;

  YYDPRINTF ((stderr, "Starting parse\n"));

  yychar = HLO_YYEMPTY; /* Cause a token to be read.  */

  yylsp[0] = yylloc;
  goto yysetstate;


/*------------------------------------------------------------.
| yynewstate -- push a new state, which is found in yystate.  |
`------------------------------------------------------------*/
yynewstate:
  /* In all cases, when you get here, the value and location stacks
     have just been pushed.  So pushing a state here evens the stacks.  */
  yyssp++;


/*--------------------------------------------------------------------.
| yysetstate -- set current state (the top of the stack) to yystate.  |
`--------------------------------------------------------------------*/
yysetstate:
  YYDPRINTF ((stderr, "Entering state %d\n", yystate));
  YY_ASSERT (0 <= yystate && yystate < YYNSTATES);
  YY_IGNORE_USELESS_CAST_BEGIN
  *yyssp = YY_CAST (yy_state_t, yystate);
  YY_IGNORE_USELESS_CAST_END
  YY_STACK_PRINT (yyss, yyssp);

  if (yyss + yystacksize - 1 <= yyssp)
#if !defined yyoverflow && !defined YYSTACK_RELOCATE
    YYNOMEM;
#else
    {
      /* Get the current used size of the three stacks, in elements.  */
      YYPTRDIFF_T yysize = yyssp - yyss + 1;

# if defined yyoverflow
      {
        /* Give user a chance to reallocate the stack.  Use copies of
           these so that the &'s don't force the real ones into
           memory.  */
        yy_state_t *yyss1 = yyss;
        YYSTYPE *yyvs1 = yyvs;
        YYLTYPE *yyls1 = yyls;

        /* Each stack pointer address is followed by the size of the
           data in use in that stack, in bytes.  This used to be a
           conditional around just the two extra args, but that might
           be undefined if yyoverflow is a macro.  */
        yyoverflow (YY_("memory exhausted"),
                    &yyss1, yysize * YYSIZEOF (*yyssp),
                    &yyvs1, yysize * YYSIZEOF (*yyvsp),
                    &yyls1, yysize * YYSIZEOF (*yylsp),
                    &yystacksize);
        yyss = yyss1;
        yyvs = yyvs1;
        yyls = yyls1;
      }
# else /* defined YYSTACK_RELOCATE */
      /* Extend the stack our own way.  */
      if (YYMAXDEPTH <= yystacksize)
        YYNOMEM;
      yystacksize *= 2;
      if (YYMAXDEPTH < yystacksize)
        yystacksize = YYMAXDEPTH;

      {
        yy_state_t *yyss1 = yyss;
        union yyalloc *yyptr =
          YY_CAST (union yyalloc *,
                   YYSTACK_ALLOC (YY_CAST (YYSIZE_T, YYSTACK_BYTES (yystacksize))));
        if (! yyptr)
          YYNOMEM;
        YYSTACK_RELOCATE (yyss_alloc, yyss);
        YYSTACK_RELOCATE (yyvs_alloc, yyvs);
        YYSTACK_RELOCATE (yyls_alloc, yyls);
#  undef YYSTACK_RELOCATE
        if (yyss1 != yyssa)
          YYSTACK_FREE (yyss1);
      }
# endif

      yyssp = yyss + yysize - 1;
      yyvsp = yyvs + yysize - 1;
      yylsp = yyls + yysize - 1;

      YY_IGNORE_USELESS_CAST_BEGIN
      YYDPRINTF ((stderr, "Stack size increased to %ld\n",
                  YY_CAST (long, yystacksize)));
      YY_IGNORE_USELESS_CAST_END

      if (yyss + yystacksize - 1 <= yyssp)
        YYABORT;
    }
#endif /* !defined yyoverflow && !defined YYSTACK_RELOCATE */


  if (yystate == YYFINAL)
    YYACCEPT;

  goto yybackup;


/*-----------.
| yybackup.  |
`-----------*/
yybackup:
  /* Do appropriate processing given the current state.  Read a
     lookahead token if we need one and don't already have one.  */

  /* First try to decide what to do without reference to lookahead token.  */
  yyn = yypact[yystate];
  if (yypact_value_is_default (yyn))
    goto yydefault;

  /* Not known => get a lookahead token if don't already have one.  */

  /* YYCHAR is either empty, or end-of-input, or a valid lookahead.  */
  if (yychar == HLO_YYEMPTY)
    {
      YYDPRINTF ((stderr, "Reading a token\n"));
      yychar = yylex (&yylval, &yylloc, scanner);
    }

  if (yychar <= HLO_YYEOF)
    {
      yychar = HLO_YYEOF;
      yytoken = YYSYMBOL_YYEOF;
      YYDPRINTF ((stderr, "Now at end of input.\n"));
    }
  else if (yychar == HLO_YYerror)
    {
      /* The scanner already issued an error message, process directly
         to error recovery.  But do not keep the error token as
         lookahead, it is too special and may lead us to an endless
         loop in error recovery. */
      yychar = HLO_YYUNDEF;
      yytoken = YYSYMBOL_YYerror;
      yyerror_range[1] = yylloc;
      goto yyerrlab1;
    }
  else
    {
      yytoken = YYTRANSLATE (yychar);
      YY_SYMBOL_PRINT ("Next token is", yytoken, &yylval, &yylloc);
    }

  /* If the proper action on seeing token YYTOKEN is to reduce or to
     detect an error, take that action.  */
  yyn += yytoken;
  if (yyn < 0 || YYLAST < yyn || yycheck[yyn] != yytoken)
    goto yydefault;
  yyn = yytable[yyn];
  if (yyn <= 0)
    {
      if (yytable_value_is_error (yyn))
        goto yyerrlab;
      yyn = -yyn;
      goto yyreduce;
    }

  /* Count tokens shifted since error; after three, turn off error
     status.  */
  if (yyerrstatus)
    yyerrstatus--;

  /* Shift the lookahead token.  */
  YY_SYMBOL_PRINT ("Shifting", yytoken, &yylval, &yylloc);
  yystate = yyn;
  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  *++yyvsp = yylval;
  YY_IGNORE_MAYBE_UNINITIALIZED_END
  *++yylsp = yylloc;

  /* Discard the shifted token.  */
  yychar = HLO_YYEMPTY;
  goto yynewstate;


/*-----------------------------------------------------------.
| yydefault -- do the default action for the current state.  |
`-----------------------------------------------------------*/
yydefault:
  yyn = yydefact[yystate];
  if (yyn == 0)
    goto yyerrlab;
  goto yyreduce;


/*-----------------------------.
| yyreduce -- do a reduction.  |
`-----------------------------*/
yyreduce:
  /* yyn is the number of a rule to reduce with.  */
  yylen = yyr2[yyn];

  /* If YYLEN is nonzero, implement the default value of the action:
     '$$ = $1'.

     Otherwise, the following line sets YYVAL to garbage.
     This behavior is undocumented and Bison
     users should not rely upon it.  Assigning to YYVAL
     unconditionally makes the parser a bit smaller, and it avoids a
     GCC warning that YYVAL may be used uninitialized.  */
  yyval = yyvsp[1-yylen];

  /* Default location. */
  YYLLOC_DEFAULT (yyloc, (yylsp - yylen), yylen);
  yyerror_range[1] = yyloc;
  YY_REDUCE_PRINT (yyn);
  switch (yyn)
    {
  case 4: /* $@1: %empty  */
#line 112 "ir/parser.y"
                        { parse_begin_computation(context, (yylsp[0]), true, false); }
#line 1643 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 5: /* program: "an instruction" $@1 single  */
#line 113 "ir/parser.y"
          { parse_end_computation(context, NULL); }
#line 1649 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 7: /* single: whole  */
#line 117 "ir/parser.y"
            { parse_finish_instr(context, (yyvsp[0].pending)); }
#line 1655 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 8: /* single: error  */
#line 118 "ir/parser.y"
            { YYABORT; }
#line 1661 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 9: /* $@2: %empty  */
#line 121 "ir/parser.y"
                                       { parse_start_module(context, (yyvsp[-1].span)); }
#line 1667 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 12: /* module_attrs: module_attrs "attribute"  */
#line 123 "ir/parser.y"
                                         { parse_module_attr(context, &(yyvsp[0].attr)); }
#line 1673 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 17: /* part: "stack table"  */
#line 130 "ir/parser.y"
                  { parse_stack_line(context, (yyvsp[0].span)); }
#line 1679 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 18: /* part: error  */
#line 131 "ir/parser.y"
            {
        if (yychar == HLO_YYEOF) YYABORT; /* there is no next statement to go on with */
        yyclearin;
        yyerrok;
        context->resync = true;
    }
#line 1690 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 19: /* $@3: %empty  */
#line 140 "ir/parser.y"
           { parse_begin_computation(context, (yyvsp[0].span), false, true); }
#line 1696 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 20: /* computation: "name" $@3 signature_opt '{' instrs '}' computation_attrs  */
#line 141 "ir/parser.y"
                                                         { parse_end_computation(context, (yyvsp[0].pending)); }
#line 1702 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 21: /* $@4: %empty  */
#line 142 "ir/parser.y"
                 { parse_begin_computation(context, (yyvsp[0].span), true, true); }
#line 1708 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 22: /* computation: "ENTRY" "name" $@4 signature_opt '{' instrs '}' computation_attrs  */
#line 143 "ir/parser.y"
                                                         { parse_end_computation(context, (yyvsp[0].pending)); }
#line 1714 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 23: /* $@5: %empty  */
#line 144 "ir/parser.y"
                { parse_begin_computation(context, (yyvsp[-1].span), true, false); }
#line 1720 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 24: /* computation: "ENTRY" '{' $@5 instrs '}' computation_attrs  */
#line 145 "ir/parser.y"
                                       { parse_end_computation(context, (yyvsp[0].pending)); }
#line 1726 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 25: /* computation_attrs: %empty  */
#line 148 "ir/parser.y"
                          { (yyval.pending) = parse_new_pending(context, (yyloc)); }
#line 1732 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 26: /* computation_attrs: computation_attrs "attribute"  */
#line 149 "ir/parser.y"
                             { parse_add_attr(context, (yyvsp[-1].pending), (yyvsp[0].attr)); (yyval.pending) = (yyvsp[-1].pending); }
#line 1738 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 28: /* signature_opt: '(' signature_items_opt ')' "->" shape  */
#line 153 "ir/parser.y"
                                              { parse_set_result(context, (yyvsp[0].shape), (yylsp[0])); }
#line 1744 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 43: /* instrs: instrs error  */
#line 163 "ir/parser.y"
                   {
        if (yychar == HLO_YYEOF) YYABORT;
        yyclearin;
        yyerrok;
        context->resync = true;
    }
#line 1755 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 44: /* instr: head whole  */
#line 171 "ir/parser.y"
                  {
        (yyvsp[0].pending)->name = (yyvsp[-1].head).name;
        (yyvsp[0].pending)->has_name = true;
        (yyvsp[0].pending)->is_root = (yyvsp[-1].head).is_root;
        parse_finish_instr(context, (yyvsp[0].pending));
    }
#line 1766 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 45: /* head: "name ="  */
#line 179 "ir/parser.y"
           { (yyval.head) = (struct instr_head){(yyvsp[0].span), false}; }
#line 1772 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 46: /* head: "ROOT" "name ="  */
#line 180 "ir/parser.y"
                { (yyval.head) = (struct instr_head){(yyvsp[0].span), true}; }
#line 1778 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 47: /* head: "name" '='  */
#line 181 "ir/parser.y"
               { (yyval.head) = (struct instr_head){(yyvsp[-1].span), false}; }
#line 1784 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 48: /* head: "name" ':' '='  */
#line 182 "ir/parser.y"
                   { (yyval.head) = (struct instr_head){(yyvsp[-2].span), false}; }
#line 1790 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 49: /* head: "ROOT" "name" colon_opt '='  */
#line 183 "ir/parser.y"
                              { (yyval.head) = (struct instr_head){(yyvsp[-2].span), true}; }
#line 1796 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 50: /* operation: "name" '(' operands_opt ')'  */
#line 186 "ir/parser.y"
                                     { (yyval.pending) = (yyvsp[-1].pending); (yyval.pending)->opcode = (yyvsp[-3].span); }
#line 1802 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 51: /* operation: "shape and name" '(' operands_opt ')'  */
#line 187 "ir/parser.y"
                                 {
        (yyval.pending) = (yyvsp[-1].pending);
        (yyval.pending)->opcode = (yyvsp[-3].typed).name;
        (yyval.pending)->shape = (yyvsp[-3].typed).shape;
    }
#line 1812 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 52: /* operation: "constant"  */
#line 192 "ir/parser.y"
               {
        (yyval.pending) = parse_new_pending(context, (struct span){(yylsp[0]).begin, (yylsp[0]).begin + 8});
        (yyval.pending)->has_literal = true;
        (yyval.pending)->literal = (yyvsp[0].span);
    }
#line 1822 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 55: /* typed_operation: shape "operation"  */
#line 201 "ir/parser.y"
                      { (yyval.pending) = (yyvsp[0].pending); parse_set_shape(context, (yyval.pending), (yyvsp[-1].shape), (yylsp[-1])); }
#line 1828 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 56: /* typed_operation: shape operation  */
#line 202 "ir/parser.y"
                      { (yyval.pending) = (yyvsp[0].pending); parse_set_shape(context, (yyval.pending), (yyvsp[-1].shape), (yylsp[-1])); }
#line 1834 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 57: /* operands_opt: %empty  */
#line 205 "ir/parser.y"
                     { (yyval.pending) = parse_new_pending(context, (yyloc)); }
#line 1840 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 60: /* operands: operand  */
#line 207 "ir/parser.y"
                  { (yyval.pending) = parse_new_pending(context, (yyloc)); parse_add_operand(context, (yyval.pending), (yyvsp[0].operand)); }
#line 1846 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 61: /* operands: operands ',' operand  */
#line 208 "ir/parser.y"
                           { (yyval.pending) = (yyvsp[-2].pending); parse_add_operand(context, (yyval.pending), (yyvsp[0].operand)); }
#line 1852 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 62: /* operands: "number"  */
#line 209 "ir/parser.y"
          {
        struct reader reader = reader_new(context, (yyvsp[0].span));
        (yyval.pending) = parse_new_pending(context, (yyloc));
        (yyval.pending)->has_number = true;
        (yyval.pending)->number = reader_int(&reader);
    }
#line 1863 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 63: /* operand: "name"  */
#line 217 "ir/parser.y"
              { (yyval.operand) = (struct operand){NULL, (yyvsp[0].span), NULL}; }
#line 1869 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 64: /* operand: "name" ':'  */
#line 218 "ir/parser.y"
               { (yyval.operand) = (struct operand){NULL, (yyvsp[-1].span), NULL}; }
#line 1875 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 65: /* operand: "shape and name"  */
#line 219 "ir/parser.y"
            { (yyval.operand) = (struct operand){NULL, (yyvsp[0].typed).name, (yyvsp[0].typed).shape}; }
#line 1881 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 66: /* operand: "shape and name" ':'  */
#line 220 "ir/parser.y"
                { (yyval.operand) = (struct operand){NULL, (yyvsp[-1].typed).name, (yyvsp[-1].typed).shape}; }
#line 1887 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 67: /* operand: shape  */
#line 221 "ir/parser.y"
            { (yyval.operand) = (struct operand){NULL, {(yylsp[0]).end, (yylsp[0]).end}, (yyvsp[0].shape)}; }
#line 1893 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 68: /* operand: shape "name" colon_opt  */
#line 222 "ir/parser.y"
                           { (yyval.operand) = (struct operand){NULL, (yyvsp[-1].span), (yyvsp[-2].shape)}; }
#line 1899 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 69: /* operand: nested  */
#line 223 "ir/parser.y"
             { (yyval.operand) = (struct operand){parse_finish_instr(context, (yyvsp[0].pending)), (yylsp[0]), NULL}; }
#line 1905 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 71: /* nested: nested "attribute"  */
#line 227 "ir/parser.y"
                  { (yyval.pending) = (yyvsp[-1].pending); parse_add_attr(context, (yyval.pending), (yyvsp[0].attr)); }
#line 1911 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 72: /* nested: nested "metadata"  */
#line 228 "ir/parser.y"
                      { (yyval.pending) = (yyvsp[-1].pending); set_metadata(context, (yyval.pending), (yyvsp[0].metadata), (yylsp[0])); }
#line 1917 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 73: /* nested: nested called  */
#line 229 "ir/parser.y"
                    { (yyval.pending) = (yyvsp[-1].pending); parse_add_call(context, (yyval.pending), (yyvsp[0].call)); }
#line 1923 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 75: /* whole: whole "attribute"  */
#line 233 "ir/parser.y"
                 { (yyval.pending) = (yyvsp[-1].pending); parse_add_attr(context, (yyval.pending), (yyvsp[0].attr)); }
#line 1929 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 76: /* whole: whole "metadata"  */
#line 234 "ir/parser.y"
                     { (yyval.pending) = (yyvsp[-1].pending); set_metadata(context, (yyval.pending), (yyvsp[0].metadata), (yylsp[0])); }
#line 1935 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 77: /* whole: whole called  */
#line 235 "ir/parser.y"
                   { (yyval.pending) = (yyvsp[-1].pending); parse_add_call(context, (yyval.pending), (yyvsp[0].call)); }
#line 1941 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 79: /* called: "attribute that names a computation" "name"  */
#line 239 "ir/parser.y"
                    {
        (yyval.call) = (yyvsp[-1].call);
        add_computation(context, &(yyval.call), parse_find_computation(context, (yyvsp[0].span)));
    }
#line 1950 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 80: /* called: "attribute that lists computations" '{' names_opt '}'  */
#line 243 "ir/parser.y"
                                    {
        (yyval.call) = (yyvsp[-3].call);
        (yyval.call).count = (yyvsp[-1].call).count;
        (yyval.call).computations = (yyvsp[-1].call).computations;
    }
#line 1960 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 81: /* called: "attribute that lists computations" '{' inlines '}'  */
#line 248 "ir/parser.y"
                                  {
        (yyval.call) = (yyvsp[-3].call);
        (yyval.call).count = (yyvsp[-1].call).count;
        (yyval.call).computations = (yyvsp[-1].call).computations;
    }
#line 1970 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 82: /* called: "attribute with a computation in place" inline  */
#line 253 "ir/parser.y"
                           {
        (yyval.call) = (yyvsp[-1].call);
        add_computation(context, &(yyval.call), (yyvsp[0].computation));
    }
#line 1979 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 83: /* $@6: %empty  */
#line 259 "ir/parser.y"
            { parse_begin_computation(context, (yylsp[0]), false, false); }
#line 1985 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 84: /* inline: '{' $@6 instrs '}'  */
#line 259 "ir/parser.y"
                                                                               {
        (yyval.computation) = context->computation;
        parse_end_computation(context, NULL);
    }
#line 1994 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 85: /* inlines: inline  */
#line 265 "ir/parser.y"
                {
        (yyval.call) = (struct raw_call){.count = 0};
        add_computation(context, &(yyval.call), (yyvsp[0].computation));
    }
#line 2003 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 86: /* inlines: inlines ',' inline  */
#line 269 "ir/parser.y"
                         {
        (yyval.call) = (yyvsp[-2].call);
        add_computation(context, &(yyval.call), (yyvsp[0].computation));
    }
#line 2012 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 87: /* names_opt: %empty  */
#line 275 "ir/parser.y"
                  { (yyval.call) = (struct raw_call){.count = 0}; }
#line 2018 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 90: /* names: "name"  */
#line 277 "ir/parser.y"
            {
        (yyval.call) = (struct raw_call){.count = 0};
        add_computation(context, &(yyval.call), parse_find_computation(context, (yyvsp[0].span)));
    }
#line 2027 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 91: /* names: names ',' "name"  */
#line 281 "ir/parser.y"
                     {
        (yyval.call) = (yyvsp[-2].call);
        add_computation(context, &(yyval.call), parse_find_computation(context, (yyvsp[0].span)));
    }
#line 2036 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 93: /* shape: '(' shapes_opt ')'  */
#line 288 "ir/parser.y"
                         { (yyval.shape) = finish_tuple(context, TYPE_TUPLE, (yyvsp[-1].items), (yyloc)); }
#line 2042 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 94: /* shape: "b(" shape ')'  */
#line 289 "ir/parser.y"
                       {
        struct shape_items items = {.count = 1, .items = &(yyvsp[-1].shape)};
        (yyval.shape) = finish_tuple(context, TYPE_BUFFER, &items, (yyloc));
    }
#line 2051 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 95: /* shapes_opt: %empty  */
#line 295 "ir/parser.y"
                   { (yyval.items) = arena_alloc(context->module->arena, sizeof *(yyval.items)); }
#line 2057 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 98: /* shapes: shape  */
#line 300 "ir/parser.y"
              {
        (yyval.items) = arena_alloc(context->module->arena, sizeof *(yyval.items));
        add_shape(context, (yyval.items), (yyvsp[0].shape));
    }
#line 2066 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;

  case 99: /* shapes: shapes ',' shape  */
#line 304 "ir/parser.y"
                       { (yyval.items) = (yyvsp[-2].items); add_shape(context, (yyval.items), (yyvsp[0].shape)); }
#line 2072 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"
    break;


#line 2076 "/tmp/rows/w3/--help/aarch64/gen/ir/parser.c"

      default: break;
    }
  /* User semantic actions sometimes alter yychar, and that requires
     that yytoken be updated with the new translation.  We take the
     approach of translating immediately before every use of yytoken.
     One alternative is translating here after every semantic action,
     but that translation would be missed if the semantic action invokes
     YYABORT, YYACCEPT, or YYERROR immediately after altering yychar or
     if it invokes YYBACKUP.  In the case of YYABORT or YYACCEPT, an
     incorrect destructor might then be invoked immediately.  In the
     case of YYERROR or YYBACKUP, subsequent parser actions might lead
     to an incorrect destructor call or verbose syntax error message
     before the lookahead is translated.  */
  YY_SYMBOL_PRINT ("-> $$ =", YY_CAST (yysymbol_kind_t, yyr1[yyn]), &yyval, &yyloc);

  YYPOPSTACK (yylen);
  yylen = 0;

  *++yyvsp = yyval;
  *++yylsp = yyloc;

  /* Now 'shift' the result of the reduction.  Determine what state
     that goes to, based on the state we popped back to and the rule
     number reduced by.  */
  {
    const int yylhs = yyr1[yyn] - YYNTOKENS;
    const int yyi = yypgoto[yylhs] + *yyssp;
    yystate = (0 <= yyi && yyi <= YYLAST && yycheck[yyi] == *yyssp
               ? yytable[yyi]
               : yydefgoto[yylhs]);
  }

  goto yynewstate;


/*--------------------------------------.
| yyerrlab -- here on detecting error.  |
`--------------------------------------*/
yyerrlab:
  /* Make sure we have latest lookahead translation.  See comments at
     user semantic actions for why this is necessary.  */
  yytoken = yychar == HLO_YYEMPTY ? YYSYMBOL_YYEMPTY : YYTRANSLATE (yychar);
  /* If not already recovering from an error, report this error.  */
  if (!yyerrstatus)
    {
      ++yynerrs;
      {
        yypcontext_t yyctx
          = {yyssp, yytoken, &yylloc};
        char const *yymsgp = YY_("syntax error");
        int yysyntax_error_status;
        yysyntax_error_status = yysyntax_error (&yymsg_alloc, &yymsg, &yyctx);
        if (yysyntax_error_status == 0)
          yymsgp = yymsg;
        else if (yysyntax_error_status == -1)
          {
            if (yymsg != yymsgbuf)
              YYSTACK_FREE (yymsg);
            yymsg = YY_CAST (char *,
                             YYSTACK_ALLOC (YY_CAST (YYSIZE_T, yymsg_alloc)));
            if (yymsg)
              {
                yysyntax_error_status
                  = yysyntax_error (&yymsg_alloc, &yymsg, &yyctx);
                yymsgp = yymsg;
              }
            else
              {
                yymsg = yymsgbuf;
                yymsg_alloc = sizeof yymsgbuf;
                yysyntax_error_status = YYENOMEM;
              }
          }
        yyerror (&yylloc, scanner, context, yymsgp);
        if (yysyntax_error_status == YYENOMEM)
          YYNOMEM;
      }
    }

  yyerror_range[1] = yylloc;
  if (yyerrstatus == 3)
    {
      /* If just tried and failed to reuse lookahead token after an
         error, discard it.  */

      if (yychar <= HLO_YYEOF)
        {
          /* Return failure if at end of input.  */
          if (yychar == HLO_YYEOF)
            YYABORT;
        }
      else
        {
          yydestruct ("Error: discarding",
                      yytoken, &yylval, &yylloc, scanner, context);
          yychar = HLO_YYEMPTY;
        }
    }

  /* Else will try to reuse lookahead token after shifting the error
     token.  */
  goto yyerrlab1;


/*---------------------------------------------------.
| yyerrorlab -- error raised explicitly by YYERROR.  |
`---------------------------------------------------*/
yyerrorlab:
  /* Pacify compilers when the user code never invokes YYERROR and the
     label yyerrorlab therefore never appears in user code.  */
  if (0)
    YYERROR;
  ++yynerrs;

  /* Do not reclaim the symbols of the rule whose action triggered
     this YYERROR.  */
  YYPOPSTACK (yylen);
  yylen = 0;
  YY_STACK_PRINT (yyss, yyssp);
  yystate = *yyssp;
  goto yyerrlab1;


/*-------------------------------------------------------------.
| yyerrlab1 -- common code for both syntax error and YYERROR.  |
`-------------------------------------------------------------*/
yyerrlab1:
  yyerrstatus = 3;      /* Each real token shifted decrements this.  */

  /* Pop stack until we find a state that shifts the error token.  */
  for (;;)
    {
      yyn = yypact[yystate];
      if (!yypact_value_is_default (yyn))
        {
          yyn += YYSYMBOL_YYerror;
          if (0 <= yyn && yyn <= YYLAST && yycheck[yyn] == YYSYMBOL_YYerror)
            {
              yyn = yytable[yyn];
              if (0 < yyn)
                break;
            }
        }

      /* Pop the current state because it cannot handle the error token.  */
      if (yyssp == yyss)
        YYABORT;

      yyerror_range[1] = *yylsp;
      yydestruct ("Error: popping",
                  YY_ACCESSING_SYMBOL (yystate), yyvsp, yylsp, scanner, context);
      YYPOPSTACK (1);
      yystate = *yyssp;
      YY_STACK_PRINT (yyss, yyssp);
    }

  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  *++yyvsp = yylval;
  YY_IGNORE_MAYBE_UNINITIALIZED_END

  yyerror_range[2] = yylloc;
  ++yylsp;
  YYLLOC_DEFAULT (*yylsp, yyerror_range, 2);

  /* Shift the error token.  */
  YY_SYMBOL_PRINT ("Shifting", YY_ACCESSING_SYMBOL (yyn), yyvsp, yylsp);

  yystate = yyn;
  goto yynewstate;


/*-------------------------------------.
| yyacceptlab -- YYACCEPT comes here.  |
`-------------------------------------*/
yyacceptlab:
  yyresult = 0;
  goto yyreturnlab;


/*-----------------------------------.
| yyabortlab -- YYABORT comes here.  |
`-----------------------------------*/
yyabortlab:
  yyresult = 1;
  goto yyreturnlab;


/*-----------------------------------------------------------.
| yyexhaustedlab -- YYNOMEM (memory exhaustion) comes here.  |
`-----------------------------------------------------------*/
yyexhaustedlab:
  yyerror (&yylloc, scanner, context, YY_("memory exhausted"));
  yyresult = 2;
  goto yyreturnlab;


/*----------------------------------------------------------.
| yyreturnlab -- parsing is finished, clean up and return.  |
`----------------------------------------------------------*/
yyreturnlab:
  if (yychar != HLO_YYEMPTY)
    {
      /* Make sure we have latest lookahead translation.  See comments at
         user semantic actions for why this is necessary.  */
      yytoken = YYTRANSLATE (yychar);
      yydestruct ("Cleanup: discarding lookahead",
                  yytoken, &yylval, &yylloc, scanner, context);
    }
  /* Do not reclaim the symbols of the rule whose action triggered
     this YYABORT or YYACCEPT.  */
  YYPOPSTACK (yylen);
  YY_STACK_PRINT (yyss, yyssp);
  while (yyssp != yyss)
    {
      yydestruct ("Cleanup: popping",
                  YY_ACCESSING_SYMBOL (+*yyssp), yyvsp, yylsp, scanner, context);
      YYPOPSTACK (1);
    }
#ifndef yyoverflow
  if (yyss != yyssa)
    YYSTACK_FREE (yyss);
#endif
  if (yymsg != yymsgbuf)
    YYSTACK_FREE (yymsg);
  return yyresult;
}

#line 307 "ir/parser.y"


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
