#include "backend/tpu/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/residency.h"
#include "backend/tpu/tpu.h"
#include "passes/buffer_packing.h"
#include "passes/dataflow.h"
#include "passes/util.h"

enum { MOST_LISTED = 8 };

static int64_t padded_size(void *user, const struct shape *shape) {
    struct tpu_layout layout;
    (void)user;
    if (!tpu_type_has_layout(shape->type)) return 0;
    return tpu_layout_of(&layout, shape) ? layout.bytes : INT64_MAX / 2;
}

/* A result is written while operands are still read, so nothing is written over them but in the
 * loops that copy insertion has prepared, and where only a part is written. */
static bool can_share(void *user, const struct hlo_instr *instr, int operand, int leaf) {
    (void)user;
    return operand == 0 && leaf == 0 && lower_updates_in_place(instr);
}

static bool add_size(int64_t *sum, int64_t size) {
    return !__builtin_add_overflow(*sum, size, sum);
}

static int64_t *kind_sum(struct tpu_memory *memory, enum buffer_kind kind) {
    return kind == BUFFER_INPUT    ? &memory->inputs
           : kind == BUFFER_OUTPUT ? &memory->outputs
                                   : &memory->constants;
}

/* ---- what stays in VMEM ---- */

/* Rows that a value may take of VMEM, that all may, and that are left whatever kernels need: parts
 * of VMEM. */
enum { VALUE_PART = 8, ALL_PART = 2, LEAST_PART = 8 };

static void find_positions(struct arena *arena, struct tpu_memory *memory) {
    const struct buffer_assignment *buffers = memory->buffers;
    memory->position = arena_array(arena, (size_t)buffers->nids + 1, sizeof *memory->position);
    memory->top = arena_array(arena, (size_t)buffers->npositions + 2, sizeof *memory->top);
    for (int i = 0; i < buffers->nids; i++)
        memory->position[i] = -1;
    for (int p = 0; p < buffers->npositions; p++)
        memory->position[buffers->schedule[p]->id] = p;
}

static int64_t rows_of(const struct shape *shape, int64_t most) {
    int64_t rows = 0;
    if (!shape_is_tuple(shape))
        return (padded_size(NULL, shape) + TPU_ROW_BYTES - 1) / TPU_ROW_BYTES;
    for (int i = 0; i < shape->ntuple && rows < most; i++)
        rows += rows_of(shape->tuple[i], most);
    return rows;
}

/* What is left at an instruction beside its own operands and results, twice: kernels hold blocks of
 * them, or all, and what they make of them. */
static int64_t capacity_at(const struct hlo_instr *instr, int64_t vmem) {
    bool kernel = !instr_is_alias(instr) && !instr_runs_callees(instr) &&
                  instr->opcode != OP_PARAMETER && instr->opcode != OP_CONSTANT;
    if (!kernel) return vmem / ALL_PART;
    int64_t own = rows_of(instr->shape, vmem);
    for (int i = 0; i < instr->noperands && own < vmem; i++)
        own += rows_of(instr->operands[i]->shape, vmem);
    int64_t left = vmem - 2 * own;
    if (left < vmem / LEAST_PART) return vmem / LEAST_PART;
    return left < vmem / ALL_PART ? left : vmem / ALL_PART;
}

/* Values that may stay, with a guard after each. */
static int find_items(const struct tpu_memory *memory, int64_t vmem, int guard,
                      struct residency_item *items, int *ids) {
    int count = 0;
    for (int i = 0; i < memory->buffers->nbuffers; i++) {
        const struct buffer *buffer = &memory->buffers->buffers[i];
        int64_t rows = (buffer->size + TPU_ROW_BYTES - 1) / TPU_ROW_BYTES;
        rows = (rows + TPU_SUBLANES - 1) / TPU_SUBLANES * TPU_SUBLANES;
        if (buffer->kind != BUFFER_ARENA || rows == 0 || rows > vmem / VALUE_PART) continue;
        ids[count] = i;
        items[count++] = (struct residency_item){rows + guard, buffer->start, buffer->end, -1};
    }
    return count;
}

static int count_resident(const struct residency_item *items, int count) {
    int resident = 0;
    for (int i = 0; i < count; i++)
        resident += items[i].at >= 0;
    return resident;
}

