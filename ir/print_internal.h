#ifndef IR_PRINT_INTERNAL_H
#define IR_PRINT_INTERNAL_H

#include "ir/print.h"

/* ", name=value" for one attribute. */
void print_attr(FILE *out, const struct hlo_attr *attr, const struct print_options *options);
void print_ints(FILE *out, struct int_list list);
void print_quoted(FILE *out, const char *text);
void print_aliases(FILE *out, const struct alias_list *list);

#endif
