/* Program files: round trips, damage, and arrays' layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tpu/tpu.h"

/* ---- a program with something in every section ---- */

static struct tpu_array matrix(const char *type, int host, int bits, int64_t rows, int64_t columns,
                               uint64_t address) {
    struct tpu_array a = {.host_bytes = host,
                          .bits = bits,
                          .planes = 1,
                          .rank = 2,
                          .dims = {rows, columns},
                          .minor_to_major = {1, 0},
                          .ntiles = 1,
                          .tiles = {{2, {8, 128}}},
                          .address = address};
    strcpy(a.type, type);
    a.plane_bytes = (uint64_t)tpu_array_plane_bytes(&a);
    return a;
}

struct parts {
    struct tpu_program program;
    struct tpu_bundle code[3];
    uint32_t smem[20];
    struct tpu_constant constants[2];
    struct tpu_array param, result;
    struct tpu_buffer buffer;
    struct tpu_source sources[2];
    struct tpu_line lines[2];
};

static void build(struct parts *p) {
    static const uint8_t data[700] = {1, 2, 3};
    char why[100];
    memset(p, 0, sizeof *p);
    assert_true(tpu_chip_load(&p->program.chip, "v3", why, sizeof why));
    p->code[0].slot[TPU_S0] =
        (struct tpu_instr){.op = TPU_SMOV, .pred = TPU_ALWAYS, .dest = 1, .b = 44};
    p->code[0].imm[0] = 0x5678;
    p->code[0].imm[1] = 0x1234;
    p->code[1].slot[TPU_MISC] =
        (struct tpu_instr){.op = TPU_BR, .pred = TPU_IF_P1, .imm = TPU_TARGET_PAIR1};
    p->code[1].imm[2] = 2;
    p->code[2].slot[TPU_MISC] = (struct tpu_instr){.op = TPU_HALT, .pred = TPU_ALWAYS};
    for (uint32_t i = 0; i < 20; i++)
        p->smem[i] = i * 0x01010101u;
    p->constants[0] = (struct tpu_constant){0, 700, data};
    p->constants[1] = (struct tpu_constant){1024, 3, data};
    p->param = matrix("f32", 4, 32, 10, 130, 4096);
    p->result = matrix("bf16", 2, 16, 10, 130, 65536);
    p->buffer = (struct tpu_buffer){"temp", TPU_VMEM, 512, 1024};
    p->sources[0] = (struct tpu_source){"add.1", "jit(f)/add", "model.py", 12};
    p->sources[1] = (struct tpu_source){"fusion \"2\"", "", "", 0};
    p->lines[0] = (struct tpu_line){0, 1};
    p->lines[1] = (struct tpu_line){2, 0};
    struct tpu_program *q = &p->program;
    q->cores = 1;
    q->hbm_bytes = 1 << 20;
    q->vmem_bytes = 8192;
    q->bundles = 3;
    q->code = p->code;
    q->smem_words = 20;
    q->smem = p->smem;
    q->constants = 2;
    q->constant = p->constants;
    q->params = q->results = 1;
    q->param = &p->param;
    q->result = &p->result;
    q->buffers = 1;
    q->buffer = &p->buffer;
    q->sources = q->lines = 2;
    q->source = p->sources;
    q->line = p->lines;
}

static uint8_t *file_of(const struct tpu_program *program, size_t *size) {
    struct tpu_error error;
    uint8_t *file = tpu_program_write(program, size, &error);
    if (!file) fail_msg("%s", error.text);
    return file;
}

static void file_round_trip(void **state) {
    (void)state;
    struct parts p;
    struct tpu_error error;
    size_t size, again_size;
    build(&p);
    uint8_t *file = file_of(&p.program, &size);
    struct tpu_program *back = tpu_program_read(file, size, &error);
    if (!back) fail_msg("%s", error.text);
    assert_memory_equal(back->code, p.code, sizeof p.code);
    assert_memory_equal(&back->param[0], &p.param, sizeof p.param);
    assert_memory_equal(&back->chip, &p.program.chip, sizeof back->chip);
    assert_string_equal(back->source[1].name, "fusion \"2\"");
    assert_int_equal(back->line[1].bundle, 2);
    assert_memory_equal(back->constant[0].data, p.constants[0].data, 700);
    uint8_t *again = file_of(back, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(file, again, size);
    tpu_program_free(back);
    free(again);
    free(file);
}

/* ---- damage ---- */

/* As the writer computes it; so that damage reaches what lies behind the checksum. */
static void put_checksum(uint8_t *file, size_t size) {
    uint64_t total = size, sum = 0xcbf29ce484222325 ^ (size - 32);
    for (size_t i = 32; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, file + i, size - i < 8 ? size - i : 8);
        sum = (sum ^ word) * 0x100000001b3;
        sum ^= sum >> 32;
    }
    memcpy(file + 16, &total, 8);
    memcpy(file + 24, &sum, 8);
}

