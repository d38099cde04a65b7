/* Discrete Fourier transforms in double. Lengths with small prime factors go through Stockham's
 * passes, four lines at a time (fft_cells.h); others become a circular convolution of a power of
 * two (Bluestein, A linear filtering approach to the computation of discrete Fourier transform,
 * 1970). Real lines of an even length are complex ones of half of it.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "runtime/cpu/fft_cells.h"
#include "runtime/cpu/kernels.h"

typedef double complex cplx;

static inline cplx times(cplx a, cplx b) {
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* roots[k] = e^(-2 pi i k / n), exact to a unit or so: angles are reduced to an eighth. */
static cplx root(int64_t k, int64_t n) {
    int64_t octant = 8 * k / n; /* 0 .. 7 */
    int64_t rest = 8 * k - octant * n;
    double turn = 2 * M_PI / (double)n;
    bool odd = octant & 1;
    double x = turn * (double)(odd ? n - rest : rest) / 8, c = cos(x), s = sin(x);
    if (odd) { /* mirrored at the diagonal */
        double swap = c;
        c = s;
        s = swap;
    }
    switch (octant >> 1) {
    case 0: return CMPLX(c, -s);
    case 1: return CMPLX(-s, -c);
    case 2: return CMPLX(-c, s);
    default: return CMPLX(s, c);
    }
}

/* Products of two short tables: few sines, and no error that grows. */
static void fill_roots(cplx *roots, int64_t n) {
    cplx fine[256];
    int64_t step = 256;
    for (int64_t k = 0; k < step && k < n; k++)
        fine[k] = root(k, n);
    for (int64_t base = 0; base < n; base += step) {
        cplx coarse = root(base, n);
        for (int64_t k = 0; k < step && base + k < n; k++)
            roots[base + k] = base == 0 ? fine[k] : times(coarse, fine[k]);
    }
}

/* ---- plans ---- */

/* Where the next piece of scratch is. A plan is laid out first, which touches no memory (so that
 * its size is known from a layout at 0), then filled. */
struct room {
    uintptr_t at;
};

static void *take(struct room *room, int64_t count, size_t size) {
    uintptr_t at = room->at;
    room->at += ((uintptr_t)count * size + 63) & ~(uintptr_t)63;
    return (void *)at;
}

/* Transforms of a length with small factors, whose x, work and grid are for any of its lines. */
struct smooth {
    struct fft_length length; /* count 0: in two parts, split */
    struct fft_split split;
    struct fft_cell *grid, *x, *work;
};

/* Transforms of any length n; where m > 0, as convolutions of that length. */
struct plan {
    int64_t n, m;
    struct smooth smooth; /* of n or m */
    cplx *chirp, *filter; /* e^(-pi i k^2 / n); its transform */
    cplx *pad[2];         /* m each */
};

static bool is_smooth(int64_t n) {
    struct fft_length length;
    return fft_factorise(n, &length) == 1;
}

