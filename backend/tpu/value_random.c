/* rng-bit-generator: Threefry 2x32 and Philox 4x32 (Salmon et al., 2011), laid out over the result
 * as the evaluator does; each place computes the block that its bits come from. */
#include "backend/tpu/value.h"

static treg rotate(struct kernel *k, treg x, int n) {
    return k_binary(k, TPU_VOR, k_binary_i(k, TPU_VSHL, x, n), k_binary_i(k, TPU_VSHR, x, 32 - n));
}

struct tval random_counter(struct kernel *k, struct tval a, treg n) {
    treg low = k_binary(k, TPU_VADD, a.v[0], n);
    treg carry = k_select(k, k_binary(k, TPU_VLTU, low, n), k_const(k, 1), k_const(k, 0));
    return (struct tval){{low, k_binary(k, TPU_VADD, a.v[1], carry)}};
}

static void threefry(struct kernel *k, struct tval key, struct tval counter, treg out[2]) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    treg keys[3] = {key.v[0], key.v[1],
                    k_binary_i(k, TPU_VXOR, k_binary(k, TPU_VXOR, key.v[0], key.v[1]), 0x1bd11bda)};
    treg x = k_binary(k, TPU_VADD, counter.v[0], keys[0]);
    treg y = k_binary(k, TPU_VADD, counter.v[1], keys[1]);
    for (int i = 0; i < 5; i++) {
        for (int r = 0; r < 4; r++) {
            x = k_binary(k, TPU_VADD, x, y);
            y = k_binary(k, TPU_VXOR, rotate(k, y, rotations[i % 2][r]), x);
        }
        x = k_binary(k, TPU_VADD, x, keys[(i + 1) % 3]);
        y = k_binary_i(k, TPU_VADD, k_binary(k, TPU_VADD, y, keys[(i + 2) % 3]), i + 1);
    }
    out[0] = x;
    out[1] = y;
}

void random_philox(struct kernel *k, struct tval key, struct tval low, struct tval high,
                   treg x[4]) {
    treg k0 = key.v[0], k1 = key.v[1];
    treg m0 = k_const(k, (int32_t)0xd2511f53), m1 = k_const(k, (int32_t)0xcd9e8d57);
    x[0] = low.v[0], x[1] = low.v[1], x[2] = high.v[0], x[3] = high.v[1];
    for (int round = 0; round < 10; round++) {
        treg a = x[0], b = x[2], x1 = x[1], x3 = x[3];
        treg high_b = k_binary(k, TPU_VMULHU, b, m1), high_a = k_binary(k, TPU_VMULHU, a, m0);
        x[0] = k_binary(k, TPU_VXOR, k_binary(k, TPU_VXOR, high_b, x1), k0);
        x[1] = k_binary(k, TPU_VMUL, b, m1);
        x[2] = k_binary(k, TPU_VXOR, k_binary(k, TPU_VXOR, high_a, x3), k1);
        x[3] = k_binary(k, TPU_VMUL, a, m0);
        k0 = k_binary_i(k, TPU_VADD, k0, (int32_t)0x9e3779b9);
        k1 = k_binary_i(k, TPU_VADD, k1, (int32_t)0xbb67ae85);
    }
}

static bool is_wide(const struct shape *shape) {
    return element_type_size(shape->type) == 8;
}

struct ix random_block(struct kernel *k, const struct shape *shape, const struct ix *index,
                       int split) {
    struct ix block = ix_const(0);
    for (int d = 0; d < shape->rank; d++) {
        bool here = d == split;
        int64_t size = here ? (shape->dims[d] + 1) / 2 : shape->dims[d];
        struct ix at = here ? ix_div(k, index[d], 2) : index[d];
        block = ix_add(k, ix_muli(k, block, (int32_t)size), at);
    }
    return block;
}

static int64_t threefry_blocks(const struct shape *shape) {
    int split = shape_threefry_dim(shape);
    int64_t blocks = 1;
    if (is_wide(shape) || shape->rank == 0) return shape->count;
    for (int d = 0; d < shape->rank; d++)
        blocks *= d == split ? (shape->dims[d] + 1) / 2 : shape->dims[d];
    return blocks;
}

static int64_t philox_blocks(const struct shape *shape) {
    int per_block = is_wide(shape) ? 2 : 4;
    return (shape->count + per_block - 1) / per_block;
}

