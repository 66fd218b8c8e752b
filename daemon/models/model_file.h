/* model_file: a model file and what keeps it there while it is in use: nothing, a link of its own, or a lease of its object in the
 * cache. A link is models/SHA256-OWNER.safetensors below paths.results: a hard link, so that neither a job's pruning nor a new
 * upload can remove or replace the weights, and one for each owner, so that whoever lets go removes no other's. Earlier versions
 * had their links in served/ and pinned/, where they are used and removed as well. Any thread; blocks. */
#pragma once

#include "daemon/models/source.h"

typedef struct uv_loop_s uv_loop_t;

enum model_hold { MODEL_FREE, MODEL_LINKED, MODEL_LEASED };
struct model_file {
    char path[CACHE_PATH_SIZE], sha256[DIGEST_HEX_SIZE]; /* sha256: "" unless the file was linked or leased */
    enum model_hold hold;
    /* of a lease */
    struct object_cache *objects;
    struct cache *cache;
    char cache_key[DIGEST_HEX_SIZE];
};

/* True for the name of a link in models/: another file there is not the daemon's. */
bool model_file_is_link(const char *name);
/* Links the file `from`, durably. Where hard links are impossible, *ret is `from` itself, without a hold, or a copy of another
 * owner's link. */
int model_file_link(const char *results_dir, const char *owner, const char *from, struct model_file *ret, struct err *err);
/* Removes the links of this owner, whatever their weights are; one that has none is fine. */
void model_file_unlink(const char *results_dir, const char *owner);
/* A link of these weights, whoever owns it. */
bool model_file_find(const char *results_dir, const char *sha256, char path[CACHE_PATH_SIZE]);
/* The file that a record names; its hold is that of the record. */
struct model_file model_file_recorded(const char *results_dir, const char *path);
/* Fetches the current object of "store://NAME/KEY", verifies its checksum, and pins it in the cache. A large object is fetched only
 * if it begins as a model file does; the caller checks whether it is a model of the right kind. stop may be set by any thread to
 * cancel. Errors name the object: NOT_FOUND, INVALID (the URL names no object, or the object is no model), DENIED, DATA_LOSS,
 * EXHAUSTED (too large, no room), CANCELLED, or another error of the store. */
int model_file_lease(const struct source_config *config, const char *url, const atomic_bool *stop, struct model_file *ret,
                     struct err *err);
/* Gives the hold back: removes the link, or unpins the object, which may then be evicted. A zeroed or already released file is
 * allowed. */
void model_file_release(struct model_file *file);
/* Same on libuv's thread pool. Loop thread. */
void model_file_release_later(uv_loop_t *loop, struct model_file *file);
/* At the start: removes links that a crash has left, which no record names. Weights that have no other name stay, and are logged.
 * below: the path of a link below paths.results, which records may have spelled otherwise. */
void model_file_sweep(const char *results_dir, bool (*named)(void *ctx, const char *below), void *ctx);
