/* object_cache: the daemon's cache of objects from buckets and of windows, which share its limit. It is open only while in use, so
 * that another process may open it in between. Updates the metrics brrd_cache_…. Any thread. */
#pragma once
#include "base/metrics.h"
#include "store/cache.h"

struct object_cache;
/* Objects are in DIR/objects, windows in DIR/windows. max_bytes -1: four fifths of the volume. metrics may be NULL. */
int object_cache_new(const char *dir, int64_t max_bytes, struct metrics *metrics, struct object_cache **ret, struct err *err);
/* The cache must not be in use. NULL is allowed. */
void object_cache_free(struct object_cache *c);
/* Each successful call needs one object_cache_leave; unpin everything before that. Errors: those of cache_open. */
int object_cache_enter(struct object_cache *c, struct cache **ret, struct err *err);
void object_cache_leave(struct object_cache *c);
/* Adds what happened since the last call to the metrics; enter and leave do so too. */
void object_cache_count(struct object_cache *c);

/* A number for a user of the folder `name` that no other present user of it has, from 0; -1: there are too many. Any thread. */
int object_cache_claim(struct object_cache *c, const char *name);
void object_cache_unclaim(struct object_cache *c, const char *name, int number);
