/* Products as emitted against plain loops, over sizes, orientations and element types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/matmul_testing.h"
#include "ir/number.h"

/* ---- the plain product ---- */

static int64_t place(const struct product_dims *dims, int64_t at, int operand) {
    int64_t sum = 0;
    for (int i = dims->count - 1; i >= 0; i--) {
        const struct product_dim *d = &dims->v[i];
        sum += at % d->size * (operand == 0 ? d->a : operand == 1 ? d->b : d->c);
        at /= d->size;
    }
    return sum;
}

static int64_t size_of(const struct product_dims *dims) {
    int64_t size = 1;
    for (int i = 0; i < dims->count; i++)
        size *= dims->v[i].size;
    return size;
}

static int64_t extent(const struct product_spec *s, int operand) {
    const struct product_dims *all[] = {&s->batch, &s->m, &s->n, &s->k};
    int64_t most = 0;
    for (int i = 0; i < 4; i++)
        most += place(all[i], size_of(all[i]) - 1, operand);
    return most + 1;
}

static double element(const void *data, enum element_type type, int64_t i) {
    switch (type) {
    case TYPE_F32: return ((const float *)data)[i];
    case TYPE_F64: return ((const double *)data)[i];
    case TYPE_S8: return ((const int8_t *)data)[i];
    case TYPE_U8: return ((const uint8_t *)data)[i];
    case TYPE_S16: return ((const int16_t *)data)[i];
    case TYPE_S32: return ((const int32_t *)data)[i];
    case TYPE_S64: return (double)((const int64_t *)data)[i];
    default: return number_decode(type, ((const uint16_t *)data)[i]);
    }
}

static void set_element(void *data, enum element_type type, int64_t i, double value) {
    switch (type) {
    case TYPE_F32: ((float *)data)[i] = (float)value; break;
    case TYPE_F64: ((double *)data)[i] = value; break;
    case TYPE_S8:
    case TYPE_U8: ((int8_t *)data)[i] = (int8_t)value; break;
    case TYPE_S16: ((int16_t *)data)[i] = (int16_t)value; break;
    case TYPE_S32: ((int32_t *)data)[i] = (int32_t)value; break;
    case TYPE_S64: ((int64_t *)data)[i] = (int64_t)value; break;
    default: ((uint16_t *)data)[i] = (uint16_t)number_encode(type, value);
    }
}

static uint32_t seed;
static uint32_t draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static void *filled(enum element_type type, int64_t count) {
    char *data = malloc((size_t)(count * element_type_size(type)));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        set_element(data, type, i, (double)(int)(draw() % 17) - (type == TYPE_U8 ? 0 : 8));
    return data;
}

/* Small whole numbers: every order of summing gives the same, exactly, also in 16 bits here. */
static void compare(const struct product_spec *s, const void *a, const void *b, const void *c,
                    bool halved) {
    for (int64_t batch = 0; batch < size_of(&s->batch); batch++)
        for (int64_t m = 0; m < size_of(&s->m); m++)
            for (int64_t n = 0; n < size_of(&s->n); n++) {
                int64_t pa = place(&s->batch, batch, 0) + place(&s->m, m, 0);
                int64_t pb = place(&s->batch, batch, 1) + place(&s->n, n, 1);
                int64_t pc = place(&s->batch, batch, 2) + place(&s->m, m, 2) + place(&s->n, n, 2);
                double sum = 0;
                for (int64_t k = 0; k < size_of(&s->k); k++)
                    sum += element(a, s->a_type, pa + place(&s->k, k, 0)) *
                           element(b, s->b_type, pb + place(&s->k, k, 1));
                if (halved) sum = sum * 0.5;
                if (s->c_type == TYPE_BF16)
                    sum = number_decode(TYPE_BF16, number_encode(TYPE_BF16, sum));
                if (s->c_type == TYPE_F16)
                    sum = number_decode(TYPE_F16, number_encode(TYPE_F16, sum));
                if (s->c_type == TYPE_S8) sum = (int8_t)(int64_t)sum;
                double got = element(c, s->c_type, pc);
                if (got != sum)
                    fprintf(stderr, "[%ld %ld %ld] %g, want %g\n", (long)batch, (long)m, (long)n,
                            got, sum);
                assert_true(got == sum);
            }
}

