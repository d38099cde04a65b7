#include "ir/custom_call.h"

#include <stdlib.h>
#include <string.h>

bool custom_call_is_annotation(const char *target) {
    static const char *const names[] = {
        "Sharding",   "SPMDFullToShardShape", "SPMDShardToFullShape",      "LayoutConstraint",
        "MoveToHost", "MoveToDevice",         "annotate_device_placement", "InspectSharding",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(target, names[i]) == 0) return true;
    return strncmp(target, "xla.sdy.", 8) == 0;
}

/* What stands behind "key =" in the configuration, or NULL. */
static const char *value_of(const struct hlo_instr *instr, const char *key) {
    const char *text = instr_text(instr, ATTR_BACKEND_CONFIG);
    const char *at = text ? strstr(text, key) : NULL;
    at = at ? strchr(at, '=') : NULL;
    return at ? at + 1 : NULL;
}

int custom_call_letter(const struct hlo_instr *instr, const char *key, int otherwise) {
    const char *value = value_of(instr, key);
    return value ? atoi(value) : otherwise;
}

bool custom_call_flag(const struct hlo_instr *instr, const char *key, bool otherwise) {
    const char *value = value_of(instr, key);
    return value ? strncmp(value + strspn(value, " "), "true", 4) == 0 : otherwise;
}

const char *custom_call_lapack_routine(const struct hlo_instr *instr) {
    static const struct {
        const char *target, *routine;
    } of_xla[] = {{"Qr", "geqrf_ffi"},
                  {"ProductOfElementaryHouseholderReflectors", "orgqr_ffi"},
                  {"Eigh", "eigh"}};
    static const char prefix[] = "lapack_?";
    const char *target = instr_text(instr, ATTR_CUSTOM_CALL_TARGET);
    if (!target) return NULL;
    if (strncmp(target, prefix, sizeof prefix - 2) == 0)
        return strlen(target) >= sizeof prefix ? target + sizeof prefix - 1 : NULL;
    for (size_t i = 0; i < sizeof of_xla / sizeof *of_xla; i++)
        if (strcmp(target, of_xla[i].target) == 0) return of_xla[i].routine;
    return NULL;
}

bool custom_call_reads_lower(const struct hlo_instr *instr) {
    const char *routine = custom_call_lapack_routine(instr);
    if (routine && strcmp(routine, "eigh") == 0) {
        /* "lower,sorted,sweeps,tolerance" */
        const char *text = instr_text(instr, ATTR_BACKEND_CONFIG);
        return !text || atoi(text) != 0;
    }
    return custom_call_letter(instr, "uplo", 'L') == 'L';
}

bool topk_is_largest(const struct hlo_instr *instr) {
    const char *config = instr_text(instr, ATTR_BACKEND_CONFIG);
    if (instr->opcode == OP_CUSTOM_CALL && config) {
        const char *word = strstr(config, "largest");
        return !word || !strstr(word, "false");
    }
    return instr_bool(instr, ATTR_LARGEST, true);
}
