/* The clock: cycles, stalls, bytes and traces, against counts worked out on paper. v3: 940 MHz, HBM
 * of 450 GB/s, so 478.7 bytes a cycle; DMA latency 500, issue distance 4, granule 32 bytes. */
#include "backend/tpu/machine_testing.h"

static struct tpu_stats stats;

static void run_timed(const char *text, FILE *trace) {
    struct tpu_executable *executable = assemble_text(text);
    struct tpu_error error = {""};
    struct tpu_run_options options = {.trace = trace};
    static uint32_t in[1 << 20], out[1 << 20];
    const void *inputs[] = {in, in};
    void *outputs[] = {out};
    tpu_stats_clear(&stats);
    if (tpu_execute(executable, inputs, outputs, &options, &stats, &error) != 0) {
        fail_msg("%s", error.text);
    }
    tpu_unload(executable);
}

static void bundles_and_stalls(void **state) {
    (void)state;
    /* 4 bundles, 10 cycles of stall. */
    run_timed(".chip v3\n{ smov s1, 7 }\n{ stall 10 }\n{ (p1) smov s2, 1 }\n{ halt }\n", NULL);
    assert_int_equal(stats.bundles, 4);
    assert_int_equal(stats.cycles, 14);
    assert_int_equal(stats.stalls[TPU_STALL_DELAY], 10);
    assert_int_equal(stats.slots[TPU_S0], 1); /* p1 is off */
    assert_int_equal(stats.slots[TPU_MISC], 2);
    assert_true(stats.seconds > 14 / 940e6 * 0.999 && stats.seconds < 14 / 940e6 * 1.001);
    /* Pushed at cycle 0, ready at 16: the pop of cycle 1 waits 15. */
    run_timed(".chip v3\n{ eexp v1 }\n{ epop v2 }\n{ halt }\n", NULL);
    assert_int_equal(stats.stalls[TPU_STALL_EUP], 15);
    assert_int_equal(stats.cycles, 18);
    /* eerf holds the unit for 4 cycles: the second push waits 3. Results at 19 and 23: the first
     * pop waits from 5 to 19, the second from 20 to 23. */
    run_timed(".chip v3\n{ eerf v1 }\n{ eerf v1 }\n{ epop v2 }\n{ epop v3 }\n{ halt }\n", NULL);
    assert_int_equal(stats.stalls[TPU_STALL_EUP], 3 + 14 + 3);
    assert_int_equal(stats.cycles, 25);
    /* A loop of three bundles, 5 times, and the two before and after. */
    run_timed(".chip v3\n{ smov s1, 5 }\na:\n{ bdnz s1, a }\n{}\n{}\n{ halt }\n", NULL);
    assert_int_equal(stats.cycles, 1 + 15 + 1);
}

static void matrix_units(void **state) {
    (void)state;
    /* Weights: 16 pushes of 8 rows, one a cycle from cycle 1 on; rows enter one a cycle, and 32 may
     * wait, so push k (from 0) issues at the later of 1 + k and 1 + 8 k - 32; the last at 89, in at
     * 129. The bundle after it pushes data: 129 - 32 = 97 is its cycle. Its result is there at
     * 129 + 256 = 385. */
    char text[2048] =
        ".chip v3\n{ vmov v1, 0 ; smov s1, 7 }\n{}\n{ wpush.f32 u1, v1, set0, start }\n";
    for (int i = 0; i < 15; i++)
        strcat(text, "{ wpush.f32 u1, v1, set0 }\n");
    strcat(text, "{ mpush.f32 u1, v1, set0 }\n{ mpop u1, v2 }\n{ halt }\n");
    run_timed(text, NULL);
    uint64_t first = 2, last = first + 15 * 8 - 32; /* the first push is bundle 2 */
    assert_int_equal(stats.stalls[TPU_STALL_MXU_WEIGHT], last - (first + 15));
    assert_int_equal(stats.cycles, first + 128 + 256 + 1 + 1);
    assert_int_equal(stats.mxu_rows[0], 0);
    assert_int_equal(stats.mxu_rows[1], 8);
    double use = 8.0 / (double)stats.cycles / 2;
    assert_true(stats.mxu_use > use * 0.999 && stats.mxu_use < use * 1.001);
}

