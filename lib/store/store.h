/* store: objects under keys, where recordings come from and results go: a local directory behind a table of operations that an
 * object store fills as well.
 * A key is a relative path of 1 to 1024 bytes with '/' between its parts; no part is empty, "." or ".."; no control characters.
 * Calls block: use them from reader threads, never from the loop. One store may be used by several threads at once. */
#ifndef BRR_STORE_STORE_H
#define BRR_STORE_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum { STORE_KEY_SIZE = 1025, STORE_TAG_SIZE = 72, STORE_PAGE_MAX = 1000 };

struct store_item {
    const char *key; /* in the page's arena, or the caller's own of store_stat */
    int64_t size_bytes;
    int64_t mtime_ns;         /* since 1970 */
    char tag[STORE_TAG_SIZE]; /* changes whenever the content does */
};

/* Up to STORE_PAGE_MAX items in ascending byte order of their keys. */
struct store_page {
    struct store_item *items;
    size_t count;
    bool more;           /* ask again with after = the last key */
    struct arena memory; /* of keys and items */
};

/* Called now and then while an object is copied; false cancels the copy (ERR_CANCELLED). total_bytes is 0 while it is not known. */
typedef bool store_progress_fn(void *ctx, int64_t done_bytes, int64_t total_bytes);
struct store_watch {
    store_progress_fn *progress; /* NULL: nobody watches */
    void *ctx;
    const char *tag; /* of a get or read: the version that is wanted, another one is ABORTED; NULL or "" = whatever is there */
};

/* A part of an object on its way into memory. */
struct store_piece {
    int64_t offset;
    void *buf;
    size_t len; /* wanted, then what was read: short only at the object's end, 0 past it */
};

struct store;

/* What a kind of store does. Keys arrive checked, prefixes too. Errors name the object as people know it. */
struct store_ops {
    /* One page of the keys that start with prefix ("" = all) and sort after `after` ("" = from the start). The page is empty. */
    int (*list)(struct store *store, const char *prefix, const char *after, struct store_page *page, struct err *err);
    /* Size, time and tag of one object; NOT_FOUND. Of watch only the progress counts. */
    int (*stat)(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch, struct err *err);
    /* Part of an object. */
    int (*read)(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch, struct err *err);
    /* The whole object as the local file path, which is replaced at once or not at all. ABORTED if it changed meanwhile. */
    int (*get)(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err);
    /* The local file path as the whole object: others see the old or the new one, never a part. */
    int (*put)(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err);
    /* End of everything the kind holds; store itself included. */
    void (*close)(struct store *store);
};

/* The first member of every kind's own struct. */
struct store {
    const struct store_ops *ops;
    const char *identity; /* the kind's memory */
};

struct metrics;
/* All but url may be zero. */
struct store_config {
    const char *url;      /* "file:///DIRECTORY" (must exist), or "s3://BUCKET[/PREFIX]" */
    const char *endpoint; /* "http[s]://HOST[:PORT]"; NULL = AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's of the region */
    const char *region;   /* NULL = AWS_REGION, AWS_DEFAULT_REGION, else us-east-1 */
    const char *credentials; /* as in store/s3_credentials.h */
    bool path_style;         /* ENDPOINT/BUCKET instead of BUCKET.ENDPOINT; always so for IP addresses and names without a dot */
    bool anonymous, requester_pays;
    int stall_s;             /* a transfer without a byte for so long is begun again; 0 = 20 */
    struct metrics *metrics; /* of an S3 server: brrd_s3_…; the store is closed before it is freed; NULL = none */
};

/* INVALID says what is accepted. An S3 server is not asked before the first operation; missing credentials are an error here, but
 * those of a metadata service, which are asked for then. */
int store_open_config(const struct store_config *config, struct store **ret, struct err *err);
/* The same of the url alone. */
int store_open(const char *url, struct store **ret, struct err *err);
/* What tells this store from others ("file:///dir", "s3 https://host bucket/prefix"); the store's. */
const char *store_identity(const struct store *store);
void store_close(struct store *store); /* NULL is fine */

/* The operations above, with keys and prefixes checked (INVALID). */
int store_list(struct store *store, const char *prefix, const char *after, struct store_page *ret, struct err *err);
void store_page_done(struct store_page *page);
int store_stat(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch, struct err *err);
int store_read(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch, struct err *err);
int store_get(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err);
int store_put(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err);

#endif
