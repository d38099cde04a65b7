/* The user's functions that custom calls run: registered ones, those of a shared library, and names
 * that will be linked. */
#ifndef COMPILER_FUNCTIONS_H
#define COMPILER_FUNCTIONS_H

#include "backend/cpu/cpu.h"
#include "compiler/target.h"

struct function_set {
    struct cpu_function *list;
    int count;
    void *library; /* of dlopen, or NULL */
};

/* The functions for the module's custom calls; names belong to the module and the options. False
 * with an error in diag where the library cannot be loaded. */
bool functions_find(struct function_set *set, const struct hlo_module *module,
                    const struct target_options *options, struct diag *diag);
void functions_free(struct function_set *set);

#endif