/* C = sum / 2, for specifications with one dimension a role. */
static void halve(void *data, LLVMValueRef sum, LLVMValueRef batch, LLVMValueRef m,
                  LLVMValueRef n) {
    const struct testing_finish *f = data;
    const struct product_spec *s = f->spec;
    struct cpu_builder *b = f->b;
    LLVMValueRef at = ir_mulk(b, batch, s->batch.v[0].c);
    at = ir_add(b, at, ir_mulk(b, m, s->m.v[0].c));
    at = ir_add(b, at, ir_mulk(b, n, s->n.v[0].c));
    ir_store(b, f_mulk(b, sum, 0.5), ir_at(b, f->c, ir_mulk(b, at, 4)), 4);
}

static void check_for(const struct product_spec *s, bool finish, const struct cpu_target *target) {
    struct compiled_product p = testing_compile(s, finish ? halve : NULL, false, target);
    assert_int_not_equal(p.plan.method, PRODUCT_ABSENT);
    seed = 1;
    void *a = filled(s->a_type, extent(s, 0)), *b = filled(s->b_type, extent(s, 1));
    void *c = filled(s->c_type, extent(s, 2));
    void *scratch = aligned_alloc(64, (size_t)(p.plan.scratch + 127) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, (size_t)p.plan.scratch); /* NaNs */
    for (int64_t at = 0; at < p.plan.units;) {
        int64_t end = at + 1 + draw() % 3;
        if (end > p.plan.units) end = p.plan.units;
        p.run(a, b, c, scratch, at, end);
        at = end;
    }
    compare(s, a, b, c, finish);
    free(a), free(b), free(c), free(scratch);
    testing_free(&p);
}

static void check(const struct product_spec *s, bool finish) {
    check_for(s, finish, NULL);
}

static struct product_spec plain(enum element_type type, int64_t batch, int64_t m, int64_t n,
                                 int64_t k, bool ta, bool tb) {
    struct product_spec s = {.a_type = type, .b_type = type, .c_type = type};
    s.batch = (struct product_dims){1, {{batch, m * k, n * k, m * n}}};
    s.m = (struct product_dims){1, {{m, ta ? 1 : k, 0, n}}};
    s.n = (struct product_dims){1, {{n, 0, tb ? k : 1, 1}}};
    s.k = (struct product_dims){1, {{k, ta ? m : 1, tb ? 1 : n, 0}}};
    return s;
}

static void sizes(void **state) {
    (void)state;
    static const int64_t list[][4] = {
        {1, 1, 1, 1},    {1, 7, 16, 5},     {1, 6, 16, 64},   {1, 13, 33, 70},   {3, 5, 9, 12},
        {1, 1, 40, 30},  {1, 40, 1, 30},    {1, 3, 100, 17},  {1, 90, 3, 700},   {2, 12, 8, 300},
        {1, 64, 64, 1},  {1, 129, 70, 9},   {1, 30, 600, 40}, {4, 1, 100, 70},   {1, 1, 5000, 33},
        {3, 200, 1, 90}, {1, 64, 200, 300}, {3, 32, 48, 150}, {1, 600, 80, 200}, {1, 20, 90, 1400}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int how = 0; how < 4; how++) {
            struct product_spec s =
                plain(TYPE_F32, list[i][0], list[i][1], list[i][2], list[i][3], how & 1, how & 2);
            check(&s, how == 1);
        }
}

static void blocks(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct product_spec s = plain(TYPE_F32, 1, 150, 530, 900, how & 1, how & 2);
        check(&s, how == 2);
    }
    struct product_spec deep = plain(TYPE_F32, 2, 70, 50, 900, false, false);
    check(&deep, true);
    struct product_spec tall = plain(TYPE_F32, 1, 1500, 20, 40, false, false);
    check(&tall, false);
    /* Rows of A that lie side by side in parts: A[5][100][45], summed over the middle. */
    for (int pairs = 0; pairs < 2; pairs++) {
        struct product_spec parts =
            plain(pairs ? TYPE_BF16 : TYPE_F32, 1, 225, 70, 100, true, true);
        parts.c_type = TYPE_F32;
        parts.m = (struct product_dims){2, {{5, 4500, 0, 45 * 70}, {45, 1, 0, 70}}};
        parts.k.v[0].a = 45;
        check(&parts, false);
    }
}

