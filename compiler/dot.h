/* A module as a graph for Graphviz. */
#ifndef COMPILER_DOT_H
#define COMPILER_DOT_H

#include <stdio.h>

#include "ir/hlo.h"

/* One cluster a computation; an edge from each operand to its user; dashed edges from what calls a
 * computation to its root. Names are escaped, nothing else is left out. */
void module_print_dot(FILE *out, const struct hlo_module *module);

#endif
