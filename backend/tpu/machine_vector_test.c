/* Every lane-by-lane instruction on values worked out by hand: operands, expected word. */
#include <math.h>

#include "backend/tpu/machine_testing.h"

#define F(bits) 0x##bits##u
enum { MAX_CASES = 8 };
struct lane_test {
    const char *op;
    int operands; /* registers it reads */
    struct {
        uint32_t a, b, want;
    } lane[MAX_CASES];
};

/* f32: 3f800000 = 1, 40000000 = 2, 40400000 = 3, 40800000 = 4, 3f000000 = 0.5, c0200000 = -2.5,
 * 7f800000 = infinity, 7fc00000 = NaN, 00000001 = the smallest subnormal, which counts as 0. */
static const struct lane_test tests[] = {
    {"vadd.f32",
     2,
     {{F(3f800000), F(40000000), F(40400000)},
      {F(7f7fffff), F(7f7fffff), F(7f800000)},
      {F(00000001), F(80000000), F(00000000)},
      {F(3f800000), F(33800000), F(3f800000)}}}, /* 1 + 2^-24: a tie, to even */
    {"vsub.f32", 2, {{F(3f800000), F(40000000), F(bf800000)}, {F(00800001), F(00800000), 0}}},
    {"vrsub.f32", 2, {{F(3f800000), F(40000000), F(3f800000)}}},
    {"vmul.f32",
     2,
     {{F(40000000), F(40400000), F(40c00000)},
      {F(00800000), F(3f000000), 0}, /* half the smallest normal number is flushed */
      {F(c0000000), F(7f800000), F(ff800000)}}},
    {"vmax.f32",
     2,
     {{F(80000000), F(00000000), F(00000000)},
      {F(00000000), F(80000000), F(00000000)},
      {F(7fc00000), F(3f800000), F(7fc00000)},
      {F(3f800000), F(7fc00000), F(7fc00000)},
      {F(c0200000), F(3f000000), F(3f000000)}}},
    {"vmin.f32",
     2,
     {{F(80000000), F(00000000), F(80000000)},
      {F(3f800000), F(7fc00000), F(7fc00000)},
      {F(c0200000), F(3f000000), F(c0200000)}}},
    {"vfloor.f32", 1, {{F(c0200000), 0, F(c0400000)}, {F(3f000000), 0, 0}}},
    {"vceil.f32", 1, {{F(c0200000), 0, F(c0000000)}, {F(3f000000), 0, F(3f800000)}}},
    {"vtrunc.f32", 1, {{F(c0200000), 0, F(c0000000)}, {F(bf000000), 0, F(80000000)}}},
    {"vrint.f32",
     1,
     {{F(c0200000), 0, F(c0000000)}, {F(3f000000), 0, 0}, {F(3fc00000), 0, F(40000000)}}},
    {"vround.f32",
     1,
     {{F(c0200000), 0, F(c0400000)},
      {F(3f000000), 0, F(3f800000)},
      {F(3effffff), 0, 0},
      {F(4b000001), 0, F(4b000001)}}},
    /* bf16 keeps the upper 16 bits, ties to even: 1 + 2^-8 is a tie down, 1 + 3 * 2^-8 up. */
    {"vrbf.f32", 1, {{F(3f808000), 0, F(3f800000)}, {F(3f818000), 0, F(3f820000)}}},
    {"vredp.f32",
     2,
     {{F(3f808000), 0x0807, F(3f800000)}, /* 8 exponent and 7 mantissa bits: bf16 */
      {F(47800000), 0x050a, F(7f800000)}, /* 65536 is past f16 */
      {F(38000000), 0x050a, 0},           /* 2^-15 is below f16's normal range */
      {F(7fc12345), 0x050a, F(7fc12345)}}},
    {"vadd.s32", 2, {{0xffffffff, 2, 1}, {0x7fffffff, 1, 0x80000000}}},
    {"vsub.s32", 2, {{1, 2, 0xffffffff}}},
    {"vrsub.s32", 2, {{1, 2, 1}}},
    {"vmul.s32", 2, {{0x10001, 0x10001, 0x00020001}, {0xffffffff, 7, 0xfffffff9}}},
    {"vmulh.s32", 2, {{0x80000000, 0x80000000, 0x40000000}, {0xffffffff, 1, 0xffffffff}}},
    {"vmulh.u32", 2, {{0x80000000, 0x80000000, 0x40000000}, {0xffffffff, 2, 1}}},
    {"vand", 2, {{0xff00ff00, 0x0ff00ff0, 0x0f000f00}}},
    {"vor", 2, {{0xff00ff00, 0x0ff00ff0, 0xfff0fff0}}},
    {"vxor", 2, {{0xff00ff00, 0x0ff00ff0, 0xf0f0f0f0}}},
    {"vandn", 2, {{0xff00ff00, 0x0ff00ff0, 0xf000f000}}},
    {"vshl", 2, {{3, 4, 48}, {3, 32, 0}, {3, 0xffffffff, 0}, {1, 31, 0x80000000}}},
    {"vshr", 2, {{0x80000000, 4, 0x08000000}, {0x80000000, 32, 0}}},
    {"vsar", 2, {{0x80000000, 4, 0xf8000000}, {0x80000000, 99, 0xffffffff}, {5, 40, 0}}},
    {"vmin.s32", 2, {{0xffffffff, 1, 0xffffffff}}},
    {"vmax.s32", 2, {{0xffffffff, 1, 1}}},
    {"vmin.u32", 2, {{0xffffffff, 1, 1}}},
    {"vmax.u32", 2, {{0xffffffff, 1, 0xffffffff}}},
    {"vclz", 1, {{0, 0, 32}, {1, 0, 31}, {0x80000000, 0, 0}, {0x00ffffff, 0, 8}}},
    {"vpcnt", 1, {{0, 0, 0}, {0xffffffff, 0, 32}, {0x80000101, 0, 3}}},
    {"vpack.bf16", 2, {{F(3f808000), F(3f818000), 0x3f823f80}, {F(7f800001), 0, 0x7fc0}}},
    {"vpack.h", 2, {{0x11112222, 0x33334444, 0x44442222}}},
    {"vpack.b", 2, {{0x11223344, 0x55667788, 0x66228844}}},
    {"vcvt.s32.f32",
     1,
     {{F(c0200000), 0, (uint32_t)-2},
      {F(4f000000), 0, 0x7fffffff},
      {F(ff800000), 0, 0x80000000},
      {F(7fc00000), 0, 0}}},
    {"vcvt.u32.f32",
     1,
     {{F(c0200000), 0, 0}, {F(4f000000), 0, 0x80000000}, {F(4f800000), 0, 0xffffffff}}},
    {"vcvt.f32.s32", 1, {{0xffffffff, 0, F(bf800000)}, {0x01000001, 0, F(4b800000)}}},
    {"vcvt.f32.u32",
     1,
     {{0xffffffff, 0, F(4f800000)}, {0x80000000, 0, F(4f000000)}, {3, 0, F(40400000)}}},
    {"vcvt.bf16.f32", 1, {{F(3f818000), 0, 0x3f82}, {F(ffc00001), 0, 0xffc0}}},
    {"vcvt.f16.f32",
     1,
     {{F(3f800000), 0, 0x3c00},
      {F(477ff000), 0, 0x7c00}, /* 65520 rounds up, past the largest */
      {F(33800000), 0, 0x0001}, /* 2^-24, the smallest subnormal */
      {F(33000000), 0, 0x0000}, /* half of it: a tie, to even */
      {F(3f801000), 0, 0x3c00}}},
    {"vcvt.f32.f16",
     1,
     {{0x3c00, 0, F(3f800000)}, {0x0001, 0, F(33800000)}, {0xfc00, 0, F(ff800000)}}},
    {"vcvt.f8e3m4.f32", 1, {{F(3f800000), 0, 0x30}, {F(41800000), 0, 0x70}}},
    {"vcvt.f32.f8e3m4", 1, {{0x30, 0, F(3f800000)}, {0x01, 0, F(3c800000)}}},
    {"vcvt.f8e4m3.f32", 1, {{F(3f800000), 0, 0x38}, {F(43800000), 0, 0x78}}},
    {"vcvt.f32.f8e4m3", 1, {{0x38, 0, F(3f800000)}, {0x78, 0, F(7f800000)}}},
    {"vcvt.f8e4m3fn.f32",
     1,
     {{F(43e00000), 0, 0x7e}, {F(43f00000), 0, 0x7f}, {F(43e80000), 0, 0x7e}}},
    {"vcvt.f32.f8e4m3fn",
     1,
     {{0x7e, 0, F(43e00000)}, {0x7f, 0, F(7fc00000)}, {0x01, 0, F(3b000000)}}},
    {"vcvt.f8e4m3b11fnuz.f32",
     1,
     {{F(3f800000), 0, 0x58}, {F(80000000), 0, 0}, {F(7f800000), 0, 0x80}}},
    {"vcvt.f32.f8e4m3b11fnuz", 1, {{0x58, 0, F(3f800000)}, {0x80, 0, F(7fc00000)}}},
    {"vcvt.f8e4m3fnuz.f32", 1, {{F(3f800000), 0, 0x40}, {F(7f800000), 0, 0x80}}},
    {"vcvt.f32.f8e4m3fnuz", 1, {{0x40, 0, F(3f800000)}, {0x7f, 0, F(43700000)}}},
    {"vcvt.f8e5m2.f32",
     1,
     {{F(3f800000), 0, 0x3c}, {F(47700000), 0, 0x7c}, {F(476fffff), 0, 0x7b}}},
    {"vcvt.f32.f8e5m2",
     1,
     {{0x3c, 0, F(3f800000)}, {0x7b, 0, F(47600000)}, {0xfc, 0, F(ff800000)}}},
    {"vcvt.f8e5m2fnuz.f32", 1, {{F(3f800000), 0, 0x40}, {F(7fc00000), 0, 0x80}}},
    {"vcvt.f32.f8e5m2fnuz", 1, {{0x40, 0, F(3f800000)}, {0x01, 0, F(37000000)}}},
    {"vcvt.f8e8m0fnu.f32",
     1,
     {{F(3f800000), 0, 127}, {F(3fc00000), 0, 128}, {F(bf800000), 0, 255}}},
    {"vcvt.f32.f8e8m0fnu", 1, {{127, 0, F(3f800000)}, {255, 0, F(7fc00000)}, {0, 0, F(00400000)}}},
    {"vcvt.f4e2m1fn.f32",
     1,
     {{F(3f800000), 0, 2}, {F(42c80000), 0, 7}, {F(7fc00000), 0, 8}, {F(3e800000), 0, 0}}},
    {"vcvt.f32.f4e2m1fn",
     1,
     {{2, 0, F(3f800000)}, {7, 0, F(40c00000)}, {1, 0, F(3f000000)}, {15, 0, F(c0c00000)}}},
};

