/* Text of attributes, by their kind. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/print_internal.h"

void print_quoted(FILE *out, const char *text) {
    putc_unlocked('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\' || *p == '\'')
            fprintf(out, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", out);
        else if (*p == '\t')
            fputs("\\t", out);
        else if (*p == '\r')
            fputs("\\r", out);
        else if (*p < 32 || *p >= 127)
            fprintf(out, "\\%03o", *p);
        else
            putc_unlocked(*p, out);
    }
    putc_unlocked('"', out);
}

static void print_list(FILE *out, int count, const int64_t *v) {
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", v[i]);
}

void print_ints(FILE *out, int count, const int64_t *v) {
    putc_unlocked('{', out);
    print_list(out, count, v);
    putc_unlocked('}', out);
}

static void print_int_lists(FILE *out, const struct int_lists *lists) {
    putc_unlocked('{', out);
    for (int i = 0; i < lists->count; i++) {
        if (i) putc_unlocked(',', out);
        print_ints(out, lists->v[i].count, lists->v[i].v);
    }
    putc_unlocked('}', out);
}

void print_aliases(FILE *out, const struct alias_list *list) {
    putc_unlocked('{', out);
    for (int i = 0; i < list->count; i++) {
        const struct alias_entry *e = &list->v[i];

        if (i) fputs(", ", out);
        print_ints(out, e->output_index.count, e->output_index.v);
        fprintf(out, ": (%" PRId64 ", ", e->parameter);
        print_ints(out, e->parameter_index.count, e->parameter_index.v);
        if (e->has_kind) fputs(e->must_alias ? ", must-alias" : ", may-alias", out);
        putc_unlocked(')', out);
    }
    putc_unlocked('}', out);
}

static void print_slices(FILE *out, const struct slice_list *list) {
    putc_unlocked('{', out);
    for (int i = 0; i < list->count; i++) {
        const struct slice_dim *d = &list->v[i];

        fprintf(out, "%s[%" PRId64 ":%" PRId64, i ? ", " : "", d->start, d->limit);
        if (d->stride != 1) fprintf(out, ":%" PRId64, d->stride);
        putc_unlocked(']', out);
    }
    putc_unlocked('}', out);
}

static void print_padding(FILE *out, const struct padding_config *config) {
    for (int i = 0; i < config->count; i++) {
        const struct padding_dim *d = &config->v[i];

        fprintf(out, "%s%" PRId64 "_%" PRId64, i ? "x" : "", d->low, d->high);
        if (d->interior) fprintf(out, "_%" PRId64, d->interior);
    }
}

enum window_field { FIELD_SIZE, FIELD_STRIDE, FIELD_PAD, FIELD_LHS, FIELD_RHS, FIELD_REVERSED };

static int64_t window_value(const struct window_dim *d, enum window_field field) {
    switch (field) {
    case FIELD_SIZE: return d->size;
    case FIELD_STRIDE: return d->stride;
    case FIELD_LHS: return d->lhs_dilate;
    case FIELD_RHS: return d->rhs_dilate;
    default: return d->reversed;
    }
}

static bool window_field_shown(const struct window *window, enum window_field field) {
    for (int i = 0; i < window->count; i++) {
        const struct window_dim *d = &window->v[i];

        if (field == FIELD_SIZE) return true;
        if (field == FIELD_PAD ? d->pad_low || d->pad_high
                               : window_value(d, field) != (field != FIELD_REVERSED))
            return true;
    }
    return false;
}

static void print_window(FILE *out, const struct window *window) {
    static const char *const names[] = {"size",       "stride",     "pad",
                                        "lhs_dilate", "rhs_dilate", "rhs_reversal"};
    const char *space = "";

    putc_unlocked('{', out);
    for (int field = FIELD_SIZE; field <= FIELD_REVERSED; field++) {
        if (!window_field_shown(window, field)) continue;
        fprintf(out, "%s%s=", space, names[field]);
        space = " ";
        for (int i = 0; i < window->count; i++) {
            const struct window_dim *d = &window->v[i];

            if (i) putc_unlocked('x', out);
            if (field == FIELD_PAD)
                fprintf(out, "%" PRId64 "_%" PRId64, d->pad_low, d->pad_high);
            else
                fprintf(out, "%" PRId64, window_value(d, field));
        }
    }
    putc_unlocked('}', out);
}

/* Up to the last dimension that has a name; those between that have none are `?`. */
static void print_labels(FILE *out, int count, int a, char a_char, int b, char b_char,
                         const int *spatial) {
    int last = a > b ? a : b;
    for (int i = 0; i < count; i++)
        last = spatial[i] > last ? spatial[i] : last;
    for (int dim = 0; dim <= last; dim++) {
        char name = dim == a ? a_char : dim == b ? b_char : '?';
        for (int i = 0; i < count; i++)
            if (spatial[i] == dim) name = (char)('0' + i);
        putc_unlocked(name, out);
    }
}

static void print_dim_labels(FILE *out, const struct dim_labels *d) {
    int count = d->spatial;

    print_labels(out, count, d->input_batch, 'b', d->input_feature, 'f', d->input_spatial);
    putc_unlocked('_', out);
    print_labels(out, count, d->kernel_input, 'i', d->kernel_output, 'o', d->kernel_spatial);
    fputs("->", out);
    print_labels(out, count, d->output_batch, 'b', d->output_feature, 'f', d->output_spatial);
}

