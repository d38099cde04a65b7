/* HLO text to a module. */
#ifndef IR_PARSE_H
#define IR_PARSE_H

#include "ir/hlo.h"

/* Reads the text (any bytes, not NUL-terminated; diag->source and source_size) into a verified
 * module: ir/verify.h has run on it, result shapes that were left out are inferred. NULL where
 * diag got an error. Warnings may be left in diag either way. */
struct hlo_module *hlo_parse(struct diag *diag);
/* The same without the verifier (tests of the parser alone). */
struct hlo_module *hlo_parse_unverified(struct diag *diag);

#endif