/* Length of the convolution for a length that is not smooth. */
static int64_t padded_length(int64_t n) {
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

static int64_t whole_lanes(int64_t n) {
    return (n + FFT_LANES - 1) / FFT_LANES * FFT_LANES;
}

/* The divisor of n, at most its root, that wastes the fewest lanes; of similar ones the largest. */
static int64_t divisor_near_root(int64_t n) {
    int64_t best = 1;
    double least = INFINITY;
    for (int64_t d = 2; d <= n / d; d++) {
        if (n % d) continue;
        double waste = (double)whole_lanes(d) / (double)d * (d < 16 && d * d < n / 16 ? 1.5 : 1);
        waste += (double)whole_lanes(n / d) / (double)(n / d);
        if (waste > least * 1.05) continue;
        least = waste < least ? waste : least;
        best = d;
    }
    return best;
}

/* Lines of up to 128 go through the caches at once anyway, and so do those that stand beside each
 * other. */
static void lay_out_smooth(struct smooth *s, int64_t n, bool beside, struct room *room) {
    enum { LONGEST_SHORT = 128 };
    int64_t down = beside || n <= LONGEST_SHORT ? 1 : divisor_near_root(n), longest = n;
    memset(s, 0, sizeof *s);
    if (down == 1) {
        fft_factorise(n, &s->length);
        s->length.roots = take(room, n, sizeof(struct fft_root));
    } else {
        int64_t across = n / down;
        longest = across;
        fft_factorise(down, &s->split.down);
        fft_factorise(across, &s->split.across);
        s->split.down.roots = take(room, down, sizeof(struct fft_root));
        s->split.across.roots = take(room, across, sizeof(struct fft_root));
        s->split.turns =
            take(room, whole_lanes(across) / FFT_LANES * down, sizeof(struct fft_cell));
        s->grid = take(room, whole_lanes(down) * fft_grid_stride(across), sizeof(struct fft_cell));
    }
    s->x = take(room, whole_lanes(longest), sizeof(struct fft_cell));
    s->work = take(room, whole_lanes(longest), sizeof(struct fft_cell));
}

static void lay_out(struct plan *p, int64_t n, bool beside, struct room *room) {
    memset(p, 0, sizeof *p);
    p->n = n;
    p->m = is_smooth(n) ? 0 : padded_length(n);
    lay_out_smooth(&p->smooth, p->m ? p->m : n, beside && !p->m, room);
    if (!p->m) return;
    p->chirp = take(room, n, sizeof(cplx));
    p->filter = take(room, p->m, sizeof(cplx));
    for (int i = 0; i < 2; i++)
        p->pad[i] = take(room, p->m, sizeof(cplx));
}

/* Every step-th of n roots. */
static void pick_roots(const struct fft_length *to, const cplx *roots, int64_t step) {
    cplx *picked = (cplx *)to->roots;
    for (int64_t k = 0; k < to->n; k++)
        picked[k] = roots[k * step];
}

static void fill_split(struct smooth *s) {
    const struct fft_split *split = &s->split;
    int64_t rows = split->down.n, columns = split->across.n;
    cplx *roots = (cplx *)s->grid; /* there until the first line is transformed */
    struct fft_cell *turn = (struct fft_cell *)split->turns;
    fill_roots(roots, rows * columns);
    pick_roots(&split->down, roots, columns);
    pick_roots(&split->across, roots, rows);
    for (int64_t c = 0; c < columns; c += FFT_LANES)
        for (int64_t r = 0; r < rows; r++, turn++)
            for (int i = 0; i < FFT_LANES; i++) {
                cplx w = c + i < columns ? roots[r * (c + i)] : 0;
                turn->re[i] = creal(w);
                turn->im[i] = cimag(w);
            }
}

static void convolve(const struct plan *p, cplx *x, bool inverse);

/* chirp[k] = e^(-pi i k^2 / n) = root(k^2 mod 2n, 2n) */
static void fill_convolution(struct plan *p) {
    uint64_t turn = 2 * (uint64_t)p->n;
    for (int64_t k = 0; k < p->n; k++)
        p->chirp[k] = root((int64_t)((unsigned __int128)k * (uint64_t)k % turn), 2 * p->n);
    memset(p->filter, 0, (size_t)p->m * sizeof *p->filter);
    for (int64_t k = 0; k < p->n; k++)
        p->filter[k] = p->filter[k ? p->m - k : 0] = conj(p->chirp[k]);
    convolve(p, p->filter, false);
}

static void fill(struct plan *p) {
    if (p->smooth.length.count || p->smooth.length.n == 1)
        fill_roots((cplx *)p->smooth.length.roots, p->smooth.length.n);
    else
        fill_split(&p->smooth);
    if (p->m) fill_convolution(p);
}

/* ---- lines ---- */

static cplx number_at(const struct fft_view *from, int64_t at) {
    const float *f = from->data;
    const double *d = from->data;
    cplx x = 0;
    switch (from->kind) {
    case FFT_REAL_F32: x = (double)f[at]; break;
    case FFT_REAL_F64: x = d[at]; break;
    case FFT_COMPLEX_F32: x = CMPLX((double)f[2 * at], (double)f[2 * at + 1]); break;
    case FFT_COMPLEX_F64: x = CMPLX(d[2 * at], d[2 * at + 1]); break;
    }
    return from->swapped ? CMPLX(cimag(x), creal(x)) : x;
}

static void put_number(const struct fft_view *to, int64_t at, cplx x) {
    float *f = to->data;
    double *d = to->data;
    x *= to->scale;
    if (to->swapped) x = CMPLX(cimag(x), creal(x));
    switch (to->kind) {
    case FFT_REAL_F32: f[at] = (float)creal(x); break;
    case FFT_REAL_F64: d[at] = creal(x); break;
    case FFT_COMPLEX_F32:
        f[2 * at] = (float)creal(x);
        f[2 * at + 1] = (float)cimag(x);
        break;
    case FFT_COMPLEX_F64:
        d[2 * at] = creal(x);
        d[2 * at + 1] = cimag(x);
        break;
    }
}

static struct fft_view view_of(void *data, enum fft_kind kind) {
    return (struct fft_view){.data = data, .kind = kind, .scale = 1};
}

/* Lines of neighbours, the first at `at`, `gap` from one to the next. */
static void smooth_lines(const struct smooth *s, const struct fft_view *from, int64_t at,
                         int64_t gap, const struct fft_view *to, int64_t to_at, int64_t to_gap,
                         int64_t lines) {
    bool split = s->split.down.n > 0;
    for (int64_t l = 0; l < lines; l += split ? 1 : FFT_LANES) {
        int count = (int)(lines - l < FFT_LANES ? lines - l : FFT_LANES);
        if (split)
            fft_line(&s->split, from, at + l * gap, to, to_at + l * to_gap,
                     at + (l + 1 < lines ? l + 1 : l) * gap, s->grid, s->x, s->work);
        else
            fft_apart(&s->length, from, at + l * gap, gap, to, to_at + l * to_gap, to_gap, count,
                      s->x, s->work);
    }
}

/* In place, of length m. */
static void convolve(const struct plan *p, cplx *x, bool inverse) {
    struct fft_view view = view_of(x, FFT_COMPLEX_F64);
    view.swapped = inverse;
    smooth_lines(&p->smooth, &view, 0, p->m, &view, 0, p->m, 1);
}

static void chirp_line(const struct plan *p, const struct fft_view *from, int64_t at, int64_t step,
                       const struct fft_view *to, int64_t to_at, int64_t to_step) {
    cplx *x = p->pad[0];
    memset(x, 0, (size_t)p->m * sizeof *x);
    for (int64_t k = 0; k < p->n; k++)
        x[k] = times(number_at(from, at + k * step), p->chirp[k]);
    convolve(p, x, false);
    for (int64_t k = 0; k < p->m; k++)
        x[k] = times(x[k], p->filter[k]);
    convolve(p, x, true);
    for (int64_t k = 0; k < p->n; k++)
        put_number(to, to_at + k * to_step, times(x[k], p->chirp[k]) / (double)p->m);
}

/* The result may be the operand. */
static void transform_lines(const struct plan *p, const struct fft_view *from, int64_t at,
                            int64_t gap, const struct fft_view *to, int64_t to_at, int64_t to_gap,
                            int64_t lines) {
    if (!p->m) smooth_lines(&p->smooth, from, at, gap, to, to_at, to_gap, lines);
    for (int64_t l = 0; p->m && l < lines; l++)
        chirp_line(p, from, at + l * gap, 1, to, to_at + l * to_gap, 1);
}

/* In place; elements of a line are `step` apart, `step` lines stand side by side. */
static void transform_beside(const struct plan *p, const struct fft_view *box, int64_t at,
                             int64_t step) {
    for (int64_t l = 0; l < step; l += p->m ? 1 : FFT_LANES) {
        int count = (int)(step - l < FFT_LANES ? step - l : FFT_LANES);
        if (p->m)
            chirp_line(p, box, at + l, step, box, at + l, step);
        else
            fft_beside(&p->smooth.length, box, at + l, step, box, at + l, step, count, p->smooth.x,
                       p->smooth.work);
    }
}

/* ---- real lines of even length ---- */

/* Numbers in turn are real and imaginary parts of a line z of half the length m. Its transform Z
 * gives the one of the real line: with a = Z[k], b = conj(Z[m - k]) and w = e^(-pi i k / m), the
 * element k is (a + b) / 2 - i w (a - b) / 2. */
struct halves {
    struct plan plan; /* of m */
    cplx *turns;      /* w, k <= m / 2 */
    cplx *lines;      /* room for FFT_LANES lines of m */
};

static void lay_out_halves(struct halves *h, int64_t n, struct room *room) {
    lay_out(&h->plan, n / 2, false, room);
    h->turns = take(room, n / 4 + 1, sizeof(cplx));
    h->lines = take(room, FFT_LANES * (n / 2), sizeof(cplx));
}

static void fill_halves(struct halves *h) {
    fill(&h->plan);
    for (int64_t k = 0; k <= h->plan.n / 2; k++)
        h->turns[k] = root(k, 2 * h->plan.n);
}

static void join_halves(const struct halves *h, const cplx *z, const struct fft_view *to,
                        int64_t at) {
    int64_t m = h->plan.n;
    put_number(to, at, creal(z[0]) + cimag(z[0]));
    put_number(to, at + m, creal(z[0]) - cimag(z[0]));
    for (int64_t k = 1; k <= m / 2; k++) {
        cplx a = z[k], b = conj(z[m - k]), sum = (a + b) * 0.5, difference = (a - b) * 0.5;
        cplx odd = times(CMPLX(cimag(difference), -creal(difference)), h->turns[k]);
        put_number(to, at + k, sum + odd);
        put_number(to, at + m - k, conj(sum - odd));
    }
}

/* The other way, times 2 m / n = 1. */
static void part_halves(const struct halves *h, const struct fft_view *from, int64_t at, cplx *z) {
    int64_t m = h->plan.n;
    double first = creal(number_at(from, at)), last = creal(number_at(from, at + m));
    z[0] = CMPLX(first + last, first - last);
    for (int64_t k = 1; k <= m / 2; k++) {
        cplx a = number_at(from, at + k), b = conj(number_at(from, at + m - k));
        cplx sum = a + b, odd = times(a - b, conj(h->turns[k]));
        z[k] = CMPLX(creal(sum) - cimag(odd), cimag(sum) + creal(odd));
        z[m - k] = CMPLX(creal(sum) + cimag(odd), creal(odd) - cimag(sum));
    }
}

static void real_lines(const struct halves *h, bool wide, void *const *arrays, int64_t begin,
                       int64_t end) {
    int64_t m = h->plan.n;
    struct fft_view from = view_of(arrays[1], wide ? FFT_COMPLEX_F64 : FFT_COMPLEX_F32), to = from;
    struct fft_view lines = view_of(h->lines, FFT_COMPLEX_F64);
    to.data = arrays[0];
    for (int64_t l = begin; l < end; l += FFT_LANES) {
        int64_t count = end - l < FFT_LANES ? end - l : FFT_LANES;
        transform_lines(&h->plan, &from, l * m, m, &lines, 0, m, count);
        for (int64_t i = 0; i < count; i++)
            join_halves(h, h->lines + i * m, &to, (l + i) * (m + 1));
    }
}

static void real_inverse_lines(const struct halves *h, bool wide, void *const *arrays,
                               int64_t begin, int64_t end) {
    int64_t m = h->plan.n;
    struct fft_view from = view_of(arrays[1], wide ? FFT_COMPLEX_F64 : FFT_COMPLEX_F32), to = from;
    struct fft_view lines = view_of(h->lines, FFT_COMPLEX_F64);
    to.data = arrays[0];
    lines.swapped = to.swapped = true;
    to.scale = 0.5 / (double)m;
    for (int64_t l = begin; l < end; l += FFT_LANES) {
        int64_t count = end - l < FFT_LANES ? end - l : FFT_LANES;
        for (int64_t i = 0; i < count; i++)
            part_halves(h, &from, (l + i) * (m + 1), h->lines + i * m);
        transform_lines(&h->plan, &lines, 0, m, &to, l * m, m, count);
    }
}

/* ---- boxes ---- */

/* Transforms every line of the box along one axis. */
static void transform_axis(cplx *box, int64_t count, const int64_t *lengths, int axes, int axis,
                           bool inverse, struct room room) {
    int64_t n = lengths[axis], inner = 1;
    struct fft_view view = view_of(box, FFT_COMPLEX_F64);
    struct plan plan;
    for (int i = axis + 1; i < axes; i++)
        inner *= lengths[i];
    if (n == 1) return;
    view.swapped = inverse;
    if (inverse) view.scale = 1 / (double)n;
    lay_out(&plan, n, inner > 1, &room);
    fill(&plan);
    if (inner == 1) transform_lines(&plan, &view, 0, n, &view, 0, n, count / n);
    for (int64_t at = 0; inner > 1 && at < count; at += n * inner)
        transform_beside(&plan, &view, at, inner);
}

/* Values past the half of each line follow from those before it; the values that are their own
 * mirror are real. */
static void complete_lines(cplx *box, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++) {
        cplx *line = box + r * width;
        line[0] = creal(line[0]);
        if (width % 2 == 0) line[width / 2] = creal(line[width / 2]);
        for (int64_t k = width / 2 + 1; k < width; k++)
            line[k] = conj(line[width - k]);
    }
}

