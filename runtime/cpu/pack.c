#include "runtime/cpu/pack.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/cpu/clones.h"

/* Vectors never leave this file but through memory: how they would be passed does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC optimize("O3")

/* ---- elements ---- */

/* The f32 of the same value: the product moves the exponent, of subnormal numbers too. Masks, not
 * branches, so that loops become vectors. */
INLINE uint32_t f16_bits(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, bits = x & 0x7fff, word = bits << 13;
    uint32_t special = -(uint32_t)(bits >= 0x7c00), quiet = (uint32_t)(bits > 0x7c00) << 22;
    float value;
    memcpy(&value, &word, sizeof value);
    value *= 0x1p112f;
    uint32_t finite;
    memcpy(&finite, &value, sizeof finite);
    return sign | (finite & ~special) | ((0x7f800000 | word | quiet) & special);
}

/* The functions below are of a kind that is known while this is compiled, and become loops of
 * vectors. */
INLINE uint64_t element(enum hlocc_rt_pack_kind kind, const char *at) {
    switch (kind) {
#define X(name, from, to, value)                                                                   \
    case PACK_##name: {                                                                            \
        typedef from from_memory __attribute__((may_alias));                                       \
        from x = *(const from_memory *)at;                                                         \
        return (to)(value);                                                                        \
    }
        HLOCC_RT_PACK_KINDS(X)
#undef X
    default: return 0;
    }
}

INLINE int from_size(enum hlocc_rt_pack_kind kind) {
    switch (kind) {
#define X(name, from, to, value)                                                                   \
    case PACK_##name: return sizeof(from);
        HLOCC_RT_PACK_KINDS(X)
#undef X
    default: return 0;
    }
}

INLINE int to_size(enum hlocc_rt_pack_kind kind) {
    switch (kind) {
#define X(name, from, to, value)                                                                   \
    case PACK_##name: return sizeof(to);
        HLOCC_RT_PACK_KINDS(X)
#undef X
    default: return 0;
    }
}

typedef uint16_t memory_2 __attribute__((may_alias));
typedef uint32_t memory_4 __attribute__((may_alias));
typedef uint64_t memory_8 __attribute__((may_alias));

INLINE void put(int size, char *at, uint64_t value) {
    if (size == 2) *(memory_2 *)at = (uint16_t)value;
    if (size == 4) *(memory_4 *)at = (uint32_t)value;
    if (size == 8) *(memory_8 *)at = value;
}

/* ---- runs ---- */

INLINE void convert(enum hlocc_rt_pack_kind kind, const char *restrict from, int64_t step,
                    int64_t count, char *restrict to, int64_t to_step) {
    if (step == from_size(kind) && to_step == to_size(kind)) {
        step = from_size(kind);
#pragma GCC ivdep
#pragma GCC unroll 1
        for (int64_t k = 0; k < count; k++)
            put(to_size(kind), to + k * to_size(kind), element(kind, from + k * step));
        return;
    }
    for (int64_t k = 0; k < count; k++)
        put(to_size(kind), to + k * to_step, element(kind, from + k * step));
}

/* ---- rows of panels that lie side by side ---- */

struct panels {
    const char *from;
    int64_t step, count; /* of rows */
    char *to;
    int64_t panels, panel_bytes, width;
};

enum { AHEAD = 16 }; /* rows */

/* One row of all panels after the other, so that memory is read in long runs. The rows are parts of
 * longer ones: what comes next is asked for. */
INLINE void rows(enum hlocc_rt_pack_kind kind, const struct panels *p, int64_t width) {
    int from_bytes = from_size(kind), to_bytes = to_size(kind);
    struct panels here = *p; /* which no store can change */
    for (int64_t k = 0; k < here.count; k++) {
        const char *restrict from = here.from + k * here.step;
        char *restrict to = here.to + k * width * to_bytes;
        int64_t ahead = k + AHEAD < here.count ? AHEAD * here.step : 0;
        for (int64_t i = 0; i < here.panels; i++) {
            __builtin_prefetch(from + ahead);
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; j++)
                put(to_bytes, to + j * to_bytes, element(kind, from + j * from_bytes));
            from += width * from_bytes;
            to += here.panel_bytes;
        }
    }
}

