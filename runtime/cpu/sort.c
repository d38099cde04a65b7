/* Sorting by a comparator, and by numeric keys: merges for short rows, radix passes for long. */
#include <string.h>

#include "runtime/cpu/kernels.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, SHORT_ROW = 512, INSERTION = 16 };

/* One element of a sort by keys. Up to 32 bits of key and 32 bits of position share a word. */
struct pair {
    uint64_t key, at;
};

/* ---- by comparator ---- */

/* Bottom-up merge sort: at peace with comparators that are no order. */
static void merge_sort(int64_t *order, int64_t *spare, int64_t count, hlocc_rt_before *before,
                       void *const *rows) {
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = start + 2 * width < count ? start + 2 * width : count;
            int64_t left = start, right = middle, k = start;
            while (left < middle && right < end)
                spare[k++] =
                    before(rows, order[right], order[left]) ? order[right++] : order[left++];
            memcpy(spare + k, order + left, (size_t)(middle - left) * sizeof *order);
            k += middle - left;
            memcpy(spare + k, order + right, (size_t)(end - right) * sizeof *order);
        }
        memcpy(order, spare, (size_t)count * sizeof *order);
    }
}

/* ---- by keys of up to 32 bits: words of key and position ---- */

static void insertion_sort(uint64_t *words, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        uint64_t word = words[i];
        int64_t k = i;
        for (; k > 0 && words[k - 1] > word; k--)
            words[k] = words[k - 1];
        words[k] = word;
    }
}

static void merge_words(uint64_t *words, uint64_t *spare, int64_t count) {
    for (int64_t start = 0; start < count; start += INSERTION)
        insertion_sort(words + start, count - start < INSERTION ? count - start : INSERTION);
    for (int64_t width = INSERTION; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = start + 2 * width < count ? start + 2 * width : count;
            int64_t left = start, right = middle;
            for (int64_t k = start; k < end; k++) {
                bool take_right = left >= middle || (right < end && words[right] < words[left]);
                spare[k] = take_right ? words[right++] : words[left++];
            }
        }
        memcpy(words, spare, (size_t)count * sizeof *words);
    }
}

/* Turns counts into first places; false where one digit has them all. */
static bool sum_counts(int64_t *counts, int64_t count) {
    int64_t sum = 0;
    for (int d = 0; d < DIGITS; d++) {
        int64_t here = counts[d];
        if (here == count) return false;
        counts[d] = sum;
        sum += here;
    }
    return true;
}

/* Sorts by bits 32 .. 32 + bits - 1. Returns where the words ended up: here or in the spare. */
static uint64_t *radix_words(uint64_t *words, uint64_t *spare, int64_t count, int bits) {
    int64_t counts[DIGITS];
    for (int shift = 32; shift < 32 + bits; shift += DIGIT_BITS) {
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < count; i++)
            counts[words[i] >> shift & (DIGITS - 1)]++;
        if (!sum_counts(counts, count)) continue;
        for (int64_t i = 0; i < count; i++)
            spare[counts[words[i] >> shift & (DIGITS - 1)]++] = words[i];
        uint64_t *swap = words;
        words = spare;
        spare = swap;
    }
    return words;
}

/* ---- by wider keys ---- */

static struct pair *radix_pairs(struct pair *pairs, struct pair *spare, int64_t count) {
    int64_t counts[DIGITS];
    for (int shift = 0; shift < 64; shift += DIGIT_BITS) {
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < count; i++)
            counts[pairs[i].key >> shift & (DIGITS - 1)]++;
        if (!sum_counts(counts, count)) continue;
        for (int64_t i = 0; i < count; i++)
            spare[counts[pairs[i].key >> shift & (DIGITS - 1)]++] = pairs[i];
        struct pair *swap = pairs;
        pairs = spare;
        spare = swap;
    }
    return pairs;
}

static struct pair *merge_pairs(struct pair *pairs, struct pair *spare, int64_t count) {
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = start + 2 * width < count ? start + 2 * width : count;
            int64_t left = start, right = middle;
            for (int64_t k = start; k < end; k++) {
                bool take_right =
                    left >= middle || (right < end && pairs[right].key < pairs[left].key);
                spare[k] = take_right ? pairs[right++] : pairs[left++];
            }
        }
        struct pair *swap = pairs;
        pairs = spare;
        spare = swap;
    }
    return pairs;
}

static bool keys_fit_word(int64_t count, int64_t bits) {
    return bits <= 32 && count <= (int64_t)1 << 32;
}

/* Bytes that sort_keys needs behind the keys. */
static int64_t keys_scratch(int64_t count, int64_t bits) {
    return keys_fit_word(count, bits) ? 8 * count : 32 * count;
}

