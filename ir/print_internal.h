/* What the printer's files share. */
#ifndef IR_PRINT_INTERNAL_H
#define IR_PRINT_INTERNAL_H

#include "ir/print.h"

void print_quoted(FILE *out, const char *text); /* with quotes, escaped */
void print_ints(FILE *out, int count, const int64_t *v);
void print_aliases(FILE *out, const struct alias_list *list);
/* `, key=value`. */
void print_attr(FILE *out, const struct hlo_attr *attr, const struct print_options *options);
void print_metadata(FILE *out, const struct hlo_metadata *metadata);

#endif
