/* A program from a file: its text, its module, its diagnostics. */
#ifndef COMPILER_LOAD_H
#define COMPILER_LOAD_H

#include "compiler/io.h"
#include "ir/hlo.h"

struct program {
    struct bytes text;
    struct diag diag;
    struct hlo_module *module;
};

/* Reads, parses and verifies; diagnostics go to standard error. False where the file cannot be
 * read or the program has errors; the program must be freed either way. */
bool program_load(struct program *program, const char *path);
void program_free(struct program *program);
/* Prints the diagnostics gathered since the last report, and clears them. */
void program_report(struct program *program);

/* Whether the text left out the values of a constant, `{...}`. */
bool module_has_elided(const struct hlo_module *module);

enum elided_policy { ELIDED_ERROR, ELIDED_ZERO, ELIDED_RANDOM };

/* Puts values where the text left them out; under ELIDED_ERROR reports each such constant. */
bool program_fill_elided(struct program *program, enum elided_policy policy);

/* ---- values ---- */

/* Uniform values that depend on seed and stream alone: floats in [-1,1), integers in [0,8) (fewer
 * where the type is narrower), pred 0 or 1. */
void literal_fill_random(struct literal *literal, uint64_t seed, uint64_t stream);

/* Flat parameters and results: the arrays among the leaves, in order. */
int shape_array_leaves(const struct shape *shape);
/* Array leaf `index` of a shape, NULL past the last. */
const struct shape *shape_array_leaf(const struct shape *shape, int index);
int module_flat_parameters(const struct hlo_module *module);
const struct shape *module_flat_parameter(const struct hlo_module *module, int index);
/* One literal a parameter of the entry, out of one a flat parameter; takes the references. NULL
 * where memory is short. The array is malloc memory. */
struct literal **module_arguments(const struct hlo_module *module, struct literal **flat);
void literals_free(struct literal **literals, int count); /* the array too */
/* Array leaf `index` of a value; no reference taken. */
const struct literal *literal_array_leaf(const struct literal *literal, int index);

#endif