static void print_groups(FILE *out, const struct replica_groups *groups) {
    const struct iota_tiles *iota = &groups->iota;

    if (groups->mesh) {
        fputs(groups->mesh, out);
    } else if (!groups->is_iota) {
        print_int_lists(out, &groups->lists);
    } else {
        putc_unlocked('[', out);
        print_list(out, iota->ndims, iota->dims);
        fputs("]<=[", out);
        print_list(out, iota->nreshape, iota->reshape);
        putc_unlocked(']', out);
        if (iota->transpose) {
            fputs("T(", out);
            for (int i = 0; i < iota->nreshape; i++)
                fprintf(out, "%s%d", i ? "," : "", iota->transpose[i]);
            putc_unlocked(')', out);
        }
    }
}

static void print_double(FILE *out, double value) {
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(value == 0 && signbit(value) ? "-0.0" : text, out);
}

static void print_shapes(FILE *out, const struct shape_list *list, bool layouts) {
    putc_unlocked('{', out);
    for (int i = 0; i < list->count; i++) {
        if (i) fputs(", ", out);
        shape_print(out, list->v[i], layouts);
    }
    putc_unlocked('}', out);
}

static void print_words(FILE *out, const struct int_list *list, bool words) {
    putc_unlocked('{', out);
    for (int i = 0; i < list->count; i++)
        fprintf(out, "%s%s", i ? "," : "",
                words        ? enum_word_name(list->v[i])
                : list->v[i] ? "true"
                             : "false");
    putc_unlocked('}', out);
}

static void print_backend_config(FILE *out, const struct hlo_attr *attr) {
    if (attr->quoted)
        print_quoted(out, attr->text);
    else
        fputs(attr->text, out);
}

static void print_int_attr(FILE *out, const struct hlo_attr *attr) {
    if (attr->single && attr->ints->count == 1)
        fprintf(out, "%" PRId64, attr->ints->v[0]);
    else
        print_ints(out, attr->ints->count, attr->ints->v);
}

static void print_value(FILE *out, const struct hlo_attr *attr,
                        const struct print_options *options) {
    switch (attr_kind(attr->key)) {
    case ATTR_KIND_INT: fprintf(out, "%" PRId64, attr->i); break;
    case ATTR_KIND_BOOL: fputs(attr->i ? "true" : "false", out); break;
    case ATTR_KIND_FLOAT: print_double(out, attr->f); break;
    case ATTR_KIND_ENUM: fputs(enum_word_name((int)attr->i), out); break;
    case ATTR_KIND_STRING: print_quoted(out, attr->text); break;
    case ATTR_KIND_INTS: print_int_attr(out, attr); break;
    case ATTR_KIND_BOOLS: print_words(out, attr->ints, false); break;
    case ATTR_KIND_PRECISION: print_words(out, attr->ints, true); break;
    case ATTR_KIND_INT_LISTS: print_int_lists(out, attr->int_lists); break;
    case ATTR_KIND_SLICES: print_slices(out, attr->slices); break;
    case ATTR_KIND_PADDING: print_padding(out, attr->padding); break;
    case ATTR_KIND_WINDOW: print_window(out, attr->window); break;
    case ATTR_KIND_DIM_LABELS: print_dim_labels(out, attr->dim_labels); break;
    case ATTR_KIND_REPLICA_GROUPS: print_groups(out, attr->groups); break;
    case ATTR_KIND_SHARDING: fputs(attr->sharding->text, out); break;
    case ATTR_KIND_SHAPE: shape_print(out, attr->shape, options->layouts); break;
    case ATTR_KIND_SHAPES: print_shapes(out, attr->shapes, options->layouts); break;
    case ATTR_KIND_ALIASING: print_aliases(out, attr->aliases); break;
    case ATTR_KIND_LITERAL:
        putc_unlocked('(', out);
        shape_print(out, attr->literal->shape, options->layouts);
        putc_unlocked(' ', out);
        literal_print(out, attr->literal, options->max_constant);
        putc_unlocked(')', out);
        break;
    case ATTR_KIND_FRONTEND: fprintf(out, "{%s}", attr->text); break;
    case ATTR_KIND_BACKEND_CONFIG: print_backend_config(out, attr); break;
    default: fputs(attr->text, out); break;
    }
}

void print_attr(FILE *out, const struct hlo_attr *attr, const struct print_options *options) {
    if (attr->key == ATTR_BACKEND_CONFIG && !options->backend_config) return;
    fprintf(out, ", %s=", attr->key == ATTR_UNKNOWN ? attr->name : attr_name(attr->key));
    print_value(out, attr, options);
}

static void field_text(FILE *out, const char **space, const char *key, const char *text) {
    if (!text) return;
    fprintf(out, "%s%s=", *space, key);
    print_quoted(out, text);
    *space = " ";
}

static void field_int(FILE *out, const char **space, const char *key, int64_t value) {
    if (!value) return;
    fprintf(out, "%s%s=%" PRId64, *space, key, value);
    *space = " ";
}

void print_metadata(FILE *out, const struct hlo_metadata *m) {
    const char *space = "";

    fputs(", metadata={", out);
    field_text(out, &space, "op_type", m->op_type);
    field_text(out, &space, "op_name", m->op_name);
    field_text(out, &space, "source_file", m->source_file);
    field_int(out, &space, "source_line", m->source_line);
    field_int(out, &space, "source_end_line", m->source_end_line);
    field_int(out, &space, "source_column", m->source_column);
    field_int(out, &space, "source_end_column", m->source_end_column);
    field_int(out, &space, "stack_frame_id", m->stack_frame_id);
    field_text(out, &space, "deduplicated_name", m->deduplicated_name);
    field_text(out, &space, "scheduling_name", m->scheduling_name);
    if (m->rest) fprintf(out, "%s%s", space, m->rest);
    putc_unlocked('}', out);
}
