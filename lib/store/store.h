/* store: objects under keys, the source of recordings and the destination of results: a local directory or an object store behind
 * one table of operations. A key is a relative path of 1 to 1024 bytes with '/' between its parts; no part is empty, "." or "..";
 * no control characters. Calls block: make them on reader threads, never on the loop thread. Several threads may use one store at
 * once. */
#pragma once

#include "base/arena.h"
#include "base/base.h"

enum { STORE_KEY_SIZE = 1025, STORE_TAG_SIZE = 72, STORE_PAGE_MAX = 1000 };

struct store_item {
    const char *key; /* in the page's arena; after store_stat the caller's own key */
    int64_t size_bytes;
    int64_t mtime_ns;         /* since 1970 */
    char tag[STORE_TAG_SIZE]; /* changes whenever the content does */
};

/* Up to STORE_PAGE_MAX items in ascending byte order of their keys. */
struct store_page {
    struct store_item *items;
    size_t count;
    bool more;           /* call again with after = the last key */
    struct arena memory; /* of keys and items */
};

/* Called from time to time while an object is copied; returning false cancels the copy (ERR_CANCELLED). total_bytes is 0 while
 * unknown. */
typedef bool store_progress_fn(void *ctx, int64_t done_bytes, int64_t total_bytes);
struct store_watch {
    store_progress_fn *progress; /* may be NULL */
    void *ctx;
    const char *tag; /* for get and read: the wanted version, any other is ABORTED; NULL or "" = the current one */
};

/* A part of an object to be read into memory. */
struct store_piece {
    int64_t offset;
    void *buf;
    size_t len; /* in: bytes wanted; out: bytes read, fewer only at the object's end, 0 past it */
};

struct store;

/* The operations of one kind of store. Keys and prefixes are already checked. Errors name the object. */
struct store_ops {
    /* Fills the empty page with the keys that start with prefix ("" = all) and sort after `after` ("" = from the start). */
    int (*list)(struct store *store, const char *prefix, const char *after, struct store_page *page, struct err *err);
    /* Size, time and tag of one object; NOT_FOUND. Only the progress of watch is used. */
    int (*stat)(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch, struct err *err);
    /* Reads part of an object. */
    int (*read)(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch, struct err *err);
    /* Copies the whole object to the local file path, atomically. ABORTED if the object changed meanwhile. */
    int (*get)(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err);
    /* The most bytes of files that get keeps beside path while it works on an object of so many bytes. NULL: it keeps none. */
    int64_t (*get_beside)(int64_t bytes);
    /* Copies the local file path to the object, atomically for its readers. */
    int (*put)(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err);
    /* Frees everything including store itself. */
    void (*close)(struct store *store);
};

/* The first member of every kind's struct. */
struct store {
    const struct store_ops *ops;
    const char *identity; /* owned by the kind */
};

struct metrics;
/* All members but url may be zero. */
struct store_config {
    const char *url;      /* "file:///DIRECTORY" (must exist), or "s3://BUCKET[/PREFIX]" */
    const char *endpoint; /* "http[s]://HOST[:PORT]"; NULL = AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's of the region */
    const char *region;   /* NULL = AWS_REGION, AWS_DEFAULT_REGION, else us-east-1 */
    const char *credentials; /* as in store/s3_credentials.h */
    bool path_style;         /* ENDPOINT/BUCKET instead of BUCKET.ENDPOINT; always so for IP addresses and names without a dot */
    const char *write;       /* prefix below which jobs may write; "": everywhere; NULL: not set */
    const char *ca_file;     /* PEM: the CAs that its certificate may come from; NULL = AWS_CA_BUNDLE, else the system's */
    bool anonymous, requester_pays;
    int stall_s;             /* a transfer without a byte for this long is restarted; 0 = 20 */
    struct metrics *metrics; /* for the brrd_s3_… families; must outlive the store; NULL = none */
};

/* INVALID names the accepted forms. An S3 server is first contacted by the first operation. Missing credentials are an error here,
 * except those of a metadata service, which is asked at the first operation. */
int store_open(const struct store_config *config, struct store **ret, struct err *err);
/* Distinguishes this store from others ("file:///dir", "s3 https://host bucket/prefix"); owned by the store. */
const char *store_identity(const struct store *store);
void store_close(struct store *store); /* takes NULL */

/* The operations above, with keys and prefixes checked (INVALID). */
int store_list(struct store *store, const char *prefix, const char *after, struct store_page *ret, struct err *err);
void store_page_done(struct store_page *page);
int store_stat(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch, struct err *err);
int store_read(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch, struct err *err);
int store_get(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err);
int store_put(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err);