static treg select_word(struct kernel *k, treg number, const treg *words, int count) {
    treg result = words[0];
    for (int i = 1; i < count; i++)
        result = k_select(k, k_binary_i(k, TPU_VEQ, number, i), words[i], result);
    return result;
}

static struct tval threefry_bits(struct kernel *k, const struct shape *shape,
                                 const struct ix *index, const struct tval *state) {
    bool whole = is_wide(shape) || shape->rank == 0;
    int split = whole ? -1 : shape_threefry_dim(shape);
    treg words[2];
    struct ix block = random_block(k, shape, index, split);
    threefry(k, state[0], random_counter(k, state[1], ix_reg(k, block)), words);
    if (is_wide(shape)) return (struct tval){{words[0], words[1]}};
    if (whole) return (struct tval){{words[0], 0}};
    treg which = ix_reg(k, ix_mod(k, index[split], 2));
    return (struct tval){{select_word(k, which, words, 2), 0}};
}

static struct tval philox_bits(struct kernel *k, const struct shape *shape, const struct ix *index,
                               const struct tval *state, struct tval high) {
    int per_block = is_wide(shape) ? 2 : 4;
    struct ix place = random_block(k, shape, index, -1);
    treg block = ix_reg(k, ix_div(k, place, per_block));
    treg which = ix_reg(k, ix_mod(k, place, per_block)), words[4];
    struct tval low = random_counter(k, state[1], block);
    treg carry = k_binary(k, TPU_VLTU, low.v[1], state[1].v[1]);
    treg one = k_select(k, carry, k_const(k, 1), k_const(k, 0));
    random_philox(k, state[0], low, random_counter(k, high, one), words);
    if (per_block == 4) return (struct tval){{select_word(k, which, words, 4), 0}};
    treg odd[2] = {words[1], words[3]}, even[2] = {words[0], words[2]};
    return (struct tval){{select_word(k, which, even, 2), select_word(k, which, odd, 2)}};
}

/* The state after it: the counter grows by the number of blocks. */
static struct tval next_state(struct kernel *k, const struct ix *index, const struct tval *state,
                              int words, int64_t blocks) {
    struct tval counter = random_counter(k, state[1], k_const(k, (int32_t)blocks));
    treg carry = k_binary(k, TPU_VLTU, counter.v[1], state[1].v[1]);
    treg one = k_select(k, carry, k_const(k, 1), k_const(k, 0));
    treg place = ix_reg(k, index[0]);
    treg is_counter = k_binary_i(k, TPU_VEQ, place, 1);
    struct tval result = element_select(k, is_counter, counter, state[0]);
    if (words < 3) return result;
    return element_select(k, k_binary_i(k, TPU_VEQ, place, 2), random_counter(k, state[2], one),
                          result);
}

struct tval value_random_bits(struct values *g, const struct hlo_instr *instr, int leaf,
                              const struct ix *index) {
    struct kernel *k = g->k;
    const struct shape *in = instr->operands[0]->shape, *shape = instr->shape;
    int64_t algorithm = instr_int(instr, ATTR_ALGORITHM, ENUM_RNG_ALGORITHM_DEFAULT);
    bool is_threefry = algorithm == ENUM_RNG_ALGORITHM_THREE_FRY;
    struct tval state[3], result;
    if (!shape_is_tuple(shape) || shape->ntuple != 2 || in->type != TYPE_U64 || in->count < 2 ||
        in->count > 3 || (is_threefry && in->count != 2))
        return (struct tval){{0, 0}};
    const struct shape *bits = shape->tuple[1];
    for (int i = 0; i < in->count; i++) {
        struct ix at = ix_const(i);
        state[i] = value_at(g, instr->operands[0], 0, &at, 0);
    }
    if (leaf == 0) {
        int64_t blocks = is_threefry ? threefry_blocks(bits) : philox_blocks(bits);
        return next_state(k, index, state, (int)in->count, blocks);
    }
    result = is_threefry ? threefry_bits(k, bits, index, state)
                         : philox_bits(k, bits, index, state, state[in->count == 3 ? 2 : 0]);
    if (element_type_size(bits->type) >= 4) return result;
    return element_convert(k, result, TYPE_U32, bits->type);
}
