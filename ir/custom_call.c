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

bool topk_is_largest(const struct hlo_instr *instr) {
    const char *config = instr_text(instr, ATTR_BACKEND_CONFIG);
    if (instr->opcode == OP_CUSTOM_CALL && config) {
        const char *word = strstr(config, "largest");
        return !word || !strstr(word, "false");
    }
    return instr_bool(instr, ATTR_LARGEST, true);
}