static void every_damaged_byte_is_found(void **state) {
    (void)state;
    struct parts p;
    struct tpu_error error;
    size_t size;
    build(&p);
    uint8_t *file = file_of(&p.program, &size);
    for (size_t i = 0; i < size; i++) {
        file[i] ^= 0x10;
        assert_null(tpu_program_read(file, size, &error));
        assert_null(tpu_load(file, size, &error));
        file[i] ^= 0x10;
    }
    for (size_t i = 0; i < size; i++)
        assert_null(tpu_program_read(file, i, &error));
    assert_null(tpu_program_read("HLOCCTPU", 8, &error));
    assert_null(tpu_program_read("", 0, &error));
    free(file);
}

/* With a right checksum: refused, or a valid program that writes back to the same bytes, and whose
 * run ends. */
static void forged_files(void **state) {
    (void)state;
    struct parts p;
    struct tpu_error error;
    size_t size, again_size;
    uint64_t seed = 7;
    int accepted = 0, refused = 0;
    build(&p);
    uint8_t *file = file_of(&p.program, &size), *copy = malloc(size + 64);
    static uint8_t in[10 * 130 * 8], out[10 * 130 * 8];
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, file, size);
        size_t length = size;
        for (int k = 0; k <= round % 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, (uint8_t)(seed >> 20)};
            copy[32 + (seed >> 33) % (size - 32)] = values[(seed >> 28) % 6];
        }
        if (round % 7 == 0) length = 32 + (seed >> 40) % (size - 32);
        put_checksum(copy, length);
        struct tpu_program *program = tpu_program_read(copy, length, &error);
        if (!program) {
            refused++;
            assert_true(error.text[0]);
            continue;
        }
        accepted++;
        uint8_t *again = file_of(program, &again_size);
        assert_int_equal(again_size, length);
        assert_memory_equal(again, copy, length);
        free(again);
        bool small = program->params == 1 && program->results == 1 &&
                     memcmp(program->param->dims, p.param.dims, sizeof p.param.dims) == 0 &&
                     memcmp(program->result->dims, p.result.dims, sizeof p.result.dims) == 0;
        tpu_program_free(program);
        struct tpu_executable *executable = small ? tpu_load(copy, length, &error) : NULL;
        if (!executable) continue;
        const void *inputs[] = {in};
        void *outputs[] = {out};
        struct tpu_run_options options = {.max_cycles = 100000};
        if (tpu_executable_program(executable)->cores == 1) {
            tpu_execute(executable, inputs, outputs, &options, NULL, &error);
        }
        tpu_unload(executable);
    }
    assert_true(accepted > 100 && refused > 100);
    free(copy);
    free(file);
}

/* ---- what the check refuses ---- */

static void refuse(const struct parts *p, const char *message) {
    struct tpu_error error = {""};
    assert_int_equal(tpu_program_check(&p->program, &error), -1);
    if (!strstr(error.text, message)) fail_msg("got \"%s\", want \"%s\"", error.text, message);
}

