/* model_fetch: a model file that lies in a store, on its way to a file of the daemon. */
#ifndef BRR_DAEMON_MODELS_MODEL_FETCH_H
#define BRR_DAEMON_MODELS_MODEL_FETCH_H
#include <stdatomic.h>

#include "daemon/models/source.h"

struct model_fetch {
    const struct source_store *store;
    const char *key;   /* the caller's, part of the URL */
    const char *path;  /* where it goes; the caller's */
    atomic_bool stop;  /* set by any thread: give it up */
    int64_t too_large; /* bytes of an object beyond what a model file may have */
};

#define MODEL_FETCH_MAX_BYTES (INT64_C(16) << 30) /* as of an upload by a client */

/* Whether a model REF is "store://…". */
bool model_fetch_is_url(const char *ref);
/* The store and key of such a REF; asks no server. NOT_FOUND for a store that daemon.yaml lacks, INVALID without a key. */
int model_fetch_locate(const struct source_store *stores, int n, const char *url, const struct source_store **ret_store,
                       const char **ret_key, struct err *err);
/* model_fetch_locate, into a fetch. */
int model_fetch_init(struct model_fetch *f, const struct source_store *stores, int n, const char *url, const char *path,
                     struct err *err);
/* The object as the file at path, whose folder is made, and which is replaced at once or not at all: only by a whole object that
 * has the checksum its store promises and is a model file of ours. What is fetched lies in .fetch/ beside it until then, and is
 * gone after a failure. Blocks; any thread, one per path. Errors name the object: NOT_FOUND, INVALID (no model file), EXHAUSTED
 * (too large, no room), CANCELLED, or what the store answers. */
int model_fetch_run(struct model_fetch *f, struct err *err);
/* What killed fetches left in the folder of such files goes. None may run. */
void model_fetch_clean(const char *folder);

#endif