/* The wide guard makes more ways of loading possible; the narrow one has room for more values. */
static void plan_vmem(struct arena *arena, struct tpu_memory *memory, int64_t vmem) {
    static const int guards[] = {136, 16};
    const struct buffer_assignment *buffers = memory->buffers;
    int n = buffers->nbuffers, count = 0, positions = buffers->npositions, most = -1;
    struct residency_item *items = arena_array(arena, (size_t)n + 1, sizeof *items);
    int *ids = arena_array(arena, (size_t)n + 1, sizeof *ids);
    int64_t *capacity = arena_array(arena, (size_t)positions + 2, sizeof *capacity);
    memory->vmem = arena_array(arena, (size_t)n + 1, sizeof *memory->vmem);
    for (int p = 0; p <= positions; p++)
        capacity[p] = p < positions ? capacity_at(buffers->schedule[p], vmem) : vmem / ALL_PART;
    for (int g = 0; g < 2 && most < count; g++) {
        count = find_items(memory, vmem, guards[g], items, ids);
        int64_t rows = residency_plan(arena, items, count, capacity, positions + 1);
        if (count_resident(items, count) <= most) continue;
        most = count_resident(items, count);
        memory->vmem_guard = guards[g];
        memory->vmem_rows = rows;
        for (int i = 0; i < n; i++)
            memory->vmem[i] = -1;
        for (int i = 0; i < count; i++)
            memory->vmem[ids[i]] = items[i].at;
    }
    for (int i = 0; i < count; i++) {
        const struct buffer *buffer = &buffers->buffers[ids[i]];
        int64_t at = memory->vmem[ids[i]];
        if (at < 0) continue;
        int64_t rows = buffer->size / TPU_ROW_BYTES + TPU_SUBLANES;
        memory->vmem_bytes += buffer->size;
        for (int p = buffer->start; p <= buffer->end; p++)
            if (at + rows > memory->top[p]) memory->top[p] = at + rows;
    }
}