/* Eight tiles of weights against 1,024 rows each, in packed pushes every 16 bundles, weights for
 * the next tile pushed meanwhile into the other set, results popped 20 pushes later: the unit never
 * pauses between tiles, so all that is lost is the first tile's weights (128 cycles) and the last
 * results (256): 8,192 rows in at most 8,192 + 128 + 256 + 64 cycles. */
static void tiles_without_drain(void **state) {
    (void)state;
    enum { TILES = 8, PUSHES = 64, LAG = 20, TOTAL = TILES * PUSHES };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputs(".chip v2\n{ vmov v1, 0 ; vmov v2, 0 }\n{}\n", out);
    for (int k = 0; k < 8; k++)
        fprintf(out, "{ wpush.bf16 u0, v1, set0%s }\n", k ? "" : ", start");
    for (int i = 0; i < TOTAL + LAG; i++) {
        int tile = i / PUSHES, k = i % PUSHES;
        for (int b = 0; b < (i < TOTAL ? 16 : 2); b++) {
            fprintf(out, "{ smov s%d, 0", b); /* something in every bundle */
            if (b == 0 && i < TOTAL) fprintf(out, " ; mpush.bf16 u0, v2, set%d", tile & 1);
            if (b == 8 && k < 8 && tile + 1 < TILES) {
                fprintf(out, " ; wpush.bf16 u0, v1, set%d%s", ~tile & 1, k ? "" : ", start");
            }
            if (b < 2 && i >= LAG) fprintf(out, " ; mpop u0, v%d", 3 + b);
            fputs(" }\n", out);
        }
    }
    fputs("{ halt }\n", out);
    fclose(out);
    run_timed(text, NULL);
    free(text);
    assert_int_equal(stats.mxu_rows[0], 8192);
    assert_true(stats.cycles <= 8192 + 128 + 256 + 64);
}

/* 64 KiB from HBM: 65536 / 478.723 = 136.9 cycles and 500: done 637 cycles after its issue. */
#define COPY                                                                                       \
    ".chip v3\n.hbm 1048576\n.vmem 1048576\n.smem 0 0x004 0 0 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"     \
    ".smem 16 0x014 65536 65536 1 64 1024 128 1 0 0 1 0 0 0 0 0\n"                                 \
    ".smem 32 0x026 65536 131072 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"

static void transfers(void **state) {
    (void)state;
    run_timed(COPY "{ smov s1, 0 }\n{ dma s1 }\n{ wait f0, 1 }\n{ halt }\n", NULL);
    assert_int_equal(stats.hbm_read, 65536);
    assert_int_equal(stats.dmas, 1);
    assert_int_equal(stats.stalls[TPU_STALL_DMA_WAIT], 1 + 137 + 500 - 2);
    assert_int_equal(stats.cycles, 640);
    double use = 65536 / (640 * (450e9 / 940e6));
    assert_true(stats.hbm_use > use * 0.999 && stats.hbm_use < use * 1.001);
    /* 64 runs of one word: a granule of 32 bytes each, and a cycle each. */
    run_timed(COPY "{ smov s1, 16 }\n{ dma s1 }\n{ wait f1, 1 }\n{ halt }\n", NULL);
    assert_int_equal(stats.hbm_read, 64 * 32);
    assert_int_equal(stats.cycles, 1 + 64 + 500 + 1 + 1);
}

static void shared_bandwidth(void **state) {
    (void)state;
    run_timed(".chip v3\n.hbm 1048576\n.vmem 1048576\n"
              ".smem 0 0x004 0 0 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"
              ".smem 16 0x004 65536 65536 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"
              "{ smov s1, 0 ; smov s2, 16 }\n{ dma s1 }\n{ dma s2 }\n{ wait f0, 2 }\n{ halt }\n",
              NULL);
    assert_int_equal(stats.stalls[TPU_STALL_DMA_QUEUE], 3);
    /* From cycle 1: 2 * 136.898 = 273.8, then 500; the wait ends at 775. */
    assert_int_equal(stats.cycles, 775 + 1 + 1);
    assert_int_equal(stats.hbm_read, 131072);
}

