/* Instructions that are not lane by lane, each in a small program whose result is known. */
#include <math.h>

#include "backend/tpu/machine_testing.h"

static uint32_t x[2 * REG], y[2 * REG], out[2 * REG];

/* x: word i is i; y: word i is 10000 + i, unless a test says otherwise. */
static void run(const char *body) {
    struct tpu_error error;
    for (uint32_t i = 0; i < 2 * REG; i++) {
        x[i] = i;
        y[i] = 10000 + i;
    }
    run_body(body, x, y, out, &error);
    if (error.text[0]) fail_msg("%s\n%s", error.text, body);
}

/* out[i] = want, for i from `first` on, `count` words. */
#define EXPECT(first, count, want)                                                                 \
    for (uint32_t i = (first); i < (uint32_t)((first) + (count)); i++) {                           \
        uint32_t expected = (uint32_t)(want);                                                      \
        if (out[i] != expected) fail_msg("word %u is %u, not %u", i, out[i], expected);            \
    }

/* Scalar results: operands in s1 and s2, the result in s3, shown as all of v6. */
static void scalar_arithmetic(void **state) {
    (void)state;
    static const struct {
        const char *op;
        uint32_t a, b, want;
    } tests[] = {
        {"sadd", 0xffffffff, 2, 1},
        {"ssub", 1, 2, 0xffffffff},
        {"srsub", 1, 2, 1},
        {"smul", 0x10001, 0x10001, 0x20001},
        {"smulhs", 0xffffffff, 5, ~0u},
        {"smulhu", 0xffffffff, 5, 4},
        {"sdivs", (uint32_t)-7, 2, -3u},
        {"sdivs", 7, 0, ~0u},
        {"sdivs", 0x80000000, ~0u, 1u << 31},
        {"sdivu", 7, 2, 3},
        {"sdivu", 7, 0, ~0u},
        {"srems", (uint32_t)-7, 2, ~0u},
        {"srems", 7, 0, 7},
        {"srems", 0x80000000, ~0u, 0},
        {"sremu", 7, 4, 3},
        {"sremu", 7, 0, 7},
        {"sand", 12, 10, 8},
        {"sor", 12, 10, 14},
        {"sxor", 12, 10, 6},
        {"sandn", 12, 10, 4},
        {"sshl", 3, 4, 48},
        {"sshl", 3, 32, 0},
        {"sshr", 0x80000000, 31, 1},
        {"sshr", 1, 99, 0},
        {"ssar", 0x80000000, 31, ~0u},
        {"ssar", 0x80000000, 99, ~0u},
        {"smins", ~0u, 1, ~0u},
        {"smaxs", ~0u, 1, 1},
        {"sminu", ~0u, 1, 1},
        {"smaxu", ~0u, 1, ~0u},
    };
    char body[512];
    for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
        for (int port = 0; port < 2; port++) { /* b in a register, or given */
            snprintf(body, sizeof body,
                     "{ smov s1, 0x%x ; smov s2, 0x%x }\n{ %s s3, s1, %s%x }\n{ stall 16 }\n"
                     "{ vmov v6, s3 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n",
                     tests[k].a, tests[k].b, tests[k].op, port ? "s" : "0x", port ? 2 : tests[k].b);
            run(body);
            EXPECT(0, REG, tests[k].want)
        }
    }
}

static void scalar_of_one(void **state) {
    (void)state;
    run("{ smov s1, 0x00ff0001 }\n{ sclz s2, s1 ; spcnt s3, s1 }\n{ score s4 }\n"
        "{ vmov v6, s2 ; vmov v7, s3 }\n{ vmov v8, s4 ; vmov v9, s1 }\n"
        "{ stall 4 }\n{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, 8)
    EXPECT(REG, REG, 9)
}

static void scalar_comparisons(void **state) {
    (void)state;
    static const struct {
        const char *op;
        uint32_t a, b, want;
    } tests[] = {
        {"seq", 5, 5, 1},    {"seq", 5, 6, 0},  {"sne", 5, 6, 1},  {"sne", 5, 5, 0},
        {"slts", ~0u, 0, 1}, {"slts", 0, 0, 0}, {"sles", 0, 0, 1}, {"sles", 1, ~0u, 0},
        {"sgts", 0, ~0u, 1}, {"sgts", 0, 0, 0}, {"sges", 0, 0, 1}, {"sges", ~0u, 0, 0},
        {"sltu", 0, ~0u, 1}, {"sltu", 0, 0, 0}, {"sleu", 0, 0, 1}, {"sleu", ~0u, 1, 0},
        {"sgtu", ~0u, 0, 1}, {"sgtu", 0, 0, 0}, {"sgeu", 0, 0, 1}, {"sgeu", 0, ~0u, 0},
    };
    char body[512];
    for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
        snprintf(body, sizeof body,
                 "{ smov s1, 0x%x ; smov s2, 0x%x }\n{ %s p2, s1, s2 }\n{}\n{ sp2s s3, p2 }\n"
                 "{ vmov v6, s3 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n",
                 tests[k].a, tests[k].b, tests[k].op);
        run(body);
        EXPECT(0, REG, tests[k].want)
    }
}

