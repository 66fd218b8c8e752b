/* mirror: the recordings and labels below a prefix of a store as a local directory tree. Files lie in a cache, keyed by store, key
 * and tag, and are pinned while the mirror is open; the tree holds links to them. Files already in the cache are not fetched again;
 * a changed object has another tag and so another key. The thread that opens the mirror drives it; transfers run on their own
 * threads.
 *
 * With head_bytes, opening fetches only the start of each recording and links to it. A reader that needs the whole file calls
 * mirror_take, which fetches it on the calling thread, and mirror_drop afterwards. Only taken files are pinned, so a prefix may be
 * larger than the cache. */
#pragma once

#include "store/cache.h"
#include "store/store.h"

/* What a key says of its object, and which files are parts of a recording; the mirror itself reads no recordings. */
enum mirror_kind {
    MIRROR_OTHER,     /* stays where it is */
    MIRROR_LABEL,     /* a small file that is fetched whole */
    MIRROR_RECORDING, /* one file */
    MIRROR_HEADER,    /* a recording that names other files as its parts */
    MIRROR_EITHER,    /* a recording or a part of one */
    MIRROR_PART,      /* taken only where the same folder has a header or what may be one */
};
enum { MIRROR_PARTS = 4, MIRROR_NAME_SIZE = 256 };
struct mirror_rules {
    enum mirror_kind (*kind)(const char *key);
    /* Names of the parts of the recording at path, in its folder; *ret_n is 0 for a file whose content is no recording. Errors:
     * those of reading it. */
    int (*parts)(const char *path, char names[MIRROR_PARTS][MIRROR_NAME_SIZE], int *ret_n, struct err *err);
};

struct mirror_config {
    const struct mirror_rules *rules;
    struct store *store;
    struct cache *cache;
    const char *prefix; /* a "directory" of the store, with or without a final '/'; "" = the whole store */
    bool or_recording;  /* prefix may also be the key of one recording; the tree then holds only it and its parts, without labels */
    const char *directory;  /* root of the tree; emptied first */
    int64_t max_recordings; /* only the first so many recordings in key order, by their kind; 0 = all */
    size_t head_bytes;      /* bytes of each recording to fetch when opening; 0 = whole recordings */
};
/* Called about every 100 ms on the opening thread; returning false cancels (CANCELLED). Counts are files and bytes. */
struct mirror_progress {
    int64_t done_files, files, done_bytes, bytes;
};
typedef bool mirror_progress_fn(void *ctx, const struct mirror_progress *p);

struct mirror;
/* NOT_FOUND when there is no recording below the prefix. Files fetched before an error stay in the cache. */
int mirror_open(const struct mirror_config *config, mirror_progress_fn *progress, void *ctx, struct mirror **ret, struct err *err);
/* Unpins the files and removes the tree. No recording may be taken any more. Takes NULL. */
void mirror_close(struct mirror *m);
/* The absolute root of the tree; owned by the mirror. */
const char *mirror_directory(const struct mirror *m);

/* The functions below are thread-safe. path is the path of a recording in the tree, below mirror_directory (else NOT_FOUND). */

struct mirror_file {
    int64_t bytes;                 /* size of the whole file */
    char version[DIGEST_HEX_SIZE]; /* differs between stores, keys, tags and sizes */
    int refetched;                 /* how often its head was found corrupt and fetched again since opening */
};
/* Bytes of the whole file, −1 for a path that is no recording of the mirror. */
int64_t mirror_bytes(void *mirror, const char *path);
int mirror_stat(const struct mirror *m, const char *path, struct mirror_file *ret, struct err *err);
/* Returns the path of the whole file in ret_path (CACHE_PATH_SIZE bytes), fetched if the cache does not have it, and pinned until
 * mirror_drop; the parts of a recording are fetched and pinned with it, and stand beside that path under their names; every success
 * needs one drop. A thread that finds no room waits while others hold taken files, so take one at a time. Errors name the object:
 * those of the store, ABORTED when it changed since it was listed, EXHAUSTED when it does not fit the cache, CANCELLED after
 * mirror_stop. A head has no checksum, the whole file has one: when the file does not begin with its head, the head was corrupt; it
 * is replaced here and in the cache, mirror_stat counts it, and values read from the old head are invalid.
 */
int mirror_take(struct mirror *m, const char *path, char *ret_path, struct err *err);
void mirror_drop(struct mirror *m, const char *path);
/* Cancels every current and later take with CANCELLED, within a fraction of a second. */
void mirror_stop(struct mirror *m);
/* The error of the first failed take other than CANCELLED; 0 when none has failed. */
int mirror_failure(struct mirror *m, struct err *err);