/* A chip whose instruction memory holds two overlays of 128 bundles: a program of 301 fetches the
 * third. */
static void overlays(void **state) {
    (void)state;
    char text[4096] = ".chip {\"name\": \"tiny\", \"like\": \"v3\", \"instruction_bundles\": 256, "
                      "\"overlay_bundles\": 128}\n";
    for (int i = 0; i < 300; i++)
        strcat(text, "{}\n");
    strcat(text, "{ halt }\n");
    run_timed(text, NULL);
    assert_int_equal(stats.overlays, 1);
    assert_int_equal(stats.overlay_bytes, 128 * 41);
    /* 5248 / 478.7 = 10.96 cycles after cycle 256: 267, and 500. */
    assert_int_equal(stats.stalls[TPU_STALL_OVERLAY], 11 + 500);
    assert_int_equal(stats.cycles, 301 + 511);
}

static void by_instruction(void **state) {
    (void)state;
    run_timed(".chip v3\n.source \"a\" \"\" \"\" 0\n.source \"b\" \"\" \"\" 0\n.code\n.line "
              "1\n{}\n{ stall 5 }\n"
              ".line 0\n{ eexp v1 }\n{ epop v2 }\n{ halt }\n",
              NULL);
    assert_int_equal(stats.sources, 2);
    assert_int_equal(stats.source[1].bundles, 2);
    assert_int_equal(stats.source[1].cycles, 7);
    assert_int_equal(stats.source[0].bundles, 3);
    assert_int_equal(stats.source[0].cycles, 18);
    assert_int_equal(stats.source[0].stalls, 15);
}

/* Braces and quotes pair up, and the events are there; microseconds at 940 MHz. */
static void traces(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    run_timed(
        ".chip v3\n.hbm 65536\n.vmem 65536\n.smem 0 0x004 0 0 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"
        ".source \"say \\\"hi\\\"\" \"\" \"\" 0\n.source \"b\" \"\" \"\" 0\n.code\n.line 0\n"
        "{ smov s1, 0 }\n{ dma s1 }\n{ wait f0, 1 }\n.line 1\n{ eexp v1 }\n{ epop v2 }\n{ halt }\n",
        out);
    fclose(out);
    assert_int_equal(strncmp(text, "{\"traceEvents\": [", 17), 0);
    assert_non_null(strstr(text, "\"name\": \"say \\\"hi\\\"\"}"));
    assert_non_null(
        strstr(text, "\"ts\": 0.0000, \"dur\": 0.6798, \"name\": \"say")); /* 639 cycles */
    assert_non_null(
        strstr(text, "\"name\": \"HBM to VMEM\", \"args\": {\"bytes\": 65536, \"flag\": 0}}"));
    assert_non_null(strstr(text, "\"name\": \"dma-wait\""));
    assert_non_null(strstr(text, "\"name\": \"matrix unit 1\""));
    int depth = 0, quoted = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\\') {
            c++;
        } else if (*c == '"') {
            quoted = !quoted;
        } else if (!quoted) {
            depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
        }
    }
    assert_int_equal(depth, 0);
    free(text);
}

/* Two DMAs at once are on two tracks, a third one later is on the first again. */
static void tracks_of_transfers(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    run_timed(".chip v3\n.hbm 1048576\n.vmem 1048576\n"
              ".smem 0 0x004 0 0 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"
              ".smem 16 0x004 65536 65536 16384 1 0 0 1 0 0 1 0 0 0 0 0\n"
              "{ smov s1, 0 ; smov s2, 16 }\n{ dma s1 }\n{ dma s2 }\n{ wait f0, 2 }\n{ dma s1 }\n"
              "{ wait f0, 1 }\n{ halt }\n",
              out);
    fclose(out);
    assert_non_null(strstr(text, "\"name\": \"DMA 0\""));
    assert_non_null(strstr(text, "\"name\": \"DMA 1\""));
    assert_null(strstr(text, "\"name\": \"DMA 2\""));
    free(text);
}

/* ---- more than one core ---- */

/* Core 0 sends a word to core 1's VMEM and waits for its signal; core 1 waits for the word, adds 5
 * and signals. Results: one word a core. */
