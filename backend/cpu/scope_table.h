/* What code generation has already emitted, by key, in nested scopes: a loop's body or a guarded
 * block opens one, and what was added in it is forgotten at its end, since it does not dominate
 * what follows. Keys are short lists of words; the newest entry of a key wins. */
#ifndef BACKEND_CPU_SCOPE_TABLE_H
#define BACKEND_CPU_SCOPE_TABLE_H

#include <stdint.h>

#include "ir/arena.h"

struct scope_entry {
    uint64_t hash;
    const uint64_t *key;
    int nkey;
    int next; /* older entry of the bucket, -1: none */
    void *value;
};

struct scope_table {
    struct arena *arena; /* keys */
    struct scope_entry *entries;
    int count, capacity;
    int *buckets, nbuckets;
    int *scopes, nscopes, scope_capacity;
};

void scope_table_init(struct scope_table *table, struct arena *arena);
void scope_push(struct scope_table *table);
void scope_pop(struct scope_table *table);
/* NULL where there is none. */
void *scope_find(const struct scope_table *table, const uint64_t *key, int nkey);
void scope_add(struct scope_table *table, const uint64_t *key, int nkey, void *value);

#endif
