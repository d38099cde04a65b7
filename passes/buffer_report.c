/* The buffer assignment as text. */
#include <inttypes.h>
#include <stdlib.h>

#include "passes/buffer_assignment.h"

static const char *kind_name(enum buffer_kind kind) {
    switch (kind) {
    case BUFFER_INPUT: return "input";
    case BUFFER_CONSTANT: return "constant";
    case BUFFER_OUTPUT: return "output";
    case BUFFER_ARENA: return "arena";
    case BUFFER_NONE: break;
    }
    return "none";
}

static int compare_buffers(const void *x, const void *y) {
    const struct buffer *a = *(const struct buffer *const *)x;
    const struct buffer *b = *(const struct buffer *const *)y;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind == BUFFER_ARENA && a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->kind != BUFFER_ARENA && a->index != b->index) return a->index < b->index ? -1 : 1;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void print_buffer(FILE *out, const struct buffer *buffer) {
    fprintf(out, "  %-8s ", kind_name(buffer->kind));
    if (buffer->kind == BUFFER_ARENA)
        fprintf(out, "offset %12" PRId64, buffer->offset);
    else
        fprintf(out, "number %12d", buffer->index);
    fprintf(out, "  size %12" PRId64 "  live %6d to %6d  %s", buffer->size, buffer->start,
            buffer->end, buffer->instr->name);
    if (shape_is_tuple(buffer->instr->shape)) fprintf(out, " leaf %d", buffer->leaf);
    fprintf(out, " (%s)\n", opcode_info(buffer->instr->opcode)->name);
}

static const struct buffer **sorted(const struct buffer_assignment *assignment) {
    int n = assignment->nbuffers;
    const struct buffer **order = malloc(((size_t)n + 1) * sizeof *order);
    for (int i = 0; order && i < n; i++)
        order[i] = &assignment->buffers[i];
    if (order) qsort(order, (size_t)n, sizeof *order, compare_buffers);
    return order;
}

static bool at_peak(const struct buffer_assignment *assignment, const struct buffer *buffer) {
    return buffer->kind == BUFFER_ARENA && buffer->start <= assignment->peak &&
           buffer->end >= assignment->peak;
}

void buffer_assignment_print(FILE *out, const struct buffer_assignment *assignment) {
    int n = assignment->nbuffers;
    const struct buffer **order = sorted(assignment);
    if (!order) return;
    fprintf(out, "temp bytes: %" PRId64 "\nlower bound: %" PRId64 "\nbuffers: %d\n",
            assignment->arena_size, assignment->lower_bound, n);
    fprintf(out, "\nalive at the peak (position %d):\n", assignment->peak);
    for (int i = 0; i < n; i++)
        if (at_peak(assignment, order[i])) print_buffer(out, order[i]);
    fprintf(out, "\nall:\n");
    for (int i = 0; i < n; i++)
        print_buffer(out, order[i]);
    free(order);
}

/* ---- JSON ---- */

/* Names are words: letters, digits, `.`, `-`, `_`; anything else is written as it is in JSON. */
static void print_json_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void print_json_buffer(FILE *out, const struct buffer_assignment *assignment,
                              const struct buffer *buffer) {
    fprintf(out, "  {\"kind\": \"%s\", \"%s\": %" PRId64 ", \"size\": %" PRId64,
            kind_name(buffer->kind), buffer->kind == BUFFER_ARENA ? "offset" : "number",
            buffer->kind == BUFFER_ARENA ? buffer->offset : buffer->index, buffer->size);
    fprintf(out, ", \"start\": %d, \"end\": %d, \"at_peak\": %s, \"instruction\": ", buffer->start,
            buffer->end, at_peak(assignment, buffer) ? "true" : "false");
    print_json_text(out, buffer->instr->name);
    fprintf(out, ", \"leaf\": %d, \"opcode\": \"%s\"}", buffer->leaf,
            opcode_name(buffer->instr->opcode));
}

void buffer_assignment_print_json(FILE *out, const struct buffer_assignment *assignment,
                                  int64_t scratch_bytes) {
    const struct buffer **order = sorted(assignment);
    if (!order) return;
    fprintf(out, "{\"temp_bytes\": %" PRId64 ", \"scratch_bytes\": %" PRId64,
            assignment->arena_size, scratch_bytes);
    fprintf(out, ", \"lower_bound_bytes\": %" PRId64 ", \"peak\": %d, \"positions\": %d,\n",
            assignment->lower_bound, assignment->peak, assignment->npositions);
    fprintf(out, " \"buffers\": [");
    for (int i = 0; i < assignment->nbuffers; i++) {
        fprintf(out, i ? ",\n" : "\n");
        print_json_buffer(out, assignment, order[i]);
    }
    fprintf(out, "]}\n");
    free(order);
}

/* ---- a picture ---- */

static void print_html_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '<' || *text == '&' || *text == '"')
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    }
}

/* The drawing, with room for the numbers at its left and below. */
enum { PAGE_WIDTH = 1200, PAGE_HEIGHT = 700, MARGIN = 90, STEPS = 8 };

