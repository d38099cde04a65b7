/* Bundles filled one instruction at a time: a free slot, immediates and ports that may be shared.
 */
#ifndef BACKEND_TPU_PACK_H
#define BACKEND_TPU_PACK_H

#include "backend/tpu/mir.h"

struct packing {
    struct tpu_bundle *bundle;
    uint8_t imms, ports; /* in use */
};

/* Adds an instruction on physical registers. False, with nothing changed, where the bundle has no
 * room for it. A branch takes pair 0, which stays 0. */
bool pack_op(struct packing *packing, const struct mop *op);
/* Fills an empty bundle with `n` instructions, those that need a certain immediate or port first.
 * False where they do not fit. */
enum { PACK_MOST = 16 };
bool pack_row(struct packing *packing, const struct mop *const *ops, int n);
/* Runs of empty bundles become stalls in the bundle before them, or in the first of them; those in
 * a branch's delay stay. now[i]: where bundle i is then. Returns how many are left. */
int pack_squeeze(struct tpu_bundle *bundles, int count, int *now);

#endif
