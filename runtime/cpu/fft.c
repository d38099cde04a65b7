/* Discrete Fourier transforms: what kernels.h says, on top of rows and columns (fft_job.h). */
#include <string.h>

#include "runtime/cpu/fft_job.h"
#include "runtime/cpu/kernels.h"

/* One of the phases of a transform. */
struct phase {
    bool columns;
    union {
        struct fft_rows rows;
        struct fft_columns of_columns;
    };
    int64_t units;
    struct fft_room tables, buffers;
};

static int64_t element_size(const int64_t *config) {
    return config[FFT_DOUBLE] ? sizeof(double) : sizeof(float);
}

static bool is_inverse(const int64_t *config) {
    return config[FFT_KIND] == FFT_INVERSE || config[FFT_KIND] == FFT_REAL_INVERSE;
}

static bool is_real(const int64_t *config) {
    return config[FFT_KIND] == FFT_REAL || config[FFT_KIND] == FFT_REAL_INVERSE;
}

static int64_t last_length(const int64_t *config) {
    return config[FFT_LENGTHS + config[FFT_AXES] - 1];
}

static void lay_out_rows(struct phase *phase, const int64_t *config) {
    struct fft_rows *r = &phase->rows;
    int64_t n = last_length(config), size = element_size(config);
    r->n = n;
    r->lines = config[FFT_COUNT];
    for (int64_t i = 0; i + 1 < config[FFT_AXES]; i++)
        r->lines *= config[FFT_LENGTHS + i];
    r->inverse = is_inverse(config);
    r->packed = config[FFT_KIND] == FFT_REAL_INVERSE && config[FFT_AXES] > 1;
    r->kind = !is_real(config) ? ROWS_COMPLEX : n % 2 ? ROWS_PAIRS : ROWS_HALVES;
    phase->units = r->kind == ROWS_PAIRS ? (r->lines + 1) / 2 : r->lines;
    int64_t length = r->kind == ROWS_HALVES ? n / 2 : n;
    fft_plan_lay_out(&r->plan, length, config[FFT_DOUBLE], phase->units, false, &phase->tables,
                     &phase->buffers);
    int64_t lanes = r->plan.lanes, count = r->plan.split ? 1 : lanes;
    if (r->kind == ROWS_HALVES) r->turns = fft_take(&phase->tables, length / 2 + 1, 2 * size);
    if (r->kind != ROWS_COMPLEX) {
        r->lines_in = fft_take(&phase->buffers, count * length, 2 * size);
        r->lines_out = fft_take(&phase->buffers, count * length, 2 * size);
    }
    if (!r->plan.split) r->cells = fft_take(&phase->buffers, length, 2 * size * lanes);
}

static void lay_out_columns(struct phase *phase, const int64_t *config) {
    struct fft_columns *f = &phase->of_columns;
    int64_t n = last_length(config), rows = 1, inner = is_real(config) ? n / 2 + 1 : n;
    int lanes = config[FFT_DOUBLE] ? FFT_LANES_F64 : FFT_LANES_F32;
    f->axes = (int)config[FFT_AXES] - 1;
    f->inner = inner;
    f->inverse = is_inverse(config);
    f->packed = config[FFT_KIND] == FFT_REAL_INVERSE ? n : 0;
    for (int i = 0; i < f->axes; i++) {
        int64_t length = config[FFT_LENGTHS + f->axes - 1 - i];
        rows *= length;
        fft_plan_lay_out(&f->plans[i], length, config[FFT_DOUBLE], inner, true, &phase->tables,
                         &phase->buffers);
    }
    f->box = fft_take(&phase->buffers, rows, 2 * element_size(config) * lanes);
    phase->units = config[FFT_COUNT] * fft_blocks(inner, lanes);
}

static struct phase phase_of(const int64_t *config, const void *tables, void *buffers) {
    struct phase phase;
    memset(&phase, 0, sizeof phase);
    phase.tables.at = (uintptr_t)tables;
    phase.buffers.at = (uintptr_t)buffers;
    /* Columns come first where half lines end up as real ones. */
    bool first = config[FFT_PHASE] == 0, columns_first = config[FFT_KIND] == FFT_REAL_INVERSE;
    phase.columns = config[FFT_AXES] > 1 && first == columns_first;
    if (phase.columns)
        lay_out_columns(&phase, config);
    else
        lay_out_rows(&phase, config);
    return phase;
}

static bool is_empty(const int64_t *config) {
    for (int64_t i = 0; i < config[FFT_AXES]; i++)
        if (config[FFT_LENGTHS + i] < 1) return true;
    return config[FFT_COUNT] < 1;
}

static void fill(const struct phase *phase, const int64_t *config) {
    fft_plan_finish *finish = config[FFT_DOUBLE] ? fft_finish_f64 : fft_finish_f32;
    for (int i = 0; phase->columns && i < phase->of_columns.axes; i++) {
        fft_plan_fill(&phase->of_columns.plans[i]);
        finish(&phase->of_columns.plans[i]);
    }
    if (phase->columns) return;
    const struct fft_rows *r = &phase->rows;
    fft_plan_fill(&r->plan);
    finish(&r->plan);
    for (int64_t k = 0; r->kind == ROWS_HALVES && k <= r->n / 4; k++)
        fft_put(r->turns, config[FFT_DOUBLE], k, fft_root(k, r->n));
}

int hlocc_rt_fft_phases(const int64_t *config) {
    return config[FFT_AXES] > 1 ? 2 : 1;
}

int64_t hlocc_rt_fft_units(const int64_t *config) {
    return is_empty(config) ? 0 : phase_of(config, NULL, NULL).units;
}

int64_t hlocc_rt_fft_tables(const int64_t *config) {
    return is_empty(config) ? 0 : (int64_t)phase_of(config, NULL, NULL).tables.at;
}

void hlocc_rt_fft_fill(const int64_t *config, void *tables, void *scratch) {
    struct phase phase = phase_of(config, tables, scratch);
    fill(&phase, config);
}

int64_t hlocc_rt_fft_scratch(const int64_t *config) {
    if (is_empty(config)) return 0;
    struct phase phase = phase_of(config, NULL, NULL);
    return (int64_t)phase.buffers.at + (config[FFT_FILLED] ? 0 : (int64_t)phase.tables.at);
}

void hlocc_rt_fft(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                  int64_t end) {
    const void *tables = config + FFT_NUMBERS;
    void *buffers = scratch;
    if (is_empty(config)) return;
    if (!config[FFT_FILLED]) {
        tables = scratch;
        buffers = (char *)scratch + hlocc_rt_fft_tables(config);
    }
    struct phase phase = phase_of(config, tables, buffers);
    if (!config[FFT_FILLED]) fill(&phase, config);
    const void *from = config[FFT_PHASE] ? arrays[0] : arrays[1];
    bool wide = config[FFT_DOUBLE];
    if (phase.columns)
        (wide ? fft_columns_f64 : fft_columns_f32)(&phase.of_columns, from, arrays[0], begin, end);
    else
        (wide ? fft_rows_f64 : fft_rows_f32)(&phase.rows, from, arrays[0], begin, end);
}
