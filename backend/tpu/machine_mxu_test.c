/* The matrix units, on products of small whole numbers and on values chosen for one corner each. */
#include <float.h>
#include <math.h>

#include "backend/tpu/machine_testing.h"

enum { N = TPU_MXU_DIM };

/* Weights W[k][n] as f32 come in 128 x 128, data as 16 rows; VMEM rows 0-127 and 128-143; the
 * result goes to rows 144-159. */
static void run_product(const char *body, const float (*w)[N], const float (*d)[N], float (*out)[N],
                        struct tpu_stats *stats) {
    static const char frame[] =
        ".chip v3\n.hbm 131072\n.vmem 131072\n"
        ".smem 0 0x004 0 0 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".smem 16 0x004 16384 16384 2048 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".smem 32 0x011 18432 18432 2048 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".param \"f32\" 4 32 1 0 dims 128,128 order 1,0 tiles (8,128) at 0\n"
        ".param \"f32\" 4 32 1 0 dims 16,128 order 1,0 tiles (8,128) at 65536\n"
        ".result \"f32\" 4 32 1 0 dims 16,128 order 1,0 tiles (8,128) at 73728\n"
        "{ smov s29, 0 ; smov s30, 16 }\n{ dma s29 ; smov s31, 32 }\n{ dma s30 }\n{ wait f0, 2 }\n"
        "%s\n{ stall 16 }\n{ dma s31 }\n{ wait f1, 1 }\n{ halt }\n";
    char *text = malloc(sizeof frame + strlen(body));
    struct tpu_error error;
    const void *inputs[] = {w, d};
    void *outputs[] = {out};
    sprintf(text, frame, body);
    run_text(text, inputs, outputs, stats, &error);
    free(text);
    if (error.text[0]) fail_msg("%s", error.text);
}

/* Weights from VMEM rows 0-127, 8 at a time, into a set; then 16 rows of data and their results. */
#define WEIGHTS(kind, first, rest)                                                                 \
    "{ smov s1, 0 ; smov s2, 15 }\n{ vld v1, s1, 0, 1 }\n{ stall 6 }\n"                            \
    "{ " kind " u0, v1, " first " ; sadd s1, s1, 8 }\n"                                            \
    "w:\n{ vld v1, s1, 0, 1 }\n{ stall 6 }\n{ bdnz s2, w }\n"                                      \
    "{ " kind " u0, v1, " rest " ; sadd s1, s1, 8 }\n{}\n"
#define DATA "{ vld v1, 0, 128, 1 }\n{ vld v2, 0, 136, 1 }\n{ stall 6 }\n"
#define RESULTS                                                                                    \
    "{ mpop u0, v3 }\n{ mpop u0, v4 }\n{ stall 2 }\n{ vst v3, 0, 144, 1 }\n{ vst v4, 0, 152, 1 "   \
    "}\n"

static float w[N][N], d[16][N], out[16][N];

/* Whole numbers below 8: products and sums are exact. */
static void fill(void) {
    for (int k = 0; k < N; k++) {
        for (int n = 0; n < N; n++)
            w[k][n] = (float)((k * 5 + n * 3) % 7 - 3);
    }
    for (int r = 0; r < 16; r++) {
        for (int k = 0; k < N; k++)
            d[r][k] = (float)((r * 3 + k * 2) % 5 - 2);
    }
}

static void expect(bool transposed) {
    for (int r = 0; r < 16; r++) {
        for (int n = 0; n < N; n++) {
            int sum = 0;
            for (int k = 0; k < N; k++)
                sum += (int)d[r][k] * (int)(transposed ? w[n][k] : w[k][n]);
            if (out[r][n] == (float)sum) continue;
            fail_msg("row %d, lane %d: got %g, want %d", r, n, out[r][n], sum);
        }
    }
}

static void whole_numbers(void **state) {
    (void)state;
    fill();
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ mpush.f32 u0, v1, set0 }\n{ mpush.f32 u0, v2, set0 }\n" RESULTS,
                w, d, out, NULL);
    expect(false);
    run_product(WEIGHTS("wpush.f32", "set1, start, transpose", "set1, transpose") DATA
                "{ mpush.f32 u0, v1, set1 }\n{ mpush.f32 u0, v2, set1 }\n" RESULTS,
                w, d, out, NULL);
    expect(true);
}

