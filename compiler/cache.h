/* Compiled code kept in a directory, under a name that is made from all it depends on: the program,
 * the options, the machine, and the compiler itself. Several processes may use one directory at
 * once: entries appear whole or not at all, and a damaged one counts as missing. */
#ifndef COMPILER_CACHE_H
#define COMPILER_CACHE_H

#include "backend/cpu/cpu.h"
#include "compiler/io.h"
#include "compiler/target.h"

/* Bytes that a directory holds; where they get more, the entries that were not used for longest
 * go. */
#define CACHE_BYTES ((int64_t)1 << 30)

struct cache_key {
    char name[65]; /* SHA-256 in hexadecimal digits */
};

/* The key of what cpu_compile makes of the module (before any pass) with these options; `cpu` and
 * `output` are what it will be called with. False where the code must not be kept: values are left
 * out of the text, or the options ask to see the compiler's work. */
bool cache_key_of(struct hlo_module *module, const struct target_options *options,
                  const struct cpu_options *cpu, enum cpu_output output, struct cache_key *key);
/* The code in memory of its own; false where there is none. */
bool cache_find(const char *directory, const struct cache_key *key, struct cpu_code *code);
/* Makes the directory where it does not exist. False with a fault. */
bool cache_store(const char *directory, const struct cache_key *key, const struct cpu_code *code,
                 int64_t most_bytes, struct fault *fault);

#endif
