/* Random bits: Threefry 2x32 and Philox 4x32 (Salmon et al., Parallel Random Numbers: As Easy as
 * 1, 2, 3, 2011), laid out as XLA does. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"

static uint32_t rotate(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

static void threefry(uint64_t key, uint64_t counter, uint32_t out[2]) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t keys[3] = {(uint32_t)key, (uint32_t)(key >> 32), 0};
    uint32_t x, y;

    keys[2] = keys[0] ^ keys[1] ^ 0x1bd11bda;
    x = (uint32_t)counter + keys[0];
    y = (uint32_t)(counter >> 32) + keys[1];
    for (int i = 0; i < 5; i++) {
        for (int r = 0; r < 4; r++) {
            x += y;
            y = rotate(y, rotations[i % 2][r]) ^ x;
        }
        x += keys[(i + 1) % 3];
        y += keys[(i + 2) % 3] + (uint32_t)i + 1;
    }
    out[0] = x;
    out[1] = y;
}

static void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t x[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)x[0] * 0xd2511f53, b = (uint64_t)x[2] * 0xcd9e8d57;
        uint32_t x1 = x[1], x3 = x[3];

        x[0] = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x[3] = (uint32_t)a;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    memcpy(out, x, sizeof x);
}

static void put_bits(struct literal *out, int64_t at, uint64_t bits) {
    switch (element_type_size(out->shape->type)) {
    case 1:
        ((uint8_t *)out->data)[at] =
            (uint8_t)scalar_wrap((int64_t)bits, element_type_info(out->shape->type)->bits,
                                 element_type_is_signed(out->shape->type));
        break;
    case 2: ((uint16_t *)out->data)[at] = (uint16_t)bits; break;
    case 4: ((uint32_t *)out->data)[at] = (uint32_t)bits; break;
    default: ((uint64_t *)out->data)[at] = bits; break;
    }
}

/* Returns the number of blocks used. */
static int64_t fill_threefry(struct literal *out, uint64_t key, uint64_t counter) {
    const struct shape *shape = out->shape;
    int64_t index[SHAPE_MAX_RANK] = {0}, done = 0, blocks = 1, half;
    int split = shape_threefry_dim(shape);
    uint32_t words[2];

    if (element_type_size(shape->type) == 8 || shape->rank == 0) {
        for (int64_t k = 0; k < shape->count; k++) {
            threefry(key, counter + (uint64_t)k, words);
            put_bits(out, k, words[0] | (uint64_t)words[1] << 32);
        }
        return shape->count;
    }
    half = (shape->dims[split] + 1) / 2;
    for (int i = 0; i < shape->rank; i++)
        blocks *= i == split ? half : shape->dims[i];
    if (shape->count == 0) return blocks;
    do {
        int64_t block = 0;

        for (int i = 0; i < shape->rank; i++)
            block = i == split ? block * half + index[i] / 2 : block * shape->dims[i] + index[i];
        threefry(key, counter + (uint64_t)block, words);
        put_bits(out, done++, words[index[split] % 2]);
    } while (index_next(shape->rank, shape->dims, index));
    return blocks;
}

static int64_t fill_philox(struct literal *out, uint64_t key, uint64_t low, uint64_t high) {
    int64_t count = out->shape->count;
    int per_block = element_type_size(out->shape->type) == 8 ? 2 : 4;
    int64_t blocks = (count + per_block - 1) / per_block;
    uint32_t words[4];

    for (int64_t b = 0; b < blocks; b++) {
        uint64_t sum = low + (uint64_t)b;

        philox(key, sum, high + (sum < low), words);
        for (int k = 0; k < per_block && b * per_block + k < count; k++)
            put_bits(out, b * per_block + k,
                     per_block == 4 ? words[k] : words[2 * k] | (uint64_t)words[2 * k + 1] << 32);
    }
    return blocks;
}

struct literal *eval_rng_bit_generator(struct eval *e, const struct hlo_instr *instr,
                                       struct literal **ops) {
    const struct shape *shape = instr->shape, *in = ops[0]->shape;
    int64_t algorithm = instr_int(instr, ATTR_ALGORITHM, ENUM_RNG_ALGORITHM_DEFAULT);
    struct literal *result;
    const uint64_t *state = ops[0]->data;
    uint64_t *next, used;

    if (!shape_is_tuple(shape) || shape->ntuple != 2 || !shape_is_array(shape->tuple[1]) ||
        in->type != TYPE_U64 || in->count < 2 || in->count > 3 ||
        !shape_compatible(shape->tuple[0], in) ||
        (algorithm == ENUM_RNG_ALGORITHM_THREE_FRY && in->count != 2))
        return eval_error(e, instr, "no evaluation for this state or result");
    result = eval_new(e, instr, shape);
    if (!result) return NULL;
    next = result->elements[0]->data;
    memcpy(next, state, ops[0]->size);
    if (algorithm == ENUM_RNG_ALGORITHM_THREE_FRY) {
        next[1] += (uint64_t)fill_threefry(result->elements[1], state[0], state[1]);
        return result;
    }
    /* (key, counter) or (key, low, high); a counter of one word has the key above it. */
    used = (uint64_t)fill_philox(result->elements[1], state[0], state[1],
                                 state[in->count == 3 ? 2 : 0]);
    next[1] += used;
    if (in->count == 3) next[2] += next[1] < used;
    return result;
}

