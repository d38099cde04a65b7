/* Fourier transforms as those that the TPU has code for: of one dimension, the last one of at least
 * two, whose length is at most MOST and has small prime factors.
 *
 *     several dimensions   one after the other, each brought to the end;
 *     long ones            n = n1 n2: columns of n1, turned by w^(j2 k1), then rows of n2 (Cooley
 *                          and Tukey, 1965); of real numbers, by way of complex ones;
 *     large primes         a convolution with a chirp, by transforms of a power of two (Bluestein,
 *                          1970). */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "ir/literal.h"
#include "passes/pass.h"
#include "passes/template.h"

enum {
    MOST = 1024,              /* the longest transform that stays as it is */
    MOST_PRIME = 127,         /* the largest prime factor of one */
    MOST_TABLE = 1 << 18,     /* factors of a step in one table; more are products of two */
    MOST_BLUESTEIN = 1 << 20, /* elements of a transform by convolution */
    LANES = 128,
};

struct fft {
    struct hlo_instr *instr;
    struct arena *arena;
    const struct shape *from, *to;
    int64_t type;
    bool inverse, is_real; /* on either side */
    struct int_list length;
    int64_t n;     /* of the last dimension */
    int64_t batch; /* transforms: all other dimensions */
    struct hlo_instr *tables[3];
    int ntables;
};

static int64_t largest_prime(int64_t n) {
    int64_t largest = 1;
    for (int64_t p = 2; p * p <= n; p++)
        for (; n % p == 0; n /= p)
            largest = p;
    return n > 1 ? n : largest;
}

static const char *dims_text(struct fft *f, const struct shape *shape) {
    const char *text = "";
    for (int d = 0; d < shape->rank; d++)
        text = arena_printf(f->arena, "%s%s%lld", text, d ? "," : "", (long long)shape->dims[d]);
    return arena_printf(f->arena, "%s[%s]", element_type_name(shape->type), text);
}

static const char *type_name(const struct fft *f) {
    static const char *const names[] = {[ENUM_FFT_TYPE_FFT] = "FFT",
                                        [ENUM_FFT_TYPE_IFFT] = "IFFT",
                                        [ENUM_FFT_TYPE_RFFT] = "RFFT",
                                        [ENUM_FFT_TYPE_IRFFT] = "IRFFT"};
    return names[f->type];
}

/* ---- tables: e^(+-2 pi i p / n), computed in double ---- */

static double complex root(const struct fft *f, int64_t p, int64_t n) {
    return cexp((f->inverse ? 2 : -2) * acos(-1.0) * I * ((double)(p % n) / (double)n));
}

/* A constant [rows, columns] before the instruction, to be filled; NULL without memory. */
static float *new_table(struct fft *f, int64_t rows, int64_t columns) {
    struct hlo_instr *instr = f->instr;
    const struct shape *shape =
        shape_array(instr->parent->module->shapes, TYPE_C64, 2, (int64_t[]){rows, columns});
    struct literal *literal = literal_new(shape);
    if (!literal) return NULL;
    f->tables[f->ntables++] = instr_new_constant(instr->parent, instr, literal);
    return literal->data;
}

static void put(float *table, int64_t at, double complex value) {
    table[2 * at] = (float)creal(value);
    table[2 * at + 1] = (float)cimag(value);
}

/* w^(step j k), w of length n, for j < rows, k < columns. */
static bool root_table(struct fft *f, int64_t rows, int64_t columns, int64_t step) {
    float *table = new_table(f, rows, columns);
    for (int64_t j = 0; table && j < rows; j++)
        for (int64_t k = 0; k < columns; k++)
            put(table, j * columns + k, root(f, step * j * k, f->n));
    return table != NULL;
}

/* ---- one dimension after the other ---- */

/* A transform of dimension d alone; `x` and `y` name its operand and result, `shape` is x's. */
static const char *along(struct fft *f, int rank, int d, const char *type, int64_t length,
                         const char *x, const char *y) {
    const char *order = "";
    for (int i = 0; i < rank; i++)
        order = arena_printf(f->arena, "%s%s%d", order, i ? "," : "",
                             i == d          ? rank - 1
                             : i == rank - 1 ? d
                                             : i);
    if (d == rank - 1)
        return arena_printf(f->arena, " %s = fft(%s), fft_type=%s, fft_length={%lld}\n", y, x, type,
                            (long long)length);
    return arena_printf(f->arena,
                        " %s_t = transpose(%s), dimensions={%s}\n"
                        " %s_f = fft(%s_t), fft_type=%s, fft_length={%lld}\n"
                        " %s = transpose(%s_f), dimensions={%s}\n",
                        y, x, order, y, y, type, (long long)length, y, y, order);
}

