#include "compiler/target_tpu.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tpu/asm.h"
#include "backend/tpu/tpu.h"
#include "runtime/tpu/tpu.h"

static bool tpu_options_of(struct tpu_compile_options *tpu, const struct target_options *options,
                           struct diag *diag) {
    const char *chip = options->chip ? options->chip : "v2";
    char why[600];
    *tpu = (struct tpu_compile_options){.matmul_precision = options->matmul_precision,
                                        .seed = options->seed};
    if (tpu_chip_load(&tpu->chip, chip, why, sizeof why)) return true;
    diag_error(diag, (struct src_loc){0}, "--chip=%s: %s", chip, why);
    return false;
}

bool tpu_target_report(struct hlo_module *module, const struct target_options *options, FILE *out,
                       struct diag *diag) {
    struct tpu_compile_options tpu;
    return tpu_options_of(&tpu, options, diag) && tpu_check(module, &tpu, diag) &&
           tpu_print_memory(out, module, &tpu, diag);
}

struct tpu_session {
    int64_t values_bytes; /* of values that stay in VMEM */
    struct hlo_module *module;
    const char *trace;
    struct tpu_stats stats;
    struct tpu_executable *executable;
};

static bool compile(struct arena *arena, struct hlo_module *module,
                    const struct target_options *options, struct tpu_program *program,
                    int64_t *values_bytes, struct diag *diag) {
    struct tpu_compile_options tpu;
    if (!tpu_options_of(&tpu, options, diag)) return false;
    tpu.values_bytes = values_bytes;
    return tpu_check(module, &tpu, diag) && tpu_compile(arena, module, &tpu, program, diag);
}

/* What kernels need for themselves shows only when they are made. */
bool tpu_target_check(struct hlo_module *module, const struct target_options *options,
                      struct diag *diag) {
    struct arena *arena = arena_new();
    struct tpu_program program;
    bool ok = compile(arena, module, options, &program, NULL, diag);
    arena_free(arena);
    return ok;
}

struct tpu_session *tpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag) {
    struct arena *arena = arena_new();
    struct tpu_program program;
    struct tpu_error error = {""};
    struct tpu_session *session = calloc(1, sizeof *session);
    if (session && compile(arena, module, options, &program, &session->values_bytes, diag)) {
        session->module = module;
        session->trace = options->trace;
        session->executable = tpu_load_program(&program, &error);
        if (!session->executable) diag_error(diag, (struct src_loc){0}, "%s", error.text);
    }
    arena_free(arena);
    if (session && session->executable) return session;
    free(session);
    return NULL;
}

static int gather_arrays(const struct literal *literal, void **to) {
    int n = 0;
    if (shape_is_array(literal->shape)) {
        to[0] = literal->data;
        return 1;
    }
    for (int i = 0; i < literal->shape->ntuple; i++)
        n += gather_arrays(literal->elements[i], to + n);
    return n;
}

int tpu_execute_traced(const struct tpu_executable *executable, const void *const *inputs,
                       void *const *outputs, const char *path, struct tpu_stats *stats,
                       struct tpu_error *error) {
    struct tpu_run_options options = {0};
    struct output trace;
    struct fault fault;
    if (path && !output_open(&trace, path, &fault)) {
        snprintf(error->text, sizeof error->text, "%.100s: %.300s", path, fault.text);
        return -1;
    }
    if (path) options.trace = trace.stream;
    tpu_stats_clear(stats);
    int status = tpu_execute(executable, inputs, outputs, &options, stats, error);
    if (path && status != 0) output_abandon(&trace);
    if (path && status == 0 && !output_commit(&trace, &fault)) {
        snprintf(error->text, sizeof error->text, "%.100s: %.300s", path, fault.text);
        return -1;
    }
    return status;
}

struct literal *tpu_session_run(struct tpu_session *session, struct literal *const *args,
                                struct diag *diag) {
    const struct hlo_computation *entry = session->module->entry;
    struct tpu_error error = {""};
    int count = 0, at = 0;
    for (int i = 0; i < entry->nparameters; i++)
        count += entry->parameters[i]->shape->nleaves;
    struct literal *result = literal_new(entry->root->shape);
    void **inputs = calloc((size_t)count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)entry->root->shape->nleaves + 1, sizeof *outputs);
    int status = -1;
    if (result && inputs && outputs) {
        for (int i = 0; i < entry->nparameters; i++)
            at += gather_arrays(args[i], inputs + at);
        gather_arrays(result, outputs);
        status = tpu_execute_traced(session->executable, (const void *const *)inputs, outputs,
                                    session->trace, &session->stats, &error);
    }
    free(inputs);
    free(outputs);
    if (status == 0) return result;
    diag_error(diag, (struct src_loc){0}, "%s", *error.text ? error.text : "out of memory");
    literal_unref(result);
    return NULL;
}

void tpu_session_free(struct tpu_session *session) {
    if (!session) return;
    tpu_stats_clear(&session->stats);
    tpu_unload(session->executable);
    free(session);
}

