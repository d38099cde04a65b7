/* The assembler and the disassembler: text to file to text, what is refused, and noise. */
#include "backend/tpu/machine_testing.h"

/* Everything a program may hold, and every form of an operand. */
static const char everything[] =
    ".chip v3\n.cores 1\n.hbm 0x10000\n.vmem 65536\n"
    ".smem 0 1 2 3\n.smem 3 0xffffffff -1 1.5\n"
    ".constant 0x1000 5\n.data 0102030405\n.constant 8192 0\n.constant 9216 1200\n.zero "
    "1000\n.data 07\n"
    ".param \"bf16\" 2 16 1 0 dims 20,200 order 1,0 tiles (8,128)(2,1) at 0x2000\n"
    ".param \"s64\" 8 32 2 1 dims order tiles at 0x8000\n"
    ".result \"f32\" 4 32 1 0 dims 300 order 0 tiles (256) at 0xa000\n"
    ".buffer \"temp \\\"a\\\\b\\x01\" vmem 512 1024\n"
    ".source \"add.1\" \"jit(f)/add\" \"model.py\" 12\n.source \"b\\x0a{ trap 1 }\" \"\" \"\" 0\n"
    ".code ; bundles\n.line 1\nstart:\n"
    "  { sadd s1, s2, 5 ; s1: ssub s2, s1, 70000 ; vadd.f32 v1, v2, 1.0 ?m3 ; vmul.f32 v3, v4, 3.0 "
    "}\n"
    "{ s1: smov s2, #3h(0x3f80) ; v1: vmov v1, $1(s7) }\n"
    ".line 0\n"
    "{ (p1) seq p2, s1, -1 ; (!p3) pand p1, p2, p0 ; vld v1, s4, -8, s9 ; vst v2, $0(s5), "
    "#0w(100000), 4 ?m1 }\n"
    "{ wpush.bf16 u1, v3, set1, start, transpose ?m2 ; mpop u0, v9 }\n"
    "{ mpush.hi u0, v3, set0, cross ; xpop v9 ; br start }\n{}\n{}\n"
    "{ call s1, #2(end) ; sld s3, s4, 12 }\n{}\n{}\n"
    "{ bdnz s1, #1w(end) ; vsel v1, v2, nan ?m1 ; veq.s32 m1, v1, v2 ?m2 }\n{}\n{}\n"
    "{ wait f3, s4 }\n{ signal f3, s2, 7 }\n{ xtrl v1, 16 }\n{ ediv v1, v2 }\n{ dma.src s1, s2 }\n"
    "end:\n{ halt }\n";

static struct tpu_program *assemble(struct arena *arena, const char *text, struct diag *diag) {
    diag_init(diag, "test", text, strlen(text));
    return tpu_assemble(arena, text, strlen(text), diag);
}

static char *disassemble(const struct tpu_program *program) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    tpu_disassemble(program, out);
    fclose(out);
    return text;
}

static void round_trip(void **state) {
    (void)state;
    struct arena *arena = arena_new();
    struct diag diag;
    struct tpu_error error;
    size_t size, again_size;
    struct tpu_program *program = assemble(arena, everything, &diag);
    if (!program) fail_msg("line %u: %s", diag.messages[0].loc.line, diag.messages[0].text);
    uint8_t *file = tpu_program_write(program, &size, &error);
    assert_non_null(file);
    char *text = disassemble(program);
    struct tpu_program *again = assemble(arena, text, &diag);
    if (!again) fail_msg("line %u: %s\n%s", diag.messages[0].loc.line, diag.messages[0].text, text);
    uint8_t *second = tpu_program_write(again, &again_size, &error);
    assert_int_equal(size, again_size);
    assert_memory_equal(file, second, size);
    free(file);
    free(second);
    free(text);
    arena_free(arena);
}

