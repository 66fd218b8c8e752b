/* model_fetch: fetches a model file from a store into a file of the daemon. */
#ifndef BRR_DAEMON_MODELS_MODEL_FETCH_H
#define BRR_DAEMON_MODELS_MODEL_FETCH_H
#include <stdatomic.h>

#include "daemon/models/source.h"

struct model_fetch {
    const struct source_store *store;
    const char *key;   /* borrowed; part of the URL */
    const char *path;  /* destination file; borrowed */
    atomic_bool stop;  /* any thread may set it to cancel the fetch */
    int64_t too_large; /* size of the object if it exceeds the limit for model files */
};

#define MODEL_FETCH_MAX_BYTES (INT64_C(16) << 30) /* same limit as for uploads by clients */

/* True if a model REF is "store://…". */
bool model_fetch_is_url(const char *ref);
/* Finds the store and key of such a REF without contacting a server. NOT_FOUND for a store that daemon.yaml lacks, INVALID without
 * a key. */
int model_fetch_locate(const struct source_store *stores, int n, const char *url, const struct source_store **ret_store,
                       const char **ret_key, struct err *err);
/* Initialises a fetch; errors as model_fetch_locate. */
int model_fetch_init(struct model_fetch *f, const struct source_store *stores, int n, const char *url, const char *path,
                     struct err *err);
/* Reads the header of the object, which must be that of a model, then fetches the object into the file at path and creates its
 * folder. The file is replaced atomically, and only by a complete object that matches the store's checksum and is a brrd model
 * file. Until then the data is in .fetch/ beside it; it is removed on failure. Blocks; any thread, one fetch per path. Errors name
 * the object: NOT_FOUND, INVALID (not a model file), EXHAUSTED (too large, no room), CANCELLED, or the store's error. */
int model_fetch_run(struct model_fetch *f, struct err *err);
/* Removes leftovers of killed fetches from a folder of such files. No fetch may be running. */
void model_fetch_clean(const char *folder);

#endif
