/* model_lease: a model file from a store, fetched through the cache and pinned there while it is in use. */
#ifndef BRR_DAEMON_MODELS_MODEL_LEASE_H
#define BRR_DAEMON_MODELS_MODEL_LEASE_H
#include <stdatomic.h>

#include "daemon/models/source.h"

typedef struct uv_loop_s uv_loop_t;

struct model_lease {
    char path[CACHE_PATH_SIZE], sha256[DIGEST_HEX_SIZE]; /* path and SHA-256 of the file */
    /* owned by the lease */
    struct object_cache *objects; /* NULL: nothing is leased */
    struct cache *cache;
    char cache_key[DIGEST_HEX_SIZE];
};

/* Fetches the current object of "store://NAME/KEY" and verifies its checksum. A large object is fetched only if it begins as a
 * model file does; the caller checks whether it is a model of the right kind. stop may be set by any thread to cancel. Blocks; any
 * thread. Errors name the object: NOT_FOUND, INVALID (the URL names no object, or the object is no model), DENIED, DATA_LOSS,
 * EXHAUSTED (too large, no room), CANCELLED, or another error of the store. */
int model_lease_take(const struct source_config *config, const char *url, const atomic_bool *stop, struct model_lease *ret,
                     struct err *err);
/* Unpins the file, which may then be evicted. A zeroed or already dropped lease is allowed. Blocks: the last user closes the cache.
 */
void model_lease_drop(struct model_lease *lease);
/* Same on libuv's thread pool. Loop thread. */
void model_lease_release(uv_loop_t *loop, struct model_lease *lease);

/* Same as model_lease_take on its own thread, and the file must be a model. done is called once, later, on the loop, with the
 * lease, which the callee then owns, or with NULL and the error. *threads counts the threads that have not ended. Functions and
 * done: loop thread. */
struct model_leasing;
typedef void model_lease_done_fn(void *ctx, const struct model_lease *lease, const struct err *err);
struct model_lease_start {
    uv_loop_t *loop;
    const struct source_config *config;
    int *threads;
    model_lease_done_fn *done;
    void *ctx;
};
int model_lease_start(const struct model_lease_start *start, const char *url, struct model_leasing **ret, struct err *err);
/* Call before done: done is then not called, and the fetch is cancelled; its thread ends when the store answers or gives up. */
void model_lease_forget(struct model_leasing *l);

#endif
