/* Indices: sums of a scalar, multiples of the sublane and lane numbers, and a vector register. */
#include "backend/tpu/kernel.h"

enum { LAST_ROW = TPU_SUBLANES - 1, LAST_LANE = TPU_LANES - 1 };

static void span(int32_t coefficient, int last, int64_t *low, int64_t *high) {
    int64_t reach = (int64_t)coefficient * last;
    *(reach < 0 ? low : high) += reach;
}

struct ix ix_scalar(struct sx s) {
    return (struct ix){.s = s, .low = s.low, .high = s.high};
}

struct ix ix_const(int32_t c) {
    return ix_scalar(sx_const(c));
}

static struct ix ix_affine(struct sx s, int32_t rows, int32_t lanes) {
    struct ix a = {.s = s, .rows = rows, .lanes = lanes, .low = s.low, .high = s.high};
    span(rows, LAST_ROW, &a.low, &a.high);
    span(lanes, LAST_LANE, &a.low, &a.high);
    return a;
}

struct ix ix_rows(struct sx s) {
    return ix_affine(s, 1, 0);
}

struct ix ix_lanes(struct sx s) {
    return ix_affine(s, 0, 1);
}

struct ix ix_vector(treg v, int64_t low, int64_t high) {
    return (struct ix){
        .s = sx_const(0), .v = v, .v_low = low, .v_high = high, .low = low, .high = high};
}

bool ix_is_scalar(struct ix a) {
    return !a.rows && !a.lanes && !a.v;
}

bool ix_is_affine(struct ix a) {
    return !a.v;
}

bool ix_same(struct ix a, struct ix b) {
    return a.s.r == b.s.r && a.s.c == b.s.c && a.rows == b.rows && a.lanes == b.lanes && a.v == b.v;
}

struct ix ix_addi(struct ix a, int32_t c) {
    a.s = sx_addi(a.s, c);
    a.low += c;
    a.high += c;
    return a;
}

struct ix ix_add(struct kernel *k, struct ix a, struct ix b) {
    struct ix sum = {.s = sx_add(k, a.s, b.s), .rows = a.rows + b.rows, .lanes = a.lanes + b.lanes};
    sum.v = a.v && b.v ? k_binary(k, TPU_VADD, a.v, b.v) : a.v ? a.v : b.v;
    sum.by_row = sum.v && (!a.v || a.by_row) && (!b.v || b.by_row);
    sum.v_low = a.v_low + b.v_low;
    sum.v_high = a.v_high + b.v_high;
    sum.low = a.low + b.low;
    sum.high = a.high + b.high;
    return sum;
}

struct ix ix_muli(struct kernel *k, struct ix a, int32_t c) {
    if (c == 0) return ix_const(0);
    if (c == 1) return a;
    struct ix product = {.s = sx_muli(k, a.s, c), .rows = a.rows * c, .lanes = a.lanes * c};
    if (a.v) product.v = k_binary_i(k, TPU_VMUL, a.v, c);
    product.by_row = a.by_row;
    product.v_low = c > 0 ? a.v_low * c : a.v_high * c;
    product.v_high = c > 0 ? a.v_high * c : a.v_low * c;
    product.low = c > 0 ? a.low * c : a.high * c;
    product.high = c > 0 ? a.high * c : a.low * c;
    return product;
}

static treg scaled(struct kernel *k, treg v, int32_t by) {
    return by == 1 ? v : k_binary_i(k, TPU_VMUL, v, by);
}

static treg plus(struct kernel *k, treg a, treg b) {
    return a && b ? k_binary(k, TPU_VADD, a, b) : a ? a : b;
}

treg ix_reg(struct kernel *k, struct ix a) {
    treg sum = a.v;
    if (a.rows) sum = plus(k, sum, scaled(k, k_sublane(k), a.rows));
    if (a.lanes) sum = plus(k, sum, scaled(k, k_lane(k), a.lanes));
    if (!sum) return sx_is_const(a.s) ? k_const(k, a.s.c) : k_from_scalar(k, sx_reg(k, a.s));
    if (a.s.r) return k_binary_s(k, TPU_VADD, sum, sx_reg(k, a.s));
    return a.s.c ? k_binary_i(k, TPU_VADD, sum, a.s.c) : sum;
}

/* Largest power of two that is known to divide both. */
static int32_t common_power(struct sx s, int32_t c) {
    int32_t power = 1;
    while (c % (2 * power) == 0 && sx_divides(s, 2 * power))
        power *= 2;
    return power;
}

/* The part that differs between elements never carries over a multiple of c: it is less than a
 * power of two that divides c and the scalar part. */
static bool stays_within(struct ix a, int32_t c) {
    int64_t low = a.v_low, high = a.v_high, bound = sx_divides(a.s, c) ? c : common_power(a.s, c);
    span(a.rows, LAST_ROW, &low, &high);
    span(a.lanes, LAST_LANE, &low, &high);
    return low >= 0 && high < bound;
}

/* One number a sublane: the scalar part divides by itself, and the rest, which is small, in a
 * register: a = c * (s / c) + (s mod c + rows * sublane + v). */
static bool is_small_by_row(struct ix a, int32_t c) {
    bool power = (c & (c - 1)) == 0;
    int64_t high = a.v_high + (int64_t)a.rows * LAST_ROW + c;
    if (a.lanes || (a.v && !a.by_row) || (!a.v && !a.rows)) return false;
    return a.rows >= 0 && a.v_low >= 0 && high * c < 1 << 16 && (power || a.s.low >= 0);
}