/* What the text means, field by field. */
static void meanings(void **state) {
    (void)state;
    struct arena *arena = arena_new();
    struct diag diag;
    struct tpu_program *p = assemble(arena, everything, &diag);
    assert_non_null(p);
    assert_int_equal(p->smem_words, 6);
    assert_int_equal(p->smem[5], 0x3fc00000);
    assert_int_equal(p->constant[0].data[4], 5);
    assert_string_equal(p->buffer[0].name, "temp \"a\\b\x01");
    assert_int_equal(p->param[0].plane_bytes, 3 * 2 * 2048);
    assert_int_equal(p->lines, 2);
    assert_int_equal(p->line[1].bundle, 2);
    const struct tpu_bundle *b = &p->code[0];
    assert_int_equal(b->slot[TPU_S0].b, TPU_OPERAND_IMM + 2); /* the pair and 3.0 leave it */
    assert_int_equal(b->slot[TPU_S1].b, TPU_OPERAND_PAIR + 0);
    assert_int_equal(tpu_bundle_pair(b, 0), 70000);
    assert_int_equal(b->slot[TPU_V0].b, TPU_OPERAND_CONST + 3);
    assert_int_equal(b->slot[TPU_V0].mask, 3);
    assert_int_equal(b->slot[TPU_V1].b, TPU_OPERAND_HIGH + 3);
    assert_int_equal(b->imm[3], 0x4040);
    b = &p->code[1];
    assert_int_equal(b->slot[TPU_S0].op, TPU_EMPTY);
    assert_int_equal(b->slot[TPU_S1].b, TPU_OPERAND_HIGH + 3);
    assert_int_equal(b->slot[TPU_V1].b, TPU_OPERAND_PORT + 1);
    assert_int_equal(b->port[1], 7);
    b = &p->code[2];
    assert_int_equal(b->slot[TPU_S0].pred, TPU_IF_P1);
    assert_int_equal(b->slot[TPU_S1].pred, TPU_UNLESS_P1 + 2);
    assert_int_equal(b->slot[TPU_LD].stride, TPU_STRIDE_PORT2);
    assert_int_equal(b->port[2], 9);
    assert_int_equal(b->slot[TPU_ST].offset, TPU_OFFSET_PAIR);
    assert_int_equal(b->slot[TPU_ST].stride, TPU_STRIDE_IMM5);
    assert_int_equal(b->imm[5], 4);
    assert_int_equal(p->code[3].slot[TPU_PUSH].flags, 7);
    assert_int_equal(p->code[3].slot[TPU_PUSH].unit, 1);
    assert_int_equal(p->code[4].slot[TPU_PUSH].flags, TPU_FLAG_CROSS);
    assert_int_equal(tpu_branch_target(&p->code[4], &p->code[4].slot[TPU_MISC]), 0);
    assert_int_equal(tpu_branch_target(&p->code[10], &p->code[10].slot[TPU_MISC]), 18);
    arena_free(arena);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        unsigned line, column;
    } tests[] = {
        {"{ sadd s1, s2 }", "',' expected", 1, 15},
        {"{ sadd s32, s2, 1 }", "a whole number from 0 to 31 expected", 1, 9},
        {"{ sadd v1, s2, 1 }", "a register s0 to s31 expected", 1, 8},
        {"{ frob s1 }", "an instruction expected", 1, 3},
        {"{ sadd s1, s1, 1 ; sadd s2, s1, 1 ; sadd s3, s1, 1 }", "no free slot", 1, 37},
        {"{ s1: sadd s1, s1, 1 ; s1: sadd s2, s1, 1 }", "no free slot", 1, 28},
        {"{ ld: sadd s1, s1, 1 }", "no free slot", 1, 7},
        {"{ smov s1, 100000 ; smov s2, 200000 ; vmov v1, 300000 ; vmov v2, 400000 }",
         "the bundle has no immediate left for 400000", 1, 74},
        {"{ smov s1, #0(1) ; smov s2, #0(2) }", "immediate 0 is taken by another value", 1, 33},
        {"{ smov s1, #6(1) }", "a number from 0 to 5 expected", 1, 13},
        {"{ smov s1, #0(70000) }", "does not fit in 16 bits", 1, 20},
        {"{ smov s1, #3w(1) }", "pairs are 0 to 2", 1, 15},
        {"{ vmov v1, s1 ; vmov v2, s2 ; vld v3, s3, 0, s4 }", "no port left", 1, 50},
        {"{ vadd.f32 v1, v2, $1(s1) ; vadd.f32 v3, v2, $1(s2) }", "port 1 is taken", 1, 51},
        {"{ sadd s1, s2, 1 ?m1 }", "sadd takes no mask", 1, 19},
        {"{ mpush.f32 u0, v1, start }", "not a flag of mpush.f32", 1, 26},
        {"{ (p0) smov s1, 1 }", "p0 always holds", 1, 6},
        {"{ br nowhere }", "no label 'nowhere'", 1, 6},
        {"a:\na:\n{ halt }", "there are two labels 'a'", 4, 1},
        {"{ vst v1, 0, 0, 0 }", "a store of stride 0", 1, 20},
        {"{ vld v1, 5, 0, 1 }", "a base is 0 or a scalar register", 1, 12},
        {"{ vld v1, #0(5), 0, 1 }", "this operand cannot come from there", 1, 16},
        {"{ halt } x", "the statement ends before this", 1, 10},
        {".chip v9", "no built-in chip of that name", 1, 9},
        {".chip {\"name\": \"x\"}", "the chip: field cores is missing", 1, 7},
        {".frob 1", "no directive of this name", 1, 6},
        {".smem 5 1", "SMEM words come in order: 0 is next", 1, 8},
        {".constant 0 1000\n", "more bytes than the text has", 1, 17},
        {".chip v2\n.hbm 512\n.constant 0 2\n.data 010203\n", "more .data than the .constant has",
         4, 11},
        {".data 00", ".data without .constant", 1, 6},
        {".source \"a", "'\"' expected", 1, 11},
        {".source \"\\x00\" \"\" \"\" 0", "a string holds no NUL", 1, 14},
        {".param \"f32\" 4 32 1 0 dims 8,128 order 1,1,0 tiles at 0",
         "more numbers than dimensions", 1, 44},
        {".param \"f32\" 4 32 1 0 dims 8 order 0 tiles (0) at 0", "a whole number from 1", 1, 45},
        {"{", "an instruction expected", 1, 2},
        {"{ smov s1, 99999999999 }", "a number expected", 1, 12},
        {"{ halt }", "the chip: name must be", 0, 0},
        {".chip v2\n", "the program has no code", 0, 0},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        struct arena *arena = arena_new();
        struct diag diag;
        if (assemble(arena, tests[i].text, &diag)) fail_msg("accepted: %s", tests[i].text);
        const struct diag_message *m = &diag.messages[0];
        if (!strstr(m->text, tests[i].message) || m->loc.line != tests[i].line ||
            m->loc.col != tests[i].column) {
            fail_msg("%s\ngot  %u:%u %s\nwant %u:%u %s", tests[i].text, m->loc.line, m->loc.col,
                     m->text, tests[i].line, tests[i].column, tests[i].message);
        }
        diag_clear(&diag);
        arena_free(arena);
    }
}