/* Positions in the order of the keys, written over them. */
static void sort_keys(uint64_t *keys, void *scratch, int64_t count, int64_t bits) {
    if (keys_fit_word(count, bits)) {
        for (int64_t i = 0; i < count; i++)
            keys[i] = keys[i] << 32 | (uint64_t)i;
        uint64_t *sorted = keys;
        if (count < SHORT_ROW)
            merge_words(keys, scratch, count);
        else
            sorted = radix_words(keys, scratch, count, (int)bits);
        for (int64_t i = 0; i < count; i++)
            keys[i] = sorted[i] & 0xffffffff;
        return;
    }
    struct pair *pairs = scratch;
    for (int64_t i = 0; i < count; i++)
        pairs[i] = (struct pair){keys[i], (uint64_t)i};
    pairs = (count < SHORT_ROW ? merge_pairs : radix_pairs)(pairs, pairs + count, count);
    for (int64_t i = 0; i < count; i++)
        keys[i] = pairs[i].at;
}

/* ---- rows ---- */

#define MOVE_CASE(type, to, from)                                                                  \
    for (int64_t i = 0; i < count; i++)                                                            \
        ((type *)out)[to] = ((const type *)in)[from];                                              \
    break

struct two_words {
    uint64_t low, high;
};

/* out[i] = in[i * inner] */
static void take_row(void *out, const void *in, int64_t count, int64_t inner, int64_t size) {
    if (inner == 1) {
        memcpy(out, in, (size_t)(count * size));
        return;
    }
    switch (size) {
    case 1: MOVE_CASE(uint8_t, i, i *inner);
    case 2: MOVE_CASE(uint16_t, i, i *inner);
    case 4: MOVE_CASE(uint32_t, i, i *inner);
    case 8: MOVE_CASE(uint64_t, i, i *inner);
    default: MOVE_CASE(struct two_words, i, i * inner);
    }
}

/* out[i * inner] = in[order[i]] */
static void put_row(void *out, const void *in, const int64_t *order, int64_t count, int64_t inner,
                    int64_t size) {
    switch (size) {
    case 1: MOVE_CASE(uint8_t, i *inner, order[i]);
    case 2: MOVE_CASE(uint16_t, i *inner, order[i]);
    case 4: MOVE_CASE(uint32_t, i *inner, order[i]);
    case 8: MOVE_CASE(uint64_t, i *inner, order[i]);
    default: MOVE_CASE(struct two_words, i * inner, order[i]);
    }
}

int64_t hlocc_rt_sort_scratch(const int64_t *config) {
    int64_t n = config[SORT_LENGTH], bytes = hlocc_rt_align(8 * config[SORT_OPERANDS]);
    int64_t by_keys = keys_scratch(n, config[SORT_KEY_BITS]);
    for (int64_t j = 0; j < config[SORT_OPERANDS]; j++)
        bytes += hlocc_rt_align(n * config[SORT_SIZES + j]);
    return bytes + hlocc_rt_align(8 * n) + hlocc_rt_align(by_keys > 8 * n ? by_keys : 8 * n);
}

void hlocc_rt_sort(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                   int64_t end, hlocc_rt_before *before, hlocc_rt_keys *keys) {
    int64_t n = config[SORT_LENGTH], inner = config[SORT_INNER], count = config[SORT_OPERANDS];
    const int64_t *sizes = config + SORT_SIZES;
    void **rows = scratch;
    char *at = (char *)scratch + hlocc_rt_align(8 * count);
    for (int64_t j = 0; j < count; j++) {
        rows[j] = at;
        at += hlocc_rt_align(n * sizes[j]);
    }
    int64_t *order = (int64_t *)at;
    void *spare = at + hlocc_rt_align(8 * n);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t base = unit / inner * n * inner + unit % inner;
        for (int64_t j = 0; j < count; j++)
            take_row(rows[j], (char *)arrays[count + j] + base * sizes[j], n, inner, sizes[j]);
        if (keys && keys(rows, n, (uint64_t *)order)) {
            sort_keys((uint64_t *)order, spare, n, config[SORT_KEY_BITS]);
        } else {
            for (int64_t i = 0; i < n; i++)
                order[i] = i;
            merge_sort(order, spare, n, before, rows);
        }
        for (int64_t j = 0; j < count; j++)
            put_row((char *)arrays[j] + base * sizes[j], rows[j], order, n, inner, sizes[j]);
    }
}

/* ---- topk ---- */

/* Keeps the k smallest keys seen, sorted; an insertion costs k, but is rare for small k. */
static void select_keys(const uint64_t *keys, int64_t count, int64_t k, uint64_t *best,
                        int64_t *at) {
    int64_t have = 0;
    for (int64_t i = 0; i < count; i++) {
        if (have == k && keys[i] >= best[k - 1]) continue;
        int64_t place = have < k ? have++ : k - 1;
        for (; place > 0 && best[place - 1] > keys[i]; place--) {
            best[place] = best[place - 1];
            at[place] = at[place - 1];
        }
        best[place] = keys[i];
        at[place] = i;
    }
}

