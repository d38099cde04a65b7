/* Pipelined loops, written by hand and run on the emulator, which stops at any hazard. Results are
 * arithmetic; how many cycles an iteration takes is worked out beside each. */
#include "backend/tpu/kernel_testing.h"
#include "backend/tpu/pack.h"

static const int trip_counts[] = {2, 3, 4, 5, 7, 8, 13, 31, 100};
enum { TRIP_COUNTS = sizeof trip_counts / sizeof *trip_counts, FIRST_ROW = 128 };

/* Rows FIRST_ROW + 8 i hold the number i in all places. */
static void fill_rows(struct kernel *k, int n, int tag) {
    for (int i = 0; i < n; i++)
        k_store(k, k_const(k, i), sx_const(FIRST_ROW + 8 * i), 0, tag);
    k_block(k);
}

/* out[i] = in[i] * 3 + 1 for rows of two arrays, then the sum of out: values live longer than the
 * distance of iterations. A load, a store, a product (6 cycles) and two sums: two scalar slots are
 * enough for the counter and the addresses, so the vector slots take 1 cycle, as do the others; the
 * branch, too. With `same`, out is in, one row further on: every iteration reads what the last one
 * wrote, 6 + 6 + 2 + 1 cycles. */
static void map_rows(int trips, bool same) {
    struct fixture f;
    struct loop loop;
    begin(&f);
    struct kernel *k = f.k;
    int in = k_tag(k), out = same ? in : k_tag(k), to = same ? FIRST_ROW + 8 : FIRST_ROW + 8192 / 8;
    if (same)
        k_store(k, k_const(k, 5), sx_const(FIRST_ROW), 0, in);
    else
        fill_rows(k, trips, in);
    struct sx row = sx_muli(k, loop_begin(k, &loop, trips), TPU_SUBLANES);
    treg v = k_load(k, sx_addi(row, FIRST_ROW), MIR_STRIDE_1, sx_const(0), in);
    v = k_binary_i(k, TPU_VADD, k_binary_i(k, TPU_VMUL, v, 3), 1);
    k_store(k, v, sx_addi(row, to), 0, out);
    loop_end(k, &loop, 0);
    treg sum = k_const(k, 0);
    for (int i = 0; i < trips; i++)
        sum = k_binary(k, TPU_VADD, sum,
                       k_load(k, sx_const(to + 8 * i), MIR_STRIDE_1, sx_const(0), out));
    run(&f, sum);
    uint32_t expected = 0, last = 5;
    for (int i = 0; i < trips; i++) {
        last = same ? last * 3 + 1 : (uint32_t)i * 3 + 1;
        expected += last;
    }
    EXPECT(f, (int32_t)expected);
    assert_true(f.settled || same);
    if (f.ii && same) assert_int_equal(f.ii, 15);
    if (f.ii && !same) assert_in_range(f.ii, 1, 3);
    if (trips == 100 && !same) assert_true(f.ii > 0);
}

static void rows_of_two_arrays(void **state) {
    (void)state;
    for (int t = 0; t < TRIP_COUNTS; t++)
        map_rows(trip_counts[t], false);
}

static void rows_that_follow_from_each_other(void **state) {
    (void)state;
    for (int t = 0; t < TRIP_COUNTS; t++)
        map_rows(trip_counts[t], true);
}

/* Runs once: no loop, and nothing to overlap. */
static void one_trip(void **state) {
    (void)state;
    struct fixture f;
    struct loop loop;
    begin(&f);
    treg sum = k_copy(f.k, k_const(f.k, 40));
    struct sx i = loop_begin(f.k, &loop, 1);
    assert_true(sx_is_const(i) && i.c == 0);
    k_move(f.k, sum, 0, k_binary_i(f.k, TPU_VADD, sum, 2));
    loop_end(f.k, &loop, 0);
    run(&f, sum);
    EXPECT(f, 42);
    assert_int_equal(f.settled, 0);
}

/* sum = sum * 3 + load(i): the sum goes round in 6 + 2 cycles and a move of 2. Loads come early,
 * as they wait for nothing. */
static void a_sum_goes_round(void **state) {
    (void)state;
    for (int t = 0; t < TRIP_COUNTS; t++) {
        struct fixture f;
        struct loop loop;
        int trips = trip_counts[t];
        begin(&f);
        struct kernel *k = f.k;
        fill_rows(k, trips, 1);
        treg sum = k_copy(k, k_const(k, 1));
        k_block(k);
        struct sx row = sx_muli(k, loop_begin(k, &loop, trips), TPU_SUBLANES);
        treg v = k_load(k, sx_addi(row, FIRST_ROW), MIR_STRIDE_1, sx_const(0), 1);
        k_move(k, sum, 0, k_binary(k, TPU_VADD, k_binary_i(k, TPU_VMUL, sum, 3), v));
        loop_end(k, &loop, 0);
        run(&f, sum);
        uint32_t expected = 1;
        for (int i = 0; i < trips; i++)
            expected = expected * 3 + (uint32_t)i;
        EXPECT(f, (int32_t)expected);
        if (f.ii) assert_int_equal(f.ii, 10);
        if (trips == 100) assert_true(f.ii > 0);
    }
}