/* Comparisons give masks, seen through vm2v. */
static const struct lane_test compares[] = {
    {"veq.f32",
     2,
     {{0, F(80000000), ~0u}, {F(7fc00000), F(7fc00000), 0}, {F(00000001), 0, ~0u}, {1, 2, ~0u}}},
    {"vne.f32", 2, {{0, F(80000000), 0}, {F(7fc00000), F(7fc00000), ~0u}}},
    {"vlt.f32", 2, {{F(c0200000), F(3f800000), ~0u}, {F(3f800000), F(7fc00000), 0}}},
    {"vle.f32", 2, {{F(3f800000), F(3f800000), ~0u}, {F(40000000), F(3f800000), 0}}},
    {"vgt.f32", 2, {{F(40000000), F(3f800000), ~0u}, {F(7fc00000), 0, 0}}},
    {"vge.f32", 2, {{F(3f800000), F(3f800000), ~0u}, {F(c0200000), 0, 0}}},
    {"veq.s32", 2, {{5, 5, ~0u}, {5, 6, 0}}},
    {"vne.s32", 2, {{5, 5, 0}, {5, 6, ~0u}}},
    {"vlt.s32", 2, {{0xffffffff, 0, ~0u}, {0, 0, 0}}},
    {"vle.s32", 2, {{0, 0, ~0u}, {1, 0xffffffff, 0}}},
    {"vgt.s32", 2, {{0, 0xffffffff, ~0u}, {0, 0, 0}}},
    {"vge.s32", 2, {{0, 0, ~0u}, {0xffffffff, 0, 0}}},
    {"vlt.u32", 2, {{0, 0xffffffff, ~0u}, {0, 0, 0}}},
    {"vle.u32", 2, {{0, 0, ~0u}, {0xffffffff, 1, 0}}},
    {"vgt.u32", 2, {{0xffffffff, 0, ~0u}, {0, 0, 0}}},
    {"vge.u32", 2, {{0, 0, ~0u}, {0, 0xffffffff, 0}}},
    {"vv2m", 1, {{0x00010080, 0, 0x00ff00ff}, {0, 0, 0}, {0xff000000, 0, 0xff000000}}},
};

