#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/number.h"

static uint64_t random_word(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33 ^ *state << 20;
}

static double random_unit(uint64_t *state) {
    return (double)(random_word(state) >> 11) * 0x1p-53 - 0.5;
}

/* Scratch of exactly the size asked for, so that the sanitizer sees what goes past it. */
static void *scratch_new(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)hlocc_rt_align(bytes ? bytes : 1));
    assert_non_null(memory);
    return memory;
}

/* ---- sort ---- */

static bool u32_less(void *const *rows, int64_t a, int64_t b) {
    const uint32_t *row = rows[0];
    return row[a] < row[b];
}

static bool u32_keys(void *const *rows, int64_t count, uint64_t *keys) {
    for (int64_t i = 0; i < count; i++)
        keys[i] = ((const uint32_t *)rows[0])[i];
    return true;
}

static bool u64_less(void *const *rows, int64_t a, int64_t b) {
    const uint64_t *row = rows[0];
    return row[a] < row[b];
}

static bool u64_keys(void *const *rows, int64_t count, uint64_t *keys) {
    memcpy(keys, rows[0], (size_t)count * sizeof *keys);
    return true;
}

static bool never(void *const *rows, int64_t count, uint64_t *keys) {
    (void)rows;
    memset(keys, 0xff, (size_t)count * sizeof *keys);
    return false;
}

/* Sorts two rows of (key, position) that stand interleaved, and checks order and stability. */
static void sort_case(int64_t n, int bits, uint64_t range, bool use_keys) {
    uint64_t state = (uint64_t)n;
    int size = bits / 8;
    char *keys = calloc((size_t)(2 * n + 1), 8);
    uint32_t *at = calloc((size_t)(2 * n + 1), 4);
    for (int64_t i = 0; i < 2 * n; i++) {
        uint64_t key = random_word(&state) % range * (UINT64_MAX / range);
        if (bits == 32) key >>= 32;
        memcpy(keys + i * size, &key, (size_t)size);
        at[i] = (uint32_t)i;
    }
    int64_t config[] = {n, 2, 2, bits, size, 4};
    void *scratch = scratch_new(hlocc_rt_sort_scratch(config));
    hlocc_rt_keys *by = !use_keys ? never : bits == 32 ? u32_keys : u64_keys;
    hlocc_rt_sort(config, (void *[]){keys, at, keys, at}, scratch, 0, 2,
                  bits == 32 ? u32_less : u64_less, by);
    for (int64_t i = 0; i + 2 < 2 * n; i++) {
        uint64_t a = 0, b = 0;
        memcpy(&a, keys + i * size, (size_t)size);
        memcpy(&b, keys + (i + 2) * size, (size_t)size);
        assert_true(a < b || (a == b && at[i] < at[i + 2]));
        assert_int_equal(at[i] % 2, i % 2);
    }
    free(scratch);
    free(keys);
    free(at);
}

static void test_sort(void **state) {
    static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 33, 100, 511, 512, 513, 5000};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int how = 0; how < 8; how++)
            sort_case(lengths[i], how & 1 ? 32 : 64, how & 2 ? 7 : 1u << 31, how & 4);
}

static bool negated_keys(void *const *rows, int64_t count, uint64_t *keys) {
    for (int64_t i = 0; i < count; i++)
        keys[i] = ~(uint64_t)((const uint32_t *)rows[0])[i];
    return true;
}

