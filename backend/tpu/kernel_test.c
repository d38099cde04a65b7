/* Kernels written by hand, allocated, scheduled, and run on the emulator, which stops at any
 * hazard: more values than there are registers, loops and branches, indices, units that fill up. */
#include "backend/tpu/kernel_testing.h"

/* 60 vectors, all alive until the last one is there: lane + i each; their sum, last first. */
static void more_vectors_than_registers(void **state) {
    (void)state;
    struct fixture f;
    enum { N = 60 };
    treg v[N];
    begin(&f);
    for (int i = 0; i < N; i++)
        v[i] = k_binary_i(f.k, TPU_VADD, k_lane(f.k), i * i);
    treg sum = v[N - 1];
    for (int i = N - 2; i >= 0; i--)
        sum = k_binary(f.k, TPU_VADD, k_binary_i(f.k, TPU_VMUL, sum, 3), v[i]);
    run(&f, sum);
    int32_t want[TPU_LANES];
    for (int l = 0; l < TPU_LANES; l++) {
        uint32_t expected = (uint32_t)(l + (N - 1) * (N - 1));
        for (int i = N - 2; i >= 0; i--)
            expected = expected * 3 + (uint32_t)(l + i * i);
        want[l] = (int32_t)expected;
    }
    EXPECT(f, want[l]);
}

static void more_scalars_than_registers(void **state) {
    (void)state;
    struct fixture f;
    enum { N = 50 };
    treg s[N];
    begin(&f);
    s[0] = sx_reg(f.k, sx_const(7));
    for (int i = 1; i < N; i++)
        s[i] = k_binary_i(f.k, TPU_SMUL, s[i - 1], 3);
    treg sum = s[N - 1];
    for (int i = N - 2; i >= 0; i--)
        sum = k_binary(f.k, TPU_SXOR, k_binary_i(f.k, TPU_SADD, sum, 1), s[i]);
    run(&f, k_from_scalar(f.k, sum));
    uint32_t power[N] = {7}, expected;
    for (int i = 1; i < N; i++)
        power[i] = power[i - 1] * 3;
    expected = power[N - 1];
    for (int i = N - 2; i >= 0; i--)
        expected = (expected + 1) ^ power[i];
    EXPECT(f, (int32_t)expected);
}

/* 12 masks, lane >= 10 i, counted where they are on. */
static void more_masks_than_registers(void **state) {
    (void)state;
    struct fixture f;
    enum { N = 12 };
    treg m[N];
    begin(&f);
    for (int i = 0; i < N; i++)
        m[i] = k_binary_i(f.k, TPU_VGES, k_lane(f.k), 10 * i);
    treg count = k_copy(f.k, k_const(f.k, 0)), one = k_const(f.k, 1);
    for (int i = N - 1; i >= 0; i--)
        count = k_binary(f.k, TPU_VADD, count, k_select(f.k, m[i], one, k_const(f.k, 0)));
    run(&f, count);
    EXPECT(f, l / 10 < N ? l / 10 + 1 : N);
}

/* sum over i < 5, j < 7, i != j, of i * j: loops within loops, and a branch. */
static void loops_and_branches(void **state) {
    (void)state;
    struct fixture f;
    struct loop outer, inner;
    begin(&f);
    treg sum = mir_reg(f.k->mir, MIR_S);
    k_move_s(f.k, sum, sx_reg(f.k, sx_const(0)));
    struct sx i = loop_begin(f.k, &outer, 5), j = loop_begin(f.k, &inner, 7);
    int skip = if_begin(f.k, s_compare(f.k, TPU_SNE, i, j), false);
    treg product = k_binary(f.k, TPU_SMUL, sx_reg(f.k, i), sx_reg(f.k, j));
    k_move_s(f.k, sum, k_binary(f.k, TPU_SADD, sum, product));
    if_end(f.k, skip);
    loop_end(f.k, &inner, 0);
    loop_end(f.k, &outer, 0);
    run(&f, k_from_scalar(f.k, sum));
    int expected = 0;
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 7; b++)
            expected += a == b ? 0 : a * b;
    EXPECT(f, expected);
}

/* (first + rows * s + lanes * l) / by and % by, however much of it is known. */
static void indices(void **state) {
    (void)state;
    static const struct {
        int first, rows, lanes, by;
    } tests[] = {
        {0, 128, 1, 128}, {256, 128, 1, 10}, {16, 1, 0, 8},    {16, 1, 0, 32}, {24, 1, 0, 32},
        {3, 1, 0, 5},     {128, 0, 1, 4},    {640, 64, 1, 64}, {0, 0, 0, 7},   {1000, 7, 3, 1},
    };
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        for (int part = 0; part < 2; part++) {
            struct fixture f;
            begin(&f);
            int by = tests[t].by;
            struct ix at = ix_muli(f.k, ix_rows(sx_const(0)), tests[t].rows);
            at = ix_add(f.k, at, ix_muli(f.k, ix_lanes(sx_const(0)), tests[t].lanes));
            at = ix_addi(at, tests[t].first);
            run(&f, ix_reg(f.k, part ? ix_mod(f.k, at, by) : ix_div(f.k, at, by)));
            for (int s = 0; s < ROWS; s++)
                for (int l = 0; l < TPU_LANES; l++) {
                    int place = tests[t].first + tests[t].rows * s + tests[t].lanes * l;
                    assert_int_equal(f.out[s * TPU_LANES + l], part ? place % by : place / by);
                }
        }
    }
}

/* More pushes at once than a unit holds results: the schedule must pop in between. */
static void full_units(void **state) {
    (void)state;
    struct fixture f;
    enum { N = 80 };
    treg v[N];
    begin(&f);
    for (int i = 0; i < N; i++)
        v[i] = k_xlu_amount(f.k, TPU_XROT, k_lane(f.k), sx_const(i));
    treg sum = v[0];
    for (int i = 1; i < N; i++)
        sum = k_binary(f.k, TPU_VADD, sum, v[i]);
    run(&f, sum);
    int want[TPU_LANES];
    for (int l = 0; l < TPU_LANES; l++) {
        want[l] = 0;
        for (int i = 0; i < N; i++)
            want[l] += (l - i + TPU_LANES) % TPU_LANES;
    }
    EXPECT(f, want[l]);
}

/* Stores and loads of the same rows keep their order; those of others may pass. */
static void memory_order(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    struct sx row = sx_const(16);
    treg sum = k_const(f.k, 0);
    for (int i = 1; i <= 6; i++) {
        k_store(f.k, k_const(f.k, i), row, 0, 1);
        k_store(f.k, k_const(f.k, 100 * i), sx_addi(row, 8), 0, 1);
        treg a = k_load(f.k, row, MIR_STRIDE_1, sx_const(0), 1);
        treg b = k_load(f.k, sx_addi(row, 4), MIR_STRIDE_1, sx_const(0), 1);
        sum = k_binary(f.k, TPU_VADD, sum, k_binary(f.k, TPU_VADD, a, b));
    }
    run(&f, sum);
    EXPECT(f, 21 + (s < 4 ? 21 : 2100));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_vectors_than_registers),
        cmocka_unit_test(more_scalars_than_registers),
        cmocka_unit_test(more_masks_than_registers),
        cmocka_unit_test(loops_and_branches),
        cmocka_unit_test(indices),
        cmocka_unit_test(full_units),
        cmocka_unit_test(memory_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
