#include "backend/tpu/memory.h"

#include <inttypes.h>
#include <stdlib.h>

#include "passes/util.h"

enum { MOST_LISTED = 8 };

static int64_t padded_size(void *user, const struct shape *shape) {
    struct tpu_layout layout;
    (void)user;
    if (!tpu_type_has_layout(shape->type)) return 0;
    return tpu_layout_of(&layout, shape) ? layout.bytes : INT64_MAX / 2;
}

/* A result is written while operands are still read, so nothing is written over them but in the
 * loops that copy insertion has prepared. */
static bool no_sharing(void *user, const struct hlo_instr *instr, int operand, int leaf) {
    (void)user, (void)instr, (void)operand, (void)leaf;
    return false;
}

static bool add_size(int64_t *sum, int64_t size) {
    return !__builtin_add_overflow(*sum, size, sum);
}

static int64_t *kind_sum(struct tpu_memory *memory, enum buffer_kind kind) {
    return kind == BUFFER_INPUT    ? &memory->inputs
           : kind == BUFFER_OUTPUT ? &memory->outputs
                                   : &memory->constants;
}

const struct tpu_memory *tpu_memory_plan(struct arena *arena, struct hlo_module *module,
                                         struct diag *diag) {
    struct buffer_options options = {.can_share = no_sharing, .size = padded_size};
    struct tpu_memory *memory = arena_alloc(arena, sizeof *memory);
    memory->buffers = buffer_assign(arena, module, &options, diag);
    if (!memory->buffers) return NULL;
    int n = memory->buffers->nbuffers;
    memory->base = arena_array(arena, (size_t)n + 1, sizeof *memory->base);
    for (int i = 0; i < n; i++) {
        const struct buffer *buffer = &memory->buffers->buffers[i];
        memory->base[i] = -1;
        if (buffer->kind == BUFFER_ARENA || buffer->kind == BUFFER_NONE) continue;
        memory->base[i] = memory->total;
        if (!add_size(&memory->total, buffer->size) ||
            !add_size(kind_sum(memory, buffer->kind), buffer->size)) {
            diag_instr_error(diag, buffer->instr, "the program's arrays are too large");
            return NULL;
        }
    }
    for (int i = 0; i < n; i++)
        if (memory->buffers->buffers[i].kind == BUFFER_ARENA)
            memory->base[i] = memory->total + memory->buffers->buffers[i].offset;
    memory->temporary = memory->buffers->arena_size;
    if (add_size(&memory->total, memory->temporary)) return memory;
    diag_error(diag, module->entry->loc, "the program's arrays are too large");
    return NULL;
}

int64_t tpu_memory_address(const struct tpu_memory *memory, const struct hlo_instr *instr,
                           int leaf) {
    const struct buffer *buffer = buffer_of(memory->buffers, instr, leaf);
    return buffer->kind == BUFFER_NONE ? -1 : memory->base[buffer->id];
}

/* ---- the report ---- */

/* "16.00 GiB"; one of a few buffers, so that several may stand in one call. */
struct size_text {
    char text[32];
};

static struct size_text size_text(double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct size_text result;
    int unit = 0;
    for (; bytes >= 1024 && unit < 6; unit++)
        bytes /= 1024;
    snprintf(result.text, sizeof result.text, "%.*f %s", unit ? 2 : 0, bytes, units[unit]);
    return result;
}
#define SIZE(bytes) size_text((double)(bytes)).text

struct report {
    const struct tpu_memory *memory;
    const struct tpu_chip *chip;
    struct diag *diag;
    struct arena *arena;
    const struct buffer **largest; /* what is there at the peak, largest first */
    int count;
};

static const struct shape *buffer_shape(struct report *report, const struct buffer *buffer) {
    return shape_leaves(report->arena, buffer->instr->shape)[buffer->leaf];
}