/* Bits 0 to 3 of the result: and, or, exclusive-or, and-not of true (p1) and false (p2); bit 4: not
 * true, by p0; predicated moves choose. */
static void predicates(void **state) {
    (void)state;
    run("{ smov s1, 0 }\n{ seq p1, s0, s0 ; sne p2, s0, s0 }\n"
        "{ stall 1 }\n"
        "{ pand p3, p1, p2 ; smov s2, 0 }\n{ stall 2 }\n{ (p3) sor s1, s1, 1 }\n"
        "{ por p3, p1, p2 }\n{ stall 2 }\n{ (p3) sor s1, s1, 2 }\n"
        "{ pxor p3, p1, p2 }\n{ stall 2 }\n{ (p3) sor s1, s1, 4 }\n"
        "{ pandn p3, p1, p2 }\n{ stall 2 }\n{ (p3) sor s1, s1, 8 }\n"
        "{ pxor p3, p1, p0 }\n{ stall 2 }\n{ (p3) sor s1, s1, 16 ; (!p3) smov s2, 1 }\n"
        "{ (!p2) sor s1, s1, 32 ; (!p1) sor s2, s2, 64 }\n"
        "{ vmov v6, s1 ; vmov v7, s2 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n"
        "");
    EXPECT(0, REG, 2 + 4 + 8 + 32)
    EXPECT(REG, REG, 1)
}