/* Lane rotations of different amounts, one through another: two pushes and two pops an iteration,
 * in an order that overlapping iterations must not mix up. Pushes and the branch: 3 cycles. */
static void units_keep_their_order(void **state) {
    (void)state;
    for (int t = 0; t < TRIP_COUNTS; t++) {
        struct fixture f;
        struct loop loop;
        int trips = trip_counts[t];
        begin(&f);
        struct kernel *k = f.k;
        treg sum = k_copy(k, k_const(k, 0)), lane = k_lane(k);
        k_block(k);
        struct sx i = loop_begin(k, &loop, trips);
        treg once = k_xlu_amount(k, TPU_XROT, lane, i);
        treg twice = k_xlu_amount(k, TPU_XROT, k_binary_i(k, TPU_VMUL, once, 5), sx_const(1));
        k_emit(k, (struct mop){.op = TPU_VADD, .d = sum, .a = sum, .b = twice, .bkind = MIR_B_REG});
        loop_end(k, &loop, 0);
        run(&f, sum);
        int32_t want[TPU_LANES] = {0};
        for (int j = 0; j < trips; j++)
            for (int l = 0; l < TPU_LANES; l++)
                want[l] += (l - 1 - j + 2 * TPU_LANES) % TPU_LANES * 5;
        EXPECT(f, want[l]);
        assert_true(f.settled);
        if (f.ii) assert_in_range(f.ii, 3, 5);
    }
}

/* Results that were pushed before the loop, one iteration ahead. */
static void results_under_way(void **state) {
    (void)state;
    for (int t = 0; t < TRIP_COUNTS; t++) {
        struct fixture f;
        struct loop loop;
        int trips = trip_counts[t];
        begin(&f);
        struct kernel *k = f.k;
        treg sum = k_copy(k, k_const(k, 0)), lane = k_lane(k);
        k_emit(k, (struct mop){.op = TPU_XROT, .a = lane, .imm = 0});
        k_block(k);
        struct sx i = loop_begin(k, &loop, trips);
        k_emit(k, (struct mop){.op = TPU_XROT, .a = lane, .amount = sx_reg(k, sx_addi(i, 1))});
        treg v = k_emit(k, (struct mop){.op = TPU_XPOP});
        k_emit(k, (struct mop){.op = TPU_VADD, .d = sum, .a = sum, .b = v, .bkind = MIR_B_REG});
        loop_end(k, &loop, 0);
        treg last = k_emit(k, (struct mop){.op = TPU_XPOP});
        run(&f, k_binary(k, TPU_VSUB, sum, last));
        int32_t want[TPU_LANES] = {0};
        for (int j = 0; j <= trips; j++)
            for (int l = 0; l < TPU_LANES; l++)
                want[l] += (l - j + TPU_LANES) % TPU_LANES * (j < trips ? 1 : -1);
        EXPECT(f, want[l]);
    }
}

/* 28 constants stay in registers: there is no room for values in turn, and the loop must still be
 * right. */
static void few_registers_left(void **state) {
    (void)state;
    struct fixture f;
    struct loop loop;
    enum { N = 28, TRIPS = 20 };
    treg c[N];
    begin(&f);
    struct kernel *k = f.k;
    fill_rows(k, TRIPS, 1);
    for (int i = 0; i < N; i++)
        c[i] = k_binary_i(k, TPU_VADD, k_lane(k), i);
    k_block(k);
    struct sx row = sx_muli(k, loop_begin(k, &loop, TRIPS), TPU_SUBLANES);
    treg v = k_load(k, sx_addi(row, FIRST_ROW), MIR_STRIDE_1, sx_const(0), 1);
    for (int i = 0; i < N; i++)
        v = k_binary(k, i % 2 ? TPU_VADD : TPU_VXOR, v, c[i]);
    k_store(k, v, sx_addi(row, FIRST_ROW), 0, 1);
    loop_end(k, &loop, 0);
    treg sum = k_const(k, 0);
    for (int i = 0; i < TRIPS; i++)
        sum = k_binary(k, TPU_VADD, sum,
                       k_load(k, sx_const(FIRST_ROW + 8 * i), MIR_STRIDE_1, sx_const(0), 1));
    run(&f, sum);
    int32_t want[TPU_LANES] = {0};
    for (int l = 0; l < TPU_LANES; l++)
        for (int r = 0; r < TRIPS; r++) {
            int32_t x = r;
            for (int i = 0; i < N; i++)
                x = i % 2 ? x + l + i : x ^ (l + i);
            want[l] += x;
        }
    EXPECT(f, want[l]);
}

