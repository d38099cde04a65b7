/* A hash table from names to what they stand for. Names are text of a given length, not
 * NUL-terminated, that outlives the table. */
#ifndef IR_NAME_TABLE_H
#define IR_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct name_entry {
    const char *name;
    size_t length;
    union { /* 0 in a new entry */
        void *value;
        int64_t number;
    };
};

struct name_slot {
    uint32_t hash;
    uint32_t number; /* 1 + that of an entry; 0: free */
};

/* Zeroed, it is an empty table. Entries stand in the order in which they were added, so that names
 * used near each other are near in memory; the hashed part is small. */
struct name_table {
    struct name_entry *entries;
    struct name_slot *slots;
    size_t capacity; /* slots; half as many entries fit */
    uint32_t count;
};

/* The name's entry, or NULL where there is none. */
struct name_entry *name_table_find(const struct name_table *table, const char *name, size_t length);
/* The name's entry, made where there is none. Valid until the next name is added. */
struct name_entry *name_table_add(struct name_table *table, const char *name, size_t length);
/* Leaves an empty table. */
void name_table_clear(struct name_table *table);

/* A hash of `length` bytes, read eight at a time. */
uint64_t name_hash(const char *text, size_t length);

#endif
