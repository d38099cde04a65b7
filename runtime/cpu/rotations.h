/* Rotations of the rows of a real matrix, kept until there are many and then applied to a few
 * columns at a time, which stay in the first cache. */
#ifndef RUNTIME_CPU_ROTATIONS_H
#define RUNTIME_CPU_ROTATIONS_H

#include "runtime/cpu/matrix_number.h"

enum { LOG_VECTORS = 4, LOG_WIDTH = LOG_VECTORS * LANES };

/* A log holds LOG_ROTATIONS for each row. */
enum { LOG_ROTATIONS = 32, LOG_SWEEPS = 128 };

struct rotation {
    double c, s;
};

struct sweep {
    int64_t first, count;
    bool down;
};

struct log {
    int64_t n, width; /* rows, and numbers in each */
    NUM *rows, *block;
    struct rotation *rotation;
    struct sweep *sweep;
    int64_t room, used, sweeps;
};

/* Bytes of a log for rows of n; lays it out at `at`, which is aligned for doubles. */
static int64_t log_bytes(int64_t n) {
    return hlocc_rt_align(
        n * (LOG_WIDTH * (int64_t)sizeof(NUM) + LOG_ROTATIONS * (int64_t)sizeof(struct rotation)) +
        LOG_SWEEPS * (int64_t)sizeof(struct sweep));
}

static struct log log_at(void *at, NUM *rows, int64_t n, int64_t width) {
    struct log log = {.n = n, .width = width, .rows = rows, .block = at};
    /* Lanes past the last column turn too: they have to be numbers. */
    memset(log.block, 0, (size_t)(n * LOG_WIDTH) * sizeof(NUM));
    log.room = LOG_ROTATIONS * n;
    log.rotation = (struct rotation *)(log.block + n * LOG_WIDTH);
    log.sweep = (struct sweep *)(log.rotation + log.room);
    return log;
}

/* The row that two rotations of a sweep have in common stays in registers. */
INLINE void turn_block(lanes *rows, const struct sweep *sweep, const struct rotation *r) {
    enum { N = LOG_VECTORS };
    int64_t step = sweep->down ? -N : N;
    lanes *at = rows + (sweep->first + (sweep->down ? 1 : 0)) * N, kept[N];
    for (int i = 0; i < N; i++)
        kept[i] = at[i];
    for (int64_t k = 0; k < sweep->count; k++, at += step) {
        NUM c = (NUM)r[k].c, s = (NUM)(sweep->down ? -r[k].s : r[k].s);
        for (int i = 0; i < N; i++) {
            lanes next = at[step + i];
            at[i] = c * kept[i] - s * next;
            kept[i] = s * kept[i] + c * next;
        }
    }
    for (int i = 0; i < N; i++)
        at[i] = kept[i];
}

/* `width` numbers of each row between the rows and the block. */
INLINE void exchange(const struct log *log, int64_t column, int64_t width, bool out) {
    for (int64_t i = 0; i < log->n; i++) {
        NUM *row = log->rows + i * log->width + column, *part = log->block + i * LOG_WIDTH;
        for (int64_t j = 0; j < width; j++)
            if (out)
                row[j] = part[j];
            else
                part[j] = row[j];
    }
}

/* Applies what is in the log, and empties it. */
CLONES static void flush(struct log *log) {
    enum { WIDTH = LOG_WIDTH };
    for (int64_t c = 0; c < log->width && log->sweeps; c += WIDTH) {
        int64_t width = log->width - c;
        const struct rotation *r = log->rotation;
        if (width >= WIDTH)
            exchange(log, c, WIDTH, false);
        else
            exchange(log, c, width, false);
        for (int64_t s = 0; s < log->sweeps; r += log->sweep[s].count, s++)
            turn_block((lanes *)log->block, &log->sweep[s], r);
        if (width >= WIDTH)
            exchange(log, c, WIDTH, true);
        else
            exchange(log, c, width, true);
    }
    log->sweeps = log->used = 0;
}

/* Room for a sweep of `count` rotations. Rows k and k + 1 become c x - s y and s x + c y, for k
 * from `first` on, up or down. */
static struct rotation *begin_sweep(struct log *log, int64_t first, int64_t count, bool down) {
    if (log->sweeps == LOG_SWEEPS || log->used + count > log->room) flush(log);
    log->sweep[log->sweeps++] = (struct sweep){first, count, down};
    log->used += count;
    return log->rotation + log->used - count;
}

/* The last sweep has ended early. */
static void cut_sweep(struct log *log, int64_t count) {
    struct sweep *sweep = &log->sweep[log->sweeps - 1];
    log->used -= sweep->count - count;
    sweep->count = count;
}

/* One pair of rows that need not be neighbours. */
static void turn_pair(struct log *log, int64_t x, int64_t y, double c, double s) {
    NUM *to = log->rows + x * log->width, *other = log->rows + y * log->width;
    flush(log);
    for (int64_t i = 0; i < log->width; i++) {
        NUM a = to[i], b = other[i];
        to[i] = (NUM)c * a - (NUM)s * b;
        other[i] = (NUM)s * a + (NUM)c * b;
    }
}

#endif
