/* A while instruction whose state is a plain tuple: what the passes over loops work on. */
#ifndef PASSES_WHILE_LOOP_H
#define PASSES_WHILE_LOOP_H

#include "ir/hlo.h"

struct while_loop {
    struct hlo_instr *loop, *init; /* init: the tuple that goes in */
    struct hlo_computation *condition, *body;
    struct hlo_instr *body_parameter, *condition_parameter;
    struct hlo_instr *root; /* the tuple that the body makes */
    int count;              /* elements of the state */
};

/* Counts in data how often each computation is called, for while_open. */
void count_callers(struct hlo_module *module);
/* True where the state goes in and out of the body by `tuple`, is read by get-tuple-element alone,
 * and body and condition belong to this loop. */
bool while_open(struct hlo_instr *instr, struct while_loop *loop);
/* Element k comes back as it went in. */
bool while_is_invariant(const struct while_loop *loop, int k);
/* Uses of element k of `state` (the loop or a parameter) become uses of `with`. */
bool while_replace_element(struct hlo_instr *state, int k, struct hlo_instr *with);
/* Leaves out the elements that are not kept and what computes only them; nobody may read them. */
void while_keep(struct while_loop *loop, const bool *keep);
/* Adds invariant elements; returns the number of the first. */
int while_add(struct while_loop *loop, int count, struct hlo_instr *const *init);
/* Copies the body before the loop; state[]: count values, before and after. */
void while_inline_body(const struct while_loop *loop, struct hlo_instr **state);
/* Removes what nobody uses. Needs mark_side_effects. */
void remove_unused(struct hlo_computation *computation);

#endif