static const char *in_turn(struct fft *f) {
    int rank = f->from->rank, count = f->length.count;
    bool first_is_last = f->type != ENUM_FFT_TYPE_IRFFT; /* the last dimension comes first */
    const char *body = "", *x = "x";
    for (int i = 0; i < count; i++) {
        int at = first_is_last ? count - 1 - i : (i + 1 == count ? count - 1 : i);
        bool is_end = at == count - 1;
        const char *type = is_end ? type_name(f) : f->inverse ? "IFFT" : "FFT";
        const char *name = arena_printf(f->arena, "y%d", i);
        const char *text = along(f, rank, rank - count + at, type, f->length.v[at], x, name);
        body = arena_printf(f->arena, "%s%s", body, text);
        x = name;
    }
    return arena_printf(f->arena,
                        "HloModule fft\nENTRY main { x = %s parameter(0)\n%s ROOT r = copy(%s) }\n",
                        dims_text(f, f->from), body, x);
}

/* ---- real numbers by way of complex ones; arrays of one dimension ---- */

static const char *by_complex(struct fft *f) {
    int rank = f->from->rank;
    const char *all = "", *rest = "";
    int64_t half = f->to->dims[rank - 1];
    for (int d = 0; d + 1 < rank; d++)
        all = arena_printf(f->arena, "%s[0:%lld],", all, (long long)f->from->dims[d]);
    if (f->type == ENUM_FFT_TYPE_RFFT)
        return arena_printf(f->arena,
                            "HloModule fft\nENTRY main { x = %s parameter(0)\n"
                            " zero = f32[] constant(0)\n"
                            " none = %s broadcast(zero), dimensions={}\n"
                            " c = complex(x, none)\n"
                            " y = fft(c), fft_type=FFT, fft_length={%lld}\n"
                            " ROOT r = slice(y), slice={%s[0:%lld]} }\n",
                            dims_text(f, f->from), dims_text(f, f->from), (long long)f->n, all,
                            (long long)half);
    rest = arena_printf(f->arena, "%s[1:%lld]", all, (long long)((f->n + 1) / 2));
    return arena_printf(f->arena,
                        "HloModule fft\nENTRY main { x = %s parameter(0)\n"
                        " tail = slice(x), slice={%s}\n"
                        " back = reverse(tail), dimensions={%d}\n"
                        " conjugate = complex(real(back), negate(imag(back)))\n"
                        " whole = concatenate(x, conjugate), dimensions={%d}\n"
                        " y = fft(whole), fft_type=IFFT, fft_length={%lld}\n"
                        " ROOT r = real(y) }\n",
                        dims_text(f, f->from), rest, rank - 1, rank - 1, (long long)f->n);
}

static const char *as_row(struct fft *f) {
    return arena_printf(f->arena,
                        "HloModule fft\nENTRY main { x = %s parameter(0)\n"
                        " row = %s[1,%lld] reshape(x)\n"
                        " y = fft(row), fft_type=%s, fft_length={%lld}\n"
                        " ROOT r = %s reshape(y) }\n",
                        dims_text(f, f->from), element_type_name(f->from->type),
                        (long long)f->from->dims[0], type_name(f), (long long)f->n,
                        dims_text(f, f->to));
}

/* ---- long ones ---- */

/* The columns' length: a divisor that leaves few steps, best where rows of both are whole tiles. */
static int64_t split(int64_t n) {
    int64_t best = 0;
    double best_cost = INFINITY;
    for (int64_t d = 2; d <= MOST && d < n; d++) {
        if (n % d) continue;
        double far = fabs(log((double)d * (double)d / (double)n));
        double cost = far + (d % LANES ? 4 : 0) + (n / d % LANES ? 4 : 0);
        if (n / d > MOST) cost += 16;
        if (cost < best_cost) best = d, best_cost = cost;
    }
    return best;
}

static int64_t divisor_near_root(int64_t n) {
    int64_t best = 1;
    for (int64_t d = 1; d * d <= n; d++)
        if (n % d == 0) best = d;
    return best;
}