/* The others share a range of HBM. */
static void plan_hbm(struct arena *arena, struct tpu_memory *memory) {
    const struct buffer_assignment *buffers = memory->buffers;
    int n = buffers->nbuffers, count = 0;
    struct pack_item *items = arena_array(arena, (size_t)n + 1, sizeof *items);
    int *ids = arena_array(arena, (size_t)n + 1, sizeof *ids);
    for (int i = 0; i < n; i++) {
        const struct buffer *buffer = &buffers->buffers[i];
        if (buffer->kind != BUFFER_ARENA || memory->vmem[i] >= 0) continue;
        int64_t size = (buffer->size + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
        memory->base[i] = memory->total;
        if (size == 0) continue;
        ids[count] = i;
        items[count++] = (struct pack_item){size, buffer->start, buffer->end, 0};
    }
    int64_t bound = pack_lower_bound(arena, items, count, buffers->npositions + 1, &memory->peak);
    memory->temporary = count ? pack_items(arena, items, count, bound) : 0;
    for (int i = 0; i < count; i++)
        memory->base[ids[i]] = memory->total + items[i].offset;
}

const struct tpu_memory *tpu_memory_plan(struct arena *arena, struct hlo_module *module,
                                         int64_t vmem_rows, struct diag *diag) {
    struct buffer_options options = {.can_share = can_share, .size = padded_size};
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
    find_positions(arena, memory);
    plan_vmem(arena, memory, vmem_rows);
    plan_hbm(arena, memory);
    if (add_size(&memory->total, memory->temporary)) return memory;
    diag_error(diag, module->entry->loc, "the program's arrays are too large");
    return NULL;
}

int64_t tpu_memory_address(const struct tpu_memory *memory, const struct hlo_instr *instr,
                           int leaf) {
    const struct buffer *buffer = buffer_of(memory->buffers, instr, leaf);
    return buffer->kind == BUFFER_NONE ? -1 : memory->base[buffer->id];
}

int64_t tpu_memory_row(const struct tpu_memory *memory, const struct hlo_instr *instr, int leaf) {
    const struct buffer *buffer = buffer_of(memory->buffers, instr, leaf);
    return buffer->kind == BUFFER_ARENA ? memory->vmem[buffer->id] : -1;
}

int64_t tpu_memory_top(const struct tpu_memory *memory, const struct hlo_instr *instr) {
    int at = instr->id < memory->buffers->nids ? memory->position[instr->id] : -1;
    return at < 0 ? memory->vmem_rows : memory->top[at];
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

static bool at_peak(const struct tpu_memory *memory, const struct buffer *buffer) {
    if (buffer->kind == BUFFER_NONE || buffer->size == 0) return false;
    if (buffer->kind != BUFFER_ARENA) return true;
    return memory->vmem[buffer->id] < 0 && buffer->start <= memory->peak &&
           buffer->end >= memory->peak;
}

static void collect(struct report *report) {
    const struct buffer_assignment *buffers = report->memory->buffers;
    report->largest =
        arena_array(report->arena, (size_t)buffers->nbuffers + 1, sizeof *report->largest);
    for (int i = 0; i < buffers->nbuffers; i++)
        if (at_peak(report->memory, &buffers->buffers[i]))
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

/* Bytes of a buffer whose dimension 0, where that is `batch`, is `size`, in its best layout or in
 * its own. */
static double bytes_with(struct report *report, const struct buffer *buffer, int64_t batch,
                         int64_t size, bool best) {
    struct shape shape = *buffer_shape(report, buffer);
    bool smaller = batch && shape.rank > 1 && shape.dims[0] == batch;
    int64_t dims[SHAPE_MAX_RANK];
    struct tpu_layout layout;
    if (smaller) {
        memcpy(dims, shape.dims, (size_t)shape.rank * sizeof *dims);
        dims[0] = size;
        shape.dims = dims;
        shape.count = shape.count / batch * size;
    }
    if (!(smaller || best)) return (double)buffer->size;
    bool known = best ? tpu_layout_best(&layout, &shape) : tpu_layout_of(&layout, &shape);
    return known ? (double)layout.bytes : (double)buffer->size;
}

/* The same of everything at the peak. */
static double total_with(struct report *report, int64_t batch, int64_t size, bool best) {
    double total = 0;
    for (int i = 0; i < report->count; i++)
        total += bytes_with(report, report->largest[i], batch, size, best);
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
    bool differ = best < 0.99 * total_with(report, 0, 0, false);
    if (differ)
        diag_note(report->diag, (struct src_loc){0},
                  "with the layouts named above the program needs about %s, which %s", SIZE(best),
                  layouts_fit ? "fits" : "does not fit either");
    note_batch(report, false);
    if (differ && !layouts_fit) note_batch(report, true);
}

static void print_value(FILE *out, struct report *report, const struct buffer *buffer) {
    const struct tpu_memory *memory = report->memory;
    struct tpu_layout layout;
    int64_t row = buffer->kind == BUFFER_ARENA ? memory->vmem[buffer->id] : -1;
    if (buffer->kind == BUFFER_NONE || !tpu_layout_of(&layout, buffer_shape(report, buffer)))
        return;
    if (row >= 0)
        fprintf(out, "vmem row %lld", (long long)row);
    else
        fprintf(out, "hbm offset %lld", (long long)memory->base[buffer->id]);
    fprintf(out, " size %lld unpadded %lld live %d-%d %s %s %s (%s)\n", (long long)buffer->size,
            (long long)tpu_layout_unpadded_bytes(&layout), buffer->start, buffer->end, role(buffer),
            tpu_layout_text(report->arena, &layout), buffer->instr->name,
            opcode_name(buffer->instr->opcode));
}

bool tpu_print_memory(FILE *out, struct hlo_module *module,
                      const struct tpu_compile_options *options, struct diag *diag) {
    struct report report = {.chip = &options->chip, .arena = arena_new()};
    const struct tpu_memory *memory = report.memory =
        tpu_memory_plan(report.arena, module, options->chip.vmem_bytes / TPU_ROW_BYTES, diag);
    if (memory) {
        fprintf(out,
                "HBM bytes: %lld: parameters %lld, results %lld, constants %lld, temporary values "
                "%lld\n",
                (long long)memory->total, (long long)memory->inputs, (long long)memory->outputs,
                (long long)memory->constants, (long long)memory->temporary);
        fprintf(out, "VMEM bytes: values of %lld stay there, in %lld of %lld\n",
                (long long)memory->vmem_bytes, (long long)memory->vmem_rows * TPU_ROW_BYTES,
                (long long)options->chip.vmem_bytes);
        for (int i = 0; i < memory->buffers->nbuffers; i++)
            print_value(out, &report, &memory->buffers->buffers[i]);
    }
    arena_free(report.arena);
    return memory != NULL;
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
