/* Look-up in tables of fixed words. Each word has a key of one byte, computed from the table at
 * compile time; memchr over the keys leaves a candidate or two to compare. The scanner asks for
 * every word it reads. */
#ifndef IR_WORD_H
#define IR_WORD_H

#include <stdint.h>
#include <string.h>

/* Of a string literal, and of any text: the same function of its length and three of its bytes. */
#define WORD_KEY(text)                                                                             \
    ((uint8_t)((sizeof(text) - 1) * 31 + (uint8_t)(text)[0] * 7u +                                 \
               (uint8_t)(text)[(sizeof(text) - 1) / 2] * 13u +                                     \
               (uint8_t)(text)[(sizeof(text) - 1) * 3 / 4] * 5u))

static inline uint8_t word_key(const char *text, size_t length) {
    return (uint8_t)(length * 31 + (uint8_t)text[0] * 7u + (uint8_t)text[length / 2] * 13u +
                     (uint8_t)text[length * 3 / 4] * 5u);
}

struct word {
    const char *text;
    size_t length;
};

#define WORD(text) {text, sizeof(text) - 1}

/* Number of the word among `count`, of which the first (number 0) is none; 0 where absent. */
static inline int word_find(const uint8_t *keys, const struct word *words, int count,
                            const char *text, size_t length) {
    if (length == 0) return 0;
    uint8_t key = word_key(text, length);
    const uint8_t *end = keys + count;
    for (const uint8_t *at = keys + 1; (at = memchr(at, key, (size_t)(end - at))); at++) {
        const struct word *word = &words[at - keys];
        if (word->length == length && memcmp(word->text, text, length) == 0)
            return (int)(at - keys);
    }
    return 0;
}

#endif
