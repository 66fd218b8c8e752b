/* model_lease: a model file that lies in a store, fetched through the cache and pinned there while somebody uses it. */
#ifndef BRR_DAEMON_MODELS_MODEL_LEASE_H
#define BRR_DAEMON_MODELS_MODEL_LEASE_H
#include <stdatomic.h>

#include "daemon/models/source.h"

typedef struct uv_loop_s uv_loop_t;

struct model_lease {
    char path[CACHE_PATH_SIZE], sha256[DIGEST_HEX_SIZE]; /* of the file */
    /* the lease's own */
    struct object_cache *objects; /* NULL: nothing is leased */
    struct cache *cache;
    char cache_key[DIGEST_HEX_SIZE];
};

/* The present object of "store://NAME/KEY", whole and as its store's checksum promises; whether it is a model is the caller's to
 * see. stop, set by any thread, gives it up. Blocks; any thread. Errors name the object: NOT_FOUND, INVALID (no object named),
 * DENIED, DATA_LOSS, EXHAUSTED (too large, no room), CANCELLED, or what else the store answers. */
int model_lease_take(const struct source_config *config, const char *url, const atomic_bool *stop, struct model_lease *ret,
                     struct err *err);
/* It may be evicted from now on. A lease of zero bytes, or one that was dropped, is fine. */
void model_lease_drop(struct model_lease *lease);

/* The same on a thread of its own, and the file must be a model. done is called once, later, on the loop, with the lease, which is
 * the callee's, or NULL and why. Functions and done: loop thread. */
struct model_leasing;
typedef void model_lease_done_fn(void *ctx, const struct model_lease *lease, const struct err *err);
int model_lease_start(uv_loop_t *loop, const struct source_config *config, const char *url, model_lease_done_fn *done, void *ctx,
                      struct model_leasing **ret, struct err *err);
/* Before done: it is not called any more, and the fetch is given up. */
void model_lease_forget(struct model_leasing *l);

#endif