/* Few rows of A, or few columns of B, and a matrix that is too large to be packed for them. */
static void few_rows(void **state) {
    (void)state;
    static const enum element_type types[][3] = {{TYPE_F32, TYPE_F32, TYPE_F32},
                                                 {TYPE_F64, TYPE_F64, TYPE_F64},
                                                 {TYPE_BF16, TYPE_BF16, TYPE_F32},
                                                 {TYPE_S8, TYPE_S8, TYPE_S32}};
    int vectors = 0;
    for (int64_t rows = 2; rows <= 4; rows++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int how = 0; how < 8; how++) {
                int64_t m = how & 4 ? 601 : rows, n = how & 4 ? rows : 601;
                struct product_spec s = plain(TYPE_F32, 2, m, n, 467, how & 1, how & 2);
                s.a_type = types[t][0];
                s.b_type = types[t][1];
                s.c_type = types[t][2];
                struct compiled_product p = testing_compile(&s, NULL, false, NULL);
                vectors += p.plan.method != PRODUCT_TILES;
                testing_free(&p);
                check(&s, t == 0 && how % 3 == 1);
            }
    assert_true(vectors > 0);
}

/* Many products of a few elements, and many rows times a small matrix. */
static void small_products(void **state) {
    (void)state;
    static const int64_t list[][4] = {{40, 3, 3, 3}, {17, 1, 5, 7},   {100, 4, 1, 6}, {20, 8, 8, 8},
                                      {33, 2, 4, 9}, {1, 1100, 4, 8}, {1, 1030, 7, 3}};
    static const enum element_type types[][3] = {{TYPE_F32, TYPE_F32, TYPE_F32},
                                                 {TYPE_F64, TYPE_F64, TYPE_F64},
                                                 {TYPE_BF16, TYPE_BF16, TYPE_BF16},
                                                 {TYPE_F16, TYPE_F16, TYPE_F32},
                                                 {TYPE_S8, TYPE_S8, TYPE_S32}};
    int small = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int how = 0; how < 4; how++) {
                struct product_spec s = plain(TYPE_F32, list[i][0], list[i][1], list[i][2],
                                              list[i][3], how & 1, how & 2);
                s.a_type = types[t][0];
                s.b_type = types[t][1];
                s.c_type = types[t][2];
                struct compiled_product p = testing_compile(&s, NULL, false, NULL);
                small += p.plan.method == PRODUCT_SMALL;
                testing_free(&p);
                check(&s, t == 0 && how == 1);
            }
    assert_true(small > 0);
}

/* Few rows that have to be packed; panels of B are packed, and widened, by the first tile that
 * reads them, one after the other into the same place or not. */
static void few_packed_rows(void **state) {
    (void)state;
    static const int64_t list[][3] = {
        {64, 128, 300}, {100, 272, 1300}, {13, 300, 90}, {140, 160, 700}};
    static const enum element_type types[][2] = {
        {TYPE_F32, TYPE_F32}, {TYPE_BF16, TYPE_BF16}, {TYPE_F16, TYPE_F16}, {TYPE_F32, TYPE_BF16}};
    int one_panel = 0, narrow = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int batch = 1; batch <= 2; batch++) {
                struct product_spec s =
                    plain(TYPE_F32, batch, list[i][0], list[i][1], list[i][2], t == 0, false);
                s.a_type = types[t][0];
                s.b_type = types[t][1];
                struct compiled_product p = testing_compile(&s, NULL, false, NULL);
                one_panel += p.plan.one_panel;
                narrow += p.plan.packs_first && s.b_type != TYPE_F32;
                testing_free(&p);
                check(&s, batch == 2);
            }
    assert_true(one_panel > 0 && narrow > 0);
}

