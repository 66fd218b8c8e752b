#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_BYTES = 16 * 1024, MAPPED_BYTES = 1024 * 1024, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t size, used, dirty; /* dirty: so much of it may hold what was taken back */
    _Alignas(ALIGN) unsigned char data[];
};

void arena_init(struct arena *arena, size_t limit_bytes) { *arena = arena_of(limit_bytes); }

/* Large ones are mapped: the system gives zeroed pages when they are used, where calloc would clear all of them at once. */
static struct arena_block *new_block(size_t size) {
    const size_t bytes = sizeof(struct arena_block) + size;
    struct arena_block *b =
        size < MAPPED_BYTES ? calloc(1, bytes) : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!b || b == MAP_FAILED)
        return NULL;
    b->size = size;
    return b;
}

static void free_blocks(struct arena_block **first) {
    for (struct arena_block *b; (b = *first);) {
        *first = b->next;
        if (b->size < MAPPED_BYTES)
            free(b);
        else
            munmap(b, sizeof *b + b->size);
    }
}

void arena_done(struct arena *arena) {
    free_blocks(&arena->head);
    free_blocks(&arena->spare);
    arena->used_bytes = 0;
}

void arena_reset(struct arena *arena) {
    free_blocks(&arena->spare);
    for (struct arena_block *b = arena->head; b; b = b->next) {
        b->dirty = b->used > b->dirty ? b->used : b->dirty;
        b->used = 0;
    }
    arena->spare = arena->head;
    arena->head = NULL;
    arena->used_bytes = 0;
}

void arena_free(struct arena *arena) {
    if (arena)
        arena_done(arena);
    free(arena);
}

/* A block with room for `bytes`, a spare one where there is one of that size; NULL: out of memory. Sizes double, so that an arena
 * which is filled a little more each time finds its blocks again. */
static struct arena_block *take_block(struct arena *arena, size_t bytes) {
    size_t size = BLOCK_BYTES;
    while (size < bytes)
        size *= 2;
    for (struct arena_block **link = &arena->spare; *link; link = &(*link)->next)
        if ((*link)->size == size) {
            struct arena_block *block = *link;
            *link = block->next;
            return block;
        }
    return new_block(size);
}

void *arena_alloc(struct arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size > arena->limit_bytes - arena->used_bytes || arena->used_bytes > arena->limit_bytes)
        return NULL;
    struct arena_block *block = arena->head;
    if (!block || block->size - block->used < size) {
        struct arena_block *fresh = take_block(arena, size);
        if (!fresh)
            return NULL;
        if (block && size > BLOCK_BYTES) { /* a big one of its own: keep filling the present block */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->head = fresh;
        }
        block = fresh;
    }
    void *data = block->data + block->used;
    if (block->used < block->dirty)
        memset(data, 0, size);
    block->used += size;
    arena->used_bytes += size;
    return data;
}

char *arena_strndup(struct arena *arena, const char *text, size_t len) {
    char *copy = len < SIZE_MAX ? arena_alloc(arena, len + 1) : NULL;
    if (copy)
        memcpy(copy, text, len);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text) { return arena_strndup(arena, text, strlen(text)); }

char *arena_printf(struct arena *arena, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *text = len >= 0 ? arena_alloc(arena, (size_t)len + 1) : NULL;
    if (text)
        vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}