/* Two rows in turns; the last one with zeros where it is alone. */
INLINE void pairs_of_rows(enum hlocc_rt_pack_kind kind, const struct panels *p, int64_t width) {
    int size = from_size(kind);
    struct panels here = *p;
    for (int64_t k = 0; k < here.count; k += 2) {
        bool both = k + 1 < here.count;
        const char *restrict low = here.from + k * here.step;
        const char *restrict high = both ? low + here.step : low;
        uint32_t mask = both ? 0xffff : 0;
        char *restrict to = here.to + k * width * 2;
        for (int64_t i = 0; i < here.panels; i++) {
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; j++) {
                uint32_t first = (uint32_t)element(kind, low + j * size);
                uint32_t second = (uint32_t)element(kind, high + j * size) & mask;
                put(4, to + 4 * j, first | second << 16);
            }
            low += width * size;
            high += width * size;
            to += here.panel_bytes;
        }
    }
}

/* Widths that are known while this is compiled are a few vectors. */
INLINE void rows_by_width(enum hlocc_rt_pack_kind kind, const struct panels *p, bool pairs) {
    switch (p->width) {
    case 4: pairs ? pairs_of_rows(kind, p, 4) : rows(kind, p, 4); break;
    case 6: pairs ? pairs_of_rows(kind, p, 6) : rows(kind, p, 6); break;
    case 8: pairs ? pairs_of_rows(kind, p, 8) : rows(kind, p, 8); break;
    case 12: pairs ? pairs_of_rows(kind, p, 12) : rows(kind, p, 12); break;
    case 16: pairs ? pairs_of_rows(kind, p, 16) : rows(kind, p, 16); break;
    case 32: pairs ? pairs_of_rows(kind, p, 32) : rows(kind, p, 32); break;
    default: pairs ? pairs_of_rows(kind, p, p->width) : rows(kind, p, p->width); break;
    }
}

/* ---- columns whose k lies side by side ---- */

typedef uint32_t v4 __attribute__((vector_size(16)));
typedef uint64_t v2 __attribute__((vector_size(16)));
typedef uint32_t v4_memory __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint64_t v2_memory __attribute__((vector_size(16), aligned(8), may_alias));

/* Runs of `count` units of 4 bytes become columns, 16 bytes of rows that are `row` bytes apart.
 * count is a multiple of 4. */
CLONES static void transpose_4(const char *const *run, int64_t count, char *to, int64_t row) {
    const char *r[4] = {run[0], run[1], run[2], run[3]};
    for (int64_t k = 0; k < 4 * count; k += 16, to += 4 * row) {
        v4 v[4] = {*(const v4_memory *)(r[0] + k), *(const v4_memory *)(r[1] + k),
                   *(const v4_memory *)(r[2] + k), *(const v4_memory *)(r[3] + k)};
        v4 a = __builtin_shuffle(v[0], v[1], (v4){0, 4, 1, 5});
        v4 b = __builtin_shuffle(v[0], v[1], (v4){2, 6, 3, 7});
        v4 c = __builtin_shuffle(v[2], v[3], (v4){0, 4, 1, 5});
        v4 d = __builtin_shuffle(v[2], v[3], (v4){2, 6, 3, 7});
        *(v4_memory *)to = __builtin_shuffle(a, c, (v4){0, 1, 4, 5});
        *(v4_memory *)(to + row) = __builtin_shuffle(a, c, (v4){2, 3, 6, 7});
        *(v4_memory *)(to + 2 * row) = __builtin_shuffle(b, d, (v4){0, 1, 4, 5});
        *(v4_memory *)(to + 3 * row) = __builtin_shuffle(b, d, (v4){2, 3, 6, 7});
    }
}

