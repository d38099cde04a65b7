/* HLO text with words to be filled in, brought into a module: algorithms that expanders stand for
 * operations. */
#ifndef PASSES_TEMPLATE_H
#define PASSES_TEMPLATE_H

#include "ir/hlo.h"

/* `$name` in a template becomes `text`; where that has a `%`, `$name(argument)` becomes it with the
 * argument, itself filled in, for each `%`. Names are letters and digits; the longest one that is
 * there counts. */
struct template_word {
    const char *name, *text;
};

/* The text with all words filled in, in the arena. Words that the list lacks stay. */
const char *template_fill(struct arena *arena, const char *text, const struct template_word *words,
                          int count);
/* The text of a module becomes computations of `module`; returns what was its entry. Instructions
 * stand for `origin`: its place and metadata. NULL with an error in diag where the text is no
 * module. */
struct hlo_computation *template_import(struct hlo_module *module, const char *text,
                                        const struct hlo_instr *origin, struct diag *diag);
/* The text stands for the instruction, which goes away: a call of it, with the instruction's
 * operands and then `count` more (constants, say), which stand before it. False with an error in
 * diag. */
bool template_replace(struct hlo_instr *instr, const char *text, int count,
                      struct hlo_instr *const *more, struct diag *diag);

#endif
