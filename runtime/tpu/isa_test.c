#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tpu/isa_testing.h"

/* TPU_ROUND_TRIPS bundles; 1,000,000 in the long checks. */
static void round_trip(void **state) {
    (void)state;
    const char *count = getenv("TPU_ROUND_TRIPS");
    long rounds = count ? atol(count) : 50000;
    bool seen[TPU_OPS] = {false};
    for (long i = 0; i < rounds; i++) {
        struct tpu_bundle bundle, back;
        uint8_t bytes[TPU_BUNDLE_BYTES], again[TPU_BUNDLE_BYTES];
        enum tpu_slot slot;
        random_bundle(&bundle, 4);
        const char *why = tpu_bundle_check(&bundle, &slot);
        if (why) fail_msg("%s: %s", tpu_slot_name(slot), why);
        tpu_encode(&bundle, bytes);
        why = tpu_decode(bytes, &back);
        if (why) fail_msg("%s", why);
        assert_memory_equal(&bundle, &back, sizeof bundle);
        tpu_encode(&back, again);
        assert_memory_equal(bytes, again, sizeof bytes);
        for (int s = 0; s < TPU_SLOTS; s++)
            seen[bundle.slot[s].op] = true;
    }
    for (int op = 0; op < TPU_OPS; op++)
        assert_true(seen[op]);
}