/* ---- what was counted ---- */

enum { MOST_LISTED = 10 };

/* Bytes of padding in parameters and results, and all their bytes in HBM. */
static void count_padding(const struct tpu_program *program, double *padding, double *all) {
    for (uint32_t i = 0; i < program->params + program->results; i++) {
        const struct tpu_array *array =
            i < program->params ? &program->param[i] : &program->result[i - program->params];
        double elements = 1, bytes = (double)array->plane_bytes * array->planes;
        for (int d = 0; d < array->rank; d++)
            elements *= (double)array->dims[d];
        *all += bytes;
        *padding += bytes - elements * array->bits / 8 * array->planes;
    }
}

static void print_units(FILE *out, const struct tpu_stats *s) {
    fprintf(out, "slots:");
    for (int i = 0; i < TPU_SLOTS; i++)
        fprintf(out, " %s %.1f%%", tpu_slot_name((enum tpu_slot)i),
                s->bundles ? 100.0 * (double)s->slots[i] / (double)s->bundles : 0);
    fprintf(out, "\nstalls:");
    for (int i = 0; i < TPU_STALLS; i++)
        if (s->stalls[i])
            fprintf(out, " %s %" PRIu64, tpu_stall_name((enum tpu_stall)i), s->stalls[i]);
    fprintf(out, "\nmatrix units: %.2f%% busy\n", 100 * s->mxu_use);
    fprintf(out,
            "HBM: %" PRIu64 " bytes read, %" PRIu64 " written, %.2f%% of the bandwidth, %" PRIu64
            " DMAs\n",
            s->hbm_read, s->hbm_written, 100 * s->hbm_use, s->dmas);
    if (s->overlays)
        fprintf(out, "code overlays: %" PRIu64 ", %" PRIu64 " bytes\n", s->overlays,
                s->overlay_bytes);
}

/* The instructions that took most cycles, by name. */
static void print_sources(FILE *out, const struct tpu_program *program, const struct tpu_stats *s) {
    bool *done = calloc((size_t)s->sources + 1, sizeof *done);
    if (!done) return;
    for (int n = 0; n < MOST_LISTED; n++) {
        uint32_t most = s->sources;
        for (uint32_t i = 0; i < s->sources; i++)
            if (!done[i] && (most == s->sources || s->source[i].cycles > s->source[most].cycles))
                most = i;
        if (most == s->sources || s->source[most].cycles == 0) break;
        done[most] = true;
        const struct tpu_source_stats *source = &s->source[most];
        fprintf(out,
                "%12" PRIu64 " cycles %5.1f%%  %10" PRIu64 " bundles %10" PRIu64 " stalled  %s\n",
                source->cycles, 100.0 * (double)source->cycles / (double)s->cycles, source->bundles,
                source->stalls, program->source[most].name);
    }
    free(done);
}

void tpu_print_stats(const struct tpu_program *program, const struct tpu_stats *s, FILE *out) {
    double padding = 0, all = 0;
    count_padding(program, &padding, &all);
    fprintf(out,
            "TPU %s: %" PRIu64 " cycles, %.9f s at %" PRId64 " MHz; %" PRIu64
            " bundles of %u in the program\n",
            program->chip.name, s->cycles, s->seconds, program->chip.clock_mhz, s->bundles,
            program->bundles);
    print_units(out, s);
    fprintf(out, "parameters and results: %.0f bytes in HBM, %.1f%% of them padding\n", all,
            all > 0 ? 100 * padding / all : 0);
    print_sources(out, program, s);
}

void tpu_session_print_stats(const struct tpu_session *session, FILE *out) {
    tpu_print_stats(tpu_executable_program(session->executable), &session->stats, out);
    fprintf(out, "VMEM: values of %" PRId64 " bytes stay there between kernels\n",
            session->values_bytes);
}

/* ---- files ---- */

static bool print_listing(const struct tpu_program *program, struct bytes *bytes) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) return false;
    tpu_disassemble(program, stream);
    if (fclose(stream) != 0) return free(text), false;
    *bytes = (struct bytes){.data = (void *)text, .size = size};
    return true;
}

bool tpu_emit(struct hlo_module *module, const struct target_options *options, enum emit_kind kind,
              struct bytes *bytes, struct diag *diag) {
    struct arena *arena = arena_new();
    struct tpu_program program;
    struct tpu_error error = {"out of memory"};
    bool ok = compile(arena, module, options, &program, NULL, diag), made = false;
    if (ok && kind == EMIT_TPU_ASM) {
        made = tpu_program_check(&program, &error) == 0 && print_listing(&program, bytes);
    } else if (ok) {
        bytes->data = tpu_program_write(&program, &bytes->size, &error);
        made = bytes->data != NULL;
    }
    if (ok && !made) diag_error(diag, (struct src_loc){0}, "%s", error.text);
    arena_free(arena);
    return made;
}