static void test_topk(void **state) {
    static const uint32_t in[8] = {3, 9, 9, 1, 7, 9, 0, 2};
    uint32_t many[100], values[100], seen[100] = {0};
    int32_t at[100];
    (void)state;
    for (int k = 0; k <= 8; k++) {
        int64_t config[TOPK_NUMBERS] = {8, k, 4, 4};
        static const uint32_t want[8] = {9, 9, 9, 7, 3, 2, 1, 0};
        static const int32_t want_at[8] = {1, 2, 5, 4, 0, 7, 3, 6};
        void *scratch = scratch_new(hlocc_rt_topk_scratch(config));
        hlocc_rt_topk(config, (void *[]){values, at, (void *)in}, scratch, 0, 1, negated_keys);
        assert_memory_equal(values, want, 4 * (size_t)k);
        assert_memory_equal(at, want_at, 4 * (size_t)k);
        free(scratch);
    }
    for (uint32_t i = 0; i < 100; i++)
        many[i] = i * 37 % 50;
    for (int k = 60; k <= 80; k += 20) { /* kept in order, or all sorted */
        int64_t config[TOPK_NUMBERS] = {100, k, 4, 4};
        void *scratch = scratch_new(hlocc_rt_topk_scratch(config));
        hlocc_rt_topk(config, (void *[]){values, at, many}, scratch, 0, 1, negated_keys);
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < k; i++) {
            assert_int_equal(values[i], 49 - i / 2);
            assert_int_equal(many[at[i]], values[i]);
            assert_int_equal(seen[at[i]]++, 0);
        }
        free(scratch);
    }
}

/* More results than are kept sorted, of rows that are long enough for candidates. */
static void test_topk_long(void **state) {
    enum { N = 4000, K = 70, ROWS = 3 };
    static uint32_t in[ROWS][N];
    uint32_t values[ROWS][K];
    int32_t at[ROWS][K];
    uint64_t seed = 11;
    (void)state;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N; i++) /* many equal ones; ascending; one that is all the same */
            in[r][i] = r == 0   ? (uint32_t)(random_unit(&seed) * 300 + 400)
                       : r == 1 ? (uint32_t)i
                                : 5;
    int64_t config[TOPK_NUMBERS] = {N, K, 4, 4};
    void *scratch = scratch_new(hlocc_rt_topk_scratch(config));
    hlocc_rt_topk(config, (void *[]){values, at, in}, scratch, 0, ROWS, negated_keys);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < K; k++) {
            int before = 0;
            for (int i = 0; i < N; i++)
                before += in[r][i] > values[r][k] || (in[r][i] == values[r][k] && i < at[r][k]);
            assert_int_equal(before, k);
            assert_int_equal(in[r][at[r][k]], values[r][k]);
        }
    free(scratch);
}

/* ---- fft ---- */

/* All phases, the units of each in two shares. */
static void fft_run(int64_t *config, void *result, void *operand) {
    for (int phase = 0; phase < hlocc_rt_fft_phases(config); phase++) {
        config[FFT_PHASE] = phase;
        int64_t units = hlocc_rt_fft_units(config);
        void *scratch = scratch_new(hlocc_rt_fft_scratch(config));
        hlocc_rt_fft(config, (void *[]){result, operand}, scratch, 0, units / 2);
        hlocc_rt_fft(config, (void *[]){result, operand}, scratch, units / 2, units);
        free(scratch);
    }
    config[FFT_PHASE] = 0;
}

/* One of the lengths is transformed in float, with a bound for its error. */
static void fft_length_f32(int64_t n, int64_t lines) {
    int64_t count = n * lines;
    float complex *x = calloc((size_t)count, sizeof *x), *y = calloc((size_t)count, sizeof *y);
    double complex *wide = calloc((size_t)count, sizeof *wide), *want = calloc((size_t)count, 16);
    uint64_t state = (uint64_t)n;
    double error = 0, size = 0;
    for (int64_t i = 0; i < count; i++)
        wide[i] = x[i] = CMPLXF((float)random_unit(&state), (float)random_unit(&state));
    int64_t config[FFT_NUMBERS] = {[FFT_AXES] = 1, [FFT_COUNT] = lines, [FFT_LENGTHS] = n};
    fft_run(config, y, x);
    config[FFT_DOUBLE] = 1;
    fft_run(config, want, wide);
    for (int64_t i = 0; i < count; i++) {
        double d = cabs((double complex)y[i] - want[i]);
        error += d * d;
        size += cabs(want[i]) * cabs(want[i]);
    }
    assert_true(sqrt(error / size) < 4e-7);
    free(x);
    free(y);
    free(wide);
    free(want);
}

static void test_fft_float(void **state) {
    static const int64_t lengths[] = {1,   2,   5,   8,   17,  30,  64,   81,   100,  101, 127,
                                      131, 257, 262, 509, 720, 750, 1000, 1009, 1024, 4099};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        fft_length_f32(lengths[i], 1);
        fft_length_f32(lengths[i], 19);
    }
}

