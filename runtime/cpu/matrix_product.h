/* Products of matrices inside factorisations: included with NUM, FN(name), CONJ and, for real
 * numbers, VECTOR, the elements of a vector, defined. Compiled for several processors (clones.h).
 * No include guard, for that reason. */

#ifdef VECTOR

typedef NUM FN(vector)
    __attribute__((vector_size(sizeof(NUM) * VECTOR), aligned(sizeof(NUM)), may_alias));

enum { FN(TILE_ROWS) = 4, FN(TILE_VECTORS) = 3, FN(PANEL) = VECTOR * FN(TILE_VECTORS) };

/* c -= a b for rows x vectors of c; b is packed, depth x PANEL. */
INLINE void FN(tile)(NUM *c, int64_t c_row, const struct product *p, const NUM *a, const NUM *b,
                     int64_t depth, int rows, int vectors) {
    FN(vector) sums[FN(TILE_ROWS)][FN(TILE_VECTORS)];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sums[i][j] = (FN(vector)){0};
    for (int64_t k = 0; k < depth; k++, b += FN(PANEL)) {
        const FN(vector) *row = (const FN(vector) *)b;
        for (int i = 0; i < rows; i++) {
            NUM x = a[i * p->a_row + k * p->a_column];
            for (int j = 0; j < vectors; j++)
                sums[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            ((FN(vector) *)(c + i * c_row))[j] -= sums[i][j];
}

INLINE void FN(any_tile)(NUM *c, int64_t c_row, const struct product *p, const NUM *a, const NUM *b,
                         int64_t depth, int rows, int vectors) {
    switch (rows * 4 + vectors) {
    case 4 * 4 + 3: FN(tile)(c, c_row, p, a, b, depth, 4, 3); break;
    case 4 * 4 + 2: FN(tile)(c, c_row, p, a, b, depth, 4, 2); break;
    case 4 * 4 + 1: FN(tile)(c, c_row, p, a, b, depth, 4, 1); break;
    case 4 * 1 + 3: FN(tile)(c, c_row, p, a, b, depth, 1, 3); break;
    case 4 * 1 + 2: FN(tile)(c, c_row, p, a, b, depth, 1, 2); break;
    default: FN(tile)(c, c_row, p, a, b, depth, 1, 1); break;
    }
}

/* All rows of up to PANEL columns; the last vector by way of a whole tile. */
INLINE void FN(tiles)(const struct product *p, NUM *c, const NUM *a, const NUM *b, int64_t depth,
                      int64_t width) {
    NUM whole[FN(TILE_ROWS) * FN(PANEL)];
    int vectors = (int)((width + VECTOR - 1) / VECTOR), step = FN(TILE_ROWS);
    for (int64_t i = 0; i < p->rows; i += step, c += step * p->c_row, a += step * p->a_row) {
        if (p->rows - i < step) step = 1;
        if (width % VECTOR == 0) {
            FN(any_tile)(c, p->c_row, p, a, b, depth, step, vectors);
            continue;
        }
        for (int r = 0; r < step; r++)
            for (int64_t j = 0; j < vectors * VECTOR; j++)
                whole[r * FN(PANEL) + j] = j < width ? c[r * p->c_row + j] : 0;
        FN(any_tile)(whole, FN(PANEL), p, a, b, depth, step, vectors);
        for (int r = 0; r < step; r++)
            for (int64_t j = 0; j < width; j++)
                c[r * p->c_row + j] = whole[r * FN(PANEL) + j];
    }
}

INLINE void FN(pack)(NUM *to, const struct product *p, const NUM *from, int64_t depth,
                     int64_t width) {
    for (int64_t r = 0; r < depth; r++, from += p->b_row, to += FN(PANEL)) {
        int64_t i = 0;
        for (; i + VECTOR <= width && p->b_column == 1; i += VECTOR)
            *(FN(vector) *)(to + i) = *(const FN(vector) *)(from + i);
        for (; i < width; i++)
            to[i] = from[i * p->b_column];
        for (; i % VECTOR; i++)
            to[i] = 0;
    }
}

CLONES static void FN(subtract_product)(NUM *c, const NUM *a, const NUM *b,
                                        const struct product *p) {
    enum { DEPTH = 128 };
    NUM packed[DEPTH * FN(PANEL)];
    for (int64_t k = 0; k < p->depth; k += DEPTH) {
        int64_t depth = p->depth - k < DEPTH ? p->depth - k : DEPTH;
        for (int64_t j = 0; j < p->columns; j += FN(PANEL)) {
            int64_t width = p->columns - j < FN(PANEL) ? p->columns - j : FN(PANEL);
            FN(pack)(packed, p, b + k * p->b_row + j * p->b_column, depth, width);
            FN(tiles)(p, c + j, a + k * p->a_column, packed, depth, width);
        }
    }
}

#else

/* Complex numbers: row by row. */
CLONES static void FN(subtract_product)(NUM *c, const NUM *a, const NUM *b,
                                        const struct product *p) {
    enum { WIDTH = 32 };
    NUM row[WIDTH];
    for (int64_t j = 0; j < p->columns; j += WIDTH) {
        int64_t width = p->columns - j < WIDTH ? p->columns - j : WIDTH;
        for (int64_t k = 0; k < p->depth; k++) {
            for (int64_t i = 0; i < width; i++) {
                NUM x = b[k * p->b_row + (j + i) * p->b_column];
                row[i] = p->conjugate_b ? CONJ(x) : x;
            }
            for (int64_t r = 0; r < p->rows; r++) {
                NUM x = a[r * p->a_row + k * p->a_column];
                FN(subtract)(c + r * p->c_row + j, row, p->conjugate_a ? CONJ(x) : x, width);
            }
        }
    }
}

#endif