static void scalar_memory(void **state) {
    (void)state;
    run("{ smov s1, 100 ; smov s2, 77 }\n{ sst s2, s1, 5 }\n{ sld s3, s1, 5 ; smov s2, 78 }\n"
        "{ sst s2, s1, 5 ; sld s4, s1, 5 }\n" /* a load beside a store sees the old word */
        "{ stall 4 }\n{ vmov v6, s3 ; vmov v7, s4 }\n{ stall 2 }\n"
        "{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, 77)
    EXPECT(REG, REG, 77)
}

static void places_in_a_register(void **state) {
    (void)state;
    run("{ vlane v6 ; vsublane v7 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, i % 128)
    EXPECT(REG, REG, i / 128 % 8)
    /* Sublane s takes sublane s - 3; then every sublane takes sublane 5. */
    run("{ vrots v6, v1, 3 ; vbcs v7, v1, 5 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n"
        "{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, ((i / 128 + 8 - 3) % 8) * 128 + i % 128)
    EXPECT(REG, REG, 5 * 128 + i % 128)
    run("{ smov s1, -3 }\n{ vrots v6, v1, s1 ; vmov v7, -5 }\n{ stall 2 }\n{ vst v6, 0, 32, 1 }\n"
        "{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, ((i / 128 + 3) % 8) * 128 + i % 128)
    EXPECT(REG, REG, -5)
}

/* m1: lanes below 10; m2: sublane 0. */
#define MASKS "{ vlane v10 ; vsublane v11 }\n{}\n{ vlt.s32 m1, v10, 10 ; veq.s32 m2, v11, 0 }\n{}\n"
static void masks(void **state) {
    (void)state;
    run(MASKS "{ vmov v6, 7 ; vsel v7, v1, v3 ?m1 }\n{}\n{ vadd.s32 v6, v1, 1 ?m1 }\n{ stall 2 }\n"
              "{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, i % 128 < 10 ? i + 1 : 7)
    EXPECT(REG, REG, i % 128 < 10 ? i - REG : 10000 + i - REG)
    static const struct {
        const char *op;
        int table[4]; /* for (a, b) = (0,0) (0,1) (1,0) (1,1) */
    } tests[] = {{"mand", {0, 0, 0, 1}},
                 {"mor", {0, 1, 1, 1}},
                 {"mxor", {0, 1, 1, 0}},
                 {"mandn", {0, 0, 1, 0}}};
    char body[512];
    for (int t = 0; t < 4; t++) {
        snprintf(body, sizeof body,
                 MASKS "{ %s m3, m1, m2 }\n{}\n{ vm2v v6, m3 }\n{}\n{ vst v6, 0, 32, 1 }\n",
                 tests[t].op);
        run(body);
        EXPECT(0, REG, -tests[t].table[2 * (i % 128 < 10) + (i < 128)])
    }
    /* A compare through a mask is off where the mask is; m0 is all on. */
    run(MASKS
        "{ vge.s32 m3, v10, 5 ?m1 ; mxor m4, m1, m0 }\n{}\n{ vm2v v6, m3 ; vm2v v7, m4 }\n{}\n"
        "{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, i % 128 >= 5 && i % 128 < 10 ? -1 : 0)
    EXPECT(REG, REG, i % 128 < 10 ? 0 : -1)
    run(MASKS "{ mpack.h m3, m1, m2 }\n{}\n{ vm2v v6, m3 }\n{}\n{ vst v6, 0, 32, 1 }\n"
              "{ vmov v7, -1 }\n{}\n{ vmov v7, 0 ?m3 }\n{}\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, (i % 128 < 10 ? 0xffffu : 0) | (i < 128 ? 0xffff0000u : 0))
    EXPECT(REG, REG, ~((i % 128 < 10 ? 0xffffu : 0) | (i < REG + 128 ? 0xffff0000u : 0)))
}

static void loads_and_stores(void **state) {
    (void)state;
    /* Row 2 in all sublanes; rows 0, 2, ... 14. */
    run("{ vld v6, 0, 2, 0 }\n{ vld v7, 0, 0, 2 }\n{ stall 6 }\n{ vst v6, 0, 32, 1 }\n"
        "{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, 2 * 128 + i % 128)
    EXPECT(REG, REG, (i / 128 - 8) * 2 * 128 + i % 128)
    /* Base and stride in registers: rows 15, 14, ... 8; stores to rows 33, 35, ... 47. */
    run("{ smov s1, 10 ; smov s2, -1 }\n{ vld v6, s1, 5, s2 }\n{ stall 6 }\n"
        "{ vst v6, s1, 23, 2 }\n");
    EXPECT(0, 2 * REG, i / 128 % 2 ? (15 - i / 256) * 128 + i % 128 : 0)
    /* Through masks: lanes that are off keep what was there. */
    run(MASKS "{ vmov v6, 1 ; vmov v7, 2 }\n{}\n{ vld v6, 0, 0, 1 ?m1 }\n{ stall 6 }\n"
              "{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 ?m1 }\n");
    EXPECT(0, REG, i % 128 < 10 ? i : 1)
    EXPECT(REG, REG, i % 128 < 10 ? 2 : 0)
}

/* Registers are read as they were before the bundle, whatever is written in it. */
static void old_values(void **state) {
    (void)state;
    run("{ vmov v6, 1 ; vmov v7, 2 }\n{}\n{ vadd.s32 v6, v7, 10 ; vadd.s32 v7, v6, 20 }\n{}\n"
        "{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, 12)
    EXPECT(REG, REG, 21)
    run("{ vmov v6, 1 ; vmov v7, 2 }\n{}\n"
        "{ vadd.s32 v7, v6, 10 ; vadd.s32 v8, v7, 20 ; vld v6, 0, 0, 1 ; vst v6, 0, 32, 1 }\n"
        "{ stall 6 }\n{ vst v8, 0, 40, 1 }\n");
    EXPECT(0, REG, 1)
    EXPECT(REG, REG, 22)
    /* A mask that is replaced beside its use, by a load through it. */
    run(MASKS "{ vmov v6, 5 }\n{}\n{ mand m1, m2, m2 ; vld v6, 0, 0, 1 ?m1 }\n{ stall 6 }\n"
              "{ vst v6, 0, 32, 1 }\n");
    EXPECT(0, REG, i % 128 < 10 ? i : 5)
    run("{ smov s1, 1 ; smov s2, 2 }\n{ sadd s1, s2, 10 ; sadd s2, s1, 20 }\n"
        "{ vmov v6, s1 ; vmov v7, s2 }\n{}\n{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, 12)
    EXPECT(REG, REG, 21)
}

static void cross_lane(void **state) {
    (void)state;
#define XLU(push) push "\n{ xpop v6 }\n{}\n{ vst v6, 0, 32, 1 }\n"
    run(XLU("{ xrot v1, 3 }"));
    EXPECT(0, REG, i / 128 * 128 + (i % 128 + 125) % 128)
    run(XLU("{ smov s1, -3 }\n{ xrot v1, s1 }"));
    EXPECT(0, REG, i / 128 * 128 + (i % 128 + 3) % 128)
    run(XLU("{ xbc v1, 7 }"));
    EXPECT(0, REG, i / 128 * 128 + 7)
    /* Lane l takes lane 127 - l; sublane s takes sublane 7 - s. */
    run(XLU("{ vlane v10 }\n{}\n{ vrsub.s32 v10, v10, 127 }\n{}\n{ xperm v1, v10 }"));
    EXPECT(0, REG, i / 128 * 128 + 127 - i % 128)
    run(XLU("{ vsublane v10 }\n{}\n{ vrsub.s32 v10, v10, 7 }\n{}\n{ xperms v1, v10 }"));
    EXPECT(0, REG, (7 - i / 128) * 128 + i % 128)
    /* Sublane s holds 128 s ... 128 s + 127: the sum is 128 * 128 s + 127 * 64. */
    run(XLU("{ xsum.s32 v1 }"));
    EXPECT(0, REG, 16384 * (i / 128) + 8128)
    run(XLU("{ vcvt.f32.s32 v10, v1 }\n{ stall 3 }\n{ xsum.f32 v10 }"));
    EXPECT(0, REG, as_word((float)(16384 * (i / 128) + 8128)))
    run(XLU("{ vcvt.f32.s32 v10, v1 }\n{ stall 3 }\n{ xmax.f32 v10 }"));
    EXPECT(0, REG, as_word((float)(i / 128 * 128 + 127)))
    run(XLU("{ vcvt.f32.s32 v10, v1 }\n{ stall 3 }\n{ xmin.f32 v10 }"));
    EXPECT(0, REG, as_word((float)(i / 128 * 128)))
    /* Lanes less 64 of the sublane's numbers, so that sublane 0 has both signs. */
#define SIGNED "{ vsub.s32 v10, v1, 64 }\n{}\n"
    run(XLU(SIGNED "{ xmax.s32 v10 }"));
    EXPECT(0, REG, i / 128 * 128 + 63)
    run(XLU(SIGNED "{ xmin.s32 v10 }"));
    EXPECT(0, REG, i / 128 * 128 - 64)
    run(XLU(SIGNED "{ xmax.u32 v10 }"));
    EXPECT(0, REG, i / 128 ? i / 128 * 128 + 63 : ~0u)
    run(XLU(SIGNED "{ xmin.u32 v10 }"));
    EXPECT(0, REG, i / 128 ? i / 128 * 128 - 64 : 0)
}

/* Rows 0-15 pushed: result j's sublane s, lane l is row l's lane 8 j + s. */
static void transpose(void **state) {
    (void)state;
    run("{ xtr v1 }\n{ xtrl v2, 2 }\n{ xpop v6 }\n{ xpop v7 }\n{}\n{ vst v6, 0, 32, 1 }\n"
        "{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, 2 * REG, i % 128 < 16 ? i % 128 * 128 + i / 128 : 0)
}

static void vector_to_scalar(void **state) {
    (void)state;
    run("{ v2s v4 }\n{ spop s1 }\n{}\n{ vmov v6, s1 }\n{}\n{ vst v6, 0, 32, 1 }\n");
    EXPECT(0, REG, 10000 + REG)
}

static void control(void **state) {
    (void)state;
    /* Two bundles after a branch still run; the third does not. */
    run("{ smov s1, 0 }\n{ br over }\n{ sadd s1, s1, 1 }\n{ sadd s1, s1, 2 }\n{ sadd s1, s1, 4 }\n"
        "over:\n{ vmov v6, s1 }\n{}\n{ vst v6, 0, 32, 1 }\n");
    EXPECT(0, REG, 3)
    /* A loop of 10; a branch that its predicate turns off. */
    run("{ smov s1, 10 ; smov s2, 0 }\n{ sne p1, s1, s1 }\nagain:\n{ bdnz s1, again }\n"
        "{ sadd s2, s2, 3 }\n{}\n{ (p1) br again }\n{}\n{}\n"
        "{ vmov v6, s1 ; vmov v7, s2 }\n{}\n{ vst v6, 0, 32, 1 }\n{ vst v7, 0, 40, 1 }\n");
    EXPECT(0, REG, 0)
    EXPECT(REG, REG, 30)
    /* A function called twice. */
    run("{ smov s2, 1 }\n{ call s1, twice }\n{}\n{}\n{ call s1, twice }\n{}\n{}\n{ br done "
        "}\n{}\n{}\n"
        "twice:\n{ jr s1 }\n{ sadd s2, s2, s2 }\n{}\n"
        "done:\n{ vmov v6, s2 }\n{}\n{ vst v6, 0, 32, 1 }\n");
    EXPECT(0, REG, 4)
}

static void flags(void **state) {
    (void)state;
    /* A signal to itself is there a cycle later; what is left over is waited for later. */
    run("{ score s1 }\n{ signal f5, s1, 3 }\n{ wait f5, 2 }\n{ wait f5, 1 }\n{ vmov v6, 9 }\n{}\n"
        "{ vst v6, 0, 32, 1 }\n");
    EXPECT(0, REG, 9)
}

/* VMEM row 0's lanes 0, 2, ..., 126 of rows 0-3 to rows 48 on: runs of 1 word, 64 a row, 4 rows;
 * then as one row each back to rows 32 on. With b added: 16 rows later. */
static void strided_dma(void **state) {
    (void)state;
    static const char to_48[] = "{ smov s1, 64 ; smov s2, 0 }\n"
#define WORD(at, value) "{ smov s3, " #value " }\n{ sst s3, s1, " #at " }\n"
        WORD(0, 0x25) WORD(1, 0) WORD(2, 6144) WORD(3, 1) WORD(4, 64) WORD(5, 2) WORD(6, 1)
            WORD(7, 4) WORD(8, 128) WORD(9, 128) WORD(10, 1) WORD(11, 0) WORD(12, 0);
    char body[2048];
    snprintf(body, sizeof body,
             "%s{ dma s1 }\n{ wait f2, 1 }\n{ vld v6, 0, 48, 1 }\n{ stall 6 }\n"
             "{ vst v6, 0, 32, 1 }\n",
             to_48);
    run(body);
    EXPECT(0, 4 * 128, i % 128 < 64 ? i / 128 * 128 + 2 * (i % 128) : ~0u)
    snprintf(
        body, sizeof body,
        "%s{ smov s2, 1 }\n{ dma.src s1, s2 }\n{ wait f2, 1 }\n{ vld v6, 0, 48, 1 }\n{ stall 6 }\n"
        "{ vst v6, 0, 32, 1 }\n",
        to_48);
    run(body);
    EXPECT(0, 4 * 128, i % 128 < 64 ? i / 128 * 128 + 2 * (i % 128) + 1 : ~0u)
    snprintf(body, sizeof body,
             "%s{ smov s2, 64 }\n{ dma.dst s1, s2 }\n{ wait f2, 1 }\n{ vld v6, 0, 48, 1 }\n"
             "{ stall 6 }\n{ vst v6, 0, 32, 1 }\n",
             to_48);
    run(body);
    EXPECT(0, 4 * 128, i % 128 >= 64 ? i / 128 * 128 + 2 * (i % 128 - 64) : ~0u)
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(scalar_arithmetic),
        cmocka_unit_test(scalar_of_one),
        cmocka_unit_test(scalar_comparisons),
        cmocka_unit_test(predicates),
        cmocka_unit_test(scalar_memory),
        cmocka_unit_test(places_in_a_register),
        cmocka_unit_test(masks),
        cmocka_unit_test(loads_and_stores),
        cmocka_unit_test(old_values),
        cmocka_unit_test(cross_lane),
        cmocka_unit_test(transpose),
        cmocka_unit_test(vector_to_scalar),
        cmocka_unit_test(control),
        cmocka_unit_test(flags),
        cmocka_unit_test(strided_dma),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