static int64_t box_count(const int64_t *config) {
    int64_t count = 1;
    for (int64_t i = 0; i < config[FFT_AXES]; i++)
        count *= config[FFT_LENGTHS + i];
    return count;
}

static void run_box(const int64_t *config, void *const *arrays, cplx *box, int64_t unit) {
    int axes = (int)config[FFT_AXES];
    int64_t kind = config[FFT_KIND], have = config[FFT_WIDTH], count = box_count(config);
    const int64_t *lengths = config + FFT_LENGTHS;
    int64_t width = lengths[axes - 1], rows = width ? count / width : 0;
    int64_t out_width = kind == FFT_REAL ? width / 2 + 1 : width;
    bool wide = config[FFT_DOUBLE], inverse = kind == FFT_INVERSE || kind == FFT_REAL_INVERSE;
    enum fft_kind complex_kind = wide ? FFT_COMPLEX_F64 : FFT_COMPLEX_F32;
    enum fft_kind real_kind = wide ? FFT_REAL_F64 : FFT_REAL_F32;
    struct fft_view from = view_of(arrays[1], kind == FFT_REAL ? real_kind : complex_kind);
    struct fft_view to = view_of(arrays[0], kind == FFT_REAL_INVERSE ? real_kind : complex_kind);
    struct room room = {(uintptr_t)box + (uintptr_t)hlocc_rt_align(count * (int64_t)sizeof *box)};
    memset(box, 0, (size_t)count * sizeof *box);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < have && k < width; k++)
            box[r * width + k] = number_at(&from, (unit * rows + r) * have + k);
    if (kind == FFT_REAL_INVERSE) {
        for (int i = 0; i < axes - 1; i++)
            transform_axis(box, count, lengths, axes, i, true, room);
        complete_lines(box, rows, width);
        transform_axis(box, count, lengths, axes, axes - 1, true, room);
    } else {
        for (int i = axes - 1; i >= 0; i--)
            transform_axis(box, count, lengths, axes, i, inverse, room);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < out_width; k++)
            put_number(&to, (unit * rows + r) * out_width + k, box[r * width + k]);
}

