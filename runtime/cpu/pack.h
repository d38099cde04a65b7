/* What the compiled code of products calls around its kernels: operands brought into the order in
 * which the kernels read them, converted to the type that they compute in. All offsets and steps
 * are in bytes, all sizes and counts in elements. `config` is a constant table of numbers. */
#ifndef RUNTIME_CPU_PACK_H
#define RUNTIME_CPU_PACK_H

#include <stdint.h>

/* to[k * to_step] = from[k * step], converted, for k < count */
typedef void hlocc_rt_convert(const char *from, int64_t step, int64_t count, char *to,
                              int64_t to_step);

/* The conversions that are here: X(name, type of an element, type that it becomes, value of x).
 * Types stand for bits: a number of 4 bytes may be an f32. */
#define HLOCC_RT_PACK_KINDS(X)                                                                     \
    X(COPY_2, uint16_t, uint16_t, x)                                                               \
    X(S8_S16, int8_t, uint16_t, (uint16_t)x)                                                       \
    X(U8_S16, uint8_t, uint16_t, x)                                                                \
    X(COPY_4, uint32_t, uint32_t, x)                                                               \
    X(S8_S32, int8_t, uint32_t, (uint32_t)x)                                                       \
    X(U8_S32, uint8_t, uint32_t, x)                                                                \
    X(S16_S32, int16_t, uint32_t, (uint32_t)x)                                                     \
    X(U16_S32, uint16_t, uint32_t, x)                                                              \
    X(BF16_F32, uint16_t, uint32_t, (uint32_t)x << 16)                                             \
    X(F16_F32, uint16_t, uint32_t, f16_bits(x))                                                    \
    X(COPY_8, uint64_t, uint64_t, x)                                                               \
    X(S32_S64, int32_t, uint64_t, (uint64_t)x)                                                     \
    X(U32_S64, uint32_t, uint64_t, x)

enum hlocc_rt_pack_kind {
#define X(name, from, to, value) PACK_##name,
    HLOCC_RT_PACK_KINDS(X)
#undef X
        PACK_OTHER /* what the function that is passed along does */
};

enum hlocc_rt_pack_mode {
    PACK_GATHER,    /* the elements of a row of a panel lie anywhere */
    PACK_TRANSPOSE, /* they lie anywhere, and k runs side by side */
    PACK_ROWS,      /* they lie side by side, where a panel is whole */
};

enum hlocc_rt_pack_config {
    PACK_KIND,
    PACK_FROM_SIZE, /* of an element in bytes */
    PACK_TO_SIZE,
    PACK_STEP, /* from one k to the next; not read where transposed */
    PACK_MODE, /* GATHER alone, where the kind is OTHER */
    PACK_WIDTH,
    PACK_PAIRS, /* 1: elements k and k + 1 (or zero) of a column lie side by side; to 2 bytes */
    PACK_NUMBERS
};

/* Packs n columns in panels of PACK_WIDTH, panel_bytes apart, for each tap a run of k:
 *     to[(tap * run + k) * width + j] = from[taps[tap] + columns[j] + k * step]
 * in the first panel. There are offsets of whole panels in `columns`. Where k goes in pairs there
 * is one tap. n and run are at least 1; `convert` is NULL unless the kind is OTHER. */
void hlocc_rt_pack(const int64_t *config, hlocc_rt_convert *convert, const char *from,
                   const int64_t *columns, const int64_t *taps, int64_t ntaps, int64_t run,
                   char *to, int64_t n, int64_t panel_bytes);

/* The same as rows, row_bytes apart: to[tap * run + k] = from[rows[i] + taps[tap] + k * step] in
 * row i < n. Where PACK_PAIRS, a zero follows. */
void hlocc_rt_pack_rows(const int64_t *config, hlocc_rt_convert *convert, const char *from,
                        const int64_t *rows, const int64_t *taps, int64_t ntaps, int64_t run,
                        char *to, int64_t n, int64_t row_bytes);

/* table[i] = offset of place min(start + i, most - 1) of some dimensions, i < count. config: how
 * many there are, then size and stride of each, innermost first. */
enum { OFFSETS_MOST_DIMS = 16 };
void hlocc_rt_offsets(const int64_t *config, int64_t start, int64_t most, int64_t count,
                      int64_t *table);

enum hlocc_rt_stage_config {
    STAGE_KIND,
    STAGE_FROM_SIZE,
    STAGE_TO_SIZE,
    STAGE_RANK,
    STAGE_CHANNELS,
    STAGE_CHANNEL_STEP,
    STAGE_DIMS /* of each, outermost first: */
};
enum hlocc_rt_stage_dim {
    STAGE_SIZE, /* of the input */
    STAGE_STEP,
    STAGE_LOW,    /* position 0 of the copy is so far before the input's; not read of the first */
    STAGE_DILATE, /* elements of the input are so far apart in the copy */
    STAGE_EXTENT, /* of the copy */
    STAGE_PER_DIM
};
/* The part of a convolution's input that the kernels read: padded, dilated, channels innermost.
 * `first` is where position 0 of the first dimension falls in the dilated input. */
void hlocc_rt_stage(const int64_t *config, hlocc_rt_convert *convert, const char *from, char *to,
                    int64_t first);

#endif
