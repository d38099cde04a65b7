/* Float formats against their definitions: every code, every rounding boundary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "ir/number.h"

static const enum element_type narrow[] = {
    TYPE_F4E2M1FN,   TYPE_F8E3M4, TYPE_F8E4M3,     TYPE_F8E4M3FN, TYPE_F8E4M3B11FNUZ,
    TYPE_F8E4M3FNUZ, TYPE_F8E5M2, TYPE_F8E5M2FNUZ, TYPE_F16,      TYPE_BF16,
};
enum { NARROW = sizeof narrow / sizeof *narrow };

static double decode(enum element_type type, uint64_t bits) {
    return number_decode(type, bits);
}

static void check_code(enum element_type type, double value, uint64_t code) {
    uint64_t got = number_encode(type, value);
    if (got != code)
        fail_msg("%s: %a gives %#llx, not %#llx", element_type_name(type), value,
                 (unsigned long long)got, (unsigned long long)code);
}

static void test_codes_round_trip(void **state) {
    (void)state;
    for (int k = 0; k < NARROW; k++) {
        uint64_t codes = (uint64_t)1 << element_type_info(narrow[k])->bits;
        for (uint64_t code = 0; code < codes; code++) {
            double value = decode(narrow[k], code);
            if (value == value) check_code(narrow[k], value, code);
        }
    }
    for (uint64_t code = 0; code < 255; code++)
        check_code(TYPE_F8E8M0FNU, decode(TYPE_F8E8M0FNU, code), code);
}

/* Halfway between neighbours the even code wins; a hair to either side the nearer one. */
static void test_rounding(void **state) {
    (void)state;
    for (int k = 0; k < NARROW; k++) {
        enum element_type type = narrow[k];
        uint64_t half = (uint64_t)1 << (element_type_info(type)->bits - 1);
        for (uint64_t code = 0; code + 1 < half; code++) {
            double low = decode(type, code), high = decode(type, code + 1);
            if (!isfinite(low) || !isfinite(high)) continue;
            double middle = (low + high) / 2;
            check_code(type, middle, code + (code & 1));
            check_code(type, nextafter(middle, 0), code);
            check_code(type, nextafter(middle, INFINITY), code + 1);
        }
    }
}

static void test_special_values(void **state) {
    (void)state;
    assert_true(decode(TYPE_F8E4M3FN, 0x7e) == 448);
    assert_true(decode(TYPE_F8E5M2, 0x7b) == 57344);
    assert_true(decode(TYPE_F8E4M3FNUZ, 0x7f) == 240);
    assert_true(decode(TYPE_F8E4M3B11FNUZ, 0x7f) == 30);
    assert_true(decode(TYPE_F8E5M2FNUZ, 0x7f) == 57344);
    assert_true(decode(TYPE_F4E2M1FN, 0x7) == 6);
    assert_true(decode(TYPE_F8E8M0FNU, 0) == 0x1p-127);
    assert_true(isnan(decode(TYPE_F8E8M0FNU, 0xff)));
    assert_true(isnan(decode(TYPE_F8E4M3FNUZ, 0x80)));
    assert_true(isnan(decode(TYPE_F8E4M3FN, 0x7f)));
    assert_true(isinf(decode(TYPE_F8E4M3, 0x78)));
    assert_true(isinf(decode(TYPE_F8E3M4, 0xf0)));
}

static void test_overflow(void **state) {
    (void)state;
    check_code(TYPE_F8E4M3FN, 464, 0x7e);
    check_code(TYPE_F8E4M3FN, 464.001, 0x7f);
    check_code(TYPE_F8E4M3FN, -INFINITY, 0xff);
    check_code(TYPE_F8E5M2, 61439, 0x7b);
    check_code(TYPE_F8E5M2, 61440, 0x7c);
    check_code(TYPE_F8E5M2, -1e30, 0xfc);
    check_code(TYPE_F8E4M3, 1e30, 0x78);
    check_code(TYPE_F8E3M4, -1e30, 0xf0);
    check_code(TYPE_F8E4M3FNUZ, 1e30, 0x80);
    check_code(TYPE_F8E4M3B11FNUZ, INFINITY, 0x80);
    check_code(TYPE_F8E5M2FNUZ, -INFINITY, 0x80);
    check_code(TYPE_F4E2M1FN, 1e30, 0x7);
    check_code(TYPE_F4E2M1FN, -INFINITY, 0xf);
    check_code(TYPE_F16, 65519, 0x7bff);
    check_code(TYPE_F16, 65520, 0x7c00);
    check_code(TYPE_BF16, 0x1.fffffep127, 0x7f80);
    check_code(TYPE_F8E8M0FNU, INFINITY, 0xff);
}

