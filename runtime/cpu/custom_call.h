/* Functions of the user's own that a program's custom calls run.
 *
 *     int NAME(const struct hlocc_custom_call *call);
 *
 * NAME is the custom call's target. The function reads the inputs, writes every element of the
 * outputs and returns 0. On failure it may write a reason to `message` and returns anything else:
 * the program ends there, its entry returns HLOCC_STATUS_CUSTOM_CALL, and the workspace starts
 * with the reason as a string. Several threads may call it at once where they run the program at
 * once. Subnormal floats are flushed to zero while it runs. */
#ifndef HLOCC_CUSTOM_CALL_H
#define HLOCC_CUSTOM_CALL_H

#include <stddef.h>
#include <stdint.h>

/* What a compiled program's entry returns. */
enum hlocc_status {
    HLOCC_STATUS_OK,
    HLOCC_STATUS_WORKSPACE,  /* the workspace is NULL or not aligned to 64 bytes */
    HLOCC_STATUS_NULL,       /* an input or output is NULL */
    HLOCC_STATUS_CUSTOM_CALL /* a custom call failed */
};

enum { HLOCC_MESSAGE_SIZE = 256 };

/* Row-major; elements of less than 8 bits take a byte each, pred one of 0 or 1. */
struct hlocc_call_array {
    const char *type; /* as in HLO text: "f32" */
    int64_t rank;
    const int64_t *dims;
    void *data; /* inputs are not to be written */
};

/* Tuples come as their arrays, in order. */
struct hlocc_custom_call {
    int32_t ninputs, noutputs;
    const struct hlocc_call_array *inputs, *outputs;
    const char *config; /* backend_config as written, or "" */
    char *message;      /* an empty string at first */
    size_t message_size;
};

typedef int hlocc_custom_function(const struct hlocc_custom_call *call);

#endif