/* Elementary functions on arguments whose results are known to all digits; `b` where it takes two.
 * Compared to 2 units in the last place. */
struct function_test {
    const char *op;
    int operands;
    struct {
        float a, b, want;
    } lane[MAX_CASES];
};
static const struct function_test functions[] = {
    {"ercp", 1, {{4, 0, 0.25f}, {-0.5f, 0, -2}, {0, 0, INFINITY}}},
    {"ersqrt", 1, {{4, 0, 0.5f}, {0.25f, 0, 2}, {0, 0, INFINITY}}},
    {"esqrt", 1, {{9, 0, 3}, {2, 0, 1.41421356f}, {-1, 0, NAN}}},
    {"eexp", 1, {{0, 0, 1}, {1, 0, 2.71828183f}, {-INFINITY, 0, 0}, {100, 0, INFINITY}}},
    {"eexp2", 1, {{10, 0, 1024}, {-1, 0, 0.5f}}},
    {"eexpm1", 1, {{0, 0, 0}, {1, 0, 1.71828183f}, {1e-10f, 0, 1e-10f}}},
    {"elog", 1, {{1, 0, 0}, {2.71828183f, 0, 1}, {0, 0, -INFINITY}, {-1, 0, NAN}}},
    {"elog2", 1, {{1024, 0, 10}, {0.5f, 0, -1}}},
    {"elog1p", 1, {{0, 0, 0}, {1e-10f, 0, 1e-10f}, {1.71828183f, 0, 1}}},
    {"etanh", 1, {{0, 0, 0}, {1, 0, 0.761594156f}, {-30, 0, -1}}},
    {"esigmoid", 1, {{0, 0, 0.5f}, {1, 0, 0.731058579f}, {-200, 0, 0}, {200, 0, 1}}},
    {"esin", 1, {{0, 0, 0}, {1, 0, 0.841470985f}, {1e6f, 0, -0.349993502f}}},
    {"ecos", 1, {{0, 0, 1}, {1, 0, 0.540302306f}}},
    {"etan", 1, {{0, 0, 0}, {1, 0, 1.55740772f}}},
    {"eerf", 1, {{0, 0, 0}, {1, 0, 0.842700793f}, {10, 0, 1}}},
    {"ecbrt", 1, {{27, 0, 3}, {-8, 0, -2}}},
    {"ediv", 2, {{1, 3, 0.333333343f}, {1, 0, INFINITY}, {0, 0, NAN}}},
    {"erem", 2, {{5.5f, 2, 1.5f}, {-5.5f, 2, -1.5f}, {1, INFINITY, 1}}},
    {"epow", 2, {{2, 10, 1024}, {0, 0, 1}, {1, NAN, 1}, {-1, INFINITY, 1}}},
    {"eatan2", 2, {{1, 1, 0.785398163f}, {0, -1, 3.14159265f}, {-1, 0, -1.57079633f}}},
};
static const struct lane_test integer_functions[] = {
    {"ediv.s32", 2, {{(uint32_t)-7, 2, (uint32_t)-3}, {5, 0, ~0u}, {0x80000000, ~0u, 0x80000000}}},
    {"ediv.u32", 2, {{(uint32_t)-7, 2, 0x7ffffffc}, {5, 0, ~0u}}},
    {"erem.s32", 2, {{(uint32_t)-7, 2, ~0u}, {5, 0, 5}, {0x80000000, ~0u, 0}}},
    {"erem.u32", 2, {{7, 4, 3}, {5, 0, 5}}},
};

