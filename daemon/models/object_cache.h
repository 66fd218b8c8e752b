/* object_cache: the cache of what lies in buckets, one for all of the daemon: open while somebody uses it, so that another process
 * may have it in between. Keeps the metrics brrd_cache_… true. Any thread. */
#ifndef BRR_DAEMON_MODELS_OBJECT_CACHE_H
#define BRR_DAEMON_MODELS_OBJECT_CACHE_H
#include "base/metrics.h"
#include "store/cache.h"

struct object_cache;
/* In DIR/objects. max_bytes -1: four fifths of the volume. metrics may be NULL. */
int object_cache_new(const char *dir, int64_t max_bytes, struct metrics *metrics, struct object_cache **ret, struct err *err);
/* Nobody may use it any more. NULL is fine. */
void object_cache_free(struct object_cache *c);
/* Every success needs one leave, before which everything must be unpinned. Errors: cache_open's. */
int object_cache_enter(struct object_cache *c, struct cache **ret, struct err *err);
void object_cache_leave(struct object_cache *c);
/* What happened since the last call into the metrics; enter and leave do so too. */
void object_cache_count(struct object_cache *c);

#endif