/* Candidates: keys below the worst of the k best so far, in the order of their places. */
struct candidates {
    int64_t count, room;
    uint64_t *keys, *sorted; /* room each */
    int64_t *at;
    void *spare; /* for sort_keys */
};

static struct candidates candidates_in(void *memory, int64_t room) {
    char *at = memory;
    struct candidates c = {.room = room, .keys = memory};
    c.sorted = (uint64_t *)(at + hlocc_rt_align(8 * room));
    c.at = (int64_t *)(at + 2 * hlocc_rt_align(8 * room));
    c.spare = at + 3 * hlocc_rt_align(8 * room);
    return c;
}

/* Keeps the k best in order, and returns the worst key of them. */
static uint64_t best_candidates(struct candidates *c, int64_t k) {
    memcpy(c->sorted, c->keys, (size_t)c->count * sizeof *c->keys);
    sort_keys(c->sorted, c->spare, c->count, 64);
    const int64_t *order = (const int64_t *)c->sorted;
    uint64_t *keys = c->spare;
    int64_t *at = (int64_t *)(keys + k);
    for (int64_t i = 0; i < k; i++) {
        keys[i] = c->keys[order[i]];
        at[i] = c->at[order[i]];
    }
    memcpy(c->keys, keys, (size_t)k * sizeof *keys);
    memcpy(c->at, at, (size_t)k * sizeof *at);
    c->count = k;
    return keys[k - 1];
}

/* The places of the k smallest keys, in order. Few keys are better than the k best so far, soon. */
static const int64_t *select_many(const uint64_t *keys, int64_t count, int64_t k, int64_t room,
                                  void *memory) {
    struct candidates c = candidates_in(memory, room);
    uint64_t limit = UINT64_MAX;
    bool full = false; /* there have been k */
    for (int64_t i = 0; i < count; i++) {
        if (full && keys[i] >= limit) continue;
        c.keys[c.count] = keys[i];
        c.at[c.count++] = i;
        if (c.count < room) continue;
        limit = best_candidates(&c, k);
        full = true;
    }
    if (c.count > k || !full) best_candidates(&c, k);
    return c.at;
}

/* Candidates that are worth it for k of n, or 0. */
static int64_t candidate_room(int64_t n, int64_t k) {
    int64_t room = 2 * k + 256;
    return room <= n / 4 ? room : 0;
}

/* Whether the k best are kept in order while all keys are looked at once. */
enum { SMALL_TOP = 64 };

static bool inserts(int64_t n, int64_t k) {
    return k <= SMALL_TOP / 2 || (k <= SMALL_TOP && !candidate_room(n, k));
}

int64_t hlocc_rt_topk_scratch(const int64_t *config) {
    return hlocc_rt_align(8 * config[TOPK_LENGTH]) + hlocc_rt_align(32 * config[TOPK_LENGTH]);
}

static void put_index(void *out, int64_t at, int64_t value, int64_t size) {
    switch (size) {
    case 1: ((int8_t *)out)[at] = (int8_t)value; break;
    case 2: ((int16_t *)out)[at] = (int16_t)value; break;
    case 4: ((int32_t *)out)[at] = (int32_t)value; break;
    default: ((int64_t *)out)[at] = value; break;
    }
}

void hlocc_rt_topk(const int64_t *config, void *const *arrays, void *scratch, int64_t begin,
                   int64_t end, hlocc_rt_keys *keys) {
    int64_t n = config[TOPK_LENGTH], k = config[TOPK_COUNT], size = config[TOPK_SIZE];
    uint64_t *work = scratch, best[SMALL_TOP];
    int64_t few[SMALL_TOP];
    void *spare = (char *)scratch + hlocc_rt_align(8 * n);
    for (int64_t unit = begin; unit < end; unit++) {
        char *row = (char *)arrays[2] + unit * n * size;
        const int64_t *order = inserts(n, k) ? few : (int64_t *)work;
        if (k == 0) continue;
        keys((void *const[]){row}, n, work);
        if (inserts(n, k))
            select_keys(work, n, k, best, few);
        else if (candidate_room(n, k))
            order = select_many(work, n, k, candidate_room(n, k), spare);
        else
            sort_keys(work, spare, n, 64);
        put_row((char *)arrays[0] + unit * k * size, row, order, k, 1, size);
        for (int64_t i = 0; i < k; i++)
            put_index(arrays[1], unit * k + i, order[i], config[TOPK_INDEX_SIZE]);
    }
}