static const char two_cores[] =
    ".chip v3\n.cores 2\n.hbm 4096\n.vmem 65536\n"
    ".param \"u32\" 4 32 1 0 dims 8,128 order 1,0 tiles (8,128) at 0\n"
    ".result \"u32\" 4 32 1 0 dims 8,128 order 1,0 tiles (8,128) at 0\n"
    ".smem 0 0xff0004 0 0 1024 1 0 0 1 0 0 1 0 0 0 0 0\n"     /* in: HBM to VMEM row 0, flag 0 */
    ".smem 16 0x10015 0 1024 1024 1 0 0 1 0 0 1 0 0 0 0 0\n"  /* row 0 to core 1's row 8, flag 1 */
    ".smem 32 0xff0021 1024 0 1024 1 0 0 1 0 0 1 0 0 0 0 0\n" /* row 8 to HBM, flag 2 */
    "{ score s1 ; smov s2, 0 }\n{ dma s2 ; sne p1, s1, 0 }\n{ wait f0, 1 ; smov s3, 16 }\n"
    "{ smov s4, 32 ; smov s5, 0 }\n{ (p1) br one }\n{}\n{}\n"
    "{ dma s3 }\n{ wait f1, 1 }\n{ wait f5, 1 }\n{ vld v1, 0, 0, 1 }\n{ stall 6 }\n"
    "{ vst v1, 0, 8, 1 }\n{ dma s4 }\n{ wait f2, 1 }\n{ halt }\n"
    "one:\n{ wait f1, 1 }\n{ vld v1, 0, 8, 1 }\n{ stall 6 }\n{ vadd.s32 v1, v1, 5 }\n{}\n"
    "{ vst v1, 0, 8, 1 }\n{ signal f5, s5, 1 }\n{ dma s4 }\n{ wait f2, 1 }\n{ halt }\n";

static void two_cores_talk(void **state) {
    (void)state;
    static uint32_t in[2][REG], out[2][REG];
    const void *inputs[] = {in[0], in[1]};
    void *outputs[] = {out[0], out[1]};
    struct tpu_error error;
    for (uint32_t i = 0; i < REG; i++) {
        in[0][i] = i;
        in[1][i] = 1000000;
    }
    tpu_stats_clear(&stats);
    run_text(two_cores, inputs, outputs, &stats, &error);
    if (error.text[0]) fail_msg("%s", error.text);
    for (uint32_t i = 0; i < REG; i++) {
        assert_int_equal(out[0][i], i);
        assert_int_equal(out[1][i], i + 5);
    }
    /* The link's latency is in it twice: the DMA's and the signal's. */
    assert_true(stats.cycles > 2000 && stats.cycles < 4500);
}

static void waiting_for_each_other(void **state) {
    (void)state;
    struct tpu_error error;
    run_text(".chip v3\n.cores 2\n{ wait f5, 1 }\n{ halt }\n", NULL, NULL, NULL, &error);
    assert_non_null(strstr(error.text, "every core waits for another"));
}

/* 254 cores of 16 GiB: refused before anything is allocated. */
static void more_than_this_machine(void **state) {
    (void)state;
    struct tpu_error error;
    run_text(".chip v3\n.cores 254\n.hbm 17179869184\n{ halt }\n", NULL, NULL, NULL, &error);
    assert_non_null(strstr(error.text, "memory plan is 4064.00 GiB"));
}

static int clear(void **state) {
    (void)state;
    tpu_stats_clear(&stats);
    return 0;
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(bundles_and_stalls),     cmocka_unit_test(matrix_units),
        cmocka_unit_test(tiles_without_drain),    cmocka_unit_test(transfers),
        cmocka_unit_test(shared_bandwidth),       cmocka_unit_test(overlays),
        cmocka_unit_test(by_instruction),         cmocka_unit_test(traces),
        cmocka_unit_test(tracks_of_transfers),    cmocka_unit_test(two_cores_talk),
        cmocka_unit_test(waiting_for_each_other), cmocka_unit_test(more_than_this_machine),
    };
    return cmocka_run_group_tests(all, NULL, clear);
}