/* Changed, cut and doubled text: an error or a program, and no more. */
static void noise(void **state) {
    (void)state;
    size_t size = strlen(everything);
    uint64_t seed = 3;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof everything + 64];
        struct arena *arena = arena_new();
        struct diag diag;
        memcpy(text, everything, size);
        size_t length = size;
        for (int k = 0; k <= round % 4; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = (seed >> 33) % size;
            static const char odd[] = "{};,:()#$?!.\"\\\n 0919xswvmpuf-";
            if (round % 5) {
                text[at] = odd[(seed >> 20) % (sizeof odd - 1)];
            } else {
                length = at;
            }
        }
        /* Bytes past the end would show under the sanitizers. */
        char *exact = malloc(length + 1);
        memcpy(exact, text, length);
        diag_init(&diag, "test", exact, length);
        struct tpu_program *program = tpu_assemble(arena, exact, length, &diag);
        if (program) {
            struct tpu_error error;
            size_t bytes;
            uint8_t *file = tpu_program_write(program, &bytes, &error);
            assert_non_null(file);
            free(file);
        } else {
            assert_true(diag.errors > 0);
        }
        free(exact);
        diag_clear(&diag);
        arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(meanings),
        cmocka_unit_test(refused),
        cmocka_unit_test(noise),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
