/* SHA-256 (FIPS 180-4): names for contents. */
#ifndef COMPILER_SHA256_H
#define COMPILER_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length;   /* bytes so far */
    uint8_t block[64]; /* the last length % 64 of them */
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t size);
void sha256_end(struct sha256 *hash, uint8_t digest[32]);

#endif
