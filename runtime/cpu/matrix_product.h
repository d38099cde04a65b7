/* Products of matrices inside factorisations, for the number type of matrix_number.h. Compiled for
 * several processors (clones.h). */
#ifndef RUNTIME_CPU_MATRIX_PRODUCT_H
#define RUNTIME_CPU_MATRIX_PRODUCT_H

#include "runtime/cpu/matrix_number.h"

/* A panel of b has PANEL columns: for real numbers TILE_VECTORS vectors in each row, for complex
 * ones a vector of real parts and one of imaginary parts. */
enum {
    TILE_ROWS = 4,
    TILE_VECTORS = PARTS == 1 ? 3 : 1,
    PANEL = TILE_VECTORS * LANES,
    PANEL_DEPTH = 128
};

#if PARTS == 1

/* c -= a b for rows x vectors of c; b is packed. */
INLINE void tile(NUM *c, int64_t c_row, const struct product *p, const NUM *a, const REAL *b,
                 int64_t depth, int rows, int vectors) {
    lanes sums[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sums[i][j] = (lanes){0};
    for (int64_t k = 0; k < depth; k++, b += PANEL) {
        const lanes *row = (const lanes *)b;
        for (int i = 0; i < rows; i++) {
            NUM x = a[i * p->a_row + k * p->a_column];
            for (int j = 0; j < vectors; j++)
                sums[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) {
            NUM *at = c + i * c_row + j * LANES;
            put(at, get(at) - sums[i][j]);
        }
}

INLINE void tile_of_rows(NUM *c, int64_t c_row, const struct product *p, const NUM *a,
                         const REAL *b, int64_t depth, int rows, int vectors) {
    switch (vectors) {
    case 3: tile(c, c_row, p, a, b, depth, rows, 3); break;
    case 2: tile(c, c_row, p, a, b, depth, rows, 2); break;
    default: tile(c, c_row, p, a, b, depth, rows, 1); break;
    }
}

INLINE void pack(REAL *to, const struct product *p, const NUM *from, int64_t depth, int64_t width) {
    for (int64_t r = 0; r < depth; r++, from += p->b_row, to += PANEL) {
        int64_t i = 0;
        for (; i + LANES <= width && p->b_column == 1; i += LANES)
            *(lanes *)(to + i) = get(from + i);
        for (; i < width; i++)
            to[i] = from[i * p->b_column];
        for (; i % LANES; i++)
            to[i] = 0;
    }
}

#else

/* Real and imaginary parts in turn: the first or the second half of the numbers. */
INLINE lanes interleave(lanes re, lanes im, int half) {
#if SINGLE
    return half ? __builtin_shuffle(re, im, (places){4, 12, 5, 13, 6, 14, 7, 15})
                : __builtin_shuffle(re, im, (places){0, 8, 1, 9, 2, 10, 3, 11});
#else
    return half ? __builtin_shuffle(re, im, (places){2, 6, 3, 7})
                : __builtin_shuffle(re, im, (places){0, 4, 1, 5});
#endif
}

/* The panel holds conj(b) where a is conjugated: conj(a) b = conj(a conj(b)). */
INLINE void tile(NUM *c, int64_t c_row, const struct product *p, const NUM *a, const REAL *b,
                 int64_t depth, int rows) {
    lanes re[TILE_ROWS], im[TILE_ROWS];
    for (int i = 0; i < rows; i++)
        re[i] = im[i] = (lanes){0};
    for (int64_t k = 0; k < depth; k++, b += 2 * PANEL) {
        lanes b_re = *(const lanes *)b, b_im = *(const lanes *)(b + PANEL);
        for (int i = 0; i < rows; i++) {
            const NUM *at = a + i * p->a_row + k * p->a_column;
            REAL x = RE(*at), y = IM(*at);
            re[i] += x * b_re;
            im[i] += x * b_im;
            re[i] -= y * b_im;
            im[i] += y * b_re;
        }
    }
    for (int i = 0; i < rows; i++) {
        lanes other = p->conjugate_a ? -im[i] : im[i];
        for (int half = 0; half < 2; half++) {
            NUM *at = c + i * c_row + half * NUMBERS;
            put(at, get(at) - interleave(re[i], other, half));
        }
    }
}

INLINE void tile_of_rows(NUM *c, int64_t c_row, const struct product *p, const NUM *a,
                         const REAL *b, int64_t depth, int rows, int vectors) {
    (void)vectors;
    tile(c, c_row, p, a, b, depth, rows);
}

INLINE void pack(REAL *to, const struct product *p, const NUM *from, int64_t depth, int64_t width) {
    REAL sign = p->conjugate_a != p->conjugate_b ? -1 : 1;
    for (int64_t r = 0; r < depth; r++, from += p->b_row, to += 2 * PANEL)
        for (int64_t i = 0; i < PANEL; i++) {
            NUM x = i < width ? from[i * p->b_column] : 0;
            to[i] = RE(x);
            to[PANEL + i] = sign * IM(x);
        }
}

#endif

INLINE void any_tile(NUM *c, int64_t c_row, const struct product *p, const NUM *a, const REAL *b,
                     int64_t depth, int rows, int vectors) {
    switch (rows) {
    case 4: tile_of_rows(c, c_row, p, a, b, depth, 4, vectors); break;
    case 3: tile_of_rows(c, c_row, p, a, b, depth, 3, vectors); break;
    case 2: tile_of_rows(c, c_row, p, a, b, depth, 2, vectors); break;
    default: tile_of_rows(c, c_row, p, a, b, depth, 1, vectors); break;
    }
}

/* All rows of up to PANEL columns; the last vector by way of a whole tile. */
INLINE void tiles(const struct product *p, NUM *c, const NUM *a, const REAL *b, int64_t depth,
                  int64_t width) {
    NUM whole[TILE_ROWS * PANEL];
    int vectors = (int)((width + LANES - 1) / LANES);
    for (int64_t i = 0; i < p->rows; i += TILE_ROWS) {
        int rows = p->rows - i < TILE_ROWS ? (int)(p->rows - i) : TILE_ROWS;
        NUM *to = c + i * p->c_row;
        const NUM *from = a + i * p->a_row;
        if (width % LANES == 0) {
            any_tile(to, p->c_row, p, from, b, depth, rows, vectors);
            continue;
        }
        for (int r = 0; r < rows; r++)
            for (int64_t j = 0; j < vectors * LANES; j++)
                whole[r * PANEL + j] = j < width ? to[r * p->c_row + j] : 0;
        any_tile(whole, PANEL, p, from, b, depth, rows, vectors);
        for (int r = 0; r < rows; r++)
            for (int64_t j = 0; j < width; j++)
                to[r * p->c_row + j] = whole[r * PANEL + j];
    }
}

CLONES static void subtract_product(NUM *c, const NUM *a, const NUM *b, const struct product *p) {
    REAL packed[PANEL_DEPTH * PANEL * PARTS];
    for (int64_t k = 0; k < p->depth; k += PANEL_DEPTH) {
        int64_t depth = p->depth - k < PANEL_DEPTH ? p->depth - k : PANEL_DEPTH;
        for (int64_t j = 0; j < p->columns; j += PANEL) {
            int64_t width = p->columns - j < PANEL ? p->columns - j : PANEL;
            pack(packed, p, b + k * p->b_row + j * p->b_column, depth, width);
            tiles(p, c + j, a + k * p->a_column, packed, depth, width);
        }
    }
}

/* c = - a b */
static void negative_product(NUM *c, const NUM *a, const NUM *b, const struct product *p) {
    for (int64_t i = 0; i < p->rows; i++)
        memset((void *)(c + i * p->c_row), 0, (size_t)p->columns * sizeof *c);
    subtract_product(c, a, b, p);
}

#endif
