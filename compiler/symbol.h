/* Names for compiled functions. */
#ifndef COMPILER_SYMBOL_H
#define COMPILER_SYMBOL_H

#include <stdbool.h>

/* Letters, digits and underscores. */
bool symbol_is_name(const char *text);
/* A word of C or C++, `main`, a function of the C library or libm, which the code may call (a model
 * in exp.hlo must not become the exp of the program it is linked into), or one of the runtime. */
bool symbol_is_taken(const char *name);

#endif