static void test_zero_and_nan(void **state) {
    (void)state;
    check_code(TYPE_F8E4M3FNUZ, -0.0, 0);
    check_code(TYPE_F8E5M2FNUZ, -1e-30, 0);
    check_code(TYPE_F8E5M2, -0.0, 0x80);
    check_code(TYPE_F16, -1e-30, 0x8000);
    check_code(TYPE_F4E2M1FN, NAN, 0x8);
    check_code(TYPE_F8E5M2, NAN, 0x7e);
    check_code(TYPE_F8E4M3FN, NAN, 0x7f);
    check_code(TYPE_F8E4M3FN, -NAN, 0xff);
    check_code(TYPE_F8E4M3FNUZ, NAN, 0x80);
    check_code(TYPE_F8E8M0FNU, NAN, 0xff);
    check_code(TYPE_F8E8M0FNU, 0, 0xff);
    check_code(TYPE_F8E8M0FNU, -1, 0xff);
    check_code(TYPE_F8E8M0FNU, 3, 129);
    check_code(TYPE_F8E8M0FNU, 6, 130);
    check_code(TYPE_F8E8M0FNU, 5, 129);
    check_code(TYPE_F8E8M0FNU, 1, 127);
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_bf16(void **state) {
    (void)state;
    assert_int_equal(number_float_to_bf16(1.0f), 0x3f80);
    assert_int_equal(number_float_to_bf16(float_of(0x3f808000)), 0x3f80);
    assert_int_equal(number_float_to_bf16(float_of(0x3f818000)), 0x3f82);
    assert_int_equal(number_float_to_bf16(float_of(0x3f808001)), 0x3f81);
    assert_int_equal(number_float_to_bf16(float_of(0x00018000)), 0x0002); /* subnormal */
    assert_int_equal(number_float_to_bf16(float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(number_float_to_bf16(float_of(0xffffffff)), 0xffc0);
    assert_int_equal(number_float_to_bf16(float_of(0x7f7fffff)), 0x7f80);
    assert_true(number_bf16_to_float(0xc000) == -2.0f);
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = number_bf16_to_float((uint16_t)bits);
        if (value == value) assert_int_equal(number_float_to_bf16(value), bits);
    }
}

static void test_f16(void **state) {
    (void)state;
    assert_int_equal(number_float_to_f16(1.0f), 0x3c00);
    assert_int_equal(number_float_to_f16(0x1p-24f), 1);
    assert_int_equal(number_float_to_f16(0x1p-25f), 0);
    assert_int_equal(number_float_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(number_float_to_f16(-INFINITY), 0xfc00);
    assert_true(isnan(number_f16_to_float(0x7e00)));
    assert_true(number_f16_to_float(0x0001) == 0x1p-24f);
    assert_true(number_f16_to_float(0x7bff) == 65504.0f);
}

static void test_wide(void **state) {
    (void)state;
    check_code(TYPE_F32, 1, 0x3f800000);
    check_code(TYPE_F32, 1e300, 0x7f800000);
    check_code(TYPE_F64, -2, 0xc000000000000000u);
    assert_true(decode(TYPE_F32, 0x00000001) == 0x1p-149);
    /* A NaN's payload survives decoding and encoding again. */
    assert_int_equal(number_encode(TYPE_F32, decode(TYPE_F32, 0xffc12345)), 0xffc12345);
    assert_int_equal(number_encode(TYPE_F64, decode(TYPE_F64, 0x7ff8000000abcdefu)),
                     0x7ff8000000abcdefu);
}

static void test_integers(void **state) {
    (void)state;
    assert_int_equal(number_wrap(TYPE_S4, 9), -7);
    assert_int_equal(number_wrap(TYPE_U4, -1), 15);
    assert_int_equal(number_wrap(TYPE_S1, 1), -1);
    assert_int_equal(number_wrap(TYPE_U2, 7), 3);
    assert_int_equal(number_wrap(TYPE_S64, INT64_MIN), INT64_MIN);
    assert_int_equal(number_wrap(TYPE_U32, -1), 0xffffffffll);
    assert_int_equal(number_int_max(TYPE_S4), 7);
    assert_int_equal(number_int_min(TYPE_S4), -8);
    assert_int_equal(number_int_max(TYPE_U64), -1);
    assert_int_equal(number_int_min(TYPE_S64), INT64_MIN);
    assert_int_equal(number_int_max(TYPE_S64), INT64_MAX);
    assert_int_equal(number_int_min(TYPE_U8), 0);
    assert_int_equal(number_int_max(TYPE_S1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_round_trip),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_zero_and_nan),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