static void fft_length(int64_t n) {
    double complex *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y),
                   *z = calloc((size_t)n, sizeof *z);
    uint64_t state = (uint64_t)n;
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        x[i] = CMPLX(random_unit(&state), random_unit(&state));
    int64_t config[FFT_NUMBERS] = {
        [FFT_DOUBLE] = 1, [FFT_AXES] = 1, [FFT_COUNT] = 1, [FFT_LENGTHS] = n};
    fft_run(config, y, x);
    config[FFT_KIND] = FFT_INVERSE;
    fft_run(config, z, y);
    for (int64_t k = 0; k < n; k++)
        most = fmax(most, cabs(y[k]));
    for (int64_t k = 0; k < n; k++) {
        double complex sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += x[j] * cexp(-2 * M_PI * I * (double)(j * k % n) / (double)n);
        assert_true(cabs(sum - y[k]) < 1e-13 * most);
        assert_true(cabs(z[k] - x[k]) < 1e-14);
    }
    free(x);
    free(y);
    free(z);
}

static void test_fft_lengths(void **state) {
    static const int64_t lengths[] = {1,   2,   3,   4,   6,   8,   15,  16,  31,  32,  37,
                                      49,  60,  64,  74,  97,  128, 132, 150, 210, 243, 256,
                                      310, 509, 512, 625, 640, 930, 961, 996, 999};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        fft_length(lengths[i]);
}

/* Lines of reals against the same as complex numbers, and back. */
static void test_fft_real_lines(void **state) {
    static const int64_t lengths[] = {2, 4, 5, 6, 10, 74, 128, 194, 256, 258, 300, 1024};
    enum { LINES = 7 };
    (void)state;
    for (size_t t = 0; t < sizeof lengths / sizeof *lengths; t++) {
        int64_t n = lengths[t], half = n / 2 + 1;
        double *x = calloc((size_t)(LINES * n), sizeof *x), *back = calloc((size_t)(LINES * n), 8);
        double complex *y = calloc((size_t)(LINES * half), sizeof *y);
        double complex *z = calloc((size_t)(LINES * n), sizeof *z),
                       *all = calloc((size_t)(LINES * n), sizeof *z);
        uint64_t seed = 3;
        for (int64_t i = 0; i < LINES * n; i++)
            z[i] = x[i] = random_unit(&seed);
        int64_t config[FFT_NUMBERS] = {
            [FFT_DOUBLE] = 1, [FFT_AXES] = 1, [FFT_COUNT] = LINES, [FFT_LENGTHS] = n};
        fft_run(config, all, z);
        config[FFT_KIND] = FFT_REAL;
        fft_run(config, y, x);
        config[FFT_KIND] = FFT_REAL_INVERSE;
        fft_run(config, back, y);
        for (int64_t l = 0; l < LINES; l++)
            for (int64_t k = 0; k < n; k++) {
                assert_true(fabs(back[l * n + k] - x[l * n + k]) < 1e-14);
                if (k < half)
                    assert_true(cabs(y[l * half + k] - all[l * n + k]) < 1e-13 * sqrt((double)n));
            }
        free(x);
        free(back);
        free(y);
        free(z);
        free(all);
    }
}

/* A real transform in two dimensions there and back; the first value is the sum. */
static void test_fft_real(void **state) {
    float x[2][3][5], back[2][3][5], sum[2] = {0, 0};
    float complex y[2][3][3];
    uint64_t seed = 7;
    (void)state;
    for (int i = 0; i < 30; i++) {
        (&x[0][0][0])[i] = (float)random_unit(&seed);
        sum[i / 15] += (&x[0][0][0])[i];
    }
    int64_t config[FFT_NUMBERS] = {[FFT_KIND] = FFT_REAL,
                                   [FFT_AXES] = 2,
                                   [FFT_COUNT] = 2,
                                   [FFT_LENGTHS] = 3,
                                   [FFT_LENGTHS + 1] = 5};
    fft_run(config, y, x);
    for (int b = 0; b < 2; b++)
        assert_true(cabsf(y[b][0][0] - sum[b]) < 1e-6f);
    config[FFT_KIND] = FFT_REAL_INVERSE;
    fft_run(config, back, y);
    for (int i = 0; i < 30; i++)
        assert_true(fabsf((&x[0][0][0])[i] - (&back[0][0][0])[i]) < 1e-6f);
}

