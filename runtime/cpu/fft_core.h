/* Transforms of any length of the lines in the lanes of cells, and of one line in memory; included
 * after fft_cells.h. */

/* ---- a line in each lane ---- */

/* As a convolution: chirp times the transform's inverse of filter times the transform of chirp
 * times the operand. The inverse is a transform with parts swapped before and after. */
CLONES static void convolve_cells(const struct fft_plan *p, const struct source *from,
                                  const struct sink *to) {
    cell *pad = p->pad, *x = p->x, *work = p->work, *tile = p->tile;
    const root *chirp = p->chirp, *filter = p->filter;
    for (int64_t k = 0; k < p->n; k++)
        pad[k] = times_root(take(from, k), chirp[k]);
    memset((void *)(pad + p->n), 0, (size_t)(p->m - p->n) * sizeof *pad);
    struct source of_pad = {.cells = pad, .step = 1}, of_tile = {.cells = tile, .step = 1};
    struct sink to_tile = {.cells = tile, .step = 1}, to_pad = {.cells = pad, .step = 1};
    transform(&p->length, &of_pad, &to_tile, x, work, pad);
    for (int64_t k = 0; k < p->m; k++)
        tile[k] = swapped_if(true, times_root(tile[k], filter[k]));
    transform(&p->length, &of_tile, &to_pad, x, work, tile);
    for (int64_t k = 0; k < p->n; k++)
        put(to, k, times_root(swapped_if(true, pad[k]), chirp[k]));
}

/* Of the plan's length. Neither is x or work, or what a sink must not be: the source's place is
 * read before the sink is written. */
static void transform_cells(const struct fft_plan *p, const struct source *from,
                            const struct sink *to) {
    if (p->m)
        convolve_cells(p, from, to);
    else
        transform(&p->length, from, to, p->x, p->work, p->tile);
}

/* ---- one line ---- */

/* A line in memory; its elements are neighbours. */
struct line {
    const REAL *from;
    REAL *to;
    bool from_swapped, to_swapped;
    REAL scale; /* of what is stored */
};

/* One more than there are: rows that start a power of two apart would share places in caches. */
INLINE int64_t grid_stride(int64_t columns) {
    return fft_blocks(columns, LANES) + 1;
}

CLONES static void split_line(const struct fft_plan *p, const struct line *line) {
    int64_t rows = p->down.n, columns = p->across.n, stride = grid_stride(columns);
    cell *grid = p->grid, *x = p->x, *work = p->work, *row = p->tile;
    for (int64_t b = 0; b < fft_blocks(columns, LANES); b++) {
        struct source from = {.numbers = line->from + 2 * fft_block(b, columns, LANES),
                              .step = 2 * columns,
                              .count = LANES,
                              .swapped = line->from_swapped};
        struct sink to = {
            .cells = grid + b, .step = stride, .turns = (const cell *)p->turns + b * rows};
        transform(&p->down, &from, &to, x, work, row);
    }
    for (int64_t b = 0; b < fft_blocks(rows, LANES); b++) {
        int64_t first = fft_block(b, rows, LANES);
        for (int64_t c = 0; c < fft_blocks(columns, LANES); c++) {
            const cell *at = grid + first * stride + c;
            cell *to = row + fft_block(c, columns, LANES), square[LANES];
            for (int i = 0; i < LANES; i++)
                square[i] = at[fft_place(WIDE, i) * stride];
            transpose(square);
            for (int i = 0; i < LANES; i++)
                to[fft_place(WIDE, i)] = square[i];
        }
        struct source from = {.cells = row, .step = 1};
        struct sink to = {.numbers = line->to + 2 * first,
                          .step = 2 * rows,
                          .count = LANES,
                          .swapped = line->to_swapped,
                          .scale = line->scale};
        transform(&p->across, &from, &to, x, work, row);
    }
}

INLINE cell load_part(const REAL *x, int64_t at, int64_t n) {
    return n - at < LANES ? load_some(x + 2 * at, n - at) : load_numbers(x + 2 * at);
}

INLINE void store_part(REAL *to, int64_t at, int64_t n, cell a) {
    if (n - at < LANES)
        store_some(to + 2 * at, n - at, a);
    else
        store_numbers(to + 2 * at, a);
}

CLONES static void convolve_line(const struct fft_plan *p, const struct line *line) {
    REAL *a = p->lines[0], *b = p->lines[1];
    const REAL *chirp = p->chirp, *filter = p->filter;
    int64_t whole = fft_blocks(p->n, LANES) * LANES;
    struct line there = {a, b, false, false, 1}, back = {b, a, true, true, 1};
    for (int64_t k = 0; k < p->n; k += LANES) {
        cell z = swapped_if(line->from_swapped, load_part(line->from, k, p->n));
        store_numbers(a + 2 * k, times(z, load_numbers(chirp + 2 * k)));
    }
    memset(a + 2 * whole, 0, (size_t)(p->m - whole) * 2 * sizeof *a);
    split_line(p, &there);
    for (int64_t k = 0; k < p->m; k += LANES)
        store_part(b, k, p->m, times(load_part(b, k, p->m), load_part(filter, k, p->m)));
    split_line(p, &back);
    for (int64_t k = 0; k < p->n; k += LANES) {
        cell z = times(load_numbers(a + 2 * k), load_numbers(chirp + 2 * k));
        store_part(line->to, k, p->n, scaled(swapped_if(line->to_swapped, z), line->scale));
    }
}

/* Where the plan is split. The result may be the operand. */
INLINE void transform_line(const struct fft_plan *p, const struct line *line) {
    if (p->m)
        convolve_line(p, line);
    else
        split_line(p, line);
}

/* The convolution's filter, once its tables are filled: its transform. */
static void fill_filter(const struct fft_plan *p) {
    if (p->split) {
        struct line line = {p->filter, p->filter, false, false, 1};
        split_line(p, &line);
        return;
    }
    cell *x = p->pad, *y = p->tile;
    root *filter = p->filter;
    struct source from = {.cells = x, .step = 1};
    struct sink to = {.cells = y, .step = 1};
    for (int64_t k = 0; k < p->m; k++)
        for (int i = 0; i < LANES; i++) {
            x[k].re[i] = filter[k].re;
            x[k].im[i] = filter[k].im;
        }
    transform(&p->length, &from, &to, p->x, p->work, x);
    for (int64_t k = 0; k < p->m; k++)
        filter[k] = (root){y[k].re[0], y[k].im[0]};
}
