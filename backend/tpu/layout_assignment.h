/* Layouts of a program's own values, chosen so that little is padding. */
#ifndef BACKEND_TPU_LAYOUT_ASSIGNMENT_H
#define BACKEND_TPU_LAYOUT_ASSIGNMENT_H

#include "backend/tpu/tpu.h"

/* Gives every value of a module, in which all layouts are row-major and fusion is done, the order
 * of dimensions that its kernels cost least with; parameters and results have the orders that the
 * entry's layout states. Where two orders meet a copy goes in, or a bitcast where both mean the
 * same places; reshapes and transposes that move nothing become bitcasts. Copies that memory needs
 * must be added after it. */
void tpu_assign_layouts(struct hlo_module *module, const struct tpu_compile_options *options);

#endif