static void print_size(FILE *out, int64_t bytes) {
    if (bytes >= 10 << 20)
        fprintf(out, "%.1f MiB", (double)bytes / (1 << 20));
    else if (bytes >= 10 << 10)
        fprintf(out, "%.1f KiB", (double)bytes / (1 << 10));
    else
        fprintf(out, "%" PRId64 " B", bytes);
}

static void draw_axes(FILE *out, const struct buffer_assignment *assignment) {
    for (int i = 0; i <= STEPS; i++) {
        double y = PAGE_HEIGHT - (double)PAGE_HEIGHT * i / STEPS;
        double x = (double)PAGE_WIDTH * i / STEPS;
        fprintf(out, "<line class=\"grid\" x1=\"0\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                PAGE_WIDTH, y, y);
        fprintf(out, "<text x=\"-6\" y=\"%.1f\" text-anchor=\"end\">", y + 4);
        print_size(out, assignment->arena_size * i / STEPS);
        fprintf(out, "</text><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x,
                PAGE_HEIGHT + 18, (int)((int64_t)assignment->npositions * i / STEPS));
    }
}

/* What is alive when most is, the largest first. */
static int compare_sizes(const void *x, const void *y) {
    const struct buffer *a = *(const struct buffer *const *)x;
    const struct buffer *b = *(const struct buffer *const *)y;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void print_peak_table(FILE *out, const struct buffer_assignment *assignment) {
    int n = assignment->nbuffers, count = 0;
    const struct buffer **order = malloc(((size_t)n + 1) * sizeof *order);
    if (!order) return;
    for (int i = 0; i < n; i++)
        if (at_peak(assignment, &assignment->buffers[i])) order[count++] = &assignment->buffers[i];
    qsort(order, (size_t)count, sizeof *order, compare_sizes);
    fprintf(out,
            "<h2>Alive at position %d</h2>\n<table><tr><th>size</th><th>offset</th>"
            "<th>live</th><th>instruction</th><th>operation</th></tr>\n",
            assignment->peak);
    for (int i = 0; i < count; i++) {
        const struct buffer *buffer = order[i];
        fprintf(out, "<tr><td>");
        print_size(out, buffer->size);
        fprintf(out, "</td><td>%" PRId64 "</td><td>%d to %d</td><td>", buffer->offset,
                buffer->start, buffer->end);
        print_html_text(out, buffer->instr->name);
        fprintf(out, "</td><td>%s</td></tr>\n", opcode_name(buffer->instr->opcode));
    }
    fprintf(out, "</table>\n");
    free(order);
}

static void draw_buffer(FILE *out, const struct buffer_assignment *assignment,
                        const struct buffer *buffer) {
    double across = (double)PAGE_WIDTH / (assignment->npositions + 1);
    double up = (double)PAGE_HEIGHT / (double)assignment->arena_size;
    double top = PAGE_HEIGHT - (double)(buffer->offset + buffer->size) * up;
    fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
            buffer->start * across, top, (buffer->end - buffer->start + 1) * across,
            (double)buffer->size * up);
    fprintf(out, " fill=\"hsl(%d,60%%,%d%%)\"><title>", buffer->id * 47 % 360,
            at_peak(assignment, buffer) ? 55 : 75);
    print_html_text(out, buffer->instr->name);
    fprintf(out, " (%s): ", opcode_name(buffer->instr->opcode));
    print_size(out, buffer->size);
    fprintf(out, " at %" PRId64 ", live %d to %d</title></rect>\n", buffer->offset, buffer->start,
            buffer->end);
}

void buffer_assignment_print_html(FILE *out, const struct buffer_assignment *assignment,
                                  const char *title) {
    fprintf(out, "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>");
    print_html_text(out, title);
    fprintf(out, "</title>\n<style>body { font: 14px sans-serif } svg { font-size: 11px } "
                 "rect { stroke: #fff; stroke-width: 0.5 } rect:hover { stroke: #000; "
                 "stroke-width: 2 } .grid { stroke: #ddd } td, th { padding: 0 1em; text-align: "
                 "right }</style>\n<h1>");
    print_html_text(out, title);
    fprintf(out, "</h1>\n<p>");
    print_size(out, assignment->arena_size);
    fprintf(out,
            " (%" PRId64 " bytes) of temporary memory; no less than %" PRId64
            " bytes for this schedule, at position %d of %d (the line). Time runs to the "
            "right, offsets upwards; point at a value for its name.</p>\n",
            assignment->arena_size, assignment->lower_bound, assignment->peak,
            assignment->npositions);
    fprintf(out, "<svg viewBox=\"%d -10 %d %d\" width=\"100%%\">\n", -MARGIN,
            PAGE_WIDTH + MARGIN + 20, PAGE_HEIGHT + 40);
    draw_axes(out, assignment);
    for (int i = 0; i < assignment->nbuffers && assignment->arena_size > 0; i++)
        if (assignment->buffers[i].kind == BUFFER_ARENA)
            draw_buffer(out, assignment, &assignment->buffers[i]);
    double peak = (assignment->peak + 0.5) * PAGE_WIDTH / (assignment->npositions + 1);
    fprintf(out, "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"0\" y2=\"%d\" stroke=\"red\"/>\n</svg>\n",
            peak, peak, PAGE_HEIGHT);
    print_peak_table(out, assignment);
}
