/* The C header of a compiled program, and the main function of an executable one. */
#ifndef COMPILER_HEADER_H
#define COMPILER_HEADER_H

#include <stdio.h>

#include "ir/hlo.h"

/* Declares the entry and spells out every input's and output's type and shape. */
void header_write(FILE *out, const struct hlo_module *module, const char *symbol);
/* A C program around the function: .npy files in, .npy files out (runtime/cpu/driver.h). */
void driver_write(FILE *out, const struct hlo_module *module, const char *symbol);

#endif
