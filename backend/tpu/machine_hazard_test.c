/* Programs that break one rule each: stopped, at the right bundle, with the right words. */
#include "backend/tpu/machine_testing.h"

/* The frame of machine_testing.h has 12 bundles before the body. */
enum { FIRST = 12 };
struct wrong {
    const char *body;
    int bundle; /* of the body, where it stops */
    const char *message;
};

/* A descriptor for flag 3 at SMEM word 64, from VMEM row 48 to HBM word 0, one row; words as given.
 */
#define SST(at, value) "{ smov s3, " #value " }\n{ sst s3, s1, " #at " }\n"
#define DESCRIPTOR(control, from, to)                                                              \
    "{ smov s1, 64 }\n" SST(0, control) SST(1, from) SST(2, to) SST(3, 128) SST(4, 1) SST(7, 1)    \
        SST(10, 1)
enum { DESCRIPTOR_BUNDLES = 15 };

static const struct wrong wrongs[] = {
    /* results read too early */
    {"{ sadd s1, s2, 1 ; smul s3, s2, 3 }\n{ sadd s1, s1, 1 }\n{ sadd s4, s3, 1 }", 2,
     "s0 sadd: s3 is read 1 cycles before its result is there"},
    {"{ vadd.f32 v6, v1, v2 }\n{ vadd.f32 v7, v6, v1 }", 1,
     "v0 vadd.f32: v6 is read 3 cycles before"},
    {"{ vld v6, 0, 0, 1 }\n{}\n{ vst v6, 0, 32, 1 }", 2, "st vst: v6 is read 4 cycles before"},
    {"{ seq p1, s1, s1 }\n{ (p1) smov s2, 1 }", 1, "p1 is read 1 cycles before"},
    {"{ veq.s32 m1, v1, v2 }\n{ vmov v6, 1 ?m1 }", 1, "m1 is read 1 cycles before"},
    {"{ xrot v1, 1 }\n{ xpop v6 }\n{ vadd.s32 v7, v6, 1 }", 2, "v6 is read 1 cycles before"},
    {"{ vmov v6, 0 }\n{ vlane v7 }\n{ vlt.s32 m1, v7, 5 ; vld v6, 0, 0, 1 }", 2,
     "v0 vlt.s32: v7 is read 1 cycles before"},
    /* a write through a mask reads the old value */
    {"{ veq.s32 m1, v1, v2 }\n{}\n{ vmov v6, 1 }\n{ vmov v6, 2 ?m1 }", 3, "v6 is read 1 cycles"},
    /* two writers */
    {"{ vmov v6, 1 ; vmov v6, 2 }", 0, "two writers of v6 in one bundle"},
    {"{ smov s1, 1 ; smov s1, 2 }", 0, "two writers of s1 in one bundle"},
    {"{ seq p1, s1, s1 ; seq p1, s1, s1 }", 0, "two writers of p1 in one bundle"},
    {"{ vld v6, 0, 0, 1 }\n{ vmov v6, 1 }", 1,
     "v0 vmov: v6 is written while an earlier write is in flight"},
    {"{ sst s1, s2, 70 ; sst s3, s2, 70 }", 0, "two writers of SMEM word"},
    /* predicated ones only count where they run */
    {"{ seq p1, s1, s1 }\n{}\n{ (p1) smov s2, 1 ; smov s2, 2 }", 2, "two writers of s2"},
    /* across a branch */
    {"{ br over }\n{}\n{ vld v6, 0, 0, 1 }\nover:\n{ vst v6, 0, 32, 1 }", 3, "v6 is read 5 cycles"},
    /* memory */
    {"{ vld v6, 0, 256, 1 }", 0, "out of range: VMEM row 256, and the program has 256"},
    {"{ vld v6, 0, 250, 1 }", 0, "out of range: VMEM row 256"},
    {"{ vst v1, 0, -1, 1 }", 0, "out of range: VMEM row 4294967295"},
    {"{ vld v6, 0, 0, 1 ; vst v1, 0, 7, 1 }", 0,
     "race: a load and a store of VMEM row 7 in one bundle"},
    {"{ smov s1, 0 }\n{ vst v1, 0, 32, s1 }", 1, "a store of stride 0"},
    {"{ smov s1, 4096 }\n{ sld s2, s1, 0 }", 1, "out of range: SMEM word 4096"},
    {"{ smov s1, -1 }\n{ sst s1, s1, 0 }", 1, "out of range: SMEM word 4294967295"},
    /* FIFOs */
    {"{ xpop v6 }", 0, "a pop, and no result is under way"},
    {"{ epop v6 ; eexp v1 }", 0, "a pop, and no result is under way"},
    {"{ mpop u1, v6 }", 0, "a pop, and no result is under way"},
    {"{ spop s1 }", 0, "a pop, and no result is under way"},
    {"{ smov s1, 33 }\nmore:\n{ bdnz s1, more }\n{}\n{ smov s2, 0 }\n"
     "{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n"
     "{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n"
     "{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n"
     "{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n"
     "{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }\n{ eexp v1 }",
     36, "misc eexp: the FIFO is full: 32 results are under way or waiting"},
    {"{ eexp v1 }\n{ stall 40 }", 5, "a halt with results in the EUP's FIFO"},
    {"{ v2s v1 }\n{ stall 40 }", 5, "a halt with words in the V2S FIFO"},
    {"{ xrot v1, 1 }\n{ stall 40 }", 5, "a halt with results in the XLU's FIFO"},
    {"{ wpush.bf16 u0, v1, set0, start }\n{ wpush.bf16 u0, v1, set0 }\n"
     "{ wpush.bf16 u0, v1, set0 }\n{ wpush.bf16 u0, v1, set0 }\n{ wpush.bf16 u0, v1, set0 }\n"
     "{ wpush.bf16 u0, v1, set0 }\n{ wpush.bf16 u0, v1, set0 }\n{ wpush.bf16 u0, v1, set0 }\n"
     "{ mpush.f32 u0, v1, set0 }\n{ stall 900 }",
     13, "a halt with results in matrix unit 0"},
    /* matrix units and transposes */
    {"{ mpush.f32 u0, v1, set0 }", 0, "weight set 0 has 0 of 128 rows"},
    {"{ wpush.f32 u0, v1, set1 }", 0, "weights that no START came before"},
    {"{ wpush.f32 u0, v1, set1, start }\n{ wpush.f32 u0, v1, set1, transpose }", 1,
     "one tile of weights, transposed and not"},
    {"{ wpush.bf16 u0, v1, set0, start }\n{ smov s1, 8 }\nw:\n{ bdnz s1, w }\n"
     "{ wpush.bf16 u0, v1, set0 }\n{}",
     3, "more than 128 rows of weights"},
    {"{ xtr v1 }\n{ xrot v1, 1 }", 1, "a push into the middle of a transpose"},
    {"{ smov s1, 17 }\nt:\n{ bdnz s1, t }\n{ xtr v1 }\n{}", 2,
     "more than 16 pushes of one transpose"},
    {"{ xtr v1 }", 4, "a halt in the middle of a transpose"},
    /* control */
    {"{ br a }\n{ br a }\na:\n{}", 1, "a branch in the delay of another"},
    {"{ smov s1, 1000 }\n{ jr s1 }", 1, "a branch past the end of the code, to bundle 1000"},
    {"{ br a }\n{ halt }\na:\n{}", 1, "a halt in the delay of a branch"},
    {"{ trap 42 }", 0, "trap 42"},
    {"{ stall -1 }", 0, "a stall of -1 cycles"},
    {"again:\n{ br again }\n{}\n{}", -1, "more than 1000000 cycles"},
    /* sync flags */
    {"{ wait f4, 1 }", 0, "this wait can never end: flag 4 can reach 0 of 1"},
    {"{ wait f4, -1 }", 0, "a wait for -1"},
    {"{ smov s1, 3 }\n{ signal f4, s1, 1 }", 1, "a signal to core 3, and there are 1"},
    {"{ score s1 }\n{ signal f4, s1, -2 }", 1, "a signal of -2"},
    /* DMA */
    {"{ smov s1, 4090 }\n{ dma s1 }", 1, "the descriptor at SMEM word 4090 is out of range"},
    {"{ smov s1, 200 }\n{ dma s1 }", 1, "the descriptor at SMEM word 200: a run of no words"},
    {DESCRIPTOR(0x33, 0, 0) "{ dma s1 }", DESCRIPTOR_BUNDLES, "no such memory"},
    {DESCRIPTOR(0x431, 0, 0) "{ dma s1 }", DESCRIPTOR_BUNDLES, "reserved bits of word 0"},
    {DESCRIPTOR(0x31, 32700, 0) "{ dma s1 }", DESCRIPTOR_BUNDLES,
     "out of range: the DMA's source in VMEM, from word 32700"},
    {DESCRIPTOR(0x31, 0, 8100) "{ dma s1 }", DESCRIPTOR_BUNDLES,
     "out of range: the DMA's destination in HBM, from word 8100"},
    {DESCRIPTOR(0x31, 0, 0) SST(3, -1) SST(4, 2) "{ dma s1 }", DESCRIPTOR_BUNDLES + 4,
     "a DMA of more than 2^32 words"},
    {DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ stall 2000 }\n{ vst v1, 0, 48, 1 }",
     DESCRIPTOR_BUNDLES + 2, "race: a DMA that has not been waited for writes VMEM row 48"},
    {DESCRIPTOR(0x38, 0, 300) "{ dma s1 }\n{ smov s2, 0 }\n{ sst s2, s2, 310 }",
     DESCRIPTOR_BUNDLES + 2, "race: a DMA that has not been waited for writes SMEM word 310"},
    {DESCRIPTOR(0x32, 300, 0) "{ dma s1 }\n{ smov s2, 0 }\n{ sst s2, s2, 310 }",
     DESCRIPTOR_BUNDLES + 2, "race: a DMA that has not been waited for reads SMEM word 310"},
    {DESCRIPTOR(0x30031, 0, 0) "{ dma s1 }", DESCRIPTOR_BUNDLES,
     "a DMA to core 3, and there are 1"},
    {DESCRIPTOR(0x35, 6144, 6200) "{ dma s1 }", DESCRIPTOR_BUNDLES,
     "source and destination overlap"},
    {DESCRIPTOR(0x34, 0, 6144) SST(4, 2) SST(6, 100) "{ dma s1 }", DESCRIPTOR_BUNDLES + 4,
     "the DMA's destination overlaps itself"},
    {DESCRIPTOR(0x31, 6144, 0) "{ dma s1 }\n{ vst v1, 0, 48, 1 }", DESCRIPTOR_BUNDLES + 1,
     "race: a DMA that has not been waited for reads VMEM row 48"},
    {DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ vld v6, 0, 41, 1 }", DESCRIPTOR_BUNDLES + 1,
     "race: a DMA that has not been waited for writes VMEM row 48"},
    /* done, but nobody has waited for it */
    {DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ stall 2000 }\n{ vld v6, 0, 41, 1 }",
     DESCRIPTOR_BUNDLES + 2, "race: a DMA that has not been waited for writes VMEM row 48"},
    {DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ dma s1 }", DESCRIPTOR_BUNDLES + 1,
     "race: this DMA and an earlier one on flag 3, which has not been waited for, meet in VMEM"},
    {DESCRIPTOR(0x31, 6144, 0) "{ dma s1 }\n{ dma s1 }", DESCRIPTOR_BUNDLES + 1,
     "race: this DMA and an earlier one on flag 3, which has not been waited for, meet in HBM"},
    /* one of two was waited for: no telling which */
    {DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ smov s2, 128 }\n{ dma.dst s1, s2 }\n{ wait f3, 1 }\n"
                               "{ vld v6, 0, 41, 1 }",
     DESCRIPTOR_BUNDLES + 4, "race: a DMA that has not been waited for writes VMEM row 48"},
    {DESCRIPTOR(0x38, 0, 300) "{ dma s1 }\n{ smov s2, 0 }\n{ sld s2, s2, 310 }",
     DESCRIPTOR_BUNDLES + 2, "race: a DMA that has not been waited for writes SMEM word 310"},
    {DESCRIPTOR(0x38, 0, 300) "{ dma s1 }\n{ smov s2, 300 }\n{ dma s2 }", DESCRIPTOR_BUNDLES + 2,
     "race: a DMA under way writes the descriptor at SMEM word 300"},
    {DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ stall 2000 }", -1,
     "a halt with DMAs on flag 3 that nothing has waited for"},
};