/* Rows 2s and 2s + 1 of the data in one word each: strided loads, packed. */
static void packed_data(void **state) {
    (void)state;
    fill();
    run_product(
        WEIGHTS(
            "wpush.f32", "set0, start",
            "set0") "{ vld v1, 0, 128, 2 }\n{ vld v2, 0, 129, 2 }\n{ stall 6 }\n"
                    "{ vpack.bf16 v5, v1, v2 }\n{ stall 3 }\n{ mpush.bf16 u0, v5, set0 }\n" RESULTS,
        w, d, out, NULL);
    expect(false);
}

/* Packed weights: 16 rows a push. */
static void packed_weights(void **state) {
    (void)state;
    fill();
    run_product("{ smov s1, 0 ; smov s2, 8 }\n{ seq p1, s2, 8 }\n"
                "again:\n{ vld v1, s1, 0, 2 }\n{ vld v2, s1, 1, 2 }\n{ stall 6 }\n"
                "{ vpack.bf16 v5, v1, v2 ; sadd s1, s1, 16 }\n{ stall 3 }\n{ bdnz s2, again }\n"
                "{ (p1) wpush.bf16 u0, v5, set0, start ; sne p2, s0, s0 }\n"
                "{ (!p1) wpush.bf16 u0, v5, set0 ; seq p1, s2, 99 }\n" DATA
                "{ mpush.f32 u0, v1, set0 }\n{ mpush.f32 u0, v2, set0 }\n" RESULTS,
                w, d, out, NULL);
    expect(false);
}

/* mpop.add: 1000 more than the product. */
static void accumulate(void **state) {
    (void)state;
    fill();
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ mpush.f32 u0, v1, set0 ; vmov v3, 1000.0 }\n{ mpush.f32 u0, v2, set0 }\n"
                "{ mpop.add u0, v3 }\n{ mpop u0, v4 }\n{ stall 3 }\n{ vadd.f32 v4, v4, 1000.0 }\n"
                "{ stall 3 }\n{ vst v3, 0, 144, 1 }\n{ vst v4, 0, 152, 1 }\n",
                w, d, out, NULL);
    for (int r = 0; r < 16; r++) {
        for (int n = 0; n < N; n++)
            out[r][n] -= 1000;
    }
    expect(false);
}

/* Weights are the identity: each pass shows the part of the data it multiplies. 1 + 2^-10 + 2^-20
 * has the parts 1, 2^-10 and 2^-20; infinity is all in the high part. */
static void parts(void **state) {
    (void)state;
    static const char *const kinds[] = {"mpush.hi", "mpush.mid", "mpush.lo", "mpush.f32"};
    const float value = 1 + 0x1p-10f + 0x1p-20f, odd = -(1 + 0x1p-8f + 0x1p-9f);
    const float wants[4][2] = {
        {1, -(1 + 0x1p-7f)}, {0x1p-10f, 0x1p-9f}, {0x1p-20f, 0}, {1, -(1 + 0x1p-7f)}};
    memset(w, 0, sizeof w);
    memset(d, 0, sizeof d);
    for (int k = 0; k < N; k++)
        w[k][k] = 1;
    d[0][0] = value;
    d[1][5] = odd;
    d[2][9] = FLT_MAX; /* its high part must not round to infinity */
    double whole = 0;
    char body[2048];
    for (int i = 0; i < 4; i++) {
        snprintf(body, sizeof body,
                 WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                 "{ %s u0, v1, set0 }\n{ %s u0, v2, set0 }\n" RESULTS,
                 kinds[i], kinds[i]);
        run_product(body, w, d, out, NULL);
        assert_true(out[0][0] == wants[i][0]);
        assert_true(out[1][5] == wants[i][1]);
        assert_true(out[0][1] == 0);
        if (i < 3) whole += out[2][9];
    }
    assert_true(whole == FLT_MAX);
    static const char *const weights[] = {"wpush.hi", "wpush.mid", "wpush.lo"};
    memset(d, 0, sizeof d);
    d[0][0] = 1;
    w[0][0] = value;
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body,
                 "{ smov s1, 0 ; smov s2, 15 }\n{ vld v1, s1, 0, 1 }\n{ stall 6 }\n"
                 "{ %s u0, v1, set0, start ; sadd s1, s1, 8 }\n"
                 "w:\n{ vld v1, s1, 0, 1 }\n{ stall 6 }\n{ bdnz s2, w }\n"
                 "{ %s u0, v1, set0 ; sadd s1, s1, 8 }\n{}\n" DATA
                 "{ mpush.f32 u0, v1, set0 }\n{ mpush.f32 u0, v2, set0 }\n" RESULTS,
                 weights[i], weights[i]);
        run_product(body, w, d, out, NULL);
        assert_true(out[0][0] == wants[i][0]);
    }
}