/* The evaluator's own generator for the old operation: a Philox block an element. */
static uint64_t next_bits(struct eval *e) {
    uint32_t words[4];

    philox(e->rng_state[0], e->rng_state[1]++, 0, words);
    return words[0] | (uint64_t)words[1] << 32;
}

static double next_uniform(struct eval *e) {
    return (double)(next_bits(e) >> 11) * 0x1p-53;
}

static double next_normal(struct eval *e) {
    double u = 1.0 - next_uniform(e), v = next_uniform(e);

    return sqrt(-2.0 * log(u)) * cos(2.0 * acos(-1.0) * v);
}

struct literal *eval_rng(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    bool normal = instr_int(instr, ATTR_DISTRIBUTION, 0) == ENUM_DISTRIBUTION_NORMAL;
    bool integral = !element_type_is_float(instr->shape->type);
    struct literal *result = eval_new(e, instr, instr->shape);
    double a = literal_get_double(ops[0], 0), b = literal_get_double(ops[1], 0), x;

    for (int64_t k = 0; result && k < instr->shape->count; k++) {
        if (integral) {
            int64_t low = literal_get_int(ops[0], 0), high = literal_get_int(ops[1], 0);
            uint64_t range = (uint64_t)high - (uint64_t)low, bits = next_bits(e);

            literal_set_int(result, k, (int64_t)((uint64_t)low + (range ? bits % range : bits)));
            continue;
        }
        x = normal ? a + b * next_normal(e) : a + (b - a) * next_uniform(e);
        literal_set_double(result, k, x);
        /* Rounding to a narrow type may reach the end that is excluded. */
        if (!normal && a < b && literal_get_double(result, k) >= b)
            literal_set_double(result, k, a);
    }
    return result;
}

/* The state before an advance by `delta`. */
struct literal *eval_rng_state(struct eval *e, const struct hlo_instr *instr,
                               struct literal **ops) {
    struct literal *result = eval_new(e, instr, instr->shape);

    (void)ops;
    if (result && instr->shape->type == TYPE_U64 && instr->shape->count >= 2) {
        ((uint64_t *)result->data)[0] = e->rng_state[1];
        ((uint64_t *)result->data)[1] = e->rng_state[0];
    }
    e->rng_state[1] += (uint64_t)instr_int(instr, ATTR_DELTA, 1);
    return result;
}

/* Rounds away from zero with the probability that the fraction says. */
struct literal *eval_stochastic_convert(struct eval *e, const struct hlo_instr *instr,
                                        struct literal **ops) {
    enum element_type to = instr->shape->type, from = ops[0]->shape->type;
    int bits = element_type_info(ops[1]->shape->type)->bits;
    struct literal *result;
    union scalar u, x;
    double value, whole, part;

    if (!element_type_is_float(from) || !element_type_is_integral(to) ||
        ops[1]->shape->count != instr->shape->count || ops[0]->shape->count != instr->shape->count)
        return eval_error(e, instr, "no evaluation for these operand types");
    result = eval_new(e, instr, instr->shape);
    for (int64_t k = 0; result && k < instr->shape->count; k++) {
        scalar_load(ops[1]->shape->type, ops[1]->data, k, 1, &u);
        value = literal_get_double(ops[0], k);
        if (from != TYPE_F16 && fabs(value) < (from == TYPE_F64 ? DBL_MIN : FLT_MIN))
            value = copysign(0.0, value); /* subnormal operands are zero */
        part = modf(fabs(value), &whole);
        if (part > 0 && (double)(uint64_t)scalar_wrap(u.i, bits, false) < ldexp(part, bits))
            whole += 1;
        x.d = copysign(whole, value);
        if (isnan(value)) x.d = value;
        scalar_convert(TYPE_F64, to, 1, &x, &x);
        scalar_store(to, result->data, k, 1, &x);
    }
    return result;
}
