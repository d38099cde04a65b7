/* custom-call target "checked_root": square roots of f32; negative values fail. */
#include <math.h>
#include <stdio.h>

#include "runtime/cpu/custom_call.h"

int checked_root(const struct hlocc_custom_call *call) {
    const float *x = call->inputs[0].data;
    float *y = call->outputs[0].data;
    int64_t count = 1;
    for (int64_t d = 0; d < call->inputs[0].rank; d++)
        count *= call->inputs[0].dims[d];
    for (int64_t i = 0; i < count; i++) {
        if (x[i] < 0) {
            snprintf(call->message, call->message_size, "element %d is negative", (int)i);
            return 1;
        }
        y[i] = sqrtf(x[i]);
    }
    return 0;
}
