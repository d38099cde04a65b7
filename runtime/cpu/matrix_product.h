/* Products of matrices inside factorisations: included with NUM, FN(name), CONJ and, for real
 * numbers, VECTOR, the elements of a vector, defined. Compiled for several processors (clones.h).
 * No include guard, for that reason. */

#ifdef VECTOR

typedef NUM FN(vector)
    __attribute__((vector_size(sizeof(NUM) * VECTOR), aligned(sizeof(NUM)), may_alias));

enum { FN(TILE_ROWS) = 4, FN(TILE_VECTORS) = 3, FN(PANEL) = VECTOR * FN(TILE_VECTORS) };

/* c[rows x PANEL] -= a b, where b is packed, depth x PANEL. */
INLINE void FN(tile)(const struct product *p, NUM *c, const NUM *a, const NUM *b, int64_t depth,
                     int rows) {
    FN(vector) sums[FN(TILE_ROWS)][FN(TILE_VECTORS)];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < FN(TILE_VECTORS); j++)
            sums[i][j] = (FN(vector)){0};
    for (int64_t k = 0; k < depth; k++, b += FN(PANEL)) {
        const FN(vector) *row = (const FN(vector) *)b;
        for (int i = 0; i < rows; i++) {
            NUM x = a[i * p->a_row + k * p->a_column];
            for (int j = 0; j < FN(TILE_VECTORS); j++)
                sums[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < FN(TILE_VECTORS); j++)
            ((FN(vector) *)(c + i * p->c_row))[j] -= sums[i][j];
}

/* The same for fewer columns: by way of a whole tile. */
INLINE void FN(partial_tile)(const struct product *p, NUM *c, const NUM *a, const NUM *b,
                             int64_t depth, int rows, int64_t width) {
    NUM whole[FN(TILE_ROWS) * FN(PANEL)] = {0};
    struct product local = *p;
    local.c_row = FN(PANEL);
    FN(tile)(&local, whole, a, b, depth, rows);
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            c[i * p->c_row + j] += whole[i * FN(PANEL) + j];
}

INLINE void FN(tiles)(const struct product *p, NUM *c, const NUM *a, const NUM *b, int64_t depth,
                      int64_t width) {
    for (int64_t i = 0; i < p->rows;
         i += FN(TILE_ROWS), c += FN(TILE_ROWS) * p->c_row, a += FN(TILE_ROWS) * p->a_row) {
        int64_t rows = p->rows - i;
        if (rows >= FN(TILE_ROWS) && width == FN(PANEL))
            FN(tile)(p, c, a, b, depth, FN(TILE_ROWS));
        else if (rows >= FN(TILE_ROWS))
            FN(partial_tile)(p, c, a, b, depth, FN(TILE_ROWS), width);
        else
            for (int64_t r = 0; r < rows; r++)
                FN(partial_tile)(p, c + r * p->c_row, a + r * p->a_row, b, depth, 1, width);
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
            for (int64_t r = 0; r < depth; r++) {
                const NUM *from = b + (k + r) * p->b_row + j * p->b_column;
                NUM *to = packed + r * FN(PANEL);
                for (int64_t i = 0; i < width; i++)
                    to[i] = from[i * p->b_column];
                for (int64_t i = width; i < FN(PANEL); i++)
                    to[i] = 0;
            }
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
