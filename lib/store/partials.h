/* partials: directories of files in the making, each being written, or left by a writer that was suspended or killed. The inside of
 * store/cache.h; its lock is held over every call. */
#ifndef BRR_STORE_PARTIALS_H
#define BRR_STORE_PARTIALS_H
#include <stdbool.h>

#include "store/cache.h"

enum { PARTIAL_NAME_SIZE = DIGEST_HEX_SIZE + 24 };

/* NAME is the key of the file; where several write one key at a time, that of the later ones has a number behind it. */
struct partial {
    struct partial *newer;
    char name[PARTIAL_NAME_SIZE];
    int64_t bytes;    /* on the volume, while nobody writes */
    int64_t promised; /* to the writer: what it may take up on the volume */
    bool busy;
};

struct partials {
    char dir[CACHE_PATH_SIZE - 140]; /* the directory of NAME/ */
    struct partial *oldest;
};

/* What is in dir already; that of keys that are not wanted, and what nobody can go on from, is removed. */
int partials_load(struct partials *all, bool (*wanted)(void *ctx, const char *key), void *ctx, struct err *err);
void partials_path(const struct partials *all, const char *name, char path[CACHE_PATH_SIZE]);
struct partial *partials_find(const struct partials *all, const char *name); /* NULL = there is none */
/* The newest, and not busy; NULL when out of memory. */
struct partial *partials_add(struct partials *all, const char *name, int64_t bytes);
/* Freed; its directory is the caller's business. */
void partials_forget(struct partials *all, struct partial *p);
/* The oldest that nobody writes goes, directory and all; false when there is none. */
bool partials_drop(struct partials *all);
/* No more than some tens stay that nobody writes. */
void partials_bound(struct partials *all);

/* Left or promised. */
int64_t partials_bytes(const struct partials *all);
/* Promised; `left`: and not taken up yet, which takes a look at the volume. */
int64_t partials_promised(const struct partials *all, bool left);
/* What the files below a directory take up on the volume; one with holes is larger than that. */
int64_t partials_bytes_below(const char *dir);

#endif