static void element_types_for(const struct cpu_target *target) {
    static const enum element_type types[][3] = {
        {TYPE_F64, TYPE_F64, TYPE_F64},   {TYPE_BF16, TYPE_BF16, TYPE_BF16},
        {TYPE_BF16, TYPE_BF16, TYPE_F32}, {TYPE_F16, TYPE_F16, TYPE_F16},
        {TYPE_S8, TYPE_S8, TYPE_S32},     {TYPE_U8, TYPE_S8, TYPE_S32},
        {TYPE_S8, TYPE_S8, TYPE_S8},      {TYPE_S64, TYPE_S64, TYPE_S64},
        {TYPE_S32, TYPE_S32, TYPE_S32},   {TYPE_F32, TYPE_BF16, TYPE_F32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int how = 0; how < 4; how++) {
            struct product_spec s = plain(TYPE_F32, 2, 13, 37, 400, how & 1, how & 2);
            s.a_type = types[i][0];
            s.b_type = types[i][1];
            s.c_type = types[i][2];
            check_for(&s, false, target);
        }
}

static void element_types(void **state) {
    (void)state;
    element_types_for(NULL);
}

/* Plans for machines that are not at hand: vectors of 64 bytes and 32 registers, of 16 bytes and
 * 32; pairs that no instruction multiplies here. */
static void other_machines(void **state) {
    (void)state;
    static const struct cpu_target wide = {.vector_bytes = 64,
                                           .vector_registers = 32,
                                           .fma = true,
                                           .s16_pairs = PAIRS_BY_PARTS,
                                           .bf16_pairs = PAIRS_BY_PARTS,
                                           .l1 = 32 << 10,
                                           .l2 = 1 << 20,
                                           .l3 = 8 << 20};
    struct cpu_target narrow = wide;
    narrow.vector_bytes = 16;
    const struct cpu_target *all[] = {&wide, &narrow};
    for (int i = 0; i < 2; i++) {
        element_types_for(all[i]);
        for (int how = 0; how < 4; how++) {
            struct product_spec s = plain(TYPE_F32, 1, 70, 130, 900, how & 1, how & 2);
            check_for(&s, how == 1, all[i]);
        }
    }
}

/* Odd and even numbers of steps, several blocks of them, panels that are not whole. */
static void pairs(void **state) {
    (void)state;
    static const enum element_type types[][3] = {{TYPE_S8, TYPE_S8, TYPE_S32},
                                                 {TYPE_U8, TYPE_S8, TYPE_S32},
                                                 {TYPE_S16, TYPE_S16, TYPE_S32},
                                                 {TYPE_BF16, TYPE_BF16, TYPE_F32}};
    static const struct cpu_target machines[] = {
        {32, 16, true, true, PAIRS_INSTRUCTION, PAIRS_BY_PARTS, 32 << 10, 512 << 10, 4 << 20, NULL},
        {16, 16, true, true, PAIRS_INSTRUCTION, PAIRS_BY_PARTS, 8 << 10, 64 << 10, 4 << 20, NULL},
        {64, 32, true, true, PAIRS_BY_PARTS, PAIRS_BY_PARTS, 32 << 10, 1 << 20, 4 << 20, NULL}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t k = 8; k <= 2409; k = k * 7 + 1)
            for (int how = 0; how < 4; how++) {
                struct product_spec s = plain(TYPE_F32, 1, 29, 70, k, how & 1, how & 2);
                s.a_type = types[t][0];
                s.b_type = types[t][1];
                s.c_type = types[t][2];
                const struct cpu_target *target = &machines[(t + (size_t)how) % 3];
                struct compiled_product p = testing_compile(&s, NULL, false, target);
                assert_int_not_equal(p.plan.pair, TYPE_INVALID);
                testing_free(&p);
                check_for(&s, false, target);
            }
}

/* A window of 3 x 3 that moves by 2 over an image of 11 x 9 x 4: what a convolution is. */
static void several_dimensions(void **state) {
    (void)state;
    struct product_spec s = {.a_type = TYPE_F32, .b_type = TYPE_F32, .c_type = TYPE_F32};
    s.batch = (struct product_dims){1, {{2, 11 * 9 * 4, 0, 5 * 4 * 10}}};
    s.m = (struct product_dims){2, {{5, 2 * 9 * 4, 0, 4 * 10}, {4, 2 * 4, 0, 10}}};
    s.n = (struct product_dims){1, {{10, 0, 1, 1}}};
    s.k = (struct product_dims){3, {{4, 1, 10, 0}, {3, 9 * 4, 120, 0}, {3, 4, 40, 0}}};
    check(&s, false);
    s.k.v[1].b = 40, s.k.v[2].b = 120; /* the kernel transposed */
    check(&s, false);
    s.n.v[0].c = 20, s.m.v[0].c = 4, s.m.v[1].c = 1; /* features outermost in C */
    check(&s, false);
    s.b_type = s.a_type = s.c_type = TYPE_BF16;
    check(&s, false);
}

/* The same with so many channels that each place of the window is a block of k: the kernels that
 * read a panel of B first pack it. */
static void places_in_blocks(void **state) {
    (void)state;
    for (int64_t n = 64; n <= 150; n += 43) {
        struct product_spec s = {.a_type = TYPE_F32, .b_type = TYPE_F32, .c_type = TYPE_F32};
        int64_t c = 400, row = 9 * c;
        s.batch = (struct product_dims){1, {{2, 11 * row, 0, 5 * 4 * n}}};
        s.m = (struct product_dims){2, {{5, 2 * row, 0, 4 * n}, {4, 2 * c, 0, n}}};
        s.n = (struct product_dims){1, {{n, 0, 1, 1}}};
        s.k = (struct product_dims){3, {{3, row, 3 * c * n, 0}, {3, c, c * n, 0}, {c, 1, n, 0}}};
        struct compiled_product p = testing_compile(&s, NULL, false, NULL);
        assert_true(p.plan.packs_first);
        assert_true(p.plan.taps > 1 && p.plan.k_blocks > 1);
        testing_free(&p);
        check(&s, false);
        s.k.v[0].b = c * n, s.k.v[1].b = 3 * c * n; /* rows of B that do not follow each other */
        p = testing_compile(&s, NULL, false, NULL);
        assert_false(p.plan.packs_first);
        testing_free(&p);
        check(&s, false);
    }
}

/* A window of 3 x 3 over an image of 11 x 9, few features of the result: vectors along the runs of
 * k, which they do not divide. */
static void few_columns(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 4; n++)
        for (int64_t c = 17; c <= 33; c += 8) {
            struct product_spec s = {.a_type = TYPE_F32, .b_type = TYPE_F32, .c_type = TYPE_F32};
            int64_t row = 9 * c;
            s.batch = (struct product_dims){1, {{2, 11 * row, 0, 9 * 7 * n}}};
            s.m = (struct product_dims){2, {{9, row, 0, 7 * n}, {7, c, 0, n}}};
            s.n = (struct product_dims){1, {{n, 0, 1, 1}}};
            s.k =
                (struct product_dims){3, {{3, row, 3 * c * n, 0}, {3, c, c * n, 0}, {c, 1, n, 0}}};
            struct compiled_product p = testing_compile(&s, NULL, false, NULL);
            assert_int_equal(p.plan.method, PRODUCT_FEW);
            testing_free(&p);
            check(&s, false);
            s.m.v[0].c = 7, s.m.v[1].c = 1, s.n.v[0].c = 9 * 7; /* features outermost in C */
            check(&s, false);
        }
}

