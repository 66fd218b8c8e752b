/* partials: the directories of files being written, either by a current writer or left by a suspended or killed one. Internal to
 * store/cache.h, whose lock is held during every call. */
#pragma once

#include "store/cache.h"

enum { PARTIAL_NAME_SIZE = DIGEST_HEX_SIZE + 24 };

/* NAME is the key of the file; when several writers write one key at a time, the later ones append a number. */
struct partial {
    struct partial *newer;
    char name[PARTIAL_NAME_SIZE];
    int64_t bytes;    /* on the volume; valid while nobody writes */
    int64_t promised; /* to the writer: how much of the volume it may use */
    bool busy;
    bool window; /* of the promise */
};

struct partials {
    char dir[CACHE_PATH_SIZE - 140]; /* parent directory of NAME/ */
    struct partial *oldest;
};

/* Reads the existing contents of dir. Partial files of unwanted keys, and those that no writer can continue, are removed. */
int partials_load(struct partials *all, bool (*wanted)(void *ctx, const char *key), void *ctx, struct err *err);
void partials_path(const struct partials *all, const char *name, char path[CACHE_PATH_SIZE]);
struct partial *partials_find(const struct partials *all, const char *name); /* NULL when absent */
/* The new entry is the newest and not busy; NULL when out of memory. */
struct partial *partials_add(struct partials *all, const char *name, int64_t bytes);
/* Frees the entry; the caller removes its directory. */
void partials_forget(struct partials *all, struct partial *p);
/* Removes the oldest partial file without a writer, with its directory; false when there is none. */
bool partials_drop(struct partials *all);
/* Removes the oldest partial files without a writer until only a few tens remain. */
void partials_bound(struct partials *all);

/* Left over or promised. */
int64_t partials_bytes(const struct partials *all);
/* Promised to writers of windows. */
int64_t partials_windows(const struct partials *all);
/* Promised bytes; with `left`, only those not yet written, which reads the volume. */
int64_t partials_promised(const struct partials *all, bool left);
/* Bytes that the files below a directory occupy on the volume; sparse files occupy less than their size. */
int64_t partials_bytes_below(const char *dir);