static void invalid_programs(void **state) {
    (void)state;
    struct parts p;
    build(&p);
    p.program.chip.clock_mhz = 0;
    refuse(&p, "the chip: clock_mhz must be");
    build(&p);
    p.program.hbm_bytes = UINT64_C(1) << 40;
    refuse(&p, "bytes of HBM, and v3 has 17179869184");
    build(&p);
    p.program.vmem_bytes = UINT64_C(1) << 30;
    refuse(&p, "bytes of VMEM, and v3 has 16777216");
    build(&p);
    p.program.bundles = 0;
    refuse(&p, "no code");
    build(&p);
    p.code[0].slot[TPU_S0].dest = 40;
    refuse(&p, "bundle 0, slot s0: a register past 31");
    build(&p);
    p.code[1].imm[2] = 3;
    refuse(&p, "bundle 1: the branch goes past the end");
    build(&p);
    p.code[1].slot[TPU_POP] = (struct tpu_instr){.op = TPU_MPOP, .pred = TPU_ALWAYS, .unit = 2};
    refuse(&p, "bundle 1: v3 has 2 matrix units, and this needs unit 2");
    build(&p);
    p.param.address = 100;
    refuse(&p, "parameter 0 lies outside the HBM plan or is not aligned");
    build(&p);
    p.param.address = 1 << 20;
    refuse(&p, "parameter 0 lies outside");
    build(&p);
    p.result.plane_bytes = 512;
    refuse(&p, "result 0 takes 8192 bytes a plane, not 512");
    build(&p);
    p.result.minor_to_major[0] = 0;
    refuse(&p, "result 0: its layout is malformed");
    build(&p);
    p.result.bits = 8;
    refuse(&p, "result 0: sizes of its elements");
    build(&p);
    p.constants[1].address = 512;
    refuse(&p, "constant 1 overlaps the one before it");
    build(&p);
    p.lines[1].bundle = 0;
    refuse(&p, "entry 1 of the line table");
    build(&p);
    p.buffer.size = 8192;
    refuse(&p, "buffer 0 of the plan");
    build(&p);
    p.buffer.space = TPU_SPACES;
    refuse(&p, "buffer 0 of the plan lies outside its memory");
    build(&p);
    p.program.cores = 0;
    refuse(&p, "0 cores");
    build(&p);
    p.program.cores = 255;
    refuse(&p, "255 cores");
    build(&p);
    p.program.smem_words = (uint32_t)p.program.chip.smem_bytes / 4 + 1;
    refuse(&p, "the program needs 4097 words of SMEM, and v3 has 4096");
    build(&p);
    memset(p.param.type, 0, sizeof p.param.type);
    refuse(&p, "parameter 0 has no type");
    build(&p);
    memset(p.param.type, 'x', sizeof p.param.type);
    refuse(&p, "parameter 0 has no type");
    build(&p);
    p.result.planes = 3;
    refuse(&p, "result 0: sizes of its elements that do not go together");
    build(&p);
    p.program.params = UINT32_MAX;
    refuse(&p, "too many parameters or results");
    build(&p);
    p.lines[0].bundle = 1;
    refuse(&p, "entry 0 of the line table is out of order or range");
    build(&p);
    p.lines[1].source = 1000;
    refuse(&p, "entry 1 of the line table is out of order or range");
    build(&p);
    p.constants[0].address = 256;
    refuse(&p, "constant 0 lies outside the HBM plan or is not aligned");
}

