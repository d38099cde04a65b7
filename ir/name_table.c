#include "ir/name_table.h"

#include <stdlib.h>
#include <string.h>

/* Both halves of the product: the last byte of a value reaches the lowest bits of the hash. */
static uint64_t mix(uint64_t hash, uint64_t value) {
    unsigned __int128 product = (unsigned __int128)(hash ^ value) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load8(const char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t load4(const char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

uint64_t name_hash(const char *text, size_t length) {
    uint64_t hash = length;
    size_t i = 0;
    for (; i + 8 < length; i += 8)
        hash = mix(hash, load8(text + i));
    /* The end may overlap with what has been read: bytes are looked at twice, none is left out. */
    const char *end = text + length;
    if (length >= 8) return mix(hash, load8(end - 8));
    if (length >= 4) return mix(hash, load4(text) << 32 | load4(end - 4));
    uint64_t tail = 0;
    for (; i < length; i++)
        tail = tail << 8 | (unsigned char)text[i];
    return mix(hash, tail);
}

/* The name's slot, or the free one where it belongs. */
static struct name_slot *find_slot(const struct name_table *table, const char *name, size_t length,
                                   uint32_t hash) {
    for (size_t at = hash & (table->capacity - 1);; at = (at + 1) & (table->capacity - 1)) {
        struct name_slot *slot = &table->slots[at];
        if (!slot->number) return slot;
        if (slot->hash != hash) continue;
        const struct name_entry *entry = &table->entries[slot->number - 1];
        if (entry->length == length && memcmp(entry->name, name, length) == 0) return slot;
    }
}

static void grow(struct name_table *table) {
    struct name_slot *old = table->slots;
    size_t count = table->capacity;
    table->capacity = count ? 4 * count : 16;
    table->slots = calloc(table->capacity, sizeof *table->slots);
    table->entries = realloc(table->entries, table->capacity / 2 * sizeof *table->entries);
    if (!table->slots || !table->entries) abort();
    for (size_t i = 0; i < count; i++) {
        if (!old[i].number) continue;
        size_t at = old[i].hash & (table->capacity - 1);
        while (table->slots[at].number)
            at = (at + 1) & (table->capacity - 1);
        table->slots[at] = old[i];
    }
    free(old);
}

struct name_entry *name_table_find(const struct name_table *table, const char *name,
                                   size_t length) {
    if (!table->count) return NULL;
    uint32_t hash = (uint32_t)name_hash(name, length);
    uint32_t number = find_slot(table, name, length, hash)->number;
    return number ? &table->entries[number - 1] : NULL;
}

struct name_entry *name_table_add(struct name_table *table, const char *name, size_t length) {
    if (table->count == table->capacity / 2) grow(table);
    uint32_t hash = (uint32_t)name_hash(name, length);
    struct name_slot *slot = find_slot(table, name, length, hash);
    if (!slot->number) {
        table->entries[table->count] = (struct name_entry){.name = name, .length = length};
        *slot = (struct name_slot){hash, ++table->count};
    }
    return &table->entries[slot->number - 1];
}

void name_table_clear(struct name_table *table) {
    free(table->slots);
    free(table->entries);
    *table = (struct name_table){0};
}
