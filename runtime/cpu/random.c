/* Random bits: Threefry 2x32 and Philox 4x32 (Salmon et al., Parallel Random Numbers: As Easy as
 * 1, 2, 3, 2011), laid out as XLA does; and the generator of the old rng operation. */
#include <math.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/number.h"

static inline uint32_t rotate(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

/* Blocks at once, which the loops over them make vectors of. */
enum { BLOCKS = 64 };

/* The counters' words in x and y; then the blocks' words. */
CLONES __attribute__((optimize("O3"))) static void threefry(uint64_t key, uint32_t *restrict x,
                                                            uint32_t *restrict y) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t keys[3] = {(uint32_t)key, (uint32_t)(key >> 32)};
    keys[2] = keys[0] ^ keys[1] ^ 0x1bd11bda;
    for (int k = 0; k < BLOCKS; k++) {
        x[k] += keys[0];
        y[k] += keys[1];
    }
    for (int i = 0; i < 5; i++) {
        for (int r = 0; r < 4; r++) {
            int n = rotations[i % 2][r];
            for (int k = 0; k < BLOCKS; k++) {
                x[k] += y[k];
                y[k] = rotate(y[k], n) ^ x[k];
            }
        }
        uint32_t first = keys[(i + 1) % 3], second = keys[(i + 2) % 3] + (uint32_t)i + 1;
        for (int k = 0; k < BLOCKS; k++) {
            x[k] += first;
            y[k] += second;
        }
    }
}

static void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t x[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)x[0] * 0xd2511f53, b = (uint64_t)x[2] * 0xcd9e8d57;
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k0;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[1] = (uint32_t)b;
        x[3] = (uint32_t)a;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    memcpy(out, x, sizeof x);
}

static inline void put_bits(const int64_t *config, void *out, int64_t at, uint64_t bits) {
    switch (config[RANDOM_BITS]) {
    case 64: ((uint64_t *)out)[at] = bits; break;
    case 32: ((uint32_t *)out)[at] = (uint32_t)bits; break;
    case 16: ((uint16_t *)out)[at] = (uint16_t)bits; break;
    default: { /* 8 bits or less, wrapped to the type's range */
        int shift = 64 - (int)config[RANDOM_BITS];
        ((uint8_t *)out)[at] = (uint8_t)(config[RANDOM_SIGNED] ? (int64_t)(bits << shift) >> shift
                                                               : (int64_t)(bits << shift >> shift));
    }
    }
}

void hlocc_rt_threefry(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                       int64_t end) {
    uint64_t *next = arrays[0];
    const uint64_t *state = arrays[2];
    uint64_t key = state[0], counter = state[1];
    int64_t count = config[RANDOM_COUNT], split = config[RANDOM_SPLIT],
            inner = config[RANDOM_INNER];
    int64_t half = (split + 1) / 2, blocks = split ? count / split * half : count;
    (void)scratch;
    for (int64_t first = begin; first < end && first < count; first += BLOCKS) {
        uint32_t words[2][BLOCKS] = {{0}}, which[BLOCKS];
        int64_t rest = (end < count ? end : count) - first, n = rest < BLOCKS ? rest : BLOCKS;
        int64_t place =
            split ? first % inner : 0; /* in the inner dims, in the split one, outside */
        int64_t at = split ? first / inner % split : 0, outer = split ? first / inner / split : 0;
        for (int64_t i = 0; i < n; i++) {
            uint64_t block = (uint64_t)(first + i);
            which[i] = at & 1;
            if (split) {
                block = (uint64_t)((outer * half + (at >> 1)) * inner + place);
                if (++place == inner) place = 0, at++;
                if (at == split) at = 0, outer++;
            }
            words[0][i] = (uint32_t)(counter + block);
            words[1][i] = (uint32_t)((counter + block) >> 32);
        }
        threefry(key, words[0], words[1]);
        for (int64_t i = 0; i < n; i++)
            put_bits(config, arrays[1], first + i,
                     split ? words[which[i]][i] : words[0][i] | (uint64_t)words[1][i] << 32);
    }
    if (end == (count ? count : 1)) { /* the share that has the last element */
        next[0] = key;
        next[1] = counter + (uint64_t)blocks;
    }
}