/* 0 times infinity: NaN in the plain product; a cross pass takes infinity as 0. Masks make garbage
 * 0. */
static void not_finite(void **state) {
    (void)state;
    memset(w, 0, sizeof w);
    memset(d, 0, sizeof d);
    d[0][0] = INFINITY;
    w[1][0] = 1; /* column 0: the infinity meets a 0 */
    w[0][1] = 2; /* column 1: it meets a 2 */
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ mpush.f32 u0, v1, set0 }\n{ mpush.f32 u0, v2, set0 }\n" RESULTS,
                w, d, out, NULL);
    assert_true(isnan(out[0][0]));
    assert_true(out[0][1] == INFINITY);
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ mpush.hi u0, v1, set0, cross }\n{ mpush.hi u0, v2, set0, cross }\n" RESULTS,
                w, d, out, NULL);
    assert_true(out[0][0] == 0);
    assert_true(out[0][1] == 0);
    d[0][0] = 3;
    d[0][100] = NAN;
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ vlane v9 }\n{}\n{ vlt.s32 m1, v9, 100 }\n{}\n"
                "{ mpush.f32 u0, v1, set0 ?m1 }\n{ mpush.f32 u0, v2, set0 }\n" RESULTS,
                w, d, out, NULL);
    assert_true(out[0][1] == 6);
    assert_true(out[0][0] == 0);
}

/* The sum runs over k in order, rounded at each step: 2^24 + 1 + 1 stays, 1 + 1 + 2^24 grows. */
static void order_of_sums(void **state) {
    (void)state;
    memset(w, 0, sizeof w);
    memset(d, 0, sizeof d);
    for (int k = 0; k < 3; k++)
        d[0][k] = 1;
    w[0][0] = 0x1p24f, w[1][0] = 1, w[2][0] = 1;
    w[0][1] = 1, w[1][1] = 1, w[2][1] = 0x1p24f;
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ mpush.f32 u0, v1, set0 }\n{ mpush.f32 u0, v2, set0 }\n" RESULTS,
                w, d, out, NULL);
    assert_true(out[0][0] == 0x1p24f);
    assert_true(out[0][1] == 0x1p24f + 2);
}

/* The other set's weights enter before the first one's results are taken, and change none of them.
 */
static void two_sets(void **state) {
    (void)state;
    struct tpu_stats stats;
    fill();
    run_product(WEIGHTS("wpush.f32", "set0, start", "set0") DATA
                "{ mpush.f32 u0, v1, set0 }\n{ mpush.f32 u0, v2, set0 }\n"
                "{ vld v9, 0, 0, 1 }\n{ stall 6 }\n"
                "{ smov s3, 15 ; wpush.f32 u0, v9, set1, start }\n"
                "more:\n{ bdnz s3, more }\n{ wpush.f32 u0, v9, set1 }\n{}\n"
                "{ mpop u0, v3 }\n{ mpop u0, v4 }\n{ stall 2 }\n"
                "{ vst v3, 0, 144, 1 }\n{ vst v4, 0, 152, 1 }\n"
                "{ mpush.f32 u0, v1, set1 }\n{ mpop u0, v5 }\n",
                w, d, out, &stats);
    expect(false);
    assert_int_equal(stats.mxu_rows[0], 24);
    assert_int_equal(stats.slots[TPU_PUSH], 16 + 2 + 16 + 1);
    tpu_stats_clear(&stats);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(whole_numbers),  cmocka_unit_test(packed_data),
        cmocka_unit_test(packed_weights), cmocka_unit_test(accumulate),
        cmocka_unit_test(parts),          cmocka_unit_test(not_finite),
        cmocka_unit_test(order_of_sums),  cmocka_unit_test(two_sets),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
