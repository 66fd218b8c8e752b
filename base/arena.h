/* arena: a bump allocator owned by one request, job or document; freeing the arena frees every allocation made from it.
 * Single allocations cannot be freed. One thread at a time. */
#pragma once
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *head, *spare; /* spare: empty, kept by arena_reset */
    size_t used_bytes;                /* allocated so far */
    size_t limit_bytes;               /* maximum; arena_alloc returns NULL beyond it */
};

/* An empty arena of at most limit_bytes, which has allocated nothing; arena_init makes it in place. */
static inline struct arena arena_of(size_t limit_bytes) { return (struct arena){.limit_bytes = limit_bytes}; }
void arena_init(struct arena *arena, size_t limit_bytes);
/* Frees every allocation; the arena is then empty and may be used again. */
void arena_done(struct arena *arena);
/* Takes every allocation back, and keeps the memory that was in use since the reset before for the next ones: of an arena that is
 * filled again and again the system maps no page anew. */
void arena_reset(struct arena *arena);
void arena_free(struct arena *arena); /* the same for an arena that calloc made; may be NULL */

/* Returns size zeroed bytes aligned to 16, or NULL when the limit or the memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t size);
/* Return copies in the arena, or NULL on exhaustion. */
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t len);
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
