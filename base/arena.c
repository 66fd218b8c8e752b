#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t size, used;
    _Alignas(ALIGN) unsigned char data[];
};

void arena_init(struct arena *arena, size_t limit_bytes) { *arena = arena_of(limit_bytes); }

void arena_done(struct arena *arena) {
    while (arena->head) {
        struct arena_block *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    arena->used_bytes = 0;
}

void arena_free(struct arena *arena) {
    if (arena)
        arena_done(arena);
    free(arena);
}

void *arena_alloc(struct arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size > arena->limit_bytes - arena->used_bytes || arena->used_bytes > arena->limit_bytes)
        return NULL;
    struct arena_block *block = arena->head;
    if (!block || block->size - block->used < size) {
        size_t bytes = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        struct arena_block *fresh = calloc(1, sizeof *fresh + bytes);
        if (!fresh)
            return NULL;
        fresh->size = bytes;
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
