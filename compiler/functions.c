#include "compiler/functions.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/io.h"

static bool add(struct function_set *set, struct cpu_function function) {
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->list[i].name, function.name) == 0) return true;
    struct cpu_function *list =
        realloc(set->list, (size_t)(set->count + 1) * sizeof(struct cpu_function));
    if (!list) return false;
    set->list = list;
    list[set->count++] = function;
    return true;
}

/* Whether a list "a,b" has the name. */
static bool lists(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, name, n) == 0) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* The function for one target, where there is one. */
static bool add_target(struct function_set *set, const char *target,
                       const struct target_options *options) {
    for (int i = options->nfunctions - 1; i >= 0; i--) /* the last one registered */
        if (strcmp(options->functions[i].name, target) == 0) return add(set, options->functions[i]);
    struct cpu_function function = {.name = target};
    void *address = set->library ? dlsym(set->library, target) : NULL;
    memcpy(&function.address, &address, sizeof address);
    return (!address && !lists(options->custom_calls, target)) || add(set, function);
}

bool functions_find(struct function_set *set, const struct hlo_module *module,
                    const struct target_options *options, struct diag *diag) {
    bool enough = true;
    *set = (struct function_set){0};
    if (options->library) {
        /* A name without a slash is a file here, not one of the system's libraries. */
        char *path =
            text_format("%s%s", strchr(options->library, '/') ? "" : "./", options->library);
        set->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        free(path);
        if (!set->library) {
            diag_error(diag, (struct src_loc){0}, "no library of functions: %s", dlerror());
            return false;
        }
    }
    FOR_EACH_COMPUTATION(c, module) {
        for (const struct hlo_instr *i = c->first; i && enough; i = i->next) {
            const char *target =
                i->opcode == OP_CUSTOM_CALL ? instr_text(i, ATTR_CUSTOM_CALL_TARGET) : NULL;
            if (target && cpu_is_symbol(target)) enough = add_target(set, target, options);
        }
    }
    if (enough) return true;
    diag_error(diag, (struct src_loc){0}, "out of memory");
    functions_free(set);
    return false;
}

void functions_free(struct function_set *set) {
    free(set->list);
    if (set->library) dlclose(set->library);
    *set = (struct function_set){0};
}
