#include "backend/cpu/scope_table.h"

#include <string.h>

enum { FIRST_BUCKETS = 256 };

void scope_table_init(struct scope_table *table, struct arena *arena) {
    memset(table, 0, sizeof *table);
    table->arena = arena;
    table->nbuckets = FIRST_BUCKETS;
    table->buckets = arena_array(arena, FIRST_BUCKETS, sizeof *table->buckets);
    memset(table->buckets, -1, FIRST_BUCKETS * sizeof *table->buckets);
}

static uint64_t hash_of(const uint64_t *key, int nkey) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < nkey; i++) {
        hash = (hash ^ key[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

static void link_entry(struct scope_table *table, int i) {
    int *bucket = &table->buckets[table->entries[i].hash & (uint64_t)(table->nbuckets - 1)];
    table->entries[i].next = *bucket;
    *bucket = i;
}

static void grow(struct scope_table *table) {
    table->nbuckets *= 4;
    size_t size = (size_t)table->nbuckets * sizeof *table->buckets;
    table->buckets = arena_array(table->arena, (size_t)table->nbuckets, sizeof *table->buckets);
    memset(table->buckets, -1, size);
    for (int i = 0; i < table->count; i++)
        link_entry(table, i);
}

void scope_push(struct scope_table *table) {
    table->scopes = arena_grow(table->arena, table->scopes, &table->scope_capacity,
                               table->nscopes + 1, sizeof *table->scopes);
    table->scopes[table->nscopes++] = table->count;
}

void scope_pop(struct scope_table *table) {
    int keep = table->scopes[--table->nscopes];
    while (table->count > keep) {
        const struct scope_entry *last = &table->entries[--table->count];
        table->buckets[last->hash & (uint64_t)(table->nbuckets - 1)] = last->next;
    }
}

void *scope_find(const struct scope_table *table, const uint64_t *key, int nkey) {
    uint64_t hash = hash_of(key, nkey);
    int i = table->buckets[hash & (uint64_t)(table->nbuckets - 1)];
    for (; i >= 0; i = table->entries[i].next) {
        const struct scope_entry *entry = &table->entries[i];
        if (entry->hash == hash && entry->nkey == nkey &&
            memcmp(entry->key, key, (size_t)nkey * sizeof *key) == 0)
            return entry->value;
    }
    return NULL;
}

void scope_add(struct scope_table *table, const uint64_t *key, int nkey, void *value) {
    if (table->count >= 2 * table->nbuckets) grow(table);
    uint64_t *copy = arena_array(table->arena, (size_t)nkey, sizeof *copy);
    memcpy(copy, key, (size_t)nkey * sizeof *copy);
    table->entries = arena_grow(table->arena, table->entries, &table->capacity, table->count + 1,
                                sizeof *table->entries);
    table->entries[table->count] =
        (struct scope_entry){.hash = hash_of(key, nkey), .key = copy, .nkey = nkey, .value = value};
    link_entry(table, table->count++);
}