static void wrong_programs(void **state) {
    (void)state;
    static uint32_t x[2 * REG], y[2 * REG], out[2 * REG];
    struct tpu_error error;
    char place[64];
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        run_body(wrongs[i].body, x, y, out, &error);
        snprintf(place, sizeof place, "bundle %d (body, test.py:7), cycle ",
                 FIRST + wrongs[i].bundle);
        if (!strstr(error.text, wrongs[i].message) ||
            (wrongs[i].bundle >= 0 && strncmp(error.text, place, strlen(place)) != 0)) {
            fail_msg("got \"%s\"\nwant \"%s...%s\"\nof\n%s", error.text, place, wrongs[i].message,
                     wrongs[i].body);
        }
    }
}

/* The same programs, put right, run: the checks say nothing that is not so. */
static void right_programs(void **state) {
    (void)state;
    static uint32_t x[2 * REG], y[2 * REG], out[2 * REG];
    static const char *const bodies[] = {
        "{ sadd s1, s2, 1 ; smul s3, s2, 3 }\n{ sadd s1, s1, 1 }\n{}\n{ sadd s4, s3, 1 }",
        "{ vadd.f32 v6, v1, v2 }\n{}\n{}\n{}\n{ vadd.f32 v7, v6, v1 }",
        "{ sne p1, s0, s0 }\n{}\n{ (p1) smov s2, 1 ; smov s2, 2 }",
        "{ sne p1, s0, s0 }\n{}\n{ (p1) vld v6, 0, 9999, 1 }\n{ (p1) xpop v6 }\n{ (p1) trap 1 }",
        "{ vld v6, 0, 248, 1 }",
        "{ vld v6, 0, 0, 1 ; vst v1, 0, 8, 1 }",
        "{ sst s1, s2, 70 ; sst s3, s2, 71 }",
        DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ wait f3, 1 }\n{ vld v6, 0, 41, 1 }\n",
        DESCRIPTOR(0x34, 0, 6144) "{ dma s1 }\n{ smov s2, 128 }\n{ dma.dst s1, s2 }\n"
                                  "{ wait f3, 1 }\n{ wait f3, 1 }\n{ vld v6, 0, 41, 1 }",
        /* reading what a DMA reads */
        DESCRIPTOR(0x31, 6144, 0) "{ dma s1 }\n{ vld v6, 0, 48, 1 }\n{ wait f3, 1 }",
    };
    struct tpu_error error;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        run_body(bodies[i], x, y, out, &error);
        if (error.text[0]) fail_msg("%s\nof\n%s", error.text, bodies[i]);
    }
}

static void past_the_end(void **state) {
    (void)state;
    struct tpu_error error;
    run_text(".chip v2\n{ smov s1, 1 }\n", NULL, NULL, NULL, &error);
    assert_non_null(strstr(error.text, "bundle 1, cycle 1: the code has no more bundles"));
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(wrong_programs),
        cmocka_unit_test(right_programs),
        cmocka_unit_test(past_the_end),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