/* w^(j2 k1) as $turn[n2, n1]: a table, or the product of one for the high part of j2 and one for
 * the low part. */
static const char *turn_text(struct fft *f, int64_t n1, int64_t n2) {
    if (f->n <= MOST_TABLE) {
        if (!root_table(f, n2, n1, 1)) return NULL;
        return arena_printf(f->arena, " turn = c64[%lld,%lld] parameter(1)\n", (long long)n2,
                            (long long)n1);
    }
    int64_t low = divisor_near_root(n2), high = n2 / low;
    if (!root_table(f, high, n1, low) || !root_table(f, low, n1, 1)) return NULL;
    return arena_printf(f->arena,
                        " high = c64[%lld,%lld] parameter(1)\n low = c64[%lld,%lld] parameter(2)\n"
                        " high3 = c64[%lld,%lld,%lld] broadcast(high), dimensions={0,2}\n"
                        " low3 = c64[%lld,%lld,%lld] broadcast(low), dimensions={1,2}\n"
                        " turn = c64[%lld,%lld] reshape(multiply(high3, low3))\n",
                        (long long)high, (long long)n1, (long long)low, (long long)n1,
                        (long long)high, (long long)low, (long long)n1, (long long)high,
                        (long long)low, (long long)n1, (long long)n2, (long long)n1);
}

static const char *in_two_steps(struct fft *f) {
    long long n1 = split(f->n), n2 = n1 ? f->n / n1 : 0, b = f->batch;
    const char *turn = n1 ? turn_text(f, n1, n2) : NULL;
    if (!turn) return NULL;
    return arena_printf(f->arena,
                        "HloModule fft\nENTRY main { x = %s parameter(0)\n%s"
                        " square = c64[%lld,%lld,%lld] reshape(x)\n"
                        " columns = transpose(square), dimensions={0,2,1}\n"
                        " first = fft(columns), fft_type=%s, fft_length={%lld}\n"
                        " turn3 = c64[%lld,%lld,%lld] broadcast(turn), dimensions={1,2}\n"
                        " turned = multiply(first, turn3)\n"
                        " rows = transpose(turned), dimensions={0,2,1}\n"
                        " second = fft(rows), fft_type=%s, fft_length={%lld}\n"
                        " back = transpose(second), dimensions={0,2,1}\n"
                        " ROOT r = %s reshape(back) }\n",
                        dims_text(f, f->from), turn, b, n1, n2, type_name(f), n1, b, n2, n1,
                        type_name(f), n2, dims_text(f, f->to));
}

/* ---- large primes ---- */

/* In place, length a power of two, forward; roots: room for n / 2 numbers. */
static void transform(double complex *x, double complex *roots, int64_t n) {
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex keep = x[i];
            x[i] = x[j];
            x[j] = keep;
        }
    }
    for (int64_t half = 1; half < n; half *= 2) {
        for (int64_t k = 0; k < half; k++)
            roots[k] = cexp(-acos(-1.0) * I * ((double)k / (double)half));
        for (int64_t first = 0; first < n; first += 2 * half) {
            double complex *low = x + first, *high = low + half;
            for (int64_t k = 0; k < half; k++) {
                double complex a = low[k], b = CMPLX(creal(roots[k]) * creal(high[k]) -
                                                         cimag(roots[k]) * cimag(high[k]),
                                                     creal(roots[k]) * cimag(high[k]) +
                                                         cimag(roots[k]) * creal(high[k]));
                low[k] = a + b;
                high[k] = a - b;
            }
        }
    }
}

/* e^(-+pi i j^2 / n) */
static double complex chirp(const struct fft *f, int64_t j) {
    return root(f, j * j % (2 * f->n), 2 * f->n);
}

/* Tables: the chirp, and the transform, of length m, of its conjugate as both sides see it. */
static bool chirp_tables(struct fft *f, int64_t m) {
    double complex *b = calloc((size_t)(m + m / 2) + 1, sizeof *b);
    float *factors = b ? new_table(f, 1, f->n) : NULL;
    float *table = factors ? new_table(f, 1, m) : NULL;
    for (int64_t j = 0; table && j < f->n; j++) {
        double complex value = chirp(f, j);
        put(factors, j, value);
        b[j] = b[j ? m - j : 0] = conj(value);
    }
    if (table) transform(b, b + m, m);
    for (int64_t j = 0; table && j < m; j++)
        put(table, j, b[j]);
    free(b);
    return table != NULL;
}

