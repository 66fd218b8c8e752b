/* model_fetch: fetches a model file from a store into a file of the daemon. */
#pragma once

#include "daemon/models/places.h"

#define MODEL_FETCH_MAX_BYTES (INT64_C(16) << 30) /* same limit as for uploads by clients */

/* True if a model REF is "store://…". */
bool model_fetch_is_url(const char *ref);
/* Finds the store and key of such a REF without contacting a server. NOT_FOUND for a store that daemon.yaml lacks, INVALID without
 * a key. */
int model_fetch_locate(const struct source_store *stores, int n, const char *url, const struct source_store **ret_store,
                       const char **ret_key, struct err *err);
/* Reads the header of the object that the URL names, which must be that of a model, then fetches the object into the file at path
 * and creates its folder. The file is replaced atomically, and only by a complete object that matches the store's checksum and is a
 * brrd model file. Until then the data is in .fetch/ beside it; it is removed on failure. Any thread may set stop to cancel.
 * Blocks; any thread, one fetch per path. Errors name the object: those of model_fetch_locate, NOT_FOUND, INVALID (not a model
 * file), EXHAUSTED (too large, no room), CANCELLED, or the store's error. */
int model_fetch(const struct places *places, const char *url, const char *path, const atomic_bool *stop, struct err *err);
/* Removes leftovers of killed fetches from a folder of such files. No fetch may be running. */
void model_fetch_clean(const char *folder);
