/* Region allocation: everything a module is made of lives in one arena and dies with it. */
#ifndef IR_ARENA_H
#define IR_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;

/* A new, empty arena. Never NULL: a process that cannot get a first page aborts. */
struct arena *arena_new(void);
/* Drops one reference; the last one frees everything. NULL is fine. */
void arena_free(struct arena *arena);
/* `arena` keeps `other` alive until it is freed itself: for values of one that refer to the other.
 */
void arena_keep(struct arena *arena, struct arena *other);

/* `size` zeroed bytes, aligned to 16. Never NULL. Sizes that come from input must have been checked
 * by the caller: the arena holds structure (bounded by the text), never array data. */
void *arena_alloc(struct arena *arena, size_t size);
/* `count` zeroed elements of `size` bytes; aborts where the product overflows. */
void *arena_array(struct arena *arena, size_t count, size_t size);
void *arena_copy(struct arena *arena, const void *data, size_t size);
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t length);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Most of the time that a large new block costs is its page faults; huge pages have few. A hint
 * only, for memory that has not been touched yet: where it is not taken, nothing changes. */
void memory_prefer_huge_pages(void *block, size_t size);

/* Grows an arena array of `*capacity` elements to hold at least `needed`; returns the array. */
void *arena_grow(struct arena *arena, void *array, int *capacity, int needed, size_t size);

#endif