static int by_size(const void *x, const void *y) {
    const struct buffer *a = *(const struct buffer *const *)x;
    const struct buffer *b = *(const struct buffer *const *)y;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool at_peak(const struct buffer_assignment *buffers, const struct buffer *buffer) {
    if (buffer->kind == BUFFER_NONE || buffer->size == 0) return false;
    return buffer->kind != BUFFER_ARENA ||
           (buffer->start <= buffers->peak && buffer->end >= buffers->peak);
}

static void collect(struct report *report) {
    const struct buffer_assignment *buffers = report->memory->buffers;
    report->largest =
        arena_array(report->arena, (size_t)buffers->nbuffers + 1, sizeof *report->largest);
    for (int i = 0; i < buffers->nbuffers; i++)
        if (at_peak(buffers, &buffers->buffers[i]))
            report->largest[report->count++] = &buffers->buffers[i];
    qsort(report->largest, (size_t)report->count, sizeof *report->largest, by_size);
}

static const char *role(const struct buffer *buffer) {
    switch (buffer->kind) {
    case BUFFER_INPUT: return "parameter";
    case BUFFER_CONSTANT: return "constant";
    case BUFFER_OUTPUT: return "result";
    default: return "temporary";
    }
}

static void note_buffer(struct report *report, int number) {
    const struct buffer *buffer = report->largest[number];
    const struct hlo_instr *instr = buffer->instr;
    struct tpu_layout layout, best;
    const struct shape *shape = buffer_shape(report, buffer);
    if (!tpu_layout_of(&layout, shape)) return;
    int64_t dense = tpu_layout_unpadded_bytes(&layout);
    char *help = "";
    if (tpu_layout_best(&best, shape) && best.bytes < layout.bytes)
        help = arena_printf(report->arena, "; as %s %s", tpu_layout_text(report->arena, &best),
                            SIZE(best.bytes));
    char *origin = "";
    if (instr->metadata && instr->metadata->op_name)
        origin = arena_printf(report->arena, ", op_name \"%s\"", instr->metadata->op_name);
    diag_note(report->diag, instr->loc, "%d. %s: %s, %s %s (%s)%s, unpadded %s, expansion %.1f%s",
              number + 1, SIZE(buffer->size), tpu_layout_text(report->arena, &layout), role(buffer),
              instr->name, opcode_name(instr->opcode), origin, SIZE(dense),
              dense ? (double)buffer->size / (double)dense : 1.0, help);
}

/* Bytes of everything at the peak where dimension 0 of those that have `batch` there is `size`,
 * each in its best layout, or in its own. */
static double total_with(struct report *report, int64_t batch, int64_t size, bool best) {
    double total = 0;
    for (int i = 0; i < report->count; i++) {
        const struct buffer *buffer = report->largest[i];
        const struct shape *shape = buffer_shape(report, buffer);
        struct tpu_layout layout;
        double bytes = (double)buffer->size;
        if (best ? tpu_layout_best(&layout, shape) : tpu_layout_of(&layout, shape))
            bytes = best ? (double)layout.bytes : bytes;
        if (batch && shape->rank > 1 && shape->dims[0] == batch)
            bytes = bytes / (double)batch * (double)size;
        total += bytes;
    }
    return total;
}

static void note_batch(struct report *report, bool best) {
    const struct shape *shape = buffer_shape(report, report->largest[0]);
    double capacity = (double)report->chip->hbm_bytes;
    if (shape->rank < 2 || shape->dims[0] < 2) return;
    int64_t batch = shape->dims[0], low = 0, high = batch;
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        if (total_with(report, batch, middle, best) <= capacity)
            low = middle;
        else
            high = middle;
    }
    if (low == 0) return;
    diag_note(report->diag, (struct src_loc){0},
              "with %" PRId64 " instead of %" PRId64 " in dimension 0 (the batch, where it is one) "
              "%sit would fit: %s",
              low, batch, best ? "and the layouts named above " : "",
              SIZE(total_with(report, batch, low, best)));
}

static void note_help(struct report *report) {
    double capacity = (double)report->chip->hbm_bytes, best = total_with(report, 0, 0, true);
    bool layouts_fit = best <= capacity;
    bool differ = best < total_with(report, 0, 0, false);
    if (differ)
        diag_note(report->diag, (struct src_loc){0},
                  "with the layouts named above the program needs about %s, which %s", SIZE(best),
                  layouts_fit ? "fits" : "does not fit either");
    note_batch(report, false);
    if (differ && !layouts_fit) note_batch(report, true);
}

bool tpu_memory_fits(const struct tpu_memory *memory, const struct tpu_chip *chip,
                     const struct hlo_module *module, struct diag *diag) {
    if (memory->total <= chip->hbm_bytes) return true;
    struct report report = {.memory = memory, .chip = chip, .diag = diag, .arena = arena_new()};
    collect(&report);
    diag_error(diag, module->entry->loc,
               "Resource exhausted: the program needs %s of HBM, a core of TPU %s has %s "
               "(%s too much)",
               SIZE(memory->total), chip->name, SIZE(chip->hbm_bytes),
               SIZE(memory->total - chip->hbm_bytes));
    diag_note(diag, (struct src_loc){0},
              "parameters %s, results %s, constants %s, temporary values %s; at the peak, largest "
              "first:",
              SIZE(memory->inputs), SIZE(memory->outputs), SIZE(memory->constants),
              SIZE(memory->temporary));
    int listed = report.count < MOST_LISTED ? report.count : MOST_LISTED;
    for (int i = 0; i < listed; i++)
        note_buffer(&report, i);
    if (listed < report.count)
        diag_note(diag, (struct src_loc){0}, "and %d smaller ones", report.count - listed);
    note_help(&report);
    arena_free(report.arena);
    return false;
}
