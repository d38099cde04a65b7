/* What must hold of a program before anything of it runs. */
#include <stdarg.h>
#include <string.h>

#include "runtime/tpu/internal.h"

int tpu_fail(struct tpu_error *error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (error) vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    /* Names come from files: what a terminal would obey is not passed on. */
    for (char *c = error ? error->text : NULL; c && *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    }
    return -1;
}

static bool printable(const char *text) {
    for (; *text; text++) {
        if (*text < ' ' || *text == 127) return false;
    }
    return true;
}

static int check_instr(const struct tpu_program *p, uint32_t at, enum tpu_slot slot,
                       struct tpu_error *error) {
    const struct tpu_bundle *bundle = &p->code[at];
    const struct tpu_instr *instr = &bundle->slot[slot];
    if (instr->unit >= p->chip.mxus) {
        return tpu_fail(error, "bundle %u: %s has %lld matrix units, and this needs unit %d", at,
                        p->chip.name, (long long)p->chip.mxus, instr->unit);
    }
    if (tpu_op_info(instr->op)->imm == TPU_IMM_TARGET &&
        tpu_branch_target(bundle, instr) >= p->bundles) {
        return tpu_fail(error, "bundle %u: the branch goes past the end of the code", at);
    }
    return 0;
}

static int check_code(const struct tpu_program *p, struct tpu_error *error) {
    if (!p->bundles) return tpu_fail(error, "the program has no code");
    for (uint32_t i = 0; i < p->bundles; i++) {
        enum tpu_slot slot;
        const char *why = tpu_bundle_check(&p->code[i], &slot);
        if (why) {
            return tpu_fail(error, "bundle %u, slot %s: %s", i,
                            tpu_slot_name(slot < TPU_SLOTS ? slot : TPU_S0), why);
        }
        for (slot = TPU_S0; slot < TPU_SLOTS; ++slot) {
            if (check_instr(p, i, slot, error) != 0) return -1;
        }
    }
    return 0;
}

static bool within(uint64_t address, uint64_t size, uint64_t limit) {
    return address <= limit && size <= limit - address;
}

static int check_array(const struct tpu_program *p, const struct tpu_array *a, const char *what,
                       uint32_t index, struct tpu_error *error) {
    if (!memchr(a->type, 0, sizeof a->type) || !a->type[0] || !printable(a->type)) {
        return tpu_fail(error, "%s %u has no type", what, index);
    }
    bool wide = a->host_bytes == 8;
    if ((a->host_bytes != 1 && a->host_bytes != 2 && a->host_bytes != 4 && !wide) ||
        (a->is_signed != 0 && a->is_signed != 1) || a->planes != (wide ? 2 : 1) ||
        (wide ? a->bits != 32 : a->bits < 8 * a->host_bytes)) {
        return tpu_fail(error, "%s %u: sizes of its elements that do not go together", what, index);
    }
    int64_t bytes = tpu_array_plane_bytes(a);
    if (bytes < 0) return tpu_fail(error, "%s %u: its layout is malformed", what, index);
    if ((uint64_t)bytes != a->plane_bytes) {
        return tpu_fail(error, "%s %u takes %lld bytes a plane, not %llu", what, index,
                        (long long)bytes, (unsigned long long)a->plane_bytes);
    }
    if (a->address % TPU_HBM_ALIGN ||
        !within(a->address, a->plane_bytes * (uint64_t)a->planes, p->hbm_bytes)) {
        return tpu_fail(error, "%s %u lies outside the HBM plan or is not aligned", what, index);
    }
    return 0;
}

static int check_arrays(const struct tpu_program *p, struct tpu_error *error) {
    if (p->params > TPU_MAX_ARRAYS || p->results > TPU_MAX_ARRAYS) {
        return tpu_fail(error, "too many parameters or results");
    }
    for (uint32_t i = 0; i < p->params; i++) {
        if (check_array(p, &p->param[i], "parameter", i, error) != 0) return -1;
    }
    for (uint32_t i = 0; i < p->results; i++) {
        if (check_array(p, &p->result[i], "result", i, error) != 0) return -1;
    }
    return 0;
}

static int check_constants(const struct tpu_program *p, struct tpu_error *error) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < p->constants; i++) {
        const struct tpu_constant *c = &p->constant[i];
        if (c->address % TPU_HBM_ALIGN || !within(c->address, c->size, p->hbm_bytes)) {
            return tpu_fail(error, "constant %u lies outside the HBM plan or is not aligned", i);
        }
        if (c->address < end) return tpu_fail(error, "constant %u overlaps the one before it", i);
        end = c->address + c->size;
    }
    return 0;
}

static int check_tables(const struct tpu_program *p, struct tpu_error *error) {
    for (uint32_t i = 0; i < p->buffers; i++) {
        const struct tpu_buffer *b = &p->buffer[i];
        const uint64_t limits[TPU_SPACES] = {p->hbm_bytes, p->vmem_bytes,
                                             (uint64_t)p->chip.smem_bytes};
        if (b->space >= TPU_SPACES || !within(b->address, b->size, limits[b->space])) {
            return tpu_fail(error, "buffer %u of the plan lies outside its memory", i);
        }
    }
    for (uint32_t i = 0; i < p->lines; i++) {
        const struct tpu_line *line = &p->line[i];
        if (line->bundle >= p->bundles || line->source >= p->sources ||
            (i ? line->bundle <= line[-1].bundle : line->bundle != 0)) {
            return tpu_fail(error, "entry %u of the line table is out of order or range", i);
        }
    }
    return 0;
}

int tpu_program_check(const struct tpu_program *p, struct tpu_error *error) {
    char why[200];
    if (!tpu_chip_check(&p->chip, why, sizeof why)) return tpu_fail(error, "the chip: %s", why);
    if (p->cores < 1 || p->cores > 254) return tpu_fail(error, "%u cores", p->cores);
    if (p->hbm_bytes > (uint64_t)p->chip.hbm_bytes || p->hbm_bytes % TPU_HBM_ALIGN) {
        return tpu_fail(error, "the program needs %llu bytes of HBM, and %s has %lld",
                        (unsigned long long)p->hbm_bytes, p->chip.name,
                        (long long)p->chip.hbm_bytes);
    }
    if (p->vmem_bytes > (uint64_t)p->chip.vmem_bytes || p->vmem_bytes % TPU_ROW) {
        return tpu_fail(error, "the program needs %llu bytes of VMEM, and %s has %lld",
                        (unsigned long long)p->vmem_bytes, p->chip.name,
                        (long long)p->chip.vmem_bytes);
    }
    if (p->smem_words > (uint64_t)p->chip.smem_bytes / 4) {
        return tpu_fail(error, "the program needs %u words of SMEM, and %s has %lld", p->smem_words,
                        p->chip.name, (long long)p->chip.smem_bytes / 4);
    }
    if (check_code(p, error) != 0 || check_arrays(p, error) != 0 ||
        check_constants(p, error) != 0) {
        return -1;
    }
    return check_tables(p, error);
}
