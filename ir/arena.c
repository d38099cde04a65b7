#include "ir/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_MIN = 4 * 1024, BLOCK_MAX = 64 * 1024 * 1024, ALIGN = 16, HUGE_PAGE = 2 << 20 };

struct block {
    struct block *next;
    size_t size;
    _Alignas(ALIGN) char bytes[];
};

struct kept {
    struct kept *next;
    struct arena *arena;
};

struct arena {
    struct block *blocks;
    char *cursor, *end;
    size_t next_block;
    int refs;
    struct kept *kept;
};

struct arena *arena_new(void) {
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena) abort();
    arena->next_block = BLOCK_MIN;
    arena->refs = 1;
    return arena;
}

void arena_free(struct arena *arena) {
    if (!arena || --arena->refs > 0) return;
    for (struct kept *kept = arena->kept; kept; kept = kept->next)
        arena_free(kept->arena);
    for (struct block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

void arena_keep(struct arena *arena, struct arena *other) {
    struct kept *kept = arena_alloc(arena, sizeof *kept);
    *kept = (struct kept){arena->kept, other};
    arena->kept = kept;
    other->refs++;
}

void memory_prefer_huge_pages(void *block, size_t size) {
    uintptr_t begin = ((uintptr_t)block + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)block + size) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* Blocks grow so that large modules need few of them; an object larger than a block gets one of
 * its own, behind the current one, which stays in use. */
static char *new_block(struct arena *arena, size_t size, bool own) {
    struct block *block = calloc(1, sizeof *block + size);
    if (!block) abort();
    memory_prefer_huge_pages(block, sizeof *block + size);
    block->size = size;
    if (own && arena->blocks) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block->bytes;
}

void *arena_alloc(struct arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) abort();
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (size == 0) size = ALIGN;
    if (size <= (size_t)(arena->end - arena->cursor)) {
        void *result = arena->cursor;
        arena->cursor += size;
        return result;
    }
    if (size > arena->next_block / 4) return new_block(arena, size, true);
    char *bytes = new_block(arena, arena->next_block, false);
    arena->cursor = bytes + size;
    arena->end = bytes + arena->next_block;
    if (arena->next_block < BLOCK_MAX) arena->next_block *= 4;
    return bytes;
}

void *arena_array(struct arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) abort();
    return arena_alloc(arena, bytes);
}

void *arena_copy(struct arena *arena, const void *data, size_t size) {
    void *result = arena_alloc(arena, size);
    if (size) memcpy(result, data, size);
    return result;
}

char *arena_strndup(struct arena *arena, const char *text, size_t length) {
    char *result = arena_alloc(arena, length + 1);
    if (length) memcpy(result, text, length);
    return result;
}

char *arena_strdup(struct arena *arena, const char *text) {
    return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) abort();
    char *result = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(result, (size_t)length + 1, format, again);
    va_end(again);
    return result;
}

void *arena_grow(struct arena *arena, void *array, int *capacity, int needed, size_t size) {
    if (needed <= *capacity) return array;
    int grown = *capacity ? *capacity : 4;
    while (grown < needed) {
        if (grown > INT32_MAX / 2) abort();
        grown *= 2;
    }
    void *result = arena_array(arena, (size_t)grown, size);
    if (*capacity) memcpy(result, array, (size_t)*capacity * size);
    *capacity = grown;
    return result;
}