static treg small_part(struct kernel *k, struct ix a, int32_t c) {
    struct ix small = a;
    small.s = sx_mod(k, a.s, c);
    return ix_reg(k, small);
}

/* t / c where t * c < 2^16. */
static treg small_quotient(struct kernel *k, treg t, int32_t c) {
    if ((c & (c - 1)) == 0) return k_binary_i(k, TPU_VSHR, t, __builtin_ctz((unsigned)c));
    return k_binary_i(k, TPU_VSHR, k_binary_i(k, TPU_VMUL, t, (1 << 16) / c + 1), 16);
}

static struct ix by_row(struct sx s, treg v, int64_t v_high) {
    return (struct ix){
        .s = s, .v = v, .by_row = true, .v_high = v_high, .low = s.low, .high = s.high + v_high};
}

struct ix ix_div(struct kernel *k, struct ix a, int32_t c) {
    if (c == 1) return a;
    if (a.low >= 0 && a.high < c) return ix_const(0);
    if (ix_is_scalar(a) || stays_within(a, c)) return ix_scalar(sx_div(k, a.s, c));
    /* (s + c * rows + ...) / c where all but `rows` stay within. */
    if (ix_is_affine(a) && a.rows % c == 0) {
        struct ix rest = ix_affine(a.s, 0, a.lanes);
        if (stays_within(rest, c)) return ix_affine(sx_div(k, a.s, c), a.rows / c, 0);
    }
    if (is_small_by_row(a, c))
        return by_row(sx_div(k, a.s, c), small_quotient(k, small_part(k, a, c), c),
                      (c - 1 + a.v_high + (int64_t)a.rows * LAST_ROW) / c);
    bool power = (c & (c - 1)) == 0;
    if (a.low < 0 && !power) a = ix_clamp(k, a, 0, INT32_MAX);
    treg v = ix_reg(k, a);
    v = power ? k_binary_i(k, TPU_VSAR, v, __builtin_ctz((unsigned)c))
              : k_eup(k, TPU_EDIVU, v, k_const(k, c));
    return ix_vector(v, a.low / c - (a.low % c < 0), a.high / c - (a.high % c < 0));
}

struct ix ix_mod(struct kernel *k, struct ix a, int32_t c) {
    if (c == 1) return ix_const(0);
    if (a.low >= 0 && a.high < c) return a;
    if (ix_is_scalar(a)) return ix_scalar(sx_mod(k, a.s, c));
    if (stays_within(a, c)) {
        struct ix part = ix_affine(sx_mod(k, a.s, c), a.rows, a.lanes);
        if (!a.v) return part;
        struct ix rest = {.s = sx_const(0), .v = a.v, .by_row = a.by_row};
        rest.low = rest.v_low = a.v_low;
        rest.high = rest.v_high = a.v_high;
        return ix_add(k, part, rest);
    }
    if (ix_is_affine(a) && a.rows % c == 0) {
        struct ix rest = ix_affine(a.s, 0, a.lanes);
        if (stays_within(rest, c)) return ix_affine(sx_mod(k, a.s, c), 0, a.lanes);
    }
    if (is_small_by_row(a, c)) {
        treg t = small_part(k, a, c), whole = k_binary_i(k, TPU_VMUL, small_quotient(k, t, c), c);
        return by_row(sx_const(0), k_binary(k, TPU_VSUB, t, whole), c - 1);
    }
    bool power = (c & (c - 1)) == 0;
    if (a.low < 0 && !power) a = ix_clamp(k, a, 0, INT32_MAX);
    treg v = ix_reg(k, a);
    v = power ? k_binary_i(k, TPU_VAND, v, c - 1) : k_eup(k, TPU_EREMU, v, k_const(k, c));
    return ix_vector(v, 0, c - 1);
}

struct ix ix_clamp(struct kernel *k, struct ix a, int32_t low, int32_t high) {
    if (a.low >= low && a.high <= high) return a;
    if (ix_is_scalar(a)) return ix_scalar(sx_clamp(k, a.s, low, high));
    treg v = ix_reg(k, a);
    if (a.low < low) v = k_binary_i(k, TPU_VMAXS, v, low);
    if (a.high > high) v = k_binary_i(k, TPU_VMINS, v, high);
    return ix_vector(v, a.low > low ? a.low : low, a.high < high ? a.high : high);
}

struct ix ix_unstride(struct kernel *k, struct ix a, int32_t step, int32_t last, treg *inside) {
    *inside = m_and(k, *inside, ix_within(k, a, 0, last));
    if (step == 1) return a;
    /* Shifts round what is below 0 down. */
    if ((step & (step - 1)) || ix_is_scalar(a)) a = ix_clamp(k, a, 0, last);
    treg rest = ix_reg(k, ix_mod(k, a, step));
    *inside = m_and(k, *inside, k_binary_i(k, TPU_VEQ, rest, 0));
    return ix_div(k, a, step);
}

treg ix_within(struct kernel *k, struct ix a, int32_t low, int32_t high) {
    treg above = 0, below = 0;
    if (a.low >= low && a.high <= high) return 0;
    treg v = ix_reg(k, a);
    if (a.low < low) above = k_binary_i(k, TPU_VGES, v, low);
    if (a.high > high) below = k_binary_i(k, TPU_VLES, v, high);
    return m_and(k, above, below);
}