/* Boxes of reals of two and three dims, against the sums they stand for, and back. */
static void fft_box(const int64_t *lengths, int axes) {
    int64_t config[FFT_NUMBERS] = {
        [FFT_KIND] = FFT_REAL, [FFT_DOUBLE] = 1, [FFT_AXES] = axes, [FFT_COUNT] = 2};
    int64_t a = axes > 2 ? lengths[0] : 1, b = lengths[axes - 2], c = lengths[axes - 1];
    int64_t count = a * b * c, half = c / 2 + 1;
    double *x = calloc((size_t)(2 * count), 8), *back = calloc((size_t)(2 * count), 8);
    double complex *y = calloc((size_t)(2 * a * b * half), sizeof *y);
    uint64_t seed = (uint64_t)count;
    for (int i = 0; i < axes; i++)
        config[FFT_LENGTHS + i] = lengths[i];
    for (int64_t i = 0; i < 2 * count; i++)
        x[i] = random_unit(&seed);
    fft_run(config, y, x);
    for (int64_t at = 0; at < 2 * a * b * half; at += 7) {
        int64_t k = at % half, j = at / half % b, i = at / half / b % a, batch = at / half / b / a;
        double complex sum = 0;
        for (int64_t p = 0; p < count; p++) {
            double turn = (double)(p % c * k % c) / (double)c +
                          (double)(p / c % b * j % b) / (double)b +
                          (double)(p / c / b * i % a) / (double)a;
            sum += x[batch * count + p] * cexp(-2 * M_PI * I * turn);
        }
        assert_true(cabs(sum - y[at]) < 1e-13 * (double)count);
    }
    config[FFT_KIND] = FFT_REAL_INVERSE;
    fft_run(config, back, y);
    for (int64_t i = 0; i < 2 * count; i++)
        assert_true(fabs(x[i] - back[i]) < 1e-14);
    free(x);
    free(back);
    free(y);
}

static void test_fft_boxes(void **state) {
    static const int64_t boxes[][3] = {{3, 5, 9},   {2, 131, 6}, {8, 4, 16}, {1, 3, 1},
                                       {131, 2, 2}, {4, 9, 25},  {7, 1, 40}};
    (void)state;
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        fft_box(boxes[i], 3);
        fft_box(boxes[i] + 1, 2);
    }
}

/* ---- random bits: the known answers that come with Random123 ---- */

static void test_philox(void **state) {
    static const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    static const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    uint64_t in[3] = {0}, next[3];
    uint32_t out[6];
    int64_t config[RANDOM_NUMBERS] = {3, 32, 0, 4};
    (void)state;
    hlocc_rt_philox(config, (void *[]){next, out, in}, NULL, 0, 1);
    assert_memory_equal(out, zero, sizeof zero);
    assert_int_equal(next[1], 1);
    memset(in, 0xff, sizeof in);
    hlocc_rt_philox(config, (void *[]){next, out, in}, NULL, 0, 1);
    assert_memory_equal(out, ones, sizeof ones);
    assert_true(next[1] == 0 && next[2] == 0); /* the carry */
    config[RANDOM_COUNT] = 6;
    hlocc_rt_philox(config, (void *[]){next, out, in}, NULL, 0, 2);
    assert_memory_equal(out, ones, sizeof ones);
    assert_true(next[1] == 1 && next[2] == 0);
    config[RANDOM_STATE_WORDS] = 2; /* the key stands above the counter */
    in[0] = in[1] = 0;
    hlocc_rt_philox(config, (void *[]){next, out, in}, NULL, 0, 2);
    assert_memory_equal(out, zero, sizeof zero);
    assert_int_equal(next[1], 2);
}

