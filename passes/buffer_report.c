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

void buffer_assignment_print(FILE *out, const struct buffer_assignment *assignment) {
    int n = assignment->nbuffers;
    const struct buffer **order = malloc(((size_t)n + 1) * sizeof *order);
    if (!order) return;
    for (int i = 0; i < n; i++)
        order[i] = &assignment->buffers[i];
    qsort(order, (size_t)n, sizeof *order, compare_buffers);
    fprintf(out, "temp bytes: %" PRId64 "\nlower bound: %" PRId64 "\nbuffers: %d\n",
            assignment->arena_size, assignment->lower_bound, n);
    fprintf(out, "\nalive at the peak (position %d):\n", assignment->peak);
    for (int i = 0; i < n; i++)
        if (order[i]->kind == BUFFER_ARENA && order[i]->start <= assignment->peak &&
            order[i]->end >= assignment->peak)
            print_buffer(out, order[i]);
    fprintf(out, "\nall:\n");
    for (int i = 0; i < n; i++)
        print_buffer(out, order[i]);
    free(order);
}