/* B in panels of 8 to 64 columns, whichever the tile here has, and B whose rows are read in place.
 */
static void b_in_place(void **state) {
    (void)state;
    int panels = 0, rows = 0;
    for (int columns = 4; columns <= 96; columns += 4)
        for (int count = 1; count <= 3; count += 2) {
            int64_t m = 30, n = (int64_t)columns * count, k = 700;
            struct product_spec s = plain(TYPE_F32, 2, m, n, k, false, false);
            struct product_dim inner = {columns, 0, 1, 1};
            s.n = (struct product_dims){2, {{count, 0, columns * k, columns}, inner}};
            s.k.v[0].b = columns;
            struct compiled_product p = testing_compile(&s, NULL, false, NULL);
            panels += p.plan.b_mode == B_PANELS;
            testing_free(&p);
            if (p.plan.b_mode == B_PANELS) check(&s, false);
        }
    for (int how = 0; how < 2; how++) {
        struct product_spec s = plain(TYPE_F32, 3, 11, 96, 90, how == 1, false);
        struct compiled_product p = testing_compile(&s, NULL, false, NULL);
        rows += p.plan.b_mode == B_ROWS;
        testing_free(&p);
        check(&s, how == 1);
    }
    assert_true(panels > 0);
    assert_true(rows > 0);
}

/* What code for a processor shows of it, without its features being listed. */
static void target_data(void **state) {
    (void)state;
#ifndef __x86_64__
    skip();
#endif
    static const struct {
        const char *cpu;
        int bytes, registers;
        bool fma;
    } want[] = {{"x86-64", 16, 16, false},
                {"x86-64-v2", 16, 16, false},
                {"x86-64-v3", 32, 16, true},
                {"x86-64-v4", 64, 32, true},
                {"znver3", 32, 16, true}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        LLVMTargetMachineRef machine = testing_machine(want[i].cpu, "");
        struct cpu_target target;
        cpu_target_read(machine, false, &target);
        LLVMDisposeTargetMachine(machine);
        assert_int_equal(target.vector_bytes, want[i].bytes);
        assert_int_equal(target.vector_registers, want[i].registers);
        assert_true(target.fma == want[i].fma);
        assert_true(target.l1 > 0 && target.l2 > target.l1);
        struct matmul_tile tile = matmul_tile_choose(&target, TYPE_F32, 1000, 1000);
        assert_int_equal(tile.lanes * 4, want[i].bytes);
        assert_true(tile.rows * tile.vectors + tile.vectors + 1 <= want[i].registers);
        assert_true(tile.rows * tile.vectors >= 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(blocks),
        cmocka_unit_test(element_types),
        cmocka_unit_test(several_dimensions),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(pairs),
        cmocka_unit_test(b_in_place),
        cmocka_unit_test(target_data),
        cmocka_unit_test(few_rows),
        cmocka_unit_test(small_products),
        cmocka_unit_test(places_in_blocks),
        cmocka_unit_test(few_packed_rows),
        cmocka_unit_test(few_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