/* Files with one thing wrong, the checksum right. */
static void invalid_files(void **state) {
    (void)state;
    struct parts p;
    build(&p);
    size_t size;
    uint8_t *file = file_of(&p.program, &size), *copy = malloc(size + 64);
    static const struct {
        size_t at;   /* where a byte is changed; 0: none is */
        long longer; /* bytes to spare, or cut off */
        const char *message;
    } wrong[] = {{8, 0, "the file has another version"},
                 {12, 0, "reserved bytes of the header are not 0"},
                 {16, 0, "the file is cut short or has bytes to spare"},
                 {0, 8, "the file is cut short or has bytes to spare"},
                 {0, -8, "the file is cut short or has bytes to spare"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tpu_error error = {""};
        memset(copy, 0, size + 64);
        memcpy(copy, file, size);
        if (wrong[i].at) copy[wrong[i].at] ^= 0x20;
        struct tpu_program *program =
            tpu_program_read(copy, (size_t)((long)size + wrong[i].longer), &error);
        assert_null(program);
        if (!strstr(error.text, wrong[i].message))
            fail_msg("got \"%s\", want \"%s\"", error.text, wrong[i].message);
    }
    struct tpu_error error = {""};
    memcpy(copy, file, size);
    memset(copy + size, 0, 8);
    put_checksum(copy, size + 8);
    assert_null(tpu_program_read(copy, size + 8, &error));
    if (!strstr(error.text, "bytes follow the end of the program"))
        fail_msg("got \"%s\"", error.text);
    memcpy(copy, file, size);
    put_checksum(copy, size - 8);
    assert_null(tpu_program_read(copy, size - 8, &error));
    if (!strstr(error.text, "the file ends early") && !strstr(error.text, "a list is longer"))
        fail_msg("got \"%s\"", error.text);
    free(copy);
    free(file);
}

/* ---- layouts ---- */

static void check_positions(const struct tpu_array *a, uint64_t bytes, const int (*want)[2],
                            int count) {
    int64_t elements = 1;
    for (int d = 0; d < a->rank; d++)
        elements *= a->dims[d];
    uint16_t *host = calloc((size_t)elements, 2), *back = calloc((size_t)elements, 2);
    uint8_t *image = malloc(bytes);
    assert_int_equal(tpu_array_plane_bytes(a), bytes);
    for (int64_t i = 0; i < elements; i++)
        host[i] = (uint16_t)i;
    memset(image, 0xff, bytes);
    assert_int_equal(tpu_array_store(a, host, image), 0);
    for (int i = 0; i < count; i++) {
        uint16_t found;
        memcpy(&found, image + 2 * want[i][1], 2);
        if (found != want[i][0])
            fail_msg("position %d holds %d, not %d", want[i][1], found, want[i][0]);
    }
    assert_int_equal(tpu_array_load(a, image, back), 0);
    assert_memory_equal(host, back, (size_t)elements * 2);
    free(host);
    free(back);
    free(image);
}

/* Positions by XLA's rule, worked out by hand: element number, place in the image. */
static void tiled_positions(void **state) {
    (void)state;
    /* bf16[20,200] T(8,128)(2,1): tiles of 8 x 128, rows of a tile in pairs. Element (r, c) lies in
     * tile (r / 8, c / 128) of 3 x 2, at pair r % 8 / 2, column c % 128, half r % 2. */
    struct tpu_array a = matrix("bf16", 2, 16, 20, 200, 0);
    a.ntiles = 2;
    a.tiles[1] = (struct tpu_tile){2, {2, 1}};
    static const int packed[][2] = {
        {0, 0},      {1, 2},          {200, 1},
        {201, 3},    {400, 256},      {127, 254},
        {128, 1024}, {8 * 200, 2048}, {19 * 200 + 199, 2 * 2048 + 1024 + 256 + 71 * 2 + 1}};
    check_positions(&a, 3 * 2 * 2048, packed, 9);
    /* The same with dimension 0 minor: 200 rows of 20 columns in T(8,128). */
    struct tpu_array turned = matrix("bf16", 2, 16, 20, 200, 0);
    turned.minor_to_major[0] = 0;
    turned.minor_to_major[1] = 1;
    static const int columns[][2] = {
        {0, 0}, {1, 128}, {200, 1}, {8, 1024}, {19 * 200 + 9, 1024 + 128 + 19}};
    check_positions(&turned, 25 * 2048, columns, 5);
    /* Rank 1, T(256): one dimension, padded to 512. */
    struct tpu_array row = {.host_bytes = 2,
                            .bits = 16,
                            .planes = 1,
                            .rank = 1,
                            .dims = {300},
                            .minor_to_major = {0},
                            .ntiles = 1,
                            .tiles = {{1, {256}}}};
    static const int linear[][2] = {{0, 0}, {299, 299}};
    check_positions(&row, 1024, linear, 2);
    /* Three dimensions: the major one is not tiled. */
    struct tpu_array cube = {.host_bytes = 2,
                             .bits = 16,
                             .planes = 1,
                             .rank = 3,
                             .dims = {2, 3, 5},
                             .minor_to_major = {2, 1, 0},
                             .ntiles = 1,
                             .tiles = {{2, {8, 128}}}};
    static const int cubes[][2] = {{0, 0}, {5, 128}, {15, 1024}, {29, 1024 + 2 * 128 + 4}};
    check_positions(&cube, 2 * 2048, cubes, 4);
}

/* Widened, signed and in two planes. */
static void element_sizes(void **state) {
    (void)state;
    struct tpu_array a = matrix("s8", 1, 32, 1, 3, 0);
    a.is_signed = 1;
    int8_t small[3] = {1, -1, -128}, small_back[3];
    uint8_t image[16384];
    int32_t word;
    assert_int_equal(tpu_array_store(&a, small, image), 0);
    memcpy(&word, image + 8, 4);
    assert_int_equal(word, -128);
    assert_int_equal(tpu_array_load(&a, image, small_back), 0);
    assert_memory_equal(small, small_back, 3);
    struct tpu_array wide = matrix("s64", 8, 32, 1, 2, 0);
    wide.planes = 2;
    uint64_t large[2] = {0x1122334455667788, 0xffffffff00000001}, large_back[2];
    assert_int_equal(tpu_array_store(&wide, large, image), 0);
    memcpy(&word, image + 4, 4);
    assert_int_equal(word, 1);
    memcpy(&word, image + 4096, 4);
    assert_int_equal(word, 0x11223344);
    assert_int_equal(tpu_array_load(&wide, image, large_back), 0);
    assert_memory_equal(large, large_back, sizeof large);
}

static void malformed_layouts(void **state) {
    (void)state;
    struct tpu_array a = matrix("f32", 4, 32, 8, 128, 0);
    a.tiles[0].dims[0] = 0;
    assert_int_equal(tpu_array_plane_bytes(&a), -1);
    a.tiles[0] = (struct tpu_tile){3, {1, 8, 128}};
    assert_int_equal(tpu_array_plane_bytes(&a), -1);
    a = matrix("f32", 4, 32, INT64_C(1) << 39, 1 << 20, 0);
    assert_int_equal(tpu_array_plane_bytes(&a), -1);
    a = matrix("f32", 4, 32, 8, 128, 0);
    a.dims[0] = -1;
    assert_int_equal(tpu_array_plane_bytes(&a), -1);
    a = matrix("f32", 4, 24, 8, 128, 0);
    assert_int_equal(tpu_array_plane_bytes(&a), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_round_trip), cmocka_unit_test(every_damaged_byte_is_found),
        cmocka_unit_test(forged_files),    cmocka_unit_test(invalid_programs),
        cmocka_unit_test(invalid_files),   cmocka_unit_test(tiled_positions),
        cmocka_unit_test(element_sizes),   cmocka_unit_test(malformed_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
