/* event_cache: the texts of server-sent events, each written once for all clients that follow the same page with the same rights.
 * Bounded: EVENT_CACHE_TEXTS texts of at most EVENT_CACHE_BYTES, the newest ones. Any thread. */
#pragma once

#include "daemon/page/page.h"

enum { EVENT_CACHE_TEXTS = 8, EVENT_CACHE_BYTES = 4 << 20, EVENT_CACHE_PATH = 200 };

struct event_text {
    struct str text;
    atomic_int references; /* the cache's own */
};

struct event_cache;
struct event_cache *event_cache_new(void);        /* NULL when out of memory */
void event_cache_free(struct event_cache *cache); /* texts that clients hold stay; NULL is allowed */
/* page_event for this reader, shared; its statuses have been published. path: shorter than EVENT_CACHE_PATH. NULL: out of memory,
 * or the event is too long. */
const struct event_text *event_cache_get(struct event_cache *cache, const struct page_view *before, const struct page_view *after,
                                         const char *path);
void event_text_drop(const struct event_text *text); /* NULL is allowed */