static void test_threefry(void **state) {
    uint64_t in[2] = {0}, next[2];
    uint32_t out[6];
    int64_t config[RANDOM_NUMBERS] = {2, 32, 0, 2, 2, 1};
    (void)state;
    hlocc_rt_threefry(config, (void *[]){next, out, in}, NULL, 0, 2);
    assert_int_equal(out[0], 0x6b200159);
    assert_int_equal(out[1], 0x99ba4efe);
    assert_int_equal(next[1], 1);
    memset(in, 0xff, sizeof in);
    hlocc_rt_threefry(config, (void *[]){next, out, in}, NULL, 0, 2);
    assert_int_equal(out[0], 0x1cb996fc);
    assert_int_equal(out[1], 0xbb002be7);
    /* [3, 2]: the second dimension is the even one, so a block has a row. */
    in[0] = in[1] = 0;
    config[RANDOM_COUNT] = 6;
    hlocc_rt_threefry(config, (void *[]){next, out, in}, NULL, 0, 6);
    assert_int_equal(out[1], 0x99ba4efe);
    assert_int_equal(next[1], 3);
    /* [2, 3]: the first is, so a block has a column. */
    config[RANDOM_INNER] = 3;
    hlocc_rt_threefry(config, (void *[]){next, out, in}, NULL, 0, 6);
    assert_int_equal(out[0], 0x6b200159);
    assert_int_equal(out[3], 0x99ba4efe);
}

static void test_rng(void **state) {
    uint64_t counter[2] = {42, 0};
    float low = -2, high = 3, out[4000];
    int64_t config[RNG_NUMBERS] = {RNG_UNIFORM, RT_F32, 0, 4000};
    double sum = 0, squares = 0;
    (void)state;
    hlocc_rt_rng(config, (void *[]){out, &low, &high}, counter);
    assert_int_equal(counter[1], 4000);
    for (int i = 0; i < 4000; i++) {
        assert_true(out[i] >= -2 && out[i] < 3);
        sum += (double)out[i];
    }
    assert_true(fabs(sum / 4000 - 0.5) < 0.1);
    config[RNG_KIND] = RNG_NORMAL;
    hlocc_rt_rng(config, (void *[]){out, &low, &high}, counter);
    for (int i = 0; i < 4000; i++)
        squares += (double)(out[i] + 2) * (double)(out[i] + 2);
    assert_true(fabs(sqrt(squares / 4000) - 3) < 0.2);
    int8_t from = -3, to = 4, small[1000];
    int64_t integers[RNG_NUMBERS] = {RNG_INTEGER, 8, 1, 1000};
    hlocc_rt_rng(integers, (void *[]){small, &from, &to}, counter);
    for (int i = 0; i < 1000; i++)
        assert_true(small[i] >= -3 && small[i] < 4);
}

/* ---- 16-bit floats ---- */

static void test_halves(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        double x = f16_to_double((uint16_t)bits), y = bf16_to_double((uint16_t)bits);
        if (isnan(x))
            assert_int_equal(double_to_f16(x) & 0x7c00, 0x7c00);
        else
            assert_int_equal(double_to_f16(x), bits);
        if (!isnan(y)) assert_int_equal(double_to_bf16(y), bits);
    }
    assert_int_equal(double_to_f16(65519), 0x7bff);
    assert_int_equal(double_to_f16(65520), 0x7c00);
    assert_int_equal(double_to_f16(0x1p-25), 0);
    assert_int_equal(double_to_f16(0x1.8p-25), 1);
    assert_int_equal(double_to_bf16(1 + 0x1p-8), 0x3f80);
    assert_int_equal(double_to_bf16(1 + 0x1.8p-8), 0x3f81);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),      cmocka_unit_test(test_topk),
        cmocka_unit_test(test_topk_long), cmocka_unit_test(test_fft_lengths),
        cmocka_unit_test(test_fft_real),  cmocka_unit_test(test_fft_float),
        cmocka_unit_test(test_fft_boxes), cmocka_unit_test(test_fft_real_lines),
        cmocka_unit_test(test_philox),    cmocka_unit_test(test_threefry),
        cmocka_unit_test(test_rng),       cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
