/* Attributes as text, by kind. */
#include <inttypes.h>
#include <string.h>

#include "ir/print_internal.h"

void print_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '\n') fputs("\\n", out);
        else if (*text == '\r') fputs("\\r", out);
        else if (*text == '\t') fputs("\\t", out);
        else {
            if (*text == '"' || *text == '\\') fputc('\\', out);
            fputc(*text, out);
        }
    }
    fputc('"', out);
}

void print_ints(FILE *out, struct int_list list) {
    fputc('{', out);
    for (int i = 0; i < list.count; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", list.v[i]);
    fputc('}', out);
}

static void print_int_lists(FILE *out, const struct int_lists *lists) {
    fputc('{', out);
    for (int i = 0; i < lists->count; i++) {
        if (i) fputc(',', out);
        print_ints(out, lists->v[i]);
    }
    fputc('}', out);
}

static void print_slices(FILE *out, const struct slice_list *list) {
    fputc('{', out);
    for (int i = 0; i < list->count; i++) {
        const struct slice_dim *dim = &list->v[i];
        fprintf(out, "%s[%" PRId64 ":%" PRId64, i ? ", " : "", dim->start, dim->limit);
        if (dim->stride != 1) fprintf(out, ":%" PRId64, dim->stride);
        fputc(']', out);
    }
    fputc('}', out);
}

static void print_padding(FILE *out, const struct padding_config *config) {
    bool interior = false;
    for (int i = 0; i < config->count; i++)
        interior |= config->v[i].interior != 0;
    for (int i = 0; i < config->count; i++) {
        fprintf(out, "%s%" PRId64 "_%" PRId64, i ? "x" : "", config->v[i].low, config->v[i].high);
        if (interior) fprintf(out, "_%" PRId64, config->v[i].interior);
    }
}

enum window_field { FIELD_SIZE, FIELD_STRIDE, FIELD_PAD, FIELD_LHS, FIELD_RHS, FIELD_REVERSAL };

static int64_t window_value(const struct window_dim *dim, enum window_field field) {
    switch (field) {
    case FIELD_SIZE: return dim->size;
    case FIELD_STRIDE: return dim->stride;
    case FIELD_PAD: return dim->pad_low;
    case FIELD_LHS: return dim->lhs_dilate;
    case FIELD_RHS: return dim->rhs_dilate;
    default: return dim->reversed;
    }
}

/* A field that has its usual value everywhere is left out. */
static bool window_needs(const struct window *window, enum window_field field) {
    for (int i = 0; i < window->count; i++) {
        const struct window_dim *dim = &window->v[i];
        if (field == FIELD_PAD ? dim->pad_low || dim->pad_high
                               : window_value(dim, field) != (field == FIELD_REVERSAL ? 0 : 1))
            return true;
    }
    return field == FIELD_SIZE && window->count;
}

static void print_window(FILE *out, const struct window *window) {
    static const char *const names[] = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate",
                                        "rhs_reversal"};
    fputc('{', out);
    for (int field = FIELD_SIZE; field <= FIELD_REVERSAL; field++) {
        if (!window_needs(window, field)) continue;
        fprintf(out, "%s%s=", field ? " " : "", names[field]);
        for (int i = 0; i < window->count; i++) {
            fprintf(out, "%s%" PRId64, i ? "x" : "", window_value(&window->v[i], field));
            if (field == FIELD_PAD) fprintf(out, "_%" PRId64, window->v[i].pad_high);
        }
    }
    fputc('}', out);
}

static void print_labels(FILE *out, int spatial, char first, int first_at, char second,
                         int second_at, const int *places) {
    char text[16] = "";
    text[first_at] = first;
    text[second_at] = second;
    for (int i = 0; i < spatial; i++)
        text[places[i]] = (char)('0' + i);
    fwrite(text, 1, (size_t)spatial + 2, out);
}

static void print_dim_labels(FILE *out, const struct dim_labels *l) {
    print_labels(out, l->spatial, 'b', l->input_batch, 'f', l->input_feature, l->input_spatial);
    fputc('_', out);
    print_labels(out, l->spatial, 'i', l->kernel_input, 'o', l->kernel_output, l->kernel_spatial);
    fputs("->", out);
    print_labels(out, l->spatial, 'b', l->output_batch, 'f', l->output_feature, l->output_spatial);
}

