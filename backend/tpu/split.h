/* Products that are too large for VMEM, in pieces. */
#ifndef BACKEND_TPU_SPLIT_H
#define BACKEND_TPU_SPLIT_H

#include "backend/tpu/product.h"

/* Divides dots and convolutions whose results would fill more than half of VMEM, but those that
 * stream through it (lower_matmul). True where it changed the module. */
bool tpu_split_products(struct hlo_module *module, const struct tpu_compile_options *options);

#endif
