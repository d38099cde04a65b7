/* The main function of executables: a compiled program around .npy files. */
#ifndef RUNTIME_CPU_DRIVER_H
#define RUNTIME_CPU_DRIVER_H

#include <stddef.h>

typedef int hlocc_rt_entry(const void *const *inputs, void *const *outputs, void *workspace);

/* Reads the inputs, runs the program, writes the results; the exit status: 0 done, 1 the files or
 * the program are at fault, 2 the command line is. One text an array: "KIND SIZE BITS SIGN TYPE
 * RANK DIMS... NAME" with numpy's kind of the elements, their bytes and bits, s or u for integers
 * and - for others, the HLO type, the dimensions, and what to call the array. */
int hlocc_rt_main(int argc, char **argv, int ninputs, const char *const *inputs, int noutputs,
                  const char *const *outputs, hlocc_rt_entry *entry, size_t workspace_size);

#endif