/* ---- all kinds ---- */

/* Lines that are transformed straight from the operand to the result. */
static bool is_straight(const int64_t *config) {
    int64_t n = config[FFT_LENGTHS], have = config[FFT_WIDTH];
    if (config[FFT_AXES] != 1 || n < 1) return false;
    switch (config[FFT_KIND]) {
    case FFT_REAL: return have == n && n % 2 == 0;
    case FFT_REAL_INVERSE: return have == n / 2 + 1 && n % 2 == 0;
    default: return have == n;
    }
}

int64_t hlocc_rt_fft_scratch(const int64_t *config) {
    bool real = config[FFT_KIND] == FFT_REAL || config[FFT_KIND] == FFT_REAL_INVERSE;
    struct room straight = {0};
    struct halves halves;
    struct plan plan;
    if (is_straight(config)) {
        if (real)
            lay_out_halves(&halves, config[FFT_LENGTHS], &straight);
        else
            lay_out(&plan, config[FFT_LENGTHS], false, &straight);
        return (int64_t)straight.at;
    }
    int64_t most = 0;
    for (int64_t i = 0; i < config[FFT_AXES]; i++) {
        struct room room = {0};
        if (config[FFT_LENGTHS + i] < 1) continue;
        lay_out(&plan, config[FFT_LENGTHS + i], i + 1 < config[FFT_AXES], &room);
        most = (int64_t)room.at > most ? (int64_t)room.at : most;
    }
    return hlocc_rt_align(box_count(config) * (int64_t)sizeof(cplx)) + most;
}

void hlocc_rt_fft(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                  int64_t end) {
    int64_t kind = config[FFT_KIND], n = config[FFT_LENGTHS];
    bool wide = config[FFT_DOUBLE];
    struct room room = {(uintptr_t)scratch};
    if (!is_straight(config)) {
        for (int64_t unit = begin; unit < end; unit++)
            run_box(config, arrays, scratch, unit);
    } else if (kind == FFT_REAL || kind == FFT_REAL_INVERSE) {
        struct halves halves;
        lay_out_halves(&halves, n, &room);
        fill_halves(&halves);
        (kind == FFT_REAL ? real_lines : real_inverse_lines)(&halves, wide, arrays, begin, end);
    } else {
        struct plan plan;
        struct fft_view from = view_of(arrays[1], wide ? FFT_COMPLEX_F64 : FFT_COMPLEX_F32);
        from.swapped = kind == FFT_INVERSE;
        struct fft_view to = from;
        to.data = arrays[0];
        if (kind == FFT_INVERSE) to.scale = 1 / (double)n;
        lay_out(&plan, n, false, &room);
        fill(&plan);
        transform_lines(&plan, &from, begin * n, n, &to, begin * n, n, end - begin);
    }
}
