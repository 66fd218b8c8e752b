/* arena: a bump allocator owned by one request, job or document; freeing it frees all it gave out.
 * One thread at a time. Not for single frees: what needs those uses malloc. */
#ifndef BRR_BASE_ARENA_H
#define BRR_BASE_ARENA_H
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *head;
    size_t used_bytes;  /* handed out so far */
    size_t limit_bytes; /* hard maximum; beyond it arena_alloc returns NULL */
};

/* An empty arena that will never hold more than limit_bytes. Allocates nothing yet. */
void arena_init(struct arena *arena, size_t limit_bytes);
/* Free everything; the arena is empty and usable again. */
void arena_done(struct arena *arena);

/* size bytes, zeroed, aligned to 16. NULL when the limit or memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t size);
/* Copies; NULL on exhaustion. */
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t len);
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