/* The same for units of 8 bytes, two at a time. */
CLONES static void transpose_8(const char *const *run, int64_t count, char *to, int64_t row) {
    const char *r[2] = {run[0], run[1]};
    for (int64_t k = 0; k < 8 * count; k += 16, to += 2 * row) {
        v2 a = *(const v2_memory *)(r[0] + k), b = *(const v2_memory *)(r[1] + k);
        *(v2_memory *)to = __builtin_shuffle(a, b, (v2){0, 2});
        *(v2_memory *)(to + row) = __builtin_shuffle(a, b, (v2){1, 3});
    }
}

/* ---- kinds ---- */

struct kind {
    hlocc_rt_convert *convert;
    void (*rows)(const struct panels *panels);
};

#define X(name, from_type, to_type, value)                                                         \
    CLONES static void name##_convert(const char *from, int64_t step, int64_t count, char *to,     \
                                      int64_t to_step) {                                           \
        convert(PACK_##name, from, step, count, to, to_step);                                      \
    }                                                                                              \
    CLONES static void name##_rows(const struct panels *panels) {                                  \
        rows_by_width(PACK_##name, panels, sizeof(to_type) == 2);                                  \
    }
HLOCC_RT_PACK_KINDS(X)
#undef X

static const struct kind kinds[PACK_OTHER] = {
#define X(name, from, to, value) [PACK_##name] = {name##_convert, name##_rows},
    HLOCC_RT_PACK_KINDS(X)
#undef X
};

static hlocc_rt_convert *converter(int64_t kind, hlocc_rt_convert *other) {
    return kind == PACK_OTHER ? other : kinds[kind].convert;
}

/* ---- panels ---- */

struct packing {
    const int64_t *config;
    hlocc_rt_convert *convert;
    const char *from;
    int64_t step, width;
    int64_t unit; /* bytes of an element of a panel, or of a pair of them */
    bool pairs;
};

/* k from `start`, which is even where it goes in pairs. */
static void gather(const struct packing *p, const int64_t *columns, int64_t start, int64_t count,
                   char *to) {
    int64_t row = p->width * p->unit, left = count - start;
    if (left == 0) return;
    to += (p->pairs ? start / 2 : start) * row;
    for (int64_t j = 0; j < p->width; j++, to += p->unit) {
        const char *from = p->from + columns[j] + start * p->step;
        if (!p->pairs) {
            p->convert(from, p->step, left, to, row);
            continue;
        }
        p->convert(from, 2 * p->step, (left + 1) / 2, to, row);
        p->convert(from + p->step, 2 * p->step, left / 2, to + 2, row);
        if (left % 2) memset(to + left / 2 * row + 2, 0, 2);
    }
}

enum { BLOCK = 64, MOST_SIDE = 4 };

/* Columns from `columns` on, as many as a square has, units [start, end) of k. */
static void squares(const struct packing *p, const int64_t *columns, int64_t start, int64_t end,
                    char *to) {
    int64_t side = 16 / p->unit, per_unit = p->pairs ? 2 : 1, from_size = p->config[PACK_FROM_SIZE];
    bool copies = from_size == p->config[PACK_TO_SIZE];
    const char *run[MOST_SIDE];
    char converted[MOST_SIDE][BLOCK * sizeof(uint64_t)];
    for (int64_t i = 0; i < side; i++) {
        run[i] = p->from + columns[i] + start * per_unit * from_size;
        if (copies) continue;
        p->convert(run[i], from_size, (end - start) * per_unit, converted[i],
                   p->config[PACK_TO_SIZE]);
        run[i] = converted[i];
    }
    (p->unit == 8 ? transpose_8 : transpose_4)(run, end - start, to, p->width * p->unit);
}

static void transposed(const struct packing *p, const int64_t *columns, int64_t count, char *to) {
    struct packing along = *p;
    int64_t side = 16 / p->unit, units = p->pairs ? count / 2 : count, whole = units / side * side;
    along.step = p->config[PACK_FROM_SIZE];
    if (p->width % side != 0) whole = 0;
    for (int64_t k = 0; k < whole; k += BLOCK) {
        int64_t end = k + BLOCK < whole ? k + BLOCK : whole;
        for (int64_t j = 0; j < p->width; j += side)
            squares(p, columns + j, k, end, to + (k * p->width + j) * p->unit);
    }
    gather(&along, columns, p->pairs ? 2 * whole : whole, count, to);
}

/* Whether the columns of a panel lie side by side, as those of a transposed matrix do. */
static bool are_neighbours(const struct packing *p, const int64_t *columns) {
    for (int64_t j = 1; j < p->width; j++)
        if (columns[j] != columns[0] + j * p->config[PACK_FROM_SIZE]) return false;
    return p->config[PACK_KIND] != PACK_OTHER;
}

void hlocc_rt_pack(const int64_t *config, hlocc_rt_convert *convert, const char *from,
                   const int64_t *columns, const int64_t *taps, int64_t ntaps, int64_t run,
                   char *to, int64_t n, int64_t panel_bytes) {
    struct packing p = {.config = config, .convert = converter(config[PACK_KIND], convert)};
    p.step = config[PACK_STEP];
    p.width = config[PACK_WIDTH];
    p.pairs = config[PACK_PAIRS] != 0;
    p.unit = config[PACK_TO_SIZE] * (p.pairs ? 2 : 1);
    for (int64_t t = 0; t < ntaps; t++, to += run * p.width * p.unit) {
        p.from = from + taps[t];
        int64_t whole = config[PACK_MODE] == PACK_ROWS ? n / p.width : 0, j = whole * p.width;
        if (whole)
            kinds[config[PACK_KIND]].rows(&(struct panels){p.from + columns[0], p.step, run, to,
                                                           whole, panel_bytes, p.width});
        for (; j < n; j += p.width) {
            char *panel = to + j / p.width * panel_bytes;
            if (config[PACK_MODE] == PACK_TRANSPOSE)
                transposed(&p, columns + j, run, panel);
            else if (n - j >= p.width && are_neighbours(&p, columns + j))
                kinds[config[PACK_KIND]].rows(&(struct panels){p.from + columns[j], p.step, run,
                                                               panel, 1, panel_bytes, p.width});
            else
                gather(&p, columns + j, 0, run, panel);
        }
    }
}

void hlocc_rt_pack_rows(const int64_t *config, hlocc_rt_convert *convert, const char *from,
                        const int64_t *rows, const int64_t *taps, int64_t ntaps, int64_t run,
                        char *to, int64_t n, int64_t row_bytes) {
    int64_t size = config[PACK_TO_SIZE];
    convert = converter(config[PACK_KIND], convert);
    for (int64_t i = 0; i < n; i++, to += row_bytes) {
        for (int64_t t = 0; t < ntaps; t++)
            convert(from + rows[i] + taps[t], config[PACK_STEP], run, to + t * run * size, size);
        if (config[PACK_PAIRS]) memset(to + run * size, 0, (size_t)size);
    }
}

/* ---- tables ---- */

void hlocc_rt_offsets(const int64_t *config, int64_t start, int64_t most, int64_t count,
                      int64_t *table) {
    int64_t digits = config[0], digit[OFFSETS_MOST_DIMS], offset = 0, place = start;
    const int64_t *dims = config + 1;
    if (place > most - 1) place = most - 1;
    int64_t rest = place;
    for (int64_t i = 0; i < digits; i++) {
        int64_t size = dims[2 * i];
        digit[i] = i + 1 < digits ? rest % size : rest;
        rest /= size;
        offset += digit[i] * dims[2 * i + 1];
    }
    for (int64_t k = 0; k < count; k++) {
        table[k] = offset;
        if (place++ >= most - 1) continue;
        for (int64_t i = 0; i < digits; i++) {
            offset += dims[2 * i + 1];
            if (++digit[i] < dims[2 * i] || i + 1 == digits) break;
            offset -= digit[i] * dims[2 * i + 1];
            digit[i] = 0;
        }
    }
}

/* ---- inputs of convolutions ---- */

struct stage {
    hlocc_rt_convert *convert;
    const int64_t *dims; /* STAGE_PER_DIM numbers each */
    int64_t from_size, to_size, rank, channels, channel_step;
    int64_t bytes[OFFSETS_MOST_DIMS]; /* of a position of each dimension in the copy */
    bool copies_4;                    /* elements of 4 bytes stay as they are */
};

/* All channels of `count` positions of the last dimension that follow each other. */
static void stage_places(const struct stage *s, const char *from, char *to, int64_t count) {
    int64_t step = s->dims[(s->rank - 1) * STAGE_PER_DIM + STAGE_STEP];
    int64_t bytes = s->bytes[s->rank - 1];
    bool near = s->channel_step == s->from_size || s->channels == 1;
    if (count <= 0) return;
    if (near && step == s->channels * s->from_size) {
        s->convert(from, s->from_size, s->channels * count, to, s->to_size);
    } else if (near && s->channels > 1) {
        for (int64_t i = 0; i < count; i++)
            s->convert(from + i * step, s->from_size, s->channels, to + i * bytes, s->to_size);
    } else {
        bool squares = s->copies_4 && step == 4;
        int64_t whole = squares ? s->channels / 4 * 4 : 0, most = squares ? count / 4 * 4 : 0;
        for (int64_t c = 0; c < whole && most > 0; c += 4) {
            const char *run[4];
            for (int64_t i = 0; i < 4; i++)
                run[i] = from + (c + i) * s->channel_step;
            transpose_4(run, most, to + c * 4, bytes);
        }
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t done = c < whole ? most : 0;
            s->convert(from + c * s->channel_step + done * step, step, count - done,
                       to + c * s->to_size + done * bytes, bytes);
        }
    }
}

