/* Trace Event JSON, which Perfetto opens: a process a core, a track a unit. Times are microseconds
 * at the chip's clock. */
#include <stdlib.h>

#include "runtime/tpu/machine.h"

/* Spans of one track must not overlap: each DMA takes the first track that is free. */
enum { TRACK_CORE = 1, TRACK_STALL, TRACK_MXU, TRACK_DMA = TRACK_MXU + TPU_MAX_UNITS };

struct tpu_trace {
    FILE *out;
    double us_per_cycle;
    uint64_t events;
};

static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') fputc('\\', out);
        if (c < ' ') {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
}

static void begin_event(struct tpu_trace *trace) {
    fputs(trace->events++ ? ",\n" : "{\"traceEvents\": [\n", trace->out);
}

static void name_track(struct tpu_trace *trace, int core, int track, const char *name, int unit) {
    begin_event(trace);
    fprintf(trace->out,
            "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"thread_name\", \"args\": "
            "{\"name\": \"%s",
            core, track, name);
    if (unit >= 0) fprintf(trace->out, " %d", unit);
    fputs("\"}}", trace->out);
}

struct tpu_trace *tpu_trace_new(FILE *out, const struct tpu_machine *machine) {
    struct tpu_trace *trace = calloc(1, sizeof *trace);
    if (!trace) return NULL;
    trace->out = out;
    trace->us_per_cycle = 1.0 / (double)machine->chip->clock_mhz;
    for (int c = 0; c < machine->core_count; c++) {
        begin_event(trace);
        fprintf(out,
                "{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", \"args\": {\"name\": "
                "\"%s core %d\"}}",
                c, machine->chip->name, c);
        name_track(trace, c, TRACK_CORE, "core", -1);
        name_track(trace, c, TRACK_STALL, "stalls", -1);
        for (int u = 0; u < machine->chip->mxus; u++)
            name_track(trace, c, TRACK_MXU + u, "matrix unit", u);
    }
    return trace;
}

/* One span; `extra` is more JSON for the event, or "". */
static void span(const struct tpu_core *core, int track, const char *name, uint64_t start,
                 uint64_t end, const char *extra) {
    struct tpu_trace *trace = core->machine->trace;
    begin_event(trace);
    fprintf(trace->out, "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.4f, \"dur\": %.4f, ",
            core->number, track, (double)start * trace->us_per_cycle,
            (double)(end - start) * trace->us_per_cycle);
    fputs("\"name\": \"", trace->out);
    put_text(trace->out, name);
    fprintf(trace->out, "\"%s}", extra);
}

static const char *source_name(const struct tpu_core *core, uint32_t source) {
    return source == UINT32_MAX ? "?" : core->machine->executable->program->source[source].name;
}

static void flush_mxu(struct tpu_core *core, int unit) {
    if (core->mxu_span_end[unit] > core->mxu_span_start[unit]) {
        span(core, TRACK_MXU + unit, source_name(core, core->mxu_span_source[unit]),
             core->mxu_span_start[unit], core->mxu_span_end[unit], "");
    }
    core->mxu_span_start[unit] = core->mxu_span_end[unit] = 0;
}

void tpu_trace_source(struct tpu_core *core, uint32_t source) {
    if (core->span_source != UINT32_MAX && core->now > core->span_start) {
        span(core, TRACK_CORE, source_name(core, core->span_source), core->span_start, core->now,
             "");
    }
    core->span_source = source;
    core->span_start = core->now;
    if (source != UINT32_MAX) return;
    for (int u = 0; u < core->machine->chip->mxus; u++)
        flush_mxu(core, u);
}

/* Pushes that follow each other closely are one span. */
void tpu_trace_mxu(struct tpu_core *core, int unit, uint64_t start, uint64_t end) {
    uint32_t source = core->machine->executable->code[core->pc].source;
    if (core->mxu_span_end[unit] == start && core->mxu_span_source[unit] == source) {
        core->mxu_span_end[unit] = end;
        return;
    }
    flush_mxu(core, unit);
    core->mxu_span_start[unit] = start;
    core->mxu_span_end[unit] = end;
    core->mxu_span_source[unit] = source;
}

void tpu_trace_dma(struct tpu_core *core, const struct tpu_dma *dma, uint64_t done,
                   uint64_t words) {
    static const char *const spaces[TPU_SPACES] = {"HBM", "VMEM", "SMEM"};
    char name[64], extra[96];
    snprintf(name, sizeof name, "%s to %s", spaces[dma->from], spaces[dma->to]);
    snprintf(extra, sizeof extra, ", \"args\": {\"bytes\": %llu, \"flag\": %d}",
             (unsigned long long)(words * 4), dma->flag);
    int track = 0;
    while (track + 1 < TPU_TRACE_DMAS && core->dma_span_end[track] > core->now)
        track++;
    if (!core->dma_span_end[track]) {
        name_track(core->machine->trace, core->number, TRACK_DMA + track, "DMA", track);
    }
    core->dma_span_end[track] = done;
    span(core, TRACK_DMA + track, name, core->now, done, extra);
}

void tpu_trace_stall(struct tpu_core *core, enum tpu_stall stall, uint64_t start, uint64_t end) {
    span(core, TRACK_STALL, tpu_stall_name(stall), start, end, "");
}

int tpu_trace_free(struct tpu_trace *trace) {
    begin_event(trace);
    fputs("{\"ph\": \"M\", \"pid\": 0, \"name\": \"process_labels\", \"args\": {\"labels\": "
          "\"emulated\"}}\n]}\n",
          trace->out);
    int status = fflush(trace->out) != 0 || ferror(trace->out) ? -1 : 0;
    free(trace);
    return status;
}