static void print_groups(FILE *out, const struct replica_groups *groups) {
    if (groups->mesh) {
        fputs(groups->mesh, out);
        return;
    }
    if (!groups->is_iota) {
        print_int_lists(out, &groups->lists);
        return;
    }
    const struct iota_tiles *iota = &groups->iota;
    fputc('[', out);
    for (int i = 0; i < iota->ndims; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", iota->dims[i]);
    fputs("]<=[", out);
    for (int i = 0; i < iota->nreshape; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", iota->reshape[i]);
    fputc(']', out);
    for (int i = 0; iota->transpose && i < iota->nreshape; i++)
        fprintf(out, "%s%d%s", i ? "," : "T(", iota->transpose[i],
                i + 1 == iota->nreshape ? ")" : "");
}

void print_aliases(FILE *out, const struct alias_list *list) {
    fputc('{', out);
    for (int i = 0; i < list->count; i++) {
        const struct alias_entry *entry = &list->v[i];
        if (i) fputs(", ", out);
        print_ints(out, entry->output_index);
        fprintf(out, ": (%" PRId64 ", ", entry->parameter);
        print_ints(out, entry->parameter_index);
        if (entry->has_kind) fputs(entry->must_alias ? ", must-alias" : ", may-alias", out);
        fputc(')', out);
    }
    fputc('}', out);
}

static void print_words(FILE *out, const struct int_list *list, bool booleans) {
    fputc('{', out);
    for (int i = 0; i < list->count; i++)
        fprintf(out, "%s%s", i ? "," : "",
                booleans ? (list->v[i] ? "true" : "false") : enum_word_name((int)list->v[i]));
    fputc('}', out);
}

static void print_shapes(FILE *out, const struct shape_list *list) {
    fputc('{', out);
    for (int i = 0; i < list->count; i++) {
        if (i) fputs(", ", out);
        shape_print(out, list->v[i], true);
    }
    fputc('}', out);
}

static void print_float_value(FILE *out, double value) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back;
        if (sscanf(text, "%lf", &back) == 1 && back == value) break;
    }
    fputs(text, out);
}

static void print_value(FILE *out, const struct hlo_attr *attr,
                        const struct print_options *options) {
    switch (attr_kind(attr->key)) {
    case ATTR_KIND_INT: fprintf(out, "%" PRId64, attr->i); break;
    case ATTR_KIND_BOOL: fputs(attr->i ? "true" : "false", out); break;
    case ATTR_KIND_FLOAT: print_float_value(out, attr->f); break;
    case ATTR_KIND_ENUM: fputs(enum_word_name((int)attr->i), out); break;
    case ATTR_KIND_STRING: print_quoted(out, attr->text); break;
    case ATTR_KIND_INTS: print_ints(out, *attr->ints); break;
    case ATTR_KIND_BOOLS: print_words(out, attr->ints, true); break;
    case ATTR_KIND_PRECISION: print_words(out, attr->ints, false); break;
    case ATTR_KIND_INT_LISTS: print_int_lists(out, attr->int_lists); break;
    case ATTR_KIND_SLICES: print_slices(out, attr->slices); break;
    case ATTR_KIND_PADDING: print_padding(out, attr->padding); break;
    case ATTR_KIND_WINDOW: print_window(out, attr->window); break;
    case ATTR_KIND_DIM_LABELS: print_dim_labels(out, attr->dim_labels); break;
    case ATTR_KIND_REPLICA_GROUPS: print_groups(out, attr->groups); break;
    case ATTR_KIND_SHARDING: fputs(attr->sharding->text, out); break;
    case ATTR_KIND_SHAPE: shape_print(out, attr->shape, true); break;
    case ATTR_KIND_SHAPES: print_shapes(out, attr->shapes); break;
    case ATTR_KIND_ALIASING: print_aliases(out, attr->aliases); break;
    case ATTR_KIND_LITERAL:
        fputc('(', out);
        shape_print(out, attr->literal->shape, false);
        fputc(' ', out);
        literal_print(out, attr->literal, options->max_constant);
        fputc(')', out);
        break;
    case ATTR_KIND_FRONTEND: fprintf(out, "{%s}", attr->text); break;
    case ATTR_KIND_BACKEND_CONFIG:
        if (attr->quoted) print_quoted(out, attr->text);
        else fputs(attr->text, out);
        break;
    default: fputs(attr->text, out); break;
    }
}

void print_attr(FILE *out, const struct hlo_attr *attr, const struct print_options *options) {
    fprintf(out, ", %s=", attr->key == ATTR_UNKNOWN ? attr->name : attr_name(attr->key));
    if (attr->single) fprintf(out, "%" PRId64, attr->ints->v[0]);
    else print_value(out, attr, options);
}