/* Squares of 128 rows through the transpose unit: 16 pushes that hold it for 8 cycles each, so 128
 * cycles from square to square, and nearly 400 from the first push to the last store, to an address
 * that the counter gives: it moves from register to register, and the kernel is one iteration. Row
 * r of square i holds 1000 i + r; element (r, l) of the result is 1000 i + l. */
static void squares_through_the_transpose_unit(void **state) {
    (void)state;
    enum { SQUARE = 128, MOST = 7, TO = FIRST_ROW + MOST * SQUARE };
    for (int trips = 2; trips <= MOST; trips += MOST - 2) {
        struct fixture f;
        struct loop loop;
        begin(&f);
        struct kernel *k = f.k;
        k->mir->units[MIR_XLU].fifo = 32; /* as v2 has them: two squares */
        for (int i = 0; i < trips; i++)
            for (int r = 0; r < SQUARE; r += TPU_SUBLANES)
                k_store(k, k_binary_i(k, TPU_VADD, k_sublane(k), 1000 * i + r),
                        sx_const(FIRST_ROW + i * SQUARE + r), 0, 1);
        k_block(k);
        struct sx row = sx_muli(k, loop_begin(k, &loop, trips), SQUARE);
        for (int g = 0; g < TPU_TRANSPOSE_MAX; g++) {
            bool last = g + 1 == TPU_TRANSPOSE_MAX;
            treg v = k_load(k, sx_addi(row, FIRST_ROW + 8 * g), MIR_STRIDE_1, sx_const(0), 1);
            k_emit(k, (struct mop){.op = last ? TPU_XTRL : TPU_XTR,
                                   .a = v,
                                   .literal = last ? TPU_TRANSPOSE_MAX : 0});
        }
        for (int g = 0; g < TPU_TRANSPOSE_MAX; g++)
            k_store(k, k_emit(k, (struct mop){.op = TPU_XPOP}), sx_addi(row, TO + 8 * g), 0, 2);
        loop_end(k, &loop, 0);
        treg sum = k_const(k, 0);
        for (int i = 0; i < trips; i++)
            sum = k_binary(k, TPU_VADD, k_binary_i(k, TPU_VMUL, sum, 3),
                           k_load(k, sx_const(TO + i * SQUARE + 64), MIR_STRIDE_1, sx_const(0), 2));
        run(&f, sum);
        int32_t want[TPU_LANES] = {0};
        for (int i = 0; i < trips; i++)
            for (int l = 0; l < TPU_LANES; l++)
                want[l] = want[l] * 3 + 1000 * i + l;
        EXPECT(f, want[l]);
        assert_true(f.settled);
        if (f.ii) assert_in_range(f.ii, 128, 140);
        if (trips == MOST) assert_true(f.ii > 0);
    }
}

/* Empty bundles become stalls of the bundle before them, if it has room; not in a branch's delay.
 */
static void empty_bundles(void **state) {
    (void)state;
    enum { N = 12 };
    static const uint8_t ops[N] = {[0] = TPU_SADD, [4] = TPU_V2S, [7] = TPU_SADD, [9] = TPU_JR};
    static const int places[N] = {0, 0, 0, 0, 1, 2, 2, 3, 3, 4, 5, 6};
    struct tpu_bundle bundles[N] = {0};
    int now[N];
    for (int i = 0; i < N; i++) {
        if (ops[i])
            bundles[i].slot[ops[i] == TPU_SADD ? TPU_S0 : TPU_MISC] =
                (struct tpu_instr){.op = ops[i], .pred = TPU_ALWAYS};
    }
    assert_int_equal(pack_squeeze(bundles, N, now), 7);
    for (int i = 0; i < N; i++)
        assert_int_equal(now[i], places[i]);
    const struct {
        int bundle, cycles;
    } stalls[] = {{0, 3}, {2, 1}, {3, 1}};
    for (int i = 0; i < 3; i++) {
        const struct tpu_instr *stall = &bundles[stalls[i].bundle].slot[TPU_MISC];
        assert_int_equal(stall->op, TPU_STALL);
        assert_int_equal(bundles[stalls[i].bundle].imm[stall->imm], stalls[i].cycles);
    }
    assert_int_equal(bundles[5].slot[TPU_MISC].op, TPU_EMPTY);
    assert_int_equal(bundles[6].slot[TPU_MISC].op, TPU_EMPTY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_through_the_transpose_unit),
        cmocka_unit_test(empty_bundles),
        cmocka_unit_test(one_trip),
        cmocka_unit_test(rows_of_two_arrays),
        cmocka_unit_test(rows_that_follow_from_each_other),
        cmocka_unit_test(a_sum_goes_round),
        cmocka_unit_test(units_keep_their_order),
        cmocka_unit_test(results_under_way),
        cmocka_unit_test(few_registers_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