/* Bytes that decode are those that their bundle encodes to; any bit that changes shows. */
static void every_bit_counts(void **state) {
    (void)state;
    int refused = 0, different = 0;
    for (int i = 0; i < 200; i++) {
        struct tpu_bundle bundle, back;
        uint8_t bytes[TPU_BUNDLE_BYTES], again[TPU_BUNDLE_BYTES];
        random_bundle(&bundle, 4);
        tpu_encode(&bundle, bytes);
        for (int bit = 0; bit < TPU_BUNDLE_BYTES * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (tpu_decode(bytes, &back)) {
                refused++;
            } else {
                different++;
                assert_memory_not_equal(&bundle, &back, sizeof bundle);
                tpu_encode(&back, again);
                assert_memory_equal(bytes, again, sizeof bytes);
            }
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    assert_true(refused > 1000 && different > 1000);
}

static void fields_fill_the_bundle(void **state) {
    (void)state;
    int bit = 0, count = tpu_field_count();
    for (int i = 0; i < count; i++) {
        struct tpu_field field = tpu_field(i);
        assert_int_equal(field.bit, bit);
        bit += field.width;
    }
    assert_int_equal(bit, 318); /* and 4 reserved */
    assert_true(bit <= TPU_BUNDLE_BITS && TPU_BUNDLE_BITS <= TPU_BUNDLE_BYTES * 8);
}

/* An empty bundle is all zeros; sadd s3, s1, #2 (imm 2 = 5) always: by hand from the field table:
 * pred 4 in bits 0-2, opcode 0, dest 3 at 9, a 1 at 14, b 34 at 19; immediate 2 at 222 + 32 = 254.
 */
static void known_bits(void **state) {
    (void)state;
    struct tpu_bundle bundle = {0};
    uint8_t bytes[TPU_BUNDLE_BYTES], want[TPU_BUNDLE_BYTES] = {0};
    tpu_encode(&bundle, bytes);
    assert_memory_equal(bytes, want, sizeof want);
    bundle.slot[TPU_S0] =
        (struct tpu_instr){.op = TPU_SADD, .pred = TPU_ALWAYS, .dest = 3, .a = 1, .b = 34};
    bundle.imm[2] = 5;
    tpu_encode(&bundle, bytes);
    uint64_t low = 4 | 3u << 9 | 1u << 14 | 34u << 19;
    for (int i = 0; i < 4; i++)
        want[i] = (uint8_t)(low >> 8 * i);
    want[31] = 1 << 6; /* 5 << 254: bits 254 and 256 */
    want[32] = 1;
    assert_memory_equal(bytes, want, sizeof want);
}

static void codes_are_unique(void **state) {
    (void)state;
    static const unsigned widths[TPU_CLASSES] = {6, 7, 3, 3, 4, 3, 6};
    for (int op = 1; op < TPU_OPS; op++) {
        const struct tpu_op_info *info = tpu_op_info((enum tpu_op)op);
        assert_int_equal(tpu_op_from_code(info->slot, info->code), op);
        assert_int_equal(tpu_op_from_name(info->name, strlen(info->name)), op);
        assert_true(info->code < 1u << widths[info->slot]);
    }
}

static void refuse(struct tpu_bundle *bundle, const char *message) {
    enum tpu_slot slot;
    const char *why = tpu_bundle_check(bundle, &slot);
    if (!why || !strstr(why, message)) fail_msg("got %s, want %s", why ? why : "valid", message);
}

static void invalid_bundles(void **state) {
    (void)state;
    struct tpu_bundle b = {0};
    b.imm[0] = 1;
    refuse(&b, "an immediate that nothing uses");
    b = (struct tpu_bundle){.port = {0, 1}};
    refuse(&b, "a port that nothing uses");
    b = (struct tpu_bundle){0};
    b.slot[TPU_S0].dest = 1;
    refuse(&b, "an empty slot has fields");
    b.slot[TPU_S0] = (struct tpu_instr){.op = TPU_VADD, .pred = TPU_ALWAYS};
    refuse(&b, "belongs in another slot");
    b.slot[TPU_S0] = (struct tpu_instr){.op = TPU_SADD};
    refuse(&b, "a predicate out of range");
    b.slot[TPU_S0] = (struct tpu_instr){.op = TPU_SEQ, .pred = TPU_ALWAYS};
    refuse(&b, "dest is not p1 to p3");
    b = (struct tpu_bundle){0};
    b.slot[TPU_V1] = (struct tpu_instr){.op = TPU_VEQ, .pred = TPU_ALWAYS};
    refuse(&b, "dest is not m1 to m7");
    b.slot[TPU_V1] = (struct tpu_instr){.op = TPU_VROTS, .pred = TPU_ALWAYS, .b = 3};
    refuse(&b, "the sublane must be one number");
    b = (struct tpu_bundle){0};
    b.slot[TPU_ST] = (struct tpu_instr){.op = TPU_VST, .pred = TPU_ALWAYS, .stride = TPU_STRIDE_0};
    refuse(&b, "a store of stride 0");
    b = (struct tpu_bundle){0};
    b.slot[TPU_MISC] = (struct tpu_instr){.op = TPU_XTRL, .pred = TPU_ALWAYS, .b = 17};
    refuse(&b, "a transpose of no or more than 16 results");
}

/* One field wrong in an instruction that is right otherwise. */
static void wrong_fields(void **state) {
    (void)state;
    static const struct {
        enum tpu_slot slot;
        struct tpu_instr instr;
        const char *message;
    } wrong[] = {
        {TPU_S0, {.op = TPU_OPS, .pred = TPU_ALWAYS}, "no such instruction"},
        {TPU_S0, {.op = TPU_SADD, .pred = 8}, "a predicate out of range"},
        {TPU_S0, {.op = TPU_SADD, .pred = TPU_ALWAYS, .dest = 32}, "a register past 31"},
        {TPU_S0, {.op = TPU_SADD, .pred = TPU_ALWAYS, .b = 64}, "an operand code past 63"},
        {TPU_S0, {.op = TPU_SMOV, .pred = TPU_ALWAYS, .a = 1}, "a field that the instruction does"},
        {TPU_S0, {.op = TPU_SP2S, .pred = TPU_ALWAYS, .a = 4}, "a predicate past p3"},
        {TPU_S0, {.op = TPU_SADD, .pred = TPU_ALWAYS, .mask = 1}, "a mask out of range"},
        {TPU_S0, {.op = TPU_SADD, .pred = TPU_ALWAYS, .base = 1}, "an address field out of range"},
        {TPU_V0, {.op = TPU_VM2V, .pred = TPU_ALWAYS, .a = 8}, "a mask past m7"},
        {TPU_V0, {.op = TPU_VADD, .pred = TPU_ALWAYS, .mask = 8}, "a mask out of range"},
        {TPU_V0, {.op = TPU_VADD, .pred = TPU_ALWAYS, .unit = 1}, "no such matrix unit"},
        {TPU_LD, {.op = TPU_VLD, .pred = TPU_ALWAYS, .offset = 8}, "an address field out of range"},
        {TPU_PUSH, {.op = TPU_MPUSHF, .pred = TPU_ALWAYS, .unit = 8}, "no such matrix unit"},
        {TPU_PUSH,
         {.op = TPU_MPUSHF, .pred = TPU_ALWAYS, .flags = 4},
         "flags that the instruction"},
        {TPU_POP, {.op = TPU_EPOP, .pred = TPU_ALWAYS, .flags = 1}, "flags that the instruction"},
        {TPU_MISC, {.op = TPU_STALL, .pred = TPU_ALWAYS, .imm = 8}, "an immediate code out of"},
        {TPU_MISC, {.op = TPU_HALT, .pred = TPU_ALWAYS, .imm = 1}, "an immediate code out of"},
        {TPU_MISC, {.op = TPU_XTRL, .pred = TPU_ALWAYS, .b = 0}, "a transpose of no or more than"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tpu_bundle b = {0};
        b.slot[wrong[i].slot] = wrong[i].instr;
        refuse(&b, wrong[i].message);
    }
    struct tpu_bundle b = {.port = {32}};
    refuse(&b, "a port names a register past s31");
}

static void decode_refuses(const uint8_t *bytes, const char *message) {
    struct tpu_bundle bundle;
    const char *why = tpu_decode(bytes, &bundle);
    if (!why || !strstr(why, message)) fail_msg("got \"%s\", want \"%s\"", why, message);
}

/* Bytes that no bundle has, by the table of fields: s0's pred in bits 0-2, op in 3-8. */
static void wrong_bytes(void **state) {
    (void)state;
    uint8_t bytes[TPU_BUNDLE_BYTES] = {0};
    bytes[40] = 0x40; /* bit 326, past the 322 */
    decode_refuses(bytes, "reserved bits are not 0");
    bytes[40] = 0x04; /* bit 322 is the first of the padding */
    decode_refuses(bytes, "reserved bits are not 0");
    bytes[40] = 0;
    bytes[0] = 0x08; /* an opcode without a predicate */
    decode_refuses(bytes, "an empty slot has fields that are not 0");
    bytes[0] = 0x04 | 31 << 3; /* scalar code 31 */
    decode_refuses(bytes, "an opcode that is not in the table");
}

static void descriptors(void **state) {
    (void)state;
    struct tpu_dma dma = {.from = TPU_HBM,
                          .to = TPU_VMEM,
                          .flag = 31,
                          .core = TPU_DMA_LOCAL,
                          .source = 0xfffffff0,
                          .target = 128,
                          .length = 16,
                          .count = {1, 2, 3},
                          .source_stride = {0, -64, 5},
                          .target_stride = {0, 128, 7}},
                   back;
    uint32_t words[TPU_DMA_WORDS];
    tpu_dma_encode(&dma, words);
    assert_null(tpu_dma_decode(words, &back));
    assert_memory_equal(&dma, &back, sizeof dma);
    static const struct {
        int word;
        uint32_t value;
        const char *message;
    } wrong[] = {{0, 0xff0003, "no such memory"},
                 {0, 0xff000c, "no such memory"},
                 {0, 0xff0204, "reserved bits of word 0 are not 0"},
                 {0, 0x1ff0004, "reserved bits of word 0 are not 0"},
                 {3, 0, "a run of no words"},
                 {4, 0, "a level that is repeated 0 times"},
                 {10, 0, "a level that is repeated 0 times"},
                 {13, 1, "words 13 to 15 are not 0"},
                 {15, 1, "words 13 to 15 are not 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tpu_dma_encode(&dma, words);
        words[wrong[i].word] = wrong[i].value;
        const char *why = tpu_dma_decode(words, &back);
        if (!why || strcmp(why, wrong[i].message))
            fail_msg("got \"%s\", want \"%s\"", why, wrong[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),       cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(known_bits),       cmocka_unit_test(fields_fill_the_bundle),
        cmocka_unit_test(codes_are_unique), cmocka_unit_test(invalid_bundles),
        cmocka_unit_test(wrong_fields),     cmocka_unit_test(wrong_bytes),
        cmocka_unit_test(descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
