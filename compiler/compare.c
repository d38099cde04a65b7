#include "compiler/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

double compare_default_tolerance(enum element_type type) {
    const struct element_type_info *info = element_type_info(type);
    if (info->kind != KIND_FLOAT && info->kind != KIND_COMPLEX) return 0;
    if (type == TYPE_F64 || type == TYPE_C128) return 1e-12;
    return type == TYPE_F32 || type == TYPE_C64 ? 1e-5 : 1e-2;
}

static double magnitude(const double v[2]) {
    return hypot(v[0], v[1]);
}

static bool any_nan(const double v[2]) {
    return isnan(v[0]) || isnan(v[1]);
}

/* The error of one element and INFINITY where no tolerance can excuse it. */
static double element_error(const double got[2], const double want[2]) {
    if (any_nan(got) || any_nan(want)) return any_nan(got) == any_nan(want) ? 0 : INFINITY;
    double parts[2];
    for (int i = 0; i < 2; i++) {
        bool finite = isfinite(got[i]) && isfinite(want[i]);
        if (!finite && got[i] != want[i]) return INFINITY;
        parts[i] = finite ? got[i] - want[i] : 0;
    }
    return magnitude(parts);
}

static void describe(char *text, size_t size, const struct literal *literal, int64_t index) {
    const struct element_type_info *info = element_type_info(literal->shape->type);
    double v[2];
    switch (info->kind) {
    case KIND_COMPLEX:
        literal_get_complex(literal, index, v);
        snprintf(text, size, "(%.9g, %.9g)", v[0], v[1]);
        break;
    case KIND_FLOAT:
        snprintf(text, size, info->bits > 32 ? "%.17g" : "%.9g",
                 literal_get_double(literal, index));
        break;
    case KIND_UNSIGNED:
        snprintf(text, size, "%" PRIu64, (uint64_t)literal_get_int(literal, index));
        break;
    default: snprintf(text, size, "%" PRId64, literal_get_int(literal, index));
    }
}

static double largest_finite(const struct literal *literal) {
    double largest = 0, v[2];
    for (int64_t i = 0; i < literal->shape->count; i++) {
        literal_get_complex(literal, i, v);
        double m = magnitude(v);
        if (isfinite(m) && m > largest) largest = m;
    }
    return largest;
}

static void compare_floats(struct comparison *result, const struct literal *got,
                           const struct literal *want, double tolerance) {
    double largest = largest_finite(want);
    for (int64_t i = 0; i < want->shape->count; i++) {
        double g[2], w[2];
        literal_get_complex(got, i, g);
        literal_get_complex(want, i, w);
        double error = element_error(g, w), m = magnitude(w);
        double allowed = tolerance * fmax(isfinite(m) ? m : 0, fmin(1, largest));
        if (largest == 0) allowed = 1e-6;
        if (error == 0 || error <= allowed) continue;
        double excess = allowed > 0 ? error / allowed : INFINITY;
        if (!result->equal && !(excess > result->excess)) continue;
        *result =
            (struct comparison){.index = i, .excess = excess, .error = error, .allowed = allowed};
    }
}

struct comparison compare_arrays(const struct literal *got, const struct literal *want,
                                 double tolerance) {
    struct comparison result = {.equal = true};
    const struct element_type_info *info = element_type_info(want->shape->type);
    int64_t count = want->shape->count;
    if (info->kind == KIND_FLOAT || info->kind == KIND_COMPLEX) {
        if (tolerance < 0) tolerance = compare_default_tolerance(want->shape->type);
        /* Bit for bit the same is common, and quick to see. */
        if (want->size && memcmp(got->data, want->data, want->size) == 0) return result;
        compare_floats(&result, got, want, tolerance);
    } else {
        for (int64_t i = 0; i < count && result.equal; i++) {
            if (literal_get_int(got, i) == literal_get_int(want, i)) continue;
            result = (struct comparison){.index = i, .excess = INFINITY, .error = INFINITY};
        }
    }
    if (!result.equal) {
        describe(result.got, sizeof result.got, got, result.index);
        describe(result.want, sizeof result.want, want, result.index);
    }
    return result;
}