/* The state is (key, counter), with the key above the counter, or (key, low, high). */
void hlocc_rt_philox(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                     int64_t end) {
    uint64_t *next = arrays[0];
    const uint64_t *state = arrays[2];
    int64_t words_of_state = config[RANDOM_STATE_WORDS], count = config[RANDOM_COUNT];
    uint64_t key = state[0], low = state[1], high = state[words_of_state == 3 ? 2 : 0];
    int per_block = config[RANDOM_BITS] == 64 ? 2 : 4;
    int64_t blocks = (count + per_block - 1) / per_block;
    uint32_t x[4];
    (void)scratch;
    for (int64_t b = begin; b < end; b++) {
        uint64_t sum = low + (uint64_t)b;
        philox(key, sum, high + (sum < low), x);
        for (int k = 0; k < per_block && b * per_block + k < count; k++)
            put_bits(config, arrays[1], b * per_block + k,
                     per_block == 4 ? x[k] : x[2 * k] | (uint64_t)x[2 * k + 1] << 32);
    }
    if (end == (blocks ? blocks : 1)) {
        next[0] = key;
        next[1] = low + (uint64_t)blocks;
        if (words_of_state == 3) next[2] = high + (next[1] < (uint64_t)blocks);
    }
}

/* ---- the old operation ---- */

static uint64_t next_bits(uint64_t *state) {
    uint32_t words[4];
    philox(state[0], state[1]++, 0, words);
    return words[0] | (uint64_t)words[1] << 32;
}

static double next_uniform(uint64_t *state) {
    return (double)(next_bits(state) >> 11) * 0x1p-53;
}

static double next_normal(uint64_t *state) {
    double u = 1.0 - next_uniform(state), v = next_uniform(state);
    return sqrt(-2.0 * log(u)) * cos(2.0 * acos(-1.0) * v);
}

/* An integer of the type, from and to an array. */
static int64_t get_integer(const int64_t *config, const void *data) {
    bool is_signed = config[RNG_SIGNED];
    switch (config[RNG_TYPE]) {
    case 64: return *(const int64_t *)data;
    case 32: return is_signed ? *(const int32_t *)data : (int64_t)*(const uint32_t *)data;
    case 16: return is_signed ? *(const int16_t *)data : *(const uint16_t *)data;
    default: return is_signed ? *(const int8_t *)data : *(const uint8_t *)data;
    }
}

void hlocc_rt_rng(const int64_t *config, void *const *arrays, uint64_t *state) {
    int64_t count = config[RNG_COUNT], type = config[RNG_TYPE];
    if (config[RNG_KIND] == RNG_INTEGER) {
        int64_t low = get_integer(config, arrays[1]), high = get_integer(config, arrays[2]);
        uint64_t range = (uint64_t)high - (uint64_t)low;
        const int64_t as_bits[RANDOM_NUMBERS] = {
            [RANDOM_BITS] = type, [RANDOM_SIGNED] = config[RNG_SIGNED]};
        for (int64_t k = 0; k < count; k++) {
            uint64_t bits = next_bits(state);
            put_bits(as_bits, arrays[0], k, (uint64_t)low + (range ? bits % range : bits));
        }
        return;
    }
    double a = creal(number_get(type, arrays[1], 0)), b = creal(number_get(type, arrays[2], 0));
    for (int64_t k = 0; k < count; k++) {
        bool normal = config[RNG_KIND] == RNG_NORMAL;
        double x = normal ? a + b * next_normal(state) : a + (b - a) * next_uniform(state);
        number_set(type, arrays[0], k, x);
        /* Rounding to a narrow type may reach the end that is excluded. */
        if (!normal && a < b && creal(number_get(type, arrays[0], k)) >= b)
            number_set(type, arrays[0], k, a);
    }
}