static bool covered[TPU_OPS];

static void note(const char *op) {
    enum tpu_op number = tpu_op_from_name(op, strlen(op));
    if (number == TPU_EMPTY) fail_msg("no instruction %s", op);
    covered[number] = true;
}

/* Lane i of sublane 0 holds case i; all other lanes repeat them. */
static void check_lanes(const struct lane_test *test, const char *body) {
    static uint32_t x[2 * REG], y[2 * REG], out[2 * REG];
    struct tpu_error error;
    for (int i = 0; i < 2 * REG; i++) {
        x[i] = test->lane[i % MAX_CASES].a;
        y[i] = test->lane[i % MAX_CASES].b;
    }
    run_body(body, x, y, out, &error);
    if (error.text[0]) fail_msg("%s: %s", test->op, error.text);
    for (int i = 0; i < REG; i++) {
        int k = i % MAX_CASES;
        bool given = test->lane[k].a || test->lane[k].b || test->lane[k].want;
        if (!given || out[i] == test->lane[k].want) continue;
        fail_msg("%s(%08x, %08x), lane %d: got %08x, want %08x", test->op, test->lane[k].a,
                 test->lane[k].b, i, out[i], test->lane[k].want);
    }
}

static void lanes_one_by_one(void **state) {
    (void)state;
    char body[512];
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        note(tests[i].op);
        snprintf(body, sizeof body, "{ %s v6, v1%s }\n{ stall 8 }\n{ vst v6, 0, 32, 1 }\n",
                 tests[i].op, tests[i].operands == 2 ? ", v3" : "");
        check_lanes(&tests[i], body);
    }
}