static const char *by_chirp(struct fft *f) {
    long long m = 1, n = f->n, b = f->batch;
    while (m < 2 * n - 1)
        m *= 2;
    if (n > MOST_BLUESTEIN || !chirp_tables(f, m)) return NULL;
    return arena_printf(
        f->arena,
        "HloModule fft\nENTRY main { x = %s parameter(0)\n"
        " chirp = c64[1,%lld] parameter(1)\n other = c64[1,%lld] parameter(2)\n"
        " rows = c64[%lld,%lld] reshape(x)\n"
        " chirp1 = c64[%lld] reshape(chirp)\n other1 = c64[%lld] reshape(other)\n"
        " chirps = c64[%lld,%lld] broadcast(chirp1), dimensions={1}\n"
        " others = c64[%lld,%lld] broadcast(other1), dimensions={1}\n"
        " turned = multiply(rows, chirps)\n"
        " zero = c64[] constant((0,0))\n"
        " padded = pad(turned, zero), padding=0_0x0_%lld\n"
        " there = fft(padded), fft_type=FFT, fft_length={%lld}\n"
        " product = multiply(there, others)\n"
        " back = fft(product), fft_type=IFFT, fft_length={%lld}\n"
        " part = slice(back), slice={[0:%lld],[0:%lld]}\n"
        " result = multiply(part, chirps)\n"
        " scale = f32[] constant(%.9g)\n"
        " scales = c64[%lld,%lld] convert(f32[%lld,%lld] broadcast(scale), dimensions={})\n"
        " scaled = %s\n"
        " ROOT r = %s reshape(scaled) }\n",
        dims_text(f, f->from), n, m, b, n, n, m, b, n, b, m, m - n, m, m, b, n,
        f->inverse ? 1.0 / (double)n : 1.0, b, n, b, n,
        f->inverse ? "multiply(result, scales)" : "copy(result)", dims_text(f, f->to));
}

/* ---- the pass ---- */

static bool read_fft(struct fft *f) {
    const struct hlo_instr *instr = f->instr;
    f->from = instr->operands[0]->shape;
    f->to = instr->shape;
    f->type = instr_int(instr, ATTR_FFT_TYPE, ENUM_FFT_TYPE_FFT);
    f->inverse = f->type == ENUM_FFT_TYPE_IFFT || f->type == ENUM_FFT_TYPE_IRFFT;
    f->is_real = f->type == ENUM_FFT_TYPE_RFFT || f->type == ENUM_FFT_TYPE_IRFFT;
    f->length = instr_ints(instr, ATTR_FFT_LENGTH);
    if (!f->length.count || f->length.count > f->from->rank || shape_is_dynamic(f->from) ||
        f->to->count == 0 || f->to->count > INT32_MAX ||
        (f->to->type != TYPE_C64 && f->to->type != TYPE_F32))
        return false;
    f->n = f->length.v[f->length.count - 1];
    f->batch = f->to->count / f->to->dims[f->to->rank - 1];
    return f->n > 0;
}

/* What stands for it; NULL where it stays. */
static const char *text_of(struct fft *f, struct pass_context *context) {
    bool fits = f->n <= MOST && largest_prime(f->n) <= MOST_PRIME;
    if (f->length.count == 1 && f->from->rank > 1 && fits) return NULL;
    if (!pass_may_rewrite(context)) return NULL;
    if (f->length.count > 1) return in_turn(f);
    if (f->from->rank == 1) return as_row(f);
    if (f->is_real) return by_complex(f);
    return largest_prime(f->n) > MOST_PRIME ? by_chirp(f) : in_two_steps(f);
}

static bool expand_all(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (instr->opcode != OP_FFT) continue;
            struct fft f = {.instr = instr, .arena = arena_new()};
            const char *text = read_fft(&f) ? text_of(&f, context) : NULL;
            changed |= text && template_replace(instr, text, f.ntables, f.tables, context->diag);
            arena_free(f.arena);
        }
    }
    return changed;
}

bool fft_expander_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    /* What stands for one may have transforms of its own. */
    while (expand_all(context, module))
        changed = true;
    return changed;
}
