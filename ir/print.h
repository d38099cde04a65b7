/* A module as HLO text that hlo_parse and XLA read back. */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include "ir/hlo.h"

struct print_options {
    bool percent;        /* % before names */
    bool operand_shapes; /* add(f32[2] a, f32[2] b) */
    bool metadata;       /* metadata=, and the stack tables */
    bool backend_config;
    bool layouts;         /* {1,0} after shapes */
    int64_t max_constant; /* elements printed of a constant; above it `{...}`; -1: all */
};

/* Full: everything that is needed to read the same module back. */
struct print_options print_options_full(void);
/* Short: no metadata, large constants elided: for people. */
struct print_options print_options_short(void);

void module_print(FILE *out, const struct hlo_module *module, const struct print_options *options);
void computation_print(FILE *out, const struct hlo_computation *computation,
                       const struct print_options *options);
/* One instruction, without indentation and newline. */
void instr_print(FILE *out, const struct hlo_instr *instr, const struct print_options *options);
void shape_print(FILE *out, const struct shape *shape, bool layouts);
/* The text inside constant(...), nested braces for arrays of rank 1 and more. */
void literal_print(FILE *out, const struct literal *literal, int64_t max_elements);
/* In malloc memory, NUL-terminated. */
char *module_to_string(const struct hlo_module *module, const struct print_options *options);

#endif