static void b_from_a_port(void **state) {
    (void)state;
    char body[512];
    struct lane_test one = {.operands = 2};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (tests[i].operands != 2) continue;
        for (int k = 0; k < MAX_CASES; k++) {
            if (!tests[i].lane[k].a && !tests[i].lane[k].want) continue;
            one.op = tests[i].op;
            memset(one.lane, 0, sizeof one.lane);
            for (int j = 0; j < MAX_CASES; j++)
                memcpy(&one.lane[j], &tests[i].lane[k], sizeof one.lane[j]);
            snprintf(body, sizeof body,
                     "{ smov s1, 0x%x }\n{ %s v6, v1, s1 }\n{ stall 8 }\n{ vst v6, 0, 32, 1 }\n",
                     tests[i].lane[k].b, tests[i].op);
            check_lanes(&one, body);
        }
    }
}

static void comparisons(void **state) {
    (void)state;
    char body[512];
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++) {
        note(compares[i].op);
        snprintf(body, sizeof body,
                 "{ %s m1, v1%s }\n{ stall 2 }\n{ vm2v v6, m1 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 "
                 "}\n",
                 compares[i].op, compares[i].operands == 2 ? ", v3" : "");
        check_lanes(&compares[i], body);
    }
    note("vm2v");
}

static void function_body(char *body, size_t size, const char *op, int operands) {
    snprintf(body, size, "{ %s v1%s }\n{ epop v6 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n", op,
             operands == 2 ? ", v3" : "");
}

static int distance(float a, float b) {
    if (a != a && b != b) return 0;
    int32_t x = (int32_t)as_word(a), y = (int32_t)as_word(b);
    if ((x ^ y) < 0) return a == b ? 0 : INT32_MAX;
    return abs(x - y);
}