/* The last dimension where its elements are neighbours: zeros, elements, zeros. */
static void stage_row(const struct stage *s, const int64_t *dim, int64_t low, const char *from,
                      char *to) {
    int64_t bytes = s->bytes[s->rank - 1], extent = dim[STAGE_EXTENT];
    int64_t left = low < 0 ? 0 : low > extent ? extent : low, skip = low < 0 ? -low : 0;
    int64_t count = dim[STAGE_SIZE] - skip;
    if (count > extent - left) count = extent - left;
    if (count < 0) count = 0;
    memset(to, 0, (size_t)(left * bytes));
    stage_places(s, from + skip * dim[STAGE_STEP], to + left * bytes, count);
    memset(to + (left + count) * bytes, 0, (size_t)((extent - left - count) * bytes));
}

/* Position 0 of dimension d is at `first` of the dilated input. */
static void stage_dim(const struct stage *s, int64_t d, int64_t first, const char *from, char *to) {
    const int64_t *dim = s->dims + d * STAGE_PER_DIM;
    bool last = d == s->rank - 1;
    if (last && dim[STAGE_DILATE] == 1) {
        stage_row(s, dim, -first, from, to);
        return;
    }
    for (int64_t i = 0; i < dim[STAGE_EXTENT]; i++, to += s->bytes[d]) {
        int64_t place = first + i, at = place / dim[STAGE_DILATE];
        const char *source = from + at * dim[STAGE_STEP];
        if (place < 0 || at >= dim[STAGE_SIZE] || at * dim[STAGE_DILATE] != place)
            memset(to, 0, (size_t)s->bytes[d]);
        else if (last)
            stage_places(s, source, to, 1);
        else
            stage_dim(s, d + 1, -dim[STAGE_PER_DIM + STAGE_LOW], source, to);
    }
}

void hlocc_rt_stage(const int64_t *config, hlocc_rt_convert *convert, const char *from, char *to,
                    int64_t first) {
    struct stage s = {.convert = converter(config[STAGE_KIND], convert),
                      .dims = config + STAGE_DIMS};
    s.from_size = config[STAGE_FROM_SIZE];
    s.to_size = config[STAGE_TO_SIZE];
    s.rank = config[STAGE_RANK];
    s.channels = config[STAGE_CHANNELS];
    s.channel_step = config[STAGE_CHANNEL_STEP];
    s.copies_4 = config[STAGE_KIND] == PACK_COPY_4;
    int64_t bytes = s.channels * s.to_size;
    for (int64_t d = s.rank - 1; d >= 0; d--) {
        s.bytes[d] = bytes;
        bytes *= s.dims[d * STAGE_PER_DIM + STAGE_EXTENT];
    }
    stage_dim(&s, 0, first, from, to);
}