static void elementary_functions(void **state) {
    (void)state;
    static uint32_t x[2 * REG], y[2 * REG], out[2 * REG];
    char body[512];
    struct tpu_error error;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const struct function_test *test = &functions[i];
        note(test->op);
        for (int k = 0; k < 2 * REG; k++) {
            x[k] = as_word(test->lane[k % MAX_CASES].a);
            y[k] = as_word(test->lane[k % MAX_CASES].b);
        }
        function_body(body, sizeof body, test->op, test->operands);
        run_body(body, x, y, out, &error);
        if (error.text[0]) fail_msg("%s: %s", test->op, error.text);
        for (int k = 0; k < MAX_CASES; k++) {
            float a = test->lane[k].a, b = test->lane[k].b, want = test->lane[k].want;
            if (k && a == 0 && b == 0 && want == 0) break;
            if (distance(as_float(out[k]), want) <= 2) continue;
            fail_msg("%s(%g, %g): got %.9g, want %.9g", test->op, a, b, as_float(out[k]), want);
        }
    }
    for (size_t i = 0; i < sizeof integer_functions / sizeof *integer_functions; i++) {
        note(integer_functions[i].op);
        function_body(body, sizeof body, integer_functions[i].op, 2);
        check_lanes(&integer_functions[i], body);
    }
}

/* Against double precision, on numbers of every size: 2 units in the last place. */
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double reciprocal(double x) {
    return 1 / x;
}
static double reciprocal_root(double x) {
    return 1 / sqrt(x);
}

static void accuracy(void **state) {
    (void)state;
    static const struct {
        const char *op;
        double (*exact)(double x);
    } all[] = {
        {"ercp", reciprocal},  {"ersqrt", reciprocal_root},
        {"esqrt", sqrt},       {"eexp", exp},
        {"eexp2", exp2},       {"eexpm1", expm1},
        {"elog", log},         {"elog2", log2},
        {"elog1p", log1p},     {"etanh", tanh},
        {"esigmoid", sigmoid}, {"esin", sin},
        {"ecos", cos},         {"etan", tan},
        {"eerf", erf},         {"ecbrt", cbrt},
    };
    static uint32_t x[2 * REG], y[2 * REG], out[2 * REG];
    char body[512];
    struct tpu_error error;
    uint64_t seed = 1;
    for (int i = 0; i < 2 * REG; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float near = ((float)(seed >> 40) / 0x1p23f - 1) * (i % 4 ? 1.5f : 20);
        x[i] = i % 3 ? as_word(near) : (uint32_t)(seed >> 32);
        if ((x[i] & 0x7f800000) == 0) x[i] = 0; /* subnormals count as 0 */
    }
    for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
        function_body(body, sizeof body, all[t].op, 1);
        run_body(body, x, y, out, &error);
        if (error.text[0]) fail_msg("%s: %s", all[t].op, error.text);
        for (int i = 0; i < REG; i++) {
            float want = (float)all[t].exact(as_float(x[i]));
            if (fabsf(want) < 0x1p-126f) want = copysignf(0, want);
            if (distance(as_float(out[i]), want) <= 2) continue;
            fail_msg("%s(%.9g): got %.9g, want %.9g", all[t].op, as_float(x[i]), as_float(out[i]),
                     want);
        }
    }
}

/* Instructions whose lanes differ by position: in machine_test.c. */
static void every_lane_instruction_is_tested(void **state) {
    (void)state;
    static const char *const elsewhere[] = {"vmov", "vsel", "vlane", "vsublane", "vrots",  "vbcs",
                                            "mand", "mor",  "mxor",  "mandn",    "mpack.h"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        note(elsewhere[i]);
    for (int op = 1; op < TPU_OPS; op++) {
        const struct tpu_op_info *info = tpu_op_info((enum tpu_op)op);
        bool lanes = info->slot == TPU_CLASS_VECTOR || info->effect == TPU_EFFECT_EUP_PUSH;
        if (lanes && !covered[op]) fail_msg("%s has no test", info->name);
    }
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(lanes_one_by_one), cmocka_unit_test(b_from_a_port),
        cmocka_unit_test(comparisons),      cmocka_unit_test(elementary_functions),
        cmocka_unit_test(accuracy),         cmocka_unit_test(every_lane_instruction_is_tested),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
